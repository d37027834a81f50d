/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_ROWS_H
#define LM_ARCH_ROWS_H

/* Rows that many families share: metadata keys with their sources in config.json, and
 * tensors.  The embedding is the first tensor row of every family. */

#include "arch/arch.h"

/* The tokens of families that put no space before a text. */
extern const struct lm_arch_token lm_arch_no_space[];

#define LM_FIELD(f) offsetof(struct lm_hparams, f)

/* --- keys ------------------------------------------------------------------------------- */

#define LM_KEY_U32(name, flags, field, ...) \
    { name, LM_GGUF_U32, flags, LM_FROM_CONFIG, { __VA_ARGS__ }, LM_FIELD(field) }
#define LM_KEY_F32(name, flags, field, ...) \
    { name, LM_GGUF_F32, flags, LM_FROM_CONFIG, { __VA_ARGS__ }, LM_FIELD(field) }

#define LM_KEY_LAYERS \
    LM_KEY_U32("block_count", LM_KEY_REQUIRED, n_layer, \
               "num_hidden_layers", "n_layer", "n_layers", "num_layers")
#define LM_KEY_CTX \
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, \
               "max_position_embeddings", "n_positions", "n_ctx")
#define LM_KEY_EMBD \
    LM_KEY_U32("embedding_length", LM_KEY_REQUIRED, n_embd, "hidden_size", "n_embd", "d_model")
#define LM_KEY_FF \
    LM_KEY_U32("feed_forward_length", LM_KEY_REQUIRED, n_ff, "intermediate_size", "n_inner")
#define LM_KEY_FF_4 \
    { "feed_forward_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_4_TIMES, \
      { "hidden_size", "n_embd" }, LM_FIELD(n_ff) }
#define LM_KEY_HEADS \
    LM_KEY_U32("attention.head_count", LM_KEY_REQUIRED, n_head, "num_attention_heads", "n_head")
#define LM_KEY_HEADS_KV \
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, \
               "num_key_value_heads", "num_attention_heads", "n_head")
#define LM_KEY_BASE(class_default) \
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_ROPE, \
      { "rope_theta", class_default }, LM_FIELD(rope_base) }
/* The name of the scaling, whatever config.json says ("=none"). */
#define LM_KEY_SCALING(name) \
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_CONFIG, { name }, LM_FIELD(rope_scaling) }
/* The base of layers with a window. */
#define LM_KEY_BASE_LOCAL(...) \
    { "rope.freq_base_swa", LM_GGUF_F32, 0, LM_FROM_ROPE_LOCAL, { __VA_ARGS__ }, \
      LM_FIELD(rope_base_local) }
#define LM_KEY_RMS_EPS(class_default) \
    LM_KEY_F32("attention.layer_norm_rms_epsilon", LM_KEY_REQUIRED, norm_eps, \
               "rms_norm_eps", "norm_eps", class_default)
#define LM_KEY_NORM_EPS(class_default) \
    LM_KEY_F32("attention.layer_norm_epsilon", LM_KEY_REQUIRED, norm_eps, \
               "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", class_default)
/* Experts are chosen from the best groups. */
#define LM_KEYS_EXPERT_GROUPS \
    LM_KEY_U32("expert_group_count", 0, n_group, "n_group"), \
    LM_KEY_U32("expert_group_used_count", 0, n_group_used, "topk_group")
/* So many layers behind the last predict further tokens. */
#define LM_KEY_FURTHER \
    { "nextn_predict_layers", LM_GGUF_U32, 0, LM_FROM_FURTHER, { NULL }, LM_FIELD(n_further) }
/* The same where the checkpoint's are left out. */
#define LM_KEY_FURTHER_READ \
    { "nextn_predict_layers", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(n_further) }
#define LM_KEY_FILE_TYPE \
    { "general.file_type", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_FILE_TYPE, { NULL }, 0 }
#define LM_KEY_VOCAB \
    { "vocab_size", LM_GGUF_U32, LM_KEY_UNUSED, LM_FROM_CONFIG, { "vocab_size" }, 0 }
#define LM_KEY_WINDOW \
    LM_KEY_U32("attention.sliding_window", 0, window, "sliding_window")
#define LM_KEY_LOCAL_LAYERS \
    { "attention.sliding_window_pattern", LM_GGUF_ARR, 0, LM_FROM_LOCAL_LAYERS, { NULL }, 0 }
