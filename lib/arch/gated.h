/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_GATED_H
#define LM_ARCH_GATED_H

/* What Qwen3-Next and Qwen3.5 share. */

#include "arch/recurrent.h"
#include "arch/rows.h"

/* For struct lm_dense's `qkv`: queries [head_k] with a gate behind each head, whose sigmoid the
 * weighted values are multiplied by (Qiu et al., "Gated Attention for LLMs", 2025). */
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
    LM_KEY_ROT("partial_rotary_factor", "=0.25")

/* Prediction layers behind the others are left out. */
#define LM_NO_PREDICTION "mtp.*"

#endif
