/* SPDX-License-Identifier: MIT */
/* What can be done with the sequences of a context beside evaluating their tokens. */
#include "model/ctx_impl.h"

#include <stdlib.h>

#include "base/size.h"
#include "tensor/hadamard.h"

uint32_t lm_ctx_seq_len(const struct lm_ctx *c, uint32_t seq)
{
    return lm_memory_length(c->memory, seq);
}

int lm_ctx_seq_remove(struct lm_ctx *c, uint32_t seq, uint32_t pos, struct lm_err *err)
{
    int r = lm_memory_remove(c->memory, seq, pos, err);
    if (!r) {
        lm_history_cut(c, seq, pos);
        lm_draft_forget(c, seq, pos);
        lm_scales_cut(c, seq, pos);
    }
    return r;
}

void lm_ctx_seq_hold(struct lm_ctx *c, uint32_t seq, bool hold)
{
    if (hold)
        lm_memory_hold(c->memory, seq);
    else
        lm_memory_release(c->memory, seq);
}

int lm_ctx_room(struct lm_ctx *c, uint32_t seq, uint32_t pos, const struct lm_batch_token *t,
                size_t n, struct lm_err *err)
{
    size_t n_out = 0;
    struct lm_memory_token *m = lm_malloc_array(n, sizeof *m);
    if (!m)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        m[i] = (struct lm_memory_token){ t[i].seq, t[i].pos };
        n_out += t[i].want;
    }
    int r = lm_memory_room(c->memory, seq, pos, m, n, err);
    free(m);
    if (r)
        return r;
    if (!lm_ctx_rows_for(c, n_out < c->n_batch ? n_out : c->n_batch))
        return lm_fail(err, LM_ENOMEM, "out of memory for the logits of %zu tokens", n_out);
    return LM_OK;
}

int lm_ctx_seq_copy(struct lm_ctx *c, uint32_t dst, uint32_t src, struct lm_err *err)
{
    struct lm_scales *scales;
    int r = lm_scales_copy(c, src, &scales, err);
    if (!r && c->cross)
        r = lm_memory_copy(c->cross, dst, src, err);
    if (!r && !(r = lm_memory_copy(c->memory, dst, src, err))) {
        lm_scales_put(c, dst, scales);
        lm_draft_copied(c, dst, src);
        return lm_history_copy(c, dst, src, err);
    }
    lm_scales_drop(scales);
    return r;
}

void lm_ctx_seq_keep(struct lm_ctx *c, uint32_t seq)
{
    lm_memory_keep(c->memory, seq);
    lm_history_keep(c, seq);
    lm_scales_keep(c, seq);
    if (c->cross)
        lm_memory_keep(c->cross, seq);
    lm_draft_kept(c, seq);
}

size_t lm_ctx_seqs(const struct lm_ctx *c, uint32_t *ids, size_t most)
{
    return lm_memory_seqs(c->memory, ids, most);
}

bool lm_ctx_by_length(const struct lm_ctx *c)
{
    return c->far_from != 0 || c->n_waiting;
}

/* Does every token follow its sequence, and one of them end beyond the context? */
static bool only_too_long(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n)
{
    bool beyond = false;
    if (n > c->n_batch || (c->cross && lm_ctx_check_cross(c, t, n, NULL)))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint32_t length = lm_memory_length(c->memory, t[i].seq);
        for (size_t k = 0; k < i; k++)
            length += t[k].seq == t[i].seq;
        if (t[i].pos != length)
            return false;
        beyond |= length >= c->n_ctx;
    }
    return beyond;
}

int lm_decode(struct lm_ctx *c, const struct lm_batch_token *t, size_t n, struct lm_err *err)
{
    int r = lm_ctx_decode(c, t, n, err);
    return r == LM_ENOMEM || (r == LM_EUSE && only_too_long(c, t, n)) ? 1 : r;
}

uint32_t lm_ctx_seq_angle(const struct lm_ctx *c, uint32_t seq, uint32_t pos)
{
    return lm_memory_angle(c->memory, seq, pos);
}

uint32_t lm_ctx_seq_divided(const struct lm_ctx *c, uint32_t seq)
{
    return lm_memory_n_angles(c->memory, seq);
}

