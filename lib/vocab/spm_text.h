/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_SPM_TEXT_H
#define LM_VOCAB_SPM_TEXT_H

/*
 * Text as the SentencePiece library normalizes it before it cuts it: strings of a charsmap are
 * replaced (the longest at each place), user-defined pieces stay as they are, blanks at both
 * ends and runs of them may go, and a space may be added.  A byte that is not UTF-8 becomes
 * U+FFFD, unless the vocabulary falls back on bytes.
 */

#include "vocab/charsmap.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

struct lm_spm_text {
    struct lm_charsmap map;
    bool               has_map, extra_spaces, prefix, suffix;
    bool               keep_bytes;       /* those that are not UTF-8, as there are pieces */
    struct lm_trie     user;             /* of pieces of type user, as they are stored */
    struct lm_trie     user_spaced;      /* the same with spaces for marks             */
    bool               begins[256];      /* a piece of type user begins with this byte */
    bool               has_user;
};

/* From the fields of src for SentencePiece; v has pieces and types.  NULL with *err filled. */
struct lm_spm_text *lm_spm_text_new(const struct lm_vocab *v, const struct lm_vocab_src *src,
                                    struct lm_err *err);
void lm_spm_text_free(struct lm_spm_text *t);

/*
 * lm_spm_text_apply - append the text, normalized, to *out, which is empty.
 *
 * marks: spaces are written as U+2581, the mark; else marks that stand in the text are written
 * as spaces.  map, if not NULL, is filled.
 */
int lm_spm_text_apply(const struct lm_spm_text *t, const char *p, size_t len, bool marks,
                      struct lm_buf *out, struct lm_remap *map, struct lm_err *err);

/*
 * The same of text that may go on (more): st, zero at first, is where it stands, and *done bytes
 * of it were worked on.  Spaces at the end of *out go if nothing follows: lm_spm_text_trim is its
 * length without them.
 */
int lm_spm_text_part(const struct lm_spm_text *t, struct lm_spm_state *st, const char *p,
                     size_t len, bool more, bool marks, size_t *done, struct lm_buf *out,
                     struct lm_remap *map, struct lm_err *err);
size_t lm_spm_text_trim(const struct lm_spm_text *t, const struct lm_buf *b, bool marks);

/* How that library puts pieces together, from the same fields. */
enum lm_join lm_spm_join(const struct lm_vocab_src *src);

/* The longest user-defined piece at p, in text that has spaces for marks: its length, 0: none.
 * *open (may be NULL) is set if text behind end might make a difference. */
size_t lm_spm_text_user(const struct lm_spm_text *t, const char *p, const char *end, int32_t *id,
                        bool *open);

#endif
