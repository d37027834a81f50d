/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)

#include "backend/cpu/vec.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

/* Up to eight floats, zeros beyond; the last vector of a row goes through these. */
static __m256 load(const float *p, size_t left)
{
    if (left >= 8)
        return _mm256_loadu_ps(p);
    float t[8] = {0};
    memcpy(t, p, left * sizeof *p);
    return _mm256_loadu_ps(t);
}

static void store(float *p, __m256 v, size_t left)
{
    float t[8];
    if (left >= 8) {
        _mm256_storeu_ps(p, v);
        return;
    }
    _mm256_storeu_ps(t, v);
    memcpy(p, t, left * sizeof *p);
}

static void add(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(d + i, _mm256_add_ps(load(a + i, n - i), load(b + i, n - i)), n - i);
}

static void mul(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(d + i, _mm256_mul_ps(load(a + i, n - i), load(b + i, n - i)), n - i);
}

static void scale(float *d, const float *a, float s, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(d + i, _mm256_mul_ps(load(a + i, n - i), _mm256_set1_ps(s)), n - i);
}

/* 2^k for whole k in -252 .. 254, as a product of two normal powers. */
static __m256 pow2(__m256 y, __m256 k)
{
    __m256i n = _mm256_cvtps_epi32(k), half = _mm256_srai_epi32(n, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 b = _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(y, a), b);
}

/*
 * exp(x) = 2^k e^r with k = round(x / ln 2), |r| <= ln 2 / 2; e^r by its Taylor polynomial
 * of degree 7, whose error is below half a unit in the last place there.  ln 2 is
 * subtracted in two parts.  Too small and too large end in 0 and infinity.
 */
static __m256 exp256(__m256 x)
{
    /* A NaN in the first operand of min and max would be lost, in the second it stays. */
    x = _mm256_max_ps(_mm256_set1_ps(-128.0f), _mm256_min_ps(_mm256_set1_ps(128.0f), x));
    __m256 k = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(k, _mm256_set1_ps(0.693359375f), x);
    r = _mm256_fnmadd_ps(k, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.0f / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    return pow2(p, k);
}

static __m256 silu256(__m256 a)
{
    __m256 e = exp256(_mm256_sub_ps(_mm256_setzero_ps(), a));
    return _mm256_div_ps(a, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

static void silu(float *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(d + i, silu256(load(a + i, n - i)), n - i);
}

static void swiglu(float *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        store(d + i, _mm256_mul_ps(silu256(load(a + i, n - i)), load(b + i, n - i)), n - i);
}

static double sum4(__m256d v)
{
    double t[4];
    _mm256_storeu_pd(t, v);
    return (t[0] + t[2]) + (t[1] + t[3]);
}

static void rms_norm(float *d, const float *x, const float *w, size_t n, float eps)
{
    __m256d lo = _mm256_setzero_pd(), hi = lo;
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load(x + i, n - i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        lo = _mm256_fmadd_pd(a, a, lo);
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    double mean = sum4(_mm256_add_pd(lo, hi)) / (double)n;
    __m256 f = _mm256_set1_ps((float)(1.0 / sqrt(mean + (double)eps)));
    for (size_t i = 0; i < n; i += 8)
        store(d + i, _mm256_mul_ps(_mm256_mul_ps(load(x + i, n - i), f), load(w + i, n - i)),
              n - i);
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = load(x + i, n - i), swapped = _mm256_permute_ps(v, 0xb1);
        __m256 r = _mm256_mul_ps(v, load(c + i, n - i));
        store(d + i, _mm256_fmadd_ps(swapped, load(s + i, n - i), r), n - i);
    }
}

static void to_f16(uint16_t *d, const float *a, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        __m128i h = _mm256_cvtps_ph(load(a + i, n - i),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        if (n - i >= 8) {
            _mm_storeu_si128((__m128i *)(d + i), h);
        } else {
            uint16_t t[8];
            _mm_storeu_si128((__m128i *)t, h);
            memcpy(d + i, t, (n - i) * sizeof *d);
        }
    }
}

const struct lm_vec lm_vec_avx2 = {
    add, mul, scale, silu, swiglu, rms_norm, rope, to_f16
};

#else
typedef int lm_no_vec_avx2;         /* a file may not be empty */
#endif
