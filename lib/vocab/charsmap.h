/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_CHARSMAP_H
#define LM_VOCAB_CHARSMAP_H

/*
 * SentencePiece's precompiled normalization: what strings of characters become.
 *
 * The blob (precompiled_charsmap of a model, of a GGUF file, and in base64 of a
 * tokenizer.json) is
 *   1. u32, little-endian: the size of the trie in bytes, a multiple of 4
 *   2. the trie: units of u32, little-endian, a double array
 *      (bits 0-7 label, 8 has a leaf, 9 and 10-31 offset; a leaf's bits 0-30 are its value)
 *   3. the replacements, each with a NUL behind it; a value is an offset into these
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "vocab/unicode.h"

struct lm_charsmap {
    uint32_t *unit;
    size_t    n;
    char     *text;              /* replacements, a NUL behind the last             */
    size_t    text_len;
    bool      plain[128];        /* an ASCII character that stays as it is          */
};

/* Take a blob apart; nothing of it is kept.  LM_EDATA when it is none. */
int lm_charsmap_init(struct lm_charsmap *m, const void *blob, size_t len, struct lm_err *err);
void lm_charsmap_release(struct lm_charsmap *m);

/* So many bytes may become of one at most, by a bound that the usual maps reach (11). */
double lm_charsmap_growth(const struct lm_charsmap *m);

/* The longest string at p that is replaced: its length and the replacement; 0: none.  *open
 * (may be NULL) is set if text behind end might make a difference. */
size_t lm_charsmap_longest(const struct lm_charsmap *m, const char *p, const char *end,
                           struct lm_str *to, bool *open);

/*
 * lm_charsmap_apply - append the text, normalized as the Hugging Face library's
 * "Precompiled" does, to *out.
 *
 * It goes by grapheme clusters.  One of fewer than 6 bytes that begins with a string of the
 * map is replaced as a whole by what the shortest such string becomes; of the others each
 * character is looked up by itself.  A byte that is not UTF-8 stays.  map, if not NULL, is
 * filled.  Linear time, no memory but *out's and *map's.
 */
int lm_charsmap_apply(const struct lm_charsmap *m, const char *p, size_t len,
                      struct lm_buf *out, struct lm_remap *map, struct lm_err *err);

/* The same of text that may go on (more): *done bytes of it were worked on, which is all but the
 * last cluster. */
int lm_charsmap_part(const struct lm_charsmap *m, const char *p, size_t len, bool more,
                     size_t *done, struct lm_buf *out, struct lm_remap *map, struct lm_err *err);

#endif
