/* SPDX-License-Identifier: MIT */
/* A row an operation: what it is called, what it takes, what comes out, what it costs. */
#include "tensor/ops.h"

#include <string.h>

static bool is(const struct lm_tensor *t, uint32_t type_id)
{
    return t->type->id == type_id;
}

static bool same_shape(const struct lm_tensor *a, const struct lm_tensor *b)
{
    return memcmp(a->ne, b->ne, sizeof a->ne) == 0;
}

/* A plain vector of n elements. */
static bool vector(const struct lm_tensor *t, uint32_t type_id, size_t n)
{
    return is(t, type_id) && t->ne[0] == n && lm_tensor_rows(t) == 1 && lm_tensor_contiguous(t);
}

/* Rows of F32 without gaps inside a row. */
static int want_f32(const struct lm_tensor *t, struct lm_err *err)
{
    return is(t, LM_F32) ? LM_OK : lm_fail(err, LM_EUSE, "source is %s, not f32", t->type->name);
}

static void like(struct lm_tensor *t, const struct lm_tensor *a)
{
    t->type = a->type;
    memcpy(t->ne, a->ne, sizeof t->ne);
}

static void shape2(struct lm_tensor *t, size_t ne0, size_t ne1)
{
    t->type = lm_type_by_id(LM_F32);
    t->ne[0] = ne0;
    t->ne[1] = ne1;
    t->ne[2] = t->ne[3] = 1;
}

static int shape_get_rows(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *a = t->src[0], *rows = t->src[1];
    if (!a->type->decode)
        return lm_fail(err, LM_EUSE, "rows of %s cannot be read", a->type->name);
    if (!vector(rows, LM_I32, rows->ne[0]))
        return lm_fail(err, LM_EUSE, "row numbers must be a vector of i32");
    shape2(t, a->ne[0], rows->ne[0]);
    return LM_OK;
}

static int shape_binary(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *a = t->src[0], *b = t->src[1];
    int r = want_f32(a, err);
    if (r || (r = want_f32(b, err)))
        return r;
    if (!same_shape(a, b) && !vector(b, LM_F32, a->ne[0]) && !vector(b, LM_F32, 1))
        return lm_fail(err, LM_EUSE, "second source has neither the first's shape nor "
                       "its row length");
    like(t, a);
    return LM_OK;
}

static int shape_same(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_f32(t->src[0], err);
    if (t->src[1] && (r = want_f32(t->src[1], err)))
        return r;
    if (t->src[1] && !same_shape(t->src[0], t->src[1]))
        return lm_fail(err, LM_EUSE, "sources differ in shape");
    like(t, t->src[0]);
    return r;
}

static int shape_clamp(struct lm_tensor *t, struct lm_err *err)
{
    const float lo = t->arg.range.lo, hi = t->arg.range.hi;
    return lo <= hi ? shape_same(t, err)
                    : lm_fail(err, LM_EUSE, "nothing is in %g .. %g", (double)lo, (double)hi);
}

static int shape_soft_max(struct lm_tensor *t, struct lm_err *err)
{
    return t->src[0]->ne[0] ? shape_same(t, err) : lm_fail(err, LM_EUSE, "rows are empty");
}

static int shape_copy(struct lm_tensor *t, struct lm_err *err)
{
    if (t->src[0]->root)
        return lm_fail(err, LM_EUSE, "a view is not copied");
    like(t, t->src[0]);
    return LM_OK;
}

static int shape_cont(struct lm_tensor *t, struct lm_err *err)
{
    (void)err;
    like(t, t->src[0]);
    return LM_OK;
}

static int shape_rms_norm(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_f32(t->src[0], err);
    if (r)
        return r;
    const struct lm_tensor *x = t->src[0], *w = t->src[1];
    bool each = is(w, LM_F32) && w->ne[0] == x->ne[0] && w->ne[1] == x->ne[1] &&
                w->ne[2] == 1 && w->ne[3] == 1 && lm_tensor_contiguous(w);
    if (!each && !vector(w, LM_F32, x->ne[0]))
        return lm_fail(err, LM_EUSE, "weight is no vector of the row's length");
    like(t, t->src[0]);
    return LM_OK;
}

