/* SPDX-License-Identifier: MIT */
/*
 * Rows of a cache as floats, and their products with a query: for kernels that are included once
 * for each instruction set (attn_simd.h, choose_simd.h).
 */

#include "backend/cpu/simd.h"

#include "backend/cpu/attn_isa.h"

#define TILE LM_ATTN_TILE

/* d items of F32 or F16 as floats, then zeros up to d_pad, a multiple of W. */
static void load_floats(float *dst, const uint8_t *src, uint32_t type, size_t d, size_t d_pad)
{
    size_t i = 0;
    uint8_t part[4 * W] = {0};
    if (type == LM_F32) {
        for (; i + W <= d; i += W)
            vf_store(dst + i, vf_load((const void *)(src + 4 * i)));
        memcpy(part, src + 4 * i, 4 * (d - i));
    } else {
        for (; i + W <= d; i += W)
            vf_store(dst + i, vf_f16(src + 2 * i));
        memcpy(part, src + 2 * i, 2 * (d - i));
    }
    if (i == d_pad)
        return;
    memset(dst + i, 0, (d_pad - i) * sizeof(float));
    vf_store(dst + i, type == LM_F32 ? vf_load((const void *)part) : vf_f16(part));
}

/* The same of a row of any type. */
static void load_row(float *dst, const uint8_t *src, uint32_t type,
                     void (*decode)(const void *, float *, size_t), size_t d, size_t d_pad)
{
    if (type == LM_F32 || type == LM_F16) {
        load_floats(dst, src, type, d, d_pad);
        return;
    }
    decode(src, dst, d);
    memset(dst + d, 0, (d_pad - d) * sizeof(float));
}

/* Zero rows behind n of them, to a multiple of W. */
static void fill_tile(float *dst, size_t n, size_t d_pad)
{
    const size_t whole = (n + W - 1) / W * W;
    memset(dst + n * d_pad, 0, (whole - n) * d_pad * sizeof(float));
}

/* n rows of d items, `row` bytes apart, as floats, d_pad apart; zero rows after them. */
static void load_tile(float *dst, const uint8_t *src, size_t row, uint32_t type,
                      void (*decode)(const void *, float *, size_t), size_t n, size_t d,
                      size_t d_pad)
{
    const size_t item = type == LM_F32 ? 4 : type == LM_F16 ? 2 : 0;
    if (item && d == d_pad && row == d * item)
        load_floats(dst, src, type, n * d, n * d);    /* as one long row */
    else
        for (size_t p = 0; p < n; p++)
            load_row(dst + p * d_pad, src + p * row, type, decode, d, d_pad);
    fill_tile(dst, n, d_pad);
}

/* Products of q with W rows of k. */
INLINE vf dots(const float *q, const float *k, size_t d_pad)
{
    vf sum[W];
    UNROLL for (size_t p = 0; p < W; p++)
        sum[p] = vf_zero();
    for (size_t i = 0; i < d_pad; i += W) {
        vf x = vf_load(q + i);
        UNROLL for (size_t p = 0; p < W; p++)
            sum[p] = vf_fma(x, vf_load(k + p * d_pad + i), sum[p]);
    }
    return vf_sums(sum);
}
