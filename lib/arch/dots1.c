/* SPDX-License-Identifier: MIT */
/* dots.llm1 (Huo et al., 2025): queries and keys normalized; experts chosen by sigmoids with a
 * preference added, one that all tokens share; the first layers have none. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_EXPERT_GROUPS,
    LM_KEY_GATING_SIGMOID,
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "first_k_dense_replace"),
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor", "=1"),
    LM_KEY_EXPERTS_NORM_AS("norm_topk_prob", "=false"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.gate.e_score_correction_bias"),
    LM_T_END,
};

static const char *const classes[] = { "Dots1ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_dots1 = {
    .name = "dots1", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
