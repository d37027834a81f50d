/* SPDX-License-Identifier: MIT */
/*
 * Normalizers.  Each goes once over the text, as it comes, and writes another one; with origins
 * each byte of it knows which bytes of the first text it was made of.  What a normalizer cannot
 * know yet stays where it is: a character or a run of marks that may go on, a match that may grow,
 * blanks that may be the last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

void lm_traced_release(struct lm_traced *t)
{
    lm_buf_release(&t->text);
    free(t->origin);
    *t = (struct lm_traced){ 0 };
}

bool lm_traced_add(struct lm_traced *t, const char *p, size_t n, const struct lm_origin *origin)
{
    size_t was = t->text.len;
    lm_buf_add(&t->text, p, n);
    if (t->text.failed || (origin && !lm_grow(&t->origin, &t->cap, was + n, sizeof *origin)))
        return false;
    if (origin && n)
        memcpy(t->origin + was, origin, n * sizeof *origin);
    return true;
}

void lm_traced_drop(struct lm_traced *t, size_t n, bool traced)
{
    lm_buf_drop(&t->text, n);
    if (traced && t->text.len)
        memmove(t->origin, t->origin + n, t->text.len * sizeof *t->origin);
}

/* A text being rewritten. */
struct job {
    const struct lm_norm_part *part;
    struct lm_norm_state      *st;
    const char                *p;
    size_t                     len;      /* that much is worked on               */
    bool                       more;     /* the text goes on                     */
    bool                       again;    /* there is more to put already         */
    size_t                     most;     /* of *out is enough to deal with         */
    size_t                     done;     /* of it that much is not needed again  */
    const struct lm_origin    *from;     /* [len], or NULL */
    struct lm_traced          *out;
    bool                       ok;
    struct lm_err             *err;
};

/* All the bytes that p[at .. end) was made of; for an empty range, the place. */
static struct lm_origin origin_of(const struct job *j, size_t at, size_t end)
{
    struct lm_origin o;
    if (at == end) {
        o.from = !j->len ? 0 : at < j->len ? j->from[at].from : j->from[at - 1].to;
        o.to = o.from;
        return o;
    }
    o = j->from[at];
    for (size_t i = at + 1; i < end; i++) {
        o.from = j->from[i].from < o.from ? j->from[i].from : o.from;
        o.to = j->from[i].to > o.to ? j->from[i].to : o.to;
    }
    return o;
}

/* Append n bytes made of p[at .. end). */
static void put(struct job *j, const char *text, size_t n, size_t at, size_t end)
{
    struct lm_traced *out = j->out;
    size_t was = out->text.len;
    lm_buf_add(&out->text, text, n);
    if (out->text.failed)
        j->ok = false;
    if (!j->from || !j->ok || !n)
        return;
    if (!lm_grow(&out->origin, &out->cap, was + n, sizeof *out->origin)) {
        j->ok = false;
        return;
    }
    struct lm_origin o = origin_of(j, at, end);
    for (size_t i = 0; i < n; i++)
        out->origin[was + i] = o;
}

/* Append p[at .. end) as it is. */
static void copy(struct job *j, size_t at, size_t end)
{
    struct lm_traced *out = j->out;
    size_t was = out->text.len;
    lm_buf_add(&out->text, j->p + at, end - at);
    if (out->text.failed ||
        (j->from && !lm_grow(&out->origin, &out->cap, was + (end - at), sizeof *out->origin)))
        j->ok = false;
    else if (j->from && end > at)
        memcpy(out->origin + was, j->from + at, (end - at) * sizeof *out->origin);
}

static void put_rune(struct job *j, uint32_t rune, size_t at, size_t end)
{
    char c[4];
    put(j, c, lm_rune_bytes(rune, c), at, end);
}

/* ---- characters one by one ----------------------------------------------------- */

/* What becomes of a character: *to and true, false if it goes.  A byte that is no UTF-8 is
 * not asked about. */
typedef bool rune_map(uint32_t r, uint32_t *to);

static bool nmt(uint32_t r, uint32_t *to)
{
    if ((r >= 1 && r <= 8) || r == 0xB || (r >= 0xE && r <= 0x1F) || r == 0x7F || r == 0x8F ||
        r == 0x9F)
        return false;
    if (r == 9 || r == 0xA || r == 0xC || r == 0xD || r == 0x1680 || (r >= 0x200B && r <= 0x200F) ||
        r == 0x2028 || r == 0x2029 || r == 0x2581 || r == 0xFEFF || r == 0xFFFD)
        *to = ' ';
    return true;
}

