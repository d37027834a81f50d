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

#endif
