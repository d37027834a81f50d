/* SPDX-License-Identifier: MIT */
/*
 * Byte-level BPE of a text that comes in parts.
 *
 * A word is encoded when nothing that follows can make it another.  Of one that goes on and on
 * the begin is merged as soon as it is settled, and its text need not be kept: where the word
 * ends depends on its first characters, on the last ones, and on which sorts of characters
 * were in between, since patterns are runs of sets of characters.  So a few are kept in front,
 * with the first of each sort, and the others forgotten.
 */

#include "vocab/tokenizer.h"

enum { HEAD = 16 };                              /* bytes of a word's begin that are kept */

/* Sorts of characters: each of ASCII is one; of the others few are there at a time. */
struct sorts {
    uint64_t ascii[2];
    uint32_t wide[32];
    size_t   n_wide;
};

/* What patterns can tell of a character beyond ASCII. */
static uint32_t sort_of(const struct lm_pretok *pre, uint32_t r)
{
    uint32_t sort = lm_uni_class(r) | (uint32_t)lm_uni_han(r) << 10;
    for (size_t i = 0; i < LM_PRE_STEPS && pre->steps[i].match; i++)
        sort = sort << 3 | (lm_pre_set_of(&pre->steps[i], r) & 7);
    return sort;
}

/* True if r was of a new sort; of more than there is room for all are. */
static bool add_sort(struct sorts *s, const struct lm_pretok *pre, uint32_t r)
{
    if (r < 128) {
        uint64_t bit = (uint64_t)1 << (r & 63), was = s->ascii[r >> 6] & bit;
        s->ascii[r >> 6] |= bit;
        return !was;
    }
    uint32_t sort = sort_of(pre, r);
    for (size_t i = 0; i < s->n_wide; i++)
        if (s->wide[i] == sort)
            return false;
    if (s->n_wide < sizeof s->wide / sizeof *s->wide)
        s->wide[s->n_wide++] = sort;
    return true;
}

/* How much of the begin of p[0 .. done) has to be kept for what follows it, p[done .. sure). */
static size_t head_of(const struct lm_pretok *pre, const char *p, size_t done, size_t sure)
{
    struct sorts s = { .n_wide = 0 };
    size_t keep = 0;
    int k;
    for (size_t i = done; i < sure; i += (size_t)k)
        add_sort(&s, pre, lm_uni_next(p + i, p + sure, &k));
    for (size_t i = 0; i < done; i += (size_t)k)
        if (add_sort(&s, pre, lm_uni_next(p + i, p + sure, &k)) || i < HEAD)
            keep = i + (size_t)k;
    return keep;
}

/* Where the character begins that goes on at p[at]: bytes of one may be several tokens. */
static size_t char_begin(const char *p, size_t at)
{
    size_t back = 0;
    while (back < 3 && back < at && ((unsigned char)p[at - back] & 0xc0) == 0x80)
        back++;
    return at - back;
}

/* Forget what is done of the word that b begins with, but for its head: true if that was
 * something. */
static bool shorten(struct lm_encoder *e, struct lm_buf *b, size_t done, size_t sure)
{
    const struct lm_pretok *pre = &e->v->pre;
    struct lm_buf *to = &e->scratch;
    struct lm_cut cut;
    const char *reaches;
    size_t from = char_begin(b->data, done);
    size_t keep = head_of(pre, b->data, from, sure), gone = from - keep;
    if (keep >= from)
        return false;
    lm_buf_clear(to);
    lm_buf_add(to, b->data, keep);
    lm_buf_add(to, b->data + from, b->len - from);
    if (to->failed)
        return false;
    lm_cut_part(&cut, pre, to->data, to->len, true);
    if (lm_cut_settled(&cut, &reaches) || (size_t)(reaches - to->data) != sure - gone)
        return false;                            /* a pattern sees the difference */
    struct lm_buf was = *b;
    *b = *to;
    *to = was;
    e->parts->model.head = done - gone;
    return true;
}

/* Words of b, from its begin on; those that are not settled stay. */
static int words(struct lm_encoder *e, struct lm_buf *b, bool more, struct lm_err *err)
{
    struct lm_cut cut;
    size_t *head = &e->parts->model.head;
    const char *p = b->data, *sure = p, *limit = p + b->len;
    int s = LM_OK;
    lm_cut_part(&cut, &e->v->pre, p, b->len, more);
    for (const char *q; s == LM_OK && (q = lm_cut_settled(&cut, &sure)); p = q) {
        if (!*head)
            s = lm_encoder_word(e, p, (size_t)(q - p), limit, false, err);
        else if ((size_t)(q - p) > *head)
            s = lm_merge(e, p + *head, (size_t)(q - p) - *head, false, err);
        *head = 0;
    }
    if (s == LM_OK)
        s = lm_encoder_words(e, err);
    size_t n = (size_t)(sure - p), done;
    lm_buf_drop(b, (size_t)(p - b->data));
    if (s != LM_OK || n < *head || (n - *head) / 2 <= lm_merge_window(e))
        return s;
    s = lm_merge_begin(e, b->data + *head, n - *head, false, &done, err);
    if (s == LM_OK && !shorten(e, b, *head += done, n) && b->failed)
        s = lm_fail_nomem(err);
    return s;
}

int lm_bpe_part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    struct lm_buf *b = &t->text;
    unsigned norm = e->v->norm;
    size_t n = more ? lm_norm_settled(b->data, b->len, norm) : b->len;
    struct lm_remap *map = lm_parts_map(e);
    if (!lm_norm_needed(b->data, n, norm))
        lm_buf_add(&t->words, b->data, n);
    else if (lm_norm(b->data, n, norm, &t->words, map, err) != LM_OK)
        return lm_fail_nomem(err);
    if (!lm_parts_mapped(e, &e->map, n))
        return lm_fail_nomem(err);
    lm_buf_drop(b, n);
    size_t was = t->words.len;
    if (more && was < t->words_wait)
        return LM_OK;
    int s = words(e, &t->words, more, err);
    return s == LM_OK && lm_parts_wait(e, &t->words, was, &t->words_wait)
               ? lm_fail_nomem(err) : s;
}
