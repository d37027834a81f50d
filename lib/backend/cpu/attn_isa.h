/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_ATTN_ISA_H
#define LM_CPU_ATTN_ISA_H

/* What the versions of attention share. */

#include "backend/cpu/attn.h"

#define LM_ATTN_TILE LM_ATTN_PAGE    /* positions between two looks at the maximum */

void lm_attn_scalar(const struct lm_attn *a, void *scratch);
void lm_attn_avx2(const struct lm_attn *a, void *scratch);
void lm_attn_avx512(const struct lm_attn *a, void *scratch);

/* Items of a row of d in scratch: whole vectors of any instruction set. */
static inline size_t lm_attn_pad(size_t d)
{
    return (d + 15) & ~(size_t)15;
}

#endif
