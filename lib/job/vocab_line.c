/* SPDX-License-Identifier: MIT */
#include "job/vocab_line.h"

#include <inttypes.h>
#include <string.h>

#include "gguf/gguf_text.h"
#include "vocab/vocab.h"

/* Element i of an array of numbers, if there is one for each of n tokens. */
static void token_column(struct lm_buf *out, const struct lm_gguf *g, const char *key, uint64_t n,
                         uint64_t i)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    if (kv && kv->kind == LM_GGUF_ARR && kv->arr.n == n && kv->arr.kind != LM_GGUF_STR &&
        kv->arr.kind != LM_GGUF_ARR)
        lm_gguf_element_raw(out, &kv->arr, i);
    else
        lm_buf_byte(out, '-');
}

/* A type by its name, any other number as it is. */
static void token_type(struct lm_buf *out, const struct lm_gguf *g, uint64_t n, uint64_t i)
{
    struct lm_gguf_arr a;
    int32_t type = 0;
    if (lm_gguf_arr(g, "tokenizer.ggml.token_type", LM_GGUF_I32, &a, NULL) == LM_OK && a.n == n)
        type = ((const int32_t *)a.data)[i];
    if (type >= LM_TOKEN_NORMAL && type <= LM_TOKEN_BYTE)
        lm_buf_str(out, lm_token_type_name((enum lm_token_type)type));
    else
        token_column(out, g, "tokenizer.ggml.token_type", n, i);
}

/* What an id is named as by keys tokenizer.ggml.NAME_token_id: the names. */
static void token_uses(struct lm_buf *out, const struct lm_gguf *g, uint64_t id)
{
    static const char head[] = "tokenizer.ggml.", tail[] = "_token_id";
    const char *between = "\t";
    for (uint64_t k = 0; k < g->n_kv; k++) {
        const struct lm_str *key = &g->kv[k].key;
        int64_t value;
        if (key->len <= sizeof head - 1 + sizeof tail - 1 ||
            memcmp(key->p, head, sizeof head - 1) ||
            memcmp(key->p + key->len - (sizeof tail - 1), tail, sizeof tail - 1) ||
            lm_gguf_i64(g, key->p, &value, NULL) != LM_OK || value < 0 || (uint64_t)value != id)
            continue;
        lm_buf_str(out, between);
        lm_buf_escape(out, key->p + sizeof head - 1, key->len - (sizeof head + sizeof tail - 2));
        between = ",";
    }
}

void lm_vocab_line(struct lm_buf *out, const struct lm_gguf *g, const struct lm_gguf_arr *tokens,
                   uint64_t id)
{
    const struct lm_str *text = (const struct lm_str *)tokens->data + id;
    lm_buf_printf(out, "%" PRIu64 "\t", id);
    token_type(out, g, tokens->n, id);
    lm_buf_byte(out, '\t');
    token_column(out, g, "tokenizer.ggml.scores", tokens->n, id);
    lm_buf_byte(out, '\t');
    lm_buf_escape(out, text->p, text->len);
    token_uses(out, g, id);
    lm_buf_byte(out, '\n');
}
