/* SPDX-License-Identifier: MIT */
/*
 * Where a context remembers.  What a layer remembers lies in the memory of the device that makes
 * it: the one with the weights that its keys, or the input of its recurrence, are a product of.
 * That is read off the graph, so that no family has to say it.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "arch/draft_head.h"
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
    case LM_OP_CHOOSE:
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

/* Layers that remember in one memory: the model's, what its decoder knows of the encoder, or the
 * draft head; each has a graph. */
enum { OWN, CROSS, DRAFT, N_PARTS };

struct part {
    struct lm_memory_shape   shape;
    struct lm_memory_layer  *layers;
    struct lm_memory_place **places;            /* of the context                           */
};

/* Does the graph of one part work on what another remembers? */
static bool concerns(int graph, int part)
{
    return (graph == DRAFT) == (part == DRAFT);
}

static struct lm_tensor *const *pages_of(const struct lm_ready *r, int part)
{
    return part == CROSS ? r->b.cross_pages : r->b.pages;
}

static struct lm_tensor *const *states_of(const struct lm_ready *r, int part)
{
    return part == OWN ? r->b.states : NULL;
}

/* Give a part's layers the devices that the graph tells.  Where nodes only read, what they read
 * is made elsewhere. */
static void follow_graph(const struct lm_ctx *c, const struct lm_ready *r, struct part *p, int part)
{
    const struct lm_graph *g = &r->graph;
    struct lm_tensor *const *pages = pages_of(r, part), *const *states = states_of(r, part);
    for (uint32_t i = 0; i < p->shape.n_layer; i++)
        for (size_t k = 0; k < g->n_nodes; k++)
            if (g->nodes[k]->op != LM_OP_ATTN && g->nodes[k]->op != LM_OP_CHOOSE &&
                lm_ctx_remembers(g->nodes[k], &(*p->places)[i], pages, states))
                p->layers[i].where = maker(c, g->nodes[k]);
}

/* And the CPU where the device lacks an operation on it. */
static void check_devices(const struct lm_ctx *c, const struct lm_ready *r, struct part *p,
                          int part)
{
    const struct lm_graph *g = &r->graph;
    struct lm_tensor *const *pages = pages_of(r, part), *const *states = states_of(r, part);
    for (uint32_t i = 0; i < p->shape.n_layer; i++)
        for (size_t k = 0; k < g->n_nodes; k++) {
            const struct lm_device *d = c->m->device[p->layers[i].where];
            if (lm_ctx_remembers(g->nodes[k], &(*p->places)[i], pages, states) &&
                !d->ops->supports_op(d, g->nodes[k]))
                p->layers[i].where = (uint32_t)lm_model_cpu_index(c->m);
        }
}

