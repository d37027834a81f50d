/* SPDX-License-Identifier: MIT */
/* Steps of recurrent layers in plain C. */
#include "backend/cpu/recur.h"

#include <math.h>

static void conv(float *y, const float *const *x, const float *w, size_t k, const float *bias,
                 size_t n)
{
    for (size_t c = 0; c < n; c++) {
        float sum = bias ? bias[c] : 0;
        for (size_t j = 0; j < k; j++)
            sum += w[j * n + c] * x[j][c];
        y[c] = sum;
    }
}

static void scan(float *s, size_t rows, size_t size, float decay, float dt, const float *x,
                 const float *b, const float *c, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float sum = 0, add = dt * x[r];
        for (size_t i = 0; i < size; i++) {
            s[i] = decay * s[i] + add * b[i];
            sum += s[i] * c[i];
        }
        y[r] = sum;
    }
}

static void scan_each(float *s, size_t rows, size_t size, const float *dt, const float *a,
                      const float *x, const float *b, const float *c, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size, a += size) {
        float sum = 0, add = dt[r] * x[r];
        for (size_t i = 0; i < size; i++) {
            s[i] = expf(dt[r] * a[i]) * s[i] + add * b[i];
            sum += s[i] * c[i];
        }
        y[r] = sum;
    }
}

static void delta(float *s, size_t rows, size_t size, float decay, float beta, const float *v,
                  const float *k, const float *q, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float seen = 0, sum = 0;
        for (size_t i = 0; i < size; i++) {
            s[i] *= decay;
            seen += s[i] * k[i];
        }
        float add = beta * (v[r] - seen);
        for (size_t i = 0; i < size; i++) {
            s[i] += add * k[i];
            sum += s[i] * q[i];
        }
        y[r] = sum;
    }
}

static void delta_each(float *s, size_t rows, size_t size, float rate, const float *decay,
                       float beta, const float *v, const float *k, const float *q, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float seen = 0, sum = 0;
        for (size_t i = 0; i < size; i++) {
            s[i] *= expf(rate * decay[i]);
            seen += s[i] * k[i];
        }
        float add = beta * (v[r] - seen);
        for (size_t i = 0; i < size; i++) {
            s[i] += add * k[i];
            sum += s[i] * q[i];
        }
        y[r] = sum;
    }
}

static void wkv6(float *s, size_t rows, size_t size, const float *decay, float bonus,
                 const float *v, const float *k, const float *q, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float sum = 0;
        for (size_t i = 0; i < size; i++) {
            sum += s[i] * q[i];
            s[i] = decay[i] * s[i] + v[r] * k[i];
        }
        y[r] = sum + v[r] * bonus;
    }
}

static void wkv7(float *s, size_t rows, size_t size, const float *decay, const float *a,
                 const float *b, const float *v, const float *k, const float *q, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float seen = 0, sum = 0;
        for (size_t i = 0; i < size; i++)
            seen += s[i] * a[i];
        for (size_t i = 0; i < size; i++) {
            s[i] = decay[i] * s[i] + v[r] * k[i] + seen * b[i];
            sum += s[i] * q[i];
        }
        y[r] = sum;
    }
}

static void gla(float *s, size_t rows, size_t size, const float *decay, const float *v,
                const float *k, const float *q, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size) {
        float sum = 0;
        for (size_t i = 0; i < size; i++) {
            s[i] = decay[i] * s[i] + v[r] * k[i];
            sum += s[i] * q[i];
        }
        y[r] = sum;
    }
}

static const struct lm_recur scalar = { conv, scan, scan_each, delta, delta_each, wkv6, wkv7,
                                        gla };

const struct lm_recur *lm_recur_find(enum lm_isa isa)
{
#if defined(__x86_64__)
    if (isa >= LM_ISA_AVX512)
        return &lm_recur_avx512;
    if (isa >= LM_ISA_AVX2)
        return &lm_recur_avx2;
#endif
    (void)isa;
    return &scalar;
}
