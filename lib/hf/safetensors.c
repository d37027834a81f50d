/* SPDX-License-Identifier: MIT */
/* safetensors headers: https://github.com/huggingface/safetensors, "Format". */

#include "hf/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/size.h"
#include "io/input.h"

static const struct lm_st_dtype dtypes[] = {
    { "F32", 4, LM_F32 }, { "F16", 2, LM_F16 }, { "BF16", 2, LM_BF16 }, { "F64", 8, LM_F64 },
    { "BOOL", 1, -1 }, { "U8", 1, -1 }, { "I8", 1, -1 }, { "U16", 2, -1 }, { "I16", 2, -1 },
    { "U32", 4, -1 }, { "I32", 4, -1 }, { "U64", 8, -1 }, { "I64", 8, -1 }, { "C64", 8, -1 },
    { "F8_E4M3", 1, -1 }, { "F8_E5M2", 1, -1 }, { "F8_E8M0", 1, -1 },
};

const struct lm_st_dtype *lm_safetensors_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name))
            return &dtypes[i];
    return NULL;
}

int lm_safetensors_length(const uint8_t first[8], uint64_t file_size, uint64_t *len,
                          struct lm_err *err)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | first[i];
    if (n > LM_ST_MAX_HEADER)
        return lm_fail(err, LM_EDATA, "header of %llu bytes: more than the format's limit %u: "
                       "not a safetensors file, or damaged", (unsigned long long)n,
                       LM_ST_MAX_HEADER);
    if (file_size != LM_SIZE_UNKNOWN && (file_size < 8 || n > file_size - 8))
        return lm_fail(err, LM_EDATA, "header of %llu bytes, but the file has only %llu: "
                       "incomplete or damaged", (unsigned long long)n,
                       (unsigned long long)file_size);
    *len = n;
    return LM_OK;
}

/* A whole number of at least 0 that fits 64 bits. */
static bool whole(const struct lm_json *j, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < j->str_len; i++) {
        const char c = j->str[i];
        if (c < '0' || c > '9' || !lm_mul_u64(v, 10, &v) || !lm_add_u64(v, (uint64_t)(c - '0'), &v))
            return false;
    }
    *out = v;
    return j->str_len > 0;
}

/* An array of at most max whole numbers. */
static int numbers(struct lm_json *j, const char *what, uint64_t *v, uint32_t max, uint32_t *n,
                   struct lm_err *err)
{
    enum lm_json_kind k = lm_json_next(j);
    *n = 0;
    if (k == LM_JSON_ERROR)
        return err->code;
    if (k != LM_JSON_ARRAY)
        return lm_fail(err, LM_EDATA, "%s is no array", what);
    while ((k = lm_json_next(j)) != LM_JSON_ARRAY_END) {
        if (k == LM_JSON_ERROR)
            return err->code;
        if (*n == max)
            return lm_fail(err, LM_EDATA, "%s has more than %u numbers", what, max);
        if (k != LM_JSON_NUMBER || !whole(j, &v[*n]))
            return lm_fail(err, LM_EDATA, "%s: %s is no whole number", what,
                           k == LM_JSON_NUMBER ? j->str : "an item");
        ++*n;
    }
    return LM_OK;
}

static int read_dtype(struct lm_json *j, struct lm_st_tensor *t, struct lm_err *err)
{
    const enum lm_json_kind k = lm_json_next(j);
    if (k == LM_JSON_ERROR)
        return err->code;
    for (size_t i = 0; k == LM_JSON_STRING && i < sizeof dtypes / sizeof *dtypes; i++)
        if (lm_json_is(j, dtypes[i].name)) {
            t->dtype = &dtypes[i];
            return LM_OK;
        }
    if (k != LM_JSON_STRING)
        return lm_fail(err, LM_EDATA, "dtype is no text");
    return lm_fail(err, LM_EDATA, "dtype \"%s\" is not one of the format's", j->str);
}

