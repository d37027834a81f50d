/* SPDX-License-Identifier: MIT */
/*
 * Matrix products with vectors.  Included once by mulmat_avx2.c and once by
 * mulmat_avx512.c, which export the table at the end.
 *
 * Each element of the result is made by the same operations in the same order however many
 * tokens are in a call: functions named *_tokens are compiled for several fixed numbers of
 * tokens and do not mix them.
 */

#include "backend/cpu/mulmat_panel.h"

#include "backend/cpu/mulmat_file.h"
#include "backend/cpu/mulmat_q8.h"
#include "backend/cpu/mulmat_rows.h"

#define MOST_TOKENS (W == 16 ? 8 : 4)      /* by registers */
#define TILE        16u                    /* groups of 32 unpacked at a time; 12 KiB at most */

/* With one token all time goes into reading weights, once, from beginning to end:
 * ask for them so many bytes ahead (measured: reads come a third to a half faster than
 * with the processor's own guesses).  Asking beyond the end does no harm. */
#define AHEAD 8192

INLINE void prefetch(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        _mm_prefetch((const char *)((uintptr_t)p + AHEAD + i), _MM_HINT_T0);
}

/* ---- activations as 8-bit blocks ---- */

static size_t q8_bytes(size_t cols)
{
    return (cols / 32 * sizeof(struct lm_q8_act) + 63) & ~(size_t)63;
}

INLINE float top8(__m256 a, __m256 b, __m256 c, __m256 d)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 m = _mm256_max_ps(_mm256_max_ps(_mm256_andnot_ps(sign, a), _mm256_andnot_ps(sign, b)),
                             _mm256_max_ps(_mm256_andnot_ps(sign, c), _mm256_andnot_ps(sign, d)));
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

static void q8_act(const float *x, size_t cols, void *dst)
{
    struct lm_q8_act *out = dst;
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (size_t b = 0; b < cols / 32; b++, x += 32, out++) {
        __m256 v[4];
        UNROLL for (size_t k = 0; k < 4; k++)
            v[k] = _mm256_loadu_ps(x + 8 * k);
        float top = top8(v[0], v[1], v[2], v[3]);
        if (top < 0x1p-100f) {                        /* 127 / top must be finite */
            memset(out, 0, sizeof *out);
            continue;
        }
        __m256 f = _mm256_set1_ps(127 / top);
        __m256i q[4];
        UNROLL for (size_t k = 0; k < 4; k++)
            q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(v[k], f));
        __m256i p = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]),
                                       _mm256_packs_epi32(q[2], q[3]));
        p = _mm256_permutevar8x32_epi32(p, order);
        _mm256_storeu_si256((__m256i *)out->q, p);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), p);
        __m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
        sum = _mm256_hadd_epi32(sum, sum);
        sum = _mm256_hadd_epi32(sum, sum);
        int lo = _mm256_extract_epi32(sum, 0), hi = _mm256_extract_epi32(sum, 4);
        out->d = top / 127;
        out->s = out->d * (float)(lo + hi);
        out->s_half[0] = out->d * (float)lo;
        out->s_half[1] = out->d * (float)hi;
    }
}

/* ---- panels of quantized weights ---- */

/* For each lane, the sum of products of 4 n bytes u (of so many bits) and q. */
INLINE vi dot(const vi *u, const int8_t *q, size_t n, int bits)
{
    vi sum = vi_zero();
#if W == 16
    (void)bits;
    UNROLL for (size_t k = 0; k < n; k++)
        sum = _mm512_dpbusd_epi32(sum, u[k], vi_set1(load32(q + 4 * k)));
#else
    /* Products are added in 16 bits: so many pairs fit. */
    size_t fit = bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    fit = fit < n ? fit : n;
    UNROLL for (size_t k = 0; k < n; k += fit) {
        vi part = vi_zero();
        UNROLL for (size_t i = k; i < k + fit; i++) {
            vi x = vi_set1(load32(q + 4 * i)), a = u[i];
            if (bits == 8) {
                x = _mm256_sign_epi8(x, a);
                a = _mm256_abs_epi8(a);
            }
            vi p = _mm256_maddubs_epi16(a, x);
            part = i == k ? p : _mm256_add_epi16(part, p);
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(part, _mm256_set1_epi16(1)));
    }
#endif
    return sum;
}

