/* SPDX-License-Identifier: MIT */
/*
 * temperature: l = l / t; t <= 0 leaves only the best candidate.
 *
 * With a range d > 0 the temperature follows the entropy H of the n candidates:
 *   t = lo + (hi - lo) (H / ln n)^e,  lo = max(0, t - d), hi = t + d.
 */
#include <math.h>

#include "sample/fixed_math.h"
#include "sample/sampler.h"

enum { TEMP, RANGE, EXPONENT };

static bool off(const double *v)
{
    return v[TEMP] == 1 && v[RANGE] <= 0;
}

static double dynamic(const struct lm_cands *c, const double *v, size_t n)
{
    const double lo = v[TEMP] > v[RANGE] ? v[TEMP] - v[RANGE] : 0, hi = v[TEMP] + v[RANGE];
    double u = lm_cands_entropy(c) / lm_ln((double)n);
    u = u < 0 ? 0 : u > 1 ? 1 : u;
    return lo + (hi - lo) * lm_exp(v[EXPONENT] * lm_ln(u));
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    double t = v[TEMP];
    (void)state;
    (void)step;
    (void)err;
    if (v[RANGE] > 0) {
        const size_t n = lm_cands_count(c);
        if (n == 1)
            return LM_OK;
        t = dynamic(c, v, n);
    }
    if (t <= 0)
        lm_cands_keep_best(c, 1);
    else
        lm_cands_divide(c, t);
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

static const struct lm_param range = {
    .option = "dynatemp-range",
    .min    = 0,
    .max    = 1e6,
    .value  = 0,
    .arg    = "D",
    .off    = "0",
    .help   = "T from T-D to T+D as the entropy grows",
};

static const struct lm_param exponent = {
    .option    = "dynatemp-exp",
    .min       = 0,
    .max       = 1e6,
    .above_min = true,
    .value     = 1,
    .arg       = "E",
    .off       = "1",
    .help      = "with the entropy to this power",
};

const struct lm_sampler lm_temperature = {
    .name    = "temperature",
    .letter  = 't',
    .aliases = { "temp" },
    .params  = { &temp, &range, &exponent },
    .off     = off,
    .apply   = apply,
};
