/* SPDX-License-Identifier: MIT */
/*
 * Decoders: tokens to text.  Each step takes tokens one by one and hands on what they become;
 * what it has to know first (is it the last one? does the character go on?) is little, so that
 * text comes out as the ids come in.  A step behind Fuse or ByteLevel gets the whole text as one
 * token, in parts.  Only ByteLevel and WordPiece there, and Replace by a pattern that needs PCRE2,
 * wait for the end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

struct step {
    uint64_t      seen;                  /* tokens so far                               */
    bool          whole;                 /* gets one token, in parts                    */
    struct lm_buf held;                  /* text that waits                             */
    bool          has_held;
    size_t        stripped;              /* STRIP of the whole: characters gone in front */
    bool          past_start;
    bool          long_enough;           /* FALLBACK of the whole: it is no byte's name */
    struct lm_regex_scan scan;           /* REPLACE of a token; WORDPIECE: room         */
    struct lm_regex_walk walk;           /* REPLACE of the whole                        */
    bool          walking;
    size_t        at;                    /* all before it in held is handed on          */
};

struct lm_rules_detok {
    const struct lm_rules *r;
    struct step            step[LM_RULES_MAX];
    struct lm_buf          text[2];      /* what goes from step to step                 */
};

struct lm_rules_detok *lm_rules_detok_new(const struct lm_rules *r)
{
    struct lm_rules_detok *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->r = r;
    bool whole = false;
    for (size_t i = 0; i < r->n_dec; i++) {
        d->step[i].whole = whole;
        whole |= r->dec[i].kind == LM_DK_FUSE || r->dec[i].kind == LM_DK_BYTES;
    }
    return d;
}

void lm_rules_detok_free(struct lm_rules_detok *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < LM_RULES_MAX; i++) {
        lm_buf_release(&d->step[i].held);
        lm_regex_scan_release(&d->step[i].scan);
        lm_regex_ways_free(d->step[i].walk.ways);
    }
    lm_buf_release(&d->text[0]);
    lm_buf_release(&d->text[1]);
    free(d);
}

/* ---- what becomes of one token ----------------------------------------------------------- */

/* Every `from` becomes `to`; left to right. */
static void replace(struct lm_buf *out, struct lm_str s, struct lm_str from, struct lm_str to)
{
    size_t i = 0;
    while (from.len && s.len - i >= from.len) {
        if (memcmp(s.p + i, from.p, from.len) == 0) {
            lm_buf_add(out, to.p, to.len);
            i += from.len;
        } else {
            lm_buf_byte(out, (unsigned char)s.p[i++]);
        }
    }
    lm_buf_add(out, s.p + i, s.len - i);
}

static int replace_pattern(struct step *x, const struct lm_dec_part *t, struct lm_str s,
                           struct lm_buf *out, struct lm_err *err)
{
    size_t done = 0, at, end;
    int r = lm_regex_start(&x->scan, t->pattern, s.p, s.len, err);
    while (r == LM_OK && (r = lm_regex_next(&x->scan, &at, &end, err)) > 0) {
        lm_buf_add(out, s.p + done, at - done);
        lm_buf_add(out, t->to.p, t->to.len);
        done = end;
        r = LM_OK;
    }
    lm_buf_add(out, s.p + done, s.len - done);
    return r;
}

