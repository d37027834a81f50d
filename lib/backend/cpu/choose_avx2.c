/* SPDX-License-Identifier: MIT */
/* Scores of positions for AVX2: choose_simd.h, compiled for it. */

#if defined(__x86_64__)

#include "backend/cpu/choose_simd.h"

void lm_scoring_avx2(const struct lm_scoring *s, void *scratch)
{
    scoring(s, scratch);
}

#else
typedef int lm_no_scoring_avx2;     /* a file may not be empty */
#endif
