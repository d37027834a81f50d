/* SPDX-License-Identifier: MIT */
/* How two models differ. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "gguf/gguf_text.h"
#include "job/compare.h"

#define SHORT_VALUE 64      /* bytes of a value that is shown */

struct diff {
    const struct cli_inspect *o;
    const struct cli_model   *a, *b;
    struct lm_buf             out;
    uint64_t                  n;
};

static bool is_split_key(const struct lm_str *key)
{
    return key->len > 6 && !memcmp(key->p, "split.", 6);
}

static void put_side(struct lm_buf *out, char side, const struct lm_str *name)
{
    lm_buf_printf(out, "%c tensor ", side);
    lm_buf_escape(out, name->p, name->len);
    lm_buf_byte(out, ' ');
}

static void begin_json(struct lm_buf *out, const char *what, const struct lm_str *name)
{
    lm_buf_printf(out, "{\"%s\":", what);
    lm_gguf_str_json(out, name);
}

/* ---- metadata --------------------------------------------------------------- */

static void text_entry(struct diff *d, char side, const struct lm_gguf_kv *kv)
{
    if (kv)
        lm_gguf_entry_line(&d->out, side, kv, d->o->full ? 0 : SHORT_VALUE);
}

static void json_entry(struct lm_buf *out, const char *side, const struct lm_gguf_kv *kv)
{
    lm_buf_printf(out, ",\"%s\":", side);
    if (kv)
        lm_gguf_entry_json(out, kv);
    else
        lm_buf_str(out, "null");
}

/* Either is NULL where a side has none. */
static void put_entry(struct diff *d, const struct lm_gguf_kv *a, const struct lm_gguf_kv *b)
{
    if (d->o->form == CLI_JSON) {
        begin_json(&d->out, "key", a ? &a->key : &b->key);
        json_entry(&d->out, "a", a);
        json_entry(&d->out, "b", b);
        lm_buf_str(&d->out, "}\n");
    } else {
        text_entry(d, '<', a);
        text_entry(d, '>', b);
    }
    cli_print(&d->out, false);
    d->n++;
}

static void diff_entries(struct diff *d)
{
    const struct lm_gguf *a = d->a->files[0].g, *b = d->b->files[0].g;
    for (uint64_t i = 0; i < a->n_kv; i++) {
        const struct lm_gguf_kv *x = &a->kv[i], *y = lm_gguf_kv(b, x->key.p);
        if (!is_split_key(&x->key) && !(y && lm_gguf_same_value(x, y)))
            put_entry(d, x, y);
    }
    for (uint64_t i = 0; i < b->n_kv; i++)
        if (!is_split_key(&b->kv[i].key) && !lm_gguf_kv(a, b->kv[i].key.p))
            put_entry(d, NULL, &b->kv[i]);
}

/* ---- tensors ----------------------------------------------------------------- */

static void text_tensor(struct diff *d, char side, const struct lm_gguf_tensor *t)
{
    if (!t)
        return;
    put_side(&d->out, side, &t->name);
    cli_put_type(&d->out, t);
    lm_buf_byte(&d->out, ' ');
    cli_put_shape(&d->out, t);
    lm_buf_byte(&d->out, '\n');
}

static void json_tensor(struct lm_buf *out, const char *side, const struct lm_gguf_tensor *t)
{
    lm_buf_printf(out, ",\"%s\":", side);
    if (t)
        lm_gguf_tensor_json(out, t);
    else
        lm_buf_str(out, "null");
}

/* Types or shapes that differ; either is NULL where a side has none. */
static void put_tensor(struct diff *d, const struct lm_gguf_tensor *a,
                       const struct lm_gguf_tensor *b)
{
    if (d->o->form == CLI_JSON) {
        begin_json(&d->out, "tensor", a ? &a->name : &b->name);
        json_tensor(&d->out, "a", a);
        json_tensor(&d->out, "b", b);
        lm_buf_str(&d->out, "}\n");
    } else {
        text_tensor(d, '<', a);
        text_tensor(d, '>', b);
    }
    cli_print(&d->out, false);
    d->n++;
}

