/* SPDX-License-Identifier: MIT */
/* Importance matrices: both forms read, the GGUF form written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf/importance.h"

#define GGUF   "tests/data/imatrix/imatrix.gguf"
#define LEGACY "tests/data/imatrix/imatrix.dat"

static struct lm_importance *read_path(const char *path, struct lm_err *err)
{
    struct lm_in *in = lm_in_open(path, 0, err);
    assert_non_null(in);
    struct lm_importance *m = lm_importance_read(in, err);
    lm_in_close(in);
    return m;
}

static char dir[] = "/tmp/test_importance.XXXXXX";

static const char *scratch(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void test_read(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_importance *m = read_path(GGUF, &err);
    assert_non_null(m);
    assert_int_equal(m->n, 2);
    assert_int_equal(m->chunk_count, 3);
    assert_int_equal(m->chunk_size, 512);
    assert_int_equal(m->n_datasets, 2);
    assert_string_equal(m->datasets[1], "b.txt");
    assert_false(m->legacy);
    const struct lm_importance_entry *e = lm_importance_find(m, "blk.1.ffn_up_exps.weight");
    assert_non_null(e);
    assert_int_equal(e->width, 2);
    assert_int_equal(e->n_mat, 3);
    static const float want[6] = { 0.5f, 1, 1, 1, 3, 1 };    /* nothing counted: 1 */
    float means[6];
    assert_int_equal(lm_importance_means(e, means, NULL), LM_OK);
    assert_memory_equal(means, want, sizeof want);
    assert_null(lm_importance_find(m, "blk.1.ffn_up_exps"));
    lm_importance_free(m);
}

static void test_legacy(void **state)
{
    (void)state;
    struct lm_err err;
    struct lm_importance *m = read_path(LEGACY, &err);
    assert_non_null(m);
    assert_true(m->legacy);
    assert_int_equal(m->n, 2);
    assert_string_equal(m->entries[0].name, "blk.0.a");
    assert_int_equal(m->chunk_count, 5);
    assert_string_equal(m->datasets[0], "d.txt");
    float v[2];
    assert_int_equal(lm_importance_means(&m->entries[0], v, NULL), LM_OK);
    assert_true(v[0] == 2 && v[1] == 0.5f);
    /* no calls: as it stands */
    assert_int_equal(lm_importance_means(&m->entries[1], v, NULL), LM_OK);
    assert_true(v[0] == 1 && v[1] == 3);
    lm_importance_free(m);
}

/* Sums that stay in the file are those that reading gives; numbers in it that became others are
 * seen when they are asked for. */
static void test_open(void **state)
{
    (void)state;
    static const char *const paths[] = { GGUF, LEGACY };
    struct lm_err err;
    for (int k = 0; k < 2; k++) {
        struct lm_in *in = lm_in_open(paths[k], 0, &err);
        assert_non_null(in);
        struct lm_importance *m = read_path(paths[k], &err), *o = lm_importance_open(in, &err);
        assert_non_null(m);
        assert_non_null(o);
        assert_int_equal(o->n, m->n);
        for (size_t i = 0; i < m->n; i++) {
            float a[8], b[8];
            const size_t n = (size_t)(m->entries[i].width * m->entries[i].n_mat);
            assert_true(n <= 8);
            assert_null(o->entries[i].sum2);
            assert_int_equal(lm_importance_means(&m->entries[i], a, NULL), LM_OK);
            assert_int_equal(lm_importance_means(&o->entries[i], b, &err), LM_OK);
            assert_memory_equal(a, b, n * sizeof *a);
        }
        lm_importance_free(m);
        lm_importance_free(o);
        lm_in_close(in);
    }
}

static void spoil(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fwrite("\xff\xff\xff\xff", 1, 4, f), 4);
    assert_int_equal(fclose(f), 0);
}

static char *slurp(const char *path, size_t *n)
{
    char *p;
    struct lm_err err;
    assert_int_equal(lm_read_file(path, 1 << 20, &p, n, &err), LM_OK);
    return p;
}

