/* SPDX-License-Identifier: MIT */
/*
 * Attention with vectors.  Included once by attn_avx2.c and once by attn_avx512.c.
 *
 * A page of K and of V is brought to floats, rows padded with zeros to whole vectors; then
 * a few queries at a time (heads, then tokens, of the call) make their scores, their
 * exponentials, and add their share of V.  What is computed for a query, and in which
 * order, depends on nothing but that query.
 */

#include "backend/cpu/attn_tile.h"

#include <math.h>

#include "tensor/hadamard.h"

#define QUERIES    (W == 16 ? 4u : 2u)       /* that read V together, by registers */

/* A query on its way. */
struct query {
    float *q, *out;         /* [dk] scaled; [dv] sum of exp(s - m) V        */
    float *s;               /* [TILE] scores, then exp(s - m)               */
    float  m, l;            /* largest score so far, sum of exp(s - m)      */
    size_t first, end;      /* positions it sees                            */
    size_t from, to;        /* those in the tile                            */
    size_t own, head;       /* its position, and which head it is of        */
};

_Static_assert(sizeof(struct query) <= 32 * sizeof(float), "as lm_attn_scratch counts");

/* Rows of the next page, to be asked for while this one is worked on: for few queries,
 * waiting for memory would be most of the time. */
struct ahead {
    const uint8_t *k, *v, *k_end, *v_end;
    size_t         step;              /* bytes at a time                    */
};

INLINE void ask(struct ahead *a)
{
    for (size_t i = 0; i < a->step && a->k < a->k_end; i += 64, a->k += 64)
        _mm_prefetch((const char *)a->k, _MM_HINT_T0);
    for (size_t i = 0; i < a->step && a->v < a->v_end; i += 64, a->v += 64)
        _mm_prefetch((const char *)a->v, _MM_HINT_T0);
}

/* s[p] = q . k[p] for p < n, rounded up to whole vectors. */
INLINE void scores(float *s, const float *q, const float *k, size_t n, size_t d_pad,
                   struct ahead *ahead)
{
    for (size_t p0 = 0; p0 < n; p0 += W, k += W * d_pad) {
        ask(ahead);
        vf_store(s + p0, dots(q, k, d_pad));
    }
}

/* Scores to exponentials; the sums so far are scaled down when the maximum grows. */
static void softmax(struct query *q, size_t dv_pad)
{
    float *s = q->s;
    size_t whole = (q->to + W - 1) / W * W;
    for (size_t p = 0; p < q->from; p++)
        s[p] = -INFINITY;
    for (size_t p = q->to; p < whole; p++)
        s[p] = -INFINITY;
    vf top = vf_set1(q->m);
    for (size_t p = 0; p < whole; p += W)
        top = vf_max(top, vf_load(s + p));
    float m = vf_top(top);
    if (m > q->m) {
        vf f = vf_exp(vf_set1(q->m - m));
        float part[W];
        vf_store(part, f);
        q->l *= part[0];
        for (size_t i = 0; i < dv_pad; i += W)
            vf_store(q->out + i, vf_mul(vf_load(q->out + i), f));
        q->m = m;
    }
    vf sum = vf_zero();
    for (size_t p = 0; p < whole; p += W) {
        vf e = vf_exp(vf_sub(vf_load(s + p), vf_set1(q->m)));
        sum = vf_add(sum, e);
        vf_store(s + p, e);
    }
    q->l += vf_sum(sum);
}

/* out += e[p] v[p], p in from .. to-1, for N queries and C vectors of their results. */
INLINE void add_some(struct query *q, size_t N, size_t C, const float *v, size_t at, size_t dv_pad,
                     size_t from, size_t to)
{
    vf out[4][4];
    UNROLL for (size_t n = 0; n < N; n++)
        UNROLL for (size_t c = 0; c < C; c++)
            out[n][c] = vf_load(q[n].out + at + c * W);
    for (size_t p = from; p < to; p++) {
        const float *row = v + p * dv_pad + at;
        UNROLL for (size_t n = 0; n < N; n++) {
            vf e = vf_set1(q[n].s[p]);
            UNROLL for (size_t c = 0; c < C; c++)
                out[n][c] = vf_fma(e, vf_load(row + c * W), out[n][c]);
        }
    }
    UNROLL for (size_t n = 0; n < N; n++)
        UNROLL for (size_t c = 0; c < C; c++)
            vf_store(q[n].out + at + c * W, out[n][c]);
}

