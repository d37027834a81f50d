/* SPDX-License-Identifier: MIT */
/*
 * How weights are reordered: a transform of the architecture's row becomes views of its
 * sources (convert_parts.h).
 */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/f16.h"
#include "base/text.h"
#include "job/convert_parts.h"

/* Rows that a table may lack. */
enum { MOST_REPEATED = 4096 };

/* Append a view to the item, whose list has room for it. */
static struct lm_convert_view *add_view(struct lm_convert_item *it, size_t source, uint64_t start)
{
    struct lm_convert_view *v = &it->views[it->n_views++];
    *v = (struct lm_convert_view){ .source = (uint32_t)source, .start = start };
    return v;
}

static void add_axis(struct lm_convert_view *v, uint64_t n, uint64_t stride)
{
    if (n != 1)
        v->axis[v->n_axes++] = (struct lm_convert_axis){ n, stride };
}

static uint64_t elements(const struct lm_convert_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->n_dims; d++)
        n *= t->ne[d];
    return n;
}

/* Columns and rows of one matrix; a vector of biases is a column of rows. */
static void matrix(const struct lm_convert_tensor *t, uint64_t *cols, uint64_t *rows)
{
    *cols = t->n_dims > 1 ? t->ne[0] : 1;
    *rows = t->n_dims > 1 ? t->ne[1] : t->ne[0];
}

/* reshape(H, 2, d/2, cols), axes 1 and 2 swapped. */
static int pair_rows(struct lm_convert_item *it, uint32_t heads, struct lm_err *err)
{
    uint64_t cols, rows;
    matrix(&it->t, &cols, &rows);
    const uint64_t d = heads ? rows / heads : 0;
    if (d == 0 || d % 2 || d * heads != rows)
        return lm_fail(err, LM_EDATA, "%s: %llu rows are no pairs in each of %u heads",
                       it->sources[0].name, (unsigned long long)rows, heads);
    struct lm_convert_view *v = add_view(it, 0, 0);
    add_axis(v, heads, d * cols);
    add_axis(v, d / 2, cols);
    add_axis(v, 2, d / 2 * cols);
    add_axis(v, cols, 1);
    return LM_OK;
}

/* Of the first `turned` rows of every head neighbouring pairs become two halves, or the other way
 * round; the rows after them stay. */
static int turned_rows(struct lm_convert_item *it, uint32_t heads, uint64_t turned, bool to_pairs,
                       struct lm_err *err)
{
    uint64_t cols, rows;
    matrix(&it->t, &cols, &rows);
    const uint64_t d = heads ? rows / heads : 0;
    if (turned == 0 || turned % 2 || turned > d || d * heads != rows)
        return lm_fail(err, LM_EDATA, "%s: %llu rows, of which %llu turn in each of %u heads",
                       it->sources[0].name, (unsigned long long)rows, (unsigned long long)turned,
                       heads);
    for (uint64_t at = 0; at < rows; at += d) {
        struct lm_convert_view *v = add_view(it, 0, at * cols);
        add_axis(v, to_pairs ? turned / 2 : 2, cols);
        add_axis(v, to_pairs ? 2 : turned / 2, to_pairs ? turned / 2 * cols : 2 * cols);
        add_axis(v, cols, 1);
        if (turned < d)
            add_axis(add_view(it, 0, (at + turned) * cols), (d - turned) * cols, 1);
    }
    return LM_OK;
}

