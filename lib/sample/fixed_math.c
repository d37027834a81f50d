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

/* 2^(40 + j/8) in single precision. */
#define ENTRY(bits, j) ((bits) - ((uint32_t)(j) << LM_EXP_SHIFT))
const uint32_t lm_exp_table[LM_EXP_STEPS] = {
    ENTRY(0x53800000, 0), ENTRY(0x538b95c2, 1), ENTRY(0x539837f0, 2), ENTRY(0x53a5fed7, 3),
    ENTRY(0x53b504f3, 4), ENTRY(0x53c5672a, 5), ENTRY(0x53d744fd, 6), ENTRY(0x53eac0c7, 7),
};

/* The Taylor polynomial of degree 4 without its last term, for which the one before it stands in:
 * r^4 is near 0.828 / 16^2 r^2. */
#define LN2 0.6931471805599453
#define C4  (LN2 * LN2 * LN2 * LN2 / 24)
const float lm_exp_terms[3] = {
    (float)(LN2 * LN2 * LN2 / 6), (float)(LN2 * LN2 / 2 + C4 * 0.8284271247461903 / 256),
    (float)LN2,
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

float lm_power(float fall)
{
    if (!(fall >= LM_WEIGHT_GONE))
        return 0;
    const float s = fall + LM_EXP_ROUNDER, r = fall - (s - LM_EXP_ROUNDER);
    const float p = ((lm_exp_terms[0] * r + lm_exp_terms[1]) * r + lm_exp_terms[2]) * r;
    uint32_t bits;
    float power;
    memcpy(&bits, &s, sizeof bits);
    bits = lm_exp_table[bits % LM_EXP_STEPS] + (bits << LM_EXP_SHIFT);
    memcpy(&power, &bits, sizeof power);
    return power + power * p;
}

uint64_t lm_weight(float fall)
{
    return (uint64_t)lm_power(fall);
}
