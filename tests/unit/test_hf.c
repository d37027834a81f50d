/* SPDX-License-Identifier: MIT */
/* What conversion reads besides GGUF: safetensors headers, SentencePiece models, model cards
 * and names, pre-tokenizers, archives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "hf/front_matter.h"
#include "hf/hf_card.h"
#include "hf/hf_vocab.h"
#include "hf/safetensors.h"
#include "io/archive.h"
#include "io/input.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* --- safetensors -------------------------------------------------------------------- */

/* Headers and, for those that are wrong, a part of the message. */
static const struct {
    const char *header;
    uint64_t    data;           /* bytes after the header */
    const char *fault;
} headers[] = {
    { "{}", 0, NULL },
    { "{\"__metadata__\":{\"format\":\"pt\"}}   ", 0, NULL },
    { "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]}}", 12, NULL },
    { "{\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, NULL },
    { "{\"b\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[0,0]},"
      "\"a\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[1],\"more\":[{}]}}", 4, NULL },
    { "", 0, "line 1" },
    { "[]", 0, "is no JSON object" },
    { "{\"a\":[]}", 0, "a: is no object" },
    { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: no dtype" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: data_offsets are not two" },
    { "{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a: dtype \"f32\"" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a: shape: -1" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "a: shape: 1.0" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
      "a: shape has more than 8" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,4]}}", 4,
      "a: shape: 18446744073709551616" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,5]}}", 5,
      "a: data_offsets [0, 5]" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
      "a: data_offsets [4, 0]" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3,
      "a: data ends at byte 4" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5,
      "1 bytes after the last" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
      "a: data begins at byte 4" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}", 6,
      "b: data begins at byte 2" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}x", 4, "line 1, column 55" },
};

static void safetensors_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(headers); i++) {
        struct lm_safetensors st;
        struct lm_arena a = {0};
        struct lm_err err = {0};
        const size_t len = strlen(headers[i].header);
        const int r = lm_safetensors_parse(&st, &a, headers[i].header, len,
                                           8 + len + headers[i].data, &err);
        if (headers[i].fault ? r != LM_EDATA || !strstr(err.text, headers[i].fault) : r != LM_OK)
            fail_msg("%s: %d, %s", headers[i].header, r, err.text);
        lm_arena_release(&a);
    }
}

static void safetensors_tensors(void **state)
{
    (void)state;
    struct lm_safetensors st;
    struct lm_arena a = {0};
    const char *h = headers[4].header;
    assert_int_equal(lm_safetensors_parse(&st, &a, h, strlen(h), 8 + strlen(h) + 4, NULL), LM_OK);
    assert_int_equal(st.n_tensors, 2);
    assert_int_equal(st.data_offset, 8 + strlen(h));
    assert_string_equal(st.tensors[0].name, "a");
    assert_int_equal(st.tensors[0].bytes, 4);
    assert_string_equal(st.tensors[1].dtype->name, "F32");
    assert_int_equal(st.tensors[1].n_dims, 2);
    assert_int_equal(st.tensors[1].shape[1], 9);
    lm_arena_release(&a);
}

static void safetensors_lengths(void **state)
{
    (void)state;
    uint64_t n = 0;
    const uint8_t small[8] = { 4, 1 }, large[8] = { 0, 0, 0, 0, 0, 0, 0, 128 };
    assert_int_equal(lm_safetensors_length(small, 268, &n, NULL), LM_OK);
    assert_int_equal(n, 260);
    assert_int_equal(lm_safetensors_length(small, 267, &n, NULL), LM_EDATA);
    assert_int_equal(lm_safetensors_length(small, LM_SIZE_UNKNOWN, &n, NULL), LM_OK);
    assert_int_equal(lm_safetensors_length(large, LM_SIZE_UNKNOWN, &n, NULL), LM_EDATA);
}

/* Empty tensors are many in a small header: as many as the limit are read, more are not. */
static void safetensors_many(void **state)
{
    (void)state;
    for (int n = LM_ST_MAX_TENSORS; n <= LM_ST_MAX_TENSORS + 1; n++) {
        struct lm_buf b = {0};
        struct lm_arena a = {0};
        struct lm_safetensors st;
        for (int i = 0; i < n; i++)
            lm_buf_printf(&b, "%c\"%d\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}",
                          i ? ',' : '{', i);
        lm_buf_byte(&b, '}');
        assert_int_equal(lm_safetensors_parse(&st, &a, b.data, b.len, 8 + b.len, NULL),
                         n == LM_ST_MAX_TENSORS ? LM_OK : LM_ENOSUP);
        lm_arena_release(&a);
        lm_buf_release(&b);
    }
}

