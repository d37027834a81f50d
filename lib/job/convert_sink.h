/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CONVERT_SINK_H
#define LM_JOB_CONVERT_SINK_H

/* The writing side of a conversion: one file, or several, perhaps begun by an earlier run. */

#include "job/convert_parts.h"
#include "job/resume.h"

struct lm_convert_sink {
    struct lm_convert              *c;
    const struct lm_convert_target *t;
    struct lm_out                  *out;
    size_t                          shard;      /* that out is                       */
    size_t                          item;       /* the next one to be written        */
    struct lm_resume               *resume;     /* or NULL                           */
};

/* Write what stands before the data; k->item becomes the first that has to be written. */
int lm_sink_start(struct lm_convert_sink *k, struct lm_err *err);
/* Items of c->items, in order: each begins, gets all its bytes, ends. */
int lm_sink_begin(struct lm_convert_sink *k, struct lm_err *err);
int lm_sink_bytes(struct lm_convert_sink *k, const void *p, size_t n, struct lm_err *err);
int lm_sink_end(struct lm_convert_sink *k, struct lm_err *err);
/* Release what belongs to the sink; `done`: everything was written. */
void lm_sink_close(struct lm_convert_sink *k, bool done);

#endif
