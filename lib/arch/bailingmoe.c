/* SPDX-License-Identifier: MIT */
/*
 * Ling and Ring (Ling Team, 2025): llama with experts and one that all tokens share.  Version 2
 * chooses them by sigmoids with a preference added, in groups, normalizes queries and keys, and
 * rotates half of a head.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#define DENSE_FIRST \
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "first_k_dense_replace", "=0")
#define SHARED LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts")
#define WEIGHTS_NORM LM_KEY_EXPERTS_NORM_AS("norm_topk_prob", "=true")
#define ENDS \
    LM_T_EMBD("model.word_embeddings.weight"), LM_T_OUTPUT("lm_head.weight"), \
    LM_T_OUTPUT_NORM("model.norm.weight", LM_AS_IS)
#define FUSED LM_HF "attention.query_key_value.weight"
#define OUT \
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", LM_HF "attention.dense.weight", LM_DIM_HEADS_OUT, \
                LM_DIM_EMBD, LM_AS_IS)

static const char *const ignored[] = { LM_HF "attention.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "use_bias", { "false" }, NULL },
    { "use_qkv_bias", { "false" }, NULL },
    { "norm_head", { "false" }, NULL },
    { "norm_softmax", { "false" }, NULL },
    { "score_function", { "sigmoid" }, NULL },
    { NULL, { NULL }, NULL },
};

/* --- version 1 -------------------------------------------------------------------------- */

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT("=1"),
    DENSE_FIRST,
    LM_KEY_VOCAB,
    LM_KEY_EXPERT_FF,
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "=1"),
    SHARED,
    WEIGHTS_NORM,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    ENDS,
    LM_T_TWO_NORMS,
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", FUSED, LM_DIM_EMBD, LM_DIM_Q, LM_PACKED_Q),
    LM_T_MATRIX(LM_ATTN_K, "attn_k", FUSED, LM_DIM_EMBD, LM_DIM_K, LM_PACKED_K),
    LM_T_MATRIX(LM_ATTN_V, "attn_v", FUSED, LM_DIM_EMBD, LM_DIM_V, LM_PACKED_V),
    OUT,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_END,
};

static const char *const classes[] = { "BailingMoeForCausalLM", NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_bailingmoe = {
    .name = "bailingmoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};

/* --- version 2 -------------------------------------------------------------------------- */

static const struct lm_arch_key keys_2[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_EXPERT_GROUPS,
    LM_KEY_GATING_SIGMOID,
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT("partial_rotary_factor", "=0.5"),
    DENSE_FIRST,
    LM_KEY_VOCAB,
    LM_KEY_EXPERT_FF,
    LM_KEY_SHARED_FF("moe_intermediate_size", "num_shared_experts"),
    LM_KEY_U32("expert_shared_feed_forward_length", 0, n_ff_shared,
               "moe_shared_expert_intermediate_size"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor", "=1"),
    SHARED,
    WEIGHTS_NORM,
    LM_KEY_FURTHER_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors_2[] = {
    ENDS,
    LM_T_TWO_NORMS,
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", FUSED, LM_DIM_EMBD, LM_DIM_QKV, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "attention.query_layernorm.weight",
                LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_K_NORM, "attn_k_norm.weight", LM_HF "attention.key_layernorm.weight",
                LM_DIM_HEAD_K, LM_AS_IS),
    OUT,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.gate.expert_bias"),
    LM_T_END,
};

static const char *const classes_2[] = { "BailingMoeV2ForCausalLM", NULL };
static const struct lm_dense dense_2 = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_bailingmoe2 = {
    .name = "bailingmoe2", .hf_classes = classes_2, .keys = keys_2, .tensors = tensors_2,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense_2, .needs = needs,
};
