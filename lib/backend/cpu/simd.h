/* SPDX-License-Identifier: MIT */
#ifndef LM_CPU_SIMD_H
#define LM_CPU_SIMD_H

/*
 * One vocabulary for two instruction sets, so that a kernel is written once: it is a
 * header included by NAME_avx2.c and NAME_avx512.c, and W is the number of 32-bit lanes
 * (8 or 16) of the vectors vf (float) and vi (bytes, words or 32-bit integers).
 * Only for files that are compiled for these instruction sets.
 */

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#ifdef __AVX512VNNI__

#define W 16
#define SIMD_ISA LM_ISA_AVX512
typedef __m512  vf;
typedef __m512i vi;

INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
/* Of a number and a NaN: b. */
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_swap_pairs(vf a) { return _mm512_permute_ps(a, 0xb1); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }
INLINE float vf_top(vf a) { return _mm512_reduce_max_ps(a); }
/* The first n (0 .. W) floats, zeros after them; n floats stored. */
INLINE __mmask16 first(size_t n) { return (__mmask16)((1u << n) - 1); }
INLINE vf vf_load_n(const float *p, size_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
INLINE void vf_store_n(float *p, vf a, size_t n) { _mm512_mask_storeu_ps(p, first(n), a); }
/* Integers to float; W halves, bfloat16s, bytes in memory to float. */
INLINE vf vf_cvt(vi a) { return _mm512_cvtepi32_ps(a); }
INLINE vf vf_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
INLINE vf vf_bf16(const void *p)
{
    __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16));
}
INLINE vi vi_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
INLINE vf vf_u8(const void *p) { return vf_cvt(vi_u8(p)); }
INLINE vf vf_i8(const void *p) { return vf_cvt(_mm512_cvtepi8_epi32(_mm_loadu_si128(p))); }
/* x, but 0 in lanes where a < b. */
INLINE vf vf_unless_lt(vf a, vf b, vf x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
}
/* W floats rounded to halves, to nearest even. */
INLINE void vf_store_f16(void *p, vf a)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* x * 2^n for whole n, -252 .. 254. */
INLINE vf vf_scale2(vf x, vf n) { return _mm512_scalef_ps(x, n); }
INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, 8); }

/* Sums of squares in double. */
typedef struct { __m512d lo, hi; } vd;

INLINE vd vd_zero(void) { return (vd){ _mm512_setzero_pd(), _mm512_setzero_pd() }; }
INLINE vd vd_add_squares(vd s, vf a)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return (vd){ _mm512_fmadd_pd(lo, lo, s.lo), _mm512_fmadd_pd(hi, hi, s.hi) };
}
INLINE vd vd_add(vd s, vf a)
{
    __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return (vd){ _mm512_add_pd(lo, s.lo), _mm512_add_pd(hi, s.hi) };
}
INLINE double vd_sum(vd s) { return _mm512_reduce_add_pd(_mm512_add_pd(s.lo, s.hi)); }

/* Lane i: the sum of the lanes of a[i], in an order that is the same for every lane. */
INLINE vf vf_sums(const vf *a)
{
    vf b[8], c[4], d[2];
    UNROLL for (int i = 0; i < 8; i++)
        b[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]),
                             _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    UNROLL for (int i = 0; i < 4; i++) {
        __m512d x = _mm512_castps_pd(b[2 * i]), y = _mm512_castps_pd(b[2 * i + 1]);
        c[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    UNROLL for (int i = 0; i < 2; i++)
        d[i] = _mm512_add_ps(_mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0x88),
                             _mm512_shuffle_f32x4(c[2 * i], c[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(d[0], d[1], 0x88),
                         _mm512_shuffle_f32x4(d[0], d[1], 0xdd));
}

INLINE vi vi_zero(void) { return _mm512_setzero_si512(); }
INLINE vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vi vi_set8(int x) { return _mm512_set1_epi8((char)x); }
INLINE vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
INLINE vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
INLINE vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
#define vi_srl(a, n) _mm512_srli_epi32(a, n)
#define vi_sll(a, n) _mm512_slli_epi32(a, n)
/* Words 0 .. 7 of W rows of 32 bytes, a lane a row, to u[0] .. u[7]. */
INLINE void vi_turn(uint8_t (*row)[32], vi *u)
{
    vi a[8], b[8];
    UNROLL for (int i = 0; i < 8; i++) {       /* rows 0 .. 3 by 4 .. 7, 8 .. 11 by 12 .. 15 */
        const __m256i *p = (const void *)row[i + i / 4 * 4];
        a[i] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(p)),
                                  _mm256_loadu_si256(p + 4), 1);
    }
    UNROLL for (int i = 0; i < 8; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)    /* four rows each of words k, k + 4 */
        UNROLL for (int k = 0; k < 2; k++) {
            a[i + 2 * k] = _mm512_unpacklo_epi64(b[i + k], b[i + k + 2]);
            a[i + 2 * k + 1] = _mm512_unpackhi_epi64(b[i + k], b[i + k + 2]);
        }
    UNROLL for (int k = 0; k < 4; k++) {
        u[k] = _mm512_shuffle_i32x4(a[k], a[k + 4], 0x88);
        u[k + 4] = _mm512_shuffle_i32x4(a[k], a[k + 4], 0xdd);
    }
}
INLINE vi vi_lookup(const void *table16, vi a)
{
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table16)), a);
}

#else

#define W 8
#define SIMD_ISA LM_ISA_AVX2
typedef __m256  vf;
typedef __m256i vi;

INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
INLINE vf vf_swap_pairs(vf a) { return _mm256_permute_ps(a, 0xb1); }
INLINE vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE float vf_sum(vf a)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
INLINE float vf_top(vf a)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
INLINE __m256i first(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf vf_load_n(const float *p, size_t n) { return _mm256_maskload_ps(p, first(n)); }
INLINE void vf_store_n(float *p, vf a, size_t n) { _mm256_maskstore_ps(p, first(n), a); }
INLINE vf vf_cvt(vi a) { return _mm256_cvtepi32_ps(a); }
INLINE vf vf_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
INLINE vf vf_bf16(const void *p)
{
    __m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
}
INLINE vi vi_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)); }
INLINE vf vf_u8(const void *p) { return vf_cvt(vi_u8(p)); }
INLINE vf vf_i8(const void *p) { return vf_cvt(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p))); }
INLINE vf vf_unless_lt(vf a, vf b, vf x)
{
    return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ), x);
}
INLINE void vf_store_f16(void *p, vf a)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE __m256 power_of_2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
INLINE vf vf_scale2(vf x, vf n)
{
    __m256i all = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(all, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, power_of_2(half)),
                         power_of_2(_mm256_sub_epi32(all, half)));
}
INLINE vf vf_round(vf a) { return _mm256_round_ps(a, 8); }

typedef struct { __m256d lo, hi; } vd;

INLINE vd vd_zero(void) { return (vd){ _mm256_setzero_pd(), _mm256_setzero_pd() }; }
INLINE vd vd_add_squares(vd s, vf a)
{
    __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return (vd){ _mm256_fmadd_pd(lo, lo, s.lo), _mm256_fmadd_pd(hi, hi, s.hi) };
}
INLINE vd vd_add(vd s, vf a)
{
    __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return (vd){ _mm256_add_pd(lo, s.lo), _mm256_add_pd(hi, s.hi) };
}
INLINE double vd_sum(vd s)
{
    double t[4];
    _mm256_storeu_pd(t, _mm256_add_pd(s.lo, s.hi));
    return (t[0] + t[2]) + (t[1] + t[3]);
}

INLINE vf vf_sums(const vf *a)
{
    vf b[4], c[2];
    UNROLL for (int i = 0; i < 4; i++)
        b[i] = _mm256_add_ps(_mm256_unpacklo_ps(a[2 * i], a[2 * i + 1]),
                             _mm256_unpackhi_ps(a[2 * i], a[2 * i + 1]));
    UNROLL for (int i = 0; i < 2; i++) {
        __m256d x = _mm256_castps_pd(b[2 * i]), y = _mm256_castps_pd(b[2 * i + 1]);
        c[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(x, y)),
                             _mm256_castpd_ps(_mm256_unpackhi_pd(x, y)));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(c[0], c[1], 0x20),
                         _mm256_permute2f128_ps(c[0], c[1], 0x31));
}

INLINE vi vi_zero(void) { return _mm256_setzero_si256(); }
INLINE vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
INLINE vi vi_set8(int x) { return _mm256_set1_epi8((char)x); }
INLINE vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
INLINE vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
INLINE vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
#define vi_srl(a, n) _mm256_srli_epi32(a, n)
#define vi_sll(a, n) _mm256_slli_epi32(a, n)
INLINE void vi_turn(uint8_t (*row)[32], vi *u)
{
    vi a[8], b[8];
    UNROLL for (int i = 0; i < 8; i++)
        a[i] = vi_load(row[i]);
    UNROLL for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
    }
    UNROLL for (int i = 0; i < 8; i += 4)
        UNROLL for (int k = 0; k < 2; k++) {
            a[i + 2 * k] = _mm256_unpacklo_epi64(b[i + k], b[i + k + 2]);
            a[i + 2 * k + 1] = _mm256_unpackhi_epi64(b[i + k], b[i + k + 2]);
        }
    UNROLL for (int k = 0; k < 4; k++) {
        u[k] = _mm256_permute2x128_si256(a[k], a[k + 4], 0x20);
        u[k + 4] = _mm256_permute2x128_si256(a[k], a[k + 4], 0x31);
    }
}
INLINE vi vi_lookup(const void *table16, vi a)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table16)), a);
}

#endif

/*
 * e^x with a relative error below 2e-7; 0 below -87, where results would become
 * subnormal, infinity where they are too large.  x = n ln 2 + r, |r| <= ln 2 / 2; e^r by
 * its series up to r^7 / 7!, whose next term is below 6e-9; ln 2 in two parts, the first
 * with 9 zero bits at its end, so that n times it is exact.
 */
INLINE vf vf_exp(vf x)
{
    static const float inv[] = {
        1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1, 1
    };
    /* Between these bounds n is small enough for vf_scale2; a NaN stays one. */
    vf y = vf_max(vf_set1(-100), vf_min(vf_set1(128), x));
    vf n = vf_round(vf_mul(y, vf_set1(0x1.715476p+0f)));
    vf r = vf_fma(n, vf_set1(-0x1.62e400p-1f), y), e = vf_set1(1.0f / 5040);
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    UNROLL for (int i = 0; i < 7; i++)
        e = vf_fma(e, r, vf_set1(inv[i]));
    return vf_unless_lt(x, vf_set1(-87), vf_scale2(e, n));
}

/* cap tanh(x / cap) = cap (1 - 2 / (1 + e^(2x / cap))) */
INLINE vf vf_cap(vf x, vf cap)
{
    vf e = vf_exp(vf_div(vf_add(x, x), cap));
    return vf_mul(cap, vf_sub(vf_set1(1), vf_div(vf_set1(2), vf_add(vf_set1(1), e))));
}

INLINE int32_t load32(const void *p)
{
    int32_t x;
    memcpy(&x, p, 4);
    return x;
}

#endif
