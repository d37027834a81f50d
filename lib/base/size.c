/* SPDX-License-Identifier: MIT */
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"

void *lm_malloc_array(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return malloc(total ? total : 1);
}

void *lm_copy_array(const void *p, size_t count, size_t size)
{
    void *copy = lm_malloc_array(count, size);
    if (copy && count)
        memcpy(copy, p, count * size);
    return copy;
}

bool lm_grow(void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;

    size_t n = *cap ? *cap : 16, total;
    while (n < need)
        if (__builtin_mul_overflow(n, (size_t)2, &n))
            return false;
    if (__builtin_mul_overflow(n, size, &total))
        return false;

    void *old, *new;
    memcpy(&old, array, sizeof old);   /* array is a T **, whatever T is */
    new = realloc(old, total);
    if (!new)
        return false;
    lm_use_all(new, total);
    memcpy(array, &new, sizeof new);
    *cap = n;
    return true;
}
