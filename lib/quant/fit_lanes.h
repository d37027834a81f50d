/* SPDX-License-Identifier: MIT */
/*
 * The searches of fit.c with one sub-block in each lane: the same float operations in
 * the same order, so the same bytes.  No include guard: fit_avx2.c and fit_avx512.c
 * include this once each, after vec_*.h.
 */

#include <float.h>

static inline vm v_gt(vf a, vf b)
{
    return v_lt(b, a);
}

/* x[count][n] to t[n], lane c holding x[c][i]; lanes beyond count repeat the last. */
static inline void transpose(int n, int count, const float *x, vf *t)
{
    if (count == LANES && n % LANES == 0) {
        for (int i = 0; i < n; i += LANES)
            v_turn(x + i, n, t + i);
        return;
    }
    vi index = v_index(n, count - 1);
    for (int i = 0; i < n; i++)
        t[i] = v_gather(x + i, index);
}

/* Sixteen rows of bytes: column c to out[c * step], for c < count.  Each round doubles how
 * many bytes of a column stand side by side. */
static inline void turn_bytes(int count, uint8_t rows[16][16], uint8_t *out, int step)
{
    __m128i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm_load_si128((const __m128i *)rows[i]);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 8; i++) {
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
        }
        memcpy(a, b, sizeof a);
    }
    for (int c = 0; c < count; c++)
        _mm_storeu_si128((__m128i *)(out + c * step), a[c]);
}

/* Lane c of codes[i] to out[c][i]. */
static inline void put_codes(int n, int count, const vi *codes, uint8_t *out)
{
    ALIGNED uint8_t lane[32][16];
    for (int i = 0; i < n; i++)
        v_bytes(lane[i], codes[i]);
    for (int i = 0; i < n && n % 16 == 0; i += 16)
        turn_bytes(count, lane + i, out + i, n);
    for (int c = 0; n % 16 && c < count; c++)
        for (int i = 0; i < n; i++)
            out[c * n + i] = lane[i][c];
}

static inline void put_floats(int count, vf v, float *out)
{
    ALIGNED float lane[LANES];
    v_store(lane, v);
    memcpy(out, lane, (size_t)count * sizeof *out);
}

static inline void symmetric_sums(int n, int half, const vf *x, const vf *w, const vf *wx,
                                  vf inv, vf *sx, vf *s2)
{
    vf a = v_set(0), b = v_set(0);
    for (int i = 0; i < n; i++) {
        vf l = v_float(v_code(v_mul(inv, x[i]), -half, half - 1));
        a = v_add(a, v_mul(wx[i], l));
        b = v_add(b, v_mul(v_mul(w[i], l), l));
    }
    *sx = a;
    *s2 = b;
}

static inline void symmetric_lanes(int n, int half, int count, const float *xs,
                                   const float *ws, float *scales, uint8_t *codes)
{
    vf x[32], w[32], wx[32], m = v_set(0), a = v_set(0), sx, s2;
    vi code[32];
    transpose(n, count, xs, x);
    transpose(n, count, ws, w);
    for (int i = 0; i < n; i++) {
        vm more = v_gt(v_abs(x[i]), a);
        a = v_pick(more, v_abs(x[i]), a);
        m = v_pick(more, x[i], m);
        wx[i] = v_mul(w[i], x[i]);
    }
    vf inv = v_div(v_set((float)-half), m);
    symmetric_sums(n, half, x, w, wx, inv, &sx, &s2);
    vf scale = v_pick(v_ne(s2, v_set(0)), v_div(sx, s2), v_set(0)), best = v_mul(scale, sx);
    for (int k = -9; k <= 9; k++) {
        if (k == 0)
            continue;
        vf cand = v_div(v_set(-((float)half + 0.1f * (float)k)), m);
        symmetric_sums(n, half, x, w, wx, cand, &sx, &s2);
        vm better = v_and(v_gt(s2, v_set(0)), v_gt(v_mul(sx, sx), v_mul(best, s2)));
        vf s = v_div(sx, s2);
        inv = v_pick(better, cand, inv);
        scale = v_pick(better, s, scale);
        best = v_pick(better, v_mul(s, sx), best);
    }
    /* Lanes of nothing: code 0, scale 0.  Offset -half turns into code 0 below. */
    vm none = v_lt(a, v_set(1e-15f));
    scale = v_pick(none, v_set(0), scale);
    for (int i = 0; i < n; i++) {
        vf l = v_float(v_code(v_mul(inv, x[i]), -half, half - 1));
        l = v_pick(none, v_set((float)-half), l);
        code[i] = v_truncate(v_add(l, v_set((float)half)));
    }
    put_floats(count, scale, scales);
    put_codes(n, count, code, codes);
}

