/* SPDX-License-Identifier: MIT */
#ifndef LM_VOCAB_PICK_H
#define LM_VOCAB_PICK_H

/*
 * Looking for added pieces in a text that comes in parts: what may be the begin of one, and blanks
 * that one behind them may take, wait.
 */

#include "vocab/tokenizer.h"

/* Where such a search stands in the text that the caller keeps. */
struct lm_pick {
    const struct lm_added *added;
    size_t longest;                              /* of them, in bytes                */
    bool   lstrip;                               /* there is one with LM_ATTR_LSTRIP */
    bool   overlap;                              /* one may begin in the blanks of another: no
                                                    text is dealt with before all is there */
    size_t done, seek;                           /* all before done is; see lm_added_match */
    bool   open;                                 /* text of a fragment was handed over */
    bool   blanks;                               /* more of them may go with the last piece */
};

/* Who gets what is found. */
struct lm_pick_to {
    /* Text without a piece, p[at .. at + n), or more of it; last: it ends. */
    int (*text)(struct lm_encoder *e, const char *p, size_t at, size_t n, bool last,
                struct lm_err *err);
    /* A piece, p[at .. end) with the blanks that go with it. */
    int (*token)(struct lm_encoder *e, uint32_t id, size_t at, size_t end, struct lm_err *err);
};

/* Begin a text. */
void lm_pick_init(struct lm_pick *k, const struct lm_vocab *v, const struct lm_added *a);

/* Deal with p[k->done .. len), of which more may follow.  guard: see lm_added_match. */
int lm_pick_run(struct lm_encoder *e, struct lm_pick *k, const char *p,
                const unsigned char *guard, size_t len, bool more, const struct lm_pick_to *to,
                struct lm_err *err);

/* How much of the text's begin is not needed any more: the caller takes it away. */
size_t lm_pick_drop(struct lm_pick *k);

#endif