/* Groups of queries, a key and a value become all queries, all keys, all values. */
static int split_qkv(struct lm_convert_item *it, const struct lm_hparams *h, struct lm_err *err)
{
    uint64_t cols, rows;
    matrix(&it->t, &cols, &rows);
    const uint64_t groups = h->n_head_kv, head = h->head_k * cols;
    const uint64_t group = groups ? h->n_head / groups : 0;
    if (group == 0 || rows != groups * (group + 2) * h->head_k)
        return lm_fail(err, LM_EDATA, "%s: %llu rows are not %llu groups of queries, key and "
                       "value", it->sources[0].name, (unsigned long long)rows,
                       (unsigned long long)groups);
    for (int part = 0; part < 3; part++) {
        struct lm_convert_view *v = add_view(it, 0, part ? (group + (uint64_t)part - 1) * head : 0);
        add_axis(v, groups, (group + 2) * head);
        add_axis(v, part ? head : group * head, 1);
    }
    return LM_OK;
}

/* Queries (0), keys (1) or values (2) of a source that has all of them, in groups or not; the rows
 * of the first two as pair_rows has them. */
static int cut_qkv(struct lm_convert_item *it, const struct lm_hparams *h, int part, bool grouped,
                   struct lm_err *err)
{
    uint64_t cols, rows;
    matrix(&it->t, &cols, &rows);
    const uint64_t groups = grouped ? h->n_head_kv : 1, d = h->head_k;
    const uint64_t queries = h->n_head / groups, keys = h->n_head_kv / groups;
    const uint64_t before = part == 0 ? 0 : part == 1 ? queries : queries + keys;
    if (d % 2 || queries * groups != h->n_head || h->head_v != d)
        return lm_fail(err, LM_EDATA, "%s: %u heads of %u and %u values in %u groups",
                       it->sources[0].name, h->n_head, h->head_k, h->head_v, h->n_head_kv);
    it->source_rows = groups * (queries + 2 * keys) * d;
    struct lm_convert_view *v = add_view(it, 0, before * d * cols);
    add_axis(v, groups, (queries + 2 * keys) * d * cols);
    add_axis(v, part ? keys : queries, d * cols);
    if (part < 2) {
        add_axis(v, d / 2, cols);
        add_axis(v, 2, d / 2 * cols);
        add_axis(v, cols, 1);
    } else {
        add_axis(v, d * cols, 1);
    }
    return LM_OK;
}

/* The gate comes first, which checkpoints of the second kind have in the second half. */
static void swap_second(struct lm_convert_item *it)
{
    const char *end = strrchr(it->row->source_2, '}') + 1;
    const uint64_t half = elements(&it->t) / 2;
    const bool swap = lm_ends_with(it->sources[0].name, end);
    add_axis(add_view(it, 0, swap ? half : 0), half, 1);
    add_axis(add_view(it, 0, swap ? 0 : half), half, 1);
}

/* Columns and rows of every matrix change places. */
static void transpose(struct lm_convert_item *it)
{
    const uint64_t cols = it->t.ne[0], rows = it->t.ne[1];
    struct lm_convert_view *v = add_view(it, 0, 0);
    add_axis(v, elements(&it->t) / (cols * rows), cols * rows);
    add_axis(v, rows, 1);
    add_axis(v, cols, rows);
}

/* Is the source a stack of matrices of so many rows that lie transposed, and not as they should? */
static bool lies_turned(const struct lm_convert_item *it, uint64_t rows)
{
    const struct lm_st_tensor *st = it->sources[0].st;
    const uint64_t cols = it->t.ne[0];
    if (it->transform == LM_FIRST_HALVES_TURNED || it->transform == LM_SECOND_HALVES_TURNED)
        return true;
    return st && st->n_dims == 3 && st->shape[1] == cols && st->shape[2] == rows && rows != cols;
}

/* The first or second half of the rows of every matrix of a stack. */
static void half_rows(struct lm_convert_item *it, int half)
{
    const uint64_t cols = it->t.ne[0], rows = it->t.ne[1], one = cols * rows;
    const bool turned = lies_turned(it, 2 * rows);
    struct lm_convert_view *v = add_view(it, 0, half ? turned ? rows : one : 0);
    add_axis(v, elements(&it->t) / one, 2 * one);
    add_axis(v, rows, turned ? 1 : cols);
    add_axis(v, cols, turned ? 2 * rows : 1);
}

