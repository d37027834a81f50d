/* SPDX-License-Identifier: MIT */
/* JSON Schema: its text, its keywords, and references between its parts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sample/grammar/schema_parts.h"

/* ---- failures ---- */

/* Append the pointer of target below v; false if it is not there. */
static bool point_at(struct lm_buf *b, const struct lm_jval *v, const struct lm_jval *target)
{
    if (v == target)
        return true;
    size_t i = 0;
    for (const struct lm_jval *m = v->first; m; m = m->next, i++) {
        const size_t len = b->len;
        lm_buf_byte(b, '/');
        if (v->kind == LM_JSON_ARRAY)
            lm_buf_printf(b, "%zu", i);
        for (size_t k = 0; v->kind == LM_JSON_OBJECT && k < m->key_len; k++) {
            if (m->key[k] == '~' || m->key[k] == '/')
                lm_buf_str(b, m->key[k] == '~' ? "~0" : "~1");
            else
                lm_buf_byte(b, m->key[k]);
        }
        if (point_at(b, m, target))
            return true;
        b->len = len;
    }
    return false;
}

/* "#/pointer: " and the words. */
static void say(struct lm_schema *s, struct lm_buf *b, const struct lm_jval *at, const char *fmt,
                va_list ap)
{
    char words[240];
    struct lm_buf pointer = { 0 };
    vsnprintf(words, sizeof words, fmt, ap);
    lm_buf_byte(&pointer, '#');
    if (at)
        point_at(&pointer, s->root, at);
    if (pointer.len > 200)                        /* its end tells more */
        lm_buf_printf(b, "...%.*s: %s", 190, pointer.data + pointer.len - 190, words);
    else
        lm_buf_printf(b, "%.*s: %s", (int)pointer.len, pointer.data ? pointer.data : "", words);
    lm_buf_release(&pointer);
}

int lm_schema_fail(struct lm_schema *s, const struct lm_jval *at, const char *fmt, ...)
{
    struct lm_buf b = { 0 };
    va_list ap;
    if (s->failed < 0)
        return s->failed;
    va_start(ap, fmt);
    say(s, &b, at, fmt, ap);
    va_end(ap);
    s->failed = lm_fail(s->err, LM_EUSE, "%.*s", (int)b.len, b.data ? b.data : "");
    lm_buf_release(&b);
    return s->failed;
}

int lm_schema_nomem(struct lm_schema *s)
{
    if (s->failed == LM_OK)
        s->failed = lm_fail_nomem(s->err);
    return s->failed;
}

/* A line for what is no failure. */
__attribute__((format(printf, 3, 4)))
static void note(struct lm_schema *s, const struct lm_jval *at, const char *fmt, ...)
{
    va_list ap;
    if (!s->notes || s->notes->len > 4096)        /* enough is said */
        return;
    va_start(ap, fmt);
    say(s, s->notes, at, fmt, ap);
    va_end(ap);
    lm_buf_byte(s->notes, '\n');
}

bool lm_schema_spend(struct lm_schema *s, uint64_t steps, const struct lm_jval *at)
{
    s->work += steps;
    if (s->work > LM_SCHEMA_WORK)
        lm_schema_fail(s, at, "the schema asks for more than %d combinations",
                       LM_SCHEMA_WORK);
    return s->failed == LM_OK;
}

bool lm_schema_spend_states(struct lm_schema *s, uint32_t n, const struct lm_jval *at)
{
    s->n_states += n;
    if (s->n_states > LM_SCHEMA_STATES)
        lm_schema_fail(s, at, "the schema needs automata of more than %d states",
                       LM_SCHEMA_STATES);
    return s->failed == LM_OK;
}

bool lm_schema_spend_steps(struct lm_schema *s, uint64_t n, const struct lm_jval *at)
{
    s->n_steps += n;
    if (s->n_steps > LM_SCHEMA_STEPS)
        lm_schema_fail(s, at, "the schema needs more than %d steps of automata", LM_SCHEMA_STEPS);
    return s->failed == LM_OK;
}

