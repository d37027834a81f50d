/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers.  Each step works on the pieces that the one before left: a walk goes down
 * to the last step, gives its pieces one by one, and comes back for the next, so that no list
 * of pieces is ever made.
 *
 * A step that cuts sees a piece as segments, matches of its pattern and what stands between
 * them, and joins, keeps or drops these as its behaviour says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

struct segment {
    size_t at, end;
    bool   match;
};

struct level {
    const struct lm_pre_part *part;
    const char               *p;         /* the piece that it works on                  */
    size_t                    len;
    const struct lm_origin   *origin;
    bool                      first;     /* it begins the text                          */
    bool                      done;      /* nothing more comes                          */

    size_t                    at;        /* where the next segment begins               */
    struct segment            next;      /* a match that was seen behind a gap          */
    bool                      has_next;
    struct lm_scan            scan;      /* HAND                                        */
    struct lm_regex_scan      regex;     /* REGEX                                       */
    struct segment            held;      /* not given yet: more may join it             */
    bool                      has_held, held_match;
    struct lm_traced          own;       /* steps that change the text                  */
};

struct lm_rules_work {
    const struct lm_rules *r;
    size_t                 n;            /* levels                                      */
    size_t                 depth;
    bool                   over;
    struct lm_traced       text, tmp;    /* of a fragment, see vocab_rules.c            */
    struct level           level[LM_RULES_MAX];
};

struct lm_rules_work *lm_rules_work_new(const struct lm_rules *r)
{
    struct lm_rules_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->r = r;
    w->n = r->n_pre;
    w->over = true;
    for (size_t i = 0; i < w->n; i++)
        w->level[i].part = &r->pre[i];
    return w;
}

void lm_rules_work_free(struct lm_rules_work *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < LM_RULES_MAX; i++) {
        lm_regex_scan_release(&w->level[i].regex);
        lm_traced_release(&w->level[i].own);
    }
    lm_traced_release(&w->text);
    lm_traced_release(&w->tmp);
    free(w);
}

struct lm_traced *lm_rules_text(struct lm_rules_work *w)
{
    return &w->text;
}

struct lm_traced *lm_rules_tmp(struct lm_rules_work *w)
{
    return &w->tmp;
}

/* ---- segments --------------------------------------------------------------------- */

/* Does the character match a pattern of single characters? */
static bool rune_matches(const struct lm_pre_part *t, uint32_t r)
{
    switch (t->kind) {
    case LM_PK_RUNE:  return r == t->rune;
    case LM_PK_SPACE: return lm_uni_class(r) & LM_U_SPACE;
    case LM_PK_DIGIT: return lm_uni_class(r) & LM_U_N;
    case LM_PK_PUNCT: return lm_bert_punct(r);
    default:          return false;
    }
}

/* Whitespace's sorts: 0 blank, 1 of words, 2 another. */
static int word_sort(uint32_t r)
{
    if (lm_uni_class(r) & LM_U_SPACE)
        return 0;
    return lm_uni_word(r) || r == 0x200C || r == 0x200D ? 1 : 2;
}

/* The match at p[at], 0: none. */
static size_t match_at(struct level *l, size_t at)
{
    const struct lm_pre_part *t = l->part;
    int k;
    uint32_t r = lm_uni_next(l->p + at, l->p + l->len, &k);
    size_t end = at + (size_t)k;
    if (t->kind == LM_PK_HAND)
        return t->hand.match(&t->hand, &l->scan, l->p + at);
    if (t->kind == LM_PK_LENGTH) {
        for (size_t n = 1; n < t->length && end < l->len; n++) {
            lm_uni_next(l->p + end, l->p + l->len, &k);
            end += (size_t)k;
        }
        return end - at;
    }
    if (t->kind != LM_PK_WORDS)
        return rune_matches(t, r) ? (size_t)k : 0;
    int sort = word_sort(r);
    while (sort && end < l->len) {
        if (word_sort(lm_uni_next(l->p + end, l->p + l->len, &k)) != sort)
            break;
        end += (size_t)k;
    }
    return sort ? end - at : 0;
}

/* The next match from l->at on: 1, 0 or an error. */
static int find(struct level *l, struct segment *s, struct lm_err *err)
{
    if (l->part->kind == LM_PK_REGEX)
        return lm_regex_next(&l->regex, &s->at, &s->end, err);
    for (size_t at = l->at; at < l->len;) {
        size_t n = match_at(l, at);
        if (n) {
            s->at = at;
            s->end = at + n;
            return 1;
        }
        int k;
        lm_uni_next(l->p + at, l->p + l->len, &k);
        at += (size_t)k;
    }
    return 0;
}

