/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_SPLIT_H
#define LM_GGUF_SPLIT_H

/*
 * A model in one file or several, in another number of files.
 *
 *   struct lm_split *s = lm_split_open(in, flags, env, &err);
 *   lm_split_plan(s, &o, env, &err);
 *   for (k = 0; k < s->n_shards; k++)
 *       lm_split_write(s, k, out, env, &err);
 *
 * The shards of a model are called NAME-00001-of-00003.gguf, and so on (llama.cpp reads
 * them).  Each is a GGUF file, and has the keys
 *
 *   split.no             u16: its number, from 0
 *   split.count          u16: the number of shards
 *   split.tensors.count  i32: tensors in all of them
 *
 * The other metadata is in the first alone, but for general.alignment, by which each file
 * is laid out.  Tensors stand in the order of their data in the input, without gaps; all
 * inputs may be read from start to end, so the first can be a pipe.  Memory holds the
 * metadata and a block of data.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "io/output.h"

#define LM_SPLIT_MAX_SHARDS 65535        /* what the keys can count                 */

/* A file of the input. */
struct lm_split_input {
    struct lm_in   *in;                  /* NULL: not open at the moment            */
    char           *path;
    struct lm_gguf *g;
};

/* A tensor where it lies in the input. */
struct lm_split_tensor {
    const struct lm_gguf_tensor *t;
    size_t                       input;
};

/* A file of the output: tensors first to first + g.n_tensors - 1 of the list. */
struct lm_split_shard {
    struct lm_gguf g;                    /* version, byte order, kv and tensors only */
    uint64_t       first;
    uint64_t       size;                 /* bytes of the file                        */
};

struct lm_split {
    struct lm_split_input  *inputs;
    size_t                  n_inputs;
    struct lm_split_tensor *tensors;     /* by input, then offset                    */
    uint64_t                n_tensors;
    struct lm_split_shard  *shards;      /* the plan                                 */
    size_t                  n_shards, shards_cap;
    bool                    long_window;
    bool                    padded;      /* the first header has its zeros behind it */
    struct lm_arena         arena;
};

struct lm_split_options {
    bool     merge;                      /* one file, without the keys               */
    uint64_t max_tensors;                /* of a shard; 0: no limit                  */
    uint64_t max_size;                   /* bytes of a shard's file; 0: no limit     */
    bool     no_tensor_first;            /* metadata alone in the first shard        */
    const struct lm_gguf_kv *extra;      /* an entry to add, or NULL                 */
};

/*
 * lm_split_open - read all headers of the model whose first, or only, file `in` is.
 *
 *   in     borrowed until lm_split_free
 *   flags  as for lm_in_open: how the others are opened
 *
 * LM_EDATA when a file is faulty, a shard says it is another, tensors are missing or
 * doubled; LM_EUSE when `in` is not the first shard or its name does not tell those of the
 * others; LM_EIO when one is not there.  Failures name the file.
 */
struct lm_split *lm_split_open(struct lm_in *in, int flags, const struct lm_env *env,
                               struct lm_err *err);
/* The same where the others are paths [n], whatever they are called: LM_EUSE when there are more or
 * fewer than the first file says. */
struct lm_split *lm_split_open_list(struct lm_in *in, const char *const *paths, size_t n, int flags,
                                    const struct lm_env *env, struct lm_err *err);
/* The same for a file that is not there yet: only planning and lm_split_write_head can be
 * done with it.  name is what messages call it; g becomes the split's, also on failure. */
struct lm_split *lm_split_of(struct lm_gguf *g, const char *name, struct lm_err *err);
void lm_split_free(struct lm_split *s);

/* Is the model in shards, even if it is only one? */
bool lm_split_is_shard(const struct lm_split *s);

/*
 * lm_split_plan - decide what goes into which file.
 *
 * A shard is full when another tensor would make it larger than a limit; one tensor, or the
 * metadata, that is larger than max_size has a shard for itself, of which env's note
 * hears.  LM_EUSE for more than LM_SPLIT_MAX_SHARDS.
 */
int lm_split_plan(struct lm_split *s, const struct lm_split_options *o, const struct lm_env *env,
                  struct lm_err *err);

/* Write shard k of the plan; in order, each once.  Failures name the file. */
int lm_split_write(struct lm_split *s, size_t k, struct lm_out *out, const struct lm_env *env,
                   struct lm_err *err);

/* Only what stands before the data.  Failures do not name the file. */
int lm_split_write_head(const struct lm_split *s, size_t k, struct lm_out *out,
                        struct lm_err *err);

/* PREFIX-00001-of-0000n.gguf for k = 0, and so on: malloc'ed, NULL when memory is short. */
char *lm_split_path(const char *prefix, size_t k, size_t n);

#endif
