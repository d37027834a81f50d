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

static void gelu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float x = a[i];
        d[i] = 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    }
}

static void gelu_erf(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = 0.5f * a[i] * (1.0f + erff(a[i] * 0.7071067812f));
}

static void relu2(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] > 0 ? a[i] * a[i] : 0;
}

static void softcap(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = s * tanhf(a[i] / s);
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

/* In double, the mean of the squares less the square of the mean loses nothing that a float
 * could tell. */
static void layer_norm(float *d, const float *x, const float *w, const float *b, size_t n,
                       float eps)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    double mean = sum / (double)n, var = squares / (double)n - mean * mean;
    float f = (float)(1.0 / sqrt((var > 0 ? var : 0) + (double)eps)), m = (float)mean;
    for (size_t i = 0; i < n; i++)
        d[i] = (x[i] - m) * f * (w ? w[i] : 1.0f) + (b ? b[i] : 0.0f);
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    for (size_t i = 0; i + 1 < n; i += 2) {
        float a = x[i], b = x[i + 1];
        d[i] = a * c[i] + b * s[i];
        d[i + 1] = b * c[i + 1] + a * s[i + 1];
    }
}

static void rope_halves(float *d, const float *x, const float *c, const float *s, size_t n)
{
    size_t h = n / 2;
    for (size_t i = 0; i < h; i++) {
        float a = x[i], b = x[i + h];
        d[i] = a * c[i] + b * s[i];
        d[i + h] = b * c[i + h] + a * s[i + h];
    }
}

static void to_f16(uint16_t *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = lm_f16_store(a[i]);
}

const struct lm_vec lm_vec_scalar = {
    add, mul, scale, silu, swiglu, gelu, gelu_erf, relu2, softcap, rms_norm, layer_norm, rope,
    rope_halves, to_f16
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
