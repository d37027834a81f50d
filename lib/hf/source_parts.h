/* SPDX-License-Identifier: MIT */
#ifndef LM_HF_SOURCE_PARTS_H
#define LM_HF_SOURCE_PARTS_H

/* What source.c (directories), source_archive.c and source_sums.c share. */

#include "hf/source.h"
#include "io/archive.h"
#include "io/input.h"

#define LM_HF_TEMPLATES "additional_chat_templates/"
#define LM_HF_SMALL_MAX 100000000u      /* bytes of a file that is loaded as a whole */

struct lm_hf_file {
    char    *name;
    uint64_t size;
    bool     used, link;
    char    *path;              /* directory: to open it by                           */
    char    *member;            /* stream: its path in the archive                    */
    uint64_t offset;            /* by ranges: in the archive; spooled: in the spool   */
    size_t   ordinal;           /* stream: place among the members                    */
    char    *head;              /* stream: its first bytes, all of a small file       */
    size_t   head_len;
    /* by ranges, where the archive has sums */
    bool     has_sum;
    uint32_t sum;
    struct lm_hf_stretch *stretches;    /* those that were read (source_sums.c)       */
    size_t   n_stretches, stretches_cap;
};

enum lm_hf_kind {
    LM_HF_DIR, LM_HF_RANGES, LM_HF_SPOOLED,
    LM_HF_AGAIN,                /* a stream that can start over                       */
    LM_HF_ONCE                  /* a pipe                                             */
};

/* Which file has a name: a hash table, filled when names are looked up. */
struct lm_hf_names {
    uint32_t *slots;                    /* 1 + index of a file, 0 empty               */
    size_t    n_slots;                  /* a power of two                             */
    size_t    n;                        /* files that are in it, the first ones       */
};

struct lm_hf_source {
    enum lm_hf_kind      kind;
    const struct lm_env *env;
    struct lm_hf_file   *files;
    size_t               n, cap;
    struct lm_hf_names  *names;
    char                *path, *title, *folder;
    bool                 complete;
    struct lm_in        *in;            /* LM_HF_DIR: the file `current`              */
    struct lm_archive   *archive;
    char                *root;          /* in the archive: "" or "FOLDER/"            */
    int                  spool_fd;
    uint64_t             spool_size;
    /* streams */
    int                  current;       /* file that is being read, -1 none           */
    uint64_t             at;            /* bytes of it gone by                        */
    size_t               ordinal;       /* members gone by                            */
    unsigned             passes;
    bool                 ended;
};

/* Does a name, from the checkpoint's folder on, say that a file has weights? */
bool lm_hf_is_weights(const char *name);

/* ... that a conversion may want the file as a whole? */
bool lm_hf_is_small(const char *name);

/* Add a file; the pointer is valid until the next is added. */
struct lm_hf_file *lm_hf_add(struct lm_hf_source *s, const char *name, uint64_t size,
                             struct lm_err *err);

/* Open the archive at path for s, which is empty but for its kind and env: list its files, and
 * leave in `kind` how they can be read.  Of a pipe only those before the first weights are known.
 * spool_dir: where to put the members of what cannot be read by ranges; NULL: they are read in
 * order. */
int lm_hf_open_archive(struct lm_hf_source *s, const char *path, const char *spool_dir,
                       struct lm_err *err);

/* n bytes from off of file i into dst; of a stream, off and i may go back only if it can start
 * over.  LM_EDATA where the archive ends before, or has another sum. */
int lm_hf_read_member(struct lm_hf_source *s, size_t i, uint64_t off, void *dst, size_t n,
                      struct lm_err *err);

/* n bytes from off of f were read: LM_EDATA if with them all were, and their sum is not the
 * archive's. */
int lm_hf_sum(struct lm_hf_file *f, uint64_t off, const void *p, size_t n, struct lm_err *err);
/* Read what is missing of the files that were used, so that all sums are compared. */
int lm_hf_end_sums(struct lm_hf_source *s, struct lm_err *err);

#endif
