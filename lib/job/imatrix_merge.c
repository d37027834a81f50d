/* SPDX-License-Identifier: MIT */
/* Adding importance matrices, and looking at them. */
#include "job/imatrix.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The sum of n values that does not depend on their order: smallest first. */
static float ordered_sum(double *v, size_t n)
{
    double sum = 0;
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return (float)sum;
}

struct merge {
    const struct lm_importance *const *in;
    const char *const                 *names;
    const double                      *weights; /* [n], or NULL */
    size_t                             n;
    double                            *v;       /* [n] scratch  */
};

/* The entry called name, zeroed, in out, with the shape that all inputs give it. */
static struct lm_importance_entry *shape(const struct merge *g, const char *name,
                                         struct lm_importance *out, struct lm_err *err)
{
    const struct lm_importance_entry *first = NULL;
    size_t from = 0;
    for (size_t i = 0; i < g->n; i++) {
        const struct lm_importance_entry *e = lm_importance_find(g->in[i], name);
        if (!e)
            continue;
        if (first && (e->width != first->width || e->n_mat != first->n_mat)) {
            lm_fail(err, LM_EDATA, "%s: %s: %" PRIu64 "x%" PRIu64 " here, %" PRIu64 "x%" PRIu64
                    " in %s", g->names[i], name, e->width, e->n_mat, first->width,
                    first->n_mat, g->names[from]);
            return NULL;
        }
        if (!first)
            from = i;
        first = first ? first : e;
    }
    struct lm_importance_entry *e = lm_importance_add(out, name, first->width, first->n_mat);
    if (!e)
        lm_fail_nomem(err);
    return e;
}

