/* SPDX-License-Identifier: MIT */
#include "job/directions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/size.h"
#include "stream/tokens.h"
#include "tensor/tensor.h"

#define MOST_STEPS 1000                 /* of power iteration */
#define NEAR       1e-7                 /* a step that changes no more is the last */

struct maker {
    struct lm_model *m;
    struct lm_ctx   *c;
    uint32_t         n_layer;
    size_t           n;                 /* values of a direction                     */
    float           *result;            /* [n_layer][n] after the last token         */
    bool            *seen;              /* [n_layer]                                 */
    float           *rows;              /* [n_pairs][n_layer][n] differences         */
    size_t           n_pairs, cap;
    struct lm_err    err;               /* the first failure of looking              */
};

/* The last column of a layer's result; later pieces of a batch overwrite it. */
static void look(void *arg, const struct lm_tensor *t)
{
    struct maker *k = arg;
    unsigned layer;
    if (!t || !t->name || sscanf(t->name, "layer %u", &layer) != 1 || layer >= k->n_layer ||
        t->ne[0] != k->n || t->ne[2] * t->ne[3] != 1 || !t->ne[1] || k->err.code)
        return;
    k->seen[layer] = true;
    lm_tensor_read(t, (t->ne[1] - 1) * t->nb[1], k->result + layer * k->n, k->n * sizeof(float),
                   &k->err);
}

static int evaluate(struct maker *k, const int32_t *ids, size_t n, struct lm_err *err)
{
    const uint32_t most = lm_ctx_n_batch(k->c);
    struct lm_batch_token *t = lm_malloc_array(most, sizeof *t);
    int r = t ? lm_ctx_expect(k->c, 0, ids, n, err) : lm_fail_nomem(err);
    memset(k->seen, 0, k->n_layer * sizeof *k->seen);
    for (size_t at = 0; at < n && !r;) {
        uint32_t i = 0;
        for (; i < most && at < n; i++, at++)
            t[i] = (struct lm_batch_token){ ids[at], 0, (uint32_t)at, at + 1 == n };
        r = lm_ctx_decode(k->c, t, i, err);
    }
    free(t);
    if (!r)
        r = lm_ctx_seq_remove(k->c, 0, 0, err);
    if (!r && k->err.code)
        r = lm_fail(err, k->err.code, "%s", k->err.text);
    for (uint32_t l = 1; l < k->n_layer && !r; l++)
        if (!k->seen[l])
            r = lm_fail(err, LM_ENOSUP, "the results of a %s model's layers cannot be seen",
                        lm_model_arch(k->m));
    return r;
}

/* The next line of a stream, evaluated.  1, 0 at the end, or a code. */
static int take(struct maker *k, struct lm_token_reader *r, const struct lm_in *in,
                struct lm_err *err)
{
    int32_t *ids = NULL;
    size_t n = 0, cap = 0;
    const uint32_t trained = lm_model_n_ctx_train(k->m), n_ctx = lm_ctx_n_ctx(k->c);
    int s = lm_token_read_line(r, &ids, &n, &cap, err);
    const uint64_t line = lm_token_line(r) + 1;
    if (s == 1 && n == 0)
        s = lm_fail(err, LM_EDATA, "line %" PRIu64 ": no tokens", line);
    else if (s == 1 && n > trained)
        s = lm_fail(err, LM_EDATA, "line %" PRIu64 ": %zu tokens, and the model was trained for %"
                    PRIu32, line, n, trained);
    else if (s == 1 && n > n_ctx)
        s = lm_fail(err, LM_EUSE, "line %" PRIu64 ": %zu tokens, and the context has %" PRIu32,
                    line, n, n_ctx);
    if (s == 1) {
        s = evaluate(k, ids, n, err);
        s = s ? s : 1;
    }
    free(ids);
    return s < 0 ? lm_err_at(err, s, "%s", lm_in_name(in)) : s;
}

/* A row for each layer: 1, 0 at the end, or a code. */
static int take_pair(struct maker *k, struct lm_token_reader *r[2], struct lm_in *const in[2],
                     struct lm_err *err)
{
    const size_t all = k->n_layer * k->n;
    int a = take(k, r[0], in[0], err);
    if (a < 0)
        return a;
    if (!lm_grow(&k->rows, &k->cap, k->n_pairs + 1, all * sizeof *k->rows))
        return lm_fail_nomem(err);
    float *row = k->rows + k->n_pairs * all;
    memcpy(row, k->result, all * sizeof *row);
    const int b = take(k, r[1], in[1], err);
    if (b < 0)
        return b;
    if (a != b)
        return lm_fail(err, LM_EDATA, "%s: has fewer lines than %s", lm_in_name(in[a > b]),
                       lm_in_name(in[a < b]));
    for (size_t i = 0; a && i < all; i++)
        row[i] -= k->result[i];
    k->n_pairs += (size_t)a;
    return a;
}

/* v becomes of length 1; false when it has none. */
static bool make_unit(double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i] * v[i];
    for (size_t i = 0; i < n && sum > 0; i++)
        v[i] /= sqrt(sum);
    return sum > 0 && isfinite(sum);
}

static double dot(const float *row, const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)row[i] * v[i];
    return sum;
}

