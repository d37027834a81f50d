/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_GENERATE_H
#define LM_JOB_GENERATE_H

/*
 * sample as a loop: prompts go to a child that speaks lmpipe-loop(5), and the tokens chosen
 * from its answers go back to it and out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/input.h"
#include "job/draw.h"
#include "job/hold.h"
#include "job/reasoning.h"
#include "job/trigger.h"
#include "sample/grammar/grammar.h"

#define LM_UNTIL_END UINT64_MAX

struct lm_generate {
    struct lm_draw draw;
    uint64_t       n;            /* most ids a line; LM_UNTIL_END                     */
    uint64_t       min_n;        /* none of them ends the line before so many         */
    const int32_t *stop;         /* [n_stop] ids that end a line, besides the model's */
    size_t         n_stop;
    struct lm_watch watch;       /* texts that end a line, or may not occur in it     */
    const struct lm_grammar *grammar;    /* what a line must be, in texts of watch.vocab, or
                                            NULL                                      */
    const char    *grammar_option;       /* what it is called                         */
    const struct lm_triggers *triggers;  /* it waits for one of them; NULL: it does not */
    const struct lm_reasoning *reasoning;        /* how long a line may think; NULL: as it likes */
    size_t         parallel;     /* most lines at once, >= 1                          */
    char *const   *command;      /* the child, NULL-terminated                        */
    char *const   *draft;        /* one that proposes ids, or NULL                    */
    bool           draft_head;   /* ask the child's own draft head for proposals      */
    size_t         ngram;        /* propose what followed the same `ngram` ids; 0: no */
    size_t         n_draft;      /* ids proposed at once                              */
};

struct lm_generate_end {
    int  status;                 /* exit status that says how it went: a child's if it
                                    failed, else 0, 1 or 2 as everywhere              */
    bool reader_gone;            /* nobody reads the output (EPIPE): end quietly      */
};

/*
 * lm_generate - for each line of prompts, one line of generated ids.
 *
 * Each id is written and flushed with a space as soon as it is drawn and certain; the id that
 * ended the sequence too.  Lines are written in the order of the prompts.  The children are
 * started first and reaped before this returns, whatever happens; the caller ignores SIGPIPE.
 * A prompt is begun as soon as it is there, if a sequence is idle, whether others follow or not.
 * Tokens of line k are drawn as sequence k.
 *
 * A stop text ends the line: the text before it stays, as ids.  Where a banned text would occur,
 * the generation goes back to where it begins and chooses another id there.
 *
 * With a grammar only ids are chosen that keep the line in it; the line ends when it is complete
 * and nothing can follow, or by an end-of-generation id, which is allowed when it is complete.
 * With triggers everything is allowed until one of them comes; from there on the text of the line
 * is in the grammar.
 *
 * A child that has tokens of a sequence already, as from a saved state, goes on there with the
 * first line that the sequence is used for: line k with sequence k, for each k below parallel.  The
 * samplers know nothing of those tokens.
 *
 * To an encoder-decoder model a prompt goes as what its encoder reads; what is generated begins
 * with the model's own first id, which is not written.
 *
 * Proposals (draft, draft_head, ngram) only save time: the ids have the same distribution; but with
 * a draft, and where nothing is random even then, they are the same ids.
 *
 * A child that cannot forget the last ids alone (LM_LOOP_UNSUPPORTED) is taken back to where an
 * earlier request began, and given again what is right.
 *
 * LM_OK, with end->status 2 if -n ids could not be had because the context was full (that is
 * noted).  On failure a code with *err filled, and the output ends in "! text".
 */
int lm_generate(const struct lm_generate *g, struct lm_in *prompts, struct lm_generate_end *end,
                struct lm_err *err);

#endif
