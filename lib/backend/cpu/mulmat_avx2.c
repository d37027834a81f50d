/* SPDX-License-Identifier: MIT */
/* Matrix products for AVX2: mulmat_simd.h, compiled for it. */

#if defined(__x86_64__)

#include "backend/cpu/mulmat_simd.h"

const struct lm_cpu_mulmat *const lm_mulmat_avx2[] = ALL_ROWS;

#else

#include "backend/cpu/mulmat_rows.h"

const struct lm_cpu_mulmat *const lm_mulmat_avx2[] = { NULL };

#endif
