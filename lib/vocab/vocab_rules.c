/* SPDX-License-Identifier: MIT */
/*
 * From text to ids by the rules of a tokenizer.json.  Text goes through buffers, one before each
 * normalizer and one behind them, in which tokens are looked for; what a step cannot deal with yet
 * stays in its buffer, so that a text may come in parts of any size.
 */
#include "vocab/vocab_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/pick.h"

void lm_rules_free(struct lm_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_norm; i++) {
        lm_regex_free(r->norm[i].pattern);
        if (r->norm[i].kind == LM_NK_CHARSMAP)
            lm_charsmap_release(&r->norm[i].map);
    }
    for (size_t i = 0; i < r->n_pre; i++)
        lm_regex_free(r->pre[i].pattern);
    for (size_t i = 0; i < r->n_dec; i++)
        lm_regex_free(r->dec[i].pattern);
    lm_added_release(&r->added);
    lm_arena_release(&r->arena);
    free(r);
}

/* ---- rules without a tokenizer.json ---------------------------------------------------- */

/* sarvam-moe: lines and runs of newlines are words, with marks for their spaces. */
static int lines_with_marks(struct lm_rules *r, struct lm_err *err)
{
    static const struct lm_str mark = { "\xE2\x96\x81", 3 }, space = { " ", 1 };
    struct lm_regex *from = lm_regex_literal(" ", 1, err);
    struct lm_regex *back = from ? lm_regex_literal(mark.p, mark.len, err) : NULL;
    r->norm[r->n_norm++] = (struct lm_norm_part){ .kind = LM_NK_REPLACE, .text = mark,
                                                  .pattern = from };
    r->pre[r->n_pre++] = (struct lm_pre_part){ .kind = LM_PK_HAND, .how = LM_CUT_ISOLATED,
                                               .hand = { lm_pre_lines, 0, NULL } };
    r->dec[r->n_dec++] = (struct lm_dec_part){ .kind = LM_DK_REPLACE, .to = space,
                                               .pattern = back };
    r->dec[r->n_dec++] = (struct lm_dec_part){ .kind = LM_DK_FALLBACK };
    return from && back ? LM_OK : err ? (int)err->code : LM_ENOSUP;
}

/* whitespace: what stands between blanks, which are dropped. */
static void between_blanks(struct lm_rules *r, bool lowercase)
{
    if (lowercase)
        r->norm[r->n_norm++] = (struct lm_norm_part){ .kind = LM_NK_LOWER };
    r->pre[r->n_pre++] = (struct lm_pre_part){ .kind = LM_PK_SPACE, .how = LM_CUT_REMOVED };
    r->dec[r->n_dec++] = (struct lm_dec_part){ .kind = LM_DK_FALLBACK };
}

int lm_rules_ready(struct lm_rules *r, struct lm_err *err)
{
    for (size_t i = 0; i < r->n_pre; i++) {
        struct lm_pre_part *t = &r->pre[i];
        const char *text = t->kind == LM_PK_HAND ? lm_pretok_text(&t->hand) : NULL;
        if (text && !t->pattern && !(t->pattern = lm_regex_new(text, strlen(text), err)))
            return err ? (int)err->code : LM_ENOMEM;
    }
    return lm_rules_growth(r, err);
}

int lm_rules_named(const char *pre, size_t len, bool lowercase, struct lm_rules **out,
                   struct lm_err *err)
{
    struct lm_err own = { 0 };
    bool lines = len == 10 && memcmp(pre, "sarvam-moe", len) == 0;
    bool blanks = len == 10 && memcmp(pre, "whitespace", len) == 0;
    *out = NULL;
    if (!lines && !blanks)
        return LM_OK;
    struct lm_rules *r = calloc(1, sizeof *r);
    if (!r)
        return lm_fail_nomem(err);
    int s = LM_OK;
    if (lines)
        s = lines_with_marks(r, err ? err : &own);
    else
        between_blanks(r, lowercase);
    r->words = LM_WK_BPE;
    r->byte_fallback = true;
    if (s == LM_OK)
        s = lm_rules_ready(r, err);
    if (s == LM_OK)
        *out = r;
    else
        lm_rules_free(r);
    return s;
}

/* ---- what an encoder keeps ----------------------------------------------------------- */