static int add_entry(const struct merge *g, const char *name, struct lm_importance *out,
                     struct lm_err *err)
{
    struct lm_importance_entry *e = shape(g, name, out, err);
    if (!e)
        return err ? (int)err->code : LM_EDATA;
    for (uint64_t k = 0; k < e->width * e->n_mat + e->n_mat; k++) {
        bool sum = k < e->width * e->n_mat;
        uint64_t at = sum ? k : k - e->width * e->n_mat;
        size_t n = 0;
        for (size_t i = 0; i < g->n; i++) {
            const struct lm_importance_entry *f = lm_importance_find(g->in[i], name);
            if (f)
                g->v[n++] = (double)(sum ? f->sum2 : f->counts)[at] *
                            (g->weights ? g->weights[i] : 1);
        }
        const float total = ordered_sum(g->v, n);
        if (!(total >= 0) || isinf(total))
            return lm_fail(err, LM_EDATA, "%s: a sum of %g", name, (double)total);
        *(sum ? &e->sum2[at] : &e->counts[at]) = total;
    }
    return LM_OK;
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static int add_chunks(const struct merge *g, struct lm_importance *out, struct lm_err *err)
{
    double count = 0;             /* whole numbers, unless there are weights */
    for (size_t i = 0; i < g->n; i++)
        out->chunk_size = common_divisor(out->chunk_size, g->in[i]->chunk_size);
    for (size_t i = 0; i < g->n; i++)
        g->v[i] = (double)g->in[i]->chunk_count * (g->weights ? g->weights[i] : 1) *
                  (out->chunk_size ? g->in[i]->chunk_size / out->chunk_size : 1);
    qsort(g->v, g->n, sizeof *g->v, by_value);
    for (size_t i = 0; i < g->n; i++)
        count += g->v[i];
    count = round(count);
    if (count < 0 || count > UINT32_MAX)
        return lm_fail(err, LM_EDATA, "%.0f chunks of %" PRIu32 " tokens are not what the "
                       "form can say", count, out->chunk_size);
    out->chunk_count = (uint32_t)count;
    return LM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One file's list stays as it is; several become one, ordered, each name once. */
static int unite_datasets(const struct merge *g, struct lm_importance *out, struct lm_err *err)
{
    if (g->n == 1)
        return lm_importance_set_datasets(out, g->in[0]->datasets, g->in[0]->n_datasets, err);
    const char **all = NULL;
    size_t n = 0, cap = 0, kept = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->in[i]->n_datasets; k++) {
            if (!lm_grow(&all, &cap, n + 1, sizeof *all)) {
                free(all);
                return lm_fail_nomem(err);
            }
            all[n++] = g->in[i]->datasets[k];
        }
    if (n)
        qsort(all, n, sizeof *all, by_name);
    for (size_t i = 0; i < n; i++)
        if (!i || strcmp(all[i], all[kept - 1]))
            all[kept++] = all[i];
    int s = lm_importance_set_datasets(out, all, kept, err);
    free(all);
    return s;
}

static int merge(const struct merge *g, struct lm_importance *out, struct lm_err *err)
{
    int s = add_chunks(g, out, err);
    if (!s)
        s = unite_datasets(g, out, err);
    for (size_t i = 0; i < g->n; i++)
        for (size_t k = 0; k < g->in[i]->n && !s; k++) {
            const char *name = g->in[i]->entries[k].name;
            if (!lm_importance_find(out, name))
                s = add_entry(g, name, out, err);
        }
    return s;
}

struct lm_importance *lm_imatrix_merge(const struct lm_importance *const *in,
                                       const char *const *names, const double *weights,
                                       size_t n, struct lm_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (in[i]->legacy) {
            lm_fail(err, LM_ENOSUP, "%s: the old form holds means, not sums: it cannot be "
                    "merged", names[i]);
            return NULL;
        }
    struct lm_importance *out = lm_importance_new();
    struct merge g = { in, names, weights, n, lm_malloc_array(n, sizeof(double)) };
    int s = out && g.v ? merge(&g, out, err) : lm_fail_nomem(err);
    free(g.v);
    if (s) {
        lm_importance_free(out);
        return NULL;
    }
    return out;
}

/* The name of the same matrix a layer earlier: "blk.3.x" to "blk.2.x"; false for layer 0
 * and for what is in no layer. */
static bool layer_before(const char *name, char *before, size_t size)
{
    char *end;
    if (strncmp(name, "blk.", 4))
        return false;
    unsigned long layer = strtoul(name + 4, &end, 10);
    if (end == name + 4 || *end != '.' || layer == 0)
        return false;
    return (size_t)snprintf(before, size, "blk.%lu%s", layer - 1, end) < size;
}

static double cosine(const float *a, const float *b, uint64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (uint64_t i = 0; i < n; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

static void describe(const float *v, uint64_t n, struct lm_imatrix_stats *s)
{
    double squares = 0, active = 0, outliers = 0;
    *s = (struct lm_imatrix_stats){ .min = v[0], .max = v[0], .cosine = NAN };
    for (uint64_t i = 0; i < n; i++) {
        s->sum += v[i];
        squares += (double)v[i] * v[i];
        s->min = v[i] < s->min ? v[i] : s->min;
        s->max = v[i] > s->max ? v[i] : s->max;
        active += v[i] > 1e-5f;
    }
    double var = squares / (double)n - s->sum / (double)n * (s->sum / (double)n);
    s->mean = s->sum / (double)n;
    s->deviation = var > 0 ? sqrt(var) : 0;
    for (uint64_t i = 0; i < n; i++) {
        double p = s->sum > 0 ? v[i] / s->sum : 0;
        s->entropy -= p > 0 ? p * log2(p) : 0;
        outliers += s->deviation > 0 && v[i] > s->mean + s->deviation;
    }
    s->active = active / (double)n;
    s->outliers = outliers / (double)n;
    s->evenness = n > 1 ? s->entropy / log2((double)n) : 1;
}

int lm_imatrix_entry_stats(const struct lm_importance *m, size_t i, struct lm_imatrix_stats *s,
                           struct lm_err *err)
{
    const struct lm_importance_entry *e = &m->entries[i], *p = NULL;
    char before[512];
    if (layer_before(e->name, before, sizeof before))
        p = lm_importance_find(m, before);
    size_t n = (size_t)(e->width * e->n_mat);
    if (p && (p->width != e->width || p->n_mat != e->n_mat))
        p = NULL;
    float *v = lm_malloc_array(n ? 2 * n : 1, sizeof *v);
    if (!v)
        return lm_fail_nomem(err);
    int r = lm_importance_means(e, v, err);
    if (!r)
        describe(v, n, s);
    if (!r && p && !(r = lm_importance_means(p, v + n, err)))
        s->cosine = cosine(v, v + n, n);
    free(v);
    return r;
}
