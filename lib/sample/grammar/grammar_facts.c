/* SPDX-License-Identifier: MIT */
/*
 * What is true of the nodes and rules of a tree: which may be the empty text, which can be
 * completed at all, and whether a rule can begin with itself.
 *
 * Both facts of a node follow from those of the nodes below it: all of them for a sequence, one
 * for a choice.  So each node waits for a number of others, and is true once so many are; who
 * waits for whom is gone through once, whatever the order of the rules (Dowling and Gallier 1984).
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

#define NEVER UINT32_MAX             /* waits in vain                                    */

enum fact { EMPTY, PRODUCTIVE, FACTS };

struct link {
    uint32_t to, from;               /* `to` waits for `from`                            */
};

/* Rules come first, then nodes, and behind a graph its states. */
struct facts {
    struct lm_tree *t;
    uint32_t       *waits[FACTS];    /* [n] for how many more; 0: true                   */
    size_t          n, caps[FACTS];
    struct link    *links;           /* [n_links]                                        */
    size_t          n_links, links_cap;
    struct lm_node **nodes;          /* [n_nodes] that have been met                     */
    size_t          n_nodes, nodes_cap;
    bool            failed;          /* memory is short                                  */
};

/* A new one; its number. */
static uint32_t add(struct facts *f, uint32_t empty, uint32_t productive)
{
    const uint32_t waits[FACTS] = { [EMPTY] = empty, [PRODUCTIVE] = productive };
    for (size_t k = 0; k < FACTS; k++) {
        if (f->failed || f->n >= NEVER - 1 ||
            !lm_grow(&f->waits[k], &f->caps[k], f->n + 1, sizeof *f->waits[k])) {
            f->failed = true;
            return 0;
        }
        f->waits[k][f->n] = waits[k];
    }
    return (uint32_t)f->n++;
}

static void wait_for(struct facts *f, uint32_t to, uint32_t from)
{
    if (f->failed || !lm_grow(&f->links, &f->links_cap, f->n_links + 1, sizeof *f->links))
        f->failed = true;
    else
        f->links[f->n_links++] = (struct link){ to, from };
}

static uint32_t add_node(struct facts *f, struct lm_node *node);

/* A way through a graph: a state is as good as what it leads to. */
static uint32_t add_graph(struct facts *f, struct lm_graph *g)
{
    const uint32_t me = add(f, 1, 1);
    g->first_fact = me + 1;
    for (uint32_t s = 0; s < g->n_states && !f->failed; s++)
        add(f, !g->final[s], !g->final[s]);
    for (size_t i = 0; i < g->n && !f->failed; i++) {
        const struct lm_graph_edge *e = &g->edges[i];
        const uint32_t from = g->first_fact + e->from, to = g->first_fact + e->to;
        if (!e->label) {
            wait_for(f, from, to);
            continue;
        }
        const uint32_t edge = add(f, 2, 2);
        wait_for(f, edge, add_node(f, e->label));
        wait_for(f, edge, to);
        wait_for(f, from, edge);
    }
    wait_for(f, me, g->first_fact);
    return me;
}

/* One that waits for its n nodes, or so many of them. */
static uint32_t add_list(struct facts *f, const struct lm_node *node, uint32_t waits)
{
    const uint32_t me = add(f, waits, waits);
    for (size_t i = 0; i < node->n && !f->failed; i++)
        wait_for(f, me, add_node(f, node->nodes[i]));
    return me;
}

static uint32_t add_kind(struct facts *f, struct lm_node *node)
{
    uint32_t me;
    switch (node->kind) {
    case LM_NODE_SEQUENCE:
        return add_list(f, node, node->n);
    case LM_NODE_CHOICE:
        return add_list(f, node, 1);
    case LM_NODE_KEY:
        return add_list(f, node, node->n);
    case LM_NODE_REPEAT:
        return add_list(f, node, node->min > 0 ? node->n : 0);
    case LM_NODE_RULE:
        me = add(f, 1, 1);
        wait_for(f, me, node->rule);
        return me;
    case LM_NODE_GRAPH:
        return add_graph(f, node->graph);
    case LM_NODE_START:
    case LM_NODE_END:
        return add(f, 0, 0);
    case LM_NODE_LITERAL:
        return add(f, node->n ? NEVER : 0, 0);
    case LM_NODE_SET:
        return add(f, NEVER, node->n ? 0 : NEVER);
    case LM_NODE_TOKEN:
    case LM_NODE_BYTES:
    case LM_NODE_TEXT:
        break;
    }
    return add(f, NEVER, 0);
}

