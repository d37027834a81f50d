/* SPDX-License-Identifier: MIT */
#ifndef LM_STATS_H
#define LM_STATS_H

/* What the numbers of tensors are like, and the numbers themselves. */

#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"

struct lm_stats {
    uint64_t n;                  /* finite numbers; the rest is about these     */
    uint64_t n_bad;              /* NaN and infinities                          */
    uint64_t n_zero;
    double   min, max, mean;
    double   m2;                 /* sum of squared distances from the mean      */
};

/* Standard deviation; 0 of no numbers. */
double lm_stats_deviation(const struct lm_stats *s);

/*
 * lm_stats_run - statistics of every tensor of weights that can be read, decoded to f32.
 *
 *   in    where g was read from, not moved since (if not seekable)
 *   out   [n_tensors] zeroed, in the order of the file's list; n and n_bad stay 0 for
 *         tensors of integers, and for those that cannot be read
 *
 * The same for every number of threads.  LM_ENOSUP for big-endian files.
 */
int lm_stats_run(struct lm_in *in, const struct lm_gguf *g, struct lm_stats *out,
                 const struct lm_env *env, struct lm_err *err);

#define LM_STATS_BINS     64u    /* most of a histogram                          */
#define LM_STATS_OUTLYING 6      /* deviations from the mean that make an outlier */

struct lm_histogram {
    uint64_t n_outliers;         /* numbers further from the mean than that      */
    uint64_t bins[LM_STATS_BINS];        /* from min to max, all of one width    */
};

/*
 * lm_stats_histograms - a second pass: how the finite numbers of each tensor spread.
 *
 *   stats   [n_tensors] as lm_stats_run filled them
 *   n_bins  2 to LM_STATS_BINS; the last bin has its upper end too
 *   out     [n_tensors] zeroed
 *
 * LM_EUSE when `in` cannot be read by ranges.
 */
int lm_stats_histograms(struct lm_in *in, const struct lm_gguf *g, const struct lm_stats *stats,
                        uint32_t n_bins, struct lm_histogram *out, const struct lm_env *env,
                        struct lm_err *err);

/*
 * lm_stats_values - the numbers of one tensor in order, some at a time: as floats, or, of
 * tensors of integers, as such (the other pointer is NULL).  `take` returns LM_OK to go on.
 */
int lm_stats_values(struct lm_in *in, const struct lm_gguf *g, const struct lm_gguf_tensor *t,
                    int (*take)(void *arg, const float *f, const int64_t *i, size_t n), void *arg,
                    const struct lm_env *env, struct lm_err *err);

#endif
