/* SPDX-License-Identifier: MIT */
/*
 * Quantized weights as they lie in a file, 32 columns of W rows at a time (layouts: lib/quant).
 * Included by mulmat_simd.h for each instruction set, after mulmat_panel.h.
 *
 * `from_NAME` unpacks group g of a block of one row to 32 bytes in column order and the
 * factors of  weight = d * w + m,  for each half of the group or for all of it in d[0],
 * m[0].  Bytes of the kinds of 8 bits have signs, and no m.
 */

#include "quant/block.h"
#include "quant/iq_grids.h"

/* name, type, kind of product (mulmat_panel.h), weights and bytes of a block */
#define FILE_TYPES(X) \
    X(q4_0,    LM_Q4_0,    whole4,   32,  18) \
    X(q4_1,    LM_Q4_1,    whole4,   32,  20) \
    X(q5_0,    LM_Q5_0,    whole5,   32,  22) \
    X(q5_1,    LM_Q5_1,    whole5,   32,  24) \
    X(q8_0,    LM_Q8_0,    whole8,   32,  34) \
    X(q2_K,    LM_Q2_K,    half4,   256,  84) \
    X(q3_K,    LM_Q3_K,    half4,   256, 110) \
    X(q4_K,    LM_Q4_K,    whole4,  256, 144) \
    X(q5_K,    LM_Q5_K,    whole5,  256, 176) \
    X(q6_K,    LM_Q6_K,    half6,   256, 210) \
    X(iq1_s,   LM_IQ1_S,   whole8,  256,  50) \
    X(iq1_m,   LM_IQ1_M,   half8,   256,  56) \
    X(iq2_xxs, LM_IQ2_XXS, whole8,  256,  66) \
    X(iq2_xs,  LM_IQ2_XS,  half8,   256,  74) \
    X(iq2_s,   LM_IQ2_S,   half8,   256,  82) \
    X(iq3_xxs, LM_IQ3_XXS, whole8,  256,  98) \
    X(iq3_s,   LM_IQ3_S,   whole8,  256, 110) \
    X(iq4_nl,  LM_IQ4_NL,  whole8,   32,  18) \
    X(iq4_xs,  LM_IQ4_XS,  whole8,  256, 136) \
    X(tq1_0,   LM_TQ1_0,   whole4,  256,  54) \
    X(tq2_0,   LM_TQ2_0,   whole4,  256,  66) \
    X(nvfp4,   LM_NVFP4,   half8,    64,  36) \
    X(q1_0,    LM_Q1_0,    whole4,  128,  18) \
    X(q2_0,    LM_Q2_0,    whole4,   64,  18)

struct span {
    __m256i w;
    float   d[2], m[2];
};

INLINE float half(const uint8_t *p)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(lm_q_u16(p))));
}

INLINE __m256i all8(int x) { return _mm256_set1_epi8((char)x); }
INLINE __m256i load256(const uint8_t *p) { return _mm256_loadu_si256((const void *)p); }

/* (a >> n) & mask in each byte; n is not known when this is compiled. */
INLINE __m256i field(__m256i a, unsigned n, int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(a, _mm_cvtsi32_si128((int)n)), all8(mask));
}

/* 16 bytes to 32: their low halves, then their high halves. */
INLINE __m256i halves(const uint8_t *q)
{
    __m128i a = _mm_loadu_si128((const void *)q);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(a, 4), a);
    return _mm256_and_si256(both, all8(15));
}

/* Bit e of x to byte e: all ones or zero. */
INLINE __m256i spread_bits(uint32_t x)
{
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202,
                                             0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201u);
    __m256i a = _mm256_shuffle_epi8(_mm256_set1_epi32((int)x), which);
    return _mm256_cmpeq_epi8(_mm256_and_si256(a, bit), bit);
}

/* Eight fields of two bits to eight bytes. */
INLINE int64_t spread_pairs(unsigned word)
{
    uint64_t x = word;
    x = (x | x << 24) & 0x000000ff000000ff;
    x = (x | x << 12) & 0x000f000f000f000f;
    return (int64_t)((x | x << 6) & 0x0303030303030303);
}

/* Four fields of three bits to four bytes. */
INLINE int32_t spread_threes(unsigned word)
{
    uint32_t x = (word | word << 10) & 0x003f003f;
    return (int32_t)((x | x << 5) & 0x07070707);
}

