/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_FIT_H
#define LM_QUANT_FIT_H

/*
 * The searches behind the quantizers: given n floats x and their weights w, find a scale
 * (and a minimum) and small integers so that the weighted error is small.
 *
 * Bytes of files depend on every rounding here, so the formulas are followed to the
 * letter: float arithmetic, each operation rounded, sums in order of index, nothing
 * fused or regrouped.  Where several sub-blocks are fitted in one call they do not
 * see each other, and versions for wider instructions put one sub-block in each lane:
 * same operations, same order, same result.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

/* Most sub-blocks that one call of struct lm_fit's functions takes, and most of those without
 * a search: extremes, range, the same with four bits, bytes and halves.  What those write for
 * each block has room for a multiple of 16. */
#define LM_FIT_COUNT 16
#define LM_FIT_MANY  64

/* An affine fit: x ~ scale * code - min, code in 0..top, min >= 0.  Inverse scales
 * (start + step * k + top) / (range of x) for k = 0..steps are tried.  n is 16 or 32. */
struct lm_affine {
    int   n, top;
    float start, step;
    int   steps;
    bool  absolute;     /* sum of w * |error| decides instead of w * error^2 */
};

/* Fits of `count` sub-blocks of n floats: x and w are [count][n], codes [count][n]. */
struct lm_fit {
    void (*affine)(const struct lm_affine *how, int count, const float *x, const float *w,
                   float *scale, float *min, uint8_t *codes);
    /* x ~ scale * (code - half), code in 0 .. 2 * half - 1.  n is 16 or 32. */
    void (*symmetric)(int n, int half, int count, const float *x, const float *w,
                      float *scale, uint8_t *codes);
    /* As lm_fit_positive.  n is 8, 16 or 32. */
    void (*positive)(int n, int top, int count, const float *x, const float *w, float *scale,
                     uint8_t *codes);
    /* Without weights, for n = 32: the element of largest magnitude (the first such)
     * lands on code 0: d = element / -half, x ~ d * (code - half).  Zeros: d = -0. */
    void (*extremes)(int half, int count, const float *x, float *d, uint8_t *codes);
    /* Without weights, for n = 32: the range from the lowest number, min (of equals the
     * first), to the highest in `top` steps of d. */
    void (*range)(int top, int count, const float *x, float *d, float *min, uint8_t *codes);
    /* The same two with codes of four bits, packed as by nibbles. */
    void (*extremes4)(int count, const float *x, float *d, uint8_t *dst, size_t step);
    void (*range4)(int count, const float *x, float *d, float *min, uint8_t *dst, size_t step);
    /* As lm_fit_descent, for n = 16; count may be LM_FIT_COUNT times LM_FIT_COUNT. */
    void (*descent)(int half, int count, const float *x, float *scale, uint8_t *codes);
    /* x ~ scale * lm_fit_curve[code], for n = 32; the codes come from the next. */
    void (*curve)(int count, const float *x, const float *w, float *scale);
    /* The codes nearest to inv * x, of equals the higher. */
    void (*curve_codes)(int count, const float *x, const float *inv, uint8_t *codes);
    /* For n = 32: x ~ d * q with d = largest magnitude / 127, rounded half away from 0. */
    void (*bytes)(int count, const float *x, float *d, int8_t *q);
    /* w = importance * sqrt(sigma2 + x * x), n weights, a multiple of 16. */
    void (*weights)(int n, const float *x, const float *importance, float sigma2, float *w);
    /* Codes of n numbers, a multiple of 16, for x + add = (code + lo) * scale, with
     * code + lo in lo..hi. */
    void (*recode)(int n, const float *x, float add, float scale, int lo, int hi,
                   uint8_t *codes);
    /* The element of largest magnitude of n, the first of equals. */
    float (*extreme)(int n, const float *x);
    /* Low bytes of n products inv * x: rounded half away from 0; to the nearest, ties to even,
     * and 127 at most.  Their magnitudes are below 2^22. */
    void (*rounded)(int n, const float *x, float inv, int8_t *q);
    void (*nearest)(int n, const float *x, float inv, int8_t *q);
    /* Blocks of 128: the sum of magnitudes, in order, and a bit for each number that is not
     * below 0; bits move on by step bytes. */
    void (*signs)(int count, const float *x, float *sum, uint8_t *bits, size_t step);
    /* Of n numbers, the code whose value in lm_fit_e2m1 times scale is nearest, the lowest of
     * equals; scale is finite and not below 0. */
    void (*e2m1)(int n, const float *x, float scale, uint8_t *codes);
    /* f16 of finite floats; both arrays have a multiple of 16 places. */
    void (*halves)(int count, const float *v, uint16_t *h);
    /* Of blocks of 32 codes, the low four bits of code j and of code j + 16 in byte j of dst,
     * and bit 4 of code e as bit e; dst and high move on by step bytes.  high may be NULL. */
    void (*nibbles)(int count, const uint8_t *codes, uint8_t *dst, uint8_t *high, size_t step);
};

/* The values of iq4_nl and iq4_xs: ascending, closer around 0. */
extern const float lm_fit_curve[16];

/* Twice the values of four-bit floats of the form E2M1: the second eight are negative. */
extern const float lm_fit_e2m1[16];

/* The functions for an instruction set; scalar ones are the definition.  n is a multiple of 16
 * where nothing else is said. */
const struct lm_fit *lm_fit(enum lm_isa isa);

/* One symmetric fit, of any n. */
float lm_fit_symmetric(int n, int half, const float *x, const float *w, uint8_t *codes);

/* Symmetric fit of n <= 32 floats with weights x * x, refined code by code. */
float lm_fit_descent(int n, int half, const float *x, uint8_t *codes);

/* x ~ scale * code, code in 0..top: for scales of sub-blocks.  A negative code wraps to a
 * byte, as the format's reference has it. */
float lm_fit_positive(int n, int top, const float *x, const float *w, uint8_t *codes);

extern const struct lm_fit lm_fit_scalar;
#if defined(__x86_64__)
extern const struct lm_fit lm_fit_avx2, lm_fit_avx512;
#endif

#endif
