/* SPDX-License-Identifier: MIT */
/*
 * Plain numbers, one a weight: f32, f16, bf16, f64, and the integers i8 to i64, which
 * carry positions or ids and are not weights.
 *
 *   f16   IEEE binary16, rounded to nearest even; from 65520 on infinite
 *   bf16  the upper half of a float, rounded to nearest even; NaN stays (quiet) NaN
 */
#include "quant/block.h"
#include "quant/plain_avx2.h"

/* Loops of a fixed length are what compilers make wide instructions of. */
enum { WIDE = 64 };

static bool has_avx2(enum lm_isa isa)
{
#if defined(__x86_64__)
    return isa >= LM_ISA_AVX2;
#else
    (void)isa;
    return false;
#endif
}

static void decode_f32(const void *src, float *dst, size_t n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(dst, src, 4 * n);
#else
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        dst[i] = lm_q_float(lm_q_u32(p + 4 * i));
#endif
}

static void encode_f32(enum lm_isa isa, const float *src, void *dst, size_t n,
                       const float *weights)
{
    (void)isa, (void)weights;
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++)
        lm_q_put_u32(p + 4 * i, lm_q_bits(src[i]));
}

static int64_t invalid_f32(const void *src, size_t n)
{
    const uint8_t *p = src;
    size_t i = 0;
    for (uint32_t bad = 0; i + WIDE <= n; i += WIDE) {
        for (size_t k = 0; k < WIDE; k++)
            bad |= (lm_q_u32(p + 4 * (i + k)) & 0x7f800000) == 0x7f800000;
        if (bad)
            break;
    }
    for (; i < n; i++)
        if ((p[4 * i + 3] & 0x7f) == 0x7f && (p[4 * i + 2] & 0x80))
            return (int64_t)i;
    return -1;
}

static void decode_f16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    size_t i = 0;
#if defined(__x86_64__)
    if (n >= WIDE && has_avx2(lm_isa()))
        lm_f16_unpack_avx2(src, dst, i = n & ~(size_t)7);
#endif
    for (; i < n; i++)
        dst[i] = lm_q_half(p + 2 * i);
}

static void encode_f16(enum lm_isa isa, const float *src, void *dst, size_t n,
                       const float *weights)
{
    (void)weights;
    uint8_t *p = dst;
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2(isa))
        lm_f16_pack_avx2(src, dst, i = n & ~(size_t)7);
#endif
    for (; i < n; i++)
        lm_q_put_u16(p + 2 * i, lm_f16_store(src[i]));
}

/* The first of n halves whose exponent, `mask`, is all ones, or -1. */
static int64_t first_all_ones(const void *src, size_t n, uint16_t mask)
{
    const uint8_t *p = src;
    size_t i = 0;
#if defined(__x86_64__)
    if (n >= WIDE && has_avx2(lm_isa()))
        i = lm_without_ones_avx2(src, n & ~(size_t)31, mask);
#endif
    for (uint16_t bad = 0; i + WIDE <= n; i += WIDE) {
        for (size_t k = 0; k < WIDE; k++)
            bad |= (lm_q_u16(p + 2 * (i + k)) & mask) == mask;
        if (bad)
            break;
    }
    for (; i < n; i++)
        if ((lm_q_u16(p + 2 * i) & mask) == mask)
            return (int64_t)i;
    return -1;
}

static int64_t invalid_f16(const void *src, size_t n)
{
    return first_all_ones(src, n, 0x7c00);
}

static void decode_bf16(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    size_t i = 0;
#if defined(__x86_64__)
    if (n >= WIDE && has_avx2(lm_isa()))
        lm_bf16_unpack_avx2(src, dst, i = n & ~(size_t)15);
#endif
    for (; i + WIDE <= n; i += WIDE)
        for (size_t k = 0; k < WIDE; k++)
            dst[i + k] = lm_q_float((uint32_t)lm_q_u16(p + 2 * (i + k)) << 16);
    for (; i < n; i++)
        dst[i] = lm_q_float((uint32_t)lm_q_u16(p + 2 * i) << 16);
}

static uint16_t to_bf16(float f)
{
    const uint32_t u = lm_q_bits(f);
    const bool nan = (u & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(nan ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static void encode_bf16(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    uint8_t *p = dst;
    size_t i = 0;
#if defined(__x86_64__)
    if (has_avx2(isa))
        lm_bf16_pack_avx2(src, dst, i = n & ~(size_t)15);
#else
    (void)isa;
#endif
    for (; i < n; i++)
        lm_q_put_u16(p + 2 * i, to_bf16(src[i]));
}

static int64_t invalid_bf16(const void *src, size_t n)
{
    return first_all_ones(src, n, 0x7f80);
}

static void decode_f64(const void *src, float *dst, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++) {
        uint64_t u = lm_q_u64(p + 8 * i);
        double d;
        memcpy(&d, &u, 8);
        dst[i] = (float)d;
    }
}

static int64_t invalid_f64(const void *src, size_t n)
{
    const uint8_t *p = src;
    for (size_t i = 0; i < n; i++)
        if ((p[8 * i + 7] & 0x7f) == 0x7f && (p[8 * i + 6] & 0xf0) == 0xf0)
            return (int64_t)i;
    return -1;
}

const struct lm_type lm_type_f32 = {
    .name = "f32", .id = LM_F32, .block = 1, .bytes = 4, .in_files = true,
    .source = "IEEE 754 binary32",
    .decode = decode_f32, .encode = encode_f32, .invalid = invalid_f32,
};

const struct lm_type lm_type_f16 = {
    .name = "f16", .id = LM_F16, .block = 1, .bytes = 2, .in_files = true,
    .source = "IEEE 754 binary16",
    .decode = decode_f16, .encode = encode_f16, .invalid = invalid_f16,
};

const struct lm_type lm_type_bf16 = {
    .name = "bf16", .id = LM_BF16, .block = 1, .bytes = 2, .in_files = true,
    .source = "GGUF tensor type 30: upper half of binary32",
    .decode = decode_bf16, .encode = encode_bf16, .invalid = invalid_bf16,
};

const struct lm_type lm_type_f64 = {
    .name = "f64", .id = LM_F64, .block = 1, .bytes = 8, .in_files = true,
    .source = "IEEE 754 binary64",
    .decode = decode_f64, .invalid = invalid_f64,
};

#define INTEGER(NAME, ID, BYTES) {                                  \
    .name = NAME, .id = ID, .block = 1, .bytes = BYTES,             \
    .in_files = true, .source = "two's complement, little-endian" }

const struct lm_type lm_type_i8  = INTEGER("i8",  LM_I8,  1);
const struct lm_type lm_type_i16 = INTEGER("i16", LM_I16, 2);
const struct lm_type lm_type_i32 = INTEGER("i32", LM_I32, 4);
const struct lm_type lm_type_i64 = INTEGER("i64", LM_I64, 8);
