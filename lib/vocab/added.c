/* SPDX-License-Identifier: MIT */
/*
 * Special pieces in text.  They are found as the Hugging Face library finds added tokens:
 * the leftmost, and of those that begin there the longest.  The pieces lie sorted, so that
 * following a text byte by byte narrows a range of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"

static bool is_added(const struct lm_vocab *v, unsigned type)
{
    return type == LM_TOKEN_CONTROL || (type == LM_TOKEN_USER && !v->user_inside) ||
           type == LM_TOKEN_UNKNOWN;
}

struct entry {
    const char *p;
    size_t      len;
    uint32_t    id;
};

static int by_text(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = memcmp(x->p, y->p, x->len < y->len ? x->len : y->len);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

int lm_vocab_sort_added(struct lm_vocab *v, struct lm_err *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++)
        n += is_added(v, v->type[i]);
    struct entry *e = lm_malloc_array((size_t)n + 1, sizeof *e);
    v->added = lm_malloc_array((size_t)n + 1, sizeof *v->added);
    if (!e || !v->added) {
        free(e);
        return lm_fail_nomem(err);
    }
    n = 0;
    for (uint32_t i = 0; i < v->n; i++)
        if (is_added(v, v->type[i])) {
            e[n].p = lm_pieces_get(&v->text, i, &e[n].len);
            e[n++].id = i;
        }
    qsort(e, n, sizeof *e, by_text);
    uint32_t k = 0;
    for (int b = 0; b < 256; b++) {
        v->added_at[b] = k;
        for (; k < n && (unsigned char)e[k].p[0] == b; k++)
            v->added[k] = e[k].id;
    }
    v->added_at[256] = k;
    free(e);
    return LM_OK;
}

/* The first of added[lo .. hi), whose pieces agree up to byte `depth`, with a byte there
 * that is at least b.  A piece that ends there sorts before all. */
static uint32_t lower(const struct lm_vocab *v, uint32_t lo, uint32_t hi, size_t depth, int b)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        size_t len;
        const char *t = lm_pieces_get(&v->text, v->added[mid], &len);
        if (len <= depth || (unsigned char)t[depth] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest piece that stands at p: its length, or 0. */
static size_t match_at(const struct lm_vocab *v, const char *p, const unsigned char *guard,
                       size_t len, bool parse, uint32_t *id)
{
    unsigned char b = (unsigned char)*p;
    uint32_t lo = v->added_at[b], hi = v->added_at[b + 1];
    size_t best = 0;
    for (size_t depth = 1; lo < hi; depth++) {
        size_t n;
        lm_pieces_get(&v->text, v->added[lo], &n);
        parse = parse && !(guard && guard[depth - 1]);
        if (n == depth && (parse || v->type[v->added[lo]] == LM_TOKEN_USER)) {
            best = n;
            *id = v->added[lo];
        }
        if (depth == len)
            break;
        b = (unsigned char)p[depth];
        lo = lower(v, lo, hi, depth, b);
        hi = lower(v, lo, hi, depth, b + 1);
    }
    return best;
}

/* Where the spaces in front of p end, seen from the right. */
static size_t strip_left(const char *p, size_t at)
{
    while (at > 0) {
        size_t k = at - 1;
        while (k > 0 && at - k < 4 && ((unsigned char)p[k] & 0xC0) == 0x80)
            k--;
        int len;
        uint32_t r = lm_uni_next(p + k, p + at, &len);
        if (k + (size_t)len != at || !(lm_uni_class(r) & LM_U_SPACE))
            break;
        at = k;
    }
    return at;
}

bool lm_vocab_match(const struct lm_vocab *v, const char *p, const unsigned char *guard,
                    size_t len, bool parse, uint32_t *id, size_t *at, size_t *end)
{
    if (v->added_at[256] == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned char b = (unsigned char)p[i];
        if (v->added_at[b] == v->added_at[b + 1])
            continue;
        size_t n = match_at(v, p + i, guard ? guard + i : NULL, len - i, parse, id);
        if (!n)
            continue;
        *at = v->attr[*id] & LM_ATTR_LSTRIP ? strip_left(p, i) : i;
        *end = i + n;
        while (v->attr[*id] & LM_ATTR_RSTRIP && *end < len) {
            int k;
            if (!(lm_uni_class(lm_uni_next(p + *end, p + len, &k)) & LM_U_SPACE))
                break;
            *end += (size_t)k;
        }
        return true;
    }
    return false;
}
