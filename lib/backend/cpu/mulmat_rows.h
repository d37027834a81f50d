/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_MULMAT_ROWS_H
#define LM_CPU_MULMAT_ROWS_H

/*
 * The tables of kernels, one per instruction set, and what their sources share.
 */

#include "backend/cpu/mulmat.h"

/* NULL-terminated, best first. */
extern const struct lm_cpu_mulmat *const lm_mulmat_scalar[];
extern const struct lm_cpu_mulmat *const lm_mulmat_avx2[];
extern const struct lm_cpu_mulmat *const lm_mulmat_avx512[];

/* Floats as they are, for kernels that multiply in float: act_bytes and act. */
size_t lm_mulmat_f32_bytes(size_t cols);
void lm_mulmat_f32_act(const float *x, size_t cols, void *dst);

/* Bytes of one row as it lies in a file: panel_bytes of kernels without pack. */
size_t lm_mulmat_file_bytes(const struct lm_type *t, size_t cols);

#endif