/* --- SentencePiece ------------------------------------------------------------------ */

/* Pieces "<unk>" (type 2), "\xe2\x96\x81" "a" score -1.5, byte piece; a BPE trainer that made
 * three; no blank in front; a field that is not known. */
static const char spm[] =
    "\x0a\x0e\x0a\x05<unk>\x15\x00\x00\x00\x00\x18\x02"
    "\x0a\x0b\x0a\x04\xe2\x96\x81" "a\x15\x00\x00\xc0\xbf"
    "\x0a\x0a\x0a\x06<0x0A>\x18\x06"
    "\x12\x04\x18\x02\x20\x03"
    "\x1a\x02\x18\x00"
    "\x2a\x01x";

static void spm_pieces(void **state)
{
    (void)state;
    struct lm_spm_model m;
    assert_int_equal(lm_spm_model_parse(&m, spm, sizeof spm - 1, NULL), LM_OK);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.kind, 2);
    assert_false(m.add_prefix);
    assert_int_equal(m.pieces[0].type, LM_PIECE_UNKNOWN);
    assert_int_equal(m.pieces[1].len, 4);
    assert_memory_equal(m.pieces[1].text, "\xe2\x96\x81" "a", 4);
    assert_true(m.pieces[1].score == -1.5f);
    assert_int_equal(m.pieces[1].type, LM_PIECE_NORMAL);
    assert_int_equal(m.pieces[2].type, LM_PIECE_BYTE);
    lm_spm_model_release(&m);
}

/* A model cut anywhere up to the trainer's part, or within a field, is told from a whole one. */
static void spm_cut(void **state)
{
    (void)state;
    static const size_t whole[] = { 47, 51, 54 };
    for (size_t n = 0; n < sizeof spm; n++) {
        struct lm_spm_model m;
        bool want = false;
        for (size_t i = 0; i < COUNT(whole); i++)
            want = want || n == whole[i];
        assert_int_equal(lm_spm_model_parse(&m, spm, n, NULL), want ? LM_OK : LM_EDATA);
        lm_spm_model_release(&m);
    }
}

/* Pieces that were added to those of the trainer are fine, pieces that lack are not. */
static void spm_numbers(void **state)
{
    (void)state;
    for (char made = 2; made <= 4; made++) {
        struct lm_spm_model m;
        char text[sizeof spm];
        memcpy(text, spm, sizeof spm);
        text[46] = made;
        assert_int_equal(lm_spm_model_parse(&m, text, sizeof spm - 1, NULL),
                         made <= 3 ? LM_OK : LM_EDATA);
        lm_spm_model_release(&m);
    }
}

/* --- names -------------------------------------------------------------------------- */