static int shape_layer_norm(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_f32(t->src[0], err);
    if (r)
        return r;
    for (int i = 1; i <= 2; i++)
        if (t->src[i] && !vector(t->src[i], LM_F32, t->src[0]->ne[0]))
            return lm_fail(err, LM_EUSE, "weight or bias is no vector of the row's length");
    like(t, t->src[0]);
    return LM_OK;
}

static int shape_concat(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *a = t->src[0], *b = t->src[1];
    int r = want_f32(a, err);
    if (r || (r = want_f32(b, err)))
        return r;
    if ((b->ne[1] != a->ne[1] && b->ne[1] != 1) || b->ne[2] != a->ne[2] || b->ne[3] != a->ne[3] ||
        b->ne[0] > SIZE_MAX - a->ne[0])
        return lm_fail(err, LM_EUSE, "sources differ in heads or tokens");
    like(t, a);
    t->ne[0] += b->ne[0];
    return LM_OK;
}

static int shape_mul_mat(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *w = t->src[0], *x = t->src[1];
    int r = want_f32(x, err);
    if (r)
        return r;
    if (!w->type->decode)
        return lm_fail(err, LM_EUSE, "%s cannot be multiplied", w->type->name);
    if (w->ne[0] != x->ne[0] || w->ne[2] != 1 || w->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "%zu columns times rows of %zu", w->ne[0], x->ne[0]);
    like(t, x);
    t->ne[0] = w->ne[1];
    return LM_OK;
}

static int check_routing(const struct lm_routing *r, size_t n, struct lm_err *err)
{
    if (r->k == 0 || r->k > n)
        return lm_fail(err, LM_EUSE, "%u of %zu experts", r->k, n);
    if (r->n_group && (n % r->n_group || r->n_group_used == 0 || r->n_group_used > r->n_group ||
                       r->group_best == 0 || r->group_best > 2 || r->group_best > n / r->n_group ||
                       r->n_group_used * (n / r->n_group) < r->k))
        return lm_fail(err, LM_EUSE, "%u of %zu experts in %u of %u groups", r->k, n,
                       r->n_group_used, r->n_group);
    return LM_OK;
}

static int shape_select(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *a = t->src[0], *bias = t->src[1];
    int r = want_f32(a, err);
    if (r || (r = check_routing(&t->arg.route, a->ne[0], err)))
        return r;
    if (a->ne[2] != 1 || a->ne[3] != 1 || (bias && !vector(bias, LM_F32, a->ne[0])))
        return lm_fail(err, LM_EUSE, "logits or their bias do not have the experts' shape");
    shape2(t, t->arg.route.k, a->ne[1]);
    t->type = lm_type_by_id(LM_I32);
    return LM_OK;
}

static int check_ids(const struct lm_tensor *ids, size_t n, struct lm_err *err)
{
    if (is(ids, LM_I32) && ids->ne[1] == n && ids->ne[2] == 1 && ids->ne[3] == 1 &&
        lm_tensor_contiguous(ids))
        return LM_OK;
    return lm_fail(err, LM_EUSE, "experts must be named for %zu tokens", n);
}

static int shape_gate(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_f32(t->src[0], err);
    if (r || (r = check_ids(t->src[1], t->src[0]->ne[1], err)))
        return r;
    shape2(t, t->src[1]->ne[0], t->src[1]->ne[1]);
    return LM_OK;
}

static int shape_mul_mat_id(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *w = t->src[0], *x = t->src[1], *ids = t->src[2];
    int r = want_f32(x, err);
    if (r || (r = check_ids(ids, x->ne[2], err)))
        return r;
    if (!w->type->decode)
        return lm_fail(err, LM_EUSE, "%s cannot be multiplied", w->type->name);
    if (w->ne[0] != x->ne[0] || w->ne[3] != 1 || (x->ne[1] != 1 && x->ne[1] != ids->ne[0]))
        return lm_fail(err, LM_EUSE, "%zu columns times rows of %zu", w->ne[0], x->ne[0]);
    like(t, x);
    t->ne[0] = w->ne[1];
    t->ne[1] = ids->ne[0];
    return LM_OK;
}

