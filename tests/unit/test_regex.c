/* SPDX-License-Identifier: MIT */
/* Patterns of tokenizers: against what Oniguruma found, against the matchers by hand, refused
 * ones, and how long they may take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "vocab/pretok.h"
#include "vocab/regex.h"
#include "vocab/runeset.h"
#include "vocab/unicode.h"

#ifndef DATA
#define DATA "tests/data/"
#endif
#define N(x) (sizeof(x) / sizeof *(x))

static struct lm_regex *compile(const char *pattern, size_t len)
{
    struct lm_err err;
    struct lm_regex *r = lm_regex_new(pattern, len, &err);
    if (!r)
        fail_msg("%s: %s", pattern, err.text);
    return r;
}

static bool slow;                        /* by PCRE2 in any case */

/* Matches as "at-end at-end ". */
static void matches(const struct lm_regex *r, const char *p, size_t len, struct lm_buf *out)
{
    struct lm_regex_scan s = { .slow = slow };
    struct lm_err err;
    size_t at, end;
    int rc;
    lm_buf_clear(out);
    lm_buf_add(out, "", 0);
    assert_int_equal(lm_regex_start(&s, r, p, len, &err), LM_OK);
    while ((rc = lm_regex_next(&s, &at, &end, &err)) > 0)
        lm_buf_printf(out, "%zu-%zu ", at, end);
    if (rc < 0)
        fail_msg("%s", err.text);
    lm_regex_scan_release(&s);
}

/* The pieces that cutting at matches leaves, empty ones left out. */
static void pieces(const struct lm_regex *r, const char *p, size_t len, struct lm_buf *out)
{
    struct lm_regex_scan s = { 0 };
    size_t at, end, done = 0;
    lm_buf_clear(out);
    lm_buf_add(out, "", 0);
    assert_int_equal(lm_regex_start(&s, r, p, len, NULL), LM_OK);
    while (lm_regex_next(&s, &at, &end, NULL) > 0) {
        if (at > done)
            lm_buf_printf(out, "%zu ", at - done);
        if (end > at)
            lm_buf_printf(out, "%zu ", end - at);
        done = end;
    }
    if (len > done)
        lm_buf_printf(out, "%zu ", len - done);
    lm_regex_scan_release(&s);
}

static void pieces_by_hand(const struct lm_prestep *t, const char *p, size_t len,
                           struct lm_buf *out)
{
    const struct lm_pretok one = { "one", 0, { *t } };
    struct lm_cut words;
    lm_buf_clear(out);
    lm_buf_add(out, "", 0);
    lm_cut_init(&words, &one, p, len);
    for (const char *end; (end = lm_cut_next(&words)); p = end)
        lm_buf_printf(out, "%zu ", (size_t)(end - p));
}

/* ---- Oniguruma ------------------------------------------------------------------------ */

static void test_golden(void **state)
{
    (void)state;
    FILE *f = fopen(DATA "vocab/regex.jsonl", "r");
    char *line = NULL;
    size_t cap = 0, n = 0;
    struct lm_buf got = { 0 };
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        struct lm_arena a = { 0 };
        const struct lm_jval *j = lm_json_tree(&a, line, strlen(line), NULL);
        const struct lm_jval *p = lm_jval_get(j, "pattern");
        struct lm_regex *r = compile(p->str, p->len);
        for (const struct lm_jval *x = lm_jval_get(j, "cuts")->first; x; x = x->next) {
            const struct lm_jval *text = x->first, *want = text->next;
            pieces(r, text->str, text->len, &got);
            if (strcmp(got.data, want->str) != 0)
                fail_msg("%s on '%s': %s, not %s", p->str, text->str, got.data, want->str);
            n++;
        }
        lm_regex_free(r);
        lm_arena_release(&a);
    }
    assert_true(n > 500);
    lm_buf_release(&got);
    free(line);
    fclose(f);
}

/* ---- matchers by hand ------------------------------------------------------------------- */

static uint64_t seed = 20261129;

