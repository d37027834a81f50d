/* SPDX-License-Identifier: MIT */
/*
 * The normalizers, pre-tokenizers and decoders of a tokenizer.json: which there are, and what
 * each one's members mean.
 */
#include <stdio.h>
#include <string.h>

#include "hf/tokenizer_fields.h"
#include "vocab/vocab_rules.h"

static bool flag(const struct lm_jval *v, const char *key, bool otherwise)
{
    lm_jval_bool(lm_jval_get(v, key), &otherwise);
    return otherwise;
}

/* Text, kept in the arena. */
static int keep(struct lm_rules *r, const struct lm_jval *x, struct lm_str *out,
                struct lm_err *err)
{
    out->p = lm_arena_copy(&r->arena, x->str, x->len);
    out->len = x->len;
    return out->p ? LM_OK : lm_fail_nomem(err);
}

/* A member that is text, kept in the arena. */
static int text(struct lm_rules *r, const struct lm_jval *v, const char *key, struct lm_str *out,
                struct lm_err *err)
{
    return keep(r, lm_jval_get(v, key), out, err);
}

/* A member that is one character. */
static int rune(const struct lm_jval *v, const char *key, uint32_t *out, struct lm_err *err)
{
    const struct lm_jval *x = lm_jval_get(v, key);
    if (!x->len || (size_t)lm_utf8_len(x->str, x->len, out) != x->len)
        return lm_fail(err, LM_EDATA, "%s is not one character", key);
    return LM_OK;
}

/* The member "pattern": a text, which goes to *from as well (NULL: to nobody), or an expression. */
static int pattern(struct lm_rules *r, const struct lm_jval *v, struct lm_regex **out,
                   struct lm_str *from, struct lm_err *err)
{
    const struct lm_jval *x = lm_jval_get(v, "pattern")->first;
    const bool is_text = strcmp(x->key, "String") == 0;
    *out = is_text ? lm_regex_literal(x->str, x->len, err) : lm_regex_new(x->str, x->len, err);
    if (!*out)
        return err ? (int)err->code : LM_ENOSUP;
    return is_text && from ? keep(r, x, from, err) : LM_OK;
}

/* ---- a list of parts, or one ---------------------------------------------------------- */

typedef int reader(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err);

struct kind {
    const char *type;
    reader     *read;
};

enum { MAX_DEPTH = 16 };

/* What is read: v, or a part of a Sequence, whose parts stand in `list`, or of one in that. */
struct place {
    const char *what, *list;
    struct {
        const struct lm_jval *next;      /* to be read                   */
        size_t                n;         /* so many of the list were     */
    } up[MAX_DEPTH];
    int depth;
};

/* Where a part stands, as "normalizer.normalizers[2] 'NFC'". */
static void name_part(const struct place *p, const char *type, char *to, size_t room)
{
    size_t n = (size_t)snprintf(to, room, "%s", p->what);
    for (int i = 1; i <= p->depth && n < room; i++)
        n += (size_t)snprintf(to + n, room - n, ".%s[%zu]", p->list, p->up[i].n - 1);
    if (*type && n < room)
        snprintf(to + n, room - n, " '%.60s'", type);
}

/* One part; of a Sequence its parts are to be read next. */
static int read_part(struct lm_rules *r, struct place *p, const struct lm_jval *x,
                     const struct kind *kinds, struct lm_err *err)
{
    char name[400];
    const char *type = lm_tokenizer_type(x);
    name_part(p, type, name, sizeof name);
    int s = lm_tokenizer_fields(p->what, type, x, err);
    if (s != LM_OK)
        return lm_err_at(err, s, "%s", name);
    if (strcmp(type, "Sequence") == 0) {
        if (p->depth + 1 == MAX_DEPTH)
            return lm_fail(err, LM_ENOSUP, "%s: sequences too deep in each other", p->what);
        p->up[++p->depth].next = lm_jval_get(x, p->list)->first;
        p->up[p->depth].n = 0;
        return LM_OK;
    }
    while (kinds->type && strcmp(kinds->type, type) != 0)
        kinds++;
    if (!kinds->type)
        return lm_fail(err, LM_ENOSUP, "%s is not supported", name);
    if (!(r->part = lm_arena_copy(&r->arena, name, strlen(name))))
        return lm_fail_nomem(err);
    s = kinds->read(r, x, err);
    return s == LM_OK ? s : lm_err_at(err, s, "%s", name);
}

/* v is a part, or a Sequence of them. */
static int read_parts(struct lm_rules *r, const struct lm_jval *v, const char *what,
                      const char *list, const struct kind *kinds, struct lm_err *err)
{
    struct place p = { .what = what, .list = list };
    int s = lm_tokenizer_has(v) ? read_part(r, &p, v, kinds, err) : LM_OK;
    while (s == LM_OK && p.depth > 0) {
        const struct lm_jval *x = p.up[p.depth].next;
        if (!x) {
            p.depth--;
            continue;
        }
        p.up[p.depth].next = x->next;
        p.up[p.depth].n++;
        s = read_part(r, &p, x, kinds, err);
    }
    return s;
}

