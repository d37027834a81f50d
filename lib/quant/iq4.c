/* SPDX-License-Identifier: MIT */
/*
 * iq4_nl, iq4_xs: four bits a weight index a table K of 16 values that lie closer
 * around 0.
 *
 * iq4_nl  32 weights, f16 scale:  x = d * K[n], nibbles ordered as in q4_0
 * iq4_xs  256 weights in groups of 32 with 6-bit scales:  x = (d * (L - 32)) * K[n]; the
 *         low four bits of L for group g are a half of sl[g / 2], the upper two are
 *         bits 2 * g of sh
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK 32
#define QK_K 256

struct iq4_nl {
    uint8_t d[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct iq4_nl) == 18, "iq4_nl is 18 bytes on disk");

struct iq4_xs {
    uint8_t d[2];
    uint8_t sh[2];
    uint8_t sl[QK_K / 64];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct iq4_xs) == 136, "iq4_xs is 136 bytes on disk");

static void group(const uint8_t *q, float scale, float *dst)
{
    for (int j = 0; j < QK / 2; j++) {
        dst[j] = scale * lm_fit_curve[q[j] & 15];
        dst[j + QK / 2] = scale * lm_fit_curve[q[j] >> 4];
    }
}

static void decode_iq4_nl(const void *src, float *dst, size_t n)
{
    const struct iq4_nl *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK)
        group(b[i].q, lm_q_half(b[i].d), dst);
}

static void decode_iq4_xs(const void *src, float *dst, size_t n)
{
    const struct iq4_xs *b = src;
    for (size_t i = 0; i < n / QK_K; i++) {
        float d = lm_q_half(b[i].d);
        for (int g = 0; g < QK_K / QK; g++, dst += QK) {
            int scale = lm_q_nibble(b[i].sl, g) | (lm_q_u16(b[i].sh) >> 2 * g & 3) << 4;
            group(b[i].q + 16 * g, d * (float)(scale - 32), dst);
        }
    }
}

/* The weights of a block of n count importance * sqrt(sigma2 + x^2), or x^2 without
 * importance. */
static void count_weights(const struct lm_fit *fit, int n, const float *x,
                          const float *importance, float *w)
{
    if (importance)
        fit->weights(n, x, importance, lm_q_sum_sq(x, (size_t)n) * (2.0f / (float)n), w);
    else
        for (int i = 0; i < n; i++)
            w[i] = x[i] * x[i];
}

/* Up to LM_FIT_COUNT blocks at a time. */
static void encode_iq4_nl(enum lm_isa isa, const float *src, void *dst, size_t n,
                          const float *weights)
{
    const struct lm_fit *fit = lm_fit(isa);
    struct iq4_nl *b = dst;
    for (size_t i = 0; i < n / QK; i += LM_FIT_COUNT, src += LM_FIT_COUNT * QK) {
        float w[LM_FIT_COUNT * QK], d[LM_FIT_COUNT], inv[LM_FIT_COUNT];
        uint8_t code[LM_FIT_COUNT * QK];
        int count = n / QK - i < LM_FIT_COUNT ? (int)(n / QK - i) : LM_FIT_COUNT;
        for (int k = 0; k < count; k++)
            count_weights(fit, QK, src + k * QK, weights ? weights + (i + (size_t)k) * QK : NULL,
                          w + k * QK);
        fit->curve(count, src, w, d);
        for (int k = 0; k < count; k++)
            inv[k] = d[k] != 0 ? 1 / d[k] : 0;
        fit->curve_codes(count, src, inv, code);
        for (int k = 0; k < count; k++) {
            lm_q_put_half(b[i + (size_t)k].d, d[k]);
            lm_q_pack(b[i + (size_t)k].q, QK / 2, code + k * QK, QK / 2, 2, 0, 4);
        }
    }
}

#define GROUPS (QK_K / QK)

/* One block whose groups fit `scale`. */
static void put_iq4_xs(const struct lm_fit *fit, const float *x, const float *scale,
                       struct iq4_xs *b)
{
    float d = -lm_q_max_abs(scale, GROUPS) / 32, inv = d != 0 ? 1 / d : 0, inv_group[GROUPS];
    uint8_t code[QK_K];
    unsigned high = 0;
    memset(b, 0, sizeof *b);
    lm_q_put_half(b->d, d);
    for (int g = 0; g < GROUPS; g++) {
        int l = lm_q_clamp(lm_q_rne(inv * scale[g]), -32, 31);
        float dl = d * (float)l;
        inv_group[g] = dl != 0 ? 1 / dl : 0;
        b->sl[g / 2] |= (uint8_t)(((l + 32) & 15) << g % 2 * 4);
        high |= (unsigned)(l + 32) >> 4 << 2 * g;
    }
    lm_q_put_u16(b->sh, (uint16_t)high);
    fit->curve_codes(GROUPS, x, inv_group, code);
    for (int g = 0; g < GROUPS; g++)
        lm_q_pack(b->q + 16 * g, QK / 2, code + g * QK, QK / 2, 2, 0, 4);
}

/* Two blocks at a time: LM_FIT_COUNT groups. */
static void encode_iq4_xs(enum lm_isa isa, const float *src, void *dst, size_t n,
                          const float *weights)
{
    const struct lm_fit *fit = lm_fit(isa);
    struct iq4_xs *b = dst;
    for (size_t i = 0; i < n / QK_K; i += 2, src += 2 * QK_K) {
        float w[2 * QK_K], scale[2 * GROUPS];
        int count = n / QK_K - i < 2 ? 1 : 2;
        for (int k = 0; k < count; k++)
            count_weights(fit, QK_K, src + k * QK_K,
                          weights ? weights + (i + (size_t)k) * QK_K : NULL, w + k * QK_K);
        fit->curve(count * GROUPS, src, w, scale);
        for (int k = 0; k < count; k++)
            put_iq4_xs(fit, src + k * QK_K, scale + k * GROUPS, &b[i + (size_t)k]);
    }
}

static int64_t invalid_iq4_nl(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct iq4_nl), 0);
}

static int64_t invalid_iq4_xs(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK_K, sizeof(struct iq4_xs), 0);
}

const struct lm_type lm_type_iq4_nl = {
    .name = "iq4_nl", .id = LM_IQ4_NL, .block = QK, .bytes = sizeof(struct iq4_nl),
    .in_files = true, .source = "GGUF tensor type 20",
    .end = LM_Q_HALF_END * 127,
    .decode = decode_iq4_nl, .encode = encode_iq4_nl, .invalid = invalid_iq4_nl,
};

const struct lm_type lm_type_iq4_xs = {
    .name = "iq4_xs", .id = LM_IQ4_XS, .block = QK_K, .bytes = sizeof(struct iq4_xs),
    .in_files = true, .source = "GGUF tensor type 23",
    .end = LM_Q_HALF_END * 32 * 127,
    .decode = decode_iq4_xs, .encode = encode_iq4_xs, .invalid = invalid_iq4_xs,
};