static bool without_accents(uint32_t r, uint32_t *to)
{
    (void)to;
    return !(lm_uni_class(r) & LM_U_M);
}

static void map_runes(struct job *j, rune_map *map)
{
    size_t done = 0;
    for (size_t i = 0; i < j->len && j->ok;) {
        int k;
        uint32_t r = lm_uni_next(j->p + i, j->p + j->len, &k), to = r;
        bool stays = (r == 0xFFFD && k == 1) || map(r, &to);
        if (!stays || to != r) {
            copy(j, done, i);
            if (stays)
                put_rune(j, to, i, i + (size_t)k);
            done = i + (size_t)k;
        }
        i += (size_t)k;
    }
    copy(j, done, j->len);
}

static void lower(struct job *j)
{
    size_t done = 0;
    for (size_t i = 0; i < j->len && j->ok;) {
        int k;
        uint32_t r = lm_uni_next(j->p + i, j->p + j->len, &k), to[3];
        int n = r == 0xFFFD ? 1 : lm_rune_lower(r, to);
        if (r != 0xFFFD && (n != 1 || to[0] != r)) {
            copy(j, done, i);
            for (int x = 0; x < n; x++)
                put_rune(j, to[x], i, i + (size_t)k);
            done = i + (size_t)k;
        }
        i += (size_t)k;
    }
    copy(j, done, j->len);
}

/* Bytes as the characters of byte-level BPE's alphabet. */
static void bytes(struct job *j)
{
    for (size_t i = 0; i < j->len && j->ok; i++)
        put_rune(j, lm_byte_rune((unsigned char)j->p[i]), i, i + 1);
}

/* ---- ends ------------------------------------------------------------------------- */

/* Do n bytes of blanks, k each, come from text that goes on evenly? */
static bool is_even(const struct lm_origin *o, size_t n, size_t k)
{
    size_t step = o[0].to - o[0].from;
    for (size_t i = 0; i < n; i++)
        if (o[i].from != o[0].from + i / k * step || o[i].to != o[i].from + step)
            return false;
    return true;
}

/* Blanks that may be the last of the text are held: of many that are the same, their number. */
static void hold_blanks(struct job *j, size_t at)
{
    struct lm_norm_state *st = j->st;
    size_t n = j->len - at, len;
    int k;
    j->done = at;
    if (n < st->slice || n < 4)
        return;
    lm_uni_next(j->p + at, j->p + j->len, &k);
    len = (size_t)k;
    if (memcmp(j->p + at, j->p + at + len, n - len) != 0 ||
        (j->from && !is_even(j->from + at, n, len)))
        return;
    if (!st->n_blanks) {
        memcpy(st->blank, j->p + at, len);
        st->blank_len = len;
        st->from = j->from ? j->from[at] : (struct lm_origin){ 0, 0 };
    }
    size_t step = st->from.to - st->from.from;
    if (st->blank_len != len || memcmp(st->blank, j->p + at, len) != 0 ||
        (j->from && (j->from[at].from != st->from.from + st->n_blanks * step ||
                     j->from[at].to != j->from[at].from + step)))
        return;
    st->n_blanks += n / len;
    j->done = j->len;
}

/* They were not the last. */
static void put_blanks(struct job *j)
{
    struct lm_norm_state *st = j->st;
    size_t step = st->from.to - st->from.from;
    for (size_t n = 0; st->n_blanks && n < st->slice && j->ok; n += st->blank_len) {
        struct lm_origin o[4];
        for (int i = 0; i < 4; i++)
            o[i] = st->from;
        j->ok = lm_traced_add(j->out, st->blank, st->blank_len, j->from ? o : NULL);
        st->from = (struct lm_origin){ st->from.to, st->from.to + step };
        st->n_blanks--;
    }
    j->again = st->n_blanks > 0;
}

static void strip(struct job *j)
{
    size_t at = 0, end = j->len;
    while (j->part->left && !j->st->begun && at < end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(j->p + at, j->p + end, &k)) & LM_U_SPACE))
            break;
        at += (size_t)k;
    }
    if (j->part->right)
        end = at + lm_uni_trim(j->p + at, end - at);
    j->done = 0;
    if (end > at)
        put_blanks(j);
    if (j->again)
        return;
    j->st->begun |= end > at;
    copy(j, at, end);
    j->done = j->len;
    if (j->more && j->part->right && end < j->len)
        hold_blanks(j, end);
}

