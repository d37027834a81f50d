/* SPDX-License-Identifier: MIT */
/* Jais 2 (MBZUAI and Inception, 2025): llama with layer norms, a squared ReLU without a gate, and
 * biases. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT("=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_LAYER_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm"),
    LM_T_ATTN_B(LM_AS_IS, LM_AS_IS),
    LM_T_LAYER_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "post_attention_layernorm"),
    LM_T_UP_DOWN,
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", LM_HF "mlp.up_proj.bias", LM_DIM_FF, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", LM_HF "mlp.down_proj.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Jais2ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_RELU2, .rope_halves = true,
};

const struct lm_arch lm_arch_jais2 = {
    .name = "jais2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
