/* SPDX-License-Identifier: MIT */
/* top_p (nucleus; Holtzman et al. 2019): the shortest prefix in rank order whose probabilities
 * sum to at least p. */
#include "sample/sampler.h"

static bool off(const double *v)
{
    return v[0] >= 1;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    (void)state;
    (void)step;
    (void)err;
    lm_cands_keep_mass(c, v[0], (size_t)v[1]);
    return LM_OK;
}

static const struct lm_param top_p = {
    .option = "top-p",
    .key    = "top_p",
    .min    = 0,
    .max    = 1,
    .value  = 0.95,
    .arg    = "P",
    .off    = "1",
    .help   = "keep the best whose chances reach P",
};

const struct lm_sampler lm_top_p = {
    .name       = "top_p",
    .letter     = 'p',
    .aliases    = { "nucleus" },
    .params     = { &top_p, &lm_param_min_keep },
    .keeps_best = true,
    .off        = off,
    .apply      = apply,
};
