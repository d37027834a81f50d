/* SPDX-License-Identifier: MIT */
/*
 * Following a program through a text: all ways that are open, in the order in which the pattern
 * prefers them.  What is open and what became of it by one more character is remembered, so that
 * most steps are a look into a table (a deterministic automaton, made as it is needed).
 *
 * That a way ends in a match is seen when the next character is known.  The ways behind it are
 * given up then; those before it may still end in a longer match, which takes its place.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/regex_parts.h"
#include "vocab/unicode.h"

enum { MAX_STATES = 1024, HASH = 4096, MAX_LIST = 1 << 17 };

#define WASTE_EACH  64u                          /* characters looked at for each of the text */
#define WASTE_LEAST ((uint64_t)1 << 28)          /* but so many in any case                   */

struct state {
    uint32_t at, n;                              /* its operations in list                    */
    uint16_t before;                             /* the sort before it, if that counts        */
};

/* What a step leads to: a state, 0 if no way is open, and was there a match before it? */
enum { MATCHED = 1, UNKNOWN = UINT16_MAX };

struct lm_regex_ways {
    const struct lm_regex *r;
    struct state  state[MAX_STATES];             /* 0: no way                                 */
    unsigned      n;
    uint16_t     *next;                          /* [MAX_STATES][symbols]: state << 1 | MATCHED */
    uint16_t      start[256];                    /* by the sort before; UNKNOWN               */
    uint16_t      hash[HASH];
    uint16_t     *list;
    size_t        list_n, list_cap;
    /* a step */
    uint32_t     *seen, stamp;                   /* [ops]                                     */
    uint16_t     *stack, *open;                  /* [2 * ops], [ops]                          */
};

static unsigned symbols(const struct lm_regex *r)
{
    return r->n_sorts + 1;                       /* and the edge of the text */
}

static void forget(struct lm_regex_ways *w)
{
    w->n = 1;
    w->list_n = 0;
    memset(w->hash, 0, sizeof w->hash);
    memset(w->start, 0xFF, sizeof w->start);
}

struct lm_regex_ways *lm_regex_ways_new(const struct lm_regex *r)
{
    size_t n = r->program.n;
    struct lm_regex_ways *w = n ? calloc(1, sizeof *w) : NULL;
    if (!w)
        return NULL;
    w->r = r;
    w->next = lm_malloc_array((size_t)MAX_STATES * symbols(r), sizeof *w->next);
    w->seen = calloc(n, sizeof *w->seen);
    w->stack = lm_malloc_array(2 * n + 2, sizeof *w->stack);
    w->open = lm_malloc_array(n, sizeof *w->open);
    if (!w->next || !w->seen || !w->stack || !w->open) {
        lm_regex_ways_free(w);
        return NULL;
    }
    forget(w);
    return w;
}

void lm_regex_ways_free(struct lm_regex_ways *w)
{
    if (!w)
        return;
    free(w->next);
    free(w->list);
    free(w->seen);
    free(w->stack);
    free(w->open);
    free(w);
}

/* The state of these operations; NONE: memory is short. */
static int state_of(struct lm_regex_ways *w, const uint16_t *op, size_t n, unsigned before)
{
    if (!n)
        return 0;
    uint32_t h = before * 0x9E3779B9u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ op[i]) * 0x85EBCA6Bu + (h >> 15);
    uint32_t slot = (h ^ h >> 16) & (HASH - 1);
    for (; w->hash[slot]; slot = (slot + 1) & (HASH - 1)) {
        const struct state *s = &w->state[w->hash[slot]];
        if (s->n == n && s->before == before &&
            memcmp(w->list + s->at, op, n * sizeof *op) == 0)
            return w->hash[slot];
    }
    if (w->n == MAX_STATES || w->list_n + n > MAX_LIST) {
        forget(w);
        return state_of(w, op, n, before);
    }
    if (!lm_grow(&w->list, &w->list_cap, w->list_n + n, sizeof *w->list))
        return -1;
    memcpy(w->list + w->list_n, op, n * sizeof *op);
    w->state[w->n] = (struct state){ (uint32_t)w->list_n, (uint32_t)n, (uint16_t)before };
    w->list_n += n;
    memset(w->next + (size_t)w->n * symbols(w->r), 0xFF, symbols(w->r) * sizeof *w->next);
    w->hash[slot] = (uint16_t)w->n;
    return (int)w->n++;
}

/* The ways from one operation on, with `next` coming: what they lead to behind it is added to
 * open[*n]; true if one of them is a match, which ends the search. */
static bool follow(struct lm_regex_ways *w, unsigned from, unsigned before, unsigned next,
                   size_t *n)
{
    const struct lm_regex_op *op = w->r->program.op;
    size_t top = 0;
    w->stack[top++] = (uint16_t)from;
    while (top) {
        unsigned i = w->stack[--top];
        if (w->seen[i] == w->stamp)
            continue;
        w->seen[i] = w->stamp;
        switch (op[i].kind) {
        case LM_RX_MATCH:
            return true;
        case LM_RX_CHAR:
            if (lm_regex_mask_has(&op[i].mask, next) && next < w->r->n_sorts)
                w->open[(*n)++] = (uint16_t)(i + 1);
            break;
        case LM_RX_AHEAD:
        case LM_RX_BEHIND:
            if (lm_regex_mask_has(&op[i].mask, op[i].kind == LM_RX_AHEAD ? next : before))
                w->stack[top++] = (uint16_t)(i + 1);
            break;
        case LM_RX_FORK:
            w->stack[top++] = op[i].other;       /* the preferred one comes first */
            w->stack[top++] = op[i].to;
            break;
        case LM_RX_JUMP:
            w->stack[top++] = op[i].to;
            break;
        }
    }
    return false;
}

