/* SPDX-License-Identifier: MIT */
/*
 * Words of the rules through their model: BPE of any kind, WordLevel, or the word function of
 * another model.
 *
 * Most words are there as a whole.  One that goes on and on is collected until it is longer than
 * any piece, and from there on worked on as it comes: of BPE its symbols are kept until their
 * tokens are settled, of a model that calls such a word unknown nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/vocab_rules.h"

struct lm_words {
    bool                open;            /* some of a word is here                       */
    bool                parts;           /* it is worked on in parts                     */
    bool                traced;          /* it has origins                               */
    struct lm_traced    text;            /* of it, not worked on                         */
    /* BPE */
    bool                begun;           /* a character of it was a symbol               */
    uint32_t           *id;              /* symbols [n], and what each was made of       */
    struct lm_origin   *origin;
    size_t              n, cap, origin_cap;
    bool                has_unk;         /* an unknown one is not put yet                */
    struct lm_origin    unk;
    bool                has_left;        /* text that is in no symbol yet                */
    struct lm_origin    left;
    /* Unigram */
    struct lm_way       way;
    /* unknown whatever follows */
    struct lm_origin    whole;
};

struct lm_words *lm_words_new(void)
{
    return calloc(1, sizeof(struct lm_words));
}

void lm_words_free(struct lm_words *w)
{
    if (!w)
        return;
    lm_traced_release(&w->text);
    free(w->id);
    free(w->origin);
    free(w);
}

void lm_words_reset(struct lm_words *w)
{
    lm_buf_clear(&w->text.text);
    w->open = w->parts = w->begun = w->has_unk = w->has_left = false;
    w->n = 0;
    w->way = (struct lm_way){ 0 };
}

/* A piece of the model by its text. */
static int32_t find(const struct lm_vocab *v, const char *p, size_t len)
{
    int32_t id = lm_vocab_find(v, p, len);
    return id >= 0 && (v->type[id] == LM_TOKEN_UNUSED || v->attr[id] & LM_ATTR_ADDED) ? -1 : id;
}

/* ---- symbols of BPE ---------------------------------------------------------------------- */

static struct lm_origin join(struct lm_origin a, struct lm_origin b)
{
    a.from = b.from < a.from ? b.from : a.from;
    a.to = b.to > a.to ? b.to : a.to;
    return a;
}

static bool add(struct lm_words *w, int32_t id, struct lm_origin o)
{
    if (!lm_grow(&w->id, &w->cap, w->n + 1, sizeof *w->id) ||
        !lm_grow(&w->origin, &w->origin_cap, w->n + 1, sizeof *w->origin))
        return false;
    w->origin[w->n] = w->has_left ? join(w->left, o) : o;
    w->has_left = false;
    w->id[w->n++] = (uint32_t)id;
    return true;
}

static bool flush_unk(struct lm_words *w, const struct lm_vocab *v)
{
    bool was = w->has_unk;
    w->has_unk = false;
    return !was || add(w, v->unk, w->unk);
}

/* The bytes of text as pieces <0x00> to <0xFF>: 1, 0 if one of them is none, -1: no memory.
 * An unknown character before them stays behind them, as the library has it.  o: where each
 * byte came from; with affixes, which have none, there are no bytes. */
static int add_bytes(struct lm_words *w, const struct lm_vocab *v, const char *p, size_t len,
                     const struct lm_origin *o)
{
    for (size_t i = 0; i < len; i++)
        if (v->byte_id[(unsigned char)p[i]] < 0)
            return 0;
    for (size_t i = 0; i < len; i++)
        if (!add(w, v->byte_id[(unsigned char)p[i]], o ? o[i] : (struct lm_origin){ 0, 0 }))
            return -1;
    return 1;
}

/* One character, with what marks its place: as a piece, as bytes or as unknown.  o: of its own
 * k bytes. */
static bool add_char(struct lm_words *w, const struct lm_vocab *v, const char *p, size_t len,
                     const struct lm_origin *o, size_t k)
{
    const struct lm_rules *r = v->rules;
    struct lm_origin all = o ? lm_origin_span(o, 0, k) : (struct lm_origin){ 0, 0 };
    int32_t id = find(v, p, len);
    if (id >= 0)
        return flush_unk(w, v) && add(w, id, all);
    int s = r->byte_fallback ? add_bytes(w, v, p, len, len == k ? o : NULL) : 0;
    if (s)
        return s > 0;
    if (v->unk < 0) {                            /* left out: its neighbours may join */
        if (w->n)
            w->origin[w->n - 1] = join(w->origin[w->n - 1], all);
        else
            w->left = w->has_left ? join(w->left, all) : all;
        w->has_left |= !w->n;
        return true;
    }
    if (w->has_unk && r->fuse_unk) {
        w->unk = join(w->unk, all);
        return true;
    }
    if (!flush_unk(w, v))
        return false;
    w->has_unk = true;
    w->unk = all;
    return true;
}