static void symmetric(int n, int half, int count, const float *x, const float *w,
                      float *scale, uint8_t *codes)
{
    for (int c = 0; c < count; c += LANES) {
        int some = count - c < LANES ? count - c : LANES;
        const float *xc = x + c * n, *wc = w + c * n;
        if (n == 16)
            symmetric_lanes(16, half, some, xc, wc, scale + c, codes + c * 16);
        else
            symmetric_lanes(32, half, some, xc, wc, scale + c, codes + c * 32);
    }
}

static inline vf affine_error(int n, bool absolute, const vf *x, const vf *w, const vf *code,
                              vf scale, vf lo)
{
    vf e = v_set(0);
    for (int i = 0; i < n; i++) {
        vf t = v_sub(v_add(v_mul(scale, code[i]), lo), x[i]);
        t = absolute ? v_abs(t) : v_mul(t, t);
        e = v_add(e, v_mul(w[i], t));
    }
    return e;
}

/* What fit.c's affine_try does; returns where a scale exists. */
static inline vm affine_try(int n, int top, const vf *x, const vf *w, vf sum_w, vf sum_x,
                            vf inv, vf lo, vf *code, vf *scale, vf *min)
{
    vf sl = v_set(0), s2 = sl, sxl = sl, zero = sl;
    for (int i = 0; i < n; i++) {
        vf l = v_float(v_code(v_mul(inv, v_sub(x[i], lo)), 0, top)), wl = v_mul(w[i], l);
        code[i] = l;
        sl = v_add(sl, wl);
        s2 = v_add(s2, v_mul(wl, l));
        sxl = v_add(sxl, v_mul(wl, x[i]));
    }
    vf det = v_sub(v_mul(sum_w, s2), v_mul(sl, sl));
    vf s = v_div(v_sub(v_mul(sum_w, sxl), v_mul(sum_x, sl)), det);
    vf m = v_div(v_sub(v_mul(s2, sum_x), v_mul(sl, sxl)), det);
    vm above = v_gt(m, zero);
    *min = v_pick(above, zero, m);
    *scale = v_pick(above, v_div(sxl, s2), s);
    return v_gt(det, zero);
}

static inline void affine_lanes(const struct lm_affine *h, int n, bool absolute, int count,
                                const float *xs, const float *ws, float *scales, float *mins,
                                uint8_t *codes)
{
    vf x[32], w[32], code[32], zero = v_set(0);
    vi out[32];
    x[0] = w[0] = zero;                           /* for compilers that fear n < 1 */
    transpose(n, count, xs, x);
    transpose(n, count, ws, w);
    vf lo = x[0], hi = x[0], sum_w = w[0], sum_x = v_mul(w[0], x[0]);
    for (int i = 1; i < n; i++) {
        lo = v_min(x[i], lo);
        hi = v_max(x[i], hi);
        sum_w = v_add(sum_w, w[i]);
        sum_x = v_add(sum_x, v_mul(w[i], x[i]));
    }
    lo = v_pick(v_gt(lo, zero), zero, lo);
    vm flat = v_eq(hi, lo);
    vf flat_lo = lo, inv = v_div(v_set((float)h->top), v_sub(hi, lo));
    vf scale = v_div(v_set(1), inv), best_inv = inv, best_lo = lo;
    for (int i = 0; i < n; i++)
        code[i] = v_float(v_code(v_mul(inv, v_sub(x[i], lo)), 0, h->top));
    vf err = affine_error(n, absolute, x, w, code, scale, lo);
    for (int k = 0; k <= h->steps; k++) {
        vf s, m;
        inv = v_div(v_set(h->start + h->step * (float)k + (float)h->top), v_sub(hi, lo));
        vm ok = affine_try(n, h->top, x, w, sum_w, sum_x, inv, lo, code, &s, &m);
        vf e = affine_error(n, absolute, x, w, code, s, m);
        ok = v_and(ok, v_lt(e, err));
        best_inv = v_pick(ok, inv, best_inv);
        best_lo = v_pick(ok, lo, best_lo);
        err = v_pick(ok, e, err);
        scale = v_pick(ok, s, scale);
        lo = v_pick(ok, m, lo);
    }
    for (int i = 0; i < n; i++) {
        vf l = v_float(v_code(v_mul(best_inv, v_sub(x[i], best_lo)), 0, h->top));
        out[i] = v_truncate(v_pick(flat, zero, l));
    }
    put_floats(count, v_pick(flat, zero, scale), scales);
    put_floats(count, v_pick(flat, flat_lo, lo), mins);
    for (int c = 0; c < count; c++)
        mins[c] = -mins[c];
    put_codes(n, count, out, codes);
}

