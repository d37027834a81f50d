/* SPDX-License-Identifier: MIT */
/*
 * Cutting a set of candidates to the first of an order, without sorting it.
 *
 * An order is a key that grows (the distance to the best logit, or to another one) and then
 * rank.  Buckets of keys tell roughly where the border is, a selection among those in the
 * same bucket exactly.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample/candidates_parts.h"
#include "sample/fixed_math.h"
#include "sample/row_scan.h"

#define CHUNK  LM_CANDS_CHUNK
#define SMALL  48            /* lists up to this length are sorted, not selected from  */
#define ROUNDS 64            /* selection that goes on longer is giving up halving     */

/* ---- selection ---- */

/* Put the median of three candidates at a[0]. */
static void choose_pivot(struct lm_cand *a, size_t n)
{
    size_t x = n / 4, y = n / 2, z = n - n / 4 - 1, m;
    if (lm_cand_before(&a[x], &a[y]))
        m = lm_cand_before(&a[y], &a[z]) ? y : lm_cand_before(&a[x], &a[z]) ? z : x;
    else
        m = lm_cand_before(&a[x], &a[z]) ? x : lm_cand_before(&a[y], &a[z]) ? z : y;
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
            qsort(a, n, sizeof *a, lm_cand_by_rank);
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
            if (lm_cand_before(&a[i], &pivot)) {
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

/* ---- buckets ---- */

/* Of keys from 0 up; the last bucket takes all the rest. */
#define BUCKETS  1024
#define PER_UNIT (BUCKETS / -LM_WEIGHT_GONE)

static inline size_t bucket(double key)
{
    double b = key * PER_UNIT;
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

/* A key that all before the end of bucket b are below. */
static double bucket_end(size_t b)
{
    return b + 1 < BUCKETS ? ((double)b + 1.001) / PER_UNIT : INFINITY;
}

/* Weights of a set by the buckets of |l - center|. */
static void fill_buckets(const struct lm_cands *c, double center, uint64_t *sums)
{
    const double max = lm_cands_max(c);
    struct lm_cands_walk at = { .c = c };
    double l[CHUNK], d[CHUNK];
    uint64_t w[CHUNK];
    memset(sums, 0, BUCKETS * sizeof *sums);
    for (size_t m; (m = lm_cands_next(&at, l));) {
        for (size_t k = 0; k < m; k++)
            d[k] = l[k] - max;
        lm_weights(d, m, w);
        for (size_t k = 0; k < m; k++)
            sums[bucket(fabs(l[k] - center))] += w[k];
    }
}

/*
 * The largest key of the shortest prefix whose weights sum to at least `need`, of a list
 * with its weights, in the order of |l - center|.
 */
static double last_key(struct lm_cands *c, double center, uint64_t need)
{
    uint64_t sums[BUCKETS] = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++)
        sums[bucket(fabs(c->list[i].l - center))] += c->list[i].w;
    const size_t b = crossing(sums, &need);
    for (size_t i = 0; i < c->n; i++) {
        const double key = fabs(c->list[i].l - center);
        if (bucket(key) == b)
            c->work[n++] = (struct lm_cand){ .l = -key, .w = c->list[i].w, .id = c->list[i].id };
    }
    return n ? -last_of_prefix(c->work, n, need).l : INFINITY;
}

/* ---- by rank ---- */

/* Cut a list to the rank prefix with that sum of weights, keeping its order. */
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
        if (!lm_cand_before(&last, &c->list[i]))
            c->list[m++] = c->list[i];
    c->n = m;
}

/* A logit that at least k candidates of the row reach: the k-th largest of the blocks'
 * best ones, which are k different candidates. */
static double reached_by(struct lm_cands *c, size_t k)
{
    size_t blocks = lm_row_blocks(c->n_vocab);
    if (k == 1)
        return lm_cands_max(c);
    if (k > blocks)
        return -INFINITY;
    for (size_t b = 0; b < blocks; b++)
        c->work[b] = (struct lm_cand){ .l = c->best[b], .w = 1, .id = (uint32_t)b };
    return last_of_prefix(c->work, blocks, k).l * c->times;
}

void lm_cands_keep_best(struct lm_cands *c, size_t k)
{
    assert(k > 0);
    if (c->row)
        lm_cands_gather(c, reached_by(c, k));
    if (k >= c->n)
        return;
    for (size_t i = 0; i < c->n; i++)
        c->list[i].w = 1;
    cut(c, k);
}

const struct lm_cand *lm_cands_best(struct lm_cands *c, size_t k, size_t *n)
{
    assert(k > 0);
    size_t m = c->row ? lm_cands_peek(c, reached_by(c, k)) : c->n;
    if (!c->row && m)
        memcpy(c->work, c->list, m * sizeof *c->work);
    for (size_t i = 0; i < m; i++)
        c->work[i].w = 1;
    if (m > k) {                                  /* first k in any order, then sorted */
        struct lm_cand last = last_of_prefix(c->work, m, k);
        size_t kept = 0;
        for (size_t i = 0; i < m; i++)
            if (!lm_cand_before(&last, &c->work[i]))
                c->work[kept++] = c->work[i];
        m = kept;
    }
    qsort(c->work, m, sizeof *c->work, lm_cand_by_rank);
    *n = m;
    return c->work;
}

void lm_cands_keep_above(struct lm_cands *c, double l, size_t min_keep)
{
    if (min_keep > 1) {
        lm_cands_sort(c, LM_BY_RANK);
        size_t n = 0;
        while (n < c->n && (n < min_keep || c->list[n].l >= l))
            n++;
        c->n = n;
        return;
    }
    if (c->row) {
        lm_cands_gather(c, l);
        return;
    }
    size_t m = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].l >= l)
            c->list[m++] = c->list[i];
    c->n = m;
}

