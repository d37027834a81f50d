/* SPDX-License-Identifier: MIT */
/* Phi-3.5-MoE (Abdin et al., 2024): layer norms, biases, and experts whose shares are nearly 1
 * each, since only those about as good as they count against them (Liu et al., "GRIN", 2024). */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    { "rope.scaling.attn_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_ATTN, { NULL },
      LM_FIELD(rope_attn) },
    LM_KEY_CTX,
    { "rope.scaling.original_context_length", LM_GGUF_U32, 0, LM_FROM_ROPE,
      { "original_max_position_embeddings", "max_position_embeddings" },
      LM_FIELD(rope_orig_ctx) },
    LM_KEY_EMBD, LM_KEY_FF, LM_KEY_LAYERS, LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_ROT("partial_rotary_factor", "=1"),
    LM_KEY_BASE("=1000000"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("attention.sliding_window", 0, window, "sliding_window", "=0"),
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "num_experts_per_tok"),
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "num_local_experts"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

#define NORM(role, name, source) LM_T_LAYER_NORM(role, name, LM_HF source)

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_OUTPUT_B("lm_head.bias"),
    LM_T_OUTPUT_NORM_B("model.norm.bias"),
    LM_T_ROPE_LONG,
    NORM(LM_ATTN_NORM, "attn_norm", "input_layernorm"),
    NORM(LM_FFN_NORM, "ffn_norm", "post_attention_layernorm"),
    LM_T_ATTN_B(LM_AS_IS, LM_AS_IS),
    LM_T_ROUTER(LM_HF "block_sparse_moe.gate.weight"),
    LM_T_ALL_EXPERTS(LM_HF "block_sparse_moe.experts.{e}.", "w1.weight", "w3.weight",
                     "w2.weight"),
    LM_T_END,
};

static const char *const classes[] = { "PhiMoEForCausalLM", "PhimoeForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "router_jitter_noise", { "0.01" }, NULL },
    { "num_experts_per_tok", { "2" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .rope_halves = true, .near_experts = 0.02f,
};

const struct lm_arch lm_arch_phimoe = {
    .name = "phimoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
