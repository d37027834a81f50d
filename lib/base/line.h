/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_LINE_H
#define LM_BASE_LINE_H

#include <stddef.h>

#include "base/err.h"

/*
 * struct lm_line - an assembly line: jobs are taken one at a time and in order, worked on
 * by several threads, and put away one at a time and in the same order.
 *
 * It reads ahead of a writer and keeps all CPUs busy between the two, while what comes
 * out has the order of what went in, however many threads there are.  A job lives in one
 * of n_slots slots of the caller's; slots are used round robin.
 */
struct lm_line {
    int    n_threads;       /* that work; 1: everything happens on the caller's thread    */
    size_t n_slots;         /* at least 1: the most jobs on the way at once               */
    void  *arg;
    /* Fill the slot with the next job: 1, 0 when there are no more, or a code.  Calls
     * never overlap, but come from several threads. */
    int  (*take)(void *arg, size_t slot);
    /* Do the job; thread is 0 .. n_threads - 1.  LM_OK or a code. */
    int  (*work)(void *arg, size_t slot, int thread);
    /* Put its result away; on the caller's thread.  LM_OK or a code. */
    int  (*put)(void *arg, size_t slot);
};

/*
 * lm_line_run - run until there are no more jobs, or one fails.
 *
 * Returns LM_OK, or the code of the first job, in order, that failed to be taken, done or
 * put; *failed is then its slot, which nothing touches any more.  LM_ENOMEM with
 * *failed = n_slots when threads could not be started.
 */
int lm_line_run(const struct lm_line *line, size_t *failed);

#endif
