/* SPDX-License-Identifier: MIT */
/* EXAONE 4 (2025): norms after attention and feed-forward only, every head of queries and keys
 * normalized; with a window, layers that see everything do not rotate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_WINDOW,
    LM_KEY_LOCAL_LAYERS,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_HEAD_K, LM_DIM_HEAD_K, LM_AS_IS),
    LM_T_O,
    LM_T_NORM(LM_POST_ATTN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_NORM(LM_POST_FFN_NORM, "post_ffw_norm", LM_HF "post_feedforward_layernorm.weight"),
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Exaone4ForCausalLM", NULL };
static const char *const ignored[] = { "mtp.*", NULL };
static const char *const pre_names[] = { "gpt-2", "exaone4", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .all_every = 4,
    .all_unturned = true,
};

const struct lm_arch lm_arch_exaone4 = {
    .name = "exaone4", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
