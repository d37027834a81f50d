/* SPDX-License-Identifier: MIT */
/* Qwen3.5 (Qwen, 2026), text alone: the gated delta rule, every fourth layer gated attention; with
 * experts, one of them shared, or without.  All positions of text are equal in the three kinds
 * that images have, so that it turns as others. */
#include "arch/gated.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_SECTIONS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_DELTA,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_GATED_ATTENTION,
    LM_T_DELTA,
    LM_T_GATED,
    LM_T_DRAFT(LM_ADD_ONE),
    LM_T_END,
};

static const char *const classes[] = { "Qwen3_5ForCausalLM", NULL };
static const char *const ignored[] = { LM_NO_PREDICTION, NULL };
static const char *const draft_names[] = { LM_PREDICTION_NAMES };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .qkv = lm_gated_qkv,
    .recurrent = lm_recurrent_delta_tiled,
};

const struct lm_arch lm_arch_qwen35 = {
    .name = "qwen35", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .draft_names = draft_names,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory,
};

static const struct lm_arch_key mixed_keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD,
    LM_KEY_U32("feed_forward_length", 0, n_ff, "intermediate_size"),
    LM_KEY_HEADS, LM_KEY_HEADS_KV,
    LM_KEY_SECTIONS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_feed_forward_length", LM_KEY_REQUIRED, n_ff_shared,
               "shared_expert_intermediate_size"),
    LM_KEYS_DELTA,
    LM_KEYS_END,
};

static const struct lm_arch_tensor mixed_tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_GATED_ATTENTION,
    LM_T_DELTA,
    LM_T_SHARED_EXPERT,
    LM_T_DRAFT(LM_ADD_ONE),
    LM_T_END,
};

static const char *const mixed_classes[] = { "Qwen3_5MoeForCausalLM", NULL };
static const struct lm_dense mixed = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
    .qkv = lm_gated_qkv, .recurrent = lm_recurrent_delta_tiled,
};

const struct lm_arch lm_arch_qwen35moe = {
    .name = "qwen35moe", .hf_classes = mixed_classes, .keys = mixed_keys,
    .tensors = mixed_tensors, .ignored = ignored, .draft_names = draft_names,
    .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &mixed, .memory = lm_recurrent_memory,
};
