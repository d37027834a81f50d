/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers.  Each step works on the pieces that the one before gives, and hands its own on
 * as soon as they are known: a piece that ends is handed over as a whole, of one that goes on and
 * on a part, when it is long, so that what waits is little.
 *
 * A step that cuts sees a piece as segments, matches of its pattern and what stands between
 * them, and joins, keeps or drops these as its behaviour says.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

struct level {
    const struct lm_pre_part *part;
    bool                      open;      /* in a piece                                  */
    bool                      first;     /* it begins the text                          */
    bool                      begun;     /* a part of it went through                   */
    struct lm_traced          wait;      /* of it, not dealt with; places are in this   */

    /* segments: of the piece to come from .. to is there */
    size_t                    at;        /* where the next segment begins               */
    bool                      in_gap, in_match;
    bool                      has_held, held_match;      /* there is one, its last segment */
    bool                      drop;      /* it is not handed on                         */
    bool                      started;   /* a part of it was                            */
    size_t                    from, to;
    int                       sort;      /* WORDS, of the last character                */
    size_t                    count;     /* LENGTH                                      */
    struct lm_scan            scan;      /* HAND                                        */
    struct lm_regex_walk      walk;      /* REGEX, HAND                                 */
    struct lm_regex_scan      regex;     /* REGEX by PCRE2                              */
    struct lm_traced          own;       /* steps that change the text                  */
};

struct lm_cuts {
    size_t       n;                      /* levels                                      */
    struct level level[LM_RULES_MAX];
};

/* What a level works on. */
struct now {
    struct lm_cuts         *c;
    struct lm_encoder      *e;
    size_t                  depth;
    const char             *p;
    size_t                  n;
    const struct lm_origin *origin;
    bool                    last;
    struct lm_err          *err;
};

struct lm_cuts *lm_cuts_new(const struct lm_rules *r)
{
    struct lm_cuts *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->n = r->n_pre;
    for (size_t i = 0; i < c->n; i++)
        c->level[i].part = &r->pre[i];
    return c;
}

void lm_cuts_free(struct lm_cuts *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < LM_RULES_MAX; i++) {
        lm_regex_ways_free(c->level[i].walk.ways);
        lm_regex_scan_release(&c->level[i].regex);
        lm_traced_release(&c->level[i].wait);
        lm_traced_release(&c->level[i].own);
    }
    free(c);
}

void lm_cuts_reset(struct lm_cuts *c)
{
    for (size_t i = 0; i < c->n; i++) {
        c->level[i].open = false;
        lm_buf_clear(&c->level[i].wait.text);
    }
}

static int push(struct lm_cuts *c, struct lm_encoder *e, size_t depth, const char *p, size_t n,
                const struct lm_origin *origin, bool first, bool last, struct lm_err *err);

/* ---- pieces from segments ---------------------------------------------------------------- */

/* Hand on what is there of the piece; last: it ends. */
static int give(struct now *w, bool last)
{
    struct level *l = &w->c->level[w->depth];
    size_t from = l->from, n = l->to - from;
    l->from = l->to;
    if (l->drop || (!n && !(last && l->started)))
        return LM_OK;
    bool first = l->first && (w->origin ? n && w->origin[from].from == 0 : !l->begun && !from);
    l->started = true;
    return push(w->c, w->e, w->depth + 1, w->p + from, n, w->origin ? w->origin + from : NULL,
                first, last, w->err);
}

/* May a segment join what is held? */
static bool joins(const struct level *l, bool match)
{
    switch (l->part->how) {
    case LM_CUT_CONTIGUOUS: return match == l->held_match;
    case LM_CUT_PREVIOUS:   return match && !l->held_match;
    case LM_CUT_NEXT:       return !match && l->held_match;
    default:                return false;
    }
}

/* A segment, or with fresh false more of the last one: it ends at `end`, so far. */
static int segment(struct now *w, bool match, bool fresh, size_t end)
{
    struct level *l = &w->c->level[w->depth];
    match ^= l->part->invert;
    if (fresh) {
        if (!(l->has_held && joins(l, match))) {
            int s = l->has_held ? give(w, true) : LM_OK;
            if (s != LM_OK)
                return s;
            l->from = l->at;
            l->started = false;
            l->drop = l->part->how == LM_CUT_REMOVED && match;
        }
        l->has_held = true;
        l->held_match = match;
    }
    l->to = l->at = end;
    return LM_OK;
}

/* What stands before the next match, or before the place where it may begin. */
static int gap(struct now *w, size_t end)
{
    struct level *l = &w->c->level[w->depth];
    if (l->at >= end)
        return LM_OK;
    bool fresh = !l->in_gap;
    l->in_gap = true;
    return segment(w, false, fresh, end);
}

/* ---- where segments end ---------------------------------------------------------------------- */

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

