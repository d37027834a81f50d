/* SPDX-License-Identifier: MIT */
#include "arch/dense.h"

#include <float.h>
#include <math.h>

#include "arch/draft_head.h"
#include "arch/recurrent.h"

int lm_dense_need(const struct lm_arch *a, const char *key, uint32_t v, uint32_t max,
                  struct lm_err *err)
{
    if (v >= 1 && v <= max)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "%s.%s: %u: must be 1 to %u", a->name, key, v, max);
}

/* Has any layer attention? */
static bool attends(const struct lm_arch *a, const struct lm_hparams *h)
{
    uint32_t i = 0;
    while (i < h->n_layer && i < LM_MAX_LAYERS && !lm_arch_attends(a, h, i))
        i++;
    return i < h->n_layer;
}

static int check_counts(const struct lm_arch *a, const struct lm_hparams *h, struct lm_err *err)
{
    int r;
    if ((r = lm_dense_need(a, "block_count", h->n_layer, LM_MAX_LAYERS, err)) ||
        (r = lm_dense_need(a, "context_length", h->n_ctx_train, 1 << 30, err)) ||
        (r = lm_dense_need(a, "embedding_length", h->n_embd, 1 << 20, err)) ||
        (lm_arch_has(a, LM_FFN_UP) &&
         (r = lm_dense_need(a, "feed_forward_length", h->n_ff, 1 << 24, err))))
        return r;
    if (!attends(a, h))
        return LM_OK;
    if ((r = lm_dense_need(a, "attention.head_count", h->n_head, 1 << 16, err)) ||
        (r = lm_dense_need(a, "attention.head_count_kv", h->n_head_kv, 1 << 16, err)) ||
        (r = lm_dense_need(a, "attention.key_length", h->head_k, 1 << 14, err)) ||
        (r = lm_dense_need(a, "attention.value_length", h->head_v, 1 << 14, err)) ||
        (r = lm_dense_need(a, "rope.dimension_count", h->n_rot, h->head_k, err)))
        return r;
    if (h->n_head % h->n_head_kv)
        return lm_fail(err, LM_EDATA, "%s.attention.head_count_kv: %u does not divide "
                       "the %u heads", a->name, h->n_head_kv, h->n_head);
    if (h->pooling >= LM_N_POOLING)
        return lm_fail(err, LM_ENOSUP, "%s.pooling_type: %u is not supported", a->name, h->pooling);
    if (h->n_rot % 2 && !a->dense->learned_positions && !(h->alibi > 0))
        return lm_fail(err, LM_EDATA, "%s.rope.dimension_count: %u is odd", a->name, h->n_rot);
    return LM_OK;
}

static int check_rope(const struct lm_arch *a, const struct lm_hparams *h, struct lm_err *err)
{
    if (!(h->rope_base >= 1 && h->rope_base < 1e30f))
        return lm_fail(err, LM_EDATA, "%s.rope.freq_base: %g: must be 1 to 1e30", a->name,
                       (double)h->rope_base);
    if (!(h->rope_base_local >= 1 && h->rope_base_local < 1e30f))
        return lm_fail(err, LM_EDATA, "%s.rope.freq_base_swa: %g: must be 1 to 1e30", a->name,
                       (double)h->rope_base_local);
    if (!(h->rope_factor > 0 && h->rope_factor < 1e9f))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.factor: %g: must be above 0", a->name,
                       (double)h->rope_factor);
    if (h->rope_scaling == LM_ROPE_DYNAMIC && (h->n_rot < 3 || h->rope_orig_ctx < 1))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.type: dynamic, and %u values turn", a->name,
                       h->n_rot);
    if (!(h->yarn_ext <= 1 && h->yarn_attn < 1e9f))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.yarn_*_factor: out of range", a->name);
    if (!(h->yarn_beta_fast > 0 && h->yarn_beta_slow > 0 && h->yarn_beta_fast < 1e9f))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.yarn_beta_*: must be above 0", a->name);
    if (!(h->rope_attn >= 0 && h->rope_attn < 1e9f))
        return lm_fail(err, LM_EDATA, "%s.rope.scaling.attn_factor: out of range", a->name);
    return LM_OK;
}

static int check_scales(const struct lm_arch *a, const struct lm_hparams *h, struct lm_err *err)
{
    const struct { const char *key; float v; } keys[] = {
        { "attention.max_alibi_bias", h->alibi }, { "attention.scale", h->attn_scale },
        { "embedding_scale", h->embd_scale }, { "residual_scale", h->residual_scale },
        { "logit_scale", h->logit_scale },
        { "attention.temperature_scale", h->far_scale },
        { "attn_logit_softcapping", h->attn_cap }, { "final_logit_softcapping", h->logit_cap },
    };
    if (!(h->clamp_qkv >= 0 && h->clamp_qkv <= FLT_MAX))
        return lm_fail(err, LM_EDATA, "%s.attention.clamp_kqv: %g: must be 0 or more", a->name,
                       (double)h->clamp_qkv);
    if (!(h->norm_eps >= 0 && h->norm_eps < 1 && h->norm_rms_eps >= 0 && h->norm_rms_eps < 1))
        return lm_fail(err, LM_EDATA, "%s.attention.layer_norm%s_epsilon: %g: must be 0 to 1",
                       a->name, a->dense->norm == LM_NORM_RMS ? "_rms" : "",
                       (double)h->norm_eps);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!(keys[i].v >= 0 && keys[i].v < 1e9f))
            return lm_fail(err, LM_EDATA, "%s.%s: %g: must be 0 to 1e9", a->name, keys[i].key,
                           (double)keys[i].v);
    return LM_OK;
}

