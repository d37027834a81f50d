/* SPDX-License-Identifier: MIT */
/*
 * RWKV-6 (Peng et al., "Eagle and Finch", 2024).  d being how the token before differs:
 *
 *   m       = Wb tanh(Wa (x + lerp_x d)), five vectors
 *   xi      = x + (m[i] + lerp[i]) d, for w, k, v, r, g
 *   decay   = exp(-exp(Wd' tanh(Wd xw) + w0)), a number a channel
 *   mix     = norm(wkv6(Wr xr, Wk xk, Wv xv, decay, bonus)) silu(Wg xg)
 *   feed    = sigmoid(Wr (x + lerp_r d)) (Wv max(Wk (x + lerp_k d), 0)^2)
 */
#include "arch/wkv.h"

static const struct lm_arch_key keys[] = {
    LM_KEYS_RWKV("attention.layer_norm_epsilon"), LM_KEYS_RWKV6, LM_KEYS_END,
};

static const struct lm_arch_tensor tensors[] = {
    LM_T_RWKV_OWN,
    LM_T_RWKV6,
    { "blk.{i}.time_mix_first.weight", NULL, { LM_DIM_SSM_STATE, LM_DIM_SSM_RANK },
      LM_TENSOR_PER_LAYER, LM_AS_IS, 0, LM_RWKV_BONUS, NULL },
    LM_W_VECTOR(LM_RWKV_FEED_R, "channel_mix_lerp_r.weight"),
    LM_W_MATRIX(LM_RWKV_FEED_GATE, "channel_mix_receptance", LM_DIM_EMBD, LM_DIM_EMBD),
    LM_T_END,
};

/* Files have the five constants in one tensor or in five. */
void lm_rwkv6_mixtures(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                       struct lm_tensor *d, struct lm_tensor *out[5])
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *all = lm_build_weight(b, layer, LM_RWKV_LERP);
    struct lm_tensor *m = lm_rwkv_lerp(b, layer, LM_RWKV_LERP_X, 0, x, d);
    m = lm_rwkv_tanh(g, lm_dense_linear(b, layer, LM_RWKV_MIX_A, m));
    m = lm_reshape(g, m, 3, (size_t[]){ b->h->mix_rank, b->h->n_mix, b->n_tokens });
    m = lm_mul_mat_heads(g, lm_rwkv_weight(b, layer, LM_RWKV_MIX_B), m);
    for (size_t i = 0; i < 5; i++) {
        struct lm_tensor *w = all ? lm_view(g, all, 1, (size_t[]){ all->ne[0] }, NULL,
                                            i * all->nb[3])
                                  : lm_rwkv_weight(b, layer, LM_RWKV_LERP_W + (enum lm_role)i);
        out[i] = m ? lm_view(g, m, 2, (size_t[]){ b->h->n_embd, b->n_tokens },
                             (size_t[]){ 4, m->nb[2] }, i * m->nb[1]) : NULL;
        out[i] = lm_add(g, lm_mul(g, lm_add(g, out[i], w), d), x);
    }
}

struct lm_tensor *lm_rwkv6_decay(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    x = lm_rwkv_twice(b, layer, LM_RWKV_DECAY_A, lm_rwkv_tanh, x);
    return lm_exponential(g, lm_scale(g, lm_exponential(g, x), -1));
}

static struct lm_tensor *mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                             struct lm_tensor *d, struct lm_tensor **first)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *in[5];
    (void)first;
    lm_rwkv6_mixtures(b, layer, x, d, in);
    struct lm_tensor *decay = lm_rwkv6_decay(b, layer, in[0]);
    struct lm_tensor *k = lm_dense_linear(b, layer, LM_ATTN_K, in[1]);
    struct lm_tensor *v = lm_dense_linear(b, layer, LM_ATTN_V, in[2]);
    struct lm_tensor *r = lm_dense_linear(b, layer, LM_ATTN_Q, in[3]);
    struct lm_tensor *gate = lm_dense_linear(b, layer, LM_RWKV_GATE, in[4]);
    struct lm_tensor *y = lm_state_wkv6(g, lm_rwkv_heads(b, r), lm_rwkv_heads(b, k),
                                        lm_rwkv_heads(b, v), lm_rwkv_heads(b, decay),
                                        lm_rwkv_weight(b, layer, LM_RWKV_BONUS),
                                        lm_build_states(b, layer), b->places[layer].state_off);
    return lm_swiglu(g, gate, lm_rwkv_norm(b, layer, y));
}

static struct lm_tensor *feed(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                              struct lm_tensor *d)
{
    struct lm_tensor *y = lm_dense_feed(b, layer, lm_rwkv_lerp(b, layer, LM_RWKV_FEED_K, 0, x, d));
    struct lm_tensor *r = lm_rwkv_lerp(b, layer, LM_RWKV_FEED_R, 0, x, d);
    r = lm_sigmoid(b->graph, lm_dense_linear(b, layer, LM_RWKV_FEED_GATE, r));
    return lm_mul(b->graph, y, r);
}

int lm_rwkv6_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r = lm_dense_need(a, "time_mix_extra_dim", h->mix_rank, 1 << 20, err);
    if (r || (r = lm_dense_need(a, "time_decay_extra_dim", h->decay_rank, 1 << 20, err)))
        return r;
    h->n_mix = 5;
    return lm_rwkv_settle(a, h, err);
}

static int build(struct lm_build *b)
{
    return lm_rwkv_build(b, &(struct lm_rwkv){ mix, feed });
}

static const char *const classes[] = { NULL };
static const char *const ignored[] = { NULL };
static const struct lm_dense dense = { .norm = LM_NORM_LAYER, .act = LM_ACT_RELU2 };

const struct lm_arch lm_arch_rwkv6 = {
    .name = "rwkv6", .hf_classes = classes, .keys = keys, .tensors = tensors, .ignored = ignored,
    .settle = lm_rwkv6_settle, .memory = lm_rwkv_memory, .build = build, .dense = &dense,
};
