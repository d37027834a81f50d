/* SPDX-License-Identifier: MIT */
#include "io/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/table.h"

#ifdef LM_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#define CHUNK       (1 << 16)
#define MAX_PEEK    4096
#define WINDOW_LOG  27
#define WINDOW_LONG 31

static const uint8_t zstd_magic[4] = { 0x28, 0xB5, 0x2F, 0xFD };

struct lm_in {
    char    *name;
    int      fd;
    bool     owned;             /* fd is ours to close                       */
    bool     regular, compressed;
    bool     unknown;           /* whether it is compressed: nothing was read yet  */
    int      flags;
    uint64_t size;              /* of a regular file, else LM_SIZE_UNKNOWN   */
    uint64_t pos;               /* handed out                                */
    const uint8_t *buf;         /* raw bytes read ahead: buf[from .. to)     */
    uint8_t *room;              /* [CHUNK] where they are read to, ours; NULL: all are there */
    size_t   from, to;
    bool     raw_end;           /* the descriptor has no more                */
#ifdef LM_HAVE_ZSTD
    ZSTD_DStream *z;
    bool     in_frame;          /* the last frame begun is not complete      */
#endif
    uint8_t *seen;              /* [MAX_PEEK] decompressed and looked at, not read yet: */
    size_t   seen_from, seen_to;        /* ... seen[seen_from .. seen_to)    */
};

/* One read(2) into dst, EINTR aside.  *got 0: end of input. */
static int read_fd(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    ssize_t k;
    do
        k = read(in->fd, dst, n);
    while (k < 0 && errno == EINTR);
    if (k < 0)
        return lm_fail_errno(err, "read error");
    if (k == 0)
        in->raw_end = true;
    *got = (size_t)k;
    return LM_OK;
}

/* Read ahead until `want` raw bytes are there or the input ends. */
static int fill(struct lm_in *in, size_t want, struct lm_err *err)
{
    if (in->from == in->to)
        in->from = in->to = 0;
    while (in->to - in->from < want && !in->raw_end) {
        size_t got;
        int s = read_fd(in, in->room + in->to, CHUNK - in->to, &got, err);
        if (s < 0)
            return s;
        in->to += got;
    }
    return LM_OK;
}

/* Look at the first bytes for the zstd magic.  A skippable frame first is left
 * alone: nobody begins a model or a stream with one. */
static int detect(struct lm_in *in, struct lm_err *err)
{
    in->unknown = false;
    for (size_t n = 1; n <= sizeof zstd_magic; n++) {
        int s = fill(in, n, err);       /* no more than it takes: the rest may be long due */
        if (s < 0 || in->to - in->from < n || in->buf[in->from + n - 1] != zstd_magic[n - 1])
            return s;
    }
    in->compressed = true;
    in->size = LM_SIZE_UNKNOWN;
#ifdef LM_HAVE_ZSTD
    in->z = ZSTD_createDStream();
    if (!in->z)
        return lm_fail_nomem(err);
    ZSTD_DCtx_setParameter(in->z, ZSTD_d_windowLogMax,
                           in->flags & LM_IN_LONG ? WINDOW_LONG : WINDOW_LOG);
    return LM_OK;
#else
    return lm_fail(err, LM_ENOSUP, "is zstd-compressed, and this build has no zstd");
#endif
}

/* An input without a descriptor yet; NULL with *err filled. */
static struct lm_in *new_input(const char *name, struct lm_err *err)
{
    struct lm_in *in = calloc(1, sizeof *in);
    if (in) {
        in->fd = -1;
        in->size = LM_SIZE_UNKNOWN;
        in->name = strdup(name);
        in->buf = in->room = malloc(CHUNK);
        if (in->name && in->room)
            return in;
    }
    lm_in_close(in);
    lm_fail_nomem(err);
    return NULL;
}

/* Once fd is there: what is it, and is it compressed?  Of a pipe that is found out at the first
 * read, so that opening does not wait.  Closes in on failure. */
static struct lm_in *begin(struct lm_in *in, int flags, struct lm_err *err)
{
    struct stat st;
    int s = LM_OK;
    if (fstat(in->fd, &st) < 0)
        s = lm_fail_errno(err, "cannot read");
    else if (S_ISDIR(st.st_mode))
        s = lm_fail(err, LM_EIO, "is a directory");
    if (s == LM_OK && S_ISREG(st.st_mode)) {
        off_t at = lseek(in->fd, 0, SEEK_CUR);
        in->regular = at == 0;           /* offsets would not be ours otherwise */
        if (at >= 0)
            in->size = (uint64_t)(st.st_size > at ? st.st_size - at : 0);
    }
    in->flags = flags;
    in->unknown = !(flags & LM_IN_RAW);
    if (s == LM_OK && in->unknown && S_ISREG(st.st_mode))
        s = detect(in, err);
    if (s == LM_OK)
        return in;
    lm_in_close(in);
    return NULL;
}

