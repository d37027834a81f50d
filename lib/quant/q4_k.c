/* SPDX-License-Identifier: MIT */
/*
 * q4_K, q5_K: 256 weights in 8 sub-blocks of 32.  A sub-block has a 6-bit scale and a
 * 6-bit minimum, in units of two f16 numbers:
 *
 *   x = (d * scale) * n - (dmin * min)      n in 0..15 or 0..31
 *
 * The low four bits of weight e are a half of q[32 * (e / 64) + e % 32], the low half
 * for e % 64 < 32; the fifth bit is bit e / 32 of h[e % 32].
 *
 * Packing of (scale, min) pair j in 12 bytes p:
 *   j < 4   scale = low six bits of p[j], min = low six bits of p[j + 4]
 *   j >= 4  scale = low half of p[j + 4], above it the top two bits of p[j - 4];
 *           min = high half of p[j + 4], above it the top two bits of p[j]
 */
#include "quant/block.h"

#define QK_K 256

struct q4_k {
    uint8_t d[2], dmin[2];
    uint8_t sm[12];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct q4_k) == 144, "q4_K is 144 bytes on disk");

struct q5_k {
    uint8_t d[2], dmin[2];
    uint8_t sm[12];
    uint8_t h[QK_K / 8];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct q5_k) == 176, "q5_K is 176 bytes on disk");

static void get_pair(const uint8_t *p, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = p[j] & 63;
        *min = p[j + 4] & 63;
    } else {
        *scale = (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        *min = p[j + 4] >> 4 | p[j] >> 6 << 4;
    }
}

static void decode_q4_k(const void *src, float *dst, size_t n)
{
    const struct q4_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 8; s++) {
            int sc, mn;
            get_pair(b[i].sm, s, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b[i].q + 32 * (s / 2);
            for (int j = 0; j < 32; j++)
                dst[32 * s + j] = scale * (float)(q[j] >> s % 2 * 4 & 15) - min;
        }
    }
}

static void decode_q5_k(const void *src, float *dst, size_t n)
{
    const struct q5_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 8; s++) {
            int sc, mn;
            get_pair(b[i].sm, s, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b[i].q + 32 * (s / 2);
            for (int j = 0; j < 32; j++) {
                int code = (q[j] >> s % 2 * 4 & 15) | (b[i].h[j] >> s & 1) << 4;
                dst[32 * s + j] = scale * (float)code - min;
            }
        }
    }
}

static int64_t invalid_q4_k(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q4_k), 0);
}

static int64_t invalid_q5_k(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q5_k), 0);
}

const struct lm_type lm_type_q4_k = {
    .name = "q4_K", .id = LM_Q4_K, .block = QK_K, .bytes = sizeof(struct q4_k),
    .in_files = true, .source = "GGUF tensor type 12",
    .decode = decode_q4_k, .invalid = invalid_q4_k,
};

const struct lm_type lm_type_q5_k = {
    .name = "q5_K", .id = LM_Q5_K, .block = QK_K, .bytes = sizeof(struct q5_k),
    .in_files = true, .source = "GGUF tensor type 13",
    .decode = decode_q5_k, .invalid = invalid_q5_k,
};
