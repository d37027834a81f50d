/* SPDX-License-Identifier: MIT */
/* Vocabularies: words, ids and text against tests/data/vocab (tests/golden/make-vocab says
 * where those come from), and small vocabularies built here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "vocab/pretok.h"
#include "vocab/unicode.h"
#include "vocab/vocab.h"

#define DATA "tests/data/"
#define N(a) (sizeof(a) / sizeof *(a))

/* ---- words and characters --------------------------------------------------- */

static void check_words(const char *name, size_t name_len, const char *text, size_t len,
                        const char *want)
{
    struct lm_cut cut;
    const struct lm_pretok *pre = lm_pretok_find(name, name_len);
    struct lm_buf got = { 0 };
    const char *end, *at = text;
    assert_non_null(pre);
    lm_cut_init(&cut, pre, text, len);
    while ((end = lm_cut_next(&cut))) {
        lm_buf_printf(&got, "%s%d", got.len ? " " : "", (int)(end - at));
        at = end;
    }
    assert_ptr_equal(at, text + len);
    if (strcmp(got.data, want) != 0)
        fail_msg("%.*s on '%s': %s, not %s", (int)name_len, name, text, got.data, want);
    lm_buf_release(&got);
}

static void test_words(void **state)
{
    (void)state;
    FILE *f = fopen(DATA "vocab/words.tsv", "r");
    char *line = NULL;
    size_t cap = 0;
    struct lm_arena arena = { 0 };
    const struct lm_jval *text = NULL;
    struct lm_buf names = { 0 };
    int n = 0;
    assert_non_null(f);
    for (ssize_t len; (len = getline(&line, &cap, f)) > 0; n++) {
        line[len - 1] = 0;
        char *tab = strchr(line, '\t');
        *tab = 0;
        if (strcmp(line, "T") == 0) {
            text = lm_json_tree(&arena, tab + 1, strlen(tab + 1), NULL);
            assert_non_null(text);
            continue;
        }
        for (char *p = strtok(tab + 1, " "); p; p = strtok(NULL, " ")) {
            check_words(p, strlen(p), text->str, text->len, line);
            lm_buf_printf(&names, " %s ", p);
        }
    }
    assert_true(n > 100);
    for (const struct lm_pretok *t = lm_pretoks; t->names; t++) {
        bool seen = false;                       /* is every row tested by some name? */
        for (const char *p = t->names; *p;) {
            char word[64];
            size_t k = strcspn(p, " ");
            snprintf(word, sizeof word, " %.*s ", (int)k, p);
            seen |= strstr(names.data, word) != NULL;
            p += k + (p[k] == ' ');
        }
        if (!seen)
            fail_msg("no words for %s", t->names);
    }
    lm_buf_release(&names);
    lm_arena_release(&arena);
    free(line);
    fclose(f);
}

static void test_classes(void **state)
{
    (void)state;
    static const struct {
        uint32_t r;
        unsigned c;
    } t[] = {
        { 'a', LM_U_L | LM_U_LOWER | LM_U_WORD }, { '_', LM_U_P | LM_U_WORD },
        { '+', LM_U_S }, { 0x0B, LM_U_SPACE }, { 0x1C, 0 }, { 0xA0, LM_U_SPACE },
        { 0x180E, 0 }, { 0x3000, LM_U_SPACE }, { 0xBD, LM_U_N | LM_U_WORD },
        { 0x0663, LM_U_N | LM_U_ND | LM_U_WORD },
        { 0x01C5, LM_U_L | LM_U_UPPER | LM_U_WORD },
        { 0x4E00, LM_U_L | LM_U_UPPER | LM_U_LOWER | LM_U_WORD },
        { 0x0301, LM_U_M | LM_U_UPPER | LM_U_LOWER | LM_U_WORD },
        { 0xFFFD, LM_U_S }, { 0xE000, 0 }, { 0x10FFFF, 0 }, { 0x110000, 0 },
    };
    for (size_t i = 0; i < N(t); i++)
        assert_int_equal(lm_uni_class(t[i].r), t[i].c);
    for (uint32_t r = 0; r < 128; r++)           /* the table agrees with utf8proc */
        assert_int_equal(lm_uni_ascii[r],
                         r == 0x20 || (r >= 9 && r <= 13) ? LM_U_SPACE : lm_uni_class_wide(r));
}

