/* SPDX-License-Identifier: MIT */
/*
 * BERT (Devlin et al., 2019) and RoBERTa (Liu et al., 2019), XLM-RoBERTa (Conneau et al., 2020)
 * among its kind: encoders with learned positions, norms after each addition, biases everywhere.
 * In RoBERTa's table of positions the first rows are for padding.
 */
#include "arch/dense.h"
#include "arch/rows.h"

/* Whether a classifier has max(x, 0) where it otherwise has tanh: the reference's files do not say
 * it. */
#define KEY_RELU(from, ...) \
    { "classifier.relu", LM_GGUF_BOOL, 0, from, { __VA_ARGS__ }, LM_FIELD(class_relu) }
#define KEYS(ctx_from) \
    LM_KEY_LAYERS, \
    { "context_length", LM_GGUF_U32, LM_KEY_REQUIRED, ctx_from, { "max_position_embeddings" }, \
      LM_FIELD(n_ctx_train) }, \
    LM_KEY_EMBD, \
    LM_KEY_FF, \
    LM_KEY_HEADS, \
    LM_KEY_NORM_EPS("=1e-12"), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_NOT_CAUSAL, \
    LM_KEY_POOLING, \
    LM_KEY_LABELS, \
    KEY_RELU(LM_FROM_NOTHING, NULL), \
    LM_KEY_TYPES, \
    LM_KEYS_END

#define HF "encoder.layer.{i}."

#define PART(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, HF source ".weight", cols, rows, LM_AS_IS), \
    LM_T_VECTOR(role##_B, name ".bias", HF source ".bias", rows, LM_AS_IS)
#define NORM(role, name, source) LM_T_LAYER_NORM(role, name, HF source)

#define TENSORS(positions, ...) \
    LM_T_EMBD("embeddings.word_embeddings.weight"), \
    { "position_embd.weight", "embeddings.position_embeddings.weight", \
      { LM_DIM_EMBD, LM_DIM_CTX }, 0, positions, 0, LM_POS_EMBD, NULL }, \
    LM_T_TYPES("embeddings.token_type_embeddings.weight"), \
    LM_T_EMBD_NORM("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"), \
    PART(LM_ATTN_Q, "attn_q", "attention.self.query", LM_DIM_EMBD, LM_DIM_Q), \
    PART(LM_ATTN_K, "attn_k", "attention.self.key", LM_DIM_EMBD, LM_DIM_K), \
    PART(LM_ATTN_V, "attn_v", "attention.self.value", LM_DIM_EMBD, LM_DIM_V), \
    PART(LM_ATTN_OUT, "attn_output", "attention.output.dense", LM_DIM_HEADS_OUT, LM_DIM_EMBD), \
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", "attention.output.LayerNorm"), \
    PART(LM_FFN_UP, "ffn_up", "intermediate.dense", LM_DIM_EMBD, LM_DIM_FF), \
    PART(LM_FFN_DOWN, "ffn_down", "output.dense", LM_DIM_FF, LM_DIM_EMBD), \
    NORM(LM_LAYER_OUT_NORM, "layer_output_norm", "output.LayerNorm"), \
    __VA_ARGS__, \
    LM_T_END

static const struct lm_arch_key keys[] = { KEYS(LM_FROM_CONFIG) };
static const struct lm_arch_key padded_keys[] = { KEYS(LM_FROM_POSITIONS) };
static const struct lm_arch_tensor tensors[] = { TENSORS(LM_AS_IS, LM_T_CLASSIFIER_READ) };
static const struct lm_arch_tensor padded_tensors[] = {
    TENSORS(LM_SKIP_PADDING_ROWS, LM_T_CLASSIFIER_READ)
};
/* A classifier of BERT judges what its pooler makes, which the reference converter leaves out. */
static const struct lm_arch_tensor class_tensors[] = {
    TENSORS(LM_AS_IS,
            LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, "pooler.dense.weight", "pooler.dense.bias"),
            LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, "classifier.weight",
                            "classifier.bias"))
};
static const struct lm_arch_tensor padded_class_tensors[] = {
    TENSORS(LM_SKIP_PADDING_ROWS,
            LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, "classifier.dense.weight",
                            "classifier.dense.bias"),
            LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, "classifier.out_proj.weight",
                            "classifier.out_proj.bias"))
};

static const char *const classes[] = { "BertModel", "BertForMaskedLM", NULL };
static const char *const padded_classes[] = {
    "XLMRobertaModel", "RobertaModel", "CamembertModel", NULL
};
static const char *const class_classes[] = { "BertForSequenceClassification", NULL };
static const char *const padded_class_classes[] = {
    "XLMRobertaForSequenceClassification", "RobertaForSequenceClassification",
    "CamembertForSequenceClassification", NULL
};
static const char *const class_ignored[] = { "embeddings.position_ids", NULL };
static const char *const ignored[] = {
    "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias", "cls.*", "lm_head.*",
    NULL
};
static const char *const prefixes[] = { "bert.", "roberta.", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .learned_positions = true,
};

