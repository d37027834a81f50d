/* SPDX-License-Identifier: MIT */
#ifndef LM_TOTALS_H
#define LM_TOTALS_H

/* How large a model is: its parameters, and the bytes they take, type by type. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gguf/gguf.h"

#define LM_TOTALS_TYPES 64           /* there are fewer types with a row               */

struct lm_totals_type {
    const struct lm_type *type;
    uint64_t              n_tensors, n_weights, bytes;
};

struct lm_totals {
    uint64_t n_tensors, n_weights, bytes;        /* of tensors whose type is known     */
    uint64_t n_unknown;                          /* other tensors, not counted in them */
    struct lm_totals_type types[LM_TOTALS_TYPES];        /* most bytes first           */
    size_t   n_types;
    /* Of mixtures of experts: weights of tensors that have a part for each expert, how many
     * experts there are and a token goes through, and the weights that it meets. */
    uint64_t n_expert_weights, n_active;
    uint32_t n_experts, n_used;                  /* 0: no experts, or not said         */
};

/* lm_totals_of - of n files; meta is the one that has the metadata.  Sums that do not fit 64
 * bits stay at the largest number. */
void lm_totals_of(const struct lm_gguf *const *files, size_t n, const struct lm_gguf *meta,
                  struct lm_totals *out);

/* Bits for each weight; 0 without weights. */
double lm_totals_bits(uint64_t n_weights, uint64_t bytes);

/* The number of weights of a tensor; false when its shape makes no sense. */
bool lm_totals_weights(const struct lm_gguf_tensor *t, uint64_t *n);

#endif