/* The devices of all layers: of one's encoder, too, what that makes for the decoder. */
static int find_devices(struct lm_ctx *c, struct part *parts, struct lm_err *err)
{
    struct lm_ready r[N_PARTS];
    int code = LM_OK, built = 0;
    for (; built < N_PARTS && !code; built++) {
        memset(&r[built], 0, sizeof r[built]);
        c->encoding = built == CROSS;
        c->drafting = built == DRAFT;
        if (parts[built].places)
            code = lm_ctx_build(c, &r[built], c->n_ubatch, c->encoding ? 0 : 1, err);
    }
    c->encoding = c->drafting = false;
    for (int pass = 0; pass < 2 && !code; pass++)
        for (int i = 0; i < N_PARTS; i++)
            for (int k = 0; k < N_PARTS; k++)
                if (parts[i].places && parts[k].places && concerns(i, k))
                    (pass ? check_devices : follow_graph)(c, &r[i], &parts[k], k);
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

/* What layer i of a part remembers.  Behind the model's own is what its draft head needs of it; the
 * head itself is numbered as it is among the model's. */
static struct lm_memory_layer layer_of(const struct lm_ctx *c, int part, uint32_t i)
{
    const struct lm_hparams *h = &c->m->h;
    struct lm_memory_layer l = {0};
    if (part == CROSS)
        l = (struct lm_memory_layer){ .n_head_kv = h->n_head_kv, .head_k = h->head_k,
                                      .head_v = h->head_v };
    else if (part == OWN && i == h->n_layer && c->draft)
        lm_draft_memory(h, &l);
    else if (part == OWN || i == h->n_layer)
        lm_arch_memory(c->m->arch, h, i, &l);
    return l;
}

/* All layers on the CPU, until the graph is known. */
static int start_part(struct lm_ctx *c, struct part *parts, int part, uint32_t n_layer,
                      struct lm_err *err)
{
    struct part *p = &parts[part];
    p->shape.n_layer = n_layer;
    if (!(p->layers = lm_malloc_array(n_layer, sizeof *p->layers)))
        return lm_fail_nomem(err);
    p->shape.layers = p->layers;
    for (uint32_t i = 0; i < n_layer; i++) {
        p->layers[i] = layer_of(c, part, i);
        p->layers[i].where = (uint32_t)lm_model_cpu_index(c->m);
    }
    return make_places(p, err);
}

/* The parts that there are, on their devices. */
static int start_parts(struct lm_ctx *c, struct part *parts, struct lm_err *err)
{
    const uint32_t more = c->draft != NULL;
    const uint32_t n[N_PARTS] = { c->n_places + more, c->m->h.n_layer_dec,
                                  c->m->h.n_layer + more };
    int r = LM_OK;
    for (int i = 0; i < N_PARTS && !r; i++)
        r = parts[i].places ? start_part(c, parts, i, n[i], err) : LM_OK;
    if (!r && c->m->n_devices > 1)
        r = find_devices(c, parts, err);
    for (int i = 0; i < N_PARTS && !r && c->m->n_devices > 1; i++)
        r = parts[i].places ? make_places(&parts[i], err) : LM_OK;
    return r;
}

int lm_ctx_make_memory(struct lm_ctx *c, const struct lm_ctx_options *o, struct lm_err *err)
{
    const struct lm_type *f16 = lm_type_by_id(LM_F16);
    const struct lm_buft *bufts[LM_MAX_PLACES];
    struct part parts[N_PARTS] = { 0 };
    for (size_t i = 0; i < c->m->n_devices; i++)
        bufts[i] = lm_ctx_state_buft(c, i);
    parts[OWN].shape = (struct lm_memory_shape){
        .bufts = bufts, .n_bufts = (uint32_t)c->m->n_devices,
        .k_type = o && o->cache_k ? o->cache_k : f16,
        .v_type = o && o->cache_v ? o->cache_v : f16,
        .n_ctx = c->n_ctx, .n_batch = c->n_batch, .n_snapshots = 2,
        .keep_all = o && o->keep_all, .no_hadamard = o && o->no_hadamard,
    };
    parts[CROSS].shape = parts[DRAFT].shape = parts[OWN].shape;
    parts[CROSS].shape.n_batch = c->n_ctx;      /* a text is evaluated as a whole */
    parts[DRAFT].shape.n_batch = c->n_ubatch;
    c->k_type = parts[OWN].shape.k_type;
    c->v_type = parts[OWN].shape.v_type;
    int r = o && o->draft_head ? lm_draft_new(c, err) : LM_OK;
    c->n_places = lm_arch_n_memory(&c->m->h);
    parts[OWN].places = &c->places;
    parts[CROSS].places = c->m->arch->has_encoder ? &c->cross_places : NULL;
    parts[DRAFT].places = c->draft ? lm_draft_places(c) : NULL;
    if (!r)
        r = start_parts(c, parts, err);
    if (!r && !(c->memory = lm_memory_new(&parts[OWN].shape, err)))
        r = LM_ENOMEM;
    if (!r && parts[CROSS].places && !(c->cross = lm_memory_new(&parts[CROSS].shape, err)))
        r = LM_ENOMEM;
    if (!r && c->draft)
        r = lm_draft_remember(c, &parts[DRAFT].shape, err);
    for (int i = 0; i < N_PARTS; i++)
        free(parts[i].layers);
    return r;
}
