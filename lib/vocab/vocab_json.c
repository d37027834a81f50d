/* SPDX-License-Identifier: MIT */
/*
 * The vocabulary in a tokenizer.json, the Hugging Face library's file.  Each part of the file
 * says by its type what it does; a type that is not done here the way the library does it is
 * refused by its name.
 *
 * All of them can be followed as they stand (vocab_rules.c).  The families that most models
 * belong to, BPE of bytes and of characters with marks for spaces, are recognised by their
 * rules and given to the models that GGUF files have, which are faster.
 */
#include <stdlib.h>
#include <string.h>

#include "hf/hf_vocab_parts.h"
#include "hf/tokenizer_fields.h"
#include "vocab/vocab_rules.h"

static const char mark[] = "\xE2\x96\x81";       /* U+2581 */

enum { MAX_ADDED_IDS = 64 };

/* What is built up. */
struct reading {
    struct lm_tokenizer_json t;
    struct lm_hf_vocab       h;                  /* pieces, types, scores            */
    struct lm_vocab_src      src;
    struct lm_rules         *rules;
    struct lm_pretok         pretok;             /* BPE of bytes: its steps          */
    uint8_t                 *attr;
    uint32_t                 n_raw, n_normalized;        /* added tokens             */
    int32_t                  before[MAX_ADDED_IDS], after[MAX_ADDED_IDS];
    size_t                   n_before, n_after;
};

static bool flag(const struct lm_jval *v, const char *key, bool otherwise)
{
    lm_jval_bool(lm_jval_get(v, key), &otherwise);
    return otherwise;
}

static bool is(struct lm_str s, const char *want)
{
    return s.len == strlen(want) && memcmp(s.p, want, s.len) == 0;
}

/* ---- pieces --------------------------------------------------------------------------- */

/* An added token over the piece of its id.  Of one that is there twice the second counts, but it
 * is special if either is. */
static int lay_added(struct reading *r, const struct lm_jval *x, struct lm_err *err)
{
    struct lm_hf_vocab *h = &r->h;
    const struct lm_jval *content = lm_jval_get(x, "content");
    int64_t id = 0;
    lm_jval_i64(lm_jval_get(x, "id"), &id);      /* in range: the parser has seen to that */
    struct lm_str *piece = &h->pieces[id];
    int32_t *type = &h->types[id];
    bool again = *type == LM_TOKEN_CONTROL || *type == LM_TOKEN_USER;
    if (again && (piece->len != content->len || memcmp(piece->p, content->str, piece->len) != 0))
        return lm_fail(err, LM_EDATA, "added_tokens: id %lld is that of '%.60s' and of '%.60s'",
                       (long long)id, piece->p, content->str);
    unsigned added = *type ? again ? r->attr[id] & LM_ATTR_ADDED : 0 : LM_ATTR_ADDED;
    bool special = flag(x, "special", false) || *type == LM_TOKEN_CONTROL;
    *piece = (struct lm_str){ content->str, content->len };
    *type = special ? LM_TOKEN_CONTROL : LM_TOKEN_USER;
    r->attr[id] = (uint8_t)(added | (flag(x, "lstrip", false) ? LM_ATTR_LSTRIP : 0) |
                            (flag(x, "rstrip", false) ? LM_ATTR_RSTRIP : 0) |
                            (flag(x, "single_word", false) ? LM_ATTR_WORD : 0) |
                            (flag(x, "normalized", false) ? LM_ATTR_NORMALIZED : 0));
    return LM_OK;
}

