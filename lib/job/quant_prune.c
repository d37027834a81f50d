/* SPDX-License-Identifier: MIT */
/* Quantizing without some of the layers: names and metadata of those that stay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "job/quant_parts.h"

/* The layer in "blk.7.attn_q.weight", and where its digits end; NULL when there is none. */
static const char *layer_of(const char *name, uint64_t *layer)
{
    char *end;
    if (strncmp(name, "blk.", 4) || name[4] < '0' || name[4] > '9')
        return NULL;
    *layer = strtoull(name + 4, &end, 10);
    return *end == '.' ? end : NULL;
}

/* How many layers before this one are left out; *gone: it is, too. */
static uint64_t before(const struct lm_prune *p, uint64_t layer, bool *gone)
{
    size_t n = 0;
    while (n < p->n && p->layers[n] < layer)
        n++;
    *gone = n < p->n && p->layers[n] == layer;
    return n;
}

int lm_prune_name(const struct lm_prune *p, const struct lm_str *name, struct lm_arena *arena,
                  struct lm_str *to)
{
    uint64_t layer;
    bool gone;
    char number[32];
    const char *rest = layer_of(name->p, &layer);
    *to = *name;
    if (!rest)
        return LM_OK;
    const uint64_t n = before(p, layer, &gone);
    if (gone)
        *to = (struct lm_str){ NULL, 0 };
    if (gone || !n)
        return LM_OK;
    const size_t head = (size_t)snprintf(number, sizeof number, "blk.%" PRIu64, layer - n);
    const size_t tail = name->len - (size_t)(rest - name->p);
    char *s = lm_arena_alloc(arena, head + tail + 1);
    if (!s)
        return LM_ENOMEM;
    memcpy(s, number, head);
    memcpy(s + head, rest, tail);
    s[head + tail] = 0;
    *to = (struct lm_str){ s, head + tail };
    return LM_OK;
}

/* Bytes of an element in memory. */
static size_t element(enum lm_gguf_kind kind)
{
    const size_t size = lm_gguf_kind_size(kind);
    return size ? size : kind == LM_GGUF_STR ? sizeof(struct lm_str) : sizeof(struct lm_gguf_arr);
}

int lm_prune_kv(const struct lm_prune *p, uint32_t n_layers, struct lm_gguf_kv *kv,
                struct lm_arena *arena)
{
    if (kv->kind != LM_GGUF_ARR || kv->arr.n != n_layers || !n_layers)
        return LM_OK;
    const size_t size = element(kv->arr.kind);
    char *data = lm_arena_array(arena, n_layers, size);
    uint64_t n = 0;
    bool gone;
    if (!data)
        return LM_ENOMEM;
    for (uint32_t i = 0; i < n_layers; i++) {
        before(p, i, &gone);
        if (!gone)
            memcpy(data + n++ * size, (const char *)kv->arr.data + i * size, size);
    }
    kv->arr.data = data;
    kv->arr.n = n;
    return LM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lm_importance_entry *)a)->name,
                  ((const struct lm_importance_entry *)b)->name);
}

struct lm_importance *lm_prune_importance(const struct lm_prune *p,
                                          const struct lm_importance *m)
{
    struct lm_importance *to = lm_importance_new();
    if (to)
        to->entries = lm_malloc_array(m->n + 1, sizeof *to->entries);
    if (!to || !to->entries) {
        lm_importance_free(to);
        return NULL;
    }
    to->legacy = m->legacy;
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_str name = { m->entries[i].name, strlen(m->entries[i].name) };
        struct lm_str now;
        if (lm_prune_name(p, &name, &to->arena, &now)) {
            lm_importance_free(to);
            return NULL;
        }
        if (!now.p)
            continue;
        to->entries[to->n] = m->entries[i];
        to->entries[to->n++].name = now.p;
    }
    if (to->n)
        qsort(to->entries, to->n, sizeof *to->entries, by_name);
    return to;
}
