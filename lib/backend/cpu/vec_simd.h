/* SPDX-License-Identifier: MIT */
/*
 * Operations on rows with vectors.  Included once by vec_avx2.c and once by vec_avx512.c,
 * which export the table.
 */

#include "backend/cpu/simd.h"

#include <math.h>

#include "backend/cpu/vec.h"

/* Up to W floats, zeros beyond; the last vector of a row goes through these. */
INLINE vf get(const float *p, size_t left)
{
    return left >= W ? vf_load(p) : vf_load_n(p, left);
}

INLINE void put(float *p, vf a, size_t left)
{
    if (left >= W)
        vf_store(p, a);
    else
        vf_store_n(p, a, left);
}

static void add(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_add(get(a + i, n - i), get(b + i, n - i)), n - i);
}

static void sub(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_sub(get(a + i, n - i), get(b + i, n - i)), n - i);
}

static void divide(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_div(get(a + i, n - i), get(b + i, n - i)), n - i);
}

static void mul(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(get(a + i, n - i), get(b + i, n - i)), n - i);
}

static void scale(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(get(a + i, n - i), vf_set1(s)), n - i);
}

INLINE vf clamp_of(vf a, vf lo, vf hi)
{
    return vf_min(hi, vf_max(lo, a));
}

static void clamp(float *d, const float *a, float lo, float hi, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, clamp_of(get(a + i, n - i), vf_set1(lo), vf_set1(hi)), n - i);
}

/* a / (1 + exp(-slope a)) */
INLINE vf swish_of(vf a, float slope)
{
    return vf_div(a, vf_add(vf_set1(1), vf_exp(vf_mul(vf_set1(-slope), a))));
}

INLINE vf silu_of(vf a)
{
    return vf_div(a, vf_add(vf_set1(1), vf_exp(vf_sub(vf_zero(), a))));
}

static void silu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, silu_of(get(a + i, n - i)), n - i);
}

static void swiglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(silu_of(get(a + i, n - i)), get(b + i, n - i)), n - i);
}

/* x (1 + tanh u) / 2 = x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3) */
INLINE vf gelu_of(vf x)
{
    vf cube = vf_mul(vf_mul(x, x), x);
    vf u = vf_mul(vf_set1(-2 * 0.7978845608f), vf_fma(cube, vf_set1(0.044715f), x));
    return vf_div(x, vf_add(vf_set1(1), vf_exp(u)));
}

static void gelu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, gelu_of(get(a + i, n - i)), n - i);
}

static void geglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(gelu_of(get(a + i, n - i)), get(b + i, n - i)), n - i);
}

static void gelu_erf(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = 0.5f * a[i] * (1.0f + erff(a[i] * 0.7071067812f));
}

static void geglu_erf(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = 0.5f * a[i] * (1.0f + erff(a[i] * 0.7071067812f)) * b[i];
}

static void gelu_quick(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, swish_of(get(a + i, n - i), 1.702f), n - i);
}

static void reglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(vf_max(get(a + i, n - i), vf_zero()), get(b + i, n - i)), n - i);
}

static void swiglu_clamp(float *d, const float *a, const float *b, size_t n, float limit,
                         float slope, float plus)
{
    const vf top = vf_set1(limit), low = vf_set1(-limit);
    for (size_t i = 0; i < n; i += W) {
        const vf x = vf_min(top, get(a + i, n - i));
        const vf y = vf_add(clamp_of(get(b + i, n - i), low, top), vf_set1(plus));
        put(d + i, vf_mul(swish_of(x, slope), y), n - i);
    }
}

