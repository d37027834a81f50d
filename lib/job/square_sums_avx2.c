/* SPDX-License-Identifier: MIT */
#include "job/square_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>

void lm_square_sums_avx2(const float *const *rows, size_t n, size_t cols, double *sum)
{
    for (size_t i = 0; i < cols; i += 16, sum += 16) {
        __m256d s[4];
        for (int j = 0; j < 4; j++)
            s[j] = _mm256_loadu_pd(sum + 4 * j);
        for (size_t k = 0; k < n; k++)
            for (int j = 0; j < 4; j++) {
                const __m256d x = _mm256_cvtps_pd(_mm_loadu_ps(rows[k] + i + 4 * j));
                s[j] = _mm256_fmadd_pd(x, x, s[j]);
            }
        for (int j = 0; j < 4; j++)
            _mm256_storeu_pd(sum + 4 * j, s[j]);
    }
}

#endif
