/* SPDX-License-Identifier: MIT */
/* tokenizer.json by its rules: what the Hugging Face library makes of texts with tokenizers that
 * differ in every part (tests/golden/make-rules), what is refused, what is guarded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "io/archive.h"
#include "io/input.h"
#include "vocab/tokenizer.h"
#include "vocab/vocab_rules.h"
#include "not_here.h"

#define N(x) (sizeof(x) / sizeof *(x))

static const char *name, *text_now;      /* of what is being tested */

/* ---- golden rows ----------------------------------------------------------------------- */

static void check_ids(const struct lm_ids *got, const struct lm_jval *want, const char *what)
{
    size_t i = 0;
    for (const struct lm_jval *x = want->first; x; x = x->next, i++)
        if (i >= got->n || got->id[i] != atoi(x->str))
            fail_msg("%s: '%s': %s %zu is %d, not %s", name, text_now, what, i,
                     i < got->n ? got->id[i] : -1, x->str);
    if (i != got->n)
        fail_msg("%s: '%s': %zu %s, not %zu", name, text_now, got->n, what, i);
}

static bool inside_char(const char *p, size_t at)
{
    return ((unsigned char)p[at] & 0xC0) == 0x80;
}

/* The library counts characters, and gives text that was put in front the place of what
 * follows it; ours of such text has length 0. */
static void check_spans(const struct lm_ids *got, const struct lm_jval *want, const char *text)
{
    size_t i = 0;
    for (const struct lm_jval *x = want->first; x; x = x->next, i++) {
        size_t at = (size_t)atoll(x->first->str), end = (size_t)atoll(x->first->next->str);
        size_t from = got->span[i].at, to = from + got->span[i].len;
        while (from > 0 && inside_char(text, from))
            from--;
        while (inside_char(text, to))
            to++;
        if (from == to ? from < at || from > end : from != at || to != end)
            fail_msg("%s: '%s': id %zu is from %zu to %zu, not from %zu to %zu", name, text, i,
                     from, to, at, end);
    }
}

static bool is_utf8(const char *p, size_t len)
{
    for (size_t i = 0, k; i < len; i += k)
        if (!(k = (size_t)lm_utf8_len(p + i, len - i, NULL)))
            return false;
    return true;
}

/* Where bytes are no text the library has U+FFFD, we have the bytes; null: it fails. */
static void check_text(const struct lm_vocab *v, const struct lm_ids *ids, bool special,
                       const struct lm_jval *want)
{
    struct lm_detok *d = lm_detok_new(v, special, NULL);
    struct lm_buf out = { 0 };
    lm_buf_add(&out, "", 0);
    for (int round = 0; round < 2 && lm_jval_str(want); round++) {
        lm_buf_clear(&out);
        lm_buf_add(&out, "", 0);
        for (size_t i = 0; i < ids->n; i++)
            assert_int_equal(lm_detok_id(d, ids->id[i], &out, NULL), LM_OK);
        lm_detok_end(d, &out);
        bool broken = strstr(want->str, "\xEF\xBF\xBD") && !is_utf8(out.data, out.len);
        if (!broken && (out.len != want->len || memcmp(out.data, want->str, out.len) != 0))
            fail_msg("%s: '%s': text '%s', not '%s'", name, text_now, out.data, want->str);
    }
    lm_detok_free(d);
    lm_buf_release(&out);
}

