/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_TRIE_H
#define LM_VOCAB_TRIE_H

/*
 * struct lm_trie - strings of bytes, followed a byte at a time.
 *
 * A double array: the child of node i by byte c is unit[i].base ^ c if that unit's
 * parent is i.  Node 0 is the root.  A step is one look into memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gguf/gguf.h"

struct lm_trie_unit {
    uint32_t base, parent;
    int32_t  id;                 /* of the string that ends here, or -1             */
};

struct lm_trie {
    struct lm_trie_unit *unit;
    size_t               n, cap;
    uint32_t             free_at;        /* used while it is built                  */
};

/*
 * lm_trie_build - n strings, with id[i] for string i, or id NULL: i.
 *
 * Of equal strings the lowest id counts; empty ones are left out.  Takes time in
 * proportion to the bytes and their sorting.  LM_ENOMEM.
 */
int lm_trie_build(struct lm_trie *t, const struct lm_str *text, const uint32_t *id, size_t n,
                  struct lm_err *err);
void lm_trie_release(struct lm_trie *t);

/* The node behind `node` by byte c, or 0. */
static inline uint32_t lm_trie_step(const struct lm_trie *t, uint32_t node, unsigned char c)
{
    uint32_t to = t->unit[node].base ^ c;
    return t->unit[to].parent == node ? to : 0;
}

#endif
