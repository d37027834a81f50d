/* SPDX-License-Identifier: MIT */
/*
 * Building a double array from sorted strings.  A node is a range of strings that agree up to
 * its depth; its children need a base such that base ^ c is free for each of their bytes c.
 * Units come in blocks of 256, and base ^ c stays in the block of base, so a place is looked
 * for block by block.  Free units are a list through `base`, newest block first for nodes of
 * several children; a node with one child takes the oldest free unit, so that gaps fill.
 */
#include "vocab/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { BLOCK = 256, N_TRIES = 64 };

#define FREE UINT32_MAX                          /* parent of a unit that is not used */

struct key {
    uint64_t    head;                            /* the first bytes, as a number      */
    const char *p;
    uint32_t    len, id;
};

struct range {
    uint32_t node, lo, hi, depth;
};

struct builder {
    struct lm_trie *t;
    struct key     *key;
    struct range   *todo;
    size_t          n_todo, todo_cap;
};

static int by_text(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    int c = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);
    if (!c)
        c = (x->len > y->len) - (x->len < y->len);
    return c ? c : (x->id > y->id) - (x->id < y->id);
}

/* 256 more units, all free. */
static bool add_block(struct lm_trie *t)
{
    if (t->n > UINT32_MAX - BLOCK || !lm_grow(&t->unit, &t->cap, t->n + BLOCK, sizeof *t->unit))
        return false;
    for (size_t i = t->n; i < t->n + BLOCK; i++)
        t->unit[i] = (struct lm_trie_unit){ 0, FREE, -1 };
    t->n += BLOCK;
    return true;
}

static bool fits(const struct lm_trie *t, uint32_t base, const unsigned char *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->unit[base ^ c[i]].parent != FREE)
            return false;
    return true;
}

/* A base for children of the bytes c[0 .. n). */
static bool place(struct lm_trie *t, const unsigned char *c, size_t n, uint32_t *base)
{
    if (n == 1) {                                /* the first unit that is free */
        while (t->free_at < t->n && t->unit[t->free_at].parent != FREE)
            t->free_at++;
        if (t->free_at == t->n && !add_block(t))
            return false;
        *base = t->free_at ^ c[0];
        return true;
    }
    uint32_t last = (uint32_t)t->n - BLOCK;
    size_t tries = n > 16 ? BLOCK : N_TRIES;
    for (uint32_t i = 0; i < BLOCK && tries; i++) {
        if (t->unit[last + i].parent != FREE)
            continue;
        tries--;
        *base = (last + i) ^ c[0];
        if (fits(t, *base, c, n))
            return true;
    }
    if (!add_block(t))
        return false;
    *base = (uint32_t)t->n - BLOCK;
    return true;
}

/* The strings of a node: one may end at it, the others go on by its children. */
static bool add_node(struct builder *b, struct range r)
{
    unsigned char c[256];
    uint32_t from[257], base;
    size_t n = 0;
    for (; r.lo < r.hi && b->key[r.lo].len == r.depth; r.lo++)
        if (b->t->unit[r.node].id < 0)
            b->t->unit[r.node].id = (int32_t)b->key[r.lo].id;
    for (uint32_t i = r.lo; i < r.hi; i++) {
        unsigned char x = (unsigned char)b->key[i].p[r.depth];
        if (!n || c[n - 1] != x) {
            c[n] = x;
            from[n++] = i;
        }
    }
    if (!n)
        return true;
    from[n] = r.hi;
    if (!place(b->t, c, n, &base) ||
        !lm_grow(&b->todo, &b->todo_cap, b->n_todo + n, sizeof *b->todo))
        return false;
    b->t->unit[r.node].base = base;
    for (size_t i = n; i-- > 0;) {
        b->t->unit[base ^ c[i]].parent = r.node;
        b->todo[b->n_todo++] = (struct range){ base ^ c[i], from[i], from[i + 1], r.depth + 1 };
    }
    return true;
}

static uint64_t head_of(const char *p, size_t len)
{
    uint64_t h = 0;
    for (size_t i = 0; i < 8; i++)
        h = h << 8 | (i < len ? (unsigned char)p[i] : 0);
    return h;
}

int lm_trie_build(struct lm_trie *t, const struct lm_str *text, const uint32_t *id, size_t n,
                  struct lm_err *err)
{
    struct builder b = { .t = t, .key = lm_malloc_array(n + 1, sizeof *b.key) };
    uint32_t k = 0;
    *t = (struct lm_trie){ 0 };
    bool ok = b.key && add_block(t);
    for (size_t i = 0; ok && i < n; i++)
        if (text[i].len && text[i].len < UINT32_MAX)
            b.key[k++] = (struct key){ head_of(text[i].p, text[i].len), text[i].p,
                                       (uint32_t)text[i].len, id ? id[i] : (uint32_t)i };
    if (ok) {
        qsort(b.key, k, sizeof *b.key, by_text);
        t->unit[0].parent = 0;
        ok = add_node(&b, (struct range){ 0, 0, k, 0 });
    }
    while (ok && b.n_todo)
        ok = add_node(&b, b.todo[--b.n_todo]);
    free(b.key);
    free(b.todo);
    if (ok)
        return LM_OK;
    lm_trie_release(t);
    return lm_fail_nomem(err);
}

void lm_trie_release(struct lm_trie *t)
{
    free(t->unit);
    *t = (struct lm_trie){ 0 };
}
