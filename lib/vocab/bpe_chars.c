/* SPDX-License-Identifier: MIT */
/*
 * BPE of characters with bytes to fall back on: how tokenizer.json writes SentencePiece
 * vocabularies (Llama 2, Mistral, Gemma).  Marks stand for spaces as in spm.c, merges have
 * ranks as in bpe.c; the ids are those of SPM with scores.
 */
#include "vocab/tokenizer.h"

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    v->chars = true;
    v->fuse_unk = src->fuse_unk;
    v->space_prefix = src->space_prefix > 0;
    v->byte_fallback = src->byte_fallback;
    if (!lm_find_bytes(v) && v->byte_fallback)
        return lm_fail(err, LM_ENOSUP, "byte_fallback without pieces for all bytes is not "
                       "supported");
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++)
        v->bytes.at[i + 1] = v->bytes.at[i] +
                             (uint32_t)lm_marked_bytes(v, i, v->bytes.data + v->bytes.at[i]);
    int s = lm_bpe_load(v, src, err);
    v->space_starts = true;
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        if (v->attr[i] & LM_ATTR_MERGED && lm_crosses_mark(p, len))
            v->space_starts = false;
    }
    return s;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    if (!lm_marks_for_spaces(e, p, len, first && e->v->space_prefix))
        return lm_fail_nomem(err);
    const char *end = e->norm.data + e->norm.len, *q;
    for (p = e->norm.data; p < end; p = q) {
        q = e->v->space_starts ? lm_marked_word_end(p, end) : end;
        if ((size_t)(q - p) >= UINT32_MAX - 1)
            return lm_fail(err, LM_ENOSUP, "a word of more than 4 GiB");
        bool hit;
        struct lm_memo *w = lm_encoder_memo(e, p, (size_t)(q - p), end, &hit);
        if (hit)
            continue;
        size_t from = e->ids->n;
        if (!lm_bpe_merge(e, p, (size_t)(q - p)))
            return lm_fail_nomem(err);
        if (w)
            lm_encoder_keep(e, w, from);
    }
    return LM_OK;
}

const struct lm_tok_model lm_tok_chars = {
    .name = "bpe", .bos = -1, .eos = -1, .unk = -1, .json_only = true, .load = load,
    .encode = encode,
};
