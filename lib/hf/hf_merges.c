/* SPDX-License-Identifier: MIT */
/* Do the merges of a tokenizer fit its pieces?  A file whose merges name pieces that it has
 * not got could not be used. */
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab_parts.h"

/* A text in two parts, the second of which may be empty. */
struct text {
    const char *a, *b;
    size_t      n_a, n_b;
};

static uint32_t hash(const struct text *t)
{
    uint32_t h = 2166136261u;                   /* FNV-1a */
    for (size_t i = 0; i < t->n_a + t->n_b; i++) {
        const char c = i < t->n_a ? t->a[i] : t->b[i - t->n_a];
        h = (h ^ (unsigned char)c) * 16777619u;
    }
    return h;
}

static bool same(const struct lm_str *s, const struct text *t)
{
    return s->len == t->n_a + t->n_b && (!t->n_a || !memcmp(s->p, t->a, t->n_a)) &&
           (!t->n_b || !memcmp(s->p + t->n_a, t->b, t->n_b));
}

/* The slot of a text, or the empty one where it belongs. */
static uint32_t *slot(const struct lm_hf_index *x, const struct text *t)
{
    uint32_t i = hash(t) & x->mask;
    while (x->slots[i] && !same(&x->v->pieces[x->slots[i] - 1], t))
        i = (i + 1) & x->mask;
    return &x->slots[i];
}

int lm_hf_index_make(struct lm_hf_index *x, const struct lm_hf_vocab *v, int type,
                     struct lm_err *err)
{
    uint32_t n = 16;
    while (n / 2 < v->n)                        /* v->n is at most LM_HF_MAX_PIECES */
        n *= 2;
    *x = (struct lm_hf_index){ .v = v, .slots = calloc(n, sizeof *x->slots), .mask = n - 1 };
    if (!x->slots)
        return lm_fail_nomem(err);
    for (uint32_t id = 0; id < v->n; id++)
        if (!type || v->types[id] == type)
            *slot(x, &(struct text){ v->pieces[id].p, "", v->pieces[id].len, 0 }) = id + 1;
    return LM_OK;
}

int64_t lm_hf_index_find(const struct lm_hf_index *x, const char *p, size_t n)
{
    return (int64_t)*slot(x, &(struct text){ p, "", n, 0 }) - 1;
}

void lm_hf_index_release(struct lm_hf_index *x)
{
    free(x->slots);
    x->slots = NULL;
}

static int check(const struct lm_hf_index *x, const struct lm_str *m, struct lm_err *err)
{
    /* A part may begin with the blank that is a piece of its own. */
    const char *blank = m->len > 1 ? memchr(m->p + 1, ' ', m->len - 1) : NULL;
    if (!blank)
        return lm_fail(err, LM_EDATA, "merges: \"%.*s\" is not two parts", 80, m->p);
    const size_t left = (size_t)(blank - m->p), right = m->len - left - 1;
    const struct text wanted[] = {
        { m->p, "", left, 0 }, { blank + 1, "", right, 0 }, { m->p, blank + 1, left, right },
    };
    static const char *const what[] = { "the first part", "the second part", "their sum" };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!*slot(x, &wanted[i]))
            return lm_fail(err, LM_EDATA, "merges: \"%.*s\": %s is no piece of the vocabulary",
                           80, m->p, what[i]);
    return LM_OK;
}

int lm_hf_check_merges(const struct lm_hf_vocab *v, struct lm_err *err)
{
    struct lm_hf_index x;
    int r = lm_hf_index_make(&x, v, 0, err);
    for (uint64_t i = 0; !r && i < v->n_merges; i++)
        r = check(&x, &v->merges[i], err);
    lm_hf_index_release(&x);
    return r;
}
