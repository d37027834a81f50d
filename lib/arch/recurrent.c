/* SPDX-License-Identifier: MIT */
#include "arch/recurrent.h"

#include <math.h>

/* --- numbers ---------------------------------------------------------------------------- */

static bool is_delta(const struct lm_dense *d)
{
    return d->recurrent == lm_recurrent_delta || d->recurrent == lm_recurrent_delta_tiled;
}

/* Channels that the convolution is over. */
static uint32_t channels(const struct lm_arch *a, const struct lm_hparams *h)
{
    if (a->dense->recurrent == lm_recurrent_conv)
        return h->n_embd;
    if (a->dense->recurrent == lm_recurrent_mamba)
        return h->ssm_inner;
    return h->ssm_inner + 2 * h->ssm_groups * h->ssm_state;
}

void lm_recurrent_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                         struct lm_memory_layer *out)
{
    if (!lm_arch_attends(a, h, layer))
        out->n_head_kv = 0;
    if (!lm_arch_recurrent(h, layer) || h->no_causal)
        return;
    out->conv = (size_t)channels(a, h) * (h->conv - 1);
    if (a->dense->recurrent != lm_recurrent_conv)
        out->state = (size_t)h->ssm_inner * h->ssm_state;
}

static void find_layers(const struct lm_arch *a, struct lm_hparams *h)
{
    if (h->has_recurrent)
        return;
    for (uint32_t i = 0; i < h->n_layer && i < LM_MAX_LAYERS; i++)
        if (a->dense->both || !lm_arch_has(a, LM_ATTN_OUT) ||
            (h->attn_every && (i + 1) % h->attn_every))
            h->recurrent[i / 64] |= UINT64_C(1) << i % 64;
}

static int check_shapes(const struct lm_arch *a, const struct lm_hparams *h, struct lm_err *err)
{
    int r;
    bool mamba = a->dense->recurrent == lm_recurrent_mamba;
    if ((r = lm_dense_need(a, "ssm.inner_size", h->ssm_inner, 1 << 20, err)) ||
        (r = lm_dense_need(a, "ssm.state_size", h->ssm_state, 1 << 12, err)) ||
        (r = lm_dense_need(a, "ssm.time_step_rank", h->ssm_rank, 1 << 16, err)) ||
        (!mamba && (r = lm_dense_need(a, "ssm.group_count", h->ssm_groups, 1 << 12, err))))
        return r;
    if (!mamba && (h->ssm_inner % h->ssm_rank || h->ssm_inner % h->ssm_groups ||
                   h->ssm_rank % h->ssm_groups))
        return lm_fail(err, LM_EDATA, "%s.ssm.inner_size: %u in %u heads and %u groups", a->name,
                       h->ssm_inner, h->ssm_rank, h->ssm_groups);
    return LM_OK;
}

int lm_recurrent_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    bool only_conv = a->dense->recurrent == lm_recurrent_conv;
    int r = lm_dense_need(a, only_conv ? "shortconv.l_cache" : "ssm.conv_kernel", h->conv,
                          LM_MAX_CONV, err);
    if (!r && is_delta(a->dense) && !h->attn_every)
        h->attn_every = 4;
    find_layers(a, h);
    return r || only_conv ? r : check_shapes(a, h, err);
}

/* --- graphs ----------------------------------------------------------------------------- */

/* n values of each column of x from `first` on. */
static struct lm_tensor *part(struct lm_build *b, struct lm_tensor *x, size_t first, size_t n)
{
    return x ? lm_view(b->graph, x, 2, (size_t[]){ n, x->ne[1] }, (size_t[]){ 4, x->nb[1] },
                       4 * first) : NULL;
}

/* The same as heads. */
static struct lm_tensor *part_heads(struct lm_build *b, struct lm_tensor *x, size_t first,
                                    size_t len, size_t n)
{
    return x ? lm_view(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens },
                       (size_t[]){ 4, 4 * len, x->nb[1] }, 4 * first) : NULL;
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t len, size_t n)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens });
}

