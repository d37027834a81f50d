/* SPDX-License-Identifier: MIT */
/*
 * Steps of recurrent layers with vectors.  Included once by recur_avx2.c and once by
 * recur_avx512.c.  Four rows of a state are done at a time: they share the loads of b, c, k
 * and q, and their sums do not wait for each other.
 */

#include "backend/cpu/recur.h"
#include "backend/cpu/simd.h"

/* f for all rows of the state s, four at a time and then one by one: f(s, N, size, in, y, others)
 * has N rows, a number of `in` and of y for each. */
#define BY_FOURS(f, in, ...) \
    do { \
        size_t r = 0; \
        for (; r + 4 <= rows; r += 4) \
            f(s + r * size, 4, size, (in) + r, y + r, __VA_ARGS__); \
        for (; r < rows; r++) \
            f(s + r * size, 1, size, (in) + r, y + r, __VA_ARGS__); \
    } while (0)

/* Up to W floats of a row from i on. */
INLINE vf part(const float *p, size_t i, size_t n)
{
    return i + W <= n ? vf_load(p + i) : vf_load_n(p + i, n - i);
}

INLINE void put(float *p, size_t i, size_t n, vf a)
{
    if (i + W <= n)
        vf_store(p + i, a);
    else
        vf_store_n(p + i, a, n - i);
}

static void conv(float *y, const float *const *x, const float *w, size_t k, const float *bias,
                 size_t n)
{
    for (size_t c = 0; c < n; c += W) {
        vf sum = bias ? part(bias, c, n) : vf_zero();
        for (size_t j = 0; j < k; j++)
            sum = vf_fma(part(w + j * n, c, n), part(x[j], c, n), sum);
        put(y, c, n, sum);
    }
}

INLINE void scan_rows(float *s, size_t N, size_t size, const float *x, float *y, vf decay,
                      float dt, const float *b, const float *c)
{
    vf sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++) {
        sum[r] = vf_zero();
        add[r] = vf_set1(dt * x[r]);
    }
    for (size_t i = 0; i < size; i += W) {
        vf vb = part(b, i, size), vc = part(c, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_fma(add[r], vb, vf_mul(decay, part(row, i, size)));
            sum[r] = vf_fma(h, vc, sum[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]);
}

static void scan(float *s, size_t rows, size_t size, float decay, float dt, const float *x,
                 const float *b, const float *c, float *y)
{
    const vf d = vf_set1(decay);
    BY_FOURS(scan_rows, x, d, dt, b, c);
}

static void scan_each(float *s, size_t rows, size_t size, const float *dt, const float *a,
                      const float *x, const float *b, const float *c, float *y)
{
    for (size_t r = 0; r < rows; r++, s += size, a += size) {
        vf sum = vf_zero(), step = vf_set1(dt[r]), add = vf_set1(dt[r] * x[r]);
        for (size_t i = 0; i < size; i += W) {
            vf decay = vf_exp(vf_mul(step, part(a, i, size)));
            vf h = vf_fma(add, part(b, i, size), vf_mul(decay, part(s, i, size)));
            sum = vf_fma(h, part(c, i, size), sum);
            put(s, i, size, h);
        }
        y[r] = vf_sum(sum);
    }
}

INLINE void delta_rows(float *s, size_t N, size_t size, const float *v, float *y, vf decay,
                       float beta, const float *k, const float *q)
{
    vf seen[4], sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++)
        seen[r] = sum[r] = vf_zero();
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size);
        UNROLL for (size_t r = 0; r < N; r++)
            seen[r] = vf_fma(vf_mul(decay, part(s + r * size, i, size)), vk, seen[r]);
    }
    UNROLL for (size_t r = 0; r < N; r++)
        add[r] = vf_set1(beta * (v[r] - vf_sum(seen[r])));
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), vq = part(q, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_fma(add[r], vk, vf_mul(decay, part(row, i, size)));
            sum[r] = vf_fma(h, vq, sum[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]);
}

static void delta(float *s, size_t rows, size_t size, float decay, float beta, const float *v,
                  const float *k, const float *q, float *y)
{
    const vf d = vf_set1(decay);
    BY_FOURS(delta_rows, v, d, beta, k, q);
}

