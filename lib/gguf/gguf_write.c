/* SPDX-License-Identifier: MIT */
/*
 * Writing a GGUF's header, metadata and tensor infos (layout in gguf.h): version 3,
 * little-endian, or as a file that was read has them.
 */
#include "gguf/gguf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define DEFAULT_ALIGNMENT 32
#define REMOVED LM_GGUF_N_KINDS      /* kind of an entry that was unset */

struct lm_gguf_writer {
    struct lm_arena        arena;    /* copies of names and values       */
    struct lm_gguf_kv     *kv;
    struct lm_gguf_tensor *tensors;
    size_t                 n_kv, kv_cap, n_tensors, tensor_cap;
    size_t                *slots;    /* hash table: index + 1 in kv, or 0 */
    size_t                 n_slots;  /* a power of two                    */
    enum lm_code           failed;   /* LM_ENOMEM or LM_EUSE: kept for the end */
    char                   why[160];
};

struct lm_gguf_writer *lm_gguf_writer_new(void)
{
    return calloc(1, sizeof(struct lm_gguf_writer));
}

void lm_gguf_writer_free(struct lm_gguf_writer *w)
{
    if (!w)
        return;
    lm_arena_release(&w->arena);
    free(w->kv);
    free(w->tensors);
    free(w->slots);
    free(w);
}

static void no_memory(struct lm_gguf_writer *w)
{
    w->failed = LM_ENOMEM;
}

/* FNV-1a, begun at the writer's address so that no file can be made to collide. */
static size_t hash(const struct lm_gguf_writer *w, const char *p, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ (uintptr_t)w;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * UINT64_C(0x100000001b3);
    return (size_t)(h ^ h >> 29);
}

/* Where the index of a key stands, or belongs. */
static size_t *slot(const struct lm_gguf_writer *w, const char *p, size_t n)
{
    for (size_t i = hash(w, p, n);; i++) {
        size_t *s = &w->slots[i & (w->n_slots - 1)];
        if (!*s)
            return s;
        const struct lm_str *k = &w->kv[*s - 1].key;
        if (k->len == n && !memcmp(k->p, p, n))
            return s;
    }
}

/* Keep the table at most half full. */
static bool room_for_slot(struct lm_gguf_writer *w)
{
    if ((w->n_kv + 1) * 2 <= w->n_slots)
        return true;
    size_t n = w->n_slots ? w->n_slots * 2 : 128;
    size_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(w->slots);
    w->slots = slots;
    w->n_slots = n;
    for (size_t i = 0; i < w->n_kv; i++)       /* a later entry of a key wins */
        *slot(w, w->kv[i].key.p, w->kv[i].key.len) = i + 1;
    return true;
}

/* The entry of a key, made if need be; NULL when memory is short. */
static struct lm_gguf_kv *entry(struct lm_gguf_writer *w, const char *key, size_t len)
{
    if (w->failed)
        return NULL;
    if (!room_for_slot(w) || !lm_grow(&w->kv, &w->kv_cap, w->n_kv + 1, sizeof *w->kv)) {
        no_memory(w);
        return NULL;
    }
    size_t *s = slot(w, key, len);
    if (*s && w->kv[*s - 1].kind != REMOVED)
        return &w->kv[*s - 1];
    char *copy = lm_arena_copy(&w->arena, key, len);
    if (!copy) {
        no_memory(w);
        return NULL;
    }
    struct lm_gguf_kv *kv = &w->kv[w->n_kv++];
    memset(kv, 0, sizeof *kv);
    kv->key = (struct lm_str){ copy, len };
    *s = w->n_kv;
    return kv;
}

void lm_gguf_unset(struct lm_gguf_writer *w, const char *key)
{
    if (!w->n_slots)
        return;
    size_t *s = slot(w, key, strlen(key));
    if (*s)
        w->kv[*s - 1].kind = REMOVED;
}

