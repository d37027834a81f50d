/* SPDX-License-Identifier: MIT */
/*
 * grammar_walk MODEL SCHEMA COUNT SEED LIMIT: random walks over the masks of a JSON Schema.
 *
 * Each step takes one of the ids that the mask allows, all alike; after LIMIT ids, one that closes
 * something, if there is any.  Each text is a line, as a JSON string.  scripts/schema-walks builds
 * and runs it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "io/input.h"
#include "sample/grammar/grammar.h"

#define MOST 20000                   /* ids, after which a walk is given up */

struct walk {
    struct lm_vocab   *v;
    struct lm_machine *m;
    uint64_t           random;
    const int32_t     *eog;
    size_t             n_eog;
    uint64_t          *closing;      /* ids that begin with a quote or a bracket that closes */
    size_t             words;
};

static uint64_t next_random(struct walk *w)      /* xorshift64* (Vigna 2016) */
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return w->random * 0x2545F4914F6CDD1Du;
}

/* One of the bits of mask and with (NULL: all), or -1. */
static int64_t pick(struct walk *w, const uint64_t *mask, const uint64_t *with)
{
    uint64_t n = 0;
    for (size_t i = 0; i < w->words; i++)
        n += (uint64_t)__builtin_popcountll(mask[i] & (with ? with[i] : UINT64_MAX));
    if (n == 0)
        return -1;
    uint64_t k = next_random(w) % n;
    for (size_t i = 0; i < w->words; i++) {
        uint64_t bits = mask[i] & (with ? with[i] : UINT64_MAX);
        const uint64_t here = (uint64_t)__builtin_popcountll(bits);
        if (k >= here) {
            k -= here;
            continue;
        }
        while (k-- > 0)
            bits &= bits - 1;
        return (int64_t)(64 * i) + __builtin_ctzll(bits);
    }
    return -1;
}

static bool is_eog(const struct walk *w, int64_t id)
{
    for (size_t i = 0; i < w->n_eog; i++)
        if (w->eog[i] == id)
            return true;
    return false;
}

static void fail(const char *what, const struct lm_err *err)
{
    fprintf(stderr, "grammar_walk: %s%s%s\n", what, err ? ": " : "", err ? err->text : "");
    exit(2);
}

static void walk_once(struct walk *w, size_t limit)
{
    struct lm_buf text = { 0 }, line = { 0 };
    struct lm_err err;
    lm_state s;
    if (lm_machine_start(w->m, &s, &err) < 0)
        fail("start", &err);
    for (size_t i = 0; i < MOST; i++) {
        const uint64_t *mask;
        if (lm_machine_mask(w->m, s, &mask, &err) < 0)
            fail("mask", &err);
        int64_t id = -1;
        if (i >= limit && lm_machine_complete(w->m, s))
            break;
        if (i >= limit)
            id = pick(w, mask, w->closing);
        if (id < 0)
            id = pick(w, mask, NULL);
        if (id < 0)
            fail("a dead end", NULL);
        if (is_eog(w, id)) {
            if (!lm_machine_complete(w->m, s))
                fail("the end before the text is complete", NULL);
            break;
        }
        const struct lm_str piece = lm_vocab_piece(w->v, (uint32_t)id);
        lm_buf_add(&text, piece.p, piece.len);
        if (lm_machine_take(w->m, &s, (uint32_t)id, &err) < 0)
            fail("take", &err);
        if (s == LM_STATE_DEAD)
            fail("a token of the mask is not taken", NULL);
    }
    if (lm_machine_complete(w->m, s)) {
        lm_json_quote(&line, text.data, text.len);
        printf("%.*s\n", (int)line.len, line.data);
    } else {
        puts("null");
    }
    lm_buf_release(&text);
    lm_buf_release(&line);
}

int main(int argc, char *argv[])
{
    struct walk w = { 0 };
    struct lm_err err;
    char *text;
    size_t len;
    if (argc != 6)
        fail("usage: grammar_walk MODEL SCHEMA COUNT SEED LIMIT", NULL);
    if (!(w.v = lm_vocab_open(argv[1], NULL, &err)))
        fail(argv[1], &err);
    if (lm_read_file(argv[2], 1 << 24, &text, &len, &err) < 0)
        fail(argv[2], &err);
    struct lm_grammar *g = lm_grammar_schema(text, len, NULL, NULL, &err);
    if (!g)
        fail(argv[2], &err);
    const uint32_t n = lm_vocab_n(w.v);
    w.eog = lm_vocab_eog(w.v, &w.n_eog);
    w.words = ((size_t)n + 63) / 64;
    w.closing = calloc(w.words, sizeof *w.closing);
    w.random = strtoull(argv[4], NULL, 10) * 2 + 1;
    w.m = lm_machine_new(g, w.v, n, w.eog, w.n_eog, &err);
    if (!w.m || !w.closing)
        fail("memory", NULL);
    for (uint32_t id = 0; id < n; id++) {
        const struct lm_str piece = lm_vocab_piece(w.v, id);
        if (piece.len && strchr("\"]}", *piece.p))
            w.closing[id / 64] |= UINT64_C(1) << id % 64;
    }
    for (long i = strtol(argv[3], NULL, 10); i > 0; i--)
        walk_once(&w, (size_t)strtol(argv[5], NULL, 10));
    lm_machine_free(w.m);
    lm_grammar_free(g);
    lm_vocab_free(w.v);
    free(w.closing);
    free(text);
    return 0;
}
