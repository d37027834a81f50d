/* SPDX-License-Identifier: MIT */
/*
 * DeepSeek-V3.2 (DeepSeek-AI, 2025) and GLM-5 (Z.ai, 2026): DeepSeek-V3 whose tokens look at no
 * more than a number of others each, which an indexer of its own chooses.  Position p scores
 *
 *   sum_h w_h max(q_h . k_p, 0)
 *
 * for a token with queries q, a product of the short vector that those of attention are one of
 * too, and weights w; the one key k of a position is normalized, and remembered beside what
 * attention remembers.  Both turn with the position, in DeepSeek's models in pairs of halves.
 * In GLM-5.2 some layers have no indexer and look where the one before them does (arXiv
 * 2603.12201).
 */
#include "arch/latent.h"

/* The norm of keys has this whatever the others have. */
#define INDEX_EPS 1e-6f

/* Files of GLM-5.2 may not say which layers choose.  They are known by the length of their context:
 * the first three, then every fourth. */
#define SHARING_CTX (1u << 20)

#define KEYS \
    LM_KEYS_LATENT(LM_KEY_GATING_SIGMOID, "=3"), \
    LM_KEY_FURTHER_READ, \
    LM_KEY_U32("attention.indexer.head_count", LM_KEY_REQUIRED, index_heads, "index_n_heads"), \
    LM_KEY_U32("attention.indexer.key_length", LM_KEY_REQUIRED, index_len, "index_head_dim"), \
    LM_KEY_U32("attention.indexer.top_k", LM_KEY_REQUIRED, index_top, "index_topk")

static const struct lm_arch_key deepseek_keys[] = { KEYS, LM_KEYS_END };
static const struct lm_arch_key glm_keys[] = {
    KEYS,
    { "attention.indexer.types", LM_GGUF_ARR, 0, LM_FROM_INDEXED_LAYERS, { NULL }, 0 },
    LM_KEYS_END,
};

#define INDEXER LM_TENSOR_OWN_CHOICE

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_LATENT(0),
    LM_L_VECTOR(LM_INDEX_NORM, "indexer.k_norm.weight", "self_attn.indexer.k_norm.weight",
                LM_DIM_INDEX, INDEXER),
    LM_L_VECTOR(LM_INDEX_NORM_B, "indexer.k_norm.bias", "self_attn.indexer.k_norm.bias",
                LM_DIM_INDEX, INDEXER),
    LM_L_MATRIX(LM_INDEX_SHARES, "indexer.proj", "self_attn.indexer.weights_proj", LM_DIM_EMBD,
                LM_DIM_INDEX_HEADS, INDEXER),
    LM_L_MATRIX(LM_INDEX_K, "indexer.attn_k", "self_attn.indexer.wk", LM_DIM_EMBD, LM_DIM_INDEX,
                INDEXER),
    LM_L_MATRIX(LM_INDEX_Q, "indexer.attn_q_b", "self_attn.indexer.wq_b", LM_DIM_Q_RANK,
                LM_DIM_INDEX_ALL, INDEXER),
    LM_T_LATENT_FEED("mlp.", "gate_proj", "up_proj", "down_proj"),
    LM_T_END,
};

