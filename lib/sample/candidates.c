/* SPDX-License-Identifier: MIT */
#include "sample/candidates.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/fixed_math.h"
#include "sample/row_scan.h"

#define SMALL  48          /* lists up to this length are sorted, not selected from */
#define CHUNK  64          /* weights computed at a time                           */
#define ROUNDS 64          /* selection that goes on longer is giving up halving     */

int lm_cands_init(struct lm_cands *c, uint32_t n_vocab, struct lm_err *err)
{
    *c = (struct lm_cands){ .n_vocab = n_vocab };
    c->list = lm_malloc_array(n_vocab, sizeof *c->list);
    c->work = lm_malloc_array(n_vocab, sizeof *c->work);
    c->copy = lm_malloc_array(n_vocab, sizeof *c->copy);
    c->best = lm_malloc_array(lm_row_blocks(n_vocab), sizeof *c->best);
    if (c->list && c->work && c->copy && c->best)
        return LM_OK;
    lm_cands_release(c);
    return lm_fail_nomem(err);
}

void lm_cands_release(struct lm_cands *c)
{
    free(c->list);
    free(c->work);
    free(c->copy);
    free(c->best);
    free(c->changed);
    *c = (struct lm_cands){ 0 };
}

/* Does a come before b in rank? */
static inline bool before(const struct lm_cand *a, const struct lm_cand *b)
{
    return a->l > b->l || (a->l == b->l && a->id < b->id);
}

static int by_rank(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a) ? 1 : 0;
}

static int by_id(const void *a, const void *b)
{
    const struct lm_cand *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* What is left when some logits are +inf: those ids, all equal. */
static void keep_infinite(struct lm_cands *c)
{
    size_t m = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].l == INFINITY)
            c->list[m++] = (struct lm_cand){ .id = c->list[i].id };
    c->n = m;
    c->max = 0;
    if (c->order == LM_BY_RANK)
        c->order = LM_UNORDERED;
}

static int fail_nan(uint32_t id, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "id %u: the logit is NaN", (unsigned)id);
}

int lm_cands_row(struct lm_cands *c, const float *row, struct lm_err *err)
{
    c->row = row;
    c->n = c->n_changed = 0;
    if (!lm_row_scan(row, c->n_vocab, c->best)) {
        uint32_t id = 0;
        while (row[id] == row[id])
            id++;
        return fail_nan(id, err);
    }
    if (lm_cands_max(c) == INFINITY) {
        lm_cands_keep_above(c, INFINITY);
        keep_infinite(c);
    }
    return LM_OK;
}

int lm_cands_top(struct lm_cands *c, const struct lm_top *top, size_t n, struct lm_err *err)
{
    bool infinite = false;
    c->row = NULL;
    c->n = c->n_changed = 0;
    c->order = LM_UNORDERED;
    c->max = -INFINITY;
    if (n > c->n_vocab)
        return lm_fail(err, LM_EDATA, "%zu candidates of a vocabulary of %u", n,
                       (unsigned)c->n_vocab);
    for (size_t i = 0; i < n; i++) {
        if (top[i].id >= c->n_vocab)
            return lm_fail(err, LM_EDATA, "id %u is outside the vocabulary of %u",
                           (unsigned)top[i].id, (unsigned)c->n_vocab);
        if (isnan(top[i].logit))
            return fail_nan(top[i].id, err);
        infinite |= top[i].logit == INFINITY;
        c->max = top[i].logit > c->max ? top[i].logit : c->max;
        if (top[i].logit > -INFINITY)
            c->list[c->n++] = (struct lm_cand){ .l = top[i].logit, .id = top[i].id };
    }
    if (infinite)
        keep_infinite(c);
    return LM_OK;
}

double lm_cands_max(const struct lm_cands *c)
{
    if (!c->row)
        return c->n ? c->max : -INFINITY;
    float m = -INFINITY;
    for (size_t b = 0; b < lm_row_blocks(c->n_vocab); b++)
        m = c->best[b] > m ? c->best[b] : m;
    double max = m;
    for (size_t i = 0; i < c->n_changed; i++)
        max = c->changed[i].l > max ? c->changed[i].l : max;
    return max;
}

bool lm_cands_empty(const struct lm_cands *c)
{
    return c->row ? lm_cands_max(c) == -INFINITY : c->n == 0;
}

/* Merge the changed logits >= l into the list, which is in order of ids.  From the back,
 * so that it is done in place: no id is in both. */
