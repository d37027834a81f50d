/* SPDX-License-Identifier: MIT */
#include "quant/fit.h"

#include <float.h>
#include <math.h>

#include "quant/block.h"

static const float tiny = 1e-15f;     /* magnitudes below count as nothing */

static void weights(int n, const float *x, const float *importance, float sigma2, float *w)
{
    for (int i = 0; i < n; i++)
        w[i] = importance[i] * sqrtf(sigma2 + x[i] * x[i]);
}

static int signed_code(float inv, float x, int half)
{
    return lm_q_clamp(lm_q_rne(inv * x), -half, half - 1);
}

/* Sums over w * x * l and w * l * l for the codes that inv gives. */
static void symmetric_sums(int n, int half, const float *x, const float *w, float inv,
                           float *sx, float *s2)
{
    *sx = *s2 = 0;
    for (int i = 0; i < n; i++) {
        float l = (float)signed_code(inv, x[i], half);
        *sx += w[i] * x[i] * l;
        *s2 += w[i] * l * l;
    }
}

/* The least-squares scale for given codes is sx / s2, and it lowers the error by
 * sx^2 / s2; of 19 inverse scales around -half / (element of largest magnitude), the one
 * that lowers it most is kept. */
float lm_fit_symmetric(int n, int half, const float *x, const float *w, uint8_t *codes)
{
    float m = lm_q_max_abs(x, n);
    if (lm_q_abs(m) < tiny) {
        memset(codes, 0, (size_t)n);
        return 0;
    }
    float inv = (float)-half / m, sx, s2;
    symmetric_sums(n, half, x, w, inv, &sx, &s2);
    float scale = s2 != 0 ? sx / s2 : 0, best = scale * sx;
    for (int k = -9; k <= 9; k++) {
        if (k == 0)
            continue;
        float cand = -((float)half + 0.1f * (float)k) / m;
        symmetric_sums(n, half, x, w, cand, &sx, &s2);
        if (s2 > 0 && sx * sx > best * s2) {
            inv = cand;
            scale = sx / s2;
            best = scale * sx;
        }
    }
    for (int i = 0; i < n; i++)
        codes[i] = (uint8_t)(half + signed_code(inv, x[i], half));
    return scale;
}

static void symmetric(int n, int half, int count, const float *x, const float *w,
                      float *scale, uint8_t *codes)
{
    for (int c = 0; c < count; c++)
        scale[c] = lm_fit_symmetric(n, half, x + c * n, w + c * n, codes + c * n);
}

/* One pass of coordinate descent: each code moves to the best place given the others,
 * where that lowers the error.  Returns whether any moved. */
static bool descend(int n, int half, const float *x, int *codes, float *sx, float *s2)
{
    bool moved = false;
    for (int i = 0; i < n; i++) {
        float w = x[i] * x[i], l = (float)codes[i];
        float r = *sx - w * x[i] * l;
        if (!(r > 0))
            continue;
        float q = *s2 - w * l * l;
        int code = lm_q_clamp(lm_q_rne(x[i] * q / r), -half, half - 1);
        if (code == codes[i])
            continue;
        l = (float)code;
        r += w * x[i] * l;
        q += w * l * l;
        if (q > 0 && r * r * *s2 > *sx * *sx * q) {
            codes[i] = code;
            *sx = r;
            *s2 = q;
            moved = true;
        }
    }
    return moved;
}

float lm_fit_descent(int n, int half, const float *x, uint8_t *codes)
{
    int l[32];
    float m = lm_q_max_abs(x, n);
    if (lm_q_abs(m) < tiny) {
        memset(codes, 0, (size_t)n);
        return 0;
    }
    float inv = (float)-half / m, sx = 0, s2 = 0;
    for (int i = 0; i < n; i++) {
        float w = x[i] * x[i];
        l[i] = signed_code(inv, x[i], half);
        sx += w * x[i] * (float)l[i];
        s2 += w * (float)l[i] * (float)l[i];
    }
    for (int pass = 0; pass < 5; pass++)
        if (!descend(n, half, x, l, &sx, &s2))
            break;
    for (int i = 0; i < n; i++)
        codes[i] = (uint8_t)(l[i] + half);
    return s2 > 0 ? sx / s2 : 0;
}

/* What stays the same while inverse scales are tried. */
struct range {
    float hi, sum_w, sum_x;
};

static float affine_code(const struct lm_affine *h, float inv, float lo, float x)
{
    return (float)lm_q_clamp(lm_q_rne(inv * (x - lo)), 0, h->top);
}

