/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints with quantized weights: which tensors belong together, and what plain tensor they
 * stand for.  The names are those that the libraries which quantize give them.
 */

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "job/convert_parts.h"

/* What the methods of quantization_config may be; NULL: told by the tensors' own types. */
static const struct {
    const char *method, *format;
} known[] = {
    { "fp8", NULL }, { "fbgemm_fp8", NULL }, { "mxfp4", NULL }, { "gptq", NULL }, { "awq", NULL },
    { "modelopt", NULL }, { "bitsandbytes", NULL }, { "compressed-tensors", "float-quantized" },
    { "compressed-tensors", "nvfp4-pack-quantized" }, { "compressed-tensors", "mixed-precision" },
    { "compressed-tensors", "naive-quantized" }, { "compressed-tensors", "int-quantized" },
    { "compressed-tensors", "pack-quantized" },
};

/* Are all groups of weights floats?  Their tensors tell what they are. */
static bool all_floats(const struct lm_jval *groups)
{
    for (const struct lm_jval *g = groups->first; g; g = g->next) {
        const char *type = lm_jval_str(lm_jval_get(lm_jval_get(g, "weights"), "type"));
        if (!type || strcmp(type, "float"))
            return false;
    }
    return true;
}

/* A block's rows and columns, and bits of a weight, where the configuration has them. */
static int check_numbers(const struct lm_jval *quant, const char *method, struct lm_err *err)
{
    const struct lm_jval *block = lm_jval_get(quant, "weight_block_size");
    const struct lm_jval *bits = lm_jval_get(quant, "bits");
    const struct lm_jval *v = block && block->kind == LM_JSON_ARRAY ? block->first : NULL;
    int64_t n = 0;
    if (block && block->kind != LM_JSON_NULL) {
        for (; v && lm_jval_i64(v, &n) && n > 0; v = v->next)
            continue;
        if (block->kind != LM_JSON_ARRAY || block->len != 2 || v)
            return lm_fail(err, LM_EDATA, "weight_block_size: wants two numbers, each at least 1");
    }
    const bool gptq = !strcmp(method, "gptq"), awq = !strcmp(method, "awq");
    if (!bits || bits->kind == LM_JSON_NULL || !(gptq || awq))
        return LM_OK;
    if (!lm_jval_i64(bits, &n) || n < 1)
        return lm_fail(err, LM_EDATA, "bits: wants a number of bits");
    if (n != 4 && (awq || (n != 2 && n != 8)))
        return lm_fail(err, LM_ENOSUP, "%s weights of %lld bits cannot be decoded", method,
                       (long long)n);
    return LM_OK;
}

int lm_convert_check_quant(const struct lm_jval *quant, struct lm_err *err)
{
    const char *method = lm_jval_str(lm_jval_get(quant, "quant_method"));
    const char *format = lm_jval_str(lm_jval_get(quant, "format"));
    const char *version = lm_jval_str(lm_jval_get(quant, "version"));
    const struct lm_jval *groups = lm_jval_get(quant, "config_groups");
    for (size_t i = 0; method && i < sizeof known / sizeof *known; i++)
        if (!strcmp(method, known[i].method) &&
            (!known[i].format || (format && !strcmp(format, known[i].format)))) {
            if (groups && groups->len > 1 && !all_floats(groups))
                return lm_fail(err, LM_ENOSUP, "weights quantized in %zu ways cannot be "
                               "converted", groups->len);
            bool whole = false;
            lm_jval_bool(lm_jval_get(quant, "load_in_8bit"), &whole);
            if (whole)
                return lm_fail(err, LM_ENOSUP, "%s of 8 bits cannot be converted", method);
            if (!strcmp(method, "awq") && version && strcmp(version, "gemm"))
                return lm_fail(err, LM_ENOSUP, "awq of version %.40s cannot be converted",
                               version);
            return check_numbers(quant, method, err);
        }
    return lm_fail(err, LM_ENOSUP, "weights quantized with %.60s%s%.60s cannot be converted",
                   method ? method : "an unnamed method", method && format ? " as " : "",
                   method && format ? format : "");
}

/* Tensors that belong together: the name of the one with the data ends so, those of the others
 * are the same with another end. */
