/* SPDX-License-Identifier: MIT */
/* Hunyuan 3 (Tencent, 2026): queries and keys normalized, experts chosen by sigmoids with a
 * preference added and one that all tokens share; the first layers have none. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=11158840"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts", "=1"),
    LM_KEY_SHARED_FF("moe_intermediate_size", "num_shared_experts"),
    LM_KEY_DENSE_FIRST,
    LM_KEY_EXPERTS_NORM_AS("route_norm", "=true"),
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "router_scaling_factor", "=1"),
    LM_KEY_GATING_SIGMOID,
    LM_KEY_FURTHER_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS_OF("router.gate", "shared_mlp"),
    LM_T_PREFERENCE_AS("exp_probs_b", "mlp.expert_bias"),
    LM_T_END,
};

static const char *const classes[] = { "HYV3ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "mlp_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_hy_v3 = {
    .name = "hy_v3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense, .needs = needs,
};
