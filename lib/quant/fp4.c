/* SPDX-License-Identifier: MIT */
/*
 * mxfp4, nvfp4: four-bit floats (E2M1) with a scale byte.  The table holds twice their
 * values, so scales are half of what the formats name.
 *
 * mxfp4  32 weights, scale 2^(E - 128), nibbles ordered as in q4_0
 * nvfp4  64 weights in groups of 16; a group's scale is an unsigned E4M3 number, and its
 *        16 weights are ordered in 8 bytes as q4_0 orders 32 in 16.  (The scale of the
 *        whole tensor is a tensor of its own.)
 *
 * Sources: OCP Microscaling Formats 1.0; GGUF tensor types 39 and 40.
 */
#include "quant/block.h"
#include "quant/fit.h"

#define QK_MX 32
#define QK_NV 64

struct mxfp4 {
    uint8_t e;
    uint8_t q[QK_MX / 2];
};
_Static_assert(sizeof(struct mxfp4) == 17, "mxfp4 is 17 bytes on disk");

struct nvfp4 {
    uint8_t u[QK_NV / 16];
    uint8_t q[QK_NV / 2];
};
_Static_assert(sizeof(struct nvfp4) == 36, "nvfp4 is 36 bytes on disk");

/* 2^(e - 128); the two lowest are subnormal. */
static float scale_e8m0(uint8_t e)
{
    return lm_q_float(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an unsigned E4M3 number; bit 7 is ignored but for 0x7f, which counts as 0. */
static float scale_e4m3(uint8_t u)
{
    if (u == 0x7f)
        return 0;
    uint32_t e = u >> 3 & 15, m = u & 7;
    if (e == 0)
        return (float)m * 0x1p-10f;
    return lm_q_float((e + 119) << 23 | m << 20);       /* (1 + m / 8) * 2^(e - 8) */
}

static void decode_mxfp4(const void *src, float *dst, size_t n)
{
    const struct mxfp4 *b = src;
    for (size_t i = 0; i < n / QK_MX; i++, dst += QK_MX) {
        float s = scale_e8m0(b[i].e);
        for (int j = 0; j < QK_MX / 2; j++) {
            dst[j] = lm_fit_e2m1[b[i].q[j] & 15] * s;
            dst[j + QK_MX / 2] = lm_fit_e2m1[b[i].q[j] >> 4] * s;
        }
    }
}

static void decode_nvfp4(const void *src, float *dst, size_t n)
{
    const struct nvfp4 *b = src;
    for (size_t i = 0; i < n / QK_NV; i++)
        for (int g = 0; g < QK_NV / 16; g++, dst += 16) {
            float s = scale_e4m3(b[i].u[g]);
            const uint8_t *q = b[i].q + 8 * g;
            for (int j = 0; j < 8; j++) {
                dst[j] = lm_fit_e2m1[q[j] & 15] * s;
                dst[j + 8] = lm_fit_e2m1[q[j] >> 4] * s;
            }
        }
}

/*
 * The exponent of the largest magnitude a, less that of the largest code, 6 = 1.5 * 2^2.  The
 * logarithm is rounded to float first, and so reaches a power of two from just below it; as
 * it has 16 bits or more after the point, not from further than 256 * 2^-23 of it.
 */
static uint8_t exponent(float a)
{
    const uint32_t bits = lm_q_bits(a);
    if (!(a > 0))
        return 0;
    if (bits >> 23 && (bits & 0x7fffff) < 0x7fff00)
        return (uint8_t)((bits >> 23) - 2);
    return (uint8_t)((int)floorf((float)log2((double)a)) - 2 + 127);
}

static void encode_mxfp4(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct mxfp4 *b = dst;
    for (size_t i = 0; i < n / QK_MX; i++, src += QK_MX) {
        uint8_t codes[QK_MX];
        b[i].e = exponent(lm_q_abs(lm_fit(isa)->extreme(QK_MX, src)));
        lm_fit(isa)->e2m1(QK_MX, src, scale_e8m0(b[i].e), codes);
        lm_fit(isa)->nibbles(1, codes, b[i].q, NULL, 0);
    }
}

/* t as unsigned E4M3, rounded half up; 0x7e (448) at most. */
static uint8_t to_e4m3(float t)
{
    if (!(t > 0))
        return 0;
    uint32_t u = lm_q_bits(t > 448 ? 448 : t);
    int p = (int)(u >> 23) - 127 + 7, f = (int)(u >> 20 & 7) + (int)(u >> 19 & 1);
    if (p <= 0) {
        int k = (int)(t * 512 + 0.5f);
        return (uint8_t)(k > 7 ? 7 : k);
    }
    if (f > 7) {
        f = 0;
        p++;
    }
    return (uint8_t)(p >= 15 ? 0x7e : p * 8 + f);
}

static void encode_nvfp4(enum lm_isa isa, const float *src, void *dst, size_t n,
                        const float *weights)
{
    (void)weights;
    struct nvfp4 *b = dst;
    for (size_t i = 0; i < n / QK_NV; i++)
        for (int g = 0; g < QK_NV / 16; g++, src += 16) {
            uint8_t codes[16];
            b[i].u[g] = to_e4m3(lm_q_abs(lm_fit(isa)->extreme(16, src)) / 6);
            lm_fit(isa)->e2m1(16, src, scale_e4m3(b[i].u[g]), codes);
            lm_q_pack(b[i].q + 8 * g, 8, codes, 8, 2, 0, 4);
        }
}

static int64_t invalid_mxfp4(const void *src, size_t n)
{
    const struct mxfp4 *b = src;
    for (size_t i = 0; i < n / QK_MX; i++)
        if (b[i].e == 255)
            return (int64_t)i;
    return -1;
}

const struct lm_type lm_type_mxfp4 = {
    .name = "mxfp4", .id = LM_MXFP4, .block = QK_MX, .bytes = sizeof(struct mxfp4),
    .in_files = true, .source = "GGUF tensor type 39; OCP Microscaling Formats 1.0",
    .end = INFINITY,
    .decode = decode_mxfp4, .encode = encode_mxfp4, .invalid = invalid_mxfp4,
};

const struct lm_type lm_type_nvfp4 = {
    .name = "nvfp4", .id = LM_NVFP4, .block = QK_NV, .bytes = sizeof(struct nvfp4),
    .in_files = true, .source = "GGUF tensor type 40",
    .end = 464 * 6,        /* from there on scales would be beyond 448 */
    .decode = decode_nvfp4, .encode = encode_nvfp4,
};
