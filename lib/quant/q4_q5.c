/* SPDX-License-Identifier: MIT */
/*
 * q4_0, q4_1, q5_0, q5_1: 32 weights share an f16 scale d, and the _1 types an f16
 * minimum m as well.
 *
 *   _0   x = (n - N) * d      N = 8 or 16
 *   _1   x = n * d + m
 *
 * Byte j of q holds the low four bits of weight j in its low half and those of weight
 * j + 16 in its high half; the fifth bit of weight e is bit e of h.
 */
#include "quant/block.h"

#define QK 32

struct q4_0 {
    uint8_t d[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q4_0) == 18, "q4_0 is 18 bytes on disk");

struct q4_1 {
    uint8_t d[2], m[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q4_1) == 20, "q4_1 is 20 bytes on disk");

struct q5_0 {
    uint8_t d[2];
    uint8_t h[4];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q5_0) == 22, "q5_0 is 22 bytes on disk");

struct q5_1 {
    uint8_t d[2], m[2];
    uint8_t h[4];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q5_1) == 24, "q5_1 is 24 bytes on disk");

static void decode_q4_0(const void *src, float *dst, size_t n)
{
    const struct q4_0 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)((b[i].q[j] & 15) - 8) * d;
            dst[j + QK / 2] = (float)((b[i].q[j] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const void *src, float *dst, size_t n)
{
    const struct q4_1 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d), m = lm_q_half(b[i].m);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)(b[i].q[j] & 15) * d + m;
            dst[j + QK / 2] = (float)(b[i].q[j] >> 4) * d + m;
        }
    }
}

/* Five-bit codes j and j + 16 from a byte of low parts and the high bits. */
static inline int code_lo(uint8_t q, uint32_t h, int j)
{
    return (q & 15) | (int)(h >> j & 1) << 4;
}

static inline int code_hi(uint8_t q, uint32_t h, int j)
{
    return q >> 4 | (int)(h >> (j + QK / 2) & 1) << 4;
}

static void decode_q5_0(const void *src, float *dst, size_t n)
{
    const struct q5_0 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        uint32_t h = lm_q_u32(b[i].h);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)(code_lo(b[i].q[j], h, j) - 16) * d;
            dst[j + QK / 2] = (float)(code_hi(b[i].q[j], h, j) - 16) * d;
        }
    }
}

static void decode_q5_1(const void *src, float *dst, size_t n)
{
    const struct q5_1 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d), m = lm_q_half(b[i].m);
        uint32_t h = lm_q_u32(b[i].h);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)code_lo(b[i].q[j], h, j) * d + m;
            dst[j + QK / 2] = (float)code_hi(b[i].q[j], h, j) * d + m;
        }
    }
}

static int64_t invalid_q4_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q4_0), 0);
}

static int64_t invalid_q4_1(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK, sizeof(struct q4_1), 0);
}

static int64_t invalid_q5_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q5_0), 0);
}

static int64_t invalid_q5_1(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK, sizeof(struct q5_1), 0);
}

const struct lm_type lm_type_q4_0 = {
    .name = "q4_0", .id = LM_Q4_0, .block = QK, .bytes = sizeof(struct q4_0),
    .in_files = true, .source = "GGUF tensor type 2",
    .decode = decode_q4_0, .invalid = invalid_q4_0,
};

const struct lm_type lm_type_q4_1 = {
    .name = "q4_1", .id = LM_Q4_1, .block = QK, .bytes = sizeof(struct q4_1),
    .in_files = true, .source = "GGUF tensor type 3",
    .decode = decode_q4_1, .invalid = invalid_q4_1,
};

const struct lm_type lm_type_q5_0 = {
    .name = "q5_0", .id = LM_Q5_0, .block = QK, .bytes = sizeof(struct q5_0),
    .in_files = true, .source = "GGUF tensor type 6",
    .decode = decode_q5_0, .invalid = invalid_q5_0,
};

const struct lm_type lm_type_q5_1 = {
    .name = "q5_1", .id = LM_Q5_1, .block = QK, .bytes = sizeof(struct q5_1),
    .in_files = true, .source = "GGUF tensor type 7",
    .decode = decode_q5_1, .invalid = invalid_q5_1,
};
