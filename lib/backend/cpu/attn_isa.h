/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_ATTN_ISA_H
#define LM_CPU_ATTN_ISA_H

/* What the versions of attention share. */

#include "backend/cpu/attn.h"

#define LM_ATTN_TILE LM_ATTN_PAGE    /* positions between two looks at the maximum */

/* The versions, see lm_attn_fn.  The scalar one defines the result; the others agree with it
 * within the rounding of sums. */
void lm_attn_scalar(const struct lm_attn *a, void *scratch);
void lm_attn_avx2(const struct lm_attn *a, void *scratch);
void lm_attn_avx512(const struct lm_attn *a, void *scratch);

/* The first key and value of the tile at position p0, a multiple of LM_ATTN_TILE: those of the
 * positions after it follow k_row, v_row bytes apart. */
static inline const uint8_t *lm_attn_keys(const struct lm_attn *a, size_t p0)
{
    return a->pages ? a->pages[p0 / LM_ATTN_PAGE] + a->k_off : a->k + p0 * a->k_row;
}

static inline const uint8_t *lm_attn_values(const struct lm_attn *a, size_t p0)
{
    return a->pages ? a->pages[p0 / LM_ATTN_PAGE] + a->v_off : a->v + p0 * a->v_row;
}

/* The position of token t < n_tok, and those that it sees: from *first up to, not including,
 * *end. */
static inline size_t lm_attn_sees(const struct lm_attn *a, size_t t, size_t *first, size_t *end)
{
    size_t own = a->whole ? a->pos + t : a->n_kv + t - 1;
    size_t before = !a->window ? own : a->whole ? a->window : a->window - 1;
    *first = own > before ? own - before : 0;
    *end = a->whole ? a->n_kv : own + 1;
    if (a->whole && a->window && own + a->window + 1 < *end)
        *end = own + a->window + 1;
    return own;
}

/* What the distance from position `own` adds to the scores of head h: s[p], p from `from` to
 * to - 1, is that of position p0 + p.  a->bias must be there. */
static inline void lm_attn_add_bias(const struct lm_attn *a, size_t h, size_t own, size_t p0,
                                    float *s, size_t from, size_t to)
{
    const float *bias = a->bias + h * a->bias_head;
    for (size_t p = from; !a->reach && p < to; p++)
        s[p] -= *bias * (float)(p0 + p < own ? own - p0 - p : p0 + p - own);
    for (size_t p = from; a->reach && p < to; p++) {
        size_t at = p0 + p + a->reach;              /* own + distance + reach */
        s[p] += bias[at < own ? 0 : at - own > 2 * a->reach ? 2 * a->reach : at - own];
    }
}

/* Floats of a row of d in scratch: whole vectors of any instruction set. */
static inline size_t lm_attn_pad(size_t d)
{
    return (d + 15) & ~(size_t)15;
}

#endif
