/* SPDX-License-Identifier: MIT */
/* The symbols that a word is before it is merged, bytes or characters, and what a symbol that
 * is no piece becomes in the end. */
#include <stdlib.h>
#include <string.h>

#include "vocab/tokenizer.h"

#define NONE     UINT32_MAX
#define NO_PIECE 0x80000000u                     /* a character that is no piece ...      */
#define NO_CHAR  0x40000000u                     /* ... or a byte that is no character    */
#define N_RUNES  0x10000u

int lm_char_pieces(struct lm_vocab *v, struct lm_err *err)
{
    v->rune_id = malloc(N_RUNES * sizeof *v->rune_id);
    if (!v->rune_id)
        return lm_fail_nomem(err);
    memset(v->rune_id, 0xFF, N_RUNES * sizeof *v->rune_id);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        uint32_t r;
        const char *p = lm_pieces_get(&v->text, i, &len);
        if (len <= 3 && (size_t)lm_utf8_len(p, len, &r) == len && !(v->attr[i] & LM_ATTR_ADDED))
            v->rune_id[r] = i;
    }
    v->mark_id = v->rune_id[LM_MARK];
    if (v->mark_id == NONE)
        v->mark_id = NO_PIECE | LM_MARK;
    v->by_char = true;
    return LM_OK;
}

/* The piece of the character at p, *k bytes, or NONE; *rune is the character. */
static uint32_t char_piece(const struct lm_vocab *v, const char *p, const char *end, int *k,
                           uint32_t *rune)
{
    uint32_t r = (unsigned char)*p;
    *k = 1;
    if (r >= 128) {
        *k = lm_utf8_len(p, (size_t)(end - p), &r);
        if (!*k) {
            *k = 1;
            *rune = NO_CHAR | (unsigned char)*p;
            return NONE;
        }
    }
    *rune = r;
    if (r == ' ' && v->marks)
        return v->mark_id & NO_PIECE ? NONE : v->mark_id;
    if (r < N_RUNES)
        return v->rune_id[r];
    int32_t id = lm_vocab_find(v, p, (size_t)*k);
    return id >= 0 && v->attr[id] & LM_ATTR_ADDED ? NONE : (uint32_t)id;
}

size_t lm_next_symbol(const struct lm_vocab *v, const char *p, const char *end, uint32_t *id)
{
    int k;
    uint32_t r;
    if (!v->by_char) {
        *id = (uint32_t)v->byte_id[(unsigned char)*p];
        return 1;
    }
    if ((*id = char_piece(v, p, end, &k, &r)) != NONE)
        return (size_t)k;
    if (v->by_score) {
        *id = NO_PIECE | (r == ' ' ? LM_MARK : r);
        return (size_t)k;
    }
    if (v->byte_fallback) {
        *id = (uint32_t)v->byte_id[(unsigned char)*p];
        return 1;
    }
    *id = (uint32_t)v->unk;
    return (size_t)k;
}

size_t lm_symbol_bytes(uint32_t id, char to[4])
{
    uint32_t r = id & ~NO_PIECE;
    if (r & NO_CHAR || r < 0x80) {
        to[0] = (char)r;
        return 1;
    }
    size_t n = r < 0x800 ? 2 : r < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; r >>= 6)
        to[i] = (char)(0x80 | (r & 63));
    to[0] = (char)((0xF00u >> n & 0xFF) | r);
    return n;
}

bool lm_scored(const struct lm_vocab *v, uint32_t id)
{
    return v->type[id] != LM_TOKEN_CONTROL && v->type[id] != LM_TOKEN_UNKNOWN &&
           v->type[id] != LM_TOKEN_BYTE;
}

/* In byte-level BPE a byte without a piece is left out.  The file's unknown id is not for it:
 * such models have none, it names a control token. */
bool lm_put_symbol(struct lm_encoder *e, uint32_t id, uint32_t len)
{
    const struct lm_vocab *v = e->v;
    char character[4];
    const char *p = character;
    size_t n;
    if (!v->by_score || (!(id & NO_PIECE) && lm_scored(v, id)))
        return lm_encoder_put(e, (int32_t)id, len);
    if (id & NO_PIECE)
        n = lm_symbol_bytes(id, character);
    else
        p = lm_pieces_get(&v->text, id, &n);
    for (size_t i = 0; i < n; i++) {
        int32_t b = v->byte_id[(unsigned char)p[i]];
        if (!lm_encoder_put(e, b < 0 ? v->unk : b, i < len))
            return false;
    }
    return true;
}
