/* SPDX-License-Identifier: MIT */
/* Operations on chunks in plain C, which is their definition; and the choice among them. */
#include "sample/chunk_loops.h"

#include "base/cpu.h"

static size_t find(const float *x, size_t n, float least, float most, uint32_t *at)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        if (x[i] >= least && x[i] <= most)
            at[found++] = (uint32_t)i;
    return found;
}

static void keep(const float *x, size_t n, float least, float most, float *y, float *best)
{
    for (size_t b = 0; b < n / LM_BLOCK; b++) {
        best[b] = -INFINITY;
        for (size_t i = b * LM_BLOCK; i < (b + 1) * LM_BLOCK; i++) {
            y[i] = x[i] >= least && x[i] <= most ? x[i] : -INFINITY;
            best[b] = y[i] > best[b] ? y[i] : best[b];
        }
    }
}

static uint32_t pack(const float *x, float least, float most, float *y)
{
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i++) {
        y[n] = x[i];
        n += x[i] >= least && x[i] <= most;
    }
    return n;
}

static void fall(const float *x, float least, float most, double times, double max, float *f)
{
    for (int i = 0; i < LM_CHUNK; i++)
        f[i] = x[i] >= least && x[i] <= most ? lm_fall(x[i] * times - max) : -INFINITY;
}

static uint64_t weigh(const float *f, uint64_t *w, double *lane)
{
    uint64_t sum = 0;
    for (int i = 0; i < LM_CHUNK; i++) {
        sum += w[i] = lm_weight(f[i]);
        if (lane && w[i])
            lane[i % LM_LANES] += (double)w[i] * f[i];
    }
    return sum;
}

static uint64_t powers(const float *f, float *p)
{
    uint64_t sum = 0;
    for (int i = 0; i < LM_CHUNK; i++) {
        sum += lm_weight(f[i]);
        p[i] = f[i] > -INFINITY ? lm_power(f[i]) : -1;
    }
    return sum;
}

static void favor(const struct lm_favor *f, float *p, float *y, float *best)
{
    for (int i = 0; i < LM_CHUNK; i++) {
        const float chance = p[i] * f->share, c = fabsf(chance - f->want - f->want_rest);
        const float u = c - f->base - f->base_rest;
        const float lost = u * (c * f->a + f->b) * f->g / (c + FAVOR_WIDTH);
        y[i] = p[i] >= 0 ? lost : -INFINITY;
        p[i] = chance;
    }
    for (int b = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        best[b] = -INFINITY;
        for (int i = b * LM_BLOCK; i < (b + 1) * LM_BLOCK; i++)
            best[b] = y[i] > best[b] ? y[i] : best[b];
    }
}

static uint32_t spread(const float *x, float least, float most, double times, double from,
                       int square, double *lane)
{
    uint32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i++)
        if (x[i] >= least && x[i] <= most) {
            const double l = x[i] * times, d = l - from;
            lane[i % LM_LANES] += square ? d * d : l;
            n++;
        }
    return n;
}

void lm_favor_init(struct lm_favor *f, double share, double want, double base)
{
    const double width = FAVOR_WIDTH;
    *f = (struct lm_favor){
        .share = (float)share, .want = (float)want, .want_rest = (float)(want - (float)want),
        .base = (float)base, .base_rest = (float)(base - (float)base),
        .a = (float)(width + base), .b = (float)(width * base),
        .g = (float)(-10 / 0.3 / (width + base)),
    };
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