/* The symbols of text; if more of the word follows, all but the last character, which may be
 * marked as such: *done bytes. */
static bool add_symbols(struct lm_words *w, struct lm_encoder *e, const char *p, size_t len,
                        const struct lm_origin *o, bool more, size_t *done)
{
    const struct lm_vocab *v = e->v;
    const struct lm_str go_on = v->rules->go_on, last = v->rules->last;
    struct lm_buf *b = &e->scratch;
    size_t i = 0;
    if (more)
        len = lm_whole_chars(p, len);
    for (int k; i < len; i += (size_t)k, w->begun = true) {
        lm_uni_next(p + i, p + len, &k);
        bool ends = i + (size_t)k == len;
        if (ends && more)
            break;
        const struct lm_origin *from = o ? o + i : NULL;
        bool marked = (w->begun && go_on.len) || (ends && last.len);
        lm_buf_clear(b);
        if (marked && w->begun)
            lm_buf_add(b, go_on.p, go_on.len);
        if (marked)
            lm_buf_add(b, p + i, (size_t)k);
        if (marked && ends)
            lm_buf_add(b, last.p, last.len);
        if (b->failed || !add_char(w, v, marked ? b->data : p + i, marked ? b->len : (size_t)k,
                                   from, (size_t)k))
            return false;
    }
    *done = i;
    return more || flush_unk(w, v);
}

/* Tokens of the symbols: all, or, if more follow, those that are settled. */
static int merge(struct lm_words *w, struct lm_encoder *e, bool more, struct lm_err *err)
{
    size_t done = 0;
    if (more && w->n / 3 <= lm_merge_window(e))
        return LM_OK;
    e->origin = w->origin;
    e->pos = 0;
    int s = w->n ? lm_merge_ids(e, w->id, w->n, more, &done, err) : LM_OK;
    e->origin = NULL;
    if (!more)
        done = w->n;
    w->n -= done;
    if (w->n && done) {
        memmove(w->id, w->id + done, w->n * sizeof *w->id);
        memmove(w->origin, w->origin + done, w->n * sizeof *w->origin);
    }
    return s;
}

/* ---- words that are there ------------------------------------------------------------------- */

/* WordLevel: the word is a piece, or unknown. */
static int put_level(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    int32_t id = find(e->v, p, len);
    if (id < 0 && e->v->unk < 0)
        return lm_fail(err, LM_EDATA, "'%.*s' is not in the vocabulary, which has no unknown "
                       "token", (int)(len < 40 ? len : 40), p);
    return lm_encoder_put(e, id < 0 ? e->v->unk : id, len) ? LM_OK : lm_fail_nomem(err);
}

static int put_bpe(struct lm_words *w, struct lm_encoder *e, const char *p, size_t len,
                   struct lm_err *err)
{
    int32_t id = e->v->rules->whole ? find(e->v, p, len) : -1;
    size_t done;
    if (id >= 0)
        return lm_encoder_put(e, id, len) ? LM_OK : lm_fail_nomem(err);
    w->n = 0;
    w->begun = w->has_unk = w->has_left = false;
    if (!add_symbols(w, e, p, len, e->origin, false, &done))
        return lm_fail_nomem(err);
    return merge(w, e, false, err);
}

/* A whole word. */
static int put_word(struct lm_words *w, struct lm_encoder *e, const char *p, size_t len,
                    struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    e->pos = 0;
    if (r->words == LM_WK_MODEL)
        return r->model->word(e, p, len, p + len, err);
    if (r->words == LM_WK_LEVEL)
        return put_level(e, p, len, err);
    bool hit;
    struct lm_memo *m = lm_encoder_memo(e, p, len, p + len, &hit);
    if (hit)
        return LM_OK;
    size_t from = e->ids->n;
    int s = put_bpe(w, e, p, len, err);
    if (s == LM_OK && m)
        lm_encoder_keep(e, m, from);
    return s;
}

/* ---- words that go on and on -------------------------------------------------------------- */

/* More bytes than any word has that is not unknown. */
static uint64_t most(const struct lm_vocab *v)
{
    const struct lm_rules *r = v->rules;
    return r->words == LM_WK_LEVEL                  ? v->longest
           : r->words == LM_WK_MODEL && r->model->most ? r->model->most(v)
                                                    : UINT64_MAX;
}