void lm_schema_items(const struct lm_jval *schema, const struct lm_jval **prefix,
                     const struct lm_jval **rest)
{
    const struct lm_jval *items = lm_jval_get(schema, "items");
    *prefix = lm_jval_get(schema, "prefixItems");
    *rest = items;
    if (items && items->kind == LM_JSON_ARRAY) {  /* the older spelling */
        *prefix = items;
        *rest = lm_jval_get(schema, "additionalItems");
    }
}

/* ---- keywords ---- */

enum shape {
    ANY, SCHEMA, SCHEMAS, SCHEMA_MAP, ITEMS, STRING, BOOL, COUNT, NUMBER, POSITIVE, TYPES, LIST,
    NAMES, NAME_MAP, DEPENDENCIES,
};

/* What a keyword's value is; known[] holds every keyword of the standard. */
static const struct keyword {
    const char *name;
    enum shape  shape;
} known[] = {
    { "$anchor", STRING },          { "$comment", ANY },         { "$defs", SCHEMA_MAP },
    { "$dynamicAnchor", STRING },   { "$dynamicRef", STRING },   { "$id", STRING },
    { "$ref", STRING },             { "$schema", STRING },       { "$vocabulary", ANY },
    { "additionalItems", SCHEMA },  { "additionalProperties", SCHEMA },
    { "allOf", SCHEMAS },           { "anyOf", SCHEMAS },        { "const", ANY },
    { "contains", SCHEMA },         { "contentEncoding", ANY },  { "contentMediaType", ANY },
    { "contentSchema", ANY },       { "default", ANY },          { "definitions", SCHEMA_MAP },
    { "dependencies", DEPENDENCIES }, { "dependentRequired", NAME_MAP },
    { "dependentSchemas", SCHEMA_MAP }, { "deprecated", ANY },   { "description", ANY },
    { "else", SCHEMA },             { "enum", LIST },            { "examples", ANY },
    { "exclusiveMaximum", NUMBER }, { "exclusiveMinimum", NUMBER }, { "format", STRING },
    { "if", SCHEMA },               { "items", ITEMS },          { "maxContains", COUNT },
    { "maxItems", COUNT },          { "maxLength", COUNT },      { "maxProperties", COUNT },
    { "maximum", NUMBER },          { "minContains", COUNT },    { "minItems", COUNT },
    { "minLength", COUNT },         { "minProperties", COUNT },  { "minimum", NUMBER },
    { "multipleOf", POSITIVE },     { "not", SCHEMA },           { "oneOf", SCHEMAS },
    { "pattern", STRING },          { "patternProperties", SCHEMA_MAP },
    { "prefixItems", SCHEMAS },     { "properties", SCHEMA_MAP }, { "propertyNames", SCHEMA },
    { "readOnly", ANY },            { "required", NAMES },       { "then", SCHEMA },
    { "title", ANY },               { "type", TYPES },           { "unevaluatedItems", SCHEMA },
    { "unevaluatedProperties", SCHEMA }, { "uniqueItems", BOOL }, { "writeOnly", ANY },
};

/* Keywords of older drafts that constrain and are not read. */
static const struct {
    const char *name, *draft, *now;
} older[] = {
    { "$recursiveAnchor", "2019-09", "$dynamicAnchor" },
    { "$recursiveRef", "2019-09", "$dynamicRef" },
    { "disallow", "3", "not" },
    { "divisibleBy", "3", "multipleOf" },
    { "extends", "3", "allOf" },
};

static const struct keyword *find_keyword(const struct lm_jval *m)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == m->key_len && !memcmp(known[i].name, m->key, m->key_len))
            return &known[i];
    return NULL;
}

bool lm_keyword_is_map(const struct lm_jval *m)
{
    const struct keyword *k = find_keyword(m);
    return k && (k->shape == SCHEMA_MAP || k->shape == DEPENDENCIES || k->shape == NAME_MAP);
}

bool lm_keyword_is_value(const struct lm_jval *m)
{
    const struct keyword *k = find_keyword(m);
    return k && (k->shape == ANY || k->shape == LIST);
}

