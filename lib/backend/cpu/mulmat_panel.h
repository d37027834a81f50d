/* SPDX-License-Identifier: MIT */
/*
 * Panels of quantized weights: W rows interleaved, a lane a row.  Included by
 * mulmat_simd.h for each instruction set.
 *
 * A panel is the scales of all blocks, then (from a multiple of 64 bytes) the integers of
 * all groups of 32 columns.  Scales are arrays of W items, a row each.  Integers are
 * vectors whose 32-bit lane r has 4 bytes of row r, in up to three parts:
 *
 *   nibbles  4 vectors: byte j of vector k holds columns 4k+j (low) and 16+4k+j (high)
 *   pairs    2 vectors: byte j of vector k/4, bits 2(k%4): column 4k+j, k < 8
 *   bits     1 vector: byte j, bit k: column 4k+j, k < 8
 *   bytes    8 vectors: byte j of vector k: column 4k+j
 *
 * `load` unpacks a group of 32 to bytes u[k] (column 4k+j in byte j) and the factors of
 *
 *   weight = d * u + m
 *
 * for each half of the group, or for all of it in d[0], m[0].
 */

#include "backend/cpu/simd.h"

#include "base/f16.h"

/* Values with a sign stay signed for AVX2, whose product of bytes adds in 16 bits and
 * takes magnitudes; VNNI wants them without one. */
#if W == 16
#define BIAS 128
#else
#define BIAS 0
#endif

/*
 * name, type, kind of product (below), weights and bytes of a block, bytes of scales a row
 * and block, bytes of integers a row and group
 */
#define PANEL_TYPES(X) \
    X(q4_0,   LM_Q4_0,   whole4,  32,  18,  2, 16) \
    X(q4_1,   LM_Q4_1,   whole4,  32,  20,  4, 16) \
    X(q5_0,   LM_Q5_0,   whole5,  32,  22,  2, 20) \
    X(q5_1,   LM_Q5_1,   whole5,  32,  24,  4, 20) \
    X(q8_0,   LM_Q8_0,   whole8,  32,  34,  2, 32) \
    X(q2_K,   LM_Q2_K,   half4,  256,  84, 20,  8) \
    X(q3_K,   LM_Q3_K,   half4,  256, 110, 18, 12) \
    X(q4_K,   LM_Q4_K,   whole4, 256, 144, 20, 16) \
    X(q5_K,   LM_Q5_K,   whole5, 256, 176, 20, 20) \
    X(q6_K,   LM_Q6_K,   half6,  256, 210, 18, 24) \
    X(iq4_nl, LM_IQ4_NL, whole8,  32,  18,  2, 16) \
    X(iq4_xs, LM_IQ4_XS, whole8, 256, 136, 10, 16) \
    X(nvfp4,  LM_NVFP4,  half8,   64,  36,  8, 16)

/* Kinds of product: name, factors a group (1, or 2: one a half), most bits of u (8:
 * biased by BIAS), whether there is an m. */
#define PANEL_KINDS(X) \
    X(whole4, 1, 4, 1) \
    X(whole5, 1, 5, 1) \
    X(whole8, 1, 8, BIAS) \
    X(half4,  2, 4, 1) \
    X(half6,  2, 6, 1) \
    X(half8,  2, 8, BIAS)

struct group {
    vi u[8];
    vf d[2], m[2];
};

/* ---- packing: one block of row r; s and q are the block's scales and integers ---- */

INLINE void put8(uint8_t *s, size_t item, size_t r, uint8_t x) { s[item * W + r] = x; }

INLINE void put16(uint8_t *s, size_t item, size_t r, const void *half)
{
    memcpy(s + (item * W + r) * 2, half, 2);
}

INLINE void put32(uint8_t *q, size_t vector, size_t r, uint32_t x)
{
    memcpy(q + (vector * W + r) * 4, &x, 4);
}

INLINE uint32_t word(const uint8_t *p, size_t i) { return (uint32_t)load32(p + 4 * i); }

/* u: eight words of four unpacked bytes, in column order. */
INLINE void put_nibbles(uint8_t *q, size_t r, const uint32_t *u)
{
    UNROLL for (size_t k = 0; k < 4; k++)
        put32(q, k, r, u[k] | u[k + 4] << 4);
}

INLINE void put_pairs(uint8_t *q, size_t r, const uint32_t *u)
{
    put32(q, 0, r, u[0] | u[1] << 2 | u[2] << 4 | u[3] << 6);
    put32(q, 1, r, u[4] | u[5] << 2 | u[6] << 4 | u[7] << 6);
}