static float affine_error(const struct lm_affine *h, const float *x, const float *w,
                          const float *code, float scale, float lo)
{
    float e = 0;
    for (int i = 0; i < h->n; i++) {
        float t = scale * code[i] + lo - x[i];
        t = h->absolute ? lm_q_abs(t) : t * t;
        e += w[i] * t;
    }
    return e;
}

/* Codes for inv, and the scale and lowest value that suit them best; false when no
 * scale does. */
static bool affine_try(const struct lm_affine *h, const struct range *r, const float *x,
                       const float *w, float inv, float lo, float *code, float *scale,
                       float *min)
{
    float sl = 0, s2 = 0, sxl = 0;
    for (int i = 0; i < h->n; i++) {
        float l = code[i] = affine_code(h, inv, lo, x[i]);
        sl += w[i] * l;
        s2 += w[i] * l * l;
        sxl += w[i] * l * x[i];
    }
    float det = r->sum_w * s2 - sl * sl;
    if (!(det > 0))
        return false;
    *scale = (r->sum_w * sxl - r->sum_x * sl) / det;
    *min = (s2 * r->sum_x - sl * sxl) / det;
    if (*min > 0) {
        *min = 0;
        *scale = sxl / s2;
    }
    return true;
}

/* An accepted candidate moves lo, and later candidates start from there. */
static float fit_affine(const struct lm_affine *h, const float *x, const float *w,
                        float *min, uint8_t *codes)
{
    float code[32], lo = x[0];
    struct range r = { x[0], w[0], w[0] * x[0] };
    for (int i = 1; i < h->n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        r.hi = x[i] > r.hi ? x[i] : r.hi;
        r.sum_w += w[i];
        r.sum_x += w[i] * x[i];
    }
    if (lo > 0)
        lo = 0;
    if (r.hi == lo) {
        memset(codes, 0, (size_t)h->n);
        *min = -lo;
        return 0;
    }
    float inv = (float)h->top / (r.hi - lo), scale = 1 / inv;
    float best_inv = inv, best_lo = lo;     /* the codes follow from these two */
    for (int i = 0; i < h->n; i++)
        code[i] = affine_code(h, inv, lo, x[i]);
    float err = affine_error(h, x, w, code, scale, lo);
    for (int k = 0; k <= h->steps; k++) {
        float s, m;
        inv = (h->start + h->step * (float)k + (float)h->top) / (r.hi - lo);
        if (!affine_try(h, &r, x, w, inv, lo, code, &s, &m))
            continue;
        float e = affine_error(h, x, w, code, s, m);
        if (e < err) {
            best_inv = inv;
            best_lo = lo;
            err = e;
            scale = s;
            lo = m;
        }
    }
    for (int i = 0; i < h->n; i++)
        codes[i] = (uint8_t)affine_code(h, best_inv, best_lo, x[i]);
    *min = -lo;
    return scale;
}

static void affine(const struct lm_affine *how, int count, const float *x, const float *w,
                   float *scale, float *min, uint8_t *codes)
{
    int n = how->n;
    for (int c = 0; c < count; c++)
        scale[c] = fit_affine(how, x + c * n, w + c * n, &min[c], codes + c * n);
}

static int at_most(int top, int v)
{
    return v < top ? v : top;
}

/* One pass over the codes of a positive fit, as descend. */
static bool descend_positive(int n, int top, const float *x, const float *w,
                             uint8_t *codes, float *sx, float *s2)
{
    bool moved = false;
    for (int i = 0; i < n; i++) {
        float l = (float)codes[i];
        float r = *sx - w[i] * x[i] * l, q = *s2 - w[i] * l * l;
        if (!(r > 0 && q > 0))
            continue;
        int code = at_most(top, lm_q_rne(x[i] * q / r));
        if (code == codes[i])
            continue;
        l = (float)code;
        r += w[i] * x[i] * l;
        q += w[i] * l * l;
        if (r * r * *s2 > *sx * *sx * q) {
            codes[i] = (uint8_t)code;
            *sx = r;
            *s2 = q;
            moved = true;
        }
    }
    return moved;
}

/* The inverse scale, of nine around top / max, that leaves the least error. */
static float positive_inverse(int n, int top, const float *x, const float *w, float max)
{
    float inv = (float)top / max, scale = 1 / inv, err = 0;
    for (int i = 0; i < n; i++) {
        float t = x[i] - scale * (float)(uint8_t)lm_q_rne(inv * x[i]);
        err += w[i] * t * t;
    }
    for (int k = -4; k <= 4; k++) {
        if (k == 0)
            continue;
        float cand = (0.1f * (float)k + (float)top) / max, e = 0;
        scale = 1 / cand;
        for (int i = 0; i < n; i++) {
            float t = x[i] - scale * (float)at_most(top, lm_q_rne(cand * x[i]));
            e += w[i] * t * t;
        }
        if (e < err) {
            err = e;
            inv = cand;
        }
    }
    return inv;
}

