/* SPDX-License-Identifier: MIT */
/* Is a given value valid?  For the values of enum and const, and for names of members. */
#include <string.h>

#include "sample/grammar/schema_parts.h"

enum { NO, YES, UNKNOWN = -1 };          /* UNKNOWN: something has failed                */

static int valid(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *v);

static bool decimals(struct lm_schema *s, const struct lm_jval *a, const struct lm_jval *b,
                     struct lm_decimal *x, struct lm_decimal *y)
{
    return lm_schema_decimal(s, a, x) && lm_schema_decimal(s, b, y);
}

static size_t length(const struct lm_jval *v)
{
    size_t n = 0;
    for (const struct lm_jval *m = v->first; m; m = m->next)
        n++;
    return n;
}

bool lm_jval_same(struct lm_schema *s, const struct lm_jval *a, const struct lm_jval *b)
{
    struct lm_decimal x, y;
    if (a->kind != b->kind || !lm_schema_spend(s, 1, NULL))
        return false;
    switch (a->kind) {
    case LM_JSON_NUMBER:
        return decimals(s, a, b, &x, &y) && lm_decimal_cmp(&x, &y) == 0;
    case LM_JSON_STRING:
        return a->len == b->len && !memcmp(a->str, b->str, a->len);
    case LM_JSON_OBJECT:
        if (length(a) != length(b))
            return false;
        for (const struct lm_jval *m = a->first; m; m = m->next) {
            const struct lm_jval *other = lm_schema_member(s, b, lm_key_of(m));
            if (!other || !lm_jval_same(s, m, other))
                return false;
        }
        return true;
    case LM_JSON_ARRAY:
        b = b->first;
        for (a = a->first; a && b; a = a->next, b = b->next)
            if (!lm_jval_same(s, a, b))
                return false;
        return !a && !b;
    default:
        return true;
    }
}

/* ---- groups of schemas ---- */

/* How many of a list hold; UNKNOWN: something has failed. */
static int count_valid(struct lm_schema *s, const struct lm_jval *list, const struct lm_jval *v)
{
    int n = 0;
    for (const struct lm_jval *m = list->first; m; m = m->next) {
        const int r = valid(s, m, v);
        if (r < 0)
            return UNKNOWN;
        n += r;
    }
    return n;
}

static int check_condition(struct lm_schema *s, const struct lm_jval *schema,
                           const struct lm_jval *condition, const struct lm_jval *v)
{
    const int r = valid(s, condition, v);
    const struct lm_jval *then = lm_jval_get(schema, r == YES ? "then" : "else");
    return r < 0 ? UNKNOWN : then ? valid(s, then, v) : YES;
}

/* ---- numbers and strings ---- */

static int check_number(struct lm_schema *s, const char *key, const struct lm_jval *k,
                        const struct lm_jval *v)
{
    struct lm_decimal x, y;
    if (!decimals(s, v, k, &x, &y))
        return UNKNOWN;
    if (!strcmp(key, "multipleOf")) {
        const int r = lm_decimal_multiple(&x, &y);
        if (r < 0)
            lm_schema_fail(s, k, "multiples of more than %d, without the point, cannot be told",
                           LM_SCHEMA_FACTOR);
        return r;
    }
    const int c = lm_decimal_cmp(&x, &y);
    return !strcmp(key, "minimum") ? c >= 0 : !strcmp(key, "maximum") ? c <= 0 :
           !strcmp(key, "exclusiveMinimum") ? c > 0 : c < 0;
}

static uint64_t characters(const struct lm_jval *v)
{
    uint64_t n = 0;
    for (size_t i = 0; i < v->len; i++)
        n += (v->str[i] & 0xC0) != 0x80;
    return n;
}

static int check_string(struct lm_schema *s, const char *key, const struct lm_jval *k,
                        const struct lm_jval *v)
{
    if (!strcmp(key, "minLength"))
        return characters(v) >= lm_schema_count(k);
    if (!strcmp(key, "maxLength"))
        return characters(v) <= lm_schema_count(k);
    if (!strcmp(key, "format") && !lm_format_known(k))
        return YES;
    struct lm_matcher *m = !strcmp(key, "format") ? lm_format_matcher(s, k)
                                                  : lm_pattern_matcher(s, k);
    return m ? lm_matches(s, m, v->str, v->len) : UNKNOWN;
}

/* ---- arrays ---- */

static int check_items(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *v)
{
    const struct lm_jval *prefix, *rest;
    lm_schema_items(schema, &prefix, &rest);
    prefix = prefix ? prefix->first : NULL;
    for (const struct lm_jval *m = v->first; m; m = m->next) {
        const int r = prefix ? valid(s, prefix, m) : rest ? valid(s, rest, m) : YES;
        if (r != YES)
            return r;
        prefix = prefix ? prefix->next : NULL;
    }
    return YES;
}