static void prepend(struct job *j)
{
    if (j->len && !j->st->begun) {
        put(j, j->part->text.p, j->part->text.len, 0, 0);
        j->st->begun = true;
    }
    copy(j, 0, j->len);
}

/* ---- patterns ------------------------------------------------------------------------ */

/* Where the last character of p[at .. end) begins: the library lets what replaces a match stand
 * for that one, and asks there whether a text begins with it. */
static size_t last_char(const char *p, size_t at, size_t end)
{
    size_t last = end > at ? end - 1 : at;
    while (last > at && ((unsigned char)p[last] & 0xC0) == 0x80)
        last--;
    return last;
}

/* Is so much put that it should be dealt with first? */
static bool is_much(struct job *j)
{
    j->again = j->out->text.len > j->most;
    return j->again;
}

/* A match: what was before it, and what replaces it. */
static void put_match(struct job *j, size_t at, size_t end)
{
    copy(j, j->st->at, at);
    put(j, j->part->text.p, j->part->text.len, last_char(j->p, at, end), end);
    j->st->at = end;
}

/* By a pattern that has to see a match as a whole. */
static int replace_whole(struct job *j)
{
    struct lm_regex_scan *scan = &j->st->scan;
    size_t at, end;
    int s = 1;
    j->done = 0;
    if (j->more)
        return LM_OK;
    if (!j->st->begun && (s = lm_regex_start(scan, j->part->pattern, j->p, j->len, j->err)))
        return s;
    j->st->begun = true;
    while (j->ok && !is_much(j) && (s = lm_regex_next(scan, &at, &end, j->err)) > 0)
        put_match(j, at, end);
    if (s < 0 || j->again)
        return s < 0 ? s : LM_OK;
    copy(j, j->st->at, j->len);
    j->done = j->len;
    return LM_OK;
}

/* By one that can be followed: of a match that goes on its last character is kept. */
static int replace(struct job *j)
{
    struct lm_norm_state *st = j->st;
    struct lm_regex_walk *w = &st->walk;
    int s = 1;
    if (!lm_regex_walks(j->part->pattern))
        return replace_whole(j);
    if (!w->ways && !(w->ways = lm_regex_ways_new(j->part->pattern)))
        return lm_fail_nomem(j->err);
    if (!st->begun)
        lm_regex_walk_start(w);
    st->begun = true;
    while (j->ok && !is_much(j) &&
           (s = lm_regex_walk_next(w, j->p, j->len, j->more, j->err)) == 1)
        put_match(j, w->at, w->end);
    if (s < 0)
        return s;
    if (st->at < w->at || s == 0) {
        copy(j, st->at, s ? w->at : j->len);
        st->at = s ? w->at : j->len;
    }
    if (s == 0) {
        j->done = j->len;
        return LM_OK;
    }
    j->done = j->again ? w->at : st->at;
    if (s == 2 && w->end != SIZE_MAX && w->end > w->at)
        j->done = last_char(j->p, w->at, w->end);
    j->done = j->done < j->len / 2 ? 0 : j->done;
    lm_regex_walk_drop(w, j->done);
    st->at -= j->done < st->at ? j->done : st->at;
    return LM_OK;
}

/* ---- by way of others ----------------------------------------------------------------- */

/* The rest of what lm_remap knows as origins. */
static void take_map(struct job *j, struct lm_remap *map, size_t was)
{
    struct lm_traced *out = j->out;
    if (!lm_grow(&out->origin, &out->cap, out->text.len + 1, sizeof *out->origin)) {
        j->ok = false;
        return;
    }
    for (size_t i = was; i < out->text.len; i++) {
        size_t at = lm_remap_find(map, i), end = lm_remap_end(map, i + 1);
        end = end < j->len ? end : j->len;
        out->origin[i] = origin_of(j, at, end > at ? end : at);
    }
}

static int with_map(struct job *j)
{
    struct lm_remap map = { 0 }, *m = j->from ? &map : NULL;
    const bool bert = j->part->kind == LM_NK_BERT;
    size_t was = j->out->text.len;
    if (m && !lm_remap_add(m, was, 0))
        return lm_fail_nomem(j->err);
    if (bert && j->more)
        j->len = j->done = lm_bert_settled(j->p, j->len);
    int s = bert ? lm_bert_normalize(j->p, j->len, j->part->bert, &j->out->text, m, j->err)
                 : lm_charsmap_part(&j->part->map, j->p, j->len, j->more, &j->done,
                                    &j->out->text, m, j->err);
    if (!bert)
        j->len = j->done;
    if (s == LM_OK && m)
        take_map(j, m, was);
    free(map.e);
    return s;
}

