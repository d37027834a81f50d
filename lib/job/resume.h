/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_RESUME_H
#define LM_JOB_RESUME_H

/*
 * struct lm_resume - which tensors of an output that takes several runs are there.
 *
 * Beside the unfinished file, .NAME.part, stands .NAME.part.sums: a line for each tensor that
 * was written whole, in order, with the XXH64 of its bytes, as gguf-inspect --hash prints them.
 * The next run goes over those whose bytes still have that sum.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/output.h"

struct lm_resume;

/* Read the list that belongs to an output of lm_out_open_kept, which is borrowed.  NULL with
 * *err filled; that there is none is no failure. */
struct lm_resume *lm_resume_open(struct lm_out *out, struct lm_err *err);

/*
 * Is the tensor that comes next there, with `padding` bytes behind it?  1 when its sum is right:
 * the output then stands behind it.  0 when it must be written: the output is cut off there, and
 * everything from here on must be written.  Or a code.
 */
int lm_resume_skip(struct lm_resume *r, const char *name, uint64_t bytes, uint64_t padding,
                   struct lm_err *err);

/* Bytes of the tensor that is being written, as they are; it is whole: add it to the list. */
void lm_resume_bytes(struct lm_resume *r, const void *p, size_t n);
int lm_resume_whole(struct lm_resume *r, const char *name, struct lm_err *err);

/* Close the list; `done`: nothing has to be resumed any more, remove it.  NULL is fine. */
void lm_resume_close(struct lm_resume *r, bool done);

#endif
