/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_RESTORE_H
#define LM_JOB_RESTORE_H

/*
 * A GGUF file back to a Hugging Face checkpoint: config.json and model.safetensors, by the rows
 * of the architecture that conversion (convert.h) reads, the other way round.
 *
 *   struct lm_restore *r = lm_restore_new(in, NULL, env, &err);
 *   text = lm_restore_config(r, &len);
 *   lm_restore_write(r, out, &err);
 *
 * Everything is settled before the first byte: what config.json says is read as conversion would
 * read it, and must give the numbers that the file has; every tensor of the checkpoint must be
 * made whole by those of the file.  What cannot be said or made so is refused.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/env.h"
#include "base/err.h"
#include "io/input.h"
#include "io/output.h"

struct lm_restore;

/* Is that a type of weights in a checkpoint: "f32", "f16", "bf16" or "auto"? */
bool lm_restore_knows_type(const char *name);

/*
 * lm_restore_new - read the head of a model and plan its checkpoint.
 *
 *   in    the model, uncompressed and in one file, where it begins; borrowed until
 *         lm_restore_free
 *   type  of all weights, any case; NULL or "auto": that of the model's first matrix if it is
 *         one of the three, else bf16
 *   env   borrowed likewise, may be NULL
 *
 * NULL with *err, which does not name the input: LM_EDATA for a faulty model, LM_ENOSUP naming
 * the family, key or tensor that has no way back, LM_EUSE for an input that cannot be read by
 * ranges.
 */
struct lm_restore *lm_restore_new(struct lm_in *in, const char *type, const struct lm_env *env,
                                  struct lm_err *err);
void lm_restore_free(struct lm_restore *r);

/* The text of config.json, *len bytes; r's. */
const char *lm_restore_config(const struct lm_restore *r, size_t *len);

/*
 * lm_restore_write - model.safetensors, from front to back, a block of rows at a time.
 *
 * Weights that are infinite or NaN are LM_EDATA, those beyond what the type can hold LM_EUSE,
 * naming tensor and value.  *err names input or output, whichever it is about.
 */
int lm_restore_write(struct lm_restore *r, struct lm_out *out, struct lm_err *err);

#endif
