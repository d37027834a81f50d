/* SPDX-License-Identifier: MIT */
/* The vocabulary in a GGUF file: its keys tokenizer.ggml.*, checked. */
#include <string.h>

#include "vocab/vocab_rules.h"

#define KEY(name) "tokenizer.ggml." name

static int text(const struct lm_gguf *g, const char *key, struct lm_str *out, struct lm_err *err)
{
    int s = lm_gguf_str(g, key, out, err);
    return s == 1 ? LM_OK : s;
}

/* An array with an element for each piece; *out stays NULL when it is not there. */
static int column(const struct lm_gguf *g, const char *key, enum lm_gguf_kind kind, uint64_t n,
                  const void **out, struct lm_err *err)
{
    struct lm_gguf_arr a;
    int s = lm_gguf_arr(g, key, kind, &a, err);
    if (s != LM_OK)
        return s == 1 ? LM_OK : s;
    if (a.n != n)
        return lm_fail(err, LM_EDATA, "%s has %llu entries, not %llu, one a token", key,
                       (unsigned long long)a.n, (unsigned long long)n);
    *out = a.data;
    return LM_OK;
}

static int pieces(const struct lm_gguf *g, struct lm_vocab_src *src, struct lm_err *err)
{
    struct lm_gguf_arr a;
    const void *types = NULL, *scores = NULL;
    int s = lm_gguf_arr(g, KEY("tokens"), LM_GGUF_STR, &a, err);
    if (s == 1)
        return lm_fail(err, LM_EDATA, KEY("tokens") " is missing");
    if (s != LM_OK)
        return s;
    src->tokens = a.data;
    src->n = a.n;
    src->slack = !g->given;
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, KEY("scores"));
    bool ints = kv && kv->kind == LM_GGUF_ARR && kv->arr.kind == LM_GGUF_I32;
    if ((s = column(g, KEY("token_type"), LM_GGUF_I32, a.n, &types, err)) ||
        (s = column(g, KEY("scores"), ints ? LM_GGUF_I32 : LM_GGUF_F32, a.n, &scores, err)))
        return s;
    src->types = types;
    src->scores = ints ? NULL : scores;
    src->int_scores = ints ? scores : NULL;
    s = lm_gguf_arr(g, KEY("merges"), LM_GGUF_STR, &a, err);
    if (s == LM_OK) {
        src->merges = a.data;
        src->n_merges = a.n;
    }
    return s == 1 ? LM_OK : s;
}

static int id(const struct lm_gguf *g, const char *key, uint64_t n, int32_t *out,
              struct lm_err *err)
{
    int64_t x = -1;
    int s = lm_gguf_i64(g, key, &x, err);
    if (s != LM_OK)
        return s == 1 ? LM_OK : s;
    if (x < 0 || (uint64_t)x >= n)
        return lm_fail(err, LM_EDATA, "%s is %lld, out of range: the vocabulary has %llu entries",
                       key, (long long)x, (unsigned long long)n);
    *out = (int32_t)x;
    return LM_OK;
}

static int flag(const struct lm_gguf *g, const char *key, int *out, struct lm_err *err)
{
    bool x;
    int s = lm_gguf_bool(g, key, &x, err);
    if (s == LM_OK)
        *out = x;
    return s == 1 ? LM_OK : s;
}

static int charsmap(const struct lm_gguf *g, struct lm_str *out, struct lm_err *err)
{
    static const char key[] = KEY("precompiled_charsmap");
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    struct lm_gguf_arr a;
    bool is_signed = kv && kv->kind == LM_GGUF_ARR && kv->arr.kind == LM_GGUF_I8;
    int s = lm_gguf_arr(g, key, is_signed ? LM_GGUF_I8 : LM_GGUF_U8, &a, err);
    if (s == LM_OK)
        *out = (struct lm_str){ a.data, (size_t)a.n };
    return s == 1 ? LM_OK : s;
}

static int fill_in(const struct lm_gguf *g, struct lm_vocab_src *src, struct lm_err *err)
{
    /* older and newer names */
    static const char *const keys[LM_N_FIM][2] = {
        [LM_FIM_PRE] = { KEY("prefix_token_id"), KEY("fim_pre_token_id") },
        [LM_FIM_SUF] = { KEY("suffix_token_id"), KEY("fim_suf_token_id") },
        [LM_FIM_MID] = { KEY("middle_token_id"), KEY("fim_mid_token_id") },
        [LM_FIM_PAD] = { NULL, KEY("fim_pad_token_id") },
        [LM_FIM_REP] = { NULL, KEY("fim_rep_token_id") },
        [LM_FIM_SEP] = { NULL, KEY("fim_sep_token_id") },
    };
    for (int k = 0; k < LM_N_FIM; k++)
        for (int i = 0; i < 2; i++) {
            int32_t x = src->fim_1[k] - 1;
            int s = keys[k][i] ? id(g, keys[k][i], src->n, &x, err) : LM_OK;
            if (s != LM_OK)
                return s;
            src->fim_1[k] = x + 1;
        }
    return LM_OK;
}

