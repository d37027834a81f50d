/* SPDX-License-Identifier: MIT */
/*
 * tar: 512-byte headers, each followed by the member's bytes padded to 512
 * (POSIX.1-2008, pax, "ustar interchange format").  Offsets used here:
 *   0 name[100]  124 size[12]  148 checksum[8]  156 type  257 "ustar"  345 prefix[155]
 * A pax header (type x) gives path and size for the next member as records
 * "LENGTH KEY=VALUE\n"; GNU tar puts a long name in a member of type L.
 */

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "io/archive_index.h"

enum { BLOCK = 512, MAX_EXTRA = 1 << 20 };

/* What the headers before a member say about it. */
struct ahead {
    char    *path;
    size_t   path_len;
    uint64_t size;
    bool     has_size, sparse;
};

/* An octal number of at most n bytes, or GNU's binary one (top bit set). */
static bool number(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if (p[0] & 0x80) {
        for (i = 0; i < n; i++) {
            if (v >> 56)
                return false;
            v = v << 8 | (i ? p[i] : p[i] & 0x7fu);
        }
        *out = v;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    if (i < n && p[i] != ' ' && p[i] != 0)
        return false;
    *out = v;
    return true;
}

/* The checksum is the sum of all bytes, its own field counted as blanks. */
static bool is_header(const uint8_t *h)
{
    uint64_t want, sum = 0;
    if (!number(h + 148, 8, &want))
        return false;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? ' ' : h[i];
    return sum == want;
}

static bool is_zero(const uint8_t *h)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (h[i])
            return false;
    return true;
}

static int set_path(struct ahead *a, const char *p, size_t n, struct lm_err *err)
{
    char *copy = malloc(n + 1);
    if (!copy)
        return lm_fail_nomem(err);
    memcpy(copy, p, n);
    copy[n] = 0;
    free(a->path);
    a->path = copy;
    a->path_len = n;
    return LM_OK;
}

/* One pax record's key and value. */
static int pax_record(struct ahead *a, const char *key, size_t key_len, const char *val, size_t len,
                      struct lm_err *err)
{
    if (key_len == 4 && !memcmp(key, "path", 4))
        return set_path(a, val, len, err);
    if (key_len == 4 && !memcmp(key, "size", 4)) {
        uint64_t v = 0;
        for (size_t i = 0; i < len; i++) {
            if (val[i] < '0' || val[i] > '9' || !lm_mul_u64(v, 10, &v) ||
                !lm_add_u64(v, (uint64_t)(val[i] - '0'), &v))
                return lm_fail(err, LM_EDATA, "pax header: bad size");
        }
        a->size = v;
        a->has_size = true;
    }
    if (key_len >= 10 && !memcmp(key, "GNU.sparse", 10))
        a->sparse = true;
    return LM_OK;
}

static int pax_header(struct ahead *a, const char *p, size_t n, struct lm_err *err)
{
    while (n) {
        size_t len = 0, at = 0;
        while (at < n && at < 10 && p[at] >= '0' && p[at] <= '9')
            len = len * 10 + (size_t)(p[at++] - '0');
        const char *key = p + at + 1;
        if (at >= n || p[at] != ' ' || len <= at + 1 || len > n || p[len - 1] != '\n')
            return lm_fail(err, LM_EDATA, "pax header: bad record");
        const char *eq = memchr(key, '=', len - at - 1);
        if (!eq)
            return lm_fail(err, LM_EDATA, "pax header: bad record");
        int s = pax_record(a, key, (size_t)(eq - key), eq + 1, (size_t)(p + len - 1 - eq - 1), err);
        if (s)
            return s;
        p += len;
        n -= len;
    }
    return LM_OK;
}

