/* SPDX-License-Identifier: MIT */
/*
 * A text that comes in parts.  What nothing that follows can change is encoded and forgotten;
 * the rest waits, and is little whatever the text is.
 *
 * Most texts have newlines that letters follow, where all begins anew in the common
 * vocabularies: up to the last one a long stretch is encoded as if it were a text.  Others go
 * through two buffers: text in which a special piece may begin that is not whole yet, and the
 * end of a fragment that the model has not settled yet.
 */
#include <stdlib.h>
#include <string.h>

#include "vocab/tokenizer.h"
#include "vocab/unicode_form.h"

enum { MUCH = 16 };                              /* windows of text encoded at a time    */
enum { BEHIND = 8 };                             /* bytes kept that a piece may look back at */

void lm_parts_free(struct lm_parts *t)
{
    if (!t)
        return;
    lm_buf_release(&t->raw);
    lm_buf_release(&t->text);
    lm_buf_release(&t->words);
    free(t);
}

/* A new text: everything but the memory is as at first. */
static bool begin(struct lm_encoder *e)
{
    struct lm_parts *t = e->parts;
    if (!t) {
        t = e->parts = calloc(1, sizeof *t);
        if (!t)
            return false;
        const struct lm_added *a = &e->v->added;
        bool rstrip = false, blank = false;
        size_t blanks = 3 * ((size_t)a->most_blanks + 2);
        t->longest = a->longest > blanks ? a->longest : blanks;
        for (uint32_t i = 0; i < a->n; i++) {
            size_t len;
            int k;
            const char *p = lm_pieces_get(&a->text, i, &len);
            t->lstrip |= e->v->attr[a->id[i]] & LM_ATTR_LSTRIP;
            rstrip |= e->v->attr[a->id[i]] & LM_ATTR_RSTRIP;
            blank |= lm_uni_class(lm_uni_next(p, p + len, &k)) & LM_U_SPACE;
        }
        t->overlap = rstrip && blank;
    }
    struct lm_buf raw = t->raw, text = t->text, words = t->words;
    lm_buf_clear(&raw);
    lm_buf_clear(&text);
    lm_buf_clear(&words);
    *t = (struct lm_parts){ .raw = raw, .text = text, .words = words, .longest = t->longest,
                            .lstrip = t->lstrip, .overlap = t->overlap, .first = true };
    return true;
}

bool lm_parts_wait(const struct lm_encoder *e, const struct lm_buf *b, size_t was, size_t *wait)
{
    *wait = b->len < was || b->len < 2 * e->window ? 0 : 2 * b->len;
    return b->failed;
}

/* Up to where text without a special piece, from done on, is certain to be a fragment's. */
static size_t fragment_end(const struct lm_parts *t, size_t limit)
{
    const char *p = t->raw.data + t->done;
    if (limit <= t->done)
        return t->done;
    if (!t->lstrip)
        return limit;
    return t->done + lm_uni_trim(p, lm_whole_chars(p, limit - t->done));
}

/* Blanks that go with the special piece before them. */
static void skip_blanks(struct lm_parts *t, size_t len, bool more)
{
    const char *p = t->raw.data;
    if (more)
        len = t->done + lm_whole_chars(p + t->done, len - t->done);
    while (t->blanks && t->done < len) {
        int k;
        t->blanks = lm_uni_class(lm_uni_next(p + t->done, p + len, &k)) & LM_U_SPACE;
        t->done += t->blanks ? (size_t)k : 0;
    }
    t->blanks &= more;
}

/* Hand n bytes more of the fragment to the model; last: it ends there. */
static int fragment(struct lm_encoder *e, size_t n, bool last, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    int s = LM_OK;
    if (n && !t->open) {
        e->base = t->before + t->done;
        t->model = (struct lm_model_parts){ 0 };
        t->open = true;
    }
    lm_buf_add(&t->text, t->raw.data + t->done, n);
    if (t->text.failed)
        return lm_fail_nomem(err);
    if (t->open && (last || t->text.len >= t->text_wait)) {
        size_t was = t->text.len;
        s = e->v->model->part(e, !last, err);
        if (s == LM_OK && lm_parts_wait(e, &t->text, was, &t->text_wait))
            s = lm_fail_nomem(err);
    }
    if (last) {
        lm_buf_clear(&t->text);
        lm_buf_clear(&t->words);
        t->open = false;
        t->text_wait = t->words_wait = 0;
    }
    t->done += n;
    return s;
}

