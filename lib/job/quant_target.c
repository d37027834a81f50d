/* SPDX-License-Identifier: MIT */
/*
 * Types for a size: which assignment of types to tensors loses least within a number of bytes.
 *
 * The loss of a tensor in a type is the sum over its weights of importance times the square of
 * the difference (importance 1 where there is none), as a share of the same sum of the weights
 * themselves, times their number: what a layer's output loses does not depend on how large its
 * inputs are, which differs between layers by powers of ten.  It is measured on rows at equal
 * distances, which stand for all.  Then, with o a tensor's types by size:
 *
 *   1. types that are no better than a smaller one are dropped;
 *   2. all tensors get their smallest type;
 *   3. of all steps to a larger type on the lower convex hull of (bytes, loss), the one that
 *      gains most for a byte is taken, as long as it fits, until none is left;
 *   4. what then still fits is used by the steps, on the hull or not, that gain most.
 *
 * The two largest tensors, whose steps are too coarse for that, are tried in all their types;
 * the best whole counts.  Ties go to the tensor that comes first.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/thread.h"
#include "job/quant_parts.h"

#define SAMPLE   65536u          /* weights that stand for a tensor, about           */
#define MIN_ROWS 16u             /* at least that many rows, if there are            */
#define COARSE   2               /* tensors tried in all types                       */

/* What can be chosen, besides the type that a tensor has; `bare`: also without importance. */
static const struct {
    enum lm_type_id id;
    bool            bare;
} candidates[] = {
    { LM_IQ1_S, false }, { LM_IQ1_M, false }, { LM_IQ2_XXS, false }, { LM_IQ2_XS, false },
    { LM_IQ2_S, false }, { LM_Q2_K, true }, { LM_IQ3_XXS, false }, { LM_IQ3_S, true },
    { LM_Q3_K, true }, { LM_IQ4_XS, true }, { LM_IQ4_NL, true }, { LM_Q4_0, true },
    { LM_Q4_K, true }, { LM_Q4_1, true }, { LM_Q5_0, true }, { LM_Q5_K, true },
    { LM_Q5_1, true }, { LM_Q6_K, true }, { LM_Q8_0, true },
};

enum { N_CANDIDATES = sizeof candidates / sizeof *candidates, MAX_OPTIONS = N_CANDIDATES + 1 };

struct option {
    const struct lm_type *type;
    uint64_t              bytes;         /* with padding                              */
    double                loss;
};

/* A tensor to be decided; options by bytes, each better than the one before. */
struct item {
    size_t        row;
    struct option options[MAX_OPTIONS];
    int           n, pick;
    double        squares;               /* mean of importance times square           */
};

/* A step on the hull of an item. */
struct step {
    size_t item;
    int    from, to;
    double gain;                         /* of loss for a byte                        */
};

struct chooser {
    const struct lm_target *t;
    const struct lm_env    *env;
    struct lm_err          *err;
    struct item            *items;
    size_t                  n_items;
    struct step            *steps;       /* best first                                */
    size_t                  n_steps;
    uint64_t                fixed;       /* bytes of all other tensors                */
};

/* ---- measuring ----------------------------------------------------------- */

/* A tensor's sample, and what each thread needs for a type. */
struct sample {
    const struct lm_quantize_row *row;
    struct item                  *item;
    uint64_t                      rows, cols;
    float                        *x, *weights;       /* [rows][cols]; weights or NULL */
    uint8_t                     **packed;            /* of each thread                */
    float                       **y;
};

static void measure(void *arg, size_t i, int thread)
{
    const struct sample *s = arg;
    struct option *o = &s->item->options[i];
    const struct lm_type *type = o->type;
    struct lm_quantize_error e = { 0 };
    const uint64_t all = s->row->in->ne[1] * s->row->in->ne[2] * s->row->in->ne[3];
    if (type == s->row->in->type)
        return;
    uint64_t cols = s->cols;
    for (uint64_t r = 0; r < s->rows; r++) {
        const float *w = s->weights ? s->weights + r * cols : NULL;
        lm_type_encode(type, s->x + r * cols, s->packed[thread], 1, cols, w, NULL);
        type->decode(s->packed[thread], s->y[thread], cols);
        lm_quantize_add_error(s->x + r * cols, s->y[thread], 1, cols, w, &e);
    }
    o->loss = e.weighted * ((double)all / (double)s->rows);
    if (!isfinite(o->loss))
        o->loss = INFINITY;
}

