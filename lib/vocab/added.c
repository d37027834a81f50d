/* SPDX-License-Identifier: MIT */
/*
 * Special pieces in text.  They are found as the Hugging Face library finds added tokens:
 * the leftmost, and of those that begin there the longest; one that has to be a word by
 * itself and is none is passed over, with all its text.  The pieces lie sorted, so that
 * following a text byte by byte narrows a range of them.
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

struct entry {
    const char *p;
    size_t      len;
    uint32_t    id, order;
};

static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);
    c = c ? c : (x->len > y->len) - (x->len < y->len);
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

void lm_added_release(struct lm_added *a)
{
    lm_pieces_release(&a->text);
    free(a->id);
    *a = (struct lm_added){ 0 };
}

int lm_added_init(struct lm_added *a, const struct lm_str *text, const uint32_t *id, uint32_t n,
                  struct lm_err *err)
{
    struct entry *e = lm_malloc_array((size_t)n + 1, sizeof *e);
    size_t size = 0;
    uint32_t k = 0;
    for (uint32_t i = 0; e && i < n; i++)
        if (text[i].len) {
            e[k++] = (struct entry){ text[i].p, text[i].len, id[i], i };
            size += text[i].len;
        }
    a->id = lm_malloc_array((size_t)k + 1, sizeof *a->id);
    if (!e || !a->id || size >= UINT32_MAX || !lm_pieces_init(&a->text, k, size)) {
        free(e);
        return lm_fail_nomem(err);
    }
    qsort(e, k, sizeof *e, by_text);
    for (uint32_t i = 0; i < k; i++) {
        a->id[i] = e[i].id;
        memcpy(a->text.data + a->text.at[i], e[i].p, e[i].len);
        a->text.at[i + 1] = a->text.at[i] + (uint32_t)e[i].len;
    }
    uint32_t i = 0;
    for (int b = 0; b < 256; b++) {
        a->at[b] = i;
        while (i < k && (unsigned char)e[i].p[0] == b)
            i++;
        a->begins[b] = i > a->at[b];
    }
    a->at[256] = k;
    free(e);
    return LM_OK;
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

/* The first of the pieces [lo .. hi), which agree up to byte `depth`, with a byte there that
 * is at least b.  A piece that ends there sorts before all. */
static uint32_t lower(const struct lm_added *a, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        size_t len;
        const char *t = lm_pieces_get(&a->text, mid, &len);
        if (len <= depth || (unsigned char)t[depth] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest piece that stands at p: its length, or 0. */
static size_t match_at(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                       const unsigned char *guard, size_t len, bool parse, uint32_t *id)
{
    unsigned char b = (unsigned char)*p;
    uint32_t lo = a->at[b], hi = a->at[b + 1];
    size_t best = 0;
    for (size_t depth = 1; lo < hi; depth++) {
        size_t n;
        lm_pieces_get(&a->text, lo, &n);
        parse = parse && !(guard && guard[depth - 1]);
        if (n == depth && (parse || v->type[a->id[lo]] == LM_TOKEN_USER)) {
            best = n;
            *id = a->id[lo];
        }
        if (depth == len)
            break;
        b = (unsigned char)p[depth];
        lo = lower(a, lo, hi, depth, b);
        hi = lower(a, lo, hi, depth, b + 1);
    }
    return best;
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

bool lm_added_match(const struct lm_vocab *v, const struct lm_added *a, const char *p,
                    const unsigned char *guard, size_t *seek, size_t done, size_t len,
                    size_t limit, bool parse, uint32_t *id, size_t *at, size_t *end)
{
    size_t i = *seek;
    for (; a->at[256] && i < limit; i++) {
        if (!a->begins[(unsigned char)p[i]])
            continue;
        size_t n = match_at(v, a, p + i, guard ? guard + i : NULL, len - i, parse, id);
        if (a->most_blanks && (p[i] == ' ' || p[i] == mark[0])) {
            uint32_t blank;
            size_t k = blanks_at(a, p + i, p + len, &blank);
            *id = k > n ? blank : *id;
            n = k > n ? k : n;
        }
        if (!n)
            continue;
        if (v->attr[*id] & LM_ATTR_WORD && !stands_alone(p, len, i, i + n)) {
            i += n - 1;
            continue;
        }
        *at = i < done ? done : i;
        if (v->attr[*id] & LM_ATTR_LSTRIP)
            *at = done + strip_left(p + done, *at - done);
        *end = *seek = i + n;
        while (v->attr[*id] & LM_ATTR_RSTRIP && *end < len) {
            int k;
            if (!(lm_uni_class(lm_uni_next(p + *end, p + len, &k)) & LM_U_SPACE))
                break;
            *end += (size_t)k;
        }
        *end = *end < *at ? *at : *end;
        return true;
    }
    *seek = i;
    return false;
}
