/* SPDX-License-Identifier: MIT */
/* Which backend computes which node, and where the graph is cut. */
#include "backend/sched_impl.h"

#include <stdlib.h>

#include "base/size.h"

#define NOBODY UINT32_MAX

const struct lm_buft *lm_sched_buft(const struct lm_sched *s, size_t backend)
{
    const struct lm_device *d = s->backend[backend]->device;
    return d->ops->buft(d, LM_USE_COMPUTE);
}

static bool reads_buft(const struct lm_sched *s, size_t backend, const struct lm_buft *b)
{
    const struct lm_device *d = s->backend[backend]->device;
    return d->ops->supports_buft(d, b);
}

static bool computes(const struct lm_sched *s, size_t backend, const struct lm_tensor *t)
{
    const struct lm_device *d = s->backend[backend]->device;
    return d->ops->supports_op(d, t);
}

static struct lm_tensor *root_of(struct lm_tensor *t)
{
    return t->root ? t->root : t;
}

/* The memory that a tensor without a plan is in. */
static const struct lm_buft *home(const struct lm_sched *s, const struct lm_tensor *t)
{
    return t->buffer ? t->buffer->type : lm_sched_buft(s, s->cpu);
}

static bool is_weight(const struct lm_tensor *t)
{
    return t->op == LM_OP_NONE && t->data && !(t->flags & LM_TENSOR_INPUT);
}

/* Can the backend use t, whose place is known, where it is? */
static bool reads(const struct lm_sched *s, size_t backend, const struct lm_tensor *t)
{
    if (is_weight(t))
        return reads_buft(s, backend, home(s, t));
    return t->place == backend || reads_buft(s, backend, lm_sched_buft(s, t->place));
}

/* Weights that could be copied to another device: in host memory, in the file's form. */
static bool portable(const struct lm_sched *s, const struct lm_tensor *w)
{
    return home(s, w)->ops->host && !w->layout;
}

static const struct lm_tensor *weight_of(const struct lm_tensor *t)
{
    for (size_t i = 0; i < LM_MAX_SRC; i++)
        if (t->src[i] && is_weight(t->src[i]->root ? t->src[i]->root : t->src[i]))
            return t->src[i]->root ? t->src[i]->root : t->src[i];
    return NULL;
}

/* The memory that a node reads or writes by address: what sequences remember. */
static const struct lm_buft *state_of(const struct lm_tensor *t)
{
    for (size_t i = 0; i < LM_MAX_SRC; i++) {
        const struct lm_tensor *s = t->src[i];
        if (s && (s->root ? s->root : s)->state)
            return (s->root ? s->root : s)->state;
    }
    return NULL;
}

/* The first pass for one node. */
static uint32_t by_data(const struct lm_sched *s, const struct lm_tensor *t)
{
    const struct lm_tensor *w = weight_of(t);
    const struct lm_buft *state = state_of(t), *where = state ? state : w ? home(s, w) : NULL;
    for (uint32_t i = 0; where && i < s->n; i++) {
        const struct lm_device *d = s->backend[i]->device;
        if (reads_buft(s, i, where) && computes(s, i, t))
            return i;
        if (!state && portable(s, w) && computes(s, i, t) && d->ops->offload(d, t))
            return i;
    }
    return NOBODY;
}

/* One sweep of the second pass: from `from` on in steps of one, up or down. */
static void spread(const struct lm_sched *s, struct lm_graph *g, bool up, bool also_cpu)
{
    uint32_t last = NOBODY;
    for (size_t k = 0; k < g->n_nodes; k++) {
        struct lm_tensor *t = g->nodes[up ? g->n_nodes - 1 - k : k];
        if (t->op == LM_OP_VIEW)
            continue;
        if (t->place != NOBODY)
            last = t->place == s->cpu && !also_cpu ? NOBODY : t->place;
        else if (last != NOBODY && computes(s, last, t))
            t->place = last;
    }
}

/* The third pass for one node. */
static uint32_t by_sources(const struct lm_sched *s, const struct lm_tensor *t)
{
    uint32_t best = NOBODY;
    size_t most = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        size_t here = 1;
        if (!computes(s, i, t))
            continue;
        for (size_t k = 0; k < LM_MAX_SRC; k++) {
            struct lm_tensor *r = t->src[k] ? root_of(t->src[k]) : NULL;
            here += r && r->place != NOBODY && reads(s, i, r);
        }
        if (here > most) {
            best = i;
            most = here;
        }
    }
    return best;
}

static int assign(const struct lm_sched *s, struct lm_graph *g, struct lm_err *err)
{
    for (size_t i = 0; i < g->n_leaves; i++)
        g->leaves[i]->place = (uint32_t)s->cpu;
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        t->place = s->n == 1 ? 0 : t->op == LM_OP_VIEW ? NOBODY : by_data(s, t);
        if (t->place == NOBODY && state_of(t))
            return lm_fail(err, LM_ENOSUP, "no device can compute node %zu where what it reads is "
                           "remembered", i);
    }
    if (s->n == 1)
        return LM_OK;
    for (int also_cpu = 0; also_cpu < 2; also_cpu++)
        for (int up = 0; up < 2; up++)
            spread(s, g, up, also_cpu);
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW)
            t->place = t->root->place;
        else if (t->place == NOBODY)
            t->place = by_sources(s, t);
        if (t->place == NOBODY)
            return lm_fail(err, LM_ENOSUP, "no device can compute node %zu", i);
    }
    return LM_OK;
}

/* --- pieces ------------------------------------------------------------------------------ */

