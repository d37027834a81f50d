/* SPDX-License-Identifier: MIT */
/* Reports on a model as a whole: faults, vocabulary, memory; and what lies inside any file. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "job/check.h"
#include "job/scan.h"
#include "job/vocab_line.h"

/* ---- checking -------------------------------------------------------------- */

struct faults {
    const struct cli_inspect *o;
    const struct cli_model   *m;
    struct lm_buf             out;
    uint64_t                  n;
    char                      first[256];
};

static void put_fault(const struct cli_inspect *o, struct lm_buf *out, const char *name,
                      uint64_t offset, const char *what)
{
    if (o->form == CLI_JSON) {
        cli_json_file(out, name);
        cli_json_u64(out, "offset", offset);
        cli_json_text(out, "fault", what, strlen(what));
        lm_buf_str(out, "}\n");
    } else {
        lm_buf_escape(out, name, strlen(name));
        lm_buf_printf(out, ": %" PRIu64 ": ", offset);
        lm_buf_escape(out, what, strlen(what));
        lm_buf_byte(out, '\n');
    }
    cli_print(out, false);
}

static void model_fault(void *arg, size_t shard, uint64_t offset, const char *what)
{
    struct faults *f = arg;
    if (!f->n++)
        snprintf(f->first, sizeof f->first, "%s", what);
    put_fault(f->o, &f->out, lm_in_name(f->m->files[shard].in), offset, what);
}

/* What is noted names the model, as each fault does. */
static void note(void *user, enum lm_level level, const char *text)
{
    const struct faults *f = user;
    lm_note(&f->o->env, level, "%s: %s", cli_model_name(f->m), text);
}

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    lm_progress(&((const struct faults *)user)->o->env, what, done, total);
}

static bool stop(void *user)
{
    return lm_stopped(&((const struct faults *)user)->o->env);
}

struct shard_faults {
    struct faults *f;
    size_t         shard;
};

static void shard_fault(void *arg, uint64_t offset, const char *what)
{
    const struct shard_faults *s = arg;
    model_fault(s->f, s->shard, offset, what);
}

void cli_show_broken(const struct cli_inspect *o, struct lm_in *in, const struct lm_err *err)
{
    struct lm_buf out = { 0 };
    if (err->code == LM_EDATA)
        put_fault(o, &out, lm_in_name(in), lm_in_pos(in), err->text);
    cli_print(&out, true);
    lm_buf_release(&out);
}

/* A pipe's length shows only at its end: read on to where the data should end. */
static int check_end(struct lm_in *in, const struct lm_gguf *g, struct lm_err *err)
{
    uint64_t end = g->data_offset;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &g->tensors[i];
        uint64_t to = g->data_offset + t->offset + t->bytes;
        if (t->bytes && t->offset <= UINT64_MAX / 4 && t->bytes <= UINT64_MAX / 4 && to > end)
            end = to;
    }
    if (g->file_size != LM_SIZE_UNKNOWN || end <= lm_in_pos(in))
        return LM_OK;
    return lm_in_skip(in, end - lm_in_pos(in), err);
}

/* The structure of one file and its data, or only where that ends. */
static int check_file(struct faults *f, size_t i)
{
    const struct cli_file *file = &f->m->files[i];
    struct shard_faults where = { f, i };
    struct lm_check_to to = { f, model_fault, &f->o->env };
    struct lm_err err;
    uint64_t n;
    lm_gguf_check(file->g, shard_fault, &where);
    int r = f->o->check_data ? lm_check_data(file->in, file->g, i, &to, &n, &err) : LM_OK;
    if (r == LM_OK)
        r = check_end(file->in, file->g, &err);
    if (r == LM_EDATA)
        model_fault(f, i, lm_in_pos(file->in), err.text);
    return r == LM_OK || r == LM_EDATA ? CLI_OK : cli_report(lm_in_name(file->in), &err);
}

