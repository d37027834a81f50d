/* SPDX-License-Identifier: MIT */
#include "gguf/split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "gguf/gguf_internal.h"

#define BLOCK (1024 * 1024)

static const char key_no[] = "split.no", key_count[] = "split.count",
                  key_tensors[] = "split.tensors.count", key_alignment[] = "general.alignment";

static bool is_key(const struct lm_gguf_kv *kv, const char *key)
{
    return kv->key.len == strlen(key) && !memcmp(kv->key.p, key, kv->key.len);
}

static bool is_split_key(const struct lm_gguf_kv *kv)
{
    return is_key(kv, key_no) || is_key(kv, key_count) || is_key(kv, key_tensors);
}

static const struct lm_gguf *meta(const struct lm_split *s)
{
    return s->inputs[0].g;
}

bool lm_split_is_shard(const struct lm_split *s)
{
    uint32_t n = 0;
    return lm_gguf_u32(meta(s), key_count, &n, NULL) == LM_OK && n > 0;
}

/* ---- input --------------------------------------------------------------- */

/* Which shard of how many a file says it is; 0 of 0 when it is none. */
static int read_numbers(const struct lm_gguf *g, uint32_t *no, uint32_t *n, struct lm_err *err)
{
    *no = *n = 0;
    int s = lm_gguf_u32(g, key_count, n, err);
    if (s >= 0 && *n)
        s = lm_gguf_u32(g, key_no, no, err);
    if (s == 1 && *n)
        s = lm_fail(err, LM_EDATA, "has the key %s, but not %s", key_count, key_no);
    if (s >= 0 && *n > LM_SPLIT_MAX_SHARDS)
        s = lm_fail(err, LM_EDATA, "key %s: claims %u shards", key_count, *n);
    return s < 0 ? s : LM_OK;
}

/* A later shard has no metadata of its own; what it has all the same is not kept. */
static void note_lost_keys(const struct lm_split *s, size_t k, const struct lm_env *env)
{
    const struct lm_gguf *g = s->inputs[k].g;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct lm_gguf_kv *kv = &g->kv[i];
        if (is_split_key(kv) || is_key(kv, key_alignment) || lm_gguf_kv(meta(s), kv->key.p))
            continue;
        lm_note(env, LM_WARN, "%s: key %.*s is not in the first shard, and left out",
                s->inputs[k].path, LM_NAME_ARG(kv->key));
        return;
    }
}

static int check_shard(const struct lm_split *s, size_t k, struct lm_err *err)
{
    uint32_t no, n;
    const struct lm_gguf *g = s->inputs[k].g;
    int r = read_numbers(g, &no, &n, err);
    if (r != LM_OK)
        return r;
    if (no != k || n != s->n_inputs)
        return lm_fail(err, LM_EDATA, "says it is shard %u of %u, and not %zu of %zu",
                       no + (n > 0), n, k + 1, s->n_inputs);
    if (g->big_endian != meta(s)->big_endian)
        return lm_fail(err, LM_ENOSUP, "is %s-endian, unlike the first shard",
                       g->big_endian ? "big" : "little");
    return LM_OK;
}

/* Read the header of shard k > 0, and close it again: there may be more shards than files
 * a process can have open.  path NULL: it is called as the first one is. */
static int read_shard(struct lm_split *s, size_t k, const char *path, const struct lm_env *env,
                      int flags, struct lm_err *err)
{
    struct lm_split_input *f = &s->inputs[k];
    const char *first = s->inputs[0].path;
    f->path = path ? strdup(path)
                   : lm_gguf_shard_path(first, (uint32_t)k, (uint32_t)s->n_inputs);
    if (!f->path && path)
        return lm_fail_nomem(err);
    if (!f->path)
        return lm_fail(err, LM_EUSE, "%s: the first of %zu shards, whose others cannot be found: "
                       "it is not called NAME-00001-of-%05zu.gguf", first, s->n_inputs,
                       s->n_inputs);
    struct lm_in *in = lm_in_open(f->path, flags, err);
    f->g = in ? lm_gguf_read(in, true, err) : NULL;
    lm_in_close(in);
    int r = f->g ? check_shard(s, k, err) : (int)err->code;
    if (r == LM_OK)
        note_lost_keys(s, k, env);
    return r == LM_OK ? r : lm_err_at(err, r, "%s", f->path);
}