/* Lines of Unicode's NormalizationTest, and what it has no lines for. */
static void test_nfc(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        { "e\xCC\x81", "\xC3\xA9" },                             /* e, acute              */
        { "\xE2\x84\xAB", "\xC3\x85" },                          /* Angstrom sign         */
        { "a\xCC\x95\xCC\x80\xD6\xAE\xCC\x80" "b", "\xC3\xA0\xD6\xAE\xCC\x80\xCC\x95" "b" },
        { "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC" },          /* composition exclusion */
        { "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C" },
        { "\xEA\xB0\x80\xE1\x86\xA8", "\xEA\xB0\x81" },          /* Hangul LV and T       */
        { "\xE3\x81\x8B\xE3\x82\x99", "\xE3\x81\x8C" },          /* kana, voicing         */
        { "\xF0\x9D\x85\x9E", "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5" },
        { "e\xFF\xCC\x81 \xE6\xAD", "e\xFF\xCC\x81 \xE6\xAD" },  /* not UTF-8: as it is   */
        { "", "" },
    };
    struct lm_buf b = { 0 };
    for (size_t i = 0; i < N(t); i++) {
        lm_buf_clear(&b);
        lm_buf_add(&b, "", 0);
        assert_int_equal(lm_norm(t[i][0], strlen(t[i][0]), LM_NORM_NFC, &b, NULL, NULL), LM_OK);
        assert_string_equal(b.data, t[i][1]);
        assert_true(lm_norm_needed(t[i][0], strlen(t[i][0]), LM_NORM_NFC) ||
                    strcmp(t[i][0], t[i][1]) == 0);
    }
    lm_buf_clear(&b);
    lm_norm("a\xFF\xF4\xC0", 4, LM_NORM_FFFD, &b, NULL, NULL);
    assert_string_equal(b.data, "a\xEF\xBF\xBD\xF4\xEF\xBF\xBD");
    lm_buf_release(&b);
}

/* A long run of marks whose order has to change: dot below behind dot above, many times. */
static void test_nfc_long(void **state)
{
    (void)state;
    struct lm_buf b = { 0 }, out = { 0 };
    enum { PAIRS = 200000 };
    lm_buf_str(&b, "x");
    for (int i = 0; i < PAIRS; i++)
        lm_buf_str(&b, "\xCC\x87\xCC\xA3");
    assert_int_equal(lm_norm(b.data, b.len, LM_NORM_NFC, &out, NULL, NULL), LM_OK);
    /* U+1E8B, x with the first dot above; no x has a dot below, so all of those follow */
    assert_memory_equal(out.data, "\xE1\xBA\x8B\xCC\xA3\xCC\xA3", 7);
    assert_memory_equal(out.data + out.len - 4, "\xCC\x87\xCC\x87", 4);
    lm_buf_release(&b);
    lm_buf_release(&out);
}

/* ---- ids and text ----------------------------------------------------------- */

static struct lm_vocab *open_vocab(const char *path)
{
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_open(path, NULL, &err);
    if (!v)
        fail_msg("%s: %s", path, err.text);
    return v;
}

static void decode(const struct lm_vocab *v, const struct lm_ids *ids, struct lm_buf *out)
{
    struct lm_detok *d = lm_detok_new(v, true, NULL);
    lm_buf_clear(out);
    lm_buf_add(out, "", 0);
    for (size_t i = 0; i < ids->n; i++)
        assert_int_equal(lm_detok_id(d, ids->id[i], out, NULL), LM_OK);
    lm_detok_end(d, out);
    lm_detok_free(d);
}

/* The ids of a text; with spans too, which lie in it, and cover it unless it was normalized. */
static void check_ids(struct lm_encoder *e, const char *text, size_t len, unsigned flags,
                      bool normal, const int32_t *want, size_t n)
{
    struct lm_ids ids = { 0 }, spans = { .want_spans = true };
    assert_int_equal(lm_encoder_text(e, text, len, flags, &ids, NULL), LM_OK);
    assert_int_equal(lm_encoder_text(e, text, len, flags, &spans, NULL), LM_OK);
    if (ids.n != n || (n && memcmp(ids.id, want, n * sizeof *want) != 0))
        fail_msg("'%s': %zu ids from %d, not %zu from %d", text, ids.n, ids.n ? ids.id[0] : -1,
                 n, n ? want[0] : -1);
    assert_int_equal(spans.n, n);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(spans.id[i], ids.id[i]);
        assert_true(normal || spans.span[i].at == at);
        at = spans.span[i].at + spans.span[i].len;
        assert_true(at <= len);
    }
    if (n && !normal)
        assert_int_equal(at, len);
    lm_ids_release(&ids);
    lm_ids_release(&spans);
}

