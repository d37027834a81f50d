/* SPDX-License-Identifier: MIT */
/* Command R7B (2024): Command R with a window in three layers of four; the fourth sees everything
 * and does not rotate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=10000"),
    LM_KEY_NORM_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("logit_scale", 0, logit_scale, "logit_scale", "=0.0625"),
    LM_KEY_U32("attention.sliding_window", 0, window, "sliding_window", "=4096"),
    LM_KEY_VOCAB,
    LM_KEY_ROT("rotary_pct", "=1"),
    LM_KEY_SCALING("=none"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Cohere2ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smollm", "command-r", NULL };
static const struct lm_arch_need needs[] = {
    { "sliding_window_pattern", { "4" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .all_every = 4, .all_unturned = true,
    .constants = lm_dense_parallel,
};

const struct lm_arch lm_arch_cohere2 = {
    .name = "cohere2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .needs = needs,
};
