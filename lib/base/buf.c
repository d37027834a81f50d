/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

void lm_buf_release(struct lm_buf *b)
{
    free(b->data);
    *b = (struct lm_buf){ 0 };
}

void lm_buf_clear(struct lm_buf *b)
{
    b->len = 0;
    b->failed = false;
}

void lm_buf_drop(struct lm_buf *b, size_t n)
{
    if (n)
        memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

char *lm_buf_room(struct lm_buf *b, size_t n)
{
    size_t need;
    if (b->failed || __builtin_add_overflow(b->len, n, &need) || need == SIZE_MAX ||
        !lm_grow(&b->data, &b->cap, need + 1, 1)) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->len;
}

void lm_buf_add(struct lm_buf *b, const void *p, size_t n)
{
    char *to = lm_buf_room(b, n);
    if (!to)
        return;
    if (n)
        memcpy(to, p, n);
    b->len += n;
    b->data[b->len] = 0;
}

void lm_buf_byte(struct lm_buf *b, int c)
{
    char byte = (char)c;
    lm_buf_add(b, &byte, 1);
}

void lm_buf_str(struct lm_buf *b, const char *s)
{
    lm_buf_add(b, s, strlen(s));
}

void lm_buf_printf(struct lm_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *to = n < 0 ? NULL : lm_buf_room(b, (size_t)n);
    if (!to) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(to, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

int lm_utf8_len(const void *p, size_t n, uint32_t *rune)
{
    const unsigned char *s = p;
    uint32_t r = s[0], min;
    int len;

    if (r < 0x80)      { len = 1; min = 0; }
    else if (r < 0xC2) return 0;
    else if (r < 0xE0) { len = 2; min = 0x80;    r &= 31; }
    else if (r < 0xF0) { len = 3; min = 0x800;   r &= 15; }
    else if (r < 0xF5) { len = 4; min = 0x10000; r &= 7; }
    else return 0;
    if ((size_t)len > n)
        return 0;
    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        r = r << 6 | (s[i] & 63);
    }
    if (r < min || r > 0x10FFFF || (r >= 0xD800 && r < 0xE000))
        return 0;
    if (rune)
        *rune = r;
    return len;
}

void lm_buf_rune(struct lm_buf *b, uint32_t r)
{
    char s[4];
    int n;
    if (r > 0x10FFFF || (r >= 0xD800 && r < 0xE000))
        r = 0xFFFD;
    if (r < 0x80) {
        s[0] = (char)r;
        n = 1;
    } else if (r < 0x800) {
        s[0] = (char)(0xC0 | r >> 6);
        s[1] = (char)(0x80 | (r & 63));
        n = 2;
    } else if (r < 0x10000) {
        s[0] = (char)(0xE0 | r >> 12);
        s[1] = (char)(0x80 | (r >> 6 & 63));
        s[2] = (char)(0x80 | (r & 63));
        n = 3;
    } else {
        s[0] = (char)(0xF0 | r >> 18);
        s[1] = (char)(0x80 | (r >> 12 & 63));
        s[2] = (char)(0x80 | (r >> 6 & 63));
        s[3] = (char)(0x80 | (r & 63));
        n = 4;
    }
    lm_buf_add(b, s, (size_t)n);
}

void lm_buf_u64(struct lm_buf *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + v % 10);
    while (v /= 10);
    lm_buf_add(b, digits + at, sizeof digits - at);
}

void lm_buf_spaces(struct lm_buf *b, size_t n)
{
    char *p = lm_buf_room(b, n);
    if (!p)
        return;
    memset(p, ' ', n);
    b->len += n;
    b->data[b->len] = '\0';
}

void lm_buf_escape(struct lm_buf *b, const void *p, size_t n)
{
    const unsigned char *s = p;
    for (size_t i = 0; i < n;) {
        uint32_t r;
        int len = lm_utf8_len(s + i, n - i, &r);
        if (len == 0 || r < 0x20 || (r >= 0x7F && r < 0xA0) || r == '\\') {
            const char *names = "n\nr\rt\t\\\\";      /* letter, character */
            const char *hit = NULL;
            for (const char *k = names; len && *k && !hit; k += 2)
                if ((unsigned char)k[1] == r)
                    hit = k;
            int stop = len ? len : 1;
            if (hit)
                lm_buf_printf(b, "\\%c", *hit);
            else
                for (int k = 0; k < stop; k++)
                    lm_buf_printf(b, "\\x%02X", s[i + (size_t)k]);
            i += (size_t)stop;
        } else {
            lm_buf_add(b, s + i, (size_t)len);
            i += (size_t)len;
        }
    }
}

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

bool lm_buf_base64(struct lm_buf *b, const char *p, size_t n)
{
    const size_t from = b->len;
    uint32_t bits = 0;
    size_t k = 0, pads = 0;                      /* characters of a group of four */
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n' || p[i] == '\r' || p[i] == ' ' || p[i] == '\t')
            continue;
        int v = p[i] == '=' ? 0 : base64_value(p[i]);
        pads += p[i] == '=';
        if (v < 0 || (pads && p[i] != '=') || pads > 2 || (p[i] == '=' && k < 2)) {
            b->len = from;
            return false;
        }
        bits = bits << 6 | (uint32_t)v;
        if (++k < 4)
            continue;
        for (size_t j = 0; j < 3 - pads; j++)
            lm_buf_byte(b, (int)(bits >> (16 - 8 * j) & 255));
        k = 0;
        bits = 0;
    }
    if (k == 1 || (pads && k)) {
        b->len = from;
        return false;
    }
    for (size_t j = 0; k && j < k - 1; j++)      /* not padded */
        lm_buf_byte(b, (int)(bits >> (6 * k - 8 - 8 * j) & 255));
    return true;
}