static void merge_changed(struct lm_cands *c, double l)
{
    size_t extra = 0;
    for (size_t i = 0; i < c->n_changed; i++)
        extra += c->changed[i].l >= l;
    size_t to = c->n + extra, from = c->n;
    c->n = to;
    for (size_t i = c->n_changed; i-- > 0;) {
        if (!(c->changed[i].l >= l))
            continue;
        while (from && c->list[from - 1].id > c->changed[i].id)
            c->list[--to] = c->list[--from];
        c->list[--to] = c->changed[i];
    }
}

/* The smallest float whose value is at least l. */
static float float_above(double l)
{
    if (l > FLT_MAX)
        return INFINITY;
    if (l < -FLT_MAX)
        return -FLT_MAX;
    float f = (float)l;
    return f < l ? nextafterf(f, INFINITY) : f;
}

/* From row to list: the candidates of logit >= l, in order of ids. */
static void gather(struct lm_cands *c, double l)
{
    const float *row = c->row, least = float_above(l);
    const double max = lm_cands_max(c);
    size_t n = 0, blocks = lm_row_blocks(c->n_vocab);
    for (size_t b = 0; b < blocks; b++) {
        if (c->best[b] < least)
            continue;
        size_t end = (b + 1) * LM_ROW_BLOCK;
        if (end > c->n_vocab)
            end = c->n_vocab;
        for (size_t i = b * LM_ROW_BLOCK; i < end; i++)
            if (row[i] >= least)
                c->list[n++] = (struct lm_cand){ .l = row[i], .id = (uint32_t)i };
    }
    c->row = NULL;
    c->n = n;
    c->max = max;
    c->order = LM_BY_ID;
    merge_changed(c, l);
    c->n_changed = 0;
}

void lm_cands_list(struct lm_cands *c)
{
    if (c->row)
        gather(c, -INFINITY);
}

void lm_cands_sort(struct lm_cands *c, enum lm_cand_order order)
{
    lm_cands_list(c);
    if (c->order != order)
        qsort(c->list, c->n, sizeof *c->list, order == LM_BY_ID ? by_id : by_rank);
    c->order = order;
}

/* ---- changing logits ---- */

/* Remove candidates at -inf, and all others if one is at +inf. */
static void settle(struct lm_cands *c)
{
    size_t m = 0;
    bool infinite = false;
    c->max = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        infinite |= c->list[i].l == INFINITY;
        c->max = c->list[i].l > c->max ? c->list[i].l : c->max;
        if (c->list[i].l > -INFINITY)
            c->list[m++] = c->list[i];
    }
    c->n = m;
    if (infinite)
        keep_infinite(c);
}

typedef double edit_fn(const void *arg, size_t i, double l);

static void edit_list(struct lm_cands *c, const uint32_t *ids, size_t n, edit_fn *fn,
                      const void *arg)
{
    for (size_t k = 0; k < c->n; k++) {
        size_t lo = 0, hi = n;
        while (lo < hi) {
            size_t mid = (lo + hi) / 2;
            if (ids[mid] < c->list[k].id)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (lo < n && ids[lo] == c->list[k].id)
            c->list[k].l = fn(arg, lo, c->list[k].l);
    }
    if (c->order == LM_BY_RANK)
        c->order = LM_UNORDERED;
    settle(c);
}

/* Move one id of the row to the changed logits, unless it is no candidate. */
static void take_out(struct lm_cands *c, uint32_t id)
{
    if (c->copy[id] == -INFINITY)
        return;
    c->changed[c->n_changed++] = (struct lm_cand){ .l = c->copy[id], .id = id };
    c->copy[id] = -INFINITY;
    size_t b = id / LM_ROW_BLOCK, end = (b + 1) * LM_ROW_BLOCK;
    float best = -INFINITY;
    for (size_t i = b * LM_ROW_BLOCK; i < end && i < c->n_vocab; i++)
        best = c->copy[i] > best ? c->copy[i] : best;
    c->best[b] = best;
}

int lm_cands_edit(struct lm_cands *c, const uint32_t *ids, size_t n, edit_fn *fn,
                  const void *arg, struct lm_err *err)
{
    if (n == 0)
        return LM_OK;
    if (!c->row) {
        edit_list(c, ids, n, fn, arg);
        return LM_OK;
    }
    if (!lm_grow(&c->changed, &c->changed_cap, c->n_changed + n, sizeof *c->changed))
        return lm_fail_nomem(err);
    if (c->row != c->copy)
        memcpy(c->copy, c->row, c->n_vocab * sizeof *c->copy);
    c->row = c->copy;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < c->n_vocab)
            take_out(c, ids[i]);
    qsort(c->changed, c->n_changed, sizeof *c->changed, by_id);

    bool infinite = false;
    size_t m = 0, at = 0;
    for (size_t k = 0; k < c->n_changed; k++) {
        struct lm_cand *x = &c->changed[k];
        while (at < n && ids[at] < x->id)
            at++;
        if (at < n && ids[at] == x->id)
            x->l = fn(arg, at, x->l);
        infinite |= x->l == INFINITY;
        if (x->l > -INFINITY)
            c->changed[m++] = *x;
    }
    c->n_changed = m;
    if (infinite) {
        lm_cands_list(c);
        keep_infinite(c);
    }
    return LM_OK;
}

