/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_H
#define LM_GGUF_H

/*
 * GGUF, the file format of models.  All numbers are little-endian (or, in
 * foreign files, big-endian throughout).
 *
 *   1. "GGUF", u32 version (2 or 3; version 1 has u32 counts, lengths and sizes)
 *   2. u64 number of tensors, u64 number of metadata entries
 *   3. metadata entries: string key, u32 value type, value
 *        string: u64 length, bytes;  array: u32 element type, u64 count, elements
 *   4. tensor infos: string name, u32 number of dimensions, u64 sizes innermost
 *      first, u32 tensor type, u64 offset into the data part
 *   5. zeros up to a multiple of general.alignment (default 32): the data offset
 *   6. tensor data, each at its offset, a multiple of the alignment
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"
#include "quant/quant.h"

enum lm_gguf_kind {
    LM_GGUF_U8, LM_GGUF_I8, LM_GGUF_U16, LM_GGUF_I16, LM_GGUF_U32, LM_GGUF_I32,
    LM_GGUF_F32, LM_GGUF_BOOL, LM_GGUF_STR, LM_GGUF_ARR, LM_GGUF_U64, LM_GGUF_I64,
    LM_GGUF_F64, LM_GGUF_N_KINDS
};

#define LM_GGUF_MAX_DIMS  4
#define LM_GGUF_MAX_NAME  65535     /* bytes of a key or a tensor name               */
#define LM_GGUF_SLACK     16
#define LM_GGUF_MAX_DEPTH 16        /* arrays of arrays                              */

/* Bytes with a length; may hold NUL or broken UTF-8, a NUL follows.  Behind those that were read
 * from a file LM_GGUF_SLACK bytes may be read, whatever they are. */
struct lm_str {
    const char *p;
    size_t      len;
};

struct lm_gguf_arr {
    enum lm_gguf_kind kind;     /* of the elements                                */
    uint64_t          n;
    const void       *data;     /* native byte order: n numbers, n struct lm_str,
                                   or n struct lm_gguf_arr                        */
};

struct lm_gguf_kv {
    struct lm_str     key;
    enum lm_gguf_kind kind;
    uint64_t          offset;   /* of the entry in the file                       */
    union {
        uint64_t           u;   /* U8 U16 U32 U64 BOOL                            */
        int64_t            i;   /* I8 I16 I32 I64                                 */
        double             f;   /* F32 F64; a float is exact in it                */
        struct lm_str      str;
        struct lm_gguf_arr arr;
    };
};

struct lm_gguf_tensor {
    struct lm_str         name;
    uint32_t              n_dims;
    uint64_t              ne[LM_GGUF_MAX_DIMS];  /* innermost first, 1 beyond n_dims  */
    uint32_t              type_id;
    const struct lm_type *type;                  /* NULL: number without a row        */
    uint64_t              offset;                /* in the data part                  */
    uint64_t              bytes;                 /* 0 when type is NULL               */
    uint64_t              info_offset;           /* of the info in the file           */
};

struct lm_gguf {
    uint32_t               version;
    bool                   big_endian;
    uint64_t               alignment, data_offset;
    uint64_t               file_size;            /* LM_SIZE_UNKNOWN from a pipe       */
    uint64_t               n_kv, n_tensors;
    struct lm_gguf_kv     *kv;                   /* in file order                     */
    struct lm_gguf_tensor *tensors;              /* in file order                     */
    bool                   given;                /* lm_gguf_override: not all was read */
    /* private: what names and values lie in, and both lists by name */
    struct lm_arena        arena;
    const struct lm_str  **kv_by_name, **tensors_by_name;
};

/*
 * lm_gguf_read - header, metadata and tensor infos from the start of `in`.
 *
 * Leaves `in` at the data offset (LM_EDATA if it ends before, unless no tensor
 * has data).  Every count and length is compared with what the file has left,
 * and memory grows only with bytes that arrived.  Faults that make the rest
 * unreadable fail; faults that do not (a shape that does not suit its type,
 * overlapping data, doubled names, ...) are left to lm_gguf_check, except those
 * that would make a reader of the data go wrong: with `strict`, these fail too,
 * as does data that the file is too short for (unless the size is unknown) and,
 * with LM_ENOSUP, a tensor type without a row.
 *
 * What is no GGUF at all is named if it is a known kind of file.
 *
 * NULL with *err filled; lm_gguf_free takes the result back.
 */
struct lm_gguf *lm_gguf_read(struct lm_in *in, bool strict, struct lm_err *err);
void lm_gguf_free(struct lm_gguf *g);

/* An entry or tensor by name (the first one of a doubled name), or NULL. */
const struct lm_gguf_kv *lm_gguf_kv(const struct lm_gguf *g, const char *key);
const struct lm_gguf_tensor *lm_gguf_tensor(const struct lm_gguf *g, const char *name);

/* Put entries kv [n] in the place of those of the same name, or behind the others; what they
 * point to is borrowed until lm_gguf_free. */
int lm_gguf_override(struct lm_gguf *g, const struct lm_gguf_kv *kv, size_t n,
                     struct lm_err *err);

/*
 * Typed values.  Return LM_OK, 1 when the key is absent (*out unchanged, so that a
 * default can be set beforehand), or LM_EDATA naming key, wanted and found type
 * when it is there in another type.  Integers of every width are accepted
 * where an integer is wanted if the value fits, floats of both widths where a
 * float is.
 */