static int read_first(struct lm_split *s, struct lm_in *in, struct lm_err *err)
{
    uint32_t no, n;
    struct lm_split_input *f = calloc(1, sizeof *f);
    if (!f)
        return lm_fail_nomem(err);
    s->inputs = f;
    s->n_inputs = 1;
    f->in = in;
    f->path = strdup(lm_in_name(in));
    if (!f->path)
        return lm_fail_nomem(err);
    f->g = lm_gguf_read(in, true, err);
    s->padded = f->g && lm_in_pos(in) == f->g->data_offset;
    int r = f->g ? read_numbers(f->g, &no, &n, err) : (int)err->code;
    if (r == LM_OK && n && no)
        r = lm_fail(err, LM_EUSE, "is shard %u of %u: the first is wanted", no + 1, n);
    if (r != LM_OK)
        return lm_err_at(err, r, "%s", f->path);
    if (n <= 1)
        return LM_OK;
    f = calloc(n, sizeof *f);
    if (!f)
        return lm_fail_nomem(err);
    f[0] = s->inputs[0];
    free(s->inputs);
    s->inputs = f;
    s->n_inputs = n;
    return LM_OK;
}

static int by_place(const void *x, const void *y)
{
    const struct lm_split_tensor *a = x, *b = y;
    if (a->input != b->input)
        return a->input < b->input ? -1 : 1;
    return a->t->offset != b->t->offset ? (a->t->offset < b->t->offset ? -1 : 1)
                                        : (a->t > b->t) - (a->t < b->t);
}

static int by_name(const void *x, const void *y)
{
    const struct lm_split_tensor *a = x, *b = y;
    const struct lm_str *p = &a->t->name, *q = &b->t->name;
    const int c = memcmp(p->p, q->p, p->len < q->len ? p->len : q->len);
    return c ? c : (p->len > q->len) - (p->len < q->len);
}

/* All tensors, none twice, as many as there should be. */
static int list_tensors(struct lm_split *s, struct lm_err *err)
{
    int64_t want = 0;
    uint64_t n = 0;
    for (size_t k = 0; k < s->n_inputs; k++)
        s->n_tensors += s->inputs[k].g->n_tensors;
    if (s->n_tensors > INT32_MAX)
        return lm_fail(err, LM_EDATA, "%s: %llu tensors are more than %s can count",
                       s->inputs[0].path, (unsigned long long)s->n_tensors, key_tensors);
    s->tensors = lm_malloc_array((size_t)s->n_tensors, sizeof *s->tensors);
    if (!s->tensors)
        return lm_fail_nomem(err);
    for (size_t k = 0; k < s->n_inputs; k++)
        for (uint64_t i = 0; i < s->inputs[k].g->n_tensors; i++)
            s->tensors[n++] = (struct lm_split_tensor){ &s->inputs[k].g->tensors[i], k };
    if (n)
        qsort(s->tensors, (size_t)n, sizeof *s->tensors, by_name);
    for (uint64_t i = 1; i < n; i++)
        if (!by_name(&s->tensors[i - 1], &s->tensors[i]))
            return lm_fail(err, LM_EDATA, "%s: tensor %.*s is also in %s",
                           s->inputs[s->tensors[i].input].path, LM_NAME_ARG(s->tensors[i].t->name),
                           s->inputs[s->tensors[i - 1].input].path);
    if (n)
        qsort(s->tensors, (size_t)n, sizeof *s->tensors, by_place);
    if (!lm_split_is_shard(s))
        return LM_OK;
    int r = lm_gguf_i64(meta(s), key_tensors, &want, err);
    if (r < 0)
        return lm_err_at(err, r, "%s", s->inputs[0].path);
    if (r == LM_OK && (uint64_t)want != n)
        return lm_fail(err, LM_EDATA, "%s: the shards should hold %lld tensors, but have %llu",
                       s->inputs[0].path, (long long)want, (unsigned long long)n);
    return LM_OK;
}

struct lm_split *lm_split_open(struct lm_in *in, int flags, const struct lm_env *env,
                               struct lm_err *err)
{
    return lm_split_open_list(in, NULL, 0, flags, env, err);
}

