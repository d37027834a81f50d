/* SPDX-License-Identifier: MIT */
/* gpt-oss (OpenAI, 2025): experts with biases and clipped gates, a sink for each head, and a window
 * in every other layer, the first among them. */
#include "arch/dense.h"
#include "arch/rows.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_BEGIN,
    LM_KEY_BASE("=150000"),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED),
    LM_KEYS_HEAD_DIM("head_dim", "=64"),
    LM_KEY_FILE_TYPE,
    LM_KEY_U32("attention.sliding_window", LM_KEY_REQUIRED, window, "sliding_window", "=128"),
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, "intermediate_size"),
    LM_KEY_ROT_READ,
    LM_KEYS_END,
};

#define EXPERTS(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", LM_HF "mlp.experts." source, { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS, transform, 0, role, \
      LM_HF "mlp.experts." source "_blocks" }, \
    { "blk.{i}." name ".bias", LM_HF "mlp.experts." source "_bias", { rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER, transform == LM_STACK_TURNED ? LM_AS_IS : transform, 0, role##_B, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"),
    LM_T_NORM(LM_FFN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"),
    LM_T_QKV(LM_AS_IS, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_Q_B, "attn_q.bias", LM_HF "self_attn.q_proj.bias", LM_DIM_Q, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_K_B, "attn_k.bias", LM_HF "self_attn.k_proj.bias", LM_DIM_K, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_V_B, "attn_v.bias", LM_HF "self_attn.v_proj.bias", LM_DIM_V, LM_AS_IS),
    LM_T_VECTOR(LM_ATTN_SINKS, "attn_sinks.weight", LM_HF "self_attn.sinks", LM_DIM_HEADS,
                LM_AS_IS),
    LM_T_O,
    LM_T_VECTOR(LM_ATTN_OUT_B, "attn_output.bias", LM_HF "self_attn.o_proj.bias", LM_DIM_EMBD,
                LM_AS_IS),
    LM_T_ROUTER(LM_HF "mlp.router.weight"),
    LM_T_VECTOR(LM_ROUTER_B, "ffn_gate_inp.bias", LM_HF "mlp.router.bias", LM_DIM_EXPERTS,
                LM_AS_IS),
    EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", "down_proj", LM_DIM_FF_EXPERT, LM_DIM_EMBD,
            LM_STACK_TURNED),
    EXPERTS(LM_GATE_EXPERTS, "ffn_gate_exps", "gate_up_proj", LM_DIM_EMBD, LM_DIM_FF_EXPERT,
            LM_EVEN_ROWS),
    EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", "gate_up_proj", LM_DIM_EMBD, LM_DIM_FF_EXPERT,
            LM_ODD_ROWS),
    LM_T_END,
};

static const char *const classes[] = { "GptOssForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_arch_need needs[] = {
    { "swiglu_alpha", { "1.702" }, NULL },
    { "swiglu_limit", { "7", "7.0" }, NULL },
    { NULL, { NULL }, NULL },
};
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SWIGLU_CLAMP, .rope_halves = true, .all_every = 2,
    .share_of_used = true,
};

const struct lm_arch lm_arch_gpt_oss = {
    .name = "gpt-oss", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = lm_dense_settle, .build = lm_dense_build, .dense = &dense,
    .needs = needs,
};
