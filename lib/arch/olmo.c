/* SPDX-License-Identifier: MIT */
/* OLMo (Groeneveld et al., 2024): llama whose layer norms have no weights, with queries, keys and
 * values clipped. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=10000"),
    LM_KEYS_HEAD_DIM_READ,
    LM_KEY_FILE_TYPE,
    LM_KEY_F32("attention.layer_norm_epsilon", LM_KEY_REQUIRED, norm_eps, "=1e-5"),
    LM_KEY_CLAMP_QKV("clip_qkv"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_QKV(LM_PAIR_Q_ROWS, LM_PAIR_K_ROWS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "OlmoForCausalLM", "OLMoForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "gpt-2", "olmo", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_LAYER, .act = LM_ACT_SILU, .bare_norms = true,
};

const struct lm_arch lm_arch_olmo = {
    .name = "olmo", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
