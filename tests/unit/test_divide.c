/* SPDX-License-Identifier: MIT */
/* Dividing the positions of a sequence: logits of what follows against those of transformers, and
 * what becomes of a divided sequence when it is copied or cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/ctx_impl.h"
#include "open_model.h"

#define MODEL  "tests/data/m.gguf"
#define LOGITS "tests/data/divided.npy"
enum { VOCAB = 368, STAGES = 4, LAST = 4, CTX = 200 };

static float reference[STAGES][LAST][VOCAB], got[STAGES][LAST][VOCAB];
static struct lm_err err;

static int setup(void **state)
{
    FILE *f = fopen(LOGITS, "rb");
    (void)state;
    return !f || fseek(f, 128, SEEK_SET) ||
           fread(reference, sizeof *reference, STAGES, f) != STAGES || fclose(f);
}

static void must(int code)
{
    if (code)
        fail_msg("%s", err.text);
}

static struct lm_ctx *context(struct lm_model *m, uint32_t ubatch, uint32_t cache)
{
    const struct lm_type *type = lm_type_by_id(cache);
    struct lm_ctx_options o = {
        .n_ctx = CTX, .n_batch = 64, .n_ubatch = ubatch, .cache_k = type, .cache_v = type,
    };
    return open_context(m, &o);
}

/* The next n tokens of a sequence, beginning with number `first` of all that the reference has;
 * the logits of the last four. */
static void go_on(struct lm_ctx *c, uint32_t seq, uint32_t first, uint32_t n,
                  float (*out)[VOCAB])
{
    struct lm_batch_token t[64];
    const uint32_t had = lm_ctx_seq_len(c, seq);
    for (uint32_t i = 0; i < n; i++)
        t[i] = (struct lm_batch_token){ (int32_t)((first + i) * 37 % 360), seq, had + i,
                                        i + LAST >= n };
    must(lm_ctx_decode(c, t, n, &err));
    for (uint32_t i = 0; i < LAST && out; i++)
        memcpy(out[i], lm_ctx_logits(c, n - LAST + i), sizeof *out);
}

/* What tests/golden/make-divided does. */
static void stages(struct lm_ctx *c, float (*out)[LAST][VOCAB])
{
    go_on(c, 3, 0, 24, NULL);
    must(lm_ctx_seq_divide(c, 3, 3, 19, 3, &err));
    go_on(c, 3, 24, 12, out[0]);
    must(lm_ctx_seq_divide(c, 3, 10, 30, 2, &err));
    go_on(c, 3, 36, 10, out[1]);
    must(lm_ctx_seq_shift(c, 3, 5, 12, &err));
    go_on(c, 3, 46, 6, out[2]);
    must(lm_ctx_seq_remove(c, 3, 24, &err));
    go_on(c, 3, 52, 5, out[3]);
}

static void test_reference(void **state)
{
    struct lm_model *m = open_model(MODEL, NULL);
    (void)state;
    for (uint32_t ubatch = 1; ubatch <= 64; ubatch *= 8)
        for (uint32_t f16 = 0; f16 < 2; f16++) {
            struct lm_ctx *c = context(m, ubatch, f16 ? LM_F16 : LM_F32);
            stages(c, got);
            for (size_t i = 0; i < STAGES * LAST * VOCAB; i++) {
                const size_t row = i / VOCAB, k = i % VOCAB;
                const float x = got[row / LAST][row % LAST][k];
                const float want = reference[row / LAST][row % LAST][k];
                if (!(fabsf(x - want) <= (f16 ? 2e-2f : 1e-4f)))
                    fail_msg("row %zu, id %zu: %g, wanted %g", row, k, (double)x, (double)want);
            }
            lm_ctx_free(c);
        }
    lm_model_free(m);
}

/* The positions that tokens are rotated by. */
static void test_angles(void **state)
{
    static const uint32_t want[][2] = {         /* position, angle */
        { 2, 2 }, { 3, 3 }, { 5, 3 }, { 6, 4 }, { 18, 8 }, { 19, 9 }, { 23, 13 }, { 24, 14 },
        { 100, 90 },
    };
    struct lm_model *m = open_model(MODEL, NULL);
    struct lm_ctx *c = context(m, 64, LM_F16);
    (void)state;
    go_on(c, 1, 0, 24, NULL);
    assert_int_equal(lm_ctx_seq_angle(c, 1, 24), 24);
    must(lm_ctx_seq_divide(c, 1, 3, 19, 3, &err));
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(lm_ctx_seq_angle(c, 1, want[i][0]), want[i][1]);
    assert_int_equal(lm_ctx_seq_len(c, 1), 24);
    assert_int_equal(lm_ctx_seq_angle(c, 2, 24), 24);
    must(lm_ctx_seq_remove(c, 1, 4, &err));
    assert_int_equal(lm_ctx_seq_angle(c, 1, 4), 4);
    must(lm_ctx_seq_remove(c, 1, 0, &err));
    assert_int_equal(lm_ctx_seq_angle(c, 1, 24), 24);
    lm_ctx_free(c);
    lm_model_free(m);
}

