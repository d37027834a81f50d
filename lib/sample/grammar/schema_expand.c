/* SPDX-License-Identifier: MIT */
/*
 * What must hold at one place, as a list of ways to satisfy it.
 *
 * A schema's keywords are gone through in the order of the text; each adds a demand to every way
 * that there is so far, or makes several ways of each.  A schema that must not hold is satisfied
 * by breaking any one of its keywords.
 */
#include <string.h>

#include "sample/grammar/schema_parts.h"

/* A schema that is being gone through; up: the one that led here. */
struct frame {
    const struct frame *up;
    struct lm_literal   literal;
};


static void expand(struct lm_schema *s, const struct frame *up, struct lm_literal l,
                   struct lm_ways *ways);

static bool is_going_on(const struct frame *up, struct lm_literal l)
{
    for (; up; up = up->up)
        if (up->literal.schema == l.schema && up->literal.negated == l.negated)
            return true;
    return false;
}

/* ---- lists ---- */

/* An array in the arena with room for one more; the old one stays as it is. */
static void *grown(struct lm_schema *s, const void *old, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return (void *)old;
    const size_t more = n + n / 2 + 4;
    void *p = lm_arena_array(s->arena, more, size);
    if (!p)
        lm_schema_nomem(s);
    else if (n)
        memcpy(p, old, n * size);
    if (p)
        *cap = more;
    return p;
}

bool lm_conj_add(struct lm_schema *s, struct lm_conj *c, struct lm_literal l)
{
    if (l.schema->kind == LM_JSON_TRUE && !l.negated)
        return true;
    for (size_t i = 0; i < c->n; i++)
        if (c->list[i].schema == l.schema && c->list[i].negated == l.negated)
            return true;
    struct lm_literal *list = grown(s, c->list, c->n, &c->cap, sizeof *list);
    if (!list)
        return false;
    c->list = list;
    c->list[c->n++] = l;
    return true;
}

static void add_way(struct lm_schema *s, struct lm_ways *ways, const struct lm_way *w,
                    const struct lm_jval *at)
{
    if (ways->n >= LM_SCHEMA_WAYS) {
        lm_schema_fail(s, at, "more than %d alternatives at one place", LM_SCHEMA_WAYS);
        return;
    }
    struct lm_way *list = grown(s, ways->list, ways->n, &ways->cap, sizeof *list);
    if (!list)
        return;
    ways->list = list;
    ways->list[ways->n] = *w;
    ways->list[ways->n++].cap = w->n;             /* its atoms may be another's too */
}

static struct lm_ways copy_of(struct lm_schema *s, const struct lm_ways *ways)
{
    struct lm_ways copy = { 0 };
    for (size_t i = 0; i < ways->n && s->failed == LM_OK; i++)
        add_way(s, &copy, &ways->list[i], NULL);
    for (size_t i = 0; i < ways->n; i++)
        ways->list[i].cap = ways->list[i].n;
    return copy;
}

static void add_all(struct lm_schema *s, struct lm_ways *to, const struct lm_ways *from,
                    const struct lm_jval *at)
{
    for (size_t i = 0; i < from->n && s->failed == LM_OK; i++)
        add_way(s, to, &from->list[i], at);
}

/* Keep only ways with one of these types. */
static void restrict_types(struct lm_ways *ways, unsigned types)
{
    size_t n = 0;
    for (size_t i = 0; i < ways->n; i++) {
        ways->list[i].types &= types;
        if (ways->list[i].types)
            ways->list[n++] = ways->list[i];
    }
    ways->n = n;
}

/* One more demand in every way that it is about. */
static void demand(struct lm_schema *s, struct lm_ways *ways, struct lm_atom a)
{
    for (size_t i = 0; i < ways->n && s->failed == LM_OK; i++) {
        struct lm_way *w = &ways->list[i];
        if (!(w->types & a.types))
            continue;
        const size_t copied = w->n < w->cap ? 0 : w->n;
        struct lm_atom *atoms = grown(s, w->atoms, w->n, &w->cap, sizeof *atoms);
        if (!atoms || !lm_schema_spend(s, 1 + copied / 16, a.at))
            return;
        w->atoms = atoms;
        w->atoms[w->n++] = a;
    }
}

/* ---- alternatives ---- */

/* Replaces ways by what is collected from branches, each of which starts as a copy. */
struct branches {
    struct lm_schema     *s;
    const struct lm_jval *at;
    const struct lm_ways *from;
    struct lm_ways        out;
};

