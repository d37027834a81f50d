/* SPDX-License-Identifier: MIT */
/* Automata over bytes: sets of what a search has met, fewer states, and graphs of them. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/grammar/schema_parts.h"

#define FEW_STATES 512               /* up to which equal states are looked for ...       */
#define ROUNDS     12                /* ... in so many rounds: a long chain needs one a link, and
                                        has nothing to find                               */

/* ---- what a search has met ---- */

static uint64_t hash_key(const uint32_t *key, size_t words)
{
    uint64_t h = words;
    for (size_t i = 0; i < words; i++) {
        h = (h ^ key[i]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
}

static bool grow_met(struct lm_met *m)
{
    if (2 * (m->n + 1) <= m->n_slots)
        return true;
    const size_t n = m->n_slots ? 2 * m->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < m->n; i++) {
        size_t k = hash_key(m->keys + i * m->words, m->words) & (n - 1);
        while (slots[k])
            k = (k + 1) & (n - 1);
        slots[k] = (uint32_t)i + 1;
    }
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    return true;
}

uint32_t lm_met_add(struct lm_met *m, const uint32_t *key)
{
    if (!grow_met(m))
        return LM_MANY;
    size_t k = hash_key(key, m->words) & (m->n_slots - 1);
    for (; m->slots[k]; k = (k + 1) & (m->n_slots - 1))
        if (!memcmp(m->keys + (m->slots[k] - 1) * m->words, key, m->words * sizeof *key))
            return m->slots[k] - 1;
    if (!lm_grow(&m->keys, &m->cap, (m->n + 1) * m->words, sizeof *m->keys))
        return LM_MANY;
    memcpy(m->keys + m->n * m->words, key, m->words * sizeof *key);
    m->slots[k] = (uint32_t)++m->n;
    return (uint32_t)m->n - 1;
}

void lm_met_release(struct lm_met *m)
{
    free(m->keys);
    free(m->slots);
    *m = (struct lm_met){ 0 };
}

/* ---- fewer states ---- */

void lm_dfa_release(struct lm_dfa *d)
{
    free(d->to);
    free(d->final);
    d->to = NULL;
    d->final = NULL;
    d->n = 0;
}

/* Which states lead to a final one; a chain of passes there and back, as most automata are nearly
 * in order. */
static void find_live(const struct lm_dfa *d, bool *live)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = 0; k < 2 * d->n; k++) {
            const uint32_t i = k < d->n ? d->n - 1 - k : k - d->n;
            bool good = live[i] || d->final[i];
            for (size_t c = 0; !good && c < d->n_symbols; c++) {
                const uint32_t to = d->to[i * d->n_symbols + c];
                good = to != LM_MANY && live[to];
            }
            changed |= good && !live[i];
            live[i] = good;
        }
    }
}

/* One round: states of a class are told apart by the classes they lead to.  The number of
 * classes, or LM_MANY when memory is short. */
static uint32_t refine(const struct lm_dfa *d, const bool *live, uint32_t *class, uint32_t *next,
                       uint32_t *key)
{
    struct lm_met met = { .words = d->n_symbols + 1 };
    bool good = true;
    for (uint32_t i = 0; good && i < d->n; i++) {
        next[i] = LM_MANY;
        if (!live[i])
            continue;
        key[0] = class[i];
        for (size_t c = 0; c < d->n_symbols; c++) {
            const uint32_t to = d->to[i * d->n_symbols + c];
            key[c + 1] = to == LM_MANY ? LM_MANY : class[to];
        }
        next[i] = lm_met_add(&met, key);
        good = next[i] != LM_MANY;
    }
    memcpy(class, next, d->n * sizeof *class);
    const uint32_t n = good ? (uint32_t)met.n : LM_MANY;
    lm_met_release(&met);
    return n;
}

/* Put states that nothing can tell apart into one class (Moore 1956), or each into one of its own
 * where that takes long.  class [n], LM_MANY: left out.  The number of classes, or LM_MANY when
 * memory is short. */
static uint32_t classify(const struct lm_dfa *d, const bool *live, uint32_t *class)
{
    uint32_t *key = lm_malloc_array(d->n_symbols + 1, sizeof *key);
    uint32_t *next = lm_malloc_array(d->n, sizeof *next), n = 0, before = LM_MANY;
    const bool few = d->n <= FEW_STATES;
    bool good = key && next;
    for (uint32_t i = 0; i < d->n; i++)
        class[i] = live[i] ? d->final[i] : LM_MANY;
    for (int round = 0; good && few && n != before && round < ROUNDS; round++) {
        before = n;
        n = refine(d, live, class, next, key);
        good = n != LM_MANY;
    }
    if (good && n != before)                      /* not the end of it */
        for (uint32_t i = n = 0; i < d->n; i++)
            class[i] = live[i] ? n++ : LM_MANY;
    free(key);
    free(next);
    return good ? n : LM_MANY;
}

