/* SPDX-License-Identifier: MIT */
/* Unigram, WordPiece, RWKV, PLaMo-2, Gemma 4, and every form of file that a vocabulary comes
 * in: ids against tests/data/vocab/kinds (tests/golden/make-vocab-kinds says where those come
 * from), and the modules that these kinds are made of. */
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
#include "vocab/bert_text.h"
#include "vocab/charsmap.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

#define KINDS "tests/data/vocab/kinds/"
#define N(a) (sizeof(a) / sizeof *(a))

static struct lm_vocab *open_vocab(const char *path)
{
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_open(path, NULL, &err);
    if (!v)
        fail_msg("%s: %s", path, err.text);
    return v;
}

/* ---- ids ---------------------------------------------------------------------- */

static void numbers(const struct lm_jval *list, struct lm_ids *out)
{
    *out = (struct lm_ids){ .id = calloc(list->len + 1, sizeof *out->id) };
    for (const struct lm_jval *x = list->first; x; x = x->next)
        out->id[out->n++] = (int32_t)atoi(x->str);
}

/* The same ids with spans, which lie in the text, one after the other. */
static void check_spans(struct lm_encoder *e, const char *text, size_t len, unsigned flags,
                        const struct lm_ids *want)
{
    struct lm_ids ids = { .want_spans = true };
    size_t at = 0;
    assert_int_equal(lm_encoder_text(e, text, len, flags, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, want->n);
    for (size_t i = 0; i < ids.n; i++) {
        assert_int_equal(ids.id[i], want->id[i]);
        assert_true(ids.span[i].at >= at);
        at = ids.span[i].at + ids.span[i].len;
        assert_true(at <= len);
    }
    lm_ids_release(&ids);
}

static void check_ids(struct lm_encoder *e, const char *name, const struct lm_jval *text,
                      unsigned flags, const struct lm_jval *list)
{
    struct lm_ids want, ids = { 0 };
    numbers(list, &want);
    assert_int_equal(lm_encoder_text(e, text->str, text->len, flags, &ids, NULL), LM_OK);
    if (ids.n != want.n || (want.n && memcmp(ids.id, want.id, want.n * sizeof *want.id) != 0))
        fail_msg("%s: '%s': %zu ids from %d, not %zu from %d", name, text->str, ids.n,
                 ids.n ? ids.id[0] : -1, want.n, want.n ? want.id[0] : -1);
    check_spans(e, text->str, text->len, flags, &want);
    lm_ids_release(&ids);
    lm_ids_release(&want);
}

static void test_ids(void **state)
{
    (void)state;
    FILE *f = fopen(KINDS "ids.jsonl", "r");
    char *line = NULL, name[64] = "";
    size_t cap = 0;
    int n = 0, files = 0;
    struct lm_vocab *v = NULL;
    struct lm_encoder *e = NULL;
    assert_non_null(f);
    for (; getline(&line, &cap, f) > 0; n++) {
        struct lm_arena a = { 0 };
        const struct lm_jval *j = lm_json_tree(&a, line, strlen(line), NULL);
        const struct lm_jval *text = lm_jval_get(j, "text"), *ids = lm_jval_get(j, "ids");
        const struct lm_jval *special = lm_jval_get(j, "special");
        const char *file = lm_jval_str(lm_jval_get(j, "v"));
        if (strcmp(file, name) != 0) {
            char path[128];
            lm_encoder_free(e);
            lm_vocab_free(v);
            snprintf(name, sizeof name, "%s", file);
            snprintf(path, sizeof path, KINDS "%s", name);
            v = open_vocab(path);
            e = lm_encoder_new(v, NULL, NULL);
            files++;
        }
        /* the libraries that these two are compared with do not look for control tokens */
        bool apart = strstr(name, ".model") || strstr(name, ".tiktoken");
        unsigned parse = apart ? 0 : LM_ENCODE_PARSE;
        check_ids(e, name, text, parse, ids);
        check_ids(e, name, text, parse | LM_ENCODE_SPECIAL, special ? special : ids);
        lm_arena_release(&a);
    }
    assert_true(n > 400);
    assert_true(files >= 13);
    lm_encoder_free(e);
    lm_vocab_free(v);
    free(line);
    fclose(f);
}

/* Text of many chunks: words are the same wherever they stand. */
static void test_chunks(void **state)
{
    (void)state;
    static const char *const files[] = { "unigram.gguf", "wordpiece.gguf" };
    static const char part[] = "The rivers, \xEF\xBC\xA1 fine e\xCC\x81 12345";
    enum { TIMES = 20000 };
    for (size_t k = 0; k < N(files); k++) {
        char path[64];
        struct lm_ids one = { 0 }, all = { 0 };
        struct lm_buf text = { 0 };
        snprintf(path, sizeof path, KINDS "%s", files[k]);
        struct lm_vocab *v = open_vocab(path);
        struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
        assert_int_equal(lm_encoder_text(e, part, strlen(part), 0, &one, NULL), LM_OK);
        for (int i = 0; i < TIMES; i++)
            lm_buf_printf(&text, "%s%*s", part, i % 7 ? 1 : 3000 + i, " ");
        assert_int_equal(lm_encoder_text(e, text.data, text.len, 0, &all, NULL), LM_OK);
        assert_int_equal(all.n, one.n * TIMES);
        for (size_t i = 0; i < all.n; i++)
            assert_int_equal(all.id[i], one.id[i % one.n]);
        lm_encoder_free(e);
        lm_vocab_free(v);
        lm_buf_release(&text);
        lm_ids_release(&one);
        lm_ids_release(&all);
    }
}

/* ---- vocabularies built here --------------------------------------------------- */

static struct lm_str str(const char *s)
{
    return (struct lm_str){ s, strlen(s) };
}

static struct lm_vocab *load(struct lm_vocab_src *src, const char *model, const char *const *text,
                             size_t n, struct lm_err *err)
{
    struct lm_str s[16];
    assert_true(n <= N(s));
    for (size_t i = 0; i < n; i++)
        s[i] = str(text[i]);
    src->model = str(model);
    src->tokens = s;
    src->n = n;
    return lm_vocab_load(src, NULL, err);
}

/*
 * One word that is longer than what is settled at a time.  With "a" -1 and "aa" -1.5 the best
 * way is all pairs; every place has a way of its own, so ways of even and odd length run beside
 * each other, and one "b" makes them meet.
 */
static void test_long_word(void **state)
{
    (void)state;
    static const char *const text[] = { "<unk>", "a", "aa", "b" };
    static const int32_t types[] = { 2, 1, 1, 1 };
    static const float scores[] = { 0, -1, -1.5f, -1 };
    enum { LEN = 1 << 20 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct lm_err err;
    src.types = types;
    src.scores = scores;
    src.space_prefix = 0;
    src.add_eos = 0;
    src.unk = 0;
    struct lm_vocab *v = load(&src, "t5", text, N(text), &err);
    assert_non_null(v);
    char *word = malloc(LEN);
    for (int with_b = 0; with_b < 2; with_b++) {
        struct lm_ids ids = { 0 };
        memset(word, 'a', LEN);
        if (with_b)
            for (size_t i = 1000; i < LEN; i += 1001)
                word[i] = 'b';
        assert_int_equal(lm_vocab_encode(v, word, LEN, 0, &ids, NULL), LM_OK);
        size_t at = 0;
        for (size_t i = 0; i < ids.n; i++) {
            if (word[at] == 'b')
                assert_int_equal(ids.id[i], 3);
            else                                 /* 1000 before each b, and 573 at the end */
                assert_true(ids.id[i] == 2 || (with_b && at > LEN - 574 && ids.id[i] == 1));
            at += ids.id[i] == 2 ? 2 : 1;
        }
        assert_int_equal(at, LEN);
        lm_ids_release(&ids);
    }
    free(word);
    lm_vocab_free(v);
}

/* Unknown characters beside each other are one id, in a long word, too; or bytes. */
static void test_unknown(void **state)
{
    (void)state;
    static const char *const text[] = { "<unk>", "a" };
    static const int32_t types[] = { 2, 1 };
    static const float scores[] = { 0, -1 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct lm_err err;
    struct lm_ids ids = { 0 };
    struct lm_buf word = { 0 };
    src.types = types;
    src.scores = scores;
    src.add_eos = 0;
    src.unk = 0;
    struct lm_vocab *v = load(&src, "t5", text, N(text), &err);
    assert_non_null(v);
    lm_buf_str(&word, "a");
    for (int i = 0; i < 200000; i++)
        lm_buf_str(&word, "\xC3\xA9\xFF");
    lm_buf_str(&word, "a");
    assert_int_equal(lm_vocab_encode(v, word.data, word.len, 0, &ids, NULL), LM_OK);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.id[0] * 100 + ids.id[1] * 10 + ids.id[2], 101);
    lm_ids_release(&ids);
    lm_buf_release(&word);
    lm_vocab_free(v);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const text[] = { "a", "b" };
    static const float scores[] = { 0, 0 };
    static const struct {
        const char *model;
        bool        scored;
        const char *map, *part;
    } t[] = {
        { "t5", false, "", "the scores of the vocabulary are missing" },
        { "t5", true, "abc", "precompiled_charsmap: 3 bytes" },
        { "t5", true, "\x04\x01\x01\x01xxxx", "precompiled_charsmap: 8 bytes" },
        { "plamo2", true, "", "has not got pieces for all bytes" },
        { "plamo2", false, "", "the scores of the vocabulary are missing" },
        { "gemma4", false, "", "byte_fallback without pieces for all bytes" },
        { "no_such", false, "", "tokenizer model 'no_such' is not supported" },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_vocab_src src = LM_VOCAB_SRC;
        struct lm_err err;
        src.scores = t[i].scored ? scores : NULL;
        src.charsmap = str(t[i].map);
        assert_null(load(&src, t[i].model, text, 2, &err));
        if (!strstr(err.text, t[i].part))
            fail_msg("'%s' does not say '%s'", err.text, t[i].part);
    }
}

/* A piece of a SentencePiece model file: its text, its score (little-endian), its type. */
static void put_piece(struct lm_buf *b, const char *text, float score, int type)
{
    uint32_t bits;
    size_t n = strlen(text);
    memcpy(&bits, &score, 4);
    lm_buf_byte(b, 1 << 3 | 2);
    lm_buf_byte(b, (int)n + 9);
    lm_buf_byte(b, 1 << 3 | 2);
    lm_buf_byte(b, (int)n);
    lm_buf_str(b, text);
    lm_buf_byte(b, 2 << 3 | 5);
    for (int i = 0; i < 4; i++)
        lm_buf_byte(b, (int)(bits >> 8 * i & 255));
    lm_buf_byte(b, 3 << 3);
    lm_buf_byte(b, type);
}

/* A SentencePiece BPE model finds pieces of type user among its marks: one with spaces of its own
 * is not found.  The ids are SentencePiece 0.2.3's. */
static void test_spaced_pieces(void **state)
{
    (void)state;
#define M "\xE2\x96\x81"
    static const struct { const char *text; int32_t ids[4]; size_t n; } t[] = {
        { "a  a", { 5, 6, 7 }, 3 }, { "a   a", { 5, 4, 5 }, 3 }, { "a" M M M "a", { 5, 4, 5 }, 3 },
        { "  ", { 6, 6 }, 2 },
    };
    struct lm_buf b = { 0 };
    struct lm_err err;
    put_piece(&b, "<unk>", 0, 2), put_piece(&b, "<s>", 0, 3), put_piece(&b, "</s>", 0, 3);
    put_piece(&b, "  ", 0, 4), put_piece(&b, M M M, 0, 4), put_piece(&b, "a", -1, 1);
    put_piece(&b, M, -2, 1), put_piece(&b, M "a", -0.5f, 1);
    /* BPE; normalized as it is, no prefix, no spaces removed, but escaped */
    lm_buf_add(&b, "\x12\x02\x18\x02\x1A\x10\x0A\x08" "identity\x18\x00\x20\x00\x28\x01", 22);
    struct lm_vocab *v = lm_vocab_from_spm(b.data, b.len, NULL, &err);
    assert_non_null(v);
    for (size_t i = 0; i < N(t); i++) {
        struct lm_ids ids = { 0 };
        assert_int_equal(lm_vocab_encode(v, t[i].text, strlen(t[i].text), 0, &ids, &err), LM_OK);
        assert_int_equal(ids.n, t[i].n);
        assert_memory_equal(ids.id, t[i].ids, ids.n * sizeof *ids.id);
        lm_ids_release(&ids);
    }
    lm_vocab_free(v);
    lm_buf_release(&b);
#undef M
}

/* Pieces of type user in a SentencePiece Unigram model are worth a tenth for each byte but the
 * first, and sums that are the same are told apart by how they were rounded: what SentencePiece
 * 0.2.3 makes of these texts, by the score of 'c'. */
static void test_user_pieces(void **state)
{
    (void)state;
#define M "\xE2\x96\x81"
    static const struct { float c; const char *text; int32_t ids[6]; size_t n; } t[] = {
        { -2.3f, "caaaa", { 10, 3, 5 }, 3 },   { -0.7f, "caaaa", { 10, 4, 4 }, 3 },
        { -2.3f, "c" M M "b", { 10, 6, 7 }, 3 }, { -2.3f, "caaaaaa", { 10, 5, 5 }, 3 },
        { -2.3f, "c" M "b", { 10, 9 }, 2 },    { -2.3f, "aaaaa", { 4, 5 }, 2 },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_buf b = { 0 };
        struct lm_err err;
        put_piece(&b, "<unk>", 0, 2), put_piece(&b, "<s>", 0, 3), put_piece(&b, "</s>", 0, 3);
        put_piece(&b, "a", 0, 4), put_piece(&b, "aa", 0, 4), put_piece(&b, "aaa", 0, 4);
        put_piece(&b, M M, 0, 4), put_piece(&b, "b", -1.95f, 1), put_piece(&b, M, -0.65f, 1);
        put_piece(&b, M "b", -1.05f, 1), put_piece(&b, "c", t[i].c, 1);
        /* Unigram; normalized as it is, no prefix, no spaces removed or escaped */
        lm_buf_add(&b, "\x12\x02\x18\x01\x1A\x10\x0A\x08" "identity\x18\x00\x20\x00\x28\x00", 22);
        struct lm_vocab *v = lm_vocab_from_spm(b.data, b.len, NULL, &err);
        assert_non_null(v);
        struct lm_ids ids = { 0 };
        assert_int_equal(lm_vocab_encode(v, t[i].text, strlen(t[i].text), 0, &ids, &err), LM_OK);
        assert_int_equal(ids.n, t[i].n);
        assert_memory_equal(ids.id, t[i].ids, ids.n * sizeof *ids.id);
        lm_ids_release(&ids);
        lm_vocab_free(v);
        lm_buf_release(&b);
    }
#undef M
}

/* ---- the modules ---------------------------------------------------------------- */

/* Hugging Face's BertNormalizer (tokenizers 0.23.3), with these flags. */
static void test_bert_text(void **state)
{
    (void)state;
    enum { CASED = LM_BERT_CLEAN | LM_BERT_CHINESE, STRIP = LM_BERT_STRIP,
           LOW = CASED | STRIP | LM_BERT_LOWER };
    static const struct {
        unsigned    opts;
        const char *text, *want;
    } t[] = {
        { LOW, "Kola\xC4\x8Di\xC4\x87", "kolacic" },
        { LOW, "KOLA\xC4\x8CI\xC4\x86", "kolacic" },
        { LOW, "\xC4\xB0stanbul \xCE\x91\xCE\xA3 \xC3\x9F", "istanbul \xCE\xB1\xCF\x83 \xC3\x9F" },
        { LOW, "\xE5\x8F\xB0\xE5\x8C\x97\xE2\x80\xA7" "08",
          " \xE5\x8F\xB0  \xE5\x8C\x97 \xE2\x80\xA7" "08" },
        { LOW, "hel\xE2\x80\x8Blo\xC2\xA0world", "hello world" },
        { LOW, "a\x0B" "b\x0C" "c\r\nd\te\x01" "f\xEF\xBF\xBDg", "abc  d efg" },
        { LOW, "\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB" },
        { LOW, "\xE0\xBC\x80\xE1\x9C\xB4x", "\xE0\xBC\x80x" },
        { CASED, "\xC4\xB0 Caf\xC3\xA9 \xE8\xB1\x88\xE6\x9B\xB4",
          "\xC4\xB0 Caf\xC3\xA9  \xE8\xB1\x88  \xE6\x9B\xB4 " },
        { CASED, "\xE0\xA2\x90" "a\xC2\xAD" "b\xEE\x80\x80", "\xE0\xA2\x90" "ab" },
        { STRIP, "\xF0\x9D\x85\x98\xF0\x9D\x85\xAD\xCC\x81\xF0\x9D\x85\xA5x",
          "\xF0\x9D\x85\x98\xF0\x9D\x85\xA5\xF0\x9D\x85\xADx" },
        { STRIP, "n\xE0\xA2\x98\xCC\x83\xE0\xB5\x8D", "n\xE0\xA2\x98" },
        { LOW, "\xE1\xB2\x89\xF0\x90\xB5\x90\xF0\x96\xBA\xA0",
          "\xE1\xB2\x8A\xF0\x90\xB5\xB0\xF0\x96\xBA\xBB" },
        /* not UTF-8: goes as U+FFFD does, or stays */
        { CASED, "a\xFF" "b\xE6\xAD", "ab" },
        { STRIP, "a\xFF" "b\xE6\xAD", "a\xFF" "b\xE6\xAD" },
        { LOW, "", "" },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_buf b = { 0 };
        lm_buf_add(&b, "", 0);
        assert_int_equal(lm_bert_normalize(t[i].text, strlen(t[i].text), t[i].opts, &b, NULL, NULL),
                         LM_OK);
        assert_string_equal(b.data, t[i].want);
        lm_buf_release(&b);
    }
    assert_true(lm_bert_punct('$') && lm_bert_punct(0x3001) && lm_bert_punct(0x166D));
    assert_false(lm_bert_punct('a') || lm_bert_punct(0x20AC) || lm_bert_punct(0x2E52));
}

/* Where the characters of the normalized text came from. */
static void test_bert_origin(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t      n, at[4], end[4], from[4], to[4];
    } t[] = {
        /* U+1E029, a mark that stays, an accent that goes, and what follows them */
        { "x\xF0\x9E\x80\xA9\xCC\x81y", 3, { 0, 1, 5 }, { 1, 5, 6 }, { 0, 1, 7 }, { 1, 5, 8 } },
        { "\xF0\x9E\x80\xA9 z", 3, { 0, 4, 5 }, { 4, 5, 6 }, { 0, 4, 5 }, { 4, 5, 6 } },
        /* before U+4E00, which gets spaces around it, and at the end */
        { "\xF0\x9E\x80\xA9\xE4\xB8\x80\xF0\x9E\x80\xA9", 3, { 0, 5, 9 }, { 4, 8, 13 },
          { 0, 4, 7 }, { 4, 7, 11 } },
        /* two that change places, with an accent between */
        { "a\xF0\x9D\x85\xAD\xCC\x81\xF0\x9D\x85\xA5" "b", 4, { 0, 1, 5, 9 },
          { 1, 5, 9, 10 }, { 0, 1, 7, 11 }, { 1, 5, 11, 12 } },
    };
    for (size_t i = 0; i < N(t); i++) {
        struct lm_buf b = { 0 };
        struct lm_remap map = { 0 };
        assert_int_equal(lm_bert_normalize(t[i].text, strlen(t[i].text),
                                           LM_BERT_STRIP | LM_BERT_CHINESE, &b, &map, NULL), LM_OK);
        for (size_t k = 0; k < t[i].n; k++) {
            assert_int_equal(lm_remap_find(&map, t[i].at[k]), t[i].from[k]);
            assert_int_equal(lm_remap_end(&map, t[i].end[k]), t[i].to[k]);
        }
        lm_buf_release(&b);
        free(map.e);
    }
}

/* A long run of marks that change places. */
static void test_marks(void **state)
{
    (void)state;
    struct lm_buf b = { 0 }, out = { 0 };
    enum { PAIRS = 100000 };
    for (int i = 0; i < PAIRS; i++)              /* classes 226 and 216 */
        lm_buf_str(&b, "\xF0\x9D\x85\xAD\xF0\x9D\x85\xA5");
    assert_int_equal(lm_bert_normalize(b.data, b.len, LM_BERT_STRIP, &out, NULL, NULL), LM_OK);
    assert_int_equal(out.len, b.len);
    assert_memory_equal(out.data, "\xF0\x9D\x85\xA5\xF0\x9D\x85\xA5", 8);
    assert_memory_equal(out.data + out.len - 8, "\xF0\x9D\x85\xAD\xF0\x9D\x85\xAD", 8);
    lm_buf_release(&b);
    lm_buf_release(&out);
}

/* The map of unigram.model; make-vocab-kinds says what its rules are. */
static void test_charsmap(void **state)
{
    (void)state;
    static const char *const t[][2] = {
        { "plain text", "plain text" },
        { "\xEF\xAC\x81ne\xE2\x80\xA6", "fine..." },
        { "\xEF\xBC\xA1\xEF\xBC\x81\xE3\x80\x80x", "A! x" },
        { "a\tb\r\nc", "a b c" },                        /* a line end is one cluster */
        { "e\xCC\x81" "a\xCC\x88", "\xC3\xA9\xC3\xA4" },
        { "e\xCC\x81\xCC\x81", "\xC3\xA9" },             /* the rest of a cluster goes */
        { "e\xCC\x81\xCC\x81\xCC\x81", "e\xCC\x81\xCC\x81\xCC\x81" },    /* 7 bytes */
        { "\xEF\xBC\xA1\xFF\xE6", "A\xFF\xE6" },
    };
    struct lm_arena a = { 0 };
    struct lm_buf blob = { 0 }, out = { 0 };
    struct lm_charsmap m;
    FILE *f = fopen(KINDS "unigram.json", "r");
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;)
        lm_buf_byte(&blob, c);
    fclose(f);
    const struct lm_jval *j = lm_json_tree(&a, blob.data, blob.len, NULL);
    const struct lm_jval *map = lm_jval_get(
        lm_jval_get(lm_jval_get(j, "normalizer"), "normalizers")->first, "precompiled_charsmap");
    lm_buf_clear(&blob);
    assert_true(lm_buf_base64(&blob, map->str, map->len));
    assert_int_equal(lm_charsmap_init(&m, blob.data, blob.len, NULL), LM_OK);
    for (size_t i = 0; i < N(t); i++) {
        lm_buf_clear(&out);
        lm_buf_add(&out, "", 0);
        assert_int_equal(lm_charsmap_apply(&m, t[i][0], strlen(t[i][0]), &out, NULL, NULL), LM_OK);
        assert_string_equal(out.data, t[i][1]);
    }
    struct lm_str to;
    assert_int_equal(lm_charsmap_longest(&m, "e\xCC\x81x", "e\xCC\x81x" + 4, &to, NULL), 3);
    assert_int_equal(lm_charsmap_longest(&m, "x", "x" + 1, &to, NULL), 0);
    lm_charsmap_release(&m);

    /* every cut and every flipped byte is no map, or one that is walked in bounds */
    for (size_t i = 0; i < blob.len; i++) {
        blob.data[i] ^= 0x55;
        char *copy = malloc(blob.len);
        memcpy(copy, blob.data, blob.len);
        if (lm_charsmap_init(&m, copy, i % 3 ? blob.len : i, NULL) == LM_OK)
            assert_int_equal(lm_charsmap_apply(&m, t[1][0], strlen(t[1][0]), &out, NULL, NULL),
                             LM_OK);
        lm_charsmap_release(&m);
        free(copy);
        blob.data[i] ^= 0x55;
    }
    lm_buf_release(&blob);
    lm_buf_release(&out);
    lm_arena_release(&a);
}

