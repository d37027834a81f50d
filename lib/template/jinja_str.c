/* SPDX-License-Identifier: MIT */
/* The methods of strings. */
#include <string.h>
#ifdef LM_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#include "template/jinja.h"

#define METHOD(name) static struct jv name(struct jrun *r, struct jv self, struct jargs *a)

static const struct jv *arg_or(const struct jv *v, const struct jv *fallback)
{
    return v && v->kind != J_NONE ? v : fallback;
}

/* ---- characters -------------------------------------------------------------------------- */

enum { IS_UPPER = 1, IS_LOWER = 2, IS_TITLE = 4, IS_ALPHA = 8, IS_DECIMAL = 16, IS_NUMBER = 32 };

static int classify(uint32_t c)
{
    if (c < 128) {
        if (c >= '0' && c <= '9')
            return IS_DECIMAL | IS_NUMBER;
        uint32_t lower = c | 32;
        return lower < 'a' || lower > 'z' ? 0 : IS_ALPHA | (c == lower ? IS_LOWER : IS_UPPER);
    }
#ifdef LM_HAVE_UTF8PROC
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_LU: return IS_ALPHA | IS_UPPER;
    case UTF8PROC_CATEGORY_LL: return IS_ALPHA | IS_LOWER;
    case UTF8PROC_CATEGORY_LT: return IS_ALPHA | IS_TITLE;
    case UTF8PROC_CATEGORY_LM: case UTF8PROC_CATEGORY_LO:
        return IS_ALPHA | (utf8proc_islower((utf8proc_int32_t)c) ? IS_LOWER : 0);
    case UTF8PROC_CATEGORY_ND: return IS_DECIMAL | IS_NUMBER;
    case UTF8PROC_CATEGORY_NL: case UTF8PROC_CATEGORY_NO: return IS_NUMBER;
    default: return 0;
    }
#else
    return IS_ALPHA;
#endif
}

/* Superscripts and circled digits are digits without being decimal. */
static bool is_digit(uint32_t c)
{
    return classify(c) & IS_DECIMAL || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
           (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
           (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) ||
           c == 0x24FF || (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) ||
           (c >= 0x278A && c <= 0x2792);
}

/* Has the character a case, or stands it in a word without being part of it? */
static bool is_cased(uint32_t c)
{
    return classify(c) & (IS_UPPER | IS_LOWER | IS_TITLE);
}

static bool is_case_ignorable(uint32_t c)
{
    if (c < 128)
        return c && strchr("'.:^`", (int)c);
#ifdef LM_HAVE_UTF8PROC
    utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == 0xB7 || c == 0x2019;
#else
    return false;
#endif
}

/* Upper and title case of characters that become several (SpecialCasing.txt, without the
 * Greek ones with iota). */
static const struct {
    uint32_t from, upper[3], title[3];
} special[] = {
    { 0x00DF, { 'S', 'S' }, { 'S', 's' } },
    { 0x0149, { 0x2BC, 'N' }, { 0x2BC, 'N' } },
    { 0x01F0, { 'J', 0x30C }, { 'J', 0x30C } },
    { 0x0390, { 0x399, 0x308, 0x301 }, { 0x399, 0x308, 0x301 } },
    { 0x03B0, { 0x3A5, 0x308, 0x301 }, { 0x3A5, 0x308, 0x301 } },
    { 0x0587, { 0x535, 0x552 }, { 0x535, 0x582 } },
    { 0x1E96, { 'H', 0x331 }, { 'H', 0x331 } },
    { 0x1E97, { 'T', 0x308 }, { 'T', 0x308 } },
    { 0x1E98, { 'W', 0x30A }, { 'W', 0x30A } },
    { 0x1E99, { 'Y', 0x30A }, { 'Y', 0x30A } },
    { 0x1E9A, { 'A', 0x2BE }, { 'A', 0x2BE } },
    { 0xFB00, { 'F', 'F' }, { 'F', 'f' } },
    { 0xFB01, { 'F', 'I' }, { 'F', 'i' } },
    { 0xFB02, { 'F', 'L' }, { 'F', 'l' } },
    { 0xFB03, { 'F', 'F', 'I' }, { 'F', 'f', 'i' } },
    { 0xFB04, { 'F', 'F', 'L' }, { 'F', 'f', 'l' } },
    { 0xFB05, { 'S', 'T' }, { 'S', 't' } },
    { 0xFB06, { 'S', 'T' }, { 'S', 't' } },
    { 0xFB13, { 0x544, 0x546 }, { 0x544, 0x576 } },
    { 0xFB14, { 0x544, 0x535 }, { 0x544, 0x565 } },
    { 0xFB15, { 0x544, 0x53B }, { 0x544, 0x56B } },
    { 0xFB16, { 0x54E, 0x546 }, { 0x54E, 0x576 } },
    { 0xFB17, { 0x544, 0x53D }, { 0x544, 0x56D } },
};

static void put_upper(struct jsb *b, uint32_t c, bool title, unsigned char mark)
{
    if (c < 128) {
        lm_jsb_rune(b, c >= 'a' && c <= 'z' ? c - 32 : c, mark);
        return;
    }
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        if (special[i].from != c)
            continue;
        const uint32_t *to = title ? special[i].title : special[i].upper;
        for (int k = 0; k < 3 && to[k]; k++)
            lm_jsb_rune(b, to[k], mark);
        return;
    }
#ifdef LM_HAVE_UTF8PROC
    c = (uint32_t)(title ? utf8proc_totitle((utf8proc_int32_t)c)
                         : utf8proc_toupper((utf8proc_int32_t)c));
#endif
    lm_jsb_rune(b, c, mark);
}

