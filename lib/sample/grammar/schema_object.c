/* SPDX-License-Identifier: MIT */
/*
 * Objects: declared names in the order of the text, then names that fit patterns or none, split
 * into classes by which patterns they fit.
 */
#include <string.h>

#include "sample/grammar/schema_parts.h"

#define MANY_COUNTS 100000           /* states of declared names and numbers of members   */

struct member {
    struct lm_name name;
    struct lm_conj value;
    bool           required, absent;
};

/* A member by its name, in lm_schema.declared. */
struct declared {
    const void *key;                     /* of the object                                 */
    size_t      number;
};

struct object {
    struct lm_schema    *s;
    const void          *key;            /* what its members are found by                 */
    const struct lm_way *way;
    size_t               n, cap;
    struct member       *members;        /* [n]                                           */
    const struct lm_jval *patterns[LM_SCHEMA_CLASSES];
    size_t               n_patterns;
    struct lm_conj       names;          /* what every name must satisfy                  */
    bool                 closed;         /* no others                                     */
    size_t               n_values;       /* demands on values                             */
    const struct lm_atom **values;
    uint64_t             min, max;       /* members                                       */
    uint64_t             n_others;       /* names of other_member, at most                */
    bool                 endless;        /* see LM_NODE_KEY                               */
    const struct lm_atom *at_min, *undeclared;
    const struct lm_jval *at;            /* for messages                                  */
};

/* ---- names ---- */

/* The number of the member with that name, or x->n. */
static size_t find_member(const struct object *x, struct lm_name name)
{
    const struct declared *d;
    if (!x->key)
        return x->n;
    const uint64_t hash = lm_lookup_hash(x->key, name);
    for (size_t at = SIZE_MAX; (d = lm_lookup_next(&x->s->declared, hash, &at)) != NULL;)
        if (d->key == x->key && lm_same_name(x->members[d->number].name, name))
            return d->number;
    return x->n;
}

/* The member with that name, which is new if there was none; NULL after a failure. */
static struct member *declare(struct object *x, struct lm_name name)
{
    const size_t found = find_member(x, name);
    if (found < x->n || !lm_schema_spend(x->s, 1, x->at))
        return found < x->n ? &x->members[found] : NULL;
    struct declared *d = lm_arena_alloc(x->s->arena, sizeof *d);
    struct member *list = x->members;
    if (x->n == x->cap) {
        x->cap = 2 * x->cap + 8;
        list = lm_arena_array(x->s->arena, x->cap, sizeof *list);
        if (list && x->n)
            memcpy(list, x->members, x->n * sizeof *list);
    }
    if (!x->key)
        x->key = d;
    if (!d || !list || !lm_lookup_add(&x->s->declared, lm_lookup_hash(x->key, name), d)) {
        lm_schema_nomem(x->s);
        return NULL;
    }
    *d = (struct declared){ x->key, x->n };
    x->members = list;
    x->members[x->n] = (struct member){ .name = name };
    return &x->members[x->n++];
}

static void declare_all(struct object *x)
{
    for (size_t i = 0; i < x->way->n; i++) {
        const struct lm_atom *a = &x->way->atoms[i];
        const struct lm_jval *p = a->kind == LM_ATOM_PROPERTIES ?
                                  lm_jval_get(a->schema, "properties") : NULL;
        for (p = p ? p->first : NULL; p; p = p->next)
            declare(x, lm_key_of(p));
    }
    for (size_t i = 0; i < x->way->n && x->s->failed == LM_OK; i++) {
        const struct lm_atom *a = &x->way->atoms[i];
        if (a->kind != LM_ATOM_REQUIRED && a->kind != LM_ATOM_ABSENT && a->kind != LM_ATOM_MEMBER)
            continue;
        struct member *m = declare(x, a->name);
        if (m) {
            m->required |= a->kind == LM_ATOM_REQUIRED;
            m->absent |= a->kind == LM_ATOM_ABSENT;
        }
    }
}

/* Note the patterns of names; they are one where their text is. */
static void add_patterns(struct object *x, const struct lm_jval *list)
{
    for (const struct lm_jval *p = list ? list->first : NULL; p; p = p->next) {
        size_t i = 0;
        while (i < x->n_patterns && !lm_same_name(lm_key_of(x->patterns[i]), lm_key_of(p)))
            i++;
        if (i == LM_SCHEMA_CLASSES)
            lm_schema_fail(x->s, p, "more than %d patterns of names in one object",
                           LM_SCHEMA_CLASSES);
        else if (i == x->n_patterns)
            x->patterns[x->n_patterns++] = p;
        if (x->s->failed < 0)
            return;
    }
}

