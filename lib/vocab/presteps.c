/* SPDX-License-Identifier: MIT */
/*
 * Matchers for the patterns of pre-tokenizers.  The comment above each is the pattern; the
 * order of its alternatives is the order of the code.  \s is White_Space, classes are
 * Unicode's, a byte that is not UTF-8 is U+FFFD, a symbol.
 */
#include "vocab/pretok.h"

#include <string.h>

#include "vocab/unicode.h"

/* The matcher looked at the text up to q, which may be far behind its match. */
static inline void saw(struct lm_scan *s, const char *q)
{
    if (q > s->far)
        s->far = q;
}

/* End of the longest run of characters from p that have one of the class bits. */
static const char *run(const char *p, const char *end, unsigned bits)
{
    while (p < end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(p, end, &k)) & bits))
            break;
        p += k;
    }
    return p;
}

/* The same for characters that have none of them. */
static const char *run_not(const char *p, const char *end, unsigned bits)
{
    while (p < end) {
        int k;
        if (lm_uni_class(lm_uni_next(p, end, &k)) & bits)
            break;
        p += k;
    }
    return p;
}

/* At most max characters with one of the bits; 0: no limit. */
static const char *run_max(const char *p, const char *end, unsigned bits, unsigned max)
{
    if (!max)
        return run(p, end, bits);
    while (max-- && p < end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(p, end, &k)) & bits))
            break;
        p += k;
    }
    return p;
}

static bool is_newline(char c)
{
    return c == '\n' || c == '\r';
}

/* 's 't 're 've 'm 'll 'd at p, where an apostrophe stands: its length or 0.  With fold,
 * in any case, and U+017F, which folds to s, counts as one. */
static size_t contraction(const char *p, const char *end, bool fold)
{
    size_t n = (size_t)(end - p);
    if (n < 2)
        return 0;
    int a = (unsigned char)p[1], b = n > 2 ? (unsigned char)p[2] : 0;
    if (fold) {
        if (a == 0xC5 && b == 0xBF)
            return 3;
        a = a >= 'A' && a <= 'Z' ? a + 32 : a;
        b = b >= 'A' && b <= 'Z' ? b + 32 : b;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

/*
 * \s+(?!\S)|\s+ at p, where a space stands: all of them when nothing follows, else all but
 * the last, or the one there is.
 */
static const char *spaces(const char *p, struct lm_scan *s)
{
    const char *last = p;
    const char *q = p;
    while (q < s->end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(q, s->end, &k)) & LM_U_SPACE))
            break;
        last = q;
        q += k;
    }
    saw(s, q);
    return q < s->end && last > p ? last : q;
}

/* \s*[\r\n]+ at p: up to behind the last newline of the run of spaces; p if it has none. */
static const char *newlines(const char *p, struct lm_scan *s)
{
    const char *last = p;
    while (p < s->end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(p, s->end, &k)) & LM_U_SPACE))
            break;
        p += k;
        if (is_newline(p[-1]))
            last = p;
    }
    saw(s, p);
    return last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t lm_pre_gpt2(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    if (*p == '\'') {
        size_t n = contraction(p, s->end, false);
        if (n)
            return n;
    }
    const char *q = p + (*p == ' ' && p + 1 < s->end);
    int k;
    unsigned c = lm_uni_class(lm_uni_next(q, s->end, &k));
    if (c & LM_U_SPACE)
        return (size_t)(spaces(p, s) - p);
    if (c & LM_U_L)
        q = run(q + k, s->end, LM_U_L);
    else if (c & LM_U_N)
        q = run(q + k, s->end, LM_U_N);
    else
        q = run_not(q + k, s->end, LM_U_SPACE | LM_U_L | LM_U_N);
    return (size_t)(q - p);
}

/* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+ from p; p if there is none. */
static const char *phrase(const char *p, const char *end)
{
    const char *q = p;
    for (;;) {
        const char *letter = q + (q > p && q < end && *q == ' ');
        int k;
        if (letter >= end || !(lm_uni_class(lm_uni_next(letter, end, &k)) & LM_U_L))
            return q;
        q = run(letter + k, end, LM_U_M);
    }
}

/* \p{L}+, [\p{L}\p{M}]+ or a phrase from p; p if there is none. */
static const char *letters(const char *p, const char *end, unsigned opt)
{
    if (opt & LM_TT_PHRASE)
        return phrase(p, end);
    return run(p, end, opt & LM_TT_MARKS ? LM_U_L | LM_U_M : LM_U_L);
}

