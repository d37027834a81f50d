/* SPDX-License-Identifier: MIT */
/* Checkpoint files: directories, and what archives have in common with them. */

#include "hf/source.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "base/text.h"
#include "hf/source_parts.h"

/* The files a stream keeps: all that conversion may want besides weights. */
static const char *const small_files[] = {
    "README.md", "adapter_config.json", "added_tokens.json", "chat_template.jinja",
    "chat_template.json", "config.json", "consolidated.safetensors.index.json",
    "generation_config.json", "merges.txt", "model.safetensors.index.json", "modules.json",
    "params.json", "pytorch_model.bin.index.json", "sentencepiece.bpe.model",
    "special_tokens_map.json", "spiece.model", "tekken.json", "tiktoken.model", "tokenizer.json",
    "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt",
};

bool lm_hf_is_weights(const char *name)
{
    const bool torch = !strncmp(name, "pytorch_model", 13) || !strncmp(name, "adapter_model", 13);
    /* Of a folder of modules.json, "2_Dense/model.safetensors" */
    const char *slash = strchr(name, '/');
    if (slash && !strcmp(slash, "/model.safetensors") && slash - name > 6)
        return !strncmp(slash - 6, "_Dense", 6);
    return (lm_ends_with(name, ".safetensors") || (torch && lm_ends_with(name, ".bin"))) &&
           !slash;
}

bool lm_hf_is_small(const char *name)
{
    for (size_t i = 0; i < sizeof small_files / sizeof *small_files; i++)
        if (!strcmp(name, small_files[i]))
            return true;
    /* A folder of modules.json, "1_Pooling/config.json" */
    const char *slash = strchr(name, '/');
    if (slash && !strcmp(slash, "/config.json"))
        return true;
    if (!slash && (lm_ends_with(name, ".tiktoken") || lm_begins_with(name, "rwkv_vocab_")))
        return true;
    return !strncmp(name, LM_HF_TEMPLATES, strlen(LM_HF_TEMPLATES)) && lm_ends_with(name, ".jinja");
}

struct lm_hf_file *lm_hf_add(struct lm_hf_source *s, const char *name, uint64_t size,
                             struct lm_err *err)
{
    if (!lm_grow(&s->files, &s->cap, s->n + 1, sizeof *s->files)) {
        lm_fail_nomem(err);
        return NULL;
    }
    struct lm_hf_file *f = &s->files[s->n];
    *f = (struct lm_hf_file){ .name = strdup(name), .size = size };
    if (!f->name) {
        lm_fail_nomem(err);
        return NULL;
    }
    s->n++;
    return f;
}

/* "dir/name" in memory of its own. */
static char *join(const char *dir, const char *name)
{
    const size_t n = strlen(dir), m = strlen(name);
    char *p = malloc(n + m + 2);
    if (p) {
        memcpy(p, dir, n);
        p[n] = '/';
        memcpy(p + n + 1, name, m + 1);
    }
    return p;
}

/* The regular files of one directory; prefix ("" or a subfolder with "/") goes
 * before their names. */
static int scan_dir(struct lm_hf_source *s, const char *dir, const char *prefix,
                    struct lm_err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return *prefix ? LM_OK : lm_fail_errno(err, "cannot open");
    int r = LM_OK;
    for (const struct dirent *e; !r && (e = readdir(d));) {
        struct stat st;
        char *path = join(dir, e->d_name);
        char *name = malloc(strlen(prefix) + strlen(e->d_name) + 1);
        if (!path || !name)
            r = lm_fail_nomem(err);
        else if (!stat(path, &st) && S_ISREG(st.st_mode)) {
            strcpy(name, prefix);
            strcat(name, e->d_name);
            struct lm_hf_file *f = lm_hf_add(s, name, (uint64_t)st.st_size, err);
            r = f ? LM_OK : LM_ENOMEM;
            if (f) {
                f->path = path;
                path = NULL;
            }
        }
        free(path);
        free(name);
    }
    closedir(d);
    return r;
}

