/* SPDX-License-Identifier: MIT */
/*
 * The pages of a sequence: LM_KV_PAGE positions each, of all layers of a list.
 *
 *   page   for each layer: K [n_head_kv][LM_KV_PAGE][head_k], V [n_head_kv][LM_KV_PAGE][head_v]
 *
 * Positions beyond a sequence's length may hold anything: nothing reads them, so that
 * taking a batch back only means to forget its length.
 */
#include "memory/memory_parts.h"

#include <stdlib.h>
#include <string.h>

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
        memcpy(b->data, l->data[i], p->blocks.size);
        lm_blocks_put(&p->blocks, l->block[i]);
    } else {
        l->n++;
    }
    l->block[i] = b;
    l->data[i] = b->data;
    return LM_OK;
}

void lm_pages_cut(struct lm_page_part *p, struct lm_page_list *l, uint32_t length)
{
    uint32_t n = pages_of(length);
    while (l->n > n)
        lm_blocks_put(&p->blocks, l->block[--l->n]);
    l->gone = l->gone < length ? l->gone : length;
}

/* The first position that the next token of a sequence of that length sees. */
static uint32_t first_seen(const struct lm_page_part *p, uint32_t length)
{
    return p->window && length >= p->window ? length - p->window + 1 : 0;
}

bool lm_pages_reach(const struct lm_page_part *p, const struct lm_page_list *l, uint32_t length)
{
    return l->gone <= first_seen(p, length) || length == 0;
}

/* A page more than needed stays, so that a sequence can be cut back by a few tokens. */
void lm_pages_trim(struct lm_page_part *p, struct lm_page_list *l, uint32_t length)
{
    uint32_t n = first_seen(p, length) / LM_KV_PAGE;
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
    return LM_OK;
}

void lm_pages_release(struct lm_page_part *p, struct lm_page_list *l)
{
    lm_pages_cut(p, l, 0);
}

size_t lm_pages_back(const struct lm_page_list *l, uint32_t length)
{
    size_t n = 0;
    for (uint32_t i = pages_of(length); i < l->n; i++)
        n += l->block[i] && l->block[i]->owners == 1;
    return n;
}
