/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_IMATRIX_H
#define LM_JOB_IMATRIX_H

/*
 * Making importance matrices (gguf/importance.h): tokens are run through a model in
 * chunks, and for each weight matrix the squares of what its columns are multiplied
 * with are summed over tokens; in a stack of experts each matrix has sums and a count of its own.
 *
 *   struct lm_imatrix *im = lm_imatrix_new(model, &o, env, &err);
 *   lm_imatrix_add(im, "a.txt", ids, n, &err);       each input
 *   struct lm_importance *m = lm_imatrix_result(im, &err);
 *
 * Sums are taken token after token in double precision, so that they depend neither on
 * the number of threads nor on how chunks are cut into batches.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/importance.h"
#include "model/model.h"

struct lm_imatrix;

struct lm_imatrix_options {
    uint32_t chunk;            /* tokens a chunk, at least 2                             */
    int32_t  bos;              /* replaces the first token of each chunk; -1: nothing does */
    uint64_t from_chunk;       /* chunks left out at the start, counted over all inputs  */
    uint64_t n_chunks;         /* most chunks to evaluate; 0: all                        */
    bool     process_output;   /* the output matrix as well                              */
    bool     no_ppl;           /* do not compute perplexity                              */
    /* Called after each chunk with the number evaluated so far; may be NULL.  What it
     * returns other than LM_OK ends the work. */
    int    (*chunk_done)(void *arg, uint64_t n_done, struct lm_err *err);
    void    *arg;
};

/* model and env are borrowed; NULL with *err filled. */
struct lm_imatrix *lm_imatrix_new(struct lm_model *model, const struct lm_imatrix_options *o,
                                  const struct lm_env *env, struct lm_err *err);
void lm_imatrix_free(struct lm_imatrix *im);

/*
 * lm_imatrix_continue - go on where m, measured earlier with the same options, ends: its sums
 * are taken over, and as many chunks of the input left out as it has.  Before the first add.
 * LM_EUSE when its chunks have another size; LM_EDATA when it does not fit the model, at the
 * first evaluation.
 */
int lm_imatrix_continue(struct lm_imatrix *im, const struct lm_importance *m,
                        struct lm_err *err);

/*
 * lm_imatrix_add - evaluate one input: whole chunks of its n ids, in order.
 *
 * What is left at the end is dropped, with a note.  name is kept as a data set if any of
 * its chunks was evaluated.  LM_EDATA when a value is not finite, naming the weight.
 */
int lm_imatrix_add(struct lm_imatrix *im, const char *name, const int32_t *ids, size_t n,
                   struct lm_err *err);

/* Have n_chunks been evaluated, so that further inputs would be passed over? */
bool lm_imatrix_full(const struct lm_imatrix *im);

/* Chunks seen (left out ones too) and evaluated, also by an earlier run. */
uint64_t lm_imatrix_seen(const struct lm_imatrix *im);
uint64_t lm_imatrix_done(const struct lm_imatrix *im);
/* The same without those of an earlier run: what the perplexity is about. */
uint64_t lm_imatrix_measured(const struct lm_imatrix *im);

/* Perplexity of the second half of the chunks evaluated so far, and its standard error;
 * false when there is none. */
bool lm_imatrix_ppl(const struct lm_imatrix *im, double *ppl, double *error);

/* Matrices of stacks (experts) that no token reached, of *n_mat there are.  They have count 0,
 * which quantizers take as all columns being equal. */
size_t lm_imatrix_unseen(const struct lm_imatrix *im, size_t *n_mat);

/* What has been collected, at any time; the caller's.  NULL when memory is short. */
struct lm_importance *lm_imatrix_result(const struct lm_imatrix *im, struct lm_err *err);

/*
 * lm_imatrix_merge - the sum of n importance matrices, the same in whatever order.
 *
 *   weights  [n] what sums and counts of each are multiplied with, perhaps below 0; NULL: 1
 *
 * Sums, counts and chunks are added, data sets united; where chunk sizes differ, their
 * greatest common divisor is the new one, and chunks are counted in it.  LM_EDATA, naming
 * files, when widths differ, or less than nothing is left; LM_ENOSUP for the old form, which
 * has no sums (lm_importance_from_old gives it some).
 */
struct lm_importance *lm_imatrix_merge(const struct lm_importance *const *in,
                                       const char *const *names, const double *weights,
                                       size_t n, struct lm_err *err);

/* What the mean squares of an entry look like. */
struct lm_imatrix_stats {
    double sum, mean, min, max, deviation;
    double active;        /* share above 1e-5                                      */
    double entropy;       /* bits, of the mean squares as a distribution           */
    double evenness;      /* entropy / log2(number of columns): 1 is all the same  */
    double outliers;      /* share more than a deviation above the mean            */
    double cosine;        /* with the same matrix a layer earlier; NaN: none       */
};

/* Of entry i.  LM_ENOMEM, or what lm_importance_means says. */
int lm_imatrix_entry_stats(const struct lm_importance *m, size_t i, struct lm_imatrix_stats *s,
                           struct lm_err *err);

#endif