struct lm_in *lm_in_open(const char *path, int flags, struct lm_err *err)
{
    bool std = !path || !strcmp(path, "-");
    struct lm_in *in = new_input(std ? "<stdin>" : path, err);
    if (!in)
        return NULL;
    in->fd = std ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (in->fd < 0) {
        lm_fail_errno(err, "cannot open");
        lm_in_close(in);
        return NULL;
    }
    in->owned = !std;
    return begin(in, flags, err);
}

struct lm_in *lm_in_from_fd(int fd, const char *name, int flags, struct lm_err *err)
{
    struct lm_in *in = new_input(name, err);
    if (!in)
        return NULL;
    in->fd = fd;
    return begin(in, flags, err);
}

struct lm_in *lm_in_from_memory(const void *p, size_t n, const char *name, int flags,
                                struct lm_err *err)
{
    struct lm_in *in = new_input(name, err);
    if (!in)
        return NULL;
    free(in->room);
    in->room = NULL;
    in->buf = n ? p : (const void *)"";
    in->to = n;
    in->size = n;
    in->raw_end = true;
    in->flags = flags;
    if ((flags & LM_IN_RAW) || detect(in, err) == LM_OK)
        return in;
    lm_in_close(in);
    return NULL;
}

void lm_in_close(struct lm_in *in)
{
    if (!in)
        return;
#ifdef LM_HAVE_ZSTD
    ZSTD_freeDStream(in->z);
#endif
    if (in->owned)
        close(in->fd);
    free(in->room);
    free(in->seen);
    free(in->name);
    free(in);
}

const char *lm_in_name(const struct lm_in *in)
{
    return in->name;
}

uint64_t lm_in_pos(const struct lm_in *in)
{
    return in->pos;
}

uint64_t lm_in_size(const struct lm_in *in)
{
    return in->size;
}

bool lm_in_seekable(const struct lm_in *in)
{
    return in->regular && !in->compressed;
}

int lm_in_fd(const struct lm_in *in)
{
    return in->fd;
}

/* Some decompressed bytes; *got 0 only at the end of the last frame. */
static int read_zstd(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
#ifdef LM_HAVE_ZSTD
    ZSTD_outBuffer out = { dst, n, 0 };
    while (out.pos == 0) {
        int s = fill(in, 1, err);
        if (s < 0)
            return s;
        ZSTD_inBuffer raw = { in->buf + in->from, in->to - in->from, 0 };
        if (raw.size == 0 && !in->in_frame)
            break;
        size_t before = raw.size;
        size_t r = ZSTD_decompressStream(in->z, &out, &raw);
        if (ZSTD_getErrorCode(r) == ZSTD_error_frameParameter_windowTooLarge)
            return lm_fail(err, LM_ENOSUP, "zstd with a window above 128 MiB (--long allows it)");
        if (ZSTD_isError(r))
            return lm_fail(err, LM_EDATA, "zstd: %s", ZSTD_getErrorName(r));
        in->from += raw.pos;
        in->in_frame = r != 0;
        if (before == 0 && out.pos == 0)
            return lm_fail(err, LM_EDATA, "ends inside a zstd frame");
    }
    *got = out.pos;
    return LM_OK;
#else
    (void)in; (void)dst; (void)n;
    *got = 0;
    return lm_fail(err, LM_ENOSUP, "this build has no zstd");
#endif
}

int lm_in_read_some(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    int s = LM_OK;
    *got = 0;
    if (n == 0)
        return LM_OK;
    if (in->unknown && (s = detect(in, err)) < 0)
        return s;
    if (in->seen_from < in->seen_to) {
        *got = in->seen_to - in->seen_from < n ? in->seen_to - in->seen_from : n;
        memcpy(dst, in->seen + in->seen_from, *got);
        in->seen_from += *got;
    } else if (in->compressed) {
        s = read_zstd(in, dst, n, got, err);
    } else if (in->from < in->to) {
        *got = in->to - in->from < n ? in->to - in->from : n;
        memcpy(dst, in->buf + in->from, *got);
        in->from += *got;
    } else if (n >= CHUNK / 2) {              /* large: straight to the caller */
        s = in->raw_end ? LM_OK : read_fd(in, dst, n, got, err);
    } else {
        s = fill(in, 1, err);
        if (s == LM_OK && in->to > in->from)
            return lm_in_read_some(in, dst, n, got, err);
    }
    in->pos += *got;
    return s;
}

int lm_in_read(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    *got = 0;
    while (*got < n) {
        size_t k;
        int s = lm_in_read_some(in, (char *)dst + *got, n - *got, &k, err);
        if (s < 0)
            return s;
        if (k == 0)
            break;
        *got += k;
    }
    return LM_OK;
}

/* What lm_in_peek does with compressed bytes. */
static int peek_zstd(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    size_t there = in->seen_to - in->seen_from, k = 1;
    if (!in->seen && !(in->seen = malloc(MAX_PEEK)))
        return lm_fail_nomem(err);
    memmove(in->seen, in->seen + in->seen_from, there);
    in->seen_from = 0;
    in->seen_to = there;
    while (in->seen_to < n && k) {
        int s = read_zstd(in, in->seen + in->seen_to, n - in->seen_to, &k, err);
        if (s != LM_OK)
            return s;
        in->seen_to += k;
    }
    *got = in->seen_to < n ? in->seen_to : n;
    memcpy(dst, in->seen, *got);
    return LM_OK;
}

