/* SPDX-License-Identifier: MIT */
/* Scores of positions with vectors.  Included once by choose_avx2.c and once by choose_avx512.c. */

#include "backend/cpu/attn_tile.h"

#include "backend/cpu/choose.h"
#include "tensor/hadamard.h"

/* Scratch: a tile of keys, then the queries. */
static void scoring(const struct lm_scoring *s, void *scratch)
{
    const size_t pad = lm_attn_pad(s->d);
    float *k = scratch, *q = k + TILE * pad;
    for (size_t h = 0; h < s->n_head; h++) {
        memcpy(q + h * pad, s->q + h * s->q_head, s->d * sizeof *q);
        memset(q + h * pad + s->d, 0, (pad - s->d) * sizeof *q);
        lm_hadamard(q + h * pad, s->d, s->k_block);
    }
    for (size_t p0 = s->first; p0 < s->end; p0 += TILE) {
        const size_t n = s->end - p0 < TILE ? s->end - p0 : TILE;
        load_tile(k, s->pages[p0 / LM_ATTN_PAGE] + s->k_off, s->k_row, s->k_type, s->k_decode, n,
                  s->d, pad);
        for (size_t p = 0; p < n; p += W) {
            vf all = vf_zero();
            for (size_t h = 0; h < s->n_head; h++) {
                const vf sum = vf_max(dots(q + h * pad, k + p * pad, pad), vf_zero());
                all = vf_fma(vf_set1(s->shares[h]), sum, all);
            }
            vf_store_n(s->out + p0 + p, all, n - p < W ? n - p : W);
        }
    }
}
