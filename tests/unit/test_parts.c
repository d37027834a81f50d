/* SPDX-License-Identifier: MIT */
/*
 * Texts that come in parts, cut anywhere: the ids are those of the whole.  Windows are tiny here,
 * so that what happens to texts of megabytes happens to these; the whole is encoded without
 * any.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gguf/gguf.h"
#include "vocab/tokenizer.h"

#define N(a)  (sizeof(a) / sizeof *(a))
#define DATA  "tests/data/vocab/"
#define KINDS DATA "kinds/"

enum { TEXTS = 400, LONGEST = 6000 };

static uint64_t seed = 1;

static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

/* What texts are made of: sorts of characters that patterns tell apart, broken ones, and begins
 * of special pieces. */
static const char *const bits[] = {
    "a", "b", "s", "ll", "A", "Z", "\xC3\xA9", "\xC3\x89", "\xE4\xB8\x96", "\xE7\x95\x8C",
    "\xCC\x81", "\xCC\xA3", "1", "22", "333", "\xD9\xA3", " ", "  ", "\n", "\n\n", "\r\n", "\t",
    "\xE3\x80\x80", "!", "-", "=", "/", "'", ".", ",", "<", ">", "_", "`", "\xED\x95\x9C",
    "\xE1\x84\x92", "\xE1\x85\xA1", "\xC5\xBF", "\xE0\xB8\x81", "\xFF", "\xE4\xB8", "\xC0", "<s>",
    "</s>", "<sentinel:1", "IMGIMGAB", "Z", "\xE2\x80\xA6", "\xE3\x81\x82", "\xE2\x96\x81",
    "\xEF\xBC\xA1", "\xEF\xAC\x81", "\xF0\x9F\x98\x80", "e\xCC\x81", "\xEF\xBB\xBF", "the", "ing",
    " a", "aa", "\x01", "\xEF\xBF\xBD", "\xE2\x80\x8D", "\xF0\x9F\x87\xA9", "A\xCC\x8A", "\0x",
};

/* Runs, alternations and mixtures of few sorts. */
static void make_text(struct lm_buf *b)
{
    uint32_t most = draw(3) ? 300 : LONGEST;
    lm_buf_clear(b);
    lm_buf_add(b, "", 0);
    for (uint32_t parts = 1 + draw(6); parts && b->len < LONGEST; parts--) {
        const char *pick[6];
        uint32_t n = 1 + draw(draw(2) ? 2 : N(pick)), times = 1 + draw(draw(2) ? 20 : most);
        for (uint32_t i = 0; i < n; i++)
            pick[i] = bits[draw(N(bits))];
        bool in_turn = draw(2);
        for (uint32_t i = 0; i < times && b->len < LONGEST; i++)
            lm_buf_str(b, pick[in_turn ? i % n : draw(n)]);
    }
}

static int take(void *arg, struct lm_ids *ids, struct lm_err *err)
{
    struct lm_ids *all = arg;
    (void)err;
    for (size_t i = 0; i < ids->n; i++) {
        assert_true(all->n < 16 * LONGEST);
        all->id[all->n++] = ids->id[i];
    }
    ids->n = 0;
    return LM_OK;
}

/* The text in parts of at most `most` bytes. */
static void encode_parts(struct lm_encoder *e, const struct lm_buf *text, uint32_t most,
                         unsigned flags, struct lm_ids *all)
{
    struct lm_ids ids = { 0 };
    size_t at = 0;
    all->n = 0;
    for (unsigned on = 0;; on = LM_ENCODE_ON) {
        size_t n = draw(most + 1), left = text->len - at;
        n = n < left ? n : left;
        unsigned more = at + n < text->len || draw(8) ? LM_ENCODE_MORE : 0;
        struct lm_err err;
        if (lm_encoder_text(e, text->data + at, n, flags | on | more, &ids, &err) != LM_OK)
            fail_msg("%s", err.text);
        take(all, &ids, NULL);
        at += n;
        if (!more)
            break;
    }
    lm_ids_release(&ids);
}

static void compare(const char *name, const struct lm_buf *text, const struct lm_ids *want,
                    const struct lm_ids *got)
{
    bool same = want->n == got->n &&
                (!want->n || memcmp(want->id, got->id, want->n * sizeof *want->id) == 0);
    if (same)
        return;
    size_t i = 0;
    struct lm_buf shown = { 0 };
    while (i < want->n && i < got->n && want->id[i] == got->id[i])
        i++;
    lm_buf_escape(&shown, text->data, text->len);
    fail_msg("%s: %zu ids, not %zu; id %zu is %d, not %d, of '%.2000s'", name, got->n, want->n, i,
             i < got->n ? (int)got->id[i] : -1, i < want->n ? (int)want->id[i] : -1, shown.data);
}

