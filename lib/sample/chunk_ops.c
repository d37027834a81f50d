/* SPDX-License-Identifier: MIT */
/* Operations on chunks in plain C, which is their definition; and the choice among them. */
#include "sample/chunk_loops.h"

#include "base/cpu.h"

static void load(const float *x, float least, double times, double *l)
{
    for (int i = 0; i < LM_CHUNK; i++)
        l[i] = x[i] >= least ? x[i] * times : -INFINITY;
}

static uint32_t between(const float *x, float least, float most)
{
    uint32_t bits = 0;
    for (int i = 0; i < LM_CHUNK / 2; i++)
        bits |= (uint32_t)(x[i] >= least && x[i] <= most) << i;
    return bits;
}

static float select(const float *x, float least, float most, float *y)
{
    float top = -INFINITY;
    for (int i = 0; i < LM_CHUNK / 2; i++) {
        y[i] = x[i] >= least && x[i] <= most ? x[i] : -INFINITY;
        top = y[i] > top ? y[i] : top;
    }
    return top;
}

static void favor(const uint64_t *w, double share, double want, float *p, float *y)
{
    for (int i = 0; i < LM_CHUNK; i++) {
        const double chance = (double)w[i] * share;
        const double d = fabs(chance - want) * (1 / FAVOR_WIDTH);
        p[i] = (float)chance;
        y[i] = (float)(FAVOR_PEAK - FAVOR_SLOPE * (d * d) / (1 + d));
    }
}

static uint64_t weigh(const double *l, double max, uint64_t *w, double *lane)
{
    uint64_t sum = 0;
    for (int i = 0; i < LM_CHUNK; i++) {
        const double d = l[i] - max;
        sum += w[i] = lm_weight(d);
        if (lane && w[i])
            lane[i % LM_LANES] += (double)w[i] * d;
    }
    return sum;
}

static const struct lm_chunk_ops plain = CHUNK_OPS;

const struct lm_chunk_ops *lm_chunk_ops(void)
{
#if defined(__x86_64__)
    if (lm_isa() >= LM_ISA_AVX512)
        return &lm_chunk_ops_avx512;
    if (lm_isa() >= LM_ISA_AVX2)
        return &lm_chunk_ops_avx2;
#endif
    return &plain;
}
