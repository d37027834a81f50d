/* SPDX-License-Identifier: MIT */
/* min_p: the candidates at least p times as likely as the best one, that is, whose logit is
 * at least max l + ln p. */
#include <math.h>

#include "sample/fixed_math.h"
#include "sample/sampler.h"

static bool off(const double *v)
{
    return v[0] <= 0;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    const double least = lm_cands_max(c) + (v[0] < 1 ? lm_ln(v[0]) : 0);
    (void)state;
    (void)step;
    (void)err;
    lm_cands_keep_above(c, least, (size_t)v[1]);
    return LM_OK;
}

static const struct lm_param min_p = {
    .option = "min-p",
    .key    = "min_p",
    .min    = 0,
    .max    = INFINITY,      /* above 1 acts as 1 */
    .value  = 0.05,
    .arg    = "P",
    .off    = "0",
    .help   = "keep chances of at least P times the best",
};

const struct lm_sampler lm_min_p = {
    .name       = "min_p",
    .letter     = 'm',
    .params     = { &min_p, &lm_param_min_keep },
    .keeps_best = true,
    .off        = off,
    .apply      = apply,
};
