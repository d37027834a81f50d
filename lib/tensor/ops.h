/* SPDX-License-Identifier: MIT */
#ifndef LM_OPS_H
#define LM_OPS_H

/*
 * The operations: a row each.
 *
 * To add one: its number in tensor.h, its shape rule, row and maker in ops.c, and
 * its reference kernel and row in backend/cpu/cpu_ops.c; tests/unit/test_tensor.c and
 * test_backend.c walk the tables.
 */

#include "tensor/tensor.h"

struct lm_op_row {
    const char *name;
    uint32_t    n_src, n_optional;     /* sources; how many of the last may be missing  */
    bool        in_place;              /* the result may overwrite the first source     */
    /* Check sources and argument, fill type and ne.  LM_EUSE with words otherwise. */
    int       (*shape)(struct lm_tensor *t, struct lm_err *err);
    /* Floating-point operations of evaluating t. */
    double    (*flops)(const struct lm_tensor *t);
    /* Bytes read and written; NULL: those of the sources and the result. */
    double    (*bytes)(const struct lm_tensor *t);
};

/* Where attention has what lm_attn_adjust and lm_attn_chosen give it. */
enum { LM_SRC_SINKS = 4, LM_SRC_BIAS = 5, LM_SRC_CHOSEN = 6 };

/* The row of an operation. */
const struct lm_op_row *lm_op_row(enum lm_op op);

/* What evaluating t costs: floating-point operations, and bytes of its sources and result. */
void lm_op_cost(const struct lm_tensor *t, double *flops, double *bytes);

#endif
