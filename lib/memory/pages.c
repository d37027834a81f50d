/* SPDX-License-Identifier: MIT */
/*
 * The pages of a sequence: LM_KV_PAGE positions each, of all layers of a list.
 *
 *   page   for each layer: K [n_head_kv][LM_KV_PAGE][head_k], V [n_head_kv][LM_KV_PAGE][head_v]
 *
 * Positions beyond a sequence's length may hold anything: nothing reads them, so that
 * taking a batch back only means to forget its length.
 *
 * What a graph is given is the address of the list of a sequence's pages.  A device that cannot
 * read the host's memory has a copy of the list, brought up to date before each batch.
 */
#include "memory/memory_parts.h"

#include <stdlib.h>

#include "base/size.h"

static uint32_t pages_of(uint32_t length)
{
    return length / LM_KV_PAGE + (length % LM_KV_PAGE != 0);
}

static bool grow(struct lm_page_list *l, size_t n)
{
    return lm_grow(&l->data, &l->cap_data, n, sizeof *l->data) &&
           lm_grow(&l->block, &l->cap_block, n, sizeof *l->block);
}

int lm_pages_extend(struct lm_page_part *p, struct lm_page_list *l, uint32_t pos,
                    struct lm_err *err)
{
    uint32_t i = pos / LM_KV_PAGE;
    if (i < l->n && l->block[i]->owners == 1)
        return LM_OK;
    if (!grow(l, (size_t)i + 1))
        return lm_fail_nomem(err);
    struct lm_block *b = lm_blocks_get(&p->blocks, err);
    if (!b)
        return LM_ENOMEM;
    if (i < l->n) {
        int r = b->buffer->ops->copy(b->buffer, b->data, l->data[i], p->blocks.size, err);
        if (r) {
            lm_blocks_put(&p->blocks, b);
            return r;
        }
        lm_blocks_put(&p->blocks, l->block[i]);
    } else {
        l->n++;
    }
    l->block[i] = b;
    l->data[i] = b->data;
    l->synced = l->synced < i ? l->synced : i;
    return LM_OK;
}

void lm_pages_cut(struct lm_page_part *p, struct lm_page_list *l, uint32_t length)
{
    uint32_t n = pages_of(length);
    while (l->n > n)
        lm_blocks_put(&p->blocks, l->block[--l->n]);
    l->gone = l->gone < length ? l->gone : length;
    l->synced = l->synced < n ? l->synced : n;
}

uint32_t lm_pages_seen(const struct lm_page_part *p, uint32_t length)
{
    return p->window && length >= p->window ? length - p->window + 1 : 0;
}

bool lm_pages_reach(const struct lm_page_part *p, const struct lm_page_list *l, uint32_t length)
{
    return l->gone <= lm_pages_seen(p, length) || length == 0;
}

/* A page more than needed stays, so that a sequence can be cut back by a few tokens. */
void lm_pages_trim(struct lm_page_part *p, struct lm_page_list *l, uint32_t length)
{
    uint32_t n = lm_pages_seen(p, length) / LM_KV_PAGE;
    for (uint32_t i = l->gone / LM_KV_PAGE; i + 1 < n; i++) {
        lm_blocks_put(&p->blocks, l->block[i]);
        l->block[i] = NULL;
        l->data[i] = NULL;
        l->gone = (i + 1) * LM_KV_PAGE;
    }
}

int lm_pages_share(struct lm_page_list *dst, const struct lm_page_list *src, struct lm_err *err)
{
    if (!grow(dst, src->n))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < src->n; i++) {
        dst->data[i] = src->data[i];
        dst->block[i] = src->block[i];
        if (src->block[i])
            src->block[i]->owners++;
    }
    dst->n = src->n;
    dst->gone = src->gone;
    dst->synced = 0;
    return LM_OK;
}

void lm_pages_release(struct lm_page_part *p, struct lm_page_list *l)
{
    lm_pages_cut(p, l, 0);
}

void lm_pages_free(struct lm_page_part *p, struct lm_page_list *l)
{
    lm_pages_release(p, l);
    if (l->there)
        l->there->ops->free(l->there);
    free(l->data);
    free(l->block);
    *l = (struct lm_page_list){ 0 };
}

/* A list twice as long as needed, so that it is seldom made anew. */
static int room_there(const struct lm_page_part *p, struct lm_page_list *l, struct lm_err *err)
{
    const size_t n = l->n < 32 ? 64 : 2 * (size_t)l->n;
    struct lm_buffer *b = n > UINT32_MAX ? NULL
                          : p->blocks.buft->ops->alloc(p->blocks.buft, n * sizeof *l->data, err);
    if (!b)
        return lm_fail(err, LM_ENOMEM, "out of memory for cached tokens");
    b->use = LM_USE_STATE;
    if (l->there)
        l->there->ops->free(l->there);
    l->there = b;
    l->cap_there = (uint32_t)n;
    l->synced = 0;
    return LM_OK;
}

int lm_pages_sync(const struct lm_page_part *p, struct lm_page_list *l, struct lm_err *err)
{
    if (l->synced == l->n || lm_blocks_in_host(&p->blocks))
        return LM_OK;
    int r = l->n > l->cap_there ? room_there(p, l, err) : LM_OK;
    if (r)
        return r;
    uint8_t **there = l->there->ops->base(l->there);
    r = l->there->ops->write(l->there, there + l->synced, l->data + l->synced,
                             (l->n - l->synced) * sizeof *there, err);
    if (!r)
        l->synced = l->n;
    return r;
}

int64_t lm_pages_address(const struct lm_page_list *l)
{
    const void *list = l->there ? l->there->ops->base(l->there) : l->data;
    return (int64_t)(uintptr_t)list;
}

size_t lm_pages_back(const struct lm_page_list *l, uint32_t length)
{
    size_t n = 0;
    for (uint32_t i = pages_of(length); i < l->n; i++)
        n += l->block[i] && l->block[i]->owners == 1;
    return n;
}