/* Of n_head groups of rows (a key's, then a value's) of kv_rank values. */
static void latent(struct lm_convert_item *it, const struct lm_hparams *h, bool keys)
{
    const uint64_t plain = h->head_k_full - h->n_rot, rank = h->kv_rank;
    struct lm_convert_view *v = add_view(it, 0, keys ? 0 : plain * rank);
    add_axis(v, h->n_head, (plain + h->head_v_full) * rank);
    if (keys) {
        add_axis(v, rank, 1);
        add_axis(v, plain, rank);
    } else {
        add_axis(v, h->head_v_full * rank, 1);
    }
}

/* Every other row of every matrix of a stack (a vector of biases is a column), whose columns
 * stand in the source's rows unless it is of a block type. */
static void other_rows(struct lm_convert_item *it, int odd, bool turned)
{
    const struct lm_convert_tensor *t = &it->t;
    const uint64_t cols = t->n_dims > 2 ? t->ne[0] : 1;
    const uint64_t rows = t->n_dims > 2 ? t->ne[1] : t->ne[0];
    struct lm_convert_view *v = add_view(it, 0, (uint64_t)odd * (turned ? 1 : cols));
    add_axis(v, elements(t) / (cols * rows), 2 * cols * rows);
    add_axis(v, rows, turned ? 2 : 2 * cols);
    add_axis(v, cols, turned ? 2 * rows : 1);
}

/* Are a stack's matrices transposed in the checkpoint?  Those of block types are not. */
static bool turned(const struct lm_convert_item *it)
{
    const struct lm_st_tensor *st = it->sources[0].st;
    return !(st && st->packed && st->packed->type->block > 1);
}

/* Rows of a table of which the first n are left out. */
static void skip_rows(struct lm_convert_item *it, uint64_t n)
{
    add_axis(add_view(it, 0, n * it->t.ne[0]), elements(&it->t), 1);
}

/* A table, and its first row in the place of those that it lacks. */
static void repeat_first(struct lm_convert_item *it, uint64_t rows)
{
    const uint64_t cols = it->t.ne[0];
    add_axis(add_view(it, 0, 0), rows * cols, 1);
    for (uint64_t i = rows; i < it->t.ne[1]; i++)
        add_axis(add_view(it, 0, 0), cols, 1);
}

/* Rows of the source of such a table. */
static uint64_t rows_there(const struct lm_convert_item *it)
{
    const struct lm_st_tensor *st = it->sources[0].st;
    const uint64_t most = it->t.ne[1], least = most > MOST_REPEATED ? most - MOST_REPEATED : 1;
    return st && st->n_dims == 2 && st->shape[0] >= least && st->shape[0] < most ? st->shape[0]
                                                                                  : most;
}

static void as_is(struct lm_convert_item *it)
{
    for (size_t i = 0; i < it->n_sources; i++)
        add_axis(add_view(it, i, 0), elements(&it->t) / it->n_sources, 1);
}

/*
 * Rows of key heads, each with its query, its key, the values of its value heads and their
 * gates: all queries, all keys, all values, or all gates.
 */
static int delta_rows(struct lm_convert_item *it, const struct lm_hparams *h, bool qkv,
                      struct lm_err *err)
{
    const uint64_t cols = it->t.ne[0], keys = h->ssm_groups, size = h->ssm_state;
    const uint64_t values = keys ? h->ssm_inner / keys : 0, head = 2 * (size + values);
    const uint64_t starts[4] = { 0, size, 2 * size, 2 * size + values };
    if (!keys || keys * values != h->ssm_inner)
        return lm_fail(err, LM_EDATA, "%s: %u values in %u key heads", it->sources[0].name,
                       h->ssm_inner, h->ssm_groups);
    it->source_rows = keys * head;
    for (int part = qkv ? 0 : 3; part < (qkv ? 3 : 4); part++) {
        struct lm_convert_view *v = add_view(it, 0, starts[part] * cols);
        add_axis(v, keys, head * cols);
        add_axis(v, (part < 2 ? size : values) * cols, 1);
    }
    return LM_OK;
}

