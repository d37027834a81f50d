/* SPDX-License-Identifier: MIT */
/*
 * How cached keys depend on their positions: found in the graph, so that no family has to
 * say it.  A key that is stored as it comes from ROPE and from norms without weights behind it, or
 * with a part that does, turns with its position; one that does not see the positions stays.
 */
#include "model/ctx_impl.h"

static struct lm_tensor *behind_views(struct lm_tensor *t)
{
    return t && t->root ? t->root : t;
}

static int not_supported(struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "what this model remembers of tokens belongs to their "
                   "positions: they cannot be shifted");
}

/* The place whose keys a node stores; n_places if none. */
static uint32_t place_of(const struct lm_ctx *c, const struct lm_build *b,
                         const struct lm_tensor *t)
{
    uint32_t i = 0;
    while (i < c->n_places && !lm_ctx_remembers(t, &c->places[i], b->pages, NULL))
        i++;
    return i;
}

/* What was normalized to make t: a norm without weights turns with it, with weights it does not. */
static struct lm_tensor *behind_norms(struct lm_tensor *t, bool *weighted)
{
    *weighted = false;
    while (t && (t->op == LM_OP_SCALE || t->op == LM_OP_L2_NORM || t->op == LM_OP_RMS_NORM ||
                 t->op == LM_OP_LAYER_NORM || t->op == LM_OP_MUL)) {
        *weighted |= t->src[1] || t->op == LM_OP_LAYER_NORM;
        t = behind_views(t->src[0]);
    }
    return t;
}

/* A source of the keys at value `off`. */
static int take(struct lm_turn *out, struct lm_tensor *t, size_t off, struct lm_err *err)
{
    const struct lm_tensor *table;
    bool weighted;
    t = behind_norms(t, &weighted);
    if (t && (t->op == LM_OP_POS_SCALE || (t->op == LM_OP_ROPE && weighted)))
        return not_supported(err);
    if (!t || t->op != LM_OP_ROPE)
        return LM_OK;
    table = t->src[1];
    if (table->op != LM_OP_ROPE_TABLE || table->src[2] || out->rotates ||
        (table->src[1] && (table->src[1]->op != LM_OP_NONE || !table->src[1]->data)))
        return not_supported(err);
    *out = (struct lm_turn){ .rotates = true, .off = off, .rope = table->arg.rope,
                             .table = table };
    if (table->src[1])
        out->factors = *table->src[1];
    return LM_OK;
}

static int look_at(struct lm_turn *out, const struct lm_tensor *store, struct lm_err *err)
{
    struct lm_tensor *k = behind_views(store->src[0]);
    if (k->op != LM_OP_CONCAT)
        return take(out, k, 0, err);
    int r = take(out, behind_views(k->src[0]), 0, err);
    return r ? r : take(out, behind_views(k->src[1]), k->src[0]->ne[0], err);
}

/* Positions may only be remembered at and compared, angles only be rotated by. */
static bool positions_are_plain(const struct lm_build *b)
{
    const struct lm_graph *g = b->graph;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < LM_MAX_SRC; k++) {
            const struct lm_tensor *t = g->nodes[i], *src = behind_views(t->src[k]);
            if (src == b->pos && t->op != LM_OP_KV_STORE && t->op != LM_OP_ATTN &&
                t->op != LM_OP_CHOOSE)
                return false;
            if (src == b->angle && t->op != LM_OP_ROPE_TABLE && t->op != LM_OP_POS_SCALE)
                return false;
        }
    return true;
}

int lm_ctx_turns(struct lm_ctx *c, struct lm_turn *turns, struct lm_err *err)
{
    struct lm_ready r;
    if (c->n_waiting)
        return not_supported(err);
    int code = lm_ctx_build(c, &r, 1, 1, err);
    if (!code && !positions_are_plain(&r.b))
        code = not_supported(err);
    for (size_t i = 0; i < r.graph.n_nodes && !code; i++) {
        const struct lm_tensor *t = r.graph.nodes[i];
        uint32_t at = t->op == LM_OP_KV_STORE ? place_of(c, &r.b, t) : c->n_places;
        if (at < c->n_places)
            code = look_at(&turns[at], t, err);
    }
    lm_ctx_drop_graph(c, &r);
    return code;
}