INLINE void put_bits(uint8_t *q, size_t r, const uint32_t *u)
{
    uint32_t x = 0;
    UNROLL for (size_t k = 0; k < 8; k++)
        x |= u[k] << k;
    put32(q, 0, r, x);
}

/* Nibbles as most files have them: already in panel order. */
INLINE void copy_nibbles(uint8_t *q, size_t r, const uint8_t *in)
{
    UNROLL for (size_t k = 0; k < 4; k++)
        put32(q, k, r, word(in, k));
}

/* Fifth bits as Q5_0 and Q5_1 have them: bit e of a word is column e's. */
INLINE void copy_bits(uint8_t *q, size_t r, const uint8_t *in)
{
    uint32_t h = word(in, 0), x = 0;
    UNROLL for (size_t j = 0; j < 4; j++) {           /* bits j, 4+j, ... to byte j */
        uint32_t b = h >> j & 0x11111111;
        b = (b | b >> 3) & 0x03030303;
        b = (b | b >> 6) & 0x000f000f;
        x |= ((b | b >> 12) & 0xff) << 8 * j;
    }
    put32(q, 0, r, x);
}

INLINE void pack_q4_0(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    copy_nibbles(q, r, in + 2);
}

#define pack_iq4_nl pack_q4_0

INLINE void pack_q4_1(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    put16(s, 1, r, in + 2);
    copy_nibbles(q, r, in + 4);
}

INLINE void pack_q5_0(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    copy_nibbles(q, r, in + 6);
    copy_bits(q + 16 * W, r, in + 2);
}

INLINE void pack_q5_1(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    put16(s, 1, r, in + 2);
    copy_nibbles(q, r, in + 8);
    copy_bits(q + 16 * W, r, in + 4);
}

INLINE void pack_q8_0(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    UNROLL for (size_t k = 0; k < 8; k++)
        put32(q, k, r, word(in + 2, k) ^ BIAS * 0x01010101u);
}

/* E8M0 scale as the upper half of a float, 2^(e-128); 0 and 1 are subnormal. */
INLINE void pack_mxfp4(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    uint16_t d = in[0] < 2 ? (uint16_t)(0x20 << in[0]) : (uint16_t)((in[0] - 1) << 7);
    put16(s, 0, r, &d);
    copy_nibbles(q, r, in + 1);
}

/* Unsigned E4M3 scales, halved, as half floats, which hold them exactly. */
INLINE void pack_nvfp4(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    for (size_t i = 0; i < 4; i++) {
        unsigned e = in[i] >> 3 & 15, m = in[i] & 7;
        uint16_t d = (uint16_t)((e + 7) << 10 | m << 7);
        if (e == 0)
            d = lm_f16_store((float)m * 0x1p-10f);
        if (in[i] == 0x7f)
            d = 0;
        put16(s, i, r, &d);
    }
    for (size_t g = 0; g < 2; g++) {
        uint32_t u[8];
        for (size_t k = 0; k < 8; k++)
            u[k] = word(in + 4 + 16 * g, k / 4 * 2 + k % 2) >> (k & 2) * 2 & 0x0f0f0f0f;
        put_nibbles(q + g * 16 * W, r, u);
    }
}

/* Six-bit scales and minima of Q4_K and Q5_K to bytes: items 4 .. 11 and 12 .. 19, after
 * the two halves. */
INLINE void put_scales_k(uint8_t *s, size_t r, const uint8_t *b)
{
    for (size_t j = 0; j < 8; j++) {
        uint8_t sc, mn;
        if (j < 4) {
            sc = b[j] & 63;
            mn = b[j + 4] & 63;
        } else {
            sc = (uint8_t)((b[j + 4] & 15) | (b[j - 4] >> 6) << 4);
            mn = (uint8_t)((b[j + 4] >> 4) | (b[j] >> 6) << 4);
        }
        put8(s, 4 + j, r, sc);
        put8(s, 12 + j, r, mn);
    }
}

INLINE void pack_q4_K(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    put16(s, 1, r, in + 2);
    put_scales_k(s, r, in + 4);
    for (size_t g = 0; g < 8; g++) {
        uint32_t u[8];
        for (size_t k = 0; k < 8; k++)
            u[k] = word(in + 16 + 32 * (g / 2), k) >> 4 * (g % 2) & 0x0f0f0f0f;
        put_nibbles(q + g * 16 * W, r, u);
    }
}

