/* SPDX-License-Identifier: MIT */
/* typ_p (locally typical sampling; Meister et al. 2022): the shortest prefix whose probabilities
 * sum to at least p, in the order of |-ln p_i - H|, H the entropy. */
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
    lm_cands_keep_typical(c, v[0], (size_t)v[1]);
    return LM_OK;
}

static const struct lm_param typical = {
    .option = "typical",
    .min    = 0,
    .max    = 1,
    .value  = 1,
    .arg    = "P",
    .off    = "1",
    .help   = "keep the least surprising to chances of P",
};

const struct lm_sampler lm_typ_p = {
    .name    = "typ_p",
    .letter  = 'y',
    .aliases = { "typ", "typical" },
    .params  = { &typical, &lm_param_min_keep },
    .off     = off,
    .apply   = apply,
};
