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

#include "base/size.h"
#include "sample/sampler.h"

enum { TARGET, DECAY };

struct average {
    double    target, decay;
    double    sum, weight;       /* A and B                                      */
    float    *p;                 /* [n_vocab + LM_CHUNK] of the step's candidates */
    uint32_t  n_vocab;
    bool      waiting;           /* a token was drawn and not yet accepted       */
    uint32_t  id;
    double    drawn_p;
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
}

static struct average *make(uint32_t n_vocab)
{
    struct average *a = calloc(1, sizeof *a);
    if (a && !(a->p = lm_malloc_array((size_t)n_vocab + LM_CHUNK, sizeof *a->p))) {
        free(a);
        return NULL;
    }
    if (a)
        a->n_vocab = n_vocab;
    return a;
}

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    struct average *a = make(setup->n_vocab);
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
    if (a)
        free(a->p);
    free(a);
}

static void *clone(const void *state)
{
    const struct average *from = state;
    struct average *a = make(from->n_vocab);
    if (!a)
        return NULL;
    float *p = a->p;
    *a = *from;                  /* what was drawn too; not the chances of the step */
    a->p = p;
    return a;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    struct average *a = state;
    (void)v;
    (void)step;
    (void)err;
    a->waiting = false;
    lm_cands_favor(c, fmin(fmax(2 * a->target - a->sum / a->weight, 0), 1), a->p);
    return LM_OK;
}

static void drawn(void *state, const struct lm_cands *c, uint32_t id)
{
    struct average *a = state;
    (void)c;
    a->waiting = true;
    a->id = id;
    a->drawn_p = a->p[id];
}

static int accept(void *state, uint32_t id, struct lm_err *err)
{
    struct average *a = state;
    (void)err;
    if (a->waiting && id == a->id) {
        a->sum = a->drawn_p + a->decay * a->sum;
        a->weight = 1 + a->decay * a->weight;
    }
    a->waiting = false;
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
