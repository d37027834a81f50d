/* SPDX-License-Identifier: MIT */
#include "job/show_plan.h"

#include <string.h>

#include "backend/sched.h"
#include "base/buf.h"
#include "tensor/ops.h"

struct show {
    struct lm_ctx         *ctx;
    const struct lm_graph *g;
    const struct lm_plan  *p;
    struct lm_buf          b;
    size_t                 piece, first, end, n_copies;     /* the one that is shown        */
};

static void add_shape(struct lm_buf *b, const struct lm_tensor *t)
{
    int n = LM_MAX_DIMS;
    while (n > 1 && t->ne[n - 1] == 1)
        n--;
    lm_buf_byte(b, '[');
    for (int i = 0; i < n; i++)
        lm_buf_printf(b, "%s%zu", i ? ", " : "", t->ne[i]);
    lm_buf_byte(b, ']');
}

static bool planned(const struct lm_tensor *t)
{
    const struct lm_tensor *r = t->root ? t->root : t;
    return r->op != LM_OP_NONE || r->flags & LM_TENSOR_INPUT;
}

static void add_place(struct lm_buf *b, const struct lm_tensor *t)
{
    const struct lm_tensor *r = t->root ? t->root : t;
    add_shape(b, t);
    if (!planned(t) || (r->flags & LM_TENSOR_OUTPUT && r->data))
        lm_buf_printf(b, "\t-\t%zu", lm_tensor_bytes(t));
    else
        lm_buf_printf(b, "\t%zu\t%zu", r->offset + t->view_offset, lm_tensor_bytes(t));
}

/* A source: its number among the nodes or inputs; nodes after `before` do not count. */
static void add_source(struct show *s, const struct lm_tensor *t, size_t before)
{
    for (size_t i = before; i-- > 0; )
        if (s->g->nodes[i] == t) {
            lm_buf_printf(&s->b, "%zu", i);
            return;
        }
    for (size_t i = 0; i < s->g->n_leaves; i++)
        if (s->g->leaves[i] == t && t->flags & LM_TENSOR_INPUT) {
            lm_buf_printf(&s->b, "i%zu", i);
            return;
        }
    lm_buf_byte(&s->b, 'w');
}

static const char *weight_name(const struct lm_tensor *t)
{
    for (size_t i = 0; i < LM_MAX_SRC; i++)
        if (t->src[i] && t->src[i]->op == LM_OP_NONE && t->src[i]->name)
            return t->src[i]->name;
    return t->op == LM_OP_COPY && t->name ? t->name : "-";
}

/* Move on to the piece that holds node i, or is copied for by it. */
static void step(struct show *s, size_t i)
{
    while (i >= s->end && s->piece + 1 < lm_plan_pieces(s->p)) {
        size_t n;
        lm_plan_piece(s->p, ++s->piece, &s->first, &n, &s->n_copies);
        s->end = s->first + n;
    }
}

static void node_row(struct show *s, size_t i)
{
    const struct lm_tensor *t = s->g->nodes[i];
    step(s, i);
    lm_buf_printf(&s->b, "%s\t%zu\t%zu\t%s\t%s\t%s\t", i < s->first ? "copy" : "node", i,
                  s->piece, lm_ctx_device(s->ctx, t->place), lm_op_row(t->op)->name,
                  t->type->name);
    add_place(&s->b, t);
    lm_buf_byte(&s->b, '\t');
    for (size_t k = 0, n = 0; k < LM_MAX_SRC; k++)
        if (t->src[k]) {
            lm_buf_str(&s->b, n++ ? "," : "");
            add_source(s, t->src[k], i);
        }
    lm_buf_printf(&s->b, "\t%s\n", weight_name(t));
}

static void start(struct show *s, const struct lm_graph *g, const struct lm_plan *p)
{
    s->g = g;
    s->p = p;
    s->piece = SIZE_MAX;        /* the first is the next */
    s->first = s->end = 0;
    step(s, 0);
}