/* Positions are of several kinds, which read different pairs of a head. */
#define LM_KEY_SECTIONS \
    { "rope.dimension_sections", LM_GGUF_ARR, LM_KEY_UNUSED, LM_FROM_SECTIONS, \
      { "mrope_section" }, 0 }
#define LM_KEY_ROT(...) \
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_ROT_DIM, { __VA_ARGS__ }, LM_FIELD(n_rot) }
#define LM_KEY_PARALLEL(class_default) \
    { "use_parallel_residual", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, \
      { "use_parallel_residual", class_default }, LM_FIELD(parallel) }

#define LM_KEYS_EXPERTS(flags) \
    LM_KEY_U32("expert_count", flags, n_expert, "num_local_experts", "num_experts", \
               "n_routed_experts"), \
    LM_KEY_U32("expert_used_count", flags, n_expert_used, "num_experts_per_tok")
#define LM_KEY_EXPERT_FF \
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, "moe_intermediate_size")
/* The experts that all tokens share have so many times the length of one. */
#define LM_KEY_SHARED_FF(length, n) \
    { "expert_shared_feed_forward_length", LM_GGUF_U32, 0, LM_FROM_PRODUCT, { length, n }, \
      LM_FIELD(n_ff_shared) }
/* So many first layers have none, as a number or a list of kinds says. */
#define LM_KEY_DENSE_FIRST \
    { "leading_dense_block_count", LM_GGUF_U32, 0, LM_FROM_DENSE_FIRST, \
      { "first_k_dense_replace" }, LM_FIELD(n_dense_first) }
/* Sigmoids score them. */
#define LM_KEY_GATING_SIGMOID LM_KEY_U32("expert_gating_func", 0, gating, "=2")
/* Queries, keys and values are clipped to that size; null, and then not written, means not. */
#define LM_KEY_CLAMP_QKV(...) LM_KEY_F32("attention.clamp_kqv", 0, clamp_qkv, __VA_ARGS__)
/* The activation, where it is not the family's, whose name `usual` is ("=NAME"). */
#define LM_KEY_ACT(name, usual) \
    { "hidden_activation", LM_GGUF_STR, 0, LM_FROM_ACT, { name, usual }, LM_FIELD(act) }
/* Are the shares of a token's experts made to sum to 1?  Where files do not say it, the family's
 * way is meant, which `usual` is ("=true" or "=false"). */
#define LM_KEY_EXPERTS_NORM(usual) \
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_UNLESS, { "norm_topk_prob", usual }, \
      LM_FIELD(experts_norm) }

/* The same as config.json calls it, always written. */
#define LM_KEY_EXPERTS_NORM_AS(name, class_default) \
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_CONFIG, { name, class_default }, \
      LM_FIELD(experts_norm) }

/* Encoders. */
#define LM_KEY_NOT_CAUSAL \
    { "attention.causal", LM_GGUF_BOOL, LM_KEY_UNUSED, LM_FROM_CONFIG, { "=false" }, 0 }
#define LM_KEY_POOLING \
    { "pooling_type", LM_GGUF_U32, 0, LM_FROM_POOLING, { NULL }, LM_FIELD(pooling) }
#define LM_KEY_LABELS \
    { "classifier.output_labels", LM_GGUF_ARR, LM_KEY_UNUSED, LM_FROM_LABELS, { "id2label" }, 0 }
#define LM_KEY_TYPES \
    LM_KEY_U32("tokenizer.ggml.token_type_count", LM_KEY_OF_VOCAB, n_types, "type_vocab_size")

/* Length of a key and of a value, where the config's class has one. */
#define LM_KEYS_HEAD_DIM(...) \
    LM_KEY_U32("attention.key_length", 0, head_k, __VA_ARGS__), \
    LM_KEY_U32("attention.value_length", 0, head_v, __VA_ARGS__)
/* The same from hidden_size / num_attention_heads. */
#define LM_KEYS_HEAD_DIM_MADE \
    { "attention.key_length", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, LM_FIELD(head_k) }, \
    { "attention.value_length", LM_GGUF_U32, 0, LM_FROM_HEAD_DIM, { NULL }, LM_FIELD(head_v) }
/* Read, but not written. */
#define LM_KEYS_HEAD_DIM_READ \
    { "attention.key_length", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(head_k) }, \
    { "attention.value_length", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(head_v) }
#define LM_KEY_ROT_READ \
    { "rope.dimension_count", LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, LM_FIELD(n_rot) }
