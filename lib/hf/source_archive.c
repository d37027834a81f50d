/* SPDX-License-Identifier: MIT */
/* Checkpoints in archives: by ranges, spooled, and as streams. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hf/safetensors.h"
#include "hf/source_parts.h"

enum { COPY = 1 << 20, KEEP_MAX = 1 << 28 };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Before the folder is known: may this member be one of the checkpoint's files? */
static bool maybe_wanted(const char *path)
{
    return lm_hf_is_small(base_name(path)) || lm_hf_is_weights(base_name(path)) ||
           strstr(path, LM_HF_TEMPLATES);
}

/* Bytes of the path before its last name, "/" included, and how many folders these are. */
static size_t dir_len(const char *path)
{
    return (size_t)(base_name(path) - path);
}

static size_t depth(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += *path == '/';
    return n;
}

static bool same_dir(const char *a, const char *b)
{
    return dir_len(a) == dir_len(b) && !memcmp(a, b, dir_len(a));
}

static int dir_order(const char *a, const char *b)
{
    const size_t n = dir_len(a), m = dir_len(b);
    return n != m ? (n < m ? -1 : 1) : memcmp(a, b, n);
}

static int by_dir(const void *a, const void *b)
{
    return dir_order(*(const char *const *)a, *(const char *const *)b);
}

/* The weights in an archive: paths in the order of their folders. */
struct weights {
    const char **paths;
    size_t       n;
};

static int list_weights(const struct lm_hf_source *s, struct weights *w, struct lm_err *err)
{
    w->paths = calloc(s->n + 1, sizeof *w->paths);
    if (!w->paths)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < s->n; i++)
        if (lm_hf_is_weights(base_name(s->files[i].member)))
            w->paths[w->n++] = s->files[i].member;
    qsort(w->paths, w->n, sizeof *w->paths, by_dir);
    return LM_OK;
}

/* Are there any in the folder of another file? */
static bool beside(const struct weights *w, const char *path)
{
    return bsearch(&path, w->paths, w->n, sizeof *w->paths, by_dir) != NULL;
}

static int two_models(const char *a, const char *b, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "holds several models, with %.200s and %.200s: pack one alone",
                   a, b);
}

/* The config.json nearest to the top: of two that are as near, the one with weights beside it.
 * NULL without any. */
static int find_config(const struct lm_hf_source *s, const struct weights *w, const char **best,
                       struct lm_err *err)
{
    const char *other = NULL;           /* as near and as good */
    *best = NULL;
    for (size_t i = 0; i < s->n; i++) {
        const char *m = s->files[i].member;
        const char *than = strcmp(base_name(m), "config.json") ? m : *best;
        if (than == m || (than && depth(m) > depth(than)))
            continue;
        const bool nearer = !than || depth(m) < depth(than);
        const bool mine = beside(w, m), its = than && beside(w, than);
        if (nearer || (mine && !its)) {
            *best = m;
            other = NULL;
        } else if (mine == its && !same_dir(m, than)) {
            other = m;
        }
    }
    return other ? two_models(*best, other, err) : LM_OK;
}

/*
 * The checkpoint's folder, "" or with "/" after it: that of the config.json nearest to the top,
 * but not one below the first weights (such a file is about a part of the model, and the
 * model's own has not come yet); without one that of the first weights.  malloc'ed, or NULL.
 */
static char *find_root(const struct lm_hf_source *s, struct lm_err *err)
{
    const char *best = NULL, *weights = NULL;
    struct weights all = {0};
    for (size_t i = 0; !weights && i < s->n; i++)
        if (lm_hf_is_weights(base_name(s->files[i].member)))
            weights = s->files[i].member;
    const size_t above = weights ? dir_len(weights) : 0;
    const char *config = NULL;
    for (size_t i = 0; !config && i < s->n; i++)
        if (!strcmp(base_name(s->files[i].member), "config.json"))
            config = s->files[i].member;
    bool below = weights && config;
    for (size_t i = 0; below && i < s->n; i++) {
        const char *m = s->files[i].member;
        if (!strcmp(base_name(m), "config.json"))
            below = dir_len(m) > above && !memcmp(m, weights, above);
    }
    int r = below ? LM_OK : list_weights(s, &all, err);
    if (!r && !below)
        r = find_config(s, &all, &best, err);
    free(all.paths);
    if (r)
        return NULL;
    best = best ? best : weights;
    char *root = strndup(best ? best : "", best ? dir_len(best) : 0);
    if (!root)
        lm_fail_nomem(err);
    return root;
}

