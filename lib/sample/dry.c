/* SPDX-License-Identifier: MIT */
/*
 * dry (don't repeat yourself): a token that would go on with a repetition of the latest m >=
 * allowed_length tokens loses multiplier * base^(m - allowed_length).
 *
 * W is the window, its newest token last.  No repetition reaches back over the latest breaker.
 * For each earlier place i, m(i) is the length of the longest common suffix of W[0..i) and W: the
 * Z function of W reversed, which takes linear time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/fixed_math.h"
#include "sample/sampler.h"

enum { MULTIPLIER, BASE, ALLOWED, LAST_N };

#define LN_FLT_MAX 88.7228391

struct repeat {
    uint32_t id;
    uint32_t length;
};

struct history {
    size_t    limit;             /* tokens in the window; SIZE_MAX: all                */
    uint32_t *ids;               /* the newest last; up to twice the limit are kept    */
    size_t    n, cap;
    size_t   *z;                 /* scratch                                            */
    size_t    z_cap;
    struct repeat *found;        /* [n_found] scratch                                  */
    size_t    n_found, found_cap;
    uint32_t *found_ids;
    size_t    found_ids_cap;

    /* Breakers, in order of their first token. */
    uint32_t *breaker_ids;       /* all of them                                        */
    struct sequence {
        uint32_t first;          /* token                                              */
        size_t   at, len;        /* among breaker_ids                                  */
    } *breakers;
    size_t    n_breakers, n_breaker_ids;
};

static bool off(const double *v)
{
    return v[MULTIPLIER] == 0 || v[BASE] < 1 || v[LAST_N] == 0;
}

static void free_state(void *state)
{
    struct history *h = state;
    if (!h)
        return;
    free(h->ids);
    free(h->z);
    free(h->found);
    free(h->found_ids);
    free(h->breaker_ids);
    free(h->breakers);
    free(h);
}

/* ---- breakers ---- */

/* By the first token, then the longer before. */
static int by_first(const void *a, const void *b)
{
    const struct sequence *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->len > y->len ? -1 : x->len < y->len;
}

static bool take_breakers(struct history *h, const struct lm_breakers *b)
{
    h->n_breakers = b ? b->n : 0;
    h->n_breaker_ids = h->n_breakers ? b->ends[b->n - 1] : 0;
    h->breaker_ids = lm_malloc_array(h->n_breaker_ids, sizeof *h->breaker_ids);
    h->breakers = lm_malloc_array(h->n_breakers, sizeof *h->breakers);
    if (!h->breaker_ids || !h->breakers)
        return false;
    if (h->n_breakers == 0)
        return true;
    memcpy(h->breaker_ids, b->ids, h->n_breaker_ids * sizeof *b->ids);
    for (size_t i = 0; i < b->n; i++) {
        const size_t at = i ? b->ends[i - 1] : 0;
        h->breakers[i] = (struct sequence){ b->ids[at], at, b->ends[i] - at };
    }
    qsort(h->breakers, h->n_breakers, sizeof *h->breakers, by_first);
    return true;
}

