/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece's BPE, tokenizer model "llama".
 *
 * Spaces become U+2581; symbols begin as characters, and of all adjacent pairs whose joined
 * text is a piece the one of highest score, leftmost among equals, is joined until none is
 * left.  What is no piece in the end becomes its bytes, pieces <0x00> to <0xFF>.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"

#define NO_SYM UINT32_MAX

static const char mark[] = "\xE2\x96\x81";       /* U+2581, in the place of a space */

static bool mark_at(const char *p, const char *end)
{
    return end - p >= 3 && memcmp(p, mark, 3) == 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of a piece <0xXX>, or -1. */
static int byte_of(const char *p, size_t len)
{
    if (len != 6 || memcmp(p, "<0x", 3) != 0 || p[5] != '>' || hex_digit(p[3]) < 0 ||
        hex_digit(p[4]) < 0)
        return -1;
    return hex_digit(p[3]) * 16 + hex_digit(p[4]);
}

size_t lm_marked_bytes(const struct lm_vocab *v, uint32_t i, char *to)
{
    size_t len, n = 0;
    const char *p = lm_pieces_get(&v->text, i, &len), *end = p + len;
    int b = v->type[i] == LM_TOKEN_BYTE ? byte_of(p, len) : -1;
    /* a GGUF file's pieces of type user have spaces already */
    bool text = v->type[i] == LM_TOKEN_NORMAL || (v->type[i] == LM_TOKEN_USER && v->chars);
    if (b >= 0) {
        *to = (char)b;
        return 1;
    }
    while (p < end)
        if (text && mark_at(p, end)) {
            to[n++] = ' ';
            p += 3;
        } else {
            to[n++] = *p++;
        }
    return n;
}

/* May text become this piece?  Not a control token, and not a byte by its name. */
static bool reachable(const struct lm_vocab *v, int32_t id)
{
    return id >= 0 && v->type[id] != LM_TOKEN_CONTROL && v->type[id] != LM_TOKEN_UNKNOWN &&
           v->type[id] != LM_TOKEN_BYTE;
}

bool lm_crosses_mark(const char *p, size_t len)
{
    const char *end = p + len;
    bool other = false;
    while (p < end)
        if (mark_at(p, end)) {
            if (other)
                return true;
            p += 3;
        } else {
            other = true;
            p++;
        }
    return false;
}

bool lm_find_bytes(struct lm_vocab *v)
{
    bool all = true;
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        v->byte_id[b] = lm_vocab_find(v, name, 6);
        all &= v->byte_id[b] >= 0;
    }
    return all;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    if (!v->score)
        return lm_fail(err, LM_EDATA, "the scores of the vocabulary are missing");
    v->space_prefix = src->space_prefix != 0;
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    v->space_starts = true;
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        size_t n = lm_marked_bytes(v, i, v->bytes.data + v->bytes.at[i]);
        v->bytes.at[i + 1] = v->bytes.at[i] + (uint32_t)n;
        if (reachable(v, (int32_t)i) && lm_crosses_mark(p, len))
            v->space_starts = false;
    }
    lm_find_bytes(v);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        if (v->byte_id[b] < 0)
            v->byte_id[b] = lm_vocab_find(v, &c, 1);
    }
    return LM_OK;
}

/* A number that orders floats, the highest first. */
static uint32_t order_of(float f)
{
    uint32_t u;
    f += 0.0f;                                   /* -0 is 0 */
    memcpy(&u, &f, 4);
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return ~u;
}

/* A word being merged: symbol i is text[off[i]] .. of sym[i].len bytes. */
static bool queue(struct lm_encoder *e, const char *p, uint32_t i)
{
    const struct lm_sym *s = &e->sym[i];
    if (s->next == NO_SYM)
        return true;
    size_t size = (size_t)s->len + e->sym[s->next].len;
    int32_t id = lm_vocab_find(e->v, p + s->id, size);
    if (!reachable(e->v, id))
        return true;
    return lm_heap_push(e, (uint64_t)order_of(e->v->score[id]) << 32 | i, (uint32_t)size);
}

