/* SPDX-License-Identifier: MIT */
/* xtc (exclude top choices): with a chance, of the candidates whose probability is at least the
 * threshold, all but the least likely are removed. */
#include <math.h>
#include <stdlib.h>

#include "base/size.h"
#include "sample/fixed_math.h"
#include "sample/sampler.h"

enum { PROBABILITY, THRESHOLD, MIN_KEEP };

static bool off(const double *v)
{
    return v[PROBABILITY] <= 0 || v[THRESHOLD] > 0.5;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double gone(const void *arg, size_t i, double l)
{
    (void)arg;
    (void)i;
    (void)l;
    return -INFINITY;
}

/* Remove the n best. */
static int remove_best(struct lm_cands *c, const struct lm_cand *best, size_t n,
                       struct lm_err *err)
{
    uint32_t *ids = lm_malloc_array(n, sizeof *ids);
    if (!ids)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        ids[i] = best[i].id;
    qsort(ids, n, sizeof *ids, by_number);
    int s = lm_cands_edit(c, ids, n, gone, NULL, err);
    free(ids);
    return s;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    (void)state;
    if (lm_uniform(step->seed, step->pos, step->seq, LM_PURPOSE_XTC) >= v[PROBABILITY])
        return LM_OK;

    /* No more than 1 / threshold candidates can reach it. */
    const double least = v[THRESHOLD] * (double)lm_cands_total(c);
    const double most = v[THRESHOLD] > 0 ? floor(1.0001 / v[THRESHOLD]) : INFINITY;
    const double max = lm_cands_max(c);
    size_t n, likely = 0;
    const struct lm_cand *best =
        lm_cands_best(c, most < c->n_vocab ? (size_t)most : c->n_vocab, &n);
    while (likely < n && (double)lm_weight(lm_fall(best[likely].l - max)) >= least)
        likely++;
    if (likely < 2 || (v[MIN_KEEP] > 1 && lm_cands_count(c) - (likely - 1) < v[MIN_KEEP]))
        return LM_OK;
    return remove_best(c, best, likely - 1, err);
}

static const struct lm_param probability = {
    .option = "xtc-probability",
    .key    = "xtc_probability",
    .min    = 0,
    .max    = 1,
    .value  = 0,
    .arg    = "P",
    .off    = "0",
    .help   = "chance to remove all top choices but one",
};

static const struct lm_param threshold = {
    .option = "xtc-threshold",
    .key    = "xtc_threshold",
    .min    = 0,
    .max    = 1,
    .value  = 0.1,
    .arg    = "P",
    .off    = "above 0.5",
    .help   = "top choices have chances from P up",
};

const struct lm_sampler lm_xtc = {
    .name   = "xtc",
    .letter = 'x',
    .params = { &probability, &threshold, &lm_param_min_keep },
    .off    = off,
    .apply  = apply,
};
