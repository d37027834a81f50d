/* SPDX-License-Identifier: MIT */
#include "base/line.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/thread.h"

enum state { FREE, TAKEN, DONE };

/*
 * Job k is in slot k % n_slots.  Taking has a lock of its own, held while it reads, so
 * that jobs already taken go on meanwhile; states change under `lock`.
 */
struct run {
    const struct lm_line *line;
    pthread_mutex_t taking, lock;
    pthread_cond_t  changed;
    enum state     *states;         /* [n_slots]                             */
    int            *codes;          /* [n_slots]                             */
    uint64_t        next;           /* the job that is taken next            */
    bool            ended;          /* no job from `next` on                 */
    bool            stop;           /* one was put that failed               */
    int             threads;        /* numbers given out                     */
};

/* Wait for the state of a slot, or for `stop`. */
static bool await_state(struct run *r, size_t slot, enum state s)
{
    pthread_mutex_lock(&r->lock);
    while (r->states[slot] != s && !r->stop)
        pthread_cond_wait(&r->changed, &r->lock);
    const bool ok = !r->stop;
    pthread_mutex_unlock(&r->lock);
    return ok;
}

static void set_state(struct run *r, size_t slot, enum state s, int code)
{
    pthread_mutex_lock(&r->lock);
    r->states[slot] = s;
    r->codes[slot] = code;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Take the next job: its slot in *slot and what take gave, or 0 when there is none. */
static int take(struct run *r, size_t *slot)
{
    const struct lm_line *l = r->line;
    int k = 0;
    pthread_mutex_lock(&r->taking);
    *slot = (size_t)(r->next % l->n_slots);
    if (!r->ended && await_state(r, *slot, FREE)) {
        k = l->take(l->arg, *slot);
        r->next += k != 0;
        if (k <= 0) {
            pthread_mutex_lock(&r->lock);
            r->ended = true;
            pthread_cond_broadcast(&r->changed);
            pthread_mutex_unlock(&r->lock);
        }
        if (k)
            set_state(r, *slot, k < 0 ? DONE : TAKEN, k < 0 ? k : LM_OK);
    }
    pthread_mutex_unlock(&r->taking);
    return k;
}

static void *worker(void *arg)
{
    struct run *r = arg;
    const struct lm_line *l = r->line;
    size_t slot;
    pthread_mutex_lock(&r->lock);
    const int thread = r->threads++;
    pthread_mutex_unlock(&r->lock);
    while (take(r, &slot) > 0)
        set_state(r, slot, DONE, l->work(l->arg, slot, thread));
    return NULL;
}

/* Put jobs away until one fails or the last one is gone. */
static int put_all(struct run *r, size_t *failed)
{
    const struct lm_line *l = r->line;
    for (uint64_t k = 0;; k++) {
        const size_t slot = (size_t)(k % l->n_slots);
        pthread_mutex_lock(&r->lock);
        while (r->states[slot] != DONE && !(r->ended && k >= r->next))
            pthread_cond_wait(&r->changed, &r->lock);
        const bool none = r->states[slot] != DONE;
        int code = r->codes[slot];
        pthread_mutex_unlock(&r->lock);
        if (none)
            return LM_OK;
        if (!code)
            code = l->put(l->arg, slot);
        if (code) {
            *failed = slot;
            return code;
        }
        set_state(r, slot, FREE, LM_OK);
    }
}

static int run_threads(struct run *r, size_t *failed)
{
    const int n = r->line->n_threads;
    pthread_t *threads = malloc((size_t)n * sizeof *threads);
    int started = 0, code = LM_ENOMEM;
    while (threads && started < n && !lm_thread_start(&threads[started], worker, r))
        started++;
    *failed = r->line->n_slots;
    if (started)                        /* fewer threads are slower, no more */
        code = put_all(r, failed);
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return code;
}

static int run_here(const struct lm_line *l, size_t *failed)
{
    int k;
    for (size_t slot = 0;; slot = (slot + 1) % l->n_slots) {
        *failed = slot;
        if ((k = l->take(l->arg, slot)) <= 0 || (k = l->work(l->arg, slot, 0)) < 0 ||
            (k = l->put(l->arg, slot)) < 0)
            return k;
    }
}

int lm_line_run(const struct lm_line *line, size_t *failed)
{
    struct run r = { .line = line };
    if (line->n_threads <= 1)
        return run_here(line, failed);
    *failed = line->n_slots;
    r.states = calloc(line->n_slots, sizeof *r.states);
    r.codes = calloc(line->n_slots, sizeof *r.codes);
    if (!r.states || !r.codes) {
        free(r.states);
        free(r.codes);
        return LM_ENOMEM;
    }
    pthread_mutex_init(&r.taking, NULL);
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    const int code = run_threads(&r, failed);
    pthread_mutex_destroy(&r.taking);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.changed);
    free(r.states);
    free(r.codes);
    return code;
}
