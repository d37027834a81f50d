/* SPDX-License-Identifier: MIT */
/*
 * Quantizing: the pass over the data.
 *
 * A tensor is cut in pieces of whole rows, by its shape alone.  The pieces of a batch are
 * read and encoded by all threads, one of which first writes the batch before, so that
 * reading, work and writing go on side by side.  (A pipe is read ahead of that.)
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/size.h"
#include "base/thread.h"
#include "job/quant_parts.h"
#include "job/resume.h"

#define PIECE (64 * 1024)              /* weights in a piece, or one row if that is more */

/* A tensor as the pass sees it: `rows` rows, `slice` of which share importance. */
struct shape {
    uint64_t cols, rows, slice;
    uint64_t in_row, out_row;          /* bytes                                          */
    uint64_t piece;                    /* rows of a piece                                */
    uint64_t batch;                    /* pieces of a batch                              */
};

struct run {
    const struct lm_quantize     *q;
    const struct lm_quantize_row *row;
    const struct lm_quantize_part *part;
    struct lm_resume             *resume;          /* or NULL                        */
    struct lm_quantize_error     *error;           /* of the row, or NULL            */
    struct shape                  s;
    uint8_t                      *src[2], *dst[2]; /* batches, taking turns              */
    int                           turn;
    struct {                                       /* encoded, but not written           */
        const struct lm_quantize_row *row;
        const uint8_t                *data;
        size_t                        n;           /* bytes; 0: nothing                  */
        bool                          last;        /* of the row                         */
    } pending;
    struct lm_out                *out;
    int                           written;         /* what writing came to               */
    struct lm_err                 write_err;
    float                       **scratch;         /* a piece of floats for each thread  */
    float                       **result;          /* the same, read back; NULL: error is */
    int                           n_threads;
    uint64_t                      buffer;          /* bytes of a batch, at most          */
    float                        *weights;         /* [slices][cols], or NULL            */
    uint64_t                      first_row;       /* of the batch                       */
    uint64_t                      n_rows;          /* in the batch                       */
    /* What came of each piece of the batch. */
    struct outcome {
        int64_t  at;                               /* a bad weight in it, -1: none       */
        bool     result;                           /* in what came out of it             */
        bool     importance;                       /* and not without importance         */
        bool     unread;                           /* reading failed                     */
        struct lm_quantize_error error;
    } *outcomes;
};

static uint64_t at_least_1(uint64_t n)
{
    return n ? n : 1;
}

/* Pieces never span slices: each slice is cut anew. */
static uint64_t pieces_in_slice(const struct shape *s)
{
    return (s->slice + s->piece - 1) / s->piece;
}

static uint64_t pieces_in_all(const struct shape *s)
{
    return s->rows / s->slice * pieces_in_slice(s);
}

/* Copies are cut between any two blocks, whatever the rows are.  A batch has at most `most`
 * bytes of input, or one piece. */
static struct shape shape_of(const struct lm_quantize_row *row, uint64_t most)
{
    const struct lm_gguf_tensor *t = row->in;
    struct shape s = { .cols = t->ne[0], .slice = t->ne[1],
                       .rows = t->ne[1] * t->ne[2] * t->ne[3] };
    if (row->target == t->type) {
        s.cols = t->type->block;
        s.slice = s.rows = t->bytes / t->type->bytes;
    }
    s.in_row = t->bytes / s.rows;
    s.out_row = row->bytes / s.rows;
    s.piece = at_least_1(PIECE / s.cols);
    if (s.piece > at_least_1(most / s.in_row))
        s.piece = at_least_1(most / s.in_row);
    if (s.piece > s.slice)
        s.piece = s.slice;
    s.batch = at_least_1(most / at_least_1(s.piece * s.in_row));
    if (s.batch > pieces_in_all(&s))
        s.batch = pieces_in_all(&s);
    return s;
}

/* Piece k of the whole tensor: its first row and how many it has. */
static uint64_t piece_rows(const struct shape *s, uint64_t k, uint64_t *first)
{
    uint64_t per = pieces_in_slice(s), in_slice = k % per * s->piece;
    *first = k / per * s->slice + in_slice;
    return s->slice - in_slice < s->piece ? s->slice - in_slice : s->piece;
}

/* The input's data of `rows` rows from `first` on, to where the batch has them. */
static int read_rows(const struct run *r, uint64_t first, uint64_t rows, struct lm_err *err)
{
    const struct lm_quantize_shard *shard = &r->q->shards[r->row->shard];
    const uint64_t at = shard->g->data_offset + r->row->in->offset + first * r->s.in_row;
    uint8_t *to = r->src[r->turn] + (first - r->first_row) * r->s.in_row;
    const size_t n = (size_t)(rows * r->s.in_row);
    if (lm_in_seekable(shard->in))
        return lm_in_pread(shard->in, at, to, n, err);
    int s = lm_in_skip(shard->in, at - lm_in_pos(shard->in), err);
    return s == LM_OK ? lm_in_read_all(shard->in, to, n, err) : s;
}