static struct lm_ways branch(struct branches *b)
{
    return copy_of(b->s, b->from);
}

static void end_branch(struct branches *b, const struct lm_ways *ways)
{
    if (lm_schema_spend(b->s, ways->n, b->at))
        add_all(b->s, &b->out, ways, b->at);
}

static struct lm_name name_of(const struct lm_jval *v)
{
    return (struct lm_name){ v->str, v->len };
}

static struct lm_literal holds(const struct lm_jval *schema)
{
    return (struct lm_literal){ schema, false };
}

static struct lm_literal fails(const struct lm_jval *schema)
{
    return (struct lm_literal){ schema, true };
}

/* Any one of the schemas of a list holds, or fails. */
static void any_of(struct lm_schema *s, const struct frame *up, const struct lm_jval *list,
                   bool negated, struct lm_ways *ways)
{
    struct branches b = { s, list, ways, { 0 } };
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next) {
        struct lm_ways one = branch(&b);
        expand(s, up, (struct lm_literal){ m, negated }, &one);
        end_branch(&b, &one);
    }
    *ways = b.out;
}

static void all_of(struct lm_schema *s, const struct frame *up, const struct lm_jval *list,
                   bool negated, struct lm_ways *ways)
{
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next)
        expand(s, up, (struct lm_literal){ m, negated }, ways);
}

static bool apart(struct lm_schema *s, const struct lm_jval *a, const struct lm_jval *b)
{
    struct lm_conj both = { 0 };
    return lm_conj_add(s, &both, holds(a)) && lm_conj_add(s, &both, holds(b)) &&
           lm_conj_empty(s, &both);
}

/* One holds, and those that can hold with it do not. */
static void one_of(struct lm_schema *s, const struct frame *up, const struct lm_jval *list,
                   struct lm_ways *ways)
{
    struct branches b = { s, list, ways, { 0 } };
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next) {
        struct lm_ways one = branch(&b);
        expand(s, up, holds(m), &one);
        for (const struct lm_jval *k = list->first; k && one.n && s->failed == LM_OK; k = k->next)
            if (k != m && !apart(s, m, k))
                expand(s, up, fails(k), &one);
        end_branch(&b, &one);
    }
    *ways = b.out;
}

/* None holds, or two do. */
static void not_one_of(struct lm_schema *s, const struct frame *up, const struct lm_jval *list,
                       struct lm_ways *ways)
{
    struct branches b = { s, list, ways, { 0 } };
    struct lm_ways none = branch(&b);
    all_of(s, up, list, true, &none);
    end_branch(&b, &none);
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next)
        for (const struct lm_jval *k = m->next; k && s->failed == LM_OK; k = k->next) {
            if (apart(s, m, k))
                continue;
            struct lm_ways two = branch(&b);
            expand(s, up, holds(m), &two);
            expand(s, up, holds(k), &two);
            end_branch(&b, &two);
        }
    *ways = b.out;
}

/* if and then, or not if and else; negated: with then and else failing. */
static void if_then_else(struct lm_schema *s, const struct frame *up, const struct lm_jval *schema,
                         bool negated, struct lm_ways *ways)
{
    const struct lm_jval *condition = lm_jval_get(schema, "if");
    struct branches b = { s, condition, ways, { 0 } };
    if (!negated && !lm_jval_get(schema, "then") && !lm_jval_get(schema, "else"))
        return;                                   /* it constrains nothing */
    for (int other = 0; other < 2 && s->failed == LM_OK; other++) {
        const struct lm_jval *then = lm_jval_get(schema, other ? "else" : "then");
        struct lm_ways one = branch(&b);
        if (!then && negated)
            continue;                             /* nothing there can fail */
        expand(s, up, (struct lm_literal){ condition, other == 1 }, &one);
        if (then)
            expand(s, up, (struct lm_literal){ then, negated }, &one);
        end_branch(&b, &one);
    }
    *ways = b.out;
}

/* ---- objects that depend on a member ---- */

static struct lm_atom about_name(enum lm_atom_kind kind, const struct lm_jval *at,
                                 struct lm_name name)
{
    return (struct lm_atom){ .kind = kind, .types = LM_TYPE_OBJECT, .at = at, .name = name };
}

