/* SPDX-License-Identifier: MIT */
/* Operations on chunks for AVX2: none is fused, all are in the order of lm_weight. */
#include "sample/chunk_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

static void load(const float *x, float least, float most, double times, double *l)
{
    const __m256d t = _mm256_set1_pd(times), lo = _mm256_set1_pd(least), hi = _mm256_set1_pd(most);
    const __m256d none = _mm256_set1_pd(-INFINITY);
    for (int i = 0; i < LM_CHUNK; i += 4) {
        const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + i));
        const __m256d in = _mm256_and_pd(_mm256_cmp_pd(a, lo, _CMP_GE_OQ),
                                         _mm256_cmp_pd(a, hi, _CMP_LE_OQ));
        _mm256_storeu_pd(l + i, _mm256_blendv_pd(none, _mm256_mul_pd(a, t), in));
    }
}

/* Bit i: least <= x[i] <= most, for a block. */
static inline uint32_t between(const float *x, float least, float most)
{
    const __m256 lo = _mm256_set1_ps(least), hi = _mm256_set1_ps(most);
    uint32_t bits = 0;
    for (int i = 0; i < LM_BLOCK; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i);
        const __m256 in = _mm256_and_ps(_mm256_cmp_ps(a, lo, _CMP_GE_OQ),
                                        _mm256_cmp_ps(a, hi, _CMP_LE_OQ));
        bits |= (uint32_t)_mm256_movemask_ps(in) << i;
    }
    return bits;
}

static size_t find(const float *x, size_t n, float least, float most, uint32_t *at)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i += LM_BLOCK)
        for (uint32_t bits = between(x + i, least, most); bits; bits &= bits - 1)
            at[found++] = (uint32_t)i + (uint32_t)__builtin_ctz(bits);
    return found;
}

static uint32_t pack(const float *x, float least, float most, float *y)
{
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i += LM_BLOCK) {
        uint32_t bits = between(x + i, least, most);
        if (bits == UINT32_MAX) {
            memcpy(y + n, x + i, LM_BLOCK * sizeof *y);
            n += LM_BLOCK;
            continue;
        }
        for (; bits; bits &= bits - 1)
            y[n++] = x[i + __builtin_ctz(bits)];
    }
    return n;
}

static inline float largest(__m256 v)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

static void keep(const float *x, size_t n, float least, float most, float *y, float *best)
{
    const __m256 lo = _mm256_set1_ps(least), hi = _mm256_set1_ps(most);
    const __m256 none = _mm256_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; ) {
        __m256 top = none;
        for (int k = 0; k < LM_BLOCK; k += 8, i += 8) {
            const __m256 a = _mm256_loadu_ps(x + i);
            const __m256 in = _mm256_and_ps(_mm256_cmp_ps(a, lo, _CMP_GE_OQ),
                                            _mm256_cmp_ps(a, hi, _CMP_LE_OQ));
            const __m256 kept = _mm256_blendv_ps(none, a, in);
            _mm256_storeu_ps(y + i, kept);
            top = _mm256_max_ps(top, kept);
        }
        best[i / LM_BLOCK - 1] = largest(top);
    }
}

static void narrow(const double *l, const uint64_t *w, float *p)
{
    const __m256d none = _mm256_set1_pd(-INFINITY), base = _mm256_set1_pd(0x1p52);
    for (int i = 0; i < LM_CHUNK; i += 4) {
        const __m256i u = _mm256_loadu_si256((const __m256i *)(w + i));      /* below 2^52 */
        const __m256d v = _mm256_sub_pd(_mm256_castsi256_pd(
            _mm256_or_si256(u, _mm256_castpd_si256(base))), base);
        const __m256d there = _mm256_cmp_pd(_mm256_loadu_pd(l + i), none, _CMP_GT_OQ);
        _mm_storeu_ps(p + i, _mm256_cvtpd_ps(_mm256_blendv_pd(_mm256_set1_pd(-1), v, there)));
    }
}

/* Four chances from weights; how much farther from the wanted one they are than the base. */
static inline __m128 farther(const struct lm_favor *f, float *p)
{
    const __m256d chance = _mm256_mul_pd(_mm256_cvtps_pd(_mm_loadu_ps(p)),
                                         _mm256_set1_pd(f->share));
    const __m256d c = _mm256_andnot_pd(_mm256_set1_pd(-0.0),
                                       _mm256_sub_pd(chance, _mm256_set1_pd(f->want)));
    _mm_storeu_ps(p, _mm256_cvtpd_ps(chance));
    return _mm256_cvtpd_ps(_mm256_sub_pd(c, _mm256_set1_pd(f->base)));
}

