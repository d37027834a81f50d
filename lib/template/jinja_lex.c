/* SPDX-License-Identifier: MIT */
/* The lexer: text outside of tags with the whitespace that tags take with them, and the
 * tokens within. */
#include <string.h>

#include "template/jinja.h"
#include "vocab/unicode.h"

enum { IN_DATA, IN_VARIABLE, IN_BLOCK };

void *lm_jparse_alloc(struct jparse *p, size_t size)
{
    void *m = lm_arena_alloc(p->arena, size);
    if (!m) {
        lm_fail_nomem(p->err);
        longjmp(p->out, 1);
    }
    return m;
}

static void move(struct jparse *p, size_t to)
{
    for (; p->at < to; p->at++) {
        if (p->src[p->at] == '\n') {
            p->pos.line++;
            p->pos.col = 1;
        } else if (((unsigned char)p->src[p->at] & 0xC0) != 0x80) {
            p->pos.col++;
        }
    }
}

static bool looking_at(const struct jparse *p, size_t at, const char *s)
{
    size_t n = strlen(s);
    return p->len - at >= n && memcmp(p->src + at, s, n) == 0;
}

static uint32_t rune_at(const struct jparse *p, size_t at, int *len)
{
    struct jstr s = { p->src, NULL, p->len };
    return lm_jrune(&s, at, len);
}

static size_t skip_space(const struct jparse *p, size_t at)
{
    int n;
    while (at < p->len && lm_jspace(rune_at(p, at, &n)))
        at += (size_t)n;
    return at;
}

/* Where src[from..to) ends without its spaces. */
static size_t strip_end(const struct jparse *p, size_t from, size_t to)
{
    while (to > from) {
        size_t k = to - 1;
        int n;
        while (k > from && ((unsigned char)p->src[k] & 0xC0) == 0x80)
            k--;
        if (!lm_jspace(rune_at(p, k, &n)))
            break;
        to = k;
    }
    return to;
}

/* Text that ends at a tag: '-' takes all whitespace in front of it, lstrip_blocks that
 * between the tag and the beginning of its line. */
static size_t end_of_data(const struct jparse *p, size_t from, size_t to, char sign, bool variable)
{
    size_t stripped = strip_end(p, from, to);
    if (sign == '-')
        return stripped;
    if (sign == '+' || variable)
        return to;
    size_t line = to;
    while (line > from && p->src[line - 1] != '\n')
        line--;
    return (line > from || p->after_newline) && stripped <= line ? line : to;
}

/* Behind the end of a block or comment tag, `sign` before it. */
static void tag_ended(struct jparse *p, size_t at, char sign, bool trims)
{
    if (sign == '-')
        at = skip_space(p, at);
    else if (trims && sign != '+' && at < p->len && p->src[at] == '\n')
        at++;
    move(p, at);
    p->after_newline = at > 0 && p->src[at - 1] == '\n';
}

static void data_token(struct jparse *p, size_t from, size_t to)
{
    p->tok.kind = JT_DATA;
    p->tok.text = (struct jstr){ p->src + from, NULL, to - from };
}

static void comment(struct jparse *p, size_t at)
{
    struct jpos start = p->pos;
    for (; at < p->len; at++) {
        char sign = p->src[at];
        size_t end = at + (sign == '-' || sign == '+');
        if (end < p->len && looking_at(p, end, "#}")) {
            tag_ended(p, end + 2, sign, true);
            return;
        }
    }
    lm_jparse_fail(p, start, "Missing end of comment tag");
}

/* {% raw %} or {% endraw %}: the offset behind it, or 0; the signs at its ends. */
static size_t raw_tag(const struct jparse *p, size_t at, const char *word, char *left, char *right)
{
    at += 2;
    *left = at < p->len && (p->src[at] == '-' || p->src[at] == '+') ? p->src[at++] : 0;
    at = skip_space(p, at);
    if (!looking_at(p, at, word))
        return 0;
    at = skip_space(p, at + strlen(word));
    *right = at < p->len && (p->src[at] == '-' || p->src[at] == '+') ? p->src[at++] : 0;
    if (*right == '+' && word[0] == 'r')         /* Jinja2 knows a + only behind endraw */
        return 0;
    return looking_at(p, at, "%}") ? at + 2 : 0;
}

