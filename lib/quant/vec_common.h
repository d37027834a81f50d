/* SPDX-License-Identifier: MIT */
#ifndef LM_QUANT_VEC_COMMON_H
#define LM_QUANT_VEC_COMMON_H

/*
 * Vectors of floats and of bytes for *_lanes.h: vec_avx2.h and vec_avx512.h define their types,
 * LANES and BYTES, and how intrinsics are spelt for them,
 *
 *   V(op)    _mm256_op or _mm512_op
 *   VSI(op)  _mm256_op_si256 or _mm512_op_si512
 *
 * then include this file, with what is alike for both, and have the rest.
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
 *   v_least_fours v_most_fours     of four vectors one, see below
 *   v_least_join(q) v_most_join(q) of LANES / 4 such, q[g] of vectors v[4 * g] to v[4 * g + 3]:
 *                                  lane k is the smallest, the largest lane of v[k]; of zeros
 *                                  of both signs either
 *   v_turn(x, step, t)             t[i] lane k = x[k * step + i], for i < LANES
 *   v_halves(h, v)                 f16, side by side, rounded to nearest even
 *   v_four(p) v_eight(p)           p[lane % 4], p[lane % 8]
 *   v_look(t, i)                   of such a vector the element i % 4 or i % 8
 *   v_le                           a <= b
 *   v_inverse                      1 / a, but for 4e-4 of it
 *   vt v_table16(p) v_look16(t, i) sixteen floats; of them those with numbers i < 16
 *   i_set i_load i_store           as above for int32, memory of any alignment
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

static inline vf v_set(float f) { return V(set1_ps)(f); }
static inline vf v_loadu(const float *p) { return V(loadu_ps)(p); }
static inline void v_store(float *p, vf v) { V(store_ps)(p, v); }
static inline void v_storeu(float *p, vf v) { V(storeu_ps)(p, v); }
static inline vf v_add(vf a, vf b) { return V(add_ps)(a, b); }
static inline vf v_sub(vf a, vf b) { return V(sub_ps)(a, b); }
static inline vf v_mul(vf a, vf b) { return V(mul_ps)(a, b); }
static inline vf v_div(vf a, vf b) { return V(div_ps)(a, b); }
static inline vf v_sqrt(vf a) { return V(sqrt_ps)(a); }
static inline vf v_min(vf a, vf b) { return V(min_ps)(a, b); }
static inline vf v_max(vf a, vf b) { return V(max_ps)(a, b); }
static inline vf v_float(vi v) { return V(cvtepi32_ps)(v); }
static inline vi v_truncate(vf v) { return V(cvttps_epi32)(v); }

static inline vi i_set(int v) { return V(set1_epi32)(v); }
static inline vi i_load(const void *p) { return VSI(loadu)(p); }
static inline void i_store(void *p, vi v) { VSI(storeu)(p, v); }
static inline vi i_sub(vi a, vi b) { return V(sub_epi32)(a, b); }
static inline vi i_and(vi a, vi b) { return VSI(and)(a, b); }
static inline vi i_or(vi a, vi b) { return VSI(or)(a, b); }
static inline vi i_min(vi a, vi b) { return V(min_epi32)(a, b); }
static inline vi i_shl(vi a, int n) { return V(slli_epi32)(a, n); }
static inline vi i_shr(vi a, int n) { return V(srli_epi32)(a, n); }

static inline vb b_set(int v) { return V(set1_epi8)((char)v); }
static inline vb b_load(const void *p) { return VSI(loadu)(p); }
static inline void b_store(void *p, vb v) { VSI(storeu)(p, v); }
static inline vb b_add(vb a, vb b) { return V(add_epi8)(a, b); }
static inline vb b_sub(vb a, vb b) { return V(sub_epi8)(a, b); }
static inline vb b_min(vb a, vb b) { return V(min_epu8)(a, b); }
static inline vb b_look(vb t, vb i) { return V(shuffle_epi8)(t, i); }

static inline vi v_nearest(vf t)
{
    vi b = VSI(castps)(v_add(t, v_set(12582912.0f)));
    return i_sub(i_and(b, i_set(0x7fffff)), i_set(4194304));
}

static inline vi v_code(vf t, int lo, int hi)
{
    return i_min(V(max_epi32)(v_nearest(t), i_set(lo)), i_set(hi));
}

static inline vi v_index(int step, int last)
{
    static const int32_t lane[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    return V(mullo_epi32)(i_min(i_load(lane), i_set(last)), i_set(step));
}

/* Of two vectors the halves of their pairs: v[0] low, w[0] low, ... and the high ones. */
static inline vf low_halves(vf v, vf w)
{
    return V(castpd_ps)(V(unpacklo_pd)(V(castps_pd)(v), V(castps_pd)(w)));
}

static inline vf high_halves(vf v, vf w)
{
    return V(castpd_ps)(V(unpackhi_pd)(V(castps_pd)(v), V(castps_pd)(w)));
}

/* Four rows, turned within each four of their elements: by pairs, then by fours. */
static inline void turn_fours(const float *x, int step, vf u[4])
{
    vf r0 = v_loadu(x), r1 = v_loadu(x + step);
    vf r2 = v_loadu(x + 2 * step), r3 = v_loadu(x + 3 * step);
    vf a = V(unpacklo_ps)(r0, r1), b = V(unpackhi_ps)(r0, r1);
    vf c = V(unpacklo_ps)(r2, r3), d = V(unpackhi_ps)(r2, r3);
    u[0] = low_halves(a, c);
    u[1] = high_halves(a, c);
    u[2] = low_halves(b, d);
    u[3] = high_halves(b, d);
}

/* Of four vectors one: in each four of its elements what op makes of those of v[0] to v[3]. */
#define REDUCE_FOURS(name, op)                                                                   \
    static inline vf name(const vf *v)                                                           \
    {                                                                                            \
        vf ab = op(V(unpacklo_ps)(v[0], v[1]), V(unpackhi_ps)(v[0], v[1]));                      \
        vf cd = op(V(unpacklo_ps)(v[2], v[3]), V(unpackhi_ps)(v[2], v[3]));                      \
        return op(low_halves(ab, cd), high_halves(ab, cd));                                      \
    }
REDUCE_FOURS(v_least_fours, v_min)
REDUCE_FOURS(v_most_fours, v_max)
#undef REDUCE_FOURS

#endif
