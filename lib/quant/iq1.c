/* SPDX-License-Identifier: MIT */
/*
 * iq1_s, iq1_m: 256 weights in vectors of 8; a vector is a codeword G of -1, 0, 1
 * (iq_grids.h) plus a shift t of 1/8 up or down, times a 3-bit scale s in units of an
 * f16 number:  x = (d * (2 * s + 1)) * (G + t).
 *
 * iq1_s  for each 32 weights 16 bits: upper three bits of the four codeword numbers, the
 *        scale in bits 12 to 14, and bit 15 for a shift down
 * iq1_m  for each vector four bits: upper three of the codeword number, and one for a
 *        shift down; scales of 16 weights in 3-bit fields of four 16-bit words, whose
 *        top four bits together are d
 */
#include "quant/block.h"
#include "quant/iq_grids.h"

#define QK_K 256

struct iq1_s {
    uint8_t d[2];
    uint8_t q[QK_K / 8];
    uint8_t h[QK_K / 32][2];
};
_Static_assert(sizeof(struct iq1_s) == 50, "iq1_s is 50 bytes on disk");

struct iq1_m {
    uint8_t q[QK_K / 8];
    uint8_t h[QK_K / 16];
    uint8_t c[4][2];
};
_Static_assert(sizeof(struct iq1_m) == 56, "iq1_m is 56 bytes on disk");

static void vector(unsigned word, bool down, float scale, float *dst)
{
    float shift = down ? -0.125f : 0.125f;
    for (int j = 0; j < 8; j++)
        dst[j] = scale * ((float)((int)(word >> 2 * j & 3) - 1) + shift);
}

static void decode_iq1_s(const void *src, float *dst, size_t n)
{
    const struct iq1_s *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned h = lm_q_u16(b[i].h[v / 4]);
            unsigned c = b[i].q[v] | (h >> 3 * (v % 4) & 7) << 8;
            vector(lm_grid_iq1s[c], h >> 15, d * (float)(2 * (h >> 12 & 7) + 1), dst);
        }
    }
}

/* The f16 whose bits are spread over the top quarters of four words. */
static uint16_t iq1_m_d(const struct iq1_m *b)
{
    unsigned d = 0;
    for (int k = 0; k < 4; k++)
        d |= (unsigned)lm_q_u16(b->c[k]) >> 12 << 4 * k;
    return (uint16_t)d;
}

static void decode_iq1_m(const void *src, float *dst, size_t n)
{
    const struct iq1_m *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_f16_load(iq1_m_d(&b[i]));
        for (int v = 0; v < QK_K / 8; v++, dst += 8) {
            unsigned x = (unsigned)lm_q_nibble(b[i].h, v), p = (unsigned)v / 2;
            unsigned s = lm_q_u16(b[i].c[p / 4]) >> 3 * (p % 4) & 7;
            vector(lm_grid_iq1s[b[i].q[v] | (x & 7) << 8], x & 8, d * (float)(2 * s + 1), dst);
        }
    }
}

static int64_t invalid_iq1_s(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq1_s), 0);
}

static int64_t invalid_iq1_m(const void *src, size_t n)
{
    const struct iq1_m *b = src;
    for (size_t i = 0; i < n / QK_K; i++)
        if ((iq1_m_d(&b[i]) & 0x7c00) == 0x7c00)
            return (int64_t)i;
    return -1;
}

const struct lm_type lm_type_iq1_s = {
    .name = "iq1_s", .id = LM_IQ1_S, .block = QK_K, .bytes = sizeof(struct iq1_s),
    .in_files = true, .needs_weights = true, .source = "GGUF tensor type 19",
    .decode = decode_iq1_s, .invalid = invalid_iq1_s,
};

const struct lm_type lm_type_iq1_m = {
    .name = "iq1_m", .id = LM_IQ1_M, .block = QK_K, .bytes = sizeof(struct iq1_m),
    .in_files = true, .source = "GGUF tensor type 29",
    .decode = decode_iq1_m, .invalid = invalid_iq1_m,
};