static int shape_add_id(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *b = t->src[1], *ids = t->src[2];
    int r = want_f32(x, err);
    if (r || (r = want_f32(b, err)) || (r = check_ids(ids, x->ne[2], err)))
        return r;
    if (b->ne[0] != x->ne[0] || b->ne[2] != 1 || b->ne[3] != 1 || ids->ne[0] != x->ne[1])
        return lm_fail(err, LM_EUSE, "rows of %zu for rows of %zu", b->ne[0], x->ne[0]);
    like(t, x);
    return LM_OK;
}

static int shape_mul_mat_heads(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *w = t->src[0], *x = t->src[1];
    int r = want_f32(x, err);
    if (r)
        return r;
    if (!w->type->decode)
        return lm_fail(err, LM_EUSE, "%s cannot be multiplied", w->type->name);
    if (w->ne[0] != x->ne[0] || w->ne[2] != x->ne[1] || w->ne[3] != 1 || x->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "%zu matrices of %zu columns times %zu rows of %zu", w->ne[2],
                       w->ne[0], x->ne[1], x->ne[0]);
    like(t, x);
    t->ne[0] = w->ne[1];
    return LM_OK;
}

static int shape_distance_bias(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *w = t->src[0];
    const size_t sides = t->arg.distance.both ? 2 : 1;
    if (!w->type->decode || w->ne[1] < 4 || w->ne[1] % (2 * sides) || w->ne[2] != 1 ||
        t->arg.distance.reach <= w->ne[1] / sides / 2 || t->arg.distance.reach > 1 << 20)
        return lm_fail(err, LM_EUSE, "%zu buckets for distances up to %u", w->ne[1],
                       t->arg.distance.reach);
    shape2(t, 2 * (size_t)t->arg.distance.reach + 1, w->ne[0]);
    return LM_OK;
}

static int shape_weighted_sum(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *w = t->src[1];
    int r = want_f32(x, err);
    if (r || (r = want_f32(w, err)))
        return r;
    if (w->ne[0] != x->ne[1] || w->ne[1] != x->ne[2] || x->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "%zu weights for %zu rows", w->ne[0], x->ne[1]);
    shape2(t, x->ne[0], x->ne[2]);
    return LM_OK;
}

static int shape_rope_table(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *pos = t->src[0], *factors = t->src[1];
    const struct lm_tensor *far = t->src[2], *lengths = t->src[3];
    uint32_t n_rot = t->arg.rope.n_rot;
    if (n_rot == 0 || n_rot % 2)
        return lm_fail(err, LM_EUSE, "%u values cannot turn in pairs", n_rot);
    if (!vector(pos, LM_I32, pos->ne[0]))
        return lm_fail(err, LM_EUSE, "positions must be a vector of i32");
    if (factors && !vector(factors, LM_F32, n_rot / 2))
        return lm_fail(err, LM_EUSE, "frequency factors must be %u f32", n_rot / 2);
    if (far && (!factors || !lengths || !vector(far, LM_F32, n_rot / 2) ||
                !vector(lengths, LM_I32, pos->ne[0])))
        return lm_fail(err, LM_EUSE, "far factors need near ones, and the tokens' lengths");
    shape2(t, n_rot, 2);
    t->ne[2] = pos->ne[0];
    return LM_OK;
}

static int shape_rope(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *table = t->src[1];
    int r = want_f32(x, err);
    if (r || (r = want_f32(table, err)))
        return r;
    if (table->ne[0] > x->ne[0] || table->ne[1] != 2 || table->ne[2] != x->ne[2])
        return lm_fail(err, LM_EUSE, "table of %zu values and %zu positions for heads of "
                       "%zu and %zu tokens", table->ne[0], table->ne[2], x->ne[0], x->ne[2]);
    like(t, x);
    return LM_OK;
}

