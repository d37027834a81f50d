/* SPDX-License-Identifier: MIT */
/* Plans on several devices: their memory, and running them. */
#include "backend/sched_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

struct lm_sched *lm_sched_new(struct lm_backend *const *backends, size_t n, struct lm_err *err)
{
    struct lm_sched *s = n && n <= LM_MAX_PLACES ? calloc(1, sizeof *s) : NULL;
    if (!s) {
        lm_fail(err, n && n <= LM_MAX_PLACES ? LM_ENOMEM : LM_EUSE, "%zu devices at once", n);
        return NULL;
    }
    s->n = n;
    s->cpu = n - 1;
    for (size_t i = 0; i < n; i++) {
        s->backend[i] = backends[i];
        const struct lm_backend_ops *ops = backends[i]->ops;
        if (ops->event_new && !(s->event[i] = ops->event_new(backends[i], err))) {
            lm_sched_free(s);
            return NULL;
        }
    }
    return s;
}

void lm_sched_free(struct lm_sched *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        if (s->event[i])
            s->backend[i]->ops->event_free(s->backend[i], s->event[i]);
        if (s->buffer[i])
            s->buffer[i]->ops->free(s->buffer[i]);
    }
    if (s->stage)
        s->stage->ops->free(s->stage);
    free(s);
}

int lm_sched_wait(struct lm_sched *s, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < s->n; i++) {
        int k = s->backend[i]->ops->synchronize(s->backend[i], r ? NULL : err);
        r = r ? r : k;
        s->reading[i] = false;
    }
    return r;
}

/* --- making a plan ----------------------------------------------------------------------- */

static bool host(const struct lm_sched *s, size_t backend)
{
    return lm_sched_buft(s, backend)->ops->host;
}

/* Host memory that every device exchanges data with as fast as it can. */
static const struct lm_buft *exchange(const struct lm_sched *s)
{
    for (size_t i = 0; i < s->cpu; i++) {
        const struct lm_device *d = s->backend[i]->device;
        const struct lm_buft *b = d->ops->host_buft(d);
        if (b)
            return b;
    }
    return lm_sched_buft(s, s->cpu);
}

static int replace(struct lm_buffer **old, const struct lm_buft *type, size_t size,
                   enum lm_buffer_use use, struct lm_err *err)
{
    struct lm_buffer *b = type->ops->alloc(type, size, err);
    if (!b)
        return LM_ENOMEM;
    b->use = use;
    if (*old)
        (*old)->ops->free(*old);
    *old = b;
    return LM_OK;
}

int lm_sched_reserve(struct lm_sched *s, const size_t size[LM_MAX_PLACES], bool *moved,
                     struct lm_err *err)
{
    *moved = false;
    for (size_t i = 0; i < s->n; i++) {
        if (s->buffer[i] ? s->buffer[i]->size >= size[i] : size[i] == 0 && s->n > 1)
            continue;
        int r = lm_sched_wait(s, err);
        if (!r)
            r = replace(&s->buffer[i], lm_sched_buft(s, i), size[i], LM_USE_COMPUTE, err);
        if (r)
            return r;
        *moved = true;
    }
    return LM_OK;
}

/* Outputs whose place the caller names are not planned where they can be computed there. */
static int find_outputs(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    for (size_t i = 0; i < p->g->n_nodes; i++) {
        struct lm_tensor *t = p->g->nodes[i];
        if (!(t->flags & LM_TENSOR_OUTPUT) || !t->data || t->root)
            continue;
        if (!lm_grow(&p->outputs, &p->cap_outputs, p->n_outputs + 1, sizeof *p->outputs))
            return lm_fail_nomem(err);
        bool direct = host(s, t->place);
        p->outputs[p->n_outputs++] = (struct lm_output){ t, t->data, direct };
        if (!direct)
            t->data = NULL;
    }
    return LM_OK;
}

static int add_input(struct lm_plan *p, struct lm_tensor *t, struct lm_err *err)
{
    if (!lm_grow(&p->inputs, &p->cap_inputs, p->n_inputs + 1, sizeof *p->inputs))
        return lm_fail_nomem(err);
    p->inputs[p->n_inputs++] = t;
    return LM_OK;
}

static bool is_input(const struct lm_tensor *t)
{
    return t->op == LM_OP_NONE && t->flags & LM_TENSOR_INPUT;
}