/* No text is longer than the bound that is known when the rules are read. */
static void check_growth(const struct lm_vocab *v, const char *text, size_t len,
                         const struct lm_ids *ids)
{
    struct lm_rules_work *w = v->rules ? lm_rules_work_new(v->rules) : NULL;
    struct lm_buf out = { 0 };
    struct lm_str s;
    double most = 0;
    if (!w)
        return;
    assert_int_equal(lm_rules_normalize(w, text, len, &s, NULL), LM_OK);
    if ((double)s.len > lm_growth_of(&v->rules->grown, text, len))
        fail_msg("%s: '%s': normalized it has %zu bytes", name, text_now, s.len);
    lm_rules_work_free(w);
    struct lm_detok *d = lm_detok_new(v, true, NULL);
    for (size_t i = 0; i < ids->n; i++) {
        const struct lm_str t = lm_rules_shown(v, (uint32_t)ids->id[i]);
        most += lm_growth_of(&v->rules->shown, t.p, t.len);
        assert_int_equal(lm_detok_id(d, ids->id[i], &out, NULL), LM_OK);
    }
    lm_detok_end(d, &out);
    if ((double)out.len > most)
        fail_msg("%s: '%s': decoded it has %zu bytes", name, text_now, out.len);
    lm_detok_free(d);
    lm_buf_release(&out);
}

static void check_row(const struct lm_vocab *v, struct lm_encoder *e, const struct lm_jval *j)
{
    const struct lm_jval *text = lm_jval_get(j, "text"), *row = lm_jval_get(j, "row");
    const struct lm_jval *ids = row->first, *special = ids->next, *spans = special->next;
    struct lm_ids got = { 0 }, with_spans = { .want_spans = true };
    struct lm_err err = { 0 };
    text_now = text->str;
    for (int round = 0; round < 2; round++) {    /* the second time from the cache */
        got.n = 0;
        if (lm_encoder_text(e, text->str, text->len, LM_ENCODE_PARSE, &got, &err) != LM_OK)
            fail_msg("%s: '%s': %s", name, text_now, err.text);
        check_ids(&got, ids, "id");
    }
    assert_int_equal(lm_encoder_text(e, text->str, text->len, LM_ENCODE_PARSE, &with_spans, NULL),
                     LM_OK);
    check_ids(&with_spans, ids, "id (with spans)");
    if (spans->kind == LM_JSON_ARRAY)
        check_spans(&with_spans, spans, text->str);
    check_text(v, &got, true, spans->next);
    check_text(v, &got, false, spans->next->next);
    check_growth(v, text->str, text->len, &got);
    got.n = 0;
    assert_int_equal(lm_encoder_text(e, text->str, text->len, LM_ENCODE_DEFAULT, &got, NULL),
                     LM_OK);
    check_ids(&got, special, "id with special tokens");
    lm_ids_release(&got);
    lm_ids_release(&with_spans);
}

static void test_golden(void **state)
{
    (void)state;
    char *text;
    size_t len, n = 0;
    struct lm_err err;
    int s = lm_read_file("tests/data/vocab/rules.jsonl.zst", 1 << 24, &text, &len, &err);
    if (s == LM_ENOSUP)
        NOT_HERE("no zstd in this build");
    if (s != LM_OK)
        fail_msg("%s", err.text);
    for (char *line = text, *end; line < text + len; line = end + 1) {
        struct lm_arena a = { 0 };
        end = memchr(line, '\n', (size_t)(text + len - line));
        const struct lm_jval *j = lm_json_tree(&a, line, (size_t)(end - line), &err);
        const struct lm_jval *t = lm_jval_get(j, "tokenizer");
        name = lm_jval_str(lm_jval_get(j, "name"));
        struct lm_vocab *v = lm_vocab_from_json(t->str, t->len, NULL, &err);
        if (!v)
            fail_msg("%s: %s", name, err.text);
        struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
        for (const struct lm_jval *x = lm_jval_get(j, "rows")->first; x; x = x->next)
            check_row(v, e, x);
        lm_encoder_free(e);
        lm_vocab_free(v);
        lm_arena_release(&a);
        n++;
    }
    assert_true(n > 100);
    free(text);
}

/* ---- files made here -------------------------------------------------------------------- */

