/* SPDX-License-Identifier: MIT */
/* Which tensors the file will have: the checkpoint's, matched with the architecture's rows. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "job/convert_parts.h"

const char *lm_convert_row_name(const struct lm_convert *c, const char *name)
{
    for (const char *const *p = c->cfg.arch->prefixes; p && *p; p++)
        if (!strncmp(name, *p, strlen(*p)))
            return name + strlen(*p);
    return name;
}

bool lm_convert_is_row_of(const struct lm_arch_tensor *t, const char *name, uint32_t *layer,
                          uint32_t *part)
{
    return (t->source && lm_arch_match(t->source, name, layer, part)) ||
           (t->source_2 && lm_arch_match(t->source_2, name, layer, part));
}

/* Experts that are one tensor, gates and their partners another: are these what the row, which has
 * them one by one, is made of, and how? */
static bool is_whole_of(const struct lm_arch_tensor *t, const char *name, uint32_t *layer,
                        enum lm_transform *how)
{
    const char *hole = t->transform == LM_STACK ? strstr(t->source, ".{e}.") : NULL;
    const bool down = t->role == LM_DOWN_EXPERTS;
    char whole[LM_ARCH_NAME];
    if (!hole)
        return false;
    snprintf(whole, sizeof whole, "%.*s.%s_proj", (int)(hole - t->source), t->source,
             down ? "down" : "gate_up");
    *how = down ? LM_STACK_AS_FITS
         : t->role == LM_GATE_EXPERTS ? LM_FIRST_HALVES : LM_SECOND_HALVES;
    if (lm_arch_match(whole, name, layer, NULL))
        return true;
    strncat(whole, ".weight", sizeof whole - strlen(whole) - 1);
    return lm_arch_match(whole, name, layer, NULL);
}

static bool ignored(const struct lm_convert *c, const char *name)
{
    uint32_t layer;
    for (const char *const *p = c->cfg.arch->ignored; *p; p++)
        if (lm_arch_match(*p, lm_convert_row_name(c, name), &layer, NULL))
            return true;
    return false;
}

/* Is it a copy of another tensor that transformers ties to it, and so does not read? */
static bool tied_copy(const struct lm_convert *c, const struct lm_arch_tensor *row)
{
    return c->cfg.tied && row->instead;
}

struct lm_convert_item *lm_convert_new_item(struct lm_convert *c,
                                            const struct lm_arch_tensor *row, uint32_t layer,
                                            const char *suffix, struct lm_err *err)
{
    char name[LM_ARCH_NAME + 16];
    if (!lm_grow(&c->items, &c->cap, c->n_items + 1, sizeof *c->items)) {
        lm_fail_nomem(err);
        return NULL;
    }
    struct lm_convert_item *it = &c->items[c->n_items];
    *it = (struct lm_convert_item){ .row = row, .layer = layer, .transform = row->transform };
    lm_arch_expand(row->name, layer, name);
    strncat(name, suffix, 15);
    it->t.name = lm_arena_copy(&c->arena, name, strlen(name));
    if (!it->t.name) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->n_items++;
    return it;
}

void lm_convert_set_source(struct lm_convert *c, struct lm_convert_item *it, size_t i,
                           const struct lm_convert_source *src)
{
    it->sources[i] = *src;
    if (i)
        return;
    it->t.file = c->shards[src->shard].name;
    it->t.source = src->name;
    it->t.dtype = src->st ? src->st->dtype->name : NULL;
}

/* The unfinished stack that a part belongs to, or a new one; NULL after an error. */
static struct lm_convert_item *stack_of(struct lm_convert *c, const struct lm_arch_tensor *row,
                                        uint32_t layer, uint64_t n_parts, struct lm_err *err)
{
    for (size_t i = c->n_stacks; i-- > 0;)
        if (c->stacks[i]->row == row && c->stacks[i]->layer == layer)
            return c->stacks[i];
    struct lm_convert_item *it = lm_arena_array(&c->arena, 1, sizeof *it);
    struct lm_convert_source *parts =
        n_parts > 1 << 20 ? NULL : lm_arena_array(&c->arena, (size_t)n_parts, sizeof *parts);
    if (!it || !parts || !lm_grow(&c->stacks, &c->cap_stacks, c->n_stacks + 1, sizeof *c->stacks)) {
        lm_fail_nomem(err);
        return NULL;
    }
    *it = (struct lm_convert_item){ .row = row, .layer = layer, .sources = parts };
    memset(parts, 0, (size_t)n_parts * sizeof *parts);
    return c->stacks[c->n_stacks++] = it;
}

