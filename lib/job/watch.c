/* SPDX-License-Identifier: MIT */
#include "job/watch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/json.h"
#include "base/size.h"
#include "job/pattern.h"
#include "tensor/ops.h"

struct lm_watch {
    struct lm_ctx     *ctx;
    struct lm_pattern *pattern;
    struct lm_out     *out;
    struct lm_buf      line;
    struct lm_err      err;             /* the first failure                       */
    uint64_t           evaluation;
    size_t             node;
    bool               shown;           /* the pattern has occurred                */
};

/* What is seen of a tensor's values. */
struct sums {
    double sum, squares, least, most;
};

static void add(struct sums *s, double v)
{
    s->sum += v;
    s->squares += v * v;
    s->least = v < s->least || isnan(s->least) ? v : s->least;
    s->most = v > s->most || isnan(s->most) ? v : s->most;
}

/* All rows, wherever they lie; integers count as their values. */
static int look(const struct lm_tensor *t, struct sums *s, struct lm_err *err)
{
    const size_t n = t->ne[0];
    const bool ints = t->type->id == LM_I32;
    *s = (struct sums){ 0, 0, NAN, NAN };
    if (!ints && t->type->id != LM_F32)
        return LM_OK;
    float *row = lm_malloc_array(n, sizeof *row);
    int r = row ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; i < lm_tensor_rows(t) && !r; i++) {
        size_t at = i % t->ne[1] * t->nb[1] + i / t->ne[1] % t->ne[2] * t->nb[2] +
                    i / t->ne[1] / t->ne[2] * t->nb[3];
        r = lm_tensor_read(t, at, row, n * sizeof *row, err);
        for (size_t k = 0; k < n && !r; k++) {
            int32_t v;
            memcpy(&v, &row[k], sizeof v);
            add(s, ints ? v : row[k]);
        }
    }
    free(row);
    return r;
}

static void add_number(struct lm_buf *b, double v)
{
    lm_buf_byte(b, '\t');
    if (isfinite(v))
        lm_json_f64(b, v);
    else
        lm_buf_str(b, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
}

static void name_of(const struct lm_watch *w, const struct lm_tensor *t, struct lm_buf *b)
{
    for (int i = 0; i < LM_MAX_SRC; i++) {
        const char *name = t->src[i] && t->src[i]->op == LM_OP_NONE ? t->src[i]->name : NULL;
        size_t n = name ? strlen(name) : 0;
        if (!n)
            continue;
        n -= n > 7 && strcmp(name + n - 7, ".weight") == 0 ? 7 : 0;
        lm_buf_escape(b, name, n);
        return;
    }
    lm_buf_printf(b, "node %zu", w->node);
}

static int show(struct lm_watch *w, const struct lm_tensor *t)
{
    struct sums s;
    int n = LM_MAX_DIMS, r = look(t, &s, &w->err);
    if (r)
        return r;
    while (n > 1 && t->ne[n - 1] == 1)
        n--;
    lm_buf_printf(&w->line, "\t%s\t%s\t[", lm_op_row(t->op)->name, t->type->name);
    for (int i = 0; i < n; i++)
        lm_buf_printf(&w->line, "%s%zu", i ? ", " : "", t->ne[i]);
    lm_buf_byte(&w->line, ']');
    add_number(&w->line, s.sum);
    add_number(&w->line, s.squares);
    add_number(&w->line, s.least);
    add_number(&w->line, s.most);
    lm_buf_byte(&w->line, '\n');
    if (w->line.failed)
        return lm_fail_nomem(&w->err);
    r = lm_out_write(w->out, w->line.data, w->line.len, &w->err);
    return r ? lm_err_at(&w->err, r, "%s", lm_out_name(w->out)) : LM_OK;
}

static void seen(void *arg, const struct lm_tensor *t)
{
    struct lm_watch *w = arg;
    if (!t) {                           /* an evaluation begins */
        w->evaluation++;
        w->node = 0;
        return;
    }
    lm_buf_clear(&w->line);
    lm_buf_printf(&w->line, "%llu\t", (unsigned long long)(w->evaluation - 1));
    size_t at = w->line.len;
    name_of(w, t, &w->line);
    w->node++;
    if (!w->err.code && !w->line.failed && lm_pattern_matches(w->pattern, w->line.data + at)) {
        w->shown = true;
        show(w, t);
    }
}

struct lm_watch *lm_watch_begin(struct lm_ctx *c, const char *pattern, struct lm_out *out,
                                struct lm_err *err)
{
    struct lm_watch *w = calloc(1, sizeof *w);
    if (!w) {
        lm_fail_nomem(err);
        return NULL;
    }
    w->ctx = c;
    w->out = out;
    if (!(w->pattern = lm_pattern_new(pattern, strlen(pattern), err))) {
        free(w);
        return NULL;
    }
    lm_ctx_watch(c, seen, w);
    return w;
}

int lm_watch_end(struct lm_watch *w, struct lm_err *err)
{
    if (!w)
        return LM_OK;
    int r = w->err.code ? lm_fail(err, w->err.code, "%s", w->err.text)
            : w->evaluation && !w->shown
                ? lm_fail(err, LM_EDATA, "no intermediate has such a name") : LM_OK;
    lm_ctx_watch(w->ctx, NULL, NULL);
    lm_pattern_free(w->pattern);
    lm_buf_release(&w->line);
    free(w);
    return r;
}
