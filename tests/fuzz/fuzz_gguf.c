/* SPDX-License-Identifier: MIT */
/* The GGUF reader, what checks its result, and what prints, sums up and rewrites it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gguf/gguf_text.h"
#include "gguf/key_meaning.h"
#include "job/check.h"
#include "job/footprint.h"
#include "job/totals.h"
#include "job/vocab_line.h"

static void count(void *arg, uint64_t offset, const char *what)
{
    (void)offset;
    (void)what;
    ++*(uint64_t *)arg;
}

static void count_shard(void *arg, size_t shard, uint64_t offset, const char *what)
{
    (void)shard;
    count(arg, offset, what);
}

static void sum_up(const struct lm_gguf *g)
{
    static const struct lm_footprint_options o[] = { { 0 }, { .n_ctx = 7, .n_device = 2 } };
    struct lm_totals t;
    struct lm_footprint f;
    struct lm_err err = { 0 };
    uint64_t n = 0;
    const struct lm_check_to to = { .arg = &n, .fault = count_shard };
    lm_totals_of(&g, 1, g, &t);
    if (t.n_tensors + t.n_unknown != g->n_tensors)
        abort();
    for (size_t i = 0; i < sizeof o / sizeof *o; i++)
        if (lm_footprint_of(&g, 1, &o[i], &f, &err) != LM_OK && err.code >= 0)
            abort();
    if (lm_check_model(&g, 1, &to) != n)
        abort();
}

static void print_vocab(const struct lm_gguf *g, struct lm_buf *b)
{
    struct lm_gguf_arr tokens;
    if (lm_gguf_arr(g, "tokenizer.ggml.tokens", LM_GGUF_STR, &tokens, NULL) != LM_OK)
        return;
    for (uint64_t i = 0; i < tokens.n && i < 16; i++) {
        lm_vocab_line(b, g, &tokens, i);
        lm_vocab_json(b, g, &tokens, i);
    }
}

static void print(const struct lm_gguf *g)
{
    struct lm_buf b = { 0 };
    print_vocab(g, &b);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        lm_gguf_kind_text(&b, &g->kv[i]);
        lm_gguf_value_text(&b, &g->kv[i], 16);
        lm_gguf_value_json(&b, &g->kv[i]);
        lm_gguf_value_raw(&b, &g->kv[i]);
        lm_key_meaning(g->kv[i].key.p, "llama");
        lm_buf_clear(&b);
    }
    lm_buf_release(&b);
}

static void rewrite(const struct lm_gguf *g)
{
    struct lm_err err;
    uint64_t size;
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open("/dev/null", &err);
    if (!w || !out)
        abort();
    for (uint64_t i = 0; i < g->n_kv; i++)
        lm_gguf_set_kv(w, &g->kv[i]);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].type)
            lm_gguf_add_tensor(w, g->tensors[i].name.p, g->tensors[i].name.len,
                               g->tensors[i].n_dims, g->tensors[i].ne, g->tensors[i].type);
    if (lm_gguf_total_size(w, &size) && g->alignment <= 4096)
        lm_gguf_write_head(w, out, &err);
    lm_out_abort(out);
    lm_gguf_writer_free(w);
}

/* One reading; from the file the size is known. */
static void read_it(const char *path, bool strict)
{
    struct lm_err err = { 0 };
    uint64_t n = 0, found;
    struct lm_in *in = lm_in_open(path, LM_IN_RAW, &err);
    if (!in)
        abort();
    struct lm_gguf *g = lm_gguf_read(in, strict, &err);
    if (!g && err.code >= 0)
        abort();                              /* failed without saying why */
    if (g) {
        found = lm_gguf_check(g, count, &n);
        if (found != n)
            abort();
        print(g);
        sum_up(g);
        rewrite(g);
    }
    lm_gguf_free(g);
    lm_in_close(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32];
    FILE *f = tmpfile();
    if (!f || fwrite(data, 1, size, f) != size || fflush(f))
        abort();
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(f));
    read_it(path, false);
    read_it(path, true);
    fclose(f);
    return 0;
}
