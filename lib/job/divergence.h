/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_DIVERGENCE_H
#define LM_JOB_DIVERGENCE_H

/* How far logits are from those of a reference, a logits stream, lmpipe-logits(5). */

#include "base/err.h"
#include "io/input.h"

/* What was found over all tokens. */
struct lm_divergence_sum {
    uint64_t n;                 /* tokens compared                                        */
    double   mean, most;        /* of the divergences                                     */
    uint64_t same_best;         /* tokens for which both expect the same id most          */
    uint64_t n_ref;             /* tokens of which the reference says something           */
    double   nll, ref_nll;      /* means; ref_nll of those n_ref                          */
};

struct lm_divergence;

/* in is borrowed; NULL with *err filled: LM_EDATA for no stream, or one of another
 * vocabulary than n_vocab. */
struct lm_divergence *lm_divergence_open(struct lm_in *in, uint32_t n_vocab, struct lm_err *err);
void lm_divergence_close(struct lm_divergence *d);

/*
 * lm_divergence_of - *kl = sum of p (ln p - ln q), p being what the reference expects after
 * the token at `pos` of sequence `seq`, q the softmax of logits [n_vocab].
 *
 * Of a top-k frame, p and q of all ids that are not in it are taken for one: then it is a
 * lower bound.  next is the id that follows.  Calls go through sequences and positions in
 * order; frames in between are passed over.  LM_EDATA where the reference has no such frame,
 * or one of another token, and where either's logits are no numbers.
 */
int lm_divergence_of(struct lm_divergence *d, uint32_t seq, uint32_t pos, int32_t token,
                     int32_t next, const float *logits, double *kl, struct lm_err *err);

/* All is compared: LM_EDATA if the reference, of n_sequences, is cut off or has more. */
int lm_divergence_end(struct lm_divergence *d, uint64_t n_sequences, struct lm_err *err);

/* Of all tokens compared so far. */
void lm_divergence_sum(const struct lm_divergence *d, struct lm_divergence_sum *out);

#endif
