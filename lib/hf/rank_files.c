/* SPDX-License-Identifier: MIT */
/* Vocabularies that are lists of byte strings (rank_files.h), and what is known of them. */

#include "hf/rank_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "hf/byte_rune.h"
#include "hf/hf_vocab.h"

enum { MAX_IDS = 1 << 22 };

struct special {
    uint32_t    id;
    const char *text;
};

enum { MAX_NAMED = 8 };

/* What is known of the files of a size. */
static const struct family {
    const char    *name;
    uint32_t       n_ranks;
    const char    *pre;
    bool           nfc;
    const char    *bos, *eos, *unk;      /* where nothing else tells                  */
    struct special special[MAX_NAMED];   /* ends with a NULL text                     */
    const char    *more;                 /* n_more like "MORE7|>", from more_id on    */
    uint32_t       more_id, more_from, n_more;
} families[] = {
    { .name = "r50k_base", .n_ranks = 50256, .pre = "gpt-2", .eos = "<|endoftext|>",
      .special = { { 50256, "<|endoftext|>" } } },
    { .name = "p50k_base", .n_ranks = 50280, .pre = "gpt-2", .eos = "<|endoftext|>",
      .special = { { 50256, "<|endoftext|>" } } },
    { .name = "cl100k_base", .n_ranks = 100256, .pre = "llama-bpe", .eos = "<|endoftext|>",
      .special = { { 100257, "<|endoftext|>" }, { 100258, "<|fim_prefix|>" },
                   { 100259, "<|fim_middle|>" }, { 100260, "<|fim_suffix|>" },
                   { 100276, "<|endofprompt|>" } } },
    { .name = "o200k_base", .n_ranks = 199998, .pre = "gpt-4o", .eos = "<|endoftext|>",
      .special = { { 199999, "<|endoftext|>" }, { 200018, "<|endofprompt|>" } } },
    { .name = "Llama 3", .n_ranks = 128000, .pre = "llama-bpe",
      .bos = "<|begin_of_text|>", .eos = "<|end_of_text|>",
      .special = { { 128000, "<|begin_of_text|>" }, { 128001, "<|end_of_text|>" },
                   { 128006, "<|start_header_id|>" }, { 128007, "<|end_header_id|>" },
                   { 128008, "<|eom_id|>" }, { 128009, "<|eot_id|>" },
                   { 128010, "<|python_tag|>" } } },
    { .name = "Qwen", .n_ranks = 151643, .pre = "qwen2", .nfc = true,
      .bos = "<|endoftext|>", .eos = "<|endoftext|>", .unk = "<|endoftext|>",
      .special = { { 151643, "<|endoftext|>" }, { 151644, "<|im_start|>" },
                   { 151645, "<|im_end|>" } },
      .more = "<|extra_", .more_id = 151646, .n_more = 205 },
    { .name = "Kimi", .n_ranks = 163584, .pre = "kimi-k2", .more = "<|reserved_token_",
      .more_id = 163584, .more_from = 163584, .n_more = 256 },
};

void lm_rank_release(struct lm_rank_file *l)
{
    lm_arena_release(&l->arena);
    lm_buf_release(&l->bytes);
    lm_buf_release(&l->runes);
    free(l->text);
    free(l->type);
    *l = (struct lm_rank_file){0};
}

/* Piece `id`; ids between are unused until they come. */
static int put(struct lm_rank_file *l, uint64_t id, struct lm_str text, int type,
               struct lm_err *err)
{
    if (id >= MAX_IDS)
        return lm_fail(err, LM_EDATA, "id %llu is out of range: 0 to %d", (unsigned long long)id,
                       MAX_IDS - 1);
    if (id >= l->n) {
        if (!lm_grow(&l->text, &l->text_cap, id + 1, sizeof *l->text) ||
            !lm_grow(&l->type, &l->type_cap, id + 1, sizeof *l->type))
            return lm_fail_nomem(err);
        for (; l->n <= id; l->n++) {
            l->text[l->n] = (struct lm_str){ "", 0 };
            l->type[l->n] = LM_PIECE_UNUSED;
        }
    }
    if (l->type[id] != LM_PIECE_UNUSED)
        return lm_fail(err, LM_EDATA, "id %llu is there twice", (unsigned long long)id);
    text.p = lm_arena_copy(&l->arena, text.p, text.len);
    if (!text.p)
        return lm_fail_nomem(err);
    l->text[id] = text;
    l->type[id] = type;
    return LM_OK;
}

