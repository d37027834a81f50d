/* SPDX-License-Identifier: MIT */
/*
 * Items cut in blocks, and blocks read: only the bytes a block needs, in the order in which
 * they lie in the file, so that reordering weights takes no more memory than copying them.
 */

#include <string.h>

#include "base/size.h"
#include "job/convert_parts.h"

/* Elements of a block; of one that is gathered from columns, so that its runs are not too
 * short to be read one by one. */
enum { BLOCK = 128 * 1024, BLOCK_OF_COLUMNS = 1024 * 1024 };

/* Values this far apart are read with what lies between them. */
enum { CLOSE = 8 };

/* --- walking ---------------------------------------------------------------------------- */

static uint64_t view_elements(const struct lm_convert_view *v)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < v->n_axes; k++)
        n *= v->axis[k].n;
    return n;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Elements that must stay together. */
static uint64_t row_of(const struct lm_convert_item *it, const struct lm_st_tensor *st)
{
    const struct lm_type *from = lm_convert_value_type(st);
    return it->t.type->block > 1 || from->block > 1 ? it->t.ne[0] : 1;
}

/* Blocks are ranges of *axis, at most *per of it, with all of the axes inside it. */
static void cut(const struct lm_convert_view *v, uint64_t row, uint32_t *axis, uint64_t *per)
{
    const bool columns = v->n_axes && v->axis[v->n_axes - 1].stride != 1;
    const uint64_t most = columns ? BLOCK_OF_COLUMNS : BLOCK;
    uint64_t inner = view_elements(v);
    uint32_t k = 0;
    for (;; k++) {
        inner /= v->axis[k].n;
        if (inner <= most || k + 1 == v->n_axes || inner % row)
            break;
    }
    const uint64_t unit = row / gcd(row, inner);
    *axis = k;
    *per = most / inner / unit * unit;
    if (*per < unit)
        *per = unit;
}

/* The file of the source must be the next one of the pipe. */
static int await_shard(struct lm_convert *c, size_t i, struct lm_err *err)
{
    struct lm_convert_shard *s = &c->shards[i];
    int r = lm_hf_next_weights(c->src, err);
    if (r < 0)
        return r;
    if (r == 0)
        return lm_fail(err, LM_EDATA, "%s: is missing: the pipe ended without it", s->name);
    s->file = (int)lm_hf_n_files(c->src) - 1;
    if (strcmp(lm_hf_name(c->src, (size_t)s->file), s->name))
        return lm_hf_not_next(c->src, lm_hf_name(c->src, (size_t)s->file), s->name, err);
    r = lm_convert_read_shard(c, i, err);
    return r ? r : lm_convert_link(c, i, err);
}

/* The view that the walk stands in, its source's header read; 0 after the last. */
static int settle(struct lm_convert_walk *w, struct lm_err *err)
{
    struct lm_convert *c = w->c;
    for (; w->item < c->n_items; w->item++, w->view = 0, w->done = 0, w->base = 0) {
        const struct lm_convert_item *it = &c->items[w->item];
        if (w->view == it->n_views)
            continue;
        const struct lm_convert_source *s = &it->sources[it->views[w->view].source];
        const int r = s->st ? LM_OK : await_shard(c, s->shard, err);
        return r ? lm_err_at(err, r, "%s", lm_hf_path(c->src)) : 1;
    }
    return 0;
}

int lm_convert_next(struct lm_convert_walk *w, struct lm_convert_block *b, struct lm_err *err)
{
    const int r = settle(w, err);
    if (r <= 0)
        return r;
    const struct lm_convert_item *it = &w->c->items[w->item];
    const struct lm_convert_view *v = &it->views[w->view];
    const uint64_t total = view_elements(v);
    *b = (struct lm_convert_block){ .item = w->item, .view = w->view, .box = *v };
    b->first = w->base + w->done;
    b->n = total;
    if (v->n_axes) {
        const uint64_t row = row_of(it, it->sources[v->source].st);
        uint32_t k;
        uint64_t per;
        cut(v, row, &k, &per);
        uint64_t inner = total;
        for (uint32_t d = 0; d <= k; d++)
            inner /= v->axis[d].n;
        uint64_t at = w->done / inner;
        const uint64_t from = at % v->axis[k].n;
        const uint64_t n = v->axis[k].n - from < per ? v->axis[k].n - from : per;
        for (uint32_t d = k + 1; d-- > 0; at /= v->axis[d].n)
            b->box.start += at % v->axis[d].n * v->axis[d].stride;
        b->box.n_axes -= k;
        memmove(b->box.axis, b->box.axis + k, b->box.n_axes * sizeof *b->box.axis);
        b->box.axis[0].n = n;
        b->n = n * inner;
        if (b->n % row)
            return lm_fail(err, LM_ENOSUP, "%s: its rows are not whole in the checkpoint: cannot "
                           "be made %s here", it->t.name, it->t.type->name);
    }
    w->done += b->n;
    if (w->done == total) {
        w->base += total;
        w->view++;
        w->done = 0;
    }
    return 1;
}

