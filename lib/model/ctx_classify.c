/* SPDX-License-Identifier: MIT */
/* Classifiers: a small graph over the vector that a sequence's hidden states became. */
#include "model/ctx_impl.h"

#include <math.h>
#include <string.h>

#include "arch/dense.h"

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

/* r becomes the graph; *in its input. */
static int build(struct lm_ctx *c, struct lm_ready *r, float *out, struct lm_tensor **in,
                 struct lm_err *err)
{
    const size_t n = c->m->h.n_embd;
    memset(r, 0, sizeof *r);
    r->b = (struct lm_build){
        .arch = c->m->arch, .h = &c->m->h, .graph = &r->graph, .weights = c->m->weights,
        .n_weights = c->m->n_weights, .n_tokens = 1, .n_out = 1,
    };
    if ((*in = lm_new_tensor(&r->graph, lm_type_by_id(LM_F32), 1, &n)))
        (*in)->flags |= LM_TENSOR_INPUT;
    struct lm_tensor *y = r->b.logits = lm_dense_classify(&r->b, *in);
    if (y) {
        y->flags |= LM_TENSOR_OUTPUT;
        y->data = out;
    }
    return lm_graph_expand(&r->graph, y)
               ? lm_fail(err, r->graph.err.code, "%s", r->graph.err.text) : LM_OK;
}

int lm_ctx_classify(struct lm_ctx *c, const float *vector, float *out, struct lm_err *err)
{
    struct lm_ready r;
    struct lm_tensor *in;
    struct lm_err mine = {0};
    const uint32_t n = c->m->h.n_labels;
    err = err ? err : &mine;
    if (!n || !c->embed)
        return lm_fail(err, LM_ENOSUP, "the model has no classifier");
    int code = build(c, &r, out, &in, err);
    if (!code)
        code = lm_ctx_plan_graph(c, &r, err);
    if (!code && !(code = lm_sched_begin(c->sched, r.plan, err))) {
        memcpy(in->data, vector, c->m->h.n_embd * sizeof *vector);
        lm_sched_output(r.plan, r.b.logits, out);
        code = lm_sched_run(c->sched, r.plan, NULL, NULL, err);
    }
    int late = lm_sched_wait(c->sched, code ? NULL : err);
    lm_ctx_drop_graph(c, &r);
    code = code ? code : late;
    if (!code && !c->m->arch->encoder)
        softmax(out, n);
    return code;
}
