/* SPDX-License-Identifier: MIT */
/* Mamba (Gu and Dao, 2023), and Falcon Mamba (2024), which normalizes the inputs of its scan. */
#include "arch/recurrent.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_NO_ATTENTION,
    LM_KEY_CONV("conv_kernel"),
    LM_KEY_SSM_INNER("intermediate_size"),
    LM_KEY_SSM_STATE("state_size"),
    { "ssm.time_step_rank", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_16TH,
      { "time_step_rank", "hidden_size" }, LM_FIELD(ssm_rank) },
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps,
               "layer_norm_epsilon", "=1e-5"),
    { "ssm.dt_b_c_rms", LM_GGUF_BOOL, 0, LM_FROM_IS_CLASS, { "FalconMambaForCausalLM" },
      LM_FIELD(ssm_norms) },
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

#define PREFIX "backbone.layers.{i}."

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("backbone.embeddings.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("backbone.norm_f.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", PREFIX "norm.weight"),
    LM_R_MAMBA(PREFIX "mixer."),
    LM_T_END,
};

static const char *const classes[] = { "MambaForCausalLM", "MambaLMHeadModel",
                                       "FalconMambaForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "gpt-2", "olmo", NULL };
static const struct lm_arch_need needs[] = {
    { "mixer_rms_eps", { "1e-06", "1e-6", "0.000001" }, NULL },      /* no key would say another */
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .recurrent = lm_recurrent_mamba,
};

const struct lm_arch lm_arch_mamba = {
    .name = "mamba", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .memory = lm_recurrent_memory, .needs = needs,
};