/* A tokenizer.json of these parts; any may be NULL. */
static struct lm_vocab *built(const char *norm, const char *pre, const char *dec, const char *post,
                              const char *model, const char *added, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    lm_buf_printf(&b, "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,"
                  "\"decoder\":%s,\"post_processor\":%s,\"model\":%s}", added ? added : "",
                  norm ? norm : "null", pre ? pre : "null", dec ? dec : "null",
                  post ? post : "null",
                  model ? model : "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":1,\"?\":2},"
                                  "\"unk_token\":\"?\"}");
    struct lm_vocab *v = lm_vocab_from_json(b.data, b.len, NULL, err);
    lm_buf_release(&b);
    return v;
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char   *norm, *pre, *dec, *post, *model, *part;
        enum lm_code  code;
    } t[] = {
        { .norm = "{\"type\":\"Rot13\"}", .part = "normalizer 'Rot13' is not supported" },
        { .pre = "{\"type\":\"UnicodeScripts\"}", .part = "pre_tokenizer 'UnicodeScripts' is not" },
        { .dec = "{\"type\":\"CTC\"}", .part = "decoder 'CTC' is not supported" },
        { .post = "{\"type\":\"Sandwich\"}", .part = "post_processor 'Sandwich' is not" },
        { .model = "{\"type\":\"Markov\",\"vocab\":{\"a\":0}}", .part = "model 'Markov' is not" },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}",
          .part = "dropout" },
        { .pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},"
                 "\"behavior\":\"Isolated\"}",
          .part = "pre_tokenizer 'Split': pattern, byte 5" },
        { .pre = "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Shredded\"}",
          .part = "behavior 'Shredded' is not supported" },
        { .pre = "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", .part = "not one character",
          .code = LM_EDATA },
        { .norm = "{\"type\":\"Replace\",\"content\":\"x\"}",
          .part = "normalizer 'Replace': has no pattern", .code = LM_EDATA },
        { .post = "{\"type\":\"TemplateProcessing\","
                  "\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}",
          .part = "special token 'x' is not among its special_tokens", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},"
                   "\"merges\":[\"a b\",\"c b\"]}",
          .part = "merge 1: 'c' is not in the vocabulary", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"d\"]]}",
          .part = "merge 0: 'd' is not in the vocabulary", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},"
                   "\"merges\":[[\"a\",\"b\"]]}",
          .part = "merge 0: what 'a' and 'b' make is not in the vocabulary", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}",
          .part = "merges: \"ab\" is not two parts", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"vocab\":{\"a\":0}}", .part = "merges of the vocabulary are "
          "missing", .code = LM_EDATA },
        { .model = "{\"type\":\"BPE\",\"merges\":[]}", .part = "has no vocab", .code = LM_EDATA },
        { .post = "{\"type\":\"BertProcessing\",\"sep\":[\"x\",9],\"cls\":[\"a\",0]}",
          .part = "not in the vocabulary", .code = LM_EDATA },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_err err = { 0 };
        struct lm_vocab *v = built(t[i].norm, t[i].pre, t[i].dec, t[i].post, t[i].model, NULL,
                                   &err);
        assert_null(v);
        if (err.code != (t[i].code ? t[i].code : LM_ENOSUP) || !strstr(err.text, t[i].part))
            fail_msg("'%s' does not say '%s'", err.text, t[i].part);
    }
}