/* The pieces of the model, and those added to it. */
static int pieces(struct reading *r, struct lm_err *err)
{
    struct lm_hf_vocab *h = &r->h;
    bool bpe = !r->t.type[0] || strcmp(r->t.type, "BPE") == 0;
    h->n = (uint32_t)r->t.n_ids;
    h->pieces = lm_arena_array(&h->arena, h->n, sizeof *h->pieces);
    h->types = lm_arena_array(&h->arena, h->n, sizeof *h->types);
    r->attr = lm_arena_array(&h->arena, h->n, 1);
    if (!h->pieces || !h->types || !r->attr)
        return lm_fail_nomem(err);
    int s = lm_tokenizer_json_lay(h, &r->t, err);
    const struct lm_jval *x = r->t.added ? r->t.added->first : NULL;
    for (; x && s == LM_OK; x = x->next)
        s = lay_added(r, x, err);
    for (uint32_t i = 0; s == LM_OK && i < h->n; i++)
        if (!h->pieces[i].p || (!h->pieces[i].len && h->types[i] != LM_TOKEN_NORMAL)) {
            h->pieces[i] = (struct lm_str){ "", 0 };
            h->types[i] = LM_TOKEN_UNUSED;
        } else if (bpe && r->t.byte_fallback && h->types[i] == LM_TOKEN_NORMAL &&
                   h->pieces[i].len == 6 && memcmp(h->pieces[i].p, "<0x", 3) == 0) {
            h->types[i] = LM_TOKEN_BYTE;
        } else if (h->types[i] == LM_TOKEN_CONTROL || h->types[i] == LM_TOKEN_USER) {
            ++*(r->attr[i] & LM_ATTR_NORMALIZED ? &r->n_normalized : &r->n_raw);
        }
    return s;
}

/* The id of a piece's text, or -1. */
static int32_t id_of(const struct reading *r, const char *text, size_t len)
{
    for (uint32_t i = 0; i < r->h.n; i++)
        if (r->h.pieces[i].len == len && r->h.types[i] != LM_TOKEN_UNUSED &&
            memcmp(r->h.pieces[i].p, text, len) == 0)
            return (int32_t)i;
    return -1;
}

/* ---- what is put around a text ----------------------------------------------------------- */

/* Tokens outside of those there are: in front of before[], behind after[]. */
static int add_before(struct reading *r, const int32_t *id, size_t n, struct lm_err *err)
{
    if (n > MAX_ADDED_IDS - r->n_before)
        return lm_fail(err, LM_ENOSUP, "post_processor: more than %d tokens",
                       (int)MAX_ADDED_IDS);
    memmove(r->before + n, r->before, r->n_before * sizeof *r->before);
    memcpy(r->before, id, n * sizeof *id);
    r->n_before += n;
    return LM_OK;
}

static int add_after(struct reading *r, const int32_t *id, size_t n, struct lm_err *err)
{
    if (n > MAX_ADDED_IDS - r->n_after)
        return lm_fail(err, LM_ENOSUP, "post_processor: more than %d tokens",
                       (int)MAX_ADDED_IDS);
    memcpy(r->after + r->n_after, id, n * sizeof *id);
    r->n_after += n;
    return LM_OK;
}

static int check_id(const struct reading *r, const struct lm_jval *x, int32_t *out,
                    struct lm_err *err)
{
    int64_t id = -1;
    if (!lm_jval_i64(x, &id) || id < 0 || id >= r->h.n)
        return lm_fail(err, LM_EDATA, "post_processor: an id that is not in the vocabulary");
    *out = (int32_t)id;
    return LM_OK;
}

/* "sep" or "cls": ["[SEP]", 102] */
static int named_id(const struct reading *r, const struct lm_jval *v, const char *key,
                    int32_t *out, struct lm_err *err)
{
    const struct lm_jval *x = lm_jval_get(v, key);
    return check_id(r, x && x->first ? x->first->next : NULL, out, err);
}

static int cls_sep(struct reading *r, const struct lm_jval *v, struct lm_err *err)
{
    int32_t cls, sep;
    int s;
    if ((s = named_id(r, v, "cls", &cls, err)) || (s = named_id(r, v, "sep", &sep, err)) ||
        (s = add_before(r, &cls, 1, err)))
        return s;
    return add_after(r, &sep, 1, err);
}

/* The ids of a template's special token, appended. */
static int template_ids(const struct reading *r, const struct lm_jval *v,
                        const struct lm_jval *token, int32_t *to, size_t *n, struct lm_err *err)
{
    int s = lm_tokenizer_fields("special", "", token, err);
    if (s != LM_OK)
        return lm_err_at(err, s, "post_processor: a special token");
    const char *name = lm_jval_str(lm_jval_get(token, "id"));
    const struct lm_jval *x = lm_jval_get(lm_jval_get(v, "special_tokens"), name);
    if (!x)
        return lm_fail(err, LM_EDATA, "post_processor: special token '%.60s' is not among its "
                       "special_tokens", name);
    if ((s = lm_tokenizer_fields("ids", "", x, err)))
        return lm_err_at(err, s, "post_processor: special token '%.60s'", name);
    for (x = lm_jval_get(x, "ids")->first; x && s == LM_OK; x = x->next) {
        if (*n == MAX_ADDED_IDS)
            return lm_fail(err, LM_ENOSUP, "post_processor: more than %d tokens",
                           (int)MAX_ADDED_IDS);
        s = check_id(r, x, &to[*n], err);
        *n += s == LM_OK;
    }
    return s;
}

