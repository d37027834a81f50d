/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_FIXED_MATH_H
#define LM_SAMPLE_FIXED_MATH_H

/*
 * exp and ln with the same bits on every IEEE machine.
 *
 * The C library's differ from version to version in the last place, and one such
 * place can decide which token is drawn.  These evaluate fixed polynomials in double,
 * in a fixed order, without fused multiply-add (the build forbids contraction).
 */

#include <stddef.h>
#include <stdint.h>

/* e^x, correct to about 1e-16 of the value; results below 2^-1022 are 0, above the
 * largest double infinite.  x must not be NaN. */
double lm_exp(double x);

/* Natural logarithm of x >= 0, correct to about 2e-16; ln 0 is -inf, ln inf inf. */
double lm_ln(double x);

/* Weights are whole numbers so that their sum does not depend on the order. */
#define LM_WEIGHT_ONE 0x1p40           /* the weight of the best candidate */
#define LM_WEIGHT_GONE (-27.75)        /* below ln 2^-40: weights are 0    */

/* floor(2^40 e^d) for d <= 0: the weight of a logit d below the best one. */
uint64_t lm_weight(double d);

/* w[i] = lm_weight(d[i]), n of them: by the best instructions there are, with the same bits. */
void lm_weights(const double *d, size_t n, uint64_t *w);

/* The same for n a multiple of 8, with AVX2, and of 16, with AVX-512. */
void lm_weights_avx2(const double *d, size_t n, uint64_t *w);
void lm_weights_avx512(const double *d, size_t n, uint64_t *w);

/* e^x = 2^e 2^(j/16) e^r with |r| <= ln 2 / 32: the sixteen powers, and the Taylor
 * coefficients of e^r from r^7 to r^0. */
#define LM_EXP_STEPS 16
#define LM_EXP_TERMS 8
extern const double lm_exp_powers[LM_EXP_STEPS], lm_exp_terms[LM_EXP_TERMS];

#define LM_STEPS_E  (LM_EXP_STEPS * 1.4426950408889634)     /* steps in one of x     */
#define LM_LN2_HIGH 6.93147180369123816490e-01     /* ends in 21 zero bits */
#define LM_LN2_LOW  1.90821492927058770002e-10
#define LM_ROUNDER  0x1.8p52                       /* adding it rounds to a whole number */

#endif