static void affine(const struct lm_affine *how, int count, const float *x, const float *w,
                   float *scale, float *min, uint8_t *codes)
{
    int n = how->n;
    for (int c = 0; c < count; c += LANES) {
        int some = count - c < LANES ? count - c : LANES;
        const float *xc = x + c * n, *wc = w + c * n;
        float *sc = scale + c, *mc = min + c;
        uint8_t *out = codes + c * n;
        if (n == 16)
            affine_lanes(how, 16, how->absolute, some, xc, wc, sc, mc, out);
        else
            affine_lanes(how, 32, how->absolute, some, xc, wc, sc, mc, out);
    }
}

/* The inverse scale, of nine around top / max, that leaves the least error. */
static inline vf positive_inverse(int n, int top, const vf *x, const vf *w, vf max)
{
    vf inv = v_div(v_set((float)top), max), scale = v_div(v_set(1), inv), err = v_set(0);
    for (int i = 0; i < n; i++) {
        vf l = v_float(i_and(v_nearest(v_mul(inv, x[i])), i_set(255)));
        vf t = v_sub(x[i], v_mul(scale, l));
        err = v_add(err, v_mul(v_mul(w[i], t), t));
    }
    for (int k = -4; k <= 4; k++) {
        if (k == 0)
            continue;
        vf cand = v_div(v_set(0.1f * (float)k + (float)top), max), e = v_set(0);
        scale = v_div(v_set(1), cand);
        for (int i = 0; i < n; i++) {
            vf l = v_float(i_min(v_nearest(v_mul(cand, x[i])), i_set(top)));
            vf t = v_sub(x[i], v_mul(scale, l));
            e = v_add(e, v_mul(v_mul(w[i], t), t));
        }
        vm less = v_lt(e, err);
        err = v_pick(less, e, err);
        inv = v_pick(less, cand, inv);
    }
    return inv;
}

/* One pass over the codes of a positive fit; returns whether any lane changed. */
static inline bool descend_positive(int n, int top, const vf *x, const vf *w, vi *code,
                                    vf *sx, vf *s2)
{
    unsigned moved = 0;
    vf zero = v_set(0);
    for (int i = 0; i < n; i++) {
        vf l = v_float(code[i]), wx = v_mul(w[i], x[i]);
        vf r = v_sub(*sx, v_mul(wx, l)), q = v_sub(*s2, v_mul(v_mul(w[i], l), l));
        vm go = v_and(v_gt(r, zero), v_gt(q, zero));
        if (!v_bits(go))
            continue;
        vi to = i_min(v_nearest(v_div(v_mul(x[i], q), r)), i_set(top));
        go = v_and(go, i_ne(to, code[i]));
        if (!v_bits(go))
            continue;
        l = v_float(to);
        r = v_add(r, v_mul(wx, l));
        q = v_add(q, v_mul(v_mul(w[i], l), l));
        go = v_and(go, v_gt(v_mul(v_mul(r, r), *s2), v_mul(v_mul(*sx, *sx), q)));
        code[i] = i_pick(go, i_and(to, i_set(255)), code[i]);
        *sx = v_pick(go, r, *sx);
        *s2 = v_pick(go, q, *s2);
        moved |= v_bits(go);
    }
    return moved;
}

static inline void positive_lanes(int n, int top, int count, const float *xs, const float *ws,
                                  float *scales, uint8_t *codes)
{
    vf x[32], w[32], max = v_set(0), sx = max, s2 = max;
    vi code[32];
    transpose(n, count, xs, x);
    transpose(n, count, ws, w);
    for (int i = 0; i < n; i++)
        max = v_max(max, x[i]);
    vf inv = positive_inverse(n, top, x, w, max);
    for (int i = 0; i < n; i++) {
        vi to = i_min(v_nearest(v_mul(inv, x[i])), i_set(top));
        vf l = v_float(to);
        code[i] = i_and(to, i_set(255));
        sx = v_add(sx, v_mul(v_mul(w[i], x[i]), l));
        s2 = v_add(s2, v_mul(v_mul(w[i], l), l));
    }
    for (int pass = 0; pass < 5; pass++)
        if (!descend_positive(n, top, x, w, code, &sx, &s2))
            break;
    vm none = v_lt(max, v_set(1e-15f));
    for (int i = 0; i < n; i++)
        code[i] = i_pick(none, i_set(0), code[i]);
    vf scale = v_pick(v_gt(s2, v_set(0)), v_div(sx, s2), v_set(0));
    put_floats(count, v_pick(none, v_set(0), scale), scales);
    put_codes(n, count, code, codes);
}

