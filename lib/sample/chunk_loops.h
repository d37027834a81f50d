/* SPDX-License-Identifier: MIT */
/*
 * The operations on a chunk that a compiler makes vectors of.  Included once for each
 * instruction set; the others are the including file's.
 */
#include "sample/chunk_ops.h"

#include <math.h>
#include <stdbool.h>

#include "sample/fixed_math.h"

static void buckets(const float *restrict fall, float per_bit, uint32_t last, uint32_t *restrict b)
{
    const float most = (float)last;
    for (int i = 0; i < LM_CHUNK; i++) {
        float x = -fall[i] * per_bit;
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

#define FAVOR_WIDTH 0.3f

#define CHUNK_OPS { .find = find, .keep = keep, .count = count, .pack = pack, .fall = fall, \
                    .weigh = weigh, .powers = powers, .favor = favor, .buckets = buckets, \
                    .spread = spread }