/* The archive's file name without what says that it is one. */
static char *archive_title(const char *path)
{
    static const char *const extensions[] = {
        ".tar", ".zip", ".tgz", ".tbz", ".txz", ".tzst", ".zst", ".gz", ".bz2", ".xz", ".lz4",
        ".lz", ".lzma", ".Z", ".7z", ".cpio",
    };
    char *name = strdup(!strcmp(path, "-") ? "" : base_name(path));
    for (size_t i = 0; name && i < sizeof extensions / sizeof *extensions; i++) {
        const size_t n = strlen(name), m = strlen(extensions[i]);
        if (n > m && !strcmp(name + n - m, extensions[i])) {
            name[n - m] = 0;
            i = (size_t)-1;             /* another may stand before it */
        }
    }
    return name;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int fail_twice(const char *name, struct lm_err *err)
{
    return lm_fail(err, LM_EDATA, "%.200s: is in the archive twice", name);
}

/* Which of two members with one name counts depends on who unpacks them. */
static int refuse_twins(const struct lm_hf_source *s, struct lm_err *err)
{
    const char **names = calloc(s->n + 1, sizeof *names);
    int r = names ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; names && i < s->n; i++)
        names[i] = s->files[i].name;
    if (names)
        qsort(names, s->n, sizeof *names, by_name);
    for (size_t i = 1; !r && i < s->n; i++)
        if (!strcmp(names[i - 1], names[i]))
            r = fail_twice(names[i], err);
    free(names);
    return r;
}

/* Settle the folder: files in it get their names, others are forgotten. */
static int settle_root(struct lm_hf_source *s, const char *path, struct lm_err *err)
{
    size_t kept = 0;
    s->root = find_root(s, err);
    if (!s->root)
        return err->code;
    const size_t len = strlen(s->root);
    for (size_t i = 0; i < s->n; i++) {
        struct lm_hf_file f = s->files[i];
        const char *name = f.member + len;
        const bool in = !strncmp(f.member, s->root, len) &&
                        (lm_hf_is_small(name) || lm_hf_is_weights(name));
        free(f.name);
        f.name = in ? strdup(name) : NULL;
        if (in && f.name) {
            s->files[kept++] = f;
            continue;
        }
        free(f.member);
        free(f.head);
        if (in) {
            s->n = kept;
            return lm_fail_nomem(err);
        }
    }
    s->n = kept;
    /* A pipe stands in the weights it came to last, if they are the checkpoint's. */
    if (s->current >= 0)
        s->current = kept && s->files[kept - 1].ordinal == s->ordinal ? (int)kept - 1 : -1;
    if (!len) {
        s->title = archive_title(path);
    } else {
        s->root[len - 1] = 0;
        s->title = strdup(base_name(s->root));
        s->root[len - 1] = '/';
    }
    return s->title ? refuse_twins(s, err) : lm_fail_nomem(err);
}

static struct lm_hf_file *add_member(struct lm_hf_source *s, const struct lm_member *m,
                                     struct lm_err *err)
{
    struct lm_hf_file *f = lm_hf_add(s, m->name, m->size, err);
    if (!f)
        return NULL;
    f->member = strdup(m->name);
    f->link = m->link;
    f->offset = m->offset;
    f->has_sum = m->has_sum;
    f->sum = m->sum;
    f->ordinal = s->ordinal;
    if (f->member)
        return f;
    lm_fail_nomem(err);
    return NULL;
}

static int open_ranges(struct lm_hf_source *s, struct lm_err *err)
{
    size_t n;
    const struct lm_member *m = lm_archive_members(s->archive, &n);
    s->kind = LM_HF_RANGES;
    s->complete = true;
    for (size_t i = 0; i < n; i++)
        if (maybe_wanted(m[i].name) && !add_member(s, &m[i], err))
            return LM_ENOMEM;
    return LM_OK;
}

/* --- the spool ---------------------------------------------------------------------- */

/* A file in dir that nothing but this process can find, and nothing is left of. */
static int open_spool(struct lm_hf_source *s, const char *dir, struct lm_err *err)
{
    char *path = malloc(strlen(dir) + sizeof "/.lmpipe-spool.XXXXXX");
    if (!path)
        return lm_fail_nomem(err);
    strcpy(path, dir);
    strcat(path, "/.lmpipe-spool.XXXXXX");
    s->spool_fd = mkstemp(path);
    if (s->spool_fd >= 0)
        unlink(path);
    free(path);
    return s->spool_fd >= 0 ? LM_OK : lm_fail_errno(err, "cannot make a spool file in %s", dir);
}