/* ` ?[^\s\p{L}\p{N}]+` and its tail from p; p if there is none. */
static const char *symbols(const char *p, const char *end, unsigned opt)
{
    unsigned not = LM_U_SPACE | LM_U_L | LM_U_N | (opt & LM_TT_MARKS ? LM_U_M : 0);
    const char *from = p + (*p == ' ');
    const char *q = run_not(from, end, not);
    if (q == from)
        return p;
    if (opt & (LM_TT_TAIL | LM_TT_TAIL_SLASH | LM_TT_TAIL_ONE))
        while (q < end && (is_newline(*q) || (*q == '/' && opt & LM_TT_TAIL_SLASH))) {
            q++;
            if (opt & LM_TT_TAIL_ONE)
                break;
        }
    return q;
}

/* The longest of \s{512}(?!\S) ... \s{4}(?!\S), \s{1,2}(?!\S), \s{1} at p. */
static const char *powers(const char *p, const char *end)
{
    const char *at[514];
    size_t n = 0;
    at[0] = p;
    while (n < 513 && at[n] < end) {
        int k;
        if (!(lm_uni_class(lm_uni_next(at[n], end, &k)) & LM_U_SPACE))
            break;
        at[n + 1] = at[n] + k;
        n++;
    }
    size_t most = n && at[n] == end ? n : n - 1;
    for (size_t k = 512; k; k /= 2)
        if (k <= most)
            return at[k];
    return at[1];
}

/* What stands at p when it is a space: [\r\n] | \s*[\r\n]+ | the rest of the spaces. */
static size_t blank(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    if (t->opt & LM_TT_LINE_SINGLE)
        return is_newline(*p) ? 1 : (size_t)(spaces(p, s) - p);
    const char *q = p >= s->mark ? newlines(p, s) : p;
    if (q > p)
        return (size_t)(q - p);
    if (!(t->opt & LM_TT_POWERS))
        return (size_t)(spaces(p, s) - p);
    if (p >= s->mark)                            /* no newline up to here: seen once */
        s->mark = run(p, s->end, LM_U_SPACE);
    saw(s, s->mark);
    return (size_t)(powers(p, s->end) - p);
}

/*
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
 * | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+       with the changes opt names
 */
size_t lm_pre_tiktoken(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    unsigned opt = t->opt;
    if (*p == '\'' && opt & LM_TT_SHORT) {
        size_t n = contraction(p, s->end, true);
        if (n)
            return n;
    }
    int k;
    unsigned c = lm_uni_class(lm_uni_next(p, s->end, &k));
    if (!(c & (LM_U_L | LM_U_N)) && !is_newline(*p) && p + k < s->end) {
        const char *q = letters(p + k, s->end, opt);
        if (q > p + k)
            return (size_t)(q - p);
    }
    if (c & (opt & LM_TT_MARKS ? LM_U_L | LM_U_M : LM_U_L))
        return (size_t)(letters(p, s->end, opt) - p);
    if (c & LM_U_N)
        return (size_t)(run_max(p, s->end, LM_U_N, opt & LM_TT_DIGITS) - p);
    const char *q = symbols(p, s->end, opt);
    return q > p ? (size_t)(q - p) : blank(t, s, p);
}

static bool in_case(uint32_t r, unsigned bits, bool no_han)
{
    return lm_uni_class(r) & bits && !(no_han && lm_uni_han(r));
}

/* U*L+ from p with U upper and L lower case letters, both holding those without case;
 * p if there is none.  U* takes all it can and gives back up to the last L. */
static const char *camel(const char *p, struct lm_scan *s, bool no_han)
{
    const char *last = p;                        /* behind the last L in the run of U */
    const char *q = p;
    int k = 0;
    uint32_t r = 0;
    while (q < s->end) {
        r = lm_uni_next(q, s->end, &k);
        if (!in_case(r, LM_U_UPPER, no_han))
            break;
        q += k;
        if (lm_uni_class(r) & LM_U_LOWER)
            last = q;
    }
    saw(s, q);
    if (q == s->end || !in_case(r, LM_U_LOWER, no_han))
        return last;
    while (q < s->end) {
        r = lm_uni_next(q, s->end, &k);
        if (!in_case(r, LM_U_LOWER, no_han))
            break;
        q += k;
    }
    return q;
}

/* U+ from p (L* would have been taken by camel). */
static const char *upper(const char *p, const char *end, bool no_han)
{
    while (p < end) {
        int k;
        if (!in_case(lm_uni_next(p, end, &k), LM_U_UPPER, no_han))
            break;
        p += k;
    }
    return p;
}

