/* SPDX-License-Identifier: MIT */
#include "vocab/pick.h"

#include "vocab/unicode_form.h"

enum { BEHIND = 8 };                             /* bytes kept that a piece may look back at */

void lm_pick_init(struct lm_pick *k, const struct lm_vocab *v, const struct lm_added *a)
{
    bool rstrip = false, blank = false;
    size_t blanks = 3 * ((size_t)a->most_blanks + 2);
    if (k->added == a) {                         /* what is known of them stays */
        k->done = k->seek = 0;
        k->open = k->blanks = false;
        return;
    }
    *k = (struct lm_pick){ .added = a, .longest = a->longest > blanks ? a->longest : blanks };
    for (uint32_t i = 0; i < a->n; i++) {
        size_t len;
        int n;
        const char *p = lm_pieces_get(&a->text, i, &len);
        k->lstrip |= v->attr[a->id[i]] & LM_ATTR_LSTRIP;
        rstrip |= v->attr[a->id[i]] & LM_ATTR_RSTRIP;
        blank |= lm_uni_class(lm_uni_next(p, p + len, &n)) & LM_U_SPACE;
    }
    k->overlap = rstrip && blank;
}

/* Up to where text without a piece, from done on, is certain to be a fragment's. */
static size_t fragment_end(const struct lm_pick *k, const char *p, size_t limit)
{
    if (limit <= k->done)
        return k->done;
    if (!k->lstrip)
        return limit;
    return k->done + lm_uni_trim(p + k->done, lm_whole_chars(p + k->done, limit - k->done));
}

/* Blanks that go with the piece before them. */
static void skip_blanks(struct lm_pick *k, const char *p, size_t len, bool more)
{
    if (more)
        len = k->done + lm_whole_chars(p + k->done, len - k->done);
    while (k->blanks && k->done < len) {
        int n;
        k->blanks = lm_uni_class(lm_uni_next(p + k->done, p + len, &n)) & LM_U_SPACE;
        k->done += k->blanks ? (size_t)n : 0;
    }
    k->blanks &= more;
}

int lm_pick_run(struct lm_encoder *e, struct lm_pick *k, const char *p,
                const unsigned char *guard, size_t len, bool more, const struct lm_pick_to *to,
                struct lm_err *err)
{
    size_t ahead = k->longest + BEHIND;
    size_t limit = !more ? len : len > ahead ? len - ahead : 0;
    if (more && k->overlap)
        return LM_OK;
    for (;;) {
        uint32_t id;
        size_t at, end;
        skip_blanks(k, p, len, more);
        if (!k->open && (k->blanks || k->done == len))
            return LM_OK;
        bool found = lm_added_match(e->v, k->added, p, guard, &k->seek, k->done, len, limit,
                                    e->parse, &id, &at, &end);
        size_t stop = found ? at : more ? fragment_end(k, p, limit) : len;
        bool last = found || !more;
        if (stop > k->done || k->open) {
            size_t from = k->done;
            k->open = !last;
            k->done = stop;
            int s = to->text(e, p, from, stop - from, last, err);
            if (s != LM_OK)
                return s;
        }
        if (!found)
            return LM_OK;
        int s = to->token(e, id, at, end, err);
        if (s != LM_OK)
            return s;
        k->done = end;
        k->blanks = e->v->attr[id] & LM_ATTR_RSTRIP && more &&
                    lm_whole_chars(p + end, len - end) == 0;
    }
}

size_t lm_pick_drop(struct lm_pick *k)
{
    size_t n = k->done < BEHIND ? 0 : k->done - BEHIND;
    n = n < k->seek ? n : k->seek;
    k->done -= n;
    k->seek -= n;
    return n;
}
