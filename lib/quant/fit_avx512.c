/* SPDX-License-Identifier: MIT */
/* The searches of fit.c, sixteen sub-blocks at a time. */
#include "quant/fit.h"

#if defined(__x86_64__)
#include "quant/vec_avx512.h"

#include "quant/fit_lanes.h"

const struct lm_fit lm_fit_avx512 = {
    affine, symmetric, positive, extremes, range, extremes4, range4, descent, curve, curve_codes,
    bytes, weights, recode, extreme, rounded, nearest, signs, e2m1, halves, nibbles
};

#endif
