/* SPDX-License-Identifier: MIT */
/* Quantizing: from the input's metadata and the options to the output's header. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "job/quant_job.h"
#include "job/weights.h"

struct planner {
    struct lm_quantize               *q;
    const struct lm_quantize_options *o;
    const struct lm_env              *env;
    struct lm_err                    *err;
    struct lm_mix_tensor             *mix;       /* [q->n_rows], shard by shard      */
};

/* The metadata. */
static const struct lm_gguf *meta(const struct planner *p)
{
    return p->q->shards[0].g;
}

/* ---- numbers of the model ------------------------------------------------ */

/* An entry as the output will have it: overrides count. */
static const struct lm_gguf_kv *entry(const struct planner *p, const char *key)
{
    for (size_t i = p->o->n_overrides; i-- > 0;)
        if (!strcmp(p->o->overrides[i].key.p, key))
            return &p->o->overrides[i];
    return lm_gguf_kv(meta(p), key);
}

/* The unsigned value of ARCH.NAME, of an array that of layer 0; dflt without one. */
static uint32_t number(const struct planner *p, const char *arch, const char *name, uint32_t dflt)
{
    struct lm_buf key = { 0 };
    lm_buf_printf(&key, "%s.%s", arch, name);
    const struct lm_gguf_kv *kv = key.failed ? NULL : entry(p, key.data);
    lm_buf_release(&key);
    if (!kv)
        return dflt;
    switch (kv->kind) {
    case LM_GGUF_U8: case LM_GGUF_U16: case LM_GGUF_U32: case LM_GGUF_U64:
        return kv->u <= UINT32_MAX ? (uint32_t)kv->u : dflt;
    case LM_GGUF_I8: case LM_GGUF_I16: case LM_GGUF_I32: case LM_GGUF_I64:
        return kv->i >= 0 && kv->i <= UINT32_MAX ? (uint32_t)kv->i : dflt;
    case LM_GGUF_ARR:
        if (kv->arr.n && (kv->arr.kind == LM_GGUF_U32 || kv->arr.kind == LM_GGUF_I32)) {
            uint32_t v;
            memcpy(&v, kv->arr.data, sizeof v);
            return v;
        }
        return dflt;
    default:
        return dflt;
    }
}

static const struct lm_type *by_user(void *arg, const char *name)
{
    const struct lm_quantize_options *o = arg;
    for (size_t i = 0; i < o->n_wishes; i++)
        if (lm_pattern_matches(o->wishes[i].pattern, name))
            return o->wishes[i].type;
    return NULL;
}

static int choose_types(struct planner *p)
{
    const struct lm_quantize_options *o = p->o;
    const struct lm_gguf_kv *kv = entry(p, "general.architecture");
    const char *arch = kv && kv->kind == LM_GGUF_STR ? kv->str.p : "";
    uint32_t heads = number(p, arch, "attention.head_count", 0);
    struct lm_mix m = {
        .file_type = o->file_type, .arch = arch,
        .n_layers = number(p, arch, "block_count", 0),
        .n_experts = number(p, arch, "expert_count", 0),
        .n_heads = heads, .n_heads_kv = number(p, arch, "attention.head_count_kv", heads),
        .have_weights = o->importance != NULL, .pure = o->pure, .leave_output = o->leave_output,
        .output_type = o->output_type, .embedding_type = o->embedding_type,
        .by_user = o->n_wishes ? by_user : NULL, .by_user_arg = (void *)o,
    };
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_gguf_tensor *t = p->q->rows[i].in;
        p->mix[i] = (struct lm_mix_tensor){ .name = t->name.p, .source = t->type };
        memcpy(p->mix[i].ne, t->ne, sizeof p->mix[i].ne);
    }
    return lm_mix_choose(&m, p->mix, p->q->n_rows, p->err);
}

/* ---- what has to be refused ---------------------------------------------- */

/* With --dry-run a note, else a failure. */
static int refuse(const struct planner *p, enum lm_code code, const char *what)
{
    if (!p->o->dry_run)
        return lm_fail(p->err, code, "%s", what);
    lm_note(p->env, LM_WARN, "%s", what);
    return LM_OK;
}

