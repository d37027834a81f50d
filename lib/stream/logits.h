/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_LOGITS_H
#define LM_STREAM_LOGITS_H

/*
 * Logits streams, lmpipe-logits(5), little-endian:
 *
 *   1. header  "LMLG", u32 version 1, u32 vocabulary size, u32 bytes of the JSON text,
 *              the text, padded with spaces so that frames begin at a multiple of 64
 *   2. frames  u32 kind, u32 payload bytes, u32 sequence, u32 position, u32 token,
 *              u32 n, f32 lse, u32 flags; payload
 *   3. the last frame is of kind end (or, where the work was given up, error); after
 *      an end frame another stream may follow
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"

enum lm_frame_kind {
    LM_FRAME_DENSE  = 0,   /* n float32, n the vocabulary size                     */
    LM_FRAME_TOP    = 1,   /* n pairs struct lm_top, best first, then lowest id    */
    LM_FRAME_ERROR  = 2,   /* UTF-8 text; token is an enum lm_loop_code            */
    LM_FRAME_END    = 3,   /* n frames before it; sequence = sequences read        */
    LM_FRAME_VECTOR = 4,   /* n float32                                            */
    LM_FRAME_GUESS  = 5,   /* n struct lm_guessed: what a draft head says follows  */
    LM_FRAME_LAST   = LM_FRAME_GUESS,
};

/* flags */
#define LM_FRAME_CRITICAL 1u    /* a reader that does not know the kind must stop  */

struct lm_frame {
    uint32_t kind, bytes, seq, pos, token, n;
    float    lse;
    uint32_t flags;
};

/* One pair of a top-k frame. */
struct lm_top {
    uint32_t id;
    float    logit;
};

/* One id of a frame of guesses; the next one is about what follows it. */
struct lm_guessed {
    uint32_t id;
    float    logprob;
};

/* What the header says. */
struct lm_logits_head {
    uint32_t n_vocab;
    uint32_t n_ctx;
    int64_t  bos, eos, decoder_start;      /* -1: none                             */
    bool     add_bos;
    bool     loop;                         /* requests are answered; true if not said  */
    bool     loop_said;                    /* read: the header has it either way       */
    bool     draft_head;                   /* requests for guesses can be answered     */
    int32_t *eog;                          /* [n_eog], ascending                   */
    size_t   n_eog;
    int32_t *suppress;                     /* [n_suppress], ascending: never to be drawn   */
    size_t   n_suppress;
    char    *model, *arch;                 /* UTF-8                                */
    char    *sampling;                     /* JSON text of the object, "{}" if none */
};

/* Free what a head read by lm_logits_read_head points to. */
void lm_logits_head_release(struct lm_logits_head *h);

/* Write the header.  program and version go in as they are. */
int lm_logits_write_head(struct lm_out *out, const struct lm_logits_head *h,
                         const char *program, const char *version, struct lm_err *err);

/* Write one frame and its payload of f->bytes bytes. */
int lm_logits_write_frame(struct lm_out *out, const struct lm_frame *f, const void *payload,
                          struct lm_err *err);

struct lm_logits_reader;

/* Read from in, which is borrowed; NULL with *err filled when memory is short. */
struct lm_logits_reader *lm_logits_reader_new(struct lm_in *in, struct lm_err *err);
void lm_logits_reader_free(struct lm_logits_reader *r);

/* A larger vocabulary is taken for a mistake. */
#define LM_LOGITS_VOCAB_MAX (1 << 23)

/* The header of the next stream, at the start or after an end frame: 1 read (release
 * *h), 0 end of input, below 0 a code (*h needs no release).  LM_EDATA names what is wrong: a size,
 * a member, or an id outside the vocabulary. */
int lm_logits_read_head(struct lm_logits_reader *r, struct lm_logits_head *h, struct lm_err *err);

/*
 * The next frame: LM_OK or a code.  *payload is the reader's, valid until the next
 * call, aligned to 16.
 *
 * What is checked: payload bytes against kind and n; n, token and the ids of a
 * top-k frame and of guesses against the vocabulary, and the order of the former; that frames
 * come by sequence, then by position, if the header says that they do not follow requests; the
 * count in an end frame.
 * Frames of unknown kinds are skipped, or refused (LM_ENOSUP) if LM_FRAME_CRITICAL.
 * End of input before the end frame is LM_EDATA.  Memory grows with bytes that
 * arrived, not with what a frame claims.
 */
int lm_logits_read_frame(struct lm_logits_reader *r, struct lm_frame *f, const void **payload,
                         struct lm_err *err);

/*
 * What is computed of a row of n logits.
 *
 * lm_logits_lse: ln of the sum of exp(x[i]), maximum subtracted first, terms to
 * about 2^-22 of their value, summed in double.  NaN if a logit is NaN; -inf for n 0.
 */
double lm_logits_lse(const float *x, size_t n);

/*
 * lm_logits_top - the k best of n logits, best first, equal ones by ascending id.
 *
 *   top   [min(k, n)]; NaN counts as less than everything, -0 equals 0
 *   work  room for lm_logits_top_work(k, n) bytes, aligned to 8; the caller's
 *
 * Returns min(k, n).  Time is linear in n, plus sorting k.
 */
size_t lm_logits_top(const float *x, size_t n, size_t k, struct lm_top *top, void *work);
size_t lm_logits_top_work(size_t k, size_t n);

#endif
