/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/f16.h"
#include "base/json.h"
#include "base/line.h"
#include "base/size.h"
#include "base/thread.h"

static void errors_gain_context(void **state)
{
    (void)state;
    struct lm_err e;
    assert_int_equal(lm_fail(&e, LM_EDATA, "%d rows", 3), LM_EDATA);
    assert_int_equal(lm_err_at(&e, LM_EDATA, "tensor %s", "x"), LM_EDATA);
    assert_string_equal(e.text, "tensor x: 3 rows");
    char longer[600];
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    lm_err_at(&e, LM_EDATA, "%s", longer);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    assert_int_equal(lm_fail(NULL, LM_EIO, "nobody listens"), LM_EIO);
}

static void sizes_do_not_wrap(void **state)
{
    (void)state;
    uint64_t r = 7;
    assert_false(lm_mul_u64(UINT64_C(1) << 33, UINT64_C(1) << 31, &r));
    assert_false(lm_add_u64(UINT64_MAX, 1, &r));
    assert_false(lm_align_u64(UINT64_MAX - 3, 32, &r));
    assert_int_equal(r, 7);
    assert_true(lm_align_u64(33, 32, &r));
    assert_int_equal(r, 64);
    assert_null(lm_malloc_array(SIZE_MAX / 2, 3));

    int *a = NULL;
    size_t cap = 0;
    assert_true(lm_grow(&a, &cap, 100, sizeof *a));
    assert_true(cap >= 100);
    a[99] = 1;
    assert_false(lm_grow(&a, &cap, SIZE_MAX / 2, sizeof *a));
    assert_int_equal(a[99], 1);
    free(a);
}

/* RFC 4648, section 10, and what is none. */
static void base64_is_read(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        { "", "" }, { "Zg==", "f" }, { "Zm8=", "fo" }, { "Zm9v", "foo" }, { "Zm9vYg==", "foob" },
        { "Zm9vYmE=", "fooba" }, { "Zm9vYmFy", "foobar" }, { "Zg", "f" }, { "Zm9vYmE", "fooba" },
        { "Zm 9v\nYg==\n", "foob" }, { "+/+/", "\xFB\xFF\xBF" },
    };
    static const char *const bad[] = { "Z", "Zg=", "Zg===", "=", "Zm9v=", "Zg==Zg==", "Z-8=",
                                       "Zm9vY" };
    struct lm_buf b = { 0 };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        lm_buf_clear(&b);
        lm_buf_byte(&b, 'x');
        assert_true(lm_buf_base64(&b, good[i][0], strlen(good[i][0])));
        assert_string_equal(b.data + 1, good[i][1]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lm_buf_clear(&b);
        assert_false(lm_buf_base64(&b, bad[i], strlen(bad[i])));
        assert_int_equal(b.len, 0);
    }
    lm_buf_release(&b);
}

static void arenas_zero_and_align(void **state)
{
    (void)state;
    struct lm_arena a = { 0 };
    for (size_t i = 0; i < 3000; i++) {
        unsigned char *p = lm_arena_alloc(&a, i % 97);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < i % 97; k++) {
            assert_int_equal(p[k], 0);
            p[k] = 255;
        }
    }
    assert_non_null(lm_arena_alloc(&a, 5 << 20));
    assert_null(lm_arena_array(&a, SIZE_MAX / 2, 4));
    assert_string_equal(lm_arena_copy(&a, "abc", 3), "abc");
    void *p = malloc(100);
    assert_ptr_equal(lm_arena_own(&a, p), p);      /* a leak otherwise */
    assert_null(lm_arena_own(&a, NULL));
    lm_arena_release(&a);
}

