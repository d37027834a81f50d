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

#define STRETCH     512      /* entries looked at at once: whole blocks                */
#define LIST_BLOCKS 128      /* a row with no more blocks of candidates becomes a list */

int lm_cands_init(struct lm_cands *c, uint32_t n_vocab, struct lm_err *err)
{
    *c = (struct lm_cands){ .n_vocab = n_vocab, .ops = lm_chunk_ops() };
    c->list = lm_malloc_array(n_vocab, sizeof *c->list);
    c->work = lm_malloc_array((size_t)n_vocab + 2 * LM_CHUNK, sizeof *c->work);
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

/* The largest of the blocks' best ones: several at a time, since each has to wait for the one
 * before it. */
static void find_top(struct lm_cands *c)
{
    const size_t n = lm_row_blocks(c->n_vocab);
    float m[8];
    for (size_t k = 0; k < 8; k++)
        m[k] = -INFINITY;
    for (size_t b = 0; b < n; b++)
        m[b % 8] = c->best[b] > m[b % 8] ? c->best[b] : m[b % 8];
    for (size_t k = 1; k < 8; k++)
        m[0] = m[k] > m[0] ? m[k] : m[0];
    c->top = m[0];
}

int lm_cands_row(struct lm_cands *c, const float *row, struct lm_err *err)
{
    c->row = row;
    c->times = 1;
    c->least = -FLT_MAX;
    c->last = UINT32_MAX;
    c->most = FLT_MAX;
    c->n = c->n_changed = 0;
    if (!lm_row_scan(row, c->n_vocab, c->best)) {
        uint32_t id = 0;
        while (row[id] == row[id])
            id++;
        return fail_nan(id, err);
    }
    find_top(c);
    if (c->top == INFINITY) {
        c->most = INFINITY;
        lm_cands_list(c);
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

/* Is entry x of the row, of that id, a candidate? */
static inline bool is_candidate(const struct lm_cands *c, float x, size_t id)
{
    return (x > c->least || (x == c->least && id <= c->last)) && x <= c->most;
}

double lm_cands_max(const struct lm_cands *c)
{
    if (!c->row)
        return c->n ? c->max : -INFINITY;
    double max = c->top >= c->least ? c->top * c->times : -INFINITY;
    for (size_t i = 0; i < c->n_changed; i++)
        max = c->changed[i].l > max ? c->changed[i].l : max;
    return max;
}

bool lm_cands_empty(const struct lm_cands *c)
{
    return c->row ? lm_cands_max(c) == -INFINITY : c->n == 0;
}

/* The chunk of the row that begins there: its candidates are the entries from *least to the most.
 * Where it is not that simple, a copy in `own`. */
static const float *chunk_at(const struct lm_cands *c, size_t first, float *least, float *own)
{
    const float *x = c->row + first;
    const size_t m = c->n_vocab - first;
    *least = first > c->last ? nextafterf(c->least, INFINITY) : c->least;
    if (m >= LM_CHUNK && (first > c->last || c->last - first >= LM_CHUNK - 1))
        return x;
    for (size_t k = 0; k < LM_CHUNK; k++)
        own[k] = k < m && is_candidate(c, x[k], first + k) ? x[k] : -INFINITY;
    return own;
}

/* Has the chunk of the row that begins there a candidate? */
static bool has_some(const struct lm_cands *c, size_t first)
{
    const size_t end = lm_row_blocks(c->n_vocab);
    for (size_t b = first / LM_ROW_BLOCK; b < (first + LM_CHUNK) / LM_ROW_BLOCK && b < end; b++)
        if (c->best[b] >= c->least)
            return true;
    return false;
}

/* The falls from max of the row's ids from `first` on, a chunk; -inf for no candidate. */
static void load(const struct lm_cands *c, size_t first, double max, float *fall)
{
    float least, own[LM_CHUNK];
    const float *x = chunk_at(c, first, &least, own);
    c->ops->fall(x, least, c->most, c->times, max, fall);
}

/* The same of candidates i.. of a list [n]. */
static void load_list(const struct lm_cand *list, size_t i, size_t n, double max, float *fall)
{
    for (size_t k = 0; k < LM_CHUNK; k++)
        fall[k] = i + k < n ? lm_fall(list[i + k].l - max) : -INFINITY;
}

bool lm_cands_next(struct lm_cands_walk *w, float *fall)
{
    const struct lm_cands *c = w->c;
    if (c->row && !w->tail) {
        while (w->at < c->n_vocab && !has_some(c, w->at))
            w->at += LM_CHUNK;
        if (w->at < c->n_vocab) {
            load(c, w->at, w->max, fall);
            w->at += LM_CHUNK;
            return true;
        }
        w->at = 0;
        w->tail = true;
    }
    const size_t n = c->row ? c->n_changed : c->n;
    if (w->at >= n)
        return false;
    load_list(c->row ? c->changed : c->list, w->at, n, w->max, fall);
    w->at += LM_CHUNK;
    return true;
}

/* The sum of all lanes, from the first. */
static double sum_lanes(const double *lane)
{
    double sum = 0;
    for (size_t k = 0; k < LM_LANES; k++)
        sum += lane[k];
    return sum;
}

size_t lm_cands_count(const struct lm_cands *c)
{
    float least, own[LM_CHUNK];
    size_t n = c->row ? c->n_changed : c->n;
    for (size_t i = 0; c->row && i < c->n_vocab; i += LM_CHUNK)
        if (has_some(c, i)) {
            const float *x = chunk_at(c, i, &least, own);
            n += c->ops->count(x, least, c->most);
        }
    return n;
}

double lm_cands_logit(const struct lm_cands *c, uint32_t id)
{
    const struct lm_cand *from = c->row ? c->changed : c->list;
    for (size_t i = 0; i < (c->row ? c->n_changed : c->n); i++)
        if (from[i].id == id)
            return from[i].l;
    return c->row && id < c->n_vocab && is_candidate(c, c->row[id], id) ? c->row[id] * c->times
                                                                         : -INFINITY;
}

uint64_t lm_cands_total(const struct lm_cands *c)
{
    struct lm_cands_walk at = { .c = c, .max = lm_cands_max(c) };
    uint64_t w[LM_CHUNK], total = 0;
    float fall[LM_CHUNK];
    while (lm_cands_next(&at, fall))
        total += c->ops->weigh(fall, w, NULL);
    return total;
}

double lm_entropy(uint64_t total, const double *lane)
{
    return lm_ln((double)total / LM_WEIGHT_ONE) - sum_lanes(lane) / (double)total / LM_LOG2_E;
}

double lm_cands_entropy(const struct lm_cands *c)
{
    struct lm_cands_walk at = { .c = c, .max = lm_cands_max(c) };
    uint64_t w[LM_CHUNK], total = 0;
    double lane[LM_LANES] = { 0 };
    float fall[LM_CHUNK];
    while (lm_cands_next(&at, fall))
        total += c->ops->weigh(fall, w, lane);
    return lm_entropy(total, lane);
}

/* Add the logits, or the squares of their distances from `from`, to lanes; returns how many there
 * are. */
static size_t spread(const struct lm_cands *c, double from, bool square, double *lane)
{
    const struct lm_cand *list = c->row ? c->changed : c->list;
    size_t n = c->row ? c->n_changed : c->n;
    for (size_t k = 0; k < n; k++) {
        const double d = list[k].l - from;
        lane[k % LM_LANES] += square ? d * d : list[k].l;
    }
    for (size_t i = 0; c->row && i < c->n_vocab; i += LM_CHUNK)
        if (has_some(c, i)) {
            float least, own[LM_CHUNK];
            const float *x = chunk_at(c, i, &least, own);
            n += c->ops->spread(x, least, c->most, c->times, from, square, lane);
        }
    return n;
}

double lm_cands_deviation(const struct lm_cands *c)
{
    double sum[LM_LANES] = { 0 }, square[LM_LANES] = { 0 };
    const double n = (double)spread(c, 0, false, sum);
    spread(c, sum_lanes(sum) / n, true, square);
    return sqrt(sum_lanes(square) / n);
}

/* ---- from row to list ---- */

/* Merge the changed logits into the list, which is in order of ids.  From the back, so that it
 * is done in place: no id is in both. */
static void merge_changed(struct lm_cands *c)
{
    size_t to = c->n + c->n_changed, from = c->n;
    c->n = to;
    for (size_t i = c->n_changed; i-- > 0;) {
        while (from && c->list[from - 1].id > c->changed[i].id)
            c->list[--to] = c->list[--from];
        c->list[--to] = c->changed[i];
    }
    c->n_changed = 0;
}

float lm_cands_entry(const struct lm_cands *c, double l)
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

/* Append the candidates among x [n] from `least` to `most`, the row's ids from `first` on. */
static size_t copy_some(const struct lm_cands *c, size_t first, size_t n, float least, float most,
                        struct lm_cand *to)
{
    uint32_t at[STRETCH];
    const size_t whole = n - n % LM_ROW_BLOCK;
    const float *x = c->row + first;
    size_t found = c->ops->find(x, whole, least, most, at), m = 0;
    for (size_t i = whole; i < n; i++)
        if (x[i] >= least && x[i] <= most)
            at[found++] = (uint32_t)i;
    for (size_t k = 0; k < found; k++) {
        const size_t id = first + at[k];
        if (is_candidate(c, c->row[id], id))
            to[m++] = (struct lm_cand){ .l = c->row[id] * c->times, .id = (uint32_t)id };
    }
    return m;
}

/* The candidates among the row's entries from `least` to `most`, in order of ids, into to;
 * their number. */
static size_t copy_between(const struct lm_cands *c, float least, float most, struct lm_cand *to)
{
    size_t n = 0;
    least = least > c->least ? least : c->least;
    for (size_t b = 0, end = lm_row_blocks(c->n_vocab); b < end; ) {
        const size_t first = b * LM_ROW_BLOCK;
        size_t size = 0;
        for (; b < end && c->best[b] >= least && size < STRETCH; b++)
            size += LM_ROW_BLOCK;
        if (size)
            n += copy_some(c, first, size < c->n_vocab - first ? size : c->n_vocab - first, least,
                           most, to + n);
        else
            b++;
    }
    return n;
}

void lm_cands_list(struct lm_cands *c)
{
    if (!c->row)
        return;
    const double max = lm_cands_max(c);
    c->n = copy_between(c, c->least, INFINITY, c->list);
    c->row = NULL;
    c->max = max;
    c->order = LM_BY_ID;
    merge_changed(c);
}

size_t lm_cands_peek(struct lm_cands *c, float least, float most, size_t n)
{
    return n + copy_between(c, least, most, c->work + n);
}

size_t lm_cands_peek_changed(struct lm_cands *c, size_t n)
{
    for (size_t i = 0; i < c->n_changed; i++)
        c->work[n++] = c->changed[i];
    return n;
}

void lm_cands_raise(struct lm_cands *c, float least, uint32_t last)
{
    size_t n = 0, blocks = lm_row_blocks(c->n_vocab);
    if (least > c->least || (least == c->least && last < c->last)) {
        c->least = least;
        c->last = last;
    }
    for (size_t b = 0; b < blocks && n <= LIST_BLOCKS; b++)
        n += c->best[b] >= c->least;
    if (n <= LIST_BLOCKS)
        lm_cands_list(c);
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

void lm_cands_drop(struct lm_cands *c, uint32_t id)
{
    const size_t b = id / LM_ROW_BLOCK, end = (b + 1) * LM_ROW_BLOCK;
    float best = -INFINITY;
    c->copy[id] = -INFINITY;
    for (size_t i = b * LM_ROW_BLOCK; i < end && i < c->n_vocab; i++)
        best = c->copy[i] > best && c->copy[i] <= c->most ? c->copy[i] : best;
    c->best[b] = best;
}

/* Move one id of the row to the changed logits, unless it is no candidate. */
static void take_out(struct lm_cands *c, uint32_t id)
{
    if (!is_candidate(c, c->copy[id], id))
        return;
    c->changed[c->n_changed++] = (struct lm_cand){ .l = c->copy[id] * c->times, .id = id };
    lm_cands_drop(c, id);
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
    find_top(c);
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

/* Of block b, the ids with their bit set into the copy, -inf for the others. */
static void copy_allowed(struct lm_cands *c, size_t b, uint32_t bits)
{
    const size_t first = b * LM_ROW_BLOCK, left = c->n_vocab - first;
    const size_t n = left < LM_ROW_BLOCK ? left : LM_ROW_BLOCK;
    if (bits == UINT32_MAX) {
        memmove(c->copy + first, c->row + first, n * sizeof *c->copy);
        return;
    }
    float best = -INFINITY, kept[LM_ROW_BLOCK];
    for (size_t i = 0; i < LM_ROW_BLOCK; i++)
        kept[i] = -INFINITY;
    for (uint32_t left_bits = bits; left_bits; left_bits &= left_bits - 1) {
        const size_t i = (size_t)__builtin_ctz(left_bits);
        if (i < n)
            kept[i] = c->row[first + i];
    }
    memcpy(c->copy + first, kept, n * sizeof *kept);
    for (size_t i = 0; i < n; i++)
        best = kept[i] > best && kept[i] <= c->most ? kept[i] : best;
    c->best[b] = best;
}

static bool is_allowed(const uint64_t *allowed, uint32_t id)
{
    return allowed[id / 64] >> id % 64 & 1;
}

/* Of a list of candidates, those allowed; returns how many. */
static size_t allow_some(struct lm_cand *list, size_t n, const uint64_t *allowed)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (is_allowed(allowed, list[i].id))
            list[m++] = list[i];
    return m;
}

void lm_cands_allow(struct lm_cands *c, const uint64_t *allowed)
{
    if (!c->row) {
        c->n = allow_some(c->list, c->n, allowed);
        settle(c);
        return;
    }
    for (size_t b = 0; b < lm_row_blocks(c->n_vocab); b++)
        copy_allowed(c, b, (uint32_t)(allowed[b / 2] >> (b % 2 * 32)));
    c->row = c->copy;
    find_top(c);
    c->n_changed = allow_some(c->changed, c->n_changed, allowed);
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

/* ---- favouring a probability ---- */

/* lm_cands_favor for a list, or the changed logits of a row. */
static void favor_list(const struct lm_cands *c, struct lm_cand *list, size_t n, double max,
                       const struct lm_favor *f, float *p)
{
    float chance[LM_CHUNK], y[LM_CHUNK], best[LM_CHUNK / LM_BLOCK], fall[LM_CHUNK];
    for (size_t i = 0; i < n; i += LM_CHUNK) {
        load_list(list, i, n, max, fall);
        c->ops->powers(fall, chance);
        c->ops->favor(f, chance, y, best);
        for (size_t k = 0; k < LM_CHUNK && i + k < n; k++) {
            p[list[i + k].id] = chance[k];
            list[i + k].l = y[k];
        }
    }
}

/* The weight of one candidate. */
static uint64_t weight_of(const struct lm_cand *x, double max)
{
    return lm_weight(lm_fall(x->l - max));
}

/* The powers of the row into p, below 0 for no candidate; returns the sum of the weights, the
 * changed ones' too. */
static uint64_t weigh_row(struct lm_cands *c, double max, float *p)
{
    uint64_t total = 0;
    float fall[LM_CHUNK];
    for (size_t i = 0; i < c->n_vocab; i += LM_CHUNK) {
        load(c, i, max, fall);
        total += c->ops->powers(fall, p + i);
    }
    for (size_t i = 0; i < c->n_changed; i++)
        total += weight_of(&c->changed[i], max);
    return total;
}

/* lm_cands_favor for a row whose powers are in p, into the copy. */
static void favor_row(struct lm_cands *c, const struct lm_favor *f, float *p)
{
    float y[LM_CHUNK], best[LM_CHUNK / LM_BLOCK];
    for (size_t i = 0; i < c->n_vocab; i += LM_CHUNK) {
        const size_t left = c->n_vocab - i, n = left < LM_CHUNK ? left : LM_CHUNK;
        float *to = n == LM_CHUNK ? c->copy + i : y;
        c->ops->favor(f, p + i, to, best);
        memcpy(c->best + i / LM_ROW_BLOCK, best, lm_row_blocks(n) * sizeof *best);
        if (to == y)
            memcpy(c->copy + i, y, n * sizeof *y);
    }
}

/* The least |p - want| among the best candidates of blocks and the changed ones, or those of a
 * list. */
static double nearest(const struct lm_cands *c, double max, double share, double want)
{
    const struct lm_cand *list = c->row ? c->changed : c->list;
    double base = INFINITY;
    for (size_t i = 0; i < (c->row ? c->n_changed : c->n); i++)
        base = fmin(base, fabs((double)weight_of(&list[i], max) * share - want));
    for (size_t i = 0, n = lm_row_blocks(c->n_vocab); c->row && i < n; i += LM_CHUNK) {
        float best[LM_CHUNK], fall[LM_CHUNK], p[LM_CHUNK];
        for (size_t k = 0; k < LM_CHUNK; k++)
            best[k] = i + k < n ? c->best[i + k] : -INFINITY;
        c->ops->fall(best, c->least, c->most, c->times, max, fall);
        c->ops->powers(fall, p);
        for (size_t k = 0; k < LM_CHUNK; k++)
            if (p[k] >= 0)
                base = fmin(base, fabs(p[k] * share - want));
    }
    return base;
}

void lm_cands_use_copy(struct lm_cands *c)
{
    c->row = c->copy;
    c->least = -FLT_MAX;
    c->last = UINT32_MAX;
    c->most = FLT_MAX;
    find_top(c);
}

void lm_cands_favor(struct lm_cands *c, double want, float *p)
{
    const double max = lm_cands_max(c);
    struct lm_favor f;
    if (c->row) {
        const double share = 1 / (double)weigh_row(c, max, p);
        lm_favor_init(&f, share, want, nearest(c, max, share, want));
        favor_row(c, &f, p);
        favor_list(c, c->changed, c->n_changed, max, &f, p);
        c->times = 1;
        lm_cands_use_copy(c);
        return;
    }
    const double share = 1 / (double)lm_cands_total(c);
    lm_favor_init(&f, share, want, nearest(c, max, share, want));
    favor_list(c, c->list, c->n, max, &f, p);
    if (c->order == LM_BY_RANK)
        c->order = LM_UNORDERED;
    settle(c);
}

/* The same for ids from..to - 1, whole blocks but for the row's last. */
static void select_each(struct lm_cands *c, size_t from, size_t to, float least, float most)
{
    for (size_t i = from; i < to; i++) {
        const float v = c->row[i];
        c->copy[i] = v >= least && v <= most && is_candidate(c, v, i) ? v : -INFINITY;
    }
    lm_row_scan(c->copy + from, to - from, c->best + from / LM_ROW_BLOCK);
}

void lm_cands_select(struct lm_cands *c, float least, float most)
{
    size_t whole = c->n_vocab - c->n_vocab % LM_ROW_BLOCK;
    if (least > c->least || c->last == UINT32_MAX)
        c->ops->keep(c->row, whole, least > c->least ? least : c->least,
                     most < c->most ? most : c->most, c->copy, c->best);
    else
        whole = 0;
    select_each(c, whole, c->n_vocab, least, most);
}

void lm_cands_lower(struct lm_cands *c, float most)
{
    if (most >= c->most)
        return;
    c->most = most;
    for (size_t b = 0; b < lm_row_blocks(c->n_vocab); b++)
        if (c->best[b] > most) {
            c->best[b] = -INFINITY;
            for (size_t i = b * LM_ROW_BLOCK; i < (b + 1) * LM_ROW_BLOCK && i < c->n_vocab; i++)
                if (c->row[i] <= most && c->row[i] > c->best[b])
                    c->best[b] = c->row[i];
        }
    find_top(c);
}

/* ---- drawing ---- */

uint64_t lm_cands_weigh_list(const struct lm_cands *c, struct lm_cand *list, size_t n, double max)
{
    float fall[LM_CHUNK];
    uint64_t w[LM_CHUNK], total = 0;
    for (size_t i = 0; i < n; i += LM_CHUNK) {
        load_list(list, i, n, max, fall);
        total += c->ops->weigh(fall, w, NULL);
        for (size_t k = 0; k < LM_CHUNK && i + k < n; k++)
            list[i + k].w = w[k];
    }
    return total;
}

uint64_t lm_cands_weigh(struct lm_cands *c)
{
    lm_cands_list(c);
    return lm_cands_weigh_list(c, c->list, c->n, c->max);
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
    float fall[LM_CHUNK];
    load(c, first, max, fall);
    for (; *changed < c->n_changed && c->changed[*changed].id < first + LM_CHUNK; ++*changed)
        fall[c->changed[*changed].id - first] = lm_fall(c->changed[*changed].l - max);
    return c->ops->weigh(fall, w, NULL);
}

/* The sum of the weights of entries y [m], which is made whole with entries that have none. */
static uint64_t weigh_entries(const struct lm_cands *c, float *y, size_t m, double max)
{
    uint64_t w[LM_CHUNK], sum = 0;
    float fall[LM_CHUNK];
    for (size_t i = m; i % LM_CHUNK; i++)
        y[i] = -INFINITY;
    for (size_t i = 0; i < m; i += LM_CHUNK) {
        c->ops->fall(y + i, -INFINITY, INFINITY, c->times, max, fall);
        sum += c->ops->weigh(fall, w, NULL);
    }
    return sum;
}

/* A stretch of chunks with that sum, which begins at chunk `first`, at the end of work [*n]. */
static void add_stretch(struct lm_cands *c, size_t *n, size_t first, uint64_t sum)
{
    c->work[(*n)++] = (struct lm_cand){ .w = sum, .id = (uint32_t)first };
}

/* Weigh the row without its changed logits, stretch by stretch, into work; their number.  What is
 * left of a chunk is put together with that of its neighbours: what is gone costs little. */
static size_t weigh_stretches(struct lm_cands *c, double max)
{
    float y[4 * LM_CHUNK] = { 0 }, own[LM_CHUNK], least;
    size_t n = 0, m = 0, first = 0, chunk = 0;
    for (size_t i = 0; i < c->n_vocab; i += LM_CHUNK, chunk++) {
        if (!has_some(c, i))
            continue;
        const float *x = chunk_at(c, i, &least, own);
        first = m ? first : chunk;
        m += c->ops->pack(x, least, c->most, y + m);
        if (m <= 3 * LM_CHUNK)
            continue;
        add_stretch(c, &n, first, weigh_entries(c, y, m, max));
        m = 0;
    }
    add_stretch(c, &n, m ? first : chunk, weigh_entries(c, y, m, max));
    return n;
}

/* lm_cands_pick from a row, of which no list is made. */
static uint32_t pick_row(struct lm_cands *c, double u)
{
    const double max = lm_cands_max(c);
    const size_t n = weigh_stretches(c, max);
    uint64_t w[LM_CHUNK], total = 0, r, sum;
    size_t i = 0, changed = 0, k = 0;
    for (size_t at = 0; at < n; at++) {           /* those changed before the next stretch */
        const size_t end = at + 1 < n ? (size_t)c->work[at + 1].id * LM_CHUNK : c->n_vocab;
        for (; changed < c->n_changed && c->changed[changed].id < end; changed++)
            c->work[at].w += weight_of(&c->changed[changed], max);
        total += c->work[at].w;
    }
    r = place_of(u, total);
    for (; c->work[i].w <= r; i++)
        r -= c->work[i].w;
    size_t first = i ? (size_t)c->work[i].id * LM_CHUNK : 0;
    for (changed = 0; changed < c->n_changed && c->changed[changed].id < first; )
        changed++;
    for (; (sum = weigh_chunk(c, first, max, &changed, w)) <= r; first += LM_CHUNK)
        r -= sum;
    for (; w[k] <= r; k++)
        r -= w[k];
    return (uint32_t)(first + k);
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
