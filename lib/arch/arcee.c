/* SPDX-License-Identifier: MIT */
/* AFM (Arcee AI, 2025): llama with a squared ReLU and no gate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_ATTN_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_UP_DOWN,
    LM_T_END,
};

static const char *const classes[] = { "ArceeForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_RELU2 };

const struct lm_arch lm_arch_arcee = {
    .name = "arcee", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
