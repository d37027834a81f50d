/* SPDX-License-Identifier: MIT */
/*
 * q2_K: 256 weights in 16 sub-blocks of 16.  A sub-block has a 4-bit scale and a 4-bit
 * minimum, in units of two f16 numbers:  x = (d * scale) * n - (dmin * min),  n in 0..3.
 *
 * Weight e is in bits 2 * (e % 128 / 32) of q[32 * (e / 128) + e % 32]; the byte of its
 * sub-block holds the scale in the low half and the minimum in the high half.
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK_K 256

struct q2_k {
    uint8_t sm[QK_K / 16];
    uint8_t q[QK_K / 4];
    uint8_t d[2], dmin[2];
};
_Static_assert(sizeof(struct q2_k) == 84, "q2_K is 84 bytes on disk");

static void decode(const void *src, float *dst, size_t n)
{
    const struct q2_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 16; s++) {
            float scale = d * (float)(b[i].sm[s] & 15), min = dmin * (float)(b[i].sm[s] >> 4);
            const uint8_t *q = b[i].q + 32 * (s / 8) + 16 * (s % 2);
            int shift = 2 * (s % 8 / 2);
            for (int j = 0; j < 16; j++)
                dst[16 * s + j] = scale * (float)(q[j] >> shift & 3) - min;
        }
    }
}

/* Scales or minima as four bits of the largest; returns their unit.  A nibble is not
 * limited: the format's reference does not. */
static float plain_fours(const float *scale, uint8_t *four)
{
    float max = 0;
    for (int s = 0; s < 16; s++)
        max = scale[s] > max ? scale[s] : max;
    for (int s = 0; s < 16; s++)
        four[s] = max > 0 ? (uint8_t)lm_q_rne(15 / max * scale[s]) : 0;
    return max > 0 ? max / 15 : 0;
}

static void encode_scales(const float *scale, const float *min, const float *w, struct q2_k *b)
{
    uint8_t four[16], four_min[16];
    float unit, unit_min, sum_w[16] = { 0 };
    if (w) {
        for (int j = 0; j < QK_K; j++)
            sum_w[j / 16] += w[j];
        unit = lm_fit_positive(16, 15, scale, sum_w, four);
        unit_min = lm_fit_positive(16, 15, min, sum_w, four_min);
    } else {
        unit = plain_fours(scale, four);
        unit_min = plain_fours(min, four_min);
    }
    lm_q_put_half(b->d, unit);
    lm_q_put_half(b->dmin, unit_min);
    for (int s = 0; s < 16; s++)
        b->sm[s] = (uint8_t)(four[s] | four_min[s] << 4);
}

/* Codes from the stored scales; where one is 0 they stay as fitted. */
static void recode(const struct lm_fit *fit, const struct q2_k *b, const float *x, uint8_t *code)
{
    float d = lm_q_half(b->d), dmin = lm_q_half(b->dmin);
    for (int s = 0; s < 16; s++) {
        float scale = d * (float)(b->sm[s] & 15), min = dmin * (float)(b->sm[s] >> 4);
        if (scale != 0)
            fit->recode(16, x + 16 * s, min, scale, 0, 3, code + 16 * s);
    }
}

/* Each sub-block is fitted (fit.h) for the least sum of |x| * |error|, or with importance
 * of importance * sqrt(mean square of the super-block + x^2) * error^2. */
static void encode(enum lm_isa isa, const float *src, void *dst, size_t n,
                   const float *weights)
{
    static const struct lm_affine
        plain    = { .n = 16, .top = 3, .start = -0.5f, .step = 0.1f, .steps = 15,
                     .absolute = true },
        weighted = { .n = 16, .top = 3, .start = -0.9f, .step = 0.05f, .steps = 36 };
    struct q2_k *b = dst;
    float w[QK_K], scale[16], min[16];
    uint8_t code[QK_K];
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        if (weights)
            lm_fit(isa)->weights(QK_K, src, weights + i * QK_K, lm_q_sum_sq(src, QK_K) / QK_K, w);
        else
            for (int j = 0; j < QK_K; j++)
                w[j] = lm_q_abs(src[j]);
        lm_fit(isa)->affine(weights ? &weighted : &plain, 16, src, w, scale, min, code);
        encode_scales(scale, min, weights ? w : NULL, &b[i]);
        recode(lm_fit(isa), &b[i], src, code);
        for (int h = 0; h < 2; h++)
            lm_q_pack(b[i].q + 32 * h, 32, code + 128 * h, 32, 4, 0, 2);
    }
}

static int64_t invalid(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q2_k), offsetof(struct q2_k, d));
}

const struct lm_type lm_type_q2_k = {
    .name = "q2_K", .id = LM_Q2_K, .block = QK_K, .bytes = sizeof(struct q2_k),
    .in_files = true, .source = "GGUF tensor type 10",
    .end = LM_Q_HALF_END * 15 * 4,
    .decode = decode, .encode = encode, .invalid = invalid,
};
