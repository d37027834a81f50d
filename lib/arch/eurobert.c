/* SPDX-License-Identifier: MIT */
/* EuroBERT (Boizard et al., 2025): llama whose tokens see those after them too. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_SIZES,
    LM_KEY_BASE("=10000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_NOT_CAUSAL,
    LM_KEY_SCALING("=none"),
    LM_KEY_POOLING,
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define PART(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, "layers.{i}." source ".weight", cols, rows, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("embed_tokens.weight"),
    LM_T_OUTPUT_NORM("norm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", "layers.{i}.input_layernorm.weight"),
    PART(LM_ATTN_Q, "attn_q", "self_attn.q_proj", LM_DIM_EMBD, LM_DIM_Q),
    PART(LM_ATTN_K, "attn_k", "self_attn.k_proj", LM_DIM_EMBD, LM_DIM_K),
    PART(LM_ATTN_V, "attn_v", "self_attn.v_proj", LM_DIM_EMBD, LM_DIM_V),
    PART(LM_ATTN_OUT, "attn_output", "self_attn.o_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", "layers.{i}.post_attention_layernorm.weight"),
    PART(LM_FFN_GATE, "ffn_gate", "mlp.gate_proj", LM_DIM_EMBD, LM_DIM_FF),
    PART(LM_FFN_UP, "ffn_up", "mlp.up_proj", LM_DIM_EMBD, LM_DIM_FF),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.down_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};

static const char *const classes[] = { "EuroBertModel", "EuroBertForMaskedLM", NULL };
static const char *const ignored[] = { "lm_head.weight", NULL };
static const char *const prefixes[] = { "model.", NULL };
static const struct lm_arch_need needs[] = {
    { "attention_bias", { "false" }, NULL },
    { "mlp_bias", { "false" }, NULL },
    { "rope_scaling", { NULL }, NULL },
    { "rope_parameters.rope_type", { "default" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_eurobert = {
    .name = "eurobert", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .prefixes = prefixes, .encoder = true, .settle = lm_dense_settle,
    .build = lm_dense_build, .dense = &dense, .needs = needs,
};
