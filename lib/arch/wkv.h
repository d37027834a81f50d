/* SPDX-License-Identifier: MIT */
#ifndef LM_ARCH_WKV_H
#define LM_ARCH_WKV_H

/*
 * RWKV, version 6 and later: layers that remember a matrix a head, and of each half of a layer its
 * last input.  All of a layer's inputs x are mixed with those of the token before, which differ
 * from them by d:
 *
 *   h = norm(x, attn_norm);    x = x + Wout (mix of h and its d)
 *   h = norm(x, attn_norm_2);  x = x + (feed of h and its d);  halved after every n-th layer
 *
 * Models made from others have those' norm and gated feed-forward, which mixes nothing:
 *   h = norm(x, ffn_norm);     x = x + Wdown (silu(Wgate h) (Wup h))
 */

#include "arch/dense.h"
#include "arch/rows.h"

/* What the versions do otherwise. */
struct lm_rwkv {
    /* F32 [n_embd, n], before the last product.  x and d [n_embd, n].  *first: the values of the
     * first layer, NULL there, for the family to set and read. */
    struct lm_tensor *(*mix)(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                             struct lm_tensor *d, struct lm_tensor **first);
    /* NULL: the gated one. */
    struct lm_tensor *(*feed)(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                              struct lm_tensor *d);
};

/* The whole graph, as struct lm_arch's build. */
int lm_rwkv_build(struct lm_build *b, const struct lm_rwkv *f);

/* For struct lm_arch: what all versions check and remember. */
int lm_rwkv_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);
void lm_rwkv_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                    struct lm_memory_layer *out);

/* Version 6: x mixed in five ways, for w, k, v, r and g; its decay from the first. */
void lm_rwkv6_mixtures(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                       struct lm_tensor *d, struct lm_tensor *out[5]);
struct lm_tensor *lm_rwkv6_decay(struct lm_build *b, uint32_t layer, struct lm_tensor *x);
int lm_rwkv6_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);

/* Version 7: struct lm_rwkv's mix; without a norm or gate where there are no weights for it. */
struct lm_tensor *lm_rwkv7_mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                               struct lm_tensor *d, struct lm_tensor **first);
int lm_rwkv7_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err);

/* A weight that must be there. */
struct lm_tensor *lm_rwkv_weight(struct lm_build *b, uint32_t layer, enum lm_role role);
/* x + w d, w being row i of a weight; NULL where that is missing. */
struct lm_tensor *lm_rwkv_lerp(struct lm_build *b, uint32_t layer, enum lm_role role, size_t i,
                               struct lm_tensor *x, struct lm_tensor *d);
/* Wb act(Wa x), and the bias of b if there is one. */
struct lm_tensor *lm_rwkv_twice(struct lm_build *b, uint32_t layer, enum lm_role wa,
                                struct lm_tensor *(*act)(struct lm_graph *g, struct lm_tensor *x),
                                struct lm_tensor *x);
/* tanh x. */
struct lm_tensor *lm_rwkv_tanh(struct lm_graph *g, struct lm_tensor *x);
/* Columns as heads, [head_size, heads, n]. */
struct lm_tensor *lm_rwkv_heads(struct lm_build *b, struct lm_tensor *x);
/* Heads as columns, each normalized by itself if there is a weight for it. */
struct lm_tensor *lm_rwkv_norm(struct lm_build *b, uint32_t layer, struct lm_tensor *y);

/* --- rows --------------------------------------------------------------------------------- */

#define LM_KEYS_RWKV(eps) \
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, NULL), \
    LM_KEY_EMBD, LM_KEY_LAYERS, LM_KEY_FF, \
    LM_KEY_F32(eps, LM_KEY_REQUIRED, norm_eps, NULL), \
    LM_KEY_U32("wkv.head_size", LM_KEY_REQUIRED, ssm_state, NULL)

#define LM_W_MATRIX(role, name, cols, rows) \
    LM_T_MATRIX(role, name, NULL, cols, rows, LM_AS_IS)
