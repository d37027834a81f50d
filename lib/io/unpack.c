/* SPDX-License-Identifier: MIT */
/* Decompression of archives: gzip with zlib, the rest with libarchive's filters. */

#include "io/unpack.h"

#ifdef LM_HAVE_ARCHIVE

#include <archive.h>
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum { CHUNK = 1 << 18, GZIP_ONLY = 15 + 16 };

struct lm_unpack {
    struct lm_in   *in;
    uint64_t        pos;             /* of a seekable file's next read                   */
    uint8_t        *chunk;           /* [CHUNK] of the file                              */
    struct lm_err   in_err;          /* what a read failed with, behind libarchive       */
    struct archive *la;              /* NULL for gzip                                    */
    bool            ended;
    /* gzip */
    z_stream        z;
    uint8_t        *plain;           /* [CHUNK]                                          */
    bool            inside;          /* a member has begun and not ended                 */
};

static int read_chunk(struct lm_unpack *u, size_t *got, struct lm_err *err)
{
    int r;
    *got = CHUNK;
    if (lm_in_seekable(u->in)) {
        if (*got > lm_in_size(u->in) - u->pos)
            *got = (size_t)(lm_in_size(u->in) - u->pos);
        r = lm_in_pread(u->in, u->pos, u->chunk, *got, err);
    } else
        r = lm_in_read_some(u->in, u->chunk, CHUNK, got, err);
    u->pos += r ? 0 : *got;
    return r;
}

static la_ssize_t on_read(struct archive *la, void *arg, const void **out)
{
    struct lm_unpack *u = arg;
    size_t got;
    if (read_chunk(u, &got, &u->in_err)) {
        archive_set_error(la, EIO, "%s", u->in_err.text);
        return -1;
    }
    *out = u->chunk;
    return (la_ssize_t)got;
}

static int la_fail(struct lm_unpack *u, struct lm_err *err)
{
    if (u->in_err.code)
        return lm_fail(err, u->in_err.code, "%s", u->in_err.text);
    const char *why = archive_error_string(u->la);
    return lm_fail(err, LM_EDATA, "archive: %s", why ? why : "damaged");
}

static int open_filters(struct lm_unpack *u, struct lm_err *err)
{
    struct archive_entry *e;
    struct archive *la = u->la = archive_read_new();
    if (!la)
        return lm_fail_nomem(err);
    archive_read_support_filter_bzip2(la);
    archive_read_support_filter_compress(la);
    archive_read_support_filter_lz4(la);
    archive_read_support_filter_lzip(la);
    archive_read_support_filter_lzma(la);
    archive_read_support_filter_lzop(la);
    archive_read_support_filter_rpm(la);
    archive_read_support_filter_uu(la);
    archive_read_support_filter_xz(la);
    archive_read_support_filter_zstd(la);
    archive_read_support_format_raw(la);
    archive_read_support_format_empty(la);
    archive_read_set_read_callback(la, on_read);
    archive_read_set_callback_data(la, u);
    if (archive_read_open1(la) < ARCHIVE_WARN)
        return la_fail(u, err);
    const int s = archive_read_next_header(la, &e);
    u->ended = s == ARCHIVE_EOF;
    return s < ARCHIVE_WARN ? la_fail(u, err) : LM_OK;
}

static int open_gzip(struct lm_unpack *u, struct lm_err *err)
{
    u->plain = malloc(CHUNK);
    u->inside = true;
    return u->plain && inflateInit2(&u->z, GZIP_ONLY) == Z_OK ? LM_OK : lm_fail_nomem(err);
}

static bool is_gzip(struct lm_in *in)
{
    uint8_t magic[2] = {0};
    size_t got = 0;
    if (!lm_in_seekable(in))
        return !lm_in_peek(in, magic, 2, &got, NULL) && got == 2 && magic[0] == 0x1f &&
               magic[1] == 0x8b;
    return lm_in_size(in) > 2 && !lm_in_pread(in, 0, magic, 2, NULL) && magic[0] == 0x1f &&
           magic[1] == 0x8b;
}