static uint32_t draw(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Characters that patterns tell apart, and bytes that are none. */
static void random_text(struct lm_buf *b)
{
    static const char *const alphabet[] = {
        " ", " ", "\n", "\r", "\t", "'", "s", "S", "t", "ll", "re", "VE", "d", "a", "B", "z", "K",
        "0", "1", "12", "345", ".", ",", "!", "/", "-", "_", "(", "]", "$", "+", "<", "`", "~",
        "\xC2\xA0", "\xC2\x85", "\xE2\x80\xA8", "\xE3\x80\x80", "\xC5\xBF", "\xE2\x84\xAA",
        "\xC3\xA9", "\xC3\x89", "\xC7\x85", "\xCA\xB0", "\xC2\xAA", "\xE6\x97\xA5", "\xE3\x81\xB2",
        "\xE3\x82\xAB", "\xED\x95\x9C", "\xE3\x84\xB1", "\xE3\x84\x85", "\xE3\x80\x87",
        "\xE3\x80\x85", "\xCC\x81", "\xE0\xA4\xB9\xE0\xA4\xBF", "\xE0\xB9\x84", "\xD9\xA3",
        "\xC2\xBD", "\xE2\x85\xA7",
        "\xC2\xB2", "\xE2\x80\x99", "\xE2\x80\x9C", "\xEF\xBC\x81", "\xE2\x80\xA6", "\xE2\x82\xAC",
        "\xF0\x9F\x98\x80", "\xE2\x80\x8D", "\xEE\x80\x80", "\xCD\xB8", "\xE2\x92\xB6", "\xFF",
        "\xE6\x97", "\xC0", "\xED\xA0\x80",
    };
    uint32_t n = draw(24), few = draw(3) ? N(alphabet) : 2 + draw(10), from = draw(N(alphabet));
    lm_buf_clear(b);
    lm_buf_add(b, "", 0);
    for (uint32_t i = 0; i < n; i++)
        lm_buf_str(b, alphabet[(from + draw(few)) % N(alphabet)]);
}

static void check_hand(const struct lm_regex *r, const struct lm_prestep *t, const char *pattern,
                       const char *p, size_t len)
{
    static struct lm_buf a, b;
    pieces(r, p, len, &a);
    pieces_by_hand(t, p, len, &b);
    if (strcmp(a.data, b.data) != 0)
        fail_msg("%s on '%.*s': by hand %s, PCRE2 %s", pattern, (int)len, p, b.data, a.data);
    lm_buf_release(&a);
    lm_buf_release(&b);
}

/* The texts of words.tsv and, where they are, the fixtures' corpus. */
static void check_texts(const char *path, const struct lm_regex *r, const struct lm_prestep *t,
                        const char *pattern, bool tsv)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    while (f && getline(&line, &cap, f) > 0) {
        struct lm_arena a = { 0 };
        if (tsv && strncmp(line, "T\t", 2) != 0)
            continue;
        const struct lm_jval *v = lm_json_tree(&a, line + 2 * tsv, strlen(line + 2 * tsv), NULL);
        v = tsv ? v : lm_jval_get(v, "text");
        assert_non_null(v);
        check_hand(r, t, pattern, v->str, v->len);
        lm_arena_release(&a);
    }
    free(line);
    if (f)
        fclose(f);
}

static void test_by_hand(void **state)
{
    (void)state;
    const char *pattern, *shared = getenv("LMPIPE_SHARED");
    const struct lm_prestep *t;
    struct lm_buf text = { 0 }, path = { 0 };
    size_t n = 0;
    lm_buf_printf(&path, "%s/fixtures/tokenize/corpus.jsonl", shared ? shared : "../shared");
    for (; (t = lm_pretok_pattern(n, &pattern)); n++) {
        struct lm_regex *r = compile(pattern, strlen(pattern));
        assert_ptr_equal(lm_pretok_by_pattern(pattern, strlen(pattern)), t);
        check_texts(DATA "vocab/words.tsv", r, t, pattern, true);
        check_texts(path.data, r, t, pattern, false);
        for (int i = 0; i < 3000; i++) {
            random_text(&text);
            check_hand(r, t, pattern, text.data, text.len);
        }
        lm_regex_free(r);
    }
    assert_true(n > 20);
    assert_null(lm_pretok_by_pattern("\\p{L}", 5));
    lm_buf_release(&text);
    lm_buf_release(&path);
}

/* Files have line ends in patterns as themselves, too. */
static void test_line_ends(void **state)
{
    (void)state;
    static const char as_is[] = "[\r\n]", escaped[] = "[\\r\\n]";
    assert_non_null(lm_pretok_by_pattern(as_is, 4));
    assert_ptr_equal(lm_pretok_by_pattern(as_is, 4), lm_pretok_by_pattern(escaped, 6));
}

