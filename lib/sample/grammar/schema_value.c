/* SPDX-License-Identifier: MIT */
/* Rules for values: one for each conjunction of schemas that is met. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "sample/grammar/schema_parts.h"

#define DEEP 40                      /* rules in one another that are made at once        */
#define PROBES 6                     /* conjunctions in one another that are looked into  */
#define BLANKS 20                    /* after a newline                                   */

const struct lm_jval lm_schema_false = { .kind = LM_JSON_FALSE };

/* A conjunction that has been met. */
struct lm_place {
    struct lm_conj  conj;
    size_t          number;
    uint32_t        rule;            /* LM_MANY: none yet                                 */
    bool            made;
    struct lm_node *same;            /* another rule's use that is all there is to it     */
    enum { NOT_ASKED, ASKING, EMPTY, NOT_EMPTY } empty;
};

/* ---- nodes ---- */

struct lm_node *lm_schema_node(struct lm_schema *s, enum lm_node_kind kind)
{
    struct lm_node *node = s->failed == LM_OK ? lm_node_new(&s->tree, kind) : NULL;
    if (!node)
        lm_schema_nomem(s);
    return node;
}

void lm_schema_add(struct lm_schema *s, struct lm_node *to, struct lm_node *node)
{
    if (s->failed == LM_OK && !lm_node_add(&s->tree, to, node))
        lm_schema_nomem(s);
}

void lm_schema_edge(struct lm_schema *s, struct lm_node *graph, uint32_t from, uint32_t to,
                    struct lm_node *label)
{
    if (s->failed == LM_OK && !lm_node_add_edge(&s->tree, graph, from, to, label))
        lm_schema_nomem(s);
}

struct lm_node *lm_schema_bytes(struct lm_schema *s, unsigned lo, unsigned hi)
{
    struct lm_node *node = lm_schema_node(s, LM_NODE_BYTES);
    if (node) {
        node->min = lo;
        node->max = hi;
    }
    return node;
}

struct lm_node *lm_schema_text(struct lm_schema *s, const char *text)
{
    struct lm_node *node = NULL;
    if (s->failed == LM_OK)
        node = lm_node_literal(&s->tree, text, strlen(text));
    if (!node)
        lm_schema_nomem(s);
    return node;
}

struct lm_node *lm_schema_repeat(struct lm_schema *s, struct lm_node *node, uint64_t min,
                                 uint64_t max)
{
    struct lm_node *repeat = lm_schema_node(s, LM_NODE_REPEAT);
    lm_schema_add(s, repeat, node);
    if (repeat) {
        repeat->min = min < LM_MANY ? (uint32_t)min : LM_MANY - 1;
        repeat->max = max < LM_MANY ? (uint32_t)max : LM_MANY;
    }
    return repeat;
}

struct lm_node *lm_schema_key(struct lm_schema *s, struct lm_node *text, bool endless)
{
    struct lm_node *key = lm_schema_node(s, LM_NODE_KEY);
    lm_schema_add(s, key, text);
    if (key)
        key->endless = endless;
    return key;
}

struct lm_node *lm_schema_sequence(struct lm_schema *s, ...)
{
    struct lm_node *node = lm_schema_node(s, LM_NODE_SEQUENCE), *part;
    va_list ap;
    va_start(ap, s);
    while (s->failed == LM_OK && (part = va_arg(ap, struct lm_node *)) != NULL)
        lm_schema_add(s, node, part);
    va_end(ap);
    return node;
}

struct lm_node *lm_schema_nothing(struct lm_schema *s)
{
    return lm_schema_node(s, LM_NODE_CHOICE);
}

bool lm_schema_is_nothing(const struct lm_node *node)
{
    return node->kind == LM_NODE_CHOICE && node->n == 0;
}

/* The number of a new rule. */
static uint32_t new_rule(struct lm_schema *s, struct lm_node *node)
{
    if (s->tree.n > LM_SCHEMA_RULES)
        lm_schema_fail(s, NULL, "the schema needs more than %d rules", LM_SCHEMA_RULES);
    else if (lm_tree_add_rule(&s->tree, "value", node, s->err) < 0)
        lm_schema_nomem(s);
    return (uint32_t)s->tree.n - 1;
}

struct lm_node *lm_schema_use(struct lm_schema *s, uint32_t rule)
{
    struct lm_node *use = lm_schema_node(s, LM_NODE_RULE);
    if (use)
        use->rule = rule;
    return use;
}

