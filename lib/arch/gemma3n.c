/* SPDX-License-Identifier: MIT */
/*
 * Gemma 3n (Gemma Team, 2025): a token has several hidden states, of which a layer reads one and
 * changes all (Baykal et al., "Alternating Updates", 2023).  With h [n_embd] each, m(x) = tanh(R
 * norm(x) / n_embd) and matrices P and C of a layer:
 *
 *   p_j = h_j + sum_i (P m(h_a))_ji h_i          what is expected, from the active one, h_a
 *   x   = layer(p_a)
 *   h_j = p_j + (1 + (C m(x))_j) (x - p_a)       set right by what the layer has found
 *
 * and then all but the first get the layer's own input (layer_input.h).  Beside attention there is
 * a way of low rank; some layers keep only the largest of their gates; the last layers look at the
 * keys and values of others.
 */
#include "arch/layer_input.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    { "feed_forward_length", LM_GGUF_ARR, LM_KEY_REQUIRED, LM_FROM_FF_OF_LAYERS,
      { "intermediate_size" }, 0 },
    LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=1000000"),
    LM_KEY_BASE_LOCAL("rope_local_base_freq", "=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_WINDOW,
    LM_KEY_F32("final_logit_softcapping", 0, logit_cap, "final_logit_softcapping", "=30"),
    LM_KEY_U32("altup.active_idx", 0, active, "altup_active_idx", "=0"),
    LM_KEY_U32("altup.num_inputs", LM_KEY_REQUIRED, n_streams, "altup_num_inputs", "=4"),
    LM_KEY_EMBD_LAYER,
    LM_KEY_SHARED_KV,
    { "activation_sparsity_scale", LM_GGUF_ARR, 0, LM_FROM_SPARSE_LAYERS,
      { "activation_sparsity_pattern" }, 0 },
    LM_KEY_LOCAL_LAYERS,
    { "laurel_rank", LM_GGUF_U32, 0, LM_FROM_UNLESS, { "laurel_rank", "=64" },
      LM_FIELD(laurel_rank) },
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define KV(role, name, source, ne0, ne1, flags) \
    { "blk.{i}." name ".weight", LM_HF "self_attn." source ".weight", { ne0, ne1 }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_OWN_KV | flags, LM_AS_IS, 0, role, NULL }
#define STREAM(role, name, source, ne0, ne1) \
    LM_T_MATRIX(role, name, LM_HF source ".weight", ne0, ne1, LM_AS_IS)
#define STREAMS(role, name, source) \
    { name ".weight", source ".{e}.weight", { LM_DIM_EMBD, LM_DIM_EMBD, LM_DIM_FURTHER_STREAMS }, \
      LM_TENSOR_HEADS, LM_STACK, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT(NULL),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_AS_IS),
    LM_T_LAYER_INPUTS,
    STREAMS(LM_STREAM_PROJ, "altup_proj", "model.altup_projections"),
    STREAMS(LM_STREAM_UNPROJ, "altup_unembd_proj", "model.altup_unembed_projections"),
    STREAM(LM_STREAM_CORRECT, "altup_correct_coef", "altup.correction_coefs", LM_DIM_STREAMS,
           LM_DIM_STREAMS),
    LM_T_VECTOR(LM_STREAM_SCALE, "altup_correct_scale.weight",
                LM_HF "altup.correct_output_scale", LM_DIM_EMBD, LM_AS_IS),
    STREAM(LM_STREAM_PREDICT, "altup_predict_coef", "altup.prediction_coefs", LM_DIM_STREAMS,
           LM_DIM_STREAM_PAIRS),
    STREAM(LM_STREAM_ROUTER, "altup_router", "altup.modality_router", LM_DIM_EMBD,
           LM_DIM_STREAMS),
    LM_T_NORM(LM_STREAM_NORM, "altup_router_norm", LM_HF "altup.router_norm.weight"),
    STREAM(LM_LAUREL_L, "laurel_l", "laurel.linear_left", LM_DIM_EMBD, LM_DIM_LAUREL),
    STREAM(LM_LAUREL_R, "laurel_r", "laurel.linear_right", LM_DIM_LAUREL, LM_DIM_EMBD),
    LM_T_NORM(LM_LAUREL_NORM, "laurel_post_norm", LM_HF "laurel.post_laurel_norm.weight"),
    LM_T_FOUR_NORMS(LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", LM_HF "self_attn.q_proj.weight", LM_DIM_EMBD, LM_DIM_Q,
                LM_AS_IS),
    KV(LM_ATTN_K, "attn_k", "k_proj", LM_DIM_EMBD, LM_DIM_K, LM_TENSOR_MATRIX),
    KV(LM_ATTN_V, "attn_v", "v_proj", LM_DIM_EMBD, LM_DIM_V, LM_TENSOR_MATRIX),
    LM_T_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "self_attn.q_norm.weight",
                LM_DIM_HEAD_K, LM_AS_IS),
    KV(LM_ATTN_K_NORM, "attn_k_norm", "k_norm", LM_DIM_HEAD_K, LM_DIM_END, 0),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

/* --- the graph -------------------------------------------------------------------------- */

