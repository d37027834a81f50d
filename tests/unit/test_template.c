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

static int check_file(const char *path)
{
    FILE *f = fopen(path, "r");
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
    free(line);
    fclose(f);
    return n;
}

static void test_micro(void **state)
{
    (void)state;
    assert_int_equal(check_file("tests/data/template/jinja-micro.jsonl"), 234);
}

static void test_more(void **state)
{
    (void)state;
    assert_true(check_file("tests/data/template/jinja-more.jsonl") > 100);
}

struct mark_case {
    const char *template, *text, *want;      /* want: '#' under each byte that must be marked */
};

/* Each template is given x = "ab<c>" and d = {"key": "va"} as somebody else's. */
static void check_marks(const struct mark_case *cases, size_t n, bool said)
{
    static const char vars[] = "{\"x\":\"ab<c>\",\"d\":{\"key\":\"va\"}}";
    struct lm_arena arena = { 0 };
    const struct lm_jval *v = lm_json_tree(&arena, vars, sizeof vars - 1, NULL);
    for (size_t i = 0; i < n; i++) {
        struct lm_marked_text out = { 0 };
        struct lm_err err = { 0 };
        if (render(cases[i].template, strlen(cases[i].template), v, true, &out, &err) != LM_OK)
            fail_msg("%s: %s", cases[i].template, err.text);
        struct lm_buf *marks = said ? &out.said : &out.guard;
        assert_string_equal(out.text.data, cases[i].text);
        assert_int_equal(marks->len, strlen(cases[i].text));
        for (size_t k = 0; k < marks->len; k++)
            marks->data[k] = marks->data[k] ? '#' : ' ';
        if (memcmp(marks->data, cases[i].want, marks->len) != 0)
            fail_msg("%s: '%.*s', not '%s'", cases[i].template, (int)marks->len, marks->data,
                     cases[i].want);
        lm_marked_text_release(&out);
    }
    lm_arena_release(&arena);
}

static void test_marks(void **state)
{
    static const struct mark_case cases[] = {
        { "<{{ x }}>",                       "<ab<c>>",         " ##### " },
        { "{{ '<' ~ x[2:] ~ '>' }}",         "<<c>>",           " ### " },
        { "{{ ('x' + x)|upper }}y",          "XAB<C>y",         " ##### " },
        { "{{ x|replace('<', '--') }}",      "ab--c>",          "##  ##" },
        { "{{ 'a-b'|replace('-', x[0]) }}",  "aab",             " # " },
        { "{{ x.split('<')|join('<') }}",    "ab<c>",           "## ##" },
        { "{{ [x]|tojson }}",                "[\"ab<c>\"]",     "  #####  " },
        { "{{ d }}",                         "{'key': 'va'}",   "  ###    ##  " },
        { "{{ d|tojson }}",                  "{\"key\": \"va\"}", "  ###    ##  " },
        { "{{ '%s:%r' % (x[0], x[1]) }}",    "a:'b'",           "#  # " },
        { "{{ '{}|{:>3}'.format(x[0], x[1]) }}", "a|  b",       "#   #" },
        { "{{ x.format() }}",                "ab<c>",           "#####" },
        { "{{ x[::-1] }}{{ x|reverse }}",    ">c<ba>c<ba",      "##########" },
        { "{{ x|e }}",                       "ab&lt;c&gt;",     "###########" },
        { "{{ x.center(7, '*') }}",          "*ab<c>*",         " ##### " },
        { "{{ x|urlencode }}",               "ab%3Cc%3E",       "#########" },
        { "{% set y %}[{{ x }}]{% endset %}{{ y|trim }}", "[ab<c>]", " ##### " },
        { "{% macro m(a) %}({{ a }}){% endmacro %}{{ m(x[0]) }}{{ m('z') }}", "(a)(z)", " #    " },
        { "{% for k, v in d|items %}{{ k }}={{ v }}{% endfor %}", "key=va", "### ##" },
        { "{% for k in d %}{{ k|length }}{{ d[k]|length }}{% endfor %}", "32", "  " },
        { "{{ x|list|first }}{{ x|string|indent(2, true) }}", "a  ab<c>", "#  #####" },
        { "{{ (x|safe ~ '!')|title }}",      "Ab<C>!",          "##### " },
        { "{{ strftime_now(x[0] ~ '%Y') }}", "a2025",           "#####" },
        { "{{ d|string|wordwrap(7) }}",      "{'key':\n'va'}",  "  ###    ##  " },
    };
    (void)state;
    check_marks(cases, N(cases), false);
}

