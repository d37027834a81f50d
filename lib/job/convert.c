/* SPDX-License-Identifier: MIT */
/*
 * The pass over the data: tensor after tensor, a block of rows at a time, each read in
 * order (which streams need), converted by all threads, and written.
 */

#include "job/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/f16.h"
#include "base/size.h"
#include "base/thread.h"
#include "job/convert_parts.h"

enum { BLOCK_BYTES = 4 << 20 };     /* of source rows at a time, one row at least */

static void note(void *user, enum lm_level level, const char *text)
{
    const struct lm_convert *c = user;
    lm_note(c->outer, level, "%s: %s", lm_hf_path(c->src), text);
}

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    lm_progress(((const struct lm_convert *)user)->outer, what, done, total);
}

static bool stop(void *user)
{
    return lm_stopped(((const struct lm_convert *)user)->outer);
}

struct lm_convert *lm_convert_new(struct lm_hf_source *src, const struct lm_convert_options *o,
                                  const struct lm_env *env, struct lm_err *err)
{
    struct lm_convert *c = calloc(1, sizeof *c);
    struct lm_err own = {0};
    err = err ? err : &own;
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->src = src;
    c->outer = env;
    c->named = (struct lm_env){ c, note, progress, stop, lm_env_threads(env) };
    c->env = &c->named;
    c->w = lm_gguf_writer_new();
    int r = c->w ? lm_convert_read_config(c, err) : lm_fail_nomem(err);
    if (!r)
        r = lm_convert_hparams(c, err);
    if (!r && !o->vocab_only)
        r = lm_convert_shards(c, err);
    if (!r)
        r = o->vocab_only ? lm_convert_no_items(c, o->type, err)
                          : lm_convert_items(c, o->type, err);
    if (!r)
        r = lm_convert_keys(c, o, err);
    if (r) {
        lm_convert_free(c);
        return NULL;
    }
    return c;
}

void lm_convert_free(struct lm_convert *c)
{
    if (!c)
        return;
    lm_gguf_writer_free(c->w);
    free(c->shards);
    free(c->items);
    free(c->stacks);
    lm_arena_release(&c->arena);
    free(c);
}

uint64_t lm_convert_size(const struct lm_convert *c)
{
    uint64_t size = 0;
    lm_gguf_total_size(c->w, &size);
    return size;
}

size_t lm_convert_n_tensors(const struct lm_convert *c)
{
    return c->n_items;
}

struct lm_convert_tensor lm_convert_tensor(const struct lm_convert *c, size_t i)
{
    struct lm_convert_tensor t = c->items[i].t;
    if (c->items[i].n_parts) {
        t.file = c->items[i].parts[0].t.file;
        t.source = c->items[i].parts[0].t.source;
        t.dtype = c->items[i].parts[0].t.dtype;
    }
    return t;
}

/* One tensor on its way. */
struct work {
    const struct lm_convert_item *it;
    const struct lm_type         *from, *to;
    uint64_t                      cols, rows, unit;     /* unit: rows that are permuted together */
    uint64_t                      src_row, dst_row;     /* bytes                                 */
    uint64_t                      head, n_groups;       /* LM_SPLIT_QKV_ROWS: rows of a head,
                                                           groups                                */
    uint64_t                      first;                /* row the block begins with             */
    uint64_t                      n;                    /* rows of the block                     */
    uint8_t                      *src, *dst;
    float                        *scratch;              /* [threads][2][cols]                    */
    int64_t                      *bad;                  /* [n]: first bad value of a row, or -1  */
};

/* Groups of queries, a key and a value become all queries, all keys, all values. */
static uint64_t qkv_row(const struct work *w, uint64_t i)
{
    const uint64_t d = w->head, group = w->unit / d / w->n_groups - 2;
    const uint64_t n_q = w->n_groups * group, head = i / d;
    if (head < n_q)
        return (head / group * (group + 2) + head % group) * d + i % d;
    const uint64_t kv = head - n_q, g = kv % w->n_groups;
    return (g * (group + 2) + group + kv / w->n_groups) * d + i % d;
}