static void test_ids(void **state)
{
    (void)state;
    enum { M, QWEN, SPM, CHARS, HF, N_FILES };
    static const char *const names[] = { "m", "qwen", "spm", "chars" };
    static const char *const files[] = { DATA "m.gguf", DATA "vocab/qwen.gguf",
                                         DATA "vocab/tiny-spm.gguf", DATA "vocab/chars.json",
                                         DATA "hf" };
    struct lm_vocab *v[N_FILES];
    struct lm_encoder *e[N_FILES];
    int seen[N_FILES] = { 0 };
    for (int i = 0; i < N_FILES; i++) {
        v[i] = open_vocab(files[i]);
        e[i] = lm_encoder_new(v[i], NULL, NULL);
    }
    FILE *f = fopen(DATA "vocab/ids.jsonl", "r");
    char *line = NULL;
    size_t cap = 0;
    assert_non_null(f);
    while (getline(&line, &cap, f) > 0) {
        struct lm_arena a = { 0 };
        const struct lm_jval *j = lm_json_tree(&a, line, strlen(line), NULL);
        const struct lm_jval *text = lm_jval_get(j, "text"), *ids = lm_jval_get(j, "ids");
        int k = 0;
        while (strcmp(names[k], lm_jval_str(lm_jval_get(j, "v"))) != 0)
            k++;
        struct lm_ids want = { 0 };
        want.id = calloc(ids->len + 1, sizeof *want.id);
        for (const struct lm_jval *x = ids->first; x; x = x->next)
            want.id[want.n++] = (int32_t)atoi(x->str);
        /* SentencePiece does not know control tokens */
        unsigned flags = k == SPM ? 0 : LM_ENCODE_PARSE;
        check_ids(e[k], text->str, text->len, flags, k == QWEN, want.id, want.n);
        if (k == M)                              /* the same from tokenizer.json */
            check_ids(e[HF], text->str, text->len, flags, false, want.id, want.n);
        if (k != QWEN) {                         /* which normalizes */
            struct lm_buf out = { 0 };
            decode(v[k], &want, &out);
            if (!(k == SPM && strstr(text->str, "\xE2\x96\x81"))) {
                assert_int_equal(out.len, text->len);
                assert_memory_equal(out.data, text->str, out.len);
            }
            lm_buf_release(&out);
        }
        seen[k]++;
        seen[HF] += k == M;
        free(want.id);
        lm_arena_release(&a);
    }
    for (int i = 0; i < N_FILES; i++) {
        assert_true(seen[i] > 20);
        lm_encoder_free(e[i]);
        lm_vocab_free(v[i]);
    }
    free(line);
    fclose(f);
}

/* A character that was several counts as the first of them, as in Hugging Face's library. */
static void test_spans_of_joined(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t      first, last;                 /* ends the first, begins the last character */
    } cases[] = {
        { "e\xCC\x81x", 1, 3 },                                  /* e, acute                */
        { "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xABx", 3, 9 },     /* the jamo of a syllable  */
        { "s\xCC\x87\xCC\xA3x", 1, 5 },                         /* marks in another order  */
    };
    struct lm_vocab *v = open_vocab(DATA "vocab/qwen.gguf");
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_ids ids = { .want_spans = true };
        assert_int_equal(lm_encoder_text(e, cases[i].text, strlen(cases[i].text), 0, &ids, NULL),
                         LM_OK);
        assert_true(ids.n > 1);
        size_t end = 0;
        for (size_t k = 0; k + 1 < ids.n; k++)
            end = ids.span[k].at + ids.span[k].len > end ? ids.span[k].at + ids.span[k].len : end;
        assert_int_equal(end, cases[i].first);
        assert_int_equal(ids.span[ids.n - 1].at, cases[i].last);
        assert_int_equal(ids.span[ids.n - 1].len, 1);
        lm_ids_release(&ids);
    }
    lm_encoder_free(e);
    lm_vocab_free(v);
}

/* ---- vocabularies built here -------------------------------------------------- */

static struct lm_gguf_writer *builder(const char *model, const char *pre, const char *const *tokens,
                                      uint64_t n)
{
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_str s[64];
    assert_true(n <= N(s));
    for (uint64_t i = 0; i < n; i++)
        s[i] = (struct lm_str){ tokens[i], strlen(tokens[i]) };
    lm_gguf_set_str(w, "tokenizer.ggml.model", model, strlen(model));
    if (pre)
        lm_gguf_set_str(w, "tokenizer.ggml.pre", pre, strlen(pre));
    lm_gguf_set_arr(w, "tokenizer.ggml.tokens", LM_GGUF_STR, s, n);
    return w;
}