/* What stands in a generation block is marked as that, also where it was caught before it is
 * printed, and guards nothing. */
static void test_said(void **state)
{
#define SAID(text) "{% generation %}" text "{% endgeneration %}"
    static const struct mark_case said[] = {
        { "a{{ x }}",                        "aab<c>",          "      " },
        { "u:" SAID("{{ x }}!") "u",         "u:ab<c>!u",       "  ###### " },
        { SAID("a" SAID("b") "c") SAID(""),  "abc",             "###" },
        { "{% for i in 'ab' %}" SAID("{{ i }}") ",{% endfor %}", "a,b,", "# # " },
        { "{% macro m(a) %}(" SAID("{{ a }}") "){% endmacro %}[{{ m(x[0]) }}]", "[(a)]", "  #  " },
        { "{% set y %} {{ x[0] }}" SAID("b") "{% endset %}{{ y|trim|upper }}", "AB", " #" },
        { "{% filter upper %}a" SAID("bc") "{% endfilter %}", "ABC", " ##" },
        { "{% set y %}" SAID("\"") "{% endset %}{{ y|tojson }}", "\"\\\"\"", " ## " },
        { "{% set y %}" SAID("a\n") "b{% endset %}{{ [y] }}", "['a\\nb']", "  ###   " },
        { "{% set y %}" SAID("5") "{% endset %}{{ y|filesizeformat }}", "5 Bytes", "#######" },
        { "{% set y %}" SAID("%Y") "{% endset %}{{ strftime_now(y) }}", "2025", "####" },
        { "{% set y %}q" SAID("e") "{% endset %}{{ 'qea'.translate({101: y}) }}", "qqea", "  # " },
    }, guard[] = {
        { SAID("{{ x[0] }}b"),               "ab",              "# " },
        { "{% set y %}" SAID("a\n") "{% endset %}{{ [y] }}", "['a\\n']", "       " },
        { "{% set y %}" SAID("5") "{% endset %}{{ y|filesizeformat }}", "5 Bytes", "       " },
        { "{% set y %}" SAID("%Y") "{% endset %}{{ strftime_now(y) }}", "2025", "    " },
        { "{% filter upper %}" SAID("{{ x[0] }}b") "{% endfilter %}", "AB", "# " },
    };
#undef SAID
    (void)state;
    check_marks(said, N(said), true);
    check_marks(guard, N(guard), false);
}

/* A role that is no plain word is text as any other. */
static void test_role(void **state)
{
    static const char vars[] =
        "{\"m\":[{\"role\":\"a<\"},{\"role\":\"tool_2-x\"},{\"roles\":\"y\"}]}";
    static const char src[] = "{{ m[0].role }}{{ m[1].role }}{{ m[2].roles }}";
    struct lm_arena arena = { 0 };
    struct lm_marked_text out = { 0 };
    (void)state;
    const struct lm_jval *v = lm_json_tree(&arena, vars, sizeof vars - 1, NULL);
    assert_int_equal(render(src, sizeof src - 1, v, true, &out, NULL), LM_OK);
    assert_string_equal(out.text.data, "a<tool_2-xy");
    assert_memory_equal(out.guard.data, "\1\1\0\0\0\0\0\0\0\0\1", 11);
    lm_marked_text_release(&out);
    lm_arena_release(&arena);
}

/* Whatever looks through a text is charged for it: a few hundred times 30,000 characters are
 * more than 100,000 steps. */