/* The number of a node, which may be met more than once. */
static uint32_t add_node(struct facts *f, struct lm_node *node)
{
    if (node->fact)
        return node->fact;
    const uint32_t me = add_kind(f, node);       /* never 0: rules come first */
    node->fact = me;
    if (f->failed || !lm_grow(&f->nodes, &f->nodes_cap, f->n_nodes + 1, sizeof *f->nodes))
        f->failed = true;
    else
        f->nodes[f->n_nodes++] = node;
    return me;
}

/* Let what is true make true what waits for it. */
static void settle(struct facts *f, enum fact k, const uint32_t *first, const uint32_t *waiting,
                   uint32_t *todo)
{
    uint32_t *waits = f->waits[k];
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (!waits[i])
            todo[n++] = (uint32_t)i;
    while (n) {
        const uint32_t from = todo[--n];
        for (uint32_t i = first[from]; i < first[from + 1]; i++) {
            const uint32_t to = waiting[i];
            if (waits[to] && waits[to] != NEVER && --waits[to] == 0)
                todo[n++] = to;
        }
    }
}

/* Sort the links by what is waited for, and settle both facts. */
static void solve(struct facts *f)
{
    uint32_t *first = calloc(f->n + 1, sizeof *first);
    uint32_t *waiting = lm_malloc_array(f->n_links, sizeof *waiting);
    uint32_t *todo = lm_malloc_array(f->n, sizeof *todo);
    if (!first || !waiting || !todo || f->n_links >= NEVER)
        f->failed = true;
    for (size_t i = 0; !f->failed && i < f->n_links; i++)
        first[f->links[i].from]++;
    for (size_t i = 0, sum = 0; !f->failed && i <= f->n; i++) {
        sum += first[i];
        first[i] = (uint32_t)sum;
    }
    for (size_t i = f->n_links; !f->failed && i-- > 0;)
        waiting[--first[f->links[i].from]] = f->links[i].to;
    for (int k = 0; !f->failed && k < FACTS; k++)
        settle(f, (enum fact)k, first, waiting, todo);
    free(first);
    free(waiting);
    free(todo);
}

/* Note what is true at the nodes, the states of graphs and the rules. */
static void note(struct facts *f)
{
    for (size_t i = 0; i < f->t->n; i++) {
        f->t->rules[i].may_be_empty = !f->waits[EMPTY][i];
        f->t->rules[i].productive = !f->waits[PRODUCTIVE][i];
    }
    for (size_t i = 0; i < f->n_nodes; i++) {
        struct lm_node *node = f->nodes[i];
        struct lm_graph *g = node->kind == LM_NODE_GRAPH ? node->graph : NULL;
        node->may_be_empty = !f->waits[EMPTY][node->fact];
        node->productive = !f->waits[PRODUCTIVE][node->fact];
        if (!g)
            continue;
        g->live = lm_arena_array(&f->t->arena, g->n_states, sizeof *g->live);
        f->failed |= !g->live;
        for (uint32_t s = 0; g->live && s < g->n_states; s++)
            g->live[s] = !f->waits[PRODUCTIVE][g->first_fact + s];
    }
}

static bool find_facts(struct lm_tree *t)
{
    struct facts f = { .t = t };
    for (size_t i = 0; i < t->n; i++)
        add(&f, 1, 1);
    for (uint32_t i = 0; i < t->n && !f.failed; i++)
        wait_for(&f, i, add_node(&f, t->rules[i].node));
    if (!f.failed)
        solve(&f);
    if (!f.failed)
        note(&f);
    free(f.waits[EMPTY]);
    free(f.waits[PRODUCTIVE]);
    free(f.links);
    free(f.nodes);
    return !f.failed;
}

/* ---- left recursion ---- */

/* The rules that a rule's text may begin with, appended to list. */
struct rule_list {
    uint32_t *rules;
    size_t    n, cap;
};

static bool add_rule(struct rule_list *l, uint32_t rule)
{
    if (!lm_grow(&l->rules, &l->cap, l->n + 1, sizeof *l->rules))
        return false;
    l->rules[l->n++] = rule;
    return true;
}

static bool add_beginnings(const struct lm_node *node, struct rule_list *l);

