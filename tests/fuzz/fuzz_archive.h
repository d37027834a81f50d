/* SPDX-License-Identifier: MIT */
#ifndef FUZZ_ARCHIVE_H
#define FUZZ_ARCHIVE_H

/* Checkpoints in a tar, of which one file is the input of a fuzz target, and their conversion. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/convert.h"

/* A tar in a file that only this process has. */
struct fuzz_archive {
    FILE *f;
    char  path[32];
};

static inline void fuzz_archive_begin(struct fuzz_archive *a)
{
    if (!a->f && !(a->f = tmpfile()))
        abort();
    if (ftruncate(fileno(a->f), 0) || fseek(a->f, 0, SEEK_SET))
        abort();
    snprintf(a->path, sizeof a->path, "/dev/fd/%d", fileno(a->f));
}

/* POSIX.1 ustar. */
static inline void fuzz_archive_add(struct fuzz_archive *a, const char *name, const void *data,
                                    size_t n)
{
    char h[512] = {0};
    unsigned sum = 0;
    snprintf(h, 100, "%s", name);
    memcpy(h + 100, "0000644\0" "0000000\0" "0000000", 23);
    for (int i = 10; i >= 0; i--)
        h[124 + i] = (char)('0' + (n >> 3 * (10 - i) & 7));
    memcpy(h + 136, "00000000000", 11);
    memset(h + 148, ' ', 8);
    h[156] = '0';
    memcpy(h + 257, "ustar\0" "00", 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    fwrite(h, 1, sizeof h, a->f);
    fwrite(data, 1, n, a->f);
    static const char zeros[1024];
    fwrite(zeros, 1, -n & 511, a->f);
}

static inline void fuzz_archive_end(struct fuzz_archive *a)
{
    static const char zeros[1024];
    fwrite(zeros, 1, sizeof zeros, a->f);
    if (fflush(a->f))
        abort();
}

/* What is accepted must convert to as many bytes as were promised. */
static inline void fuzz_convert(const char *path, const struct lm_convert_options *o)
{
    struct lm_err err = {0};
    struct lm_hf_source *src = lm_hf_open(path, NULL, NULL, &err);
    struct lm_convert *c = src ? lm_convert_new(src, o, NULL, &err) : NULL;
    if (!c && (err.code >= 0 || !err.text[0]))
        abort();                              /* failed without saying why */
    /* Sparse members can be as large as they like; what they hold is not the question. */
    if (c && lm_convert_size(c) < 1 << 22) {
        const uint64_t size = lm_convert_size(c);
        struct lm_out *out = lm_out_open("/dev/null", NULL);
        if (!out)
            abort();
        if (lm_convert_write(c, out, &err) == LM_OK && lm_out_pos(out) != size)
            abort();
        lm_out_abort(out);
    }
    lm_convert_free(c);
    lm_hf_close(src);
}

#endif
