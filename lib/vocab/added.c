/* SPDX-License-Identifier: MIT */
/*
 * Special pieces in text.  They are found as the Hugging Face library finds added tokens:
 * the leftmost, and of those that begin there the longest; one that has to be a word by
 * itself and is none is passed over, with all its text.  Blanks that a piece takes with it may
 * be looked at again: a piece that begins with them is found all the same, and what follows it
 * is text, whether the piece before had taken it or not.
 *
 * A GGUF file with the scores of a SentencePiece model has spaces in pieces of type user where
 * the library's file has marks, U+2581.  Of runs of spaces the library finds two or more marks
 * that the text has itself in a first pass; the spaces of what is left, and marks that stand
 * alone, become marks then, and the merges of their runs come before all others: they make the
 * longest piece from the left, again and again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"

#define NONE UINT32_MAX

static const char mark[] = "\xE2\x96\x81";       /* U+2581 */

static bool is_added(const struct lm_vocab *v, unsigned type)
{
    return type == LM_TOKEN_CONTROL || (type == LM_TOKEN_USER && !v->user_inside) ||
           type == LM_TOKEN_UNKNOWN;
}

void lm_added_release(struct lm_added *a)
{
    lm_pieces_release(&a->text);
    free(a->id);
    lm_trie_release(&a->trie);
    free(a->link);
    *a = (struct lm_added){ 0 };
}

/*
 * The node of piece k at depth d is known once its parent is: what else ends where it ends.  at
 * is the node of each piece at the depth before.
 */
static void link_node(struct lm_added *a, uint32_t *at, uint32_t k, uint32_t d)
{
    size_t len;
    const char *p = lm_pieces_get(&a->text, k, &len);
    uint32_t parent = at[k], node = lm_trie_step(&a->trie, parent, (unsigned char)p[d]), f = parent;
    struct lm_added_link *l = &a->link[node];
    at[k] = node;
    if (l->depth)
        return;                                  /* with another piece */
    l->depth = d + 1;
    while (f && !l->fail) {
        f = a->link[f].fail;
        l->fail = lm_trie_step(&a->trie, f, (unsigned char)p[d]);
    }
    l->ends = a->trie.unit[l->fail].id >= 0 ? l->fail : a->link[l->fail].ends;
}

static int link_all(struct lm_added *a, struct lm_err *err)
{
    uint32_t *at = lm_malloc_array((size_t)a->n + 1, 2 * sizeof *at), *left = at + a->n;
    a->link = calloc(a->trie.n, sizeof *a->link);
    if (!at || !a->link) {
        free(at);
        return lm_fail_nomem(err);
    }
    uint32_t n = a->n;
    for (uint32_t k = 0; k < n; k++) {
        at[k] = 0;
        left[k] = k;
    }
    for (uint32_t d = 0; n; d++) {               /* all of one depth, then the next */
        uint32_t stay = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = left[i];
            link_node(a, at, k, d);
            if (a->text.at[k + 1] - a->text.at[k] > d + 1)
                left[stay++] = k;
        }
        n = stay;
    }
    free(at);
    return LM_OK;
}

int lm_added_init(struct lm_added *a, const struct lm_str *text, const uint32_t *id, uint32_t n,
                  struct lm_err *err)
{
    size_t size = 0;
    for (uint32_t i = 0; i < n; i++)
        size += text[i].len;
    a->id = lm_malloc_array((size_t)n + 1, sizeof *a->id);
    struct lm_str *own = lm_malloc_array((size_t)n + 1, sizeof *own);
    if (!own || !a->id || size >= UINT32_MAX || !lm_pieces_init(&a->text, n, size)) {
        free(own);
        return lm_fail_nomem(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!text[i].len)
            continue;
        uint32_t at = a->text.at[a->n];
        own[a->n] = text[i];
        memcpy(a->text.data + at, text[i].p, text[i].len);
        a->begins[(unsigned char)text[i].p[0]] = true;
        a->longest = text[i].len > a->longest ? text[i].len : a->longest;
        a->id[a->n++] = id[i];
        a->text.at[a->n] = at + (uint32_t)text[i].len;
    }
    int s = lm_trie_build(&a->trie, own, NULL, a->n, err);
    free(own);
    return s == LM_OK ? link_all(a, err) : s;
}

