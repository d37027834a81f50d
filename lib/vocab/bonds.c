/* SPDX-License-Identifier: MIT */
/*
 * Where text can be cut before it is merged.  A merge joins what stands beside each other in
 * the piece it makes; between two characters that do so in no piece there never is a merge,
 * and what stands on either side can be worked on alone.  Words of this kind are short and
 * recur, whatever script the text is in.
 */
#include <stdlib.h>

#include "vocab/tokenizer.h"

#define WIDE_BITS 20                             /* pairs beyond ASCII: 128 KiB */

bool lm_bonds_init(struct lm_bonds *b)
{
    b->wide = calloc((size_t)1 << WIDE_BITS >> 6, sizeof *b->wide);
    return b->wide != NULL;
}

void lm_bonds_release(struct lm_bonds *b)
{
    free(b->wide);
    b->wide = NULL;
}

static uint32_t place(uint32_t a, uint32_t b)
{
    return (uint32_t)((a * 0x9E3779B97F4A7C15u ^ b) * 0xD6E8FEB86659FD93u >> (64 - WIDE_BITS));
}

/* Two that share a place stand for each other: a cut is missed, none is wrong. */
static bool bound(const struct lm_bonds *b, uint32_t left, uint32_t right)
{
    if ((left | right) < 128)
        return b->ascii[left][right >> 6] >> (right & 63) & 1;
    uint32_t i = place(left, right);
    return b->wide[i >> 6] >> (i & 63) & 1;
}

static void bind(struct lm_bonds *b, uint32_t left, uint32_t right)
{
    uint32_t i = place(left, right);
    if ((left | right) < 128)
        b->ascii[left][right >> 6] |= (uint64_t)1 << (right & 63);
    else
        b->wide[i >> 6] |= (uint64_t)1 << (i & 63);
}

/* A space is the mark that pieces have in its place. */
static uint32_t next(const char *p, const char *end, int *k)
{
    uint32_t r = lm_uni_next(p, end, k);
    return r == LM_MARK ? ' ' : r;
}

void lm_bonds_add(struct lm_bonds *b, const char *p, size_t len)
{
    const char *end = p + len;
    int k;
    if (!len)
        return;
    for (uint32_t left = next(p, end, &k), right; (p += k) < end; left = right) {
        right = next(p, end, &k);
        bind(b, left, right);
    }
}

bool lm_bonds_by_lines(const struct lm_bonds *b)
{
    bool found = b->all;
    for (uint32_t c = 'A'; c <= 'z' && !found; c++)
        found = (c <= 'Z' || c >= 'a') && bound(b, '\n', c);
    return !found;
}

const char *lm_bonds_end(const struct lm_bonds *b, const char *p, const char *end, bool lead)
{
    int k = 0;
    if (b->all || p == end)
        return end;
    uint32_t left = lead ? ' ' : next(p, end, &k), right;
    for (p += k; p < end; left = right) {
        if ((right = (unsigned char)*p) < 128 && left < 128) {
            if (!(b->ascii[left][right >> 6] >> (right & 63) & 1))
                return p;
            p++;
            continue;
        }
        right = next(p, end, &k);
        if (!bound(b, left, right))
            return p;
        p += k;
    }
    return end;
}