static void put_form(void *to, const char *text, size_t n, size_t at, size_t end)
{
    struct job *j = to;
    if (end - at == n && memcmp(j->p + at, text, n) == 0)
        copy(j, at, end);
    else
        put(j, text, n, at, end);
}

static int form(struct job *j)
{
    static const enum lm_uni_form forms[] = {
        [LM_NK_NFC] = LM_FORM_C, [LM_NK_NFD] = LM_FORM_D, [LM_NK_NFKC] = LM_FORM_KC,
        [LM_NK_NFKD] = LM_FORM_KD,
    };
    enum lm_uni_form f = forms[j->part->kind];
    if (j->more)
        j->len = j->done = lm_uni_form_settled(j->p, j->len, f);
    return lm_uni_form(j->p, j->len, f, put_form, j) ? LM_OK : lm_fail_nomem(j->err);
}

static int apply(struct job *j)
{
    int s = LM_OK;
    j->done = j->len = j->more ? lm_whole_chars(j->p, j->len) : j->len;
    switch (j->part->kind) {
    case LM_NK_NFC: case LM_NK_NFD: case LM_NK_NFKC: case LM_NK_NFKD: s = form(j); break;
    case LM_NK_LOWER: lower(j); break;
    case LM_NK_STRIP: strip(j); break;
    case LM_NK_ACCENTS: map_runes(j, without_accents); break;
    case LM_NK_REPLACE: s = replace(j); break;
    case LM_NK_PREPEND: prepend(j); break;
    case LM_NK_CHARSMAP: case LM_NK_BERT: s = with_map(j); break;
    case LM_NK_NMT: map_runes(j, nmt); break;
    case LM_NK_BYTES: bytes(j); break;
    }
    return s == LM_OK && !j->ok ? lm_fail_nomem(j->err) : s;
}

void lm_norm_begin(struct lm_norm_state *st, size_t slice)
{
    *st = (struct lm_norm_state){ .walk.ways = st->walk.ways, .scan = st->scan, .slice = slice };
}

void lm_norm_release(struct lm_norm_state *st)
{
    lm_regex_ways_free(st->walk.ways);
    lm_regex_scan_release(&st->scan);
    *st = (struct lm_norm_state){ 0 };
}

/* How much of the text a step works on: so much that it does not put more than a few slices,
 * and, as it may count from what it has seen, no less than before. */
static size_t share(const struct lm_norm_part *part, const struct lm_norm_state *st, size_t len)
{
    const double most = 4 * (double)st->slice / (part->growth > 1 ? part->growth : 1);
    size_t n = most < 1 ? 1 : most < (double)len ? (size_t)most : len;
    if (part->kind == LM_NK_REPLACE && !lm_regex_walks(part->pattern))
        n = len;                                 /* it needs all */
    n = n < st->seen ? st->seen : n;
    return n < len ? n : len;
}

int lm_norm_step(const struct lm_norm_part *part, struct lm_norm_state *st, struct lm_traced *in,
                 bool traced, bool more, struct lm_traced *out, bool *again, struct lm_err *err)
{
    if (traced && !lm_grow(&in->origin, &in->cap, 1, sizeof *in->origin))
        return lm_fail_nomem(err);
    struct job j = { .part = part, .st = st, .out = out, .ok = true, .err = err,
                     .most = out->text.len + 4 * st->slice };
    const size_t len = in->text.len - st->gone;
    size_t n = share(part, st, len);
    int s;
    j.p = (in->text.data ? in->text.data : "") + st->gone;
    j.from = traced ? in->origin + st->gone : NULL;
    for (;;) {
        j.len = n;
        j.more = more || n < len;
        s = apply(&j);
        if (s != LM_OK || j.done || j.again || n == len)
            break;
        n = n < len / 2 ? 2 * n : len;           /* it has to see more */
    }
    st->gone += j.done;
    st->seen = n - j.done;
    *again = j.again || n < len;
    if (s == LM_OK && (!*again || st->gone > in->text.len / 2)) {
        lm_traced_drop(in, st->gone, traced);
        st->gone = 0;
    }
    return s;
}
