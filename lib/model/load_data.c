/* SPDX-License-Identifier: MIT */
/* Bringing weights to where they are used. */
#define _DEFAULT_SOURCE         /* mlock */
#include "model/load_parts.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"
#include "base/thread.h"

#define CHUNK (1u << 20)        /* bytes read at once */

/* One buffer for all of a device's weights that go to `place` or, if it is PLAIN, to FLOATS
 * too. */
static int make_buffer(struct lm_loader *l, size_t device, enum lm_weight_place place,
                       struct lm_buffer **out, struct lm_err *err)
{
    const struct lm_device *d = l->m->device[device];
    enum lm_buffer_use use = place == LM_AT_PACKED ? LM_USE_MATRIX : LM_USE_WEIGHT;
    const struct lm_buft *type = d->ops->buft(d, use);
    size_t size = 0, used = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < l->n; i++) {
            struct lm_weight *w = &l->w[i];
            if (w->device != device ||
                (w->place != place && !(place == LM_AT_PLAIN && w->place == LM_AT_FLOATS)))
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
        (*out)->use = use;
    }
    return LM_OK;
}

static int open_files(struct lm_loader *l, struct lm_err *err)
{
    struct lm_split *f = l->m->files;
    f->inputs[0].in = l->m->in;
    for (size_t i = 1; i < f->n_inputs; i++)
        if (!f->inputs[i].in &&
            !(f->inputs[i].in = lm_in_open(f->inputs[i].path, LM_IN_RAW, err)))
            return lm_err_at(err, LM_EIO, "%s", f->inputs[i].path);
    return LM_OK;
}

static int map_weights(struct lm_loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    struct lm_split *f = m->files;
    int r = LM_OK;
    if (!(m->maps = lm_arena_array(&m->arena, f->n_inputs, sizeof *m->maps)))
        return lm_fail_nomem(err);
    m->n_maps = f->n_inputs;
    for (size_t i = 0; i < l->n && !r; i++) {
        struct lm_weight *w = &l->w[i];
        struct lm_map *map = &m->maps[w->file];
        const struct lm_gguf *g = f->inputs[w->file].g;
        uint64_t at = g->data_offset + w->from->offset;
        if (w->place != LM_AT_MAP)
            continue;
        if (!map->data && (r = lm_map_fd(map, lm_in_fd(f->inputs[w->file].in), err)))
            break;
        if (at > map->size || w->from->bytes > map->size - at)
            r = lm_fail(err, LM_EDATA, "%s: the file ends inside its data", w->t->name);
        else
            w->t->data = (void *)(uintptr_t)(map->data + at);   /* only read */
    }
    return r;
}

/* n values of a weight as floats, at row `first`: here or, through a copy, elsewhere. */
static int put_floats(const struct lm_weight *w, const char *src, size_t first, size_t n,
                      struct lm_err *err)
{
    struct lm_buffer *b = w->t->buffer;
    float *dst = (float *)w->t->data + first * w->t->ne[0], *f = dst;
    size_t len = n * w->t->ne[0];
    if (!b->type->ops->host && !(f = lm_malloc_array(len, sizeof *f)))
        return lm_fail_nomem(err);
    w->from->type->decode(src, f, len);
    int r = f == dst ? LM_OK : b->ops->write(b, dst, f, len * sizeof *f, err);
    if (f != dst)
        free(f);
    return r;
}

/* Is every value of rows first .. first + n - 1, as they lie in the file at src, a number? */
static int check_rows(const struct lm_weight *w, const char *src, size_t first, size_t n,
                      struct lm_err *err)
{
    const struct lm_type *type = w->from->type;
    int64_t bad = type->invalid ? type->invalid(src, n * w->t->ne[0]) : -1;
    return bad < 0 ? LM_OK
                   : lm_fail(err, LM_EDATA, "%s: value in row %zu is not finite", w->t->name,
                             first + (size_t)bad * type->block / w->t->ne[0]);
}

/* Rows first .. first + n - 1 of a weight, as they lie in the file at src. */
static int put_rows(const struct lm_weight *w, const char *src, size_t first, size_t n,
                    struct lm_err *err)
{
    const int r = check_rows(w, src, first, n, err);
    if (r)
        return r;
    if (w->place == LM_AT_FLOATS)
        return put_floats(w, src, first, n, err);
    w->t->buffer->ops->set(w->t->buffer, w->t, src, first, n);
    return LM_OK;
}