int lm_in_peek(struct lm_in *in, void *dst, size_t n, size_t *got, struct lm_err *err)
{
    int s = in->unknown ? detect(in, err) : LM_OK;
    *got = 0;
    if (s != LM_OK)
        return s;
    if (in->compressed)
        return peek_zstd(in, dst, n, got, err);
    s = fill(in, n, err);
    if (s != LM_OK)
        return s;
    *got = in->to - in->from < n ? in->to - in->from : n;
    memcpy(dst, in->buf + in->from, *got);
    return LM_OK;
}

size_t lm_in_ahead(const struct lm_in *in, const uint8_t **p)
{
    *p = in->buf + in->from;
    return in->unknown || in->compressed ? 0 : in->to - in->from;
}

/* Past n bytes of what lm_in_ahead shows. */
static void pass(struct lm_in *in, size_t n)
{
    in->from += n;
    in->pos += n;
}

int lm_in_read_all(struct lm_in *in, void *dst, size_t n, struct lm_err *err)
{
    const uint8_t *ahead;
    size_t got;
    if (n && n <= lm_in_ahead(in, &ahead)) {     /* a few bytes of many: no detours */
        memcpy(dst, ahead, n);
        pass(in, n);
        return LM_OK;
    }
    int s = lm_in_read(in, dst, n, &got, err);
    if (s == LM_OK && got < n)
        return lm_fail(err, LM_EDATA, "ends at byte %llu: needs %zu more bytes",
                       (unsigned long long)in->pos, n - got);
    return s;
}

int lm_in_skip(struct lm_in *in, uint64_t n, struct lm_err *err)
{
    const uint8_t *ahead;
    char waste[4096];
    if (n <= lm_in_ahead(in, &ahead)) {
        pass(in, (size_t)n);
        return LM_OK;
    }
    if (lm_in_seekable(in)) {
        uint64_t left = in->size > in->pos ? in->size - in->pos : 0;
        if (n > left)
            return lm_fail(err, LM_EDATA, "ends at byte %llu: needs %llu more bytes",
                           (unsigned long long)in->size, (unsigned long long)(n - left));
        if (lseek(in->fd, (off_t)(in->pos + n), SEEK_SET) < 0)
            return lm_fail_errno(err, "cannot seek");
        in->from = in->to = 0;
        in->pos += n;
        return LM_OK;
    }
    while (n) {
        size_t k = n < sizeof waste ? (size_t)n : sizeof waste;
        int s = lm_in_read_all(in, waste, k, err);
        if (s < 0)
            return s;
        n -= k;
    }
    return LM_OK;
}

int lm_in_pread(struct lm_in *in, uint64_t off, void *dst, size_t n, struct lm_err *err)
{
    char *to = dst;
    if (!lm_in_seekable(in))
        return lm_fail(err, LM_EUSE, "cannot be read by ranges");
    while (n) {
        ssize_t k = pread(in->fd, to, n, (off_t)off);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return lm_fail_errno(err, "read error");
        if (k == 0)
            return lm_fail(err, LM_EDATA, "ends at byte %llu: needs %zu more bytes",
                           (unsigned long long)off, n);
        to += k;
        off += (uint64_t)k;
        n -= (size_t)k;
    }
    return LM_OK;
}

int lm_in_read_rest(struct lm_in *in, size_t limit, char **data, size_t *len, struct lm_err *err)
{
    char *buf = NULL;
    size_t cap = 0, n = 0, got;
    uint64_t size = lm_in_size(in);
    if (size != LM_SIZE_UNKNOWN && size > limit)
        return lm_fail(err, LM_EDATA, "has %llu bytes, more than the %zu that make sense",
                       (unsigned long long)size, limit);
    do {
        size_t need = n + CHUNK;
        if (size != LM_SIZE_UNKNOWN && size - n < CHUNK)
            need = (size_t)size + 1;          /* one more, to see the end */
        if (need + 1 > cap) {
            size_t bigger = need + 1 > cap * 2 ? need + 1 : cap * 2;
            char *p = realloc(buf, bigger);
            if (!p) {
                free(buf);
                return lm_fail_nomem(err);
            }
            lm_use_all(p, bigger);
            buf = p;
            cap = bigger;
        }
        int s = lm_in_read(in, buf + n, need - n, &got, err);
        if (s < 0) {
            free(buf);
            return s;
        }
        n += got;
        if (n > limit) {
            free(buf);
            return lm_fail(err, LM_EDATA, "has more than the %zu bytes that make sense", limit);
        }
        if (n < need)
            break;
        size = LM_SIZE_UNKNOWN;               /* it grew while being read */
    } while (got);
    buf[n] = 0;
    *data = buf;
    *len = n;
    return LM_OK;
}

int lm_read_file(const char *path, size_t limit, char **data, size_t *len, struct lm_err *err)
{
    struct lm_in *in = lm_in_open(path, 0, err);
    if (!in)
        return err ? err->code : LM_EIO;
    int s = lm_in_read_rest(in, limit, data, len, err);
    lm_in_close(in);
    return s;
}
