/* SPDX-License-Identifier: MIT */
/*
 * q4_K, q5_K: 256 weights in 8 sub-blocks of 32.  A sub-block has a 6-bit scale and a
 * 6-bit minimum, in units of two f16 numbers:
 *
 *   x = (d * scale) * n - (dmin * min)      n in 0..15 or 0..31
 *
 * The low four bits of weight e are a half of q[32 * (e / 64) + e % 32], the low half
 * for e % 64 < 32; the fifth bit is bit e / 32 of h[e % 32].
 *
 * Packing of (scale, min) pair j in 12 bytes p:
 *   j < 4   scale = low six bits of p[j], min = low six bits of p[j + 4]
 *   j >= 4  scale = low half of p[j + 4], above it the top two bits of p[j - 4];
 *           min = high half of p[j + 4], above it the top two bits of p[j]
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK_K 256

struct q4_k {
    uint8_t d[2], dmin[2];
    uint8_t sm[12];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct q4_k) == 144, "q4_K is 144 bytes on disk");

struct q5_k {
    uint8_t d[2], dmin[2];
    uint8_t sm[12];
    uint8_t h[QK_K / 8];
    uint8_t q[QK_K / 2];
};
_Static_assert(sizeof(struct q5_k) == 176, "q5_K is 176 bytes on disk");
_Static_assert(offsetof(struct q5_k, h) == offsetof(struct q4_k, q), "the same beginning");

static void get_pair(const uint8_t *p, int j, int *scale, int *min)
{
    if (j < 4) {
        *scale = p[j] & 63;
        *min = p[j + 4] & 63;
    } else {
        *scale = (p[j + 4] & 15) | p[j - 4] >> 6 << 4;
        *min = p[j + 4] >> 4 | p[j] >> 6 << 4;
    }
}

static void decode_q4_k(const void *src, float *dst, size_t n)
{
    const struct q4_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 8; s++) {
            int sc, mn;
            get_pair(b[i].sm, s, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b[i].q + 32 * (s / 2);
            for (int j = 0; j < 32; j++)
                dst[32 * s + j] = scale * (float)(q[j] >> s % 2 * 4 & 15) - min;
        }
    }
}

static void decode_q5_k(const void *src, float *dst, size_t n)
{
    const struct q5_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_half(b[i].d), dmin = lm_q_half(b[i].dmin);
        for (int s = 0; s < 8; s++) {
            int sc, mn;
            get_pair(b[i].sm, s, &sc, &mn);
            float scale = d * (float)sc, min = dmin * (float)mn;
            const uint8_t *q = b[i].q + 32 * (s / 2);
            for (int j = 0; j < 32; j++) {
                int code = (q[j] >> s % 2 * 4 & 15) | (b[i].h[j] >> s & 1) << 4;
                dst[32 * s + j] = scale * (float)code - min;
            }
        }
    }
}

/*
 * Encoding.  Each sub-block is fitted (fit.h) with weights av + |x|, where av is the root
 * of the sub-block's mean square, or with importance * sqrt(sigma2 + x^2), where sigma2
 * is twice the super-block's mean square.  Scales and minima are then brought to six
 * bits, and the codes computed anew from what is stored; where the stored scale is 0
 * they stay as fitted.
 */

#define BATCH (LM_FIT_COUNT / 8)     /* super-blocks that are fitted together */

struct batch {
    float   w[BATCH * QK_K];
    float   scale[BATCH * 8], min[BATCH * 8];
    uint8_t code[BATCH * QK_K];
};