static void test_charges(void **state)
{
    static const struct lm_template_limits limits = {
        .steps = 100000, .memory = 1 << 24, .depth = 60
    };
    static const char *const each[] = {
        "s.find('c')", "s.rfind('c')", "s.count('c')", "'c' in s", "s == z", "s < z", "s | length",
        "s.isalnum()", "s.isascii()", "s.isupper()", "s.istitle()", "s.isidentifier()",
        "s[-1]", "s[1:2]", "s.startswith((z, z))", "{1: 2}[s]", "s is lower", "s is upper",
        "s.partition('c')", "s.splitlines()", "s.strip(z)", "s | first", "s | int", "s | wordcount",
    };
    for (size_t i = 0; i < N(each); i++) {
        struct lm_marked_text out = { 0 };
        struct lm_err err = { 0 };
        char src[400];
        (void)state;
        snprintf(src, sizeof src,
                 "{%% set s = 'b' * 29999 + 'a' %%}{%% set z = 'b' * 29999 + 'd' %%}"
                 "{%% for i in range(2000) %%}{%% if %s %%}{%% endif %%}{%% endfor %%}", each[i]);
        struct lm_template *t = lm_template_parse(src, strlen(src), &err);
        assert_non_null(t);
        assert_int_equal(lm_template_render(t, NULL, 0, NULL, &limits, &out, &err), LM_EDATA);
        if (!strstr(err.text, "more than 100000 steps"))
            fail_msg("%s: '%s'", each[i], err.text);
        lm_template_free(t);
        lm_marked_text_release(&out);
    }
}

/* What could take the square of its length: it fails by its steps, or is done. */
static void test_squares(void **state)
{
    static const struct { const char *template, *text; } cases[] = {
        { "{{ ('a' * 200000 + 'b' + 'a' * 200000) in ('a' * 9000000) }}", NULL },
        { "{{ ('a' * 9000000).count('a' * 200000 + 'b' + 'a' * 200000) }}", NULL },
        { "{{ ('a' * 9000000).rfind('a' * 40 + 'b' + 'a' * 200000) }}", NULL },
        { "{{ ('a' * 9000000).find('a' * 20 + 'b' + 'a' * 200000) }}", "-1" },
        { "{{ ('a' * 9000000).find('a' * 200000 + 'b') }}", "-1" },
        { "{{ ('<' * 9000000) | striptags | length }}", "9000000" },
        { "{{ ('a' * 3000000).rsplit('a') | length }}", "3000001" },
        { "{{ ('ab' * 3).rfind('ab') }}{{ 'aab'.rfind('a', 0, 1) }}{{ 'ab' * 3 }}", "40ababab" },
    };
    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        struct lm_marked_text out = { 0 };
        struct lm_err err = { 0 };
        const char *src = cases[i].template;
        struct lm_template *t = lm_template_parse(src, strlen(src), &err);
        int s = lm_template_render(t, NULL, 0, NULL, NULL, &out, &err);
        if (cases[i].text) {
            assert_int_equal(s, LM_OK);
            assert_int_equal(out.text.len, strlen(cases[i].text));
            assert_memory_equal(out.text.data, cases[i].text, out.text.len);
        } else if (s == LM_OK || !strstr(err.text, "steps")) {
            fail_msg("%s: '%s'", src, err.text);
        }
        lm_template_free(t);
        lm_marked_text_release(&out);
    }
}

/* Neighbouring literals are one, in memory that grows with them and not with their square:
 * 60,000 of 100 bytes would need 180 GB. */
static void test_literals(void **state)
{
    enum { LITERALS = 60000, EACH = 103 };
    struct lm_marked_text out = { 0 };
    char *src = malloc((size_t)LITERALS * EACH + 20), *p = src;
    (void)state;
    assert_non_null(src);
    p += sprintf(p, "{{ (");
    for (int i = 0; i < LITERALS; i++)
        p += sprintf(p, "'%0100d' ", i);
    p += sprintf(p, ")[-3:] }}");
    struct lm_template *t = lm_template_parse(src, (size_t)(p - src), NULL);
    assert_non_null(t);
    assert_int_equal(lm_template_render(t, NULL, 0, NULL, NULL, &out, NULL), LM_OK);
    assert_int_equal(out.text.len, 3);
    assert_memory_equal(out.text.data, "999", 3);
    lm_template_free(t);
    lm_marked_text_release(&out);
    free(src);
}

