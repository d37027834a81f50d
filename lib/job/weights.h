/* SPDX-License-Identifier: MIT */
#ifndef LM_JOB_WEIGHTS_H
#define LM_JOB_WEIGHTS_H

/* Which importance a tensor is encoded with: what quantizing and converting share. */

#include <stdbool.h>
#include <stddef.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "gguf/importance.h"
#include "quant/mix.h"

struct lm_weights {
    const struct lm_importance *importance;     /* or NULL                                  */
    const char                 *name;           /* of its file, as the output says          */
    /* Only entries whose name contains one of these; without those that contain one of
     * those.  NULL-terminated; NULL: none. */
    const char *const *include, *const *exclude;
};

/* The importance of a tensor to be encoded, or NULL; *wrong says that there is some, of
 * another size. */
const struct lm_importance_entry *lm_weights_of(const struct lm_weights *w,
                                                const struct lm_mix_tensor *t, bool *wrong);

/*
 * lm_weights_check - has every tensor that needs importance some of its size?
 *
 * A single fault is in *err; of several each is noted, one past a hundred only as information,
 * and *err has how many there are.  LM_EDATA when one has another size, LM_EUSE when all are
 * missing.  What is missing and not needed is a warning.
 */
int lm_weights_check(const struct lm_weights *w, const struct lm_mix_tensor *t, size_t n,
                     const struct lm_env *env, struct lm_err *err);

/* The keys that say what importance a file was made with, last in it. */
void lm_weights_keys(const struct lm_weights *w, struct lm_gguf_writer *out);

#endif
