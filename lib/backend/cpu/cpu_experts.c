/* SPDX-License-Identifier: MIT */
/*
 * Mixtures of experts on the CPU: which experts a token has, and their products.
 *
 * Products with a stack of matrices are sorted by matrix first, so that each matrix in use is
 * multiplied with all of its rows at once.  Lists beside the activations say where a row goes:
 *
 *   rank   [rows]          where the activations of row i stand
 *   order  [rows]          which row stands at a place; a matrix' rows stand together
 *   start  [matrices + 1]  the first place of a matrix
 *   used   [matrices]      the matrices that have rows, n_used of them
 */
#include "backend/cpu/cpu_exec.h"

#include <math.h>
#include <string.h>

/* Row r of a tensor, counted over all axes but the first. */
static char *row(const struct lm_tensor *t, size_t r)
{
    size_t i1 = r % t->ne[1], i2 = r / t->ne[1] % t->ne[2], i3 = r / t->ne[1] / t->ne[2];
    return (char *)t->data + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

static size_t end_of(const struct lm_step *s, size_t job, size_t n)
{
    size_t end = (job + 1) * s->per_job;
    return end < n ? end : n;
}

/* What an expert scores whatever the others' logits are; beyond 20 what a softplus adds to x is
 * less than a float shows. */
static float own_score(enum lm_score score, float x)
{
    if (score == LM_SCORE_SIGMOID)
        return 1.0f / (1.0f + expf(-x));
    return score == LM_SCORE_CHOSEN ? x : sqrtf(x > 20 ? x : log1pf(expf(x)));
}

/* What each expert scores. */
static void scores(const struct lm_routing *r, const float *x, float *dst, size_t n)
{
    float top = x[0], all = 0;
    if (r->score != LM_SCORE_SOFTMAX) {
        for (size_t i = 0; i < n; i++)
            dst[i] = own_score(r->score, x[i]);
        return;
    }
    for (size_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (size_t i = 0; i < n; i++)
        all += dst[i] = expf(x[i] - top);
    for (size_t i = 0; i < n; i++)
        dst[i] /= all;
}

/* The score of a group: the sum of its best one or two. */
static float group_score(const float *x, size_t n, bool two)
{
    float best = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (x[i] > best) {
            second = best;
            best = x[i];
        } else if (x[i] > second) {
            second = x[i];
        }
    }
    return two ? best + second : best;
}

/* The largest of n that is not among the k of `taken`, the first of equal ones. */
static int32_t best_left(const float *x, size_t n, const int32_t *taken, size_t k)
{
    int32_t best = -1;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        size_t t = 0;
        if (best >= 0 && !(x[i] > x[best]))
            continue;
        while (t < k && taken[t] != i)
            t++;
        if (t == k)
            best = i;
    }
    return best;
}

/* Experts of all but the best groups do not count. */
static void keep_groups(const struct lm_routing *r, float *x, float *groups, int32_t *chosen,
                        size_t n)
{
    const size_t size = n / r->n_group;
    for (size_t g = 0; g < r->n_group; g++)
        groups[g] = group_score(x + g * size, size, r->group_best == 2);
    for (size_t k = 0; k < r->n_group_used; k++)
        chosen[k] = best_left(groups, r->n_group, chosen, k);
    for (int32_t g = 0; g < (int32_t)r->n_group; g++) {
        size_t k = 0;
        while (k < r->n_group_used && chosen[k] != g)
            k++;
        if (k == r->n_group_used)
            for (size_t i = 0; i < size; i++)
                x[(size_t)g * size + i] = -INFINITY;
    }
}

/* Scores, then those of groups and the chosen ones of these. */
size_t lm_cpu_select_scratch(const struct lm_tensor *t)
{
    return (t->src[0]->ne[0] + 2 * (size_t)t->arg.route.n_group) * sizeof(float);
}

/* Selection one by one: there are few to select. */
void lm_cpu_select(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *a = t->src[0];
    const struct lm_routing *route = &t->arg.route;
    const float *bias = t->src[1] ? t->src[1]->data : NULL;
    const size_t n = a->ne[0];
    float *own = lm_exec_scratch(e, thread), *groups = own + n;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(a, r);
        int32_t *ids = (int32_t *)row(t, r);
        if (bias || route->n_group) {
            scores(route, x, own, n);
            for (size_t i = 0; i < n && bias; i++)
                own[i] += bias[i];
            x = own;
        }
        if (route->n_group)
            keep_groups(route, own, groups, (int32_t *)(void *)(groups + route->n_group), n);
        for (size_t k = 0; k < t->ne[0]; k++)
            ids[k] = best_left(x, n, ids, k);
    }
}