int lm_gguf_u32(const struct lm_gguf *g, const char *key, uint32_t *out, struct lm_err *err);
int lm_gguf_i64(const struct lm_gguf *g, const char *key, int64_t *out, struct lm_err *err);
int lm_gguf_f32(const struct lm_gguf *g, const char *key, float *out, struct lm_err *err);
int lm_gguf_bool(const struct lm_gguf *g, const char *key, bool *out, struct lm_err *err);
int lm_gguf_str(const struct lm_gguf *g, const char *key, struct lm_str *out, struct lm_err *err);
/* An array with elements of exactly that kind. */
int lm_gguf_arr(const struct lm_gguf *g, const char *key, enum lm_gguf_kind elem,
                struct lm_gguf_arr *out, struct lm_err *err);

/* "u8", "str", "arr", ...; the name of a kind, and back (-1: none). */
const char *lm_gguf_kind_name(enum lm_gguf_kind k);
int lm_gguf_kind_by_name(const char *name);
/* Bytes of a scalar of that kind in a file, 0 for str and arr. */
size_t lm_gguf_kind_size(enum lm_gguf_kind k);

/*
 * lm_gguf_check - every structural fault, one call of `fault` each, with the
 * file offset of what is wrong.  Returns the number of faults.
 */
uint64_t lm_gguf_check(const struct lm_gguf *g,
                       void (*fault)(void *arg, uint64_t offset, const char *what), void *arg);

/* The first fault for which a strict lm_gguf_read fails, for one that was not strict:
 * LM_OK if there is none, LM_EDATA, or LM_ENOSUP for a type without a row. */
int lm_gguf_strict(const struct lm_gguf *g, struct lm_err *err);

/*
 * lm_gguf_shard_path - where shard k (from 0) of a model in n shards lies.
 *
 *   first  path of shard 0: PREFIX-00001-of-0000n.gguf
 *
 * malloc'ed; NULL when first is not of that form or memory is short.
 */
char *lm_gguf_shard_path(const char *first, uint32_t k, uint32_t n);

/*
 * struct lm_gguf_writer - metadata and tensor infos to be written.
 *
 * Fill it with the functions below (failures of memory are kept and reported by
 * lm_gguf_write_head), then write the head, then each tensor's data in order with
 * lm_gguf_write_pad between.  Setting a key again keeps its place.
 */
struct lm_gguf_writer;

/* An empty one, for the caller to free; NULL when memory is short. */
struct lm_gguf_writer *lm_gguf_writer_new(void);
void lm_gguf_writer_free(struct lm_gguf_writer *w);

/* Set a key, which is copied, to a value of that type; p is [len], of any bytes, copied too. */
void lm_gguf_set_u32(struct lm_gguf_writer *w, const char *key, uint32_t v);
void lm_gguf_set_i32(struct lm_gguf_writer *w, const char *key, int32_t v);
void lm_gguf_set_u64(struct lm_gguf_writer *w, const char *key, uint64_t v);
void lm_gguf_set_f32(struct lm_gguf_writer *w, const char *key, float v);
void lm_gguf_set_bool(struct lm_gguf_writer *w, const char *key, bool v);
void lm_gguf_set_str(struct lm_gguf_writer *w, const char *key, const char *p, size_t len);
/* Elements are copied: n numbers in native order, or n struct lm_str. */
void lm_gguf_set_arr(struct lm_gguf_writer *w, const char *key, enum lm_gguf_kind elem,
                     const void *data, uint64_t n);
/* Any entry as a reader gave it. */
void lm_gguf_set_kv(struct lm_gguf_writer *w, const struct lm_gguf_kv *kv);
/* Forget a key, if it is there. */
void lm_gguf_unset(struct lm_gguf_writer *w, const char *key);

/* The next tensor: offsets follow from order and alignment.  type must have a row. */
void lm_gguf_add_tensor(struct lm_gguf_writer *w, const char *name, size_t name_len,
                        uint32_t n_dims, const uint64_t *ne, const struct lm_type *type);

/*
 * The same as lm_gguf_read would read it, without offsets of entries and infos: for
 * planning.  Texts and arrays are the writer's.  NULL with *err filled;
 * lm_gguf_free takes it back.
 */
struct lm_gguf *lm_gguf_of_writer(const struct lm_gguf_writer *w, struct lm_err *err);

/* Total file size that will result; false when it does not fit 64 bits. */
bool lm_gguf_total_size(const struct lm_gguf_writer *w, uint64_t *size);

/* Write everything up to the data offset (version 3, little-endian). */
int lm_gguf_write_head(const struct lm_gguf_writer *w, struct lm_out *out, struct lm_err *err);

/*
 * The same for metadata as lm_gguf_read gave it, or lists made after its manner, in g's
 * version and byte order, entries and infos as they stand, with the offsets they have:
 * the bytes up to the end of the tensor infos, their number, and how many of them an
 * info takes.  Only version, byte order, kv, tensors and their numbers are looked at.
 */
int lm_gguf_write_same(const struct lm_gguf *g, struct lm_out *out, struct lm_err *err);
uint64_t lm_gguf_head_size(const struct lm_gguf *g);
uint64_t lm_gguf_info_size(const struct lm_gguf *g, const struct lm_gguf_tensor *t);

/* Zeros after a tensor's data of `bytes` bytes, up to the alignment: how many, and written. */
uint64_t lm_gguf_padding(const struct lm_gguf_writer *w, uint64_t bytes);
int lm_gguf_write_pad(const struct lm_gguf_writer *w, struct lm_out *out, uint64_t bytes,
                      struct lm_err *err);

#endif