/* The template for one text. */
static int template(struct reading *r, const struct lm_jval *v, struct lm_err *err)
{
    int32_t ids[2][MAX_ADDED_IDS];
    size_t n[2] = { 0, 0 };
    int behind = 0, s = LM_OK;
    const struct lm_jval *x = lm_jval_get(v, "single")->first;
    for (; x && s == LM_OK; x = x->next) {
        const struct lm_jval *token = lm_jval_get(x, "SpecialToken");
        if ((s = lm_tokenizer_fields("token", "", x, err)))
            lm_err_at(err, s, "post_processor: a part of single");
        else if (token)
            s = template_ids(r, v, token, ids[behind], &n[behind], err);
        else if (!lm_jval_get(x, "Sequence") || behind++)
            s = lm_fail(err, LM_ENOSUP, "post_processor: a template without the text once");
    }
    if (s == LM_OK && !behind)
        s = lm_fail(err, LM_ENOSUP, "post_processor: a template without the text");
    if (s == LM_OK)
        s = add_before(r, ids[0], n[0], err);
    return s == LM_OK ? add_after(r, ids[1], n[1], err) : s;
}

static int post_processor(struct reading *r, const struct lm_jval *v, int depth,
                          struct lm_err *err)
{
    const char *type = lm_tokenizer_type(v);
    int s = lm_tokenizer_fields("post_processor", type, v, err);
    if (s != LM_OK)
        return lm_err_at(err, s, *type ? "post_processor '%.60s'" : "post_processor", type);
    if (strcmp(type, "ByteLevel") == 0)
        return LM_OK;                            /* only moves offsets */
    if (strcmp(type, "Sequence") != 0 && (r->n_before || r->n_after))
        return lm_fail(err, LM_ENOSUP, "post_processor '%.60s' behind another one is not "
                       "supported", type);       /* it would have several texts to put together */
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return cls_sep(r, v, err);
    if (strcmp(type, "TemplateProcessing") == 0)
        return template(r, v, err);
    if (strcmp(type, "Sequence") != 0 || depth == 8)
        return lm_fail(err, LM_ENOSUP, "post_processor '%.60s' is not supported", type);
    const struct lm_jval *x = lm_jval_get(v, "processors")->first;
    for (; x && s == LM_OK; x = x->next)
        s = post_processor(r, x, depth + 1, err);
    return s;
}

/* The outermost two are the start and the end token. */
static void set_around(struct reading *r)
{
    struct lm_vocab_src *src = &r->src;
    src->add_bos = r->n_before > 0;
    src->add_eos = r->n_after > 0;
    if (src->add_bos)
        src->bos = r->before[0];
    if (src->add_eos)
        src->eos = r->after[r->n_after - 1];
    src->before = r->before + 1;
    src->n_before = r->n_before ? r->n_before - 1 : 0;
    src->after = r->after;
    src->n_after = r->n_after ? r->n_after - 1 : 0;
}

/* Others are what files beside it name, or there are none. */
static void set_named(struct lm_vocab_src *src, struct lm_hf_named *beside)
{
    static const char lack[] = "the file itself adds none, and others are asked only beside a "
                               "tokenizer.json";
    if (beside) {
        lm_take_named(src, beside);
        return;
    }
    src->bos = src->bos < 0 ? -1 : src->bos;
    src->eos = src->eos < 0 ? -1 : src->eos;
    for (size_t k = 0; k < LM_N_NAMED; k++)
        src->lacks[k] = lack;
}

/* ---- the families with ways of their own --------------------------------------------------- */

/* Can an occurrence of one text lie over one of the other? */
static bool may_overlap(struct lm_str a, struct lm_str b)
{
    for (size_t i = 0; i < a.len; i++) {
        size_t n = a.len - i < b.len ? a.len - i : b.len;
        if (memcmp(a.p + i, b.p, n) == 0)
            return true;
    }
    for (size_t i = 1; i < b.len; i++) {
        size_t n = b.len - i < a.len ? b.len - i : a.len;
        if (memcmp(b.p + i, a.p, n) == 0)
            return true;
    }
    return false;
}