static void raw(struct jparse *p, size_t at, char sign)
{
    struct jpos start = p->pos;
    if (sign == '-')
        at = skip_space(p, at);
    move(p, at);
    p->after_newline = at > 0 && p->src[at - 1] == '\n';
    for (size_t i = at; i < p->len; i++) {
        char left, right;
        size_t end = looking_at(p, i, "{%") ? raw_tag(p, i, "endraw", &left, &right) : 0;
        if (end) {
            data_token(p, at, end_of_data(p, at, i, left, false));
            tag_ended(p, end, right, true);
            return;
        }
    }
    lm_jparse_fail(p, start, "Missing end of raw directive");
}

/* Up to the next tag; false when there is nothing before it. */
static bool lex_data(struct jparse *p)
{
    size_t from = p->at, at = from;
    while (at < p->len && !(p->src[at] == '{' && at + 1 < p->len &&
                            memchr("{%#", p->src[at + 1], 3)))
        at++;
    if (at == p->len) {
        move(p, at);
        if (at > from)
            data_token(p, from, at);
        else
            p->tok.kind = JT_EOF;
        return true;
    }
    char kind = p->src[at + 1];
    char sign = at + 2 < p->len ? p->src[at + 2] : 0;
    size_t end = end_of_data(p, from, at, sign, kind == '{');
    move(p, at);
    p->after_newline = false;
    if (end > from) {
        data_token(p, from, end);
        return true;
    }
    char left, right;
    size_t raw_end = kind == '%' ? raw_tag(p, at, "raw", &left, &right) : 0;
    if (raw_end) {
        raw(p, raw_end, right);
        return true;
    }
    if (kind == '#') {
        comment(p, at + 2);
        return false;
    }
    p->tok.kind = kind == '{' ? JT_VAR_BEGIN : JT_BLOCK_BEGIN;
    p->mode = kind == '{' ? IN_VARIABLE : IN_BLOCK;
    move(p, at + 2 + (sign == '-' || (sign == '+' && kind == '%')));
    return true;
}

