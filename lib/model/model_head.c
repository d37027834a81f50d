/* SPDX-License-Identifier: MIT */
/* What a logits stream's header says of a model. */
#include "model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "vocab/vocab.h"

static char *copy(const char *p, size_t n)
{
    char *s = malloc(n + 1);
    if (s) {
        memcpy(s, p, n);
        s[n] = 0;
    }
    return s;
}

/* One of general.sampling.*: numbers, booleans and text; nothing there has another kind. */
static bool add_value(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    switch (kv->kind) {
    case LM_GGUF_U8: case LM_GGUF_U16: case LM_GGUF_U32: case LM_GGUF_U64:
        lm_buf_printf(b, "%" PRIu64, kv->u);
        return true;
    case LM_GGUF_I8: case LM_GGUF_I16: case LM_GGUF_I32: case LM_GGUF_I64:
        lm_buf_printf(b, "%" PRId64, kv->i);
        return true;
    case LM_GGUF_F32:
        lm_json_f32(b, (float)kv->f);
        return true;
    case LM_GGUF_F64:
        lm_json_f64(b, kv->f);
        return true;
    case LM_GGUF_BOOL:
        lm_buf_str(b, kv->u ? "true" : "false");
        return true;
    case LM_GGUF_STR:
        lm_json_quote(b, kv->str.p, kv->str.len);
        return true;
    default:
        return false;
    }
}

/* The model's own defaults as an object, named as the keys after general.sampling. */
static char *sampling_of(const struct lm_gguf *g)
{
    static const char prefix[] = "general.sampling.";
    size_t n = sizeof prefix - 1, members = 0;
    struct lm_buf b = {0};
    lm_buf_byte(&b, '{');
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct lm_gguf_kv *kv = &g->kv[i];
        if (kv->key.len <= n || memcmp(kv->key.p, prefix, n) != 0)
            continue;
        size_t start = b.len;
        if (members)
            lm_buf_byte(&b, ',');
        lm_json_quote(&b, kv->key.p + n, kv->key.len - n);
        lm_buf_byte(&b, ':');
        if (add_value(&b, kv))
            members++;
        else
            b.len = start;
    }
    lm_buf_byte(&b, '}');
    char *s = b.failed ? NULL : copy(b.data, b.len);
    lm_buf_release(&b);
    return s;
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* A model without a vocabulary, or with one that this version cannot use, still names its
 * special ids in the metadata. */
static int special_ids_of(struct lm_logits_head *h, const struct lm_gguf *g, struct lm_err *err)
{
    static const char *const ends[] = {"eos", "eot", "eom"};
    int64_t n_vocab = h->n_vocab;
    bool add_bos = false;
    h->eog = lm_malloc_array(sizeof ends / sizeof *ends, sizeof *h->eog);
    if (!h->eog)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[64];
        int64_t id = -1;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", ends[i]);
        int s = lm_gguf_i64(g, key, &id, err);
        if (s < 0)
            return s;
        bool known = id < 0 || id >= n_vocab;
        for (size_t k = 0; k < h->n_eog; k++)
            known |= h->eog[k] == id;
        if (!known)
            h->eog[h->n_eog++] = (int32_t)id;
        if (i == 0)
            h->eos = id;
    }
    qsort(h->eog, h->n_eog, sizeof *h->eog, by_value);
    int s = lm_gguf_i64(g, "tokenizer.ggml.bos_token_id", &h->bos, err);
    if (s >= 0)
        s = lm_gguf_bool(g, "tokenizer.ggml.add_bos_token", &add_bos, err);
    h->add_bos = add_bos;
    return s < 0 ? s : LM_OK;
}

static int vocabulary_of(struct lm_logits_head *h, const struct lm_vocab *v, struct lm_err *err)
{
    size_t n;
    const int32_t *eog = lm_vocab_eog(v, &n);
    h->bos = lm_vocab_bos(v);
    h->eos = lm_vocab_eos(v);
    h->add_bos = lm_vocab_add_bos(v);
    h->eog = lm_malloc_array(n, sizeof *h->eog);
    if (!h->eog)
        return lm_fail_nomem(err);
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)eog[i] < h->n_vocab)      /* ids without a row are never drawn */
            h->eog[h->n_eog++] = eog[i];
    return LM_OK;
}

/* What the model says is never to be drawn. */
static int suppressed_by(struct lm_logits_head *h, const struct lm_gguf *g, struct lm_err *err)
{
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    struct lm_gguf_arr a;
    bool is_unsigned = kv && kv->kind == LM_GGUF_ARR && kv->arr.kind == LM_GGUF_U32;
    int s = lm_gguf_arr(g, key, is_unsigned ? LM_GGUF_U32 : LM_GGUF_I32, &a, err);
    if (s != LM_OK)
        return s == 1 ? LM_OK : s;
    h->suppress = lm_copy_array(a.data, (size_t)a.n, sizeof *h->suppress);
    if (!h->suppress)
        return lm_fail_nomem(err);
    size_t n = 0;
    qsort(h->suppress, (size_t)a.n, sizeof *h->suppress, by_value);
    for (size_t i = 0; i < a.n; i++) {
        const int32_t id = h->suppress[i];
        if (id < 0 || (uint32_t)id >= h->n_vocab)
            return lm_fail(err, LM_EDATA, "%s names id %d, out of range: the vocabulary has %u "
                           "entries", key, (int)id, (unsigned)h->n_vocab);
        if (!n || h->suppress[n - 1] != id)
            h->suppress[n++] = id;
    }
    h->n_suppress = n;
    return LM_OK;
}

int lm_model_head(const struct lm_model *m, const char *name, const struct lm_env *env,
                  struct lm_logits_head *h, struct lm_err *err)
{
    const struct lm_gguf *g = lm_model_gguf(m);
    const char *arch = lm_model_arch(m);
    struct lm_str title = {name, strlen(name)};
    struct lm_err why;
    *h = (struct lm_logits_head){.n_vocab = lm_model_n_vocab(m), .bos = -1, .eos = -1,
                                 .decoder_start = -1};
    int s = lm_gguf_str(g, "general.name", &title, err);
    if (s >= 0)
        s = lm_model_decoder_start(m, &h->decoder_start, err);
    if (s < 0)
        return s;
    h->model = copy(title.p, title.len);
    h->arch = copy(arch, strlen(arch));
    h->sampling = sampling_of(g);
    if (!h->model || !h->arch || !h->sampling)
        return lm_fail_nomem(err);

    const bool none = lm_vocab_absent(g);
    struct lm_vocab *v = none ? NULL : lm_vocab_from_gguf(g, env, &why);
    if (!v && !none && why.code != LM_ENOSUP) {
        if (err)
            *err = why;
        return why.code;
    }
    s = v ? vocabulary_of(h, v, err) : special_ids_of(h, g, err);
    lm_vocab_free(v);
    return s == LM_OK ? suppressed_by(h, g, err) : s;
}
