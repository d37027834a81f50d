/* SPDX-License-Identifier: MIT */
/*
 * iq2_xxs, iq2_xs, iq2_s: 256 weights in vectors of 8; a vector is a codeword of
 * magnitudes (iq_grids.h) with signs, times a 4-bit scale s in units of an f16 number:
 *
 *   x = (d * (0.5 + s) * 0.25) * G * sign
 *
 * iq2_xxs  for each 32 weights four codeword bytes and a 32-bit word: 7-bit sign indices
 *          of the four vectors, the scale in the top four bits
 * iq2_xs   a vector is 16 bits: codeword number in the low nine, sign index in the rest;
 *          a scale for each 16 weights
 * iq2_s    codeword numbers of ten bits, the upper two in h; all eight signs stored in z;
 *          a scale for each 16 weights
 */
#include "quant/block.h"
#include "quant/iq_grids.h"

#define QK_K 256

struct iq2_xxs {
    uint8_t d[2];
    struct {
        uint8_t q[4];
        uint8_t w[4];
    } g[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_xxs) == 66, "iq2_xxs is 66 bytes on disk");

struct iq2_xs {
    uint8_t d[2];
    uint8_t c[QK_K / 8][2];
    uint8_t sc[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_xs) == 74, "iq2_xs is 74 bytes on disk");

struct iq2_s {
    uint8_t d[2];
    uint8_t q[QK_K / 8];
    uint8_t z[QK_K / 8];
    uint8_t h[QK_K / 32];
    uint8_t sc[QK_K / 32];
};
_Static_assert(sizeof(struct iq2_s) == 82, "iq2_s is 82 bytes on disk");

/* Eight weights: a codeword's magnitudes times scale, negative where signs has a bit. */
static void vector(unsigned word, unsigned signs, float scale, float *dst)
{
    static const float magnitude[4] = { 8, 25, 43, 0 };
    for (int j = 0; j < 8; j++) {
        float x = scale * magnitude[word >> 2 * j & 3];
        dst[j] = signs >> j & 1 ? -x : x;
    }
}

static void decode_iq2_xxs(const void *src, float *dst, size_t n)
{
    const struct iq2_xxs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int g = 0; g < QK_K / 32; g++) {
            uint32_t w = lm_q_u32(b[i].g[g].w);
            float scale = d * (0.5f + (float)(w >> 28)) * 0.25f;
            for (int v = 0; v < 4; v++, dst += 8)
                vector(lm_grid_iq2xxs[b[i].g[g].q[v]], lm_iq_signs(w >> 7 * v & 127), scale,
                       dst);
        }
    }
}

static void decode_iq2_xs(const void *src, float *dst, size_t n)
{
    const struct iq2_xs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned c = lm_q_u16(b[i].c[v]);
            float scale = d * (0.5f + (float)lm_q_nibble(b[i].sc, v / 2)) * 0.25f;
            vector(lm_grid_iq2xs[c & 511], lm_iq_signs(c >> 9), scale, dst);
        }
    }
}

static void decode_iq2_s(const void *src, float *dst, size_t n)
{
    const struct iq2_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned c = b[i].q[v] | (unsigned)(b[i].h[v / 4] >> 2 * (v % 4) & 3) << 8;
            float scale = d * (0.5f + (float)lm_q_nibble(b[i].sc, v / 2)) * 0.25f;
            vector(lm_grid_iq2s[c], b[i].z[v], scale, dst);
        }
    }
}

static int64_t invalid_iq2_xxs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_xxs), 0);
}

static int64_t invalid_iq2_xs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_xs), 0);
}

static int64_t invalid_iq2_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq2_s), 0);
}

const struct lm_type lm_type_iq2_xxs = {
    .name = "iq2_xxs", .id = LM_IQ2_XXS, .block = QK_K, .bytes = sizeof(struct iq2_xxs),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 16",
    .decode = decode_iq2_xxs, .invalid = invalid_iq2_xxs,
};

const struct lm_type lm_type_iq2_xs = {
    .name = "iq2_xs", .id = LM_IQ2_XS, .block = QK_K, .bytes = sizeof(struct iq2_xs),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 17",
    .decode = decode_iq2_xs, .invalid = invalid_iq2_xs,
};

const struct lm_type lm_type_iq2_s = {
    .name = "iq2_s", .id = LM_IQ2_S, .block = QK_K, .bytes = sizeof(struct iq2_s),
    .in_files = true, .source = "GGUF tensor type 22",
    .decode = decode_iq2_s, .invalid = invalid_iq2_s,
};
