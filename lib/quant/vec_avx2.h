/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_VEC_AVX2_H
#define LM_QUANT_VEC_AVX2_H

/* What vec_avx512.h describes, with eight floats or 32 bytes in a vector; for files built
 * with AVX2. */

#include <immintrin.h>

#include "quant/block.h"

#define ALIGNED __attribute__((aligned(64)))
/* Functions that are made for each of their constant arguments, and their loops. */
#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

#define LANES 8
#define BYTES 32

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;      /* all bits of a lane, or none */
typedef __m256i vb;
typedef struct { __m256 low, high; } vt;

static inline vf v_set(float f) { return _mm256_set1_ps(f); }
static inline vf v_loadu(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vf v) { _mm256_store_ps(p, v); }
static inline void v_storeu(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline vf v_gather(const float *p, vi i) { return _mm256_i32gather_ps(p, i, 4); }
static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
static inline vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vm v_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
static inline vm v_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vf v_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
static inline vf v_float(vi v) { return _mm256_cvtepi32_ps(v); }
static inline vi v_truncate(vf v) { return _mm256_cvttps_epi32(v); }
static inline unsigned v_bits(vm m) { return (unsigned)_mm256_movemask_ps(m); }
static inline vf v_four(const float *p) { return _mm256_broadcast_ps((const __m128 *)p); }
static inline vf v_eight(const float *p) { return _mm256_loadu_ps(p); }
static inline vf v_look(vf t, vi i) { return _mm256_permutevar8x32_ps(t, i); }
static inline vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
static inline vf v_inverse(vf a) { return _mm256_rcp_ps(a); }

static inline vt v_table16(const float *p)
{
    return (vt){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) };
}

static inline vf v_look16(vt t, vi i)
{
    vf low = _mm256_permutevar8x32_ps(t.low, i), high = _mm256_permutevar8x32_ps(t.high, i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

static inline vi i_set(int v) { return _mm256_set1_epi32(v); }
static inline vi i_load(const void *p) { return _mm256_loadu_si256(p); }
static inline void i_store(void *p, vi v) { _mm256_storeu_si256(p, v); }
static inline vi i_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
static inline vi i_and(vi a, vi b) { return _mm256_and_si256(a, b); }
static inline vi i_or(vi a, vi b) { return _mm256_or_si256(a, b); }
static inline vi i_min(vi a, vi b) { return _mm256_min_epi32(a, b); }
static inline vi i_shl(vi a, int n) { return _mm256_slli_epi32(a, n); }
static inline vi i_shr(vi a, int n) { return _mm256_srli_epi32(a, n); }
static inline vm i_lt(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a)); }

static inline vm i_ne(vi a, vi b)
{
    vi eq = _mm256_cmpeq_epi32(a, b);
    return _mm256_castsi256_ps(_mm256_xor_si256(eq, _mm256_set1_epi32(-1)));
}

static inline vi i_pick(vm m, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(m));
}

static inline void i_store_lanes(void *p, vi v, int from, int to)
{
    vi lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    vi out = _mm256_andnot_si256(_mm256_cmpgt_epi32(i_set(from), lane),
                                 _mm256_cmpgt_epi32(i_set(to), lane));
    _mm256_maskstore_epi32(p, out, v);
}

