/* SPDX-License-Identifier: MIT */
/* Strings that grow and keep their marks; values as text, str() and repr(). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef LM_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include "template/jinja.h"

/* ---- characters ------------------------------------------------------------------- */

uint32_t lm_jrune(const struct jstr *s, size_t at, int *len)
{
    uint32_t rune = (unsigned char)s->p[at];
    *len = 1;
    if (rune >= 128) {
        int k = lm_utf8_len(s->p + at, s->len - at, &rune);
        *len = k ? k : 1;
    }
    return rune;
}

size_t lm_jchars(const struct jstr *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++)
        n += ((unsigned char)s->p[i] & 0xC0) != 0x80;
    return n;
}

size_t lm_jchar_at(const struct jstr *s, size_t n)
{
    size_t i = 0;
    for (; n && i < s->len; n--)
        do
            i++;
        while (i < s->len && ((unsigned char)s->p[i] & 0xC0) == 0x80);
    return i;
}

bool lm_jspace(uint32_t c)
{
    if (c < 128)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* ---- growing ------------------------------------------------------------------------ */

static void room(struct jsb *b, size_t n)
{
    size_t need = b->len + n;
    if (need <= b->cap)
        return;
    size_t cap = need > 2 * b->cap ? need : 2 * b->cap;
    cap = cap < 64 ? 64 : cap;
    char *p = lm_jalloc(b->r, cap + 1, 1);
    if (b->len)
        memcpy(p, b->p, b->len);
    b->p = p;
    if (b->mark) {
        unsigned char *mark = lm_jalloc(b->r, cap, 1);
        memcpy(mark, b->mark, b->len);
        b->mark = mark;
    }
    b->cap = cap;
}

void lm_jsb_add(struct jsb *b, const char *p, const unsigned char *mark, size_t len)
{
    if (!len)
        return;
    room(b, len);
    lm_jstep(b->r, len / 64);
    memcpy(b->p + b->len, p, len);
    if (mark && !b->mark)
        b->mark = lm_jalloc(b->r, b->cap, 1);
    if (mark)
        memcpy(b->mark + b->len, mark, len);
    b->len += len;
}

void lm_jsb_str(struct jsb *b, const struct jstr *s)
{
    lm_jsb_add(b, s->p, s->mark, s->len);
}

void lm_jsb_lit(struct jsb *b, const char *s)
{
    lm_jsb_add(b, s, NULL, strlen(s));
}

void lm_jsb_rune(struct jsb *b, uint32_t rune, unsigned char mark)
{
    const unsigned char marks[4] = { mark, mark, mark, mark };
    char out[4] = { (char)rune };
    size_t n = 1;
    if (rune >= 0x80) {
        int k = rune < 0x800 ? 1 : rune < 0x10000 ? 2 : 3;
        out[0] = (char)((0xFF00 >> (k + 1) & 0xFF) | rune >> 6 * k);
        for (int i = 1; i <= k; i++)
            out[i] = (char)(0x80 | (rune >> 6 * (k - i) & 0x3F));
        n = (size_t)k + 1;
    }
    lm_jsb_add(b, out, mark ? marks : NULL, n);
}

void lm_jsb_mark(struct jsb *b, size_t from, unsigned char mark)
{
    lm_jstep(b->r, (b->len - from) / 64);
    if (b->len > from && !b->mark)
        b->mark = lm_jalloc(b->r, b->cap, 1);
    for (size_t i = from; i < b->len; i++)
        b->mark[i] |= mark;
}

struct jv lm_jmade_of(struct jrun *r, const struct jstr *of, const char *text, size_t n)
{
    char *copy = lm_jalloc(r, n + 1, 1);
    unsigned char *mark = NULL, all = 0;
    for (size_t i = 0; of && of->mark && i < of->len; i++)
        all |= of->mark[i];
    if (all)
        memset(mark = lm_jalloc(r, n, 1), all, n);
    memcpy(copy, text, n);
    return lm_jstr(r, copy, mark, n);
}

/* s[from..to), n times. */
void lm_jsb_fill(struct jsb *b, const struct jstr *s, size_t from, size_t to, int64_t n)
{
    size_t bytes;
    if (n <= 0 || to == from)
        return;
    if (__builtin_mul_overflow((size_t)n, to - from, &bytes) || bytes > b->r->limits->memory)
        bytes = b->r->limits->memory;            /* room fails for it */
    room(b, bytes);
    size_t at = b->len, done = to - from;
    lm_jsb_add(b, s->p + from, s->mark ? s->mark + from : NULL, done);
    for (size_t k; done < bytes; done += k) {    /* what is there again, twice as much each time */
        k = done < bytes - done ? done : bytes - done;
        lm_jsb_add(b, b->p + at, s->mark ? b->mark + at : NULL, k);
    }
}

struct jv lm_jsb_value(struct jsb *b)
{
    return lm_jstr(b->r, b->p ? b->p : "", b->mark, b->len);
}

/* ---- str and repr -------------------------------------------------------------------- */

/* The shortest digits that give f back, laid out as Python does. */
void lm_jfloat_text(char out[40], double f)
{
    char d[32];
    if (!isfinite(f)) {
        strcpy(out, isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
        return;
    }
    int prec = 0;
    do
        snprintf(d, sizeof d, "%.*e", prec, f);
    while (strtod(d, NULL) != f && ++prec < 17);
    char digits[20];
    int n = 0, exp = atoi(strchr(d, 'e') + 1);
    for (const char *p = d; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    const char *sign = signbit(f) ? "-" : "";
    if (exp < -4 || exp >= 16)
        snprintf(out, 40, "%s%c%s%.*se%c%02d", sign, digits[0], n > 1 ? "." : "", n - 1, digits + 1,
                 exp < 0 ? '-' : '+', abs(exp));
    else if (exp < 0)
        snprintf(out, 40, "%s0.%.*s%.*s", sign, -exp - 1, "000", n, digits);
    else if (n <= exp + 1)
        snprintf(out, 40, "%s%.*s%.*s.0", sign, n, digits, exp + 1 - n, "0000000000000000");
    else
        snprintf(out, 40, "%s%.*s.%.*s", sign, exp + 1, digits, n - exp - 1, digits + exp + 1);
}

/* str.isprintable of Python, of a character that is not ASCII. */
static bool printable(uint32_t c)
{
#ifdef LM_HAVE_UTF8PROC
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
#else
    return c > 0xA0 && !lm_jspace(c);
#endif
}

static void repr_rune(struct jsb *b, uint32_t c, char quote, unsigned char mark)
{
    char esc[12] = "";
    if (c == (uint32_t)quote || c == '\\')
        snprintf(esc, sizeof esc, "\\%c", (int)c);
    else if (c == '\n' || c == '\r' || c == '\t')
        snprintf(esc, sizeof esc, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c < 32 || c == 127 || (c < 256 && c > 127 && !printable(c)))
        snprintf(esc, sizeof esc, "\\x%02x", (unsigned)c);
    else if (c >= 128 && !printable(c))
        snprintf(esc, sizeof esc, c < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)c);
    if (!*esc) {
        lm_jsb_rune(b, c, mark);
        return;
    }
    for (const char *p = esc; *p; p++)
        lm_jsb_rune(b, (unsigned char)*p, mark);
}

static void repr_str(struct jsb *b, const struct jstr *s)
{
    bool one = memchr(s->p, '\'', s->len), two = memchr(s->p, '"', s->len);
    char quote = one && !two ? '"' : '\'';
    int k;
    lm_jsb_add(b, &quote, NULL, 1);
    for (size_t i = 0; i < s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(s, i, &k);
        repr_rune(b, c, quote, s->mark ? s->mark[i] : 0);
    }
    lm_jsb_add(b, &quote, NULL, 1);
}

static void repr_bytes(struct jsb *b, const struct jstr *s)
{
    char quote = memchr(s->p, '\'', s->len) && !memchr(s->p, '"', s->len) ? '"' : '\'';
    lm_jsb_lit(b, "b");
    lm_jsb_add(b, &quote, NULL, 1);
    for (size_t i = 0; i < s->len; i++) {
        unsigned char c = (unsigned char)s->p[i];
        unsigned char mark = s->mark ? s->mark[i] : 0;
        char esc[8];
        if (c < 128) {
            repr_rune(b, c, quote, mark);
            continue;
        }
        snprintf(esc, sizeof esc, "\\x%02x", c);
        for (const char *p = esc; *p; p++)
            lm_jsb_rune(b, (unsigned char)*p, mark);
    }
    lm_jsb_add(b, &quote, NULL, 1);
}

static void repr_items(struct jsb *b, const struct jlist *l, const char *open, const char *close)
{
    lm_jsb_lit(b, open);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            lm_jsb_lit(b, ", ");
        lm_jrepr(b, l->v[i]);
    }
    lm_jsb_lit(b, close);
}

static void repr_dict(struct jsb *b, const struct jdict *d)
{
    lm_jsb_lit(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            lm_jsb_lit(b, ", ");
        lm_jrepr(b, d->e[i].key);
        lm_jsb_lit(b, ": ");
        lm_jrepr(b, d->e[i].value);
    }
    lm_jsb_lit(b, "}");
}

static void repr_range(struct jsb *b, const struct jrange *g)
{
    char text[80];
    if (g->step == 1)
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", g->start, g->stop);
    else
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")", g->start,
                 g->stop, g->step);
    lm_jsb_lit(b, text);
}