/* Patterns that are known character by character. */
static int cut_runes(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    const struct lm_pre_part *t = l->part;
    size_t n = w->last ? w->n : lm_whole_chars(w->p, w->n);
    int s = LM_OK, k;
    for (; s == LM_OK && l->at < n;) {
        uint32_t r = lm_uni_next(w->p + l->at, w->p + n, &k);
        size_t end = l->at + (size_t)k;
        bool match = true, fresh = true;
        if (t->kind == LM_PK_LENGTH) {
            fresh = l->count++ % t->length == 0;
        } else if (t->kind == LM_PK_WORDS) {
            int sort = word_sort(r);
            match = sort > 0;
            fresh = sort != l->sort;
            l->sort = sort;
        } else {
            match = rune_matches(t, r);
        }
        if (match) {
            l->in_gap = false;
            s = segment(w, true, fresh, end);
        } else {
            s = gap(w, end);
        }
    }
    return s;
}

/* A pattern that can be followed through text that comes in parts. */
static int cut_walk(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    struct lm_regex_walk *x = &l->walk;
    int s = LM_OK, r = 1;
    while (r == 1 && s == LM_OK) {
        r = lm_regex_walk_next(x, w->p, w->n, !w->last, w->err);
        if (r < 0)
            return r;
        if (!l->in_match)
            s = gap(w, r ? x->at : w->n);
        bool sure = r == 1 || (r == 2 && x->end != SIZE_MAX && (l->in_match || x->end > x->at));
        if (s != LM_OK || !sure)
            break;
        l->in_gap = false;
        s = segment(w, true, !l->in_match, x->end);
        l->in_match = r == 2;
    }
    return s;
}

/* A matcher or PCRE2, which need the whole piece. */
static int cut_whole(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    size_t at, end;
    int s = LM_OK, r = 1, k;
    if (!w->last)
        return LM_OK;
    if (l->part->kind == LM_PK_REGEX) {
        s = lm_regex_start(&l->regex, l->part->pattern, w->p, w->n, w->err);
        while (s == LM_OK && (r = lm_regex_next(&l->regex, &at, &end, w->err)) == 1) {
            if ((s = gap(w, at)) == LM_OK)
                s = segment(w, true, true, end);
            l->in_gap = false;
        }
        return s != LM_OK ? s : r < 0 ? r : gap(w, w->n);
    }
    l->scan = (struct lm_scan){ .begin = w->p, .end = w->p + w->n, .mark = w->p, .far = w->p };
    for (at = 0; s == LM_OK && at < w->n; at = end) {
        size_t n = l->part->hand.match(&l->part->hand, &l->scan, w->p + at);
        lm_uni_next(w->p + at, w->p + w->n, &k);
        end = at + (n ? n : (size_t)k);
        s = n ? segment(w, true, true, end) : gap(w, end);
        l->in_gap = !n;
    }
    return s;
}

static bool walks(const struct lm_pre_part *t)
{
    return t->pattern && lm_regex_walks(t->pattern);
}

/* The next part of a piece. */
static int cut(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    const struct lm_pre_part *t = l->part;
    int s = walks(t)                                        ? cut_walk(w)
            : t->kind == LM_PK_REGEX || t->kind == LM_PK_HAND ? cut_whole(w)
                                                            : cut_runes(w);
    if (s == LM_OK && (w->last || l->to - l->from > w->e->window / 2))
        s = give(w, w->last);
    return s;
}

/* What is dealt with of the text goes: n bytes. */
static void drop(struct level *l, size_t n)
{
    l->begun |= n > 0;
    l->at -= n;
    l->from -= n;
    l->to -= n;
    if (walks(l->part))
        lm_regex_walk_drop(&l->walk, n);
}

static int cut_piece(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    struct lm_traced *wait = &l->wait;
    const char *p = w->p;
    bool waits = wait->text.len > 0;
    if (waits) {
        if (!lm_traced_add(wait, p, w->n, w->origin))
            return lm_fail_nomem(w->err);
        w->p = wait->text.data;
        w->n = wait->text.len;
        w->origin = w->origin ? wait->origin : NULL;
    }
    int s = cut(w);
    if (s != LM_OK || w->last) {
        lm_buf_clear(&wait->text);
        return s;
    }
    size_t done = l->has_held && !l->drop ? l->from : l->at;
    if (l->drop)
        l->from = l->to = done;
    if (waits && done < w->n / 2)
        return LM_OK;                            /* not worth moving the rest yet */
    drop(l, done);
    if (waits)
        lm_traced_drop(wait, done, w->origin != NULL);
    else if (!lm_traced_add(wait, w->p + done, w->n - done, w->origin ? w->origin + done : NULL))
        return lm_fail_nomem(w->err);
    return LM_OK;
}

static int begin_cut(struct level *l, struct lm_err *err)
{
    l->at = l->from = l->to = l->count = 0;
    l->in_gap = l->in_match = l->has_held = l->drop = l->started = false;
    l->sort = -1;
    if (!walks(l->part))
        return LM_OK;
    if (!l->walk.ways && !(l->walk.ways = lm_regex_ways_new(l->part->pattern)))
        return lm_fail_nomem(err);
    lm_regex_walk_start(&l->walk);
    return LM_OK;
}

/* ---- steps that change the text ----------------------------------------------------------- */

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

