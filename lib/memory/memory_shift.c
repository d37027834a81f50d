/* SPDX-License-Identifier: MIT */
/*
 * Forgetting positions in front of others, and bringing angles closer together, which is the same
 * without a gap.  Pages from the first that changes on are made anew, each from at most three old
 * ones; the sequence gets them when all are there.  Where the host cannot reach them, they are put
 * together in its memory and brought back.
 */
#include "memory/memory_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* A shift of one list of pages. */
struct shift {
    const struct lm_memory    *m;
    uint32_t                   list;
    const struct lm_page_list *old;
    uint32_t                   from, to;
    uint32_t                   back;    /* the length to which it can be cut back             */
    const struct lm_angles    *before;
    struct lm_angles           after;
    void                     (*turn)(void *arg, uint32_t layer, void *key, int32_t by);
    void                      *arg;
    uint8_t                   *room;    /* four pages, or NULL: the host reads the list's     */
    size_t                     page;    /* bytes of one                                       */
};

/* The old pages that a new one is made of, for the host to read; NULL: they are gone. */
struct parts {
    const uint8_t *data[3];
    uint32_t       index[3], n;
};

static int add_part(const struct shift *s, struct parts *p, uint32_t pos, struct lm_err *err)
{
    const uint32_t i = pos / LM_KV_PAGE;
    if (i >= s->old->n || (p->n && p->index[p->n - 1] == i))
        return LM_OK;
    const struct lm_block *b = s->old->block[i];
    p->index[p->n] = i;
    p->data[p->n] = s->old->data[i];
    if (b && s->room) {
        uint8_t *copy = s->room + (1 + p->n) * s->page;
        int r = b->buffer->ops->read(b->buffer, b->data, copy, s->page, err);
        if (r)
            return r;
        p->data[p->n] = copy;
    }
    p->n++;
    return LM_OK;
}

/* The head's row of an old position; NULL where it is gone. */
static const uint8_t *old_row(const struct shift *s, const struct parts *p, uint32_t pos)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->index[i] == pos / LM_KV_PAGE)
            return pos >= s->old->gone ? p->data[i] : NULL;
    return NULL;
}

/* One position of a layer, all its heads. */
static void move_row(const struct shift *s, uint32_t layer, uint8_t *dst, uint32_t pos,
                     const uint8_t *src, uint32_t old)
{
    const struct lm_kv_layout *kv = &s->m->places[layer].kv;
    const int32_t by = (int32_t)lm_angle(&s->after, pos) - (int32_t)lm_angle(s->before, old);
    for (size_t h = 0; h < kv->n_head_kv; h++) {
        const size_t to = h * LM_KV_PAGE + pos % LM_KV_PAGE;
        const size_t from = h * LM_KV_PAGE + old % LM_KV_PAGE;
        uint8_t *key = dst + kv->k_off + to * kv->k_row;
        memcpy(key, src + kv->k_off + from * kv->k_row, kv->k_row);
        if (!kv->v_in_k)
            memcpy(dst + kv->v_off + to * kv->v_row, src + kv->v_off + from * kv->v_row,
                   kv->v_row);
        if (s->turn && by)
            s->turn(s->arg, layer, key, by);
    }
}

/* Positions first .. end - 1, which are on one page, from the sequence before. */
static int fill_page(const struct shift *s, struct lm_block *page, uint32_t first, uint32_t end,
                     struct lm_err *err)
{
    const uint32_t gap = s->to - s->from;
    struct parts p = { .n = 0 };
    uint8_t *dst = s->room ? s->room : page->data;
    int r = first < s->from ? add_part(s, &p, first, err) : LM_OK;
    const uint32_t moved = (first > s->from ? first : s->from) + gap;
    if (!r && end > s->from && !(r = add_part(s, &p, moved, err)))
        r = add_part(s, &p, end - 1 + gap, err);
    for (uint32_t layer = 0; layer < s->m->shape.n_layer && !r; layer++)
        for (uint32_t pos = first; pos < end && s->m->places[layer].list == s->list; pos++) {
            const uint32_t old = pos < s->from ? pos : pos + gap;
            const uint8_t *src = old_row(s, &p, old);
            if (src)
                move_row(s, layer, dst, pos, src, old);
        }
    return r || !s->room
               ? r : page->buffer->ops->write(page->buffer, page->data, dst, s->page, err);
}

/* How far what is gone reaches after a shift. */
static uint32_t gone_after(const struct shift *s, uint32_t gone)
{
    return gone <= s->from ? gone : (gone > s->to ? gone : s->to) - (s->to - s->from);
}

/* The pages after the shift, those in front of the gap shared. */
static int shifted(struct lm_memory *m, struct shift *s, uint32_t length,
                   struct lm_page_list *out, struct lm_err *err)
{
    struct lm_page_part *p = &m->pages[s->list];
    const uint32_t first = s->from / LM_KV_PAGE * LM_KV_PAGE;
    int r = lm_pages_share(out, s->old, err);
    if (r || !p->blocks.size)
        return r;
    s->page = p->blocks.size;
    if (!lm_blocks_in_host(&p->blocks) && !(s->room = lm_malloc_array(4, s->page)))
        return lm_fail_nomem(err);
    lm_pages_cut(p, out, first);
    for (uint32_t pos = first; pos < length && !r; pos += LM_KV_PAGE) {
        uint32_t end = length - pos > LM_KV_PAGE ? pos + LM_KV_PAGE : length;
        if (!(r = lm_pages_extend(p, out, pos, err)))
            r = fill_page(s, out->block[pos / LM_KV_PAGE], pos, end, err);
    }
    free(s->room);
    s->room = NULL;
    if (r)
        return r;
    out->gone = gone_after(s, s->old->gone);
    lm_pages_trim(p, out, s->back);
    return LM_OK;
}

