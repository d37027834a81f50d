/* SPDX-License-Identifier: MIT */
/*
 * DeepSeek-V3.2 (DeepSeek-AI, 2025) and GLM-5 (Z.ai, 2026): DeepSeek-V3 whose tokens look at no
 * more than a number of others each, which an indexer of its own chooses.  While there are no more
 * than that a token looks at all of them, and so far they are run; the indexer's weights are kept.
 */
#include "arch/latent.h"

#define KEYS \
    LM_KEYS_LATENT(LM_KEY_U32("expert_gating_func", 0, gating, "=2"), "=3"), \
    { "nextn_predict_layers", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(n_further) }, \
    LM_KEY_U32("attention.indexer.head_count", LM_KEY_REQUIRED, index_heads, "index_n_heads"), \
    LM_KEY_U32("attention.indexer.key_length", LM_KEY_REQUIRED, index_len, "index_head_dim"), \
    LM_KEY_U32("attention.indexer.top_k", LM_KEY_REQUIRED, index_top, "index_topk"), \
    LM_KEYS_END

static const struct lm_arch_key keys[] = { KEYS };

/* Layers may choose what one before them has chosen, and have no indexer. */
#define INDEXER LM_TENSOR_OPTIONAL

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
        (r = lm_latent_settle(a, h, err)))
        return r;
    h->near_ctx = h->index_top;
    return LM_OK;
}

static const char *const classes[] = { "GlmMoeDsaForCausalLM", NULL };
static const char *const deepseek_classes[] = { "DeepseekV32ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = lm_latent_qkv, .values = lm_latent_values,
};

const struct lm_arch lm_arch_glm_dsa = {
    .name = "glm-dsa", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = settle, .build = lm_dense_build,
    .dense = &dense,
};

const struct lm_arch lm_arch_deepseek32 = {
    .name = "deepseek32", .hf_classes = deepseek_classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = settle, .build = lm_dense_build,
    .dense = &dense,
};