/* The files of its folders; of one that cannot be opened none. */
static int scan_subfolders(struct lm_hf_source *s, const char *dir, struct lm_err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return lm_fail_errno(err, "cannot open");
    int r = LM_OK;
    for (const struct dirent *e; !r && (e = readdir(d));) {
        struct stat st;
        char *path = join(dir, e->d_name), *prefix = join(e->d_name, "");
        if (!path || !prefix)
            r = lm_fail_nomem(err);
        else if (e->d_name[0] != '.' && !stat(path, &st) && S_ISDIR(st.st_mode))
            r = scan_dir(s, path, prefix, err);
        free(path);
        free(prefix);
    }
    closedir(d);
    return r;
}

/* The folder's name as the user gave it; where that is no name (".", "a/.."), its own. */
static char *dir_title(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    if (strspn(path + from, "./") < n - from)
        return strndup(path + from, n - from);
    char *full = realpath(path, NULL);
    const char *slash = full ? strrchr(full, '/') : NULL;
    char *title = slash ? strdup(slash + 1) : NULL;
    free(full);
    return title;
}

static int open_dir(struct lm_hf_source *s, const char *path, struct lm_err *err)
{
    s->title = dir_title(path);
    s->kind = LM_HF_DIR;
    s->complete = true;
    int r = s->title ? scan_dir(s, path, "", err) : lm_fail_nomem(err);
    return r ? r : scan_subfolders(s, path, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lm_hf_file *)a)->name, ((const struct lm_hf_file *)b)->name);
}

/* From a file's path to its folder's; NULL is fine. */
static void up(char *path)
{
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        slash[slash == path] = 0;
    else if (path)
        strcpy(path, ".");              /* a name has a byte at least */
}

/* Is it a checkpoint's file of weights, with the rest beside it? */
static bool is_weights(const char *path)
{
    static const char *const begins[] = { "model", "consolidated", "adapter_model" };
    static const char end[] = ".safetensors";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(name, begins[i], strlen(begins[i])) && n >= sizeof end &&
            !strcmp(name + n - (sizeof end - 1), end))
            return true;
    return false;
}

/* The folder of such a file. */
static int open_beside(struct lm_hf_source *s, struct lm_err *err)
{
    up(s->folder);
    free(s->path);
    s->path = strdup(s->folder);
    return s->path ? open_dir(s, s->folder, err) : lm_fail_nomem(err);
}

static void forget_names(struct lm_hf_source *s)
{
    free(s->names->slots);
    *s->names = (struct lm_hf_names){0};
}

struct lm_hf_source *lm_hf_open(const char *path, const char *spool_dir,
                                const struct lm_env *env, struct lm_err *err)
{
    struct stat st;
    struct lm_hf_source *s = calloc(1, sizeof *s);
    if (!s) {
        lm_fail_nomem(err);
        return NULL;
    }
    s->env = env;
    s->spool_fd = -1;
    s->current = -1;
    s->path = strdup(strcmp(path, "-") ? path : "<stdin>");
    s->names = calloc(1, sizeof *s->names);
    if (s->path && strcmp(path, "-"))
        s->folder = strdup(path);
    int r;
    if (!s->path || !s->names || (strcmp(path, "-") && !s->folder))
        r = lm_fail_nomem(err);
    else if (strcmp(path, "-") && stat(path, &st))
        r = lm_fail_errno(err, "cannot open");
    else if (strcmp(path, "-") && S_ISDIR(st.st_mode))
        r = open_dir(s, path, err);
    else if (strcmp(path, "-") && S_ISREG(st.st_mode) && is_weights(path))
        r = open_beside(s, err);
    else if (lm_ends_with(path, ".json")) {
        up(s->folder);
        r = lm_fail(err, LM_EUSE, "is one file of a checkpoint: give the folder, %s, or an archive "
                    "of it", s->folder);
    } else {
        r = lm_hf_open_archive(s, path, spool_dir, err);
        up(s->folder);
    }
    if (r) {
        lm_hf_close(s);
        return NULL;
    }
    /* Whatever order a folder or archive has; but a pipe stands in its last file. */
    const size_t n = s->current >= 0 ? (size_t)s->current : s->n;
    if (n)
        qsort(s->files, n, sizeof *s->files, by_name);
    forget_names(s);
    return s;
}