static int check_pages(const struct lm_tensor *pages, const struct lm_tensor *pos, size_t n,
                       struct lm_err *err)
{
    if (vector(pages, LM_I64, n) && vector(pos, LM_I32, n))
        return LM_OK;
    return lm_fail(err, LM_EUSE, "pages and positions must be vectors for %zu tokens", n);
}

static int shape_pos_scale(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *pos = t->src[1];
    int r = want_f32(x, err);
    if (r)
        return r;
    if (!vector(pos, LM_I32, x->ne[2]) || !(t->arg.grow.length >= 1))
        return lm_fail(err, LM_EUSE, "positions must be a vector for %zu tokens", x->ne[2]);
    like(t, x);
    return LM_OK;
}

static int shape_kv_store(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *k = t->src[0], *v = t->src[3];
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    int r = want_f32(k, err);
    if (r || (v && (r = want_f32(v, err))) ||
        (r = check_pages(t->src[1], t->src[2], k->ne[2], err)))
        return r;
    if (k->ne[0] != kv->head_k || k->ne[1] != kv->n_head_kv || kv->v_in_k != !v ||
        (v && (v->ne[0] != kv->head_v || v->ne[1] != kv->n_head_kv || v->ne[2] != k->ne[2])))
        return lm_fail(err, LM_EUSE, "keys or values do not have the cache's shape");
    shape2(t, 0, 1);
    return LM_OK;
}

static int shape_attn(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *q = t->src[0];
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    int r = want_f32(q, err);
    if (r || (r = check_pages(t->src[1], t->src[2], q->ne[2], err)))
        return r;
    if (q->ne[0] != kv->head_k || kv->n_head_kv == 0 || q->ne[1] % kv->n_head_kv)
        return lm_fail(err, LM_EUSE, "queries do not have the cache's shape");
    shape2(t, kv->head_v * q->ne[1], q->ne[2]);
    return LM_OK;
}

static int shape_choose(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *q = t->src[0], *shares = t->src[4];
    const struct lm_kv_layout *kv = &t->arg.attn.kv;
    int r = want_f32(q, err);
    if (r || (r = want_f32(shares, err)) ||
        (r = check_pages(t->src[1], t->src[2], q->ne[2], err)))
        return r;
    if (q->ne[0] != kv->head_k || kv->n_head_kv != 1 || shares->ne[0] != q->ne[1] ||
        shares->ne[1] != q->ne[2] || lm_tensor_rows(shares) != q->ne[2] || q->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "queries and shares do not go with the cache");
    if (!t->arg.attn.best || !t->arg.attn.n_ctx)
        return lm_fail(err, LM_EUSE, "%u of %u positions", t->arg.attn.best, t->arg.attn.n_ctx);
    shape2(t, t->arg.attn.best, q->ne[2]);
    t->type = lm_type_by_id(LM_I32);
    return LM_OK;
}

/* Where the sequences of n tokens begin and end. */
static int check_runs(const struct lm_tensor *runs, size_t n, struct lm_err *err)
{
    if (is(runs, LM_I32) && runs->ne[0] == 2 && runs->ne[1] == n && lm_tensor_rows(runs) == n &&
        lm_tensor_contiguous(runs))
        return LM_OK;
    return lm_fail(err, LM_EUSE, "runs must be pairs for %zu tokens", n);
}

static int shape_attn_whole(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *q = t->src[0], *k = t->src[2], *v = t->src[3];
    int r = want_f32(q, err);
    if (r || (r = want_f32(k, err)) || (r = want_f32(v, err)) ||
        (r = check_runs(t->src[1], q->ne[2], err)))
        return r;
    if (k->ne[0] != q->ne[0] || k->ne[1] == 0 || q->ne[1] % k->ne[1] || v->ne[1] != k->ne[1] ||
        k->ne[2] != q->ne[2] || v->ne[2] != q->ne[2] || q->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "queries, keys and values do not go together");
    shape2(t, v->ne[0] * q->ne[1], q->ne[2]);
    return LM_OK;
}