static void set_merges(struct lm_gguf_writer *w, const char *const *merges, uint64_t n)
{
    struct lm_str s[64];
    for (uint64_t i = 0; i < n; i++)
        s[i] = (struct lm_str){ merges[i], strlen(merges[i]) };
    lm_gguf_set_arr(w, "tokenizer.ggml.merges", LM_GGUF_STR, s, n);
}

/* Write, read and free it. */
static struct lm_vocab *built(struct lm_gguf_writer *w, struct lm_err *err)
{
    char path[] = "/tmp/test_vocab.XXXXXX";
    close(mkstemp(path));
    struct lm_out *out = lm_out_open(path, err);
    assert_non_null(out);
    assert_int_equal(lm_gguf_write_head(w, out, err), LM_OK);
    assert_int_equal(lm_out_commit(out, err), LM_OK);
    lm_gguf_writer_free(w);
    struct lm_vocab *v = lm_vocab_open(path, NULL, err);
    unlink(path);
    return v;
}

static void encode_is(const struct lm_vocab *v, const char *text, unsigned flags, size_t n,
                      const int32_t *want)
{
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    struct lm_ids ids = { 0 };
    assert_int_equal(lm_encoder_text(e, text, strlen(text), flags, &ids, NULL), LM_OK);
    if (ids.n != n || memcmp(ids.id, want, n * sizeof *want) != 0)
        fail_msg("'%s': %zu ids, the first %d", text, ids.n, ids.n ? ids.id[0] : -1);
    lm_ids_release(&ids);
    lm_encoder_free(e);
}

#define IDS(...) N(((int32_t[]){ __VA_ARGS__ })), (int32_t[]){ __VA_ARGS__ }

/* A word that is a piece is taken whole only where the tokenizer ignores merges. */
static void test_whole_words(void **state)
{
    (void)state;
    static const char *const tokens[] = { "a", "b", "c", "ab", "abc" }, *const merges[] = { "a b" };
    struct lm_err err;
    for (int whole = 0; whole < 2; whole++) {
        struct lm_gguf_writer *w = builder("gpt2", whole ? "llama-bpe" : "smaug-bpe", tokens, 5);
        set_merges(w, merges, 1);
        struct lm_vocab *v = built(w, &err);
        assert_non_null(v);
        if (whole)
            encode_is(v, "abc", 0, IDS(4));
        else
            encode_is(v, "abc", 0, IDS(3, 2));
        encode_is(v, "abcc", 0, IDS(3, 2, 2));
        lm_vocab_free(v);
    }
}

/* Of equal pairs the leftmost is joined first; ranks decide before places. */
static void test_merge_order(void **state)
{
    (void)state;
    static const char *const tokens[] = { "a", "b", "c", "aa", "bc", "aab", "aabc" };
    static const char *const merges[] = { "a a", "b c", "aa b", "aa bc" };
    struct lm_err err;
    struct lm_gguf_writer *w = builder("gpt2", "gpt-2", tokens, N(tokens));
    set_merges(w, merges, N(merges));
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "aaa", 0, IDS(3, 0));
    encode_is(v, "aab", 0, IDS(5));
    encode_is(v, "aabc", 0, IDS(6));
    /* the same by way of the heap: a word too long for the stack */
    struct lm_buf text = { 0 };
    struct lm_ids ids = { 0 };
    for (int i = 0; i < 50; i++)
        lm_buf_str(&text, "aabc");
    lm_buf_str(&text, "aaa");
    assert_int_equal(lm_vocab_encode(v, text.data, text.len, 0, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 52);
    assert_int_equal(ids.id[0], 6);
    assert_int_equal(ids.id[50], 3);
    assert_int_equal(ids.id[51], 0);
    lm_ids_release(&ids);
    lm_buf_release(&text);
    lm_vocab_free(v);
}

static void fails(struct lm_gguf_writer *w, enum lm_code code, const char *part)
{
    struct lm_err err;
    struct lm_vocab *v = built(w, &err);
    assert_null(v);
    assert_int_equal(err.code, code);
    if (!strstr(err.text, part))
        fail_msg("'%s' does not say '%s'", err.text, part);
}

static const char *const four[] = { "<unk>", "a", "b", "ab" };
static const float four_scores[] = { 0, -1, -2, -3 };
static const int32_t four_types[] = { 2, 1, 1, 1 };

