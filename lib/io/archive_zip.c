/* SPDX-License-Identifier: MIT */
/*
 * zip (PKWARE APPNOTE 6.3): the end record, found from the end of the file,
 * says where the central directory is; its entries say where each member's
 * local header is, and the member's bytes follow that.  All little-endian.
 *   end record     06054b50  10 entries u16  12 size u32  16 offset u32  20 comment
 *   zip64 locator  07064b50   8 offset u64 of the zip64 end record, before the end record
 *   zip64 end      06064b50  32 entries u64  40 size u64  48 offset u64
 *   entry          02014b50   8 flags  10 method  16 CRC-32  20 packed u32  24 size u32  28 name
 *                            30 extra  32 comment  38 attributes u32  42 offset u32
 *   local header   04034b50  26 name u16  28 extra u16
 */

#include <stdlib.h>
#include <string.h>

#include "io/archive_index.h"

enum { END_SIZE = 22, MAX_COMMENT = 65535, MAX_DIRECTORY = 1 << 28 };

static uint64_t le(const uint8_t *p, int n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

struct directory {
    uint64_t entries, size, offset;
};

/* The zip64 end record replaces the end record's numbers. */
static int read_zip64(const struct lm_zip_bytes *in, uint64_t end, struct directory *d,
                      struct lm_err *err)
{
    uint8_t loc[20], rec[56];
    if (end < sizeof loc || in->pread(in->user, end - sizeof loc, loc, sizeof loc, err))
        return LM_OK;
    if (le(loc, 4) != 0x07064b50)
        return LM_OK;
    const uint64_t at = le(loc + 8, 8);
    if (in->size < sizeof rec || at > in->size - sizeof rec)
        return lm_fail(err, LM_EDATA, "zip: 64-bit end record beyond the end of the file");
    int s = in->pread(in->user, at, rec, sizeof rec, err);
    if (s)
        return s;
    if (le(rec, 4) != 0x06064b50)
        return lm_fail(err, LM_EDATA, "zip: no 64-bit end record at byte %llu",
                       (unsigned long long)at);
    *d = (struct directory){ le(rec + 32, 8), le(rec + 40, 8), le(rec + 48, 8) };
    return LM_OK;
}

/* 1 found, 0 no zip, or a code. */
static int find_directory(const struct lm_zip_bytes *in, struct directory *d, struct lm_err *err)
{
    const uint64_t size = in->size;
    if (size < END_SIZE)
        return 0;
    const size_t n = size < END_SIZE + MAX_COMMENT ? (size_t)size : END_SIZE + MAX_COMMENT;
    uint8_t *tail = malloc(n);
    if (!tail)
        return lm_fail_nomem(err);
    int s = in->pread(in->user, size - n, tail, n, err);
    size_t i = n - END_SIZE;
    while (!s && (le(tail + i, 4) != 0x06054b50 || i + END_SIZE + le(tail + i + 20, 2) != n))
        if (i-- == 0)
            break;
    const bool found = !s && i < n;
    if (found)
        *d = (struct directory){ le(tail + i + 10, 2), le(tail + i + 12, 4), le(tail + i + 16, 4) };
    free(tail);
    if (!found)
        return s;
    s = read_zip64(in, size - n + i, d, err);
    if (s)
        return s;
    if (d->offset > size || d->size > size - d->offset || d->size > MAX_DIRECTORY)
        return lm_fail(err, LM_EDATA, "zip: its directory lies beyond the end of the file");
    return 1;
}

/* The extra field 1 holds, in this order, those of size, packed size and offset
 * that are all ones in the entry. */
static bool wide_fields(const uint8_t *extra, size_t n, uint64_t *size, uint64_t *packed,
                        uint64_t *offset)
{
    uint64_t *const want[] = { size, packed, offset };
    while (n >= 4) {
        const size_t len = (size_t)le(extra + 2, 2);
        if (len > n - 4)
            return false;
        if (le(extra, 2) == 1) {
            size_t at = 0;
            for (int i = 0; i < 3; i++)
                if (*want[i] == UINT32_MAX) {
                    if (at + 8 > len)
                        return false;
                    *want[i] = le(extra + 4 + at, 8);
                    at += 8;
                }
            return true;
        }
        extra += 4 + len;
        n -= 4 + len;
    }
    return *size != UINT32_MAX && *packed != UINT32_MAX && *offset != UINT32_MAX;
}

/* Where the bytes of the member begin whose local header is at `local`. */
static int data_offset(const struct lm_zip_bytes *in, uint64_t local, uint64_t size, uint64_t *off,
                       struct lm_err *err)
{
    uint8_t h[30];
    const uint64_t end = in->size;
    if (end < sizeof h || local > end - sizeof h)
        return lm_fail(err, LM_EDATA, "zip: a member lies beyond the end of the file");
    int s = in->pread(in->user, local, h, sizeof h, err);
    if (s)
        return s;
    if (le(h, 4) != 0x04034b50)
        return lm_fail(err, LM_EDATA, "zip: no member at byte %llu", (unsigned long long)local);
    *off = local + sizeof h + le(h + 26, 2) + le(h + 28, 2);
    if (*off > end || size > end - *off)
        return lm_fail(err, LM_EDATA, "zip: the member at byte %llu ends beyond the file",
                       (unsigned long long)local);
    return LM_OK;
}

/* One entry of e bytes at most; *used is its length.  1, 0 (not by ranges), code. */
static int one_entry(const struct lm_zip_bytes *in, const uint8_t *e, size_t left,
                     struct lm_archive_index *x, size_t *used, struct lm_err *err)
{
    if (left < 46 || le(e, 4) != 0x02014b50)
        return lm_fail(err, LM_EDATA, "zip: damaged directory");
    const size_t name = (size_t)le(e + 28, 2), extra = (size_t)le(e + 30, 2);
    *used = 46 + name + extra + (size_t)le(e + 32, 2);
    if (*used > left)
        return lm_fail(err, LM_EDATA, "zip: damaged directory");
    const uint64_t flags = le(e + 8, 2), method = le(e + 10, 2);
    uint64_t packed = le(e + 20, 4), size = le(e + 24, 4), local = le(e + 42, 4), off = 0;
    if (!wide_fields(e + 46 + name, extra, &size, &packed, &local))
        return lm_fail(err, LM_EDATA, "zip: damaged directory");
    if (name && e[46 + name - 1] == '/')
        return 1;
    if (flags & 1 || method != 0 || packed != size)
        return 0;
    /* Made on Unix (upper half of byte 4): a symbolic link has its target as bytes. */
    const bool link = e[5] == 3 && (le(e + 38, 4) >> 16 & 0170000) == 0120000;
    int s = data_offset(in, local, size, &off, err);
    if (!s)
        s = lm_archive_index_add(x, (const char *)e + 46, name, link ? 0 : size, off, link, err);
    if (s)
        return s;
    x->members[x->n - 1].has_sum = !link;
    x->members[x->n - 1].sum = (uint32_t)le(e + 16, 4);
    return 1;
}

int lm_zip_members(const struct lm_zip_bytes *in, struct lm_archive_index *x, struct lm_err *err)
{
    uint8_t magic[4];
    struct directory d = {0};
    if (in->size < END_SIZE || in->pread(in->user, 0, magic, 4, err) ||
        memcmp(magic, "PK", 2))
        return 0;
    int s = find_directory(in, &d, err);
    if (s != 1)
        return s;
    uint8_t *dir = malloc((size_t)d.size + 1);
    if (!dir)
        return lm_fail_nomem(err);
    s = in->pread(in->user, d.offset, dir, (size_t)d.size, err);
    size_t at = 0, used = 0;
    s = s ? s : 1;
    for (uint64_t i = 0; s == 1 && i < d.entries; i++, at += used)
        s = one_entry(in, dir + at, (size_t)d.size - at, x, &used, err);
    free(dir);
    return s;
}

static int pread_in(void *user, uint64_t off, void *dst, size_t n, struct lm_err *err)
{
    return lm_in_pread(user, off, dst, n, err);
}

int lm_zip_index(struct lm_in *in, struct lm_archive_index *x, struct lm_err *err)
{
    const struct lm_zip_bytes bytes = { lm_in_size(in), pread_in, in };
    return lm_zip_members(&bytes, x, err);
}
