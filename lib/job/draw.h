/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_DRAW_H
#define LM_JOB_DRAW_H

/*
 * sample as a filter: a logits stream in, a token stream out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"
#include "sample/chain.h"

/* What choosing tokens needs, here and in generate. */
struct lm_draw {
    const struct lm_sampling *sampling;
    struct lm_out            *out;
    const struct lm_env      *env;          /* for notes; may be NULL                     */
    bool                     *tell_seed;    /* note the seed before it is used first, and set
                                               this to false; NULL: no need               */
    bool                      chances;      /* write chances instead of ids               */
    size_t                    n_chances;    /* so many of the best; 0: all                */
};

/*
 * lm_draw_stream - choose a token for each frame of every logits stream on `in`.
 *
 * Writes an id and a space for each frame, flushed, and a newline for each sequence, also for
 * one without frames.  With d->chances: lines "sequence position rank id p" separated by
 * tabs, where position is the frame's and rank counts from 0, and nothing else.
 *
 * On failure the line begun stays incomplete, and "! text" is written after it.  LM_EDATA: the
 * stream is malformed or cut, its producer failed for a reason in its input, or a row
 * leaves nothing to choose; another code otherwise.
 */
int lm_draw_stream(const struct lm_draw *d, struct lm_in *in, struct lm_err *err);

/* ---- what generate shares ---- */

/* Run the chain on a frame of sequence seq and write what d says; *id is the token drawn for
 * position f->pos + 1 (not drawn for chances only: id NULL).  Errors name seq and position. */
int lm_draw_frame(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                  const struct lm_frame *f, const void *payload, uint32_t *id,
                  struct lm_err *err);

/* End a sequence. */
int lm_draw_newline(const struct lm_draw *d, struct lm_err *err);

/* Write "! text" and a newline, control characters made visible. */
int lm_draw_give_up(const struct lm_draw *d, const char *text, struct lm_err *err);

/* The code that belongs to an error frame's, with its text in *err. */
int lm_draw_error_frame(const struct lm_frame *f, const void *payload, struct lm_err *err);

#endif
