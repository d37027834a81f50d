/* SPDX-License-Identifier: MIT */
/* Filters on text and numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

#define FILTER(name) static struct jv name(struct jrun *r, struct jv v, struct jargs *a)

static const struct jstr space = { " ", NULL, 1 };

static bool given(const struct jv *v)
{
    return v && v->kind != J_NONE;
}

static struct jv markup(struct jv s)
{
    s.sub = 1;
    return s;
}

FILTER(f_trim)
{
    struct jv *arg[1];
    lm_jtake(r, "trim", a, "chars", arg);
    return lm_jstr_strip(r, lm_jto_str(r, v).s,
                         given(arg[0]) ? lm_jneed_str(r, *arg[0], "trim") : NULL, 3);
}

static struct jv change_case(struct jrun *r, struct jv v, struct jargs *a, int to)
{
    lm_jtake(r, "upper", a, "", NULL);
    return lm_jstr_case(r, lm_jto_str(r, v).s, to);
}

FILTER(f_upper)      { return change_case(r, v, a, JC_UPPER); }
FILTER(f_lower)      { return change_case(r, v, a, JC_LOWER); }
FILTER(f_capitalize) { return change_case(r, v, a, JC_CAPITALIZE); }

/* Words begin after white space, '-', brackets and '<', not after an apostrophe. */
FILTER(f_title)
{
    lm_jtake(r, "title", a, "", NULL);
    const struct jstr *s = lm_jto_str(r, v).s;
    struct jsb b = JSB(r);
    int k, first;
    for (size_t i = 0; i < s->len;) {
        size_t from = i;
        for (; i < s->len; i += (size_t)k) {
            uint32_t c = lm_jrune(s, i, &k);
            if (lm_jspace(c) || (c && c < 128 && strchr("-({[<", (int)c)))
                break;
        }
        if (i > from) {                          /* no title case here: 'ß' becomes 'SS' */
            lm_jrune(s, from, &first);
            size_t rest = from + (size_t)first;
            lm_jsb_str(&b, lm_jstr_case(r, lm_jslice(r, s, from, rest).s, JC_UPPER).s);
            lm_jsb_str(&b, lm_jstr_case(r, lm_jslice(r, s, rest, i).s, JC_LOWER).s);
        }
        if (i < s->len) {
            lm_jsb_add(&b, s->p + i, s->mark ? s->mark + i : NULL, (size_t)k);
            i += (size_t)k;
        }
    }
    return lm_jsb_value(&b);
}

FILTER(f_string)
{
    lm_jtake(r, "string", a, "", NULL);
    return lm_jto_str(r, v);
}

FILTER(f_safe)
{
    lm_jtake(r, "safe", a, "", NULL);
    return markup(lm_jto_str(r, v));
}

FILTER(f_forceescape)
{
    struct jsb b = JSB(r);
    lm_jtake(r, "escape", a, "", NULL);
    lm_jescape(&b, lm_jto_str(r, v).s);
    return markup(lm_jsb_value(&b));
}

FILTER(f_escape)
{
    return v.kind == J_STR && v.sub ? v : f_forceescape(r, v, a);
}

FILTER(f_replace)
{
    struct jv *arg[3];
    lm_jtake(r, "replace", a, "old new count", arg);
    if (!arg[0] || !arg[1])
        lm_jfail(r, "replace: what by what?");
    return lm_jstr_replace(r, lm_jto_str(r, v).s, lm_jto_str(r, *arg[0]).s,
                           lm_jto_str(r, *arg[1]).s,
                           given(arg[2]) ? lm_jindex(r, *arg[2], "count") : -1);
}

/* The lines of a text, without their ends. */
static struct jlist *lines_of(struct jrun *r, const struct jstr *s)
{
    struct jargs none = { 0 };
    struct jv text = { .kind = J_STR, .s = s };
    return lm_jcall_method(r, text, "splitlines", &none).l;
}