static void set_uint(struct lm_gguf_writer *w, const char *key, enum lm_gguf_kind kind, uint64_t v)
{
    struct lm_gguf_kv *kv = entry(w, key, strlen(key));
    if (kv) {
        kv->kind = kind;
        kv->u = v;
    }
}

void lm_gguf_set_u32(struct lm_gguf_writer *w, const char *key, uint32_t v)
{
    set_uint(w, key, LM_GGUF_U32, v);
}

void lm_gguf_set_u64(struct lm_gguf_writer *w, const char *key, uint64_t v)
{
    set_uint(w, key, LM_GGUF_U64, v);
}

void lm_gguf_set_bool(struct lm_gguf_writer *w, const char *key, bool v)
{
    set_uint(w, key, LM_GGUF_BOOL, v);
}

void lm_gguf_set_i32(struct lm_gguf_writer *w, const char *key, int32_t v)
{
    struct lm_gguf_kv *kv = entry(w, key, strlen(key));
    if (kv) {
        kv->kind = LM_GGUF_I32;
        kv->i = v;
    }
}

void lm_gguf_set_f32(struct lm_gguf_writer *w, const char *key, float v)
{
    struct lm_gguf_kv *kv = entry(w, key, strlen(key));
    if (kv) {
        kv->kind = LM_GGUF_F32;
        kv->f = v;
    }
}

static bool copy_str(struct lm_gguf_writer *w, struct lm_str *dst, const char *p, size_t len)
{
    *dst = (struct lm_str){ lm_arena_copy(&w->arena, p, len), len };
    return dst->p != NULL;
}

static bool copy_arr(struct lm_gguf_writer *w, struct lm_gguf_arr *dst,
                     const struct lm_gguf_arr *src)
{
    size_t size = src->kind == LM_GGUF_STR ? sizeof(struct lm_str)
                : src->kind == LM_GGUF_ARR ? sizeof(struct lm_gguf_arr)
                : lm_gguf_kind_size(src->kind);
    void *data = lm_arena_array(&w->arena, src->n, size);
    if (!data)
        return false;
    const struct lm_str *strs = src->data;
    const struct lm_gguf_arr *arrs = src->data;
    bool ok = true;
    if (src->kind == LM_GGUF_STR)
        for (uint64_t i = 0; i < src->n && ok; i++)
            ok = copy_str(w, (struct lm_str *)data + i, strs[i].p, strs[i].len);
    else if (src->kind == LM_GGUF_ARR)
        for (uint64_t i = 0; i < src->n && ok; i++)
            ok = copy_arr(w, (struct lm_gguf_arr *)data + i, &arrs[i]);
    else if (src->n)
        memcpy(data, src->data, src->n * size);
    *dst = (struct lm_gguf_arr){ src->kind, src->n, data };
    return ok;
}

void lm_gguf_set_str(struct lm_gguf_writer *w, const char *key, const char *p, size_t len)
{
    struct lm_str copy;
    struct lm_gguf_kv *kv = entry(w, key, strlen(key));
    if (!kv)
        return;
    if (copy_str(w, &copy, p, len)) {
        kv->kind = LM_GGUF_STR;
        kv->str = copy;
    } else
        no_memory(w);
}

void lm_gguf_set_arr(struct lm_gguf_writer *w, const char *key, enum lm_gguf_kind elem,
                     const void *data, uint64_t n)
{
    const struct lm_gguf_arr arr = { elem, n, data };
    struct lm_gguf_arr copy;
    struct lm_gguf_kv *kv = entry(w, key, strlen(key));
    if (!kv)
        return;
    if (copy_arr(w, &copy, &arr)) {
        kv->kind = LM_GGUF_ARR;
        kv->arr = copy;
    } else
        no_memory(w);
}

void lm_gguf_set_kv(struct lm_gguf_writer *w, const struct lm_gguf_kv *src)
{
    struct lm_gguf_kv copy = *src;
    struct lm_gguf_kv *kv = entry(w, src->key.p, src->key.len);
    if (!kv)
        return;
    if ((src->kind == LM_GGUF_STR && !copy_str(w, &copy.str, src->str.p, src->str.len)) ||
        (src->kind == LM_GGUF_ARR && !copy_arr(w, &copy.arr, &src->arr))) {
        no_memory(w);
        return;
    }
    copy.key = kv->key;
    *kv = copy;
}

