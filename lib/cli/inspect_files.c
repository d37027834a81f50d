/* SPDX-License-Identifier: MIT */
/* Opening what is to be reported on. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "cli/cli.h"
#include "gguf/gguf_text.h"

static const char *operand_name(const char *path)
{
    return strcmp(path, "-") ? path : "<stdin>";
}

struct lm_in *cli_any_open(const struct cli_inspect *o, const char *path, int flags, int *status)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, flags | (o->long_window ? LM_IN_LONG : 0), &err);
    if (!in)
        *status = cli_report(operand_name(path), &err);
    return in;
}

/* Open and read one file.  A status; that of data that is no GGUF leaves in open.  Without
 * f->in there is nothing more to do: it could not be opened, or has been shown. */
static int open_file(struct cli_inspect *o, const char *path, struct cli_file *f,
                     struct lm_err *err)
{
    int status = CLI_OK;
    *f = (struct cli_file){ .in = cli_any_open(o, path, 0, &status) };
    if (!f->in)
        return status;
    if (o->kind->foreign && o->kind->foreign(o, f->in, &status)) {
        o->n_shown++;
        lm_in_close(f->in);
        f->in = NULL;
        return status;
    }
    f->g = lm_gguf_read(f->in, false, err);
    return f->g ? CLI_OK : cli_report(lm_in_name(f->in), err);
}

/* How many shards a file says there are, if it is the first of them; else 1. */
static uint32_t count_shards(const struct cli_inspect *o, const struct lm_gguf *g)
{
    uint32_t no = 0, n = 1;
    if (o->no_follow || lm_gguf_u32(g, "split.no", &no, NULL) < 0 || no != 0 ||
        lm_gguf_u32(g, "split.count", &n, NULL) != LM_OK || n == 0)
        return 1;
    return n;
}

static bool was_brought(const struct cli_inspect *o, const char *path)
{
    for (size_t i = 0; i < o->brought.n; i++)
        if (!strcmp(o->brought.path[i], path))
            return true;
    return false;
}

static void add_brought(struct cli_inspect *o, char *path)
{
    if (!lm_grow(&o->brought.path, &o->brought.cap, o->brought.n + 1, sizeof path))
        cli_die(CLI_TROUBLE, "out of memory");
    o->brought.path[o->brought.n++] = path;
}

/* Keep a file that was opened, or let go of one that is no GGUF. */
static void take_file(const struct cli_inspect *o, struct cli_model *m, size_t *cap,
                      const struct cli_file *f, const struct lm_err *err)
{
    if (!f->g) {
        if (o->kind->broken)
            o->kind->broken(o, f->in, err);
        lm_in_close(f->in);
        return;
    }
    if (!lm_grow(&m->files, cap, m->n + 1, sizeof *m->files))
        cli_die(CLI_TROUBLE, "out of memory");
    m->files[m->n++] = *f;
}

/* Is a file that was followed the shard its name says?  What tells faults itself tells this. */
static int check_place(const struct cli_inspect *o, const struct cli_file *f, uint32_t k)
{
    struct lm_err err;
    uint32_t no;
    if (!f->g || o->kind->broken || (lm_gguf_u32(f->g, "split.no", &no, NULL) == LM_OK && no == k))
        return CLI_OK;
    lm_fail(&err, LM_EDATA, "key split.no: is not %u, as the file's name says", k);
    return cli_report(lm_in_name(f->in), &err);
}

int cli_model_open(struct cli_inspect *o, const char *path, struct cli_model *m)
{
    size_t cap = 0;
    int status = CLI_OK;
    uint32_t n = 1;
    *m = (struct cli_model){ 0 };
    for (uint32_t k = 0; k < n; k++) {
        struct lm_err err;
        struct cli_file f;
        char *next = k ? lm_gguf_shard_path(path, k, n) : NULL;
        if (k && !next)
            break;
        if (next)
            add_brought(o, next);
        int r = open_file(o, next ? next : path, &f, &err);
        status = r > status ? r : status;
        if (!f.in)
            continue;
        r = k ? check_place(o, &f, k) : CLI_OK;
        status = r > status ? r : status;
        if (k == 0 && f.g)
            n = count_shards(o, f.g);
        take_file(o, m, &cap, &f, &err);
    }
    return status;
}

void cli_model_close(struct cli_model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        lm_gguf_free(m->files[i].g);
        lm_in_close(m->files[i].in);
    }
    free(m->files);
    *m = (struct cli_model){ 0 };
}

static int report_model(struct cli_inspect *o, const char *path)
{
    struct cli_model m;
    int status = cli_model_open(o, path, &m);
    int r = m.n ? o->kind->model(o, &m) : CLI_OK;
    o->n_shown += m.n;
    cli_model_close(&m);
    return r > status ? r : status;
}

int cli_inspect_all(struct cli_inspect *o, char *const *paths)
{
    int status = CLI_OK;
    if (o->kind->two)
        return o->kind->two(o, paths[0], paths[1]);
    for (; *paths; paths++) {
        if (was_brought(o, *paths))
            continue;
        int s = o->kind->path ? o->kind->path(o, *paths) : report_model(o, *paths);
        status = s > status ? s : status;
    }
    return status;
}

void cli_inspect_release(struct cli_inspect *o)
{
    for (size_t i = 0; i < o->brought.n; i++)
        free(o->brought.path[i]);
    free(o->brought.path);
    free(o->keys);
}

const char *cli_model_name(const struct cli_model *m)
{
    return lm_in_name(m->files[0].in);
}

const struct lm_gguf **cli_model_files(const struct cli_model *m)
{
    const struct lm_gguf **all = lm_malloc_array(m->n, sizeof *all);
    if (!all)
        cli_die(CLI_TROUBLE, "out of memory");
    for (size_t i = 0; i < m->n; i++)
        all[i] = m->files[i].g;
    return all;
}

int cli_unsound(const struct lm_gguf *g, const char *name)
{
    struct lm_err err;
    return lm_gguf_strict(g, &err) == LM_EDATA ? cli_report(name, &err) : CLI_OK;
}

/* ---- pieces of reports ----------------------------------------------------- */

void cli_json_text(struct lm_buf *out, const char *key, const char *text, size_t len)
{
    lm_buf_printf(out, ",\"%s\":", key);
    lm_gguf_str_json(out, &(struct lm_str){ text, len });
}

void cli_json_u64(struct lm_buf *out, const char *key, uint64_t n)
{
    lm_buf_printf(out, ",\"%s\":%" PRIu64, key, n);
}

void cli_json_file(struct lm_buf *out, const char *name)
{
    lm_buf_str(out, "{\"file\":");
    lm_gguf_str_json(out, &(struct lm_str){ name, strlen(name) });
}

void cli_put_type(struct lm_buf *out, const struct lm_gguf_tensor *t)
{
    if (t->type)
        lm_buf_str(out, t->type->name);
    else
        lm_buf_printf(out, "%" PRIu32, t->type_id);
}

void cli_put_shape(struct lm_buf *out, const struct lm_gguf_tensor *t)
{
    for (uint32_t k = 0; k < t->n_dims; k++) {
        lm_buf_str(out, k ? "x" : "");
        lm_buf_u64(out, t->ne[k]);
    }
}

void cli_put_float(struct lm_buf *out, float f)
{
    if (isnan(f))
        lm_buf_str(out, "nan");
    else if (isinf(f))
        lm_buf_str(out, f < 0 ? "-inf" : "inf");
    else
        lm_json_f32(out, f);
}
