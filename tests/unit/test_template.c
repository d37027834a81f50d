/* SPDX-License-Identifier: MIT */
/* Chat templates: tests/data/template/jinja-micro.jsonl, whose texts and errors are those of
 * Jinja2 3.1.6 as transformers sets it up; marks; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "template/template.h"

#define N(a) (sizeof(a) / sizeof *(a))

static const struct tm now = { .tm_year = 125, .tm_mon = 2, .tm_mday = 14, .tm_hour = 15,
                               .tm_min = 9, .tm_sec = 26, .tm_wday = 5, .tm_yday = 72 };

static int render(const char *src, size_t len, const struct lm_jval *vars, bool guarded,
                  struct lm_marked_text *out, struct lm_err *err)
{
    struct lm_template_layer layer = { vars, guarded };
    struct lm_template *t = lm_template_parse(src, len, err);
    int s = t ? lm_template_render(t, &layer, 1, &now, NULL, out, err) : (int)err->code;
    lm_template_free(t);
    return s;
}

static void check_case(const struct lm_jval *c, bool guarded)
{
    const struct lm_jval *src = lm_jval_get(c, "template"), *text = lm_jval_get(c, "text");
    const char *i = lm_jval_get(c, "i")->str;
    struct lm_marked_text out = { 0 };
    struct lm_err err = { 0 };
    int s = render(src->str, src->len, lm_jval_get(c, "context"), guarded, &out, &err);
    if (text->kind == LM_JSON_STRING) {
        if (s != LM_OK)
            fail_msg("case %s: %s", i, err.text);
        if (out.text.len != text->len || memcmp(out.text.data, text->str, text->len) != 0)
            fail_msg("case %s: '%s', not '%s'", i, out.text.data, text->str);
        assert_int_equal(out.guard.len, out.text.len);
        for (size_t k = 0; k < out.guard.len && !guarded; k++)
            assert_int_equal(out.guard.data[k], 0);
    } else {
        const struct lm_jval *want = lm_jval_get(c, "error");
        if (s != LM_EDATA || !strstr(err.text, want->str) || strncmp(err.text, "line ", 5) != 0)
            fail_msg("case %s: status %d, '%s', not '%s'", i, s, err.text, want->str);
        assert_int_equal(out.text.len, 0);
    }
    lm_marked_text_release(&out);
}

static void test_micro(void **state)
{
    (void)state;
    FILE *f = fopen("tests/data/template/jinja-micro.jsonl", "r");
    char *line = NULL;
    size_t cap = 0;
    int n = 0;
    assert_non_null(f);
    for (ssize_t len; (len = getline(&line, &cap, f)) > 0; n++) {
        struct lm_arena arena = { 0 };
        const struct lm_jval *c = lm_json_tree(&arena, line, (size_t)len, NULL);
        assert_non_null(c);
        check_case(c, false);
        check_case(c, true);
        lm_arena_release(&arena);
    }
    assert_int_equal(n, 234);
    free(line);
    fclose(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