static void buffers_escape_what_terminals_obey(void **state)
{
    (void)state;
    struct lm_buf b = { 0 };
    lm_buf_escape(&b, "a\n\x1b[31m\\ \xc3\xa9 \xc2\x9b \xff", 16);
    assert_string_equal(b.data, "a\\n\\x1B[31m\\\\ \xc3\xa9 \\xC2\\x9B \\xFF");
    lm_buf_clear(&b);
    lm_buf_escape(&b, "\0", 1);
    assert_string_equal(b.data, "\\x00");
    lm_buf_clear(&b);
    lm_buf_rune(&b, 0x1F600);
    lm_buf_rune(&b, 0xD800);
    assert_string_equal(b.data, "\xF0\x9F\x98\x80\xEF\xBF\xBD");
    lm_buf_release(&b);

    b.cap = 0;
    assert_null(lm_buf_room(&b, SIZE_MAX));
    lm_buf_str(&b, "ignored");
    assert_true(b.failed);
    assert_int_equal(b.len, 0);
    lm_buf_release(&b);
}

static void buffers_take_numbers_and_spaces(void **state)
{
    struct lm_buf b = { 0 };
    (void)state;
    lm_buf_u64(&b, 0);
    lm_buf_spaces(&b, 3);
    lm_buf_u64(&b, 1234567890);
    lm_buf_spaces(&b, 0);
    lm_buf_byte(&b, '/');
    lm_buf_u64(&b, UINT64_MAX);
    assert_string_equal(b.data, "0   1234567890/18446744073709551615");
    lm_buf_spaces(&b, SIZE_MAX);
    assert_true(b.failed);
    lm_buf_release(&b);
}