struct lm_node *lm_schema_rule(struct lm_schema *s, struct lm_node *node)
{
    return s->failed < 0 || lm_schema_is_nothing(node) ? node : lm_schema_use(s, new_rule(s, node));
}

/* ---- what many schemas use ---- */

enum { GAP, STRING, INTEGER, NUMBER, ANY };

static struct lm_node *digits(struct lm_schema *s, uint64_t min, uint64_t max)
{
    return lm_schema_repeat(s, lm_schema_bytes(s, '0', '9'), min, max);
}

static struct lm_node *optional(struct lm_schema *s, struct lm_node *node)
{
    return lm_schema_repeat(s, node, 0, 1);
}

static struct lm_node *choice_of(struct lm_schema *s, struct lm_node *a, struct lm_node *b)
{
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    lm_schema_add(s, choice, a);
    lm_schema_add(s, choice, b);
    return choice;
}

static struct lm_node *make_gap(struct lm_schema *s)
{
    struct lm_node *blank = choice_of(s, lm_schema_text(s, " "), lm_schema_text(s, "\t"));
    return choice_of(s, lm_schema_text(s, " "), lm_schema_sequence(s,
        lm_schema_repeat(s, lm_schema_text(s, "\n"), 1, 2),
        lm_schema_repeat(s, blank, 0, BLANKS), NULL));
}

static struct lm_node *make_string(struct lm_schema *s)
{
    return lm_schema_sequence(s, lm_schema_text(s, "\""),
        lm_schema_repeat(s, lm_schema_character(s), 0, LM_MANY), lm_schema_text(s, "\""), NULL);
}

/* Any digits that JSON takes, without those of zero. */
static struct lm_node *make_whole(struct lm_schema *s)
{
    return lm_schema_sequence(s, optional(s, lm_schema_text(s, "-")),
        lm_schema_bytes(s, '1', '9'), digits(s, 0, LM_SCHEMA_DIGITS - 1), NULL);
}

static struct lm_node *make_integer(struct lm_schema *s)
{
    return choice_of(s, lm_schema_text(s, "0"), make_whole(s));
}

static struct lm_node *make_number(struct lm_schema *s)
{
    struct lm_node *zero = lm_schema_sequence(s, optional(s, lm_schema_text(s, "-")),
                                              lm_schema_text(s, "0"), NULL);
    struct lm_node *part = lm_schema_sequence(s, lm_schema_text(s, "."),
                                              digits(s, 1, LM_SCHEMA_DIGITS), NULL);
    struct lm_node *sign = choice_of(s, lm_schema_text(s, "+"), lm_schema_text(s, "-"));
    struct lm_node *power = lm_schema_sequence(s,
        choice_of(s, lm_schema_text(s, "e"), lm_schema_text(s, "E")), optional(s, sign),
        digits(s, 1, 3), NULL);
    return lm_schema_sequence(s, choice_of(s, zero, make_whole(s)), optional(s, part),
                              optional(s, power), NULL);
}

static struct lm_node *shared(struct lm_schema *s, size_t which,
                              struct lm_node *(*make)(struct lm_schema *s))
{
    if (!s->shared[which] && s->failed == LM_OK)
        s->shared[which] = new_rule(s, make(s));
    return lm_schema_use(s, s->shared[which]);
}

struct lm_node *lm_schema_gap(struct lm_schema *s, bool after)
{
    if (s->options->gap == LM_GAP_FREE)
        return optional(s, shared(s, GAP, make_gap));
    return lm_schema_text(s, after && s->options->gap == LM_GAP_ONE ? " " : "");
}

struct lm_node *lm_schema_next(struct lm_schema *s, struct lm_node *node)
{
    return lm_schema_sequence(s, lm_schema_text(s, ","), lm_schema_gap(s, true), node, NULL);
}

struct lm_node *lm_schema_any_string(struct lm_schema *s)
{
    return shared(s, STRING, make_string);
}

/* ---- any value ---- */

/* open item (, item)* close, or nothing between. */
static struct lm_node *list_of(struct lm_schema *s, const char *open, struct lm_node *item,
                               const char *close)
{
    struct lm_node *items = lm_schema_sequence(s, item,
        lm_schema_repeat(s, lm_schema_next(s, item), 0, LM_MANY), lm_schema_gap(s, false),
        lm_schema_text(s, close), NULL);
    return lm_schema_sequence(s, lm_schema_text(s, open), lm_schema_gap(s, false),
                              choice_of(s, lm_schema_text(s, close), items), NULL);
}

