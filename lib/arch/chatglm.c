/* SPDX-License-Identifier: MIT */
/*
 * ChatGLM2 to GLM-4 (GLM Team, 2024): llama with half of a head rotated, a bias of queries, keys
 * and values, and gates in one matrix with their partners.  Files of the first models have queries,
 * keys and values in one matrix too.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#define ROT(...) \
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_ROT_DIM, { __VA_ARGS__ }, LM_FIELD(n_rot) }
/* What files may have in one of two ways. */
#define WEIGHT(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL | LM_TENSOR_ALL_OR_NONE, \
      LM_AS_IS, 0, role, NULL }, \
    LM_T_MAYBE(role##_B, name ".bias", source ".bias", rows, LM_AS_IS)
#define ONE(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, source ".weight", cols, rows, LM_AS_IS)

static const struct lm_arch_key keys[] = {
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_position_embeddings"),
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1.5625e-7"),
    LM_KEY_FILE_TYPE,
    ROT("partial_rotary_factor", "=0.5"),
    LM_KEY_BASE("=10000"),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    WEIGHT(LM_ATTN_QKV, "attn_qkv", LM_HF "self_attn.qkv_proj", LM_DIM_EMBD, LM_DIM_QKV),
    WEIGHT(LM_ATTN_Q, "attn_q", LM_HF "self_attn.q_proj", LM_DIM_EMBD, LM_DIM_Q),
    WEIGHT(LM_ATTN_K, "attn_k", LM_HF "self_attn.k_proj", LM_DIM_EMBD, LM_DIM_K),
    WEIGHT(LM_ATTN_V, "attn_v", LM_HF "self_attn.v_proj", LM_DIM_EMBD, LM_DIM_V),
    LM_T_O,
    ONE(LM_FFN_UP, "ffn_up", LM_HF "mlp.gate_up_proj", LM_DIM_EMBD, LM_DIM_2_FF),
    ONE(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.down_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};

static const char *const classes[] = { "GlmForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "rope_parameters.rope_type", { "default" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "smaug-bpe", "glm4", "llama-bpe", "glm4", NULL };
static const struct lm_arch_token tokens[] = {
    { "eos_token_id", "<|endoftext|>", 0 },
    { "eot_token_id", "<|user|>", 0 },
    { "unknown_token_id", "<|endoftext|>", 0 },
    { NULL, NULL, 0 },
};
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_chatglm = {
    .name = "chatglm", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .tokens = tokens, .pre_names = pre_names,
};