static int write_spool(struct lm_hf_source *s, const char *p, size_t n, struct lm_err *err)
{
    while (n) {
        const ssize_t k = pwrite(s->spool_fd, p, n, (off_t)s->spool_size);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return lm_fail_errno(err, "cannot write the spool file after %llu bytes",
                                 (unsigned long long)s->spool_size);
        p += k;
        n -= (size_t)k;
        s->spool_size += (uint64_t)k;
    }
    return LM_OK;
}

static int read_spool(struct lm_hf_source *s, uint64_t off, char *p, size_t n, struct lm_err *err)
{
    while (n) {
        const ssize_t k = pread(s->spool_fd, p, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k ? lm_fail_errno(err, "cannot read the spool file")
                     : lm_fail(err, LM_EIO, "the spool file became shorter");
        p += k;
        n -= (size_t)k;
        off += (uint64_t)k;
    }
    return LM_OK;
}

/* Copy the current member into the spool. */
static int spool_member(struct lm_hf_source *s, struct lm_hf_file *f, char *copy,
                        struct lm_err *err)
{
    size_t got = COPY;
    int r = LM_OK;
    f->offset = s->spool_size;
    while (!r && got == COPY) {
        if (lm_stopped(s->env))
            return lm_fail(err, LM_ESTOP, "stopped");
        r = lm_archive_read(s->archive, copy, COPY, &got, err);
        if (!r)
            r = write_spool(s, copy, got, err);
    }
    f->size = s->spool_size - f->offset;
    return r ? lm_err_at(err, r, "%s", f->member) : LM_OK;
}

static int spool_all(struct lm_hf_source *s, const char *dir, struct lm_err *err)
{
    struct lm_member m;
    char *copy = malloc(COPY);
    int r = copy ? open_spool(s, dir, err) : lm_fail_nomem(err);
    s->kind = LM_HF_SPOOLED;
    s->complete = true;
    while (!r && (r = lm_archive_next(s->archive, &m, err)) == 1) {
        r = LM_OK;
        if (!maybe_wanted(m.name))
            continue;
        struct lm_hf_file *f = add_member(s, &m, err);
        r = !f ? LM_ENOMEM : f->link ? LM_OK : spool_member(s, f, copy, err);
    }
    free(copy);
    return r;
}

/* --- streams ------------------------------------------------------------------------ */

/* Read up to n more bytes of the current member into its head. */
static int read_head(struct lm_hf_source *s, struct lm_hf_file *f, size_t n, size_t *got,
                     struct lm_err *err)
{
    char *p = realloc(f->head, f->head_len + n + 1);
    if (!p)
        return lm_fail_nomem(err);
    f->head = p;
    const int r = lm_archive_read(s->archive, p + f->head_len, n, got, err);
    if (r)
        return r;
    f->head_len += *got;
    s->at += *got;
    p[f->head_len] = 0;
    return LM_OK;
}

/* Read exactly n more bytes, in steps that grow with what is really there. */
static int grow_head(struct lm_hf_source *s, struct lm_hf_file *f, size_t n, struct lm_err *err)
{
    while (n) {
        const size_t most = f->head_len > COPY ? f->head_len : COPY;
        const size_t step = n < most ? n : most;
        size_t got;
        const int r = read_head(s, f, step, &got, err);
        if (r)
            return r;
        n -= got;
        if (got < step)
            return lm_fail(err, LM_EDATA, "ends at byte %llu: needs %llu more bytes",
                           (unsigned long long)f->head_len, (unsigned long long)n);
    }
    return LM_OK;
}

/* A small file's bytes, when the archive does not say how many there are. */
static int load_unsized(struct lm_hf_source *s, struct lm_hf_file *f, struct lm_err *err)
{
    size_t got = COPY;
    int r = LM_OK;
    while (!r && got == COPY && f->head_len < LM_HF_SMALL_MAX)
        r = read_head(s, f, COPY, &got, err);
    if (!r && got == COPY)
        return lm_fail(err, LM_EDATA, "too large to be what its name says");
    f->size = f->head_len;
    return r;
}

/* Keep what is needed of the member that has just begun: all of a small file, the header of
 * weights. */
static int keep_head(struct lm_hf_source *s, struct lm_hf_file *f, struct lm_err *err)
{
    int r;
    uint64_t len = 0;
    if (f->link)
        return LM_OK;
    if (lm_hf_is_weights(base_name(f->member))) {
        if (f->size < 8)
            return grow_head(s, f, (size_t)f->size, err);
        r = grow_head(s, f, 8, err);
        /* What is wrong with the length is said where headers are read. */
        if (!r && !lm_safetensors_length((const uint8_t *)f->head, f->size, &len, NULL))
            r = grow_head(s, f, (size_t)len, err);
    } else if (f->size == LM_SIZE_UNKNOWN) {
        r = load_unsized(s, f, err);
    } else {
        if (f->size > LM_HF_SMALL_MAX)
            return LM_OK;                            /* lm_hf_load says so if it is wanted */
        r = grow_head(s, f, (size_t)f->size, err);
    }
    return r ? lm_err_at(err, r, "%s", f->member) : LM_OK;
}

/* The stream's next member. */
static int step(struct lm_hf_source *s, struct lm_member *m, struct lm_err *err)
{
    const int r = s->ended ? 0 : lm_archive_next(s->archive, m, err);
    s->ordinal++;
    s->current = -1;
    s->at = 0;
    if (r == 0)
        s->ended = true;
    return r;
}

/* Look through a stream: all of one that can start over, a pipe up to the first weights. */
static int open_stream(struct lm_hf_source *s, struct lm_err *err)
{
    struct lm_member m;
    uint64_t kept = 0;
    int r;
    s->kind = lm_archive_seekable(s->archive) ? LM_HF_AGAIN : LM_HF_ONCE;
    s->complete = s->kind == LM_HF_AGAIN;
    s->passes = 1;
    while ((r = step(s, &m, err)) == 1) {
        if (!maybe_wanted(m.name))
            continue;
        struct lm_hf_file *f = add_member(s, &m, err);
        r = f ? keep_head(s, f, err) : LM_ENOMEM;
        if (r)
            return r;
        kept += f->head_len;
        if (kept > KEEP_MAX)
            return lm_fail(err, LM_ENOSUP, "more than %d MiB of small files", KEEP_MAX >> 20);
        if (s->kind == LM_HF_ONCE && lm_hf_is_weights(base_name(m.name))) {
            s->current = (int)s->n - 1;
            return LM_OK;
        }
    }
    if (r == 0)
        s->complete = true;
    return r;
}

/* Bytes of all weights of a pipe, read to its end; LM_SIZE_UNKNOWN if it does not say. */
static uint64_t room_needed(struct lm_hf_source *s)
{
    struct lm_member m;
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->files[i].size != LM_SIZE_UNKNOWN)
            sum += s->files[i].size;
        else
            return LM_SIZE_UNKNOWN;
    while (step(s, &m, NULL) == 1)
        if (maybe_wanted(m.name)) {
            if (m.size == LM_SIZE_UNKNOWN)
                return LM_SIZE_UNKNOWN;
            sum += m.size;
        }
    return sum;
}