static void favor(const struct lm_favor *f, float *p, float *y, float *best)
{
    const __m256 none = _mm256_set1_ps(-INFINITY), g = _mm256_set1_ps(f->g);
    for (int b = 0, i = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        __m256 top = none;
        for (int k = 0; k < LM_BLOCK; k += 8, i += 8) {
            const __m256 there = _mm256_cmp_ps(_mm256_loadu_ps(p + i), _mm256_setzero_ps(),
                                               _CMP_GE_OQ);
            const __m256 u = _mm256_set_m128(farther(f, p + i + 4), farther(f, p + i));
            const __m256 c = _mm256_add_ps(u, _mm256_set1_ps(f->f));
            const __m256 t = _mm256_add_ps(_mm256_mul_ps(c, _mm256_set1_ps(f->a)),
                                           _mm256_set1_ps(f->b));
            const __m256 fall = _mm256_div_ps(_mm256_mul_ps(_mm256_mul_ps(u, t), g),
                                              _mm256_add_ps(c, _mm256_set1_ps(FAVOR_WIDTH)));
            const __m256 kept = _mm256_blendv_ps(none, fall, there);
            _mm256_storeu_ps(y + i, kept);
            top = _mm256_max_ps(top, kept);
        }
        best[b] = largest(top);
    }
}

/* lm_weight of four d, as doubles. */
static inline __m256d weights4(__m256d d)
{
    const __m256d rounder = _mm256_set1_pd(LM_ROUNDER);
    const __m256d t = _mm256_mul_pd(d, _mm256_set1_pd(LM_LOG2_E)), s = _mm256_add_pd(t, rounder);
    const __m256d r = _mm256_sub_pd(t, _mm256_sub_pd(s, rounder));
    __m256d p = _mm256_set1_pd(lm_weight_terms[0]);
    for (int i = 1; i < LM_WEIGHT_TERMS; i++)
        p = _mm256_add_pd(_mm256_mul_pd(p, r), _mm256_set1_pd(lm_weight_terms[i]));
    const __m256i bits = _mm256_castpd_si256(s);
    const __m256i j = _mm256_and_si256(bits, _mm256_set1_epi64x(LM_EXP_STEPS - 1));
    p = _mm256_mul_pd(p, _mm256_i64gather_pd(lm_weight_powers, j, 8));
    p = _mm256_castsi256_pd(_mm256_add_epi64(
        _mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_srli_epi64(bits, 4), 52)));
    const __m256d there = _mm256_cmp_pd(d, _mm256_set1_pd(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm256_floor_pd(_mm256_and_pd(there, p));
}

/* A whole number below 2^52 as an integer. */
static inline __m256i whole(__m256d w)
{
    const __m256d base = _mm256_set1_pd(0x1p52);
    return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(w, base)), _mm256_castpd_si256(base));
}

/* lane += w d, where w is not 0. */
static inline void add_products(double *lane, __m256d w, __m256d d)
{
    const __m256d some = _mm256_cmp_pd(w, _mm256_setzero_pd(), _CMP_GT_OQ);
    const __m256d wd = _mm256_and_pd(some, _mm256_mul_pd(w, d));
    _mm256_storeu_pd(lane, _mm256_add_pd(_mm256_loadu_pd(lane), wd));
}

static uint64_t weigh(const double *l, double max, uint64_t *w, double *lane)
{
    const __m256d from = _mm256_set1_pd(max);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m256d a = _mm256_sub_pd(_mm256_loadu_pd(l + i), from);
        const __m256d b = _mm256_sub_pd(_mm256_loadu_pd(l + i + 4), from);
        const __m256d x = weights4(a), y = weights4(b);
        const __m256i u = whole(x), v = whole(y);
        _mm256_storeu_si256((__m256i *)(w + i), u);
        _mm256_storeu_si256((__m256i *)(w + i + 4), v);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(u, v));
        if (lane) {
            add_products(lane + i % LM_LANES, x, a);
            add_products(lane + i % LM_LANES + 4, y, b);
        }
    }
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(sum),
                                       _mm256_extracti128_si256(sum, 1));
    return (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}

const struct lm_chunk_ops lm_chunk_ops_avx2 = CHUNK_OPS;

#else
typedef int lm_no_chunk_ops_avx2;         /* a file may not be empty */
#endif
