/* SPDX-License-Identifier: MIT */
/* Importance matrices measured on a small model against sums computed elsewhere, added,
 * and described. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/imatrix.h"
#include "stream/tokens.h"

static struct lm_importance *read_path(const char *path)
{
    struct lm_err err;
    struct lm_in *in = lm_in_open(path, 0, &err);
    assert_non_null(in);
    struct lm_importance *m = lm_importance_read(in, &err);
    assert_non_null(m);
    lm_in_close(in);
    return m;
}

/* ---- measuring ------------------------------------------------------------------- */

static size_t read_tokens(const char *path, int32_t **ids)
{
    struct lm_err err;
    size_t n = 0, cap = 0;
    struct lm_in *in = lm_in_open(path, 0, &err);
    assert_non_null(in);
    struct lm_token_reader *r = lm_token_reader_new(in, &err);
    assert_non_null(r);
    *ids = NULL;
    assert_int_equal(lm_token_read_line(r, ids, &n, &cap, &err), 1);
    lm_token_reader_free(r);
    lm_in_close(in);
    return n;
}

struct run {
    struct lm_imatrix_options o;
    int                       n_threads;
    const char               *model, *tokens;       /* NULL: m.gguf, tokens.txt */
    double                    ppl, error;
    uint64_t                  seen, done;
    size_t                    unseen, of;           /* matrices of experts */
};

static struct lm_importance *measure(struct run *r)
{
    struct lm_err err;
    int32_t *ids;
    size_t n = read_tokens(r->tokens ? r->tokens : "tests/data/imatrix/tokens.txt", &ids);
    const struct lm_env env = { .n_threads = r->n_threads };
    struct lm_model *model = lm_model_load(r->model ? r->model : "tests/data/m.gguf", NULL, &env,
                                           &err);
    assert_non_null(model);
    struct lm_imatrix *im = lm_imatrix_new(model, &r->o, &env, &err);
    assert_non_null(im);
    assert_int_equal(lm_imatrix_add(im, "tokens.txt", ids, n, &err), LM_OK);
    r->seen = lm_imatrix_seen(im);
    r->done = lm_imatrix_done(im);
    r->unseen = lm_imatrix_unseen(im, &r->of);
    if (!lm_imatrix_ppl(im, &r->ppl, &r->error))
        r->ppl = 0;
    struct lm_importance *m = lm_imatrix_result(im, &err);
    assert_non_null(m);
    lm_imatrix_free(im);
    lm_model_free(model);
    free(ids);
    return m;
}

static void assert_close(const struct lm_importance_entry *got,
                         const struct lm_importance_entry *want)
{
    assert_non_null(got);
    assert_int_equal(got->width, want->width);
    assert_int_equal(got->n_mat, want->n_mat);
    for (uint64_t k = 0; k < want->n_mat; k++)
        assert_true(got->counts[k] == want->counts[k]);
    const uint64_t n = want->width * want->n_mat;
    double mean = 0;
    for (uint64_t i = 0; i < n; i++)
        mean += want->sum2[i] / (double)n;
    for (uint64_t i = 0; i < n; i++)
        if (fabs((double)got->sum2[i] - want->sum2[i]) > 1e-4 * (want->sum2[i] + 1e-3 * mean))
            fail_msg("%s: column %d: %g, not %g", want->name, (int)i, (double)got->sum2[i],
                     (double)want->sum2[i]);
}