/* Inputs of one turn one behind the other. */
static int find_inputs(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    size_t at = 0;
    int r = LM_OK;
    for (size_t i = 0; i < p->g->n_leaves && !r; i++) {
        struct lm_tensor *t = p->g->leaves[i];
        if (!is_input(t) || t->data)
            continue;
        t->offset = at;
        at += (lm_tensor_bytes(t) + 63) & ~(size_t)63;
        r = add_input(p, t, err);
    }
    for (size_t i = 0; i < p->g->n_nodes && !r; i++)
        if (p->g->nodes[i]->root && is_input(p->g->nodes[i]->root))
            r = add_input(p, p->g->nodes[i], err);
    p->turn_size = at;
    if (r || (r = replace(&p->turns, exchange(s), at * LM_SCHED_COPIES, LM_USE_COMPUTE, err)))
        return r;
    char *base = p->turns->ops->base(p->turns);
    for (size_t i = 0; i < p->n_inputs; i++)     /* not the planner's to place */
        if (!p->inputs[i]->root)
            p->inputs[i]->data = base + p->inputs[i]->offset;
    return LM_OK;
}

/* Cut, and give every intermediate an offset. */
static int arrange(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    size_t align = 64;
    int r = lm_sched_cut(s, p, err);
    if (!r)
        r = find_outputs(s, p, err);
    if (!r && s->n > 1)
        r = find_inputs(s, p, err);
    if (r)
        return r;
    for (size_t i = 0; i < s->n; i++) {
        const struct lm_buft *b = lm_sched_buft(s, i);
        align = b->ops->align > align ? b->ops->align : align;
        for (size_t k = 0; k < p->g->n_nodes && s->n > 1; k++)
            if (p->g->nodes[k]->place == i && !p->g->nodes[k]->root)
                p->g->nodes[k]->room = b->ops->tensor_size(b, p->g->nodes[k]);
    }
    if (lm_graph_plan(p->g, align))
        return lm_fail(err, p->g->err.code, "%s", p->g->err.text);
    return LM_OK;
}

static int make_events(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    for (size_t i = 0; i < s->cpu; i++)
        for (size_t k = 0; k < LM_SCHED_COPIES && s->backend[i]->ops->event_new; k++)
            if (!(p->events[k][i] = s->backend[i]->ops->event_new(s->backend[i], err)))
                return LM_ENOMEM;
    return LM_OK;
}

/* Room between two devices that do not know each other. */
static int make_stage(struct lm_sched *s, const struct lm_plan *p, struct lm_err *err)
{
    size_t most = 0;
    for (size_t i = 0; i < p->n_copies; i++) {
        const struct lm_tensor *t = p->copies[i].from;
        if (t->place != s->cpu && p->copies[i].to->place != s->cpu && lm_tensor_bytes(t) > most)
            most = lm_tensor_bytes(t);
    }
    if (most == 0 || (s->stage && s->stage->size >= most))
        return LM_OK;
    int r = lm_sched_wait(s, err);
    return r ? r : replace(&s->stage, exchange(s), most, LM_USE_COMPUTE, err);
}

static int compile(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->buffer[i])
            lm_graph_place(p->g, (uint32_t)i, s->buffer[i]->ops->base(s->buffer[i]),
                           s->buffer[i]);
    for (size_t i = 0; i < p->n_pieces; i++) {
        struct lm_piece *x = &p->pieces[i];
        struct lm_backend *b = s->backend[x->backend];
        x->view = (struct lm_graph){ .nodes = p->g->nodes + x->first, .n_nodes = x->n_nodes };
        if (!(x->exec = b->ops->compile(b, &x->view, err)))
            return err && err->code ? (int)err->code : LM_ENOMEM;
    }
    return make_stage(s, p, err);
}

struct lm_plan *lm_sched_plan(struct lm_sched *s, struct lm_graph *g, bool measure, bool *moved,
                              struct lm_err *err)
{
    struct lm_plan *p = calloc(1, sizeof *p);
    int r = p ? LM_OK : lm_fail_nomem(err);
    *moved = false;
    if (!r) {
        p->g = g;
        r = arrange(s, p, err);
    }
    if (!r && !measure && !(r = lm_sched_reserve(s, g->planned, moved, err)) &&
        !(r = compile(s, p, err)))
        r = make_events(s, p, err);
    if (!r)
        return p;
    lm_sched_release(s, p);
    return NULL;
}

