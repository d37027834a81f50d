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
#include "quant/fit.h"

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
static float trits(enum lm_isa isa, const float *x, uint8_t *digit)
{
    float d = lm_q_abs(lm_fit(isa)->extreme(QK_K, x)), inv = d != 0 ? 1 / d : 0;
    const struct lm_fit *fit = lm_q_float_bad(inv) ? &lm_fit_scalar : lm_fit(isa);
    fit->rounded(QK_K, x, inv, (int8_t *)digit);
    for (int e = 0; e < QK_K; e++)
        digit[e]++;
    return d;
}

/* Bytes 0..m-1, m a multiple of 4, from n digits each that lie `step` apart, the first the most
 * significant, as the least fractions of 256 from which they can be read again. */
static void fractions(const uint8_t *digit, int m, int n, int step, uint8_t *q)
{
    for (int j = 0; j < m; j += 4) {
        uint32_t four = 0;                          /* values below 243, side by side */
        for (int k = 0; k < 5; k++)
            four = 3 * four + (k < n ? lm_q_u32(digit + k * step + j) : 0);
        for (int i = 0; i < 4; i++)
            q[j + i] = (uint8_t)(((four >> 8 * i & 255) * 256 + 242) / 243);
    }
}

static void encode_tq1_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct tq1_0 *b = dst;
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        uint8_t digit[QK_K];
        lm_q_put_half(b[i].d, trits(isa, src, digit));
        fractions(digit, 32, 5, 32, b[i].q);
        fractions(digit + 160, 16, 5, 16, b[i].q + 32);
        fractions(digit + 240, 4, 4, 4, b[i].h);
    }
}

static void encode_tq2_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct tq2_0 *b = dst;
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        uint8_t digit[QK_K];
        lm_q_put_half(b[i].d, trits(isa, src, digit));
        for (int h = 0; h < 2; h++)
            lm_q_pack(b[i].q + 32 * h, 32, digit + 128 * h, 32, 4, 0, 2);
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
    .end = LM_Q_HALF_END,
    .decode = decode_tq1_0, .encode = encode_tq1_0, .invalid = invalid_tq1_0,
};

const struct lm_type lm_type_tq2_0 = {
    .name = "tq2_0", .id = LM_TQ2_0, .block = QK_K, .bytes = sizeof(struct tq2_0),
    .in_files = true, .source = "GGUF tensor type 35",
    .end = LM_Q_HALF_END,
    .decode = decode_tq2_0, .encode = encode_tq2_0, .invalid = invalid_tq2_0,
};
