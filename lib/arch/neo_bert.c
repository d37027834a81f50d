/* SPDX-License-Identifier: MIT */
/* NeoBERT (Le Breton et al., 2025): an encoder with norms before attention and feed-forward, which
 * is gated, no biases, and rotation of neighbouring pairs.  Checkpoints have the query, key and
 * value of each head side by side, files as everywhere all queries first. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_length",
               "max_position_embeddings"),
    LM_KEY_EMBD,
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_2_THIRDS,
      { "intermediate_size" }, LM_FIELD(n_ff) },
    LM_KEY_HEADS,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_SCALING("=none"),
    { "pooling_type", LM_GGUF_U32, 0, LM_FROM_POOLING, { "=2" }, LM_FIELD(pooling) },
    LM_KEY_LABELS,
    LM_KEYS_END,
};

#define HF "transformer_encoder.{i}."

#define TENSORS(...) \
    LM_T_EMBD("encoder.weight"), \
    LM_T_ONE(LM_OUTPUT_NORM, "enc.output_norm.weight", "layer_norm.weight", LM_DIM_EMBD), \
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", HF "attention_norm.weight"), \
    LM_T_MATRIX(LM_ATTN_QKV, "attn_qkv", HF "qkv.weight", LM_DIM_EMBD, LM_DIM_QKV, \
                LM_SPLIT_QKV_ROWS), \
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", HF "wo.weight", LM_DIM_HEADS_OUT, LM_DIM_EMBD, \
                LM_AS_IS), \
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", HF "ffn_norm.weight"), \
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", HF "ffn.w12.weight", LM_DIM_EMBD, LM_DIM_2_FF, LM_AS_IS), \
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", HF "ffn.w3.weight", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS), \
    __VA_ARGS__, \
    LM_T_END

static const struct lm_arch_tensor tensors[] = { TENSORS(LM_T_CLASSIFIER_READ) };
static const struct lm_arch_tensor class_tensors[] = {
    TENSORS(LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, "dense.weight", "dense.bias"),
            LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, "classifier.weight",
                            "classifier.bias"))
};

static const char *const classes[] = { "NeoBERT", "NeoBERTLMHead", NULL };
static const char *const class_classes[] = { "NeoBERTForSequenceClassification", NULL };
static const char *const ignored[] = { "decoder.*", NULL };
static const char *const class_ignored[] = { NULL };
static const char *const prefixes[] = { "model.", NULL };
/* What the authors' code knows nothing of, but other trainers may put down. */
static const struct lm_arch_need needs[] = {
    { "rope", { "true" }, NULL },
    { "rms_norm", { "true" }, NULL },
    { "hidden_act", { "swiglu", "SwiGLU" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_neo_bert = {
    .name = "neo-bert", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .needs = needs,
};

const struct lm_arch lm_arch_neo_bert_class = {
    .name = "neo-bert", .hf_classes = class_classes, .keys = keys, .tensors = class_tensors,
    .ignored = class_ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .needs = needs,
};