/* Which patterns a name fits, a bit each. */
static unsigned fits(struct object *x, struct lm_name name)
{
    unsigned bits = 0;
    for (size_t i = 0; i < x->n_patterns && x->s->failed == LM_OK; i++) {
        struct lm_matcher *m = lm_pattern_matcher(x->s, x->patterns[i]);
        if (m && lm_matches(x->s, m, name.p, name.len) == 1)
            bits |= 1u << i;
    }
    return bits;
}

/* The number of a pattern. */
static unsigned bit_of(const struct object *x, const struct lm_jval *pattern)
{
    for (size_t i = 0; i < x->n_patterns; i++)
        if (lm_same_name(lm_key_of(x->patterns[i]), lm_key_of(pattern)))
            return 1u << i;
    return 0;
}

/* Does a schema's properties or patternProperties say something about a name (NULL: one that is
 * not declared) that fits these patterns? */
static bool declares(const struct object *x, const struct lm_jval *schema,
                     const struct lm_name *name, unsigned fit)
{
    const struct lm_jval *p = lm_jval_get(schema, "patternProperties");
    if (name && lm_schema_member(x->s, lm_jval_get(schema, "properties"), *name))
        return true;
    for (p = p ? p->first : NULL; p; p = p->next)
        if (fit & bit_of(x, p))
            return true;
    return false;
}

/* Do the demands from first to n? */
static bool is_evaluated(const struct object *x, const struct lm_atom *by,
                         const struct lm_name *name, unsigned fit)
{
    for (size_t i = by->first; i < by->n && i < x->way->n; i++) {
        const struct lm_atom *a = &x->way->atoms[i];
        if (a->kind == LM_ATOM_OTHER_NAMES)
            return true;
        if (a->kind == LM_ATOM_PROPERTIES && !a->negated &&
            (declares(x, a->schema, name, fit) || lm_jval_get(a->schema, "additionalProperties")))
            return true;
    }
    return false;
}

/* What the value of a name must satisfy. */
static struct lm_conj value_of(struct object *x, const struct lm_name *name, unsigned fit)
{
    struct lm_schema *s = x->s;
    struct lm_conj c = { 0 };
    for (size_t i = 0; i < x->n_values && lm_schema_spend(s, 1, x->at); i++) {
        const struct lm_atom *a = x->values[i];
        if (a->kind == LM_ATOM_MEMBER && name && lm_same_name(*name, a->name)) {
            lm_conj_add(s, &c, a->literal);
        } else if (a->kind == LM_ATOM_OTHER_NAMES && !is_evaluated(x, a, name, fit)) {
            lm_conj_add(s, &c, (struct lm_literal){ a->value, false });
        } else if (a->kind == LM_ATOM_PROPERTIES) {
            const struct lm_jval *p = lm_jval_get(a->schema, "properties");
            const struct lm_jval *others = lm_jval_get(a->schema, "additionalProperties");
            p = name ? lm_schema_member(s, p, *name) : NULL;
            if (p)
                lm_conj_add(s, &c, (struct lm_literal){ p, false });
            p = lm_jval_get(a->schema, "patternProperties");
            for (p = p ? p->first : NULL; p; p = p->next)
                if (fit & bit_of(x, p))
                    lm_conj_add(s, &c, (struct lm_literal){ p, false });
            if (others && !declares(x, a->schema, name, fit))
                lm_conj_add(s, &c, (struct lm_literal){ others, false });
        }
    }
    return c;
}

static void note_demand(struct object *x, const struct lm_atom *a, bool *declared, bool *open)
{
    if (!(a->types & LM_TYPE_OBJECT))
        return;
    if (a->kind == LM_ATOM_PROPERTIES || a->kind == LM_ATOM_OTHER_NAMES ||
        a->kind == LM_ATOM_MEMBER)
        x->values[x->n_values++] = a;
    x->at = a->at;
    if (a->kind == LM_ATOM_PROPERTIES) {
        *declared |= lm_jval_get(a->schema, "properties") != NULL;
        *open |= lm_jval_get(a->schema, "patternProperties") ||
                 lm_jval_get(a->schema, "additionalProperties");
        add_patterns(x, lm_jval_get(a->schema, "patternProperties"));
    } else if (a->kind == LM_ATOM_OTHER_NAMES) {
        *open = true;
    } else if (a->kind == LM_ATOM_NAMES) {
        lm_conj_add(x->s, &x->names, a->literal);
    } else if (a->kind == LM_ATOM_UNDECLARED) {
        x->undeclared = a;
        add_patterns(x, lm_jval_get(a->schema, "patternProperties"));
    } else if (a->kind == LM_ATOM_MIN_MEMBERS && a->n > x->min) {
        x->min = a->n;
        x->at_min = a;
    } else if (a->kind == LM_ATOM_MAX_MEMBERS && a->n < x->max) {
        x->max = a->n;
    }
}

