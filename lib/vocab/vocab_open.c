/* SPDX-License-Identifier: MIT */
/* A vocabulary by path, whatever is there. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "gguf/gguf_foreign.h"
#include "hf/rank_files.h"
#include "io/map.h"
#include "vocab/tokenizer.h"

#define MAX_FILE ((size_t)1 << 30)

typedef struct lm_vocab *reader(const char *data, size_t len, const struct lm_env *env,
                                struct lm_err *err);

/* ---- what a file is ------------------------------------------------------------ */

static bool looks_like_gguf(const unsigned char *head, size_t len)
{
    return len >= 4 && memcmp(head, "GGUF", 4) == 0;
}

static size_t past_blanks(const unsigned char *head, size_t len, size_t i)
{
    while (i < len && head[i] && strchr(" \t\r\n", head[i]))
        i++;
    return i;
}

static bool looks_like_json(const unsigned char *head, size_t len)
{
    const size_t i = past_blanks(head, len, 0);
    return i < len && head[i] == '{';
}

/* Its first member is one that a tokenizer.json does not have. */
static bool looks_like_tekken(const unsigned char *head, size_t len)
{
    static const char *const members[] = { "\"config\"", "\"vocab\"", "\"special_tokens\"" };
    if (!looks_like_json(head, len))
        return false;
    const size_t i = past_blanks(head, len, past_blanks(head, len, 0) + 1);
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
        const size_t n = strlen(members[k]);
        if (len - i >= n && memcmp(head + i, members[k], n) == 0)
            return true;
    }
    return false;
}

/* One of its first lines is a special piece of BERT's. */
static bool looks_like_txt(const unsigned char *head, size_t len)
{
    static const char *const pieces[] = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" };
    for (size_t at = 0; at < len;) {
        const unsigned char *nl = memchr(head + at, '\n', len - at);
        size_t n = nl ? (size_t)(nl - head) - at : 0;
        n -= n && head[at + n - 1] == '\r';
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++)
            if (n == strlen(pieces[k]) && memcmp(head + at, pieces[k], n) == 0)
                return true;
        at = nl ? (size_t)(nl - head) + 1 : len;
    }
    return false;
}

/* The first row whose name and first bytes both fit. */
static const struct form {
    const char *begin, *end;                     /* of the file's name                */
    bool (*looks)(const unsigned char *head, size_t len);       /* NULL: any          */
    reader     *read;                            /* NULL: a GGUF file                 */
    const char *what;
} forms[] = {
    { "tekken.json", "",     NULL,               lm_vocab_from_tekken, "tekken.json" },
    { "",            "",     looks_like_tekken,  lm_vocab_from_tekken, "tekken.json" },
    { "",            ".json", NULL,              lm_vocab_from_json,   "a tokenizer.json" },
    { "",            ".txt", lm_looks_like_rwkv, lm_vocab_from_rwkv,   "RWKV's list of pieces" },
    { "rwkv_vocab_", ".txt", NULL,               lm_vocab_from_rwkv,   "RWKV's list of pieces" },
    { "",            "",     lm_looks_like_ranks, lm_vocab_from_ranks, "tiktoken's ranks" },
    { "",       ".tiktoken", NULL,               lm_vocab_from_ranks,  "tiktoken's ranks" },
    { "",            ".txt", NULL,               lm_vocab_from_txt,    "a vocab.txt" },
    { "",            "",     looks_like_gguf,    NULL,                 "a GGUF file" },
    { "",           ".gguf", NULL,               NULL,                 "a GGUF file" },
    { "",            "",     lm_looks_like_spm,  lm_vocab_from_spm,    "a SentencePiece model" },
    { "",          ".model", NULL,               lm_vocab_from_spm,    "a SentencePiece model" },
    { "",            "",     lm_looks_like_rwkv, lm_vocab_from_rwkv,   "RWKV's list of pieces" },
    { "",            "",     looks_like_json,    lm_vocab_from_json,   "a tokenizer.json" },
    { "",            "",     looks_like_txt,     lm_vocab_from_txt,    "a vocab.txt" },
    { "",            "",     NULL,               NULL,                 "a GGUF file" },
};

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* By the name, less a .zst, and the first bytes. */
static const struct form *form_of(const char *path, const unsigned char *head, size_t len)
{
    const struct form *f = forms;
    char name[256] = "";
    const char *base = base_of(path);
    const size_t n = strlen(base) - (lm_ends_with(base, ".zst") ? 4 : 0);
    memcpy(name, base, n < sizeof name ? n : sizeof name - 1);
    while (!lm_begins_with(name, f->begin) || !lm_ends_with(name, f->end) ||
           (f->looks && !f->looks(head, len)))
        f++;
    return f;
}

/* Also a link that leads nowhere: what is named is there, but cannot be read. */
static bool is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Two files that stand for the directory that they are in. */
static bool is_half(const char *path)
{
    struct stat st;
    const char *base = base_of(path);
    return (strcmp(base, "vocab.json") == 0 || strcmp(base, "merges.txt") == 0) &&
           stat(path, &st) == 0;
}

