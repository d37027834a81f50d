/* SPDX-License-Identifier: MIT */
#include "arch/layer_input.h"

#include <math.h>

void lm_layer_inputs(struct lm_build *b, struct lm_tensor *x)
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    const size_t *ne = (size_t[]){ h->n_embd_layer, h->n_layer, b->n_tokens };
    if (!h->n_embd_layer)
        return;
    struct lm_tensor *own = lm_get_rows(g, lm_build_weight(b, 0, LM_LAYERS_EMBD), b->ids);
    struct lm_tensor *made = lm_dense_linear(b, 0, LM_LAYERS_PROJ, x);
    own = lm_reshape(g, lm_scale(g, own, sqrtf((float)h->n_embd_layer)), 3, ne);
    made = lm_reshape(g, lm_scale(g, made, 1 / sqrtf((float)h->n_embd)), 3, ne);
    made = lm_dense_norm(b, 0, LM_LAYERS_NORM, made);
    b->layer_inputs = lm_scale(g, lm_add(g, made, own), sqrtf(0.5f));
}

struct lm_tensor *lm_layer_input(struct lm_build *b, uint32_t layer, struct lm_tensor *x)
{
    struct lm_tensor *all = b->layer_inputs;
    if (!x || !all)
        return NULL;
    struct lm_tensor *in = lm_view(b->graph, all, 2, (size_t[]){ all->ne[0], all->ne[2] },
                                   (size_t[]){ 4, all->nb[2] }, layer * all->nb[1]);
    if (x->ne[1] < b->n_tokens)
        in = lm_get_rows(b->graph, in, b->wanted);
    x = lm_dense_gated(b, lm_dense_linear(b, layer, LM_LAYER_GATE, x), in);
    return lm_dense_norm(b, layer, LM_LAYER_NORM, lm_dense_linear(b, layer, LM_LAYER_PROJ, x));
}

static struct lm_tensor *heads(struct lm_build *b, struct lm_tensor *x, size_t len, size_t n)
{
    return lm_reshape(b->graph, x, 3, (size_t[]){ len, n, b->n_tokens });
}

void lm_shared_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x,
                   struct lm_tensor *table, struct lm_tensor *out[4])
{
    const struct lm_hparams *h = b->h;
    struct lm_graph *g = b->graph;
    struct lm_tensor *q = heads(b, lm_dense_linear(b, layer, LM_ATTN_Q, x), h->head_k, h->n_head);
    out[0] = lm_rope(g, lm_dense_norm(b, layer, LM_ATTN_Q_NORM, q), table);
    if (lm_arch_kv_layer(b->arch, h, layer) != layer)
        return;
    struct lm_tensor *k = lm_dense_linear(b, layer, LM_ATTN_K, x), *v = k;
    if (lm_build_weight(b, layer, LM_ATTN_V))
        v = lm_dense_linear(b, layer, LM_ATTN_V, x);
    k = heads(b, k, h->head_k, h->n_head_kv);
    out[1] = lm_rope(g, lm_dense_norm(b, layer, LM_ATTN_K_NORM, k), table);
    out[2] = lm_dense_plain_norm(b, heads(b, v, h->head_v, h->n_head_kv));
}
