/* SPDX-License-Identifier: MIT */
/* Operations on chunks for AVX-512: none is fused, all are in the order of lm_weight. */
#include "sample/chunk_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>

static void load(const float *x, float least, double times, double *l)
{
    const __m512d t = _mm512_set1_pd(times), f = _mm512_set1_pd(least);
    const __m512d none = _mm512_set1_pd(-INFINITY);
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
        _mm512_storeu_pd(l + i, _mm512_mask_mul_pd(none, _mm512_cmp_pd_mask(a, f, _CMP_GE_OQ),
                                                   a, t));
    }
}

static uint32_t between(const float *x, float least, float most)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    uint32_t bits = 0;
    for (int i = 0; i < LM_CHUNK / 2; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __mmask16 above = _mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ);
        bits |= (uint32_t)_mm512_mask_cmp_ps_mask(above, a, hi, _CMP_LE_OQ) << i;
    }
    return bits;
}

static float select(const float *x, float least, float most, float *y)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512 none = _mm512_set1_ps(-INFINITY);
    __m512 top = none;
    for (int i = 0; i < LM_CHUNK / 2; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __mmask16 above = _mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ);
        const __mmask16 in = _mm512_mask_cmp_ps_mask(above, a, hi, _CMP_LE_OQ);
        const __m512 kept = _mm512_mask_mov_ps(none, in, a);
        _mm512_storeu_ps(y + i, kept);
        top = _mm512_max_ps(top, kept);
    }
    return _mm512_reduce_max_ps(top);
}

static void favor(const uint64_t *w, double share, double want, float *p, float *y)
{
    const __m512d one = _mm512_set1_pd(1), slope = _mm512_set1_pd(FAVOR_SLOPE);
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m512d chance = _mm512_mul_pd(_mm512_cvtepu64_pd(_mm512_loadu_si512(w + i)),
                                             _mm512_set1_pd(share));
        const __m512d off = _mm512_abs_pd(_mm512_sub_pd(chance, _mm512_set1_pd(want)));
        const __m512d d = _mm512_mul_pd(off, _mm512_set1_pd(1 / FAVOR_WIDTH));
        const __m512d fall = _mm512_div_pd(_mm512_mul_pd(slope, _mm512_mul_pd(d, d)),
                                           _mm512_add_pd(one, d));
        _mm256_storeu_ps(p + i, _mm512_cvtpd_ps(chance));
        _mm256_storeu_ps(y + i, _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_set1_pd(FAVOR_PEAK), fall)));
    }
}

struct tables {
    __m512d low, high;               /* lm_weight_powers */
};

/* lm_weight of eight d. */
static inline __m512i weights8(__m512d d, const struct tables *t)
{
    const __m512d rounder = _mm512_set1_pd(LM_ROUNDER);
    __m512d s = _mm512_add_pd(_mm512_mul_pd(d, _mm512_set1_pd(LM_STEPS_E)), rounder);
    __m512d k = _mm512_sub_pd(s, rounder);
    __m512d r = _mm512_sub_pd(d, _mm512_mul_pd(k, _mm512_set1_pd(LM_STEP)));
    __m512d p = _mm512_set1_pd(lm_weight_terms[0]);
    for (int i = 1; i < LM_WEIGHT_TERMS; i++)
        p = _mm512_add_pd(_mm512_mul_pd(p, r), _mm512_set1_pd(lm_weight_terms[i]));
    const __m512i bits = _mm512_castpd_si512(s);         /* the index takes the low 4 */
    p = _mm512_mul_pd(p, _mm512_permutex2var_pd(t->low, bits, t->high));
    p = _mm512_castsi512_pd(_mm512_add_epi64(
        _mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_srli_epi64(bits, 4), 52)));
    const __mmask8 there = _mm512_cmp_pd_mask(d, _mm512_set1_pd(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm512_maskz_cvttpd_epu64(there, p);
}

/* lane += w d, where w is not 0. */
static inline void add_products(double *lane, __m512i w, __m512d d)
{
    const __m512d wd = _mm512_maskz_mul_pd(_mm512_test_epi64_mask(w, w), _mm512_cvtepu64_pd(w), d);
    _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_loadu_pd(lane), wd));
}

static uint64_t weigh(const double *l, double max, uint64_t *w, double *lane)
{
    const struct tables t = { _mm512_loadu_pd(lm_weight_powers),
                              _mm512_loadu_pd(lm_weight_powers + 8) };
    const __m512d from = _mm512_set1_pd(max);
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512d a = _mm512_sub_pd(_mm512_loadu_pd(l + i), from);
        const __m512d b = _mm512_sub_pd(_mm512_loadu_pd(l + i + 8), from);
        const __m512i x = weights8(a, &t), y = weights8(b, &t);
        _mm512_storeu_si512(w + i, x);
        _mm512_storeu_si512(w + i + 8, y);
        sum = _mm512_add_epi64(sum, _mm512_add_epi64(x, y));
        if (lane) {
            add_products(lane, x, a);
            add_products(lane + 8, y, b);
        }
    }
    return (uint64_t)_mm512_reduce_add_epi64(sum);
}

const struct lm_chunk_ops lm_chunk_ops_avx512 = CHUNK_OPS;

#else
typedef int lm_no_chunk_ops_avx512;       /* a file may not be empty */
#endif