struct lm_rules_work {
    const struct lm_rules *r;
    struct lm_norm_state   norm[LM_RULES_MAX];
    struct lm_traced       text[LM_RULES_MAX + 1];       /* before each normalizer, normalized */
    size_t                 wait[LM_RULES_MAX + 1];       /* so long it is not looked at       */
    struct lm_cuts        *cuts;
    struct lm_words       *words;
    struct lm_pick         pick;         /* added tokens in normalized text              */
    struct lm_buf          guard;        /* of normalized text, see lm_added_match       */
    bool                   traced;       /* texts have origins                           */
    bool                   open;         /* a piece of the text is on its way            */
    bool                   begun;        /* there was normalized text                    */
    size_t                 taken;        /* bytes of the fragment                        */
};

struct lm_rules_work *lm_rules_work_new(const struct lm_rules *r)
{
    struct lm_rules_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->r = r;
    w->cuts = lm_cuts_new(r);
    w->words = lm_words_new();
    if (!w->cuts || !w->words) {
        lm_rules_work_free(w);
        return NULL;
    }
    return w;
}

void lm_rules_work_free(struct lm_rules_work *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < LM_RULES_MAX; i++)
        lm_norm_release(&w->norm[i]);
    for (size_t i = 0; i <= LM_RULES_MAX; i++)
        lm_traced_release(&w->text[i]);
    lm_buf_release(&w->guard);
    lm_cuts_free(w->cuts);
    lm_words_free(w->words);
    free(w);
}

struct lm_words *lm_rules_words(struct lm_encoder *e)
{
    return e->rules->words;
}

/* A new text. */
static void begin(struct lm_rules_work *w, size_t slice)
{
    for (size_t i = 0; i < w->r->n_norm; i++)
        lm_norm_begin(&w->norm[i], slice);
    for (size_t i = 0; i <= w->r->n_norm; i++) {
        lm_buf_clear(&w->text[i].text);
        w->wait[i] = 0;
    }
    lm_buf_clear(&w->guard);
    lm_cuts_reset(w->cuts);
    lm_words_reset(w->words);
    w->open = w->begun = false;
    w->taken = 0;
}

/* ---- normalizing ------------------------------------------------------------------------ */

int lm_rules_normalize(struct lm_rules_work *w, const char *p, size_t len, struct lm_str *out,
                       struct lm_err *err)
{
    size_t n = w->r->n_norm;
    int s = LM_OK;
    begin(w, len + 1);
    if (!lm_traced_add(&w->text[0], p, len, NULL))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n && s == LM_OK; i++) {
        bool again = true;
        while (again && s == LM_OK)
            s = lm_norm_step(&w->r->norm[i], &w->norm[i], &w->text[i], false, false,
                             &w->text[i + 1], &again, err);
    }
    struct lm_buf *b = &w->text[n].text;
    *out = (struct lm_str){ b->data ? b->data : "", b->len };
    return s;
}

/* ---- added tokens that are looked for in normalized text --------------------------------- */

/* Text without any: n bytes at `at` of p, and with last its end. */
static int put_text(struct lm_encoder *e, const char *p, size_t at, size_t n, bool last,
                    struct lm_err *err)
{
    struct lm_rules_work *w = e->rules;
    const struct lm_origin *o = w->traced ? w->text[w->r->n_norm].origin : NULL;
    o = o ? o + at : NULL;                       /* no text has none */
    bool first = e->base == 0 && (o && n ? o->from == 0 : !w->begun);
    if (!n && !w->open)
        return LM_OK;
    w->begun = true;
    w->open = !last;
    return lm_cuts_push(w->cuts, e, p + at, n, o, first, last, err);
}

static int put_token(struct lm_encoder *e, uint32_t id, size_t at, size_t end, struct lm_err *err)
{
    struct lm_rules_work *w = e->rules;
    struct lm_origin span = { 0, 0 };
    if (w->traced)
        span = lm_origin_span(w->text[w->r->n_norm].origin, at, end - at);
    w->begun = true;
    return lm_encoder_put_at(e, (int32_t)id, span.from, span.to - span.from)
               ? lm_encoder_pass(e, err) : lm_fail_nomem(err);
}

/* For each byte of normalized text: was it made of guarded ones? */
static const unsigned char *guard_of(struct lm_encoder *e, const struct lm_traced *t)
{
    const unsigned char *guard = e->guard + e->base;
    struct lm_buf *b = &e->rules->guard;
    size_t i = b->len;
    if (!lm_buf_room(b, t->text.len + 1 - i))
        return NULL;
    for (; i < t->text.len; i++) {
        unsigned char any = 0;
        for (size_t k = t->origin[i].from; k < t->origin[i].to; k++)
            any |= guard[k];
        b->data[b->len++] = (char)any;
    }
    return (const unsigned char *)b->data;
}

