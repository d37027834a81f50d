/* SPDX-License-Identifier: MIT */
#ifndef LM_SAMPLE_CANDIDATES_H
#define LM_SAMPLE_CANDIDATES_H

/*
 * struct lm_cands - the candidates for one token: a set of (id, logit).
 *
 * It starts as a row of the logits stream and shrinks as samplers run.  The set has no
 * order; where a rank is needed it is logit down, then id up, so that ties go to the
 * lower id everywhere.  Logits are double once they are touched.
 *
 * A row is not copied: the set keeps pointing at it, with a factor for all its logits, a
 * lowest entry, and the changed ones apart, until something cuts the set down to a short
 * list.  So no list is made of a whole vocabulary unless someone asks for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sample/chunk_ops.h"
#include "stream/logits.h"

struct lm_cand {
    double   l;                  /* logit, finite                                  */
    uint64_t w;                  /* weight, as lm_cands_weigh left it              */
    uint32_t id;
};

enum lm_cand_order { LM_BY_ID, LM_BY_RANK, LM_UNORDERED };

struct lm_cands {
    uint32_t            n_vocab;
    struct lm_cand     *list;    /* [n], the set, unless `row`                     */
    size_t              n;
    enum lm_cand_order  order;   /* of the list                                    */
    double              max;     /* largest logit of the list                      */
    /* private */
    const struct lm_chunk_ops *ops;
    const float        *row;     /* [n_vocab] borrowed; NULL: the list is the set  */
    double              times;   /* the logit of an id of the row is row[id] * times */
    float               least;   /* the lowest entry that is a candidate ...       */
    uint32_t            last;    /* ... up to this id; and                         */
    float               most;    /* the highest one                                */
    float              *copy;    /* [n_vocab] a row with the changed ids at -inf   */
    float              *best;    /* [blocks] largest candidate of each block of row, or some
                                    lower value than `least`                       */
    float               top;     /* largest of these                               */
    struct lm_cand     *changed; /* [n_changed] belongs to row, ids ascending      */
    size_t              n_changed, changed_cap;
    struct lm_cand     *work;    /* scratch: [n_vocab] candidates, or weights      */
};

/* An empty set for a vocabulary; LM_OK or LM_ENOMEM. */
int lm_cands_init(struct lm_cands *c, uint32_t n_vocab, struct lm_err *err);
void lm_cands_release(struct lm_cands *c);

/*
 * Fill the set from a row, or from the n pairs of a top-k frame.
 *
 *   row  [n_vocab] f32, borrowed until the set is filled again
 *
 * An id at -inf is no candidate; with logits at +inf only those remain, all equal.
 * LM_EDATA: a logit is NaN (err names the id), or an id is outside the vocabulary.
 */
int lm_cands_row(struct lm_cands *c, const float *row, struct lm_err *err);
int lm_cands_top(struct lm_cands *c, const struct lm_top *top, size_t n, struct lm_err *err);

/* Is nothing left? */
bool lm_cands_empty(const struct lm_cands *c);

/* The largest logit; -inf when the set is empty. */
double lm_cands_max(const struct lm_cands *c);

/* How many there are; the logit of one, -inf if it is none. */
size_t lm_cands_count(const struct lm_cands *c);
double lm_cands_logit(const struct lm_cands *c, uint32_t id);

/* Sum of the weights (see fixed_math.h); entropy of the probabilities in nats; standard deviation
 * of the logits (of the population).  The set is not empty, and stays as it is. */
uint64_t lm_cands_total(const struct lm_cands *c);
double   lm_cands_entropy(const struct lm_cands *c);
double   lm_cands_deviation(const struct lm_cands *c);

/* The k >= 1 best in rank order, *n of them; valid until the set is used again, which stays as
 * it is. */
const struct lm_cand *lm_cands_best(struct lm_cands *c, size_t k, size_t *n);

/*
 * lm_cands_edit - give the candidates among some ids new logits.
 *
 *   ids  [n] ascending, each once; ids that are no candidates are passed over
 *   fn   the new logit of the id with index i, from the old one; not NaN.  -inf
 *        removes the candidate, +inf removes all that are finite.
 *
 * LM_OK or LM_ENOMEM.
 */
int lm_cands_edit(struct lm_cands *c, const uint32_t *ids, size_t n,
                  double (*fn)(const void *arg, size_t i, double l), const void *arg,
                  struct lm_err *err);

/* Keep the ids whose bit is set: id % 64 of word id / 64. */
void lm_cands_allow(struct lm_cands *c, const uint64_t *allowed);

/* Divide every logit by t > 0; t may be infinite. */
void lm_cands_divide(struct lm_cands *c, double t);

/* Give every candidate a new logit that is the higher the nearer its probability is to `want`
 * (see lm_chunk_ops.favor); p [n_vocab + LM_CHUNK] takes the probabilities of candidates. */
void lm_cands_favor(struct lm_cands *c, double want, float *p);

/* Keep the k >= 1 best; those of logit >= l, and not fewer than the min_keep best if there are;
 * the shortest prefix in rank order whose share of the weights is at least p (at least one),
 * and not fewer than min_keep; the same in the order of |-ln p_i - H|, H the entropy, then
 * rank. */
void lm_cands_keep_best(struct lm_cands *c, size_t k);
void lm_cands_keep_above(struct lm_cands *c, double l, size_t min_keep);
void lm_cands_keep_mass(struct lm_cands *c, double p, size_t min_keep);
void lm_cands_keep_typical(struct lm_cands *c, double p, size_t min_keep);

/* Make it a list (in order of ids if it was a row). */
void lm_cands_list(struct lm_cands *c);

/* A list with the weight of each in w; returns their sum. */
uint64_t lm_cands_weigh(struct lm_cands *c);

/* A list in that order. */
void lm_cands_sort(struct lm_cands *c, enum lm_cand_order order);

/* The candidate of a non-empty set that a number u of [0, 1) points to: the first in order
 * of ids whose running sum of weights is above u times their total. */
uint32_t lm_cands_pick(struct lm_cands *c, double u);

#endif
