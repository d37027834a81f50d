/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_PLAIN_AVX2_H
#define LM_QUANT_PLAIN_AVX2_H

/* What plain.c has kernels for with AVX2 and F16C. */

#include <stddef.h>
#include <stdint.h>

/* Floats to binary16, the bits of lm_f16_store; n is a multiple of 8. */
void lm_f16_pack_avx2(const float *src, void *dst, size_t n);

/* Binary16 to floats, the bits of lm_f16_load; n is a multiple of 8. */
void lm_f16_unpack_avx2(const void *src, float *dst, size_t n);

/* Floats to bfloat16, rounded to nearest even, NaN to quiet NaN; n is a multiple of 16. */
void lm_bf16_pack_avx2(const float *src, void *dst, size_t n);

/* bfloat16 to floats; n is a multiple of 16. */
void lm_bf16_unpack_avx2(const void *src, float *dst, size_t n);

/* How many of n halves, a multiple of 32, stand before the 32 with the first whose bits `mask`
 * are all ones; n if there is none. */
size_t lm_without_ones_avx2(const void *src, size_t n, uint16_t mask);

#endif