static struct lm_tensor *columns(struct lm_build *b, struct lm_tensor *x, size_t n)
{
    return lm_reshape(b->graph, x, 2, (size_t[]){ n, b->n_tokens });
}

static struct lm_tensor *weight(struct lm_build *b, uint32_t layer, enum lm_role role)
{
    struct lm_tensor *w = lm_build_weight(b, layer, role);
    if (!w)
        lm_build_missing(b, layer, role);
    return w;
}

static struct lm_tensor *convolve(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    if (b->h->no_causal)
        return lm_conv_whole(b->graph, x, weight(b, layer, LM_SSM_CONV),
                             lm_build_weight(b, layer, LM_SSM_CONV_B), b->runs);
    return lm_state_conv(b->graph, x, weight(b, layer, LM_SSM_CONV),
                         lm_build_weight(b, layer, LM_SSM_CONV_B), lm_build_states(b, layer),
                         b->places[layer].conv_off);
}

/* x / sqrt(mean of squares + eps) w; without w, and with an eps of its own, where ssm_norms says
 * so, else x. */
static struct lm_tensor *norm_input(struct lm_build *b, uint32_t layer, enum lm_role role,
                                    struct lm_tensor *x)
{
    struct lm_tensor *w = lm_build_weight(b, layer, role);
    if (w)
        return lm_rms_norm(b->graph, x, w, b->h->norm_eps);
    if (!b->h->ssm_norms || !x)
        return x;
    const float n = (float)x->ne[0];
    return lm_scale(b->graph, lm_l2_norm(b->graph, x, n * 1e-6f), sqrtf(n));
}

struct lm_tensor *lm_recurrent_mamba(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t inner = h->ssm_inner, rank = h->ssm_rank, size = h->ssm_state;
    struct lm_tensor *xz = lm_dense_linear(b, layer, LM_SSM_IN, x);
    struct lm_tensor *z = part(b, xz, inner, inner);
    x = lm_silu(g, convolve(b, layer, part(b, xz, 0, inner)));
    struct lm_tensor *all = lm_dense_linear(b, layer, LM_SSM_X, x);
    struct lm_tensor *dt = norm_input(b, layer, LM_SSM_DT_NORM, part(b, all, 0, rank));
    struct lm_tensor *vb = norm_input(b, layer, LM_SSM_B_NORM, part_heads(b, all, rank, size, 1));
    struct lm_tensor *vc = norm_input(b, layer, LM_SSM_C_NORM,
                                      part_heads(b, all, rank + size, size, 1));
    dt = lm_softplus(g, lm_dense_linear(b, layer, LM_SSM_DT, dt), 0);
    struct lm_tensor *y = lm_state_scan(g, heads(b, x, 1, inner), dt, weight(b, layer, LM_SSM_A),
                                        vb, vc, weight(b, layer, LM_SSM_D),
                                        lm_build_states(b, layer), b->places[layer].state_off);
    return lm_swiglu(g, z, columns(b, y, inner));
}

struct lm_tensor *lm_recurrent_mamba2(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t inner = h->ssm_inner, n_head = h->ssm_rank, size = h->ssm_state;
    const size_t groups = h->ssm_groups, all = channels(b->arch, h);
    struct lm_tensor *in = lm_dense_linear(b, layer, LM_SSM_IN, x);
    struct lm_tensor *z = part(b, in, 0, inner);
    struct lm_tensor *xbc = lm_silu(g, convolve(b, layer, part(b, in, inner, all)));
    struct lm_tensor *dt = lm_add(g, part(b, in, inner + all, n_head),
                                  weight(b, layer, LM_SSM_DT_B));
    struct lm_tensor *y = lm_state_scan(g, part_heads(b, xbc, 0, inner / n_head, n_head),
                                        lm_softplus(g, dt, h->ssm_step_least),
                                        weight(b, layer, LM_SSM_A),
                                        part_heads(b, xbc, inner, size, groups),
                                        part_heads(b, xbc, inner + groups * size, size, groups),
                                        weight(b, layer, LM_SSM_D), lm_build_states(b, layer),
                                        b->places[layer].state_off);
    y = lm_swiglu(g, z, columns(b, y, inner));
    struct lm_tensor *norm = lm_build_weight(b, layer, LM_SSM_NORM);
    if (!norm)
        return y;
    y = lm_rms_norm(g, heads(b, y, inner / groups, groups), norm, h->norm_eps);
    return columns(b, y, inner);
}