static int check_contains(struct lm_schema *s, const struct lm_jval *schema,
                          const struct lm_jval *k, const struct lm_jval *v)
{
    const struct lm_jval *min = lm_jval_get(schema, "minContains");
    const struct lm_jval *max = lm_jval_get(schema, "maxContains");
    uint64_t n = 0;
    for (const struct lm_jval *m = v->first; m; m = m->next) {
        const int r = valid(s, k, m);
        if (r < 0)
            return r;
        n += (uint64_t)r;
    }
    return n >= (min ? lm_schema_count(min) : 1) && (!max || n <= lm_schema_count(max));
}

static int check_array(struct lm_schema *s, const char *key, const struct lm_jval *schema,
                       const struct lm_jval *k, const struct lm_jval *v)
{
    if (!strcmp(key, "minItems"))
        return length(v) >= lm_schema_count(k);
    if (!strcmp(key, "maxItems"))
        return length(v) <= lm_schema_count(k);
    if (!strcmp(key, "contains"))
        return check_contains(s, schema, k, v);
    if (!strcmp(key, "uniqueItems")) {
        for (const struct lm_jval *a = v->first; a && k->kind == LM_JSON_TRUE; a = a->next)
            for (const struct lm_jval *b = a->next; b; b = b->next)
                if (lm_jval_same(s, a, b))
                    return NO;
        return YES;
    }
    return check_items(s, schema, v);
}

/* ---- objects ---- */

/* All that applies to one member. */
static int check_member(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *m)
{
    const struct lm_jval *own = lm_schema_member(s, lm_jval_get(schema, "properties"),
                                                lm_key_of(m));
    const struct lm_jval *patterns = lm_jval_get(schema, "patternProperties");
    const struct lm_jval *others = lm_jval_get(schema, "additionalProperties");
    int r = own ? valid(s, own, m) : YES;
    bool declared = own != NULL;
    for (patterns = patterns ? patterns->first : NULL; patterns && r == YES;
         patterns = patterns->next) {
        struct lm_matcher *x = lm_pattern_matcher(s, patterns);
        r = x ? lm_matches(s, x, m->key, m->key_len) : UNKNOWN;
        if (r == YES) {
            declared = true;
            r = valid(s, patterns, m);
        } else if (r == NO) {
            r = YES;
        }
    }
    return r == YES && !declared && others ? valid(s, others, m) : r;
}

static int check_required(const struct lm_schema *s, const struct lm_jval *list,
                          const struct lm_jval *v)
{
    for (const struct lm_jval *name = list->first; name; name = name->next)
        if (!lm_schema_member(s, v, (struct lm_name){ name->str, name->len }))
            return NO;
    return YES;
}

static int check_dependencies(struct lm_schema *s, const struct lm_jval *list,
                              const struct lm_jval *v)
{
    int r = YES;
    for (const struct lm_jval *m = list->first; m && r == YES; m = m->next)
        if (lm_schema_member(s, v, lm_key_of(m)))
            r = m->kind == LM_JSON_ARRAY ? check_required(s, m, v) : valid(s, m, v);
    return r;
}

static int check_names(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *v)
{
    int r = YES;
    for (const struct lm_jval *m = v->first; m && r == YES; m = m->next) {
        const struct lm_jval name = { .kind = LM_JSON_STRING, .str = m->key, .len = m->key_len };
        r = valid(s, schema, &name);
    }
    return r;
}

static int check_object(struct lm_schema *s, const char *key, const struct lm_jval *schema,
                        const struct lm_jval *k, const struct lm_jval *v)
{
    if (!strcmp(key, "required"))
        return check_required(s, k, v);
    if (!strcmp(key, "minProperties"))
        return length(v) >= lm_schema_count(k);
    if (!strcmp(key, "maxProperties"))
        return length(v) <= lm_schema_count(k);
    if (!strcmp(key, "propertyNames"))
        return check_names(s, k, v);
    if (!strncmp(key, "dependen", 8))
        return check_dependencies(s, k, v);
    int r = YES;
    for (const struct lm_jval *m = v->first; m && r == YES; m = m->next)
        r = check_member(s, schema, m);
    return r;
}

/* ---- keywords ---- */

static int check_type(struct lm_schema *s, const struct lm_jval *k, const struct lm_jval *v)
{
    static const char *const names[] = {
        [LM_JSON_NULL] = "null", [LM_JSON_TRUE] = "boolean", [LM_JSON_FALSE] = "boolean",
        [LM_JSON_NUMBER] = "number", [LM_JSON_STRING] = "string", [LM_JSON_ARRAY] = "array",
        [LM_JSON_OBJECT] = "object",
    };
    struct lm_decimal d;
    if (k->kind == LM_JSON_ARRAY) {
        for (k = k->first; k; k = k->next)
            if (check_type(s, k, v) == YES)
                return YES;
        return NO;
    }
    if (!strcmp(k->str, "integer"))
        return v->kind == LM_JSON_NUMBER && lm_schema_decimal(s, v, &d) && lm_decimal_whole(&d);
    return !strcmp(k->str, names[v->kind]);
}

