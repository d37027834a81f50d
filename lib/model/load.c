/* SPDX-License-Identifier: MIT */
/*
 * Loading: what the architecture's rows ask for is found in the file and checked, then
 * room is made, then data is read.  Matrices take the form the device multiplies
 * fastest; vectors become floats; tables, and matrices whose form is the file's, stay
 * in the mapped file.
 */
#include "model/model_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/thread.h"
#include "io/input.h"

#define CHUNK (1u << 20)        /* bytes read at once */

enum place {
    MAPPED,                     /* data is in the map                             */
    PLAIN,                      /* read as it is                                  */
    FLOATS,                     /* decoded                                        */
    PACKED                      /* in the device's form                           */
};

struct weight {
    struct lm_tensor            *t;
    const struct lm_gguf_tensor *from;
    enum place                   place;
};

struct loader {
    struct lm_model               *m;
    const struct lm_model_options *o;
    const struct lm_env           *env;
    struct lm_in                  *in;
    struct weight                 *w;
    size_t                         n;
    struct lm_err                 *errs;     /* [n] of each weight's reading       */
    char                         **scratch;  /* [threads] of a chunk and a bit     */
    size_t                         scratch_size;
    size_t                         done;
};

static int find_arch(struct lm_model *m, struct lm_err *err)
{
    struct lm_str name;
    int r = lm_gguf_str(m->gguf, "general.architecture", &name, err);
    if (r < 0)
        return r;
    if (r == 1)
        return lm_fail(err, LM_EDATA, "general.architecture: missing");
    m->arch = lm_arch_by_name(name.p);
    if (!m->arch)
        return lm_fail(err, LM_ENOSUP, "general.architecture: %.*s is not supported",
                       (int)(name.len < 64 ? name.len : 64), name.p);
    uint32_t shards = 1;
    if ((r = lm_gguf_u32(m->gguf, "split.count", &shards, err)) < 0)
        return r;
    if (shards > 1)
        return lm_fail(err, LM_ENOSUP, "split.count: a model in %u files is not supported: "
                       "merge them first", shards);
    if (m->gguf->big_endian)
        return lm_fail(err, LM_ENOSUP, "big-endian files cannot be run");
    return LM_OK;
}

/* The vocabulary is as large as the output matrix, whatever the metadata say. */
static int find_vocab(struct lm_model *m, struct lm_err *err)
{
    const struct lm_gguf_tensor *out = NULL;
    const struct lm_arch_tensor *row = m->arch->tensors, *r;
    for (r = row; r->name && !out; r++)
        if (r->ne[1] == LM_DIM_VOCAB && r->flags & LM_TENSOR_MATRIX) {
            out = lm_gguf_tensor(m->gguf, r->name);
            if (!out && r->instead)
                out = lm_gguf_tensor(m->gguf, row[r->instead - 1].name);
            if (!out)
                return lm_fail(err, LM_EDATA, "%s: missing", r->name);
        }
    for (r = row; r->name && !out; r++)         /* an encoder has only the table */
        if (r->ne[1] == LM_DIM_VOCAB && r->flags & LM_TENSOR_TABLE)
            out = lm_gguf_tensor(m->gguf, r->name);
    if (!out)
        return LM_OK;
    if (out->ne[1] == 0 || out->ne[1] > INT32_MAX)
        return lm_fail(err, LM_EDATA, "%s: %llu rows", out->name.p,
                       (unsigned long long)out->ne[1]);
    m->h.n_vocab = (uint32_t)out->ne[1];
    return LM_OK;
}

static int check_shape(const struct lm_gguf_tensor *f, const struct lm_arch_tensor *row,
                       const struct lm_hparams *h, struct lm_err *err)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    if (!lm_arch_shape(row, h, ne))
        return lm_fail(err, LM_EDATA, "%s: shape does not fit", f->name.p);
    for (int i = 0; i < LM_GGUF_MAX_DIMS; i++)
        if (f->ne[i] != ne[i])
            return lm_fail(err, LM_EDATA, "%s: shape is [%llu, %llu, %llu, %llu], the "
                           "metadata ask for [%llu, %llu, %llu, %llu]", f->name.p,
                           (unsigned long long)f->ne[0], (unsigned long long)f->ne[1],
                           (unsigned long long)f->ne[2], (unsigned long long)f->ne[3],
                           (unsigned long long)ne[0], (unsigned long long)ne[1],
                           (unsigned long long)ne[2], (unsigned long long)ne[3]);
    return LM_OK;
}

