/* SPDX-License-Identifier: MIT */
#include "job/check.h"

#include <float.h>
#include <string.h>

#include "job/sweep.h"

struct data_check {
    const struct lm_gguf        *g;
    size_t                       shard;
    const struct lm_check_to    *to;
    bool                         importance;   /* numbers are sums of squares, and counts */
    const struct lm_gguf_tensor *t;            /* whose blocks are being counted          */
    uint64_t                     n_bad, first; /* blocks of t; weight the first begins at */
    uint64_t                     n_faults;
};

/* Of a piece: wrong blocks, and the first of them. */
struct bad {
    uint64_t n, first;
};

/* A sum of squares, or a count. */
static bool is_sum(const void *p, size_t i)
{
    float f;
    memcpy(&f, (const char *)p + i * sizeof f, sizeof f);
    return f >= 0 && f <= FLT_MAX;
}

static void mark(struct bad *b, uint64_t block)
{
    if (!b->n++)
        b->first = block;
}

static void look(void *arg, const struct lm_piece *p, void *result)
{
    const struct data_check *c = arg;
    const struct lm_type *type = p->t->type;
    struct bad *bad = result;
    if (c->importance && type->id == LM_F32) {
        for (size_t i = 0; i < p->n; i++)
            if (!is_sum(p->data, i))
                mark(bad, i);
        return;
    }
    for (size_t i = 0; type->invalid && i < p->n;) {
        int64_t k = type->invalid((const char *)p->data + i / type->block * type->bytes, p->n - i);
        if (k < 0)
            break;
        mark(bad, i / type->block + (uint64_t)k);
        i += (size_t)(k + 1) * type->block;
    }
}

static void tell(struct data_check *c)
{
    const struct lm_gguf_tensor *t = c->t;
    if (!c->n_bad)
        return;
    struct lm_err what;
    uint64_t row = c->first / t->ne[0], column = c->first % t->ne[0];
    const char *blocks = c->n_bad > 1 ? "s" : "";
    lm_fail(&what, LM_EDATA, t->type->block == 1
            ? "tensor %.120s: %llu number%s not finite%s, the first in row %llu, column %llu"
            : "tensor %.120s: %llu block%s not valid%s, the first in row %llu, column %llu",
            t->name.p, (unsigned long long)c->n_bad, blocks, c->importance ? " or below 0" : "",
            (unsigned long long)row, (unsigned long long)column);
    c->to->fault(c->to->arg, c->shard, c->g->data_offset + t->offset +
                 c->first / t->type->block * t->type->bytes, what.text);
    c->n_faults++;
    c->n_bad = 0;
}

static int count(void *arg, const struct lm_piece *p, const void *result, struct lm_err *err)
{
    struct data_check *c = arg;
    const struct bad *bad = result;
    (void)err;
    if (p->t != c->t)
        tell(c);
    c->t = p->t;
    if (bad->n && !c->n_bad)
        c->first = p->first + bad->first * p->t->type->block;
    c->n_bad += bad->n;
    return LM_OK;
}

int lm_check_data(struct lm_in *in, const struct lm_gguf *g, size_t shard,
                  const struct lm_check_to *to, uint64_t *n_faults, struct lm_err *err)
{
    struct data_check c = { .g = g, .shard = shard, .to = to };
    struct lm_str type;
    if (g->big_endian)
        return lm_fail(err, LM_ENOSUP, "data of big-endian files cannot be checked");
    c.importance = lm_gguf_str(g, "general.type", &type, NULL) == LM_OK &&
                   strcmp(type.p, "imatrix") == 0;
    const struct lm_sweep s = { .arg = &c, .result_size = sizeof(struct bad), .work = look,
                                .take = count };
    int r = lm_sweep(in, g, &s, to->env, err);
    tell(&c);
    *n_faults = c.n_faults;
    return r;
}
