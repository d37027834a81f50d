/* SPDX-License-Identifier: MIT */
/*
 * QRWKV6 (Recursal, 2025): Qwen2 with RWKV-6's mixtures and decay in attention's place:
 *
 *   k       = (1 - decay) Wk xk, keys and values of a group of heads being the same
 *   mix     = gla(Wr xr / sqrt(head size), k, Wv xv, decay) sigmoid(Wg xg)
 */
#include "arch/wkv.h"

#include <math.h>

static const struct lm_arch_key keys[] = {
    LM_KEYS_RWKV("attention.layer_norm_rms_epsilon"),
    LM_KEYS_RWKV6,
    LM_KEY_U32("attention.head_count_kv", 0, n_head_kv, NULL),
    LM_KEYS_END,
};

#define BIAS(role, name, len) LM_T_MAYBE(role, "time_mix_" name ".bias", NULL, len, LM_AS_IS)

static const struct lm_arch_tensor tensors[] = {
    LM_T_RWKV_MADE(LM_DIM_K),
    LM_T_RWKV6,
    BIAS(LM_ATTN_Q_B, "receptance", LM_DIM_EMBD),
    BIAS(LM_ATTN_K_B, "key", LM_DIM_K),
    BIAS(LM_ATTN_V_B, "value", LM_DIM_K),
    LM_T_END,
};

/* Heads of keys or values, each for all heads of its group. */
static struct lm_tensor *repeat(struct lm_build *b, struct lm_tensor *x)
{
    const size_t size = b->h->ssm_state, n = b->h->n_head_kv;
    x = lm_reshape(b->graph, x, 3, (size_t[]){ size, n, b->n_tokens });
    struct lm_tensor *all = x;
    for (size_t i = 1; i < b->h->ssm_rank / n; i++)
        all = lm_concat(b->graph, all, x);
    return lm_rwkv_heads(b, all);
}

static struct lm_tensor *mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                             struct lm_tensor *d, struct lm_tensor **first)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *in[5];
    (void)first;
    lm_rwkv6_mixtures(b, layer, x, d, in);
    struct lm_tensor *decay = lm_rwkv_heads(b, lm_rwkv6_decay(b, layer, in[0]));
    struct lm_tensor *k = repeat(b, lm_dense_linear(b, layer, LM_ATTN_K, in[1]));
    struct lm_tensor *v = repeat(b, lm_dense_linear(b, layer, LM_ATTN_V, in[2]));
    struct lm_tensor *r = lm_dense_linear(b, layer, LM_ATTN_Q, in[3]);
    r = lm_rwkv_heads(b, lm_scale(g, r, 1 / sqrtf((float)b->h->ssm_state)));
    k = lm_add(g, k, lm_scale(g, lm_mul(g, k, decay), -1));
    struct lm_tensor *y = lm_state_gla(g, r, k, v, decay, lm_build_states(b, layer),
                                       b->places[layer].state_off);
    struct lm_tensor *gate = lm_sigmoid(g, lm_dense_linear(b, layer, LM_RWKV_GATE, in[4]));
    return lm_mul(g, lm_rwkv_norm(b, layer, y), gate);
}

static int settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    const uint32_t given = h->n_head_kv;
    int r = lm_rwkv6_settle(a, h, err);
    if (r)
        return r;
    h->n_head_kv = given ? given : h->ssm_rank;
    h->head_k = h->ssm_state;
    if (h->ssm_rank % h->n_head_kv)
        return lm_fail(err, LM_EDATA, "%s.attention.head_count_kv: %u does not divide the %u heads",
                       a->name, h->n_head_kv, h->ssm_rank);
    return LM_OK;
}

static int build(struct lm_build *b)
{
    return lm_rwkv_build(b, &(struct lm_rwkv){ mix, NULL });
}

static const char *const classes[] = { NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = { .norm = LM_NORM_RMS, .act = LM_ACT_SILU };

const struct lm_arch lm_arch_rwkv6qwen2 = {
    .name = "rwkv6qwen2", .hf_classes = classes, .keys = keys, .tensors = tensors,
    .ignored = ignored, .settle = settle, .memory = lm_rwkv_memory, .build = build,
    .dense = &dense,
};