/* The two alternatives of words at p, with and without the character before them. */
static const char *cased_word(const char *p, struct lm_scan *s, bool no_han)
{
    const char *end = s->end;
    int k;
    unsigned c = lm_uni_class(lm_uni_next(p, end, &k));
    const char *after = c & (LM_U_L | LM_U_N) || is_newline(*p) ? p : p + k;
    const char *q;
    if (after > p && (q = camel(after, s, no_han)) > after)
        return q;
    if ((q = camel(p, s, no_han)) > p)
        return q;
    if (after > p && (q = upper(after, end, no_han)) > after)
        return q;
    return upper(p, end, no_han);
}

/*
 * [^\r\n\p{L}\p{N}]?U*L+(?i:'s|...)?|[^\r\n\p{L}\p{N}]?U+L*(?i:'s|...)?|\p{N}{1,3}
 * | ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * with U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}], L = [\p{Ll}\p{Lm}\p{Lo}\p{M}]
 */
size_t lm_pre_cased(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    bool han = t->opt & LM_TT_HAN;
    if (han) {
        const char *q = p;
        int k;
        while (q < s->end && lm_uni_han(lm_uni_next(q, s->end, &k)))
            q += k;
        if (q > p)
            return (size_t)(q - p);
    }
    const char *q = cased_word(p, s, han);
    if (q > p) {
        if (q < s->end && *q == '\'' && t->opt & LM_TT_SHORT)
            q += contraction(q, s->end, true);
        return (size_t)(q - p);
    }
    int k;
    if (lm_uni_class(lm_uni_next(p, s->end, &k)) & LM_U_N)
        return (size_t)(run_max(p, s->end, LM_U_N, t->opt & LM_TT_DIGITS) - p);
    q = symbols(p, s->end, t->opt & ~(unsigned)LM_TT_MARKS);
    return q > p ? (size_t)(q - p) : blank(t, s, p);
}

static bool ascii_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/*
 * [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+                     opt: 0 or LM_TT_LINE_SINGLE (no [\r\n]*)
 */
size_t lm_pre_deepseek3(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    int k;
    unsigned c = lm_uni_class(lm_uni_next(p, s->end, &k));
    const char *q = p + k;
    if (k == 1 && (unsigned char)*p < 128 && c & (LM_U_P | LM_U_S) && q < s->end &&
        ascii_letter(*q)) {
        while (q < s->end && ascii_letter(*q))
            q++;
        return (size_t)(q - p);
    }
    if (!(c & (LM_U_L | LM_U_P | LM_U_S)) && !is_newline(*p)) {
        q = run(p + k, s->end, LM_U_L | LM_U_M);
        if (q > p + k)
            return (size_t)(q - p);
    }
    if (c & (LM_U_L | LM_U_M))
        return (size_t)(run(p, s->end, LM_U_L | LM_U_M) - p);
    const char *from = p + (*p == ' ');
    q = run(from, s->end, LM_U_P | LM_U_S);
    if (q > from) {
        while (!(t->opt & LM_TT_LINE_SINGLE) && q < s->end && is_newline(*q))
            q++;
        return (size_t)(q - p);
    }
    return c & LM_U_SPACE ? blank(t, s, p) : 0;
}

/* Is r in the class of opt? */
static bool in_class(uint32_t r, unsigned opt)
{
    unsigned c = lm_uni_class(r);
    return c & opt & 0xFFFF || (opt & LM_CLASS_SIGN && r < 128 && c & LM_U_S);
}

/* C+, C or C{1,3} for a class C: the LM_U_ bits in opt and, with LM_CLASS_SIGN, the
 * symbols of ASCII; a set takes characters away from it. */
size_t lm_pre_class(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    const char *q = p;
    unsigned max = t->opt & LM_CLASS_ONE ? 1 : t->opt & LM_CLASS_3 ? 3 : 0;
    for (unsigned n = 0; q < s->end && (!max || n < max); n++) {
        int k;
        uint32_t r = lm_uni_next(q, s->end, &k);
        if (!in_class(r, t->opt) || (t->set && r == t->set->first))
            break;
        q += k;
    }
    return (size_t)(q - p);
}

static bool in_set(uint32_t r, const struct lm_range *set)
{
    for (; set->last; set++)
        if (r <= set->last)
            return r >= set->first;
    return false;
}

