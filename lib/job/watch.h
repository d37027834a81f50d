/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_WATCH_H
#define LM_JOB_WATCH_H

/*
 * Looking at a model's intermediates while it runs.
 *
 * For each node whose name a pattern (pattern.h) matches, after each evaluation, a row:
 *
 *   evaluation, name, operation, type, shape, sum, sum of squares, least, greatest
 *
 * separated by tabs.  A node is called by the weight it uses, without ".weight", or by its
 * number in the order of evaluation: "node 17".
 */

#include "io/output.h"
#include "model/model.h"

struct lm_watch;

/* From now on, for a context, into out; both are borrowed until lm_watch_end. */
struct lm_watch *lm_watch_begin(struct lm_ctx *c, const char *pattern, struct lm_out *out,
                                struct lm_err *err);
/* The first failure of writing, LM_EDATA if something was evaluated and nothing had such a name, or
 * LM_OK; frees w. */
int lm_watch_end(struct lm_watch *w, struct lm_err *err);

#endif
