/* SPDX-License-Identifier: MIT */
/* A vocabulary by path, whatever is there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vocab/tokenizer.h"

#define MAX_JSON ((size_t)1 << 30)

static struct lm_vocab *open_json(const char *path, const struct lm_env *env, struct lm_err *err)
{
    char *text;
    size_t len;
    if (lm_read_file(path, MAX_JSON, &text, &len, err) != LM_OK)
        return NULL;
    struct lm_vocab *v = lm_vocab_from_json(text, len, env, err);
    free(text);
    return v;
}

static struct lm_vocab *open_directory(const char *path, const struct lm_env *env,
                                       struct lm_err *err)
{
    struct lm_buf name = { 0 };
    struct lm_vocab *v = NULL;
    lm_buf_printf(&name, "%s/tokenizer.json", path);
    if (name.failed)
        lm_fail_nomem(err);
    else
        v = open_json(name.data, env, err);
    if (!v && err)
        lm_err_at(err, (int)err->code, "tokenizer.json");
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
    size_t len = strlen(path);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return open_directory(path, env, err);
    if (len >= 5 && strcmp(path + len - 5, ".json") == 0)
        return open_json(path, env, err);
    return open_gguf(path, env, err);
}