static bool is_bool(const struct lm_jval *v)
{
    return v->kind == LM_JSON_TRUE || v->kind == LM_JSON_FALSE;
}

uint64_t lm_schema_count(const struct lm_jval *v)
{
    double x = 0;
    lm_jval_f64(v, &x);
    return x >= 4e18 ? UINT64_C(1) << 62 : (uint64_t)x;
}

static bool is_count(struct lm_schema *s, const struct lm_jval *v)
{
    struct lm_decimal d;
    return v->kind == LM_JSON_NUMBER && lm_decimal_read(s->arena, v->str, &d) && !d.negative &&
           lm_decimal_whole(&d);
}

static bool is_type(const struct lm_jval *v)
{
    static const char *const types[] = { "null", "boolean", "integer", "number", "string",
                                         "array", "object" };
    for (size_t i = 0; v->kind == LM_JSON_STRING && i < sizeof types / sizeof *types; i++)
        if (strlen(types[i]) == v->len && !memcmp(types[i], v->str, v->len))
            return true;
    return false;
}

static int check_names(struct lm_schema *s, const struct lm_jval *v)
{
    if (v->kind != LM_JSON_ARRAY)
        return lm_schema_fail(s, v, "an array of names is expected");
    for (const struct lm_jval *m = v->first; m; m = m->next)
        if (m->kind != LM_JSON_STRING)
            return lm_schema_fail(s, m, "a name is a string");
    return LM_OK;
}

static int check_types(struct lm_schema *s, const struct lm_jval *v)
{
    if (v->kind != LM_JSON_ARRAY)
        return is_type(v) ? LM_OK : lm_schema_fail(s, v, "no such type");
    if (!v->first)
        return lm_schema_fail(s, v, "the list of types is empty");
    for (const struct lm_jval *m = v->first; m; m = m->next)
        if (!is_type(m))
            return lm_schema_fail(s, m, "no such type");
    return LM_OK;
}

/* Check the keywords of a schema and of all schemas in it. */
static int check(struct lm_schema *s, const struct lm_jval *schema);

static int check_all(struct lm_schema *s, const struct lm_jval *list)
{
    for (const struct lm_jval *m = list->first; m && s->failed == LM_OK; m = m->next)
        check(s, m);
    return s->failed;
}

/* The value of dependentRequired, or of the older dependencies. */
static int check_dependencies(struct lm_schema *s, const struct lm_jval *v, bool names_only)
{
    if (v->kind != LM_JSON_OBJECT)
        return lm_schema_fail(s, v, "an object is expected");
    for (const struct lm_jval *m = v->first; m && s->failed == LM_OK; m = m->next) {
        if (names_only || m->kind == LM_JSON_ARRAY)
            check_names(s, m);
        else
            check(s, m);
    }
    return s->failed;
}

static int check_number(struct lm_schema *s, const struct lm_jval *v, enum shape shape)
{
    struct lm_decimal d;
    if (is_bool(v) && shape == NUMBER)
        return lm_schema_fail(s, v, "a number is expected (true and false belong to draft 4)");
    if (v->kind != LM_JSON_NUMBER)
        return lm_schema_fail(s, v, "a number is expected");
    if (!lm_schema_decimal(s, v, &d))
        return s->failed;
    if (shape == POSITIVE && (d.negative || d.n == 0))
        return lm_schema_fail(s, v, "a number above 0 is expected");
    return LM_OK;
}