INLINE void add_values(struct query *q, size_t N, const float *v, size_t dv_pad, size_t from,
                       size_t to)
{
    size_t at = 0;
    if (from >= to)
        return;
    for (; at + 4 * W <= dv_pad; at += 4 * W)
        add_some(q, N, 4, v, at, dv_pad, from, to);
    for (; at < dv_pad; at += W)
        add_some(q, N, 1, v, at, dv_pad, from, to);
}

static void add_values_1(struct query *q, const float *v, size_t dv_pad, size_t from, size_t to)
{
    add_values(q, 1, v, dv_pad, from, to);
}

/* n queries of one page: what all of them see is read together, the rest one by one;
 * for each query in order of position. */
static void values(struct query *q, size_t n, const float *v, size_t dv_pad)
{
    size_t from = q[0].from, to = q[0].to;
    for (size_t i = 1; i < n; i++) {
        from = q[i].from > from ? q[i].from : from;
        to = q[i].to < to ? q[i].to : to;
    }
    if (n == 1 || from >= to) {
        for (size_t i = 0; i < n; i++)
            add_values_1(q + i, v, dv_pad, q[i].from, q[i].to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        add_values_1(q + i, v, dv_pad, q[i].from, from);
    switch (n) {
    case 2: add_values(q, 2, v, dv_pad, from, to); break;
#if W == 16
    case 3: add_values(q, 3, v, dv_pad, from, to); break;
    case 4: add_values(q, 4, v, dv_pad, from, to); break;
#endif
    }
    for (size_t i = 0; i < n; i++)
        add_values_1(q + i, v, dv_pad, to, q[i].to);
}

/* Scores to softcap tanh(s / softcap), up to whole vectors. */
static void cap(float *s, size_t n, float softcap)
{
    for (size_t p = 0; p < n; p += W)
        vf_store(s + p, vf_cap(vf_load(s + p), vf_set1(softcap)));
}

/* The n (at most QUERIES) queries that see anything of the tile at p0. */
static void one_page(const struct lm_attn *a, struct query *q, size_t n, size_t p0,
                     const float *k, size_t dk_pad, const float *v, size_t dv_pad,
                     struct ahead *ahead)
{
    for (size_t i = 0; i < n; i++) {
        q[i].from = q[i].first > p0 ? q[i].first - p0 : 0;
        q[i].to = q[i].end - p0 < TILE ? q[i].end - p0 : TILE;
        scores(q[i].s, q[i].q, k, q[i].to, dk_pad, ahead);
        if (a->softcap > 0)
            cap(q[i].s, q[i].to, a->softcap);
        if (a->bias)
            lm_attn_add_bias(a, q[i].head, q[i].own, p0, q[i].s, q[i].from, q[i].to);
        softmax(q + i, dv_pad);
    }
    values(q, n, v, dv_pad);
}

static void start(const struct lm_attn *a, struct query *q, size_t t, size_t h, size_t dk_pad,
                  size_t dv_pad)
{
    const float *src = a->q + t * a->q_tok + h * a->q_head;
    for (size_t i = 0; i < dk_pad; i++)
        q->q[i] = i < a->d_k ? src[i] * a->scale : 0;
    lm_hadamard(q->q, a->d_k, a->k_block);
    memset(q->out, 0, dv_pad * sizeof(float));
    q->m = a->sinks ? a->sinks[h] : -INFINITY;
    q->l = a->sinks ? 1 : 0;
    q->head = h;
    q->own = lm_attn_sees(a, t, &q->first, &q->end);
}

static void finish(const struct lm_attn *a, const struct query *q, size_t t, size_t h)
{
    float *dst = a->out + t * a->out_tok + h * a->out_head;
    vf l = vf_set1(q->l);
    size_t i = 0;
    for (; i + W <= a->d_v; i += W)
        vf_store(dst + i, vf_div(vf_load(q->out + i), l));
    if (i < a->d_v)
        vf_store_n(dst + i, vf_div(vf_load(q->out + i), l), a->d_v - i);
    lm_hadamard(dst, a->d_v, a->v_block);
}

static struct ahead next_page(const struct lm_attn *a, size_t p0, size_t last, size_t nq)
{
    struct ahead r = {0};
    if (p0 >= last || a->chosen)
        return r;
    size_t n = last - p0 < TILE ? last - p0 : TILE, groups = nq * (TILE / W);
    r.k = lm_attn_key(a, p0);
    r.v = lm_attn_value(a, p0);
    r.k_end = r.k + n * a->k_row;
    r.v_end = r.v + n * a->v_row;
    r.step = n * (a->k_row > a->v_row ? a->k_row : a->v_row) / groups + 1;
    return r;
}

/* The key, or the value, of position p. */
INLINE const uint8_t *row_of(const struct lm_attn *a, bool value, size_t p)
{
    return value ? lm_attn_value(a, p) : lm_attn_key(a, p);
}

/* The n keys, or values, of the tile at p0. */
INLINE void load_rows(const struct lm_attn *a, bool value, float *dst, size_t p0, size_t n,
                      size_t d_pad)
{
    const uint32_t type = value ? a->v_type : a->k_type;
    const size_t d = value ? a->d_v : a->d_k, step = value ? a->v_row : a->k_row;
    void (*decode)(const void *, float *, size_t) = value ? a->v_decode : a->k_decode;
    if (!a->chosen) {
        load_tile(dst, row_of(a, value, p0), step, type, decode, n, d, d_pad);
        return;
    }
    for (size_t p = 0; p < n; p++)
        load_row(dst + p * d_pad, row_of(a, value, p0 + p), type, decode, d, d_pad);
    fill_tile(dst, n, d_pad);
}

/* Scratch: tiles of K and V, then q, out and s of each query, then their structs. */
static void attn(const struct lm_attn *a, void *scratch)
{
    size_t nq = a->n_tok * a->n_head;
    size_t dk_pad = lm_attn_pad(a->d_k), dv_pad = lm_attn_pad(a->d_v);
    float *k = scratch, *v = k + TILE * dk_pad, *p = v + TILE * dv_pad;
    struct query *q = (struct query *)(void *)(p + nq * (dk_pad + dv_pad + TILE));
    for (size_t i = 0; i < nq; i++, p += dk_pad + dv_pad + TILE) {
        q[i] = (struct query){ .q = p, .out = p + dk_pad, .s = p + dk_pad + dv_pad };
        start(a, q + i, i / a->n_head, i % a->n_head, dk_pad, dv_pad);
    }
    const size_t last = q[nq - 1].end;                /* the later token sees the later ones */
    for (size_t p0 = q[0].first / TILE * TILE; p0 < last; p0 += TILE) {
        struct ahead ahead = next_page(a, p0 + TILE, last, nq);
        size_t n = last - p0 < TILE ? last - p0 : TILE, i = 0, end = nq;
        load_rows(a, false, k, p0, n, dk_pad);
        load_rows(a, true, v, p0, n, dv_pad);
        while (i < nq && q[i].end <= p0)              /* early tokens end before the page */
            i++;
        while (end > i && q[end - 1].first >= p0 + TILE)  /* late windows begin after it */
            end--;
        for (; i < end; i += QUERIES)
            one_page(a, q + i, end - i < QUERIES ? end - i : QUERIES, p0, k, dk_pad, v, dv_pad,
                     &ahead);
    }
    for (size_t i = 0; i < nq; i++)
        finish(a, q + i, i / a->n_head, i % a->n_head);
}