static bool begins_with(const struct now *w, struct lm_str s)
{
    return s.len && w->n >= s.len && memcmp(w->p, s.p, s.len) == 0;
}

/* Text that is put in front of a piece. */
static bool put_front(struct now *w, struct level *l)
{
    const struct lm_pre_part *t = l->part;
    bool has = begins_with(w, t->text) || (t->kind == LM_PK_MARK && *w->p == ' ');
    if (has || t->kind == LM_PK_BYTES ||
        (t->kind == LM_PK_MARK && t->when != LM_PREFIX_ALWAYS &&
         !(t->when == LM_PREFIX_FIRST && l->first)))
        return true;
    struct lm_origin o = { 0, 0 };
    if (w->origin)
        o.from = o.to = w->origin[0].from;
    return put(&l->own, t->text.p, t->text.len, w->origin ? &o : NULL);
}

/* Bytes at .. end of what there is. */
static bool bytes(const struct now *w, struct level *l, size_t at, size_t end)
{
    bool ok = true;
    for (size_t i = at; ok && i < end; i++) {
        char c[4];
        size_t n = lm_rune_bytes(lm_byte_rune((unsigned char)w->p[i]), c);
        ok = put(&l->own, c, n, w->origin ? &w->origin[i] : NULL);
    }
    return ok;
}

/* Spaces become marks. */
static bool marks(const struct now *w, struct level *l, size_t at, size_t end)
{
    const struct lm_str mark = l->part->text;
    bool ok = true;
    for (size_t i = at; ok && i < end;) {
        const char *q = memchr(w->p + i, ' ', end - i);
        size_t space = q ? (size_t)(q - w->p) : end;
        const struct lm_origin *o = w->origin;
        ok = lm_traced_add(&l->own, w->p + i, space - i, o ? o + i : NULL);
        if (ok && space < end)
            ok = put(&l->own, mark.p, mark.len, o ? &o[space] : NULL);
        i = space + 1;
    }
    return ok;
}

/* What is put in front, once there is enough to see whether it is there: *wait if there is not. */
static bool begin_change(struct now *w, bool *wait)
{
    struct level *l = &w->c->level[w->depth];
    bool ok = true;
    *wait = !l->begun && !w->last && l->wait.text.len + w->n < l->part->text.len;
    if (l->begun)
        return true;
    if (*wait || l->wait.text.len) {
        ok = lm_traced_add(&l->wait, w->p, w->n, w->origin);
        w->p = l->wait.text.data;
        w->n = l->wait.text.len;
        w->origin = w->origin ? l->wait.origin : NULL;
    }
    if (*wait || !ok)
        return ok;
    l->begun = true;
    return put_front(w, l);
}

/* The text of a piece is changed as the step says, and is a piece again; of a long one a part
 * after the other. */
static int change(struct now *w)
{
    struct level *l = &w->c->level[w->depth];
    const enum lm_pre_kind kind = l->part->kind;
    bool wait;
    int s = LM_OK;
    lm_buf_clear(&l->own.text);
    if (!begin_change(w, &wait))
        return lm_fail_nomem(w->err);
    if (wait)
        return LM_OK;
    size_t at = 0, end = 0;
    do {
        end = w->n - at > w->e->window ? at + w->e->window : w->n;
        const struct lm_origin *o = w->origin ? w->origin + at : NULL;
        bool ok = kind == LM_PK_BYTES  ? bytes(w, l, at, end)
                  : kind == LM_PK_MARK ? marks(w, l, at, end)
                                       : lm_traced_add(&l->own, w->p + at, end - at, o);
        if (!ok)
            return lm_fail_nomem(w->err);
        s = push(w->c, w->e, w->depth + 1, l->own.text.data ? l->own.text.data : "",
                 l->own.text.len, w->origin ? l->own.origin : NULL, l->first,
                 w->last && end == w->n, w->err);
        lm_buf_clear(&l->own.text);
        at = end;
    } while (s == LM_OK && at < w->n);
    lm_buf_clear(&l->wait.text);
    return s;
}

/* ---- all of them -------------------------------------------------------------------------- */

static int push(struct lm_cuts *c, struct lm_encoder *e, size_t depth, const char *p, size_t n,
                const struct lm_origin *origin, bool first, bool last, struct lm_err *err)
{
    if (depth == c->n)
        return lm_words_push(lm_rules_words(e), e, p, n, origin, last, err);
    struct level *l = &c->level[depth];
    struct now w = { c, e, depth, p, n, origin, last, err };
    const bool cuts = l->part->kind > LM_PK_MARK;
    int s = LM_OK;
    if (!l->open) {
        l->first = first;
        l->begun = false;
        if (cuts)
            s = begin_cut(l, err);
    }
    l->open = !last;
    if (s != LM_OK)
        return s;
    return cuts ? cut_piece(&w) : change(&w);
}

int lm_cuts_push(struct lm_cuts *c, struct lm_encoder *e, const char *p, size_t n,
                 const struct lm_origin *origin, bool first, bool last, struct lm_err *err)
{
    return push(c, e, 0, p, n, origin, first, last, err);
}