/* The defaults of the method's authors: cosine and sine grow by 0.1 ln(factor). */
static void settle_yarn(struct lm_hparams *h)
{
    if (h->rope_orig_ctx == 0)
        h->rope_orig_ctx = h->n_ctx_train;
    if (h->yarn_ext < 0)
        h->yarn_ext = 1;
    if (h->yarn_attn < 0)
        h->yarn_attn = h->rope_factor > 1 ? 0.1f * logf(h->rope_factor) + 1 : 1;
    if (h->yarn_beta_fast == 0)
        h->yarn_beta_fast = 32;
    if (h->yarn_beta_slow == 0)
        h->yarn_beta_slow = 1;
}

/* A file that has no length before the stretching means its own, which is then stretched. */
static void settle_dynamic(struct lm_hparams *h)
{
    if (h->rope_scaling != LM_ROPE_DYNAMIC || h->rope_orig_ctx)
        return;
    const double most = 1 << 30, n = (double)h->rope_factor * h->n_ctx_train;
    h->rope_orig_ctx = h->n_ctx_train;
    h->n_ctx_train = !(n > h->n_ctx_train) ? h->n_ctx_train : n < most ? (uint32_t)n : 1 << 30;
}

static int check_routing(const struct lm_arch *a, const struct lm_hparams *h, struct lm_err *err)
{
    if (h->gating > 4)
        return lm_fail(err, LM_ENOSUP, "%s.expert_gating_func: %u is not supported", a->name,
                       h->gating);
    if (!(h->experts_scale >= 0 && h->experts_scale < 1e9f))
        return lm_fail(err, LM_EDATA, "%s.expert_weights_scale: out of range", a->name);
    if (h->n_group > 1 &&
        (h->n_expert % h->n_group || !h->n_group_used || h->n_group_used > h->n_group ||
         h->n_expert / h->n_group < 2 ||
         h->n_expert_used > h->n_expert / h->n_group * h->n_group_used))
        return lm_fail(err, LM_EDATA, "%s.expert_group_count: %u of %u experts in %u of %u groups",
                       a->name, h->n_expert_used, h->n_expert, h->n_group_used, h->n_group);
    return LM_OK;
}

static int settle_experts(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r;
    if (!h->n_expert && (lm_arch_has(a, LM_FFN_UP) || !lm_arch_has(a, LM_ROUTER)))
        return LM_OK;
    if (!lm_arch_has(a, LM_ROUTER) && !lm_arch_has(a, LM_BOTH_ROUTER))
        return lm_fail(err, LM_ENOSUP, "%s.expert_count: %u: experts are not supported", a->name,
                       h->n_expert);
    if (!h->n_ff_expert)
        h->n_ff_expert = h->n_ff;
    if (h->n_shared && !h->n_ff_shared) {
        if ((r = lm_dense_need(a, "expert_shared_count", h->n_shared, 1 << 8, err)))
            return r;
        h->n_ff_shared = h->n_shared * (h->n_ff_expert < 1 << 24 ? h->n_ff_expert : 0);
    }
    if ((r = lm_dense_need(a, "expert_count", h->n_expert, 1 << 12, err)) ||
        (r = lm_dense_need(a, "expert_used_count", h->n_expert_used, h->n_expert, err)) ||
        (r = lm_dense_need(a, "expert_feed_forward_length", h->n_ff_expert, 1 << 24, err)) ||
        (r = check_routing(a, h, err)))
        return r;
    return lm_arch_has(a, LM_ROUTER_SHARED)
               ? lm_dense_need(a, "expert_shared_feed_forward_length", h->n_ff_shared, 1 << 24, err)
               : LM_OK;
}

void lm_dense_parallel(struct lm_hparams *h)
{
    h->parallel = true;
}

void lm_dense_scale_embd(struct lm_hparams *h)
{
    h->embd_scale = sqrtf((float)h->n_embd);
}

void lm_dense_local_base(struct lm_hparams *h, float base)
{
    if (h->rope_base_local == h->rope_base)
        h->rope_base_local = base;
}