/* Is the sigma at i the last letter of a word? */
static bool final_sigma(const struct jstr *s, size_t i)
{
    struct jstr before = { s->p, NULL, i };
    bool cased = false;
    int k;
    for (size_t j = i; j > 0 && !cased;) {
        do
            j--;
        while (j > 0 && ((unsigned char)s->p[j] & 0xC0) == 0x80);
        uint32_t c = lm_jrune(&before, j, &k);
        if (!is_case_ignorable(c)) {
            if (!is_cased(c))
                return false;
            cased = true;
        }
    }
    for (size_t j = i + 2; cased && j < s->len; j += (size_t)k) {
        uint32_t c = lm_jrune(s, j, &k);
        if (!is_case_ignorable(c))
            return !is_cased(c);
    }
    return cased;
}

static void put_lower(struct jsb *b, const struct jstr *s, size_t i, uint32_t c,
                      unsigned char mark)
{
    if (c < 128) {
        c = c >= 'A' && c <= 'Z' ? c + 32 : c;
    } else if (c == 0x130) {
        lm_jsb_rune(b, 'i', mark);
        c = 0x307;
    } else if (c == 0x3A3) {
        c = final_sigma(s, i) ? 0x3C2 : 0x3C3;
#ifdef LM_HAVE_UTF8PROC
    } else {
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
#endif
    }
    lm_jsb_rune(b, c, mark);
}

static void put_fold(struct jsb *b, const struct jstr *s, size_t i, uint32_t c, unsigned char mark)
{
    if (c == 0xDF || c == 0x1E9E) {
        lm_jsb_rune(b, 's', mark);
        lm_jsb_rune(b, 's', mark);
    } else if (c == 0x3A3 || c == 0x3C2) {
        lm_jsb_rune(b, 0x3C3, mark);
    } else {
        put_lower(b, s, i, c, mark);
    }
}

struct jv lm_jstr_case(struct jrun *r, const struct jstr *s, int to)
{
    struct jsb b = JSB(r);
    bool in_word = false;
    int k;
    lm_jstep(r, s->len / 8);
    for (size_t i = 0; i < s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(s, i, &k);
        unsigned char mark = s->mark ? s->mark[i] : 0;
        bool first = to == JC_CAPITALIZE ? i == 0 : !in_word;
        in_word = is_cased(c);
        if (to == JC_FOLD)
            put_fold(&b, s, i, c, mark);
        else if (to == JC_UPPER || (to == JC_SWAP && classify(c) & IS_LOWER))
            put_upper(&b, c, false, mark);
        else if (to == JC_LOWER || (to == JC_SWAP && classify(c) & IS_UPPER) ||
                 (to != JC_SWAP && !first))
            put_lower(&b, s, i, c, mark);
        else if (to == JC_SWAP)
            lm_jsb_rune(&b, c, mark);
        else
            put_upper(&b, c, true, mark);
    }
    return lm_jsb_value(&b);
}

