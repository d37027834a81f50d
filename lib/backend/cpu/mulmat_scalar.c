/* SPDX-License-Identifier: MIT */
/*
 * Matrix products in plain C: they define the results, and serve machines
 * without wider instructions.
 */

#include "backend/cpu/mulmat_rows.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/mulmat_q8.h"

size_t lm_mulmat_f32_bytes(size_t cols)
{
    return (cols * sizeof(float) + 63) & ~(size_t)63;
}

void lm_mulmat_f32_act(const float *x, size_t cols, void *dst)
{
    memcpy(dst, x, cols * sizeof(float));
}

size_t lm_mulmat_file_bytes(const struct lm_type *t, size_t cols)
{
    return cols / t->block * t->bytes;
}

/* Sum of products of n floats: eight running sums, added at the end. */
static float dot(const float *a, const float *b, size_t n)
{
    float s[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            s[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        s[i % 8] += a[i] * b[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* Any type: decode 256 weights of the row, multiply them with every activation row. */
static void mul_any(const struct lm_type *t, const void *panel, size_t n_rows, size_t cols,
                    const void *act, size_t n, float *y, size_t y_stride)
{
    const uint8_t *w = panel;
    const float *x = act;
    size_t x_stride = lm_mulmat_f32_bytes(cols) / sizeof(float);
    float tile[256];
    (void)n_rows;                                     /* always one */
    for (size_t i = 0; i < n; i++)
        y[i * y_stride] = 0;
    for (size_t c = 0; c < cols; c += 256) {
        size_t len = cols - c < 256 ? cols - c : 256;
        t->decode(w + c / t->block * t->bytes, tile, len);
        for (size_t i = 0; i < n; i++)
            y[i * y_stride] += dot(tile, x + i * x_stride + c, len);
    }
}

static const struct lm_cpu_mulmat any = {
    .type_id = LM_MULMAT_ANY, .isa = LM_ISA_SCALAR, .rows = 1,
    .panel_bytes = lm_mulmat_file_bytes,
    .act_bytes = lm_mulmat_f32_bytes, .act = lm_mulmat_f32_act, .mul = mul_any,
};

/* ---- quantized weights: activations rounded to 8 bits, as all instruction sets do ---- */

static size_t q8_bytes(size_t cols)
{
    return (cols / 32 * sizeof(struct lm_q8_act) + 63) & ~(size_t)63;
}

static void q8_block(const float *x, struct lm_q8_act *out)
{
    float top = 0;
    int sum[2] = { 0, 0 };
    for (size_t i = 0; i < 32; i++)
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    if (top < 0x1p-100f) {                            /* 127 / top must be finite */
        memset(out, 0, sizeof *out);
        return;
    }
    float f = 127 / top;
    for (size_t i = 0; i < 32; i++) {
        out->q[i] = (int8_t)lrintf(x[i] * f);         /* to nearest, ties to even */
        sum[i / 16] += out->q[i];
    }
    out->d = top / 127;
    out->s = out->d * (float)(sum[0] + sum[1]);
    out->s_half[0] = out->d * (float)sum[0];
    out->s_half[1] = out->d * (float)sum[1];
}

static void q8_act(const float *x, size_t cols, void *dst)
{
    for (size_t b = 0; b < cols / 32; b++)
        q8_block(x + 32 * b, (struct lm_q8_act *)dst + b);
}

static float dot_q8(const float *w, const struct lm_q8_act *a)
{
    float s[8] = {0};
    for (size_t i = 0; i < 32; i += 8)
        for (size_t k = 0; k < 8; k++)
            s[k] += w[i + k] * (float)a->q[i + k];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* Decode 256 weights of the row, multiply them with every token's. */
static void mul_q8(const struct lm_type *t, const void *panel, size_t n_rows, size_t cols,
                   const void *act, size_t n, float *y, size_t y_stride)
{
    const uint8_t *w = panel;
    float tile[256];
    (void)n_rows;                                     /* always one */
    for (size_t i = 0; i < n; i++)
        y[i * y_stride] = 0;
    for (size_t c = 0; c < cols; c += 256) {
        size_t len = cols - c < 256 ? cols - c : 256;
        t->decode(w + c / t->block * t->bytes, tile, len);
        for (size_t i = 0; i < n; i++) {
            const struct lm_q8_act *a = (const void *)((const char *)act + i * q8_bytes(cols));
            for (size_t b = 0; b < len / 32; b++)
                y[i * y_stride] += dot_q8(tile + 32 * b, a + c / 32 + b) * a[c / 32 + b].d;
        }
    }
}

#define Q8_ROW(ID) \
    &(const struct lm_cpu_mulmat){ \
        .type_id = ID, .isa = LM_ISA_SCALAR, .rows = 1, .panel_bytes = lm_mulmat_file_bytes, \
        .act_bytes = q8_bytes, .act = q8_act, .mul = mul_q8, \
    }

const struct lm_cpu_mulmat *const lm_mulmat_scalar[] = {
    Q8_ROW(LM_Q4_0), Q8_ROW(LM_Q4_1), Q8_ROW(LM_Q5_0), Q8_ROW(LM_Q5_1), Q8_ROW(LM_Q8_0),
    Q8_ROW(LM_Q2_K), Q8_ROW(LM_Q3_K), Q8_ROW(LM_Q4_K), Q8_ROW(LM_Q5_K), Q8_ROW(LM_Q6_K),
    Q8_ROW(LM_IQ1_S), Q8_ROW(LM_IQ1_M), Q8_ROW(LM_IQ2_XXS), Q8_ROW(LM_IQ2_XS), Q8_ROW(LM_IQ2_S),
    Q8_ROW(LM_IQ3_XXS), Q8_ROW(LM_IQ3_S), Q8_ROW(LM_IQ4_NL), Q8_ROW(LM_IQ4_XS),
    Q8_ROW(LM_TQ1_0), Q8_ROW(LM_TQ2_0), Q8_ROW(LM_NVFP4), Q8_ROW(LM_Q1_0), Q8_ROW(LM_Q2_0),
    &any, NULL
};
