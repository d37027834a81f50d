/* SPDX-License-Identifier: MIT */
/* Gemma (Mesnard et al., 2024): norms of 1 + w, a scaled embedding, GELU in the gate. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    LM_KEY_LAYERS,
    LM_KEY_FF,
    LM_KEY_HEADS,
    LM_KEY_HEADS_KV,
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_HEAD_DIM("head_dim", "=256"),
    LM_KEY_FILE_TYPE,
    LM_KEY_BASE_UNUSUAL,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"),
    LM_T_OUTPUT(NULL),
    LM_T_OUTPUT_NORM("model.norm.weight", LM_ADD_ONE),
    LM_T_NORM_1(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM_1(LM_FFN_NORM, "ffn_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_O,
    LM_T_GATED,
    LM_T_END,
};

static const char *const classes[] = { "GemmaForCausalLM", NULL };
static const char *const ignored[] = {
    "lm_head.weight", LM_HF "self_attn.rotary_emb.inv_freq", NULL
};
static const struct lm_arch_token tokens[] = {
    { "eot_token_id", NULL, 107 },
    { "add_space_prefix", NULL, 0 },
    { NULL, NULL, 0 },
};
static const struct lm_arch_need needs[] = {
    { "tie_word_embeddings", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_GELU, .rope_halves = true, .constants = lm_dense_scale_embd,
};

const struct lm_arch lm_arch_gemma = {
    .name = "gemma", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .tokens = tokens, .needs = needs,
};