/* Where nothing is normalized, looking for the added tokens that say so in a second pass is
 * the same as looking for all in one, unless what stands beside one counts or two of different
 * passes can overlap. */
static bool one_pass(const struct reading *r)
{
    uint8_t attr = 0;
    if (!r->n_normalized || !r->n_raw)
        return true;
    for (uint32_t i = 0; i < r->h.n; i++)
        attr |= r->attr[i];
    if (attr & (LM_ATTR_WORD | LM_ATTR_LSTRIP | LM_ATTR_RSTRIP) ||
        (uint64_t)r->n_normalized * r->n_raw > 1 << 16)
        return false;
    for (uint32_t i = 0; i < r->h.n; i++)
        for (uint32_t k = 0; r->attr[i] & LM_ATTR_NORMALIZED && k < r->h.n; k++) {
            bool raw = r->h.types[k] == LM_TOKEN_CONTROL || r->h.types[k] == LM_TOKEN_USER;
            if (raw && !(r->attr[k] & LM_ATTR_NORMALIZED) &&
                may_overlap(r->h.pieces[i], r->h.pieces[k]))
                return false;
        }
    return true;
}

/* A step that cuts, as lm_pretok has it: false if it is none. */
static bool take_step(struct lm_prestep *to, const struct lm_pre_part *t)
{
    if (t->kind == LM_PK_DIGIT && !t->invert) {
        *to = (struct lm_prestep){ lm_pre_class, LM_U_N, NULL };
        to->opt |= t->how == LM_CUT_ISOLATED ? LM_CLASS_ONE : 0;
        return t->how == LM_CUT_ISOLATED || t->how == LM_CUT_CONTIGUOUS;
    }
    if (t->kind != LM_PK_HAND)
        return false;
    *to = t->hand;
    if (t->how == LM_CUT_ISOLATED)
        return true;
    /* what does not match is dropped: of some patterns there is no such text */
    return t->how == LM_CUT_REMOVED && t->invert && lm_pretok_covers(&t->hand);
}

/* All bytes are pieces, or all that UTF-8 has. */
static bool has_bytes(const struct reading *r, bool all)
{
    bool seen[256] = { false };
    unsigned n = 0;
    for (uint32_t i = 0; i < r->h.n; i++) {
        uint32_t rune;
        size_t len = r->h.pieces[i].len;
        if (!len || len > 2 || (size_t)lm_utf8_len(r->h.pieces[i].p, len, &rune) != len ||
            r->h.types[i] == LM_TOKEN_UNUSED)
            continue;
        int b = lm_rune_byte(rune);
        if (b >= 0 && !seen[b]) {
            seen[b] = true;
            n++;
        }
    }
    for (int b = 0xC0; b < 256; b++)
        n += !all && !seen[b] && (b < 0xC2 || b > 0xF4);
    return n == 256;
}

/* BPE of bytes, cut by steps that lm_pretok has. */
static bool is_bytes(struct reading *r)
{
    const struct lm_rules *x = r->rules;
    size_t n = x->n_pre;
    if (n < 2 || n - 1 > LM_PRE_STEPS || x->pre[n - 1].kind != LM_PK_BYTES || r->t.affixes ||
        x->n_norm > 1 || (x->n_norm && (x->norm[0].kind != LM_NK_NFC || r->n_normalized)) ||
        x->n_dec != 1 || x->dec[0].kind != LM_DK_BYTES || !one_pass(r))
        return false;
    if (!has_bytes(r, r->t.has_unk || r->t.byte_fallback))
        return false;
    r->pretok.flags = LM_PRE_SPANS;
    for (size_t i = 0; i + 1 < n; i++) {
        if (!take_step(&r->pretok.steps[i], &x->pre[i]))
            return false;
        if (lm_pretok_covers(&r->pretok.steps[i]))
            r->pretok.flags = 0;                 /* newlines and letters stay apart */
    }
    const char *name = lm_hf_pretok_name(r->t.pre_tokenizer, r->t.ignore_merges);
    r->src.model = (struct lm_str){ "gpt2", 4 };
    r->src.pre = (struct lm_str){ name ? name : "", name ? strlen(name) : 0 };
    r->src.pretok = &r->pretok;
    r->src.nfc = x->n_norm > 0;
    r->src.whole_words = r->t.ignore_merges;
    return true;
}