/* Characters of the alphabet as bytes; a token with any other is itself. */
static void from_alphabet(struct lm_buf *out, struct lm_str s)
{
    size_t was = out->len;
    const char *end = s.p + s.len;
    for (const char *p = s.p; p < end;) {
        int k;
        int b = lm_rune_byte(lm_uni_next(p, end, &k));
        if (b < 0) {
            out->len = was;
            lm_buf_add(out, s.p, s.len);
            return;
        }
        lm_buf_byte(out, b);
        p += k;
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static void from_fallback(struct lm_buf *out, struct lm_str s)
{
    if (s.len == 6 && memcmp(s.p, "<0x", 3) == 0 && s.p[5] == '>' && hex(s.p[3]) >= 0 &&
        hex(s.p[4]) >= 0)
        lm_buf_byte(out, hex(s.p[3]) * 16 + hex(s.p[4]));
    else
        lm_buf_add(out, s.p, s.len);
}

/* Marks become spaces, or go. */
static void from_marks(struct lm_buf *out, const struct lm_dec_part *t, struct lm_str s,
                       bool first)
{
    static const struct lm_str space = { " ", 1 }, none = { "", 0 };
    replace(out, s, t->from, first && t->clean ? none : space);
}

/* Spaces that WordPiece put where English has none; in this order. */
static const char *const unspaced[][2] = {
    { " .", "." },     { " ?", "?" },   { " !", "!" },   { " ,", "," },   { " ' ", "'" },
    { " n't", "n't" }, { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" },
    { " 've", "'ve" }, { " 're", "'re" },
};

static void from_wordpiece(struct step *x, struct lm_buf *out, const struct lm_dec_part *t,
                           struct lm_str s, bool first)
{
    struct lm_buf *b = &x->scan.sorts;           /* spare: no pattern is running */
    struct lm_buf in = { 0 };
    if (!first && s.len >= t->from.len && memcmp(s.p, t->from.p, t->from.len) == 0) {
        s.p += t->from.len;
        s.len -= t->from.len;
    } else if (!first) {
        lm_buf_byte(&in, ' ');
    }
    lm_buf_add(&in, s.p, s.len);
    for (size_t i = 0; t->clean && i < sizeof unspaced / sizeof *unspaced; i++) {
        lm_buf_clear(b);
        replace(b, (struct lm_str){ in.data, in.len },
                (struct lm_str){ unspaced[i][0], strlen(unspaced[i][0]) },
                (struct lm_str){ unspaced[i][1], strlen(unspaced[i][1]) });
        lm_buf_clear(&in);
        lm_buf_add(&in, b->data, b->len);
    }
    lm_buf_add(out, in.data, in.len);
    out->failed |= in.failed || b->failed;
    lm_buf_release(&in);
}

/* Length in bytes of at most n copies of the character c at the begin, or at the end, of s. */
static size_t count(struct lm_str s, struct lm_str c, size_t n, bool at_end)
{
    size_t len = 0;
    for (; n && c.len && s.len - len >= c.len; n--) {
        const char *p = at_end ? s.p + s.len - len - c.len : s.p + len;
        if (memcmp(p, c.p, c.len) != 0)
            break;
        len += c.len;
    }
    return len;
}

static void strip(struct lm_buf *out, const struct lm_dec_part *t, struct lm_str s)
{
    size_t left = count(s, t->from, t->start, false);
    s.p += left;
    s.len -= left;
    lm_buf_add(out, s.p, s.len - count(s, t->from, t->stop, true));
}

/* ---- steps that see a text in parts -------------------------------------------------------- */

/* The begin of the whole text goes at once, what may be its end is held back. */
static void strip_part(struct step *x, struct lm_buf *out, const struct lm_dec_part *t,
                       struct lm_str s)
{
    lm_buf_add(&x->held, s.p, s.len);
    struct lm_str h = { x->held.data, x->held.len };
    if (!x->past_start && t->from.len) {
        size_t n = count(h, t->from, t->start - x->stripped, false);
        h.p += n;
        h.len -= n;
        x->stripped += n / t->from.len;
        x->past_start = x->stripped == t->start || h.len >= t->from.len;
    }
    if (x->past_start || !t->from.len) {
        size_t keep = (t->stop + 1) * t->from.len;
        keep = !t->stop ? 0 : keep < h.len ? keep : h.len;
        lm_buf_add(out, h.p, h.len - keep);
        h.p += h.len - keep;
        h.len = keep;
    }
    if (h.len)
        memmove(x->held.data, h.p, h.len);
    x->held.len = h.len;
}

/* What a text becomes that is the first and the last token: `from` gives way to `to`, but for
 * what may be the begin of another. */
static void literal_part(struct step *x, struct lm_buf *out, const struct lm_dec_part *t,
                         struct lm_str s, bool last)
{
    static const struct lm_str space = { " ", 1 }, none = { "", 0 };
    lm_buf_add(&x->held, s.p, s.len);
    struct lm_str h = { x->held.data, x->held.len }, from = t->from;
    size_t i = 0, stop = last || !from.len ? h.len : h.len < from.len ? 0 : h.len - from.len + 1;
    while (i < stop) {
        bool hit = from.len && h.len - i >= from.len && memcmp(h.p + i, from.p, from.len) == 0;
        struct lm_str to = t->kind == LM_DK_MARK && !t->clean ? space : none;
        if (hit)
            lm_buf_add(out, to.p, to.len);
        else
            lm_buf_byte(out, (unsigned char)h.p[i]);
        i += hit ? from.len : 1;
    }
    lm_buf_drop(&x->held, i);
}

static int pattern_part(struct step *x, struct lm_buf *out, const struct lm_dec_part *t,
                        struct lm_str s, bool last, struct lm_err *err)
{
    struct lm_regex_walk *w = &x->walk;
    struct lm_buf *b = &x->held;
    int r;
    lm_buf_add(b, s.p, s.len);
    if (b->failed || (!w->ways && !(w->ways = lm_regex_ways_new(t->pattern))))
        return lm_fail_nomem(err);
    if (!x->walking) {
        lm_regex_walk_start(w);
        x->at = 0;
    }
    x->walking = !last;
    while ((r = lm_regex_walk_next(w, b->data, b->len, !last, err)) == 1) {
        if (w->at > x->at)
            lm_buf_add(out, b->data + x->at, w->at - x->at);
        lm_buf_add(out, t->to.p, t->to.len);
        x->at = w->end;
    }
    size_t sure = r ? w->at : b->len;
    if (r < 0)
        return r;
    if (sure > x->at) {
        lm_buf_add(out, b->data + x->at, sure - x->at);
        x->at = sure;
    }
    size_t gone = r == 2 && w->end != SIZE_MAX && w->end > x->at ? w->end : x->at;
    if (gone < b->len / 2)
        return LM_OK;                            /* not worth moving the rest yet */
    lm_regex_walk_drop(w, gone);
    lm_buf_drop(b, gone);
    x->at = 0;
    return LM_OK;
}

/* Only a text of six bytes can be the name of one. */
static void fallback_part(struct step *x, struct lm_buf *out, struct lm_str s, bool last)
{
    lm_buf_add(&x->held, s.p, s.len);
    x->long_enough |= x->held.len > 6;
    if (!last && !x->long_enough)
        return;
    struct lm_str h = { x->held.data ? x->held.data : "", x->held.len };
    if (x->long_enough)
        lm_buf_add(out, h.p, h.len);
    else
        from_fallback(out, h);
    lm_buf_clear(&x->held);
}

/* A part of the whole text; last: its end.  Those that cannot work on parts keep it. */
static int whole_part(struct step *x, const struct lm_dec_part *t, struct lm_str s,
                      struct lm_buf *out, bool last, struct lm_err *err)
{
    switch (t->kind) {
    case LM_DK_MARK: case LM_DK_SUFFIX:
        literal_part(x, out, t, s, last);
        return LM_OK;
    case LM_DK_FALLBACK:
        fallback_part(x, out, s, last);
        return LM_OK;
    case LM_DK_REPLACE:
        if (lm_regex_walks(t->pattern))
            return pattern_part(x, out, t, s, last, err);
        break;
    default:
        break;
    }
    lm_buf_add(&x->held, s.p, s.len);
    if (!last)
        return LM_OK;
    struct lm_str h = { x->held.data ? x->held.data : "", x->held.len };
    if (t->kind == LM_DK_REPLACE)
        return replace_pattern(x, t, h, out, err);
    if (t->kind == LM_DK_BYTES)
        from_alphabet(out, h);
    else
        from_wordpiece(x, out, t, h, true);
    return LM_OK;
}

/* A token, or with x->whole a part of the only one, through step i. */
static int through(struct lm_rules_detok *d, size_t i, struct lm_str s, struct lm_buf *out,
                   struct lm_err *err)
{
    const struct lm_dec_part *t = &d->r->dec[i];
    struct step *x = &d->step[i];
    bool first = x->seen++ == 0;
    if (x->whole && t->kind == LM_DK_STRIP) {
        strip_part(x, out, t, s);
        return LM_OK;
    }
    if (x->whole && t->kind != LM_DK_FUSE)
        return whole_part(x, t, s, out, false, err);
    switch (t->kind) {
    case LM_DK_BYTES:     from_alphabet(out, s); break;
    case LM_DK_FALLBACK:  from_fallback(out, s); break;
    case LM_DK_MARK:      from_marks(out, t, s, first); break;
    case LM_DK_WORDPIECE: from_wordpiece(x, out, t, s, first); break;
    case LM_DK_FUSE:      lm_buf_add(out, s.p, s.len); break;
    case LM_DK_STRIP:     strip(out, t, s); break;
    case LM_DK_REPLACE:   return replace_pattern(x, t, s, out, err);
    case LM_DK_JOIN:
        if (!first)
            lm_buf_byte(out, ' ');
        lm_buf_add(out, s.p, s.len);
        break;
    case LM_DK_SUFFIX:                           /* the last one's becomes nothing: wait */
        if (x->has_held)
            replace(out, (struct lm_str){ x->held.data, x->held.len }, t->from, t->to);
        lm_buf_clear(&x->held);
        lm_buf_add(&x->held, s.p, s.len);
        x->has_held = true;
        break;
    }
    return LM_OK;
}

/* A token from step i on; what comes out of the last is appended to *out. */
static int push(struct lm_rules_detok *d, size_t i, struct lm_str s, struct lm_buf *out,
                struct lm_err *err)
{
    for (; i < d->r->n_dec; i++) {
        struct lm_buf *to = &d->text[i & 1];
        bool waited = d->r->dec[i].kind == LM_DK_SUFFIX && !d->step[i].whole;
        bool had = d->step[i].has_held;
        lm_buf_clear(to);
        lm_buf_add(to, "", 0);
        int r = through(d, i, s, to, err);
        if (r != LM_OK)
            return r;
        if (to->failed || d->step[i].held.failed)
            return lm_fail_nomem(err);
        if (waited && !had)
            return LM_OK;                        /* nothing to hand on yet */
        s = (struct lm_str){ to->data, to->len };
    }
    lm_buf_add(out, s.p, s.len);
    return out->failed ? lm_fail_nomem(err) : LM_OK;
}

int lm_rules_detok_add(struct lm_rules_detok *d, struct lm_str token, struct lm_buf *out,
                       struct lm_err *err)
{
    return push(d, 0, token, out, err);
}

/* What step i still has, as it is at the end: *some says whether that is anything. */
static int finish(struct lm_rules_detok *d, size_t i, struct lm_buf *to, bool *some,
                  struct lm_err *err)
{
    const struct lm_dec_part *t = &d->r->dec[i];
    struct step *x = &d->step[i];
    struct lm_str h = { x->held.data ? x->held.data : "", x->held.len };
    static const struct lm_str none = { "", 0 };
    *some = x->has_held || (x->whole && x->seen);
    if (!*some)
        return LM_OK;
    if (t->kind == LM_DK_SUFFIX && !x->whole) {
        replace(to, h, t->from, none);
    } else if (t->kind == LM_DK_STRIP) {
        if (!x->past_start && t->from.len) {
            size_t n = count(h, t->from, t->start - x->stripped, false);
            h.p += n;
            h.len -= n;
        }
        lm_buf_add(to, h.p, h.len - count(h, t->from, t->stop, true));
    } else {
        return whole_part(x, t, none, to, true, err);
    }
    return LM_OK;
}

int lm_rules_detok_end(struct lm_rules_detok *d, struct lm_buf *out, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; i < d->r->n_dec; i++) {
        struct lm_buf text = { 0 };
        bool some = false;
        if (r == LM_OK && (d->r->dec[i].kind == LM_DK_SUFFIX ||
                           (d->step[i].whole && d->r->dec[i].kind != LM_DK_FUSE)))
            r = finish(d, i, &text, &some, err);
        if (r == LM_OK && some) {
            lm_buf_add(&text, "", 0);
            r = text.failed ? lm_fail_nomem(err)
                            : push(d, i + 1, (struct lm_str){ text.data, text.len }, out, err);
        }
        lm_buf_release(&text);
    }
    for (size_t i = 0; i < d->r->n_dec; i++) {
        struct step *x = &d->step[i];
        x->seen = 0;
        x->stripped = 0;
        x->has_held = x->past_start = x->long_enough = x->walking = false;
        lm_buf_clear(&x->held);
    }
    return r;
}

/* What one token in the middle of a text becomes; d is used for nothing else. */
static int token_text(struct lm_rules_detok *d, struct lm_str token, struct lm_buf *out,
                      struct lm_err *err)
{
    static const struct lm_str space = { " ", 1 };
    const struct lm_rules *r = d->r;
    int s = LM_OK;
    for (size_t i = 0; s == LM_OK && i < r->n_dec && r->dec[i].kind != LM_DK_FUSE &&
                       r->dec[i].kind != LM_DK_JOIN; i++) {
        const struct lm_dec_part *t = &r->dec[i];
        struct lm_buf *to = &d->text[i & 1];
        lm_buf_clear(to);
        lm_buf_add(to, "", 0);
        d->step[i].whole = false;
        d->step[i].seen = 1;
        if (t->kind == LM_DK_SUFFIX)
            replace(to, token, t->from, space);
        else
            s = through(d, i, token, to, err);
        if (to->failed)
            return lm_fail_nomem(err);
        token = (struct lm_str){ to->data, to->len };
    }
    if (s == LM_OK)
        lm_buf_add(out, token.p, token.len);
    return s == LM_OK && out->failed ? lm_fail_nomem(err) : s;
}

struct lm_str lm_rules_shown(const struct lm_vocab *v, uint32_t id)
{
    const struct lm_added *a = &v->rules->added;
    for (uint32_t i = 0; v->attr[id] & LM_ATTR_NORMALIZED && i < a->n; i++)
        if (a->id[i] == id) {
            struct lm_str s;
            s.p = lm_pieces_get(&a->text, i, &s.len);
            return s;
        }
    return lm_vocab_text(v, id);
}

int lm_rules_load_bytes(struct lm_vocab *v, struct lm_err *err)
{
    struct lm_rules_detok *d = lm_rules_detok_new(v->rules);
    struct lm_buf text = { 0 };
    double most = 0;
    int s = d ? LM_OK : lm_fail_nomem(err);
    uint32_t *at = s == LM_OK ? lm_malloc_array((size_t)v->n + 1, sizeof *at) : NULL;
    if (s == LM_OK && !at)
        s = lm_fail_nomem(err);
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++) {
        struct lm_str shown = lm_rules_shown(v, i);
        at[i] = (uint32_t)text.len;
        if ((most += lm_growth_of(&v->rules->shown, shown.p, shown.len)) > LM_RULES_TEXT)
            s = lm_fail(err, LM_ENOSUP, "decoder: the pieces may become more than %d MiB of text",
                        (int)(LM_RULES_TEXT >> 20));
        else
            s = token_text(d, shown, &text, err);
    }
    lm_rules_detok_free(d);
    if (s == LM_OK) {
        at[v->n] = (uint32_t)text.len;
        lm_pieces_release(&v->bytes);
        if (text.failed || !lm_pieces_init(&v->bytes, v->n, text.len)) {
            s = lm_fail_nomem(err);
        } else {
            memcpy(v->bytes.at, at, ((size_t)v->n + 1) * sizeof *at);
            if (text.len)
                memcpy(v->bytes.data, text.data, text.len);
        }
    }
    lm_buf_release(&text);
    free(at);
    return s;
}