/* The row of the block that becomes row i of the output: within a head, row 2j comes from
 * the first half, 2j + 1 from the second. */
static uint64_t source_row(const struct work *w, uint64_t i)
{
    if (w->unit == 1 || w->it->row->transform == LM_TRANSPOSE)
        return i;
    const uint64_t head = i / w->unit, r = i % w->unit;
    if (w->it->row->transform == LM_SPLIT_QKV_ROWS)
        return qkv_row(w, i);
    return head * w->unit + (r & 1) * (w->unit / 2) + r / 2;
}

/* As the reference: weights of binary16 are added to in it. */
static void add_one(const struct lm_type *from, float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        row[i] += 1;
        if (from->id == LM_F16)
            row[i] = lm_f16_load(lm_f16_store(row[i]));
    }
}

/* The values that become row i, side by side: in the block, or gathered at `tmp` when they
 * stand in a column. */
static const uint8_t *values_of(const struct work *w, uint64_t i, void *tmp)
{
    const size_t size = w->from->bytes;
    if (w->it->row->transform != LM_TRANSPOSE)
        return w->src + source_row(w, i) * w->src_row;
    for (uint64_t k = 0; k < w->cols; k++)
        memcpy((uint8_t *)tmp + k * size, w->src + (k * w->rows + i) * size, size);
    return tmp;
}

/* The first of n values that is infinite or NaN, or -1: no block type would show it. */
static int64_t first_bad(const float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(v[i]))
            return (int64_t)i;
    return -1;
}

static void convert_row(void *arg, size_t i, int thread)
{
    const struct work *w = arg;
    uint8_t *dst = w->dst + i * w->dst_row;
    const size_t cols = (size_t)w->cols;
    float *row = w->scratch + (size_t)thread * 2 * cols;
    const uint8_t *src = values_of(w, i, row + cols);
    if (w->it->row->transform == LM_ADD_ONE) {
        w->from->decode(src, row, cols);
        add_one(w->from, row, cols);
        lm_type_encode(w->to, row, dst, 1, cols, NULL, NULL);
    } else if (w->from == w->to) {
        memcpy(dst, src, (size_t)w->src_row);
    } else if (w->to->id == LM_F32) {
        w->from->decode(src, (float *)dst, cols);
    } else {
        w->from->decode(src, row, cols);
        w->bad[i] = first_bad(row, cols);
        if (w->bad[i] >= 0) {
            w->bad[i] /= w->to->block;
            return;
        }
        lm_type_encode(w->to, row, dst, 1, cols, NULL, NULL);
    }
    w->bad[i] = w->to->invalid ? w->to->invalid(dst, cols) : -1;
}

/* Name the weight that the type cannot hold: the largest of the block that is refused. */
static int bad_weight(const struct work *w, uint64_t i, struct lm_err *err)
{
    const uint64_t from = (uint64_t)w->bad[i] * w->to->block;
    float *row = w->scratch;
    double worst = 0;
    uint64_t at = from;
    w->from->decode(values_of(w, i, row + w->cols), row, (size_t)w->cols);
    for (uint64_t k = from; k < from + w->to->block && isfinite(worst); k++)
        if (!(fabs(row[k]) <= fabs(worst))) {
            worst = row[k];
            at = k;
        }
    if (!isfinite(worst))
        return lm_fail(err, LM_EDATA, "%s: %s: row %llu, column %llu is %g: not a weight",
                       w->it->t.file, w->it->t.source,
                       (unsigned long long)(w->first + source_row(w, i)),
                       (unsigned long long)at, worst);
    return lm_fail(err, LM_EDATA, "%s: %s: row %llu, column %llu is %.9g: beyond what %s can "
                   "hold: convert with -T bf16 or -T f32", w->it->t.file, w->it->t.source,
                   (unsigned long long)(w->first + source_row(w, i)), (unsigned long long)at,
                   worst, w->to->name);
}

