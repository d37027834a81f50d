/* SPDX-License-Identifier: MIT */
#include "job/square_sums.h"

#include "base/cpu.h"

void lm_square_sums(const float *const *rows, size_t n, size_t cols, double *sum)
{
    size_t at = 0;
#if defined(__x86_64__)
    if (cols >= 16 && lm_isa() >= LM_ISA_AVX2)
        lm_square_sums_avx2(rows, n, at = cols & ~(size_t)15, sum);
#endif
    for (size_t k = 0; k < n && at < cols; k++)
        for (size_t i = at; i < cols; i++)
            sum[i] += (double)rows[k][i] * (double)rows[k][i];
}