static const char *run_set(const char *p, const char *end, const struct lm_range *set)
{
    int k;
    while (p < end && in_set(lm_uni_next(p, end, &k), set))
        p += k;
    return p;
}

/* [set]+, or with LM_CLASS_ONE [set] */
size_t lm_pre_set(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    int k;
    if (t->opt & LM_CLASS_ONE)
        return in_set(lm_uni_next(p, s->end, &k), t->set) ? (size_t)k : 0;
    return (size_t)(run_set(p, s->end, t->set) - p);
}

/* [set]+|[another]+|...: sets one behind the other, each with its end, and { 0, 0 } behind the
 * last */
size_t lm_pre_sets(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    for (const struct lm_range *set = t->set; set->last; set++) {
        const char *q = run_set(p, s->end, set);
        if (q > p)
            return (size_t)(q - p);
        while (set->last)
            set++;
    }
    return 0;
}

/* \s?[set]+, or \s?C+ for the class bits in opt */
size_t lm_pre_spaced(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    int k;
    bool space = lm_uni_class(lm_uni_next(p, s->end, &k)) & LM_U_SPACE;
    const char *from = space ? p + k : p;
    const char *q = t->set ? run_set(from, s->end, t->set) : run(from, s->end, t->opt);
    if (q > from)
        return (size_t)(q - p);
    /* a space that is itself in the set (U+3000) */
    return space && t->set ? (size_t)(run_set(p, s->end, t->set) - p) : 0;
}

/* \s+$ with $ at the end of each line: all of a run of spaces that reaches the end, else what
 * stands before its last newline. */
size_t lm_pre_trailing(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    if (p < s->mark)                             /* seen: nothing more in this run */
        return 0;
    const char *q = run(p, s->end, LM_U_SPACE);
    saw(s, q);
    if (q == s->end)
        return (size_t)(q - p);
    s->mark = q;
    while (q > p && *q != '\n')
        q--;
    if (q > p)
        s->mark = q;
    return (size_t)(q - p);
}

/* [0-9][0-9][0-9] */
size_t lm_pre_ascii3(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    if (s->end - p < 3)
        return 0;
    for (int i = 0; i < 3; i++)
        if (p[i] < '0' || p[i] > '9')
            return 0;
    return 3;
}

/* [^\n]+|[\n]+ */
size_t lm_pre_lines(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    const char *q = p;
    if (*p != '\n') {
        q = memchr(p, '\n', (size_t)(s->end - p));
        return (size_t)((q ? q : s->end) - p);
    }
    while (q < s->end && *q == '\n')
        q++;
    return (size_t)(q - p);
}

/* \w as Oniguruma has it outside of classes: Latin-1's fractions and powers are in it. */
static bool is_word(uint32_t r)
{
    return lm_uni_word(r) || r == 0xB2 || r == 0xB3 || r == 0xB9 || (r >= 0xBC && r <= 0xBE);
}

/*
 * Digits in threes from the right: of a run of the class in opt, the first one to three,
 * so that a multiple of three remains.  With LM_U_WORD in opt as well, only of a run of
 * \p{Nd} that no \w follows: \d{1,3}(?=(?:\d{3})*\b)
 */
size_t lm_pre_right3(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    unsigned bits = t->opt & (LM_U_N | LM_U_ND);
    saw(s, s->mark);
    if (p >= s->mark) {
        size_t n = 0;
        const char *q = p;
        int k;
        for (; q < s->end && lm_uni_class(lm_uni_next(q, s->end, &k)) & bits; q += k)
            n++;
        s->mark = q;
        saw(s, q);
        s->good = n && !(t->opt & LM_U_WORD && q < s->end &&
                         is_word(lm_uni_next(q, s->end, &k)));
        if (n % 3)
            return s->good ? (size_t)(run_max(p, q, bits, n % 3) - p) : 0;
    }
    return s->good ? (size_t)(run_max(p, s->mark, bits, 3) - p) : 0;
}

/*
 * (?=(\d{3})+(?!\d)): cuts before each digit that has a multiple of three of them from
 * itself to the end of its run; the match is what reaches to the next cut.
 */
size_t lm_pre_before3(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    const char *q = p;
    if (p < s->mark)                             /* at a cut in a run that was counted */
        q = run_max(p, s->mark, LM_U_ND, 3);
    while (q < s->end && q >= s->mark) {
        const char *r = run(q, s->end, LM_U_ND);
        saw(s, r);
        if (r == q) {
            q = run_not(q, s->end, LM_U_ND);
            continue;
        }
        size_t n = 0;
        for (const char *c = q; c < r; n++)
            c = run_max(c, r, LM_U_ND, 1);
        unsigned first = n % 3 || q > p ? n % 3 : 3;
        if (n < 3 || (n == 3 && first == 3)) {
            q = r;
            continue;
        }
        s->mark = r;
        return (size_t)((first ? run_max(q, r, LM_U_ND, first) : q) - p);
    }
    return (size_t)(q - p);
}

