/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_IMPORTANCE_H
#define LM_GGUF_IMPORTANCE_H

/*
 * Importance matrices: for each weight matrix of a model, how strongly its columns are
 * driven.  The file form is GGUF:
 *
 *   general.type         "imatrix"
 *   imatrix.datasets     array of strings: what the text was called
 *   imatrix.chunk_count  u32: chunks evaluated
 *   imatrix.chunk_size   u32: tokens a chunk
 *   NAME.in_sum2         f32 [matrices][width]: sums of x^2 over tokens, a column each
 *   NAME.counts          f32 [matrices][1]: the number of tokens summed
 *
 * for each weight tensor NAME; there is more than one matrix where it is a stack of
 * experts, and each has a count of its own.
 *
 * An older form without magic is read as well: i32 number of entries; for each i32 length
 * of name, name, i32 calls, i32 number of values, values (mean of x^2 times calls);
 * then perhaps i32 chunks, i32 length, name of the data set.  All little-endian.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"

struct lm_importance_entry {
    const char *name;        /* of the weight tensor                             */
    uint64_t    width;       /* columns; in the old form those of all matrices   */
    uint64_t    n_mat;       /* matrices; 1 in the old form                      */
    float      *sum2;        /* [n_mat][width]; NULL: they lie in the file       */
    float      *counts;      /* [n_mat]                                          */
    struct lm_in *in;        /* where sums are, from offset `at` on, that are    */
    uint64_t    at;          /* not in memory                                    */
    bool        big_endian;
};

struct lm_importance {
    struct lm_importance_entry *entries;      /* by name, ascending as bytes      */
    size_t                      n, cap;
    const char                **datasets;
    size_t                      n_datasets;
    uint32_t                    chunk_count, chunk_size;
    bool                        legacy;       /* read from the old form           */
    struct lm_arena             arena;        /* holds names, data sets, numbers  */
};

/*
 * lm_importance_read - a whole file, told by content (the old form not if compressed).  What
 * llama.cpp puts around names of weights on other devices ("CUDA0#NAME#0") is left out.
 *
 * LM_EDATA when it is neither form, or a number is not finite or negative.  NULL with
 * *err filled; lm_importance_free takes the result back.
 */
struct lm_importance *lm_importance_read(struct lm_in *in, struct lm_err *err);

/*
 * lm_importance_open - the same, but sums stay in the file if that can be read at any place:
 * they are looked at once, and read again when lm_importance_means asks for them.  in must
 * stay open as long as the result is used; only names, widths, counts and means are for use.
 */
struct lm_importance *lm_importance_open(struct lm_in *in, struct lm_err *err);

/* An empty one, to be filled; NULL when memory is short. */
struct lm_importance *lm_importance_new(void);
void lm_importance_free(struct lm_importance *m);

/* The entry of a weight tensor, or NULL. */
const struct lm_importance_entry *lm_importance_find(const struct lm_importance *m,
                                                     const char *name);

/* A new entry of zeros at its place in the order (earlier entry pointers become
 * invalid); NULL when memory is short.  The name must not be there yet. */
struct lm_importance_entry *lm_importance_add(struct lm_importance *m, const char *name,
                                              uint64_t width, uint64_t n_mat);

/* Replace the list of data sets by copies of n names. */
int lm_importance_set_datasets(struct lm_importance *m, const char *const *names, size_t n,
                               struct lm_err *err);

/* out [n_mat][width]: mean squares, which is what quantizers take as weights; 1 for all
 * columns of a matrix that no token reached.  Counts are rounded to whole numbers.  Fails only
 * where sums lie in a file that cannot be read any more, or has other numbers now. */
int lm_importance_means(const struct lm_importance_entry *e, float *out, struct lm_err *err);

/* Write the GGUF form, and the old one, which has means for sums: of a matrix that no token
 * reached all are 1, and the name of the last data set is kept. */
int lm_importance_write(const struct lm_importance *m, struct lm_out *out, struct lm_err *err);
int lm_importance_write_old(const struct lm_importance *m, struct lm_out *out,
                            struct lm_err *err);

/* What was read from the old form as if it had been measured in chunks of `chunk` tokens: sums
 * and counts.  Means stay as they are. */
void lm_importance_from_old(struct lm_importance *m, uint32_t chunk);

#endif
