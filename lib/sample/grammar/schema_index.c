/* SPDX-License-Identifier: MIT */
/* What a schema's text holds, found by hash: members of large objects, schemas that have a name,
 * and what references in it are relative to. */
#include <stdlib.h>
#include <string.h>

#include "sample/grammar/schema_parts.h"

#define FEW_MEMBERS 12               /* up to which a member is looked for one by one    */

/* ---- tables ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

uint64_t lm_lookup_hash(const void *owner, struct lm_name name)
{
    uint64_t h = mix(name.len, (uintptr_t)owner);
    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.p[i]) * 1099511628211u;      /* FNV-1a */
    return mix(h, 0);
}

bool lm_lookup_add(struct lm_lookup *t, uint64_t hash, const void *item)
{
    if (2 * (t->n + 1) > t->n_slots) {
        const struct lm_lookup old = *t;
        t->n_slots = old.n_slots ? 2 * old.n_slots : 64;
        t->slots = calloc(t->n_slots, sizeof *t->slots);
        if (!t->slots) {
            *t = old;
            return false;
        }
        t->n = 0;
        for (size_t i = 0; i < old.n_slots; i++)
            if (old.slots[i].item)
                lm_lookup_add(t, old.slots[i].hash, old.slots[i].item);
        free(old.slots);
    }
    size_t k = hash & (t->n_slots - 1);
    while (t->slots[k].item)
        k = (k + 1) & (t->n_slots - 1);
    t->slots[k].hash = hash;
    t->slots[k].item = item;
    t->n++;
    return true;
}

const void *lm_lookup_next(const struct lm_lookup *t, uint64_t hash, size_t *at)
{
    if (!t->n_slots)
        return NULL;
    size_t k = *at == SIZE_MAX ? hash & (t->n_slots - 1) : (*at + 1) & (t->n_slots - 1);
    while (t->slots[k].item && t->slots[k].hash != hash)
        k = (k + 1) & (t->n_slots - 1);
    *at = k;
    return t->slots[k].item;
}

void lm_lookup_release(struct lm_lookup *t)
{
    free(t->slots);
    *t = (struct lm_lookup){ 0 };
}

/* ---- members ---- */

bool lm_same_name(struct lm_name a, struct lm_name b)
{
    return a.len == b.len && (a.len == 0 || !memcmp(a.p, b.p, a.len));
}

/* A member of a large object. */
struct member {
    const struct lm_jval *object, *value;
};

static const struct lm_jval *find_member(const struct lm_schema *s, const struct lm_jval *object,
                                         struct lm_name name)
{
    const uint64_t hash = lm_lookup_hash(object, name);
    const struct member *m;
    for (size_t at = SIZE_MAX; (m = lm_lookup_next(&s->members, hash, &at)) != NULL;)
        if (m->object == object && lm_same_name(lm_key_of(m->value), name))
            return m->value;
    return NULL;
}

const struct lm_jval *lm_schema_member(const struct lm_schema *s, const struct lm_jval *object,
                                       struct lm_name name)
{
    if (!object || object->kind != LM_JSON_OBJECT)
        return NULL;
    if (object->len > FEW_MEMBERS)
        return find_member(s, object, name);
    for (const struct lm_jval *m = object->first; m; m = m->next)
        if (lm_same_name(lm_key_of(m), name))
            return m;
    return NULL;
}

/* Note the members of an object, none of which may be there twice. */
static void add_members(struct lm_schema *s, const struct lm_jval *object)
{
    struct member *all = object->len <= FEW_MEMBERS ? NULL :
                         lm_arena_array(s->arena, object->len, sizeof *all);
    if (object->len > FEW_MEMBERS && !all)
        lm_schema_nomem(s);
    for (const struct lm_jval *m = object->first; m && s->failed == LM_OK; m = m->next) {
        const struct lm_jval *same = all ? find_member(s, object, lm_key_of(m)) :
                                     lm_schema_member(s, object, lm_key_of(m));
        if (same && same != m)
            lm_schema_fail(s, m, "the name is there twice");
        if (!all)
            continue;
        *all = (struct member){ object, m };
        if (!lm_lookup_add(&s->members, lm_lookup_hash(object, lm_key_of(m)), all++))
            lm_schema_nomem(s);
    }
}

/* ---- elements ---- */

/* A large array's. */
struct elements {
    const struct lm_jval *array, **list;
};

static uint64_t hash_of(const struct lm_jval *v)
{
    return lm_lookup_hash(v, (struct lm_name){ NULL, 0 });
}

const struct lm_jval *lm_schema_element(const struct lm_schema *s, const struct lm_jval *array,
                                        uint64_t i)
{
    const struct lm_jval *m = array ? array->first : NULL;
    const struct elements *e;
    if (!array || array->kind != LM_JSON_ARRAY || i >= array->len)
        return NULL;
    for (size_t at = SIZE_MAX; array->len > FEW_MEMBERS &&
                               (e = lm_lookup_next(&s->elements, hash_of(array), &at)) != NULL;)
        if (e->array == array)
            return e->list[i];
    while (m && i-- > 0)
        m = m->next;
    return m;
}

static void add_elements(struct lm_schema *s, const struct lm_jval *array)
{
    size_t n = 0;
    if (array->len <= FEW_MEMBERS)
        return;
    struct elements *e = lm_arena_alloc(s->arena, sizeof *e);
    if (e)
        *e = (struct elements){ array, lm_arena_array(s->arena, array->len, sizeof *e->list) };
    if (!e || !e->list || !lm_lookup_add(&s->elements, hash_of(array), e)) {
        lm_schema_nomem(s);
        return;
    }
    for (const struct lm_jval *m = array->first; m; m = m->next)
        e->list[n++] = m;
}

