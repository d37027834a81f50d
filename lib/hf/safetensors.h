/* SPDX-License-Identifier: MIT */
#ifndef LM_SAFETENSORS_H
#define LM_SAFETENSORS_H

/*
 * safetensors, the file format of checkpoints.
 *
 *   1. u64 little-endian: length of the header
 *   2. the header, JSON: {"NAME": {"dtype": "F16", "shape": [rows, cols],
 *      "data_offsets": [begin, end]}, ..., "__metadata__": {...}}; blanks may pad it
 *   3. the data; offsets count from its beginning, and cover all of it, once
 */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/input.h"
#include "quant/quant.h"

#define LM_ST_MAX_DIMS   8
#define LM_ST_MAX_HEADER 100000000u     /* the format's own limit */
#define LM_ST_MAX_TENSORS (1 << 18)     /* our own, of one file: twice the largest models' */

/* An element type: its name in headers, its bytes, and the number of the tensor
 * type that has the same bytes, or -1: no type that weights are read from. */
struct lm_st_dtype {
    const char *name;
    uint32_t    bytes;
    int         type_id;
};

struct lm_packed;                           /* packed.h */

struct lm_st_tensor {
    const char               *name;         /* NUL after it */
    const struct lm_st_dtype *dtype;
    uint32_t                  n_dims;
    uint64_t                  shape[LM_ST_MAX_DIMS];    /* outermost first */
    uint64_t                  begin, bytes;             /* in the data     */
    const struct lm_packed   *packed;       /* NULL: its values lie there as they are; else
                                               begin and bytes say nothing          */
};

/* All of a file's tensors, sorted by name in byte order. */
struct lm_safetensors {
    struct lm_st_tensor *tensors;           /* in the arena given to the parser */
    size_t               n_tensors;
    uint64_t             data_offset;       /* of the data in the file          */
};

/* The element type of that name, or NULL. */
const struct lm_st_dtype *lm_safetensors_dtype(const char *name);

/*
 * lm_safetensors_length - the header's length from a file's first 8 bytes.
 * file_size may be LM_SIZE_UNKNOWN.  LM_EDATA when the file cannot hold it.
 */
int lm_safetensors_length(const uint8_t first[8], uint64_t file_size, uint64_t *len,
                          struct lm_err *err);

/*
 * lm_safetensors_parse - the tensors a header of len bytes describes.
 *
 * Everything is checked: each range against dtype and shape, all of them against
 * each other and the data's size (unless file_size is LM_SIZE_UNKNOWN), names
 * against each other.  LM_EDATA naming the tensor; LM_ENOSUP beyond LM_ST_MAX_TENSORS.
 */
int lm_safetensors_parse(struct lm_safetensors *st, struct lm_arena *a, const char *header,
                         size_t len, uint64_t file_size, struct lm_err *err);

/* Both, of the file that begins where `in` stands, which it leaves at the data.  Memory grows
 * only with bytes that arrive. */
int lm_safetensors_read(struct lm_safetensors *st, struct lm_arena *a, struct lm_in *in,
                        struct lm_err *err);

#endif
