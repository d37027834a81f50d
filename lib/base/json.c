/* SPDX-License-Identifier: MIT */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What may come next. */
enum {
    VALUE,           /* a value                                       */
    FIRST_KEY,       /* just after '{': a key or '}'                  */
    FIRST_ITEM,      /* just after '[': a value or ']'                */
    AFTER,           /* after a value: ',' or the end of the container */
    DONE             /* after the whole value                         */
};

void lm_json_init(struct lm_json *j, const char *text, size_t len, struct lm_err *err)
{
    *j = (struct lm_json){ .text = text, .len = len, .err = err, .state = VALUE };
}

void lm_json_release(struct lm_json *j)
{
    lm_buf_release(&j->scratch);
}

static enum lm_json_kind fail(struct lm_json *j, size_t at, const char *what)
{
    if (!j->failed) {
        size_t line = 1, start = 0;
        for (size_t i = 0; i < at && i < j->len; i++)
            if (j->text[i] == '\n') {
                line++;
                start = i + 1;
            }
        lm_fail(j->err, LM_EDATA, "line %zu, column %zu: %s", line, at - start + 1, what);
    }
    j->failed = true;
    return LM_JSON_ERROR;
}

static enum lm_json_kind fail_memory(struct lm_json *j)
{
    if (!j->failed)
        lm_fail_nomem(j->err);
    j->failed = true;
    return LM_JSON_ERROR;
}

/* How many spaces text begins with, of 8 bytes; in indented files they are half of all. */
static size_t spaces(const char *p)
{
    uint64_t w;
    memcpy(&w, p, 8);
    w ^= 0x2020202020202020u;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return w ? (size_t)__builtin_clzll(w) / 8 : 8;
#else
    return w ? (size_t)__builtin_ctzll(w) / 8 : 8;
#endif
}

static int peek(struct lm_json *j)
{
    size_t i = j->pos, n;
    while (i < j->len) {
        char c = j->text[i];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
            j->pos = i;
            return (unsigned char)c;
        }
        i++;
        for (n = 8; n == 8 && j->len - i >= 8; i += n)
            n = spaces(j->text + i);
    }
    j->pos = i;
    return -1;
}

/* Four hexadecimal digits at p, or -1. */
static long hex4(const char *p, const char *end)
{
    long v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i];
        int d = c >= '0' && c <= '9' ? c - '0'
              : c >= 'a' && c <= 'f' ? c - 'a' + 10
              : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* The escape after the backslash at text[*pos]; moves *pos behind it. */
static bool escape(struct lm_json *j, size_t *pos)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *p = j->text + *pos + 1, *end = j->text + j->len;
    if (p == end)
        return false;
    if (*p != 'u') {
        const char *hit = *p ? strchr(from, *p) : NULL;
        if (!hit)
            return false;
        lm_buf_byte(&j->scratch, to[hit - from]);
        *pos += 2;
        return true;
    }
    long u = hex4(p + 1, end), low;
    size_t used = 6;
    if (u < 0 || (u >= 0xDC00 && u < 0xE000))
        return false;
    if (u >= 0xD800 && u < 0xDC00) {
        if (end - p < 11 || p[5] != '\\' || p[6] != 'u')
            return false;
        low = hex4(p + 7, end);
        if (low < 0xDC00 || low >= 0xE000)
            return false;
        u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
        used = 12;
    }
    lm_buf_rune(&j->scratch, (uint32_t)u);
    *pos += used;
    return true;
}

/* How many of the bytes in w, of the lowest addresses, are plain: printable ASCII that is no
 * quote and no backslash. */
static size_t plain_bytes(uint64_t w)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
    /* the high bit of a byte that is 0, or below 0x20; what it borrows is above the first */
    uint64_t stop = ((quote - ones) | (slash - ones) | (w - ones * 0x20) | w) & high;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return stop ? 0 : 8;                         /* it borrows from those before it */
#else
    return stop ? (size_t)__builtin_ctzll(stop) / 8 : 8;
#endif
}

/* The end of the plain bytes from i on. */
static size_t skip_plain(const struct lm_json *j, size_t i)
{
    size_t n = 8;
    for (uint64_t w; n == 8 && j->len - i >= 8; i += n) {
        memcpy(&w, j->text + i, 8);
        n = plain_bytes(w);
    }
    return i;
}

/* lm_buf_add, without the call where there is room, which is nearly always. */
static inline void add(struct lm_buf *b, const char *p, size_t n)
{
    if (b->failed || b->cap - b->len <= n || n > 32) {
        lm_buf_add(b, p, n);
        return;
    }
    char *to = b->data + b->len;
    for (; n >= 8; n -= 8, p += 8, to += 8)
        memcpy(to, p, 8);
    for (; n; n--)
        *to++ = *p++;
    *to = 0;
    b->len = (size_t)(to - b->data);
}

