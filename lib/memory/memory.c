/* SPDX-License-Identifier: MIT */
/* Sequences, and batches of their tokens: what is common to everything that is remembered. */
#include "memory/memory_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define NOT_HELD UINT32_MAX

struct seq {
    struct seq          *next;          /* of the same hash, or idle                       */
    uint32_t             id, length;
    uint32_t             pending;       /* length when the current batch is kept           */
    uint32_t             held;          /* length to which it can be cut back              */
    bool                 fresh;         /* made by the current batch                       */
    struct lm_page_list  pages[2];
    struct lm_state_list states;
};

struct lm_memory {
    struct lm_memory_shape  shape;
    struct lm_memory_place *places;     /* [n_layer]                                       */
    struct lm_page_part     pages[2];
    struct lm_state_part    states;
    struct seq            **table;      /* by hash of the id                               */
    size_t                  mask, n_seqs;
    struct seq             *idle;       /* dropped sequences                               */
    struct seq            **batch;      /* [n_batch] sequence of each token                */
    struct lm_memory_token *copies;     /* [n_batch] the batch                             */
    size_t                  n;
    bool                    nothing;    /* no layer remembers anything                     */
};

static size_t slot(const struct lm_memory *m, uint32_t id)
{
    return (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & m->mask;
}

static struct seq *find(const struct lm_memory *m, uint32_t id)
{
    struct seq *s = m->table[slot(m, id)];
    while (s && s->id != id)
        s = s->next;
    return s;
}

/* Twice the table when there are as many sequences as slots; staying small is no failure. */
static void widen(struct lm_memory *m)
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

static struct seq *take(struct lm_memory *m)
{
    struct seq *s = m->idle;
    if (s)
        m->idle = s->next;
    else
        s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->length = s->pending = 0;
    s->held = NOT_HELD;
    s->fresh = false;
    return s;
}

static void link(struct lm_memory *m, struct seq *s, uint32_t id)
{
    widen(m);
    s->id = id;
    s->next = m->table[slot(m, id)];
    m->table[slot(m, id)] = s;
    m->n_seqs++;
}

static void unlink(struct lm_memory *m, struct seq *s)
{
    struct seq **p = &m->table[slot(m, s->id)];
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    m->n_seqs--;
}

static void give_back(struct lm_memory *m, struct seq *s)
{
    for (int i = 0; i < 2; i++)
        lm_pages_release(&m->pages[i], &s->pages[i]);
    lm_states_release(&m->states, &s->states);
    s->next = m->idle;
    m->idle = s;
}

static void drop(struct lm_memory *m, struct seq *s)
{
    unlink(m, s);
    give_back(m, s);
}

/* --- batches ---------------------------------------------------------------------------- */

static int extend(struct lm_memory *m, struct seq *s, uint32_t pos, struct lm_err *err)
{
    int r = LM_OK;
    for (int i = 0; i < 2 && !r; i++)
        if (m->pages[i].blocks.size)
            r = lm_pages_extend(&m->pages[i], &s->pages[i], pos, err);
    return r || !m->states.blocks.size ? r : lm_states_extend(&m->states, &s->states, err);
}

static int add_token(struct lm_memory *m, const struct lm_memory_token *t, struct lm_err *err)
{
    struct seq *s = find(m, t->seq);
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

static void settle(struct lm_memory *m, struct seq *s, bool keep)
{
    uint32_t length = keep ? s->pending : s->length;
    lm_states_end(&m->states, &s->states, s->length, s->held, keep);
    s->length = s->pending = length;
    for (int i = 0; i < 2; i++) {
        lm_pages_cut(&m->pages[i], &s->pages[i], length);
        lm_pages_trim(&m->pages[i], &s->pages[i], s->held < length ? s->held : length);
    }
}

void lm_memory_end(struct lm_memory *m, bool keep)
{
    for (size_t i = 0; i < m->n; i++)
        settle(m, m->batch[i], keep);
    for (size_t i = 0; i < m->n; i++) {
        struct seq *s = m->batch[i];
        bool forget = m->nothing ? s->pending != NOT_HELD : s->fresh && !keep;
        s->fresh = false;
        if (!forget)
            continue;
        drop(m, s);
        s->pending = NOT_HELD;          /* its other tokens find it dropped */
    }
    m->n = 0;
}

int lm_memory_begin(struct lm_memory *m, const struct lm_memory_token *t, size_t n,
                    struct lm_err *err)
{
    if (n > m->shape.n_batch)
        return lm_fail(err, LM_EUSE, "%zu tokens in a batch of %u", n, m->shape.n_batch);
    for (size_t i = 0; i < n; i++) {
        int r = add_token(m, &t[i], err);
        if (r) {
            lm_memory_end(m, false);
            return r;
        }
    }
    return LM_OK;
}

void lm_memory_pages(const struct lm_memory *m, uint32_t list, size_t first, size_t n,
                     int64_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int64_t)(uintptr_t)m->batch[first + i]->pages[list].data;
}

int64_t lm_memory_pages_of(const struct lm_memory *m, uint32_t list, uint32_t seq)
{
    const struct seq *s = find(m, seq);
    return s ? (int64_t)(uintptr_t)s->pages[list].data : 0;
}

void lm_memory_states(const struct lm_memory *m, size_t first, size_t n, int64_t *dst)
{
    for (size_t i = 0; i < n; i++) {
        const struct seq *s = m->batch[first + i];
        const struct lm_block *from = m->copies[first + i].pos == s->length ? s->states.now
                                                                             : s->states.next;
        dst[2 * i] = from ? (int64_t)(uintptr_t)from->data : 0;
        dst[2 * i + 1] = (int64_t)(uintptr_t)s->states.next->data;
    }
}

void lm_memory_lengths(const struct lm_memory *m, size_t first, size_t n, int32_t *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (int32_t)m->batch[first + i]->pending;
}

/* --- operations ------------------------------------------------------------------------- */

uint32_t lm_memory_length(const struct lm_memory *m, uint32_t seq)
{
    const struct seq *s = find(m, seq);
    return s ? s->length : 0;
}

static bool can_cut(const struct lm_memory *m, const struct seq *s, uint32_t pos)
{
    for (int i = 0; i < 2; i++)
        if (!lm_pages_reach(&m->pages[i], &s->pages[i], pos))
            return false;
    return !m->states.blocks.size || lm_states_reach(&s->states, pos, s->length);
}

bool lm_memory_can_cut(const struct lm_memory *m, uint32_t seq, uint32_t pos)
{
    const struct seq *s = find(m, seq);
    return s ? pos <= s->length && can_cut(m, s, pos) : pos == 0;
}

static int check_cut(const struct lm_memory *m, uint32_t seq, uint32_t pos, struct lm_err *err)
{
    const struct seq *s = find(m, seq);
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
    struct seq *s = find(m, seq);
    int r = check_cut(m, seq, pos, err);
    if (r || !s)
        return r;
    if (pos == 0) {
        drop(m, s);
        return LM_OK;
    }
    lm_states_cut(&m->states, &s->states, pos, s->length);
    for (int i = 0; i < 2; i++)
        lm_pages_cut(&m->pages[i], &s->pages[i], pos);
    s->length = s->pending = pos;
    if (s->held > pos)
        s->held = NOT_HELD;
    return LM_OK;
}

int lm_memory_copy(struct lm_memory *m, uint32_t dst, uint32_t src, struct lm_err *err)
{
    struct seq *from = find(m, src), *old = find(m, dst), *s;
    if (from == old)
        return LM_OK;
    if (!from)
        return lm_memory_remove(m, dst, 0, err);
    if (!(s = take(m)))
        return lm_fail_nomem(err);
    for (int i = 0; i < 2; i++)
        if (lm_pages_share(&s->pages[i], &from->pages[i], err)) {
            give_back(m, s);
            return LM_ENOMEM;
        }
    lm_states_share(&s->states, &from->states);
    s->length = s->pending = from->length;
    if (old)
        drop(m, old);
    link(m, s, dst);
    return LM_OK;
}

void lm_memory_keep(struct lm_memory *m, uint32_t seq)
{
    for (size_t i = 0; i <= m->mask; i++)
        for (struct seq *s = m->table[i], *next; s; s = next) {
            next = s->next;
            if (s->id != seq)
                drop(m, s);
        }
}

void lm_memory_hold(struct lm_memory *m, uint32_t seq)
{
    struct seq *s = find(m, seq);
    if (s)
        s->held = s->length;
}

void lm_memory_release(struct lm_memory *m, uint32_t seq)
{
    struct seq *s = find(m, seq);
    if (s)
        s->held = NOT_HELD;
}

/* One position of a layer, all its heads; pages that are gone have none. */
static void move_row(const struct lm_kv_layout *kv, uint8_t *dst, const uint8_t *src, size_t to,
                     size_t from)
{
    for (size_t h = 0; dst && src && h < kv->n_head_kv; h++, to += LM_KV_PAGE, from += LM_KV_PAGE) {
        memcpy(dst + kv->k_off + to * kv->k_row, src + kv->k_off + from * kv->k_row, kv->k_row);
        memcpy(dst + kv->v_off + to * kv->v_row, src + kv->v_off + from * kv->v_row, kv->v_row);
    }
}

/* Copy positions from .. from + n - 1 of a list to `to` on of another, of every layer. */
static void move_rows(const struct lm_memory *m, uint32_t list, struct lm_page_list *dst,
                      const struct lm_page_list *src, uint32_t to, uint32_t from, uint32_t n)
{
    for (uint32_t layer = 0; layer < m->shape.n_layer; layer++) {
        const struct lm_kv_layout *kv = &m->places[layer].kv;
        if (m->places[layer].list != list)
            continue;
        for (uint32_t i = 0; i < n; i++)
            move_row(kv, dst->data[(to + i) / LM_KV_PAGE], src->data[(from + i) / LM_KV_PAGE],
                     (to + i) % LM_KV_PAGE, (from + i) % LM_KV_PAGE);
    }
}

/* A list of the pages that a sequence has after a shift, those in front of the gap shared. */
static int shifted(struct lm_memory *m, uint32_t list, const struct seq *s, uint32_t from,
                   uint32_t to, struct lm_page_list *out, struct lm_err *err)
{
    struct lm_page_part *p = &m->pages[list];
    const struct lm_page_list *l = &s->pages[list];
    uint32_t length = s->length - (to - from), first = from / LM_KV_PAGE;
    int r = lm_pages_share(out, l, err);
    if (r || !p->blocks.size)
        return r;
    lm_pages_cut(p, out, first * LM_KV_PAGE);
    for (uint32_t pos = first * LM_KV_PAGE; pos < length && !r; pos += LM_KV_PAGE)
        r = lm_pages_extend(p, out, pos, err);
    if (r)
        return r;
    move_rows(m, list, out, l, first * LM_KV_PAGE, first * LM_KV_PAGE, from % LM_KV_PAGE);
    move_rows(m, list, out, l, from, to, s->length - to);
    out->gone = l->gone <= from ? l->gone : (l->gone > to ? l->gone : to) - (to - from);
    lm_pages_trim(p, out, length);
    return LM_OK;
}

/* Would a window see positions that are gone already? */
static bool shift_reaches(const struct lm_memory *m, const struct seq *s, uint32_t from,
                          uint32_t to)
{
    const struct lm_page_part *p = &m->pages[1];
    uint32_t gone = s->pages[1].gone, length = s->length - (to - from);
    uint32_t seen = p->window && length >= p->window ? length - p->window + 1 : 0;
    if (seen < from && seen < gone)
        return false;
    return gone <= to || seen + (to - from) >= gone;
}

static void turn_keys(struct lm_memory *m, struct seq *s, uint32_t from, int32_t by,
                      void (*turn)(void *, uint32_t, void *, int32_t), void *arg)
{
    for (uint32_t layer = 0; layer < m->shape.n_layer; layer++)
        for (uint32_t pos = from; pos < s->length; pos++)
            for (uint32_t h = 0; h < m->places[layer].kv.n_head_kv; h++) {
                void *key = lm_memory_row(m, layer, s->id, pos, h, false);
                if (key)
                    turn(arg, layer, key, by);
            }
}

int lm_memory_shift(struct lm_memory *m, uint32_t seq, uint32_t from, uint32_t to,
                    void (*turn)(void *arg, uint32_t layer, void *key, int32_t by), void *arg,
                    struct lm_err *err)
{
    struct seq *s = find(m, seq);
    struct lm_page_list lists[2] = { { 0 }, { 0 } };
    uint32_t length = s ? s->length : 0;
    if (from > to || to > length)
        return lm_fail(err, LM_EUSE, "sequence %u has %u tokens, not %u to %u", seq, length, from,
                       to);
    if (from == to)
        return LM_OK;
    if (to == length)
        return lm_memory_remove(m, seq, from, err);
    if (m->states.blocks.size || !shift_reaches(m, s, from, to))
        return lm_fail(err, LM_ENOSUP, "sequence %u: positions before others cannot be forgotten "
                       "by a memory of this kind", seq);
    int r = LM_OK;
    for (uint32_t i = 0; i < 2 && !r; i++)
        r = shifted(m, i, s, from, to, &lists[i], err);
    for (int i = 0; i < 2; i++) {
        struct lm_page_list gone = r ? lists[i] : s->pages[i];
        if (!r)
            s->pages[i] = lists[i];
        lm_pages_release(&m->pages[i], &gone);
        free(gone.data);
        free(gone.block);
    }
    if (r)
        return r;
    s->length = s->pending = length - (to - from);
    s->held = NOT_HELD;
    if (turn)
        turn_keys(m, s, from, (int32_t)from - (int32_t)to, turn, arg);
    return LM_OK;
}

/* --- room ------------------------------------------------------------------------------- */

/* A token takes a page where its position begins one, or where it is the first to write to a
 * page that others have too; runs of a sequence are taken for sequences. */
int lm_memory_room(struct lm_memory *m, uint32_t seq, uint32_t pos,
                   const struct lm_memory_token *t, size_t n, struct lm_err *err)
{
    const struct seq *s = find(m, seq);
    size_t pages = 0, runs = 0;
    int r = check_cut(m, seq, pos, err);
    for (size_t i = 0; i < n; i++) {
        pages += t[i].pos % LM_KV_PAGE == 0;
        runs += i == 0 || t[i].seq != t[i - 1].seq;
    }
    for (int i = 0; i < 2 && !r; i++) {
        struct lm_page_part *p = &m->pages[i];
        size_t back = s ? lm_pages_back(&s->pages[i], pos) : 0, need = pages + runs;
        size_t most = runs * (((size_t)p->window + m->shape.n_batch) / LM_KV_PAGE + 4);
        if (p->window && need > most)
            need = most;
        if (p->blocks.size && need > back)
            r = lm_blocks_reserve(&p->blocks, need - back, err);
    }
    return r || !m->states.blocks.size ? r : lm_blocks_reserve(&m->states.blocks, runs, err);
}

/* --- saving and loading ----------------------------------------------------------------- */

size_t lm_memory_seqs(const struct lm_memory *m, uint32_t *ids, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i <= m->mask; i++)
        for (const struct seq *s = m->table[i]; s; s = s->next, n++)
            if (n < most)
                ids[n] = s->id;
    return n;
}

