/* SPDX-License-Identifier: MIT */
/*
 * DeepSeek-V2 and V3 (DeepSeek-AI, 2024): keys and values of all heads come from one short vector
 * a token, which is normalized, and a part of the key that is rotated and common to all heads.
 * These two are what is remembered.  A head's scores are taken against the short vector itself,
 *
 *   (K_h c) . q = c . (K_h^T q)      sum_p a_p V_h c_p = V_h sum_p a_p c_p
 *
 * so that its matrices K_h and V_h are applied to the query and to the result.  Files made before
 * that have keys and values of every head instead (attn_kv_b).
 *
 * Experts are chosen from the best groups of them, in V3 by a score with a preference added; one or
 * more that all tokens share are added.  The first layers have none.
 */
#include "arch/dense.h"
#include "arch/rows.h"

#include <math.h>

#define GATING_SAID \
    { "expert_gating_func", LM_GGUF_U32, 0, LM_FROM_GATING, { "scoring_func" }, LM_FIELD(gating) }
#define GATING_SIGMOID LM_KEY_U32("expert_gating_func", 0, gating, "=2")
#define KEYS(gating_key, dense_default) \
    LM_KEY_LAYERS, \
    LM_KEY_CTX, \
    LM_KEY_EMBD, \
    LM_KEY_FF, \
    LM_KEY_HEADS, \
    LM_KEY_U32("attention.head_count_kv", LM_KEY_REQUIRED, n_head_kv, "=1"), \
    LM_KEYS_ROPE_SCALING, \
    LM_KEY_BASE("=10000"), \
    LM_KEY_RMS_EPS("=1e-6"), \
    LM_KEYS_EXPERTS(LM_KEY_REQUIRED), \
    LM_KEY_U32("expert_group_count", 0, n_group, "n_group"), \
    LM_KEY_U32("expert_group_used_count", 0, n_group_used, "topk_group"), \
    gating_key, \
    { "attention.key_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_SUM, \
      { "kv_lora_rank", "qk_rope_head_dim" }, LM_FIELD(head_k) }, \
    LM_KEY_U32("attention.value_length", LM_KEY_REQUIRED, head_v, "kv_lora_rank"), \
    LM_KEY_FILE_TYPE, \
    { "leading_dense_block_count", LM_GGUF_U32, 0, LM_FROM_DENSE_FIRST, \
      { "first_k_dense_replace", dense_default }, LM_FIELD(n_dense_first) }, \
    LM_KEY_VOCAB, \
    LM_KEY_U32("attention.q_lora_rank", 0, q_rank, "q_lora_rank"), \
    LM_KEY_U32("attention.kv_lora_rank", LM_KEY_REQUIRED, kv_rank, "kv_lora_rank"), \
    { "attention.key_length_mla", LM_GGUF_U32, 0, LM_FROM_SUM, \
      { "qk_nope_head_dim", "qk_rope_head_dim" }, LM_FIELD(head_k_full) }, \
    LM_KEY_U32("attention.value_length_mla", 0, head_v_full, "v_head_dim"), \
    LM_KEY_U32("expert_feed_forward_length", LM_KEY_REQUIRED, n_ff_expert, \
               "moe_intermediate_size"), \
    LM_KEY_U32("expert_shared_count", 0, n_shared, "n_shared_experts"), \
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"), \
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_IF_TRUE, { "norm_topk_prob" }, \
      LM_FIELD(experts_norm) }, \
    LM_KEY_U32("rope.dimension_count", LM_KEY_REQUIRED, n_rot, "qk_rope_head_dim"), \
    { "rope.scaling.yarn_log_multiplier", LM_GGUF_F32, 0, LM_FROM_YARN_LOG, { "mscale_all_dim" }, \
      LM_FIELD(yarn_log) }, \
    LM_KEYS_END

static const struct lm_arch_key keys[] = {
    KEYS(GATING_SAID, NULL)
};

#define MATRIX(role, name, source, cols, rows, when) \
    { "blk.{i}." name ".weight", source ? LM_HF source ".weight" : NULL, { cols, rows }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | when, LM_AS_IS, 0, role, NULL }
#define HEADS(role, name, cols, rows, transform) \
    { "blk.{i}." name ".weight", LM_HF "self_attn.kv_b_proj.weight", \
      { cols, rows, LM_DIM_HEADS }, LM_TENSOR_PER_LAYER | LM_TENSOR_HEADS | LM_TENSOR_IF_LATENT, \
      transform, 0, role, NULL }
