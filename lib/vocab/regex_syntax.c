/* SPDX-License-Identifier: MIT */
/*
 * From Oniguruma's syntax to items: sets of characters, and the operators between them.  What
 * is written the same way in both goes through; what means something else is spelled out:
 * `^` and `$` at lines, `\b` by \w, (?i) as sets of both cases, {n}? and {n}+ as quantifiers of
 * a group.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/regex_parts.h"
#include "vocab/unicode.h"

enum { MAX_GROUPS = 64, MAX_CLASSES = 32, MAX_REPEAT = 1000 };

struct group {
    size_t at;                           /* its first item                              */
    bool   fold, dotall;                 /* options outside, which come back behind it  */
    int    more;                         /* groups inside that end with it: a(?i)b      */
};

struct parser {
    const char             *begin, *p, *end;
    struct lm_regex_parsed *out;
    struct lm_err          *err;
    bool                    fold, dotall;
    struct group            group[MAX_GROUPS];
    int                     depth;
    size_t                  atom;        /* first item of what a quantifier is for      */
    bool                    has_atom, quantified, in_class;
    uint32_t                before;      /* with fold: the letter before, 0: none       */
    int                     searches;    /* through all characters, so far              */
};

void lm_regex_parsed_release(struct lm_regex_parsed *x)
{
    for (size_t i = 0; i < x->n_sets; i++)
        lm_runeset_release(&x->set[i]);
    free(x->set);
    free(x->item);
    *x = (struct lm_regex_parsed){ 0 };
}

static int fail(struct parser *s, enum lm_code code, const char *what)
{
    return lm_fail(s->err, code, "pattern, byte %zu: %s", (size_t)(s->p - s->begin), what);
}

static int refuse(struct parser *s, const char *what)
{
    return lm_fail(s->err, LM_ENOSUP, "pattern, byte %zu: %s is not supported",
                   (size_t)(s->p - s->begin), what);
}

/* Before all of Unicode is looked at for a set, of which a pattern from anywhere must not want
 * thousands. */
static int search(struct parser *s)
{
    enum { MOST = 256 };
    return ++s->searches > MOST ? refuse(s, "a pattern of so many classes") : LM_OK;
}

static int insert(struct parser *s, size_t at, const char *text, int32_t set)
{
    struct lm_regex_parsed *x = s->out;
    if (!lm_grow(&x->item, &x->cap, x->n + 1, sizeof *x->item))
        return lm_fail_nomem(s->err);
    memmove(x->item + at + 1, x->item + at, (x->n++ - at) * sizeof *x->item);
    x->item[at].set = set;
    snprintf(x->item[at].text, sizeof x->item[at].text, "%s", text);
    return LM_OK;
}

static int put(struct parser *s, const char *text)
{
    return insert(s, s->out->n, text, -1);
}

/* An item for a set, which is taken over. */
static int put_set(struct parser *s, struct lm_runeset *set)
{
    struct lm_regex_parsed *x = s->out;
    if (s->fold) {
        int r = search(s);
        if (r != LM_OK) {
            lm_runeset_release(set);
            return r;
        }
        lm_runeset_fold(set);
    }
    size_t i = 0;
    while (i < x->n_sets && (x->set[i].n != set->n ||     /* of empty ones r is NULL */
                             (set->n && memcmp(x->set[i].r, set->r,
                                               set->n * sizeof *set->r) != 0)))
        i++;
    bool ok = !set->failed;
    if (ok && i == x->n_sets) {
        ok = lm_grow(&x->set, &x->sets_cap, x->n_sets + 1, sizeof *x->set);
        if (ok) {
            x->set[x->n_sets++] = *set;
            *set = (struct lm_runeset){ 0 };
        }
    }
    lm_runeset_release(set);
    if (!ok)
        return lm_fail_nomem(s->err);
    if (i >= 1024)
        return refuse(s, "a pattern of so many sets");
    return insert(s, x->n, "", (int32_t)i);
}

static int put_range(struct parser *s, uint32_t first, uint32_t last)
{
    struct lm_runeset set = { 0 };
    lm_runeset_add(&set, first, last);
    return put_set(s, &set);
}