static void positive(int n, int top, int count, const float *x, const float *w, float *scale,
                     uint8_t *codes)
{
    for (int c = 0; c < count; c += LANES) {
        int some = count - c < LANES ? count - c : LANES;
        const float *xc = x + c * n, *wc = w + c * n;
        if (n == 8)
            positive_lanes(8, top, some, xc, wc, scale + c, codes + c * 8);
        else if (n == 16)
            positive_lanes(16, top, some, xc, wc, scale + c, codes + c * 16);
        else
            positive_lanes(32, top, some, xc, wc, scale + c, codes + c * 32);
    }
}

static float extreme(int n, const float *x)
{
    vf a = v_abs(v_loadu(x));
    for (int i = LANES; i < n; i += LANES)
        a = v_max(a, v_abs(v_loadu(x + i)));
    vf top = v_set(v_reduce_max(a));
    for (int i = 0; i < n; i += LANES) {
        int at = v_first(v_eq(v_abs(v_loadu(x + i)), top));
        if (at >= 0)
            return x[i + at] != 0 ? x[i + at] : 0;
    }
    return 0;
}

/* Blocks of n numbers: lane c holds the lowest, the highest of block c; lanes from count on
 * repeat the last. */
INLINE void ranges_of(int n, int count, const float *x, vf *lo, vf *hi)
{
    vf lows[LANES / 4], highs[LANES / 4];
    for (int g = 0; g < LANES / 4; g++) {
        vf low[4], high[4];
        UNROLL
        for (int k = 0; k < 4; k++) {
            const int c = 4 * g + k;
            const float *p = x + (c < count ? c : count - 1) * n;
            low[k] = high[k] = v_loadu(p);
            for (int i = LANES; i < n; i += LANES) {
                low[k] = v_min(low[k], v_loadu(p + i));
                high[k] = v_max(high[k], v_loadu(p + i));
            }
        }
        lows[g] = v_least_fours(low);
        highs[g] = v_most_fours(high);
    }
    *lo = v_least_join(lows);
    *hi = v_most_join(highs);
}

/* Codes of a block to 32 bytes, or, the halves side by side, to the nibbles of 16. */
INLINE void put_block(bool packed, const vi *codes, uint8_t *out)
{
    enum { HALF = 16 / LANES };
    for (int i = 0; i < HALF * (packed ? 1 : 2); i++) {
        vi high = i_shl(codes[(i + HALF) % (2 * HALF)], 4);
        v_bytes(out + i * LANES, packed ? i_or(codes[i], high) : codes[i]);
    }
}

/* The same of a block that went another way. */
INLINE void put_again(bool packed, const uint8_t codes[32], uint8_t *out)
{
    if (packed)
        lm_fit_scalar.nibbles(1, codes, out, NULL, 0);
    else
        memcpy(out, codes, 32);
}

INLINE void extreme_codes(bool packed, int half, const float *x, float inv, uint8_t *out)
{
    vi code[32 / LANES];
    for (int i = 0; i < 32 / LANES; i++) {
        vf t = v_add(v_mul(v_loadu(x + i * LANES), v_set(inv)), v_set((float)half + 0.5f));
        code[i] = v_truncate(v_min(t, v_set((float)(2 * half - 1))));
    }
    put_block(packed, code, out);
}

/* A scale whose inverse is infinite is left to the definition. */
INLINE void extreme_block(bool packed, int half, const float *x, float *d, uint8_t *out)
{
    *d = extreme(32, x) / (float)-half;
    if (lm_q_float_bad(*d != 0 ? 1 / *d : 0)) {
        uint8_t codes[32];
        lm_fit_scalar.extremes(half, 1, x, d, codes);
        put_again(packed, codes, out);
    } else
        extreme_codes(packed, half, x, *d != 0 ? 1 / *d : 0, out);
}

/* Of a block whose lowest and highest number have different magnitudes, the larger is the
 * extreme; other blocks are looked at one by one. */
INLINE void extremes_of(bool packed, int half, int count, const float *x, float *d, uint8_t *out,
                        size_t step)
{
    ALIGNED float inv[LM_FIT_MANY];
    uint64_t plain = 0;
    for (int c = 0; c < count; c += LANES) {
        vf lo, hi;
        const int some = count - c < LANES ? count - c : LANES;
        ranges_of(32, some, x + c * 32, &lo, &hi);
        vf low = v_sub(v_set(0), lo), m = v_pick(v_lt(low, hi), hi, lo);
        vf size = v_div(m, v_set((float)-half)), over = v_div(v_set(1), size);
        vm same = v_and(v_ne(low, hi), v_le(v_abs(over), v_set(FLT_MAX)));
        v_storeu(d + c, size);
        v_store(inv + c, over);
        plain |= (uint64_t)v_bits(same) << c;
    }
    for (int c = 0; c < count; c++, x += 32, out += step)
        if (plain >> c & 1)
            extreme_codes(packed, half, x, inv[c], out);
        else
            extreme_block(packed, half, x, &d[c], out);
}

