/* SPDX-License-Identifier: MIT */
/*
 * Cutting a set of candidates to the first of an order, without sorting it.
 *
 * An order is a key that grows (the distance to the best logit, or to another one) and then
 * rank.  Buckets of keys tell roughly where the border is, a selection among those in the
 * same bucket exactly.
 */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sample/candidates_parts.h"
#include "sample/fixed_math.h"
#include "sample/row_scan.h"

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

/* Keys that all of bucket b are at least, and below. */
static double bucket_start(size_t b)
{
    return ((double)b - 0.001) / PER_UNIT;
}

static double bucket_end(size_t b)
{
    return b + 1 < BUCKETS ? ((double)b + 1.001) / PER_UNIT : INFINITY;
}

/* Add the weights w of a chunk to the buckets of |l - center|. */
static void fill_buckets(const struct lm_cands *c, const double *l, const uint64_t *w,
                         double center, uint64_t *sums)
{
    uint32_t b[LM_CHUNK];
    c->ops->buckets(l, center, PER_UNIT, BUCKETS - 1, b);
    for (size_t k = 0; k < LM_CHUNK; k++)
        sums[b[k]] += w[k];
}

/* The sum in all buckets. */
static uint64_t sum_of(const uint64_t *sums)
{
    uint64_t total = 0;
    for (size_t b = 0; b < BUCKETS; b++)
        total += sums[b];
    return total;
}

/* The smallest whole sum that is a share p of total; at least 1. */
static uint64_t share(double p, uint64_t total)
{
    uint64_t need = (uint64_t)ceil(p * (double)total);
    return need ? need : 1;
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

/* A logit that at least k candidates of the row reach, if it has so many: the k-th largest of
 * the best ones of groups of blocks, which are k different candidates. */
static double reached_by(struct lm_cands *c, size_t k)
{
    size_t blocks = lm_row_blocks(c->n_vocab);
    if (k == 1)
        return lm_cands_max(c);
    if (k > blocks)
        return -INFINITY;
    const size_t size = blocks / k > 64 ? 32 : 1;          /* blocks in a group */
    size_t n = 0;
    for (size_t b = 0; b < blocks; b += size) {
        float best = c->best[b];
        for (size_t i = b + 1; i < b + size && i < blocks; i++)
            best = c->best[i] > best ? c->best[i] : best;
        c->work[n++] = (struct lm_cand){ .l = best, .w = 1, .id = (uint32_t)b };
    }
    return last_of_prefix(c->work, n, k).l * c->times;
}

/* Of the changed logits of a row, keep those above l, or equal to it and of ids up to last. */
static void drop_changed(struct lm_cands *c, double l, uint32_t last)
{
    size_t m = 0;
    for (size_t i = 0; i < c->n_changed; i++)
        if (c->changed[i].l > l || (c->changed[i].l == l && c->changed[i].id <= last))
            c->changed[m++] = c->changed[i];
    c->n_changed = m;
}

static void keep_above_row(struct lm_cands *c, double l)
{
    drop_changed(c, l, UINT32_MAX);
    lm_cands_raise(c, lm_cands_entry(c, l), UINT32_MAX);
}

/* Of a row, keep what does not come after the candidate `last` in rank. */
static void keep_through(struct lm_cands *c, const struct lm_cand *last)
{
    const float least = lm_cands_entry(c, last->l);
    drop_changed(c, last->l, last->id);
    lm_cands_raise(c, least, least * c->times == last->l ? last->id : UINT32_MAX);
}

void lm_cands_keep_best(struct lm_cands *c, size_t k)
{
    assert(k > 0);
    if (c->row) {
        keep_above_row(c, reached_by(c, k));
        lm_cands_list(c);
    }
    if (k >= c->n)
        return;
    for (size_t i = 0; i < c->n; i++)
        c->list[i].w = 1;
    cut(c, k);
}

const struct lm_cand *lm_cands_best(struct lm_cands *c, size_t k, size_t *n)
{
    assert(k > 0);
    size_t m = c->row ? lm_cands_peek(c, lm_cands_entry(c, reached_by(c, k)), INFINITY) : c->n;
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
        keep_above_row(c, l);
        return;
    }
    size_t m = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].l >= l)
            c->list[m++] = c->list[i];
    c->n = m;
}

