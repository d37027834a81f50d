/* SPDX-License-Identifier: MIT */
/*
 * How much longer text can become by the steps of a tokenizer.json, of which each may make it
 * longer and the next one all of that again.
 *
 * Steps are looked at from the last one to the first.  What the later ones make of a text has a
 * bound, a weight for each of its bytes and one for the text as a whole; from these follow the
 * weights before a step.  Those of the bytes that a step does not touch stay as they are, so that
 * many replacements of different texts are not taken for one of another.
 */

#include "vocab/unicode_form.h"
#include "vocab/vocab_rules.h"

double lm_growth_of(const struct lm_growth *g, const char *p, size_t len)
{
    double n = g->more;
    for (size_t i = 0; i < len; i++)
        n += g->by[(unsigned char)p[i]];
    return n;
}

/* ---- weights before a step, from those behind it -------------------------------------- */

static struct lm_growth plain(void)
{
    struct lm_growth g = { .more = 0 };
    for (int b = 0; b < 256; b++)
        g.by[b] = 1;
    return g;
}

/* The bytes of a text, without what is added to it as a whole. */
static double bytes_of(const struct lm_growth *g, struct lm_str s)
{
    return lm_growth_of(g, s.p, s.len) - g->more;
}

static double heaviest(const struct lm_growth *g)
{
    double most = 0;
    for (int b = 0; b < 256; b++)
        most = g->by[b] > most ? g->by[b] : most;
    return most;
}

static void at_least(double *x, double n)
{
    *x = n > *x ? n : *x;
}

/* A byte may become `n` of the weight. */
static void all_at_least(struct lm_growth *g, double n)
{
    for (int b = 0; b < 256; b++)
        at_least(&g->by[b], n);
}

/* The same of bytes of characters that are not ASCII. */
static void wide_at_least(struct lm_growth *g, double n)
{
    for (int b = 128; b < 256; b++)
        at_least(&g->by[b], n);
}

/* The text goes in front of each piece, which has a byte. */
static void in_front(struct lm_growth *g, struct lm_str s)
{
    const double n = bytes_of(g, s);
    for (int b = 0; b < 256; b++)
        g->by[b] += n;
}

/* One text for another: the bytes of the old one share what becomes of the new one. */
static void literal(struct lm_growth *g, struct lm_str from, struct lm_str to)
{
    const double n = bytes_of(g, to) / (double)from.len;
    for (size_t i = 0; i < from.len; i++)
        at_least(&g->by[(unsigned char)from.p[i]], n);
}

/* A text for the matches of a pattern, which may be of any bytes, or empty: between all characters
 * and at the end. */
static void replaced(struct lm_growth *g, const struct lm_regex *pattern, struct lm_str from,
                     struct lm_str to)
{
    const size_t least = lm_regex_least(pattern);
    if (from.len) {
        literal(g, from, to);
    } else if (least) {
        all_at_least(g, bytes_of(g, to) / (double)least);
    } else {
        const double n = bytes_of(g, to);
        in_front(g, to);
        g->more += n;
    }
}

/* Bytes as characters of byte-level BPE's alphabet. */
static void alphabet(struct lm_growth *g)
{
    const struct lm_growth was = *g;
    for (int b = 0; b < 256; b++) {
        char c[4];
        const struct lm_str s = { c, lm_rune_bytes(lm_byte_rune((unsigned char)b), c) };
        g->by[b] = bytes_of(&was, s);
    }
}

static void small_letters(struct lm_growth *g)
{
    for (int b = 'A'; b <= 'Z'; b++)
        at_least(&g->by[b], g->by[b - 'A' + 'a']);
}

/*
 * What Unicode's data can make of a character, which test_tokenizer_json compares with all of
 * them: a form that composes or decomposes three bytes of one, one of compatibility eleven
 * (U+FDFA), small letters three of two.
 */
#define GROWS_CANONICAL 3.0
#define GROWS_COMPATIBLE 11.0
#define GROWS_SMALL 1.5

