/* SPDX-License-Identifier: MIT */
/* Operations on chunks for AVX2: none is fused, all are in the order of lm_weight. */
#include "sample/chunk_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* For each set of four floats, what brings those in it to the front. */
#define BYTES(i)        4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3
#define PLACES(a, b, c, d) { BYTES(a), BYTES(b), BYTES(c), BYTES(d) }
static const uint8_t to_front[16][16] = {
    PLACES(0, 1, 2, 3), PLACES(0, 1, 2, 3), PLACES(1, 0, 2, 3), PLACES(0, 1, 2, 3),
    PLACES(2, 0, 1, 3), PLACES(0, 2, 1, 3), PLACES(1, 2, 0, 3), PLACES(0, 1, 2, 3),
    PLACES(3, 0, 1, 2), PLACES(0, 3, 1, 2), PLACES(1, 3, 0, 2), PLACES(0, 1, 3, 2),
    PLACES(2, 3, 0, 1), PLACES(0, 2, 3, 1), PLACES(1, 2, 3, 0), PLACES(0, 1, 2, 3),
};

/* Bit i: least <= x[i] <= most, for four. */
static inline unsigned between(__m128 x, float least, float most)
{
    return (unsigned)_mm_movemask_ps(_mm_and_ps(_mm_cmp_ps(x, _mm_set1_ps(least), _CMP_GE_OQ),
                                                _mm_cmp_ps(x, _mm_set1_ps(most), _CMP_LE_OQ)));
}

static inline __m128i gathered(__m128i x, unsigned set)
{
    return _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)to_front[set]));
}

static size_t find(const float *x, size_t n, float least, float most, uint32_t *at)
{
    const __m128i step = _mm_set_epi32(3, 2, 1, 0);
    size_t found = 0;
    for (size_t i = 0; i < n; i += 4) {
        const unsigned set = between(_mm_loadu_ps(x + i), least, most);
        const __m128i ids = _mm_add_epi32(step, _mm_set1_epi32((int)i));
        _mm_storeu_si128((__m128i *)(at + found), gathered(ids, set));      /* found <= i */
        found += (size_t)__builtin_popcount(set);
    }
    return found;
}

static uint32_t pack(const float *x, float least, float most, float *y)
{
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i += 4) {
        const __m128 a = _mm_loadu_ps(x + i);
        const unsigned set = between(a, least, most);
        _mm_storeu_ps(y + n, _mm_castsi128_ps(gathered(_mm_castps_si128(a), set)));  /* n <= i */
        n += (uint32_t)__builtin_popcount(set);
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

/* x * times - max of four, rounded to float. */
static inline __m128 below4(__m128 x, __m256d times, __m256d max)
{
    return _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_mul_pd(_mm256_cvtps_pd(x), times), max));
}

static void fall(const float *x, float least, float most, double times, double max, float *f)
{
    const __m256 lo = _mm256_set1_ps(least), hi = _mm256_set1_ps(most);
    const __m256 none = _mm256_set1_ps(-INFINITY), unit = _mm256_set1_ps((float)LM_LOG2_E);
    const __m256 from = _mm256_set1_ps((float)max), least_fall = _mm256_set1_ps(-FLT_MAX);
    const __m256d t = _mm256_set1_pd(times), m = _mm256_set1_pd(max);
    const bool floats = times == 1 && max == (float)max;
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m256 a = _mm256_loadu_ps(x + i);
        const __m256 in = _mm256_and_ps(_mm256_cmp_ps(a, lo, _CMP_GE_OQ),
                                        _mm256_cmp_ps(a, hi, _CMP_LE_OQ));
        const __m256 d = floats ? _mm256_sub_ps(a, from)
                         : _mm256_set_m128(below4(_mm256_extractf128_ps(a, 1), t, m),
                                           below4(_mm256_castps256_ps128(a), t, m));
        const __m256 y = _mm256_max_ps(_mm256_mul_ps(d, unit), least_fall);
        _mm256_storeu_ps(f + i, _mm256_blendv_ps(none, y, in));
    }
}

/* lm_power of eight falls.  The index takes the lowest 3 bits. */
static inline __m256 powers8(__m256 f, __m256i table)
{
    const __m256 rounder = _mm256_set1_ps(LM_EXP_ROUNDER), s = _mm256_add_ps(f, rounder);
    const __m256 r = _mm256_sub_ps(f, _mm256_sub_ps(s, rounder));
    __m256 p = _mm256_add_ps(_mm256_mul_ps(_mm256_set1_ps(lm_exp_terms[0]), r),
                             _mm256_set1_ps(lm_exp_terms[1]));
    p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(lm_exp_terms[2]));
    p = _mm256_mul_ps(p, r);
    const __m256i bits = _mm256_castps_si256(s);
    const __m256 power = _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_permutevar8x32_epi32(table, bits), _mm256_slli_epi32(bits, LM_EXP_SHIFT)));
    const __m256 there = _mm256_cmp_ps(f, _mm256_set1_ps(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm256_and_ps(there, _mm256_add_ps(power, _mm256_mul_ps(power, p)));
}

/* A whole number below 2^52 as an integer. */
static inline __m256i whole(__m256d w)
{
    const __m256d base = _mm256_set1_pd(0x1p52);
    return _mm256_xor_si256(_mm256_castpd_si256(_mm256_add_pd(w, base)), _mm256_castpd_si256(base));
}

/* lane += w fall, where w is not 0. */
static inline void add_products(double *lane, __m256d w, __m128 f)
{
    const __m256d some = _mm256_cmp_pd(w, _mm256_setzero_pd(), _CMP_GT_OQ);
    const __m256d wf = _mm256_and_pd(some, _mm256_mul_pd(w, _mm256_cvtps_pd(f)));
    _mm256_storeu_pd(lane, _mm256_add_pd(_mm256_loadu_pd(lane), wf));
}

static inline uint64_t sum_of(__m256i v)
{
    const __m128i half = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return (uint64_t)_mm_cvtsi128_si64(half) + (uint64_t)_mm_extract_epi64(half, 1);
}

static uint64_t weigh(const float *f, uint64_t *w, double *lane)
{
    const __m256i table = _mm256_loadu_si256((const __m256i *)lm_exp_table);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m256 a = _mm256_loadu_ps(f + i), p = _mm256_floor_ps(powers8(a, table));
        const __m256d x = _mm256_cvtps_pd(_mm256_castps256_ps128(p));
        const __m256d y = _mm256_cvtps_pd(_mm256_extractf128_ps(p, 1));
        const __m256i u = whole(x), v = whole(y);
        _mm256_storeu_si256((__m256i *)(w + i), u);
        _mm256_storeu_si256((__m256i *)(w + i + 4), v);
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(u, v));
        if (lane) {
            add_products(lane + i % LM_LANES, x, _mm256_castps256_ps128(a));
            add_products(lane + i % LM_LANES + 4, y, _mm256_extractf128_ps(a, 1));
        }
    }
    return sum_of(sum);
}