/* ` ?[^(\s|.,!?...)]+`, the characters it stops at in set */
size_t lm_pre_bloom(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    const char *from = p + (*p == ' ');
    const char *q = from;
    while (q < s->end) {
        int k;
        uint32_t r = lm_uni_next(q, s->end, &k);
        if (lm_uni_class(r) & LM_U_SPACE || in_set(r, t->set))
            break;
        q += k;
    }
    return q > from ? (size_t)(q - p) : 0;
}

/* <sentinel:[0-9]+> */
size_t lm_pre_sentinel(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    static const char head[] = "<sentinel:";
    size_t n = sizeof head - 1;
    if ((size_t)(s->end - p) < n || memcmp(p, head, n) != 0)
        return 0;
    const char *q = p + n;
    while (q < s->end && *q >= '0' && *q <= '9')
        q++;
    saw(s, q);
    return q > p + n && q < s->end && *q == '>' ? (size_t)(q + 1 - p) : 0;
}

/* (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z */
size_t lm_pre_image(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    if (s->end - p < 8 || memcmp(p, "IMGIMG", 6) != 0)
        return 0;
    const char *q = p + 6;
    while (q < s->end && q < p + 10 && *q >= 'A' && *q <= 'I')
        q++;
    return q > p + 6 && q < s->end && *q == 'Z' ? (size_t)(q + 1 - p) : 0;
}

/* [\t\n]|    |   (four spaces, or two) */
size_t lm_pre_blanks(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    (void)t;
    if (*p == '\t' || *p == '\n')
        return 1;
    size_t n = 0;
    while (n < 4 && p + n < s->end && p[n] == ' ')
        n++;
    return n >= 4 ? 4 : n >= 2 ? 2 : 0;
}

/* ---- text that goes on ---------------------------------------------------------- */

/* Of nothing but spaces, as the patterns above have them: see lm_pre_sure. */
static size_t sure_blanks(const struct lm_prestep *t, struct lm_scan *s, const char *p)
{
    bool lines = t->match != lm_pre_gpt2 && t->match != lm_pre_trailing;
    const char *q = s->end - 1;
    if (lines && t->opt & LM_TT_POWERS)
        return 0;                                /* words only if no newline comes */
    if (lines && t->opt & LM_TT_LINE_SINGLE && is_newline(*p))
        return 1;
    if (lines && !(t->opt & LM_TT_LINE_SINGLE)) {
        const char *nl = newlines(p, s);
        if (nl > p)
            return (size_t)(nl - p);
    }
    while (q > p && ((unsigned char)*q & 0xC0) == 0x80)
        q--;
    return (size_t)(q - p);                      /* the last may begin the next word */
}

size_t lm_pre_sure(const struct lm_prestep *t, const char *p, const char *end)
{
    struct lm_scan s = { .begin = p, .end = end, .mark = p, .far = p };
    lm_prestep_match *m = t->match;
    bool words = m == lm_pre_gpt2 || m == lm_pre_tiktoken || m == lm_pre_cased ||
                 m == lm_pre_deepseek3;
    if (p == end)
        return 0;
    if (words || m == lm_pre_trailing) {
        const char *q = run(p, end, LM_U_SPACE);
        if (q > p && q == end && !(m == lm_pre_trailing && memchr(p, '\n', (size_t)(q - p))))
            return sure_blanks(t, &s, p);
        return words ? m(t, &s, p) : 0;
    }
    bool run = m == lm_pre_spaced || m == lm_pre_lines || m == lm_pre_bloom || m == lm_pre_sets ||
               ((m == lm_pre_set || m == lm_pre_class) &&
                !(t->opt & (LM_CLASS_ONE | LM_CLASS_3)));
    return run ? m(t, &s, p) : 0;
}

unsigned lm_pre_set_of(const struct lm_prestep *t, uint32_t r)
{
    unsigned n = 1;
    for (const struct lm_range *set = t->set; set && set->last; n++) {
        if (in_set(r, set))
            return n;
        while (set->last)
            set++;
        set += t->match == lm_pre_sets;
    }
    return 0;
}