#define CASE(name, to) METHOD(name) { (void)a; return lm_jstr_case(r, self.s, to); }
CASE(m_lower, JC_LOWER)
CASE(m_upper, JC_UPPER)
CASE(m_title, JC_TITLE)
CASE(m_capitalize, JC_CAPITALIZE)
CASE(m_swapcase, JC_SWAP)
CASE(m_casefold, JC_FOLD)

/* ---- predicates ---------------------------------------------------------------------------- */

static bool ascii(uint32_t c)   { return c < 128; }
static bool alpha(uint32_t c)   { return classify(c) & IS_ALPHA; }
static bool decimal(uint32_t c) { return classify(c) & IS_DECIMAL; }
static bool numeric(uint32_t c) { return classify(c) & IS_NUMBER || is_digit(c); }
static bool alnum(uint32_t c)   { return alpha(c) || numeric(c); }

bool lm_jword(uint32_t rune)
{
    return rune == '_' || alnum(rune);
}

static bool all_are(const struct jstr *s, bool (*is)(uint32_t c), bool empty)
{
    int k;
    for (size_t i = 0; i < s->len; i += (size_t)k)
        if (!is(lm_jrune(s, i, &k)))
            return false;
    return s->len > 0 || empty;
}

#define IS(name, what, empty) \
    METHOD(name) { (void)r; (void)a; return lm_jbool(all_are(self.s, what, empty)); }
IS(m_isascii, ascii, true)
IS(m_isalpha, alpha, false)
IS(m_isdecimal, decimal, false)
IS(m_isdigit, is_digit, false)
IS(m_isnumeric, numeric, false)
IS(m_isalnum, alnum, false)
IS(m_isspace, lm_jspace, false)

/* Some letter has a case, and none the other one. */
static struct jv one_case(const struct jstr *s, int want)
{
    bool some = false;
    int k;
    for (size_t i = 0; i < s->len; i += (size_t)k) {
        int c = classify(lm_jrune(s, i, &k)) & (IS_UPPER | IS_LOWER | IS_TITLE);
        if (c & ~want)
            return lm_jfalse;
        some |= c != 0;
    }
    return lm_jbool(some);
}

METHOD(m_isupper) { (void)r; (void)a; return one_case(self.s, IS_UPPER); }
METHOD(m_islower) { (void)r; (void)a; return one_case(self.s, IS_LOWER); }

METHOD(m_istitle)
{
    bool in_word = false, some = false;
    int k;
    (void)r, (void)a;
    for (size_t i = 0; i < self.s->len; i += (size_t)k) {
        int c = classify(lm_jrune(self.s, i, &k));
        if ((c & (IS_UPPER | IS_TITLE) && in_word) || (c & IS_LOWER && !in_word))
            return lm_jfalse;
        in_word = c & (IS_UPPER | IS_TITLE | IS_LOWER);
        some |= in_word;
    }
    return lm_jbool(some);
}

METHOD(m_isidentifier)
{
    int k;
    (void)r, (void)a;
    for (size_t i = 0; i < self.s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(self.s, i, &k);
        if (c != '_' && !alpha(c) && (i == 0 || !decimal(c)))
            return lm_jfalse;
    }
    return lm_jbool(self.s->len > 0);
}

METHOD(m_isprintable)
{
    (void)a;
    int k;
    for (size_t i = 0; i < self.s->len; i += (size_t)k) {
        lm_jrune(self.s, i, &k);
        struct jsb b = JSB(r);
        struct jstr one = { self.s->p + i, NULL, (size_t)k };
        lm_jrepr(&b, (struct jv){ .kind = J_STR, .s = &one });
        if (b.len != (size_t)k + 2 && *one.p != '\\' && *one.p != '\'')
            return lm_jfalse;
    }
    return lm_jtrue;
}

/* ---- searching ------------------------------------------------------------------------------ */

/* Is it needle that begins at p?  A long one is charged for, once its first bytes agree. */
static bool is_there(struct jrun *r, const char *p, const struct jstr *needle)
{
    enum { FIRST = 32 };
    if (needle->len <= FIRST)
        return memcmp(p, needle->p, needle->len) == 0;
    if (memcmp(p, needle->p, FIRST) != 0 || p[needle->len - 1] != needle->p[needle->len - 1])
        return false;
    lm_jstep(r, needle->len / 64);
    return memcmp(p, needle->p, needle->len) == 0;
}

