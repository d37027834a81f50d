/* SPDX-License-Identifier: MIT */
/* Dictionaries: in order of insertion, with keys of any kind that Python can hash. */
#include <string.h>

#include "template/jinja.h"

static uint64_t hash_bytes(const char *p, size_t n)
{
    uint64_t h = 0xCBF29CE484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * 0x100000001B3u;
    return h ^ h >> 32;
}

/* Equal values have equal hashes: 1, 1.0 and true are one key. */
static uint64_t hash(struct jrun *r, struct jv key)
{
    uint64_t h = 0;
    double f;
    switch (key.kind) {
    case J_STR: case J_BYTES:
        lm_jread(r, key);
        return hash_bytes(key.s->p, key.s->len);
    case J_INT: case J_BIG: case J_BOOL: case J_FLOAT:
        f = key.kind == J_BIG ? lm_jbig_f64(key.big) : lm_jnumber(r, key);
        f = f == 0 ? 0 : f;
        return hash_bytes((const char *)&f, sizeof f);
    case J_TUPLE:
        lm_jdeeper(r);
        lm_jstep(r, key.l->n + 1);
        for (size_t i = 0; i < key.l->n; i++)
            h = h * 0x9E3779B97F4A7C15u + hash(r, key.l->v[i]);
        r->depth--;
        return h ^ h >> 29;
    case J_LIST: case J_DICT:
        lm_jfail(r, "unhashable type: '%s'", lm_jtype(key));
    default:
        return (uint64_t)key.kind;
    }
}

struct jv lm_jdict(struct jrun *r)
{
    return (struct jv){ .kind = J_DICT, .d = lm_jalloc(r, 1, sizeof(struct jdict)) };
}

static struct jpair *find(struct jrun *r, const struct jdict *d, struct jv key, uint64_t h)
{
    if (!d->n_slots) {
        for (size_t i = 0; i < d->n; i++)
            if (d->e[i].hash == h && lm_jequal(r, d->e[i].key, key))
                return &d->e[i];
        return NULL;
    }
    for (size_t i = h & (d->n_slots - 1); d->slots[i]; i = (i + 1) & (d->n_slots - 1)) {
        struct jpair *e = &d->e[d->slots[i] - 1];
        if (e->hash == h && lm_jequal(r, e->key, key))
            return e;
    }
    return NULL;
}

struct jv *lm_jdict_get(struct jrun *r, const struct jdict *d, struct jv key)
{
    if (!d->n && key.kind == J_STR)
        return NULL;
    struct jpair *e = find(r, d, key, hash(r, key));
    return e ? &e->value : NULL;
}

static void put_slot(struct jdict *d, size_t entry)
{
    size_t i = d->e[entry].hash & (d->n_slots - 1);
    while (d->slots[i])
        i = (i + 1) & (d->n_slots - 1);
    d->slots[i] = (uint32_t)entry + 1;
}

static void grow(struct jrun *r, struct jdict *d)
{
    size_t cap = d->cap ? 2 * d->cap : 4;
    struct jpair *e = lm_jalloc(r, cap, sizeof *e);
    if (cap > UINT32_MAX / 4)
        lm_jfail(r, "a dictionary has too many keys");
    if (d->n)
        memcpy(e, d->e, d->n * sizeof *e);
    d->e = e;
    d->cap = cap;
    if (cap <= 8)
        return;
    d->n_slots = 2 * cap;
    d->slots = lm_jalloc(r, d->n_slots, sizeof *d->slots);
    for (size_t i = 0; i < d->n; i++)
        put_slot(d, i);
}

void lm_jdict_put(struct jrun *r, struct jdict *d, struct jv key, struct jv value)
{
    uint64_t h = hash(r, key);
    struct jpair *e = find(r, d, key, h);
    if (e) {
        e->value = value;
        return;
    }
    if (d->n == d->cap)
        grow(r, d);
    d->e[d->n] = (struct jpair){ key, value, h };
    d->n++;
    if (d->n_slots)
        put_slot(d, d->n - 1);
}

struct jv *lm_jdict_find(const struct jdict *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->e[i].key.kind == J_STR && lm_jstr_is(d->e[i].key.s, name))
            return &d->e[i].value;
    return NULL;
}
