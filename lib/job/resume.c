/* SPDX-License-Identifier: MIT */
#include "job/resume.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/size.h"

enum { BLOCK = 1 << 18, SUM = 16 };     /* SUM: hexadecimal digits */

struct lm_resume {
    struct lm_out  *out;
    char           *path;
    FILE           *list;               /* open for writing once the old lines are used up */
    char           *old;                /* lines of the last run                           */
    size_t          at;                 /* of the next line                                */
    struct lm_xxh64 sum;
    uint8_t        *block;              /* [BLOCK]                                         */
};

/* The list, which nothing but a regular file can be; NULL with errno. */
static FILE *open_list(const char *path, int flags, const char *mode)
{
    struct stat st;
    const int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    FILE *f = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        errno = EINVAL;
    else if (fd >= 0)
        f = fdopen(fd, mode);
    if (fd >= 0 && !f) {
        const int saved = errno;
        close(fd);
        errno = saved;
    }
    return f;
}

/* The old list; a missing one is empty. */
static int read_list(struct lm_resume *r, struct lm_err *err)
{
    struct lm_buf b = {0};
    FILE *f = open_list(r->path, O_RDONLY, "r");
    size_t n = 0;
    if (!f && errno != ENOENT)
        return lm_fail_errno(err, "cannot read %s", r->path);
    while (f && !b.failed && (n = fread(r->block, 1, BLOCK, f)))
        lm_buf_add(&b, r->block, n);
    const bool failed = f && ferror(f);
    if (f)
        fclose(f);
    lm_buf_byte(&b, 0);
    r->old = b.data;
    if (failed)
        return lm_fail_errno(err, "cannot read %s", r->path);
    return b.failed ? lm_fail_nomem(err) : LM_OK;
}

struct lm_resume *lm_resume_open(struct lm_out *out, struct lm_err *err)
{
    static const char end[] = ".sums";
    const char *part = lm_out_kept_part(out);
    struct lm_resume *r = calloc(1, sizeof *r);
    if (r) {
        r->out = out;
        r->path = malloc(strlen(part) + sizeof end);
        r->block = malloc(BLOCK);
        lm_xxh64_init(&r->sum);
    }
    if (!r || !r->path || !r->block) {
        lm_fail_nomem(err);
        lm_resume_close(r, false);
        return NULL;
    }
    strcat(strcpy(r->path, part), end);
    if (read_list(r, err)) {
        lm_resume_close(r, false);
        return NULL;
    }
    return r;
}

/* Does the next line name the tensor?  *sum is what it says. */
static bool next_line(const struct lm_resume *r, const char *name, uint64_t *sum, size_t *len)
{
    const char *line = r->old + r->at, *end = strchr(line, '\n');
    char hex[SUM + 1], *stop;
    if (!end || (size_t)(end - line) != SUM + 2 + strlen(name) || memcmp(line + SUM, "  ", 2) ||
        memcmp(line + SUM + 2, name, strlen(name)))
        return false;
    memcpy(hex, line, SUM);
    hex[SUM] = 0;
    *sum = strtoull(hex, &stop, 16);
    *len = (size_t)(end - line) + 1;
    return !*stop;
}

static int hash_left(struct lm_resume *r, uint64_t n, uint64_t *sum, struct lm_err *err)
{
    struct lm_xxh64 x;
    lm_xxh64_init(&x);
    for (uint64_t at = 0; at < n; at += BLOCK) {
        const size_t k = n - at < BLOCK ? (size_t)(n - at) : BLOCK;
        const int s = lm_out_read_left(r->out, at, r->block, k, err);
        if (s)
            return s;
        lm_xxh64_add(&x, r->block, k);
    }
    *sum = lm_xxh64_digest(&x);
    return LM_OK;
}

/* Keep the lines that were right, and add to them from here on. */
static int start_list(struct lm_resume *r, struct lm_err *err)
{
    r->list = open_list(r->path, O_WRONLY | O_CREAT | O_TRUNC, "w");
    if (!r->list || fwrite(r->old, 1, r->at, r->list) != r->at || fflush(r->list))
        return lm_fail_errno(err, "cannot write %s", r->path);
    return lm_out_cut(r->out, err);
}

int lm_resume_skip(struct lm_resume *r, const char *name, uint64_t bytes, uint64_t padding,
                   struct lm_err *err)
{
    uint64_t want, sum, all;
    size_t len;
    if (r->list)
        return 0;
    if (!lm_add_u64(bytes, padding, &all) || lm_out_left(r->out) < all ||
        !next_line(r, name, &want, &len))
        return start_list(r, err);
    int s = hash_left(r, bytes, &sum, err);
    if (s)
        return s;
    if (sum != want)
        return start_list(r, err);
    r->at += len;
    s = lm_out_skip(r->out, all, err);
    return s ? s : 1;
}

void lm_resume_bytes(struct lm_resume *r, const void *p, size_t n)
{
    lm_xxh64_add(&r->sum, p, n);
}

int lm_resume_whole(struct lm_resume *r, const char *name, struct lm_err *err)
{
    char hex[SUM + 3];
    int s = r->list ? LM_OK : start_list(r, err);
    if (!s)
        s = lm_out_flush(r->out, err);
    snprintf(hex, sizeof hex, "%016" PRIx64 "  ", lm_xxh64_digest(&r->sum));
    if (!s && (fwrite(hex, 1, SUM + 2, r->list) != SUM + 2 ||
               fwrite(name, 1, strlen(name), r->list) != strlen(name) ||
               fwrite("\n", 1, 1, r->list) != 1 || fflush(r->list)))
        s = lm_fail_errno(err, "cannot write %s", r->path);
    lm_xxh64_init(&r->sum);
    return s;
}

void lm_resume_close(struct lm_resume *r, bool done)
{
    if (!r)
        return;
    if (r->list)
        fclose(r->list);
    if (done)
        unlink(r->path);
    free(r->path);
    free(r->old);
    free(r->block);
    free(r);
}