void lm_hf_close(struct lm_hf_source *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n; i++) {
        free(s->files[i].name);
        free(s->files[i].path);
        free(s->files[i].member);
        free(s->files[i].head);
        free(s->files[i].stretches);
    }
    free(s->files);
    if (s->names)
        forget_names(s);
    free(s->names);
    free(s->path);
    free(s->title);
    free(s->folder);
    free(s->root);
    lm_in_close(s->in);
    lm_archive_close(s->archive);
    if (s->spool_fd >= 0)
        close(s->spool_fd);
    free(s);
}

const char *lm_hf_path(const struct lm_hf_source *s)
{
    return s->path;
}

const char *lm_hf_folder(const struct lm_hf_source *s)
{
    return s->folder;
}

const char *lm_hf_title(const struct lm_hf_source *s)
{
    return s->title ? s->title : "";
}

size_t lm_hf_n_files(const struct lm_hf_source *s)
{
    return s->n;
}

const char *lm_hf_name(const struct lm_hf_source *s, size_t i)
{
    return s->files[i].name;
}

uint64_t lm_hf_size(const struct lm_hf_source *s, size_t i)
{
    return s->files[i].size;
}

/* The slot of a name, or the empty one where it belongs. */
static uint32_t *slot_of(const struct lm_hf_source *s, const char *name)
{
    const struct lm_hf_names *t = s->names;
    uint64_t h = UINT64_C(0xcbf29ce484222325);                  /* FNV-1a */
    for (const char *p = name; *p; p++)
        h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
    size_t i = (size_t)(h ^ h >> 32) & (t->n_slots - 1);
    while (t->slots[i] && strcmp(s->files[t->slots[i] - 1].name, name))
        i = (i + 1) & (t->n_slots - 1);
    return &t->slots[i];
}

/* Put the files into the table that are not there yet; false when memory is short. */
static bool know_names(const struct lm_hf_source *s)
{
    struct lm_hf_names *t = s->names;
    if (2 * s->n >= t->n_slots) {
        size_t n = t->n_slots ? t->n_slots : 64;
        while (2 * s->n >= n)
            n *= 2;
        uint32_t *slots = calloc(n, sizeof *slots);
        if (!slots)
            return false;
        free(t->slots);
        *t = (struct lm_hf_names){ .slots = slots, .n_slots = n };
    }
    for (; t->n < s->n; t->n++) {
        uint32_t *slot = slot_of(s, s->files[t->n].name);
        *slot = *slot ? *slot : (uint32_t)t->n + 1;
    }
    return true;
}

int lm_hf_find(const struct lm_hf_source *s, const char *name)
{
    if (know_names(s))
        return (int)*slot_of(s, name) - 1;
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->files[i].name, name))
            return (int)i;
    return -1;
}

bool lm_hf_random(const struct lm_hf_source *s)
{
    return s->kind == LM_HF_DIR || s->kind == LM_HF_RANGES || s->kind == LM_HF_SPOOLED;
}

bool lm_hf_complete(const struct lm_hf_source *s)
{
    return s->complete;
}

/* Directories: one file is open at a time. */
static int read_dir_file(struct lm_hf_source *s, size_t i, uint64_t off, void *dst, size_t n,
                         struct lm_err *err)
{
    if (s->current != (int)i) {
        lm_in_close(s->in);
        s->current = -1;
        s->in = lm_in_open(s->files[i].path, LM_IN_RAW, err);
        if (!s->in)
            return err->code;
        s->current = (int)i;
    }
    return lm_in_pread(s->in, off, dst, n, err);
}

int lm_hf_read(struct lm_hf_source *s, size_t i, uint64_t off, void *dst, size_t n,
               struct lm_err *err)
{
    struct lm_hf_file *f = &s->files[i];
    struct lm_err own = {0};
    err = err ? err : &own;
    f->used = true;
    if (f->link)
        return lm_fail(err, LM_EDATA, "is a link in the archive: pack the files themselves "
                       "(tar -h --hard-dereference)");
    if (f->size != LM_SIZE_UNKNOWN && (off > f->size || n > f->size - off))
        return lm_fail(err, LM_EDATA, "ends at byte %llu: needs %llu more bytes",
                       (unsigned long long)f->size, (unsigned long long)(off + n - f->size));
    if (off < f->head_len) {
        const size_t have = f->head_len - (size_t)off, k = n < have ? n : have;
        memcpy(dst, f->head + off, k);
        if (k == n)
            return LM_OK;
        dst = (char *)dst + k;
        off += k;
        n -= k;
    }
    if (n == 0)
        return LM_OK;
    return s->kind == LM_HF_DIR ? read_dir_file(s, i, off, dst, n, err)
                                : lm_hf_read_member(s, i, off, dst, n, err);
}