/* The string whose opening quote is at pos, decoded into scratch. */
static bool string(struct lm_json *j)
{
    const size_t begin = j->pos + 1;
    size_t i = begin, from = i;
    lm_buf_clear(&j->scratch);
    for (;;) {
        i = skip_plain(j, i);
        if (i >= j->len) {
            fail(j, j->pos, "string without end");
            return false;
        }
        unsigned char c = (unsigned char)j->text[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            continue;
        }
        if (c >= 0xE1 && c < 0xED && j->len - i > 2 && (j->text[i + 1] & 0xC0) == 0x80 &&
            (j->text[i + 2] & 0xC0) == 0x80) {
            i += 3;                              /* most of what is not ASCII */
            continue;
        }
        if (c >= 0x80) {
            int n = lm_utf8_len(j->text + i, j->len - i, NULL);
            if (!n) {
                fail(j, i, "string is not UTF-8");
                return false;
            }
            i += (size_t)n;
            continue;
        }
        if (c < 0x20) {
            fail(j, i, "control character in a string");
            return false;
        }
        if (c == '"' && j->slices && from == begin) {
            j->pos = i + 1;
            j->str = j->text + begin;
            j->str_len = i - begin;
            return true;
        }
        if (!j->skipping)
            add(&j->scratch, j->text + from, i - from);
        if (c == '"')
            break;
        size_t at = i;
        if (!escape(j, &i)) {
            fail(j, at, "bad escape in a string");
            return false;
        }
        from = i;
    }
    j->pos = i + 1;
    j->str = j->scratch.data;
    j->str_len = j->scratch.len;
    if (j->scratch.failed)
        fail_memory(j);
    return !j->failed;
}

static size_t digits(struct lm_json *j, size_t i)
{
    while (i < j->len && j->text[i] >= '0' && j->text[i] <= '9')
        i++;
    return i;
}

static enum lm_json_kind number(struct lm_json *j)
{
    size_t i = j->pos, k;
    if (j->text[i] == '-')
        i++;
    k = digits(j, i);
    if (k == i || (k > i + 1 && j->text[i] == '0'))
        return fail(j, j->pos, "malformed number");
    i = k;
    if (i < j->len && j->text[i] == '.') {
        k = digits(j, i + 1);
        if (k == i + 1)
            return fail(j, j->pos, "malformed number");
        i = k;
    }
    if (i < j->len && (j->text[i] == 'e' || j->text[i] == 'E')) {
        i++;
        if (i < j->len && (j->text[i] == '+' || j->text[i] == '-'))
            i++;
        k = digits(j, i);
        if (k == i)
            return fail(j, j->pos, "malformed number");
        i = k;
    }
    lm_buf_clear(&j->scratch);
    add(&j->scratch, j->text + j->pos, i - j->pos);
    if (j->scratch.failed)
        return fail_memory(j);
    j->pos = i;
    j->str = j->scratch.data;
    j->str_len = j->scratch.len;
    return LM_JSON_NUMBER;
}

static enum lm_json_kind word(struct lm_json *j, const char *w, enum lm_json_kind kind)
{
    size_t n = strlen(w);
    if (j->len - j->pos < n || memcmp(j->text + j->pos, w, n))
        return fail(j, j->pos, "not a JSON value");
    j->pos += n;
    return kind;
}

static enum lm_json_kind opened(struct lm_json *j, bool object)
{
    if (j->depth == LM_JSON_DEPTH)
        return fail(j, j->pos, "nested too deeply");
    j->in_object[j->depth++] = object;
    j->pos++;
    j->state = object ? FIRST_KEY : FIRST_ITEM;
    return object ? LM_JSON_OBJECT : LM_JSON_ARRAY;
}

static enum lm_json_kind closed(struct lm_json *j, bool object)
{
    j->pos++;
    j->depth--;
    j->state = j->depth ? AFTER : DONE;
    return object ? LM_JSON_OBJECT_END : LM_JSON_ARRAY_END;
}

/* What is no value; editors and shells of other systems begin a text with a mark. */
static enum lm_json_kind no_value(struct lm_json *j)
{
    static const struct { const char *mark, *what; } marks[] = {
        { "\xEF\xBB\xBF", "a byte order mark, which JSON does not have" },
        { "\xFF\xFE", "UTF-16: JSON is UTF-8" }, { "\xFE\xFF", "UTF-16: JSON is UTF-8" },
    };
    for (size_t i = 0; j->pos == 0 && i < sizeof marks / sizeof *marks; i++)
        if (j->len >= strlen(marks[i].mark) &&
            memcmp(j->text, marks[i].mark, strlen(marks[i].mark)) == 0)
            return fail(j, j->pos, marks[i].what);
    return fail(j, j->pos, "not a JSON value");
}