/* Must no member satisfy this? */
static bool has_false(const struct lm_conj *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].schema->kind == LM_JSON_FALSE && !c->list[i].negated)
            return true;
    return false;
}

/* All about the objects of a way; false after a failure. */
static bool object_of(struct lm_schema *s, const struct lm_way *w, struct object *x)
{
    bool declared = false, open = s->options->open;
    *x = (struct object){ .s = s, .way = w, .max = UINT64_MAX };
    x->values = lm_arena_array(s->arena, w->n + 1, sizeof *x->values);
    if (!x->values)
        lm_schema_nomem(s);
    for (size_t i = 0; i < w->n && s->failed == LM_OK; i++)
        note_demand(x, &w->atoms[i], &declared, &open);
    x->closed = declared && !open;
    declare_all(x);
    for (size_t i = 0; i < x->n && s->failed == LM_OK; i++) {
        struct member *m = &x->members[i];
        m->value = value_of(x, &m->name, fits(x, m->name));
        if (x->names.n && !m->absent)
            m->absent = lm_schema_valid_name(s, m->name, &x->names) == 0;
        m->absent |= has_false(&m->value);
    }
    return s->failed == LM_OK;
}

/* ---- other names ---- */

static struct lm_node *member_node(struct lm_schema *s, struct lm_node *key, struct lm_node *value)
{
    if (s->failed < 0)
        return NULL;
    return lm_schema_sequence(s, key, lm_schema_gap(s, false), lm_schema_text(s, ":"),
                              lm_schema_gap(s, true), value, NULL);
}

/* Names that are values of an enum. */
static struct lm_node *listed_names(struct object *x, const struct lm_way *w, unsigned fit)
{
    struct lm_schema *s = x->s;
    struct lm_node *choice = lm_schema_nothing(s);
    const struct lm_jval *v = w->one_value ? w->values : w->values->first;
    for (; v && s->failed == LM_OK; v = w->one_value ? NULL : v->next) {
        const struct lm_name name = { v->str, v->len };
        if (v->kind == LM_JSON_STRING && find_member(x, name) == x->n && fits(x, name) == fit &&
            lm_schema_valid(s, v, &x->names) == 1) {
            lm_schema_add(s, choice, lm_string_literal(s, name));
            x->n_others++;
            x->endless = false;
        }
    }
    return choice;
}

/* Names that are not declared and fit exactly these patterns. */
static struct lm_node *other_names(struct object *x, unsigned fit)
{
    struct lm_schema *s = x->s;
    struct lm_ways ways;
    struct lm_node *choice = lm_schema_nothing(s);
    if (!lm_schema_ways(s, &x->names, &ways))
        return NULL;
    for (size_t i = 0; i < ways.n && s->failed == LM_OK; i++) {
        const struct lm_way *w = &ways.list[i];
        struct lm_string str = { .at = x->at, .max = UINT64_MAX };
        if (w->values) {
            lm_schema_add(s, choice, listed_names(x, w, fit));
            continue;
        }
        if (!(w->types & LM_TYPE_STRING))
            continue;
        for (size_t k = 0; k < w->n; k++)
            if (w->atoms[k].kind == LM_ATOM_CANNOT && w->atoms[k].types & LM_TYPE_STRING)
                lm_schema_fail(s, w->atoms[k].at, "%s", w->atoms[k].why);
        lm_string_of(s, w, &str);
        for (size_t k = 0; k < x->n_patterns; k++)
            lm_string_add_part(s, &str, x->patterns[k], !(fit >> k & 1));
        for (size_t k = 0; k < x->n; k++)
            lm_string_add_not(s, &str, x->members[k].name);
        uint64_t n = 0;
        struct lm_node *names = lm_string_node(s, &str, &n);
        x->endless &= n == LM_ENDLESS || n == 0;
        x->n_others += n < LM_MANY ? n : LM_MANY;
        if (names && !lm_schema_is_nothing(names))
            lm_schema_add(s, choice, names);
    }
    return choice;
}

