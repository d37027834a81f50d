/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_TEXT_H
#define LM_GGUF_TEXT_H

/*
 * Metadata as text.  Each function appends to a buffer (whose `failed` says
 * whether memory was short), and whatever a file holds, the text is safe to
 * print, except where raw bytes are asked for.
 */

#include "base/buf.h"
#include "gguf/gguf.h"

/* A string as JSON; one that is not UTF-8 as {"bytes":"hex digits"}. */
void lm_gguf_str_json(struct lm_buf *b, const struct lm_str *s);

/* A value as JSON: arrays as arrays, non-finite floats as strings. */
void lm_gguf_value_json(struct lm_buf *b, const struct lm_gguf_kv *kv);

/* Element i of an array, the same way. */
void lm_gguf_element_json(struct lm_buf *b, const struct lm_gguf_arr *a, uint64_t i);

/* An entry as a line of a list of differences: a side, < or >, "key", key, kind, value. */
void lm_gguf_entry_line(struct lm_buf *b, char side, const struct lm_gguf_kv *kv, size_t limit);

/* An entry, and a tensor's info, as JSON objects; a tensor type without a name is its
 * number. */
void lm_gguf_entry_json(struct lm_buf *b, const struct lm_gguf_kv *kv);
void lm_gguf_tensor_json(struct lm_buf *b, const struct lm_gguf_tensor *t);

/* Are two values the same, of the same type?  Every NaN is; false when memory is short. */
bool lm_gguf_same_value(const struct lm_gguf_kv *a, const struct lm_gguf_kv *b);

/* A scalar, or element i of an array of scalars, as the bytes it stands for: strings
 * as they are, numbers as digits; nothing for an array. */
void lm_gguf_value_raw(struct lm_buf *b, const struct lm_gguf_kv *kv);
void lm_gguf_element_raw(struct lm_buf *b, const struct lm_gguf_arr *a, uint64_t i);

/* A value for a person: a string escaped (lm_buf_escape), an array as JSON.  Of long
 * ones only the beginning, about `limit` bytes, with what is missing; limit 0: all. */
void lm_gguf_value_text(struct lm_buf *b, const struct lm_gguf_kv *kv, size_t limit);

/* "u32", "str", for an array "str[49152]". */
void lm_gguf_kind_text(struct lm_buf *b, const struct lm_gguf_kv *kv);

#endif
