/* SPDX-License-Identifier: MIT */
/* Operations on chunks for AVX-512: none is fused, all are in the order of lm_weight. */
#include "sample/chunk_loops.h"

#if defined(__x86_64__)

#include <immintrin.h>

static void load(const float *x, float least, float most, double times, double *l)
{
    const __m512d t = _mm512_set1_pd(times), none = _mm512_set1_pd(-INFINITY);
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512 all = _mm512_loadu_ps(x + i);
        const __mmask16 above = _mm512_cmp_ps_mask(all, lo, _CMP_GE_OQ);
        const __mmask16 in = _mm512_mask_cmp_ps_mask(above, all, hi, _CMP_LE_OQ);
        const __m512d a = _mm512_cvtps_pd(_mm256_loadu_ps(x + i));
        const __m512d b = _mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8));
        _mm512_storeu_pd(l + i, _mm512_mask_mul_pd(none, (__mmask8)in, a, t));
        _mm512_storeu_pd(l + i + 8, _mm512_mask_mul_pd(none, (__mmask8)(in >> 8), b, t));
    }
}

static size_t find(const float *x, size_t n, float least, float most, uint32_t *at)
{
    const __m512 lo = _mm512_set1_ps(least), hi = _mm512_set1_ps(most);
    const __m512i step = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    size_t found = 0;
    for (size_t i = 0; i < n; i += 16) {
        const __m512 a = _mm512_loadu_ps(x + i);
        const __mmask16 above = _mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ);
        const __mmask16 in = _mm512_mask_cmp_ps_mask(above, a, hi, _CMP_LE_OQ);
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
        const __mmask16 above = _mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ);
        const __mmask16 some = _mm512_mask_cmp_ps_mask(above, a, hi, _CMP_LE_OQ);
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
            const __mmask16 above = _mm512_cmp_ps_mask(a, lo, _CMP_GE_OQ);
            const __mmask16 in = _mm512_mask_cmp_ps_mask(above, a, hi, _CMP_LE_OQ);
            const __m512 kept = _mm512_mask_mov_ps(none, in, a);
            _mm512_storeu_ps(y + i, kept);
            top = _mm512_max_ps(top, kept);
        }
        best[i / LM_BLOCK - 1] = _mm512_reduce_max_ps(top);
    }
}

static void narrow(const double *l, const uint64_t *w, float *p)
{
    const __m512d none = _mm512_set1_pd(-INFINITY);
    for (int i = 0; i < LM_CHUNK; i += 8) {
        const __mmask8 there = _mm512_cmp_pd_mask(_mm512_loadu_pd(l + i), none, _CMP_GT_OQ);
        const __m256 v = _mm512_cvtepu64_ps(_mm512_loadu_si512(w + i));
        _mm256_storeu_ps(p + i, _mm256_mask_mov_ps(_mm256_set1_ps(-1), there, v));
    }
}

/* Eight chances from weights; how much farther from the wanted one they are than the base. */
static inline __m256 farther(const struct lm_favor *f, float *p)
{
    const __m512d chance = _mm512_mul_pd(_mm512_cvtps_pd(_mm256_loadu_ps(p)),
                                         _mm512_set1_pd(f->share));
    const __m512d c = _mm512_abs_pd(_mm512_sub_pd(chance, _mm512_set1_pd(f->want)));
    _mm256_storeu_ps(p, _mm512_cvtpd_ps(chance));
    return _mm512_cvtpd_ps(_mm512_sub_pd(c, _mm512_set1_pd(f->base)));
}

