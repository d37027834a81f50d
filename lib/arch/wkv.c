/* SPDX-License-Identifier: MIT */
#include "arch/wkv.h"

#define HEAD_EPS 64e-5f         /* of heads' norms, which no key says */

int lm_rwkv_settle(const struct lm_arch *a, struct lm_hparams *h, struct lm_err *err)
{
    int r;
    if ((r = lm_dense_need(a, "embedding_length", h->n_embd, 1 << 20, err)) ||
        (r = lm_dense_need(a, "wkv.head_size", h->ssm_state, 1 << 12, err)))
        return r;
    if (h->n_embd % h->ssm_state)
        return lm_fail(err, LM_EDATA, "%s.wkv.head_size: %u does not divide %u channels", a->name,
                       h->ssm_state, h->n_embd);
    h->ssm_inner = h->n_embd;
    h->ssm_rank = h->n_embd / h->ssm_state;
    for (uint32_t i = 0; i < LM_MAX_LAYERS / 64; i++)
        h->recurrent[i] = UINT64_MAX;
    return lm_dense_settle(a, h, err);
}

void lm_rwkv_memory(const struct lm_arch *a, const struct lm_hparams *h, uint32_t layer,
                    struct lm_memory_layer *out)
{
    (void)layer;
    out->n_head_kv = 0;
    out->conv = (lm_arch_has(a, LM_ATTN_NORM_2) ? 2 : 1) * (size_t)h->n_embd;
    out->state = (size_t)h->n_embd * h->ssm_state;
}

struct lm_tensor *lm_rwkv_weight(struct lm_build *b, uint32_t layer, enum lm_role role)
{
    struct lm_tensor *w = lm_build_weight(b, layer, role);
    if (!w)
        lm_build_missing(b, layer, role);
    return w;
}

struct lm_tensor *lm_rwkv_lerp(struct lm_build *b, uint32_t layer, enum lm_role role, size_t i,
                               struct lm_tensor *x, struct lm_tensor *d)
{
    struct lm_tensor *w = lm_rwkv_weight(b, layer, role);
    if (!w)
        return NULL;
    w = lm_view(b->graph, w, 1, (size_t[]){ w->ne[0] }, NULL, i * w->nb[3]);
    return lm_add(b->graph, lm_mul(b->graph, d, w), x);
}

struct lm_tensor *lm_rwkv_tanh(struct lm_graph *g, struct lm_tensor *x)
{
    return lm_softcap(g, x, 1);
}

struct lm_tensor *lm_rwkv_twice(struct lm_build *b, uint32_t layer, enum lm_role wa,
                                struct lm_tensor *(*act)(struct lm_graph *g, struct lm_tensor *x),
                                struct lm_tensor *x)
{
    x = lm_dense_linear(b, layer, wa, x);
    return lm_dense_linear(b, layer, wa + 2, act ? act(b->graph, x) : x);
}

struct lm_tensor *lm_rwkv_heads(struct lm_build *b, struct lm_tensor *x)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ b->h->ssm_state, b->h->ssm_rank, b->n_tokens });
}

struct lm_tensor *lm_rwkv_norm(struct lm_build *b, uint32_t layer, struct lm_tensor *y)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *w = lm_build_weight(b, layer, LM_RWKV_NORM);
    y = w ? lm_layer_norm(g, y, NULL, NULL, HEAD_EPS) : y;
    y = lm_reshape(g, y, 2, (size_t[]){ b->h->n_embd, b->n_tokens });
    if (!w)
        return y;
    y = lm_mul(g, y, w);
    return lm_add(g, y, lm_rwkv_weight(b, layer, LM_RWKV_NORM_B));
}

/* How the token before differs at the layer's input (0) or at its feed-forward's (1). */
static struct lm_tensor *shift(struct lm_build *b, uint32_t layer, struct lm_tensor *x, int which)
{
    const size_t one = b->h->n_embd * sizeof(float);
    return lm_state_shift(b->graph, x, lm_build_states(b, layer),
                          b->places[layer].conv_off + (which ? one : 0));
}

/* Of the last layer: only those of n [columns, tokens] that are wanted.  False where nothing is,
 * and what all come from, the first, is only to be remembered. */
static bool pick(struct lm_build *b, uint32_t layer, struct lm_tensor **const t[], size_t n)
{
    if (layer + 1 < b->h->n_layer)
        return true;
    if (b->n_out == 0)
        lm_graph_expand(b->graph, *t[0]);
    for (size_t i = 0; b->n_out && b->n_out < b->n_tokens && !b->every_row && i < n; i++)
        *t[i] = lm_get_rows(b->graph, *t[i], b->wanted);
    return b->n_out;
}

/* x + Wout y.  The sum begins with the product, whose weights say which device remembers. */
static struct lm_tensor *add_mix(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                                 struct lm_tensor *y)
{
    return lm_add(b->graph, lm_dense_linear(b, layer, LM_ATTN_OUT, y), x);
}

/* One layer; NULL after the last when nothing is wanted. */
static struct lm_tensor *layer_of(struct lm_build *b, const struct lm_rwkv *f, uint32_t i,
                                  struct lm_tensor *x, struct lm_tensor **first)
{
    struct lm_graph *g = b->graph;
    struct lm_tensor *n = lm_dense_norm(b, i, LM_ATTN_NORM, x);
    struct lm_tensor *y = f->mix(b, i, n, shift(b, i, n, 0), first);
    if (!f->feed) {
        if (!pick(b, i, (struct lm_tensor **[]){ &y, &x }, 2))
            return NULL;
        x = add_mix(b, i, x, y);
        return lm_add(g, lm_dense_feed(b, i, lm_dense_norm(b, i, LM_FFN_NORM, x)), x);
    }
    x = add_mix(b, i, x, y);
    n = lm_dense_norm(b, i, LM_ATTN_NORM_2, x);
    struct lm_tensor *d = shift(b, i, n, 1);
    if (!pick(b, i, (struct lm_tensor **[]){ &d, &n, &x }, 3))
        return NULL;
    return lm_add(g, f->feed(b, i, n, d), x);
}

int lm_rwkv_build(struct lm_build *b, const struct lm_rwkv *f)
{
    struct lm_tensor *x = lm_dense_embed(b), *first = NULL;
    const uint32_t every = b->h->rescale_every;
    for (uint32_t i = 0; i < b->h->n_layer && x; i++) {
        x = layer_of(b, f, i, x, &first);
        if (x && every && (i + 1) % every == 0)
            x = lm_scale(b->graph, x, 0.5f);
        x = lm_build_steer(b, i, x);
    }
    if (!x)
        return b->graph->err.code;
    if (b->every_row && b->n_out < b->n_tokens)
        x = lm_get_rows(b->graph, x, b->wanted);
    return lm_dense_head(b, x);
}