static void extremes(int half, int count, const float *x, float *d, uint8_t *codes)
{
    extremes_of(false, half, count, x, d, codes, 32);
}

static void extremes4(int count, const float *x, float *d, uint8_t *dst, size_t step)
{
    extremes_of(true, 8, count, x, d, dst, step);
}

/* Codes of a block of 32: the nearest of whole numbers above 0. */
INLINE void range_codes(bool packed, const float *x, float lo, float inv, uint8_t *out)
{
    vi code[32 / LANES];
    for (int i = 0; i < 32 / LANES; i++) {
        vf t = v_mul(v_sub(v_loadu(x + i * LANES), v_set(lo)), v_set(inv));
        code[i] = v_truncate(v_add(t, v_set(0.5f)));
    }
    put_block(packed, code, out);
}

/* A block whose range or inverse may be no plain number, or whose lowest is a zero: which zero,
 * the first tells. */
INLINE void range_block(bool packed, int top, const float *x, float *d, float *min, float inv,
                        uint8_t *out)
{
    for (int i = 0; *min == 0 && i < 32; i++)
        if (x[i] == 0) {
            *min = x[i];
            break;
        }
    if (lm_q_float_bad(inv) || lm_q_float_bad(*d)) {
        uint8_t codes[32];
        lm_fit_scalar.range(top, 1, x, d, min, codes);
        put_again(packed, codes, out);
    } else
        range_codes(packed, x, *min, inv, out);
}

/* What LANES blocks or less need for their codes; no range is not -0.  Returns whether all go
 * the plain way. */
INLINE bool range_lanes(int top, int count, const float *x, float *d, float *min, float *invs)
{
    vf lo, hi, zero = v_set(0), most = v_set(FLT_MAX);
    ranges_of(32, count, x, &lo, &hi);
    vf size = v_div(v_pick(v_eq(hi, lo), zero, v_sub(hi, lo)), v_set((float)top));
    vf inv = v_pick(v_ne(size, zero), v_div(v_set(1), size), zero);
    vm plain = v_and(v_and(v_le(v_abs(inv), most), v_le(v_abs(size), most)), v_ne(lo, zero));
    v_storeu(d, size);
    v_storeu(min, lo);
    v_store(invs, inv);
    return v_bits(plain) == (1u << LANES) - 1;
}

INLINE void range_of(bool packed, int top, int count, const float *x, float *d, float *min,
                     uint8_t *out, size_t step)
{
    ALIGNED float inv[LM_FIT_MANY];
    bool plain = true;
    for (int c = 0; c < count; c += LANES)
        plain &= range_lanes(top, count - c < LANES ? count - c : LANES, x + c * 32, d + c,
                             min + c, inv + c);
    for (int c = 0; c < count && plain; c++)
        range_codes(packed, x + c * 32, min[c], inv[c], out + (size_t)c * step);
    for (int c = 0; c < count && !plain; c++)
        range_block(packed, top, x + c * 32, &d[c], &min[c], inv[c], out + (size_t)c * step);
}

static void range(int top, int count, const float *x, float *d, float *min, uint8_t *codes)
{
    range_of(false, top, count, x, d, min, codes, 32);
}

static void range4(int count, const float *x, float *d, float *min, uint8_t *dst, size_t step)
{
    range_of(true, 15, count, x, d, min, dst, step);
}

static void halves(int count, const float *v, uint16_t *h)
{
    for (int c = 0; c < count; c += LANES)
        v_halves(h + c, v_loadu(v + c));
}

static void nibbles(int count, const uint8_t *codes, uint8_t *dst, uint8_t *high, size_t step)
{
    const __m128i low = _mm_set1_epi8(15);
    for (int c = 0; c < count; c++, codes += 32, dst += step) {
        __m128i a = _mm_loadu_si128((const __m128i *)codes);
        __m128i b = _mm_loadu_si128((const __m128i *)(codes + 16));
        __m128i q = _mm_or_si128(_mm_and_si128(a, low),
                                 _mm_slli_epi16(_mm_and_si128(b, low), 4));
        _mm_storeu_si128((__m128i *)dst, q);
        if (!high)
            continue;
        unsigned bits = (unsigned)_mm_movemask_epi8(_mm_slli_epi16(a, 3)) |
                        (unsigned)_mm_movemask_epi8(_mm_slli_epi16(b, 3)) << 16;
        lm_q_put_u32(high + (size_t)c * step, bits);
    }
}