float lm_fit_positive(int n, int top, const float *x, const float *w, uint8_t *codes)
{
    float max = 0;
    for (int i = 0; i < n; i++)
        max = max > x[i] ? max : x[i];
    if (max < tiny) {
        memset(codes, 0, (size_t)n);
        return 0;
    }
    float inv = positive_inverse(n, top, x, w, max), sx = 0, s2 = 0;
    for (int i = 0; i < n; i++) {
        int code = at_most(top, lm_q_rne(inv * x[i]));
        float l = (float)code;
        codes[i] = (uint8_t)code;
        sx += w[i] * x[i] * l;
        s2 += w[i] * l * l;
    }
    for (int pass = 0; pass < 5; pass++)
        if (!descend_positive(n, top, x, w, codes, &sx, &s2))
            break;
    return s2 > 0 ? sx / s2 : 0;
}

static void positive(int n, int top, int count, const float *x, const float *w, float *scale,
                     uint8_t *codes)
{
    for (int c = 0; c < count; c++)
        scale[c] = lm_fit_positive(n, top, x + c * n, w + c * n, codes + c * n);
}

static void extremes(int half, int count, const float *x, float *d, uint8_t *codes)
{
    for (int c = 0; c < count; c++, x += 32, codes += 32) {
        d[c] = lm_q_max_abs(x, 32) / (float)-half;
        float inv = d[c] != 0 ? 1 / d[c] : 0;
        for (int j = 0; j < 32; j++) {
            int code = (int8_t)lm_q_trunc8(x[j] * inv + ((float)half + 0.5f));
            codes[j] = (uint8_t)at_most(2 * half - 1, code);
        }
    }
}

/* From the first number and the others below or above it. */
static void range(int top, int count, const float *x, float *d, float *min, uint8_t *codes)
{
    for (int c = 0; c < count; c++, x += 32, codes += 32) {
        float lo = FLT_MAX, hi = -FLT_MAX;
        for (int j = 0; j < 32; j++) {
            lo = x[j] < lo ? x[j] : lo;
            hi = x[j] > hi ? x[j] : hi;
        }
        d[c] = (hi - lo) / (float)top;
        float inv = d[c] != 0 ? 1 / d[c] : 0;
        for (int j = 0; j < 32; j++)
            codes[j] = lm_q_trunc8((x[j] - lo) * inv + 0.5f);
        min[c] = lo;
    }
}

static void descent(int half, int count, const float *x, float *scale, uint8_t *codes)
{
    for (int c = 0; c < count; c++)
        scale[c] = lm_fit_descent(16, half, x + c * 16, codes + c * 16);
}

