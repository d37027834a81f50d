/* SPDX-License-Identifier: MIT */
/* Which tensors a checkpoint has: those of the model, with the reordering of the architecture's
 * rows undone. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "job/restore_parts.h"

/* Parts of one tensor, and pieces that its elements lie in: beyond that it is no model. */
enum { MOST_PARTS = 1 << 20, MOST_PIECES = 1 << 22 };

/* A run on its way: where it goes, part and element. */
struct piece {
    uint64_t source, to, from, n;
};

static int order(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Elements of a view that lie one behind the other in its source. */
static uint64_t in_a_row(const struct lm_convert_view *v)
{
    return v->n_axes && v->axis[v->n_axes - 1].stride == 1 ? v->axis[v->n_axes - 1].n : 1;
}

static uint64_t elements_of(const struct lm_convert_view *v)
{
    uint64_t n = 1;
    for (uint32_t a = 0; a < v->n_axes; a++)
        n *= v->axis[a].n;
    return n;
}

/* The pieces of a view, whose first element is element `base` of the model's tensor. */
static size_t cut(const struct lm_convert_view *v, uint64_t base, struct piece *out)
{
    const uint64_t n = in_a_row(v), count = elements_of(v) / n;
    const uint32_t axes = v->n_axes - (n > 1 && v->n_axes);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = v->start, rest = i;
        for (uint32_t a = axes; a-- > 0; rest /= v->axis[a].n)
            at += rest % v->axis[a].n * v->axis[a].stride;
        out[i] = (struct piece){ v->source, at, base + i * n, n };
    }
    return (size_t)count;
}

/* All pieces of a tensor, in the order of the checkpoint: malloc'ed, NULL with *err filled. */
static struct piece *pieces_of(const struct lm_convert_item *it, size_t *n, struct lm_err *err)
{
    uint64_t count = 0, base = 0;
    for (size_t i = 0; i < it->n_views; i++) {
        const struct lm_convert_view *v = &it->views[i];
        const uint64_t row = in_a_row(v);
        if (row == 1 && it->t.n_dims > 1 && it->t.ne[0] > 1) {
            lm_fail(err, LM_ENOSUP, "%s: lies transposed in checkpoints, which cannot be undone",
                    it->t.name);
            return NULL;
        }
        count += elements_of(v) / row;
    }
    if (count > MOST_PIECES) {
        lm_fail(err, LM_ENOSUP, "%s: has too many rows to be put in order", it->t.name);
        return NULL;
    }
    struct piece *all = lm_malloc_array((size_t)count, sizeof *all);
    if (!all) {
        lm_fail_nomem(err);
        return NULL;
    }
    *n = 0;
    for (size_t i = 0; i < it->n_views; i++) {
        *n += cut(&it->views[i], base, all + *n);
        base += elements_of(&it->views[i]);
    }
    qsort(all, *n, sizeof *all, order);
    return all;
}

static int no_way(const struct lm_convert_item *it, struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "%s: what conversion does to it cannot be undone", it->t.name);
}

/* The runs of part k, whose pieces begin at *at: they must cover it, each once. */
static int take_runs(struct lm_restore *r, const struct lm_convert_item *it, size_t k,
                     const struct piece *all, size_t n, size_t *at, struct lm_restore_tensor *t,
                     struct lm_err *err)
{
    const size_t first = *at;
    uint64_t done = 0;
    while (*at < n && all[*at].source == k)
        ++*at;
    t->runs = lm_arena_array(&r->c.arena, *at - first, sizeof *t->runs);
    if (!t->runs)
        return lm_fail_nomem(err);
    for (size_t i = first; i < *at; done += all[i++].n) {
        struct lm_restore_run *last = t->n_runs ? &t->runs[t->n_runs - 1] : NULL;
        if (all[i].to != done)
            return no_way(it, err);
        if (all[i].from % t->of->type->block || all[i].n % t->of->type->block)
            return lm_fail(err, LM_ENOSUP, "%s: rows of it do not begin with blocks of %s",
                           it->t.name, t->of->type->name);
        if (last && last->from + last->n == all[i].from)
            last->n += all[i].n;
        else
            t->runs[t->n_runs++] = (struct lm_restore_run){ all[i].from, all[i].n };
    }
    return done == t->n ? LM_OK : no_way(it, err);
}

/* The name of part k of a source in layer i. */
static const char *name_of(struct lm_restore *r, const char *source, uint32_t layer, size_t k)
{
    char one[LM_ARCH_NAME], all[LM_ARCH_NAME + 24];
    lm_arch_expand(source, layer, one);
    const char *hole = strchr(one, '{');
    if (hole && hole[1] && hole[2] == '}')
        snprintf(all, sizeof all, "%.*s%zu%s", (int)(hole - one), one, k, hole + 3);
    else
        snprintf(all, sizeof all, "%s", one);
    return lm_arena_copy(&r->c.arena, all, strlen(all));
}