void lm_sched_release(struct lm_sched *s, struct lm_plan *p)
{
    if (!p)
        return;
    (void)lm_sched_wait(s, NULL);
    for (size_t i = 0; i < p->n_pieces; i++) {
        struct lm_backend *b = s->backend[p->pieces[i].backend];
        if (p->pieces[i].exec)
            b->ops->release(b, p->pieces[i].exec);
    }
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < LM_SCHED_COPIES; k++)
            if (p->events[k][i])
                s->backend[i]->ops->event_free(s->backend[i], p->events[k][i]);
    if (p->turns)
        p->turns->ops->free(p->turns);
    free(p->pieces);
    free(p->copies);
    free(p->outputs);
    free(p->inputs);
    free(p);
}

/* --- running it -------------------------------------------------------------------------- */

/* Wait here until backend i has reached an event of its own. */
static int reach(struct lm_sched *s, size_t i, struct lm_event *e, struct lm_err *err)
{
    struct lm_backend *b = s->backend[i];
    if (!e)
        return b->ops->synchronize(b, err);
    b->ops->event_reach(b, e);
    return LM_OK;
}

int lm_sched_begin(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    if (!p->turns)
        return LM_OK;
    p->turn = (p->turn + 1) % LM_SCHED_COPIES;
    for (size_t i = 0; i < s->cpu; i++) {
        int r = reach(s, i, p->events[p->turn][i], err);
        if (r)
            return r;
    }
    char *base = (char *)p->turns->ops->base(p->turns) + p->turn * p->turn_size;
    for (size_t i = 0; i < p->n_inputs; i++) {
        struct lm_tensor *t = p->inputs[i];
        t->data = t->root ? (char *)t->root->data + t->view_offset : base + t->offset;
    }
    return LM_OK;
}

void lm_sched_output(struct lm_plan *p, struct lm_tensor *t, void *dst)
{
    for (size_t i = 0; i < p->n_outputs; i++)
        if (p->outputs[i].t == t) {
            p->outputs[i].dst = dst;
            if (p->outputs[i].direct)
                t->data = dst;
        }
}

static int put(struct lm_sched *s, size_t backend, struct lm_tensor *dst, size_t offset,
               const void *src, size_t n, struct lm_err *err)
{
    struct lm_backend *b = s->backend[backend];
    if (b->ops->write)
        return b->ops->write(b, dst, offset, src, n, err);
    return dst->buffer->ops->write(dst->buffer, (char *)dst->data + offset, src, n, err);
}

static int get(struct lm_sched *s, size_t backend, const struct lm_tensor *src, size_t offset,
               void *dst, size_t n, struct lm_err *err)
{
    struct lm_backend *b = s->backend[backend];
    if (b->ops->read)
        return b->ops->read(b, src, offset, dst, n, err);
    return lm_tensor_read(src, offset, dst, n, err);
}

/* Runs of neighbouring experts that are used, each copied at once. */
static int copy_experts(struct lm_sched *s, struct lm_piece *x, struct lm_copy_in *c,
                        struct lm_err *err)
{
    const struct lm_tensor *ids = c->ids;
    size_t n = lm_tensor_len(ids), n_experts = c->from->ne[2], size = c->from->nb[2];
    int32_t *id = malloc(n * sizeof *id + n_experts);
    if (!id)
        return lm_fail_nomem(err);
    char *used = (char *)(id + n);
    memset(used, 0, n_experts);
    int r = get(s, ids->place, ids, 0, id, n * sizeof *id, err);
    if (!r)
        r = s->backend[ids->place]->ops->synchronize(s->backend[ids->place], err);
    for (size_t i = 0; i < n && !r; i++)
        if (id[i] >= 0 && (size_t)id[i] < n_experts)
            used[id[i]] = 1;
    for (size_t i = 0, k; i < n_experts && !r; i = k) {
        for (k = i; k < n_experts && used[k] == used[i]; k++)
            ;
        if (!used[i])
            continue;
        r = put(s, x->backend, c->to, i * size, (const char *)c->from->data + i * size,
                (k - i) * size, err);
        s->experts_copied += (k - i) * size;
    }
    s->experts_whole += n_experts * size;
    free(id);
    return r;
}

