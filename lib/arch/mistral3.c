/* SPDX-License-Identifier: MIT */
/* Ministral 3 (Mistral AI, 2025): llama with yarn, whose cosine and sine do not grow, and queries
 * that grow with every training length before them. */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=1000000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    { "rope.scaling.yarn_log_multiplier", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN, { "mscale_all_dim" },
      LM_FIELD(yarn_log) },
    { "attention.temperature_scale", LM_GGUF_F32, 0, LM_FROM_ROPE, { "llama_4_scaling_beta" },
      LM_FIELD(far_scale) },
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

/* What cosine and sine grow by is divided by what they would with the multiplier, which files
 * give for the whole of a key: all there is to it where that is 1. */
static void constants(struct lm_hparams *h)
{
    const float grown = h->rope_factor > 1 ? 0.1f * logf(h->rope_factor) : 0;
    if (h->rope_scaling == LM_ROPE_YARN && h->yarn_log != 0)
        h->yarn_attn = (1 + grown) / (1 + h->yarn_log * grown);
    h->yarn_log = 0;
}

static const char *const classes[] = { "Ministral3ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = constants,
};

const struct lm_arch lm_arch_mistral3 = {
    .name = "mistral3", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