/* Things that have no text of their own; Python would print their address. */
static void repr_object(struct jsb *b, struct jv v)
{
    char text[80];
    switch (v.kind) {
    case J_SELF: lm_jsb_lit(b, "<TemplateReference None>"); break;
    case J_LOOP:
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.loop->i + 1, v.loop->n);
        lm_jsb_lit(b, text);
        break;
    case J_NS:
        lm_jsb_lit(b, "<Namespace ");
        repr_dict(b, v.d);
        lm_jsb_lit(b, ">");
        break;
    case J_MACRO:
        lm_jsb_lit(b, "<Macro '");
        lm_jsb_str(b, &v.macro->node->str);
        lm_jsb_lit(b, "'>");
        break;
    default:
        snprintf(text, sizeof text, "<%s object>", lm_jtype(v));
        lm_jsb_lit(b, text);
    }
}

static void repr_nested(struct jsb *b, struct jv v)
{
    struct jrun *r = b->r;
    switch (v.kind) {
    case J_LIST: repr_items(b, v.l, "[", "]"); break;
    case J_TUPLE: repr_items(b, v.l, "(", v.l->n == 1 ? ",)" : ")"); break;
    case J_DICT: repr_dict(b, v.d); break;
    case J_VIEW:
        lm_jsb_lit(b, lm_jtype(v));
        lm_jsb_lit(b, "(");
        repr_items(b, lm_jiter(r, v), "[", "]");
        lm_jsb_lit(b, ")");
        break;
    default: repr_object(b, v);
    }
}

