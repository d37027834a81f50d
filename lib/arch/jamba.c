/* SPDX-License-Identifier: MIT */
/* Jamba (Lieber et al., 2024): Mamba layers, some with attention that knows no positions, some with
 * experts. */
#include "arch/recurrent.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS,
    LM_KEY_KV_OF_LAYERS,
    LM_KEY_CONV("mamba_d_conv"),
    LM_KEY_SSM_INNER("mamba_expand", "hidden_size"),
    LM_KEY_SSM_STATE("mamba_d_state"),
    { "ssm.time_step_rank", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_16TH,
      { "mamba_dt_rank", "hidden_size" }, LM_FIELD(ssm_rank) },
    LM_KEY_RMS_EPS("=1e-6"),
    LM_KEYS_EXPERTS(0),
    LM_KEY_FILE_TYPE,
    LM_KEYS_END,
};

/* Which layers have experts is said by their tensors alone. */
#define ANY LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL
#define DENSE(role, name, source, cols, rows, flags) \
    { "blk.{i}." name ".weight", LM_HF source, { cols, rows }, ANY | LM_TENSOR_MATRIX | flags, \
      LM_AS_IS, 0, role, NULL }
#define EXPERTS(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", LM_HF source, { cols, rows, LM_DIM_EXPERTS }, \
      ANY | LM_TENSOR_EXPERTS | LM_TENSOR_IF_ROUTER, LM_STACK, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"),
    LM_T_OUTPUT_NORM("model.final_layernorm.weight", LM_AS_IS),
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "pre_ff_layernorm.weight"),
    LM_A_QKV(LM_DIM_Q, LM_AS_IS, LM_AS_IS),
    LM_A_OUT(LM_HF "self_attn.o_proj.weight"),
    LM_R_MAMBA(LM_HF "mamba."),
    LM_R_OTHER(LM_SSM_DT_NORM, "ssm_dt_norm.weight", LM_HF "mamba.dt_layernorm.weight",
               LM_DIM_SSM_RANK, LM_DIM_END, LM_AS_IS),
    LM_R_OTHER(LM_SSM_B_NORM, "ssm_b_norm.weight", LM_HF "mamba.b_layernorm.weight",
               LM_DIM_SSM_STATE, LM_DIM_END, LM_AS_IS),
    LM_R_OTHER(LM_SSM_C_NORM, "ssm_c_norm.weight", LM_HF "mamba.c_layernorm.weight",
               LM_DIM_SSM_STATE, LM_DIM_END, LM_AS_IS),
    DENSE(LM_ROUTER, "ffn_gate_inp", "feed_forward.router.weight", LM_DIM_EMBD, LM_DIM_EXPERTS,
          0),
    DENSE(LM_FFN_GATE, "ffn_gate", "feed_forward.gate_proj.weight", LM_DIM_EMBD, LM_DIM_FF,
          LM_TENSOR_NO_ROUTER),
    DENSE(LM_FFN_UP, "ffn_up", "feed_forward.up_proj.weight", LM_DIM_EMBD, LM_DIM_FF,
          LM_TENSOR_NO_ROUTER),
    DENSE(LM_FFN_DOWN, "ffn_down", "feed_forward.down_proj.weight", LM_DIM_FF, LM_DIM_EMBD,
          LM_TENSOR_NO_ROUTER),
    EXPERTS(LM_GATE_EXPERTS, "ffn_gate_exps", "feed_forward.experts.{e}.gate_proj.weight",
            LM_DIM_EMBD, LM_DIM_FF_EXPERT),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "feed_forward.experts.{e}.up_proj.weight",
            LM_DIM_EMBD, LM_DIM_FF_EXPERT),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "feed_forward.experts.{e}.down_proj.weight",
            LM_DIM_FF_EXPERT, LM_DIM_EMBD),
    LM_T_END,
};

static void constants(struct lm_hparams *h)
{
    h->no_rope = true;
}

static const char *const classes[] = { "JambaForCausalLM", NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = constants,
    .recurrent = lm_recurrent_mamba,
};

const struct lm_arch lm_arch_jamba = {
    .name = "jamba", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .memory = lm_recurrent_memory,
};
