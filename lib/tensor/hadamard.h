/* SPDX-License-Identifier: MIT */
#ifndef LM_HADAMARD_H
#define LM_HADAMARD_H

/*
 * Spreading outliers before keys and values are rounded to few bits (Ashkboos et al., "QuaRot",
 * 2024): each block of a row is multiplied by a Hadamard matrix, entries +-1/sqrt(block), which is
 * its own inverse.  Products of a query and a key that are both treated so are what they were.
 */

#include <stddef.h>

#include "quant/quant.h"

/* Multiply each block of row x [n] by the matrix, in place.  block: a power of two that divides n;
 * 0: nothing happens.  The same bits on every machine. */
void lm_hadamard(float *x, size_t n, size_t block);

/* The block for rows of n values in a cache of type t: the largest power of two that divides n,
 * if t rounds in blocks and it is at least 64; else 0. */
size_t lm_hadamard_block(const struct lm_type *t, size_t n);

#endif
