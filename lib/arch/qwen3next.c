/* SPDX-License-Identifier: MIT */
/* Qwen3-Next (Qwen, 2025): the gated delta rule, every fourth layer gated attention; experts, one
 * of them shared. */
#include "arch/gated.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_feed_forward_length", LM_KEY_REQUIRED, n_ff_shared,
               "shared_expert_intermediate_size", "shared_intermediate_size"),
    LM_KEYS_DELTA,
    LM_KEY_EXPERTS_NORM("=true"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_GATED_ATTENTION,
    LM_R_MATRIX(LM_ATTN_QKV, "attn_qkv", LM_DELTA "in_proj_qkvz.weight", LM_DIM_EMBD,
                LM_DIM_SSM_CHANNELS, LM_DELTA_QKV),
    LM_R_MATRIX(LM_SSM_GATE, "attn_gate", LM_DELTA "in_proj_qkvz.weight", LM_DIM_EMBD,
                LM_DIM_SSM_INNER, LM_DELTA_GATE),
    LM_R_MATRIX(LM_SSM_BA, "ssm_ba", LM_DELTA "in_proj_ba.weight", LM_DIM_EMBD, LM_DIM_SSM_2_RANK,
                LM_AS_IS),
    LM_R_OTHER(LM_SSM_CONV, "ssm_conv1d.weight", LM_DELTA "conv1d.weight", LM_DIM_CONV,
               LM_DIM_SSM_CHANNELS, LM_AS_IS),
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", LM_DELTA "dt_bias", LM_DIM_SSM_RANK, LM_DIM_END,
               LM_AS_IS),
    LM_R_OTHER(LM_SSM_A, "ssm_a", LM_DELTA "A_log", LM_DIM_SSM_RANK, LM_DIM_END, LM_NEG_EXP),
    LM_R_OTHER(LM_SSM_NORM, "ssm_norm.weight", LM_DELTA "norm.weight", LM_DIM_SSM_OF_HEAD,
               LM_DIM_END, LM_AS_IS),
    LM_R_MATRIX(LM_SSM_OUT, "ssm_out", LM_DELTA "out_proj.weight", LM_DIM_SSM_INNER, LM_DIM_EMBD,
                LM_AS_IS),
    LM_T_SHARED_EXPERT,
    LM_T_DRAFT(LM_ADD_ONE),
    LM_T_END,
};

static const char *const classes[] = { "Qwen3NextForCausalLM", NULL };
static const char *const ignored[] = { LM_NO_PREDICTION, NULL };
static const char *const draft_names[] = { LM_PREDICTION_NAMES };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
    .qkv = lm_gated_qkv, .recurrent = lm_recurrent_delta,
};

const struct lm_arch lm_arch_qwen3next = {
    .name = "qwen3next", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .draft_names = draft_names,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory,
};