static struct lm_gguf_writer *sound(void)
{
    struct lm_gguf_writer *w = builder("llama", NULL, four, 4);
    lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_F32, four_scores, 4);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, four_types, 4);
    lm_gguf_set_u32(w, "tokenizer.ggml.bos_token_id", 1);
    return w;
}

/* Runs of spaces that are pieces of type user, in text with marks of its own: what the
 * tokenizers library (0.23.3) makes of it with BPE of the merges "▁▁ ▁", "▁ ▁", "▁ a" and the
 * runs as added tokens, which is how Gemma's tokenizer.json has them. */
static void test_blanks(void **state)
{
    (void)state;
#define M "\xE2\x96\x81"
    static const char *const tokens[] = { "<unk>", M, "a", M "a", "  ", "   " };
    static const float scores[] = { 0, -3, -2, -1, -1000, -1000 };
    static const int32_t types[] = { 2, 1, 1, 1, 4, 4 };
    struct lm_err err;
    struct lm_gguf_writer *w = builder("llama", NULL, tokens, N(tokens));
    lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_F32, scores, N(tokens));
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, N(tokens));
    lm_gguf_set_bool(w, "tokenizer.ggml.add_space_prefix", false);
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "a a", 0, IDS(2, 3));
    encode_is(v, "a  a", 0, IDS(2, 4, 2));
    encode_is(v, "a" M M "a", 0, IDS(2, 4, 2));
    encode_is(v, "a " M " a", 0, IDS(2, 5, 2));
    encode_is(v, " " M M, 0, IDS(1, 4));
    encode_is(v, M " " M M "a", 0, IDS(4, 4, 2));
    encode_is(v, "  " M M M M " a", 0, IDS(4, 5, 4, 2));
    encode_is(v, M M M M M "  ", 0, IDS(5, 4, 4));
    encode_is(v, "a       a", 0, IDS(2, 5, 5, 3));
    encode_is(v, M "a", 0, IDS(3));
#undef M
    lm_vocab_free(v);
}

static void test_malformed(void **state)
{
    (void)state;
    static const uint8_t bytes[4];
    static const char *const twice[] = { "a", "b", "a" };
    static const char *const one_merge[] = { "a x" }, *const no_space[] = { "ab" };
    struct lm_err err;
    struct lm_gguf_writer *w = sound();
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    lm_vocab_free(v);

    w = sound();
    lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_U8, bytes, 4);
    fails(w, LM_EDATA, "tokenizer.ggml.scores");
    w = sound();
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I8, bytes, 4);
    fails(w, LM_EDATA, "tokenizer.ggml.token_type");
    w = sound();
    lm_gguf_set_str(w, "tokenizer.ggml.bos_token_id", "1", 1);
    fails(w, LM_EDATA, "tokenizer.ggml.bos_token_id");
    w = sound();
    lm_gguf_set_u32(w, "tokenizer.ggml.bos_token_id", 4);
    fails(w, LM_EDATA, "bos_token_id is 4, out of range: the vocabulary has 4 entries");
    w = sound();
    lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_F32, four_scores, 3);
    fails(w, LM_EDATA, "scores has 3 entries, not 4");
    w = sound();
    lm_gguf_unset(w, "tokenizer.ggml.scores");
    fails(w, LM_EDATA, "the scores of the vocabulary are missing");
    w = sound();
    lm_gguf_unset(w, "tokenizer.ggml.tokens");
    fails(w, LM_EDATA, "tokens is missing");
    w = builder("gpt2", "gpt-2", twice, 3);
    set_merges(w, one_merge, 0);
    fails(w, LM_EDATA, "ids 0 and 2 are the same piece");
    w = builder("gpt2", "gpt-2", four, 4);
    set_merges(w, one_merge, 1);
    fails(w, LM_EDATA, "'x' is not in the vocabulary");
    w = builder("gpt2", "gpt-2", four, 4);
    set_merges(w, no_space, 1);
    fails(w, LM_EDATA, "has no space");
    fails(builder("gpt2", "gpt-2", four, 4), LM_EDATA, "the merges of the vocabulary are missing");
    w = builder("gpt2", "no-such-pre", four, 4);
    set_merges(w, one_merge, 0);
    fails(w, LM_ENOSUP, "'no-such-pre'");
    fails(builder("no-such-model", NULL, four, 4), LM_ENOSUP, "'no-such-model'");
}

static int notes;

static void count_note(void *user, enum lm_level level, const char *text)
{
    (void)user;
    if (level == LM_WARN && strstr(text, "twice"))
        notes++;
}