/* What was read is written back as it was. */
static void test_write(void **state)
{
    (void)state;
    struct lm_err err;
    size_t n, m;
    struct lm_importance *imp = read_path(GGUF, &err);
    struct lm_out *out = lm_out_open(scratch("out"), &err);
    assert_non_null(out);
    assert_int_equal(lm_importance_write(imp, out, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    lm_importance_free(imp);
    char *want = slurp(GGUF, &n), *got = slurp(scratch("out"), &m);
    assert_int_equal(m, n);
    assert_memory_equal(got, want, n);
    free(want);
    free(got);
    unlink(scratch("out"));
}

static void test_order(void **state)
{
    (void)state;
    static const char *const names[] = { "m", "z", "a", "blk.10.x", "blk.2.x" };
    static const char *const sorted[] = { "a", "blk.10.x", "blk.2.x", "m", "z" };
    struct lm_importance *m = lm_importance_new();
    for (int i = 0; i < 5; i++)
        assert_non_null(lm_importance_add(m, names[i], 3, 2));
    for (int i = 0; i < 5; i++) {
        assert_string_equal(m->entries[i].name, sorted[i]);
        assert_true(m->entries[i].sum2[5] == 0 && m->entries[i].counts[1] == 0);
    }
    assert_null(lm_importance_add(m, "huge", UINT64_MAX, 2));
    lm_importance_free(m);
}

static void put(const char *data, size_t n)
{
    FILE *f = fopen(scratch("cut"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

/* Every cut of a file is refused (the old form has one length at which it is whole), as is
 * a number that cannot be. */
static void test_changed(void **state)
{
    (void)state;
    struct lm_err err;
    float v[8];
    size_t n;
    char *data = slurp(GGUF, &n);
    FILE *f = fopen(scratch("changed"), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(data);
    struct lm_in *in = lm_in_open(scratch("changed"), 0, &err);
    assert_non_null(in);
    struct lm_importance *m = lm_importance_open(in, &err);
    assert_non_null(m);
    spoil(scratch("changed"), (long)m->entries[1].at + 4);
    assert_int_equal(lm_importance_means(&m->entries[0], v, &err), LM_OK);
    assert_int_equal(lm_importance_means(&m->entries[1], v, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "number 1 is"));
    lm_importance_free(m);
    lm_in_close(in);
    unlink(scratch("changed"));
}

static void test_broken(void **state)
{
    (void)state;
    static const char *const files[] = { GGUF, LEGACY };
    struct lm_err err;
    for (int f = 0; f < 2; f++) {
        size_t size, whole = 0;
        char *data = slurp(files[f], &size);
        for (size_t n = 0; n < size - (f ? 0 : 20); n++) {   /* padding at the end */
            put(data, n);
            struct lm_importance *m = read_path(scratch("cut"), &err);
            whole += m != NULL;
            if (!m)
                assert_int_equal(err.code, LM_EDATA);
            lm_importance_free(m);
        }
        assert_int_equal(whole, f);
        size_t at = f ? size - 17 : size - 32 - 32;         /* the last value; a sum */
        memcpy(data + at, "\0\0\xc0\x7f", 4);
        put(data, size);
        assert_null(read_path(scratch("cut"), &err));
        assert_int_equal(err.code, LM_EDATA);
        memcpy(data + at, "\0\0\x80\xbf", 4);
        put(data, size);
        assert_null(read_path(scratch("cut"), &err));
        free(data);
    }
    assert_null(read_path("tests/data/m.gguf", &err));
    assert_non_null(strstr(err.text, "general.type"));
    unlink(scratch("cut"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),   cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_open),   cmocka_unit_test(test_changed),
        cmocka_unit_test(test_write),  cmocka_unit_test(test_order),
        cmocka_unit_test(test_broken),
    };
    if (!mkdtemp(dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return failed;
}