static int of_output(const struct lm_out *out, int s, struct lm_err *err)
{
    return s == LM_OK ? s : lm_err_at(err, s, "%s", lm_out_name(out));
}

/* Write what is encoded; what comes of it is in r->written. */
static void write_pending(struct run *r)
{
    struct lm_err *err = &r->write_err;
    const struct lm_quantize_row *row = r->pending.row;
    if (!r->pending.n || r->written != LM_OK)
        return;
    if (r->resume)
        lm_resume_bytes(r->resume, r->pending.data, r->pending.n);
    r->written = lm_out_write(r->out, r->pending.data, r->pending.n, err);
    if (r->written == LM_OK && r->pending.last)
        r->written = lm_gguf_write_pad(r->part->w, r->out, row->bytes, err);
    if (r->written == LM_OK && r->pending.last && r->resume)
        r->written = lm_resume_whole(r->resume, row->name.p, err);
    r->pending.n = 0;
}

static int flush_pending(struct run *r, struct lm_err *err)
{
    write_pending(r);
    if (r->written == LM_OK)
        return LM_OK;
    return of_output(r->out, lm_fail(err, r->written, "%s", r->write_err.text), err);
}

struct batch {
    struct run *r;
    uint64_t    first_piece;
};

static void encode_piece(const struct batch *b, size_t i, int thread)
{
    struct run *r = b->r;
    const struct lm_type *from = r->row->in->type, *to = r->row->target;
    uint64_t first, rows = piece_rows(&r->s, b->first_piece + i, &first);
    size_t n = (size_t)(rows * r->s.cols);
    const uint8_t *src = r->src[r->turn] + (first - r->first_row) * r->s.in_row;
    struct outcome *f = &r->outcomes[i];
    *f = (struct outcome){ .at = -1 };
    if (lm_in_seekable(r->q->shards[r->row->shard].in) && read_rows(r, first, rows, NULL)) {
        f->unread = true;
        return;
    }
    int64_t bad = from->invalid ? from->invalid(src, n) : -1;
    if (bad < 0 && from != to) {
        uint8_t *dst = r->dst[r->turn] + (first - r->first_row) * r->s.out_row;
        const float *x = (const float *)(const void *)src;
        if (from->id != LM_F32) {
            from->decode(src, r->scratch[thread], n);
            x = r->scratch[thread];
        }
        uint64_t slice = first / r->s.slice % r->row->in->ne[2];
        const float *w = r->weights ? r->weights + slice * r->s.cols : NULL;
        f->result = true;
        f->at = to->block > 1 ? lm_type_beyond(to, x, n) : -1;
        if (f->at >= 0)
            return;
        lm_type_encode(to, x, dst, (size_t)rows, (size_t)r->s.cols, w, NULL);
        bad = to->invalid ? to->invalid(dst, n) : -1;
        f->importance = bad >= 0 && w &&
            lm_type_encode(to, x, dst, (size_t)rows, (size_t)r->s.cols, NULL, NULL) == LM_OK &&
            to->invalid(dst, n) < 0;
        if (r->error && bad < 0) {
            to->decode(dst, r->result[thread], n);
            lm_quantize_add_error(x, r->result[thread], rows, r->s.cols, w, &f->error);
        }
    }
    if (bad >= 0)
        f->at = bad * (f->result ? to->block : from->block);
}

/* First the batch before is written; then the pieces. */
static void work(void *arg, size_t i, int thread)
{
    const struct batch *b = arg;
    if (i == 0)
        write_pending(b->r);
    else
        encode_piece(b, i - 1, thread);
}

/* Where in the tensor, counted from its first weight, and what. */
static int failed(const struct run *r, uint64_t piece, const struct outcome *f,
                  struct lm_err *err)
{
    const struct lm_gguf_tensor *t = r->row->in;
    uint64_t first;
    piece_rows(&r->s, piece, &first);
    uint64_t at = first * r->s.cols + (uint64_t)f->at;
    if (f->importance)
        return lm_fail(err, LM_EDATA, "tensor %.*s: importance of the weights from row %" PRIu64
                       ", column %" PRIu64 " is too large for %s", 100, t->name.p, at / t->ne[0],
                       at % t->ne[0], r->row->target->name);
    if (f->result)
        return lm_fail(err, LM_EUSE, "tensor %.*s: weights from row %" PRIu64 ", column %" PRIu64
                       " are too large for %s", 100, t->name.p, at / t->ne[0], at % t->ne[0],
                       r->row->target->name);
    return lm_fail(err, LM_EDATA, "tensor %.*s: row %" PRIu64 ", column %" PRIu64 ": a %s that is "
                   "infinite or no number", 100, t->name.p, at / t->ne[0], at % t->ne[0],
                   t->type->block > 1 ? "scale" : "weight");
}

