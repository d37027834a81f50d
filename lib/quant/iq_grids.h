/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_IQ_GRIDS_H
#define LM_QUANT_IQ_GRIDS_H

/*
 * The codebooks of the IQ types, as digits: lane j of a codeword is the rank of its
 * value among those of the table.
 *
 *   iq2*    8 lanes of 2 bits; digits 0 1 2 stand for 8 25 43
 *   iq1s    8 lanes of 2 bits; digits 0 1 2 stand for -1 0 1
 *   iq3xxs  4 lanes of 3 bits; digits 0..7 stand for 4 12 20 28 36 44 52 62
 *   iq3s    4 lanes of 3 bits; digits 0..7 stand for 1 3 5 7 9 11 13 15
 *
 * Lane 0 is in the lowest bits, and the words of every table ascend.
 */

#include <stdint.h>

extern const uint16_t lm_grid_iq2xxs[256], lm_grid_iq2xs[512], lm_grid_iq2s[1024];
extern const uint16_t lm_grid_iq1s[2048];
extern const uint16_t lm_grid_iq3xxs[256], lm_grid_iq3s[512];

/* 0x80 when an odd number of bits of a 7-bit sign index is set: lanes 0 to 6 are
 * negative where the index has a bit, lane 7 so that their number is even. */
static inline unsigned lm_iq_signs(unsigned index)
{
    return index | (unsigned)__builtin_parity(index) << 7;
}

#endif