static const struct family {
    const char         *data, *becomes; /* NULL: keeps its name                    */
    const char         *scales[3], *zeros, *groups;
    enum lm_packed_kind kind;
    const char         *type;           /* of the data; NULL: any                  */
} families[] = {
    { "_blocks", NULL, { "_scales" }, NULL, NULL, LM_PACKED_MXFP4, NULL },
    { ".qweight", ".weight", { ".scales" }, ".qzeros", ".g_idx", LM_PACKED_GPTQ, NULL },
    { ".weight_packed", ".weight", { ".weight_scale" }, NULL, NULL, LM_PACKED_NVFP4, "U8" },
    { ".weight_packed", ".weight", { ".weight_scale" }, NULL, NULL, LM_PACKED_ROWS, NULL },
    { ".weight", NULL, { ".weight.absmax" }, ".weight.quant_map", NULL, LM_PACKED_TABLE, "U8" },
    { ".weight", NULL, { ".weight_scale" }, NULL, NULL, LM_PACKED_NVFP4, "U8" },
    { ".weight", NULL, { ".weight_scale_inv", ".weight_scale", ".qscale_weight" }, NULL, NULL,
      LM_PACKED_SCALED, NULL },
};

/* What only running quantized weights needs. */
static const char *const left_out[] = {
    ".input_scale", ".weight_shape", ".qscale_act", ".k_scale", ".v_scale", ".q_scale",
    ".input_global_scale", ".output_scale", ".activation_scale", ".act_scale", ".weight_g_idx",
    ".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4",
};

/* Every tensor of every file, by name. */
struct where {
    const struct lm_st_tensor *st;
    size_t                     shard;
    bool                       used;        /* part of another */
};

struct all {
    struct lm_convert *c;
    struct where      *list;
    size_t             n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct where *)a)->st->name, ((const struct where *)b)->st->name);
}

/* The tensor called as `name`, but with `to` in place of its end `from`; marked as used. */
static struct where *sibling(const struct all *a, const char *name, const char *from,
                             const char *to)
{
    const size_t stem = strlen(name) - strlen(from);
    char *other = to ? malloc(stem + strlen(to) + 1) : NULL;
    if (!other)
        return NULL;
    memcpy(other, name, stem);
    strcpy(other + stem, to);
    const struct lm_st_tensor st = { .name = other };
    const struct where key = { .st = &st };
    struct where *w = bsearch(&key, a->list, a->n, sizeof *a->list, by_name);
    free(other);
    return w;
}

static void set_part(const struct all *a, struct lm_packed *p, enum lm_packed_part k,
                     const char *name, const char *from, const char *to)
{
    struct where *w = p->part[k].st ? NULL : sibling(a, name, from, to);
    if (!w)
        return;
    w->used = k != LM_PART_DATA;
    p->part[k].st = w->st;
    p->part[k].file = w->shard;
}

/* Everything that belongs to the tensor `name`. */
static void set_parts(const struct all *a, struct lm_packed *p, const struct family *f,
                      const char *name)
{
    for (size_t i = 0; i < sizeof f->scales / sizeof *f->scales && f->scales[i]; i++)
        set_part(a, p, LM_PART_SCALES, name, f->data, f->scales[i]);
    set_part(a, p, LM_PART_ZEROS, name, f->data, f->zeros);
    set_part(a, p, LM_PART_GROUPS, name, f->data, f->groups);
    if (f->kind == LM_PACKED_NVFP4) {
        set_part(a, p, LM_PART_WHOLE, name, f->data, ".weight_scale_2");
        p->divides = !p->part[LM_PART_WHOLE].st;
        set_part(a, p, LM_PART_WHOLE, name, f->data, ".weight_global_scale");
    }
    if (f->kind != LM_PACKED_TABLE)
        return;
    set_part(a, p, LM_PART_NESTED, name, f->data, ".weight.nested_absmax");
    set_part(a, p, LM_PART_NESTED_TABLE, name, f->data, ".weight.nested_quant_map");
}

static const struct family *family_of(const struct lm_convert *c, const struct lm_st_tensor *st)
{
    const char *method = lm_jval_str(lm_jval_get(c->cfg.quant, "quant_method"));
    const bool table = method && !strcmp(method, "bitsandbytes");
    const char *type = st->dtype->name;
    const bool bytes = !strcmp(type, "F8_E4M3") || !strcmp(type, "F8_E5M2") || !strcmp(type, "I8");
    for (size_t i = 0; !st->packed && i < sizeof families / sizeof *families; i++)
        if (lm_ends_with(st->name, families[i].data) &&
            (families[i].kind != LM_PACKED_SCALED || bytes) &&
            (!families[i].type || !strcmp(type, families[i].type)) &&
            (families[i].kind != LM_PACKED_TABLE || table))
            return &families[i];
    return NULL;
}