int cli_show_check(const struct cli_inspect *o, const struct cli_model *m)
{
    struct faults f = { .o = o, .m = m };
    const struct lm_env env = { .user = &f, .note = note, .progress = progress, .stop = stop,
                                .n_threads = o->env.n_threads };
    struct lm_check_to to = { &f, model_fault, &env };
    const struct lm_gguf **all = cli_model_files(m);
    int status = CLI_OK;
    for (size_t i = 0; i < m->n; i++) {
        int s = check_file(&f, i);
        status = s > status ? s : status;
    }
    lm_check_model(all, m->n, &to);
    free(all);
    cli_print(&f.out, true);
    lm_buf_release(&f.out);
    if (!f.n)
        return status;
    cli_warn(f.n > 1 ? "%s: %" PRIu64 " faults, the first: %s" : "%s: %" PRIu64 " fault: %s",
             cli_model_name(m), f.n, f.first);
    return status > CLI_NO ? status : CLI_NO;
}

/* ---- the vocabulary -------------------------------------------------------- */

int cli_show_vocab(const struct cli_inspect *o, const struct cli_model *m)
{
    const struct lm_gguf *g = m->files[0].g;
    struct lm_buf out = { 0 };
    struct lm_gguf_arr tokens;
    struct lm_err err;
    int r = lm_gguf_arr(g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, &err);
    if (r == 1)
        lm_fail(&err, LM_EDATA, "there is no vocabulary");
    if (r)
        return cli_report(cli_model_name(m), &err);
    for (uint64_t i = 0; i < tokens.n; i++) {
        if (o->form == CLI_JSON)
            lm_vocab_json(&out, g, &tokens, i);
        else
            lm_vocab_line(&out, g, &tokens, i);
        cli_print(&out, false);
    }
    cli_print(&out, true);
    lm_buf_release(&out);
    return CLI_OK;
}

/* ---- memory ---------------------------------------------------------------- */

static void memory_line(struct lm_buf *out, const char *what, uint64_t n)
{
    lm_buf_printf(out, "%-17s%" PRIu64 " bytes", what, n);
}

static void text_memory(const struct lm_footprint *f, struct lm_buf *out)
{
    memory_line(out, "weights", f->weights);
    lm_buf_printf(out, "\n%-17s%" PRIu64 " positions\n", "context", f->n_ctx);
    memory_line(out, "keys and values", f->kv);
    lm_buf_printf(out, " (%s", f->k_type->name);
    if (f->v_type != f->k_type)
        lm_buf_printf(out, " and %s", f->v_type->name);
    lm_buf_printf(out, "; %" PRIu32 " layers, %" PRIu64 " bytes a position in %s)\n",
                  f->n_attention, f->kv_position, f->uneven ? "all" : "each");
    if (f->n_window) {
        memory_line(out, "in windows", f->kv_window);
        lm_buf_printf(out, " (%" PRIu32 " layers see %" PRIu32 " positions)\n", f->n_window,
                      f->window);
    }
    if (f->kv_latent) {
        memory_line(out, "folded", f->kv_latent);
        lm_buf_printf(out, " (%" PRIu64 " bytes a position in each layer)\n", f->latent_position);
    }
    if (f->n_chooser) {
        memory_line(out, "keys to choose", f->chooser);
        lm_buf_printf(out, " (%s; %" PRIu32 " layers)\n", f->k_type->name, f->n_chooser);
    }
    if (f->n_recurrent) {
        memory_line(out, "states", f->state);
        lm_buf_printf(out, " (%" PRIu32 " layers, f32, for each text)\n", f->n_recurrent);
    }
    memory_line(out, "working space", f->work);
    lm_buf_printf(out, " or so (%" PRIu32 " positions at once)\n", f->n_ubatch);
    memory_line(out, "together", f->together);
    lm_buf_byte(out, '\n');
    if (f->n_device) {
        memory_line(out, "on the device", f->device);
        lm_buf_printf(out, " (the last %" PRIu32 " layers%s)\n", f->n_device,
                      f->output_on_device ? " and the output" : "");
    }
}