/* Read a header's own data (a long name or pax records) into `a`. */
static int read_ahead(struct lm_in *in, char type, uint64_t off, uint64_t size, struct ahead *a,
                      struct lm_err *err)
{
    if (size > MAX_EXTRA)
        return lm_fail(err, LM_EDATA, "header of %llu bytes", (unsigned long long)size);
    char *p = malloc((size_t)size + 1);
    if (!p)
        return lm_fail_nomem(err);
    int s = lm_in_pread(in, off, p, (size_t)size, err);
    if (!s)
        s = type == 'L' ? set_path(a, p, strnlen(p, (size_t)size), err)
                        : pax_header(a, p, (size_t)size, err);
    free(p);
    return s;
}

static int add_member(struct lm_archive_index *x, const uint8_t *h, const struct ahead *a,
                      uint64_t size, uint64_t off, struct lm_err *err)
{
    const char type = (char)h[156];
    const bool link = type == '1' || type == '2';
    char name[257];
    if (a->path)
        return lm_archive_index_add(x, a->path, a->path_len, link ? 0 : size, off, link, err);
    size_t n = 0;
    if (!memcmp(h + 257, "ustar\0", 6) && h[345]) {
        n = strnlen((const char *)h + 345, 155);
        memcpy(name, h + 345, n);
        name[n++] = '/';
    }
    const size_t rest = strnlen((const char *)h, 100);
    memcpy(name + n, h, rest);
    return lm_archive_index_add(x, name, n + rest, link ? 0 : size, off, link, err);
}

/* The header block at off and what follows it; *next is where the one after
 * begins.  1 to go on, 0 for a member that cannot be read by ranges. */
static int one_header(struct lm_in *in, const uint8_t *h, uint64_t off, struct ahead *a,
                      struct lm_archive_index *x, uint64_t *next, struct lm_err *err)
{
    const char type = (char)h[156];
    const uint64_t data = off + BLOCK;
    uint64_t size, padded;
    int s = LM_OK;
    if (!number(h + 124, 12, &size))
        return lm_fail(err, LM_EDATA, "bad member size at byte %llu", (unsigned long long)off);
    const bool extra = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (!extra && a->has_size)
        size = a->size;
    if (type == '1' || type == '2')
        size = 0;
    if (!lm_align_u64(size, BLOCK, &padded) || !lm_add_u64(data, padded, next) ||
        data + size > lm_in_size(in))
        return lm_fail(err, LM_EDATA, "ends at byte %llu: the member at byte %llu needs %llu more",
                       (unsigned long long)lm_in_size(in), (unsigned long long)off,
                       (unsigned long long)(data + size - lm_in_size(in)));
    if (type == 'L' || type == 'x')
        s = read_ahead(in, type, data, size, a, err);
    if (extra)
        return s ? s : 1;
    if (type == 'S' || a->sparse)
        return 0;
    if (type == '0' || type == 0 || type == '7' || type == '1' || type == '2')
        s = add_member(x, h, a, size, data, err);
    free(a->path);
    *a = (struct ahead){0};
    return s ? s : 1;
}

int lm_tar_index(struct lm_in *in, struct lm_archive_index *x, struct lm_err *err)
{
    uint8_t h[BLOCK];
    struct ahead a = {0};
    uint64_t off = 0;
    int s = 1;
    while (s == 1) {
        if (off + BLOCK > lm_in_size(in)) {
            if (!off)
                return 0;
            /* Without the two zero blocks at the end a tar may have been cut. */
            s = lm_fail(err, LM_EDATA, "ends at byte %llu without the end of the archive",
                        (unsigned long long)lm_in_size(in));
            break;
        }
        s = lm_in_pread(in, off, h, BLOCK, err);
        if (s)
            break;
        s = 1;
        if (off && is_zero(h))
            break;
        if (!is_header(h)) {
            if (!off)
                return 0;
            s = lm_fail(err, LM_EDATA, "byte %llu: no tar header", (unsigned long long)off);
            break;
        }
        s = one_header(in, h, off, &a, x, &off, err);
    }
    free(a.path);
    return s;
}
