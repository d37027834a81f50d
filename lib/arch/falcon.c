/* SPDX-License-Identifier: MIT */
/* Falcon (Almazrouei et al., 2023): layer norms, exact GELU, attention and feed-forward side by
 * side; the larger models give each a norm of its own. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "=2048"),
    { "tensor_data_layout", LM_GGUF_STR, LM_KEY_UNUSED, LM_FROM_CONFIG, { "=jploski" }, 0 },
    LM_KEY_EMBD,
    LM_KEY_FF_4,
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    { "attention.head_count_kv", LM_GGUF_U32, 0, LM_FROM_KV_HEADS, { "num_kv_heads", "n_head_kv" },
      LM_FIELD(n_head_kv) },
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_BASE_UNUSUAL,
    LM_KEY_ACT("activation", "=gelu"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.word_embeddings.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("transformer.ln_f.bias"),
    { "blk.{i}.attn_norm.weight", "transformer.h.{i}.input_layernorm.weight", { LM_DIM_EMBD },
      LM_TENSOR_PER_LAYER, LM_AS_IS, 0, LM_ATTN_NORM, "transformer.h.{i}.ln_mlp.weight" },
    { "blk.{i}.attn_norm.bias", "transformer.h.{i}.input_layernorm.bias", { LM_DIM_EMBD },
      LM_TENSOR_PER_LAYER, LM_AS_IS, 0, LM_ATTN_NORM_B, "transformer.h.{i}.ln_mlp.bias" },
    LM_T_MAYBE(LM_ATTN_NORM_2, "attn_norm_2.weight", "transformer.h.{i}.ln_attn.weight",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_NORM_2_B, "attn_norm_2.bias", "transformer.h.{i}.ln_attn.bias",
               LM_DIM_EMBD, LM_AS_IS),
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", "transformer.h.{i}.self_attention.query_key_value.weight",
                LM_DIM_EMBD, LM_DIM_QKV, LM_SPLIT_QKV_ROWS),
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", "transformer.h.{i}.self_attention.dense.weight",
                LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", "transformer.h.{i}.mlp.dense_h_to_4h.weight",
                LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", "transformer.h.{i}.mlp.dense_4h_to_h.weight",
                LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "FalconForCausalLM", "RWForCausalLM", NULL };
static const char *const ignored[] = {
    "transformer.h.{i}.self_attention.rotary_emb.inv_freq", NULL
};
static const struct lm_arch_need needs[] = {
    { "alibi", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .rope_halves = true,
    .constants = lm_dense_parallel,
};

const struct lm_arch lm_arch_falcon = {
    .name = "falcon", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
