/* SPDX-License-Identifier: MIT */
/* Attention for AVX512: attn_simd.h, compiled for it. */

#include "backend/cpu/attn_isa.h"

#if defined(__x86_64__)

#include "backend/cpu/attn_simd.h"

void lm_attn_avx512(const struct lm_attn *a, void *scratch)
{
    attn(a, scratch);
}

#else

void lm_attn_avx512(const struct lm_attn *a, void *scratch)
{
    lm_attn_scalar(a, scratch);
}

#endif