/* What begins here is something a quantifier may be for. */
static void begin_atom(struct parser *s)
{
    s->atom = s->out->n;
    s->has_atom = true;
    s->quantified = false;
    s->before = 0;
}

static uint32_t next_rune(struct parser *s)
{
    int k;
    uint32_t r = lm_uni_next(s->p, s->end, &k);
    s->p += k;
    return r;
}

/* Two letters that fold to the same as one character does: U+00DF and ss, U+FB01 and fi. */
static bool folds_together(uint32_t a, uint32_t b)
{
    static const char pairs[][3] = { "ss", "ff", "fi", "fl", "st" };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (a == (uint32_t)pairs[i][0] && b == (uint32_t)pairs[i][1])
            return true;
    return false;
}

static int literal(struct parser *s, uint32_t rune)
{
    uint32_t before = s->before;
    begin_atom(s);
    if (s->fold) {
        s->before = lm_uni_fold(rune);
        if (folds_together(before, s->before) || s->before == 0xDF ||
            (s->before >= 0xFB00 && s->before <= 0xFB06))
            return refuse(s, "a letter that is two in the other case");
    }
    return put_range(s, rune, rune);
}

static int hex(struct parser *s, int max, uint32_t *out)
{
    int n = 0;
    uint32_t r = 0;
    for (; n < max && s->p < s->end; n++, s->p++) {
        char c = *s->p;
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            break;
        r = r * 16 + (uint32_t)d;
    }
    *out = r;
    return n;
}

/* Behind \x, \u: the character. */
static int code_point(struct parser *s, char kind, uint32_t *out)
{
    int n;
    if (kind == 'x' && s->p < s->end && *s->p == '{') {
        s->p++;
        n = hex(s, 8, out);
        if (!n || s->p == s->end || *s->p != '}')
            return fail(s, LM_EDATA, "a character's number without its }");
        s->p++;
    } else {
        n = hex(s, kind == 'x' ? 2 : 4, out);
        if (n != (kind == 'x' ? 2 : 4))
            return fail(s, LM_EDATA, "a character's number is too short");
        if (kind == 'x' && *out > 127)
            return refuse(s, "a byte in place of a character");
    }
    return *out <= LM_RUNE_MAX ? LM_OK : fail(s, LM_EDATA, "a number beyond U+10FFFF");
}

/* The character of an escape that stands for one, whose letter was read. */
static int escaped(struct parser *s, char c, uint32_t *out)
{
    static const char from[] = "tnrfvae", to[] = "\t\n\r\f\v\a\x1B";
    const char *q = memchr(from, c, sizeof from - 1);
    if (q) {
        *out = (uint32_t)to[q - from];
        return LM_OK;
    }
    if (c == 'x' || c == 'u')
        return code_point(s, c, out);
    if (c == '0') {
        *out = 0;
        for (int n = 0; n < 2 && s->p < s->end && *s->p >= '0' && *s->p <= '7'; n++)
            *out = *out * 8 + (uint32_t)(*s->p++ - '0');
        return LM_OK;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) {
        char what[8];
        snprintf(what, sizeof what, "'\\%c'", c);
        return refuse(s, what);
    }
    s->p--;                                      /* anything else is itself */
    *out = next_rune(s);
    return LM_OK;
}

/* {NAME}, {^NAME} behind \p or \P. */
static int property(struct parser *s, bool negate, struct lm_runeset *set)
{
    if (s->p == s->end || *s->p != '{')
        return fail(s, LM_EDATA, "\\p without a name in braces");
    const char *name = ++s->p, *close = memchr(name, '}', (size_t)(s->end - name));
    if (!close)
        return fail(s, LM_EDATA, "\\p without its }");
    s->p = close + 1;
    if (*name == '^') {
        name++;
        negate = !negate;
    }
    int r = search(s);
    if (r != LM_OK)
        return r;
    struct lm_runeset t = { 0 };
    if (*name == ':' || !lm_runeset_property(&t, name, (size_t)(close - name)))
        return lm_fail(s->err, LM_ENOSUP, "pattern: property '%.*s' is not supported",
                       (int)(close - name < 40 ? close - name : 40), name);
    if (negate)
        lm_runeset_negate(&t);
    lm_runeset_union(set, &t);
    lm_runeset_release(&t);
    return LM_OK;
}

