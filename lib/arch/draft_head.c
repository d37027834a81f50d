/* SPDX-License-Identifier: MIT */
#include "arch/draft_head.h"

#include "arch/dense.h"

bool lm_draft_supported(const struct lm_arch *a)
{
    return lm_arch_has(a, LM_DRAFT_JOIN);
}

void lm_draft_memory(const struct lm_hparams *h, struct lm_memory_layer *out)
{
    *out = (struct lm_memory_layer){
        .n_head_kv = 1, .head_k = h->n_embd + 1, .head_v = h->n_embd, .v_in_k = true, .f32 = true,
    };
}

int lm_draft_keep(struct lm_build *b, struct lm_tensor *x)
{
    struct lm_graph *g = b->graph;
    const uint32_t layer = b->h->n_layer;
    x = lm_dense_norm(b, 0, LM_OUTPUT_NORM, x);
    struct lm_tensor *row = lm_reshape(g, x, 3, (size_t[]){ b->h->n_embd, 1, b->n_tokens });
    row = lm_concat(g, row, lm_reshape(g, b->id_values, 3, (size_t[]){ 1, 1, b->n_tokens }));
    lm_graph_expand(g, lm_kv_store(g, row, NULL, lm_build_pages(b, layer), b->pos,
                                   &b->places[layer].kv));
    if (b->n_out == 0)
        return g->err.code;
    if (b->n_out < b->n_tokens)
        x = lm_get_rows(g, x, b->wanted);
    return lm_dense_logits(b, 0, LM_OUTPUT, x);
}

/* The head's weight of a role, or else the model's: in which layer it is. */
static uint32_t holder(const struct lm_build *b, enum lm_role own)
{
    return lm_build_weight(b, b->h->n_layer, own) ? b->h->n_layer : 0;
}

static struct lm_tensor *join(struct lm_build *b, uint32_t layer)
{
    struct lm_graph *g = b->graph;
    const uint32_t in = holder(b, LM_DRAFT_EMBD);
    struct lm_tensor *e = lm_get_rows(g, lm_build_weight(b, in, in ? LM_DRAFT_EMBD
                                                                   : LM_TOKEN_EMBD), b->ids);
    if (b->h->embd_scale > 0)
        e = lm_scale(g, e, b->h->embd_scale);
    e = lm_dense_norm(b, layer, LM_DRAFT_EMBD_NORM, e);
    return lm_dense_linear(b, layer, LM_DRAFT_JOIN,
                           lm_concat(g, e, lm_dense_norm(b, layer, LM_DRAFT_HIDDEN_NORM,
                                                         b->before)));
}

int lm_draft_build(struct lm_build *b)
{
    const struct lm_hparams *h = b->h;
    const uint32_t layer = h->n_layer;
    struct lm_tensor *tables[2], *x = join(b, layer);
    struct lm_hparams room;
    lm_dense_tables(b, tables);
    b->h = lm_arch_layer(b->arch, h, layer, &room);
    x = lm_dense_layer(b, layer, x, lm_dense_table_of(b, layer, tables));
    b->h = h;
    if (!x)
        return b->graph->err.code;
    uint32_t in = holder(b, LM_DRAFT_OUTPUT_NORM);
    x = b->hidden = lm_dense_norm(b, in, in ? LM_DRAFT_OUTPUT_NORM : LM_OUTPUT_NORM, x);
    if (x)
        x->flags |= LM_TENSOR_OUTPUT;
    in = holder(b, LM_DRAFT_OUTPUT);
    return lm_dense_logits(b, in, in ? LM_DRAFT_OUTPUT : LM_OUTPUT, x);
}