INLINE __m256i look_up_32(const int8_t *table, __m256i index)
{
    __m128i t = _mm_loadu_si128((const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(t), index);
}

/* Negative where signs has a bit. */
INLINE __m256i with_signs(__m256i a, uint32_t signs)
{
    __m256i mask = spread_bits(signs);
    return _mm256_sub_epi8(_mm256_xor_si256(a, mask), mask);
}

/* Signs of 32 weights from four indices of seven bits. */
INLINE uint32_t four_signs(uint32_t w)
{
    return lm_iq_signs(w & 127) | lm_iq_signs(w >> 7 & 127) << 8 |
           lm_iq_signs(w >> 14 & 127) << 16 | lm_iq_signs(w >> 21 & 127) << 24;
}

INLINE void from_q4_0(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = halves(b + 2);
    s->d[0] = half(b);
    s->m[0] = -8 * s->d[0];
}

INLINE void from_q4_1(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = halves(b + 4);
    s->d[0] = half(b);
    s->m[0] = half(b + 2);
}

INLINE __m256i fives(const uint8_t *q, const uint8_t *h)
{
    return _mm256_or_si256(halves(q), _mm256_and_si256(spread_bits(lm_q_u32(h)), all8(16)));
}

INLINE void from_q5_0(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = fives(b + 6, b + 2);
    s->d[0] = half(b);
    s->m[0] = -16 * s->d[0];
}

INLINE void from_q5_1(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = fives(b + 8, b + 4);
    s->d[0] = half(b);
    s->m[0] = half(b + 2);
}

INLINE void from_q8_0(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = load256(b + 2);
    s->d[0] = half(b);
}

INLINE void from_q2_K(const uint8_t *b, size_t g, struct span *s)
{
    float d = half(b + 80), m = half(b + 82);
    s->w = field(load256(b + 16 + g / 4 * 32), g % 4 * 2, 3);
    for (size_t i = 0; i < 2; i++) {
        s->d[i] = d * (float)(b[2 * g + i] & 15);
        s->m[i] = -m * (float)(b[2 * g + i] >> 4);
    }
}

INLINE void from_q3_K(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *sb = b + 96;
    float d = half(b + 108);
    __m256i third = _mm256_slli_epi16(field(load256(b), (unsigned)g, 1), 2);
    s->w = _mm256_or_si256(field(load256(b + 32 + g / 4 * 32), g % 4 * 2, 3), third);
    for (size_t i = 2 * g; i < 2 * g + 2; i++) {
        int lo = sb[i % 8] >> i / 8 * 4 & 15, hi = sb[8 + i % 4] >> i / 4 * 2 & 3;
        s->d[i % 2] = d * (float)((lo | hi << 4) - 32);
        s->m[i % 2] = -4 * s->d[i % 2];
    }
}

/* Scale and minimum of group g of Q4_K or Q5_K. */
INLINE void six_bits(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *p = b + 4;
    int sc = g < 4 ? p[g] & 63 : (p[g + 4] & 15) | p[g - 4] >> 6 << 4;
    int mn = g < 4 ? p[g + 4] & 63 : p[g + 4] >> 4 | p[g] >> 6 << 4;
    s->d[0] = half(b) * (float)sc;
    s->m[0] = -half(b + 2) * (float)mn;
}

INLINE void from_q4_K(const uint8_t *b, size_t g, struct span *s)
{
    s->w = field(load256(b + 16 + g / 2 * 32), g % 2 * 4, 15);
    six_bits(b, g, s);
}

INLINE void from_q5_K(const uint8_t *b, size_t g, struct span *s)
{
    __m256i fifth = _mm256_slli_epi16(field(load256(b + 16), (unsigned)g, 1), 4);
    s->w = _mm256_or_si256(field(load256(b + 48 + g / 2 * 32), g % 2 * 4, 15), fifth);
    six_bits(b, g, s);
}

INLINE void from_q6_K(const uint8_t *b, size_t g, struct span *s)
{
    float d = half(b + 208);
    __m256i lo = field(load256(b + g / 4 * 64 + g % 2 * 32), (g & 2) * 2, 15);
    __m256i hi = field(load256(b + 128 + g / 4 * 32), g % 4 * 2, 3);
    s->w = _mm256_or_si256(lo, _mm256_slli_epi16(hi, 4));
    for (size_t i = 0; i < 2; i++) {
        s->d[i] = d * (float)(int8_t)b[192 + 2 * g + i];
        s->m[i] = -32 * s->d[i];
    }
}

/* Eight times a vector of iq1: digits are -1, 0, 1, and 1/8 is added or taken away. */
INLINE __m256i ternary(const unsigned *word, const bool *down)
{
    static const int8_t values[16] = { -8, 0, 8 };
    int64_t w[4], shift[4];
    UNROLL for (size_t v = 0; v < 4; v++) {
        w[v] = spread_pairs(lm_grid_iq1s[word[v]]);
        shift[v] = down[v] ? -1 : 0x0101010101010101;
    }
    return _mm256_add_epi8(look_up_32(values, _mm256_setr_epi64x(w[0], w[1], w[2], w[3])),
                           _mm256_setr_epi64x(shift[0], shift[1], shift[2], shift[3]));
}

INLINE void from_iq1_s(const uint8_t *b, size_t g, struct span *s)
{
    unsigned h = lm_q_u16(b + 34 + 2 * g), word[4];
    bool down[4];
    UNROLL for (size_t v = 0; v < 4; v++) {
        word[v] = b[2 + 4 * g + v] | (h >> 3 * v & 7) << 8;
        down[v] = h >> 15;
    }
    s->w = ternary(word, down);
    s->d[0] = half(b) * 0.125f * (float)(2 * (h >> 12 & 7) + 1);
}

INLINE void from_iq1_m(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *c = b + 48;
    unsigned word[4];
    bool down[4];
    UNROLL for (size_t v = 0; v < 4; v++) {
        unsigned x = b[32 + 2 * g + v / 2] >> v % 2 * 4 & 15;
        word[v] = b[4 * g + v] | (x & 7) << 8;
        down[v] = x & 8;
    }
    s->w = ternary(word, down);
    uint16_t bits = (uint16_t)(c[1] >> 4 | (c[3] & 0xf0) | (c[5] & 0xf0) << 4 |
                               (c[7] & 0xf0) << 8);
    float d = half((const uint8_t *)&bits) * 0.125f;
    for (size_t i = 2 * g; i < 2 * g + 2; i++)
        s->d[i % 2] = d * (float)(2 * (lm_q_u16(c + i / 4 * 2) >> i % 4 * 3 & 7) + 1);
}

/* Four vectors of magnitudes of iq2. */
INLINE __m256i twos(unsigned a, unsigned b, unsigned c, unsigned d)
{
    static const int8_t values[16] = { 8, 25, 43 };
    return look_up_32(values, _mm256_setr_epi64x(spread_pairs(a), spread_pairs(b),
                                                 spread_pairs(c), spread_pairs(d)));
}

INLINE void from_iq2_xxs(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *q = b + 2 + 8 * g;
    const uint16_t *grid = lm_grid_iq2xxs;
    uint32_t w = lm_q_u32(q + 4);
    s->w = with_signs(twos(grid[q[0]], grid[q[1]], grid[q[2]], grid[q[3]]), four_signs(w));
    s->d[0] = half(b) * 0.25f * (0.5f + (float)(w >> 28));
}

/* Two 4-bit scales of 16 weights each. */
INLINE void scales_iq2(float d, uint8_t sc, struct span *s)
{
    s->d[0] = d * 0.25f * (0.5f + (float)(sc & 15));
    s->d[1] = d * 0.25f * (0.5f + (float)(sc >> 4));
}

INLINE void from_iq2_xs(const uint8_t *b, size_t g, struct span *s)
{
    const uint16_t *grid = lm_grid_iq2xs;
    unsigned c[4];
    UNROLL for (size_t v = 0; v < 4; v++)
        c[v] = lm_q_u16(b + 2 + 8 * g + 2 * v);
    uint32_t signs = lm_iq_signs(c[0] >> 9) | lm_iq_signs(c[1] >> 9) << 8 |
                     lm_iq_signs(c[2] >> 9) << 16 | lm_iq_signs(c[3] >> 9) << 24;
    s->w = with_signs(twos(grid[c[0] & 511], grid[c[1] & 511], grid[c[2] & 511],
                           grid[c[3] & 511]), signs);
    scales_iq2(half(b), b[66 + g], s);
}

INLINE void from_iq2_s(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *q = b + 2 + 4 * g;
    const uint16_t *grid = lm_grid_iq2s;
    unsigned h = b[66 + g];
    s->w = with_signs(twos(grid[q[0] | (h & 3) << 8], grid[q[1] | (h >> 2 & 3) << 8],
                           grid[q[2] | (h >> 4 & 3) << 8], grid[q[3] | h >> 6 << 8]),
                      lm_q_u32(b + 34 + 4 * g));
    scales_iq2(half(b), b[74 + g], s);
}

INLINE void from_iq3_xxs(const uint8_t *b, size_t g, struct span *s)
{
    static const int8_t values[16] = { 4, 12, 20, 28, 36, 44, 52, 62 };
    uint32_t w = lm_q_u32(b + 66 + 4 * g);
    int32_t x[8];
    UNROLL for (size_t u = 0; u < 8; u++)
        x[u] = spread_threes(lm_grid_iq3xxs[b[2 + 8 * g + u]]);
    s->w = with_signs(look_up_32(values, load256((const uint8_t *)x)), four_signs(w));
    s->d[0] = half(b) * 0.5f * (0.5f + (float)(w >> 28));
}

INLINE void from_iq3_s(const uint8_t *b, size_t g, struct span *s)
{
    static const int8_t values[16] = { 1, 3, 5, 7, 9, 11, 13, 15 };
    unsigned h = b[66 + g];
    int32_t x[8];
    UNROLL for (size_t u = 0; u < 8; u++)
        x[u] = spread_threes(lm_grid_iq3s[b[2 + 8 * g + u] | (h >> u & 1) << 8]);
    s->w = with_signs(look_up_32(values, load256((const uint8_t *)x)), lm_q_u32(b + 74 + 4 * g));
    s->d[0] = half(b) * (float)(1 + 2 * (b[106 + g / 2] >> g % 2 * 4 & 15));
}

INLINE void from_iq4_nl(const uint8_t *b, size_t g, struct span *s)
{
    (void)g;
    s->w = look_up_32(values_iq4, halves(b + 2));
    s->d[0] = half(b);
}

INLINE void from_iq4_xs(const uint8_t *b, size_t g, struct span *s)
{
    int lo = b[4 + g / 2] >> g % 2 * 4 & 15, hi = lm_q_u16(b + 2) >> 2 * g & 3;
    s->w = look_up_32(values_iq4, halves(b + 8 + 16 * g));
    s->d[0] = half(b) * (float)((lo | hi << 4) - 32);
}

/* A byte is a fraction in base 3; floor of three times it. */
INLINE __m256i third_digit(__m256i a)
{
    __m256i one = _mm256_cmpeq_epi8(_mm256_max_epu8(a, all8(86)), a);
    __m256i two = _mm256_cmpeq_epi8(_mm256_max_epu8(a, all8(171)), a);
    return _mm256_sub_epi8(_mm256_setzero_si256(), _mm256_add_epi8(one, two));
}

/* 3^n a modulo 256: the fraction's digits moved up by n. */
INLINE __m128i times_3(__m128i a, size_t n)
{
    for (; n; n--)
        a = _mm_add_epi8(a, _mm_add_epi8(a, a));
    return a;
}

INLINE void from_tq1_0(const uint8_t *b, size_t g, struct span *s)
{
    __m128i lo, hi;
    if (g < 5) {
        lo = times_3(_mm_loadu_si128((const void *)b), g);
        hi = times_3(_mm_loadu_si128((const void *)(b + 16)), g);
    } else {
        __m128i q = _mm_loadu_si128((const void *)(b + 32));
        lo = times_3(q, 2 * (g - 5));
        hi = times_3(lo, 1);
        if (g == 7) {                         /* four bytes, a digit after another */
            uint32_t h = lm_q_u32(b + 48), x[4];
            for (size_t i = 0; i < 4; i++)
                x[i] = (uint32_t)_mm_cvtsi128_si32(times_3(_mm_cvtsi32_si128((int)h), i));
            hi = _mm_loadu_si128((const void *)x);
        }
    }
    s->w = third_digit(_mm256_set_m128i(hi, lo));
    s->d[0] = half(b + 52);
    s->m[0] = -s->d[0];
}

INLINE void from_tq2_0(const uint8_t *b, size_t g, struct span *s)
{
    s->w = field(load256(b + g / 4 * 32), g % 4 * 2, 3);
    s->d[0] = half(b + 64);
    s->m[0] = -s->d[0];
}

INLINE void from_nvfp4(const uint8_t *b, size_t g, struct span *s)
{
    __m128i q = _mm_loadu_si128((const void *)(b + 4 + 16 * g)), low = _mm_set1_epi8(15);
    __m128i lo = _mm_and_si128(q, low), hi = _mm_and_si128(_mm_srli_epi16(q, 4), low);
    s->w = look_up_32(values_fp4, _mm256_set_m128i(_mm_unpackhi_epi64(lo, hi),
                                                   _mm_unpacklo_epi64(lo, hi)));
    for (size_t i = 0; i < 2; i++) {
        uint32_t u = b[2 * g + i], e = u >> 3 & 15, m = u & 7;
        s->d[i] = e ? lm_q_float((e + 119) << 23 | m << 20) : (float)m * 0x1p-10f;
        if (u == 0x7f)
            s->d[i] = 0;
    }
}

INLINE void from_q1_0(const uint8_t *b, size_t g, struct span *s)
{
    s->w = _mm256_and_si256(spread_bits(lm_q_u32(b + 2 + 4 * g)), all8(2));
    s->d[0] = half(b);
    s->m[0] = -s->d[0];
}

INLINE void from_q2_0(const uint8_t *b, size_t g, struct span *s)
{
    const uint8_t *q = b + 2 + 8 * g;
    s->w = _mm256_setr_epi64x(spread_pairs(lm_q_u16(q)), spread_pairs(lm_q_u16(q + 2)),
                              spread_pairs(lm_q_u16(q + 4)), spread_pairs(lm_q_u16(q + 6)));
    s->d[0] = half(b);
    s->m[0] = -s->d[0];
}