int lm_dense_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r = settle_experts(a, h, err);
    if (r || (a->dense->recurrent && (r = lm_recurrent_settle(a, h, err))))
        return r;
    if (h->rope_scaling == LM_ROPE_LONG && !lm_arch_has(a, LM_ROPE_LONG_FACTORS))
        return lm_fail(err, LM_ENOSUP, "%s.rope.scaling.type: longrope is not supported",
                       a->name);
    for (size_t i = 0; h->has_fed && i < LM_MAX_LAYERS / 64; i++)
        h->recurrent[i] &= ~h->fed[i];          /* lists of heads have 0 for both */
    if (h->n_further && h->n_further >= h->n_layer)
        return lm_fail(err, LM_EDATA, "%s.nextn_predict_layers: %u of %u layers", a->name,
                       h->n_further, h->n_layer);
    h->n_layer -= h->n_further;                 /* those that predict further tokens stand apart */
    for (uint32_t i = h->n_layer; i < h->n_layer + h->n_further && i < LM_MAX_LAYERS; i++)
        h->recurrent[i / 64] &= ~(UINT64_C(1) << i % 64);       /* they attend */
    if (h->n_head == 0 && attends(a, h))
        return lm_dense_need(a, "attention.head_count", 0, 1 << 16, err);
    if (h->n_head_kv == 0)
        h->n_head_kv = h->n_head;
    if (h->n_shared_kv >= h->n_layer && h->n_shared_kv)
        return lm_fail(err, LM_EDATA, "%s.attention.shared_kv_layers: %u of %u", a->name,
                       h->n_shared_kv, h->n_layer);
    if (h->head_k == 0 && h->n_head)
        h->head_k = h->n_embd / h->n_head;
    if (h->head_v == 0 && h->n_head)
        h->head_v = h->n_embd / h->n_head;
    if (h->n_rot == 0)
        h->n_rot = h->head_k;
    if (h->rope_base == 0)
        h->rope_base = 10000;
    if (h->rope_base_local == 0)
        h->rope_base_local = h->rope_base;
    if (h->rope_factor == 0)
        h->rope_factor = 1;
    if (h->alibi == 0)
        h->alibi = a->dense->alibi;
    if (a->dense->learned_positions)
        h->max_ctx = h->n_ctx_train;
    settle_dynamic(h);
    settle_yarn(h);
    if (a->dense->constants)
        a->dense->constants(h);
    r = check_counts(a, h, err);
    if (!r)
        r = check_rope(a, h, err);
    return r ? r : check_scales(a, h, err);
}

/* --- pieces of the graph --------------------------------------------------------------- */

struct lm_tensor *lm_dense_linear(struct lm_build *b, uint32_t layer, enum lm_role w,
                                  struct lm_tensor *x)
{
    struct lm_tensor *weight = lm_build_weight(b, layer, w);
    if (!weight)
        lm_build_missing(b, layer, w);
    struct lm_tensor *y = lm_mul_mat(b->graph, weight, x);
    struct lm_tensor *bias = lm_build_weight(b, layer, w + 1);
    return bias ? lm_add(b->graph, y, bias) : y;
}

struct lm_tensor *lm_dense_norm(struct lm_build *b, uint32_t layer, enum lm_role w,
                                struct lm_tensor *x)
{
    struct lm_tensor *weight = lm_build_weight(b, layer, w);
    if (!weight && !(b->arch->dense->bare_norms &&
                     (w == LM_ATTN_NORM || w == LM_FFN_NORM || w == LM_OUTPUT_NORM)))
        return x;
    if (b->h->norm_rms_eps > 0)
        return lm_rms_norm(b->graph, x, weight, b->h->norm_rms_eps);
    if (b->arch->dense->norm == LM_NORM_RMS)
        return lm_rms_norm(b->graph, x, weight, b->h->norm_eps);
    return lm_layer_norm(b->graph, x, weight, lm_build_weight(b, layer, w + 1), b->h->norm_eps);
}

struct lm_tensor *lm_dense_plain_norm(struct lm_build *b, struct lm_tensor *x)
{
    const float n = x ? (float)x->ne[0] : 1;
    return lm_scale(b->graph, lm_l2_norm(b->graph, x, n * b->h->norm_eps), sqrtf(n));
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t len, size_t n)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens });
}

/* Part of every row of x as heads. */
static struct lm_tensor *part(struct lm_build *b, struct lm_tensor *x, size_t first, size_t len,
                              size_t n)
{
    if (!x)
        return NULL;
    return lm_view(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens },
                   (size_t[]){ 4, 4 * len, x->nb[1] }, 4 * first);
}