/* Two files are at work: a failure says which one it is about. */
static int of_input(const struct run *r, int s, struct lm_err *err)
{
    return s == LM_OK ? s : lm_err_at(err, s, "%s", lm_in_name(r->q->shards[r->row->shard].in));
}

/* What came of the pieces, in order. */
static int look_at(struct run *r, uint64_t piece, uint64_t n_pieces, struct lm_err *err)
{
    for (uint64_t i = 0; i < n_pieces; i++) {
        const struct outcome *f = &r->outcomes[i];
        if (f->unread) {                       /* once more, for the reason */
            uint64_t first, rows = piece_rows(&r->s, piece + i, &first);
            int s = read_rows(r, first, rows, err);
            s = s == LM_OK ? lm_fail(err, LM_EIO, "read error") : s;
            return of_input(r, lm_err_at(err, s, "tensor %.*s", 100, r->row->in->name.p), err);
        }
        if (f->at >= 0)
            return of_input(r, failed(r, piece + i, f, err), err);
        if (r->error) {
            r->error->squares += f->error.squares;
            r->error->weighted += f->error.weighted;
        }
    }
    return LM_OK;
}

static int run_batch(struct run *r, struct lm_pool *pool, uint64_t piece, uint64_t n_pieces,
                     struct lm_err *err)
{
    const struct lm_gguf_tensor *t = r->row->in;
    uint64_t last;
    struct batch b = { r, piece };
    piece_rows(&r->s, piece, &r->first_row);
    uint64_t in_last = piece_rows(&r->s, piece + n_pieces - 1, &last);
    r->n_rows = last + in_last - r->first_row;
    int s = LM_OK;
    if (!lm_in_seekable(r->q->shards[r->row->shard].in))
        s = read_rows(r, r->first_row, r->n_rows, err);
    if (s != LM_OK)
        return of_input(r, lm_err_at(err, s, "tensor %.*s", 100, t->name.p), err);
    lm_pool_run(pool, work, &b, (size_t)n_pieces + 1);
    s = flush_pending(r, err);                 /* done: only its result */
    if (s == LM_OK)
        s = look_at(r, piece, n_pieces, err);
    if (s != LM_OK)
        return s;
    r->pending.row = r->row;
    r->pending.data = t->type == r->row->target ? r->src[r->turn] : r->dst[r->turn];
    r->pending.n = (size_t)(r->n_rows * r->s.out_row);
    r->pending.last = piece + n_pieces == pieces_in_all(&r->s);
    r->turn = !r->turn;
    return LM_OK;
}

/* A buffer for each thread. */
static bool grow_all(const struct run *r, float **buffers, size_t *cap, uint64_t floats)
{
    size_t grown = *cap;
    for (int i = 0; i < r->n_threads; i++) {
        grown = *cap;
        if (!lm_grow(&buffers[i], &grown, (size_t)floats, sizeof(float)))
            return false;
    }
    *cap = grown;
    return true;
}

/* Scratch that fits the tensor: r's buffers grow from tensor to tensor. */
static bool room(struct run *r, size_t *cap)
{
    const struct shape *s = &r->s;
    uint64_t in, out, floats = s->piece * s->cols;
    if (!lm_mul_u64(s->batch * s->piece, s->in_row, &in) ||
        !lm_mul_u64(s->batch * s->piece, s->out_row, &out) || in > SIZE_MAX / 2 ||
        out > SIZE_MAX / 2 || floats > SIZE_MAX / 16)
        return false;
    bool copy = r->row->target == r->row->in->type;
    /* What is pending lies in the other buffer. */
    if (!lm_grow(&r->src[r->turn], &cap[5 + r->turn], (size_t)in, 1) ||
        !lm_grow(&r->outcomes, &cap[1], (size_t)s->batch, sizeof *r->outcomes))
        return false;
    if (copy)
        return true;
    if (!lm_grow(&r->dst[r->turn], &cap[7 + r->turn], (size_t)out, 1))
        return false;
    return (r->row->in->type->id == LM_F32 || grow_all(r, r->scratch, &cap[3], floats)) &&
           (!r->error || grow_all(r, r->result, &cap[4], floats));
}

static int run_tensor(struct run *r, size_t *cap, struct lm_pool *pool, const struct lm_env *env,
                      struct lm_err *err)
{
    const struct lm_importance_entry *e = r->row->weights;
    int s = LM_OK;
    r->s = shape_of(r->row, r->buffer);
    r->weights = e ? lm_malloc_array((size_t)(e->width * e->n_mat), sizeof(float)) : NULL;
    if (e && !r->weights)
        s = lm_fail_nomem(err);
    else if (e)
        s = lm_importance_means(e, r->weights, err);

