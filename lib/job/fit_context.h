/* SPDX-License-Identifier: MIT */
#ifndef LM_FIT_CONTEXT_H
#define LM_FIT_CONTEXT_H

/* How long sequences may be in a machine's memory, reckoned as footprint.h says. */

#include "job/footprint.h"

struct lm_fit {
    struct lm_footprint_options most;    /* n_ctx: not more than that; n_ubatch: begin with that */
    uint64_t room;                       /* bytes for everything                        */
    uint64_t least;                      /* n_ctx is not made smaller than that         */
    uint64_t position;                   /* bytes that a position takes beside          */
    bool     keep_ubatch;                /* n_ubatch stays as it is                     */
    bool     keep_all;                   /* layers with windows remember all positions  */
};

/* Bytes that running takes in all: weights, what is remembered of one sequence, room to work. */
uint64_t lm_fit_bytes(const struct lm_footprint *f, bool keep_all);

/*
 * lm_fit_context - the longest context for one sequence that fits, and the largest n_ubatch, for
 * the model in n files, metadata in the first.
 *
 * The context is made shorter first, down to `least`, then n_ubatch is halved, down to 32.  Fills
 * *out with what it comes to.  LM_ENOMEM when even that is too much; LM_EDATA and LM_EUSE as
 * lm_footprint_of.
 */
int lm_fit_context(const struct lm_gguf *const *files, size_t n, const struct lm_fit *fit,
                   struct lm_footprint *out, struct lm_err *err);

#endif