#define VECTOR(role, name, source, len, when) \
    { "blk.{i}." name, LM_HF source, { len }, LM_TENSOR_PER_LAYER | when, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    MATRIX(LM_ATTN_Q, "attn_q", "self_attn.q_proj", LM_DIM_EMBD, LM_DIM_Q_FULL,
           LM_TENSOR_NO_Q_RANK),
    MATRIX(LM_ATTN_Q_A, "attn_q_a", "self_attn.q_a_proj", LM_DIM_EMBD, LM_DIM_Q_RANK,
           LM_TENSOR_IF_Q_RANK),
    VECTOR(LM_ATTN_Q_A_NORM, "attn_q_a_norm.weight", "self_attn.q_a_layernorm.weight",
           LM_DIM_Q_RANK, LM_TENSOR_IF_Q_RANK),
    MATRIX(LM_ATTN_Q, "attn_q_b", "self_attn.q_b_proj", LM_DIM_Q_RANK, LM_DIM_Q_FULL,
           LM_TENSOR_IF_Q_RANK),
    MATRIX(LM_ATTN_KV_A, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", LM_DIM_EMBD,
           LM_DIM_KV_RANK_ROT, 0),
    VECTOR(LM_ATTN_KV_A_NORM, "attn_kv_a_norm.weight", "self_attn.kv_a_layernorm.weight",
           LM_DIM_KV_RANK, 0),
    HEADS(LM_LATENT_K, "attn_k_b", LM_DIM_PLAIN, LM_DIM_KV_RANK, LM_LATENT_KEYS),
    HEADS(LM_LATENT_V, "attn_v_b", LM_DIM_KV_RANK, LM_DIM_V_FULL, LM_LATENT_VALUES),
    { "blk.{i}.attn_kv_b.weight", NULL, { LM_DIM_KV_RANK, LM_DIM_KV_INNER },
      LM_TENSOR_PER_LAYER | LM_TENSOR_MATRIX | LM_TENSOR_NO_LATENT, LM_AS_IS, 0, LM_ATTN_KV_B,
      NULL },
    MATRIX(LM_ATTN_OUT, "attn_output", "self_attn.o_proj", LM_DIM_OUT_FULL, LM_DIM_EMBD, 0),
    MATRIX(LM_FFN_GATE, "ffn_gate", "mlp.gate_proj", LM_DIM_EMBD, LM_DIM_FF,
           LM_TENSOR_IF_DENSE),
    MATRIX(LM_FFN_UP, "ffn_up", "mlp.up_proj", LM_DIM_EMBD, LM_DIM_FF, LM_TENSOR_IF_DENSE),
    MATRIX(LM_FFN_DOWN, "ffn_down", "mlp.down_proj", LM_DIM_FF, LM_DIM_EMBD,
           LM_TENSOR_IF_DENSE),
    LM_T_ROUTER(LM_HF "mlp.gate.weight"),
    VECTOR(LM_EXPERT_PREFERENCE, "exp_probs_b.bias", "mlp.gate.e_score_correction_bias",
           LM_DIM_EXPERTS, LM_TENSOR_IF_MIXED | LM_TENSOR_OPTIONAL),
    LM_T_ALL_EXPERTS(LM_HF "mlp.experts.{e}.", "gate_proj.weight", "up_proj.weight",
                     "down_proj.weight"),
    MATRIX(LM_GATE_SHARED, "ffn_gate_shexp", "mlp.shared_experts.gate_proj", LM_DIM_EMBD,
           LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED),
    MATRIX(LM_UP_SHARED, "ffn_up_shexp", "mlp.shared_experts.up_proj", LM_DIM_EMBD,
           LM_DIM_FF_SHARED, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED),
    MATRIX(LM_DOWN_SHARED, "ffn_down_shexp", "mlp.shared_experts.down_proj", LM_DIM_FF_SHARED,
           LM_DIM_EMBD, LM_TENSOR_IF_MIXED | LM_TENSOR_IF_SHARED),
    LM_T_END,
};

/* Values first .. first + len - 1 of each of n parts, `step` long, of every row of x. */
static struct lm_tensor *cut(struct lm_build *b, struct lm_tensor *x, size_t first, size_t len,
                             size_t step, size_t n)
{
    if (!x)
        return NULL;
    return lm_view(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens },
                   (size_t[]){ 4, 4 * step, x->nb[1] }, 4 * first);
}