#define LM_W_VECTOR(role, name) LM_T_VECTOR(role, name, NULL, LM_DIM_EMBD, LM_AS_IS)
/* Both factors of what depends on a token, and what is added to it. */
#define LM_W_TWICE(role, letter, rank, flags) \
    { "blk.{i}.time_mix_" letter "1.weight", NULL, { LM_DIM_EMBD, rank }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (flags), LM_AS_IS, 0, role##_A, NULL }, \
    { "blk.{i}.time_mix_" letter "2.weight", NULL, { rank, LM_DIM_EMBD }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | (flags), LM_AS_IS, 0, role##_B, NULL }
#define LM_W_ADDED(role, letter, flags) \
    { "blk.{i}.time_mix_" letter "0.weight", NULL, { LM_DIM_EMBD }, \
      LM_TENSOR_PER_LAYER | (flags), LM_AS_IS, 0, role##_B_B, NULL }
#define LM_W_LERP(flags) \
    { "blk.{i}.time_mix_lerp_fused.weight", NULL, \
      { LM_DIM_EMBD, LM_DIM_1, LM_DIM_1, LM_DIM_MIXES }, LM_TENSOR_PER_LAYER | (flags), LM_AS_IS, \
      0, LM_RWKV_LERP, NULL }

#define LM_W_LERP_OF(role, letter) \
    LM_T_MAYBE(role, "time_mix_lerp_" letter ".weight", NULL, LM_DIM_EMBD, LM_AS_IS)

/* What all have; a model of its own; one made from another. */
#define LM_T_RWKV(kv_rows) \
    LM_T_EMBD(NULL), LM_T_OUTPUT(NULL), LM_T_OUTPUT_NORM(NULL, LM_AS_IS), \
    LM_W_VECTOR(LM_ATTN_NORM, "attn_norm.weight"), \
    LM_W_MATRIX(LM_ATTN_Q, "time_mix_receptance", LM_DIM_EMBD, LM_DIM_EMBD), \
    LM_W_MATRIX(LM_ATTN_K, "time_mix_key", LM_DIM_EMBD, kv_rows), \
    LM_W_MATRIX(LM_ATTN_V, "time_mix_value", LM_DIM_EMBD, kv_rows), \
    LM_W_MATRIX(LM_ATTN_OUT, "time_mix_output", LM_DIM_EMBD, LM_DIM_EMBD)
#define LM_T_RWKV_OWN \
    LM_T_RWKV(LM_DIM_EMBD), LM_T_EMBD_NORM(NULL, NULL), LM_T_OUTPUT_NORM_B(NULL), \
    LM_W_VECTOR(LM_ATTN_NORM_B, "attn_norm.bias"), \
    LM_W_VECTOR(LM_ATTN_NORM_2, "attn_norm_2.weight"), \
    LM_W_VECTOR(LM_ATTN_NORM_2_B, "attn_norm_2.bias"), \
    LM_W_VECTOR(LM_RWKV_NORM, "time_mix_ln.weight"), \
    LM_W_VECTOR(LM_RWKV_NORM_B, "time_mix_ln.bias"), \
    LM_W_VECTOR(LM_RWKV_FEED_K, "channel_mix_lerp_k.weight"), \
    LM_W_MATRIX(LM_FFN_UP, "channel_mix_key", LM_DIM_EMBD, LM_DIM_FF), \
    LM_W_MATRIX(LM_FFN_DOWN, "channel_mix_value", LM_DIM_FF, LM_DIM_EMBD)
#define LM_T_RWKV_MADE(kv_rows) \
    LM_T_RWKV(kv_rows), \
    LM_W_VECTOR(LM_FFN_NORM, "ffn_norm.weight"), \
    LM_W_MATRIX(LM_FFN_GATE, "ffn_gate", LM_DIM_EMBD, LM_DIM_FF), \
    LM_W_MATRIX(LM_FFN_UP, "ffn_up", LM_DIM_EMBD, LM_DIM_FF), \
    LM_W_MATRIX(LM_FFN_DOWN, "ffn_down", LM_DIM_FF, LM_DIM_EMBD)

/* What the mixtures and the decay of version 6 come from. */
#define LM_T_RWKV6 \
    LM_W_VECTOR(LM_RWKV_LERP_X, "time_mix_lerp_x.weight"), \
    LM_W_LERP(LM_TENSOR_OPTIONAL), \
    LM_W_LERP_OF(LM_RWKV_LERP_W, "w"), LM_W_LERP_OF(LM_RWKV_LERP_K, "k"), \
    LM_W_LERP_OF(LM_RWKV_LERP_V, "v"), LM_W_LERP_OF(LM_RWKV_LERP_R, "r"), \
    LM_W_LERP_OF(LM_RWKV_LERP_G, "g"), \
    LM_W_MATRIX(LM_RWKV_MIX_A, "time_mix_w1", LM_DIM_EMBD, LM_DIM_MIX_ALL), \
    { "blk.{i}.time_mix_w2.weight", NULL, { LM_DIM_MIX_RANK, LM_DIM_EMBD, LM_DIM_MIXES }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_HEADS, LM_AS_IS, 0, LM_RWKV_MIX_B, NULL }, \
    LM_W_MATRIX(LM_RWKV_DECAY_A, "time_mix_decay_w1", LM_DIM_EMBD, LM_DIM_DECAY_RANK), \
    LM_W_MATRIX(LM_RWKV_DECAY_B, "time_mix_decay_w2", LM_DIM_DECAY_RANK, LM_DIM_EMBD), \
    LM_W_VECTOR(LM_RWKV_DECAY_B_B, "time_mix_decay.weight"), \
    LM_W_MATRIX(LM_RWKV_GATE, "time_mix_gate", LM_DIM_EMBD, LM_DIM_EMBD)
#define LM_KEYS_RWKV6 \
    LM_KEY_U32("rescale_every_n_layers", 0, rescale_every, NULL), \
    LM_KEY_U32("time_mix_extra_dim", LM_KEY_REQUIRED, mix_rank, NULL), \
    LM_KEY_U32("time_decay_extra_dim", LM_KEY_REQUIRED, decay_rank, NULL)

/* What those of version 7 come from.  The first layer's values move nowhere: files have something
 * of another size there, or nothing. */
#define LM_W_UNUSED (LM_TENSOR_ONLY_FIRST | LM_TENSOR_OPTIONAL)
#define LM_T_RWKV7(gate) \
    LM_W_LERP(0), \
    LM_W_ADDED(LM_RWKV_DECAY, "w", 0), LM_W_TWICE(LM_RWKV_DECAY, "w", LM_DIM_DECAY_RANK, 0), \
    LM_W_ADDED(LM_RWKV_RATE, "a", 0), LM_W_TWICE(LM_RWKV_RATE, "a", LM_DIM_RATE_RANK, 0), \
    LM_W_ADDED(LM_RWKV_VALUE, "v", LM_TENSOR_NOT_FIRST), \
    LM_W_TWICE(LM_RWKV_VALUE, "v", LM_DIM_VALUE_RANK, LM_TENSOR_NOT_FIRST), \
    LM_W_ADDED(LM_RWKV_VALUE, "v", LM_W_UNUSED), \
    LM_W_TWICE(LM_RWKV_VALUE, "v", LM_DIM_RATE_RANK, LM_W_UNUSED), \
    LM_W_TWICE(LM_RWKV_GATE, "g", LM_DIM_GATE_RANK, gate), \
    LM_W_VECTOR(LM_RWKV_KEY_UNIT, "time_mix_k_k.weight"), \
    LM_W_VECTOR(LM_RWKV_KEY_RATE, "time_mix_k_a.weight"), \
    LM_W_VECTOR(LM_RWKV_BONUS, "time_mix_r_k.weight")
#define LM_KEYS_RWKV7(gate) \
    LM_KEY_U32("attention.decay_lora_rank", LM_KEY_REQUIRED, decay_rank, NULL), \
    LM_KEY_U32("attention.iclr_lora_rank", LM_KEY_REQUIRED, rate_rank, NULL), \
    LM_KEY_U32("attention.value_residual_mix_lora_rank", LM_KEY_REQUIRED, value_rank, NULL), \
    LM_KEY_U32("attention.gate_lora_rank", gate, gate_rank, NULL)

#endif
