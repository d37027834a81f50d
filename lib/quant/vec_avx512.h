/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_VEC_AVX512_H
#define LM_QUANT_VEC_AVX512_H

/* Vectors of sixteen floats and of 64 bytes, as vec_common.h says; for files built with AVX-512. */

#include <immintrin.h>

#define LANES 16
#define BYTES 64

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512i vb;
typedef __m512 vt;

#define V(op) _mm512_##op
#define VSI(op) _mm512_##op##_si512

#include "quant/vec_common.h"

static inline vf v_gather(const float *p, vi i) { return _mm512_i32gather_ps(i, p, 4); }
static inline vf v_abs(vf a) { return _mm512_abs_ps(a); }
static inline vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
static inline vm v_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
static inline vm v_and(vm a, vm b) { return a & b; }
static inline vf v_pick(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
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

static inline vm i_ne(vi a, vi b) { return _mm512_cmpneq_epi32_mask(a, b); }
static inline vi i_pick(vm m, vi a, vi b) { return _mm512_mask_blend_epi32(m, b, a); }
static inline vm i_lt(vi a, vi b) { return _mm512_cmplt_epi32_mask(a, b); }

static inline vi i_words(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

/* Fours, then the quarters of vectors. */
static inline void v_turn(const float *x, int step, vf *t)
{
    vf u[4][4];
    for (int g = 0; g < 4; g++)
        turn_fours(x + 4 * g * step, step, u[g]);
    for (int k = 0; k < 4; k++) {
        vf a = _mm512_shuffle_f32x4(u[0][k], u[1][k], 0x44);
        vf b = _mm512_shuffle_f32x4(u[2][k], u[3][k], 0x44);
        vf c = _mm512_shuffle_f32x4(u[0][k], u[1][k], 0xee);
        vf d = _mm512_shuffle_f32x4(u[2][k], u[3][k], 0xee);
        t[k] = _mm512_shuffle_f32x4(a, b, 0x88);
        t[4 + k] = _mm512_shuffle_f32x4(a, b, 0xdd);
        t[8 + k] = _mm512_shuffle_f32x4(c, d, 0x88);
        t[12 + k] = _mm512_shuffle_f32x4(c, d, 0xdd);
    }
}

#define JOIN(name, op)                                                                           \
    static inline vf name(const vf q[4])                                                         \
    {                                                                                            \
        vf a = op(_mm512_shuffle_f32x4(q[0], q[1], 0x44), _mm512_shuffle_f32x4(q[0], q[1], 0xee)); \
        vf b = op(_mm512_shuffle_f32x4(q[2], q[3], 0x44), _mm512_shuffle_f32x4(q[2], q[3], 0xee)); \
        return op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));           \
    }
JOIN(v_least_join, v_min)
JOIN(v_most_join, v_max)
#undef JOIN

static inline void v_halves(uint16_t *h, vf v)
{
    _mm256_storeu_si256((__m256i *)h, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v_bytes(uint8_t *p, vi v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(v));
}

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