/* The item that conversion would make of the row, with its sources' names. */
static int make_item(struct lm_restore *r, const struct lm_gguf_tensor *g,
                     const struct lm_arch_tensor *row, uint32_t layer, struct lm_convert_item *it,
                     struct lm_err *err)
{
    *it = (struct lm_convert_item){ .row = row, .layer = layer, .transform = row->transform };
    it->t.name = g->name.p;
    it->t.n_dims = lm_arch_shape(row, r->arch, &r->h, layer, it->t.ne);
    if (!it->t.n_dims || memcmp(it->t.ne, g->ne, sizeof g->ne))
        return lm_fail(err, LM_EDATA, "%s: has another shape than the keys say", g->name.p);
    const uint64_t parts = row->transform == LM_STACK ? it->t.ne[it->t.n_dims - 1] : 1;
    it->sources = parts > MOST_PARTS
                      ? NULL : lm_arena_array(&r->c.arena, (size_t)parts, sizeof *it->sources);
    if (!it->sources)
        return lm_fail_nomem(err);
    for (; it->n_sources < parts; it->n_sources++)
        if (!(it->sources[it->n_sources].name = name_of(r, row->source, layer, it->n_sources)))
            return lm_fail_nomem(err);
    return lm_convert_views(&r->c, it, err);
}

static int add_parts(struct lm_restore *r, const struct lm_gguf_tensor *g,
                     const struct lm_convert_item *it, struct lm_err *err)
{
    size_t n = 0, at = 0;
    struct lm_restore_tensor t = { .of = g, .n = 1, .less_one = it->transform == LM_ADD_ONE };
    if (lm_convert_has_values(it) && !t.less_one)
        return no_way(it, err);
    t.n_dims = lm_convert_source_shape(&r->c, it, t.shape);
    for (uint32_t d = 0; d < t.n_dims; d++)
        if (!lm_mul_u64(t.n, t.shape[d], &t.n))
            return no_way(it, err);
    struct piece *all = pieces_of(it, &n, err);
    int s = all ? LM_OK : (int)err->code;
    if (!s && !lm_grow(&r->tensors, &r->cap, r->n_tensors + it->n_sources, sizeof *r->tensors))
        s = lm_fail_nomem(err);
    for (size_t k = 0; !s && k < it->n_sources; k++) {
        struct lm_restore_tensor *one = &r->tensors[r->n_tensors++];
        *one = t;
        one->name = it->sources[k].name;
        s = take_runs(r, it, k, all, n, &at, one, err);
    }
    free(all);
    return s;
}

static int add_tensor(struct lm_restore *r, const struct lm_gguf_tensor *g, struct lm_err *err)
{
    struct lm_convert_item it;
    uint32_t layer;
    const struct lm_arch_tensor *row = lm_arch_row_of(r->arch, &r->h, g->name.p, &layer);
    const bool made = row && row->transform >= LM_MAKE_ROPE_FREQS;
    if (!row || strlen(g->name.p) != g->name.len ||
        (row->flags & LM_TENSOR_PER_LAYER && layer >= r->h.n_layer))
        return lm_fail(err, LM_ENOSUP, "%s: no tensor of a %s model", g->name.p, r->arch->name);
    if (made)                                   /* config.json says what it is made of */
        return LM_OK;
    if (!row->source)
        return lm_fail(err, LM_ENOSUP, "%s: has no place in a checkpoint of %s", g->name.p,
                       r->family->class);
    if (!g->type->decode)
        return lm_fail(err, LM_EDATA, "%s: %s are no weights", g->name.p, g->type->name);
    const int s = make_item(r, g, row, layer, &it, err);
    return s ? s : add_parts(r, g, &it, err);
}

static bool there(const void *arg, const char *name)
{
    return lm_gguf_tensor(arg, name);
}

/* Every tensor that the architecture needs. */
static int check_needed(const struct lm_restore *r, struct lm_err *err)
{
    char name[LM_ARCH_NAME];
    for (const struct lm_arch_tensor *row = r->arch->tensors; row->name; row++) {
        const uint32_t n = row->flags & LM_TENSOR_PER_LAYER ? r->h.n_layer : 1;
        for (uint32_t i = 0; i < n; i++) {
            lm_arch_expand(row->name, i, name);
            if (lm_arch_needs(row, r->arch, &r->h, i, there, r->g) && !there(r->g, name))
                return lm_fail(err, LM_EDATA, "%s: missing", name);
        }
    }
    return LM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names that several tensors of the model would have. */
static int check_names(const struct lm_restore *r, struct lm_err *err)
{
    const char **names = lm_malloc_array(r->n_tensors + 1, sizeof *names);
    int s = names ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; !s && i < r->n_tensors; i++)
        names[i] = r->tensors[i].name;
    if (!s)
        qsort(names, r->n_tensors, sizeof *names, by_name);
    for (size_t i = 1; !s && i < r->n_tensors; i++)
        if (!strcmp(names[i - 1], names[i]))
            s = lm_fail(err, LM_ENOSUP, "%s: is several tensors of the model", names[i]);
    free(names);
    return s;
}

static const char *const types[] = { "f32", "f16", "bf16" };

/* All weights have one type: transformers makes them so when it reads them. */
static void settle_type(struct lm_restore *r)
{
    for (uint64_t i = 0; !r->type && i < r->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &r->g->tensors[i];
        for (size_t k = 0; t->n_dims > 1 && k < sizeof types / sizeof *types; k++)
            if (t->type == lm_type_by_name(types[k]))
                r->type = t->type;
        if (t->n_dims > 1 && !r->type)
            break;
    }
    r->type = r->type ? r->type : lm_type_by_id(LM_BF16);
}

int lm_restore_plan(struct lm_restore *r, struct lm_err *err)
{
    int s = check_needed(r, err);
    r->c.cfg.arch = r->arch;
    r->c.cfg.h = r->h;
    for (uint64_t i = 0; !s && i < r->g->n_tensors; i++)
        s = add_tensor(r, &r->g->tensors[i], err);
    settle_type(r);
    return s ? s : check_names(r, err);
}