/* ---- what is refused -------------------------------------------------------------------- */

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char   *pattern, *part;
        enum lm_code  code;
    } t[] = {
        { "(a)\\1", "'\\1'", LM_ENOSUP },       { "\\X", "'\\X'", LM_ENOSUP },
        { "\\p{Klingon}", "'Klingon'", LM_ENOSUP }, { "(?~a)", "kind of group", LM_ENOSUP },
        { "(?x)a", "(?x)", LM_ENOSUP },         { "(?i:ss)", "two in the other case", LM_ENOSUP },
        { "(?<=a+)b", "PCRE2 does not take it", LM_ENOSUP }, { "\\xFF", "byte", LM_ENOSUP },
        { "[[:alpha:]]", "alpha", LM_ENOSUP },  { "a{2000}", "repetitions", LM_ENOSUP },
        { "(a", "without its )", LM_EDATA },    { "a)", "without its (", LM_EDATA },
        { "[a", "without its ]", LM_EDATA },    { "*a", "quantifier of nothing", LM_EDATA },
        { "a|+", "quantifier of nothing", LM_EDATA }, { "a\\", "backslash", LM_EDATA },
        { "\\p{L", "without its }", LM_EDATA }, { "[z-a]", "before it begins", LM_EDATA },
        { "\\x{110000}", "U+10FFFF", LM_EDATA }, { "(?i", "without its )", LM_EDATA },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_err err = { 0 };
        assert_null(lm_regex_new(t[i].pattern, strlen(t[i].pattern), &err));
        if (err.code != t[i].code || !strstr(err.text, t[i].part))
            fail_msg("%s: %s", t[i].pattern, err.text);
    }
    /* what takes milliseconds to prepare, thousands of times */
    static const char *const costly[] = { "\\p{L}", "\\S", "[[:^space:]]", "(?i:ab)" };
    struct lm_buf b = { 0 };
    struct lm_err err;
    for (size_t i = 0; i < N(costly); i++) {
        for (int k = 0; k < 2000; k++)
            lm_buf_str(&b, costly[i]);
        assert_null(lm_regex_new(b.data, b.len, &err));
        assert_int_equal(err.code, LM_ENOSUP);
        assert_non_null(strstr(err.text, "so many classes"));
        lm_buf_clear(&b);
    }
    /* more sorts of characters than a byte can tell apart */
    for (uint32_t r = 0x4E00; r < 0x4F00; r++)
        lm_buf_rune(&b, r);
    assert_null(lm_regex_new(b.data, b.len, &err));
    assert_non_null(strstr(err.text, "255 sorts"));
    lm_buf_release(&b);
}

/* ---- two ways --------------------------------------------------------------------------- */

/* Matches of a text that comes in parts; what is certain of a match goes before its end is
 * known. */
static void matches_of_parts(const struct lm_regex *r, const struct lm_buf *text, uint32_t most,
                             struct lm_buf *out)
{
    struct lm_regex_walk w = { .ways = lm_regex_ways_new(r) };
    struct lm_buf b = { 0 };
    size_t gone = 0, at = 0, begin = SIZE_MAX;
    int rc = 2;
    assert_non_null(w.ways);
    lm_regex_walk_start(&w);
    lm_buf_clear(out);
    lm_buf_add(out, "", 0);
    lm_buf_add(&b, "", 0);
    while (rc == 2) {
        size_t n = draw(most + 1), left = text->len - at;
        n = n < left ? n : left;
        lm_buf_add(&b, text->data + at, n);
        at += n;
        while ((rc = lm_regex_walk_next(&w, b.data, b.len, at < text->len, NULL)) == 1) {
            lm_buf_printf(out, "%zu-%zu ", begin == SIZE_MAX ? gone + w.at : begin, gone + w.end);
            begin = SIZE_MAX;
        }
        if (rc != 2)
            break;
        bool sure = w.end != SIZE_MAX && w.end > w.at;
        n = sure ? w.end : w.at;
        if (sure && begin == SIZE_MAX)
            begin = gone + w.at;
        n -= n ? draw((uint32_t)n) / 2 : 0;
        if (!sure || n >= w.at) {
            lm_regex_walk_drop(&w, n);
            lm_buf_drop(&b, n);
            gone += n;
        }
    }
    assert_int_equal(rc, 0);
    lm_regex_ways_free(w.ways);
    lm_buf_release(&b);
}

/* Patterns are followed a character at a time as PCRE2 matches them, in whatever parts the text
 * comes. */