static struct lm_node *member_of(struct lm_schema *s, struct lm_node *key, struct lm_node *value)
{
    return lm_schema_sequence(s, key, lm_schema_gap(s, false), lm_schema_text(s, ":"),
                              lm_schema_gap(s, true), value, NULL);
}

/* Any value in which so many arrays and objects may be in one another. */
static struct lm_node *any_value(struct lm_schema *s, int nesting)
{
    const size_t which = ANY + (size_t)nesting;
    static const char *const words[] = { "null", "true", "false" };
    if (s->shared[which] || s->failed < 0)
        return lm_schema_use(s, s->shared[which]);
    s->shared[which] = new_rule(s, NULL);
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    for (size_t i = 0; i < 3; i++)
        lm_schema_add(s, choice, lm_schema_text(s, words[i]));
    lm_schema_add(s, choice, shared(s, NUMBER, make_number));
    lm_schema_add(s, choice, lm_schema_any_string(s));
    if (nesting > 0) {
        struct lm_node *inner = any_value(s, nesting - 1);
        lm_schema_add(s, choice, list_of(s, "[", inner, "]"));
        lm_schema_add(s, choice, list_of(s, "{", member_of(s, lm_schema_any_string(s), inner),
                                         "}"));
    }
    if (s->failed == LM_OK)
        s->tree.rules[s->shared[which]].node = choice;
    return lm_schema_use(s, s->shared[which]);
}

/* ---- given values ---- */

struct lm_node *lm_literal_node(struct lm_schema *s, const struct lm_jval *v)
{
    const bool object = v->kind == LM_JSON_OBJECT;
    struct lm_node *node;
    switch (v->kind) {
    case LM_JSON_NULL:   return lm_schema_text(s, "null");
    case LM_JSON_TRUE:   return lm_schema_text(s, "true");
    case LM_JSON_FALSE:  return lm_schema_text(s, "false");
    case LM_JSON_NUMBER: return lm_schema_text(s, v->str);
    case LM_JSON_STRING: return lm_string_literal(s, (struct lm_name){ v->str, v->len });
    default:             break;
    }
    node = lm_schema_sequence(s, lm_schema_text(s, object ? "{" : "["), lm_schema_gap(s, false),
                              NULL);
    for (const struct lm_jval *m = v->first; m && s->failed == LM_OK; m = m->next) {
        struct lm_node *one = lm_literal_node(s, m);
        if (object)
            one = member_of(s, lm_string_literal(s, (struct lm_name){ m->key, m->key_len }), one);
        lm_schema_add(s, node, m == v->first ? one : lm_schema_next(s, one));
    }
    if (v->first)
        lm_schema_add(s, node, lm_schema_gap(s, false));
    lm_schema_add(s, node, lm_schema_text(s, object ? "}" : "]"));
    return node;
}

/* The values of a way that satisfy c; at most n of them are not yet in list. */
static int add_values(struct lm_schema *s, const struct lm_way *w, const struct lm_conj *c,
                      const struct lm_jval **list, int n, int most)
{
    const struct lm_jval *v = w->one_value ? w->values : w->values->first;
    for (; v && s->failed == LM_OK; v = w->one_value ? NULL : v->next) {
        int i = 0;
        if (lm_schema_valid(s, v, c) != 1)
            continue;
        while (i < n && !lm_jval_same(s, list[i], v))
            i++;
        if (i == n && n == most)
            return -1;
        if (i == n)
            list[n++] = v;
    }
    return n;
}

/* The whole numbers between the bounds of a way. */
static int add_integers(struct lm_schema *s, const struct lm_way *w, const struct lm_conj *c,
                        const struct lm_jval **list, int n, int most)
{
    double lo = -1e15, hi = 1e15, x = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (w->atoms[i].kind == LM_ATOM_MIN && lm_jval_f64(w->atoms[i].value, &x) && x > lo)
            lo = x;
        if (w->atoms[i].kind == LM_ATOM_MAX && lm_jval_f64(w->atoms[i].value, &x) && x < hi)
            hi = x;
    }
    if (hi < lo)
        return n;
    if (hi - lo > most || hi >= 1e15 || lo <= -1e15)
        return -1;
    for (int64_t k = (int64_t)lo - 1; k <= (int64_t)hi + 1 && s->failed == LM_OK; k++) {
        char text[24];
        struct lm_jval *v = lm_arena_alloc(s->arena, sizeof *v);
        const int len = snprintf(text, sizeof text, "%lld", (long long)k);
        char *copy = lm_arena_copy(s->arena, text, (size_t)len);
        if (!v || !copy) {
            lm_schema_nomem(s);
            return -1;
        }
        *v = (struct lm_jval){ .kind = LM_JSON_NUMBER, .str = copy, .len = (size_t)len };
        n = add_values(s, &(struct lm_way){ .values = v, .one_value = true }, c, list, n, most);
        if (n < 0)
            return n;
    }
    return n;
}

