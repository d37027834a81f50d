/* SPDX-License-Identifier: MIT */
/* BLOOM (BigScience, 2022): the embedding is normalized, distances stand in for positions, biases
 * everywhere. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "seq_length", "hidden_size",
               "n_embed"),
    LM_KEY_U32("embedding_length", LM_KEY_REQUIRED, n_embd, "hidden_size", "n_embed"),
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_4_TIMES,
      { "hidden_size", "n_embed" }, LM_FIELD(n_ff) },
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "num_attention_heads", "n_head"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

#define PART(role, name, source, cols, rows, transform) \
    LM_T_MATRIX(role, name, "h.{i}." source ".weight", cols, rows, transform), \
    LM_T_VECTOR(role##_B, name ".bias", "h.{i}." source ".bias", rows, transform)
#define NORM(role, name, source) \
    LM_T_NORM(role, name, "h.{i}." source ".weight"), \
    LM_T_VECTOR(role##_B, name ".bias", "h.{i}." source ".bias", LM_DIM_EMBD, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("word_embeddings.weight"),
    LM_T_EMBD_NORM("word_embeddings_layernorm.weight", "word_embeddings_layernorm.bias"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("ln_f.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("ln_f.bias"),
    NORM(LM_ATTN_NORM, "attn_norm", "input_layernorm"),
    PART(LM_ATTN_QKV, "attn_qkv", "self_attention.query_key_value", LM_DIM_EMBD, LM_DIM_QKV,
         LM_SPLIT_QKV_ROWS),
    PART(LM_ATTN_OUT, "attn_output", "self_attention.dense", LM_DIM_HEADS_OUT, LM_DIM_EMBD,
         LM_AS_IS),
    NORM(LM_FFN_NORM, "ffn_norm", "post_attention_layernorm"),
    PART(LM_FFN_UP, "ffn_up", "mlp.dense_h_to_4h", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.dense_4h_to_h", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "BloomForCausalLM", "BloomModel", NULL };
static const char *const ignored[] = { NULL };
static const char *const prefixes[] = { "transformer.", NULL };
static const struct lm_arch_need needs[] = {
    { "apply_residual_connection_post_layernorm", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU, .alibi = 8,
};

const struct lm_arch lm_arch_bloom = {
    .name = "bloom", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense, .needs = needs,
};