/* Keys that only some models have. */
static int own_keys(const struct lm_gguf *g, struct lm_vocab_src *src, struct lm_err *err)
{
    int s;
    if ((s = flag(g, KEY("remove_extra_whitespaces"), &src->extra_spaces, err)) ||
        (s = flag(g, KEY("normalizer.lowercase"), &src->lowercase, err)) ||
        (s = flag(g, KEY("normalizer.strip_accents"), &src->strip_accents, err)) ||
        (s = id(g, KEY("seperator_token_id"), src->n, &src->sep, err)) ||
        (s = fill_in(g, src, err)))
        return s;
    return charsmap(g, &src->charsmap, err);
}

static bool is(struct lm_str s, const char *want)
{
    return s.len == strlen(want) && memcmp(s.p, want, s.len) == 0;
}

bool lm_vocab_absent(const struct lm_gguf *g)
{
    struct lm_str model;
    int s = lm_gguf_str(g, KEY("model"), &model, NULL);
    return s == 1 || (s == LM_OK && (is(model, "none") || is(model, "no_vocab")));
}

static int read_keys(const struct lm_gguf *g, struct lm_vocab_src *src, struct lm_err *err)
{
    int s;
    if ((s = text(g, KEY("model"), &src->model, err)))
        return s;
    if (lm_vocab_absent(g))
        return lm_fail(err, LM_EDATA, "there is no vocabulary: " KEY("model") " is %s",
                       src->model.len ? src->model.p : "missing");
    if ((s = text(g, KEY("pre"), &src->pre, err)) ||
        (s = text(g, "general.name", &src->name, err)))
        return s;
    /* a model of another kind has keys of its own: refuse it by its name first */
    const struct lm_tok_model *m = lm_tok_model_find(src->model.p, src->model.len);
    if (!m || m->json_only)
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%.*s' is not supported",
                       (int)(src->model.len < 64 ? src->model.len : 64), src->model.p);
    if ((s = pieces(g, src, err)) ||
        (s = id(g, KEY("bos_token_id"), src->n, &src->bos, err)) ||
        (s = id(g, KEY("eos_token_id"), src->n, &src->eos, err)) ||
        (s = id(g, KEY("unknown_token_id"), src->n, &src->unk, err)) ||
        (s = id(g, KEY("eot_token_id"), src->n, &src->eot, err)) ||
        (s = id(g, KEY("eom_token_id"), src->n, &src->eom, err)) ||
        (s = flag(g, KEY("add_bos_token"), &src->add_bos, err)) ||
        (s = flag(g, KEY("add_eos_token"), &src->add_eos, err)) ||
        (s = flag(g, KEY("add_space_prefix"), &src->space_prefix, err)))
        return s;
    return own_keys(g, src, err);
}

/* Some pre-tokenizers of "gpt2" are not for bytes: they say that the model is another. */
static int model_by_pre(struct lm_vocab_src *src, struct lm_err *err)
{
    if (!is(src->model, "gpt2"))
        return LM_OK;
    if (is(src->pre, "gemma4") || is(src->pre, "granite-embed-multi-311m")) {
        src->model = (struct lm_str){ "gemma4", 6 };
        if (src->add_bos == LM_UNSAID)
            src->add_bos = is(src->pre, "gemma4");
        return LM_OK;
    }
    int s = lm_rules_named(src->pre.p, src->pre.len, src->lowercase == 1, &src->rules, err);
    if (s == LM_OK && src->rules)
        src->model = (struct lm_str){ "rules", 5 };
    return s;
}

struct lm_vocab *lm_vocab_from_gguf(const struct lm_gguf *g, const struct lm_env *env,
                                    struct lm_err *err)
{
    struct lm_vocab_src src = LM_VOCAB_SRC;
    src.lacks[LM_NAMED_BOS] = KEY("bos_token_id") " is missing";
    src.lacks[LM_NAMED_EOS] = KEY("eos_token_id") " is missing";
    src.lacks[LM_NAMED_SEP] = KEY("seperator_token_id") " is missing, and there is no piece [SEP]";
    return read_keys(g, &src, err) == LM_OK && model_by_pre(&src, err) == LM_OK
               ? lm_vocab_load(&src, env, err) : NULL;
}