/* \w, and what else Oniguruma counts to it where it does not stand in a class. */
static void word_set(struct parser *s, struct lm_runeset *set)
{
    lm_runeset_property(set, "word", 4);
    if (s->in_class)
        return;
    lm_runeset_add(set, 0xB2, 0xB3);
    lm_runeset_add(set, 0xB9, 0xB9);
    lm_runeset_add(set, 0xBC, 0xBE);
}

/* The set of an escape, whose letter was read: 1, or 0 if it is none. */
static int escaped_set(struct parser *s, char c, struct lm_runeset *set)
{
    struct lm_runeset t = { 0 };
    int r = c && strchr("dDsSwWhH", c) ? search(s) : LM_OK;
    if (r != LM_OK)
        return r;
    switch (c) {
    case 'p': case 'P':
        r = property(s, c == 'P', set);
        return r == LM_OK ? 1 : r;
    case 'd': case 'D':
        lm_runeset_property(&t, "nd", 2);
        break;
    case 's': case 'S':
        lm_runeset_property(&t, "space", 5);
        break;
    case 'w': case 'W':
        word_set(s, &t);
        break;
    case 'h': case 'H':
        lm_runeset_property(&t, "xdigit", 6);
        break;
    default:
        return 0;
    }
    if (c < 'a')
        lm_runeset_negate(&t);
    lm_runeset_union(set, &t);
    lm_runeset_release(&t);
    return 1;
}

/* [:NAME:] or [:^NAME:] at p: 1, or 0 when it is no such thing. */
static int posix_bracket(struct parser *s, struct lm_runeset *set)
{
    const char *q = s->p + 2;
    bool negate = q < s->end && *q == '^';
    q += negate;
    const char *name = q;
    while (q < s->end && *q >= 'a' && *q <= 'z')
        q++;
    if (s->end - q < 2 || q[0] != ':' || q[1] != ']')
        return 0;
    int r = search(s);
    if (r != LM_OK)
        return r;
    struct lm_runeset t = { 0 };
    size_t n = (size_t)(q - name);
    bool punct = n == 5 && memcmp(name, "punct", 5) == 0;
    if (!lm_runeset_property(&t, punct ? ":punct" : name, punct ? 6 : n))
        return lm_fail(s->err, LM_ENOSUP, "pattern: [:%.*s:] is not supported",
                       (int)(n < 40 ? n : 40), name);
    if (negate)
        lm_runeset_negate(&t);
    lm_runeset_union(set, &t);
    lm_runeset_release(&t);
    s->p = q + 2;
    return 1;
}

/* One character of a class, or a set: *single says which. */
static int class_member(struct parser *s, struct lm_runeset *set, uint32_t *rune, bool *single)
{
    int r;
    *single = false;
    if (*s->p == '[' && s->end - s->p > 2 && s->p[1] == ':' && (r = posix_bracket(s, set)))
        return r < 0 ? r : LM_OK;
    if (*s->p == '\\') {
        s->p++;
        if (s->p == s->end)
            return fail(s, LM_EDATA, "a backslash at the end");
        char c = *s->p++;
        if ((r = escaped_set(s, c, set)))
            return r < 0 ? r : LM_OK;
        *single = true;
        if (c == 'b') {
            *rune = '\b';
            return LM_OK;
        }
        return escaped(s, c, rune);
    }
    *single = true;
    *rune = next_rune(s);
    return LM_OK;
}

/* What has been read of a class: those around it wait in an array, not on the stack. */
struct klass {
    struct lm_runeset set, left;         /* since the last &&; what stood before it */
    bool              negate, has_left, any;
};

static void close_part(struct klass *k)
{
    if (k->has_left)
        lm_runeset_intersect(&k->set, &k->left);
    lm_runeset_release(&k->left);
    k->has_left = false;
}

static void open_class(struct parser *s, struct klass *k)
{
    *k = (struct klass){ 0 };
    s->p++;
    if (s->p < s->end && *s->p == '^') {
        k->negate = true;
        s->p++;
    }
}

