/* SPDX-License-Identifier: MIT */
#include "job/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/thread.h"

#define PIECES_PER_THREAD 4

struct slot {
    struct lm_piece piece;
    uint64_t        at;                 /* of its data in the file */
    uint8_t        *buf;
    void           *result;
    struct lm_err   err;
    int             status;
};

struct pass {
    struct lm_in                 *in;
    const struct lm_gguf         *g;
    const struct lm_sweep        *s;
    const struct lm_env          *env;
    struct lm_pool               *pool;
    const struct lm_gguf_tensor **order;
    size_t                        n;
    struct slot                  *slots;
    size_t                        n_slots, used;
    uint8_t                      *memory, *results;
    uint64_t                      done, total;      /* bytes */
};

static int by_place(const void *x, const void *y)
{
    const struct lm_gguf_tensor *a, *b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return a->offset != b->offset ? (a->offset > b->offset) - (a->offset < b->offset)
                                  : (a > b) - (a < b);
}

bool lm_sweep_readable(const struct lm_gguf *g, const struct lm_gguf_tensor *t)
{
    uint64_t end;
    return t->type && t->bytes && lm_add_u64(g->data_offset, t->offset, &end) &&
           lm_add_u64(end, t->bytes, &end) && end <= INT64_MAX &&
           (g->file_size == LM_SIZE_UNKNOWN || end <= g->file_size);
}

/* The tensors to go over, by place. */
static int plan(struct pass *p, struct lm_err *err)
{
    p->order = lm_malloc_array(p->g->n_tensors + 1, sizeof *p->order);
    if (!p->order)
        return lm_fail_nomem(err);
    for (uint64_t i = 0; i < p->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &p->g->tensors[i];
        if (lm_sweep_readable(p->g, t) && (!p->s->wanted || p->s->wanted(p->s->arg, t)))
            p->order[p->n++] = t;
    }
    qsort(p->order, p->n, sizeof *p->order, by_place);
    uint64_t end = 0;
    size_t kept = 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct lm_gguf_tensor *t = p->order[i];
        if (!lm_in_seekable(p->in) && t->offset < end)
            continue;
        end = t->offset + t->bytes;
        p->total += t->bytes;
        p->order[kept++] = t;
    }
    p->n = kept;
    return LM_OK;
}

static int make_slots(struct pass *p, struct lm_err *err)
{
    size_t size = (p->s->result_size + 15) & ~(size_t)15;
    p->n_slots = (size_t)lm_pool_threads(p->pool) * PIECES_PER_THREAD;
    p->slots = calloc(p->n_slots, sizeof *p->slots);
    p->memory = lm_malloc_array(p->n_slots, LM_PIECE_BYTES);
    p->results = lm_malloc_array(p->n_slots, size + 16);
    if (!p->slots || !p->memory || !p->results)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < p->n_slots; i++) {
        p->slots[i].buf = p->memory + i * LM_PIECE_BYTES;
        p->slots[i].result = p->results + i * size;
    }
    return LM_OK;
}

static void work_on(void *arg, size_t i, int thread)
{
    struct pass *p = arg;
    struct slot *x = &p->slots[i];
    (void)thread;
    if (lm_in_seekable(p->in))
        x->status = lm_in_pread(p->in, x->at, x->buf, x->piece.bytes, &x->err);
    if (x->status != LM_OK || !p->s->work)
        return;
    memset(x->result, 0, p->s->result_size);
    p->s->work(p->s->arg, &x->piece, x->result);
}

/* Work on the slots filled so far, then take them. */
static int flush(struct pass *p, struct lm_err *err)
{
    int r = LM_OK;
    lm_pool_run(p->pool, work_on, p, p->used);
    for (size_t i = 0; i < p->used && r == LM_OK; i++) {
        const struct slot *x = &p->slots[i];
        if (x->status != LM_OK)
            return lm_fail(err, x->err.code, "tensor %.120s: %s", x->piece.t->name.p, x->err.text);
        r = p->s->take(p->s->arg, &x->piece, x->result, err);
        p->done += x->piece.bytes;
    }
    p->used = 0;
    lm_progress(p->env, "reading", p->done, p->total);
    if (r == LM_OK && lm_stopped(p->env))
        r = lm_fail(err, LM_ESTOP, "stopped");
    return r;
}

/* One more piece; what cannot be read by ranges is read now. */
static int add(struct pass *p, const struct lm_gguf_tensor *t, uint64_t first_block,
               uint64_t n_blocks, struct lm_err *err)
{
    struct slot *x = &p->slots[p->used++];
    int r;
    x->at = p->g->data_offset + t->offset + first_block * t->type->bytes;
    x->piece = (struct lm_piece){ t, first_block * t->type->block,
                                  (size_t)n_blocks * t->type->block, x->buf,
                                  (size_t)n_blocks * t->type->bytes };
    x->status = LM_OK;
    if (!lm_in_seekable(p->in) &&
        ((r = lm_in_skip(p->in, x->at - lm_in_pos(p->in), err)) ||
         (r = lm_in_read_all(p->in, x->buf, x->piece.bytes, err)))) {
        struct lm_err why = *err;
        p->used--;
        if (flush(p, err) == LM_OK)
            lm_fail(err, why.code, "tensor %.120s: %s", t->name.p, why.text);
        return err->code;
    }
    return p->used == p->n_slots ? flush(p, err) : LM_OK;
}

static int go_over(struct pass *p, struct lm_err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct lm_gguf_tensor *t = p->order[i];
        uint64_t blocks = t->bytes / t->type->bytes, most = LM_PIECE_BYTES / t->type->bytes;
        most -= most % (LM_PIECE_ALIGN / t->type->block);
        for (uint64_t b = 0; b < blocks; b += most) {
            int r = add(p, t, b, blocks - b < most ? blocks - b : most, err);
            if (r)
                return r;
        }
    }
    return flush(p, err);
}

int lm_sweep(struct lm_in *in, const struct lm_gguf *g, const struct lm_sweep *s,
             const struct lm_env *env, struct lm_err *err)
{
    struct lm_err own;
    struct pass p = { .in = in, .g = g, .s = s, .env = env };
    err = err ? err : &own;
    p.pool = lm_pool_new(lm_env_threads(env), err);
    if (!p.pool)
        return err->code;
    int r;
    if ((r = plan(&p, err)) == LM_OK && (r = make_slots(&p, err)) == LM_OK)
        r = go_over(&p, err);
    lm_pool_free(p.pool);
    free(p.slots);
    free(p.memory);
    free(p.results);
    free(p.order);
    return r;
}
