/* SPDX-License-Identifier: MIT */
/*
 * MXFP4 weights times activations in float: models that are published in this type are as good as
 * its products, and rounding activations to 8 bits would cost more than the weights' own four.
 * Included by mulmat_simd.h for each instruction set; panels as mulmat_panel.h makes them, of
 * some groups at a time from rows as they lie in a file.
 */

#define FP4_TILE 8u                    /* groups unpacked at a time: 16 KiB at most */

/* A group of 32 columns of W rows: twice the values, and half the scales. */
struct fp4_group {
    float w[32][W];
    float d[W];
};

/* Twice the value of the lowest 4 bits of each lane. */
INLINE vf fp4_value(vi a)
{
#if W == 16
    const vf table = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12);
    return _mm512_permutexvar_ps(a, table);
#else
    const vf table = _mm256_setr_ps(0, 1, 2, 3, 4, 6, 8, 12);
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(a, _mm256_set1_epi32(8)), 28);
    return _mm256_xor_ps(_mm256_permutevar8x32_ps(table, a), _mm256_castsi256_ps(sign));
#endif
}

/* Column c of the group at q: byte j of vector k has 4k + j low and 16 + 4k + j high. */
INLINE vf fp4_column(const vi *v, size_t c)
{
    const size_t k = c % 16 / 4;
    switch (c % 4 * 2 + c / 16) {
    case 0:  return fp4_value(v[k]);
    case 1:  return fp4_value(vi_srl(v[k], 4));
    case 2:  return fp4_value(vi_srl(v[k], 8));
    case 3:  return fp4_value(vi_srl(v[k], 12));
    case 4:  return fp4_value(vi_srl(v[k], 16));
    case 5:  return fp4_value(vi_srl(v[k], 20));
    case 6:  return fp4_value(vi_srl(v[k], 24));
    default: return fp4_value(vi_srl(v[k], 28));
    }
}

INLINE void fp4_load(const uint8_t *q, vi *v)
{
    UNROLL for (size_t k = 0; k < 4; k++)
        v[k] = vi_load(q + 4 * W * k);
}

/* One token: even columns and odd columns of a group have a sum each. */
INLINE void fp4_token(const uint8_t *panel, size_t n_rows, size_t cols, const float *x, float *y)
{
    const uint8_t *q = panel + ints_at(cols, 32, 2);
    vf sum = vf_zero();
    for (size_t b = 0; b < cols / 32; b++, q += 16 * W, x += 32) {
        vf even = vf_zero(), odd = vf_zero();
        vi v[4];
        prefetch(q, 16 * W);
        fp4_load(q, v);
        UNROLL for (size_t c = 0; c < 32; c += 2) {
            even = vf_fma(fp4_column(v, c), vf_set1(x[c]), even);
            odd = vf_fma(fp4_column(v, c + 1), vf_set1(x[c + 1]), odd);
        }
        sum = vf_fma(vf_add(even, odd), vf_bf16(panel + b * 2 * W), sum);
    }
    vf_store_n(y, sum, n_rows);
}

INLINE void fp4_unpack(const uint8_t *panel, const uint8_t *q, size_t b, struct fp4_group *g)
{
    vi v[4];
    fp4_load(q, v);
    UNROLL for (size_t c = 0; c < 32; c++)
        vf_store(g->w[c], fp4_column(v, c));
    vf_store(g->d, vf_bf16(panel + b * 2 * W));
}

/* n unpacked groups times T tokens, on top of what y holds unless that is `fresh`. */
INLINE void fp4_tokens(const struct fp4_group *g, size_t n, const float *x, size_t x_stride,
                       size_t T, float *y, size_t y_stride, size_t n_rows, bool fresh)
{
    vf sum[MOST_TOKENS], even[MOST_TOKENS], odd[MOST_TOKENS];
    UNROLL for (size_t t = 0; t < T; t++)
        sum[t] = fresh ? vf_zero() : vf_load_n(y + t * y_stride, n_rows);
    for (size_t i = 0; i < n; i++, g++, x += 32) {
        UNROLL for (size_t t = 0; t < T; t++)
            even[t] = odd[t] = vf_zero();
        for (size_t c = 0; c < 32; c += 2) {
            const vf a = vf_load(g->w[c]), b = vf_load(g->w[c + 1]);
            UNROLL for (size_t t = 0; t < T; t++) {
                even[t] = vf_fma(a, vf_set1(x[t * x_stride + c]), even[t]);
                odd[t] = vf_fma(b, vf_set1(x[t * x_stride + c + 1]), odd[t]);
            }
        }
        const vf d = vf_load(g->d);
        UNROLL for (size_t t = 0; t < T; t++)
            sum[t] = vf_fma(vf_add(even[t], odd[t]), d, sum[t]);
    }
    UNROLL for (size_t t = 0; t < T; t++)
        vf_store_n(y + t * y_stride, sum[t], n_rows);
}