bool lm_vocab_is_gguf(const char *path)
{
    unsigned char head[LM_FOREIGN_SIZE];
    size_t n = 0;
    if (is_directory(path) || is_half(path))
        return false;
    struct lm_in *in = lm_in_open(path, 0, NULL);
    const bool gguf = !in || lm_in_peek(in, head, sizeof head, &n, NULL) != LM_OK ||
                      !form_of(path, head, n)->read;
    lm_in_close(in);
    return gguf;
}

/* ---- reading it ---------------------------------------------------------------- */

/* The directory that a file is in; NULL when memory is short. */
static char *folder_of(const char *path)
{
    const char *base = base_of(path);
    return base == path ? strdup(".") : strndup(path, (size_t)(base - path));
}

static struct lm_vocab *open_gguf(struct lm_in *in, const struct lm_env *env, struct lm_err *err)
{
    struct lm_gguf *g = lm_gguf_read(in, false, err);
    struct lm_vocab *v = g ? lm_vocab_from_gguf(g, env, err) : NULL;
    lm_gguf_free(g);
    return v;
}

/* A tokenizer.json, which is not copied where it can be mapped: it may be large. */
static struct lm_vocab *read_json(struct lm_in *in, struct lm_hf_named *beside,
                                  const struct lm_env *env, struct lm_err *err)
{
    struct lm_vocab *v;
    struct lm_map map;
    char *data;
    size_t len;
    if (lm_in_seekable(in) && lm_in_size(in) <= MAX_FILE &&
        lm_map_fd(&map, lm_in_fd(in), NULL) == LM_OK) {
        v = lm_vocab_from_json_beside((const char *)map.data, (size_t)map.size, beside, env, err);
        lm_map_close(&map);
        return v;
    }
    if (lm_in_read_rest(in, MAX_FILE, &data, &len, err) != LM_OK)
        return NULL;
    v = lm_vocab_from_json_beside(data, len, beside, env, err);
    free(data);
    return v;
}

/* folder: where the files beside it are; NULL: they are not asked. */
static struct lm_vocab *open_json(struct lm_in *in, const char *folder, const struct lm_env *env,
                                  struct lm_err *err)
{
    struct lm_hf_named named = { .n_ends = 0 };
    struct lm_vocab *v = NULL;
    if (!folder || lm_hf_named_read(&named, folder, env, err) == LM_OK)
        v = read_json(in, folder ? &named : NULL, env, err);
    lm_hf_named_release(&named);
    return v;
}

/* Many kinds of files have such a name: the message says what this one was taken for. */
static void tell_form(const struct form *form, const char *path, struct lm_err *err)
{
    const char *what = form->what + (lm_begins_with(form->what, "a ") ? 2 : 0);
    const char *base = base_of(path);
    if (err && err->code == LM_EDATA && !lm_begins_with(base, what) &&
        (lm_ends_with(base, ".json") || lm_ends_with(base, ".txt")))
        lm_err_at(err, LM_EDATA, "as %s", form->what);
}

static struct lm_vocab *open_form(struct lm_in *in, const struct form *form, const char *path,
                                  const struct lm_env *env, struct lm_err *err)
{
    struct lm_vocab *v;
    char *data;
    size_t len;
    if (form->read == lm_vocab_from_json) {
        char *folder = strcmp(base_of(path), "tokenizer.json") == 0 ? folder_of(path) : NULL;
        v = open_json(in, folder, env, err);
        free(folder);
        return v;
    }
    if (lm_in_read_rest(in, MAX_FILE, &data, &len, err) != LM_OK)
        return NULL;
    v = form->read(data, len, env, err);
    free(data);
    return v;
}

static struct lm_vocab *open_file(const char *path, const struct lm_env *env, struct lm_err *err)
{
    unsigned char head[LM_FOREIGN_SIZE];
    size_t n = 0;
    struct lm_vocab *v = NULL;
    struct lm_in *in = lm_in_open(path, 0, err);
    if (!in || lm_in_peek(in, head, sizeof head, &n, err) != LM_OK) {
        lm_in_close(in);
        return NULL;
    }
    const struct form *form = form_of(path, head, n);
    const char *other = form->read ? lm_foreign_file(head, n) : NULL;
    if (!form->read)
        v = open_gguf(in, env, err);
    else if (other)
        lm_fail(err, LM_EDATA, "not %s: it is %s", form->what, other);
    else if (!(v = open_form(in, form, path, env, err)))
        tell_form(form, path, err);
    lm_in_close(in);
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
    else if (!is_there(name.data))
        v = lm_vocab_from_hf(path, env, err);
    else if (!(v = open_file(name.data, env, err)) && err)
        lm_err_at(err, (int)err->code, "tokenizer.json");
    lm_buf_release(&name);
    return v;
}

static struct lm_vocab *open_half(const char *path, const struct lm_env *env, struct lm_err *err)
{
    char *folder = folder_of(path);
    struct lm_vocab *v = NULL;
    if (folder)
        v = lm_vocab_from_hf(folder, env, err);
    else
        lm_fail_nomem(err);
    free(folder);
    return v;
}

struct lm_vocab *lm_vocab_open(const char *path, const struct lm_env *env, struct lm_err *err)
{
    return is_directory(path) ? open_directory(path, env, err)
           : is_half(path)    ? open_half(path, env, err)
                              : open_file(path, env, err);
}
