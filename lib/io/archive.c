/* SPDX-License-Identifier: MIT */
/* Archives: by ranges with our own tar and zip indexes, in order with libarchive. */

#include "io/archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef LM_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

#include "base/size.h"
#include "io/archive_index.h"
#include "io/input.h"
#include "io/unpack.h"

enum { CHUNK = 1 << 18 };

struct lm_archive {
    struct lm_in           *in;
    bool                    by_range;
    struct lm_archive_index index;
    /* reading in order */
    struct archive         *la;
    struct lm_unpack       *unpack;      /* of a pipe or a compressed file, else NULL   */
    uint64_t                pos;         /* without: of a seekable file's next read     */
    char                   *chunk;       /* without: [CHUNK]                            */
    char                   *name;        /* of the current member                       */
    bool                    begun;       /* some of it was read                         */
    struct lm_err           in_err;      /* what a read failed with, behind libarchive  */
};

int lm_archive_index_add(struct lm_archive_index *x, const char *name, size_t n, uint64_t size,
                         uint64_t offset, bool link, struct lm_err *err)
{
    while (n >= 2 && name[0] == '.' && name[1] == '/') {
        name += 2;
        n -= 2;
    }
    if (!lm_grow(&x->members, &x->cap, x->n + 1, sizeof *x->members))
        return lm_fail_nomem(err);
    char *copy = lm_arena_copy(&x->names, name, n);
    if (!copy)
        return lm_fail_nomem(err);
    x->members[x->n++] = (struct lm_member){
        .name = copy, .size = size, .offset = offset, .link = link,
    };
    return LM_OK;
}

static void clear_index(struct lm_archive_index *x)
{
    free(x->members);
    lm_arena_release(&x->names);
    *x = (struct lm_archive_index){0};
}

/* By ranges if a format reader says so. */
static int make_index(struct lm_archive *a, struct lm_err *err)
{
    static int (*const readers[])(struct lm_in *, struct lm_archive_index *, struct lm_err *) = {
        lm_tar_index, lm_zip_index
    };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const int s = readers[i](a->in, &a->index, err);
        if (s < 0)
            return s;
        if (s) {
            a->by_range = true;
            return LM_OK;
        }
        clear_index(&a->index);
    }
    return LM_OK;
}

struct lm_archive *lm_archive_open(const char *path, struct lm_err *err)
{
    struct lm_archive *a = calloc(1, sizeof *a);
    if (!a) {
        lm_fail_nomem(err);
        return NULL;
    }
    a->in = lm_in_open(path, LM_IN_RAW, err);
    int s = a->in ? LM_OK : LM_EIO;
    if (!s && lm_in_seekable(a->in))
        s = make_index(a, err);
    if (!s && !a->by_range)
        s = lm_archive_rewind(a, err);
    if (s) {
        lm_archive_close(a);
        return NULL;
    }
    return a;
}

const char *lm_archive_name(const struct lm_archive *a)
{
    return lm_in_name(a->in);
}

bool lm_archive_by_range(const struct lm_archive *a)
{
    return a->by_range;
}

bool lm_archive_seekable(const struct lm_archive *a)
{
    return lm_in_seekable(a->in);
}

const struct lm_member *lm_archive_members(const struct lm_archive *a, size_t *n)
{
    *n = a->index.n;
    return a->index.members;
}

int lm_archive_pread(const struct lm_archive *a, const struct lm_member *m, uint64_t off,
                     void *dst, size_t n, struct lm_err *err)
{
    return lm_in_pread(a->in, m->offset + off, dst, n, err);
}

#ifdef LM_HAVE_ARCHIVE

static la_ssize_t on_read(struct archive *la, void *arg, const void **out)
{
    struct lm_archive *a = arg;
    size_t got = CHUNK;
    int s;
    if (a->unpack) {
        s = lm_unpack_next(a->unpack, out, &got, &a->in_err);
    } else {
        if (got > lm_in_size(a->in) - a->pos)
            got = (size_t)(lm_in_size(a->in) - a->pos);
        s = lm_in_pread(a->in, a->pos, a->chunk, got, &a->in_err);
        *out = a->chunk;
    }
    if (s) {
        archive_set_error(la, EIO, "%s", a->in_err.text);
        return -1;
    }
    a->pos += got;
    return (la_ssize_t)got;
}

/* Only for seekable files as they are: moving ahead, and to where a zip's directory is. */
static la_int64_t on_seek(struct archive *la, void *arg, la_int64_t off, int whence)
{
    struct lm_archive *a = arg;
    const int64_t size = (int64_t)lm_in_size(a->in);
    const int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? (int64_t)a->pos : size;
    (void)la;
    if (off < -base || off > size - base)
        return ARCHIVE_FATAL;
    a->pos = (uint64_t)(base + off);
    return (la_int64_t)a->pos;
}

static la_int64_t on_skip(struct archive *la, void *arg, la_int64_t n)
{
    struct lm_archive *a = arg;
    const int64_t left = (int64_t)(lm_in_size(a->in) - a->pos);
    (void)la;
    n = n < left ? n : left;
    a->pos += (uint64_t)n;
    return n;
}