/* A symbol's id, or its bytes. */
static bool put_text(struct lm_encoder *e, const char *p, uint32_t len)
{
    const struct lm_vocab *v = e->v;
    int32_t id = lm_vocab_find(v, p, len);
    if (reachable(v, id))
        return lm_encoder_put(e, id, len);
    for (uint32_t i = 0; i < len; i++) {
        id = v->byte_id[(unsigned char)p[i]];
        if (!lm_encoder_put(e, id < 0 ? v->unk : id, 1))
            return false;
    }
    return true;
}

/* Here a symbol's id is its offset in the word. */
static bool merge(struct lm_encoder *e, const char *p, size_t len)
{
    uint32_t n = 0;
    for (size_t off = 0; off < len; n++) {
        if (!lm_grow(&e->sym, &e->sym_cap, (size_t)n + 1, sizeof *e->sym))
            return false;
        int k;                                   /* a byte that is not UTF-8 is a symbol */
        lm_uni_next(p + off, p + len, &k);
        e->sym[n] = (struct lm_sym){ (uint32_t)off, (uint32_t)k, n - 1, n + 1 };
        off += (size_t)k;
    }
    struct lm_sym *sym = e->sym;
    sym[n - 1].next = NO_SYM;
    e->heap_n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!queue(e, p, i))
            return false;
    while (e->heap_n) {
        struct lm_heap_item it = lm_heap_pop(e);
        uint32_t i = (uint32_t)it.key, next = sym[i].next;
        if (!sym[i].len || next == NO_SYM || sym[i].len + sym[next].len != it.size)
            continue;
        sym[i].len += sym[next].len;
        sym[next].len = 0;
        sym[i].next = sym[next].next;
        if (sym[i].next != NO_SYM)
            sym[sym[i].next].prev = i;
        if (!queue(e, p, i) || (i > 0 && !queue(e, p, sym[i].prev)))
            return false;
    }
    for (uint32_t i = 0; i != NO_SYM; i = sym[i].next)
        if (!put_text(e, p + sym[i].id, sym[i].len))
            return false;
    return true;
}

static bool encode_word(struct lm_encoder *e, const char *p, size_t len, const char *limit)
{
    bool hit;
    struct lm_memo *w = lm_encoder_memo(e, p, len, limit, &hit);
    if (hit)
        return true;
    size_t from = e->ids->n;
    if (!merge(e, p, len))
        return false;
    if (w)
        lm_encoder_keep(e, w, from);
    return true;
}

bool lm_marks_for_spaces(struct lm_encoder *e, const char *p, size_t len, bool prefix)
{
    struct lm_buf *b = &e->norm;
    struct lm_remap *map = e->ids->want_spans ? &e->map : NULL;
    const char *begin = p, *end = p + len;
    lm_buf_clear(b);
    if (prefix) {
        lm_buf_add(b, mark, 3);
        if (map && (!lm_remap_add(map, 0, 0) || !lm_remap_add(map, 3, 0)))
            return false;
    }
    while (p < end) {
        const char *q = memchr(p, ' ', (size_t)(end - p));
        if (!q)
            q = end;
        lm_buf_add(b, p, (size_t)(q - p));
        p = q;
        if (p < end) {
            lm_buf_add(b, mark, 3);
            p++;
            if (map && (!lm_remap_add(map, b->len - 3, (size_t)(q - begin)) ||
                        !lm_remap_add(map, b->len, (size_t)(p - begin))))
                return false;
        }
    }
    return !b->failed;
}

const char *lm_marked_word_end(const char *p, const char *end)
{
    while (mark_at(p, end))
        p += 3;
    while (p < end && !mark_at(p, end)) {
        p = memchr(p + 1, mark[0], (size_t)(end - p - 1));
        if (!p)
            return end;
    }
    return p;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    if (!lm_marks_for_spaces(e, p, len, first && e->v->space_prefix))
        return lm_fail_nomem(err);
    const char *end = e->norm.data + e->norm.len;
    for (p = e->norm.data; p < end;) {
        const char *q = e->v->space_starts ? lm_marked_word_end(p, end) : end;
        if ((size_t)(q - p) >= UINT32_MAX - 1)
            return lm_fail(err, LM_ENOSUP, "a word of more than 4 GiB");
        if (!encode_word(e, p, (size_t)(q - p), end))
            return lm_fail_nomem(err);
        p = q;
    }
    return LM_OK;
}

const struct lm_tok_model lm_tok_llama = {
    .name = "llama", .bos = 1, .eos = 2, .unk = 0, .add_bos = true, .load = load,
    .encode = encode,
};