/* Special pieces in raw[.. len), and what stands between them; more: it goes on behind. */
static int special(struct lm_encoder *e, size_t len, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    size_t ahead = t->longest + BEHIND;
    size_t limit = !more ? len : len > ahead ? len - ahead : 0;
    for (;;) {
        uint32_t id;
        size_t at, end;
        skip_blanks(t, len, more);
        if (!t->open && (t->blanks || t->done == len))
            return LM_OK;
        bool found = lm_added_match(e->v, &e->v->added, t->raw.data, NULL, &t->seek, t->done, len,
                                    limit, e->parse, &id, &at, &end);
        size_t stop = found ? at : more ? fragment_end(t, limit) : len;
        int s = stop > t->done || t->open ? fragment(e, stop - t->done, found || !more, err)
                                          : LM_OK;
        if (s != LM_OK || !found)
            return s;
        if (!lm_encoder_put_at(e, (int32_t)id, 0, 0))
            return lm_fail_nomem(err);
        if ((s = lm_encoder_pass(e, err)))
            return s;
        t->done = end;
        t->blanks = e->v->attr[id] & LM_ATTR_RSTRIP && more &&
                    lm_whole_chars(t->raw.data + end, len - end) == 0;
        t->first = true;
    }
}

/* Forget the text that is done. */
static void drop(struct lm_parts *t)
{
    size_t n = t->done < BEHIND ? 0 : t->done - BEHIND;
    n = n < t->seek ? n : t->seek;
    lm_buf_drop(&t->raw, n);
    t->done -= n;
    t->seek -= n;
    t->seen = t->seen > n ? t->seen - n : 0;
    t->before += n;
}

/* The last place in p[from .. len) where all begins anew, or 0. */
static size_t new_line(const struct lm_vocab *v, const char *p, size_t from, size_t len)
{
    if (!v->by_lines)
        return 0;
    for (size_t i = len; i > from + 1; i--)
        if (lm_begins_anew(v, p, i - 1))
            return i - 1;
    return 0;
}

/* Nothing is begun: encode raw[done .. n) as a text of its own. */
static int whole(struct lm_encoder *e, size_t n, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    int s = lm_encoder_whole(e, t->raw.data + t->done, n - t->done, t->before + t->done, &t->first,
                             err);
    t->done = t->seek = n;
    return s;
}

int lm_encoder_parts(struct lm_encoder *e, const char *text, size_t len, bool on, bool more,
                     struct lm_err *err)
{
    if (!on && !begin(e))
        return lm_fail_nomem(err);
    struct lm_parts *t = e->parts;
    bool parts = e->v->model->part && !e->v->rules && !e->ids->want_spans && !t->overlap;
    lm_buf_add(&t->raw, text, len);
    if (t->raw.failed)
        return lm_fail_nomem(err);
    size_t n = t->raw.len, cut = 0;
    if (!more && !t->split)
        return whole(e, n, err);
    if (more && (n < 2 * t->longest || (t->split ? n < t->raw_wait : n < MUCH * e->window)))
        return LM_OK;
    if (more)
        cut = new_line(e->v, t->raw.data, t->seen > t->done ? t->seen : t->done, n);
    t->seen = n;
    int s = LM_OK;
    if (cut)
        s = t->split ? special(e, cut, false, err) : whole(e, cut, err);
    t->split = !cut && (parts || t->split);
    if (!cut && t->split)
        s = special(e, n, more, err);
    drop(t);
    if (s == LM_OK && t->split && lm_parts_wait(e, &t->raw, n, &t->raw_wait))
        s = lm_fail_nomem(err);
    return s;
}
