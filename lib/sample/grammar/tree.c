/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

#define TOP         0x10FFFF
#define SURROGATE   0xD800
#define SURROGATE_N 0xDFFF

struct lm_node *lm_node_new(struct lm_tree *t, enum lm_node_kind kind)
{
    struct lm_node *node = lm_arena_alloc(&t->arena, sizeof *node);
    if (node)
        *node = (struct lm_node){ .kind = kind };
    return node;
}

/* Room for one more element of size bytes behind n; the arena forgets the old array. */
static void *grown(struct lm_tree *t, void *old, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return old;
    const uint32_t more = *cap ? 2 * *cap : 2;
    void *p = n < UINT32_MAX / 2 ? lm_arena_array(&t->arena, more, size) : NULL;
    if (p && n)
        memcpy(p, old, n * size);
    if (p)
        *cap = more;
    return p;
}

bool lm_node_add(struct lm_tree *t, struct lm_node *to, struct lm_node *node)
{
    struct lm_node **list = node ? grown(t, to->nodes, to->n, &to->cap, sizeof *list) : NULL;
    if (!list)
        return false;
    to->nodes = list;
    to->nodes[to->n++] = node;
    return true;
}

bool lm_node_add_range(struct lm_tree *t, struct lm_node *set, uint32_t lo, uint32_t hi)
{
    struct lm_range *list = grown(t, set->ranges, set->n, &set->cap, sizeof *list);
    if (!list)
        return false;
    set->ranges = list;
    set->ranges[set->n++] = (struct lm_range){ lo, hi };
    return true;
}

struct lm_node *lm_node_literal(struct lm_tree *t, const char *text, size_t n)
{
    struct lm_node *node = lm_node_new(t, LM_NODE_LITERAL);
    if (node) {
        node->text = text;
        node->n = (uint32_t)n;
    }
    return node;
}

struct lm_node *lm_node_graph(struct lm_tree *t, uint32_t n_states)
{
    struct lm_node *node = lm_node_new(t, LM_NODE_GRAPH);
    struct lm_graph *g = lm_arena_alloc(&t->arena, sizeof *g);
    bool *final = lm_arena_array(&t->arena, n_states, sizeof *final);
    if (!node || !g || !final)
        return NULL;
    *g = (struct lm_graph){ .n_states = n_states, .final = final };
    node->graph = g;
    return node;
}

bool lm_node_add_edge(struct lm_tree *t, struct lm_node *graph, uint32_t from, uint32_t to,
                      struct lm_node *label)
{
    struct lm_graph *g = graph->graph;
    struct lm_graph_edge *edges = grown(t, g->edges, g->n, &g->cap, sizeof *edges);
    if (!edges)
        return false;
    g->edges = edges;
    g->edges[g->n++] = (struct lm_graph_edge){ from, to, label };
    return true;
}

static int by_lo(const void *a, const void *b)
{
    const struct lm_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

static void merge(struct lm_node *set)
{
    uint32_t m = 0;
    if (set->n > 1)
        qsort(set->ranges, set->n, sizeof *set->ranges, by_lo);
    for (size_t i = 0; i < set->n; i++) {
        const struct lm_range r = set->ranges[i];
        if (m && r.lo <= set->ranges[m - 1].hi + 1)
            set->ranges[m - 1].hi = r.hi > set->ranges[m - 1].hi ? r.hi : set->ranges[m - 1].hi;
        else
            set->ranges[m++] = r;
    }
    set->n = m;
}

/* Add lo..hi without surrogates. */
static bool add_scalars(struct lm_tree *t, struct lm_node *set, uint32_t lo, uint32_t hi)
{
    if (lo < SURROGATE && hi >= SURROGATE &&
        !lm_node_add_range(t, set, lo, SURROGATE - 1))
        return false;
    if (lo < SURROGATE && hi < SURROGATE)
        return lm_node_add_range(t, set, lo, hi);
    lo = lo > SURROGATE_N ? lo : SURROGATE_N + 1;
    return hi < lo || lm_node_add_range(t, set, lo, hi);
}

bool lm_node_finish_set(struct lm_tree *t, struct lm_node *set)
{
    struct lm_node done = { .kind = LM_NODE_SET };
    uint32_t from = 0;
    merge(set);
    for (size_t i = 0; i < set->n; i++) {
        const struct lm_range r = set->ranges[i];
        if (!set->negated && !add_scalars(t, &done, r.lo, r.hi))
            return false;
        if (set->negated && r.lo > from && !add_scalars(t, &done, from, r.lo - 1))
            return false;
        from = r.hi + 1;
    }
    if (set->negated && from <= TOP && !add_scalars(t, &done, from, TOP))
        return false;
    *set = done;
    return true;
}

int lm_tree_add_rule(struct lm_tree *t, const char *name, struct lm_node *node,
                     struct lm_err *err)
{
    if (!lm_grow(&t->rules, &t->cap, t->n + 1, sizeof *t->rules))
        return lm_fail_nomem(err);
    t->rules[t->n++] = (struct lm_rule){ .name = name, .node = node };
    return LM_OK;
}

void lm_tree_release(struct lm_tree *t)
{
    lm_arena_release(&t->arena);
    free(t->rules);
    *t = (struct lm_tree){ 0 };
}