    uint64_t n = pieces_in_all(&r->s);
    for (uint64_t k = 0; k < n && s == LM_OK; k += r->s.batch) {
        s = !room(r, cap) ? lm_fail_nomem(err)
                          : run_batch(r, pool, k, n - k < r->s.batch ? n - k : r->s.batch, err);
        if (s == LM_OK && lm_stopped(env))
            s = lm_fail(err, LM_ESTOP, "stopped");
    }
    free(r->weights);
    return s;
}

/* A writer at the other end of a pipe shall end in peace: it may have padding, or
 * tensors' worth of anything, behind the last tensor. */
static int drain(struct lm_in *in, struct lm_err *err)
{
    char waste[4096];
    size_t got = 1;
    int s = LM_OK;
    while (s == LM_OK && got && !lm_in_seekable(in))
        s = lm_in_read(in, waste, sizeof waste, &got, err);
    return s;
}

static uint64_t input_bytes(const struct lm_quantize *q, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += q->rows[i].in->bytes;
    return bytes;
}

/* Write the header; *row becomes the first that has to be written. */
static int start(struct run *r, const struct lm_quantize_output *o, size_t *row,
                 const struct lm_env *env, struct lm_err *err)
{
    const struct lm_quantize_row *rows = r->q->rows;
    const size_t end = r->part->first + r->part->n;
    int s = lm_gguf_write_head(r->part->w, o->out, err);
    *row = r->part->first;
    if (s != LM_OK || !o->resume)
        return s;
    r->resume = lm_resume_open(o->out, err);
    s = r->resume ? 1 : err->code;
    while (s == 1 && *row < end) {
        s = lm_resume_skip(r->resume, rows[*row].name.p, rows[*row].bytes,
                           lm_gguf_padding(r->part->w, rows[*row].bytes), err);
        *row += s == 1;
    }
    if (s >= 0 && *row > r->part->first)
        lm_note(env, LM_WARN, "%zu of %zu tensors were there already", *row - r->part->first,
                r->part->n);
    return s < 0 ? s : LM_OK;
}

static int run_all(struct run *r, struct lm_pool *pool, const struct lm_quantize_output *o,
                   const struct lm_env *env, struct lm_err *err)
{
    const struct lm_quantize *q = r->q;
    struct lm_out *out = o->out;
    size_t cap[9] = { 0 }, i;
    r->out = out;
    int s = of_output(out, start(r, o, &i, env, err), err);
    uint64_t total = input_bytes(q, q->n_rows), done = input_bytes(q, i);
    for (; i < r->part->first + r->part->n && s == LM_OK; i++) {
        r->row = &q->rows[i];
        r->error = o->errors ? &o->errors[i] : NULL;
        lm_note(env, LM_INFO, "%s: %s to %s", r->row->name.p, r->row->in->type->name,
                r->row->target->name);
        lm_progress(env, "quantizing", done, total);
        s = run_tensor(r, cap, pool, env, err);
        done += r->row->in->bytes;
    }
    if (s == LM_OK)
        s = flush_pending(r, err);
    else
        write_pending(r);                      /* another run can go on behind it */
    if (s == LM_OK && (s = drain(q->shards[0].in, err)) != LM_OK)
        lm_err_at(err, s, "%s", lm_in_name(q->shards[0].in));
    return s;
}

int lm_quantize_run(const struct lm_quantize *q, size_t k, const struct lm_quantize_output *o,
                    const struct lm_env *env, struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    struct run r = { .q = q, .part = &q->parts[k], .n_threads = lm_env_threads(env),
                     .buffer = o->buffer ? o->buffer : LM_QUANTIZE_BUFFER };
    struct lm_pool *pool = lm_pool_new(r.n_threads, err);
    if (!pool)
        return (int)err->code;
    r.scratch = calloc((size_t)r.n_threads, sizeof *r.scratch);
    r.result = calloc((size_t)r.n_threads, sizeof *r.result);
    int s = r.scratch && r.result ? run_all(&r, pool, o, env, err)
                                  : lm_fail_nomem(err);
    for (int i = 0; i < r.n_threads; i++) {
        if (r.scratch)
            free(r.scratch[i]);
        if (r.result)
            free(r.result[i]);
    }
    free(r.scratch);
    free(r.result);
    for (int i = 0; i < 2; i++) {
        free(r.src[i]);
        free(r.dst[i]);
    }
    free(r.outcomes);
    lm_pool_free(pool);
    lm_resume_close(r.resume, s == LM_OK);
    return s;
}