/* A vector of sub-blocks being refined: the sums and codes so far. */
struct refined {
    vf x[16], code[16], sx, s2, top;
};

/* What fit.c's descend does, at number i. */
INLINE unsigned descend_at(struct refined *t, int i, int half)
{
    vf zero = v_set(0), x = t->x[i], l = t->code[i];
    vf w = v_mul(x, x), wx = v_mul(w, x);
    vf r = v_sub(t->sx, v_mul(wx, l)), q = v_sub(t->s2, v_mul(v_mul(w, l), l));
    vm go = v_gt(r, zero);
    l = v_float(v_code(v_div(v_mul(x, q), r), -half, half - 1));
    go = v_and(go, v_ne(l, t->code[i]));
    r = v_add(r, v_mul(wx, l));
    q = v_add(q, v_mul(v_mul(w, l), l));
    go = v_and(go, v_gt(q, zero));
    go = v_and(go, v_gt(v_mul(v_mul(r, r), t->s2), v_mul(v_mul(t->sx, t->sx), q)));
    t->code[i] = v_pick(go, l, t->code[i]);
    t->sx = v_pick(go, r, t->sx);
    t->s2 = v_pick(go, q, t->s2);
    return v_bits(go);
}

static inline void begin_descent(struct refined *t, int half, int count, const float *xs)
{
    vf m = v_set(0);
    transpose(16, count, xs, t->x);
    t->top = t->sx = t->s2 = m;
    for (int i = 0; i < 16; i++) {
        vm more = v_gt(v_abs(t->x[i]), t->top);
        t->top = v_pick(more, v_abs(t->x[i]), t->top);
        m = v_pick(more, t->x[i], m);
    }
    vf inv = v_div(v_set((float)-half), m);
    for (int i = 0; i < 16; i++) {
        vf w = v_mul(t->x[i], t->x[i]);
        vf l = v_float(v_code(v_mul(inv, t->x[i]), -half, half - 1));
        t->code[i] = l;
        t->sx = v_add(t->sx, v_mul(v_mul(w, t->x[i]), l));
        t->s2 = v_add(t->s2, v_mul(v_mul(w, l), l));
    }
}

static inline void end_descent(const struct refined *t, int half, int count, float *scales,
                               uint8_t *codes)
{
    vi out[16];
    vm none = v_lt(t->top, v_set(1e-15f));
    for (int i = 0; i < 16; i++) {
        vf l = v_pick(none, v_set((float)-half), t->code[i]);
        out[i] = v_truncate(v_add(l, v_set((float)half)));
    }
    vf scale = v_pick(v_gt(t->s2, v_set(0)), v_div(t->sx, t->s2), v_set(0));
    put_floats(count, v_pick(none, v_set(0), scale), scales);
    put_codes(16, count, out, codes);
}

#define TURNS 4

/* Each step waits for the one before, so several vectors take turns. */
INLINE void descent_turns(int turns, int passes, int half, int count, const float *x,
                          float *scale, uint8_t *codes)
{
    struct refined t[TURNS];
    for (int k = 0; k < turns; k++) {
        const int left = count - k * LANES;
        begin_descent(&t[k], half, left < LANES ? left : LANES, x + k * LANES * 16);
    }
    for (int pass = 0; pass < passes; pass++) {
        unsigned moved = 0;
        for (int i = 0; i < 16; i++)
            UNROLL
            for (int k = 0; k < turns; k++)
                moved |= descend_at(&t[k], i, half);
        if (!moved)
            break;
    }
    for (int k = 0; k < turns; k++) {
        const int at = k * LANES, left = count - at;
        end_descent(&t[k], half, left < LANES ? left : LANES, scale + at, codes + at * 16);
    }
}

/* Those that can move first, each set in its order: place[i] is the number of the sub-block
 * that comes to place i.  Returns how many they are. */
static inline int part(int count, const float *x, uint8_t *place)
{
    int n = 0, rest = 0;
    uint8_t others[LM_FIT_COUNT * LM_FIT_COUNT];
    for (int c = 0; c < count; c += LANES, x += LANES * 16) {
        vf lo, hi;
        const int some = count - c < LANES ? count - c : LANES;
        ranges_of(16, some, x, &lo, &hi);
        const unsigned moving = v_bits(v_le(hi, v_sub(v_set(0), lo)));
        for (int k = 0; k < some; k++) {
            place[n] = others[rest] = (uint8_t)(c + k);
            n += moving >> k & 1;
            rest += ~moving >> k & 1;
        }
    }
    memcpy(place + n, others, (size_t)rest);
    return n;
}

