/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_PICKLE_H
#define LM_HF_PICKLE_H

/*
 * The pickles of PyTorch's checkpoints, and nothing else.
 *
 * A pickle is a program for a stack machine that makes Python objects and may call any
 * function.  This reader makes numbers, texts, lists, tuples, dictionaries and tensors; the
 * only functions it knows are those that put tensors and ordered dictionaries together,
 * and any other name in the program is refused.
 *
 * Source: the opcodes as Python's pickletools describes them, protocols 2 to 5; what
 * torch.save writes.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { LM_PICKLE_AXES = 8 };

/* A tensor: part of a storage, which is a member of the file. */
struct lm_pickle_tensor {
    const char *name;                       /* its key in the dictionary                    */
    const char *storage;                    /* name of the storage's member in data/        */
    const char *dtype;                      /* as safetensors calls it                      */
    uint64_t    storage_len;                /* elements that the storage should have        */
    uint64_t    offset;                     /* elements before its first                    */
    uint32_t    n_dims;
    uint64_t    shape[LM_PICKLE_AXES], stride[LM_PICKLE_AXES];      /* outermost first      */
};

/*
 * lm_pickle_read - the tensors of a dictionary of tensors.
 *
 *   *list, *n  in the arena, in the order of the dictionary
 *
 * Memory is limited: LM_EDATA beyond 48 MiB of objects, which tens of thousands of tensors do
 * not need.  LM_EDATA for a faulty pickle and for one
 * that names a function, naming it; LM_ENOSUP for a dictionary that holds other things.
 */
int lm_pickle_read(struct lm_arena *a, const uint8_t *data, size_t len,
                   struct lm_pickle_tensor **list, size_t *n, struct lm_err *err);

#endif
