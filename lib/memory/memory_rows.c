/* SPDX-License-Identifier: MIT */
/* What sequences remember, to and from host memory. */
#include "memory/memory_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

uint32_t lm_memory_first(const struct lm_memory *m, uint32_t layer, uint32_t seq)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    const struct lm_memory_place *at = &m->places[layer];
    const uint32_t gone = s ? s->pages[at->list].gone : 0;
    return s && at->window && s->lacking > gone ? s->lacking : gone;
}

/* Bytes at an offset of a block, to or from the host. */
static int transfer(const struct lm_block *b, size_t off, void *out, const void *in, size_t n,
                    struct lm_err *err)
{
    return out ? b->buffer->ops->read(b->buffer, b->data + off, out, n, err)
               : b->buffer->ops->write(b->buffer, b->data + off, in, n, err);
}

/* Rows are read if there is an `out`, else written. */
static int rows(const struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head,
                bool value, uint32_t pos, uint32_t n, char *out, const char *in,
                struct lm_err *err)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    const struct lm_memory_place *at = &m->places[layer];
    const struct lm_kv_layout *kv = &at->kv;
    const size_t row = value ? kv->v_row : kv->k_row, off = value ? kv->v_off : kv->k_off;
    if (!s || pos > s->length || n > s->length - pos || head >= kv->n_head_kv ||
        pos < lm_memory_first(m, layer, seq))
        return lm_fail(err, LM_EUSE, "sequence %u has no positions %u to %u of layer %u", seq,
                       pos, pos + n, layer);
    int r = LM_OK;
    for (uint32_t len; n && !r; pos += len, n -= len) {
        const struct lm_block *page = s->pages[at->list].block[pos / LM_KV_PAGE];
        const size_t first = (size_t)head * LM_KV_PAGE + pos % LM_KV_PAGE;
        len = LM_KV_PAGE - pos % LM_KV_PAGE < n ? LM_KV_PAGE - pos % LM_KV_PAGE : n;
        r = transfer(page, off + first * row, out, in, len * row, err);
        if (out)
            out += len * row;
        else
            in += len * row;
    }
    return r;
}

int lm_memory_read(const struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head,
                   bool value, uint32_t pos, uint32_t n, void *dst, struct lm_err *err)
{
    return rows(m, layer, seq, head, value, pos, n, dst, NULL, err);
}

int lm_memory_write(struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head, bool value,
                    uint32_t pos, uint32_t n, const void *src, struct lm_err *err)
{
    return rows(m, layer, seq, head, value, pos, n, NULL, src, err);
}

/* --- states ------------------------------------------------------------------------------ */

size_t lm_memory_state_bytes(const struct lm_memory *m)
{
    return m->state_bytes;
}

bool lm_memory_has_state(const struct lm_memory *m, uint32_t seq)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    bool there = false;
    for (uint32_t i = 0; s && i < m->n_where; i++)
        there |= s->states[i].now != NULL;
    return there;
}

/* The parts of all layers, from the memories that each is in. */
static int whole_state(const struct lm_memory *m, uint32_t seq, char *out, const char *in,
                       struct lm_err *err)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    int r = LM_OK;
    if (!s || !lm_memory_has_state(m, seq))
        return lm_fail(err, LM_EUSE, "sequence %u has no state", seq);
    for (uint32_t i = 0; i < m->shape.n_layer && !r; i++) {
        const struct lm_memory_place *at = &m->places[i];
        if (at->state_bytes)
            r = transfer(s->states[at->where].now, at->conv_off, out ? out + at->whole_off : NULL,
                         in ? in + at->whole_off : NULL, at->state_bytes, err);
    }
    return r;
}

int lm_memory_read_state(const struct lm_memory *m, uint32_t seq, void *dst, struct lm_err *err)
{
    return whole_state(m, seq, dst, NULL, err);
}

int lm_memory_write_state(struct lm_memory *m, uint32_t seq, const void *src, struct lm_err *err)
{
    return whole_state(m, seq, NULL, src, err);
}

/* --- angles ------------------------------------------------------------------------------ */

int lm_angles_set(struct lm_angles *a, const uint32_t *angles, uint32_t n, struct lm_err *err)
{
    uint32_t *of = n ? lm_malloc_array(n, sizeof *of) : NULL;
    if (n && !of)
        return lm_fail_nomem(err);
    if (n)
        memcpy(of, angles, n * sizeof *of);
    free(a->of);
    *a = (struct lm_angles){ of, n };
    return LM_OK;
}

uint32_t lm_memory_n_angles(const struct lm_memory *m, uint32_t seq)
{
    const struct lm_memory_seq *s = lm_memory_find(m, seq);
    return s ? s->angles.n : 0;
}

int lm_memory_set_angles(struct lm_memory *m, uint32_t seq, const uint32_t *angles, uint32_t n,
                         struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    bool can = s && n <= s->length && (n == 0 || angles[0] == 0);
    for (uint32_t i = 1; i < n && can; i++)
        can = angles[i] == angles[i - 1] || angles[i] == angles[i - 1] + 1;
    return can ? lm_angles_set(&s->angles, angles, n, err)
               : lm_fail(err, LM_EDATA, "sequence %u: no tokens are rotated by such positions",
                         seq);
}

/* --- windows that begin later ------------------------------------------------------------- */

int lm_memory_lack(struct lm_memory *m, uint32_t seq, uint32_t layer, uint32_t first,
                   struct lm_err *err)
{
    struct lm_memory_seq *s = lm_memory_find(m, seq);
    const struct lm_memory_place *at = &m->places[layer];
    const struct lm_page_part own = { .window = at->window };
    if (!s || first > lm_pages_seen(&own, s->length))
        return lm_fail(err, LM_EDATA, "layer %u needs positions in front of %u", layer, first);
    /* Windows of other lengths may share the list: it is cut no further than they allow. */
    const bool all = m->shape.keep_all;
    const uint32_t most = lm_pages_seen(all ? &m->wide : &m->pages[at->list], s->length);
    uint32_t *gone = all ? &s->lacking : &s->pages[at->list].gone;
    first = first < most ? first : most;
    *gone = *gone > first ? *gone : first;
    return LM_OK;
}