static void utf8_is_rfc_3629(void **state)
{
    (void)state;
    static const struct { const char *s; int len; uint32_t rune; } cases[] = {
        { "a", 1, 'a' }, { "\xC2\x80", 2, 0x80 }, { "\xED\x9F\xBF", 3, 0xD7FF },
        { "\xF4\x8F\xBF\xBF", 4, 0x10FFFF }, { "\xC0\x80", 0, 0 }, { "\xE0\x80\x80", 0, 0 },
        { "\xED\xA0\x80", 0, 0 }, { "\xF4\x90\x80\x80", 0, 0 }, { "\xE6\xAD", 0, 0 },
        { "\xFF", 0, 0 }, { "\x80", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t r = 0;
        assert_int_equal(lm_utf8_len(cases[i].s, strlen(cases[i].s), &r), cases[i].len);
        assert_int_equal(r, cases[i].rune);
    }
}

/* Tokens of a text as letters: { } [ ] k s n t f 0 for null, . at the end, ! for
 * an error. */
static const char *shape(const char *text, size_t len)
{
    static char out[512];
    static const char letters[] = ".{}[]ksntf0";
    struct lm_json j;
    struct lm_err err;
    size_t n = 0;
    enum lm_json_kind k;
    lm_json_init(&j, text, len, &err);
    do {
        k = lm_json_next(&j);
        out[n++] = k == LM_JSON_ERROR ? '!' : letters[k];
    } while (k != LM_JSON_ERROR && k != LM_JSON_EOF && n < sizeof out - 1);
    out[n] = 0;
    lm_json_release(&j);
    return out;
}

static void json_is_read_and_refused(void **state)
{
    (void)state;
    static const struct { const char *text, *shape; } cases[] = {
        { "{\"a\":[1,-2.5e+3,true],\"b\":{}}", "{k[nnt]k{}}." },
        { " null ", "0." }, { "[]", "[]." }, { "\"\\ud83d\\ude00\\u0000\"", "s." },
        { "", "!" }, { "[1,]", "[n!" }, { "{\"a\" 1}", "{!" }, { "{1:2}", "{!" }, { "01", "!" },
        { "1.", "!" }, { "-", "!" }, { "1e", "!" }, { "+1", "!" }, { "[1 2]", "[n!" },
        { "1 1", "n!" }, { "\"\\ud83d\"", "!" }, { "\"\\x\"", "!" }, { "\"a", "!" },
        { "\"\n\"", "!" }, { "nul", "!" }, { "[1}", "[n!" }, { "{\"a\":}", "{k!" },
        { "\"\xff\"", "!" }, { "\"\\", "!" }, { "\"\\u12", "!" }, { "}", "!" }, { "NaN", "!" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(shape(cases[i].text, strlen(cases[i].text)), cases[i].shape);

    char deep[300];
    memset(deep, '[', sizeof deep);
    const char *s = shape(deep, sizeof deep);
    assert_int_equal(s[LM_JSON_DEPTH], '!');
    assert_string_equal(shape("\"a\0b\"", 5), "!");
}

/* Strings are given where they stand, but those with escapes. */
static void json_slices_are_the_text(void **state)
{
    (void)state;
    static const char text[] = "{\"k\\u00e9y\":[\"plain \xE2\x96\x81\",\"\",\"\\n\",-1.5]}";
    static const char *const want[] = { "k\xC3\xA9y", "plain \xE2\x96\x81", "", "\n", "-1.5" };
    static const bool there[] = { false, true, true, false, false };
    struct lm_json j;
    struct lm_err err;
    size_t n = 0;
    lm_json_init(&j, text, strlen(text), &err);
    j.slices = true;
    for (enum lm_json_kind k; (k = lm_json_next(&j)) != LM_JSON_EOF;) {
        assert_int_not_equal(k, LM_JSON_ERROR);
        if (k != LM_JSON_KEY && k != LM_JSON_STRING && k != LM_JSON_NUMBER)
            continue;
        assert_int_equal(j.str_len, strlen(want[n]));
        assert_memory_equal(j.str, want[n], j.str_len);
        assert_int_equal(j.str >= text && j.str < text + sizeof text, there[n]);
        n++;
    }
    assert_int_equal(n, 5);
    lm_json_release(&j);
}

static void json_errors_say_where(void **state)
{
    (void)state;
    struct lm_arena a = { 0 };
    struct lm_err err;
    const char *text = "{\"a\": 1,\n  \"b\": ?}";
    assert_null(lm_json_tree(&a, text, strlen(text), &err));
    assert_int_equal(err.code, LM_EDATA);
    assert_string_equal(err.text, "line 2, column 8: not a JSON value");
    static const struct { const char *text, *why; } begins[] = {
        { "\xEF\xBB\xBF{}", "a byte order mark, which JSON does not have" },
        { "\xFF\xFE{", "UTF-16: JSON is UTF-8" }, { "\xFE\xFF", "UTF-16: JSON is UTF-8" },
        { "\xEF\xBB", "not a JSON value" }, { " \xEF\xBB\xBF", "not a JSON value" },
    };
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        assert_null(lm_json_tree(&a, begins[i].text, strlen(begins[i].text), &err));
        assert_non_null(strstr(err.text, begins[i].why));
    }
    lm_arena_release(&a);
}

static void json_trees_answer(void **state)
{
    (void)state;
    struct lm_arena a = { 0 };
    struct lm_err err;
    const char *text = "{\"x\":1e3,\"y\":{\"z\":[\"a\\u0000b\",4.5,9223372036854775807]},"
                       "\"t\":true,\"x\":7}";
    const struct lm_jval *v = lm_json_tree(&a, text, strlen(text), &err);
    assert_non_null(v);
    assert_int_equal(v->len, 4);
    int64_t i = 0;
    double d = 0;
    bool t = false;
    assert_true(lm_jval_i64(lm_jval_get(v, "x"), &i));       /* the last one counts */
    assert_int_equal(i, 7);
    const struct lm_jval *z = lm_jval_get(lm_jval_get(v, "y"), "z");
    assert_int_equal(z->len, 3);
    assert_int_equal(z->first->len, 3);
    assert_memory_equal(lm_jval_str(z->first), "a\0b", 4);
    assert_true(lm_jval_f64(z->first->next, &d) && d == 4.5);
    assert_false(lm_jval_i64(z->first->next, &i));
    assert_true(lm_jval_i64(z->first->next->next, &i) && i == INT64_MAX);
    assert_true(lm_jval_bool(lm_jval_get(v, "t"), &t) && t);
    assert_null(lm_jval_get(NULL, "x"));
    assert_false(lm_jval_bool(lm_jval_get(v, "none"), &t));
    lm_arena_release(&a);
}

static void json_numbers_read_back(void **state)
{
    (void)state;
    struct lm_buf b = { 0 };
    static const double values[] = { 0.1, 1.0 / 3, 1e300, -0.0, 5e-324, 123456789012345678.0 };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        lm_buf_clear(&b);
        lm_json_f64(&b, values[i]);
        assert_true(strtod(b.data, NULL) == values[i]);
    }
    lm_buf_clear(&b);
    lm_json_f32(&b, 0.1f);
    assert_string_equal(b.data, "0.1");
    lm_buf_clear(&b);
    lm_json_f64(&b, -INFINITY);
    lm_json_f64(&b, NAN);
    assert_string_equal(b.data, "\"-Infinity\"\"NaN\"");
    lm_buf_clear(&b);
    lm_json_quote(&b, "a\"\\\n\x01\xff\0", 7);
    assert_string_equal(b.data, "\"a\\\"\\\\\\n\\u0001\xEF\xBF\xBD\\u0000\"");
    lm_buf_release(&b);
}

/* One U+FFFD for what could begin a character; Unicode's own example (3.9, table 3-8 and its
 * kin), and what Python's bytes.decode(errors="replace") makes of the others. */
static void broken_text_is_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *want;                /* want: '?' is U+FFFD */
    } t[] = {
        { "a\xF1\x80\x80\xE1\x80\xC2" "b\x80" "c\x80\xBF" "d", "a???b?c??d" },
        { "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82" "A", "????????A" },
        { "\xED\xA0\x80\xED\xBF\xBF\xED\xAF" "A", "????????A" },
        { "\xF4\x91\x92\x93\xFF" "A\x80\xBF" "B", "?????A??B" },
        { "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF" "A", "????A" },
        { "\xE6\xAD", "?" }, { "\xF0\x9F\x98", "?" }, { "\xF4\x8F\xBF", "?" },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct lm_buf b = { 0 }, want = { 0 };
        lm_json_quote(&b, t[i].bytes, strlen(t[i].bytes));
        lm_buf_byte(&want, '"');
        for (const char *c = t[i].want; *c; c++)
            lm_buf_rune(&want, *c == '?' ? 0xFFFD : (uint32_t)*c);
        lm_buf_byte(&want, '"');
        assert_string_equal(b.data, want.data);
        lm_buf_release(&b);
        lm_buf_release(&want);
    }
}

