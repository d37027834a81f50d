/* SPDX-License-Identifier: MIT */
/* Phi-2 (2023): layer norms, attention and feed-forward side by side, part of a head rotated,
 * biases everywhere. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_FF_4,
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "num_attention_heads"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_ROT("partial_rotary_factor", "=0.5"),
    LM_KEY_FILE_TYPE,
    { "tokenizer.ggml.add_bos_token", LM_GGUF_BOOL, LM_KEY_UNUSED, LM_FROM_CONFIG,
      { "=false" }, 0 },
    LM_KEY_BASE_UNUSUAL,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_B("lm_head.bias"),
    LM_T_OUTPUT_NORM("model.final_layernorm.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("model.final_layernorm.bias"),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", LM_HF "input_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", LM_HF "self_attn.dense.weight",
                LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_OUT_B, "attn_output.bias", LM_HF "self_attn.dense.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "mlp.fc1.weight",
                LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", LM_HF "mlp.fc1.bias", LM_DIM_FF,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.fc2.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", LM_HF "mlp.fc2.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "PhiForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "gpt-2", "phi-2", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .rope_halves = true, .constants = lm_dense_parallel,
};

const struct lm_arch lm_arch_phi2 = {
    .name = "phi2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
