/* SPDX-License-Identifier: MIT */
/* Finding entries, tensors and shards by name, and reading values as what they should be. */
#include "gguf/gguf_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

/* Both lists hold pointers to the name that each entry begins with. */
_Static_assert(offsetof(struct lm_gguf_kv, key) == 0, "an entry begins with its name");
_Static_assert(offsetof(struct lm_gguf_tensor, name) == 0, "a tensor begins with its name");

static const struct {
    const char *name;
    size_t      size;
} kinds[LM_GGUF_N_KINDS] = {
    [LM_GGUF_U8]  = { "u8", 1 },   [LM_GGUF_I8]   = { "i8", 1 },
    [LM_GGUF_U16] = { "u16", 2 },  [LM_GGUF_I16]  = { "i16", 2 },
    [LM_GGUF_U32] = { "u32", 4 },  [LM_GGUF_I32]  = { "i32", 4 },
    [LM_GGUF_F32] = { "f32", 4 },  [LM_GGUF_BOOL] = { "bool", 1 },
    [LM_GGUF_STR] = { "str", 0 },  [LM_GGUF_ARR]  = { "arr", 0 },
    [LM_GGUF_U64] = { "u64", 8 },  [LM_GGUF_I64]  = { "i64", 8 },
    [LM_GGUF_F64] = { "f64", 8 },
};

const char *lm_gguf_kind_name(enum lm_gguf_kind k)
{
    return (unsigned)k < LM_GGUF_N_KINDS ? kinds[k].name : "unknown";
}

int lm_gguf_kind_by_name(const char *name)
{
    for (int k = 0; k < LM_GGUF_N_KINDS; k++)
        if (!strcmp(kinds[k].name, name))
            return k;
    return -1;
}

size_t lm_gguf_kind_size(enum lm_gguf_kind k)
{
    return (unsigned)k < LM_GGUF_N_KINDS ? kinds[k].size : 0;
}