/* Sources that cannot be decoded, or should not be without being asked. */
static int check_sources(const struct planner *p)
{
    char what[256];
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_mix_tensor *t = &p->mix[i];
        if (t->target == t->source)
            continue;
        bool weights = t->source->decode && t->source->id != LM_F64;
        if (!weights) {
            snprintf(what, sizeof what, "tensor %.*s: %s cannot be converted to %s", 100, t->name,
                     t->source->name, t->target->name);
            return refuse(p, LM_EUSE, what);
        }
        if (t->source->block > 1 && !p->o->allow_requantize) {
            snprintf(what, sizeof what, "tensor %.*s: requantizing from type %s is disabled: "
                     "it adds loss to loss (--allow-requantize does it)", 100, t->name,
                     t->source->name);
            return refuse(p, LM_EUSE, what);
        }
    }
    return LM_OK;
}

/* One warning for what the mix could not have, and one for each tensor that the user
 * named; -v tells all. */
static void note_fallbacks(const struct planner *p)
{
    size_t n = 0;
    char first[256], line[256];
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_mix_tensor *t = &p->mix[i];
        if (t->target == t->wanted)
            continue;
        bool named = by_user((void *)p->o, t->name) != NULL;
        snprintf(line, sizeof line, "tensor %.*s: rows of %" PRIu64 " weights do not suit %s: %s "
                 "instead", 100, t->name, t->ne[0], t->wanted->name, t->target->name);
        lm_note(p->env, named ? LM_WARN : LM_INFO, "%s", line);
        if (!named && !n++)
            memcpy(first, line, sizeof first);
    }
    if (n > 1)
        lm_note(p->env, LM_WARN, "%s (and others for %zu more tensors)", first, n - 1);
    else if (n)
        lm_note(p->env, LM_WARN, "%s", first);
}

/* The options that are about importance. */
static struct lm_weights weights(const struct planner *p)
{
    return (struct lm_weights){ p->o->importance, p->o->importance_name, p->o->include,
                                p->o->exclude, p->o->dry_run };
}

/* ---- output -------------------------------------------------------------- */

static uint32_t file_type(const struct planner *p, const size_t *order)
{
    uint32_t v;
    if (p->o->file_type->id != LM_FT_COPY)
        return (uint32_t)p->o->file_type->id;
    if (lm_gguf_u32(meta(p), "general.file_type", &v, NULL) == LM_OK)
        return v;
    return lm_mix_guess(p->mix, p->q->n_rows, order);
}

static void set_last_u32(struct lm_gguf_writer *w, const char *key, uint32_t v)
{
    lm_gguf_unset(w, key);
    lm_gguf_set_u32(w, key, v);
}

static void set_metadata(const struct planner *p, const size_t *order)
{
    struct lm_gguf_writer *w = p->q->w;
    for (uint64_t i = 0; i < meta(p)->n_kv; i++)
        lm_gguf_set_kv(w, &meta(p)->kv[i]);
    set_last_u32(w, "general.quantization_version", 2);
    set_last_u32(w, "general.file_type", file_type(p, order));
    lm_gguf_unset(w, "split.no");
    lm_gguf_unset(w, "split.count");
    lm_gguf_unset(w, "split.tensors.count");
    for (size_t i = 0; i < p->o->n_overrides; i++) {
        lm_gguf_unset(w, p->o->overrides[i].key.p);
        lm_gguf_set_kv(w, &p->o->overrides[i]);
    }
    const struct lm_weights importance = weights(p);
    if (p->o->importance)
        lm_weights_keys(&importance, w);
}

static int by_offset(const void *x, const void *y)
{
    const struct lm_quantize_row *a = x, *b = y;
    if (a->shard != b->shard)
        return a->shard < b->shard ? -1 : 1;
    return a->in->offset != b->in->offset ? (a->in->offset < b->in->offset ? -1 : 1)
                                          : (a->in > b->in) - (a->in < b->in);
}

/* The output's tensors: rows, which so far stand as the shards list them, get their
 * targets and their order, that of the input's data unless sorted. */