/* Start and end tokens: one each for plain text, two with one note when the text has its own,
 * an error when there is none to add. */
static void test_start_and_end(void **state)
{
    (void)state;
    static const char *const tokens[] = { "<s>", "</s>", "a", "b" };
    static const int32_t types[] = { 3, 3, 1, 1 };
    const struct lm_env env = { .note = count_note };
    struct lm_err err;
    struct lm_gguf_writer *w = builder("gpt2", "gpt-2", tokens, 4);
    set_merges(w, NULL, 0);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, 4);
    lm_gguf_set_u32(w, "tokenizer.ggml.bos_token_id", 0);
    lm_gguf_set_u32(w, "tokenizer.ggml.eos_token_id", 1);
    lm_gguf_set_bool(w, "tokenizer.ggml.add_bos_token", true);
    lm_gguf_set_bool(w, "tokenizer.ggml.add_eos_token", true);
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "ab", LM_ENCODE_DEFAULT, IDS(0, 2, 3, 1));
    encode_is(v, "<s>a", LM_ENCODE_PARSE, IDS(0, 2));
    struct lm_encoder *e = lm_encoder_new(v, &env, NULL);
    struct lm_ids ids = { 0 };
    for (int i = 0; i < 3; i++)
        lm_encoder_text(e, "<s>a", 4, LM_ENCODE_DEFAULT, &ids, NULL);
    assert_int_equal(notes, 1);
    assert_int_equal(ids.n, 12);
    assert_memory_equal(ids.id, ((int32_t[]){ 0, 0, 2, 1 }), 16);
    lm_encoder_text(e, "a</s>", 5, LM_ENCODE_DEFAULT, &ids, NULL);
    assert_int_equal(notes, 2);
    lm_ids_release(&ids);
    lm_encoder_free(e);
    lm_vocab_free(v);

    w = builder("gpt2", "gpt-2", tokens, 4);
    set_merges(w, NULL, 0);
    lm_gguf_set_bool(w, "tokenizer.ggml.add_bos_token", true);
    v = built(w, &err);
    assert_non_null(v);
    assert_int_equal(lm_vocab_bos(v), -1);
    ids = (struct lm_ids){ 0 };
    assert_int_equal(lm_vocab_encode(v, "a", 1, LM_ENCODE_SPECIAL, &ids, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "bos_token_id"));
    assert_int_equal(ids.n, 0);
    assert_int_equal(lm_vocab_encode(v, "a", 1, 0, &ids, &err), LM_OK);
    assert_int_equal(ids.n, 1);
    lm_ids_release(&ids);
    lm_vocab_free(v);
}

/* Text of control tokens is text when parsing is off, even where merges or scores could make
 * the piece; pieces of type user are recognised either way. */
static void test_special_text(void **state)
{
    (void)state;
    static const char *const bpe[] = { "<", "x", ">", "<x", "<x>", "[t]", "[", "t", "]" };
    static const char *const merges[] = { "< x", "<x >" };
    static const int32_t bpe_types[] = { 1, 1, 1, 1, 3, 4, 1, 1, 1 };
    struct lm_err err;
    struct lm_gguf_writer *w = builder("gpt2", "gpt-2", bpe, N(bpe));
    set_merges(w, merges, 2);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, bpe_types, N(bpe));
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "<x>[t]t", LM_ENCODE_PARSE, IDS(4, 5, 7));
    encode_is(v, "<x>[t]t", 0, IDS(0, 1, 2, 5, 7));      /* < and x are words of their own */
    lm_vocab_free(v);

    static const char *const spm[] = { "<", "x", ">", "<x", "<x>", "[t]", "\xE2\x96\x81", "t" };
    static const int32_t spm_types[] = { 1, 1, 1, 1, 3, 4, 1, 1 };
    static const float scores[] = { 0, 0, 0, -1, -2, 0, 0, 0 };
    w = builder("llama", NULL, spm, N(spm));
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, spm_types, N(spm));
    lm_gguf_set_arr(w, "tokenizer.ggml.scores", LM_GGUF_F32, scores, N(spm));
    v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "x<x>[t]t", LM_ENCODE_PARSE, IDS(6, 1, 4, 5, 6, 7));
    encode_is(v, "x<x>[t]t", 0, IDS(6, 1, 3, 2, 5, 6, 7));
    /* the added spaces are taken off again, wherever they were put */
    struct lm_ids ids = { 0 };
    struct lm_buf out = { 0 };
    lm_vocab_encode(v, "x<x>[t]t", 8, LM_ENCODE_PARSE, &ids, NULL);
    decode(v, &ids, &out);
    assert_string_equal(out.data, "x<x>[t]t");
    lm_buf_release(&out);
    lm_ids_release(&ids);
    lm_vocab_free(v);
}

