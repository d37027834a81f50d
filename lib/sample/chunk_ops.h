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

#include <stddef.h>
#include <stdint.h>

#define LM_CHUNK 128
#define LM_BLOCK 32              /* as in row_scan.h */
#define LM_LANES 16

/* What favor needs to know, W 0.3: see lm_favor_init.  Of what does not fit in a float there is
 * also the rest. */
struct lm_favor {
    float share;                 /* probability of a power of 1                           */
    float want, want_rest;
    float base, base_rest;       /* |p - want| of a likely id                             */
    float a, b, g;               /* W + base, W base, -10 / W / (W + base)                */
};

struct lm_chunk_ops {
    /* Which x[i] are from least to most, ascending, into at [n]; returns how many.  n is a multiple
     * of LM_BLOCK. */
    size_t (*find)(const float *x, size_t n, float least, float most, uint32_t *at);

    /* y[i] = least <= x[i] <= most ? x[i] : -inf, n as above; best[b] the largest of a block; y may
     * be x. */
    void (*keep)(const float *x, size_t n, float least, float most, float *y, float *best);

    /* How many of a chunk are least <= x[i] <= most; these in order into y [LM_CHUNK], whose rest
     * may change. */
    uint32_t (*count)(const float *x, float least, float most);
    uint32_t (*pack)(const float *x, float least, float most, float *y);

    /* fall[i] = least <= x[i] <= most ? lm_fall(x[i] * times - max) : -inf */
    void (*fall)(const float *x, float least, float most, double times, double max, float *fall);

    /* w[i] = lm_weight(fall[i]); returns their sum.  lane [LM_LANES], unless NULL: += the sum of
     * w[i] fall[i]. */
    uint64_t (*weigh)(const float *fall, uint64_t *w, double *lane);

    /* p[i] = fall[i] > -inf ? lm_power(fall[i]) : -1; returns the sum of the weights. */
    uint64_t (*powers)(const float *fall, float *p);

    /* p[i] *= share; y[i] a logit that is the higher the nearer p[i] is to want, -inf where p[i] is
     * below 0; best[b] the largest of a block. */
    void (*favor)(const struct lm_favor *f, float *p, float *y, float *best);

    /* b[i] = -fall[i] * per_bit as a whole number, at most `last` */
    void (*buckets)(const float *fall, float per_bit, uint32_t last, uint32_t *b);

    /* Of the logits l = x[i] * times with least <= x[i] <= most: lane [LM_LANES] += the sum of
     * (l - from)^2 if square, else of l; returns how many there are. */
    uint32_t (*spread)(const float *x, float least, float most, double times, double from,
                       int square, double *lane);
};

/*
 * lm_favor_init - for the logits of adaptive_p: 5 - 10 d^2 / (1 + d), d = |p - want| / W, W = 0.3.
 *
 *   base  |p - want| of one of the most likely ids to be drawn
 *
 * Differences alone count, so that of base is subtracted.  With c = |p - want| and u = c - base it
 * leaves -10 / W / (W + base) u (c (W + base) + W base) / (W + c), which single precision gives to
 * 2e-6, and better where u is small.
 */
void lm_favor_init(struct lm_favor *f, double share, double want, double base);

/* Those for this machine. */
const struct lm_chunk_ops *lm_chunk_ops(void);

extern const struct lm_chunk_ops lm_chunk_ops_avx2, lm_chunk_ops_avx512;

#endif
