/* SPDX-License-Identifier: MIT */
/* lm_weight four lanes at a time: the same operations in the same order, none fused. */
#include "sample/fixed_math.h"

#if defined(__x86_64__)

#include <immintrin.h>

struct pair {
    __m256d a, b;                    /* two chains, to hide the latency of each step */
};

static inline __m256d polynomial_step(__m256d p, __m256d r, double c)
{
    return _mm256_add_pd(_mm256_mul_pd(p, r), _mm256_set1_pd(c));
}

/* From p = e^r and the sum whose low bits are k: floor(2^40 2^(k/16) p), 0 where d is too low. */
static inline __m256i whole(__m256d p, __m256d k_bits, __m256d d)
{
    const __m256d gone = _mm256_cmp_pd(d, _mm256_set1_pd(LM_WEIGHT_GONE), _CMP_LT_OQ);
    const __m256i k = _mm256_castpd_si256(k_bits);
    const __m256i j = _mm256_and_si256(k, _mm256_set1_epi64x(LM_EXP_STEPS - 1));
    p = _mm256_mul_pd(p, _mm256_i64gather_pd(lm_exp_powers, j, 8));
    __m256i scaled = _mm256_add_epi64(_mm256_castpd_si256(p),
                                      _mm256_slli_epi64(_mm256_srli_epi64(k, 4), 52));
    __m256d w = _mm256_floor_pd(_mm256_mul_pd(_mm256_castsi256_pd(scaled),
                                              _mm256_set1_pd(LM_WEIGHT_ONE)));
    w = _mm256_add_pd(_mm256_andnot_pd(gone, w), _mm256_set1_pd(0x1p52));
    return _mm256_xor_si256(_mm256_castpd_si256(w),
                            _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
}

void lm_weights_avx2(const double *d, size_t n, uint64_t *w)
{
    const __m256d rounder = _mm256_set1_pd(LM_ROUNDER), steps_e = _mm256_set1_pd(LM_STEPS_E);
    const __m256d high = _mm256_set1_pd(LM_LN2_HIGH / LM_EXP_STEPS);
    const __m256d low = _mm256_set1_pd(LM_LN2_LOW / LM_EXP_STEPS);
    for (size_t i = 0; i < n; i += 8) {
        struct pair x = { _mm256_loadu_pd(d + i), _mm256_loadu_pd(d + i + 4) }, s, k, r, p;
        s.a = _mm256_add_pd(_mm256_mul_pd(x.a, steps_e), rounder);
        s.b = _mm256_add_pd(_mm256_mul_pd(x.b, steps_e), rounder);
        k.a = _mm256_sub_pd(s.a, rounder);
        k.b = _mm256_sub_pd(s.b, rounder);
        r.a = _mm256_sub_pd(_mm256_sub_pd(x.a, _mm256_mul_pd(k.a, high)), _mm256_mul_pd(k.a, low));
        r.b = _mm256_sub_pd(_mm256_sub_pd(x.b, _mm256_mul_pd(k.b, high)), _mm256_mul_pd(k.b, low));
        p.a = p.b = _mm256_set1_pd(lm_exp_terms[0]);
        for (int t = 1; t < LM_EXP_TERMS; t++) {
            p.a = polynomial_step(p.a, r.a, lm_exp_terms[t]);
            p.b = polynomial_step(p.b, r.b, lm_exp_terms[t]);
        }
        _mm256_storeu_si256((__m256i *)(w + i), whole(p.a, s.a, x.a));
        _mm256_storeu_si256((__m256i *)(w + i + 4), whole(p.b, s.b, x.b));
    }
}

#endif