/* A copy does not change with its original, and goes on as it would have. */
static void test_copies(void **state)
{
    struct lm_model *m = open_model(MODEL, NULL);
    struct lm_ctx *c = context(m, 64, LM_F16), *fresh = context(m, 64, LM_F16);
    (void)state;
    go_on(c, 1, 0, 60, NULL);
    go_on(fresh, 1, 0, 60, NULL);
    must(lm_ctx_seq_copy(c, 2, 1, &err));
    must(lm_ctx_seq_divide(c, 2, 8, 60, 4, &err));
    must(lm_ctx_seq_copy(c, 3, 2, &err));
    go_on(c, 1, 60, 6, got[0]);
    go_on(fresh, 1, 60, 6, got[1]);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    go_on(c, 2, 60, 6, got[0]);
    assert_true(memcmp(got[0], got[1], sizeof got[0]) != 0);
    go_on(c, 3, 60, 6, got[1]);
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    lm_ctx_free(c);
    lm_ctx_free(fresh);
    lm_model_free(m);
}

/* Positions that no division makes, as a file may say. */
static void test_impossible(void **state)
{
    struct lm_model *m = open_model(MODEL, NULL);
    struct lm_ctx *c = context(m, 64, LM_F16);
    const uint32_t ups[] = { 0, 0, 1, 2, 2 }, begins[] = { 1, 2 }, jumps[] = { 0, 2 };
    (void)state;
    go_on(c, 1, 0, 6, NULL);
    must(lm_memory_set_angles(c->memory, 1, ups, 5, &err));
    assert_int_equal(lm_ctx_seq_angle(c, 1, 6), 4);
    assert_int_equal(lm_memory_set_angles(c->memory, 1, begins, 2, &err), LM_EDATA);
    assert_int_equal(lm_memory_set_angles(c->memory, 1, jumps, 2, &err), LM_EDATA);
    assert_int_equal(lm_memory_set_angles(c->memory, 2, ups, 5, &err), LM_EDATA);
    must(lm_ctx_seq_remove(c, 1, 4, &err));
    assert_int_equal(lm_memory_set_angles(c->memory, 1, ups, 5, &err), LM_EDATA);
    assert_int_equal(lm_memory_n_angles(c->memory, 1), 4);
    lm_ctx_free(c);
    lm_model_free(m);
}

static void test_refused(void **state)
{
    static const char *const others[] = {
        "tests/data/recurrent/qwen35.gguf", "tests/data/recurrent/rwkv7.gguf",
    };
    struct lm_model *m = open_model(MODEL, NULL);
    struct lm_ctx *c = context(m, 64, LM_F16);
    (void)state;
    go_on(c, 1, 0, 30, NULL);
    assert_int_equal(lm_ctx_seq_divide(c, 1, 3, 31, 2, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_divide(c, 1, 9, 8, 2, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_divide(c, 1, 3, 9, 0, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_divide(c, 2, 0, 1, 2, &err), LM_EUSE);
    must(lm_ctx_seq_divide(c, 1, 3, 9, 1, &err));
    must(lm_ctx_seq_divide(c, 1, 3, 4, 2, &err));
    assert_int_equal(lm_ctx_seq_angle(c, 1, 30), 30);
    must(lm_ctx_seq_divide(c, 1, 0, 30, UINT32_MAX, &err));
    assert_int_equal(lm_ctx_seq_angle(c, 1, 30), 1);
    lm_ctx_free(c);
    lm_model_free(m);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct lm_batch_token t[20];
        c = context(m = open_model(others[i], NULL), 64, LM_F16);
        for (uint32_t k = 0; k < 20; k++)
            t[k] = (struct lm_batch_token){ (int32_t)k + 3, 1, k, false };
        must(lm_ctx_decode(c, t, 20, &err));
        assert_int_equal(lm_ctx_seq_divide(c, 1, 3, 9, 2, &err), LM_ENOSUP);
        assert_int_equal(lm_ctx_seq_angle(c, 1, 20), 20);
        lm_ctx_free(c);
        lm_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference), cmocka_unit_test(test_angles),
        cmocka_unit_test(test_copies), cmocka_unit_test(test_impossible),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