/* Sampled row r of s->rows: the middle of its share. */
static uint64_t sampled(const struct sample *s, uint64_t all, uint64_t r)
{
    return (uint64_t)(((double)r + 0.5) * ((double)all / (double)s->rows));
}

static int read_rows(const struct chooser *c, struct sample *s, uint8_t *raw, const float *means)
{
    const struct lm_gguf_tensor *t = s->row->in;
    const struct lm_quantize_shard *shard = &c->t->q->shards[s->row->shard];
    const uint64_t all = t->ne[1] * t->ne[2] * t->ne[3], bytes = t->bytes / all;
    for (uint64_t r = 0; r < s->rows; r++) {
        const uint64_t at = sampled(s, all, r);
        int status = lm_in_pread(shard->in, shard->g->data_offset + t->offset + at * bytes, raw,
                                 (size_t)bytes, c->err);
        if (status)
            return status;
        int64_t bad = t->type->invalid ? t->type->invalid(raw, s->cols) : -1;
        if (bad >= 0)
            return lm_fail(c->err, LM_EDATA, "tensor %.*s: row %" PRIu64 ": a number that is "
                           "infinite or none", 100, t->name.p, at);
        t->type->decode(raw, s->x + r * s->cols, s->cols);
        if (means)
            memcpy(s->weights + r * s->cols, means + at / t->ne[1] % t->ne[2] * s->cols,
                   s->cols * sizeof(float));
    }
    return LM_OK;
}

static void release(struct sample *s, int n_threads)
{
    for (int i = 0; i < n_threads; i++) {
        if (s->packed)
            free(s->packed[i]);
        if (s->y)
            free(s->y[i]);
    }
    free(s->packed);
    free(s->y);
    free(s->x);
    free(s->weights);
}

static bool allocate(struct sample *s, int n_threads, bool weighted)
{
    s->x = lm_malloc_array(s->rows * s->cols, sizeof(float));
    s->weights = weighted ? lm_malloc_array(s->rows * s->cols, sizeof(float)) : NULL;
    s->packed = calloc((size_t)n_threads, sizeof *s->packed);
    s->y = calloc((size_t)n_threads, sizeof *s->y);
    bool ok = s->x && (s->weights || !weighted) && s->packed && s->y;
    for (int i = 0; i < n_threads && ok; i++) {
        s->packed[i] = lm_malloc_array(s->cols, 4);
        s->y[i] = lm_malloc_array(s->cols, sizeof(float));
        ok = s->packed[i] && s->y[i];
    }
    return ok;
}

static double mean_squares(const struct sample *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->rows * s->cols; i++)
        sum += (double)s->x[i] * (double)s->x[i] * (s->weights ? (double)s->weights[i] : 1);
    return sum / (double)(s->rows * s->cols);
}

static int measure_item(const struct chooser *c, struct item *item, struct lm_pool *pool)
{
    const struct lm_quantize_row *row = &c->t->q->rows[item->row];
    const struct lm_importance_entry *e = c->t->weights[item->row];
    const uint64_t all = row->in->ne[1] * row->in->ne[2] * row->in->ne[3];
    struct sample s = { .row = row, .item = item, .cols = row->in->ne[0] };
    s.rows = SAMPLE / s.cols > MIN_ROWS ? SAMPLE / s.cols : MIN_ROWS;
    s.rows = s.rows < all ? s.rows : all;
    float *means = e ? lm_malloc_array((size_t)(e->width * e->n_mat), sizeof *means) : NULL;
    uint8_t *raw = malloc((size_t)(row->in->bytes / all));
    int status = allocate(&s, lm_pool_threads(pool), e) && raw && (means || !e)
                     ? LM_OK : lm_fail_nomem(c->err);
    if (!status && e)
        status = lm_importance_means(e, means, c->err);
    if (!status)
        status = read_rows(c, &s, raw, means);
    if (!status) {
        item->squares = mean_squares(&s);
        lm_pool_run(pool, measure, &s, (size_t)item->n);
    }
    free(raw);
    free(means);
    release(&s, lm_pool_threads(pool));
    return status;
}

/* ---- what there is to choose --------------------------------------------- */

static bool padded_bytes(const struct chooser *c, size_t row, const struct lm_type *type,
                         uint64_t *bytes)
{
    const struct lm_gguf_tensor *t = c->t->q->rows[row].in;
    return lm_type_row_bytes(type, t->ne[0], bytes) &&
           lm_mul_u64(*bytes, t->ne[1] * t->ne[2] * t->ne[3], bytes) &&
           lm_align_u64(*bytes, c->t->alignment, bytes);
}