/* A checkout without its large files has such a text in place of each of them. */
static bool is_pointer(const char *p, size_t n)
{
    static const char head[] = "version https://git-lfs";
    return n >= sizeof head - 1 && !memcmp(p, head, sizeof head - 1);
}

/* The whole text of file i, with a NUL after it. */
static int load(struct lm_hf_source *s, int i, char **data, size_t *len, struct lm_err *err)
{
    struct lm_hf_file *f = &s->files[i];
    if (f->size > LM_HF_SMALL_MAX)
        return lm_fail(err, LM_EDATA, "%llu bytes: too large to be what its name says",
                       (unsigned long long)f->size);
    if (f->head_len == f->size && f->head) {
        *data = f->head;
        *len = f->head_len;
        f->head = NULL;
        f->head_len = 0;
        return LM_OK;
    }
    char *p = malloc((size_t)f->size + 1);
    if (!p)
        return lm_fail_nomem(err);
    const int r = lm_hf_read(s, (size_t)i, 0, p, (size_t)f->size, err);
    if (r) {
        free(p);
        return r;
    }
    p[f->size] = 0;
    *data = p;
    *len = (size_t)f->size;
    return LM_OK;
}

int lm_hf_load(struct lm_hf_source *s, const char *name, char **data, size_t *len,
               struct lm_err *err)
{
    const int i = lm_hf_find(s, name);
    if (i < 0)
        return 1;
    s->files[i].used = true;
    int r = load(s, i, data, len, err);
    if (!r && is_pointer(*data, *len)) {
        free(*data);
        *data = NULL;
        r = lm_fail(err, LM_EDATA, "is a Git LFS pointer, not the file itself (git lfs pull "
                    "fetches it)");
    }
    return r ? lm_err_at(err, r, "%s", name) : LM_OK;
}

int lm_hf_load_tree(struct lm_hf_source *s, struct lm_arena *a, const char *name,
                    const struct lm_jval **out, struct lm_err *err)
{
    char *text = NULL;
    size_t len;
    const int r = lm_hf_load(s, name, &text, &len, err);
    if (r)
        return r > 0 ? LM_OK : r;
    const struct lm_jval *tree = lm_json_tree(a, text, len, err);
    free(text);
    if (!tree)
        return lm_err_at(err, LM_EDATA, "%s", name);
    *out = tree;
    return LM_OK;
}

int lm_hf_load_object(struct lm_hf_source *s, struct lm_arena *a, const char *name,
                      const struct lm_jval **out, struct lm_err *err)
{
    const struct lm_jval *tree = NULL;
    const int r = lm_hf_load_tree(s, a, name, &tree, err);
    if (r || !tree)
        return r;
    if (tree->kind != LM_JSON_OBJECT)
        return lm_fail(err, LM_EDATA, "%s: is no object", name);
    *out = tree;
    return LM_OK;
}

bool lm_hf_contains(struct lm_hf_source *s, const char *name, const char *text)
{
    const int i = lm_hf_find(s, name);
    char *data = NULL;
    size_t len = 0;
    if (i < 0 || s->files[i].link)
        return false;
    const struct lm_hf_file *f = &s->files[i];
    if (f->head)                            /* of a stream, which cannot be read again */
        return strstr(f->head, text);
    if (load(s, i, &data, &len, NULL))
        return false;
    const bool found = strstr(data, text);
    free(data);
    return found;
}

const char *lm_hf_dep(const struct lm_hf_source *s, size_t i)
{
    if (s->archive)
        return i ? NULL : lm_archive_name(s->archive);
    for (size_t k = 0; k < s->n; k++)
        if (s->files[k].used && i-- == 0)
            return s->files[k].path;
    return NULL;
}
