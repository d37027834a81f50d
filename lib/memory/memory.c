/* SPDX-License-Identifier: MIT */
/* Sequences, and batches of their tokens: what is common to everything that is remembered. */
#include "memory/memory_parts.h"

#include <stdlib.h>

#include "base/size.h"

static size_t slot(const struct lm_memory *m, uint32_t id)
{
    return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & m->mask;
}

struct lm_memory_seq *lm_memory_find(const struct lm_memory *m, uint32_t id)
{
    struct lm_memory_seq *s = m->table[slot(m, id)];
    while (s && s->id != id)
        s = s->next;
    return s;
}

/* Twice the table when there are as many sequences as slots; staying small is no failure. */
static void widen(struct lm_memory *m)
{
    size_t n = (m->mask + 1) * 2;
    struct lm_memory_seq **old = m->table;
    struct lm_memory_seq **table = m->n_seqs > m->mask ? calloc(n, sizeof *table) : NULL;
    if (!table)
        return;
    size_t n_old = m->mask + 1;
    m->table = table;
    m->mask = n - 1;
    for (size_t i = 0; i < n_old; i++)
        for (struct lm_memory_seq *s = old[i], *next; s; s = next) {
            next = s->next;
            s->next = table[slot(m, s->id)];
            table[slot(m, s->id)] = s;
        }
    free(old);
}

static struct lm_memory_seq *take(struct lm_memory *m)
{
    struct lm_memory_seq *s = m->idle;
    if (s)
        m->idle = s->next;
    else
        s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->length = s->pending = s->lacking = 0;
    s->held = LM_NOT_HELD;
    s->fresh = false;
    return s;
}

static void link(struct lm_memory *m, struct lm_memory_seq *s, uint32_t id)
{
    widen(m);
    s->id = id;
    s->next = m->table[slot(m, id)];
    m->table[slot(m, id)] = s;
    m->n_seqs++;
}

static void unlink(struct lm_memory *m, struct lm_memory_seq *s)
{
    struct lm_memory_seq **p = &m->table[slot(m, s->id)];
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    m->n_seqs--;
}

static void give_back(struct lm_memory *m, struct lm_memory_seq *s)
{
    for (uint32_t i = 0; i < m->n_lists; i++)
        lm_pages_release(&m->pages[i], &s->pages[i]);
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_states_release(&m->states[i], &s->states[i]);
    free(s->angles.of);
    s->angles = (struct lm_angles){ 0 };
    s->next = m->idle;
    m->idle = s;
}

static void drop(struct lm_memory *m, struct lm_memory_seq *s)
{
    unlink(m, s);
    give_back(m, s);
}

/* --- batches ---------------------------------------------------------------------------- */

static int extend(struct lm_memory *m, struct lm_memory_seq *s, uint32_t pos, struct lm_err *err)
{
    int r = LM_OK;
    for (uint32_t i = 0; i < m->n_lists && !r; i++)
        if (m->pages[i].blocks.size)
            r = lm_pages_extend(&m->pages[i], &s->pages[i], pos, err);
    for (uint32_t i = 0; i < m->n_where && !r; i++)
        if (m->states[i].blocks.size)
            r = lm_states_extend(&m->states[i], &s->states[i], err);
    return r;
}

static int add_token(struct lm_memory *m, const struct lm_memory_token *t, struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, t->seq);
    uint32_t length = s ? s->pending : 0;
    if (t->pos != length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens: position %u does not follow",
                       t->seq, length, t->pos);
    if (t->pos >= m->shape.n_ctx)
        return lm_fail(err, LM_EUSE, "sequence %u is longer than the context of %u tokens",
                       t->seq, m->shape.n_ctx);
    if (!s) {
        if (!(s = take(m)))
            return lm_fail_nomem(err);
        s->fresh = true;
        link(m, s, t->seq);
    }
    m->copies[m->n] = *t;
    m->batch[m->n++] = s;
    int r = extend(m, s, t->pos, err);
    if (!r)
        s->pending = t->pos + 1;
    return r;
}