struct lm_split *lm_split_open_list(struct lm_in *in, const char *const *paths, size_t n, int flags,
                                    const struct lm_env *env, struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    struct lm_split *s = calloc(1, sizeof *s);
    if (!s) {
        lm_fail_nomem(err);
        return NULL;
    }
    s->long_window = flags & LM_IN_LONG;
    int r = read_first(s, in, err);
    if (r == LM_OK && n && n + 1 != s->n_inputs)
        r = lm_fail(err, LM_EUSE, "%s: has %zu shards, and %zu files are given", s->inputs[0].path,
                    s->n_inputs, n + 1);
    for (size_t k = 1; k < s->n_inputs && r == LM_OK; k++)
        r = read_shard(s, k, n ? paths[k - 1] : NULL, env, flags, err);
    if (r == LM_OK)
        r = list_tensors(s, err);
    if (r == LM_OK)
        return s;
    lm_split_free(s);
    return NULL;
}

struct lm_split *lm_split_of(struct lm_gguf *g, const char *name, struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    struct lm_split *s = calloc(1, sizeof *s);
    struct lm_split_input *f = calloc(1, sizeof *f);
    if (!s || !f) {
        free(s);
        free(f);
        lm_gguf_free(g);
        lm_fail_nomem(err);
        return NULL;
    }
    *f = (struct lm_split_input){ .path = strdup(name), .g = g };
    s->inputs = f;
    s->n_inputs = 1;
    s->padded = true;
    if (f->path ? list_tensors(s, err) == LM_OK : lm_fail_nomem(err) == LM_OK)
        return s;
    lm_split_free(s);
    return NULL;
}

void lm_split_free(struct lm_split *s)
{
    if (!s)
        return;
    for (size_t k = 0; k < s->n_inputs; k++) {
        lm_gguf_free(s->inputs[k].g);
        free(s->inputs[k].path);
        if (k)
            lm_in_close(s->inputs[k].in);
    }
    for (size_t k = 0; k < s->n_shards; k++) {
        free(s->shards[k].g.kv);
        free(s->shards[k].g.tensors);
    }
    free(s->inputs);
    free(s->tensors);
    free(s->shards);
    lm_arena_release(&s->arena);
    free(s);
}

/* ---- plan ---------------------------------------------------------------- */

static struct lm_gguf_kv number(const char *key, enum lm_gguf_kind kind, uint64_t v)
{
    return (struct lm_gguf_kv){ .key = { key, strlen(key) }, .kind = kind, .u = v };
}

/* The metadata of shard k of n (n may change later); merged: of the only file. */
static bool set_entries(const struct lm_split *s, const struct lm_split_options *o, size_t k,
                        struct lm_gguf *g)
{
    const struct lm_gguf *in = meta(s);
    size_t n = 0;
    g->version = in->version;
    g->big_endian = in->big_endian;
    g->alignment = in->alignment;
    g->kv = calloc((k ? 1 : (size_t)in->n_kv) + 4, sizeof *g->kv);
    if (!g->kv)
        return false;
    for (uint64_t i = 0; i < in->n_kv; i++)
        if (!is_split_key(&in->kv[i]) && (!k || is_key(&in->kv[i], key_alignment)) &&
            !(o->extra && is_key(&in->kv[i], o->extra->key.p)))
            g->kv[n++] = in->kv[i];
    if (o->extra && !k)
        g->kv[n++] = *o->extra;
    if (!o->merge) {
        g->kv[n++] = number(key_no, LM_GGUF_U16, k);
        g->kv[n++] = number(key_count, LM_GGUF_U16, 0);
        g->kv[n++] = number(key_tensors, LM_GGUF_I32, s->n_tensors);
    }
    g->n_kv = n;
    return true;
}

/* A shard in the making. */
struct cut {
    struct lm_split               *s;
    const struct lm_split_options *o;
    uint64_t                       head, data;      /* bytes so far                  */
};

/* Of a file with tensors. */
static bool file_size(const struct cut *c, uint64_t head, uint64_t data, uint64_t *size)
{
    return lm_align_u64(head, meta(c->s)->alignment, size) && lm_add_u64(*size, data, size);
}

