/* SPDX-License-Identifier: MIT */
/*
 * Where intermediates live.
 *
 * Nodes are visited in the order of evaluation.  Each takes the smallest free block that
 * holds it, or the end of its place's buffer; it may instead take over its first source's
 * bytes when no later node reads them.  A block becomes free when its last reader is done.
 *
 * Where that leaves holes, so that buffers are longer than what is in use at any time, blocks are
 * also placed by size: the greatest first, each at the lowest offset where nothing lies that is in
 * use when it is (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
 * 2020).  The shorter result counts.
 */
#include "tensor/ops.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Unused bytes between used ones, in order of offset; never touching each other. */
struct block {
    size_t offset, size;
};

struct memory {
    struct block    *free;
    size_t           n_free, cap_free;
    size_t           end;        /* first byte beyond everything used so far          */
    size_t           high;       /* the highest `end`                                 */
    size_t           used, most; /* bytes in use, and the most that ever were         */
};

struct plan {
    struct lm_graph *g;
    struct memory    at[LM_MAX_PLACES];
    size_t           align;
};

enum { HELD = LM_TENSOR_OUTPUT | LM_TENSOR_LOSS | LM_TENSOR_KEEP };

static struct lm_tensor *root_of(struct lm_tensor *t)
{
    return t->root ? t->root : t;
}

/* Size of a tensor's block; 0 for what is not planned: views, empty, placed elsewhere. */
static size_t block_size(const struct plan *p, const struct lm_tensor *t)
{
    if (t->root || t->data)
        return 0;
    size_t bytes = lm_tensor_bytes(t);
    return ((t->room > bytes ? t->room : bytes) + p->align - 1) & ~(p->align - 1);
}

static void take(struct plan *plan, struct lm_tensor *t)
{
    struct memory *p = &plan->at[t->place];
    size_t size = block_size(plan, t), best = p->n_free;
    if (!size)
        return;
    p->used += size;
    p->most = p->used > p->most ? p->used : p->most;
    for (size_t i = 0; i < p->n_free; i++)
        if (p->free[i].size >= size && (best == p->n_free || p->free[i].size < p->free[best].size))
            best = i;
    if (best == p->n_free) {
        t->offset = p->end;
        p->end += size;
        p->high = p->end > p->high ? p->end : p->high;
        return;
    }
    struct block *b = &p->free[best];
    t->offset = b->offset;
    b->offset += size;
    b->size -= size;
    if (b->size == 0) {
        for (size_t i = best + 1; i < p->n_free; i++)
            p->free[i - 1] = p->free[i];
        p->n_free--;
    }
}

/* Give bytes back, joined with free neighbours; free bytes at the end shorten it. */
static int give(struct plan *plan, uint32_t place, size_t offset, size_t size)
{
    struct memory *p = &plan->at[place];
    size_t i = 0;
    while (i < p->n_free && p->free[i].offset < offset)
        i++;
    if (!lm_grow(&p->free, &p->cap_free, p->n_free + 1, sizeof *p->free))
        return lm_fail_nomem(&plan->g->err);
    p->used -= size;
    for (size_t k = p->n_free++; k > i; k--)
        p->free[k] = p->free[k - 1];
    p->free[i] = (struct block){ offset, size };
    for (size_t k = i ? i - 1 : 0; k + 1 < p->n_free && k <= i; ) {
        struct block *a = &p->free[k], *b = a + 1;
        if (a->offset + a->size != b->offset) {
            k++;
            continue;
        }
        a->size += b->size;
        for (size_t m = k + 2; m < p->n_free; m++)
            p->free[m - 1] = p->free[m];
        p->n_free--;
    }
    struct block *last = &p->free[p->n_free - 1];
    if (last->offset + last->size == p->end) {
        p->end = last->offset;
        p->n_free--;
    }
    return LM_OK;
}

