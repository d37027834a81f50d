/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_ARCHIVE_INDEX_H
#define LM_IO_ARCHIVE_INDEX_H

/* Where the members of a seekable tar or zip lie: what archive.c asks its two
 * format readers. */

#include "base/arena.h"
#include "io/archive.h"
#include "io/input.h"

struct lm_archive_index {
    struct lm_member *members;      /* grown with lm_grow; the caller frees it */
    size_t            n, cap;
    struct lm_arena   names;
};

/* Bytes that a zip file is read from, wherever they are. */
struct lm_zip_bytes {
    uint64_t size;
    /* Exactly n bytes from off. */
    int    (*pread)(void *user, uint64_t off, void *dst, size_t n, struct lm_err *err);
    void    *user;
};

/* As lm_zip_index. */
int lm_zip_members(const struct lm_zip_bytes *in, struct lm_archive_index *x, struct lm_err *err);

/* Each returns 1 with every member listed, 0 when `in` is another format or has
 * members that cannot be read by ranges (compressed, encrypted, sparse), or a
 * code when it is damaged. */
int lm_tar_index(struct lm_in *in, struct lm_archive_index *x, struct lm_err *err);
int lm_zip_index(struct lm_in *in, struct lm_archive_index *x, struct lm_err *err);

/* Add a member; the name (n bytes) is copied, without "./" in front. */
int lm_archive_index_add(struct lm_archive_index *x, const char *name, size_t n, uint64_t size,
                         uint64_t offset, bool link, struct lm_err *err);

#endif
