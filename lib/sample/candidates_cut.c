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

/* Of falls from 0 down; the last bucket takes all the rest, whose weights are below 2^-23. */
#define BUCKETS 384
#define PER_BIT 16

/*
 * The sums of weights in buckets, and a chunk on its way there.  They are made in several parts, so
 * that an addition need not wait for the one before it; what else is touched then lies elsewhere in
 * its page than any sum, since processors take a load for one that waits for a store when the
 * addresses agree in their lowest 12 bits.
 */
#define PARTS 4
struct tally {
    _Alignas(4096) struct {
        uint64_t sums[BUCKETS];
        union {
            uint64_t w[LM_CHUNK];        /* of part 0: weights          */
            float    fall[LM_CHUNK];     /* of part 1: falls            */
            uint32_t b[LM_CHUNK];        /* of part 2: their buckets    */
        };
    } part[PARTS];
};
_Static_assert(sizeof(struct tally) == PARTS * 4096, "a part is a page");

/* The bucket of a logit. */
static inline size_t bucket(double l, double max)
{
    const float b = -lm_fall(l - max) * PER_BIT;
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

/* How far below the best logit the b-th bucket begins. */
static double depth(double b)
{
    return b / PER_BIT / LM_LOG2_E;
}

/* The entries of a row that may be in the buckets from b on, or up to before it. */
static float entry_from(const struct lm_cands *c, double max, size_t b)
{
    return lm_cands_entry(c, max - depth((double)b - 0.001));
}

static float entry_before(const struct lm_cands *c, double max, size_t b)
{
    return b < BUCKETS ? lm_cands_entry(c, max - depth((double)b + 0.001)) : -FLT_MAX;
}

/* Add the weights of a chunk to the buckets of its falls. */
static void fill_buckets(const struct lm_chunk_ops *ops, struct tally *t)
{
    const uint64_t *w = t->part[0].w;
    uint32_t *b = t->part[2].b;
    ops->buckets(t->part[1].fall, PER_BIT, BUCKETS - 1, b);
    for (size_t k = 0; k < LM_CHUNK; k += PARTS) {
        t->part[0].sums[b[k]] += w[k];
        t->part[1].sums[b[k + 1]] += w[k + 1];
        t->part[2].sums[b[k + 2]] += w[k + 2];
        t->part[3].sums[b[k + 3]] += w[k + 3];
    }
}

/* The sums of the weights of a set in their buckets, in the end in part 0; returns the sum of all.
 * lane as of weigh. */
static uint64_t tally_up(const struct lm_cands *c, struct tally *t, double *lane)
{
    struct lm_cands_walk at = { .c = c, .max = lm_cands_max(c) };
    uint64_t total = 0, *sums = t->part[0].sums;
    memset(t, 0, sizeof *t);
    while (lm_cands_next(&at, t->part[1].fall)) {
        total += c->ops->weigh(t->part[1].fall, t->part[0].w, lane);
        fill_buckets(c->ops, t);
    }
    for (size_t b = 0; b < BUCKETS; b++)
        for (size_t i = 1; i < PARTS; i++)
            sums[b] += t->part[i].sums[b];
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
        sums[bucket(c->list[i].l, c->max)] += c->list[i].w;
    const size_t b = crossing(sums, &need);
    for (size_t i = 0; i < c->n; i++)
        if (bucket(c->list[i].l, c->max) == b)
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
    size_t m = c->n;
    if (c->row)
        m = lm_cands_peek_changed(
            c, lm_cands_peek(c, lm_cands_entry(c, reached_by(c, k)), INFINITY, 0));
    else if (m)
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
    struct tally t;
    uint64_t need = share(p, tally_up(c, &t, NULL));
    const size_t b = crossing(t.part[0].sums, &need);
    const size_t n = lm_cands_peek_changed(
        c, lm_cands_peek(c, entry_before(c, max, b + 1), entry_from(c, max, b), 0));
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (bucket(c->work[i].l, max) == b)
            c->work[m++] = c->work[i];
    if (m == 0)                                   /* all together weigh less */
        return;
    lm_cands_weigh_list(c, c->work, m, max);
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

/* Buckets of max - l around the border of those that are near: the ones from `inner` to before
 * `inner_end` stay, those before `outer` or from `outer_end` on do not.  need is what is missing
 * without the inner ones. */
struct border {
    size_t   outer, inner, inner_end, outer_end;
    uint64_t need;
};

/* A place among the buckets as a number, at most their number. */
static size_t place_in(double x)
{
    return x <= 0 ? 0 : x < BUCKETS ? (size_t)x : BUCKETS;
}

/*
 * Find the border when the center is `at` buckets below max.  A bucket is surely no farther from it
 * than m if both its ends are, and surely farther if neither is; the last one has no end.  The
 * least m for which the former hold enough, and the largest for which all but the latter do not,
 * are on both sides of the border.
 */
static struct border find_border(const uint64_t *sums, double at, uint64_t need)
{
    const double margin = 0.01;                   /* ends are where they are but for rounding */
    uint64_t before[BUCKETS + 1] = { 0 };
    struct border e = { .need = need };
    for (size_t b = 0; b < BUCKETS; b++)
        before[b + 1] = before[b] + sums[b];
    e.inner = e.inner_end = place_in(at);
    for (double m = 1;; m++) {
        const size_t first = place_in(ceil(at - m + margin)), in = place_in(at + m - margin);
        const size_t end = in < BUCKETS ? in : BUCKETS - 1;
        e.outer = place_in(at - m - margin);
        e.outer_end = place_in(ceil(at + m + margin));
        if (before[e.outer_end] - before[e.outer] < need && first < end) {
            e.inner = first;
            e.inner_end = end;
            e.need = need - (before[end] - before[first]);
        }
        if ((first < end && before[end] - before[first] >= need) ||
            (e.outer == 0 && e.outer_end == BUCKETS))
            return e;
    }
}

/* The candidates in the buckets at the border, as entries of the order, into work; their number. */
static size_t peek_border(struct lm_cands *c, const struct border *e, double center)
{
    const double max = lm_cands_max(c);
    const struct lm_cand *from = c->row ? c->work : c->list;
    size_t n = c->n, m = 0;
    if (c->row) {
        const float high = entry_from(c, max, e->outer), above = entry_before(c, max, e->inner);
        const float below = entry_from(c, max, e->inner_end);
        n = below < above ? lm_cands_peek(c, above, high, 0) : 0;
        n = lm_cands_peek(c, entry_before(c, max, e->outer_end), below < above ? below : high, n);
        n = lm_cands_peek_changed(c, n);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t b = bucket(from[i].l, max);
        if ((b >= e->outer && b < e->inner) || (b >= e->inner_end && b < e->outer_end))
            c->work[m++] = from[i];
    }
    lm_cands_weigh_list(c, c->work, m, max);
    for (size_t i = 0; i < m; i++)
        c->work[i] = near_entry(c->work[i].l, c->work[i].w, c->work[i].id, center);
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

/* Is any of work [n] as near as `last`, but after it? */
static bool has_after(const struct lm_cands *c, const struct lm_cand *last, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c->work[i].l == last->l && lm_cand_before(last, &c->work[i]))
            return true;
    return false;
}

/* Of a row, keep what does not come after `last`.  Entries as near as it are among work [n]. */
static void keep_near_row(struct lm_cands *c, const struct lm_cand *last, double center, size_t n)
{
    const double key = -last->l;
    const float lo = farthest(c, center, key, true), hi = farthest(c, center, key, false);
    size_t m = 0;
    if (has_after(c, last, n)) {                  /* some have to go one by one */
        lm_cands_select(c, lo, hi);
        for (size_t i = 0; i < n; i++)
            if (c->work[i].l == last->l && lm_cand_before(last, &c->work[i]))
                lm_cands_drop(c, c->work[i].id & ~BELOW);
        lm_cands_use_copy(c);
    } else {
        lm_cands_lower(c, hi);
    }
    for (size_t i = 0; i < c->n_changed; i++) {
        const struct lm_cand e = near_entry(c->changed[i].l, 0, c->changed[i].id, center);
        if (!lm_cand_before(last, &e))
            c->changed[m++] = c->changed[i];
    }
    c->n_changed = m;
    lm_cands_raise(c, lo, UINT32_MAX);
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
    double lane[LM_LANES] = { 0 };
    struct tally t;
    if (min_keep > 1)
        lm_cands_list(c);
    const uint64_t total = tally_up(c, &t, lane);
    const double below = lm_entropy(total, lane) - lm_ln((double)total / LM_WEIGHT_ONE);
    const double center = lm_cands_max(c) - below;
    const struct border e = find_border(t.part[0].sums, below * LM_LOG2_E * PER_BIT,
                                        share(p, total));
    const size_t n = peek_border(c, &e, center);
    if (n == 0)                                   /* all together weigh less */
        return;
    struct lm_cand last = last_of_prefix(c->work, n, e.need);
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