/* Written where it is not what readers take for it. */
#define LM_KEY_BASE_UNUSUAL \
    { "rope.freq_base", LM_GGUF_F32, 0, LM_FROM_UNLESS, { "rope_theta", "=10000" }, \
      LM_FIELD(rope_base) }
/* What scores are multiplied with, where it is not what the family's numbers make of it; behind
 * the keys of these. */
#define LM_KEY_PRE_ATTN \
    { "attention.scale", LM_GGUF_F32, 0, LM_FROM_PRE_ATTN, { "query_pre_attn_scalar" }, \
      LM_FIELD(attn_scale) }

#define LM_KEYS_ROPE_SCALING \
    { "rope.scaling.type", LM_GGUF_STR, 0, LM_FROM_ROPE_TYPE, { NULL }, \
      LM_FIELD(rope_scaling) }, \
    { "rope.scaling.factor", LM_GGUF_F32, 0, LM_FROM_ROPE_LINEAR, { "factor" }, \
      LM_FIELD(rope_factor) }, \
    { "rope.scaling.original_context_length", LM_GGUF_U32, 0, LM_FROM_ROPE_YARN, \
      { "original_max_position_embeddings" }, LM_FIELD(rope_orig_ctx) }, \
    { "rope.scaling.yarn_ext_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN, \
      { "extrapolation_factor" }, LM_FIELD(yarn_ext) }, \
    { "rope.scaling.yarn_attn_factor", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN, \
      { "attention_factor" }, LM_FIELD(yarn_attn) }, \
    { "rope.scaling.yarn_beta_fast", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN, \
      { "beta_fast" }, LM_FIELD(yarn_beta_fast) }, \
    { "rope.scaling.yarn_beta_slow", LM_GGUF_F32, 0, LM_FROM_ROPE_YARN, \
      { "beta_slow" }, LM_FIELD(yarn_beta_slow) }, \
    { "rope.scaling.yarn_truncate", LM_GGUF_BOOL, 0, LM_FROM_UNLESS, { "truncate", "=true" }, \
      LM_FIELD(yarn_truncate) }

/* What most families begin with: the sizes, and with how rotation is stretched. */
#define LM_KEYS_SIZES \
    LM_KEY_LAYERS, LM_KEY_CTX, LM_KEY_EMBD, LM_KEY_FF, LM_KEY_HEADS, LM_KEY_HEADS_KV
#define LM_KEYS_BEGIN LM_KEYS_SIZES, LM_KEYS_ROPE_SCALING
/* Numbers of recurrent layers. */
#define LM_KEY_CONV(...) \
    LM_KEY_U32("ssm.conv_kernel", LM_KEY_REQUIRED, conv, __VA_ARGS__)
#define LM_KEY_SSM_STATE(...) \
    LM_KEY_U32("ssm.state_size", LM_KEY_REQUIRED, ssm_state, __VA_ARGS__)
#define LM_KEY_SSM_GROUPS(...) \
    LM_KEY_U32("ssm.group_count", LM_KEY_REQUIRED, ssm_groups, __VA_ARGS__)
#define LM_KEY_SSM_RANK(...) \
    LM_KEY_U32("ssm.time_step_rank", LM_KEY_REQUIRED, ssm_rank, __VA_ARGS__)
#define LM_KEY_SSM_INNER(...) \
    { "ssm.inner_size", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_PRODUCT, { __VA_ARGS__ }, \
      LM_FIELD(ssm_inner) }
#define LM_KEY_KV_OF_LAYERS \
    { "attention.head_count_kv", LM_GGUF_ARR, LM_KEY_REQUIRED, LM_FROM_KV_OF_LAYERS, \
      { "num_key_value_heads" }, 0 }
#define LM_KEYS_RECURRENT_LAYERS \
    { "attention.recurrent_layers", LM_GGUF_ARR, 0, LM_FROM_RECURRENT_LAYERS, { NULL }, 0 }, \
    LM_KEY_U32("full_attention_interval", 0, attn_every, "full_attention_interval", "=4")
#define LM_KEYS_NO_ATTENTION \
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "=1048576"), \
    LM_KEY_EMBD, \
    LM_KEY_U32("feed_forward_length", 0, n_ff, "=0"), \
    LM_KEY_U32("attention.head_count", 0, n_head, "=0"), \
    LM_KEY_LAYERS