static void test_sums(void **state)
{
    (void)state;
    struct run r = { .o = { .chunk = 16, .bos = 360, .process_output = true }, .n_threads = 2 };
    struct lm_importance *got = measure(&r), *want = read_path("tests/data/imatrix/sums.gguf");
    assert_int_equal(got->n, want->n);
    for (size_t i = 0; i < want->n; i++)
        assert_close(lm_importance_find(got, want->entries[i].name), &want->entries[i]);
    assert_int_equal(got->chunk_count, 3);
    assert_int_equal(got->chunk_size, 16);
    assert_int_equal(got->n_datasets, 1);
    assert_string_equal(got->datasets[0], "tokens.txt");
    double ppl = 0;
    FILE *f = fopen("tests/data/imatrix/perplexity.txt", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lf", &ppl), 1);
    fclose(f);
    assert_true(fabs(r.ppl - ppl) < 0.002 * ppl);
    assert_true(r.error > 0 && r.error < ppl);
    lm_importance_free(got);
    lm_importance_free(want);
}

/* Every expert has sums and a count of its own; one that no token has gives no NaN. */
static void test_experts(void **state)
{
    (void)state;
    struct run r = {
        .o = { .chunk = 8, .bos = -1 }, .n_threads = 2, .model = "tests/data/imatrix/moe.gguf",
        .tokens = "tests/data/imatrix/moe-tokens.txt",
    };
    for (r.n_threads = 1; r.n_threads <= 3; r.n_threads++) {
        struct lm_importance *got = measure(&r);
        struct lm_importance *want = read_path("tests/data/imatrix/moe-sums.gguf");
        assert_int_equal(got->n, want->n);
        for (size_t i = 0; i < want->n; i++)
            assert_close(lm_importance_find(got, want->entries[i].name), &want->entries[i]);
        const struct lm_importance_entry *e =
            lm_importance_find(got, "blk.0.ffn_up_exps.weight");
        assert_true(e->counts[5] == 0 && e->sum2[5 * e->width] == 0);
        float *means = malloc((size_t)(e->width * e->n_mat) * sizeof *means);
        assert_int_equal(lm_importance_means(e, means, NULL), LM_OK);
        assert_true(means[5 * e->width + 1] == 1);
        assert_int_equal(r.unseen, 3);
        assert_int_equal(r.of, 24);
        free(means);
        lm_importance_free(got);
        lm_importance_free(want);
    }
}

static void assert_same(const struct lm_importance *a, const struct lm_importance *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->entries[i].name, b->entries[i].name);
        assert_memory_equal(a->entries[i].sum2, b->entries[i].sum2,
                            a->entries[i].width * sizeof(float));
        assert_true(a->entries[i].counts[0] == b->entries[i].counts[0]);
    }
}

static void test_threads(void **state)
{
    (void)state;
    struct run one = { .o = { .chunk = 16, .bos = 360, .no_ppl = true }, .n_threads = 1 };
    struct run three = one;
    three.n_threads = 3;
    struct lm_importance *a = measure(&one), *b = measure(&three);
    assert_int_equal(a->n, 14);                  /* without the output matrix */
    assert_true(one.ppl == 0);
    assert_same(a, b);
    lm_importance_free(a);
    lm_importance_free(b);
}

/* The three chunks one by one, added, are the three together. */
static void test_parts(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_importance *part[3];
    static const char *const names[3] = { "0", "1", "2" };
    struct run all = { .o = { .chunk = 16, .bos = -1, .no_ppl = true }, .n_threads = 1 };
    for (uint64_t k = 0; k < 3; k++) {
        struct run r = all;
        r.o.from_chunk = k;
        r.o.n_chunks = 1;
        part[k] = measure(&r);
        assert_int_equal(r.done, 1);
        assert_int_equal(part[k]->chunk_count, 1);
    }
    struct lm_importance *want = measure(&all);
    struct lm_importance *got =
        lm_imatrix_merge((const struct lm_importance *const *)part, names, NULL, 3, &err);
    assert_non_null(got);
    assert_int_equal(got->chunk_count, 3);
    for (size_t i = 0; i < want->n; i++)
        assert_close(lm_importance_find(got, want->entries[i].name), &want->entries[i]);
    struct run none = all;
    none.o.from_chunk = 3;
    struct lm_importance *empty = measure(&none);
    assert_int_equal(none.seen, 3);
    assert_int_equal(none.done, 0);
    assert_int_equal(empty->n, 0);
    lm_importance_free(empty);
    lm_importance_free(got);
    lm_importance_free(want);
    for (int k = 0; k < 3; k++)
        lm_importance_free(part[k]);
}

/* ---- adding ----------------------------------------------------------------------- */

static struct lm_importance *make(const char *dataset, uint32_t chunks, uint32_t size)
{
    struct lm_err err;
    struct lm_importance *m = lm_importance_new();
    assert_non_null(m);
    m->chunk_count = chunks;
    m->chunk_size = size;
    assert_int_equal(lm_importance_set_datasets(m, &dataset, 1, &err), LM_OK);
    return m;
}

