/* SPDX-License-Identifier: MIT */
/* ModernBERT (Warner et al., 2024): an encoder with norms before attention and feed-forward, which
 * is gated, and rotation; most layers see only their neighbourhood and have a base of their own. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_HEADS,
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE,
      { "rope_theta", "global_rope_theta", "=160000" }, LM_FIELD(rope_base) },
    LM_KEY_BASE_LOCAL("rope_local_base_freq", "local_rope_theta", "=10000"),
    LM_KEY_F32("attention.layer_norm_rms_epsilon", 0, norm_eps, "norm_eps"),
    LM_KEY_F32("attention.layer_norm_epsilon", 0, norm_eps, "layer_norm_eps"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_POOLING,
    { "classifier.pooling_type", LM_GGUF_U32, 0, LM_FROM_POOLING_NAME, { "classifier_pooling" },
      LM_FIELD(class_pooling) },
    LM_KEY_LABELS,
    LM_KEY_U32("attention.sliding_window", 0, window, "local_attention"),
    { "attention.sliding_window_pattern", LM_GGUF_U32, 0, LM_FROM_GLOBAL_EVERY,
      { "global_attn_every_n_layers" }, LM_FIELD(global_every) },
    LM_KEY_SCALING("=none"),
    LM_KEY_VOCAB,
    { "hidden_activation", LM_GGUF_STR, LM_KEY_UNUSED, LM_FROM_CONFIG, { "hidden_activation" },
      0 },
    LM_KEYS_END,
};

#define HF "layers.{i}."

#define TENSORS(...) \
    LM_T_EMBD("embeddings.tok_embeddings.weight"), \
    LM_T_ONE(LM_EMBD_NORM, "token_embd_norm.weight", "embeddings.norm.weight", LM_DIM_EMBD), \
    LM_T_OUTPUT_NORM("final_norm.weight", LM_AS_IS), \
    { "blk.{i}.attn_norm.weight", HF "attn_norm.weight", { LM_DIM_EMBD }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_NOT_FIRST, LM_AS_IS, 0, LM_ATTN_NORM, NULL }, \
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", HF "attn.Wqkv.weight", LM_DIM_EMBD, LM_DIM_QKV, \
                LM_AS_IS), \
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", HF "attn.Wo.weight", LM_DIM_HEADS_OUT, LM_DIM_EMBD, \
                LM_AS_IS), \
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", HF "mlp_norm.weight"), \
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", HF "mlp.Wi.weight", LM_DIM_EMBD, LM_DIM_2_FF, LM_AS_IS), \
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", HF "mlp.Wo.weight", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS), \
    __VA_ARGS__, \
    LM_T_END

#define HEAD(dense, dense_bias, norm, out, out_bias) \
    LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, dense, dense_bias), \
    { "cls.norm.weight", norm, { LM_DIM_EMBD }, LM_TENSOR_OPTIONAL, LM_AS_IS, 0, LM_CLS_NORM, \
      NULL }, \
    LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, out, out_bias)

static const struct lm_arch_tensor tensors[] = { TENSORS(HEAD(NULL, NULL, NULL, NULL, NULL)) };
static const struct lm_arch_tensor class_tensors[] = {
    TENSORS(HEAD("head.dense.weight", "head.dense.bias", "head.norm.weight", "classifier.weight",
                 "classifier.bias"))
};

static const char *const classes[] = { "ModernBertModel", "ModernBertForMaskedLM", NULL };
static const char *const class_classes[] = { "ModernBertForSequenceClassification", NULL };
static const char *const ignored[] = { "head.*", "decoder.*", NULL };
static const char *const class_ignored[] = { NULL };
static const char *const prefixes[] = { "model.", NULL };
static const char *const pre_names[] = { "gpt-2", "modern-bert", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_GELU_ERF, .rope_halves = true,
};

const struct lm_arch lm_arch_modern_bert = {
    .name = "modern-bert", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .adds_first = true,
};

const struct lm_arch lm_arch_modern_bert_class = {
    .name = "modern-bert", .hf_classes = class_classes, .keys = keys, .tensors = class_tensors,
    .ignored = class_ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .adds_first = true,
};
