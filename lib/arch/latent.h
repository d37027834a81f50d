/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_LATENT_H
#define LM_ARCH_LATENT_H

/*
 * What families with DeepSeek-V2's attention share (DeepSeek-AI, 2024): keys and values of all
 * heads come from one short vector a token, which is normalized, and a part of the key that is
 * rotated and common to all heads.  These two are what is remembered.  A head's scores are taken
 * against the short vector itself,
 *
 *   (K_h c) . q = c . (K_h^T q)      sum_p a_p V_h c_p = V_h sum_p a_p c_p
 *
 * so that its matrices K_h and V_h are applied to the query and to the result.  Files made before
 * that have keys and values of every head instead (attn_kv_b).
 */

#include "arch/dense.h"
#include "arch/rows.h"

/* For struct lm_dense: queries, keys and values, x [n_embd, n]; table NULL: nothing turns.  What
 * becomes of the weighted values.  Its numbers. */
void lm_latent_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                   struct lm_tensor *table, struct lm_tensor *out[4]);
/* The norm of a short vector x, whose epsilon is 1e-6 whatever that of other norms. */
struct lm_tensor *lm_latent_norm(struct lm_build *b, uint32_t layer, enum lm_role w,
                                 struct lm_tensor *x);
/* What the queries are a product of: a short vector [q_rank, n], or x; the same with it given. */
struct lm_tensor *lm_latent_query(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
void lm_latent_qkv_of(struct lm_build *b, uint32_t layer, struct lm_tensor *query,
                      struct lm_tensor *x, struct lm_tensor *table, struct lm_tensor *out[4]);
struct lm_tensor *lm_latent_values(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
void lm_latent_constants(struct lm_hparams *h);

/* For struct lm_arch: lm_dense_settle, and checks of these numbers; LM_EDATA naming the key. */
int lm_latent_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);

#define LM_KEYS_LATENT_FIRST \
    LM_KEY_LAYERS, \
    LM_KEY_CTX, \
    LM_KEY_EMBD, \
    LM_KEY_FF, \
    LM_KEY_HEADS, \
    LM_KEY_U32("attention.head_count_kv", LM_KEY_REQUIRED, n_head_kv, "=1"), \
    LM_KEYS_ROPE_SCALING, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS("=1e-6")
#define LM_KEYS_LATENT_LENGTHS \
    { "attention.key_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_SUM, \
      { "kv_lora_rank", "qk_rope_head_dim" }, LM_FIELD(head_k) }, \
    LM_KEY_U32("attention.value_length", LM_KEY_REQUIRED, head_v, "kv_lora_rank"), \
    LM_KEY_FILE_TYPE
#define LM_KEYS_LATENT_RANKS \
    LM_KEY_VOCAB, \
    LM_KEY_U32("attention.q_lora_rank", 0, q_rank, "q_lora_rank"), \
    LM_KEY_U32("attention.kv_lora_rank", LM_KEY_REQUIRED, kv_rank, "kv_lora_rank"), \
    { "attention.key_length_mla", LM_GGUF_U32, 0, LM_FROM_SUM, \
      { "qk_nope_head_dim", "qk_rope_head_dim" }, LM_FIELD(head_k_full) }, \
    LM_KEY_U32("attention.value_length_mla", 0, head_v_full, "v_head_dim")
#define LM_KEYS_LATENT_LAST \
    LM_KEY_U32("rope.dimension_count", LM_KEY_REQUIRED, n_rot, "qk_rope_head_dim"), \
    { "rope.scaling.yarn_log_multiplier", LM_GGUF_F32, 0, LM_FROM_YARN_LOG, { "mscale_all_dim" }, \
      LM_FIELD(yarn_log) }
#define LM_KEYS_LATENT(gating_key, dense_default) \
    LM_KEYS_LATENT_FIRST, \
    LM_KEYS_EXPERTS(0), \
    LM_KEYS_EXPERT_GROUPS, \
    gating_key, \
    LM_KEYS_LATENT_LENGTHS, \
    { "leading_dense_block_count", LM_GGUF_U32, 0, LM_FROM_DENSE_FIRST, \
      { "first_k_dense_replace", dense_default }, LM_FIELD(n_dense_first) }, \
    LM_KEYS_LATENT_RANKS, \
    LM_KEY_U32("expert_feed_forward_length", 0, n_ff_expert, "moe_intermediate_size"), \
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"), \
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"), \
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_IF_TRUE, { "norm_topk_prob" }, \
      LM_FIELD(experts_norm) }, \
    LM_KEYS_LATENT_LAST

#define LM_L_MATRIX(role, name, source, cols, rows, when) \
    { "blk.{i}." name ".weight", LM_HF source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (when), LM_AS_IS, 0, role, NULL }