/* How many spaces a piece is, if that is what it is, and it is looked for as such; else 0. */
static size_t count_blanks(const struct lm_vocab *v, uint32_t id)
{
    struct lm_str s = lm_vocab_text(v, id);
    size_t n = 0;
    if (!v->by_score || !v->marks || v->type[id] != LM_TOKEN_USER || s.len > LM_MOST_BLANKS)
        return 0;
    while (n < s.len && s.p[n] == ' ')
        n++;
    return n == s.len && n > 1 ? n : 0;
}

static void set_blank(struct lm_added *a, size_t n, uint32_t id)
{
    if (!a->most_blanks)
        memset(a->blank, 0xFF, sizeof a->blank);
    a->blank[n] = id;
    a->most_blanks = n > a->most_blanks ? (uint32_t)n : a->most_blanks;
    a->begins[' '] = a->begins[(unsigned char)mark[0]] = true;
}

int lm_vocab_sort_added(struct lm_vocab *v, struct lm_err *err)
{
    uint32_t n = 0;
    struct lm_str *text = lm_malloc_array((size_t)v->n + 1, sizeof *text);
    uint32_t *id = lm_malloc_array((size_t)v->n + 1, sizeof *id);
    for (uint32_t i = 0; text && id && i < v->n; i++)
        if (is_added(v, v->type[i]) && !(v->attr[i] & LM_ATTR_NORMALIZED)) {
            text[n] = lm_vocab_text(v, i);
            id[n++] = i;
        }
    int s = text && id ? lm_added_init(&v->added, text, id, n, err) : lm_fail_nomem(err);
    for (uint32_t i = 0; s == LM_OK && i < n; i++) {
        size_t blanks = count_blanks(v, id[i]);
        if (blanks)
            set_blank(&v->added, blanks, id[i]);
    }
    free(text);
    free(id);
    return s;
}

static bool mark_at(const char *p, const char *end)
{
    return end - p >= 3 && memcmp(p, mark, 3) == 0;
}

/* The longest run of blanks at p that is a piece, in bytes, or 0: marks if there are two, else
 * spaces and marks that stand alone. */
static size_t blanks_at(const struct lm_added *a, const char *p, const char *end, uint32_t *id)
{
    bool marks = mark_at(p, end) && mark_at(p + 3, end);
    const char *q = p;
    size_t best = 0;
    for (uint32_t n = 1; n <= a->most_blanks; n++) {
        bool is_mark = mark_at(q, end);
        if (marks ? !is_mark : is_mark ? mark_at(q + 3, end) : q == end || *q != ' ')
            break;
        q += is_mark ? 3 : 1;
        if (a->blank[n] != NONE) {
            *id = a->blank[n];
            best = (size_t)(q - p);
        }
    }
    return best;
}

static bool is_word(uint32_t r)
{
    return lm_uni_word(r) || r == 0x200C || r == 0x200D;
}

/* The character that ends at p[at], at > 0: where it begins. */
static size_t before(const char *p, size_t at, uint32_t *r)
{
    size_t k = at - 1;
    int len;
    while (k > 0 && at - k < 4 && ((unsigned char)p[k] & 0xC0) == 0x80)
        k--;
    *r = lm_uni_next(p + k, p + at, &len);
    if (k + (size_t)len == at)
        return k;
    *r = 0xFFFD;
    return at - 1;
}

/* Is p[at .. end) beside no letter or the like? */
static bool stands_alone(const char *p, size_t len, size_t at, size_t end)
{
    int k;
    uint32_t r;
    if (at > 0) {
        before(p, at, &r);
        if (is_word(r))
            return false;
    }
    return end == len || !is_word(lm_uni_next(p + end, p + len, &k));
}

/* Where the spaces in front of p end, seen from the right. */
static size_t strip_left(const char *p, size_t at)
{
    while (at > 0) {
        uint32_t r;
        size_t k = before(p, at, &r);
        if (!(lm_uni_class(r) & LM_U_SPACE))
            break;
        at = k;
    }
    return at;
}