/* A pattern that is one text, as the file has it. */
static bool replaces(const struct lm_jval *v, const char *from, const char *to)
{
    const struct lm_jval *s = lm_jval_get(lm_jval_get(v, "pattern"), "String");
    const struct lm_jval *c = lm_jval_get(v, "content");
    return strcmp(lm_tokenizer_type(v), "Replace") == 0 && lm_jval_str(s) && lm_jval_str(c) &&
           is((struct lm_str){ s->str, s->len }, from) &&
           is((struct lm_str){ c->str, c->len }, to);
}

/* The parts of a sequence, or the one part. */
static const struct lm_jval *first_of(const struct lm_jval *v, const char *list)
{
    const struct lm_jval *x = lm_jval_get(v, list);
    return strcmp(lm_tokenizer_type(v), "Sequence") == 0 && x ? x->first : v;
}

static bool is_type(const struct lm_jval *v, const char *type)
{
    return v && strcmp(lm_tokenizer_type(v), type) == 0;
}

/* Marks become spaces, bytes are bytes, and a space in front goes if one was put there. */
static bool decodes_marks(const struct lm_jval *x, bool prefix)
{
    int64_t start = 0, stop = 0;
    if (!replaces(x, mark, " ") || !is_type(x = x->next, "ByteFallback") ||
        !is_type(x = x->next, "Fuse"))
        return false;
    x = x->next;
    if (!x || !prefix)
        return !x && !prefix;
    lm_jval_i64(lm_jval_get(x, "start"), &start);
    lm_jval_i64(lm_jval_get(x, "stop"), &stop);
    const struct lm_jval *c = lm_jval_get(x, "content");
    return is_type(x, "Strip") && start == 1 && stop == 0 && lm_jval_str(c) &&
           is((struct lm_str){ c->str, c->len }, " ") && !x->next;
}

/* All bytes are pieces <0x00> to <0xFF>. */
static bool has_byte_names(const struct reading *r)
{
    bool seen[256] = { false };
    unsigned n = 0;
    for (uint32_t i = 0; i < r->h.n; i++) {
        char *end;
        const struct lm_str s = r->h.pieces[i];
        if (r->h.types[i] != LM_TOKEN_BYTE || s.p[5] != '>')
            continue;
        unsigned long b = strtoul(s.p + 3, &end, 16);
        if (end == s.p + 5 && b < 256 && !seen[b]) {
            seen[b] = true;
            n++;
        }
    }
    return n == 256;
}

/* Do merges join bytes by their names?  What that makes shows in no text. */
static bool merges_bytes(const struct reading *r)
{
    for (uint64_t i = 0; i < r->t.n_merges; i++) {
        const struct lm_hf_merge *m = &r->t.merges[i];
        if ((m->left_len == 6 && memcmp(m->left, "<0x", 3) == 0) ||
            (m->right_len == 6 && memcmp(m->right, "<0x", 3) == 0))
            return true;
    }
    return false;
}

/* BPE of characters with marks for spaces: Llama 2, Mistral, Gemma.  Where unknown characters
 * beside each other are one, a word cannot be cut anywhere: that is left to the rules. */
static bool is_marked(struct reading *r)
{
    const struct lm_jval *x = first_of(r->t.normalizer, "normalizers");
    const struct lm_jval *decoder = first_of(r->t.decoder, "decoders");
    const struct lm_jval *pre = first_of(r->t.pre_tokenizer, "pretokenizers");
    bool prefix = is_type(x, "Prepend");
    if (prefix) {
        const struct lm_jval *s = lm_jval_get(x, "prepend");
        if (!lm_jval_str(s) || !is((struct lm_str){ s->str, s->len }, mark))
            return false;
        x = x->next;
    }
    if (!replaces(x, " ", mark) || x->next || !decodes_marks(decoder, prefix) ||
        r->t.ignore_merges || r->t.affixes || r->n_normalized ||
        (r->t.byte_fallback ? !has_byte_names(r) || merges_bytes(r) : r->t.fuse_unk))
        return false;
    /* Spaces are marks by then: cutting at them finds none */
    if (r->rules->n_pre > 1 || (r->rules->n_pre && r->rules->pre[0].kind != LM_PK_RUNE) ||
        (r->rules->n_pre && (r->rules->pre[0].rune != ' ' || r->rules->pre[0].invert || pre->next)))
        return false;
    r->src.model = (struct lm_str){ "bpe", 3 };
    r->src.space_prefix = prefix;
    r->src.byte_fallback = r->t.byte_fallback;
    return true;
}