/* Bytes in the alphabet of byte-level BPE. */
static int put_bytes(struct lm_rank_file *l, uint64_t id, const char *p, size_t len,
                     struct lm_err *err)
{
    lm_buf_clear(&l->runes);
    lm_buf_add(&l->runes, "", 0);
    for (size_t i = 0; i < len; i++)
        lm_buf_rune(&l->runes, lm_byte_rune((unsigned char)p[i]));
    if (l->runes.failed)
        return lm_fail_nomem(err);
    l->n_ranks++;
    return put(l, id, (struct lm_str){ l->runes.data, l->runes.len }, LM_PIECE_NORMAL, err);
}

/* The next line of a text, without its end; false after the last. */
static bool next_line(const char **p, const char *end, struct lm_str *line)
{
    if (*p >= end)
        return false;
    const char *nl = memchr(*p, '\n', (size_t)(end - *p));
    line->p = *p;
    line->len = (size_t)((nl ? nl : end) - *p);
    *p = nl ? nl + 1 : end;
    if (line->len && line->p[line->len - 1] == '\r')
        line->len--;
    return true;
}

/* Decimal digits up to `end` or a blank; false when there are none, or too many. */
static bool number(const char **p, const char *end, uint64_t *out)
{
    const char *begin = *p;
    *out = 0;
    for (; *p < end && **p >= '0' && **p <= '9' && *p - begin < 10; ++*p)
        *out = *out * 10 + (uint64_t)(**p - '0');
    return *p > begin && (*p == end || **p == ' ');
}

/* ---- tiktoken ---------------------------------------------------------------- */

static bool is_base64(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           c == '+' || c == '/' || c == '=';
}

bool lm_looks_like_ranks(const unsigned char *head, size_t len)
{
    const char *p = (const char *)head, *end = p + len;
    uint64_t rank;
    while (p < end && is_base64(*p))
        p++;
    if (p == (const char *)head || (size_t)(p - (const char *)head) % 4 || p == end || *p != ' ')
        return false;
    p++;
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > digits && p < end && (*p == '\n' || *p == '\r') && number(&digits, p, &rank);
}

static int read_ranks(struct lm_rank_file *l, const char *p, const char *end, struct lm_err *err)
{
    struct lm_str line;
    for (size_t n = 1; next_line(&p, end, &line); n++) {
        uint64_t rank;
        const char *limit = line.p + line.len;
        const char *blank = line.len ? memchr(line.p, ' ', line.len) : NULL;
        const char *q = blank ? blank + 1 : limit;
        if (!line.len)
            continue;
        lm_buf_clear(&l->bytes);
        if (!blank || !number(&q, limit, &rank) || q != limit ||
            !lm_buf_base64(&l->bytes, line.p, (size_t)(blank - line.p)))
            return lm_fail(err, LM_EDATA, "line %zu is not a piece in base64 and its rank, as "
                           "tiktoken has them", n);
        int s = l->bytes.failed ? lm_fail_nomem(err)
                                : put_bytes(l, rank, l->bytes.data, l->bytes.len, err);
        if (s != LM_OK)
            return lm_err_at(err, s, "line %zu", n);
    }
    return LM_OK;
}

/* The control tokens of a family: those with names, and a run of numbered ones, of which some
 * may have names. */
static int put_specials(struct lm_rank_file *l, const struct family *f, struct lm_err *err)
{
    char name[40];
    int s = LM_OK;
    for (size_t i = 0; s == LM_OK && i < MAX_NAMED && f->special[i].text; i++)
        s = put(l, f->special[i].id,
                (struct lm_str){ f->special[i].text, strlen(f->special[i].text) },
                LM_PIECE_CONTROL, err);
    for (uint32_t i = 0; s == LM_OK && i < f->n_more; i++) {
        const int n = snprintf(name, sizeof name, "%s%u|>", f->more, f->more_from + i);
        s = put(l, f->more_id + i, (struct lm_str){ name, (size_t)n }, LM_PIECE_CONTROL, err);
    }
    return s;
}

