/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

#define ALIGN     16
#define BLOCK_MIN 4096
#define BLOCK_MAX ((size_t)2 << 20)    /* a large page; such blocks are tables (base/table.h) */

struct lm_arena_block {
    struct lm_arena_block *prev;
    size_t                 size, used, mapped;    /* mapped: 0, or bytes of a table */
    _Alignas(ALIGN) unsigned char data[];
};

struct lm_arena_owned {              /* lies in the arena itself */
    struct lm_arena_owned *next;
    void                  *p;
};

/* Blocks double up to BLOCK_MAX, so that many small items cost few mallocs and
 * a small arena stays small; a larger item gets a block of its own size. */
static struct lm_arena_block *new_block(struct lm_arena *a, size_t need)
{
    size_t size = a->last ? 2 * (a->last->size + sizeof *a->last) : BLOCK_MIN, mapped = 0;
    if (size > BLOCK_MAX)
        size = BLOCK_MAX;
    if (need > SIZE_MAX - sizeof *a->last - BLOCK_MAX)
        return NULL;
    if (size < need + sizeof *a->last)
        size = need + sizeof *a->last;
    if (size >= BLOCK_MAX / 2)
        size = mapped = (size + BLOCK_MAX - 1) & ~(BLOCK_MAX - 1);

    struct lm_arena_block *b = mapped ? lm_table_new(mapped) : calloc(1, size);
    if (!b)
        return NULL;
    b->size = size - sizeof *b;
    b->mapped = mapped;
    b->prev = a->last;
    a->last = b;
    return b;
}

void *lm_arena_alloc(struct lm_arena *a, size_t size)
{
    if (size > SIZE_MAX - ALIGN)
        return NULL;
    size = (size + ALIGN - 1) / ALIGN * ALIGN;

    struct lm_arena_block *b = a->last;
    if (!b || b->size - b->used < size) {
        b = new_block(a, size);
        if (!b)
            return NULL;
    }
    void *p = b->data + b->used;
    b->used += size;
    a->used += size;
    return p;
}

void *lm_arena_array(struct lm_arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return lm_arena_alloc(a, total);
}

char *lm_arena_copy(struct lm_arena *a, const void *p, size_t n)
{
    if (n == SIZE_MAX)
        return NULL;
    char *copy = lm_arena_alloc(a, n + 1);
    if (copy && n)
        memcpy(copy, p, n);
    return copy;
}

void *lm_arena_own(struct lm_arena *a, void *p)
{
    struct lm_arena_owned *o = p ? lm_arena_alloc(a, sizeof *o) : NULL;
    if (!o)
        return NULL;
    *o = (struct lm_arena_owned){ a->owned, p };
    a->owned = o;
    return p;
}

void lm_arena_release(struct lm_arena *a)
{
    for (struct lm_arena_owned *o = a->owned; o; o = o->next)
        free(o->p);
    a->owned = NULL;
    struct lm_arena_block *b = a->last;
    while (b) {
        struct lm_arena_block *prev = b->prev;
        if (b->mapped)
            lm_table_free(b, b->mapped);
        else
            free(b);
        b = prev;
    }
    a->last = NULL;
    a->used = 0;
}