#define LM_KEYS_END { NULL, LM_GGUF_U32, 0, LM_FROM_NOTHING, { NULL }, 0 }

/* --- tensors ---------------------------------------------------------------------------- */

#define LM_T_TABLE(role, name, source, rows) \
    { name, source, { LM_DIM_EMBD, rows }, LM_TENSOR_TABLE, LM_AS_IS, 0, role, NULL }
#define LM_T_EMBD(source) \
    LM_T_TABLE(LM_TOKEN_EMBD, "token_embd.weight", source, LM_DIM_VOCAB)
#define LM_T_OUTPUT(source) \
    { "output.weight", source, { LM_DIM_EMBD, LM_DIM_VOCAB }, \
      LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, LM_AS_IS, 1, LM_OUTPUT, NULL }
#define LM_T_OUTPUT_B(source) \
    { "output.bias", source, { LM_DIM_VOCAB }, LM_TENSOR_OPTIONAL, LM_AS_IS, 0, LM_OUTPUT_B, \
      NULL }
#define LM_T_OUTPUT_NORM(source, transform) \
    { "output_norm.weight", source, { LM_DIM_EMBD }, 0, transform, 0, LM_OUTPUT_NORM, NULL }
#define LM_T_OUTPUT_NORM_B(source) \
    { "output_norm.bias", source, { LM_DIM_EMBD }, 0, LM_AS_IS, 0, LM_OUTPUT_NORM_B, NULL }
#define LM_T_ONE(role, name, source, len) \
    { name, source, { len }, 0, LM_AS_IS, 0, role, NULL }
#define LM_T_EMBD_NORM(weight, bias) \
    LM_T_ONE(LM_EMBD_NORM, "token_embd_norm.weight", weight, LM_DIM_EMBD), \
    LM_T_ONE(LM_EMBD_NORM_B, "token_embd_norm.bias", bias, LM_DIM_EMBD)
/* A table of which only the first row is used: every token is in the first segment. */
#define LM_T_TYPES(source) \
    { "token_types.weight", source, { LM_DIM_EMBD, LM_DIM_TYPES }, LM_TENSOR_OPTIONAL, LM_AS_IS, \
      0, LM_TYPE_EMBD, NULL }
/* A part of what judges a pooled vector (lm_dense_classify), with the names of its weight and
 * bias in checkpoints, or NULL; both parts as files have them. */
