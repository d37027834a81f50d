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

static void rms_norm(float *d, const float *x, const float *w, size_t n, float eps)
{
    vd sum = vd_zero();
    for (size_t i = 0; i < n; i += W)
        sum = vd_add_squares(sum, get(x + i, n - i));
    vf f = vf_set1((float)(1.0 / sqrt(vd_sum(sum) / (double)n + (double)eps)));
    for (size_t i = 0; i < n; i += W)
        put(d + i, vf_mul(vf_mul(get(x + i, n - i), f), get(w + i, n - i)), n - i);
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    for (size_t i = 0; i < n; i += W) {
        vf v = get(x + i, n - i);
        vf r = vf_mul(v, get(c + i, n - i));
        put(d + i, vf_fma(vf_swap_pairs(v), get(s + i, n - i), r), n - i);
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

#define VEC_TABLE { add, mul, scale, silu, swiglu, rms_norm, rope, to_f16 }