/* The way out of an order that does not suit: read the pipe to its end, and say what keeping
 * all of it takes. */
int lm_hf_need_spool(struct lm_hf_source *s, const char *what, struct lm_err *err)
{
    char room[64] = "all of it";
    const uint64_t n = room_needed(s);
    if (n != LM_SIZE_UNKNOWN)
        snprintf(room, sizeof room, "%llu bytes", (unsigned long long)n);
    return lm_fail(err, LM_ENOSUP, "%s give --spool DIR with room for %s", what, room);
}

/* `first` came before `then` does. */
static int out_of_order(struct lm_hf_source *s, const char *first, const char *then,
                        struct lm_err *err)
{
    char what[300];
    snprintf(what, sizeof what, "%.90s comes before %.90s in the archive: pack configuration and "
             "tokenizer first, then the weights by name, or", first, then);
    return lm_hf_need_spool(s, what, err);
}

static const char *first_weights(const struct lm_hf_source *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (lm_hf_is_weights(s->files[i].name))
            return s->files[i].name;
    return NULL;
}

int lm_hf_missing(struct lm_hf_source *s, const char *name, struct lm_err *err)
{
    const char *first = s->complete ? NULL : first_weights(s);
    return first ? out_of_order(s, first, name, err) : lm_fail(err, LM_EDATA, "no %s", name);
}

int lm_hf_not_next(struct lm_hf_source *s, const char *name, const char *want, struct lm_err *err)
{
    return out_of_order(s, name, want, err);
}