static void halves_round_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {              /* every half survives */
        float f = lm_f16_load((uint16_t)h);
        if (f == f)
            assert_int_equal(lm_f16_store(f), h);
    }
    assert_int_equal(lm_f16_store(65519.0f), 0x7BFF);
    assert_int_equal(lm_f16_store(65520.0f), 0x7C00);
    assert_int_equal(lm_f16_store(1.00048828125f), 0x3C00);     /* tie, to even */
    assert_int_equal(lm_f16_store(1.00146484375f), 0x3C02);
    assert_int_equal(lm_f16_store(0x1p-25f), 0);
    assert_int_equal(lm_f16_store(-0x1.8p-25f), 0x8001);
}

/* The compiler must not fuse a * b + c: files would differ between machines. */
static void products_are_rounded(void **state)
{
    (void)state;
    volatile float va = 1.0f + 0x1p-12f, vc = -1.0f - 0x1p-11f;
    float a = va, c = vc;
    float r = a * a + c;       /* a * a = 1 + 2^-11 + 2^-24, rounded to 1 + 2^-11 */
    assert_true(r == 0.0f);
}

struct sum {
    atomic_uint total;
    atomic_int  seen[1000];
};

static void add(void *arg, size_t i, int thread)
{
    struct sum *s = arg;
    (void)thread;
    atomic_fetch_add(&s->total, (unsigned)i);
    atomic_fetch_add(&s->seen[i], 1);
}

static void pools_run_each_index_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        struct lm_err err;
        struct lm_pool *p = lm_pool_new(threads, &err);
        assert_non_null(p);
        assert_int_equal(lm_pool_threads(p), threads);
        for (int round = 0; round < 200; round++) {
            struct sum s = { 0 };
            size_t n = (size_t)(round * 7 % 1000);
            lm_pool_run(p, add, &s, n);
            assert_int_equal(s.total, n ? n * (n - 1) / 2 : 0);
            for (size_t i = 0; i < 1000; i++)
                assert_int_equal(s.seen[i], i < n);
        }
        lm_pool_free(p);
    }
    lm_pool_free(NULL);
}

struct in_order {
    size_t turn, n;
    size_t order[5000];
};

