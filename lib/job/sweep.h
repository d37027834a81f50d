/* SPDX-License-Identifier: MIT */
#ifndef LM_SWEEP_H
#define LM_SWEEP_H

/*
 * One pass over the data of a GGUF's tensors, in the order in which it lies in the file.
 *
 * Tensors are cut in pieces by their size alone.  Pieces are worked on by all threads,
 * and what comes of them is taken in order on the caller's, so that results do not depend
 * on how many threads there are.  Needs a few MiB whatever the file's size; `in` need not
 * be seekable.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"

/* Whole blocks of one tensor; the first weight is a multiple of LM_PIECE_ALIGN, so that it
 * begins a block of every type. */
struct lm_piece {
    const struct lm_gguf_tensor *t;
    uint64_t                     first;     /* weight, counted from the tensor's first  */
    size_t                       n;         /* weights                                  */
    const void                  *data;      /* as in the file, aligned to 16            */
    size_t                       bytes;
};

#define LM_PIECE_ALIGN 256u
#define LM_PIECE_BYTES (1u << 20)           /* of a piece, at most                      */

struct lm_sweep {
    void   *arg;
    size_t  result_size;                    /* bytes of a piece's result                */
    /* Which tensors; NULL: all. */
    bool  (*wanted)(void *arg, const struct lm_gguf_tensor *t);
    /* On any thread: fills the result, which is zeroed.  NULL: nothing to do. */
    void  (*work)(void *arg, const struct lm_piece *p, void *result);
    /* In order: LM_OK to go on, or the code that the sweep returns. */
    int   (*take)(void *arg, const struct lm_piece *p, const void *result, struct lm_err *err);
};

/* An element of a tensor of integers: little-endian two's complement of 1 to 8 bytes. */
static inline int64_t lm_sweep_integer(const uint8_t *p, uint32_t size)
{
    uint64_t u = 0;
    for (uint32_t k = 0; k < size; k++)
        u |= (uint64_t)p[k] << 8 * k;
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);
    return (int64_t)((u ^ sign) - sign);
}

/* Can a tensor's data be read: has its type a row, does its shape suit it, and does it lie
 * in the file, as far as its size is known? */
bool lm_sweep_readable(const struct lm_gguf *g, const struct lm_gguf_tensor *t);

/*
 * lm_sweep - read, work on and take every wanted tensor that is readable and, where `in`
 * cannot be read by ranges, does not begin before the one before it ends.
 *
 *   in  where g was read from, not moved since (if not seekable)
 *
 * LM_OK, what take returned, LM_EDATA when input ends early, or a code.
 */
int lm_sweep(struct lm_in *in, const struct lm_gguf *g, const struct lm_sweep *s,
             const struct lm_env *env, struct lm_err *err);

#endif
