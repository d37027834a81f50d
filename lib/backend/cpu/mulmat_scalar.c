/* SPDX-License-Identifier: MIT */
/*
 * Matrix products in plain C: they define the results, and serve machines
 * without wider instructions.
 */

#include "backend/cpu/mulmat_rows.h"

#include <string.h>

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

const struct lm_cpu_mulmat *const lm_mulmat_scalar[] = { &any, NULL };