/* A number of quantization_config, or of its only group's weights. */
static int64_t number(const struct lm_convert *c, const char *key, int64_t other)
{
    const struct lm_jval *q = c->cfg.quant, *groups = lm_jval_get(q, "config_groups");
    const struct lm_jval *w = lm_jval_get(groups ? groups->first : NULL, "weights");
    int64_t v = other;
    if (!lm_jval_i64(lm_jval_get(q, key), &v))
        lm_jval_i64(lm_jval_get(w, key), &v);
    return v;
}

/* Item i of the array of the block's rows and columns. */
static uint64_t block_size(const struct lm_convert *c, uint32_t i)
{
    const struct lm_jval *q = c->cfg.quant, *groups = lm_jval_get(q, "config_groups");
    const struct lm_jval *w = lm_jval_get(groups ? groups->first : NULL, "weights");
    const struct lm_jval *list = lm_jval_get(q, "weight_block_size");
    list = list && list->kind == LM_JSON_ARRAY ? list : lm_jval_get(w, "block_structure");
    const struct lm_jval *v = list && list->kind == LM_JSON_ARRAY ? list->first : NULL;
    int64_t n = 0;
    while (v && i--)
        v = v->next;
    return lm_jval_i64(v, &n) && n > 0 ? (uint64_t)n : 0;
}

/* How many of `n` share a scale when there are `scales` of them: as configured, else evenly. */
static uint64_t share(uint64_t n, uint64_t scales, uint64_t configured)
{
    if (scales <= 1)
        return n;
    if (configured && n / configured + (n % configured != 0) == scales)
        return configured;
    return n % scales ? 0 : n / scales;
}

static uint64_t product(const struct lm_st_tensor *st, uint32_t from, uint32_t to)
{
    uint64_t n = 1;
    for (uint32_t d = from; d < to; d++)
        n *= st->shape[d];
    return n;
}

/* The shape that the weights have once they are plain. */
static void set_shape(const struct lm_convert *c, const struct lm_packed *p,
                      struct lm_st_tensor *t)
{
    const uint64_t per = p->bits ? 32 / p->bits : 1;
    switch (p->kind) {
    case LM_PACKED_MXFP4:               /* [.., cols / 32, 16] */
        t->n_dims = t->n_dims < 2 ? 0 : t->n_dims - 1;
        if (t->n_dims)
            t->shape[t->n_dims - 1] *= 32;
        break;
    case LM_PACKED_NVFP4:               /* [.., cols / 2] */
        if (t->n_dims)
            t->shape[t->n_dims - 1] *= 2;
        break;
    case LM_PACKED_GPTQ:                /* [cols / per, rows] */
        t->shape[1] = t->shape[0] * per;
        t->shape[0] = p->part[LM_PART_DATA].st->shape[1];
        break;
    case LM_PACKED_AWQ:                 /* [cols, rows / per] */
        t->shape[0] = p->part[LM_PART_DATA].st->shape[1] * per;
        t->shape[1] = p->part[LM_PART_DATA].st->shape[0];
        break;
    case LM_PACKED_ROWS:                /* [rows, cols / per] */
        t->shape[1] *= per;
        break;
    default:
        break;
    }
    (void)c;
}

/* Scales of blocks are as many as the configured size says, within each matrix of a stack. */
static int check_blocks(const struct lm_convert *c, const struct lm_st_tensor *t,
                        const struct lm_st_tensor *s, struct lm_err *err)
{
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t d = t->n_dims - 2 + i;
        const uint64_t size = block_size(c, i);
        if (t->n_dims >= 2 && s->n_dims == t->n_dims && size &&
            t->shape[d] / size + (t->shape[d] % size != 0) != s->shape[d])
            return lm_fail(err, LM_EDATA, "%s: %llu scales along %llu weights, where "
                           "quantization_config says one for %llu", s->name,
                           (unsigned long long)s->shape[d], (unsigned long long)t->shape[d],
                           (unsigned long long)size);
    }
    return LM_OK;
}

