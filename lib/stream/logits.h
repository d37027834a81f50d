/* SPDX-License-Identifier: MIT */
#ifndef LM_STREAM_LOGITS_H
#define LM_STREAM_LOGITS_H

/*
 * Logits streams, lmpipe-logits(5), little-endian:
 *
 *   header  "LMLG", u32 version 1, u32 vocabulary size, u32 bytes of the JSON text,
 *           the text, padded with spaces so that frames begin at a multiple of 64
 *   frame   u32 kind, u32 payload bytes, u32 sequence, u32 position, u32 token,
 *           u32 n, f32 lse, u32 flags; payload
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"

enum lm_frame_kind {
    LM_FRAME_DENSE  = 0,   /* n float32                                            */
    LM_FRAME_TOP    = 1,   /* n pairs (u32 id, f32 logit), best first              */
    LM_FRAME_ERROR  = 2,   /* UTF-8 text; token is a code                          */
    LM_FRAME_END    = 3,   /* n frames before it; sequence = sequences read        */
    LM_FRAME_VECTOR = 4,   /* n float32                                            */
};

enum lm_loop_code {        /* token of an error frame, lmpipe-loop(5)              */
    LM_LOOP_MALFORMED = 1, LM_LOOP_ID = 2, LM_LOOP_TRAINED_LENGTH = 3,
    LM_LOOP_CONTEXT = 4, LM_LOOP_MEMORY = 5, LM_LOOP_UNSUPPORTED = 6,
};

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

/* What the header says. */
struct lm_logits_head {
    uint32_t n_vocab;
    uint32_t n_ctx;
    int64_t  bos, eos, decoder_start;      /* -1: none                             */
    bool     add_bos;
    int32_t *eog;                          /* [n_eog], ascending                   */
    size_t   n_eog;
    char    *model, *arch;
    char    *sampling;                     /* JSON text of the object, "{}" if none */
};

/* Free what a head read by lm_logits_read_head points to. */
void lm_logits_head_release(struct lm_logits_head *h);

/* Write the header.  program and version go in as they are. */
int lm_logits_write_head(struct lm_out *out, const struct lm_logits_head *h,
                         const char *program, const char *version, struct lm_err *err);

/* Write one frame: f->bytes of payload. */
int lm_logits_write_frame(struct lm_out *out, const struct lm_frame *f, const void *payload,
                          struct lm_err *err);

struct lm_logits_reader;

/* Read from in, which is borrowed. */
struct lm_logits_reader *lm_logits_reader_new(struct lm_in *in, struct lm_err *err);
void lm_logits_reader_free(struct lm_logits_reader *r);

/* The header of the next stream: 1 read, 0 end of input, below 0 a code. */
int lm_logits_read_head(struct lm_logits_reader *r, struct lm_logits_head *h, struct lm_err *err);

/*
 * The next frame.  *payload is the reader's, valid until the next call, aligned to
 * 16.  Unknown kinds with flags bit 0 clear are skipped, others refused (LM_ENOSUP).
 * Sizes are checked against kind and vocabulary.  End of input before the end
 * frame is LM_EDATA.  LM_OK or a code.
 */
int lm_logits_read_frame(struct lm_logits_reader *r, struct lm_frame *f, const void **payload,
                         struct lm_err *err);

/* ln of the sum of exp of n logits, in double, max subtracted first. */
double lm_logits_lse(const float *logits, size_t n);

#endif