int64_t lm_jsearch(struct jrun *r, const struct jstr *hay, const struct jstr *needle, size_t from,
                   size_t to, bool last)
{
    if (to < from || to - from < needle->len)
        return -1;
    if (!needle->len)
        return (int64_t)(last ? to : from);
    size_t end = to - needle->len + 1, tries = 0;    /* places: from .. end - 1 */
    for (size_t i = end; last && i-- > from;) {
        if (hay->p[i] != needle->p[0])
            continue;
        if (is_there(r, hay->p + i, needle))
            return (int64_t)i;
        lm_jstep(r, ++tries % 8 == 0);
    }
    for (size_t i = from; !last && i < end; i++) {
        const char *p = memchr(hay->p + i, needle->p[0], end - i);
        if (!p)
            break;
        i = (size_t)(p - hay->p);
        if (is_there(r, p, needle))
            return (int64_t)i;
        lm_jstep(r, ++tries % 8 == 0);
    }
    return -1;
}

/* Bounds in characters, as Python's slices have them, to bytes. */
static void span(struct jrun *r, const struct jstr *s, const struct jv *start, const struct jv *end,
                 size_t *from, size_t *to)
{
    *from = 0;
    *to = s->len;
    int64_t n = (start || end) ? (int64_t)lm_jchars(s) : 0;
    if (start && start->kind != J_NONE) {
        int64_t i = lm_jindex(r, *start, "start");
        i = i < 0 ? (i + n < 0 ? 0 : i + n) : i;
        *from = i > n ? s->len + 1 : lm_jchar_at(s, (size_t)i);
    }
    if (end && end->kind != J_NONE) {
        int64_t i = lm_jindex(r, *end, "end");
        i = i < 0 ? (i + n < 0 ? 0 : i + n) : i;
        *to = lm_jchar_at(s, (size_t)i);
    }
}

static struct jv find(struct jrun *r, struct jv self, struct jargs *a, bool last, bool must)
{
    struct jv *arg[3];
    size_t from, to;
    lm_jtake(r, "find", a, "sub start end", arg);
    const struct jstr *sub = lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "find");
    span(r, self.s, arg[1], arg[2], &from, &to);
    int64_t i = lm_jsearch(r, self.s, sub, from, to, last);
    if (i < 0 && must)
        lm_jfail(r, "substring not found");
    struct jstr before = { self.s->p, NULL, i < 0 ? 0 : (size_t)i };
    return lm_jint(i < 0 ? -1 : (int64_t)lm_jchars(&before));
}

METHOD(m_find)   { return find(r, self, a, false, false); }
METHOD(m_rfind)  { return find(r, self, a, true, false); }
METHOD(m_index)  { return find(r, self, a, false, true); }
METHOD(m_rindex) { return find(r, self, a, true, true); }

METHOD(m_count)
{
    struct jv *arg[3];
    size_t from, to;
    int64_t n = 0, i;
    lm_jtake(r, "count", a, "sub start end", arg);
    const struct jstr *sub = lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "count");
    span(r, self.s, arg[1], arg[2], &from, &to);
    if (!sub->len) {
        struct jstr part = { self.s->p + from, NULL, to < from ? 0 : to - from };
        return lm_jint(from > self.s->len ? 0 : (int64_t)lm_jchars(&part) + 1);
    }
    while ((i = lm_jsearch(r, self.s, sub, from, to, false)) >= 0) {
        n++;
        from = (size_t)i + sub->len;
    }
    return lm_jint(n);
}

static bool has_affix(const struct jstr *s, const struct jstr *x, size_t from, size_t to, bool end)
{
    return to >= from && to - from >= x->len &&
           memcmp(s->p + (end ? to - x->len : from), x->p, x->len) == 0;
}

static struct jv affix(struct jrun *r, struct jv self, struct jargs *a, bool end)
{
    struct jv *arg[3];
    size_t from, to;
    const char *what = end ? "endswith" : "startswith";
    lm_jtake(r, what, a, "prefix start end", arg);
    span(r, self.s, arg[1], arg[2], &from, &to);
    struct jv x = arg[0] ? *arg[0] : lm_jnone;
    if (x.kind != J_TUPLE)
        return lm_jbool(has_affix(self.s, lm_jneed_str(r, x, what), from, to, end));
    for (size_t i = 0; i < x.l->n; i++) {
        const struct jstr *one = lm_jneed_str(r, x.l->v[i], what);
        lm_jstep(r, 1 + one->len / 64);
        if (has_affix(self.s, one, from, to, end))
            return lm_jtrue;
    }
    return lm_jfalse;
}

