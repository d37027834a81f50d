/* SPDX-License-Identifier: MIT */
/* Operations on rows for AVX2: vec_simd.h, compiled for it. */

#if defined(__x86_64__)

#include "backend/cpu/vec_simd.h"

const struct lm_vec lm_vec_avx2 = VEC_TABLE;

#else
typedef int lm_no_vec_avx2;       /* a file may not be empty */
#endif
