/* SPDX-License-Identifier: MIT */
/*
 * binary16 by the CPU's own conversions.  They round as f16.h does; of a NaN they keep
 * more bits, so eights with one go the other way.
 */
#include "quant/plain_avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "base/f16.h"

void lm_f16_pack_avx2(const float *src, void *dst, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const __m256 v = _mm256_loadu_ps(src + i);
        uint16_t *to = (uint16_t *)dst + i;
        if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) {
            for (int k = 0; k < 8; k++) {
                const uint16_t h = lm_f16_store(src[i + k]);
                memcpy((char *)to + 2 * k, &h, 2);
            }
        } else {
            _mm_storeu_si128((__m128i *)(void *)to,
                             _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
    }
}

void lm_f16_unpack_avx2(const void *src, float *dst, size_t n)
{
    for (size_t i = 0; i < n; i += 8) {
        const char *from = (const char *)src + 2 * i;
        const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)from);
        const __m256 v = _mm256_cvtph_ps(h);
        if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) {
            for (int k = 0; k < 8; k++) {
                uint16_t one;
                memcpy(&one, from + 2 * k, 2);
                dst[i + (size_t)k] = lm_f16_load(one);
            }
        } else {
            _mm256_storeu_ps(dst + i, v);
        }
    }
}

/* Eight floats to bfloat16, in the low halves of the lanes. */
static __m256i to_bf16(const float *p)
{
    const __m256i u = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i high = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256 f = _mm256_castsi256_ps(u), nan = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(_mm256_srli_epi32(near, 16), quiet, _mm256_castps_si256(nan));
}

void lm_bf16_pack_avx2(const float *src, void *dst, size_t n)
{
    __m256i *to = dst;
    for (size_t i = 0; i < n; i += 16) {
        const __m256i both = _mm256_packus_epi32(to_bf16(src + i), to_bf16(src + i + 8));
        _mm256_storeu_si256(to++, _mm256_permute4x64_epi64(both, 0xd8));
    }
}

void lm_bf16_unpack_avx2(const void *src, float *dst, size_t n)
{
    const __m256i *from = src;
    for (size_t i = 0; i < n; i += 16) {
        const __m256i v = _mm256_permute4x64_epi64(_mm256_loadu_si256(from++), 0xd8);
        const __m256i zero = _mm256_setzero_si256();
        _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(_mm256_unpacklo_epi16(zero, v)));
        _mm256_storeu_ps(dst + i + 8, _mm256_castsi256_ps(_mm256_unpackhi_epi16(zero, v)));
    }
}

size_t lm_without_ones_avx2(const void *src, size_t n, uint16_t mask)
{
    const __m256i m = _mm256_set1_epi16((short)mask), *from = src;
    for (size_t i = 0; i < n; i += 32, from += 2) {
        const __m256i a = _mm256_and_si256(_mm256_loadu_si256(from), m);
        const __m256i b = _mm256_and_si256(_mm256_loadu_si256(from + 1), m);
        const __m256i any = _mm256_or_si256(_mm256_cmpeq_epi16(a, m), _mm256_cmpeq_epi16(b, m));
        if (_mm256_movemask_epi8(any))
            return i;
    }
    return n;
}

#endif