METHOD(m_startswith) { return affix(r, self, a, false); }
METHOD(m_endswith)   { return affix(r, self, a, true); }

static struct jv without_affix(struct jrun *r, struct jv self, struct jargs *a, bool end)
{
    struct jv *arg[1];
    lm_jtake(r, "removeprefix", a, "prefix", arg);
    const struct jstr *s = self.s;
    const struct jstr *x = lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "removeprefix");
    if (!has_affix(s, x, 0, s->len, end))
        return self;
    return end ? lm_jslice(r, s, 0, s->len - x->len) : lm_jslice(r, s, x->len, s->len);
}

METHOD(m_removeprefix) { return without_affix(r, self, a, false); }
METHOD(m_removesuffix) { return without_affix(r, self, a, true); }

/* ---- cutting ------------------------------------------------------------- */

static bool strippable(struct jrun *r, const struct jstr *chars, uint32_t c)
{
    int k;
    if (!chars)
        return lm_jspace(c);
    lm_jstep(r, chars->len / 16);
    for (size_t i = 0; i < chars->len; i += (size_t)k)
        if (lm_jrune(chars, i, &k) == c)
            return true;
    return false;
}

/* sides: 1 left, 2 right; chars NULL: whitespace. */
struct jv lm_jstr_strip(struct jrun *r, const struct jstr *s, const struct jstr *chars, int sides)
{
    size_t from = 0, to = s->len;
    int k;
    while (sides & 1 && from < to && strippable(r, chars, lm_jrune(s, from, &k)))
        from += (size_t)k;
    while (sides & 2 && to > from) {
        size_t i = to - 1;
        while (i > from && ((unsigned char)s->p[i] & 0xC0) == 0x80)
            i--;
        if (!strippable(r, chars, lm_jrune(s, i, &k)))
            break;
        to = i;
    }
    lm_jstep(r, (from + s->len - to) / 16);
    return lm_jslice(r, s, from, to);
}

static struct jv strip(struct jrun *r, struct jv self, struct jargs *a, int sides)
{
    struct jv *arg[1];
    lm_jtake(r, "strip", a, "chars", arg);
    bool given = arg[0] && arg[0]->kind != J_NONE;
    return lm_jstr_strip(r, self.s, given ? lm_jneed_str(r, *arg[0], "strip") : NULL, sides);
}

METHOD(m_strip)  { return strip(r, self, a, 3); }
METHOD(m_lstrip) { return strip(r, self, a, 1); }
METHOD(m_rstrip) { return strip(r, self, a, 2); }

static void split_spaces(struct jrun *r, struct jlist *l, const struct jstr *s, int64_t max)
{
    size_t i = 0;
    int k;
    for (;;) {
        while (i < s->len && lm_jspace(lm_jrune(s, i, &k)))
            i += (size_t)k;
        if (i == s->len)
            return;
        size_t from = i;
        if (max == 0) {                          /* the rest, with the blanks at its end */
            lm_jpush(r, l, lm_jslice(r, s, from, s->len));
            return;
        }
        while (i < s->len && !lm_jspace(lm_jrune(s, i, &k)))
            i += (size_t)k;
        lm_jpush(r, l, lm_jslice(r, s, from, i));
        max--;
    }
}

static void split_at(struct jrun *r, struct jlist *l, const struct jstr *s, const struct jstr *sep,
                     int64_t max)
{
    size_t from = 0;
    int64_t i;
    while (max != 0 && (i = lm_jsearch(r, s, sep, from, s->len, false)) >= 0) {
        lm_jpush(r, l, lm_jslice(r, s, from, (size_t)i));
        from = (size_t)i + sep->len;
        max--;
    }
    lm_jpush(r, l, lm_jslice(r, s, from, s->len));
}