static int too_many(struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "more than %d steps", (int)LM_RULES_MAX);
}

/* ---- normalizers ------------------------------------------------------------------------ */

static struct lm_norm_part *new_norm(struct lm_rules *r, enum lm_norm_kind kind)
{
    if (r->n_norm == LM_RULES_MAX)
        return NULL;
    struct lm_norm_part *t = &r->norm[r->n_norm++];
    t->kind = kind;
    t->name = r->part;
    return t;
}

/* The kinds that have no members. */
static int simple_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct {
        const char       *type;
        enum lm_norm_kind kind;
    } t[] = {
        { "NFC", LM_NK_NFC },   { "NFD", LM_NK_NFD },         { "NFKC", LM_NK_NFKC },
        { "NFKD", LM_NK_NFKD }, { "Lowercase", LM_NK_LOWER }, { "StripAccents", LM_NK_ACCENTS },
        { "Nmt", LM_NK_NMT },   { "ByteLevel", LM_NK_BYTES },
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (strcmp(t[i].type, lm_tokenizer_type(v)) == 0)
            return new_norm(r, t[i].kind) ? LM_OK : too_many(err);
    return LM_ENOSUP;
}

static int strip_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_norm_part *t = new_norm(r, LM_NK_STRIP);
    if (!t)
        return too_many(err);
    t->left = flag(v, "strip_left", true);
    t->right = flag(v, "strip_right", true);
    return LM_OK;
}

static int replace_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_norm_part *t = new_norm(r, LM_NK_REPLACE);
    if (!t)
        return too_many(err);
    int s = pattern(r, v, &t->pattern, &t->from, err);
    return s == LM_OK ? text(r, v, "content", &t->text, err) : s;
}

static int prepend_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_norm_part *t = new_norm(r, LM_NK_PREPEND);
    return t ? text(r, v, "prepend", &t->text, err) : too_many(err);
}

static int bert_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_norm_part *t = new_norm(r, LM_NK_BERT);
    if (!t)
        return too_many(err);
    bool low = flag(v, "lowercase", true);
    t->bert = (flag(v, "clean_text", true) ? LM_BERT_CLEAN : 0) |
              (flag(v, "handle_chinese_chars", true) ? LM_BERT_CHINESE : 0) |
              (flag(v, "strip_accents", low) ? LM_BERT_STRIP : 0) | (low ? LM_BERT_LOWER : 0);
    return LM_OK;
}

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* The map is in base64, with = at its end where it needs them. */
static int charsmap_norm(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    const struct lm_jval *x = lm_jval_get(v, "precompiled_charsmap");
    if (!x->len)
        return LM_OK;                            /* no map: nothing is changed */
    struct lm_norm_part *t = new_norm(r, LM_NK_CHARSMAP);
    struct lm_buf b = { 0 };
    if (!t)
        return too_many(err);
    uint32_t bits = 0;
    int n = 0, d;
    for (size_t i = 0; i < x->len && (d = base64_digit(x->str[i])) >= 0; i++) {
        bits = bits << 6 | (uint32_t)d;
        n += 6;
        if (n >= 8) {
            n -= 8;
            lm_buf_byte(&b, bits >> n & 255);
        }
    }
    int s = b.failed ? lm_fail_nomem(err)
                     : lm_charsmap_init(&t->map, b.data ? b.data : "", b.len, err);
    lm_buf_release(&b);
    return s;
}

int lm_rules_read_normalizer(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct kind kinds[] = {
        { "NFC", simple_norm },        { "NFD", simple_norm },   { "NFKC", simple_norm },
        { "NFKD", simple_norm },       { "Nmt", simple_norm },   { "Lowercase", simple_norm },
        { "StripAccents", simple_norm }, { "ByteLevel", simple_norm }, { "Strip", strip_norm },
        { "Replace", replace_norm },   { "Prepend", prepend_norm },
        { "BertNormalizer", bert_norm }, { "Precompiled", charsmap_norm }, { NULL, NULL },
    };
    return read_parts(r, v, "normalizer", "normalizers", kinds, err);
}

/* ---- pre-tokenizers ----------------------------------------------------------------------- */

static struct lm_pre_part *new_pre(struct lm_rules *r, enum lm_pre_kind kind, enum lm_cut_how how)
{
    if (r->n_pre == LM_RULES_MAX)
        return NULL;
    struct lm_pre_part *t = &r->pre[r->n_pre++];
    t->kind = kind;
    t->name = r->part;
    t->how = how;
    return t;
}

