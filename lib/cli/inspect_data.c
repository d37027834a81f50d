/* SPDX-License-Identifier: MIT */
/* Reports that read the tensors' data: statistics, numbers, digests. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "job/digest_list.h"
#include "job/stats.h"

/* ---- statistics ------------------------------------------------------------ */

/* Of one file. */
struct stats_rows {
    const struct cli_inspect   *o;
    const struct lm_gguf       *g;
    struct lm_stats            *stats;
    struct lm_histogram        *histograms;     /* or NULL */
};

static const char *const stats_heads[] = { "TENSOR", "TYPE", "MIN", "MAX", "MEAN", "DEVIATION",
                                           "ZEROS", "NOT-FINITE", "OUTLIERS", "HISTOGRAM" };

static void put_bins(struct lm_buf *out, const struct lm_histogram *h, uint32_t n, char between)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k)
            lm_buf_byte(out, between);
        lm_buf_printf(out, "%" PRIu64, h->bins[k]);
    }
}

static void fill_stats(void *arg, uint64_t row, struct lm_buf *cells)
{
    const struct stats_rows *f = arg;
    const struct lm_gguf_tensor *t = &f->g->tensors[row];
    const struct lm_stats *s = &f->stats[row];
    lm_buf_escape(&cells[0], t->name.p, t->name.len);
    cli_put_type(&cells[1], t);
    if (!s->n && !s->n_bad) {
        for (int i = 2; i < (f->histograms ? 10 : 8); i++)
            lm_buf_byte(&cells[i], '-');
        return;
    }
    const double shown[] = { s->min, s->max, s->mean, lm_stats_deviation(s) };
    for (int i = 0; i < 4; i++)
        cli_put_float(&cells[2 + i], s->n ? (float)shown[i] : NAN);
    lm_buf_u64(&cells[6], s->n_zero);
    lm_buf_u64(&cells[7], s->n_bad);
    if (f->histograms) {
        lm_buf_u64(&cells[8], f->histograms[row].n_outliers);
        put_bins(&cells[9], &f->histograms[row], f->o->n_bins, ' ');
    }
}

static void json_stats(const struct stats_rows *f, const char *name, struct lm_buf *out)
{
    static const char *const members[] = { "min", "max", "mean", "deviation" };
    for (uint64_t i = 0; i < f->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &f->g->tensors[i];
        const struct lm_stats *s = &f->stats[i];
        const double shown[] = { s->min, s->max, s->mean, lm_stats_deviation(s) };
        cli_json_file(out, name);
        cli_json_text(out, "name", t->name.p, t->name.len);
        for (int k = 0; k < 4 && s->n; k++) {
            lm_buf_printf(out, ",\"%s\":", members[k]);
            lm_json_f32(out, (float)shown[k]);
        }
        if (s->n || s->n_bad) {
            cli_json_u64(out, "zeros", s->n_zero);
            cli_json_u64(out, "not_finite", s->n_bad);
        }
        if (s->n && f->histograms) {
            cli_json_u64(out, "outliers", f->histograms[i].n_outliers);
            lm_buf_str(out, ",\"histogram\":[");
            put_bins(out, &f->histograms[i], f->o->n_bins, ',');
            lm_buf_byte(out, ']');
        }
        lm_buf_str(out, "}\n");
        cli_print(out, false);
    }
}

static int file_stats(const struct cli_inspect *o, const struct cli_file *file, bool first,
                      struct lm_buf *out)
{
    const struct lm_gguf *g = file->g;
    const char *name = lm_in_name(file->in);
    struct stats_rows f = { .o = o, .g = g };
    struct lm_err err;
    f.stats = calloc((size_t)g->n_tensors + 1, sizeof *f.stats);
    if (o->n_bins)
        f.histograms = calloc((size_t)g->n_tensors + 1, sizeof *f.histograms);
    int r = !f.stats || (o->n_bins && !f.histograms) ? lm_fail_nomem(&err) : LM_OK;
    if (r == LM_OK)
        r = lm_stats_run(file->in, g, f.stats, &o->env, &err);
    if (r == LM_OK && o->n_bins)
        r = lm_stats_histograms(file->in, g, f.stats, o->n_bins, f.histograms, &o->env, &err);
    if (r == LM_OK && o->form == CLI_JSON)
        json_stats(&f, name, out);
    else if (r == LM_OK) {
        const struct cli_table t = { o->n_bins ? 10 : 8, stats_heads, g->n_tensors, fill_stats,
                                     &f };
        if (!first)
            lm_buf_byte(out, '\n');
        cli_table(out, &t, o->form);
    }
    cli_print(out, true);
    free(f.stats);
    free(f.histograms);
    return r == LM_OK ? cli_unsound(g, name) : cli_report(name, &err);
}

