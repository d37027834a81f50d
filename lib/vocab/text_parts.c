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

#include "vocab/pick.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

/* windows of text encoded at a time; where it came from takes many times as much */
enum { MUCH = 16, MUCH_WITH_SPANS = 4 };

void lm_parts_free(struct lm_parts *t)
{
    if (!t)
        return;
    lm_buf_release(&t->raw);
    lm_buf_release(&t->text);
    lm_buf_release(&t->words);
    free(t->map.e);
    free(t->normal.e);
    free(t->pick);
    free(t);
}

/* A new text: everything but the memory is as at first. */
static bool begin(struct lm_encoder *e)
{
    struct lm_parts *t = e->parts;
    if (!t && !(t = e->parts = calloc(1, sizeof *t)))
        return false;
    if (!t->pick && !(t->pick = calloc(1, sizeof *t->pick)))
        return false;
    lm_pick_init(t->pick, e->v, &e->v->added);
    struct lm_parts was = *t;
    *t = (struct lm_parts){ .raw = was.raw, .text = was.text, .words = was.words, .map = was.map,
                            .normal = was.normal, .pick = was.pick, .first = true };
    lm_buf_clear(&t->raw);
    lm_buf_clear(&t->text);
    lm_buf_clear(&t->words);
    return true;
}

bool lm_parts_wait(const struct lm_encoder *e, const struct lm_buf *b, size_t was, size_t *wait)
{
    *wait = b->len < was || b->len < 2 * e->window ? 0 : 2 * b->len;
    return b->failed;
}

/* ---- where normalized text came from ------------------------------------------------ */

struct lm_remap *lm_parts_map(struct lm_encoder *e)
{
    struct lm_parts *t = e->parts;
    t->was = t->words.len;
    t->map.n = t->map.cursor = 0;
    return e->ids->want_spans ? &t->map : NULL;
}

bool lm_parts_mapped(struct lm_encoder *e, struct lm_remap *to, size_t taken)
{
    struct lm_parts *t = e->parts;
    bool ok = true;
    if (e->ids->want_spans) {
        lm_remap_trim(to);
        ok = lm_remap_add(to, t->words_done, t->text_done);
        for (size_t i = 0; ok && i < t->map.n; i++)
            ok = lm_remap_add(to, t->words_done + (t->map.e[i].at - t->was),
                              t->text_done + t->map.e[i].from);
    }
    t->text_done += taken;
    t->words_done += t->words.len - t->was;
    return ok;
}

/* ---- fragments and what stands between them ------------------------------------------- */

/* n bytes more of a fragment for the model; last: it ends there. */
static int fragment(struct lm_encoder *e, const char *p, size_t at, size_t n, bool last,
                    struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    int s = LM_OK;
    if (!t->started) {
        e->base = t->before + at;
        e->pos = t->text_done = t->words_done = 0;
        e->map.n = e->map.cursor = t->normal.n = t->normal.cursor = 0;
        t->model = (struct lm_model_parts){ 0 };
        t->started = true;
    }
    lm_buf_add(&t->text, p + at, n);
    if (t->text.failed)
        return lm_fail_nomem(err);
    if (last || t->text.len >= t->text_wait) {
        size_t was = t->text.len;
        s = e->v->rules ? lm_rules_part(e, !last, err) : e->v->model->part(e, !last, err);
        if (s == LM_OK && lm_parts_wait(e, &t->text, was, &t->text_wait))
            s = lm_fail_nomem(err);
    }
    if (last) {
        lm_buf_clear(&t->text);
        lm_buf_clear(&t->words);
        t->started = false;
        t->text_wait = t->words_wait = 0;
    }
    return s;
}

static int token(struct lm_encoder *e, uint32_t id, size_t at, size_t end, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    e->base = t->before;
    t->first = true;
    return lm_encoder_put_at(e, (int32_t)id, at, end - at) ? lm_encoder_pass(e, err)
                                                           : lm_fail_nomem(err);
}

/* Special pieces in raw[.. len), and what stands between them; more: it goes on behind. */
static int special(struct lm_encoder *e, size_t len, bool more, struct lm_err *err)
{
    static const struct lm_pick_to to = { fragment, token };
    return lm_pick_run(e, e->parts->pick, e->parts->raw.data, NULL, len, more, &to, err);
}

/* Forget the text that is done. */
static void drop(struct lm_parts *t)
{
    size_t n = lm_pick_drop(t->pick);
    lm_buf_drop(&t->raw, n);
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
    size_t done = t->pick->done;
    int s = lm_encoder_whole(e, t->raw.data + done, n - done, t->before + done, &t->first, err);
    t->pick->done = t->pick->seek = n;
    return s;
}

int lm_encoder_parts(struct lm_encoder *e, const char *text, size_t len, bool on, bool more,
                     struct lm_err *err)
{
    if (!on && !begin(e))
        return lm_fail_nomem(err);
    struct lm_parts *t = e->parts;
    struct lm_pick *k = t->pick;
    bool parts = (e->v->model->part || e->v->rules) && !k->overlap;
    lm_buf_add(&t->raw, text, len);
    if (t->raw.failed)
        return lm_fail_nomem(err);
    size_t n = t->raw.len, cut = 0;
    size_t much = (e->ids->want_spans ? MUCH_WITH_SPANS : MUCH) * e->window;
    if (!more && !t->split)
        return whole(e, n, err);
    if (more && (n < 2 * k->longest || (t->split ? n < t->raw_wait : n < much)))
        return LM_OK;
    if (more)
        cut = new_line(e->v, t->raw.data, t->seen > k->done ? t->seen : k->done, n);
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