void *lm_memory_row(const struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t pos,
                    uint32_t head, bool value)
{
    const struct seq *s = find(m, seq);
    const struct lm_memory_place *at = &m->places[layer];
    const struct lm_kv_layout *kv = &at->kv;
    if (!s || pos >= s->length || pos < s->pages[at->list].gone || head >= kv->n_head_kv)
        return NULL;
    uint8_t *page = s->pages[at->list].data[pos / LM_KV_PAGE];
    size_t row = (size_t)head * LM_KV_PAGE + pos % LM_KV_PAGE;
    return !page ? NULL : value ? page + kv->v_off + row * kv->v_row
                                : page + kv->k_off + row * kv->k_row;
}

void *lm_memory_state(const struct lm_memory *m, uint32_t seq)
{
    const struct seq *s = find(m, seq);
    return s && s->states.now ? s->states.now->data : NULL;
}

size_t lm_memory_state_bytes(const struct lm_memory *m)
{
    return m->states.blocks.size;
}

int lm_memory_restore(struct lm_memory *m, uint32_t seq, uint32_t length, struct lm_err *err)
{
    struct seq *s = take(m), *old = find(m, seq);
    int r = LM_OK;
    if (!s)
        return lm_fail_nomem(err);
    if (length == 0 || length > m->shape.n_ctx)
        r = lm_fail(err, LM_EUSE, "a sequence of %u tokens: must be 1 to %u", length,
                    m->shape.n_ctx);
    for (uint32_t pos = 0; pos < length && !r; pos += LM_KV_PAGE) {
        r = extend(m, s, pos, err);
        lm_pages_trim(&m->pages[1], &s->pages[1],
                      length - pos > LM_KV_PAGE ? pos + LM_KV_PAGE : length);
    }
    if (r) {
        give_back(m, s);
        return r;
    }
    lm_states_end(&m->states, &s->states, 0, NOT_HELD, true);
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
    for (struct seq *s = m->idle, *next; s; s = next) {
        next = s->next;
        for (int i = 0; i < 2; i++) {
            free(s->pages[i].data);
            free(s->pages[i].block);
        }
        free(s);
    }
    for (int i = 0; i < 2; i++)
        lm_blocks_free(&m->pages[i].blocks);
    lm_blocks_free(&m->states.blocks);
    free(m->places);
    free(m->batch);
    free(m->copies);
    free(m->table);
    free(m);
}

static int place_all(struct lm_memory *m, const struct lm_memory_shape *s, struct lm_err *err)
{
    struct lm_memory_cost cost;
    int r = lm_memory_cost(s, &cost, err);
    for (uint32_t i = 0; i < s->n_layer && !r; i++) {
        r = lm_memory_place(s, i, &m->places[i], err);
        if (s->layers[i].window > m->pages[1].window && !s->keep_all)
            m->pages[1].window = s->layers[i].window;
    }
    if (r)
        return r;
    for (int i = 0; i < 2; i++) {
        m->pages[i].blocks.buft = s->buft;
        m->pages[i].blocks.size = (size_t)cost.page[i];
    }
    m->states.blocks.buft = s->buft;
    m->states.blocks.size = (size_t)cost.state;
    m->states.n_snapshots = s->n_snapshots < LM_MAX_SNAPSHOTS ? s->n_snapshots
                                                               : LM_MAX_SNAPSHOTS;
    m->nothing = !cost.page[0] && !cost.page[1] && !cost.state;
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
