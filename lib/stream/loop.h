/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_LOOP_H
#define LM_STREAM_LOOP_H

/*
 * The loop protocol, lmpipe-loop(5): request lines to `decode -i`.
 *
 *   [SEQ:] [@POS] [+K] id ...      SEQ: <OTHER      SEQ: x      (empty: 0: x)
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/input.h"

enum lm_request_kind { LM_REQ_APPEND, LM_REQ_COPY, LM_REQ_DROP };

struct lm_request {
    enum lm_request_kind kind;
    uint64_t             line;      /* from 0                                       */
    uint32_t             seq, other;
    bool                 has_pos;
    uint32_t             pos;       /* forget positions >= pos first                */
    uint32_t             want;      /* frames of the last `want` tokens             */
    int32_t             *ids;       /* [n_ids], the request's until released        */
    size_t               n_ids;
    bool                 malformed; /* the line could not be read: `why` says it    */
    char                 why[160];
};

struct lm_request_reader;
struct lm_request_reader *lm_request_reader_new(struct lm_in *in, struct lm_err *err);
void lm_request_reader_free(struct lm_request_reader *r);

/* Is a whole line (or the end of input) there without waiting? */
bool lm_request_ready(struct lm_request_reader *r);

/*
 * The next request, waiting if need be: 1 read (check ->malformed), 0 end of
 * input after whole lines, LM_EDATA for a '!' line or an end inside a line, or another code.
 */
int lm_request_next(struct lm_request_reader *r, struct lm_request *q, struct lm_err *err);
void lm_request_release(struct lm_request *q);

#endif
