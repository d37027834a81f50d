/* SPDX-License-Identifier: MIT */
/*
 * Kimi Linear (Moonshot AI, 2025): layers with the delta rule, in which every channel of a key
 * decays by itself, and fewer with DeepSeek-V2's attention, whose keys do not turn.  Of the first
 * kind, x being a layer's input:
 *
 *   q, k, v = silu(conv(Wq x)), silu(conv(Wk x)), silu(conv(Wv x))
 *   decay   = A softplus(Wf (Wf' x) + its bias), A one number a head
 *   y       = norm(delta(q / |q|, k / |k|, v, decay, sigmoid(Wb x))) sigmoid(Wg (Wg' x))
 */
#include "arch/latent.h"
#include "arch/recurrent.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEY_LAYERS,
    LM_KEY_U32("context_length", LM_KEY_REQUIRED, n_ctx_train, "max_position_embeddings",
               "model_max_length"),
    LM_KEY_EMBD,
    LM_KEY_FF,
    LM_KEY_HEADS,
    { "attention.head_count_kv", LM_GGUF_ARR, LM_KEY_REQUIRED, LM_FROM_KV_OF_LAYERS, { "=1" }, 0 },
    LM_KEY_BASE(NULL),
    LM_KEY_RMS_EPS("=1e-5"),
    LM_KEY_U32("expert_count", LM_KEY_REQUIRED, n_expert, "num_experts", "num_local_experts"),
    LM_KEY_U32("expert_used_count", LM_KEY_REQUIRED, n_expert_used, "num_experts_per_token",
               "num_experts_per_tok"),
    LM_KEY_U32("expert_group_count", 0, n_group, "num_expert_group", "n_group"),
    LM_KEY_U32("expert_group_used_count", 0, n_group_used, "topk_group"),
    LM_KEY_GATING_SIGMOID,
    { "attention.key_length", LM_GGUF_U32, LM_KEY_REQUIRED, LM_FROM_SUM,
      { "kv_lora_rank", "qk_rope_head_dim" }, LM_FIELD(head_k) },
    LM_KEY_U32("attention.value_length", LM_KEY_REQUIRED, head_v, "kv_lora_rank"),
    LM_KEY_FILE_TYPE,
    LM_KEY_VOCAB,
    LM_KEY_U32("ssm.conv_kernel", LM_KEY_REQUIRED, conv,
               "linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"),
    LM_KEY_U32("kda.head_dim", LM_KEY_REQUIRED, ssm_state, "linear_attn_config.head_dim",
               "linear_head_dim"),
    LM_KEY_U32("attention.q_lora_rank", 0, q_rank, "q_lora_rank"),
    LM_KEY_U32("attention.kv_lora_rank", LM_KEY_REQUIRED, kv_rank, "kv_lora_rank"),
    LM_KEY_U32("rope.dimension_count", LM_KEY_REQUIRED, n_rot, "qk_rope_head_dim"),
    { "attention.key_length_mla", LM_GGUF_U32, 0, LM_FROM_SUM,
      { "qk_nope_head_dim", "qk_rope_head_dim" }, LM_FIELD(head_k_full) },
    LM_KEY_U32("attention.value_length_mla", 0, head_v_full, "v_head_dim"),
    LM_KEY_EXPERT_FF,
    LM_KEY_U32("expert_shared_count", 0, n_shared, "num_shared_experts", "n_shared_experts"),
    { "leading_dense_block_count", LM_GGUF_U32, 0, LM_FROM_DENSE_FIRST,
      { "first_k_dense_replace", "=1" }, LM_FIELD(n_dense_first) },
    LM_KEY_F32("expert_weights_scale", 0, experts_scale, "routed_scaling_factor"),
    { "expert_weights_norm", LM_GGUF_BOOL, 0, LM_FROM_IF_TRUE,
      { "moe_renormalize", "norm_topk_prob", "=true" }, LM_FIELD(experts_norm) },
    LM_KEYS_END,
};

/* All heads have as many channels as a key, in the recurrent layers. */
#define KDA(role, name, source, rows) \
    LM_R_MATRIX(role, name, LM_HF "self_attn." source ".weight", LM_DIM_EMBD, rows, LM_AS_IS)
#define KDA_UP(role, name, source) \
    LM_R_MATRIX(role, name, LM_HF "self_attn." source ".weight", LM_DIM_SSM_STATE, \
                LM_DIM_SSM_INNER, LM_AS_IS)
#define CONV(role, part) \
    { "blk.{i}.ssm_conv1d_" part ".weight", LM_HF "self_attn." part "_conv1d.weight", \
      { LM_DIM_CONV, LM_DIM_1, LM_DIM_SSM_INNER }, \
      LM_TENSOR_PER_LAYER | LM_TENSOR_IF_RECURRENT, LM_AS_IS, 0, role, NULL }