/* Make the classes the states, that of the start first. */
static bool merge_states(struct lm_dfa *d, const uint32_t *class, uint32_t n)
{
    const size_t row = d->n_symbols;
    uint32_t *to = lm_malloc_array((size_t)n * row, sizeof *to);
    bool *final = lm_malloc_array(n, sizeof *final);
    if (!to || !final) {
        free(to);
        free(final);
        return false;
    }
    const uint32_t start = class[0];
    for (uint32_t i = 0; i < d->n; i++) {
        if (class[i] == LM_MANY)
            continue;
        const uint32_t me = class[i] == start ? 0 : class[i] == 0 ? start : class[i];
        final[me] = d->final[i];
        for (size_t c = 0; c < row; c++) {
            const uint32_t t = d->to[i * row + c], k = t == LM_MANY ? LM_MANY : class[t];
            to[me * row + c] = k == LM_MANY ? k : k == start ? 0 : k == 0 ? start : k;
        }
    }
    lm_dfa_release(d);
    d->to = to;
    d->final = final;
    d->to_cap = n * row;
    d->final_cap = d->n = n;
    return true;
}

bool lm_dfa_reduce(struct lm_dfa *d)
{
    if (d->n == 0)
        return true;
    bool *live = calloc(d->n, sizeof *live), good = live != NULL;
    uint32_t *class = lm_malloc_array(d->n, sizeof *class);
    good = good && class;
    if (good)
        find_live(d, live);
    if (good && !live[0]) {
        d->n = 0;
    } else if (good) {
        const uint32_t n = classify(d, live, class);
        good = n != LM_MANY && merge_states(d, class, n);
    }
    free(live);
    free(class);
    return good;
}

/* ---- how many strings ---- */

/* Depth first, without recursion: the states being looked into, and the symbol each is at. */
struct counting {
    const struct lm_dfa *d;
    uint64_t            *n;          /* [states] strings from there, LM_MANY at most     */
    unsigned char       *seen;       /* [states] 1: being looked into, 2: done           */
    uint32_t            *path, *symbol;
    size_t               depth;
};

static void enter(struct counting *x, uint32_t state)
{
    x->seen[state] = 1;
    x->n[state] = x->d->final[state];
    x->path[x->depth] = state;
    x->symbol[x->depth++] = 0;
}

static uint64_t count(struct counting *x)
{
    const struct lm_dfa *d = x->d;
    enter(x, 0);
    while (x->depth) {
        const uint32_t at = x->path[x->depth - 1], c = x->symbol[x->depth - 1];
        if (c == d->n_symbols) {
            x->seen[at] = 2;
            x->depth--;
            continue;
        }
        const uint32_t to = d->to[at * d->n_symbols + c];
        if (to != LM_MANY && x->seen[to] == 1)
            return LM_MANY;                       /* states that are left lead to an end */
        if (to != LM_MANY && !x->seen[to]) {
            enter(x, to);
            continue;
        }
        if (to != LM_MANY)
            x->n[at] += x->n[to] * (d->hi[c] - d->lo[c] + 1u);
        x->n[at] = x->n[at] < LM_MANY ? x->n[at] : LM_MANY;
        x->symbol[x->depth - 1]++;
    }
    return x->n[0];
}

/* Do all states lead on? */
static bool is_endless(const struct lm_dfa *d)
{
    bool on = d->n > 0;
    for (uint32_t i = 0; i < d->n && on; i++) {
        on = false;
        for (size_t c = 0; c < d->n_symbols && !on; c++)
            on = d->to[i * d->n_symbols + c] != LM_MANY;
    }
    return on;
}

uint64_t lm_dfa_count(struct lm_schema *s, const struct lm_dfa *d)
{
    if (is_endless(d))
        return LM_ENDLESS;
    struct counting x = { .d = d, .n = lm_arena_array(s->arena, d->n, sizeof *x.n),
                          .seen = lm_arena_alloc(s->arena, d->n),
                          .path = lm_arena_array(s->arena, d->n, sizeof *x.path),
                          .symbol = lm_arena_array(s->arena, d->n, sizeof *x.symbol) };
    if (!x.n || !x.seen || !x.path || !x.symbol)
        lm_schema_nomem(s);
    return s->failed == LM_OK && d->n ? count(&x) : 0;
}

