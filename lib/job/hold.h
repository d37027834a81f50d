/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_HOLD_H
#define LM_JOB_HOLD_H

/*
 * Texts that end a generation, or must not occur in it, across the borders of tokens: the ids
 * that may be part of one are held back until it is known.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "vocab/vocab.h"

/* What to look for.  Borrowed; texts are not empty. */
struct lm_watch {
    const struct lm_vocab *vocab;
    const char *const     *stop;         /* [n_stop] */
    size_t                 n_stop;
    const char *const     *banned;       /* [n_banned] */
    size_t                 n_banned;
};

/* What is held back of one sequence.  Zero-initialise, release. */
struct lm_hold {
    int32_t      *ids;           /* [n]                                             */
    size_t       *ends;          /* [n] where the text of each ends                 */
    size_t        n, ids_cap, ends_cap;
    struct lm_buf text;
};

enum lm_held {
    LM_HELD_FREE,                /* nothing was found                               */
    LM_HELD_STOP,                /* a stop text is there                            */
    LM_HELD_BANNED,              /* a banned text is there                          */
};

/*
 * lm_hold_add - append an id; control tokens have no text.
 *
 * LM_HELD_FREE: the first *n of the ids held can be part of nothing.  Else the text begins *cut
 * bytes into the text of held id number *n.  The text that begins first counts; below 0: a code.
 */
int lm_hold_add(struct lm_hold *h, const struct lm_watch *w, int32_t id, size_t *n, size_t *cut,
                struct lm_err *err);

/* Forget the first n ids, or all but these. */
void lm_hold_release(struct lm_hold *h, size_t n);
void lm_hold_keep(struct lm_hold *h, size_t n);

/* The first `cut` bytes of the text of held id number i as ids, appended to *out: as few as the
 * vocabulary's pieces allow; bytes that no piece has are left out.  LM_OK or LM_ENOMEM. */
int lm_hold_beginning(const struct lm_hold *h, const struct lm_watch *w, size_t i, size_t cut,
                      struct lm_ids *out, struct lm_err *err);

/* Give back its memory, and leave it empty. */
void lm_hold_free(struct lm_hold *h);

#endif
