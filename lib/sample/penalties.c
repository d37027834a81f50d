/* SPDX-License-Identifier: MIT */
/*
 * penalties: for each id that occurs c > 0 times among the last_n latest accepted tokens,
 *   l = l > 0 ? l / repeat : l * repeat, then l = l - (c * frequency + presence).
 *
 * The ids of the window are kept in order with their counts, so that applying costs as many
 * steps as the window has different ids, whatever the vocabulary.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/sampler.h"

enum { REPEAT, LAST_N, PRESENCE, FREQUENCY };

struct window {
    size_t    limit;             /* tokens it may hold; SIZE_MAX: all             */
    uint32_t *recent;            /* ring of [limit] tokens, unless limit SIZE_MAX */
    size_t    recent_cap;        /* grown as needed                               */
    size_t    n, oldest;
    uint32_t *ids, *counts;      /* [n_ids] ids ascending, and how often each     */
    size_t    n_ids, ids_cap, counts_cap;
};

static bool off(const double *v)
{
    return v[LAST_N] == 0 || (v[REPEAT] == 1 && v[FREQUENCY] == 0 && v[PRESENCE] == 0);
}

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    struct window *w = calloc(1, sizeof *w);
    (void)setup;
    if (w)
        w->limit = v[LAST_N] < 0 ? SIZE_MAX : (size_t)v[LAST_N];
    else
        lm_fail_nomem(err);
    return w;
}

static void free_state(void *state)
{
    struct window *w = state;
    if (!w)
        return;
    free(w->recent);
    free(w->ids);
    free(w->counts);
    free(w);
}

static void reset(void *state)
{
    struct window *w = state;
    w->n = w->oldest = w->n_ids = 0;
}

static void *clone(const void *state)
{
    const struct window *from = state;
    struct window *w = lm_copy_array(from, 1, sizeof *from);
    if (!w)
        return NULL;
    w->recent = lm_copy_array(from->recent, from->recent_cap, sizeof *w->recent);
    w->ids = lm_copy_array(from->ids, from->ids_cap, sizeof *w->ids);
    w->counts = lm_copy_array(from->counts, from->counts_cap, sizeof *w->counts);
    if (w->recent && w->ids && w->counts)
        return w;
    free_state(w);
    return NULL;
}

/* Where id is, or belongs, among the ids. */
static size_t place(const struct window *w, uint32_t id)
{
    size_t lo = 0, hi = w->n_ids;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (w->ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void drop(struct window *w, uint32_t id)
{
    size_t i = place(w, id), after = w->n_ids - i - 1;
    if (--w->counts[i])
        return;
    memmove(w->ids + i, w->ids + i + 1, after * sizeof *w->ids);
    memmove(w->counts + i, w->counts + i + 1, after * sizeof *w->counts);
    w->n_ids--;
}

static int add(struct window *w, uint32_t id, struct lm_err *err)
{
    size_t i = place(w, id), after = w->n_ids - i;
    if (after && w->ids[i] == id) {
        w->counts[i]++;
        return LM_OK;
    }
    if (!lm_grow(&w->ids, &w->ids_cap, w->n_ids + 1, sizeof *w->ids) ||
        !lm_grow(&w->counts, &w->counts_cap, w->n_ids + 1, sizeof *w->counts))
        return lm_fail_nomem(err);
    memmove(w->ids + i + 1, w->ids + i, after * sizeof *w->ids);
    memmove(w->counts + i + 1, w->counts + i, after * sizeof *w->counts);
    w->ids[i] = id;
    w->counts[i] = 1;
    w->n_ids++;
    return LM_OK;
}

static int accept(void *state, uint32_t id, struct lm_err *err)
{
    struct window *w = state;
    int s = add(w, id, err);
    if (s < 0 || w->limit == SIZE_MAX)
        return s;
    if (w->n == w->limit) {                       /* full: the oldest makes room */
        drop(w, w->recent[w->oldest]);
        w->recent[w->oldest] = id;
        w->oldest = (w->oldest + 1) % w->limit;
        return LM_OK;
    }
    if (!lm_grow(&w->recent, &w->recent_cap, w->n + 1, sizeof *w->recent)) {
        drop(w, id);
        return lm_fail_nomem(err);
    }
    w->recent[w->n++] = id;
    return LM_OK;
}

struct job {
    const struct window *w;
    const double        *v;
};

static double penalize(const void *arg, size_t i, double l)
{
    const struct job *j = arg;
    l = l > 0 ? l / j->v[REPEAT] : l * j->v[REPEAT];
    l -= j->w->counts[i] * j->v[FREQUENCY] + j->v[PRESENCE];
    return l > DBL_MAX ? DBL_MAX : l < -DBL_MAX ? -DBL_MAX : l;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    const struct window *w = state;
    (void)step;
    return lm_cands_edit(c, w->ids, w->n_ids, penalize, &(struct job){ w, v }, err);
}

static const struct lm_param repeat = {
    .option    = "repeat-penalty",
    .key       = "penalty_repeat",
    .min       = 0,
    .max       = FLT_MAX,
    .above_min = true,
    .value     = 1,
    .arg       = "X",
    .off       = "1",
    .help      = "divide the logit of a recent token, once",
};

static const struct lm_param last_n = {
    .option = "repeat-last-n",
    .key    = "penalty_last_n",
    .min    = -1,
    .max    = INT32_MAX,
    .whole  = true,
    .value  = 64,
    .arg    = "N",
    .off    = "0",
    .help   = "tokens that count as recent; -1: all",
};

static const struct lm_param presence = {
    .option = "presence-penalty",
    .min    = -FLT_MAX,
    .max    = FLT_MAX,
    .value  = 0,
    .arg    = "X",
    .off    = "0",
    .help   = "subtract from the logit of a recent token",
};

static const struct lm_param frequency = {
    .option = "frequency-penalty",
    .min    = -FLT_MAX,
    .max    = FLT_MAX,
    .value  = 0,
    .arg    = "X",
    .off    = "0",
    .help   = "subtract for each time the token occurred",
};

const struct lm_sampler lm_penalties = {
    .name       = "penalties",
    .letter     = 'e',
    .params     = { &repeat, &last_n, &presence, &frequency },
    .off        = off,
    .apply      = apply,
    .new_state  = new_state,
    .accept     = accept,
    .reset      = reset,
    .clone      = clone,
    .free_state = free_state,
};
