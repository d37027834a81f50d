/* SPDX-License-Identifier: MIT */
/* From text to ids by the rules of a tokenizer.json. */
#include "vocab/vocab_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

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
        *out = r;
    else
        lm_rules_free(r);
    return s;
}

/* ---- words ------------------------------------------------------------------------- */

/* A piece of the model by its text. */
static int32_t find(const struct lm_vocab *v, const char *p, size_t len)
{
    int32_t id = lm_vocab_find(v, p, len);
    return id >= 0 && (v->type[id] == LM_TOKEN_UNUSED || v->attr[id] & LM_ATTR_ADDED) ? -1 : id;
}

/* WordLevel: the word is a piece, or unknown. */
static int put_level(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    int32_t id = find(e->v, p, len);
    if (id < 0 && e->v->unk < 0)
        return lm_fail(err, LM_EDATA, "'%.*s' is not in the vocabulary, which has no unknown "
                       "token", (int)(len < 40 ? len : 40), p);
    return lm_encoder_put(e, id < 0 ? e->v->unk : id, len) ? LM_OK : lm_fail_nomem(err);
}

/* A word of BPE on its way to symbols. */
struct word {
    struct lm_encoder     *e;
    const struct lm_rules *r;
    uint32_t               n;            /* symbols                          */
    bool                   has_unk;      /* an unknown one is not put yet    */
    uint32_t               unk_len;
    uint32_t               left_out;     /* bytes that are in no symbol yet  */
};

static bool add(struct word *w, int32_t id, uint32_t len)
{
    struct lm_encoder *e = w->e;
    if (!lm_grow(&e->sym, &e->sym_cap, (size_t)w->n + 1, sizeof *e->sym))
        return false;
    len += w->left_out;
    w->left_out = 0;
    e->sym[w->n] = (struct lm_sym){ .id = (uint32_t)id, .len = len, .prev = w->n - 1,
                                    .next = w->n + 1, .there = true };
    w->n++;
    return true;
}

static bool flush_unk(struct word *w)
{
    bool was = w->has_unk;
    w->has_unk = false;
    return !was || add(w, w->e->v->unk, w->unk_len);
}

/* The bytes of text as pieces <0x00> to <0xFF>: 1, 0 if one of them is none, -1: no memory.
 * An unknown character before them stays behind them, as the library has it. */
static int add_bytes(struct word *w, const char *p, size_t len)
{
    const struct lm_vocab *v = w->e->v;
    for (size_t i = 0; i < len; i++)
        if (v->byte_id[(unsigned char)p[i]] < 0)
            return 0;
    for (size_t i = 0; i < len; i++)
        if (!add(w, v->byte_id[(unsigned char)p[i]], 1))
            return -1;
    return 1;
}

/* One character, covering n bytes of the word, with what marks its place: as a piece, as
 * bytes or as unknown. */
static bool add_char(struct word *w, const char *p, size_t len, uint32_t n)
{
    const struct lm_vocab *v = w->e->v;
    int32_t id = find(v, p, len);
    if (id >= 0)
        return flush_unk(w) && add(w, id, n);
    int r = w->r->byte_fallback ? add_bytes(w, p, len) : 0;
    if (r)
        return r > 0;
    if (v->unk < 0) {                            /* left out: its neighbours may join */
        if (w->n)
            w->e->sym[w->n - 1].len += n;
        else
            w->left_out += n;
        return true;
    }
    if (w->has_unk && w->r->fuse_unk) {
        w->unk_len += n;
        return true;
    }
    if (!flush_unk(w))
        return false;
    w->has_unk = true;
    w->unk_len = n;
    return true;
}

/* The symbols of a word. */
static bool symbols(struct word *w, const char *p, size_t len)
{
    const char *begin = p, *end = p + len;
    const struct lm_str go_on = w->r->go_on, last = w->r->last;
    struct lm_buf *b = &w->e->scratch;
    for (int k; p < end; p += k) {
        lm_uni_next(p, end, &k);
        bool marked = (p > begin && go_on.len) || (p + k == end && last.len);
        if (!marked) {
            if (!add_char(w, p, (size_t)k, (uint32_t)k))
                return false;
            continue;
        }
        lm_buf_clear(b);
        if (p > begin)
            lm_buf_add(b, go_on.p, go_on.len);
        lm_buf_add(b, p, (size_t)k);
        if (p + k == end)
            lm_buf_add(b, last.p, last.len);
        if (b->failed || !add_char(w, b->data, b->len, (uint32_t)k))
            return false;
    }
    return flush_unk(w);
}