static int set_up(struct work *w, const struct lm_convert *c, const struct lm_convert_item *it,
                  int threads, struct lm_err *err)
{
    const enum lm_transform tf = it->row->transform;
    *w = (struct work){ .it = it, .cols = it->t.ne[0], .rows = 1, .unit = 1 };
    w->from = lm_type_by_id((uint32_t)it->st->dtype->type_id);
    w->to = it->t.type;
    for (uint32_t d = 1; d < it->t.n_dims; d++)
        w->rows *= it->t.ne[d];
    if (tf == LM_PAIR_Q_ROWS || tf == LM_PAIR_K_ROWS) {
        /* A vector of biases is a column of rows. */
        if (it->t.n_dims == 1) {
            w->rows = w->cols;
            w->cols = 1;
        }
        w->unit = w->rows / (tf == LM_PAIR_Q_ROWS ? c->cfg.h.n_head : c->cfg.h.n_head_kv);
        if (w->unit == 0 || w->unit % 2)
            return lm_fail(err, LM_EDATA, "%s: %llu rows are no pairs in each head",
                           it->t.source, (unsigned long long)w->rows);
    }
    if (tf == LM_TRANSPOSE)
        w->unit = w->rows;              /* every row needs them all */
    if (tf == LM_SPLIT_QKV_ROWS) {
        if (it->t.n_dims == 1) {
            w->rows = w->cols;
            w->cols = 1;
        }
        w->unit = w->rows;
        w->head = c->cfg.h.head_k;
        w->n_groups = c->cfg.h.n_head_kv;
        if (w->n_groups == 1)
            w->unit = 1;
    }
    lm_type_row_bytes(w->from, w->cols, &w->src_row);
    lm_type_row_bytes(w->to, w->cols, &w->dst_row);
    w->n = BLOCK_BYTES / (w->src_row * w->unit) * w->unit;
    if (w->n == 0)
        w->n = w->unit;
    if (w->n > w->rows)
        w->n = w->rows;
    if (tf == LM_FIRST_HALVES || tf == LM_SECOND_HALVES)
        w->n = it->t.ne[1];             /* one half at a time */
    w->src = lm_malloc_array((size_t)w->n, (size_t)w->src_row);
    w->dst = lm_malloc_array((size_t)w->n, (size_t)w->dst_row);
    w->bad = lm_malloc_array((size_t)w->n, sizeof *w->bad);
    w->scratch = lm_malloc_array(2 * (size_t)threads * (size_t)w->cols, sizeof *w->scratch);
    return w->src && w->dst && w->bad && w->scratch ? LM_OK : lm_fail_nomem(err);
}

static void tear_down(struct work *w)
{
    free(w->src);
    free(w->dst);
    free(w->bad);
    free(w->scratch);
}

/* The row of the source that the block begins with. */
static uint64_t first_row(const struct work *w)
{
    const enum lm_transform tf = w->it->row->transform;
    if (tf != LM_FIRST_HALVES && tf != LM_SECOND_HALVES)
        return w->first;
    return 2 * w->first + (tf == LM_SECOND_HALVES ? w->n : 0);
}

/* Read, convert and write the w->n rows from w->first on. */
static int one_block(struct lm_convert *c, struct work *w, struct lm_pool *pool,
                     struct lm_out *out, struct lm_err *err)
{
    const struct lm_convert_shard *s = &c->shards[w->it->shard];
    const uint64_t off = s->st.data_offset + w->it->st->begin + first_row(w) * w->src_row;
    int r = lm_hf_read(c->src, (size_t)s->file, off, w->src, (size_t)(w->n * w->src_row), err);
    if (r)
        return lm_err_at(err, r, "%s: %s: %s", lm_hf_path(c->src), s->name, w->it->t.source);
    lm_pool_run(pool, convert_row, w, (size_t)w->n);
    for (uint64_t i = 0; i < w->n; i++)
        if (w->bad[i] >= 0)
            return lm_err_at(err, bad_weight(w, i, err), "%s", lm_hf_path(c->src));
    r = lm_out_write(out, w->dst, (size_t)(w->n * w->dst_row), err);
    return r ? lm_err_at(err, r, "%s", lm_out_name(out)) : LM_OK;
}

