/* SPDX-License-Identifier: MIT */
/* The sums of members that are read by ranges: those of stretches grow together to the whole. */

#include "hf/source_parts.h"

#ifdef LM_HAVE_ARCHIVE

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/size.h"

enum { REST = 1 << 20 };

/* A stretch of a member that was read: all of them are in order, and no two of them touch. */
struct lm_hf_stretch {
    uint64_t from, to;
    uint32_t sum;
};

/* The first stretch that ends at off or behind it. */
static size_t first_from(const struct lm_hf_file *f, uint64_t off)
{
    size_t low = 0, high = f->n_stretches;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (f->stretches[mid].to < off)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void join(struct lm_hf_stretch *a, const struct lm_hf_stretch *b)
{
    a->sum = (uint32_t)crc32_combine(a->sum, b->sum, (z_off_t)(b->to - b->from));
    a->to = b->to;
}

/* Stretch i + 1 becomes part of stretch i if they touch. */
static void close_gap(struct lm_hf_file *f, size_t i)
{
    struct lm_hf_stretch *s = f->stretches + i;
    if (i + 1 == f->n_stretches || s[0].to != s[1].from)
        return;
    join(&s[0], &s[1]);
    memmove(s + 1, s + 2, (f->n_stretches - i - 2) * sizeof *s);
    f->n_stretches--;
}

/* Does the whole member have the sum that the archive says?  True of a part of it. */
static int compare(const struct lm_hf_file *f, struct lm_err *err)
{
    const struct lm_hf_stretch *s = f->stretches;
    if (!f->n_stretches || s->from || s->to < f->size || s->sum == f->sum)
        return LM_OK;
    return lm_fail(err, LM_EDATA, "is damaged: its CRC-32 is %08x, and the archive says %08x",
                   s->sum, f->sum);
}

int lm_hf_sum(struct lm_hf_file *f, uint64_t off, const void *p, size_t n, struct lm_err *err)
{
    if (!f->has_sum || !n)
        return LM_OK;
    const struct lm_hf_stretch new = { off, off + n, 0 };
    size_t i = first_from(f, off);
    const bool after = i < f->n_stretches && f->stretches[i].to == off;
    const size_t next = i + after;
    if (next < f->n_stretches && f->stretches[next].from < new.to)
        return LM_OK;                   /* read before, at least in part: what is left, at last */
    if (after) {
        f->stretches[i].sum = (uint32_t)crc32_z(f->stretches[i].sum, p, n);
        f->stretches[i].to = new.to;
    } else {
        if (!lm_grow(&f->stretches, &f->stretches_cap, f->n_stretches + 1, sizeof new))
            return lm_fail_nomem(err);
        memmove(f->stretches + i + 1, f->stretches + i,
                (f->n_stretches - i) * sizeof *f->stretches);
        f->stretches[i] = new;
        f->stretches[i].sum = (uint32_t)crc32_z(0, p, n);
        f->n_stretches++;
    }
    close_gap(f, i);
    return compare(f, err);
}

/* Read what nobody has. */
static int read_rest(struct lm_hf_source *s, size_t i, char *buf, struct lm_err *err)
{
    struct lm_hf_file *f = &s->files[i];
    int r = LM_OK;
    while (!r) {
        const struct lm_hf_stretch *got = f->stretches;
        const uint64_t off = f->n_stretches && !got->from ? got->to : 0;
        const size_t next = off ? 1 : 0;
        const uint64_t end = next < f->n_stretches ? got[next].from : f->size;
        if (off == f->size)
            break;
        if (lm_stopped(s->env))
            return lm_fail(err, LM_ESTOP, "stopped");
        r = lm_hf_read(s, i, off, buf, end - off < REST ? (size_t)(end - off) : REST, err);
    }
    r = r ? r : compare(f, err);
    return r ? lm_err_at(err, r, "%s", f->name) : LM_OK;
}

int lm_hf_end_sums(struct lm_hf_source *s, struct lm_err *err)
{
    char *buf = malloc(REST);
    int r = buf ? LM_OK : lm_fail_nomem(err);
    for (size_t i = 0; !r && i < s->n; i++)
        if (s->files[i].used && s->files[i].has_sum)
            r = read_rest(s, i, buf, err);
    free(buf);
    return r;
}

#else                                   /* what is in no archive has no sum */

int lm_hf_sum(struct lm_hf_file *f, uint64_t off, const void *p, size_t n, struct lm_err *err)
{
    (void)f, (void)off, (void)p, (void)n, (void)err;
    return LM_OK;
}

int lm_hf_end_sums(struct lm_hf_source *s, struct lm_err *err)
{
    (void)s, (void)err;
    return LM_OK;
}

#endif