/* Steps and decays of the value heads: two products, or one whose rows are grouped by key
 * heads, steps first. */
static void gates(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor **beta,
                  struct lm_tensor **alpha)
{
    const size_t n = b->h->ssm_rank, keys = b->h->ssm_groups, each = n / keys;
    struct lm_graph *g = b->graph;
    struct lm_tensor *both[2];
    if (!lm_build_weight(b, layer, LM_SSM_BA)) {
        *beta = lm_dense_linear(b, layer, LM_SSM_BETA, x);
        *alpha = lm_dense_linear(b, layer, LM_SSM_ALPHA, x);
        return;
    }
    struct lm_tensor *ba = lm_dense_linear(b, layer, LM_SSM_BA, x);
    for (size_t i = 0; i < 2; i++) {
        both[i] = ba ? lm_view(g, ba, 3, (size_t[]){ each, keys, b->n_tokens },
                               (size_t[]){ 4, 8 * each, ba->nb[1] }, 4 * i * each) : NULL;
        both[i] = columns(b, lm_scale(g, both[i], 1), n);       /* one behind the other */
    }
    *beta = both[0];
    *alpha = both[1];
}

static struct lm_tensor *delta(struct lm_build *b, uint32_t layer, struct lm_tensor *x, bool tiled)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t size = h->ssm_state, keys = h->ssm_groups, n = h->ssm_rank;
    const size_t len = h->ssm_inner / n;
    struct lm_tensor *beta, *decay;
    struct lm_tensor *qkv = lm_dense_linear(b, layer, LM_ATTN_QKV, x);
    struct lm_tensor *z = lm_dense_linear(b, layer, LM_SSM_GATE, x);
    gates(b, layer, x, &beta, &decay);
    qkv = lm_silu(g, convolve(b, layer, qkv));
    struct lm_tensor *q = lm_l2_norm(g, part_heads(b, qkv, 0, size, keys), 1e-6f);
    struct lm_tensor *k = lm_l2_norm(g, part_heads(b, qkv, size * keys, size, keys), 1e-6f);
    decay = lm_softplus(g, lm_add(g, decay, weight(b, layer, LM_SSM_DT_B)), 0);
    decay = lm_mul(g, decay, weight(b, layer, LM_SSM_A));
    struct lm_tensor *y = lm_state_delta(g, lm_scale(g, q, 1 / sqrtf((float)size)), k,
                                         part_heads(b, qkv, 2 * size * keys, len, n), decay,
                                         lm_sigmoid(g, beta), lm_build_states(b, layer),
                                         b->places[layer].state_off, tiled);
    y = lm_rms_norm(g, y, weight(b, layer, LM_SSM_NORM), h->norm_eps);
    return columns(b, lm_swiglu(g, heads(b, z, len, n), y), h->ssm_inner);
}

struct lm_tensor *lm_recurrent_delta(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    return delta(b, layer, x, false);
}

struct lm_tensor *lm_recurrent_delta_tiled(struct lm_build *b, uint32_t layer,
                                           struct lm_tensor *x)
{
    return delta(b, layer, x, true);
}

struct lm_tensor *lm_recurrent_conv(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    const size_t n = b->h->n_embd;
    struct lm_graph *g = b->graph;
    struct lm_tensor *in = lm_dense_linear(b, layer, LM_SSM_IN, x);
    struct lm_tensor *y = lm_mul(g, part(b, in, 0, n), part(b, in, 2 * n, n));
    return lm_mul(g, convolve(b, layer, y), part(b, in, n, n));
}
