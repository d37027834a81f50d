/* SPDX-License-Identifier: MIT */
#include "job/stats.h"

#include <math.h>

#include "job/sweep.h"

#define PART 4096           /* weights decoded at once: whole blocks of every type */

static int little_endian(const struct lm_gguf *g, struct lm_err *err)
{
    return g->big_endian ? lm_fail(err, LM_ENOSUP, "data of big-endian files cannot be decoded")
                         : LM_OK;
}

double lm_stats_deviation(const struct lm_stats *s)
{
    return s->n ? sqrt(s->m2 / (double)s->n) : 0;
}

/* Put b's numbers to a's (Chan, Golub and LeVeque, 1979). */
static void merge(struct lm_stats *a, const struct lm_stats *b)
{
    double n = (double)(a->n + b->n), d = b->mean - a->mean;
    a->n_bad += b->n_bad;
    a->n_zero += b->n_zero;
    if (!b->n)
        return;
    a->min = a->n && a->min < b->min ? a->min : b->min;
    a->max = a->n && a->max > b->max ? a->max : b->max;
    a->m2 = a->n ? a->m2 + b->m2 + d * d * (double)a->n * (double)b->n / n : b->m2;
    a->mean = a->n ? a->mean + d * (double)b->n / n : b->mean;
    a->n += b->n;
}

static struct lm_stats of_part(const float *x, size_t n)
{
    struct lm_stats s = { .min = INFINITY, .max = -INFINITY };
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        if (!isfinite(v)) {
            s.n_bad++;
            continue;
        }
        s.n++;
        s.n_zero += v == 0;
        s.min = v < s.min ? v : s.min;
        s.max = v > s.max ? v : s.max;
        sum += v;
    }
    s.mean = s.n ? sum / (double)s.n : 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            s.m2 += ((double)x[i] - s.mean) * ((double)x[i] - s.mean);
    return s;
}

static void work(void *arg, const struct lm_piece *p, void *result)
{
    const struct lm_type *type = p->t->type;
    float x[PART];
    (void)arg;
    for (size_t i = 0, n; i < p->n; i += n) {
        n = p->n - i < PART ? p->n - i : PART;
        type->decode((const char *)p->data + i / type->block * type->bytes, x, n);
        struct lm_stats s = of_part(x, n);
        merge(result, &s);
    }
}

struct run {
    const struct lm_gguf *g;
    struct lm_stats      *out;
};

static int take_stats(void *arg, const struct lm_piece *p, const void *result,
                      struct lm_err *err)
{
    struct run *r = arg;
    (void)err;
    merge(&r->out[p->t - r->g->tensors], result);
    return LM_OK;
}

static bool has_weights(void *arg, const struct lm_gguf_tensor *t)
{
    (void)arg;
    return t->type->decode != NULL;
}

int lm_stats_run(struct lm_in *in, const struct lm_gguf *g, struct lm_stats *out,
                 const struct lm_env *env, struct lm_err *err)
{
    struct run r = { g, out };
    const struct lm_sweep s = { .arg = &r, .result_size = sizeof(struct lm_stats),
                                .wanted = has_weights, .work = work, .take = take_stats };
    int e = little_endian(g, err);
    return e ? e : lm_sweep(in, g, &s, env, err);
}

/* ---- histograms ---------------------------------------------------------- */

struct spread {
    const struct lm_gguf  *g;
    const struct lm_stats *stats;
    uint32_t               n_bins;
    struct lm_histogram   *out;
};

/* Positions in the range are reckoned in doubles, in which the width of floats' range fits. */
static void count_part(struct lm_histogram *h, const struct lm_stats *s, uint32_t n_bins,
                       const float *x, size_t n)
{
    const double far = LM_STATS_OUTLYING * lm_stats_deviation(s), width = s->max - s->min;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i];
        if (!isfinite(v))
            continue;
        const double at = width > 0 ? (v - s->min) / width * n_bins : 0;
        h->bins[at < n_bins ? (uint32_t)at : n_bins - 1]++;
        h->n_outliers += fabs(v - s->mean) > far;
    }
}