void lm_gguf_add_tensor(struct lm_gguf_writer *w, const char *name, size_t name_len,
                        uint32_t n_dims, const uint64_t *ne, const struct lm_type *type)
{
    if (w->failed)
        return;
    struct lm_gguf_tensor t = { .n_dims = n_dims, .type_id = type->id, .type = type };
    for (uint32_t k = 0; k < LM_GGUF_MAX_DIMS; k++)
        t.ne[k] = k < n_dims ? ne[k] : 1;
    if (n_dims > LM_GGUF_MAX_DIMS || !lm_gguf_tensor_bytes(&t, &t.bytes)) {
        w->failed = LM_EUSE;
        snprintf(w->why, sizeof w->why, "tensor %.*s: its shape does not suit type %s",
                 name_len < 100 ? (int)name_len : 100, name, type->name);
        return;
    }
    if (!copy_str(w, &t.name, name, name_len) ||
        !lm_grow(&w->tensors, &w->tensor_cap, w->n_tensors + 1, sizeof t)) {
        no_memory(w);
        return;
    }
    w->tensors[w->n_tensors++] = t;
}

/* general.alignment as it stands now, 0 if it is not usable. */
static uint64_t alignment(const struct lm_gguf_writer *w)
{
    static const char key[] = "general.alignment";
    size_t s = w->n_slots ? *slot(w, key, sizeof key - 1) : 0;
    if (!s || w->kv[s - 1].kind == REMOVED)
        return DEFAULT_ALIGNMENT;
    const struct lm_gguf_kv *kv = &w->kv[s - 1];
    return kv->kind == LM_GGUF_U32 && kv->u && !(kv->u & (kv->u - 1)) ? kv->u : 0;
}

static uint64_t arr_size(const struct lm_gguf_arr *a, uint64_t count)
{
    const struct lm_str *s = a->data;
    const struct lm_gguf_arr *sub = a->data;
    uint64_t size = 4 + count;
    if (a->kind == LM_GGUF_STR)
        for (uint64_t i = 0; i < a->n; i++)
            size += count + s[i].len;
    else if (a->kind == LM_GGUF_ARR)
        for (uint64_t i = 0; i < a->n; i++)
            size += arr_size(&sub[i], count);
    else
        size += a->n * lm_gguf_kind_size(a->kind);
    return size;
}

/* Bytes of an entry; counts and lengths take `count` bytes, 4 in version 1, else 8. */
static uint64_t kv_size(const struct lm_gguf_kv *kv, uint64_t count)
{
    return count + kv->key.len + 4 + (kv->kind == LM_GGUF_STR ? count + kv->str.len
                                      : kv->kind == LM_GGUF_ARR ? arr_size(&kv->arr, count)
                                      : lm_gguf_kind_size(kv->kind));
}

static uint64_t info_size(const struct lm_gguf_tensor *t, uint64_t count)
{
    return count + t->name.len + 4 + count * t->n_dims + 4 + 8;
}

/* Bytes from the magic to the end of the tensor infos.  All of it lies in
 * memory, so the sum fits. */
static uint64_t head_size(const struct lm_gguf_writer *w)
{
    uint64_t size = 24;
    for (size_t i = 0; i < w->n_kv; i++)
        if (w->kv[i].kind != REMOVED)
            size += kv_size(&w->kv[i], 8);
    for (size_t i = 0; i < w->n_tensors; i++)
        size += info_size(&w->tensors[i], 8);
    return size;
}

bool lm_gguf_total_size(const struct lm_gguf_writer *w, uint64_t *size)
{
    uint64_t align = alignment(w), total;
    if (!align || !lm_align_u64(head_size(w), align, &total))
        return false;
    for (size_t i = 0; i < w->n_tensors; i++)
        if (!lm_add_u64(total, w->tensors[i].bytes, &total) ||
            !lm_align_u64(total, align, &total))
            return false;
    *size = total;
    return true;
}

