/* SPDX-License-Identifier: MIT */
/*
 * What is wrong with a file that could be read.  One walk finds every fault;
 * a strict reader stops at the first that matters for reading the data.
 */
#include "gguf/gguf_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define SPEC_NAME_MAX 64      /* bytes of a tensor's name, by the specification */

enum weight {
    FORM,        /* not as the specification says, but what is meant is clear   */
    DATA,        /* a reader of the data would go wrong                         */
    UNKNOWN,     /* the same, and another version may know better               */
};

struct walk {
    const struct lm_gguf *g;
    void                (*fault)(void *arg, uint64_t offset, const char *what);
    void                 *arg;
    struct lm_err        *err;         /* strict: the first that matters goes here */
    bool                  strict;
    int                   status;
    uint64_t              n;
};

static void found(struct walk *w, enum weight weight, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void found(struct walk *w, enum weight weight, uint64_t offset, const char *fmt, ...)
{
    char what[sizeof ((struct lm_err *)0)->text];
    va_list ap;
    if (w->strict && (w->status != LM_OK || weight == FORM))
        return;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    w->n++;
    if (w->strict)
        w->status = lm_fail(w->err, weight == DATA ? LM_EDATA : LM_ENOSUP, "%s", what);
    else
        w->fault(w->arg, offset, what);
}

/* The first element of an array that breaks a rule of its type, or n. */
static uint64_t bad_element(const struct lm_gguf_arr *a)
{
    const struct lm_str *s = a->data;
    const uint8_t *b = a->data;
    uint64_t i = 0;
    if (a->kind == LM_GGUF_STR)
        while (i < a->n && lm_gguf_is_utf8(&s[i]))
            i++;
    else if (a->kind == LM_GGUF_BOOL)
        while (i < a->n && b[i] <= 1)
            i++;
    else
        return a->n;
    return i;
}

static void check_arr(struct walk *w, const struct lm_gguf_kv *kv, const struct lm_gguf_arr *a)
{
    if (a->kind == LM_GGUF_ARR) {
        const struct lm_gguf_arr *sub = a->data;
        for (uint64_t i = 0; i < a->n; i++)
            check_arr(w, kv, &sub[i]);
        return;
    }
    uint64_t i = bad_element(a);
    if (i < a->n)
        found(w, FORM, kv->offset, "key %.*s: element %llu is not %s", LM_NAME_ARG(kv->key),
              (unsigned long long)i, a->kind == LM_GGUF_STR ? "UTF-8" : "0 or 1, as a bool is");
}

static void check_entries(struct walk *w)
{
    for (uint64_t i = 0; i < w->g->n_kv; i++) {
        const struct lm_gguf_kv *kv = &w->g->kv[i];
        if (!lm_gguf_is_utf8(&kv->key))
            found(w, FORM, kv->offset, "key %.*s: the key is not UTF-8", LM_NAME_ARG(kv->key));
        if (kv->kind == LM_GGUF_BOOL && kv->u > 1)
            found(w, FORM, kv->offset, "key %.*s: a bool is 0 or 1, this is %llu",
                  LM_NAME_ARG(kv->key), (unsigned long long)kv->u);
        if (kv->kind == LM_GGUF_STR && !lm_gguf_is_utf8(&kv->str))
            found(w, FORM, kv->offset, "key %.*s: the text is not UTF-8", LM_NAME_ARG(kv->key));
        if (kv->kind == LM_GGUF_ARR)
            check_arr(w, kv, &kv->arr);
    }
}

/* Doubled names, told at the later of each pair. */
static void check_doubled(struct walk *w)
{
    const struct lm_gguf *g = w->g;
    const struct lm_str *const *k = g->kv_by_name, *const *t = g->tensors_by_name;
    for (uint64_t i = 1; i < g->n_kv; i++)
        if (k[i]->len == k[i - 1]->len && !memcmp(k[i]->p, k[i - 1]->p, k[i]->len))
            found(w, DATA, ((const struct lm_gguf_kv *)(const void *)k[i])->offset,
                  "key %.*s is there twice", LM_NAME_ARG(*k[i]));
    for (uint64_t i = 1; i < g->n_tensors; i++)
        if (t[i]->len == t[i - 1]->len && !memcmp(t[i]->p, t[i - 1]->p, t[i]->len))
            found(w, DATA, ((const struct lm_gguf_tensor *)(const void *)t[i])->info_offset,
                  "tensor %.*s is there twice", LM_NAME_ARG(*t[i]));
}

static void check_type(struct walk *w, const struct lm_gguf_tensor *t)
{
    const char *foreign = lm_type_foreign(t->type_id);
    if (!t->type)
        found(w, UNKNOWN, t->info_offset, "tensor %.*s: type %u is not known%s%s%s",
              LM_NAME_ARG(t->name), t->type_id, foreign ? " here (" : "", foreign ? foreign : "",
              foreign ? ")" : "");
    else if (!t->type->in_files)
        found(w, FORM, t->info_offset, "tensor %.*s: type %s is not one for files",
              LM_NAME_ARG(t->name), t->type->name);
}

static void check_shape(struct walk *w, const struct lm_gguf_tensor *t)
{
    uint64_t elements = 1, bytes;
    for (int k = 0; k < LM_GGUF_MAX_DIMS; k++)
        if (!t->ne[k]) {
            found(w, DATA, t->info_offset, "tensor %.*s: dimension %d is 0",
                  LM_NAME_ARG(t->name), k);
            return;
        }
    for (int k = 0; k < LM_GGUF_MAX_DIMS; k++)
        if (!lm_mul_u64(elements, t->ne[k], &elements) || elements > INT64_MAX) {
            found(w, DATA, t->info_offset, "tensor %.*s: number of elements does not fit 63 bits",
                  LM_NAME_ARG(t->name));
            return;
        }
    if (!t->type)
        return;
    if (t->ne[0] % t->type->block)
        found(w, DATA, t->info_offset, "tensor %.*s: rows of %llu elements: %s needs a multiple "
              "of %u", LM_NAME_ARG(t->name), (unsigned long long)t->ne[0], t->type->name,
              t->type->block);
    else if (!lm_gguf_tensor_bytes(t, &bytes) || bytes > INT64_MAX)
        found(w, DATA, t->info_offset, "tensor %.*s: number of bytes does not fit 63 bits",
              LM_NAME_ARG(t->name));
}

static void check_place(struct walk *w, const struct lm_gguf_tensor *t)
{
    const struct lm_gguf *g = w->g;
    uint64_t end;
    if (t->offset % g->alignment)
        found(w, DATA, t->info_offset, "tensor %.*s: offset %llu is not a multiple of %llu",
              LM_NAME_ARG(t->name), (unsigned long long)t->offset,
              (unsigned long long)g->alignment);
    if (!lm_add_u64(g->data_offset, t->offset, &end) || !lm_add_u64(end, t->bytes, &end))
        found(w, DATA, t->info_offset, "tensor %.*s: end of its data does not fit 64 bits",
              LM_NAME_ARG(t->name));
    else if (t->bytes && end > g->file_size && g->file_size != LM_SIZE_UNKNOWN)
        found(w, DATA, g->file_size, "tensor %.*s: data ends at byte %llu, but the file has %llu "
              "bytes", LM_NAME_ARG(t->name), (unsigned long long)end,
              (unsigned long long)g->file_size);
}

static void check_tensors(struct walk *w)
{
    for (uint64_t i = 0; i < w->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &w->g->tensors[i];
        if (!lm_gguf_is_utf8(&t->name))
            found(w, FORM, t->info_offset, "tensor %.*s: the name is not UTF-8",
                  LM_NAME_ARG(t->name));
        if (t->name.len > SPEC_NAME_MAX)
            found(w, FORM, t->info_offset, "tensor %.*s: a name of %llu bytes: at most %d are "
                  "allowed", LM_NAME_ARG(t->name), (unsigned long long)t->name.len,
                  SPEC_NAME_MAX);
        check_type(w, t);
        check_shape(w, t);
        check_place(w, t);
    }
}

static int by_offset(const void *x, const void *y)
{
    const struct lm_gguf_tensor *a, *b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return a->offset != b->offset ? (a->offset > b->offset) - (a->offset < b->offset)
                                  : (a > b) - (a < b);
}

/* Each tensor whose data begins before that of an earlier one ends.  Returns
 * false when memory is short. */
static bool check_overlap(struct walk *w)
{
    const struct lm_gguf *g = w->g;
    const struct lm_gguf_tensor **list = lm_malloc_array(g->n_tensors, sizeof *list), *last = NULL;
    size_t n = 0;
    if (!list)
        return false;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].bytes)
            list[n++] = &g->tensors[i];
    if (n)
        qsort(list, n, sizeof *list, by_offset);
    for (size_t i = 0; i < n; i++) {
        const struct lm_gguf_tensor *t = list[i];
        if (last && t->offset - last->offset < last->bytes)
            found(w, DATA, t->info_offset, "tensor %.*s: data overlaps that of %.*s",
                  LM_NAME_ARG(t->name), LM_NAME_ARG(last->name));
        /* Compared by what is left, since an end may not fit. */
        if (!last || t->offset - last->offset >= last->bytes ||
            t->bytes > last->bytes - (t->offset - last->offset))
            last = t;
    }
    free(list);
    return true;
}

static bool walk(struct walk *w)
{
    if (!w->strict)              /* of entries, all that can be found is FORM */
        check_entries(w);
    check_doubled(w);
    check_tensors(w);
    return check_overlap(w);
}

uint64_t lm_gguf_check(const struct lm_gguf *g,
                       void (*fault)(void *arg, uint64_t offset, const char *what), void *arg)
{
    struct walk w = { .g = g, .fault = fault, .arg = arg };
    if (!walk(&w))
        found(&w, UNKNOWN, 0, "not enough memory to look for overlapping data");
    return w.n;
}

int lm_gguf_strict(const struct lm_gguf *g, struct lm_err *err)
{
    struct walk w = { .g = g, .err = err, .strict = true };
    if (!walk(&w) && w.status == LM_OK)
        return lm_fail_nomem(err);
    return w.status;
}
