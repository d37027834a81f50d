/* SPDX-License-Identifier: MIT */
/*
 * exp: x = k ln 2 + r with |r| <= ln 2 / 2; e^x = 2^k e^r, e^r by its Taylor
 * polynomial of degree 13 (the first term left out is below 5e-18).
 * ln: x = 2^e m with m in [sqrt 1/2, sqrt 2); s = (m - 1) / (m + 1);
 * ln m = 2 s (1 + s^2/3 + s^4/5 + ...), |s| < 0.1716.
 * ln 2 is split in two so that k * LN2_HIGH is exact.
 */
#include "sample/fixed_math.h"

#include <math.h>
#include <string.h>

const double lm_weight_powers[LM_EXP_STEPS] = {         /* 2^(40 + j/16) */
    0x1.0000000000000p+40, 0x1.0b5586cf9890fp+40, 0x1.172b83c7d517bp+40, 0x1.2387a6e756238p+40,
    0x1.306fe0a31b715p+40, 0x1.3dea64c123422p+40, 0x1.4bfdad5362a27p+40, 0x1.5ab07dd485429p+40,
    0x1.6a09e667f3bcdp+40, 0x1.7a11473eb0187p+40, 0x1.8ace5422aa0dbp+40, 0x1.9c49182a3f090p+40,
    0x1.ae89f995ad3adp+40, 0x1.c199bdd85529cp+40, 0x1.d5818dcfba487p+40, 0x1.ea4afa2a490dap+40,
};

/* The Taylor polynomial of degree 5 of 2^r, its last term spread over the others by the Chebyshev
 * polynomial of that degree. */
#define LN2 0.6931471805599453
#define A2  (LN2 * LN2 / (4 * LM_EXP_STEPS * LM_EXP_STEPS))      /* the most that (r ln 2)^2 is */
const double lm_weight_terms[LM_WEIGHT_TERMS] = {
    LN2 * LN2 * LN2 * LN2 / 24, LN2 * LN2 * LN2 * (1.0 / 6 + A2 / 96), LN2 * LN2 / 2,
    LN2 * (1 - A2 * A2 / 384), 1,
};

#define WHOLE    0x1.8p52               /* adding it rounds to a whole number */
#define LN2_HIGH 6.93147180369123816490e-01             /* ends in 21 zero bits */
#define LN2_LOW  1.90821492927058770002e-10

static double power_of_2(int k)
{
    uint64_t u = (uint64_t)(k + 1023) << 52;
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

double lm_exp(double x)
{
    if (x > 709.782712893384)
        return INFINITY;
    if (x < -708.39641853226408)
        return 0;
    double k = (x * LM_LOG2_E + WHOLE) - WHOLE;
    double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double p = 1.0 / 6227020800;                            /* 1 / 13! */
    static const double terms[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0,
    };
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        p = p * r + terms[i];
    int e = (int)k;                           /* 2^1024 itself is no double */
    return p * power_of_2(e / 2) * power_of_2(e - e / 2);
}

double lm_ln(double x)
{
    uint64_t u;
    int e = 0;
    if (x == 0)
        return -INFINITY;
    if (!(x < INFINITY))
        return x;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        e = -54;
    }
    memcpy(&u, &x, sizeof u);
    e += (int)(u >> 52) - 1023;
    u = (u & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
    double m;
    memcpy(&m, &u, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1) / (m + 1), z = s * s, p = 1.0 / 25;
    for (int i = 23; i > 1; i -= 2)
        p = p * z + 1.0 / i;
    p = p * z;
    return e * LN2_HIGH + (2 * s + (2 * s * p + e * LN2_LOW));
}

uint64_t lm_weight(double d)
{
    if (!(d >= LM_WEIGHT_GONE))
        return 0;
    const double t = d * LM_LOG2_E, k = (t + LM_ROUNDER) - LM_ROUNDER, r = t - k;
    double p = lm_weight_terms[0];
    for (int i = 1; i < LM_WEIGHT_TERMS; i++)
        p = p * r + lm_weight_terms[i];
    const int step = (int)(k * LM_EXP_STEPS), j = step & (LM_EXP_STEPS - 1);
    return (uint64_t)(p * lm_weight_powers[j] * power_of_2((step - j) / LM_EXP_STEPS));
}