/* Those of the edges that can be reached without text; edges mostly lead forwards. */
static bool add_graph_beginnings(const struct lm_graph *g, struct rule_list *l)
{
    bool *reached = calloc(g->n_states, sizeof *reached), good = reached != NULL;
    if (good)
        reached[0] = true;
    for (bool changed = good; changed;) {
        changed = false;
        for (size_t i = 0; i < g->n; i++) {
            const struct lm_graph_edge *e = &g->edges[i];
            if (reached[e->from] && !reached[e->to] && (!e->label || e->label->may_be_empty))
                changed = reached[e->to] = true;
        }
    }
    for (size_t i = 0; good && i < g->n; i++)
        if (reached[g->edges[i].from] && g->edges[i].label)
            good = add_beginnings(g->edges[i].label, l);
    free(reached);
    return good;
}

static bool add_beginnings(const struct lm_node *node, struct rule_list *l)
{
    switch (node->kind) {
    case LM_NODE_SEQUENCE:
        for (size_t i = 0; i < node->n; i++) {
            if (!add_beginnings(node->nodes[i], l))
                return false;
            if (!node->nodes[i]->may_be_empty)
                return true;
        }
        return true;
    case LM_NODE_CHOICE:
        for (size_t i = 0; i < node->n; i++)
            if (!add_beginnings(node->nodes[i], l))
                return false;
        return true;
    case LM_NODE_REPEAT:
        return node->max == 0 || add_beginnings(node->nodes[0], l);
    case LM_NODE_KEY:
        return add_beginnings(node->nodes[0], l);
    case LM_NODE_RULE:
        return add_rule(l, node->rule);
    case LM_NODE_GRAPH:
        return add_graph_beginnings(node->graph, l);
    default:
        return true;
    }
}

/* Say which way a rule leads back to itself: the path on the stack from `from` on. */
static int fail_recursive(const struct lm_tree *t, const uint32_t *path, size_t n, uint32_t rule,
                          struct lm_err *err)
{
    struct lm_buf b = { 0 };
    size_t from = 0;
    while (path[from] != rule)
        from++;
    for (size_t i = from; i < n && b.len < 300; i++)
        lm_buf_printf(&b, "%.60s -> ", t->rules[path[i]].name);
    lm_buf_printf(&b, "%.60s", t->rules[rule].name);
    int s = lm_fail(err, LM_EUSE, "rule %.60s is left-recursive (%s)", t->rules[rule].name,
                    b.data ? b.data : "");
    lm_buf_release(&b);
    return s;
}

/* A walk along the beginnings of rules, depth first, without recursion. */
struct walk {
    struct rule_list path;           /* the rules being looked into               */
    struct rule_list open;           /* their beginnings that are still to do     */
    struct rule_list marks;          /* where those of each rule of path start    */
    unsigned char   *seen;           /* [n] 1 on the path, 2 done                 */
};

static bool enter(const struct lm_tree *t, struct walk *w, uint32_t rule)
{
    w->seen[rule] = 1;
    return add_rule(&w->path, rule) && add_rule(&w->marks, (uint32_t)w->open.n) &&
           add_beginnings(t->rules[rule].node, &w->open);
}

static int look_into(const struct lm_tree *t, struct walk *w, uint32_t start, struct lm_err *err)
{
    if (!enter(t, w, start))
        return lm_fail_nomem(err);
    while (w->path.n) {
        if (w->open.n == w->marks.rules[w->marks.n - 1]) {
            w->seen[w->path.rules[--w->path.n]] = 2;
            w->marks.n--;
            continue;
        }
        const uint32_t next = w->open.rules[--w->open.n];
        if (w->seen[next] == 1)
            return fail_recursive(t, w->path.rules, w->path.n, next, err);
        if (!w->seen[next] && !enter(t, w, next))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}

static int refuse_left_recursion(const struct lm_tree *t, struct lm_err *err)
{
    struct walk w = { .seen = calloc(t->n, 1) };
    int s = w.seen ? LM_OK : lm_fail_nomem(err);
    for (uint32_t i = 0; s == LM_OK && i < t->n; i++)
        if (!w.seen[i])
            s = look_into(t, &w, i, err);
    free(w.path.rules);
    free(w.open.rules);
    free(w.marks.rules);
    free(w.seen);
    return s;
}

int lm_tree_check(struct lm_tree *t, struct lm_err *err)
{
    for (size_t i = 0; i < t->n; i++)
        if (!t->rules[i].node)
            return lm_fail(err, LM_EUSE, "rule %.60s uses %.60s, which is not defined",
                           t->rules[t->rules[i].used_by].name, t->rules[i].name);
    if (!find_facts(t))
        return lm_fail_nomem(err);
    int s = refuse_left_recursion(t, err);
    if (s == LM_OK && !t->rules[0].productive)
        s = lm_fail(err, LM_EUSE, "%.60s can never be completed", t->rules[0].name);
    return s;
}
