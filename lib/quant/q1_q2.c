/* SPDX-License-Identifier: MIT */
/*
 * q1_0: 128 weights share an f16 scale; bit e says +d or -d.
 * q2_0: 64 weights share an f16 scale; two bits n each, x = (n - 1) * d.
 *
 * Bits fill each byte from its lowest.
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK1 128
#define QK2 64

struct q1_0 {
    uint8_t d[2];
    uint8_t q[QK1 / 8];
};
_Static_assert(sizeof(struct q1_0) == 18, "q1_0 is 18 bytes on disk");

struct q2_0 {
    uint8_t d[2];
    uint8_t q[QK2 / 4];
};
_Static_assert(sizeof(struct q2_0) == 18, "q2_0 is 18 bytes on disk");

static void decode_q1_0(const void *src, float *dst, size_t n)
{
    const struct q1_0 *b = src;
    for (size_t i = 0; i < n / QK1; i++, dst += QK1) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK1; j++)
            dst[j] = b[i].q[j / 8] >> j % 8 & 1 ? d : -d;
    }
}

static void decode_q2_0(const void *src, float *dst, size_t n)
{
    const struct q2_0 *b = src;
    for (size_t i = 0; i < n / QK2; i++, dst += QK2) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK2; j++)
            dst[j] = (float)((b[i].q[j / 4] >> 2 * (j % 4) & 3) - 1) * d;
    }
}

/* The scale is the mean magnitude. */
static void encode_q1_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct q1_0 *b = dst;
    for (size_t left = n / QK1; left; ) {
        float sum[LM_FIT_COUNT];
        const int count = left < LM_FIT_COUNT ? (int)left : LM_FIT_COUNT;
        lm_fit(isa)->signs(count, src, sum, b->q, sizeof *b);
        for (int i = 0; i < count; i++)
            lm_q_put_half((b++)->d, sum[i] / QK1);
        src += count * QK1;
        left -= (size_t)count;
    }
}

/* The scale is the largest magnitude. */
static void encode_q2_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct q2_0 *b = dst;
    for (size_t i = 0; i < n / QK2; i++, src += QK2) {
        float d = lm_q_abs(lm_fit(isa)->extreme(QK2, src)), inv = d > 0 ? 1 / d : 0;
        int8_t q[QK2] = { 0 };
        const bool bad = lm_q_float_bad(inv);
        memset(b[i].q, 0, sizeof b[i].q);
        if (!bad)
            lm_fit(isa)->rounded(QK2, src, inv, q);
        for (int j = 0; j < QK2; j++) {
            int code = bad ? lm_q_clamp(lm_q_round(src[j] * inv) + 1, 0, 3) : q[j] + 1;
            b[i].q[j / 4] |= (uint8_t)(code << 2 * (j % 4));
        }
        lm_q_put_half(b[i].d, d);
    }
}

static int64_t invalid_q1_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK1, sizeof(struct q1_0), 0);
}

static int64_t invalid_q2_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK2, sizeof(struct q2_0), 0);
}

const struct lm_type lm_type_q1_0 = {
    .name = "q1_0", .id = LM_Q1_0, .block = QK1, .bytes = sizeof(struct q1_0),
    .in_files = true, .source = "GGUF tensor type 41",
    .end = LM_Q_HALF_END,
    .decode = decode_q1_0, .encode = encode_q1_0, .invalid = invalid_q1_0,
};

const struct lm_type lm_type_q2_0 = {
    .name = "q2_0", .id = LM_Q2_0, .block = QK2, .bytes = sizeof(struct q2_0),
    .in_files = true, .source = "GGUF tensor type 42",
    .end = LM_Q_HALF_END * 2,
    .decode = decode_q2_0, .encode = encode_q2_0, .invalid = invalid_q2_0,
};
