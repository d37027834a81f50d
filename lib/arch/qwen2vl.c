/* SPDX-License-Identifier: MIT */
/* The language model of Qwen2-VL and Qwen2.5-VL (Wang et al., 2024; Bai et al., 2025): Qwen2 whose
 * positions are of three kinds, all equal for text. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_SECTIONS,
    LM_KEYS_ROPE_SCALING,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = {
    "Qwen2VLForConditionalGeneration", "Qwen2VLModel", "Qwen2_5_VLForConditionalGeneration", NULL
};
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_qwen2vl = {
    .name = "qwen2vl", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
