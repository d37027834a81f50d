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

static const float values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

static void group(const uint8_t *q, float scale, float *dst)
{
    for (int j = 0; j < QK / 2; j++) {
        dst[j] = scale * values[q[j] & 15];
        dst[j + QK / 2] = scale * values[q[j] >> 4];
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

/* The code whose value is nearest to t; half way, the higher. */
static int nearest(float t)
{
    if (t <= values[0])
        return 0;
    if (t >= values[15])
        return 15;
    int u = 1;
    while (t >= values[u])
        u++;
    return t - values[u - 1] < values[u] - t ? u - 1 : u;
}

/* Sums over the codes that inv gives: w * q * x and w * q * q. */
static void sums(const float *x, const float *w, float inv, float *sx, float *s2)
{
    *sx = *s2 = 0;
    for (int i = 0; i < QK; i++) {
        float q = values[nearest(inv * x[i])];
        *sx += w[i] * q * x[i];
        *s2 += w[i] * q * q;
    }
}

/* The scale of 32 weights that lowers the weighted error most, of 16 tried around the
 * one that puts the weight of largest magnitude on the lowest value. */
static float fit(const float *x, const float *w)
{
    float m = lm_q_max_abs(x, QK), sx, s2;
    if (lm_q_abs(m) < 1e-15f)
        return 0;
    float d = -m / values[0];
    sums(x, w, 1 / d, &sx, &s2);
    d = s2 > 0 ? sx / s2 : 0;
    float best = d * sx;
    for (int k = -7; k <= 7; k++) {
        sums(x, w, ((float)k + values[0]) / m, &sx, &s2);
        if (s2 > 0 && sx * sx > best * s2) {
            d = sx / s2;
            best = d * sx;
        }
    }
    return d;
}

/* Weights count importance * sqrt(sigma2 + x^2), or x^2 without importance. */
static void count_weights(const float *x, const float *importance, float sigma2, float *w)
{
    if (importance)
        lm_fit_weights(QK, x, importance, sigma2, w);
    else
        for (int i = 0; i < QK; i++)
            w[i] = x[i] * x[i];
}

static void codes(const float *x, float inv, uint8_t *q)
{
    for (int j = 0; j < QK / 2; j++)
        q[j] = (uint8_t)(nearest(inv * x[j]) | nearest(inv * x[j + QK / 2]) << 4);
}

static void encode_iq4_nl(enum lm_isa isa, const float *src, void *dst, size_t n,
                          const float *weights)
{
    (void)isa;
    struct iq4_nl *b = dst;
    for (size_t i = 0; i < n / QK; i++, src += QK) {
        float w[QK];
        count_weights(src, weights ? weights + i * QK : NULL,
                      lm_q_sum_sq(src, QK) * (2.0f / QK), w);
        float d = fit(src, w);
        lm_q_put_half(b[i].d, d);
        codes(src, d != 0 ? 1 / d : 0, b[i].q);
    }
}

static void encode_iq4_xs_block(struct iq4_xs *b, const float *x, const float *weights)
{
    float w[QK], scale[QK_K / QK], sigma2 = lm_q_sum_sq(x, QK_K) * (2.0f / QK_K);
    for (int g = 0; g < QK_K / QK; g++) {
        count_weights(x + g * QK, weights ? weights + g * QK : NULL, sigma2, w);
        scale[g] = fit(x + g * QK, w);
    }
    float d = -lm_q_max_abs(scale, QK_K / QK) / 32, inv = d != 0 ? 1 / d : 0;
    unsigned high = 0;
    memset(b, 0, sizeof *b);
    lm_q_put_half(b->d, d);
    for (int g = 0; g < QK_K / QK; g++) {
        int l = lm_q_clamp(lm_q_rne(inv * scale[g]), -32, 31);
        float dl = d * (float)l;
        codes(x + g * QK, dl != 0 ? 1 / dl : 0, b->q + 16 * g);
        b->sl[g / 2] |= (uint8_t)(((l + 32) & 15) << g % 2 * 4);
        high |= (unsigned)(l + 32) >> 4 << 2 * g;
    }
    lm_q_put_u16(b->sh, (uint16_t)high);
}

static void encode_iq4_xs(enum lm_isa isa, const float *src, void *dst, size_t n,
                          const float *weights)
{
    (void)isa;
    struct iq4_xs *b = dst;
    for (size_t i = 0; i < n / QK_K; i++)
        encode_iq4_xs_block(&b[i], src + i * QK_K, weights ? weights + i * QK_K : NULL);
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
    .decode = decode_iq4_nl, .encode = encode_iq4_nl, .invalid = invalid_iq4_nl,
};

const struct lm_type lm_type_iq4_xs = {
    .name = "iq4_xs", .id = LM_IQ4_XS, .block = QK_K, .bytes = sizeof(struct iq4_xs),
    .in_files = true, .source = "GGUF tensor type 23",
    .decode = decode_iq4_xs, .encode = encode_iq4_xs, .invalid = invalid_iq4_xs,
};