/* Forget text of a word that is unknown, but for its begin, which an error names. */
static int forget(struct lm_words *w, struct lm_encoder *e, bool traced, bool more,
                  struct lm_err *err)
{
    struct lm_traced *t = &w->text;
    size_t keep = t->text.len < 40 ? t->text.len : lm_whole_chars(t->text.data, 40);
    if (traced && t->text.len)
        w->whole = join(w->whole, lm_origin_span(t->origin, 0, t->text.len));
    t->text.len = keep;
    if (more)
        return LM_OK;
    if (e->v->unk < 0)
        return put_level(e, t->text.data, keep, err);
    e->origin = &w->whole;
    e->pos = 0;
    bool ok = lm_encoder_put(e, e->v->unk, 1);
    e->origin = NULL;
    return ok ? LM_OK : lm_fail_nomem(err);
}

/* A word of Unigram: the stretch of unknown text that is not put yet is one place. */
static int way_part(struct lm_words *w, struct lm_encoder *e, bool traced, bool more,
                    struct lm_err *err)
{
    struct lm_traced *t = &w->text;
    size_t done, lag = traced && w->way.unknown ? 1 : 0, n = t->text.len;
    if (more && n < 2 * e->window)
        return LM_OK;
    if (lag) {
        if (!lm_grow(&t->origin, &t->cap, n + 1, sizeof *t->origin))
            return lm_fail_nomem(err);
        memmove(t->origin + 1, t->origin, n * sizeof *t->origin);
        t->origin[0] = w->unk;
    }
    e->origin = traced ? t->origin : NULL;
    e->pos = 0;
    int s = e->v->rules->model->word_part(e, &w->way, t->text.data, n, more, &done, err);
    e->origin = NULL;
    if (s != LM_OK || !more)
        return s;
    if (traced && w->way.unknown) {
        w->unk = lm_origin_span(t->origin + lag + done - w->way.unknown, 0, w->way.unknown);
        w->way.unknown = 1;
    }
    if (lag)
        memmove(t->origin, t->origin + 1, n * sizeof *t->origin);
    lm_traced_drop(t, done, traced);
    return LM_OK;
}

static int bpe_part(struct lm_words *w, struct lm_encoder *e, bool traced, bool more,
                    struct lm_err *err)
{
    struct lm_traced *t = &w->text;
    size_t done;
    if (!add_symbols(w, e, t->text.data, t->text.len, traced ? t->origin : NULL, more, &done))
        return lm_fail_nomem(err);
    lm_traced_drop(t, done, traced);
    return merge(w, e, more, err);
}

static int word_part(struct lm_words *w, struct lm_encoder *e, bool traced, bool more,
                     struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    if (r->words == LM_WK_BPE)
        return bpe_part(w, e, traced, more, err);
    return r->words == LM_WK_MODEL && r->model->word_part ? way_part(w, e, traced, more, err)
                                                          : forget(w, e, traced, more, err);
}

/* Is it longer than what is put as a whole? */
static bool is_long(const struct lm_encoder *e, size_t len)
{
    const struct lm_vocab *v = e->v;
    bool unknown = v->rules->words == LM_WK_LEVEL ||
                   (v->rules->words == LM_WK_MODEL && !v->rules->model->word_part);
    return len > e->window && len > v->longest && (!unknown || len > most(v));
}

int lm_words_push(struct lm_words *w, struct lm_encoder *e, const char *p, size_t n,
                  const struct lm_origin *origin, bool last, struct lm_err *err)
{
    struct lm_traced *t = &w->text;
    int s;
    if (!w->open && last && !is_long(e, n)) {
        e->origin = origin;
        s = put_word(w, e, p, n, err);
        e->origin = NULL;
        return s == LM_OK ? lm_encoder_pass(e, err) : s;
    }
    if (!w->open) {
        lm_words_reset(w);
        w->traced = origin != NULL;
    }
    w->open = true;
    if (!lm_traced_add(t, p, n, origin))
        return lm_fail_nomem(err);
    if (!w->parts && is_long(e, t->text.len)) {
        w->parts = true;
        w->whole = origin ? t->origin[0] : (struct lm_origin){ 0, 0 };
    }
    if (!last)
        return w->parts ? word_part(w, e, w->traced, true, err) : LM_OK;
    w->open = false;
    if (w->parts) {
        s = word_part(w, e, w->traced, false, err);
    } else {
        e->origin = w->traced ? t->origin : NULL;
        s = put_word(w, e, t->text.data, t->text.len, err);
        e->origin = NULL;
    }
    lm_words_reset(w);
    return s == LM_OK ? lm_encoder_pass(e, err) : s;
}
