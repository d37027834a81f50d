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

#define LM_UNTIL_END UINT64_MAX

struct lm_generate {
    struct lm_draw draw;
    uint64_t       n;            /* most ids a line; LM_UNTIL_END                     */
    const int32_t *stop;         /* [n_stop] ids that end a line, besides the model's */
    size_t         n_stop;
    char *const   *command;      /* the child, NULL-terminated                        */
};

struct lm_generate_end {
    int  status;                 /* exit status that says how it went: the child's if it
                                    failed, else 0, 1 or 2 as everywhere              */
    bool reader_gone;            /* nobody reads the output (EPIPE): end quietly      */
};

/*
 * lm_generate - for each line of prompts, one line of generated ids.
 *
 * Each id is written and flushed with a space as soon as it is drawn; the id that ended the
 * sequence too.  The child is started first and reaped before this returns, whatever
 * happens; the caller ignores SIGPIPE.  Tokens of line k are drawn as sequence k.
 *
 * LM_OK, with end->status 2 if -n ids could not be had because the context was full (that is
 * noted).  On failure a code with *err filled, and the output ends in "! text".
 */
int lm_generate(const struct lm_generate *g, struct lm_in *prompts, struct lm_generate_end *end,
                struct lm_err *err);

#endif