/* Products of the same input, one after the other, so that they can be taken together. */
static void together(struct lm_build *b, struct lm_tensor *const t[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        lm_graph_expand(b->graph, t[i]);
}

/* Norm of queries or keys: over all heads at once, over each with the same weights, or over
 * each with its own, as the weight's shape says. */
static struct lm_tensor *norm_heads(struct lm_build *b, uint32_t layer, enum lm_role w,
                                    struct lm_tensor *x, size_t len, size_t n)
{
    const float eps = b->h->norm_eps;
    struct lm_graph *g = b->graph;
    struct lm_tensor *weight = lm_build_weight(b, layer, w);
    if (!weight || !x)
        return x;
    if (weight->ne[1] > 1) {
        x = lm_reshape(g, lm_layer_norm(g, x, NULL, NULL, eps), 2,
                       (size_t[]){ len * n, b->n_tokens });
        x = lm_mul(g, x, lm_reshape(g, weight, 1, (size_t[]){ len * n }));
        return heads(b, x, len, n);
    }
    if (weight->ne[0] == len)
        return lm_dense_norm(b, layer, w, x);
    x = lm_reshape(g, x, 2, (size_t[]){ len * n, b->n_tokens });
    return heads(b, lm_dense_norm(b, layer, w, x), len, n);
}

/* Each value clipped, where the model asks for it. */
static struct lm_tensor *clipped(struct lm_build *b, struct lm_tensor *x)
{
    const float most = b->h->clamp_qkv;
    return most > 0 ? lm_clamp(b->graph, x, -most, most) : x;
}

static struct lm_tensor *turned(struct lm_build *b, struct lm_tensor *x, struct lm_tensor *table)
{
    return table ? lm_rope(b->graph, x, table) : x;
}

/* Is nothing wanted behind a layer but the rows of tokens that are? */
static bool is_last(const struct lm_build *b, uint32_t layer)
{
    return b->draft || (layer + 1 == b->h->n_layer && !b->keep_hidden);
}

static void plain_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                      struct lm_tensor *table, struct lm_tensor *out[4])
{
    const struct lm_hparams *h = b->h;
    const struct lm_dense *d = b->arch->dense;
    size_t nq = (size_t)h->n_head * h->head_k, nk = (size_t)h->n_head_kv * h->head_k;
    if (lm_build_weight(b, layer, LM_ATTN_QKV)) {
        struct lm_tensor *all = lm_dense_linear(b, layer, LM_ATTN_QKV, x);
        out[0] = part(b, all, 0, h->head_k, h->n_head);
        out[1] = part(b, all, nq, h->head_k, h->n_head_kv);
        out[2] = part(b, all, nq + nk, h->head_v, h->n_head_kv);
    } else {
        struct lm_tensor *q = lm_dense_linear(b, layer, LM_ATTN_Q, x);
        struct lm_tensor *k = lm_dense_linear(b, layer, LM_ATTN_K, x);
        struct lm_tensor *v = lm_dense_linear(b, layer, LM_ATTN_V, x);
        bool only_store = is_last(b, layer) && b->n_out == 0;
        together(b, only_store ? (struct lm_tensor *[]){ k, v }
                               : (struct lm_tensor *[]){ q, k, v }, only_store ? 2 : 3);
        out[0] = heads(b, q, h->head_k, h->n_head);
        out[1] = heads(b, k, h->head_k, h->n_head_kv);
        out[2] = heads(b, v, h->head_v, h->n_head_kv);
    }
    for (int turn = 0; turn < 2; turn++)
        if (turn == d->norm_turned) {
            out[0] = norm_heads(b, layer, LM_ATTN_Q_NORM, out[0], h->head_k, h->n_head);
            out[1] = norm_heads(b, layer, LM_ATTN_K_NORM, out[1], h->head_k, h->n_head_kv);
        } else {
            out[0] = turned(b, clipped(b, out[0]), table);
            out[1] = turned(b, clipped(b, out[1]), table);
        }
    out[2] = clipped(b, out[2]);
    if (table && d->plain_norms && h->qk_norms) {
        out[0] = lm_dense_plain_norm(b, out[0]);
        out[1] = lm_dense_plain_norm(b, out[1]);
    }
    if (lm_build_weight(b, layer, LM_ATTN_GATE))
        out[3] = lm_sigmoid(b->graph, lm_dense_linear(b, layer, LM_ATTN_GATE, x));
    if (h->far_scale > 0 && (!table || !d->far_unturned))
        out[0] = lm_pos_scale(b->graph, out[0], b->angle, h->far_scale,
                              (float)(h->far_length ? h->far_length : h->rope_orig_ctx),
                              d->far_unturned);
}

void lm_dense_tables(struct lm_build *b, struct lm_tensor *tables[2])
{
    tables[0] = tables[1] = NULL;
    if (b->h->no_rope || b->h->alibi > 0 || b->arch->dense->learned_positions ||
        !attends(b->arch, b->h))
        return;
    struct lm_rope rope = lm_build_rope(b), local = rope;
    struct lm_tensor *near = lm_build_weight(b, 0, LM_ROPE_FREQS), *far = NULL;
    if (!near && (near = lm_build_weight(b, 0, LM_ROPE_SHORT_FACTORS)))
        far = lm_build_weight(b, 0, LM_ROPE_LONG_FACTORS);
    rope.halves = local.halves = b->arch->dense->rope_halves || b->h->rope_halves;
    rope.orig_ctx = b->h->rope_orig_ctx;
    tables[0] = tables[1] = lm_rope_table(b->graph, b->angle, near, far, far ? b->lengths : NULL,
                                          &rope);
    if (b->h->rope_base_local != b->h->rope_base ||
        (b->arch->dense->local_plain && b->h->rope_scaling != LM_ROPE_NONE)) {
        local = (struct lm_rope){
            .n_rot = b->h->n_rot_local ? b->h->n_rot_local : rope.n_rot,
            .base = b->h->rope_base_local, .factor = 1, .halves = rope.halves,
        };
        tables[1] = lm_rope_table(b->graph, b->angle, NULL, NULL, NULL, &local);
    }
}

struct lm_tensor *lm_dense_table_of(const struct lm_build *b, uint32_t layer,
                                    struct lm_tensor *const tables[2])
{
    const struct lm_dense *d = b->arch->dense;
    const uint32_t every = d->unturned_every, window = lm_arch_window(b->arch, b->h, layer);
    if (d->learned_positions || (every && layer % every == every - 1))
        return NULL;
    if (d->all_unturned && b->h->window && !window &&
        !(d->first_turned && layer < b->h->n_dense_first))
        return NULL;
    return tables[window != 0];
}