/* A tensor that is part of one; the whole becomes an item where its last part stands. */
static int add_part(struct lm_convert *c, const struct lm_arch_tensor *row, uint32_t layer,
                    uint32_t part, const struct lm_convert_source *src, struct lm_err *err)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    const uint32_t n = lm_arch_shape(row, c->cfg.arch, &c->cfg.h, layer, ne);
    if (!n || part >= ne[n - 1])
        return lm_fail(err, LM_EDATA, "%s: %s: config.json says there are %llu of them",
                       c->shards[src->shard].name, src->name,
                       (unsigned long long)(n ? ne[n - 1] : 0));
    struct lm_convert_item *s = stack_of(c, row, layer, ne[n - 1], err);
    if (!s)
        return err->code;
    if (s->sources[part].name)
        return lm_fail(err, LM_EDATA, "%s: %s: is also in %s", c->shards[src->shard].name,
                       src->name, c->shards[s->sources[part].shard].name);
    s->sources[part] = *src;
    if (++s->n_sources < ne[n - 1])
        return LM_OK;
    struct lm_convert_item *it = lm_convert_new_item(c, row, layer, "", err);
    if (!it)
        return err->code;
    it->sources = s->sources;
    it->n_sources = s->n_sources;
    lm_convert_set_source(c, it, 0, &s->sources[0]);
    return LM_OK;
}

/* Has a small tensor, which must be at hand, nothing but zeros? */
static int only_zeros(struct lm_convert *c, const struct lm_convert_source *src, bool *yes,
                      struct lm_err *err)
{
    uint8_t bytes[4096];
    const uint64_t n = src->st ? src->st->bytes : 0;
    int r = LM_OK;
    if (!src->st || !lm_hf_random(c->src))
        return lm_hf_need_spool(c->src, "a bias that may be left out:", err);
    *yes = !src->st->packed;
    for (uint64_t at = 0, k; !r && *yes && at < n; at += k) {
        k = n - at < sizeof bytes ? n - at : sizeof bytes;
        r = lm_convert_read_plain(c, src->shard, src->st, at, bytes, (size_t)k, err);
        for (uint64_t i = 0; !r && i < k; i++)
            *yes = *yes && !bytes[i];
    }
    return r;
}

/* A checkpoint tensor becomes an item of a row that it is the source of. */
static int add_row(struct lm_convert *c, const struct lm_arch_tensor *row, uint32_t layer,
                   uint32_t part, enum lm_transform how, const struct lm_convert_source *src,
                   struct lm_err *err)
{
    if (row->flags & LM_TENSOR_PER_LAYER && layer >= c->cfg.h.n_layer + c->cfg.h.n_further)
        return lm_fail(err, LM_EDATA, "%s: %s: config.json says %u layers",
                       c->shards[src->shard].name, src->name, c->cfg.h.n_layer);
    /* The output's rows; of a copy of the embedding nothing is read. */
    if (row->transform == LM_PICK_ROWS &&
        c->cfg.tied != (strcmp(lm_convert_row_name(c, src->name), row->source_2) == 0))
        return LM_OK;
    if (tied_copy(c, row)) {
        lm_note(c->env, LM_INFO, "%s: left out: config.json says it is tied", src->name);
        return LM_OK;
    }
    if (row->flags & LM_TENSOR_UNLESS_ZERO) {
        bool zero = false;
        const int r = only_zeros(c, src, &zero, err);
        if (r || zero)
            return r;
    }
    if (how == LM_STACK)
        return add_part(c, row, layer, part, src, err);
    struct lm_convert_item *it = lm_convert_new_item(c, row, layer, "", err);
    if (!it)
        return err->code;
    it->sources = lm_arena_array(&c->arena, 1, sizeof *it->sources);
    if (!it->sources)
        return lm_fail_nomem(err);
    it->n_sources = 1;
    it->transform = how;
    lm_convert_set_source(c, it, 0, src);
    return LM_OK;
}