/* Can only declared names be there? */
static bool is_closed(struct object *x)
{
    bool closed = true;
    for (unsigned fit = 0; !x->closed && closed && fit < 1u << x->n_patterns; fit++) {
        const struct lm_conj value = value_of(x, NULL, fit);
        closed = has_false(&value);
    }
    return closed;
}

/* A member that is not declared; a choice of nothing when there are none.  key: its name is to
 * differ from others. */
static struct lm_node *other_member(struct object *x, bool key)
{
    struct lm_schema *s = x->s;
    struct lm_node *choice = lm_schema_nothing(s);
    x->n_others = 0;
    x->endless = true;
    for (unsigned fit = 0; !x->closed && fit < 1u << x->n_patterns && s->failed == LM_OK; fit++) {
        const struct lm_conj value = value_of(x, NULL, fit);
        struct lm_node *names = has_false(&value) ? NULL : other_names(x, fit);
        if (names && !lm_schema_is_nothing(names) && s->failed == LM_OK)
            lm_schema_add(s, choice, member_node(s, key ? lm_schema_key(s, names, x->endless)
                                                     : names, lm_value_node(s, &value)));
    }
    return s->failed < 0 ? NULL : key ? choice : lm_schema_rule(s, choice);
}

/* ---- the graph ---- */

struct layout {
    struct lm_node *graph;
    uint32_t        row;                 /* numbers of members that are told apart        */
    uint32_t        rest, end;           /* states behind those of the declared names     */
};

static uint32_t state(const struct layout *l, size_t i, uint32_t count)
{
    return (uint32_t)i * l->row + count;
}

static void add_end(struct object *x, struct layout *l, uint32_t from, bool none)
{
    struct lm_schema *s = x->s;
    struct lm_node *close = lm_schema_text(s, "}");
    if (!none)
        close = lm_schema_sequence(s, lm_schema_gap(s, false), close, NULL);
    lm_schema_edge(s, l->graph, from, l->end, close);
}

/* The edges of declared name number i. */
static void add_member(struct object *x, struct layout *l, size_t i)
{
    struct lm_schema *s = x->s;
    const struct member *m = &x->members[i];
    struct lm_node *node = NULL;
    if (!m->absent)
        node = member_node(s, lm_string_literal(s, m->name), lm_value_node(s, &m->value));
    if (node && l->row > 2)
        node = lm_schema_rule(s, node);
    for (uint32_t count = 0; count < l->row && s->failed == LM_OK; count++) {
        const uint32_t next = count + 1 < l->row ? count + 1 : count;
        if (!m->required)
            lm_schema_edge(s, l->graph, state(l, i, count), state(l, i + 1, count), NULL);
        if (node && (next > count || x->max == UINT64_MAX))
            lm_schema_edge(s, l->graph, state(l, i, count), state(l, i + 1, next),
                           count ? lm_schema_next(s, node) : node);
    }
}

/* At least two other members, whose names differ, behind `count` that are declared. */
static void add_distinct(struct object *x, struct layout *l, uint32_t count)
{
    struct lm_schema *s = x->s;
    const uint64_t min = x->min - count;
    const uint64_t max = x->max == UINT64_MAX ? x->max : x->max - count;
    struct lm_node *first = other_member(x, true), *later = other_member(x, true);
    if (s->failed < 0 || max < min || x->n_others < min)
        return;
    if (min > INT32_MAX)
        lm_schema_fail(s, x->at_min->at, "members count to %d at most", INT32_MAX);
    later = lm_schema_next(s, later);
    struct lm_node *more = lm_schema_repeat(s, count ? later : first, min, max);
    lm_schema_add(s, more, later);
    if (s->failed < 0)
        return;
    more->distinct = true;
    lm_schema_edge(s, l->graph, state(l, x->n, count), l->rest, more);
}

/* What follows the declared names: others, and the end. */
static void add_rest(struct object *x, struct layout *l)
{
    struct lm_schema *s = x->s;
    struct lm_node *other = other_member(x, false);
    if (!other)
        return;
    const bool any = !lm_schema_is_nothing(other);
    for (uint32_t count = 0; count < l->row && s->failed == LM_OK; count++) {
        const uint32_t at = state(l, x->n, count);
        const uint64_t min = x->min > count ? x->min - count : 0;
        const uint64_t max = x->max == UINT64_MAX ? x->max : x->max - count;
        if (min == 0)
            add_end(x, l, at, count == 0);
        if (any && min > 1)
            add_distinct(x, l, count);
        if (!any || min > 1 || max == 0)          /* others may be the same, so count one */
            continue;
        struct lm_node *more = lm_schema_repeat(s, lm_schema_next(s, other), count ? 1 : 0,
                                                max == UINT64_MAX ? max : count ? max : max - 1);
        lm_schema_edge(s, l->graph, at, l->rest,
                       count ? more : lm_schema_sequence(s, other, more, NULL));
    }
    add_end(x, l, l->rest, false);
}