INLINE void pack_q5_K(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in);
    put16(s, 1, r, in + 2);
    put_scales_k(s, r, in + 4);
    for (size_t g = 0; g < 8; g++) {
        uint32_t u[8], h[8];
        for (size_t k = 0; k < 8; k++) {
            u[k] = word(in + 48 + 32 * (g / 2), k) >> 4 * (g % 2) & 0x0f0f0f0f;
            h[k] = word(in + 16, k) >> g & 0x01010101;
        }
        put_nibbles(q + g * 20 * W, r, u);
        put_bits(q + g * 20 * W + 16 * W, r, h);
    }
}

INLINE void pack_q6_K(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in + 208);
    for (size_t i = 0; i < 16; i++)
        put8(s, 2 + i, r, in[192 + i]);
    for (size_t g = 0; g < 8; g++) {
        const uint8_t *lo = in + 64 * (g / 4) + 32 * (g % 2), *hi = in + 128 + 32 * (g / 4);
        uint32_t u[8], h[8];
        for (size_t k = 0; k < 8; k++) {
            u[k] = word(lo, k) >> (g & 2) * 2 & 0x0f0f0f0f;
            h[k] = word(hi, k) >> 2 * (g % 4) & 0x03030303;
        }
        put_nibbles(q + g * 24 * W, r, u);
        put_pairs(q + g * 24 * W + 16 * W, r, h);
    }
}

INLINE void pack_q2_K(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in + 80);
    put16(s, 1, r, in + 82);
    for (size_t i = 0; i < 16; i++)
        put8(s, 4 + i, r, in[i]);
    for (size_t g = 0; g < 8; g++) {
        uint32_t u[8];
        for (size_t k = 0; k < 8; k++)
            u[k] = word(in + 16 + 32 * (g / 4), k) >> 2 * (g % 4) & 0x03030303;
        put_pairs(q + g * 8 * W, r, u);
    }
}

INLINE void pack_q3_K(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    put16(s, 0, r, in + 108);
    for (size_t i = 0; i < 16; i++) {
        unsigned lo = in[96 + i % 8] >> (i / 8 * 4) & 15, hi = in[104 + i % 4] >> (i / 4 * 2) & 3;
        put8(s, 2 + i, r, (uint8_t)((lo | hi << 4) - 32));
    }
    for (size_t g = 0; g < 8; g++) {
        uint32_t u[8], h[8];
        for (size_t k = 0; k < 8; k++) {
            u[k] = word(in + 32 + 32 * (g / 4), k) >> 2 * (g % 4) & 0x03030303;
            h[k] = word(in, k) >> g & 0x01010101;
        }
        put_pairs(q + g * 12 * W, r, u);
        put_bits(q + g * 12 * W + 8 * W, r, h);
    }
}

INLINE void pack_iq4_xs(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r)
{
    uint16_t high;
    memcpy(&high, in + 2, 2);
    put16(s, 0, r, in);
    for (size_t g = 0; g < 8; g++) {
        unsigned lo = in[4 + g / 2] >> g % 2 * 4 & 15, hi = high >> 2 * g & 3;
        put8(s, 2 + g, r, (uint8_t)((lo | hi << 4) - 32));
        copy_nibbles(q + g * 16 * W, r, in + 8 + 16 * g);
    }
}

/* ---- unpacking: group b of the panel's scales s; q are the group's integers ---- */

INLINE void get_nibbles(const uint8_t *q, vi *u)
{
    UNROLL for (size_t k = 0; k < 4; k++) {
        vi a = vi_load(q + k * 4 * W);
        u[k] = vi_and(a, vi_set8(15));
        u[k + 4] = vi_and(vi_srl(a, 4), vi_set8(15));
    }
}

/* Or in bits shifted to 4 .. 5: of vector h at bit `from` of `mask` wide. */
INLINE vi bits_at(vi h, int from, int to, int mask)
{
    return vi_and(from < to ? vi_sll(h, to - from) : vi_srl(h, from - to), vi_set8(mask << to));
}

INLINE void add_bits(const uint8_t *q, int to, vi *u)
{
    vi h = vi_load(q);
    UNROLL for (int k = 0; k < 8; k++)
        u[k] = vi_or(u[k], bits_at(h, k, to, 1));
}

INLINE void get_pairs(const uint8_t *q, int to, vi *u)
{
    UNROLL for (int k = 0; k < 8; k++)
        u[k] = bits_at(vi_load(q + k / 4 * 4 * W), k % 4 * 2, to, 3);
}

