/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary in a tokenizer.json, the Hugging Face library's file: BPE of bytes, or of
 * characters with bytes to fall back on.  Each part of the file says by its type what it
 * does; a type that is not done here the way the library does it is refused by its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab_parts.h"
#include "vocab/tokenizer.h"

static const char mark[] = "\xE2\x96\x81";       /* U+2581 */

/* What is built up. */
struct reading {
    struct lm_tokenizer_json t;
    struct lm_hf_vocab       h;                  /* pieces, types, merges            */
    struct lm_vocab_src      src;
    uint8_t                 *attr;
    bool                     by_bytes, replace, prepend;
    bool                     seen_text;          /* of a template                    */
};

static const char *type_of(const struct lm_jval *v)
{
    const char *s = lm_jval_str(lm_jval_get(v, "type"));
    return s ? s : "";
}

static bool is(const struct lm_jval *v, const char *want)
{
    const char *s = lm_jval_str(v);
    return s && v->len == strlen(want) && strcmp(s, want) == 0;
}

static bool flag(const struct lm_jval *v, const char *key, bool otherwise)
{
    lm_jval_bool(lm_jval_get(v, key), &otherwise);
    return otherwise;
}

static int refuse(const char *part, const struct lm_jval *v, struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "%s '%.60s' is not supported", part, type_of(v));
}

/* Walk a part that may be a sequence of such: `each` is called for the ones that are not. */
static int walk(struct reading *r, const struct lm_jval *v, const char *list, int depth,
                int (*each)(struct reading *r, const struct lm_jval *v, struct lm_err *err),
                struct lm_err *err)
{
    if (!v || v->kind == LM_JSON_NULL)
        return LM_OK;
    if (strcmp(type_of(v), "Sequence") != 0)
        return each(r, v, err);
    if (depth > 8)
        return lm_fail(err, LM_ENOSUP, "%s in each other", list);
    const struct lm_jval *x = lm_jval_get(v, list);
    int s = LM_OK;
    for (x = x ? x->first : NULL; x && s == LM_OK; x = x->next)
        s = walk(r, x, list, depth + 1, each, err);
    return s;
}

static int normalizer(struct reading *r, const struct lm_jval *v, struct lm_err *err)
{
    const char *type = type_of(v);
    if (strcmp(type, "NFC") == 0)
        r->src.nfc = 1;
    else if (strcmp(type, "Prepend") == 0 && is(lm_jval_get(v, "prepend"), mark) && !r->replace)
        r->prepend = true;
    else if (strcmp(type, "Replace") == 0 && is(lm_jval_get(v, "content"), mark) &&
             is(lm_jval_get(lm_jval_get(v, "pattern"), "String"), " "))
        r->replace = true;
    else
        return refuse("normalizer", v, err);
    return LM_OK;
}

/* Only whether bytes are pieces, here; lm_hf_pretok_name knows the rest. */
static int pre_tokenizer(struct reading *r, const struct lm_jval *v, struct lm_err *err)
{
    if (strcmp(type_of(v), "ByteLevel") != 0)
        return LM_OK;
    r->by_bytes = true;
    if (flag(v, "add_prefix_space", true))
        return lm_fail(err, LM_ENOSUP, "pre-tokenizer 'ByteLevel' with add_prefix_space is not "
                       "supported");
    return LM_OK;
}

/* The id of a template's special token. */
static int template_id(const struct reading *r, const struct lm_jval *piece, int32_t *id,
                       struct lm_err *err)
{
    const struct lm_jval *name = lm_jval_get(piece, "id");
    for (uint32_t i = 0; name && lm_jval_str(name) && i < r->h.n; i++)
        if (r->h.pieces[i].len == name->len &&
            memcmp(r->h.pieces[i].p, name->str, name->len) == 0) {
            *id = (int32_t)i;
            return LM_OK;
        }
    return lm_fail(err, LM_EDATA, "post_processor: a special token that is not in the vocabulary");
}

/* A template for one text: at most one token before it and one behind. */
static int post_processor(struct reading *r, const struct lm_jval *v, struct lm_err *err)
{
    if (strcmp(type_of(v), "ByteLevel") == 0)    /* only moves offsets */
        return LM_OK;
    const struct lm_jval *x = lm_jval_get(v, "single");
    if (strcmp(type_of(v), "TemplateProcessing") != 0 || !x || r->seen_text)
        return refuse("post_processor", v, err);
    for (x = x->first; x; x = x->next) {
        const struct lm_jval *token = lm_jval_get(x, "SpecialToken");
        if (!token) {
            if (r->seen_text)
                return lm_fail(err, LM_ENOSUP, "post_processor: the text twice");
            r->seen_text = true;
            continue;
        }
        int *add = r->seen_text ? &r->src.add_eos : &r->src.add_bos;
        if (*add == 1)
            return lm_fail(err, LM_ENOSUP, "post_processor: two tokens beside each other");
        *add = 1;
        int s = template_id(r, token, r->seen_text ? &r->src.eos : &r->src.bos, err);
        if (s != LM_OK)
            return s;
    }
    return LM_OK;
}

