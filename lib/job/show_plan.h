/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_SHOW_PLAN_H
#define LM_JOB_SHOW_PLAN_H

/* What a model's graph is and where its parts lie: for who wants to see. */

#include "io/output.h"
#include "model/model.h"

/*
 * lm_show_plan - rows of the graph of n tokens, n_out of them wanted, in order of evaluation,
 * columns separated by tabs:
 *
 *   node    number, piece, device, operation, type, shape, offset, bytes, numbers of the
 *           sources (i: input i, w: a weight), name of the weight or -
 *   input   number, device, type, shape, offset, bytes
 *   copy    as node: what is brought to the piece that follows
 *   buffer  device, bytes
 *   peak    bytes in all buffers
 *
 * A view has the offset of what it shows plus its own; offset - is for what lies elsewhere.
 */
int lm_show_plan(struct lm_ctx *c, size_t n, size_t n_out, struct lm_out *out,
                 struct lm_err *err);

/* The same graph in the language of Graphviz's dot: a box a node, coloured by piece. */
int lm_show_dot(struct lm_ctx *c, size_t n, size_t n_out, struct lm_out *out,
                struct lm_err *err);

#endif