FILTER(f_indent)
{
    struct jv *arg[3];
    struct jsb b = JSB(r), in = JSB(r);
    lm_jtake(r, "indent", a, "width first blank", arg);
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    if (v.kind != J_STR)
        lm_jfail(r, "indent: expected str, got %s", lm_jtype(v));
    if (arg[0] && arg[0]->kind == J_STR)
        lm_jsb_str(&in, arg[0]->s);
    else
        lm_jsb_fill(&in, &space, 0, 1, arg[0] ? lm_jindex(r, *arg[0], "indent") : 4);
    const struct jstr *by = lm_jsb_value(&in).s, *s = lm_jto_str(r, v).s;
    bool first = arg[1] && lm_jtruth(r, *arg[1]), blank = arg[2] && lm_jtruth(r, *arg[2]);
    struct jsb text = JSB(r);
    lm_jsb_str(&text, s);
    lm_jsb_lit(&text, "\n");                     /* so that a last empty line counts */
    struct jlist *l = lines_of(r, lm_jsb_value(&text).s);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            lm_jsb_lit(&b, "\n");
        if (i ? l->v[i].s->len || blank : first)
            lm_jsb_str(&b, by);
        lm_jsb_str(&b, l->v[i].s);
    }
    return lm_jsb_value(&b);
}

FILTER(f_wordcount)
{
    lm_jtake(r, "wordcount", a, "", NULL);
    const struct jstr *s = lm_jto_str(r, v).s;
    int64_t n = 0;
    bool in = false;
    int k;
    for (size_t i = 0; i < s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(s, i, &k);
        const bool word = lm_jword(c);
        n += word && !in;
        in = word;
    }
    return lm_jint(n);
}

FILTER(f_truncate)
{
    static const struct jstr dots = { "...", NULL, 3 };
    struct jv *arg[4];
    lm_jtake(r, "truncate", a, "length killwords end leeway", arg);
    if (v.kind != J_STR && v.kind != J_UNDEF)
        lm_jfail(r, "truncate: expected str, got %s", lm_jtype(v));
    const struct jstr *s = lm_jto_str(r, v).s;
    const struct jstr *end = arg[2] ? lm_jneed_str(r, *arg[2], "truncate") : &dots;
    int64_t length = arg[0] ? lm_jindex(r, *arg[0], "truncate") : 255;
    int64_t leeway = given(arg[3]) ? lm_jindex(r, *arg[3], "truncate") : 5;
    int64_t keep = length - (int64_t)lm_jchars(end), n = (int64_t)lm_jchars(s);
    if (keep < 0 || leeway < 0)
        lm_jfail(r, "truncate: expected length >= %zu, got %lld", lm_jchars(end),
                 (long long)length);
    if (n <= length || n - length <= leeway)
        return lm_jslice(r, s, 0, s->len);
    size_t cut = lm_jchar_at(s, (size_t)keep);
    if (!(arg[1] && lm_jtruth(r, *arg[1])))
        for (size_t i = cut; i-- > 0;)
            if (s->p[i] == ' ') {
                cut = i;
                break;
            }
    struct jsb b = JSB(r);
    lm_jsb_str(&b, lm_jslice(r, s, 0, cut).s);
    lm_jsb_str(&b, end);
    return lm_jsb_value(&b);
}

/* A line on its way into lines of at most `width` characters, by the rules of Python's
 * textwrap: words and the blanks between them are laid down one by one. */
