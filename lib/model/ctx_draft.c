/* SPDX-License-Identifier: MIT */
/*
 * Guessing ahead with a draft head (arch/draft_head.h).
 *
 * Row r of the head's cache belongs to the token at position r + 1 and what was kept of the one
 * at r.  Rows are made when a guess needs them, so that evaluating tokens costs nothing but
 * keeping.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

struct lm_draft {
    struct lm_memory       *memory;
    struct lm_memory_place *places;     /* [n_layer + 1], of which the last remembers     */
    struct lm_memory_token *tokens;     /* [n_ubatch]                                     */
    int32_t                *ids;        /* [n_ubatch]                                     */
    float                  *rows;       /* [LM_KV_PAGE][n_embd + 1] as they were kept     */
    float                  *hidden;     /* [n_embd] of the last token                     */
    void                   *work;       /* for lm_logits_top                              */
};

bool lm_ctx_has_draft(const struct lm_ctx *c)
{
    return c->draft;
}

struct lm_memory_place **lm_draft_places(struct lm_ctx *c)
{
    return &c->draft->places;
}

int lm_draft_new(struct lm_ctx *c, struct lm_err *err)
{
    const size_t n = c->m->h.n_embd;
    struct lm_draft *d = c->draft = calloc(1, sizeof *d);
    if (!d)
        return lm_fail_nomem(err);
    d->tokens = lm_malloc_array(c->n_ubatch, sizeof *d->tokens);
    d->ids = lm_malloc_array(c->n_ubatch, sizeof *d->ids);
    d->rows = lm_malloc_array(LM_KV_PAGE * (n + 1), sizeof *d->rows);
    d->hidden = lm_malloc_array(n, sizeof *d->hidden);
    d->work = malloc(lm_logits_top_work(1, c->m->h.n_vocab));
    return d->tokens && d->ids && d->rows && d->hidden && d->work ? LM_OK : lm_fail_nomem(err);
}

int lm_draft_remember(struct lm_ctx *c, const struct lm_memory_shape *s, struct lm_err *err)
{
    c->draft->memory = lm_memory_new(s, err);
    return c->draft->memory ? LM_OK : LM_ENOMEM;
}

void lm_draft_free(struct lm_ctx *c)
{
    struct lm_draft *d = c->draft;
    if (!d)
        return;
    lm_memory_free(d->memory);
    free(d->places);
    free(d->tokens);
    free(d->ids);
    free(d->rows);
    free(d->hidden);
    free(d->work);
    free(d);
}

float *lm_draft_hidden(const struct lm_ctx *c)
{
    return c->draft->hidden;
}

/* --- what becomes of sequences ----------------------------------------------------------- */

void lm_draft_forget(struct lm_ctx *c, uint32_t seq, uint32_t pos)
{
    const uint32_t rows = pos ? pos - 1 : 0;
    if (c->draft && lm_memory_length(c->draft->memory, seq) > rows)
        (void)lm_memory_remove(c->draft->memory, seq, rows, NULL);
}

void lm_draft_copied(struct lm_ctx *c, uint32_t dst, uint32_t src)
{
    if (c->draft && lm_memory_copy(c->draft->memory, dst, src, NULL))
        lm_draft_forget(c, dst, 0);
}

void lm_draft_kept(struct lm_ctx *c, uint32_t seq)
{
    if (c->draft)
        lm_memory_keep(c->draft->memory, seq);
}

/* Rows of positions pos .. pos + n - 1, at most LM_KV_PAGE, into d->rows. */
static int kept(const struct lm_ctx *c, uint32_t seq, uint32_t pos, uint32_t n,
                struct lm_err *err)
{
    return lm_memory_read(c->memory, c->m->h.n_layer, seq, 0, false, pos, n, c->draft->rows, err);
}

int lm_draft_mark(struct lm_ctx *c, uint32_t seq, struct lm_err *err)
{
    const uint32_t n = c->m->h.n_embd, length = lm_memory_length(c->memory, seq);
    float *row = c->draft->rows;
    int r = LM_OK;
    memset(row, 0, n * sizeof *row);
    row[n] = -1;
    for (uint32_t pos = 0; pos < length && !r; pos++)
        r = lm_memory_write(c->memory, c->m->h.n_layer, seq, 0, false, pos, 1, row, err);
    return r;
}

bool lm_draft_known(const struct lm_ctx *c, uint32_t seq)
{
    return c->draft && kept(c, seq, 0, 1, NULL) == LM_OK &&
           c->draft->rows[c->m->h.n_embd] >= 0;
}

