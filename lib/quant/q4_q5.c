/* SPDX-License-Identifier: MIT */
/*
 * q4_0, q4_1, q5_0, q5_1: 32 weights share an f16 scale d, and the _1 types an f16
 * minimum m as well.
 *
 *   _0   x = (n - N) * d      N = 8 or 16
 *   _1   x = n * d + m
 *
 * Byte j of q holds the low four bits of weight j in its low half and those of weight
 * j + 16 in its high half; the fifth bit of weight e is bit e of h.
 */

#include "quant/block.h"
#include "quant/fit.h"

#define QK 32

struct q4_0 {
    uint8_t d[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q4_0) == 18, "q4_0 is 18 bytes on disk");

struct q4_1 {
    uint8_t d[2], m[2];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q4_1) == 20, "q4_1 is 20 bytes on disk");

struct q5_0 {
    uint8_t d[2];
    uint8_t h[4];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q5_0) == 22, "q5_0 is 22 bytes on disk");

struct q5_1 {
    uint8_t d[2], m[2];
    uint8_t h[4];
    uint8_t q[QK / 2];
};
_Static_assert(sizeof(struct q5_1) == 24, "q5_1 is 24 bytes on disk");

static void decode_q4_0(const void *src, float *dst, size_t n)
{
    const struct q4_0 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)((b[i].q[j] & 15) - 8) * d;
            dst[j + QK / 2] = (float)((b[i].q[j] >> 4) - 8) * d;
        }
    }
}

static void decode_q4_1(const void *src, float *dst, size_t n)
{
    const struct q4_1 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d), m = lm_q_half(b[i].m);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)(b[i].q[j] & 15) * d + m;
            dst[j + QK / 2] = (float)(b[i].q[j] >> 4) * d + m;
        }
    }
}

/* Five-bit codes j and j + 16 from a byte of low parts and the high bits. */
static inline int code_lo(uint8_t q, uint32_t h, int j)
{
    return (q & 15) | (int)(h >> j & 1) << 4;
}

static inline int code_hi(uint8_t q, uint32_t h, int j)
{
    return q >> 4 | (int)(h >> (j + QK / 2) & 1) << 4;
}

static void decode_q5_0(const void *src, float *dst, size_t n)
{
    const struct q5_0 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d);
        uint32_t h = lm_q_u32(b[i].h);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)(code_lo(b[i].q[j], h, j) - 16) * d;
            dst[j + QK / 2] = (float)(code_hi(b[i].q[j], h, j) - 16) * d;
        }
    }
}

static void decode_q5_1(const void *src, float *dst, size_t n)
{
    const struct q5_1 *b = src;
    for (size_t i = 0; i < n / QK; i++, dst += QK) {
        float d = lm_q_half(b[i].d), m = lm_q_half(b[i].m);
        uint32_t h = lm_q_u32(b[i].h);
        for (int j = 0; j < QK / 2; j++) {
            dst[j] = (float)code_lo(b[i].q[j], h, j) * d + m;
            dst[j + QK / 2] = (float)code_hi(b[i].q[j], h, j) * d + m;
        }
    }
}

/*
 * Encoding.  Without importance the extreme weights set the scale; with importance a
 * search does (fit.h), each weight counting importance * sqrt(mean of x^2 in the row +
 * x^2).  Either way the block's numbers are d, m and 32 codes, packed below.
 */

/* Up to LM_FIT_MANY blocks on their way. */
struct batch {
    int      count;
    float    d[LM_FIT_MANY], m[LM_FIT_MANY];
    uint16_t hd[LM_FIT_MANY], hm[LM_FIT_MANY];       /* the same as f16 */
    float    w[LM_FIT_MANY * QK];
    uint8_t  code[LM_FIT_MANY][QK];
};

/* How the four types differ.  d comes first, then m; q and h are where those begin. */
struct form {
    int    half;        /* codes are less than twice this         */
    bool   min;         /* a minimum is stored                    */
    size_t bytes, q, h; /* of a block; h is 0 if there is none    */
};

/* Codes of four bits go to dst at once. */
static void plain_batch(const struct form *f, struct batch *t, const struct lm_fit *fit,
                        const float *x, uint8_t *dst)
{
    if (f->half == 8 && f->min)
        fit->range4(t->count, x, t->d, t->m, dst + f->q, f->bytes);
    else if (f->half == 8)
        fit->extremes4(t->count, x, t->d, dst + f->q, f->bytes);
    else if (f->min)
        fit->range(2 * f->half - 1, t->count, x, t->d, t->m, t->code[0]);
    else
        fit->extremes(f->half, t->count, x, t->d, t->code[0]);
}

