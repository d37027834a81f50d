/* SPDX-License-Identifier: MIT */
/* Cutting and joining models, and editing metadata, on models of many small tensors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gguf/edit.h"
#include "gguf/split.h"

#define N_TENSORS 300

static char dir[] = "/tmp/test_split.XXXXXX";
static char whole[64], prefix[64], again[64];

/* Tensor i has 1 + i % 9 floats, each i. */
static uint64_t length(int i)
{
    return (uint64_t)(1 + i % 9);
}

static void write_model(void)
{
    struct lm_err err;
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open(whole, &err);
    assert_non_null(out);
    lm_gguf_set_str(w, "general.architecture", "none", 4);
    lm_gguf_set_u32(w, "none.count", N_TENSORS);
    for (int i = 0; i < N_TENSORS; i++) {
        char name[16];
        const int n = snprintf(name, sizeof name, "t.%d", i);
        const uint64_t ne = length(i);
        lm_gguf_add_tensor(w, name, (size_t)n, 1, &ne, lm_type_by_id(LM_F32));
    }
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_OK);
    for (int i = 0; i < N_TENSORS; i++) {
        const float x = (float)i;
        for (uint64_t k = 0; k < length(i); k++)
            assert_int_equal(lm_out_write(out, &x, sizeof x, &err), LM_OK);
        assert_int_equal(lm_gguf_write_pad(w, out, 4 * length(i), &err), LM_OK);
    }
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    lm_gguf_writer_free(w);
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(whole, sizeof whole, "%s/whole.gguf", dir);
    snprintf(prefix, sizeof prefix, "%s/part", dir);
    snprintf(again, sizeof again, "%s/again.gguf", dir);
    write_model();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(whole);
    unlink(again);
    return rmdir(dir);
}

static void assert_same_file(const char *a, const char *b)
{
    struct lm_err err;
    char *p, *q;
    size_t n, m;
    assert_int_equal(lm_read_file(a, 1 << 24, &p, &n, &err), LM_OK);
    assert_int_equal(lm_read_file(b, 1 << 24, &q, &m, &err), LM_OK);
    assert_int_equal(n, m);
    assert_memory_equal(p, q, n);
    free(p);
    free(q);
}

/* A plan for the whole model; the caller frees both. */
static struct lm_split *plan(const struct lm_split_options *o, struct lm_in **in)
{
    struct lm_err err;
    *in = lm_in_open(whole, 0, &err);
    assert_non_null(*in);
    struct lm_split *s = lm_split_open(*in, 0, NULL, &err);
    assert_non_null(s);
    assert_false(lm_split_is_shard(s));
    assert_int_equal(lm_split_plan(s, o, NULL, &err), LM_OK);
    return s;
}

static void by_number(void **state)
{
    static const uint64_t want[] = { 128, 128, 44 };
    struct lm_split_options o = { .max_tensors = 128 };
    struct lm_in *in;
    (void)state;
    struct lm_split *s = plan(&o, &in);
    assert_int_equal(s->n_shards, 3);
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(s->shards[k].g.n_tensors, want[k]);
    lm_split_free(s);
    lm_in_close(in);
    o.no_tensor_first = true;
    s = plan(&o, &in);
    assert_int_equal(s->n_shards, 4);
    assert_int_equal(s->shards[0].g.n_tensors, 0);
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(s->shards[k + 1].g.n_tensors, want[k]);
    lm_split_free(s);
    lm_in_close(in);
}

/* The layout's arithmetic, done again: a header of 24 bytes; of an entry, 12 and the key and
 * the value; of an info with one dimension, 32 and the name. */
static uint64_t info_bytes(int i)
{
    char name[16];
    return 32 + (uint64_t)snprintf(name, sizeof name, "t.%d", i);
}

static uint64_t up(uint64_t n)
{
    return (n + 31) / 32 * 32;
}