const float lm_fit_curve[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* The code whose value is nearest to t; half way, the higher. */
static int curve_code(float t)
{
    const float *value = lm_fit_curve;
    if (t <= value[0])
        return 0;
    if (t >= value[15])
        return 15;
    int u = 1;
    while (t >= value[u])
        u++;
    return t - value[u - 1] < value[u] - t ? u - 1 : u;
}

/* Sums over the codes that inv gives: w * q * x and w * q * q. */
static void curve_sums(const float *x, const float *w, float inv, float *sx, float *s2)
{
    *sx = *s2 = 0;
    for (int i = 0; i < 32; i++) {
        float q = lm_fit_curve[curve_code(inv * x[i])];
        *sx += w[i] * q * x[i];
        *s2 += w[i] * q * q;
    }
}

/* Of 16 inverse scales around the one that puts the number of largest magnitude on the
 * lowest value, the one that lowers the error most. */
static float fit_curve(const float *x, const float *w)
{
    float m = lm_q_max_abs(x, 32), sx, s2;
    if (lm_q_abs(m) < tiny)
        return 0;
    float d = -m / lm_fit_curve[0];
    curve_sums(x, w, 1 / d, &sx, &s2);
    d = s2 > 0 ? sx / s2 : 0;
    float best = d * sx;
    for (int k = -7; k <= 7; k++) {
        curve_sums(x, w, ((float)k + lm_fit_curve[0]) / m, &sx, &s2);
        if (s2 > 0 && sx * sx > best * s2) {
            d = sx / s2;
            best = d * sx;
        }
    }
    return d;
}

static void curve(int count, const float *x, const float *w, float *scale)
{
    for (int c = 0; c < count; c++)
        scale[c] = fit_curve(x + c * 32, w + c * 32);
}

static void curve_codes(int count, const float *x, const float *inv, uint8_t *codes)
{
    for (int i = 0; i < 32 * count; i++)
        codes[i] = (uint8_t)curve_code(inv[i / 32] * x[i]);
}

static void bytes(int count, const float *x, float *d, int8_t *q)
{
    for (int c = 0; c < count; c++, x += 32, q += 32) {
        d[c] = lm_q_abs(lm_q_max_abs(x, 32)) / 127;
        float inv = d[c] != 0 ? 1 / d[c] : 0;
        for (int j = 0; j < 32; j++)
            q[j] = (int8_t)(uint8_t)lm_q_round(x[j] * inv);
    }
}

static void recode(int n, const float *x, float add, float scale, int lo, int hi,
                   uint8_t *codes)
{
    for (int i = 0; i < n; i++)
        codes[i] = (uint8_t)(lm_q_clamp(lm_q_rne((x[i] + add) / scale), lo, hi) - lo);
}

static void halves(int count, const float *v, uint16_t *h)
{
    for (int c = 0; c < count; c++)
        h[c] = lm_f16_store(v[c]);
}

/* The product moves bit 4 of byte i to bit 56 + i. */
static void fifths(const uint8_t *code, uint8_t *h)
{
    for (int j = 0; j < 4; j++) {
        uint64_t fifth = lm_q_u64(code + 8 * j) >> 4 & 0x0101010101010101;
        h[j] = (uint8_t)(fifth * 0x0102040810204080 >> 56);
    }
}

static void nibbles(int count, const uint8_t *codes, uint8_t *dst, uint8_t *high, size_t step)
{
    for (int c = 0; c < count; c++, codes += 32, dst += step) {
        lm_q_pack(dst, 16, codes, 16, 2, 0, 4);
        if (high)
            fifths(codes, high + (size_t)c * step);
    }
}

static void extremes4(int count, const float *x, float *d, uint8_t *dst, size_t step)
{
    uint8_t codes[32];
    for (int c = 0; c < count; c++, x += 32, dst += step) {
        extremes(8, 1, x, d + c, codes);
        nibbles(1, codes, dst, NULL, step);
    }
}

static void range4(int count, const float *x, float *d, float *min, uint8_t *dst, size_t step)
{
    uint8_t codes[32];
    for (int c = 0; c < count; c++, x += 32, dst += step) {
        range(15, 1, x, d + c, min + c, codes);
        nibbles(1, codes, dst, NULL, step);
    }
}

static float extreme(int n, const float *x)
{
    return lm_q_max_abs(x, n);
}

static void rounded(int n, const float *x, float inv, int8_t *q)
{
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)(uint8_t)lm_q_round(x[i] * inv);
}

static void nearest(int n, const float *x, float inv, int8_t *q)
{
    for (int i = 0; i < n; i++)
        q[i] = (int8_t)(uint8_t)at_most(127, lm_q_rne(inv * x[i]));
}

static void signs(int count, const float *x, float *sum, uint8_t *bits, size_t step)
{
    for (int c = 0; c < count; c++, x += 128, bits += step) {
        sum[c] = 0;
        memset(bits, 0, 16);
        for (int i = 0; i < 128; i++) {
            sum[c] += lm_q_abs(x[i]);
            bits[i / 8] |= (uint8_t)((x[i] >= 0) << i % 8);
        }
    }
}

const float lm_fit_e2m1[16] = {
    0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

static void e2m1(int n, const float *x, float scale, uint8_t *codes)
{
    for (int i = 0; i < n; i++) {
        float least = lm_q_abs(lm_fit_e2m1[0] * scale - x[i]);
        codes[i] = 0;
        for (uint8_t k = 1; k < 16; k++) {
            float e = lm_q_abs(lm_fit_e2m1[k] * scale - x[i]);
            if (e < least) {
                least = e;
                codes[i] = k;
            }
        }
    }
}

const struct lm_fit lm_fit_scalar = {
    affine, symmetric, positive, extremes, range, extremes4, range4, descent, curve, curve_codes,
    bytes, weights, recode, extreme, rounded, nearest, signs, e2m1, halves, nibbles
};

const struct lm_fit *lm_fit(enum lm_isa isa)
{
#if defined(__x86_64__)
    if (isa >= LM_ISA_AVX512)
        return &lm_fit_avx512;
    if (isa >= LM_ISA_AVX2)
        return &lm_fit_avx2;
#endif
    (void)isa;
    return &lm_fit_scalar;
}
