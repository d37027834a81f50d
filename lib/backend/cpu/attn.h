/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_ATTN_H
#define LM_CPU_ATTN_H

/*
 * Attention of query heads that share one key/value head, on the CPU.
 *
 *   s[p] = scale * q . K[p]          for the positions p that a token may see
 *   out  = sum_p softmax(s)[p] V[p]
 *
 * A bias may be added to scores by distance, and a head may have a sink: one more score that
 * takes part in the softmax and has no value (Xiao et al., 2024).
 *
 * Everything is float; the softmax is taken in one pass over the positions, 64 at
 * a time, counted from position 0, with a running maximum (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018).  So the result for a query
 * does not depend, to the bit, on which tokens or heads are in the same call.
 * Several tokens in one call share the reading of K and V: a prompt is best given
 * 8 or more tokens at a time; calls are independent and may run on any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

#define LM_ATTN_PAGE 64u        /* positions in a page                                    */

struct lm_attn {
    /* Query of token t, head h: d_k floats at q + t * q_tok + h * q_head (in floats). */
    const float *q;
    size_t       q_tok, q_head;
    /* Its result: d_v floats at out + t * out_tok + h * out_head. */
    float       *out;
    size_t       out_tok, out_head;
    size_t       n_tok, n_head;     /* tokens, in order; heads that share this K and V     */
    size_t       d_k, d_v;
    /* The cache comes in pages of LM_ATTN_PAGE positions.  Position p: key at
     * pages[p / LM_ATTN_PAGE] + k_off + p % LM_ATTN_PAGE * k_row bytes, value the same
     * with v_off and v_row. */
    const uint8_t *const *pages;
    size_t       k_off, v_off, k_row, v_row;
    /* Without pages (NULL), in one piece each: key of position p at k + p * k_row. */
    const uint8_t *k, *v;
    uint32_t     k_type, v_type;    /* LM_F32, LM_F16 (quant.h), or another that ...        */
    /* ... these bring to floats: n items, whole blocks. */
    void       (*k_decode)(const void *src, float *dst, size_t n);
    void       (*v_decode)(const void *src, float *dst, size_t n);
    /* Blocks of rows that were transformed before they were stored (lm_hadamard); 0: they were
     * not. */
    size_t       k_block, v_block;
    /* Token t stands at position n_kv + t - 1 and sees those up to its own (n_kv at least 1);
     * those of the last token must all be there.  window, if not 0: only the last `window` of
     * them. */
    size_t       n_kv, window;
    /* `whole`: token t stands at position pos + t and sees all n_kv positions; with a window
     * those at most that far from its own, which must be one of the n_kv. */
    bool         whole;
    size_t       pos;
    /* Added to the score of position p by the token's own position o: bias[h * bias_head +
     * reach + d], d being p - o, but at least -reach and at most reach.  With reach 0 it is a
     * slope, and minus that times the distance is added.  NULL: none. */
    const float *bias;
    size_t       bias_head, reach;
    const float *sinks;             /* a score for each head, not scaled; NULL: none       */
    /* Positions, ascending, in the place of those up to its own that the one token (n_tok 1) sees;
     * no window, not whole, no bias.  NULL: all. */
    const int32_t *chosen;
    size_t       n_chosen;
    float        scale;
    float        softcap;           /* scores become softcap tanh(score / softcap); 0: not   */
};

/* Bytes of scratch for heads of these sizes and calls of at most n_tok tokens of n_head
 * heads. */
size_t lm_attn_scratch(size_t n_tok, size_t n_head, size_t d_k, size_t d_v);

/* Writes a's results, n_tok * n_head rows of d_v floats; reads what a points to, keeps nothing,
 * cannot fail.  scratch: lm_attn_scratch bytes, aligned to 64, the thread's own. */
typedef void lm_attn_fn(const struct lm_attn *a, void *scratch);

/* The fastest that needs at most isa; never NULL. */
lm_attn_fn *lm_attn_find(enum lm_isa isa);

#endif
