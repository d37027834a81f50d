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

#include "base/json.h"
#include "gguf/gguf.h"
#include "io/input.h"
#include "not_here.h"
#include "vocab/tokenizer.h"

#define N(a)  (sizeof(a) / sizeof *(a))
#define DATA  "tests/data/vocab/"
#define KINDS DATA "kinds/"

enum { TEXTS = 100, LONGEST = 6000 };

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
        if (ids->want_spans)
            all->span[all->n] = ids->span[i];
        all->id[all->n++] = ids->id[i];
    }
    ids->n = 0;
    return LM_OK;
}

/* The text in parts of at most `most` bytes. */
static void encode_parts(struct lm_encoder *e, const struct lm_buf *text, uint32_t most,
                         unsigned flags, struct lm_ids *all)
{
    struct lm_ids ids = { .want_spans = all->want_spans };
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
    size_t i = 0;
    struct lm_buf shown = { 0 };
    while (same && got->want_spans && i < got->n && want->span[i].at == got->span[i].at &&
           want->span[i].len == got->span[i].len)
        i++;
    if (same && (!got->want_spans || i == got->n))
        return;
    if (same) {
        lm_buf_escape(&shown, text->data, text->len);
        fail_msg("%s: id %zu of %zu is at %zu, %zu bytes, not at %zu, %zu bytes, of '%.2000s'",
                 name, i, got->n, got->span[i].at, got->span[i].len, want->span[i].at,
                 want->span[i].len, shown.data);
    }
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
    struct lm_ids want = { 0 }, got = { .id = malloc(16 * LONGEST * sizeof *got.id),
                                        .span = malloc(16 * LONGEST * sizeof *got.span) };
    assert_non_null(whole);
    assert_non_null(e);
    assert_non_null(got.id);
    assert_non_null(got.span);
    whole->window = (size_t)1 << 30;
    lm_encoder_to(e, take, &got);
    for (int i = 0; i < texts; i++) {
        struct lm_err err;
        make_text(&text);
        unsigned flags = draw(4);
        e->window = draw(2) ? 1 : 1 + draw(300);
        got.want_spans = want.want_spans = draw(2);
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
            check(t->names, v, TEXTS / 10);
            lm_vocab_free(v);
        }
    }
}

