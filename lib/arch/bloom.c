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

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("word_embeddings.weight"),
    LM_T_EMBD_NORM("word_embeddings_layernorm.weight", "word_embeddings_layernorm.bias"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("ln_f.weight", LM_AS_IS),
    LM_T_OUTPUT_NORM_B("ln_f.bias"),
    LM_T_LAYER_NORM(LM_ATTN_NORM, "attn_norm", "h.{i}.input_layernorm"),
    LM_T_MATRIX_B(LM_ATTN_QKV, "attn_qkv", "h.{i}.self_attention.query_key_value", LM_DIM_EMBD,
                  LM_DIM_QKV, LM_SPLIT_QKV_ROWS),
    LM_T_MATRIX_B(LM_ATTN_OUT, "attn_output", "h.{i}.self_attention.dense", LM_DIM_HEADS_OUT,
                  LM_DIM_EMBD, LM_AS_IS),
    LM_T_LAYER_NORM(LM_FFN_NORM, "ffn_norm", "h.{i}.post_attention_layernorm"),
    LM_T_MATRIX_B(LM_FFN_UP, "ffn_up", "h.{i}.mlp.dense_h_to_4h", LM_DIM_EMBD, LM_DIM_FF,
                  LM_AS_IS),
    LM_T_MATRIX_B(LM_FFN_DOWN, "ffn_down", "h.{i}.mlp.dense_4h_to_h", LM_DIM_FF, LM_DIM_EMBD,
                  LM_AS_IS),
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
