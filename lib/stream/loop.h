/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_LOOP_H
#define LM_STREAM_LOOP_H

/*
 * The loop protocol, lmpipe-loop(5): request lines to `decode -i`.
 *
 *   [SEQ:] [@POS] [+K] id ...      forget positions from POS on, append the ids
 *                                  and answer with the frames of the last K
 *   SEQ: <OTHER                    SEQ becomes a copy of OTHER
 *   SEQ: x                         drop SEQ; an empty line is 0: x
 *   SEQ: e id ...                  the ids go to the encoder of SEQ
 *   SEQ: s SCALE ...               SEQ has these scales for its adapters from now on, or, if there
 *                                  are none, those that all have
 *   [SEQ:] [@POS] ?N id            answer with the N ids that the draft head guesses to follow
 *                                  if id came at POS, the end of the sequence if not said
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/input.h"

enum lm_loop_code {        /* token of an error frame                              */
    LM_LOOP_FINE           = 0,
    LM_LOOP_MALFORMED      = 1,
    LM_LOOP_ID             = 2,   /* outside the vocabulary                        */
    LM_LOOP_TRAINED_LENGTH = 3,   /* longer than the model's training length       */
    LM_LOOP_CONTEXT        = 4,   /* longer than -c                                */
    LM_LOOP_MEMORY         = 5,
    LM_LOOP_UNSUPPORTED    = 6,
};

/* The exit status that belongs to an error frame that ends the work: 1 or 2. */
int lm_loop_status(uint32_t code);

enum lm_request_kind {
    LM_REQ_APPEND, LM_REQ_COPY, LM_REQ_DROP, LM_REQ_ENCODE, LM_REQ_GUESS, LM_REQ_SCALES
};

#define LM_REQUEST_SCALES 4096          /* more in one line are a fault            */

/* Zero-initialise it once; reading into it again reuses its memory. */
struct lm_request {
    enum lm_request_kind kind;
    enum lm_loop_code    fault;     /* not LM_LOOP_FINE: the line cannot be done,    */
    char                 why[160];  /* in words; the loop goes on                    */
    uint64_t             line;      /* from 0                                        */
    uint32_t             seq, other;
    bool                 has_pos;
    uint32_t             pos;       /* forget positions >= pos first; GUESS: look at
                                       those before it                               */
    uint32_t             want;      /* frames of the last `want` tokens, <= n_ids; GUESS:
                                       ids, at least 1                               */
    int32_t              next;      /* GUESS: the id, and n_ids is 0                 */
    int32_t             *ids;       /* the first n_ids, max_ids at most              */
    size_t               n_ids, cap;
    float               *scales;    /* SCALES: [n_scales], finite                    */
    size_t               n_scales, scales_cap;
};
void lm_request_release(struct lm_request *q);

struct lm_request_reader;

/* Read from in, which is borrowed.  Ids of n_vocab and more are faults (0: any id is
 * good); of a line with more than max_ids ids the others are counted, not kept. */
struct lm_request_reader *lm_request_reader_new(struct lm_in *in, uint32_t n_vocab,
                                                size_t max_ids, struct lm_err *err);
void lm_request_reader_free(struct lm_request_reader *r);

/* Is a whole line (or the end of input) there without waiting? */
bool lm_request_ready(struct lm_request_reader *r);

/*
 * The next request, waiting if need be: 1 read (check ->fault), 0 end of input after
 * whole lines, LM_EDATA for '!' or an end inside a line, or another code.  q->line
 * and *err are filled in these cases too.
 */
int lm_request_next(struct lm_request_reader *r, struct lm_request *q, struct lm_err *err);

#endif