static enum lm_json_kind value(struct lm_json *j)
{
    int c = peek(j);
    enum lm_json_kind k;
    j->at = j->pos;
    switch (c) {
    case '{': return opened(j, true);
    case '[': return opened(j, false);
    case '"': k = string(j) ? LM_JSON_STRING : LM_JSON_ERROR; break;
    case 't': k = word(j, "true", LM_JSON_TRUE); break;
    case 'f': k = word(j, "false", LM_JSON_FALSE); break;
    case 'n': k = word(j, "null", LM_JSON_NULL); break;
    case -1:  return fail(j, j->pos, "the text ends where a value is due");
    default:
        if (c != '-' && (c < '0' || c > '9'))
            return no_value(j);
        k = number(j);
    }
    j->state = j->depth ? AFTER : DONE;
    return k;
}

static enum lm_json_kind key(struct lm_json *j)
{
    int c = peek(j);
    j->at = j->pos;
    if (c != '"')
        return fail(j, j->pos, "a member's name is due");
    if (!string(j))
        return LM_JSON_ERROR;
    if (peek(j) != ':')
        return fail(j, j->pos, "':' is due");
    j->pos++;
    j->state = VALUE;
    return LM_JSON_KEY;
}

enum lm_json_kind lm_json_next(struct lm_json *j)
{
    if (j->failed)
        return LM_JSON_ERROR;
    int c = peek(j);
    j->at = j->pos;
    bool object = j->depth && j->in_object[j->depth - 1];
    switch (j->state) {
    case FIRST_KEY:
        return c == '}' ? closed(j, true) : key(j);
    case FIRST_ITEM:
        return c == ']' ? closed(j, false) : value(j);
    case AFTER:
        if (c == (object ? '}' : ']'))
            return closed(j, object);
        if (c != ',')
            return fail(j, j->pos, object ? "',' or '}' is due" : "',' or ']' is due");
        j->pos++;
        return object ? key(j) : value(j);
    case DONE:
        return c == -1 ? LM_JSON_EOF : fail(j, j->pos, "text after the value");
    default:
        return value(j);
    }
}

int lm_json_skip(struct lm_json *j, enum lm_json_kind kind)
{
    int open = kind == LM_JSON_OBJECT || kind == LM_JSON_ARRAY;
    int s = LM_OK;
    j->skipping = open;
    while (open && s == LM_OK) {
        switch (lm_json_next(j)) {
        case LM_JSON_OBJECT: case LM_JSON_ARRAY:         open++; break;
        case LM_JSON_OBJECT_END: case LM_JSON_ARRAY_END: open--; break;
        case LM_JSON_ERROR: case LM_JSON_EOF:            s = LM_EDATA; break;
        default: break;
        }
    }
    j->skipping = false;
    return j->failed ? LM_EDATA : s;
}

bool lm_json_is(const struct lm_json *j, const char *s)
{
    return j->str_len == strlen(s) && !memcmp(j->str, s, j->str_len);
}

/* Fill v from the token just read; containers get their members later. */
static bool take(struct lm_arena *a, struct lm_json *j, struct lm_jval *v, enum lm_json_kind kind)
{
    v->kind = kind;
    if (kind == LM_JSON_STRING || kind == LM_JSON_NUMBER) {
        v->str = lm_arena_copy(a, j->str, j->str_len);
        v->len = j->str_len;
        if (!v->str)
            fail_memory(j);
    }
    return !j->failed;
}

/* Reads the tokens of one text into a tree; stack[d] is the open container at
 * depth d, tail[d] where its next member goes. */
static const struct lm_jval *tree(struct lm_arena *a, struct lm_json *j)
{
    struct lm_jval *stack[LM_JSON_DEPTH + 1], *root = NULL;
    const struct lm_jval **tail[LM_JSON_DEPTH + 1];
    const struct lm_jval *top = NULL;
    int depth = 0;
    const char *name = NULL;
    size_t name_len = 0;
    const size_t most = a->used + LM_JSON_TREE_MAX;

    tail[0] = &top;
    for (;;) {
        enum lm_json_kind k = lm_json_next(j);
        if (k != LM_JSON_ERROR && a->used > most)
            k = fail(j, j->at, "more values than a configuration has: its tree is beyond 96 MiB");
        if (k == LM_JSON_ERROR)
            return NULL;
        if (k == LM_JSON_EOF)
            return root;
        if (k == LM_JSON_OBJECT_END || k == LM_JSON_ARRAY_END) {
            depth--;
            continue;
        }
        if (k == LM_JSON_KEY) {
            name = lm_arena_copy(a, j->str, j->str_len);
            name_len = j->str_len;
            if (!name) {
                fail_memory(j);
                return NULL;
            }
            continue;
        }
        struct lm_jval *v = lm_arena_alloc(a, sizeof *v);
        if (!v) {
            fail_memory(j);
            return NULL;
        }
        if (!take(a, j, v, k))
            return NULL;
        v->key = name;
        v->key_len = name_len;
        name = NULL;
        name_len = 0;
        *tail[depth] = v;
        tail[depth] = &v->next;
        if (depth)
            stack[depth]->len++;
        else
            root = v;
        if (k == LM_JSON_OBJECT || k == LM_JSON_ARRAY) {
            depth++;
            stack[depth] = v;
            tail[depth] = &v->first;
        }
    }
}