/* The numbers of the weights. */
static int set_numbers(const struct lm_convert *c, struct lm_packed *p, struct lm_st_tensor *t,
                       struct lm_err *err)
{
    const struct lm_st_tensor *s = p->part[LM_PART_SCALES].st;
    const bool words = p->kind == LM_PACKED_GPTQ || p->kind == LM_PACKED_ROWS;
    const char *format = lm_jval_str(lm_jval_get(c->cfg.quant, "checkpoint_format"));
    const int64_t bits = words ? number(c, "bits", number(c, "num_bits", 4))
                       : p->kind == LM_PACKED_AWQ ? 4 : 0;
    const int64_t group = number(c, "group_size", 128);
    bool symmetric = true;
    if (bits && (bits != 2 && bits != 4 && bits != 8))
        return lm_fail(err, LM_ENOSUP, "weights of %lld bits cannot be decoded", (long long)bits);
    p->bits = (uint32_t)bits;
    if (p->kind != LM_PACKED_TABLE)
        p->group = group > 0 ? (uint64_t)group : 0;
    p->zeros_less_1 = p->kind == LM_PACKED_GPTQ && !(format && !strcmp(format, "gptq_v2"));
    if (bits && t->n_dims != 2)
        return lm_fail(err, LM_ENOSUP, "quantized weights with %u axes cannot be decoded",
                       t->n_dims);
    const struct lm_jval *groups = lm_jval_get(c->cfg.quant, "config_groups");
    const struct lm_jval *w = lm_jval_get(groups ? groups->first : NULL, "weights");
    lm_jval_bool(lm_jval_get(w, "symmetric"), &symmetric);
    if (p->kind == LM_PACKED_ROWS && !symmetric)
        return lm_fail(err, LM_ENOSUP, "asymmetric compressed-tensors weights cannot be decoded");
    set_shape(c, p, t);
    p->rows = product(t, 0, t->n_dims ? t->n_dims - 1 : 0);
    p->cols = t->n_dims ? t->shape[t->n_dims - 1] : 1;
    if (p->kind == LM_PACKED_ROWS && s && product(s, 0, s->n_dims) == p->rows)
        p->group = 0;
    if (p->kind == LM_PACKED_SCALED && s) {
        const uint64_t n = product(s, 0, s->n_dims);
        const bool one = n == 1 || n == p->rows || s->n_dims < 2;
        const uint64_t across = one ? 1 : s->shape[s->n_dims - 1];
        const uint64_t down = n / (across ? across : 1);
        p->block_rows = share(p->rows, down, block_size(c, 0));
        p->block_cols = share(p->cols, across, block_size(c, 1) ? block_size(c, 1) : p->group);
        if (t->n_dims > 2 && p->block_rows && n > 1 && t->shape[t->n_dims - 2] % p->block_rows)
            p->block_rows = 0;          /* blocks that end within each matrix */
        const int r = one ? LM_OK : check_blocks(c, t, s, err);
        if (r)
            return r;
    }
    return lm_packed_check(p, err);
}

/* bitsandbytes keeps the shape, and how many values share a scale, as JSON in bytes of their
 * own. */
static int read_state(const struct all *a, const struct where *w, const struct family *f,
                      struct lm_packed *p, struct lm_st_tensor *t, struct lm_err *err)
{
    static const char *const names[] = { ".weight.quant_state.bitsandbytes__nf4",
                                         ".weight.quant_state.bitsandbytes__fp4" };
    enum { MOST = 4096 };
    char text[MOST];
    const struct where *s = NULL;
    for (size_t i = 0; i < 2 && !s; i++)
        s = sibling(a, w->st->name, f->data, names[i]);
    if (!s || s->st->bytes > MOST)
        return lm_fail(err, LM_EDATA, "no quant_state");
    int r = lm_convert_read_plain(a->c, s->shard, s->st, 0, text, (size_t)s->st->bytes, err);
    const struct lm_jval *state =
        r ? NULL : lm_json_tree(&a->c->arena, text, (size_t)s->st->bytes, err);
    if (!state)
        return r ? r : lm_err_at(err, LM_EDATA, "quant_state");
    const struct lm_jval *shape = lm_jval_get(state, "shape");
    int64_t n = 0, group = 0, nested = 0;
    double offset = 0;
    t->n_dims = 0;
    for (const struct lm_jval *v = shape && shape->kind == LM_JSON_ARRAY ? shape->first : NULL; v;
         v = v->next) {
        if (t->n_dims == 2 || !lm_jval_i64(v, &n) || n <= 0)
            return lm_fail(err, LM_EDATA, "quant_state: shape is not that of a matrix");
        t->shape[t->n_dims++] = (uint64_t)n;
    }
    lm_jval_i64(lm_jval_get(state, "blocksize"), &group);
    lm_jval_i64(lm_jval_get(state, "nested_blocksize"), &nested);
    lm_jval_f64(lm_jval_get(state, "nested_offset"), &offset);
    p->group = group > 0 ? (uint64_t)group : 0;
    p->nested_group = nested > 0 ? (uint64_t)nested : 0;
    p->nested_offset = (float)offset;
    return t->n_dims == 2 ? LM_OK : lm_fail(err, LM_EDATA, "quant_state: no shape");
}

