/* SPDX-License-Identifier: MIT */
/* Grammars in the midst of characters, and grammars that wait for a trigger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "grammar_cases.h"
#include "not_here.h"
#include "job/trigger.h"
#include "sample/grammar/grammar.h"

/* Which bytes may come next are those from lo to hi. */
static void check_next(struct lm_machine *m, lm_state at, int lo, int hi)
{
    struct lm_err err;
    for (int b = 0; b < 256; b++) {
        lm_state s = at;
        assert_int_equal(lm_machine_byte(m, &s, (unsigned char)b, &err), LM_OK);
        if ((s != LM_STATE_DEAD) != (b >= lo && b <= hi))
            fail_msg("byte %02X, where %02X to %02X may come", b, lo, hi);
    }
}

/* Inside a character only bytes that lead into the set, and no end; work as the text is long. */
static void test_partial_characters(void **state)
{
    static const struct { unsigned char byte; int lo, hi; } steps[] = {
        { 0xF0, 0x9F, 0x9F }, { 0x9F, 0x98, 0x99 }, { 0x98, 0x80, 0xBF }, { 0xBF, 0xF0, 0xF0 },
        { 0xF0, 0x9F, 0x9F }, { 0x9F, 0x98, 0x99 }, { 0x99, 0x80, 0x8F }, { 0x8F, 0xF0, 0xF0 },
    };
    static const char set[] = "root ::= [\U0001F600-\U0001F64F]+";
    static const char chain[] = "root ::= (\"a\"? \"a\"? \"a\"? \"a\"? \"a\"? [0-9])+";
    struct lm_err err;
    lm_state s;
    (void)state;
    struct lm_grammar *g = lm_grammar_gbnf(set, strlen(set), NULL, &err);
    struct lm_machine *m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    check_next(m, s, 0xF0, 0xF0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(lm_machine_byte(m, &s, steps[i].byte, &err), LM_OK);
        check_next(m, s, steps[i].lo, steps[i].hi);
        assert_int_equal(lm_machine_complete(m, s), i % 4 == 3);
    }
    lm_machine_free(m);
    lm_grammar_free(g);

    g = lm_grammar_gbnf(chain, strlen(chain), NULL, &err);
    m = lm_machine_new(g, NULL, 0, NULL, 0, &err);
    assert_int_equal(lm_machine_start(m, &s, &err), LM_OK);
    for (int i = 0; i < 900000; i++)
        assert_int_equal(lm_machine_byte(m, &s, (unsigned char)"1a2a3a4a5"[i % 9], &err), LM_OK);
    assert_true(lm_machine_complete(m, s));
    lm_machine_free(m);
    lm_grammar_free(g);
}

/* ---- triggers ---- */

/* A grammar that waits, and what has come so far. */
struct wait {
    const struct lm_vocab *v;
    struct lm_grammar     *g;
    struct lm_machine     *m;
    struct lm_triggers     t;
    struct lm_waiting      w;
    lm_state               s;
    bool                   bound;
};

static const int32_t ends[] = { 0, 2, 4 };            /* SmolLM2's */

static void begin_wait(struct wait *x, const struct lm_vocab *v, const char *grammar)
{
    struct lm_err err;
    *x = (struct wait){ .v = v, .g = lm_grammar_gbnf(grammar, strlen(grammar), v, &err) };
    assert_non_null(x->g);
    x->m = lm_machine_new(x->g, v, lm_vocab_n(v), ends, 3, &err);
    assert_non_null(x->m);
}

static void end_wait(struct wait *x)
{
    lm_waiting_release(&x->w);
    lm_triggers_release(&x->t);
    lm_machine_free(x->m);
    lm_grammar_free(x->g);
}

static int take(struct wait *x, uint32_t id, struct lm_err *err)
{
    int s = x->bound ? lm_machine_take(x->m, &x->s, id, err)
                     : lm_waiting_take(&x->w, &x->t, x->v, x->m, &x->s, id, err);
    x->bound |= s > 0;
    return s;
}

static void check_lazy(const struct lm_vocab *v, const struct lm_jval *c)
{
    const char *name = lm_jval_str(lm_jval_get(c, "note"));
    struct lm_err err;
    struct wait x;
    begin_wait(&x, v, lm_jval_str(lm_jval_get(c, "grammar")));
    for (const struct lm_jval *p = lm_jval_get(c, "patterns")->first; p; p = p->next)
        assert_int_equal(lm_triggers_add(&x.t, LM_TRIGGER_PATTERN, lm_jval_str(p), &err), LM_OK);
    for (const struct lm_jval *p = lm_jval_get(c, "trigger_tokens")->first; p; p = p->next) {
        int64_t id;
        assert_true(lm_jval_i64(p, &id));
        assert_int_equal(lm_triggers_add_id(&x.t, (int32_t)id, &err), LM_OK);
    }
    for (const struct lm_jval *t = lm_jval_get(c, "steps")->first; t; t = t->next) {
        const uint64_t *mask;
        int64_t id;
        bool active;
        assert_true(lm_jval_i64(lm_jval_get(t, "token"), &id) &&
                    lm_jval_bool(lm_jval_get(t, "active"), &active));
        assert_true(take(&x, (uint32_t)id, &err) >= 0);
        if (x.bound != active)
            fail_msg("%s: token %d", name, (int)id);
        if (!x.bound)
            continue;
        assert_int_equal(lm_machine_mask(x.m, x.s, &mask, &err), LM_OK);
        check_mask_ids(mask, lm_vocab_n(v), t, name);
    }
    end_wait(&x);
}