static void spread_piece(void *arg, const struct lm_piece *p, void *result)
{
    const struct spread *s = arg;
    const struct lm_type *type = p->t->type;
    float x[PART];
    for (size_t i = 0, n; i < p->n; i += n) {
        n = p->n - i < PART ? p->n - i : PART;
        type->decode((const char *)p->data + i / type->block * type->bytes, x, n);
        count_part(result, &s->stats[p->t - s->g->tensors], s->n_bins, x, n);
    }
}

static int take_spread(void *arg, const struct lm_piece *p, const void *result,
                       struct lm_err *err)
{
    const struct spread *s = arg;
    const struct lm_histogram *h = result;
    struct lm_histogram *sum = &s->out[p->t - s->g->tensors];
    (void)err;
    sum->n_outliers += h->n_outliers;
    for (uint32_t k = 0; k < s->n_bins; k++)
        sum->bins[k] += h->bins[k];
    return LM_OK;
}

int lm_stats_histograms(struct lm_in *in, const struct lm_gguf *g, const struct lm_stats *stats,
                        uint32_t n_bins, struct lm_histogram *out, const struct lm_env *env,
                        struct lm_err *err)
{
    struct spread d = { g, stats, n_bins, out };
    const struct lm_sweep s = { .arg = &d, .result_size = sizeof *out, .wanted = has_weights,
                                .work = spread_piece, .take = take_spread };
    if (!lm_in_seekable(in))
        return lm_fail(err, LM_EUSE, "histograms need a second pass, and a pipe or a compressed "
                       "file has only one");
    int e = little_endian(g, err);
    return e ? e : lm_sweep(in, g, &s, env, err);
}

/* ---- the numbers --------------------------------------------------------- */

struct values {
    const struct lm_gguf_tensor *t;
    int                        (*take)(void *arg, const float *f, const int64_t *i, size_t n);
    void                        *arg;
};

static bool is_it(void *arg, const struct lm_gguf_tensor *t)
{
    const struct values *v = arg;
    return t == v->t;
}

static int take_values(void *arg, const struct lm_piece *p, const void *result,
                       struct lm_err *err)
{
    struct values *v = arg;
    const struct lm_type *type = p->t->type;
    (void)result, (void)err;
    for (size_t i = 0, n; i < p->n; i += n) {
        float f[PART];
        int64_t whole[PART];
        const uint8_t *at = (const uint8_t *)p->data + i / type->block * type->bytes;
        n = p->n - i < PART ? p->n - i : PART;
        if (type->decode)
            type->decode(at, f, n);
        else
            for (size_t k = 0; k < n; k++)
                whole[k] = lm_sweep_integer(at + k * type->bytes, type->bytes);
        int r = v->take(v->arg, type->decode ? f : NULL, type->decode ? NULL : whole, n);
        if (r != LM_OK)
            return r;
    }
    return LM_OK;
}

int lm_stats_values(struct lm_in *in, const struct lm_gguf *g, const struct lm_gguf_tensor *t,
                    int (*take)(void *arg, const float *f, const int64_t *i, size_t n), void *arg,
                    const struct lm_env *env, struct lm_err *err)
{
    struct values v = { t, take, arg };
    const struct lm_sweep s = { .arg = &v, .wanted = is_it, .take = take_values };
    int e = little_endian(g, err);
    if (e)
        return e;
    if (!t->type)
        return lm_fail(err, LM_ENOSUP, "tensor %.120s: type %u is not known", t->name.p,
                       t->type_id);
    if (!lm_sweep_readable(g, t))
        return lm_fail(err, LM_EDATA, "tensor %.120s: its data cannot be read", t->name.p);
    return lm_sweep(in, g, &s, env, err);
}
