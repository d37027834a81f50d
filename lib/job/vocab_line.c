/* SPDX-License-Identifier: MIT */
#include "job/vocab_line.h"

#include <inttypes.h>
#include <string.h>

#include "gguf/gguf_text.h"
#include "vocab/vocab.h"

/* An array of numbers with one for each of n tokens, or NULL. */
static const struct lm_gguf_arr *column(const struct lm_gguf *g, const char *key, uint64_t n)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    const bool one = kv && kv->kind == LM_GGUF_ARR && kv->arr.n == n &&
                     kv->arr.kind != LM_GGUF_STR && kv->arr.kind != LM_GGUF_ARR;
    return one ? &kv->arr : NULL;
}

/* The name of token i's type; NULL for a number that has none. */
static const char *type_name(const struct lm_gguf_arr *types, uint64_t i)
{
    int32_t type = 0;
    if (types && types->kind == LM_GGUF_I32)
        type = ((const int32_t *)types->data)[i];
    return type >= LM_TOKEN_NORMAL && type <= LM_TOKEN_BYTE
               ? lm_token_type_name((enum lm_token_type)type) : NULL;
}

/* Does entry k, tokenizer.ggml.NAME_token_id, name an id?  NAME is *use. */
static bool names_id(const struct lm_gguf *g, uint64_t k, uint64_t id, struct lm_str *use)
{
    static const char head[] = "tokenizer.ggml.", tail[] = "_token_id";
    const struct lm_str *key = &g->kv[k].key;
    int64_t value;
    if (key->len <= sizeof head - 1 + sizeof tail - 1 ||
        memcmp(key->p, head, sizeof head - 1) ||
        memcmp(key->p + key->len - (sizeof tail - 1), tail, sizeof tail - 1) ||
        lm_gguf_i64(g, key->p, &value, NULL) != LM_OK || value < 0 || (uint64_t)value != id)
        return false;
    *use = (struct lm_str){ key->p + sizeof head - 1, key->len - (sizeof head + sizeof tail - 2) };
    return true;
}

void lm_vocab_line(struct lm_buf *out, const struct lm_gguf *g, const struct lm_gguf_arr *tokens,
                   uint64_t id)
{
    const struct lm_str *text = (const struct lm_str *)tokens->data + id;
    const struct lm_gguf_arr *types = column(g, "tokenizer.ggml.token_type", tokens->n);
    const struct lm_gguf_arr *scores = column(g, "tokenizer.ggml.scores", tokens->n);
    const char *type = type_name(types, id), *between = "\t";
    struct lm_str use;
    lm_buf_printf(out, "%" PRIu64 "\t", id);
    if (type || !types)
        lm_buf_str(out, type ? type : "-");
    else
        lm_gguf_element_raw(out, types, id);
    lm_buf_byte(out, '\t');
    if (scores)
        lm_gguf_element_raw(out, scores, id);
    else
        lm_buf_byte(out, '-');
    lm_buf_byte(out, '\t');
    lm_buf_escape(out, text->p, text->len);
    for (uint64_t k = 0; k < g->n_kv; k++)
        if (names_id(g, k, id, &use)) {
            lm_buf_str(out, between);
            lm_buf_escape(out, use.p, use.len);
            between = ",";
        }
    lm_buf_byte(out, '\n');
}

void lm_vocab_json(struct lm_buf *out, const struct lm_gguf *g, const struct lm_gguf_arr *tokens,
                   uint64_t id)
{
    const struct lm_gguf_arr *types = column(g, "tokenizer.ggml.token_type", tokens->n);
    const struct lm_gguf_arr *scores = column(g, "tokenizer.ggml.scores", tokens->n);
    const char *type = type_name(types, id), *between = ",\"uses\":[";
    struct lm_str use;
    lm_buf_printf(out, "{\"id\":%" PRIu64, id);
    if (types)
        lm_buf_str(out, ",\"type\":");
    if (type)
        lm_buf_printf(out, "\"%s\"", type);
    else if (types)
        lm_gguf_element_json(out, types, id);
    if (scores) {
        lm_buf_str(out, ",\"score\":");
        lm_gguf_element_json(out, scores, id);
    }
    lm_buf_str(out, ",\"text\":");
    lm_gguf_str_json(out, (const struct lm_str *)tokens->data + id);
    for (uint64_t k = 0; k < g->n_kv; k++)
        if (names_id(g, k, id, &use)) {
            lm_buf_str(out, between);
            lm_gguf_str_json(out, &use);
            between = ",";
        }
    lm_buf_str(out, *between == ',' && between[1] ? "}\n" : "]}\n");
}
