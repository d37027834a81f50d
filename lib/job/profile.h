/* SPDX-License-Identifier: MIT */
#ifndef LM_PROFILE_H
#define LM_PROFILE_H

/*
 * Where the time of evaluations goes: how long nodes take, those of one operation with weights of
 * one type on one device together.  Nodes are then evaluated one by one, each waited for.
 */

#include "io/output.h"
#include "model/model.h"

struct lm_profile;

/* From now on, for a context, which stays the caller's and must outlive it; NULL: LM_ENOMEM. */
struct lm_profile *lm_profile_begin(struct lm_ctx *c, struct lm_err *err);

/*
 * lm_profile_end - write to out a row for each kind of node, what took longest first:
 *
 *   operation, type of the weight (- for none), device, nodes, seconds, share of all seconds
 *
 * separated by tabs.  Frees p, which may be NULL: nothing is written then.
 */
int lm_profile_end(struct lm_profile *p, struct lm_out *out, struct lm_err *err);

#endif
