/* SPDX-License-Identifier: MIT */
/* Hunyuan (Tencent, 2025), with experts, one of them for all tokens, or without: heads of queries
 * and keys are normalized after they have turned. */
#include "arch/dense.h"
#include "arch/rows.h"

#define BASE \
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE_NTK, { "rope_theta", "=10000" }, \
      LM_FIELD(rope_base) }
#define ATTENTION \
    LM_T_TWO_NORMS, \
    LM_T_QKV(LM_AS_IS, LM_AS_IS), \
    LM_T_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "self_attn.query_layernorm.weight", \
                LM_DIM_HEAD_K, LM_AS_IS), \
    LM_T_VECTOR(LM_ATTN_K_NORM, "attn_k_norm.weight", LM_HF "self_attn.key_layernorm.weight", \
                LM_DIM_HEAD_K, LM_AS_IS), \
    LM_T_O

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    BASE,
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    ATTENTION,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "HunYuanDenseV1ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .norm_turned = true,
    .share_of_used = true,
};

const struct lm_arch lm_arch_hunyuan_dense = {
    .name = "hunyuan-dense", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

static const struct lm_arch_key mixed_keys[] = {
    LM_KEYS_BEGIN,
    BASE,
    LM_KEY_RMS_EPS("=1e-5"),
    { "expert_count", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_EACH, { "num_experts" },
      LM_FIELD(n_expert) },
    { "expert_used_count", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_EACH, { "moe_topk" },
      LM_FIELD(n_expert_used) },
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("expert_shared_feed_forward_length", 0, n_ff_shared, "intermediate_size"),
    { "expert_feed_forward_length", LM_GGUF_U32, 0, LM_FROM_EACH,
      { "moe_intermediate_size", "intermediate_size" }, LM_FIELD(n_ff_expert) },
    { "expert_shared_count", LM_GGUF_U32, 0, LM_FROM_EACH, { "num_shared_expert", "=1" },
      LM_FIELD(n_shared) },
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor mixed_tensors[] = {
    LM_T_ENDS,
    ATTENTION,
    LM_T_ROUTER(LM_HF "mlp.gate.wg.weight"),
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "gate_proj.weight", "up_proj.weight",
                     "down_proj.weight"),
    LM_T_MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", LM_HF "mlp.shared_mlp.gate_proj.weight",
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS),
    LM_T_MATRIX(LM_UP_SHARED, "ffn_up_shexp", LM_HF "mlp.shared_mlp.up_proj.weight",
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS),
    LM_T_MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", LM_HF "mlp.shared_mlp.down_proj.weight",
                LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const mixed_classes[] = { "HunYuanMoEV1ForCausalLM", NULL };

const struct lm_arch lm_arch_hunyuan_moe = {
    .name = "hunyuan-moe", .hf_classes = mixed_classes, .keys = mixed_keys,
    .tensors = mixed_tensors, .ignored = ignored, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense,
};
