/* SPDX-License-Identifier: MIT */
/* Hidden states of a sequence become one vector, and what comes behind that, a classifier or
 * further products: a small graph over the vector. */
#include "model/ctx_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "arch/dense.h"

static int not_there(uint32_t seq, const char *what, struct lm_err *err)
{
    return lm_fail(err, LM_EUSE, "sequence %" PRIu32 ": %s", seq, what);
}

/* The sum over the tokens of a sequence of n; *count of them. */
static int add_rows(const struct lm_ctx *c, uint32_t seq, double *sum, size_t *count,
                    struct lm_err *err)
{
    *count = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->tokens[i].seq != seq)
            continue;
        const float *row = lm_ctx_logits(c, i);
        if (!row || c->tokens[i].pos != (*count)++)
            return not_there(seq, row ? "the last batch has not the whole of it"
                                      : "not all of its tokens were wanted", err);
        for (size_t k = 0; k < c->row_len; k++)
            sum[k] += (double)row[k];
    }
    return *count ? LM_OK : not_there(seq, "is not in the last batch", err);
}

static int pool_mean(const struct lm_ctx *c, uint32_t seq, float *out, struct lm_err *err)
{
    size_t n;
    double *sum = calloc(c->row_len, sizeof *sum);
    if (!sum)
        return lm_fail_nomem(err);
    int r = add_rows(c, seq, sum, &n, err);
    for (size_t k = 0; k < c->row_len && !r; k++)
        out[k] = (float)(sum[k] / (double)n);
    free(sum);
    return r;
}

/* The vector of the first token or of the last. */
static int pool_one(const struct lm_ctx *c, uint32_t seq, bool first, float *out,
                    struct lm_err *err)
{
    size_t at = c->n;
    for (size_t i = 0; i < c->n && (at == c->n || !first); i++)
        if (c->tokens[i].seq == seq)
            at = i;
    if (at == c->n)
        return not_there(seq, "is not in the last batch", err);
    if (first && c->tokens[at].pos)
        return not_there(seq, "the last batch has not the whole of it", err);
    const float *row = lm_ctx_logits(c, at);
    if (!row)
        return not_there(seq, "the token to take was not wanted", err);
    memcpy(out, row, c->row_len * sizeof *out);
    return LM_OK;
}

int lm_ctx_pool(const struct lm_ctx *c, uint32_t seq, enum lm_pooling how, float *out,
                struct lm_err *err)
{
    if (!c->embed)
        return lm_fail(err, LM_EUSE, "a context of logits has no vectors to pool");
    how = how == LM_POOLING_RANK ? lm_model_class_pooling(c->m) : how;
    switch (how) {
    case LM_POOLING_MEAN: return pool_mean(c, seq, out, err);
    case LM_POOLING_CLS:  return pool_one(c, seq, true, out, err);
    case LM_POOLING_LAST: return pool_one(c, seq, false, out, err);
    default:              return lm_fail(err, LM_EUSE, "no way of pooling");
    }
}

/* Shares of numbers: e to each of them, divided by the sum. */
static void softmax(float *x, size_t n)
{
    double sum = 0;
    float top = x[0];
    for (size_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)top);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(exp((double)x[i] - (double)top) / sum);
}

/* A part of the model's graph, of a pooled vector. */
typedef struct lm_tensor *part_fn(struct lm_build *b, struct lm_tensor *x);

/* r becomes the graph; *in its input. */
static int build(struct lm_ctx *c, struct lm_ready *r, part_fn *part, float *out,
                 struct lm_tensor **in, struct lm_err *err)
{
    const size_t n = c->m->h.n_embd;
    memset(r, 0, sizeof *r);
    r->b = (struct lm_build){
        .arch = c->m->arch, .h = &c->m->h, .graph = &r->graph, .weights = c->m->weights,
        .n_weights = c->m->n_weights, .n_tokens = 1, .n_out = 1,
    };
    if ((*in = lm_new_tensor(&r->graph, lm_type_by_id(LM_F32), 1, &n)))
        (*in)->flags |= LM_TENSOR_INPUT;
    struct lm_tensor *y = r->b.logits = part(&r->b, *in);
    if (y) {
        y->flags |= LM_TENSOR_OUTPUT;
        y->data = out;
    }
    return lm_graph_expand(&r->graph, y)
               ? lm_fail(err, r->graph.err.code, "%s", r->graph.err.text) : LM_OK;
}

static int run(struct lm_ctx *c, part_fn *part, const float *vector, float *out,
               struct lm_err *err)
{
    struct lm_ready r;
    struct lm_tensor *in;
    int code = build(c, &r, part, out, &in, err);
    if (!code)
        code = lm_ctx_plan_graph(c, &r, err);
    if (!code && !(code = lm_sched_begin(c->sched, r.plan, err))) {
        memcpy(in->data, vector, c->m->h.n_embd * sizeof *vector);
        lm_sched_output(r.plan, r.b.logits, out);
        code = lm_sched_run(c->sched, r.plan, NULL, NULL, err);
    }
    int late = lm_sched_wait(c->sched, code ? NULL : err);
    lm_ctx_drop_graph(c, &r);
    return code ? code : late;
}

int lm_ctx_classify(struct lm_ctx *c, const float *vector, float *out, struct lm_err *err)
{
    struct lm_err mine = {0};
    const uint32_t n = c->m->h.n_labels;
    err = err ? err : &mine;
    if (!n || !c->embed)
        return lm_fail(err, LM_ENOSUP, "the model has no classifier");
    int r = run(c, lm_dense_classify, vector, out, err);
    if (!r && !c->m->arch->encoder)
        softmax(out, n);
    return r;
}

/* Is there a product behind the pooling? */
static bool projects(const struct lm_model *m)
{
    for (size_t i = 0; i < m->n_weights; i++)
        if (m->weights[i] && (m->arch->tensors[i].role == LM_DENSE_2 ||
                              m->arch->tensors[i].role == LM_DENSE_3))
            return true;
    return false;
}

int lm_ctx_project(struct lm_ctx *c, const float *vector, float *out, struct lm_err *err)
{
    struct lm_err mine = {0};
    if (projects(c->m))
        return run(c, lm_dense_project, vector, out, err ? err : &mine);
    memcpy(out, vector, c->m->h.n_embd * sizeof *vector);
    return LM_OK;
}
