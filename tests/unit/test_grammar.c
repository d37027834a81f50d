/* SPDX-License-Identifier: MIT */
/* Grammars: texts they take and refuse, and the masks they make of a vocabulary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar_cases.h"
#include "not_here.h"
#include "base/arena.h"
#include "base/json.h"
#include "io/input.h"
#include "sample/grammar/grammar.h"

/* The string a member holds, or the bytes of its hexadecimal twin, into buf. */
static const char *text_of(const struct lm_jval *v, const char *key, char *buf, size_t *len)
{
    char twin[40];
    const struct lm_jval *plain = lm_jval_get(v, key);
    if (plain) {
        *len = plain->len;
        return lm_jval_str(plain);
    }
    snprintf(twin, sizeof twin, "%s_hex", key);
    const char *hex = lm_jval_str(lm_jval_get(v, twin));
    assert_non_null(hex);
    *len = strlen(hex) / 2;
    for (size_t i = 0; i < *len; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        buf[i] = (char)byte;
    }
    return buf;
}

/* ---- texts ---- */

enum outcome { REFUSED, BEGINNING, WHOLE };

static enum outcome try_text(struct lm_machine *m, const char *text, size_t len)
{
    lm_state s;
    struct lm_err err;
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    for (size_t i = 0; i < len; i++)
        if (lm_machine_byte(m, &s, (unsigned char)text[i], &err) < 0)
            fail_msg("%s", err.text);
    return s == LM_STATE_DEAD ? REFUSED : lm_machine_complete(m, s) ? WHOLE : BEGINNING;
}

static int check_texts(const char *name, struct lm_machine *m, const struct lm_jval *list,
                       unsigned wanted)
{
    int n = 0;
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next, n++) {
        enum outcome got = try_text(m, lm_jval_str(t), t->len);
        if (!(wanted >> got & 1))
            fail_msg("%s: %s: %s", name, lm_jval_str(t), got == WHOLE ? "accepted" :
                     got == REFUSED ? "refused" : "a beginning");
    }
    return n;
}

/* One case: an error, or texts.  How many things were checked. */
static int check_case(const struct lm_jval *c, const char *name, struct lm_grammar *g,
                      const struct lm_err *why)
{
    struct lm_err err;
    if (lm_jval_get(c, "error")) {
        if (g)
            fail_msg("%s: not refused", name);
        assert_int_equal(why->code, LM_EUSE);
        return 1;
    }
    if (!g && lm_jval_get(c, "may_refuse"))
        return 0;
    if (!g)
        fail_msg("%s: %s", name, why->text);
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    int n = check_texts(name, m, lm_jval_get(c, "accept"), 1u << WHOLE);
    n += check_texts(name, m, lm_jval_get(c, "prefix"), 1u << BEGINNING);
    n += check_texts(name, m, lm_jval_get(c, "reject"), 1u << REFUSED | 1u << BEGINNING);
    lm_machine_free(m);
    lm_grammar_free(g);
    return n;
}

static int run_gbnf(const struct lm_jval *cases, const struct lm_vocab *v)
{
    static char buf[100000];
    int n = 0;
    for (const struct lm_jval *c = cases->first; c; c = c->next) {
        struct lm_err err = { 0 };
        size_t len;
        const char *text = text_of(c, "grammar", buf, &len);
        struct lm_grammar *g = lm_grammar_gbnf(text, len, v, &err);
        n += check_case(c, lm_jval_str(lm_jval_get(c, "name")), g, &err);
    }
    return n;
}

static void test_gbnf(void **state)
{
    struct lm_arena a = { 0 };
    (void)state;
    const struct lm_jval *cases = read_json(&a, "tests/data/sample/grammars.json");
    assert_non_null(cases);
    assert_true(run_gbnf(cases, NULL) >= 270);
    lm_arena_release(&a);
}

static int run_regex(const struct lm_jval *cases)
{
    int n = 0;
    for (const struct lm_jval *c = cases->first; c; c = c->next) {
        const struct lm_jval *pattern = lm_jval_get(c, "pattern");
        struct lm_err err = { 0 };
        struct lm_grammar *g = lm_grammar_regex(lm_jval_str(pattern), pattern->len, &err);
        const struct lm_jval *none = lm_jval_get(c, "accept");
        if (!g && none && !none->first && !lm_jval_get(c, "error")) {    /* matches nothing */
            assert_non_null(strstr(err.text, "can never be completed"));
            n++;
            continue;
        }
        n += check_case(c, lm_jval_str(pattern), g, &err);
    }
    return n;
}