static void put_numbers(struct diff *d, const struct lm_str *name, const struct lm_difference *x)
{
    const float max = (float)x->max, rms = (float)sqrt(x->sum2 / (double)x->n);
    struct lm_buf *out = &d->out;
    if (d->o->form == CLI_JSON) {
        begin_json(out, "tensor", name);
        cli_json_u64(out, "numbers", x->n);
        cli_json_u64(out, "differ", x->n_differ);
        lm_buf_str(out, ",\"max\":");
        lm_json_f32(out, max);
        lm_buf_str(out, ",\"rms\":");
        lm_json_f32(out, rms);
        lm_buf_str(out, "}\n");
    } else {
        put_side(out, '!', name);
        lm_buf_printf(out, "%" PRIu64 " of %" PRIu64 " numbers differ, by at most ", x->n_differ,
                      x->n);
        cli_put_float(out, max);
        lm_buf_str(out, ", RMS ");
        cli_put_float(out, rms);
        lm_buf_byte(out, '\n');
    }
    cli_print(out, false);
    d->n++;
}

static bool find_tensor(const struct cli_model *m, const char *name, struct lm_compare_side *s)
{
    for (size_t i = 0; i < m->n; i++) {
        *s = (struct lm_compare_side){ m->files[i].in, m->files[i].g,
                                       lm_gguf_tensor(m->files[i].g, name) };
        if (s->t)
            return true;
    }
    return false;
}

/* A tensor of a against that of b. */
static int diff_tensor(struct diff *d, const struct lm_compare_side *x, struct lm_err *err)
{
    struct lm_compare_side y;
    struct lm_difference how;
    const bool there = find_tensor(d->b, x->t->name.p, &y);
    if (!there || memcmp(x->t->ne, y.t->ne, sizeof x->t->ne) ||
        (x->t->type_id != y.t->type_id && !d->o->tolerant)) {
        put_tensor(d, x->t, there ? y.t : NULL);
        return LM_OK;
    }
    int r = lm_compare(x, &y, &how, &d->o->env, err);
    if (r == LM_OK && how.n_differ && !(d->o->tolerant && how.max <= d->o->tolerance))
        put_numbers(d, &x->t->name, &how);
    return r;
}

static int diff_tensors(struct diff *d)
{
    struct lm_compare_side other;
    struct lm_err err;
    for (size_t i = 0; i < d->a->n; i++) {
        const struct cli_file *f = &d->a->files[i];
        for (uint64_t k = 0; k < f->g->n_tensors; k++)
            if (diff_tensor(d, &(struct lm_compare_side){ f->in, f->g, &f->g->tensors[k] },
                            &err) != LM_OK)
                return cli_report(lm_in_name(f->in), &err);
    }
    for (size_t i = 0; i < d->b->n; i++)
        for (uint64_t k = 0; k < d->b->files[i].g->n_tensors; k++) {
            const struct lm_gguf_tensor *t = &d->b->files[i].g->tensors[k];
            if (!find_tensor(d->a, t->name.p, &other))
                put_tensor(d, NULL, t);
        }
    return CLI_OK;
}

int cli_show_diff(struct cli_inspect *o, const char *path_a, const char *path_b)
{
    struct cli_model a, b;
    struct diff d = { .o = o, .a = &a, .b = &b };
    int status = cli_model_open(o, path_a, &a), s = cli_model_open(o, path_b, &b);
    status = s > status ? s : status;
    if (status == CLI_OK) {
        diff_entries(&d);
        status = diff_tensors(&d);
    }
    cli_print(&d.out, true);
    lm_buf_release(&d.out);
    cli_model_close(&a);
    cli_model_close(&b);
    return status == CLI_OK && d.n ? CLI_NO : status;
}