/* The pieces of the model, and those added to it. */
static int pieces(struct reading *r, struct lm_err *err)
{
    struct lm_hf_vocab *h = &r->h;
    h->model = "gpt2";                           /* says only that there are merges */
    h->n = (uint32_t)r->t.n_ids;
    h->pieces = lm_arena_array(&h->arena, h->n, sizeof *h->pieces);
    h->types = lm_arena_array(&h->arena, h->n, sizeof *h->types);
    r->attr = lm_arena_array(&h->arena, h->n, 1);
    if (!h->pieces || !h->types || !r->attr)
        return lm_fail_nomem(err);
    int s = lm_tokenizer_json_pieces(h, &r->t, err);
    if (s != LM_OK)
        return s;
    const struct lm_jval *x = r->t.added ? r->t.added->first : NULL;
    for (; x; x = x->next) {
        const struct lm_jval *content = lm_jval_get(x, "content");
        int64_t id = -1;
        lm_jval_i64(lm_jval_get(x, "id"), &id);
        if (id < 0 || id >= h->n || !lm_jval_str(content) || !content->len)
            return lm_fail(err, LM_EDATA, "added_tokens: an entry without id or content");
        if (flag(x, "single_word", false))
            return lm_fail(err, LM_ENOSUP, "added token '%.60s': single_word is not supported",
                           content->str);
        if (flag(x, "normalized", false) && (r->replace || r->prepend))
            return lm_fail(err, LM_ENOSUP, "added token '%.60s': normalized is not supported "
                           "where spaces are replaced", content->str);
        h->pieces[id] = (struct lm_str){ content->str, content->len };
        h->types[id] = flag(x, "special", false) ? LM_TOKEN_CONTROL : LM_TOKEN_USER;
        r->attr[id] = (uint8_t)((flag(x, "lstrip", false) ? LM_ATTR_LSTRIP : 0) |
                                (flag(x, "rstrip", false) ? LM_ATTR_RSTRIP : 0));
    }
    for (uint32_t i = 0; i < h->n; i++)
        if (!h->pieces[i].p) {
            h->pieces[i] = (struct lm_str){ "", 0 };
            h->types[i] = LM_TOKEN_UNUSED;
        } else if (!r->by_bytes && h->types[i] == LM_TOKEN_NORMAL && h->pieces[i].len == 6 &&
                   memcmp(h->pieces[i].p, "<0x", 3) == 0) {
            h->types[i] = LM_TOKEN_BYTE;
        }
    return LM_OK;
}

/* The kind of model, and what its parts must be for it. */
static int kind(struct reading *r, struct lm_err *err)
{
    const struct lm_jval *pre = r->t.pre_tokenizer;
    if (r->t.type[0] && strcmp(r->t.type, "BPE") != 0)
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s' is not supported", r->t.type);
    if (r->t.affixes)
        return lm_fail(err, LM_ENOSUP, "BPE with prefixes or suffixes of words is not supported");
    if (r->by_bytes) {
        if (r->replace || r->prepend)
            return lm_fail(err, LM_ENOSUP, "byte-level BPE of marked spaces is not supported");
        const char *name = lm_hf_pretok_name(pre, r->t.ignore_merges);
        if (!name)
            return lm_fail(err, LM_ENOSUP, "the pre-tokenizer is none that is supported");
        r->src.model = (struct lm_str){ "gpt2", 4 };
        r->src.pre = (struct lm_str){ name, strlen(name) };
        r->src.nfc = r->src.nfc == 1;
        r->src.whole_words = r->t.ignore_merges;
        return LM_OK;
    }
    if (!r->replace)
        return lm_fail(err, LM_ENOSUP, "BPE of neither bytes nor marked spaces is not supported");
    if (r->src.nfc == 1)
        return lm_fail(err, LM_ENOSUP, "normalizer 'NFC' before marked spaces is not supported");
    if (r->t.ignore_merges)
        return lm_fail(err, LM_ENOSUP, "ignore_merges without bytes is not supported");
    /* Spaces are marks by then: cutting at them finds none */
    if (pre && pre->kind != LM_JSON_NULL &&
        !(strcmp(type_of(pre), "Split") == 0 &&
          is(lm_jval_get(lm_jval_get(pre, "pattern"), "String"), " ")))
        return refuse("pre_tokenizer", pre, err);
    r->src.model = (struct lm_str){ "bpe", 3 };
    r->src.space_prefix = r->prepend;
    r->src.fuse_unk = r->t.fuse_unk;
    r->src.byte_fallback = r->t.byte_fallback;
    return LM_OK;
}

static int read_all(struct reading *r, struct lm_err *err)
{
    int s;
    if ((s = lm_tokenizer_json_parse(&r->t, &r->h.arena, err)) ||
        (s = walk(r, r->t.normalizer, "normalizers", 0, normalizer, err)) ||
        (s = walk(r, r->t.pre_tokenizer, "pretokenizers", 0, pre_tokenizer, err)) ||
        (s = kind(r, err)) || (s = pieces(r, err)))
        return s;
    r->src.add_bos = r->src.add_eos = 0;
    if ((s = walk(r, r->t.post_processor, "processors", 0, post_processor, err)))
        return s;
    r->src.tokens = r->h.pieces;
    r->src.types = r->h.types;
    r->src.n = r->h.n;
    r->src.attr = r->attr;
    r->src.merges = r->h.merges;
    r->src.n_merges = r->h.n_merges;
    for (uint32_t i = 0; r->t.unk[0] && i < r->h.n; i++)
        if (r->h.pieces[i].len == strlen(r->t.unk) &&
            memcmp(r->h.pieces[i].p, r->t.unk, r->h.pieces[i].len) == 0)
            r->src.unk = (int32_t)i;
    return LM_OK;
}

struct lm_vocab *lm_vocab_from_json(const char *text, size_t len, const struct lm_env *env,
                                    struct lm_err *err)
{
    struct reading r = { .t = { .text = (char *)text, .len = len }, .src = LM_VOCAB_SRC };
    struct lm_vocab *v = read_all(&r, err) == LM_OK ? lm_vocab_load(&r.src, env, err) : NULL;
    lm_arena_release(&r.h.arena);
    return v;
}