static void test_regex(void **state)
{
    struct lm_arena a = { 0 };
    (void)state;
    const struct lm_jval *cases = read_json(&a, "tests/data/sample/regex.json");
    assert_non_null(cases);
    assert_true(run_regex(cases) >= 180);
    lm_arena_release(&a);
}

static void run_schemas(const struct lm_jval *cases, const struct lm_schema_options *o,
                        int *checked, int *refused)
{
    for (const struct lm_jval *c = cases->first; c; c = c->next) {
        const struct lm_jval *schema = lm_jval_get(c, "schema");
        struct lm_err err = { 0 };
        struct lm_grammar *g = lm_grammar_schema(lm_jval_str(schema), schema->len, o, NULL, &err);
        *refused += !g && !lm_jval_get(c, "error");
        *checked += check_case(c, lm_jval_str(lm_jval_get(c, "name")), g, &err);
    }
}

static void test_schemas(void **state)
{
    struct lm_arena a = { 0 };
    int checked = 0, refused = 0;
    (void)state;
    const struct lm_jval *cases = read_json(&a, "tests/data/sample/schema.json");
    const struct lm_jval *more = read_json(&a, "tests/data/sample/schema-more.json");
    assert_true(cases && more);
    run_schemas(cases, NULL, &checked, &refused);
    run_schemas(more, NULL, &checked, &refused);
    assert_true(checked >= 1000);
    assert_int_equal(refused, 1);                 /* a pattern with \p */
    lm_arena_release(&a);
}

/* What Python's jsonschema says of instances, where objects are open as there. */
static void test_verdicts(void **state)
{
    static const struct lm_schema_options open = { .open = true };
    struct lm_arena a = { 0 };
    int checked = 0, refused = 0;
    (void)state;
    const struct lm_jval *cases = read_json(&a, "tests/data/sample/schema-verdicts.json");
    assert_non_null(cases);
    run_schemas(cases, &open, &checked, &refused);
    assert_true(checked >= 450);
    assert_int_equal(refused, 0);
    lm_arena_release(&a);
}

/* A schema that begins with a byte order mark is the same without it, and so is a grammar. */
static void test_mark(void **state)
{
    static const char schema[] = LM_GRAMMAR_MARK "{\"type\":\"null\"}";
    static const char gbnf[] = LM_GRAMMAR_MARK "root ::= \"null\"";
    struct lm_err err;
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct lm_grammar *g = k ? lm_grammar_gbnf(gbnf, sizeof gbnf - 1, NULL, &err) :
                               lm_grammar_schema(schema, sizeof schema - 1, NULL, NULL, &err);
        assert_non_null(g);
        struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
        assert_int_equal(try_text(m, "null", 4), WHOLE);
        lm_machine_free(m);
        lm_grammar_free(g);
    }
}

/* ---- masks ---- */

static void check_mask(struct lm_vocab *v, const struct lm_jval *c)
{
    const char *name = lm_jval_str(lm_jval_get(c, "name"));
    const struct lm_jval *text = lm_jval_get(c, "grammar");
    const uint32_t n = lm_vocab_n(v);
    const uint64_t *mask;
    struct lm_err err;
    lm_state s;
    static const int32_t eog[] = { 0, 2, 4 };         /* those of the reference */
    struct lm_grammar *g = lm_grammar_gbnf(lm_jval_str(text), text->len, v, &err);
    if (!g)
        fail_msg("%s: %s", name, err.text);
    struct lm_machine *m = lm_machine_new(g, v, n, eog, 3, &err);
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    for (const struct lm_jval *t = lm_jval_get(c, "prefix")->first; t; t = t->next) {
        int64_t id;
        assert_true(lm_jval_i64(t, &id));
        assert_int_equal(lm_machine_take(m, &s, (uint32_t)id, &err), LM_OK);
        assert_int_not_equal(s, LM_STATE_DEAD);
    }
    assert_int_equal(lm_machine_mask(m, s, &mask, &err), LM_OK);
    check_mask_ids(mask, n, c, name);
    lm_machine_free(m);
    lm_grammar_free(g);
}

