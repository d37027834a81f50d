/* SPDX-License-Identifier: MIT */
#ifndef LM_SCAN_H
#define LM_SCAN_H

/* GGUFs inside other files: memory images, programs, archives that do not compress. */

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "io/input.h"

struct lm_scan_hit {
    uint64_t offset;             /* of the magic                                */
    uint32_t version;
    bool     big_endian;
    uint64_t n_tensors, n_kv;    /* as the header says                          */
};

/*
 * lm_scan - every place of the input that begins as a GGUF does: magic, version 1 to 3,
 * and a first name, of a key or else a tensor, that is short and printable.
 *
 * Reads to the end, in little memory.  LM_OK or a code; *n is the number of hits.
 */
int lm_scan(struct lm_in *in, void (*hit)(void *arg, const struct lm_scan_hit *h), void *arg,
            uint64_t *n, const struct lm_env *env, struct lm_err *err);

#endif