/* Which layers choose, where the file does not say it. */
static void settle_layers(const struct lm_arch *a, struct lm_hparams *h)
{
    const bool shared = lm_arch_reads(a, "attention.indexer.types") &&
                        h->n_ctx_train >= SHARING_CTX;
    for (uint32_t i = 0; i < h->n_layer && i < LM_MAX_LAYERS && !h->has_indexed; i++)
        if (!shared || i < 2 || i % 4 == 2)
            h->indexed[i / 64] |= UINT64_C(1) << i % 64;
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r;
    if (h->n_further >= h->n_layer)
        return lm_fail(err, LM_EDATA, "%s.nextn_predict_layers: %u of %u layers", a->name,
                       h->n_further, h->n_layer);
    h->n_layer -= h->n_further;             /* those behind the last are not run */
    h->n_further = 0;
    if ((r = lm_dense_need(a, "attention.indexer.head_count", h->index_heads, 1 << 12, err)) ||
        (r = lm_dense_need(a, "attention.indexer.key_length", h->index_len, 1 << 12, err)) ||
        (r = lm_dense_need(a, "attention.indexer.top_k", h->index_top, 1 << 30, err)) ||
        (r = lm_dense_need(a, "attention.q_lora_rank", h->q_rank, 1 << 20, err)) ||
        (r = lm_latent_settle(a, h, err)))
        return r;
    if (h->n_rot > h->index_len)
        return lm_fail(err, LM_EDATA, "%s.attention.indexer.key_length: %u, and %u of it turn",
                       a->name, h->index_len, h->n_rot);
    settle_layers(a, h);
    return lm_arch_chooses(h, 0) ? LM_OK
               : lm_fail(err, LM_EDATA, "%s.attention.indexer.types: the first layer has none "
                         "before it to share with", a->name);
}

/* Rotations of DeepSeek's indexer: the layers', in pairs of halves. */
static void begin(struct lm_build *b, struct lm_tensor *x)
{
    struct lm_rope rope = lm_build_rope(b);
    (void)x;
    rope.halves = true;
    b->index_table = lm_rope_table(b->graph, b->angle, NULL, NULL, NULL, &rope);
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t n)
{
    return x ? lm_reshape(b->graph, x, 3, (size_t[]){ b->h->index_len, n, b->n_tokens }) : NULL;
}

/* Remember the layer's keys and choose by them. */
static void choose(struct lm_build *b, uint32_t layer, struct lm_tensor *query,
                   struct lm_tensor *x, struct lm_tensor *table)
{
    const uint32_t at = b->h->n_layer + layer;
    struct lm_graph *g = b->graph;
    struct lm_tensor *k = lm_dense_linear(b, layer, LM_INDEX_K, x);
    k = lm_layer_norm(g, k, lm_build_weight(b, layer, LM_INDEX_NORM),
                      lm_build_weight(b, layer, LM_INDEX_NORM_B), INDEX_EPS);
    k = lm_rope(g, heads(b, k, 1), table);
    struct lm_tensor *pages = lm_build_pages(b, at);
    struct lm_tensor *stored = lm_kv_store(g, k, NULL, pages, b->pos, &b->places[at].kv);
    if (stored)
        lm_graph_expand(g, stored);             /* what is looked at or not */
    if (b->n_ctx <= b->h->index_top)
        return;
    struct lm_tensor *q = heads(b, lm_dense_linear(b, layer, LM_INDEX_Q, query),
                                b->h->index_heads);
    b->chosen = lm_choose(g, lm_rope(g, q, table), lm_dense_linear(b, layer, LM_INDEX_SHARES, x),
                          pages, b->pos, stored, &b->places[at].kv, b->h->index_top, b->n_ctx);
}

static void qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                struct lm_tensor *out[4])
{
    struct lm_tensor *query = lm_latent_query(b, layer, x);
    if (lm_arch_chooses(b->h, layer))
        choose(b, layer, query, x, b->index_table ? b->index_table : table);
    lm_latent_qkv_of(b, layer, query, x, table, out);
}

static const char *const glm_classes[] = { "GlmMoeDsaForCausalLM", NULL };
static const char *const deepseek_classes[] = { "DeepseekV32ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense glm = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = qkv, .values = lm_latent_values,
};
static const struct lm_dense deepseek = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = qkv, .values = lm_latent_values, .begin = begin,
};

const struct lm_arch lm_arch_glm_dsa = {
    .name = "glm-dsa", .hf_classes = glm_classes, .keys = glm_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = settle, .build = lm_dense_build,
    .dense = &glm,
};

const struct lm_arch lm_arch_deepseek32 = {
    .name = "deepseek32", .hf_classes = deepseek_classes, .keys = deepseek_keys,
    .tensors = tensors, .ignored = ignored, .more_layers = true, .settle = settle,
    .build = lm_dense_build, .dense = &deepseek,
};
