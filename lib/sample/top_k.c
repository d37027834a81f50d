/* SPDX-License-Identifier: MIT */
/* top_k: the k best candidates. */
#include "sample/sampler.h"

static bool off(const double *v)
{
    return v[0] <= 0;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    (void)state;
    (void)step;
    (void)err;
    if (v[0] < c->n_vocab)
        lm_cands_keep_best(c, (size_t)v[0]);
    return LM_OK;
}

static const struct lm_param top_k = {
    .option = "top-k",
    .key    = "top_k",
    .min    = INT32_MIN,
    .max    = INT32_MAX,
    .whole  = true,
    .value  = 40,
    .arg    = "N",
    .off    = "0 or less",
    .help   = "keep the N best",
};

const struct lm_sampler lm_top_k = {
    .name       = "top_k",
    .letter     = 'k',
    .params     = { &top_k },
    .keeps_best = true,
    .off        = off,
    .apply      = apply,
};
