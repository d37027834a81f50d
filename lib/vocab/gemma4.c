/* SPDX-License-Identifier: MIT */
/*
 * Gemma 4's BPE, tokenizer model "gemma4": merges of characters with ranks, marks for spaces
 * and bytes to fall back on, as in bpe_chars.c, from a GGUF file.  Newlines never merge with
 * other text, and a run of them that is a piece is that piece.
 */
#include <string.h>

#include "vocab/tokenizer.h"

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    struct lm_vocab_src with_bytes = *src;
    with_bytes.byte_fallback = true;
    return lm_tok_chars.load(v, &with_bytes, env, err);
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    for (const char *end = p + len, *q; p < end; p = q, first = false) {
        bool lines = *p == '\n';
        q = lines ? p : memchr(p, '\n', (size_t)(end - p));
        while (lines && q < end && *q == '\n')
            q++;
        q = q ? q : end;
        int32_t id = lines ? lm_vocab_find(e->v, p, (size_t)(q - p)) : -1;
        int s = LM_OK;
        if (id < 0 || e->v->type[id] == LM_TOKEN_CONTROL)
            s = lm_marked_encode(e, p, (size_t)(q - p), first, err);
        else if (!lm_encoder_put(e, id, (size_t)(q - p)))
            s = lm_fail_nomem(err);
        if (s != LM_OK || (s = lm_encoder_pass(e, err)))
            return s;
    }
    return LM_OK;
}

const struct lm_tok_model lm_tok_gemma4 = {
    .name = "gemma4", .bos = -1, .eos = -1, .unk = -1, .add_bos = true, .load = load,
    .encode = encode, .encode_word = lm_merge,
};
