/* SPDX-License-Identifier: MIT */
#ifndef LM_MEMORY_H
#define LM_MEMORY_H

/*
 * What sequences remember between evaluations.
 *
 * A batch is remembered in two steps: begin finds room for all its tokens, or
 * changes nothing; end keeps them, or takes everything back.  In between the
 * evaluation writes what it computes.
 *
 * Kinds: kv (kv.c), the keys and values of every position.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "tensor/tensor.h"

struct lm_memory;

struct lm_memory_token {
    uint32_t seq, pos;
};

struct lm_memory_ops {
    void     (*free)(struct lm_memory *m);
    /* Room for n tokens (at most the batch size it was made for).  Each must continue its
     * sequence: LM_EUSE otherwise, or beyond the longest sequence.  LM_ENOMEM when there is
     * no room; everything is then as before. */
    int      (*begin)(struct lm_memory *m, const struct lm_memory_token *t, size_t n,
                      struct lm_err *err);
    /* Addresses of the page lists of tokens first .. first + n - 1 of the batch, for the
     * graph's input of that kind. */
    void     (*pages)(struct lm_memory *m, size_t first, size_t n, int64_t *dst);
    /* The lengths that their sequences will have when the whole batch is kept. */
    void     (*lengths)(struct lm_memory *m, size_t first, size_t n, int32_t *dst);
    /* The batch is evaluated (keep) or has failed. */
    void     (*end)(struct lm_memory *m, bool keep);
    /* Length of a sequence, 0 when unknown. */
    uint32_t (*length)(const struct lm_memory *m, uint32_t seq);
    /* Forget positions >= pos; pos 0 drops the sequence. */
    int      (*remove)(struct lm_memory *m, uint32_t seq, uint32_t pos, struct lm_err *err);
    /* See to it that tokens t [n] will find room once seq is cut at pos, which is left to do;
     * LM_ENOMEM otherwise. */
    int      (*room)(struct lm_memory *m, uint32_t seq, uint32_t pos,
                     const struct lm_memory_token *t, size_t n, struct lm_err *err);
};

struct lm_memory {
    const struct lm_memory_ops *ops;
};

/* What a memory of keys and values holds, and where. */
struct lm_kv_shape {
    const struct lm_buft *buft;
    uint32_t              n_layer, n_head_kv, head_k, head_v;
    const struct lm_type *k_type, *v_type;      /* F32 or F16                             */
    bool                  v_in_k;               /* a value is the beginning of its key    */
};

/*
 * lm_kv_place - how a page holds layer `layer`; *page_size is that of a whole page.
 * LM_ENOMEM when a size does not fit, LM_ENOSUP for types that cannot be cached.
 */
int lm_kv_place(const struct lm_kv_shape *s, uint32_t layer, struct lm_kv_layout *out,
                size_t *page_size, struct lm_err *err);

/*
 * lm_kv_new - an empty memory for sequences of at most n_ctx tokens and batches of at
 * most n_batch.  Pages are allocated as sequences grow, used again when they are
 * dropped, and given back to the system with the memory.
 */
struct lm_memory *lm_kv_new(const struct lm_kv_shape *s, uint32_t n_ctx, uint32_t n_batch,
                            struct lm_err *err);

#endif