static inline vi i_words(const uint16_t *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline float v_reduce_max(vf v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

static inline float v_reduce_min(vf v)
{
    __m128 m = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_min_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_min_ss(m, _mm_shuffle_ps(m, m, 1)));
}

static inline int v_first(vm m)
{
    int bits = _mm256_movemask_ps(m);
    return bits ? __builtin_ctz((unsigned)bits) : -1;
}

static inline void v_turn(const float *x, int step, vf *t)
{
    __m256 u[2][4];
    for (int g = 0; g < 2; g++, x += 4 * step) {
        __m256 r0 = _mm256_loadu_ps(x), r1 = _mm256_loadu_ps(x + step);
        __m256 r2 = _mm256_loadu_ps(x + 2 * step), r3 = _mm256_loadu_ps(x + 3 * step);
        __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r0, r1));
        __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(r0, r1));
        __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(r2, r3));
        __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(r2, r3));
        u[g][0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        u[g][1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        u[g][2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        u[g][3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    for (int k = 0; k < 4; k++) {
        t[k] = _mm256_permute2f128_ps(u[0][k], u[1][k], 0x20);
        t[4 + k] = _mm256_permute2f128_ps(u[0][k], u[1][k], 0x31);
    }
}

#define REDUCE_EACH(name, op)                                                                    \
    static inline vf name(const vf *v)                                                           \
    {                                                                                            \
        vf q[2];                                                                                 \
        for (int i = 0; i < 2; i++, v += 4) {                                                    \
            __m256d ab = _mm256_castps_pd(op(_mm256_unpacklo_ps(v[0], v[1]),                     \
                                             _mm256_unpackhi_ps(v[0], v[1])));                   \
            __m256d cd = _mm256_castps_pd(op(_mm256_unpacklo_ps(v[2], v[3]),                     \
                                             _mm256_unpackhi_ps(v[2], v[3])));                   \
            q[i] = op(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),                              \
                      _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));                             \
        }                                                                                        \
        return op(_mm256_permute2f128_ps(q[0], q[1], 0x20),                                      \
                  _mm256_permute2f128_ps(q[0], q[1], 0x31));                                     \
    }
REDUCE_EACH(v_least_each, _mm256_min_ps)
REDUCE_EACH(v_most_each, _mm256_max_ps)
#undef REDUCE_EACH

static inline void v_halves(uint16_t *h, vf v)
{
    _mm_storeu_si128((__m128i *)h, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vi v_nearest(vf t)
{
    vi b = _mm256_castps_si256(_mm256_add_ps(t, _mm256_set1_ps(12582912.0f)));
    return _mm256_sub_epi32(_mm256_and_si256(b, _mm256_set1_epi32(0x7fffff)),
                            _mm256_set1_epi32(4194304));
}

static inline vi v_code(vf t, int lo, int hi)
{
    vi b = _mm256_max_epi32(v_nearest(t), _mm256_set1_epi32(lo));
    return _mm256_min_epi32(b, _mm256_set1_epi32(hi));
}

static inline vi v_index(int step, int last)
{
    vi lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    lane = _mm256_min_epi32(lane, _mm256_set1_epi32(last));
    return _mm256_mullo_epi32(lane, _mm256_set1_epi32(step));
}

static inline void v_bytes(uint8_t *p, vi v)
{
    const __m256i low = _mm256_set1_epi32(0x0c080400);      /* byte 0 of each int32 */
    v = _mm256_shuffle_epi8(v, low);
    uint32_t half[2] = { (uint32_t)_mm256_extract_epi32(v, 0),
                         (uint32_t)_mm256_extract_epi32(v, 4) };
    memcpy(p, half, 8);
}

static inline vb b_set(int v) { return _mm256_set1_epi8((char)v); }
static inline vb b_load(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline void b_store(uint8_t *p, vb v) { _mm256_storeu_si256((__m256i *)p, v); }
static inline vb b_add(vb a, vb b) { return _mm256_add_epi8(a, b); }
static inline vb b_sub(vb a, vb b) { return _mm256_sub_epi8(a, b); }
static inline vb b_min(vb a, vb b) { return _mm256_min_epu8(a, b); }
static inline vb b_look(vb t, vb i) { return _mm256_shuffle_epi8(t, i); }

static inline uint64_t b_bits_eq(vb a, vb b)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b));
}

static inline vb b_table(const uint8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

static inline int b_least(vb v)
{
    __m128i m = _mm_min_epu8(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_min_epu8(m, _mm_srli_epi16(m, 8));          /* pairs, as 16-bit words */
    return _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_and_si128(m, _mm_set1_epi16(255)))) & 255;
}

#endif
