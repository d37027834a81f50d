/* SPDX-License-Identifier: MIT */
/*
 * Jina's encoders.  Version 2 (Guenther et al., 2023) is BERT whose tokens know of their places by
 * what the distance takes from a score, another slope for each head (Press et al., "ALiBi", 2022),
 * and has a gate in the feed-forward.  That for code normalizes queries and keys, and adds a
 * layer's input twice.  Version 3 (Sturua et al., 2024) is XLM-RoBERTa that rotates instead; its
 * adapters for tasks are left out.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#define PART(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, source ".weight", cols, rows, LM_AS_IS), \
    LM_T_MAYBE(role##_B, name ".bias", source ".bias", rows, LM_AS_IS)
#define NORM(role, name, source) LM_T_LAYER_NORM(role, name, source)
/* A norm that only one kind of checkpoint has. */
#define NORM_2(role, name, source) \
    LM_T_MAYBE(role, name ".weight", source ".weight", LM_DIM_EMBD, LM_AS_IS), \
    LM_T_MAYBE(role##_B, name ".bias", source ".bias", LM_DIM_EMBD, LM_AS_IS)

/* --- version 2 -------------------------------------------------------------------------- */

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS,
    LM_KEY_NORM_EPS("=1e-12"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_POOLING,
    LM_KEY_LABELS,
    LM_KEY_TYPES,
    LM_KEYS_END,
};

#define HF "encoder.layer.{i}."
#define ANY(role, name, source, source_2, cols, rows, flags, transform) \
    { "blk.{i}." name, source, { cols, rows }, LM_TENSOR_PER_LAYER | (flags), transform, 0, role, \
      source_2 }

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("embeddings.word_embeddings.weight"),
    LM_T_TYPES("embeddings.token_type_embeddings.weight"),
    LM_T_EMBD_NORM("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"),
    PART(LM_ATTN_Q, "attn_q", HF "attention.self.query", LM_DIM_EMBD, LM_DIM_Q),
    NORM_2(LM_ATTN_Q_NORM, "attn_q_norm", HF "attention.self.layer_norm_q"),
    PART(LM_ATTN_K, "attn_k", HF "attention.self.key", LM_DIM_EMBD, LM_DIM_K),
    NORM_2(LM_ATTN_K_NORM, "attn_k_norm", HF "attention.self.layer_norm_k"),
    PART(LM_ATTN_V, "attn_v", HF "attention.self.value", LM_DIM_EMBD, LM_DIM_V),
    PART(LM_ATTN_OUT, "attn_output", HF "attention.output.dense", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", HF "attention.output.LayerNorm"),
    NORM_2(LM_ATTN_AGAIN_NORM, "attn_norm_2", HF "layer_norm_1"),
    /* The gate is the first half of one matrix, or, of the models for code, the second. */
    ANY(LM_FFN_UP, "ffn_up.weight", HF "mlp.gated_layers.weight", HF "mlp.up_gated_layer.weight",
        LM_DIM_EMBD, LM_DIM_2_FF, LM_TENSOR_MATRIX, LM_SWAP_SECOND),
    ANY(LM_FFN_DOWN, "ffn_down.weight", HF "mlp.wo.weight", HF "mlp.down_layer.weight", LM_DIM_FF,
        LM_DIM_EMBD, LM_TENSOR_MATRIX, LM_AS_IS),
    ANY(LM_FFN_DOWN_B, "ffn_down.bias", HF "mlp.wo.bias", HF "mlp.down_layer.bias", LM_DIM_EMBD,
        LM_DIM_END, LM_TENSOR_OPTIONAL, LM_AS_IS),
    ANY(LM_LAYER_OUT_NORM, "layer_output_norm.weight", HF "mlp.layernorm.weight",
        HF "layer_norm_2.weight", LM_DIM_EMBD, LM_DIM_END, 0, LM_AS_IS),
    ANY(LM_LAYER_OUT_NORM_B, "layer_output_norm.bias", HF "mlp.layernorm.bias",
        HF "layer_norm_2.bias", LM_DIM_EMBD, LM_DIM_END, 0, LM_AS_IS),
    LM_T_CLASSIFIER_READ,
    LM_T_END,
};

static const char *const classes[] = { "JinaBertModel", "JinaBertForMaskedLM", NULL };
static const char *const ignored[] = {
    "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.*", NULL
};
static const char *const prefixes[] = { "bert.", NULL };
static const struct lm_arch_need needs[] = {
    { "position_embedding_type", { "alibi" }, NULL },
    { "feed_forward_type", { "geglu" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .alibi = 8,
};

const struct lm_arch lm_arch_jina_bert_v2 = {
    .name = "jina-bert-v2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .needs = needs,
};

/* --- version 3 -------------------------------------------------------------------------- */

static const struct lm_arch_key keys_3[] = {
    LM_KEY_LAYERS,
    { "context_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_POSITIONS,
      { "max_position_embeddings" }, LM_FIELD(n_ctx_train) },
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_HEADS,
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE, { "rope_theta", "rotary_emb_base", "=20000" },
      LM_FIELD(rope_base) },
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_POOLING,
    LM_KEY_TYPES,
    LM_KEYS_END,
};

/* Names of what adapters for tasks are made for, in such checkpoints. */
#define MADE ".parametrizations.weight."
#define HF_3 "encoder.layers.{i}."
#define ADAPTED(role, name, source, cols, rows) \
    ANY(role, name ".weight", HF_3 source ".weight", HF_3 source MADE "original", cols, rows, \
        LM_TENSOR_MATRIX, LM_AS_IS), \
    LM_T_VECTOR(role##_B, name ".bias", HF_3 source ".bias", rows, LM_AS_IS)

static const struct lm_arch_tensor tensors_3[] = {
    { "token_embd.weight", "embeddings.word_embeddings.weight", { LM_DIM_EMBD, LM_DIM_VOCAB },
      LM_TENSOR_TABLE, LM_AS_IS, 0, LM_TOKEN_EMBD, "embeddings.word_embeddings" MADE "original" },
    { "token_types.weight", "embeddings.token_type_embeddings.weight",
      { LM_DIM_EMBD, LM_DIM_TYPES }, LM_TENSOR_OPTIONAL, LM_AS_IS, 0, LM_TYPE_EMBD,
      "embeddings.token_type_embeddings" MADE "original" },
    LM_T_EMBD_NORM("emb_ln.weight", "emb_ln.bias"),
    ADAPTED(LM_ATTN_QKV, "attn_qkv", "mixer.Wqkv", LM_DIM_EMBD, LM_DIM_QKV),
    ADAPTED(LM_ATTN_OUT, "attn_output", "mixer.out_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", HF_3 "norm1"),
    ADAPTED(LM_FFN_UP, "ffn_up", "mlp.fc1", LM_DIM_EMBD, LM_DIM_FF),
    ADAPTED(LM_FFN_DOWN, "ffn_down", "mlp.fc2", LM_DIM_FF, LM_DIM_EMBD),
    NORM(LM_LAYER_OUT_NORM, "layer_output_norm", HF_3 "norm2"),
    LM_T_END,
};

static const char *const classes_3[] = { "JinaEmbeddingsV3Model", "XLMRobertaLoRA", NULL };
static const char *const ignored_3[] = {
    "embeddings.position_ids", "pooler.*", "lm_head.*",
    "embeddings.word_embeddings" MADE "0.*", "embeddings.token_type_embeddings" MADE "0.*",
    HF_3 "mixer.Wqkv" MADE "0.*", HF_3 "mixer.out_proj" MADE "0.*", HF_3 "mlp.fc1" MADE "0.*",
    HF_3 "mlp.fc2" MADE "0.*", NULL
};
static const char *const prefixes_3[] = { "roberta.", NULL };
static const struct lm_dense dense_3 = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .rope_halves = true,
};

const struct lm_arch lm_arch_jina_bert_v3 = {
    .name = "jina-bert-v3", .hf_classes = classes_3, .keys = keys_3, .tensors = tensors_3,
    .ignored = ignored_3, .prefixes = prefixes_3, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense_3,
};