/* The first breaker that does not begin with a token below id. */
static size_t first_breaker(const struct history *h, uint32_t id)
{
    size_t lo = 0, hi = h->n_breakers;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (h->breakers[mid].first < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The length of the longest breaker that w [n] begins with; 0: none. */
static size_t breaker_at(const struct history *h, const uint32_t *w, size_t n)
{
    for (size_t i = first_breaker(h, w[0]); i < h->n_breakers; i++) {
        const struct sequence *b = &h->breakers[i];
        if (b->first != w[0])
            break;
        if (b->len <= n && !memcmp(h->breaker_ids + b->at, w, b->len * sizeof *w))
            return b->len;
    }
    return 0;
}

/* Is the token a breaker by itself? */
static bool breaks(const struct history *h, uint32_t id)
{
    return breaker_at(h, &id, 1) == 1;
}

/* How many tokens of w [n] come after the latest breaker. */
static size_t after_breaker(const struct history *h, const uint32_t *w, size_t n)
{
    for (size_t i = 0; h->n_breakers && i < n; i++) {
        const size_t len = breaker_at(h, w + n - 1 - i, i + 1);
        if (len)
            return i - (len - 1);
    }
    return n;
}

/* ---- state ---- */

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    struct history *h = calloc(1, sizeof *h);
    if (h && take_breakers(h, setup->breakers)) {
        h->limit = v[LAST_N] < 0 ? SIZE_MAX : (size_t)v[LAST_N];
        return h;
    }
    free_state(h);
    lm_fail_nomem(err);
    return NULL;
}

static void reset(void *state)
{
    struct history *h = state;
    h->n = 0;
}

static void *clone(const void *state)
{
    const struct history *from = state;
    struct history *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->limit = from->limit;
    h->ids = lm_copy_array(from->ids, from->n, sizeof *h->ids);
    h->n = h->cap = from->n;
    h->breaker_ids = lm_copy_array(from->breaker_ids, from->n_breaker_ids, sizeof *h->breaker_ids);
    h->breakers = lm_copy_array(from->breakers, from->n_breakers, sizeof *h->breakers);
    h->n_breaker_ids = from->n_breaker_ids;
    h->n_breakers = from->n_breakers;
    if (h->ids && h->breaker_ids && h->breakers)
        return h;
    free_state(h);
    return NULL;
}

static int accept(void *state, uint32_t id, struct lm_err *err)
{
    struct history *h = state;
    if (h->limit < SIZE_MAX / 2 && h->n >= 2 * h->limit) {     /* now and then, not each time */
        memmove(h->ids, h->ids + h->n - h->limit, h->limit * sizeof *h->ids);
        h->n = h->limit;
    }
    if (!lm_grow(&h->ids, &h->cap, h->n + 1, sizeof *h->ids))
        return lm_fail_nomem(err);
    h->ids[h->n++] = id;
    return LM_OK;
}

/* ---- repetitions ---- */

/* z[k] for k in 1 .. n - 1: how many of the newest tokens of w [n] repeat those that end k
 * before the end. */
static void z_function(const uint32_t *w, size_t n, size_t *z)
{
    const uint32_t *last = w + n - 1;             /* token k of the reversed window: last[-k] */
    size_t from = 0, to = 0;                      /* the stretch that reaches farthest */
    for (size_t k = 1; k < n; k++) {
        size_t m = 0;
        if (k < to)
            m = z[k - from] < to - k ? z[k - from] : to - k;
        while (k + m < n && *(last - m) == *(last - k - m))
            m++;
        z[k] = m;
        if (k + m > to) {
            from = k;
            to = k + m;
        }
    }
}

static int by_id(const void *a, const void *b)
{
    const struct repeat *x = a, *y = b;
    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return x->length > y->length ? -1 : x->length < y->length;
}

/* Find the tokens that went on with a repetition, ids ascending, each once with its longest. */
static int find_repeats(struct history *h, const uint32_t *w, size_t n, size_t allowed,
                        struct lm_err *err)
{
    const size_t most = after_breaker(h, w, n);
    size_t m = 0;
    h->n_found = 0;
    if (most < allowed)
        return LM_OK;
    if (!lm_grow(&h->z, &h->z_cap, n, sizeof *h->z))
        return lm_fail_nomem(err);
    z_function(w, n, h->z);
    for (size_t k = 1; k < n; k++) {
        const size_t length = h->z[k] < most ? h->z[k] : most;
        const uint32_t next = w[n - k];           /* what came after the repetition */
        if (length < allowed || breaks(h, next))
            continue;
        if (!lm_grow(&h->found, &h->found_cap, h->n_found + 1, sizeof *h->found))
            return lm_fail_nomem(err);
        h->found[h->n_found++] = (struct repeat){ next, (uint32_t)length };
    }
    if (h->n_found)
        qsort(h->found, h->n_found, sizeof *h->found, by_id);
    for (size_t i = 0; i < h->n_found; i++)
        if (m == 0 || h->found[m - 1].id != h->found[i].id)
            h->found[m++] = h->found[i];
    h->n_found = m;
    return LM_OK;
}

/* x^n by squaring: the same on every machine. */
static double whole_power(double x, uint64_t n)
{
    double y = 1;
    for (; n; n >>= 1, x *= x)
        if (n & 1)
            y *= x;
    return y;
}

struct job {
    const struct history *h;
    const double         *v;
};

static double penalize(const void *arg, size_t i, double l)
{
    const struct job *j = arg;
    uint64_t e = j->h->found[i].length - (uint64_t)j->v[ALLOWED];
    if (j->v[BASE] > 1.000001) {
        const double most = floor(LN_FLT_MAX / lm_ln(j->v[BASE]));
        e = (double)e > most ? (uint64_t)most : e;
    }
    return l - j->v[MULTIPLIER] * whole_power(j->v[BASE], e);
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    struct history *h = state;
    const size_t n = h->n < h->limit ? h->n : h->limit;
    (void)step;
    if (n == 0)
        return LM_OK;
    int s = find_repeats(h, h->ids + h->n - n, n, (size_t)v[ALLOWED], err);
    if (s < 0)
        return s;
    if (!lm_grow(&h->found_ids, &h->found_ids_cap, h->n_found, sizeof *h->found_ids))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < h->n_found; i++)
        h->found_ids[i] = h->found[i].id;
    return lm_cands_edit(c, h->found_ids, h->n_found, penalize, &(struct job){ h, v }, err);
}

static const struct lm_param multiplier = {
    .option = "dry-multiplier",
    .min    = 0,
    .max    = 1e6,
    .value  = 0,
    .arg    = "X",
    .off    = "0",
    .help   = "X B^(m-N) off what repeats m >= N tokens",
};

static const struct lm_param base = {
    .option = "dry-base",
    .min    = 0,
    .max    = 1e6,
    .value  = 1.75,
    .arg    = "B",
    .off    = "below 1",
    .help   = "this B",
};

static const struct lm_param allowed = {
    .option = "dry-allowed-length",
    .min    = 1,
    .max    = INT32_MAX,
    .whole  = true,
    .value  = 2,
    .arg    = "N",
    .off    = "none",
    .help   = "this N",
};

static const struct lm_param last_n = {
    .option = "dry-penalty-last-n",
    .min    = -1,
    .max    = INT32_MAX,
    .whole  = true,
    .value  = 64,
    .arg    = "N",
    .off    = "0",
    .help   = "look back N tokens; -1: all",
};

const struct lm_sampler lm_dry = {
    .name       = "dry",
    .letter     = 'd',
    .params     = { &multiplier, &base, &allowed, &last_n },
    .off        = off,
    .apply      = apply,
    .new_state  = new_state,
    .accept     = accept,
    .reset      = reset,
    .clone      = clone,
    .free_state = free_state,
};
