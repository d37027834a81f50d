/* SPDX-License-Identifier: MIT */
/*
 * iq3_xxs, iq3_s: 256 weights in vectors of 4; a vector is a codeword of magnitudes
 * (iq_grids.h) with signs, times a 4-bit scale s in units of an f16 number.
 *
 * iq3_xxs  x = (d * (0.5 + s) * 0.5) * G * sign; codeword numbers are bytes; for each 32
 *          weights a 32-bit word has four 7-bit sign indices, one for 8 weights, and the
 *          scale in its top four bits
 * iq3_s    x = (d * (1 + 2 * s)) * G * sign; codeword numbers of nine bits, the ninth in
 *          h; all signs stored in z; a scale for each 32 weights
 */
#include "quant/block.h"
#include "quant/iq_grids.h"

#define QK_K 256

struct iq3_xxs {
    uint8_t d[2];
    uint8_t q[QK_K / 4];
    uint8_t w[QK_K / 32][4];
};
_Static_assert(sizeof(struct iq3_xxs) == 98, "iq3_xxs is 98 bytes on disk");

struct iq3_s {
    uint8_t d[2];
    uint8_t q[QK_K / 4];
    uint8_t h[QK_K / 32];
    uint8_t z[QK_K / 8];
    uint8_t sc[QK_K / 64];
};
_Static_assert(sizeof(struct iq3_s) == 110, "iq3_s is 110 bytes on disk");

/* Four weights: a codeword's magnitudes times scale, negative where signs has a bit. */
static void vector(unsigned word, const float magnitude[8], unsigned signs, float scale,
                   float *dst)
{
    for (int j = 0; j < 4; j++) {
        float x = scale * magnitude[word >> 3 * j & 7];
        dst[j] = signs >> j & 1 ? -x : x;
    }
}

static void decode_iq3_xxs(const void *src, float *dst, size_t n)
{
    static const float magnitude[8] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    const struct iq3_xxs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int u = 0; u < QK_K / 4; u++, dst += 4) {
            uint32_t w = lm_q_u32(b[i].w[u / 8]);
            unsigned signs = lm_iq_signs(w >> 7 * (u % 8 / 2) & 127);
            float scale = d * (0.5f + (float)(w >> 28)) * 0.5f;
            vector(lm_grid_iq3xxs[b[i].q[u]], magnitude, signs >> 4 * (u % 2), scale, dst);
        }
    }
}

static void decode_iq3_s(const void *src, float *dst, size_t n)
{
    static const float magnitude[8] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    const struct iq3_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int u = 0; u < QK_K / 4; u++, dst += 4) {
            unsigned c = b[i].q[u] | (unsigned)(b[i].h[u / 8] >> u % 8 & 1) << 8;
            float scale = d * (float)(1 + 2 * lm_q_nibble(b[i].sc, u / 8));
            vector(lm_grid_iq3s[c], magnitude, b[i].z[u / 2] >> 4 * (u % 2), scale, dst);
        }
    }
}

static int64_t invalid_iq3_xxs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq3_xxs), 0);
}

static int64_t invalid_iq3_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq3_s), 0);
}

const struct lm_type lm_type_iq3_xxs = {
    .name = "iq3_xxs", .id = LM_IQ3_XXS, .block = QK_K, .bytes = sizeof(struct iq3_xxs),
    .in_files = true, .source = "GGUF tensor type 18",
    .decode = decode_iq3_xxs, .invalid = invalid_iq3_xxs,
};

const struct lm_type lm_type_iq3_s = {
    .name = "iq3_s", .id = LM_IQ3_S, .block = QK_K, .bytes = sizeof(struct iq3_s),
    .in_files = true, .source = "GGUF tensor type 21",
    .decode = decode_iq3_s, .invalid = invalid_iq3_s,
};