static void plan_rows(void *arg, const struct lm_graph *g, const struct lm_plan *p)
{
    struct show *s = arg;
    size_t peak = 0;
    const char *device;
    start(s, g, p);
    for (size_t i = 0; i < g->n_leaves; i++) {
        const struct lm_tensor *t = g->leaves[i];
        if (!(t->flags & LM_TENSOR_INPUT))
            continue;
        lm_buf_printf(&s->b, "input\t%zu\t%s\t%s\t", i, lm_ctx_device(s->ctx, t->place),
                      t->type->name);
        add_place(&s->b, t);
        lm_buf_byte(&s->b, '\n');
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        node_row(s, i);
    for (size_t i = 0; (device = lm_ctx_device(s->ctx, i)); i++) {
        lm_buf_printf(&s->b, "buffer\t%s\t%zu\n", device, g->planned[i]);
        peak += g->planned[i];
    }
    lm_buf_printf(&s->b, "peak\t%zu\n", peak);
}

/* Pastel colours; neighbours differ. */
static const char *colour(size_t piece)
{
    static const char *const list[] = { "#dde8cb", "#ffe0b3", "#cfe2f3", "#f4cccc", "#e2d6f0" };
    return list[piece % (sizeof list / sizeof *list)];
}

static void dot_node(struct show *s, size_t i)
{
    const struct lm_tensor *t = s->g->nodes[i];
    step(s, i);
    lm_buf_printf(&s->b, "  n%zu [label=\"%zu %s\\n%s ", i, i, lm_op_row(t->op)->name,
                  t->type->name);
    add_shape(&s->b, t);
    lm_buf_printf(&s->b, "\\n%s", lm_ctx_device(s->ctx, t->place));
    if (t->flags & LM_TENSOR_OUTPUT)
        lm_buf_str(&s->b, " output");
    lm_buf_printf(&s->b, "\", fillcolor=\"%s\"];\n", colour(s->piece));
    for (size_t k = 0; k < LM_MAX_SRC; k++) {
        const struct lm_tensor *a = t->src[k];
        if (!a)
            continue;
        if (a->op == LM_OP_NONE && a->name) {
            lm_buf_printf(&s->b, "  w%zu_%zu [shape=ellipse, label=\"", i, k);
            lm_buf_escape(&s->b, a->name, strlen(a->name));
            lm_buf_printf(&s->b, "\\n%s ", a->type->name);
            add_shape(&s->b, a);
            lm_buf_printf(&s->b, "\"];\n  w%zu_%zu -> n%zu;\n", i, k, i);
            continue;
        }
        lm_buf_str(&s->b, a->op == LM_OP_NONE ? "  " : "  n");
        add_source(s, a, i);
        lm_buf_printf(&s->b, " -> n%zu;\n", i);
    }
}

static void dot_graph(void *arg, const struct lm_graph *g, const struct lm_plan *p)
{
    struct show *s = arg;
    start(s, g, p);
    lm_buf_str(&s->b, "digraph model {\n  node [shape=box, style=filled, fillcolor=white];\n");
    for (size_t i = 0; i < g->n_leaves; i++)
        if (g->leaves[i]->flags & LM_TENSOR_INPUT) {
            lm_buf_printf(&s->b, "  i%zu [shape=ellipse, label=\"input %zu\\n%s ", i, i,
                          g->leaves[i]->type->name);
            add_shape(&s->b, g->leaves[i]);
            lm_buf_str(&s->b, "\"];\n");
        }
    for (size_t i = 0; i < g->n_nodes; i++)
        dot_node(s, i);
    lm_buf_str(&s->b, "}\n");
}

static int show(struct lm_ctx *c, size_t n, size_t n_out, struct lm_out *out,
                void (*fn)(void *, const struct lm_graph *, const struct lm_plan *),
                struct lm_err *err)
{
    struct show s = { .ctx = c };
    int r = lm_ctx_plan(c, n, n_out, fn, &s, err);
    if (!r)
        r = s.b.failed ? lm_fail_nomem(err) : lm_out_write(out, s.b.data, s.b.len, err);
    lm_buf_release(&s.b);
    return r;
}

int lm_show_plan(struct lm_ctx *c, size_t n, size_t n_out, struct lm_out *out,
                 struct lm_err *err)
{
    return show(c, n, n_out, out, plan_rows, err);
}

int lm_show_dot(struct lm_ctx *c, size_t n, size_t n_out, struct lm_out *out,
                struct lm_err *err)
{
    return show(c, n, n_out, out, dot_graph, err);
}
