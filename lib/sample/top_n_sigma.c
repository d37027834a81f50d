/* SPDX-License-Identifier: MIT */
/* top_n_sigma (Tang et al. 2024): the candidates whose logit is within n standard deviations of
 * the best one's. */
#include <math.h>

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
    lm_cands_keep_above(c, lm_cands_max(c) - v[0] * lm_cands_deviation(c), 0);
    return LM_OK;
}

static const struct lm_param n_sigma = {
    .option = "top-n-sigma",
    .min    = -INFINITY,
    .max    = 1e30,
    .value  = -1,
    .arg    = "N",
    .off    = "0 or less",
    .help   = "logits within N sigma of the best",
};

const struct lm_sampler lm_top_n_sigma = {
    .name       = "top_n_sigma",
    .letter     = 's',
    .params     = { &n_sigma },
    .keeps_best = true,
    .off        = off,
    .apply      = apply,
};
