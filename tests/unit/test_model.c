/* SPDX-License-Identifier: MIT */
/* Running a model: logits against those of transformers, for every way of cutting the
 * work; the memory of sequences; and files at odds with themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/arch.h"
#include "io/output.h"
#include "model/ctx_impl.h"

#define MODEL  "tests/data/m.gguf"
#define LOGITS "tests/data/logits.npy"
enum { VOCAB = 368, ROWS = 71 };

/* The sequences whose logits are in LOGITS, one after the other. */
static const int32_t text[] = {
    360, 54, 257, 260, 294, 355, 220, 88, 298, 336, 283, 30, 220, 305, 330, 325, 220, 349, 77,
    82, 280, 282
};
static const int32_t lots[] = {
    325, 220, 295, 5, 182, 67, 276, 308, 64, 27, 157, 72, 174, 226, 34, 35, 244, 54, 37, 64,
    342, 47, 293, 354, 162, 275, 142, 91, 38, 176, 352, 75, 101, 129, 90, 328, 120, 22, 234, 72,
    244, 95, 255, 344, 359, 282, 158, 39
};
static const int32_t one[] = { 360 };
static const struct { const int32_t *ids; size_t n; } sequences[] = {
    { text, sizeof text / sizeof *text }, { lots, sizeof lots / sizeof *lots }, { one, 1 }
};

static float reference[ROWS][VOCAB];
static struct lm_model *model;

static int setup(void **state)
{
    struct lm_err err;
    FILE *f = fopen(LOGITS, "rb");
    (void)state;
    if (!f || fseek(f, 128, SEEK_SET) ||
        fread(reference, sizeof *reference, ROWS, f) != ROWS || fclose(f))
        return -1;
    model = lm_model_load(MODEL, NULL, NULL, &err);
    return model ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    lm_model_free(model);
    return 0;
}

struct how {
    uint32_t ubatch;
    size_t   batch;          /* tokens of one call                  */
    int      threads;
    uint32_t cache;          /* LM_F32 or LM_F16                    */
};

static struct lm_ctx *context(struct lm_model *m, struct how how)
{
    struct lm_err err;
    const struct lm_type *cache = lm_type_by_id(how.cache);
    struct lm_ctx_options o = {
        .n_ubatch = how.ubatch, .n_batch = 128, .cache_k = cache, .cache_v = cache
    };
    struct lm_env env = { .n_threads = how.threads };
    struct lm_ctx *c = lm_ctx_new(m, &o, &env, &err);
    assert_non_null(c);
    return c;
}

/* Every token of every sequence: the tokens of all in one stream, cut into calls. */
static size_t stream(struct lm_batch_token *t)
{
    size_t n = 0;
    for (uint32_t s = 0; s < 3; s++)
        for (uint32_t i = 0; i < sequences[s].n; i++)
            t[n++] = (struct lm_batch_token){ sequences[s].ids[i], 7 * s, i, true };
    return n;
}

static void run(struct lm_model *m, struct how how, float (*out)[VOCAB])
{
    struct lm_batch_token t[ROWS];
    struct lm_err err;
    struct lm_ctx *c = context(m, how);
    size_t n = stream(t);
    assert_int_equal(n, ROWS);
    for (size_t i = 0; i < n; i += how.batch) {
        size_t len = n - i < how.batch ? n - i : how.batch;
        assert_int_equal(lm_ctx_decode(c, t + i, len, &err), LM_OK);
        for (size_t k = 0; k < len; k++)
            memcpy(out[i + k], lm_ctx_logits(c, k), sizeof *out);
    }
    lm_ctx_free(c);
}

static double worst(float (*a)[VOCAB], float (*b)[VOCAB])
{
    double max = 0;
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < VOCAB; k++) {
            double d = (double)a[i][k] - (double)b[i][k];
            d = d < 0 ? -d : d;
            if (!(d <= max))
                max = d;
        }
    return max;
}

static float got[ROWS][VOCAB], other[ROWS][VOCAB];