int lm_hf_next_weights(struct lm_hf_source *s, struct lm_err *err)
{
    struct lm_member m;
    const size_t len = strlen(s->root);
    int r;
    if (s->kind != LM_HF_ONCE)
        return 0;
    while ((r = step(s, &m, err)) == 1) {
        if (!strcmp(base_name(m.name), "config.json") && depth(m.name) == depth(s->root) &&
            !same_dir(m.name, s->root)) {
            char own[300];
            snprintf(own, sizeof own, "%.200sconfig.json", s->root);
            return two_models(own, m.name, err);
        }
        if (strncmp(m.name, s->root, len))
            continue;
        const bool weights = lm_hf_is_weights(m.name + len);
        if (!weights && !lm_hf_is_small(m.name + len))
            continue;
        if (lm_hf_find(s, m.name + len) >= 0)
            return fail_twice(m.name + len, err);
        if (!weights && first_weights(s))
            return out_of_order(s, first_weights(s), m.name + len, err);
        struct lm_hf_file *f = add_member(s, &m, err);
        if (!f)
            return LM_ENOMEM;
        memmove(f->name, f->name + len, strlen(f->name + len) + 1);
        s->current = (int)s->n - 1;
        r = keep_head(s, f, err);
        if (r || weights)
            return r ? r : 1;
    }
    if (r == 0)
        s->complete = true;
    return r;
}

int lm_hf_drain(struct lm_hf_source *s, struct lm_err *err)
{
    int r;
    if (s->kind == LM_HF_RANGES)
        return lm_hf_end_sums(s, err);
    if (s->kind != LM_HF_ONCE)
        return LM_OK;
    while ((r = lm_hf_next_weights(s, err)) == 1)
        ;
    return r;
}

/* Go to where file i begins. */
static int go_to(struct lm_hf_source *s, size_t i, struct lm_err *err)
{
    struct lm_member m;
    int r = LM_OK;
    if (s->kind == LM_HF_ONCE)
        return lm_hf_need_spool(s, "its data has gone by in the pipe:", err);
    if (s->ordinal >= s->files[i].ordinal) {
        r = lm_archive_rewind(s->archive, err);
        s->ordinal = 0;
        s->ended = false;
        lm_note(s->env, LM_INFO, "pass %u through %s", ++s->passes, lm_archive_name(s->archive));
    }
    while (!r && s->ordinal < s->files[i].ordinal) {
        r = step(s, &m, err);
        r = r == 1 ? LM_OK : r ? r : lm_fail(err, LM_EIO, "the archive changed");
    }
    s->current = r ? -1 : (int)i;
    return r;
}

static int read_stream(struct lm_hf_source *s, size_t i, uint64_t off, char *dst, size_t n,
                       struct lm_err *err)
{
    char skip[8192];
    size_t got = 0;
    int r = LM_OK;
    if (s->current != (int)i || off < s->at)
        r = go_to(s, i, err);
    while (!r && s->at < off) {
        const size_t k = off - s->at < sizeof skip ? (size_t)(off - s->at) : sizeof skip;
        r = lm_archive_read(s->archive, skip, k, &got, err);
        s->at += got;
        if (!r && got < k)
            r = lm_fail(err, LM_EDATA, "ends at byte %llu", (unsigned long long)s->at);
    }
    if (!r)
        r = lm_archive_read(s->archive, dst, n, &got, err);
    if (r)
        return r;
    s->at += got;
    return got == n ? LM_OK : lm_fail(err, LM_EDATA, "ends at byte %llu: needs %llu more bytes",
                                      (unsigned long long)s->at, (unsigned long long)(n - got));
}

int lm_hf_read_member(struct lm_hf_source *s, size_t i, uint64_t off, void *dst, size_t n,
                      struct lm_err *err)
{
    struct lm_hf_file *f = &s->files[i];
    const struct lm_member m = { .size = f->size, .offset = f->offset };
    if (s->kind == LM_HF_RANGES) {
        const int r = lm_archive_pread(s->archive, &m, off, dst, n, err);
        return r ? r : lm_hf_sum(f, off, dst, n, err);
    }
    if (s->kind == LM_HF_SPOOLED)
        return read_spool(s, f->offset + off, dst, n, err);
    return read_stream(s, i, off, dst, n, err);
}

int lm_hf_open_archive(struct lm_hf_source *s, const char *path, const char *spool_dir,
                       struct lm_err *err)
{
    s->archive = lm_archive_open(path, err);
    if (!s->archive)
        return err ? err->code : LM_EIO;
    int r = lm_archive_by_range(s->archive) ? open_ranges(s, err)
            : spool_dir                     ? spool_all(s, spool_dir, err)
                                            : open_stream(s, err);
    if (!r)
        r = settle_root(s, path, err);
    /* The weights that a pipe stopped at may belong to another folder. */
    if (!r && s->kind == LM_HF_ONCE && s->current < 0 && !s->complete)
        r = lm_hf_next_weights(s, err);
    return r < 0 ? r : LM_OK;
}
