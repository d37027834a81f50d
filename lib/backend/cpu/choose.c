/* SPDX-License-Identifier: MIT */
/*
 * Scores of positions in plain C, and which are the highest.
 *
 * These are found by their bits: floats have the order of their bits as whole numbers, once those
 * of negative ones are turned round.  Three passes, of 11, 11 and 10 bits, count how many scores
 * have which of them and so find the k-th highest; whatever is above it is chosen, and of its
 * equals as many as are missing.
 */
#include "backend/cpu/choose.h"

#include <string.h>

#include "backend/cpu/attn_isa.h"
#include "tensor/hadamard.h"

static void scoring_scalar(const struct lm_scoring *s, void *scratch)
{
    const size_t pad = lm_attn_pad(s->d);
    float *key = scratch, *q = key + pad;
    for (size_t h = 0; h < s->n_head; h++) {
        memcpy(q + h * pad, s->q + h * s->q_head, s->d * sizeof *q);
        lm_hadamard(q + h * pad, s->d, s->k_block);
    }
    for (size_t p = s->first; p < s->end; p++) {
        const uint8_t *page = s->pages[p / LM_ATTN_PAGE];
        lm_attn_load(key, page + s->k_off + p % LM_ATTN_PAGE * s->k_row, s->k_type, s->k_decode,
                     s->d);
        float all = 0;
        for (size_t h = 0; h < s->n_head; h++) {
            float sum = 0;
            for (size_t i = 0; i < s->d; i++)
                sum += q[h * pad + i] * key[i];
            all += s->shares[h] * (sum > 0 ? sum : 0);
        }
        s->out[p] = all;
    }
}

size_t lm_scoring_scratch(size_t n_head, size_t d)
{
    return sizeof(float) * (LM_ATTN_TILE + n_head) * lm_attn_pad(d);
}

lm_scoring_fn *lm_scoring_find(enum lm_isa isa)
{
#if defined(__x86_64__)
    static lm_scoring_fn *const fn[LM_N_ISA] = {
        [LM_ISA_SCALAR] = scoring_scalar,
        [LM_ISA_AVX2] = lm_scoring_avx2,
        [LM_ISA_AVX512] = lm_scoring_avx512,
    };
    return fn[isa];
#else
    (void)isa;
    return scoring_scalar;
#endif
}

/* A number with the order of x; 0 and -0 are the same. */
static uint32_t rank(float x)
{
    uint32_t u;
    x += 0.0f;
    memcpy(&u, &x, sizeof u);
    return u >> 31 ? ~u : u | UINT32_C(1) << 31;
}

/* Of the scores whose ranks begin with the bits of `high` above `shift` + `bits`: the next `bits`
 * of the k-th highest, and in *k how high it is among those that have these too. */
static uint32_t next_bits(const float *scores, size_t n, uint32_t high, int shift, int bits,
                          size_t *k)
{
    size_t count[1 << 11] = { 0 };
    const uint32_t mask = (UINT32_C(1) << bits) - 1;
    const int above = shift + bits;
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = rank(scores[i]);
        if (above == 32 || r >> above == high >> above)
            count[r >> shift & mask]++;
    }
    uint32_t b = mask;
    for (; b > 0 && *k > count[b]; b--)
        *k -= count[b];
    return b << shift;
}

void lm_choose_best(const float *scores, size_t n, size_t k, int32_t *out)
{
    size_t left = k;
    if (k == 0)
        return;
    uint32_t limit = next_bits(scores, n, 0, 21, 11, &left);
    limit |= next_bits(scores, n, limit, 10, 11, &left);
    limit |= next_bits(scores, n, limit, 0, 10, &left);
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = rank(scores[i]);
        if (r > limit || (r == limit && left)) {
            left -= r == limit;
            *out++ = (int32_t)i;
        }
    }
}