int cli_show_stats(const struct cli_inspect *o, const struct cli_model *m)
{
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        int s = file_stats(o, &m->files[i], !o->n_shown && !i, &out);
        status = s > status ? s : status;
    }
    lm_buf_release(&out);
    return status;
}

/* ---- the numbers of a tensor ------------------------------------------------ */

struct printing {
    struct lm_buf out;
    enum cli_form form;
    uint64_t      width, column;
    uint64_t      left;              /* numbers to print                            */
};

static void put_number(struct printing *p, float f)
{
    if (p->form == CLI_JSON)
        lm_json_f32(&p->out, f);
    else
        cli_put_float(&p->out, f);
}

/* A row a line; LM_ESTOP after the last that is wanted. */
static int put_values(void *arg, const float *f, const int64_t *whole, size_t n)
{
    struct printing *p = arg;
    const char between = p->form == CLI_JSON ? ',' : p->form == CLI_TSV ? '\t' : ' ';
    for (size_t i = 0; i < n && p->left; i++) {
        if (p->form == CLI_JSON && !p->column)
            lm_buf_byte(&p->out, '[');
        if (f)
            put_number(p, f[i]);
        else
            lm_buf_printf(&p->out, "%" PRId64, whole[i]);
        p->left--;
        bool last = ++p->column == p->width || !p->left;
        if (last && p->form == CLI_JSON)
            lm_buf_byte(&p->out, ']');
        lm_buf_byte(&p->out, last ? '\n' : between);
        p->column = last ? 0 : p->column;
    }
    cli_print(&p->out, false);
    return p->left ? LM_OK : LM_ESTOP;
}

/* A tensor that was asked for without the end of its name. */
static void warn_no_tensor(const struct cli_model *m, const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < m->n; i++)
        for (uint64_t k = 0; k < m->files[i].g->n_tensors; k++) {
            const struct lm_str *t = &m->files[i].g->tensors[k].name;
            if (len && t->len > len && t->p[len] == '.' && !memcmp(t->p, name, len)) {
                cli_warn("%s: no tensor %s, but %s", cli_model_name(m), name, t->p);
                return;
            }
        }
    cli_warn("%s: no tensor %s", cli_model_name(m), name);
}

int cli_show_numbers(const struct cli_inspect *o, const struct cli_model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const struct lm_gguf *g = m->files[i].g;
        const struct lm_gguf_tensor *t = lm_gguf_tensor(g, o->tensor);
        struct lm_err err;
        if (!t)
            continue;
        struct printing p = { .width = t->ne[0], .form = o->form,
                              .left = o->n_numbers ? o->n_numbers : UINT64_MAX };
        int r = lm_stats_values(m->files[i].in, g, t, put_values, &p, &o->env, &err);
        if (!p.left)
            r = LM_OK;
        cli_print(&p.out, true);
        lm_buf_release(&p.out);
        return r == LM_OK ? CLI_OK : cli_report(lm_in_name(m->files[i].in), &err);
    }
    warn_no_tensor(m, o->tensor);
    return CLI_NO;
}

/* ---- digests --------------------------------------------------------------- */

static int list_digests(const struct cli_inspect *o, const struct cli_model *m,
                        enum lm_digest_kind kind, struct lm_buf *list)
{
    struct lm_err err;
    int r = LM_OK;
    size_t i;
    for (i = 0; i < m->n && r == LM_OK; i++)
        r = lm_digest_list_add(list, m->files[i].in, m->files[i].g, kind, &o->env, &err);
    if (r != LM_OK)
        return cli_report(lm_in_name(m->files[i - 1].in), &err);
    lm_digest_list_end(list, kind);
    if (list->failed)
        cli_die(CLI_TROUBLE, "out of memory");
    return CLI_OK;
}