/* A step that was not taken yet; negative: memory is short. */
static int step(struct lm_regex_ways *w, unsigned state, unsigned next)
{
    const struct state s = w->state[state];
    size_t n = 0;
    bool match = false;
    if (!++w->stamp) {
        memset(w->seen, 0, w->r->program.n * sizeof *w->seen);
        w->stamp = 1;
    }
    for (uint32_t i = 0; i < s.n && !match; i++)
        match = follow(w, w->list[s.at + i], s.before, next, &n);
    unsigned was = w->n;
    int to = state_of(w, w->open, n, w->r->program.looks_behind ? next : 0);
    if (to < 0)
        return to;
    int result = to << 1 | (match ? MATCHED : 0);
    if (w->n >= was)                             /* else all was forgotten */
        w->next[(size_t)state * symbols(w->r) + next] = (uint16_t)result;
    return result;
}

static int start(struct lm_regex_ways *w, unsigned before)
{
    static const uint16_t first = 0;
    before = w->r->program.looks_behind ? before : 0;
    if (w->start[before] != UNKNOWN)
        return w->start[before];
    int s = state_of(w, &first, 1, before);
    if (s > 0)
        w->start[before] = (uint16_t)s;
    return s;
}

/* ---- a walk ------------------------------------------------------------------------------- */

void lm_regex_walk_start(struct lm_regex_walk *w)
{
    *w = (struct lm_regex_walk){ .ways = w->ways, .end = SIZE_MAX };
    w->before = w->last = w->ways->r->n_sorts;
}

void lm_regex_walk_drop(struct lm_regex_walk *w, size_t n)
{
    w->begun |= n > w->at;
    w->at -= n < w->at ? n : w->at;
    w->pos -= n;
    w->end -= w->end == SIZE_MAX ? 0 : n;
}

/* The sort of the character at p, *k bytes. */
static unsigned sort_at(const struct lm_regex *r, const char *p, const char *end, int *k)
{
    unsigned char c = (unsigned char)*p;
    *k = 1;
    if (c < 128)
        return r->sorts[r->page[0]][c];
    uint32_t rune = lm_uni_next(p, end, k);
    return r->sorts[r->page[rune >> 8]][rune & 255];
}

/* What is known of the attempt at w->at is all: 1 a match, 0 none. */
static int decide(struct lm_regex_walk *w)
{
    w->wasted += w->looked - (w->end == SIZE_MAX ? 0 : w->taken);
    w->running = false;
    return w->end != SIZE_MAX && !(w->end == w->at && w->no_empty && !w->begun);
}

/* Go on with the attempt through p[.. len): 1 it is decided, 2 more text is needed; negative:
 * memory is short. */
static int attempt(struct lm_regex_walk *w, const char *p, size_t len, bool more)
{
    struct lm_regex_ways *ways = w->ways;
    const struct lm_regex *r = ways->r;
    const unsigned n_symbols = symbols(r);
    for (int k; w->pos < len; w->pos += (size_t)k) {
        if (more && len - w->pos < 4 && (unsigned char)p[w->pos] >= 128 &&
            !lm_whole_chars(p + w->pos, len - w->pos))
            return 2;
        unsigned sort = sort_at(r, p + w->pos, p + len, &k);
        int to = ways->next[w->state * n_symbols + sort];
        if (to == UNKNOWN && (to = step(ways, w->state, sort)) < 0)
            return to;
        if (to & MATCHED) {
            w->end = w->pos;
            w->end_sort = w->last;
            w->taken = w->looked;
        }
        w->looked++;
        w->last = sort;
        w->state = (unsigned)to >> 1;
        if (!w->state)
            return 1;
    }
    if (more)
        return 2;
    int to = step(ways, w->state, r->n_sorts);
    if (to >= 0 && to & MATCHED) {
        w->end = w->pos;
        w->end_sort = w->last;
        w->taken = w->looked;
    }
    return to < 0 ? to : 1;
}

/* Begin an attempt at w->at. */
static int begin(struct lm_regex_walk *w)
{
    int s = start(w->ways, w->before);
    w->state = (unsigned)s;
    w->pos = w->at;
    w->end = SIZE_MAX;
    w->looked = w->taken = 0;
    w->last = w->before;
    w->begun = false;
    w->running = s > 0;
    return s;
}

int lm_regex_walk_next(struct lm_regex_walk *w, const char *p, size_t len, bool more,
                       struct lm_err *err)
{
    const struct lm_regex *r = w->ways->r;
    if (w->found) {                              /* go on behind it */
        w->found = false;
        w->at = w->end;
        w->before = w->end_sort;
        w->no_empty = true;
    }
    for (;;) {
        if (!w->running && begin(w) < 0)
            return lm_fail_nomem(err);
        int s = attempt(w, p, len, more);
        if (s < 0)
            return lm_fail_nomem(err);
        if (s == 2)
            return 2;
        if (decide(w)) {
            w->total += w->taken;
            w->found = true;
            return 1;
        }
        w->end = SIZE_MAX;
        if (w->at >= len)
            return 0;
        if (++w->total && w->wasted > WASTE_LEAST + WASTE_EACH * w->total)
            return lm_fail(err, LM_ENOSUP, "the tokenizer's pattern takes more than linear time");
        int k;
        w->before = sort_at(r, p + w->at, p + len, &k);
        w->at += (size_t)k;
        w->no_empty = false;
    }
}