#define LM_T_CLASSIFIER(role, name, rows, weight, bias) \
    { name ".weight", weight, { LM_DIM_EMBD, rows }, LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL, \
      LM_AS_IS, 0, role, NULL }, \
    { name ".bias", bias, { rows }, LM_TENSOR_OPTIONAL, LM_AS_IS, 0, role##_B, NULL }
#define LM_T_CLASSIFIER_READ \
    LM_T_CLASSIFIER(LM_CLS, "cls", LM_DIM_EMBD, NULL, NULL), \
    LM_T_CLASSIFIER(LM_CLS_OUT, "cls.output", LM_DIM_LABELS, NULL, NULL)
#define LM_T_MADE(role, name, transform) \
    { name, NULL, { LM_DIM_ROT_PAIRS }, LM_TENSOR_OPTIONAL, transform, 0, role, NULL }
#define LM_T_ROPE_FREQS LM_T_MADE(LM_ROPE_FREQS, "rope_freqs.weight", LM_MAKE_ROPE_FREQS)
#define LM_T_ROPE_LONG \
    LM_T_MADE(LM_ROPE_LONG_FACTORS, "rope_factors_long.weight", LM_MAKE_ROPE_LONG), \
    LM_T_MADE(LM_ROPE_SHORT_FACTORS, "rope_factors_short.weight", LM_MAKE_ROPE_SHORT)

/* Of each layer: NAME.weight with two axes, a vector that must be there, one that may. */
#define LM_T_MATRIX(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", source, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX, transform, 0, role, NULL }
#define LM_T_VECTOR(role, name, source, len, transform) \
    { "blk.{i}." name, source, { len }, LM_TENSOR_PER_LAYER, transform, 0, role, NULL }
#define LM_T_MAYBE(role, name, source, len, transform) \
    { "blk.{i}." name, source, { len }, LM_TENSOR_PER_LAYER | LM_TENSOR_OPTIONAL, transform, 0, \
      role, NULL }
#define LM_T_NORM(role, name, source) \
    LM_T_VECTOR(role, name ".weight", source, LM_DIM_EMBD, LM_AS_IS)
#define LM_T_NORM_1(role, name, source) \
    LM_T_VECTOR(role, name ".weight", source, LM_DIM_EMBD, LM_ADD_ONE)
/* A layer's norm or matrix with its bias, both in the checkpoint under `source`. */
#define LM_T_LAYER_NORM(role, name, source) \
    LM_T_NORM(role, name, source ".weight"), \
    LM_T_VECTOR(role##_B, name ".bias", source ".bias", LM_DIM_EMBD, LM_AS_IS)
#define LM_T_MATRIX_B(role, name, source, cols, rows, transform) \
    LM_T_MATRIX(role, name, source ".weight", cols, rows, transform), \
    LM_T_VECTOR(role##_B, name ".bias", source ".bias", rows, transform)

#define LM_HF "model.layers.{i}."

/* Separate projections with the usual names; biases of them. */
#define LM_T_QKV(q_transform, k_transform) \
    LM_T_MATRIX(LM_ATTN_Q, "attn_q", LM_HF "self_attn.q_proj.weight", LM_DIM_EMBD, LM_DIM_Q, \
                q_transform), \
    LM_T_MATRIX(LM_ATTN_K, "attn_k", LM_HF "self_attn.k_proj.weight", LM_DIM_EMBD, LM_DIM_K, \
                k_transform), \
    LM_T_MATRIX(LM_ATTN_V, "attn_v", LM_HF "self_attn.v_proj.weight", LM_DIM_EMBD, LM_DIM_V, \
                LM_AS_IS)
#define LM_T_QKV_B(q_transform, k_transform) \
    LM_T_MAYBE(LM_ATTN_Q_B, "attn_q.bias", LM_HF "self_attn.q_proj.bias", LM_DIM_Q, \
               q_transform), \
    LM_T_MAYBE(LM_ATTN_K_B, "attn_k.bias", LM_HF "self_attn.k_proj.bias", LM_DIM_K, \
               k_transform), \
    LM_T_MAYBE(LM_ATTN_V_B, "attn_v.bias", LM_HF "self_attn.v_proj.bias", LM_DIM_V, LM_AS_IS)
#define LM_T_O \
    LM_T_MATRIX(LM_ATTN_OUT, "attn_output", LM_HF "self_attn.o_proj.weight", LM_DIM_HEADS_OUT, \
                LM_DIM_EMBD, LM_AS_IS)
#define LM_T_O_B \
    LM_T_MAYBE(LM_ATTN_OUT_B, "attn_output.bias", LM_HF "self_attn.o_proj.bias", LM_DIM_EMBD, \
               LM_AS_IS)
/* All four with biases. */
#define LM_T_ATTN_B(q_transform, k_transform) \
    LM_T_QKV(q_transform, k_transform), LM_T_QKV_B(q_transform, k_transform), LM_T_O, LM_T_O_B
#define LM_T_QK_NORM(len_q, len_k, transform) \
    LM_T_VECTOR(LM_ATTN_Q_NORM, "attn_q_norm.weight", LM_HF "self_attn.q_norm.weight", len_q, \
                transform), \
    LM_T_VECTOR(LM_ATTN_K_NORM, "attn_k_norm.weight", LM_HF "self_attn.k_norm.weight", len_k, \
                transform)
#define LM_T_UP_DOWN \
    LM_T_MATRIX(LM_FFN_UP, "ffn_up", LM_HF "mlp.up_proj.weight", LM_DIM_EMBD, LM_DIM_FF, \
                LM_AS_IS), \
    LM_T_MATRIX(LM_FFN_DOWN, "ffn_down", LM_HF "mlp.down_proj.weight", LM_DIM_FF, LM_DIM_EMBD, \
                LM_AS_IS)
#define LM_T_GATED \
    LM_T_MATRIX(LM_FFN_GATE, "ffn_gate", LM_HF "mlp.gate_proj.weight", LM_DIM_EMBD, LM_DIM_FF, \
                LM_AS_IS), \
    LM_T_UP_DOWN
#define LM_T_GATED_B \
    LM_T_MAYBE(LM_FFN_GATE_B, "ffn_gate.bias", LM_HF "mlp.gate_proj.bias", LM_DIM_FF, \
               LM_AS_IS), \
    LM_T_MAYBE(LM_FFN_UP_B, "ffn_up.bias", LM_HF "mlp.up_proj.bias", LM_DIM_FF, LM_AS_IS), \
    LM_T_MAYBE(LM_FFN_DOWN_B, "ffn_down.bias", LM_HF "mlp.down_proj.bias", LM_DIM_EMBD, \
               LM_AS_IS)
#define LM_T_ROUTER(source) \
    { "blk.{i}.ffn_gate_inp.weight", source, { LM_DIM_EMBD, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_MIXED, LM_AS_IS, 0, LM_ROUTER, NULL }
#define LM_T_EXPERTS(role, name, source, cols, rows) \
    { "blk.{i}." name ".weight", source, { cols, rows, LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_EXPERTS | LM_TENSOR_IF_MIXED, LM_STACK, 0, role, NULL }
#define LM_T_ALL_EXPERTS(prefix, gate, up, down) \
    LM_T_EXPERTS(LM_GATE_EXPERTS, "ffn_gate_exps", prefix gate, LM_DIM_EMBD, LM_DIM_FF_EXPERT), \
    LM_T_EXPERTS(LM_UP_EXPERTS, "ffn_up_exps", prefix up, LM_DIM_EMBD, LM_DIM_FF_EXPERT), \
    LM_T_EXPERTS(LM_DOWN_EXPERTS, "ffn_down_exps", prefix down, LM_DIM_FF_EXPERT, LM_DIM_EMBD)
/* The router and the experts with the usual names. */
#define LM_T_MLP_EXPERTS \
    LM_T_ROUTER(LM_HF "mlp.gate.weight"), \
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "gate_proj.weight", "up_proj.weight", \
                     "down_proj.weight")
/* Models whose first layers have a feed-forward and the others experts, and maybe one that all
 * tokens share, with the usual names. */
#define LM_T_OF_SOME(role, name, source, cols, rows, when) \
    { "blk.{i}." name ".weight", LM_HF "mlp." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (when), LM_AS_IS, 0, role, NULL }
#define LM_T_DENSE_OR_EXPERTS LM_T_DENSE_OR_EXPERTS_OF("gate", "shared_experts")
/* The same with other names of the router and of the shared expert. */
#define LM_T_DENSE_OR_EXPERTS_OF(router, shared) \
    LM_T_OF_SOME(LM_FFN_GATE, "ffn_gate", "gate_proj", LM_DIM_EMBD, LM_DIM_FF, \
                 LM_TENSOR_IF_DENSE), \
    LM_T_OF_SOME(LM_FFN_UP, "ffn_up", "up_proj", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_IF_DENSE), \
    LM_T_OF_SOME(LM_FFN_DOWN, "ffn_down", "down_proj", LM_DIM_FF, LM_DIM_EMBD, \
                 LM_TENSOR_IF_DENSE), \
    LM_T_ROUTER(LM_HF "mlp." router ".weight"), \
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "gate_proj.weight", "up_proj.weight", \
                     "down_proj.weight"), \
    LM_T_OF_SOME(LM_GATE_SHARED, "ffn_gate_shexp", shared ".gate_proj", LM_DIM_EMBD, \
                 LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED), \
    LM_T_OF_SOME(LM_UP_SHARED, "ffn_up_shexp", shared ".up_proj", LM_DIM_EMBD, \
                 LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED), \
    LM_T_OF_SOME(LM_DOWN_SHARED, "ffn_down_shexp", shared ".down_proj", \
                 LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED)
/* What is added to experts' scores to choose by. */
#define LM_T_PREFERENCE(source) LM_T_PREFERENCE_AS("exp_probs_b.bias", source)
#define LM_T_PREFERENCE_AS(name, source) \
    { "blk.{i}." name, LM_HF source, { LM_DIM_EXPERTS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_MIXED | LM_TENSOR_OPTIONAL, LM_AS_IS, 0, \
      LM_EXPERT_PREFERENCE, NULL }
#define LM_T_TWO_NORMS \
    LM_T_NORM(LM_ATTN_NORM, "attn_norm", LM_HF "input_layernorm.weight"), \
    LM_T_NORM(LM_FFN_NORM, "ffn_norm", LM_HF "post_attention_layernorm.weight")
/* Norms before and behind both, with the names of Gemma 2. */
#define LM_T_FOUR_NORMS(transform) \
    LM_T_VECTOR(LM_ATTN_NORM, "attn_norm.weight", LM_HF "input_layernorm.weight", LM_DIM_EMBD, \
                transform), \
    LM_T_VECTOR(LM_POST_ATTN_NORM, "post_attention_norm.weight", \
                LM_HF "post_attention_layernorm.weight", LM_DIM_EMBD, transform), \
    LM_T_VECTOR(LM_FFN_NORM, "ffn_norm.weight", LM_HF "pre_feedforward_layernorm.weight", \
                LM_DIM_EMBD, transform), \
    LM_T_VECTOR(LM_POST_FFN_NORM, "post_ffw_norm.weight", \
                LM_HF "post_feedforward_layernorm.weight", LM_DIM_EMBD, transform)
/* Of recurrent layers: a matrix, something else. */
#define LM_R_MATRIX(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", source, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_RECURRENT, transform, 0, role, NULL }
#define LM_R_OTHER(role, name, source, ne0, ne1, transform) \
    { "blk.{i}." name, source, { ne0, ne1 }, LM_TENSOR_PER_LAYER | LM_TENSOR_IF_RECURRENT, \
      transform, 0, role, NULL }
#define LM_R_MAYBE(role, name, source, ne0, ne1, transform) \
    { "blk.{i}." name, source, { ne0, ne1 }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_RECURRENT | LM_TENSOR_OPTIONAL, transform, 0, role, NULL }
/* What a layer behind the last has beside what others have (draft_head.c), DeepSeek-V3's names in
 * checkpoints; its norms' transformation. */
#define LM_D_VECTOR(role, name, source, flags, transform) \
    { "blk.{i}.nextn." name ".weight", LM_HF source ".weight", { LM_DIM_EMBD }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_OF_DRAFT | (flags), transform, 0, role, NULL }
#define LM_D_MATRIX(role, name, source, cols, rows, flags) \
    { "blk.{i}.nextn." name ".weight", LM_HF source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_OF_DRAFT | (flags), LM_AS_IS, 0, role, NULL }
#define LM_T_DRAFT(norms) \
    LM_D_MATRIX(LM_DRAFT_JOIN, "eh_proj", "eh_proj", LM_DIM_2_EMBD, LM_DIM_EMBD, \
                LM_TENSOR_MATRIX), \
    LM_D_MATRIX(LM_DRAFT_EMBD, "embed_tokens", "embed_tokens", LM_DIM_EMBD, LM_DIM_VOCAB, \
                LM_TENSOR_TABLE | LM_TENSOR_OPTIONAL), \
    LM_D_VECTOR(LM_DRAFT_EMBD_NORM, "enorm", "enorm", 0, norms), \
    LM_D_VECTOR(LM_DRAFT_HIDDEN_NORM, "hnorm", "hnorm", 0, norms), \
    LM_D_MATRIX(LM_DRAFT_OUTPUT, "shared_head_head", "shared_head.head", LM_DIM_EMBD, \
                LM_DIM_VOCAB, LM_TENSOR_MATRIX | LM_TENSOR_OPTIONAL), \
    LM_D_VECTOR(LM_DRAFT_OUTPUT_NORM, "shared_head_norm", "shared_head.norm", \
                LM_TENSOR_OPTIONAL, norms)
/* What layers with attention have, in models that have others too. */
#define LM_A_MATRIX(role, name, source, cols, rows, transform) \
    { "blk.{i}." name ".weight", source, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_ATTN, transform, 0, role, NULL }
#define LM_A_VECTOR(role, name, source, len, transform) \
    { "blk.{i}." name ".weight", source, { len }, LM_TENSOR_PER_LAYER | LM_TENSOR_IF_ATTN, \
      transform, 0, role, NULL }
#define LM_A_QKV(q_rows, q_transform, k_transform) \
    LM_A_MATRIX(LM_ATTN_Q, "attn_q", LM_HF "self_attn.q_proj.weight", LM_DIM_EMBD, q_rows, \
                q_transform), \
    LM_A_MATRIX(LM_ATTN_K, "attn_k", LM_HF "self_attn.k_proj.weight", LM_DIM_EMBD, LM_DIM_K, \
                k_transform), \
    LM_A_MATRIX(LM_ATTN_V, "attn_v", LM_HF "self_attn.v_proj.weight", LM_DIM_EMBD, LM_DIM_V, \
                LM_AS_IS)
#define LM_A_OUT(source) \
    LM_A_MATRIX(LM_ATTN_OUT, "attn_output", source, LM_DIM_HEADS_OUT, LM_DIM_EMBD, LM_AS_IS)

/* Mamba's tensors under a prefix: what all have, of the first kind, of the second. */
#define LM_R_CONV(prefix, channels) \
    LM_R_OTHER(LM_SSM_CONV, "ssm_conv1d.weight", prefix "conv1d.weight", LM_DIM_CONV, channels, \
               LM_AS_IS), \
    LM_R_MAYBE(LM_SSM_CONV_B, "ssm_conv1d.bias", prefix "conv1d.bias", channels, LM_DIM_END, \
               LM_AS_IS)
#define LM_R_MAMBA(prefix) \
    LM_R_CONV(prefix, LM_DIM_SSM_INNER), \
    LM_R_MATRIX(LM_SSM_IN, "ssm_in", prefix "in_proj.weight", LM_DIM_EMBD, LM_DIM_SSM_2_INNER, \
                LM_AS_IS), \
    LM_R_MAYBE(LM_SSM_IN_B, "ssm_in.bias", prefix "in_proj.bias", LM_DIM_SSM_2_INNER, \
               LM_DIM_END, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_X, "ssm_x", prefix "x_proj.weight", LM_DIM_SSM_INNER, LM_DIM_SSM_STEP, \
                LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_DT, "ssm_dt", prefix "dt_proj.weight", LM_DIM_SSM_RANK, \
                LM_DIM_SSM_INNER, LM_AS_IS), \
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", prefix "dt_proj.bias", LM_DIM_SSM_INNER, LM_DIM_END, \
               LM_AS_IS), \
    LM_R_OTHER(LM_SSM_A, "ssm_a", prefix "A_log", LM_DIM_SSM_STATE, LM_DIM_SSM_INNER, \
               LM_NEG_EXP), \
    LM_R_OTHER(LM_SSM_D, "ssm_d", prefix "D", LM_DIM_SSM_INNER, LM_DIM_END, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_OUT, "ssm_out", prefix "out_proj.weight", LM_DIM_SSM_INNER, LM_DIM_EMBD, \
                LM_AS_IS), \
    LM_R_MAYBE(LM_SSM_OUT_B, "ssm_out.bias", prefix "out_proj.bias", LM_DIM_EMBD, LM_DIM_END, \
               LM_AS_IS)
#define LM_R_MAMBA2(prefix, in, out) \
    LM_R_CONV(prefix, LM_DIM_SSM_CHANNELS), \
    LM_R_MATRIX(LM_SSM_IN, "ssm_in", prefix "in_proj.weight", LM_DIM_EMBD, LM_DIM_SSM_ALL, in), \
    LM_R_MAYBE(LM_SSM_IN_B, "ssm_in.bias", prefix "in_proj.bias", LM_DIM_SSM_ALL, LM_DIM_END, \
               in), \
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", prefix "dt_bias", LM_DIM_SSM_RANK, LM_DIM_END, \
               LM_AS_IS), \
    LM_R_OTHER(LM_SSM_A, "ssm_a", prefix "A_log", LM_DIM_1, LM_DIM_SSM_RANK, LM_NEG_EXP), \
    LM_R_OTHER(LM_SSM_D, "ssm_d", prefix "D", LM_DIM_1, LM_DIM_SSM_RANK, LM_AS_IS), \
    LM_R_MATRIX(LM_SSM_OUT, "ssm_out", prefix "out_proj.weight", LM_DIM_SSM_INNER, LM_DIM_EMBD, \
                out), \
    LM_R_MAYBE(LM_SSM_OUT_B, "ssm_out.bias", prefix "out_proj.bias", LM_DIM_EMBD, LM_DIM_END, \
               out)
#define LM_R_MAMBA2_NORM(prefix) \
    LM_R_OTHER(LM_SSM_NORM, "ssm_norm.weight", prefix "norm.weight", LM_DIM_SSM_OF_GROUP, \
               LM_DIM_SSM_GROUPS, LM_FLAT)

/* Ends of a checkpoint with the usual names. */
#define LM_T_ENDS \
    LM_T_EMBD("model.embed_tokens.weight"), LM_T_OUTPUT("lm_head.weight"), \
    LM_T_OUTPUT_NORM("model.norm.weight", LM_AS_IS)
#define LM_T_END { NULL, NULL, { LM_DIM_END }, 0, LM_AS_IS, 0, LM_N_ROLES, NULL }

#endif
