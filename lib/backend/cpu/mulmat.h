/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_MULMAT_H
#define LM_CPU_MULMAT_H

/*
 * Matrix products of packed weights with float activations on the CPU.
 *
 *   Y[n][rows] = X[n][cols] . W[rows][cols]^T
 *
 * W is a tensor of any type.  X is taken in the form that suits it: for quantized weights
 * rounded to 8 bits in blocks of 32 (mulmat_q8.h), so that integers are multiplied; for
 * F32, F16, BF16, MXFP4 and what has no kernel of its own in float.  The scalar kernels decode
 * W and define the result, which those for wider instructions have to within the rounding of
 * the additions.  A kernel is a row: weights in its own interleaved layout, made once at load,
 * or as in the file.
 *
 * Results depend on the instruction set, but never on the number of threads or on how
 * rows are cut; and the result for a token does not depend on which other tokens are in
 * the call.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "quant/quant.h"

#define LM_MULMAT_ANY 0xffffffffu

struct lm_cpu_mulmat {
    uint32_t     type_id;     /* of the weights; LM_MULMAT_ANY: whatever decodes     */
    enum lm_isa  isa;         /* least instruction set it needs                      */
    uint32_t     rows;        /* rows multiplied at a time, a panel                  */
    /* Bytes of one panel of `rows` rows of cols weights of type t. */
    size_t     (*panel_bytes)(const struct lm_type *t, size_t cols);
    /* Make one panel from `rows` rows as they lie in a file (row_bytes apart); rows
     * beyond n_rows (the ragged last panel) are not stored by mul.  NULL when the file's
     * layout is multiplied as it is: a panel is `rows` rows, the last one fewer. */
    void       (*pack)(const void *src, size_t row_bytes, size_t n_rows, size_t cols, void *dst);
    /* Bytes of one activation row in the kernel's form, a multiple of 64. */
    size_t     (*act_bytes)(size_t cols);
    /* Bring one row of cols floats into that form; kernels with the same act may share it. */
    void       (*act)(const float *x, size_t cols, void *dst);
    /* One panel (packed: aligned to 64) of weights of type t times n activation rows
     * (aligned to 64, act_bytes apart): y[t * y_stride + r] for r < n_rows (1 .. rows),
     * t < n. */
    void       (*mul)(const struct lm_type *t, const void *panel, size_t n_rows, size_t cols,
                      const void *act, size_t n, float *y, size_t y_stride);
};

/*
 * lm_cpu_mulmat_find - the best kernel for weights of type t with rows of cols weights
 * (whole blocks), at most of instruction set isa.  Every type with a decode function has
 * one (the last resort, LM_MULMAT_ANY, decodes a tile of a row at a time and multiplies
 * in float); NULL otherwise.  in_place: only kernels that need no pack.
 */
const struct lm_cpu_mulmat *lm_cpu_mulmat_find(const struct lm_type *t, size_t cols,
                                               enum lm_isa isa, int in_place);

#endif