/* From the right: the pieces come out last first. */
static void rsplit(struct jrun *r, struct jlist *l, const struct jstr *s, const struct jstr *sep,
                   int64_t max)
{
    size_t to = s->len;
    int k;
    while (sep && max-- != 0) {
        int64_t i = lm_jsearch(r, s, sep, 0, to, true);
        if (i < 0)
            break;
        lm_jpush(r, l, lm_jslice(r, s, (size_t)i + sep->len, to));
        to = (size_t)i;
    }
    while (!sep) {
        struct jstr rest = { s->p, NULL, to };
        to = lm_jstr_strip(r, &rest, NULL, 2).s->len;
        size_t from = to;
        while (max != 0 && from > 0) {
            size_t i = from - 1;
            while (i > 0 && ((unsigned char)s->p[i] & 0xC0) == 0x80)
                i--;
            if (lm_jspace(lm_jrune(s, i, &k)))
                break;
            from = i;
        }
        if (max == 0)
            from = 0;                            /* with the blanks at its begin */
        if (to == 0 || from == to)
            return;
        lm_jpush(r, l, lm_jslice(r, s, from, to));
        if (max-- == 0)
            return;
        to = from;
    }
    lm_jpush(r, l, lm_jslice(r, s, 0, to));
}

static struct jv split(struct jrun *r, struct jv self, struct jargs *a, bool right)
{
    struct jv *arg[2], l = lm_jlist(r, J_LIST);
    lm_jtake(r, "split", a, "sep maxsplit", arg);
    const struct jv *sep = arg_or(arg[0], NULL);
    const struct jstr *s = sep ? lm_jneed_str(r, *sep, "split") : NULL;
    int64_t max = arg[1] ? lm_jindex(r, *arg[1], "maxsplit") : -1;
    if (s && !s->len)
        lm_jfail(r, "empty separator");
    if (right) {
        rsplit(r, l.l, self.s, s, max);
        for (size_t i = 0, n = l.l->n; i < n / 2; i++) {
            struct jv t = l.l->v[i];
            l.l->v[i] = l.l->v[n - 1 - i];
            l.l->v[n - 1 - i] = t;
        }
    } else if (s) {
        split_at(r, l.l, self.s, s, max);
    } else {
        split_spaces(r, l.l, self.s, max);
    }
    return l;
}

METHOD(m_split)  { return split(r, self, a, false); }
METHOD(m_rsplit) { return split(r, self, a, true); }

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

METHOD(m_splitlines)
{
    struct jv *arg[1], l = lm_jlist(r, J_LIST);
    const struct jstr *s = self.s;
    size_t from = 0;
    int k;
    lm_jtake(r, "splitlines", a, "keepends", arg);
    bool keep = arg[0] && lm_jtruth(r, *arg[0]);
    for (size_t i = 0; i < s->len;) {
        uint32_t c = lm_jrune(s, i, &k);
        size_t next = i + (size_t)k;
        if (!ends_line(c)) {
            i = next;
            continue;
        }
        if (c == '\r' && next < s->len && s->p[next] == '\n')
            next++;
        lm_jpush(r, l.l, lm_jslice(r, s, from, keep ? next : i));
        from = i = next;
    }
    if (from < s->len)
        lm_jpush(r, l.l, lm_jslice(r, s, from, s->len));
    return l;
}

static struct jv partition(struct jrun *r, struct jv self, struct jargs *a, bool last)
{
    struct jv *arg[1], t = lm_jlist(r, J_TUPLE), empty = lm_jslice(r, self.s, 0, 0);
    lm_jtake(r, "partition", a, "sep", arg);
    const struct jstr *s = self.s, *sep = lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "partition");
    if (!sep->len)
        lm_jfail(r, "empty separator");
    int64_t i = lm_jsearch(r, s, sep, 0, s->len, last);
    if (i < 0) {
        lm_jpush(r, t.l, last ? empty : self);
        lm_jpush(r, t.l, empty);
        lm_jpush(r, t.l, last ? self : empty);
        return t;
    }
    lm_jpush(r, t.l, lm_jslice(r, s, 0, (size_t)i));
    lm_jpush(r, t.l, lm_jslice(r, s, (size_t)i, (size_t)i + sep->len));
    lm_jpush(r, t.l, lm_jslice(r, s, (size_t)i + sep->len, s->len));
    return t;
}

METHOD(m_partition)  { return partition(r, self, a, false); }
METHOD(m_rpartition) { return partition(r, self, a, true); }

/* ---- building -------------------------------------------------------------------------------- */

