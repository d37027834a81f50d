/* SPDX-License-Identifier: MIT */
/*
 * Keys and values of every position, in pages of LM_KV_PAGE positions of one
 * sequence.  A page holds all layers, so that a sequence is a list of pages:
 *
 *   page   for each layer: K [n_head_kv][LM_KV_PAGE][head_k], V [n_head_kv][LM_KV_PAGE][head_v],
 *          the latter only where values are not the beginnings of keys
 *
 * Positions beyond a sequence's length may hold anything: nothing reads them, so that
 * taking a batch back only means to forget its length.
 */
#include "memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Bytes of pages to ask for at once, as far as pages go into them. */
#define SLAB_MIN (8u << 20)
#define SLAB_MAX (64u << 20)

struct seq {
    struct seq *next;           /* of the same hash, or free                    */
    uint32_t    id, length, n_pages;
    uint32_t    pending;        /* length when the current batch is kept        */
    bool        fresh;          /* made by the current batch                    */
    uint8_t   **pages;          /* [cap_pages], grows only while a batch begins */
    size_t      cap_pages;
};

struct kv {
    struct lm_memory base;
    size_t           page_size;
    uint32_t         n_ctx, n_batch;
    struct seq     **table;     /* by hash of the id                            */
    size_t           mask, n_seqs;
    struct seq      *idle;      /* dropped sequences                            */
    uint8_t        **free;      /* pages that no sequence has                   */
    size_t           n_free, cap_free;
    const struct lm_buft *buft;
    struct lm_buffer    **slabs;
    size_t           n_slabs, cap_slabs, n_pages;
    struct seq     **batch;     /* [n_batch] sequence of each token             */
    size_t           n;
};

static bool align64(size_t *at, uint64_t add)
{
    uint64_t next;
    if (!lm_add_u64(*at, add, &next) || !lm_align_u64(next, 64, &next) || next > SIZE_MAX / 4)
        return false;
    *at = (size_t)next;
    return true;
}

int lm_kv_place(const struct lm_kv_shape *s, uint32_t layer, struct lm_kv_layout *out,
                size_t *page_size, struct lm_err *err)
{
    uint64_t k, v, page;
    size_t bytes = 0;
    const struct lm_type *types[2] = { s->k_type, s->v_type };
    for (int i = 0; i < 2; i++)
        if (types[i]->id != LM_F32 && types[i]->id != LM_F16)
            return lm_fail(err, LM_ENOSUP, "a cache of type %s is not supported",
                           types[i]->name);
    *out = (struct lm_kv_layout){
        .k_type = s->k_type, .v_type = s->v_type,
        .n_head_kv = s->n_head_kv, .head_k = s->head_k, .head_v = s->head_v,
        .k_row = (size_t)s->head_k * s->k_type->bytes,
        .v_row = (size_t)s->head_v * s->v_type->bytes,
    };
    if (s->v_in_k) {
        out->v_in_k = true;
        out->v_type = s->k_type;
        out->v_row = out->k_row;
    }
    uint64_t heads = (uint64_t)s->n_head_kv * LM_KV_PAGE;
    if (!lm_mul_u64(heads, out->k_row, &k) || !lm_mul_u64(heads, out->v_row, &v) ||
        !align64(&bytes, k))
        return lm_fail_nomem(err);
    out->v_off = s->v_in_k ? 0 : bytes;
    v = s->v_in_k ? 0 : v;
    if (!align64(&bytes, v) || !lm_mul_u64(bytes, s->n_layer, &page) || page > SIZE_MAX / 4)
        return lm_fail_nomem(err);
    out->k_off = bytes * layer;
    out->v_off += out->k_off;
    *page_size = (size_t)page;
    return LM_OK;
}

static size_t slot(const struct kv *m, uint32_t id)
{
    return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & m->mask;
}

static struct seq *find(const struct kv *m, uint32_t id)
{
    struct seq *s = m->table[slot(m, id)];
    while (s && s->id != id)
        s = s->next;
    return s;
}

