/* SPDX-License-Identifier: MIT */
/* temperature: l = l / t; t <= 0 leaves only the best candidate. */
#include <math.h>

#include "sample/sampler.h"

static bool off(const double *v)
{
    return v[0] == 1;
}

static int apply(struct lm_cands *c, const double *v, void *state, struct lm_err *err)
{
    (void)state;
    (void)err;
    if (v[0] <= 0)
        lm_cands_keep_best(c, 1);
    else
        lm_cands_divide(c, v[0]);
    return LM_OK;
}

static const struct lm_param temp = {
    .option = "temp",
    .key    = "temp",
    .min    = -INFINITY,
    .max    = INFINITY,
    .value  = 0.8,
    .arg    = "T",
    .off    = "1",
    .help   = "divide logits by T; 0 or less: the best",
};

const struct lm_sampler lm_temperature = {
    .name   = "temperature",
    .letter = 't',
    .alias  = "temp",
    .params = { &temp },
    .off    = off,
    .apply  = apply,
};