/* count -1: all. */
struct jv lm_jstr_replace(struct jrun *r, const struct jstr *s, const struct jstr *from,
                          const struct jstr *to, int64_t count)
{
    struct jsb b = JSB(r);
    size_t at = 0;
    int k;
    if (!from->len) {
        for (; count != 0 && at <= s->len; count--) {
            lm_jsb_str(&b, to);
            if (at == s->len)
                return lm_jsb_value(&b);
            lm_jrune(s, at, &k);
            lm_jsb_add(&b, s->p + at, s->mark ? s->mark + at : NULL, (size_t)k);
            at += (size_t)k;
        }
    }
    for (; from->len && count != 0; count--) {
        int64_t i = lm_jsearch(r, s, from, at, s->len, false);
        if (i < 0)
            break;
        lm_jsb_add(&b, s->p + at, s->mark ? s->mark + at : NULL, (size_t)i - at);
        lm_jsb_str(&b, to);
        at = (size_t)i + from->len;
    }
    lm_jsb_add(&b, s->p + at, s->mark ? s->mark + at : NULL, s->len - at);
    return lm_jsb_value(&b);
}

METHOD(m_replace)
{
    struct jv *arg[3];
    lm_jtake(r, "replace", a, "old new count", arg);
    return lm_jstr_replace(r, self.s, lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "replace"),
                           lm_jneed_str(r, arg[1] ? *arg[1] : lm_jnone, "replace"),
                           arg[2] ? lm_jindex(r, *arg[2], "count") : -1);
}

METHOD(m_join)
{
    struct jv *arg[1];
    struct jsb b = JSB(r);
    lm_jtake(r, "join", a, "iterable", arg);
    struct jlist *l = lm_jiter(r, arg[0] ? *arg[0] : lm_jnone);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            lm_jsb_str(&b, self.s);
        if (l->v[i].kind != J_STR)
            lm_jfail(r, "sequence item %zu: expected str instance, %s found", i, lm_jtype(l->v[i]));
        lm_jsb_str(&b, l->v[i].s);
    }
    return lm_jsb_value(&b);
}

METHOD(m_format)
{
    return lm_jformat(r, self.s, a);
}

METHOD(m_format_map)
{
    struct jv *arg[1];
    lm_jtake(r, "format_map", a, "mapping", arg);
    if (!arg[0] || arg[0]->kind != J_DICT)
        lm_jfail(r, "format_map() takes a mapping");
    struct jargs named = { .kw = *arg[0]->d };
    return lm_jformat(r, self.s, &named);
}

/* where: 0 text to the left, 1 to the right, 2 in the middle. */
static struct jv justify(struct jrun *r, struct jv self, struct jargs *a, int where)
{
    static const struct jstr space = { " ", NULL, 1 };
    struct jv *arg[2];
    struct jsb b = JSB(r);
    lm_jtake(r, "center", a, "width fillchar", arg);
    int64_t width = lm_jindex(r, arg[0] ? *arg[0] : lm_jnone, "width");
    const struct jstr *fill = arg[1] ? lm_jneed_str(r, *arg[1], "center") : &space;
    int64_t n = width - (int64_t)lm_jchars(self.s);
    if (lm_jchars(fill) != 1)
        lm_jfail(r, "The fill character must be exactly one character long");
    if (n <= 0)
        return self;
    int64_t left = where == 0 ? 0 : where == 1 ? n : n / 2 + (n & width & 1);
    lm_jsb_fill(&b, fill, 0, fill->len, left);
    lm_jsb_str(&b, self.s);
    lm_jsb_fill(&b, fill, 0, fill->len, n - left);
    return lm_jsb_value(&b);
}

METHOD(m_ljust)  { return justify(r, self, a, 0); }
METHOD(m_rjust)  { return justify(r, self, a, 1); }
METHOD(m_center) { return justify(r, self, a, 2); }

METHOD(m_zfill)
{
    static const struct jstr zero = { "0", NULL, 1 };
    struct jv *arg[1];
    struct jsb b = JSB(r);
    lm_jtake(r, "zfill", a, "width", arg);
    int64_t width = lm_jindex(r, arg[0] ? *arg[0] : lm_jnone, "width");
    const struct jstr *s = self.s;
    size_t sign = s->len && (s->p[0] == '-' || s->p[0] == '+');
    lm_jsb_add(&b, s->p, s->mark, sign);
    lm_jsb_fill(&b, &zero, 0, 1, width - (int64_t)lm_jchars(s));
    lm_jsb_add(&b, s->p + sign, s->mark ? s->mark + sign : NULL, s->len - sign);
    return lm_jsb_value(&b);
}