uint64_t lm_convert_origin(const struct lm_convert_block *b, uint64_t i)
{
    uint64_t at = b->box.start;
    for (uint32_t d = b->box.n_axes; d-- > 0; i /= b->box.axis[d].n)
        at += i % b->box.axis[d].n * b->box.axis[d].stride;
    return at;
}

/* --- reading ---------------------------------------------------------------------------- */

/* How a block lies in the source, in units of the type's blocks. */
struct layout {
    struct lm_convert_axis outer[LM_VIEW_AXES];     /* farthest first: runs are read in order */
    uint32_t n_outer;
    uint64_t start, run, n_runs;                    /* units                                 */
    uint64_t in_raw[LM_VIEW_AXES];                  /* stride of each axis of the box in raw */
    size_t   unit;                                  /* bytes                                 */
};

/* The box in blocks of the type instead of elements; false when it cuts one. */
static bool in_units(const struct lm_type *from, struct lm_convert_view *box)
{
    const uint64_t block = from->block;
    bool whole = block == 1;
    if (box->start % block)
        return false;
    box->start /= block;
    for (uint32_t k = 0; k < box->n_axes && block > 1; k++) {
        uint64_t *cut_by = box->axis[k].stride == 1 ? &box->axis[k].n : &box->axis[k].stride;
        whole = whole || box->axis[k].stride == 1;
        if (*cut_by % block)
            return false;
        *cut_by /= block;
    }
    return whole;
}

static bool lay_out(const struct lm_type *from, struct lm_convert_view *box, struct layout *l)
{
    uint32_t order[LM_VIEW_AXES], n = 0;
    *l = (struct layout){ .run = 1, .n_runs = 1, .unit = from->bytes };
    if (!in_units(from, box))
        return false;
    l->start = box->start;
    for (uint32_t k = 0; k < box->n_axes; k++) {            /* sorted, farthest first */
        uint32_t i = n++;
        for (; i && box->axis[order[i - 1]].stride < box->axis[k].stride; i--)
            order[i] = order[i - 1];
        order[i] = k;
    }
    while (n) {                                             /* what lies side by side */
        const uint32_t k = order[n - 1];
        const struct lm_convert_axis *a = &box->axis[k];
        if (a->stride != l->run && !(l->run == 1 && a->stride <= CLOSE))
            break;
        l->in_raw[k] = a->stride;
        l->run = a->stride == l->run ? l->run * a->n : (a->n - 1) * a->stride + 1;
        n--;
    }
    uint64_t at = l->run;
    for (uint32_t i = n; i-- > 0;) {
        const uint32_t k = order[i];
        l->in_raw[k] = at;
        at *= box->axis[k].n;
        l->n_runs *= box->axis[k].n;
    }
    for (uint32_t i = 0; i < n; i++)
        l->outer[l->n_outer++] = box->axis[order[i]];
    return true;
}

int lm_convert_read_plain(void *convert, size_t shard, const struct lm_st_tensor *st,
                          uint64_t off, void *dst, size_t n, struct lm_err *err)
{
    const struct lm_convert *c = convert;
    const struct lm_convert_shard *file = &c->shards[shard];
    const int r = lm_hf_read(c->src, (size_t)file->file, file->st.data_offset + st->begin + off,
                             dst, n, err);
    return r ? lm_err_at(err, r, "%s: %s: %s", lm_hf_path(c->src), file->name, st->name) : LM_OK;
}