/* The share of the k-th of ids among those of n logits x that are near it. */
static float near_share(const struct lm_routing *route, const float *x, size_t n,
                        const int32_t *ids, size_t k)
{
    const float best = x[ids[k]];
    float all = 0;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        const float own = fabsf(x[i]), size = own > best ? own : best;
        size_t before = 0;
        while (before < k && ids[before] != i)
            before++;
        if (before == k && (best - x[i]) / size <= route->near)
            all += expf(x[i] - best);
    }
    return 1 / all;
}

void lm_cpu_gate(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *a = t->src[0];
    const struct lm_routing *route = &t->arg.route;
    const enum lm_score score = route->score;
    const bool exponential = score == LM_SCORE_SOFTMAX || score == LM_SCORE_CHOSEN;
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *x = (const float *)row(a, r);
        const int32_t *ids = (const int32_t *)row(t->src[1], r);
        float *dst = (float *)row(t, r), top = x[0], all = 0, sum = 0;
        for (size_t i = 1; i < a->ne[0]; i++)
            top = x[i] > top ? x[i] : top;
        for (size_t k = 0; k < t->ne[0] && route->near > 0; k++)
            dst[k] = near_share(route, x, a->ne[0], ids, k);
        if (route->near > 0)
            continue;
        for (size_t i = 0; i < a->ne[0] && score == LM_SCORE_SOFTMAX; i++)
            all += expf(x[i] - top);
        for (size_t k = 0; k < t->ne[0]; k++)
            sum += dst[k] = exponential ? expf(x[ids[k]] - top) : own_score(score, x[ids[k]]);
        for (size_t k = 0; k < t->ne[0]; k++) {
            if (route->normalize || score == LM_SCORE_CHOSEN)
                dst[k] /= sum;
            else if (score == LM_SCORE_SOFTMAX)
                dst[k] /= all;
            if (route->scale > 0)
                dst[k] *= route->scale;
        }
    }
}

void lm_cpu_weighted_sum(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t, *x = t->src[0];
    (void)e;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++) {
        const float *w = (const float *)row(t->src[1], r);
        float *dst = (float *)row(t, r);
        memset(dst, 0, t->ne[0] * sizeof *dst);
        for (size_t k = 0; k < x->ne[1]; k++) {
            const float *src = (const float *)row(x, r * x->ne[1] + k);
            for (size_t i = 0; i < t->ne[0]; i++)
                dst[i] += w[k] * src[i];
        }
    }
}

void lm_cpu_add_id(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const int32_t *ids = t->src[2]->data;
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(t)); r++)
        e->cpu->vec->add((float *)row(t, r), (const float *)row(t->src[0], r),
                         (const float *)row(t->src[1], (size_t)ids[r]), t->ne[0]);
}

/* --- products with a stack of matrices --------------------------------------------------- */

struct lists {
    int32_t *rank, *order, *start, *used, *n_used;
};

static size_t n_rows(const struct lm_tensor *t)
{
    return t->ne[1] * t->ne[2];
}

static struct lists lists_of(const struct lm_exec *e, const struct lm_step *s)
{
    const size_t rows = n_rows(s->t), n = s->t->src[0]->ne[2];
    int32_t *p = (int32_t *)(void *)((char *)lm_exec_act(e) + s->lists_at);
    return (struct lists){ p, p + rows, p + 2 * rows, p + 2 * rows + n + 1,
                           p + 2 * rows + 2 * n + 1 };
}

size_t lm_cpu_lists_size(const struct lm_tensor *t)
{
    return (2 * n_rows(t) + 2 * t->src[0]->ne[2] + 2) * sizeof(int32_t);
}

/* The matrix of row i: the expert that is named for it, or its head's. */
static int32_t matrix_of(const struct lm_tensor *t, size_t i)
{
    return t->op == LM_OP_MUL_MAT_ID ? ((const int32_t *)t->src[2]->data)[i]
                                     : (int32_t)(i % t->ne[1]);
}