const struct lm_jval *lm_json_tree(struct lm_arena *a, const char *text, size_t len,
                                   struct lm_err *err)
{
    struct lm_json j;
    lm_json_init(&j, text, len, err);
    const struct lm_jval *v = tree(a, &j);
    lm_json_release(&j);
    return v;
}

const struct lm_jval *lm_jval_get(const struct lm_jval *v, const char *name)
{
    const struct lm_jval *found = NULL;
    if (!v || v->kind != LM_JSON_OBJECT)
        return NULL;
    size_t n = strlen(name);
    for (const struct lm_jval *m = v->first; m; m = m->next)
        if (m->key_len == n && !memcmp(m->key, name, n))
            found = m;
    return found;
}

bool lm_jval_f64(const struct lm_jval *v, double *out)
{
    if (!v || v->kind != LM_JSON_NUMBER)
        return false;
    double d = strtod(v->str, NULL);
    if (!isfinite(d))
        return false;
    *out = d;
    return true;
}

bool lm_jval_i64(const struct lm_jval *v, int64_t *out)
{
    if (!v || v->kind != LM_JSON_NUMBER)
        return false;
    char *end;
    errno = 0;
    long long i = strtoll(v->str, &end, 10);
    if (errno)
        return false;
    if (*end) {                         /* 1e3 and 4.0 are integers, 4.5 is not */
        double d = strtod(v->str, NULL);
        if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != floor(d))
            return false;
        i = (long long)d;
    }
    *out = i;
    return true;
}

bool lm_jval_bool(const struct lm_jval *v, bool *out)
{
    if (!v || (v->kind != LM_JSON_TRUE && v->kind != LM_JSON_FALSE))
        return false;
    *out = v->kind == LM_JSON_TRUE;
    return true;
}

const char *lm_jval_str(const struct lm_jval *v)
{
    return v && v->kind == LM_JSON_STRING ? v->str : NULL;
}

/* How many of the n bytes at s, where no character is, one U+FFFD stands for: as many as could
 * begin a character, or one. */
static size_t broken_len(const unsigned char *s, size_t n)
{
    unsigned char first = s[0];
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    size_t more = first < 0xC2 || first > 0xF4 ? 0 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
    size_t k = 1;
    for (; k <= more && k < n && s[k] >= low && s[k] <= high; k++) {
        low = 0x80;
        high = 0xBF;
    }
    return k;
}

void lm_json_quote(struct lm_buf *b, const void *p, size_t n)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *s = p;
    lm_buf_byte(b, '"');
    for (size_t i = 0; i < n;) {
        uint32_t r;
        int len = lm_utf8_len(s + i, n - i, &r);
        const char *hit = len && r && r < 0x80 ? strchr(from, (int)r) : NULL;
        if (!len) {
            lm_buf_rune(b, 0xFFFD);
            i += broken_len((const unsigned char *)s + i, n - i);
            continue;
        }
        if (hit)
            lm_buf_printf(b, "\\%c", to[hit - from]);
        else if (r < 0x20 || (r >= 0x7F && r < 0xA0))
            lm_buf_printf(b, "\\u%04x", r);
        else
            lm_buf_add(b, s + i, (size_t)len);
        i += (size_t)len;
    }
    lm_buf_byte(b, '"');
}

/* Non-finite values as JSON has them: not at all, so as strings. */
static bool odd(struct lm_buf *b, double v)
{
    if (isfinite(v))
        return false;
    lm_buf_str(b, isnan(v) ? "\"NaN\"" : v > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    return true;
}

void lm_json_f64(struct lm_buf *b, double v)
{
    char text[40];
    if (odd(b, v))
        return;
    for (int prec = 15; prec <= 17; prec++) {
        snprintf(text, sizeof text, "%.*g", prec, v);
        if (strtod(text, NULL) == v)
            break;
    }
    lm_buf_str(b, text);
}

void lm_json_f32(struct lm_buf *b, float v)
{
    char text[40];
    if (odd(b, (double)v))
        return;
    for (int prec = 6; prec <= 9; prec++) {
        snprintf(text, sizeof text, "%.*g", prec, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    lm_buf_str(b, text);
}