struct lm_unpack *lm_unpack_open(struct lm_in *in, struct lm_err *err)
{
    struct lm_unpack *u = calloc(1, sizeof *u);
    int r = u && (u->chunk = malloc(CHUNK)) ? LM_OK : lm_fail_nomem(err);
    if (!r) {
        u->in = in;
        r = is_gzip(in) ? open_gzip(u, err) : open_filters(u, err);
    }
    if (!r)
        return u;
    lm_unpack_close(u);
    return NULL;
}

void lm_unpack_close(struct lm_unpack *u)
{
    if (!u)
        return;
    if (u->la)
        archive_read_free(u->la);
    if (u->plain)
        inflateEnd(&u->z);
    free(u->plain);
    free(u->chunk);
    free(u);
}

bool lm_unpack_plain(const struct lm_unpack *u)
{
    return u->la && archive_filter_count(u->la) <= 1;
}

/* Between two members: what may follow is another or zeros. */
static int next_member(struct lm_unpack *u, struct lm_err *err)
{
    while (u->z.avail_in && !*u->z.next_in) {
        u->z.next_in++;
        u->z.avail_in--;
    }
    if (!u->z.avail_in)
        return LM_OK;
    if (*u->z.next_in != 0x1f)
        return lm_fail(err, LM_EDATA, "gzip: other bytes follow its end");
    u->inside = true;
    inflateReset(&u->z);
    return LM_OK;
}

static int gunzip(struct lm_unpack *u, size_t *n, struct lm_err *err)
{
    u->z.next_out = u->plain;
    u->z.avail_out = CHUNK;
    while (!u->ended && u->z.avail_out == CHUNK) {
        if (!u->z.avail_in) {
            size_t got;
            int r = read_chunk(u, &got, err);
            if (r || (!got && u->inside))
                return r ? r : lm_fail(err, LM_EDATA, "gzip: ends too early");
            u->z.next_in = u->chunk;
            u->z.avail_in = (uInt)got;
            u->ended = !got;
            continue;
        }
        if (!u->inside) {
            int r = next_member(u, err);
            if (r)
                return r;
            continue;
        }
        const int s = inflate(&u->z, Z_NO_FLUSH);
        if (s == Z_STREAM_END)
            u->inside = false;
        else if (s == Z_MEM_ERROR)
            return lm_fail_nomem(err);
        else if (s != Z_OK && s != Z_BUF_ERROR)
            return lm_fail(err, LM_EDATA, "gzip: damaged: %s", u->z.msg ? u->z.msg : "no reason");
    }
    *n = CHUNK - u->z.avail_out;
    return LM_OK;
}

int lm_unpack_next(struct lm_unpack *u, const void **p, size_t *n, struct lm_err *err)
{
    la_int64_t offset;
    *p = u->plain;
    *n = 0;
    if (u->ended)
        return LM_OK;
    if (!u->la)
        return gunzip(u, n, err);
    while (!*n && !u->ended) {
        const int s = archive_read_data_block(u->la, p, n, &offset);
        if (s < ARCHIVE_OK && s != ARCHIVE_EOF)
            return la_fail(u, err);
        u->ended = s == ARCHIVE_EOF;
    }
    return LM_OK;
}

#else

struct lm_unpack *lm_unpack_open(struct lm_in *in, struct lm_err *err)
{
    (void)in;
    lm_fail(err, LM_ENOSUP, "this build has no libarchive: only uncompressed tar and zip files "
            "can be read");
    return NULL;
}

void lm_unpack_close(struct lm_unpack *u)
{
    (void)u;
}

bool lm_unpack_plain(const struct lm_unpack *u)
{
    (void)u;
    return true;
}

int lm_unpack_next(struct lm_unpack *u, const void **p, size_t *n, struct lm_err *err)
{
    (void)u, (void)p;
    *n = 0;
    return lm_fail(err, LM_ENOSUP, "this build has no libarchive");
}

#endif
