/* SPDX-License-Identifier: MIT */
/* The weight files of a checkpoint: which there must be, and what their headers say. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "hf/torch_file.h"
#include "job/convert_parts.h"

/* What weight files and the index of them are called, the form that is preferred first; `own`:
 * of Mistral's own files. */
static const struct form {
    const char *index, *prefix, *end;
    bool        own;
} forms[] = {
    { "model.safetensors.index.json", "model", ".safetensors", false },
    { "pytorch_model.bin.index.json", "pytorch_model", ".bin", false },
    { "consolidated.safetensors.index.json", "consolidated", ".safetensors", true },
};

enum { N_FORMS = sizeof forms / sizeof *forms, MOST_NOTES = 8 };

static bool is_model_file(const struct form *f, const char *name)
{
    return !strncmp(name, f->prefix, strlen(f->prefix)) && lm_ends_with(name, f->end);
}

static int add_shard(struct lm_convert *c, size_t *cap, const char *name, struct lm_err *err)
{
    if (!lm_grow(&c->shards, cap, c->n_shards + 1, sizeof *c->shards))
        return lm_fail_nomem(err);
    const char *copy = lm_arena_copy(&c->arena, name, strlen(name));
    if (!copy)
        return lm_fail_nomem(err);
    c->shards[c->n_shards++] = (struct lm_convert_shard){ .name = copy, .file = -1 };
    return LM_OK;
}

static int tensor_order(const void *a, const void *b)
{
    return strcmp(((const struct lm_convert_where *)a)->tensor,
                  ((const struct lm_convert_where *)b)->tensor);
}

/* The weight_map of the index: which tensor is in which file. */
static int from_index(struct lm_convert *c, const struct form *f, const struct lm_jval *map,
                      size_t *cap, struct lm_err *err)
{
    const char *last = "";
    c->index = lm_arena_array(&c->arena, map->len + 1, sizeof *c->index);
    if (!c->index)
        return lm_fail_nomem(err);
    for (const struct lm_jval *t = map->first; t; t = t->next) {
        const char *file = lm_jval_str(t);
        if (!file || !*file)
            return lm_fail(err, LM_EDATA, "%s: %s: no file name", f->index, t->key);
        if (strchr(file, '/'))
            return lm_fail(err, LM_EDATA, "%s: %s: %.100s: is a path, and only files beside the "
                           "index are read", f->index, t->key, file);
        c->index[c->n_index++] = (struct lm_convert_where){ t->key, file };
        const int r = strcmp(file, last) ? add_shard(c, cap, file, err) : LM_OK;
        if (r)
            return r;
        last = file;
    }
    qsort(c->index, c->n_index, sizeof *c->index, tensor_order);
    return c->n_index ? LM_OK : lm_fail(err, LM_EDATA, "%s: names no file", f->index);
}

/* The file that the index gives a tensor, or NULL. */
static const char *indexed(const struct lm_convert *c, const char *tensor)
{
    const struct lm_convert_where key = { tensor, NULL };
    const struct lm_convert_where *w =
        bsearch(&key, c->index, c->n_index, sizeof *c->index, tensor_order);
    return w ? w->file : NULL;
}

static int name_order(const void *key, const void *st)
{
    return strcmp(key, ((const struct lm_st_tensor *)st)->name);
}

int lm_convert_check_index(const struct lm_convert *c, size_t shard, struct lm_err *err)
{
    const struct lm_convert_shard *s = &c->shards[shard];
    if (s->row)
        return LM_OK;
    for (size_t k = 0; c->index && k < s->st.n_tensors; k++) {
        const char *file = indexed(c, s->st.tensors[k].name);
        if (!file || strcmp(file, s->name))
            return lm_fail(err, LM_EDATA, "%s: %s: the index %s%s", s->name,
                           s->st.tensors[k].name, file ? "says it is in " : "does not name it",
                           file ? file : "");
    }
    for (size_t k = 0; k < c->n_index; k++)
        if (!strcmp(c->index[k].file, s->name) &&
            !bsearch(c->index[k].tensor, s->st.tensors, s->st.n_tensors, sizeof *s->st.tensors,
                     name_order))
            return lm_fail(err, LM_EDATA, "%s: %s: the index says it is here, but it is not",
                           s->name, c->index[k].tensor);
    return LM_OK;
}