static void weighted_batch(const struct form *f, struct batch *t, const struct lm_fit *fit,
                           const float *x)
{
    const struct lm_affine how = {
        .n = QK, .top = 2 * f->half - 1, .start = -0.9f, .step = 0.05f, .steps = 36,
    };
    if (!f->min) {
        fit->symmetric(QK, f->half, t->count, x, t->w, t->d, t->code[0]);
        return;
    }
    fit->affine(&how, t->count, x, t->w, t->d, t->m, t->code[0]);
    for (int i = 0; i < t->count; i++)
        t->m[i] = -t->m[i];
}

static void put_scales(const struct form *f, struct batch *t, const struct lm_fit *fit,
                       uint8_t *dst)
{
    fit->halves(t->count, t->d, t->hd);
    if (f->min)
        fit->halves(t->count, t->m, t->hm);
    for (int i = 0; i < t->count; i++, dst += f->bytes) {
        lm_q_put_u16(dst, t->hd[i]);
        if (f->min)
            lm_q_put_u16(dst + 2, t->hm[i]);
    }
}

static void encode(const struct form *f, enum lm_isa isa, const float *src, uint8_t *dst,
                   size_t n, const float *weights)
{
    struct batch t;
    const struct lm_fit *fit = lm_fit(isa);
    float sigma2 = weights ? lm_q_sum_sq(src, n) / (float)n : 0;
    for (size_t i = 0; i < n; i += (size_t)t.count * QK) {
        size_t left = (n - i) / QK;
        uint8_t *out = dst + i / QK * f->bytes;
        t.count = left < LM_FIT_MANY ? (int)left : LM_FIT_MANY;
        if (weights) {
            fit->weights(t.count * QK, src + i, weights + i, sigma2, t.w);
            weighted_batch(f, &t, fit, src + i);
        } else
            plain_batch(f, &t, fit, src + i, out);
        if (weights || f->half > 8)
            fit->nibbles(t.count, t.code[0], out + f->q, f->h ? out + f->h : NULL, f->bytes);
        put_scales(f, &t, fit, out);
    }
}

static void encode_q4_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct form f = {
        8, false, sizeof(struct q4_0), offsetof(struct q4_0, q), 0
    };
    encode(&f, isa, src, dst, n, weights);
}

static void encode_q4_1(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct form f = {
        8, true, sizeof(struct q4_1), offsetof(struct q4_1, q), 0
    };
    encode(&f, isa, src, dst, n, weights);
}

static void encode_q5_0(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct form f = {
        16, false, sizeof(struct q5_0), offsetof(struct q5_0, q), offsetof(struct q5_0, h)
    };
    encode(&f, isa, src, dst, n, weights);
}

static void encode_q5_1(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    static const struct form f = {
        16, true, sizeof(struct q5_1), offsetof(struct q5_1, q), offsetof(struct q5_1, h)
    };
    encode(&f, isa, src, dst, n, weights);
}

static int64_t invalid_q4_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q4_0), 0);
}

static int64_t invalid_q4_1(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK, sizeof(struct q4_1), 0);
}

static int64_t invalid_q5_0(const void *src, size_t n)
{
    return lm_q_bad_half_at(src, n / QK, sizeof(struct q5_0), 0);
}

static int64_t invalid_q5_1(const void *src, size_t n)
{
    return lm_q_bad_halves_at(src, n / QK, sizeof(struct q5_1), 0);
}

const struct lm_type lm_type_q4_0 = {
    .name = "q4_0", .id = LM_Q4_0, .block = QK, .bytes = sizeof(struct q4_0),
    .in_files = true, .source = "GGUF tensor type 2",
    .end = LM_Q_HALF_END * 8,
    .decode = decode_q4_0, .encode = encode_q4_0, .invalid = invalid_q4_0,
};

const struct lm_type lm_type_q4_1 = {
    .name = "q4_1", .id = LM_Q4_1, .block = QK, .bytes = sizeof(struct q4_1),
    .in_files = true, .source = "GGUF tensor type 3",
    .end = LM_Q_HALF_END * 16,
    .decode = decode_q4_1, .encode = encode_q4_1, .invalid = invalid_q4_1,
};

const struct lm_type lm_type_q5_0 = {
    .name = "q5_0", .id = LM_Q5_0, .block = QK, .bytes = sizeof(struct q5_0),
    .in_files = true, .source = "GGUF tensor type 6",
    .end = LM_Q_HALF_END * 16,
    .decode = decode_q5_0, .encode = encode_q5_0, .invalid = invalid_q5_0,
};

const struct lm_type lm_type_q5_1 = {
    .name = "q5_1", .id = LM_Q5_1, .block = QK, .bytes = sizeof(struct q5_1),
    .in_files = true, .source = "GGUF tensor type 7",
    .end = LM_Q_HALF_END * 32,
    .decode = decode_q5_1, .encode = encode_q5_1, .invalid = invalid_q5_1,
};
