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

#include <stdint.h>

/* e^x, correct to about 6e-16 of the value; results below 2^-1022 are 0, above the
 * largest double infinite.  x must not be NaN. */
double lm_exp(double x);

/* Natural logarithm of x >= 0, correct to about 2e-16; ln 0 is -inf, ln inf inf. */
double lm_ln(double x);

/* Weights are whole numbers so that their sum does not depend on the order. */
#define LM_WEIGHT_ONE 0x1p40           /* the weight of the best candidate */
#define LM_WEIGHT_GONE (-27.75)        /* below ln 2^-40: weights are 0    */

/* floor(2^40 e^d) for d <= 0, e^d to 3e-12 of its value: the weight of a logit d below the best. */
uint64_t lm_weight(double d);

/* How: d / ln 2 = k/16 + r, k = 16 e + j, |r| <= 1/32; 2^r by the polynomial with these terms from
 * r^4 to r^0, times 2^(40 + j/16) from the table and 2^e. */
#define LM_EXP_STEPS    16
#define LM_WEIGHT_TERMS 5
extern const double lm_weight_powers[LM_EXP_STEPS], lm_weight_terms[LM_WEIGHT_TERMS];

#define LM_LOG2_E  1.4426950408889634
#define LM_ROUNDER (0x1.8p52 / LM_EXP_STEPS)   /* adding it rounds to a whole number of steps, which
                                                  the lowest bits of the sum hold              */

#endif
