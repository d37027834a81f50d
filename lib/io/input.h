/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_INPUT_H
#define LM_IO_INPUT_H

/*
 * struct lm_in - bytes to read from start to end, from a file or a pipe.
 *
 * zstd input is recognised by its magic and decompressed; frames may be
 * concatenated, and an end inside a frame is LM_EDATA.  Regular files that are
 * not compressed can also be read by ranges.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define LM_SIZE_UNKNOWN UINT64_MAX

struct lm_in;

enum {
    LM_IN_RAW  = 1,      /* leave zstd input as it is                        */
    LM_IN_LONG = 2,      /* allow zstd windows above 2^27                    */
};

/* Open a path; "-" is standard input.  Directories are refused.  NULL with
 * *err filled; the text names no file, lm_in_name does. */
struct lm_in *lm_in_open(const char *path, int flags, struct lm_err *err);
void lm_in_close(struct lm_in *in);

/* Read from a descriptor, which stays the caller's to close.  name is what messages call
 * it. */
struct lm_in *lm_in_from_fd(int fd, const char *name, int flags, struct lm_err *err);

/* Read n bytes that are in memory, borrowed until lm_in_close. */
struct lm_in *lm_in_from_memory(const void *p, size_t n, const char *name, int flags,
                                struct lm_err *err);

/* The path, or "<stdin>"; what messages call it. */
const char *lm_in_name(const struct lm_in *in);

/* Read up to n bytes; *got < n only at the end of input.  LM_OK or a code. */
int lm_in_read(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err);

/* One read of what is there now, at least 1 byte unless the input ended: for
 * programs that answer as input arrives. */
int lm_in_read_some(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err);

/* Look at the next n bytes, at most 4096, without reading them, decompressed if they are
 * compressed; *got < n at the end of input. */
int lm_in_peek(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err);

/* What was read ahead of the position: *p points at it until the next call that reads or
 * skips.  Its number of bytes; 0 when there is nothing, as ever when input is compressed. */
size_t lm_in_ahead(const struct lm_in *in, const uint8_t **p);

/* Exactly n bytes, or LM_EDATA "ends at byte X: needs N more bytes". */
int lm_in_read_all(struct lm_in *in, void *dst, size_t n, struct lm_err *err);

/* Move n bytes ahead; fails as lm_in_read_all does. */
int lm_in_skip(struct lm_in *in, uint64_t n, struct lm_err *err);

/* Bytes read so far (of the decompressed stream). */
uint64_t lm_in_pos(const struct lm_in *in);

/* Size of the whole (decompressed) stream, LM_SIZE_UNKNOWN for pipes and
 * compressed input. */
uint64_t lm_in_size(const struct lm_in *in);

/* Can lm_in_pread be used? */
bool lm_in_seekable(const struct lm_in *in);

/* Exactly n bytes from offset off, without moving the position; safe from
 * several threads.  Only if seekable. */
int lm_in_pread(struct lm_in *in, uint64_t off, void *dst, size_t n, struct lm_err *err);


/* The descriptor, for fstat and poll; owned by in. */
int lm_in_fd(const struct lm_in *in);

/* lm_read_file for an input that is open: all that was not read yet. */
int lm_in_read_rest(struct lm_in *in, size_t limit, char **data, size_t *len, struct lm_err *err);

/*
 * lm_read_file - a whole file (or "-") in memory, at most `limit` bytes.
 * *data is malloc'ed, has a NUL after its *len bytes, and is the caller's.
 */
int lm_read_file(const char *path, size_t limit, char **data, size_t *len, struct lm_err *err);

#endif