static void add_option(const struct chooser *c, struct item *item, const struct lm_type *type)
{
    uint64_t bytes;
    if (padded_bytes(c, item->row, type, &bytes))
        item->options[item->n++] = (struct option){ type, bytes, 0 };
}

static int by_size(const void *a, const void *b)
{
    const struct option *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->loss != y->loss ? (x->loss < y->loss ? -1 : 1) : 0;
}

/* Only what is better than all that is smaller stays. */
static void drop_worse(struct item *item)
{
    int n = 0;
    qsort(item->options, (size_t)item->n, sizeof *item->options, by_size);
    for (int i = 0; i < item->n; i++)
        if (!n || item->options[i].loss < item->options[n - 1].loss)
            item->options[n++] = item->options[i];
    item->n = n;
}

static int add_item(struct chooser *c, size_t row, struct lm_pool *pool)
{
    struct item *item = &c->items[c->n_items];
    const struct lm_type *source = c->t->mix[row].source;
    *item = (struct item){ .row = row };
    for (int i = 0; i < N_CANDIDATES; i++) {
        const struct lm_type *type = lm_type_by_id(candidates[i].id);
        if (type != source && (candidates[i].bare || c->t->weights[row]))
            add_option(c, item, type);
    }
    add_option(c, item, source);
    int s = measure_item(c, item, pool);
    drop_worse(item);
    c->n_items++;
    return s;
}

static int list_items(struct chooser *c, struct lm_pool *pool)
{
    const struct lm_quantize *q = c->t->q;
    int s = LM_OK;
    for (size_t i = 0; i < q->n_rows && !s; i++) {
        const struct lm_mix_tensor *m = &c->t->mix[i];
        uint64_t bytes;
        if (!c->t->fixed[i] && m->convertible && m->target->block > 1) {
            lm_progress(c->env, "measuring", i, q->n_rows);
            s = lm_stopped(c->env) ? lm_fail(c->err, LM_ESTOP, "stopped") : add_item(c, i, pool);
        } else if (!padded_bytes(c, i, m->target, &bytes) ||
                   !lm_add_u64(c->fixed, bytes, &c->fixed))
            s = lm_fail(c->err, LM_EUSE, "the tensors do not fit 64 bits");
    }
    return s;
}

/* From sums to shares of what there is, times the number of weights. */
static void level(struct chooser *c)
{
    for (size_t i = 0; i < c->n_items; i++) {
        struct item *t = &c->items[i];
        for (int k = 0; k < t->n && t->squares > 0; k++)
            t->options[k].loss /= t->squares;
    }
}

/* ---- choosing ------------------------------------------------------------ */

static double slope(const struct option *a, const struct option *b)
{
    return (a->loss - b->loss) / (double)(b->bytes - a->bytes);
}

static int by_gain(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    if (x->gain != y->gain)
        return x->gain > y->gain ? -1 : 1;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->from - y->from;
}

static int list_steps(struct chooser *c)
{
    c->steps = lm_malloc_array(c->n_items * MAX_OPTIONS + 1, sizeof *c->steps);
    if (!c->steps)
        return lm_fail_nomem(c->err);
    for (size_t i = 0; i < c->n_items; i++) {
        const struct item *item = &c->items[i];
        for (int from = 0; from + 1 < item->n; ) {
            int to = from + 1;
            for (int k = to + 1; k < item->n; k++)
                if (slope(&item->options[from], &item->options[k]) >
                    slope(&item->options[from], &item->options[to]))
                    to = k;
            c->steps[c->n_steps++] = (struct step){
                i, from, to, slope(&item->options[from], &item->options[to])
            };
            from = to;
        }
    }
    qsort(c->steps, c->n_steps, sizeof *c->steps, by_gain);
    return LM_OK;
}

/* Items that stay as they are while the others are decided. */
struct held {
    size_t item[COARSE];
    int    n;
};

static bool is_held(const struct held *h, size_t item)
{
    for (int i = 0; i < h->n; i++)
        if (h->item[i] == item)
            return true;
    return false;
}

/* The step, on the hull or not, that gains most and fits; false: none. */
static bool best_fill(const struct chooser *c, const struct held *h, uint64_t left, size_t *item,
                      int *to)
{
    double best = 0;
    for (size_t i = 0; i < c->n_items; i++) {
        const struct item *t = &c->items[i];
        const struct option *now = &t->options[t->pick];
        for (int k = t->pick + 1; k < t->n && !is_held(h, i); k++) {
            if (t->options[k].bytes - now->bytes > left)
                break;
            if (now->loss - t->options[k].loss > best) {
                best = now->loss - t->options[k].loss;
                *item = i;
                *to = k;
            }
        }
    }
    return best > 0;
}

