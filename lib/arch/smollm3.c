/* SPDX-License-Identifier: MIT */
/* SmolLM3 (2025): llama whose every fourth layer does not rotate (Yang et al., "RoPE to NoPE and
 * back again", 2025). */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=2000000"),
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_ATTN_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_GATED,
    LM_T_GATED_B,
    LM_T_END,
};

static const char *const classes[] = { "SmolLM3ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "llama-bpe", "smaug-bpe", NULL };
static const struct lm_arch_need needs[] = {
    { "no_rope_layer_interval", { "4" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .unturned_every = 4,
};

const struct lm_arch lm_arch_smollm3 = {
    .name = "smollm3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names, .needs = needs,
};