static void before_norm(struct lm_growth *g, const struct lm_norm_part *t)
{
    const double most = heaviest(g);
    switch (t->kind) {
    case LM_NK_NFC: case LM_NK_NFD:
        wide_at_least(g, GROWS_CANONICAL * most);
        break;
    case LM_NK_NFKC: case LM_NK_NFKD:
        wide_at_least(g, GROWS_COMPATIBLE * most);
        break;
    case LM_NK_LOWER:
        small_letters(g);
        wide_at_least(g, GROWS_SMALL * most);
        break;
    case LM_NK_BERT:
        small_letters(g);
        all_at_least(g, g->by[' ']);
        wide_at_least(g, GROWS_CANONICAL * GROWS_SMALL * most);
        break;
    case LM_NK_NMT:
        all_at_least(g, g->by[' ']);
        break;
    case LM_NK_REPLACE:
        replaced(g, t->pattern, t->from, t->text);
        break;
    case LM_NK_PREPEND:
        g->more += bytes_of(g, t->text);
        break;
    case LM_NK_CHARSMAP:
        all_at_least(g, lm_charsmap_growth(&t->map) * most);
        break;
    case LM_NK_BYTES:
        alphabet(g);
        break;
    case LM_NK_STRIP: case LM_NK_ACCENTS:
        break;
    }
}

static void before_pre(struct lm_growth *g, const struct lm_pre_part *t)
{
    const double n = bytes_of(g, t->text);
    if (t->kind == LM_PK_BYTES)
        alphabet(g);
    if (t->kind == LM_PK_PREFIX || (t->kind == LM_PK_MARK && t->when != LM_PREFIX_NEVER))
        in_front(g, t->text);
    if (t->kind == LM_PK_MARK)
        g->by[' '] = n;                          /* nothing is put in front of it */
}

static void before_dec(struct lm_growth *g, const struct lm_dec_part *t)
{
    static const struct lm_str space = { " ", 1 };
    const double most = heaviest(g);
    switch (t->kind) {
    case LM_DK_BYTES:
        wide_at_least(g, most);
        break;
    case LM_DK_FALLBACK:
        all_at_least(g, most / 6);               /* <0x00> */
        break;
    case LM_DK_MARK: case LM_DK_SUFFIX:
        literal(g, t->from, space);
        break;
    case LM_DK_WORDPIECE:
        at_least(&g->by['o'], g->by['\'']);      /* "do not" may be "don't" */
        g->more += g->by[' '];
        break;
    case LM_DK_JOIN:
        g->more += g->by[' '];
        break;
    case LM_DK_REPLACE:
        replaced(g, t->pattern, t->from, t->to);
        break;
    case LM_DK_FUSE: case LM_DK_STRIP:
        break;
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static int check(const struct lm_growth *g, const char *name, struct lm_err *err)
{
    const double most = heaviest(g) + g->more;
    if (most <= LM_RULES_GROWTH)
        return LM_OK;
    return lm_fail(err, LM_ENOSUP, "%s: from here on a byte of text can become %.4g bytes, more "
                   "than the limit of %d", name, most, (int)LM_RULES_GROWTH);
}

int lm_rules_growth(struct lm_rules *r, struct lm_err *err)
{
    int s = LM_OK;
    r->grown = r->shown = plain();
    for (size_t i = r->n_pre; i-- > 0 && s == LM_OK;) {
        before_pre(&r->grown, &r->pre[i]);
        s = check(&r->grown, r->pre[i].name, err);
    }
    for (size_t i = r->n_norm; i-- > 0 && s == LM_OK;) {
        struct lm_growth own = plain();
        before_norm(&own, &r->norm[i]);
        r->norm[i].growth = heaviest(&own) + own.more;
        before_norm(&r->grown, &r->norm[i]);
        s = check(&r->grown, r->norm[i].name, err);
    }
    for (size_t i = r->n_dec; i-- > 0 && s == LM_OK;) {
        before_dec(&r->shown, &r->dec[i]);
        s = check(&r->shown, r->dec[i].name, err);
    }
    return s;
}