static void settle(struct lm_memory *m, struct lm_memory_seq *s, bool keep)
{
    uint32_t length = keep ? s->pending : s->length;
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_states_end(&m->states[i], &s->states[i], s->length, s->held, keep);
    s->length = s->pending = length;
    for (uint32_t i = 0; i < m->n_lists; i++) {
        lm_pages_cut(&m->pages[i], &s->pages[i], length);
        lm_pages_trim(&m->pages[i], &s->pages[i], s->held < length ? s->held : length);
    }
}

void lm_memory_end(struct lm_memory *m, bool keep)
{
    for (size_t i = 0; i < m->n; i++)
        settle(m, m->batch[i], keep);
    for (size_t i = 0; i < m->n; i++) {
        struct lm_memory_seq *s = m->batch[i];
        bool forget = m->nothing ? s->pending != LM_NOT_HELD : s->fresh && !keep;
        s->fresh = false;
        if (!forget)
            continue;
        drop(m, s);
        s->pending = LM_NOT_HELD;          /* its other tokens find it dropped */
    }
    m->n = 0;
}

/* Devices know the lists of a sequence's pages. */
static int sync(struct lm_memory *m, struct lm_memory_seq *s, struct lm_err *err)
{
    int r = LM_OK;
    for (uint32_t i = 0; i < m->n_lists && !r; i++)
        r = lm_pages_sync(&m->pages[i], &s->pages[i], err);
    return r;
}

int lm_memory_begin(struct lm_memory *m, const struct lm_memory_token *t, size_t n,
                    struct lm_err *err)
{
    int r = LM_OK;
    if (n > m->shape.n_batch)
        return lm_fail(err, LM_EUSE, "%zu tokens in a batch of %u", n, m->shape.n_batch);
    for (size_t i = 0; i < n && !r; i++)
        r = add_token(m, &t[i], err);
    for (size_t i = 0; i < n && !r; i++)
        r = sync(m, m->batch[i], err);
    if (r)
        lm_memory_end(m, false);
    return r;
}

void lm_memory_pages(const struct lm_memory *m, uint32_t list, size_t first, size_t n,
                     int64_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = lm_pages_address(&m->batch[first + i]->pages[list]);
}

int64_t lm_memory_pages_of(const struct lm_memory *m, uint32_t list, uint32_t seq)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    return s ? lm_pages_address(&s->pages[list]) : 0;
}

void lm_memory_states(const struct lm_memory *m, uint32_t where, size_t first, size_t n,
                      int64_t *dst)
{
    for (size_t i = 0; i < n; i++) {
        const struct lm_memory_seq *s = m->batch[first + i];
        const struct lm_state_list *l = &s->states[where];
        const struct lm_block *from = m->copies[first + i].pos == s->length ? l->now : l->next;
        dst[2 * i] = from ? (int64_t)(uintptr_t)from->data : 0;
        dst[2 * i + 1] = (int64_t)(uintptr_t)l->next->data;
    }
}

void lm_memory_angles(const struct lm_memory *m, size_t first, size_t n, int32_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)lm_angle(&m->batch[first + i]->angles, m->copies[first + i].pos);
}

/* --- operations ------------------------------------------------------------------------- */

uint32_t lm_memory_length(const struct lm_memory *m, uint32_t seq)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    return s ? s->length : 0;
}

uint32_t lm_memory_angle(const struct lm_memory *m, uint32_t seq, uint32_t pos)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    return s ? lm_angle(&s->angles, pos) : pos;
}

static bool can_cut(const struct lm_memory *m, const struct lm_memory_seq *s, uint32_t pos)
{
    for (uint32_t i = 0; i < m->n_lists; i++)
        if (!lm_pages_reach(&m->pages[i], &s->pages[i], pos))
            return false;
    for (uint32_t i = 0; i < m->n_where; i++)
        if (m->states[i].blocks.size && !lm_states_reach(&s->states[i], pos, s->length))
            return false;
    return pos == 0 || s->lacking <= lm_pages_seen(&m->wide, pos);
}

bool lm_memory_can_cut(const struct lm_memory *m, uint32_t seq, uint32_t pos)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    return s ? pos <= s->length && can_cut(m, s, pos) : pos == 0;
}

