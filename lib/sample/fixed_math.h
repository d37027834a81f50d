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

#include <float.h>
#include <stdint.h>

/* e^x, correct to about 6e-16 of the value; results below 2^-1022 are 0, above the
 * largest double infinite.  x must not be NaN. */
double lm_exp(double x);

/* Natural logarithm of x >= 0, correct to about 2e-16; ln 0 is -inf, ln inf inf. */
double lm_ln(double x);

/*
 * Weights: how likely a token is beside the best one, as whole numbers, so that their sum does not
 * depend on the order.
 *
 * The fall of a logit is what it is below the best, in bits: (l - max) / ln 2 in single precision,
 * and finite, since -inf stands for no candidate.
 * Its power is 2^40 * 2^fall, to 2e-7 of its value, or 0 where that is below 1; its weight is the
 * whole part.  Single precision is enough, and twice as fast as double: a chance is that of the
 * exact definition to 3e-7, and errors do not add up in a sum.
 *
 * Where l and max are floats themselves, their difference in single precision is the same.
 */
#define LM_WEIGHT_ONE  0x1p40          /* the weight of the best candidate */
#define LM_WEIGHT_GONE (-40.0f)        /* falls below it weigh nothing     */
#define LM_LOG2_E      1.4426950408889634

static inline float lm_fall(double d)
{
    const float fall = (float)d * (float)LM_LOG2_E;
    return fall > -FLT_MAX ? fall : -FLT_MAX;
}

/* The power and the weight of a fall. */
float    lm_power(float fall);
uint64_t lm_weight(float fall);

/* How: fall = k/8 + r, k = 8 e + j, |r| <= 1/16; 2^r - 1 = ((c[0] r + c[1]) r + c[2]) r, and
 * 2^(40 + j/8) from the table, whose entries lack what j adds to them when k is added to their
 * exponent: bits of floats. */
#define LM_EXP_STEPS   8
#define LM_EXP_SHIFT   20                                /* bits of a float below those of k */
#define LM_EXP_ROUNDER (0x1.8p23f / LM_EXP_STEPS)        /* adding it rounds to a whole number of
                                                            steps, the lowest bits of the sum */
extern const uint32_t lm_exp_table[LM_EXP_STEPS];
extern const float    lm_exp_terms[3];

#endif