/* Hidden state i of all [n_embd, n_streams, n]: [n_embd, n]. */
static struct lm_tensor *stream(struct lm_build *b, struct lm_tensor *all, size_t i)
{
    return all ? lm_view(b->graph, all, 2, (size_t[]){ all->ne[0], all->ne[2] },
                         (size_t[]){ 4, all->nb[2] }, i * all->nb[1]) : NULL;
}

/* All but the first: [n_embd, n_streams - 1, n]. */
static struct lm_tensor *further(struct lm_build *b, struct lm_tensor *all)
{
    return all ? lm_view(b->graph, all, 3,
                         (size_t[]){ all->ne[0], b->h->n_streams - 1, all->ne[2] },
                         (size_t[]){ 4, all->nb[1], all->nb[2] }, all->nb[1]) : NULL;
}

/* The same x [n_embd, n] for `many` hidden states. */
static struct lm_tensor *alike(struct lm_build *b, struct lm_tensor *x, size_t many)
{
    return x ? lm_view(b->graph, x, 3, (size_t[]){ x->ne[0], many, x->ne[1] },
                       (size_t[]){ 4, 0, x->nb[1] }, 0) : NULL;
}

/* A first hidden state [n_embd, n] and others [n_embd, n_streams - 1, n] behind it. */
static struct lm_tensor *joined(struct lm_build *b, struct lm_tensor *x, struct lm_tensor *others)
{
    struct lm_graph *g = b->graph;
    if (!x || !others)
        return NULL;
    const size_t len = x->ne[0], n = x->ne[1], many = others->ne[1];
    x = lm_concat(g, lm_view(g, x, 3, (size_t[]){ len, 1, n }, (size_t[]){ 4, x->nb[1], x->nb[1] },
                             0),
                  lm_reshape(g, others, 3, (size_t[]){ len * many, 1, n }));
    return lm_reshape(g, x, 3, (size_t[]){ len, many + 1, n });
}

/* tanh(R norm(x) / n_embd) [n_streams, n]. */
static struct lm_tensor *mode(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    x = lm_scale(b->graph, lm_dense_norm(b, layer, LM_STREAM_NORM, x), 1 / (float)b->h->n_embd);
    return lm_softcap(b->graph, lm_dense_linear(b, layer, LM_STREAM_ROUTER, x), 1);
}

/* For each hidden state x [n_embd, k, n] weighted by its k of the coefficients c [k n_streams, n]:
 * [n_embd, n_streams, n]. */
static struct lm_tensor *weighted(struct lm_build *b, struct lm_tensor *x, struct lm_tensor *c)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *all = NULL;
    if (!x || !c)
        return NULL;
    const size_t k = x->ne[1], n = x->ne[2], len = x->ne[0];
    for (size_t j = 0; j < b->h->n_streams; j++) {
        struct lm_tensor *w = lm_view(g, c, 2, (size_t[]){ k, n }, (size_t[]){ 4, c->nb[1] },
                                      4 * j * k);
        struct lm_tensor *y = lm_reshape(g, lm_weighted_sum(g, x, w), 3, (size_t[]){ len, 1, n });
        all = j ? lm_concat(g, all, y) : y;
    }
    return lm_reshape(g, all, 3, (size_t[]){ len, b->h->n_streams, n });
}

static struct lm_tensor *predict(struct lm_build *b, uint32_t layer, struct lm_tensor *all)
{
    struct lm_tensor *m = mode(b, layer, stream(b, all, b->h->active));
    m = weighted(b, all, lm_dense_linear(b, layer, LM_STREAM_PREDICT, m));
    return lm_add(b->graph, m, all);
}

static struct lm_tensor *correct(struct lm_build *b, uint32_t layer, struct lm_tensor *all,
                                 struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *c = lm_dense_linear(b, layer, LM_STREAM_CORRECT, mode(b, layer, x));
    x = lm_add(g, x, lm_scale(g, stream(b, all, b->h->active), -1));
    c = x ? weighted(b, lm_reshape(g, x, 3, (size_t[]){ x->ne[0], 1, x->ne[1] }), c) : NULL;
    return lm_add(g, all, lm_add(g, c, alike(b, x, b->h->n_streams)));
}

/* What the layer makes of the active hidden state. */
static struct lm_tensor *run(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                             struct lm_tensor *table)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *n = lm_dense_norm(b, layer, LM_ATTN_NORM, x);
    struct lm_tensor *low = lm_dense_linear(b, layer, LM_LAUREL_L, n);
    low = lm_dense_linear(b, layer, LM_LAUREL_R, low);
    low = lm_add(g, n, lm_dense_norm(b, layer, LM_LAUREL_NORM, low));
    struct lm_tensor *a = lm_dense_attend(b, layer, n, table, false);
    a = lm_add(g, x, lm_dense_norm(b, layer, LM_POST_ATTN_NORM, a));
    x = lm_scale(g, lm_add(g, a, low), sqrtf(0.5f));
    n = lm_dense_feed(b, layer, lm_dense_norm(b, layer, LM_FFN_NORM, x));
    return lm_add(g, x, lm_dense_norm(b, layer, LM_POST_FFN_NORM, n));
}

