/* SPDX-License-Identifier: MIT */
/*
 * Vocabularies that are lists of byte strings and their ranks:
 *
 *   tiktoken    a line a piece: its bytes in base64, a space, its rank, which is its id.  How
 *               words are cut and what control tokens there are the file does not say; its
 *               size tells the known ones.
 *   tekken.json Mistral's: an object with config, vocab, a list of {rank, token_bytes}, and
 *               special_tokens; special tokens come first, ids are ranks plus their number.
 *   RWKV        a line a piece: its id, its text as Python writes it, its length in bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/size.h"
#include "vocab/vocab_rules.h"

enum { MAX_IDS = 1 << 22 };

struct special {
    uint32_t    id;
    const char *text;
};

/* What is known of the files of a size. */
static const struct family {
    const char    *name;
    uint32_t       n_ranks;
    const char    *pre;
    bool           nfc;
    struct special special[8];           /* ends with a NULL text */
} families[] = {
    { "r50k_base", 50256, "gpt-2", false, { { 50256, "<|endoftext|>" } } },
    { "p50k_base", 50280, "gpt-2", false, { { 50256, "<|endoftext|>" } } },
    { "cl100k_base", 100256, "llama-bpe", false,
      { { 100257, "<|endoftext|>" }, { 100258, "<|fim_prefix|>" }, { 100259, "<|fim_middle|>" },
        { 100260, "<|fim_suffix|>" }, { 100276, "<|endofprompt|>" } } },
    { "o200k_base", 199998, "gpt-4o", false,
      { { 199999, "<|endoftext|>" }, { 200018, "<|endofprompt|>" } } },
    { "Llama 3", 128000, "llama-bpe", false,
      { { 128000, "<|begin_of_text|>" }, { 128001, "<|end_of_text|>" },
        { 128006, "<|start_header_id|>" }, { 128007, "<|end_header_id|>" },
        { 128008, "<|eom_id|>" }, { 128009, "<|eot_id|>" }, { 128010, "<|python_tag|>" } } },
    { "Qwen", 151643, "qwen2", true,
      { { 151643, "<|endoftext|>" }, { 151644, "<|im_start|>" }, { 151645, "<|im_end|>" } } },
};

/* The pieces as they come. */
struct list {
    struct lm_arena arena;
    struct lm_str  *text;
    int32_t        *type;
    size_t          n, text_cap, type_cap;
    uint64_t        n_ranks;
    struct lm_buf   bytes, runes;        /* of one piece */
};

static void release(struct list *l)
{
    lm_arena_release(&l->arena);
    lm_buf_release(&l->bytes);
    lm_buf_release(&l->runes);
    free(l->text);
    free(l->type);
}

/* Piece `id`; ids between are unused until they come. */
static int put(struct list *l, uint64_t id, struct lm_str text, int type, struct lm_err *err)
{
    if (id >= MAX_IDS)
        return lm_fail(err, LM_EDATA, "id %llu is out of range", (unsigned long long)id);
    if (id >= l->n) {
        if (!lm_grow(&l->text, &l->text_cap, id + 1, sizeof *l->text) ||
            !lm_grow(&l->type, &l->type_cap, id + 1, sizeof *l->type))
            return lm_fail_nomem(err);
        for (; l->n <= id; l->n++) {
            l->text[l->n] = (struct lm_str){ "", 0 };
            l->type[l->n] = LM_TOKEN_UNUSED;
        }
    }
    if (l->type[id] != LM_TOKEN_UNUSED)
        return lm_fail(err, LM_EDATA, "id %llu is there twice", (unsigned long long)id);
    text.p = lm_arena_copy(&l->arena, text.p, text.len);
    if (!text.p)
        return lm_fail_nomem(err);
    l->text[id] = text;
    l->type[id] = type;
    return LM_OK;
}

/* Bytes in the alphabet of byte-level BPE. */
static int put_bytes(struct list *l, uint64_t id, const char *p, size_t len, struct lm_err *err)
{
    lm_buf_clear(&l->runes);
    lm_buf_add(&l->runes, "", 0);
    for (size_t i = 0; i < len; i++)
        lm_buf_rune(&l->runes, lm_byte_rune((unsigned char)p[i]));
    if (l->runes.failed)
        return lm_fail_nomem(err);
    l->n_ranks++;
    return put(l, id, (struct lm_str){ l->runes.data, l->runes.len }, LM_TOKEN_NORMAL, err);
}