/* The first failure stays; everything after it does nothing. */
struct sink {
    struct lm_out *out;
    struct lm_err *err;
    int            status;
    bool           big_endian;
    size_t         count;            /* bytes of a count or length               */
};

static void put(struct sink *k, const void *p, size_t n)
{
    if (k->status == LM_OK)
        k->status = lm_out_write(k->out, p, n, k->err);
}

static void put_number(struct sink *k, uint64_t v, size_t n)
{
    uint8_t b[8];
    for (size_t i = 0; i < n; i++, v >>= 8)
        b[k->big_endian ? n - 1 - i : i] = (uint8_t)v;
    put(k, b, n);
}

static void put_count(struct sink *k, uint64_t v)
{
    put_number(k, v, k->count);
}

static void put_str(struct sink *k, const struct lm_str *s)
{
    put_count(k, s->len);
    put(k, s->p, s->len);
}

static void put_arr(struct sink *k, const struct lm_gguf_arr *a)
{
    const struct lm_str *s = a->data;
    const struct lm_gguf_arr *sub = a->data;
    const uint8_t *p = a->data;
    size_t size = lm_gguf_kind_size(a->kind);
    put_number(k, a->kind, 4);
    put_count(k, a->n);
    for (uint64_t i = 0; i < a->n && k->status == LM_OK; i++)
        if (a->kind == LM_GGUF_STR)
            put_str(k, &s[i]);
        else if (a->kind == LM_GGUF_ARR)
            put_arr(k, &sub[i]);
        else {
            uint64_t v = 0;
            uint32_t v4;
            uint16_t v2;
            switch (size) {
            case 1:  v = p[i]; break;
            case 2:  memcpy(&v2, p + i * 2, 2); v = v2; break;
            case 4:  memcpy(&v4, p + i * 4, 4); v = v4; break;
            default: memcpy(&v, p + i * 8, 8); break;
            }
            put_number(k, v, size);
        }
}

static void put_kv(struct sink *k, const struct lm_gguf_kv *kv)
{
    put_str(k, &kv->key);
    put_number(k, kv->kind, 4);
    if (kv->kind == LM_GGUF_STR)
        put_str(k, &kv->str);
    else if (kv->kind == LM_GGUF_ARR)
        put_arr(k, &kv->arr);
    else if (kv->kind == LM_GGUF_F32) {
        float f = (float)kv->f;
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        put_number(k, u, 4);
    } else                                   /* i and f have u's bits */
        put_number(k, kv->u, lm_gguf_kind_size(kv->kind));
}

static void put_info(struct sink *k, const struct lm_gguf_tensor *t, uint64_t offset)
{
    put_str(k, &t->name);
    put_number(k, t->n_dims, 4);
    for (uint32_t d = 0; d < t->n_dims; d++)
        put_count(k, t->ne[d]);
    put_number(k, t->type_id, 4);
    put_number(k, offset, 8);
}

static void put_infos(struct sink *k, const struct lm_gguf_writer *w, uint64_t align)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        put_info(k, &w->tensors[i], offset);
        offset = (offset + w->tensors[i].bytes + align - 1) & ~(align - 1);
    }
}

static void put_start(struct sink *k, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    put(k, "GGUF", 4);
    put_number(k, version, 4);
    put_count(k, n_tensors);
    put_count(k, n_kv);
}

/* What cannot be written, whatever comes. */
static int check_writer(const struct lm_gguf_writer *w, struct lm_err *err)
{
    uint64_t total;
    if (w->failed == LM_ENOMEM)
        return lm_fail_nomem(err);
    if (w->failed)
        return lm_fail(err, w->failed, "%s", w->why);
    if (!alignment(w))
        return lm_fail(err, LM_EUSE, "key general.alignment must be a u32, a power of two");
    if (!lm_gguf_total_size(w, &total))
        return lm_fail(err, LM_EUSE, "the file would not fit 64 bits");
    return LM_OK;
}