/* --- turning keys ------------------------------------------------------------------------ */

/* How far keys turn: back by `least` positions, and by up to n - 1 more. */
struct range {
    uint32_t least, n;
};

/* Cosines and sines of these: [range.n][2][n_rot] as lm_rope_table makes them. */
static int make_table(struct lm_ctx *c, const struct lm_turn *t, struct range range, float *table,
                      struct lm_err *err)
{
    struct lm_graph g = {0};
    struct lm_backend *b = c->backend[lm_model_cpu_index(c->m)];
    struct lm_rope rope = t->rope;
    size_t pairs = rope.n_rot / 2, n = range.n;
    rope.attn = 0;                      /* the keys have been scaled when they were stored */
    struct lm_tensor *pos = lm_new_tensor(&g, lm_type_by_id(LM_I32), 1, &n), *factors = NULL;
    int32_t *by = lm_malloc_array(n, sizeof *by);
    float *by_pair = t->factors.data ? lm_malloc_array(pairs, sizeof *by_pair) : NULL;
    int r = !by || (t->factors.data && !by_pair) ? lm_fail_nomem(err) : LM_OK;
    for (size_t i = 0; i < n && !r; i++)
        by[i] = -(int32_t)(range.least + i);
    if (by_pair && !r)
        r = lm_tensor_read(&t->factors, 0, by_pair, pairs * sizeof *by_pair, err);
    if (by_pair && (factors = lm_new_tensor(&g, lm_type_by_id(LM_F32), 1, &pairs)))
        factors->data = by_pair;
    struct lm_tensor *out = lm_rope_table(&g, pos, factors, NULL, NULL, &rope);
    if (pos && out) {
        pos->data = by;
        out->data = table;
        lm_graph_expand(&g, out);
    }
    if (!r && g.err.code)
        r = lm_fail(err, g.err.code, "%s", g.err.text);
    struct lm_exec *e = r ? NULL : b->ops->compile(b, &g, err);
    if (!r)
        r = e ? b->ops->run(b, e, NULL, NULL, err) : LM_ENOMEM;
    if (e)
        b->ops->release(b, e);
    lm_graph_release(&g);
    free(by_pair);
    free(by);
    return r;
}

/* What turns keys. */
struct turner {
    struct lm_ctx  *c;
    struct range    range;
    struct lm_turn *turns;          /* [n_places + 1], of which the last stays       */
    float         **tables;         /* [n_places + 1] [range.n][2][n_rot], or NULL; places that
                                       turn alike have the same                      */
    float          *key;            /* [head_k] of the layer with the longest        */
};

static void turn_key(void *arg, uint32_t layer, void *key, int32_t by)
{
    const struct turner *s = arg;
    const struct lm_turn *t = &s->turns[layer];
    const struct lm_kv_layout *kv = &s->c->places[layer].kv;
    const uint32_t n = t->rope.n_rot, half = n / 2;
    if (!t->rotates)
        return;
    const float *cosine = s->tables[layer] + ((uint32_t)-by - s->range.least) * 2 * (size_t)n;
    const float *sine = cosine + n;
    float *x = s->key + t->off;
    kv->k_type->decode(key, s->key, kv->head_k);
    lm_hadamard(s->key, kv->head_k, kv->k_block);
    for (uint32_t i = 0; i < half; i++) {
        uint32_t a = t->rope.halves ? i : 2 * i, b = t->rope.halves ? i + half : 2 * i + 1;
        float p = x[a], q = x[b];
        x[a] = p * cosine[a] + q * sine[a];
        x[b] = q * cosine[b] + p * sine[b];
    }
    lm_hadamard(s->key, kv->head_k, kv->k_block);
    kv->k_type->encode(lm_isa(), s->key, key, kv->head_k, NULL);
}

static int table_for(struct turner *s, uint32_t place, struct lm_err *err)
{
    const struct lm_turn *t = &s->turns[place];
    const size_t row = 2 * (size_t)t->rope.n_rot;
    for (uint32_t i = 0; i < place; i++)
        if (s->turns[i].rotates && s->turns[i].table == t->table) {
            s->tables[place] = s->tables[i];
            return LM_OK;
        }
    if (s->range.n > SIZE_MAX / sizeof(float) / row ||
        !(s->tables[place] = lm_malloc_array(s->range.n, row * sizeof(float))))
        return lm_fail_nomem(err);
    return make_table(s->c, t, s->range, s->tables[place], err);
}

