/* SPDX-License-Identifier: MIT */
/*
 * q3_K: 256 weights in 16 sub-blocks of 16, each with a 6-bit scale in units of an f16
 * number:  x = (d * (scale - 32)) * n,  n in -4..3.
 *
 * The two low bits of n + 4 lie as in q2_K; its third bit for weight e is bit e / 32 of
 * hm[e % 32].  Scales: the low four bits of sub-block s are a half of sb[s % 8] (low half
 * for s < 8), the upper two are bits 2 * (s / 4) of sb[8 + s % 4].
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK_K 256

struct q3_k {
    uint8_t hm[QK_K / 8];
    uint8_t q[QK_K / 4];
    uint8_t sb[12];
    uint8_t d[2];
};
_Static_assert(sizeof(struct q3_k) == 110, "q3_K is 110 bytes on disk");

static int get_scale(const uint8_t *sb, int s)
{
    int low = sb[s % 8] >> s / 8 * 4 & 15, high = sb[8 + s % 4] >> 2 * (s / 4) & 3;
    return low + 16 * high;
}

static void decode(const void *src, float *dst, size_t n)
{
    const struct q3_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d);
        for (int s = 0; s < 16; s++) {
            float scale = d * (float)(get_scale(b[i].sb, s) - 32);
            const uint8_t *q = b[i].q + 32 * (s / 8) + 16 * (s % 2);
            const uint8_t *hm = b[i].hm + 16 * (s % 2);
            int shift = 2 * (s % 8 / 2);
            for (int j = 0; j < 16; j++) {
                int code = (q[j] >> shift & 3) + 4 * (hm[j] >> s / 2 & 1) - 4;
                dst[16 * s + j] = scale * (float)code;
            }
        }
    }
}

static void put_scales(uint8_t *sb, const uint8_t *six)
{
    lm_q_pack(sb, 8, six, 8, 2, 0, 4);
    for (int s = 0; s < 4; s++)
        sb[8 + s] = (uint8_t)(six[s] >> 4 | six[s + 4] >> 4 << 2 | six[s + 8] >> 4 << 4 |
                              six[s + 12] >> 4 << 6);
}

/* Six-bit scales with the one of largest magnitude at -32; returns their unit. */
static float plain_sixes(const float *scale, uint8_t *six)
{
    float max = lm_q_max_abs(scale, 16);
    if (max == 0) {
        memset(six, 0, 16);
        return 0;
    }
    float inv = -32 / max;
    for (int s = 0; s < 16; s++)
        six[s] = (uint8_t)(lm_q_clamp(lm_q_rne(inv * scale[s]), -32, 31) + 32);
    return 1 / inv;
}

#define TOGETHER LM_FIT_COUNT     /* blocks: with more, fewer lanes are idle */

/* Fit up to TOGETHER blocks and bring the scales of their sub-blocks to six bits; unit[i] is what
 * those of block i are counted in. */
static void fit(enum lm_isa isa, int count, const float *x, const float *importance,
                float *unit, uint8_t *six, uint8_t *code)
{
    float w[QK_K], scale[TOGETHER * 16], sum_w[16];
    if (!importance) {
        lm_fit(isa)->descent(4, 16 * count, x, scale, code);
        for (int i = 0; i < count; i++)
            unit[i] = plain_sixes(scale + 16 * i, six + 16 * i);
        return;
    }
    for (int i = 0; i < count; i++, x += QK_K, importance += QK_K) {
        lm_fit(isa)->weights(QK_K, x, importance, 2 * lm_q_sum_sq(x, QK_K) / QK_K, w);
        memset(sum_w, 0, sizeof sum_w);
        for (int j = 0; j < QK_K; j++)
            sum_w[j / 16] += w[j];
        lm_fit(isa)->symmetric(16, 4, 16, x, w, scale, code + QK_K * i);
        unit[i] = lm_fit_symmetric(16, 32, scale, sum_w, six + 16 * i);
    }
}

/* Codes from the stored scales; where one is 0 they stay as fitted. */
static void recode(const struct lm_fit *fit, float d, const uint8_t *six, const float *x,
                   uint8_t *code)
{
    for (int s = 0; s < 16; s++) {
        float scale = d * (float)(six[s] - 32);
        if (scale != 0)
            fit->recode(16, x + 16 * s, 0, scale, -4, 3, code + 16 * s);
    }
}

static void put(const struct lm_fit *fits, const float *x, float unit, const uint8_t *six,
                uint8_t *code, struct q3_k *b)
{
    const float d = lm_q_put_half(b->d, unit);
    put_scales(b->sb, six);
    recode(fits, d, six, x, code);
    for (int h = 0; h < 2; h++)
        lm_q_pack(b->q + 32 * h, 32, code + 128 * h, 32, 4, 0, 2);
    lm_q_pack(b->hm, 32, code, 32, 8, 2, 1);
}

static void encode(enum lm_isa isa, const float *src, void *dst, size_t n,
                   const float *weights)
{
    struct q3_k *b = dst;
    uint8_t six[TOGETHER * 16], code[TOGETHER * QK_K];
    float unit[TOGETHER];
    for (size_t i = 0; i < n / QK_K; i += TOGETHER, src += TOGETHER * QK_K) {
        int count = n / QK_K - i < TOGETHER ? (int)(n / QK_K - i) : TOGETHER;
        fit(isa, count, src, weights ? weights + i * QK_K : NULL, unit, six, code);
        for (int k = 0; k < count; k++)
            put(lm_fit(isa), src + k * QK_K, unit[k], six + 16 * k, code + k * QK_K,
                &b[i + (size_t)k]);
    }
}

static int64_t invalid(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct q3_k), offsetof(struct q3_k, d));
}

const struct lm_type lm_type_q3_k = {
    .name = "q3_K", .id = LM_Q3_K, .block = QK_K, .bytes = sizeof(struct q3_k),
    .in_files = true, .source = "GGUF tensor type 11",
    .end = LM_Q_HALF_END * 32 * 4,
    .decode = decode, .encode = encode, .invalid = invalid,
};