/* States for n tokens. */
static int check_states(const struct lm_tensor *states, size_t n, struct lm_err *err)
{
    if (is(states, LM_I64) && states->ne[0] == 2 && states->ne[1] == n &&
        lm_tensor_rows(states) == n && lm_tensor_contiguous(states))
        return LM_OK;
    return lm_fail(err, LM_EUSE, "states must be pairs for %zu tokens", n);
}

/* Sources of a recurrent operation: F32, all but the states. */
static int want_all_f32(const struct lm_tensor *t, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < LM_MAX_SRC && !r; i++)
        if (t->src[i] && i != 1)
            r = want_f32(t->src[i], err);
    return r;
}

static int shape_conv(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *w = t->src[2], *bias = t->src[3];
    if (x->ne[2] != 1 || x->ne[3] != 1 || w->ne[0] == 0 || w->ne[0] > LM_MAX_CONV ||
        w->ne[1] != x->ne[0] || lm_tensor_rows(w) != x->ne[0] || !lm_tensor_contiguous(w) ||
        (bias && !vector(bias, LM_F32, x->ne[0])))
        return lm_fail(err, LM_EUSE, "a convolution of %zu by %zu for %zu channels", w->ne[0],
                       w->ne[1], x->ne[0]);
    shape2(t, x->ne[0], x->ne[1]);
    return LM_OK;
}

static int shape_state_conv(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_all_f32(t, err);
    r = r ? r : check_states(t->src[1], t->src[0]->ne[1], err);
    return r ? r : shape_conv(t, err);
}

static int shape_conv_whole(struct lm_tensor *t, struct lm_err *err)
{
    int r = want_all_f32(t, err);
    r = r ? r : check_runs(t->src[1], t->src[0]->ne[1], err);
    if (!r && t->src[2]->ne[0] % 2 == 0)
        return lm_fail(err, LM_EUSE, "a convolution of %zu has no middle", t->src[2]->ne[0]);
    return r ? r : shape_conv(t, err);
}

/* a: ne0 by ne1 for n tokens. */
static bool each_token(const struct lm_tensor *a, size_t ne0, size_t ne1, size_t n)
{
    return a->ne[0] == ne0 && a->ne[1] == ne1 && a->ne[2] == n && a->ne[3] == 1;
}

static int shape_state_scan(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0], *dt = t->src[2], *a = t->src[3], *b = t->src[4];
    const struct lm_tensor *c = t->src[5], *d = t->src[6];
    const size_t heads = x->ne[1], n = x->ne[2], size = b->ne[0];
    int r = want_all_f32(t, err);
    if (r || (r = check_states(t->src[1], n, err)))
        return r;
    if (x->ne[3] != 1 || !each_token(dt, heads, n, 1) || b->ne[1] == 0 || heads % b->ne[1] ||
        !each_token(b, size, b->ne[1], n) || !each_token(c, size, b->ne[1], n) ||
        (a->ne[0] != size && a->ne[0] != 1) || !each_token(a, a->ne[0], heads, 1) ||
        !lm_tensor_contiguous(a) || (d && !(lm_tensor_len(d) == heads && lm_tensor_contiguous(d))))
        return lm_fail(err, LM_EUSE, "inputs of a scan do not go together");
    like(t, x);
    return LM_OK;
}

static int shape_state_delta(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *v = t->src[0], *q = t->src[2], *k = t->src[3], *rate = t->src[6];
    const size_t heads = v->ne[1], n = v->ne[2];
    int r = want_all_f32(t, err);
    if (r || (r = check_states(t->src[1], n, err)))
        return r;
    if (v->ne[3] != 1 || k->ne[1] == 0 || heads % k->ne[1] ||
        !each_token(q, k->ne[0], k->ne[1], n) || !each_token(k, k->ne[0], k->ne[1], n) ||
        !(rate ? each_token(t->src[4], k->ne[0], heads, n) && k->ne[1] == heads &&
                     lm_tensor_len(rate) == heads && lm_tensor_contiguous(rate)
               : each_token(t->src[4], heads, n, 1)) || !each_token(t->src[5], heads, n, 1))
        return lm_fail(err, LM_EUSE, "inputs of a delta rule do not go together");
    like(t, v);
    return LM_OK;
}

