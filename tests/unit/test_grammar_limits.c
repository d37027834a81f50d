/* SPDX-License-Identifier: MIT */
/* Grammars and schemas that are large, deep or ambiguous: each is followed, or refused by the limit
 * that lmpipe-grammar(7) states, in a time that only a mistake would take longer than. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "sample/grammar/grammar.h"

#define SECONDS 20                       /* processor time; under a sanitizer, too */

enum form { GBNF, SCHEMA, PATTERN };     /* PATTERN: a schema of a string */

/* head, then unit for 0 to n - 1 (with the number and the next one), then tail. */
static const struct text {
    enum form   form;
    const char *head, *unit;
    int         n;
    const char *tail;
    const char *why;                     /* NULL: it is followed, and takes `takes` */
    const char *takes;
} texts[] = {
    /* rules in a chain, in order and against it */
    { GBNF, "root ::= r0\n", "r%d ::= r%d\n", 100000, "r100000 ::= \"x\"\n", NULL, "x" },
    { GBNF, "root ::= r0\n", "r%d ::= r%d \"y\"\n", 3000, "r3000 ::= \"x\"\n", NULL, NULL },
    { GBNF, "root ::= \"z\"", " | \"k%d\"", 100000, "\n", NULL, "k99999" },
    { GBNF, "root ::= \"", "xxxxxxxxxxxxxxxx", 60000, "\"\n", NULL, NULL },
    { GBNF, "root ::= \"", "xxxxxxxxxxxxxxxx", 500000, "\"\n", "more than 1000000 items", NULL },
    { GBNF, "root ::= \"", "xxxxxxxxxxxxxxxx", 530000, "\"\n", "larger than 8388608 bytes", NULL },
    { GBNF, "root ::= \"z\"", "|\"k%d\"", 400000, "\n", NULL, "k399999" },
    { GBNF, "root ::= ", "[a]", 1000001, "\n", "more than 1000000 items", NULL },
    { GBNF, "r ::= \"a\"\nroot ::= ", "r ", 2000000, "\n", "more than 1000000 items", NULL },
    { GBNF, "root ::= ", "(", 1001, "\n", "1000 parentheses", NULL },
    { GBNF, "root ::= \"a\"", "?", 1002, "\n", "1000 repetitions", NULL },
    { GBNF, "root ::= ((\"a\"{1000}){1000}){11}\n", "", 0, "", "more than 10000000", NULL },
    { GBNF, "root ::= \"a\"{2147483648}\n", "", 0, "", "counts to 2147483647", NULL },
    { GBNF, "root ::= \"b\" | \"a\"{2147483647}\n", "", 0, "", NULL, "b" },

    /* references, properties, values */
    { SCHEMA, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{", "\"a%d\":{\"$ref\":\"#/$defs/a%d\"},", 30000,
      "\"a30000\":{}}}", "200 schemas in one another", NULL },
    { SCHEMA, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{",
      "\"a%d\":{\"items\":{\"$ref\":\"#/$defs/a%d\"}},",
      8000, "\"a8000\":{}}}", NULL, "[[[]]]" },
    { SCHEMA, "{\"$ref\":\"#/$defs/a0\",\"$defs\":{",
      "\"a%d\":{\"items\":{\"$ref\":\"#/$defs/a%d\"}},",
      30000, "\"a30000\":{}}}", "20000 rules", NULL },
    { SCHEMA, "", "{\"items\":", 200, "", "nested too deeply", NULL },
    { SCHEMA, "{\"enum\":[0", ",\"v%d\"", 50000, "]}", NULL, "\"v49999\"" },
    { SCHEMA, "{\"const\":\"", "aaaaaaaaaaaaaaaa", 524000, "\"}", "more than 1000000 items", NULL },
    { SCHEMA, "{\"const\":\"", "\\n", 1000001, "\"}", "more than 1000000 escapes", NULL },
    { SCHEMA, "{\"not\":{\"enum\":[\"b\",\"", "aaaaaaaaaaaaaaaa", 524000, "\"]}}",
      "more than 1000000 items", NULL },
    { SCHEMA, "{\"anyOf\":[{}", ",{\"minimum\":%d}", 1001, "]}", "1000 alternatives", NULL },
    { SCHEMA, "{\"properties\":{\"z\":true", ",\"p%d\":{\"type\":\"null\"}", 5000, "}}", NULL,
      "{\"p4999\":null}" },
    { SCHEMA, "{\"required\":[\"z\"", ",\"p%d\"", 50000, "]}", "100000 counts of members", NULL },
    { SCHEMA, "{\"prefixItems\":[true", ",true", 20001, "]}", "20000 positions", NULL },
    { SCHEMA, "{\"allOf\":[{}", ",{\"minimum\":%d}", 61, "]}", "60 bounds", NULL },
    { SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"x\":true", ",\"x%d\":true", 8, "}}",
      "8 patterns of names", NULL },
    { SCHEMA, "{\"properties\":{\"p0\":true", ",\"p%d\":true", 3, "}}", "there twice", NULL },

    /* counts */
    { SCHEMA, "{\"maxItems\":1000000000000}", "", 0, "", NULL, "[1]" },
    { SCHEMA, "{\"type\":\"array\",\"minItems\":1000000000}", "", 0, "", NULL, NULL },
    { SCHEMA, "{\"maxLength\":3000000000,\"pattern\":\"^x+$\"}", "", 0, "", NULL, "\"xx\"" },
    { SCHEMA, "{\"items\":{\"const\":1},\"maxItems\":4294967290}", "", 0, "", NULL, "[1,1]" },
    { SCHEMA, "{\"not\":{\"maxProperties\":3000000000}}", "", 0, "", "count to 2147483647", NULL },
    { SCHEMA, "{\"minItems\":3000000000}", "", 0, "", "count to 2147483647", NULL },
    { SCHEMA, "{\"maxLength\":1000000000000}", "", 0, "", NULL, "\"a\"" },
    { SCHEMA, "{\"minLength\":3000000000}", "", 0, "", "count to 2147483647", NULL },
    { SCHEMA, "{\"maxProperties\":1000000000}", "", 0, "", NULL, "{\"a\":1}" },
    { SCHEMA, "{\"type\":\"object\",\"minProperties\":1000000000}", "", 0, "", NULL, NULL },
    { SCHEMA, "{\"minProperties\":3000000000}", "", 0, "", "count to 2147483647", NULL },
    { SCHEMA, "{\"contains\":{\"const\":1},\"minContains\":30000}", "", 0, "",
      "20000 counts of items", NULL },
    { SCHEMA, "{\"pattern\":\"^[a-z]+$\",\"maxLength\":1000000}", "", 0, "",
      "automata of more than 50000 states", NULL },

    /* expressions */
    { PATTERN, "", "aaaaaaaaaaaaaaaa", 260000, "", "more than 1000000 items", NULL },
    { PATTERN, "^", "a", 100000, "$", NULL, NULL },
    { PATTERN, "^", "()", 3000, "$", "more than 1000000 items", NULL },
    { PATTERN, "^", "a?", 3000, "$", "more than 1000000 items", NULL },
    { PATTERN, "", "[.]", 1000001, "", "more than 1000000 items", NULL },
    { PATTERN, "^a\\u0022b+\\\\\\\\c\\u00e9?$", "", 0, "", NULL, "\"a\\\"bb\\\\c\"" },
    { PATTERN, "a{10000}", "", 0, "", NULL, NULL },
    { PATTERN, "(a{1000}){1000}", "", 0, "", NULL, NULL },
    { PATTERN, "((a{1000}){1000}){1000}", "", 0, "", "more than 10000000", NULL },
    { PATTERN, "^(a?){5000}a{5000}$", "", 0, "", NULL, NULL },
    { PATTERN, "[ab]*a[ab]{20}c?", "", 0, "", NULL, NULL },
    { PATTERN, "", ".*", 2000, "", "10000 ways", NULL },
    { PATTERN, "^(x+x+)+y$", "", 0, "", NULL, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy\"" },
};

static void add_number(struct lm_buf *b, const char *unit, int i)
{
    for (; *unit; unit++) {
        if (unit[0] == '%' && unit[1] == 'd')
            lm_buf_printf(b, "%d", i++);
        if (unit[0] == '%' && unit[1] == 'd')
            unit++;
        else
            lm_buf_byte(b, *unit);
    }
}

static struct lm_grammar *read_text(const struct text *t, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    if (t->form == PATTERN)
        lm_buf_str(&b, "{\"type\":\"string\",\"pattern\":\"");
    lm_buf_str(&b, t->head);
    for (int i = 0; i < t->n; i++)
        add_number(&b, t->unit, i);
    lm_buf_str(&b, t->tail);
    if (t->form == PATTERN)
        lm_buf_str(&b, "\"}");
    assert_false(b.failed);
    struct lm_grammar *g = t->form == GBNF ? lm_grammar_gbnf(b.data, b.len, NULL, err) :
                                             lm_grammar_schema(b.data, b.len, NULL, NULL, err);
    lm_buf_release(&b);
    return g;
}

/* Is a text taken whole? */
static bool takes(struct lm_machine *m, const char *text)
{
    struct lm_err err;
    lm_state s;
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    for (; *text; text++)
        assert_int_equal(lm_machine_byte(m, &s, (unsigned char)*text, &err), LM_OK);
    return lm_machine_complete(m, s);
}

static void test_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct text *t = &texts[i];
        struct lm_err err = { 0 };
        const clock_t before = clock();
        struct lm_grammar *g = read_text(t, &err);
        if (t->why && (g || err.code != LM_EUSE || !strstr(err.text, t->why)))
            fail_msg("%s%s: %s instead of %s", t->head, t->unit, g ? "no error" : err.text, t->why);
        if (!t->why && !g)
            fail_msg("%s%s: %s", t->head, t->unit, err.text);
        if (g && t->takes) {
            struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
            assert_true(takes(m, t->takes));
            lm_machine_free(m);
        }
        lm_grammar_free(g);
        if (clock() - before > (clock_t)SECONDS * CLOCKS_PER_SEC)
            fail_msg("%s%s: took %d s", t->head, t->unit,
                     (int)((clock() - before) / CLOCKS_PER_SEC));
    }
}