/* n units, of `unit` bytes each, from unit `at` of a source on. */
static int read_source(struct lm_convert *c, const struct lm_convert_source *s, uint64_t at,
                       void *dst, uint64_t n, size_t unit, struct lm_err *err)
{
    const struct lm_packed *p = s->st->packed;
    if (p) {
        c->unpack.read = lm_convert_read_plain;
        c->unpack.user = c;
        return lm_packed_values(&c->unpack, p, at * p->type->block, n * p->type->block, dst, err);
    }
    const struct lm_convert_held *h = &c->held;
    const uint64_t off = at * unit, bytes = n * unit;
    if (h->st == s->st && off >= h->at && off + bytes <= h->at + h->len) {
        memcpy(dst, (const char *)h->data + (off - h->at), (size_t)bytes);
        return LM_OK;
    }
    return lm_convert_read_plain(c, s->shard, s->st, off, dst, (size_t)bytes, err);
}

static int read_runs(struct lm_convert *c, const struct lm_convert_source *s,
                     const struct layout *l, char *raw, struct lm_err *err)
{
    uint64_t index[LM_VIEW_AXES] = {0};
    uint64_t at = l->start;
    for (uint64_t i = 0; i < l->n_runs; i++) {
        char *to = raw + i * l->run * l->unit;
        const int r = read_source(c, s, at, to, l->run, l->unit, err);
        if (r)
            return r;
        for (uint32_t k = l->n_outer; k-- > 0;) {
            at += l->outer[k].stride;
            if (++index[k] < l->outer[k].n)
                break;
            at -= l->outer[k].n * l->outer[k].stride;
            index[k] = 0;
        }
    }
    return LM_OK;
}

int lm_convert_fetch(struct lm_convert *c, const struct lm_convert_block *b,
                     struct lm_convert_room *room, struct lm_err *err)
{
    const struct lm_convert_source *s = &c->items[b->item].sources[b->box.source];
    struct lm_convert_view box = b->box;
    struct layout l;
    uint64_t bytes;
    if (!lay_out(lm_convert_value_type(s->st), &box, &l))
        return lm_fail(err, LM_ENOSUP, "%s: %s: its blocks cannot be put in the order needed",
                       lm_hf_path(c->src), s->name);
    if (!lm_mul_u64(l.run * l.n_runs, l.unit, &bytes) || bytes > SIZE_MAX / 2 ||
        !lm_grow(&room->raw, &room->raw_cap, (size_t)bytes, 1))
        return lm_fail_nomem(err);
    const int r = lm_convert_hold(c, b, err);
    return r ? r : read_runs(c, s, &l, room->raw, err);
}

/* --- putting in order ------------------------------------------------------------------- */

static void gather(const char *from, char *to, uint64_t n, uint64_t stride, size_t unit)
{
    if (stride == 1) {
        memcpy(to, from, (size_t)n * unit);
    } else if (unit == 2) {
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + 2 * i, from + 2 * i * stride, 2);
    } else if (unit == 4) {
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + 4 * i * stride, 4);
    } else {
        for (uint64_t i = 0; i < n; i++)
            memcpy(to + i * unit, from + i * stride * unit, unit);
    }
}

const void *lm_convert_arrange(const struct lm_convert *c, const struct lm_convert_block *b,
                               struct lm_convert_room *room)
{
    const struct lm_convert_source *s = &c->items[b->item].sources[b->box.source];
    struct lm_convert_view box = b->box;
    struct layout l;
    uint64_t index[LM_VIEW_AXES] = {0}, dense = 1, at = 0;
    bool in_order = true;
    lay_out(lm_convert_value_type(s->st), &box, &l);
    for (uint32_t k = box.n_axes; k-- > 0; dense *= box.axis[k].n)
        in_order = in_order && (l.in_raw[k] == dense || box.axis[k].n == 1);
    if (in_order)
        return room->raw;
    if (!lm_grow(&room->ordered, &room->ordered_cap, (size_t)dense * l.unit, 1))
        return NULL;
    const struct lm_convert_axis last = { box.axis[box.n_axes - 1].n, l.in_raw[box.n_axes - 1] };
    char *to = room->ordered;
    for (uint64_t i = 0; i < dense; i += last.n, to += last.n * l.unit) {
        gather((const char *)room->raw + at * l.unit, to, last.n, last.stride, l.unit);
        for (uint32_t k = box.n_axes - 1; k-- > 0;) {
            at += l.in_raw[k];
            if (++index[k] < box.axis[k].n)
                break;
            at -= box.axis[k].n * l.in_raw[k];
            index[k] = 0;
        }
    }
    return room->ordered;
}
