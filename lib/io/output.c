/* SPDX-License-Identifier: MIT */
#include "io/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef LM_HAVE_ZSTD
#include <zstd.h>
#endif

#define CHUNK     (1 << 16)
#define MAX_LINKS 40            /* as Linux does */

struct lm_out {
    char    *name;            /* what messages call it                       */
    char    *target;          /* the name it will take, links followed       */
    char    *part;            /* the temporary file, NULL when direct        */
    int      fd;
    bool     owned;
    bool     complete;        /* only the renaming is left                   */
    bool     kept;            /* part stays after abort                      */
    lm_take_bytes *take;      /* where bytes go in the place of fd, or NULL  */
    void    *take_arg;
    uint64_t left;            /* bytes of an earlier run from pos on         */
    uint64_t pos;
    size_t   used;            /* bytes in buf                                */
    uint8_t *buf;             /* [CHUNK]                                     */
#ifdef LM_HAVE_ZSTD
    ZSTD_CStream *z;          /* NULL: not compressed                        */
#endif
};

/* One step along links: an existing file by realpath, what a link to nothing names, and
 * *last for any other path.  malloc'ed, or NULL. */
static char *follow(const char *path, bool *last)
{
    char link[PATH_MAX], *real = realpath(path, NULL);
    ssize_t n = real ? -1 : readlink(path, link, sizeof link - 1);
    *last = n < 0;
    if (n < 0)
        return real ? real : strdup(path);
    link[n] = 0;
    const char *slash = strrchr(path, '/');
    if (link[0] == '/' || !slash)
        return strdup(link);
    size_t dir = (size_t)(slash - path) + 1;
    char *full = malloc(dir + (size_t)n + 1);
    if (full) {
        memcpy(full, path, dir);
        memcpy(full + dir, link, (size_t)n + 1);
    }
    return full;
}

/* The file a path finally names, which need not exist yet.  malloc'ed, or NULL. */
static char *resolve(const char *path)
{
    bool last = false;
    char *at = strdup(path);
    for (int links = 0; at && !last && links < MAX_LINKS; links++) {
        char *next = follow(at, &last);
        free(at);
        at = next;
    }
    return at;
}

/* stat of the directory that a path lies in. */
static bool stat_directory(const char *path, struct stat *st)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
    const bool there = dir && stat(dir, st) == 0;
    free(dir);
    return there;
}

bool lm_out_same(const char *a, const char *b)
{
    char *x = resolve(a), *y = resolve(b);
    struct stat s, t;
    bool same = false;
    if (x && y && stat_directory(x, &s) && stat_directory(y, &t)) {
        const char *in_x = strrchr(x, '/'), *in_y = strrchr(y, '/');
        same = s.st_dev == t.st_dev && s.st_ino == t.st_ino &&
               !strcmp(in_x ? in_x + 1 : x, in_y ? in_y + 1 : y);
    }
    free(x);
    free(y);
    return same;
}

/* "DIR/.NAME.XXXXXX.part" for "DIR/NAME"; malloc'ed, or NULL. */
static char *part_name(const char *target)
{
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    int dir = (int)(base - target);
    size_t size = strlen(target) + sizeof "..XXXXXX.part";
    char *s = malloc(size);
    if (s)
        snprintf(s, size, "%.*s.%s.XXXXXX.part", dir, target, base);
    return s;
}

/* The mode of a file that is there already; others get what a new file has here. */
static bool old_mode(const char *target, mode_t *mode)
{
    struct stat st;
    *mode = 0666;
    if (stat(target, &st) < 0)
        return false;
    *mode = st.st_mode & 07777;
    return true;
}