static int put_bpe(struct lm_encoder *e, const struct lm_rules *r, const char *p, size_t len,
                   struct lm_err *err)
{
    int32_t id = r->whole ? find(e->v, p, len) : -1;
    if (id >= 0)
        return lm_encoder_put(e, id, len) ? LM_OK : lm_fail_nomem(err);
    struct word w = { .e = e, .r = r };
    if (!symbols(&w, p, len))
        return lm_fail_nomem(err);
    if (!w.n)
        return LM_OK;
    if (!lm_merge_symbols(e, w.n))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i != UINT32_MAX; i = e->sym[i].next)
        if (!lm_encoder_put(e, (int32_t)e->sym[i].id, e->sym[i].len))
            return lm_fail_nomem(err);
    return LM_OK;
}

static int put_word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                    struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    if (len >= UINT32_MAX / 8)
        return lm_fail(err, LM_ENOSUP, "a word of more than 512 MiB");
    e->pos = 0;
    if (r->words == LM_WK_MODEL)
        return r->model->word(e, p, len, limit, err);
    if (r->words == LM_WK_LEVEL)
        return put_level(e, p, len, err);
    bool hit;
    struct lm_memo *m = lm_encoder_memo(e, p, len, limit, &hit);
    if (hit)
        return LM_OK;
    size_t from = e->ids->n;
    int s = put_bpe(e, r, p, len, err);
    if (s == LM_OK && m)
        lm_encoder_keep(e, m, from);
    return s;
}

/* ---- fragments --------------------------------------------------------------------- */

/* Normalized text without added tokens. */
static int put_text(struct lm_encoder *e, const char *p, size_t len,
                    const struct lm_origin *origin, bool first, struct lm_err *err)
{
    const char *word;
    size_t n;
    int s = lm_rules_begin(e->rules, p, len, origin, first, err);
    while (s == LM_OK && (s = lm_rules_next(e->rules, &word, &n, &e->origin, err)) > 0)
        s = put_word(e, word, n, word + n, err);
    e->origin = NULL;
    return s;
}

/* For each byte of normalized text: was it made of guarded ones?  Into scratch. */
static const unsigned char *guard_of(struct lm_encoder *e, const struct lm_traced *t)
{
    const unsigned char *guard = e->guard + e->base;
    lm_buf_clear(&e->norm);
    unsigned char *to = (unsigned char *)lm_buf_room(&e->norm, t->text.len + 1);
    for (size_t i = 0; to && i < t->text.len; i++) {
        to[i] = 0;
        for (uint32_t k = t->origin[i].from; k < t->origin[i].to; k++)
            to[i] |= guard[k];
    }
    return to;
}

/* A fragment's added tokens that are looked for when it is normalized, and the text between. */
static int put_fragment(struct lm_encoder *e, const struct lm_traced *t, bool traced,
                        struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    const char *p = t->text.data;
    size_t len = t->text.len;
    const unsigned char *guard = NULL;
    if (e->guard && r->added.n && !(guard = guard_of(e, t)))
        return lm_fail_nomem(err);
    for (size_t done = 0, seek = 0; done < len || seek < len;) {
        uint32_t id;
        size_t at, end;
        bool found = lm_added_match(e->v, &r->added, p, guard, &seek, done, len, len, e->parse,
                                    &id, &at, &end);
        size_t stop = found ? at : len;
        const struct lm_origin *o = traced ? t->origin + done : NULL;
        bool first = e->base == 0 && (o ? o->from == 0 : done == 0);
        int s = stop > done ? put_text(e, p + done, stop - done, o, first, err) : LM_OK;
        if (s != LM_OK)
            return s;
        if (!found)
            break;
        struct lm_origin span = { 0, 0 };
        if (traced)
            span = lm_origin_span(t->origin, at, end - at);
        if (!lm_encoder_put_at(e, (int32_t)id, span.from, span.to - span.from))
            return lm_fail_nomem(err);
        done = end;
    }
    return LM_OK;
}

int lm_rules_encode(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    const struct lm_rules *r = e->v->rules;
    bool traced = e->ids->want_spans || (r->asks_first && r->n_norm) ||
                  (e->guard && r->added.n);
    if (len >= UINT32_MAX)
        return lm_fail(err, LM_ENOSUP, "a stretch of more than 4 GiB of text");
    if (!e->rules && !(e->rules = lm_rules_work_new(r)))
        return lm_fail_nomem(err);
    struct lm_traced *text = lm_rules_text(e->rules);
    int s = lm_rules_normalize(r, p, len, traced, text, lm_rules_tmp(e->rules), err);
    return s == LM_OK ? put_fragment(e, text, traced, err) : s;
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

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    return lm_rules_encode(e, p, len, err);
}

const struct lm_tok_model lm_tok_rules = {
    .name = "rules", .bos = -1, .eos = -1, .unk = -1, .json_only = true, .load = load,
    .encode = encode,
};
