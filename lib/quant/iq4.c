/* SPDX-License-Identifier: MIT */
/*
 * iq4_nl, iq4_xs: four bits a weight index a table K of 16 values that lie closer
 * around 0.
 *
 * iq4_nl  32 weights, f16 scale:  x = d * K[n], nibbles ordered as in q4_0
 * iq4_xs  256 weights in groups of 32 with 6-bit scales:  x = (d * (L - 32)) * K[n]; the
 *         low four bits of L for group g are a half of sl[g / 2], the upper two are
 *         bits 2 * g of sh
 */
#include "quant/block.h"

#define QK 32
#define QK_K 256

struct iq4_nl {
    uint8_t d[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct iq4_nl) == 18, "iq4_nl is 18 bytes on disk");

struct iq4_xs {
    uint8_t d[2];
    uint8_t sh[2];
    uint8_t sl[QK_K / 64];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct iq4_xs) == 136, "iq4_xs is 136 bytes on disk");

static const float values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

static void group(const uint8_t *q, float scale, float *dst)
{
    for (int j = 0; j < QK / 2; j++) {
        dst[j] = scale * values[q[j] & 15];
        dst[j + QK / 2] = scale * values[q[j] >> 4];
    }
}

static void decode_iq4_nl(const void *src, float *dst, size_t n)
{
    const struct iq4_nl *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK)
        group(b[i].q, lm_q_half(b[i].d), dst);
}

static void decode_iq4_xs(const void *src, float *dst, size_t n)
{
    const struct iq4_xs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int g = 0; g < QK_K / QK; g++, dst += QK) {
            int scale = lm_q_nibble(b[i].sl, g) | (lm_q_u16(b[i].sh) >> 2 * g & 3) << 4;
            group(b[i].q + 16 * g, d * (float)(scale - 32), dst);
        }
    }
}

static int64_t invalid_iq4_nl(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct iq4_nl), 0);
}

static int64_t invalid_iq4_xs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq4_xs), 0);
}

const struct lm_type lm_type_iq4_nl = {
    .name = "iq4_nl", .id = LM_IQ4_NL, .block = QK, .bytes = sizeof(struct iq4_nl),
    .in_files = true, .source = "GGUF tensor type 20",
    .decode = decode_iq4_nl, .invalid = invalid_iq4_nl,
};

const struct lm_type lm_type_iq4_xs = {
    .name = "iq4_xs", .id = LM_IQ4_XS, .block = QK_K, .bytes = sizeof(struct iq4_xs),
    .in_files = true, .source = "GGUF tensor type 23",
    .decode = decode_iq4_xs, .invalid = invalid_iq4_xs,
};