struct lm_gguf *lm_gguf_of_writer(const struct lm_gguf_writer *w, struct lm_err *err)
{
    if (check_writer(w, err))
        return NULL;
    struct lm_gguf *g = calloc(1, sizeof *g);
    if (!g) {
        lm_fail_nomem(err);
        return NULL;
    }
    g->version = 3;
    g->alignment = alignment(w);
    g->kv = lm_malloc_array(w->n_kv + 1, sizeof *g->kv);
    g->tensors = lm_malloc_array(w->n_tensors + 1, sizeof *g->tensors);
    if (!g->kv || !g->tensors) {
        lm_gguf_free(g);
        lm_fail_nomem(err);
        return NULL;
    }
    for (size_t i = 0; i < w->n_kv; i++)
        if (w->kv[i].kind != REMOVED)
            g->kv[g->n_kv++] = w->kv[i];
    uint64_t offset = 0;
    for (size_t i = 0; i < w->n_tensors; i++) {
        g->tensors[i] = w->tensors[i];
        g->tensors[i].offset = offset;
        lm_align_u64(offset + w->tensors[i].bytes, g->alignment, &offset);
    }
    g->n_tensors = w->n_tensors;
    if (lm_gguf_index(g))
        return g;
    lm_gguf_free(g);
    lm_fail_nomem(err);
    return NULL;
}

int lm_gguf_write_head(const struct lm_gguf_writer *w, struct lm_out *out, struct lm_err *err)
{
    const uint64_t align = alignment(w);
    uint64_t n_kv = 0;
    const int r = check_writer(w, err);
    if (r)
        return r;
    for (size_t i = 0; i < w->n_kv; i++)
        n_kv += w->kv[i].kind != REMOVED;

    struct sink k = { out, err, LM_OK, false, 8 };
    put_start(&k, 3, w->n_tensors, n_kv);
    for (size_t i = 0; i < w->n_kv; i++)
        if (w->kv[i].kind != REMOVED)
            put_kv(&k, &w->kv[i]);
    put_infos(&k, w, align);
    if (k.status != LM_OK)
        return k.status;
    uint64_t size = head_size(w), data_offset = size;
    lm_align_u64(size, align, &data_offset);
    return lm_out_zeros(out, data_offset - size, err);
}

uint64_t lm_gguf_padding(const struct lm_gguf_writer *w, uint64_t bytes)
{
    uint64_t align = alignment(w);
    return align ? -bytes & (align - 1) : 0;
}

int lm_gguf_write_pad(const struct lm_gguf_writer *w, struct lm_out *out, uint64_t bytes,
                      struct lm_err *err)
{
    return lm_out_zeros(out, lm_gguf_padding(w, bytes), err);
}

/* ---- as a file that was read has it -------------------------------------- */

static uint64_t count_size(const struct lm_gguf *g)
{
    return g->version == 1 ? 4 : 8;
}

uint64_t lm_gguf_info_size(const struct lm_gguf *g, const struct lm_gguf_tensor *t)
{
    return info_size(t, count_size(g));
}

uint64_t lm_gguf_head_size(const struct lm_gguf *g)
{
    const uint64_t count = count_size(g);
    uint64_t size = 8 + 2 * count;
    for (uint64_t i = 0; i < g->n_kv; i++)
        size += kv_size(&g->kv[i], count);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        size += info_size(&g->tensors[i], count);
    return size;
}

int lm_gguf_write_same(const struct lm_gguf *g, struct lm_out *out, struct lm_err *err)
{
    struct sink k = { out, err, LM_OK, g->big_endian, (size_t)count_size(g) };
    put_start(&k, g->version, g->n_tensors, g->n_kv);
    for (uint64_t i = 0; i < g->n_kv; i++)
        put_kv(&k, &g->kv[i]);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        put_info(&k, &g->tensors[i], g->tensors[i].offset);
    return k.status;
}
