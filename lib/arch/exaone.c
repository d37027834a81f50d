/* SPDX-License-Identifier: MIT */
/* EXAONE 3 (LG AI Research, 2024): llama under other names, with rotated halves. */
#include "arch/dense.h"
#include "arch/rows.h"

#define EXAONE "transformer.h.{i}."
#define PART(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, EXAONE source ".weight", cols, rows, LM_AS_IS)

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=500000"),
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps,
               "layer_norm_epsilon", "rms_norm_eps", "=1e-5"),
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_FILE_TYPE,
    LM_KEY_ROT("partial_rotary_factor", "=1"),
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_ROPE_FREQS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", EXAONE "ln_1.weight"),
    PART(LM_ATTN_Q, "attn_q", "attn.attention.q_proj", LM_DIM_EMBD, LM_DIM_Q),
    PART(LM_ATTN_K, "attn_k", "attn.attention.k_proj", LM_DIM_EMBD, LM_DIM_K),
    PART(LM_ATTN_V, "attn_v", "attn.attention.v_proj", LM_DIM_EMBD, LM_DIM_V),
    PART(LM_ATTN_OUT, "attn_output", "attn.attention.out_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", EXAONE "ln_2.weight"),
    PART(LM_FFN_GATE, "ffn_gate", "mlp.c_fc_0", LM_DIM_EMBD, LM_DIM_FF),
    PART(LM_FFN_UP, "ffn_up", "mlp.c_fc_1", LM_DIM_EMBD, LM_DIM_FF),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.c_proj", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};

static const char *const classes[] = { "ExaoneForCausalLM", NULL };
static const char *const ignored[] = {
    EXAONE "attn.attention.rotary.inv_freq", "transformer.rotary.inv_freq", NULL
};
static const struct lm_arch_need needs[] = {
    { "activation_function", { "silu" }, NULL },
    { "attention_bias", { "false" }, NULL },
    { "mlp_bias", { "false" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "smollm", "exaone", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
};

const struct lm_arch lm_arch_exaone = {
    .name = "exaone", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