static int check_value(struct lm_schema *s, enum shape shape, const struct lm_jval *v)
{
    switch (shape) {
    case ANY:
        return LM_OK;
    case SCHEMA:
        return check(s, v);
    case ITEMS:
        return v->kind == LM_JSON_ARRAY ? check_all(s, v) : check(s, v);
    case SCHEMAS:
        return v->kind == LM_JSON_ARRAY && v->first ? check_all(s, v) :
               lm_schema_fail(s, v, "an array of schemas is expected");
    case SCHEMA_MAP:
        return v->kind == LM_JSON_OBJECT ? check_all(s, v) :
               lm_schema_fail(s, v, "an object of schemas is expected");
    case STRING:
        return v->kind == LM_JSON_STRING ? LM_OK : lm_schema_fail(s, v, "a string is expected");
    case BOOL:
        return is_bool(v) ? LM_OK : lm_schema_fail(s, v, "true or false is expected");
    case COUNT:
        return is_count(s, v) ? LM_OK :
               lm_schema_fail(s, v, "a whole number, not below 0, is expected");
    case NUMBER:
    case POSITIVE:
        return check_number(s, v, shape);
    case TYPES:
        return check_types(s, v);
    case LIST:
        return v->kind == LM_JSON_ARRAY ? LM_OK : lm_schema_fail(s, v, "an array is expected");
    case NAMES:
        return check_names(s, v);
    case NAME_MAP:
    case DEPENDENCIES:
        return check_dependencies(s, v, shape == NAME_MAP);
    }
    return LM_OK;
}

/* Note that a schema is being checked; false if it has been. */
static bool first_visit(struct lm_schema *s, const struct lm_jval *schema)
{
    const uint64_t hash = lm_lookup_hash(schema, (struct lm_name){ NULL, 0 });
    const void *item;
    for (size_t at = SIZE_MAX; (item = lm_lookup_next(&s->checked, hash, &at)) != NULL;)
        if (item == schema)
            return false;
    if (!lm_lookup_add(&s->checked, hash, schema))
        lm_schema_nomem(s);
    return s->failed == LM_OK;
}

static const struct lm_jval *find_target(struct lm_schema *s, const struct lm_jval *ref);

/* A keyword that is none of known[]. */
static int check_unknown(struct lm_schema *s, const struct lm_jval *m)
{
    for (size_t i = 0; i < sizeof older / sizeof *older; i++)
        if (strlen(older[i].name) == m->key_len && !memcmp(older[i].name, m->key, m->key_len))
            return lm_schema_fail(s, m, "a keyword of draft %s, for which %s is read",
                                  older[i].draft, older[i].now);
    if (s->options->strict)
        return lm_schema_fail(s, m, "unknown keyword");
    note(s, m, "unknown keyword, which constrains nothing");
    return LM_OK;
}

static int check_keywords(struct lm_schema *s, const struct lm_jval *schema)
{
    for (const struct lm_jval *m = schema->first; m && s->failed == LM_OK; m = m->next) {
        const struct keyword *k = find_keyword(m);
        if (k)
            check_value(s, k->shape, m);
        else
            check_unknown(s, m);
        if (k && s->failed == LM_OK &&
            (!strcmp(k->name, "$ref") || !strcmp(k->name, "$dynamicRef")))
            find_target(s, m);
        if (k && s->failed == LM_OK && !strcmp(k->name, "format") && !lm_format_known(m))
            note(s, m, "unknown format, which constrains nothing");
    }
    return s->failed;
}

static int check(struct lm_schema *s, const struct lm_jval *schema)
{
    if (is_bool(schema))
        return LM_OK;
    if (schema->kind != LM_JSON_OBJECT)
        return lm_schema_fail(s, schema, "a schema is an object, true or false");
    return check_keywords(s, schema);
}

/* ---- references ---- */

/* A pointer's next part, decoded into buf, which has room; p moves behind it. */
static struct lm_name next_part(const char **p, const char *end, char *buf)
{
    size_t n = 0;
    for (; *p < end && **p != '/'; (*p)++) {
        const char *c = *p;
        if (*c == '~' && c + 1 < end && (c[1] == '0' || c[1] == '1')) {
            buf[n++] = c[1] == '0' ? '~' : '/';
            (*p)++;
        } else {
            buf[n++] = *c;
        }
    }
    return (struct lm_name){ buf, n };
}

static const struct lm_jval *element(const struct lm_schema *s, const struct lm_jval *array,
                                     struct lm_name index)
{
    uint64_t i = 0;
    if (index.len == 0 || index.len > 9 || (index.len > 1 && *index.p == '0'))
        return NULL;
    for (size_t k = 0; k < index.len; k++) {
        if (index.p[k] < '0' || index.p[k] > '9')
            return NULL;
        i = 10 * i + (uint64_t)(index.p[k] - '0');
    }
    return lm_schema_element(s, array, i);
}