/* The next segment, matches and gaps: 1, 0 or an error. */
static int segment(struct level *l, struct segment *s, struct lm_err *err)
{
    if (!l->has_next && l->at <= l->len) {
        int r = l->at == l->len && l->part->kind != LM_PK_REGEX ? 0 : find(l, &l->next, err);
        if (r < 0)
            return r;
        if (!r) {
            *s = (struct segment){ l->at, l->len, false };
            l->at = l->len + 1;
            return s->at < s->end;
        }
        l->next.match = l->has_next = true;
    }
    if (!l->has_next)
        return 0;
    if (l->next.at > l->at) {
        *s = (struct segment){ l->at, l->next.at, false };
        l->at = l->next.at;
        return 1;
    }
    *s = l->next;
    l->has_next = false;
    l->at = s->end;
    return 1;
}

/* ---- behaviours --------------------------------------------------------------------- */

/* May s join what is held? */
static bool joins(const struct level *l, const struct segment *s)
{
    switch (l->part->how) {
    case LM_CUT_CONTIGUOUS: return s->match == l->held_match;
    case LM_CUT_PREVIOUS:   return s->match && !l->held_match;
    case LM_CUT_NEXT:       return !s->match && l->held_match;
    default:                return false;
    }
}

/* The next piece of this level: 1, 0 or an error. */
static int piece(struct level *l, struct segment *out, struct lm_err *err)
{
    struct segment s;
    int r;
    while ((r = segment(l, &s, err)) > 0) {
        s.match ^= l->part->invert;
        if (l->part->how == LM_CUT_REMOVED && s.match)
            continue;
        if (l->part->how == LM_CUT_REMOVED || l->part->how == LM_CUT_ISOLATED) {
            if (s.at == s.end)
                continue;
            *out = s;
            return 1;
        }
        if (l->has_held && joins(l, &s)) {
            l->held.end = s.end;
            l->held_match = s.match;
            continue;
        }
        *out = l->held;
        bool give = l->has_held && out->at < out->end;
        l->held = s;
        l->held_match = s.match;
        l->has_held = true;
        if (give)
            return 1;
    }
    if (r < 0 || !l->has_held)
        return r;
    *out = l->held;
    l->has_held = false;
    return out->at < out->end;
}

/* ---- steps that change the text ------------------------------------------------------ */

/* Append text made of the bytes o says; NULL: nobody asks. */
static bool put(struct lm_traced *t, const char *text, size_t n, const struct lm_origin *o)
{
    size_t was = t->text.len;
    lm_buf_add(&t->text, text, n);
    if (t->text.failed || (o && !lm_grow(&t->origin, &t->cap, was + n, sizeof *o)))
        return false;
    for (size_t i = 0; o && i < n; i++)
        t->origin[was + i] = *o;
    return true;
}

/* Put text in front. */
static bool put_prefix(struct level *l, struct lm_str text)
{
    struct lm_origin o = { 0, 0 };
    if (l->origin)
        o.from = o.to = l->origin[0].from;
    return put(&l->own, text.p, text.len, l->origin ? &o : NULL);
}

static bool begins_with(const struct level *l, struct lm_str s)
{
    return l->len >= s.len && memcmp(l->p, s.p, s.len) == 0;
}

static bool bytes(struct level *l)
{
    bool ok = true;
    for (size_t i = 0; ok && i < l->len; i++) {
        char c[4];
        size_t n = lm_rune_bytes(lm_byte_rune((unsigned char)l->p[i]), c);
        ok = put(&l->own, c, n, l->origin ? &l->origin[i] : NULL);
    }
    return ok;
}