#define LM_L_HEADS(role, name, cols, rows, transform, when) \
    { "blk.{i}." name ".weight", LM_HF "self_attn.kv_b_proj.weight", \
      { cols, rows, LM_DIM_HEADS }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_HEADS | LM_TENSOR_IF_LATENT | (when), transform, 0, role, \
      NULL }
#define LM_L_VECTOR(role, name, source, len, when) \
    { "blk.{i}." name, LM_HF source, { len }, LM_TENSOR_PER_LAYER | (when), LM_AS_IS, 0, role, \
      NULL }

/* The attention; when: in which layers. */
#define LM_T_LATENT(when) \
    LM_L_MATRIX(LM_ATTN_Q, "attn_q", "self_attn.q_proj", LM_DIM_EMBD, LM_DIM_Q_FULL, \
                LM_TENSOR_NO_Q_RANK | (when)), \
    LM_L_MATRIX(LM_ATTN_Q_A, "attn_q_a", "self_attn.q_a_proj", LM_DIM_EMBD, LM_DIM_Q_RANK, \
                LM_TENSOR_IF_Q_RANK | (when)), \
    LM_L_VECTOR(LM_ATTN_Q_A_NORM, "attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight", \
                LM_DIM_Q_RANK, LM_TENSOR_IF_Q_RANK | (when)), \
    LM_L_MATRIX(LM_ATTN_Q, "attn_q_b", "self_attn.q_b_proj", LM_DIM_Q_RANK, LM_DIM_Q_FULL, \
                LM_TENSOR_IF_Q_RANK | (when)), \
    LM_L_MATRIX(LM_ATTN_KV_A, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", LM_DIM_EMBD, \
                LM_DIM_KV_RANK_ROT, when), \
    LM_L_VECTOR(LM_ATTN_KV_A_NORM, "attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight", \
                LM_DIM_KV_RANK, when), \
    LM_L_HEADS(LM_LATENT_K, "attn_k_b", LM_DIM_PLAIN, LM_DIM_KV_RANK, LM_LATENT_KEYS, when), \
    LM_L_HEADS(LM_LATENT_V, "attn_v_b", LM_DIM_KV_RANK, LM_DIM_V_FULL, LM_LATENT_VALUES, when), \
    { "blk.{i}.attn_kv_b.weight", NULL, { LM_DIM_KV_RANK, LM_DIM_KV_INNER }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_NO_LATENT | (when), LM_AS_IS, 0, \
      LM_ATTN_KV_B, NULL }, \
    LM_L_MATRIX(LM_ATTN_OUT, "attn_output", "self_attn.o_proj", LM_DIM_OUT_FULL, LM_DIM_EMBD, \
                when)

/* Called "mlp.", or, as transformers saves some, like the experts. */
#define LM_L_DENSE(role, name, mixed, source, cols, rows) \
    { "blk.{i}." name ".weight", LM_HF "mlp." source ".weight", { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_IF_DENSE, LM_AS_IS, 0, role, \
      LM_HF mixed source ".weight" }

/* The feed-forward of first layers, and experts whose tensors' names begin with `mixed`. */
#define LM_T_LATENT_FEED(mixed, gate, up, down) \
    LM_T_LATENT_BUT_EXPERTS(mixed), \
    LM_T_ALL_EXPERTS(LM_HF mixed "experts.{e}.", gate ".weight", up ".weight", down ".weight")
#define LM_T_LATENT_BUT_EXPERTS(mixed) \
    LM_L_DENSE(LM_FFN_GATE, "ffn_gate", mixed, "gate_proj", LM_DIM_EMBD, LM_DIM_FF), \
    LM_L_DENSE(LM_FFN_UP, "ffn_up", mixed, "up_proj", LM_DIM_EMBD, LM_DIM_FF), \
    LM_L_DENSE(LM_FFN_DOWN, "ffn_down", mixed, "down_proj", LM_DIM_FF, LM_DIM_EMBD), \
    LM_T_ROUTER(LM_HF mixed "gate.weight"), \
    LM_L_VECTOR(LM_EXPERT_PREFERENCE, "exp_probs_b.bias", mixed "gate.e_score_correction_bias", \
                LM_DIM_EXPERTS, LM_TENSOR_IF_MIXED | LM_TENSOR_OPTIONAL), \
    LM_L_MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", mixed "shared_experts.gate_proj", LM_DIM_EMBD, \
                LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED), \
    LM_L_MATRIX(LM_UP_SHARED, "ffn_up_shexp", mixed "shared_experts.up_proj", LM_DIM_EMBD, \
                LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED), \
    LM_L_MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", mixed "shared_experts.down_proj", \
                LM_DIM_FF_SHARED, LM_DIM_EMBD, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED)

#endif
