/* SPDX-License-Identifier: MIT */
/* The searches of fit.c, sixteen sub-blocks at a time. */
#include "quant/block.h"
#include "quant/fit.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 16

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

static inline vf v_set(float f) { return _mm512_set1_ps(f); }
static inline vf v_loadu(const float *p) { return _mm512_loadu_ps(p); }
static inline void v_store(float *p, vf v) { _mm512_store_ps(p, v); }
static inline vf v_gather(const float *p, vi i) { return _mm512_i32gather_ps(i, p, 4); }
static inline vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf v_abs(vf a) { return _mm512_abs_ps(a); }
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
static inline int v_first(vm m) { return m ? __builtin_ctz(m) : -1; }

static inline vi v_code(vf t, int lo, int hi)
{
    vi b = _mm512_castps_si512(_mm512_add_ps(t, _mm512_set1_ps(12582912.0f)));
    b = _mm512_sub_epi32(_mm512_and_si512(b, _mm512_set1_epi32(0x7fffff)),
                         _mm512_set1_epi32(4194304));
    b = _mm512_max_epi32(b, _mm512_set1_epi32(lo));
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

#include "quant/fit_lanes.h"

const struct lm_fit lm_fit_avx512 = { affine, symmetric, extremes, bytes };

#endif