static int write_rows(struct lm_convert *c, const struct lm_convert_item *it,
                      struct lm_pool *pool, struct lm_out *out, struct lm_err *err)
{
    struct work w;
    int r = set_up(&w, c, it, lm_pool_threads(pool), err);
    const uint64_t block = w.n, total = lm_convert_size(c);
    for (; !r && w.first < w.rows; w.first += w.n) {
        if (lm_stopped(c->env))
            r = lm_fail(err, LM_ESTOP, "stopped");
        w.n = w.rows - w.first < block ? w.rows - w.first : block;
        if (!r)
            r = one_block(c, &w, pool, out, err);
        lm_progress(c->env, it->t.name, lm_out_pos(out), total);
    }
    tear_down(&w);
    return r;
}

/* From a pipe: the file that the tensor is in must be the next one. */
static int await_shard(struct lm_convert *c, size_t i, struct lm_err *err)
{
    struct lm_convert_shard *s = &c->shards[i];
    int r = lm_hf_next_weights(c->src, err);
    if (r < 0)
        return r;
    if (r == 0)
        return lm_fail(err, LM_EDATA, "%s: is missing: the pipe ended without it", s->name);
    s->file = (int)lm_hf_n_files(c->src) - 1;
    if (strcmp(lm_hf_name(c->src, (size_t)s->file), s->name))
        return lm_hf_not_next(c->src, lm_hf_name(c->src, (size_t)s->file), s->name, err);
    r = lm_convert_read_shard(c, i, err);
    return r ? r : lm_convert_link(c, i, err);
}

static int write_item(struct lm_convert *c, struct lm_convert_item *it, struct lm_pool *pool,
                      struct lm_out *out, struct lm_err *err)
{
    int r = LM_OK;
    if (it->t.source && !it->st)
        r = await_shard(c, it->shard, err);
    if (r)
        return lm_err_at(err, r, "%s", lm_hf_path(c->src));
    if (it->made) {
        r = lm_out_write(out, it->made, (size_t)it->t.bytes, err);
        if (r)
            lm_err_at(err, r, "%s", lm_out_name(out));
    } else if (it->n_parts) {
        for (uint64_t k = 0; !r && k < it->n_parts; k++) {
            it->parts[k].t.name = it->t.name;
            it->parts[k].t.type = it->t.type;
            r = write_rows(c, &it->parts[k], pool, out, err);
        }
    } else {
        r = write_rows(c, it, pool, out, err);
    }
    if (r)
        return r;
    r = lm_gguf_write_pad(c->w, out, it->t.bytes, err);
    return r ? lm_err_at(err, r, "%s", lm_out_name(out)) : LM_OK;
}

int lm_convert_write(struct lm_convert *c, struct lm_out *out, struct lm_err *err)
{
    struct lm_err own = {0};
    err = err ? err : &own;
    struct lm_pool *pool = lm_pool_new(lm_env_threads(c->env), err);
    if (!pool)
        return err->code;
    int r = lm_gguf_write_head(c->w, out, err);
    if (r)
        lm_err_at(err, r, "%s", lm_out_name(out));
    for (size_t i = 0; !r && i < c->n_items; i++)
        r = write_item(c, &c->items[i], pool, out, err);
    lm_pool_free(pool);
    if (!r && (r = lm_hf_drain(c->src, err)))
        lm_err_at(err, r, "%s", lm_hf_path(c->src));
    return r;
}
