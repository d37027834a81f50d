/* SPDX-License-Identifier: MIT */
/*
 * RWKV's vocabularies, tokenizer model "rwkv": pieces are strings of bytes, and a text is cut
 * from the left into the longest of them.  In a GGUF file a piece is spelled as Python shows
 * bytes: \t \n \r, \xhh, and a backslash in front of what would be taken otherwise.
 */
#include <stdlib.h>

#include "base/size.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The byte at p, which is not the end, and how many characters spell it. */
static char unescape(const char *p, const char *end, size_t *n)
{
    *n = 1;
    if (*p != '\\' || end - p < 2)
        return *p;
    *n = 2;
    switch (p[1]) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'x':
        if (end - p >= 4 && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
            *n = 4;
            return (char)(hex_digit(p[2]) * 16 + hex_digit(p[3]));
        }
    }
    return p[1];
}

static bool is_special(const struct lm_vocab *v, uint32_t i)
{
    return v->type[i] == LM_TOKEN_CONTROL || v->type[i] == LM_TOKEN_UNKNOWN;
}

static int load_bytes(struct lm_vocab *v, struct lm_err *err)
{
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len, n;
        const char *p = lm_pieces_get(&v->text, i, &len), *end = p + len;
        char *to = v->bytes.data + v->bytes.at[i];
        for (; p < end; p += n) {
            *to = unescape(p, end, &n);
            if (is_special(v, i) || v->type[i] == LM_TOKEN_USER) {
                *to = *p;
                n = 1;
            }
            to++;
        }
        v->bytes.at[i + 1] = (uint32_t)(to - v->bytes.data);
    }
    return LM_OK;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    struct lm_trie *t = v->own = calloc(1, sizeof *t);
    struct lm_str *text = lm_malloc_array(v->n, sizeof *text);
    uint32_t *id = lm_malloc_array(v->n, sizeof *id), n = 0;
    int s = t && text && id ? load_bytes(v, err) : lm_fail_nomem(err);
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++)
        if (!is_special(v, i) && src->tokens[i].len) {
            text[n] = lm_vocab_piece(v, i);
            id[n++] = i;
        }
    if (s == LM_OK)
        s = lm_trie_build(t, text, id, n, err);
    free(text);
    free(id);
    return s;
}

static void release(struct lm_vocab *v)
{
    if (v->own)
        lm_trie_release(v->own);
    free(v->own);
    v->own = NULL;
}

/* Cut p[0 .. len), or, if more may follow it, *done bytes of it.  A byte that no piece begins
 * with is unknown, or, where there is no such id, left out. */
static int cut(struct lm_encoder *e, const char *p, size_t len, bool more, size_t *done,
               struct lm_err *err)
{
    const struct lm_trie *t = e->v->own;
    const char *from = p, *end = p + len;
    size_t ahead = more ? e->v->longest : 0;
    int s = LM_OK;
    while (s == LM_OK && (size_t)(end - p) > ahead) {
        int32_t id = e->v->unk;
        size_t n = 1;
        uint32_t node = 0;
        for (const char *q = p; q < end;) {
            node = lm_trie_step(t, node, (unsigned char)*q++);
            if (!node)
                break;
            if (t->unit[node].id >= 0) {
                id = t->unit[node].id;
                n = (size_t)(q - p);
            }
        }
        s = lm_encoder_put(e, id, n) ? lm_encoder_pass(e, err) : lm_fail_nomem(err);
        p += n;
    }
    *done = (size_t)(p - from);
    return s;
}

static int word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err)
{
    size_t done;
    (void)limit;
    return cut(e, p, len, false, &done, err);
}

static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_buf *b = &e->parts->text;
    size_t done;
    int s = cut(e, b->data, b->len, more, &done, err);
    lm_buf_drop(b, done);
    return s;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    return word(e, p, len, p + len, err);
}

const struct lm_tok_model lm_tok_rwkv = {
    .name = "rwkv", .bos = -1, .eos = -1, .unk = -1, .adds_none = true, .load = load,
    .encode = encode, .part = part, .word = word, .release = release,
};