static void favor(const struct lm_favor *f, float *p, float *y, float *best)
{
    const __m512 none = _mm512_set1_ps(-INFINITY), g = _mm512_set1_ps(f->g);
    for (int b = 0, i = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        __m512 top = none;
        for (int k = 0; k < LM_BLOCK; k += 16, i += 16) {
            const __mmask16 there = _mm512_cmp_ps_mask(_mm512_loadu_ps(p + i),
                                                       _mm512_setzero_ps(), _CMP_GE_OQ);
            const __m512 u = _mm512_insertf32x8(_mm512_castps256_ps512(farther(f, p + i)),
                                                farther(f, p + i + 8), 1);
            const __m512 c = _mm512_add_ps(u, _mm512_set1_ps(f->f));
            const __m512 t = _mm512_add_ps(_mm512_mul_ps(c, _mm512_set1_ps(f->a)),
                                           _mm512_set1_ps(f->b));
            const __m512 fall = _mm512_div_ps(_mm512_mul_ps(_mm512_mul_ps(u, t), g),
                                              _mm512_add_ps(c, _mm512_set1_ps(FAVOR_WIDTH)));
            const __m512 kept = _mm512_mask_mov_ps(none, there, fall);
            _mm512_storeu_ps(y + i, kept);
            top = _mm512_max_ps(top, kept);
        }
        best[b] = _mm512_reduce_max_ps(top);
    }
}

/* lm_weight_powers, without what the step's lowest bits add when it is added to the exponent. */
struct tables {
    __m512i low, high;
};

static inline __m512i part_of_table(int first)
{
    const __m512i j = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_sub_epi64(_mm512_castpd_si512(_mm512_loadu_pd(lm_weight_powers + first)),
                            _mm512_slli_epi64(_mm512_add_epi64(j, _mm512_set1_epi64(first)), 48));
}

/* lm_weight of eight d; *there says where it may be above 0. */
static inline __m512i weights8(__m512d d, const struct tables *t, __mmask8 *there)
{
    const __m512d rounder = _mm512_set1_pd(LM_ROUNDER);
    const __m512d x = _mm512_mul_pd(d, _mm512_set1_pd(LM_LOG2_E)), s = _mm512_add_pd(x, rounder);
    const __m512d r = _mm512_sub_pd(x, _mm512_sub_pd(s, rounder));
    __m512d p = _mm512_set1_pd(lm_weight_terms[0]);
    for (int i = 1; i < LM_WEIGHT_TERMS; i++)
        p = _mm512_add_pd(_mm512_mul_pd(p, r), _mm512_set1_pd(lm_weight_terms[i]));
    const __m512i bits = _mm512_castpd_si512(s);         /* the index takes the low 4 */
    const __m512i power = _mm512_add_epi64(_mm512_permutex2var_epi64(t->low, bits, t->high),
                                           _mm512_slli_epi64(bits, 48));
    *there = _mm512_cmp_pd_mask(d, _mm512_set1_pd(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm512_maskz_cvttpd_epu64(*there, _mm512_mul_pd(p, _mm512_castsi512_pd(power)));
}

/* lane += w d */
static inline void add_products(double *lane, __mmask8 there, __m512i w, __m512d d)
{
    const __m512d wd = _mm512_maskz_mul_pd(there, _mm512_cvtepu64_pd(w), d);
    _mm512_storeu_pd(lane, _mm512_add_pd(_mm512_loadu_pd(lane), wd));
}

static uint64_t weigh(const double *l, double max, uint64_t *w, double *lane)
{
    const struct tables t = { part_of_table(0), part_of_table(8) };
    const __m512d from = _mm512_set1_pd(max);
    __m512i sum = _mm512_setzero_si512();
    for (int i = 0; i < LM_CHUNK; i += 16) {
        const __m512d a = _mm512_sub_pd(_mm512_loadu_pd(l + i), from);
        const __m512d b = _mm512_sub_pd(_mm512_loadu_pd(l + i + 8), from);
        __mmask8 in_a, in_b;
        const __m512i x = weights8(a, &t, &in_a), y = weights8(b, &t, &in_b);
        _mm512_storeu_si512(w + i, x);
        _mm512_storeu_si512(w + i + 8, y);
        sum = _mm512_add_epi64(sum, _mm512_add_epi64(x, y));
        if (lane) {
            add_products(lane, in_a, x, a);
            add_products(lane + 8, in_b, y, b);
        }
    }
    return (uint64_t)_mm512_reduce_add_epi64(sum);
}

const struct lm_chunk_ops lm_chunk_ops_avx512 = CHUNK_OPS;

#else
typedef int lm_no_chunk_ops_avx512;       /* a file may not be empty */
#endif
