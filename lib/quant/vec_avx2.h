/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_VEC_AVX2_H
#define LM_QUANT_VEC_AVX2_H

/* Vectors of eight floats and of 32 bytes, as vec_common.h says; for files built with AVX2. */

#include <immintrin.h>

#define LANES 8
#define BYTES 32

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;      /* all bits of a lane, or none */
typedef __m256i vb;
typedef struct { __m256 low, high; } vt;

#define V(op) _mm256_##op
#define VSI(op) _mm256_##op##_si256

#include "quant/vec_common.h"

static inline vf v_gather(const float *p, vi i) { return _mm256_i32gather_ps(p, i, 4); }
static inline vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vm v_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
static inline vm v_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vf v_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
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
    vf u[2][4];
    for (int g = 0; g < 2; g++)
        turn_fours(x + 4 * g * step, step, u[g]);
    for (int k = 0; k < 4; k++) {
        t[k] = _mm256_permute2f128_ps(u[0][k], u[1][k], 0x20);
        t[4 + k] = _mm256_permute2f128_ps(u[0][k], u[1][k], 0x31);
    }
}

#define JOIN(name, op)                                                                           \
    static inline vf name(const vf q[2])                                                         \
    {                                                                                            \
        return op(_mm256_permute2f128_ps(q[0], q[1], 0x20),                                      \
                  _mm256_permute2f128_ps(q[0], q[1], 0x31));                                     \
    }
JOIN(v_least_join, v_min)
JOIN(v_most_join, v_max)
#undef JOIN

static inline void v_halves(uint16_t *h, vf v)
{
    _mm_storeu_si128((__m128i *)h, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v_bytes(uint8_t *p, vi v)
{
    const __m256i low = _mm256_set1_epi32(0x0c080400);      /* byte 0 of each int32 */
    v = _mm256_shuffle_epi8(v, low);
    uint32_t half[2] = { (uint32_t)_mm256_extract_epi32(v, 0),
                         (uint32_t)_mm256_extract_epi32(v, 4) };
    memcpy(p, half, 8);
}


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
