/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CREW_H
#define LM_JOB_CREW_H

/*
 * Threads that encode, each with an encoder of its own.  Work comes in groups, which the caller
 * cuts by the texts, so that what comes of them does not depend on how many threads there are.
 */

#include <stddef.h>

#include "base/env.h"
#include "base/err.h"
#include "vocab/vocab.h"

struct lm_crew;

/* As many threads as env says, the caller's included.  v and env (may be NULL) are borrowed; env's
 * notes come from the caller's thread, after the run, each once.  NULL with *err filled. */
struct lm_crew *lm_crew_new(const struct lm_vocab *v, const struct lm_env *env,
                            struct lm_err *err);
void lm_crew_free(struct lm_crew *c);

/* Work on one group, on any thread: e and ids (empty) are the thread's. */
typedef int lm_crew_work(void *arg, size_t group, struct lm_encoder *e, struct lm_ids *ids,
                         struct lm_err *err);

/*
 * lm_crew_run - do the work of groups 0 .. n - 1.
 *
 * LM_OK, or what the first group that failed returned, with its *err; *failed is its number.
 * All groups before it are done; of those behind it some are.
 */
int lm_crew_run(struct lm_crew *c, lm_crew_work *work, void *arg, size_t n, size_t *failed,
                struct lm_err *err);

#endif
