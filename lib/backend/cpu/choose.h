/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_CHOOSE_H
#define LM_CPU_CHOOSE_H

/*
 * Which positions of a cache a token is to look at, on the CPU (lm_choose): what each of them
 * scores, and which score most.
 *
 *   out[p] = sum_h shares[h] max(q_h . K[p], 0)
 *
 * Everything is float.  The score of a position depends, to the bit, on nothing but the query and
 * its key.  The scalar version defines the result; the others agree with it within the rounding
 * of sums.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

struct lm_scoring {
    const float *q;                 /* query of head h: d floats at q + h * q_head          */
    size_t       q_head;
    const float *shares;            /* [n_head]                                            */
    size_t       n_head, d;
    /* The keys, as in struct lm_attn. */
    const uint8_t *const *pages;
    size_t       k_off, k_row;
    uint32_t     k_type;
    void       (*k_decode)(const void *src, float *dst, size_t n);
    size_t       k_block;
    /* Positions whose scores are wanted, `first` a multiple of LM_ATTN_PAGE; out is that of
     * position 0. */
    size_t       first, end;
    float       *out;
};

/* Bytes of scratch for that many heads of d floats. */
size_t lm_scoring_scratch(size_t n_head, size_t d);

/* Writes out[first .. end - 1]; cannot fail.  scratch: lm_scoring_scratch bytes, aligned to 64, the
 * thread's own. */
typedef void lm_scoring_fn(const struct lm_scoring *s, void *scratch);

/* The fastest that needs at most isa; never NULL. */
lm_scoring_fn *lm_scoring_find(enum lm_isa isa);

/* The k positions of the highest of n scores, k at most n, in ascending order; of equal ones the
 * first; a NaN counts as if it were outside of all numbers, by its sign. */
void lm_choose_best(const float *scores, size_t n, size_t k, int32_t *out);

/* For choose.c alone. */
lm_scoring_fn lm_scoring_avx2, lm_scoring_avx512;

#endif