static void soft_max(float *d, const float *a, size_t n)
{
    float top = a[0];
    vd sum = vd_zero();
    for (size_t i = 0; i + W <= n; i += W) {
        const float here = vf_top(vf_load(a + i));
        top = here > top ? here : top;
    }
    for (size_t i = n / W * W; i < n; i++)
        top = a[i] > top ? a[i] : top;
    for (size_t i = 0; i < n; i += W) {
        put(d + i, vf_exp(vf_sub(get(a + i, n - i), vf_set1(top))), n - i);
        sum = vd_add(sum, get(d + i, n - i));
    }
    scale(d, d, (float)(1 / vd_sum(sum)), n);
}

static void relu2(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += W) {
        vf x = vf_max(get(a + i, n - i), vf_zero());
        put(d + i, vf_mul(x, x), n - i);
    }
}

static void softcap(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_cap(get(a + i, n - i), vf_set1(s)), n - i);
}

static void rms_norm(float *d, const float *x, const float *w, size_t n, float eps)
{
    vd sum = vd_zero();
    for (size_t i = 0; i < n; i += W)
        sum = vd_add_squares(sum, get(x + i, n - i));
    vf f = vf_set1((float)(1.0 / sqrt(vd_sum(sum) / (double)n + (double)eps)));
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(vf_mul(get(x + i, n - i), f), get(w + i, n - i)), n - i);
}

static void layer_norm(float *d, const float *x, const float *w, const float *b, size_t n,
                       float eps)
{
    vd sum = vd_zero(), squares = vd_zero();
    for (size_t i = 0; i < n; i += W) {
        vf v = get(x + i, n - i);
        sum = vd_add(sum, v);
        squares = vd_add_squares(squares, v);
    }
    double mean = vd_sum(sum) / (double)n, var = vd_sum(squares) / (double)n - mean * mean;
    vf f = vf_set1((float)(1.0 / sqrt((var > 0 ? var : 0) + (double)eps)));
    vf m = vf_set1((float)mean);
    for (size_t i = 0; i < n; i += W) {
        vf v = vf_mul(vf_sub(get(x + i, n - i), m), f);
        if (w)
            v = vf_mul(v, get(w + i, n - i));
        put(d + i, b ? vf_add(v, get(b + i, n - i)) : v, n - i);
    }
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    for (size_t i = 0; i < n; i += W) {
        vf v = get(x + i, n - i);
        vf r = vf_mul(v, get(c + i, n - i));
        put(d + i, vf_fma(vf_swap_pairs(v), get(s + i, n - i), r), n - i);
    }
}

static void rope_halves(float *d, const float *x, const float *c, const float *s, size_t n)
{
    size_t h = n / 2;
    for (size_t i = 0; i < h; i += W) {
        size_t left = h - i;
        vf a = get(x + i, left), b = get(x + h + i, left);
        vf lo = vf_fma(b, get(s + i, left), vf_mul(a, get(c + i, left)));
        vf hi = vf_fma(a, get(s + h + i, left), vf_mul(b, get(c + h + i, left)));
        put(d + i, lo, left);
        put(d + h + i, hi, left);
    }
}

static void to_f16(uint16_t *d, const float *a, size_t n)
{
    size_t i = 0;
    for (; i + W <= n; i += W)
        vf_store_f16(d + i, vf_load(a + i));
    if (i < n) {
        uint16_t last[W];
        vf_store_f16(last, vf_load_n(a + i, n - i));
        memcpy(d + i, last, (n - i) * sizeof *d);
    }
}

#define VEC_TABLE { \
    .add = add, .sub = sub, .mul = mul, .div = divide, .scale = scale, .clamp = clamp, \
    .silu = silu, .swiglu = swiglu, .gelu = gelu, .gelu_erf = gelu_erf, \
    .gelu_quick = gelu_quick, .relu2 = relu2, .reglu = reglu, .geglu = geglu, \
    .geglu_erf = geglu_erf, .swiglu_clamp = swiglu_clamp, .soft_max = soft_max, \
    .softcap = softcap, .rms_norm = rms_norm, .layer_norm = layer_norm, .rope = rope, \
    .rope_halves = rope_halves, .to_f16 = to_f16, \
}
