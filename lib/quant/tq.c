/* SPDX-License-Identifier: MIT */
/*
 * tq1_0, tq2_0: 256 ternary weights with one f16 scale, x = (digit - 1) * d.
 *
 * tq1_0  a byte is a fraction in base 3: its digit k is floor(3 * frac(byte / 256 * 3^k)),
 *        the first the most significant.  q[0..31] hold weights 0..159 (digit e / 32),
 *        q[32..47] weights 160..239, h weights 240..255, four digits a byte
 * tq2_0  two bits a weight, laid out as in q2_K
 */
#include "quant/block.h"

#define QK_K 256

struct tq1_0 {
    uint8_t q[48];
    uint8_t h[4];
    uint8_t d[2];
};
_Static_assert(sizeof(struct tq1_0) == 54, "tq1_0 is 54 bytes on disk");

struct tq2_0 {
    uint8_t q[QK_K / 4];
    uint8_t d[2];
};
_Static_assert(sizeof(struct tq2_0) == 66, "tq2_0 is 66 bytes on disk");

/* The byte of a tq1_0 block and the digit in it that hold weight e. */
static uint8_t trit_place(const struct tq1_0 *b, int e, int *digit)
{
    if (e < 160) {
        *digit = e / 32;
        return b->q[e % 32];
    }
    if (e < 240) {
        *digit = (e - 160) / 16;
        return b->q[32 + (e - 160) % 16];
    }
    *digit = (e - 240) / 4;
    return b->h[(e - 240) % 4];
}

static void decode_tq1_0(const void *src, float *dst, size_t n)
{
    static const uint8_t pow3[5] = { 1, 3, 9, 27, 81 };
    const struct tq1_0 *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d);
        for (int e = 0; e < QK_K; e++) {
            int digit;
            uint8_t frac = trit_place(&b[i], e, &digit);
            frac = (uint8_t)(frac * pow3[digit]);
            dst[e] = (float)((frac * 3 >> 8) - 1) * d;
        }
    }
}

static void decode_tq2_0(const void *src, float *dst, size_t n)
{
    const struct tq2_0 *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d);
        for (int e = 0; e < QK_K; e++) {
            int code = b[i].q[32 * (e / 128) + e % 32] >> 2 * (e % 128 / 32) & 3;
            dst[e] = (float)(code - 1) * d;
        }
    }
}

/* Digits 0..2 of 256 weights; returns the scale, their largest magnitude. */
static float trits(const float *x, uint8_t *digit)
{
    float d = lm_q_abs(lm_q_max_abs(x, QK_K)), inv = d != 0 ? 1 / d : 0;
    for (int e = 0; e < QK_K; e++) {
        int32_t r = lm_q_round(x[e] * inv);
        digit[e] = (uint8_t)((r == INT32_MIN ? 0 : r) + 1);
    }
    return d;
}

/* A byte from n digits that lie `step` apart, the first the most significant, as
 * the least fraction of 256 from which they can be read again. */
static uint8_t fraction(const uint8_t *digit, int n, int step)
{
    int value = 0;
    for (int k = 0; k < 5; k++)
        value = 3 * value + (k < n ? digit[k * step] : 0);
    return (uint8_t)((value * 256 + 242) / 243);
}

static void encode_tq1_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)isa, (void)weights;
    struct tq1_0 *b = dst;
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        uint8_t digit[QK_K];
        lm_q_put_half(b[i].d, trits(src, digit));
        for (int j = 0; j < 32; j++)
            b[i].q[j] = fraction(digit + j, 5, 32);
        for (int j = 0; j < 16; j++)
            b[i].q[32 + j] = fraction(digit + 160 + j, 5, 16);
        for (int j = 0; j < 4; j++)
            b[i].h[j] = fraction(digit + 240 + j, 4, 4);
    }
}

static void encode_tq2_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)isa, (void)weights;
    struct tq2_0 *b = dst;
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        uint8_t digit[QK_K];
        lm_q_put_half(b[i].d, trits(src, digit));
        memset(b[i].q, 0, sizeof b[i].q);
        for (int e = 0; e < QK_K; e++)
            b[i].q[32 * (e / 128) + e % 32] |= (uint8_t)((digit[e] & 3) << 2 * (e % 128 / 32));
    }
}

static int64_t invalid_tq1_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct tq1_0), offsetof(struct tq1_0, d));
}

static int64_t invalid_tq2_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct tq2_0), offsetof(struct tq2_0, d));
}

const struct lm_type lm_type_tq1_0 = {
    .name = "tq1_0", .id = LM_TQ1_0, .block = QK_K, .bytes = sizeof(struct tq1_0),
    .in_files = true, .source = "GGUF tensor type 34",
    .decode = decode_tq1_0, .encode = encode_tq1_0, .invalid = invalid_tq1_0,
};

const struct lm_type lm_type_tq2_0 = {
    .name = "tq2_0", .id = LM_TQ2_0, .block = QK_K, .bytes = sizeof(struct tq2_0),
    .in_files = true, .source = "GGUF tensor type 35",
    .decode = decode_tq2_0, .encode = encode_tq2_0, .invalid = invalid_tq2_0,
};