struct wrap {
    struct jsb        *b;
    const struct jstr *s, *end;          /* the line; what ends one of the new ones */
    size_t             width, column;
    size_t             from, to;         /* of the new line, in s; from == to: nothing yet */
    bool               cut, hyphens, some;   /* some: a line is done */
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The character that ends before i, 0 at the begin. */
static uint32_t before(const struct jstr *s, size_t i)
{
    int k;
    if (!i)
        return 0;
    for (i--; i > 0 && ((unsigned char)s->p[i] & 0xC0) == 0x80;)
        i--;
    return lm_jrune(s, i, &k);
}

static bool is_letter(uint32_t c)
{
    return lm_jword(c) && !(c >= '0' && c <= '9');
}

static bool word_at(const struct jstr *s, size_t i, bool letter)
{
    int k;
    const uint32_t c = i < s->len ? lm_jrune(s, i, &k) : 0;
    return c && (letter ? is_letter(c) : lm_jword(c));
}

/* May a word end with the hyphen at i: two letters before it, or a letter and a hyphen, and the
 * like behind it? */
static bool breaks_at(const struct jstr *s, size_t i)
{
    if (s->p[i] != '-' || !is_letter(before(s, i)))
        return false;
    size_t b = i - 1;
    while (b > 0 && ((unsigned char)s->p[b] & 0xC0) == 0x80)
        b--;
    const bool hyphen = b > 0 && s->p[b - 1] == '-' && is_letter(before(s, b - 1));
    if (!hyphen && !is_letter(before(s, b)))
        return false;
    int k = 1;
    if (!word_at(s, i + 1, true))
        return false;
    lm_jrune(s, i + 1, &k);
    const size_t next = i + 1 + (size_t)k;
    return word_at(s, next, true) ||
           (next < s->len && s->p[next] == '-' && word_at(s, next + 1, true));
}

/* Two hyphens or more at i that stand between words: where they end, else i. */
static size_t dashes(const struct jstr *s, size_t i)
{
    size_t j = i;
    const uint32_t c = before(s, i);
    if (!lm_jword(c) && !(c && c < 128 && strchr("!\"'&.,?", (int)c)))
        return i;
    while (j < s->len && s->p[j] == '-')
        j++;
    return j - i >= 2 && word_at(s, j, false) ? j : i;
}

/* The end of the blanks or the word, or the part of it that may stand alone, at i. */
static size_t chunk_end(const struct wrap *w, size_t i)
{
    const struct jstr *s = w->s;
    size_t j = i;
    if (is_blank(s->p[i])) {
        while (j < s->len && is_blank(s->p[j]))
            j++;
        return j;
    }
    if (w->hyphens && (j = dashes(s, i)) > i)
        return j;
    for (j = i; j < s->len && !is_blank(s->p[j]); j++) {
        if (w->hyphens && j > i && dashes(s, j) > j)
            return j;
        if (w->hyphens && j > i && breaks_at(s, j))
            return j + 1;
    }
    return j;
}

/* The characters of s[from .. to), as far as it makes a difference: the width and one more. */
static size_t count(const struct wrap *w, size_t from, size_t to)
{
    size_t n = 0;
    int k;
    for (; from < to && n <= w->width; from += (size_t)k, n++)
        lm_jrune(w->s, from, &k);
    return n;
}

/* End the new line, without the chunk at `last` if that is blanks at its end. */
static void end_line(struct wrap *w, size_t last)
{
    size_t to = w->to;
    if (last < to && is_blank(w->s->p[last]))
        to = last;
    if (to > w->from) {
        if (w->some)
            lm_jsb_str(w->b, w->end);
        lm_jsb_add(w->b, w->s->p + w->from, w->s->mark ? w->s->mark + w->from : NULL,
                   to - w->from);
        w->some = true;
    }
    w->from = w->to;
    w->column = 0;
}

/* Where a word at i .. end, longer than a line, is cut for what is left of this one; i: before
 * it, as something stands there. */
static size_t cut_word(const struct wrap *w, size_t i, size_t end)
{
    if (!w->cut)
        return w->from < w->to ? i : end;
    const struct jstr word = { w->s->p + i, NULL, end - i };
    const size_t to = lm_jchar_at(&word, w->width - w->column);
    for (size_t j = to; w->hyphens && j-- > 1;)
        if (word.p[j] == '-') {
            for (size_t k = 0; k < j; k++)
                if (word.p[k] != '-')
                    return i + j + 1;
            break;
        }
    return i + to;
}

static void wrap_line(struct wrap *w)
{
    size_t last = 0;                             /* where the last chunk of the line begins */
    for (size_t i = 0, chunk = 0, end; i < w->s->len; i = end) {
        lm_jstep(w->b->r, 1);
        if (i == chunk)
            chunk = chunk_end(w, i);
        end = chunk;
        if (w->from == w->to && w->some && is_blank(w->s->p[i])) {
            w->from = w->to = end;
            continue;
        }
        const size_t n = count(w, i, end);
        if (w->column + n <= w->width) {
            w->column += n;
            last = i;
            w->to = end;
            continue;
        }
        end = n > w->width ? cut_word(w, i, end) : i;
        if (end > i) {
            last = i;
            w->to = end;
        } else if (n > w->width && w->cut) {     /* Python drops the nothing that it cut off */
            last = w->to;
        }
        end_line(w, last);
    }
    end_line(w, last);
}

FILTER(f_wordwrap)
{
    static const struct jstr newline = { "\n", NULL, 1 };
    struct jv *arg[4];
    struct jsb b = JSB(r);
    lm_jtake(r, "wordwrap", a, "width break_long_words wrapstring break_on_hyphens", arg);
    int64_t width = arg[0] ? lm_jindex(r, *arg[0], "wordwrap") : 79;
    const bool cut = !arg[1] || lm_jtruth(r, *arg[1]);
    const bool hyphens = !arg[3] || lm_jtruth(r, *arg[3]);
    const struct jstr *s = lm_jneed_str(r, v, "wordwrap");
    const struct jstr *end = given(arg[2]) ? lm_jneed_str(r, *arg[2], "wordwrap") : &newline;
    if (width < 1)
        lm_jfail(r, "wordwrap: invalid width %lld", (long long)width);
    struct jlist *l = lines_of(r, s);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            lm_jsb_str(&b, end);
        wrap_line(&(struct wrap){ .b = &b, .s = l->v[i].s, .end = end, .width = (size_t)width,
                                  .cut = cut, .hyphens = hyphens });
    }
    return lm_jsb_value(&b);
}

