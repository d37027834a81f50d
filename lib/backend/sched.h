/* SPDX-License-Identifier: MIT */
#ifndef LM_SCHED_H
#define LM_SCHED_H

/*
 * Computing one graph on several devices.
 *
 *   struct lm_sched *s = lm_sched_new(backends, n, &err);      the CPU last
 *   struct lm_plan *p = lm_sched_plan(s, graph, &err);
 *   lm_sched_begin(s, p, &err);  fill the graph's inputs
 *   lm_sched_run(s, p, NULL, NULL, &err);
 *   lm_sched_wait(s, &err);      then results are there
 *
 * Each node gets a backend, in three passes:
 *   1. A node that reads weights, or what sequences remember, is computed where these are, if
 *      that device can; of weights in host memory, also where a device finds it worth
 *      bringing them.  Inputs are the CPU's.
 *   2. From these the assignment spreads to neighbours in the order of evaluation, that of
 *      devices other than the CPU first, over nodes that the device can compute.
 *   3. What is left goes to the device that has most of the sources, of those that can
 *      compute it.
 * Then the nodes are cut where the backend changes.  What a piece reads from memory that its
 * device cannot read is copied there before it; of a stack of experts' matrices only those
 * that are used.  Inputs are kept several times over, in turns, so that the next ones can be
 * filled while devices still read the last.
 */

#include "backend/backend.h"

#define LM_SCHED_COPIES 4

struct lm_sched;
struct lm_plan;

/* Backends [n], at most LM_MAX_PLACES, best first, the CPU last; borrowed. */
struct lm_sched *lm_sched_new(struct lm_backend *const *backends, size_t n, struct lm_err *err);
void lm_sched_free(struct lm_sched *s);

/*
 * lm_sched_plan - assign, cut, plan and place the nodes of g, and make them ready to run.
 *
 * g is changed (copies are put between its nodes) and must stay until the plan is released.
 * It is expanded, and inputs are flagged INPUT.  A node flagged OUTPUT whose data is not NULL
 * goes to the host memory that lm_sched_output names before each run.  All plans of a
 * scheduler share their memory, which grows with the largest: then *moved becomes true,
 * and plans made before it must be released.  measure: it will not run; only g->planned, the
 * assignment and the pieces are wanted.
 */
struct lm_plan *lm_sched_plan(struct lm_sched *s, struct lm_graph *g, bool measure, bool *moved,
                              struct lm_err *err);
void lm_sched_release(struct lm_sched *s, struct lm_plan *p);

/* See to it that plans of these sizes need no more memory; *moved as above. */
int lm_sched_reserve(struct lm_sched *s, const size_t size[LM_MAX_PLACES], bool *moved,
                     struct lm_err *err);

/* Before inputs are filled: their data is where nobody reads any more. */
int lm_sched_begin(struct lm_sched *s, struct lm_plan *p, struct lm_err *err);

/* Where this run's rows of an output go: all of t's bytes. */
void lm_sched_output(struct lm_plan *p, struct lm_tensor *t, void *dst);

/* Evaluate; seen as for a backend.  Returns before other devices than the CPU are done. */
int lm_sched_run(struct lm_sched *s, struct lm_plan *p,
                 void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
                 struct lm_err *err);

/* Wait for everything. */
int lm_sched_wait(struct lm_sched *s, struct lm_err *err);

/* What a plan consists of: pieces, and of piece i the backend, its nodes and what is copied
 * for it. */
size_t lm_plan_pieces(const struct lm_plan *p);
size_t lm_plan_piece(const struct lm_plan *p, size_t i, size_t *first, size_t *n_nodes,
                     size_t *n_copies);

/* Bytes of matrices of experts that have been copied for pieces so far, and that copying
 * whole stacks would have been. */
void lm_sched_experts(const struct lm_sched *s, uint64_t *copied, uint64_t *whole);

#endif