/* Spaces become marks; one more in front, unless there is one. */
static bool marks(struct level *l)
{
    const struct lm_pre_part *t = l->part;
    bool ok = true, has = begins_with(l, t->text) || *l->p == ' ';
    if (!has && (t->when == LM_PREFIX_ALWAYS || (t->when == LM_PREFIX_FIRST && l->first)))
        ok = put_prefix(l, t->text);
    for (size_t i = 0; ok && i < l->len;) {
        const char *q = memchr(l->p + i, ' ', l->len - i);
        size_t end = q ? (size_t)(q - l->p) : l->len, was = l->own.text.len;
        lm_buf_add(&l->own.text, l->p + i, end - i);
        ok = !l->own.text.failed;
        if (ok && l->origin && end > i) {
            ok = lm_grow(&l->own.origin, &l->own.cap, was + end - i, sizeof *l->origin);
            if (ok)
                memcpy(l->own.origin + was, l->origin + i, (end - i) * sizeof *l->origin);
        }
        if (ok && end < l->len)
            ok = put(&l->own, t->text.p, t->text.len, l->origin ? &l->origin[end] : NULL);
        i = end + 1;
    }
    return ok;
}

/* The text of a level is changed as its step says: the one piece that it gives. */
static int change(struct level *l, struct lm_err *err)
{
    bool ok = true;
    lm_buf_clear(&l->own.text);
    if (l->part->kind == LM_PK_BYTES) {
        ok = bytes(l);
    } else if (l->part->kind == LM_PK_MARK) {
        ok = marks(l);
    } else if (!begins_with(l, l->part->text)) {
        ok = put_prefix(l, l->part->text);
        size_t was = l->own.text.len;
        lm_buf_add(&l->own.text, l->p, l->len);
        ok = ok && !l->own.text.failed;
        if (ok && l->origin &&
            (ok = lm_grow(&l->own.origin, &l->own.cap, was + l->len, sizeof *l->origin)))
            memcpy(l->own.origin + was, l->origin, l->len * sizeof *l->origin);
    } else {
        return 0;                                /* stays as it is */
    }
    if (!ok)
        return lm_fail_nomem(err);
    if (l->origin)
        l->origin = l->own.origin;
    l->p = l->own.text.data;
    l->len = l->own.text.len;
    return LM_OK;
}

/* ---- the walk ---------------------------------------------------------------------------- */

static bool cuts(const struct lm_pre_part *t)
{
    return t->kind > LM_PK_MARK;
}

static int enter(struct level *l, const char *p, size_t len, const struct lm_origin *origin,
                 bool first, struct lm_err *err)
{
    l->p = p;
    l->len = len;
    l->origin = origin;
    l->first = first;
    l->done = false;
    if (!cuts(l->part))
        return change(l, err);
    l->at = 0;
    l->has_next = l->has_held = false;
    l->scan = (struct lm_scan){ .begin = p, .end = p + len, .mark = p };
    return l->part->kind == LM_PK_REGEX ? lm_regex_start(&l->regex, l->part->pattern, p, len, err)
                                        : LM_OK;
}

int lm_rules_begin(struct lm_rules_work *w, const char *p, size_t len,
                   const struct lm_origin *origin, bool first, struct lm_err *err)
{
    w->depth = 0;
    w->over = len == 0;
    if (w->over)
        return LM_OK;
    if (!w->n) {                                 /* no steps: it is one word */
        w->level[0].p = p;
        w->level[0].len = len;
        w->level[0].origin = origin;
        return LM_OK;
    }
    return enter(&w->level[0], p, len, origin, first, err);
}

/* The next piece of level l: 1, 0 or an error. */
static int take(struct level *l, struct segment *s, struct lm_err *err)
{
    if (cuts(l->part))
        return piece(l, s, err);
    *s = (struct segment){ 0, l->len, false };
    return !l->done;
}

int lm_rules_next(struct lm_rules_work *w, const char **p, size_t *len,
                  const struct lm_origin **origin, struct lm_err *err)
{
    if (w->over)
        return 0;
    if (!w->n) {
        *p = w->level[0].p;
        *len = w->level[0].len;
        *origin = w->level[0].origin;
        w->over = true;
        return 1;
    }
    for (;;) {
        struct level *l = &w->level[w->depth];
        struct segment s;
        int r = take(l, &s, err);
        if (r < 0)
            return r;
        if (!r && !w->depth) {
            w->over = true;
            return 0;
        }
        if (!r) {
            w->depth--;
            continue;
        }
        l->done = true;
        const struct lm_origin *o = l->origin ? l->origin + s.at : NULL;
        if (w->depth + 1 == w->n) {
            *p = l->p + s.at;
            *len = s.end - s.at;
            *origin = o;
            return 1;
        }
        bool first = l->first && (o ? o->from == 0 : s.at == 0);
        if ((r = enter(&w->level[++w->depth], l->p + s.at, s.end - s.at, o, first, err)))
            return r;
    }
}