static const struct lm_arch_tensor tensors[] = {
    LM_T_ENDS,
    LM_T_TWO_NORMS,
    LM_T_LATENT(LM_TENSOR_IF_ATTN),
    KDA(LM_ATTN_Q, "attn_q", "q_proj", LM_DIM_SSM_INNER),
    KDA(LM_ATTN_K, "attn_k", "k_proj", LM_DIM_SSM_INNER),
    KDA(LM_ATTN_V, "attn_v", "v_proj", LM_DIM_SSM_INNER),
    CONV(LM_KDA_CONV_Q, "q"),
    CONV(LM_KDA_CONV_K, "k"),
    CONV(LM_KDA_CONV_V, "v"),
    KDA(LM_KDA_F_A, "ssm_f_a", "f_a_proj", LM_DIM_SSM_STATE),
    KDA_UP(LM_KDA_F_B, "ssm_f_b", "f_b_proj"),
    KDA(LM_SSM_BETA, "ssm_beta", "b_proj", LM_DIM_SSM_RANK),
    LM_R_OTHER(LM_SSM_DT_B, "ssm_dt.bias", LM_HF "self_attn.dt_bias", LM_DIM_SSM_INNER,
               LM_DIM_END, LM_AS_IS),
    LM_R_OTHER(LM_SSM_A, "ssm_a", LM_HF "self_attn.A_log", LM_DIM_1, LM_DIM_SSM_RANK, LM_NEG_EXP),
    KDA(LM_KDA_G_A, "ssm_g_a", "g_a_proj", LM_DIM_SSM_STATE),
    KDA_UP(LM_KDA_G_B, "ssm_g_b", "g_b_proj"),
    LM_R_OTHER(LM_SSM_NORM, "ssm_norm.weight", LM_HF "self_attn.o_norm.weight", LM_DIM_SSM_STATE,
               LM_DIM_END, LM_AS_IS),
    LM_R_MATRIX(LM_SSM_OUT, "attn_output", LM_HF "self_attn.o_proj.weight", LM_DIM_SSM_INNER,
                LM_DIM_EMBD, LM_AS_IS),
    LM_T_LATENT_FEED("block_sparse_moe.", "w1", "w3", "w2"),
    LM_T_END,
};

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ b->h->ssm_state, b->h->ssm_rank, b->n_tokens });
}

/* W' (W x). */
static struct lm_tensor *twice(struct lm_build *b, uint32_t layer, enum lm_role first,
                               enum lm_role second, struct lm_tensor *x)
{
    return lm_dense_linear(b, layer, second, lm_dense_linear(b, layer, first, x));
}

/* Queries, keys or values, part i of the three: each has its own convolution. */
static struct lm_tensor *convolved(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                   size_t i)
{
    static const enum lm_role parts[] = { LM_ATTN_Q, LM_ATTN_K, LM_ATTN_V };
    static const enum lm_role convs[] = { LM_KDA_CONV_Q, LM_KDA_CONV_K, LM_KDA_CONV_V };
    const size_t n = b->h->ssm_inner, k = b->h->conv;
    struct lm_tensor *w = lm_build_weight(b, layer, convs[i]);
    if (!w)
        lm_build_missing(b, layer, convs[i]);
    x = lm_state_conv(b->graph, lm_dense_linear(b, layer, parts[i], x),
                      lm_reshape(b->graph, w, 2, (size_t[]){ k, n }), NULL,
                      lm_build_states(b, layer),
                      b->places[layer].conv_off + i * n * (k - 1) * sizeof(float));
    return heads(b, lm_silu(b->graph, x));
}

static struct lm_tensor *recurrent(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    static const enum lm_role needed[] = { LM_SSM_DT_B, LM_SSM_A, LM_SSM_NORM };
    struct lm_graph *g = b->graph;
    struct lm_tensor *w[3];
    for (size_t i = 0; i < 3; i++)
        if (!(w[i] = lm_build_weight(b, layer, needed[i])))
            lm_build_missing(b, layer, needed[i]);
    struct lm_tensor *q = lm_l2_norm(g, convolved(b, layer, x, 0), 1e-6f);
    struct lm_tensor *k = lm_l2_norm(g, convolved(b, layer, x, 1), 1e-6f);
    struct lm_tensor *v = convolved(b, layer, x, 2);
    struct lm_tensor *decay = twice(b, layer, LM_KDA_F_A, LM_KDA_F_B, x);
    decay = heads(b, lm_softplus(g, lm_add(g, decay, w[0]), 0));
    struct lm_tensor *beta = lm_sigmoid(g, lm_dense_linear(b, layer, LM_SSM_BETA, x));
    struct lm_tensor *y = lm_state_delta_each(g, lm_scale(g, q, 1 / sqrtf((float)b->h->ssm_state)),
                                              k, v, decay, w[1], beta, lm_build_states(b, layer),
                                              b->places[layer].state_off);
    y = lm_rms_norm(g, y, w[2], b->h->norm_eps);
    y = lm_mul(g, y, heads(b, lm_sigmoid(g, twice(b, layer, LM_KDA_G_A, LM_KDA_G_B, x))));
    return lm_reshape(g, y, 2, (size_t[]){ b->h->ssm_inner, b->n_tokens });
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r = lm_dense_need(a, "kda.head_dim", h->ssm_state, 1 << 12, err);
    if (r || (r = lm_dense_need(a, "attention.head_count", h->n_head, 1 << 12, err)))
        return r;
    h->ssm_rank = h->ssm_groups = h->n_head;
    h->ssm_inner = h->n_head * h->ssm_state;
    return lm_latent_settle(a, h, err);
}

static const char *const classes[] = { "KimiLinearForCausalLM", "KimiLinearModel", NULL };
static const char *const ignored[] = { LM_HF "self_attn.rotary_emb.inv_freq", NULL };
static const struct lm_dense dense = {
    .norm = LM_NORM_RMS, .act = LM_ACT_SILU, .constants = lm_latent_constants,
    .qkv = lm_latent_qkv, .values = lm_latent_values, .recurrent = recurrent,
    .unturned_every = 1,
};

const struct lm_arch lm_arch_kimi_linear = {
    .name = "kimi-linear", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .memory = lm_recurrent_memory,
    .build = lm_dense_build, .dense = &dense,
};
