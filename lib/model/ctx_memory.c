/* SPDX-License-Identifier: MIT */
/*
 * Where a context remembers.  What a layer remembers lies in the memory of the device that makes
 * it: the one with the weights that its keys, or the input of its recurrence, are a product of.
 * That is read off the graph, so that no family has to say it.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>

#include "base/size.h"

const struct lm_buft *lm_ctx_state_buft(const struct lm_ctx *c, size_t device)
{
    const struct lm_device *d = c->m->device[device];
    return d->ops->buft(d, LM_USE_STATE);
}

bool lm_ctx_remembers(const struct lm_tensor *t, const struct lm_memory_place *place,
                      struct lm_tensor *const *pages, struct lm_tensor *const *states)
{
    switch (t->op) {
    case LM_OP_KV_STORE:
    case LM_OP_ATTN:
        return place->kv.n_head_kv && pages[place->list] == t->src[1] &&
               place->kv.k_off == t->arg.attn.kv.k_off;
    case LM_OP_STATE_CONV:
    case LM_OP_STATE_SCAN:
    case LM_OP_STATE_DELTA:
    case LM_OP_STATE_SHIFT:
    case LM_OP_STATE_WKV6:
    case LM_OP_STATE_WKV7:
    case LM_OP_STATE_GLA:
        return states && states[place->where] == t->src[1] &&
               t->arg.state.off >= place->conv_off &&
               t->arg.state.off - place->conv_off < place->state_bytes;
    default:
        return false;
    }
}

static const struct lm_tensor *behind_views(const struct lm_tensor *t)
{
    return t && t->root ? t->root : t;
}

/* The device whose memory a weight is in. */
static uint32_t device_of(const struct lm_ctx *c, const struct lm_tensor *weight)
{
    const uint32_t cpu = (uint32_t)lm_model_cpu_index(c->m);
    for (uint32_t i = 0; i < cpu && weight->buffer; i++) {
        const struct lm_device *d = c->m->device[i];
        if (weight->buffer->type == d->ops->buft(d, LM_USE_MATRIX) ||
            weight->buffer->type == d->ops->buft(d, LM_USE_WEIGHT))
            return i;
    }
    return cpu;
}

/* The device with the nearest weights that the first source of a node is a product of. */
static uint32_t maker(const struct lm_ctx *c, const struct lm_tensor *t)
{
    while ((t = behind_views(t->src[0]))) {
        const struct lm_tensor *w = behind_views(t->src[0]);
        if (w && (t->op == LM_OP_MUL_MAT || t->op == LM_OP_MUL_MAT_HEADS) && w->name)
            return device_of(c, w);
    }
    return (uint32_t)lm_model_cpu_index(c->m);
}

/* Layers that remember in one memory: the model's, or what its decoder knows of the encoder. */
struct part {
    struct lm_memory_shape   shape;
    struct lm_memory_layer  *layers;
    struct lm_memory_place **places;            /* of the context                           */
};

/* Give a part's layers the devices that the graph tells.  Where nodes only read, what they read
 * is made elsewhere. */
static void follow_graph(const struct lm_ctx *c, const struct lm_ready *r, struct part *p,
                         struct lm_tensor *const *pages, struct lm_tensor *const *states)
{
    const struct lm_graph *g = &r->graph;
    for (uint32_t i = 0; i < p->shape.n_layer; i++)
        for (size_t k = 0; k < g->n_nodes; k++)
            if (g->nodes[k]->op != LM_OP_ATTN &&
                lm_ctx_remembers(g->nodes[k], &(*p->places)[i], pages, states))
                p->layers[i].where = maker(c, g->nodes[k]);
}

/* And the CPU where the device lacks an operation on it. */
static void check_devices(const struct lm_ctx *c, const struct lm_ready *r, struct part *p,
                          struct lm_tensor *const *pages, struct lm_tensor *const *states)
{
    const struct lm_graph *g = &r->graph;
    for (uint32_t i = 0; i < p->shape.n_layer; i++)
        for (size_t k = 0; k < g->n_nodes; k++) {
            const struct lm_device *d = c->m->device[p->layers[i].where];
            if (lm_ctx_remembers(g->nodes[k], &(*p->places)[i], pages, states) &&
                !d->ops->supports_op(d, g->nodes[k]))
                p->layers[i].where = (uint32_t)lm_model_cpu_index(c->m);
        }
}