static uint64_t powers(const float *f, float *p)
{
    const __m256i table = _mm256_loadu_si256((const __m256i *)lm_exp_table);
    const __m256 none = _mm256_set1_ps(-INFINITY);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __m256 a = _mm256_loadu_ps(f + i), v = powers8(a, table), w = _mm256_floor_ps(v);
        const __m256i x = whole(_mm256_cvtps_pd(_mm256_castps256_ps128(w)));
        const __m256i y = whole(_mm256_cvtps_pd(_mm256_extractf128_ps(w, 1)));
        sum = _mm256_add_epi64(sum, _mm256_add_epi64(x, y));
        _mm256_storeu_ps(p + i, _mm256_blendv_ps(v, _mm256_set1_ps(-1),
                                                 _mm256_cmp_ps(a, none, _CMP_EQ_OQ)));
    }
    return sum_of(sum);
}

static void favor(const struct lm_favor *f, float *p, float *y, float *best)
{
    const __m256 none = _mm256_set1_ps(-INFINITY), sign = _mm256_set1_ps(-0.0f);
    for (int b = 0, i = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        __m256 top = none;
        for (int k = 0; k < LM_BLOCK; k += 8, i += 8) {
            const __m256 x = _mm256_loadu_ps(p + i);
            const __m256 there = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GE_OQ);
            const __m256 chance = _mm256_mul_ps(x, _mm256_set1_ps(f->share));
            const __m256 c = _mm256_andnot_ps(sign, _mm256_sub_ps(
                _mm256_sub_ps(chance, _mm256_set1_ps(f->want)), _mm256_set1_ps(f->want_rest)));
            const __m256 u = _mm256_sub_ps(_mm256_sub_ps(c, _mm256_set1_ps(f->base)),
                                           _mm256_set1_ps(f->base_rest));
            const __m256 t = _mm256_add_ps(_mm256_mul_ps(c, _mm256_set1_ps(f->a)),
                                           _mm256_set1_ps(f->b));
            const __m256 utg = _mm256_mul_ps(_mm256_mul_ps(u, t), _mm256_set1_ps(f->g));
            const __m256 kept = _mm256_blendv_ps(
                none, _mm256_div_ps(utg, _mm256_add_ps(c, _mm256_set1_ps(FAVOR_WIDTH))), there);
            _mm256_storeu_ps(p + i, chance);
            _mm256_storeu_ps(y + i, kept);
            top = _mm256_max_ps(top, kept);
        }
        best[b] = largest(top);
    }
}

/* What four logits x * times add to a sum of them or of squares: nothing where `in` is not set. */
static inline __m256d share_of(__m128 x, __m128 in, double times, double from, int square)
{
    const __m256d l = _mm256_mul_pd(_mm256_cvtps_pd(x), _mm256_set1_pd(times));
    const __m256d d = _mm256_sub_pd(l, _mm256_set1_pd(from));
    return _mm256_and_pd(_mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm_castps_si128(in))),
                         square ? _mm256_mul_pd(d, d) : l);
}

static uint32_t spread(const float *x, float least, float most, double times, double from,
                       int square, double *lane)
{
    const __m128 lo = _mm_set1_ps(least), hi = _mm_set1_ps(most);
    __m256d sum[LM_LANES / 4];
    uint32_t n = 0;
    for (int k = 0; k < LM_LANES / 4; k++)
        sum[k] = _mm256_loadu_pd(lane + 4 * k);
    for (int i = 0; i < LM_CHUNK; i += LM_LANES)
        for (int k = 0; k < LM_LANES / 4; k++) {
            const __m128 a = _mm_loadu_ps(x + i + 4 * k);
            const __m128 in = _mm_and_ps(_mm_cmp_ps(a, lo, _CMP_GE_OQ),
                                         _mm_cmp_ps(a, hi, _CMP_LE_OQ));
            sum[k] = _mm256_add_pd(sum[k], share_of(a, in, times, from, square));
            n += (uint32_t)__builtin_popcount((unsigned)_mm_movemask_ps(in));
        }
    for (int k = 0; k < LM_LANES / 4; k++)
        _mm256_storeu_pd(lane + 4 * k, sum[k]);
    return n;
}

const struct lm_chunk_ops lm_chunk_ops_avx2 = CHUNK_OPS;

#else
typedef int lm_no_chunk_ops_avx2;         /* a file may not be empty */
#endif
