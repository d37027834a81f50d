/* SPDX-License-Identifier: MIT */
/*
 * mirostat 1 and 2 (Basu et al. 2021): keep the surprise of the chosen tokens near tau.
 *
 * mu begins at 2 tau; after each choice mu -= eta (S - tau), S = -log2 p of the token chosen, p
 * among the candidates before the cut.  Version 1 keeps the k best, k estimated from mu and the
 * slope s of the m best in Zipf's law; version 2 keeps those with -log2 p <= mu.
 */
#include <math.h>
#include <stdlib.h>

#include "sample/fixed_math.h"
#include "sample/sampler.h"

enum { VERSION, TAU, ETA };

#define BEST 100                 /* m */
#define LN2  0.6931471805599453

struct feedback {
    double   tau, eta, mu;
    double   n_vocab;
    double   max, total;         /* of the step: largest logit, sum of exp(l - max) */
    bool     waiting;            /* a token was drawn and not yet accepted          */
    uint32_t id;
    double   surprise;
};

static bool off(const double *v)
{
    return v[VERSION] == 0;
}

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    struct feedback *f = calloc(1, sizeof *f);
    if (f)
        *f = (struct feedback){ .tau = v[TAU], .eta = v[ETA], .mu = 2 * v[TAU],
                                .n_vocab = setup->n_vocab };
    else
        lm_fail_nomem(err);
    return f;
}

static void reset(void *state)
{
    struct feedback *f = state;
    f->mu = 2 * f->tau;
    f->waiting = false;
}

static void *clone(const void *state)
{
    struct feedback *f = malloc(sizeof *f);
    if (f)
        *f = *(const struct feedback *)state;
    return f;
}

static double surprise(const struct feedback *f, double l)
{
    return (lm_ln(f->total) + f->max - l) / LN2;
}

/* x^y, x > 0 */
static double power(double x, double y)
{
    return lm_exp(y * lm_ln(x));
}

/* How many version 1 keeps, of n candidates with the best [n_best] as given. */
static size_t estimate(const struct feedback *f, const struct lm_cand *best, size_t n_best,
                       size_t n)
{
    double num = 0, den = 0;
    for (size_t i = 0; i + 1 < n_best; i++) {
        const double t = lm_ln((double)(i + 2) / (double)(i + 1));
        num += t * (best[i].l - best[i + 1].l);
        den += t * t;
    }
    const double s = num / den, e = s - 1;
    if (!(s > 0))
        return n;                                 /* flat: no estimate */
    const double r = fabs(e) < 1e-9 ? 1 / lm_ln(f->n_vocab) : e / (1 - power(f->n_vocab, -e));
    const double k = power(r * power(2, f->mu), 1 / s);
    return k < 1 ? 1 : k < (double)n ? (size_t)k : n;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    struct feedback *f = state;
    (void)step;
    (void)err;
    f->waiting = false;
    f->max = lm_cands_max(c);
    f->total = (double)lm_cands_total(c) / LM_WEIGHT_ONE;
    if (v[VERSION] == 1) {
        size_t n_best;
        const struct lm_cand *best = lm_cands_best(c, BEST, &n_best);
        if (n_best > 1)
            lm_cands_keep_best(c, estimate(f, best, n_best, lm_cands_count(c)));
    } else {
        const double least = f->max + lm_ln(f->total) - f->mu * LN2;
        if (least > f->max)
            lm_cands_keep_best(c, 1);
        else
            lm_cands_keep_above(c, least, 0);
    }
    return LM_OK;
}

static void drawn(void *state, const struct lm_cands *c, uint32_t id)
{
    struct feedback *f = state;
    const double l = lm_cands_logit(c, id);
    f->waiting = l > -INFINITY;
    f->id = id;
    f->surprise = surprise(f, l);
}

static int accept(void *state, uint32_t id, struct lm_err *err)
{
    struct feedback *f = state;
    (void)err;
    if (f->waiting && f->id == id)
        f->mu -= f->eta * (f->surprise - f->tau);
    f->waiting = false;
    return LM_OK;
}

static const struct lm_param version = {
    .option = "mirostat",
    .key    = "mirostat",
    .min    = 0,
    .max    = 2,
    .whole  = true,
    .value  = 0,
    .arg    = "N",
    .off    = "0",
    .help   = "mirostat 1 or 2, instead of all but temp",
};

static const struct lm_param tau = {
    .option    = "mirostat-ent",
    .key       = "mirostat_tau",
    .min       = 0,
    .max       = 1e6,
    .above_min = true,
    .value     = 5,
    .arg       = "T",
    .off       = "none",
    .help      = "surprise to aim at, in bits",
};

static const struct lm_param eta = {
    .option    = "mirostat-lr",
    .key       = "mirostat_eta",
    .min       = 0,
    .max       = 1e6,
    .above_min = true,
    .value     = 0.1,
    .arg       = "E",
    .off       = "none",
    .help      = "how fast to follow the surprise",
};

const struct lm_sampler lm_mirostat = {
    .name       = "mirostat",
    .params     = { &version, &tau, &eta },
    .on_request = true,
    .purpose    = LM_PURPOSE_MIROSTAT,
    .off        = off,
    .apply      = apply,
    .new_state  = new_state,
    .accept     = accept,
    .reset      = reset,
    .clone      = clone,
    .free_state = free,
    .drawn      = drawn,
};
