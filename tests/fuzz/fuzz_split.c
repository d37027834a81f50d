/* SPDX-License-Identifier: MIT */
/*
 * The shards of a model: loading them, joining them, and cutting them anew.
 *
 * The bytes are u32 n, n bytes of a first shard, and those of a second; both are put where
 * the loader looks for two shards.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gguf/split.h"

static char dir[] = "/tmp/fuzz_split.XXXXXX";
static char paths[2][64];

static void clean(void)
{
    unlink(paths[0]);
    unlink(paths[1]);
    rmdir(dir);
}

static void put(const char *path, const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f))
        abort();
}

/* What comes out of a plan must have the size that it says. */
static void write_all(struct lm_split *s)
{
    struct lm_err err = { 0 };
    for (size_t k = 0; k < s->n_shards; k++) {
        if (s->shards[k].size > 1 << 20)
            return;
        struct lm_out *out = lm_out_open("/dev/null", &err);
        if (!out)
            abort();
        int r = lm_split_write(s, k, out, NULL, &err);
        if (r == LM_OK && lm_out_pos(out) != s->shards[k].size)
            abort();
        lm_out_abort(out);
        if (r != LM_OK)
            return;
    }
}

static void once(const struct lm_split_options *o)
{
    struct lm_err err = { 0 };
    struct lm_in *in = lm_in_open(paths[0], 0, &err);
    if (!in)
        return;                               /* zstd, and this build has none */
    struct lm_split *s = lm_split_open(in, 0, NULL, &err);
    if (!s && err.code >= 0)
        abort();                              /* failed without saying why */
    if (s && lm_split_plan(s, o, NULL, &err) == LM_OK)
        write_all(s);
    lm_split_free(s);
    lm_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct lm_split_options plans[] = {
        { .merge = true }, { .max_tensors = 1 }, { .max_size = 300, .no_tensor_first = true },
    };
    if (size < 4)
        return 0;
    if (!*paths[0]) {
        if (!mkdtemp(dir))
            abort();
        snprintf(paths[0], sizeof paths[0], "%s/x-00001-of-00002.gguf", dir);
        snprintf(paths[1], sizeof paths[1], "%s/x-00002-of-00002.gguf", dir);
        atexit(clean);
    }
    uint32_t n = data[0] | data[1] << 8 | data[2] << 16 | (uint32_t)data[3] << 24;
    if (n > size - 4)
        n = (uint32_t)size - 4;
    put(paths[0], data + 4, n);
    put(paths[1], data + 4 + n, size - 4 - n);
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        once(&plans[i]);
    return 0;
}