static void by_size(void **state)
{
    static const uint64_t limits[] = { 500, 1000, 5000, 1000000 };
    const uint64_t split_keys = 3 * 12 + 8 + 11 + 19 + 2 + 2 + 4;
    const uint64_t other_keys = 2 * 12 + 20 + 8 + 4 + 10 + 4;
    (void)state;
    for (size_t c = 0; c < sizeof limits / sizeof *limits; c++) {
        struct lm_split_options o = { .max_size = limits[c] };
        struct lm_in *in;
        struct lm_split *s = plan(&o, &in);
        int i = 0;
        for (size_t k = 0; k < s->n_shards; k++) {
            uint64_t head = 24 + split_keys + (k ? 0 : other_keys), data = 0;
            for (uint64_t n = s->shards[k].g.n_tensors; n; n--, i++) {
                head += info_bytes(i);
                data += up(4 * length(i));
            }
            assert_int_equal(s->shards[k].size, up(head) + data);
            assert_true(s->shards[k].size <= limits[c]);
            if (i < N_TENSORS)
                assert_true(up(head + info_bytes(i)) + data + up(4 * length(i)) > limits[c]);
        }
        assert_int_equal(i, N_TENSORS);
        lm_split_free(s);
        lm_in_close(in);
    }
}

/* Cut, join, and compare. */
static void there_and_back(void **state)
{
    struct lm_err err;
    const struct lm_split_options cut = { .max_size = 2000 }, join = { .merge = true };
    struct lm_in *in;
    (void)state;
    struct lm_split *s = plan(&cut, &in);
    const size_t n = s->n_shards;
    assert_true(n > 10);
    for (size_t k = 0; k < n; k++) {
        char *path = lm_split_path(prefix, k, n);
        struct lm_out *out = lm_out_open(path, &err);
        assert_non_null(out);
        assert_int_equal(lm_split_write(s, k, out, NULL, &err), LM_OK);
        assert_int_equal(lm_out_pos(out), s->shards[k].size);
        assert_int_equal(lm_out_complete(out, &err), LM_OK);
        assert_int_equal(access(path, F_OK), -1);
        assert_int_equal(lm_out_commit(out, &err), LM_OK);
        assert_int_equal(access(path, F_OK), 0);
        free(path);
    }
    lm_split_free(s);
    lm_in_close(in);

    char *first = lm_split_path(prefix, 0, n);
    in = lm_in_open(first, 0, &err);
    s = lm_split_open(in, 0, NULL, &err);
    assert_non_null(s);
    assert_true(lm_split_is_shard(s));
    assert_int_equal(s->n_inputs, n);
    assert_int_equal(lm_split_plan(s, &join, NULL, &err), LM_OK);
    assert_int_equal(s->n_shards, 1);
    struct lm_out *out = lm_out_open(again, &err);
    assert_int_equal(lm_split_write(s, 0, out, NULL, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    assert_same_file(whole, again);
    lm_split_free(s);
    lm_in_close(in);
    free(first);
    for (size_t k = 0; k < n; k++) {
        char *path = lm_split_path(prefix, k, n);
        assert_int_equal(unlink(path), 0);
        free(path);
    }
}

static void paths(void **state)
{
    (void)state;
    char *p = lm_split_path("a/b", 6, 65535);
    assert_string_equal(p, "a/b-00007-of-65535.gguf");
    free(p);
}

/* ---- editing ------------------------------------------------------------- */

static struct lm_str str(const char *s)
{
    return (struct lm_str){ s, strlen(s) };
}

static void note(void *user, enum lm_level level, const char *text)
{
    (void)level;
    snprintf(user, 200, "%s", text);
}

static void edits(void **state)
{
    /* What each gives, or the failure, and the note. */
    static const struct {
        enum lm_edit_what what;
        const char       *key, *text;
        int               status;
        uint64_t          n_kv;
        const char       *said;
    } steps[] = {
        { LM_EDIT_SET, "", "a=u8:1", LM_OK, 3, "" },
        { LM_EDIT_SET, "", "a=i8:1", LM_OK, 3, "key a: was of type u8, is now i8" },
        { LM_EDIT_SET, "", "a=json:[1]", LM_OK, 3, "key a: was of type i8, is now arr" },
        { LM_EDIT_SET, "", "a=json:[\"x\"]", LM_OK, 3,
          "key a: was of type arr of i32, is now arr of str" },
        { LM_EDIT_FILE, "a", "[\"p\", \"q\"]", LM_OK, 3, "" },
        { LM_EDIT_FILE, "a", "[1]", LM_EDATA, 3, "" },
        { LM_EDIT_FILE, "none.count", "[1]", LM_EUSE, 3, "" },
        { LM_EDIT_FILE, "b", "[1]", LM_OK, 4, "" },
        { LM_EDIT_RENAME, "b", "a", LM_EUSE, 4, "" },
        { LM_EDIT_RENAME, "c", "d", LM_EDATA, 4, "" },
        { LM_EDIT_RENAME, "b", "c", LM_OK, 4, "" },
        { LM_EDIT_DELETE, "b", "", LM_EDATA, 4, "" },
        { LM_EDIT_DELETE, "c", "", LM_OK, 3, "" },
        { LM_EDIT_DELETE, "a", "", LM_OK, 2, "" },
    };
    struct lm_err err;
    char said[200];
    const struct lm_env env = { .user = said, .note = note };
    (void)state;
    struct lm_in *in = lm_in_open(whole, 0, &err);
    struct lm_editor *e = lm_editor_open(in, &err);
    assert_non_null(e);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const struct lm_edit edit = { steps[i].what, str(steps[i].key), str(steps[i].text), NULL };
        *said = 0;
        assert_int_equal(lm_editor_apply(e, &edit, &env, &err), steps[i].status);
        assert_int_equal(lm_editor_gguf(e)->n_kv, steps[i].n_kv);
        assert_string_equal(said, steps[i].said);
    }
    assert_int_equal(lm_editor_check(e, &env, &err), LM_OK);
    struct lm_out *out = lm_out_open(again, &err);
    assert_int_equal(lm_editor_write(e, out, &env, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    assert_same_file(whole, again);
    lm_editor_free(e);
    lm_in_close(in);
}

/* Arrays of every number type take JSON, and say no to what does not fit. */
static void elements(void **state)
{
    static const struct {
        const char *first;               /* an array by which the type is found */
        enum lm_gguf_kind kind;
        const char *good, *bad;
    } cases[] = {
        { "[1]", LM_GGUF_I32, "[-2147483648,2147483647]", "[2147483648]" },
        { "[4294967296]", LM_GGUF_I64, "[-9223372036854775808]", "[9223372036854775808]" },
        { "[0.5]", LM_GGUF_F32, "[1, 2.5, \"NaN\"]", "[true]" },
        { "[true]", LM_GGUF_BOOL, "[false,true]", "[1]" },
        { "[\"x\"]", LM_GGUF_STR, "[\"\",\"\\u00e9\\u0000\"]", "[null]" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_err err;
        char arg[40];
        snprintf(arg, sizeof arg, "k=json:%s", cases[i].first);
        struct lm_in *in = lm_in_open(whole, 0, &err);
        struct lm_editor *e = lm_editor_open(in, &err);
        const struct lm_edit set = { LM_EDIT_SET, str(""), str(arg), NULL };
        const struct lm_edit good = { LM_EDIT_FILE, str("k"), str(cases[i].good), NULL };
        const struct lm_edit bad = { LM_EDIT_FILE, str("k"), str(cases[i].bad), NULL };
        assert_int_equal(lm_editor_apply(e, &set, NULL, &err), LM_OK);
        assert_int_equal(lm_editor_apply(e, &good, NULL, &err), LM_OK);
        assert_int_equal(lm_editor_apply(e, &bad, NULL, &err), LM_EDATA);
        const struct lm_gguf_kv *kv = &lm_editor_gguf(e)->kv[2];
        assert_int_equal(kv->kind, LM_GGUF_ARR);
        assert_int_equal(kv->arr.kind, cases[i].kind);
        if (kv->arr.kind == LM_GGUF_STR) {
            const struct lm_str *s = kv->arr.data;
            assert_int_equal(kv->arr.n, 2);
            assert_int_equal(s[0].len, 0);
            assert_int_equal(s[1].len, 3);
            assert_memory_equal(s[1].p, "\303\251", 3);
        } else if (kv->arr.kind == LM_GGUF_I32) {
            assert_int_equal(((const int32_t *)kv->arr.data)[0], INT32_MIN);
        } else if (kv->arr.kind == LM_GGUF_I64) {
            assert_true(((const int64_t *)kv->arr.data)[0] == INT64_MIN);
        } else if (kv->arr.kind == LM_GGUF_F32) {
            const float *f = kv->arr.data;
            assert_true(f[0] == 1 && f[1] == 2.5f && f[2] != f[2]);
        } else {
            assert_memory_equal(kv->arr.data, "\0\1", 2);
        }
        lm_editor_free(e);
        lm_in_close(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_number), cmocka_unit_test(by_size),
        cmocka_unit_test(there_and_back), cmocka_unit_test(paths),
        cmocka_unit_test(edits), cmocka_unit_test(elements),
    };
    return cmocka_run_group_tests_name("split", tests, set_up, tear_down);
}