/* The range must be what dtype and shape need. */
static int check_tensor(const struct lm_st_tensor *t, uint32_t n_offsets, uint64_t end,
                        struct lm_err *err)
{
    if (!t->dtype || n_offsets != 2)
        return lm_fail(err, LM_EDATA, !t->dtype ? "no dtype" : "data_offsets are not two numbers");
    uint64_t need = t->dtype->bytes;
    for (uint32_t i = 0; i < t->n_dims; i++)
        if (!lm_mul_u64(need, t->shape[i], &need))
            return lm_fail(err, LM_EDATA, "shape is beyond 64 bits");
    if (end < t->begin || end - t->begin != need)
        return lm_fail(err, LM_EDATA, "data_offsets [%llu, %llu] are not the %llu bytes of its "
                       "shape", (unsigned long long)t->begin, (unsigned long long)end,
                       (unsigned long long)need);
    return LM_OK;
}

/* The object that describes one tensor; its '{' comes next. */
static int read_tensor(struct lm_json *j, struct lm_st_tensor *t, struct lm_err *err)
{
    uint64_t range[2] = {0};
    uint32_t n_range = 0;
    int s = LM_OK;
    enum lm_json_kind k = lm_json_next(j);
    if (k == LM_JSON_ERROR)
        return err->code;
    if (k != LM_JSON_OBJECT)
        return lm_fail(err, LM_EDATA, "is no object");
    while (!s && (k = lm_json_next(j)) == LM_JSON_KEY) {
        if (lm_json_is(j, "dtype"))
            s = read_dtype(j, t, err);
        else if (lm_json_is(j, "shape"))
            s = numbers(j, "shape", t->shape, LM_ST_MAX_DIMS, &t->n_dims, err);
        else if (lm_json_is(j, "data_offsets"))
            s = numbers(j, "data_offsets", range, 2, &n_range, err);
        else
            s = lm_json_skip(j, lm_json_next(j));
    }
    if (s || k == LM_JSON_ERROR)
        return s ? s : err->code;
    t->begin = range[0];
    t->bytes = n_range == 2 ? range[1] - range[0] : 0;
    return check_tensor(t, n_range, range[1], err);
}

/* Read every member; tensors are collected in *list (malloc'ed). */
static int read_all(struct lm_json *j, struct lm_arena *a, struct lm_st_tensor **list, size_t *n,
                    struct lm_err *err)
{
    size_t cap = 0;
    enum lm_json_kind k = lm_json_next(j);
    if (k == LM_JSON_ERROR)
        return err->code;
    if (k != LM_JSON_OBJECT)
        return lm_fail(err, LM_EDATA, "is no JSON object");
    while ((k = lm_json_next(j)) == LM_JSON_KEY) {
        int s;
        if (lm_json_is(j, "__metadata__")) {
            s = lm_json_skip(j, lm_json_next(j));
            if (s)
                return s;
            continue;
        }
        struct lm_st_tensor t = {0};
        if (*n == LM_ST_MAX_TENSORS)
            return lm_fail(err, LM_ENOSUP, "more than %d tensors in a file", LM_ST_MAX_TENSORS);
        t.name = lm_arena_copy(a, j->str, j->str_len);
        if (!t.name || !lm_grow(list, &cap, *n + 1, sizeof t))
            return lm_fail_nomem(err);
        if (strlen(t.name) != j->str_len)
            return lm_fail(err, LM_EDATA, "%s: a NUL in a tensor's name", t.name);
        s = read_tensor(j, &t, err);
        if (s)
            return lm_err_at(err, s, "%s", t.name);
        (*list)[(*n)++] = t;
    }
    return k == LM_JSON_ERROR || lm_json_next(j) != LM_JSON_EOF ? err->code
                                                                : LM_OK;
}

static int by_begin(const void *x, const void *y)
{
    const struct lm_st_tensor *a = x, *b = y;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct lm_st_tensor *)x)->name, ((const struct lm_st_tensor *)y)->name);
}

