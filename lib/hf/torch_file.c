/* SPDX-License-Identifier: MIT */
/* PyTorch's zip files (layout in torch_file.h). */

#include "hf/torch_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/packed.h"
#include "hf/pickle.h"

enum { MOST_PICKLE = 1 << 27 };     /* bytes */

struct torch_file {
    const struct lm_zip_bytes *file;
    struct lm_archive_index    index;
    const char                *root;        /* "NAME/"                                     */
    size_t                     root_len;
    size_t                     number;
    bool                       swap;
    struct lm_arena           *a;
};

/* Put what is no such file into words. */
static int not_torch(const uint8_t *head, size_t n, struct lm_err *err)
{
    static const char lfs[] = "version https://git-lfs";
    if (n == 0)
        return lm_fail(err, LM_EDATA, "is empty");
    if (n >= sizeof lfs - 1 && !memcmp(head, lfs, sizeof lfs - 1))
        return lm_fail(err, LM_EDATA, "is a Git LFS pointer, not the weights (git lfs pull "
                       "fetches them)");
    if (n >= 2 && head[0] == 0x80 && head[1] < 6)
        return lm_fail(err, LM_ENOSUP, "is a checkpoint in PyTorch's form before version 1.6: load "
                       "and save it with a later one");
    return lm_fail(err, LM_EDATA, "is no checkpoint of PyTorch: no zip file");
}

static int by_member(const void *a, const void *b)
{
    return strcmp(((const struct lm_member *)a)->name, ((const struct lm_member *)b)->name);
}

/* A member below the file's folder, or NULL. */
static const struct lm_member *member(const struct torch_file *t, const char *dir,
                                      const char *name)
{
    char path[600];
    const size_t n = t->root_len + strlen(dir) + strlen(name);
    if (n >= sizeof path)
        return NULL;
    memcpy(path, t->root, t->root_len);
    strcpy(path + t->root_len, dir);
    strcat(path, name);
    const struct lm_member key = { .name = path };
    return bsearch(&key, t->index.members, t->index.n, sizeof *t->index.members, by_member);
}

static const struct lm_member *find_pickle(struct torch_file *t)
{
    for (size_t i = 0; i < t->index.n; i++) {
        const char *name = t->index.members[i].name, *slash = strchr(name, '/');
        if (slash && !strcmp(slash, "/data.pkl")) {
            t->root = name;
            t->root_len = (size_t)(slash - name) + 1;
            return &t->index.members[i];
        }
    }
    return NULL;
}

static int read_order(struct torch_file *t, struct lm_err *err)
{
    const struct lm_member *m = member(t, "", "byteorder");
    char text[8] = "little";
    if (!m)
        return LM_OK;
    if (m->size >= sizeof text)
        return lm_fail(err, LM_EDATA, "byteorder: too long");
    memset(text, 0, sizeof text);
    const int r = t->file->pread(t->file->user, m->offset, text, (size_t)m->size, err);
    t->swap = !strcmp(text, "big");
    if (!r && !t->swap && strcmp(text, "little"))
        return lm_fail(err, LM_EDATA, "byteorder: is neither little nor big");
    return r;
}

/* Elements from the first to behind the last; false when beyond 64 bits. */
static bool reach(const struct lm_pickle_tensor *t, uint64_t *n)
{
    *n = 1;
    for (uint32_t d = 0; d < t->n_dims; d++) {
        uint64_t far;
        if (t->shape[d] == 0) {
            *n = 0;
            return true;
        }
        if (!lm_mul_u64(t->shape[d] - 1, t->stride[d], &far) || !lm_add_u64(*n, far, n))
            return false;
    }
    return true;
}

static bool in_order(const struct lm_pickle_tensor *t)
{
    uint64_t dense = 1;
    for (uint32_t d = t->n_dims; d-- > 0; dense *= t->shape[d])
        if (t->shape[d] != 1 && t->stride[d] != dense)
            return false;
    return true;
}

/* Axes or bytes in another order. */
static int lay(struct torch_file *f, const struct lm_pickle_tensor *t, struct lm_st_tensor *out,
               struct lm_err *err)
{
    struct lm_packed *p = lm_arena_array(f->a, 1, sizeof *p);
    struct lm_st_tensor *data = lm_arena_array(f->a, 1, sizeof *data);
    if (!p || !data)
        return lm_fail_nomem(err);
    if (out->dtype->type_id < 0)
        return lm_fail(err, LM_ENOSUP, "values of type %s that do not lie in order",
                       out->dtype->name);
    *data = *out;
    *p = (struct lm_packed){ .kind = LM_PACKED_LAID, .swap = f->swap,
                             .type = lm_type_by_id((uint32_t)out->dtype->type_id) };
    p->part[LM_PART_DATA].st = data;
    p->part[LM_PART_DATA].file = f->number;
    memcpy(p->stride, t->stride, sizeof p->stride);
    out->packed = p;
    return LM_OK;
}