/* --- guessing ---------------------------------------------------------------------------- */

/* Ids that can be looked up by the model and by the head. */
static uint32_t n_ids(const struct lm_ctx *c)
{
    return c->m->n_embd_rows < c->m->h.n_vocab ? c->m->n_embd_rows : c->m->h.n_vocab;
}

static int check_id(const struct lm_ctx *c, int64_t id, struct lm_err *err)
{
    return id >= 0 && id < n_ids(c)
               ? LM_OK : lm_fail(err, LM_EDATA, "token %lld is not in the vocabulary of %u",
                                 (long long)id, n_ids(c));
}

/*
 * Inputs for rows first .. first + n - 1: what was kept of their positions, into before
 * [n][n_embd], and the ids behind these into d->ids; `id` comes at pos.
 */
static int gather(struct lm_ctx *c, uint32_t seq, uint32_t first, uint32_t n, uint32_t pos,
                  int32_t id, float *before, struct lm_err *err)
{
    struct lm_draft *d = c->draft;
    const size_t len = c->m->h.n_embd;
    const uint32_t end = first + n < pos ? first + n + 1 : pos;
    int r = LM_OK;
    for (uint32_t at = first, k; at < end && !r; at += k) {
        k = end - at < LM_KV_PAGE ? end - at : LM_KV_PAGE;
        r = kept(c, seq, at, k, err);
        for (uint32_t i = 0; i < k && !r; i++) {
            const float *row = d->rows + i * (len + 1);
            if (at + i < first + n)
                memcpy(before + (at + i - first) * len, row, len * sizeof *row);
            if (at + i > first && !(r = check_id(c, (int64_t)row[len], err)))
                d->ids[at + i - first - 1] = (int32_t)row[len];
        }
    }
    if (end == pos && first + n == pos)
        d->ids[n - 1] = id;
    return r;
}

/* What one evaluation of the head is of: rows first .. first + n - 1 of a sequence, the last of
 * them of `id` at pos.  A guess at what follows an earlier one has one row, and no position of the
 * model's before it. */
struct ahead {
    uint32_t seq, first, n, pos;
    int32_t  id;
    bool     guessed;
};

/* What adapters are multiplied by: from a->pos on as if the sequence went on there now.  A waiting
 * one goes on where it has begun. */
static void fill_weights(const struct lm_ctx *c, const struct lm_ready *r, const struct ahead *a)
{
    const uint32_t length = lm_memory_length(c->memory, a->seq);
    const struct lm_scales *s = lm_scales_of(c, a->seq);
    struct lm_known known;
    lm_history_known(c, a->seq, length, &known);
    for (size_t k = 0; k < c->n_adapted; k++) {
        float *out = lm_ctx_weights(r, k);
        for (uint32_t i = 0; out && i < a->n; i++) {
            const uint32_t pos = a->first + i + 1;
            out[i] = lm_scale_at(c, s, pos < a->pos ? pos : UINT32_MAX, k);
        }
    }
    for (size_t k = 0; k < c->n_waiting; k++) {
        float *out = lm_ctx_weights(r, c->waiting[k].at);
        const uint32_t from = known.from ? known.from[k] : length;
        for (uint32_t i = 0; out && i < a->n; i++)
            if (from >= length || a->first + i + 1 < from)
                out[i] = 0;
    }
}

static int fill(struct lm_ctx *c, struct lm_ready *r, const struct ahead *a, struct lm_err *err)
{
    struct lm_draft *d = c->draft;
    int code = LM_OK;
    if (a->guessed) {
        memcpy(r->b.before->data, d->hidden, c->m->h.n_embd * sizeof *d->hidden);
        d->ids[0] = a->id;
    } else {
        code = gather(c, a->seq, a->first, a->n, a->pos, a->id, r->b.before->data, err);
    }
    memcpy(r->b.ids->data, d->ids, a->n * sizeof *d->ids);
    for (uint32_t i = 0; i < a->n && r->b.pos->seen; i++)
        ((int32_t *)r->b.pos->data)[i] = (int32_t)(a->first + i);
    for (uint32_t i = 0; i < a->n && r->b.angle->seen; i++)
        ((int32_t *)r->b.angle->data)[i] = (int32_t)lm_memory_angle(c->memory, a->seq,
                                                                    a->first + i);
    if (r->b.wanted && r->b.wanted->seen)
        ((int32_t *)r->b.wanted->data)[0] = (int32_t)a->n - 1;
    fill_weights(c, r, a);
    for (uint32_t i = 0; i < 2 * c->m->n_devices; i++)
        if (r->b.pages[i]->seen)
            lm_memory_pages(d->memory, i, 0, a->n, r->b.pages[i]->data);
    return code;
}

