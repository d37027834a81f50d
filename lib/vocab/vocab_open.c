/* SPDX-License-Identifier: MIT */
/* A vocabulary by path, whatever is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hf/rank_files.h"
#include "io/map.h"
#include "vocab/tokenizer.h"

#define MAX_FILE ((size_t)1 << 30)

typedef struct lm_vocab *reader(const char *data, size_t len, const struct lm_env *env,
                                struct lm_err *err);

static bool is_named(const char *path, const char *base)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, base) == 0;
}

/* What a file begins with tells what it is, if its name does not. */
static reader *reader_of(const char *path)
{
    unsigned char head[256];
    size_t len = strlen(path);
    FILE *f;
    if (is_named(path, "tekken.json"))
        return lm_vocab_from_tekken;
    if (len >= 5 && strcmp(path + len - 5, ".json") == 0)
        return lm_vocab_from_json;
    f = fopen(path, "rb");
    len = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    if (lm_looks_like_spm(head, len))
        return lm_vocab_from_spm;
    if (lm_looks_like_ranks(head, len))
        return lm_vocab_from_ranks;
    if (lm_looks_like_rwkv(head, len))
        return lm_vocab_from_rwkv;
    len = strlen(path);
    return len >= 4 && strcmp(path + len - 4, ".txt") == 0 ? lm_vocab_from_txt : NULL;
}

/* Map a plain file; false if it is none, or another way of reading it tells why not. */
static bool map_plain(const char *path, struct lm_map *map)
{
    struct lm_in *in = lm_in_open(path, 0, NULL);
    bool there = in && lm_in_seekable(in) && lm_in_size(in) <= MAX_FILE &&
                 lm_map_fd(map, lm_in_fd(in), NULL) == LM_OK;
    lm_in_close(in);
    return there;
}

static struct lm_vocab *open_with(reader *read, const char *path, const struct lm_env *env,
                                  struct lm_err *err)
{
    struct lm_vocab *v;
    struct lm_map map;
    char *data;
    size_t len;
    /* a tokenizer.json may be large: no copy of it is made */
    if (read == lm_vocab_from_json && map_plain(path, &map)) {
        v = read((const char *)map.data, (size_t)map.size, env, err);
        lm_map_close(&map);
        return v;
    }
    if (lm_read_file(path, MAX_FILE, &data, &len, err) != LM_OK)
        return NULL;
    v = read(data, len, env, err);
    free(data);
    return v;
}

static struct lm_vocab *open_directory(const char *path, const struct lm_env *env,
                                       struct lm_err *err)
{
    struct lm_buf name = { 0 };
    struct lm_vocab *v = NULL;
    struct stat st;
    lm_buf_printf(&name, "%s/tokenizer.json", path);
    if (name.failed)
        lm_fail_nomem(err);
    else if (stat(name.data, &st) != 0)
        v = lm_vocab_from_hf(path, env, err);
    else if (!(v = open_with(lm_vocab_from_json, name.data, env, err)) && err)
        lm_err_at(err, (int)err->code, "tokenizer.json");
    lm_buf_release(&name);
    return v;
}

/* vocab.json and merges.txt stand for the directory that they are in. */
static struct lm_vocab *open_beside(const char *path, const struct lm_env *env,
                                    struct lm_err *err)
{
    const char *slash = strrchr(path, '/');
    struct lm_buf name = { 0 };
    struct lm_vocab *v = NULL;
    if (slash)
        lm_buf_add(&name, path, (size_t)(slash - path) + 1);
    else
        lm_buf_str(&name, ".");
    if (name.failed)
        lm_fail_nomem(err);
    else
        v = lm_vocab_from_hf(name.data, env, err);
    lm_buf_release(&name);
    return v;
}

static struct lm_vocab *open_gguf(const char *path, const struct lm_env *env, struct lm_err *err)
{
    struct lm_in *in = lm_in_open(path, 0, err);
    struct lm_gguf *g = in ? lm_gguf_read(in, false, err) : NULL;
    struct lm_vocab *v = g ? lm_vocab_from_gguf(g, env, err) : NULL;
    lm_gguf_free(g);
    lm_in_close(in);
    return v;
}

struct lm_vocab *lm_vocab_open(const char *path, const struct lm_env *env, struct lm_err *err)
{
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode))
        return open_directory(path, env, err);
    if (there && (is_named(path, "vocab.json") || is_named(path, "merges.txt")))
        return open_beside(path, env, err);
    reader *read = there && S_ISREG(st.st_mode) ? reader_of(path) : NULL;
    return read ? open_with(read, path, env, err) : open_gguf(path, env, err);
}