/* The checkpoint is F16 and so is the file: with floats everywhere else nothing is lost. */
static void test_logits(void **state)
{
    static const struct how ways[] = {
        { 1, 1, 1, LM_F32 },  { 7, 71, 1, LM_F32 }, { 128, 71, 1, LM_F32 },
        { 7, 30, 2, LM_F32 }, { 16, 16, 3, LM_F32 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        run(model, ways[i], got);
        assert_true(worst(got, reference) <= 1e-4);
    }
    run(model, (struct how){ 128, 71, 1, LM_F16 }, got);
    assert_true(worst(got, reference) <= 2e-2);
    assert_true(worst(got, reference) > 1e-6);
}

/* Neither the number of threads nor the size of a piece changes a bit. */
static void test_cuts_do_not_matter(void **state)
{
    (void)state;
    run(model, (struct how){ 128, 71, 1, LM_F16 }, got);
    for (uint32_t ubatch = 1; ubatch <= 64; ubatch *= 4) {
        run(model, (struct how){ ubatch, 71, 1, LM_F16 }, other);
        assert_memory_equal(got, other, sizeof got);
        for (int threads = 2; threads <= 5; threads++) {
            run(model, (struct how){ ubatch, 71, threads, LM_F16 }, other);
            assert_memory_equal(got, other, sizeof got);
        }
    }
}

static void test_load_options(void **state)
{
    static const struct lm_model_options all[] = {
        { .load = LM_LOAD_READ }, { .no_repack = true },
        { .load = LM_LOAD_READ, .no_repack = true }
    };
    struct lm_err err;
    struct lm_env env = { .n_threads = 3 };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct lm_model *m = lm_model_load(MODEL, &all[i], &env, &err);
        assert_non_null(m);
        run(m, (struct how){ 64, 71, 1, LM_F32 }, got);
        assert_true(worst(got, reference) <= 1e-4);
        lm_model_free(m);
    }
}

/* After a shift, the first layer's keys, which see no other token, are those that the same
 * tokens have at their new positions. */
