/* SPDX-License-Identifier: MIT */
/* LFM2 (Liquid AI, 2025): short convolutions, and some layers with attention; with experts in all
 * but the first layers, or without. */
#include "arch/recurrent.h"
#include "arch/rows.h"

#define KEYS(...) \
    { "embedding_length_out", LM_GGUF_U32, LM_KEY_EARLY, LM_FROM_MODULES, { NULL }, \
      LM_FIELD(dense_2_out) }, \
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, \
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_FF_ADJUSTED, \
      { "block_ff_dim", "intermediate_size" }, LM_FIELD(n_ff) }, \
    LM_KEY_HEADS, \
    LM_KEY_KV_OF_LAYERS, \
    LM_KEYS_ROPE_SCALING, \
    LM_KEY_BASE("=1000000"), \
    LM_KEY_RMS_EPS("=1e-5"), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_VOCAB, \
    LM_KEY_U32("shortconv.l_cache", LM_KEY_REQUIRED, conv, "conv_L_cache"), \
    __VA_ARGS__ \
    LM_KEY_POOLING, \
    LM_KEYS_HEAD_DIM_READ, \
    LM_KEY_ROT_READ, \
    LM_KEYS_END

static const struct lm_arch_key keys[] = { KEYS() };

/* What both kinds have. */
#define LFM2 \
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"), \
    { "token_embd_norm.weight", "model.embedding_norm.weight", { LM_DIM_EMBD }, 0, LM_AS_IS, 0, \
      LM_OUTPUT_NORM, NULL }, \
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "operator_norm.weight"), \
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "ffn_norm.weight"), \
    LM_A_QKV(LM_DIM_Q, LM_AS_IS, LM_AS_IS), \
    LM_A_OUT(LM_HF "self_attn.out_proj.weight"), \
    LM_A_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm", LM_HF "self_attn.q_layernorm.weight", \
                LM_DIM_HEAD_K, LM_AS_IS), \
    LM_A_VECTOR(LM_ATTN_K_NORM, "attn_k_norm", LM_HF "self_attn.k_layernorm.weight", \
                LM_DIM_HEAD_K, LM_AS_IS), \
    LM_R_OTHER(LM_SSM_CONV, "shortconv.conv.weight", LM_HF "conv.conv.weight", LM_DIM_CONV, \
               LM_DIM_EMBD, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_IN, "shortconv.in_proj", LM_HF "conv.in_proj.weight", LM_DIM_EMBD, \
                LM_DIM_3_EMBD, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_OUT, "shortconv.out_proj", LM_HF "conv.out_proj.weight", LM_DIM_EMBD, \
                LM_DIM_EMBD, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LFM2,
    LM_T_MATRIX(LM_FFN_GATE, "ffn_gate", LM_HF "feed_forward.w1.weight", LM_DIM_EMBD, LM_DIM_FF,
                LM_AS_IS),
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "feed_forward.w2.weight", LM_DIM_FF, LM_DIM_EMBD,
                LM_AS_IS),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "feed_forward.w3.weight", LM_DIM_EMBD, LM_DIM_FF,
                LM_AS_IS),
    { "dense_2.weight", NULL, { LM_DIM_DENSE_2_IN, LM_DIM_DENSE_2_OUT },
      LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_AS_IS, 0, LM_DENSE_2, NULL },
    LM_T_END,
};

static const char *const classes[] = { "Lfm2ForCausalLM", "LFM2ForCausalLM", "Lfm2Model", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "llama-bpe", "lfm2", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
    .recurrent = lm_recurrent_conv,
};

const struct lm_arch lm_arch_lfm2 = {
    .name = "lfm2", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense, .pre_names = pre_names,
    .memory = lm_recurrent_memory,
};

/* LFM2.5's models for retrieval, whose tokens see later ones, too. */
static const struct lm_arch_key both_keys[] = { KEYS(LM_KEY_NOT_CAUSAL,) };
static const char *const both_classes[] = { "Lfm2BidirectionalModel", NULL };

const struct lm_arch lm_arch_lfm2_both = {
    .name = "lfm2", .hf_classes = both_classes, .keys = both_keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .memory = lm_recurrent_memory,
};

static const struct lm_arch_key mixed_keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS,
    LM_KEY_KV_OF_LAYERS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_U32("shortconv.l_cache", LM_KEY_REQUIRED, conv, "conv_L_cache"),
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "num_dense_layers"),
    LM_KEY_GATING_SIGMOID,
    { "expert_weights_scale", LM_GGUF_F32, 0, LM_FROM_UNLESS, { "routed_scaling_factor", "=1" },
      LM_FIELD(experts_scale) },
    LM_KEY_EXPERTS_NORM("=true"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define DENSE(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", LM_HF "feed_forward." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_DENSE, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor mixed_tensors[] = {
    LFM2,
    DENSE(LM_FFN_GATE, "ffn_gate", "w1", LM_DIM_EMBD, LM_DIM_FF),
    DENSE(LM_FFN_DOWN, "ffn_down", "w2", LM_DIM_FF, LM_DIM_EMBD),
    DENSE(LM_FFN_UP, "ffn_up", "w3", LM_DIM_EMBD, LM_DIM_FF),
    LM_T_ROUTER(LM_HF "feed_forward.gate.weight"),
    LM_T_PREFERENCE("feed_forward.expert_bias"),
    LM_T_ALL_EXPERTS(LM_HF "feed_forward.experts.{e}.", "w1.weight", "w3.weight", "w2.weight"),
    LM_T_END,
};

static const char *const mixed_classes[] = { "Lfm2MoeForCausalLM", NULL };
static const struct lm_dense mixed = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
    .recurrent = lm_recurrent_conv,
};

const struct lm_arch lm_arch_lfm2moe = {
    .name = "lfm2moe", .hf_classes = mixed_classes, .keys = mixed_keys,
    .tensors = mixed_tensors, .ignored = ignored, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &mixed, .pre_names = pre_names,
    .memory = lm_recurrent_memory,
};