/* Every row that a checkpoint tensor is the source of under some name; *found: there is one. */
static int add_rows(struct lm_convert *c, const char *name, const struct lm_convert_source *src,
                    bool *found, struct lm_err *err)
{
    uint32_t layer = 0, part = 0;
    int r = LM_OK;
    name = lm_convert_row_name(c, name);
    for (const struct lm_arch_tensor *t = c->cfg.arch->tensors; !r && t->name; t++) {
        enum lm_transform how = t->transform;
        if (!lm_convert_is_row_of(t, name, &layer, &part) && !is_whole_of(t, name, &layer, &how))
            continue;
        if (layer >= c->cfg.h.n_layer + c->cfg.h.n_further ||
            lm_arch_allows(t, c->cfg.arch, &c->cfg.h, layer)) {
            *found = true;
            r = add_row(c, t, layer, part, how, src, err);
        }
    }
    return r;
}

/* Take in a checkpoint tensor, unless it is one that is left out.  Models that were saved without
 * their head, as embedding models are, lack what the others' names begin with. */
static int add_source(struct lm_convert *c, size_t shard, const char *name,
                      const struct lm_st_tensor *st, struct lm_err *err)
{
    const struct lm_convert_source src = { shard, name, st };
    char longer[LM_ARCH_NAME], own[LM_ARCH_NAME], draft[LM_ARCH_NAME];
    bool found = false;
    const char *text = lm_convert_text_name(c, name, own, sizeof own);
    if (!text) {
        c->n_others++;
        return LM_OK;
    }
    if (c->cfg.h.n_further)
        text = lm_convert_draft_name(c, text, draft, sizeof draft);
    if (lm_convert_is_further(c, lm_convert_row_name(c, text)))
        return LM_OK;
    int r = add_rows(c, text, &src, &found, err);
    if (r || found || ignored(c, text))
        return r;
    if ((size_t)snprintf(longer, sizeof longer, "model.%s", text) < sizeof longer) {
        r = add_rows(c, longer, &src, &found, err);
        if (r || found || ignored(c, longer))
            return r;
    }
    return lm_fail(err, LM_ENOSUP, "%s: %s: no tensor of a %s model", c->shards[shard].name, name,
                   c->cfg.arch->name);
}

/* The tensors of a file that has not come yet, from the index. */
static int expect_shard(struct lm_convert *c, size_t shard, struct lm_err *err)
{
    int r = LM_OK;
    if (!c->index)
        return lm_fail(err, LM_ENOSUP, "%s: has not come through the pipe, and no %s tells what "
                       "it holds: give --spool DIR", c->shards[shard].name,
                       "model.safetensors.index.json before it");
    for (size_t i = 0; !r && i < c->n_index; i++)
        if (!strcmp(c->index[i].file, c->shards[shard].name))
            r = add_source(c, shard, c->index[i].tensor, NULL, err);
    return r;
}

static bool is_made(const struct lm_convert *c, enum lm_transform t)
{
    if (t == LM_MAKE_ROPE_PART)
        return !strcmp(c->cfg.rope_type, "proportional");
    return t == LM_MAKE_ROPE_FREQS ? !strcmp(c->cfg.rope_type, "llama3")
         : t == LM_MAKE_ROPE_LONG || t == LM_MAKE_ROPE_SHORT
             ? !strcmp(c->cfg.rope_type, "longrope") : false;
}

/* Tensors that are made come first; a row's transform says which. */
static int add_made(struct lm_convert *c, struct lm_err *err)
{
    for (const struct lm_arch_tensor *row = c->cfg.arch->tensors; row->name; row++)
        if (is_made(c, row->transform) && !lm_convert_new_item(c, row, 0, "", err))
            return LM_ENOMEM;
    return LM_OK;
}

/* Weights that were several tensors stand after the others, where the reference has them. */
static bool comes_late(const struct lm_st_tensor *st)
{
    return st->packed && (st->packed->kind == LM_PACKED_GPTQ || st->packed->kind == LM_PACKED_AWQ ||
                          st->packed->kind == LM_PACKED_ROWS);
}

