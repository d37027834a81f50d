/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_EVALUATE_H
#define LM_JOB_EVALUATE_H

/*
 * Evaluating token streams: what the program decode does.
 *
 *   struct lm_eval *e = lm_eval_new(model, ctx, &options, out, env, &err);
 *   lm_eval_head(e, &err);             before the first byte of input is read
 *   lm_eval_batch(e, in, &err);        or lm_eval_loop
 *
 * Logits stream: lmpipe-logits(5); input: lmpipe-tokens(5) or lmpipe-loop(5).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"
#include "job/divergence.h"
#include "model/model.h"

enum lm_eval_form {
    LM_EVAL_FRAMES,     /* a logits stream                                             */
    LM_EVAL_TEXT,       /* rows: sequence position token rank id logit logprob         */
    LM_EVAL_NLL,        /* rows: sequence position token nll                           */
    LM_EVAL_KL,         /* rows: sequence position token kl, against a reference       */
    LM_EVAL_NOTHING,    /* no answers                                                  */
    LM_EVAL_EMBED,      /* vectors, a JSON array a line, or frames                     */
};

struct lm_eval_options {
    enum lm_eval_form form;
    bool              all;          /* answer every token, not the last of a sequence  */
    uint32_t          top;          /* the best `top` ids only; 0: all                 */
    bool              heading;      /* rows: the columns' names first; EMBED with ranks:
                                       the labels' names                               */
    uint32_t          chunk;        /* NLL: tokens of a chunk; 0: whole sequences      */
    enum lm_pooling   pooling;      /* EMBED: of a sequence's vectors; none: all; rank:
                                       what the model's classifier says, which must be
                                       there, of a context with `pairs`                */
    bool              normalize;    /* EMBED: to length 1                              */
    bool              frames;       /* EMBED: a logits stream of vectors               */
    struct lm_divergence *ref;      /* KL: the reference, borrowed                     */
    bool              loop;         /* for the header: requests will be answered       */
    bool              keep;         /* batch: sequences stay, and lines go on with those that
                                       are there                                         */
    bool              shift;        /* a sequence longer than the context forgets its oldest
                                       half, but not a start token that the model adds   */
    uint32_t          n_keep;       /* nor so many first tokens                          */
    uint32_t          divide;       /* positions of every `group` tokens are divided by it, 2 or
                                       more, as soon as others follow; 0: not            */
    uint32_t          group;        /* fewer than the model was trained for              */
    const char       *program, *version;    /* for the header                          */
};

struct lm_eval;

/* m, c, env and out are borrowed; c belongs to the evaluation and is empty.  name is what
 * a model without a name of its own is called.  NULL with *err filled: LM_EDATA, LM_ENOMEM,
 * LM_EUSE for chunks longer than the context or shorter than 2, or groups that are too long, or
 * LM_ENOSUP when a model cannot shift or divide. */
struct lm_eval *lm_eval_new(struct lm_model *m, struct lm_ctx *c, const char *name,
                            const struct lm_eval_options *o, struct lm_out *out,
                            const struct lm_env *env, struct lm_err *err);
void lm_eval_free(struct lm_eval *e);

/*
 * lm_eval_set_encoder - for a model with an encoder: line k of `in`, a token stream, is what the
 * decoder of sequence k, the k-th line of lm_eval_batch's input, looks at.  Borrowed.  A line that
 * is missing, empty or one too many fails the batch with LM_EDATA; so does one that is not empty
 * for a sequence that has a text already.
 */
int lm_eval_set_encoder(struct lm_eval *e, struct lm_in *in, struct lm_err *err);

/* Write and flush the stream's header, or the heading. */
int lm_eval_head(struct lm_eval *e, struct lm_err *err);

/*
 * lm_eval_batch - a sequence a line, in order.
 *
 * Tokens gather, over the ends of lines, until the context's batch is full; so what is
 * neighbours in a batch depends on the input alone.  Whatever was complete before a fault
 * is answered; then comes, in a logits stream, an error frame instead of the end frame.
 *
 * LM_OK; LM_EDATA where the input is at fault (or longer than the model was trained
 * for), LM_EUSE where it is longer than the context, LM_ESTOP between batches, or another
 * code.  *err begins with the name of the file at fault, if it is one.
 */
int lm_eval_batch(struct lm_eval *e, struct lm_in *in, struct lm_err *err);

/*
 * lm_eval_embed - the hidden states of the sequences, a line each, pooled as the options say.
 *
 * The context must be one of hidden states; of the form LM_EVAL_NOTHING, they are computed and not
 * answered.  Without frames a line without tokens is answered
 * with an empty array, unless every token has a line.  Returns as lm_eval_batch.
 */
int lm_eval_embed(struct lm_eval *e, struct lm_in *in, struct lm_err *err);

/*
 * lm_eval_loop - answer requests until the input ends.
 *
 * Requests that wait together are evaluated together, as far as they fit in a batch.
 * `in` should be opened LM_IN_RAW: nothing may be read ahead of the first answer.
 *
 * LM_OK, whatever was answered with error frames; LM_EDATA when the input was cut or
 * its producer failed; LM_ESTOP between groups of requests; another code when reading or
 * writing failed.  *err begins with the name of the file at fault, if it is one.
 */
int lm_eval_loop(struct lm_eval *e, struct lm_in *in, struct lm_err *err);

#endif
