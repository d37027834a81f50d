/* SPDX-License-Identifier: MIT */
/*
 * BPE of characters with bytes to fall back on: how tokenizer.json writes SentencePiece
 * vocabularies (Llama 2, Mistral, Gemma).  Marks stand for spaces as in spm.c, merges have
 * ranks as in bpe.c; the ids are those of SPM with scores.
 */
#include "vocab/tokenizer.h"

static void decode_pieces(struct lm_vocab *v)
{
    for (uint32_t i = 0; i < v->n; i++)
        v->bytes.at[i + 1] = v->bytes.at[i] +
                             (uint32_t)lm_marked_bytes(v, i, v->bytes.data + v->bytes.at[i]);
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    v->chars = true;
    v->space_prefix = src->space_prefix > 0;
    v->join = v->space_prefix ? LM_JOIN_WORDS : LM_JOIN_PREFIX;  /* the decoder's Strip */
    v->byte_fallback = src->byte_fallback;
    if (!lm_find_bytes(v) && v->byte_fallback)
        return lm_fail(err, LM_ENOSUP, "byte_fallback without pieces for all bytes is not "
                       "supported");
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    v->marks = true;
    int s = lm_char_pieces(v, err);
    if (s != LM_OK || (s = lm_bpe_load(v, src, decode_pieces, env, err)))
        return s;
    if (v->byte_fallback && lm_vocab_find(v, "\xE2\x96\x81", 3) < 0)
        return lm_fail(err, LM_ENOSUP, "byte_fallback without a piece for the mark of spaces "
                       "is not supported");
    if (!lm_bonds_init(&v->bonds))
        return lm_fail_nomem(err);
    /* (bonds.all is set where merges of bytes join what no text of theirs shows) */
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        if (v->attr[i] & LM_ATTR_MERGED)
            lm_bonds_add(&v->bonds, p, len);
    }
    v->by_lines = lm_bonds_by_lines(&v->bonds);
    return LM_OK;
}

const struct lm_tok_model lm_tok_chars = {
    .name = "bpe", .bos = -1, .eos = -1, .unk = -1, .json_only = true, .load = load,
    .encode = lm_marked_encode, .part = lm_marked_parts, .encode_word = lm_merge,
};