static void fp4_tile(const struct fp4_group *g, size_t n, const float *x, size_t x_stride,
                     size_t n_tok, float *y, size_t y_stride, size_t n_rows, bool fresh)
{
    size_t t = 0;
    for (; t + MOST_TOKENS <= n_tok; t += MOST_TOKENS)
        fp4_tokens(g, n, x + t * x_stride, x_stride, MOST_TOKENS, y + t * y_stride, y_stride,
                   n_rows, fresh);
    for (; t + 2 <= n_tok; t += 2)
        fp4_tokens(g, n, x + t * x_stride, x_stride, 2, y + t * y_stride, y_stride, n_rows, fresh);
    if (t < n_tok)
        fp4_tokens(g, n, x + t * x_stride, x_stride, 1, y + t * y_stride, y_stride, n_rows, fresh);
}

static size_t bytes_mxfp4(const struct lm_type *t, size_t cols)
{
    (void)t;
    return (ints_at(cols, 32, 2) + cols / 32 * 16 * W + 63) & ~(size_t)63;
}

static void make_mxfp4(const void *src, size_t row_bytes, size_t n_rows, size_t cols, void *dst)
{
    pack_panel(pack_mxfp4, src, row_bytes, n_rows, cols, 32, 17, 2, 16, dst);
}

static void mul_mxfp4(const struct lm_type *t, const void *panel, size_t n_rows, size_t cols,
                      const void *act, size_t n, float *y, size_t y_stride)
{
    const uint8_t *p = panel, *q = p + ints_at(cols, 32, 2);
    const size_t x_stride = lm_mulmat_f32_bytes(cols) / sizeof(float), groups = cols / 32;
    const float *x = act;
    struct fp4_group tile[FP4_TILE];
    (void)t;
    if (n == 1) {
        fp4_token(p, n_rows, cols, x, y);
        return;
    }
    for (size_t b = 0; b < groups; b += FP4_TILE) {
        const size_t len = groups - b < FP4_TILE ? groups - b : FP4_TILE;
        for (size_t i = 0; i < len; i++, q += 16 * W)
            fp4_unpack(p, q, b + i, tile + i);
        fp4_tile(tile, len, x + b * 32, x_stride, n, y, y_stride, n_rows, b == 0);
    }
}

static const struct lm_cpu_mulmat row_mxfp4 = {
    .type_id = LM_MXFP4, .isa = SIMD_ISA, .rows = W,
    .panel_bytes = bytes_mxfp4, .pack = make_mxfp4,
    .act_bytes = lm_mulmat_f32_bytes, .act = lm_mulmat_f32_act, .mul = mul_mxfp4,
};

/* Group b of n_rows rows, the last one standing in for those that are not there. */
INLINE void fp4_rows(const uint8_t *rows, size_t n_rows, size_t cols, size_t b,
                     struct fp4_group *g)
{
    uint8_t s[2 * W], q[16 * W];
    for (size_t r = 0; r < W; r++)
        pack_mxfp4(rows + ((r < n_rows ? r : n_rows - 1) * (cols / 32) + b) * 17, s, q, r);
    fp4_unpack(s, q, 0, g);
}

static void mul_file_mxfp4(const struct lm_type *t, const void *panel, size_t n_rows, size_t cols,
                           const void *act, size_t n, float *y, size_t y_stride)
{
    const size_t x_stride = lm_mulmat_f32_bytes(cols) / sizeof(float), groups = cols / 32;
    const float *x = act;
    struct fp4_group tile[FP4_TILE];
    (void)t;
    for (size_t b = 0; b < groups; b += FP4_TILE) {
        const size_t len = groups - b < FP4_TILE ? groups - b : FP4_TILE;
        for (size_t i = 0; i < len; i++)
            fp4_rows(panel, n_rows, cols, b + i, tile + i);
        fp4_tile(tile, len, x + b * 32, x_stride, n, y, y_stride, n_rows, b == 0);
    }
}

static const struct lm_cpu_mulmat row_file_mxfp4 = {
    .type_id = LM_MXFP4, .isa = SIMD_ISA, .rows = W, .panel_bytes = rows_bytes,
    .act_bytes = lm_mulmat_f32_bytes, .act = lm_mulmat_f32_act, .mul = mul_file_mxfp4,
};