/* Evaluate; with the last token, its logits are then in c->logits, and d->hidden is its. */
static int run(struct lm_ctx *c, const struct ahead *a, struct lm_err *err)
{
    const bool want = a->first + a->n >= a->pos;
    c->drafting = true;
    struct lm_ready *r = lm_ctx_graph_for(c, a->n, want, err);
    c->drafting = false;
    int code = r ? lm_sched_begin(c->sched, r->plan, err) : err->code ? (int)err->code : LM_ENOMEM;
    if (code || (code = fill(c, r, a, err)))
        return code;
    if (want) {
        lm_sched_output(r->plan, r->b.logits, c->logits);
        lm_sched_output(r->plan, r->b.hidden, c->draft->hidden);
    }
    if (c->watch)
        c->watch(c->watch_arg, NULL);
    code = lm_sched_run(c->sched, r->plan, c->observe || c->watch ? lm_ctx_seen : NULL, c, err);
    int late = lm_sched_wait(c->sched, code ? NULL : err);
    return code ? code : late;
}

static int evaluate(struct lm_ctx *c, const struct ahead *a, struct lm_err *err)
{
    struct lm_draft *d = c->draft;
    if (lm_stopped(&c->env))
        return lm_fail(err, LM_ESTOP, "stopped");
    for (uint32_t i = 0; i < a->n; i++)
        d->tokens[i] = (struct lm_memory_token){ a->seq, a->first + i };
    int r = lm_memory_begin(d->memory, d->tokens, a->n, err);
    if (r)
        return r;
    r = run(c, a, err);
    lm_memory_end(d->memory, r == LM_OK);
    return r;
}

/* Rows up to that of id at pos, then one for each further guess. */
static int guess(struct lm_ctx *c, uint32_t seq, uint32_t pos, int32_t id, size_t n,
                 struct lm_guessed *out, struct lm_err *err)
{
    const size_t n_vocab = c->m->h.n_vocab;
    struct ahead a = { .seq = seq, .pos = pos, .id = id };
    struct lm_top best;
    int r = LM_OK;
    for (a.first = lm_memory_length(c->draft->memory, seq); a.first < pos && !r; a.first += a.n) {
        a.n = pos - a.first < c->n_ubatch ? pos - a.first : c->n_ubatch;
        r = evaluate(c, &a, err);
    }
    for (size_t i = 0; i < n && !r; i++) {
        if (i > 0) {
            a = (struct ahead){ .seq = seq, .first = pos - 1 + (uint32_t)i, .n = 1,
                                .pos = pos + (uint32_t)i, .id = (int32_t)out[i - 1].id,
                                .guessed = true };
            if ((r = check_id(c, a.id, err)) || (r = evaluate(c, &a, err)))
                break;
        }
        lm_logits_top(c->logits, n_vocab, 1, &best, c->draft->work);
        out[i].id = best.id;
        out[i].logprob = (float)(best.logit - lm_logits_lse(c->logits, n_vocab));
    }
    return r;
}

int lm_ctx_draft(struct lm_ctx *c, uint32_t seq, uint32_t pos, int32_t id, size_t n,
                 struct lm_guessed *out, struct lm_err *err)
{
    const uint32_t length = lm_memory_length(c->memory, seq);
    struct lm_err mine = {0};
    err = err ? err : &mine;
    if (!c->draft)
        return lm_fail(err, LM_ENOSUP, "the draft head is not loaded");
    if (pos == 0 || pos > length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens: none in front of position %u", seq,
                       length, pos);
    if (n > c->n_ctx || pos + n > c->n_ctx)
        return lm_fail(err, LM_EUSE, "%zu tokens behind %u are longer than the context of %u", n,
                       pos, c->n_ctx);
    int r = check_id(c, id, err);
    if (r)
        return r;
    if (!lm_draft_known(c, seq))
        return lm_fail(err, LM_ENOSUP, "sequence %u was saved without the draft head", seq);
    c->n = 0;                                   /* the logits of the last batch are gone */
    lm_draft_forget(c, seq, pos);
    r = guess(c, seq, pos, id, n, out, err);
    lm_draft_forget(c, seq, pos);               /* what is only guessed is no part of it */
    return r;
}