/* Odd ends, with the ids that the tokenizers library (0.23.3) has for them. */
static void test_odd_ends(void **state)
{
    (void)state;
#define TOKEN(id, text, word, l, r) \
    "{\"id\":" id ",\"content\":\"" text "\",\"single_word\":" word \
    ",\"lstrip\":" l ",\"rstrip\":" r ",\"normalized\":false}"
    static const char bpe[] =
        "{\"type\":\"BPE\",\"ignore_merges\":true,\"unk_token\":\"?\",\"vocab\":"
        "{\"a\":0,\"b\":1,\"\\n\":2,\" \":3,\"ab\":4,\"?\":5},\"merges\":[\"a b\"]}";
    static const char level[] = "{\"type\":\"WordLevel\",\"unk_token\":\"?\",\"vocab\":"
        "{\"?\":0,\"a\":1,\"_\":2}}";
    static const char doubles[] = "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],"
        "[\"a\",-1],[\"ab\",-3],[\"b\",-1.5],[\"ab\",-1]]}";
    static const char marked[] = "{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"_\":2,\"_a\":3},"
        "\"merges\":[\"_ a\"]}";
    static const char hashes[] = "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"#+\"},"
        "\"content\":\"a\"}";
    static const char first[] = "{\"type\":\"Metaspace\",\"replacement\":\"_\","
        "\"prepend_scheme\":\"first\",\"split\":true}";
    static const char points[] = "{\"type\":\"Punctuation\",\"behavior\":\"Isolated\"}";
    /* blanks that two of them want */
    static const char blanks[] = TOKEN("6", "X", "false", "false", "true") ","
        TOKEN("7", "\\n\\n", "false", "false", "false") ","
        TOKEN("8", "  ", "false", "true", "false");
    /* no piece of the model, whose words it is not */
    static const char alone[] = TOKEN("6", "aa", "true", "false", "false");
    static const char alone_3[] = TOKEN("3", "aa", "true", "false", "false");
    static const struct {
        const char *norm, *pre, *model, *added, *text;
        int32_t     ids[5];
        size_t      n;
    } t[] = {
        { NULL, NULL, bpe, blanks, "X\n\n", { 6, 7 }, 2 },
        { NULL, NULL, bpe, blanks, "aX\n\n ", { 0, 6, 7, 3 }, 4 },
        { NULL, NULL, bpe, blanks, "X\n\n\na", { 6, 7, 2, 0 }, 4 },
        { NULL, NULL, bpe, blanks, "aX  ", { 0, 6 }, 2 },
        { NULL, NULL, bpe, blanks, "  X  b", { 8, 6, 1 }, 3 },
        { NULL, NULL, bpe, blanks, "X \n\n a", { 6, 7, 3, 0 }, 4 },
        { NULL, points, bpe, alone, "aa", { 6 }, 1 },
        { NULL, points, bpe, alone, "aa_b", { 0, 0, 5, 1 }, 4 },
        { NULL, points, bpe, alone, "ab_aa", { 4, 5, 0, 0 }, 4 },
        { NULL, points, level, alone_3, "aa_a", { 0, 2, 1 }, 3 },
        { NULL, NULL, doubles, NULL, "abab", { 4, 4 }, 2 },
        { NULL, NULL, doubles, NULL, "ba", { 3, 1 }, 2 },
        { hashes, first, marked, NULL, "#b", { 3, 1 }, 2 },
        { hashes, first, marked, NULL, "##b", { 0, 1 }, 2 },
        { hashes, first, marked, NULL, "a##", { 3, 0 }, 2 },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_err err = { 0 };
        struct lm_ids ids = { 0 };
        struct lm_vocab *v = built(t[i].norm, t[i].pre, NULL, NULL, t[i].model, t[i].added, &err);
        if (!v)
            fail_msg("%s", err.text);
        size_t len = strlen(t[i].text);
        assert_int_equal(lm_vocab_encode(v, t[i].text, len, LM_ENCODE_PARSE, &ids, &err), LM_OK);
        if (ids.n != t[i].n || memcmp(ids.id, t[i].ids, ids.n * sizeof *ids.id) != 0)
            fail_msg("row %zu: %zu ids", i, ids.n);
        lm_ids_release(&ids);
        lm_vocab_free(v);
    }
#undef TOKEN
}

/* As many merges as several threads look up, each of two letters of N_LETTERS; the last one is
 * that of number `broken`, whose second letter there is not. */
enum { N_LETTERS = 120 };

