/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_VEC_AVX512_H
#define LM_QUANT_VEC_AVX512_H

/*
 * Vectors of sixteen floats and of 64 bytes for *_lanes.h; for files built with AVX-512.
 * vec_avx2.h has the same for vectors half as long.
 *
 *   LANES vf vi vm                 floats in a vector; floats, int32, a mask
 *   v_set v_loadu v_store v_storeu one value in all lanes; from memory; to aligned memory;
 *                                  to any
 *   v_gather(p, index)             p[index] for each lane
 *   v_add v_sub v_mul v_div v_abs v_sqrt
 *   v_min v_max                    a < b ? a : b,  a > b ? a : b
 *   v_lt v_eq v_ne v_and v_pick    comparisons; both; mask ? a : b
 *   v_nearest(t)                   nearest integer as lm_q_rne, as int32
 *   v_code(t, lo, hi)              the same, clamped
 *   v_float v_truncate             int32 to float and back, toward zero
 *   v_index(step, last)            min(lane, last) * step
 *   v_bytes(p, v)                  low byte of each int32, side by side
 *   v_first v_bits                 first true lane or -1; a bit for each lane
 *   v_reduce_max v_reduce_min      the largest lane, the smallest
 *   v_least_each(v) v_most_each(v) lane k: the smallest, the largest lane of v[k], k < LANES;
 *                                  of zeros of both signs either
 *   v_turn(x, step, t)             t[i] lane k = x[k * step + i], for i < LANES
 *   v_halves(h, v)                 f16, side by side, rounded to nearest even
 *   v_four(p) v_eight(p)           p[lane % 4], p[lane % 8]
 *   v_look(t, i)                   of such a vector the element i % 4 or i % 8
 *   v_le                           a <= b
 *   v_inverse                      1 / a, but for 4e-4 of it
 *   vt v_table16(p) v_look16(t, i) sixteen floats; of them those with numbers i < 16
 *   i_set i_load i_store           as above for int32, memory of any alignment
 *   i_store_lanes(p, v, from, to)  lanes from..to-1 only, to their places
 *   i_words(p)                     16-bit words
 *   i_sub i_and i_or i_min i_shl i_shr i_ne i_lt i_pick
 *   BYTES vb                       bytes in a vector; unsigned bytes
 *   b_set b_load b_store b_add b_sub b_min
 *   b_table(p) b_look(t, i)        16 bytes; of them those with numbers i < 16
 *   b_least b_bits_eq              the smallest byte; a bit for each pair of equals
 */

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

#define LANES 16
#define BYTES 64

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512i vb;
typedef __m512 vt;

