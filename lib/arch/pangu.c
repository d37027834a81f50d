/* SPDX-License-Identifier: MIT */
/* openPangu Embedded (Huawei, 2025): llama with biases of attention, and rotated halves. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QKV_B(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_O_B,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "PanguEmbeddedForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_pangu = {
    .name = "pangu-embedded", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
