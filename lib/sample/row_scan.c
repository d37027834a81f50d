/* SPDX-License-Identifier: MIT */
#include "sample/row_scan.h"

#include <math.h>

#include "base/cpu.h"

/* Of m <= 32 logits: the largest into *best; false if one is NaN. */
static bool scan_block(const float *x, size_t m, float *best)
{
    float top = -INFINITY;
    bool ok = true;
    for (size_t i = 0; i < m; i++) {
        ok &= x[i] == x[i];
        top = x[i] > top ? x[i] : top;
    }
    *best = top;
    return ok;
}

bool lm_row_scan(const float *row, size_t n, float *best)
{
    size_t done = 0;
    bool ok = true;
#if defined(__x86_64__)
    if (lm_isa() >= LM_ISA_AVX2) {
        done = n - n % LM_ROW_BLOCK;
        ok = lm_row_scan_avx2(row, done, best);
    }
#endif
    for (size_t i = done; i < n; i += LM_ROW_BLOCK)
        ok &= scan_block(row + i, n - i < LM_ROW_BLOCK ? n - i : LM_ROW_BLOCK,
                         best + i / LM_ROW_BLOCK);
    return ok;
}
