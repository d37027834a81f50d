/* SPDX-License-Identifier: MIT */
/*
 * RWKV-7 (Peng et al., "RWKV-7 Goose", 2025).  d being how the token before differs:
 *
 *   xi      = x + lerp[i] d, for r, w, k, v, a, g
 *   r, k, v = Wr xr, Wk xk, Wv xv;  after the first layer v moves towards that layer's by the
 *             share sigmoid(Wv'' (Wv' xv) + v0)
 *   decay   = exp(-e^(-1/2) sigmoid(Wd' tanh(Wd xw) + w0)), a number a channel
 *   a       = sigmoid(Wa' (Wa xa) + a0), how much of what a key had is replaced
 *   u       = k k_k, its heads of length 1;  k = k (1 + (a - 1) k_a)
 *   mix     = (norm(wkv7(r, k, v, decay, -u, u a)) + (r . r_k k) v) (Wg' sigmoid(Wg xg))
 *   feed    = Wv max(Wk (x + lerp_k d), 0)^2
 */
#include "arch/wkv.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_RWKV("attention.layer_norm_epsilon"), LM_KEYS_RWKV7(LM_KEY_REQUIRED), LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_RWKV_OWN,
    LM_T_RWKV7(0),
    LM_T_END,
};

/* v, moved towards the first layer's. */
static struct lm_tensor *values(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                struct lm_tensor **first)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *v = lm_dense_linear(b, layer, LM_ATTN_V, x);
    if (layer == 0)
        return *first = v;
    struct lm_tensor *share = lm_sigmoid(g, lm_rwkv_twice(b, layer, LM_RWKV_VALUE_A, NULL, x));
    return lm_add(g, v, lm_mul(g, lm_add(g, *first, lm_scale(g, v, -1)), share));
}

/* Of each head v times r . (weight k). */
static struct lm_tensor *present(struct lm_build *b, uint32_t layer, struct lm_tensor *r,
                                 struct lm_tensor *k, struct lm_tensor *v)
{
    struct lm_graph *g = b->graph;
    const size_t size = b->h->ssm_state, n = b->h->ssm_rank * b->n_tokens;
    k = lm_mul(g, k, lm_rwkv_weight(b, layer, LM_RWKV_BONUS));
    struct lm_tensor *w = lm_weighted_sum(g, lm_reshape(g, k, 3, (size_t[]){ 1, size, n }),
                                          lm_reshape(g, r, 2, (size_t[]){ size, n }));
    v = lm_weighted_sum(g, lm_reshape(g, v, 3, (size_t[]){ size, 1, n }), w);
    return lm_reshape(g, v, 2, (size_t[]){ b->h->n_embd, b->n_tokens });
}

struct lm_tensor *lm_rwkv7_mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                               struct lm_tensor *d, struct lm_tensor **first)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *in[6];
    for (size_t i = 0; i < b->h->n_mix; i++)
        in[i] = lm_rwkv_lerp(b, layer, LM_RWKV_LERP, i, x, d);
    struct lm_tensor *r = lm_dense_linear(b, layer, LM_ATTN_Q, in[0]);
    struct lm_tensor *decay = lm_rwkv_twice(b, layer, LM_RWKV_DECAY_A, lm_rwkv_tanh, in[1]);
    decay = lm_exponential(g, lm_scale(g, lm_sigmoid(g, decay), -0.60653066f));
    struct lm_tensor *k = lm_dense_linear(b, layer, LM_ATTN_K, in[2]);
    struct lm_tensor *v = values(b, layer, in[3], first);
    struct lm_tensor *a = lm_sigmoid(g, lm_rwkv_twice(b, layer, LM_RWKV_RATE_A, NULL, in[4]));
    struct lm_tensor *unit = lm_mul(g, k, lm_rwkv_weight(b, layer, LM_RWKV_KEY_UNIT));
    unit = lm_l2_norm(g, lm_rwkv_heads(b, unit), 1e-24f);
    struct lm_tensor *part = lm_mul(g, k, lm_rwkv_weight(b, layer, LM_RWKV_KEY_RATE));
    k = lm_add(g, k, lm_add(g, lm_mul(g, part, a), lm_scale(g, part, -1)));
    struct lm_tensor *y = lm_state_wkv7(g, lm_rwkv_heads(b, r), lm_rwkv_heads(b, k),
                                        lm_rwkv_heads(b, v), lm_rwkv_heads(b, decay),
                                        lm_scale(g, unit, -1),
                                        lm_mul(g, unit, lm_rwkv_heads(b, a)),
                                        lm_build_states(b, layer), b->places[layer].state_off);
    y = lm_add(g, lm_rwkv_norm(b, layer, y), present(b, layer, r, k, v));
    return b->h->gate_rank
               ? lm_mul(g, y, lm_rwkv_twice(b, layer, LM_RWKV_GATE_A, lm_sigmoid, in[5])) : y;
}

static struct lm_tensor *feed(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                              struct lm_tensor *d)
{
    return lm_dense_feed(b, layer, lm_rwkv_lerp(b, layer, LM_RWKV_FEED_K, 0, x, d));
}

int lm_rwkv7_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    const struct { const char *key; uint32_t rank; } ranks[] = {
        { "attention.decay_lora_rank", h->decay_rank },
        { "attention.iclr_lora_rank", h->rate_rank },
        { "attention.value_residual_mix_lora_rank", h->value_rank },
    };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        int r = lm_dense_need(a, ranks[i].key, ranks[i].rank, 1 << 20, err);
        if (r)
            return r;
    }
    if (h->gate_rank > 1 << 20)
        return lm_dense_need(a, "attention.gate_lora_rank", h->gate_rank, 1 << 20, err);
    h->n_mix = h->gate_rank ? 6 : 5;
    return lm_rwkv_settle(a, h, err);
}

static int build(struct lm_build *b)
{
    return lm_rwkv_build(b, &(struct lm_rwkv){ lm_rwkv7_mix, feed });
}

static const char *const classes[] = { NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = { .norm = LM_NORM_LAYER, .act = LM_ACT_RELU2 };

const struct lm_arch lm_arch_rwkv7 = {
    .name = "rwkv7", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_rwkv7_settle, .memory = lm_rwkv_memory, .build = build, .dense = &dense,
};
