/* SPDX-License-Identifier: MIT */
#ifndef LM_GGUF_INTERNAL_H
#define LM_GGUF_INTERNAL_H

/* What the files of this folder share. */

#include "gguf/gguf.h"

/* Is it UTF-8, all of it? */
bool lm_gguf_is_utf8(const struct lm_str *s);

/* Fill the by_name lists; false when memory is short. */
bool lm_gguf_index(struct lm_gguf *g);

/* Bytes of t's data: false when its shape is empty, does not suit its type or
 * the product does not fit. */
bool lm_gguf_tensor_bytes(const struct lm_gguf_tensor *t, uint64_t *bytes);

/*
 * Copy t's data, which begins at byte `at` of the input, to the output; `in` is there or
 * before it.  block [size] is scratch.  Failures name the file and the tensor.
 */
int lm_gguf_copy_data(struct lm_in *in, uint64_t at, const struct lm_gguf_tensor *t,
                      uint8_t *block, size_t size, struct lm_out *out,
                      const struct lm_env *env, struct lm_err *err);

/* Read a pipe or a compressed file to its end, so that whoever writes it ends in peace,
 * and damage behind the last tensor is noticed. */
int lm_gguf_drain(struct lm_in *in, struct lm_err *err);

/* Print a name from a file into a message: at most this many of its bytes. */
#define LM_NAME_MAX  120
#define LM_NAME_ARG(s) (int)((s).len < LM_NAME_MAX ? (s).len : LM_NAME_MAX), (s).p

#endif
