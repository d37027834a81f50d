/* SPDX-License-Identifier: MIT */
/*
 * q3_K: 256 weights in 16 sub-blocks of 16, each with a 6-bit scale in units of an f16
 * number:  x = (d * (scale - 32)) * n,  n in -4..3.
 *
 * The two low bits of n + 4 lie as in q2_K; its third bit for weight e is bit e / 32 of
 * hm[e % 32].  Scales: the low four bits of sub-block s are a half of sb[s % 8] (low half
 * for s < 8), the upper two are bits 2 * (s / 4) of sb[8 + s % 4].
 */
#include "quant/block.h"

#define QK_K 256

struct q3_k {
    uint8_t hm[QK_K / 8];
    uint8_t q[QK_K / 4];
    uint8_t sb[12];
    uint8_t d[2];
};
_Static_assert(sizeof(struct q3_k) == 110, "q3_K is 110 bytes on disk");

static int get_scale(const uint8_t *sb, int s)
{
    int low = sb[s % 8] >> s / 8 * 4 & 15, high = sb[8 + s % 4] >> 2 * (s / 4) & 3;
    return low + 16 * high;
}

static void decode(const void *src, float *dst, size_t n)
{
    const struct q3_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d);
        for (int s = 0; s < 16; s++) {
            float scale = d * (float)(get_scale(b[i].sb, s) - 32);
            const uint8_t *q = b[i].q + 32 * (s / 8) + 16 * (s % 2);
            const uint8_t *hm = b[i].hm + 16 * (s % 2);
            int shift = 2 * (s % 8 / 2);
            for (int j = 0; j < 16; j++) {
                int code = (q[j] >> shift & 3) + 4 * (hm[j] >> s / 2 & 1) - 4;
                dst[16 * s + j] = scale * (float)code;
            }
        }
    }
}

static int64_t invalid(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct q3_k), offsetof(struct q3_k, d));
}

const struct lm_type lm_type_q3_k = {
    .name = "q3_K", .id = LM_Q3_K, .block = QK_K, .bytes = sizeof(struct q3_k),
    .in_files = true, .source = "GGUF tensor type 11",
    .decode = decode, .invalid = invalid,
};