static const struct lm_jval words[] = {
    { .kind = LM_JSON_NULL }, { .kind = LM_JSON_FALSE }, { .kind = LM_JSON_TRUE },
};

int lm_few_values(struct lm_schema *s, const struct lm_conj *c, const struct lm_jval **list,
                  int most)
{
    struct lm_ways ways;
    int n = 0;
    if (!lm_schema_ways(s, c, &ways))
        return -1;
    for (size_t i = 0; i < ways.n && n >= 0; i++) {
        const struct lm_way *w = &ways.list[i];
        if (w->values) {
            n = add_values(s, w, c, list, n, most);
            continue;
        }
        if (w->types & (LM_TYPE_STRING | LM_TYPE_ARRAY | LM_TYPE_OBJECT | LM_TYPE_FRACTION))
            return -1;
        for (size_t k = 0; k < 3 && n >= 0; k++)
            n = add_values(s, &(struct lm_way){ .values = &words[k], .one_value = true }, c, list,
                           n, most);
        if (n >= 0 && w->types & LM_TYPE_INTEGER)
            n = add_integers(s, w, c, list, n, most);
    }
    return s->failed == LM_OK ? n : -1;
}

/* ---- ways ---- */

static bool has_demand(const struct lm_way *w, unsigned types)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->atoms[i].types & types)
            return true;
    return false;
}

/* null, true or false, unless the way excludes it. */
static void add_word(struct lm_schema *s, struct lm_node *choice, const struct lm_way *w,
                     const struct lm_jval *word)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->atoms[i].kind == LM_ATOM_NOT_VALUE && w->atoms[i].value->kind == word->kind)
            return;
    lm_schema_add(s, choice, lm_literal_node(s, word));
}

static struct lm_node *number_of(struct lm_schema *s, const struct lm_way *w)
{
    if (has_demand(w, LM_TYPE_NUMBER) || !(w->types & LM_TYPE_INTEGER))
        return lm_number_node(s, w, NULL);
    return w->types & LM_TYPE_FRACTION ? shared(s, NUMBER, make_number)
                                       : shared(s, INTEGER, make_integer);
}

static struct lm_node *string_of(struct lm_schema *s, const struct lm_way *w)
{
    struct lm_string str = { .max = UINT64_MAX };
    return lm_string_of(s, w, &str) ? lm_string_node(s, &str, NULL) : NULL;
}

static void add_scalars(struct lm_schema *s, struct lm_node *choice, const struct lm_way *w)
{
    if (w->types & LM_TYPE_NULL)
        add_word(s, choice, w, &words[0]);
    if (w->types & LM_TYPE_BOOL) {
        add_word(s, choice, w, &words[1]);
        add_word(s, choice, w, &words[2]);
    }
    if (w->types & LM_TYPE_NUMBER)
        lm_schema_add(s, choice, number_of(s, w));
    if (w->types & LM_TYPE_STRING)
        lm_schema_add(s, choice, string_of(s, w));
}

/* Fail where a way asks for what cannot be done. */
static void refuse(struct lm_schema *s, const struct lm_way *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct lm_atom *a = &w->atoms[i];
        if (a->kind == LM_ATOM_CANNOT && a->types & w->types)
            lm_schema_fail(s, a->at, "%s", a->why);
        if (a->kind == LM_ATOM_NOT_VALUE && a->types & w->types & (LM_TYPE_ARRAY | LM_TYPE_OBJECT))
            lm_schema_fail(s, a->at, "that an array or object is none of these cannot be enforced");
    }
}