void lm_cands_divide(struct lm_cands *c, double t)
{
    lm_cands_list(c);
    if (c->n == 0)
        return;

    /* Only differences count.  Where the best quotient would overflow, subtract first; what
     * is infinitely far below the best one has no chance anyhow. */
    const double from = isfinite(c->max / t) ? 0 : c->max;
    for (size_t i = 0; i < c->n; i++) {
        double q = (c->list[i].l - from) / t;
        c->list[i].l = q < -DBL_MAX ? -DBL_MAX : q;
    }
    c->max = (c->max - from) / t;
    if (c->order == LM_BY_RANK && !(t < 1e30))     /* some may have become equal */
        c->order = LM_UNORDERED;
}

/* ---- cutting ---- */

/* Put the median of three candidates at a[0]. */
static void choose_pivot(struct lm_cand *a, size_t n)
{
    size_t x = n / 4, y = n / 2, z = n - n / 4 - 1, m;
    if (before(&a[x], &a[y]))
        m = before(&a[y], &a[z]) ? y : before(&a[x], &a[z]) ? z : x;
    else
        m = before(&a[x], &a[z]) ? x : before(&a[y], &a[z]) ? z : y;
    struct lm_cand t = a[m];
    a[m] = a[0];
    a[0] = t;
}

/*
 * The last candidate of the shortest rank prefix whose weights sum to at least `need`, or
 * the very last one.  a [n] is shuffled; n and need are not 0.  Quickselect on sums: linear
 * on average.
 */
static struct lm_cand last_of_prefix(struct lm_cand *a, size_t n, uint64_t need)
{
    for (int round = 0;; round++) {
        if (n <= SMALL || round == ROUNDS) {
            qsort(a, n, sizeof *a, by_rank);
            size_t i = 0;
            for (uint64_t sum = a[0].w; sum < need && i + 1 < n; sum += a[i].w)
                i++;
            return a[i];
        }
        choose_pivot(a, n);
        struct lm_cand pivot = a[0];
        uint64_t sum = pivot.w;
        size_t m = 0;                             /* a[1 .. m] come before the pivot */
        for (size_t i = 1; i < n; i++)
            if (before(&a[i], &pivot)) {
                struct lm_cand t = a[i];
                a[i] = a[++m];
                a[m] = t;
                sum += t.w;
            }
        if (sum >= need && sum - pivot.w < need)
            return pivot;
        if (sum >= need) {
            a++;
            n = m;
        } else if (m + 1 == n) {
            return pivot;                         /* nothing comes after it */
        } else {
            need -= sum;
            a += m + 1;
            n -= m + 1;
        }
    }
}

/* Buckets for logits from the largest one down; the last bucket takes all the rest. */
#define BUCKETS  1024
#define PER_UNIT (BUCKETS / -LM_WEIGHT_GONE)

static inline size_t bucket(double below_max)
{
    double b = below_max * PER_UNIT;
    return b < BUCKETS - 1 ? (size_t)b : BUCKETS - 1;
}

/* The bucket in which the sum reaches need, which loses what the buckets before it have. */
static size_t crossing(const uint64_t *sums, uint64_t *need)
{
    size_t b = 0;
    while (b + 1 < BUCKETS && sums[b] < *need)
        *need -= sums[b++];
    return b;
}

/* Cut a list to the rank prefix with that sum of weights, keeping its order.  Buckets first
 * tell most of the list from where the border is. */
static void cut(struct lm_cands *c, uint64_t need)
{
    if (c->n == 0)
        return;
    if (c->order == LM_BY_RANK) {
        size_t i = 0;
        for (uint64_t sum = c->list[0].w; sum < need && i + 1 < c->n; sum += c->list[i].w)
            i++;
        c->n = i + 1;
        return;
    }
    uint64_t sums[BUCKETS] = { 0 };
    size_t n = 0, m = 0;
    for (size_t i = 0; i < c->n; i++)
        sums[bucket(c->max - c->list[i].l)] += c->list[i].w;
    const size_t b = crossing(sums, &need);
    for (size_t i = 0; i < c->n; i++)
        if (bucket(c->max - c->list[i].l) == b)
            c->work[n++] = c->list[i];
    if (n == 0)                                   /* all together weigh less */
        return;
    struct lm_cand last = last_of_prefix(c->work, n, need);
    for (size_t i = 0; i < c->n; i++)
        if (!before(&last, &c->list[i]))
            c->list[m++] = c->list[i];
    c->n = m;
}

