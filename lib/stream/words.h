/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_WORDS_H
#define LM_STREAM_WORDS_H

/*
 * struct lm_words - lines of words, the text side of our streams.
 *
 * What token streams and the loop protocol have in common: words separated by
 * blanks (space, tab), lines that only a newline completes, and '!' where a word
 * could begin, with which a producer says that it failed.  Reads what is there,
 * never waits for more than the next word needs, and keeps one buffer whatever
 * the length of lines and words.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/input.h"

#define LM_WORD_MAX 64

enum lm_word_event {
    LM_WORD_FAILED = -1,   /* reading failed: *err filled                        */
    LM_WORD_END    = 0,    /* end of input after a whole line                    */
    LM_WORD_GOT    = 1,    /* word, word_len                                     */
    LM_WORD_LINE   = 2,    /* the newline of a line                              */
    LM_WORD_CUT    = 3,    /* end of input inside a line                         */
    LM_WORD_PEER   = 4,    /* '!' and the producer's text                        */
};

struct lm_words {
    char     word[LM_WORD_MAX];   /* its first bytes, NUL after them             */
    size_t   word_len;            /* its length, which may be more than fits     */
    char     text[256];           /* after PEER: what the producer said          */
    uint64_t line;                /* number of the current line, from 0; after
                                     LINE that of the line just completed        */
    /* private */
    struct lm_in *in;
    char         *buf;
    size_t        pos, len;
    bool          in_line, line_done, eof;
    enum lm_word_event last;      /* what ended the input, given again and again */
    struct lm_err      why;
};

/* Fill *w to read from in, which is borrowed.  LM_OK or LM_ENOMEM. */
int lm_words_init(struct lm_words *w, struct lm_in *in, struct lm_err *err);
void lm_words_release(struct lm_words *w);

/* The next event.  A word is given as soon as the byte after it has arrived.
 * FAILED, END, CUT and PEER are given again by every later call. */
enum lm_word_event lm_words_next(struct lm_words *w, struct lm_err *err);

/* Is the rest of a line, or the end of input, there without waiting?  A line
 * longer than the buffer counts as not there. */
bool lm_words_ready(struct lm_words *w);

/* Is there as much of a line as the buffer holds? */
bool lm_words_full(const struct lm_words *w);

/* What a word is worth as a token id. */
enum lm_word_id {
    LM_WORD_ID,            /* 0 .. 2^31-1: *id                                   */
    LM_WORD_BEYOND,        /* a whole number outside that range                  */
    LM_WORD_OTHER,         /* no whole number                                    */
};
enum lm_word_id lm_word_id(const struct lm_words *w, int32_t *id);

/* The word as a decimal number, 0.5 or -2e-3, that a float can have; false: it is none. */
bool lm_word_f32(const struct lm_words *w, float *out);

/* The word for a message: what fits of it, a NUL in it made visible, "..." where there is more. */
#define LM_WORD_SHOWN (4 * LM_WORD_MAX + 4)
const char *lm_word_show(const struct lm_words *w, char out[LM_WORD_SHOWN]);

/* s[0 .. len-1] as a decimal number that fits 32 bits. */
bool lm_word_u32(const char *s, size_t len, uint32_t *out);

#endif