/* sum + the group's weights times its activations. */
INLINE vf add_group(vf sum, const struct group *g, const struct lm_q8_act *x,
                    int factors, int bits, int has_m)
{
    if (factors == 1) {
        vf d = vf_mul(g->d[0], vf_set1(x->d));
        sum = vf_fma(vf_cvt(dot(g->u, x->q, 8, bits)), d, sum);
        return has_m ? vf_fma(g->m[0], vf_set1(x->s), sum) : sum;
    }
    vf both = vf_mul(vf_cvt(dot(g->u, x->q, 4, bits)), g->d[0]);
    both = vf_fma(vf_cvt(dot(g->u + 4, x->q + 16, 4, bits)), g->d[1], both);
    sum = vf_fma(both, vf_set1(x->d), sum);
    if (!has_m)
        return sum;
    sum = vf_fma(g->m[0], vf_set1(x->s_half[0]), sum);
    return vf_fma(g->m[1], vf_set1(x->s_half[1]), sum);
}

/* Where the integers start. */
INLINE size_t ints_at(size_t cols, size_t block, size_t s_size)
{
    return (cols / block * s_size * W + 63) & ~(size_t)63;
}

/* n unpacked groups times T tokens, on top of what y holds unless that is `fresh`. */
INLINE void tile_tokens(const struct group *g, size_t n, const char *x, size_t x_stride, size_t T,
                        float *y, size_t y_stride, size_t n_rows, bool fresh,
                        int factors, int bits, int has_m)
{
    vf sum[MOST_TOKENS];
    UNROLL for (size_t t = 0; t < T; t++)
        sum[t] = fresh ? vf_zero() : vf_load_n(y + t * y_stride, n_rows);
    for (size_t i = 0; i < n; i++, x += sizeof(struct lm_q8_act))
        UNROLL for (size_t t = 0; t < T; t++)
            sum[t] = add_group(sum[t], g + i, (const struct lm_q8_act *)(x + t * x_stride),
                               factors, bits, has_m);
    UNROLL for (size_t t = 0; t < T; t++)
        vf_store_n(y + t * y_stride, sum[t], n_rows);
}

/* For every kind: the same for any number of tokens. */
#define KIND_FUNCTION(KIND, FACTORS, BITS, HAS_M)                                            \
    enum { factors_##KIND = FACTORS, bits_##KIND = BITS, has_m_##KIND = HAS_M };             \
    static void tile_##KIND(const struct group *g, size_t n, const char *x, size_t x_stride, \
                            size_t n_tok, float *y, size_t y_stride, size_t n_rows,          \
                            bool fresh)                                                      \
    {                                                                                        \
        size_t t = 0;                                                                        \
        for (; t + MOST_TOKENS <= n_tok; t += MOST_TOKENS)                                   \
            tile_tokens(g, n, x + t * x_stride, x_stride, MOST_TOKENS, y + t * y_stride,     \
                        y_stride, n_rows, fresh, FACTORS, BITS, HAS_M);                      \
        for (; t + 2 <= n_tok; t += 2)                                                       \
            tile_tokens(g, n, x + t * x_stride, x_stride, 2, y + t * y_stride,               \
                        y_stride, n_rows, fresh, FACTORS, BITS, HAS_M);                      \
        if (t < n_tok)                                                                       \
            tile_tokens(g, n, x + t * x_stride, x_stride, 1, y + t * y_stride,               \
                        y_stride, n_rows, fresh, FACTORS, BITS, HAS_M);                      \
    }

PANEL_KINDS(KIND_FUNCTION)

/* Bytes of W rows as they lie in the file. */
static size_t rows_bytes(const struct lm_type *t, size_t cols)
{
    return W * lm_mulmat_file_bytes(t, cols);
}

/* What is constant for a type. */
struct panel_type {
    /* Group b of a panel. */
    void   (*load)(const uint8_t *panel, size_t n_rows, size_t cols, size_t b, struct group *g);
    void   (*tile)(const struct group *g, size_t n, const char *x, size_t x_stride, size_t n_tok,
                   float *y, size_t y_stride, size_t n_rows, bool fresh);
    int      factors, bits, has_m;
    size_t   ints, group;               /* where a panel's integers begin; bytes of a group's */
};

/* A panel times one token: unpacked as it is used. */
INLINE void panel_token(struct panel_type k, const uint8_t *panel, size_t n_rows, size_t cols,
                        const struct lm_q8_act *x, float *y)
{
    vf sum = vf_zero();
    for (size_t b = 0; b < cols / 32; b++) {
        struct group g;
        prefetch(panel + k.ints + b * k.group, k.group);
        k.load(panel, n_rows, cols, b, &g);
        sum = add_group(sum, &g, x + b, k.factors, k.bits, k.has_m);
    }
    vf_store_n(y, sum, n_rows);
}

