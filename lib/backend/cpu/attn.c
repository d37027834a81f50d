/* SPDX-License-Identifier: MIT */
/* Attention in plain C, and the choice of the fastest. */

#include "backend/cpu/attn_isa.h"

#include <math.h>
#include <string.h>

#include "tensor/hadamard.h"

/* Scores of positions p0 + from .. p0 + to - 1; their largest, or m if that is larger. */
static float scores(const struct lm_attn *a, const float *q, size_t t, size_t h, size_t p0,
                    size_t from, size_t to, float *s, float m, float *row)
{
    for (size_t p = from; p < to; p++) {
        lm_attn_load(row, lm_attn_key(a, p0 + p), a->k_type, a->k_decode, a->d_k);
        float sum = 0;
        for (size_t i = 0; i < a->d_k; i++)
            sum += q[i] * row[i];
        s[p] = sum * a->scale;
        if (a->softcap > 0)
            s[p] = a->softcap * tanhf(s[p] / a->softcap);
    }
    size_t first, end, own = lm_attn_sees(a, t, &first, &end);
    if (a->bias)
        lm_attn_add_bias(a, h, own, p0, s, from, to);
    for (size_t p = from; p < to; p++)
        m = s[p] > m ? s[p] : m;
    return m;
}

/* One query: the sums l of exp(s - m) and out of exp(s - m) V, m the maximum so far. */
static void one_query(const struct lm_attn *a, size_t t, size_t h, float *row)
{
    size_t first, end;
    float *out = a->out + t * a->out_tok + h * a->out_head;
    float m = a->sinks ? a->sinks[h] : -INFINITY, l = a->sinks ? 1 : 0;
    float *q = row + lm_attn_pad(a->d_k > a->d_v ? a->d_k : a->d_v);
    memcpy(q, a->q + t * a->q_tok + h * a->q_head, a->d_k * sizeof *q);
    lm_hadamard(q, a->d_k, a->k_block);
    lm_attn_sees(a, t, &first, &end);
    memset(out, 0, a->d_v * sizeof(float));
    for (size_t p0 = first / LM_ATTN_TILE * LM_ATTN_TILE; p0 < end; p0 += LM_ATTN_TILE) {
        size_t n = end - p0 < LM_ATTN_TILE ? end - p0 : LM_ATTN_TILE;
        size_t from = first > p0 ? first - p0 : 0;
        float s[LM_ATTN_TILE], top = scores(a, q, t, h, p0, from, n, s, m, row);
        if (top > m) {
            float f = expf(m - top);
            l *= f;
            for (size_t i = 0; i < a->d_v; i++)
                out[i] *= f;
            m = top;
        }
        for (size_t p = from; p < n; p++) {
            float e = expf(s[p] - m);
            l += e;
            lm_attn_load(row, lm_attn_value(a, p0 + p), a->v_type, a->v_decode, a->d_v);
            for (size_t i = 0; i < a->d_v; i++)
                out[i] += e * row[i];
        }
    }
    for (size_t i = 0; i < a->d_v; i++)
        out[i] /= l;
    lm_hadamard(out, a->d_v, a->v_block);
}

void lm_attn_scalar(const struct lm_attn *a, void *scratch)
{
    for (size_t t = 0; t < a->n_tok; t++)
        for (size_t h = 0; h < a->n_head; h++)
            one_query(a, t, h, scratch);
}

size_t lm_attn_scratch(size_t n_tok, size_t n_head, size_t d_k, size_t d_v)
{
    size_t row = lm_attn_pad(d_k) + lm_attn_pad(d_v);
    /* A tile of K and V; for each query itself, its result, a tile of scores, and up to
     * 32 floats' worth of sums and counts. */
    return sizeof(float) * (LM_ATTN_TILE * row + n_tok * n_head * (row + LM_ATTN_TILE + 32));
}

lm_attn_fn *lm_attn_find(enum lm_isa isa)
{
    static lm_attn_fn *const fn[LM_N_ISA] = {
        [LM_ISA_SCALAR] = lm_attn_scalar,
        [LM_ISA_AVX2] = lm_attn_avx2,
        [LM_ISA_AVX512] = lm_attn_avx512,
    };
    return fn[isa];
}
