/* SPDX-License-Identifier: MIT */
/* Arrays: positions, the items behind them, counts, contains and uniqueItems. */

#include "sample/grammar/schema_parts.h"

#define FEW 20                       /* values of items that have to differ               */
#define MANY_COUNTS 20000            /* numbers of items and of those that are contained  */

struct array {
    uint64_t              min, max;      /* items; max UINT64_MAX: no limit               */
    uint64_t              n_prefix;      /* positions with schemas of their own           */
    bool                  closed;        /* nothing behind these                          */
    const struct lm_atom *contains, *second, *unique;
    const struct lm_jval *at;            /* for messages                                  */
};

static uint64_t count(const struct lm_jval *list)
{
    return list ? list->len : 0;
}

static struct array array_of(const struct lm_schema *s, const struct lm_way *w)
{
    struct array x = { .max = UINT64_MAX };
    bool prefixed = false, open = s->options->open;
    for (size_t i = 0; i < w->n; i++) {
        const struct lm_atom *a = &w->atoms[i];
        const struct lm_jval *prefix = NULL, *rest = NULL;
        uint64_t n = 0;
        if (!(a->types & LM_TYPE_ARRAY))
            continue;
        x.at = a->at;
        if (a->kind == LM_ATOM_MIN_ITEMS)
            x.min = a->n > x.min ? a->n : x.min;
        else if (a->kind == LM_ATOM_MAX_ITEMS)
            x.max = a->n < x.max ? a->n : x.max;
        else if (a->kind == LM_ATOM_UNIQUE)
            x.unique = a;
        else if (a->kind == LM_ATOM_CONTAINS && (a->n > 0 || a->max != UINT64_MAX))
            *(x.contains ? &x.second : &x.contains) = a;
        else if (a->kind == LM_ATOM_ITEM)
            n = a->n + 1;
        else if (a->kind == LM_ATOM_OTHER_ITEMS)
            open = true;
        if (a->kind == LM_ATOM_ITEMS) {
            lm_schema_items(a->schema, &prefix, &rest);
            n = count(prefix);
            prefixed |= n > 0;
            open |= rest != NULL;
        }
        x.n_prefix = n > x.n_prefix ? n : x.n_prefix;
    }
    x.closed = prefixed && !open;
    return x;
}

/* Do the demands from first to n say something about an item at that position? */
static bool is_evaluated(const struct lm_way *w, const struct lm_atom *by, uint64_t position)
{
    for (size_t i = by->first; i < by->n && i < w->n; i++) {
        const struct lm_atom *a = &w->atoms[i];
        const struct lm_jval *prefix, *rest;
        if (a->kind == LM_ATOM_OTHER_ITEMS)
            return true;
        if (a->kind != LM_ATOM_ITEMS || a->negated)
            continue;
        lm_schema_items(a->schema, &prefix, &rest);
        if (rest || position < count(prefix))
            return true;
    }
    return false;
}

/* All that an item at a position must satisfy. */
static struct lm_conj item_of(struct lm_schema *s, const struct lm_way *w, const struct array *x,
                              uint64_t position)
{
    struct lm_conj c = { 0 };
    for (size_t i = 0; i < w->n && lm_schema_spend(s, 1, x->at); i++) {
        const struct lm_atom *a = &w->atoms[i];
        const struct lm_jval *prefix, *rest;
        if (a->kind == LM_ATOM_ITEM && a->n == position) {
            lm_conj_add(s, &c, a->literal);
        } else if (a->kind == LM_ATOM_ITEMS) {
            lm_schema_items(a->schema, &prefix, &rest);
            prefix = lm_schema_element(s, prefix, position);
            if (prefix || rest)
                lm_conj_add(s, &c, (struct lm_literal){ prefix ? prefix : rest, false });
        } else if (a->kind == LM_ATOM_OTHER_ITEMS && !is_evaluated(w, a, position)) {
            lm_conj_add(s, &c, (struct lm_literal){ a->value, false });
        }
    }
    if (x->closed && position >= x->n_prefix)
        lm_conj_add(s, &c, (struct lm_literal){ &lm_schema_false, false });
    return c;
}