/* The end of a tag, if it is here. */
static bool lex_end(struct jparse *p)
{
    const char *close = p->mode == IN_VARIABLE ? "}}" : "%}";
    char sign = p->src[p->at];
    bool signed_end = sign == '-' || (sign == '+' && p->mode == IN_BLOCK);
    if (p->brackets || !looking_at(p, p->at + signed_end, close))
        return false;
    p->tok.kind = p->mode == IN_VARIABLE ? JT_VAR_END : JT_BLOCK_END;
    tag_ended(p, p->at + signed_end + 2, signed_end ? sign : 0, p->mode == IN_BLOCK);
    p->mode = IN_DATA;
    return true;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* May a name of Python have this character beyond ASCII, and begin with it? */
static bool names_wide(uint32_t r, bool begin)
{
    if (!lm_uni_ready())
        return true;
    switch (lm_uni_category(r)) {
    case LM_UC_LU: case LM_UC_LL: case LM_UC_LT: case LM_UC_LM: case LM_UC_LO: case LM_UC_NL:
        return true;
    case LM_UC_MN: case LM_UC_MC: case LM_UC_ND: case LM_UC_PC:
        return !begin;
    default:                                     /* Other_ID_Start, Other_ID_Continue */
        return r == 0x2118 || r == 0x212E ||
               (!begin && (r == 0xB7 || r == 0x387 || (r >= 0x1369 && r <= 0x1371) || r == 0x19DA));
    }
}

/* The length of the character there if it goes on with a name, or begins one; else 0. */
static size_t in_name(const struct jparse *p, size_t i, bool begin)
{
    int n, c = i < p->len ? (unsigned char)p->src[i] : 0;
    if (c < 128)
        return (is_digit(c) && !begin) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '_';
    uint32_t r = lm_uni_next(p->src + i, p->src + p->len, &n);
    return names_wide(r, begin) ? (size_t)n : 0;
}

static int at(const struct jparse *p, size_t i)
{
    return i < p->len ? (unsigned char)p->src[i] : 0;
}

static bool is_digit_of(int c, unsigned base)
{
    int lower = c | 32;
    return base == 16 ? is_digit(c) || (lower >= 'a' && lower <= 'f')
                      : c >= '0' && c < (int)('0' + base);
}

/* Digits, with single underscores between. */
static size_t digits(const struct jparse *p, size_t i, unsigned base)
{
    while (is_digit_of(at(p, i), base) || (at(p, i) == '_' && is_digit_of(at(p, i + 1), base)))
        i++;
    return i;
}

static void lex_number(struct jparse *p, bool after_dot)
{
    size_t from = p->at, i;
    int x = at(p, from + 1) | 32;
    unsigned base = at(p, from) != '0' ? 10 : x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    if (base != 10 && (is_digit_of(at(p, from + 2), base) || at(p, from + 2) == '_')) {
        p->tok.kind = JT_INT;
        i = digits(p, from + 2, base);
    } else {
        p->tok.kind = JT_INT;
        i = digits(p, from, 10);
        if (!after_dot && at(p, i) == '.' && is_digit(at(p, i + 1))) {
            p->tok.kind = JT_FLOAT;
            i = digits(p, i + 1, 10);
        }
        size_t sign = i + 1 + (at(p, i + 1) == '+' || at(p, i + 1) == '-');
        if (!after_dot && (at(p, i) | 32) == 'e' && is_digit(at(p, sign))) {
            p->tok.kind = JT_FLOAT;
            i = digits(p, sign, 10);
        }
    }
    p->tok.text = (struct jstr){ p->src + from, NULL, i - from };
    move(p, i);
}

/* n hexadecimal digits of an escape. */
static uint32_t hex(struct jparse *p, size_t i, int n)
{
    uint32_t v = 0;
    for (int k = 0; k < n; k++, i++) {
        int c = at(p, i), lower = c | 32;
        if (!is_digit_of(c, 16))
            lm_jparse_fail(p, p->pos, "an escape in the string lacks hexadecimal digits");
        v = v << 4 | (uint32_t)(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    return v;
}

static size_t put_rune(struct jparse *p, char *out, uint32_t r)
{
    if (r > 0x10FFFF || (r >= 0xD800 && r < 0xE000))
        lm_jparse_fail(p, p->pos, "an escape in the string is no character");
    if (r < 0x80) {
        out[0] = (char)r;
        return 1;
    }
    int n = r < 0x800 ? 1 : r < 0x10000 ? 2 : 3;
    out[0] = (char)((0xFF00 >> (n + 1) & 0xFF) | r >> 6 * n);
    for (int k = 1; k <= n; k++)
        out[k] = (char)(0x80 | (r >> 6 * (n - k) & 0x3F));
    return (size_t)n + 1;
}

/* The escape behind the backslash at i: what it means goes to out; returns where it ends. */
static size_t escape(struct jparse *p, size_t i, char *out, size_t *n)
{
    static const char plain[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    int c = at(p, i + 1);
    const char *k = c ? strchr(plain, c) : NULL;
    if (k) {
        out[(*n)++] = means[k - plain];
        return i + 2;
    }
    if (c == '\n')
        return i + 2;
    if (c >= '0' && c <= '7') {
        uint32_t v = 0;
        size_t j = i + 1;
        for (; j < i + 4 && at(p, j) >= '0' && at(p, j) <= '7'; j++)
            v = v << 3 | (uint32_t)(at(p, j) - '0');
        *n += put_rune(p, out + *n, v);
        return j;
    }
    int width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N' && at(p, i + 2) == '{')
        lm_jparse_unsupported(p, p->pos, "a character by its name, \\N{...},");
    if (width) {
        *n += put_rune(p, out + *n, hex(p, i + 2, width));
        return i + 2 + (size_t)width;
    }
    out[(*n)++] = '\\';
    return i + 1;
}

static void lex_string(struct jparse *p)
{
    char quote = p->src[p->at];
    size_t end = p->at + 1;
    while (end < p->len && p->src[end] != quote)
        end += p->src[end] == '\\' ? 2 : 1;
    if (end >= p->len)
        lm_jparse_fail(p, p->pos, "unexpected char '%c': the string does not end", quote);
    char *out = lm_jparse_alloc(p, end - p->at + 4);
    size_t n = 0;
    for (size_t i = p->at + 1; i < end;) {
        if (p->src[i] == '\\')
            i = escape(p, i, out, &n);
        else
            out[n++] = p->src[i++];
    }
    p->tok.kind = JT_STRING;
    p->tok.text = (struct jstr){ out, NULL, n };
    move(p, end + 1);
}

static void lex_operator(struct jparse *p)
{
    static const char *const ops[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{",
        "}", ">", "<", "=", ".", ":", "|", ",", ";",
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (!looking_at(p, p->at, ops[i]))
            continue;
        char c = ops[i][0];
        if (c == '(' || c == '[' || c == '{')
            p->brackets++;
        if (c == ')' || c == ']' || c == '}') {
            if (!p->brackets)
                lm_jparse_fail(p, p->pos, "unexpected '%c'", c);
            p->brackets--;
        }
        p->tok.kind = JT_OP;
        p->tok.text = (struct jstr){ ops[i], NULL, strlen(ops[i]) };
        move(p, p->at + p->tok.text.len);
        return;
    }
    int n;
    lm_uni_next(p->src + p->at, p->src + p->len, &n);
    const unsigned char c = (unsigned char)p->src[p->at];
    lm_jparse_fail(p, p->pos, "unexpected char '%.*s'", n,
                   c < 32 || c == 127 ? "?" : p->src + p->at);
}

static void lex_inside(struct jparse *p)
{
    bool after_dot = p->tok.kind == JT_OP && lm_jtok_is(&p->tok, JT_OP, ".");
    move(p, skip_space(p, p->at));
    p->tok.pos = p->pos;
    if (p->at == p->len) {
        p->tok.kind = JT_EOF;
        return;
    }
    if (lex_end(p))
        return;
    int c = at(p, p->at);
    if (is_digit(c)) {
        lex_number(p, after_dot);
    } else if (in_name(p, p->at, true)) {
        size_t end = p->at;
        for (size_t n; (n = in_name(p, end, false)) > 0;)
            end += n;
        p->tok.kind = JT_NAME;
        p->tok.text = (struct jstr){ p->src + p->at, NULL, end - p->at };
        move(p, end);
    } else if (c == '\'' || c == '"') {
        lex_string(p);
    } else {
        lex_operator(p);
    }
}

void lm_jlex_next(struct jparse *p)
{
    if (p->peeked) {
        p->tok = p->peek;
        p->peeked = false;
        return;
    }
    if (p->mode != IN_DATA) {
        lex_inside(p);
        return;
    }
    do
        p->tok.pos = p->pos;
    while (!lex_data(p));
}

const struct jtoken *lm_jlex_peek(struct jparse *p)
{
    if (!p->peeked) {
        struct jtoken now = p->tok;
        lm_jlex_next(p);
        p->peek = p->tok;
        p->tok = now;
        p->peeked = true;
    }
    return &p->peek;
}

bool lm_jtok_is(const struct jtoken *t, enum jtoken_kind kind, const char *text)
{
    return t->kind == kind && lm_jstr_is(&t->text, text);
}

const char *lm_jtok_name(const struct jtoken *t, char buf[64])
{
    static const char *const names[] = {
        [JT_DATA] = "template data / text", [JT_VAR_BEGIN] = "begin of print statement",
        [JT_VAR_END] = "end of print statement", [JT_BLOCK_BEGIN] = "begin of statement block",
        [JT_BLOCK_END] = "end of statement block", [JT_STRING] = "string",
        [JT_INT] = "integer", [JT_FLOAT] = "float", [JT_EOF] = "end of template",
    };
    if (t->kind != JT_NAME && t->kind != JT_OP)
        return names[t->kind];
    size_t n = t->text.len < 60 ? t->text.len : 60;
    while (n < t->text.len && n && ((unsigned char)t->text.p[n] & 0xC0) == 0x80)
        n--;
    memcpy(buf, t->text.p, n);
    buf[n] = 0;
    return buf;
}
