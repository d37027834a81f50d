/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_GATED_H
#define LM_ARCH_GATED_H

/* What Qwen3-Next and Qwen3.5 share. */

#include "arch/recurrent.h"
#include "arch/rows.h"

/*
 * lm_gated_qkv - for struct lm_dense's `qkv`: queries [head_k] with a gate behind each head, whose
 * sigmoid the weighted values are multiplied by (Qiu et al., "Gated Attention for LLMs", 2025).
 *
 * x [n_embd, n] and table, the angles of the tokens' positions or NULL, are the graph's; out
 * becomes queries [head_k, n_head, n], keys and values [.., n_head_kv, n], and the sigmoids of the
 * gates [n_head * head_v, n]; NULL where the graph has failed.
 */
void lm_gated_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                  struct lm_tensor *out[4]);

#define LM_T_GATED_ATTENTION \
    LM_T_NORM_1(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"), \
    LM_T_NORM_1(LM_FFN_NORM, "post_attention_norm", LM_HF "post_attention_layernorm.weight"), \
    LM_A_QKV(LM_DIM_2_Q, LM_AS_IS, LM_AS_IS), \
    LM_A_OUT(LM_HF "self_attn.o_proj.weight"), \
    LM_A_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm", LM_HF "self_attn.q_norm.weight", LM_DIM_HEAD_K, \
                LM_ADD_ONE), \
    LM_A_VECTOR(LM_ATTN_K_NORM, "attn_k_norm", LM_HF "self_attn.k_norm.weight", LM_DIM_HEAD_K, \
                LM_ADD_ONE)

#define LM_KEYS_DELTA \
    LM_KEY_CONV("linear_conv_kernel_dim"), \
    LM_KEY_SSM_STATE("linear_key_head_dim"), \
    LM_KEY_SSM_GROUPS("linear_num_key_heads"), \
    LM_KEY_SSM_RANK("linear_num_value_heads"), \
    LM_KEY_SSM_INNER("linear_value_head_dim", "linear_num_value_heads"), \
    LM_KEYS_RECURRENT_LAYERS, \
    LM_KEY_ROT("partial_rotary_factor", "=0.25"), \
    LM_KEY_FURTHER

#define LM_DELTA LM_HF "linear_attn."

/* The delta rule of Qwen3.5, with a product for each input. */
#define LM_T_DELTA \
    LM_R_MATRIX(LM_ATTN_QKV, "attn_qkv", LM_DELTA "in_proj_qkv.weight", LM_DIM_EMBD, \
                LM_DIM_SSM_CHANNELS, LM_TILE_LAST_ROWS), \
    LM_R_MATRIX(LM_SSM_GATE, "attn_gate", LM_DELTA "in_proj_z.weight", LM_DIM_EMBD, \
                LM_DIM_SSM_INNER, LM_TILE_ROWS), \
    LM_R_MATRIX(LM_SSM_ALPHA, "ssm_alpha", LM_DELTA "in_proj_a.weight", LM_DIM_EMBD, \
                LM_DIM_SSM_RANK, LM_TILE_ROWS), \
    LM_R_MATRIX(LM_SSM_BETA, "ssm_beta", LM_DELTA "in_proj_b.weight", LM_DIM_EMBD, \
                LM_DIM_SSM_RANK, LM_TILE_ROWS), \
    LM_R_OTHER(LM_SSM_CONV, "ssm_conv1d.weight", LM_DELTA "conv1d.weight", LM_DIM_CONV, \
               LM_DIM_SSM_CHANNELS, LM_TILE_LAST_ROWS), \
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", LM_DELTA "dt_bias", LM_DIM_SSM_RANK, LM_DIM_END, \
               LM_TILE_ROWS), \
    LM_R_OTHER(LM_SSM_A, "ssm_a", LM_DELTA "A_log", LM_DIM_SSM_RANK, LM_DIM_END, \
               LM_TILE_ROWS_NEG_EXP), \
    LM_R_OTHER(LM_SSM_NORM, "ssm_norm.weight", LM_DELTA "norm.weight", LM_DIM_SSM_OF_HEAD, \
               LM_DIM_END, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_OUT, "ssm_out", LM_DELTA "out_proj.weight", LM_DIM_SSM_INNER, \
                LM_DIM_EMBD, LM_TILE_COLUMNS)

/* Experts, one of them for all tokens, weighed by a gate of its own. */
#define LM_T_SHARED_EXPERT \
    LM_T_ROUTER(LM_HF "mlp.gate.weight"), \
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "gate_proj.weight", "up_proj.weight", \
                     "down_proj.weight"), \
    LM_T_MATRIX(LM_ROUTER_SHARED, "ffn_gate_inp_shexp", LM_HF "mlp.shared_expert_gate.weight", \
                LM_DIM_EMBD, LM_DIM_1, LM_AS_IS), \
    LM_T_MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", LM_HF "mlp.shared_expert.gate_proj.weight", \
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS), \
    LM_T_MATRIX(LM_UP_SHARED, "ffn_up_shexp", LM_HF "mlp.shared_expert.up_proj.weight", \
                LM_DIM_EMBD, LM_DIM_FF_SHARED, LM_AS_IS), \
    LM_T_MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", LM_HF "mlp.shared_expert.down_proj.weight", \
                LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_AS_IS)

/* The layer behind the others; of several the other ones, which would share what joins their
 * inputs, are left out. */
#define LM_PREDICTION_NAMES \
    "mtp.fc.", "eh_proj.", "mtp.pre_fc_norm_embedding.", "enorm.", "mtp.pre_fc_norm_hidden.", \
    "hnorm.", "mtp.norm.", "shared_head.norm.", "mtp.layers.0.", "", NULL
#define LM_NO_PREDICTION "mtp.*"

#endif