/* ---- names and references ---- */

/* A schema that has a name, or the base of a reference. */
struct named {
    const struct lm_jval *what, *schema;
    struct lm_name        name;          /* of a base: none                              */
    size_t                from, to;      /* its values, in the order of the text         */
};

enum place { A_SCHEMA, A_MAP, A_VALUE }; /* what an object's members are: keywords, schemas by
                                            name, or nothing of the kind                 */

struct scan {
    struct lm_schema     *s;
    size_t                n;             /* values so far                                */
    const struct lm_jval *base;
};

static struct named *add_named(struct lm_schema *s, const struct lm_jval *what,
                               const struct lm_jval *schema, struct lm_name name, size_t from)
{
    struct named *n = s->failed == LM_OK ? lm_arena_alloc(s->arena, sizeof *n) : NULL;
    if (!n || !lm_lookup_add(&s->named, lm_lookup_hash(NULL, name), n)) {
        lm_schema_nomem(s);
        return NULL;
    }
    *n = (struct named){ .what = what, .schema = schema, .name = name, .from = from };
    return n;
}

static bool is_key(const struct lm_jval *m, const char *key)
{
    return m->key_len == strlen(key) && !memcmp(m->key, key, m->key_len);
}

/* Note a keyword that names its schema, or a reference that is not relative to the root. */
static void add_keyword(struct scan *x, const struct lm_jval *schema, const struct lm_jval *m,
                        size_t from, struct named **own, size_t *n_own)
{
    const bool names = is_key(m, "$id") || is_key(m, "$anchor") || is_key(m, "$dynamicAnchor");
    if (m->kind != LM_JSON_STRING)
        return;
    if (names && (own[*n_own] = add_named(x->s, m, schema, (struct lm_name){ m->str, m->len },
                                          from)) != NULL)
        ++*n_own;
    if ((is_key(m, "$ref") || is_key(m, "$dynamicRef")) && x->base != x->s->root) {
        struct named *ref = lm_arena_alloc(x->s->arena, sizeof *ref);
        if (!ref || !lm_lookup_add(&x->s->bases, hash_of(m), ref))
            lm_schema_nomem(x->s);
        else
            *ref = (struct named){ .what = m, .schema = x->base };
    }
}

static void scan(struct scan *x, const struct lm_jval *v, enum place place)
{
    const struct lm_jval *base = x->base, *id = lm_jval_get(v, "$id");
    const size_t from = x->n++;
    struct named *own[3];
    size_t n_own = 0;
    if (v->kind == LM_JSON_OBJECT)
        add_members(x->s, v);
    else if (v->kind == LM_JSON_ARRAY)
        add_elements(x->s, v);
    if (id && id->kind == LM_JSON_STRING && id->len && *id->str != '#')
        x->base = v;
    for (const struct lm_jval *m = v->first; m && x->s->failed == LM_OK; m = m->next) {
        enum place below = place == A_VALUE ? A_VALUE : A_SCHEMA;
        if (v->kind == LM_JSON_OBJECT && place == A_SCHEMA) {
            add_keyword(x, v, m, from, own, &n_own);
            below = lm_keyword_is_map(m) ? A_MAP : lm_keyword_is_value(m) ? A_VALUE : A_SCHEMA;
        }
        scan(x, m, below);
    }
    for (size_t i = 0; i < n_own; i++)
        own[i]->to = x->n;
    x->base = base;
}

int lm_schema_scan(struct lm_schema *s)
{
    struct scan x = { .s = s, .base = s->root };
    scan(&x, s->root, A_SCHEMA);
    return s->failed;
}

const struct lm_jval *lm_schema_base(const struct lm_schema *s, const struct lm_jval *ref)
{
    const uint64_t hash = hash_of(ref);
    const struct named *n;
    for (size_t at = SIZE_MAX; (n = lm_lookup_next(&s->bases, hash, &at)) != NULL;)
        if (n->what == ref)
            return n->schema;
    return s->root;
}

/* Where the values of a document are: one that has an $id, or the root. */
static void find_range(const struct lm_schema *s, const struct lm_jval *document, size_t *from,
                       size_t *to)
{
    const struct lm_jval *id = lm_jval_get(document, "$id");
    const struct named *n;
    *from = 0;
    *to = SIZE_MAX;
    if (document == s->root || !id)
        return;
    const uint64_t hash = lm_lookup_hash(NULL, (struct lm_name){ id->str, id->len });
    for (size_t at = SIZE_MAX; (n = lm_lookup_next(&s->named, hash, &at)) != NULL;)
        if (n->what == id) {
            *from = n->from;
            *to = n->to;
        }
}

const struct lm_jval *lm_schema_named(const struct lm_schema *s, const struct lm_jval *document,
                                      const char *keyword, struct lm_name name, int *n)
{
    const struct lm_jval *found = NULL;
    const struct named *x;
    size_t from, to;
    find_range(s, document, &from, &to);
    for (size_t at = SIZE_MAX; (x = lm_lookup_next(&s->named, lm_lookup_hash(NULL, name), &at));) {
        if (!is_key(x->what, keyword) || !lm_same_name(x->name, name) || x->from < from ||
            x->from >= to)
            continue;
        ++*n;
        found = found && x->from > from ? found : x->schema;
    }
    return found;
}
