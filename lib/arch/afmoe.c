/* SPDX-License-Identifier: MIT */
/* Trinity (Arcee AI, 2025): norms before and after, weighted values gated, experts chosen by
 * sigmoids with a preference added and one that all tokens share; only layers with a window
 * rotate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEY_GATING_SIGMOID,
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts", "=2"),
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "num_dense_layers", "=1"),
    LM_KEY_EXPERTS_NORM_AS("route_norm", "=true"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "route_scale", "=1"),
    LM_KEY_WINDOW,
    LM_KEY_LOCAL_LAYERS,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM(LM_POST_ATTN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_GATE, "attn_gate", LM_HF "self_attn.gate_proj.weight", LM_DIM_EMBD,
                LM_DIM_HEADS_OUT, LM_AS_IS),
    LM_T_O,
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "pre_mlp_layernorm.weight"),
    LM_T_NORM(LM_POST_FFN_NORM, "post_ffw_norm", LM_HF "post_mlp_layernorm.weight"),
    LM_T_DENSE_OR_EXPERTS_OF("router.gate", "shared_experts"),
    LM_T_PREFERENCE("mlp.expert_bias"),
    LM_T_END,
};

static const char *const classes[] = { "AfmoeForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "mup_enabled", { "true" }, NULL },
    { "attention_bias", { "false" }, NULL },
    { "score_func", { "sigmoid" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .all_every = 4,
    .all_unturned = true, .constants = lm_dense_scale_embd,
};

const struct lm_arch lm_arch_afmoe = {
    .name = "afmoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