const struct lm_arch lm_arch_bert = {
    .name = "bert", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
};

const struct lm_arch lm_arch_roberta = {
    .name = "bert", .hf_classes = padded_classes, .keys = padded_keys, .tensors = padded_tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
};

const struct lm_arch lm_arch_bert_class = {
    .name = "bert", .hf_classes = class_classes, .keys = keys, .tensors = class_tensors,
    .ignored = class_ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
};

const struct lm_arch lm_arch_roberta_class = {
    .name = "bert", .hf_classes = padded_class_classes, .keys = padded_keys,
    .tensors = padded_class_tensors, .ignored = ignored, .prefixes = prefixes, .encoder = true,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

/* DistilBERT (Sanh et al., 2019) knows no segments; its files have names of their own for all. */
#define DISTILLED_KEYS(...) \
    LM_KEY_NORM_EPS("=1e-12"), \
    LM_KEY_U32("block_count", LM_KEY_REQUIRED, n_layer, "n_layers", "num_hidden_layers"), \
    LM_KEY_CTX, \
    LM_KEY_U32("embedding_length", LM_KEY_REQUIRED, n_embd, "dim", "hidden_size"), \
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "hidden_dim"), \
    LM_KEY_U32("attention.head_count", LM_KEY_REQUIRED, n_head, "n_heads", \
               "num_attention_heads"), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_NOT_CAUSAL, \
    LM_KEY_POOLING, \
    LM_KEY_LABELS, \
    __VA_ARGS__ \
    LM_KEY_U32("tokenizer.ggml.token_type_count", LM_KEY_OF_VOCAB, n_types, "type_vocab_size", \
               "=1"), \
    LM_KEYS_END

#undef HF
#define HF "transformer.layer.{i}."
#define DISTILLED(...) \
    LM_T_EMBD("embeddings.word_embeddings.weight"), \
    { "position_embd.weight", "embeddings.position_embeddings.weight", \
      { LM_DIM_EMBD, LM_DIM_CTX }, 0, LM_AS_IS, 0, LM_POS_EMBD, NULL }, \
    LM_T_EMBD_NORM("embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"), \
    PART(LM_ATTN_Q, "attn_q", "attention.q_lin", LM_DIM_EMBD, LM_DIM_Q), \
    PART(LM_ATTN_K, "attn_k", "attention.k_lin", LM_DIM_EMBD, LM_DIM_K), \
    PART(LM_ATTN_V, "attn_v", "attention.v_lin", LM_DIM_EMBD, LM_DIM_V), \
    PART(LM_ATTN_OUT, "attn_output", "attention.out_lin", LM_DIM_HEADS_OUT, LM_DIM_EMBD), \
    NORM(LM_ATTN_OUT_NORM, "attn_output_norm", "sa_layer_norm"), \
    PART(LM_FFN_UP, "ffn_up", "ffn.lin1", LM_DIM_EMBD, LM_DIM_FF), \
    PART(LM_FFN_DOWN, "ffn_down", "ffn.lin2", LM_DIM_FF, LM_DIM_EMBD), \
    NORM(LM_LAYER_OUT_NORM, "layer_output_norm", "output_layer_norm"), \
    __VA_ARGS__ \
    LM_T_END

static const struct lm_arch_key distilled_keys[] = { DISTILLED_KEYS() };
static const struct lm_arch_key distilled_class_keys[] = {
    DISTILLED_KEYS(KEY_RELU(LM_FROM_CONFIG, "=true"),)
};
static const struct lm_arch_tensor distilled_tensors[] = { DISTILLED() };
static const struct lm_arch_tensor distilled_class_tensors[] = {
    DISTILLED(LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, "pre_classifier.weight",
                              "pre_classifier.bias"),
              LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, "classifier.weight",
                              "classifier.bias"),)
};
static const char *const distilled_classes[] = { "DistilBertModel", "DistilBertForMaskedLM", NULL };
static const char *const distilled_class_classes[] = {
    "DistilBertForSequenceClassification", NULL
};
static const char *const distilled_ignored[] = { "vocab_*", "embeddings.position_ids", NULL };
static const char *const distilled_prefixes[] = { "distilbert.", NULL };
static const struct lm_arch_need distilled_needs[] = {
    { "activation", { "gelu" }, NULL },
    { NULL, { NULL }, NULL },
};

const struct lm_arch lm_arch_distilbert = {
    .name = "bert", .hf_classes = distilled_classes, .keys = distilled_keys,
    .tensors = distilled_tensors, .ignored = distilled_ignored, .prefixes = distilled_prefixes,
    .encoder = true, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = distilled_needs,
};

const struct lm_arch lm_arch_distilbert_class = {
    .name = "bert", .hf_classes = distilled_class_classes, .keys = distilled_class_keys,
    .tensors = distilled_class_tensors, .ignored = distilled_ignored,
    .prefixes = distilled_prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .needs = distilled_needs,
};
