/* SPDX-License-Identifier: MIT */
/* The mixes against what llama.cpp's quantize chose for synthetic models. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "not_here.h"
#include "base/json.h"
#include "io/input.h"
#include "quant/mix.h"

#define MAX_TENSORS 256

static uint32_t number(const struct lm_jval *kv, const char *arch, const char *key)
{
    char name[64];
    int64_t v = 0;
    snprintf(name, sizeof name, "%s.%s", arch, key);
    lm_jval_i64(lm_jval_get(kv, name), &v);
    return (uint32_t)v;
}

/* [name, [ne...], type] for each tensor. */
static size_t tensors_of(const struct lm_jval *list, struct lm_mix_tensor *t)
{
    size_t n = 0;
    for (const struct lm_jval *x = list->first; x; x = x->next, n++) {
        assert_true(n < MAX_TENSORS);
        int k = 0;
        t[n] = (struct lm_mix_tensor){ .name = lm_jval_str(x->first), .ne = { 1, 1, 1, 1 } };
        for (const struct lm_jval *d = x->first->next->first; d; d = d->next, k++) {
            int64_t v = 0;
            assert_true(lm_jval_i64(d, &v));
            t[n].ne[k] = (uint64_t)v;
        }
        t[n].source = lm_type_by_name(lm_jval_str(x->first->next->next));
        assert_non_null(t[n].source);
    }
    return n;
}

static const char *short_name(const char *model, const char *type)
{
    static char s[128];
    snprintf(s, sizeof s, "%s, %s", model, type);
    return s;
}

/* One file type of one model: the types wanted stand in the order of the rules. */
static void one_mix(const struct lm_jval *model, const struct lm_mix *numbers,
                    struct lm_mix_tensor *t, size_t n, const struct lm_jval *want)
{
    const char *label = short_name(lm_jval_str(lm_jval_get(model, "name")), want->key);
    size_t len = strcspn(want->key, "+"), order[MAX_TENSORS], i = 0;
    char type[32];
    struct lm_err err = { 0 };
    struct lm_mix m = *numbers;
    snprintf(type, sizeof type, "%.*s", (int)len, want->key);
    m.file_type = lm_file_type_by_name(type);
    m.have_weights = want->key[len] == '+';
    if (!m.file_type)
        fail_msg("%s: no such file type", label);

    int s = lm_mix_choose(&m, t, n, &err);
    if (want->kind == LM_JSON_OBJECT) {
        assert_int_equal(s, LM_EUSE);
        return;
    }
    if (s != LM_OK)
        fail_msg("%s: %s", label, err.text);
    assert_int_equal(lm_mix_order(t, n, order, &err), LM_OK);
    const struct lm_jval *name = lm_jval_get(model, "output_order")->first;
    for (const struct lm_jval *w = want->first; w; w = w->next, name = name->next, i++) {
        assert_string_equal(t[order[i]].name, lm_jval_str(name));
        if (strcmp(t[order[i]].target->name, lm_jval_str(w)))
            fail_msg("%s: %s: %s instead of %s", label, t[order[i]].name,
                     t[order[i]].target->name, lm_jval_str(w));
    }
    assert_int_equal(i, n);
}

static void mixes(void **state)
{
    const char *dir = getenv("LMPIPE_TEST_DATA");
    char path[512], *text;
    size_t len, n_models = 0, n_mixes = 0;
    struct lm_err err;
    struct lm_arena arena = { 0 };
    static struct lm_mix_tensor t[MAX_TENSORS];
    (void)state;
    snprintf(path, sizeof path, "%s/mixes.json.zst", dir ? dir : "tests/data");
    int s = lm_read_file(path, 1 << 24, &text, &len, &err);
    if (s == LM_ENOSUP)
        NOT_HERE("no zstd in this build");
    if (s != LM_OK)
        fail_msg("%s: %s", path, err.text);
    const struct lm_jval *all = lm_json_tree(&arena, text, len, &err);
    assert_non_null(all);
    for (const struct lm_jval *m = lm_jval_get(all, "models")->first; m; m = m->next, n_models++) {
        const struct lm_jval *kv = lm_jval_get(m, "kv");
        const char *arch = lm_jval_str(lm_jval_get(m, "arch"));
        struct lm_mix numbers = {
            .arch = arch,
            .n_layers = number(kv, arch, "block_count"),
            .n_experts = number(kv, arch, "expert_count"),
            .n_heads = number(kv, arch, "attention.head_count"),
            .n_heads_kv = number(kv, arch, "attention.head_count_kv"),
        };
        size_t n = tensors_of(lm_jval_get(m, "tensors"), t);
        for (const struct lm_jval *w = lm_jval_get(m, "target_types")->first; w; w = w->next) {
            one_mix(m, &numbers, t, n, w);
            n_mixes++;
        }
    }
    assert_int_equal(n_models, 7);
    assert_int_equal(n_mixes, 7 * 68);
    lm_arena_release(&arena);
    free(text);
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(lm_file_type_by_name("q4_k_m")->id, 15);
    assert_int_equal(lm_file_type_by_name("Q3_k")->id, 12);
    assert_int_equal(lm_file_type_by_name("0")->type, LM_F32);
    assert_string_equal(lm_file_type_by_name("17")->name, "Q5_K_M");
    assert_int_equal(lm_file_type_by_name("copy")->id, LM_FT_COPY);
    assert_null(lm_file_type_by_name("39"));        /* a value in files, no choice */
    assert_null(lm_file_type_by_name("4"));         /* retired */
    assert_null(lm_file_type_by_name("15x"));
    assert_null(lm_file_type_by_name(""));
    assert_null(lm_file_type_by_name("Q4_2"));
}

