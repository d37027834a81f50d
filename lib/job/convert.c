/* SPDX-License-Identifier: MIT */
/*
 * The pass over the data: tensor after tensor, a block at a time.  Blocks are read one
 * after the other (which streams need), converted by all threads, and written in order,
 * all three at once.
 */

#include "job/convert.h"

#include <math.h>
#include <stdlib.h>

#include "base/line.h"
#include "base/size.h"
#include "job/convert_sink.h"

/* Values that are floats at a time, more where rows help each other; threads beyond which
 * memory bandwidth is what limits. */
enum { PIECE = 64 * 1024, PIECE_OF_FLOATS = 4 * 1024, MOST_THREADS = 16 };

/* What rounds to infinity as bf16. */
#define BF16_END 0x1.ffp127

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

static int plan(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    int r = lm_convert_read_config(c, c->src, err);
    if (!r)
        r = lm_convert_hparams(c, err);
    if (!r && !o->vocab_only)
        r = lm_convert_shards(c, err);
    if (!r)
        r = o->vocab_only ? lm_convert_types(c, o, err) : lm_convert_items(c, o, err);
    return r ? r : lm_convert_keys(c, o, err);
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
    c->named = (struct lm_env){ .user = c, .note = note, .progress = progress, .stop = stop,
                                .n_threads = lm_env_threads(env) };
    c->env = &c->named;
    c->w = lm_gguf_writer_new();
    int r = !c->w ? lm_fail_nomem(err) : o->lora ? lm_convert_lora(c, o, err) : plan(c, o, err);
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
    free(c->held.data);
    lm_packed_reader_release(&c->unpack);
    lm_hf_close(c->base);
    lm_arena_release(&c->arena);
    free(c);
}

const struct lm_hf_source *lm_convert_base(const struct lm_convert *c)
{
    return c->base;
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
    const struct lm_convert_item *it = &c->items[i];
    struct lm_convert_tensor t = it->t;
    const char *dtype = t.dtype ? t.dtype : "-";
    for (size_t k = 0; k + 1 < sizeof t.from && dtype[k]; k++)
        t.from[k] = dtype[k] >= 'A' && dtype[k] <= 'Z' ? (char)(dtype[k] + 32) : dtype[k];
    const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
    const struct lm_type *type = st ? lm_convert_value_type(st) : NULL;
    t.bytes_from = type ? type->bytes : 0;
    for (uint32_t d = 0; d < t.n_dims; d++)
        t.bytes_from *= d == 0 && type ? t.ne[0] / type->block : t.ne[d];
    if (st && st->packed && type->block == 1)
        t.bytes_from = st->bytes;
    t.n_parts = it->n_sources;
    t.weighted = it->weights;
    return t;
}

/* A block on its way. */
struct job {
    struct lm_convert_block block;
    struct lm_convert_room  room;
    uint8_t                *dst;
    size_t                  dst_cap;
    const void             *out;        /* what is written: dst, or what was read     */
    size_t                  out_bytes;
    struct lm_err           err;
};

struct pass {
    struct lm_convert     *c;
    struct lm_convert_sink sink;
    struct lm_convert_walk walk;
    struct job            *jobs;
    float                **scratch;     /* a piece of floats for each thread          */
    size_t                *scratch_cap;
    uint64_t               done, total; /* bytes                                      */
};

static int take(void *arg, size_t slot)
{
    struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    if (lm_stopped(p->c->env))
        return lm_fail(&j->err, LM_ESTOP, "stopped");
    const int r = lm_convert_next(&p->walk, &j->block, &j->err);
    if (r <= 0)
        return r;
    const int k = lm_convert_fetch(p->c, &j->block, &j->room, &j->err);
    return k ? k : 1;
}

/* Name the weight that the type cannot hold: the largest of the block that is refused, which
 * begins with element i of the job. */
static int bad_weight(const struct lm_convert *c, struct job *j, const float *v, uint64_t i)
{
    const struct lm_convert_item *it = &c->items[j->block.item];
    const struct lm_convert_source *s = &it->sources[j->block.box.source];
    double worst = 0;
    uint64_t at = 0;
    for (uint64_t k = 0; k < it->t.type->block && isfinite(worst); k++)
        if (!(fabs(v[k]) <= fabs(worst))) {
            worst = v[k];
            at = k;
        }
    const uint64_t origin = lm_convert_origin(&j->block, i + at);
    const uint64_t cols = s->st->n_dims ? s->st->shape[s->st->n_dims - 1] : 1;
    const unsigned long long row = origin / cols, column = origin % cols;
    int r;
    if (!isfinite(worst))
        r = lm_fail(&j->err, LM_EDATA, "row %llu, column %llu is %g: not a weight", row, column,
                    worst);
    else
        r = lm_fail(&j->err, LM_EUSE, "row %llu, column %llu is %.9g: beyond what %s can hold: "
                    "convert with -T %s", row, column, worst, it->t.type->name,
                    fabs(worst) < BF16_END ? "bf16 or -T f32" : "f32");
    return lm_err_at(&j->err, r, "%s: %s: %s", lm_hf_path(c->src), c->shards[s->shard].name,
                     s->name);
}

