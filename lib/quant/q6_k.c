/* SPDX-License-Identifier: MIT */
/*
 * q6_K: 256 weights in 16 sub-blocks of 16, each with a signed 8-bit scale in units of
 * an f16 number:  x = (d * scale) * (n - 32),  n in 0..63.
 *
 * With t = e / 128, k = e % 128 / 32, l = e % 32: the low four bits of weight e are a
 * half of ql[64 * t + 32 * (k % 2) + l] (the low half for k < 2), the upper two are bits
 * 2 * k of qh[32 * t + l].
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK_K 256

struct q6_k {
    uint8_t ql[QK_K / 2];
    uint8_t qh[QK_K / 4];
    int8_t  sc[QK_K / 16];
    uint8_t d[2];
};
_Static_assert(sizeof(struct q6_k) == 210, "q6_K is 210 bytes on disk");

static void decode(const void *src, float *dst, size_t n)
{
    const struct q6_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d);
        for (int g = 0; g < 8; g++) {               /* 32 weights with the same t and k */
            int t = g / 4, k = g % 4;
            const uint8_t *ql = b[i].ql + 64 * t + 32 * (k % 2), *qh = b[i].qh + 32 * t;
            for (int l = 0; l < 32; l++) {
                int code = (ql[l] >> k / 2 * 4 & 15) | (qh[l] >> 2 * k & 3) << 4;
                float scale = d * (float)b[i].sc[2 * g + l / 16];
                dst[32 * g + l] = scale * (float)(code - 32);
            }
        }
    }
}

/* Codes from the stored scales; where one is 0 they stay as fitted. */
static void recode(const struct lm_fit *fit, const struct q6_k *b, const float *x, uint8_t *code)
{
    for (int s = 0; s < 16; s++) {
        float scale = lm_q_half(b->d) * (float)b->sc[s];
        if (scale != 0)
            fit->recode(16, x + 16 * s, 0, scale, -32, 31, code + 16 * s);
    }
}

static void pack(struct q6_k *b, const uint8_t *code)
{
    for (int t = 0; t < 2; t++, code += 128) {
        lm_q_pack(b->ql + 64 * t, 64, code, 64, 2, 0, 4);
        lm_q_pack(b->qh + 32 * t, 32, code, 32, 4, 4, 2);
    }
}

/* Each sub-block is fitted (fit.h) with weights x^2, or with the importance itself; the
 * scale of largest magnitude becomes -128. */
static void encode(enum lm_isa isa, const float *src, void *dst, size_t n,
                   const float *weights)
{
    struct q6_k *b = dst;
    float square[QK_K], scale[16];
    uint8_t code[QK_K];
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        for (int j = 0; j < QK_K; j++)
            square[j] = src[j] * src[j];
        lm_fit(isa)->symmetric(16, 32, 16, src, weights ? weights + i * QK_K : square, scale,
                               code);
        float max = lm_q_max_abs(scale, 16);
        if (lm_q_abs(max) < 1e-15f) {
            memset(&b[i], 0, sizeof b[i]);
            continue;
        }
        float inv = -128 / max;
        lm_q_put_half(b[i].d, 1 / inv);
        for (int s = 0; s < 16; s++) {
            int v = lm_q_rne(inv * scale[s]);
            b[i].sc[s] = (int8_t)(uint8_t)(v < 127 ? v : 127);
        }
        recode(lm_fit(isa), &b[i], src, code);
        pack(&b[i], code);
    }
}

static int64_t invalid(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct q6_k), offsetof(struct q6_k, d));
}

const struct lm_type lm_type_q6_k = {
    .name = "q6_K", .id = LM_Q6_K, .block = QK_K, .bytes = sizeof(struct q6_k),
    .in_files = true, .source = "GGUF tensor type 14",
    .end = LM_Q_HALF_END * 128 * 32,
    .decode = decode, .encode = encode, .invalid = invalid,
};
