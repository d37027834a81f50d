/* SPDX-License-Identifier: MIT */
/* Qwen2-MoE (Yang et al., 2024): Qwen2 with experts, one of them shared by all tokens. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_feed_forward_length", LM_KEY_REQUIRED, n_ff_shared,
               "shared_expert_intermediate_size"),
    LM_KEY_EXPERTS_NORM("=false"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_MLP_EXPERTS,
    LM_T_MATRIX(LM_ROUTER_SHARED, "ffn_gate_inp_shexp", LM_HF "mlp.shared_expert_gate.weight",
                LM_DIM_EMBD, LM_DIM_1, LM_AS_IS),
    LM_T_MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", LM_HF "mlp.shared_expert.gate_proj.weight",
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS),
    LM_T_MATRIX(LM_UP_SHARED, "ffn_up_shexp", LM_HF "mlp.shared_expert.up_proj.weight",
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS),
    LM_T_MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", LM_HF "mlp.shared_expert.down_proj.weight",
                LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Qwen2MoeForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_qwen2moe = {
    .name = "qwen2moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
