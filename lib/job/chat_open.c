/* SPDX-License-Identifier: MIT */
/* Where chat templates and special tokens come from. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/size.h"
#include "hf/hf_vocab_parts.h"
#include "io/input.h"
#include "job/chat_parts.h"
#include "vocab/vocab.h"

const struct lm_chat_template *lm_chat_find(const struct lm_chat *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->templates[i].name.len == strlen(name) &&
            !memcmp(c->templates[i].name.p, name, strlen(name)))
            return &c->templates[i];
    return NULL;
}

/* A copy of what t has. */
static int add_template(struct lm_chat *c, const struct lm_chat_template *t, struct lm_err *err)
{
    char *name = lm_arena_copy(&c->arena, t->name.p, t->name.len);
    char *text = lm_arena_copy(&c->arena, t->text.p, t->text.len);
    char *file = lm_arena_copy(&c->arena, t->file, strlen(t->file));
    char *key = lm_arena_copy(&c->arena, t->key, strlen(t->key));
    if (!name || !text || !file || !key ||
        !lm_grow(&c->templates, &c->cap, c->n + 1, sizeof *c->templates))
        return lm_fail_nomem(err);
    c->templates[c->n++] = (struct lm_chat_template){
        { name, t->name.len }, { text, t->text.len }, file, key
    };
    return LM_OK;
}

static int add_special(struct lm_chat *c, const char *name, size_t name_len, const char *text,
                       size_t len, struct lm_err *err)
{
    struct lm_jval *v = lm_arena_alloc(&c->arena, sizeof *v);
    if (!v)
        return lm_fail_nomem(err);
    v->kind = LM_JSON_STRING;
    v->str = lm_arena_copy(&c->arena, text, len);
    v->key = lm_arena_copy(&c->arena, name, name_len);
    v->len = len;
    v->key_len = name_len;
    if (!v->str || !v->key)
        return lm_fail_nomem(err);
    if (c->last_special)
        c->last_special->next = v;
    else
        c->special.first = v;
    c->last_special = v;
    c->special.len++;
    return LM_OK;
}

/* ---- GGUF --------------------------------------------------------------------------------- */

static int gguf_templates(struct lm_chat *c, const struct lm_gguf *g, const char *path,
                          struct lm_err *err)
{
    static const char key[] = "tokenizer.chat_template";
    const size_t n = sizeof key - 1;
    int s = LM_OK;
    for (uint64_t i = 0; i < g->n_kv && s == LM_OK; i++) {
        const struct lm_gguf_kv *kv = &g->kv[i];
        struct lm_str name = { "default", 7 };
        if (kv->kind != LM_GGUF_STR || kv->key.len < n || memcmp(kv->key.p, key, n) != 0)
            continue;
        if (kv->key.len > n + 1 && kv->key.p[n] == '.')
            name = (struct lm_str){ kv->key.p + n + 1, kv->key.len - n - 1 };
        else if (kv->key.len != n)
            continue;
        const struct lm_chat_template t = { name, kv->str, path, kv->key.p };
        s = add_template(c, &t, err);
    }
    return s;
}

static int gguf_special(struct lm_chat *c, const struct lm_gguf *g, struct lm_err *err)
{
    static const struct { const char *key, *name; } ids[] = {
        { "tokenizer.ggml.bos_token_id", "bos_token" },
        { "tokenizer.ggml.eos_token_id", "eos_token" },
        { "tokenizer.ggml.unknown_token_id", "unk_token" },
        { "tokenizer.ggml.seperator_token_id", "sep_token" },
        { "tokenizer.ggml.padding_token_id", "pad_token" },
        { "tokenizer.ggml.cls_token_id", "cls_token" },
        { "tokenizer.ggml.mask_token_id", "mask_token" },
    };
    struct lm_gguf_arr tokens = { 0 };
    int s = lm_gguf_arr(g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, err);
    for (size_t i = 0; i < sizeof ids / sizeof *ids && s == LM_OK; i++) {
        uint32_t id;
        s = lm_gguf_u32(g, ids[i].key, &id, err);
        if (s == LM_OK && id < tokens.n) {
            struct lm_str t = ((const struct lm_str *)tokens.data)[id];
            s = add_special(c, ids[i].name, strlen(ids[i].name), t.p, t.len, err);
        } else if (s == 1) {
            s = LM_OK;
        }
    }
    return s < 0 ? s : LM_OK;
}

static int from_gguf(struct lm_chat *c, const char *path, struct lm_err *err)
{
    struct lm_in *in = lm_in_open(path, 0, err);
    struct lm_gguf *g = in ? lm_gguf_read(in, false, err) : NULL;
    int s = g ? gguf_templates(c, g, path, err) : LM_EDATA;
    if (s == LM_OK)
        s = gguf_special(c, g, err);
    lm_gguf_free(g);
    lm_in_close(in);
    return s;
}

