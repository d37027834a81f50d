/* SPDX-License-Identifier: MIT */
/* Blocks of one size, allocated many at a time, each with a count of those that use it. */
#include "memory/memory_parts.h"

#include <stdlib.h>

#include "base/size.h"

/* Bytes to ask for at once, as far as blocks go into them. */
#define SLAB_MIN (8u << 20)
#define SLAB_MAX (64u << 20)

/* More blocks: twice as many as before, within limits, at least `need`. */
static int add_slab(struct lm_blocks *b, size_t need, struct lm_err *err)
{
    size_t n = b->n_all;
    uint64_t bytes;
    struct lm_slab s;
    if (n < SLAB_MIN / b->size)
        n = SLAB_MIN / b->size;
    if (n > SLAB_MAX / b->size)
        n = SLAB_MAX / b->size;
    if (n < need)
        n = need;
    if (!lm_mul_u64(n, b->size, &bytes) || bytes > SIZE_MAX / 2 ||
        !lm_grow(&b->slabs, &b->cap_slabs, b->n_slabs + 1, sizeof *b->slabs) ||
        !(s.blocks = lm_malloc_array(n, sizeof *s.blocks)))
        return lm_fail(err, LM_ENOMEM, "out of memory for cached tokens");
    if (!(s.buffer = b->buft->ops->alloc(b->buft, (size_t)bytes, err))) {
        free(s.blocks);
        return lm_fail(err, LM_ENOMEM, "out of memory for cached tokens");
    }
    b->slabs[b->n_slabs++] = s;
    s.buffer->use = LM_USE_STATE;
    uint8_t *base = s.buffer->ops->base(s.buffer);
    for (size_t i = n; i-- > 0; b->free = &s.blocks[i])
        s.blocks[i] = (struct lm_block){ base + i * b->size, s.buffer, 0, b->free };
    b->n_all += n;
    b->n_free += n;
    return LM_OK;
}

int lm_blocks_reserve(struct lm_blocks *b, size_t n, struct lm_err *err)
{
    return n > b->n_free ? add_slab(b, n - b->n_free, err) : LM_OK;
}

struct lm_block *lm_blocks_get(struct lm_blocks *b, struct lm_err *err)
{
    if (lm_blocks_reserve(b, 1, err))
        return NULL;
    struct lm_block *block = b->free;
    b->free = block->next;
    b->n_free--;
    block->owners = 1;
    return block;
}

void lm_blocks_put(struct lm_blocks *b, struct lm_block *block)
{
    if (!block || --block->owners)
        return;
    block->next = b->free;
    b->free = block;
    b->n_free++;
}

bool lm_blocks_in_host(const struct lm_blocks *b)
{
    return b->buft->ops->host;
}

void lm_blocks_free(struct lm_blocks *b)
{
    for (size_t i = 0; i < b->n_slabs; i++) {
        b->slabs[i].buffer->ops->free(b->slabs[i].buffer);
        free(b->slabs[i].blocks);
    }
    free(b->slabs);
}