static int32_t find_special(const struct lm_rank_file *l, const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    for (size_t i = 0; text && i < l->n; i++)
        if (l->type[i] == LM_PIECE_CONTROL && l->text[i].len == n &&
            !memcmp(l->text[i].p, text, n))
            return (int32_t)i;
    return -1;
}

int lm_rank_tiktoken(struct lm_rank_file *l, const char *data, size_t len, struct lm_err *err)
{
    const struct family *f = NULL;
    int s = read_ranks(l, data, data + len, err);
    if (s == LM_OK && !l->n_ranks)
        s = lm_fail(err, LM_EDATA, "has no ranks");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].n_ranks == l->n_ranks)
            f = &families[i];
    if (s == LM_OK && f)
        s = put_specials(l, f, err);
    l->model = "gpt2";
    l->pre = f ? f->pre : NULL;
    l->nfc = f && f->nfc;
    l->whole = true;
    l->bos = f ? find_special(l, f->bos) : -1;
    l->eos = f ? find_special(l, f->eos) : -1;
    l->unk = f ? find_special(l, f->unk) : -1;
    l->pad = l->eot = -1;
    return s;
}

/* ---- tekken.json ------------------------------------------------------------- */

/* One of vocab: {"rank": n, "token_bytes": base64, "token_str": text}. */
static int read_piece(struct lm_rank_file *l, const struct lm_jval *x, uint64_t n_special,
                      uint64_t size, struct lm_err *err)
{
    const struct lm_jval *bytes = lm_jval_get(x, "token_bytes");
    int64_t rank = -1;
    lm_buf_clear(&l->bytes);
    if (!lm_jval_i64(lm_jval_get(x, "rank"), &rank) || rank < 0 || !lm_jval_str(bytes) ||
        !lm_buf_base64(&l->bytes, bytes->str, bytes->len))
        return lm_fail(err, LM_EDATA, "no rank or no token_bytes in base64");
    if (l->bytes.failed)
        return lm_fail_nomem(err);
    if ((uint64_t)rank >= size)                      /* cut off */
        return LM_OK;
    return put_bytes(l, (uint64_t)rank + n_special, l->bytes.data, l->bytes.len, err);
}

static int read_special(struct lm_rank_file *l, const struct lm_jval *list, uint64_t n_special,
                        struct lm_err *err)
{
    /* those of the files that have no list */
    static const char *const first[] = {
        "<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
        "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
        "[TOOL_CONTENT]",
    };
    char name[32];
    int s = LM_OK;
    size_t at = 0;
    for (const struct lm_jval *x = list ? list->first : NULL; x && s == LM_OK; x = x->next, at++) {
        const struct lm_jval *text = lm_jval_get(x, "token_str");
        int64_t rank = -1;
        bool control = true;
        lm_jval_bool(lm_jval_get(x, "is_control"), &control);
        if (!lm_jval_i64(lm_jval_get(x, "rank"), &rank) || rank < 0 ||
            (uint64_t)rank >= n_special || !lm_jval_str(text))
            return lm_fail(err, LM_EDATA, "special_tokens[%zu]: no rank below %llu or no "
                           "token_str", at, (unsigned long long)n_special);
        s = put(l, (uint64_t)rank, (struct lm_str){ text->str, text->len },
                control ? LM_PIECE_CONTROL : LM_PIECE_USER, err);
    }
    for (uint64_t i = 0; i < n_special && s == LM_OK; i++) {
        if (i < l->n && l->type[i] != LM_PIECE_UNUSED)
            continue;
        bool named = !list && i < sizeof first / sizeof *first;
        snprintf(name, sizeof name, "<SPECIAL_%u>", (unsigned)i);
        const char *text = named ? first[i] : name;
        s = put(l, i, (struct lm_str){ text, strlen(text) }, LM_PIECE_CONTROL, err);
    }
    return s;
}