/* A panel times several: unpacked once, TILE groups at a time. */
INLINE void mul_panel(struct panel_type k, const uint8_t *panel, size_t n_rows, size_t cols,
                      const char *x, size_t n, float *y, size_t y_stride)
{
    size_t x_stride = q8_bytes(cols), groups = cols / 32;
    struct group tile[TILE];
    if (n == 1) {
        panel_token(k, panel, n_rows, cols, (const struct lm_q8_act *)(const void *)x, y);
        return;
    }
    for (size_t b = 0; b < groups; b += TILE) {
        size_t len = groups - b < TILE ? groups - b : TILE;
        for (size_t i = 0; i < len; i++) {
            prefetch(panel + k.ints + (b + i) * k.group, k.group);
            k.load(panel, n_rows, cols, b + i, tile + i);
        }
        k.tile(tile, len, x + b * sizeof(struct lm_q8_act), x_stride, n, y, y_stride, n_rows,
               b == 0);
    }
}

/* Rows beyond n_rows are the last one again; their products are not stored. */
INLINE void pack_panel(void (*one)(const uint8_t *in, uint8_t *s, uint8_t *q, size_t r),
                       const uint8_t *src, size_t row_bytes, size_t n_rows, size_t cols,
                       size_t block, size_t bytes, size_t s_size, size_t q_size, uint8_t *dst)
{
    uint8_t *q = dst + ints_at(cols, block, s_size);
    for (size_t b = 0; b < cols / block; b++) {
        for (size_t r = 0; r < W; r++)
            one(src + (r < n_rows ? r : n_rows - 1) * row_bytes + b * bytes,
                dst + b * s_size * W, q + b * (block / 32) * q_size * W, r);
    }
}

#define PANEL_FUNCTIONS(NAME, ID, KIND, BLOCK, BYTES, S_SIZE, Q_SIZE)                        \
    static size_t bytes_##NAME(const struct lm_type *t, size_t cols)                         \
    {                                                                                        \
        (void)t;                                                                             \
        return (ints_at(cols, BLOCK, S_SIZE) + cols / 32 * Q_SIZE * W + 63) & ~(size_t)63;   \
    }                                                                                        \
    static void make_##NAME(const void *src, size_t row_bytes, size_t n_rows, size_t cols,   \
                            void *dst)                                                       \
    {                                                                                        \
        pack_panel(pack_##NAME, src, row_bytes, n_rows, cols, BLOCK, BYTES, S_SIZE, Q_SIZE,  \
                   dst);                                                                     \
    }                                                                                        \
    INLINE void group_##NAME(const uint8_t *panel, size_t n_rows, size_t cols, size_t b,     \
                             struct group *g)                                                \
    {                                                                                        \
        (void)n_rows;                                                                        \
        load_##NAME(panel, panel + ints_at(cols, BLOCK, S_SIZE) + b * Q_SIZE * W, b, g);     \
    }                                                                                        \
    static void mul_##NAME(const struct lm_type *t, const void *panel, size_t n_rows,        \
                           size_t cols, const void *act, size_t n, float *y, size_t y_stride)\
    {                                                                                        \
        const struct panel_type k = {                                                        \
            group_##NAME, tile_##KIND, factors_##KIND, bits_##KIND, has_m_##KIND,            \
            ints_at(cols, BLOCK, S_SIZE), Q_SIZE * W                                         \
        };                                                                                   \
        (void)t;                                                                             \
        mul_panel(k, panel, n_rows, cols, act, n, y, y_stride);                              \
    }                                                                                        \
    static const struct lm_cpu_mulmat row_##NAME = {                                         \
        .type_id = ID, .isa = SIMD_ISA, .rows = W,                                           \
        .panel_bytes = bytes_##NAME, .pack = make_##NAME,                                    \
        .act_bytes = q8_bytes, .act = q8_act, .mul = mul_##NAME,                             \
    };

PANEL_TYPES(PANEL_FUNCTIONS)

/* ---- MXFP4 ---- */

#include "backend/cpu/mulmat_fp4.h"

/* ---- F32, F16, BF16: a column of W rows after another ---- */

#define FLOAT_TYPES(X) \
    X(f32,  LM_F32,  4) \
    X(f16,  LM_F16,  2) \
    X(bf16, LM_BF16, 2)

INLINE vf load_f32(const void *p) { return vf_load(p); }
INLINE vf load_f16(const void *p) { return vf_f16(p); }
INLINE vf load_bf16(const void *p) { return vf_bf16(p); }