static const struct lm_type *q4_1_for_up(void *arg, const char *name)
{
    ++*(int *)arg;
    return strstr(name, "ffn_up") ? lm_type_by_id(LM_Q4_1) : NULL;
}

#define T(name_, type_, ...) { .name = name_, .ne = { __VA_ARGS__ }, .source = type_ }

/* What the user asks for comes before the rules, each in its place. */
static void wishes(void **state)
{
    const struct lm_type *f16 = lm_type_by_id(LM_F16), *q8 = lm_type_by_id(LM_Q8_0);
    struct lm_mix_tensor t[] = {
        T("token_embd.weight", f16, 256, 8, 1, 1), T("output.weight", f16, 256, 8, 1, 1),
        T("blk.0.ffn_up.weight", f16, 256, 8, 1, 1), T("blk.0.attn_v.weight", f16, 256, 8, 1, 1),
        T("blk.0.attn_norm.weight", f16, 256, 8, 1, 1), T("blk.0.attn_q.weight", f16, 96, 8, 1, 1),
        T("blk.0.attn_q.bias", f16, 256, 8, 1, 1), T("blk.0.attn_k.weight", f16, 256, 1, 1, 1),
    };
    struct lm_err err = { 0 };
    int calls = 0;
    struct lm_mix m = {
        .file_type = lm_file_type_by_name("Q4_K_M"), .arch = "llama", .n_layers = 1,
        .n_heads = 1, .n_heads_kv = 1, .embedding_type = q8,
        .output_type = lm_type_by_id(LM_Q5_0), .by_user = q4_1_for_up, .by_user_arg = &calls,
    };
    const size_t n = sizeof t / sizeof *t;
    (void)state;
    assert_int_equal(lm_mix_choose(&m, t, n, &err), LM_OK);
    assert_true(calls > 0);
    assert_string_equal(t[0].target->name, "q8_0");
    assert_string_equal(t[1].target->name, "q5_0");
    assert_string_equal(t[2].target->name, "q4_1");
    assert_string_equal(t[3].target->name, "q6_K");
    assert_ptr_equal(t[4].target, f16);
    assert_string_equal(t[5].target->name, "q5_0");
    assert_string_equal(t[5].wanted->name, "q4_K");
    assert_ptr_equal(t[6].target, f16);
    assert_ptr_equal(t[7].target, f16);

    m.pure = true;
    m.leave_output = true;
    m.output_type = NULL;
    assert_int_equal(lm_mix_choose(&m, t, n, &err), LM_OK);
    assert_ptr_equal(t[1].target, f16);
    assert_string_equal(t[2].target->name, "q4_1");
    assert_string_equal(t[3].target->name, "q4_K");

    t[0].ne[0] = 40;                       /* no fallback for a type given by name */
    assert_int_equal(lm_mix_choose(&m, t, n, &err), LM_EUSE);
    assert_non_null(strstr(err.text, "token_embd.weight: rows of 40 weights"));

    t[0].ne[0] = 256;
    m.pure = false;
    m.n_experts = 4;
    t[2].name = "ffn_down_exps.weight";    /* an expert tensor of no layer */
    m.by_user = NULL;
    assert_int_equal(lm_mix_choose(&m, t, n, &err), LM_EDATA);
}

static void importance(void **state)
{
    const struct lm_type *f16 = lm_type_by_id(LM_F16);
    struct lm_mix_tensor t[] = {
        T("token_embd.weight", f16, 256, 8, 1, 1), T("blk.0.ffn_up.weight", f16, 256, 8, 1, 1),
        T("blk.0.ffn_gate.weight", f16, 96, 8, 1, 1),
    };
    struct lm_err err = { 0 };
    struct lm_mix m = { .file_type = lm_file_type_by_name("IQ2_XS"), .arch = "llama",
                        .n_layers = 1, .embedding_type = lm_type_by_id(LM_IQ2_XS) };
    (void)state;
    assert_int_equal(lm_mix_choose(&m, t, 3, &err), LM_OK);
    assert_false(t[0].needs_weights);
    assert_true(t[1].needs_weights);
    assert_false(t[2].needs_weights);      /* fell back to iq4_nl */
    m.file_type = lm_file_type_by_name("Q2_K");
    assert_int_equal(lm_mix_choose(&m, t, 3, &err), LM_OK);
    assert_false(t[1].needs_weights);
    m.file_type = lm_file_type_by_name("Q2_K_S");
    assert_int_equal(lm_mix_choose(&m, t, 3, &err), LM_OK);
    assert_true(t[1].needs_weights);
}

static void guess(void **state)
{
    const struct lm_type *f16 = lm_type_by_id(LM_F16), *q3 = lm_type_by_id(LM_Q3_K);
    struct lm_mix_tensor t[] = {
        T("a.weight", q3, 256, 8, 1, 1), T("b.weight", f16, 256, 8, 1, 1),
        T("c.weight", f16, 256, 8, 1, 1), T("d.weight", q3, 256, 8, 1, 1),
    };
    size_t order[4] = { 0, 1, 2, 3 };
    (void)state;
    assert_int_equal(lm_mix_guess(t, 4, order), 1024 + 1);
    assert_int_equal(lm_mix_guess(t, 1, order), 1024 + 12);
    assert_int_equal(lm_mix_guess(t, 0, order), 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes), cmocka_unit_test(names), cmocka_unit_test(wishes),
        cmocka_unit_test(importance), cmocka_unit_test(guess),
    };
    return cmocka_run_group_tests_name("mix", tests, NULL, NULL);
}