INLINE void delta_each_rows(float *s, size_t N, size_t size, const float *v, float *y, vf rate,
                            const float *decay, float beta, const float *k, const float *q)
{
    vf seen[4], sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++)
        seen[r] = sum[r] = vf_zero();
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), d = vf_exp(vf_mul(rate, part(decay, i, size)));
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_mul(d, part(row, i, size));
            seen[r] = vf_fma(h, vk, seen[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        add[r] = vf_set1(beta * (v[r] - vf_sum(seen[r])));
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), vq = part(q, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_fma(add[r], vk, part(row, i, size));
            sum[r] = vf_fma(h, vq, sum[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]);
}

static void delta_each(float *s, size_t rows, size_t size, float rate, const float *decay,
                       float beta, const float *v, const float *k, const float *q, float *y)
{
    const vf a = vf_set1(rate);
    BY_FOURS(delta_each_rows, v, a, decay, beta, k, q);
}

INLINE void wkv6_rows(float *s, size_t N, size_t size, const float *v, float *y,
                      const float *decay, float bonus, const float *k, const float *q)
{
    vf sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++) {
        sum[r] = vf_zero();
        add[r] = vf_set1(v[r]);
    }
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), vq = part(q, i, size), d = part(decay, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = part(row, i, size);
            sum[r] = vf_fma(h, vq, sum[r]);
            put(row, i, size, vf_fma(add[r], vk, vf_mul(d, h)));
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]) + v[r] * bonus;
}

static void wkv6(float *s, size_t rows, size_t size, const float *decay, float bonus,
                 const float *v, const float *k, const float *q, float *y)
{
    BY_FOURS(wkv6_rows, v, decay, bonus, k, q);
}

INLINE void wkv7_rows(float *s, size_t N, size_t size, const float *v, float *y,
                      const float *decay, const float *a, const float *b, const float *k,
                      const float *q)
{
    vf seen[4], sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++) {
        seen[r] = sum[r] = vf_zero();
        add[r] = vf_set1(v[r]);
    }
    for (size_t i = 0; i < size; i += W) {
        vf va = part(a, i, size);
        UNROLL for (size_t r = 0; r < N; r++)
            seen[r] = vf_fma(part(s + r * size, i, size), va, seen[r]);
    }
    UNROLL for (size_t r = 0; r < N; r++)
        seen[r] = vf_set1(vf_sum(seen[r]));
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), vq = part(q, i, size);
        vf d = part(decay, i, size), vb = part(b, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_fma(seen[r], vb, vf_fma(add[r], vk, vf_mul(d, part(row, i, size))));
            sum[r] = vf_fma(h, vq, sum[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]);
}

static void wkv7(float *s, size_t rows, size_t size, const float *decay, const float *a,
                 const float *b, const float *v, const float *k, const float *q, float *y)
{
    BY_FOURS(wkv7_rows, v, decay, a, b, k, q);
}

INLINE void gla_rows(float *s, size_t N, size_t size, const float *v, float *y,
                     const float *decay, const float *k, const float *q)
{
    vf sum[4], add[4];
    UNROLL for (size_t r = 0; r < N; r++) {
        sum[r] = vf_zero();
        add[r] = vf_set1(v[r]);
    }
    for (size_t i = 0; i < size; i += W) {
        vf vk = part(k, i, size), vq = part(q, i, size), d = part(decay, i, size);
        UNROLL for (size_t r = 0; r < N; r++) {
            float *row = s + r * size;
            vf h = vf_fma(add[r], vk, vf_mul(d, part(row, i, size)));
            sum[r] = vf_fma(h, vq, sum[r]);
            put(row, i, size, h);
        }
    }
    UNROLL for (size_t r = 0; r < N; r++)
        y[r] = vf_sum(sum[r]);
}

static void gla(float *s, size_t rows, size_t size, const float *decay, const float *v,
                const float *k, const float *q, float *y)
{
    BY_FOURS(gla_rows, v, decay, k, q);
}