/* All the tokenizers that tests/golden/make-rules made: each kind of each part. */
static void test_rules(void **state)
{
    (void)state;
    char *text;
    size_t len, n = 0;
    struct lm_err err;
    int s = lm_read_file(DATA "rules.jsonl.zst", 1 << 24, &text, &len, &err);
    if (s == LM_ENOSUP)
        NOT_HERE("no zstd in this build");
    if (s != LM_OK)
        fail_msg("%s", err.text);
    for (char *line = text, *end; line < text + len; line = end + 1, n++) {
        struct lm_arena a = { 0 };
        end = memchr(line, '\n', (size_t)(text + len - line));
        const struct lm_jval *j = lm_json_tree(&a, line, (size_t)(end - line), &err);
        const struct lm_jval *t = lm_jval_get(j, "tokenizer");
        const char *name = lm_jval_str(lm_jval_get(j, "name"));
        struct lm_vocab *v = lm_vocab_from_json(t->str, t->len, NULL, &err);
        if (!v)
            fail_msg("%s: %s", name, err.text);
        check(name, v, TEXTS / 5);
        lm_vocab_free(v);
        lm_arena_release(&a);
    }
    assert_true(n > 100);
    free(text);
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

/* ---- the definitions themselves ------------------------------------------------------ */

enum { WORD = 60, MERGED = 500 };

static const char *const ways[] = { "a", "b", "aa", "ab", "ba", "aaa", "abab", "bb", "\xC3\xA9",
                                    "a\xC3\xA9", "\xC3\xA9\xC3\xA9" };

/* Pieces whose costs are small numbers, so that many ways are equal; bytes are 256 less. */
static struct lm_vocab *build_plamo2(int32_t cost[N(ways)])
{
    static char names[256][8];
    struct lm_str tokens[N(ways) + 256];
    int32_t types[N(ways) + 256];
    float scores[N(ways) + 256];
    for (size_t i = 0; i < N(ways); i++) {
        cost[i] = (int32_t)(1 + draw(2)) * (int32_t)(strlen(ways[i]) + draw(2));
        tokens[i] = (struct lm_str){ ways[i], strlen(ways[i]) };
        types[i] = LM_TOKEN_NORMAL;
        scores[i] = -(float)cost[i];
    }
    for (size_t b = 0; b < 256; b++) {
        snprintf(names[b], sizeof names[b], "<0x%02X>", (unsigned)b);
        tokens[N(ways) + b] = (struct lm_str){ names[b], 6 };
        types[N(ways) + b] = LM_TOKEN_BYTE;
        scores[N(ways) + b] = 0;
    }
    struct lm_vocab_src src = LM_VOCAB_SRC;
    src.model = (struct lm_str){ "plamo2", 6 };
    src.tokens = tokens;
    src.types = types;
    src.scores = scores;
    src.n = N(tokens);
    struct lm_err err;
    struct lm_vocab *v = lm_vocab_load(&src, NULL, &err);
    if (!v)
        fail_msg("%s", err.text);
    return v;
}

/* From the end of the text on each character has its cheapest beginning, the longest among
 * equals; as bytes it costs 1000. */
static size_t plamo2_ids(const int32_t cost[N(ways)], const char *p, size_t len, int32_t *to)
{
    int64_t low[WORD + 5] = { 0 };
    int32_t best[WORD + 5];
    bool starts[WORD + 5] = { false };
    int size[WORD + 5], k;
    size_t n = 0;
    for (size_t i = 0; i < len; i += (size_t)k) {
        lm_uni_next(p + i, p + len, &k);
        starts[i] = true;
        size[i] = k;
    }
    starts[len] = true;
    for (size_t i = len; i-- > 0;) {
        if (!starts[i])
            continue;
        low[i] = low[i + (size_t)size[i]] + 1000;
        best[i] = -1;
        size_t most = 0;
        for (size_t w = 0; w < N(ways); w++) {
            size_t l = strlen(ways[w]);
            if (l > len - i || memcmp(p + i, ways[w], l) != 0 || !starts[i + l])
                continue;
            int64_t c = low[i + l] + cost[w];
            if (c < low[i] || (c == low[i] && l > most)) {
                low[i] = c;
                best[i] = (int32_t)w;
                most = l;
            }
        }
    }
    for (size_t i = 0; i < len; i += best[i] < 0 ? (size_t)size[i] : strlen(ways[best[i]])) {
        for (int b = 0; best[i] < 0 && b < size[i]; b++)
            to[n++] = (int32_t)N(ways) + (unsigned char)p[i + (size_t)b];
        if (best[i] >= 0)
            to[n++] = best[i];
    }
    return n;
}

static void test_ties(void **state)
{
    (void)state;
    static const char *const few[] = { "a", "b", "\xC3\xA9", "a", "aa", "c", "\xFF" };
    for (int round = 0; round < 60; round++) {
        int32_t cost[N(ways)], want[2 * WORD];
        struct lm_vocab *v = build_plamo2(cost);
        struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
        struct lm_ids got = { .id = malloc(16 * LONGEST * sizeof *got.id) };
        struct lm_buf text = { 0 };
        assert_non_null(e);
        lm_encoder_to(e, take, &got);
        e->window = 1;
        for (int i = 0; i < 200; i++) {
            uint32_t sorts = 1 + draw(N(few));
            lm_buf_clear(&text);
            lm_buf_add(&text, "", 0);
            for (size_t most = draw(WORD - 2); text.len < most;)
                lm_buf_str(&text, few[draw(sorts)]);
            struct lm_ids ids = { want, plamo2_ids(cost, text.data, text.len, want), 0, false,
                                  NULL, 0 };
            encode_parts(e, &text, 5, 0, &got);
            compare("plamo2", &text, &ids, &got);
        }
        lm_encoder_free(e);
        lm_vocab_free(v);
        lm_buf_release(&text);
        lm_ids_release(&got);
    }
}

/* Merges as they are defined: of all pairs that have one the first of lowest rank is joined. */
static size_t merged(const struct lm_vocab *v, const char *p, size_t len, int32_t *to)
{
    static const char *const joins[][2] = {
        { "a", "a" }, { "aa", "a" }, { "aa", "aa" }, { "b", "a" }, { "aa", "b" },
        { "=", "-" }, { "-", "=" }, { "!", "!" }, { "s", "s" }, { "/", "/" },
    };
    size_t at[MERGED + 2], n = 0;
    for (size_t i = 0; i <= len; i++)
        at[n++] = i;
    for (size_t r = 0; r < N(joins); r++) {
        size_t l = strlen(joins[r][0]), m = strlen(joins[r][1]);
        for (size_t i = 0; i + 2 < n; i++)
            if (at[i + 1] - at[i] == l && at[i + 2] - at[i + 1] == m &&
                memcmp(p + at[i], joins[r][0], l) == 0 &&
                memcmp(p + at[i + 1], joins[r][1], m) == 0) {
                memmove(at + i + 1, at + i + 2, (n - i - 2) * sizeof *at);
                n--;
                r = (size_t)-1;                  /* the lowest rank again */
                break;
            }
    }
    for (size_t i = 0; i + 1 < n; i++)
        to[i] = lm_vocab_find(v, p + at[i], at[i + 1] - at[i]);
    return n - 1;
}

static void test_merges(void **state)
{
    (void)state;
    static const struct lm_pretok one = { "one", 0, { { lm_pre_lines, 0, NULL } } };
    struct lm_vocab *v = build(&one, 0);
    struct lm_encoder *e = lm_encoder_new(v, NULL, NULL);
    struct lm_ids got = { .id = malloc(16 * LONGEST * sizeof *got.id) };
    struct lm_buf text = { 0 };
    assert_non_null(e);
    lm_encoder_to(e, take, &got);
    e->window = 1;
    for (int i = 0; i < 1500; i++) {
        int32_t want[MERGED + 2];
        lm_buf_clear(&text);
        lm_buf_add(&text, "", 0);
        for (size_t most = draw(draw(4) ? WORD : MERGED), sorts = 1 + draw(8); text.len < most;)
            lm_buf_byte(&text, "aab=-!s/"[draw((uint32_t)sorts)]);
        struct lm_ids ids = { want, merged(v, text.data, text.len, want), 0, false, NULL, 0 };
        encode_parts(e, &text, 5, 0, &got);
        compare("merges", &text, &ids, &got);
    }
    lm_encoder_free(e);
    lm_vocab_free(v);
    lm_buf_release(&text);
    lm_ids_release(&got);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pretoks),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