/* A member, or first-last. */
static int class_range(struct parser *s, struct klass *k)
{
    uint32_t first, last;
    bool single;
    k->any = true;
    int r = class_member(s, &k->set, &first, &single);
    if (r != LM_OK || !single)
        return r;
    last = first;
    if (s->end - s->p >= 2 && s->p[0] == '-' && s->p[1] != ']' && s->p[1] != '[') {
        s->p++;
        if ((r = class_member(s, &k->set, &last, &single)))
            return r;
        if (!single)
            return refuse(s, "a range that ends with a set");
        if (last < first)
            return fail(s, LM_EDATA, "a range that ends before it begins");
    }
    lm_runeset_add(&k->set, first, last);
    return LM_OK;
}

/* The class that begins at p, up to behind its bracket.  Leaves its set in k[0].set. */
static int read_class(struct parser *s, struct klass *k)
{
    int depth = 0, r = LM_OK;
    open_class(s, &k[0]);
    while (r == LM_OK) {
        struct klass *t = &k[depth];
        if (s->p == s->end)
            return fail(s, LM_EDATA, "a class without its ]");
        if (*s->p == ']' && t->any) {
            s->p++;
            close_part(t);
            if (t->negate)
                lm_runeset_negate(&t->set);
            if (!depth)
                return LM_OK;
            lm_runeset_union(&k[depth - 1].set, &t->set);
            k[--depth].any = true;
            lm_runeset_release(&t->set);
        } else if (s->end - s->p >= 2 && s->p[0] == '&' && s->p[1] == '&') {
            close_part(t);
            t->left = t->set;
            t->set = (struct lm_runeset){ 0 };
            t->has_left = t->any = true;
            s->p += 2;
        } else if (*s->p == '[' && !(s->end - s->p > 2 && s->p[1] == ':')) {
            if (depth + 1 == MAX_CLASSES)
                return refuse(s, "so many classes in each other");
            open_class(s, &k[++depth]);
        } else {
            r = class_range(s, t);
        }
    }
    return r;
}

static int class(struct parser *s)
{
    struct klass *k = calloc(MAX_CLASSES, sizeof *k);
    if (!k)
        return lm_fail_nomem(s->err);
    begin_atom(s);
    s->in_class = true;
    int r = read_class(s, k);
    s->in_class = false;
    if (r == LM_OK)
        r = put_set(s, &k[0].set);
    for (int i = 0; i < MAX_CLASSES; i++) {
        lm_runeset_release(&k[i].set);
        lm_runeset_release(&k[i].left);
    }
    free(k);
    return r;
}

/* Text and sets one after the other: 'n' is \n, 'w' \w, anything else is text. */
static int spell(struct parser *s, const char *pattern)
{
    char text[28];
    size_t n = 0;
    int r = LM_OK;
    bool fold = s->fold;
    s->fold = false;
    for (; r == LM_OK; pattern++) {
        struct lm_runeset set = { 0 };
        bool is_set = *pattern == 'n' || *pattern == 'w';
        if (n && (is_set || !*pattern)) {
            text[n] = 0;
            n = 0;
            r = put(s, text);
        }
        if (!*pattern || r != LM_OK)
            break;
        if (*pattern == 'n')
            lm_runeset_add(&set, '\n', '\n');
        else if (is_set)
            word_set(s, &set);
        if (is_set)
            r = put_set(s, &set);
        else
            text[n++] = *pattern;
    }
    s->fold = fold;
    return r;
}