static void put_digest(struct lm_buf *out, const char *file, enum lm_digest_kind kind,
                       const char *hex)
{
    cli_json_file(out, file);
    lm_buf_printf(out, ",\"%s\":\"%.*s\"}\n", kind == LM_DIGEST_SHA256 ? "sha256" : "xxh64",
                  kind == LM_DIGEST_SHA256 ? 64 : 16, hex);
}

/* The list's lines as objects; the last, of all, is without a name. */
static void json_digests(const struct cli_inspect *o, const struct cli_model *m,
                         const struct lm_buf *list, struct lm_buf *out)
{
    const char *line = list->data;
    for (size_t i = 0; i < m->n; i++)
        for (uint64_t k = 0; k < m->files[i].g->n_tensors; k++) {
            const struct lm_str *name = &m->files[i].g->tensors[k].name;
            put_digest(out, lm_in_name(m->files[i].in), o->digest, line);
            out->len -= 2;                                /* the object's end */
            cli_json_text(out, "name", name->p, name->len);
            lm_buf_str(out, "}\n");
            cli_print(out, false);
            line = strchr(line, '\n') + 1;
        }
    put_digest(out, cli_model_name(m), o->digest, line);
}

int cli_show_hash(const struct cli_inspect *o, const struct cli_model *m)
{
    struct lm_buf list = { 0 }, out = { 0 };
    int status = list_digests(o, m, o->digest, &list);
    if (status == CLI_OK && o->form == CLI_JSON)
        json_digests(o, m, &list, &out);
    else if (status == CLI_OK)
        cli_print(&list, true);
    cli_print(&out, true);
    lm_buf_release(&list);
    lm_buf_release(&out);
    return status;
}

/* As sha256sum prints it. */
int cli_show_hash_file(const struct cli_inspect *o, const char *path)
{
    char hex[LM_DIGEST_HEX];
    struct lm_err err;
    struct lm_buf out = { 0 };
    int status = CLI_OK;
    struct lm_in *in = cli_any_open(o, path, LM_IN_RAW, &status);
    if (!in)
        return status;
    if (lm_digest_rest(in, LM_DIGEST_SHA256, hex, &o->env, &err) != LM_OK)
        status = cli_report(lm_in_name(in), &err);
    else if (o->form == CLI_JSON)
        put_digest(&out, path, LM_DIGEST_SHA256, hex);
    else
        lm_buf_printf(&out, "%s  %s\n", hex, path);
    cli_print(&out, true);
    lm_buf_release(&out);
    lm_in_close(in);
    return status;
}

struct verifying {
    const struct cli_inspect *o;
    const char               *file;
    struct lm_buf             out;
};

static void put_difference(void *arg, const char *name, const char *how)
{
    struct verifying *v = arg;
    if (v->o->form == CLI_JSON) {
        cli_json_file(&v->out, v->file);
        cli_json_text(&v->out, "name", name, strlen(name));
        cli_json_text(&v->out, "how", how, strlen(how));
        lm_buf_str(&v->out, "}\n");
    } else
        lm_buf_printf(&v->out, "%s: %s\n", name, how);
    cli_print(&v->out, false);
}

int cli_show_verify(const struct cli_inspect *o, const struct cli_model *m)
{
    struct lm_buf list = { 0 };
    struct verifying v = { .o = o, .file = cli_model_name(m) };
    struct lm_err err;
    enum lm_digest_kind kind;
    char *text;
    size_t len;
    if (lm_read_file(o->verify, 1u << 28, &text, &len, &err) != LM_OK)
        return cli_report(o->verify, &err);
    int r = lm_digest_list_kind(text, len, &kind, &err);
    int status = r == LM_OK ? list_digests(o, m, kind, &list) : cli_report(o->verify, &err);
    if (status == CLI_OK) {
        r = lm_digest_list_compare(text, list.data, put_difference, &v, &err);
        cli_print(&v.out, true);
        if (r < 0)
            status = cli_report(o->verify, &err);
        else if (r) {
            cli_warn("%s: not what %s says", v.file, o->verify);
            status = CLI_NO;
        }
    }
    free(text);
    lm_buf_release(&list);
    lm_buf_release(&v.out);
    return status;
}