static int check_enum(struct lm_schema *s, const struct lm_jval *k, const struct lm_jval *v)
{
    if (k == s->listed && v == s->listed_value)   /* it comes from there */
        return YES;
    for (k = k->first; k; k = k->next)
        if (lm_jval_same(s, k, v))
            return YES;
    return NO;
}

/* Keywords for every type of value; UNKNOWN - 1: not one of these. */
static int check_any(struct lm_schema *s, const char *key, const struct lm_jval *schema,
                     const struct lm_jval *k, const struct lm_jval *v)
{
    int r;
    if (!strcmp(key, "type"))
        return check_type(s, k, v);
    if (!strcmp(key, "enum"))
        return check_enum(s, k, v);
    if (!strcmp(key, "const"))
        return lm_jval_same(s, k, v);
    if (!strcmp(key, "$ref") || !strcmp(key, "$dynamicRef")) {
        const struct lm_jval *target = lm_schema_target(s, k);
        return target ? valid(s, target, v) : UNKNOWN;
    }
    if (!strcmp(key, "allOf") || !strcmp(key, "anyOf") || !strcmp(key, "oneOf")) {
        r = count_valid(s, k, v);
        return r < 0 ? r : key[1] == 'l' ? r == (int)length(k) : key[1] == 'n' && key[0] == 'a' ?
               r > 0 : r == 1;
    }
    if (!strcmp(key, "not"))
        return (r = valid(s, k, v)) < 0 ? r : !r;
    if (!strcmp(key, "if"))
        return check_condition(s, schema, k, v);
    if (!strncmp(key, "unevaluated", 11)) {
        lm_schema_fail(s, k, "cannot be enforced beside enum or const");
        return UNKNOWN;
    }
    return UNKNOWN - 1;
}

static const struct {
    const char *key;
    char        type;                    /* number, string, array, object                */
} typed[] = {
    { "minimum", 'n' },       { "maximum", 'n' },       { "exclusiveMinimum", 'n' },
    { "exclusiveMaximum", 'n' }, { "multipleOf", 'n' }, { "minLength", 's' },
    { "maxLength", 's' },     { "pattern", 's' },       { "format", 's' },
    { "items", 'a' },         { "prefixItems", 'a' },   { "minItems", 'a' },
    { "maxItems", 'a' },      { "contains", 'a' },      { "uniqueItems", 'a' },
    { "required", 'o' },      { "minProperties", 'o' }, { "maxProperties", 'o' },
    { "propertyNames", 'o' }, { "dependentRequired", 'o' }, { "dependentSchemas", 'o' },
    { "dependencies", 'o' },  { "properties", 'o' },    { "patternProperties", 'o' },
    { "additionalProperties", 'o' },
};

static int check_keyword(struct lm_schema *s, const struct lm_jval *schema,
                         const struct lm_jval *k, const struct lm_jval *v)
{
    if (strlen(k->key) != k->key_len)            /* a NUL: no keyword */
        return YES;
    const int r = check_any(s, k->key, schema, k, v);
    if (r >= UNKNOWN)
        return r;
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        if (strcmp(typed[i].key, k->key))
            continue;
        if (typed[i].type == 'n' && v->kind == LM_JSON_NUMBER)
            return check_number(s, k->key, k, v);
        if (typed[i].type == 's' && v->kind == LM_JSON_STRING)
            return check_string(s, k->key, k, v);
        if (typed[i].type == 'a' && v->kind == LM_JSON_ARRAY)
            return check_array(s, k->key, schema, k, v);
        if (typed[i].type == 'o' && v->kind == LM_JSON_OBJECT)
            return check_object(s, k->key, schema, k, v);
    }
    return YES;
}

static int valid(struct lm_schema *s, const struct lm_jval *schema, const struct lm_jval *v)
{
    int r = YES;
    if (schema->kind != LM_JSON_OBJECT)
        return schema->kind == LM_JSON_TRUE;
    if (++s->depth > LM_SCHEMA_DEPTH)
        lm_schema_fail(s, schema, "the reference leads back to itself");
    for (const struct lm_jval *k = schema->first; k && r == YES; k = k->next)
        r = lm_schema_spend(s, 1, k) ? check_keyword(s, schema, k, v) : UNKNOWN;
    s->depth--;
    return s->failed < 0 ? UNKNOWN : r;
}

int lm_schema_valid(struct lm_schema *s, const struct lm_jval *v, const struct lm_conj *c)
{
    for (size_t i = 0; i < c->n; i++) {
        const int r = valid(s, c->list[i].schema, v);
        if (r < 0 || (r == YES) == c->list[i].negated)
            return r < 0 ? r : NO;
    }
    return YES;
}

int lm_schema_valid_name(struct lm_schema *s, struct lm_name name, const struct lm_conj *c)
{
    const struct lm_jval v = { .kind = LM_JSON_STRING, .str = name.p, .len = name.len };
    return lm_schema_valid(s, &v, c);
}
