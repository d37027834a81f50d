/* SPDX-License-Identifier: MIT */
/* What a context saves, and loads again: parts of a sequence, what does not suit the model; and
 * adapters that wait for their tokens in contexts that have sequences already. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/model.h"
#include "low_rank.h"
#include "open_model.h"
#include "state_file.h"

#define LLAMA "tests/data/m.gguf"
enum { CTX = 400, HELD = 100, MORE = 260 };

/* A model that is mapped, its sliding window being that, 0: as it is. */
static struct lm_model *load_model(const char *file, uint32_t window)
{
    static const char key[] = ".attention.sliding_window";
    const struct lm_gguf_kv kv = {
        .key = { key, sizeof key - 1 }, .kind = LM_GGUF_U32, .u = window,
    };
    struct lm_model_options o = { .overrides = &kv, .n_overrides = window > 0 };
    return open_model(file, &o);
}

static struct lm_ctx *context(struct lm_model *m)
{
    struct lm_ctx_options o = { .n_ctx = CTX, .n_batch = 64, .n_ubatch = 32 };
    return open_context(m, &o);
}

static int32_t id_at(uint32_t pos, uint32_t kind)
{
    return (int32_t)((pos * 37 + kind * 101 + pos * pos % 11) % 250);
}

/* A sequence goes on to `to` tokens of a kind; the logits after the last, ours. */
static float *feed(struct lm_ctx *c, uint32_t seq, uint32_t to, uint32_t kind)
{
    const size_t n = lm_ctx_row_len(c);
    float *row = malloc(n * sizeof *row);
    assert_non_null(row);
    while (lm_ctx_seq_len(c, seq) < to) {
        struct lm_batch_token t[50];
        const uint32_t had = lm_ctx_seq_len(c, seq);
        uint32_t k = 0;
        for (; k < 50 && had + k < to; k++)
            t[k] = (struct lm_batch_token){ id_at(had + k, kind), seq, had + k,
                                            had + k + 1 == to };
        must(lm_ctx_decode(c, t, k, &err));
        if (had + k == to)
            memcpy(row, lm_ctx_logits(c, k - 1), n * sizeof *row);
    }
    return row;
}

static void same_rows(const struct lm_ctx *c, float *a, float *b)
{
    assert_memory_equal(a, b, lm_ctx_row_len(c) * sizeof *a);
    free(a);
    free(b);
}

/* A sequence goes on after its part was saved, further than it can be cut back, and is again what
 * it was; `cuts`: it could be cut anyway. */
static void check_part(const char *file, uint32_t window, bool cuts)
{
    struct lm_model *m = load_model(file, window);
    struct lm_ctx *c = context(m), *fresh = context(m);
    free(feed(c, 3, HELD, 1));
    free(feed(c, 9, 7, 5));
    save(c, true, 3);
    free(feed(c, 3, MORE, 2));
    if (!cuts)
        assert_int_equal(lm_ctx_seq_remove(c, 3, HELD, &err), LM_ENOSUP);
    must(load(c));
    assert_int_equal(lm_ctx_seq_len(c, 3), HELD);
    assert_int_equal(lm_ctx_seq_len(c, 9), 7);
    free(feed(fresh, 0, HELD, 1));
    same_rows(c, feed(c, 3, HELD + 30, 3), feed(fresh, 0, HELD + 30, 3));

    /* One that has fewer tokens is none of which this is a part; nor is one that is gone. */
    must(lm_ctx_seq_remove(c, 3, 0, &err));
    assert_int_equal(load(c), LM_EUSE);
    free(feed(c, 3, HELD - 1, 1));
    assert_int_equal(load(c), LM_EUSE);
    assert_int_equal(lm_ctx_seq_len(c, 3), HELD - 1);
    lm_ctx_free(c);
    lm_ctx_free(fresh);
    lm_model_free(m);
}

static void test_part_of_windows(void **state)
{
    (void)state;
    check_part(LLAMA, 16, false);
}

static void test_part_of_states(void **state)
{
    (void)state;
    check_part("tests/data/recurrent/rwkv7.gguf", 0, false);
}