/* The member is not there (or the value no object), or what depends on it holds. */
static void depend(struct lm_schema *s, const struct frame *up, const struct lm_jval *m,
                   struct lm_ways *ways)
{
    struct branches b = { s, m, ways, { 0 } };
    struct lm_ways there = branch(&b), absent = branch(&b);
    demand(s, &absent, about_name(LM_ATOM_ABSENT, m, lm_key_of(m)));
    end_branch(&b, &absent);
    restrict_types(&there, LM_TYPE_OBJECT);
    demand(s, &there, about_name(LM_ATOM_REQUIRED, m, lm_key_of(m)));
    if (m->kind == LM_JSON_ARRAY) {
        for (const struct lm_jval *name = m->first; name; name = name->next)
            demand(s, &there, about_name(LM_ATOM_REQUIRED, m, name_of(name)));
    } else {
        expand(s, up, holds(m), &there);
    }
    end_branch(&b, &there);
    *ways = b.out;
}

/* Some member is there, and what depends on it does not hold. */
static void break_dependency(struct lm_schema *s, const struct frame *up,
                             const struct lm_jval *list, struct lm_ways *ways)
{
    struct branches b = { s, list, ways, { 0 } };
    restrict_types(ways, LM_TYPE_OBJECT);
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next) {
        struct lm_ways there = branch(&b);
        demand(s, &there, about_name(LM_ATOM_REQUIRED, m, lm_key_of(m)));
        if (m->kind != LM_JSON_ARRAY) {
            expand(s, up, fails(m), &there);
            end_branch(&b, &there);
            continue;
        }
        for (const struct lm_jval *name = m->first; name; name = name->next) {
            struct lm_ways one = copy_of(s, &there);
            demand(s, &one, about_name(LM_ATOM_ABSENT, m, name_of(name)));
            end_branch(&b, &one);
        }
    }
    *ways = b.out;
}

/* ---- keywords ---- */

static unsigned type_named(const struct lm_jval *v)
{
    static const struct { const char *name; unsigned types; } all[] = {
        { "null", LM_TYPE_NULL },     { "boolean", LM_TYPE_BOOL },
        { "integer", LM_TYPE_INTEGER }, { "number", LM_TYPE_NUMBER },
        { "string", LM_TYPE_STRING }, { "array", LM_TYPE_ARRAY }, { "object", LM_TYPE_OBJECT },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, v->str))
            return all[i].types;
    return 0;
}

static unsigned types_of(const struct lm_jval *v)
{
    unsigned types = 0;
    if (v->kind != LM_JSON_ARRAY)
        return type_named(v);
    for (const struct lm_jval *m = v->first; m; m = m->next)
        types |= type_named(m);
    return types;
}

/* Keywords that are one demand, and what is one when they must fail: another demand with a
 * different number, or the same one negated.  shift: added to the number then. */
static const struct simple {
    const char       *name;
    unsigned          types;
    enum lm_atom_kind kind, opposite;
    bool              count, strict;
    int               shift;
} simple[] = {
    { "minLength", LM_TYPE_STRING, LM_ATOM_MIN_LENGTH, LM_ATOM_MAX_LENGTH, true, false, -1 },
    { "maxLength", LM_TYPE_STRING, LM_ATOM_MAX_LENGTH, LM_ATOM_MIN_LENGTH, true, false, 1 },
    { "pattern", LM_TYPE_STRING, LM_ATOM_PATTERN, LM_ATOM_PATTERN, false, false, 0 },
    { "format", LM_TYPE_STRING, LM_ATOM_FORMAT, LM_ATOM_FORMAT, false, false, 0 },
    { "minimum", LM_TYPE_NUMBER, LM_ATOM_MIN, LM_ATOM_MAX, false, false, 0 },
    { "maximum", LM_TYPE_NUMBER, LM_ATOM_MAX, LM_ATOM_MIN, false, false, 0 },
    { "exclusiveMinimum", LM_TYPE_NUMBER, LM_ATOM_MIN, LM_ATOM_MAX, false, true, 0 },
    { "exclusiveMaximum", LM_TYPE_NUMBER, LM_ATOM_MAX, LM_ATOM_MIN, false, true, 0 },
    { "multipleOf", LM_TYPE_NUMBER, LM_ATOM_MULTIPLE, LM_ATOM_MULTIPLE, false, false, 0 },
    { "minItems", LM_TYPE_ARRAY, LM_ATOM_MIN_ITEMS, LM_ATOM_MAX_ITEMS, true, false, -1 },
    { "maxItems", LM_TYPE_ARRAY, LM_ATOM_MAX_ITEMS, LM_ATOM_MIN_ITEMS, true, false, 1 },
    { "minProperties", LM_TYPE_OBJECT, LM_ATOM_MIN_MEMBERS, LM_ATOM_MAX_MEMBERS, true, false, -1 },
    { "maxProperties", LM_TYPE_OBJECT, LM_ATOM_MAX_MEMBERS, LM_ATOM_MIN_MEMBERS, true, false, 1 },
};