/* How words are cut, if the file says so. */
static int read_pattern(struct lm_rank_file *l, const struct lm_jval *pattern, struct lm_err *err)
{
    const char *text = lm_jval_str(pattern);
    l->pre = "tekken";
    if (!pattern || pattern->kind == LM_JSON_NULL)
        return LM_OK;
    if (!text)
        return lm_fail(err, LM_EDATA, "config: pattern is no text");
    l->pre = lm_hf_pattern_name(text);
    return l->pre ? LM_OK : lm_fail(err, LM_ENOSUP, "config: pattern '%.60s%s' is not supported",
                                    text, strlen(text) > 60 ? "..." : "");
}

static int read_tekken(struct lm_rank_file *l, const struct lm_jval *root, struct lm_err *err)
{
    const struct lm_jval *config = lm_jval_get(root, "config"), *vocab = lm_jval_get(root, "vocab");
    const struct lm_jval *special = lm_jval_get(root, "special_tokens");
    int64_t size = 0, n_special = 0;
    if (special && special->kind == LM_JSON_NULL)
        special = NULL;
    if (!vocab || vocab->kind != LM_JSON_ARRAY)
        return lm_fail(err, LM_EDATA, "has no list called vocab");
    if (special && special->kind != LM_JSON_ARRAY)
        return lm_fail(err, LM_EDATA, "special_tokens is no list");
    if (!lm_jval_i64(lm_jval_get(config, "default_vocab_size"), &size) || size > MAX_IDS ||
        !lm_jval_i64(lm_jval_get(config, "default_num_special_tokens"), &n_special) ||
        n_special < 0 || size <= n_special)
        return lm_fail(err, LM_EDATA, "config has no good default_vocab_size and "
                       "default_num_special_tokens");
    int s = read_pattern(l, lm_jval_get(config, "pattern"), err);
    if (s == LM_OK)
        s = read_special(l, special, (uint64_t)n_special, err);
    size_t i = 0;
    for (const struct lm_jval *x = vocab->first; x && s == LM_OK; x = x->next, i++)
        if ((s = read_piece(l, x, (uint64_t)n_special, (uint64_t)(size - n_special), err)))
            lm_err_at(err, s, "vocab[%zu]", i);
    return s;
}

int lm_rank_tekken(struct lm_rank_file *l, const char *data, size_t len, struct lm_err *err)
{
    struct lm_arena arena = { 0 };
    const struct lm_jval *root = lm_json_tree(&arena, data, len, err);
    const int s = root ? read_tekken(l, root, err) : err ? (int)err->code : LM_EDATA;
    l->model = "gpt2";
    l->unk = find_special(l, "<unk>");
    l->bos = find_special(l, "<s>");
    l->eos = find_special(l, "</s>");
    l->pad = find_special(l, "<pad>");
    l->eot = -1;
    l->add_bos = l->bos >= 0;
    lm_arena_release(&arena);
    return s;
}

/* ---- RWKV -------------------------------------------------------------------- */

/* The number that the n hexadecimal digits at p are; false when they are none. */
static bool hex(const char *p, const char *end, int n, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        int d = p + i >= end                     ? -1
                : p[i] >= '0' && p[i] <= '9'     ? p[i] - '0'
                : p[i] >= 'a' && p[i] <= 'f'     ? p[i] - 'a' + 10
                : p[i] >= 'A' && p[i] <= 'F'     ? p[i] - 'A' + 10
                                                 : -1;
        if (d < 0)
            return false;
        *out = *out << 4 | (uint32_t)d;
    }
    return true;
}