static struct lm_node *item_node(struct lm_schema *s, const struct lm_way *w,
                                 const struct array *x, uint64_t position)
{
    const struct lm_conj c = item_of(s, w, x, position);
    return lm_value_node(s, &c);
}

/* ---- graphs ---- */

static struct lm_node *new_graph(struct lm_schema *s, uint64_t states)
{
    struct lm_node *graph = s->failed == LM_OK ? lm_node_graph(&s->tree, (uint32_t)states) : NULL;
    if (!graph)
        lm_schema_nomem(s);
    return graph;
}

/* The edge of an item: the first one, or one behind a comma. */
static void add_item(struct lm_schema *s, struct lm_node *graph, uint32_t from, uint32_t to,
                     bool first, struct lm_node *item)
{
    if (s->failed == LM_OK)
        lm_schema_edge(s, graph, from, to, first ? item : lm_schema_next(s, item));
}

static void add_end(struct lm_schema *s, struct lm_node *graph, uint32_t from, uint32_t end,
                    bool none)
{
    struct lm_node *close = lm_schema_text(s, "]");
    if (!none)
        close = lm_schema_sequence(s, lm_schema_gap(s, false), close, NULL);
    lm_schema_edge(s, graph, from, end, close);
    if (s->failed == LM_OK)
        graph->graph->final[end] = true;
}

static struct lm_node *opened(struct lm_schema *s, struct lm_node *graph)
{
    return graph ? lm_schema_sequence(s, lm_schema_text(s, "["), lm_schema_gap(s, false), graph,
                                      NULL) : NULL;
}

/* States 0 to k: so many items; k + 1: the rest; k + 2: the end. */
static struct lm_node *plain_array(struct lm_schema *s, const struct lm_way *w,
                                   const struct array *x)
{
    const uint64_t most = x->max < x->n_prefix ? x->max : x->n_prefix, k = most > 1 ? most : 1;
    struct lm_node *graph = new_graph(s, k + 3);
    const uint32_t rest = (uint32_t)k + 1, end = rest + 1;
    for (uint32_t i = 0; i <= k && s->failed == LM_OK; i++) {
        if (i >= x->min && i <= x->max)
            add_end(s, graph, i, end, i == 0);
        if (i < k && i < x->max)
            add_item(s, graph, i, i + 1, i == 0, item_node(s, w, x, i));
    }
    if (x->max <= k || s->failed < 0)
        return opened(s, graph);
    struct lm_node *more = item_node(s, w, x, k < x->n_prefix ? x->n_prefix : k);
    if (s->failed < 0)
        return NULL;
    const uint64_t min = x->min > k ? x->min - k : 1;
    lm_schema_edge(s, graph, (uint32_t)k, rest,
                   lm_schema_repeat(s, lm_schema_next(s, more), min,
                                    x->max == UINT64_MAX ? x->max : x->max - k));
    add_end(s, graph, rest, end, false);
    return opened(s, graph);
}

/* ---- contains ---- */

/* States: items so far and those that are contained, as far as they matter; then the end. */
static struct lm_node *counting_array(struct lm_schema *s, const struct lm_way *w,
                                      const struct array *x)
{
    const struct lm_atom *c = x->contains;
    const bool limited = c->max != UINT64_MAX;
    const uint64_t least = x->min > x->n_prefix ? x->min : x->n_prefix;
    const uint64_t items = x->max != UINT64_MAX ? x->max : least > 1 ? least : 1;
    const uint64_t inside = limited ? c->max : c->n;
    if (x->second)
        lm_schema_fail(s, x->second->at, "a second contains at the same place cannot be enforced");
    else if (items >= MANY_COUNTS || inside >= MANY_COUNTS ||
             (items + 1) * (inside + 1) > MANY_COUNTS)
        lm_schema_fail(s, c->at, "more than %d counts of items cannot be followed", MANY_COUNTS);
    if (s->failed < 0)
        return NULL;
    const uint32_t row = (uint32_t)inside + 1, end = ((uint32_t)items + 1) * row;
    struct lm_node *graph = new_graph(s, (uint64_t)end + 1);
    for (uint32_t i = 0; i <= items && s->failed == LM_OK; i++) {
        const struct lm_conj any = item_of(s, w, x, i);
        struct lm_conj in = { 0 }, out = { 0 };
        for (size_t k = 0; k < any.n; k++) {
            lm_conj_add(s, &in, any.list[k]);
            lm_conj_add(s, &out, any.list[k]);
        }
        lm_conj_add(s, &in, c->literal);
        if (limited)
            lm_conj_add(s, &out, (struct lm_literal){ c->literal.schema, !c->literal.negated });
        const uint32_t next = i < items ? i + 1 : i;
        for (uint32_t k = 0; k < row && s->failed == LM_OK; k++) {
            if (i >= x->min && k >= c->n)
                add_end(s, graph, i * row + k, end, i == 0);
            if (i >= x->max)
                continue;
            add_item(s, graph, i * row + k, next * row + k, i == 0, lm_value_node(s, &out));
            if (k + 1 < row)
                add_item(s, graph, i * row + k, next * row + k + 1, i == 0, lm_value_node(s, &in));
        }
    }
    return opened(s, graph);
}

