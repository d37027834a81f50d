/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_ROW_SCAN_H
#define LM_SAMPLE_ROW_SCAN_H

/*
 * The one pass over a whole row of logits.  It leaves the largest logit of each
 * block of 32; the best id, the k best and everything above a threshold are then
 * found by looking into few blocks.
 */

#include <stdbool.h>
#include <stddef.h>

#define LM_ROW_BLOCK 32

/* Blocks of a row of n logits; the last one may be short. */
static inline size_t lm_row_blocks(size_t n)
{
    return (n + LM_ROW_BLOCK - 1) / LM_ROW_BLOCK;
}

/*
 * lm_row_scan - best[b] = max of row[32 b .. 32 b + 31], for each block b.
 *
 *   row   [n] f32
 *   best  [lm_row_blocks(n)] f32
 *
 * Returns false if a logit is NaN; best is then of no use.
 */
bool lm_row_scan(const float *row, size_t n, float *best);

/* The same for whole blocks only (n a multiple of 32), with AVX2. */
bool lm_row_scan_avx2(const float *row, size_t n, float *best);

#endif