static int set_tensors(const struct planner *p, const size_t *order)
{
    struct lm_quantize *q = p->q;
    const struct lm_weights importance = weights(p);
    struct lm_quantize_row *sorted = lm_malloc_array(q->n_rows, sizeof *sorted);
    if (!sorted)
        return lm_fail_nomem(p->err);
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lm_mix_tensor *t = &p->mix[order[i]];
        struct lm_quantize_row *row = &sorted[i];
        bool wrong;
        *row = q->rows[order[i]];
        row->target = t->target;
        row->weights = t->target == t->source ? NULL : lm_weights_of(&importance, t, &wrong);
        if (!lm_type_row_bytes(t->target, t->ne[0], &row->bytes) ||
            !lm_mul_u64(row->bytes, t->ne[1] * t->ne[2] * t->ne[3], &row->bytes)) {
            free(sorted);
            return lm_fail(p->err, LM_EUSE, "tensor %.*s does not fit 64 bits as %s", 100,
                           t->name, t->target->name);
        }
    }
    free(q->rows);
    q->rows = sorted;
    if (!p->o->sort && q->n_rows)
        qsort(q->rows, q->n_rows, sizeof *q->rows, by_offset);
    for (size_t i = 0; i < q->n_rows; i++)
        lm_gguf_add_tensor(q->w, q->rows[i].in->name.p, q->rows[i].in->name.len,
                           q->rows[i].in->n_dims, q->rows[i].in->ne, q->rows[i].target);
    return LM_OK;
}

/* ---- input --------------------------------------------------------------- */

static int read_shard(const struct planner *p, size_t k)
{
    struct lm_quantize_shard *s = &p->q->shards[k];
    s->g = lm_gguf_read(s->in, true, p->err);
    if (!s->g)
        return p->err ? (int)p->err->code : LM_EDATA;
    if (s->g->big_endian)
        return lm_fail(p->err, LM_ENOSUP, "big-endian: this version quantizes little-endian "
                       "files only");
    return LM_OK;
}

/* Shard k says that it is that. */
static int check_shard(const struct planner *p, size_t k)
{
    uint32_t no = 0, n = 0;
    const struct lm_gguf *g = p->q->shards[k].g;
    if (lm_gguf_u32(g, "split.no", &no, NULL) == LM_OK &&
        lm_gguf_u32(g, "split.count", &n, NULL) == LM_OK && no == k && n == p->q->n_shards)
        return LM_OK;
    return lm_fail(p->err, LM_EDATA, "says it is shard %" PRIu32 " of %" PRIu32 ", and not %zu "
                   "of %zu", no + 1, n, k + 1, p->q->n_shards);
}

static int open_shards(const struct planner *p, uint32_t n)
{
    struct lm_quantize *q = p->q;
    const char *first = lm_in_name(q->shards[0].in);
    struct lm_quantize_shard *all = calloc(n, sizeof *all);
    if (!all)
        return lm_fail_nomem(p->err);
    all[0] = q->shards[0];
    free(q->shards);
    q->shards = all;
    q->n_shards = n;
    int s = check_shard(p, 0);
    for (size_t k = 1; k < n && s == LM_OK; k++) {
        char *path = lm_gguf_shard_path(first, (uint32_t)k, n);
        if (!path)
            return lm_fail(p->err, LM_EUSE, "the first of %" PRIu32 " shards, whose others cannot "
                           "be found: it is not called NAME-00001-of-%05" PRIu32 ".gguf", n, n);
        all[k].in = lm_in_open(path, 0, p->err);
        s = !all[k].in ? (p->err ? (int)p->err->code : LM_EIO) : read_shard(p, k);
        if (s == LM_OK)
            s = check_shard(p, k);
        if (s != LM_OK)
            lm_err_at(p->err, s, "shard %s", path);
        free(path);
    }
    return s;
}