/* Between two devices: by themselves if they can, else through the host. */
static int copy_across(struct lm_sched *s, size_t from, size_t to, struct lm_copy_in *c,
                       struct lm_err *err)
{
    struct lm_backend *a = s->backend[from], *b = s->backend[to];
    size_t n = lm_tensor_bytes(c->from);
    int r;
    if (a->ops->copy && s->event[from] && s->event[to]) {
        b->ops->event_record(b, s->event[to]);         /* whoever read the place before */
        if (a->ops->event_wait(a, b, s->event[to]) && a->ops->copy(a, c->from, b, c->to)) {
            a->ops->event_record(a, s->event[from]);
            if (b->ops->event_wait(b, a, s->event[from]))
                return LM_OK;
            return a->ops->synchronize(a, err);
        }
    }
    void *stage = s->stage->ops->base(s->stage);
    if ((r = get(s, from, c->from, 0, stage, n, err)) || (r = a->ops->synchronize(a, err)) ||
        (r = put(s, to, c->to, 0, stage, n, err)))
        return r;
    return b->ops->synchronize(b, err);
}

static int copy_in(struct lm_sched *s, struct lm_piece *x,
                   struct lm_copy_in *c, struct lm_err *err)
{
    size_t n = lm_tensor_bytes(c->from), from = c->from->place;
    if (n == 0)
        return LM_OK;
    if (c->ids)
        return copy_experts(s, x, c, err);
    if (x->backend == s->cpu)
        return get(s, from, c->from, 0, c->to->data, n, err);
    if (from != s->cpu)
        return copy_across(s, from, x->backend, c, err);
    if (c->from->op != LM_OP_NONE)               /* weights stay, inputs have turns */
        s->reading[x->backend] = true;
    return put(s, x->backend, c->to, 0, c->from->data, n, err);
}

/* The CPU may write again what devices were to read. */
static int let_read(struct lm_sched *s, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < s->cpu && !r; i++)
        if (s->reading[i]) {
            r = reach(s, i, s->event[i], err);
            s->reading[i] = false;
        }
    return r;
}

static int bring(struct lm_sched *s, struct lm_plan *p, struct lm_piece *x, struct lm_err *err)
{
    bool behind[LM_MAX_PLACES] = { false };
    int r = x->backend == s->cpu ? let_read(s, err) : LM_OK;
    for (size_t i = 0; i < x->n_copies && !r; i++) {
        struct lm_copy_in *c = &p->copies[x->first_copy + i];
        behind[c->from->place] = true;
        r = copy_in(s, x, c, err);
    }
    for (size_t i = 0; i < s->cpu && x->backend == s->cpu && !r; i++)
        if (behind[i])
            r = s->backend[i]->ops->synchronize(s->backend[i], err);
    if (!r && x->backend != s->cpu && s->reading[x->backend] && s->event[x->backend])
        s->backend[x->backend]->ops->event_record(s->backend[x->backend], s->event[x->backend]);
    return r;
}

static int fetch_outputs(struct lm_sched *s, struct lm_plan *p, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < p->n_outputs && !r; i++) {
        const struct lm_output *o = &p->outputs[i];
        if (!o->direct)
            r = get(s, o->t->place, o->t, 0, o->dst, lm_tensor_bytes(o->t), err);
    }
    return r;
}

int lm_sched_run(struct lm_sched *s, struct lm_plan *p,
                 void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
                 struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < p->n_pieces && !r; i++) {
        struct lm_piece *x = &p->pieces[i];
        struct lm_backend *b = s->backend[x->backend];
        if (!(r = bring(s, p, x, err)))
            r = b->ops->run(b, x->exec, seen, arg, err);
    }
    if (!r)
        r = fetch_outputs(s, p, err);
    if (r) {
        (void)lm_sched_wait(s, NULL);
        return r;
    }
    for (size_t i = 0; i < s->cpu && p->turns; i++)
        if (p->events[p->turn][i])
            s->backend[i]->ops->event_record(s->backend[i], p->events[p->turn][i]);
    return LM_OK;
}

size_t lm_plan_pieces(const struct lm_plan *p)
{
    return p->n_pieces;
}

size_t lm_plan_piece(const struct lm_plan *p, size_t i, size_t *first, size_t *n_nodes,
                     size_t *n_copies)
{
    const struct lm_piece *x = &p->pieces[i];
    *first = x->first;
    *n_nodes = x->n_nodes;
    *n_copies = x->n_copies;
    return x->backend;
}

void lm_sched_experts(const struct lm_sched *s, uint64_t *copied, uint64_t *whole)
{
    *copied = s->experts_copied;
    *whole = s->experts_whole;
}