FILTER(f_center)
{
    struct jv *arg[1], width = lm_jint(80);
    lm_jtake(r, "center", a, "width", arg);
    struct jargs one = { .pos = arg[0] ? arg[0] : &width, .n = 1 };
    return lm_jcall_method(r, lm_jto_str(r, v), "center", &one);
}

FILTER(f_format)
{
    if (a->n && a->kw.n)
        lm_jfail(r, "can't handle positional and keyword arguments at the same time");
    struct jv args = { .kind = J_DICT, .d = &a->kw }, list = lm_jlist(r, J_TUPLE);
    *list.l = (struct jlist){ a->pos, a->n, a->n };
    return lm_jpercent(r, lm_jto_str(r, v).s, a->kw.n ? args : list);
}

/* Without comments and tags, runs of white space made one space. */
FILTER(f_striptags)
{
    lm_jtake(r, "striptags", a, "", NULL);
    const struct jstr *s = lm_jto_str(r, v).s;
    struct jsb b = JSB(r), out = JSB(r);
    size_t tags = s->len;                        /* no tag ends behind here */
    while (tags > 0 && s->p[tags - 1] != '>')
        tags--;
    for (size_t i = 0; i < s->len; i++) {
        const char *end = s->p[i] == '<' && i < tags ? memchr(s->p + i, '>', tags - i) : NULL;
        if (end)
            i = (size_t)(end - s->p);
        else
            lm_jsb_add(&b, s->p + i, s->mark ? s->mark + i : NULL, 1);
    }
    struct jargs none = { 0 };
    struct jlist *words = lm_jcall_method(r, lm_jsb_value(&b), "split", &none).l;
    for (size_t i = 0; i < words->n; i++) {
        if (i)
            lm_jsb_lit(&out, " ");
        lm_jsb_str(&out, words->v[i].s);
    }
    return lm_jsb_value(&out);
}

