/* SPDX-License-Identifier: MIT */
/* Refact (2023): llama with distances instead of positions, whose heads share one key and one
 * value. */
#include "arch/dense.h"
#include "arch/rows.h"

#define REFACT "transformer.h.{i}."
#define PART(role, name, source, cols, rows, transform) \
    LM_T_MATRIX(role, name, REFACT source ".weight", cols, rows, transform)

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX,
    LM_KEY_EMBD,
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_8_THIRDS, { "n_embd" },
      LM_FIELD(n_ff) },
    LM_KEY_LAYERS,
    LM_KEY_HEADS,
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, "=1"),
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps,
               "layer_norm_epsilon", "=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("transformer.wte.weight"),
    LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("transformer.ln_f.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", REFACT "ln_1.weight"),
    PART(LM_ATTN_Q, "attn_q", "attn.q", LM_DIM_EMBD, LM_DIM_Q, LM_AS_IS),
    PART(LM_ATTN_K, "attn_k", "attn.kv", LM_DIM_EMBD, LM_DIM_K, LM_FIRST_HALVES),
    PART(LM_ATTN_V, "attn_v", "attn.kv", LM_DIM_EMBD, LM_DIM_V, LM_SECOND_HALVES),
    PART(LM_ATTN_OUT, "attn_output", "attn.c_proj", LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", REFACT "ln_2.weight"),
    PART(LM_FFN_GATE, "ffn_gate", "mlp.gate_up_proj", LM_DIM_EMBD, LM_DIM_FF, LM_FIRST_HALVES),
    PART(LM_FFN_UP, "ffn_up", "mlp.gate_up_proj", LM_DIM_EMBD, LM_DIM_FF, LM_SECOND_HALVES),
    PART(LM_FFN_DOWN, "ffn_down", "mlp.c_proj", LM_DIM_FF, LM_DIM_EMBD, LM_AS_IS),
    LM_T_END,
};

static const char *const classes[] = { "GPTRefactForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "multi_query", { "true" }, NULL },
    { "n_inner", { NULL }, NULL },
    { "scale_attn_weights", { "true" }, NULL },
    { NULL, { NULL }, NULL },
};
static const char *const pre_names[] = { "smollm", "refact", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .alibi = 8,
};

const struct lm_arch lm_arch_refact = {
    .name = "refact", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs, .pre_names = pre_names,
};
