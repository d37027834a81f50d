/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_ANSWERS_H
#define LM_JOB_ANSWERS_H

/* The answers of an evaluation, in the form that was asked for; what the two ways of
 * reading input (evaluate.c, evaluate_loop.c) share. */

#include "base/buf.h"
#include "job/evaluate.h"
#include "stream/logits.h"
#include "stream/loop.h"

struct lm_eval {
    struct lm_model       *model;
    struct lm_ctx         *ctx;
    struct lm_out         *out;
    const struct lm_env   *env;
    struct lm_eval_options options;
    struct lm_logits_head  head;
    uint32_t               n_ctx, n_train, n_batch;
    uint64_t               n_frames;
    struct lm_top         *top;         /* [options.top, or n_vocab for text]           */
    void                  *work;        /* for lm_logits_top                            */
    struct lm_buf          text;
    struct lm_in          *encoder_in;  /* texts of the encoder, or NULL                */
    struct lm_token_reader *encoder;
};

/*
 * Sequences that are shifted or divided: lm_eval_pauses: are they?  lm_eval_room: how many tokens
 * one takes that has `length` once those that wait are evaluated; none until lm_eval_make_room
 * has shifted or divided it, maybe several times.
 */
bool lm_eval_pauses(const struct lm_eval *e);
uint32_t lm_eval_room(const struct lm_eval *e, uint32_t seq, uint32_t length);
int lm_eval_make_room(struct lm_eval *e, uint32_t seq, struct lm_err *err);

/* Where a row belongs.  next is the token after it in its sequence, -1 if unknown. */
struct lm_place {
    uint32_t seq, pos;
    int32_t  token, next;
};

/* One row of logits [n_vocab], as a frame or as text.  Write errors name the output. */
int lm_answer_row(struct lm_eval *e, const struct lm_place *p, const float *logits,
                  struct lm_err *err);

/* A vector of n floats that belongs to a token. */
int lm_answer_vector(struct lm_eval *e, uint32_t seq, uint32_t pos, int32_t token,
                     const float *v, size_t n, struct lm_err *err);

/* A frame of what a draft head guesses to follow a token: n ids. */
int lm_answer_guesses(struct lm_eval *e, const struct lm_place *p, const struct lm_guessed *g,
                      size_t n, struct lm_err *err);

/* What stands in e->text, which becomes empty. */
int lm_answer_text(struct lm_eval *e, struct lm_err *err);

/* The next line of the encoder's texts becomes that of sequence seq, or is skipped; nothing
 * without such texts.  *err names their file. */
int lm_eval_encode_line(struct lm_eval *e, uint64_t line, uint32_t seq, bool skip,
                        struct lm_err *err);

/* No further sequence comes: LM_EDATA if the texts have further lines. */
int lm_eval_encoder_end(struct lm_eval *e, uint64_t n, struct lm_err *err);

/* An error frame; nothing in the text forms. */
int lm_answer_error(struct lm_eval *e, uint32_t seq, uint32_t pos, uint64_t line,
                    enum lm_loop_code code, const char *text, struct lm_err *err);

/* What an error frame says of an engine's failure. */
enum lm_loop_code lm_answer_code(int code);

/* The end frame; nothing in the text forms. */
int lm_answer_end(struct lm_eval *e, uint64_t n_sequences, struct lm_err *err);

/* Hand over what was written so far. */
int lm_answer_flush(struct lm_eval *e, struct lm_err *err);

#endif