/* lm_cands_keep_mass of a row: the border lies in one bucket, whose candidates alone are put in
 * order. */
static void keep_mass_of_row(struct lm_cands *c, double p)
{
    const double max = lm_cands_max(c);
    struct lm_cands_walk at = { .c = c };
    uint64_t sums[BUCKETS] = { 0 }, w[LM_CHUNK];
    double l[LM_CHUNK];
    while (lm_cands_next(&at, l)) {
        c->ops->weigh(l, max, w, NULL);
        fill_buckets(c, l, w, max, sums);
    }
    uint64_t need = share(p, sum_of(sums));
    const size_t b = crossing(sums, &need);
    const size_t n = lm_cands_peek(c, lm_cands_entry(c, max - bucket_end(b)),
                                   lm_cands_entry(c, max - bucket_start(b)));
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (bucket(max - c->work[i].l) == b) {
            c->work[m] = c->work[i];
            c->work[m++].w = lm_weight(c->work[i].l - max);
        }
    if (m == 0)                                   /* all together weigh less */
        return;
    const struct lm_cand last = last_of_prefix(c->work, m, need);
    keep_through(c, &last);
}

void lm_cands_keep_mass(struct lm_cands *c, double p, size_t min_keep)
{
    uint64_t sum = 0;
    size_t n = 0;
    if (c->row && min_keep <= 1) {
        keep_mass_of_row(c, p);
        return;
    }
    const uint64_t need = share(p, lm_cands_weigh(c));
    if (min_keep <= 1) {
        cut(c, need);
        return;
    }
    lm_cands_sort(c, LM_BY_RANK);
    while (n < c->n && (n < min_keep || sum < need))
        sum += c->list[n++].w;
    c->n = n;
}

/* ---- typical ---- */

/* An entry of the order by |l - center|, then rank: of two that are as near, the one above center
 * has the higher logit, so the top bit of the id tells. */
#define BELOW (UINT32_C(1) << 31)

static struct lm_cand near_entry(double l, uint64_t w, uint32_t id, double center)
{
    return (struct lm_cand){ .l = -fabs(l - center), .w = w, .id = l < center ? id | BELOW : id };
}

/* Weights and entropy first: the center of the order, and what it takes to get a share p.  The
 * weights stay in work, by chunk. */
static uint64_t find_center(struct lm_cands *c, double p, double *center)
{
    uint64_t total;
    const double entropy = lm_cands_entropy(c, &total, (uint64_t *)c->work);
    *center = lm_cands_max(c) + lm_ln((double)total / LM_WEIGHT_ONE) - entropy;
    return share(p, total);
}

/* The bucket of |l - center| in which the sum is reached; need becomes what is missing at its
 * start. */
static size_t find_bucket(const struct lm_cands *c, double center, uint64_t *need)
{
    const uint64_t *w = (const uint64_t *)c->work;
    struct lm_cands_walk at = { .c = c };
    uint64_t sums[BUCKETS] = { 0 };
    double l[LM_CHUNK];
    for (; lm_cands_next(&at, l); w += LM_CHUNK)
        fill_buckets(c, l, w, center, sums);
    return crossing(sums, need);
}

/* The entries of the candidates in bucket b, into work; their number. */
static size_t peek_bucket(struct lm_cands *c, double center, size_t b)
{
    const double max = lm_cands_max(c), end = bucket_end(b);
    const struct lm_cand *from = c->list;
    size_t n = c->n, m = 0;
    if (c->row) {
        const double top = center + end;
        n = lm_cands_peek(c, lm_cands_entry(c, center - end),
                          top < max ? lm_cands_entry(c, top) : INFINITY);
        from = c->work;
    }
    for (size_t i = 0; i < n; i++)
        if (bucket(fabs(from[i].l - center)) == b)
            c->work[m++] = near_entry(from[i].l, lm_weight(from[i].l - max), from[i].id, center);
    return m;
}

/* The finite floats in order: number 0 is 0, and the last one is FLT_MAX. */
#define LAST_FLOAT 0x7F7FFFFF