/* The new order of nodes. */
struct order {
    struct lm_tensor **nodes;
    size_t             n, cap;
};

static int put(struct order *o, struct lm_tensor *t, struct lm_err *err)
{
    if (!lm_grow(&o->nodes, &o->cap, o->n + 1, sizeof *o->nodes))
        return lm_fail_nomem(err);
    o->nodes[o->n++] = t;
    return LM_OK;
}

/* The copy of r for a backend, made before the piece that needs it first. */
static struct lm_tensor *copy_of(const struct lm_sched *s, struct lm_plan *p, struct lm_tensor *r,
                                 uint32_t backend, const struct lm_tensor *ids,
                                 struct order *o, struct lm_err *err)
{
    for (size_t i = 0; i < p->n_copies; i++)
        if (p->copies[i].from == r && p->copies[i].to->place == backend && !ids)
            return p->copies[i].to;
    struct lm_tensor *t = lm_copy(p->g, r, backend);
    if (!t || !lm_grow(&p->copies, &p->cap_copies, p->n_copies + 1, sizeof *p->copies)) {
        lm_fail(err, LM_ENOMEM, "%s", t ? "out of memory" : p->g->err.text);
        return NULL;
    }
    const struct lm_buft *b = lm_sched_buft(s, backend);
    t->room = b->ops->tensor_size(b, t);
    t->n_uses = 1;
    p->copies[p->n_copies++] = (struct lm_copy_in){ .from = r, .to = t, .ids = ids };
    return put(o, t, err) ? NULL : t;
}

/* What stands for source t of a node on another backend: a copy, or the same view of one. */
static struct lm_tensor *stand_in(const struct lm_sched *s, struct lm_plan *p, struct lm_tensor *t,
                                  uint32_t backend, const struct lm_tensor *ids,
                                  struct order *o, struct lm_err *err)
{
    struct lm_tensor *c = copy_of(s, p, root_of(t), backend, ids, o, err), *v;
    if (!c || !t->root)
        return c;
    if (!(v = lm_arena_alloc(&p->g->arena, sizeof *v))) {
        lm_fail_nomem(err);
        return NULL;
    }
    *v = *t;
    v->src[0] = v->root = c;
    v->place = backend;
    return put(o, v, err) ? NULL : v;
}

/* Are the experts that this product uses copied for it? */
static const struct lm_tensor *experts_of(const struct lm_sched *s, const struct lm_tensor *t)
{
    return t->op == LM_OP_MUL_MAT_ID && is_weight(t->src[0]) && !reads(s, t->place, t->src[0])
               ? t->src[2] : NULL;
}

static int bring_sources(const struct lm_sched *s, struct lm_plan *p, struct lm_tensor *t,
                         struct order *o, struct lm_err *err)
{
    const struct lm_tensor *ids = experts_of(s, t);
    for (size_t k = 0; k < LM_MAX_SRC; k++) {
        struct lm_tensor *r = t->src[k] ? root_of(t->src[k]) : NULL;
        if (!r || reads(s, t->place, r))
            continue;
        if (is_weight(r) && r->layout)
            return lm_fail(err, LM_ENOSUP, "%s: no device can compute with it where it is",
                           r->name ? r->name : "a weight");
        struct lm_tensor *c = stand_in(s, p, t->src[k], t->place, k == 0 ? ids : NULL, o, err);
        if (!c)
            return err && err->code ? (int)err->code : LM_ENOMEM;
        t->src[k] = c;
    }
    return LM_OK;
}

/* The end of the piece that begins at node i. */
static size_t end_of(const struct lm_sched *s, const struct lm_graph *g, size_t i)
{
    uint32_t backend = NOBODY;
    size_t n = 0;
    for (; i < g->n_nodes; i++) {
        const struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW)
            continue;
        /* Which experts are used must be known before the piece begins. */
        if (n++ && (t->place != backend || experts_of(s, t)))
            break;
        backend = t->place;
    }
    return i;
}

static int add_piece(const struct lm_sched *s, struct lm_plan *p, size_t from, size_t to,
                     struct order *o, struct lm_err *err)
{
    struct lm_graph *g = p->g;
    struct lm_piece x = { .backend = s->cpu, .first_copy = p->n_copies };
    int r = LM_OK;
    for (size_t i = from; i < to && !r; i++)
        if (g->nodes[i]->op != LM_OP_VIEW) {
            x.backend = g->nodes[i]->place;
            r = bring_sources(s, p, g->nodes[i], o, err);
        }
    x.n_copies = p->n_copies - x.first_copy;
    x.first = o->n;
    for (size_t i = from; i < to && !r; i++)
        r = put(o, g->nodes[i], err);
    x.n_nodes = o->n - x.first;
    if (!r && !lm_grow(&p->pieces, &p->cap_pieces, p->n_pieces + 1, sizeof *p->pieces))
        r = lm_fail_nomem(err);
    if (!r)
        p->pieces[p->n_pieces++] = x;
    return r;
}

int lm_sched_cut(const struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    struct lm_graph *g = p->g;
    struct order o = {0};
    int r = assign(s, g, err);
    for (size_t i = 0, end; i < g->n_nodes && !r; i = end) {
        end = end_of(s, g, i);
        r = add_piece(s, p, i, end, &o, err);
    }
    if (r) {
        free(o.nodes);
        return r;
    }
    free(g->nodes);
    g->nodes = o.nodes;
    g->n_nodes = o.n;
    g->cap_nodes = o.cap;
    return LM_OK;
}
