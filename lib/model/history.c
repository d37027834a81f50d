/* SPDX-License-Identifier: MIT */
/*
 * The ids of sequences, for models in which what is remembered of a token depends on tokens that
 * come later:
 *
 *   longrope (Ding et al., 2024)   all tokens of a sequence are rotated with the factors for its
 *                                  length
 *   activated adapters (Greenewald et al., 2025)   the adapter is for the tokens from where its
 *                                  invocation begins for the last time
 *
 * When a sequence goes on, or was cut back, so that what was remembered should have been made in
 * another way, the tokens from there on are evaluated again.
 */
#include "model/ctx_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define NOWHERE UINT32_MAX

struct lm_history {
    struct lm_history *next;
    uint32_t           seq;
    bool               far;             /* remembered with the factors for great lengths  */
    uint32_t          *from;            /* [c->n_waiting] and with these adapters from there on,
                                           then as many that were; NULL: none has begun   */
    int32_t           *ids;             /* [n]; those beyond the sequence's length are old */
    size_t             n, cap;
    uint32_t           first;           /* ids in front of this are not known             */
    uint32_t           expected;        /* so many are known that will come; 0: none      */
    uint32_t           length;          /* that results depend on                         */
};

static struct lm_history *find(const struct lm_ctx *c, uint32_t seq)
{
    struct lm_history *h = c->histories;
    while (h && h->seq != seq)
        h = h->next;
    return h;
}

/* One whose ids are not known, if it is new. */
static struct lm_history *get(struct lm_ctx *c, uint32_t seq)
{
    struct lm_history *h = find(c, seq);
    if (h || !(h = calloc(1, sizeof *h)))
        return h;
    h->seq = seq;
    h->first = h->length = lm_memory_length(c->memory, seq);
    h->n = h->first;
    h->far = c->far_from && h->first > c->far_from;
    h->next = c->histories;
    c->histories = h;
    return h;
}

static void drop(struct lm_history **at)
{
    struct lm_history *h = *at;
    *at = h->next;
    free(h->from);
    free(h->ids);
    free(h);
}

void lm_history_cut(struct lm_ctx *c, uint32_t seq, uint32_t pos)
{
    for (struct lm_history **p = &c->histories; *p; p = &(*p)->next)
        if ((*p)->seq == seq) {
            (*p)->expected = 0;
            if (pos == 0)
                drop(p);
            return;
        }
}

void lm_history_keep(struct lm_ctx *c, uint32_t seq)
{
    for (struct lm_history **p = &c->histories; *p; )
        if ((*p)->seq == seq)
            p = &(*p)->next;
        else
            drop(p);
}

void lm_history_free(struct lm_ctx *c)
{
    while (c->histories)
        drop(&c->histories);
}

void lm_history_forget_adapters(struct lm_ctx *c)
{
    for (struct lm_history *h = c->histories; h; h = h->next) {
        free(h->from);
        h->from = NULL;
    }
}

/* A list for h->from, which is NULL. */
static bool make_from(const struct lm_ctx *c, struct lm_history *h)
{
    h->from = lm_malloc_array(c->n_waiting, 2 * sizeof *h->from);
    for (size_t i = 0; h->from && i < 2 * c->n_waiting; i++)
        h->from[i] = NOWHERE;
    return h->from;
}

void lm_history_known(const struct lm_ctx *c, uint32_t seq, uint32_t n, struct lm_known *out)
{
    const struct lm_history *h = find(c, seq);
    *out = (struct lm_known){
        .ids = h && n && h->n >= n && h->first == 0 ? h->ids : NULL, .n = n,
        .far = h ? h->far : c->far_from && n > c->far_from, .from = h ? h->from : NULL,
    };
}

int lm_history_set(struct lm_ctx *c, uint32_t seq, const struct lm_known *known,
                   struct lm_err *err)
{
    lm_history_cut(c, seq, 0);
    struct lm_history *h = get(c, seq);
    if (!h || !lm_grow(&h->ids, &h->cap, (size_t)known->n + 1, sizeof *h->ids))
        return lm_fail_nomem(err);
    if (known->from) {
        if (!make_from(c, h))
            return lm_fail_nomem(err);
        memcpy(h->from, known->from, c->n_waiting * sizeof *h->from);
    }
    if (known->ids)
        memcpy(h->ids, known->ids, known->n * sizeof *h->ids);
    h->first = known->ids ? 0 : known->n;
    h->n = known->n;
    h->far = known->far;
    return LM_OK;
}

int lm_history_copy(struct lm_ctx *c, uint32_t dst, uint32_t src, struct lm_err *err)
{
    const struct lm_history *from = find(c, src);
    if (dst == src)
        return LM_OK;
    if (!from) {
        lm_history_cut(c, dst, 0);
        return LM_OK;
    }
    const struct lm_known known = {
        .ids = from->ids, .n = (uint32_t)from->n, .far = from->far, .from = from->from,
    };
    const int r = lm_history_set(c, dst, &known, err);
    if (!r)
        find(c, dst)->first = from->first;
    return r;
}

/* A sequence's tokens from position `from` on, n in all, once more. */
static int again(struct lm_ctx *c, const struct lm_history *h, uint32_t from, uint32_t n,
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
        r = lm_memory_remove(c->memory, seq, from, err);
    lm_draft_forget(c, seq, from);
    for (uint32_t at = from, k; at < n && !r; at += k) {
        for (k = 0; k < c->n_batch && at + k < n; k++)
            t[k] = (struct lm_batch_token){ h->ids[at + k], seq, at + k, false };
        r = lm_ctx_evaluate(c, t, k, err);
    }
    if (r)
        (void)lm_memory_copy(c->memory, seq, backup, NULL);
    (void)lm_memory_remove(c->memory, backup, 0, NULL);
    free(t);
    return r;
}

