/* SPDX-License-Identifier: MIT */
/* Which tokens are special, by the small files of a checkpoint. */
#include "hf/hf_named.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/json.h"
#include "io/input.h"

#define MAX_FILE ((size_t)1 << 28)

static const struct {
    const char *text, *id;
} members[LM_N_NAMED] = {
    [LM_NAMED_BOS] = { "bos_token", "bos_token_id" },
    [LM_NAMED_EOS] = { "eos_token", "eos_token_id" },
    [LM_NAMED_SEP] = { "sep_token", "sep_token_id" },
};

const char *lm_hf_named_member(enum lm_named k)
{
    return members[k].text;
}

/* What is read of a file; a tokenizer_config.json may have megabytes besides. */
struct file {
    const struct lm_jval *text[LM_N_NAMED], *id[LM_N_NAMED];
    const struct lm_jval *text_config;
    bool                  decoder;               /* has added_tokens_decoder */
};

/* Where the member goes whose name was read last; NULL: it is not wanted. */
static const struct lm_jval **place(struct file *f, struct lm_json *j)
{
    for (size_t k = 0; k < LM_N_NAMED; k++)
        if (lm_json_is(j, members[k].text))
            return &f->text[k];
        else if (lm_json_is(j, members[k].id))
            return &f->id[k];
    f->decoder |= lm_json_is(j, "added_tokens_decoder");
    return lm_json_is(j, "text_config") ? &f->text_config : NULL;
}

static int walk(struct lm_json *j, struct lm_arena *a, struct file *f, struct lm_err *err)
{
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? LM_EDATA : lm_fail(err, LM_EDATA, "is no object");
    while ((k = lm_json_next(j)) == LM_JSON_KEY) {
        const struct lm_jval **to = place(f, j);
        const enum lm_json_kind first = lm_json_next(j);
        const size_t at = j->at;
        if (first == LM_JSON_ERROR || lm_json_skip(j, first) != LM_OK)
            return LM_EDATA;
        if (to && !(*to = lm_json_tree(a, j->text + at, j->pos - at, err)))
            return LM_EDATA;
    }
    return k == LM_JSON_ERROR || lm_json_next(j) == LM_JSON_ERROR ? LM_EDATA : LM_OK;
}

/* The members of a file that are wanted; none are there without it. */
static int read_file(struct lm_hf_named *x, const char *folder, const char *name, struct file *f,
                     struct lm_err *err)
{
    struct lm_err why = { .code = LM_EDATA };
    struct lm_buf path = { 0 };
    struct lm_json j;
    struct stat st;
    char *text = NULL;
    size_t len;
    *f = (struct file){ .decoder = false };
    lm_buf_printf(&path, "%s/%s", folder, name);
    /* a link that leads nowhere is there, too, and cannot be read */
    const bool there = !path.failed && lstat(path.data, &st) == 0;
    int s = path.failed ? lm_fail_nomem(&why)
            : there     ? lm_read_file(path.data, MAX_FILE, &text, &len, &why) : LM_OK;
    lm_buf_release(&path);
    if (text) {
        lm_json_init(&j, text, len, &why);
        s = walk(&j, &x->arena, f, &why);
        lm_json_release(&j);
        free(text);
    }
    return s == LM_OK ? s : lm_fail(err, why.code, "%s: %s", name, why.text);
}

/* A token's text, if a member has one. */
static void take_text(struct lm_hf_named *x, size_t k, const struct lm_jval *v, const char *file)
{
    const struct lm_jval *t = lm_jval_str(v) ? v : lm_jval_get(v, "content");
    if (!v)
        return;
    x->token[k].text = lm_jval_str(t);
    x->token[k].len = x->token[k].text ? t->len : 0;
    x->token[k].file = file;
}

static int read_texts(struct lm_hf_named *x, const char *folder, struct lm_err *err)
{
    static const char own[] = "tokenizer_config.json", map[] = "special_tokens_map.json";
    struct file config, old;
    int s = read_file(x, folder, own, &config, err);
    if (s == LM_OK)
        s = read_file(x, folder, map, &old, err);
    for (size_t k = 0; k < LM_N_NAMED && s == LM_OK; k++) {
        const bool by_map = old.text[k] && (!config.decoder || !config.text[k]);
        take_text(x, k, by_map ? old.text[k] : config.text[k], by_map ? map : own);
    }
    return s;
}

/* A number, or a list of numbers. */
static void take_ids(struct lm_hf_named *x, size_t k, const struct lm_jval *v)
{
    const bool list = v && v->kind == LM_JSON_ARRAY;
    int64_t id;
    for (const struct lm_jval *e = list ? v->first : v; e; e = list ? e->next : NULL) {
        if (!lm_jval_i64(e, &id) || id < 0 || id > INT32_MAX)
            continue;
        if (x->token[k].id < 0)
            x->token[k].id = id;
        if (k == LM_NAMED_EOS && x->n_ends < LM_MAX_NAMED_ENDS)
            x->ends[x->n_ends++] = (int32_t)id;
    }
}

/* Of a file that tokenizers do without: a broken one is known to occur. */
static int read_ids(struct lm_hf_named *x, const char *folder, const char *name,
                    const struct lm_env *env, struct lm_err *err)
{
    struct file f;
    int s = read_file(x, folder, name, &f, err);
    if (s != LM_OK && s != LM_ENOMEM) {
        if (err)
            lm_note(env, LM_WARN, "%s: it is not heeded", err->text);
        return LM_OK;
    }
    for (size_t k = 0; k < LM_N_NAMED && s == LM_OK; k++) {
        /* models of several parts have those of the language model in it */
        const struct lm_jval *inner = lm_jval_get(f.text_config, members[k].id);
        take_ids(x, k, f.id[k] ? f.id[k] : inner);
    }
    return s;
}

int lm_hf_named_read(struct lm_hf_named *x, const char *folder, const struct lm_env *env,
                     struct lm_err *err)
{
    for (size_t k = 0; k < LM_N_NAMED; k++)
        x->token[k].id = -1;
    int s = read_texts(x, folder, err);
    if (s == LM_OK)
        s = read_ids(x, folder, "config.json", env, err);
    return s == LM_OK ? read_ids(x, folder, "generation_config.json", env, err) : s;
}

void lm_hf_named_release(struct lm_hf_named *x)
{
    lm_arena_release(&x->arena);
    *x = (struct lm_hf_named){ .n_ends = 0 };
}