static int check_type(const struct lm_gguf_tensor *f, struct lm_err *err)
{
    uint64_t row, all;
    if (!f->type)
        return lm_fail(err, LM_ENOSUP, "%s: tensor type %u is not supported", f->name.p,
                       f->type_id);
    if (!f->type->decode)
        return lm_fail(err, LM_EDATA, "%s: weights of type %s", f->name.p, f->type->name);
    if (!lm_type_row_bytes(f->type, f->ne[0], &row) ||
        !lm_mul_u64(row, f->ne[1] * f->ne[2] * f->ne[3], &all) || all != f->bytes)
        return lm_fail(err, LM_EDATA, "%s: %llu columns: %s needs a multiple of %u", f->name.p,
                       (unsigned long long)f->ne[0], f->type->name, f->type->block);
    return LM_OK;
}

static enum place choose(const struct loader *l, const struct lm_arch_tensor *row,
                         const struct lm_tensor *t)
{
    bool map = !l->o || l->o->load == LM_LOAD_MMAP;
    if (row->flags & LM_TENSOR_MATRIX && !(l->o && l->o->no_repack)) {
        const struct lm_buft *b = lm_model_cpu(l->m)->ops->buft(lm_model_cpu(l->m), LM_USE_MATRIX);
        return map && b->ops->as_in_file(b, t) ? MAPPED : PACKED;
    }
    if (row->flags & (LM_TENSOR_MATRIX | LM_TENSOR_TABLE | LM_TENSOR_EXPERTS))
        return map ? MAPPED : PLAIN;
    return FLOATS;
}

/* The tensor for one row of the architecture in one layer, if the file has it. */
static int add_weight(struct loader *l, size_t row_index, uint32_t layer, struct lm_err *err)
{
    struct lm_model *m = l->m;
    const struct lm_arch_tensor *row = &m->arch->tensors[row_index];
    char name[LM_ARCH_NAME];
    lm_arch_expand(row->name, layer, name);
    const struct lm_gguf_tensor *f = lm_gguf_tensor(m->gguf, name);
    if (!f && row->instead)
        f = lm_gguf_tensor(m->gguf, m->arch->tensors[row->instead - 1].name);
    if (!f)
        return lm_arch_needs(row, &m->h) ? lm_fail(err, LM_EDATA, "%s: missing", name) : LM_OK;
    int r;
    if ((r = check_shape(f, row, &m->h, err)) || (r = check_type(f, err)))
        return r;
    struct lm_graph maker = {0};        /* only for the tensor's strides */
    struct lm_tensor *t = lm_arena_alloc(&m->arena, sizeof *t), *made;
    size_t ne[LM_MAX_DIMS];
    for (int i = 0; i < LM_MAX_DIMS; i++)
        ne[i] = (size_t)f->ne[i];
    made = lm_new_tensor(&maker, f->type, LM_MAX_DIMS, ne);
    if (t && made) {
        *t = *made;
        t->name = f->name.p;
        enum place place = choose(l, row, t);
        if (place == FLOATS) {
            t->type = lm_type_by_id(LM_F32);
            t->nb[0] = sizeof(float);
            t->nb[1] = t->nb[2] = t->nb[3] = ne[0] * sizeof(float);
        }
        l->w[l->n++] = (struct weight){ t, f, place };
        m->weights[layer * m->n_weights + row_index] = t;
    }
    r = t && made ? LM_OK : lm_fail(err, LM_ENOMEM, "%s: out of memory", name);
    lm_graph_release(&maker);
    return r;
}

static int add_weights(struct loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    m->n_weights = lm_arch_n_tensors(m->arch);
    if (m->h.n_layer > m->gguf->n_tensors)
        return lm_fail(err, LM_EDATA, "%s.block_count: %u layers in %llu tensors",
                       m->arch->name, m->h.n_layer, (unsigned long long)m->gguf->n_tensors);
    size_t most = m->n_weights * m->h.n_layer;
    m->weights = lm_arena_array(&m->arena, most, sizeof *m->weights);
    l->w = lm_malloc_array(most, sizeof *l->w);
    if (!m->weights || !l->w)
        return lm_fail_nomem(err);
    for (uint32_t layer = 0; layer < m->h.n_layer; layer++)
        for (size_t i = 0; i < m->n_weights; i++) {
            bool per_layer = m->arch->tensors[i].flags & LM_TENSOR_PER_LAYER;
            int r = per_layer || layer == 0 ? add_weight(l, i, layer, err) : LM_OK;
            if (r)
                return r;
            if (layer == 0 && m->arch->tensors[i].flags & LM_TENSOR_TABLE)
                m->n_embd_rows = (uint32_t)m->weights[i]->ne[1];
        }
    return LM_OK;
}

