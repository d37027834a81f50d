/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_THREAD_H
#define LM_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

#include "base/err.h"

/*
 * struct lm_pool - threads that wait for work.
 *
 * Work is a function called once for each index 0 .. n-1, on any thread; indices are
 * taken in rising order, and nothing is said of which is done first.  Callers cut work
 * by shape, never by thread, so that results do not depend on how many threads there
 * are.  A pool of one thread starts none and calls the function in order on the
 * caller's own.
 */
struct lm_pool;

/* pthread_create with attributes as usual, of a thread that leaves the signals by which a user
 * ends a program (SIGINT, SIGTERM, ...) to those that were there before it.  0 or an errno. */
int lm_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

/* A pool of n_threads in all, the caller's included.  NULL with *err filled. */
struct lm_pool *lm_pool_new(int n_threads, struct lm_err *err);
void lm_pool_free(struct lm_pool *p);

/* How many threads work, the caller's included.  p may be NULL: 1. */
int lm_pool_threads(const struct lm_pool *p);

/* Call fn(arg, i, thread) for every i < n and return when all are done.
 * `thread` is 0 .. threads-1, for scratch.  p may be NULL: runs here. */
void lm_pool_run(struct lm_pool *p, void (*fn)(void *arg, size_t i, int thread),
                 void *arg, size_t n);

/*
 * Turns: what threads prepare at the same time and finish in order.  *turn, from 0, is the
 * index whose turn it is; the indices before it are done, and what their threads wrote is
 * seen.  Waiting spins, and yields the CPU when that takes long.
 */
void lm_turn_wait(const size_t *turn, size_t i);
/* i is done: the turn of i + 1. */
void lm_turn_pass(size_t *turn);

/*
 * struct lm_barrier - a place where n threads wait for each other.
 *
 * For steps of microseconds: threads spin, and yield their CPU when that takes
 * long.  What a thread wrote before it is seen by all after it.  With lm_pool_run
 * over as many indices as the pool has threads, each thread gets one index as long
 * as every call passes the same barriers, one at least.
 */
struct lm_barrier {
    int      n;          /* threads                                     */
    int      arrived;    /* of this round; use lm_barrier_wait only     */
    unsigned round;
};

/* n threads, at least 1. */
void lm_barrier_init(struct lm_barrier *b, int n);

/* Return when all n threads are here. */
void lm_barrier_wait(struct lm_barrier *b);

#endif
