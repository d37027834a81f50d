/* SPDX-License-Identifier: MIT */
/*
 * q2_K: 256 weights in 16 sub-blocks of 16.  A sub-block has a 4-bit scale and a 4-bit
 * minimum, in units of two f16 numbers:  x = (d * scale) * n - (dmin * min),  n in 0..3.
 *
 * Weight e is in bits 2 * (e % 128 / 32) of q[32 * (e / 128) + e % 32]; the byte of its
 * sub-block holds the scale in the low half and the minimum in the high half.
 */
#include "quant/block.h"

#define QK_K 256

struct q2_k {
    uint8_t sm[QK_K / 16];
    uint8_t q[QK_K / 4];
    uint8_t d[2], dmin[2];
};
_Static_assert(sizeof(struct q2_k) == 84, "q2_K is 84 bytes on disk");

static void decode(const void *src, float *dst, size_t n)
{
    const struct q2_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 16; s++) {
            float scale = d * (float)(b[i].sm[s] & 15), min = dmin * (float)(b[i].sm[s] >> 4);
            const uint8_t *q = b[i].q + 32 * (s / 8) + 16 * (s % 2);
            int shift = 2 * (s % 8 / 2);
            for (int j = 0; j < 16; j++)
                dst[16 * s + j] = scale * (float)(q[j] >> shift & 3) - min;
        }
    }
}

static int64_t invalid(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q2_k), offsetof(struct q2_k, d));
}

const struct lm_type lm_type_q2_k = {
    .name = "q2_K", .id = LM_Q2_K, .block = QK_K, .bytes = sizeof(struct q2_k),
    .in_files = true, .source = "GGUF tensor type 10",
    .decode = decode, .invalid = invalid,
};