/* ---- uniqueItems ---- */

/* The values that items may have, and at which positions. */
struct values {
    const struct lm_jval *list[FEW];
    int                   n;
    uint64_t              contained;     /* a bit each: it is one of contains             */
};

/* Those of one position as bits, adding new ones to v; false: they are too many. */
static bool values_at(struct lm_schema *s, const struct lm_conj *c, struct values *v,
                      uint64_t *bits)
{
    const struct lm_jval *own[FEW];
    const int n = lm_few_values(s, c, own, FEW);
    *bits = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < v->n && !lm_jval_same(s, v->list[k], own[i]))
            k++;
        if (k == v->n && v->n == FEW)
            return false;
        if (k == v->n)
            v->list[v->n++] = own[i];
        *bits |= UINT64_C(1) << k;
    }
    return n >= 0;
}

/* Which values contains counts. */
static void find_contained(struct lm_schema *s, const struct array *x, struct values *v)
{
    struct lm_conj c = { 0 };
    if (!x->contains)
        return;
    lm_conj_add(s, &c, x->contains->literal);
    for (int k = 0; k < v->n && s->failed == LM_OK; k++)
        if (lm_schema_valid(s, v->list[k], &c) == 1)
            v->contained |= UINT64_C(1) << k;
}

static bool may_end(const struct array *x, const struct values *v, uint32_t used)
{
    const uint64_t n = (uint64_t)__builtin_popcount(used);
    const uint64_t inside = (uint64_t)__builtin_popcountll(used & v->contained);
    return n >= x->min && n <= x->max &&
           (!x->contains || (inside >= x->contains->n && inside <= x->contains->max));
}

/* Items that are told apart by their text, all alike. */
static struct lm_node *distinct_array(struct lm_schema *s, const struct lm_way *w,
                                      const struct array *x, uint64_t n)
{
    struct lm_node *graph = new_graph(s, 3);
    struct lm_node *item = lm_schema_key(s, item_node(s, w, x, 0), n == LM_ENDLESS);
    struct lm_node *later = lm_schema_next(s, item);
    const uint64_t max = x->max < n || n >= LM_MANY ? x->max : n;
    if (s->failed == LM_OK && x->min == 0)
        add_end(s, graph, 0, 2, true);
    if (s->failed < 0 || max < x->min)
        return s->failed < 0 ? NULL : lm_schema_nothing(s);
    struct lm_node *items = lm_schema_repeat(s, item, x->min > 1 ? x->min : 1, max);
    lm_schema_add(s, items, later);
    if (s->failed < 0)
        return NULL;
    items->distinct = true;
    lm_schema_edge(s, graph, 0, 1, items);
    add_end(s, graph, 1, 2, false);
    return opened(s, graph);
}

/* The values at each position, as bits [FEW + 1] of v; false: they are too many. */
static bool few_values(struct lm_schema *s, const struct lm_way *w, const struct array *x,
                       struct values *v, uint64_t *at)
{
    bool few = true;
    for (uint64_t i = 0; i <= FEW && few; i++) {  /* behind the prefix, all the same */
        const struct lm_conj c = item_of(s, w, x, i);
        if (i > x->n_prefix)
            at[i] = at[i - 1];
        else
            few = values_at(s, &c, v, &at[i]);
    }
    return few && s->failed == LM_OK;
}