/* Files of one product each come before the model's. */
static int add_products(struct lm_convert *c, struct lm_err *err)
{
    static const char name[] = "linear.weight";
    int r = LM_OK;
    for (size_t i = 0; !r && i < c->n_shards; i++) {
        const struct lm_convert_shard *s = &c->shards[i];
        if (!s->row)
            continue;
        if (s->read && (s->st.n_tensors != 1 || strcmp(s->st.tensors->name, name)))
            return lm_fail(err, LM_ENOSUP, "%s: holds something else than %s", s->name, name);
        const struct lm_convert_source src = { i, name, s->read ? s->st.tensors : NULL };
        r = add_row(c, s->row, 0, 0, s->row->transform, &src, err);
    }
    return r;
}

static int add_all(struct lm_convert *c, struct lm_err *err)
{
    int r = add_made(c, err);
    r = r ? r : add_products(c, err);
    for (int late = 0; late < 2; late++)
        for (size_t i = 0; !r && i < c->n_shards; i++) {
            const struct lm_safetensors *st = &c->shards[i].st;
            if (c->shards[i].row)
                continue;
            if (!c->shards[i].read && !late)
                r = expect_shard(c, i, err);
            for (size_t k = 0; !r && c->shards[i].read && k < st->n_tensors; k++)
                if (comes_late(&st->tensors[k]) == late)
                    r = add_source(c, i, st->tensors[k].name, &st->tensors[k], err);
        }
    if (!r && c->n_others)
        lm_note(c->env, LM_WARN, "left out: %zu tensors of other parts than the language model",
                c->n_others);
    return r;
}

static int item_order(const void *a, const void *b)
{
    const struct lm_convert_item *x = *(struct lm_convert_item *const *)a;
    const struct lm_convert_item *y = *(struct lm_convert_item *const *)b;
    return strcmp(x->t.name, y->t.name);
}

static const struct lm_convert_item *find_item(struct lm_convert_item *const *sorted, size_t n,
                                               const char *name)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int k = strcmp(sorted[mid]->t.name, name);
        if (k == 0)
            return sorted[mid];
        if (k < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

struct items {
    struct lm_convert_item *const *sorted;
    size_t                         n;
};

static bool there(const void *arg, const char *name)
{
    const struct items *x = arg;
    return find_item(x->sorted, x->n, name);
}

/* Every tensor that the architecture needs, once. */
static int check_set(struct lm_convert *c, struct lm_convert_item **sorted, struct lm_err *err)
{
    char name[LM_ARCH_NAME], source[LM_ARCH_NAME], first[LM_ARCH_NAME] = "";
    const struct items all = { sorted, c->n_items };
    size_t missing = 0;
    for (size_t i = 1; i < c->n_items; i++)
        if (!strcmp(sorted[i - 1]->t.name, sorted[i]->t.name))
            return lm_fail(err, LM_EDATA, "%s: is in %s and in %s", sorted[i]->t.source,
                           sorted[i - 1]->t.file, sorted[i]->t.file);
    for (const struct lm_arch_tensor *row = c->cfg.arch->tensors; row->name; row++) {
        const uint32_t n = row->flags & LM_TENSOR_PER_LAYER ? c->cfg.h.n_layer + c->cfg.h.n_further
                                                            : 1;
        for (uint32_t i = 0; i < n; i++) {
            lm_arch_expand(row->name, i, name);
            if (!lm_arch_needs(row, c->cfg.arch, &c->cfg.h, i, there, &all) || there(&all, name))
                continue;
            lm_arch_expand(row->source, i, source);
            if (!missing++)
                strcpy(first, source);
        }
    }
    if (!missing)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "%s: in no weight file%s", first,
                   missing > 1 ? ", nor are others the model needs" : "");
}

/* A classifier's matrix says how many labels there are; of one that has not come yet
 * config.json does, which has no list when there are two. */