/* All hidden states after a layer. */
static struct lm_tensor *layer_of(struct lm_build *b, uint32_t layer, struct lm_tensor *all,
                                  struct lm_tensor *table)
{
    const size_t more = b->h->n_streams - 1;
    all = predict(b, layer, all);
    all = correct(b, layer, all, run(b, layer, stream(b, all, b->h->active), table));
    struct lm_tensor *x = stream(b, all, b->h->active);
    x = lm_mul(b->graph, x, lm_build_weight(b, layer, LM_STREAM_SCALE));
    x = lm_layer_input(b, layer, x);
    x = lm_add(b->graph, further(b, all), alike(b, x, more));
    return joined(b, stream(b, all, 0), x);
}

/* The mean of all, made as long as the first. */
static struct lm_tensor *meet(struct lm_build *b, struct lm_tensor *all)
{
    const size_t more = b->h->n_streams - 1;
    struct lm_graph *g = b->graph;
    struct lm_tensor *sum = stream(b, all, 0);
    struct lm_tensor *others = lm_mul_mat_heads(g, lm_build_weight(b, 0, LM_STREAM_UNPROJ),
                                                further(b, all));
    others = lm_as_long(g, others, alike(b, sum, more));
    for (size_t i = 0; i < more; i++)
        sum = lm_add(g, sum, stream(b, others, i));
    return lm_scale(g, sum, 1 / (float)b->h->n_streams);
}

static int build(struct lm_build *b)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    struct lm_tensor *tables[2], *x = lm_dense_embed(b);
    struct lm_hparams room;
    lm_dense_tables(b, tables);
    lm_layer_inputs(b, x);
    struct lm_tensor *rep = alike(b, x, h->n_streams - 1);
    struct lm_tensor *all = lm_mul_mat_heads(g, lm_build_weight(b, 0, LM_STREAM_PROJ), rep);
    all = joined(b, x, lm_as_long(g, all, rep));
    for (uint32_t i = 0; i < h->n_layer; i++) {
        b->h = lm_arch_layer(b->arch, h, i, &room);
        struct lm_tensor *table = lm_dense_table_of(b, i, tables);
        const bool end = b->n_out == 0 && i + 1 == h->n_layer - h->n_shared_kv;
        if (end) {
            x = stream(b, predict(b, i, all), h->active);
            lm_dense_attend(b, i, lm_dense_norm(b, i, LM_ATTN_NORM, x), table, true);
            b->h = h;
            return g->err.code;
        }
        all = lm_build_steer(b, i, layer_of(b, i, all, table));
    }
    b->h = h;
    if (b->n_out < b->n_tokens && all) {
        all = lm_reshape(g, all, 2, (size_t[]){ (size_t)h->n_embd * h->n_streams, b->n_tokens });
        all = lm_reshape(g, lm_get_rows(g, all, b->wanted), 3,
                         (size_t[]){ h->n_embd, h->n_streams, b->n_out });
    }
    return lm_dense_head(b, meet(b, all));
}

/* --- numbers ---------------------------------------------------------------------------- */

static void constants(struct lm_hparams *h)
{
    lm_dense_scale_embd(h);
    lm_dense_local_base(h, 10000);
    h->attn_scale = 1;
}

/* Files that do not say it are of models whose first ten layers are sparse, at 0.95. */
static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r = lm_dense_settle(a, h, err);
    if (r)
        return r;
    if (!h->has_sparse) {
        h->sparse_above = 1.6448534f;
        h->sparse[0] = (1 << 10) - 1;
    }
    h->laurel_rank = h->laurel_rank ? h->laurel_rank : 64;
    if ((r = lm_dense_need(a, "altup.num_inputs", h->n_streams, 16, err)) ||
        (r = lm_dense_need(a, "laurel_rank", h->laurel_rank, 1 << 16, err)) ||
        (r = lm_dense_need(a, "embedding_length_per_layer_input", h->n_embd_layer, 1 << 16, err)))
        return r;
    if (h->n_streams < 2 || h->active >= h->n_streams)
        return lm_fail(err, LM_EDATA, "gemma3n.altup.active_idx: %u of %u", h->active,
                       h->n_streams);
    if (h->head_k != h->head_v)
        return lm_fail(err, LM_EDATA, "gemma3n.attention.value_length: %u, keys have %u",
                       h->head_v, h->head_k);
    return LM_OK;
}

static const char *const classes[] = { "Gemma3nForCausalLM", NULL };
static const char *const ignored[] = { "lm_head.weight", NULL };
static const struct lm_arch_need needs[] = {
    { "altup_correct_scale", { "true" }, NULL },
    { "hidden_activation", { "gelu_pytorch_tanh" }, NULL },
    { "tie_word_embeddings", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_GELU, .rope_halves = true, .local_plain = true,
    .all_every = 5,
    .constants = constants, .qkv = lm_shared_qkv,
};

const struct lm_arch lm_arch_gemma3n = {
    .name = "gemma3n", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .build = build, .dense = &dense,
    .tokens = lm_arch_no_space,
    .needs = needs,
};