/* Twice the table when there are as many sequences as slots; staying small is no failure. */
static void widen(struct kv *m)
{
    size_t n = (m->mask + 1) * 2;
    struct seq **old = m->table, **table = m->n_seqs > m->mask ? calloc(n, sizeof *table) : NULL;
    if (!table)
        return;
    size_t n_old = m->mask + 1;
    m->table = table;
    m->mask = n - 1;
    for (size_t i = 0; i < n_old; i++)
        for (struct seq *s = old[i], *next; s; s = next) {
            next = s->next;
            s->next = table[slot(m, s->id)];
            table[slot(m, s->id)] = s;
        }
    free(old);
}

static struct seq *add_seq(struct kv *m, uint32_t id)
{
    struct seq *s = m->idle;
    if (s)
        m->idle = s->next;
    else
        s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    widen(m);
    s->next = m->table[slot(m, id)];
    s->id = id;
    s->length = s->pending = 0;
    s->fresh = true;
    m->table[slot(m, id)] = s;
    m->n_seqs++;
    return s;
}

/* Pages beyond the first n become free; the list has room for every page there is. */
static void shrink(struct kv *m, struct seq *s, uint32_t n)
{
    while (s->n_pages > n)
        m->free[m->n_free++] = s->pages[--s->n_pages];
}

static void drop(struct kv *m, struct seq *s)
{
    struct seq **p = &m->table[slot(m, s->id)];
    shrink(m, s, 0);
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    s->next = m->idle;
    m->idle = s;
    m->n_seqs--;
}

/* More pages: twice as many as before, within limits. */
static int add_slab(struct kv *m, struct lm_err *err)
{
    size_t n = m->n_pages;
    if (n < SLAB_MIN / m->page_size)
        n = SLAB_MIN / m->page_size;
    if (n > SLAB_MAX / m->page_size)
        n = SLAB_MAX / m->page_size;
    if (n == 0)
        n = 1;
    struct lm_buffer *slab = NULL;
    if (!lm_grow(&m->slabs, &m->cap_slabs, m->n_slabs + 1, sizeof *m->slabs) ||
        !lm_grow(&m->free, &m->cap_free, m->n_pages + n, sizeof *m->free) ||
        !(slab = m->buft->ops->alloc(m->buft, n * m->page_size, err)))
        return lm_fail(err, LM_ENOMEM, "out of memory for cached tokens");
    m->slabs[m->n_slabs++] = slab;
    m->n_pages += n;
    for (size_t i = n; i-- > 0; )
        m->free[m->n_free++] = (uint8_t *)slab->ops->base(slab) + i * m->page_size;
    return LM_OK;
}

static int add_token(struct kv *m, const struct lm_memory_token *t, struct lm_err *err)
{
    struct seq *s = find(m, t->seq);
    uint32_t length = s ? s->pending : 0;
    if (t->pos != length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens: position %u does not follow",
                       t->seq, length, t->pos);
    if (t->pos >= m->n_ctx)
        return lm_fail(err, LM_EUSE, "sequence %u is longer than the context of %u tokens",
                       t->seq, m->n_ctx);
    if (!s && !(s = add_seq(m, t->seq)))
        return lm_fail_nomem(err);
    m->batch[m->n++] = s;
    if (t->pos / LM_KV_PAGE == s->n_pages) {
        if (!lm_grow(&s->pages, &s->cap_pages, s->n_pages + 1, sizeof *s->pages))
            return lm_fail_nomem(err);
        if (m->n_free == 0 && add_slab(m, err))
            return LM_ENOMEM;
        s->pages[s->n_pages++] = m->free[--m->n_free];
    }
    s->pending = t->pos + 1;
    return LM_OK;
}

static void kv_end(struct lm_memory *base, bool keep)
{
    struct kv *m = (struct kv *)base;
    for (size_t i = 0; i < m->n; i++) {
        struct seq *s = m->batch[i];
        if (keep) {
            s->length = s->pending;
            s->fresh = false;
            continue;
        }
        s->pending = s->length;
        shrink(m, s, (s->length + LM_KV_PAGE - 1) / LM_KV_PAGE);
    }
    for (size_t i = 0; i < m->n && !keep; i++)
        if (m->batch[i]->fresh) {
            m->batch[i]->fresh = false;     /* its other tokens find it dropped */
            drop(m, m->batch[i]);
        }
    m->n = 0;
}

