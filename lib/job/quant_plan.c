/* SPDX-License-Identifier: MIT */
/* Quantizing: from the input's metadata and the options to the output's header. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "job/quant_parts.h"
#include "job/weights.h"

struct planner {
    struct lm_quantize               *q;
    const struct lm_quantize_options *o;
    const struct lm_env              *env;
    struct lm_err                    *err;
    struct lm_mix_tensor             *mix;       /* [q->n_rows], shard by shard      */
    const struct lm_importance       *given;     /* under the input's names          */
    struct lm_prune                   prune;
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

static const char *architecture(const struct planner *p)
{
    const struct lm_gguf_kv *kv = entry(p, "general.architecture");
    return kv && kv->kind == LM_GGUF_STR ? kv->str.p : "";
}

static int choose_types(struct planner *p)
{
    const struct lm_quantize_options *o = p->o;
    const char *arch = architecture(p);
    uint32_t heads = number(p, arch, "attention.head_count", 0);
    struct lm_mix m = {
        .file_type = o->file_type, .arch = arch,
        .n_layers = number(p, arch, "block_count", 0),
        .n_experts = number(p, arch, "expert_count", 0),
        .n_heads = heads, .n_heads_kv = number(p, arch, "attention.head_count_kv", heads),
        .have_weights = o->importance != NULL, .in_order = o->keep_split, .pure = o->pure,
        .leave_output = o->leave_output,
        .output_type = o->output_type, .embedding_type = o->embedding_type,
        .by_user = o->n_wishes ? by_user : NULL, .by_user_arg = (void *)o,
    };
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_gguf_tensor *t = p->q->rows[i].in;
        p->mix[i] = (struct lm_mix_tensor){ .name = p->q->rows[i].name.p, .source = t->type };
        memcpy(p->mix[i].ne, t->ne, sizeof p->mix[i].ne);
    }
    return lm_mix_choose(&m, p->mix, p->q->n_rows, p->err);
}

/* ---- what has to be refused ---------------------------------------------- */

/* Can it be decoded, if it has to be? */
static int check_decodable(const struct planner *p, const struct lm_mix_tensor *t)
{
    if (t->target == t->source || (t->source->decode && t->source->id != LM_F64))
        return LM_OK;
    return lm_fail(p->err, LM_EUSE, "tensor %.*s: %s cannot be converted to %s", 100, t->name,
                   t->source->name, t->target->name);
}

/* Sources that cannot be decoded, or should not be without being asked. */
static int check_sources(const struct planner *p)
{
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_mix_tensor *t = &p->mix[i];
        if (t->target == t->source)
            continue;
        int s = check_decodable(p, t);
        if (s != LM_OK)
            return s;
        if (t->source->block > 1 && !p->o->allow_requantize)
            return lm_fail(p->err, LM_EUSE, "tensor %.*s: requantizing from type %s is disabled: "
                           "it adds loss to loss (--allow-requantize does it)", 100, t->name,
                           t->source->name);
    }
    return LM_OK;
}

/* A line for each tensor whose rows do not divide into blocks of what was wanted. */
static void note_fallbacks(const struct planner *p)
{
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const struct lm_mix_tensor *t = &p->mix[i];
        if (t->target != t->wanted)
            lm_note(p->env, LM_WARN, "tensor %.*s: rows of %" PRIu64 " weights do not suit %s: %s "
                    "instead", 100, t->name, t->ne[0], t->wanted->name, t->target->name);
    }
}

/* The options that are about importance. */
static struct lm_weights weights(const struct planner *p)
{
    return (struct lm_weights){ p->o->importance, p->o->importance_name, p->o->include,
                                p->o->exclude };
}

/* What a run is refused for; in a dry run, once its plan was seen. */
static int check_run(const struct planner *p)
{
    const struct lm_weights importance = weights(p);
    int s = check_sources(p);
    if (s == LM_OK)
        s = lm_weights_check(&importance, p->mix, p->q->n_rows, p->env, p->err);
    if (s == LM_OK || !p->o->dry_run)
        return s;
    p->q->refused = *p->err;
    return LM_OK;
}

/* ---- output -------------------------------------------------------------- */