static bool is_key(const struct lm_jval *m, const char *name)
{
    return strlen(name) == m->key_len && !memcmp(name, m->key, m->key_len);
}

/* false: no such keyword. */
static bool simple_keyword(struct lm_schema *s, const struct lm_jval *m, bool negated,
                           struct lm_ways *ways)
{
    size_t i = 0;
    while (i < sizeof simple / sizeof *simple && !is_key(m, simple[i].name))
        i++;
    if (i == sizeof simple / sizeof *simple)
        return false;
    const struct simple *k = &simple[i];
    struct lm_atom a = { .kind = negated ? k->opposite : k->kind, .types = k->types, .at = m,
                         .value = m, .strict = k->strict,
                         .negated = negated && k->opposite == k->kind };
    if (k->count)
        a.n = lm_schema_count(m);
    if (k->kind == LM_ATOM_FORMAT && !lm_format_known(m)) {
        ways->n = negated ? 0 : ways->n;          /* it always holds */
        return true;
    }
    if (negated) {
        restrict_types(ways, k->types);
        a.strict = k->opposite != k->kind && !k->count && !k->strict;
        if (k->shift < 0 && a.n == 0)
            ways->n = 0;                          /* it always holds */
        a.n += (uint64_t)(int64_t)k->shift;
    }
    const bool most = a.kind == LM_ATOM_MAX_LENGTH || a.kind == LM_ATOM_MAX_ITEMS ||
                      a.kind == LM_ATOM_MAX_MEMBERS;
    if (!most || a.n <= INT32_MAX)                /* beyond what is counted: no limit */
        demand(s, ways, a);
    return true;
}

static void values_keyword(struct lm_schema *s, const struct lm_jval *m, bool negated,
                           struct lm_ways *ways)
{
    const bool one = is_key(m, "const");
    if (!negated) {
        for (size_t i = 0; i < ways->n; i++)
            if (!ways->list[i].values) {
                ways->list[i].values = m;
                ways->list[i].one_value = one;
            }
        return;
    }
    static const unsigned types[] = {
        [LM_JSON_NULL] = LM_TYPE_NULL, [LM_JSON_TRUE] = LM_TYPE_BOOL,
        [LM_JSON_FALSE] = LM_TYPE_BOOL, [LM_JSON_NUMBER] = LM_TYPE_NUMBER,
        [LM_JSON_STRING] = LM_TYPE_STRING, [LM_JSON_ARRAY] = LM_TYPE_ARRAY,
        [LM_JSON_OBJECT] = LM_TYPE_OBJECT,
    };
    for (const struct lm_jval *v = one ? m : m->first; v; v = one ? NULL : v->next)
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_NOT_VALUE, .types = types[v->kind],
                                          .at = m, .value = v });
}

static void cannot(struct lm_schema *s, struct lm_ways *ways, unsigned types,
                   const struct lm_jval *at, const char *why)
{
    restrict_types(ways, types);
    demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_CANNOT, .types = types, .at = at,
                                      .why = why });
}

static void contains_keyword(struct lm_schema *s, const struct lm_jval *schema,
                             const struct lm_jval *m, bool negated, struct lm_ways *ways)
{
    const struct lm_jval *min = lm_jval_get(schema, "minContains");
    const struct lm_jval *max = lm_jval_get(schema, "maxContains");
    struct lm_atom a = { .kind = LM_ATOM_CONTAINS, .types = LM_TYPE_ARRAY, .at = m,
                         .literal = holds(m), .n = min ? lm_schema_count(min) : 1,
                         .max = max ? lm_schema_count(max) : UINT64_MAX };
    if (a.max > INT32_MAX && !negated)            /* beyond what is counted: no limit */
        a.max = UINT64_MAX;
    if (!negated) {
        demand(s, ways, a);
        return;
    }
    struct branches b = { s, m, ways, { 0 } };    /* fewer, or more */
    restrict_types(ways, LM_TYPE_ARRAY);
    struct lm_ways fewer = branch(&b), more = branch(&b);
    struct lm_atom other = a;
    if (a.n > 0) {
        other.max = a.n - 1;
        other.n = 0;
        demand(s, &fewer, other);
        end_branch(&b, &fewer);
    }
    if (max) {
        other.n = a.max + 1;
        other.max = UINT64_MAX;
        demand(s, &more, other);
        end_branch(&b, &more);
    }
    *ways = b.out;
}

