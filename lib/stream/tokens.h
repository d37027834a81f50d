/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_TOKENS_H
#define LM_STREAM_TOKENS_H

/*
 * Token streams, lmpipe-tokens(5): a sequence a line, decimal ids separated by
 * blanks.  Only the newline completes a sequence.  Where an id could begin, '!'
 * and one line of text say that the producer failed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/input.h"

struct lm_token_reader;

/* Read from in, which is borrowed; NULL with *err filled when memory is short. */
struct lm_token_reader *lm_token_reader_new(struct lm_in *in, struct lm_err *err);
void lm_token_reader_free(struct lm_token_reader *r);

/* From now on ids of n_vocab and more are faults; 0 (at the start): any id is good. */
void lm_token_set_vocab(struct lm_token_reader *r, uint32_t n_vocab);

enum lm_token_event {
    LM_TOKEN_ERROR = -1,   /* *err filled; lm_token_fault says what is wrong       */
    LM_TOKEN_END   = 0,    /* end of input, after whole lines                      */
    LM_TOKEN_ID    = 1,    /* *id is the next id of the current line               */
    LM_TOKEN_LINE  = 2,    /* the line is complete                                 */
};

enum lm_token_fault {
    LM_TOKENS_GOOD,
    LM_TOKENS_MALFORMED,   /* no number; LM_EDATA, and the text shows the word     */
    LM_TOKENS_RANGE,       /* outside the vocabulary, or above 2^31-1; LM_EDATA    */
    LM_TOKENS_CUT,         /* end of input inside a line; LM_EDATA                 */
    LM_TOKENS_PEER,        /* '!': lm_token_peer_text; LM_EDATA                    */
    LM_TOKENS_READ,        /* the input could not be read                          */
};

/* The next event; ids come as soon as the blank or newline after them has arrived.
 * ERROR and END are given again by every later call. */
enum lm_token_event lm_token_next(struct lm_token_reader *r, int32_t *id, struct lm_err *err);

/* Is a whole line, the end of input or a fault there without waiting?  Of a line longer than 64 KiB
 * it is enough that so much is there. */
bool lm_token_ready(struct lm_token_reader *r);

/* Line number from 0, of the current or just completed line. */
uint64_t lm_token_line(const struct lm_token_reader *r);

/* What the last ERROR was about, and after LM_TOKENS_PEER the producer's text
 * as it came (the reader's). */
enum lm_token_fault lm_token_fault(const struct lm_token_reader *r);
const char *lm_token_peer_text(const struct lm_token_reader *r);

/* A whole line: ids appended to *ids (grown with lm_grow; *n, *cap).  1 line read,
 * 0 end of input, or a code below 0, with the ids before the fault appended. */
int lm_token_read_line(struct lm_token_reader *r, int32_t **ids, size_t *n, size_t *cap,
                       struct lm_err *err);

#endif
