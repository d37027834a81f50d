/* SPDX-License-Identifier: MIT */
/* Operations on chunks for AVX-512: none is fused, all are in the order of lm_weight. */
#include "sample/chunk_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* Which of 16 are from least to most. */
static inline __mmask16 between(__m512 a, __m512 lo, __m512 hi)
{
    return _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ), a, hi, _CMP_LE_OQ);
}

static inline __m256 upper(__m512 a)
{
    return _mm512_extractf32x8_ps(a, 1);
}

static inline __m512 joined(__m256 a, __m256 b)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

static size_t find(const float *x, size_t n, float least, float most, uint32_t *at)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512i step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    size_t found = 0;
    for (size_t i = 0; i < n; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __mmask16 in = between(a, lo, hi);
        if (!in)
            continue;
        /* there is room for 16: found <= i */
        _mm512_storeu_si512(at + found, _mm512_maskz_compress_epi32(
            in, _mm512_add_epi32(step, _mm512_set1_epi32((int)i))));
        found += (size_t)__builtin_popcount(in);
    }
    return found;
}

static uint32_t pack(const float *x, float least, float most, float *y)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __mmask16 some = between(a, lo, hi);
        _mm512_storeu_ps(y + n, _mm512_maskz_compress_ps(some, a));      /* n <= i */
        n += (uint32_t)__builtin_popcount(some);
    }
    return n;
}

static void keep(const float *x, size_t n, float least, float most, float *y, float *best)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512 none = _mm512_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; ) {
        __m512 top = none;
        for (int k = 0; k < LM_BLOCK; k += 16, i += 16) {
            const __m512 a = _mm512_loadu_ps(x + i);
            const __mmask16 in = between(a, lo, hi);
            const __m512 kept = _mm512_mask_mov_ps(none, in, a);
            _mm512_storeu_ps(y + i, kept);
            top = _mm512_max_ps(top, kept);
        }
        best[i / LM_BLOCK - 1] = _mm512_reduce_max_ps(top);
    }
}

/* x * times - max of eight, rounded to float. */
static inline __m256 below8(__m256 x, __m512d times, __m512d max)
{
    return _mm512_cvtpd_ps(_mm512_sub_pd(_mm512_mul_pd(_mm512_cvtps_pd(x), times), max));
}

static void fall(const float *x, float least, float most, double times, double max, float *f)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512 none = _mm512_set1_ps(-INFINITY), unit = _mm512_set1_ps((float)LM_LOG2_E);
    const __m512 from = _mm512_set1_ps((float)max), least_fall = _mm512_set1_ps(-FLT_MAX);
    const __m512d t = _mm512_set1_pd(times), m = _mm512_set1_pd(max);
    const bool floats = times == 1 && max == (float)max;
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __m512 d = floats ? _mm512_sub_ps(a, from)
                         : joined(below8(_mm512_castps512_ps256(a), t, m), below8(upper(a), t, m));
        _mm512_storeu_ps(f + i, _mm512_mask_max_ps(none, between(a, lo, hi),
                                                   _mm512_mul_ps(d, unit), least_fall));
    }
}

/* The table of powers, twice, since an index takes the lowest 4 bits. */
static inline __m512i load_table(void)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)lm_exp_table));
}

/* lm_power of 16 falls; *there says where it may be above 0. */
static inline __m512 powers16(__m512 f, __m512i table, __mmask16 *there)
{
    const __m512 rounder = _mm512_set1_ps(LM_EXP_ROUNDER), s = _mm512_add_ps(f, rounder);
    const __m512 r = _mm512_sub_ps(f, _mm512_sub_ps(s, rounder));
    __m512 p = _mm512_add_ps(_mm512_mul_ps(_mm512_set1_ps(lm_exp_terms[0]), r),
                             _mm512_set1_ps(lm_exp_terms[1]));
    p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(lm_exp_terms[2]));
    p = _mm512_mul_ps(p, r);
    const __m512i bits = _mm512_castps_si512(s);
    const __m512 power = _mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_permutexvar_epi32(bits, table), _mm512_slli_epi32(bits, LM_EXP_SHIFT)));
    *there = _mm512_cmp_ps_mask(f, _mm512_set1_ps(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm512_maskz_add_ps(*there, power, _mm512_mul_ps(power, p));
}

/* lane += w fall */
static inline void add_products(double *lane, __mmask8 there, __m512i w, __m256 f)
{
    const __m512d wf = _mm512_maskz_mul_pd(there, _mm512_cvtepu64_pd(w), _mm512_cvtps_pd(f));
    _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_loadu_pd(lane), wf));
}

