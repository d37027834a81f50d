/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE         /* MAP_ANONYMOUS, madvise */

#include "base/table.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20)

void lm_use_all(void *p, size_t size)
{
#ifdef MADV_HUGEPAGE
    const size_t page = 4096, before = (size_t)(-(uintptr_t)p & (page - 1));
    if (size >= LARGE)
        (void)madvise((char *)p + before, (size - before) & ~(page - 1), MADV_HUGEPAGE);
#else
    (void)p, (void)size;
#endif
}

/* To whole large pages where what stands over is half of one or more; memory is given in those. */
static size_t rounded(size_t size)
{
    const size_t over = size & (LARGE - 1);
    return over >= LARGE / 2 && size <= SIZE_MAX - LARGE ? size - over + LARGE : size;
}

void *lm_malloc_large(size_t size)
{
    if (rounded(size) < LARGE || size > SIZE_MAX / 2)
        return malloc(size);
    size = (rounded(size) + LARGE - 1) & ~(LARGE - 1);
    void *p = aligned_alloc(LARGE, size);
    if (p)
        lm_use_all(p, size);
    return p;
}

/* Large pages begin at multiples of their size: one more is mapped, and what stands out of
 * the aligned part is unmapped again. */
void *lm_table_new(size_t size)
{
    size = rounded(size);
    size_t more = size >= LARGE ? LARGE : 0;
    if (size > SIZE_MAX - more)
        return NULL;
    char *p = mmap(NULL, size + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (!more)
        return p;
    size_t before = (size_t)(-(uintptr_t)p & (LARGE - 1)), page = 4096;
    size_t used = (size + page - 1) & ~(page - 1), all = (size + more + page - 1) & ~(page - 1);
    if (before)
        munmap(p, before);
    if (all > before + used)
        munmap(p + before + used, all - before - used);
    lm_use_all(p + before, size);
    return p + before;
}

void lm_table_free(void *table, size_t size)
{
    if (table)
        munmap(table, rounded(size));
}
