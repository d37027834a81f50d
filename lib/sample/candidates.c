/* SPDX-License-Identifier: MIT */
#include "sample/candidates.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/candidates_parts.h"
#include "sample/fixed_math.h"
#include "sample/row_scan.h"

#define CHUNK LM_CANDS_CHUNK
#define LANES 16             /* sums of doubles are kept apart by place, and added at the end */

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

int lm_cand_by_rank(const void *a, const void *b)
{
    return lm_cand_before(a, b) ? -1 : lm_cand_before(b, a) ? 1 : 0;
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
    c->times = 1;
    c->n = c->n_changed = 0;
    if (!lm_row_scan(row, c->n_vocab, c->best)) {
        uint32_t id = 0;
        while (row[id] == row[id])
            id++;
        return fail_nan(id, err);
    }
    if (lm_cands_max(c) == INFINITY) {
        lm_cands_gather(c, INFINITY);
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

/* ---- looking ---- */

double lm_cands_max(const struct lm_cands *c)
{
    if (!c->row)
        return c->n ? c->max : -INFINITY;
    float m = -INFINITY;
    for (size_t b = 0; b < lm_row_blocks(c->n_vocab); b++)
        m = c->best[b] > m ? c->best[b] : m;
    double max = m * c->times;
    for (size_t i = 0; i < c->n_changed; i++)
        max = c->changed[i].l > max ? c->changed[i].l : max;
    return max;
}

bool lm_cands_empty(const struct lm_cands *c)
{
    return c->row ? lm_cands_max(c) == -INFINITY : c->n == 0;
}

size_t lm_cands_next(struct lm_cands_walk *w, double *l)
{
    const struct lm_cands *c = w->c;
    if (c->row && !w->tail) {
        const float *x = c->row + w->at;
        size_t m = c->n_vocab - w->at;
        if (m >= CHUNK) {
            for (size_t k = 0; k < CHUNK; k++)
                l[k] = x[k] * c->times;
            w->at += CHUNK;
            return CHUNK;
        }
        for (size_t k = 0; k < m; k++)
            l[k] = x[k] * c->times;
        w->at = 0;
        w->tail = true;
        if (m)
            return m;
    }
    const struct lm_cand *from = c->row ? c->changed : c->list;
    size_t n = (c->row ? c->n_changed : c->n) - w->at, m = n < CHUNK ? n : CHUNK;
    for (size_t k = 0; k < m; k++)
        l[k] = from[w->at + k].l;
    w->at += m;
    return m;
}

size_t lm_cands_count(const struct lm_cands *c)
{
    double l[CHUNK];
    size_t n = 0;
    if (!c->row)
        return c->n;
    struct lm_cands_walk w = { .c = c };
    for (size_t m; (m = lm_cands_next(&w, l));)
        for (size_t k = 0; k < m; k++)
            n += l[k] > -INFINITY;
    return n;
}

double lm_cands_logit(const struct lm_cands *c, uint32_t id)
{
    const struct lm_cand *from = c->row ? c->changed : c->list;
    for (size_t i = 0; i < (c->row ? c->n_changed : c->n); i++)
        if (from[i].id == id)
            return from[i].l;
    return c->row && id < c->n_vocab ? c->row[id] * c->times : -INFINITY;
}

/* The weights of m logits; d [m] becomes their distance to max. */
static void weigh(double *d, size_t m, double max, uint64_t *w)
{
    for (size_t k = 0; k < m; k++)
        d[k] -= max;
    lm_weights(d, m, w);
}

uint64_t lm_cands_total(const struct lm_cands *c)
{
    const double max = lm_cands_max(c);
    struct lm_cands_walk at = { .c = c };
    uint64_t w[CHUNK], total = 0;
    double d[CHUNK];
    for (size_t m; (m = lm_cands_next(&at, d));) {
        weigh(d, m, max, w);
        for (size_t k = 0; k < m; k++)
            total += w[k];
    }
    return total;
}

/* The sum of all lanes, from the first. */
static double sum_lanes(const double *lane)
{
    double sum = 0;
    for (size_t k = 0; k < LANES; k++)
        sum += lane[k];
    return sum;
}

double lm_cands_entropy(const struct lm_cands *c, uint64_t *total)
{
    /* -sum p ln p = ln W - sum w d / W with w the weight at distance d, W their sum. */
    const double max = lm_cands_max(c);
    struct lm_cands_walk at = { .c = c };
    uint64_t w[CHUNK], sum = 0;
    double d[CHUNK], lane[LANES] = { 0 };
    for (size_t m; (m = lm_cands_next(&at, d));) {
        weigh(d, m, max, w);
        for (size_t k = 0; k < m; k++) {
            sum += w[k];
            lane[k % LANES] += w[k] ? (double)w[k] * d[k] : 0;
        }
    }
    *total = sum;
    return lm_ln((double)sum / LM_WEIGHT_ONE) - sum_lanes(lane) / (double)sum;
}

double lm_cands_deviation(const struct lm_cands *c)
{
    double mean = 0, d[CHUNK];
    size_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        double lane[LANES] = { 0 };
        struct lm_cands_walk at = { .c = c };
        n = 0;
        for (size_t m; (m = lm_cands_next(&at, d));)
            for (size_t k = 0; k < m; k++) {
                const bool there = d[k] > -INFINITY;
                const double x = there ? d[k] - mean : 0;
                lane[k % LANES] += pass ? x * x : x;
                n += there;
            }
        if (pass)
            return sqrt(sum_lanes(lane) / (double)n);
        mean = sum_lanes(lane) / (double)n;
    }
    return 0;
}

/* ---- from row to list ---- */

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

/* The smallest finite entry of a row whose logit is at least l; infinite if there is none. */
static float row_above(const struct lm_cands *c, double l)
{
    if (l <= -FLT_MAX * c->times)
        return -FLT_MAX;
    if (l > FLT_MAX * c->times)
        return INFINITY;
    float f = (float)(l / c->times);
    while (f * c->times >= l)
        f = nextafterf(f, -INFINITY);
    while (f * c->times < l)
        f = nextafterf(f, INFINITY);
    return f;
}

/* The entries of the row from `least` up, in order of ids, into to; their number. */
static size_t copy_from(const struct lm_cands *c, float least, struct lm_cand *to)
{
    size_t n = 0, blocks = lm_row_blocks(c->n_vocab);
    for (size_t b = 0; b < blocks; b++) {
        if (c->best[b] < least)
            continue;
        size_t end = (b + 1) * LM_ROW_BLOCK;
        if (end > c->n_vocab)
            end = c->n_vocab;
        for (size_t i = b * LM_ROW_BLOCK; i < end; i++)
            if (c->row[i] >= least)
                to[n++] = (struct lm_cand){ .l = c->row[i] * c->times, .id = (uint32_t)i };
    }
    return n;
}

void lm_cands_gather(struct lm_cands *c, double l)
{
    if (!c->row)
        return;
    const double max = lm_cands_max(c);
    c->n = copy_from(c, l == INFINITY ? INFINITY : row_above(c, l), c->list);
    c->row = NULL;
    c->max = max;
    c->order = LM_BY_ID;
    merge_changed(c, l);
    c->n_changed = 0;
}

size_t lm_cands_peek(struct lm_cands *c, double l)
{
    size_t n = copy_from(c, row_above(c, l), c->work);
    for (size_t i = 0; i < c->n_changed; i++)
        c->work[n++] = c->changed[i];
    return n;
}

void lm_cands_list(struct lm_cands *c)
{
    lm_cands_gather(c, -INFINITY);
}

void lm_cands_sort(struct lm_cands *c, enum lm_cand_order order)
{
    lm_cands_list(c);
    if (c->order != order)
        qsort(c->list, c->n, sizeof *c->list, order == LM_BY_ID ? by_id : lm_cand_by_rank);
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
    c->changed[c->n_changed++] = (struct lm_cand){ .l = c->copy[id] * c->times, .id = id };
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
    if (c->row && t > 1e-30 && t < 1e30) {
        const double by = 1 / t;
        c->times *= by;
        for (size_t i = 0; i < c->n_changed; i++)
            c->changed[i].l *= by;
        if (c->times > 1e-60 && c->times < 1e60)
            return;
        lm_cands_list(c);
        return;
    }
    lm_cands_list(c);
    if (c->n == 0)
        return;

    /* Only differences count.  Where the best quotient would overflow, subtract first; what
     * is infinitely far below the best one has no chance anyhow. */
    const double by = t < 0x1p-1000 ? 0x1p1000 : 1 / t;
    const double from = isfinite(c->max * by) ? 0 : c->max;
    for (size_t i = 0; i < c->n; i++) {
        double q = (c->list[i].l - from) * by;
        c->list[i].l = q < -DBL_MAX ? -DBL_MAX : q;
    }
    c->max = (c->max - from) * by;
    if (c->order == LM_BY_RANK && !(t < 1e30))     /* some may have become equal */
        c->order = LM_UNORDERED;
}

/* ---- drawing ---- */

uint64_t lm_cands_weigh(struct lm_cands *c)
{
    double d[CHUNK];
    uint64_t w[CHUNK], total = 0;
    lm_cands_list(c);
    for (size_t i = 0; i < c->n; i += CHUNK) {
        const size_t m = c->n - i < CHUNK ? c->n - i : CHUNK;
        for (size_t k = 0; k < m; k++)
            d[k] = c->list[i + k].l;
        weigh(d, m, c->max, w);
        for (size_t k = 0; k < m; k++)
            total += c->list[i + k].w = w[k];
    }
    return total;
}

/* The place in [0, total) that u points to. */
static uint64_t place_of(double u, uint64_t total)
{
    assert(total > 0);
    uint64_t r = (uint64_t)(u * (double)total);
    return r < total ? r : total - 1;             /* u * total may be rounded up */
}

/* The weights of the ids from `first` on, a chunk, into w; returns their sum.  *changed is the
 * index of the first changed logit not yet met. */
static uint64_t weigh_chunk(const struct lm_cands *c, size_t first, double max, size_t *changed,
                            uint64_t *w)
{
    const size_t m = c->n_vocab - first < CHUNK ? c->n_vocab - first : CHUNK;
    struct lm_cands_walk at = { .c = c, .at = first };
    uint64_t sum = 0;
    double d[CHUNK];
    lm_cands_next(&at, d);
    for (; *changed < c->n_changed && c->changed[*changed].id < first + m; ++*changed)
        d[c->changed[*changed].id - first] = c->changed[*changed].l;
    weigh(d, m, max, w);
    for (size_t k = 0; k < m; k++)
        sum += w[k];
    return sum;
}

/* lm_cands_pick from a row, of which no list is made. */
static uint32_t pick_row(struct lm_cands *c, double u)
{
    const double max = lm_cands_max(c);
    uint64_t w[CHUNK], total = 0, r;
    size_t n = 0, changed = 0, k = 0;
    for (size_t i = 0; i < c->n_vocab; i += CHUNK) {      /* sums of chunks, kept in work */
        c->work[n].id = (uint32_t)changed;
        total += c->work[n++].w = weigh_chunk(c, i, max, &changed, w);
    }
    r = place_of(u, total);
    for (n = 0; c->work[n].w <= r; n++)
        r -= c->work[n].w;
    changed = c->work[n].id;
    weigh_chunk(c, n * CHUNK, max, &changed, w);
    for (; w[k] <= r; k++)
        r -= w[k];
    return (uint32_t)(n * CHUNK + k);
}

uint32_t lm_cands_pick(struct lm_cands *c, double u)
{
    if (c->row)
        return pick_row(c, u);
    uint64_t r = place_of(u, lm_cands_weigh(c));
    size_t i = 0;
    lm_cands_sort(c, LM_BY_ID);
    for (; c->list[i].w <= r; i++)
        r -= c->list[i].w;
    return c->list[i].id;
}