/* The leftmost special piece wins, then the longest. */
static void test_overlaps(void **state)
{
    (void)state;
    static const char *const tokens[] = { "ab", "bcd", "abc", "a", "b", "c", "d" };
    static const int32_t types[] = { 4, 4, 4, 1, 1, 1, 1 };
    struct lm_err err;
    struct lm_gguf_writer *w = builder("gpt2", "gpt-2", tokens, N(tokens));
    set_merges(w, NULL, 0);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, N(tokens));
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    encode_is(v, "abcd", 0, IDS(2, 6));
    encode_is(v, "abbcda", 0, IDS(0, 1, 3));
    encode_is(v, "aab", 0, IDS(3, 0));
    lm_vocab_free(v);
}

/* What ends a generation: known pieces and the file's ids. */
static void test_ends(void **state)
{
    (void)state;
    static const char *const tokens[] = { "<|im_end|>", "a", "</s>", "<|endoftext|>", "b",
                                          "<|end|>", "<|return|>", "<|call|>" };
    static const int32_t types[] = { 4, 1, 1, 3, 1, 3, 3, 3 };
    struct lm_err err;
    size_t n;
    struct lm_gguf_writer *w = builder("gpt2", "gpt-2", tokens, N(tokens));
    set_merges(w, NULL, 0);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, N(tokens));
    lm_gguf_set_u32(w, "tokenizer.ggml.eos_token_id", 4);
    struct lm_vocab *v = built(w, &err);
    assert_non_null(v);
    const int32_t *eog = lm_vocab_eog(v, &n);
    /* not </s>, which is text here; not <|end|>, which ends a message */
    assert_int_equal(n, 5);
    assert_memory_equal(eog, ((int32_t[]){ 0, 3, 4, 6, 7 }), 20);
    assert_true(lm_vocab_is_eog(v, 4));
    assert_false(lm_vocab_is_eog(v, 5));
    assert_int_equal(lm_vocab_type(v, 0), LM_TOKEN_CONTROL);
    lm_vocab_free(v);
}

/* What is for filling in: the file's keys, the older ones too, or else known pieces. */
static void test_fill_in(void **state)
{
    (void)state;
    static const char *const tokens[] = { "<fim_prefix>", "a", "<SUF>", "<|fim_suffix|>", "b",
                                          "<|file_sep|>" };
    static const int32_t types[] = { 3, 1, 3, 4, 1, 3 };
    struct lm_err err;
    for (int keys = 0; keys < 3; keys++) {
        struct lm_gguf_writer *w = builder("gpt2", "gpt-2", tokens, N(tokens));
        set_merges(w, NULL, 0);
        lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, N(tokens));
        if (keys)
            lm_gguf_set_u32(w, keys == 1 ? "tokenizer.ggml.fim_mid_token_id"
                                         : "tokenizer.ggml.middle_token_id", 4);
        struct lm_vocab *v = built(w, &err);
        assert_non_null(v);
        unsigned traits[N(tokens)] = { 0 };
        for (uint32_t i = 0; i < N(tokens); i++)
            traits[i] = lm_vocab_traits(v, i) / LM_TRAIT_FIM;
        assert_int_equal(traits[0], 1u << LM_FIM_PRE);
        assert_int_equal(traits[1] | traits[2], 0);  /* another suffix comes first in the list */
        assert_int_equal(traits[3], 1u << LM_FIM_SUF);
        assert_int_equal(traits[4], keys ? 1u << LM_FIM_MID : 0);
        assert_int_equal(traits[5], 1u << LM_FIM_SEP);
        assert_int_equal(lm_vocab_type(v, 3), LM_TOKEN_CONTROL);
        lm_vocab_free(v);
    }
}

/* ---- bytes -------------------------------------------------------------------- */

