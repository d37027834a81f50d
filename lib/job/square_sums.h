/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_SQUARE_SUMS_H
#define LM_JOB_SQUARE_SUMS_H

#include <stddef.h>

/*
 * Add to sum[i] the squares of column i of n rows, row after row, in double: i < cols.  All
 * versions round the same way: a square of a float is exact in double.
 */
void lm_square_sums(const float *const *rows, size_t n, size_t cols, double *sum);

#if defined(__x86_64__)
/* The same with AVX2 and FMA, for the columns below a multiple of 16. */
void lm_square_sums_avx2(const float *const *rows, size_t n, size_t cols, double *sum);
#endif

#endif