/* All positions are there anyway: only how many is said. */
static void test_part_of_nothing(void **state)
{
    (void)state;
    check_part(LLAMA, 0, true);
}

/* A sequence whose positions were divided is saved with what its tokens are rotated by. */
static void test_divided(void **state)
{
    struct lm_model *m = load_model(LLAMA, 0);
    struct lm_ctx *c = context(m), *other = context(m);
    (void)state;
    free(feed(c, 1, 60, 1));
    free(feed(c, 4, 9, 2));
    must(lm_ctx_seq_divide(c, 1, 8, 50, 4, &err));
    save(c, false, 0);
    must(load(other));
    assert_int_equal(lm_ctx_seq_angle(other, 1, 60), lm_ctx_seq_angle(c, 1, 60));
    assert_int_equal(lm_ctx_seq_angle(other, 4, 60), 60);
    same_rows(c, feed(other, 1, 70, 1), feed(c, 1, 70, 1));
    lm_ctx_free(c);
    lm_ctx_free(other);
    lm_model_free(m);
}

/* A part is of a sequence that has still the same. */
static void test_part_of_divided(void **state)
{
    struct lm_model *m = load_model(LLAMA, 16);
    struct lm_ctx *c = context(m);
    (void)state;
    free(feed(c, 1, HELD, 1));
    must(lm_ctx_seq_divide(c, 1, 8, 50, 4, &err));
    save(c, true, 1);
    float *want = feed(c, 1, MORE, 1);
    must(load(c));
    assert_int_equal(lm_ctx_seq_len(c, 1), HELD);
    same_rows(c, feed(c, 1, MORE, 1), want);
    must(lm_ctx_seq_divide(c, 1, 20, HELD, 2, &err));
    assert_int_equal(load(c), LM_EUSE);
    assert_int_equal(lm_ctx_seq_len(c, 1), MORE);
    lm_ctx_free(c);
    lm_model_free(m);
}

/* A file of another version is refused before anything else in it is looked at. */
static void test_versions(void **state)
{
    struct lm_model *m = load_model(LLAMA, 0);
    struct lm_ctx *c = context(m);
    (void)state;
    free(feed(c, 5, 70, 1));
    save(c, false, 0);
    must(load(c));
    for (uint8_t version = 1; version < 4; version += 2) {
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        assert_int_equal(fseek(f, 4, SEEK_SET), 0);
        assert_int_equal(fwrite(&version, 1, 1, f), 1);
        assert_int_equal(fclose(f), 0);
        assert_int_equal(load(c), LM_ENOSUP);
    }
    lm_ctx_free(c);
    lm_model_free(m);
}

/* Nor is one loaded whose keys were rotated in another way. */
static void test_rotations(void **state)
{
    static const char base[] = ".rope.freq_base", type[] = ".rope.scaling.type";
    static const char factor[] = ".rope.scaling.factor";
    const struct lm_gguf_kv other_base = {
        .key = { base, sizeof base - 1 }, .kind = LM_GGUF_F32, .f = 5000,
    };
    const struct lm_gguf_kv dynamic[] = {
        { .key = { type, sizeof type - 1 }, .kind = LM_GGUF_STR, .str = { "dynamic", 7 } },
        { .key = { factor, sizeof factor - 1 }, .kind = LM_GGUF_F32, .f = 4 },
    };
    struct lm_model_options o = { .overrides = &other_base, .n_overrides = 1 };
    struct lm_model *m = load_model(LLAMA, 0), *n = lm_model_load(LLAMA, &o, NULL, &err);
    struct lm_ctx_options wide = { .n_ctx = 1000 }, wider = { .n_ctx = 1200 };
    struct lm_ctx *c = context(m), *d = context(n);
    (void)state;
    free(feed(c, 5, 20, 1));
    save(c, false, 0);
    assert_int_equal(load(d), LM_EDATA);
    lm_ctx_free(d);
    lm_model_free(n);
    o = (struct lm_model_options){ .overrides = dynamic, .n_overrides = 2 };
    assert_non_null(n = lm_model_load(LLAMA, &o, NULL, &err));
    assert_int_equal(lm_model_n_ctx_train(n), 4 * lm_model_n_ctx_train(m));
    assert_non_null(d = lm_ctx_new(n, &wide, NULL, &err));
    free(feed(d, 5, 20, 1));
    save(d, false, 0);
    must(load(d));
    lm_ctx_free(d);
    assert_non_null(d = lm_ctx_new(n, &wider, NULL, &err));
    assert_int_equal(load(d), LM_EDATA);
    lm_ctx_free(c);
    lm_ctx_free(d);
    lm_model_free(m);
    lm_model_free(n);
}