static int begin_turning(struct turner *s, struct lm_err *err)
{
    const uint32_t n = s->c->n_places;
    size_t longest = 0;
    s->turns = calloc((size_t)n + 1, sizeof *s->turns);
    s->tables = calloc((size_t)n + 1, sizeof *s->tables);
    if (!s->turns || !s->tables)
        return lm_fail_nomem(err);
    int r = lm_ctx_turns(s->c, s->turns, err);
    for (uint32_t i = 0; i < n && !r; i++) {
        const size_t head = s->c->places[i].kv.head_k;
        longest = head > longest ? head : longest;
        if (s->turns[i].rotates)
            r = table_for(s, i, err);
    }
    if (!r && !(s->key = lm_malloc_array(longest + 1, sizeof(float))))
        r = lm_fail_nomem(err);
    return r;
}

static void end_turning(struct turner *s)
{
    for (uint32_t i = 0, k; s->tables && i < s->c->n_places; i++) {
        for (k = 0; k < i && s->tables[k] != s->tables[i]; k++)
            ;
        if (k == i)
            free(s->tables[i]);
    }
    free(s->tables);
    free(s->turns);
    free(s->key);
}

int lm_ctx_seq_shift(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to,
                     struct lm_err *err)
{
    struct turner s = { .c = c, .range.n = 1 };
    s.range.least = lm_ctx_seq_angle(c, seq, to) - lm_ctx_seq_angle(c, seq, from);
    int r = begin_turning(&s, err);
    if (!r)
        r = lm_memory_shift(c->memory, seq, from, to, turn_key, &s, err);
    if (!r) {
        lm_draft_forget(c, seq, from);
        lm_scales_shift(c, seq, from, to);
    }
    end_turning(&s);
    return r;
}

/* What lm_ctx_turns() found, of a model in which nothing else depends on angles. */
static int check_rotates(const struct lm_ctx *c, const struct lm_turn *turns, struct lm_err *err)
{
    for (uint32_t i = 0; i < c->n_places; i++)
        if (turns[i].rotates)
            return LM_OK;
    return lm_fail(err, LM_ENOSUP, "a %s model does not rotate by positions: they cannot be "
                   "brought closer together", c->m->arch->name);
}

int lm_ctx_seq_divide(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to, uint32_t by,
                      struct lm_err *err)
{
    struct turner s = { .c = c, .range.least = 1 };
    int r = LM_OK;
    if (from < to && to <= lm_ctx_seq_len(c, seq) && by > 1) {
        const uint32_t most = lm_ctx_seq_angle(c, seq, to - 1) - lm_ctx_seq_angle(c, seq, from);
        s.range.n = most - most / by;
    }
    if (s.range.n && !(r = begin_turning(&s, err)))
        r = check_rotates(c, s.turns, err);
    if (!r)
        r = lm_memory_divide(c->memory, seq, from, to, by, turn_key, &s, err);
    if (!r)
        lm_draft_forget(c, seq, from);
    end_turning(&s);
    return r;
}

/* Can keys be turned, and are they, where that is asked? */
static int can_turn(struct lm_ctx *c, bool must, const char *what, struct lm_err *err)
{
    struct lm_turn *turns = calloc(c->n_places, sizeof *turns);
    int r = turns ? lm_ctx_turns(c, turns, err) : lm_fail_nomem(err);
    if (!r && lm_memory_state_bytes(c->memory))
        r = lm_fail(err, LM_ENOSUP, "a %s model has recurrent states, in which no position can be "
                    "%s", c->m->arch->name, what);
    if (!r && must)
        r = check_rotates(c, turns, err);
    free(turns);
    return r;
}

int lm_ctx_can_shift(struct lm_ctx *c, struct lm_err *err)
{
    return can_turn(c, false, "forgotten before others", err);
}

int lm_ctx_can_divide(struct lm_ctx *c, struct lm_err *err)
{
    return can_turn(c, true, "divided", err);
}
