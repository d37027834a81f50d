/* SPDX-License-Identifier: MIT */
/* StarCoder 2 (Lozhkov et al., 2024): layer norms, plain GELU, biases everywhere. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEY_WINDOW,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_TWO_NORMS,
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", LM_HF "input_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MAYBE(LM_FFN_NORM_B, "ffn_norm.bias", LM_HF "post_attention_layernorm.bias",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_ATTN_B(LM_AS_IS, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "mlp.c_fc.weight",
                LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", LM_HF "mlp.c_fc.bias", LM_DIM_FF,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.c_proj.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", LM_HF "mlp.c_proj.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Starcoder2ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smollm", "starcoder", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .rope_halves = true,
};

const struct lm_arch lm_arch_starcoder2 = {
    .name = "starcoder2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