static void json_memory(const struct lm_footprint *f, const char *name, struct lm_buf *out)
{
    cli_json_file(out, name);
    cli_json_u64(out, "weights", f->weights);
    cli_json_u64(out, "context", f->n_ctx);
    cli_json_text(out, "cache_k", f->k_type->name, strlen(f->k_type->name));
    cli_json_text(out, "cache_v", f->v_type->name, strlen(f->v_type->name));
    cli_json_u64(out, "attention_layers", f->n_attention);
    cli_json_u64(out, "keys_and_values", f->kv);
    cli_json_u64(out, "window", f->window);
    cli_json_u64(out, "window_layers", f->n_window);
    cli_json_u64(out, "in_windows", f->kv_window);
    cli_json_u64(out, "folded", f->kv_latent);
    if (f->n_chooser) {
        cli_json_u64(out, "choosing_layers", f->n_chooser);
        cli_json_u64(out, "keys_to_choose", f->chooser);
    }
    cli_json_u64(out, "recurrent_layers", f->n_recurrent);
    cli_json_u64(out, "states", f->state);
    cli_json_u64(out, "batch", f->n_ubatch);
    cli_json_u64(out, "working_space", f->work);
    cli_json_u64(out, "together", f->together);
    if (f->n_device)
        cli_json_u64(out, "on_the_device", f->device);
    lm_buf_str(out, "}\n");
}

int cli_show_memory(const struct cli_inspect *o, const struct cli_model *m)
{
    const struct lm_gguf **all = cli_model_files(m);
    struct lm_buf out = { 0 };
    struct lm_footprint f;
    struct lm_err err;
    int r = lm_footprint_of(all, m->n, &o->memory, &f, &err);
    if (r == LM_OK && o->form == CLI_JSON)
        json_memory(&f, cli_model_name(m), &out);
    else if (r == LM_OK)
        text_memory(&f, &out);
    cli_print(&out, true);
    lm_buf_release(&out);
    free(all);
    return r == LM_OK ? CLI_OK : cli_report(cli_model_name(m), &err);
}

/* ---- scanning -------------------------------------------------------------- */

struct scanning {
    const struct cli_inspect *o;
    const char               *file;
    struct lm_buf             out;
};

static void put_hit(void *arg, const struct lm_scan_hit *h)
{
    struct scanning *s = arg;
    if (s->o->form == CLI_JSON) {
        cli_json_file(&s->out, s->file);
        cli_json_u64(&s->out, "offset", h->offset);
        cli_json_u64(&s->out, "version", h->version);
        lm_buf_printf(&s->out, ",\"byte_order\":\"%s\"", h->big_endian ? "big" : "little");
        cli_json_u64(&s->out, "tensors", h->n_tensors);
        cli_json_u64(&s->out, "metadata", h->n_kv);
        lm_buf_str(&s->out, "}\n");
    } else
        lm_buf_printf(&s->out, "%" PRIu64 ": GGUF version %" PRIu32 "%s, %" PRIu64 " tensors, %"
                      PRIu64 " metadata entries\n", h->offset, h->version,
                      h->big_endian ? ", big-endian" : "", h->n_tensors, h->n_kv);
    cli_print(&s->out, true);
}

int cli_show_scan(const struct cli_inspect *o, const char *path)
{
    struct lm_err err;
    struct scanning s = { .o = o };
    uint64_t n;
    int status = CLI_OK;
    struct lm_in *in = cli_any_open(o, path, 0, &status);
    if (!in)
        return status;
    s.file = lm_in_name(in);
    int r = lm_scan(in, put_hit, &s, &n, &o->env, &err);
    if (r != LM_OK)
        status = cli_report(s.file, &err);
    else if (!n) {
        cli_warn("%s: no GGUF in it", s.file);
        status = CLI_NO;
    }
    lm_buf_release(&s.out);
    lm_in_close(in);
    return status;
}