/* Decide all items that are not held; the whole's loss, or infinity when it does not fit. */
static double decide(struct chooser *c, const struct held *h)
{
    uint64_t used = c->fixed, left;
    size_t item;
    int to;
    double loss = 0;
    for (size_t i = 0; i < c->n_items; i++) {
        struct item *t = &c->items[i];
        t->pick = is_held(h, i) ? t->pick : 0;
        if (!lm_add_u64(used, t->options[t->pick].bytes, &used))
            return INFINITY;
    }
    if (used > c->t->budget)
        return INFINITY;
    left = c->t->budget - used;
    for (size_t i = 0; i < c->n_steps; i++) {
        const struct step *s = &c->steps[i];
        struct item *t = &c->items[s->item];
        if (t->pick != s->from || is_held(h, s->item) ||
            t->options[s->to].bytes - t->options[s->from].bytes > left)
            continue;
        left -= t->options[s->to].bytes - t->options[s->from].bytes;
        t->pick = s->to;
    }
    while (best_fill(c, h, left, &item, &to)) {
        struct item *t = &c->items[item];
        left -= t->options[to].bytes - t->options[t->pick].bytes;
        t->pick = to;
    }
    for (size_t i = 0; i < c->n_items; i++)
        loss += c->items[i].options[c->items[i].pick].loss;
    return loss;
}

/* The largest items by their weights. */
static struct held largest(const struct chooser *c)
{
    struct held h = { 0 };
    while (h.n < COARSE && (size_t)h.n < c->n_items) {
        size_t best = c->n_items;
        for (size_t i = 0; i < c->n_items; i++)
            if (!is_held(&h, i) && (best == c->n_items ||
                c->items[i].options[0].bytes > c->items[best].options[0].bytes))
                best = i;
        h.item[h.n++] = best;
    }
    return h;
}

/* Try all types of the held items from number k on; picks [n_items] become those of the best
 * whole. */
static void try_all(struct chooser *c, const struct held *h, int k, double *best, int *picks)
{
    if (k < h->n) {
        struct item *t = &c->items[h->item[k]];
        for (int i = 0; i < t->n; i++) {
            t->pick = i;
            try_all(c, h, k + 1, best, picks);
        }
        return;
    }
    double loss = decide(c, h);
    if (loss < *best) {
        *best = loss;
        for (size_t i = 0; i < c->n_items; i++)
            picks[i] = c->items[i].pick;
    }
}

static uint64_t least(const struct chooser *c)
{
    uint64_t n = c->fixed;
    for (size_t i = 0; i < c->n_items; i++)
        n += c->items[i].options[0].bytes;
    return n;
}

static int choose(struct chooser *c)
{
    double best = INFINITY;
    int s = list_steps(c);
    int *picks = lm_malloc_array(c->n_items + 1, sizeof *picks);
    const struct held h = largest(c);
    if (!s && !picks)
        s = lm_fail_nomem(c->err);
    if (!s)
        try_all(c, &h, 0, &best, picks);
    if (!s && isinf(best))
        s = lm_fail(c->err, LM_EUSE, "the smallest that the tensors' data can be is %" PRIu64
                    " bytes, and %" PRIu64 " are left for it", least(c), c->t->budget);
    for (size_t i = 0; i < c->n_items && !s; i++) {
        struct lm_mix_tensor *m = &c->t->mix[c->items[i].row];
        m->target = m->wanted = c->items[i].options[picks[i]].type;
        m->needs_weights = false;
    }
    free(picks);
    return s;
}

int lm_target_choose(const struct lm_target *t, const struct lm_env *env, struct lm_err *err)
{
    struct lm_err own;
    struct chooser c = { .t = t, .env = env, .err = err ? err : &own };
    struct lm_pool *pool = lm_pool_new(lm_env_threads(env), c.err);
    c.items = lm_malloc_array(t->q->n_rows + 1, sizeof *c.items);
    int s = pool ? LM_OK : (int)c.err->code;
    if (!s && !c.items)
        s = lm_fail_nomem(c.err);
    if (!s)
        s = list_items(&c, pool);
    if (!s)
        level(&c);
    if (!s)
        s = choose(&c);
    free(c.items);
    free(c.steps);
    lm_pool_free(pool);
    return s;
}