static void test_shift(void **state)
{
    struct lm_ctx *c = context(model, (struct how){ 64, 128, 1, LM_F32 });
    struct lm_batch_token t[100];
    struct lm_err err;
    const struct lm_kv_layout *kv = &c->places[0].kv;
    (void)state;
    for (uint32_t i = 0; i < 100; i++)
        t[i] = (struct lm_batch_token){ (int32_t)(i * 31 % VOCAB), 1, i, false };
    assert_int_equal(lm_ctx_decode(c, t, 100, &err), LM_OK);
    assert_int_equal(lm_ctx_can_shift(c, &err), LM_OK);
    assert_int_equal(lm_ctx_seq_shift(c, 1, 5, 101, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_copy(c, 3, 1, &err), LM_OK);
    assert_int_equal(lm_ctx_seq_shift(c, 1, 5, 22, &err), LM_OK);
    assert_int_equal(lm_ctx_seq_len(c, 1), 83);
    assert_int_equal(lm_ctx_seq_len(c, 3), 100);
    for (uint32_t i = 0; i < 83; i++)
        t[i] = (struct lm_batch_token){ (int32_t)((i < 5 ? i : i + 17) * 31 % VOCAB), 2, i, false };
    assert_int_equal(lm_ctx_decode(c, t, 83, &err), LM_OK);
    for (uint32_t pos = 0; pos < 83; pos++)
        for (uint32_t h = 0; h < kv->n_head_kv; h++) {
            float a[256], b[256];
            assert_true(kv->head_k <= 256);
            assert_int_equal(lm_memory_read(c->memory, 0, 1, h, false, pos, 1, a, &err), LM_OK);
            assert_int_equal(lm_memory_read(c->memory, 0, 2, h, false, pos, 1, b, &err), LM_OK);
            for (uint32_t i = 0; i < kv->head_k; i++)
                if (!(a[i] - b[i] < 1e-4f && b[i] - a[i] < 1e-4f))
                    fail_msg("position %u, value %u: %g, wanted %g", pos, i, (double)a[i],
                             (double)b[i]);
        }
    lm_ctx_free(c);
}

static void test_facts(void **state)
{
    (void)state;
    assert_string_equal(lm_model_arch(model), "llama");
    assert_int_equal(lm_model_n_vocab(model), VOCAB);
    assert_int_equal(lm_model_n_ctx_train(model), 512);
    struct lm_ctx *c = lm_ctx_new(model, NULL, NULL, NULL);
    assert_non_null(c);
    assert_int_equal(lm_ctx_n_ctx(c), 512);
    assert_int_equal(lm_ctx_n_batch(c), 2048);
    lm_ctx_free(c);
}

/* Sequences taking turns in one batch, some tokens wanted: each row is the same. */
static void test_neighbours_and_wanted(void **state)
{
    struct lm_ctx *c = context(model, (struct how){ 9, 71, 2, LM_F32 });
    struct lm_batch_token t[2 * 22];
    struct lm_err err;
    (void)state;
    for (uint32_t i = 0; i < 22; i++) {
        t[2 * i] = (struct lm_batch_token){ text[i], 5, i, i % 3 == 0 };
        t[2 * i + 1] = (struct lm_batch_token){ lots[i], 1000000007, i, i >= 20 };
    }
    assert_int_equal(lm_ctx_decode(c, t, 44, &err), LM_OK);
    for (size_t i = 0; i < 44; i++) {
        const float *row = lm_ctx_logits(c, i), *want = reference[i / 2 + (i % 2 ? 22 : 0)];
        assert_int_equal(row != NULL, t[i].want);
        for (size_t k = 0; row && k < VOCAB; k++)
            assert_true(row[k] - want[k] <= 1e-4f && want[k] - row[k] <= 1e-4f);
    }
    assert_int_equal(lm_ctx_seq_len(c, 5), 22);
    assert_int_equal(lm_ctx_seq_len(c, 1000000007), 22);
    assert_int_equal(lm_ctx_seq_len(c, 6), 0);
    assert_null(lm_ctx_logits(c, 44));
    lm_ctx_free(c);
}

static void append(struct lm_ctx *c, uint32_t seq, const int32_t *ids, uint32_t from, uint32_t to)
{
    struct lm_batch_token t[128];
    struct lm_err err;
    for (uint32_t i = from; i < to; i++)
        t[i - from] = (struct lm_batch_token){ ids[i], seq, i, i + 1 == to };
    assert_int_equal(lm_ctx_decode(c, t, to - from, &err), LM_OK);
}

static void check_row(const float *row, const float *want)
{
    for (size_t k = 0; k < VOCAB; k++)
        assert_true(row[k] - want[k] <= 1e-4f && want[k] - row[k] <= 1e-4f);
}

static void test_remove(void **state)
{
    struct lm_ctx *c = context(model, (struct how){ 64, 71, 1, LM_F32 });
    struct lm_err err;
    (void)state;
    append(c, 0, lots, 0, 48);
    append(c, 1, text, 0, 22);
    assert_int_equal(lm_ctx_seq_remove(c, 0, 30, &err), LM_OK);
    assert_int_equal(lm_ctx_seq_len(c, 0), 30);
    append(c, 0, lots, 30, 40);
    check_row(lm_ctx_logits(c, 9), reference[22 + 39]);
    assert_int_equal(lm_ctx_seq_remove(c, 1, 23, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_remove(c, 1, 0, &err), LM_OK);
    assert_int_equal(lm_ctx_seq_len(c, 1), 0);
    assert_int_equal(lm_ctx_seq_remove(c, 1, 0, &err), LM_OK);
    append(c, 1, text, 0, 22);
    check_row(lm_ctx_logits(c, 21), reference[21]);
    lm_ctx_free(c);
}

/* What cannot be evaluated changes nothing. */
static void test_refusals(void **state)
{
    struct lm_ctx_options o = { .n_ctx = 16, .n_batch = 40, .cache_k = lm_type_by_id(LM_F32),
                                .cache_v = lm_type_by_id(LM_F32) };
    struct lm_err err;
    struct lm_ctx *c = lm_ctx_new(model, &o, NULL, &err);
    (void)state;
    assert_non_null(c);
    append(c, 3, text, 0, 10);

    struct lm_batch_token t[41];
    for (uint32_t i = 0; i < 41; i++)
        t[i] = (struct lm_batch_token){ text[i % 22], i < 10 ? 9 : 3, i, false };
    assert_int_equal(lm_ctx_decode(c, t, 0, &err), LM_EUSE);
    assert_int_equal(lm_ctx_decode(c, t, 41, &err), LM_EUSE);
    assert_int_equal(lm_ctx_decode(c, t, 17, &err), LM_EUSE);       /* position 16 of 16 */
    assert_non_null(strstr(err.text, "context of 16"));
    assert_int_equal(lm_ctx_seq_len(c, 9), 0);
    assert_int_equal(lm_ctx_seq_len(c, 3), 10);
    t[12].id = VOCAB;
    assert_int_equal(lm_ctx_decode(c, t, 13, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "368"));
    t[12].id = -1;
    assert_int_equal(lm_ctx_decode(c, t, 13, &err), LM_EDATA);
    t[12] = (struct lm_batch_token){ 1, 3, 13, false };             /* leaves a gap */
    assert_int_equal(lm_ctx_decode(c, t, 13, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_len(c, 9), 0);

    append(c, 3, text, 10, 16);
    check_row(lm_ctx_logits(c, 5), reference[15]);
    assert_int_equal(lm_decode(c, t + 16, 1, &err), 1);             /* a shorter one had room */
    t[16].seq = 9;                                                  /* not this one, of 0     */
    assert_int_equal(lm_decode(c, t + 16, 1, &err), LM_EUSE);
    lm_ctx_free(c);
}

static bool stop(void *user)
{
    return (*(int *)user)-- <= 0;
}

/* Asked to stop after two pieces, it has forgotten them. */
static void test_stop(void **state)
{
    int pieces = 2;
    struct lm_env env = { .user = &pieces, .stop = stop };
    struct lm_ctx_options o = { .n_ubatch = 4 };
    struct lm_err err;
    struct lm_batch_token t[22];
    struct lm_ctx *c = lm_ctx_new(model, &o, &env, &err);
    (void)state;
    assert_non_null(c);
    for (uint32_t i = 0; i < 22; i++)
        t[i] = (struct lm_batch_token){ text[i], 0, i, i == 21 };
    assert_int_equal(lm_ctx_decode(c, t, 22, &err), LM_ESTOP);
    assert_int_equal(lm_ctx_seq_len(c, 0), 0);
    assert_null(lm_ctx_logits(c, 21));
    pieces = 100;
    assert_int_equal(lm_ctx_decode(c, t, 22, &err), LM_OK);
    lm_ctx_free(c);
}

struct heard {
    size_t n, rows, out_rows;
    bool   finite;
};

static void hear(void *arg, const struct lm_observed *o)
{
    struct heard *h = arg;
    h->n++;
    h->rows += o->n;
    if (strcmp(o->weight, "output.weight") == 0)
        h->out_rows += o->n;
    for (size_t r = 0; r < o->n; r++) {
        size_t mat;
        const float *x = lm_observed_row(o, r, &mat);
        assert_int_equal(mat, 0);
        for (size_t i = 0; i < o->cols; i++)
            if (!(x[i] > -1e6f && x[i] < 1e6f))
                h->finite = false;
    }
}

static void test_observe(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        struct lm_ctx *c = context(model, (struct how){ 8, 71, threads, LM_F32 });
        struct heard h = { .finite = true };
        lm_ctx_observe(c, hear, &h);
        append(c, 0, text, 0, 16);
        /* Two pieces; 7 matrices in each of 2 layers, and the output; nothing is wanted of
         * the first piece, which ends with the last layer's k and v. */
        assert_int_equal(h.n, 7 + 2 + 15);
        assert_int_equal(h.out_rows, 1);
        assert_true(h.finite);
        lm_ctx_observe(c, NULL, NULL);
        append(c, 0, text, 16, 20);
        assert_int_equal(h.n, 7 + 2 + 15);
        check_row(lm_ctx_logits(c, 3), reference[19]);
        lm_ctx_free(c);
    }
}

/* A copy of the model with changes. */
struct change {
    const char *what;                   /* words the message must have              */
    enum lm_code code;
    const char *drop_key, *drop_tensor;
    const char *u32_key;
    uint32_t    u32;
    const char *f32_key;
    float       f32;
    const char *str_key, *str;
    const char *reshape;                /* tensor that loses its last dimension's end */
    const char *retype;                 /* tensor that becomes I32                  */
};

static void add_tensor(struct lm_gguf_writer *w, const struct lm_gguf_tensor *t,
                       const struct change *c)
{
    uint64_t ne[LM_GGUF_MAX_DIMS];
    const struct lm_type *type = t->type;
    memcpy(ne, t->ne, sizeof ne);
    if (c->reshape && strcmp(c->reshape, t->name.p) == 0)
        ne[t->n_dims - 1]--;
    if (c->retype && strcmp(c->retype, t->name.p) == 0)
        type = lm_type_by_id(LM_I32);
    lm_gguf_add_tensor(w, t->name.p, t->name.len, t->n_dims, ne, type);
}

static void write_changed(const char *path, const struct change *c)
{
    const struct lm_gguf *g = lm_model_gguf(model);
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_err err;
    struct lm_out *out = lm_out_open(path, &err);
    uint64_t size;
    for (uint64_t i = 0; i < g->n_kv; i++)
        lm_gguf_set_kv(w, &g->kv[i]);
    if (c->drop_key)
        lm_gguf_unset(w, c->drop_key);
    if (c->u32_key)
        lm_gguf_set_u32(w, c->u32_key, c->u32);
    if (c->f32_key)
        lm_gguf_set_f32(w, c->f32_key, c->f32);
    if (c->str_key)
        lm_gguf_set_str(w, c->str_key, c->str, strlen(c->str));
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!c->drop_tensor || strcmp(c->drop_tensor, g->tensors[i].name.p) != 0)
            add_tensor(w, &g->tensors[i], c);
    assert_non_null(out);
    assert_true(lm_gguf_total_size(w, &size));
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_OK);
    assert_int_equal(lm_out_zeros(out, size - lm_out_pos(out), &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    lm_gguf_writer_free(w);
}

#define U32(key, value, c, words) { .what = words, .code = c, .u32_key = key, .u32 = value }

static const struct change changes[] = {
    { .what = "llama.block_count", .code = LM_EDATA, .drop_key = "llama.block_count" },
    { .what = "llama.embedding_length", .code = LM_EDATA,
      .drop_key = "llama.embedding_length" },
    { .what = "general.architecture", .code = LM_EDATA, .drop_key = "general.architecture" },
    { .what = "llama.attention.layer_norm_rms_epsilon", .code = LM_EDATA,
      .drop_key = "llama.attention.layer_norm_rms_epsilon" },
    { .what = "martian", .code = LM_ENOSUP, .str_key = "general.architecture",
      .str = "martian" },
    { .what = "llama.context_length", .code = LM_EDATA, .str_key = "llama.context_length",
      .str = "long" },
    U32("llama.attention.head_count", 0, LM_EDATA, "llama.attention.head_count"),
    U32("llama.attention.head_count", 3, LM_EDATA, "llama.attention.head_count_kv"),
    U32("llama.attention.head_count", 0x80000000u, LM_EDATA, "llama.attention.head_count"),
    U32("llama.attention.key_length", 0xffffffffu, LM_EDATA, "llama.attention.key_length"),
    U32("llama.rope.dimension_count", 31, LM_EDATA, "llama.rope.dimension_count"),
    U32("llama.rope.dimension_count", 34, LM_EDATA, "llama.rope.dimension_count"),
    U32("llama.block_count", 0, LM_EDATA, "llama.block_count"),
    U32("llama.block_count", 3, LM_EDATA, "blk.2."),
    U32("llama.block_count", 4000, LM_EDATA, "llama.block_count"),
    U32("llama.block_count", 0xffffffffu, LM_EDATA, "llama.block_count"),
    U32("llama.embedding_length", 64, LM_EDATA, "token_embd.weight"),
    U32("llama.feed_forward_length", 0xffffff, LM_EDATA, "ffn_gate.weight"),
    U32("llama.context_length", 0, LM_EDATA, "llama.context_length"),
    U32("llama.expert_count", 8, LM_EDATA, "llama.expert_used_count"),
    U32("split.count", 2, LM_EDATA, "split.count"),
    { .what = "llama.rope.freq_base", .code = LM_EDATA, .f32_key = "llama.rope.freq_base",
      .f32 = -1 },
    { .what = "longrope", .code = LM_ENOSUP, .str_key = "llama.rope.scaling.type",
      .str = "longrope" },
    { .what = "blk.1.attn_k.weight", .code = LM_EDATA, .drop_tensor = "blk.1.attn_k.weight" },
    { .what = "output_norm.weight", .code = LM_EDATA, .drop_tensor = "output_norm.weight" },
    { .what = "token_embd.weight", .code = LM_EDATA, .drop_tensor = "token_embd.weight" },
    { .what = "blk.0.ffn_down.weight", .code = LM_EDATA, .reshape = "blk.0.ffn_down.weight" },
    { .what = "blk.1.attn_norm.weight", .code = LM_EDATA, .reshape = "blk.1.attn_norm.weight" },
    { .what = "token_embd.weight", .code = LM_EDATA, .reshape = "output.weight" },
    { .what = "blk.0.attn_q.weight", .code = LM_EDATA, .retype = "blk.0.attn_q.weight" },
};

static void test_odd_files(void **state)
{
    char path[] = "/tmp/lmpipe-test-model-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct lm_err err = {0};
        write_changed(path, &changes[i]);
        struct lm_model *m = lm_model_load(path, NULL, NULL, &err);
        if (m || err.code != changes[i].code || !strstr(err.text, changes[i].what)) {
            print_error("change %zu: wanted %d, %s; got %d, %s\n", i, changes[i].code,
                        changes[i].what, err.code, m ? "a model" : err.text);
            unlink(path);
            fail();
        }
    }
    /* Without changes, and tied, it loads. */
    const struct change fine[] = { { .what = "" }, { .drop_tensor = "output.weight" } };
    for (size_t i = 0; i < 2; i++) {
        write_changed(path, &fine[i]);
        struct lm_model *m = lm_model_load(path, NULL, NULL, NULL);
        assert_non_null(m);
        lm_model_free(m);
    }
    unlink(path);
    struct lm_err err;
    assert_null(lm_model_load("tests/data/text.txt", NULL, NULL, &err));
    assert_int_equal(err.code, LM_EDATA);
    assert_null(lm_model_load("tests/data/none.gguf", NULL, NULL, &err));
    assert_int_equal(err.code, LM_EIO);
}

/* The rows of the architectures, used the other way round. */
static void test_names(void **state)
{
    char name[LM_ARCH_NAME];
    uint32_t layer;
    (void)state;
    for (size_t a = 0; lm_archs[a]; a++) {
        assert_string_equal(lm_arch_by_name(lm_archs[a]->name)->name, lm_archs[a]->name);
        for (const struct lm_arch_tensor *t = lm_archs[a]->tensors; t->name; t++) {
            lm_arch_expand(t->name, 12, name);
            assert_true(lm_arch_match(t->name, name, &layer, NULL));
            assert_int_equal(layer, t->flags & LM_TENSOR_PER_LAYER ? 12 : 0);
        }
    }
    assert_null(lm_arch_by_name("martian"));
    assert_non_null(lm_arch_by_class("LlamaForCausalLM"));
    assert_null(lm_arch_by_class("MartianForCausalLM"));
    assert_false(lm_arch_match("blk.{i}.x", "blk.x", &layer, NULL));
    assert_false(lm_arch_match("blk.{i}.x", "blk.01.x", &layer, NULL));
    assert_false(lm_arch_match("blk.{i}.x", "blk.4294967296.x", &layer, NULL));
    assert_false(lm_arch_match("blk.{i}.x", "blk.1.xy", &layer, NULL));
    assert_true(lm_arch_match("blk.{i}.x", "blk.4294967295.x", &layer, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_cuts_do_not_matter),
        cmocka_unit_test(test_load_options),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_neighbours_and_wanted),
        cmocka_unit_test(test_remove),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_observe),
        cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