/* Slopes of the heads: powers of 2^(-alibi / n), n being the largest power of two not above their
 * number; those that remain have the odd powers of its root (Press et al., 2022). */
static struct lm_tensor *slopes(const struct lm_build *b)
{
    const size_t n_head = b->h->n_head;
    const float step = b->h->alibi;
    size_t n = 1;
    while (2 * n <= n_head)
        n *= 2;
    float *to = lm_arena_array(&b->graph->arena, n_head, sizeof *to);
    struct lm_tensor *t = lm_new_tensor(b->graph, lm_type_by_id(LM_F32), 2,
                                        (size_t[]){ 1, n_head });
    if (!t || !to)
        return NULL;
    for (size_t i = 0; i < n_head; i++)
        to[i] = exp2f(i < n ? -step * (float)(i + 1) / (float)n
                            : -step * (float)(2 * (i - n) + 1) / (float)(2 * n));
    t->data = to;
    return t;
}

/* Remember k and v of this layer; NULL for the last layer's result when nothing is wanted. */
static struct lm_tensor *attention(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                   struct lm_tensor *table, bool only_store)
{
    const struct lm_hparams *h = b->h;
    const struct lm_dense *d = b->arch->dense;
    struct lm_tensor *qkv[4] = { NULL };
    float scale = h->attn_scale > 0 ? h->attn_scale : 1.0f / sqrtf((float)h->head_k);
    (d->qkv ? d->qkv : plain_qkv)(b, layer, x, table, qkv);
    if (h->no_causal && only_store)
        return NULL;
    if (h->no_causal) {
        struct lm_tensor *y = lm_attn_whole(b->graph, qkv[0], qkv[1], qkv[2], b->runs, scale,
                                            lm_arch_window(b->arch, h, layer) / 2);
        lm_attn_adjust(y, lm_build_weight(b, layer, LM_ATTN_SINKS), b->distances);
        return qkv[3] ? lm_mul(b->graph, y, qkv[3]) : y;
    }
    const uint32_t from = lm_arch_kv_layer(b->arch, h, layer);
    struct lm_tensor *pages = lm_build_pages(b, from), *stored = NULL;
    if (from == layer)
        stored = lm_kv_store(b->graph, qkv[1], qkv[2], pages, b->pos, &b->places[layer].kv);
    if (only_store) {
        lm_graph_expand(b->graph, from == layer ? stored : x);
        return NULL;
    }
    struct lm_tensor *y = lm_attn(b->graph, qkv[0], pages, b->pos, stored,
                                  &b->places[from].kv, scale,
                                  lm_arch_window(b->arch, h, layer), h->attn_cap);
    lm_attn_adjust(y, lm_build_weight(b, layer, LM_ATTN_SINKS), b->distances);
    lm_attn_chosen(y, b->chosen);
    if (d->in_chunks && lm_arch_window(b->arch, h, layer))
        lm_attn_chunk(y, h->window);
    if (d->values)
        y = d->values(b, layer, y);
    return qkv[3] ? lm_mul(b->graph, y, qkv[3]) : y;
}

/* The last product of an attention, of its weighted values. */
static struct lm_tensor *attention_out(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    return lm_dense_linear(b, layer, LM_ATTN_OUT, lm_dense_norm(b, layer, LM_ATTN_SUB_NORM, x));
}

struct lm_tensor *lm_dense_attend(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                  struct lm_tensor *table, bool only_store)
{
    x = attention(b, layer, x, table, only_store);
    return only_store ? NULL : attention_out(b, layer, x);
}

/* Attention of a layer in y[0], what a recurrent one has in y[1], both without their last
 * products; NULL: it has none, or nothing is wanted. */
static void mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                bool only_store, struct lm_tensor *y[2])
{
    const struct lm_dense *d = b->arch->dense;
    y[0] = y[1] = NULL;
    if (d->recurrent && lm_arch_recurrent(b->h, layer))
        y[1] = d->recurrent(b, layer, x);
    if (lm_arch_attends(b->arch, b->h, layer))
        y[0] = attention(b, layer, x, table, only_store);
    if (only_store && y[1])
        lm_graph_expand(b->graph, y[1]);
}

/* The last products, and their sum. */
static struct lm_tensor *mixed(struct lm_build *b, uint32_t layer, struct lm_tensor *const y[2])
{
    struct lm_tensor *a = y[0] ? attention_out(b, layer, y[0]) : NULL;
    struct lm_tensor *r = y[1] ? lm_dense_linear(b, layer, LM_SSM_OUT, y[1]) : NULL;
    return a && r ? lm_add(b->graph, a, r) : a ? a : r;
}

static struct lm_tensor *act(struct lm_build *b, struct lm_tensor *x)
{
    switch (lm_build_act(b)) {
    case LM_ACT_SILU:     return lm_silu(b->graph, x);
    case LM_ACT_GELU:     return lm_gelu(b->graph, x);
    case LM_ACT_GELU_ERF: return lm_gelu_erf(b->graph, x);
    case LM_ACT_RELU2:
    case LM_ACT_XIELU:                  /* have no form with a gate, */
    case LM_ACT_SWIGLU_CLAMP:           /* and none without */
        break;
    }
    return lm_relu2(b->graph, x);
}