static int begin_shard(struct cut *c, uint64_t first, struct lm_err *err)
{
    struct lm_split *s = c->s;
    if (s->n_shards == LM_SPLIT_MAX_SHARDS)
        return lm_fail(err, LM_EUSE, "%s: there would be more than %d shards",
                       s->inputs[0].path, LM_SPLIT_MAX_SHARDS);
    if (!lm_grow(&s->shards, &s->shards_cap, s->n_shards + 1, sizeof *s->shards))
        return lm_fail_nomem(err);
    struct lm_split_shard *f = &s->shards[s->n_shards];
    memset(f, 0, sizeof *f);
    if (!set_entries(s, c->o, s->n_shards, &f->g))
        return lm_fail_nomem(err);
    s->n_shards++;
    f->first = first;
    c->head = lm_gguf_head_size(&f->g);
    c->data = 0;
    return LM_OK;
}

/* Is the last shard, which has n tensors, full before one that adds so many bytes? */
static bool is_full(const struct cut *c, uint64_t n, uint64_t info, uint64_t bytes)
{
    uint64_t size;
    if (c->o->max_tensors && n == c->o->max_tensors)
        return true;
    if (!c->o->max_size || (n == 0 && c->s->n_shards > 1))
        return false;
    return !file_size(c, c->head + info, c->data + bytes, &size) || size > c->o->max_size;
}

/* Zeros behind the header: without data, only where the input has them. */
static uint64_t padding(const struct lm_split *s, const struct lm_split_shard *f)
{
    return f->g.n_tensors || s->padded ? -lm_gguf_head_size(&f->g) & (f->g.alignment - 1) : 0;
}

/* The tensors of each shard, and where their data goes in it. */
static int set_tensors(struct lm_split *s, struct lm_err *err)
{
    for (size_t k = 0; k < s->n_shards; k++) {
        struct lm_split_shard *f = &s->shards[k];
        const uint64_t end = k + 1 < s->n_shards ? s->shards[k + 1].first : s->n_tensors;
        uint64_t offset = 0;
        f->g.n_tensors = end - f->first;
        f->g.tensors = lm_malloc_array((size_t)f->g.n_tensors, sizeof *f->g.tensors);
        if (!f->g.tensors)
            return lm_fail_nomem(err);
        for (uint64_t i = 0; i < f->g.n_tensors; i++) {
            struct lm_gguf_tensor *t = &f->g.tensors[i];
            *t = *s->tensors[f->first + i].t;
            t->offset = offset;
            if (!lm_add_u64(offset, t->bytes, &offset) ||
                !lm_align_u64(offset, f->g.alignment, &offset))
                return lm_fail(err, LM_EUSE, "%s: the file would not fit 64 bits",
                               s->inputs[0].path);
        }
        for (uint64_t i = 0; i < f->g.n_kv; i++)
            if (f->g.kv[i].key.p == key_count)
                f->g.kv[i].u = s->n_shards;
        if (!lm_add_u64(lm_gguf_head_size(&f->g) + padding(s, f), offset, &f->size))
            return lm_fail(err, LM_EUSE, "%s: the file would not fit 64 bits",
                           s->inputs[0].path);
    }
    return LM_OK;
}

/* A shard beyond the limit has one tensor, or none.  The first is named, others are counted. */
static void note_too_large(const struct lm_split *s, uint64_t max, const struct lm_env *env)
{
    const struct lm_split_shard *f;
    size_t n = 0, first = 0;
    char others[48] = "";
    for (size_t k = 0; k < s->n_shards && max; k++)
        if (s->shards[k].size > max && n++ == 0)
            first = k;
    if (!n)
        return;
    f = &s->shards[first];
    if (n > 1)
        snprintf(others, sizeof others, ", nor %zu others", n - 1);
    lm_note(env, LM_WARN, "shard %zu of %zu will have %llu bytes, more than %llu: %s%.*s cannot "
            "be divided%s", first + 1, s->n_shards, (unsigned long long)f->size,
            (unsigned long long)max, f->g.n_tensors ? "tensor " : "the metadata",
            f->g.n_tensors ? LM_NAME_MAX : 0, f->g.n_tensors ? f->g.tensors[0].name.p : "", others);
}