static int check_cut(const struct lm_memory *m, uint32_t seq, uint32_t pos, struct lm_err *err)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    uint32_t length = s ? s->length : 0;
    if (pos > length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens, not %u", seq, length, pos);
    if (s && !can_cut(m, s, pos))
        return lm_fail(err, LM_ENOSUP, "sequence %u of %u tokens cannot be cut back to %u: what it "
                       "remembered then is gone", seq, length, pos);
    return LM_OK;
}

int lm_memory_remove(struct lm_memory *m, uint32_t seq, uint32_t pos, struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    int r = check_cut(m, seq, pos, err);
    if (r || !s)
        return r;
    if (pos == 0) {
        drop(m, s);
        return LM_OK;
    }
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_states_cut(&m->states[i], &s->states[i], pos, s->length);
    for (uint32_t i = 0; i < m->n_lists; i++)
        lm_pages_cut(&m->pages[i], &s->pages[i], pos);
    s->length = s->pending = pos;
    s->lacking = s->lacking < pos ? s->lacking : pos;
    s->angles.n = s->angles.n < pos ? s->angles.n : pos;
    if (s->held > pos)
        s->held = LM_NOT_HELD;
    return LM_OK;
}

int lm_memory_copy(struct lm_memory *m, uint32_t dst, uint32_t src, struct lm_err *err)
{
    struct lm_memory_seq *from = lm_memory_find(m, src), *old = lm_memory_find(m, dst), *s;
    if (from == old)
        return LM_OK;
    if (!from)
        return lm_memory_remove(m, dst, 0, err);
    if (!(s = take(m)))
        return lm_fail_nomem(err);
    int r = lm_angles_set(&s->angles, from->angles.of, from->angles.n, err);
    for (uint32_t i = 0; i < m->n_lists && !r; i++)
        r = lm_pages_share(&s->pages[i], &from->pages[i], err);
    if (r || (r = sync(m, s, err))) {
        give_back(m, s);
        return r;
    }
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_states_share(&s->states[i], &from->states[i]);
    s->length = s->pending = from->length;
    s->lacking = from->lacking;
    if (old)
        drop(m, old);
    link(m, s, dst);
    return LM_OK;
}

void lm_memory_keep(struct lm_memory *m, uint32_t seq)
{
    for (size_t i = 0; i <= m->mask; i++)
        for (struct lm_memory_seq *s = m->table[i], *next; s; s = next) {
            next = s->next;
            if (s->id != seq)
                drop(m, s);
        }
}

void lm_memory_hold(struct lm_memory *m, uint32_t seq)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    if (s)
        s->held = s->length;
}

void lm_memory_release(struct lm_memory *m, uint32_t seq)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    if (s)
        s->held = LM_NOT_HELD;
}

/* --- room ------------------------------------------------------------------------------- */

/* A token takes a page where its position begins one, or where it is the first to write to a
 * page that others have too; runs of a sequence are taken for sequences. */
int lm_memory_room(struct lm_memory *m, uint32_t seq, uint32_t pos,
                   const struct lm_memory_token *t, size_t n, struct lm_err *err)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    size_t pages = 0, runs = 0;
    int r = check_cut(m, seq, pos, err);
    for (size_t i = 0; i < n; i++) {
        pages += t[i].pos % LM_KV_PAGE == 0;
        runs += i == 0 || t[i].seq != t[i - 1].seq;
    }
    for (uint32_t i = 0; i < m->n_lists && !r; i++) {
        struct lm_page_part *p = &m->pages[i];
        size_t back = s ? lm_pages_back(&s->pages[i], pos) : 0, need = pages + runs;
        size_t most = runs * (((size_t)p->window + m->shape.n_batch) / LM_KV_PAGE + 4);
        if (p->window && need > most)
            need = most;
        if (p->blocks.size && need > back)
            r = lm_blocks_reserve(&p->blocks, need - back, err);
    }
    for (uint32_t i = 0; i < m->n_where && !r; i++)
        if (m->states[i].blocks.size)
            r = lm_blocks_reserve(&m->states[i].blocks, runs, err);
    return r;
}

size_t lm_memory_seqs(const struct lm_memory *m, uint32_t *ids, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i <= m->mask; i++)
        for (const struct lm_memory_seq *s = m->table[i]; s; s = s->next, n++)
            if (n < most)
                ids[n] = s->id;
    return n;
}