static struct lm_tensor *activate(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    return lm_build_act(b) == LM_ACT_XIELU ? lm_xielu(b->graph, x, &b->h->xielu[layer])
                                               : act(b, x);
}

struct lm_tensor *lm_dense_gated(struct lm_build *b, struct lm_tensor *gate, struct lm_tensor *up)
{
    switch (lm_build_act(b)) {
    case LM_ACT_SILU:         return lm_swiglu(b->graph, gate, up);
    case LM_ACT_GELU:         return lm_geglu(b->graph, gate, up);
    case LM_ACT_GELU_ERF:     return lm_geglu_erf(b->graph, gate, up);
    case LM_ACT_SWIGLU_CLAMP: return lm_swiglu_clamp(b->graph, gate, up, 7, 1.702f, 1);
    case LM_ACT_RELU2:
    case LM_ACT_XIELU:        break;
    }
    return lm_mul(b->graph, act(b, gate), up);
}

struct lm_tensor *lm_dense_half(struct lm_build *b, struct lm_tensor *x, size_t which)
{
    if (!x)
        return NULL;
    const size_t n = x->ne[0] / 2;
    return lm_view(b->graph, x, 3, (size_t[]){ n, x->ne[1], x->ne[2] },
                   (size_t[]){ 4, x->nb[1], x->nb[2] }, 4 * which * n);
}

/* The expert that all tokens share. */
static struct lm_tensor *shared_expert(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *gate = NULL, *up;
    if (lm_arch_has(b->arch, LM_GATE_SHARED))
        gate = lm_dense_linear(b, layer, LM_GATE_SHARED, x);
    up = lm_dense_linear(b, layer, LM_UP_SHARED, x);
    if (gate)
        together(b, (struct lm_tensor *[]){ gate, up }, 2);
    up = gate ? lm_dense_gated(b, gate, up) : activate(b, layer, up);
    struct lm_tensor *y = lm_dense_linear(b, layer, LM_DOWN_SHARED, up);
    if (!y || !lm_build_weight(b, layer, LM_ROUTER_SHARED))
        return y;
    struct lm_tensor *w = lm_sigmoid(g, lm_dense_linear(b, layer, LM_ROUTER_SHARED, x));
    return lm_weighted_sum(g, lm_reshape(g, y, 3, (size_t[]){ y->ne[0], 1, y->ne[1] }), w);
}

/* A product with each expert of a token, plus its bias if there is one. */
static struct lm_tensor *expert_linear(struct lm_build *b, uint32_t layer, enum lm_role w,
                                       enum lm_role bias, struct lm_tensor *x,
                                       struct lm_tensor *ids)
{
    struct lm_tensor *y = lm_mul_mat_id(b->graph, lm_build_weight(b, layer, w), x, ids);
    struct lm_tensor *add = lm_build_weight(b, layer, bias);
    return add ? lm_add_id(b->graph, y, add, ids) : y;
}

static struct lm_routing routing(const struct lm_build *b, bool preference)
{
    static const enum lm_score as_said[] = {
        LM_SCORE_SOFTMAX, LM_SCORE_SIGMOID, LM_SCORE_CHOSEN, LM_SCORE_SQRT_SOFTPLUS,
    };
    const struct lm_hparams *h = b->h;
    struct lm_routing r = {
        .k = h->n_expert_used,
        .score = h->gating ? as_said[h->gating - 1]
                           : preference ? LM_SCORE_SIGMOID : LM_SCORE_SOFTMAX,
        .normalize = h->experts_norm, .scale = h->experts_scale,
        .near = b->arch->dense->near_experts,
    };
    if (h->n_group > 1) {
        r.n_group = h->n_group;
        r.n_group_used = h->n_group_used;
        r.group_best = r.score == LM_SCORE_SOFTMAX ? 1 : 2;
    }
    return r;
}

/* What the experts `ids` make of x, [len, k, n] each. */
static struct lm_tensor *of_experts(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                    struct lm_tensor *ids)
{
    struct lm_tensor *gate = NULL, *up;
    x = x ? lm_reshape(b->graph, x, 3, (size_t[]){ x->ne[0], 1, x->ne[1] }) : NULL;
    if (lm_build_weight(b, layer, LM_GATE_UP_EXPERTS)) {
        up = expert_linear(b, layer, LM_GATE_UP_EXPERTS, LM_GATE_UP_EXPERTS_B, x, ids);
        up = lm_dense_gated(b, lm_dense_half(b, up, 0), lm_dense_half(b, up, 1));
        return expert_linear(b, layer, LM_DOWN_EXPERTS, LM_DOWN_EXPERTS_B, up, ids);
    }
    if (lm_arch_has(b->arch, LM_GATE_EXPERTS))
        gate = expert_linear(b, layer, LM_GATE_EXPERTS, LM_GATE_EXPERTS_B, x, ids);
    up = expert_linear(b, layer, LM_UP_EXPERTS, LM_UP_EXPERTS_B, x, ids);
    if (gate)
        together(b, (struct lm_tensor *[]){ gate, up }, 2);
    up = gate ? lm_dense_gated(b, gate, up) : activate(b, layer, up);
    return expert_linear(b, layer, LM_DOWN_EXPERTS, LM_DOWN_EXPERTS_B, up, ids);
}

