/* SPDX-License-Identifier: MIT */
/* The searches of fit.c, eight sub-blocks at a time. */
#include "quant/block.h"
#include "quant/fit.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 8

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;      /* all bits of a lane, or none */

static inline vf v_set(float f) { return _mm256_set1_ps(f); }
static inline vf v_loadu(const float *p) { return _mm256_loadu_ps(p); }
static inline void v_store(float *p, vf v) { _mm256_store_ps(p, v); }
static inline vf v_gather(const float *p, vi i) { return _mm256_i32gather_ps(p, i, 4); }
static inline vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline vm v_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
static inline vm v_and(vm a, vm b) { return _mm256_and_ps(a, b); }
static inline vf v_pick(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
static inline vf v_float(vi v) { return _mm256_cvtepi32_ps(v); }
static inline vi v_truncate(vf v) { return _mm256_cvttps_epi32(v); }

static inline float v_reduce_max(vf v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}

static inline int v_first(vm m)
{
    int bits = _mm256_movemask_ps(m);
    return bits ? __builtin_ctz((unsigned)bits) : -1;
}

static inline vi v_code(vf t, int lo, int hi)
{
    vi b = _mm256_castps_si256(_mm256_add_ps(t, _mm256_set1_ps(12582912.0f)));
    b = _mm256_sub_epi32(_mm256_and_si256(b, _mm256_set1_epi32(0x7fffff)),
                         _mm256_set1_epi32(4194304));
    b = _mm256_max_epi32(b, _mm256_set1_epi32(lo));
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

#include "quant/fit_lanes.h"

const struct lm_fit lm_fit_avx2 = { affine, symmetric, extremes, bytes };

#endif
