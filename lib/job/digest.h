/* SPDX-License-Identifier: MIT */
#ifndef LM_DIGEST_H
#define LM_DIGEST_H

/*
 * Digests of tensors' data, which tell whether two files hold the same weights whatever
 * their metadata say and however they are split.
 */

#include <stddef.h>

#include "base/env.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "io/input.h"

enum lm_digest_kind { LM_DIGEST_XXH64, LM_DIGEST_SHA256 };

#define LM_DIGEST_HEX 65         /* room for one: 16 or 64 digits and a NUL */

/*
 * lm_digest_tensors - the digest of each tensor's bytes, as they are in the file.
 *
 *   in   where g was read from, not moved since (if not seekable)
 *   hex  [n_tensors], in the order of the file's list
 *
 * LM_EDATA, or LM_ENOSUP for a type without a row, when g has faults that a reader of the
 * data stumbles on (lm_gguf_strict) or ends early.
 */
int lm_digest_tensors(struct lm_in *in, const struct lm_gguf *g, enum lm_digest_kind kind,
                      char (*hex)[LM_DIGEST_HEX], const struct lm_env *env, struct lm_err *err);

/* The digest of all bytes from where `in` stands to its end. */
int lm_digest_rest(struct lm_in *in, enum lm_digest_kind kind, char hex[LM_DIGEST_HEX],
                   const struct lm_env *env, struct lm_err *err);

/* The digest of n bytes in memory. */
void lm_digest_bytes(const void *p, size_t n, enum lm_digest_kind kind, char hex[LM_DIGEST_HEX]);

#endif
