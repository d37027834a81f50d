/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_SOURCE_H
#define LM_HF_SOURCE_H

/*
 * struct lm_hf_source - the files of a checkpoint, from wherever they are: a
 * directory, an archive, or an archive that arrives through a pipe.
 *
 * In an archive the checkpoint's folder is the one nearest to the top that has
 * a config.json.  A directory, an archive that is read by ranges, and a spooled
 * one give any part of any file at once.  Other archives are streams: small
 * files and the headers of weight files are kept, and reading weights in the
 * order in which they lie goes through the stream once; a seekable stream starts
 * over when it must go back, a pipe cannot.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/env.h"
#include "base/err.h"
#include "base/json.h"

struct lm_hf_source;

/*
 * lm_hf_open - look through a directory, the one that a file called like weights
 * lies in, an archive, or "-", an archive on standard input.
 *
 *   spool_dir  NULL, or where to keep (as one unlinked file) what a stream
 *              carries, so that its order does not matter
 *
 * From a pipe without spool_dir this reads up to the first weight file.  NULL with
 * *err filled; env is kept until lm_hf_close.
 */
struct lm_hf_source *lm_hf_open(const char *path, const char *spool_dir,
                                const struct lm_env *env, struct lm_err *err);
void lm_hf_close(struct lm_hf_source *s);

/* The path it was opened by, or "<stdin>": what messages call it. */
const char *lm_hf_path(const struct lm_hf_source *s);

/* The folder that it lies in or is: what paths in its files are relative to.  NULL for standard
 * input. */
const char *lm_hf_folder(const struct lm_hf_source *s);

/* What the model is called by where it lies: the name of the directory, of the folder
 * in the archive, or of the archive less its extensions; "" when nothing tells. */
const char *lm_hf_title(const struct lm_hf_source *s);

/* The files, sorted by name (from a pipe, weights last, as they come); names are relative to
 * the checkpoint's folder. */
size_t lm_hf_n_files(const struct lm_hf_source *s);
const char *lm_hf_name(const struct lm_hf_source *s, size_t i);
uint64_t lm_hf_size(const struct lm_hf_source *s, size_t i);   /* LM_SIZE_UNKNOWN too */
/* Index of a file, or -1. */
int lm_hf_find(const struct lm_hf_source *s, const char *name);

/* Can any part of any file be read at any time, or only what comes next? */
bool lm_hf_random(const struct lm_hf_source *s);

/* In a pipe, files may still come; true when all are known. */
bool lm_hf_complete(const struct lm_hf_source *s);

/*
 * lm_hf_load - a small file as a whole: malloc'ed, the caller's, a NUL after it.
 * 1 when there is none (*data stays as it is), LM_OK, or a code with *err naming
 * the file.  From a stream each file can be loaded once.
 */
int lm_hf_load(struct lm_hf_source *s, const char *name, char **data, size_t *len,
               struct lm_err *err);

/* The same as a tree in an arena; *out stays as it is when there is none, which is LM_OK.  With
 * _object, what is none is LM_EDATA. */
int lm_hf_load_tree(struct lm_hf_source *s, struct lm_arena *a, const char *name,
                    const struct lm_jval **out, struct lm_err *err);
int lm_hf_load_object(struct lm_hf_source *s, struct lm_arena *a, const char *name,
                      const struct lm_jval **out, struct lm_err *err);

/* Is the text in a small file?  The file can be loaded afterwards. */
bool lm_hf_contains(struct lm_hf_source *s, const char *name, const char *text);

/* Exactly n bytes of file i from off.  *err does not name the file.  LM_ENOSUP from a
 * pipe when it has gone past them. */
int lm_hf_read(struct lm_hf_source *s, size_t i, uint64_t off, void *dst, size_t n,
               struct lm_err *err);

/* From a pipe: go on to the next weight file, which becomes the last of the files.
 * 1, 0 when the pipe ends without one, or a code. */
int lm_hf_next_weights(struct lm_hf_source *s, struct lm_err *err);

/* Read a pipe to its end, and from an archive with sums the rest of the files that were used:
 * LM_EDATA where a sum is another.  A file that belongs before the weights but comes after them
 * in a pipe is LM_ENOSUP: what was written lacks it. */
int lm_hf_drain(struct lm_hf_source *s, struct lm_err *err);

/* Fail because `name` was not there when it was needed: LM_EDATA, or, when it may come
 * later through the pipe, LM_ENOSUP with the order and the room --spool needs. */
int lm_hf_missing(struct lm_hf_source *s, const char *name, struct lm_err *err);

/* The same for weights: file `name` came where `want` was due; `what` says why the order in a
 * file does not suit, and ends in a colon or "or". */
int lm_hf_not_next(struct lm_hf_source *s, const char *name, const char *want,
                   struct lm_err *err);
int lm_hf_need_spool(struct lm_hf_source *s, const char *what, struct lm_err *err);

/* The paths that were opened or read so far, for a makefile rule; i from 0, NULL after
 * the last. */
const char *lm_hf_dep(const struct lm_hf_source *s, size_t i);

#endif
