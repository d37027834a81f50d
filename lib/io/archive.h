/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_ARCHIVE_H
#define LM_IO_ARCHIVE_H

/*
 * struct lm_archive - the members of a tar, a zip or another archive.
 *
 * Two ways of reading.  By ranges, when the archive is a seekable file whose
 * members lie in it as they are (a tar, a zip without compression): it is
 * indexed once, and any part of any member can be read.  In order otherwise:
 * one member after the other, each from its beginning; a seekable file can be
 * read so again and again, a pipe once.  Reading in order is libarchive's work
 * (formats, compressions), so a build without it reads by ranges only.
 *
 * Formats: tar as in POSIX.1-2008 pax(1), with GNU tar's long names and large
 * sizes; zip as in PKWARE's APPNOTE 6.3 with its 64-bit fields.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct lm_archive;

/* A regular file in an archive.  Everything else but links is passed over. */
struct lm_member {
    const char *name;      /* path as stored, without "./" in front; NUL after it  */
    uint64_t    size;      /* bytes; LM_SIZE_UNKNOWN when only reading it tells    */
    uint64_t    offset;    /* of its bytes in the archive, by ranges only          */
    bool        link;      /* a hard or symbolic link: it has no bytes of its own  */
    bool        has_sum;   /* by ranges: `sum` is the CRC-32 of its bytes          */
    uint32_t    sum;
};

/*
 * lm_archive_open - open an archive; "-" is standard input.
 *
 * A seekable file is indexed if its members can be read by ranges.  What kind
 * of archive it is, if any, may turn out only with the first member; LM_ENOSUP
 * when it needs libarchive and the build has none.  NULL with *err filled.
 */
struct lm_archive *lm_archive_open(const char *path, struct lm_err *err);
void lm_archive_close(struct lm_archive *a);

/* The path, or "<stdin>". */
const char *lm_archive_name(const struct lm_archive *a);
/* Can its members be read by ranges?  Can it be read in order again? */
bool lm_archive_by_range(const struct lm_archive *a);
bool lm_archive_seekable(const struct lm_archive *a);

/* By ranges: the members, n of them, the archive's until it is closed. */
const struct lm_member *lm_archive_members(const struct lm_archive *a, size_t *n);

/* By ranges: exactly n bytes of m from off; the caller keeps off + n within
 * m->size.  Safe from several threads. */
int lm_archive_pread(const struct lm_archive *a, const struct lm_member *m, uint64_t off,
                     void *dst, size_t n, struct lm_err *err);

/* In order: the next member; m->name is valid until the call after.  1, 0 at
 * the end, or a code.  A member that was begun is read to its end first, and a
 * compressed archive to its own before 0: damage that only their sums show is
 * LM_EDATA then. */
int lm_archive_next(struct lm_archive *a, struct lm_member *m, struct lm_err *err);

/* In order: up to n bytes of the current member; *got < n only at its end. */
int lm_archive_read(struct lm_archive *a, void *dst, size_t n, size_t *got, struct lm_err *err);

/* In order: before the first member again; LM_EUSE for a pipe. */
int lm_archive_rewind(struct lm_archive *a, struct lm_err *err);

#endif
