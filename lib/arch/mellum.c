/* SPDX-License-Identifier: MIT */
/* Mellum 2 (JetBrains, 2026): Qwen3-MoE with windows, in whose layers positions turn by another
 * base and are not stretched. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=500000"),
    LM_KEY_BASE_LOCAL("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERTS_NORM("=true"),
    LM_KEY_EXPERT_FF,
    LM_KEY_WINDOW,
    LM_KEY_LOCAL_LAYERS,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_MLP_EXPERTS,
    LM_T_END,
};

static const char *const classes[] = { "MellumForCausalLM", NULL };
static const char *const ignored[] = { "mtp.*", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "rope_parameters.sliding_attention.rope_type", { "default" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .local_plain = true,
    .share_of_used = true,
};

const struct lm_arch lm_arch_mellum = {
    .name = "mellum", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
