/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_JSON_H
#define LM_BASE_JSON_H

/*
 * JSON (RFC 8259): a pull reader for files of any size, a small tree for
 * configuration files, and what a writer needs.
 *
 * The reader works on bytes in memory, keeps no copy of them, and uses flat
 * memory whatever the input; nesting is limited to LM_JSON_DEPTH.  Strings may
 * hold NUL; a string with an unpaired surrogate or broken UTF-8 is an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define LM_JSON_DEPTH 128
#define LM_JSON_TREE_MAX (96u << 20)     /* bytes of a tree */

enum lm_json_kind {
    LM_JSON_ERROR = -1,          /* err is filled; every later call gives it again */
    LM_JSON_EOF   = 0,           /* after the one value of the text                */
    LM_JSON_OBJECT, LM_JSON_OBJECT_END,
    LM_JSON_ARRAY,  LM_JSON_ARRAY_END,
    LM_JSON_KEY,                 /* str: the member's name; its value comes next   */
    LM_JSON_STRING,              /* str                                            */
    LM_JSON_NUMBER,              /* str: the digits as written                     */
    LM_JSON_TRUE, LM_JSON_FALSE, LM_JSON_NULL,
};

struct lm_json {
    const char    *text;
    size_t         len, pos;
    struct lm_err *err;
    const char    *str;          /* of the last KEY, STRING or NUMBER; valid until */
    size_t         str_len;      /* the next call, NUL after it                    */
    size_t         at;           /* offset of the last token in text               */
    bool           slices;       /* set by the caller: a KEY or STRING without escapes is
                                    given where it stands in text, with no NUL after it */
    /* private */
    struct lm_buf  scratch;
    int            depth, state;
    bool           failed, skipping;             /* skipping: no strings are kept  */
    uint8_t        in_object[LM_JSON_DEPTH];
};

/* Start reading text, which is borrowed until lm_json_release; errors go to
 * err, with line and column. */
void lm_json_init(struct lm_json *j, const char *text, size_t len, struct lm_err *err);
void lm_json_release(struct lm_json *j);

/* The next token. */
enum lm_json_kind lm_json_next(struct lm_json *j);

/* Read over the value whose first token was `kind` (as lm_json_next returned
 * it): nothing for a scalar, all of an object or array.  LM_OK or LM_EDATA. */
int lm_json_skip(struct lm_json *j, enum lm_json_kind kind);

/* Was the last KEY or STRING exactly s? */
bool lm_json_is(const struct lm_json *j, const char *s);

/* A whole text as a tree in an arena: for configuration files, not for
 * tokenizers. */
struct lm_jval {
    enum lm_json_kind     kind;      /* OBJECT ARRAY STRING NUMBER TRUE FALSE NULL */
    const char           *str;       /* STRING, NUMBER: text, NUL after it         */
    size_t                len;       /* STRING: bytes; OBJECT, ARRAY: members      */
    const char           *key;       /* member name when inside an object          */
    size_t                key_len;
    const struct lm_jval *first;     /* OBJECT, ARRAY: members in order            */
    const struct lm_jval *next;      /* the next member of the parent              */
};

/* Parse the whole text; the tree lives in a and does not point into text.
 * NULL with *err filled when it is not one JSON value, when the tree would be larger than
 * LM_JSON_TREE_MAX (small values take some forty times their text), or when memory is short. */
const struct lm_jval *lm_json_tree(struct lm_arena *a, const char *text, size_t len,
                                   struct lm_err *err);

/* Member of an object by name (the last one if doubled), NULL if v is NULL, is
 * no object or has no such member. */
const struct lm_jval *lm_jval_get(const struct lm_jval *v, const char *key);

/* Values: true and *out set if v is of that kind and in range, else false with
 * *out unchanged, so that defaults can be set beforehand.  v may be NULL. */
bool lm_jval_f64(const struct lm_jval *v, double *out);
bool lm_jval_i64(const struct lm_jval *v, int64_t *out);
bool lm_jval_bool(const struct lm_jval *v, bool *out);
/* The string, or NULL; it may hold NUL, v->len tells. */
const char *lm_jval_str(const struct lm_jval *v);

/* Append n bytes as a JSON string with its quotes.  Bytes that are not UTF-8
 * become U+FFFD, one for as many as could begin a character (Unicode 3.9, "Best
 * Practices for Using U+FFFD"); control characters, U+007F and C1 are escaped. */
void lm_json_quote(struct lm_buf *b, const void *p, size_t n);

/* Append a number that reads back to the same value ("%.17g" at most, shortest
 * that works); non-finite ones as the strings "NaN", "Infinity", "-Infinity". */
void lm_json_f64(struct lm_buf *b, double v);
/* The same for a float: shortest text that reads back to the same float. */
void lm_json_f32(struct lm_buf *b, float v);

#endif