/* ---- by the rules ---------------------------------------------------------------------------- */

/* Tokens that are looked for in normalized text, by their normalized content. */
static int normalized_tokens(struct reading *r, struct lm_err *err)
{
    struct lm_rules *x = r->rules;
    uint32_t n = 0;
    double most = 0;
    struct lm_rules_work *w = lm_rules_work_new(x);
    struct lm_str *text = lm_arena_array(&r->h.arena, (size_t)r->n_normalized + 1, sizeof *text);
    uint32_t *id = lm_arena_array(&r->h.arena, (size_t)r->n_normalized + 1, sizeof *id);
    int s = text && id && w ? LM_OK : lm_fail_nomem(err);
    for (uint64_t k = 0; s == LM_OK && k < 2 * (uint64_t)r->h.n && n < r->n_normalized; k++) {
        uint32_t i = (uint32_t)(k % r->h.n);     /* control tokens come first */
        struct lm_str t = r->h.pieces[i];
        if (!(r->attr[i] & LM_ATTR_NORMALIZED) || !t.len ||
            (r->h.types[i] == LM_TOKEN_CONTROL) != (k < r->h.n))
            continue;
        if ((most += lm_growth_of(&x->grown, t.p, t.len)) > LM_RULES_TEXT)
            s = lm_fail(err, LM_ENOSUP, "added_tokens: more than %d MiB when they are normalized",
                        (int)(LM_RULES_TEXT >> 20));
        else
            s = lm_rules_normalize(w, t.p, t.len, &t, err);
        if (s != LM_OK)
            break;
        text[n].len = t.len;
        text[n].p = lm_arena_copy(&r->h.arena, t.p, t.len);
        if (!text[n].p)
            s = lm_fail_nomem(err);
        id[n++] = i;
    }
    if (s == LM_OK)
        s = lm_added_init(&x->added, text, id, n, err);
    lm_rules_work_free(w);
    return s;
}

/* The model, as the rules use it. */
static int model(struct reading *r, struct lm_err *err)
{
    struct lm_rules *x = r->rules;
    const char *type = r->t.type[0] ? r->t.type : "BPE";
    r->src.words = true;
    r->src.byte_fallback = r->t.byte_fallback;
    if (strcmp(type, "BPE") == 0) {
        x->words = LM_WK_BPE;
        x->whole = r->t.ignore_merges;
        x->byte_fallback = r->t.byte_fallback;
        x->fuse_unk = r->t.fuse_unk;
        x->go_on.len = strlen(r->t.go_on);
        x->last.len = strlen(r->t.last);
        x->go_on.p = lm_arena_copy(&x->arena, r->t.go_on, x->go_on.len);
        x->last.p = lm_arena_copy(&x->arena, r->t.last, x->last.len);
        r->src.go_on = x->go_on.p;
        r->src.model = (struct lm_str){ "rules", 5 };
        if (r->t.affixes && r->t.byte_fallback)
            return lm_fail(err, LM_ENOSUP, "byte_fallback with prefixes or suffixes of words is "
                           "not supported");
        return x->go_on.p && x->last.p ? LM_OK : lm_fail_nomem(err);
    }
    if (strcmp(type, "WordLevel") == 0) {
        x->words = LM_WK_LEVEL;
        r->src.model = (struct lm_str){ "rules", 5 };
        return LM_OK;
    }
    x->words = LM_WK_MODEL;
    if (strcmp(type, "WordPiece") == 0) {
        r->src.model = (struct lm_str){ "bert", 4 };
        r->src.go_on = r->t.go_on;
        if (r->t.max_word == 0)
            return lm_fail(err, LM_ENOSUP, "max_input_chars_per_word 0 is not supported");
        r->src.max_word = r->t.max_word > 0 ? (uint64_t)r->t.max_word : 0;
    } else if (strcmp(type, "Unigram") == 0 && r->t.scored) {
        r->src.model = (struct lm_str){ "t5", 2 };
        r->src.scores64 = r->h.scores64;
    } else {
        return lm_fail(err, LM_ENOSUP, "tokenizer model '%s' is not supported", type);
    }
    x->model = lm_tok_model_find(r->src.model.p, r->src.model.len);
    return x->model && x->model->word ? LM_OK
                                      : lm_fail(err, LM_ENOSUP, "tokenizer model '%s' is not "
                                                "supported", type);
}