/* Tell once for each type that the device has no products of its own for it. */
static void note_slow(const struct loader *l)
{
    const struct lm_device *d = lm_model_cpu(l->m);
    bool told[256] = { false };         /* by type */
    for (size_t i = 0; i < l->n; i++) {
        const struct weight *w = &l->w[i];
        uint32_t id = w->from->type_id;
        if (w->place == FLOATS || id >= 256 || told[id])
            continue;
        told[id] = true;
        if (d->ops->decodes_first(d, w->t))
            lm_note(l->env, LM_INFO, "%s: %s is decoded before it is multiplied", w->t->name,
                    w->from->type->name);
    }
}

/* One buffer for all weights that go to `place` or, if it is PLAIN, to FLOATS too. */
static int make_buffer(struct loader *l, enum place place, struct lm_buffer **out,
                       struct lm_err *err)
{
    const struct lm_device *d = lm_model_cpu(l->m);
    const struct lm_buft *type = d->ops->buft(d, place == PACKED ? LM_USE_MATRIX
                                                                 : LM_USE_COMPUTE);
    size_t size = 0, used = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l->n; i++) {
            struct weight *w = &l->w[i];
            if (w->place != place && !(place == PLAIN && w->place == FLOATS))
                continue;
            int r = LM_OK;
            if (pass == 1)
                r = lm_buffer_place(*out, w->t, &used, err);
            else if (!lm_buft_add(type, w->t, &size))
                r = lm_fail(err, LM_ENOMEM, "too large for memory");
            if (r)
                return lm_err_at(err, r, "%s", w->t->name);
        }
        if (pass == 0 && !(*out = type->ops->alloc(type, size, err)))
            return LM_ENOMEM;
    }
    return LM_OK;
}

static int map_weights(struct loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    bool any = false;
    for (size_t i = 0; i < l->n; i++)
        any |= l->w[i].place == MAPPED;
    int r = any ? lm_map_fd(&m->map, lm_in_fd(l->in), err) : LM_OK;
    for (size_t i = 0; i < l->n && !r; i++) {
        struct weight *w = &l->w[i];
        uint64_t at = m->gguf->data_offset + w->from->offset;
        if (w->place != MAPPED)
            continue;
        if (at > m->map.size || w->from->bytes > m->map.size - at)
            r = lm_fail(err, LM_EDATA, "%s: the file ends inside its data", w->t->name);
        else
            w->t->data = (void *)(uintptr_t)(m->map.data + at);   /* only read */
    }
    return r;
}

/* Rows first .. first + n - 1 of a weight, as they lie in the file at src. */
static int put_rows(const struct loader *l, const struct weight *w, const char *src,
                    size_t first, size_t n, struct lm_err *err)
{
    const struct lm_type *type = w->from->type;
    size_t len = n * w->t->ne[0];
    int64_t bad = type->invalid ? type->invalid(src, len) : -1;
    if (bad >= 0)
        return lm_fail(err, LM_EDATA, "%s: value in row %zu is not finite", w->t->name,
                       first + (size_t)bad * type->block / w->t->ne[0]);
    if (w->place == FLOATS)
        type->decode(src, (float *)w->t->data + first * w->t->ne[0], len);
    else
        w->t->buffer->ops->set(w->t->buffer, w->t, src, first, n);
    (void)l;
    return LM_OK;
}

static size_t row_size(const struct weight *w)
{
    return (size_t)w->from->ne[0] / w->from->type->block * w->from->type->bytes;
}

/* Rows of one read: about a chunk, and whole groups of what the buffer takes at once. */
static size_t rows_at_once(const struct weight *w)
{
    size_t unit = w->place == PACKED ? w->t->buffer->ops->set_rows(w->t->buffer, w->t) : 1;
    size_t n = CHUNK / row_size(w) / unit;
    return unit * (n ? n : 1);
}

static int read_weight(struct loader *l, const struct weight *w, char *scratch,
                       struct lm_err *err)
{
    size_t rows = lm_tensor_rows(w->t), step = rows_at_once(w), row = row_size(w);
    uint64_t at = l->m->gguf->data_offset + w->from->offset;
    for (size_t first = 0; first < rows; first += step) {
        size_t n = rows - first < step ? rows - first : step;
        if (lm_stopped(l->env))
            return lm_fail(err, LM_ESTOP, "stopped");
        int r = lm_in_pread(l->in, at + first * row, scratch, n * row, err);
        if (r)
            return lm_err_at(err, r, "%s", w->t->name);
        if ((r = put_rows(l, w, scratch, first, n, err)))
            return r;
    }
    return LM_OK;
}

