/* SPDX-License-Identifier: MIT */
/* Qwen2 (Yang et al., 2024): llama with biases of queries, keys and values. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_POOLING,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define TENSORS(attn_norm, ffn_norm) \
    LM_T_ENDS, \
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF attn_norm), \
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF ffn_norm), \
    LM_T_QKV(LM_AS_IS, LM_AS_IS), \
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS), \
    LM_T_O, \
    LM_T_GATED, \
    LM_T_END

static const struct lm_arch_tensor tensors[] = {
    TENSORS("input_layernorm.weight", "post_attention_layernorm.weight")
};

static const char *const classes[] = { "Qwen2ForCausalLM", "Qwen2Model", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_qwen2 = {
    .name = "qwen2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

/* KORMo (Kim et al., 2025) has no biases, and other names for its norms. */
static const struct lm_arch_tensor kormo_tensors[] = {
    TENSORS("pre_attention_layernorm.weight", "pre_mlp_layernorm.weight")
};
static const char *const kormo_classes[] = { "KORMoForCausalLM", NULL };
static const char *const kormo_pre_names[] = { "qwen2", "kormo", NULL };

const struct lm_arch lm_arch_kormo = {
    .name = "qwen2", .hf_classes = kormo_classes, .keys = keys, .tensors = kormo_tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = kormo_pre_names,
};