/* Made with gguf-py 0.19.0, Metadata.get_model_id_components and id_to_title. */
static const struct {
    const char *id;
    uint64_t    n_weights;
    const char *full, *organization, *basename, *finetune, *version, *size_label;
} names[] = {
    { "Llama-3.2-1B-Instruct", 1235814432ull,
      "Llama-3.2-1B-Instruct", NULL, "Llama-3.2", "Instruct", NULL, "1B" },
    { "Mistral-7B-Instruct-v0.2", 7241732096ull,
      "Mistral-7B-Instruct-v0.2", NULL, "Mistral", "Instruct", "v0.2", "7B" },
    { "smollm2-hf", 134515008ull,
      "smollm2-hf", NULL, NULL, NULL, NULL, NULL },
    { "llama_tied", 291000ull,
      "llama_tied", NULL, NULL, NULL, NULL, NULL },
    { "SmolLM2-135M-Instruct", 134515008ull,
      "SmolLM2-135M-Instruct", NULL, "SmolLM2", "Instruct", NULL, "135M" },
    { "meta-llama/Llama-2-7b-hf", 6738415616ull,
      "Llama-2-7b-hf", "meta-llama", "Llama-2", "hf", NULL, "7B" },
    { "Mixtral-8x7B-v0.1", 46702792704ull,
      "Mixtral-8x7B-v0.1", NULL, "Mixtral", NULL, "v0.1", "8x7B" },
    { "bloom-7b1", 7069016064ull,
      "bloom-7b1", NULL, "bloom", NULL, NULL, "7.1B" },
    { "Phi-3-mini-4k-instruct", 3821079552ull,
      "Phi-3-mini-4k-instruct", NULL, "Phi-3", "4k-instruct", NULL, "mini" },
    { "TinyLlama-1.1B-Chat-v1.0", 1100048384ull,
      "TinyLlama-1.1B-Chat-v1.0", NULL, "TinyLlama", "Chat", "v1.0", "1.1B" },
    { "gpt2-xl", 1500000000ull,
      "gpt2-xl", NULL, "gpt2", NULL, NULL, "xl" },
    { "Qwen2.5-0.5B", 494000000ull,
      "Qwen2.5-0.5B", NULL, "Qwen2.5", NULL, NULL, "0.5B" },
    { "Yi-34B-200K", 34000000000ull,
      "Yi-34B-200K", NULL, "Yi", "200k", NULL, "34B" },
    { "model-Q4_K_M", 0ull,
      "model-Q4_K_M", NULL, NULL, NULL, NULL, NULL },
    { "v2", 0ull,
      "v2", NULL, NULL, NULL, "v2", NULL },
    { "Llama-3-8B-Instruct-262k", 8030000000ull,
      "Llama-3-8B-Instruct-262k", NULL, "Llama-3", "Instruct-262k", NULL, "8B" },
    { "A sentence here", 0ull,
      "A sentence here", NULL, NULL, NULL, NULL, NULL },
    { "./x", 0ull,
      "x", NULL, NULL, NULL, NULL, NULL },
    { "codellama-13b-7b-f16", 13000000000ull,
      "codellama-13b-7b-f16", NULL, "codellama", NULL, NULL, "13B-7B" },
    { "Nous-Hermes-2-iter3-7B-7B-lora", 7000000000ull,
      "Nous-Hermes-2-iter3-7B-7B-lora", NULL, "Nous-Hermes-2-iter3", "lora", NULL, "7B" },
    { "small-model-3B", 3000000000ull,
      "small-model-3B", NULL, "small-model", NULL, NULL, "3B" },
    { "Meta-Llama-3.1-405B", 405000000000ull,
      "Meta-Llama-3.1-405B", NULL, "Meta-Llama-3.1", NULL, NULL, "405B" },
    { "qwen1_5-0_5b-chat", 500000000ull,
      "qwen1_5-0_5b-chat", NULL, "qwen1_5", "chat", NULL, "0.5B" },
    { "OLMoE-1B-7B-0924", 6900000000ull,
      "OLMoE-1B-7B-0924", NULL, "OLMoE", NULL, "0924", "1B-7B" },
    { "a--b-", 0ull,
      "a--b-", NULL, NULL, NULL, NULL, NULL },
    { "x-medium-chat", 0ull,
      "x-medium-chat", NULL, "x", "chat", NULL, "medium" },
};

static const struct { const char *name, *title; } titles[] = {
    { "smollm2-hf", "Smollm2 Hf" },
    { "llama_tied", "Llama_Tied" },
    { "Llama-3.2-1B-Instruct", "Llama 3.2 1B Instruct" },
    { "v2-model", "v2 Model" },
    { "v2x-model", "V2X Model" },
    { "7b-chat", "7b Chat" },
    { "deep seek-LLM", "Deep Seek LLM" },
    { "naïve-model", "Naïve Model" },
    { "a1b", "A1B" },
    { "v", "V" },
    { "x.y-z", "X.Y Z" },
    { "ABC-def", "ABC Def" },
};

static void same(const char *id, const char *what, const char *got, const char *want)
{
    if (got && want ? strcmp(got, want) != 0 : got != want)
        fail_msg("%s: %s is %s, should be %s", id, what, got ? got : "none", want ? want : "none");
}

static void model_names(void **state)
{
    (void)state;
    struct lm_arena a = {0};
    for (size_t i = 0; i < COUNT(names); i++) {
        struct lm_hf_name n;
        const char *id = names[i].id;
        assert_int_equal(lm_hf_name_parse(&n, &a, id, names[i].n_weights, NULL), LM_OK);
        same(id, "full name", n.full, names[i].full);
        same(id, "organization", n.organization, names[i].organization);
        same(id, "basename", n.basename, names[i].basename);
        same(id, "finetune", n.finetune, names[i].finetune);
        same(id, "version", n.version, names[i].version);
        same(id, "size label", n.size_label, names[i].size_label);
    }
    for (size_t i = 0; i < COUNT(titles); i++)
        same(titles[i].name, "title", lm_hf_name_title(&a, titles[i].name), titles[i].title);
    lm_arena_release(&a);
}