/* All headers, and a row for each tensor. */
static int read_input(const struct planner *p)
{
    struct lm_quantize *q = p->q;
    uint32_t n_shards = 1;
    int64_t v;
    int s = read_shard(p, 0);
    if (s == LM_OK && lm_gguf_u32(meta(p), "split.count", &n_shards, NULL) == LM_OK &&
        n_shards > 1)
        s = n_shards > UINT16_MAX ? lm_fail(p->err, LM_EDATA, "claims %" PRIu32 " shards", n_shards)
                                  : open_shards(p, n_shards);
    for (size_t k = 0; k < q->n_shards && s == LM_OK; k++) {
        const struct lm_gguf *g = q->shards[k].g;
        if (p->o->sort && !lm_in_seekable(q->shards[k].in))
            s = lm_fail(p->err, LM_EUSE, "cannot sort the tensors of a pipe or a compressed file");
        struct lm_quantize_row *rows = realloc(q->rows, (q->n_rows + g->n_tensors + 1) *
                                               sizeof *rows);
        if (!rows)
            return lm_fail_nomem(p->err);
        q->rows = rows;
        for (uint64_t i = 0; i < g->n_tensors; i++)
            q->rows[q->n_rows++] = (struct lm_quantize_row){ .in = &g->tensors[i], .shard = k };
    }
    if (s == LM_OK && lm_gguf_i64(meta(p), "split.tensors.count", &v, NULL) == LM_OK &&
        q->n_shards > 1 && (uint64_t)v != q->n_rows)
        s = lm_fail(p->err, LM_EDATA, "the shards should hold %lld tensors, but have %zu",
                    (long long)v, q->n_rows);
    return s;
}

/* Each shard was checked for doubled names by its reader, all together here. */
static int check_names(const struct planner *p, const size_t *order)
{
    for (size_t i = 1; i < p->q->n_rows; i++)
        if (!strcmp(p->mix[order[i]].name, p->mix[order[i - 1]].name))
            return lm_fail(p->err, LM_EDATA, "tensor %.*s is there twice", 100,
                           p->mix[order[i]].name);
    return LM_OK;
}

static int plan(struct planner *p)
{
    struct lm_quantize *q = p->q;
    int s = read_input(p);
    if (s != LM_OK)
        return s;
    q->w = lm_gguf_writer_new();
    p->mix = lm_malloc_array(q->n_rows, sizeof *p->mix);
    size_t *order = lm_malloc_array(q->n_rows, sizeof *order);
    if (!q->w || !p->mix || !order)
        s = lm_fail_nomem(p->err);
    if (s == LM_OK)
        s = choose_types(p);
    if (s == LM_OK)
        s = lm_mix_order(p->mix, q->n_rows, order, p->err);
    if (s == LM_OK)
        s = check_names(p, order);
    if (s == LM_OK)
        s = check_sources(p);
    const struct lm_weights importance = weights(p);
    if (s == LM_OK)
        s = lm_weights_check(&importance, p->mix, q->n_rows, p->env, p->err);
    if (s == LM_OK) {
        note_fallbacks(p);
        set_metadata(p, order);
        s = set_tensors(p, order);
    }
    free(order);
    free(p->mix);
    return s;
}

struct lm_quantize *lm_quantize_plan(struct lm_in *in, const struct lm_quantize_options *o,
                                     const struct lm_env *env, struct lm_err *err)
{
    struct lm_quantize *q = calloc(1, sizeof *q);
    if (!q) {
        lm_fail_nomem(err);
        return NULL;
    }
    struct planner p = { .q = q, .o = o, .env = env, .err = err };
    q->n_shards = 1;
    q->shards = calloc(1, sizeof *q->shards);
    if (q->shards)
        q->shards[0].in = in;
    if (!q->shards || plan(&p) != LM_OK) {
        if (!q->shards)
            lm_fail_nomem(err);
        lm_quantize_free(q);
        return NULL;
    }
    return q;
}

void lm_quantize_free(struct lm_quantize *q)
{
    if (!q)
        return;
    for (size_t k = 0; q->shards && k < q->n_shards; k++) {
        lm_gguf_free(q->shards[k].g);
        if (k)
            lm_in_close(q->shards[k].in);
    }
    free(q->shards);
    lm_gguf_writer_free(q->w);
    free(q->rows);
    free(q);
}