/*
 * Rows or columns of value heads after the first `keep` rows.  Those of a key head stand
 * together; then come the first of every key head, the second of every one, and so on.
 */
static int tile(struct lm_convert_item *it, const struct lm_hparams *h, uint64_t keep,
                bool columns, struct lm_err *err)
{
    uint64_t cols, rows;
    matrix(&it->t, &cols, &rows);
    const uint64_t n = columns ? cols : rows - keep, keys = h->ssm_groups;
    const uint64_t each = keys ? h->ssm_rank / keys : 0;        /* value heads of a key head */
    if (!each || each * keys != h->ssm_rank || n % h->ssm_rank)
        return lm_fail(err, LM_EDATA, "%s: %llu rows in %u heads of %u key heads",
                       it->sources[0].name, (unsigned long long)n, h->ssm_rank, h->ssm_groups);
    const uint64_t of = n / h->ssm_rank * (columns ? 1 : cols);         /* elements of a head */
    if (keep)
        add_axis(add_view(it, 0, 0), keep * cols, 1);
    struct lm_convert_view *v = add_view(it, 0, keep * cols);
    if (columns)
        add_axis(v, rows, cols);
    add_axis(v, each, of);
    add_axis(v, keys, each * of);
    add_axis(v, of, 1);
    return LM_OK;
}

/* A factor of config.json: "NAME", or "NAME.i" of a list. */
static int factor(const struct lm_convert *c, const char *name, double *out, struct lm_err *err)
{
    char key[64];
    const char *dot = strchr(name, '.');
    snprintf(key, sizeof key, "%.*s", (int)(dot ? (size_t)(dot - name) : strlen(name)), name);
    const struct lm_jval *v = lm_jval_get(c->cfg.json, key);
    if (dot && v) {
        v = v->kind == LM_JSON_ARRAY ? v->first : NULL;
        for (int i = dot[1] - '0'; v && i > 0; i--)
            v = v->next;
    }
    if (!lm_jval_f64(v, out) || !isfinite(*out) || *out == 0)
        return lm_fail(err, LM_EDATA, "config.json: %s is no number to multiply weights by", name);
    return LM_OK;
}

static const struct lm_arch_factor *factors_of(const struct lm_convert *c,
                                               const struct lm_convert_item *it)
{
    const struct lm_arch_factor *f = c->cfg.arch->factors;
    while (f->role != it->row->role && f->role != LM_N_ROLES)
        f++;
    return f;
}

static int times(const struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    const struct lm_arch_factor *f = factors_of(c, it);
    double one;
    as_is(it);
    for (size_t i = 0; i < 2 && f->names[i]; i++) {
        int r = factor(c, f->names[i], &one, err);
        if (r)
            return r;
        it->views[0].times[i] = (float)one;
    }
    return LM_OK;
}

/* The rows of gate, input, b, c and steps, each with a factor of their own. */
static int times_rows(const struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    const struct lm_arch_factor *f = factors_of(c, it);
    const struct lm_hparams *h = &c->cfg.h;
    const uint64_t bc = (uint64_t)h->ssm_groups * h->ssm_state;
    const uint64_t sizes[5] = { h->ssm_inner, h->ssm_inner, bc, bc, h->ssm_rank };
    uint64_t cols, rows, at = 0;
    double all = 1, one;
    matrix(&it->t, &cols, &rows);
    int r = f->names[0] ? factor(c, f->names[0], &all, err) : LM_OK;
    for (int i = 0; i < 5 && !r; at += sizes[i++]) {
        char name[64];
        snprintf(name, sizeof name, "%s.%d", f->names[1], i);
        if ((r = factor(c, name, &one, err)))
            break;
        struct lm_convert_view *v = add_view(it, 0, at * cols);
        add_axis(v, sizes[i] * cols, 1);
        v->times[0] = (float)all;
        v->times[1] = (float)one;
    }
    return r;
}

