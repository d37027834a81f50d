/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_BUF_H
#define LM_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * struct lm_buf - bytes that grow.
 *
 * Zero-initialise it, add to it, release it.  Running out of memory sets
 * `failed` and makes further additions do nothing, so that a caller may check
 * once at the end.  data always has a NUL after its len bytes once anything
 * was added.
 */
struct lm_buf {
    char  *data;
    size_t len, cap;
    bool   failed;
};

/* Give the memory back and make the buffer empty. */
void lm_buf_release(struct lm_buf *b);

/* Make it empty, keep the memory. */
void lm_buf_clear(struct lm_buf *b);

/* Take the first n bytes away. */
void lm_buf_drop(struct lm_buf *b, size_t n);

/* Room for n more bytes beyond len; returns where they go, or NULL. */
char *lm_buf_room(struct lm_buf *b, size_t n);

/* Append n bytes, one byte, a C string, printf output. */
void lm_buf_add(struct lm_buf *b, const void *p, size_t n);
void lm_buf_byte(struct lm_buf *b, int c);
void lm_buf_str(struct lm_buf *b, const char *s);
void lm_buf_printf(struct lm_buf *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Append a number in decimal, n spaces: for tables, of which printf would take most of the
 * time. */
void lm_buf_u64(struct lm_buf *b, uint64_t v);
void lm_buf_spaces(struct lm_buf *b, size_t n);

/*
 * lm_buf_escape - append text from a file so that a terminal is safe and the
 * text can be read back: control characters, DEL, C1, backslash and bytes that
 * are not UTF-8 become \n \r \t \\ \xHH; everything else stays.
 */
void lm_buf_escape(struct lm_buf *b, const void *p, size_t n);

/*
 * lm_utf8_len - length in bytes of the well-formed UTF-8 character at p, which
 * has n > 0 bytes, or 0 if there is none (RFC 3629: no surrogates, nothing
 * above U+10FFFF, no overlong form).  *rune (may be NULL) is the code point.
 */
int lm_utf8_len(const void *p, size_t n, uint32_t *rune);

/* Append what n characters of base64 (RFC 4648, padded or not, blanks allowed) stand for; false,
 * with b as it was, when they are none. */
bool lm_buf_base64(struct lm_buf *b, const char *p, size_t n);

/* Append code point r as UTF-8; what is not a scalar value becomes U+FFFD. */
void lm_buf_rune(struct lm_buf *b, uint32_t r);

#endif
