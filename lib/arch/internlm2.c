/* SPDX-License-Identifier: MIT */
/* InternLM2 (Cai et al., 2024): llama, whose checkpoints have queries, keys and values in one
 * matrix. */
#include "arch/dense.h"
#include "arch/rows.h"

#define PART(role, name, source, cols, rows, transform) \
    LM_T_MATRIX(role, name, LM_HF source ".weight", cols, rows, transform)

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.tok_embeddings.weight"),
    LM_T_OUTPUT("output.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "attention_norm.weight"),
    PART(LM_ATTN_Q, "attn_q", "attention.wqkv", LM_DIM_EMBD, LM_DIM_Q, LM_GROUPED_Q),
    PART(LM_ATTN_K, "attn_k", "attention.wqkv", LM_DIM_EMBD, LM_DIM_K, LM_GROUPED_K),
    PART(LM_ATTN_V, "attn_v", "attention.wqkv", LM_DIM_EMBD, LM_DIM_V, LM_GROUPED_V),
    PART(LM_ATTN_OUT, "attn_output", "attention.wo", LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "ffn_norm.weight"),
    PART(LM_FFN_GATE, "ffn_gate", "feed_forward.w1", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    PART(LM_FFN_UP, "ffn_up", "feed_forward.w3", LM_DIM_EMBD, LM_DIM_FF, LM_AS_IS),
    PART(LM_FFN_DOWN, "ffn_down", "feed_forward.w2", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "InternLM2ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "attention.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_internlm2 = {
    .name = "internlm2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