void lm_cpu_sort_rows(const struct lm_exec *e, const struct lm_step *s, size_t job, int thread)
{
    const struct lm_tensor *t = s->t;
    const struct lists l = lists_of(e, s);
    const size_t rows = n_rows(t), n = t->src[0]->ne[2];
    int32_t sum = 0;
    (void)job;
    (void)thread;
    memset(l.start, 0, (n + 1) * sizeof *l.start);
    for (size_t i = 0; i < rows; i++)
        l.start[matrix_of(t, i)]++;
    *l.n_used = 0;
    for (size_t m = 0; m <= n; m++) {
        const int32_t count = m < n ? l.start[m] : 0;
        if (count)
            l.used[(*l.n_used)++] = (int32_t)m;
        l.start[m] = sum;
        sum += count;
    }
    for (size_t i = 0; i < rows; i++)
        l.rank[i] = l.start[matrix_of(t, i)]++;
    for (size_t m = n; m > 0; m--)          /* each start has become the next one's */
        l.start[m] = l.start[m - 1];
    l.start[0] = 0;
    for (size_t i = 0; i < rows; i++)
        l.order[l.rank[i]] = (int32_t)i;
}

/* Activation rows to their places; one that goes to several matrices is copied. */
void lm_cpu_activate_sorted(const struct lm_exec *e, const struct lm_step *s, size_t job,
                            int thread)
{
    const struct lm_tensor *t = s->t, *x = t->src[1];
    const struct lists l = lists_of(e, s);
    const size_t copies = n_rows(t) / lm_tensor_rows(x);
    char *act = lm_exec_act(e);
    (void)thread;
    for (size_t r = job * s->per_job; r < end_of(s, job, lm_tensor_rows(x)); r++) {
        const char *first = act + (size_t)l.rank[r * copies] * s->act_bytes;
        s->mm->act((const float *)row(x, r), x->ne[0], (void *)(uintptr_t)first);
        for (size_t k = 1; k < copies; k++)
            memcpy(act + (size_t)l.rank[r * copies + k] * s->act_bytes, first, s->act_bytes);
    }
}

/* Results of n rows side by side, to where they belong. */
static void scatter(const struct lm_tensor *t, const int32_t *order, size_t n, const float *y,
                    size_t at, size_t len)
{
    for (size_t i = 0; i < n; i++)
        memcpy((float *)t->data + (size_t)order[i] * t->ne[0] + at, y + i * len,
               len * sizeof *y);
}

/* Some panels of one matrix in use, for all of its rows. */
void lm_cpu_stack_products(const struct lm_exec *e, const struct lm_step *s, size_t job,
                           int thread)
{
    const struct lists l = lists_of(e, s);
    const size_t slot = job / s->chunks, chunk = job % s->chunks;
    const struct lm_product *p = s->products;
    float *y = lm_exec_scratch(e, thread);
    if (slot >= (size_t)*l.n_used)
        return;
    for (size_t i = 1; i < s->n_products && chunk >= s->products[i].first_job; i++)
        p = &s->products[i];
    const size_t matrix = (size_t)l.used[slot], last = (size_t)l.start[matrix + 1];
    const struct lm_tensor *t = p->t, *w = t->src[0];
    const char *data = (const char *)w->data +
                       matrix * (p->mm->pack ? p->n_panels * p->panel_bytes : w->nb[2]);
    size_t from = (chunk - p->first_job) * p->panels_per_job, to = from + p->panels_per_job;
    to = to < p->n_panels ? to : p->n_panels;
    for (size_t at = (size_t)l.start[matrix]; at < last; at += s->per_job) {
        const size_t n = last - at < s->per_job ? last - at : s->per_job;
        const char *act = (const char *)lm_exec_act(e) + at * s->act_bytes;
        for (size_t panel = from; panel < to; panel++) {
            const size_t r = panel * p->mm->rows;
            const size_t len = w->ne[1] - r < p->mm->rows ? w->ne[1] - r : p->mm->rows;
            p->mm->mul(w->type, data + panel * p->panel_bytes, len, w->ne[0], act, n, y, len);
            scatter(t, l.order + at, n, y, r, len);
        }
    }
}