static void test_walks(void **state)
{
    (void)state;
    static const char *const more[] = {
        "a*", "a*?", "a+?b", "(?:ab|a)c?", "(?:a|ab)(?:c|bcd)", "a{2,3}", "a{2,3}?b", "x?+a",
        "\\s++$", "a*+", "\\b", "\\B", "^a|b$", "\\A.|.\\z", "(?<=a)b|a(?!b)", "(?<!\\s)\\s",
        "\\s+(?!\\S)|\\s+", " {2,}", "(?:(?:a|b)?c){1,2}", "[^\\s]+\\s?", "a|ab|abc",
        "(?i:'s|'t)|\\p{L}++|\\s?+", "", "(?:a|b|)(?:c|)", "(?=[A-Z])", "aaaaaaa", "(?:a?){3}b",
        "(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}"
        "| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
    };
    static const char *const bits[] = {
        "a", "a", "b", "c", "ab", "bcd", " ", "  ", "\n", "\r\n", "A", "'s", "1", "22",
        "\xC3\xA9", "\xE4\xB8\x96", "\xFF", "\xE4\xB8", "x", "!", "'",
    };
    const char *pattern;
    size_t walked = 0;
    for (size_t i = 0; i < N(more) || lm_pretok_pattern(i - N(more), &pattern); i++) {
        if (i < N(more))
            pattern = more[i];
        struct lm_regex *r = compile(pattern, strlen(pattern));
        struct lm_buf text = { 0 }, want = { 0 }, got = { 0 };
        walked += lm_regex_walks(r);
        for (int k = 0; lm_regex_walks(r) && k < 200; k++) {
            lm_buf_clear(&text);
            lm_buf_add(&text, "", 0);
            for (uint32_t n = draw(60), sorts = 1 + draw(N(bits)); n; n--)
                lm_buf_str(&text, bits[draw(sorts)]);
            slow = true;
            matches(r, text.data, text.len, &want);
            slow = false;
            matches(r, text.data, text.len, &got);
            if (strcmp(want.data, got.data) != 0)
                fail_msg("'%s', '%s': %s, not %s", pattern, text.data, got.data, want.data);
            matches_of_parts(r, &text, 1 + draw(20), &got);
            if (strcmp(want.data, got.data) != 0)
                fail_msg("'%s', '%s' in parts: %s, not %s", pattern, text.data, got.data,
                         want.data);
        }
        lm_regex_free(r);
        lm_buf_release(&text);
        lm_buf_release(&want);
        lm_buf_release(&got);
    }
    assert_true(walked >= N(more) + 20);
}

/* ---- time ------------------------------------------------------------------------------- */

/* Patterns that would take square or exponential time stop with a message. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *unit;
        bool        ends;        /* does it take linear time by itself? */
    } t[] = {
        { "\\s+(?!\\S)|\\s+", " ", true },  { "\\p{L}+|\\p{N}", "a", true },
        { "[^x]*", "y ", true },            { "(?:a|aa)+$", "a", false },
        { "\\s+x", " ", false },            { "(a*)*b", "a", false },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_regex *r = compile(t[i].pattern, strlen(t[i].pattern));
        struct lm_regex_scan s = { 0 };
        struct lm_buf text = { 0 };
        struct lm_err err = { 0 };
        size_t at, end;
        int rc;
        while (text.len < 1 << 21)
            lm_buf_str(&text, t[i].unit);
        lm_buf_str(&text, "!");
        assert_int_equal(lm_regex_start(&s, r, text.data, text.len, &err), LM_OK);
        while ((rc = lm_regex_next(&s, &at, &end, &err)) > 0)
            ;
        assert_int_equal(rc, t[i].ends ? 0 : LM_ENOSUP);
        if (!t[i].ends)
            assert_non_null(strstr(err.text, "more than linear time"));
        lm_regex_scan_release(&s);
        lm_regex_free(r);
        lm_buf_release(&text);
    }
}

/* ---- sets -------------------------------------------------------------------------------- */