static int compare(const struct lm_str *a, const struct lm_str *b)
{
    int c = memcmp(a->p, b->p, a->len < b->len ? a->len : b->len);
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* By name; equal names in file order, so that the first is found. */
static int by_name(const void *x, const void *y)
{
    const struct lm_str *a, *b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    int c = compare(a, b);
    return c ? c : (a > b) - (a < b);
}

/* A sorted list rather than a hash table: no input makes it slow. */
static const struct lm_str **sorted(const void *first, uint64_t n, size_t size)
{
    const struct lm_str **list = lm_malloc_array(n, sizeof *list);
    if (!list)
        return NULL;
    for (uint64_t i = 0; i < n; i++)
        list[i] = (const void *)((const char *)first + i * size);
    if (n)
        qsort(list, n, sizeof *list, by_name);
    return list;
}

bool lm_gguf_index(struct lm_gguf *g)
{
    g->kv_by_name = sorted(g->kv, g->n_kv, sizeof *g->kv);
    g->tensors_by_name = sorted(g->tensors, g->n_tensors, sizeof *g->tensors);
    return g->kv_by_name && g->tensors_by_name;
}

static const struct lm_str *find(const struct lm_str *const *list, uint64_t n, const char *name)
{
    const struct lm_str key = { name, strlen(name) };
    uint64_t lo = 0, hi = n;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (compare(list[mid], &key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && !compare(list[lo], &key) ? list[lo] : NULL;
}

const struct lm_gguf_kv *lm_gguf_kv(const struct lm_gguf *g, const char *key)
{
    return (const void *)find(g->kv_by_name, g->n_kv, key);
}

const struct lm_gguf_tensor *lm_gguf_tensor(const struct lm_gguf *g, const char *name)
{
    return (const void *)find(g->tensors_by_name, g->n_tensors, name);
}

int lm_gguf_override(struct lm_gguf *g, const struct lm_gguf_kv *kv, size_t n, struct lm_err *err)
{
    struct lm_gguf_kv *all = n ? realloc(g->kv, ((size_t)g->n_kv + n) * sizeof *all) : NULL;
    if (n == 0)
        return LM_OK;
    if (!all)
        return lm_fail_nomem(err);
    g->kv = all;
    g->given = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t k = 0;
        while (k < g->n_kv && compare(&g->kv[k].key, &kv[i].key) != 0)
            k++;
        g->n_kv += k == g->n_kv;
        g->kv[k] = kv[i];
    }
    free(g->kv_by_name);
    g->kv_by_name = sorted(g->kv, g->n_kv, sizeof *g->kv);
    return g->kv_by_name ? LM_OK : lm_fail_nomem(err);
}

static bool is_signed(enum lm_gguf_kind k)
{
    return k == LM_GGUF_I8 || k == LM_GGUF_I16 || k == LM_GGUF_I32 || k == LM_GGUF_I64;
}

static bool is_unsigned(enum lm_gguf_kind k)
{
    return k == LM_GGUF_U8 || k == LM_GGUF_U16 || k == LM_GGUF_U32 || k == LM_GGUF_U64;
}

static int wrong_type(const struct lm_gguf_kv *kv, const char *want, struct lm_err *err)
{
    const char *of = kv->kind == LM_GGUF_ARR ? lm_gguf_kind_name(kv->arr.kind) : "";
    return lm_fail(err, LM_EDATA, "key %.*s: wanted %s, found %s%s%s", LM_NAME_ARG(kv->key), want,
                   lm_gguf_kind_name(kv->kind), *of ? " of " : "", of);
}

int lm_gguf_u32(const struct lm_gguf *g, const char *key, uint32_t *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (is_signed(kv->kind)) {
        if (kv->i < 0 || kv->i > UINT32_MAX)
            return lm_fail(err, LM_EDATA, "key %s: %lld is out of range", key, (long long)kv->i);
        *out = (uint32_t)kv->i;
        return LM_OK;
    }
    if (!is_unsigned(kv->kind))
        return wrong_type(kv, "an unsigned integer", err);
    if (kv->u > UINT32_MAX)
        return lm_fail(err, LM_EDATA, "key %s: %llu is out of range", key,
                       (unsigned long long)kv->u);
    *out = (uint32_t)kv->u;
    return LM_OK;
}

int lm_gguf_i64(const struct lm_gguf *g, const char *key, int64_t *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (!is_signed(kv->kind) && !is_unsigned(kv->kind))
        return wrong_type(kv, "an integer", err);
    if (is_unsigned(kv->kind) && kv->u > INT64_MAX)
        return lm_fail(err, LM_EDATA, "key %s: %llu is out of range", key,
                       (unsigned long long)kv->u);
    *out = is_signed(kv->kind) ? kv->i : (int64_t)kv->u;
    return LM_OK;
}

int lm_gguf_f32(const struct lm_gguf *g, const char *key, float *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (kv->kind != LM_GGUF_F32 && kv->kind != LM_GGUF_F64)
        return wrong_type(kv, "a float", err);
    *out = (float)kv->f;
    return LM_OK;
}

int lm_gguf_bool(const struct lm_gguf *g, const char *key, bool *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (kv->kind != LM_GGUF_BOOL)
        return wrong_type(kv, "bool", err);
    *out = kv->u != 0;
    return LM_OK;
}

int lm_gguf_str(const struct lm_gguf *g, const char *key, struct lm_str *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (kv->kind != LM_GGUF_STR)
        return wrong_type(kv, "str", err);
    *out = kv->str;
    return LM_OK;
}

int lm_gguf_arr(const struct lm_gguf *g, const char *key, enum lm_gguf_kind elem,
                struct lm_gguf_arr *out, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (!kv)
        return 1;
    if (kv->kind != LM_GGUF_ARR || kv->arr.kind != elem) {
        char want[32];
        snprintf(want, sizeof want, "arr of %s", lm_gguf_kind_name(elem));
        return wrong_type(kv, want, err);
    }
    *out = kv->arr;
    return LM_OK;
}

char *lm_gguf_shard_path(const char *first, uint32_t k, uint32_t n)
{
    char tail[40];
    size_t len = strlen(first);
    size_t t = (size_t)snprintf(tail, sizeof tail, "-00001-of-%05" PRIu32 ".gguf", n);
    if (n > 99999 || k >= n || len < t || strcmp(first + len - t, tail))
        return NULL;
    char *path = strdup(first);
    if (path)
        snprintf(path + len - t, t + 1, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", k + 1, n);
    return path;
}
