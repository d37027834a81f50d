/* SPDX-License-Identifier: MIT */
/* ERNIE 4.5 (2025): llama whose checkpoints rotate neighbouring pairs themselves. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=500000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim", "=128"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_ATTN_B(LM_AS_IS, LM_AS_IS),
    LM_T_GATED,
    LM_T_GATED_B,
    LM_T_END,
};

static const char *const classes[] = { "Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU,
};

const struct lm_arch lm_arch_ernie4_5 = {
    .name = "ernie4_5", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .tokens = lm_arch_no_space,
};