/* In place of the tensor with the data: the plain one. */
static int pack(const struct all *a, struct where *w, const struct family *f,
                struct lm_st_tensor *t, struct lm_err *err)
{
    struct lm_convert *c = a->c;
    const char *method = lm_jval_str(lm_jval_get(c->cfg.quant, "quant_method"));
    struct lm_packed *p = lm_arena_array(&c->arena, 1, sizeof *p);
    if (!p)
        return lm_fail_nomem(err);
    *p = (struct lm_packed){ .kind = f->kind };
    if (f->kind == LM_PACKED_GPTQ && method && !strcmp(method, "awq"))
        p->kind = LM_PACKED_AWQ;
    const uint64_t bytes = w->st->n_dims ? w->st->shape[w->st->n_dims - 1] : 0;
    p->type = lm_type_by_id(f->kind == LM_PACKED_MXFP4                      ? LM_MXFP4
                            : f->kind == LM_PACKED_NVFP4 && bytes % 32 == 0 ? LM_NVFP4 : LM_F32);
    p->part[LM_PART_DATA].st = w->st;
    p->part[LM_PART_DATA].file = w->shard;
    set_parts(a, p, f, w->st->name);
    *t = *w->st;
    t->packed = p;
    if (f->becomes) {
        const size_t stem = strlen(w->st->name) - strlen(f->data);
        char *name = lm_arena_array(&c->arena, stem + strlen(f->becomes) + 1, 1);
        if (!name)
            return lm_fail_nomem(err);
        memcpy(name, w->st->name, stem);
        strcpy(name + stem, f->becomes);
        t->name = name;
    }
    int r = f->kind == LM_PACKED_TABLE ? read_state(a, w, f, p, t, err) : LM_OK;
    if (!r)
        r = set_numbers(c, p, t, err);
    return r ? lm_err_at(err, r, "%s: %s", c->shards[w->shard].name, w->st->name) : LM_OK;
}

static bool is_left_out(const struct lm_convert *c, const char *name)
{
    for (size_t i = 0; (c->cfg.quant || c->cfg.own) && i < sizeof left_out / sizeof *left_out; i++)
        if (lm_ends_with(name, left_out[i]))
            return true;
    return false;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct lm_st_tensor *)a)->name,
                  ((const struct lm_st_tensor *)b)->name);
}

/* The list of a file's tensors anew, with plain ones. */
static int rewrite(const struct all *a, size_t shard, struct lm_err *err)
{
    struct lm_safetensors *st = &a->c->shards[shard].st;
    struct lm_st_tensor *list = lm_arena_array(&a->c->arena, st->n_tensors + 1, sizeof *list);
    size_t n = 0;
    if (!list)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < a->n; i++) {
        struct where *w = &a->list[i];
        const struct family *f = family_of(a->c, w->st);
        if (w->shard != shard || w->used || is_left_out(a->c, w->st->name))
            continue;
        list[n] = *w->st;
        const int r = f ? pack(a, w, f, &list[n], err) : LM_OK;
        if (r)
            return r;
        n++;
    }
    if (n)
        qsort(list, n, sizeof *list, by_tensor);
    st->tensors = list;
    st->n_tensors = n;
    return LM_OK;
}

/* Scales and the like are marked before any list is made anew. */
static void mark_parts(const struct all *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct family *f = family_of(a->c, a->list[i].st);
        const char *name = a->list[i].st->name;
        struct lm_packed p = {0};
        if (f)
            set_parts(a, &p, f, name);
    }
}

