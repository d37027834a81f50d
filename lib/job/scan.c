/* SPDX-License-Identifier: MIT */
#include "job/scan.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20)
#define HEAD  64                 /* bytes that decide */

static uint64_t number(const uint8_t *p, size_t n, bool big)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[big ? n - 1 - i : i] << 8 * i;
    return v;
}

/* Is p [n], n at least 4, the beginning of a GGUF?  Fills all of *h but the offset. */
static bool begins(const uint8_t *p, size_t n, struct lm_scan_hit *h)
{
    if (n < 24 || memcmp(p, "GGUF", 4))
        return false;
    h->big_endian = p[4] == 0 && p[5] == 0;
    h->version = (uint32_t)number(p + 4, 4, h->big_endian);
    if (h->version < 1 || h->version > 3)
        return false;
    size_t size = h->version == 1 ? 4 : 8, at = 8 + 2 * size;
    h->n_tensors = number(p + 8, size, h->big_endian);
    h->n_kv = number(p + 8 + size, size, h->big_endian);
    if (h->n_tensors >> 32 || h->n_kv >> 32)
        return false;
    if (!h->n_tensors && !h->n_kv)
        return true;
    if (n < at + size + 1)
        return false;
    uint64_t len = number(p + at, size, h->big_endian);
    if (len < 1 || len > 65535)
        return false;
    for (size_t i = at + size; i < n && i < at + size + len; i++)
        if (p[i] < 0x20 || p[i] == 0x7f)
            return false;
    return true;
}

/* Look at starts 0 .. end-1 of the n bytes at p, which lie at `base` in the input. */
static uint64_t look(const uint8_t *p, size_t end, size_t n, uint64_t base,
                     void (*hit)(void *arg, const struct lm_scan_hit *h), void *arg)
{
    uint64_t found = 0;
    for (const uint8_t *q = p; q < p + end; q++) {
        struct lm_scan_hit h;
        q = memchr(q, 'G', (size_t)(p + end - q));
        if (!q)
            break;
        size_t left = (size_t)(p + n - q);
        if (left < 4 || !begins(q, left < HEAD ? left : HEAD, &h))
            continue;
        h.offset = base + (uint64_t)(q - p);
        hit(arg, &h);
        found++;
    }
    return found;
}

int lm_scan(struct lm_in *in, void (*hit)(void *arg, const struct lm_scan_hit *h), void *arg,
            uint64_t *n, const struct lm_env *env, struct lm_err *err)
{
    uint8_t *buf = malloc(CHUNK + HEAD);
    size_t have = 0, got = CHUNK;
    int r = LM_OK;
    uint64_t size = lm_in_size(in);
    *n = 0;
    if (!buf)
        return lm_fail_nomem(err);
    while (r == LM_OK && got == CHUNK) {
        uint64_t base = lm_in_pos(in) - have;
        r = lm_in_read(in, buf + have, CHUNK, &got, err);
        have += got;
        if (r != LM_OK)
            break;
        bool last = got < CHUNK;
        size_t end = last ? have : have - HEAD;
        *n += look(buf, end, have, base, hit, arg);
        memmove(buf, buf + end, have - end);
        have -= end;
        lm_progress(env, "reading", lm_in_pos(in), size == LM_SIZE_UNKNOWN ? 0 : size);
        if (lm_stopped(env))
            r = lm_fail(err, LM_ESTOP, "stopped");
    }
    free(buf);
    return r;
}
