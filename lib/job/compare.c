/* SPDX-License-Identifier: MIT */
#include "job/compare.h"

#include <math.h>
#include <string.h>

#include "job/sweep.h"

#define PART 4096           /* numbers compared at once: whole blocks of every type */

struct comparison {
    const struct lm_compare_side *a, *b;
    struct lm_difference         *out;
};

/* Of a piece. */
struct result {
    struct lm_difference d;
    int                  status;
    struct lm_err        err;
};

static void compare_numbers(struct lm_difference *d, double x, double y)
{
    if (x == y || (isnan(x) && isnan(y)))
        return;
    double apart = fabs(x - y);
    if (isnan(apart))
        apart = INFINITY;
    d->n_differ++;
    d->max = apart > d->max ? apart : d->max;
    d->sum2 += apart * apart;
}

static void compare_part(struct lm_difference *d, const struct lm_type *ta, const uint8_t *a,
                         const struct lm_type *tb, const uint8_t *b, size_t n)
{
    float x[PART], y[PART];
    if (ta == tb && !memcmp(a, b, n / ta->block * ta->bytes))
        return;
    if (!ta->decode) {
        for (size_t i = 0; i < n; i++)
            compare_numbers(d, (double)lm_sweep_integer(a + i * ta->bytes, ta->bytes),
                            (double)lm_sweep_integer(b + i * tb->bytes, tb->bytes));
        return;
    }
    ta->decode(a, x, n);
    tb->decode(b, y, n);
    for (size_t i = 0; i < n; i++)
        compare_numbers(d, (double)x[i], (double)y[i]);
}

static void work(void *arg, const struct lm_piece *p, void *result)
{
    const struct comparison *c = arg;
    const struct lm_compare_side *other = c->b;
    const struct lm_type *ta = p->t->type, *tb = other->t->type;
    struct result *r = result;
    uint8_t b[PART * 8];
    for (size_t i = 0, n; i < p->n && r->status == LM_OK; i += n) {
        n = p->n - i < PART ? p->n - i : PART;
        uint64_t at = other->g->data_offset + other->t->offset +
                      (p->first + i) / tb->block * tb->bytes;
        r->status = lm_in_pread(other->in, at, b, n / tb->block * tb->bytes, &r->err);
        if (r->status == LM_OK)
            compare_part(&r->d, ta, (const uint8_t *)p->data + i / ta->block * ta->bytes, tb, b,
                         n);
    }
    r->d.n = p->n;
}

static int take(void *arg, const struct lm_piece *p, const void *result, struct lm_err *err)
{
    struct comparison *c = arg;
    const struct result *r = result;
    (void)p;
    if (r->status != LM_OK)
        return lm_fail(err, r->err.code, "%s", r->err.text);
    c->out->n += r->d.n;
    c->out->n_differ += r->d.n_differ;
    c->out->max = r->d.max > c->out->max ? r->d.max : c->out->max;
    c->out->sum2 += r->d.sum2;
    return LM_OK;
}

static bool is_it(void *arg, const struct lm_gguf_tensor *t)
{
    const struct comparison *c = arg;
    return t == c->a->t;
}

static int ready(const struct lm_compare_side *s, struct lm_err *err)
{
    if (!s->t->type)
        return lm_fail(err, LM_ENOSUP, "tensor %.120s: type %u is not known", s->t->name.p,
                       s->t->type_id);
    if (s->g->big_endian)
        return lm_fail(err, LM_ENOSUP, "data of big-endian files cannot be decoded");
    if (!lm_in_seekable(s->in))
        return lm_fail(err, LM_EUSE, "%s is a pipe or compressed, and numbers can only be compared "
                       "in files that are neither", lm_in_name(s->in));
    if (!lm_sweep_readable(s->g, s->t))
        return lm_fail(err, LM_EDATA, "tensor %.120s: its data cannot be read", s->t->name.p);
    return LM_OK;
}

int lm_compare(const struct lm_compare_side *a, const struct lm_compare_side *b,
               struct lm_difference *out, const struct lm_env *env, struct lm_err *err)
{
    struct comparison c = { a, b, out };
    const struct lm_sweep s = { .arg = &c, .result_size = sizeof(struct result),
                                .wanted = is_it, .work = work, .take = take };
    int r;
    *out = (struct lm_difference){ 0 };
    if ((r = ready(a, err)) || (r = ready(b, err)))
        return r;
    if (a->t->type != b->t->type && (!a->t->type->decode || !b->t->type->decode))
        return lm_fail(err, LM_ENOSUP, "tensor %.120s: %s and %s cannot be compared",
                       a->t->name.p, a->t->type->name, b->t->type->name);
    return lm_sweep(a->in, a->g, &s, env, err);
}
