/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_ATTN_ISA_H
#define LM_CPU_ATTN_ISA_H

/* What the versions of attention share. */

#include "backend/cpu/attn.h"
#include "base/f16.h"
#include "quant/quant.h"

#include <string.h>

#define LM_ATTN_TILE LM_ATTN_PAGE    /* positions between two looks at the maximum */

/* The versions, see lm_attn_fn.  The scalar one defines the result; the others agree with it
 * within the rounding of sums. */
void lm_attn_scalar(const struct lm_attn *a, void *scratch);
void lm_attn_avx2(const struct lm_attn *a, void *scratch);
void lm_attn_avx512(const struct lm_attn *a, void *scratch);

/* A row of K or V as n floats in dst. */
static inline void lm_attn_load(float *dst, const uint8_t *src, uint32_t type,
                                void (*decode)(const void *, float *, size_t), size_t n)
{
    if (type != LM_F32 && type != LM_F16) {
        decode(src, dst, n);
        return;
    }
    if (type == LM_F32) {
        memcpy(dst, src, n * sizeof(float));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, 2);
        dst[i] = lm_f16_load(h);
    }
}

/* The key and the value of position p, or of the p-th chosen one.  Those of the positions after it
 * on the same page follow k_row, v_row bytes apart. */
static inline const uint8_t *lm_attn_key(const struct lm_attn *a, size_t p)
{
    p = a->chosen ? (size_t)a->chosen[p] : p;
    return a->pages ? a->pages[p / LM_ATTN_PAGE] + a->k_off + p % LM_ATTN_PAGE * a->k_row
                    : a->k + p * a->k_row;
}

static inline const uint8_t *lm_attn_value(const struct lm_attn *a, size_t p)
{
    p = a->chosen ? (size_t)a->chosen[p] : p;
    return a->pages ? a->pages[p / LM_ATTN_PAGE] + a->v_off + p % LM_ATTN_PAGE * a->v_row
                    : a->v + p * a->v_row;
}

/* The position of token t < n_tok, and those that it sees: from *first up to, not including,
 * *end.  Chosen ones are counted instead, and the token's own is not known. */
static inline size_t lm_attn_sees(const struct lm_attn *a, size_t t, size_t *first, size_t *end)
{
    if (a->chosen) {
        *first = 0;
        *end = a->n_chosen;
        return 0;
    }
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
