/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_GRANITE_H
#define LM_ARCH_GRANITE_H

/* Rows that Granite's families with experts share, where a gate and its partner are one tensor in
 * checkpoints, and the multipliers that all have. */

#include "arch/rows.h"

#define LM_KEYS_GRANITE_SCALES \
    LM_KEY_F32("attention.scale", 0, attn_scale, "attention_multiplier", "=1"), \
    LM_KEY_F32("embedding_scale", 0, embd_scale, "embedding_multiplier", "=1"), \
    LM_KEY_F32("residual_scale", 0, residual_scale, "residual_multiplier", "=1"), \
    LM_KEY_F32("logit_scale", 0, logit_scale, "logits_scaling", "=1")

#define LM_KEY_GRANITE_SHARED \
    LM_KEY_U32("expert_shared_feed_forward_length", 0, n_ff_shared, \
               "shared_expert_intermediate_size", "shared_intermediate_size")

#define LM_T_GRANITE_HALVES(role, name, transform) \
    { "blk.{i}." name ".weight", LM_HF "block_sparse_moe.input_linear.weight", \
      { LM_DIM_EMBD, LM_DIM_FF_EXPERT, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, transform, 0, role, NULL }

#define LM_T_GRANITE_EXPERTS \
    LM_T_ROUTER(LM_HF "block_sparse_moe.router.layer.weight"), \
    LM_T_GRANITE_HALVES(LM_GATE_EXPERTS, "ffn_gate_exps", LM_FIRST_HALVES), \
    LM_T_GRANITE_HALVES(LM_UP_EXPERTS, "ffn_up_exps", LM_SECOND_HALVES), \
    { "blk.{i}.ffn_down_exps.weight", LM_HF "block_sparse_moe.output_linear.weight", \
      { LM_DIM_FF_EXPERT, LM_DIM_EMBD, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, LM_AS_IS, 0, \
      LM_DOWN_EXPERTS, NULL }

#define LM_T_GRANITE_MLP(role, name, source, cols, rows, transform, when) \
    { "blk.{i}." name ".weight", LM_HF "shared_mlp." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (when), transform, 0, role, NULL }

/* The expert that all tokens share; what is there instead of experts. */
#define LM_T_GRANITE_SHARED(when) \
    LM_T_GRANITE_MLP(LM_GATE_SHARED, "ffn_gate_shexp", "input_linear", LM_DIM_EMBD, \
                     LM_DIM_FF_SHARED, LM_FIRST_HALVES, when), \
    LM_T_GRANITE_MLP(LM_UP_SHARED, "ffn_up_shexp", "input_linear", LM_DIM_EMBD, \
                     LM_DIM_FF_SHARED, LM_SECOND_HALVES, when), \
    LM_T_GRANITE_MLP(LM_DOWN_SHARED, "ffn_down_shexp", "output_linear", LM_DIM_FF_SHARED, \
                     LM_DIM_EMBD, LM_AS_IS, when)
#define LM_T_GRANITE_DENSE \
    LM_T_GRANITE_MLP(LM_FFN_GATE, "ffn_gate", "input_linear", LM_DIM_EMBD, LM_DIM_FF, \
                     LM_FIRST_HALVES, LM_TENSOR_IF_DENSE), \
    LM_T_GRANITE_MLP(LM_FFN_UP, "ffn_up", "input_linear", LM_DIM_EMBD, LM_DIM_FF, \
                     LM_SECOND_HALVES, LM_TENSOR_IF_DENSE), \
    LM_T_GRANITE_MLP(LM_FFN_DOWN, "ffn_down", "output_linear", LM_DIM_FF, LM_DIM_EMBD, \
                     LM_AS_IS, LM_TENSOR_IF_DENSE)

#endif