/* libarchive's words, or those of the read that failed behind it. */
static int la_fail(struct lm_archive *a, struct lm_err *err)
{
    if (a->in_err.code)
        return lm_fail(err, a->in_err.code, "%s", a->in_err.text);
    const char *why = archive_error_string(a->la);
    if (archive_format(a->la) == 0)
        return lm_fail(err, LM_EDATA, "neither a folder nor an archive of a known format: %s",
                       why ? why : "damaged");
    if (!lm_in_seekable(a->in) &&
        (archive_format(a->la) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_7ZIP)
        return lm_fail(err, LM_ENOSUP, "a 7z cannot be read from a pipe, as its directory is at "
                       "the end: give the file itself");
    return lm_fail(err, LM_EDATA, "archive: %s", why ? why : "damaged");
}

static void la_close(struct lm_archive *a)
{
    if (a->la)
        archive_read_free(a->la);
    a->la = NULL;
    lm_unpack_close(a->unpack);
    a->unpack = NULL;
}

/* Compressed input loses its compression first; a file without any is sought in. */
static int open_input(struct lm_archive *a, struct lm_err *err)
{
    a->unpack = lm_unpack_open(a->in, err);
    if (!a->unpack)
        return err ? err->code : LM_EDATA;
    if (!lm_in_seekable(a->in) || !lm_unpack_plain(a->unpack))
        return LM_OK;
    lm_unpack_close(a->unpack);
    a->unpack = NULL;
    if (!a->chunk)
        a->chunk = malloc(CHUNK);
    return a->chunk ? LM_OK : lm_fail_nomem(err);
}

int lm_archive_rewind(struct lm_archive *a, struct lm_err *err)
{
    if (a->la && !lm_in_seekable(a->in))
        return lm_fail(err, LM_EUSE, "a pipe can be read only once");
    la_close(a);
    a->pos = 0;
    a->begun = false;
    a->in_err = (struct lm_err){0};
    const int s = open_input(a, err);
    if (s)
        return s;
    a->la = archive_read_new();
    if (!a->la)
        return lm_fail_nomem(err);
    archive_read_support_format_all(a->la);
    archive_read_set_read_callback(a->la, on_read);
    if (!a->unpack) {
        archive_read_set_seek_callback(a->la, on_seek);
        archive_read_set_skip_callback(a->la, on_skip);
    }
    archive_read_set_callback_data(a->la, a);
    return archive_read_open1(a->la) < ARCHIVE_WARN ? la_fail(a, err) : LM_OK;
}

/* The entry's path, in whichever form the archive has it. */
static const char *entry_path(struct archive_entry *e)
{
    const char *p = archive_entry_pathname_utf8(e);
    if (!p)
        p = archive_entry_pathname(e);
    while (p && p[0] == '.' && p[1] == '/')
        p += 2;
    return p ? p : "";
}

/* The rest of a member that was begun, as its sum is compared behind its last byte. */
static int end_member(struct lm_archive *a, struct lm_err *err)
{
    const void *p;
    size_t n;
    la_int64_t offset;
    int s = a->begun ? ARCHIVE_OK : ARCHIVE_EOF;
    while (s == ARCHIVE_OK)
        s = archive_read_data_block(a->la, &p, &n, &offset);
    a->begun = false;
    return s == ARCHIVE_EOF ? LM_OK : lm_err_at(err, la_fail(a, err), "%s", a->name);
}

/* The rest of a compressed input, whose sums come last. */
static int end_input(struct lm_archive *a, struct lm_err *err)
{
    const void *p;
    size_t n = a->unpack && !lm_unpack_plain(a->unpack);
    int r = LM_OK;
    while (!r && n)
        r = lm_unpack_next(a->unpack, &p, &n, err);
    return r;
}

int lm_archive_next(struct lm_archive *a, struct lm_member *m, struct lm_err *err)
{
    struct archive_entry *e;
    const int r = end_member(a, err);
    if (r)
        return r;
    for (;;) {
        const int s = archive_read_next_header(a->la, &e);
        if (s == ARCHIVE_EOF)
            return end_input(a, err);
        if (s < ARCHIVE_WARN)
            return la_fail(a, err);
        const bool link = archive_entry_hardlink(e) || archive_entry_filetype(e) == AE_IFLNK;
        if (!link && archive_entry_filetype(e) != AE_IFREG)
            continue;
        free(a->name);
        a->name = strdup(entry_path(e));
        if (!a->name)
            return lm_fail_nomem(err);
        *m = (struct lm_member){ .name = a->name, .link = link };
        if (!link)
            m->size = archive_entry_size_is_set(e) ? (uint64_t)archive_entry_size(e)
                                                   : LM_SIZE_UNKNOWN;
        return 1;
    }
}

int lm_archive_read(struct lm_archive *a, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    *got = 0;
    a->begun = true;
    while (*got < n) {
        const la_ssize_t r = archive_read_data(a->la, (char *)dst + *got, n - *got);
        if (r == 0)
            break;
        if (r < 0)
            return la_fail(a, err);
        *got += (size_t)r;
    }
    return LM_OK;
}

#else

static void la_close(struct lm_archive *a)
{
    (void)a;
}

int lm_archive_rewind(struct lm_archive *a, struct lm_err *err)
{
    (void)a;
    return lm_fail(err, LM_ENOSUP, "this build has no libarchive: only uncompressed tar and zip "
                   "files can be read");
}

int lm_archive_next(struct lm_archive *a, struct lm_member *m, struct lm_err *err)
{
    (void)m;
    return lm_archive_rewind(a, err);
}

int lm_archive_read(struct lm_archive *a, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    (void)dst, (void)n, (void)got;
    return lm_archive_rewind(a, err);
}

#endif

void lm_archive_close(struct lm_archive *a)
{
    if (!a)
        return;
    la_close(a);
    clear_index(&a->index);
    lm_in_close(a->in);
    free(a->chunk);
    free(a->name);
    free(a);
}