static void put(struct lm_importance *m, const char *name, float a, float b, float count)
{
    struct lm_importance_entry *e = lm_importance_add(m, name, 2, 1);
    assert_non_null(e);
    e->sum2[0] = a;
    e->sum2[1] = b;
    e->counts[0] = count;
}

static void test_merge(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_importance *m[3] = { make("b", 2, 512), make("a", 3, 128), make("b", 1, 384) };
    put(m[0], "blk.0.x", 1, 0x1p24f, 10);
    put(m[1], "blk.0.x", 2, 1, 20);
    put(m[2], "blk.0.x", 4, 1, 30);
    put(m[1], "blk.1.y", 7, 8, 5);
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    for (int k = 0; k < 6; k++) {
        const struct lm_importance *in[3];
        static const char *const names[3] = { "A", "B", "C" };
        for (int i = 0; i < 3; i++)
            in[i] = m[orders[k][i]];
        struct lm_importance *s = lm_imatrix_merge(in, names, NULL, 3, &err);
        assert_non_null(s);
        assert_int_equal(s->n, 2);
        assert_true(s->entries[0].sum2[0] == 7 && s->entries[0].counts[0] == 60);
        assert_true(s->entries[0].sum2[1] == 0x1p24f + 2);   /* in any order */
        assert_true(s->entries[1].sum2[1] == 8 && s->entries[1].counts[0] == 5);
        assert_int_equal(s->chunk_size, 128);
        assert_int_equal(s->chunk_count, 8 + 3 + 3);
        assert_int_equal(s->n_datasets, 2);
        assert_string_equal(s->datasets[0], "a");
        assert_string_equal(s->datasets[1], "b");
        lm_importance_free(s);
    }
    for (int i = 0; i < 3; i++)
        lm_importance_free(m[i]);
}

static void test_merge_refused(void **state)
{
    (void)state;
    struct lm_err err;
    static const char *const names[2] = { "A", "B" };
    struct lm_importance *m[2] = { make("a", 1, 512), make("b", 1, 512) };
    put(m[0], "blk.0.x", 1, 2, 3);
    assert_non_null(lm_importance_add(m[1], "blk.0.x", 3, 1));
    const struct lm_importance *in[2] = { m[0], m[1] };
    assert_null(lm_imatrix_merge(in, names, NULL, 2, &err));
    assert_int_equal(err.code, LM_EDATA);
    assert_string_equal(err.text, "B: blk.0.x: 3x1 here, 2x1 in A");
    m[1]->legacy = true;
    assert_null(lm_imatrix_merge(in, names, NULL, 2, &err));
    assert_int_equal(err.code, LM_ENOSUP);
    lm_importance_free(m[0]);
    lm_importance_free(m[1]);
}

/* ---- describing ------------------------------------------------------------------- */

static void test_stats(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_imatrix_stats s;
    struct lm_importance *m = make("a", 1, 512);
    struct lm_importance_entry *e = lm_importance_add(m, "blk.2.w", 4, 1);
    memcpy(e->sum2, (const float[]){ 2, 2, 4, 0 }, 16);      /* means 1 1 2 0 */
    e->counts[0] = 2;
    e = lm_importance_add(m, "blk.3.w", 4, 1);
    memcpy(e->sum2, (const float[]){ 0, 0, 0, 6 }, 16);
    e->counts[0] = 3;
    assert_int_equal(lm_imatrix_entry_stats(m, 0, &s, &err), LM_OK);
    assert_true(s.sum == 4 && s.mean == 1 && s.min == 0 && s.max == 2);
    assert_true(fabs(s.deviation - sqrt(0.5)) < 1e-12);
    assert_true(s.active == 0.75 && s.outliers == 0.25);
    assert_true(fabs(s.entropy - 1.5) < 1e-12 && fabs(s.evenness - 0.75) < 1e-12);
    assert_true(isnan(s.cosine));
    assert_int_equal(lm_imatrix_entry_stats(m, 1, &s, &err), LM_OK);
    assert_true(s.entropy == 0 && s.cosine == 0);
    lm_importance_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),  cmocka_unit_test(test_experts),
         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_parts), cmocka_unit_test(test_merge),
        cmocka_unit_test(test_merge_refused), cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