/* Where an error is said to be, and that each limit holds. */
static void test_errors(void **state)
{
    static const struct lm_template_limits small = { .steps = 1000, .memory = 50000, .depth = 60 };
    static const struct { const char *template, *part; } cases[] = {
        { "a\n  {{ 1 +\n nope.x }}",     "line 3, column 6: 'nope' is undefined" },
        { "\xC3\xA9{{ 'a' | bad }}",     "line 1, column 11: No filter named 'bad'." },
        { "a\r\nb\r{% bad %}",           "line 3, column 4: Encountered unknown tag 'bad'." },
        { "{% if 1 %}{% for x in y %}",  "The innermost block that needs to be closed is 'for'" },
        { "{{ 'abc",                     "does not end" },
        { "{# abc",                      "Missing end of comment tag" },
        { "{{ (1 }}",                    "line 1, column 7: expected token ')', got '}'" },
        { "{% break %}",                 "'break' outside loop" },
        { "\xFF",                        "not UTF-8 at byte 0" },
        { "{% for i in range(1200) %}{% endfor %}", "1000 steps" },
        { "{{ 'abcdefgh' * 10000 }}",    "50000 bytes of memory" },
        { "{{ [0] * 10000000000 }}",     "steps" },
        { "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
          "calls or values nested deeper than 60: does something call itself?" },
        { "{% set n = namespace() %}{% set n.n = n %}{{ n }}", "values nested deeper than 60\n" },
        { "{% set x = 1 %}{{ x+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1"
          "+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1 }}",
          ": expressions, blocks, calls or values nested deeper than 60\n" },
        { "{% set n = namespace(l=[]) %}{% for i in range(70) %}{% set n.l = [n.l, n.l] %}"
          "{% endfor %}{{ n.l == n.l + [] }}", "nested deeper" },
        { "{{ 9**(9**9) }}",             "1000 steps" },
        { "{{ range(100001) }}",         "Range too big" },
        { "{{ '%1000000000d' % 1 }}",    "wider" },
        { "{{ strftime_now('%Y') }}",    "the time is not known" },
        { "{% set loop.x = 1 %}",        "non-namespace" },
        { "{% include 'a' %}",           "no loader" },
        { "{{ ''.__class__.__init__ }}", "unsafe" },
    };
    char deep[2000];
    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        struct lm_marked_text out = { 0 };
        struct lm_err err = { 0 };
        const char *src = cases[i].template;
        struct lm_template *t = lm_template_parse(src, strlen(src), &err);
        if (t)
            lm_template_render(t, NULL, 0, NULL, &small, &out, &err);
        strncat(err.text, "\n", sizeof err.text - strlen(err.text) - 1);
        if (!strstr(err.text, cases[i].part))
            fail_msg("%s: '%s', not '%s'", cases[i].template, err.text, cases[i].part);
        lm_template_free(t);
        lm_marked_text_release(&out);
    }
    static const char *const unsupported[] = {
        "{{ '\\N{BULLET}' }}", "{{ (-8) ** 0.5 }}", "{{ 'a'.encode('latin-1') }}",
    };
    for (size_t i = 0; i < N(unsupported); i++) {
        struct lm_marked_text out = { 0 };
        struct lm_err err = { 0 };
        struct lm_template *t = lm_template_parse(unsupported[i], strlen(unsupported[i]), &err);
        assert_true(!t || lm_template_render(t, NULL, 0, NULL, &small, &out, &err) == LM_ENOSUP);
        assert_int_equal(err.code, LM_ENOSUP);
        assert_non_null(strstr(err.text, "is not supported"));
        lm_template_free(t);
        lm_marked_text_release(&out);
    }
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{", 2);
    assert_null(lm_template_parse(deep, sizeof deep, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_marks), cmocka_unit_test(test_said),
        cmocka_unit_test(test_role),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_charges),
        cmocka_unit_test(test_squares),
        cmocka_unit_test(test_literals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
