/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_BLOCK_H
#define LM_QUANT_BLOCK_H

/*
 * What the files of lib/quant share: fields of blocks, and the arithmetic that the
 * encoders are defined by.
 *
 * Blocks are structs of bytes, so that they have no padding, may lie at any address,
 * and mean the same on machines of either byte order; multi-byte fields are
 * little-endian and go through the functions below.
 */

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/f16.h"
#include "quant/quant.h"

static inline uint16_t lm_q_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t lm_q_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t lm_q_u64(const uint8_t *p)
{
    return lm_q_u32(p) | (uint64_t)lm_q_u32(p + 4) << 32;
}

static inline void lm_q_put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void lm_q_put_u32(uint8_t *p, uint32_t v)
{
    lm_q_put_u16(p, (uint16_t)v);
    lm_q_put_u16(p + 2, (uint16_t)(v >> 16));
}

static inline uint32_t lm_q_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float lm_q_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* The f16 in two bytes. */
static inline float lm_q_half(const uint8_t *p)
{
    return lm_f16_load(lm_q_u16(p));
}

/* Store f as f16 and return what was stored, read back. */
static inline float lm_q_put_half(uint8_t *p, float f)
{
    uint16_t h = lm_f16_store(f);
    lm_q_put_u16(p, h);
    return lm_f16_load(h);
}

/* What rounds to no finite f16, nor does anything greater. */
#define LM_Q_HALF_END 65520.0f

/* Infinite or NaN. */
static inline bool lm_q_half_bad(const uint8_t *p)
{
    return (p[1] & 0x7c) == 0x7c;
}

static inline bool lm_q_float_bad(float f)
{
    return (lm_q_bits(f) & 0x7f800000) == 0x7f800000;
}

/* Four bits of a byte array that holds two values a byte, low half first. */
static inline int lm_q_nibble(const uint8_t *p, int i)
{
    return p[i / 2] >> i % 2 * 4 & 15;
}

/*
 * Byte i of n (a multiple of 8) in dst: fields of `bits` bits, one from each of the `count`
 * codes code[i], code[i + step], code[i + 2 * step], ..., side by side with the first in
 * the lowest bits.  A field begins at bit `shift` of its code.
 */
static inline void lm_q_pack(uint8_t *dst, int n, const uint8_t *code, int step, int count,
                             int shift, int bits)
{
    const uint64_t field = ((1u << bits) - 1) * 0x0101010101010101u;
    for (int i = 0; i < n; i += 8) {
        uint64_t all = 0;
        for (int k = 0; k < count; k++)
            all |= (lm_q_u64(code + i + k * step) >> shift & field) << bits * k;
        lm_q_put_u32(dst + i, (uint32_t)all);
        lm_q_put_u32(dst + i + 4, (uint32_t)(all >> 32));
    }
}

/* First of n blocks of `bytes` bytes whose f16 at offset `at` is infinite or NaN, or -1. */
static inline int64_t lm_q_bad_half_at(const void *src, size_t n, size_t bytes, size_t at)
{
    const uint8_t *p = (const uint8_t *)src + at;
    for (size_t i = 0; i < n; i++, p += bytes)
        if (lm_q_half_bad(p))
            return (int64_t)i;
    return -1;
}

/* The same for two f16 fields side by side. */
static inline int64_t lm_q_bad_halves_at(const void *src, size_t n, size_t bytes, size_t at)
{
    const uint8_t *p = (const uint8_t *)src + at;
    for (size_t i = 0; i < n; i++, p += bytes)
        if (lm_q_half_bad(p) || lm_q_half_bad(p + 2))
            return (int64_t)i;
    return -1;
}

/*
 * Nearest integer, ties to even, by the rounding of the addition itself: beyond the
 * sum the bit pattern of t + 1.5 * 2^23 holds t's integer in its low 23 bits.
 * Outside |t| < 2^22 (which only degenerate scales reach) the same bits still define
 * the result.
 */
static inline int lm_q_rne(float t)
{
    return (int)(lm_q_bits(t + 12582912.0f) & 0x7fffff) - 4194304;
}

static inline int lm_q_clamp(int v, int lo, int hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Truncate toward zero, keep the low eight bits; 0 for what no int32 holds. */
static inline uint8_t lm_q_trunc8(float t)
{
    return t > -2147483648.0f && t < 2147483648.0f ? (uint8_t)(int32_t)t : 0;
}

/* Round half away from zero; INT32_MIN for what no int32 holds. */
static inline int32_t lm_q_round(float t)
{
    float r = roundf(t);
    return r > -2147483648.0f && r < 2147483648.0f ? (int32_t)r : INT32_MIN;
}

/* Clear the sign bit. */
static inline float lm_q_abs(float x)
{
    return lm_q_float(lm_q_bits(x) & 0x7fffffff);
}

/* Sum of x[i] * x[i], in order. */
static inline float lm_q_sum_sq(const float *x, size_t n)
{
    float s = 0;
    for (size_t i = 0; i < n; i++)
        s += x[i] * x[i];
    return s;
}

/* The element of largest magnitude, the first of equals; 0 if none exceeds 0. */
static inline float lm_q_max_abs(const float *x, int n)
{
    float m = 0, a = 0;
    for (int i = 0; i < n; i++)
        if (lm_q_abs(x[i]) > a) {
            a = lm_q_abs(x[i]);
            m = x[i];
        }
    return m;
}

#endif