/* The member "behavior". */
static int behavior(const struct lm_jval *v, enum lm_cut_how *out, struct lm_err *err)
{
    static const char *const names[] = {
        [LM_CUT_ISOLATED] = "Isolated", [LM_CUT_REMOVED] = "Removed",
        [LM_CUT_CONTIGUOUS] = "Contiguous", [LM_CUT_PREVIOUS] = "MergedWithPrevious",
        [LM_CUT_NEXT] = "MergedWithNext",
    };
    const char *s = lm_jval_str(lm_jval_get(v, "behavior"));
    for (size_t i = 0; s && i < sizeof names / sizeof *names; i++)
        if (strcmp(s, names[i]) == 0) {
            *out = (enum lm_cut_how)i;
            return LM_OK;
        }
    return s ? lm_fail(err, LM_ENOSUP, "behavior '%.60s' is not supported", s) : LM_OK;
}

static int bytes_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct lm_str space = { " ", 1 };
    struct lm_pre_part *t;
    if (flag(v, "add_prefix_space", true)) {
        if (!(t = new_pre(r, LM_PK_PREFIX, LM_CUT_ISOLATED)))
            return too_many(err);
        t->text = space;
    }
    if (flag(v, "use_regex", true)) {
        if (!(t = new_pre(r, LM_PK_HAND, LM_CUT_ISOLATED)))
            return too_many(err);
        t->hand.match = lm_pre_gpt2;
    }
    return new_pre(r, LM_PK_BYTES, LM_CUT_ISOLATED) ? LM_OK : too_many(err);
}

static int split_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_pre_part *t = new_pre(r, LM_PK_REGEX, LM_CUT_REMOVED);
    const struct lm_jval *x = lm_jval_get(v, "pattern");
    const struct lm_jval *regex = lm_jval_get(x, "Regex"), *s = lm_jval_get(x, "String");
    if (!t)
        return too_many(err);
    t->invert = flag(v, "invert", false);
    int e = behavior(v, &t->how, err);
    if (e != LM_OK)
        return e;
    const struct lm_prestep *hand =
        lm_jval_str(regex) ? lm_pretok_by_pattern(regex->str, regex->len) : NULL;
    if (hand) {
        t->kind = LM_PK_HAND;
        t->hand = *hand;
        return LM_OK;
    }
    if (lm_jval_str(s) && s->len && (size_t)lm_utf8_len(s->str, s->len, &t->rune) == s->len) {
        t->kind = LM_PK_RUNE;
        return LM_OK;
    }
    if (lm_jval_str(s) && !s->len) {             /* the whole text is what does not match */
        t->kind = LM_PK_RUNE;
        t->rune = UINT32_MAX;
        return LM_OK;
    }
    return pattern(r, v, &t->pattern, NULL, err);
}

static int marks_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    const char *scheme = lm_jval_str(lm_jval_get(v, "prepend_scheme"));
    struct lm_pre_part *t = new_pre(r, LM_PK_MARK, LM_CUT_ISOLATED);
    uint32_t mark;
    int s = rune(v, "replacement", &mark, err);
    if (s != LM_OK || !t)
        return s ? s : too_many(err);
    if ((s = text(r, v, "replacement", &t->text, err)))
        return s;
    if (!scheme)
        scheme = flag(v, "add_prefix_space", true) ? "always" : "never";
    if (strcmp(scheme, "first") == 0)
        t->when = LM_PREFIX_FIRST;
    else if (strcmp(scheme, "never") == 0)
        t->when = LM_PREFIX_NEVER;
    else if (strcmp(scheme, "always") != 0)
        return lm_fail(err, LM_ENOSUP, "prepend_scheme '%.60s' is not supported", scheme);
    r->asks_first |= t->when == LM_PREFIX_FIRST;
    if (!flag(v, "split", true))
        return LM_OK;
    if (!(t = new_pre(r, LM_PK_RUNE, LM_CUT_NEXT)))
        return too_many(err);
    t->rune = mark;
    return LM_OK;
}

static int words_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    bool only = strcmp(lm_tokenizer_type(v), "WhitespaceSplit") == 0;
    struct lm_pre_part *t = new_pre(r, only ? LM_PK_SPACE : LM_PK_WORDS, LM_CUT_REMOVED);
    if (!t)
        return too_many(err);
    t->invert = !only;                           /* words are what matches */
    return LM_OK;
}

static int punct_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_pre_part *t = new_pre(r, LM_PK_PUNCT, LM_CUT_ISOLATED);
    return t ? behavior(v, &t->how, err) : too_many(err);
}

static int digits_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    bool each = flag(v, "individual_digits", false);
    return new_pre(r, LM_PK_DIGIT, each ? LM_CUT_ISOLATED : LM_CUT_CONTIGUOUS) ? LM_OK
                                                                               : too_many(err);
}