int lm_memory_restore(struct lm_memory *m, uint32_t seq, uint32_t length, struct lm_err *err)
{
    struct lm_memory_seq *s = take(m), *old = lm_memory_find(m, seq);
    int r = LM_OK;
    if (!s)
        return lm_fail_nomem(err);
    if (length == 0 || length > m->shape.n_ctx)
        r = lm_fail(err, LM_EUSE, "a sequence of %u tokens: must be 1 to %u", length,
                    m->shape.n_ctx);
    for (uint32_t pos = 0; pos < length && !r; pos += LM_KV_PAGE) {
        r = extend(m, s, pos, err);
        for (uint32_t i = 1; i < m->n_lists; i += 2)
            lm_pages_trim(&m->pages[i], &s->pages[i],
                          length - pos > LM_KV_PAGE ? pos + LM_KV_PAGE : length);
    }
    if (r) {
        give_back(m, s);
        return r;
    }
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_states_end(&m->states[i], &s->states[i], 0, LM_NOT_HELD, true);
    s->length = s->pending = length;
    if (old)
        drop(m, old);
    link(m, s, seq);
    return LM_OK;
}

/* --- the memory itself ------------------------------------------------------------------ */

void lm_memory_free(struct lm_memory *m)
{
    if (!m)
        return;
    for (size_t i = 0; m->table && i <= m->mask; i++)
        while (m->table[i])
            drop(m, m->table[i]);
    for (struct lm_memory_seq *s = m->idle, *next; s; s = next) {
        next = s->next;
        for (uint32_t i = 0; i < m->n_lists; i++)
            lm_pages_free(&m->pages[i], &s->pages[i]);
        free(s);
    }
    for (uint32_t i = 0; i < m->n_lists; i++)
        lm_blocks_free(&m->pages[i].blocks);
    for (uint32_t i = 0; i < m->n_where; i++)
        lm_blocks_free(&m->states[i].blocks);
    free(m->places);
    free(m->batch);
    free(m->copies);
    free(m->table);
    free(m);
}

static int place_all(struct lm_memory *m, const struct lm_memory_shape *s, struct lm_err *err)
{
    struct lm_memory_sizes size;
    int r = lm_memory_place_all(s, m->places, &size, err);
    if (r)
        return r;
    m->n_where = s->n_bufts;
    m->n_lists = 2 * s->n_bufts;
    m->state_bytes = size.whole;
    m->nothing = size.whole == 0;
    for (uint32_t i = 0; i < m->n_lists; i++) {
        m->pages[i].blocks.buft = s->bufts[i / 2];
        m->pages[i].blocks.size = size.page[i];
        m->nothing &= size.page[i] == 0;
    }
    for (uint32_t i = 0; i < m->n_where; i++) {
        m->states[i].blocks.buft = s->bufts[i];
        m->states[i].blocks.size = size.state[i];
        m->states[i].n_snapshots = s->n_snapshots < LM_MAX_SNAPSHOTS ? s->n_snapshots
                                                                      : LM_MAX_SNAPSHOTS;
    }
    for (uint32_t i = 0; i < s->n_layer; i++) {
        uint32_t *most = s->keep_all ? &m->wide.window : &m->pages[m->places[i].list].window;
        *most = *most > m->places[i].window ? *most : m->places[i].window;
    }
    return LM_OK;
}

struct lm_memory *lm_memory_new(const struct lm_memory_shape *s, struct lm_err *err)
{
    struct lm_memory *m = calloc(1, sizeof *m);
    if (!m) {
        lm_fail_nomem(err);
        return NULL;
    }
    m->shape = *s;
    m->shape.layers = NULL;
    m->shape.bufts = NULL;
    m->mask = 15;
    m->table = calloc(m->mask + 1, sizeof *m->table);
    m->batch = lm_malloc_array(s->n_batch, sizeof *m->batch);
    m->copies = lm_malloc_array(s->n_batch, sizeof *m->copies);
    m->places = lm_malloc_array(s->n_layer, sizeof *m->places);
    int r = m->table && m->batch && m->copies && m->places ? place_all(m, s, err)
                                                           : lm_fail_nomem(err);
    if (r) {
        lm_memory_free(m);
        return NULL;
    }
    return m;
}