/* ---- Hugging Face ---------------------------------------------------------------------------- */

/* Special tokens by their names, each as its text or as an object with it; `all`: whatever they
 * are called, not just "..._token". */
static int named_special(struct lm_chat *c, const struct lm_jval *list, bool all,
                         struct lm_err *err)
{
    static const char end[] = "_token";
    const size_t n = sizeof end - 1;
    int s = LM_OK;
    const bool is_object = list && list->kind == LM_JSON_OBJECT;
    for (const struct lm_jval *e = is_object ? list->first : NULL; e && s == LM_OK; e = e->next) {
        const struct lm_jval *text = e->kind == LM_JSON_OBJECT ? lm_jval_get(e, "content") : e;
        const bool is = e->key_len > n && !memcmp(e->key + e->key_len - n, end, n);
        if ((all || is) && lm_jval_str(text))
            s = add_special(c, e->key, e->key_len, text->str, text->len, err);
    }
    return s;
}

static int config_special(struct lm_chat *c, const struct lm_jval *config, struct lm_err *err)
{
    int s = named_special(c, lm_jval_get(config, "model_specific_special_tokens"), true, err);
    if (s == LM_OK)
        s = named_special(c, lm_jval_get(config, "extra_special_tokens"), true, err);
    return s == LM_OK ? named_special(c, config, false, err) : s;
}

/* The templates of a directory's vocabulary. */
static int hf_templates(struct lm_chat *c, const struct lm_hf_vocab *v, const char *path,
                        struct lm_err *err)
{
    struct lm_buf file = { 0 };
    size_t n = strlen(path);
    int s = LM_OK;
    for (size_t i = 0; i < v->n_templates && s == LM_OK; i++) {
        const struct lm_hf_template *t = &v->templates[i];
        lm_buf_clear(&file);
        lm_buf_printf(&file, "%s%s%s", path, n && path[n - 1] == '/' ? "" : "/", t->file);
        bool member = strstr(t->file, ".json") != NULL;
        const struct lm_chat_template copy = { t->name, t->text, file.data,
                                               member ? "chat_template" : "" };
        s = file.failed ? lm_fail_nomem(err) : add_template(c, &copy, err);
    }
    lm_buf_release(&file);
    return s;
}

/* As transformers reads them: special_tokens_map.json counts, and comes first, where
 * tokenizer_config.json does not list the tokens that were added. */
static int from_config(struct lm_chat *c, const char *path, struct lm_hf_source *src,
                       struct lm_err *err)
{
    struct lm_hf_vocab v = { 0 };
    const struct lm_jval *config = NULL, *map = NULL;
    int s = lm_hf_load_object(src, &c->arena, "tokenizer_config.json", &config, err);
    if (s == LM_OK)
        s = config_special(c, config, err);
    if (s == LM_OK && !lm_jval_get(config, "added_tokens_decoder"))
        s = lm_hf_load_object(src, &c->arena, "special_tokens_map.json", &map, err);
    if (s == LM_OK)
        s = config_special(c, map, err);
    if (s == LM_OK)
        s = lm_hf_chat_templates(&v, src, config, true, err);
    if (s == LM_OK)
        s = hf_templates(c, &v, path, err);
    lm_hf_vocab_release(&v);
    return s;
}

static int from_directory(struct lm_chat *c, const char *path, const struct lm_env *env,
                          struct lm_err *err)
{
    struct lm_hf_source *src = lm_hf_open(path, NULL, env, err);
    int s = src ? from_config(c, path, src, err) : LM_EDATA;
    lm_hf_close(src);
    return s;
}

/* Where a file lies. */
static int beside(struct lm_chat *c, const char *path, const struct lm_env *env,
                  struct lm_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    int s = dir ? from_directory(c, dir, env, err) : lm_fail_nomem(err);
    free(dir);
    return s;
}

struct lm_chat *lm_chat_open(const char *path, const struct lm_env *env, struct lm_err *err)
{
    struct lm_chat *c = calloc(1, sizeof *c);
    struct stat st;
    size_t len = strlen(path);
    int s;
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->env = env;
    c->special.kind = LM_JSON_OBJECT;
    c->path = lm_arena_copy(&c->arena, path, len);
    if (!c->path)
        s = lm_fail_nomem(err);
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        s = from_directory(c, path, env, err);
    else if (lm_vocab_is_gguf(path))
        s = from_gguf(c, path, err);
    else
        s = beside(c, path, env, err);
    if (s == LM_OK)
        return c;
    lm_chat_free(c);
    return NULL;
}

void lm_chat_free(struct lm_chat *c)
{
    if (!c)
        return;
    lm_arena_release(&c->arena);
    free(c->templates);
    free(c);
}