static int32_t find(const struct lm_trie *t, const char *p, size_t n)
{
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++)
        if (!(node = lm_trie_step(t, node, (unsigned char)p[i])))
            return -1;
    return n ? t->unit[node].id : -1;
}

/* All strings of one and two bytes but some, and a few long ones. */
static void test_trie(void **state)
{
    (void)state;
    enum { MAX = 70000 };
    struct lm_str *s = calloc(MAX, sizeof *s);
    char *bytes = malloc(2 * MAX), *long_one = calloc(1, 5000);
    size_t n = 0;
    struct lm_trie t;
    for (int i = 0; i < 65536; i++) {
        bytes[2 * i] = (char)(i >> 8);
        bytes[2 * i + 1] = (char)i;
        if (i % 7)
            s[n++] = (struct lm_str){ bytes + 2 * i, 2 };
    }
    for (int i = 0; i < 256; i += 3)
        s[n++] = (struct lm_str){ bytes + 2 * i + 1, 1 };
    s[n++] = (struct lm_str){ long_one, 5000 };
    s[n++] = (struct lm_str){ long_one, 4999 };
    s[n++] = s[0];                               /* again: the lower id counts */
    s[n++] = (struct lm_str){ "", 0 };
    assert_int_equal(lm_trie_build(&t, s, NULL, n, NULL), LM_OK);
    for (size_t i = 0; i < n - 2; i++)
        assert_int_equal(find(&t, s[i].p, s[i].len), i);
    for (int i = 0; i < 65536; i += 7)
        assert_int_equal(find(&t, bytes + 2 * i, 2), -1);
    for (int i = 1; i < 256; i += 3)
        assert_int_equal(find(&t, bytes + 2 * i + 1, 1), -1);
    assert_int_equal(find(&t, long_one, 4998), -1);
    assert_int_equal(find(&t, "ab\xFF", 3), -1);
    lm_trie_release(&t);
    assert_int_equal(lm_trie_build(&t, s, NULL, 0, NULL), LM_OK);
    assert_int_equal(find(&t, "a", 1), -1);
    lm_trie_release(&t);
    free(s);
    free(bytes);
    free(long_one);
}