static int read_unk(struct reading *r, struct lm_err *err)
{
    bool level = strcmp(r->t.type, "WordLevel") == 0;
    r->src.unk = r->t.has_unk ? id_of(r, r->t.unk, strlen(r->t.unk)) : -1;
    if (r->t.scored) {
        r->src.unk = -1;
        if (r->t.unk_id >= (int64_t)r->h.n)
            return lm_fail(err, LM_EDATA, "unk_id %lld is not in the vocabulary",
                           (long long)r->t.unk_id);
        if (r->t.unk_id >= 0)
            r->src.unk = (int32_t)r->t.unk_id;
    }
    if (r->t.has_unk && r->src.unk < 0 && !level)
        return lm_fail(err, LM_EDATA, "the unknown token '%s' is not in the vocabulary", r->t.unk);
    return LM_OK;
}

static int read_rules(struct reading *r, struct lm_err *err)
{
    int s;
    if (!(r->rules = calloc(1, sizeof *r->rules)))
        return lm_fail_nomem(err);
    if (r->t.dropout > 0)
        return lm_fail(err, LM_ENOSUP, "BPE with dropout, which draws its merges, is not "
                       "supported");
    if ((s = lm_rules_read_normalizer(r->rules, r->t.normalizer, err)) ||
        (s = lm_rules_read_pre(r->rules, r->t.pre_tokenizer, err)))
        return s;
    return lm_rules_read_decoder(r->rules, r->t.decoder, err);
}

static int read_all(struct reading *r, struct lm_err *err)
{
    int s;
    if ((s = lm_tokenizer_json_parse(&r->t, &r->h.arena, err)) || (s = read_rules(r, err)) ||
        (s = pieces(r, err)) || (s = read_unk(r, err)))
        return s;
    if (lm_tokenizer_has(r->t.post_processor) &&
        (s = post_processor(r, r->t.post_processor, 0, err)))
        return s;
    bool bpe = !r->t.type[0] || strcmp(r->t.type, "BPE") == 0;
    if (bpe && (is_bytes(r) || is_marked(r))) {
        lm_rules_free(r->rules);
        r->rules = NULL;
        for (uint32_t i = 0; i < r->h.n; i++)
            r->attr[i] &= (uint8_t)~LM_ATTR_NORMALIZED;
    } else if ((s = model(r, err)) || (s = lm_rules_ready(r->rules, err)) ||
               (s = normalized_tokens(r, err))) {
        return s;
    }
    set_around(r);
    r->src.tokens = r->h.pieces;
    r->src.types = r->h.types;
    r->src.n = r->h.n;
    r->src.attr = r->attr;
    r->src.parts = r->t.merges;
    r->src.n_merges = r->t.n_merges;
    return LM_OK;
}

struct lm_vocab *lm_vocab_from_json(const char *text, size_t len, const struct lm_env *env,
                                    struct lm_err *err)
{
    return lm_vocab_from_json_beside(text, len, NULL, env, err);
}

struct lm_vocab *lm_vocab_from_json_beside(const char *text, size_t len,
                                           struct lm_hf_named *beside, const struct lm_env *env,
                                           struct lm_err *err)
{
    struct reading *r = calloc(1, sizeof *r);
    if (!r) {
        lm_fail_nomem(err);
        return NULL;
    }
    r->t.text = (char *)text;
    r->t.len = len;
    r->src = (struct lm_vocab_src)LM_VOCAB_SRC;
    struct lm_vocab *v = NULL;
    if (read_all(r, err) == LM_OK) {
        set_named(&r->src, beside);
        r->src.rules = r->rules;                 /* the vocabulary's from here on */
        r->rules = NULL;
        v = lm_vocab_load(&r->src, env, err);
    }
    lm_rules_free(r->rules);
    lm_tokenizer_json_release(&r->t);
    lm_arena_release(&r->h.arena);
    free(r);
    return v;
}