/* A logit that at least k candidates of the row reach: the k-th largest of the blocks'
 * best ones, which are k different candidates. */
static double reached_by(struct lm_cands *c, size_t k)
{
    size_t blocks = lm_row_blocks(c->n_vocab);
    if (k > blocks)
        return -INFINITY;
    for (size_t b = 0; b < blocks; b++)
        c->work[b] = (struct lm_cand){ .l = c->best[b], .w = 1, .id = (uint32_t)b };
    return last_of_prefix(c->work, blocks, k).l;
}

void lm_cands_keep_best(struct lm_cands *c, size_t k)
{
    assert(k > 0);
    if (c->row)
        gather(c, k == 1 ? lm_cands_max(c) : reached_by(c, k));
    if (k >= c->n)
        return;
    for (size_t i = 0; i < c->n; i++)
        c->list[i].w = 1;
    cut(c, k);
}

void lm_cands_keep_above(struct lm_cands *c, double l)
{
    if (c->row) {
        gather(c, l);
        return;
    }
    size_t m = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].l >= l)
            c->list[m++] = c->list[i];
    c->n = m;
}

uint64_t lm_cands_weigh(struct lm_cands *c)
{
    double d[CHUNK];
    uint64_t w[CHUNK], total = 0;
    lm_cands_list(c);
    for (size_t i = 0; i < c->n; i += CHUNK) {
        const size_t m = c->n - i < CHUNK ? c->n - i : CHUNK;
        for (size_t k = 0; k < m; k++)
            d[k] = c->list[i + k].l - c->max;
        lm_weights(d, m, w);
        for (size_t k = 0; k < m; k++)
            total += c->list[i + k].w = w[k];
    }
    return total;
}

/* Weights of a row, by buckets, without making a list of it; returns their sum. */
static uint64_t weigh_row(const struct lm_cands *c, double max, uint64_t *sums)
{
    double d[CHUNK];
    uint64_t w[CHUNK], total = 0;
    memset(sums, 0, BUCKETS * sizeof *sums);
    for (size_t i = 0; i < c->n_vocab; i += CHUNK) {
        const size_t m = c->n_vocab - i < CHUNK ? c->n_vocab - i : CHUNK;
        for (size_t k = 0; k < m; k++)
            d[k] = c->row[i + k] - max;
        lm_weights(d, m, w);
        for (size_t k = 0; k < m; k++) {
            sums[bucket(-d[k])] += w[k];
            total += w[k];
        }
    }
    for (size_t i = 0; i < c->n_changed; i++) {
        const uint64_t x = lm_weight(c->changed[i].l - max);
        sums[bucket(max - c->changed[i].l)] += x;
        total += x;
    }
    return total;
}

/* The smallest whole sum that is a share p of total; at least 1. */
static uint64_t share(double p, uint64_t total)
{
    uint64_t need = (uint64_t)ceil(p * (double)total);
    return need ? need : 1;
}

void lm_cands_keep_mass(struct lm_cands *c, double p, size_t min_keep)
{
    uint64_t need, sum = 0;
    size_t n = 0;
    if (c->row && min_keep <= 1) {
        /* The border lies in one bucket; what is below it need not become a list. */
        uint64_t sums[BUCKETS], rest;
        const double max = lm_cands_max(c);
        need = rest = share(p, weigh_row(c, max, sums));
        gather(c, max - ((double)crossing(sums, &rest) + 1.001) / PER_UNIT);
        lm_cands_weigh(c);
    } else {
        need = share(p, lm_cands_weigh(c));
    }
    if (min_keep <= 1) {
        cut(c, need);
        return;
    }
    lm_cands_sort(c, LM_BY_RANK);
    while (n < c->n && (n < min_keep || sum < need))
        sum += c->list[n++].w;
    c->n = n;
}

uint32_t lm_cands_pick(struct lm_cands *c, double u)
{
    uint64_t total = lm_cands_weigh(c), sum = 0;
    assert(total > 0);
    uint64_t r = (uint64_t)(u * (double)total);
    if (r >= total)                               /* u * total was rounded up */
        r = total - 1;
    lm_cands_sort(c, LM_BY_ID);
    for (size_t i = 0;; i++)
        if ((sum += c->list[i].w) > r)
            return c->list[i].id;
}
