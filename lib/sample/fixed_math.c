/* SPDX-License-Identifier: MIT */
/*
 * exp: x = k (ln 2 / 16) + r with |r| <= ln 2 / 32, k = 16 e + j; e^x = 2^e 2^(j/16) e^r,
 * e^r by its Taylor polynomial of degree 7 (the first term left out is below 2e-18).
 * ln: x = 2^e m with m in [sqrt 1/2, sqrt 2); s = (m - 1) / (m + 1);
 * ln m = 2 s (1 + s^2/3 + s^4/5 + ...), |s| < 0.1716.
 * ln 2 is split in two so that k * LM_LN2_HIGH is exact.
 */
#include "sample/fixed_math.h"

#include <math.h>
#include <string.h>

#include "base/cpu.h"

const double lm_exp_powers[LM_EXP_STEPS] = {            /* 2^(j/16) */
    0x1.0000000000000p+0, 0x1.0b5586cf9890fp+0, 0x1.172b83c7d517bp+0, 0x1.2387a6e756238p+0,
    0x1.306fe0a31b715p+0, 0x1.3dea64c123422p+0, 0x1.4bfdad5362a27p+0, 0x1.5ab07dd485429p+0,
    0x1.6a09e667f3bcdp+0, 0x1.7a11473eb0187p+0, 0x1.8ace5422aa0dbp+0, 0x1.9c49182a3f090p+0,
    0x1.ae89f995ad3adp+0, 0x1.c199bdd85529cp+0, 0x1.d5818dcfba487p+0, 0x1.ea4afa2a490dap+0,
};

const double lm_exp_terms[LM_EXP_TERMS] = {
    1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0,
};

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
    double k = (x * LM_STEPS_E + LM_ROUNDER) - LM_ROUNDER;
    double r = (x - k * (LM_LN2_HIGH / LM_EXP_STEPS)) - k * (LM_LN2_LOW / LM_EXP_STEPS);
    double p = lm_exp_terms[0];
    for (size_t i = 1; i < LM_EXP_TERMS; i++)
        p = p * r + lm_exp_terms[i];
    int j = (int)k & (LM_EXP_STEPS - 1), e = ((int)k - j) / LM_EXP_STEPS;
    p = p * lm_exp_powers[j];
    return p * power_of_2(e / 2) * power_of_2(e - e / 2);      /* 2^1024 is no double */
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
    return e * LM_LN2_HIGH + (2 * s + (2 * s * p + e * LM_LN2_LOW));
}

uint64_t lm_weight(double d)
{
    return d < LM_WEIGHT_GONE ? 0 : (uint64_t)(lm_exp(d) * LM_WEIGHT_ONE);
}

void lm_weights(const double *d, size_t n, uint64_t *w)
{
    size_t done = 0;
#if defined(__x86_64__)
    if (lm_isa() >= LM_ISA_AVX512) {
        done = n - n % 16;
        lm_weights_avx512(d, done, w);
    } else if (lm_isa() >= LM_ISA_AVX2) {
        done = n - n % 8;
        lm_weights_avx2(d, done, w);
    }
#endif
    for (size_t i = done; i < n; i++)
        w[i] = lm_weight(d[i]);
}