static inline vf v_set(float f) { return _mm512_set1_ps(f); }
static inline vf v_loadu(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf v) { _mm512_store_ps(p, v); }
static inline void v_storeu(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline vf v_gather(const float *p, vi i) { return _mm512_i32gather_ps(i, p, 4); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vm v_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline vm v_and(vm a, vm b) { return a & b; }
static inline vf v_pick(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vf v_float(vi v) { return _mm512_cvtepi32_ps(v); }
static inline vi v_truncate(vf v) { return _mm512_cvttps_epi32(v); }
static inline float v_reduce_max(vf v) { return _mm512_reduce_max_ps(v); }
static inline float v_reduce_min(vf v) { return _mm512_reduce_min_ps(v); }
static inline int v_first(vm m) { return m ? __builtin_ctz(m) : -1; }
static inline unsigned v_bits(vm m) { return m; }
static inline vf v_four(const float *p) { return _mm512_broadcast_f32x4(_mm_loadu_ps(p)); }
static inline vf v_eight(const float *p) { return _mm512_broadcast_f32x8(_mm256_loadu_ps(p)); }
static inline vf v_look(vf t, vi i) { return _mm512_permutexvar_ps(i, t); }

static inline vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
static inline vf v_inverse(vf a) { return _mm512_rcp14_ps(a); }
static inline vt v_table16(const float *p) { return _mm512_loadu_ps(p); }
static inline vf v_look16(vt t, vi i) { return _mm512_permutexvar_ps(i, t); }

static inline vi i_set(int v) { return _mm512_set1_epi32(v); }
static inline vi i_load(const void *p) { return _mm512_loadu_si512(p); }
static inline void i_store(void *p, vi v) { _mm512_storeu_si512(p, v); }
static inline vi i_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
static inline vi i_and(vi a, vi b) { return _mm512_and_si512(a, b); }
static inline vi i_or(vi a, vi b) { return _mm512_or_si512(a, b); }
static inline vi i_min(vi a, vi b) { return _mm512_min_epi32(a, b); }
static inline vi i_shl(vi a, unsigned n) { return _mm512_slli_epi32(a, n); }
static inline vi i_shr(vi a, unsigned n) { return _mm512_srli_epi32(a, n); }
static inline vm i_ne(vi a, vi b) { return _mm512_cmpneq_epi32_mask(a, b); }
static inline vi i_pick(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }
static inline vm i_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask(a, b); }

static inline void i_store_lanes(void *p, vi v, int from, int to)
{
    _mm512_mask_storeu_epi32(p, (vm)((1u << to) - (1u << from)), v);
}

static inline vi i_words(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

/* Rows by pairs, by fours, then the quarters of vectors. */
static inline void v_turn(const float *x, int step, vf *t)
{
    __m512 u[4][4];
    for (int g = 0; g < 4; g++, x += 4 * step) {
        __m512 r0 = _mm512_loadu_ps(x), r1 = _mm512_loadu_ps(x + step);
        __m512 r2 = _mm512_loadu_ps(x + 2 * step), r3 = _mm512_loadu_ps(x + 3 * step);
        __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
        __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
        __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
        __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
        u[g][0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        u[g][1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        u[g][2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        u[g][3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int k = 0; k < 4; k++) {
        __m512 a = _mm512_shuffle_f32x4(u[0][k], u[1][k], 0x44);
        __m512 b = _mm512_shuffle_f32x4(u[2][k], u[3][k], 0x44);
        __m512 c = _mm512_shuffle_f32x4(u[0][k], u[1][k], 0xee);
        __m512 d = _mm512_shuffle_f32x4(u[2][k], u[3][k], 0xee);
        t[k] = _mm512_shuffle_f32x4(a, b, 0x88);
        t[4 + k] = _mm512_shuffle_f32x4(a, b, 0xdd);
        t[8 + k] = _mm512_shuffle_f32x4(c, d, 0x88);
        t[12 + k] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

/* Pairs of vectors become one with half as many numbers of each, until there is one. */
#define REDUCE_EACH(name, op)                                                                    \
    static inline vf name(const vf *v)                                                           \
    {                                                                                            \
        vf q[4];                                                                                 \
        for (int i = 0; i < 4; i++, v += 4) {                                                    \
            __m512d ab = _mm512_castps_pd(op(_mm512_unpacklo_ps(v[0], v[1]),                     \
                                             _mm512_unpackhi_ps(v[0], v[1])));                   \
            __m512d cd = _mm512_castps_pd(op(_mm512_unpacklo_ps(v[2], v[3]),                     \
                                             _mm512_unpackhi_ps(v[2], v[3])));                   \
            q[i] = op(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)),                              \
                      _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));                             \
        }                                                                                        \
        for (int i = 0; i < 4; i += 2)                                                           \
            q[i] = op(_mm512_shuffle_f32x4(q[i], q[i + 1], 0x44),                                \
                      _mm512_shuffle_f32x4(q[i], q[i + 1], 0xee));                               \
        return op(_mm512_shuffle_f32x4(q[0], q[2], 0x88),                                        \
                  _mm512_shuffle_f32x4(q[0], q[2], 0xdd));                                       \
    }
REDUCE_EACH(v_least_each, _mm512_min_ps)
REDUCE_EACH(v_most_each, _mm512_max_ps)
#undef REDUCE_EACH

static inline void v_halves(uint16_t *h, vf v)
{
    _mm256_storeu_si256((__m256i *)h, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline vi v_nearest(vf t)
{
    vi b = _mm512_castps_si512(_mm512_add_ps(t, _mm512_set1_ps(12582912.0f)));
    return _mm512_sub_epi32(_mm512_and_si512(b, _mm512_set1_epi32(0x7fffff)),
                            _mm512_set1_epi32(4194304));
}

static inline vi v_code(vf t, int lo, int hi)
{
    vi b = _mm512_max_epi32(v_nearest(t), _mm512_set1_epi32(lo));
    return _mm512_min_epi32(b, _mm512_set1_epi32(hi));
}

static inline vi v_index(int step, int last)
{
    vi lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    lane = _mm512_min_epi32(lane, _mm512_set1_epi32(last));
    return _mm512_mullo_epi32(lane, _mm512_set1_epi32(step));
}

static inline void v_bytes(uint8_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v));
}

static inline vb b_set(int v) { return _mm512_set1_epi8((char)v); }
static inline vb b_load(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline void b_store(uint8_t *p, vb v) { _mm512_storeu_si512(p, v); }
static inline vb b_add(vb a, vb b) { return _mm512_add_epi8(a, b); }
static inline vb b_sub(vb a, vb b) { return _mm512_sub_epi8(a, b); }
static inline vb b_min(vb a, vb b) { return _mm512_min_epu8(a, b); }
static inline vb b_look(vb t, vb i) { return _mm512_shuffle_epi8(t, i); }
static inline uint64_t b_bits_eq(vb a, vb b) { return _mm512_cmpeq_epi8_mask(a, b); }

static inline vb b_table(const uint8_t *p)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)p));
}

static inline int b_least(vb v)
{
    __m256i h = _mm256_min_epu8(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    __m128i m = _mm_min_epu8(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    m = _mm_min_epu8(m, _mm_srli_epi16(m, 8));          /* pairs, as 16-bit words */
    return _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_and_si128(m, _mm_set1_epi16(255)))) & 255;
}

#endif