static void qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                struct lm_tensor *out[3])
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t n = h->n_head, rot = h->n_rot, all = h->head_k_full, plain = all - rot;
    const size_t v = h->head_v_full;
    struct lm_tensor *q = h->q_rank ? lm_dense_linear(b, layer, LM_ATTN_Q_A, x) : x;
    struct lm_tensor *kv = lm_dense_linear(b, layer, LM_ATTN_KV_A, x);
    struct lm_tensor *key = lm_rope(g, cut(b, kv, h->kv_rank, rot, rot, 1), table);
    kv = kv ? lm_view(g, kv, 2, (size_t[]){ h->kv_rank, b->n_tokens },
                      (size_t[]){ 4, kv->nb[1] }, 0) : NULL;
    q = lm_dense_linear(b, layer, LM_ATTN_Q, lm_dense_norm(b, layer, LM_ATTN_Q_A_NORM, q));
    kv = lm_dense_norm(b, layer, LM_ATTN_KV_A_NORM, kv);
    struct lm_tensor *query = cut(b, q, 0, plain, all, n);
    if (h->latent) {
        query = lm_mul_mat_heads(g, lm_build_weight(b, layer, LM_LATENT_K), query);
        out[1] = lm_concat(g, cut(b, kv, 0, h->kv_rank, h->kv_rank, 1), key);
    } else {
        kv = lm_dense_linear(b, layer, LM_ATTN_KV_B, kv);
        out[1] = lm_concat(g, cut(b, kv, 0, plain, plain + v, n), key);
        out[2] = cut(b, kv, plain, v, plain + v, n);
    }
    out[0] = lm_concat(g, query, lm_rope(g, cut(b, q, plain, rot, all, n), table));
}

static struct lm_tensor *values(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    if (!h->latent || !x)
        return x;
    x = lm_reshape(b->graph, x, 3, (size_t[]){ h->kv_rank, h->n_head, x->ne[1] });
    x = lm_mul_mat_heads(b->graph, lm_build_weight(b, layer, LM_LATENT_V), x);
    return x ? lm_reshape(b->graph, x, 2,
                          (size_t[]){ (size_t)h->head_v_full * h->n_head, x->ne[2] }) : NULL;
}

static void constants(struct lm_hparams *h)
{
    const float grown = 1 + h->yarn_log * logf(h->rope_factor);
    h->latent = h->head_k_full && h->head_v_full;
    if (!h->latent) {
        h->head_k_full = h->head_k;
        h->head_v_full = h->head_v;
    }
    if (h->head_k_full)
        h->attn_scale = 1 / sqrtf((float)h->head_k_full);
    if (h->rope_scaling == LM_ROPE_YARN)
        h->attn_scale *= grown * grown;
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    const uint32_t most = 1 << 14;
    if (h->n_dense_first > LM_MAX_LAYERS)
        return lm_fail(err, LM_EDATA, "deepseek2.leading_dense_block_count: %u", h->n_dense_first);
    if (!(fabsf(h->yarn_log) < 100))
        return lm_fail(err, LM_EDATA, "deepseek2.rope.scaling.yarn_log_multiplier: out of range");
    int r = lm_dense_settle(a, h, err);
    if (r)
        return r;
    if (h->q_rank > 1 << 20 || !h->kv_rank || h->kv_rank > 1 << 20)
        return lm_fail(err, LM_EDATA, "deepseek2.attention.*_lora_rank: must be 1 to %d", 1 << 20);
    if (h->head_k_full > most || h->head_v_full > most || h->n_rot >= h->head_k_full)
        return lm_fail(err, LM_EDATA, "deepseek2.attention.key_length_mla: %u, of them %u rotated, "
                       "and values of %u", h->head_k_full, h->n_rot, h->head_v_full);
    if (h->latent ? h->n_head_kv != 1 || h->head_v != h->kv_rank ||
                    h->head_k != h->kv_rank + h->n_rot
                  : h->n_head_kv != h->n_head)
        return lm_fail(err, LM_EDATA, "deepseek2: %u key/value heads of %u and %u do not go with a "
                       "short vector of %u", h->n_head_kv, h->head_k, h->head_v, h->kv_rank);
    return LM_OK;
}

static const char *const classes[] = { "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = constants, .qkv = qkv, .values = values,
};

const struct lm_arch lm_arch_deepseek2 = {
    .name = "deepseek2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = settle, .build = lm_dense_build,
    .dense = &dense,
};

/* GLM-4.7-Flash (Z.ai, 2026) is the same; its files leave out what is always so. */
static const struct lm_arch_key lite_keys[] = {
    KEYS(GATING_SIGMOID, "=1")
};
static const char *const lite_classes[] = { "Glm4MoeLiteForCausalLM", NULL };

const struct lm_arch lm_arch_glm4_lite = {
    .name = "deepseek2", .hf_classes = lite_classes, .keys = lite_keys, .tensors = tensors,
    .ignored = ignored, .more_layers = true, .settle = settle, .build = lm_dense_build,
    .dense = &dense,
};