/* --- adapters that wait ------------------------------------------------------------------ */

static const uint32_t invocation[] = { 300, 301 };

/* One for the queries of the first layer. */
static void write_adapter(void)
{
    static const struct low_rank queries = { "blk.0.attn_q.weight", 128, 128, 2, false };
    write_low_rank(path, "llama", 8, 7, &queries, 1, invocation, 2);
}

static void put_ids(struct lm_ctx *c, uint32_t seq, const uint32_t *ids, uint32_t n, float *row)
{
    for (uint32_t i = 0; i < n; i++) {
        struct lm_batch_token t = { (int32_t)ids[i], seq, lm_ctx_seq_len(c, seq), true };
        must(lm_ctx_decode(c, &t, 1, &err));
    }
    memcpy(row, lm_ctx_logits(c, 0), lm_ctx_row_len(c) * sizeof *row);
}

/* What was remembered without the adapter serves it too, and the other way round; a copy and what
 * is kept know their tokens. */
static void test_swapped(void **state)
{
    struct lm_model *m = load_model(LLAMA, 0);
    struct lm_ctx *c = context(m), *fresh = context(m);
    const size_t n = lm_ctx_row_len(c);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *plain;
    (void)state;
    write_adapter();
    struct lm_adapter *adapter = lm_adapter_load(m, path, &err);
    if (!adapter)
        fail_msg("%s", err.text);
    const struct lm_adapted with = { .adapter = adapter, .scale = 1 };
    must(lm_ctx_adapt(fresh, &with, 1, &err));
    assert_true(lm_ctx_by_length(fresh) && !lm_ctx_by_length(c));
    plain = feed(c, 1, 40, 1);
    same_rows(c, plain, feed(fresh, 1, 40, 1));                 /* it was not called */
    must(lm_ctx_adapt(c, &with, 1, &err));
    put_ids(c, 1, (uint32_t[]){ 300, 301, 9 }, 3, a);
    put_ids(fresh, 1, (uint32_t[]){ 300, 301, 9 }, 3, b);
    assert_memory_equal(a, b, n * sizeof *a);

    must(lm_ctx_seq_copy(fresh, 2, 1, &err));
    lm_ctx_seq_keep(fresh, 2);
    put_ids(fresh, 2, invocation, 2, a);                        /* once more: it begins there */
    must(lm_ctx_seq_remove(c, 1, 0, &err));
    free(feed(c, 1, 40, 1));
    put_ids(c, 1, (uint32_t[]){ 300, 301, 9, 300, 301 }, 5, b);
    assert_memory_equal(a, b, n * sizeof *a);

    /* Its first tokens are not known, so that it cannot begin there. */
    must(lm_ctx_adapt(c, NULL, 0, &err));
    must(lm_ctx_seq_remove(c, 1, 0, &err));
    put_ids(c, 1, (uint32_t[]){ 7, 300 }, 2, a);
    must(lm_ctx_adapt(c, &with, 1, &err));
    put_ids(c, 1, (uint32_t[]){ 301, 8 }, 2, a);
    must(lm_ctx_adapt(fresh, NULL, 0, &err));
    put_ids(fresh, 8, (uint32_t[]){ 7, 300, 301, 8 }, 4, b);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_false(lm_ctx_by_length(fresh));
    free(a);
    free(b);
    lm_ctx_free(c);
    lm_ctx_free(fresh);
    lm_adapter_free(adapter);
    lm_model_free(m);
}