/* Would a window see positions that are gone already? */
static bool reaches(const struct lm_page_part *p, uint32_t gone, uint32_t from, uint32_t to,
                    uint32_t length)
{
    const uint32_t seen = lm_pages_seen(p, length);
    if (seen < from && seen < gone)
        return false;
    return gone <= to || seen + (to - from) >= gone;
}

static bool can_shift(const struct lm_memory *m, const struct lm_memory_seq *s, uint32_t from,
                      uint32_t to, uint32_t length)
{
    for (uint32_t i = 1; i < m->n_lists; i += 2)
        if (!reaches(&m->pages[i], s->pages[i].gone, from, to, length))
            return false;
    return m->state_bytes == 0 && reaches(&m->wide, s->lacking, from, to, length);
}

/* What a sequence of that length becomes: all of it, or nothing changes. */
static int remake(struct lm_memory *m, struct lm_memory_seq *s, struct shift *x, uint32_t length,
                  struct lm_err *err)
{
    struct lm_page_list lists[LM_MEMORY_LISTS] = { { 0 } };
    int r = LM_OK;
    x->m = m;
    x->before = &s->angles;
    for (uint32_t i = 0; i < m->n_lists && !r; i++) {
        x->list = i;
        x->old = &s->pages[i];
        r = shifted(m, x, length, &lists[i], err);
    }
    for (uint32_t i = 0; i < m->n_lists; i++) {
        struct lm_page_list other = r ? lists[i] : s->pages[i];
        if (!r)
            s->pages[i] = lists[i];
        lm_pages_free(&m->pages[i], &other);
    }
    struct lm_angles other = r ? x->after : s->angles;
    if (!r)
        s->angles = x->after;
    free(other.of);
    return r;
}

/* Room for n angles after it, those in front of `from` as they were. */
static int begin_angles(const struct lm_angles *a, uint32_t from, uint32_t n, struct shift *x,
                        struct lm_err *err)
{
    if (n && !(x->after.of = lm_malloc_array(n, sizeof *x->after.of)))
        return lm_fail_nomem(err);
    x->after.n = n;
    for (uint32_t pos = 0; pos < n && pos < from; pos++)
        x->after.of[pos] = lm_angle(a, pos);
    return LM_OK;
}

/* The first that moves gets the angle of the first that is forgotten. */
static int shift_angles(const struct lm_angles *a, uint32_t from, uint32_t to, struct shift *x,
                        struct lm_err *err)
{
    const uint32_t gap = to - from, by = lm_angle(a, to) - lm_angle(a, from);
    const uint32_t n = a->n <= from ? a->n : a->n > to ? a->n - gap : from + 1;
    int r = begin_angles(a, from, n, x, err);
    for (uint32_t pos = from; pos < n && !r; pos++)
        x->after.of[pos] = lm_angle(a, pos + gap) - by;
    return r;
}

static int divide_angles(const struct lm_angles *a, uint32_t from, uint32_t to, uint32_t by,
                         struct shift *x, struct lm_err *err)
{
    const uint32_t first = lm_angle(a, from), n = a->n > to ? a->n : to;
    int r = begin_angles(a, from, n, x, err);
    for (uint32_t pos = from; pos < to && !r; pos++)
        x->after.of[pos] = first + (lm_angle(a, pos) - first) / by;
    for (uint32_t pos = to; pos < n && !r; pos++)
        x->after.of[pos] = x->after.of[to - 1] + (lm_angle(a, pos) - lm_angle(a, to - 1));
    return r;
}

static int check_range(uint32_t seq, uint32_t from, uint32_t to, uint32_t length,
                       struct lm_err *err)
{
    return from <= to && to <= length
               ? LM_OK : lm_fail(err, LM_EUSE, "sequence %u has %u tokens, not %u to %u", seq,
                                 length, from, to);
}

int lm_memory_shift(struct lm_memory *m, uint32_t seq, uint32_t from, uint32_t to,
                    void (*turn)(void *arg, uint32_t layer, void *key, int32_t by), void *arg,
                    struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    uint32_t length = s ? s->length : 0;
    int r = check_range(seq, from, to, length, err);
    if (r || from == to)
        return r;
    if (to == length)
        return lm_memory_remove(m, seq, from, err);
    length -= to - from;
    if (!can_shift(m, s, from, to, length))
        return lm_fail(err, LM_ENOSUP, "sequence %u: positions before others cannot be forgotten "
                       "by a memory of this kind", seq);
    struct shift x = { .from = from, .to = to, .back = length, .turn = turn, .arg = arg };
    if ((r = shift_angles(&s->angles, from, to, &x, err)) ||
        (r = remake(m, s, &x, length, err)))
        return r;
    s->length = s->pending = length;
    s->held = LM_NOT_HELD;
    s->lacking = gone_after(&x, s->lacking);
    return LM_OK;
}

int lm_memory_divide(struct lm_memory *m, uint32_t seq, uint32_t from, uint32_t to, uint32_t by,
                     void (*turn)(void *arg, uint32_t layer, void *key, int32_t by), void *arg,
                     struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    struct shift x = { .from = from, .to = from, .turn = turn, .arg = arg };
    int r = check_range(seq, from, to, s ? s->length : 0, err);
    if (!r && by == 0)
        r = lm_fail(err, LM_EUSE, "distances cannot be divided by 0");
    if (r || from == to || by == 1)
        return r;
    if (m->state_bytes)
        return lm_fail(err, LM_ENOSUP, "sequence %u: a memory with recurrent states cannot bring "
                       "positions closer together", seq);
    x.back = s->held < s->length ? s->held : s->length;
    r = divide_angles(&s->angles, from, to, by, &x, err);
    return r ? r : remake(m, s, &x, s->length, err);
}
