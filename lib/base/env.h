/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_ENV_H
#define LM_BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

/*
 * struct lm_env - what the caller lends a long-running function.
 *
 * Every _open, _load and _run takes one.  A zeroed struct, or NULL, is silent,
 * never stops, and uses one thread.  The library keeps no other link to its
 * surroundings: no globals, no stderr.
 */

enum lm_level {
    LM_INFO,       /* shown with -v                */
    LM_WARN,       /* shown unless -q              */
    LM_FAULT,      /* shown always: one of several, before the failure that counts them */
};

struct lm_env {
    void  *user;   /* passed to the callbacks */
    void (*note)(void *user, enum lm_level level, const char *text);
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    bool (*stop)(void *user);              /* asked often: it should only look at a flag */
    int    n_threads;                      /* 0 counts as 1 */
    int    n_threads_batch;                /* for evaluating several tokens at once; 0: n_threads */
};

/* Send one line of text, without newline, to env->note if there is one. */
void lm_note(const struct lm_env *env, enum lm_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Tell how far `what` has come, in units of the caller's choice. */
void lm_progress(const struct lm_env *env, const char *what, uint64_t done, uint64_t total);

/* Has the caller asked to stop?  Long loops ask once a block and return
 * LM_ESTOP. */
bool lm_stopped(const struct lm_env *env);

/* Threads to use, at least 1. */
int lm_env_threads(const struct lm_env *env);

#endif