/* One escape behind a backslash at p; how many characters it is, 0: none. */
static int escape(const char *p, const char *end, bool bytes, struct lm_buf *out)
{
    static const char plain[] = "\\'\"abfnrtv", is[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = p < end && *p ? strchr(plain, *p) : NULL;
    uint32_t r;
    if (p >= end)
        return 0;
    if (at) {
        lm_buf_byte(out, is[at - plain]);
        return 1;
    }
    int n = *p == 'x' ? 2 : *p == 'u' && !bytes ? 4 : *p == 'U' && !bytes ? 8 : 0;
    if (!n || !hex(p + 1, end, n, &r) || r > 0x10FFFF)
        return 0;
    if (bytes)
        lm_buf_byte(out, (int)r);
    else
        lm_buf_rune(out, r);
    return n + 1;
}

/* A string or bytes as Python writes them; false when it is none. */
static bool literal(const char **at, const char *end, struct lm_buf *out)
{
    const char *p = *at;
    bool bytes = p < end && *p == 'b';
    p += bytes;
    if (p >= end || (*p != '\'' && *p != '"'))
        return false;
    char quote = *p++;
    while (p < end && *p != quote) {
        if (*p != '\\') {
            lm_buf_byte(out, *p++);
            continue;
        }
        int n = escape(p + 1, end, bytes, out);
        if (!n)
            return false;
        p += n + 1;
    }
    *at = p + 1;
    return p < end;
}

/* ID LITERAL LENGTH; its bytes into b. */
static bool rwkv_line(struct lm_str line, uint64_t *id, struct lm_buf *b)
{
    const char *p = line.p, *end = p + line.len;
    uint64_t len;
    lm_buf_clear(b);
    lm_buf_add(b, "", 0);
    return number(&p, end, id) && p < end && *p++ == ' ' && literal(&p, end, b) && p < end &&
           *p++ == ' ' && number(&p, end, &len) && p == end && len == b->len;
}

bool lm_looks_like_rwkv(const unsigned char *head, size_t len)
{
    const char *p = (const char *)head, *end = p + len;
    struct lm_str line;
    struct lm_buf b = { 0 };
    uint64_t id;
    bool is = memchr(head, '\n', len) && next_line(&p, end, &line) && rwkv_line(line, &id, &b);
    lm_buf_release(&b);
    return is;
}

/* Bytes as the pieces of a GGUF file are spelled: as Python shows them. */
static void spell(struct lm_buf *out, const char *p, size_t len)
{
    const bool both = memchr(p, '\'', len) && memchr(p, '"', len);
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)p[i];
        const char *const named = c == '\t' ? "\\t" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : NULL;
        if (named)
            lm_buf_str(out, named);
        else if (c == '\\' || (c == '\'' && both))
            lm_buf_printf(out, "\\%c", c);
        else if (c >= 0x20 && c < 0x7F)
            lm_buf_byte(out, c);
        else
            lm_buf_printf(out, "\\x%02x", c);
    }
}

int lm_rank_rwkv(struct lm_rank_file *l, const char *data, size_t len, struct lm_err *err)
{
    struct lm_buf text = { 0 };
    struct lm_str line;
    const char *p = data, *end = p + len;
    int s = put(l, 0, (struct lm_str){ "<s>", 3 }, LM_PIECE_CONTROL, err);
    l->model = "rwkv";
    l->bos = l->eos = 0;
    l->unk = l->pad = l->eot = -1;
    for (size_t n = 1; s == LM_OK && next_line(&p, end, &line); n++) {
        uint64_t id;
        if (!rwkv_line(line, &id, &l->bytes)) {
            s = lm_fail(err, LM_EDATA, "line %zu is not an id, a text and its length", n);
            break;
        }
        lm_buf_clear(&text);
        lm_buf_add(&text, "", 0);
        spell(&text, l->bytes.data, l->bytes.len);
        s = text.failed ? lm_fail_nomem(err)
                        : put(l, id, (struct lm_str){ text.data, text.len }, LM_PIECE_NORMAL, err);
        if (s == LM_OK && l->bytes.len == 2 && !memcmp(l->bytes.data, "\n\n", 2))
            l->eot = (int32_t)id;            /* an empty line ends a turn */
        l->n_ranks++;
    }
    lm_buf_release(&text);
    return s == LM_OK && !l->n_ranks ? lm_fail(err, LM_EDATA, "has no pieces") : s;
}