static struct lm_node *object_graph(struct object *x)
{
    struct lm_schema *s = x->s;
    const uint64_t counts = x->max != UINT64_MAX ? x->max < x->n ? x->max : x->n :
                            x->min > x->n + 1 ? x->n + 1 : x->min > 1 ? x->min : 1;
    struct layout l = { .row = (uint32_t)counts + 1 };
    if ((x->n + 1) * (uint64_t)l.row > MANY_COUNTS) {
        lm_schema_fail(s, x->at, "more than %d counts of members cannot be followed", MANY_COUNTS);
        return NULL;
    }
    l.rest = state(&l, x->n + 1, 0);
    l.end = l.rest + 1;
    l.graph = lm_node_graph(&s->tree, l.end + 1);
    if (!l.graph) {
        lm_schema_nomem(s);
        return NULL;
    }
    l.graph->graph->final[l.end] = true;
    for (size_t i = 0; i < x->n && s->failed == LM_OK; i++)
        add_member(x, &l, i);
    add_rest(x, &l);
    return s->failed < 0 ? NULL : lm_schema_sequence(s, lm_schema_text(s, "{"),
                                                     lm_schema_gap(s, false), l.graph, NULL);
}

/* ---- from a way ---- */

/* Is a member such that it makes the demand of x->undeclared? */
static bool may_be_undeclared(struct object *x, const struct member *m)
{
    return !m->absent && !declares(x, x->undeclared->schema, &m->name, fits(x, m->name));
}

/* The way with the demand replaced: that member is there, and not what it should be. */
static struct lm_way with_undeclared(struct object *x, const struct member *m)
{
    const struct lm_atom *u = x->undeclared;
    struct lm_way w = *x->way;
    w.atoms = lm_arena_array(x->s->arena, w.n + 1, sizeof *w.atoms);
    if (!w.atoms) {
        lm_schema_nomem(x->s);
        return w;
    }
    memcpy(w.atoms, x->way->atoms, w.n * sizeof *w.atoms);
    struct lm_atom a = { .kind = LM_ATOM_MEMBER, .types = LM_TYPE_OBJECT, .at = u->at,
                         .name = m->name, .literal = { u->at, true } };
    w.atoms[u - x->way->atoms] = a;
    a.kind = LM_ATOM_REQUIRED;
    w.atoms[w.n++] = a;
    return w;
}

struct lm_node *lm_object_node(struct lm_schema *s, const struct lm_way *w)
{
    struct object x;
    if (!object_of(s, w, &x))
        return NULL;
    if (x.min > x.max)
        return lm_schema_nothing(s);
    if (!x.undeclared)
        return object_graph(&x);
    if (!is_closed(&x)) {
        lm_schema_fail(s, x.undeclared->at, "that this keyword fails cannot be enforced in an "
                       "object with other names");
        return NULL;
    }
    struct lm_node *choice = lm_schema_nothing(s);
    for (size_t i = 0; i < x.n && s->failed == LM_OK; i++) {
        if (!may_be_undeclared(&x, &x.members[i]))
            continue;
        const struct lm_way one = with_undeclared(&x, &x.members[i]);
        if (s->failed == LM_OK && lm_schema_spend(s, one.n, x.at))
            lm_schema_add(s, choice, lm_object_node(s, &one));
    }
    return s->failed == LM_OK ? choice : NULL;
}

bool lm_object_empty(struct lm_schema *s, const struct lm_way *w)
{
    struct object x;
    bool some = false;
    if (!object_of(s, w, &x))
        return false;
    x.closed = false;                             /* by default, not by the standard */
    if (x.min > x.max || (is_closed(&x) && x.min > x.n))
        return true;
    for (size_t i = 0; i < x.n && s->failed == LM_OK; i++) {
        const struct member *m = &x.members[i];
        some |= x.undeclared && may_be_undeclared(&x, m);
        if (m->required && (m->absent || lm_conj_empty(s, &m->value)))
            return true;
    }
    return x.undeclared && !some && is_closed(&x);
}