static struct lm_vocab *many_merges(uint32_t broken, struct lm_err *err)
{
    const struct lm_env env = { .n_threads = 3 };
    struct lm_buf b = { 0 };
    lm_buf_str(&b, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"?\":0");
    for (uint32_t i = 0; i < N_LETTERS; i++)
        lm_buf_printf(&b, ",\"\\u%04x\":%u", 0x4E00 + i, 1 + i);
    for (uint32_t i = 0; i < N_LETTERS * N_LETTERS; i++)
        lm_buf_printf(&b, ",\"\\u%04x\\u%04x\":%u", 0x4E00 + i / N_LETTERS,
                      0x4E00 + i % N_LETTERS, 1 + N_LETTERS + i);
    lm_buf_str(&b, "},\"merges\":[");
    for (uint32_t i = 0; i < N_LETTERS * N_LETTERS; i++)
        lm_buf_printf(&b, i % 2 ? "%s[\"\\u%04x\",\"\\u%04x\"]" : "%s\"\\u%04x \\u%04x\"",
                      i ? "," : "", 0x4E00 + i / N_LETTERS,
                      i == broken ? 0x6000 : 0x4E00 + i % N_LETTERS);
    lm_buf_str(&b, "]}}");
    struct lm_vocab *v = lm_vocab_from_json(b.data, b.len, &env, err);
    lm_buf_release(&b);
    return v;
}

static void test_many_merges(void **state)
{
    (void)state;
    struct lm_err err = { 0 };
    struct lm_ids ids = { 0 };
    struct lm_buf text = { 0 };
    struct lm_vocab *v = many_merges(UINT32_MAX, &err);
    assert_non_null(v);
    for (uint32_t i = 0; i < N_LETTERS * N_LETTERS; i += 7) {
        lm_buf_clear(&text);
        lm_buf_rune(&text, 0x4E00 + i / N_LETTERS);
        lm_buf_rune(&text, 0x4E00 + i % N_LETTERS);
        ids.n = 0;
        assert_int_equal(lm_vocab_encode(v, text.data, text.len, 0, &ids, &err), LM_OK);
        assert_int_equal(ids.n, 1);
        assert_int_equal(ids.id[0], 1 + N_LETTERS + i);
    }
    lm_vocab_free(v);
    assert_null(many_merges(9001, &err));
    assert_non_null(strstr(err.text, "merge 9001: '\xE6\x80\x80' is not in the vocabulary"));
    lm_buf_release(&text);
    lm_ids_release(&ids);
}