/* Behind a backslash, outside of classes. */
static int escape(struct parser *s)
{
    struct lm_runeset set = { 0 };
    uint32_t rune;
    if (s->p == s->end)
        return fail(s, LM_EDATA, "a backslash at the end");
    char c = *s->p++;
    static const struct {
        char        c;
        const char *as;
    } places[] = {
        { 'A', "\\A" }, { 'z', "\\z" }, { 'Z', "(?=n?\\z)" },
        { 'b', "(?:(?<=w)(?!w)|(?<!w)(?=w))" }, { 'B', "(?:(?<=w)(?=w)|(?<!w)(?!w))" },
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].c == c) {
            begin_atom(s);
            return spell(s, places[i].as);
        }
    begin_atom(s);
    int r = escaped_set(s, c, &set);
    if (r > 0)
        return put_set(s, &set);
    lm_runeset_release(&set);
    if (r < 0)
        return r;
    if (c == 'R') {
        lm_runeset_add(&set, '\n', '\r');
        lm_runeset_add(&set, 0x85, 0x85);
        lm_runeset_add(&set, 0x2028, 0x2029);
        struct lm_runeset cr = { 0 };
        lm_runeset_add(&cr, '\r', '\r');
        if ((r = put(s, "(?>")) || (r = put_set(s, &cr)) || (r = spell(s, "n|")) ||
            (r = put_set(s, &set)))
            return r;
        return put(s, ")");
    }
    r = escaped(s, c, &rune);
    return r == LM_OK ? literal(s, rune) : r;
}

static int open_group(struct parser *s, const char *text)
{
    if (s->depth == MAX_GROUPS)
        return refuse(s, "so many groups in each other");
    s->group[s->depth++] = (struct group){ s->out->n, s->fold, s->dotall, 0 };
    s->has_atom = false;
    s->before = 0;
    return put(s, text);
}

/* (?imx-imx) or (?imx-imx: with p behind the question mark. */
static int options(struct parser *s)
{
    bool on = true;
    bool fold = s->fold, dotall = s->dotall;
    for (; s->p < s->end && *s->p != ')' && *s->p != ':'; s->p++)
        switch (*s->p) {
        case '-': on = false; break;
        case 'i': fold = on; break;
        case 'm': dotall = on; break;
        case 'x':
            if (on)
                return refuse(s, "(?x)");
            break;
        default: return refuse(s, "this kind of group");
        }
    if (s->p == s->end)
        return fail(s, LM_EDATA, "a group without its )");
    bool rest = *s->p++ == ')';                  /* for what follows: a group of its own */
    if (rest)                                    /* the whole pattern is a group, too */
        s->group[s->depth - 1].more++;
    int r = rest ? put(s, "(?:") : open_group(s, "(?:");
    s->fold = fold;
    s->dotall = dotall;
    s->has_atom = false;
    return r;
}

static int group(struct parser *s)
{
    static const char *const kinds[] = { "?:", "?=", "?!", "?>", "?<=", "?<!" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t n = strlen(kinds[i]);
        if ((size_t)(s->end - s->p) > n && memcmp(s->p, kinds[i], n) == 0) {
            char text[8];
            snprintf(text, sizeof text, "(%s", kinds[i]);
            s->p += n;
            return open_group(s, text);
        }
    }
    if (s->p == s->end || *s->p != '?')
        return open_group(s, "(?:");             /* nothing refers to what it takes */
    s->p++;
    if (s->p < s->end && *s->p == '#') {
        const char *q = memchr(s->p, ')', (size_t)(s->end - s->p));
        if (!q)
            return fail(s, LM_EDATA, "a comment without its )");
        s->p = q + 1;
        return LM_OK;
    }
    if (s->p < s->end && *s->p == '<') {
        const char *q = memchr(s->p, '>', (size_t)(s->end - s->p));
        if (!q)
            return fail(s, LM_EDATA, "a group's name without its >");
        s->p = q + 1;
        return open_group(s, "(?:");
    }
    return options(s);
}

static int close_group(struct parser *s)
{
    if (!s->depth)
        return fail(s, LM_EDATA, "a ) without its (");
    struct group *g = &s->group[--s->depth];
    int r = LM_OK;
    for (; g->more && r == LM_OK; g->more--)
        r = put(s, ")");
    s->fold = g->fold;
    s->dotall = g->dotall;
    s->atom = g->at;
    s->has_atom = true;
    s->quantified = false;
    s->before = 0;
    return r == LM_OK ? put(s, ")") : r;
}

static bool number(const char **p, const char *end, unsigned *out)
{
    const char *q = *p;
    *out = 0;
    while (q < end && *q >= '0' && *q <= '9' && *out <= MAX_REPEAT)
        *out = *out * 10 + (unsigned)(*q++ - '0');
    bool any = q > *p;
    *p = q;
    return any;
}

