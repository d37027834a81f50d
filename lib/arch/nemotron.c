/* SPDX-License-Identifier: MIT */
/* Nemotron (Parmar et al., 2024): layer norms of 1 + w, squared ReLU, part of a head rotated. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=10000"),
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_UNUSED, norm_eps, "norm_eps", "=1e-5"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_ROT("partial_rotary_factor", "=0.5"),
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_ROPE_OR_NONE, { NULL },
      LM_FIELD(rope_scaling) },
    { "rope.scaling.factor", LM_GGUF_F32, 0, LM_FROM_ROPE_LINEAR, { "factor" },
      LM_FIELD(rope_factor) },
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_NORM_1(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM_1(LM_FFN_NORM, "ffn_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", LM_HF "input_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MAYBE(LM_FFN_NORM_B, "ffn_norm.bias", LM_HF "post_attention_layernorm.bias",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_ATTN_B(LM_AS_IS, LM_AS_IS),
    LM_T_UP_DOWN,
    LM_T_END,
};

static const char *const classes[] = { "NemotronForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_token tokens[] = {
    { "padding_token_id", NULL, 0 },
    { "unknown_token_id", NULL, 1 },
    { NULL, NULL, 0 },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_RELU2, .rope_halves = true,
};

const struct lm_arch lm_arch_nemotron = {
    .name = "nemotron", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .tokens = tokens,
};