/* ---- damaged files ---------------------------------------------------------------- */

/* A cut or changed file is refused, or read; neither reads beyond it. */
static void test_damaged(void **state)
{
    (void)state;
    static const char *const files[] = { "unigram.model", "own.tiktoken", "rwkv.txt", "vocab.txt" };
    static struct lm_vocab *(*const read[])(const char *, size_t, const struct lm_env *,
                                            struct lm_err *) = {
        lm_vocab_from_spm, lm_vocab_from_ranks, lm_vocab_from_rwkv, lm_vocab_from_txt,
    };
    for (size_t k = 0; k < N(files); k++) {
        char path[64];
        struct lm_buf b = { 0 };
        snprintf(path, sizeof path, KINDS "%s", files[k]);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        for (int c; (c = fgetc(f)) != EOF;)
            lm_buf_byte(&b, c);
        fclose(f);
        int good = 0;
        for (size_t n = 0; n < b.len; n += 1 + b.len / 150) {
            char *copy = malloc(n ? n : 1);
            struct lm_err err;
            memcpy(copy, b.data, n);
            if (n)
                copy[n * 7 / 11] ^= 0x21;
            struct lm_vocab *v = read[k](copy, n, NULL, &err);
            good += v != NULL;
            assert_true(v || err.text[0]);
            lm_vocab_free(v);
            free(copy);
        }
        assert_true(good < 150);
        lm_buf_release(&b);
    }
    struct lm_err err;
    assert_null(lm_vocab_from_ranks("YQ== 0\nYQ= 1\n", 13, NULL, &err));
    assert_non_null(strstr(err.text, "line 2 "));
    assert_null(lm_vocab_from_ranks("YQ== 0\nYg== 0\n", 14, NULL, &err));
    assert_non_null(strstr(err.text, "id 0 is there twice"));
    assert_null(lm_vocab_from_rwkv("1 'a' 1\n2 b'\\xff' 2\n", 20, NULL, &err));
    assert_non_null(strstr(err.text, "line 2 "));
    assert_null(lm_vocab_from_tekken("{\"vocab\":[]}", 12, NULL, &err));
    assert_non_null(strstr(err.text, "config has no good default_vocab_size"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_user_pieces),
        cmocka_unit_test(test_spaced_pieces),
        cmocka_unit_test(test_bert_text),
        cmocka_unit_test(test_bert_origin),
        cmocka_unit_test(test_bert_origin),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_charsmap),
        cmocka_unit_test(test_trie),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
