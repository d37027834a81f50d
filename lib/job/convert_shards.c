/* SPDX-License-Identifier: MIT */
/* The weight files of a checkpoint: which there must be, and what their headers say. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "io/input.h"
#include "job/convert_parts.h"

static const char index_name[] = "model.safetensors.index.json";

static bool is_model_file(const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(name, "model", 5) && n > 12 && !strcmp(name + n - 12, ".safetensors");
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
static int from_index(struct lm_convert *c, const struct lm_jval *map, size_t *cap,
                      struct lm_err *err)
{
    const char *last = "";
    c->index = lm_arena_array(&c->arena, map->len + 1, sizeof *c->index);
    if (!c->index)
        return lm_fail_nomem(err);
    for (const struct lm_jval *t = map->first; t; t = t->next) {
        const char *file = lm_jval_str(t);
        if (!file || strchr(file, '/') || !*file)
            return lm_fail(err, LM_EDATA, "%s: %s: no file name", index_name, t->key);
        c->index[c->n_index++] = (struct lm_convert_where){ t->key, file };
        const int r = strcmp(file, last) ? add_shard(c, cap, file, err) : LM_OK;
        if (r)
            return r;
        last = file;
    }
    qsort(c->index, c->n_index, sizeof *c->index, tensor_order);
    return c->n_index ? LM_OK : lm_fail(err, LM_EDATA, "%s: names no file", index_name);
}

const char *lm_convert_index(const struct lm_convert *c, const char *tensor)
{
    const struct lm_convert_where key = { tensor, NULL };
    const struct lm_convert_where *w =
        bsearch(&key, c->index, c->n_index, sizeof *c->index, tensor_order);
    return w ? w->file : NULL;
}

int lm_convert_check_index(const struct lm_convert *c, const char *tensor, size_t shard,
                           struct lm_err *err)
{
    const char *file = c->index ? lm_convert_index(c, tensor) : NULL;
    if (c->index && (!file || strcmp(file, c->shards[shard].name)))
        return lm_fail(err, LM_EDATA, "%s: %s: the index %s%s", c->shards[shard].name, tensor,
                       file ? "says it is in " : "does not name it", file ? file : "");
    return LM_OK;
}

/* The files that the name of one of them, model-00001-of-00004, promises. */
static int from_count(struct lm_convert *c, const char *name, size_t *cap, struct lm_err *err)
{
    enum { MOST = 10000 };
    unsigned first, count;
    int end = 0;
    char expect[64];
    if (sscanf(name, "model-%5u-of-%5u.safetensors%n", &first, &count, &end) != 2 ||
        !end || name[end] || count > MOST)
        return LM_OK;
    for (unsigned k = 1; k <= count; k++) {
        snprintf(expect, sizeof expect, "model-%05u-of-%05u.safetensors", k, count);
        const int r = add_shard(c, cap, expect, err);
        if (r)
            return r;
    }
    return LM_OK;
}

/* Without an index: every file called model*.safetensors. */
static int from_files(struct lm_convert *c, size_t *cap, struct lm_err *err)
{
    for (size_t i = 0; i < lm_hf_n_files(c->src); i++) {
        const char *name = lm_hf_name(c->src, i);
        if (!is_model_file(name))
            continue;
        int r = add_shard(c, cap, name, err);
        if (!r && c->n_shards == 1)
            r = from_count(c, name, cap, err);
        if (r)
            return r;
    }
    if (c->n_shards)
        return LM_OK;
    if (lm_hf_find(c->src, "pytorch_model.bin") >= 0 ||
        lm_hf_find(c->src, "pytorch_model.bin.index.json") >= 0)
        return lm_fail(err, LM_ENOSUP, "the weights are in pytorch_model.bin: only safetensors "
                       "can be converted");
    return lm_hf_missing(c->src, "model*.safetensors", err);
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

static int read_header(struct lm_convert *c, struct lm_convert_shard *s, struct lm_err *err)
{
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

/* Read every header, go on after a bad file, and tell of each. */
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
        if (bad++)
            lm_note(c->env, LM_WARN, "%s", e.text);
        else
            *err = e;
        r = k;
    }
    if (bad > 1)
        lm_err_at(err, r, "%zu of %zu weight files cannot be used", bad, c->n_shards);
    return r;
}

int lm_convert_shards(struct lm_convert *c, struct lm_err *err)
{
    char *data = NULL;
    size_t len, cap = 0;
    int r = lm_hf_load(c->src, index_name, &data, &len, err);
    if (r < 0)
        return r;
    if (r == 0) {
        const struct lm_jval *index = lm_json_tree(&c->arena, data, len, err);
        free(data);
        const struct lm_jval *map = lm_jval_get(index, "weight_map");
        if (!index)
            return lm_err_at(err, LM_EDATA, "%s", index_name);
        if (!map || map->kind != LM_JSON_OBJECT)
            return lm_fail(err, LM_EDATA, "%s: no weight_map", index_name);
        r = from_index(c, map, &cap, err);
    } else {
        r = from_files(c, &cap, err);
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