/* A view for each row; which rows the vocabulary tells later (lm_convert_pick_rows). */
static void pick_rows(struct lm_convert_item *it)
{
    for (uint64_t i = 0; i < it->t.ne[1]; i++)
        add_axis(add_view(it, 0, 0), it->t.ne[0], 1);
}

int lm_convert_pick_rows(struct lm_convert *c, const struct lm_hf_vocab *v, struct lm_err *err)
{
    const struct lm_arch_key *k = c->cfg.arch->keys;
    while (k->name && k->from != LM_FROM_LABELS)
        k++;
    for (size_t i = 0; i < c->n_items; i++)
        for (size_t n = 0; c->items[i].transform == LM_PICK_ROWS && n < c->items[i].n_views; n++) {
            const char *label = k->config[n] + 1;
            uint32_t id = 0;
            while (id < v->n && (v->pieces[id].len != strlen(label) ||
                                 memcmp(v->pieces[id].p, label, v->pieces[id].len)))
                id++;
            if (id == v->n)
                return lm_fail(err, LM_EDATA, "the tokenizer has no piece %s", label);
            c->items[i].views[n].start = id * c->items[i].t.ne[0];
        }
    return LM_OK;
}

/* At most so many views make the tensor. */
static size_t most_views(const struct lm_convert *c, const struct lm_convert_item *it)
{
    if (it->transform >= LM_PAIR_TURNED_Q_ROWS && it->transform <= LM_HALVE_K_ROWS)
        return 2 * (size_t)c->cfg.h.n_head + 5;
    if (it->transform == LM_REPEAT_FIRST_ROW)
        return (size_t)(it->t.ne[1] - rows_there(it) + 1);
    return it->n_sources < 5 ? 5 : it->n_sources;
}

/* The rows of heads that turn: two halves become neighbouring pairs, or the other way round, which
 * some models do not want. */
static int turned_heads(const struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    const struct lm_hparams *h = &c->cfg.h;
    const bool q = it->transform == LM_PAIR_TURNED_Q_ROWS || it->transform == LM_HALVE_Q_ROWS;
    const bool pair = it->transform <= LM_PAIR_TURNED_K_ROWS;
    if (pair || h->rope_halves)
        return turned_rows(it, q ? h->n_head : h->n_head_kv, h->n_rot, pair, err);
    as_is(it);
    return LM_OK;
}

