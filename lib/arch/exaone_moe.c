/* SPDX-License-Identifier: MIT */
/* K-EXAONE (LG AI Research, 2026): queries and keys normalized, experts chosen by sigmoids with a
 * preference added and one that all tokens share; only layers with a window rotate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_EXPERT_GROUPS,
    LM_KEY_GATING_SIGMOID,
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_WINDOW,
    LM_KEY_LOCAL_LAYERS,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts"),
    LM_KEY_SHARED_FF("moe_intermediate_size", "num_shared_experts"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"),
    LM_KEY_EXPERTS_NORM_AS("norm_topk_prob", "=true"),
    LM_KEY_DENSE_FIRST,
    LM_KEY_FURTHER_READ,
    LM_KEY_SCALING("=none"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.e_score_correction_bias"),
    LM_T_END,
};

static const char *const classes[] = { "ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM", NULL };
static const char *const ignored[] = { "mtp.*", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .all_every = 4,
    .all_unturned = true,
};

const struct lm_arch lm_arch_exaone_moe = {
    .name = "exaone-moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
