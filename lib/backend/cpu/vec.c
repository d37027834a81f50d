/* SPDX-License-Identifier: MIT */
#include "backend/cpu/vec.h"

#include <math.h>

#include "base/f16.h"

static void add(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] + b[i];
}

static void sub(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] - b[i];
}

static void mul(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] * b[i];
}

static void divide(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] / b[i];
}

static void scale(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] * s;
}

static void clamp(float *d, const float *a, float lo, float hi, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] < lo ? lo : a[i] > hi ? hi : a[i];
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

static float gelu_of(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static float gelu_erf_of(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
}

static void gelu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = gelu_of(a[i]);
}

static void gelu_erf(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = gelu_erf_of(a[i]);
}

static void gelu_quick(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] / (1.0f + expf(-1.702f * a[i]));
}

static void relu2(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] > 0 ? a[i] * a[i] : 0;
}

static void reglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = (a[i] > 0 ? a[i] : 0) * b[i];
}

static void geglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = gelu_of(a[i]) * b[i];
}

static void geglu_erf(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = gelu_erf_of(a[i]) * b[i];
}

static void swiglu_clamp(float *d, const float *a, const float *b, size_t n, float limit,
                         float slope, float plus)
{
    for (size_t i = 0; i < n; i++) {
        const float x = a[i] > limit ? limit : a[i];
        const float y = b[i] > limit ? limit : b[i] < -limit ? -limit : b[i];
        d[i] = x / (1.0f + expf(-slope * x)) * (y + plus);
    }
}

static void soft_max(float *d, const float *a, size_t n)
{
    float top = a[0];
    double sum = 0;
    for (size_t i = 1; i < n; i++)
        top = a[i] > top ? a[i] : top;
    for (size_t i = 0; i < n; i++)
        sum += (double)(d[i] = expf(a[i] - top));
    scale(d, d, (float)(1 / sum), n);
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
    .add = add, .sub = sub, .mul = mul, .div = divide, .scale = scale, .clamp = clamp,
    .silu = silu, .swiglu = swiglu, .gelu = gelu, .gelu_erf = gelu_erf, .gelu_quick = gelu_quick,
    .relu2 = relu2, .reglu = reglu, .geglu = geglu, .geglu_erf = geglu_erf,
    .swiglu_clamp = swiglu_clamp, .soft_max = soft_max, .softcap = softcap,
    .rms_norm = rms_norm, .layer_norm = layer_norm, .rope = rope, .rope_halves = rope_halves,
    .to_f16 = to_f16,
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