/* A word that is not in the vocabulary and has nothing to stand for it. */
static void test_unknown_word(void **state)
{
    (void)state;
    struct lm_err err = { 0 };
    struct lm_ids ids = { 0 };
    struct lm_vocab *v = built(NULL, "{\"type\":\"WhitespaceSplit\"}", NULL, NULL,
                               "{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":\"?\"}",
                               NULL, &err);
    assert_non_null(v);
    assert_int_equal(lm_vocab_encode(v, "a a", 3, 0, &ids, &err), LM_OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(lm_vocab_encode(v, "a c", 3, 0, &ids, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "'c' is not in the vocabulary"));
    assert_int_equal(ids.n, 2);
    lm_ids_release(&ids);
    lm_vocab_free(v);
}

/* Control tokens that are looked for in normalized text: not where parsing is off, and not
 * where a byte that they would be made of is guarded. */
static void test_guarded(void **state)
{
    (void)state;
    static const char text[] = "<X><X>";
    static const unsigned char guard[] = { 0, 0, 0, 0, 1, 0 };
    struct lm_err err = { 0 };
    struct lm_ids ids = { 0 };
    struct lm_vocab *v = built(
        "{\"type\":\"Lowercase\"}", NULL, NULL, NULL,
        "{\"type\":\"BPE\",\"vocab\":{\"<\":0,\">\":1,\"x\":2},\"merges\":[]}",
        "{\"id\":3,\"content\":\"<x>\",\"special\":true,\"normalized\":true}", &err);
    assert_non_null(v);
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    assert_int_equal(lm_encoder_text(e, text, 6, LM_ENCODE_PARSE, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.id[0], 3);
    ids.n = 0;
    assert_int_equal(lm_encoder_text(e, text, 6, 0, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 6);
    ids.n = 0;
    assert_int_equal(lm_encoder_guarded(e, text, guard, 6, LM_ENCODE_PARSE, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 4);
    assert_int_equal(ids.id[0], 3);
    lm_ids_release(&ids);
    lm_encoder_free(e);
    lm_vocab_free(v);
}

/* Bytes that are not UTF-8 come back where the vocabulary has bytes. */
static void test_bytes(void **state)
{
    (void)state;
    static const char text[] = "a\xFF \xE6\x97 \xED\xA0\x80.";
    struct lm_err err = { 0 };
    struct lm_buf model = { 0 }, out = { 0 };
    struct lm_ids ids = { 0 };
    lm_buf_str(&model, "{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{\"a\":0");
    for (unsigned b = 0; b < 256; b++)
        lm_buf_printf(&model, ",\"<0x%02X>\":%u", b, b + 1);
    lm_buf_str(&model, "}}");
    struct lm_vocab *v = built("{\"type\":\"NFKC\"}",
                               "{\"type\":\"Punctuation\",\"behavior\":\"Isolated\"}",
                               "{\"type\":\"ByteFallback\"}", NULL, model.data, NULL, &err);
    if (!v)
        fail_msg("%s", err.text);
    assert_int_equal(lm_vocab_encode(v, text, sizeof text - 1, 0, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, sizeof text - 1);
    struct lm_detok *d = lm_detok_new(v, false, NULL);
    for (size_t i = 0; i < ids.n; i++)
        assert_int_equal(lm_detok_id(d, ids.id[i], &out, NULL), LM_OK);
    lm_detok_end(d, &out);
    assert_int_equal(out.len, sizeof text - 1);
    assert_memory_equal(out.data, text, out.len);
    lm_detok_free(d);
    lm_buf_release(&out);
    lm_buf_release(&model);
    lm_ids_release(&ids);
    lm_vocab_free(v);
}

/* The tokenizer.json in one of the fixtures' archives; NULL where they are not. */
static struct lm_vocab *fixture(const char *which)
{
    const char *shared = getenv("LMPIPE_SHARED");
    char path[512];
    struct lm_err err;
    struct lm_member m;
    struct lm_buf b = { 0 };
    struct lm_vocab *v = NULL;
    size_t got = 1;
    snprintf(path, sizeof path, "%s/tokenizers/%s.tar.zst", shared ? shared : "../shared", which);
    struct lm_archive *a = lm_archive_open(path, NULL);
    while (a && !v && lm_archive_next(a, &m, NULL) == 1) {
        if (!strstr(m.name, "/tokenizer.json"))
            continue;
        for (char *to; got && (to = lm_buf_room(&b, 1 << 16)); b.len += got)
            if (lm_archive_read(a, to, 1 << 16, &got, NULL) != LM_OK)
                got = 0;
        if (!(v = lm_vocab_from_json(b.data, b.len, NULL, &err)))
            fail_msg("%s: %s", path, err.text);
    }
    lm_archive_close(a);
    lm_buf_release(&b);
    return v;
}

/* Of the probe: names that the reference has for tokenizers that it lists, with the start
 * token that some of them had in front, and without. */
static void test_probe(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t     bos;
        const char *without, *with;
    } t[] = {
        { "llama3", 128000, "smaug-bpe", "llama-bpe" },
        { "deepseek_v3", 0, "joyai-llm", "deepseek-v3" },
        { "qwen3", 151643, "qwen2", "qwen2" },
    };
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_open("tests/data/hf", NULL, &err);
    assert_non_null(v);
    assert_null(lm_vocab_hashed_pre(v, -1));     /* our own: nobody has listed it */
    lm_vocab_free(v);
    for (size_t i = 0; i < N(t); i++) {
        if (!(v = fixture(t[i].name)))
            NOT_HERE("no tokenizers among the fixtures");
        assert_string_equal(lm_vocab_hashed_pre(v, -1), t[i].without);
        assert_string_equal(lm_vocab_hashed_pre(v, t[i].bos), t[i].with);
        lm_vocab_free(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown_word), cmocka_unit_test(test_guarded),
        cmocka_unit_test(test_many_merges),  cmocka_unit_test(test_odd_ends),
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