static struct lm_tensor *experts(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *logits = lm_dense_linear(b, layer, LM_ROUTER, x);
    struct lm_tensor *preference = lm_build_weight(b, layer, LM_EXPERT_PREFERENCE);
    const bool other = lm_build_weight(b, layer, LM_EXPERTS_IN);
    const struct lm_routing route = routing(b, preference);
    struct lm_tensor *ids = lm_select(g, logits, preference, &route);
    struct lm_tensor *w = lm_gate(g, logits, ids, &route);
    struct lm_tensor *in = other ? lm_dense_linear(b, layer, LM_EXPERTS_IN, x) : x, *y;
    if (b->arch->dense->weigh_inputs && in) {           /* of one expert a token */
        const size_t len = in->ne[0], n = in->ne[1];
        in = lm_weighted_sum(g, lm_reshape(g, in, 3, (size_t[]){ len, 1, n }), w);
        y = lm_reshape(g, of_experts(b, layer, in, ids), 2, (size_t[]){ b->h->n_embd, n });
    } else {
        y = lm_weighted_sum(g, of_experts(b, layer, in, ids), w);
    }
    y = other ? lm_dense_linear(b, layer, LM_EXPERTS_OUT, y) : y;
    if (lm_build_weight(b, layer, LM_EXPERTS_SUM_B))
        y = lm_add(g, y, lm_build_weight(b, layer, LM_EXPERTS_SUM_B));
    if (!lm_build_weight(b, layer, LM_UP_SHARED))
        return y;
    y = lm_add(g, y, shared_expert(b, layer, x));
    return b->arch->dense->mean_of_shared ? lm_scale(g, y, 0.5f) : y;
}

struct lm_tensor *lm_dense_feed(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_tensor *up;
    if (lm_build_weight(b, layer, LM_FFN_GATE)) {
        struct lm_tensor *gate = lm_dense_linear(b, layer, LM_FFN_GATE, x);
        up = lm_dense_linear(b, layer, LM_FFN_UP, x);
        together(b, (struct lm_tensor *[]){ gate, up }, 2);
        if (b->h->sparse[layer / 64] >> layer % 64 & 1)
            gate = lm_above(b->graph, gate, b->h->sparse_above);
        up = lm_dense_gated(b, gate, up);
    } else {
        up = lm_dense_linear(b, layer, LM_FFN_UP, x);
        up = up && up->ne[0] == 2 * (size_t)b->h->n_ff ? lm_dense_gated(b, lm_dense_half(b, up, 0),
                                                                      lm_dense_half(b, up, 1))
                                                       : activate(b, layer, up);
    }
    up = lm_dense_norm(b, layer, LM_FFN_SUB_NORM, up);
    return lm_dense_linear(b, layer, LM_FFN_DOWN, up);
}

/* x: what comes in, y: its norm. */
static struct lm_tensor *feed_forward(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                      struct lm_tensor *y)
{
    if (b->arch->dense->feed)
        return b->arch->dense->feed(b, layer, x, y);
    return lm_build_weight(b, layer, LM_ROUTER) ? experts(b, layer, y)
                                                : lm_dense_feed(b, layer, y);
}

static struct lm_tensor *add_scaled(struct lm_build *b, struct lm_tensor *x, struct lm_tensor *y)
{
    if (b->h->residual_scale > 0)
        y = lm_scale(b->graph, y, b->h->residual_scale);
    return lm_add(b->graph, x, y);
}

struct lm_tensor *lm_dense_embed(struct lm_build *b)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *x = lm_get_rows(g, lm_build_weight(b, 0, LM_TOKEN_EMBD), b->ids);
    if (b->h->embd_scale > 0)
        x = lm_scale(g, x, b->h->embd_scale);
    if (b->arch->dense->learned_positions)
        x = lm_add(g, x, lm_get_rows(g, lm_build_weight(b, 0, LM_POS_EMBD), b->pos));
    struct lm_tensor *types = lm_build_weight(b, 0, LM_TYPE_EMBD);
    if (types)
        x = lm_add(g, x, b->texts ? lm_get_rows(g, types, b->texts)
                                  : lm_view(g, types, 1, (size_t[]){ types->ne[0] }, NULL, 0));
    return lm_dense_norm(b, 0, LM_EMBD_NORM, x);
}

int lm_dense_head(struct lm_build *b, struct lm_tensor *x)
{
    return lm_dense_logits(b, 0, LM_OUTPUT, lm_dense_norm(b, 0, LM_OUTPUT_NORM, x));
}

int lm_dense_logits(struct lm_build *b, uint32_t layer, enum lm_role w, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    b->logits = b->embed ? x : lm_dense_linear(b, layer, w, x);
    if (h->logit_scale > 0 && !b->embed)
        b->logits = lm_scale(g, b->logits, b->arch->dense->divide_logits ? 1 / h->logit_scale
                                                                          : h->logit_scale);
    if (h->logit_cap > 0 && !b->embed)
        b->logits = lm_softcap(g, b->logits, h->logit_cap);
    if (b->logits)
        b->logits->flags |= LM_TENSOR_OUTPUT;
    return lm_graph_expand(g, b->logits);
}

