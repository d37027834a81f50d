/* SPDX-License-Identifier: MIT */
/* Choosing a kernel: tables of kernels, one per instruction set, best first. */

#include "backend/cpu/mulmat_rows.h"

/* By instruction set; each table is best first and ends with a NULL. */
static const struct lm_cpu_mulmat *const *const tables[LM_N_ISA] = {
    [LM_ISA_SCALAR] = lm_mulmat_scalar,
    [LM_ISA_AVX2] = lm_mulmat_avx2,
    [LM_ISA_AVX512] = lm_mulmat_avx512,
};

const struct lm_cpu_mulmat *lm_cpu_mulmat_find(const struct lm_type *t, size_t cols,
                                               enum lm_isa isa, int in_place)
{
    if (!t->decode || cols % t->block)
        return NULL;
    for (int i = (int)isa; i >= 0; i--) {
        for (const struct lm_cpu_mulmat *const *k = tables[i]; *k; k++)
            if (((*k)->type_id == t->id || (*k)->type_id == LM_MULMAT_ANY) &&
                !(in_place && (*k)->pack))
                return *k;
    }
    return NULL;
}
