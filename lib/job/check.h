/* SPDX-License-Identifier: MIT */
#ifndef LM_CHECK_H
#define LM_CHECK_H

/*
 * What is wrong with a model beyond the structure of its files (which lm_gguf_check
 * judges): metadata that are missing or contradict each other, tensors that are not as
 * the metadata say, numbers that are none.
 *
 * What a file is for is told by general.type and general.architecture; what cannot be
 * judged (an architecture without a row, a vocabulary alone) is told as a note.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"

/* Told of each fault: the shard it is in and the offset in that file, 0 for what is missing. */
struct lm_check_to {
    void  *arg;
    void (*fault)(void *arg, size_t shard, uint64_t offset, const char *what);
    const struct lm_env *env;        /* takes notes; may be NULL */
};

/*
 * lm_check_model - metadata against each other and against the tensors.
 *
 *   shards   all files of the model in order, or one of them; metadata is the first's
 *
 * Returns the number of faults.
 */
uint64_t lm_check_model(const struct lm_gguf *const *shards, size_t n,
                        const struct lm_check_to *to);

/*
 * lm_check_data - every number of every tensor that can be read, from `in`, where g was
 * read from: NaN and infinity, codes that stand for nothing; in an importance matrix,
 * also numbers below 0.  One fault for each tensor, saying how many blocks are wrong and
 * where the first is.
 *
 * LM_OK with *n_faults, LM_EDATA when input ends early, LM_ENOSUP for big-endian files.
 */
int lm_check_data(struct lm_in *in, const struct lm_gguf *g, size_t shard,
                  const struct lm_check_to *to, uint64_t *n_faults, struct lm_err *err);

#endif