static void add_way(struct lm_schema *s, struct lm_node *choice, const struct lm_way *w)
{
    refuse(s, w);
    if (w->types == LM_TYPE_ALL && w->n == 0) {
        lm_schema_add(s, choice, any_value(s, LM_SCHEMA_NESTING));
        return;
    }
    add_scalars(s, choice, w);
    if (w->types & LM_TYPE_ARRAY && s->failed == LM_OK)
        lm_schema_add(s, choice, lm_array_node(s, w));
    if (w->types & LM_TYPE_OBJECT && s->failed == LM_OK)
        lm_schema_add(s, choice, lm_object_node(s, w));
}

static struct lm_node *make_value(struct lm_schema *s, const struct lm_conj *c)
{
    struct lm_ways ways;
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    const struct lm_jval *values = NULL;
    if (!lm_schema_ways(s, c, &ways))
        return NULL;
    for (size_t i = 0; i < ways.n && s->failed == LM_OK; i++) {
        const struct lm_way *w = &ways.list[i];
        if (!w->values) {
            add_way(s, choice, w);
            continue;
        }
        if (w->values == values)                  /* they are there already */
            continue;
        values = w->values;
        const struct lm_jval *v = w->one_value ? values : values->first;
        s->listed = values;
        for (; v && s->failed == LM_OK; v = w->one_value ? NULL : v->next) {
            s->listed_value = v;
            if (lm_schema_valid(s, v, c) == 1)
                lm_schema_add(s, choice, lm_literal_node(s, v));
        }
        s->listed = NULL;
    }
    return s->failed < 0 ? NULL : choice->n == 1 ? choice->nodes[0] : choice;
}

/* ---- values that have one spelling ---- */

static bool is_plain(const struct lm_jval *v)
{
    const char *p = v->str;
    if (v->kind != LM_JSON_NUMBER)
        return v->kind != LM_JSON_ARRAY && v->kind != LM_JSON_OBJECT;
    p += *p == '-';
    return p[strspn(p, "0123456789")] == 0 && !(*v->str == '-' && *p == '0');
}

static uint64_t count_scalars(struct lm_schema *s, const struct lm_way *w)
{
    struct lm_string str = { .max = UINT64_MAX };
    uint64_t n = 0, some = 0;
    n += w->types & LM_TYPE_NULL ? 1 : 0;
    n += w->types & LM_TYPE_BOOL ? 2 : 0;
    if (w->types & LM_TYPE_INTEGER)
        lm_number_node(s, w, &some);
    n += some;
    some = 0;
    if (w->types & LM_TYPE_STRING && lm_string_of(s, w, &str))
        lm_string_node(s, &str, &some);
    return some == LM_ENDLESS ? w->types == LM_TYPE_STRING ? some : LM_MANY : n + some;
}

bool lm_value_spelt_once(struct lm_schema *s, const struct lm_conj *c, uint64_t *n)
{
    const unsigned plain = LM_TYPE_NULL | LM_TYPE_BOOL | LM_TYPE_STRING | LM_TYPE_INTEGER;
    struct lm_ways ways;
    *n = 0;
    if (!lm_schema_ways(s, c, &ways))
        return false;
    for (size_t i = 0; i < ways.n && s->failed == LM_OK; i++) {
        const struct lm_way *w = &ways.list[i];
        if (!w->values && w->types & ~plain)
            return false;
        if (!w->values)
            *n = ways.n == 1 ? count_scalars(s, w) : *n + (count_scalars(s, w) & LM_MANY);
        const struct lm_jval *v = !w->values || w->one_value ? w->values : w->values->first;
        for (; v; v = w->one_value ? NULL : v->next, ++*n)
            if (!is_plain(v))
                return false;
    }
    if (*n > LM_MANY && *n != LM_ENDLESS)
        *n = LM_MANY;
    return s->failed == LM_OK && (ways.n == 1 || *n == LM_MANY);   /* or they may overlap */
}

/* ---- places ---- */