/* A piece that stands somewhere. */
struct found {
    size_t   at, len;
    uint32_t id;
};

/* Of the pieces that end at q, with the state there, the longest that may be taken: it begins
 * first.  Control tokens do if they begin at `parse` or later. */
static void take_longest(const struct lm_vocab *v, const struct lm_added *a, uint32_t state,
                         size_t q, size_t parse, size_t limit, struct found *f)
{
    uint32_t x = a->trie.unit[state].id >= 0 ? state : a->link[state].ends;
    for (; x; x = a->link[x].ends) {
        size_t len = a->link[x].depth, at = q - len;
        uint32_t id = a->id[a->trie.unit[x].id];
        if (at >= limit || (f->len && at > f->at))
            return;
        if (at < parse && v->type[id] != LM_TOKEN_USER)
            continue;
        *f = (struct found){ at, len, id };
        return;
    }
}

/*
 * The leftmost, then longest, piece that begins in p[from .. limit), in one walk over the text:
 * the state is the longest begin of a piece that ends where the walk is, and what has been found
 * stands when that begins behind it.
 */
static bool find(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                 const unsigned char *guard, size_t from, size_t len, size_t limit, bool parse,
                 struct found *f)
{
    uint32_t state = 0;
    size_t free_from = parse ? 0 : SIZE_MAX;     /* no control token begins before it */
    f->len = 0;
    for (size_t q = from; q < len;) {
        unsigned char c = (unsigned char)p[q];
        if (!state && (q >= limit || !a->begins[c])) {
            if (f->len || q >= limit)
                break;
            q++;
            continue;
        }
        uint32_t to = lm_trie_step(&a->trie, state, c);
        while (state && !to) {
            state = a->link[state].fail;
            to = lm_trie_step(&a->trie, state, c);
        }
        state = to;
        if (parse && guard && guard[q])
            free_from = q + 1;
        q++;
        size_t at = q - a->link[state].depth;
        if (f->len ? at > f->at : at >= limit)
            break;
        take_longest(v, a, state, q, free_from, limit, f);
    }
    return f->len > 0;
}

/* The same with runs of blanks, which are looked for at each place: neither far ahead of the
 * other. */
static bool find_any(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                     const unsigned char *guard, size_t from, size_t len, size_t limit, bool parse,
                     struct found *f)
{
    if (!a->most_blanks)
        return find(v, a, p, guard, from, len, limit, parse, f);
    for (size_t stop; from < limit; from = stop) {
        size_t step = 256 + 2 * a->longest;
        stop = limit - from < step ? limit : from + step;
        bool found = find(v, a, p, guard, from, len, stop, parse, f);
        for (size_t i = from; i < (found ? f->at + 1 : stop); i++) {
            uint32_t id;
            size_t n = p[i] == ' ' || p[i] == mark[0] ? blanks_at(a, p + i, p + len, &id) : 0;
            if (n && !(found && i == f->at && n <= f->len)) {
                *f = (struct found){ i, n, id };
                return true;
            }
        }
        if (found)
            return true;
    }
    return false;
}

bool lm_added_match(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                    const unsigned char *guard, size_t *seek, size_t done, size_t len,
                    size_t limit, bool parse, uint32_t *id, size_t *at, size_t *end)
{
    struct found f;
    size_t from = *seek;
    while (find_any(v, a, p, guard, from, len, limit, parse, &f)) {
        from = f.at + f.len;
        *id = f.id;
        if (v->attr[*id] & LM_ATTR_WORD && !stands_alone(p, len, f.at, from))
            continue;
        *at = f.at;
        if (v->attr[*id] & LM_ATTR_LSTRIP)
            *at = f.at < done ? done : done + strip_left(p + done, f.at - done);
        *end = *seek = from;
        while (v->attr[*id] & LM_ATTR_RSTRIP && *end < len) {
            int k;
            if (!(lm_uni_class(lm_uni_next(p + *end, p + len, &k)) & LM_U_SPACE))
                break;
            *end += (size_t)k;
        }
        if (*at < *end)
            return true;                         /* else nothing is left of it */
    }
    *seek = from > limit ? from : limit;
    return false;
}
