/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_CONVERT_H
#define LM_JOB_CONVERT_H

/*
 * A Hugging Face checkpoint to a GGUF file: first a plan, from configuration and headers
 * alone, in which everything is checked that can be; then the file, written once from
 * front to back in row blocks, so that memory does not grow with the model.
 *
 *   struct lm_convert *c = lm_convert_new(src, &options, env, &err);
 *   lm_convert_write(c, out, &err);
 *
 * Keys, tensors, their order and bytes are those of the reference converter.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/split.h"
#include "hf/source.h"
#include "io/output.h"
#include "job/weights.h"
#include "quant/quant.h"

struct lm_convert_options {
    const char *type;               /* see lm_convert_knows_type; NULL: "auto"           */
    bool        vocab_only;         /* no tensors                                        */
    const char *model_name;         /* general.name, or NULL                             */
    const char *metadata;           /* JSON object of general.* keys to set, or NULL     */
    size_t      metadata_len;
    const char *chat_template;      /* instead of the checkpoint's, or NULL              */
    size_t      chat_template_len;
    const char *pre;                /* tokenizer.ggml.pre, or NULL: recognise it         */
    struct lm_weights weights;      /* importance, borrowed until lm_convert_free        */
    bool        no_draft_head;      /* without layers that predict further tokens        */
    bool        fp8_as_q8;          /* weights that are FP8 become Q8_0 in a file of floats */
    const char *provenance;         /* what made the file, or NULL                       */
    const char *provenance_key;     /* and where that stands                             */
    bool        lora;               /* src is an adapter (PEFT)                          */
    struct lm_hf_source *base;      /* its model, borrowed, or NULL: where it says       */
};

/*
 * Is that a type a file may be converted to?  "auto" is the type of the first 16-bit tensor with
 * two axes, else f16; "f32", "f16", "bf16" and "q8_0" are as the reference converter
 * makes them; every other name of quantize (quant/mix.h), any case, is what quantize makes of the
 * automatic file, from unrounded weights, with options.weights.
 */
bool lm_convert_knows_type(const char *name);

/* Class i of config.json that has a language model inside, which is what is converted; NULL after
 * the last.  *arch is its architecture, or "text_config" where that says it. */
const char *lm_convert_wrapper(size_t i, const char **arch);

struct lm_convert;

/*
 * lm_convert_new - plan a conversion of src, which is borrowed until lm_convert_free (options
 * need not live on).
 *
 * Checked: that all weight files are there and whole, every header's ranges, that the tensors
 * are the architecture's with the shapes that follow from config.json, the vocabulary
 * against the embedding.  LM_EDATA naming file and tensor; LM_ENOSUP for what this version
 * cannot convert.  From a pipe, weight files that have not come yet are checked when they do.
 */
struct lm_convert *lm_convert_new(struct lm_hf_source *src, const struct lm_convert_options *o,
                                  const struct lm_env *env, struct lm_err *err);
void lm_convert_free(struct lm_convert *c);

/* The model of an adapter, if lm_convert_new opened it, or NULL. */
const struct lm_hf_source *lm_convert_base(const struct lm_convert *c);

/* Bytes of the file that lm_convert_write writes. */
uint64_t lm_convert_size(const struct lm_convert *c);

/* One tensor of the plan; pointers are the plan's. */
struct lm_convert_tensor {
    const char           *name;
    const struct lm_type *type;
    uint32_t              n_dims;
    uint64_t              ne[4];            /* innermost first                      */
    uint64_t              bytes;
    const char           *file, *source;    /* where it comes from; NULL: made      */
    const char           *dtype;            /* as in the file's header; NULL: made,
                                               or not known yet                     */
    /* the rest is filled by lm_convert_tensor */
    char                  from[16];         /* dtype in small letters, "-" without  */
    uint64_t              bytes_from;       /* in the checkpoint, as far as known   */
    size_t                n_parts;          /* checkpoint tensors that it is        */
    bool                  weighted;         /* encoded with importance              */
};

/* The type of the file as quantize names it: "F16", "Q4_K_M", .. */
const char *lm_convert_type_name(const struct lm_convert *c);

/* How many tensors the file will have, and number i of them. */
size_t lm_convert_n_tensors(const struct lm_convert *c);
struct lm_convert_tensor lm_convert_tensor(const struct lm_convert *c, size_t i);

/* Where the file goes. */
struct lm_convert_target {
    struct lm_out   *out;           /* the file; NULL: several                           */
    struct lm_split *split;         /* several: what lm_convert_split planned            */
    struct lm_out *(*open)(void *user, size_t k, struct lm_err *err);   /* shard k of these */
    void            *user;
    bool             resume;        /* out is kept (io/output.h): leave a list of sums
                                       beside it, and go over what has the sum it had    */
};

/* Plan how the file is divided, as gguf-split divides it; lm_split_free takes it back.  NULL
 * with *err filled. */
struct lm_split *lm_convert_split(const struct lm_convert *c, const struct lm_split_options *o,
                                  const char *name, struct lm_err *err);

/* lm_convert_write to any target; with several files, each is complete (lm_out_complete) before
 * the next is opened.  Committing, or removing what is there, is left to the caller. */
int lm_convert_write_to(struct lm_convert *c, const struct lm_convert_target *t,
                        struct lm_err *err);

/*
 * lm_convert_write - the whole file.  Weights that the output's type cannot hold (an
 * infinity or NaN would be written) are LM_EDATA naming tensor, place and value.  *err names
 * the source or the output, whichever it is about.
 */
int lm_convert_write(struct lm_convert *c, struct lm_out *out, struct lm_err *err);

#endif