static uint64_t hash_conj(const struct lm_conj *c)
{
    uint64_t h = c->n;
    for (size_t i = 0; i < c->n; i++) {
        h = (h ^ (uintptr_t)c->list[i].schema ^ c->list[i].negated) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

static bool same_conj(const struct lm_conj *a, const struct lm_conj *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (a->list[i].schema != b->list[i].schema || a->list[i].negated != b->list[i].negated)
            return false;
    return true;
}

/* The place of a conjunction; NULL after a failure. */
static struct lm_place *place_of(struct lm_schema *s, const struct lm_conj *c)
{
    const uint64_t hash = hash_conj(c);
    const struct lm_place *same;
    if (s->failed < 0)
        return NULL;
    for (size_t at = SIZE_MAX; (same = lm_lookup_next(&s->place_table, hash, &at)) != NULL;)
        if (same_conj(&same->conj, c))
            return s->places[same->number];
    struct lm_place *p = lm_arena_alloc(s->arena, sizeof *p);
    struct lm_literal *list = lm_arena_array(s->arena, c->n + 1, sizeof *list);
    if (!p || !list ||
        !lm_grow(&s->places, &s->places_cap, s->n_places + 1, sizeof *s->places) ||
        !lm_lookup_add(&s->place_table, hash, p)) {
        lm_schema_nomem(s);
        return NULL;
    }
    if (c->n)
        memcpy(list, c->list, c->n * sizeof *list);
    *p = (struct lm_place){ .conj = { c->n, c->n, list }, .rule = LM_MANY, .number = s->n_places };
    s->places[s->n_places++] = p;
    return p;
}

static void make_place(struct lm_schema *s, struct lm_place *p)
{
    p->made = true;
    s->building++;
    struct lm_node *node = make_value(s, &p->conj);
    s->building--;
    if (s->failed < 0)
        return;
    s->tree.rules[p->rule].node = node;
    if (node->kind == LM_NODE_RULE && node->rule != p->rule)
        p->same = node;
}

struct lm_node *lm_value_node(struct lm_schema *s, const struct lm_conj *c)
{
    struct lm_place *p = place_of(s, c);
    if (!p)
        return NULL;
    if (p->rule == LM_MANY)
        p->rule = new_rule(s, NULL);
    if (!p->made && s->building < DEEP)
        make_place(s, p);
    return s->failed < 0 ? NULL : p->same ? p->same : lm_schema_use(s, p->rule);
}

void lm_schema_finish(struct lm_schema *s)
{
    for (size_t i = 0; i < s->n_places && s->failed == LM_OK; i++)
        if (s->places[i]->rule != LM_MANY && !s->places[i]->made)
            make_place(s, s->places[i]);
}

/* ---- is there any value? ---- */

static bool words_empty(const struct lm_way *w)
{
    bool gone[3] = { !(w->types & LM_TYPE_NULL), !(w->types & LM_TYPE_BOOL),
                     !(w->types & LM_TYPE_BOOL) };
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < 3; k++)
            gone[k] |= w->atoms[i].kind == LM_ATOM_NOT_VALUE &&
                       w->atoms[i].value->kind == words[k].kind;
    return gone[0] && gone[1] && gone[2];
}

static bool way_empty(struct lm_schema *s, const struct lm_way *w, const struct lm_conj *c)
{
    const struct lm_jval *v = NULL;
    if (w->values) {
        for (v = w->one_value ? w->values : w->values->first; v; v = w->one_value ? NULL : v->next)
            if (lm_schema_valid(s, v, c) != 0)
                return false;
        return true;
    }
    for (size_t i = 0; i < w->n; i++)
        if (w->atoms[i].kind == LM_ATOM_CANNOT && w->atoms[i].types & w->types)
            return false;
    if (!words_empty(w))
        return false;
    struct lm_node *node = w->types & LM_TYPE_NUMBER ? number_of(s, w) : NULL;
    if (node && !lm_schema_is_nothing(node))
        return false;
    node = w->types & LM_TYPE_STRING ? string_of(s, w) : NULL;
    if (node && !lm_schema_is_nothing(node))
        return false;
    return !(w->types & LM_TYPE_ARRAY && !lm_array_empty(s, w)) &&
           !(w->types & LM_TYPE_OBJECT && !lm_object_empty(s, w));
}

bool lm_conj_empty(struct lm_schema *s, const struct lm_conj *c)
{
    struct lm_ways ways;
    struct lm_place *p = place_of(s, c);
    if (!p || p->empty == ASKING || s->probing >= PROBES)
        return false;
    if (p->empty != NOT_ASKED)
        return p->empty == EMPTY;
    p->empty = ASKING;
    s->probing++;
    bool empty = lm_schema_ways(s, c, &ways);
    for (size_t i = 0; empty && i < ways.n; i++)
        empty = way_empty(s, &ways.list[i], c);
    s->probing--;
    p->empty = empty ? EMPTY : NOT_EMPTY;
    return empty && s->failed == LM_OK;
}