/* Importance of the columns of the rows that element i of the item is in: of one matrix of a
 * stack.  NULL without. */
static const float *weights_of(const struct lm_convert_item *it, uint64_t i, float *out)
{
    const struct lm_importance_entry *e = it->weights;
    const uint64_t matrix = i / (it->t.ne[0] * it->t.ne[1]) % it->t.ne[2];
    if (!e)
        return NULL;
    const struct lm_importance_entry one = {
        .name = e->name, .width = it->t.ne[0], .n_mat = 1, .sum2 = e->sum2 + matrix * it->t.ne[0],
        .counts = e->counts + (e->n_mat > 1 ? matrix : 0),
    };
    lm_importance_means(&one, out, NULL);           /* its sums are in memory */
    return out;
}

/* n elements from element i of the job on: `rows` whole rows, or part of one where every
 * element is a block. */
static int convert_piece(const struct lm_convert *c, struct job *j, const uint8_t *src,
                         uint64_t i, size_t n, size_t rows, float *v)
{
    const struct lm_convert_item *it = &c->items[j->block.item];
    const struct lm_convert_source *s = &it->sources[j->block.box.source];
    const struct lm_type *from = lm_convert_value_type(s->st), *to = it->t.type;
    uint8_t *dst = j->dst + i / to->block * to->bytes;
    int64_t bad = -1;
    from->decode(src + i / from->block * from->bytes, to->id == LM_F32 ? (float *)dst : v, n);
    if (to->id == LM_F32)
        v = (float *)dst;
    if (lm_convert_has_values(it))
        lm_convert_values(it, &it->views[j->block.view], from, v, n);
    for (size_t k = 0; it->factor && k < n; k++)
        v[k] *= it->factor;
    if (to->block > 1)
        bad = lm_type_beyond(to, v, n);
    if (bad < 0 && to->id != LM_F32) {
        const float *w = weights_of(it, j->block.first + i, v + n);
        const int r = lm_type_encode(to, v, dst, rows, n / rows, w, &j->err);
        if (r)
            return lm_err_at(&j->err, r, "%s", it->t.name);
    }
    if (bad < 0 && to->invalid && (bad = to->invalid(dst, n)) >= 0)
        bad *= to->block;
    bad = bad < 0 ? bad : bad / to->block * to->block;
    return bad < 0 ? LM_OK : bad_weight(c, j, v + bad, i + (uint64_t)bad);
}

/* Elements that are copied as they are can still be no weights. */
static int check_copy(const struct lm_convert *c, struct job *j, const uint8_t *src)
{
    const struct lm_type *to = c->items[j->block.item].t.type;
    const int64_t bad = to->invalid ? to->invalid(src, (size_t)j->block.n) : -1;
    float v[256];
    if (bad < 0)
        return LM_OK;
    to->decode(src + (uint64_t)bad * to->bytes, v, to->block);
    return bad_weight(c, j, v, (uint64_t)bad * to->block);
}

static int work(void *arg, size_t slot, int thread)
{
    const struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    const struct lm_convert_item *it = &p->c->items[j->block.item];
    const struct lm_type *to = it->t.type;
    const struct lm_type *from =
        lm_convert_value_type(it->sources[j->block.box.source].st);
    const uint8_t *src = lm_convert_arrange(p->c, &j->block, &j->room);
    const uint64_t n = j->block.n, row = to->block > 1 || from->block > 1 ? it->t.ne[0] : 1;
    const uint64_t most = row > 1 ? PIECE : PIECE_OF_FLOATS;
    const uint64_t piece = most < row ? row : most / row * row;
    int r = LM_OK;
    if (!src)
        return lm_fail_nomem(&j->err);
    j->out_bytes = (size_t)(n / to->block * to->bytes);
    if (from == to && !lm_convert_has_values(it) && !it->factor) {
        j->out = src;
        return check_copy(p->c, j, src);
    }
    if (!lm_grow(&j->dst, &j->dst_cap, j->out_bytes, 1) ||
        !lm_grow(&p->scratch[thread], &p->scratch_cap[thread], (size_t)(piece + it->t.ne[0]),
                 sizeof(float)))
        return lm_fail_nomem(&j->err);
    j->out = j->dst;
    /* Pieces never span the matrices of a stack, which have importance of their own. */
    const uint64_t matrix = it->t.ne[0] * it->t.ne[1];
    for (uint64_t i = 0, k; !r && i < n; i += k) {
        const uint64_t left = matrix - (j->block.first + i) % matrix;
        k = piece < n - i ? piece : n - i;
        k = it->weights && left < k ? left : k;
        r = convert_piece(p->c, j, src, i, (size_t)k, row > 1 ? (size_t)(k / row) : 1,
                          p->scratch[thread]);
    }
    return r;
}