static int bert_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    (void)v;
    return new_pre(r, LM_PK_SPACE, LM_CUT_REMOVED) && new_pre(r, LM_PK_PUNCT, LM_CUT_ISOLATED)
               ? LM_OK : too_many(err);
}

static int delimiter_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_pre_part *t = new_pre(r, LM_PK_RUNE, LM_CUT_REMOVED);
    return t ? rune(v, "delimiter", &t->rune, err) : too_many(err);
}

static int length_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_pre_part *t = new_pre(r, LM_PK_LENGTH, LM_CUT_ISOLATED);
    int64_t n = 5;
    lm_jval_i64(lm_jval_get(v, "length"), &n);
    if (!t)
        return too_many(err);
    if (n < 1)
        return lm_fail(err, LM_ENOSUP, "length %lld is not supported", (long long)n);
    t->length = (size_t)n;
    return LM_OK;
}

int lm_rules_read_pre(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct kind kinds[] = {
        { "ByteLevel", bytes_pre },      { "Split", split_pre },
        { "Metaspace", marks_pre },      { "Whitespace", words_pre },
        { "WhitespaceSplit", words_pre }, { "Punctuation", punct_pre },
        { "Digits", digits_pre },        { "BertPreTokenizer", bert_pre },
        { "CharDelimiterSplit", delimiter_pre }, { "FixedLength", length_pre }, { NULL, NULL },
    };
    return read_parts(r, v, "pre_tokenizer", "pretokenizers", kinds, err);
}

/* ---- decoders -------------------------------------------------------------------------------- */

static struct lm_dec_part *new_dec(struct lm_rules *r, enum lm_dec_kind kind)
{
    if (r->n_dec == LM_RULES_MAX)
        return NULL;
    struct lm_dec_part *t = &r->dec[r->n_dec++];
    t->kind = kind;
    t->name = r->part;
    return t;
}

static int simple_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    const char *type = lm_tokenizer_type(v);
    enum lm_dec_kind kind = strcmp(type, "ByteLevel") == 0      ? LM_DK_BYTES
                            : strcmp(type, "ByteFallback") == 0 ? LM_DK_FALLBACK
                                                                : LM_DK_FUSE;
    return new_dec(r, kind) ? LM_OK : too_many(err);
}

static int marks_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_dec_part *t = new_dec(r, LM_DK_MARK);
    const char *scheme = lm_jval_str(lm_jval_get(v, "prepend_scheme"));
    if (!t)
        return too_many(err);
    t->clean = scheme ? strcmp(scheme, "never") != 0 : flag(v, "add_prefix_space", true);
    return text(r, v, "replacement", &t->from, err);
}

static int wordpiece_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_dec_part *t = new_dec(r, LM_DK_WORDPIECE);
    if (!t)
        return too_many(err);
    t->clean = flag(v, "cleanup", true);
    return text(r, v, "prefix", &t->from, err);
}

static int suffix_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct lm_str space = { " ", 1 };
    struct lm_dec_part *t = new_dec(r, LM_DK_SUFFIX);
    if (!t)
        return too_many(err);
    t->to = space;
    return text(r, v, "suffix", &t->from, err);
}

static int strip_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_dec_part *t = new_dec(r, LM_DK_STRIP);
    int64_t start = 0, stop = 0;
    uint32_t c;
    lm_jval_i64(lm_jval_get(v, "start"), &start);
    lm_jval_i64(lm_jval_get(v, "stop"), &stop);
    if (!t)
        return too_many(err);
    if (stop > 1 << 20)
        return lm_fail(err, LM_ENOSUP, "stop %lld is not supported", (long long)stop);
    t->start = (size_t)start;
    t->stop = (size_t)stop;
    int s = rune(v, "content", &c, err);
    return s == LM_OK ? text(r, v, "content", &t->from, err) : s;
}

static int replace_dec(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    struct lm_dec_part *t = new_dec(r, LM_DK_REPLACE);
    if (!t)
        return too_many(err);
    int s = pattern(r, v, &t->pattern, &t->from, err);
    return s == LM_OK ? text(r, v, "content", &t->to, err) : s;
}

int lm_rules_read_decoder(struct lm_rules *r, const struct lm_jval *v, struct lm_err *err)
{
    static const struct kind kinds[] = {
        { "ByteLevel", simple_dec }, { "ByteFallback", simple_dec }, { "Fuse", simple_dec },
        { "Metaspace", marks_dec },  { "WordPiece", wordpiece_dec }, { "BPEDecoder", suffix_dec },
        { "Strip", strip_dec },      { "Replace", replace_dec },     { NULL, NULL },
    };
    if (!lm_tokenizer_has(v) && !new_dec(r, LM_DK_JOIN))
        return too_many(err);
    return read_parts(r, v, "decoder", "decoders", kinds, err);
}