static void test_sets(void **state)
{
    (void)state;
    struct lm_runeset s = { 0 }, t = { 0 };
    lm_runeset_add(&s, 10, 20);
    lm_runeset_add(&s, 30, 40);
    lm_runeset_add(&s, 21, 25);
    assert_int_equal(s.n, 2);
    assert_true(lm_runeset_has(&s, 25) && !lm_runeset_has(&s, 26) && lm_runeset_has(&s, 30));
    lm_runeset_add(&s, 5, 35);
    assert_int_equal(s.n, 1);
    lm_runeset_negate(&s);
    assert_int_equal(s.n, 2);
    assert_true(lm_runeset_has(&s, LM_RUNE_MAX) && lm_runeset_has(&s, 4));
    assert_false(lm_runeset_has(&s, 40));
    lm_runeset_add(&t, 0, 50);
    lm_runeset_intersect(&s, &t);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.r[1].last, 50);
    lm_runeset_release(&s);
    lm_runeset_release(&t);
    lm_runeset_add(&s, 's', 's');
    lm_runeset_fold(&s);
    assert_true(lm_runeset_has(&s, 'S') && lm_runeset_has(&s, 0x17F) && s.n == 3);
    lm_runeset_release(&s);
    assert_true(lm_runeset_property(&s, "Lowercase_Letter", 16));
    assert_true(lm_runeset_has(&s, 0xE9) && !lm_runeset_has(&s, 0xC9));
    assert_false(lm_runeset_property(&s, "nothing", 7));
    lm_runeset_release(&s);
    /* a property is what the classes say, for every character */
    assert_true(lm_runeset_property(&s, "L", 1) && lm_runeset_property(&t, "Cn", 2));
    for (uint32_t r = 0; r <= LM_RUNE_MAX; r++) {
        assert_int_equal(lm_runeset_has(&s, r), (lm_uni_class(r) & LM_U_L) != 0);
        assert_int_equal(lm_runeset_has(&t, r), lm_uni_category(r) == LM_UC_CN);
    }
    lm_runeset_release(&s);
    lm_runeset_release(&t);
    struct lm_runeset punct = { 0 }, han = { 0 };
    assert_true(lm_runeset_property(&s, "word", 4) && lm_runeset_property(&t, "space", 5) &&
                lm_runeset_property(&punct, ":punct", 6) && lm_runeset_property(&han, "Han", 3));
    for (uint32_t r = 0; r <= LM_RUNE_MAX; r++) {
        assert_int_equal(lm_runeset_has(&s, r), lm_uni_word(r));
        assert_int_equal(lm_runeset_has(&t, r), (lm_uni_class(r) & LM_U_SPACE) != 0);
        assert_int_equal(lm_runeset_has(&punct, r), (lm_uni_class(r) & (LM_U_P | LM_U_S)) != 0);
        assert_int_equal(lm_runeset_has(&han, r), lm_uni_han(r));
    }
    lm_runeset_release(&s);
    lm_runeset_release(&t);
    lm_runeset_release(&punct);
    lm_runeset_release(&han);
}

/* What differs from every third character of each script only in case, by asking of all. */
static void test_fold(void **state)
{
    (void)state;
    enum { END = 0x20000 };
    struct lm_runeset s = { 0 };
    static bool key[END];
    for (uint32_t r = 0; r < END; r += 3) {
        lm_runeset_add(&s, r, r);
        key[lm_uni_fold(r)] = true;
    }
    lm_runeset_fold(&s);
    for (uint32_t r = 0; r < END; r++)
        assert_int_equal(lm_runeset_has(&s, r), r % 3 == 0 || key[lm_uni_fold(r)]);
    lm_runeset_release(&s);
    /* few characters, which are looked up another way */
    static const uint32_t few[] = { 'k', 0x130, 0x1C5, 0x3A3, 0x1E9E, 0xAB70, 0x10400, 0xFFFD };
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        lm_runeset_add(&s, few[i], few[i]);
        lm_runeset_fold(&s);
        for (uint32_t r = 0; r < END; r++)
            assert_int_equal(lm_runeset_has(&s, r),
                             r == few[i] || lm_uni_fold(r) == lm_uni_fold(few[i]));
        lm_runeset_release(&s);
    }
}

/* Bytes that are not UTF-8 are one symbol each. */
static void test_bytes(void **state)
{
    (void)state;
    struct lm_buf got = { 0 };
    struct lm_regex *r = compile("\\p{S}|\\p{L}+", 12);
    matches(r, "a\xFF\xE6\x97z\xC3\xA9", 7, &got);
    assert_string_equal(got.data, "0-1 1-2 2-3 3-4 4-7 ");
    lm_regex_free(r);
    lm_buf_release(&got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),  cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_line_ends), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_sets),
        cmocka_unit_test(test_bytes),   cmocka_unit_test(test_fold),
        cmocka_unit_test(test_walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
