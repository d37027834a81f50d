/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_TRIGGER_H
#define LM_JOB_TRIGGER_H

/*
 * When a grammar that waits begins: at a text, a pattern or a token in what is generated.
 *
 * Texts and patterns are looked for in all that was generated, after each token, in the order in
 * which they were added; control tokens have no text.  A search goes on where the one before has
 * left a match possible, so that a token costs what its own text does, unless a pattern may begin
 * anywhere and go on for ever, or has to match the whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "sample/grammar/grammar.h"
#include "vocab/vocab.h"

enum lm_trigger_kind {
    LM_TRIGGER_TEXT,             /* this text                                          */
    LM_TRIGGER_PATTERN,          /* a regular expression of ECMAScript, found anywhere */
    LM_TRIGGER_FULL,             /* one that matches all that was generated            */
};

/* Zero-initialise, add, release. */
struct lm_triggers {
    struct lm_trigger {
        enum lm_trigger_kind kind;
        const char          *text;       /* borrowed                                   */
        void                *code;       /* the pattern, as PCRE2 has it               */
    }       *list;               /* [n] */
    size_t   n, cap;
    int32_t *ids;                /* [n_ids] tokens */
    size_t   n_ids, ids_cap;
};

/* LM_OK, LM_ENOMEM, or LM_EUSE for what is no pattern.  The text is not empty. */
int lm_triggers_add(struct lm_triggers *t, enum lm_trigger_kind kind, const char *text,
                    struct lm_err *err);
int lm_triggers_add_id(struct lm_triggers *t, int32_t id, struct lm_err *err);
void lm_triggers_release(struct lm_triggers *t);

/* What one sequence has generated while it waits.  Zero-initialise, release. */
struct lm_waiting {
    struct lm_buf text;
    size_t       *from;          /* [t->n] where each search goes on */
};

/*
 * lm_waiting_take - append an id's text, look for the triggers, and begin the grammar if there is
 * one.
 *
 *   s  the state of m, which becomes that after all the text from where the grammar begins: where
 *      the first group of the pattern that has any text begins, else the match; after a token that
 *      is a trigger, that after the token, whole or as its text
 *
 * 1: it has begun; 0: it waits on.  LM_EDATA: the grammar has no such beginning; LM_ENOSUP: a
 * pattern takes too long, or a limit of the grammar is met; LM_ENOMEM.
 */
int lm_waiting_take(struct lm_waiting *w, const struct lm_triggers *t, const struct lm_vocab *v,
                    struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err);

/* Only the first len bytes have been generated. */
void lm_waiting_cut(struct lm_waiting *w, const struct lm_triggers *t, size_t len);

/* Give back its memory. */
void lm_waiting_release(struct lm_waiting *w);

#endif