static const struct lm_jval *follow(const struct lm_schema *s, const struct lm_jval *v,
                                    struct lm_name pointer, char *buf)
{
    const char *p = pointer.p, *end = pointer.p + pointer.len;
    while (v && p < end) {
        p++;                                      /* the slash */
        const struct lm_name part = next_part(&p, end, buf);
        v = v->kind == LM_JSON_ARRAY ? element(s, v, part) : lm_schema_member(s, v, part);
    }
    return v;
}

static struct lm_name string_of(const struct lm_jval *v)
{
    return v && v->kind == LM_JSON_STRING ? (struct lm_name){ v->str, v->len }
                                          : (struct lm_name){ NULL, 0 };
}

/* Replace %HH by the byte, in place. */
static size_t unescape(char *p, size_t n)
{
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        const int hi = p[i] == '%' && i + 2 < n ? lm_hex_digit(p[i + 1]) : -1;
        const int lo = hi >= 0 ? lm_hex_digit(p[i + 2]) : -1;
        if (lo >= 0) {
            p[to++] = (char)(hi << 4 | lo);
            i += 2;
        } else {
            p[to++] = p[i];
        }
    }
    return to;
}

/* The schema of this document that a reference's address, without fragment, names. */
static const struct lm_jval *find_document(const struct lm_schema *s, const struct lm_jval *ref,
                                           struct lm_name address)
{
    int n = 0;
    if (address.len == 0)
        return lm_schema_base(s, ref);
    const struct lm_jval *found = lm_schema_named(s, s->root, "$id", address, &n);
    const struct lm_name base = string_of(lm_jval_get(s->root, "$id"));
    if (found)
        return found;
    for (size_t i = base.len; i > 0 && !found; i--) {        /* relative to the root's */
        if (base.p[i - 1] != '/')
            continue;
        char *full = lm_arena_alloc(s->arena, i + address.len + 1);
        if (!full)
            return NULL;
        memcpy(full, base.p, i);
        memcpy(full + i, address.p, address.len);
        found = lm_schema_named(s, s->root, "$id",
                                (struct lm_name){ full, i + address.len }, &n);
        break;
    }
    return found;
}

static const struct lm_jval *find_fragment(struct lm_schema *s, const struct lm_jval *ref,
                                           const struct lm_jval *document, struct lm_name name)
{
    int n = 0, dynamic = 0;
    char *buf = lm_arena_alloc(s->arena, name.len + 1);
    if (!buf) {
        lm_schema_nomem(s);
        return NULL;
    }
    if (name.len == 0 || *name.p == '/')
        return follow(s, document, name, buf);
    const struct lm_jval *found = lm_schema_named(s, document, "$anchor", name, &n);
    const struct lm_jval *other = lm_schema_named(s, document, "$dynamicAnchor", name,
                                                  &dynamic);
    if (n + dynamic > 1)
        lm_schema_fail(s, ref, "%d schemas have this anchor", n + dynamic);
    return found ? found : other;
}

/* What a reference names; NULL: nothing, which is a failure. */
static const struct lm_jval *find_target(struct lm_schema *s, const struct lm_jval *ref)
{
    char *text = lm_arena_copy(s->arena, ref->str, ref->len);
    if (!text) {
        lm_schema_nomem(s);
        return NULL;
    }
    const char *hash = memchr(text, '#', ref->len);
    const size_t address = hash ? (size_t)(hash - text) : ref->len;
    const struct lm_jval *document = find_document(s, ref, (struct lm_name){ text, address });
    if (!document) {
        lm_schema_fail(s, ref, "the reference leads to another document");
        return NULL;
    }
    const size_t fragment = hash ? unescape(text + address + 1, ref->len - address - 1) : 0;
    const struct lm_jval *target = find_fragment(s, ref, document,
                                                 (struct lm_name){ text + address + 1, fragment });
    if (!target)
        lm_schema_fail(s, ref, "the reference leads nowhere");
    return s->failed == LM_OK ? target : NULL;
}