/* Random texts, in parts and as a whole. */
static void check(const char *name, const struct lm_vocab *v, int texts)
{
    struct lm_encoder *whole = lm_encoder_new(v, NULL, NULL), *e = lm_encoder_new(v, NULL, NULL);
    struct lm_buf text = { 0 };
    struct lm_ids want = { 0 }, got = { .id = malloc(16 * LONGEST * sizeof *got.id) };
    assert_non_null(whole);
    assert_non_null(e);
    assert_non_null(got.id);
    whole->window = (size_t)1 << 30;
    lm_encoder_to(e, take, &got);
    for (int i = 0; i < texts; i++) {
        struct lm_err err;
        make_text(&text);
        unsigned flags = draw(4);
        e->window = draw(2) ? 1 : 1 + draw(300);
        want.n = 0;
        if (lm_encoder_text(whole, text.data, text.len, flags, &want, &err) != LM_OK)
            fail_msg("%s: %s", name, err.text);
        encode_parts(e, &text, draw(2) ? 20 : 1000, flags, &got);
        compare(name, &text, &want, &got);
    }
    lm_encoder_free(whole);
    lm_encoder_free(e);
    lm_buf_release(&text);
    lm_ids_release(&want);
    lm_ids_release(&got);
}

/* A vocabulary of all bytes in the byte-level alphabet, some merges and special pieces. */
static struct lm_vocab *build(const struct lm_pretok *pre, unsigned flags)
{
    static char alphabet[256][4];
    static const char *const merges[] = { "a a", "aa a", "aa aa", "b a", "aa b", "\xC4\xA0 a",
        "\xC4\xA0 \xC4\xA0", "\xC4\xA0\xC4\xA0 \xC4\xA0\xC4\xA0", "\xC4\x8A \xC4\x8A",
        "\xC3\xA4 \xC2\xB8", "\xC3\xA4\xC2\xB8 \xC4\xB8", "= -", "- =", "! !", "s s", "/ /" };
    static const char *const more[] = { "aa", "aaa", "aaaa", "ba", "aab", "\xC4\xA0" "a",
        "\xC4\xA0\xC4\xA0", "\xC4\xA0\xC4\xA0\xC4\xA0\xC4\xA0", "\xC4\x8A\xC4\x8A",
        "\xC3\xA4\xC2\xB8", "\xC3\xA4\xC2\xB8\xC4\xB8", "=-", "-=", "!!", "ss", "//",
        "<s>", "</s>", "<", "\n\n" };
    struct lm_str tokens[256 + N(more)], joins[N(merges)];
    int32_t types[256 + N(more)];
    uint8_t attr[256 + N(more)] = { 0 };
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool shows = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        unsigned r = shows ? b : next++;
        snprintf(alphabet[b], 4, r < 128 ? "%c" : "%c%c", (int)(r < 128 ? r : 0xC0 | r >> 6),
                 (int)(0x80 | (r & 63)));
        tokens[b] = (struct lm_str){ alphabet[b], strlen(alphabet[b]) };
        types[b] = LM_TOKEN_NORMAL;
    }
    size_t n = 256;
    for (size_t i = 0; i < N(more); i++) {
        bool special = i >= N(merges);
        if (special && strcmp(more[i], "<") == 0)
            continue;                            /* a byte already */
        tokens[n] = (struct lm_str){ more[i], strlen(more[i]) };
        types[n] = special ? LM_TOKEN_CONTROL : LM_TOKEN_NORMAL;
        attr[n++] = special ? (uint8_t)(flags & 15) : 0;
    }
    for (size_t i = 0; i < N(merges); i++)
        joins[i] = (struct lm_str){ merges[i], strlen(merges[i]) };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    src.model = (struct lm_str){ "gpt2", 4 };
    src.tokens = tokens;
    src.n = n;
    src.types = types;
    src.attr = attr;
    src.merges = joins;
    src.n_merges = N(joins);
    src.pretok = pre;
    src.add_bos = src.add_eos = 0;
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_load(&src, NULL, &err);
    if (!v)
        fail_msg("%s: %s", pre->names, err.text);
    return v;
}

static void test_pretoks(void **state)
{
    (void)state;
    for (const struct lm_pretok *t = lm_pretoks; t->names; t++) {
        static const unsigned flags[] = { 0, LM_ATTR_LSTRIP, LM_ATTR_RSTRIP, LM_ATTR_WORD,
                                          LM_ATTR_LSTRIP | LM_ATTR_RSTRIP };
        for (size_t i = 0; i < N(flags); i++) {
            struct lm_vocab *v = build(t, flags[i]);
            check(t->names, v, TEXTS / 5);
            lm_vocab_free(v);
        }
    }
}

static void test_files(void **state)
{
    (void)state;
    static const char *const files[] = {
        DATA "qwen.gguf", DATA "tiny-spm.gguf", KINDS "rwkv.gguf", KINDS "gemma4.gguf",
        KINDS "unigram.gguf", KINDS "unigram.model", KINDS "bpe.model", KINDS "wordpiece.gguf",
        KINDS "vocab.txt", KINDS "plamo2.gguf", KINDS "unigram.json", KINDS "rwkv.txt",
    };
    for (size_t i = 0; i < N(files); i++) {
        struct lm_err err;
        struct lm_vocab *v = lm_vocab_open(files[i], NULL, &err);
        if (!v)
            fail_msg("%s: %s", files[i], err.text);
        check(files[i], v, TEXTS);
        lm_vocab_free(v);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretoks),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