/* properties fail when one of them is there and fails. */
static void break_properties(struct lm_schema *s, const struct lm_jval *m, struct lm_ways *ways)
{
    struct branches b = { s, m, ways, { 0 } };
    restrict_types(ways, LM_TYPE_OBJECT);
    for (const struct lm_jval *p = m->first; p && s->failed == LM_OK; p = p->next) {
        struct lm_ways one = branch(&b);
        struct lm_atom a = about_name(LM_ATOM_MEMBER, m, lm_key_of(p));
        a.literal = fails(p);
        demand(s, &one, about_name(LM_ATOM_REQUIRED, m, lm_key_of(p)));
        demand(s, &one, a);
        end_branch(&b, &one);
    }
    *ways = b.out;
}

/* Items fail when one of the prefix does, or one behind it. */
static void break_items(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *m,
                        struct lm_ways *ways)
{
    const struct lm_jval *prefix, *rest;
    struct branches b = { s, m, ways, { 0 } };
    uint64_t n = 0;
    restrict_types(ways, LM_TYPE_ARRAY);
    lm_schema_items(schema, &prefix, &rest);
    for (const struct lm_jval *p = prefix ? prefix->first : NULL; p; p = p->next, n++) {
        struct lm_ways one = branch(&b);
        struct lm_atom a = { .kind = LM_ATOM_ITEM, .types = LM_TYPE_ARRAY, .at = m, .n = n,
                             .literal = fails(p) };
        demand(s, &one, a);
        a.kind = LM_ATOM_MIN_ITEMS;
        a.n = n + 1;
        demand(s, &one, a);
        end_branch(&b, &one);
    }
    if (rest && rest->kind == LM_JSON_FALSE) {
        struct lm_ways one = branch(&b);
        demand(s, &one, (struct lm_atom){ .kind = LM_ATOM_MIN_ITEMS, .types = LM_TYPE_ARRAY,
                                          .at = m, .n = n + 1 });
        end_branch(&b, &one);
    } else if (rest && n == 0) {
        struct lm_ways one = branch(&b);
        demand(s, &one, (struct lm_atom){ .kind = LM_ATOM_CONTAINS, .types = LM_TYPE_ARRAY,
                                          .at = m, .literal = fails(rest), .n = 1,
                                          .max = UINT64_MAX });
        end_branch(&b, &one);
    } else if (rest) {
        struct lm_ways one = branch(&b);
        cannot(s, &one, LM_TYPE_ARRAY, m, "what must fail behind prefixItems cannot be enforced");
        end_branch(&b, &one);
    }
    *ways = b.out;
}

static bool is_first_of(const struct lm_jval *schema, const struct lm_jval *m,
                        const char *const *keys)
{
    for (const struct lm_jval *k = schema->first; k; k = k->next)
        for (size_t i = 0; keys[i]; i++)
            if (is_key(k, keys[i]))
                return k == m;
    return false;
}

/* Keywords about arrays and objects, when they hold. */
static void structure_keyword(struct lm_schema *s, const struct frame *here,
                              const struct lm_jval *schema, const struct lm_jval *m,
                              struct lm_ways *ways)
{
    static const char *const members[] = { "properties", "patternProperties",
                                           "additionalProperties", NULL };
    static const char *const items[] = { "prefixItems", "items", "additionalItems", NULL };
    if (is_key(m, "required")) {
        for (const struct lm_jval *name = m->first; name; name = name->next)
            demand(s, ways, about_name(LM_ATOM_REQUIRED, m, name_of(name)));
    } else if (is_first_of(schema, m, members)) {
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_PROPERTIES, .types = LM_TYPE_OBJECT,
                                          .at = m, .schema = schema,
                                          .negated = s->in_negated > 0 });
    } else if (is_first_of(schema, m, items)) {
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_ITEMS, .types = LM_TYPE_ARRAY,
                                          .at = m, .schema = schema,
                                          .negated = s->in_negated > 0 });
    } else if (is_key(m, "propertyNames")) {
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_NAMES, .types = LM_TYPE_OBJECT,
                                          .at = m, .literal = holds(m) });
    } else if (is_key(m, "uniqueItems") && m->kind == LM_JSON_TRUE) {
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_UNIQUE, .types = LM_TYPE_ARRAY,
                                          .at = m });
    } else if (is_key(m, "contains")) {
        contains_keyword(s, schema, m, false, ways);
    } else if (is_key(m, "dependentRequired") || is_key(m, "dependentSchemas") ||
               is_key(m, "dependencies")) {
        for (const struct lm_jval *d = m->first; d && s->failed == LM_OK; d = d->next)
            depend(s, here, d, ways);
    }
}