int lm_convert_views(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    it->n_views = 0;
    it->views = lm_arena_array(&c->arena, most_views(c, it), sizeof *it->views);
    if (!it->views)
        return lm_fail_nomem(err);
    switch (it->transform) {
    case LM_PAIR_Q_ROWS:    return pair_rows(it, c->cfg.h.n_head, err);
    case LM_PAIR_K_ROWS:    return pair_rows(it, c->cfg.h.n_head_kv, err);
    case LM_PAIR_TURNED_Q_ROWS:
    case LM_PAIR_TURNED_K_ROWS:
    case LM_HALVE_Q_ROWS:
    case LM_HALVE_K_ROWS:   return turned_heads(c, it, err);
    case LM_SPLIT_QKV_ROWS: return split_qkv(it, &c->cfg.h, err);
    case LM_GROUPED_Q:
    case LM_GROUPED_K:
    case LM_GROUPED_V:
        return cut_qkv(it, &c->cfg.h, (int)(it->transform - LM_GROUPED_Q), true, err);
    case LM_PACKED_Q:
    case LM_PACKED_K:
    case LM_PACKED_V:
        return cut_qkv(it, &c->cfg.h, (int)(it->transform - LM_PACKED_Q), false, err);
    case LM_TRANSPOSE:
    case LM_STACKED_ROWS_TURNED: transpose(it); break;
    case LM_SWAP_SECOND:    swap_second(it); break;
    case LM_LATENT_KEYS:    latent(it, &c->cfg.h, true); break;
    case LM_LATENT_VALUES:  latent(it, &c->cfg.h, false); break;
    case LM_EVEN_ROWS:
    case LM_ODD_ROWS:
        other_rows(it, it->transform == LM_ODD_ROWS, turned(it));
        break;
    case LM_STACK_TURNED:
        if (turned(it))
            transpose(it);
        else
            as_is(it);
        break;
    case LM_REPEAT_FIRST_ROW: repeat_first(it, rows_there(it)); break;
    case LM_SKIP_PADDING_ROWS: skip_rows(it, lm_convert_padding_rows(c)); break;
    case LM_FIRST_HALVES:
    case LM_FIRST_HALVES_TURNED:
        half_rows(it, 0);
        break;
    case LM_SECOND_HALVES:
    case LM_SECOND_HALVES_TURNED:
        half_rows(it, 1);
        break;
    case LM_STACK_AS_FITS:
        if (lies_turned(it, it->t.ne[1]))
            transpose(it);
        else
            as_is(it);
        break;
    case LM_DELTA_QKV:      return delta_rows(it, &c->cfg.h, true, err);
    case LM_DELTA_GATE:     return delta_rows(it, &c->cfg.h, false, err);
    case LM_TILE_ROWS:
    case LM_TILE_ROWS_NEG_EXP:
        return tile(it, &c->cfg.h, 0, false, err);
    case LM_TILE_LAST_ROWS:
        return tile(it, &c->cfg.h, 2 * c->cfg.h.ssm_groups * c->cfg.h.ssm_state, false, err);
    case LM_TILE_COLUMNS:   return tile(it, &c->cfg.h, 0, true, err);
    case LM_PICK_ROWS:      pick_rows(it); break;
    case LM_TIMES:          return times(c, it, err);
    case LM_TIMES_ROWS:     return times_rows(c, it, err);
    default:                as_is(it); break;
    }
    return LM_OK;
}

uint32_t lm_convert_source_shape(const struct lm_convert *c, const struct lm_convert_item *it,
                                 uint64_t shape[LM_GGUF_MAX_DIMS])
{
    const struct lm_convert_tensor *t = &it->t;
    const uint32_t n = it->transform == LM_STACK && t->n_dims ? t->n_dims - 1 : t->n_dims;
    bool turn;
    for (uint32_t d = 0; d < n; d++)
        shape[d] = t->ne[n - 1 - d];
    switch (it->transform) {
    case LM_LATENT_KEYS:
    case LM_LATENT_VALUES:
        shape[0] = (uint64_t)c->cfg.h.n_head *
                   (c->cfg.h.head_k_full - c->cfg.h.n_rot + c->cfg.h.head_v_full);
        shape[1] = c->cfg.h.kv_rank;
        return 2;
    case LM_EVEN_ROWS:
    case LM_ODD_ROWS:
        if (n > 2 && turned(it)) {
            shape[1] = t->ne[0];
            shape[2] = 2 * t->ne[1];
        } else {
            shape[1] *= 2;
        }
        break;
    case LM_STACK_TURNED:
        shape[n - 1] = turned(it) ? t->ne[1] : t->ne[0];
        shape[n - 2] = turned(it) ? t->ne[0] : t->ne[1];
        break;
    case LM_REPEAT_FIRST_ROW:
        shape[0] = rows_there(it);
        break;
    case LM_PICK_ROWS:
        shape[0] = c->cfg.h.n_vocab;
        break;
    case LM_SKIP_PADDING_ROWS:
        shape[0] += lm_convert_padding_rows(c);
        break;
    case LM_TRANSPOSE:
        shape[n - 1] = t->ne[1];
        shape[n - 2] = t->ne[0];
        break;
    case LM_STACKED_ROWS:
    case LM_STACKED_ROWS_TURNED:
        shape[0] = t->ne[2] * (it->transform == LM_STACKED_ROWS ? t->ne[1] : t->ne[0]);
        shape[1] = it->transform == LM_STACKED_ROWS ? t->ne[0] : t->ne[1];
        return 2;
    case LM_FLAT:
        shape[0] = elements(t);
        return 1;
    case LM_GROUPED_Q:
    case LM_GROUPED_K:
    case LM_GROUPED_V:
    case LM_PACKED_Q:
    case LM_PACKED_K:
    case LM_PACKED_V:
    case LM_DELTA_QKV:
    case LM_DELTA_GATE:
        shape[0] = it->source_rows;
        break;
    case LM_FIRST_HALVES:
    case LM_SECOND_HALVES:
    case LM_FIRST_HALVES_TURNED:
    case LM_SECOND_HALVES_TURNED:
        turn = lies_turned(it, 2 * t->ne[1]);
        shape[n - 2] = turn ? t->ne[0] : 2 * t->ne[1];
        shape[n - 1] = turn ? 2 * t->ne[1] : t->ne[0];
        break;
    case LM_STACK_AS_FITS:
        if (lies_turned(it, t->ne[1])) {
            shape[n - 1] = t->ne[1];
            shape[n - 2] = t->ne[0];
        }
        break;
    default:
        break;
    }
    return n;
}

