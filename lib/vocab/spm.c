/* SPDX-License-Identifier: MIT */
/*
 * SentencePiece's BPE, tokenizer model "llama".
 *
 * Spaces become U+2581; symbols begin as characters, and of all adjacent pairs whose joined
 * text is a piece the one of highest score, leftmost among equals, is joined until none is
 * left.  What is no piece in the end becomes its bytes, pieces <0x00> to <0xFF>.
 */
#include <stdio.h>
#include <string.h>

#include "vocab/spm_text.h"
#include "vocab/tokenizer.h"

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
    bool text = v->type[i] == LM_TOKEN_NORMAL ||
                (v->type[i] == LM_TOKEN_USER && (v->chars || v->user_inside));
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

/* Scores that are all the same say nothing; converters write such when they are given no
 * SentencePiece model. */
static bool scores_are_equal(const struct lm_vocab *v)
{
    const float *first = NULL;
    for (uint32_t i = 0; i < v->n; i++) {
        if (v->type[i] != LM_TOKEN_NORMAL)
            continue;
        if (first && *first != v->score[i])
            return false;
        first = &v->score[i];
    }
    return true;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    if (!v->score)
        return lm_fail(err, LM_EDATA, "the scores of the vocabulary are missing");
    v->by_score = v->marks = true;
    v->by_id = scores_are_equal(v);
    v->space_prefix = src->space_prefix != 0;
    if (src->sentencepiece) {
        v->join = lm_spm_join(src);
        if (!(v->own = lm_spm_text_new(v, src, err)))
            return err ? (int)err->code : LM_ENOMEM;
    }
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]) || !lm_bonds_init(&v->bonds))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        size_t n = lm_marked_bytes(v, i, v->bytes.data + v->bytes.at[i]);
        v->bytes.at[i + 1] = v->bytes.at[i] + (uint32_t)n;
        if (lm_scored(v, i))
            lm_bonds_add(&v->bonds, p, len);
    }
    lm_find_bytes(v);
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        if (v->byte_id[b] < 0)
            v->byte_id[b] = lm_vocab_find(v, &c, 1);
    }
    v->by_lines = !v->own && lm_bonds_by_lines(&v->bonds);
    return lm_char_pieces(v, err);
}

int lm_marked_encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                     struct lm_err *err)
{
    const char *end = p + len;
    bool lead = first && e->v->space_prefix;
    for (const char *q; p < end; p = q, lead = false) {
        q = lm_bonds_end(&e->v->bonds, p, end, lead);
        int s = lm_encoder_word(e, p, (size_t)(q - p), end, lead, err);
        if (s != LM_OK)
            return s;
    }
    return lm_encoder_words(e, err);
}

int lm_marked_part(struct lm_encoder *e, const char *p, size_t len, bool more, bool *first,
                   size_t *done, struct lm_err *err)
{
    const char *from = p, *end = p + (more ? lm_whole_chars(p, len) : len);
    int s = LM_OK;
    for (const char *q; p < end && s == LM_OK; p = q, *first = false) {
        bool lead = *first && e->v->space_prefix;
        q = lm_bonds_end(&e->v->bonds, p, end, lead);
        if (q == end && more)
            break;                               /* a word that may go on */
        s = lm_encoder_word(e, p, (size_t)(q - p), end, lead, err);
    }
    if (s == LM_OK)
        s = lm_encoder_words(e, err);
    *done = (size_t)(p - from);
    if (s == LM_OK && p < end && (size_t)(end - p) / 2 > lm_merge_window(e)) {
        size_t n;
        s = lm_merge_begin(e, p, (size_t)(end - p), *first && e->v->space_prefix, &n, err);
        *first &= !n;
        *done += n;
    }
    return s;
}

int lm_marked_parts(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    size_t done;
    int s = lm_marked_part(e, t->text.data, t->text.len, more, &t->first, &done, err);
    lm_buf_drop(&t->text, done);
    return s;
}

/* Unknown tokens beside each other are one: those in ids[from ..], and *open says whether the
 * one before was unknown. */
static void join_unknown(struct lm_encoder *e, size_t from, bool *open)
{
    struct lm_ids *ids = e->ids;
    size_t n = from;
    for (size_t i = from; i < ids->n; i++) {
        bool unknown = ids->id[i] == e->v->unk;
        if (unknown && *open) {
            if (ids->want_spans && n)
                ids->span[n - 1].len = ids->span[i].at + ids->span[i].len - ids->span[n - 1].at;
            continue;
        }
        ids->id[n] = ids->id[i];
        if (ids->want_spans)
            ids->span[n] = ids->span[i];
        n++;
        *open = unknown;
    }
    ids->n = n;
}