/* --- front matter ------------------------------------------------------------------- */

static const char card[] =
    "---\r\n"
    "license: apache-2.0   # a comment\n"
    "name: \"Quoted \\\"name\\\"\"\n"
    "author: 'it''s'\n"
    "description: >\n  folded over\n  two lines\n"
    "empty:\nnone: null\ntilde: ~\n"
    "tags:\n- one\n- \"two: three\"\n- 'four'\n"
    "language: [en, \"fr, ch\", 'de']\n"
    "widget:\n- text: nested\n  more: yes\n"
    "base_model:\n  - a/b\n  - c/d\n"
    "url: https://example.org/x#y\n"
    "---\n"
    "body: no\n";

/* What YAML makes of it (PyYAML 6.0), where it is text or a list of texts. */
static const struct {
    const char *key, *values[4];
} members[] = {
    { "license", { "apache-2.0" } }, { "name", { "Quoted \"name\"" } }, { "author", { "it's" } },
    { "description", { "folded over two lines\n" } }, { "empty", { NULL } }, { "none", { NULL } },
    { "tilde", { NULL } }, { "tags", { "one", "two: three", "four" } },
    { "language", { "en", "fr, ch", "de" } }, { "widget", { NULL } },
    { "base_model", { "a/b", "c/d" } }, { "url", { "https://example.org/x#y" } },
    { "body", { NULL } },
};

static void front_matter(void **state)
{
    (void)state;
    struct lm_arena a = {0};
    struct lm_yaml y;
    assert_int_equal(lm_front_matter(&y, &a, card, sizeof card - 1, NULL), LM_OK);
    for (size_t i = 0; i < COUNT(members); i++) {
        const struct lm_yaml_item *it = lm_yaml_get(&y, members[i].key);
        for (size_t k = 0; k < 4; k++)
            same(members[i].key, "value", it && k < it->n ? it->values[k].p : NULL,
                 members[i].values[k]);
    }
    assert_int_equal(lm_front_matter(&y, &a, "# Title\n", 8, NULL), LM_OK);
    assert_int_equal(y.n, 0);
    lm_arena_release(&a);
}

/* --- pre-tokenizers ----------------------------------------------------------------- */

#define SPLIT(regex, behavior, invert) \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"" behavior "\"," \
    "\"invert\":" invert "}"
#define BYTES "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define WORDS "{\"type\":\"ByteLevel\",\"use_regex\":true}"
#define DIGITS "{\"type\":\"Digits\",\"individual_digits\":true}"
#define SEQUENCE(...) "{\"type\":\"Sequence\",\"pretokenizers\":[" __VA_ARGS__ "]}"
#define LLAMA3(digits) \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|" digits "|" \
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

static const struct {
    const char *json;
    bool        ignore_merges;
    const char *name;
} pretoks[] = {
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}{1,3}"), "Isolated", "false") "," BYTES), true, "llama-bpe" },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}{1,3}"), "Removed", "true") "," BYTES), true, "llama-bpe" },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}{1,3}"), "Isolated", "false") "," BYTES), false, "smaug-bpe" },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}"), "Isolated", "false") "," BYTES), false, "qwen2" },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}"), "Removed", "false") "," BYTES), false, NULL },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}{1,4}"), "Isolated", "false") "," BYTES), false, NULL },
    { SEQUENCE(SPLIT(LLAMA3("\\\\p{N}"), "Isolated", "false")), false, NULL },
    { SEQUENCE(DIGITS "," WORDS), false, "smollm" },
    { WORDS, false, "gpt-2" },
    { SEQUENCE(WORDS), false, "gpt-2" },
    { "{\"type\":\"Whitespace\"}", false, NULL },
    { "null", false, NULL },
};

static void pretok_names(void **state)
{
    (void)state;
    struct lm_arena a = {0};
    for (size_t i = 0; i < COUNT(pretoks); i++) {
        const struct lm_jval *v = lm_json_tree(&a, pretoks[i].json, strlen(pretoks[i].json), NULL);
        assert_non_null(v);
        same(pretoks[i].json, "name", lm_hf_pretok_name(v, pretoks[i].ignore_merges),
             pretoks[i].name);
    }
    lm_arena_release(&a);
}

