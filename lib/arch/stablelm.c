/* SPDX-License-Identifier: MIT */
/* StableLM 2 (Bellagente et al., 2024): layer norms, part of a head rotated; the largest normalizes
 * every head with its own weights and works side by side. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    LM_KEY_FF,
    LM_KEY_ROT("partial_rotary_factor", "rope_pct", "=0.25"),
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_PARALLEL("=false"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_BASE_UNUSUAL,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_MAYBE(LM_FFN_NORM, "ffn_norm.weight", LM_HF "post_attention_layernorm.weight",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_NORM_B, "attn_norm.bias", LM_HF "input_layernorm.bias", LM_DIM_EMBD,
               LM_AS_IS),
    LM_T_MAYBE(LM_FFN_NORM_B, "ffn_norm.bias", LM_HF "post_attention_layernorm.bias",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    { "blk.{i}.attn_q_norm.weight", LM_HF "self_attn.q_layernorm.norms.{h}.weight",
      { LM_DIM_HEAD_K, LM_DIM_HEADS }, LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL, LM_STACK, 0,
      LM_ATTN_Q_NORM, NULL },
    { "blk.{i}.attn_k_norm.weight", LM_HF "self_attn.k_layernorm.norms.{h}.weight",
      { LM_DIM_HEAD_K, LM_DIM_HEADS_KV }, LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL, LM_STACK, 0,
      LM_ATTN_K_NORM, NULL },
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "StableLmForCausalLM", "StableLMEpochForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const char *const pre_names[] = { "qwen2", "stablelm2", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_stablelm = {
    .name = "stablelm", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