/* ---- graphs ---- */

/* What JSON escapes, as bits of the codes below 64 and below 128. */
#define SPECIAL_LOW  (UINT64_C(0xFFFFFFFF) | UINT64_C(1) << '"')
#define SPECIAL_HIGH (UINT64_C(1) << ('\\' - 64))

/* A set of bytes. */
struct byte_set {
    uint64_t bits[4];
};

static bool has_byte(const struct byte_set *b, unsigned c)
{
    return b->bits[c / 64] >> c % 64 & 1;
}

static void put_byte(struct byte_set *b, unsigned c)
{
    b->bits[c / 64] |= UINT64_C(1) << c % 64;
}

bool lm_json_special(unsigned c)
{
    return c < 0x20 || c == '"' || c == '\\';
}

/* The first byte of the set from one on, or 256. */
static unsigned next_byte(const struct byte_set *b, unsigned from)
{
    for (unsigned k = from / 64; k < 4; k++) {
        const uint64_t bits = b->bits[k] & (k > from / 64 ? UINT64_MAX : UINT64_MAX << from % 64);
        if (bits)
            return 64 * k + (unsigned)__builtin_ctzll(bits);
    }
    return 256;
}

/* Add a choice for each run of bytes of the set, without the special ones if json. */
static void add_runs(struct lm_schema *s, struct lm_node *choice, const struct byte_set *b,
                     bool json)
{
    struct byte_set plain = *b;
    if (json) {
        plain.bits[0] &= ~SPECIAL_LOW;
        plain.bits[1] &= ~SPECIAL_HIGH;
    }
    for (unsigned lo = next_byte(&plain, 0), hi; lo < 256; lo = next_byte(&plain, hi + 1)) {
        for (hi = lo; hi < 255 && has_byte(&plain, hi + 1);)
            hi++;
        lm_schema_add(s, choice, lm_schema_bytes(s, lo, hi));
        if (hi == 255)
            break;
    }
}

/* The control characters of b that have no letter, as u00 and two digits. */
static void add_numbered(struct lm_schema *s, struct lm_node *choice, const struct byte_set *b)
{
    for (unsigned high = 0; high < 2; high++) {
        struct byte_set digits = { { 0 } };
        bool any = false;
        for (unsigned low = 0; low < 16; low++) {
            const unsigned c = 16 * high + low;
            if (!has_byte(b, c) || (c >= 8 && c <= 13 && c != 11))
                continue;
            any = true;
            put_byte(&digits, (unsigned char)"0123456789abcdef"[low]);
            put_byte(&digits, (unsigned char)"0123456789ABCDEF"[low]);
        }
        if (any) {
            struct lm_node *last = lm_schema_node(s, LM_NODE_CHOICE);
            add_runs(s, last, &digits, false);
            struct lm_node *first = lm_schema_text(s, high ? "u001" : "u000");
            lm_schema_add(s, choice, lm_schema_sequence(s, first, last, NULL));
        }
    }
}

/* The special characters of b, escaped; NULL when there are none. */
static struct lm_node *escapes(struct lm_schema *s, const struct byte_set *b)
{
    static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    struct byte_set short_ones = { { 0 } };
    if (!(b->bits[0] & SPECIAL_LOW) && !(b->bits[1] & SPECIAL_HIGH))
        return NULL;
    for (size_t i = 0; named[i]; i++)
        if (has_byte(b, (unsigned char)named[i]))
            put_byte(&short_ones, (unsigned char)letters[i]);
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    add_runs(s, choice, &short_ones, false);
    add_numbered(s, choice, b);
    return lm_schema_sequence(s, lm_schema_text(s, "\\"), choice, NULL);
}

struct lm_node *lm_schema_escapes(struct lm_schema *s, const uint64_t bits[2])
{
    const struct byte_set b = { { bits[0], bits[1], 0, 0 } };
    return escapes(s, &b);
}

struct lm_node *lm_schema_escape(struct lm_schema *s, unsigned char c)
{
    struct byte_set one = { { 0 } };
    if (++s->n_escapes > LM_GRAMMAR_ITEMS)
        lm_schema_fail(s, NULL, "the schema has more than %d escapes", LM_GRAMMAR_ITEMS);
    put_byte(&one, c);
    if (!s->escapes[c])
        s->escapes[c] = escapes(s, &one);
    return s->escapes[c];
}

