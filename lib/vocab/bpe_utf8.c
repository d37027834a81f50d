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

/* Newlines at p, or what stands before the next one: how many bytes. */
static size_t run(const char *p, const char *end)
{
    const char *q = p;
    if (*p != '\n') {
        q = memchr(p, '\n', (size_t)(end - p));
        return (size_t)((q ? q : end) - p);
    }
    while (q < end && *q == '\n')
        q++;
    return (size_t)(q - p);
}

/* The piece that n newlines are, or -1. */
static int32_t newlines(const struct lm_vocab *v, const char *p, size_t n)
{
    int32_t id = lm_vocab_find(v, p, n);
    return id >= 0 && v->type[id] != LM_TOKEN_CONTROL ? id : -1;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    for (const char *end = p + len, *q; p < end; p = q, first = false) {
        bool lines = *p == '\n';
        q = p + run(p, end);
        int32_t id = lines ? newlines(e->v, p, (size_t)(q - p)) : -1;
        int s = LM_OK;
        if (id < 0)
            s = lm_marked_encode(e, p, (size_t)(q - p), first, err);
        else if (!lm_encoder_put(e, id, (size_t)(q - p)))
            s = lm_fail_nomem(err);
        if (s != LM_OK || (s = lm_encoder_pass(e, err)))
            return s;
    }
    return LM_OK;
}

/* Of a run of newlines only the whole can be a piece. */
static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    const char *p = t->text.data, *end = p + t->text.len;
    int s = LM_OK;
    while (p < end && s == LM_OK) {
        size_t n = run(p, end), done = 0;
        bool lines = *p == '\n', goes_on = more && p + n == end;
        if (goes_on && lines && !t->model.in_lines && n <= e->v->longest)
            break;
        int32_t id = lines && !t->model.in_lines ? newlines(e->v, p, n) : -1;
        if (id < 0) {
            s = lm_marked_part(e, p, n, goes_on, &t->first, &done, err);
            t->model.in_lines = goes_on && lines && (done || t->model.in_lines);
        } else if (!lm_encoder_put(e, id, done = n)) {
            s = lm_fail_nomem(err);
        }
        t->first &= id < 0;
        p += done;
        if (s != LM_OK || (s = lm_encoder_pass(e, err)) || done < n)
            break;
    }
    lm_buf_drop(&t->text, (size_t)(p - t->text.data));
    return s;
}

const struct lm_tok_model lm_tok_gemma4 = {
    .name = "gemma4", .bos = -1, .eos = -1, .unk = -1, .add_bos = true, .load = load,
    .encode = encode, .part = part, .encode_word = lm_merge,
};
