/* SPDX-License-Identifier: MIT */
/*
 * Vocabularies and text.  The first byte chooses what this is: a GGUF file whose vocabulary is
 * loaded and used on a fixed text; a tokenizer.json, used on the text behind its NUL, if it has
 * one; a pattern and, on the next lines, text that it is matched against; or text for a vocabulary
 * built here, whose pre-tokenizer the byte chooses.  What was encoded must decode to the same
 * bytes there.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz_memory.h"
#include "fuzz_vocab.h"
#include "vocab/regex.h"
#include "vocab/tokenizer.h"
#include "vocab/vocab_rules.h"

static const char text[] = "Ab <s> 12\xC3\xA9\xFF \xE2\x96\x81\n\n'll";

/* So much of a text that the rules cannot make much of it. */
static size_t some(const struct lm_vocab *v, const char *p, size_t len)
{
    size_t n = v->rules ? 0 : len;
    for (double most = 0; n < len; n++)
        if ((most += lm_growth_of(&v->rules->grown, p + n, 1)) > 1 << 16)
            break;
    return n;
}

static void load_json(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, 0, size);
    size_t len = end ? (size_t)(end - data) : size;
    struct lm_vocab *v = lm_vocab_from_json((const char *)data, len, NULL, NULL);
    const char *p = end ? (const char *)end + 1 : text;
    if (v)
        use_vocab(v, p, some(v, p, end ? size - len - 1 : sizeof text), false);
    lm_vocab_free(v);
}

/* PCRE2 finds the same matches, as far as it goes. */
static void match_slowly(const struct lm_regex *r, const char *p, size_t len)
{
    struct lm_regex_scan fast = { 0 }, slow = { .slow = true };
    size_t at, end, slow_at, slow_end;
    int f = 1, s = 1;
    if (lm_regex_start(&fast, r, p, len, NULL) == LM_OK &&
        lm_regex_start(&slow, r, p, len, NULL) == LM_OK)
        while (f == 1 && s == 1) {
            f = lm_regex_next(&fast, &at, &end, NULL);
            s = lm_regex_next(&slow, &slow_at, &slow_end, NULL);
            if (f >= 0 && s >= 0 && (f != s || (f && (at != slow_at || end != slow_end))))
                abort();
        }
    lm_regex_scan_release(&fast);
    lm_regex_scan_release(&slow);
}

/* Matches come in order and lie in the text. */
static void match(const char *data, size_t size)
{
    const char *nl = memchr(data, '\n', size);
    size_t n = nl ? (size_t)(nl - data) : size, at, end, last = 0;
    const char *p = nl ? nl + 1 : text;
    size_t len = nl ? size - n - 1 : sizeof text;
    struct lm_regex *r = lm_regex_new(data, n, NULL);
    struct lm_regex_scan s = { 0 };
    if (r && lm_regex_start(&s, r, p, len, NULL) == LM_OK)
        while (lm_regex_next(&s, &at, &end, NULL) > 0) {
            if (at < last || end < at || end > len)
                abort();
            last = end;
        }
    if (r && lm_regex_walks(r))
        match_slowly(r, p, len);
    lm_regex_scan_release(&s);
    lm_regex_free(r);
}

static void load(const uint8_t *data, size_t size)
{
    struct lm_in *in = input_of(data, size);
    struct lm_gguf *g = lm_gguf_read(in, false, NULL);
    struct lm_vocab *v = g ? lm_vocab_from_gguf(g, NULL, NULL) : NULL;
    if (v)
        use_vocab(v, text, sizeof text, false);
    lm_vocab_free(v);
    lm_gguf_free(g);
    lm_in_close(in);
}

/* All bytes in the byte-level alphabet, a few merges, one special piece. */
static struct lm_vocab *build(const char *pre, size_t pre_len)
{
    static char alphabet[256][4];
    struct lm_str tokens[256 + 4], merges[3] = { { "a a", 3 }, { "aa a", 4 }, { "e n", 3 } };
    int32_t types[256 + 4];
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
        bool shows = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        unsigned r = shows ? b : next++;
        if (r < 128)
            snprintf(alphabet[b], 4, "%c", (int)r);
        else
            snprintf(alphabet[b], 4, "%c%c", (int)(0xC0 | r >> 6), (int)(0x80 | (r & 63)));
        tokens[b] = (struct lm_str){ alphabet[b], strlen(alphabet[b]) };
        types[b] = 1;
    }
    tokens[256] = (struct lm_str){ "aa", 2 };
    tokens[257] = (struct lm_str){ "aaa", 3 };
    tokens[258] = (struct lm_str){ "en", 2 };
    tokens[259] = (struct lm_str){ "<s>", 3 };
    types[256] = types[257] = types[258] = 1;
    types[259] = 3;
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    lm_gguf_set_str(w, "tokenizer.ggml.model", "gpt2", 4);
    lm_gguf_set_str(w, "tokenizer.ggml.pre", pre, pre_len);
    lm_gguf_set_arr(w, "tokenizer.ggml.tokens", LM_GGUF_STR, tokens, 260);
    lm_gguf_set_arr(w, "tokenizer.ggml.token_type", LM_GGUF_I32, types, 260);
    lm_gguf_set_arr(w, "tokenizer.ggml.merges", LM_GGUF_STR, merges, 3);
    lm_gguf_set_bool(w, "tokenizer.ggml.add_bos_token", false);
    char path[] = "/tmp/fuzz_tokenize.XXXXXX";
    close(mkstemp(path));
    struct lm_out *out = lm_out_open(path, NULL);
    if (!out || lm_gguf_write_head(w, out, NULL) != LM_OK || lm_out_commit(out, NULL) != LM_OK)
        abort();
    lm_gguf_writer_free(w);
    struct lm_vocab *v = lm_vocab_open(path, NULL, NULL);
    unlink(path);
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX = 64 };
    static struct lm_vocab *vocab[MAX];
    static struct lm_encoder *encoder[MAX];      /* made when its vocabulary is asked for */
    static size_t n;
    while (lm_pretoks[n].names && n < MAX)
        n++;
    if (size < 1)
        return 0;
    if (data[0] == 'G') {
        load(data, size);
    } else if (data[0] == '{') {
        load_json(data, size);
    } else if (data[0] == '/') {
        match((const char *)data + 1, size - 1);
    } else {
        size_t k = data[0] % n;
        if (!vocab[k]) {
            const struct lm_pretok *t = &lm_pretoks[k];
            vocab[k] = build(t->names, strcspn(t->names, " "));
            encoder[k] = vocab[k] ? lm_encoder_new(vocab[k], NULL, NULL) : NULL;
            if (!encoder[k])
                abort();
            encoder[k]->window = 1;
        }
        use_encoder(encoder[k], vocab[k], (const char *)data + 1, size - 1,
                    !(lm_pretoks[k].flags & LM_PRE_NFC));
    }
    return 0;
}
