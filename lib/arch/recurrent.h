/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_RECURRENT_H
#define LM_ARCH_RECURRENT_H

/*
 * Recurrent layers, for struct lm_dense's `recurrent`.  Each takes a layer's input h [n_embd, n], a
 * column a token of the batch in order, and appends its nodes to b->graph, which owns them.  It
 * gives F32 [ssm_inner, n] ([n_embd, n] for conv), which the layer's last matrix, LM_SSM_OUT, is
 * multiplied with; or NULL when the graph has failed (b->graph->err: a weight is missing, no
 * memory).  What a token finds of its sequence, and leaves, is at b->places[layer] in the states
 * of lm_build_states: the last conv - 1 inputs of the convolution and the state of the scan,
 * which are read and written by nodes of the graph.
 *
 *   mamba     x, z = Win h;  x = silu(conv(x));  r, b, c = Wx x;  dt = softplus(Wdt r)
 *             y = scan(x, dt, a, b, c, d) silu(z)            (Gu and Dao, 2023)
 *             r, b, c normalized where there are weights for it, or ssm_norms says so
 *   mamba2    z, xbc, dt = Win h;  x, b, c = silu(conv(xbc));  dt = softplus(dt + its bias)
 *             y = norm(scan(x, dt, a, b, c, d) silu(z))      (Dao and Gu, 2024)
 *   delta     q, k, v = silu(conv(Wqkv h));  y = norm(delta(q / |q|, k / |k|, v)) silu(Wgate h)
 *                                                            (Yang et al., 2024)
 *   conv      b, c, x = Win h;  y = c conv(b x)              (Liquid AI, "LFM2", 2025)
 *             to both sides, and without a state, where tokens see later ones
 */

#include "arch/dense.h"

/* Heads of one channel each, with a step [ssm_inner] of their own and decays a [ssm_state,
 * ssm_inner]; r has ssm_rank numbers. */
struct lm_tensor *lm_recurrent_mamba(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
/* ssm_rank heads of ssm_inner / ssm_rank channels, each with one step and one decay; b and c
 * [ssm_state] are shared by the heads of each of ssm_groups groups. */
struct lm_tensor *lm_recurrent_mamba2(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
/* ssm_rank value heads of ssm_inner / ssm_rank, ssm_groups query and key heads of ssm_state; those
 * of a key head stand together. */
struct lm_tensor *lm_recurrent_delta(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
/* The same for value heads in the order of LM_TILE_ROWS. */
struct lm_tensor *lm_recurrent_delta_tiled(struct lm_build *b, uint32_t layer,
                                           struct lm_tensor *x);
/* A convolution alone: no scan, and no state but its inputs. */
struct lm_tensor *lm_recurrent_conv(struct lm_build *b, uint32_t layer, struct lm_tensor *x);

/* For struct lm_arch's `memory`: *out says what a layer remembers of a sequence, in numbers: keys
 * and values where it attends, inputs of the convolution and a state where it is recurrent. */
void lm_recurrent_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                         struct lm_memory_layer *out);

/* For struct lm_arch's `settle`: which layers are recurrent, where no key says it, and checks of
 * the numbers of these.  LM_EDATA naming the key that is missing or out of range. */
int lm_recurrent_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);

#endif
