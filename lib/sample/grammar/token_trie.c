/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

struct entry {
    const char *p;
    uint32_t    len, id;
    uint32_t    before;              /* characters of a class before p    */
};

static int by_bytes(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    if (x->before != y->before)
        return x->before < y->before ? -1 : 1;
    const int c = memcmp(x->p, y->p, n);
    if (c)
        return c;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

bool lm_class_begins(enum lm_char_class c, unsigned char byte)
{
    const bool lower = byte >= 'a' && byte <= 'z', upper = byte >= 'A' && byte <= 'Z';
    const bool digit = byte >= '0' && byte <= '9';
    switch (c) {
    case LM_CLASS_TEXT:        return lm_text_step(byte) >= 0;
    case LM_CLASS_ALNUM:       return lower || upper || digit;
    case LM_CLASS_LOWER:       return lower;
    case LM_CLASS_UPPER_DIGIT: return upper || digit;
    default:                   return false;
    }
}

/* How many bytes the character of the class has that p begins with, or 0. */
static uint32_t character(enum lm_char_class c, const char *p, size_t n)
{
    uint32_t rune;
    if (!lm_class_begins(c, (unsigned char)*p))
        return 0;
    if ((unsigned char)*p < 0x80)
        return 1;
    const int len = lm_utf8_len(p, n, &rune);
    return len > 0 ? (uint32_t)len : 0;
}

/* How many leading bytes two tokens share. */
static uint32_t shared(const struct entry *a, const struct entry *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->p[n] == b->p[n])
        n++;
    return n;
}

/* Note at the nodes of a token's path what is behind them. */
static void mark_path(struct lm_token_trie *t, const struct entry *e, const uint32_t *path,
                      bool *text)
{
    bool alnum = true;
    text[e->len] = true;
    for (uint32_t i = e->len; i > 0; i--) {
        struct lm_token_node *node = &t->nodes[path[i - 1]];
        const uint32_t behind = e->len - i;
        if (behind) {
            const uint32_t n = character(LM_CLASS_TEXT, e->p + i, behind);
            text[i] = n > 0 && text[i + n];
            alnum &= lm_class_begins(LM_CLASS_ALNUM, (unsigned char)e->p[i]);
        }
        node->text &= text[i];
        node->alnum &= alnum;
        if (behind > node->deep)
            node->deep = behind < 255 ? (unsigned char)behind : 255;
    }
}

/* Nodes for e [n], in order; open [longest] and text [longest + 1] are scratch. */
static void build(struct lm_token_trie *t, const struct entry *e, size_t n, uint32_t *open,
                  bool *text)
{
    uint32_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        t->ids[i] = e[i].id;
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
            t->nodes[t->n++] = (struct lm_token_node){ .first = -1, .order = (uint32_t)i,
                                                       .byte = (unsigned char)e[i].p[depth],
                                                       .text = true, .alnum = true };
            depth++;
        }
        t->nodes[open[depth - 1]].first = (int32_t)e[i].id;
        mark_path(t, &e[i], open, text);
    }
    while (depth > 0)
        t->nodes[open[--depth]].next = (uint32_t)t->n;
}

/* Nodes for e [n], in order; more [n_vocab] is borrowed until t is released. */
static bool build_trie(struct lm_token_trie *t, const struct entry *e, size_t n, int32_t *more)
{
    size_t bytes = 0, longest = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += e[i].len;
        longest = e[i].len > longest ? e[i].len : longest;
    }
    *t = (struct lm_token_trie){ .more = more };
    uint32_t *open = lm_malloc_array(longest + 1, sizeof *open);
    bool *text = lm_malloc_array(longest + 1, sizeof *text);
    t->nodes = bytes < UINT32_MAX ? lm_malloc_array(bytes + 1, sizeof *t->nodes) : NULL;
    t->ids = lm_malloc_array(n + 1, sizeof *t->ids);
    t->n_ids = n;
    const bool good = open && text && t->nodes && t->ids;
    if (good)
        build(t, e, n, open, text);
    free(open);
    free(text);
    return good;
}

/* Has the token bytes, and is it text? */
static bool is_text(const struct lm_vocab *v, uint32_t id, struct lm_str piece)
{
    return piece.len && piece.len <= UINT32_MAX && lm_vocab_type(v, id) != LM_TOKEN_CONTROL &&
           lm_vocab_type(v, id) != LM_TOKEN_UNKNOWN;
}

int lm_token_trie_init(struct lm_token_trie *t, const struct lm_vocab *v, uint32_t n_vocab,
                 struct lm_err *err)
{
    size_t n = 0;
    struct entry *e = lm_malloc_array(n_vocab, sizeof *e);
    int32_t *more = lm_malloc_array(n_vocab, sizeof *more);
    *t = (struct lm_token_trie){ 0 };
    for (uint32_t id = 0; e && more && id < n_vocab; id++) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        more[id] = -1;
        if (is_text(v, id, piece))
            e[n++] = (struct entry){ piece.p, (uint32_t)piece.len, id, 0 };
    }
    if (n && e && more)
        qsort(e, n, sizeof *e, by_bytes);
    const bool good = e && more && build_trie(t, e, n, more);
    free(e);
    if (!good) {
        t->more = more;
        lm_token_trie_release(t);
        return lm_fail_nomem(err);
    }
    return LM_OK;
}

void lm_token_trie_release(struct lm_token_trie *t)
{
    free(t->nodes);
    free(t->ids);
    free(t->more);
    *t = (struct lm_token_trie){ 0 };
}

/* ---- classes of characters ---- */

