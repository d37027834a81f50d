/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_DRAW_H
#define LM_JOB_DRAW_H

/*
 * sample as a filter: a logits stream in, a token stream out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"
#include "sample/chain.h"

/* How a token was chosen: one of a record's lines. */
struct lm_choice {
    uint32_t seq, pos, id;
    double   p;                  /* its probability among what the chain left; 0: not there    */
    size_t   rank;               /* its place by probability, from 0; as many as are left: none */
    double   entropy;            /* of what was left, in nats                                  */
};

/* The choices of a record.  Zero-initialise, release. */
struct lm_record {
    struct lm_choice *choices;   /* [n], by sequence and position                              */
    size_t            n, cap;
};

#define LM_RECORD_LINE 4096      /* bytes; what is longer is no line of a record */

/*
 * lm_record_read - read a record to its end, as lm_draw_put_choices writes it: lines "sequence
 * position id p rank entropy" separated by tabs; what follows the id is not looked at.
 *
 * LM_EDATA names the line that is none, or a place that occurs twice; other codes if in cannot be
 * read or memory is short.
 */
int lm_record_read(struct lm_record *r, struct lm_in *in, struct lm_err *err);
/* Are all its ids below n_vocab?  If not, LM_EDATA names the first that is not. */
int lm_record_check(const struct lm_record *r, uint32_t n_vocab, struct lm_err *err);
void lm_record_release(struct lm_record *r);

/* What choosing tokens needs, here and in generate. */
struct lm_draw {
    const struct lm_sampling *sampling;
    struct lm_out            *out;
    const struct lm_env      *env;          /* for notes; may be NULL                     */
    bool                     *tell_seed;    /* note the seed before it is used first, and set
                                               this to false; NULL: no need               */
    bool                      chances;      /* write chances instead of ids               */
    size_t                    n_chances;    /* so many of the best; 0: all                */
    struct lm_out            *record;       /* NULL: none is written                      */
    const struct lm_record   *replay;       /* its ids are chosen; NULL: they are drawn   */
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

/*
 * lm_draw_frame - run the chain on a frame, and choose the token after it, for position
 * f->pos + 1 of sequence seq.
 *
 * Chances, if d asks for them, are appended to *text.  choice: what was chosen (all of it if d
 * records, else id, seq and pos); NULL: nothing is.  Errors name seq and f->pos.
 */
int lm_draw_frame(const struct lm_draw *d, struct lm_chain *chain, uint32_t seq,
                  const struct lm_frame *f, const void *payload, struct lm_buf *text,
                  struct lm_choice *choice, struct lm_err *err);

/* Fill in the chances of choice->id among what apply left. */
int lm_draw_judge(struct lm_chain *chain, struct lm_choice *choice, struct lm_err *err);

/* Append an id and a space, unless d asks for chances. */
void lm_draw_id(const struct lm_draw *d, uint32_t id, struct lm_buf *text);

/* Write text to the output and flush it, and the choices to the record, if there is one. */
int lm_draw_put(const struct lm_draw *d, const void *text, size_t n, struct lm_err *err);
int lm_draw_put_choices(const struct lm_draw *d, const struct lm_choice *c, size_t n,
                        struct lm_err *err);

/* Write "! text" and a newline, control characters made visible. */
int lm_draw_give_up(const struct lm_draw *d, const char *text, struct lm_err *err);

/* The code that belongs to an error frame's, with its text in *err. */
int lm_draw_error_frame(const struct lm_frame *f, const void *payload, struct lm_err *err);

#endif