/* Tokens that are expected count before they come; others in their place do not. */
static void test_expected(void **state)
{
    static const int32_t ids[] = { 5, 300, 301, 40 };
    struct lm_model *m = load_model(LLAMA, 0);
    struct lm_ctx *c = context(m), *other = context(m);
    const size_t n = lm_ctx_row_len(c);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    (void)state;
    write_adapter();
    struct lm_adapter *adapter = lm_adapter_load(m, path, &err);
    const struct lm_adapted with = { .adapter = adapter, .scale = 1 };
    must(lm_ctx_adapt(c, &with, 1, &err));
    must(lm_ctx_expect(c, 4, ids, 4, &err));
    put_ids(c, 4, (uint32_t[]){ 5, 300 }, 2, a);
    must(lm_ctx_adapt(other, &with, 1, &err));
    put_ids(other, 4, (uint32_t[]){ 5, 300 }, 2, b);
    assert_memory_not_equal(a, b, n * sizeof *a);               /* the second does not know */
    put_ids(c, 4, (uint32_t[]){ 12 }, 1, a);
    put_ids(other, 4, (uint32_t[]){ 12 }, 1, b);
    assert_memory_equal(a, b, n * sizeof *a);
    assert_int_equal(lm_ctx_expect(c, 4, ids, CTX, &err), LM_EUSE);
    free(a);
    free(b);
    lm_ctx_free(c);
    lm_ctx_free(other);
    lm_adapter_free(adapter);
    lm_model_free(m);
}

/* Whatever is done to sequences, what they give is what all of their tokens give in one batch. */
static void test_any_way(void **state)
{
    enum { SEQS = 4, LONGEST = 40, TURNS = 400 };
    static const int32_t few[] = { 300, 301, 300, 301, 9, 44 };
    static struct lm_batch_token t[LONGEST];
    static int32_t ids[SEQS][LONGEST];
    uint32_t n[SEQS] = { 0 };
    struct lm_model *m = load_model(LLAMA, 0);
    struct lm_ctx *c = context(m), *fresh = context(m);
    (void)state;
    write_adapter();
    struct lm_adapter *adapter = lm_adapter_load(m, path, &err);
    const struct lm_adapted with = { .adapter = adapter, .scale = 1 };
    must(lm_ctx_adapt(c, &with, 1, &err));
    must(lm_ctx_adapt(fresh, &with, 1, &err));
    for (int turn = 0; turn < TURNS; turn++) {
        const uint32_t s = draw(SEQS), other = draw(SEQS), more = 1 + draw(3);
        if (draw(4) == 0) {
            must(lm_ctx_seq_remove(c, s, n[s] = draw(n[s] + 1), &err));
        } else if (draw(8) == 0) {
            must(lm_ctx_seq_copy(c, s, other, &err));
            memcpy(ids[s], ids[other], sizeof ids[s]);
            n[s] = n[other];
        }
        if (n[s] + more > LONGEST)
            must(lm_ctx_seq_remove(c, s, n[s] = 0, &err));
        for (uint32_t i = 0; i < more; i++) {
            ids[s][n[s]] = few[draw(6)];
            t[i] = (struct lm_batch_token){ ids[s][n[s]], s, n[s], i + 1 == more };
            n[s]++;
        }
        must(lm_ctx_decode(c, t, more, &err));
        for (uint32_t i = 0; i < n[s]; i++)
            t[i] = (struct lm_batch_token){ ids[s][i], 7, i, i + 1 == n[s] };
        must(lm_ctx_decode(fresh, t, n[s], &err));
        assert_memory_equal(lm_ctx_logits(c, more - 1), lm_ctx_logits(fresh, n[s] - 1),
                            lm_ctx_row_len(c) * sizeof(float));
        must(lm_ctx_seq_remove(fresh, 7, 0, &err));
    }
    lm_ctx_free(c);
    lm_ctx_free(fresh);
    lm_adapter_free(adapter);
    lm_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_part_of_windows),
        cmocka_unit_test(test_part_of_states),
        cmocka_unit_test(test_part_of_nothing),
        cmocka_unit_test(test_divided),
        cmocka_unit_test(test_part_of_divided),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_rotations),
        cmocka_unit_test(test_swapped),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_any_way),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