/* The devices of all layers: of one's encoder, too, what that makes for the decoder. */
static int find_devices(struct lm_ctx *c, struct part *own, struct part *cross,
                        struct lm_err *err)
{
    struct lm_ready r[2];
    const int n = cross ? 2 : 1;
    int code = LM_OK, built = 0;
    for (; built < n && !code; built++) {
        c->encoding = built == 1;
        code = lm_ctx_build(c, &r[built], c->n_ubatch, c->encoding ? 0 : 1, err);
    }
    c->encoding = false;
    for (int i = 0; i < n && !code; i++) {
        follow_graph(c, &r[i], own, r[i].b.pages, r[i].b.states);
        if (cross)
            follow_graph(c, &r[i], cross, r[i].b.cross_pages, NULL);
    }
    for (int i = 0; i < n && !code; i++) {
        check_devices(c, &r[i], own, r[i].b.pages, r[i].b.states);
        if (cross)
            check_devices(c, &r[i], cross, r[i].b.cross_pages, NULL);
    }
    while (built > 0)
        lm_ctx_drop_graph(c, &r[--built]);
    return code;
}

static int make_places(struct part *p, struct lm_err *err)
{
    if (!*p->places && !(*p->places = lm_malloc_array(p->shape.n_layer, sizeof **p->places)))
        return lm_fail_nomem(err);
    return lm_memory_places(&p->shape, *p->places, err);
}

/* All layers on the CPU, until the graph is known. */
static int start_part(struct lm_ctx *c, struct part *p, uint32_t n_layer, struct lm_err *err)
{
    p->shape.n_layer = n_layer;
    if (!(p->layers = lm_malloc_array(n_layer, sizeof *p->layers)))
        return lm_fail_nomem(err);
    p->shape.layers = p->layers;
    for (uint32_t i = 0; i < n_layer; i++) {
        if (p->places == &c->places)
            lm_arch_memory(c->m->arch, &c->m->h, i, &p->layers[i]);
        else
            p->layers[i] = (struct lm_memory_layer){
                .n_head_kv = c->m->h.n_head_kv, .head_k = c->m->h.head_k,
                .head_v = c->m->h.head_v,
            };
        p->layers[i].where = (uint32_t)lm_model_cpu_index(c->m);
    }
    return make_places(p, err);
}

int lm_ctx_make_memory(struct lm_ctx *c, const struct lm_ctx_options *o, struct lm_err *err)
{
    const struct lm_type *f16 = lm_type_by_id(LM_F16);
    const struct lm_buft *bufts[LM_MAX_PLACES];
    const bool cross = c->m->arch->has_encoder;
    struct part own = { .places = &c->places }, other = { .places = &c->cross_places };
    for (size_t i = 0; i < c->m->n_devices; i++)
        bufts[i] = lm_ctx_state_buft(c, i);
    own.shape = (struct lm_memory_shape){
        .bufts = bufts, .n_bufts = (uint32_t)c->m->n_devices,
        .k_type = o && o->cache_k ? o->cache_k : f16,
        .v_type = o && o->cache_v ? o->cache_v : f16,
        .n_ctx = c->n_ctx, .n_batch = c->n_batch, .n_snapshots = 2,
        .keep_all = o && o->keep_all, .no_hadamard = o && o->no_hadamard,
    };
    other.shape = own.shape;
    other.shape.n_batch = c->n_ctx;             /* a text is evaluated as a whole */
    c->k_type = own.shape.k_type;
    c->v_type = own.shape.v_type;
    int r = start_part(c, &own, c->m->h.n_layer, err);
    if (!r && cross)
        r = start_part(c, &other, c->m->h.n_layer_dec, err);
    if (!r && c->m->n_devices > 1 && !(r = find_devices(c, &own, cross ? &other : NULL, err)) &&
        !(r = make_places(&own, err)) && cross)
        r = make_places(&other, err);
    if (!r && !(c->memory = lm_memory_new(&own.shape, err)))
        r = LM_ENOMEM;
    if (!r && cross && !(c->cross = lm_memory_new(&other.shape, err)))
        r = LM_ENOMEM;
    free(own.layers);
    free(other.layers);
    return r;
}