static struct lm_vocab *load(struct list *l, struct lm_vocab_src *src, const struct lm_env *env,
                             struct lm_err *err)
{
    src->tokens = l->text;
    src->types = l->type;
    src->n = l->n;
    return lm_vocab_load(src, env, err);
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

static int read_ranks(struct list *l, const char *p, const char *end, struct lm_err *err)
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
            return lm_fail(err, LM_EDATA, "line %zu is not a piece in base64 and its rank", n);
        int s = l->bytes.failed ? lm_fail_nomem(err)
                                : put_bytes(l, rank, l->bytes.data, l->bytes.len, err);
        if (s != LM_OK)
            return lm_err_at(err, s, "line %zu", n);
    }
    return LM_OK;
}

struct lm_vocab *lm_vocab_from_ranks(const char *data, size_t len, const struct lm_env *env,
                                     struct lm_err *err)
{
    struct list l = { 0 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    const struct family *f = NULL;
    struct lm_vocab *v = NULL;
    int s = read_ranks(&l, data, data + len, err);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].n_ranks == l.n_ranks)
            f = &families[i];
    for (size_t i = 0; s == LM_OK && f && i < 8 && f->special[i].text; i++)
        s = put(&l, f->special[i].id,
                (struct lm_str){ f->special[i].text, strlen(f->special[i].text) },
                LM_TOKEN_CONTROL, err);
    if (s == LM_OK && !f)
        lm_note(env, LM_WARN, "%llu ranks, a size that is not known: words are cut as by "
                "cl100k_base, and there are no control tokens", (unsigned long long)l.n_ranks);
    const char *pre = f ? f->pre : "llama-bpe";
    src.model = (struct lm_str){ "gpt2", 4 };
    src.pre = (struct lm_str){ pre, strlen(pre) };
    src.by_ranks = true;
    src.nfc = f && f->nfc;
    src.whole_words = 1;
    src.add_bos = src.add_eos = 0;
    if (s == LM_OK)
        v = load(&l, &src, env, err);
    release(&l);
    return v;
}

/* ---- tekken.json ------------------------------------------------------------- */

/* One of vocab: {"rank": n, "token_bytes": base64, "token_str": text}. */
static int read_piece(struct list *l, const struct lm_jval *x, uint64_t n_special, uint64_t size,
                      struct lm_err *err)
{
    const struct lm_jval *bytes = lm_jval_get(x, "token_bytes");
    int64_t rank = -1;
    lm_buf_clear(&l->bytes);
    if (!lm_jval_i64(lm_jval_get(x, "rank"), &rank) || rank < 0 || !lm_jval_str(bytes) ||
        !lm_buf_base64(&l->bytes, bytes->str, bytes->len))
        return lm_fail(err, LM_EDATA, "vocab: an entry without rank or token_bytes");
    if (l->bytes.failed)
        return lm_fail_nomem(err);
    if ((uint64_t)rank >= size)                      /* cut off */
        return LM_OK;
    return put_bytes(l, (uint64_t)rank + n_special, l->bytes.data, l->bytes.len, err);
}

static int read_special(struct list *l, const struct lm_jval *list, uint64_t n_special,
                        struct lm_err *err)
{
    static const char *const first[] = { "<unk>", "<s>", "</s>", "[INST]", "[/INST]",
                                         "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                                         "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]" };
    char name[32];
    int s = LM_OK;
    for (const struct lm_jval *x = list ? list->first : NULL; x && s == LM_OK; x = x->next) {
        const struct lm_jval *text = lm_jval_get(x, "token_str");
        int64_t rank = -1;
        bool control = true;
        lm_jval_bool(lm_jval_get(x, "is_control"), &control);
        if (!lm_jval_i64(lm_jval_get(x, "rank"), &rank) || rank < 0 ||
            (uint64_t)rank >= n_special || !lm_jval_str(text))
            return lm_fail(err, LM_EDATA, "special_tokens: an entry without rank or token_str");
        s = put(l, (uint64_t)rank, (struct lm_str){ text->str, text->len },
                control ? LM_TOKEN_CONTROL : LM_TOKEN_USER, err);
    }
    for (uint64_t i = 0; i < n_special && s == LM_OK; i++) {
        if (i < l->n && l->type[i] != LM_TOKEN_UNUSED)
            continue;
        bool named = !list && i < sizeof first / sizeof *first;
        snprintf(name, sizeof name, "<SPECIAL_%u>", (unsigned)i);
        const char *text = named ? first[i] : name;
        s = put(l, i, (struct lm_str){ text, strlen(text) }, LM_TOKEN_CONTROL, err);
    }
    return s;
}