static void read_job(void *arg, size_t i, int thread)
{
    struct loader *l = arg;
    if (l->w[i].place != MAPPED)
        read_weight(l, &l->w[i], l->scratch[thread], &l->errs[i]);
    size_t done = __atomic_add_fetch(&l->done, 1, __ATOMIC_RELAXED);
    if (thread == 0)
        lm_progress(l->env, "loading", done, l->n);
}

static int read_weights(struct loader *l, struct lm_err *err)
{
    int threads = lm_env_threads(l->env), r = LM_OK;
    l->errs = calloc(l->n + 1, sizeof *l->errs);
    l->scratch = calloc((size_t)threads, sizeof *l->scratch);
    if (!l->errs || !l->scratch)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < l->n; i++)
        if (l->w[i].place != MAPPED) {
            size_t need = rows_at_once(&l->w[i]) * row_size(&l->w[i]);
            l->scratch_size = need > l->scratch_size ? need : l->scratch_size;
        }
    for (int i = 0; i < threads; i++)
        if (!(l->scratch[i] = malloc(l->scratch_size + 1))) {
            r = lm_fail_nomem(err);
            threads = i;
        }
    struct lm_pool *pool = NULL;
    if (!r && threads > 1 && !(pool = lm_pool_new(threads, err)))
        r = LM_ENOMEM;
    if (!r)
        lm_pool_run(pool, read_job, l, l->n);
    lm_pool_free(pool);
    for (int i = 0; i < threads; i++)
        free(l->scratch[i]);
    for (size_t i = 0; i < l->n && !r; i++)
        if (l->errs[i].code)
            r = lm_fail(err, l->errs[i].code, "%s", l->errs[i].text);
    return r;
}

static int load(struct loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    int r;
    if (!lm_in_seekable(l->in))
        return lm_fail(err, LM_ENOSUP, "a model that runs must be a file that is not "
                       "compressed");
    if (!(m->gguf = lm_gguf_read(l->in, true, err)))
        return err ? (int)err->code : LM_EDATA;
    if ((r = find_arch(m, err)) || (r = lm_arch_read(m->arch, m->gguf, &m->h, err)) ||
        (r = find_vocab(m, err)) || (r = add_weights(l, err)) ||
        (r = map_weights(l, err)) || (r = make_buffer(l, PLAIN, &m->plain, err)) ||
        (r = make_buffer(l, PACKED, &m->packed, err)))
        return r;
    note_slow(l);
    return read_weights(l, err);
}

struct lm_model *lm_model_load(const char *path, const struct lm_model_options *o,
                               const struct lm_env *env, struct lm_err *err)
{
    struct loader l = { .o = o, .env = env, .m = calloc(1, sizeof *l.m) };
    if (!l.m) {
        lm_fail_nomem(err);
        return NULL;
    }
    l.m->device[l.m->n_devices++] = lm_device_by_name("cpu");
    l.in = lm_in_open(path, LM_IN_RAW, err);
    int r = l.in ? load(&l, err) : LM_EIO;
    lm_in_close(l.in);
    free(l.w);
    free(l.errs);
    free(l.scratch);
    if (r) {
        lm_model_free(l.m);
        return NULL;
    }
    return l.m;
}

void lm_model_free(struct lm_model *m)
{
    if (!m)
        return;
    lm_gguf_free(m->gguf);
    lm_arena_release(&m->arena);
    lm_map_close(&m->map);
    if (m->plain)
        m->plain->ops->free(m->plain);
    if (m->packed)
        m->packed->ops->free(m->packed);
    free(m);
}

const struct lm_gguf *lm_model_gguf(const struct lm_model *m)
{
    return m->gguf;
}

const char *lm_model_arch(const struct lm_model *m)
{
    return m->arch->name;
}

uint32_t lm_model_n_vocab(const struct lm_model *m)
{
    return m->h.n_vocab;
}

uint32_t lm_model_n_ctx_train(const struct lm_model *m)
{
    return m->h.n_ctx_train;
}

bool lm_model_is_encoder(const struct lm_model *m)
{
    return m->arch->encoder;
}

enum lm_pooling lm_model_pooling(const struct lm_model *m)
{
    return (enum lm_pooling)m->h.pooling;
}