static int set_n_labels(struct lm_convert *c, struct lm_err *err)
{
    static const char end[] = "ForSequenceClassification";
    const struct lm_jval *list = lm_jval_get(c->cfg.json, "id2label");
    const bool wanted = lm_ends_with(c->cfg.class, end);
    bool found = false;
    for (size_t i = 0; i < c->n_items; i++) {
        const struct lm_convert_item *it = &c->items[i];
        if (it->row->ne[1] != LM_DIM_LABELS)
            continue;
        const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
        const uint64_t rows = it->row->transform == LM_PICK_ROWS ? 2
                            : st ? st->shape[0] : list ? list->len : 2;
        if (rows == 0 || rows > LM_MAX_LABELS || (st && st->n_dims != 2))
            return lm_fail(err, LM_EDATA, "%s: %s: not a matrix of labels", it->t.file,
                           it->t.source);
        c->cfg.h.n_labels = (uint32_t)rows;
        found = true;
    }
    return found || !wanted ? LM_OK
                            : lm_fail(err, LM_EDATA, "the classifier: in no weight file");
}

/* The embedding says how many pieces there are; config.json should agree. */
static int set_n_vocab(struct lm_convert *c, struct lm_err *err)
{
    int64_t said = -1;
    lm_jval_i64(lm_jval_get(c->cfg.json, "vocab_size"), &said);
    for (size_t i = 0; i < c->n_items; i++) {
        const struct lm_convert_item *it = &c->items[i];
        if (it->row->role != LM_TOKEN_EMBD)
            continue;
        const struct lm_st_tensor *st = it->n_sources ? it->sources[0].st : NULL;
        const uint64_t rows = st ? st->shape[0] : said > 0 ? (uint64_t)said : 0;
        if (rows == 0 || rows > INT32_MAX || (st && st->n_dims != 2))
            return lm_fail(err, LM_EDATA, "%s: %s: not a table of embeddings", it->t.file,
                           it->t.source);
        if (said >= 0 && (uint64_t)said != rows)
            lm_note(c->env, LM_WARN, "config.json: vocab_size is %lld, but the embedding has %llu "
                    "rows: taking those", (long long)said, (unsigned long long)rows);
        c->cfg.h.n_vocab = (uint32_t)rows;
    }
    return LM_OK;
}

/* "[a, b]" */
static void print_shape(char *dst, size_t size, const uint64_t *shape, uint32_t n)
{
    size_t at = (size_t)snprintf(dst, size, "[");
    for (uint32_t d = 0; d < n && at < size; d++)
        at += (size_t)snprintf(dst + at, size - at, "%s%llu", d ? ", " : "",
                               (unsigned long long)shape[d]);
    if (at < size)
        snprintf(dst + at, size - at, "]");
}

/* Shapes without the axes of length 1. */
static uint32_t squeeze(const uint64_t *shape, uint32_t n, uint64_t *out)
{
    uint32_t k = 0;
    for (uint32_t d = 0; d < n; d++)
        if (shape[d] != 1)
            out[k++] = shape[d];
    return k;
}

/* The shape of a source in the checkpoint (outermost first) against the row's. */
static int check_shape(const struct lm_convert *c, const struct lm_convert_item *it,
                       const struct lm_convert_source *s, struct lm_err *err)
{
    uint64_t want[LM_GGUF_MAX_DIMS], a[LM_GGUF_MAX_DIMS], b[LM_ST_MAX_DIMS];
    const uint32_t n = lm_convert_source_shape(c, it, want);
    const uint32_t n_a = squeeze(want, n, a), n_b = squeeze(s->st->shape, s->st->n_dims, b);
    const char *file = c->shards[s->shard].name;
    if (n_a != n_b || memcmp(a, b, n_a * sizeof *a)) {
        char have[100], need[100];
        print_shape(have, sizeof have, s->st->shape, s->st->n_dims);
        print_shape(need, sizeof need, want, n);
        return lm_fail(err, LM_EDATA, "%s: %s: shape %s, but config.json makes it %s", file,
                       s->name, have, need);
    }
    if (!lm_convert_value_type(s->st))
        return lm_fail(err, LM_ENOSUP, "%s: %s: weights of type %s cannot be converted", file,
                       s->name, s->st->dtype->name);
    return LM_OK;
}

int lm_convert_check_shapes(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    uint64_t n = 1;
    bool ok = it->t.n_dims;
    for (uint32_t d = 0; ok && d < it->t.n_dims; d++)
        ok = it->t.ne[d] && lm_mul_u64(n, it->t.ne[d], &n) && n <= INT64_MAX / 64;
    if (!ok)
        return lm_fail(err, LM_EDATA, "config.json: sizes that are 0 or beyond 64 bits: %s",
                       it->t.name);
    int r = it->n_sources ? lm_convert_views(c, it, err) : LM_OK;
    for (size_t k = 0; !r && k < it->n_sources; k++)
        r = it->sources[k].st ? check_shape(c, it, &it->sources[k], err) : LM_OK;
    return r;
}