/* Write the tensors without blocks that stand before item `end`: those that are made. */
static int put_made(struct pass *p, size_t end, struct lm_err *err)
{
    struct lm_convert_sink *k = &p->sink;
    int r = LM_OK;
    while (!r && k->item < end) {
        const struct lm_convert_item *it = &p->c->items[k->item];
        r = lm_sink_begin(k, err);
        if (!r)
            r = lm_sink_bytes(k, it->made, (size_t)it->t.bytes, err);
        if (!r)
            r = lm_sink_end(k, err);
    }
    return r;
}

static int put(void *arg, size_t slot)
{
    struct pass *p = arg;
    struct job *j = &p->jobs[slot];
    const struct lm_convert_block *b = &j->block;
    const struct lm_convert_tensor *t = &p->c->items[b->item].t;
    uint64_t elements = 1;
    for (uint32_t d = 0; d < t->n_dims; d++)
        elements *= t->ne[d];
    int r = put_made(p, b->item, &j->err);
    if (!r && b->first == 0)
        r = lm_sink_begin(&p->sink, &j->err);
    if (!r)
        r = lm_sink_bytes(&p->sink, j->out, j->out_bytes, &j->err);
    if (!r && b->first + b->n == elements)
        r = lm_sink_end(&p->sink, &j->err);
    p->done += j->out_bytes;
    lm_progress(p->c->env, t->name, p->done, p->total);
    return r;
}

static int run(struct pass *p, int threads, struct lm_err *err)
{
    const size_t slots = (size_t)(threads > 1 ? threads + 2 : 1);
    const struct lm_line line = { threads, slots, p, take, work, put };
    size_t failed = slots;
    int r = LM_ENOMEM;
    p->jobs = calloc(slots, sizeof *p->jobs);
    p->scratch = calloc((size_t)threads, sizeof *p->scratch);
    p->scratch_cap = calloc((size_t)threads, sizeof *p->scratch_cap);
    if (p->jobs && p->scratch && p->scratch_cap)
        r = lm_line_run(&line, &failed);
    if (r && failed < slots)
        *err = p->jobs[failed].err;
    else if (r)
        lm_fail_nomem(err);
    else
        r = put_made(p, p->c->n_items, err);
    for (size_t i = 0; p->jobs && i < slots; i++) {
        free(p->jobs[i].room.raw);
        free(p->jobs[i].room.ordered);
        free(p->jobs[i].dst);
    }
    for (int i = 0; p->scratch && i < threads; i++)
        free(p->scratch[i]);
    free(p->jobs);
    free(p->scratch);
    free(p->scratch_cap);
    return r;
}

struct lm_split *lm_convert_split(const struct lm_convert *c, const struct lm_split_options *o,
                                  const char *name, struct lm_err *err)
{
    struct lm_gguf *g = lm_gguf_of_writer(c->w, err);
    struct lm_split *s = g ? lm_split_of(g, name, err) : NULL;
    if (!s || lm_split_plan(s, o, c->outer, err) == LM_OK)
        return s;
    lm_split_free(s);
    return NULL;
}

int lm_convert_write_to(struct lm_convert *c, const struct lm_convert_target *t,
                        struct lm_err *err)
{
    struct lm_err own = {0};
    const int threads = lm_env_threads(c->env);
    struct pass p = { .c = c, .sink = { .c = c, .t = t }, .walk = { .c = c },
                      .total = lm_convert_size(c) };
    err = err ? err : &own;
    int r = lm_sink_start(&p.sink, err);
    p.walk.item = p.sink.item;
    for (size_t i = 0; i < p.sink.item; i++)
        p.done += c->items[i].t.bytes;
    if (!r)
        r = run(&p, threads < MOST_THREADS ? threads : MOST_THREADS, err);
    if (!r && (r = lm_hf_drain(c->src, err)))
        lm_err_at(err, r, "%s", lm_hf_path(c->src));
    lm_sink_close(&p.sink, r == LM_OK);
    return r;
}

int lm_convert_write(struct lm_convert *c, struct lm_out *out, struct lm_err *err)
{
    const struct lm_convert_target t = { .out = out };
    return lm_convert_write_to(c, &t, err);
}