INLINE void look_up(const uint8_t *q, const int8_t *table, vi *u)
{
    uint8_t biased[16];
    for (size_t i = 0; i < 16; i++)
        biased[i] = (uint8_t)(table[i] + BIAS);
    get_nibbles(q, u);
    UNROLL for (size_t k = 0; k < 8; k++)
        u[k] = vi_lookup(biased, u[k]);
}

/* m for u with an offset: weight = d * (u - offset). */
INLINE vf offset(vf d, int by) { return vf_mul(d, vf_set1((float)-by)); }

INLINE void load_q4_0(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    get_nibbles(q, g->u);
    g->d[0] = vf_f16(s + b * 2 * W);
    g->m[0] = offset(g->d[0], 8);
}

INLINE void load_q4_1(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    get_nibbles(q, g->u);
    g->d[0] = vf_f16(s + b * 4 * W);
    g->m[0] = vf_f16(s + b * 4 * W + 2 * W);
}

INLINE void load_q5_0(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    get_nibbles(q, g->u);
    add_bits(q + 16 * W, 4, g->u);
    g->d[0] = vf_f16(s + b * 2 * W);
    g->m[0] = offset(g->d[0], 16);
}

INLINE void load_q5_1(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    load_q4_1(s, q, b, g);
    add_bits(q + 16 * W, 4, g->u);
}

INLINE void load_q8_0(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    UNROLL for (size_t k = 0; k < 8; k++)
        g->u[k] = vi_load(q + k * 4 * W);
    g->d[0] = vf_f16(s + b * 2 * W);
    g->m[0] = offset(g->d[0], BIAS);
}

static const int8_t values_iq4[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* Twice the values of E2M1. */
static const int8_t values_fp4[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

INLINE void load_iq4_nl(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    look_up(q, values_iq4, g->u);
    g->d[0] = vf_f16(s + b * 2 * W);
    g->m[0] = offset(g->d[0], BIAS);
}

INLINE void load_nvfp4(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    look_up(q, values_fp4, g->u);
    UNROLL for (size_t i = 0; i < 2; i++) {
        g->d[i] = vf_f16(s + (2 * b + i) * 2 * W);
        g->m[i] = offset(g->d[i], BIAS);
    }
}

INLINE void load_iq4_xs(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    s += b / 8 * 10 * W;
    look_up(q, values_iq4, g->u);
    g->d[0] = vf_mul(vf_f16(s), vf_i8(s + (2 + b % 8) * W));
    g->m[0] = offset(g->d[0], BIAS);
}

INLINE void load_q4_K(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    s += b / 8 * 20 * W;
    get_nibbles(q, g->u);
    g->d[0] = vf_mul(vf_f16(s), vf_u8(s + (4 + b % 8) * W));
    g->m[0] = vf_mul(offset(vf_f16(s + 2 * W), 1), vf_u8(s + (12 + b % 8) * W));
}

INLINE void load_q5_K(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    load_q4_K(s, q, b, g);
    add_bits(q + 16 * W, 4, g->u);
}

INLINE void load_q6_K(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    vi high[8];
    s += b / 8 * 18 * W;
    get_nibbles(q, g->u);
    get_pairs(q + 16 * W, 4, high);
    UNROLL for (size_t k = 0; k < 8; k++)
        g->u[k] = vi_or(g->u[k], high[k]);
    UNROLL for (size_t i = 0; i < 2; i++) {
        g->d[i] = vf_mul(vf_f16(s), vf_i8(s + (2 + b % 8 * 2 + i) * W));
        g->m[i] = offset(g->d[i], 32);
    }
}

INLINE void load_q3_K(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    s += b / 8 * 18 * W;
    get_pairs(q, 0, g->u);
    add_bits(q + 8 * W, 2, g->u);
    UNROLL for (size_t i = 0; i < 2; i++) {
        g->d[i] = vf_mul(vf_f16(s), vf_i8(s + (2 + b % 8 * 2 + i) * W));
        g->m[i] = offset(g->d[i], 4);
    }
}

INLINE void load_q2_K(const uint8_t *s, const uint8_t *q, size_t b, struct group *g)
{
    s += b / 8 * 20 * W;
    get_pairs(q, 0, g->u);
    UNROLL for (size_t i = 0; i < 2; i++) {
        vi both = vi_u8(s + (4 + b % 8 * 2 + i) * W);
        g->d[i] = vf_mul(vf_f16(s), vf_cvt(vi_and(both, vi_set1(15))));
        g->m[i] = vf_mul(offset(vf_f16(s + 2 * W), 1), vf_cvt(vi_srl(both, 4)));
    }
}
