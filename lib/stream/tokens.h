/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_TOKENS_H
#define LM_STREAM_TOKENS_H

/*
 * Token streams, lmpipe-tokens(5): a sequence a line, decimal ids separated by
 * blanks.  Only the newline completes a sequence; a line that begins with '!' is
 * the producer's error text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/input.h"

struct lm_token_reader;

/* Read from in, which is borrowed. */
struct lm_token_reader *lm_token_reader_new(struct lm_in *in, struct lm_err *err);
void lm_token_reader_free(struct lm_token_reader *r);

enum lm_token_event {
    LM_TOKEN_ERROR = -1,   /* *err filled: malformed id, '!' line, end inside a line
                              (LM_EDATA), or a read error                          */
    LM_TOKEN_END   = 0,    /* end of input, after whole lines                      */
    LM_TOKEN_ID    = 1,    /* *id is the next id of the current line               */
    LM_TOKEN_LINE  = 2,    /* the line is complete                                 */
};

/* The next event; ids come as soon as the blank or newline after them has arrived.  An
 * id is 0 .. 2^31-1; anything else is an error that shows the text. */
enum lm_token_event lm_token_next(struct lm_token_reader *r, int32_t *id, struct lm_err *err);

/* Line number from 0, of the current or just completed line. */
uint64_t lm_token_line(const struct lm_token_reader *r);

/* A whole line: ids appended to *ids (grown with lm_grow; *n, *cap).  1 line read,
 * 0 end of input, or a code below 0. */
int lm_token_read_line(struct lm_token_reader *r, int32_t **ids, size_t *n, size_t *cap,
                       struct lm_err *err);

#endif
