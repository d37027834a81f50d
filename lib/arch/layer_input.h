/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_LAYER_INPUT_H
#define LM_ARCH_LAYER_INPUT_H

/*
 * Inputs of the layers (Gemma Team, "Gemma 3n", 2025): each token gives every layer a short vector,
 * half of it looked up, half made of its embedding x:
 *
 *   p = norm(Wproj x / sqrt(n_embd)) + sqrt(n_embd_layer) embd[token],  all divided by sqrt(2)
 *   in layer i  x = x + norm(Wout (act(Wgate x) * p_i))
 */

#include "arch/dense.h"
#include "arch/rows.h"

/* For struct lm_dense's `begin`: sets b->layer_inputs, where the model has them. */
void lm_layer_inputs(struct lm_build *b, struct lm_tensor *x);

/* What layer `layer` adds to x [n_embd, n], n being that of the tokens or of the wanted ones. */
struct lm_tensor *lm_layer_input(struct lm_build *b, uint32_t layer, struct lm_tensor *x);

/* For struct lm_dense's `qkv`, of families whose values are normalized: only queries in layers that
 * look at another's keys and values; values are keys before their norm where there is no product
 * for them. */
void lm_shared_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                   struct lm_tensor *table, struct lm_tensor *out[4]);

#define LM_KEY_EMBD_LAYER \
    LM_KEY_U32("embedding_length_per_layer_input", 0, n_embd_layer, \
               "hidden_size_per_layer_input", "=0")
#define LM_KEY_SHARED_KV \
    LM_KEY_U32("attention.shared_kv_layers", 0, n_shared_kv, "num_kv_shared_layers", "=0")

#define LM_LAYER_IN(role, name, source, cols, rows, flags) \
    { name ".weight", source, { cols, rows }, LM_TENSOR_IF_LAYER_INPUT | flags, LM_AS_IS, 0, role, \
      NULL }
#define LM_T_LAYER_INPUTS \
    { "per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight", \
      { LM_DIM_EMBD_LAYERS, LM_DIM_VOCAB }, LM_TENSOR_IF_LAYER_INPUT | LM_TENSOR_TABLE, \
      LM_REPEAT_FIRST_ROW, 0, LM_LAYERS_EMBD, NULL }, \
    LM_LAYER_IN(LM_LAYERS_PROJ, "per_layer_model_proj", "model.per_layer_model_projection.weight", \
                LM_DIM_EMBD, LM_DIM_EMBD_LAYERS, LM_TENSOR_MATRIX), \
    LM_LAYER_IN(LM_LAYERS_NORM, "per_layer_proj_norm", "model.per_layer_projection_norm.weight", \
                LM_DIM_EMBD_LAYER, LM_DIM_END, 0), \
    LM_LAYER_IN(LM_LAYER_GATE, "blk.{i}.inp_gate", LM_HF "per_layer_input_gate.weight", \
                LM_DIM_EMBD, LM_DIM_EMBD_LAYER, LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX), \
    LM_LAYER_IN(LM_LAYER_PROJ, "blk.{i}.proj", LM_HF "per_layer_projection.weight", \
                LM_DIM_EMBD_LAYER, LM_DIM_EMBD, LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX), \
    LM_LAYER_IN(LM_LAYER_NORM, "blk.{i}.post_norm", LM_HF "post_per_layer_input_norm.weight", \
                LM_DIM_EMBD, LM_DIM_END, LM_TENSOR_PER_LAYER)

#endif
