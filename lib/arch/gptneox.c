/* SPDX-License-Identifier: MIT */
/* GPT-NeoX and Pythia (Black et al., 2022): layer norms, exact GELU, biases everywhere, part of a
 * head rotated, attention and feed-forward side by side with a norm each. */
#include "arch/dense.h"
#include "arch/rows.h"

#define NEOX "gpt_neox.layers.{i}."

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    LM_KEY_FF,
    LM_KEY_ROT("rotary_pct", "partial_rotary_factor", "=0.25"),
    LM_KEY_HEADS,
    LM_KEY_PARALLEL("=true"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_BASE_UNUSUAL,
    LM_KEY_ACT("hidden_act", "=gelu"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("gpt_neox.embed_in.weight"),
    LM_T_OUTPUT("embed_out.weight"),
    LM_T_OUTPUT_NORM("gpt_neox.final_layer_norm.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("gpt_neox.final_layer_norm.bias"),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", NEOX "input_layernorm.weight"),
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", NEOX "input_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", NEOX "post_attention_layernorm.weight"),
    LM_T_MAYBE(LM_FFN_NORM_B, "ffn_norm.bias", NEOX "post_attention_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", NEOX "attention.query_key_value.weight",
                LM_DIM_EMBD, LM_DIM_QKV, LM_SPLIT_QKV_ROWS),
    LM_T_MAYBE(LM_ATTN_QKV_B, "attn_qkv.bias", NEOX "attention.query_key_value.bias", LM_DIM_QKV,
               LM_SPLIT_QKV_ROWS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", NEOX "attention.dense.weight",
                LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_OUT_B, "attn_output.bias", NEOX "attention.dense.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", NEOX "mlp.dense_h_to_4h.weight",
                LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", NEOX "mlp.dense_h_to_4h.bias", LM_DIM_FF,
               LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", NEOX "mlp.dense_4h_to_h.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", NEOX "mlp.dense_4h_to_h.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "GPTNeoXForCausalLM", NULL };
static const char *const ignored[] = {
    NEOX "attention.bias", NEOX "attention.masked_bias", NEOX "attention.rotary_emb.inv_freq", NULL
};
static const char *const pre_names[] = { "gpt-2", "olmo", NULL };
static const struct lm_arch_need needs[] = {
    { "rotary_emb_base", { "10000", "10000.0" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .rope_halves = true,
};

const struct lm_arch lm_arch_gptneox = {
    .name = "gptneox", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .needs = needs,
};
