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
#include "hf/source.h"
#include "io/output.h"
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
    bool        lora;               /* src is an adapter (PEFT)                          */
    struct lm_hf_source *base;      /* its model, borrowed, or NULL: where it says       */
};

/*
 * Is that a type a file may be converted to?  "auto" is the type of the first 16-bit tensor with
 * two axes, else f16; "f32", "f16", "bf16" and "q8_0" are as the reference converter
 * makes them; every other name of quantize (quant/mix.h), any case, is what quantize makes of the
 * automatic file, from unrounded weights.
 */
bool lm_convert_knows_type(const char *name);

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
};

size_t lm_convert_n_tensors(const struct lm_convert *c);
struct lm_convert_tensor lm_convert_tensor(const struct lm_convert *c, size_t i);

/*
 * lm_convert_write - the whole file.  Weights that the output's type cannot hold (an
 * infinity or NaN would be written) are LM_EDATA naming tensor, place and value.  *err names
 * the source or the output, whichever it is about.
 */
int lm_convert_write(struct lm_convert *c, struct lm_out *out, struct lm_err *err);

#endif