/* A panel times T tokens: even columns and odd columns have a sum each. */
INLINE void float_tokens(vf (*load)(const void *p), size_t size, const uint8_t *w, size_t n_rows,
                         size_t cols, const float *x, size_t T, float *y, size_t y_stride)
{
    size_t x_stride = lm_mulmat_f32_bytes(cols) / sizeof(float), c = 0;
    vf even[MOST_TOKENS], odd[MOST_TOKENS];
    UNROLL for (size_t t = 0; t < T; t++)
        even[t] = odd[t] = vf_zero();
    for (; c + 2 <= cols; c += 2, w += 2 * size * W) {
        vf a = load(w), b = load(w + size * W);
        if (T == 1)
            prefetch(w, 2 * size * W);
        UNROLL for (size_t t = 0; t < T; t++) {
            even[t] = vf_fma(a, vf_set1(x[t * x_stride + c]), even[t]);
            odd[t] = vf_fma(b, vf_set1(x[t * x_stride + c + 1]), odd[t]);
        }
    }
    if (c < cols)
        UNROLL for (size_t t = 0; t < T; t++)
            even[t] = vf_fma(load(w), vf_set1(x[t * x_stride + c]), even[t]);
    UNROLL for (size_t t = 0; t < T; t++)
        vf_store_n(y + t * y_stride, vf_add(even[t], odd[t]), n_rows);
}

INLINE void float_panel(vf (*load)(const void *p), size_t size, const uint8_t *w, size_t n_rows,
                        size_t cols, const float *x, size_t n, float *y, size_t y_stride)
{
    size_t x_stride = lm_mulmat_f32_bytes(cols) / sizeof(float), t = 0;
    for (; t + MOST_TOKENS <= n; t += MOST_TOKENS)
        float_tokens(load, size, w, n_rows, cols, x + t * x_stride, MOST_TOKENS,
                     y + t * y_stride, y_stride);
    for (; t + 2 <= n; t += 2)
        float_tokens(load, size, w, n_rows, cols, x + t * x_stride, 2, y + t * y_stride, y_stride);
    if (t < n)
        float_tokens(load, size, w, n_rows, cols, x + t * x_stride, 1, y + t * y_stride, y_stride);
}

INLINE void float_pack(size_t size, const uint8_t *src, size_t row_bytes, size_t n_rows,
                       size_t cols, uint8_t *dst)
{
    for (size_t c0 = 0; c0 < cols; c0 += 32) {        /* 32: keeps lines of src in the cache */
        size_t end = c0 + 32 < cols ? c0 + 32 : cols;
        for (size_t r = 0; r < W; r++) {
            const uint8_t *row = src + (r < n_rows ? r : n_rows - 1) * row_bytes;
            for (size_t c = c0; c < end; c++)
                memcpy(dst + (c * W + r) * size, row + c * size, size);
        }
    }
}

#define FLOAT_FUNCTIONS(NAME, ID, SIZE)                                                      \
    static size_t bytes_##NAME(const struct lm_type *t, size_t cols)                         \
    {                                                                                        \
        (void)t;                                                                             \
        return (cols * SIZE * W + 63) & ~(size_t)63;                                         \
    }                                                                                        \
    static void make_##NAME(const void *src, size_t row_bytes, size_t n_rows, size_t cols,   \
                            void *dst)                                                       \
    {                                                                                        \
        float_pack(SIZE, src, row_bytes, n_rows, cols, dst);                                 \
    }                                                                                        \
    static void mul_##NAME(const struct lm_type *t, const void *panel, size_t n_rows,        \
                           size_t cols, const void *act, size_t n, float *y, size_t y_stride)\
    {                                                                                        \
        (void)t;                                                                             \
        float_panel(load_##NAME, SIZE, panel, n_rows, cols, act, n, y, y_stride);            \
    }                                                                                        \
    static const struct lm_cpu_mulmat row_##NAME = {                                         \
        .type_id = ID, .isa = SIMD_ISA, .rows = W,                                           \
        .panel_bytes = bytes_##NAME, .pack = make_##NAME,                                    \
        .act_bytes = lm_mulmat_f32_bytes, .act = lm_mulmat_f32_act, .mul = mul_##NAME,       \
    };

FLOAT_TYPES(FLOAT_FUNCTIONS)

/* ---- quantized rows as they lie in the file ---- */

/* Group b of n_rows rows, of blocks of so many weights and bytes; the last row stands in for
 * those that are not there. */