void lm_jrepr(struct jsb *b, struct jv v)
{
    char num[40];
    lm_jstep(b->r, 1);
    switch (v.kind) {
    case J_UNDEF: lm_jsb_lit(b, "Undefined"); break;
    case J_NONE:  lm_jsb_lit(b, "None"); break;
    case J_BOOL:  lm_jsb_lit(b, v.b ? "True" : "False"); break;
    case J_INT:
        snprintf(num, sizeof num, "%" PRId64, v.i);
        lm_jsb_lit(b, num);
        break;
    case J_BIG: lm_jbig_text(b, v.big); break;
    case J_FLOAT:
        lm_jfloat_text(num, v.f);
        lm_jsb_lit(b, num);
        break;
    case J_STR:
        if (v.sub)
            lm_jsb_lit(b, "Markup(");
        repr_str(b, v.s);
        if (v.sub)
            lm_jsb_lit(b, ")");
        break;
    case J_BYTES: repr_bytes(b, v.s); break;
    case J_RANGE: repr_range(b, v.r); break;
    default:
        lm_jdeeper(b->r);
        repr_nested(b, v);
        b->r->depth--;
    }
}

void lm_jprint(struct jsb *b, struct jv v)
{
    if (v.kind == J_STR)
        lm_jsb_str(b, v.s);
    else if (v.kind != J_UNDEF)
        lm_jrepr(b, v);
}

struct jv lm_jto_str(struct jrun *r, struct jv v)
{
    if (v.kind == J_STR)
        return v;
    struct jsb b = JSB(r);
    lm_jprint(&b, v);
    return lm_jsb_value(&b);
}

/* HTML. */
void lm_jescape(struct jsb *b, const struct jstr *s)
{
    static const char *const names[] = { "&amp;", "&lt;", "&gt;", "&#34;", "&#39;" };
    static const char chars[] = "&<>\"'";
    for (size_t i = 0; i < s->len; i++) {
        const char *k = s->p[i] ? strchr(chars, s->p[i]) : NULL;
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        if (!k) {
            lm_jsb_add(b, s->p + i, mark, 1);
            continue;
        }
        for (const char *p = names[k - chars]; *p; p++)
            lm_jsb_add(b, p, mark, 1);
    }
}