/*
 * Where the number of largest magnitude is above 0, the scale is below, and all products of
 * x and code are: what their sum is without one of them is never above 0, and no code moves.
 * (Rounding keeps that: adding what is not above 0 never takes a sum above its parts.)
 */
static void descent(int half, int count, const float *x, float *scale, uint8_t *codes)
{
    float xs[LM_FIT_COUNT * LM_FIT_COUNT * 16], scales[LM_FIT_COUNT * LM_FIT_COUNT];
    uint8_t place[LM_FIT_COUNT * LM_FIT_COUNT], out[LM_FIT_COUNT * LM_FIT_COUNT * 16];
    const int moving = part(count, x, place);
    int c = 0;
    for (int i = 0; i < count; i++)
        memcpy(xs + i * 16, x + place[i] * 16, 16 * sizeof *x);
    for (; moving - c > (TURNS - 1) * LANES; c += TURNS * LANES)
        descent_turns(TURNS, 5, half, count - c, xs + c * 16, scales + c, out + c * 16);
    for (; c < count; c += LANES)
        descent_turns(1, c < moving ? 5 : 0, half, count - c, xs + c * 16, scales + c,
                      out + c * 16);
    for (int i = 0; i < count; i++) {
        scale[place[i]] = scales[i];
        memcpy(codes + place[i] * 16, out + i * 16, 16);
    }
}

/* Half way from each value of the curve to the next; [0] is below all.  Up to them t - value
 * and value - t are exact, so that comparing t decides as the definition does. */
static inline vt curve_borders(void)
{
    float half[16] = { -INFINITY };
    for (int i = 1; i < 16; i++)
        half[i] = (lm_fit_curve[i - 1] + lm_fit_curve[i]) / 2;
    return v_table16(half);
}

static inline vi curve_code(vt borders, vf t)
{
    vi code = i_set(0);
    for (int step = 8; step > 0; step /= 2) {
        vi up = i_or(code, i_set(step));
        code = i_pick(v_le(v_look16(borders, up), t), up, code);
    }
    return i_pick(v_eq(t, t), code, i_set(1));          /* what the definition gives for NaN */
}

static inline void curve_sums(vt borders, vt values, const vf *x, const vf *w, vf inv, vf *sx,
                              vf *s2)
{
    vf a = v_set(0), b = v_set(0);
    for (int i = 0; i < 32; i++) {
        vf q = v_look16(values, curve_code(borders, v_mul(inv, x[i]))), wq = v_mul(w[i], q);
        a = v_add(a, v_mul(wq, x[i]));
        b = v_add(b, v_mul(wq, q));
    }
    *sx = a;
    *s2 = b;
}

static inline void curve_lanes(int count, const float *xs, const float *ws, float *scales)
{
    vt borders = curve_borders(), values = v_table16(lm_fit_curve);
    vf x[32], w[32], m = v_set(0), a = m, zero = m, sx, s2;
    transpose(32, count, xs, x);
    transpose(32, count, ws, w);
    for (int i = 0; i < 32; i++) {
        vm more = v_gt(v_abs(x[i]), a);
        a = v_pick(more, v_abs(x[i]), a);
        m = v_pick(more, x[i], m);
    }
    vf d = v_div(v_sub(v_set(-0.0f), m), v_set(lm_fit_curve[0]));
    curve_sums(borders, values, x, w, v_div(v_set(1), d), &sx, &s2);
    d = v_pick(v_gt(s2, zero), v_div(sx, s2), zero);
    vf best = v_mul(d, sx);
    for (int k = -7; k <= 7; k++) {
        vf inv = v_div(v_set((float)k + lm_fit_curve[0]), m);
        curve_sums(borders, values, x, w, inv, &sx, &s2);
        vm better = v_and(v_gt(s2, zero), v_gt(v_mul(sx, sx), v_mul(best, s2)));
        vf s = v_div(sx, s2);
        d = v_pick(better, s, d);
        best = v_pick(better, v_mul(s, sx), best);
    }
    put_floats(count, v_pick(v_lt(a, v_set(1e-15f)), zero, d), scales);
}

static void curve(int count, const float *x, const float *w, float *scale)
{
    for (int c = 0; c < count; c += LANES)
        curve_lanes(count - c < LANES ? count - c : LANES, x + c * 32, w + c * 32, scale + c);
}

static void curve_codes(int count, const float *x, const float *inv, uint8_t *codes)
{
    vt borders = curve_borders();
    for (int c = 0; c < count; c++)
        for (int i = c * 32; i < c * 32 + 32; i += LANES)
            v_bytes(codes + i, curve_code(borders, v_mul(v_set(inv[c]), v_loadu(x + i))));
}

