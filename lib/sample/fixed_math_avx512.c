/* SPDX-License-Identifier: MIT */
/* lm_weight eight lanes at a time: the same operations in the same order, none fused. */
#include "sample/fixed_math.h"

#if defined(__x86_64__)

#include <immintrin.h>

struct tables {
    __m512d low, high;               /* lm_exp_powers */
};

/* floor(2^40 e^d) of eight d; see lm_exp. */
static inline __m512i weights8(__m512d d, const struct tables *t)
{
    const __m512d rounder = _mm512_set1_pd(LM_ROUNDER);
    __m512d s = _mm512_add_pd(_mm512_mul_pd(d, _mm512_set1_pd(LM_STEPS_E)), rounder);
    __m512d k = _mm512_sub_pd(s, rounder);
    __m512d r = _mm512_sub_pd(
        _mm512_sub_pd(d, _mm512_mul_pd(k, _mm512_set1_pd(LM_LN2_HIGH / LM_EXP_STEPS))),
        _mm512_mul_pd(k, _mm512_set1_pd(LM_LN2_LOW / LM_EXP_STEPS)));
    __m512d p = _mm512_set1_pd(lm_exp_terms[0]);
    for (int i = 1; i < LM_EXP_TERMS; i++)
        p = _mm512_add_pd(_mm512_mul_pd(p, r), _mm512_set1_pd(lm_exp_terms[i]));
    const __m512i bits = _mm512_castpd_si512(s);         /* the index takes the low 4 */
    p = _mm512_mul_pd(p, _mm512_permutex2var_pd(t->low, bits, t->high));
    p = _mm512_castsi512_pd(_mm512_add_epi64(
        _mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_srli_epi64(bits, 4), 52)));
    const __mmask8 there = _mm512_cmp_pd_mask(d, _mm512_set1_pd(LM_WEIGHT_GONE), _CMP_GE_OQ);
    return _mm512_maskz_cvttpd_epu64(there, _mm512_mul_pd(p, _mm512_set1_pd(LM_WEIGHT_ONE)));
}

void lm_weights_avx512(const double *d, size_t n, uint64_t *w)
{
    const struct tables t = { _mm512_loadu_pd(lm_exp_powers), _mm512_loadu_pd(lm_exp_powers + 8) };
    for (size_t i = 0; i < n; i += 16) {
        __m512i a = weights8(_mm512_loadu_pd(d + i), &t);
        __m512i b = weights8(_mm512_loadu_pd(d + i + 8), &t);
        _mm512_storeu_si512(w + i, a);
        _mm512_storeu_si512(w + i + 8, b);
    }
}

#endif