/* The same, when they must fail. */
static void break_structure(struct lm_schema *s, const struct frame *here,
                            const struct lm_jval *schema, const struct lm_jval *m,
                            struct lm_ways *ways)
{
    static const char *const items[] = { "prefixItems", "items", "additionalItems", NULL };
    if (is_key(m, "required")) {
        struct branches b = { s, m, ways, { 0 } };
        restrict_types(ways, LM_TYPE_OBJECT);
        for (const struct lm_jval *name = m->first; name; name = name->next) {
            struct lm_ways one = branch(&b);
            demand(s, &one, about_name(LM_ATOM_ABSENT, m, name_of(name)));
            end_branch(&b, &one);
        }
        *ways = b.out;
    } else if (is_key(m, "properties")) {
        break_properties(s, m, ways);
    } else if (is_key(m, "additionalProperties")) {
        restrict_types(ways, LM_TYPE_OBJECT);
        demand(s, ways, (struct lm_atom){ .kind = LM_ATOM_UNDECLARED, .types = LM_TYPE_OBJECT,
                                          .at = m, .schema = schema });
    } else if (is_first_of(schema, m, items)) {
        break_items(s, schema, m, ways);
    } else if (is_key(m, "contains")) {
        contains_keyword(s, schema, m, true, ways);
    } else if (is_key(m, "dependentRequired") || is_key(m, "dependentSchemas") ||
               is_key(m, "dependencies")) {
        break_dependency(s, here, m, ways);
    } else if (is_key(m, "patternProperties") || is_key(m, "propertyNames") ||
               is_key(m, "unevaluatedProperties")) {
        cannot(s, ways, LM_TYPE_OBJECT, m, "that this keyword fails cannot be enforced");
    } else if (is_key(m, "unevaluatedItems") ||
               (is_key(m, "uniqueItems") && m->kind == LM_JSON_TRUE)) {
        cannot(s, ways, LM_TYPE_ARRAY, m, "that this keyword fails cannot be enforced");
    } else {
        ways->n = 0;                              /* it constrains nothing: it cannot fail */
    }
}

/* Keywords that lead to other schemas at the same place; false: it is none. */
static bool applicator(struct lm_schema *s, const struct frame *here, const struct lm_jval *schema,
                       const struct lm_jval *m, bool negated, struct lm_ways *ways)
{
    if (is_key(m, "$ref") || is_key(m, "$dynamicRef")) {
        const struct lm_jval *target = lm_schema_target(s, m);
        if (target && is_going_on(here, (struct lm_literal){ target, negated }))
            lm_schema_fail(s, m, "the reference leads back to itself");
        else if (target)
            expand(s, here, (struct lm_literal){ target, negated }, ways);
    } else if (is_key(m, "allOf")) {
        (negated ? any_of : all_of)(s, here, m, negated, ways);
    } else if (is_key(m, "anyOf")) {
        (negated ? all_of : any_of)(s, here, m, negated, ways);
    } else if (is_key(m, "oneOf")) {
        (negated ? not_one_of : one_of)(s, here, m, ways);
    } else if (is_key(m, "not")) {
        expand(s, here, (struct lm_literal){ m, !negated }, ways);
    } else if (is_key(m, "if")) {
        if_then_else(s, here, schema, negated, ways);
    } else {
        return false;
    }
    return true;
}

