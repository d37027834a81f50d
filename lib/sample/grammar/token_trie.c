/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

struct entry {
    const char *p;
    uint32_t    len, id;
};

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int c = memcmp(x->p, y->p, n);
    if (c)
        return c;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* How many leading bytes two tokens share. */
static uint32_t shared(const struct entry *a, const struct entry *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->p[n] == b->p[n])
        n++;
    return n;
}

/* Nodes for e [n], in order; open [longest] is scratch. */
static void build(struct lm_token_trie *t, const struct entry *e, size_t n, uint32_t *open)
{
    uint32_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t keep = i ? shared(&e[i - 1], &e[i]) : 0;
        if (i && keep == e[i].len && e[i - 1].len == e[i].len) {     /* the same bytes */
            struct lm_token_node *at = &t->nodes[open[depth - 1]];
            t->more[e[i].id] = at->first;
            at->first = (int32_t)e[i].id;
            continue;
        }
        while (depth > keep)
            t->nodes[open[--depth]].next = (uint32_t)t->n;
        while (depth < e[i].len) {
            open[depth] = (uint32_t)t->n;
            t->nodes[t->n++] = (struct lm_token_node){ .first = -1, .byte = (unsigned char)e[i].p[depth] };
            depth++;
        }
        t->nodes[open[depth - 1]].first = (int32_t)e[i].id;
    }
    while (depth > 0)
        t->nodes[open[--depth]].next = (uint32_t)t->n;
}

int lm_token_trie_init(struct lm_token_trie *t, const struct lm_vocab *v, uint32_t n_vocab,
                 struct lm_err *err)
{
    size_t n = 0, bytes = 0, longest = 0;
    *t = (struct lm_token_trie){ 0 };
    struct entry *e = lm_malloc_array(n_vocab, sizeof *e);
    t->more = lm_malloc_array(n_vocab, sizeof *t->more);
    for (uint32_t id = 0; e && t->more && id < n_vocab; id++) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        t->more[id] = -1;
        if (piece.len == 0 || piece.len > UINT32_MAX || lm_vocab_type(v, id) == LM_TOKEN_CONTROL ||
            lm_vocab_type(v, id) == LM_TOKEN_UNKNOWN)
            continue;
        e[n++] = (struct entry){ piece.p, (uint32_t)piece.len, id };
        bytes += piece.len;
        longest = piece.len > longest ? piece.len : longest;
    }
    uint32_t *open = lm_malloc_array(longest, sizeof *open);
    t->nodes = bytes < UINT32_MAX ? lm_malloc_array(bytes, sizeof *t->nodes) : NULL;
    if (!e || !t->more || !open || !t->nodes) {
        free(e);
        free(open);
        lm_token_trie_release(t);
        return lm_fail_nomem(err);
    }
    if (n)
        qsort(e, n, sizeof *e, by_bytes);
    build(t, e, n, open);
    free(e);
    free(open);
    return LM_OK;
}

void lm_token_trie_release(struct lm_token_trie *t)
{
    free(t->nodes);
    free(t->more);
    *t = (struct lm_token_trie){ 0 };
}
