/* SPDX-License-Identifier: MIT */
/* GLM-4.5 (Zeng et al., 2025): experts chosen by sigmoids with a preference added, one that all
 * tokens share; the first layers have none.  Heads are rotated in part. */
#include "arch/dense.h"
#include "arch/rows.h"

/* Positions of several kinds, all equal for text. */
#define SECTIONS \
    { "rope.dimension_sections", LM_GGUF_ARR, LM_KEY_UNUSED, LM_FROM_SECTIONS_SAID, \
      { "mrope_section" }, 0 }
#define KEYS(base, turned, ff, ...) \
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, \
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "intermediate_size", ff), \
    LM_KEY_HEADS, LM_KEY_HEADS_KV, \
    LM_KEYS_ROPE_SCALING, \
    SECTIONS, \
    LM_KEY_BASE(base), \
    LM_KEY_RMS_EPS("=1e-5"), \
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED), \
    LM_KEYS_EXPERT_GROUPS, \
    LM_KEYS_HEAD_DIM("head_dim", __VA_ARGS__), \
    LM_KEY_FILE_TYPE, \
    LM_KEY_ROT("partial_rotary_factor", turned), \
    LM_KEY_EXPERT_FF, \
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"), \
    LM_KEY_U32("leading_dense_block_count", 0, n_dense_first, "first_k_dense_replace"), \
    LM_KEY_GATING_SIGMOID, \
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"), \
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_IF_TRUE, { "norm_topk_prob" }, \
      LM_FIELD(experts_norm) }, \
    LM_KEY_FURTHER, \
    LM_KEYS_END

static const struct lm_arch_key keys[] = {
    KEYS("=10000", "=0.5", NULL, "=128")
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM(LM_FFN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "self_attn.q_norm.weight",
               LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_MAYBE(LM_ATTN_K_NORM, "attn_k_norm.weight", LM_HF "self_attn.k_norm.weight",
               LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_DENSE_OR_EXPERTS,
    LM_T_PREFERENCE("mlp.gate.e_score_correction_bias"),
    LM_T_DRAFT(LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "Glm4MoeForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_glm4moe = {
    .name = "glm4moe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};

/* Solar Open (Upstage, 2026): every layer has experts, and all of a head turns. */
static const struct lm_arch_key solar_keys[] = {
    KEYS("=1000000", "=1", "moe_intermediate_size", "=128")
};
static const char *const solar_classes[] = { "SolarOpenForCausalLM", NULL };

const struct lm_arch lm_arch_solar_open = {
    .name = "glm4moe", .hf_classes = solar_classes, .keys = solar_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};

/* The language model of GLM-4.5V (GLM-V Team, 2025). */
static const struct lm_arch_key seeing_keys[] = {
    KEYS("=10000", "=0.5", NULL, NULL)
};
static const char *const seeing_classes[] = { "Glm4vMoeForConditionalGeneration", NULL };

const struct lm_arch lm_arch_glm4v_moe = {
    .name = "glm4moe", .hf_classes = seeing_classes, .keys = seeing_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = lm_dense_settle, .build = lm_dense_build,
    .dense = &dense,
};
