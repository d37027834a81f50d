/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_SIZE_H
#define LM_BASE_SIZE_H

/* Arithmetic on sizes that come from files: each function says whether the
 * exact result fits, and stores it only then. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool lm_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool lm_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Round n up to a multiple of align, a power of two. */
static inline bool lm_align_u64(uint64_t n, uint64_t align, uint64_t *out)
{
    uint64_t r;
    if (!lm_add_u64(n, align - 1, &r))
        return false;
    *out = r & ~(align - 1);
    return true;
}

/* malloc of count items of size bytes, NULL when the product does not fit.
 * The result is released with free. */
void *lm_malloc_array(size_t count, size_t size);

/* The same, with the items at p copied into it; p may be NULL if count is 0. */
void *lm_copy_array(const void *p, size_t count, size_t size);

/* Grow *array, which has room for *cap items, so that it holds at least `need`.
 * Doubles, starting at 16.  Returns false, with everything as it was, when
 * memory is short. */
bool lm_grow(void *array, size_t *cap, size_t need, size_t size);

#endif
