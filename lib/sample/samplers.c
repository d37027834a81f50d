/* SPDX-License-Identifier: MIT */
/* The samplers there are, in the order in which a chain runs them by default. */
#include "sample/sampler.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct lm_sampler lm_penalties, lm_dry, lm_top_n_sigma, lm_top_k, lm_typ_p, lm_top_p,
    lm_min_p, lm_xtc, lm_temperature, lm_adaptive_p, lm_infill;

static const struct lm_sampler *const samplers[] = {
    &lm_penalties, &lm_dry, &lm_top_n_sigma, &lm_top_k, &lm_typ_p, &lm_top_p, &lm_min_p, &lm_xtc,
    &lm_temperature, &lm_adaptive_p, &lm_infill, &lm_mirostat,
};

const struct lm_param lm_param_min_keep = {
    .option = "min-keep",
    .min    = 0,
    .max    = UINT32_MAX,
    .whole  = true,
    .value  = 0,
    .arg    = "N",
    .off    = "0 or 1",
    .help   = "top-p, min-p, typical, xtc leave N",
};

const struct lm_sampler *lm_sampler_at(size_t i)
{
    return i < sizeof samplers / sizeof *samplers ? samplers[i] : NULL;
}

/* Is name, without '-' and '_' and in lower case, the same as s without them? */
static bool same(const char *name, size_t len, const char *s)
{
    size_t i = 0;
    for (;; i++, s++) {
        while (i < len && (name[i] == '-' || name[i] == '_'))
            i++;
        while (*s == '-' || *s == '_')
            s++;
        if (i == len || !*s)
            return i == len && !*s;
        if (tolower((unsigned char)name[i]) != *s)
            return false;
    }
}

const struct lm_sampler *lm_sampler_find(const char *name, size_t len)
{
    for (size_t k = 0; k < sizeof samplers / sizeof *samplers; k++) {
        const struct lm_sampler *s = samplers[k];
        const char letter[2] = { s->letter, 0 };
        if (!s->letter)
            continue;
        bool found = same(name, len, s->name) || (len == 1 && same(name, len, letter));
        for (const char *const *alias = s->aliases; *alias && !found; alias++)
            found = same(name, len, *alias);
        if (found)
            return s;
    }
    return NULL;
}

const struct lm_param *lm_param_at(size_t i)
{
    const struct lm_param *seen[LM_PARAMS_MAX];
    size_t n = 0;
    for (size_t k = 0; k < sizeof samplers / sizeof *samplers; k++)
        for (const struct lm_param *const *p = samplers[k]->params; *p; p++) {
            size_t j = 0;
            while (j < n && seen[j] != *p)
                j++;
            if (j < n || n == sizeof seen / sizeof *seen)
                continue;
            if (n == i)
                return *p;
            seen[n++] = *p;
        }
    return NULL;
}

const struct lm_param *lm_param_find(const char *option)
{
    const struct lm_param *p;
    for (size_t i = 0; (p = lm_param_at(i)); i++)
        if (!strcmp(p->option, option))
            return p;
    return NULL;
}

/* The accepted values in words; an end that only a huge number passes is named if a
 * whole one does. */
static void say_range(const struct lm_param *p, double v, char *s, size_t size)
{
    const char *kind = p->whole ? "a whole number" : "a number";
    const bool low = p->min > INT32_MIN;
    const bool high = p->max < INT32_MAX || (p->whole && isfinite(v) && v > p->max);
    if (low && high && p->above_min)
        snprintf(s, size, "%s above %.10g, at most %.10g", kind, p->min, p->max);
    else if (low && high)
        snprintf(s, size, "%s from %.10g to %.10g", kind, p->min, p->max);
    else if (low)
        snprintf(s, size, "%s %s %g", kind, p->above_min ? "above" : "not below", p->min);
    else if (high)
        snprintf(s, size, "%s not above %.10g", kind, p->max);
    else
        snprintf(s, size, "%s", isinf(p->max) || p->whole ? kind : "a finite number");
}

int lm_param_check(const struct lm_param *p, double v, struct lm_err *err)
{
    char range[64];
    if (v >= p->min && v <= p->max && !(p->above_min && v == p->min) &&
        !(p->whole && v != rint(v)))
        return LM_OK;
    say_range(p, v, range, sizeof range);
    return lm_fail(err, LM_EUSE, "%.9g is out of range: not %s", v, range);
}

int lm_param_read(const struct lm_param *p, const char *text, double *v, struct lm_err *err)
{
    char range[64], *end;
    const bool digits = !p->whole || !text[strspn(text, "+-0123456789")];
    *v = strtod(text, &end);
    if (end > text && !*end && !isnan(*v) && digits)
        return lm_param_check(p, *v, err);
    say_range(p, NAN, range, sizeof range);
    return lm_fail(err, LM_EUSE, "'%s' is not %s", text, range);
}