static size_t row_size(const struct lm_weight *w)
{
    return (size_t)w->from->ne[0] / w->from->type->block * w->from->type->bytes;
}

/* Rows of one read: about a chunk, and whole groups of what the buffer takes at once. */
static size_t rows_at_once(const struct lm_weight *w)
{
    size_t unit = w->place == LM_AT_PACKED ? w->t->buffer->ops->set_rows(w->t->buffer, w->t) : 1;
    size_t n = CHUNK / row_size(w) / unit;
    return unit * (n ? n : 1);
}

static int read_weight(struct lm_loader *l, const struct lm_weight *w, char *scratch,
                       struct lm_err *err)
{
    size_t rows = lm_tensor_rows(w->t), step = rows_at_once(w), row = row_size(w);
    const struct lm_split_input *f = &l->m->files->inputs[w->file];
    uint64_t at = f->g->data_offset + w->from->offset;
    for (size_t first = 0; first < rows; first += step) {
        size_t n = rows - first < step ? rows - first : step;
        if (lm_stopped(l->env))
            return lm_fail(err, LM_ESTOP, "stopped");
        int r = lm_in_pread(f->in, at + first * row, scratch, n * row, err);
        if (r)
            return lm_err_at(err, r, "%s", w->t->name);
        if ((r = put_rows(w, scratch, first, n, err)))
            return r;
    }
    return LM_OK;
}

static void read_job(void *arg, size_t i, int thread)
{
    struct lm_loader *l = arg;
    const struct lm_weight *w = &l->w[i];
    if (w->place != LM_AT_MAP)
        read_weight(l, w, l->scratch[thread], &l->errs[i]);
    else if (l->o && l->o->check)
        check_rows(w, w->t->data, 0, lm_tensor_rows(w->t), &l->errs[i]);
    size_t done = __atomic_add_fetch(&l->done, 1, __ATOMIC_RELAXED);
    if (thread == 0)
        lm_progress(l->env, "loading", done, l->n);
}

static int read_weights(struct lm_loader *l, struct lm_err *err)
{
    int threads = lm_env_threads(l->env), r = LM_OK;
    l->errs = calloc(l->n + 1, sizeof *l->errs);
    l->scratch = calloc((size_t)threads, sizeof *l->scratch);
    if (!l->errs || !l->scratch)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < l->n; i++)
        if (l->w[i].place != LM_AT_MAP) {
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
    if (!r) {
        lm_pool_run(pool, read_job, l, l->n);
        lm_progress(l->env, "loading", l->n, l->n);
    }
    lm_pool_free(pool);
    for (int i = 0; i < threads; i++)
        free(l->scratch[i]);
    for (size_t i = 0; i < l->n && !r; i++)
        if (l->errs[i].code)
            r = lm_fail(err, l->errs[i].code, "%s", l->errs[i].text);
    return r;
}

static int lock_pages(const char *data, size_t size)
{
    const long page = sysconf(_SC_PAGESIZE);
    const size_t before = page > 0 ? (uintptr_t)data % (size_t)page : 0;
    return mlock(data - before, size + before);
}

/* Keep what the CPU reads in memory. */
static int lock_weights(struct lm_loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    size_t cpu = lm_model_cpu_index(m);
    struct lm_buffer *b[2] = { m->plain[cpu], m->packed[cpu] };
    int bad = 0;
    for (size_t i = 0; i < l->n && !bad; i++)
        if (l->w[i].place == LM_AT_MAP && !l->w[i].lazy)
            bad = lock_pages(l->w[i].t->data, (size_t)l->w[i].from->bytes);
    for (size_t i = 0; i < 2 && !bad; i++)
        bad = b[i]->size ? mlock(b[i]->ops->base(b[i]), b[i]->size) : 0;
    return bad ? lm_fail_errno(err, "cannot keep the model in memory") : LM_OK;
}

int lm_load_weights(struct lm_loader *l, struct lm_err *err)
{
    struct lm_model *m = l->m;
    int r = open_files(l, err);
    if (!r)
        r = map_weights(l, err);
    for (size_t i = 0; i < m->n_devices && !r; i++)
        if (!(r = make_buffer(l, i, LM_AT_PLAIN, &m->plain[i], err)))
            r = make_buffer(l, i, LM_AT_PACKED, &m->packed[i], err);
    if (!r)
        r = read_weights(l, err);
    return r || !l->o || l->o->load != LM_LOAD_MLOCK ? r : lock_weights(l, err);
}
