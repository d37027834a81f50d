/* SPDX-License-Identifier: MIT */
#ifndef LM_BASE_ARENA_H
#define LM_BASE_ARENA_H

#include <stddef.h>

/*
 * struct lm_arena - memory that is given back all at once.
 *
 * Zero-initialise it, allocate from it, release it.  Pointers stay valid until
 * the release.  Allocation is aligned to 16 bytes and zeroed.
 */
struct lm_arena {
    struct lm_arena_block *last;
    struct lm_arena_owned *owned;     /* blocks of lm_arena_own */
    size_t                 used;      /* bytes handed out, for statistics */
};

/* size zeroed bytes, or NULL when memory is short. */
void *lm_arena_alloc(struct lm_arena *a, size_t size);

/* count zeroed items of size bytes; NULL also when the product overflows. */
void *lm_arena_array(struct lm_arena *a, size_t count, size_t size);

/* A copy of n bytes with a NUL after them; NULL when memory is short. */
char *lm_arena_copy(struct lm_arena *a, const void *p, size_t n);

/* Take over p, a block of malloc: it is given back with the rest.  NULL when memory is
 * short (p stays the caller's) or p is NULL, else p. */
void *lm_arena_own(struct lm_arena *a, void *p);

/* Give everything back; the arena is empty and usable again. */
void lm_arena_release(struct lm_arena *a);

#endif
