/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_REASONING_H
#define LM_JOB_REASONING_H

/*
 * How long a model may think: the tokens between two tags are counted, and when there are as many
 * as allowed, the ids of a message and of the end tag are put in.
 *
 * Tags are found in the text of ids, control tokens included, also in the prompt, which may have
 * begun to think.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "vocab/vocab.h"

struct lm_reasoning {
    const struct lm_vocab *vocab;
    const char            *start, *end;  /* tags, not empty                            */
    uint64_t               most;         /* ids between them, in all of a line         */
    struct lm_ids          last;         /* what ends it                               */
};

/* Where one sequence is.  Zero-initialise, release. */
struct lm_thinking {
    struct lm_buf tail;          /* the latest text, as long as the tags may be        */
    uint64_t      n;             /* ids thought                                        */
    bool          inside;
    bool          ending;        /* what ends it is being put in                       */
};

/* After the next id: 1 when it has to end, 0, or LM_ENOMEM.  Ids of the prompt do not count. */
int lm_thinking_add(struct lm_thinking *t, const struct lm_reasoning *r, uint32_t id, bool prompt,
                    struct lm_err *err);

/* Before another sequence. */
void lm_thinking_reset(struct lm_thinking *t);
void lm_thinking_release(struct lm_thinking *t);

#endif