/* The smallest whole sum that is a share p of total; at least 1. */
static uint64_t share(double p, uint64_t total)
{
    uint64_t need = (uint64_t)ceil(p * (double)total);
    return need ? need : 1;
}

/* The sum in all buckets. */
static uint64_t sum_of(const uint64_t *sums)
{
    uint64_t total = 0;
    for (size_t b = 0; b < BUCKETS; b++)
        total += sums[b];
    return total;
}

void lm_cands_keep_mass(struct lm_cands *c, double p, size_t min_keep)
{
    uint64_t need, sum = 0;
    size_t n = 0;
    if (c->row && min_keep <= 1) {
        /* The border lies in one bucket; what is below it need not become a list. */
        uint64_t sums[BUCKETS], rest;
        const double max = lm_cands_max(c);
        fill_buckets(c, max, sums);
        need = rest = share(p, sum_of(sums));
        lm_cands_gather(c, max - bucket_end(crossing(sums, &rest)));
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

/* ---- by nearness ---- */

/* Keep what is nearer to center than key; of those just as near, by rank, as many as it takes
 * to get the sum `need` and min_keep of them. */
static void keep_up_to(struct lm_cands *c, double center, double key, uint64_t need,
                       size_t min_keep)
{
    uint64_t sum = 0;
    size_t m = 0, ties = 0;
    for (size_t i = 0; i < c->n; i++) {
        const double k = fabs(c->list[i].l - center);
        if (k == key)
            c->work[ties++] = c->list[i];
        if (k < key) {
            sum += c->list[i].w;
            c->list[m++] = c->list[i];
        }
    }
    qsort(c->work, ties, sizeof *c->work, lm_cand_by_rank);
    for (size_t i = 0; i < ties && (m == 0 || sum < need || m < min_keep); i++) {
        sum += c->work[i].w;
        c->list[m++] = c->work[i];
    }
    c->n = m;
    c->max = -INFINITY;
    for (size_t i = 0; i < m; i++)
        c->max = c->list[i].l > c->max ? c->list[i].l : c->max;
    c->order = LM_UNORDERED;
}

void lm_cands_keep_near(struct lm_cands *c, double center, double p, size_t min_keep)
{
    uint64_t sums[BUCKETS], rest;
    fill_buckets(c, center, sums);
    const uint64_t need = rest = share(p, sum_of(sums));
    const double end = min_keep > 1 ? INFINITY : bucket_end(crossing(sums, &rest));
    lm_cands_gather(c, center - end);             /* those above center + end are few */
    lm_cands_weigh(c);
    double key = last_key(c, center, need);
    if (min_keep > 1) {
        for (size_t i = 0; i < c->n; i++)
            c->work[i] = (struct lm_cand){ -fabs(c->list[i].l - center), 1, c->list[i].id };
        key = fmax(key, -last_of_prefix(c->work, c->n, min_keep).l);
    }
    keep_up_to(c, center, key, need, min_keep);
}
