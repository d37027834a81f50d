/* SPDX-License-Identifier: MIT */
/* Making tensors, and putting them in order. */
#include "tensor/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

void lm_graph_release(struct lm_graph *g)
{
    lm_arena_release(&g->arena);
    free(g->nodes);
    free(g->leaves);
    memset(g, 0, sizeof *g);
}

size_t lm_tensor_len(const struct lm_tensor *t)
{
    return t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
}

size_t lm_tensor_rows(const struct lm_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

size_t lm_tensor_bytes(const struct lm_tensor *t)
{
    if (lm_tensor_len(t) == 0)
        return 0;
    size_t n = (t->ne[0] / t->type->block - 1) * t->nb[0] + t->type->bytes;
    for (int i = 1; i < LM_MAX_DIMS; i++)
        n += (t->ne[i] - 1) * t->nb[i];
    return n;
}

bool lm_tensor_contiguous(const struct lm_tensor *t)
{
    size_t next = t->ne[0] / t->type->block * t->type->bytes;
    if (t->nb[0] != t->type->bytes && t->ne[0] != 1)
        return false;
    for (int i = 1; i < LM_MAX_DIMS; i++) {
        if (t->ne[i] != 1 && t->nb[i] != next)
            return false;
        next *= t->ne[i];
    }
    return true;
}

/* Strides of a tensor without gaps; every size and the total must fit. */
static int strides(struct lm_tensor *t, struct lm_err *err)
{
    uint64_t next;
    if (!lm_type_row_bytes(t->type, t->ne[0], &next))
        return lm_fail(err, LM_EUSE, "%zu columns: %s needs a multiple of %u", t->ne[0],
                       t->type->name, t->type->block);
    t->nb[0] = t->type->bytes;
    for (int i = 1; i < LM_MAX_DIMS; i++) {
        t->nb[i] = (size_t)next;
        if (!lm_mul_u64(next, t->ne[i], &next) || next > SIZE_MAX / 2)
            return lm_fail(err, LM_ENOMEM, "tensor is too large");
    }
    return LM_OK;
}

/* A failure the graph keeps; what had no failure yet gets this one. */
static struct lm_tensor *fail(struct lm_graph *g, const char *what)
{
    lm_err_at(&g->err, g->err.code, "%s", what);
    return NULL;
}

static struct lm_tensor *new_tensor(struct lm_graph *g)
{
    struct lm_tensor *t = lm_arena_alloc(&g->arena, sizeof *t);
    if (!t)
        lm_fail_nomem(&g->err);
    return t;
}

static void sizes(struct lm_tensor *t, uint32_t n_dims, const size_t *ne)
{
    for (uint32_t i = 0; i < LM_MAX_DIMS; i++)
        t->ne[i] = i < n_dims ? ne[i] : 1;
}

struct lm_tensor *lm_new_tensor(struct lm_graph *g, const struct lm_type *type,
                                uint32_t n_dims, const size_t *ne)
{
    struct lm_tensor *t = g->err.code ? NULL : new_tensor(g);
    if (!t)
        return NULL;
    t->type = type;
    sizes(t, n_dims, ne);
    return strides(t, &g->err) ? fail(g, "leaf") : t;
}

struct lm_tensor *lm_import(struct lm_graph *g, const struct lm_tensor *w)
{
    struct lm_tensor *t = g->err.code || !w ? NULL : new_tensor(g);
    if (!t)
        return NULL;
    *t = *w;
    t->n_uses = 0;
    t->seen = false;
    return t;
}

struct lm_tensor *lm_view(struct lm_graph *g, struct lm_tensor *a, uint32_t n_dims,
                          const size_t *ne, const size_t *nb, size_t offset)
{
    struct lm_tensor *t = g->err.code || !a ? NULL : new_tensor(g);
    if (!t)
        return NULL;
    t->type = a->type;
    t->op = LM_OP_VIEW;
    t->src[0] = a;
    t->root = a->root ? a->root : a;
    t->view_offset = a->view_offset + offset;
    sizes(t, n_dims, ne);
    if (strides(t, &g->err))
        return fail(g, "view");
    for (uint32_t i = 1; nb && i < n_dims; i++)
        t->nb[i] = nb[i];
    size_t bytes = lm_tensor_bytes(t), room = lm_tensor_bytes(a);
    if (offset > room || bytes > room - offset) {
        lm_fail(&g->err, LM_EUSE, "view: reaches beyond its tensor");
        return NULL;
    }
    return t;
}

struct lm_tensor *lm_reshape(struct lm_graph *g, struct lm_tensor *a,
                             uint32_t n_dims, const size_t *ne)
{
    struct lm_tensor *t = lm_view(g, a, n_dims, ne, NULL, 0);
    if (t && (!lm_tensor_contiguous(a) || lm_tensor_len(t) != lm_tensor_len(a))) {
        lm_fail(&g->err, LM_EUSE, "reshape: %zu elements into %zu", lm_tensor_len(a),
                lm_tensor_len(t));
        return NULL;
    }
    return t;
}

struct lm_tensor *lm_permute(struct lm_graph *g, struct lm_tensor *a,
                             const uint32_t order[LM_MAX_DIMS])
{
    struct lm_tensor *t = a ? lm_view(g, a, LM_MAX_DIMS, a->ne, a->nb, 0) : NULL;
    uint32_t seen = 0;
    if (!t)
        return NULL;
    for (int i = 0; i < LM_MAX_DIMS; i++)
        seen |= order[i] < LM_MAX_DIMS ? 1u << order[i] : 0;
    if (seen != (1u << LM_MAX_DIMS) - 1 || (order[0] && a->type->block > 1)) {
        lm_fail(&g->err, LM_EUSE, "permute: not each axis once, or blocks of %s are cut",
                a->type->name);
        return NULL;
    }
    for (int i = 0; i < LM_MAX_DIMS; i++) {
        t->ne[i] = a->ne[order[i]];
        t->nb[i] = a->nb[order[i]];
    }
    return t;
}

struct lm_tensor *lm_transpose(struct lm_graph *g, struct lm_tensor *a)
{
    return lm_permute(g, a, (const uint32_t[]){ 1, 0, 2, 3 });
}

/* A node: sources linked, shape by the operation's row. */
static struct lm_tensor *node(struct lm_graph *g, enum lm_op op, const union lm_op_arg *arg,
                              struct lm_tensor *const src[])
{
    const struct lm_op_row *row = lm_op_row(op);
    if (g->err.code)
        return NULL;
    for (uint32_t i = 0; i < row->n_src - row->n_optional; i++)
        if (!src[i]) {
            lm_fail(&g->err, LM_EUSE, "%s: source %u is missing", row->name, i);
            return NULL;
        }
    struct lm_tensor *t = new_tensor(g);
    if (!t)
        return NULL;
    t->op = op;
    if (arg)
        t->arg = *arg;
    memcpy(t->src, src, row->n_src * sizeof *src);
    if (row->shape(t, &g->err) || strides(t, &g->err))
        return fail(g, row->name);
    return t;
}

/* A product times the scale of its weight; of a stack each row by that of its expert. */
static struct lm_tensor *scaled(struct lm_graph *g, struct lm_tensor *t)
{
    if (!t || !t->src[0]->scale)
        return t;
    struct lm_tensor *s = lm_import(g, t->src[0]->scale), *ids = t->src[2];
    if (!s || s->ne[0] == 1 || t->op != LM_OP_MUL_MAT_ID)
        return lm_mul(g, t, s);
    const size_t n = ids->ne[0] * ids->ne[1];
    s = lm_reshape(g, s, 2, (size_t[]){ 1, s->ne[0] });
    s = lm_get_rows(g, s, lm_reshape(g, ids, 1, &n));
    s = lm_weighted_sum(g, lm_reshape(g, t, 3, (size_t[]){ t->ne[0], 1, n }), s);
    return lm_reshape(g, s, 3, t->ne);
}

static struct lm_tensor *adapted(struct lm_graph *g, struct lm_tensor *t)
{
    struct lm_tensor *value = scaled(g, t);
    return value && g->adapt ? g->adapt(g->adapt_arg, g, t, value) : value;
}

struct lm_tensor *lm_get_rows(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *rows)
{
    return adapted(g, node(g, LM_OP_GET_ROWS, NULL, (struct lm_tensor *[]){ a, rows }));
}

struct lm_tensor *lm_cont(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_CONT, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_add(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_ADD, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_sub(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_SUB, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_mul(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_MUL, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_div(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_DIV, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_scale(struct lm_graph *g, struct lm_tensor *a, float s)
{
    return node(g, LM_OP_SCALE, &(union lm_op_arg){ .scale = s }, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_fill(struct lm_graph *g, struct lm_tensor *a, float s)
{
    return node(g, LM_OP_FILL, &(union lm_op_arg){ .scale = s }, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_clamp(struct lm_graph *g, struct lm_tensor *a, float lo, float hi)
{
    return node(g, LM_OP_CLAMP, &(union lm_op_arg){ .range = { lo, hi } },
                (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_neg(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_NEG, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_sqr(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_SQR, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_sqrt(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_SQRT, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_log(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_LOG, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_silu(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_SILU, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_swiglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_SWIGLU, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_swiglu_clamp(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b,
                                  float limit, float slope, float plus)
{
    return node(g, LM_OP_SWIGLU_CLAMP, &(union lm_op_arg){ .clamp = { limit, slope, plus } },
                (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_reglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_REGLU, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_geglu(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_GEGLU, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_geglu_erf(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_GEGLU_ERF, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_geglu_quick(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return lm_swiglu_clamp(g, a, b, INFINITY, 1.702f, 0);
}

struct lm_tensor *lm_gelu(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_GELU, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_gelu_erf(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_GELU_ERF, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_gelu_quick(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_GELU_QUICK, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_relu(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_RELU, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_relu2(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_RELU2, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_xielu(struct lm_graph *g, struct lm_tensor *a, const struct lm_xielu *x)
{
    return node(g, LM_OP_XIELU, &(union lm_op_arg){ .xielu = *x }, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_softcap(struct lm_graph *g, struct lm_tensor *a, float cap)
{
    return node(g, LM_OP_SOFTCAP, &(union lm_op_arg){ .scale = cap }, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_soft_max(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_SOFT_MAX, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_sigmoid(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_SIGMOID, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_exponential(struct lm_graph *g, struct lm_tensor *a)
{
    return node(g, LM_OP_EXP, NULL, (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_select(struct lm_graph *g, struct lm_tensor *logits, struct lm_tensor *bias,
                            const struct lm_routing *r)
{
    return node(g, LM_OP_SELECT, &(union lm_op_arg){ .route = *r },
                (struct lm_tensor *[]){ logits, bias });
}

struct lm_tensor *lm_gate(struct lm_graph *g, struct lm_tensor *logits, struct lm_tensor *ids,
                          const struct lm_routing *r)
{
    return node(g, LM_OP_GATE, &(union lm_op_arg){ .route = *r },
                (struct lm_tensor *[]){ logits, ids });
}

struct lm_tensor *lm_add_id(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *b,
                            struct lm_tensor *ids)
{
    return node(g, LM_OP_ADD_ID, NULL, (struct lm_tensor *[]){ x, b, ids });
}

struct lm_tensor *lm_mul_mat_id(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x,
                                struct lm_tensor *ids)
{
    return adapted(g, node(g, LM_OP_MUL_MAT_ID, NULL, (struct lm_tensor *[]){ w, x, ids }));
}

struct lm_tensor *lm_weighted_sum(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w)
{
    return node(g, LM_OP_WEIGHTED_SUM, NULL, (struct lm_tensor *[]){ x, w });
}

struct lm_tensor *lm_concat(struct lm_graph *g, struct lm_tensor *a, struct lm_tensor *b)
{
    return node(g, LM_OP_CONCAT, NULL, (struct lm_tensor *[]){ a, b });
}

struct lm_tensor *lm_rms_norm(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                              float eps)
{
    return node(g, LM_OP_RMS_NORM, &(union lm_op_arg){ .eps = eps },
                (struct lm_tensor *[]){ x, w });
}

struct lm_tensor *lm_layer_norm(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *b, float eps)
{
    return node(g, LM_OP_LAYER_NORM, &(union lm_op_arg){ .eps = eps },
                (struct lm_tensor *[]){ x, w, b });
}

struct lm_tensor *lm_softplus(struct lm_graph *g, struct lm_tensor *a, float least)
{
    return node(g, LM_OP_SOFTPLUS, &(union lm_op_arg){ .scale = least },
                (struct lm_tensor *[]){ a });
}

struct lm_tensor *lm_l2_norm(struct lm_graph *g, struct lm_tensor *x, float eps)
{
    return node(g, LM_OP_L2_NORM, &(union lm_op_arg){ .eps = eps }, (struct lm_tensor *[]){ x });
}

struct lm_tensor *lm_above(struct lm_graph *g, struct lm_tensor *x, float by)
{
    return node(g, LM_OP_ABOVE, &(union lm_op_arg){ .scale = by }, (struct lm_tensor *[]){ x });
}

struct lm_tensor *lm_as_long(struct lm_graph *g, struct lm_tensor *y, struct lm_tensor *x)
{
    return node(g, LM_OP_AS_LONG, NULL, (struct lm_tensor *[]){ y, x });
}

struct lm_tensor *lm_state_conv(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *bias, struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_CONV, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ x, states, w, bias });
}

struct lm_tensor *lm_conv_whole(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *w,
                                struct lm_tensor *bias, struct lm_tensor *runs)
{
    return node(g, LM_OP_CONV_WHOLE, NULL, (struct lm_tensor *[]){ x, runs, w, bias });
}

struct lm_tensor *lm_state_scan(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *dt,
                                struct lm_tensor *a, struct lm_tensor *b, struct lm_tensor *c,
                                struct lm_tensor *d, struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_SCAN, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ x, states, dt, a, b, c, d });
}

struct lm_tensor *lm_state_delta(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *k,
                                 struct lm_tensor *v, struct lm_tensor *decay,
                                 struct lm_tensor *beta, struct lm_tensor *states, size_t off,
                                 bool tiled)
{
    return node(g, LM_OP_STATE_DELTA,
                &(union lm_op_arg){ .state = { .off = off, .tiled = tiled } },
                (struct lm_tensor *[]){ v, states, q, k, decay, beta, NULL });
}

struct lm_tensor *lm_state_delta_each(struct lm_graph *g, struct lm_tensor *q,
                                      struct lm_tensor *k, struct lm_tensor *v,
                                      struct lm_tensor *decay, struct lm_tensor *rate,
                                      struct lm_tensor *beta, struct lm_tensor *states,
                                      size_t off)
{
    if (!rate)                              /* the row has it as optional */
        return NULL;
    return node(g, LM_OP_STATE_DELTA, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ v, states, q, k, decay, beta, rate });
}

struct lm_tensor *lm_state_shift(struct lm_graph *g, struct lm_tensor *x,
                                 struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_SHIFT, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ x, states });
}

struct lm_tensor *lm_state_wkv6(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *decay,
                                struct lm_tensor *bonus, struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_WKV6, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ v, states, r, k, decay, bonus });
}

struct lm_tensor *lm_state_wkv7(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *decay,
                                struct lm_tensor *a, struct lm_tensor *b,
                                struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_WKV7, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ v, states, r, k, decay, a, b });
}

struct lm_tensor *lm_state_gla(struct lm_graph *g, struct lm_tensor *r, struct lm_tensor *k,
                               struct lm_tensor *v, struct lm_tensor *decay,
                               struct lm_tensor *states, size_t off)
{
    return node(g, LM_OP_STATE_GLA, &(union lm_op_arg){ .state = { .off = off } },
                (struct lm_tensor *[]){ v, states, r, k, decay });
}

struct lm_tensor *lm_mul_mat(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x)
{
    return adapted(g, node(g, LM_OP_MUL_MAT, NULL, (struct lm_tensor *[]){ w, x }));
}

struct lm_tensor *lm_mul_mat_heads(struct lm_graph *g, struct lm_tensor *w, struct lm_tensor *x)
{
    return scaled(g, node(g, LM_OP_MUL_MAT_HEADS, NULL, (struct lm_tensor *[]){ w, x }));
}

struct lm_tensor *lm_rope_table(struct lm_graph *g, struct lm_tensor *pos,
                                struct lm_tensor *factors, struct lm_tensor *far,
                                struct lm_tensor *lengths, const struct lm_rope *r)
{
    return node(g, LM_OP_ROPE_TABLE, &(union lm_op_arg){ .rope = *r },
                (struct lm_tensor *[]){ pos, factors, far, lengths });
}

struct lm_tensor *lm_rope(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *table)
{
    return node(g, LM_OP_ROPE, table ? &(union lm_op_arg){ .rope = table->arg.rope } : NULL,
                (struct lm_tensor *[]){ x, table });
}

struct lm_tensor *lm_pos_scale(struct lm_graph *g, struct lm_tensor *x, struct lm_tensor *pos,
                               float by, float length, uint32_t off)
{
    return node(g, LM_OP_POS_SCALE, &(union lm_op_arg){ .grow = { by, length, off } },
                (struct lm_tensor *[]){ x, pos });
}

struct lm_tensor *lm_kv_store(struct lm_graph *g, struct lm_tensor *k, struct lm_tensor *v,
                              struct lm_tensor *pages, struct lm_tensor *pos,
                              const struct lm_kv_layout *kv)
{
    return node(g, LM_OP_KV_STORE, &(union lm_op_arg){ .attn = { .kv = *kv } },
                (struct lm_tensor *[]){ k, pages, pos, v });
}

struct lm_tensor *lm_attn(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *pages,
                          struct lm_tensor *pos, struct lm_tensor *stored,
                          const struct lm_kv_layout *kv, float scale, uint32_t window,
                          float softcap)
{
    return node(g, LM_OP_ATTN,
                &(union lm_op_arg){ .attn = { .kv = *kv, .scale = scale, .window = window,
                                              .softcap = softcap } },
                (struct lm_tensor *[LM_MAX_SRC]){ q, pages, pos, stored });
}

struct lm_tensor *lm_choose(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *shares,
                            struct lm_tensor *pages, struct lm_tensor *pos,
                            struct lm_tensor *stored, const struct lm_kv_layout *kv,
                            uint32_t best, uint32_t n_ctx)
{
    return node(g, LM_OP_CHOOSE,
                &(union lm_op_arg){ .attn = { .kv = *kv, .best = best, .n_ctx = n_ctx } },
                (struct lm_tensor *[]){ q, pages, pos, stored, shares });
}

struct lm_tensor *lm_attn_whole(struct lm_graph *g, struct lm_tensor *q, struct lm_tensor *k,
                                struct lm_tensor *v, struct lm_tensor *runs, float scale,
                                uint32_t window)
{
    return node(g, LM_OP_ATTN_WHOLE,
                &(union lm_op_arg){ .attn = { .scale = scale, .window = window } },
                (struct lm_tensor *[LM_MAX_SRC]){ q, runs, k, v });
}

struct lm_tensor *lm_attn_adjust(struct lm_tensor *t, struct lm_tensor *sinks,
                                 struct lm_tensor *bias)
{
    if (t) {
        t->src[LM_SRC_SINKS] = sinks;
        t->src[LM_SRC_BIAS] = bias;
    }
    return t;
}

struct lm_tensor *lm_attn_chosen(struct lm_tensor *t, struct lm_tensor *chosen)
{
    if (t)
        t->src[LM_SRC_CHOSEN] = chosen;
    return t;
}

struct lm_tensor *lm_attn_chunk(struct lm_tensor *t, uint32_t chunk)
{
    if (t) {
        t->arg.attn.window = 0;
        t->arg.attn.chunk = chunk;
    }
    return t;
}

struct lm_tensor *lm_distance_bias(struct lm_graph *g, struct lm_tensor *w, uint32_t reach,
                                   bool both)
{
    return node(g, LM_OP_DISTANCE_BIAS, &(union lm_op_arg){ .distance = { reach, both } },
                (struct lm_tensor *[]){ w });
}

struct lm_tensor *lm_copy(struct lm_graph *g, struct lm_tensor *a, uint32_t place)
{
    struct lm_tensor *t = node(g, LM_OP_COPY, NULL, (struct lm_tensor *[]){ a });
    if (t) {
        memcpy(t->nb, a->nb, sizeof t->nb);
        t->name = a->name;
        t->place = place;
    }
    return t;
}

/* A tensor on the way down, and its next source to look at. */
struct step {
    struct lm_tensor *t;
    uint32_t          next;
};

static int append(struct lm_graph *g, struct lm_tensor *t)
{
    bool leaf = t->op == LM_OP_NONE;
    struct lm_tensor ***list = leaf ? &g->leaves : &g->nodes;
    size_t *n = leaf ? &g->n_leaves : &g->n_nodes;
    if (!lm_grow(list, leaf ? &g->cap_leaves : &g->cap_nodes, *n + 1, sizeof **list))
        return lm_fail_nomem(&g->err);
    (*list)[(*n)++] = t;
    return LM_OK;
}

/* Depth first with a stack of our own, since a graph may be deeper than the C stack. */
static int expand(struct lm_graph *g, struct lm_tensor *top, struct step **stack, size_t *cap)
{
    size_t depth = 0;
    for (struct lm_tensor *t = top; t || depth; ) {
        if (t && !t->seen) {
            if (!lm_grow(stack, cap, depth + 1, sizeof **stack))
                return lm_fail_nomem(&g->err);
            t->seen = true;
            (*stack)[depth++] = (struct step){ t, 0 };
        }
        struct step *s = &(*stack)[depth - 1];
        while (s->next < LM_MAX_SRC && !s->t->src[s->next])
            s->next++;
        if (s->next < LM_MAX_SRC) {
            t = s->t->src[s->next++];
            t->n_uses++;
            continue;
        }
        if (append(g, s->t))
            return g->err.code;
        t = NULL;
        depth--;
    }
    return LM_OK;
}

int lm_graph_expand(struct lm_graph *g, struct lm_tensor *t)
{
    struct step *stack = NULL;
    size_t cap = 0;
    if (g->err.code || !t || t->seen)
        return g->err.code;
    expand(g, t, &stack, &cap);
    free(stack);
    return g->err.code;
}