const struct lm_jval *lm_schema_target(struct lm_schema *s, const struct lm_jval *ref)
{
    const struct lm_jval *target = find_target(s, ref);
    if (target && first_visit(s, target))         /* perhaps where no schema is looked for */
        check(s, target);
    return s->failed == LM_OK ? target : NULL;
}

/* ---- the whole ---- */

static const struct lm_schema_options usual;

static void release(struct lm_schema *s)
{
    for (size_t i = 0; i < s->n_matchers; i++) {
        lm_machine_free(s->matchers[i]->machine);
        lm_grammar_free(s->matchers[i]->grammar);
    }
    free(s->matchers);
    free(s->places);
    struct lm_lookup *const all[] = {
        &s->members, &s->elements, &s->declared, &s->named, &s->bases, &s->place_table,
        &s->checked, &s->matcher_table, &s->numbers,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        lm_lookup_release(all[i]);
    lm_tree_release(&s->tree);
}

/* never: it is no failure but that nothing satisfies the schema. */
static struct lm_grammar *compile(const char *text, size_t len, const struct lm_schema_options *o,
                                  struct lm_buf *notes, bool *never, struct lm_err *err)
{
    struct lm_schema s = { .options = o, .notes = notes, .err = err };
    struct lm_grammar *g = NULL;
    s.arena = &s.tree.arena;
    if (len > LM_GRAMMAR_TEXT) {
        lm_fail(err, LM_EUSE, "the schema is larger than %d bytes", LM_GRAMMAR_TEXT);
        return NULL;
    }
    if (len >= 3 && !memcmp(text, LM_GRAMMAR_MARK, 3)) {
        text += 3;
        len -= 3;
    }
    s.root = lm_json_tree(s.arena, text, len, err);
    if (!s.root && err->code == LM_EDATA)
        err->code = LM_EUSE;                      /* another schema would do */
    if (s.root && lm_schema_scan(&s) == LM_OK && check(&s, s.root) == LM_OK &&
        lm_tree_add_rule(&s.tree, "the schema", NULL, err) == LM_OK) {
        struct lm_conj all = { 0 };
        lm_conj_add(&s, &all, (struct lm_literal){ s.root, false });
        struct lm_node *node = lm_value_node(&s, &all);
        lm_schema_finish(&s);
        s.tree.rules[0].node = node;
        if (s.failed == LM_OK)
            g = lm_grammar_compile(&s.tree, err);
        *never = s.failed == LM_OK && !g && err->code == LM_EUSE && !s.tree.rules[0].productive;
    }
    release(&s);
    return g;
}

struct lm_grammar *lm_grammar_schema(const char *text, size_t len,
                                     const struct lm_schema_options *o, struct lm_buf *notes,
                                     struct lm_err *err)
{
    struct lm_schema_options open = o ? *o : usual;
    struct lm_err other;
    bool never = false;
    struct lm_grammar *g = compile(text, len, o ? o : &usual, notes, &never, err);
    if (g || !never || open.open)
        return g;
    open.open = true;
    if ((g = compile(text, len, &open, NULL, &never, &other)) != NULL)
        lm_fail(err, LM_EUSE, "the schema can only be completed with members or items that its "
                "properties and prefixItems do not name: it has to allow them "
                "(additionalProperties, items), or --open-objects does");
    lm_grammar_free(g);
    return NULL;
}

struct lm_grammar *lm_grammar_choice(const char *const *texts, size_t n, struct lm_err *err)
{
    struct lm_schema s = { .options = &usual, .err = err };
    struct lm_grammar *g = NULL;
    s.arena = &s.tree.arena;
    struct lm_node *choice = lm_schema_node(&s, LM_NODE_CHOICE);
    for (size_t i = 0; i < n; i++)
        lm_schema_add(&s, choice, lm_schema_text(&s, texts[i]));
    if (s.failed == LM_OK && lm_tree_add_rule(&s.tree, "the choice", choice, err) == LM_OK)
        g = lm_grammar_compile(&s.tree, err);
    release(&s);
    return g;
}
