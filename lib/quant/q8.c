/* SPDX-License-Identifier: MIT */
/*
 * q8_0, q8_1, q8_K: signed bytes with a scale, x = q * d.
 *
 *   q8_0   32 weights, f16 scale
 *   q8_1   the same, and s = d times the sum of the bytes as f16
 *   q8_K   256 weights, f32 scale, and the sums of each 16 bytes as i16
 *
 * q8_1 and q8_K are forms of activations; files do not hold them.
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK 32
#define QK_K 256

struct q8_0 {
    uint8_t d[2];
    int8_t  q[QK];
};
_Static_assert(sizeof(struct q8_0) == 34, "q8_0 is 34 bytes on disk");

struct q8_1 {
    uint8_t d[2], s[2];
    int8_t  q[QK];
};
_Static_assert(sizeof(struct q8_1) == 36, "q8_1 is 36 bytes");

struct q8_k {
    uint8_t d[4];
    int8_t  q[QK_K];
    uint8_t sums[QK_K / 16][2];
};
_Static_assert(sizeof(struct q8_k) == 292, "q8_K is 292 bytes");

static void decode_q8_0(const void *src, float *dst, size_t n)
{
    const struct q8_0 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK; j++)
            dst[j] = (float)b[i].q[j] * d;
    }
}

static void decode_q8_1(const void *src, float *dst, size_t n)
{
    const struct q8_1 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK; j++)
            dst[j] = (float)b[i].q[j] * d;
    }
}

static void decode_q8_k(const void *src, float *dst, size_t n)
{
    const struct q8_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++, dst += QK_K) {
        float d = lm_q_float(lm_q_u32(b[i].d));
        for (int j = 0; j < QK_K; j++)
            dst[j] = d * (float)b[i].q[j];
    }
}

/* Up to LM_FIT_MANY blocks on their way. */
struct batch {
    size_t   count;
    float    d[LM_FIT_MANY];
    uint16_t h[LM_FIT_MANY];           /* d as f16 */
    int8_t   q[LM_FIT_MANY][QK];
};

/* The next of `left` blocks. */
static void next_batch(const struct lm_fit *fit, size_t left, const float *src, struct batch *t)
{
    t->count = left < LM_FIT_MANY ? left : LM_FIT_MANY;
    fit->bytes((int)t->count, src, t->d, t->q[0]);
    fit->halves((int)t->count, t->d, t->h);
}

static void encode_q8_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct q8_0 *b = dst;
    struct batch t;
    for (size_t i = 0; i < n / QK; i += t.count) {
        next_batch(lm_fit(isa), n / QK - i, src + i * QK, &t);
        for (size_t k = 0; k < t.count; k++, b++) {
            lm_q_put_u16(b->d, t.h[k]);
            memcpy(b->q, t.q[k], QK);
        }
    }
}

static void encode_q8_1(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct q8_1 *b = dst;
    struct batch t;
    for (size_t i = 0; i < n / QK; i += t.count) {
        next_batch(lm_fit(isa), n / QK - i, src + i * QK, &t);
        for (size_t k = 0; k < t.count; k++, b++) {
            int sum = 0;
            for (int j = 0; j < QK; j++)
                sum += t.q[k][j];
            lm_q_put_u16(b->d, t.h[k]);
            lm_q_put_half(b->s, (float)sum * t.d[k]);
            memcpy(b->q, t.q[k], QK);
        }
    }
}

static void encode_q8_k(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct q8_k *b = dst;
    for (size_t i = 0; i < n / QK_K; i++, src += QK_K) {
        float m = lm_fit(isa)->extreme(QK_K, src);
        if (m == 0) {
            memset(&b[i], 0, sizeof b[i]);
            continue;
        }
        float inv = -127 / m;
        lm_fit(isa)->nearest(QK_K, src, inv, b[i].q);
        for (int s = 0; s < QK_K / 16; s++) {
            int sum = 0;
            for (int j = 0; j < 16; j++)
                sum += b[i].q[16 * s + j];
            lm_q_put_u16(b[i].sums[s], (uint16_t)sum);
        }
        lm_q_put_u32(b[i].d, lm_q_bits(1 / inv));
    }
}

static int64_t invalid_q8_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q8_0), 0);
}

static int64_t invalid_q8_1(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q8_1), 0);
}

static int64_t invalid_q8_k(const void *src, size_t n)
{
    const struct q8_k *b = src;
    for (size_t i = 0; i < n / QK_K; i++)
        if (lm_q_float_bad(lm_q_float(lm_q_u32(b[i].d))))
            return (int64_t)i;
    return -1;
}

const struct lm_type lm_type_q8_0 = {
    .name = "q8_0", .id = LM_Q8_0, .block = QK, .bytes = sizeof(struct q8_0),
    .in_files = true, .source = "GGUF tensor type 8",
    .end = LM_Q_HALF_END * 127,
    .decode = decode_q8_0, .encode = encode_q8_0, .invalid = invalid_q8_0,
};

const struct lm_type lm_type_q8_1 = {
    .name = "q8_1", .id = LM_Q8_1, .block = QK, .bytes = sizeof(struct q8_1),
    .source = "GGUF tensor type 9, not in files",
    .decode = decode_q8_1, .encode = encode_q8_1, .invalid = invalid_q8_1,
};

const struct lm_type lm_type_q8_k = {
    .name = "q8_K", .id = LM_Q8_K, .block = QK_K, .bytes = sizeof(struct q8_k),
    .source = "GGUF tensor type 15, not in files",
    .decode = decode_q8_k, .encode = encode_q8_k, .invalid = invalid_q8_k,
};