static void quote_url(struct jsb *b, const struct jstr *s, bool query)
{
    for (size_t i = 0; i < s->len; i++) {
        unsigned char c = (unsigned char)s->p[i];
        char esc[4];
        const unsigned char *mark = s->mark ? s->mark + i : NULL;
        if ((c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
            (c && strchr(query ? "_.-~" : "_.-~/", c))) {
            lm_jsb_add(b, s->p + i, mark, 1);
            continue;
        }
        snprintf(esc, sizeof esc, query && c == ' ' ? "+" : "%%%02X", c);
        for (const char *p = esc; *p; p++)
            lm_jsb_add(b, p, mark, 1);
    }
}

FILTER(f_urlencode)
{
    struct jsb b = JSB(r);
    lm_jtake(r, "urlencode", a, "", NULL);
    if (v.kind == J_STR || !lm_jiterable(v)) {
        quote_url(&b, lm_jto_str(r, v).s, false);
        return lm_jsb_value(&b);
    }
    struct jargs none = { 0 };
    struct jlist *l = lm_jiter(r, v.kind == J_DICT ? lm_jcall_method(r, v, "items", &none) : v);
    for (size_t i = 0; i < l->n; i++) {
        struct jlist *pair = lm_jiter(r, l->v[i]);
        if (pair->n != 2)
            lm_jfail(r, "urlencode: pairs are needed");
        if (i)
            lm_jsb_lit(&b, "&");
        quote_url(&b, lm_jto_str(r, pair->v[0]).s, true);
        lm_jsb_lit(&b, "=");
        quote_url(&b, lm_jto_str(r, pair->v[1]).s, true);
    }
    return lm_jsb_value(&b);
}

static bool to_double(struct jrun *r, struct jv v, double *out)
{
    if (lm_jis_num(v)) {
        *out = v.kind == J_BIG ? lm_jbig_f64(v.big) : lm_jnumber(r, v);
        return true;
    }
    if (v.kind != J_STR)
        return false;
    const struct jstr *s = lm_jstr_strip(r, v.s, NULL, 3).s;
    char *copy = lm_jalloc(r, s->len + 1, 1), *end;
    size_t n = 0;
    for (size_t i = 0; i < s->len; i++)
        if (s->p[i] != '_' || i == 0 || i + 1 == s->len)
            copy[n++] = s->p[i];
    if (!n || memchr(copy, 0, n) || strpbrk(copy, "xXpP("))
        return false;
    *out = strtod(copy, &end);
    return !*end;
}

FILTER(f_filesizeformat)
{
    static const char *const units[2][8] = {
        { "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" },
        { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB" },
    };
    struct jv *arg[1];
    double bytes;
    char text[64];
    lm_jtake(r, "filesizeformat", a, "binary", arg);
    bool binary = arg[0] && lm_jtruth(r, *arg[0]);
    double base = binary ? 1024 : 1000, unit = base;
    int i = 0;
    if (!to_double(r, v, &bytes))
        lm_jfail(r, "could not convert to a number");
    if (bytes == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (bytes < base)
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    else {
        for (unit = base * base; i < 7 && bytes >= unit; i++)
            unit *= base;
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[binary][i]);
    }
    return lm_jmade_of(r, v.kind == J_STR ? v.s : NULL, text, strlen(text));
}

FILTER(f_xmlattr)
{
    struct jv *arg[1];
    struct jsb b = JSB(r);
    lm_jtake(r, "xmlattr", a, "autospace", arg);
    bool gap = !arg[0] || lm_jtruth(r, *arg[0]);
    if (v.kind != J_DICT)
        lm_jfail(r, "'%s' object has no attribute 'items'", lm_jtype(v));
    for (size_t i = 0; i < v.d->n; i++) {
        struct jpair *e = &v.d->e[i];
        if (e->value.kind == J_NONE || e->value.kind == J_UNDEF)
            continue;
        const struct jstr *key = lm_jto_str(r, e->key).s;
        for (size_t k = 0; k < key->len; k++)
            if (lm_jspace((unsigned char)key->p[k]) || (key->p[k] && strchr("/>=", key->p[k])))
                lm_jfail(r, "Invalid character in attribute name");
        if (b.len || gap)
            lm_jsb_lit(&b, " ");
        lm_jescape(&b, key);
        lm_jsb_lit(&b, "=\"");
        lm_jescape(&b, lm_jto_str(r, e->value).s);
        lm_jsb_lit(&b, "\"");
    }
    return markup(lm_jsb_value(&b));
}

/* ---- numbers ------------------------------------------------------------- */

/* Digits of a base, as int() takes them; false when they are not a number. */
static bool parse_int(struct jrun *r, const struct jstr *text, int64_t base, struct jv *out)
{
    const struct jstr *s = lm_jstr_strip(r, text, NULL, 3).s;
    size_t i = 0, n = 0;
    bool neg = s->len && s->p[0] == '-';
    i += neg || (s->len && s->p[0] == '+');
    if (s->len > i + 1 && s->p[i] == '0') {
        int x = s->p[i + 1] | 32;
        int64_t told = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
        if (told && (base == told || base == 0)) {
            base = told;
            i += 2;
        }
    }
    base = base == 0 ? 10 : base;
    char *digits = lm_jalloc(r, s->len + 1, 1);
    for (; i < s->len; i++) {
        int c = (unsigned char)s->p[i], l = c | 32;
        int d = c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'z' ? l - 'a' + 10 : 99;
        if (c == '_' && n && i + 1 < s->len && s->p[i + 1] != '_')
            continue;
        if (d >= base)
            return false;
        digits[n++] = (char)c;
    }
    if (!n)
        return false;
    *out = lm_jbig_parse(r, digits, n, (unsigned)base);
    if (neg)
        *out = lm_junary(r, JO_NEG, *out);
    return true;
}

FILTER(f_int)
{
    struct jv *arg[2], out;
    double f;
    lm_jtake(r, "int", a, "default base", arg);
    int64_t base = arg[1] ? lm_jindex(r, *arg[1], "int") : 10;
    if (base < 0 || base == 1 || base > 36)
        lm_jfail(r, "int() base must be >= 2 and <= 36, or 0");
    if (v.kind == J_INT || v.kind == J_BIG)
        return v;
    if (v.kind == J_STR && parse_int(r, v.s, base, &out))
        return out;
    if (to_double(r, v, &f) && isfinite(f)) {
        if (fabs(f) < 9e18)
            return lm_jint((int64_t)f);
        char text[400];
        snprintf(text, sizeof text, "%.0f", fabs(f));
        out = lm_jbig_parse(r, text, strlen(text), 10);
        return f < 0 ? lm_junary(r, JO_NEG, out) : out;
    }
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    return arg[0] ? *arg[0] : lm_jint(0);
}

FILTER(f_float)
{
    struct jv *arg[1];
    double f;
    lm_jtake(r, "float", a, "default", arg);
    if (to_double(r, v, &f))
        return lm_jfloat(f);
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    return arg[0] ? *arg[0] : lm_jfloat(0);
}

FILTER(f_abs)
{
    lm_jtake(r, "abs", a, "", NULL);
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    if (!lm_jis_num(v))
        lm_jfail(r, "bad operand type for abs(): '%s'", lm_jtype(v));
    if (v.kind == J_FLOAT)
        return lm_jfloat(fabs(v.f));
    bool neg = lm_jorder(r, v, lm_jint(0), "<") < 0;
    return lm_junary(r, neg ? JO_NEG : JO_POS, v);
}

/* round() of Python to n digits behind the point: exact, halves to the even digit. */
static double round_to(double f, int64_t n)
{
    char text[700];
    if (n > 300 || !isfinite(f))
        return f;
    if (n >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)n, f);
        return strtod(text, NULL);
    }
    if (n < -308)
        return copysign(0, f);
    double unit = pow(10, (double)-n);
    return nearbyint(f / unit) * unit;
}

