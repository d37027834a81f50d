/* SPDX-License-Identifier: MIT */
/*
 * infill: for filling in the middle of a text, where stopping in time matters.
 *
 * 1. If the end tokens are likely (3 P n > Q, P their chance, Q that of the rest, n the
 *    number of all), only they stay.
 * 2. Of two candidates, the text of one beginning with that of the other, the less likely one
 *    gives its chance to the other.
 * 3. Text candidates below 0.2 go; if none is left, the turn ends.  Then those below 1 / (their
 *    number + 1) go.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/fixed_math.h"
#include "sample/sampler.h"

#define MOST  1000           /* candidates: step 2 compares each with each */
#define LEAST 0.2

struct setup {
    const struct lm_vocab *vocab;
    int32_t                end;              /* the turn's, else the sequence's; or -1 */
    int32_t               *eog;              /* [n_eog] ascending                      */
    size_t                 n_eog;
    double                 p[MOST];          /* of the candidates; 0: removed          */
    bool                   ends[MOST];
};

static bool off(const double *v)
{
    (void)v;
    return false;
}

static void free_state(void *state)
{
    struct setup *s = state;
    if (s)
        free(s->eog);
    free(s);
}

static struct setup *make(const struct lm_vocab *vocab, const int32_t *eog, size_t n)
{
    struct setup *s = calloc(1, sizeof *s);
    if (!s || !(s->eog = lm_malloc_array(n, sizeof *s->eog))) {
        free(s);
        return NULL;
    }
    s->vocab = vocab;
    s->end = lm_vocab_eot(vocab) >= 0 ? lm_vocab_eot(vocab) : lm_vocab_eos(vocab);
    s->n_eog = n;
    if (n)
        memcpy(s->eog, eog, n * sizeof *eog);
    return s;
}

static void *new_state(const double *v, const struct lm_setup *setup, struct lm_err *err)
{
    (void)v;
    if (!setup->vocab) {
        lm_fail(err, LM_EUSE, "infill needs the vocabulary");
        return NULL;
    }
    struct setup *s = make(setup->vocab, setup->eog, setup->n_eog);
    if (!s)
        lm_fail_nomem(err);
    return s;
}

static void *clone(const void *state)
{
    const struct setup *from = state;
    return make(from->vocab, from->eog, from->n_eog);
}

static bool is_end(const struct setup *s, uint32_t id)
{
    for (size_t i = 0; i < s->n_eog; i++)
        if ((uint32_t)s->eog[i] == id)
            return true;
    return false;
}

static struct lm_str text_of(const struct setup *s, uint32_t id)
{
    return lm_vocab_type(s->vocab, id) == LM_TOKEN_CONTROL ? (struct lm_str){ "", 0 }
                                                          : lm_vocab_piece(s->vocab, id);
}

/* Step 2, on candidates in order of rank. */
static void merge(struct setup *s, const struct lm_cand *list, size_t n)
{
    for (size_t a = 0; a < n; a++) {
        const struct lm_str x = text_of(s, list[a].id);
        for (size_t b = 0; x.len && s->p[a] > 0 && b < n; b++) {
            if (b == a || !(s->p[b] > 0))
                continue;
            const struct lm_str y = text_of(s, list[b].id);
            if (y.len < x.len || memcmp(x.p, y.p, x.len))
                continue;
            const size_t to = s->p[b] > s->p[a] ? b : a, from = to == a ? b : a;
            s->p[to] += s->p[from];
            s->p[from] = 0;
        }
    }
}

/* Remove texts of less than `least` and share out the chances; how many texts are left. */
static size_t drop_below(struct setup *s, size_t n, double least)
{
    double sum = 0;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        if (!s->ends[i] && s->p[i] < least)
            s->p[i] = 0;
        left += !s->ends[i] && s->p[i] > 0;
        sum += s->p[i];
    }
    for (size_t i = 0; sum > 0 && i < n; i++)
        s->p[i] /= sum;
    return left;
}

/* The candidates with a chance left, their logits ln p. */
static void take_back(const struct setup *s, struct lm_cands *c)
{
    size_t m = 0;
    c->max = -INFINITY;
    for (size_t i = 0; i < c->n; i++) {
        if (!(s->p[i] > 0))
            continue;
        const double l = lm_ln(s->p[i]);
        c->list[m++] = (struct lm_cand){ .l = l, .id = c->list[i].id };
        c->max = l > c->max ? l : c->max;
    }
    c->n = m;
    c->order = LM_UNORDERED;
}

static int apply(struct lm_cands *c, const double *v, void *state, const struct lm_step *step,
                 struct lm_err *err)
{
    struct setup *s = state;
    double text = 0, end = 0;
    (void)v;
    (void)step;
    if (lm_cands_count(c) > MOST)
        return lm_fail(err, LM_EUSE, "infill takes at most %d candidates: top_k has to come first",
                       MOST);
    const double total = (double)lm_cands_weigh(c);
    lm_cands_sort(c, LM_BY_RANK);
    for (size_t i = 0; i < c->n; i++) {
        s->p[i] = lm_exp(c->list[i].l - c->max) * LM_WEIGHT_ONE / total;
        s->ends[i] = is_end(s, c->list[i].id);
        *(s->ends[i] ? &end : &text) += s->p[i];
    }
    if (3 * end * (double)c->n > text) {
        for (size_t i = 0; i < c->n; i++)
            s->p[i] = s->ends[i] ? s->p[i] : 0;
    } else {
        merge(s, c->list, c->n);
        size_t left = drop_below(s, c->n, LEAST);
        if (left == 0 && s->end >= 0) {
            c->list[0] = (struct lm_cand){ .id = (uint32_t)s->end };
            c->n = 1;
            c->max = 0;
            return LM_OK;
        }
        drop_below(s, c->n, 1.0 / (double)(left + 1));
    }
    take_back(s, c);
    return LM_OK;
}

const struct lm_sampler lm_infill = {
    .name       = "infill",
    .letter     = 'i',
    .params     = { NULL },
    .on_request = true,
    .off        = off,
    .apply      = apply,
    .new_state  = new_state,
    .clone      = clone,
    .free_state = free_state,
};