/* Items that are not among a few values. */
static struct lm_node *many_unique(struct lm_schema *s, const struct lm_way *w,
                                   const struct array *x)
{
    const struct lm_conj c = item_of(s, w, x, 0);
    uint64_t n;
    if (x->n_prefix == 0 && !x->contains && lm_value_spelt_once(s, &c, &n))
        return distinct_array(s, w, x, n);
    lm_schema_fail(s, x->unique->at, "cannot be enforced unless the items are strings or whole "
                   "numbers, or among at most %d values", FEW);
    return NULL;
}

/* States are sets of values that are there; 0 is the end. */
static struct lm_node *unique_array(struct lm_schema *s, const struct lm_way *w,
                                    const struct array *x)
{
    struct values v = { .n = 0 };
    struct lm_node *nodes[FEW];
    uint64_t at[FEW + 1];
    if (!few_values(s, w, x, &v, at))
        return s->failed < 0 ? NULL : many_unique(s, w, x);
    if (x->second)
        lm_schema_fail(s, x->second->at, "a second contains at the same place cannot be enforced");
    find_contained(s, x, &v);
    for (int k = 0; k < v.n && s->failed == LM_OK; k++)
        nodes[k] = lm_schema_rule(s, lm_literal_node(s, v.list[k]));
    struct lm_met met = { .words = 1 };
    struct lm_node *graph = new_graph(s, LM_SCHEMA_STATES);
    uint32_t used = 0, n = 0;
    bool good = lm_met_add(&met, &used) != LM_MANY;
    for (; good && n < met.n && s->failed == LM_OK; n++) {
        used = met.keys[n];
        const int items = __builtin_popcount(used);
        if (may_end(x, &v, used))
            add_end(s, graph, n, LM_SCHEMA_STATES - 1, items == 0);
        for (int k = 0; good && k < v.n && (uint64_t)items < x->max; k++) {
            const uint32_t with = used | UINT32_C(1) << k;
            if (with == used || !(at[items] >> k & 1))
                continue;
            const uint32_t to = lm_met_add(&met, &with);
            good = to != LM_MANY;
            if (to == LM_SCHEMA_STATES / 10)
                lm_schema_fail(s, x->unique->at, "more than %d sets of items cannot be followed",
                               LM_SCHEMA_STATES / 10);
            add_item(s, graph, n, to, items == 0, nodes[k]);
        }
    }
    lm_met_release(&met);
    if (!good)
        lm_schema_nomem(s);
    if (s->failed < 0)
        return NULL;
    graph->graph->final[n] = true;                /* the states that are there, and the end */
    for (size_t i = 0; i < graph->graph->n; i++)
        if (graph->graph->edges[i].to == LM_SCHEMA_STATES - 1)
            graph->graph->edges[i].to = n;
    graph->graph->n_states = n + 1;
    return opened(s, graph);
}

/* ---- from a way ---- */

struct lm_node *lm_array_node(struct lm_schema *s, const struct lm_way *w)
{
    const struct array x = array_of(s, w);
    if (x.min > x.max)
        return lm_schema_nothing(s);
    if (x.min > INT32_MAX)
        lm_schema_fail(s, x.at, "items count to %d at most", INT32_MAX);
    if (x.n_prefix > MANY_COUNTS)
        lm_schema_fail(s, x.at, "more than %d positions cannot be followed", MANY_COUNTS);
    if (s->failed < 0)
        return NULL;
    if (x.unique && x.max > 1)
        return unique_array(s, w, &x);
    return x.contains ? counting_array(s, w, &x) : plain_array(s, w, &x);
}

bool lm_array_empty(struct lm_schema *s, const struct lm_way *w)
{
    struct array x = array_of(s, w);
    x.closed = false;                             /* by default, not by the standard */
    const uint64_t last = x.min < x.n_prefix + 1 ? x.min : x.n_prefix + 1;
    if (x.min > x.max)
        return true;
    for (uint64_t i = 0; i < last && s->failed == LM_OK; i++) {
        const struct lm_conj c = item_of(s, w, &x, i);
        if (lm_conj_empty(s, &c))
            return true;
    }
    return false;
}