static int set_shapes(struct lm_convert *c, struct lm_err *err)
{
    int r = LM_OK;
    for (size_t i = 0; !r && i < c->n_items; i++) {
        struct lm_convert_item *it = &c->items[i];
        it->t.n_dims = lm_arch_shape(it->row, c->cfg.arch, &c->cfg.h, it->layer, it->t.ne);
        r = lm_convert_check_shapes(c, it, err);
    }
    return r;
}

/* Is the item made of nothing, or of blocks that stay what they are, or their scale? */
static int rank_of(const struct lm_convert_item *it)
{
    if (!it->n_sources)
        return lm_ends_with(it->t.name, ".scale") ? 1 : 0;
    return lm_convert_kept_type(it) ? 1 : 2;
}

/* Such weights come first, after those that are made. */
static int put_kept_first(struct lm_convert *c, struct lm_err *err)
{
    const int r = lm_convert_add_scales(c, err);
    if (r)
        return r;
    struct lm_convert_item *all = lm_malloc_array(c->n_items + 1, sizeof *all);
    size_t n = 0;
    if (!all)
        return lm_fail_nomem(err);
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < c->n_items; i++)
            if (rank_of(&c->items[i]) == round)
                all[n++] = c->items[i];
    memcpy(c->items, all, n * sizeof *all);
    free(all);
    return LM_OK;
}

/*
 * Llama 3's factors, one per rotary pair, in float32 as the reference computes them:
 *   freq = theta^(-2i/d), w = 2 pi / freq
 *   1 when w < original/high_freq_factor, factor when w > original/low_freq_factor, else
 *   1 / ((1 - s) / factor + s), s = (original/w - low) / (high - low)
 * A number divided by one of these is multiplied by its reciprocal, as there.  The power is
 * rounded from double, so that every C library gives the same.
 */
static int make_rope_freqs(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    double factor = 0, low = 0, high = 0, orig = 0;
    const struct lm_jval *rope = c->cfg.rope;
    if (!lm_jval_f64(lm_jval_get(rope, "factor"), &factor) ||
        !lm_jval_f64(lm_jval_get(rope, "low_freq_factor"), &low) ||
        !lm_jval_f64(lm_jval_get(rope, "high_freq_factor"), &high) ||
        !lm_jval_f64(lm_jval_get(rope, "original_max_position_embeddings"), &orig) ||
        !(factor > 0 && low > 0 && high > low && orig > 0))
        return lm_fail(err, LM_EDATA, "config.json: rope_scaling llama3 needs factor, "
                       "low_freq_factor, high_freq_factor, original_max_position_embeddings");
    it->made = lm_arena_array(&c->arena, (size_t)it->t.ne[0], sizeof *it->made);
    if (!it->made)
        return lm_fail_nomem(err);
    const float two_pi = (float)6.283185307179586;
    for (uint64_t i = 0; i < it->t.ne[0]; i++) {
        const float e = (float)(2 * i) / (float)c->cfg.h.n_rot;
        const float freq = 1.0f / (float)pow((double)c->cfg.h.rope_base, (double)e);
        const float w = 1.0f / freq * two_pi;
        const float s = (1.0f / w * (float)orig - (float)low) / (float)(high - low);
        if (w < (float)(orig / high))
            it->made[i] = 1;
        else if (w > (float)(orig / low))
            it->made[i] = (float)factor;
        else
            it->made[i] = 1.0f / ((1.0f - s) / (float)factor + s);
    }
    return LM_OK;
}