/* May t, whose sources are still counted, overwrite its first source? */
static bool in_place(const struct plan *p, const struct lm_tensor *t)
{
    if (!lm_op_row(t->op)->in_place || t->data)
        return false;
    const struct lm_tensor *s = t->src[0], *r = s->root ? s->root : s;
    return r->left == 1 && r->place == t->place && !r->data &&
           !(r->flags & (HELD | LM_TENSOR_PARAM)) && s->view_offset == 0 &&
           block_size(p, r) >= block_size(p, t) && block_size(p, t) > 0 && lm_tensor_contiguous(s);
}

static int done_with(struct plan *p, struct lm_tensor *t)
{
    size_t size = block_size(p, t);
    if (!size || t->flags & HELD)
        return LM_OK;
    return give(p, t->place, t->offset, size);
}

/* A node takes its bytes, then its sources lose a reader. */
static int visit(struct plan *p, struct lm_tensor *t)
{
    struct lm_tensor *heir = NULL;
    if (t->op == LM_OP_VIEW)
        return LM_OK;
    if (in_place(p, t)) {
        heir = root_of(t->src[0]);
        t->offset = heir->offset;
        /* The rest of a larger block is not needed any more. */
        size_t all = block_size(p, heir), used = block_size(p, t);
        if (all > used && give(p, t->place, t->offset + used, all - used))
            return p->g->err.code;
    } else {
        take(p, t);
    }
    for (size_t i = 0; i < LM_MAX_SRC; i++) {
        struct lm_tensor *r = t->src[i] ? root_of(t->src[i]) : NULL;
        if (r && --r->left == 0 && r != heir && done_with(p, r))
            return p->g->err.code;
    }
    return t->left == 0 ? done_with(p, t) : LM_OK;
}

static void count_reads(struct lm_graph *g)
{
    for (size_t i = 0; i < g->n_leaves; i++)
        g->leaves[i]->left = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        g->nodes[i]->left = 0;
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW) {
            root_of(t)->flags |= t->flags & HELD;
            continue;
        }
        for (size_t k = 0; k < LM_MAX_SRC; k++)
            if (t->src[k])
                root_of(t->src[k])->left++;
    }
}

/* In the order of evaluation: bytes of all buffers, and in *least, below what they cannot be. */
static size_t by_time(struct lm_graph *g, size_t align, size_t *least)
{
    struct plan p = { .g = g, .align = align };
    size_t all = 0;
    *least = 0;
    count_reads(g);
    for (size_t i = 0; i < g->n_leaves; i++)
        take(&p, g->leaves[i]);
    for (size_t i = 0; i < g->n_nodes && !g->err.code; i++)
        visit(&p, g->nodes[i]);
    for (int i = 0; i < LM_MAX_PLACES; i++) {
        free(p.at[i].free);
        g->planned[i] = p.at[i].high;
        all += p.at[i].high;
        *least += p.at[i].most;
    }
    return all;
}

/* --- by size ---------------------------------------------------------------------------- */

/* More blocks than the graphs of large models have would take too long. */
#define MOST_SPANS 8192

/* A block, and the first and last node during which it is in use. */
struct span {
    size_t   offset, size;
    size_t   first, last;
    uint32_t place;
};

/* A tensor's offset is the number of its span until spans are placed. */
static void add_span(const struct plan *p, struct lm_tensor *t, size_t now, struct span *spans,
                     size_t *n)
{
    const size_t size = block_size(p, t);
    if (!size)
        return;
    spans[*n] = (struct span){ 0, size, now, t->flags & HELD ? p->g->n_nodes : now, t->place };
    t->offset = (*n)++;
}