FILTER(f_round)
{
    struct jv *arg[2];
    lm_jtake(r, "round", a, "precision method", arg);
    int64_t n = arg[0] ? lm_jindex(r, *arg[0], "round") : 0;
    const struct jstr *how = arg[1] ? lm_jneed_str(r, *arg[1], "round") : NULL;
    bool up = how && lm_jstr_is(how, "ceil"), down = how && lm_jstr_is(how, "floor");
    if (how && !up && !down && !lm_jstr_is(how, "common"))
        lm_jfail(r, "method must be common, ceil or floor");
    double f = lm_jnumber(r, v);
    if (up || down) {
        if (v.kind != J_FLOAT && n >= 0)
            return lm_jfloat(f);
        double unit = pow(10, (double)n);
        return lm_jfloat((up ? ceil(f * unit) : floor(f * unit)) / unit);
    }
    if (v.kind != J_FLOAT && n >= 0)
        return v.kind == J_BOOL ? lm_jint(v.b) : v;
    f = round_to(f, n);
    if (v.kind != J_FLOAT && fabs(f) < 9e15)
        return lm_jint((int64_t)f);
    return lm_jfloat(f);
}

/* ---- the rest ------------------------------------------------------------ */

FILTER(f_default)
{
    struct jv *arg[2];
    lm_jtake(r, "default", a, "default_value boolean", arg);
    bool falsy = arg[1] && lm_jtruth(r, *arg[1]);
    if (v.kind == J_UNDEF || (falsy && !lm_jtruth(r, v)))
        return arg[0] ? *arg[0] : lm_jcstr(r, "");
    return v;
}