static void keyword(struct lm_schema *s, const struct frame *here, const struct lm_jval *schema,
                    const struct lm_jval *m, bool negated, struct lm_ways *ways)
{
    if (applicator(s, here, schema, m, negated, ways) || simple_keyword(s, m, negated, ways))
        return;
    if (is_key(m, "type"))
        restrict_types(ways, negated ? LM_TYPE_ALL & ~types_of(m) : types_of(m));
    else if (is_key(m, "enum") || is_key(m, "const"))
        values_keyword(s, m, negated, ways);
    else if (negated)
        break_structure(s, here, schema, m, ways);
    else
        structure_keyword(s, here, schema, m, ways);
}

/* unevaluatedProperties and unevaluatedItems look at what all the others have demanded. */
static void leftovers(struct lm_schema *s, const struct lm_jval *schema, const size_t *first,
                      struct lm_ways *ways)
{
    const struct { const char *key; unsigned types; enum lm_atom_kind kind; } all[] = {
        { "unevaluatedProperties", LM_TYPE_OBJECT, LM_ATOM_OTHER_NAMES },
        { "unevaluatedItems", LM_TYPE_ARRAY, LM_ATOM_OTHER_ITEMS },
    };
    for (size_t k = 0; k < 2; k++) {
        const struct lm_jval *m = lm_jval_get(schema, all[k].key);
        for (size_t i = 0; m && i < ways->n && s->failed == LM_OK; i++) {
            struct lm_ways one = { 1, 1, &ways->list[i] };
            demand(s, &one, (struct lm_atom){ .kind = all[k].kind, .types = all[k].types, .at = m,
                                              .value = m, .first = *first,
                                              .n = ways->list[i].n });
        }
    }
}

/* A schema that must hold is one demand after another; the number of demands before is the same
 * in all ways only at the top, so those of unevaluated keywords begin at 0 otherwise. */
static void expand_object(struct lm_schema *s, const struct frame *here, struct lm_ways *ways)
{
    const struct lm_jval *schema = here->literal.schema;
    size_t first = ways->n ? ways->list[0].n : 0;
    for (size_t i = 0; i < ways->n; i++)
        if (ways->list[i].n != first)
            first = SIZE_MAX;
    for (const struct lm_jval *m = schema->first; m && s->failed == LM_OK && ways->n; m = m->next)
        if (lm_schema_spend(s, 1, m))
            keyword(s, here, schema, m, false, ways);
    const struct lm_jval *left = lm_jval_get(schema, "unevaluatedProperties");
    left = left ? left : lm_jval_get(schema, "unevaluatedItems");
    if (left && first == SIZE_MAX && ways->n)
        lm_schema_fail(s, left, "what is unevaluated here depends on more than can be told");
    leftovers(s, schema, &first, ways);
}

/* One that must not hold breaks one of its keywords. */
static void expand_negated(struct lm_schema *s, const struct frame *here, struct lm_ways *ways)
{
    const struct lm_jval *schema = here->literal.schema;
    struct branches b = { s, schema, ways, { 0 } };
    for (const struct lm_jval *m = schema->first; m && s->failed == LM_OK; m = m->next) {
        if (!lm_schema_spend(s, 1, m))
            break;
        struct lm_ways one = branch(&b);
        keyword(s, here, schema, m, true, &one);
        end_branch(&b, &one);
    }
    *ways = b.out;
}

static void expand(struct lm_schema *s, const struct frame *up, struct lm_literal l,
                   struct lm_ways *ways)
{
    const struct frame here = { up, l };
    if (s->failed < 0 || ways->n == 0)
        return;
    if (l.schema->kind != LM_JSON_OBJECT) {
        if ((l.schema->kind == LM_JSON_TRUE) == l.negated)
            ways->n = 0;
        return;
    }
    s->in_negated += l.negated;
    if (++s->depth > LM_SCHEMA_DEPTH)
        lm_schema_fail(s, l.schema, "more than %d schemas in one another", LM_SCHEMA_DEPTH);
    else if (l.negated)
        expand_negated(s, &here, ways);
    else
        expand_object(s, &here, ways);
    s->depth--;
    s->in_negated -= l.negated;
}

bool lm_schema_ways(struct lm_schema *s, const struct lm_conj *c, struct lm_ways *out)
{
    const struct lm_way any = { .types = LM_TYPE_ALL };
    *out = (struct lm_ways){ 0 };
    add_way(s, out, &any, NULL);
    for (size_t i = 0; i < c->n && s->failed == LM_OK; i++)
        expand(s, NULL, c->list[i], out);
    return s->failed == LM_OK;
}