static void put_pair(uint8_t *p, int j, uint8_t scale, uint8_t min)
{
    if (j < 4) {
        p[j] = scale;
        p[j + 4] = min;
    } else {
        p[j + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        p[j - 4] |= (uint8_t)(scale >> 4 << 6);
        p[j] |= (uint8_t)(min >> 4 << 6);
    }
}

static void plain_weights(const float *x, float *w)
{
    for (int s = 0; s < 8; s++, x += 32, w += 32) {
        float av = sqrtf(lm_q_sum_sq(x, 32) / 32);
        for (int j = 0; j < 32; j++)
            w[j] = av + lm_q_abs(x[j]);
    }
}

/* Bring eight scales or minima to six bits of the largest; returns what they are in
 * units of. */
static float plain_sixes(const float *scale, uint8_t *six)
{
    float max = 0;
    for (int s = 0; s < 8; s++)
        max = scale[s] > max ? scale[s] : max;
    float inv = max > 0 ? 63 / max : 0;
    for (int s = 0; s < 8; s++) {
        uint8_t v = (uint8_t)lm_q_rne(inv * scale[s]);
        six[s] = v < 63 ? v : 63;
    }
    return max / 63;
}

/* The same with importance: sum_w[s] is the weight of sub-block s.  Only q5_K limits what
 * the search gives. */
static float weighted_sixes(const float *scale, const float *sum_w, bool limit, uint8_t *six)
{
    float unit = lm_fit_positive(8, 63, scale, sum_w, six);
    for (int s = 0; s < 8; s++)
        if (limit && six[s] > 63)
            six[s] = 63;
    return unit;
}

/* d, dmin and the packed pairs of one super-block: the first 16 bytes of both types. */
static void encode_scales(const struct batch *t, int i, bool weighted, bool limit,
                          uint8_t *d, uint8_t *dmin, uint8_t *sm)
{
    uint8_t scale[8], min[8];
    float unit, unit_min, sum_w[8] = { 0 };
    if (weighted) {
        for (int j = 0; j < QK_K; j++)
            sum_w[j / 32] += t->w[i * QK_K + j];
        unit = weighted_sixes(t->scale + 8 * i, sum_w, limit, scale);
        unit_min = weighted_sixes(t->min + 8 * i, sum_w, limit, min);
    } else {
        unit = plain_sixes(t->scale + 8 * i, scale);
        unit_min = plain_sixes(t->min + 8 * i, min);
    }
    lm_q_put_half(d, unit);
    lm_q_put_half(dmin, unit_min);
    memset(sm, 0, 12);
    for (int s = 0; s < 8; s++)
        put_pair(sm, s, scale[s], min[s]);
}

static void recode(const struct lm_fit *fit, const float *x, int top, const uint8_t *d,
                   const uint8_t *dmin, const uint8_t *sm, uint8_t *code)
{
    for (int s = 0; s < 8; s++, x += 32, code += 32) {
        int sc, mn;
        get_pair(sm, s, &sc, &mn);
        float scale = lm_q_half(d) * (float)sc, min = lm_q_half(dmin) * (float)mn;
        if (scale != 0)
            fit->recode(32, x, min, scale, 0, top, code);
    }
}

/* Fit `count` super-blocks. */
static void fit_batch(const struct lm_affine *how, enum lm_isa isa, int count, const float *x,
                      const float *weights, struct batch *t)
{
    for (int i = 0; i < count; i++) {
        const float *xi = x + i * QK_K;
        if (weights)
            lm_fit(isa)->weights(QK_K, xi, weights + i * QK_K, 2 * lm_q_sum_sq(xi, QK_K) / QK_K,
                           t->w + i * QK_K);
        else
            plain_weights(xi, t->w + i * QK_K);
    }
    lm_fit(isa)->affine(how, 8 * count, x, t->w, t->scale, t->min, t->code);
}

/* Encode a row: both types begin with d, dmin and the pairs; put_codes stores the rest. */
static void encode(const struct lm_affine *how, enum lm_isa isa, const float *src,
                   uint8_t *dst, size_t bytes, size_t n, const float *weights,
                   void (*put_codes)(const uint8_t *code, void *block))
{
    struct batch t;
    for (size_t left = n / QK_K; left;) {
        int count = left < BATCH ? (int)left : BATCH;
        fit_batch(how, isa, count, src, weights, &t);
        for (int i = 0; i < count; i++, dst += bytes) {
            struct q4_k *b = (struct q4_k *)dst;
            uint8_t *code = t.code + i * QK_K;
            encode_scales(&t, i, weights, how->top == 31, b->d, b->dmin, b->sm);
            recode(lm_fit(isa), src + i * QK_K, how->top, b->d, b->dmin, b->sm, code);
            put_codes(code, dst);
        }
        src += count * QK_K;
        weights = weights ? weights + count * QK_K : NULL;
        left -= (size_t)count;
    }
}

static void put_nibbles(const uint8_t *code, uint8_t *q)
{
    for (int k = 0; k < QK_K / 64; k++)
        lm_q_pack(q + 32 * k, 32, code + 64 * k, 32, 2, 0, 4);
}

static void put_q4_k(const uint8_t *code, void *block)
{
    struct q4_k *b = block;
    put_nibbles(code, b->q);
}

static void put_q5_k(const uint8_t *code, void *block)
{
    struct q5_k *b = block;
    put_nibbles(code, b->q);
    lm_q_pack(b->h, 32, code, 32, 8, 4, 1);
}

static void encode_q4_k(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct lm_affine
        plain    = { .n = 32, .top = 15, .start = -1,    .step = 0.1f,  .steps = 20 },
        weighted = { .n = 32, .top = 15, .start = -0.9f, .step = 0.05f, .steps = 36 };
    encode(weights ? &weighted : &plain, isa, src, dst, sizeof(struct q4_k), n, weights,
           put_q4_k);
}

static void encode_q5_k(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct lm_affine
        plain    = { .n = 32, .top = 31, .start = -0.5f, .step = 0.1f,  .steps = 15 },
        weighted = { .n = 32, .top = 31, .start = -0.9f, .step = 0.05f, .steps = 36 };
    encode(weights ? &weighted : &plain, isa, src, dst, sizeof(struct q5_k), n, weights,
           put_q5_k);
}

static int64_t invalid_q4_k(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q4_k), 0);
}

static int64_t invalid_q5_k(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK_K, sizeof(struct q5_k), 0);
}

const struct lm_type lm_type_q4_k = {
    .name = "q4_K", .id = LM_Q4_K, .block = QK_K, .bytes = sizeof(struct q4_k),
    .in_files = true, .source = "GGUF tensor type 12",
    .end = LM_Q_HALF_END * 63 * 16,
    .decode = decode_q4_k, .encode = encode_q4_k, .invalid = invalid_q4_k,
};

const struct lm_type lm_type_q5_k = {
    .name = "q5_K", .id = LM_Q5_K, .block = QK_K, .bytes = sizeof(struct q5_k),
    .in_files = true, .source = "GGUF tensor type 13",
    .end = LM_Q_HALF_END * 63 * 32,
    .decode = decode_q5_k, .encode = encode_q5_k, .invalid = invalid_q5_k,
};