/*
 * e^x to the bit as the mathematics library below the reference computes it for weights, found by
 * comparing: x = n ln 2 / 128 + r with n whole, and e^x = 2^(n / 128) (1 + r + r^2 / 2), all in
 * float32 but for the power, which is two of them.  It is off by up to 0.56 units in the last
 * place, and so differs from the nearest float in one of a hundred results.
 */
static float reference_exp(float x)
{
    const float high = 0.0054168701171875f, low = -1.6577690757912933e-06f;
    if (!(fabsf(x) < 80))
        return (float)exp((double)x);
    const float n = rintf(x * 184.6649627685547f);
    const float r = x - n * high - n * low, p = r + r * r * 0.5f;
    const double power = exp2((double)n / 128);
    const float top = (float)power, rest = (float)(power - (double)top);
    return top + (rest + top * p);
}

static void neg_exp(float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = -reference_exp(v[i]);
}

/* As the reference: weights of binary16 are worked on in it. */
static void round_to(const struct lm_type *type, float *v, size_t n)
{
    for (size_t i = 0; type->id == LM_F16 && i < n; i++)
        v[i] = lm_f16_load(lm_f16_store(v[i]));
}

bool lm_convert_has_values(const struct lm_convert_item *it)
{
    switch (it->transform) {
    case LM_ADD_ONE:
    case LM_NEG_EXP:
    case LM_TILE_ROWS_NEG_EXP:
    case LM_TIMES:
    case LM_TIMES_ROWS:
        return true;
    default:
        return false;
    }
}

void lm_convert_values(const struct lm_convert_item *it, const struct lm_convert_view *view,
                       const struct lm_type *from, float *v, size_t n)
{
    const enum lm_transform t = it->transform;
    for (size_t i = 0; t == LM_ADD_ONE && i < n; i++)
        v[i] += 1;
    if (t == LM_NEG_EXP || t == LM_TILE_ROWS_NEG_EXP)
        neg_exp(v, n);
    round_to(from, v, n);
    for (size_t k = 0; k < 2 && view->times[k] != 0; k++) {
        for (size_t i = 0; i < n; i++)
            v[i] *= view->times[k];
        round_to(from, v, n);
    }
}

const struct lm_type *lm_convert_value_type(const struct lm_st_tensor *st)
{
    if (st->packed)
        return st->packed->type;
    return st->dtype->type_id < 0 ? NULL : lm_type_by_id((uint32_t)st->dtype->type_id);
}