/* Half away from zero: truncate, then one more where half or more was cut. */
INLINE void round_some(int n, const float *x, float inv, int8_t *q)
{
    for (int i = 0; i < n; i += LANES) {
        vf t = v_mul(v_loadu(x + i), v_set(inv)), r = v_float(v_truncate(t));
        vf one = v_pick(v_lt(t, v_set(0)), v_set(-1), v_set(1));
        vm less = v_lt(v_abs(v_sub(t, r)), v_set(0.5f));
        v_bytes((uint8_t *)q + i, v_truncate(v_pick(less, r, v_add(r, one))));
    }
}

static void rounded(int n, const float *x, float inv, int8_t *q)
{
    round_some(n, x, inv, q);
}

static void nearest(int n, const float *x, float inv, int8_t *q)
{
    for (int i = 0; i < n; i += LANES) {
        vi code = v_nearest(v_mul(v_set(inv), v_loadu(x + i)));
        v_bytes((uint8_t *)q + i, i_min(code, i_set(127)));
    }
}

static void bytes(int count, const float *x, float *d, int8_t *q)
{
    ALIGNED float inv[LM_FIT_MANY];
    for (int c = 0; c < count; c += LANES) {
        const int n = count - c < LANES ? count - c : LANES;
        vf lo, hi, zero = v_set(0);
        ranges_of(32, n, x + c * 32, &lo, &hi);
        vf size = v_div(v_max(v_abs(lo), v_abs(hi)), v_set(127));
        v_storeu(d + c, size);
        v_store(inv + c, v_pick(v_ne(size, zero), v_div(v_set(1), size), zero));
    }
    for (int c = 0; c < count; c++, x += 32, q += 32)
        if (lm_q_float_bad(inv[c]))
            lm_fit_scalar.bytes(1, x, &d[c], q);
        else
            round_some(32, x, inv[c], q);
}

static void weights(int n, const float *x, const float *importance, float sigma2, float *w)
{
    for (int i = 0; i < n; i += LANES) {
        vf v = v_loadu(x + i), root = v_sqrt(v_add(v_set(sigma2), v_mul(v, v)));
        v_storeu(w + i, v_mul(v_loadu(importance + i), root));
    }
}

static void recode(int n, const float *x, float add, float scale, int lo, int hi,
                   uint8_t *codes)
{
    for (int i = 0; i < n; i += LANES) {
        vf t = v_div(v_add(v_loadu(x + i), v_set(add)), v_set(scale));
        v_bytes(codes + i, i_sub(v_code(t, lo, hi), i_set(lo)));
    }
}

static void signs(int count, const float *x, float *sum, uint8_t *bits, size_t step)
{
    for (int c = 0; c < count; c += LANES, x += LANES * 128) {
        const int some = count - c < LANES ? count - c : LANES;
        vf total = v_set(0), column[16];
        for (int i = 0; i < 128; i += 16) {
            for (int k = 0; some == LANES && k < 16; k += LANES)
                v_turn(x + i + k, 128, column + k);
            for (int k = 0; some < LANES && k < 16; k++)
                column[k] = v_gather(x + i + k, v_index(128, some - 1));
            for (int k = 0; k < 16; k++)
                total = v_add(total, v_abs(column[k]));
        }
        put_floats(some, total, sum + c);
        for (int k = 0; k < some; k++, bits += step)
            for (int i = 0; i < 128; i += LANES) {
                const unsigned up = v_bits(v_le(v_set(0), v_loadu(x + k * 128 + i)));
                bits[i / 8] = (uint8_t)up;
                if (LANES > 8)
                    bits[i / 8 + 1] = (uint8_t)(up >> 8);
            }
    }
}

/* Of a number's sign only the codes of that sign are looked at: for the others the error is no
 * smaller than that of the first code, 0. */
static void e2m1(int n, const float *x, float scale, uint8_t *codes)
{
    for (int i = 0; i < n; i += LANES) {
        vf some = v_loadu(x + i), a = v_abs(some), least = a;
        vi code = i_set(0);
        for (int k = 1; k < 8; k++) {
            vf e = v_abs(v_sub(v_set(lm_fit_e2m1[k] * scale), a));
            vm less = v_lt(e, least);
            least = v_pick(less, e, least);
            code = i_pick(less, i_set(k), code);
        }
        vm below = v_and(v_lt(some, v_set(0)), i_ne(code, i_set(0)));
        v_bytes(codes + i, i_pick(below, i_or(code, i_set(8)), code));
    }
}