static int shape_state_shift(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *x = t->src[0];
    int r = want_all_f32(t, err);
    if (r || (r = check_states(t->src[1], x->ne[1], err)))
        return r;
    if (x->ne[2] != 1 || x->ne[3] != 1)
        return lm_fail(err, LM_EUSE, "what is shifted is no column a token");
    like(t, x);
    return LM_OK;
}

static int shape_state_wkv(struct lm_tensor *t, struct lm_err *err)
{
    const struct lm_tensor *v = t->src[0], *k = t->src[3], *bonus = t->src[5];
    const size_t size = k->ne[0], heads = v->ne[1], n = v->ne[2];
    int r = want_all_f32(t, err);
    if (r || (r = check_states(t->src[1], n, err)))
        return r;
    bool fits = v->ne[3] == 1;
    for (size_t i = 2; i < (t->op == LM_OP_STATE_WKV7 ? 7 : 5); i++)
        fits = fits && each_token(t->src[i], size, heads, n);
    if (t->op == LM_OP_STATE_WKV6)
        fits = fits && lm_tensor_len(bonus) == size * heads && lm_tensor_contiguous(bonus);
    if (!fits)
        return lm_fail(err, LM_EUSE, "inputs of a wkv do not go together");
    like(t, v);
    return LM_OK;
}

static double flops_none(const struct lm_tensor *t)
{
    (void)t;
    return 0;
}

static double flops_one(const struct lm_tensor *t)
{
    return (double)lm_tensor_len(t);
}

/* An exponential counts as ten. */
static double flops_silu(const struct lm_tensor *t)
{
    return 13.0 * (double)lm_tensor_len(t);
}

static double flops_norm(const struct lm_tensor *t)
{
    return 4.0 * (double)lm_tensor_len(t);
}

static double flops_mul_mat(const struct lm_tensor *t)
{
    return 2.0 * (double)lm_tensor_len(t) * (double)t->src[0]->ne[0];
}

static double flops_rope(const struct lm_tensor *t)
{
    return 3.0 * (double)lm_tensor_len(t);
}

/* By the shape alone, which does not say how far each token looks: one page. */
static double flops_attn(const struct lm_tensor *t)
{
    const struct lm_tensor *q = t->src[0];
    return 2.0 * LM_KV_PAGE * ((double)lm_tensor_len(q) + (double)lm_tensor_len(t));
}

static double flops_choose(const struct lm_tensor *t)
{
    return 2.0 * LM_KV_PAGE * (double)lm_tensor_len(t->src[0]);
}

/* As if every token saw every other. */
static double flops_attn_whole(const struct lm_tensor *t)
{
    const struct lm_tensor *q = t->src[0];
    return 2.0 * (double)q->ne[2] * ((double)lm_tensor_len(q) + (double)lm_tensor_len(t));
}

static double flops_state_conv(const struct lm_tensor *t)
{
    return 2.0 * (double)lm_tensor_len(t) * (double)t->src[2]->ne[0];
}

static double flops_state_scan(const struct lm_tensor *t)
{
    return 5.0 * (double)lm_tensor_len(t) * (double)t->src[4]->ne[0];
}

static double flops_state_delta(const struct lm_tensor *t)
{
    return 7.0 * (double)lm_tensor_len(t) * (double)t->src[3]->ne[0];
}

static double flops_state_wkv(const struct lm_tensor *t)
{
    const double each = t->op == LM_OP_STATE_WKV7 ? 9 : 5;
    return each * (double)lm_tensor_len(t) * (double)t->src[3]->ne[0];
}

