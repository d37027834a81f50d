/* SPDX-License-Identifier: MIT */
/* OLMoE (Muennighoff et al., 2024): experts in every layer, whose shares are of all, not of those
 * that are used; queries and keys normalized over all heads at once. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERTS_NORM("=false"),
    LM_KEY_ROT_READ,
    LM_KEY_CLAMP_QKV("clip_qkv"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QK_NORM(LM_DIM_Q, LM_DIM_K, LM_AS_IS),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_MLP_EXPERTS,
    LM_T_END,
};

static const char *const classes[] = { "OlmoeForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_olmoe = {
    .name = "olmoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
