/* SPDX-License-Identifier: MIT */
/* The transform by additions: H(2n) = [H(n) H(n); H(n) -H(n)]. */
#include "tensor/hadamard.h"

#include <math.h>

void lm_hadamard(float *x, size_t n, size_t block)
{
    const float scale = block ? 1 / sqrtf((float)block) : 1;
    for (size_t at = 0; block && at < n; at += block) {
        float *b = x + at;
        for (size_t half = 1; half < block; half *= 2)
            for (size_t i = 0; i < block; i += 2 * half)
                for (size_t k = i; k < i + half; k++) {
                    const float p = b[k], q = b[k + half];
                    b[k] = p + q;
                    b[k + half] = p - q;
                }
        for (size_t i = 0; i < block; i++)
            b[i] *= scale;
    }
}

size_t lm_hadamard_block(const struct lm_type *t, size_t n)
{
    const size_t block = n & -n;
    return t->block > 1 && block >= 64 ? block : 0;
}