static uint64_t weigh(const float *f, uint64_t *w, double *lane)
{
    const __m512i table = load_table();
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < LM_CHUNK; i += 16) {
        __mmask16 there;
        const __m512 a = _mm512_loadu_ps(f + i), p = powers16(a, table, &there);
        const __m512i x = _mm512_cvttps_epu64(_mm512_castps512_ps256(p));
        const __m512i y = _mm512_cvttps_epu64(upper(p));
        _mm512_storeu_si512(w + i, x);
        _mm512_storeu_si512(w + i + 8, y);
        sum = _mm512_add_epi64(sum, _mm512_add_epi64(x, y));
        if (lane) {
            add_products(lane, (__mmask8)there, x, _mm512_castps512_ps256(a));
            add_products(lane + 8, (__mmask8)(there >> 8), y, upper(a));
        }
    }
    return (uint64_t)_mm512_reduce_add_epi64(sum);
}

static uint64_t powers(const float *f, float *p)
{
    const __m512i table = load_table();
    const __m512 none = _mm512_set1_ps(-INFINITY);
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < LM_CHUNK; i += 16) {
        __mmask16 there;
        const __m512 a = _mm512_loadu_ps(f + i), v = powers16(a, table, &there);
        sum = _mm512_add_epi64(
            sum, _mm512_add_epi64(_mm512_cvttps_epu64(_mm512_castps512_ps256(v)),
                                  _mm512_cvttps_epu64(upper(v))));
        _mm512_storeu_ps(p + i, _mm512_mask_mov_ps(
            v, _mm512_cmp_ps_mask(a, none, _CMP_EQ_OQ), _mm512_set1_ps(-1)));
    }
    return (uint64_t)_mm512_reduce_add_epi64(sum);
}

static void favor(const struct lm_favor *f, float *p, float *y, float *best)
{
    const __m512 none = _mm512_set1_ps(-INFINITY);
    for (int b = 0, i = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        __m512 top = none;
        for (int k = 0; k < LM_BLOCK; k += 16, i += 16) {
            const __m512 x = _mm512_loadu_ps(p + i);
            const __mmask16 there = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GE_OQ);
            const __m512 chance = _mm512_mul_ps(x, _mm512_set1_ps(f->share));
            const __m512 c = _mm512_abs_ps(_mm512_sub_ps(
                _mm512_sub_ps(chance, _mm512_set1_ps(f->want)), _mm512_set1_ps(f->want_rest)));
            const __m512 u = _mm512_sub_ps(_mm512_sub_ps(c, _mm512_set1_ps(f->base)),
                                           _mm512_set1_ps(f->base_rest));
            const __m512 t = _mm512_add_ps(_mm512_mul_ps(c, _mm512_set1_ps(f->a)),
                                           _mm512_set1_ps(f->b));
            const __m512 utg = _mm512_mul_ps(_mm512_mul_ps(u, t), _mm512_set1_ps(f->g));
            const __m512 kept = _mm512_mask_div_ps(
                none, there, utg, _mm512_add_ps(c, _mm512_set1_ps(FAVOR_WIDTH)));
            _mm512_storeu_ps(p + i, chance);
            _mm512_storeu_ps(y + i, kept);
            top = _mm512_max_ps(top, kept);
        }
        best[b] = _mm512_reduce_max_ps(top);
    }
}

/* What a logit adds to a sum of logits or of squares. */
static inline __m512d share_of(__m512d l, __m512d from, int square)
{
    const __m512d d = _mm512_sub_pd(l, from);
    return square ? _mm512_mul_pd(d, d) : l;
}

static uint32_t spread(const float *x, float least, float most, double times, double from,
                       int square, double *lane)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512d t = _mm512_set1_pd(times), c = _mm512_set1_pd(from);
    __m512d s = _mm512_loadu_pd(lane), z = _mm512_loadu_pd(lane + 8);
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __mmask16 in = between(v, lo, hi);
        const __m512d a = _mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(v)), t);
        const __m512d b = _mm512_mul_pd(_mm512_cvtps_pd(upper(v)), t);
        s = _mm512_mask_add_pd(s, (__mmask8)in, s, share_of(a, c, square));
        z = _mm512_mask_add_pd(z, (__mmask8)(in >> 8), z, share_of(b, c, square));
        n += (uint32_t)__builtin_popcount(in);
    }
    _mm512_storeu_pd(lane, s);
    _mm512_storeu_pd(lane + 8, z);
    return n;
}

const struct lm_chunk_ops lm_chunk_ops_avx512 = CHUNK_OPS;

#else
typedef int lm_no_chunk_ops_avx512;       /* a file may not be empty */
#endif