static float float_number(int32_t k)
{
    const uint32_t bits = k < 0 ? UINT32_C(0x80000000) | (uint32_t)-k : (uint32_t)k;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The entry of a row that is farthest below or above center and no farther than key from it;
 * where there is none, the one next to center on the other side. */
static float farthest(const struct lm_cands *c, double center, double key, bool below)
{
    int32_t good = below ? LAST_FLOAT : -LAST_FLOAT, bad = -good;
    for (int64_t gap; (gap = (int64_t)good - bad) > 1 || gap < -1;) {
        const int32_t mid = (int32_t)(bad + gap / 2);
        const double l = float_number(mid) * c->times;
        if (fabs(l - center) <= key || (below ? l > center : l < center))
            good = mid;
        else
            bad = mid;
    }
    return float_number(good);
}

/* Of block b, the candidates from lo to hi into the copy, -inf for the others. */
static void copy_block(struct lm_cands *c, size_t b, float lo, float hi)
{
    const size_t first = b * LM_ROW_BLOCK, left = c->n_vocab - first;
    const size_t n = left < LM_ROW_BLOCK ? left : LM_ROW_BLOCK;
    if (n == LM_ROW_BLOCK && lo > c->least) {
        c->best[b] = c->ops->select(c->row + first, lo, hi, c->copy + first);
        return;
    }
    c->best[b] = -INFINITY;
    const uint32_t bits = lm_cands_block(c, b, lo, hi);
    for (size_t i = 0; i < n; i++) {
        c->copy[first + i] = bits >> i & 1 ? c->row[first + i] : -INFINITY;
        c->best[b] = c->copy[first + i] > c->best[b] ? c->copy[first + i] : c->best[b];
    }
}

/* Of a row, keep what does not come after `last`.  Entries as near as it are among work [n]. */
static void keep_near_row(struct lm_cands *c, const struct lm_cand *last, double center, size_t n)
{
    const double key = -last->l;
    const float lo = farthest(c, center, key, true), hi = farthest(c, center, key, false);
    size_t m = 0;
    for (size_t k = 0; k < lm_row_blocks(c->n_vocab); k++)
        copy_block(c, k, lo, hi);
    for (size_t i = 0; i < n; i++) {              /* as near as the last one, but after it */
        const size_t id = c->work[i].id & ~BELOW, first = id - id % LM_ROW_BLOCK;
        if (!lm_cand_before(last, &c->work[i]))
            continue;
        c->copy[id] = -INFINITY;
        lm_row_scan(c->copy + first, c->n_vocab - first < LM_ROW_BLOCK ? c->n_vocab - first :
                    LM_ROW_BLOCK, c->best + id / LM_ROW_BLOCK);
    }
    for (size_t i = 0; i < c->n_changed; i++) {
        const struct lm_cand e = near_entry(c->changed[i].l, 0, c->changed[i].id, center);
        if (!lm_cand_before(last, &e))
            c->changed[m++] = c->changed[i];
    }
    c->n_changed = m;
    lm_cands_use_copy(c);
    lm_cands_raise(c, -FLT_MAX, UINT32_MAX);
}

static void keep_near_list(struct lm_cands *c, const struct lm_cand *last, double center)
{
    size_t m = 0;
    double max = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        const struct lm_cand e = near_entry(c->list[i].l, 0, c->list[i].id, center);
        if (lm_cand_before(last, &e))
            continue;
        max = c->list[i].l > max ? c->list[i].l : max;
        c->list[m++] = c->list[i];
    }
    c->n = m;
    c->max = max;
}

void lm_cands_keep_typical(struct lm_cands *c, double p, size_t min_keep)
{
    double center;
    if (min_keep > 1)
        lm_cands_list(c);
    uint64_t need = find_center(c, p, &center);
    const size_t b = find_bucket(c, center, &need);
    size_t n = peek_bucket(c, center, b);
    if (n == 0)                                   /* all together weigh less */
        return;
    struct lm_cand last = last_of_prefix(c->work, n, need);
    if (c->row) {
        keep_near_row(c, &last, center, n);
        return;
    }
    if (min_keep > 1) {
        for (size_t i = 0; i < c->n; i++)
            c->work[i] = near_entry(c->list[i].l, 1, c->list[i].id, center);
        const struct lm_cand least = last_of_prefix(c->work, c->n, min_keep);
        last = lm_cand_before(&last, &least) ? least : last;
    }
    keep_near_list(c, &last, center);
}
