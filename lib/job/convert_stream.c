/* SPDX-License-Identifier: MIT */
/*
 * What a source that is a stream asks for: weights come once, in the order in which they lie, so
 * that what would have to be gone back to is kept in memory - of a tensor whose rows change
 * places within each head a head, of one that becomes several all - or it is said beforehand
 * that --spool is needed.
 */

#include <stdio.h>

#include "base/size.h"
#include "job/convert_parts.h"

/* Bytes of a tensor that are kept at most. */
enum { HOLD_MOST = 64 << 20 };

/* Does the next item read from the same source? */
static bool wanted_again(const struct lm_convert *c, const struct lm_convert_item *it,
                         const struct lm_st_tensor *st)
{
    const struct lm_convert_item *next = it + 1;
    for (size_t i = 0; next < c->items + c->n_items && i < next->n_sources; i++)
        if (next->sources[i].st == st)
            return true;
    return false;
}

/* Is the source gone through more than once? */
static bool repeats(const struct lm_convert *c, const struct lm_convert_item *it,
                    const struct lm_st_tensor *st)
{
    return (it->n_sources == 1 && it->n_views > 1) || wanted_again(c, it, st);
}

/*
 * The view goes through the source in parts, each of which is read in another order than it
 * lies: elements from the first to the last of a part, 0 when the view only goes forward.  The
 * axes before *k go from part to part.
 */
static uint64_t part_span(const struct lm_convert_view *v, uint32_t *k)
{
    uint64_t span = 1, part = 0;
    *k = 0;
    for (uint32_t i = v->n_axes; i-- > 0;) {
        const bool back = v->axis[i].stride < span;
        span += (v->axis[i].n - 1) * v->axis[i].stride;
        if (back) {
            *k = i;
            part = span;
        }
    }
    return part;
}

/* Bytes of an element, in streams all are numbers. */
static uint64_t unit_of(const struct lm_st_tensor *st)
{
    return lm_convert_value_type(st)->bytes;
}

/* What the block needs of its source: *len bytes from byte *at on, 0 when it reads forward. */
static void needed(const struct lm_convert *c, const struct lm_convert_block *b, uint64_t *at,
                   uint64_t *len)
{
    const struct lm_convert_item *it = &c->items[b->item];
    const struct lm_convert_view *v = &it->views[b->view];
    const struct lm_st_tensor *st = it->sources[v->source].st;
    uint32_t k;
    *at = 0;
    *len = st->bytes;
    if (repeats(c, it, st) && st->bytes <= HOLD_MOST)
        return;
    const uint64_t span = part_span(v, &k);
    uint64_t inside = b->box.start - v->start, n = 1;
    for (uint32_t i = 0; i < k; i++)
        inside %= v->axis[i].stride;
    for (uint32_t i = k; i < v->n_axes; i++)
        n *= v->axis[i].n;
    *at = (b->box.start - inside) * unit_of(st);
    *len = b->n >= n ? 0 : span * unit_of(st);      /* whole parts are read as they lie */
}

int lm_convert_hold(struct lm_convert *c, const struct lm_convert_block *b, struct lm_err *err)
{
    const struct lm_convert_source *s = &c->items[b->item].sources[b->box.source];
    struct lm_convert_held *h = &c->held;
    uint64_t at, len;
    if (lm_hf_random(c->src))
        return LM_OK;
    needed(c, b, &at, &len);
    if (!len || (h->st == s->st && at >= h->at && at + len <= h->at + h->len))
        return LM_OK;
    h->st = NULL;
    if (len > HOLD_MOST)
        return lm_hf_need_spool(c->src, "a tensor is too large to be put in order in memory:",
                                err);
    if (!lm_grow(&h->data, &h->cap, (size_t)len, 1))
        return lm_fail_nomem(err);
    const int r = lm_convert_read_plain(c, s->shard, s->st, at, h->data, (size_t)len, err);
    if (!r)
        *h = (struct lm_convert_held){ s->st, at, len, h->data, h->cap };
    return r;
}

/* --- planning --------------------------------------------------------------------------- */

/* May `s` come through a pipe after what came before it?  The source that was just read is
 * still there. */
static bool may_follow(const struct lm_convert_source *last, const struct lm_convert_source *s)
{
    if (!last || s->shard > last->shard)
        return true;
    if (s->shard < last->shard)
        return false;
    return !s->st || !last->st || s->st == last->st || s->st->begin > last->st->begin;
}

/* A pipe gives a file's data in its own order, which must be that of the output. */
static int check_order(struct lm_convert *c, struct lm_err *err)
{
    const struct lm_convert_source *last = NULL;
    for (size_t i = 0; i < c->n_items; i++)
        for (size_t k = 0; k < c->items[i].n_sources; k++) {
            const struct lm_convert_source *s = &c->items[i].sources[k];
            char what[400];
            if (may_follow(last, s)) {
                last = s;
                continue;
            }
            snprintf(what, sizeof what, "%.90s: %.120s lies before %.120s, which is written first:",
                     c->shards[s->shard].name, s->name, last->name);
            return lm_hf_need_spool(c->src, what, err);
        }
    return LM_OK;
}

/* Is the source of a view too large for what would have to be kept of it? */
static bool too_large(const struct lm_convert *c, const struct lm_convert_item *it,
                      const struct lm_convert_view *v)
{
    const struct lm_st_tensor *st = it->sources[v->source].st;
    uint32_t k;
    return st && ((!lm_hf_complete(c->src) && repeats(c, it, st) && st->bytes > HOLD_MOST) ||
                  part_span(v, &k) > HOLD_MOST / unit_of(st));
}

int lm_convert_check_stream(struct lm_convert *c, struct lm_err *err)
{
    if (lm_hf_random(c->src))
        return LM_OK;
    const int r = lm_hf_complete(c->src) ? LM_OK : check_order(c, err);
    for (size_t i = 0; !r && i < c->n_items; i++)
        for (size_t k = 0; k < c->items[i].n_views; k++) {
            const struct lm_convert_item *it = &c->items[i];
            const struct lm_convert_source *s = &it->sources[it->views[k].source];
            char what[400];
            if (!too_large(c, it, &it->views[k]))
                continue;
            snprintf(what, sizeof what, "%.90s: %.120s has %llu bytes, and is put in another order "
                     "than it comes in:", c->shards[s->shard].name, s->name,
                     (unsigned long long)s->st->bytes);
            return lm_hf_need_spool(c->src, what, err);
        }
    return r;
}

/* A compressed archive begins anew for what lies before the last that was read, which is soon
 * slower than keeping it: the experts of a layer by name are 0, 1, 10, 11, .., 2, 20, .. */
void lm_convert_tell_passes(const struct lm_convert *c)
{
    enum { MANY = 8 };
    const struct lm_convert_source *last = NULL;
    size_t passes = 1;
    if (lm_hf_random(c->src) || !lm_hf_complete(c->src))
        return;
    for (size_t i = 0; i < c->n_items; i++)
        for (size_t k = 0; k < c->items[i].n_sources; k++) {
            const struct lm_convert_source *s = &c->items[i].sources[k];
            const bool kept = s->st->bytes <= HOLD_MOST;
            passes += !may_follow(last, s) || (last && last->st == s->st && !kept);
            if (!kept && c->items[i].n_sources == 1)
                passes += c->items[i].n_views - 1;
            last = s;
        }
    if (passes >= MANY)
        lm_note(c->env, LM_WARN, "weights do not lie in the order of the output: the archive is "
                "gone through %zu times; with --spool DIR it is once", passes);
}
