/* SPDX-License-Identifier: MIT */
/*
 * Scales that sequences have of their own, for the adapters of low rank.
 *
 * A token is evaluated with those that its sequence had when it came, also where that is done
 * again (history.c) or a draft head asks for it later: so it is remembered from which position on
 * each of them counts.
 *
 * Until a sequence has some, graphs multiply by the scales of lm_ctx_adapt; from then on by those
 * of each token, which are an input.
 */
#include "model/ctx_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Where the sequence's is, or would be, in the list. */
static struct lm_scales **place(struct lm_ctx *c, uint32_t seq)
{
    struct lm_scales **at = &c->scales;
    while (*at && (*at)->seq != seq)
        at = &(*at)->next;
    return at;
}

const struct lm_scales *lm_scales_of(const struct lm_ctx *c, uint32_t seq)
{
    const struct lm_scales *s = c->scales;
    while (s && s->seq != seq)
        s = s->next;
    return s;
}

void lm_scales_drop(struct lm_scales *s)
{
    if (s) {
        free(s->from);
        free(s->values);
    }
    free(s);
}

void lm_scales_put(struct lm_ctx *c, uint32_t seq, struct lm_scales *s)
{
    struct lm_scales **at = place(c, seq), *old = *at;
    if (s) {
        s->seq = seq;
        s->next = old ? old->next : NULL;
        *at = s;
    } else if (old) {
        *at = old->next;
    }
    lm_scales_drop(old);
}

int lm_scales_copy(const struct lm_ctx *c, uint32_t seq, struct lm_scales **out,
                   struct lm_err *err)
{
    const struct lm_scales *s = lm_scales_of(c, seq);
    *out = NULL;
    for (size_t i = 0; s && i < s->n; i++)
        if (lm_scales_add(c, out, s->from[i], s->values + i * c->n_low_rank, err)) {
            lm_scales_drop(*out);
            *out = NULL;
            return LM_ENOMEM;
        }
    return LM_OK;
}

int lm_scales_add(const struct lm_ctx *c, struct lm_scales **s, uint32_t from,
                  const float *values, struct lm_err *err)
{
    const size_t width = c->n_low_rank;
    struct lm_scales *x = *s ? *s : calloc(1, sizeof *x);
    if (!x)
        return lm_fail_nomem(err);
    *s = x;
    if (!lm_grow(&x->from, &x->from_cap, x->n + 1, sizeof *x->from) ||
        !lm_grow(&x->values, &x->values_cap, (x->n + 1) * width, sizeof *x->values))
        return lm_fail_nomem(err);
    x->from[x->n] = from;
    memcpy(x->values + x->n++ * width, values, width * sizeof *values);
    return LM_OK;
}

/* Scale number k of lm_ctx_adapt. */
static float usual(const struct lm_ctx *c, size_t k)
{
    size_t i = 0;
    while (lm_adapter_is_vector(c->adapted[i].adapter) || k-- > 0)
        i++;
    return c->adapted[i].scale;
}

/* Are entry i and what comes before it the same? */
static bool repeats(const struct lm_ctx *c, const struct lm_scales *s, size_t i)
{
    const float *row = s->values + i * c->n_low_rank;
    for (size_t k = 0; k < c->n_low_rank; k++)
        if (row[k] != (i ? row[k - c->n_low_rank] : usual(c, k)))
            return false;
    return true;
}

/* What counts last counts from `pos` on at the latest. */
void lm_scales_cut(struct lm_ctx *c, uint32_t seq, uint32_t pos)
{
    struct lm_scales *s = *place(c, seq);
    size_t keep = s ? s->n : 0;
    while (keep && s->from[keep - 1] >= pos)
        keep--;
    if (!s || keep == s->n)
        return;
    const size_t width = c->n_low_rank;
    memmove(s->values + keep * width, s->values + (s->n - 1) * width, width * sizeof *s->values);
    s->from[keep] = pos;
    s->n = keep + !repeats(c, s, keep);
    if (!s->n)
        lm_scales_put(c, seq, NULL);
}

void lm_scales_shift(struct lm_ctx *c, uint32_t seq, uint32_t from, uint32_t to)
{
    struct lm_scales *s = *place(c, seq);
    const size_t width = c->n_low_rank;
    size_t n = 0;
    for (size_t i = 0; s && i < s->n; i++) {
        const uint32_t at = s->from[i];
        const uint32_t is = at <= from ? at : at < to ? from : at - (to - from);
        n -= n && s->from[n - 1] == is;             /* its tokens are gone */
        s->from[n] = is;
        memmove(s->values + n++ * width, s->values + i * width, width * sizeof *s->values);
    }
    if (s)
        s->n = n;
}

void lm_scales_keep(struct lm_ctx *c, uint32_t seq)
{
    struct lm_scales **at = place(c, seq), *s = *at;
    if (s)
        *at = s->next;
    lm_scales_free(c);
    if (s)
        s->next = NULL;
    c->scales = s;
}

void lm_scales_free(struct lm_ctx *c)
{
    while (c->scales)
        lm_scales_put(c, c->scales->seq, NULL);
}

size_t lm_ctx_n_scales(const struct lm_ctx *c)
{
    return c->n_low_rank;
}

const float *lm_ctx_seq_scales(const struct lm_ctx *c, uint32_t seq)
{
    const struct lm_scales *s = lm_scales_of(c, seq);
    return s ? s->values + (s->n - 1) * c->n_low_rank : NULL;
}

static int check(const struct lm_ctx *c, const float *scales, size_t n, struct lm_err *err)
{
    if (n && !c->n_low_rank)
        return lm_fail(err, LM_ENOSUP, "there is no adapter of low rank");
    if (n && n != c->n_low_rank)
        return lm_fail(err, LM_EUSE, "%zu scales for %zu adapters of low rank", n, c->n_low_rank);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(scales[i]))
            return lm_fail(err, LM_EUSE, "a scale that is not finite");
    return LM_OK;
}

int lm_ctx_seq_set_scales(struct lm_ctx *c, uint32_t seq, const float *scales, size_t n,
                          struct lm_err *err)
{
    const uint32_t length = lm_memory_length(c->memory, seq);
    struct lm_scales **at = place(c, seq), *s = *at;
    int r = check(c, scales, n, err);
    if (r || (n && (r = lm_ctx_weigh_tokens(c, err))))
        return r;
    if (!n && (!s || !length)) {
        lm_scales_put(c, seq, NULL);
        return LM_OK;
    }
    float *row = lm_malloc_array(c->n_low_rank, sizeof *row);
    for (size_t k = 0; row && k < c->n_low_rank; k++)
        row[k] = n ? scales[k] : usual(c, k);
    r = row ? lm_scales_add(c, &s, length, row, err) : lm_fail_nomem(err);
    free(row);
    if (!*at && r)
        lm_scales_drop(s);
    else if (!*at)
        lm_scales_put(c, seq, s);
    if (!r)
        lm_scales_cut(c, seq, length);
    return r;
}

float lm_scale_at(const struct lm_ctx *c, const struct lm_scales *s, uint32_t pos, size_t i)
{
    size_t k = 0, n = s ? s->n : 0;
    while (n && s->from[n - 1] > pos)
        n--;
    if (!n)
        return c->adapted[i].scale;
    while (i-- > 0)
        k += !lm_adapter_is_vector(c->adapted[i].adapter);
    return s->values[(n - 1) * c->n_low_rank + k];
}