static int read_tekken(struct list *l, const struct lm_jval *root, struct lm_err *err)
{
    const struct lm_jval *config = lm_jval_get(root, "config"), *vocab = lm_jval_get(root, "vocab");
    int64_t size = 0, n_special = 0;
    if (!vocab || vocab->kind != LM_JSON_ARRAY ||
        !lm_jval_i64(lm_jval_get(config, "default_vocab_size"), &size) || size > MAX_IDS ||
        !lm_jval_i64(lm_jval_get(config, "default_num_special_tokens"), &n_special) ||
        n_special < 0 || size <= n_special)
        return lm_fail(err, LM_EDATA, "no vocab, or no sizes in config");
    int s = read_special(l, lm_jval_get(root, "special_tokens"), (uint64_t)n_special, err);
    for (const struct lm_jval *x = vocab->first; x && s == LM_OK; x = x->next)
        s = read_piece(l, x, (uint64_t)n_special, (uint64_t)(size - n_special), err);
    return s;
}

struct lm_vocab *lm_vocab_from_tekken(const char *data, size_t len, const struct lm_env *env,
                                      struct lm_err *err)
{
    struct list l = { 0 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct lm_vocab *v = NULL;
    struct lm_arena arena = { 0 };
    const struct lm_jval *root = lm_json_tree(&arena, data, len, err);
    src.model = (struct lm_str){ "gpt2", 4 };
    src.pre = (struct lm_str){ "tekken", 6 };
    src.by_ranks = true;
    if (root && read_tekken(&l, root, err) == LM_OK) {
        for (int32_t i = 0; i < 3 && (size_t)i < l.n; i++) {
            src.unk = l.text[i].len == 5 && !memcmp(l.text[i].p, "<unk>", 5) ? i : src.unk;
            src.bos = l.text[i].len == 3 && !memcmp(l.text[i].p, "<s>", 3) ? i : src.bos;
            src.eos = l.text[i].len == 4 && !memcmp(l.text[i].p, "</s>", 4) ? i : src.eos;
        }
        src.add_bos = src.bos >= 0;
        v = load(&l, &src, env, err);
    }
    lm_arena_release(&arena);
    release(&l);
    return v;
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
    if (!n || !hex(p + 1, end, n, &r))
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

/* Bytes as the pieces of a GGUF file are spelled. */
static void spell(struct lm_buf *out, const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c == '\\')
            lm_buf_str(out, "\\\\");
        else if (c >= 0x20 && c < 0x7F)
            lm_buf_byte(out, c);
        else
            lm_buf_printf(out, "\\x%02x", c);
    }
}

struct lm_vocab *lm_vocab_from_rwkv(const char *data, size_t len, const struct lm_env *env,
                                    struct lm_err *err)
{
    struct list l = { 0 };
    struct lm_vocab_src src = LM_VOCAB_SRC;
    struct lm_vocab *v = NULL;
    struct lm_buf text = { 0 };
    struct lm_str line;
    const char *p = data, *end = p + len;
    int s = put(&l, 0, (struct lm_str){ "<s>", 3 }, LM_TOKEN_CONTROL, err);
    for (size_t n = 1; s == LM_OK && next_line(&p, end, &line); n++) {
        uint64_t id;
        if (!rwkv_line(line, &id, &l.bytes)) {
            s = lm_fail(err, LM_EDATA, "line %zu is not an id, a text and its length", n);
            break;
        }
        lm_buf_clear(&text);
        lm_buf_add(&text, "", 0);
        spell(&text, l.bytes.data, l.bytes.len);
        s = text.failed ? lm_fail_nomem(err)
                        : put(&l, id, (struct lm_str){ text.data, text.len }, LM_TOKEN_NORMAL, err);
    }
    src.model = (struct lm_str){ "rwkv", 4 };
    src.eos = 0;
    if (s == LM_OK)
        v = load(&l, &src, env, err);
    lm_buf_release(&text);
    release(&l);
    return v;
}
