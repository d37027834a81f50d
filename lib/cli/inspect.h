/* SPDX-License-Identifier: MIT */
#ifndef LM_CLI_INSPECT_H
#define LM_CLI_INSPECT_H

/*
 * The reports of gguf-inspect.  What they tell is computed in job/ and gguf/; here it is
 * opened and printed.  Each returns an exit status and has told of what went wrong.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "cli/report_table.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "job/digest.h"
#include "job/footprint.h"

/* A file, or the files of a split model in order. */
struct cli_file {
    struct lm_in   *in;
    struct lm_gguf *g;
};

struct cli_model {
    struct cli_file *files;
    size_t           n;
};

struct cli_inspect;

/*
 * A report: of a model whose files have been opened and read (`model`), of a path (`path`)
 * or of two (`two`).
 */
struct cli_report_kind {
    const char *option;                  /* by which it is asked for, "" for the listing */
    unsigned    forms;                   /* of enum cli_form, those it can have          */
    int (*model)(const struct cli_inspect *o, const struct cli_model *m);
    int (*path)(const struct cli_inspect *o, const char *path);
    int (*two)(struct cli_inspect *o, const char *a, const char *b);
    /* Sees what could be opened and is no GGUF, or NULL. */
    void (*broken)(const struct cli_inspect *o, struct lm_in *in, const struct lm_err *err);
    /* Shows a file of another kind, or returns false; NULL: there are none. */
    bool (*foreign)(const struct cli_inspect *o, struct lm_in *in, int *status);
};

struct cli_inspect {
    const struct cli_report_kind *kind;
    struct lm_env         env;
    enum cli_form         form;
    bool                  long_window, no_follow;
    bool                  full, explain;           /* values; what keys mean          */
    bool                  kv, tensors, totals;     /* parts of the listing; none: all */
    const char          **keys;                    /* to get                          */
    size_t                n_keys;
    bool                  no_newline, null;        /* of values                       */
    bool                  check_data;
    enum lm_digest_kind   digest;
    const char           *verify;                  /* file with digests               */
    const char           *tensor;                  /* to print                        */
    uint64_t              n_numbers;               /* of them to print; 0: all        */
    uint32_t              n_bins;                  /* of histograms; 0: none          */
    bool                  tolerant;
    double                tolerance;
    struct lm_footprint_options memory;
    size_t                n_shown;                 /* files that were listed          */
    struct { char **path; size_t n, cap; } brought;    /* shards that the first brought */
};

/* The report on each path of a NULL-terminated list, or on the two there are.  Shards that
 * the first of a model has brought are passed over. */
int cli_inspect_all(struct cli_inspect *o, char *const *paths);

/* Give back what o has come to own. */
void cli_inspect_release(struct cli_inspect *o);

/* ---- for the reports ------------------------------------------------------- */

/* Open a path with all shards of the model: what could be opened is in *m, the worst status
 * comes back. */
int cli_model_open(struct cli_inspect *o, const char *path, struct cli_model *m);
void cli_model_close(struct cli_model *m);

/* Open one file for reports on any file; NULL when that failed and was told: *status. */
struct lm_in *cli_any_open(const struct cli_inspect *o, const char *path, int flags,
                           int *status);

/* The name of a model, for messages: that of its first file. */
const char *cli_model_name(const struct cli_model *m);

/* Its files as the library takes them; the caller frees the list. */
const struct lm_gguf **cli_model_files(const struct cli_model *m);

/* What a report should not pass over in silence: data that a reader of it would stumble
 * on.  A type this version does not know is no fault.  A status. */
int cli_unsound(const struct lm_gguf *g, const char *name);

/* {"file":"NAME" - the beginning of a JSON object of a report. */
void cli_json_file(struct lm_buf *out, const char *name);

/* ,"KEY":N   ,"KEY":"TEXT" */
void cli_json_u64(struct lm_buf *out, const char *key, uint64_t n);
void cli_json_text(struct lm_buf *out, const char *key, const char *text, size_t len);

/* A tensor's type by name or number, its shape, and a float that reads back to the same. */
void cli_put_type(struct lm_buf *out, const struct lm_gguf_tensor *t);
void cli_put_shape(struct lm_buf *out, const struct lm_gguf_tensor *t);
void cli_put_float(struct lm_buf *out, float f);

/* The reports: rows of the program's table point to these. */
int cli_show_list(const struct cli_inspect *o, const struct cli_model *m);
bool cli_show_safetensors(const struct cli_inspect *o, struct lm_in *in, int *status);
int cli_show_values(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_check(const struct cli_inspect *o, const struct cli_model *m);
void cli_show_broken(const struct cli_inspect *o, struct lm_in *in, const struct lm_err *err);
int cli_show_vocab(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_memory(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_stats(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_numbers(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_hash(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_hash_file(const struct cli_inspect *o, const char *path);
int cli_show_verify(const struct cli_inspect *o, const struct cli_model *m);
int cli_show_diff(struct cli_inspect *o, const char *path_a, const char *path_b);
int cli_show_scan(const struct cli_inspect *o, const char *path);

#endif