FILTER(f_length)
{
    lm_jtake(r, "length", a, "", NULL);
    return lm_jint(lm_jlen(r, v));
}

FILTER(f_attr)
{
    struct jv *arg[1];
    lm_jtake(r, "attr", a, "name", arg);
    struct jv name = lm_jto_str(r, arg[0] ? *arg[0] : lm_jnone), none = lm_jdict(r);
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    /* Attributes only: of a dictionary with the same methods and no keys. */
    if (v.kind != J_DICT)
        return lm_jattr(r, v, name);
    struct jv m = lm_jattr(r, none, name);
    if (m.kind == J_METHOD)
        m.method->self = v;
    return m;
}

FILTER(f_pprint)
{
    struct jsb b = JSB(r);
    lm_jtake(r, "pprint", a, "", NULL);
    lm_jrepr(&b, v);
    return lm_jsb_value(&b);
}

const struct jfilter_row lm_jfilters_text[] = {
    { "abs", f_abs }, { "attr", f_attr }, { "capitalize", f_capitalize }, { "center", f_center },
    { "count", f_length }, { "d", f_default }, { "default", f_default }, { "e", f_escape },
    { "escape", f_escape }, { "filesizeformat", f_filesizeformat }, { "float", f_float },
    { "forceescape", f_forceescape }, { "format", f_format }, { "indent", f_indent },
    { "int", f_int }, { "length", f_length }, { "lower", f_lower }, { "pprint", f_pprint },
    { "replace", f_replace }, { "round", f_round }, { "safe", f_safe }, { "string", f_string },
    { "striptags", f_striptags }, { "title", f_title }, { "tojson", lm_jtojson },
    { "trim", f_trim }, { "truncate", f_truncate }, { "upper", f_upper },
    { "urlencode", f_urlencode }, { "wordcount", f_wordcount }, { "wordwrap", f_wordwrap },
    { "xmlattr", f_xmlattr }, { NULL, NULL },
};
