/* SPDX-License-Identifier: MIT */
/*
 * adaptive_p: prefer tokens whose probability is near a target that moves against the average
 * of those chosen so far.
 *
 * With A and B, the decaying sums of the chosen probabilities and of ones (A = target / (1 -
 * decay), B = 1 / (1 - decay) at first): a = 2 target - A / B, clamped to 0 .. 1; with x = |p_i -
 * a| / 0.3 the new logits are 5 - 10 x^2 / (1 + x).
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/sampler.h"

enum { TARGET, DECAY };

#define WIDTH 0.3
#define PEAK  5
#define SLOPE 10

struct average {
    double    target, decay;
    double    sum, weight;       /* A and B                                      */
    double   *p;                 /* [n] of the step's candidates, ids ascending  */
    uint32_t *ids;
    size_t    n, p_cap, ids_cap;
    bool      waiting;           /* a token was drawn and not yet accepted       */
    uint32_t  id;
};

static bool off(const double *v)
{
    return v[TARGET] < 0;
}

static void reset(void *state)
{
    struct average *a = state;
    a->sum = a->target / (1 - a->decay);
    a->weight = 1 / (1 - a->decay);
    a->waiting = false;
    a->n = 0;
}

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    struct average *a = calloc(1, sizeof *a);
    (void)setup;
    if (!a) {
        lm_fail_nomem(err);
        return NULL;
    }
    a->target = v[TARGET];
    a->decay = v[DECAY];
    reset(a);
    return a;
}

static void free_state(void *state)
{
    struct average *a = state;
    if (!a)
        return;
    free(a->p);
    free(a->ids);
    free(a);
}

static void *clone(const void *state)
{
    const struct average *from = state;
    struct average *a = malloc(sizeof *a);
    if (!a)
        return NULL;
    *a = *from;
    a->p_cap = a->ids_cap = a->n;
    a->p = lm_malloc_array(a->n, sizeof *a->p);
    a->ids = lm_malloc_array(a->n, sizeof *a->ids);
    if (a->p && a->ids) {
        if (a->n) {
            memcpy(a->p, from->p, a->n * sizeof *a->p);
            memcpy(a->ids, from->ids, a->n * sizeof *a->ids);
        }
        return a;
    }
    free_state(a);
    return NULL;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    struct average *a = state;
    (void)v;
    (void)step;
    lm_cands_sort(c, LM_BY_ID);
    a->n = 0;
    if (!lm_grow(&a->p, &a->p_cap, c->n, sizeof *a->p) ||
        !lm_grow(&a->ids, &a->ids_cap, c->n, sizeof *a->ids))
        return lm_fail_nomem(err);
    const double total = (double)lm_cands_weigh(c);
    const double want = fmin(fmax(2 * a->target - a->sum / a->weight, 0), 1);
    c->max = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        const double p = (double)c->list[i].w / total, x = fabs(p - want) / WIDTH;
        const double l = PEAK - SLOPE * x * x / (1 + x);
        a->p[i] = p;
        a->ids[i] = c->list[i].id;
        c->list[i].l = l;
        c->max = l > c->max ? l : c->max;
    }
    a->n = c->n;
    a->waiting = false;
    return LM_OK;
}

static void drawn(void *state, const struct lm_cands *c, uint32_t id)
{
    struct average *a = state;
    (void)c;
    a->waiting = true;
    a->id = id;
}

static int accept(void *state, uint32_t id, struct lm_err *err)
{
    struct average *a = state;
    size_t lo = 0, hi = a->waiting && id == a->id ? a->n : 0;
    (void)err;
    a->waiting = false;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (a->ids[mid] == id) {
            a->sum = a->p[mid] + a->decay * a->sum;
            a->weight = 1 + a->decay * a->weight;
            break;
        }
        if (a->ids[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return LM_OK;
}

static const struct lm_param target = {
    .option = "adaptive-p-target",
    .min    = -FLT_MAX,
    .max    = 1,
    .value  = -1,
    .arg    = "P",
    .off    = "below 0",
    .help   = "prefer chances near P, once listed",
};

static const struct lm_param decay = {
    .option = "adaptive-p-decay",
    .min    = 0,
    .max    = 0.99,
    .value  = 0.9,
    .arg    = "X",
    .off    = "none",
    .help   = "how long a choice is remembered",
};

const struct lm_sampler lm_adaptive_p = {
    .name       = "adaptive_p",
    .letter     = 'a',
    .params     = { &target, &decay },
    .on_request = true,
    .purpose    = LM_PURPOSE_ADAPTIVE_P,
    .off        = off,
    .apply      = apply,
    .new_state  = new_state,
    .accept     = accept,
    .reset      = reset,
    .clone      = clone,
    .free_state = free_state,
    .drawn      = drawn,
};
