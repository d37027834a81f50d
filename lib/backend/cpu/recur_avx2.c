/* SPDX-License-Identifier: MIT */
/* Steps of recurrent layers for AVX2: recur_simd.h, compiled for it. */

#if defined(__x86_64__)

#include "backend/cpu/recur_simd.h"

const struct lm_recur lm_recur_avx2 = { conv, scan, scan_each, delta, delta_each, wkv6, wkv7,
                                        gla };

#else
typedef int lm_no_recur_avx2;       /* a file may not be empty */
#endif
