/* SPDX-License-Identifier: MIT */
#include "backend/cpu/vec.h"

#include <math.h>

#include "base/f16.h"

static void add(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] + b[i];
}

static void mul(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] * b[i];
}

static void scale(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] * s;
}

static void silu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] / (1.0f + expf(-a[i]));
}

static void swiglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] / (1.0f + expf(-a[i])) * b[i];
}

static void rms_norm(float *d, const float *x, const float *w, size_t n, float eps)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    float f = (float)(1.0 / sqrt(sum / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        d[i] = x[i] * f * w[i];
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        float a = x[i], b = x[i + 1];
        d[i] = a * c[i] + b * s[i];
        d[i + 1] = b * c[i + 1] + a * s[i + 1];
    }
}

static void to_f16(uint16_t *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = lm_f16_store(a[i]);
}

const struct lm_vec lm_vec_scalar = {
    add, mul, scale, silu, swiglu, rms_norm, rope, to_f16
};

const struct lm_vec *lm_vec_find(enum lm_isa isa)
{
#if defined(__x86_64__)
    if (isa >= LM_ISA_AVX512)
        return &lm_vec_avx512;
    if (isa >= LM_ISA_AVX2)
        return &lm_vec_avx2;
#endif
    (void)isa;
    return &lm_vec_scalar;
}