/* What goes wrong along many of one letter, if anything. */
static void check_letters(const char *grammar, char letter, int n, const char *why)
{
    struct lm_err err = { 0 };
    struct lm_grammar *g = lm_grammar_gbnf(grammar, strlen(grammar), NULL, &err);
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    lm_state s;
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    int r = LM_OK;
    for (int i = 0; i < n && r == LM_OK && s != LM_STATE_DEAD; i++)
        r = lm_machine_byte(m, &s, (unsigned char)letter, &err);
    assert_true(r < 0 || s != LM_STATE_DEAD);
    if (!why && r < 0)
        fail_msg("%s: %s", grammar, err.text);
    if (why && (r != LM_ENOSUP || !strstr(err.text, why)))
        fail_msg("%s: %s instead of %s", grammar, r < 0 ? err.text : "no error", why);
    lm_machine_free(m);
    lm_grammar_free(g);
}

static void test_along(void **state)
{
    (void)state;
    check_letters("root ::= \"a\" root | \"b\"\n", 'a', 200000, NULL);
    check_letters("root ::= (\"a\" | \"aa\")*\n", 'a', 100000, NULL);
    check_letters("root ::= \"a\" root root | \"a\"\n", 'a', 3000, "more than 100000 steps");
    check_letters("root ::= \"a\" root \"b\" | \"b\"\n", 'a', 120000,
                  "100000 rules in one another");
    check_letters("root ::= (\"a\" | \"aa\"){0,30000} \"b\"\n", 'a', 25000, "ways");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts), cmocka_unit_test(test_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