/* Bytes that are not UTF-8, at the start, in the middle and at the end. */
static void test_bytes(void **state)
{
    (void)state;
    static const char *const bad[] = { "\xE6\xAD", "\xFF\xFE", "\xC0\x80", "\xED\xA0\x80",
                                       "\xF4\x90\x80\x80" };
    static const char *const files[] = { DATA "m.gguf", DATA "vocab/tiny-spm.gguf" };
    for (size_t k = 0; k < N(files); k++) {
        struct lm_vocab *v = open_vocab(files[k]);
        struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
        struct lm_buf text = { 0 }, out = { 0 };
        for (size_t i = 0; i < N(bad) * 3; i++) {
            struct lm_ids ids = { 0 };
            const char *x = bad[i / 3];
            lm_buf_clear(&text);
            lm_buf_printf(&text, "%s%s%s%s%s", i % 3 == 0 ? x : "", "ab", i % 3 == 1 ? x : "", "c",
                          i % 3 == 2 ? x : "");
            lm_buf_byte(&text, 0);
            assert_int_equal(lm_encoder_text(e, text.data, text.len, 0, &ids, NULL), LM_OK);
            decode(v, &ids, &out);
            assert_int_equal(out.len, text.len);
            assert_memory_equal(out.data, text.data, text.len);
            lm_ids_release(&ids);
        }
        lm_buf_release(&text);
        lm_buf_release(&out);
        lm_encoder_free(e);
        lm_vocab_free(v);
    }
}

static void feed(struct lm_detok *d, const struct lm_vocab *v, int byte, const char *want)
{
    char name[8];
    struct lm_buf out = { 0 };
    snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    int32_t id = lm_vocab_find(v, name, 6);
    assert_true(id >= 0);
    lm_buf_add(&out, "", 0);
    assert_int_equal(lm_detok_id(d, id, &out, NULL), LM_OK);
    assert_string_equal(out.data, want);
    lm_buf_release(&out);
}

/* A character comes when it is complete, a byte as soon as it cannot be part of one. */
static void test_incremental(void **state)
{
    (void)state;
    struct lm_vocab *v = open_vocab(DATA "vocab/tiny-spm.gguf");
    struct lm_detok *d = lm_detok_new(v, false, NULL);
    struct lm_buf out = { 0 };
    struct lm_err err;
    feed(d, v, 0xE6, "");
    feed(d, v, 0x97, "");
    feed(d, v, 0xA5, "\xE6\x97\xA5");
    feed(d, v, 0xE6, "");
    feed(d, v, 'a', "\xE6" "a");
    feed(d, v, 0xED, "");
    feed(d, v, 0xA0, "\xED\xA0");                /* no surrogates */
    feed(d, v, 0xF4, "");
    feed(d, v, 0x8F, "");
    feed(d, v, 0xF4, "\xF4\x8F");
    feed(d, v, 0xFF, "\xF4\xFF");
    feed(d, v, 0xC3, "");
    lm_detok_end(d, &out);
    assert_string_equal(out.data, "\xC3");
    assert_int_equal(lm_detok_id(d, -1, &out, &err), LM_EDATA);
    assert_int_equal(lm_detok_id(d, (int32_t)lm_vocab_n(v), &out, &err), LM_EDATA);
    char size[32];
    snprintf(size, sizeof size, "which has %u entries", lm_vocab_n(v));
    assert_non_null(strstr(err.text, size));
    lm_buf_release(&out);
    lm_detok_free(d);
    lm_vocab_free(v);
}

/* The cache of words changes nothing: each text again, in another order. */
static void test_cache(void **state)
{
    (void)state;
    struct lm_vocab *v = open_vocab(DATA "m.gguf");
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    struct lm_ids a = { 0 }, b = { 0 };
    char text[64];
    for (unsigned i = 0; i < 60000; i++) {       /* more words than the cache has slots */
        int n = snprintf(text, sizeof text, " w%x", i * 2654435761u);
        size_t at = a.n;
        lm_encoder_text(e, text, (size_t)n, 0, &a, NULL);
        if (i % 100 == 0) {
            b.n = 0;
            lm_vocab_encode(v, text, (size_t)n, 0, &b, NULL);
            assert_int_equal(a.n - at, b.n);
            assert_memory_equal(a.id + at, b.id, b.n * sizeof *b.id);
        }
        if (a.n > 1000000)
            a.n = 0;
    }
    lm_ids_release(&a);
    lm_ids_release(&b);
    lm_encoder_free(e);
    lm_vocab_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),       cmocka_unit_test(test_classes),
        cmocka_unit_test(test_nfc),         cmocka_unit_test(test_nfc_long),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_spans_of_joined),         cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_merge_order), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_start_and_end), cmocka_unit_test(test_special_text),
        cmocka_unit_test(test_overlaps),    cmocka_unit_test(test_ends),
        cmocka_unit_test(test_fill_in),
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_incremental),
        cmocka_unit_test(test_cache),       cmocka_unit_test(test_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
