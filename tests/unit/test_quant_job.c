/* SPDX-License-Identifier: MIT */
/* What quantize's options are made of: patterns over names, and metadata entries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gguf/kv_arg.h"
#include "job/pattern.h"

static void patterns(void **state)
{
    /* What an ECMAScript search says. */
    static const struct {
        const char *pattern, *name;
        bool        matches;
    } cases[] = {
        { "attn_q", "blk.0.attn_q.weight", true },
        { "ATTN_Q", "blk.0.attn_q.weight", true },
        { "attn_q", "BLK.0.ATTN_Q.WEIGHT", true },
        { "attn_q", "blk.0.attn_k.weight", false },
        { "blk\\.0\\.", "blk.0.x", true },
        { "blk\\.0\\.", "blk.00.x", false },
        { "blk.0.", "blk.00.x", true },
        { "^blk\\.[0-4]\\.", "blk.3.x", true },
        { "^lk", "blk.3.x", false },
        { "weight$", "a.weight", true },
        { "weight$", "a.weight.x", false },
        { "(?:up|gate)_exps", "ffn_gate_exps", true },
        { "(up|gate)_exps", "ffn_down_exps", false },
        { "\\d{2}", "blk.12.x", true },
        { "\\d{2}", "blk.1.x", false },
        { "\\D\\d+?\\D", ".123.", true },
        { "k\\w*?v", "k_abc_v", true },
        { "k\\W+v", "k_abc_v", false },
        { "[\\d\\-]x", "-x", true },
        { "[\\d\\-]x", "7x", true },
        { "[^\\]a]x", "ax", false },
        { "[^\\]a]x", "]x", false },
        { "[^\\]a]x", "bx", true },
        { "[\\]a]x", "]x", true },
        { "[.]x", "ax", false },
        { "a??b", "b", true },
        { "a\\/b", "a/b", true },
        { "a\\}b", "a}b", true },
        { "\\s", "a b", true },
        { "\\S", " ", false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_err err = { 0 };
        struct lm_pattern *p = lm_pattern_new(cases[i].pattern, strlen(cases[i].pattern), &err);
        if (!p)
            fail_msg("%s: %s", cases[i].pattern, err.text);
        if (lm_pattern_matches(p, cases[i].name) != cases[i].matches)
            fail_msg("%s on %s: wanted %d", cases[i].pattern, cases[i].name, cases[i].matches);
        lm_pattern_free(p);
    }
}

static void no_patterns(void **state)
{
    static const char *const cases[] = { "", "a\\", "[a", "[]", "[^]", "(a", "(?=a)", "(?!a)",
                                         "(?<=a)", "\\1", "\\b", "a\\", "[\\" };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_err err = { 0 };
        if (lm_pattern_new(cases[i], strlen(cases[i]), &err))
            fail_msg("%s is taken", cases[i]);
        assert_int_equal(err.code, LM_EUSE);
        assert_true(err.text[0]);
    }
}

static struct lm_gguf_kv entry(struct lm_arena *a, const char *arg)
{
    struct lm_gguf_kv kv = { 0 };
    struct lm_err err = { 0 };
    if (lm_kv_arg(arg, a, &kv, &err) != LM_OK)
        fail_msg("%s: %s", arg, err.text);
    return kv;
}

static void entries(void **state)
{
    struct lm_arena a = { 0 };
    (void)state;
    struct lm_gguf_kv kv = entry(&a, "a.b=u8:255");
    assert_string_equal(kv.key.p, "a.b");
    assert_int_equal(kv.key.len, 3);
    assert_int_equal(kv.kind, LM_GGUF_U8);
    assert_int_equal(kv.u, 255);
    kv = entry(&a, "k=i8:-128");
    assert_int_equal(kv.i, -128);
    kv = entry(&a, "k=u64:18446744073709551615");
    assert_true(kv.u == UINT64_MAX);
    kv = entry(&a, "k=i64:-9223372036854775808");
    assert_true(kv.i == INT64_MIN);
    kv = entry(&a, "k=int:-5");                  /* as llama.cpp writes it */
    assert_int_equal(kv.kind, LM_GGUF_U32);
    assert_int_equal(kv.u, 5);
    kv = entry(&a, "k=float:1.5");
    assert_int_equal(kv.kind, LM_GGUF_F32);
    assert_true(kv.f == 1.5);
    kv = entry(&a, "k=f32:0.1");
    assert_true((float)kv.f == 0.1f && kv.f != 0.1);
    kv = entry(&a, "k=f64:0.1");
    assert_true(kv.f == 0.1);
    kv = entry(&a, "k=bool:false");
    assert_int_equal(kv.kind, LM_GGUF_BOOL);
    assert_int_equal(kv.u, 0);
    kv = entry(&a, "k=str:a=b:c");
    assert_string_equal(kv.str.p, "a=b:c");
    kv = entry(&a, "k=str:");
    assert_int_equal(kv.str.len, 0);
    kv = entry(&a, "k=json:[1, -2]");
    assert_int_equal(kv.arr.kind, LM_GGUF_I32);
    assert_int_equal(((const int32_t *)kv.arr.data)[1], -2);
    kv = entry(&a, "k=json:[1, 4294967296]");
    assert_int_equal(kv.arr.kind, LM_GGUF_I64);
    assert_true(((const int64_t *)kv.arr.data)[1] == INT64_C(1) << 32);
    kv = entry(&a, "k=json:[1, 0.5]");
    assert_int_equal(kv.arr.kind, LM_GGUF_F32);
    assert_true(((const float *)kv.arr.data)[0] == 1 && ((const float *)kv.arr.data)[1] == 0.5f);
    kv = entry(&a, "k=json:[\"x\",\"\"]");
    assert_int_equal(kv.arr.kind, LM_GGUF_STR);
    assert_string_equal(((const struct lm_str *)kv.arr.data)[0].p, "x");
    kv = entry(&a, "k=json:[true]");
    assert_int_equal(kv.arr.kind, LM_GGUF_BOOL);
    kv = entry(&a, "k=json:[]");
    assert_int_equal(kv.arr.n, 0);
    lm_arena_release(&a);
}

static void no_entries(void **state)
{
    static const char *const cases[] = {
        "", "k", "k=", "=u8:1", "k=u8", "k=u8:", "k=u8:256", "k=u8:-1", "k=u8:1x", "k=i8:128",
        "k=i8:-129", "k=u64:18446744073709551616", "k=i64:9223372036854775808", "k=bool:1",
        "k=f32:", "k=f32:1,5", "k=f32:1e99", "k=int:4294967296", "k=int:1.5", "k=arr:1",
        "k=json:1", "k=json:[", "k=json:[1,\"a\"]", "k=json:[[1]]", "k=json:[null]", "k=u99:1",
        "k=longertype:1", "k=u16: 1",
    };
    struct lm_arena a = { 0 };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_gguf_kv kv;
        struct lm_err err = { 0 };
        if (lm_kv_arg(cases[i], &a, &kv, &err) != LM_EUSE)
            fail_msg("'%s' is taken", cases[i]);
        assert_true(err.text[0]);
    }
    lm_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns), cmocka_unit_test(no_patterns), cmocka_unit_test(entries),
        cmocka_unit_test(no_entries),
    };
    return cmocka_run_group_tests_name("quant_job", tests, NULL, NULL);
}
