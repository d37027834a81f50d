/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_ATTN_ISA_H
#define LM_CPU_ATTN_ISA_H

/* What the versions of attention share. */

#include "backend/cpu/attn.h"

#define LM_ATTN_TILE LM_ATTN_PAGE    /* positions between two looks at the maximum */

void lm_attn_scalar(const struct lm_attn *a, void *scratch);

#endif
