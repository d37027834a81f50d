/* SPDX-License-Identifier: MIT */
/* Falcon-H1 (TII, 2025): attention and Mamba-2 beside each other in every layer; the model's many
 * multipliers are part of the weights. */
#include "arch/recurrent.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS, LM_KEY_LAYERS,
    LM_KEY_CONV("mamba_d_conv"),
    LM_KEY_SSM_INNER("mamba_d_ssm"),
    LM_KEY_SSM_STATE("mamba_d_state"),
    { "ssm.time_step_rank", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_PRODUCT,
      { "mamba_d_ssm", "/mamba_d_head" }, LM_FIELD(ssm_rank) },
    LM_KEY_SSM_GROUPS("mamba_n_groups"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_HEADS_KV,
    LM_KEYS_HEAD_DIM("head_dim"),
    LM_KEY_BASE("=100000"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define TIMES(role, name, source, cols, rows) \
    LM_T_MATRIX(role, name, LM_HF source, cols, rows, LM_TIMES)

static const struct lm_arch_tensor tensors[] = {
    { "token_embd.weight", "model.embed_tokens.weight", { LM_DIM_EMBD, LM_DIM_VOCAB },
      LM_TENSOR_TABLE, LM_TIMES, 0, LM_TOKEN_EMBD, NULL },
    { "output.weight", "lm_head.weight", { LM_DIM_EMBD, LM_DIM_VOCAB },
      LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_TIMES, 1, LM_OUTPUT, NULL },
    LM_T_OUTPUT_NORM("model.final_layernorm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_VECTOR(LM_FFN_NORM, "ffn_norm", LM_HF "pre_ff_layernorm.weight", LM_DIM_EMBD, LM_AS_IS),
    TIMES(LM_ATTN_Q, "attn_q", "self_attn.q_proj.weight", LM_DIM_EMBD, LM_DIM_Q),
    TIMES(LM_ATTN_K, "attn_k", "self_attn.k_proj.weight", LM_DIM_EMBD, LM_DIM_K),
    TIMES(LM_ATTN_V, "attn_v", "self_attn.v_proj.weight", LM_DIM_EMBD, LM_DIM_V),
    TIMES(LM_ATTN_OUT, "attn_output", "self_attn.o_proj.weight", LM_DIM_HEADS_OUT, LM_DIM_EMBD),
    LM_R_MAMBA2(LM_HF "mamba.", LM_TIMES_ROWS, LM_TIMES),
    LM_R_MAYBE(LM_SSM_NORM, "ssm_norm.weight", LM_HF "mamba.norm.weight", LM_DIM_SSM_OF_GROUP,
               LM_DIM_SSM_GROUPS, LM_FLAT),
    TIMES(LM_FFN_GATE, "ffn_gate", "feed_forward.gate_proj.weight", LM_DIM_EMBD, LM_DIM_FF),
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "feed_forward.up_proj.weight", LM_DIM_EMBD, LM_DIM_FF,
                LM_AS_IS),
    TIMES(LM_FFN_DOWN, "ffn_down", "feed_forward.down_proj.weight", LM_DIM_FF, LM_DIM_EMBD),
    LM_T_END,
};

static const struct lm_arch_factor factors[] = {
    { LM_TOKEN_EMBD, { "embedding_multiplier" } },
    { LM_OUTPUT,     { "lm_head_multiplier" } },
    { LM_ATTN_Q,     { "attention_in_multiplier" } },
    { LM_ATTN_K,     { "key_multiplier", "attention_in_multiplier" } },
    { LM_ATTN_V,     { "attention_in_multiplier" } },
    { LM_ATTN_OUT,   { "attention_out_multiplier" } },
    { LM_FFN_GATE,   { "mlp_multipliers.0" } },
    { LM_FFN_DOWN,   { "mlp_multipliers.1" } },
    { LM_SSM_IN,     { "ssm_in_multiplier", "ssm_multipliers" } },
    { LM_SSM_IN_B,   { NULL, "ssm_multipliers" } },
    { LM_SSM_OUT,    { "ssm_out_multiplier" } },
    { LM_SSM_OUT_B,  { "ssm_out_multiplier" } },
    { LM_N_ROLES,    { NULL } },
};

static const char *const classes[] = { "FalconH1ForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_arch_need needs[] = {
    { "mamba_norm_before_gate", { "false" }, "mamba_rms_norm" },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .rope_halves = true,
    .recurrent = lm_recurrent_mamba2, .both = true,
};

const struct lm_arch lm_arch_falcon_h1 = {
    .name = "falcon-h1", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory, .factors = factors, .needs = needs,
};