static int kv_begin(struct lm_memory *base, const struct lm_memory_token *t, size_t n,
                    struct lm_err *err)
{
    struct kv *m = (struct kv *)base;
    if (n > m->n_batch)
        return lm_fail(err, LM_EUSE, "%zu tokens in a batch of %u", n, m->n_batch);
    for (size_t i = 0; i < n; i++) {
        int r = add_token(m, &t[i], err);
        if (r) {
            kv_end(base, false);
            return r;
        }
    }
    return LM_OK;
}

static void kv_pages(struct lm_memory *base, size_t first, size_t n, int64_t *dst)
{
    struct kv *m = (struct kv *)base;
    for (size_t i = 0; i < n; i++)
        dst[i] = (int64_t)(uintptr_t)m->batch[first + i]->pages;
}

static void kv_lengths(struct lm_memory *base, size_t first, size_t n, int32_t *dst)
{
    struct kv *m = (struct kv *)base;
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)m->batch[first + i]->pending;
}

static uint32_t kv_length(const struct lm_memory *base, uint32_t seq)
{
    const struct seq *s = find((const struct kv *)base, seq);
    return s ? s->length : 0;
}

static int kv_remove(struct lm_memory *base, uint32_t seq, uint32_t pos, struct lm_err *err)
{
    struct kv *m = (struct kv *)base;
    struct seq *s = find(m, seq);
    uint32_t length = s ? s->length : 0;
    if (pos > length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens, not %u", seq, length, pos);
    if (!s)
        return LM_OK;
    s->length = s->pending = pos;
    shrink(m, s, (pos + LM_KV_PAGE - 1) / LM_KV_PAGE);
    if (pos == 0)
        drop(m, s);
    return LM_OK;
}

/* A token takes a page where its position begins one. */
static int kv_room(struct lm_memory *base, uint32_t seq, uint32_t pos,
                   const struct lm_memory_token *t, size_t n, struct lm_err *err)
{
    struct kv *m = (struct kv *)base;
    const struct seq *s = find(m, seq);
    size_t kept = pos / LM_KV_PAGE + (pos % LM_KV_PAGE != 0), need = 0;
    size_t back = s && s->n_pages > kept ? s->n_pages - kept : 0;
    for (size_t i = 0; i < n; i++)
        need += t[i].pos % LM_KV_PAGE == 0;
    while (m->n_free + back < need) {
        int r = add_slab(m, err);
        if (r)
            return r;
    }
    return LM_OK;
}

static void kv_free(struct lm_memory *base)
{
    struct kv *m = (struct kv *)base;
    if (!m)
        return;
    for (size_t i = 0; m->table && i <= m->mask; i++)
        while (m->table[i])
            drop(m, m->table[i]);
    for (struct seq *s = m->idle, *next; s; s = next) {
        next = s->next;
        free(s->pages);
        free(s);
    }
    for (size_t i = 0; i < m->n_slabs; i++)
        m->slabs[i]->ops->free(m->slabs[i]);
    free(m->slabs);
    free(m->free);
    free(m->batch);
    free(m->table);
    free(m);
}

static const struct lm_memory_ops kv_ops = {
    kv_free, kv_begin, kv_pages, kv_lengths, kv_end, kv_length, kv_remove, kv_room
};

struct lm_memory *lm_kv_new(const struct lm_kv_shape *s, uint32_t n_ctx, uint32_t n_batch,
                            struct lm_err *err)
{
    struct lm_kv_layout layout;
    size_t page_size;
    if (lm_kv_place(s, 0, &layout, &page_size, err))
        return NULL;
    struct kv *m = calloc(1, sizeof *m);
    if (!m) {
        lm_fail_nomem(err);
        return NULL;
    }
    m->base.ops = &kv_ops;
    m->buft = s->buft;
    m->page_size = page_size;
    m->n_ctx = n_ctx;
    m->n_batch = n_batch;
    m->mask = 15;
    m->table = calloc(m->mask + 1, sizeof *m->table);
    m->batch = lm_malloc_array(n_batch, sizeof *m->batch);
    if (!m->table || !m->batch) {
        kv_free(&m->base);
        lm_fail_nomem(err);
        return NULL;
    }
    return &m->base;
}
