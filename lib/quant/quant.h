/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_H
#define LM_QUANT_H

/*
 * Tensor types: how weights are packed into bytes.
 *
 * To add a tensor type:
 *   1. a file lib/quant/NAME.c with its block struct, decode, encode and row (what
 *      such files share is in block.h and fit.h);
 *   2. its line in types.c;
 *   3. expected bytes in tests/data (the table-walking tests in
 *      tests/unit/test_quant.c judge the rest).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/err.h"

#ifdef __cplusplus      /* .cu files include this */
extern "C" {
#endif

/* GGUF tensor type numbers, for code that is about one type. */
enum lm_type_id {
    LM_F32 = 0, LM_F16 = 1, LM_Q4_0 = 2, LM_Q4_1 = 3, LM_Q5_0 = 6, LM_Q5_1 = 7,
    LM_Q8_0 = 8, LM_Q8_1 = 9, LM_Q2_K = 10, LM_Q3_K = 11, LM_Q4_K = 12,
    LM_Q5_K = 13, LM_Q6_K = 14, LM_Q8_K = 15, LM_IQ2_XXS = 16, LM_IQ2_XS = 17,
    LM_IQ3_XXS = 18, LM_IQ1_S = 19, LM_IQ4_NL = 20, LM_IQ3_S = 21,
    LM_IQ2_S = 22, LM_IQ4_XS = 23, LM_I8 = 24, LM_I16 = 25, LM_I32 = 26,
    LM_I64 = 27, LM_F64 = 28, LM_IQ1_M = 29, LM_BF16 = 30, LM_TQ1_0 = 34,
    LM_TQ2_0 = 35, LM_MXFP4 = 39, LM_NVFP4 = 40, LM_Q1_0 = 41, LM_Q2_0 = 42
};

/* One row per tensor type, defined at the foot of its own file. */
struct lm_type {
    const char *name;      /* as command lines spell it: "q8_0", "q4_K"         */
    uint32_t    id;        /* GGUF tensor type number                           */
    uint32_t    block;     /* weights per block; a row is whole blocks          */
    uint32_t    bytes;     /* bytes per block                                   */
    bool        in_files;  /* false: an intermediate form                       */
    bool        needs_weights; /* encode must be given importance, not NULL     */
    const char *source;    /* where the layout is specified                     */
    float       end;       /* of types with blocks: magnitude that no block comes near
                              nor any greater one; 0: never made of floats       */
    /* n weights, a multiple of block.  NULL: integers, which are not weights. */
    void      (*decode)(const void *src, float *dst, size_t n);
    /* n weights of one row; weights: [n] importance or NULL.  Allocates nothing.  Uses
     * instructions up to isa; LM_ISA_SCALAR is the definition, and all give the same
     * bytes.  NULL: this version cannot produce the type. */
    void      (*encode)(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights);
    /* First block (0-based) of n weights that a loader must refuse (a scale or value
     * that is infinite or NaN, ...), or -1.  NULL: every byte pattern is valid. */
    int64_t   (*invalid)(const void *src, size_t n);
};

extern const struct lm_type *const lm_types[];   /* NULL-terminated, by id */

/* The row of a GGUF type number, or NULL. */
const struct lm_type *lm_type_by_id(uint32_t id);

/* The row of a name, any case, or NULL. */
const struct lm_type *lm_type_by_name(const char *name);

/* "removed Q4_2", "Q8_0 interleaved (ik_llama.cpp)", ... for numbers that have no row
 * but are known, else NULL. */
const char *lm_type_foreign(uint32_t id);

/* Bytes of a row of cols weights; false when cols is not whole blocks or the
 * product does not fit. */
bool lm_type_row_bytes(const struct lm_type *t, uint64_t cols, uint64_t *bytes);

/* The first of n floats, whole blocks or not, that is beyond what a block of the type can
 * show (lm_type.end), infinite or NaN; or -1. */
int64_t lm_type_beyond(const struct lm_type *t, const float *src, size_t n);

/*
 * lm_type_encode - pack rows of floats as type t, with the fastest encoder this
 * CPU has; all of them give the same bytes.
 *
 *   src      [rows][cols] f32, finite; what lm_type_beyond tells becomes anything
 *   dst      rows * row bytes; the caller's
 *   weights  [cols] importance, shared by all rows, or NULL
 *
 * Returns LM_OK, LM_EUSE when cols is not whole blocks or importance is missing that the
 * type needs, LM_ENOSUP when the type cannot be produced.  Safe from several threads on
 * disjoint dst.
 */
int lm_type_encode(const struct lm_type *t, const float *src, void *dst,
                   size_t rows, size_t cols, const float *weights, struct lm_err *err);

#ifdef __cplusplus
}
#endif

#endif
