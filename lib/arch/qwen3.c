/* SPDX-License-Identifier: MIT */
/* Qwen3 (Yang et al., 2025): every head of queries and keys is normalized. */
#include "arch/dense.h"
#include "arch/rows.h"

#define KEYS(...) \
    LM_KEYS_BEGIN, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS("=1e-6"), \
    LM_KEYS_HEAD_DIM("head_dim", "=128"), \
    LM_KEY_FILE_TYPE, \
    __VA_ARGS__, \
    LM_KEY_ROT_READ, \
    LM_KEYS_END

#define LAYERS \
    LM_T_TWO_NORMS, \
    LM_T_QKV(LM_AS_IS, LM_AS_IS), \
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS), \
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS), \
    LM_T_O, \
    LM_T_O_B, \
    LM_T_GATED

static const struct lm_arch_key keys[] = { KEYS(LM_KEY_POOLING) };
static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS, LAYERS, LM_T_CLASSIFIER_READ, LM_T_END
};

/* A reranker: whether a text fits is which of two words comes next, so that two rows of the
 * output matrix are all that is left of it. */
static const struct lm_arch_key rank_keys[] = {
    KEYS({ "pooling_type", LM_GGUF_U32, 0, LM_FROM_CONFIG, { "=4" }, LM_FIELD(pooling) },
         { "classifier.output_labels", LM_GGUF_ARR, LM_KEY_UNUSED, LM_FROM_LABELS,
           { "=yes", "=no" }, 0 })
};
static const struct lm_arch_tensor rank_tensors[] = {
    { "cls.output.weight", "lm_head.weight", { LM_DIM_EMBD, LM_DIM_LABELS },
      LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_PICK_ROWS, 0, LM_CLS_OUT,
      "model.embed_tokens.weight" },
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_AS_IS),
    LAYERS,
    LM_T_END,
};

/* The form that its makers ask with, by the model's card; what is asked is their default. */
static const char rerank[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
    "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n";

static const char *const classes[] = { "Qwen3ForCausalLM", "Qwen3Model", NULL };
static const char *const rank_classes[] = { "Qwen3-Reranker", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_qwen3 = {
    .name = "qwen3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

const struct lm_arch lm_arch_qwen3_rank = {
    .name = "qwen3", .hf_classes = rank_classes, .keys = rank_keys, .tensors = rank_tensors,
    .rerank = rerank,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
