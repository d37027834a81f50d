/* SPDX-License-Identifier: MIT */
#ifndef LM_COMPARE_H
#define LM_COMPARE_H

/* How far the numbers of two tensors are apart. */

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"

/* A file and what was read from its beginning. */
struct lm_compare_side {
    struct lm_in                *in;
    const struct lm_gguf        *g;
    const struct lm_gguf_tensor *t;
};

struct lm_difference {
    uint64_t n;                  /* numbers compared                                   */
    uint64_t n_differ;           /* of them different; for a NaN on one side only, too */
    double   max;                /* largest distance, infinite for such a NaN          */
    double   sum2;               /* sum of the squares of all distances                */
};

/*
 * lm_compare - the numbers of two tensors of one shape, decoded to f32 unless their types
 * and bytes are the same.  Tensors of integers are compared as integers and must have the
 * same type.
 *
 * LM_EUSE when a file cannot be read by ranges, LM_ENOSUP for types that have no numbers to
 * compare and for big-endian files, LM_EDATA when data is not there.
 */
int lm_compare(const struct lm_compare_side *a, const struct lm_compare_side *b,
               struct lm_difference *out, const struct lm_env *env, struct lm_err *err);

#endif
