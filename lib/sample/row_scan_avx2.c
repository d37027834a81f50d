/* SPDX-License-Identifier: MIT */
#include "sample/row_scan.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* vmaxps gives its second operand when one is NaN, so NaNs are counted apart. */
bool lm_row_scan_avx2(const float *row, size_t n, float *best)
{
    __m256 nan = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += LM_ROW_BLOCK) {
        __m256 a = _mm256_loadu_ps(row + i), b = _mm256_loadu_ps(row + i + 8);
        __m256 c = _mm256_loadu_ps(row + i + 16), d = _mm256_loadu_ps(row + i + 24);
        nan = _mm256_or_ps(nan, _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q),
                                             _mm256_cmp_ps(c, d, _CMP_UNORD_Q)));
        __m256 m = _mm256_max_ps(_mm256_max_ps(a, b), _mm256_max_ps(c, d));
        __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
        h = _mm_max_ps(h, _mm_movehl_ps(h, h));
        h = _mm_max_ss(h, _mm_movehdup_ps(h));
        _mm_store_ss(best + i / LM_ROW_BLOCK, h);
    }
    return _mm256_movemask_ps(nan) == 0;
}

#endif
