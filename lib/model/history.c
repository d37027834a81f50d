/* SPDX-License-Identifier: MIT */
/*
 * Models whose rotation depends on a sequence's length (longrope: Ding et al., 2024).
 *
 * All tokens of a sequence are rotated with the factors for its length, so when it grows
 * beyond the training length, or is cut back below it, what was remembered was made with the
 * others.  Its tokens are then evaluated again, for which their ids are kept.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

struct lm_history {
    struct lm_history *next;
    uint32_t           seq;
    bool               far;             /* remembered with the factors for great lengths  */
    int32_t           *ids;             /* [n]; those beyond the sequence's length are old */
    size_t             n, cap;
};

static struct lm_history *find(const struct lm_ctx *c, uint32_t seq)
{
    struct lm_history *h = c->histories;
    while (h && h->seq != seq)
        h = h->next;
    return h;
}

static struct lm_history *get(struct lm_ctx *c, uint32_t seq)
{
    struct lm_history *h = find(c, seq);
    if (h || !(h = calloc(1, sizeof *h)))
        return h;
    h->seq = seq;
    h->next = c->histories;
    c->histories = h;
    return h;
}

void lm_history_drop(struct lm_ctx *c, uint32_t seq)
{
    for (struct lm_history **p = &c->histories, *h; (h = *p); p = &h->next)
        if (h->seq == seq) {
            *p = h->next;
            free(h->ids);
            free(h);
            return;
        }
}

void lm_history_free(struct lm_ctx *c)
{
    while (c->histories)
        lm_history_drop(c, c->histories->seq);
}

const int32_t *lm_history_ids(const struct lm_ctx *c, uint32_t seq, uint32_t n, bool *far)
{
    const struct lm_history *h = find(c, seq);
    *far = h ? h->far : c->far_from && n > c->far_from;
    return h && n && h->n >= n ? h->ids : NULL;
}

int lm_history_set(struct lm_ctx *c, uint32_t seq, const int32_t *ids, uint32_t n, bool far,
                   struct lm_err *err)
{
    lm_history_drop(c, seq);
    struct lm_history *to = get(c, seq);
    n = ids ? n : 0;
    if (!to || !lm_grow(&to->ids, &to->cap, (size_t)n + 1, sizeof *to->ids))
        return lm_fail_nomem(err);
    if (n)
        memcpy(to->ids, ids, n * sizeof *to->ids);
    to->n = n;
    to->far = far;
    return LM_OK;
}

int lm_history_copy(struct lm_ctx *c, uint32_t dst, uint32_t src, struct lm_err *err)
{
    const struct lm_history *from = find(c, src);
    if (dst == src)
        return LM_OK;
    if (from)
        return lm_history_set(c, dst, from->ids, (uint32_t)from->n, from->far, err);
    lm_history_drop(c, dst);
    return LM_OK;
}

/* A sequence's tokens once more, for a length that it will have. */
static int again(struct lm_ctx *c, const struct lm_history *h, uint32_t n, uint32_t length,
                 struct lm_err *err)
{
    struct lm_batch_token *t = lm_malloc_array(c->n_batch, sizeof *t);
    uint32_t seq = h->seq, backup = UINT32_MAX;
    if (!t)
        return lm_fail_nomem(err);
    while (lm_memory_length(c->memory, backup))
        backup--;
    int r = lm_memory_copy(c->memory, backup, seq, err);
    if (!r)
        r = lm_memory_remove(c->memory, seq, 0, err);
    c->as_long_as = length;
    for (uint32_t at = 0, k; at < n && !r; at += k) {
        for (k = 0; k < c->n_batch && at + k < n; k++)
            t[k] = (struct lm_batch_token){ h->ids[at + k], seq, at + k, false };
        r = lm_ctx_evaluate(c, t, k, err);
    }
    c->as_long_as = 0;
    if (r)
        (void)lm_memory_copy(c->memory, seq, backup, NULL);
    (void)lm_memory_remove(c->memory, backup, 0, NULL);
    free(t);
    return r;
}

int lm_history_before(struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                      struct lm_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t had = lm_memory_length(c->memory, t[i].seq);
        struct lm_history *h = find(c, t[i].seq);
        uint32_t length = had;
        if (t[i].pos != had || had == 0)
            continue;               /* not its first token here, or a new sequence */
        for (size_t k = i; k < n; k++)
            length += t[k].seq == t[i].seq;
        const bool far = length > c->far_from, was = h ? h->far : had > c->far_from;
        if (far == was)
            continue;
        if (!h || h->n < had)
            return lm_fail(err, LM_ENOSUP, "sequence %u of %u tokens cannot go on to %u: its "
                           "first tokens are not known", t[i].seq, had, length);
        int r = again(c, h, had, length, err);
        if (r)
            return r;
        h->far = far;
    }
    return LM_OK;
}

void lm_history_after(struct lm_ctx *c, const struct lm_batch_token *t, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct lm_history *h = get(c, t[i].seq);
        if (!h || h->n < t[i].pos ||            /* its beginning was loaded: not known */
            !lm_grow(&h->ids, &h->cap, (size_t)t[i].pos + 1, sizeof *h->ids))
            continue;
        h->ids[t[i].pos] = t[i].id;
        h->n = (size_t)t[i].pos + 1;
        h->far = lm_memory_length(c->memory, t[i].seq) > c->far_from;
    }
}