/* Normalized text: tokens, and words between them. */
static int put_normalized(struct lm_encoder *e, bool more, struct lm_err *err)
{
    static const struct lm_pick_to to = { put_text, put_token };
    struct lm_rules_work *w = e->rules;
    size_t last = w->r->n_norm;
    struct lm_traced *t = &w->text[last];
    size_t n = t->text.len, done = n;
    int s;
    if (!w->r->added.n) {
        s = put_text(e, t->text.data, 0, n, !more, err);
    } else {
        const unsigned char *guard = NULL;
        if (more && n < w->wait[last])
            return LM_OK;
        if (e->guard && !(guard = guard_of(e, t)))
            return lm_fail_nomem(err);
        s = lm_pick_run(e, &w->pick, t->text.data ? t->text.data : "", guard, n, more, &to, err);
        done = lm_pick_drop(&w->pick);
    }
    lm_traced_drop(t, done, w->traced);
    if (w->guard.len)
        lm_buf_drop(&w->guard, done);
    return s == LM_OK && lm_parts_wait(e, &t->text, n, &w->wait[last]) ? lm_fail_nomem(err) : s;
}

/* ---- fragments --------------------------------------------------------------------------- */

/* From normalizer i on. */
static int run(struct lm_encoder *e, size_t i, bool more, struct lm_err *err)
{
    struct lm_rules_work *w = e->rules;
    struct lm_traced *t = &w->text[i];
    bool again = true;
    int s = LM_OK;
    if (i == w->r->n_norm)
        return put_normalized(e, more, err);
    size_t n = t->text.len;
    if (more && n < w->wait[i])
        return LM_OK;
    while (again && s == LM_OK) {
        s = lm_norm_step(&w->r->norm[i], &w->norm[i], t, w->traced, more, &w->text[i + 1], &again,
                         err);
        if (s == LM_OK)
            s = run(e, i + 1, more || again, err);
    }
    return s == LM_OK && lm_parts_wait(e, &t->text, n, &w->wait[i]) ? lm_fail_nomem(err) : s;
}

/* More text of the fragment. */
static int feed(struct lm_encoder *e, const char *p, size_t len, bool more, struct lm_err *err)
{
    struct lm_rules_work *w = e->rules;
    struct lm_traced *t = &w->text[0];
    size_t was = t->text.len;
    if (!lm_traced_add(t, p, len, NULL) ||
        (w->traced && !lm_grow(&t->origin, &t->cap, was + len + 1, sizeof *t->origin)))
        return lm_fail_nomem(err);
    for (size_t i = 0; w->traced && i < len; i++)
        t->origin[was + i] = (struct lm_origin){ w->taken + i, w->taken + i + 1 };
    w->taken += len;
    return run(e, 0, more, err);
}

static int start(struct lm_encoder *e, struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    if (!e->rules && !(e->rules = lm_rules_work_new(r)))
        return lm_fail_nomem(err);
    struct lm_rules_work *w = e->rules;
    begin(w, e->window);
    lm_pick_init(&w->pick, e->v, &r->added);
    w->traced = e->ids->want_spans || (r->asks_first && r->n_norm) || (e->guard && r->added.n);
    return LM_OK;
}

/* The same in steps, so that what is between them is little. */
static int feed_all(struct lm_encoder *e, const char *p, size_t len, bool more,
                    struct lm_err *err)
{
    int s = LM_OK;
    do {
        size_t n = len < 2 * e->window ? len : e->window;
        s = feed(e, p, n, more || n < len, err);
        p += n;
        len -= n;
    } while (s == LM_OK && len);
    return s;
}

int lm_rules_encode(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    int s = start(e, err);
    return s == LM_OK ? feed_all(e, p, len, false, err) : s;
}

int lm_rules_part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    int s = t->model.started ? LM_OK : start(e, err);
    t->model.started = true;
    if (s == LM_OK)
        s = feed_all(e, t->text.data ? t->text.data : "", t->text.len, more, err);
    lm_buf_clear(&t->text);
    return s;
}

/* The models that only the rules have: BPE of any kind, and WordLevel. */
static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    if (!v->rules)
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s' without rules", v->model->name);
    if (!lm_uni_ready())
        return lm_fail(err, LM_ENOSUP, "tokenizers by their rules: built without utf8proc");
    lm_find_bytes(v);
    return v->rules->words == LM_WK_BPE ? lm_bpe_load(v, src, NULL, env, err) : LM_OK;
}

const struct lm_tok_model lm_tok_rules = {
    .name = "rules", .bos = -1, .eos = -1, .unk = -1, .json_only = true, .load = load,
};