static int mkstemps_near(char *s, size_t suffix, mode_t mode)
{
    /* mkstemps is no POSIX function: the same with O_EXCL and our own letters. */
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char *x = s + strlen(s) - suffix - 6;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t v = (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 20 ^ (uint64_t)now.tv_sec << 32;
    for (int tries = 0; tries < 1000; tries++) {
        uint64_t r = v += 7777777777777ULL;
        for (int i = 0; i < 6; i++, r /= 36)
            x[i] = letters[r % 36];
        int fd = open(s, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static int open_part(struct lm_out *out, struct lm_err *err)
{
    out->part = part_name(out->target);
    if (!out->part)
        return lm_fail_nomem(err);
    mode_t mode;
    const bool old = old_mode(out->target, &mode);
    out->fd = mkstemps_near(out->part, strlen(".part"), old ? 0600 : mode);
    if (out->fd < 0) {
        int s = lm_fail_errno(err, "cannot create");
        free(out->part);
        out->part = NULL;
        return s;
    }
    out->owned = true;
    if (old && fchmod(out->fd, mode) < 0)
        return lm_fail_errno(err, "cannot set the mode");
    return LM_OK;
}

static int start_zstd(struct lm_out *out, struct lm_err *err)
{
#ifdef LM_HAVE_ZSTD
    out->z = ZSTD_createCStream();
    if (!out->z)
        return lm_fail_nomem(err);
    ZSTD_CCtx_setParameter(out->z, ZSTD_c_compressionLevel, 3);
    ZSTD_CCtx_setParameter(out->z, ZSTD_c_checksumFlag, 1);
    return LM_OK;
#else
    (void)out;
    return lm_fail(err, LM_ENOSUP, "this build has no zstd to compress with");
#endif
}

static int open_target(struct lm_out *out, const char *path, struct lm_err *err)
{
    struct stat st;
    size_t len = strlen(path);
    if (len == 0 || path[len - 1] == '/')
        return lm_fail(err, LM_EIO, "is no file name");
    if (stat(path, &st) != 0 && errno == ELOOP)
        return lm_fail_errno(err, "cannot open");
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return lm_fail(err, LM_EIO, "is a directory");
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        out->owned = out->fd >= 0;
        return out->fd < 0 ? lm_fail_errno(err, "cannot open") : LM_OK;
    }
    out->target = resolve(path);
    if (!out->target)
        return lm_fail_nomem(err);
    int s = open_part(out, err);
    if (s == LM_OK && len > 4 && !strcmp(path + len - 4, ".zst"))
        s = start_zstd(out, err);
    return s;
}

struct lm_out *lm_out_open(const char *path, struct lm_err *err)
{
    bool std = !path || !strcmp(path, "-");
    struct lm_out *out = calloc(1, sizeof *out);
    if (!out) {
        lm_fail_nomem(err);
        return NULL;
    }
    out->fd = std ? STDOUT_FILENO : -1;
    out->name = strdup(std ? "<stdout>" : path);
    out->buf = malloc(CHUNK);
    if (!out->name || !out->buf)
        lm_fail_nomem(err);
    else if (std || open_target(out, path, err) == LM_OK)
        return out;
    lm_out_abort(out);
    return NULL;
}

struct lm_out *lm_out_to(lm_take_bytes *take, void *arg, const char *name, struct lm_err *err)
{
    struct lm_out *out = calloc(1, sizeof *out);
    if (out) {
        out->fd = -1;
        out->take = take;
        out->take_arg = arg;
        out->name = strdup(name);
        out->buf = malloc(CHUNK);
        if (out->name && out->buf)
            return out;
    }
    lm_out_abort(out);
    lm_fail_nomem(err);
    return NULL;
}

static int take_in_buf(void *arg, const void *p, size_t n, struct lm_err *err)
{
    struct lm_buf *b = arg;
    lm_buf_add(b, p, n);
    return b->failed ? lm_fail_nomem(err) : LM_OK;
}

struct lm_out *lm_out_to_buf(struct lm_buf *b, struct lm_err *err)
{
    return lm_out_to(take_in_buf, b, "memory", err);
}

/* "DIR/.NAME.part" for "DIR/NAME"; malloc'ed, or NULL. */
static char *kept_name(const char *target)
{
    const char *slash = strrchr(target, '/'), *base = slash ? slash + 1 : target;
    size_t size = strlen(target) + sizeof "..part";
    char *s = malloc(size);
    if (s)
        snprintf(s, size, "%.*s.%s.part", (int)(base - target), target, base);
    return s;
}

static int open_kept(struct lm_out *out, const char *path, struct lm_err *err)
{
    struct stat st;
    size_t len = strlen(path);
    if (len == 0 || path[len - 1] == '/' || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return lm_fail(err, LM_EUSE, "only a regular file can be written in several runs");
    if (len > 4 && !strcmp(path + len - 4, ".zst"))
        return lm_fail(err, LM_EUSE, "a compressed file cannot be written in several runs");
    out->target = resolve(path);
    out->part = out->target ? kept_name(out->target) : NULL;
    if (!out->part)
        return lm_fail_nomem(err);
    out->kept = true;
    mode_t mode;
    const bool old = old_mode(out->target, &mode);
    out->fd = open(out->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                   old ? 0600 : mode);
    out->owned = out->fd >= 0;
    if (out->fd < 0)
        return lm_fail_errno(err, "cannot open %s", out->part);
    if (fstat(out->fd, &st) == 0 && !S_ISREG(st.st_mode))
        return lm_fail(err, LM_EUSE, "%s: is no regular file", out->part);
    if (fstat(out->fd, &st) < 0 || (old && fchmod(out->fd, mode) < 0))
        return lm_fail_errno(err, "cannot set the mode");
    out->left = (uint64_t)st.st_size;
    return LM_OK;
}

struct lm_out *lm_out_open_kept(const char *path, struct lm_err *err)
{
    struct lm_out *out = calloc(1, sizeof *out);
    if (!out) {
        lm_fail_nomem(err);
        return NULL;
    }
    out->fd = -1;
    out->name = strdup(path);
    out->buf = malloc(CHUNK);
    if (!out->name || !out->buf)
        lm_fail_nomem(err);
    else if (open_kept(out, path, err) == LM_OK)
        return out;
    lm_out_abort(out);
    return NULL;
}

const char *lm_out_kept_part(const struct lm_out *out)
{
    return out->kept ? out->part : NULL;
}

uint64_t lm_out_left(const struct lm_out *out)
{
    return out->left;
}

int lm_out_read_left(const struct lm_out *out, uint64_t off, void *dst, size_t n,
                     struct lm_err *err)
{
    char *to = dst;
    off += out->pos;
    while (n) {
        const ssize_t k = pread(out->fd, to, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return k ? lm_fail_errno(err, "cannot read %s", out->part)
                     : lm_fail(err, LM_EIO, "%s became shorter", out->part);
        to += k;
        off += (uint64_t)k;
        n -= (size_t)k;
    }
    return LM_OK;
}

/* Writing goes on at pos. */
static int go_on(struct lm_out *out, struct lm_err *err)
{
    if (out->left == 0 && lseek(out->fd, (off_t)out->pos, SEEK_SET) < 0)
        return lm_fail_errno(err, "cannot seek");
    return LM_OK;
}

int lm_out_skip(struct lm_out *out, uint64_t n, struct lm_err *err)
{
    out->pos += n;
    out->left -= n;
    return go_on(out, err);
}

int lm_out_cut(struct lm_out *out, struct lm_err *err)
{
    if (!out->left)
        return LM_OK;
    if (ftruncate(out->fd, (off_t)out->pos) < 0)
        return lm_fail_errno(err, "cannot shorten %s", out->part);
    out->left = 0;
    return go_on(out, err);
}

/* Compare with what an earlier run left: *same bytes of n are there already. */
static int compare_left(struct lm_out *out, const void *p, size_t n, size_t *same,
                        struct lm_err *err)
{
    uint8_t old[4096];
    *same = 0;
    while (*same < n && out->left) {
        size_t k = n - *same < sizeof old ? n - *same : sizeof old;
        k = out->left < k ? (size_t)out->left : k;
        int s = lm_out_read_left(out, 0, old, k, err);
        if (s)
            return s;
        if (memcmp(old, (const char *)p + *same, k))
            return lm_out_cut(out, err);
        *same += k;
        s = lm_out_skip(out, k, err);
        if (s)
            return s;
    }
    return LM_OK;
}

const char *lm_out_name(const struct lm_out *out)
{
    return out->name;
}

const char *lm_out_part(const struct lm_out *out)
{
    return out->kept ? NULL : out->part;
}

uint64_t lm_out_pos(const struct lm_out *out)
{
    return out->pos;
}

bool lm_out_is_tty(const struct lm_out *out)
{
    return !out->take && isatty(out->fd);
}

static int write_fd(struct lm_out *out, const void *p, size_t n, struct lm_err *err)
{
    const char *from = p;
    if (out->take)
        return n ? out->take(out->take_arg, p, n, err) : LM_OK;
    while (n) {
        ssize_t k = write(out->fd, from, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return lm_fail_errno(err, "write error");
        from += k;
        n -= (size_t)k;
    }
    return LM_OK;
}

int lm_out_flush(struct lm_out *out, struct lm_err *err)
{
    size_t n = out->used;
    out->used = 0;
    return write_fd(out, out->buf, n, err);
}

/* What is in the buffer, then p, in one call if the system takes all of it: a record
 * whose head was buffered reaches the reader of a pipe whole. */
static int write_behind(struct lm_out *out, const void *p, size_t n, struct lm_err *err)
{
    struct iovec v[2] = {{out->buf, out->used}, {(void *)p, n}};
    ssize_t k;
    do
        k = writev(out->fd, v, 2);
    while (k < 0 && errno == EINTR);
    if (k < 0)
        return lm_fail_errno(err, "write error");
    size_t done = (size_t)k, head = done < out->used ? done : out->used;
    int s = write_fd(out, out->buf + head, out->used - head, err);
    out->used = 0;
    return s ? s : write_fd(out, (const char *)p + (done - head), n - (done - head), err);
}

/* Append bytes to the buffer; what is larger than it goes out as it is. */
static int put(struct lm_out *out, const void *p, size_t n, struct lm_err *err)
{
    if (n > CHUNK && !out->take)
        return write_behind(out, p, n, err);
    if (n > CHUNK - out->used) {
        int s = lm_out_flush(out, err);
        if (s < 0)
            return s;
    }
    if (n > CHUNK)
        return write_fd(out, p, n, err);
    memcpy(out->buf + out->used, p, n);
    out->used += n;
    return LM_OK;
}

#ifdef LM_HAVE_ZSTD
static int put_zstd(struct lm_out *out, const void *p, size_t n, ZSTD_EndDirective end,
                    struct lm_err *err)
{
    char packed[4096];
    ZSTD_inBuffer in = { p, n, 0 };
    for (;;) {
        ZSTD_outBuffer o = { packed, sizeof packed, 0 };
        size_t left = ZSTD_compressStream2(out->z, &o, &in, end);
        if (ZSTD_isError(left))
            return lm_fail(err, LM_EIO, "zstd: %s", ZSTD_getErrorName(left));
        int s = put(out, packed, o.pos, err);
        if (s < 0)
            return s;
        if (end == ZSTD_e_end ? left == 0 : in.pos == in.size)
            return LM_OK;
    }
}
#endif

int lm_out_write(struct lm_out *out, const void *p, size_t n, struct lm_err *err)
{
    if (out->left) {
        size_t same;
        const int s = compare_left(out, p, n, &same, err);
        if (s)
            return s;
        p = (const char *)p + same;
        n -= same;
    }
    out->pos += n;
#ifdef LM_HAVE_ZSTD
    if (out->z)
        return put_zstd(out, p, n, ZSTD_e_continue, err);
#endif
    return put(out, p, n, err);
}

int lm_out_zeros(struct lm_out *out, uint64_t n, struct lm_err *err)
{
    static const char zeros[4096];
    while (n) {
        size_t k = n < sizeof zeros ? (size_t)n : sizeof zeros;
        int s = lm_out_write(out, zeros, k, err);
        if (s < 0)
            return s;
        n -= k;
    }
    return LM_OK;
}

int lm_out_complete(struct lm_out *out, struct lm_err *err)
{
    int s = LM_OK;
    if (out->complete)
        return LM_OK;
#ifdef LM_HAVE_ZSTD
    if (out->z)
        s = put_zstd(out, NULL, 0, ZSTD_e_end, err);
#endif
    if (s == LM_OK)
        s = lm_out_flush(out, err);
    if (s == LM_OK && out->left)
        s = lm_out_cut(out, err);
    if (s == LM_OK && out->part && fsync(out->fd) < 0)
        s = lm_fail_errno(err, "write error");
    if (out->owned) {
        out->owned = false;
        if (close(out->fd) < 0 && s == LM_OK)
            s = lm_fail_errno(err, "write error");
    }
    out->complete = s == LM_OK;
    return s;
}

int lm_out_commit(struct lm_out *out, struct lm_err *err)
{
    int s = lm_out_complete(out, err);
    if (s == LM_OK && out->part) {
        if (rename(out->part, out->target) < 0) {
            s = lm_fail_errno(err, "cannot rename");
        } else {
            free(out->part);
            out->part = NULL;
        }
    }
    lm_out_abort(out);
    return s;
}

void lm_out_abort(struct lm_out *out)
{
    if (!out)
        return;
    if (out->owned)
        close(out->fd);
    if (out->part && !out->kept)
        unlink(out->part);
#ifdef LM_HAVE_ZSTD
    ZSTD_freeCStream(out->z);
#endif
    free(out->part);
    free(out->target);
    free(out->name);
    free(out->buf);
    free(out);
}
