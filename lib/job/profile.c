/* SPDX-License-Identifier: MIT */
#include "job/profile.h"

#include <stdlib.h>
#include <time.h>

#include "base/buf.h"
#include "base/size.h"
#include "tensor/ops.h"
#include "tensor/tensor.h"

struct row {
    enum lm_op            op;
    const struct lm_type *type;         /* of the weight, or NULL                         */
    uint32_t              place;
    uint64_t              nodes;
    double                seconds;
};

struct lm_profile {
    struct lm_ctx *ctx;
    struct row    *rows;
    size_t         n, cap;
    double         last;                /* when the node before was done                  */
    bool           failed;              /* for want of memory                             */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct lm_type *weight_type(const struct lm_tensor *t)
{
    for (size_t i = 0; i < LM_MAX_SRC; i++)
        if (t->src[i] && t->src[i]->op == LM_OP_NONE && t->src[i]->name)
            return t->src[i]->type;
    return NULL;
}

/* The row of nodes like t, made if there is none. */
static struct row *row_of(struct lm_profile *p, const struct lm_tensor *t)
{
    const struct lm_type *type = weight_type(t);
    for (size_t i = 0; i < p->n; i++)
        if (p->rows[i].op == t->op && p->rows[i].type == type && p->rows[i].place == t->place)
            return &p->rows[i];
    if (!lm_grow(&p->rows, &p->cap, p->n + 1, sizeof *p->rows))
        return NULL;
    p->rows[p->n] = (struct row){ .op = t->op, .type = type, .place = t->place };
    return &p->rows[p->n++];
}

static void seen(void *arg, const struct lm_tensor *t)
{
    struct lm_profile *p = arg;
    const double at = now();
    struct row *r = t && t->op != LM_OP_VIEW ? row_of(p, t) : NULL;
    p->failed |= t && t->op != LM_OP_VIEW && !r;
    if (r) {
        r->nodes++;
        r->seconds += at - p->last;
    }
    p->last = now();
}

struct lm_profile *lm_profile_begin(struct lm_ctx *c, struct lm_err *err)
{
    struct lm_profile *p = calloc(1, sizeof *p);
    if (!p) {
        lm_fail_nomem(err);
        return NULL;
    }
    p->ctx = c;
    lm_ctx_watch(c, seen, p);
    return p;
}

static int by_seconds(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

int lm_profile_end(struct lm_profile *p, struct lm_out *out, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    double all = 0;
    if (!p)
        return LM_OK;
    lm_ctx_watch(p->ctx, NULL, NULL);
    if (p->n)
        qsort(p->rows, p->n, sizeof *p->rows, by_seconds);
    for (size_t i = 0; i < p->n; i++)
        all += p->rows[i].seconds;
    for (size_t i = 0; i < p->n; i++) {
        const struct row *r = &p->rows[i];
        lm_buf_printf(&b, "%s\t%s\t%s\t%llu\t%.6f\t%.4f\n", lm_op_row(r->op)->name,
                      r->type ? r->type->name : "-", lm_ctx_device(p->ctx, r->place),
                      (unsigned long long)r->nodes, r->seconds, all > 0 ? r->seconds / all : 0);
    }
    int s = p->failed || b.failed ? lm_fail_nomem(err) : lm_out_write(out, b.data, b.len, err);
    lm_buf_release(&b);
    free(p->rows);
    free(p);
    return s;
}