INLINE void load_rows(void (*from)(const uint8_t *b, size_t g, struct span *s), size_t block,
                      size_t bytes, int factors, int bits, const uint8_t *rows, size_t n_rows,
                      size_t cols, size_t b, struct group *g)
{
    const size_t row_bytes = cols / block * bytes, per = block / 32;
    uint8_t w[W][32];
    float d[2][W], m[2][W];
    rows += b / per * bytes;
    for (size_t r = 0; r < W; r++) {
        struct span s;
        from(rows + (r < n_rows ? r : n_rows - 1) * row_bytes, b % per, &s);
        _mm256_storeu_si256((__m256i *)w[r], s.w);
        UNROLL for (int i = 0; i < factors; i++) {
            d[i][r] = s.d[i];
            m[i][r] = bits == 8 ? 0 : s.m[i];
        }
    }
    vi_turn(w, g->u);
    UNROLL for (int i = 0; i < factors; i++) {
        g->d[i] = vf_load(d[i]);
        g->m[i] = bits == 8 ? offset(g->d[i], BIAS) : vf_load(m[i]);
    }
    if (bits == 8 && BIAS != 0)
        UNROLL for (size_t k = 0; k < 8; k++)
            g->u[k] = vi_xor(g->u[k], vi_set8(BIAS));
}

#define FILE_FUNCTIONS(NAME, ID, KIND, BLOCK, BYTES)                                         \
    static void rows_##NAME(const uint8_t *rows, size_t n_rows, size_t cols, size_t b,       \
                            struct group *g)                                                 \
    {                                                                                        \
        load_rows(from_##NAME, BLOCK, BYTES, factors_##KIND, bits_##KIND, rows, n_rows,      \
                  cols, b, g);                                                               \
    }                                                                                        \
    static void mul_file_##NAME(const struct lm_type *t, const void *panel, size_t n_rows,   \
                                size_t cols, const void *act, size_t n, float *y,            \
                                size_t y_stride)                                             \
    {                                                                                        \
        const struct panel_type k = {                                                        \
            rows_##NAME, tile_##KIND, factors_##KIND, bits_##KIND, has_m_##KIND,             \
            0, W * 32 * BYTES / BLOCK                                                        \
        };                                                                                   \
        (void)t;                                                                             \
        mul_panel(k, panel, n_rows, cols, act, n, y, y_stride);                              \
    }                                                                                        \
    static const struct lm_cpu_mulmat row_file_##NAME = {                                    \
        .type_id = ID, .isa = SIMD_ISA, .rows = W, .panel_bytes = rows_bytes,                \
        .act_bytes = q8_bytes, .act = q8_act, .mul = mul_file_##NAME,                        \
    };

FILE_TYPES(FILE_FUNCTIONS)

/* ---- any other row as it lies in the file ---- */


/* Sum of products of n floats. */
INLINE float float_dot(const float *a, const float *b, size_t n)
{
    vf s[4] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
    size_t i = 0;
    for (; i + 4 * W <= n; i += 4 * W)
        UNROLL for (size_t k = 0; k < 4; k++)
            s[k] = vf_fma(vf_load(a + i + k * W), vf_load(b + i + k * W), s[k]);
    for (; i < n; i += W) {
        size_t left = n - i < W ? n - i : W;
        s[0] = vf_fma(vf_load_n(a + i, left), vf_load_n(b + i, left), s[0]);
    }
    return vf_sum(vf_add(vf_add(s[0], s[1]), vf_add(s[2], s[3])));
}

/* n weights of one row to float; halves are common, and their scalar decoders slow. */
static void decode(const struct lm_type *t, const uint8_t *src, float *dst, size_t n)
{
    if ((t->id != LM_F16 && t->id != LM_BF16) || n % W) {
        t->decode(src, dst, n);
        return;
    }
    for (size_t i = 0; i < n; i += W)
        vf_store(dst + i, t->id == LM_F16 ? vf_f16(src + 2 * i) : vf_bf16(src + 2 * i));
}

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
        decode(t, w + c / t->block * t->bytes, tile, len);
        for (size_t i = 0; i < n; i++)
            y[i * y_stride] += float_dot(tile, x + i * x_stride + c, len);
    }
}

static const struct lm_cpu_mulmat row_any = {
    .type_id = LM_MULMAT_ANY, .isa = SIMD_ISA, .rows = 1,
    .panel_bytes = lm_mulmat_file_bytes,
    .act_bytes = lm_mulmat_f32_bytes, .act = lm_mulmat_f32_act, .mul = mul_any,
};

#define ROW(NAME, ...) &row_##NAME,
#define FILE_ROW(NAME, ...) &row_file_##NAME,
#define ALL_ROWS { PANEL_TYPES(ROW) &row_mxfp4, FLOAT_TYPES(ROW) FILE_TYPES(FILE_ROW) \
                   &row_file_mxfp4, &row_any, NULL }
