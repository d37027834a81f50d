/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_JOB_H
#define LM_QUANT_JOB_H

/*
 * Quantizing a GGUF: a plan from its metadata, then one pass over its data.
 *
 *   struct lm_quantize *q = lm_quantize_plan(in, &o, env, &err);
 *   for (k = 0; k < q->n_parts; k++)
 *       lm_quantize_run(q, k, &output, env, &err);
 *
 * Everything that can be refused without the data is refused by the plan, before
 * a byte is written.  The pass needs memory for a few rows, and neither input nor
 * output has to be seekable.  The bytes depend on nothing but input and options.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "gguf/importance.h"
#include "io/input.h"
#include "io/output.h"
#include "job/pattern.h"
#include "quant/mix.h"

/* A type for the tensors whose name matches. */
struct lm_quantize_wish {
    struct lm_pattern    *pattern;
    const struct lm_type *type;
};

struct lm_quantize_options {
    const struct lm_file_type *file_type;
    bool pure;                               /* no mix: the default type             */
    bool leave_output;                       /* output.weight as it is               */
    bool allow_requantize;                   /* also from quantized types            */
    bool keep_split;                         /* a file for each shard                */
    bool guess_file_type;                    /* general.file_type as the tensors say */
    bool sort;                               /* tensors in llama.cpp's order         */
    bool dry_run;                            /* a plan to look at, also of what would be
                                                refused                              */
    const struct lm_type *output_type, *embedding_type;       /* or NULL             */
    const struct lm_quantize_wish *wishes;                    /* the first match counts */
    size_t                         n_wishes;
    const struct lm_gguf_kv       *overrides;                 /* metadata to set     */
    size_t                         n_overrides;
    const struct lm_importance    *importance;                /* or NULL             */
    const char                    *importance_name;           /* as the output says  */
    /* Only entries whose name contains one of these; without those that contain
     * one of those.  NULL-terminated; NULL: none. */
    const char *const *include, *const *exclude;
    /* Layers to leave out, ascending, each once; the others are numbered anew. */
    const uint32_t *prune;
    size_t          n_prune;
    /* Not the mix decides the types of what it would quantize, but which of them lose least
     * within so many bytes of the file, or so many bits for each weight of the model
     * (quant_target.c says how); what the user names keeps its type.  0: the mix. */
    uint64_t target_size;
    double   target_bpw;
};

/* A file of the input: one, or as many as the model has shards. */
struct lm_quantize_shard {
    struct lm_in   *in;                      /* the first is the caller's            */
    struct lm_gguf *g;
};

/* A tensor of the output. */
struct lm_quantize_row {
    const struct lm_gguf_tensor *in;
    struct lm_str                name;       /* in the output                        */
    size_t                       shard;
    const struct lm_type        *target;     /* in->type: copied                     */
    uint64_t                     bytes;
    bool                         chosen;     /* the mix, a wish or the target gave it a type */
    const struct lm_importance_entry *weights;   /* used for it, or NULL             */
};

/* A file of the output: the one, or that of a shard. */
struct lm_quantize_part {
    struct lm_gguf_writer *w;
    size_t                 first, n;         /* its rows                             */
};

/* What a tensor lost: over all its weights, the squares of the differences, and these times
 * the importance of the column (1 where there is none). */
struct lm_quantize_error {
    double squares, weighted;
};

struct lm_quantize {
    struct lm_quantize_shard *shards;        /* metadata is that of the first        */
    size_t                    n_shards;
    struct lm_quantize_part  *parts;
    size_t                    n_parts;
    struct lm_quantize_row   *rows;          /* in the output's order, part by part  */
    size_t                    n_rows;
    struct lm_arena           arena;         /* new names and arrays                 */
    struct lm_importance     *renamed;       /* importance without pruned layers     */
    struct lm_err             refused;       /* why a run would be, after a dry one  */
};

/*
 * lm_quantize_plan - read the header of `in` and decide everything.
 *
 * If it is the first shard of a model, the others are opened too.  `in` and what the
 * options point to are borrowed until lm_quantize_free.  Warnings go to env's note.
 * LM_EDATA for a faulty input; LM_EUSE and LM_ENOSUP for what other options or another
 * version could do.  NULL with *err filled.
 */
struct lm_quantize *lm_quantize_plan(struct lm_in *in, const struct lm_quantize_options *o,
                                     const struct lm_env *env, struct lm_err *err);
void lm_quantize_free(struct lm_quantize *q);

struct lm_quantize_output {
    struct lm_out            *out;
    struct lm_quantize_error *errors;        /* [n_rows], zeroed: get what each tensor lost;
                                                or NULL                              */
    bool                      resume;        /* go over what an earlier run left: out is from
                                                lm_out_open_kept, errors NULL        */
    uint64_t                  buffer;        /* bytes of input at a time, or one row if that
                                                is more; 0: LM_QUANTIZE_BUFFER       */
};

#define LM_QUANTIZE_BUFFER (4 * 1024 * 1024)

/* Write part k of the output, in order, each once: header, then tensor by tensor.  Uses env's
 * threads.  err names the file that a failure is about. */
int lm_quantize_run(const struct lm_quantize *q, size_t k, const struct lm_quantize_output *o,
                    const struct lm_env *env, struct lm_err *err);

#endif
