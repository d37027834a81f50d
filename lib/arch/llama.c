/* SPDX-License-Identifier: MIT */
/*
 * Llama and Mistral (Touvron et al., 2023; Jiang et al., 2023): RMS norm before attention
 * and before a SiLU-gated feed-forward, rotary positions, grouped-query attention.  GGUF
 * files hold the rows of Wq and Wk in the order that rotates neighbouring pairs.
 */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-6"),
    { "expert_count", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(n_expert) },
    LM_KEYS_HEAD_DIM_MADE,
    LM_KEY_WINDOW,
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_ROT("=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_ROPE_FREQS,
    LM_T_TWO_NORMS,
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_QKV_B(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_O_B,
    LM_T_GATED,
    LM_T_GATED_B,
    LM_T_END,
};

static const char *const classes[] = { "LlamaForCausalLM", "MistralForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_llama = {
    .name = "llama", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
};
