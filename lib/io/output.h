/* SPDX-License-Identifier: MIT */
#ifndef LM_IO_OUTPUT_H
#define LM_IO_OUTPUT_H

/*
 * struct lm_out - a file that appears only when it is complete.
 *
 * A named regular target is written beside itself as .NAME.XXXXXX.part,
 * fsynced and renamed by lm_out_commit; anything else (pipe, device, socket)
 * and "-" are written directly.  Symbolic links are followed.  The mode is the
 * old file's, else 0666 less umask.  A target named *.zst is compressed
 * (level 3, checksum, the same bytes however it is written).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct lm_out;

/* Open; "-" or NULL is standard output.  NULL with *err filled. */
struct lm_out *lm_out_open(const char *path, struct lm_err *err);

/*
 * lm_out_open_kept - the same for a regular file that may take several runs: the temporary
 * file is .NAME.part, and stays after lm_out_abort, and however the process ends.
 *
 * What an earlier run left there is not written again: bytes that are appended are compared
 * with it, and from the first that differs on it is cut off.  LM_EUSE for anything but a
 * regular file, and for one that would be compressed.
 */
struct lm_out *lm_out_open_kept(const char *path, struct lm_err *err);
/* The temporary file of one that is kept, else NULL.  Valid until commit or abort. */
const char *lm_out_kept_part(const struct lm_out *out);
/* Kept: bytes of an earlier run from here on.  To read them: exactly n from `off` after
 * here.  To go over n of them, known to be right.  To forget them. */
uint64_t lm_out_left(const struct lm_out *out);
int lm_out_read_left(const struct lm_out *out, uint64_t off, void *dst, size_t n,
                     struct lm_err *err);
int lm_out_skip(struct lm_out *out, uint64_t n, struct lm_err *err);
int lm_out_cut(struct lm_out *out, struct lm_err *err);

/*
 * lm_out_to - give the bytes to a function instead, in pieces of any size, when they are flushed
 * or completed; name is what messages call it.
 *
 * take returns LM_OK or a code below zero with *err filled, which is what the call that flushed
 * then returns.  lm_out_to_buf appends to *b, which the caller releases.
 */
typedef int lm_take_bytes(void *arg, const void *p, size_t n, struct lm_err *err);
struct lm_out *lm_out_to(lm_take_bytes *take, void *arg, const char *name, struct lm_err *err);
struct lm_out *lm_out_to_buf(struct lm_buf *b, struct lm_err *err);

/* Would two paths be one file once it was written?  Neither has to exist; links are seen
 * through. */
bool lm_out_same(const char *a, const char *b);

/* The path, or "<stdout>". */
const char *lm_out_name(const struct lm_out *out);

/* The temporary file's path, or NULL when written directly or kept: what a signal
 * handler has to unlink.  Valid until commit or abort. */
const char *lm_out_part(const struct lm_out *out);

/* Append bytes (buffered). */
int lm_out_write(struct lm_out *out, const void *p, size_t n, struct lm_err *err);
/* Append n zero bytes. */
int lm_out_zeros(struct lm_out *out, uint64_t n, struct lm_err *err);
/* Hand everything buffered to the system now. */
int lm_out_flush(struct lm_out *out, struct lm_err *err);
/* Bytes appended so far, before compression. */
uint64_t lm_out_pos(const struct lm_out *out);
/* Is this a terminal? */
bool lm_out_is_tty(const struct lm_out *out);

/* Flush, fsync and close, so that only the renaming is left for lm_out_commit: for
 * several outputs that shall appear together.  Nothing can be written afterwards; after
 * a failure only lm_out_abort is left. */
int lm_out_complete(struct lm_out *out, struct lm_err *err);
/* Flush, fsync, rename, close; frees out whatever comes back. */
int lm_out_commit(struct lm_out *out, struct lm_err *err);
/* Close and remove the temporary file; frees out.  NULL is fine. */
void lm_out_abort(struct lm_out *out);

#endif