/* The files that the name of one of them, model-00001-of-00004, promises. */
static int from_count(struct lm_convert *c, const struct form *f, const char *name, size_t *cap,
                      struct lm_err *err)
{
    enum { MOST = 10000 };
    unsigned first, count;
    int end = 0;
    char expect[64];
    if (sscanf(name + strlen(f->prefix), "-%5u-of-%5u%n", &first, &count, &end) != 2 || !end ||
        strcmp(name + strlen(f->prefix) + end, f->end) || count > MOST)
        return LM_OK;
    for (unsigned k = 1; k <= count; k++) {
        snprintf(expect, sizeof expect, "%s-%05u-of-%05u%s", f->prefix, k, count, f->end);
        const int r = add_shard(c, cap, expect, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* Without an index: every file that is called so. */
static int from_files(struct lm_convert *c, size_t *cap, struct lm_err *err)
{
    for (int k = 0; k < N_FORMS && !c->n_shards; k++)
        for (size_t i = 0; i < lm_hf_n_files(c->src); i++) {
            const char *name = lm_hf_name(c->src, i);
            if (forms[k].own != c->cfg.own || !is_model_file(&forms[k], name))
                continue;
            int r = add_shard(c, cap, name, err);
            if (!r && c->n_shards == 1)
                r = from_count(c, &forms[k], name, cap, err);
            if (r)
                return r;
        }
    return c->n_shards ? LM_OK
                       : lm_hf_missing(c->src, c->cfg.own ? "consolidated*.safetensors"
                                                          : "model*.safetensors", err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lm_convert_shard *)a)->name,
                  ((const struct lm_convert_shard *)b)->name);
}

/* By name, none twice. */
static void sort_shards(struct lm_convert *c)
{
    size_t n = 0;
    qsort(c->shards, c->n_shards, sizeof *c->shards, by_name);
    for (size_t i = 0; i < c->n_shards; i++)
        if (!n || strcmp(c->shards[n - 1].name, c->shards[i].name))
            c->shards[n++] = c->shards[i];
    c->n_shards = n;
}

/* Put a file that is no safetensors file into words. */
static int not_weights(const uint8_t *head, size_t n, uint64_t size, struct lm_err *err)
{
    static const char lfs[] = "version ";
    if (n == 0)
        return lm_fail(err, LM_EDATA, "is empty");
    if (n >= 8 && !memcmp(head, lfs, 8))
        return lm_fail(err, LM_EDATA, "is a Git LFS pointer, not the weights (git lfs pull "
                       "fetches them)");
    return lm_fail(err, LM_EDATA, "%llu bytes are too few for a safetensors file",
                   (unsigned long long)size);
}

static int read_bytes(void *user, uint64_t off, void *dst, size_t n, struct lm_err *err)
{
    struct lm_convert *c = user;
    return lm_hf_read(c->src, c->reading, off, dst, n, err);
}

/* What PyTorch saved. */
static int read_torch(struct lm_convert *c, struct lm_convert_shard *s, struct lm_err *err)
{
    const size_t file = (size_t)s->file;
    const struct lm_zip_bytes bytes = { lm_hf_size(c->src, file), read_bytes, c };
    if (!lm_hf_random(c->src))
        return lm_hf_need_spool(c->src, "its tensors do not come in the order needed:", err);
    c->reading = file;
    const int r = lm_torch_read(&s->st, &c->arena, &bytes, (size_t)(s - c->shards), err);
    s->read = r == LM_OK;
    return r;
}

static int read_header(struct lm_convert *c, struct lm_convert_shard *s, struct lm_err *err)
{
    if (lm_ends_with(s->name, ".bin"))
        return read_torch(c, s, err);
    uint8_t first[8] = {0};
    uint64_t len = 0;
    const uint64_t size = lm_hf_size(c->src, (size_t)s->file);
    const size_t n = size < 8 ? (size_t)size : 8;
    int r = lm_hf_read(c->src, (size_t)s->file, 0, first, n, err);
    if (r)
        return r;
    if (n < 8 || !memcmp(first, "version ", 8))
        return not_weights(first, n, size, err);
    r = lm_safetensors_length(first, size, &len, err);
    if (r)
        return r;
    char *header = malloc((size_t)len + 1);
    if (!header)
        return lm_fail_nomem(err);
    r = lm_hf_read(c->src, (size_t)s->file, 8, header, (size_t)len, err);
    if (!r)
        r = lm_safetensors_parse(&s->st, &c->arena, header, (size_t)len, size, err);
    free(header);
    s->read = r == LM_OK;
    return r;
}

int lm_convert_read_shard(struct lm_convert *c, size_t i, struct lm_err *err)
{
    const int r = read_header(c, &c->shards[i], err);
    return r ? lm_err_at(err, r, "%s", c->shards[i].name) : LM_OK;
}

/* Read every header, go on after a bad file, and tell of each, but of thousands only of some. */
static int read_headers(struct lm_convert *c, struct lm_err *err)
{
    size_t bad = 0;
    int r = LM_OK;
    struct lm_err e = {0};
    if (!lm_hf_complete(c->src) && lm_hf_find(c->src, c->shards[0].name) < 0)
        return lm_hf_not_next(c->src, lm_hf_name(c->src, lm_hf_n_files(c->src) - 1),
                              c->shards[0].name, err);
    for (size_t i = 0; i < c->n_shards; i++) {
        struct lm_convert_shard *s = &c->shards[i];
        int k;
        s->file = lm_hf_find(c->src, s->name);
        if (s->file < 0 && !lm_hf_complete(c->src))
            continue;                       /* it may come yet */
        k = s->file < 0 ? lm_fail(&e, LM_EDATA, "%s: is missing", s->name)
                        : lm_convert_read_shard(c, i, &e);
        if (k == LM_OK)
            continue;
        if (k != LM_EDATA) {
            *err = e;
            return k;
        }
        if (!bad++)
            *err = e;
        else if (bad <= MOST_NOTES)
            lm_note(c->env, LM_WARN, "%s", e.text);
        r = k;
    }
    if (bad > MOST_NOTES)
        lm_note(c->env, LM_WARN, "and %zu more", bad - MOST_NOTES);
    if (bad > 1)
        lm_err_at(err, r, "%zu of %zu weight files cannot be used", bad, c->n_shards);
    return r;
}

/* The index of one form: 1 when there is none. */
static int try_index(struct lm_convert *c, const struct form *f, size_t *cap, struct lm_err *err)
{
    char *data = NULL;
    size_t len;
    const int r = lm_hf_load(c->src, f->index, &data, &len, err);
    if (r)
        return r;
    const struct lm_jval *index = lm_json_tree(&c->arena, data, len, err);
    free(data);
    const struct lm_jval *map = lm_jval_get(index, "weight_map");
    if (!index)
        return lm_err_at(err, LM_EDATA, "%s", f->index);
    if (!map || map->kind != LM_JSON_OBJECT)
        return lm_fail(err, LM_EDATA, "%s: no weight_map", f->index);
    return from_index(c, f, map, cap, err);
}

static bool has_form(const struct lm_convert *c, const struct form *f)
{
    for (size_t i = 0; i < lm_hf_n_files(c->src); i++)
        if (is_model_file(f, lm_hf_name(c->src, i)))
            return true;
    return false;
}

int lm_convert_shards(struct lm_convert *c, struct lm_err *err)
{
    size_t cap = 0;
    int r = 1;
    for (int k = 0; k < N_FORMS && r == 1; k++) {
        if (forms[k].own != c->cfg.own)
            continue;
        r = try_index(c, &forms[k], &cap, err);
        if (r == 1 && has_form(c, &forms[k]))
            break;                      /* one file of the better form needs no index */
    }
    if (r == 1)
        r = from_files(c, &cap, err);
    for (size_t i = 0; !r && i < sizeof c->cfg.dense / sizeof *c->cfg.dense; i++) {
        if (!c->cfg.dense[i].file)
            continue;
        r = add_shard(c, &cap, c->cfg.dense[i].file, err);
        if (!r)
            c->shards[c->n_shards - 1].row = c->cfg.dense[i].row;
    }
    if (r)
        return r;
    sort_shards(c);
    return read_headers(c, err);
}

int lm_convert_add_file(struct lm_convert *c, const char *name, struct lm_err *err)
{
    size_t cap = 0;
    int r = add_shard(c, &cap, name, err);
    c->shards[0].file = lm_hf_find(c->src, name);
    return r ? r : lm_convert_read_shard(c, 0, err);
}