int lm_split_plan(struct lm_split *s, const struct lm_split_options *o, const struct lm_env *env,
                  struct lm_err *err)
{
    struct cut c = { .s = s, .o = o };
    struct lm_err own;
    err = err ? err : &own;
    int r = begin_shard(&c, 0, err);
    if (r == LM_OK && o->no_tensor_first && s->n_tensors)
        r = begin_shard(&c, 0, err);
    for (uint64_t i = 0; i < s->n_tensors && r == LM_OK; i++) {
        const struct lm_gguf_tensor *t = s->tensors[i].t;
        const uint64_t info = lm_gguf_info_size(meta(s), t);
        uint64_t bytes;
        if (!lm_align_u64(t->bytes, meta(s)->alignment, &bytes))
            bytes = t->bytes;                      /* set_tensors refuses it */
        if (!o->merge && is_full(&c, i - s->shards[s->n_shards - 1].first, info, bytes))
            r = begin_shard(&c, i, err);
        c.head += info;
        if (!lm_add_u64(c.data, bytes, &c.data))
            c.data = UINT64_MAX;
    }
    if (r == LM_OK)
        r = set_tensors(s, err);
    if (r == LM_OK)
        note_too_large(s, o->max_size, env);
    return r;
}

/* ---- data ---------------------------------------------------------------- */

/* Input k, opened; all others but the first, which the caller has opened, closed. */
static struct lm_in *input(struct lm_split *s, size_t k, struct lm_err *err)
{
    struct lm_split_input *f = &s->inputs[k];
    if (f->in)
        return f->in;
    for (size_t i = 1; i < s->n_inputs; i++) {
        lm_in_close(s->inputs[i].in);
        s->inputs[i].in = NULL;
    }
    f->in = lm_in_open(f->path, s->long_window ? LM_IN_LONG : 0, err);
    if (!f->in)
        lm_err_at(err, LM_EIO, "%s", f->path);
    return f->in;
}

static int write_tensors(struct lm_split *s, const struct lm_split_shard *f, uint8_t *block,
                         struct lm_out *out, const struct lm_env *env, struct lm_err *err)
{
    for (uint64_t i = 0; i < f->g.n_tensors; i++) {
        const struct lm_split_tensor *t = &s->tensors[f->first + i];
        struct lm_in *in = input(s, t->input, err);
        if (!in)
            return err->code;
        const uint64_t at = s->inputs[t->input].g->data_offset + t->t->offset;
        int r = lm_gguf_copy_data(in, at, t->t, block, BLOCK, out, env, err);
        if (r != LM_OK)
            return r;
        r = lm_out_zeros(out, -t->t->bytes & (f->g.alignment - 1), err);
        if (r != LM_OK)
            return lm_err_at(err, r, "%s", lm_out_name(out));
        lm_progress(env, "copying", f->first + i, s->n_tensors);
    }
    return LM_OK;
}

int lm_split_write_head(const struct lm_split *s, size_t k, struct lm_out *out,
                        struct lm_err *err)
{
    const struct lm_split_shard *f = &s->shards[k];
    const int r = lm_gguf_write_same(&f->g, out, err);
    return r == LM_OK ? lm_out_zeros(out, padding(s, f), err) : r;
}

int lm_split_write(struct lm_split *s, size_t k, struct lm_out *out, const struct lm_env *env,
                   struct lm_err *err)
{
    const struct lm_split_shard *f = &s->shards[k];
    struct lm_err own;
    err = err ? err : &own;
    uint8_t *block = malloc(BLOCK);
    if (!block)
        return lm_fail_nomem(err);
    int r = lm_split_write_head(s, k, out, err);
    if (r != LM_OK)
        lm_err_at(err, r, "%s", lm_out_name(out));
    else
        r = write_tensors(s, f, block, out, env, err);
    free(block);
    if (r == LM_OK && k + 1 == s->n_shards) {
        r = lm_gguf_drain(s->inputs[0].in, err);
        if (r != LM_OK)
            lm_err_at(err, r, "%s", s->inputs[0].path);
    }
    return r;
}

char *lm_split_path(const char *prefix, size_t k, size_t n)
{
    const size_t size = strlen(prefix) + sizeof "-00001-of-00001.gguf" + 40;
    char *path = malloc(size);
    if (path)
        snprintf(path, size, "%s-%05zu-of-%05zu.gguf", prefix, k + 1, n);
    return path;
}