/* The factors that config.json lists. */
static int list_rope_factors(struct lm_convert *c, struct lm_convert_item *it,
                             const char *key, struct lm_err *err)
{
    const struct lm_jval *list = lm_jval_get(c->cfg.rope, key), *f;
    uint64_t n = 0;
    it->made = lm_arena_array(&c->arena, (size_t)it->t.ne[0], sizeof *it->made);
    if (!it->made)
        return lm_fail_nomem(err);
    for (f = list ? list->first : NULL; f && n < it->t.ne[0]; f = f->next) {
        double v = 0;
        if (!lm_jval_f64(f, &v) || !(v > 0 && v < 1e9))
            break;
        it->made[n++] = (float)v;
    }
    if (f || n != it->t.ne[0])
        return lm_fail(err, LM_EDATA, "config.json: rope_scaling: %s: must be %llu numbers above 0",
                       key, (unsigned long long)it->t.ne[0]);
    return LM_OK;
}

/* Pairs that do not turn are slowed until nothing is left of it. */
static int make_rope_part(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    double part = 1;
    lm_jval_f64(lm_jval_get(c->cfg.rope, "partial_rotary_factor"), &part);
    if (!(part > 0 && part <= 1))
        return lm_fail(err, LM_EDATA, "config.json: partial_rotary_factor: %g: must be above 0 and "
                       "at most 1", part);
    it->made = lm_arena_array(&c->arena, (size_t)it->t.ne[0], sizeof *it->made);
    if (!it->made)
        return lm_fail_nomem(err);
    for (uint64_t i = 0; i < it->t.ne[0]; i++)
        it->made[i] = i < (uint64_t)(part * c->cfg.h.n_rot / 2) ? 1 : 1e30f;
    return LM_OK;
}

int lm_convert_make(struct lm_convert *c, struct lm_convert_item *it, struct lm_err *err)
{
    switch (it->row->transform) {
    case LM_MAKE_ROPE_FREQS: return make_rope_freqs(c, it, err);
    case LM_MAKE_ROPE_PART:  return make_rope_part(c, it, err);
    case LM_MAKE_ROPE_LONG:  return list_rope_factors(c, it, "long_factor", err);
    case LM_MAKE_ROPE_SHORT: return list_rope_factors(c, it, "short_factor", err);
    default:                 return LM_OK;
    }
}

int lm_convert_items(struct lm_convert *c, const struct lm_convert_options *o, struct lm_err *err)
{
    int r = lm_convert_unpack(c, err);
    if (!r && !o->no_draft_head)
        lm_convert_count_further(c);
    if (!r)
        r = add_all(c, err);
    struct lm_convert_item **sorted = r ? NULL : malloc((c->n_items + 1) * sizeof *sorted);
    if (r)
        return r;
    if (!sorted)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < c->n_items; i++)
        sorted[i] = &c->items[i];
    qsort(sorted, c->n_items, sizeof *sorted, item_order);
    r = check_set(c, sorted, err);
    free(sorted);
    if (!r)
        r = put_kept_first(c, err);
    if (!r)
        r = set_n_vocab(c, err);
    if (!r)
        r = set_n_labels(c, err);
    if (!r)
        r = set_shapes(c, err);
    if (!r)
        r = lm_convert_types(c, o, err);
    if (!r)
        r = lm_convert_check_stream(c, err);
    if (!r)
        lm_convert_tell_passes(c);
    for (size_t i = 0; !r && i < c->n_items; i++)
        r = lm_convert_make(c, &c->items[i], err);
    return r;
}

static int by_name(const void *key, const void *st)
{
    return strcmp(key, ((const struct lm_st_tensor *)st)->name);
}

int lm_convert_link(struct lm_convert *c, size_t shard, struct lm_err *err)
{
    const struct lm_safetensors *st = &c->shards[shard].st;
    int r = lm_convert_check_index(c, shard, err);
    for (size_t i = 0; !r && i < c->n_items; i++)
        for (size_t k = 0; !r && k < c->items[i].n_sources; k++) {
            struct lm_convert_source *s = &c->items[i].sources[k];
            if (s->shard != shard)
                continue;
            s->st = bsearch(s->name, st->tensors, st->n_tensors, sizeof *st->tensors, by_name);
            if (!s->st)
                return lm_fail(err, LM_EDATA, "%s: %s: the index says it is here, but it is not",
                               c->shards[shard].name, s->name);
            lm_convert_set_source(c, &c->items[i], k, s);
            r = lm_convert_views(c, &c->items[i], err);         /* of what shape it is */
            r = r ? r : check_shape(c, &c->items[i], s, err);
        }
    return r ? r : lm_convert_check_stream(c, err);
}
