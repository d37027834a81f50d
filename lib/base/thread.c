/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * Each run is a generation number.  Workers spin a little for the next one, since
 * a graph hands out work every few microseconds, and then sleep.
 */
#define SPINS 2000

struct lm_pool {
    int              n;               /* threads in all                      */
    pthread_t       *threads;         /* [n - 1]                             */
    void           (*fn)(void *, size_t, int);
    void            *arg;
    size_t           count;
    atomic_size_t    next;            /* index not yet taken                 */
    atomic_int       busy;            /* workers not yet through this run    */
    atomic_uint      run;             /* generation                          */
    atomic_bool      quit;
    pthread_mutex_t  lock;
    pthread_cond_t   wake;
};

struct start {
    struct lm_pool *pool;
    int             thread;
};

static void work(struct lm_pool *p, int thread)
{
    size_t i;
    while ((i = atomic_fetch_add(&p->next, 1)) < p->count)
        p->fn(p->arg, i, thread);
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    sched_yield();
#endif
}

/* One round of a wait that should be short. */
static void linger(int spins)
{
    if (spins < SPINS)
        pause_cpu();
    else
        sched_yield();
}

static void await_run(struct lm_pool *p, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load(&p->run) != seen)
            return;
        pause_cpu();
    }
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->run) == seen)
        pthread_cond_wait(&p->wake, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void *worker(void *arg)
{
    struct start s = *(struct start *)arg;
    unsigned seen = 0;
    free(arg);
    for (;;) {
        await_run(s.pool, seen);
        seen++;
        if (atomic_load(&s.pool->quit))
            return NULL;
        work(s.pool, s.thread);
        atomic_fetch_sub(&s.pool->busy, 1);
    }
}

int lm_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU };
    sigset_t set, before;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        sigaddset(&set, ends[i]);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    const int e = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e;
}

static void announce(struct lm_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->run, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

struct lm_pool *lm_pool_new(int n_threads, struct lm_err *err)
{
    struct lm_pool *p = calloc(1, sizeof *p);
    if (!p) {
        lm_fail_nomem(err);
        return NULL;
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->n = 1;
    p->threads = calloc((size_t)(n_threads > 1 ? n_threads - 1 : 1), sizeof *p->threads);
    if (!p->threads) {
        lm_pool_free(p);
        lm_fail_nomem(err);
        return NULL;
    }
    while (p->n < n_threads) {
        struct start *s = malloc(sizeof *s);
        int e = 0;
        if (s) {
            *s = (struct start){ p, p->n };
            e = lm_thread_start(&p->threads[p->n - 1], worker, s);
        }
        if (!s || e) {
            free(s);
            lm_fail(err, LM_ENOMEM, "cannot start thread %d of %d%s%s", p->n + 1, n_threads,
                    e ? ": " : "", e ? strerror(e) : "");
            lm_pool_free(p);
            return NULL;
        }
        p->n++;
    }
    return p;
}

void lm_pool_free(struct lm_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, true);
    announce(p);
    for (int i = 0; i < p->n - 1; i++)
        pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->threads);
    free(p);
}

int lm_pool_threads(const struct lm_pool *p)
{
    return p ? p->n : 1;
}

void lm_pool_run(struct lm_pool *p, void (*fn)(void *arg, size_t i, int thread),
                 void *arg, size_t n)
{
    if (!p || p->n == 1 || n < 2) {
        for (size_t i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->count = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->busy, p->n - 1);
    announce(p);
    work(p, 0);
    for (int spins = 0; atomic_load(&p->busy); spins++)
        linger(spins);
}

void lm_barrier_init(struct lm_barrier *b, int n)
{
    *b = (struct lm_barrier){ .n = n };
}

void lm_barrier_wait(struct lm_barrier *b)
{
    if (b->n < 2)
        return;
    unsigned round = __atomic_load_n(&b->round, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == b->n) {
        __atomic_store_n(&b->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&b->round, round + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(&b->round, __ATOMIC_ACQUIRE) == round; spins++)
        linger(spins);
}

void lm_turn_wait(const size_t *turn, size_t i)
{
    for (int spins = 0; __atomic_load_n(turn, __ATOMIC_ACQUIRE) != i; spins++)
        linger(spins);
}

void lm_turn_pass(size_t *turn)
{
    __atomic_add_fetch(turn, 1, __ATOMIC_RELEASE);
}