static void test_masks(void **state)
{
    struct lm_arena a = { 0 };
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s/fixtures/sample/gbnf/masks.json", shared_dir());
    const struct lm_jval *cases = read_json(&a, path);
    struct lm_vocab *v = cases ? smollm2() : NULL;
    if (!v)
        NOT_HERE("the reference values beside the project, or SmolLM2");
    for (const struct lm_jval *c = cases->first; c; c = c->next)
        check_mask(v, c);
    lm_vocab_free(v);
    lm_arena_release(&a);
}

/* Does a mask hold exactly the ids that can be taken? */
static void check_ids(struct lm_machine *m, const struct lm_vocab *v, lm_state s, const char *name)
{
    const uint64_t *mask;
    struct lm_err err;
    assert_int_equal(lm_machine_mask(m, s, &mask, &err), LM_OK);
    for (uint32_t id = 0; id < lm_vocab_n(v); id++) {
        lm_state next = s;
        assert_int_equal(lm_machine_take(m, &next, id, &err), LM_OK);
        if ((mask[id / 64] >> id % 64 & 1) != (next != LM_STATE_DEAD))
            fail_msg("%s: id %u is %s", name, (unsigned)id, next == LM_STATE_DEAD ?
                     "in the mask and cannot be taken" : "not in the mask and can be taken");
    }
}

/* Every mask along the first text of each case; how many masks. */
static int check_every_id(const struct lm_jval *cases, const struct lm_vocab *v)
{
    struct lm_err err;
    int n = 0;
    for (const struct lm_jval *c = cases->first; c; c = c->next) {
        const struct lm_jval *schema = lm_jval_get(c, "schema"), *t = lm_jval_get(c, "accept");
        const char *name = lm_jval_str(lm_jval_get(c, "name"));
        struct lm_grammar *g = lm_grammar_schema(lm_jval_str(schema), schema->len, NULL, NULL,
                                                 &err);
        if (!g || !(t = t->first) || t->len > 90) {
            lm_grammar_free(g);
            continue;
        }
        struct lm_machine *m = lm_machine_new(g, v, lm_vocab_n(v), NULL, 0, &err);
        lm_state s;
        assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
        for (size_t i = 0; i < t->len; i++, n++) {
            check_ids(m, v, s, name);
            assert_int_equal(lm_machine_byte(m, &s, (unsigned char)lm_jval_str(t)[i], &err), LM_OK);
        }
        lm_machine_free(m);
        lm_grammar_free(g);
    }
    return n;
}

/* Masks, whose ids are found by classes of characters, and by taking each. */
static void test_every_id(void **state)
{
    struct lm_arena a = { 0 };
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_open("tests/data/vocab/qwen.gguf", NULL, &err);
    (void)state;
    assert_non_null(v);
    assert_true(check_every_id(read_json(&a, "tests/data/sample/schema.json"), v) > 600);
    assert_true(check_every_id(read_json(&a, "tests/data/sample/schema-more.json"), v) > 300);
    lm_vocab_free(v);
    lm_arena_release(&a);
}

/* A schema of 5 KB takes its instance, indented. */
static void test_order(void **state)
{
    struct lm_err err;
    char *schema, *text;
    size_t len, n;
    (void)state;
    assert_int_equal(lm_read_file("tests/data/sample/order.schema.json", 1 << 20, &schema, &len,
                                  &err), LM_OK);
    assert_int_equal(lm_read_file("tests/data/sample/order.json", 1 << 20, &text, &n, &err), LM_OK);
    struct lm_grammar *g = lm_grammar_schema(schema, len, NULL, NULL, &err);
    assert_non_null(g);
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    assert_int_equal(try_text(m, text, n), WHOLE);
    char *id = strstr(text, "123e4567");
    *id = 'g';                                    /* no hexadecimal digit */
    assert_int_equal(try_text(m, text, n), REFUSED);
    lm_machine_free(m);
    lm_grammar_free(g);
    free(schema);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gbnf), cmocka_unit_test(test_regex), cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_verdicts), cmocka_unit_test(test_mark),
        cmocka_unit_test(test_masks), cmocka_unit_test(test_every_id),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