static uint64_t alignment(const struct planner *p)
{
    const struct lm_gguf_kv *kv = entry(p, "general.alignment");
    return kv && kv->kind == LM_GGUF_U32 && kv->u ? kv->u : 32;
}

static uint32_t file_type(const struct planner *p, const size_t *order)
{
    uint32_t v;
    if (p->o->guess_file_type)
        return lm_mix_guess(p->mix, p->q->n_rows, order) & ~(uint32_t)LM_FT_GUESSED;
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

/* The input's entries; those with a value for each layer lose some with the layers. */
static int copy_metadata(const struct planner *p, struct lm_gguf_writer *w)
{
    const char *arch = architecture(p);
    const uint32_t n_layers = number(p, arch, "block_count", 0);
    const size_t n = strlen(arch);
    for (uint64_t i = 0; i < meta(p)->n_kv; i++) {
        struct lm_gguf_kv kv = meta(p)->kv[i];
        if (p->prune.n && n && !strncmp(kv.key.p, arch, n) && kv.key.p[n] == '.' &&
            lm_prune_kv(&p->prune, n_layers, &kv, &p->q->arena))
            return lm_fail_nomem(p->err);
        lm_gguf_set_kv(w, &kv);
    }
    return LM_OK;
}

/* The number of layers that are left. */
static int set_block_count(const struct planner *p, struct lm_gguf_writer *w)
{
    struct lm_buf key = { 0 };
    lm_buf_printf(&key, "%s.block_count", architecture(p));
    if (key.failed)
        return lm_fail_nomem(p->err);
    set_last_u32(w, key.data, number(p, architecture(p), "block_count", 0) -
                                  (uint32_t)p->prune.n);
    lm_buf_release(&key);
    return LM_OK;
}

static int set_metadata(const struct planner *p, const size_t *order, struct lm_gguf_writer *w)
{
    int s = copy_metadata(p, w);
    set_last_u32(w, "general.quantization_version", 2);
    set_last_u32(w, "general.file_type", file_type(p, order));
    lm_gguf_unset(w, "split.no");
    lm_gguf_unset(w, "split.count");
    lm_gguf_unset(w, "split.tensors.count");
    for (size_t i = 0; i < p->o->n_overrides; i++) {
        lm_gguf_unset(w, p->o->overrides[i].key.p);
        lm_gguf_set_kv(w, &p->o->overrides[i]);
    }
    struct lm_weights importance = weights(p);
    importance.importance = p->given;             /* as the file has it */
    if (p->o->importance)
        lm_weights_keys(&importance, w);
    return s == LM_OK && p->prune.n ? set_block_count(p, w) : s;
}

/* ---- several files ------------------------------------------------------- */

/* What split files say of themselves; each but the first has nothing else but its alignment. */
static void set_split_keys(const struct planner *p, size_t k)
{
    const struct lm_quantize *q = p->q;
    struct lm_gguf_writer *w = q->parts[k].w;
    uint16_t no = (uint16_t)k, count = (uint16_t)q->n_parts;
    const struct lm_gguf_kv keys[] = {
        { .key = { "split.no", 8 }, .kind = LM_GGUF_U16, .u = no },
        { .key = { "split.count", 11 }, .kind = LM_GGUF_U16, .u = count },
    };
    const struct lm_gguf_kv *align = entry(p, "general.alignment");
    if (k && align)
        lm_gguf_set_kv(w, align);
    lm_gguf_set_kv(w, &keys[0]);
    lm_gguf_set_kv(w, &keys[1]);
    lm_gguf_set_i32(w, "split.tensors.count", (int32_t)q->n_rows);
}

/* One writer for all, or one for each shard. */
static int make_parts(const struct planner *p, const size_t *order)
{
    struct lm_quantize *q = p->q;
    q->n_parts = p->o->keep_split ? q->n_shards : 1;
    q->parts = calloc(q->n_parts, sizeof *q->parts);
    int s = q->parts ? LM_OK : lm_fail_nomem(p->err);
    for (size_t k = 0; k < q->n_parts && s == LM_OK; k++) {
        q->parts[k].w = lm_gguf_writer_new();
        s = !q->parts[k].w ? lm_fail_nomem(p->err) : k ? LM_OK
                           : set_metadata(p, order, q->parts[0].w);
        if (s == LM_OK && q->n_parts > 1)
            set_split_keys(p, k);
    }
    for (size_t i = 0; i < q->n_rows && s == LM_OK; i++) {
        const struct lm_quantize_row *r = &q->rows[i];
        struct lm_quantize_part *part = &q->parts[q->n_parts > 1 ? r->shard : 0];
        lm_gguf_add_tensor(part->w, r->name.p, r->name.len, r->in->n_dims, r->in->ne, r->target);
        part->first = part->n ? part->first : i;
        part->n++;
    }
    return s;
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
 * targets and their order, that of the input's data unless sorted; files that are kept cannot
 * be. */
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
        row->chosen = t->convertible;
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
    if ((!p->o->sort || p->o->keep_split) && q->n_rows)
        qsort(q->rows, q->n_rows, sizeof *q->rows, by_offset);
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

/* Are there such layers, and others? */
static int check_prune(const struct planner *p)
{
    const uint32_t n = number(p, architecture(p), "block_count", 0);
    const size_t k = p->prune.n;
    if (k && p->prune.layers[k - 1] >= n)
        return lm_fail(p->err, LM_EUSE, "there is no layer %" PRIu32 " to leave out: the model "
                       "has %" PRIu32, p->prune.layers[k - 1], n);
    if (k && k == n)
        return lm_fail(p->err, LM_EUSE, "all %" PRIu32 " layers are to be left out", n);
    return LM_OK;
}

/* All headers, and a row for each tensor. */
static int read_input(const struct planner *p)
{
    struct lm_quantize *q = p->q;
    uint32_t n_shards = 1;
    uint64_t n_tensors = 0;
    int64_t v;
    int s = read_shard(p, 0);
    if (s == LM_OK)
        s = check_prune(p);
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
        n_tensors += g->n_tensors;
        for (uint64_t i = 0; i < g->n_tensors; i++) {
            struct lm_quantize_row row = { .in = &g->tensors[i], .shard = k };
            if (lm_prune_name(&p->prune, &row.in->name, &q->arena, &row.name))
                return lm_fail_nomem(p->err);
            if (row.name.p)
                q->rows[q->n_rows++] = row;
        }
    }
    if (s == LM_OK && lm_gguf_i64(meta(p), "split.tensors.count", &v, NULL) == LM_OK &&
        q->n_shards > 1 && (uint64_t)v != n_tensors)
        s = lm_fail(p->err, LM_EDATA, "the shards should hold %lld tensors, but have %" PRIu64,
                    (long long)v, n_tensors);
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

/* ---- a size instead of a type -------------------------------------------- */

/* Bytes of the header, with what pads it: no type changes it. */
static int header_size(struct planner *p, const size_t *order, uint64_t *bytes)
{
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    int s = w ? set_metadata(p, order, w) : lm_fail_nomem(p->err);
    uint64_t data = 0, size;
    const struct lm_type *plain = lm_type_by_id(LM_F32);
    for (size_t i = 0; i < p->q->n_rows && s == LM_OK; i++) {
        const struct lm_quantize_row *r = &p->q->rows[i];
        lm_gguf_add_tensor(w, r->name.p, r->name.len, r->in->n_dims, r->in->ne, plain);
        if (!lm_type_row_bytes(plain, r->in->ne[0], &size) ||
            !lm_mul_u64(size, r->in->ne[1] * r->in->ne[2] * r->in->ne[3], &size) ||
            !lm_align_u64(size, alignment(p), &size) || !lm_add_u64(data, size, &data))
            s = lm_fail(p->err, LM_EUSE, "the tensors do not fit 64 bits");
    }
    if (s == LM_OK && !lm_gguf_total_size(w, &size))
        s = lm_fail(p->err, LM_EUSE, "the file would not fit 64 bits");
    *bytes = s == LM_OK ? size - data : 0;
    lm_gguf_writer_free(w);
    return s;
}

/* Bytes that the tensors' data may take. */
static int data_budget(struct planner *p, const size_t *order, uint64_t *bytes)
{
    double weights = 0;
    uint64_t head;
    int s = header_size(p, order, &head);
    if (s != LM_OK)
        return s;
    for (size_t i = 0; i < p->q->n_rows; i++) {
        const uint64_t *ne = p->q->rows[i].in->ne;
        weights += (double)ne[0] * (double)ne[1] * (double)ne[2] * (double)ne[3];
    }
    if (!p->o->target_size)
        *bytes = (uint64_t)(weights * p->o->target_bpw / 8);
    else if (p->o->target_size < head)
        return lm_fail(p->err, LM_EUSE, "the header alone takes %" PRIu64 " bytes", head);
    else
        *bytes = p->o->target_size - head;
    return LM_OK;
}

/* Has the user said which type a tensor gets? */
static bool is_given(const struct planner *p, const char *name)
{
    const struct lm_quantize_options *o = p->o;
    return by_user((void *)o, name) || (o->output_type && !strcmp(name, "output.weight")) ||
           (o->embedding_type && (!strcmp(name, "token_embd.weight") ||
                                  !strcmp(name, "per_layer_token_embd.weight")));
}

static int choose_for_size(struct planner *p, const size_t *order)
{
    struct lm_quantize *q = p->q;
    const struct lm_importance_entry **entries = lm_malloc_array(q->n_rows + 1, sizeof *entries);
    bool *fixed = lm_malloc_array(q->n_rows + 1, sizeof *fixed), wrong;
    struct lm_target t = { .q = q, .mix = p->mix, .weights = entries, .fixed = fixed,
                           .alignment = alignment(p) };
    const struct lm_weights importance = weights(p);
    int s = entries && fixed ? data_budget(p, order, &t.budget) : lm_fail_nomem(p->err);
    for (size_t k = 0; k < q->n_shards && s == LM_OK; k++)
        if (!lm_in_seekable(q->shards[k].in))
            s = lm_fail(p->err, LM_EUSE, "a size as the target: the tensors of a pipe or a "
                        "compressed file cannot be measured before they are written");
    for (size_t i = 0; i < q->n_rows && s == LM_OK; i++) {
        s = check_decodable(p, &p->mix[i]);       /* what is chosen among is measured */
        entries[i] = lm_weights_of(&importance, &p->mix[i], &wrong);
        fixed[i] = is_given(p, p->mix[i].name);
    }
    if (s == LM_OK)
        s = lm_target_choose(&t, p->env, p->err);
    free(entries);
    free(fixed);
    return s;
}

static int plan(struct planner *p)
{
    struct lm_quantize *q = p->q;
    int s = read_input(p);
    if (s != LM_OK)
        return s;
    if (p->o->keep_split && q->n_rows)        /* then the rules see them so */
        qsort(q->rows, q->n_rows, sizeof *q->rows, by_offset);
    p->mix = lm_malloc_array(q->n_rows, sizeof *p->mix);
    size_t *order = lm_malloc_array(q->n_rows, sizeof *order);
    if (!p->mix || !order)
        s = lm_fail_nomem(p->err);
    if (s == LM_OK)
        s = choose_types(p);
    if (s == LM_OK)
        s = lm_mix_order(p->mix, q->n_rows, order, p->err);
    if (s == LM_OK)
        s = check_names(p, order);
    if (s == LM_OK && (p->o->target_size || p->o->target_bpw > 0))
        s = choose_for_size(p, order);
    if (s == LM_OK)
        s = check_run(p);
    if (s == LM_OK) {
        note_fallbacks(p);
        s = set_tensors(p, order);
    }
    if (s == LM_OK)
        s = make_parts(p, order);
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
    struct lm_quantize_options own = *o;
    struct planner p = { .q = q, .o = &own, .env = env, .err = err, .given = o->importance,
                         .prune = { o->prune, o->n_prune } };
    if (o->n_prune && o->importance) {
        own.importance = q->renamed = lm_prune_importance(&p.prune, o->importance);
        if (!q->renamed) {
            lm_fail_nomem(err);
            lm_quantize_free(q);
            return NULL;
        }
    }
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
    for (size_t k = 0; q->parts && k < q->n_parts; k++)
        lm_gguf_writer_free(q->parts[k].w);
    free(q->parts);
    lm_arena_release(&q->arena);
    lm_importance_free(q->renamed);
    free(q->rows);
    free(q);
}