/* Text between user-defined pieces, as the SentencePiece library has it; if more of it may
 * follow, up to *done. */
static int encode_part(struct lm_encoder *e, const char *p, const char *end, bool more, bool *open,
                       const char **done, struct lm_err *err)
{
    lm_take_ids *take = e->take;
    int s = LM_OK;
    for (const char *q; p < end && s == LM_OK; p = q) {
        size_t from = e->ids->n, n = 0;
        q = lm_bonds_end(&e->v->bonds, p, end, false);
        bool goes_on = q == end && more;
        e->take = NULL;                          /* its ids are looked at here first */
        if (!goes_on)
            s = lm_encoder_one_word(e, p, (size_t)(q - p), end, err);
        else if ((size_t)(q - p) / 2 > lm_merge_window(e))
            s = lm_merge_begin(e, p, (size_t)(q - p), false, &n, err);
        e->take = take;
        join_unknown(e, from, open);
        if (s == LM_OK && !(*open && e->ids->want_spans))        /* its span may grow */
            s = lm_encoder_pass(e, err);
        if (goes_on) {
            p += n;
            break;
        }
    }
    *done = p;
    return s;
}

/* Normalized text, with user-defined pieces; if more may follow, *done bytes of it are settled. */
static int encode_normal(struct lm_encoder *e, const char *p, size_t len, bool more, bool *open,
                         size_t *done, struct lm_err *err)
{
    const struct lm_spm_text *t = e->v->own;
    *done = 0;
    if (!len)                                    /* p may be NULL */
        return LM_OK;
    const char *begin = p, *end = p + len, *q = t->has_user ? p : end;
    bool undecided = false;
    int s = LM_OK;
    for (int k; s == LM_OK && q < end; q += k) {
        int32_t id;
        size_t n = lm_spm_text_user(t, q, end, &id, &undecided);
        if (undecided && more)
            break;
        lm_uni_next(q, end, &k);
        if (!n)
            continue;
        if ((s = encode_part(e, p, q, false, open, &p, err)))
            break;
        if (!lm_encoder_put(e, id, n))
            s = lm_fail_nomem(err);
        *open = false;
        k = (int)n;
        p = q + n;
    }
    if (s == LM_OK && p < q)
        s = encode_part(e, p, q, more, open, &p, err);
    *done = (size_t)(p - begin);
    return s;
}

static int encode_spm(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    struct lm_remap *map = e->ids->want_spans ? &e->map : NULL;
    bool open = false;
    size_t done;
    lm_buf_clear(&e->norm);
    int s = lm_spm_text_apply(e->v->own, p, len, false, &e->norm, map, err);
    return s == LM_OK ? encode_normal(e, e->norm.data, e->norm.len, false, &open, &done, err) : s;
}

static int part_spm(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    struct lm_buf *b = &t->words;
    size_t done;
    int s = lm_spm_text_part(e->v->own, &t->model.spm, t->text.data, t->text.len, more, false,
                             &done, b, lm_parts_map(e), err);
    if (s == LM_OK && !lm_parts_mapped(e, &e->map, done))
        return lm_fail_nomem(err);
    lm_buf_drop(&t->text, done);
    size_t was = b->len, len = more ? lm_spm_text_trim(e->v->own, b, false) : was;
    if (s != LM_OK || (more && was < t->words_wait))
        return s;
    s = encode_normal(e, b->data, len, more, &t->model.open, &done, err);
    lm_buf_drop(b, done);
    return s == LM_OK && lm_parts_wait(e, b, was, &t->words_wait) ? lm_fail_nomem(err) : s;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    return e->v->own ? encode_spm(e, p, len, err) : lm_marked_encode(e, p, len, first, err);
}

static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    return e->v->own ? part_spm(e, more, err) : lm_marked_parts(e, more, err);
}

static void release(struct lm_vocab *v)
{
    lm_spm_text_free(v->own);
    v->own = NULL;
}

const struct lm_tok_model lm_tok_llama = {
    .name = "llama", .bos = 1, .eos = 2, .unk = 0, .add_bos = true, .load = load,
    .encode = encode, .part = part, .encode_word = lm_merge, .release = release,
};