/* A layer without attention or states. */
static struct lm_tensor *only_feed(struct lm_build *b, uint32_t i, struct lm_tensor *x, bool last)
{
    if (last && b->n_out == 0) {
        lm_graph_expand(b->graph, x);           /* what it comes from is remembered */
        return NULL;
    }
    if (last && b->n_out < b->n_tokens && !b->every_row)
        x = lm_get_rows(b->graph, x, b->wanted);
    return add_scaled(b, x, feed_forward(b, i, x, lm_dense_norm(b, i, LM_ATTN_NORM, x)));
}

struct lm_tensor *lm_dense_layer(struct lm_build *b, uint32_t i, struct lm_tensor *x,
                                 struct lm_tensor *table)
{
    struct lm_graph *g = b->graph;
    bool last = is_last(b, i), parallel = b->h->parallel;
    if (b->h->has_fed && lm_arch_feeds(b->h, i))
        return only_feed(b, i, x, last);
    struct lm_tensor *n = lm_dense_norm(b, i, LM_ATTN_NORM, x), *in = n;
    if (lm_build_weight(b, i, LM_ATTN_NORM_2))
        in = lm_dense_norm(b, i, LM_ATTN_NORM_2, x);
    struct lm_tensor *y[2];
    mix(b, i, in, table, last && b->n_out == 0, y);
    if (last && b->n_out == 0)
        return NULL;
    if (last && b->n_out < b->n_tokens && !b->every_row) {
        y[0] = y[0] ? lm_get_rows(g, y[0], b->wanted) : NULL;
        y[1] = y[1] ? lm_get_rows(g, y[1], b->wanted) : NULL;
        x = lm_get_rows(g, x, b->wanted);
        n = parallel ? lm_get_rows(g, n, b->wanted) : n;
    }
    struct lm_tensor *a = lm_dense_norm(b, i, LM_POST_ATTN_NORM, mixed(b, i, y));
    if (parallel) {
        if (lm_build_weight(b, i, LM_FFN_NORM))
            n = lm_dense_norm(b, i, LM_FFN_NORM, x);
        return add_scaled(b, x, lm_add(g, a, feed_forward(b, i, x, n)));
    }
    a = lm_dense_norm(b, i, LM_ATTN_OUT_NORM, add_scaled(b, x, a));
    x = lm_build_weight(b, i, LM_ATTN_AGAIN_NORM)
            ? lm_dense_norm(b, i, LM_ATTN_AGAIN_NORM, lm_add(g, x, a)) : a;
    if (b->h->has_fed ||
        (!lm_arch_has(b->arch, LM_FFN_UP) && !lm_arch_has(b->arch, LM_ROUTER)))
        return x;
    n = feed_forward(b, i, x, lm_dense_norm(b, i, LM_FFN_NORM, x));
    x = add_scaled(b, x, lm_dense_norm(b, i, LM_POST_FFN_NORM, n));
    return lm_dense_norm(b, i, LM_LAYER_OUT_NORM, x);
}

struct lm_tensor *lm_dense_classify(struct lm_build *b, struct lm_tensor *x)
{
    if (lm_build_weight(b, 0, LM_CLS)) {
        x = lm_dense_linear(b, 0, LM_CLS, x);
        x = lm_build_weight(b, 0, LM_CLS_NORM)
                ? lm_dense_norm(b, 0, LM_CLS_NORM, lm_gelu_erf(b->graph, x))
            : b->h->class_relu ? lm_relu(b->graph, x)
                               : lm_softcap(b->graph, x, 1);               /* tanh */
    }
    return lm_dense_linear(b, 0, LM_CLS_OUT, x);
}

struct lm_tensor *lm_dense_project(struct lm_build *b, struct lm_tensor *x)
{
    static const enum lm_role parts[] = { LM_DENSE_2, LM_DENSE_3 };
    for (size_t i = 0; i < 2 && x; i++) {
        const struct lm_tensor *w = lm_build_weight(b, 0, parts[i]);
        if (w && w->ne[0] != x->ne[0]) {
            lm_fail(&b->graph->err, LM_EDATA, "%s: %zu columns for vectors of %zu",
                    w->name, w->ne[0], x->ne[0]);
            return NULL;
        }
        x = w ? lm_dense_linear(b, 0, parts[i], x) : x;
    }
    return x;
}

int lm_dense_build(struct lm_build *b)
{
    const struct lm_hparams *h = b->h;
    const struct lm_dense *d = b->arch->dense;
    if (b->draft)
        return lm_draft_build(b);
    struct lm_tensor *tables[2], *x = lm_dense_embed(b);
    struct lm_hparams room;
    lm_dense_tables(b, tables);
    if (h->alibi > 0)
        b->distances = slopes(b);
    if (d->begin)
        d->begin(b, x);
    for (uint32_t i = 0; i < h->n_layer && x; i++) {
        b->h = lm_arch_layer(b->arch, h, i, &room);
        x = lm_dense_layer(b, i, x, lm_dense_table_of(b, i, tables));
        x = lm_build_steer(b, i, x && d->after ? d->after(b, i, x) : x);
    }
    b->h = h;
    if (!x)
        return b->graph->err.code;
    if (b->keep_hidden)
        return lm_draft_keep(b, x);
    if (b->every_row && b->n_out < b->n_tokens)
        x = lm_get_rows(b->graph, x, b->wanted);
    return lm_dense_head(b, x);
}
