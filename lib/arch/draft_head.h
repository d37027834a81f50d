/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_DRAFT_HEAD_H
#define LM_ARCH_DRAFT_HEAD_H

/*
 * Draft heads: a layer behind the last that predicts one token more (DeepSeek-AI, "DeepSeek-V3
 * Technical Report", 2024, section 2.2; GGUF files call it nextn).
 *
 * What the output matrix is multiplied with, the model's last result after its norm, is kept of
 * every token: h_i.  With the token after it, t, the head says what follows t:
 *
 *   x = Wjoin [norm(Wembd t), norm(h_i)]           enorm, hnorm, eh_proj
 *   x = layer(x)                                   a layer of the family; it sees the x of the
 *                                                  tokens before in its own cache
 *   h = norm(x)                                    shared_head_norm, or the model's last norm
 *   logits = Woutput h                             shared_head_head, or the model's output
 *
 * Of one that it guesses itself, the head's own h stands for h_i, and so on.
 *
 * What is kept has the layout of a key of one head, [n_embd + 1] F32: h_i, and behind it the
 * token's id as a number, which is exact below 2^24.
 */

#include "arch/build.h"

/* Can a model of the family have one that runs? */
bool lm_draft_supported(const struct lm_arch *a);

/* For builders: with keep_hidden the end of the graph, x [n_embd, n_tokens] being the last layer's
 * result; the graph of the head.  LM_OK or the graph's error. */
int lm_draft_keep(struct lm_build *b, struct lm_tensor *x);
int lm_draft_build(struct lm_build *b);

/* What is remembered of every token with keep_hidden, as a layer. */
void lm_draft_memory(const struct lm_hparams *h, struct lm_memory_layer *out);

#endif
