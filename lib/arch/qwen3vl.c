/* SPDX-License-Identifier: MIT */
/* The language model of Qwen3-VL (Bai et al., 2025), with experts or without: Qwen3 whose
 * positions are of three kinds, all equal for text. */
#include "arch/dense.h"
#include "arch/rows.h"

/* Layers that what the images give is added behind, in models whose input has it. */
#define DEEPSTACK \
    { "n_deepstack_layers", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_COUNT, \
      { "vision_config", "deepstack_visual_indexes" }, 0 }
#define ATTENTION \
    LM_T_TWO_NORMS, \
    LM_T_QKV(LM_AS_IS, LM_AS_IS), \
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS), \
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS), \
    LM_T_O, \
    LM_T_O_B

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_SECTIONS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    DEEPSTACK,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    ATTENTION,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Qwen3VLForConditionalGeneration", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_qwen3vl = {
    .name = "qwen3vl", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};

static const struct lm_arch_key mixed_keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_SECTIONS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_EXPERT_FF,
    DEEPSTACK,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor mixed_tensors[] = {
    LM_T_ENDS,
    ATTENTION,
    LM_T_MLP_EXPERTS,
    LM_T_END,
};

static const char *const mixed_classes[] = { "Qwen3VLMoeForConditionalGeneration", NULL };
static const struct lm_dense mixed = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .share_of_used = true,
};

const struct lm_arch lm_arch_qwen3vlmoe = {
    .name = "qwen3vlmoe", .hf_classes = mixed_classes, .keys = mixed_keys,
    .tensors = mixed_tensors, .ignored = ignored, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &mixed,
};