static void append(void *arg, size_t i, int thread)
{
    struct in_order *o = arg;
    (void)thread;
    lm_turn_wait(&o->turn, i);
    o->order[o->n++] = i;
    lm_turn_pass(&o->turn);
}

static void turns_keep_order(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        static struct in_order o;
        struct lm_pool *p = lm_pool_new(threads, NULL);
        o.turn = o.n = 0;
        lm_pool_run(p, append, &o, 5000);
        assert_int_equal(o.n, 5000);
        for (size_t i = 0; i < o.n; i++)
            assert_int_equal(o.order[i], i);
        lm_pool_free(p);
    }
}

/* A line that squares the numbers below `end`; number `bad` fails in step `where`. */
struct squares {
    int        next, end, bad, where, put;
    int        in[5], out[5];
    atomic_int taking;
};

static int take_one(void *arg, size_t slot)
{
    struct squares *s = arg;
    assert_int_equal(atomic_fetch_add(&s->taking, 1), 0);
    const int k = s->next++;
    s->in[slot] = k;
    atomic_fetch_sub(&s->taking, 1);
    return k == s->bad && s->where == 0 ? LM_EIO : k < s->end;
}

static int square_one(void *arg, size_t slot, int thread)
{
    struct squares *s = arg;
    (void)thread;
    s->out[slot] = s->in[slot] * s->in[slot];
    return s->in[slot] == s->bad && s->where == 1 ? LM_EDATA : LM_OK;
}

static int put_one(void *arg, size_t slot)
{
    struct squares *s = arg;
    assert_int_equal(s->out[slot], s->put * s->put);
    s->put++;
    return s->in[slot] == s->bad && s->where == 2 ? LM_ESTOP : LM_OK;
}

static void lines_keep_order(void **state)
{
    (void)state;
    static const int codes[] = { LM_EIO, LM_EDATA, LM_ESTOP };
    for (int i = 0; i < 400; i++) {
        const int threads = i % 4 + 1;
        const size_t slots = threads == 1 ? 1 : (size_t)(i / 4 % 5 + 1);
        struct squares s = { .end = i * 3 % 100, .bad = i % 7 * 5, .where = i % 5 };
        const struct lm_line l = { threads, slots, &s, take_one, square_one, put_one };
        size_t failed = 99;
        const int code = lm_line_run(&l, &failed);
        const bool fails = s.where < 3 && (s.bad < s.end || (s.bad == s.end && s.where == 0));
        assert_int_equal(code, fails ? codes[s.where] : LM_OK);
        assert_int_equal(s.put, fails ? s.bad + (s.where == 2) : s.end);
        if (fails)
            assert_int_equal(s.in[failed], s.bad);
    }
}

static void isa_can_be_lowered(void **state)
{
    (void)state;
    setenv("LMPIPE_ISA", "scalar", 1);
    assert_int_equal(lm_isa(), LM_ISA_SCALAR);
    setenv("LMPIPE_ISA", "no such thing", 1);
    enum lm_isa best = lm_isa();
    unsetenv("LMPIPE_ISA");
    assert_int_equal(lm_isa(), best);
    assert_true(lm_cpu_count() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_gain_context),
        cmocka_unit_test(sizes_do_not_wrap),
        cmocka_unit_test(base64_is_read),
        cmocka_unit_test(arenas_zero_and_align),
        cmocka_unit_test(buffers_escape_what_terminals_obey),
        cmocka_unit_test(buffers_take_numbers_and_spaces),
        cmocka_unit_test(utf8_is_rfc_3629),
        cmocka_unit_test(json_is_read_and_refused),
        cmocka_unit_test(json_slices_are_the_text),
        cmocka_unit_test(json_errors_say_where),
        cmocka_unit_test(json_trees_answer),
        cmocka_unit_test(json_numbers_read_back),
        cmocka_unit_test(broken_text_is_quoted),
        cmocka_unit_test(halves_round_to_even),
        cmocka_unit_test(products_are_rounded),
        cmocka_unit_test(pools_run_each_index_once),
        cmocka_unit_test(turns_keep_order),
        cmocka_unit_test(lines_keep_order),
        cmocka_unit_test(isa_can_be_lowered),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