/* Take down the tokens of sequence h among t [n], which it goes on with after `had`, and how long
 * it is then, or will be. */
static int take_down(struct lm_history *h, const struct lm_batch_token *t, size_t n, uint32_t had,
                     struct lm_err *err)
{
    uint32_t at = had;
    for (size_t k = 0; k < n; k++) {
        if (t[k].seq != h->seq)
            continue;
        if (!lm_grow(&h->ids, &h->cap, (size_t)at + 1, sizeof *h->ids))
            return lm_fail_nomem(err);
        if (at < h->expected && h->ids[at] != t[k].id)
            h->expected = 0;
        h->ids[at++] = t[k].id;
    }
    h->length = at > h->expected ? at : h->expected;
    return LM_OK;
}

/* What decide() made of h->from. */
static void take_back(const struct lm_ctx *c, struct lm_history *h)
{
    if (c->n_waiting)
        memcpy(h->from, h->from + c->n_waiting, c->n_waiting * sizeof *h->from);
}

/* Where the invocation of a waiting adapter begins for the last time. */
static uint32_t last_begin(const struct lm_history *h, const struct lm_waiting *w)
{
    for (uint32_t end = h->length; end >= h->first + w->n; end--)
        if (h->ids[end - 1] == w->ids[w->n - 1] &&
            memcmp(h->ids + end - w->n, w->ids, w->n * sizeof *w->ids) == 0)
            return end - w->n;
    return NOWHERE;
}

/* How a sequence's tokens are to be made now, in h->far and h->from; *redo: from where on they were
 * made otherwise.  What fails changes nothing. */
static int decide(const struct lm_ctx *c, struct lm_history *h, uint32_t had, uint32_t *redo,
                  struct lm_err *err)
{
    const size_t n = c->n_waiting;
    const bool far = c->far_from && h->length > c->far_from;
    *redo = far != h->far ? 0 : had;
    if (n && !h->from && !make_from(c, h))
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const uint32_t was = h->from[n + i] = h->from[i];
        const uint32_t is = h->from[i] = last_begin(h, &c->waiting[i]);
        const uint32_t first = was < is ? was : is;
        if (was != is && first < *redo)
            *redo = first;
    }
    if (*redo < had && (*redo < h->first || h->n < had)) {
        take_back(c, h);
        return lm_fail(err, LM_ENOSUP, "sequence %u of %u tokens cannot go on to %u: its "
                       "first tokens are not known", h->seq, had, h->length);
    }
    h->far = far;
    return LM_OK;
}

/* What a sequence has is evaluated again from `redo` on; where it cannot be cut there, all of it,
 * if its ids are known. */
static int go_back(struct lm_ctx *c, const struct lm_history *h, uint32_t redo, uint32_t had,
                   struct lm_err *err)
{
    if (redo && h->first == 0 && !lm_memory_can_cut(c->memory, h->seq, redo))
        redo = 0;
    return again(c, h, redo, had, err);
}

int lm_history_before(struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                      struct lm_err *err)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t had = lm_memory_length(c->memory, t[i].seq);
        uint32_t redo;
        if (t[i].pos != had)
            continue;               /* not its first token here, or none that follows */
        struct lm_history *h = get(c, t[i].seq);
        if (!h)
            return lm_fail_nomem(err);
        const bool far = h->far;
        int r = take_down(h, t + i, n - i, had, err);
        if (r || (r = decide(c, h, had, &redo, err)))
            return r;
        if (redo < had && (r = go_back(c, h, redo, had, err))) {
            take_back(c, h);
            h->far = far;
            return r;
        }
    }
    return LM_OK;
}

void lm_history_after(struct lm_ctx *c, const struct lm_batch_token *t, size_t n)
{
    struct lm_history *h = NULL;
    for (size_t i = 0; i < n; i++) {
        h = h && h->seq == t[i].seq ? h : find(c, t[i].seq);
        h->n = (size_t)t[i].pos + 1;
        if (h->n >= h->expected)
            h->expected = 0;
    }
}

int lm_ctx_expect(struct lm_ctx *c, uint32_t seq, const int32_t *ids, size_t n,
                  struct lm_err *err)
{
    const uint32_t had = lm_memory_length(c->memory, seq);
    struct lm_history *h = lm_ctx_by_length(c) ? get(c, seq) : NULL;
    if (!lm_ctx_by_length(c))
        return LM_OK;
    if (n > c->n_ctx || had > c->n_ctx - n)
        return lm_fail(err, LM_EUSE, "%u and %zu tokens, and the context has %u", had, n,
                       c->n_ctx);
    if (!h || !lm_grow(&h->ids, &h->cap, had + n + 1, sizeof *h->ids))
        return lm_fail_nomem(err);
    if (n)
        memcpy(h->ids + had, ids, n * sizeof *ids);
    h->expected = n ? had + (uint32_t)n : 0;
    return LM_OK;
}

void lm_history_lengths(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                        int32_t *out)
{
    const struct lm_history *h = NULL;
    for (size_t i = 0; i < n; i++) {
        h = h && h->seq == t[i].seq ? h : find(c, t[i].seq);
        out[i] = (int32_t)h->length;
    }
}

void lm_history_active(const struct lm_ctx *c, const struct lm_batch_token *t, size_t n,
                       size_t waiting, float *out)
{
    const struct lm_history *h = NULL;
    for (size_t i = 0; i < n; i++) {
        h = h && h->seq == t[i].seq ? h : find(c, t[i].seq);
        out[i] = t[i].pos >= h->from[waiting] ? out[i] : 0;
    }
}