/* The ranges must cover the data without gap or overlap. */
static int check_cover(struct lm_st_tensor *t, size_t n, uint64_t data, struct lm_err *err)
{
    uint64_t at = 0;
    if (n)
        qsort(t, n, sizeof *t, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (data != LM_SIZE_UNKNOWN && (t[i].begin > data || t[i].bytes > data - t[i].begin))
            return lm_fail(err, LM_EDATA, "%s: data ends at byte %llu, but the file has %llu bytes "
                           "of data: incomplete or damaged", t[i].name,
                           (unsigned long long)(t[i].begin + t[i].bytes), (unsigned long long)data);
        if (t[i].begin != at)
            return lm_fail(err, LM_EDATA, "%s: data begins at byte %llu, not at %llu where the "
                           "tensor before it ends", t[i].name, (unsigned long long)t[i].begin,
                           (unsigned long long)at);
        at += t[i].bytes;
    }
    if (data != LM_SIZE_UNKNOWN && at != data)
        return lm_fail(err, LM_EDATA, "%llu bytes after the last tensor",
                       (unsigned long long)(data - at));
    return LM_OK;
}

/* Sort and check the list, which becomes the arena's: *mine is NULL then. */
static int finish(struct lm_safetensors *st, struct lm_arena *a, struct lm_st_tensor **mine,
                  size_t n, uint64_t data, struct lm_err *err)
{
    struct lm_st_tensor *list = *mine;
    int s = check_cover(list, n, data, err);
    if (s)
        return s;
    if (n)
        qsort(list, n, sizeof *list, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(list[i - 1].name, list[i].name))
            return lm_fail(err, LM_EDATA, "%s: is there twice", list[i].name);
    struct lm_st_tensor *fit = realloc(list, (n ? n : 1) * sizeof *list);
    if (!fit)
        return lm_fail_nomem(err);
    *mine = fit;
    if (!lm_arena_own(a, fit))
        return lm_fail_nomem(err);
    *mine = NULL;
    st->tensors = fit;
    st->n_tensors = n;
    return LM_OK;
}

int lm_safetensors_parse(struct lm_safetensors *st, struct lm_arena *a, const char *header,
                         size_t len, uint64_t file_size, struct lm_err *err)
{
    struct lm_json j;
    struct lm_err own = {0};
    struct lm_st_tensor *list = NULL;
    size_t n = 0;
    err = err ? err : &own;
    *st = (struct lm_safetensors){ .data_offset = 8 + (uint64_t)len };
    lm_json_init(&j, header, len, err);
    int s = read_all(&j, a, &list, &n, err);
    lm_json_release(&j);
    if (!s)
        s = finish(st, a, &list, n,
                   file_size == LM_SIZE_UNKNOWN ? file_size : file_size - st->data_offset, err);
    free(list);
    return s < 0 ? lm_err_at(err, s, "header") : LM_OK;
}

int lm_safetensors_read(struct lm_safetensors *st, struct lm_arena *a, struct lm_in *in,
                        struct lm_err *err)
{
    struct lm_buf text = { 0 };
    uint8_t first[8];
    uint64_t len = 0;
    int r = lm_in_read_all(in, first, sizeof first, err);
    if (r == LM_OK)
        r = lm_safetensors_length(first, lm_in_size(in), &len, err);
    while (r == LM_OK && text.len < len) {
        size_t n = len - text.len < 1 << 20 ? (size_t)(len - text.len) : 1 << 20;
        char *to = lm_buf_room(&text, n);
        r = to ? lm_in_read_all(in, to, n, err) : lm_fail_nomem(err);
        text.len += n;
    }
    if (r == LM_OK)
        r = lm_safetensors_parse(st, a, text.data, text.len, lm_in_size(in), err);
    lm_buf_release(&text);
    return r;
}