static int place(struct torch_file *f, const struct lm_pickle_tensor *t, struct lm_st_tensor *out,
                 struct lm_err *err)
{
    const struct lm_member *m = member(f, "data/", t->storage);
    uint64_t n, end, elements = 1;
    *out = (struct lm_st_tensor){ .name = t->name, .n_dims = t->n_dims };
    out->dtype = lm_safetensors_dtype(t->dtype);
    memcpy(out->shape, t->shape, sizeof out->shape);
    if (!m)
        return lm_fail(err, LM_EDATA, "its storage %.60s is missing", t->storage);
    for (uint32_t d = 0; d < t->n_dims; d++)
        if (!lm_mul_u64(elements, t->shape[d], &elements))
            return lm_fail(err, LM_EDATA, "shape is beyond 64 bits");
    if (!reach(t, &n) || !lm_add_u64(t->offset, n, &end) ||
        !lm_mul_u64(end, out->dtype->bytes, &end) || end > m->size ||
        !lm_mul_u64(elements, out->dtype->bytes, &out->bytes))
        return lm_fail(err, LM_EDATA, "lies beyond its storage of %llu bytes",
                       (unsigned long long)m->size);
    out->begin = m->offset + t->offset * out->dtype->bytes;
    const bool ordered = in_order(t) && (!f->swap || out->dtype->bytes == 1);
    return ordered || !elements ? LM_OK : lay(f, t, out, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lm_st_tensor *)a)->name,
                  ((const struct lm_st_tensor *)b)->name);
}

static int read_tensors(struct torch_file *f, struct lm_safetensors *st, const uint8_t *pickle,
                        size_t len, struct lm_err *err)
{
    struct lm_pickle_tensor *list;
    size_t n;
    int r = lm_pickle_read(f->a, pickle, len, &list, &n, err);
    if (r)
        return lm_err_at(err, r, "data.pkl");
    st->tensors = lm_arena_array(f->a, n + 1, sizeof *st->tensors);
    if (!st->tensors)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++) {
        r = place(f, &list[i], &st->tensors[i], err);
        if (r)
            return lm_err_at(err, r, "%.200s", list[i].name);
    }
    st->n_tensors = n;
    if (n)
        qsort(st->tensors, n, sizeof *st->tensors, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(st->tensors[i - 1].name, st->tensors[i].name))
            return lm_fail(err, LM_EDATA, "%.200s: is there twice", st->tensors[i].name);
    return LM_OK;
}

static int read_zip(struct torch_file *f, struct lm_safetensors *st, struct lm_err *err)
{
    if (f->index.n)
        qsort(f->index.members, f->index.n, sizeof *f->index.members, by_member);
    const struct lm_member *m = find_pickle(f);
    if (!m)
        return lm_fail(err, LM_EDATA, "is no checkpoint of PyTorch: a zip file without data.pkl");
    if (m->size > MOST_PICKLE)
        return lm_fail(err, LM_EDATA, "data.pkl: %llu bytes: too large to be what its name says",
                       (unsigned long long)m->size);
    uint8_t *pickle = malloc((size_t)m->size + 1);
    int r = pickle ? f->file->pread(f->file->user, m->offset, pickle, (size_t)m->size, err)
                   : lm_fail_nomem(err);
    if (!r)
        r = read_order(f, err);
    if (!r)
        r = read_tensors(f, st, pickle, (size_t)m->size, err);
    free(pickle);
    return r;
}

int lm_torch_read(struct lm_safetensors *st, struct lm_arena *a, const struct lm_zip_bytes *file,
                  size_t number, struct lm_err *err)
{
    struct torch_file f = { .file = file, .number = number, .a = a };
    struct lm_err own = {0};
    uint8_t head[32];
    const size_t n = file->size < sizeof head ? (size_t)file->size : sizeof head;
    err = err ? err : &own;
    *st = (struct lm_safetensors){0};
    int r = file->pread(file->user, 0, head, n, err);
    if (!r && (n < 4 || memcmp(head, "PK", 2)))
        r = not_torch(head, n, err);
    if (r)
        return r;
    r = lm_zip_members(file, &f.index, err);
    if (r == 0)
        r = lm_fail(err, LM_EDATA, "is a zip file that is cut short, or compressed");
    r = r > 0 ? read_zip(&f, st, err) : r;
    free(f.index.members);
    lm_arena_release(&f.index.names);
    return r;
}
