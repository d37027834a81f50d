/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_BERT_TEXT_H
#define LM_VOCAB_BERT_TEXT_H

/*
 * Text as BERT's tokenizers see it: cleaned, lower-cased, without accents, and cut at blanks
 * and punctuation.  The Hugging Face library's "BertNormalizer" and "BertPreTokenizer",
 * whose classes of characters are those of an older Unicode (8.0).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "vocab/unicode.h"

enum {
    LM_BERT_CLEAN   = 1,     /* controls, NUL and U+FFFD go, blanks become spaces       */
    LM_BERT_CHINESE = 2,     /* spaces around each Chinese character                    */
    LM_BERT_STRIP   = 4,     /* form D, and its nonspacing marks go                     */
    LM_BERT_LOWER   = 8,     /* lower case, each character by itself                    */
};

/*
 * lm_bert_normalize - append the text, normalized, to *out.
 *
 * opts are LM_BERT_ bits; they are done in the order above.  A byte that is not UTF-8 stays,
 * or goes as U+FFFD does.  map, if not NULL, is filled.  Linear time.
 */
int lm_bert_normalize(const char *p, size_t len, unsigned opts, struct lm_buf *out,
                      struct lm_remap *map, struct lm_err *err);

/* The length of a begin of the text that may be normalized by itself, whatever follows: up to
 * the last character that neither goes nor joins with what stands before it. */
size_t lm_bert_settled(const char *p, size_t len);

/* Is it punctuation, a word of its own? */
bool lm_bert_punct(uint32_t rune);

/* The lower case of a character, one to three of them; their number. */
int lm_rune_lower(uint32_t rune, uint32_t to[3]);

#endif
