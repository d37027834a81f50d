/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_CHUNK_OPS_H
#define LM_SAMPLE_CHUNK_OPS_H

/*
 * What is done to logits by the hundred thousand: a chunk at a time, by the best instructions
 * there are, with the same bits from all of them.  Where a chunk has fewer logits, the rest
 * are -inf, which weigh nothing.
 *
 * Sums of doubles are kept apart in lanes, by place, so that they too do not depend on the
 * width of the instructions.
 */

#include <stdint.h>

#define LM_CHUNK 64
#define LM_LANES 16

struct lm_chunk_ops {
    /* l[i] = x[i] >= least ? x[i] * times : -inf */
    void (*load)(const float *x, float least, double times, double *l);

    /* Bit i: least <= x[i] <= most, for the LM_CHUNK / 2 of a block. */
    uint32_t (*between)(const float *x, float least, float most);

    /* y[i] = least <= x[i] <= most ? x[i] : -inf, for a block; y may be x.  The largest y[i]. */
    float (*select)(const float *x, float least, float most, float *y);

    /* w[i] = lm_weight(l[i] - max); returns their sum.  lane [LM_LANES], unless NULL: += the sum
     * of w[i] (l[i] - max). */
    uint64_t (*weigh)(const double *l, double max, uint64_t *w, double *lane);

    /* p[i] = w[i] * share; y[i] = 5 - 10 d^2 / (1 + d) with d = |p[i] - want| / 0.3: logits that
     * favour probabilities near `want` (adaptive_p) */
    void (*favor)(const uint64_t *w, double share, double want, float *p, float *y);

    /* b[i] = |l[i] - center| * per_unit as a whole number, at most `last` */
    void (*buckets)(const double *l, double center, double per_unit, uint32_t last, uint32_t *b);

    /* Of the logits above -inf: lane [LM_LANES] += the sum of (l[i] - from)^2 if square, else of
     * l[i]; returns how many there are. */
    uint32_t (*spread)(const double *l, double from, int square, double *lane);
};

/* Those for this machine. */
const struct lm_chunk_ops *lm_chunk_ops(void);

extern const struct lm_chunk_ops lm_chunk_ops_avx2, lm_chunk_ops_avx512;

#endif
