/* SPDX-License-Identifier: MIT */
/*
 * The operations on a chunk that a compiler makes vectors of.  Included once for each
 * instruction set; the others are the including file's.
 */
#include "sample/chunk_ops.h"

#include <math.h>

#include "sample/fixed_math.h"

static void buckets(const double *restrict l, double center, double per_unit, uint32_t last,
                    uint32_t *restrict b)
{
    const double most = last;
    for (int i = 0; i < LM_CHUNK; i++) {
        double x = fabs(l[i] - center) * per_unit;
        x = x < most ? x : most;
        b[i] = (uint32_t)(int32_t)x;
    }
}

static uint32_t count(const float *restrict x, float least, float most)
{
    int32_t n = 0;
    for (int i = 0; i < LM_CHUNK; i++)
        n += (x[i] >= least) & (x[i] <= most);
    return (uint32_t)n;
}

static uint32_t spread(const double *restrict l, double from, int square, double *restrict lane)
{
    int64_t n[LM_LANES] = { 0 }, all = 0;
    if (square) {
        for (int i = 0; i < LM_CHUNK; i += LM_LANES)
            for (int k = 0; k < LM_LANES; k++) {
                const double d = l[i + k] > -INFINITY ? l[i + k] - from : 0;
                lane[k] += d * d;
            }
    } else {
        for (int i = 0; i < LM_CHUNK; i += LM_LANES)
            for (int k = 0; k < LM_LANES; k++)
                lane[k] += l[i + k] > -INFINITY ? l[i + k] : 0;
    }
    for (int i = 0; i < LM_CHUNK; i += LM_LANES)
        for (int k = 0; k < LM_LANES; k++)
            n[k] += l[i + k] > -INFINITY;
    for (int k = 0; k < LM_LANES; k++)
        all += n[k];
    return (uint32_t)all;
}

#define FAVOR_WIDTH 0.3f

#define CHUNK_OPS { .load = load, .find = find, .keep = keep, .count = count, .pack = pack, \
                    .weigh = weigh, .narrow = narrow, .favor = favor, .buckets = buckets, \
                    .spread = spread }
