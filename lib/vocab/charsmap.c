/* SPDX-License-Identifier: MIT */
#include "vocab/charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum { MAX_CLUSTER = 6 };                        /* bytes: from there on by characters */

static uint32_t u32_at(const unsigned char *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 512) >> 6);
}

/* Follow p[0 .. n); *to is what the longest, or the shortest, string there becomes.  Returns
 * the length of that string.  A NUL ends every string.  *open, if not NULL, is set if more text
 * behind it might make a difference. */
static size_t walk(const struct lm_charsmap *m, const char *p, size_t n, bool longest,
                   struct lm_str *to, bool *open)
{
    size_t best = 0, i;
    if (!m->n)
        return 0;
    uint32_t node = offset_of(m->unit[0]);
    for (i = 0; i < n && p[i]; i++) {
        unsigned char c = (unsigned char)p[i];
        node ^= c;
        if (node >= m->n || (m->unit[node] & 0x800000FFu) != c)
            break;
        bool leaf = m->unit[node] >> 8 & 1;
        node ^= offset_of(m->unit[node]);
        if (!leaf || node >= m->n)
            continue;
        uint32_t at = m->unit[node] & 0x7FFFFFFFu;
        if (at >= m->text_len)
            continue;
        *to = (struct lm_str){ m->text + at, strlen(m->text + at) };
        best = i + 1;
        if (!longest)
            break;
    }
    if (open && i == n)
        *open = true;
    return best;
}

int lm_charsmap_init(struct lm_charsmap *m, const void *blob, size_t len, struct lm_err *err)
{
    const unsigned char *b = blob;
    *m = (struct lm_charsmap){ 0 };
    uint32_t size = len >= 4 ? u32_at(b) : 0;
    if (len < 8 || size % 4 || !size || size > len - 4)
        return lm_fail(err, LM_EDATA, "precompiled_charsmap: %zu bytes that are no map", len);
    m->n = size / 4;
    m->text_len = len - 4 - size;
    m->unit = lm_malloc_array(m->n, sizeof *m->unit);
    m->text = malloc(m->text_len + 1);
    if (!m->unit || !m->text) {
        lm_charsmap_release(m);
        return lm_fail_nomem(err);
    }
    for (size_t i = 0; i < m->n; i++)
        m->unit[i] = u32_at(b + 4 + 4 * i);
    memcpy(m->text, b + 4 + size, m->text_len);
    m->text[m->text_len] = 0;
    for (int c = 0; c < 128; c++) {
        struct lm_str to;
        char s = (char)c;
        m->plain[c] = c != '\r' && (!walk(m, &s, 1, false, &to, NULL) ||
                                    (to.len == 1 && *to.p == c));
    }
    return LM_OK;
}

double lm_charsmap_growth(const struct lm_charsmap *m)
{
    enum { LONG = 1 << 16 };                     /* more than anybody wants: as it is */
    size_t longest = 0;
    for (size_t at = 0, n; at < m->text_len; at += n + 1) {
        n = strlen(m->text + at);
        longest = n > longest ? n : longest;
    }
    if (longest > LONG)
        return (double)longest;
    double most = (double)longest / 3;           /* of strings of three bytes and more */
    for (unsigned i = 0; i < 1 << 16; i++) {
        const char p[2] = { (char)(i >> 8), (char)i };
        struct lm_str to;
        size_t n = walk(m, p, 2, false, &to, NULL);
        if (n && (double)to.len > most * (double)n)
            most = (double)to.len / (double)n;
    }
    return most > 1 ? most : 1;
}

void lm_charsmap_release(struct lm_charsmap *m)
{
    free(m->unit);
    free(m->text);
    *m = (struct lm_charsmap){ 0 };
}

size_t lm_charsmap_longest(const struct lm_charsmap *m, const char *p, const char *end,
                           struct lm_str *to, bool *open)
{
    return walk(m, p, (size_t)(end - p), true, to, open);
}

static bool replace(const char *begin, const char *p, size_t len, struct lm_str to,
                    struct lm_buf *out, struct lm_remap *map)
{
    size_t at = out->len, from = (size_t)(p - begin);
    lm_buf_add(out, to.p, to.len);
    return !map || (lm_remap_add(map, at, from) && lm_remap_add(map, out->len, from + len));
}

/* The cluster p[0 .. len). */
static bool put_cluster(const struct lm_charsmap *m, const char *begin, const char *p, size_t len,
                        struct lm_buf *out, struct lm_remap *map)
{
    struct lm_str to;
    if (len < MAX_CLUSTER && walk(m, p, len, false, &to, NULL))
        return replace(begin, p, len, to, out, map);
    for (const char *end = p + len; p < end;) {
        int k;
        lm_uni_next(p, end, &k);
        if (!walk(m, p, (size_t)k, false, &to, NULL))
            lm_buf_add(out, p, (size_t)k);
        else if (!replace(begin, p, (size_t)k, to, out, map))
            return false;
        p += k;
    }
    return true;
}

/* ASCII that stays, each a cluster of its own: what follows it is ASCII as well. */
static const char *plain_run(const struct lm_charsmap *m, const char *p, const char *end)
{
    while (end - p >= 2 && (unsigned char)p[0] < 128 && (unsigned char)p[1] < 128 &&
           m->plain[(unsigned char)p[0]])
        p++;
    return p;
}

int lm_charsmap_part(const struct lm_charsmap *m, const char *p, size_t len, bool more,
                     size_t *done, struct lm_buf *out, struct lm_remap *map, struct lm_err *err)
{
    const char *begin = p, *end = p + (more ? lm_whole_chars(p, len) : len);
    bool ok = true;
    while (ok && p < end) {
        const char *q = plain_run(m, p, end);
        lm_buf_add(out, p, (size_t)(q - p));
        p = q;
        if (q == end || ((q = lm_uni_cluster(p, end)) == end && more))
            break;
        ok = put_cluster(m, begin, p, (size_t)(q - p), out, map);
        p = q;
    }
    *done = (size_t)(p - begin);
    return ok && !out->failed ? LM_OK : lm_fail_nomem(err);
}

int lm_charsmap_apply(const struct lm_charsmap *m, const char *p, size_t len,
                      struct lm_buf *out, struct lm_remap *map, struct lm_err *err)
{
    size_t done;
    return lm_charsmap_part(m, p, len, false, &done, out, map, err);
}