static double flops_weighted_sum(const struct lm_tensor *t)
{
    return 2.0 * (double)lm_tensor_len(t->src[0]);
}

/* Every expert that is used, once. */
static double bytes_mul_mat_id(const struct lm_tensor *t)
{
    const struct lm_tensor *w = t->src[0];
    double used = (double)lm_tensor_len(t->src[2]), all = (double)w->ne[2];
    return (used < all ? used : all) * (double)w->nb[2] + (double)lm_tensor_bytes(t->src[1]) +
           (double)lm_tensor_bytes(t);
}

static double bytes_get_rows(const struct lm_tensor *t)
{
    return (double)t->src[1]->ne[0] * (double)t->src[0]->nb[1] + (double)lm_tensor_bytes(t);
}

static const struct lm_op_row rows[LM_N_OPS] = {
    [LM_OP_NONE]       = { "none",       0, 0, false, NULL, flops_none, NULL },
    [LM_OP_VIEW]       = { "view",       1, 0, false, NULL, flops_none, flops_none },
    [LM_OP_COPY]       = { "copy",       1, 0, false, shape_copy, flops_none, NULL },
    [LM_OP_CONT]       = { "cont",       1, 0, false, shape_cont, flops_none, NULL },
    [LM_OP_GET_ROWS]   = { "get_rows",   2, 0, false, shape_get_rows, flops_one,
                           bytes_get_rows },
    [LM_OP_ADD]        = { "add",        2, 0, true,  shape_binary, flops_one, NULL },
    [LM_OP_SUB]        = { "sub",        2, 0, true,  shape_binary, flops_one, NULL },
    [LM_OP_MUL]        = { "mul",        2, 0, true,  shape_binary, flops_one, NULL },
    [LM_OP_DIV]        = { "div",        2, 0, true,  shape_binary, flops_one, NULL },
    [LM_OP_SCALE]      = { "scale",      1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_FILL]       = { "fill",       1, 0, true,  shape_same, flops_none, NULL },
    [LM_OP_CLAMP]      = { "clamp",      1, 0, true,  shape_clamp, flops_one, NULL },
    [LM_OP_NEG]        = { "neg",        1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_SQR]        = { "sqr",        1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_SQRT]       = { "sqrt",       1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_LOG]        = { "log",        1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SILU]       = { "silu",       1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SWIGLU]     = { "swiglu",     2, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_REGLU]      = { "reglu",      2, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_GEGLU]      = { "geglu",      2, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_GEGLU_ERF]  = { "geglu_erf",  2, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_GELU]       = { "gelu",       1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_GELU_ERF]   = { "gelu_erf",   1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_GELU_QUICK] = { "gelu_quick", 1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SWIGLU_CLAMP] = { "swiglu_clamp", 2, 0, true, shape_same, flops_silu, NULL },
    [LM_OP_RELU]       = { "relu",       1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_RELU2]      = { "relu2",      1, 0, true,  shape_same, flops_one, NULL },
    [LM_OP_XIELU]      = { "xielu",      1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SOFTCAP]    = { "softcap",    1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_CONCAT]     = { "concat",     2, 0, false, shape_concat, flops_none, NULL },
    [LM_OP_SIGMOID]    = { "sigmoid",    1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_EXP]        = { "exp",        1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SOFTPLUS]   = { "softplus",   1, 0, true,  shape_same, flops_silu, NULL },
    [LM_OP_SOFT_MAX]   = { "soft_max",   1, 0, true,  shape_soft_max, flops_silu, NULL },
    [LM_OP_L2_NORM]    = { "l2_norm",    1, 0, true,  shape_same, flops_norm, NULL },
    [LM_OP_ABOVE]      = { "above",      1, 0, true,  shape_same, flops_norm, NULL },
    [LM_OP_AS_LONG]    = { "as_long",    2, 0, true,  shape_same, flops_norm, NULL },
    [LM_OP_STATE_CONV] = { "state_conv", 4, 1, false, shape_state_conv, flops_state_conv, NULL },
    [LM_OP_CONV_WHOLE] = { "conv_whole", 4, 1, false, shape_conv_whole, flops_state_conv, NULL },
    [LM_OP_STATE_SCAN] = { "state_scan", 7, 1, false, shape_state_scan, flops_state_scan, NULL },
    [LM_OP_STATE_DELTA] = { "state_delta", 7, 1, false, shape_state_delta, flops_state_delta,
                            NULL },
    [LM_OP_STATE_SHIFT] = { "state_shift", 2, 0, false, shape_state_shift, flops_one, NULL },
    [LM_OP_STATE_WKV6] = { "state_wkv6", 6, 0, false, shape_state_wkv, flops_state_wkv, NULL },
    [LM_OP_STATE_WKV7] = { "state_wkv7", 7, 0, false, shape_state_wkv, flops_state_wkv, NULL },
    [LM_OP_STATE_GLA]  = { "state_gla",  5, 0, false, shape_state_wkv, flops_state_wkv, NULL },
    [LM_OP_SELECT]      = { "select",     2, 1, false, shape_select, flops_none, NULL },
    [LM_OP_GATE]       = { "gate",       2, 0, false, shape_gate, flops_silu, NULL },
    [LM_OP_WEIGHTED_SUM] = { "weighted_sum", 2, 0, false, shape_weighted_sum,
                             flops_weighted_sum, NULL },
    [LM_OP_ADD_ID]     = { "add_id",     3, 0, true,  shape_add_id, flops_one, NULL },
    [LM_OP_MUL_MAT_ID] = { "mul_mat_id", 3, 0, false, shape_mul_mat_id, flops_mul_mat,
                           bytes_mul_mat_id },
    [LM_OP_RMS_NORM]   = { "rms_norm",   2, 0, true,  shape_rms_norm, flops_norm, NULL },
    [LM_OP_LAYER_NORM] = { "layer_norm", 3, 2, true,  shape_layer_norm, flops_norm, NULL },
    [LM_OP_MUL_MAT]    = { "mul_mat",    2, 0, false, shape_mul_mat, flops_mul_mat, NULL },
    [LM_OP_MUL_MAT_HEADS] = { "mul_mat_heads", 2, 0, false, shape_mul_mat_heads,
                              flops_mul_mat, NULL },
    [LM_OP_ROPE_TABLE] = { "rope_table", 4, 3, false, shape_rope_table, flops_silu, NULL },
    [LM_OP_ROPE]       = { "rope",       2, 0, true,  shape_rope, flops_rope, NULL },
    [LM_OP_POS_SCALE]  = { "pos_scale",  2, 0, true,  shape_pos_scale, flops_one, NULL },
    [LM_OP_KV_STORE]   = { "kv_store",   4, 1, false, shape_kv_store, flops_none, NULL },
    [LM_OP_ATTN]       = { "attn",       7, 4, false, shape_attn, flops_attn, NULL },
    [LM_OP_CHOOSE]     = { "choose",     5, 0, false, shape_choose, flops_choose, NULL },
    [LM_OP_ATTN_WHOLE] = { "attn_whole", 6, 2, false, shape_attn_whole, flops_attn_whole,
                           NULL },
    [LM_OP_DISTANCE_BIAS] = { "distance_bias", 1, 0, false, shape_distance_bias, flops_one,
                              NULL },
};

const struct lm_op_row *lm_op_row(enum lm_op op)
{
    return &rows[op];
}

void lm_op_cost(const struct lm_tensor *t, double *flops, double *bytes)
{
    const struct lm_op_row *row = lm_op_row(t->op);
    *flops = row->flops(t);
    if (row->bytes) {
        *bytes = row->bytes(t);
        return;
    }
    *bytes = (double)lm_tensor_bytes(t);
    for (size_t i = 0; i < LM_MAX_SRC; i++)
        if (t->src[i])
            *bytes += (double)lm_tensor_bytes(t->src[i]);
}
