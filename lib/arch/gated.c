/* SPDX-License-Identifier: MIT */
#include "arch/gated.h"

void lm_gated_qkv(struct lm_build *b, uint32_t layer, struct lm_tensor *x, struct lm_tensor *table,
                  struct lm_tensor *out[4])
{
    const struct lm_hparams *h = b->h;
    const size_t d = h->head_k, n = b->n_tokens, heads = h->n_head;
    struct lm_graph *g = b->graph;
    struct lm_tensor *q = lm_dense_linear(b, layer, LM_ATTN_Q, x);
    struct lm_tensor *k = lm_dense_linear(b, layer, LM_ATTN_K, x);
    struct lm_tensor *v = lm_dense_linear(b, layer, LM_ATTN_V, x), *gate = NULL;
    k = lm_reshape(g, k, 3, (size_t[]){ d, h->n_head_kv, n });
    if (q) {
        const size_t *ne = (size_t[]){ d, heads, n }, *nb = (size_t[]){ 4, 8 * d, q->nb[1] };
        gate = lm_view(g, q, 3, ne, nb, 4 * d);
        q = lm_view(g, q, 3, ne, nb, 0);
    }
    q = lm_dense_norm(b, layer, LM_ATTN_Q_NORM, q);
    k = lm_dense_norm(b, layer, LM_ATTN_K_NORM, k);
    out[0] = table ? lm_rope(g, q, table) : q;
    out[1] = table ? lm_rope(g, k, table) : k;
    out[2] = lm_reshape(g, v, 3, (size_t[]){ h->head_v, h->n_head_kv, n });
    out[3] = lm_reshape(g, lm_sigmoid(g, gate), 2, (size_t[]){ d * heads, n });
}