/* --- archives ----------------------------------------------------------------------- */

/* A tar member: its header, and its data, padded.  wide: the size as GNU tar writes large ones,
 * in binary. */
static void tar_member(struct lm_buf *b, const char *name, char type, bool wide, const char *data,
                       size_t n)
{
    char h[512] = "";
    unsigned sum = 0;
    strcpy(h, name);
    if (wide) {
        h[124] = (char)0x80;
        h[135] = (char)n;
    } else
        snprintf(h + 124, 12, "%011zo", n);
    h[156] = type;
    memcpy(h + 257, "ustar\0" "00", 8);
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < sizeof h; i++)
        sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    lm_buf_add(b, h, sizeof h);
    lm_buf_add(b, data, n);
    for (; n % 512; n++)
        lm_buf_byte(b, 0);
}

/* The bytes as an archive; NULL with the message in *err. */
static struct lm_archive *archive_of(const char *data, size_t n, struct lm_err *err)
{
    char path[] = "/tmp/test_hf.XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
    struct lm_archive *a = lm_archive_open(path, err);
    unlink(path);
    return a;
}

static void make_tar(struct lm_buf *b, const char *longname, size_t len)
{
    static const char end[1024];
    tar_member(b, "./plain", '0', false, "abc", 3);
    tar_member(b, "././@LongLink", 'L', false, longname, len + 1);
    tar_member(b, "nnn", '0', false, "x", 1);
    tar_member(b, "pax", 'x', false, "12 path=p/q\n9 size=2\n", 21);
    tar_member(b, "short", '0', false, "h", 1);
    tar_member(b, "link", '2', false, "", 0);
    tar_member(b, "dir/", '5', false, "", 0);
    tar_member(b, "wide", '0', true, "ok", 2);
    lm_buf_add(b, end, sizeof end);
}

static void tar_index(void **state)
{
    (void)state;
    char longname[301], got[4];
    struct lm_buf b = {0};
    size_t n;
    memset(longname, 'n', 300);
    longname[300] = 0;
    const struct { const char *name; uint64_t size; const char *data; } want[] = {
        { "plain", 3, "abc" }, { longname, 1, "x" }, { "p/q", 2, "h" }, { "link", 0, "" },
        { "wide", 2, "ok" },
    };
    make_tar(&b, longname, 300);
    struct lm_archive *a = archive_of(b.data, b.len, NULL);
    assert_non_null(a);
    assert_true(lm_archive_by_range(a));
    const struct lm_member *m = lm_archive_members(a, &n);
    assert_int_equal(n, COUNT(want));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(m[i].name, want[i].name);
        assert_int_equal(m[i].size, want[i].size);
        assert_int_equal(m[i].link, want[i].size == 0);
        assert_int_equal(lm_archive_pread(a, &m[i], 0, got, (size_t)m[i].size, NULL), LM_OK);
        assert_memory_equal(got, want[i].data, want[i].size);
    }
    lm_archive_close(a);
    lm_buf_release(&b);
}

/* A tar cut anywhere is no whole archive: either an error, or left to libarchive (which tells
 * as members are read), but never a shorter list. */
static void tar_cut(void **state)
{
    (void)state;
    struct lm_buf b = {0};
    make_tar(&b, "n", 1);
    for (size_t n = 512; n + 1024 < b.len; n += 100) {
        struct lm_err err = {0};
        struct lm_archive *a = archive_of(b.data, n, &err);
        assert_null(a);
        assert_int_equal(err.code, LM_EDATA);
    }
    b.data[512 + 512 + 3]++;                         /* in the second header: its checksum */
    struct lm_err err = {0};
    assert_null(archive_of(b.data, b.len, &err));
    assert_string_equal(err.text, "byte 1024: no tar header");
    lm_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_headers), cmocka_unit_test(safetensors_tensors),
        cmocka_unit_test(safetensors_lengths), cmocka_unit_test(spm_pieces),
        cmocka_unit_test(spm_cut), cmocka_unit_test(spm_numbers),
        cmocka_unit_test(safetensors_many), cmocka_unit_test(model_names),
        cmocka_unit_test(front_matter), cmocka_unit_test(pretok_names),
        cmocka_unit_test(tar_index), cmocka_unit_test(tar_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
