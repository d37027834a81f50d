/* SPDX-License-Identifier: MIT */
#if defined(__x86_64__)

#include "backend/cpu/vec.h"

#include <immintrin.h>
#include <math.h>

/* The lanes of the last, partial vector. */
static __mmask16 tail(size_t left)
{
    return left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
}

#define EACH(i, m, n) \
    for (size_t i = 0; i < (n); i += 16) \
        for (__mmask16 m = tail((n) - i), once = 1; once; once = 0)

static void add(float *d, const float *a, const float *b, size_t n)
{
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m, _mm512_add_ps(_mm512_maskz_loadu_ps(m, a + i),
                                                      _mm512_maskz_loadu_ps(m, b + i)));
}

static void mul(float *d, const float *a, const float *b, size_t n)
{
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, a + i),
                                                      _mm512_maskz_loadu_ps(m, b + i)));
}

static void scale(float *d, const float *a, float s, size_t n)
{
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m, _mm512_mul_ps(_mm512_maskz_loadu_ps(m, a + i),
                                                      _mm512_set1_ps(s)));
}

/*
 * exp(x) = 2^k e^r with k = round(x / ln 2), |r| <= ln 2 / 2; e^r by its Taylor polynomial
 * of degree 7, whose error is below half a unit in the last place there.  ln 2 is
 * subtracted in two parts.  Too small and too large end in 0 and infinity.
 */
static __m512 exp512(__m512 x)
{
    const __m512 log2e = _mm512_set1_ps(1.44269504f);
    /* A NaN in the first operand of min and max would be lost, in the second it stays. */
    x = _mm512_max_ps(_mm512_set1_ps(-128.0f), _mm512_min_ps(_mm512_set1_ps(128.0f), x));
    __m512 k = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT |
                                    _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(k, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(k, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.0f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, k);
}

static __m512 silu512(__m512 a)
{
    __m512 e = exp512(_mm512_sub_ps(_mm512_setzero_ps(), a));
    return _mm512_div_ps(a, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

static void silu(float *d, const float *a, size_t n)
{
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m, silu512(_mm512_maskz_loadu_ps(m, a + i)));
}

static void swiglu(float *d, const float *a, const float *b, size_t n)
{
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m, _mm512_mul_ps(silu512(_mm512_maskz_loadu_ps(m, a + i)),
                                                      _mm512_maskz_loadu_ps(m, b + i)));
}

static void rms_norm(float *d, const float *x, const float *w, size_t n, float eps)
{
    __m512d lo = _mm512_setzero_pd(), hi = lo;
    EACH(i, m, n) {
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
        __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
        lo = _mm512_fmadd_pd(a, a, lo);
        hi = _mm512_fmadd_pd(b, b, hi);
    }
    double sum = _mm512_reduce_add_pd(_mm512_add_pd(lo, hi));
    __m512 f = _mm512_set1_ps((float)(1.0 / sqrt(sum / (double)n + (double)eps)));
    EACH(i, m, n)
        _mm512_mask_storeu_ps(d + i, m,
            _mm512_mul_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), f),
                          _mm512_maskz_loadu_ps(m, w + i)));
}

static void rope(float *d, const float *x, const float *c, const float *s, size_t n)
{
    EACH(i, m, n) {
        __m512 v = _mm512_maskz_loadu_ps(m, x + i);
        __m512 swapped = _mm512_permute_ps(v, 0xb1);
        __m512 r = _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, c + i));
        r = _mm512_fmadd_ps(swapped, _mm512_maskz_loadu_ps(m, s + i), r);
        _mm512_mask_storeu_ps(d + i, m, r);
    }
}

static void to_f16(uint16_t *d, const float *a, size_t n)
{
    EACH(i, m, n)
        _mm256_mask_storeu_epi16(d + i, m,
            _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, a + i),
                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

const struct lm_vec lm_vec_avx512 = {
    add, mul, scale, silu, swiglu, rms_norm, rope, to_f16
};

#else
typedef int lm_no_vec_avx512;       /* a file may not be empty */
#endif