METHOD(m_expandtabs)
{
    static const struct jstr space = { " ", NULL, 1 };
    struct jv *arg[1];
    struct jsb b = JSB(r);
    int64_t column = 0;
    int k;
    lm_jtake(r, "expandtabs", a, "tabsize", arg);
    int64_t size = arg[0] ? lm_jindex(r, *arg[0], "tabsize") : 8;
    for (size_t i = 0; i < self.s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(self.s, i, &k);
        if (c == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;
            lm_jsb_fill(&b, &space, 0, 1, n);
            column += n;
            continue;
        }
        lm_jsb_add(&b, self.s->p + i, self.s->mark ? self.s->mark + i : NULL, (size_t)k);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return lm_jsb_value(&b);
}

METHOD(m_encode)
{
    struct jv *arg[2];
    lm_jtake(r, "encode", a, "encoding errors", arg);
    if (arg[0]) {
        const struct jstr *e = lm_jneed_str(r, *arg[0], "encode");
        if (!lm_jstr_is(e, "utf-8") && !lm_jstr_is(e, "utf8") && !lm_jstr_is(e, "UTF-8"))
            lm_junsupported(r, "encode() to another encoding than utf-8");
    }
    return (struct jv){ .kind = J_BYTES, .s = self.s };
}

METHOD(m_translate)
{
    struct jv *arg[1];
    struct jsb b = JSB(r);
    int k;
    lm_jtake(r, "translate", a, "table", arg);
    if (!arg[0] || arg[0]->kind != J_DICT)
        lm_jfail(r, "translate: the table is not a dict");
    for (size_t i = 0; i < self.s->len; i += (size_t)k) {
        uint32_t c = lm_jrune(self.s, i, &k);
        const struct jv *to = lm_jdict_get(r, arg[0]->d, lm_jint(c));
        if (!to)
            lm_jsb_add(&b, self.s->p + i, self.s->mark ? self.s->mark + i : NULL, (size_t)k);
        else if (to->kind == J_STR)
            lm_jsb_str(&b, to->s);
        else if (to->kind == J_INT && to->i >= 0 && to->i < 0x110000 &&
                 (to->i < 0xD800 || to->i > 0xDFFF))
            lm_jsb_rune(&b, (uint32_t)to->i, self.s->mark ? self.s->mark[i] : 0);
        else if (to->kind != J_NONE)
            lm_jfail(r, "character mapping must return integer, None or str");
    }
    return lm_jsb_value(&b);
}

static const struct jmethod_row rows[] = {
    { "capitalize", m_capitalize, false }, { "casefold", m_casefold, false },
    { "center", m_center, false }, { "count", m_count, false }, { "encode", m_encode, false },
    { "endswith", m_endswith, false }, { "expandtabs", m_expandtabs, false },
    { "find", m_find, false }, { "format", m_format, false },
    { "format_map", m_format_map, false }, { "index", m_index, false },
    { "isalnum", m_isalnum, false }, { "isalpha", m_isalpha, false },
    { "isascii", m_isascii, false }, { "isdecimal", m_isdecimal, false },
    { "isdigit", m_isdigit, false }, { "isidentifier", m_isidentifier, false },
    { "islower", m_islower, false }, { "isnumeric", m_isnumeric, false },
    { "isprintable", m_isprintable, false }, { "isspace", m_isspace, false },
    { "istitle", m_istitle, false }, { "isupper", m_isupper, false }, { "join", m_join, false },
    { "ljust", m_ljust, false }, { "lower", m_lower, false }, { "lstrip", m_lstrip, false },
    { "partition", m_partition, false }, { "removeprefix", m_removeprefix, false },
    { "removesuffix", m_removesuffix, false }, { "replace", m_replace, false },
    { "rfind", m_rfind, false }, { "rindex", m_rindex, false }, { "rjust", m_rjust, false },
    { "rpartition", m_rpartition, false }, { "rsplit", m_rsplit, false },
    { "rstrip", m_rstrip, false }, { "split", m_split, false },
    { "splitlines", m_splitlines, false }, { "startswith", m_startswith, false },
    { "strip", m_strip, false }, { "swapcase", m_swapcase, false }, { "title", m_title, false },
    { "translate", m_translate, false }, { "upper", m_upper, false }, { "zfill", m_zfill, false },
};

const struct jmethod_row *lm_jstr_method(const struct jstr *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (lm_jstr_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}
