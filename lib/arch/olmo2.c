/* SPDX-License-Identifier: MIT */
/* OLMo 2 and 3 (2024, 2025): norms after attention and feed-forward only; queries and keys are
 * normalized over all heads.  The third has a window in three layers of four, whose rotation is
 * not stretched. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_WINDOW,
    LM_KEY_LOCAL_LAYERS,
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_QK_NORM(LM_DIM_Q, LM_DIM_K, LM_AS_IS),
    LM_T_O,
    LM_T_NORM(LM_POST_ATTN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_NORM(LM_POST_FFN_NORM, "post_ffw_norm", LM_HF "post_feedforward_layernorm.weight"),
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "Olmo2ForCausalLM", "Olmo3ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const char *const pre_names[] = { "smaug-bpe", "dbrx", "llama-bpe", "dbrx", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true, .local_plain = true,
    .all_every = 4,
};

const struct lm_arch lm_arch_olmo2 = {
    .name = "olmo2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .pre_names = pre_names,
};
