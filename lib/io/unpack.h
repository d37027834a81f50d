/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_UNPACK_H
#define LM_IO_UNPACK_H

/*
 * struct lm_unpack - the bytes of a file without its compression, in order.
 *
 * gzip (RFC 1952, members one after the other, zeros behind the last) is inflated with zlib,
 * as libarchive's own reader passes over the sum and the length behind each member; the other
 * compressions are libarchive's, which checks what they have.  All sums have been compared when
 * the end is reached, so a reader who cares goes on to it.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "io/input.h"

struct lm_unpack;

/* From the beginning of a seekable input, or from where a pipe stands; in is borrowed.  NULL
 * with *err filled; LM_ENOSUP in a build without libarchive and zlib. */
struct lm_unpack *lm_unpack_open(struct lm_in *in, struct lm_err *err);
void lm_unpack_close(struct lm_unpack *u);

/* Are the bytes the input's own, as it is not compressed? */
bool lm_unpack_plain(const struct lm_unpack *u);

/* The next *n bytes, valid until the next call; 0 of them at the end. */
int lm_unpack_next(struct lm_unpack *u, const void **p, size_t *n, struct lm_err *err);

#endif