/* The spans of all blocks; *n of them. */
static void find_spans(const struct plan *p, struct span *spans, size_t *n)
{
    const struct lm_graph *g = p->g;
    *n = 0;
    for (size_t i = 0; i < g->n_leaves; i++)
        add_span(p, g->leaves[i], 0, spans, n);
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW)
            continue;
        if (in_place(p, t))
            t->offset = root_of(t->src[0])->offset;
        else
            add_span(p, t, i, spans, n);
        for (size_t k = 0; k <= LM_MAX_SRC; k++) {
            struct lm_tensor *r = k == LM_MAX_SRC ? t : t->src[k] ? root_of(t->src[k]) : NULL;
            if (r && block_size(p, r) && spans[r->offset].last < i)
                spans[r->offset].last = i;
            if (r && r != t)
                r->left--;
        }
        if (t->flags & HELD && block_size(p, t))
            spans[t->offset].last = g->n_nodes;
    }
}

static int larger(const void *a, const void *b)
{
    const struct span *x = *(struct span *const *)a, *y = *(struct span *const *)b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : (x > y) - (x < y);
}

/* Offsets for n spans; list [n] holds them first by size, and then those that have an offset by
 * that. */
static void place_spans(struct lm_graph *g, struct span *spans, size_t n, struct span **list)
{
    for (size_t i = 0; i < n; i++)
        list[i] = &spans[i];
    qsort(list, n, sizeof *list, larger);
    memset(g->planned, 0, sizeof g->planned);
    for (size_t i = 0; i < n; i++) {
        struct span *s = list[i];
        size_t at = 0, k = 0;
        for (; k < i; k++) {
            const struct span *q = list[k];
            if (q->place != s->place || q->last < s->first || q->first > s->last)
                continue;
            if (at + s->size <= q->offset)
                break;
            at = q->offset + q->size > at ? q->offset + q->size : at;
        }
        for (k = i; k > 0 && list[k - 1]->offset > at; k--)
            list[k] = list[k - 1];
        list[k] = s;
        s->offset = at;
        if (at + s->size > g->planned[s->place])
            g->planned[s->place] = at + s->size;
    }
}

/* Bytes of all buffers, or SIZE_MAX and no offsets where that is not tried. */
static size_t by_size(struct lm_graph *g, size_t align)
{
    const struct plan p = { .g = g, .align = align };
    const size_t most = g->n_nodes + g->n_leaves;
    struct span *spans = lm_malloc_array(most, sizeof *spans);
    struct span **list = lm_malloc_array(most, sizeof *list);
    size_t n = 0, all = SIZE_MAX;
    if (spans && list) {
        count_reads(g);
        find_spans(&p, spans, &n);
    }
    if (n > 0 && n <= MOST_SPANS) {
        place_spans(g, spans, n, list);
        for (size_t i = 0; i < most; i++) {
            struct lm_tensor *t = i < g->n_nodes ? g->nodes[i] : g->leaves[i - g->n_nodes];
            if (t->op != LM_OP_VIEW && block_size(&p, t))
                t->offset = spans[t->offset].offset;
        }
        all = 0;
        for (int i = 0; i < LM_MAX_PLACES; i++)
            all += g->planned[i];
    }
    free(spans);
    free(list);
    return all;
}

int lm_graph_plan(struct lm_graph *g, size_t align)
{
    size_t least;
    if (g->err.code)
        return g->err.code;
    const size_t all = by_time(g, align, &least);
    if (!g->err.code && all > least + least / 32 && by_size(g, align) >= all)
        by_time(g, align, &least);
    return g->err.code;
}

static void place_at(struct lm_tensor *t, uint32_t place, void *base, struct lm_buffer *buffer)
{
    if (t->data || t->root || t->place != place)
        return;
    t->data = (char *)base + t->offset;
    t->buffer = buffer;
}

void lm_graph_place(struct lm_graph *g, uint32_t place, void *base, struct lm_buffer *buffer)
{
    for (size_t i = 0; i < g->n_leaves; i++)
        place_at(g->leaves[i], place, base, buffer);
    for (size_t i = 0; i < g->n_nodes; i++)
        place_at(g->nodes[i], place, base, buffer);
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        if (t->root && t->root->data) {
            t->data = (char *)t->root->data + t->view_offset;
            t->buffer = t->root->buffer;
        }
    }
}