static int unpack_all(const struct all *a, struct lm_err *err)
{
    bool any = a->c->cfg.quant != NULL;
    int r = LM_OK;
    for (size_t i = 0; i < a->n; i++)
        any = any || family_of(a->c, a->list[i].st);
    if (!any)
        return LM_OK;
    if (!lm_hf_random(a->c->src))
        return lm_hf_need_spool(a->c->src, "quantized weights, which lie in several places of "
                                "the archive:", err);
    mark_parts(a);
    for (size_t i = 0; !r && i < a->c->n_shards; i++)
        if (a->c->shards[i].read)
            r = rewrite(a, i, err);
    return r;
}

int lm_convert_unpack(struct lm_convert *c, struct lm_err *err)
{
    struct all a = { .c = c };
    size_t cap = 0;
    int r = LM_OK;
    for (size_t i = 0; !r && i < c->n_shards; i++) {
        if (!c->shards[i].read)
            continue;
        r = lm_convert_check_index(c, i, err);
        for (size_t k = 0; !r && k < c->shards[i].st.n_tensors; k++) {
            if (lm_grow(&a.list, &cap, a.n + 1, sizeof *a.list))
                a.list[a.n++] = (struct where){ .st = &c->shards[i].st.tensors[k], .shard = i };
            else
                r = lm_fail_nomem(err);
        }
    }
    if (a.n)
        qsort(a.list, a.n, sizeof *a.list, by_name);
    if (!r)
        r = unpack_all(&a, err);
    free(a.list);
    return r;
}

/* The numbers of the matrices of an item, in *out, all of one kind; *n of them, 0 if they are all
 * 1. */
static int read_scales(struct lm_convert *c, const struct lm_convert_item *of, float **out,
                       size_t *n, struct lm_err *err)
{
    size_t at = 0;
    bool any = false;
    int r = LM_OK;
    *n = 0;
    for (size_t i = 0; i < of->n_sources; i++) {
        const struct lm_packed *p = of->sources[i].st->packed;
        if (!p || p->kind != LM_PACKED_NVFP4 || p->type != of->sources[0].st->packed->type)
            return lm_fail(err, LM_ENOSUP, "%s: its matrices are of different types", of->t.name);
        *n += (size_t)lm_packed_whole_len(p);
    }
    if (*n > 1 && *n != c->cfg.h.n_expert)
        return lm_fail(err, LM_ENOSUP, "%s: %zu scales for its matrices", of->t.name, *n);
    *out = lm_arena_array(&c->arena, *n, sizeof **out);
    if (!*out)
        return lm_fail_nomem(err);
    c->unpack.read = lm_convert_read_plain;
    c->unpack.user = c;
    for (size_t i = 0; !r && i < of->n_sources; i++) {
        const struct lm_packed *p = of->sources[i].st->packed;
        r = lm_packed_whole(&c->unpack, p, *out + at, err);
        at += (size_t)lm_packed_whole_len(p);
    }
    for (size_t i = 0; !r && i < *n; i++)
        any = any || (*out)[i] != 1;
    *n = any ? *n : 0;
    return r;
}

/* What blocks of a type have no place for, a number for each matrix: NAME.scale, behind them. */
int lm_convert_add_scales(struct lm_convert *c, struct lm_err *err)
{
    static const struct lm_arch_tensor one = { .name = "scale", .ne = { LM_DIM_1 } };
    static const struct lm_arch_tensor each = { .name = "scale", .ne = { LM_DIM_EXPERTS } };
    for (size_t i = c->n_items; i > 0; i--) {
        const struct lm_convert_item of = c->items[i - 1];
        struct lm_convert_item made = { 0 };
        size_t n;
        if (!lm_convert_kept_type(&of) || of.sources[0].st->packed->kind != LM_PACKED_NVFP4)
            continue;
        const int r = read_scales(c, &of, &made.made, &n, err);
        if (r)
            return r;
        if (!n)
            continue;
        char *name = lm_arena_copy(&c->arena, of.t.name, strlen(of.t.name));
        if (!name || !lm_grow(&c->items, &c->cap, c->n_items + 1, sizeof *c->items))
            return lm_fail_nomem(err);
        strcpy(strrchr(name, '.'), ".scale");
        made.row = n == 1 ? &one : &each;
        made.t.name = name;
        memmove(&c->items[i + 1], &c->items[i], (c->n_items++ - i) * sizeof *c->items);
        c->items[i] = made;
    }
    return LM_OK;
}