/* One step: next = D^T D v, of length 1; how far it is from v. */
static double iterate(const struct maker *k, uint32_t layer, const double *v, double *next)
{
    double far = 0;
    memset(next, 0, k->n * sizeof *next);
    for (size_t p = 0; p < k->n_pairs; p++) {
        const float *row = k->rows + (p * k->n_layer + layer) * k->n;
        const double along = dot(row, v, k->n);
        for (size_t i = 0; i < k->n; i++)
            next[i] += along * (double)row[i];
    }
    if (!make_unit(next, k->n))
        return 0;
    for (size_t i = 0; i < k->n; i++)
        far += (next[i] - v[i]) * (next[i] - v[i]);
    return sqrt(far);
}

/* The direction of a layer into v; `next` is as long, for work.  False when there is none. */
static bool direction(const struct maker *k, uint32_t layer, enum lm_directions_by by, double *v,
                      double *next)
{
    double longest = -1, side = 0;
    size_t start = 0;
    memset(v, 0, k->n * sizeof *v);
    for (size_t p = 0; p < k->n_pairs; p++) {
        const float *row = k->rows + (p * k->n_layer + layer) * k->n;
        double len = 0;
        for (size_t i = 0; i < k->n; i++) {
            v[i] += (double)row[i];
            len += (double)row[i] * (double)row[i];
        }
        start = len > longest ? p : start;
        longest = len > longest ? len : longest;
    }
    if (by == LM_DIRECTIONS_MEAN)
        return make_unit(v, k->n);
    const float *row = k->rows + (start * k->n_layer + layer) * k->n;
    for (size_t i = 0; i < k->n; i++)
        v[i] = (double)row[i];
    if (!make_unit(v, k->n))
        return false;
    for (int step = 0; step < MOST_STEPS; step++) {
        const double far = iterate(k, layer, v, next);
        memcpy(v, next, k->n * sizeof *v);
        if (far < NEAR)
            break;
    }
    for (size_t p = 0; p < k->n_pairs; p++)
        side += dot(k->rows + (p * k->n_layer + layer) * k->n, v, k->n);
    for (size_t i = 0; i < k->n && side < 0; i++)
        v[i] = -v[i];
    return make_unit(v, k->n);
}

static int write_file(const struct maker *k, const float *all, struct lm_out *out,
                      struct lm_err *err)
{
    static const char arch[] = "controlvector";
    const char *hint = lm_model_arch(k->m);
    const uint64_t ne[1] = { k->n }, bytes = k->n * sizeof(float);
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    if (!w)
        return lm_fail_nomem(err);
    lm_gguf_set_str(w, "general.architecture", arch, sizeof arch - 1);
    lm_gguf_set_str(w, "controlvector.model_hint", hint, strlen(hint));
    lm_gguf_set_u32(w, "controlvector.layer_count", k->n_layer - 1);
    for (uint32_t l = 1; l < k->n_layer; l++) {
        char name[32];
        const int n = snprintf(name, sizeof name, "direction.%u", l);
        lm_gguf_add_tensor(w, name, (size_t)n, 1, ne, lm_type_by_id(LM_F32));
    }
    int r = lm_gguf_write_head(w, out, err);
    for (uint32_t l = 1; l < k->n_layer && !r; l++)
        if (!(r = lm_out_write(out, all + l * k->n, (size_t)bytes, err)))
            r = lm_gguf_write_pad(w, out, bytes, err);
    lm_gguf_writer_free(w);
    return r;
}

static int make(const struct maker *k, enum lm_directions_by by, struct lm_out *out,
                struct lm_err *err)
{
    float *all = lm_malloc_array(k->n_layer * k->n, sizeof *all);
    double *v = lm_malloc_array(k->n, 2 * sizeof *v);
    int r = all && v ? LM_OK : lm_fail_nomem(err);
    for (uint32_t l = 1; l < k->n_layer && !r; l++) {
        if (!direction(k, l, by, v, v + k->n))
            r = lm_fail(err, LM_EDATA, "the pairs do not differ in layer %u", l);
        for (size_t i = 0; i < k->n && !r; i++)
            all[l * k->n + i] = (float)v[i];
    }
    if (!r)
        r = write_file(k, all, out, err);
    free(all);
    free(v);
    return r;
}

int lm_directions_write(struct lm_model *m, struct lm_ctx *c, struct lm_in *first,
                        struct lm_in *second, enum lm_directions_by by, struct lm_out *out,
                        const struct lm_env *env, struct lm_err *err)
{
    struct lm_in *const in[2] = { first, second };
    struct lm_token_reader *r[2] = { NULL, NULL };
    struct maker k = { .m = m, .c = c, .n_layer = lm_model_n_layer(m),
                       .n = lm_model_n_embd(m) };
    k.result = lm_malloc_array(k.n_layer * k.n, sizeof *k.result);
    k.seen = lm_malloc_array(k.n_layer, sizeof *k.seen);
    int s = k.result && k.seen ? LM_OK : lm_fail_nomem(err);
    for (int i = 0; i < 2 && !s; i++)
        if (!(r[i] = lm_token_reader_new(in[i], err)))
            s = LM_ENOMEM;
        else
            lm_token_set_vocab(r[i], lm_model_n_vocab(m));
    if (!s) {
        lm_ctx_watch(c, look, &k);
        while ((s = take_pair(&k, r, in, err)) == 1)
            lm_progress(env, "pairs", k.n_pairs, 0);
        lm_ctx_watch(c, NULL, NULL);
    }
    if (!s && !k.n_pairs)
        s = lm_fail(err, LM_EDATA, "%s: no pairs of texts", lm_in_name(first));
    if (!s)
        s = make(&k, by, out, err);
    lm_token_reader_free(r[0]);
    lm_token_reader_free(r[1]);
    free(k.rows);
    free(k.result);
    free(k.seen);
    return s;
}
