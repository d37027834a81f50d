/* SPDX-License-Identifier: MIT */
#include "gguf/importance.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "gguf/gguf.h"

#define SUM2   ".in_sum2"
#define COUNTS ".counts"
#define PIECE  (1u << 20)       /* memory grows with what has arrived, this much at a time */

struct lm_importance *lm_importance_new(void)
{
    return calloc(1, sizeof(struct lm_importance));
}

void lm_importance_free(struct lm_importance *m)
{
    if (!m)
        return;
    lm_arena_release(&m->arena);
    free(m->entries);
    free(m);
}

/* Index of the first entry whose name is not below `name`. */
static size_t place(const struct lm_importance *m, const char *name)
{
    size_t lo = 0, hi = m->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(m->entries[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const struct lm_importance_entry *lm_importance_find(const struct lm_importance *m,
                                                     const char *name)
{
    size_t i = place(m, name);
    return i < m->n && !strcmp(m->entries[i].name, name) ? &m->entries[i] : NULL;
}

/* Put an entry, whose name and numbers are in the arena, at its place. */
static struct lm_importance_entry *insert(struct lm_importance *m,
                                          const struct lm_importance_entry *e)
{
    if (!e->name || !lm_grow(&m->entries, &m->cap, m->n + 1, sizeof *m->entries))
        return NULL;
    size_t i = place(m, e->name);
    memmove(m->entries + i + 1, m->entries + i, (m->n - i) * sizeof *m->entries);
    m->entries[i] = *e;
    m->n++;
    return &m->entries[i];
}

struct lm_importance_entry *lm_importance_add(struct lm_importance *m, const char *name,
                                              uint64_t width, uint64_t n_mat)
{
    uint64_t n;
    if (!lm_mul_u64(width, n_mat, &n) || n > SIZE_MAX)
        return NULL;
    struct lm_importance_entry e = {
        .name = lm_arena_copy(&m->arena, name, strlen(name)), .width = width, .n_mat = n_mat,
        .sum2 = lm_arena_array(&m->arena, (size_t)n, sizeof(float)),
        .counts = lm_arena_array(&m->arena, (size_t)n_mat, sizeof(float)),
    };
    return e.sum2 && e.counts ? insert(m, &e) : NULL;
}

int lm_importance_set_datasets(struct lm_importance *m, const char *const *names, size_t n,
                               struct lm_err *err)
{
    const char **list = lm_arena_array(&m->arena, n ? n : 1, sizeof *list);
    if (!list)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        if (!(list[i] = lm_arena_copy(&m->arena, names[i], strlen(names[i]))))
            return lm_fail_nomem(err);
    m->datasets = list;
    m->n_datasets = n;
    return LM_OK;
}

/* ---- reading ------------------------------------------------------------- */

/* Bytes of n numbers, in place, to floats: nothing below 0, infinite or NaN.  `first` is the
 * number of the first one. */
static int take_floats(float *v, size_t n, bool big, const char *name, uint64_t first,
                       struct lm_err *err)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t p[4];
        memcpy(p, v + i, 4);
        uint32_t u = big ? (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]
                         : (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
        memcpy(v + i, &u, 4);
        if (!(v[i] >= 0) || isinf(v[i]))
            return lm_fail(err, LM_EDATA, "%s: number %" PRIu64 " is %g", name, first + i,
                           (double)v[i]);
    }
    return LM_OK;
}

/* n floats from the input: in the arena to *to, or, without to, only looked at. */
static int read_floats(struct lm_importance *m, struct lm_in *in, uint64_t n, bool big,
                       const char *name, float **to, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    uint64_t bytes;
    int s = LM_OK;
    if (!lm_mul_u64(n, 4, &bytes) || bytes > SIZE_MAX)
        return lm_fail(err, LM_EDATA, "%s: %" PRIu64 " numbers", name, n);
    for (uint64_t done = 0; done < n && !s; ) {
        const size_t some = n - done < PIECE / 4 ? (size_t)(n - done) : PIECE / 4;
        char *p = lm_buf_room(&b, some * 4);
        s = !p ? lm_fail_nomem(err) : lm_in_read_all(in, p, some * 4, err);
        if (p && s)
            lm_err_at(err, s = LM_EDATA, "%s", name);
        if (!s)
            s = take_floats((float *)(void *)p, some, big, name, done, err);
        if (to)
            b.len += some * 4;
        done += some;
    }
    if (!s && to && !(*to = lm_arena_array(&m->arena, n ? (size_t)n : 1, sizeof **to)))
        s = lm_fail_nomem(err);
    if (!s && to && n)
        memcpy(*to, b.data, (size_t)bytes);
    lm_buf_release(&b);
    return s;
}

int lm_importance_means(const struct lm_importance_entry *e, float *out, struct lm_err *err)
{
    const size_t n = (size_t)(e->n_mat * e->width);
    int s = LM_OK;
    if (e->sum2)
        memcpy(out, e->sum2, n * sizeof *out);
    else if ((s = lm_in_pread(e->in, e->at, out, n * sizeof *out, err)) ||
             (s = take_floats(out, n, e->big_endian, e->name, 0, err)))
        return lm_err_at(err, s, "%s", lm_in_name(e->in));
    for (uint64_t k = 0; k < e->n_mat; k++) {
        float count = roundf(e->counts[k]);
        for (uint64_t i = 0; i < e->width; i++, out++)
            *out = count > 0 ? *out / count : 1.0f;
    }
    return s;
}

static bool ends_in(const struct lm_str *s, const char *end)
{
    size_t n = strlen(end);
    return s->len > n && !memcmp(s->p + s->len - n, end, n);
}

static int by_offset(const void *a, const void *b)
{
    const struct lm_gguf_tensor *x = *(const struct lm_gguf_tensor *const *)a;
    const struct lm_gguf_tensor *y = *(const struct lm_gguf_tensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* "DEVICE#NAME#COPY" is the weight NAME on a device. */
static const char *plain_name(char *name)
{
    char *from = strchr(name, '#'), *to = from ? strchr(from + 1, '#') : NULL;
    if (!from)
        return name;
    if (to)
        *to = 0;
    return from + 1;
}

/* The entry that a tensor belongs to, made if it is new (its numbers still NULL). */
static struct lm_importance_entry *entry_of(struct lm_importance *m, const struct lm_str *s,
                                            size_t end)
{
    char *copy = lm_arena_copy(&m->arena, s->p, s->len - end);
    if (!copy)
        return NULL;
    const char *name = plain_name(copy);
    struct lm_importance_entry *old = (struct lm_importance_entry *)lm_importance_find(m, name);
    if (old)
        return old;
    struct lm_importance_entry e = { .name = name };
    return insert(m, &e);
}

static int read_tensor(struct lm_importance *m, struct lm_in *in, bool stay,
                       const struct lm_gguf *g, const struct lm_gguf_tensor *t,
                       struct lm_err *err)
{
    uint64_t at = g->data_offset + t->offset, n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    bool sums = ends_in(&t->name, SUM2);
    if (!sums && !ends_in(&t->name, COUNTS))
        return LM_OK;
    if (t->type_id != LM_F32)
        return lm_fail(err, LM_EDATA, "%s: not f32", t->name.p);
    if (n == 0)
        return lm_fail(err, LM_EDATA, "%s: no numbers", t->name.p);
    if (at < lm_in_pos(in))
        return lm_fail(err, LM_EDATA, "%s: overlaps other data", t->name.p);
    int s = lm_in_skip(in, at - lm_in_pos(in), err);
    if (s)
        return lm_err_at(err, s, "%s", t->name.p);
    float *v = NULL;
    if ((s = read_floats(m, in, n, g->big_endian, t->name.p, sums && stay ? NULL : &v, err)))
        return s;
    struct lm_importance_entry *e = entry_of(m, &t->name, strlen(sums ? SUM2 : COUNTS));
    if (!e)
        return lm_fail_nomem(err);
    if (sums) {
        e->sum2 = v;
        e->in = in;
        e->at = at;
        e->big_endian = g->big_endian;
        e->width = t->ne[0];
        e->n_mat = e->n_mat ? e->n_mat : n / t->ne[0];
        if (e->width * e->n_mat != n)
            return lm_fail(err, LM_EDATA, "%s: %" PRIu64 " sums for %" PRIu64 " counts",
                           e->name, n, e->n_mat);
        return LM_OK;
    }
    e->counts = v;
    if (e->width && e->n_mat != n)
        return lm_fail(err, LM_EDATA, "%s: %" PRIu64 " counts for %" PRIu64 " matrices",
                       e->name, n, e->n_mat);
    e->n_mat = n;
    return LM_OK;
}

static int read_keys(struct lm_importance *m, const struct lm_gguf *g, struct lm_err *err)
{
    struct lm_str type = { "", 0 };
    struct lm_gguf_arr names = { 0 };
    int s = lm_gguf_str(g, "general.type", &type, err);
    if (s < 0)
        return s;
    if (type.len != 7 || memcmp(type.p, "imatrix", 7))
        return lm_fail(err, LM_EDATA, "general.type is not \"imatrix\": no importance matrix");
    static const char *const keys[] = { "imatrix.chunk_count", "imatrix.chunk_size" };
    uint32_t *const to[] = { &m->chunk_count, &m->chunk_size };
    for (int i = 0; i < 2; i++)
        if ((s = lm_gguf_u32(g, keys[i], to[i], err)))
            return s < 0 ? s : lm_fail(err, LM_EDATA, "no %s", keys[i]);
    s = lm_gguf_arr(g, "imatrix.datasets", LM_GGUF_STR, &names, err);
    if (s)
        return s < 0 ? s : lm_fail(err, LM_EDATA, "no imatrix.datasets");
    const struct lm_str *str = names.data;
    m->datasets = lm_arena_array(&m->arena, names.n ? (size_t)names.n : 1, sizeof(char *));
    if (!m->datasets)
        return lm_fail_nomem(err);
    for (; m->n_datasets < names.n; m->n_datasets++) {
        const struct lm_str *d = &str[m->n_datasets];
        if (!(m->datasets[m->n_datasets] = lm_arena_copy(&m->arena, d->p, d->len)))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}

static int read_tensors(struct lm_importance *m, struct lm_in *in, bool stay,
                        const struct lm_gguf *g, struct lm_err *err)
{
    const struct lm_gguf_tensor **order = lm_malloc_array((size_t)g->n_tensors + 1,
                                                          sizeof *order);
    if (!order)
        return lm_fail_nomem(err);
    int s = LM_OK;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        order[i] = &g->tensors[i];
    qsort(order, (size_t)g->n_tensors, sizeof *order, by_offset);
    for (uint64_t i = 0; i < g->n_tensors && !s; i++)
        s = read_tensor(m, in, stay, g, order[i], err);
    free(order);
    for (size_t i = 0; i < m->n && !s; i++)
        if (!m->entries[i].width || !m->entries[i].counts)
            s = lm_fail(err, LM_EDATA, "%s: no %s", m->entries[i].name,
                        m->entries[i].width ? "counts" : "sums");
    return s;
}

static int read_gguf(struct lm_importance *m, struct lm_in *in, bool stay, struct lm_err *err)
{
    struct lm_gguf *g = lm_gguf_read(in, true, err);
    if (!g)
        return err ? (int)err->code : LM_EDATA;
    int s = read_keys(m, g, err);
    if (!s)
        s = read_tensors(m, in, stay, g, err);
    lm_gguf_free(g);
    return s;
}

static int read_i32(struct lm_in *in, int32_t *v, struct lm_err *err)
{
    uint8_t p[4];
    int s = lm_in_read_all(in, p, 4, err);
    if (!s)
        *v = (int32_t)((uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]);
    return s;
}

/* A length and that many bytes, as a string. */
static int read_name(struct lm_importance *m, struct lm_in *in, const char **name,
                     struct lm_err *err)
{
    char buf[4096];
    int32_t n;
    int s = read_i32(in, &n, err);
    if (s)
        return s;
    if (n < 0 || n > (int32_t)sizeof buf)
        return lm_fail(err, LM_EDATA, "not an importance matrix: a name of %" PRId32 " bytes", n);
    if ((s = lm_in_read_all(in, buf, (size_t)n, err)))
        return s;
    char *copy = lm_arena_copy(&m->arena, buf, (size_t)n);
    *name = copy ? plain_name(copy) : NULL;
    return *name ? LM_OK : lm_fail_nomem(err);
}

static int read_legacy_entry(struct lm_importance *m, struct lm_in *in, bool stay,
                             struct lm_err *err)
{
    struct lm_importance_entry e = { .n_mat = 1, .in = in };
    int32_t calls, n;
    int s = read_name(m, in, &e.name, err);
    if (s || (s = read_i32(in, &calls, err)) || (s = read_i32(in, &n, err)))
        return s;
    if (n < 1 || lm_importance_find(m, e.name))
        return lm_fail(err, LM_EDATA, n < 1 ? "%s: no values" : "%s: twice", e.name);
    e.width = (uint64_t)n;
    e.at = lm_in_pos(in);
    if ((s = read_floats(m, in, e.width, false, e.name, stay ? NULL : &e.sum2, err)))
        return s;
    e.counts = lm_arena_array(&m->arena, 1, sizeof(float));
    if (!e.counts || !insert(m, &e))
        return lm_fail_nomem(err);
    e.counts[0] = calls > 0 ? (float)calls : 1;
    return LM_OK;
}

static int read_legacy(struct lm_importance *m, struct lm_in *in, bool stay, struct lm_err *err)
{
    int32_t n, chunks;
    int s = read_i32(in, &n, err);
    m->legacy = true;
    if (!s && n < 1)
        return lm_fail(err, LM_EDATA, "not an importance matrix");
    for (int32_t i = 0; i < n && !s; i++)
        s = read_legacy_entry(m, in, stay, err);
    char more;
    size_t got = 0;
    if (s || (s = lm_in_peek(in, &more, 1, &got, err)) || !got)
        return s;
    m->datasets = lm_arena_array(&m->arena, 1, sizeof(char *));
    if (!m->datasets)
        return lm_fail_nomem(err);
    if ((s = read_i32(in, &chunks, err)) || (s = read_name(m, in, &m->datasets[0], err)))
        return s;
    m->chunk_count = chunks > 0 ? (uint32_t)chunks : 0;
    m->n_datasets = 1;
    return LM_OK;
}

/* With sums in the file where they can stay. */
static struct lm_importance *read_some(struct lm_in *in, bool stay, struct lm_err *err)
{
    struct lm_importance *m = lm_importance_new();
    char magic[4];
    size_t got = 0;
    if (!m) {
        lm_fail_nomem(err);
        return NULL;
    }
    const bool failed = lm_in_peek(in, magic, 4, &got, err) != LM_OK;
    const bool old = got == 4 && memcmp(magic, "GGUF", 4);
    if (failed || (old ? read_legacy(m, in, stay, err) : read_gguf(m, in, stay, err))) {
        lm_importance_free(m);
        return NULL;
    }
    return m;
}

struct lm_importance *lm_importance_read(struct lm_in *in, struct lm_err *err)
{
    return read_some(in, false, err);
}

struct lm_importance *lm_importance_open(struct lm_in *in, struct lm_err *err)
{
    return read_some(in, lm_in_seekable(in), err);
}

/* ---- writing ------------------------------------------------------------- */

static void add_tensor(struct lm_gguf_writer *w, struct lm_buf *b, const char *name,
                       const char *end, uint64_t width, uint64_t n_mat)
{
    const uint64_t ne[2] = { width, n_mat };
    lm_buf_clear(b);
    lm_buf_str(b, name);
    lm_buf_str(b, end);
    if (!b->failed)
        lm_gguf_add_tensor(w, b->data, b->len, 2, ne, lm_type_by_id(LM_F32));
}

/* ---- the old form -------------------------------------------------------- */

void lm_importance_from_old(struct lm_importance *m, uint32_t chunk)
{
    if (!m->legacy)
        return;
    for (size_t i = 0; i < m->n; i++) {
        struct lm_importance_entry *e = &m->entries[i];
        for (uint64_t k = 0; k < e->width * e->n_mat; k++)
            e->sum2[k] *= (float)chunk;
        for (uint64_t k = 0; k < e->n_mat; k++)
            e->counts[k] *= (float)chunk;
    }
    m->chunk_size = chunk;
    m->legacy = false;
}

static void add_i32(struct lm_buf *b, int32_t v)
{
    for (int k = 0; k < 4; k++)
        lm_buf_byte(b, (int)((uint32_t)v >> 8 * k & 255));
}

static void add_text(struct lm_buf *b, const char *s)
{
    add_i32(b, (int32_t)strlen(s));
    lm_buf_str(b, s);
}

/* Means times the number of chunks that the matrix with most tokens saw. */
static void add_old_entry(struct lm_buf *b, const struct lm_importance_entry *e, uint32_t chunk,
                          float *means)
{
    float most = 0;
    for (uint64_t k = 0; k < e->n_mat; k++)
        most = e->counts[k] > most ? e->counts[k] : most;
    int32_t calls = (int32_t)(most / (float)(chunk ? chunk : 1) + 0.5f);
    calls = calls > 0 ? calls : 1;
    add_text(b, e->name);
    add_i32(b, calls);
    add_i32(b, (int32_t)(e->width * e->n_mat));
    lm_importance_means(e, means, NULL);          /* its sums are in memory */
    for (uint64_t i = 0; i < e->width * e->n_mat; i++) {
        const float v = means[i] * (float)calls;
        uint32_t u;
        memcpy(&u, &v, 4);
        add_i32(b, (int32_t)u);
    }
}

int lm_importance_write_old(const struct lm_importance *m, struct lm_out *out,
                            struct lm_err *err)
{
    struct lm_buf b = { 0 };
    int s = m->n > INT32_MAX ? lm_fail(err, LM_EUSE, "%zu entries are too many", m->n) : LM_OK;
    add_i32(&b, (int32_t)m->n);
    for (size_t i = 0; i < m->n && s == LM_OK; i++) {
        const struct lm_importance_entry *e = &m->entries[i];
        float *means = NULL;
        if (e->width * e->n_mat > INT32_MAX)
            s = lm_fail(err, LM_EUSE, "%s: %" PRIu64 " values are too many for the old form",
                        e->name, e->width * e->n_mat);
        else if (!(means = lm_malloc_array((size_t)(e->width * e->n_mat), sizeof *means)))
            s = lm_fail_nomem(err);
        else
            add_old_entry(&b, e, m->chunk_size, means);
        free(means);
        if (s == LM_OK)
            s = b.failed ? lm_fail_nomem(err) : lm_out_write(out, b.data, b.len, err);
        lm_buf_clear(&b);
    }
    if (s == LM_OK) {
        add_i32(&b, (int32_t)m->chunk_count);
        add_text(&b, m->n_datasets ? m->datasets[m->n_datasets - 1] : "");
        s = b.failed ? lm_fail_nomem(err) : lm_out_write(out, b.data, b.len, err);
    }
    lm_buf_release(&b);
    return s;
}

/* ---- the GGUF form ------------------------------------------------------- */

static int write_floats(const struct lm_gguf_writer *w, struct lm_out *out, const float *v,
                        uint64_t n, struct lm_err *err)
{
    uint8_t buf[4096];
    size_t len = 0;
    int s = LM_OK;
    for (uint64_t i = 0; i < n && !s; i++) {
        uint32_t u;
        memcpy(&u, &v[i], 4);
        for (int k = 0; k < 4; k++)
            buf[len++] = (uint8_t)(u >> 8 * k);
        if (len == sizeof buf || i + 1 == n) {
            s = lm_out_write(out, buf, len, err);
            len = 0;
        }
    }
    return s ? s : lm_gguf_write_pad(w, out, n * 4, err);
}

static void set_keys(const struct lm_importance *m, struct lm_gguf_writer *w,
                     struct lm_str *names)
{
    for (size_t i = 0; i < m->n_datasets; i++)
        names[i] = (struct lm_str){ m->datasets[i], strlen(m->datasets[i]) };
    lm_gguf_set_str(w, "general.type", "imatrix", 7);
    lm_gguf_set_arr(w, "imatrix.datasets", LM_GGUF_STR, names, m->n_datasets);
    lm_gguf_set_u32(w, "imatrix.chunk_count", m->chunk_count);
    lm_gguf_set_u32(w, "imatrix.chunk_size", m->chunk_size);
}

static int write_data(const struct lm_importance *m, const struct lm_gguf_writer *w,
                      struct lm_out *out, struct lm_err *err)
{
    int s = lm_gguf_write_head(w, out, err);
    for (size_t i = 0; i < m->n && !s; i++) {
        const struct lm_importance_entry *e = &m->entries[i];
        s = write_floats(w, out, e->sum2, e->width * e->n_mat, err);
        if (!s)
            s = write_floats(w, out, e->counts, e->n_mat, err);
    }
    return s;
}

int lm_importance_write(const struct lm_importance *m, struct lm_out *out, struct lm_err *err)
{
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_str *names = lm_malloc_array(m->n_datasets + 1, sizeof *names);
    struct lm_buf b = { 0 };
    int s = LM_ENOMEM;
    if (w && names) {
        set_keys(m, w, names);
        for (size_t i = 0; i < m->n; i++) {
            const struct lm_importance_entry *e = &m->entries[i];
            add_tensor(w, &b, e->name, SUM2, e->width, e->n_mat);
            add_tensor(w, &b, e->name, COUNTS, 1, e->n_mat);
        }
        if (!b.failed)
            s = write_data(m, w, out, err);
    }
    if (s == LM_ENOMEM)
        lm_fail_nomem(err);
    lm_buf_release(&b);
    free(names);
    lm_gguf_writer_free(w);
    return s;
}