/* {n}, {n,}, {,m} or {n,m} at p: its text, how long it was, 0 if it is none of them. */
static int interval(struct parser *s, char *text, size_t size, bool *exact)
{
    const char *q = s->p + 1;
    unsigned n = 0, m = 0;
    bool low = number(&q, s->end, &n), high = false;
    bool comma = q < s->end && *q == ',';
    if (comma) {
        q++;
        high = number(&q, s->end, &m);
    }
    if (q == s->end || *q != '}' || (!low && !high))
        return 0;
    if ((low && n > MAX_REPEAT) || (high && m > MAX_REPEAT))
        return refuse(s, "so many repetitions");
    if (low && high && m < n)
        return refuse(s, "a range of repetitions that ends before it begins");
    *exact = !comma;
    n = low ? n : 0;
    if (!comma)
        snprintf(text, size, "{%u}", n);
    else if (high)
        snprintf(text, size, "{%u,%u}", n, m);
    else
        snprintf(text, size, "{%u,}", n);
    return (int)(q + 1 - s->p);
}

/* A quantifier at p: 1, or 0 if there is none. */
static int quantifier(struct parser *s)
{
    char text[28] = { *s->p };
    bool exact = false, curly = *s->p == '{';
    int n = curly ? interval(s, text, sizeof text - 2, &exact)
                  : *s->p == '*' || *s->p == '+' || *s->p == '?';
    if (n <= 0)
        return n;
    if (!s->has_atom)
        return fail(s, LM_EDATA, "a quantifier of nothing");
    int r = LM_OK;
    if (s->quantified && ((r = insert(s, s->atom, "(?:", -1)) || (r = put(s, ")"))))
        return r;
    s->p += n;
    size_t len = strlen(text);
    if (s->p < s->end && ((*s->p == '?' && !exact) || (*s->p == '+' && !curly)))
        text[len] = *s->p++;
    s->quantified = true;
    s->before = 0;
    return (r = put(s, text)) ? r : 1;
}

static int dot(struct parser *s)
{
    struct lm_runeset set = { 0 };
    begin_atom(s);
    if (!s->dotall)
        lm_runeset_add(&set, '\n', '\n');
    lm_runeset_negate(&set);
    return put_set(s, &set);
}

static int item(struct parser *s)
{
    int r = quantifier(s);
    if (r)
        return r < 0 ? r : LM_OK;
    switch (*s->p) {
    case '[': return class(s);
    case '(': s->p++; return group(s);
    case ')': s->p++; return close_group(s);
    case '.': s->p++; return dot(s);
    case '\\': s->p++; return escape(s);
    case '|':
        s->p++;
        s->has_atom = false;
        s->before = 0;
        return put(s, "|");
    case '^':
        s->p++;
        begin_atom(s);
        return spell(s, "(?:\\A|(?<=n)(?!\\z))");
    case '$':
        s->p++;
        begin_atom(s);
        return spell(s, "(?=n|\\z)");
    default:
        return literal(s, next_rune(s));
    }
}

int lm_regex_parse(struct lm_regex_parsed *out, const char *pattern, size_t len,
                   struct lm_err *err)
{
    struct lm_err own = { 0 };
    struct parser s = { .begin = pattern, .p = pattern, .end = pattern + len, .out = out,
                        .err = err ? err : &own };
    int r = open_group(&s, "(?:");               /* so that options have one to end with */
    while (r == LM_OK && s.p < s.end)
        if (*s.p == ')' && s.depth == 1)
            r = fail(&s, LM_EDATA, "a ) without its (");
        else
            r = item(&s);
    if (r == LM_OK && s.depth > 1)
        r = fail(&s, LM_EDATA, "a group without its )");
    return r == LM_OK ? close_group(&s) : r;
}

int lm_regex_parse_literal(struct lm_regex_parsed *out, const char *text, size_t len,
                           struct lm_err *err)
{
    struct lm_err own = { 0 };
    struct parser s = { .begin = text, .p = text, .end = text + len, .out = out,
                        .err = err ? err : &own };
    int r = LM_OK;
    while (r == LM_OK && s.p < s.end)
        r = literal(&s, next_rune(&s));
    return r;
}
