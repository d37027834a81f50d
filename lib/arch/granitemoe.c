/* SPDX-License-Identifier: MIT */
/* Granite with experts (2024), also beside one that all tokens share. */
#include "arch/dense.h"
#include "arch/granite.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_GRANITE_SCALES,
    LM_KEY_GRANITE_SHARED,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_ATTN_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_GRANITE_EXPERTS,
    LM_T_GRANITE_SHARED(LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED),
    LM_T_END,
};

static const char *const classes[] = {
    "GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM", NULL
};
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smollm", "refact", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .divide_logits = true,
    .share_of_used = true,
};

const struct lm_arch lm_arch_granitemoe = {
    .name = "granitemoe", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