struct lm_node *lm_schema_character(struct lm_schema *s)
{
    static const uint64_t all[2] = { UINT64_MAX, UINT64_MAX };
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    lm_schema_add(s, choice, lm_schema_node(s, LM_NODE_TEXT));
    lm_schema_add(s, choice, lm_schema_escapes(s, all));
    return choice;
}

/* The state after a byte. */
static uint32_t step(const struct lm_dfa *d, uint32_t state, unsigned byte)
{
    for (size_t c = 0; c < d->n_symbols; c++)
        if (byte >= d->lo[c] && byte <= d->hi[c])
            return d->to[state * d->n_symbols + c];
    return LM_MANY;
}

/* Do all bytes lo to hi from a state, and `rest` more of any character, lead to `to`? */
static bool all_lead(const struct lm_dfa *d, uint32_t from, unsigned lo, unsigned hi, int rest,
                     uint32_t to)
{
    uint32_t last = LM_MANY;
    for (unsigned b = lo; b <= hi; b++) {
        const uint32_t t = step(d, from, b);
        if (t == LM_MANY || (rest == 0 && t != to))
            return false;
        if (rest > 0 && t != last && !all_lead(d, t, 0x80, 0xBF, rest - 1, to))
            return false;
        last = t;
    }
    return true;
}

/* The state that every character of LM_NODE_TEXT leads to, or LM_MANY. */
static uint32_t text_target(const struct lm_dfa *d, uint32_t from)
{
    static const struct { uint8_t lo, hi, rest, lo2, hi2; } leads[] = {
        { 0xC2, 0xDF, 0, 0x80, 0xBF }, { 0xE0, 0xE0, 1, 0xA0, 0xBF }, { 0xE1, 0xEC, 1, 0x80, 0xBF },
        { 0xED, 0xED, 1, 0x80, 0x9F }, { 0xEE, 0xEF, 1, 0x80, 0xBF }, { 0xF0, 0xF0, 2, 0x90, 0xBF },
        { 0xF1, 0xF3, 2, 0x80, 0xBF }, { 0xF4, 0xF4, 2, 0x80, 0x8F },
    };
    const uint32_t to = step(d, from, 'a');
    if (to == LM_MANY)
        return LM_MANY;
    for (unsigned b = 0x20; b < 0x80; b++)
        if (!lm_json_special(b) && step(d, from, b) != to)
            return LM_MANY;
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        uint32_t last = LM_MANY;
        for (unsigned b = leads[i].lo; b <= leads[i].hi; b++) {
            const uint32_t t = step(d, from, b);
            if (t == LM_MANY || (t != last && !all_lead(d, t, leads[i].lo2, leads[i].hi2,
                                                        leads[i].rest, to)))
                return LM_MANY;
            last = t;
        }
    }
    return to;
}

/* The edges from one state to another. */
static void add_edges(struct lm_schema *s, struct lm_node *graph, uint32_t from, uint32_t to,
                      const struct byte_set *b, bool json)
{
    struct lm_node *choice = lm_schema_node(s, LM_NODE_CHOICE);
    add_runs(s, choice, b, json);
    struct lm_node *escaped = json ? escapes(s, b) : NULL;
    if (escaped)
        lm_schema_add(s, choice, escaped);
    if (choice && choice->n)
        lm_schema_edge(s, graph, from, to, choice);
}

struct lm_node *lm_dfa_node(struct lm_schema *s, const struct lm_dfa *d, bool json)
{
    struct lm_node *graph = lm_node_graph(&s->tree, d->n);
    if (!graph) {
        lm_schema_nomem(s);
        return NULL;
    }
    for (uint32_t from = 0; from < d->n && s->failed == LM_OK; from++) {
        const uint32_t *row = d->to + from * d->n_symbols;
        const uint32_t text = json ? text_target(d, from) : LM_MANY;
        graph->graph->final[from] = d->final[from];
        if (text != LM_MANY)
            lm_schema_edge(s, graph, from, text, lm_schema_node(s, LM_NODE_TEXT));
        for (size_t c = 0; c < d->n_symbols; c++) {
            struct byte_set b = { { 0 } };
            bool first = row[c] != LM_MANY;
            for (size_t k = 0; first && k < c; k++)
                first = row[k] != row[c];
            for (size_t k = c; first && k < d->n_symbols; k++)
                for (unsigned byte = d->lo[k]; row[k] == row[c] && byte <= d->hi[k]; byte++)
                    if (text == LM_MANY || lm_json_special(byte))
                        put_byte(&b, byte);
            if (first)
                add_edges(s, graph, from, row[c], &b, json);
        }
    }
    return s->failed == LM_OK ? graph : NULL;
}