static void test_lazy(void **state)
{
    struct lm_arena a = { 0 };
    char path[400];
    (void)state;
    snprintf(path, sizeof path, "%s/fixtures/sample/gbnf/lazy.json", shared_dir());
    const struct lm_jval *cases = read_json(&a, path);
    struct lm_vocab *v = cases ? smollm2() : NULL;
    if (!v)
        NOT_HERE("the reference values beside the project, or SmolLM2");
    for (const struct lm_jval *c = cases->first; c; c = c->next)
        check_lazy(v, c);
    lm_vocab_free(v);
    lm_arena_release(&a);
}

/* Feed text as the vocabulary cuts it; how many bytes of it came before the grammar was bound, or
 * the code. */
static int feed(struct wait *x, const char *text, struct lm_err *err)
{
    struct lm_ids ids = { 0 };
    int s = LM_OK, n = 0;
    assert_int_equal(lm_vocab_encode(x->v, text, strlen(text), 0, &ids, err), LM_OK);
    for (size_t i = 0; i < ids.n && s >= 0 && !x->bound; i++) {
        n += (int)lm_vocab_piece(x->v, (uint32_t)ids.id[i]).len;
        s = take(x, (uint32_t)ids.id[i], err);
    }
    lm_ids_release(&ids);
    return s < 0 ? s : x->bound ? n : 0;
}

/* Each kind of trigger on the tiny model's vocabulary, which cuts most text in bytes. */
static void test_triggers(void **state)
{
    static const struct {
        enum lm_trigger_kind kind;
        const char *trigger, *text;
        int bound;                                /* after so many bytes; 0: never */
        bool complete;                            /* then, in "ab" "c"? */
    } all[] = {
        { LM_TRIGGER_TEXT,    "ab",            "x aab",     5, true  },
        { LM_TRIGGER_TEXT,    "ab",            "a b",       0, false },
        { LM_TRIGGER_PATTERN, "a.?",           "xxa",       3, false },
        { LM_TRIGGER_PATTERN, "^(x*)(ab)",     "ab",        2, true  },
        { LM_TRIGGER_PATTERN, "<\\d+>(ab)",    "<12><3>ab", 9, true  },
        { LM_TRIGGER_PATTERN, "\\u00e9\\s(ab)", "xé é ab",   9, true  },
        { LM_TRIGGER_PATTERN, "^ab",           "xab",       0, false },
        { LM_TRIGGER_PATTERN, "(?<=x)ab|q(ab)", "ab xab",   6, true  },
        { LM_TRIGGER_FULL,    "[^]*?(ab)",     "q\n.ab",    5, true  },
        { LM_TRIGGER_FULL,    "x(ab)",         "xxab",      0, false },
    };
    struct lm_err err;
    (void)state;
    struct lm_vocab *v = lm_vocab_open("tests/data/m.gguf", NULL, &err);
    assert_non_null(v);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct wait x;
        begin_wait(&x, v, "root ::= \"ab\" \"c\"?");
        assert_int_equal(lm_triggers_add(&x.t, all[i].kind, all[i].trigger, &err), LM_OK);
        const int n = feed(&x, all[i].text, &err);
        if (n != all[i].bound)
            fail_msg("'%s' in '%s': %d", all[i].trigger, all[i].text, n);
        if (n && lm_machine_complete(x.m, x.s) != all[i].complete)
            fail_msg("'%s' in '%s': the state", all[i].trigger, all[i].text);
        end_wait(&x);
    }
    lm_vocab_free(v);
}

/* A grammar that cannot begin so, patterns that are none, and text that is taken back. */
static void test_odd_triggers(void **state)
{
    struct lm_err err;
    struct wait x;
    (void)state;
    struct lm_vocab *v = lm_vocab_open("tests/data/m.gguf", NULL, &err);
    assert_non_null(v);
    begin_wait(&x, v, "root ::= \"ab\"");
    assert_int_equal(lm_triggers_add(&x.t, LM_TRIGGER_PATTERN, "(", &err), LM_EUSE);
    assert_int_equal(lm_triggers_add(&x.t, LM_TRIGGER_FULL, "[b-a]", &err), LM_EUSE);
    assert_int_equal(lm_triggers_add(&x.t, LM_TRIGGER_TEXT, "xa", &err), LM_OK);
    assert_int_equal(lm_triggers_add(&x.t, LM_TRIGGER_PATTERN, "(a+)+!", &err), LM_OK);
    assert_int_equal(feed(&x, "ya", &err), 0);
    lm_waiting_cut(&x.w, &x.t, 0);
    assert_int_equal(feed(&x, "a", &err), 0);         /* the y is gone */
    lm_waiting_cut(&x.w, &x.t, 0);
    assert_int_equal(feed(&x, "x", &err), 0);
    assert_int_equal(feed(&x, "a", &err), LM_EDATA);
    assert_string_equal(err.text, "cannot begin with 'xa', where it is triggered");
    lm_waiting_cut(&x.w, &x.t, 0);
    const char *many = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_int_equal(feed(&x, many, &err), LM_ENOSUP);
    end_wait(&x);
    lm_vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partial_characters), cmocka_unit_test(test_lazy),
        cmocka_unit_test(test_triggers), cmocka_unit_test(test_odd_triggers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