/* Go over the class's characters that a token begins with. */
static struct entry rest_of(enum lm_char_class c, struct lm_str piece, uint32_t id)
{
    struct entry e = { piece.p, (uint32_t)piece.len, id, 0 };
    for (uint32_t n; e.len && (n = character(c, e.p, e.len)) > 0; e.before++) {
        e.p += n;
        e.len -= n;
    }
    return e;
}

/* Let each mask hold what the ones before it do. */
static bool add_up(struct lm_token_class *t, const uint32_t *whole, uint32_t n_vocab, size_t words)
{
    for (uint32_t id = 0; id < n_vocab; id++) {
        const uint32_t n = whole[id];
        if (n && !t->whole[n] && !(t->whole[n] = calloc(words, sizeof(uint64_t))))
            return false;
        if (n)
            t->whole[n][id / 64] |= UINT64_C(1) << id % 64;
    }
    for (uint32_t n = 0; n <= t->max; n++) {
        if (!t->whole[n] && n > 0)
            t->whole[n] = t->whole[n - 1];
        else if (!t->whole[n] && !(t->whole[n] = calloc(words + 1, sizeof(uint64_t))))
            return false;
        for (size_t i = 0; n > 0 && t->whole[n] != t->whole[n - 1] && i < words; i++)
            t->whole[n][i] |= t->whole[n - 1][i];
    }
    return true;
}

/* The tokens as entries; whole [n_vocab]: the characters of those that have nothing else. */
static size_t split(struct lm_token_class *t, enum lm_char_class c, const struct lm_vocab *v,
                    uint32_t n_vocab, struct entry *e, uint32_t *whole)
{
    size_t n = 0;
    for (uint32_t id = 0; id < n_vocab; id++) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        t->more[id] = -1;
        whole[id] = 0;
        if (!is_text(v, id, piece))
            continue;
        const struct entry rest = rest_of(c, piece, id);
        t->max = rest.before > t->max ? rest.before : t->max;
        if (rest.len == 0)
            whole[id] = rest.before;
        else if (rest.before || lm_class_begins(c, (unsigned char)*rest.p))
            e[n++] = rest;
    }
    return n;
}

static int by_size(const void *a, const void *b)
{
    const struct lm_long_token *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool find_longs(struct lm_token_class *t, const struct lm_vocab *v, uint32_t n_vocab,
                       const uint32_t *whole)
{
    for (uint32_t id = 0; id < n_vocab; id++) {
        const struct lm_str piece = lm_vocab_piece(v, id);
        if (piece.len <= LM_CLASS_LONG || !is_text(v, id, piece))
            continue;
        if (!lm_grow(&t->longs, &t->longs_cap, t->n_longs + 1, sizeof *t->longs))
            return false;
        t->longs[t->n_longs++] = (struct lm_long_token){ id, (uint32_t)piece.len, whole[id] };
    }
    if (t->n_longs)
        qsort(t->longs, t->n_longs, sizeof *t->longs, by_size);
    return true;
}

/* One trie of what is behind a few characters, however many; e [n] is put in its order. */
static bool build_few(struct lm_token_class *t, struct entry *e, size_t n, uint32_t n_vocab)
{
    size_t few = 0;
    for (size_t i = 0; i < n; i++)
        if (e[i].before > 0 && e[i].before <= LM_CLASS_FEW) {
            e[few] = e[i];
            e[few++].before = 0;
        }
    if (few)
        qsort(e, few, sizeof *e, by_bytes);
    t->few_more = lm_malloc_array(n_vocab, sizeof *t->few_more);
    for (uint32_t id = 0; t->few_more && id < n_vocab; id++)
        t->few_more[id] = -1;
    return t->few_more && build_trie(&t->few, e, few, t->few_more);
}

int lm_token_class_init(struct lm_token_class *t, enum lm_char_class c, const struct lm_vocab *v,
                        uint32_t n_vocab, size_t words, struct lm_err *err)
{
    struct entry *e = lm_malloc_array(n_vocab, sizeof *e);
    uint32_t *whole = lm_malloc_array(n_vocab, sizeof *whole);
    *t = (struct lm_token_class){ .more = lm_malloc_array(n_vocab, sizeof *t->more) };
    bool good = e && whole && t->more;
    const size_t n = good ? split(t, c, v, n_vocab, e, whole) : 0;
    if (n)
        qsort(e, n, sizeof *e, by_bytes);
    if (good) {
        t->whole = calloc((size_t)t->max + 1, sizeof *t->whole);
        t->rest = calloc((size_t)t->max + 1, sizeof *t->rest);
        good = t->whole && t->rest && add_up(t, whole, n_vocab, words);
    }
    size_t from = 0;
    for (uint32_t k = 0; good && k <= t->max; k++) {
        size_t to = from;
        while (to < n && e[to].before == k)
            to++;
        good = build_trie(&t->rest[k], e + from, to - from, t->more);
        from = to;
    }
    if (good && c == LM_CLASS_TEXT)
        good = build_few(t, e, n, n_vocab) && find_longs(t, v, n_vocab, whole);
    free(e);
    free(whole);
    if (!good) {
        lm_token_class_release(t);
        return lm_fail_nomem(err);
    }
    return LM_OK;
}

void lm_token_class_release(struct lm_token_class *t)
{
    for (uint32_t k = 0; k <= t->max; k++) {
        if (t->rest) {
            free(t->rest[k].nodes);
            free(t->rest[k].ids);
        }
        if (t->whole && (k == t->max || t->whole[k] != t->whole[k + 1]))
            free(t->whole[k]);
    }
    free(t->rest);
    free(t->whole);
    free(t->more);
    free(t->few.nodes);
    free(t->few.ids);
    free(t->few_more);
    free(t->longs);
    *t = (struct lm_token_class){ 0 };
}
