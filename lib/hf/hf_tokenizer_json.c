/* SPDX-License-Identifier: MIT */
/* tokenizer.json (the tokenizers library's file): what of it conversion reads. */

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/hf_vocab_parts.h"

/* The value that comes next as a tree. */
static int tree_here(struct lm_json *j, struct lm_arena *a, const struct lm_jval **out,
                     struct lm_err *err)
{
    const enum lm_json_kind k = lm_json_next(j);
    const size_t at = j->at;
    if (k == LM_JSON_ERROR || lm_json_skip(j, k))
        return err->code;
    *out = lm_json_tree(a, j->text + at, j->pos - at, err);
    return *out ? LM_OK : err->code;
}

static int read_id(struct lm_json *j, uint64_t *id, struct lm_err *err)
{
    const enum lm_json_kind k = lm_json_next(j);
    const char *p = j->str;
    if (k == LM_JSON_ERROR)
        return err->code;
    *id = 0;
    while (k == LM_JSON_NUMBER && *p >= '0' && *p <= '9' && *id < LM_HF_MAX_PIECES)
        *id = 10 * *id + (uint64_t)(*p++ - '0');
    if (k != LM_JSON_NUMBER || *p || *id >= LM_HF_MAX_PIECES)
        return lm_fail(err, LM_EDATA, "vocab: an id that is no number from 0 to %u",
                       LM_HF_MAX_PIECES - 1);
    return LM_OK;
}

/*
 * A score as the tokenizers library reads it: the digits as a whole number, rounded to a
 * double, times or divided by a power of ten, rounded again.  What is nearest to the decimal
 * may be another double, and the last bit decides between ways of equal sums.  False: no number.
 */
static bool read_score(const char *s, double *out)
{
    const bool negative = *s == '-';
    const char *const begin = s += negative;
    uint64_t digits = 0;
    long exponent = 0, e = 0;
    bool point = false;
    for (; (*s >= '0' && *s <= '9') || (*s == '.' && !point); s++) {
        const uint64_t d = (uint64_t)(*s - '0');
        if (*s == '.') {
            point = true;
        } else if (digits > (UINT64_MAX - d) / 10) {        /* a digit that is left out */
            exponent += !point;
        } else {
            digits = digits * 10 + d;
            exponent -= point;
        }
    }
    if (s == begin)
        return false;
    if (*s == 'e' || *s == 'E') {
        char *end;
        e = strtol(s + 1, &end, 10);
        s = end;
    }
    if (*s || e > 10000 || e < -10000)
        return false;
    double f = (double)digits, power;
    for (exponent += e; exponent < -308; exponent += 308)
        f /= 1e308;
    char text[24];
    snprintf(text, sizeof text, "1e%ld", labs(exponent));
    power = strtod(text, NULL);
    f = exponent < 0 ? f / power : f * power;
    *out = negative ? -f : f;
    return f <= DBL_MAX;
}

/* One piece of a list: ["TEXT", score]. */
static int read_scored(struct lm_json *j, uint64_t id, struct lm_hf_vocab *v, struct lm_err *err)
{
    double score = 0;
    if (lm_json_next(j) != LM_JSON_STRING)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry without a text");
    if (v && !lm_hf_copy(v, j->str, j->str_len, &v->pieces[id]))
        return lm_fail_nomem(err);
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_NUMBER || !read_score(j->str, &score))
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry without a score");
    if (lm_json_next(j) != LM_JSON_ARRAY_END)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry that is no pair");
    if (v) {
        v->types[id] = LM_PIECE_NORMAL;
        v->scores64[id] = score;
    }
    return LM_OK;
}

/* model.vocab of Unigram: a list, whose places are the ids. */
static int walk_scored(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_hf_vocab *v,
                       struct lm_err *err)
{
    enum lm_json_kind k;
    uint64_t id = 0;
    t->scored = true;
    if (v && !(v->scores64 = lm_arena_array(&v->arena, v->n, sizeof *v->scores64)))
        return lm_fail_nomem(err);
    while ((k = lm_json_next(j)) == LM_JSON_ARRAY) {
        if (id == LM_HF_MAX_PIECES)
            return lm_fail(err, LM_ENOSUP, "more than %u pieces", LM_HF_MAX_PIECES);
        const int r = read_scored(j, id++, v, err);
        if (r)
            return r;
    }
    if (k != LM_JSON_ARRAY_END)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry that is "
                                                        "no pair");
    if (id > t->n_ids)
        t->n_ids = id;
    return LM_OK;
}

/* model.vocab: {"TEXT": id}.  With v, its pieces are filled; without, the ids are counted. */
static int walk_vocab(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_hf_vocab *v,
                      struct lm_err *err)
{
    enum lm_json_kind k = lm_json_next(j);
    struct lm_str s = {0};
    uint64_t id = 0;
    if (k == LM_JSON_ARRAY)
        return walk_scored(j, t, v, err);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "vocab is neither an "
                                                        "object nor a list");
    while ((k = lm_json_next(j)) == LM_JSON_KEY) {
        if (v && !lm_hf_copy(v, j->str, j->str_len, &s))
            return lm_fail_nomem(err);
        const int r = read_id(j, &id, err);
        if (r)
            return r;
        if (id >= t->n_ids)
            t->n_ids = id + 1;
        if (!v)
            continue;
        if (v->types[id])
            return lm_fail(err, LM_EDATA, "vocab: id %u is there twice", (unsigned)id);
        v->pieces[id] = s;
        v->types[id] = LM_PIECE_NORMAL;
    }
    return k == LM_JSON_ERROR ? err->code : LM_OK;
}

/* Append one part of a merge; a blank inside it is written as the byte alphabet has it where
 * blanks stand between parts. */
static void add_part(struct lm_buf *b, const char *p, size_t n, int sep)
{
    if (sep || !memchr(p, ' ', n)) {
        lm_buf_add(b, p, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (p[i] == ' ')
            lm_buf_str(b, "\u0120");
        else
            lm_buf_byte(b, (unsigned char)p[i]);
}

/* One merge, "a b" or ["a", "b"], whose first token was k, as "a b" in b. */
static int read_merge(struct lm_json *j, enum lm_json_kind k, struct lm_buf *b, int sep,
                      struct lm_err *err)
{
    lm_buf_clear(b);
    if (k == LM_JSON_STRING) {
        const char *blank = j->str_len > 1 ? memchr(j->str + 1, ' ', j->str_len - 1) : NULL;
        const size_t left = blank ? (size_t)(blank - j->str) : 0;
        if (!blank || left + 1 == j->str_len || memchr(blank + 1, ' ', j->str_len - left - 1))
            return lm_fail(err, LM_EDATA, "merges: \"%.80s\" is not two parts", j->str);
        lm_buf_add(b, j->str, j->str_len);
        if (sep && !b->failed)
            b->data[left] = (char)sep;
        return LM_OK;
    }
    for (int part = 0; k == LM_JSON_ARRAY && part < 2; part++) {
        const enum lm_json_kind p = lm_json_next(j);
        if (p != LM_JSON_STRING || j->str_len == 0)
            return p == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "merges: a part that "
                                                            "is no text");
        add_part(b, j->str, j->str_len, sep);
        if (part == 0)
            lm_buf_byte(b, sep ? sep : ' ');
    }
    if (k != LM_JSON_ARRAY || lm_json_next(j) != LM_JSON_ARRAY_END)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "merges: an entry that is not two "
                                               "parts");
    return b->failed ? lm_fail_nomem(err) : LM_OK;
}

/* model.merges, counted, or with v, whose list has room, copied. */
static int walk_merges(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_hf_vocab *v,
                       struct lm_err *err)
{
    struct lm_buf b = {0};
    uint64_t n = 0;
    int r = LM_OK;
    enum lm_json_kind k = lm_json_next(j);
    if (k == LM_JSON_NULL)
        return LM_OK;
    if (k != LM_JSON_ARRAY)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "merges is no list");
    while (!r && (k = lm_json_next(j)) != LM_JSON_ARRAY_END) {
        if (k == LM_JSON_ERROR)
            r = err->code;
        else if (!v)
            r = lm_json_skip(j, k) ? err->code : LM_OK;
        else
            r = read_merge(j, k, &b, t->merge_sep, err);
        if (!r && v && !lm_hf_copy(v, b.data, b.len, &v->merges[n]))
            r = lm_fail_nomem(err);
        n++;
    }
    t->n_merges = n;
    lm_buf_release(&b);
    return r;
}

/* A member of model that is no list. */
static int read_small(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_err *err)
{
    const struct { const char *key; bool *out; } flags[] = {
        { "byte_fallback", &t->byte_fallback }, { "ignore_merges", &t->ignore_merges },
        { "fuse_unk", &t->fuse_unk },
    };
    const struct { const char *key; char *out; size_t room; } words[] = {
        { "type", t->type, sizeof t->type }, { "unk_token", t->unk, sizeof t->unk },
        { "continuing_subword_prefix", t->go_on, sizeof t->go_on },
        { "end_of_word_suffix", t->last, sizeof t->last },
    };
    const struct { const char *key; int64_t *out; } numbers[] = {
        { "unk_id", &t->unk_id }, { "max_input_chars_per_word", &t->max_word },
    };
    bool *flag = NULL;
    char *word = NULL, *end;
    int64_t *number = NULL;
    size_t room = 0;
    const bool affix = lm_json_is(j, "continuing_subword_prefix") ||
                       lm_json_is(j, "end_of_word_suffix");
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        flag = lm_json_is(j, flags[i].key) ? flags[i].out : flag;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_json_is(j, words[i].key)) {
            word = words[i].out;
            room = words[i].room;
        }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        number = lm_json_is(j, numbers[i].key) ? numbers[i].out : number;
    const bool drops = lm_json_is(j, "dropout");
    const enum lm_json_kind k = lm_json_next(j);
    if (flag)
        *flag = k == LM_JSON_TRUE;
    if (k == LM_JSON_STRING && affix)
        t->affixes |= j->str_len > 0;
    if (k == LM_JSON_STRING && word && j->str_len >= room)
        return lm_fail(err, LM_ENOSUP, "model: a text of %zu bytes where at most %zu are "
                       "supported", j->str_len, room - 1);
    if (k == LM_JSON_STRING && word)
        memcpy(word, j->str, j->str_len + 1);
    t->has_unk |= k == LM_JSON_STRING && word == t->unk;
    if (k == LM_JSON_NUMBER && drops)
        t->dropout = strtod(j->str, NULL);
    if (k == LM_JSON_NUMBER && number)
        *number = strtoll(j->str, &end, 10);
    return k == LM_JSON_ERROR || lm_json_skip(j, k) ? err->code : LM_OK;
}

static int walk_model(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_err *err)
{
    int r = LM_OK;
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "model is no object");
    while (!r && (k = lm_json_next(j)) == LM_JSON_KEY) {
        const size_t at = j->pos;           /* the value follows */
        if (lm_json_is(j, "vocab")) {
            r = walk_vocab(j, t, NULL, err);
            t->vocab = j->text + at;
            t->vocab_len = j->pos - at;
        } else if (lm_json_is(j, "merges")) {
            r = walk_merges(j, t, NULL, err);
            t->merges = j->text + at;
            t->merges_len = j->pos - at;
        } else {
            r = read_small(j, t, err);
        }
    }
    return r ? r : k == LM_JSON_ERROR ? err->code : LM_OK;
}

static int walk(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                struct lm_err *err)
{
    int r = LM_OK;
    const struct {
        const char            *key;
        const struct lm_jval **out;
    } small[] = {
        { "added_tokens", &t->added }, { "normalizer", &t->normalizer },
        { "pre_tokenizer", &t->pre_tokenizer }, { "post_processor", &t->post_processor },
        { "decoder", &t->decoder },
    };
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "is no object");
    while (!r && (k = lm_json_next(j)) == LM_JSON_KEY) {
        const struct lm_jval **out = NULL;
        for (size_t i = 0; i < sizeof small / sizeof *small; i++)
            if (lm_json_is(j, small[i].key))
                out = small[i].out;
        if (out)
            r = tree_here(j, a, out, err);
        else if (lm_json_is(j, "model"))
            r = walk_model(j, t, err);
        else if (lm_json_skip(j, lm_json_next(j)))
            r = err->code;
    }
    if (r || k == LM_JSON_ERROR || lm_json_next(j) != LM_JSON_EOF)
        return r ? r : err->code;
    for (const struct lm_jval *x = t->added ? t->added->first : NULL; x; x = x->next) {
        int64_t id = -1;
        if (lm_jval_i64(lm_jval_get(x, "id"), &id) && id >= 0 && id < LM_HF_MAX_PIECES &&
            (uint64_t)id >= t->n_ids)
            t->n_ids = (uint64_t)id + 1;
    }
    return LM_OK;
}

int lm_tokenizer_json_parse(struct lm_tokenizer_json *t, struct lm_arena *a, struct lm_err *err)
{
    struct lm_json j;
    struct lm_err own = {0};
    err = err ? err : &own;
    t->unk_id = t->max_word = -1;
    lm_json_init(&j, t->text, t->len, err);
    const int r = walk(&j, t, a, err);
    lm_json_release(&j);
    return r;
}

int lm_tokenizer_json_open(struct lm_tokenizer_json *t, struct lm_arena *a,
                           struct lm_hf_source *src, struct lm_err *err)
{
    struct lm_err own = {0};
    err = err ? err : &own;
    *t = (struct lm_tokenizer_json){0};
    int r = lm_hf_load(src, "tokenizer.json", &t->text, &t->len, err);
    if (r)
        return r > 0 ? LM_OK : r;
    r = lm_tokenizer_json_parse(t, a, err);
    return r ? lm_err_at(err, r, "tokenizer.json") : LM_OK;
}

void lm_tokenizer_json_close(struct lm_tokenizer_json *t)
{
    free(t->text);
    free(t->merges_txt);
    free(t->vocab_json);
    *t = (struct lm_tokenizer_json){0};
}

/* The next line of merges.txt that holds a merge: "a b"; comments stand on the first line. */
static const char *merge_line(const struct lm_tokenizer_json *t, size_t *at, size_t *n)
{
    while (*at < t->merges_txt_len) {
        const char *p = t->merges_txt + *at;
        const char *nl = memchr(p, '\n', t->merges_txt_len - *at);
        const bool first = *at == 0;
        *n = nl ? (size_t)(nl - p) : t->merges_txt_len - *at;
        *at += *n + (nl != NULL);
        if (*n && p[*n - 1] == '\r')
            --*n;
        if (*n && !(first && p[0] == '#'))
            return p;
    }
    return NULL;
}

int lm_tokenizer_merges_txt(struct lm_tokenizer_json *t, struct lm_hf_source *src,
                            struct lm_err *err)
{
    size_t at = 0, n;
    const int r = lm_hf_load(src, "merges.txt", &t->merges_txt, &t->merges_txt_len, err);
    if (r)
        return r;
    for (const char *p; (p = merge_line(t, &at, &n)); t->n_merges++) {
        const char *blank = n > 1 ? memchr(p + 1, ' ', n - 1) : NULL;
        const size_t left = blank ? (size_t)(blank - p) : 0;
        if (!blank || left + 1 == n || memchr(blank + 1, ' ', n - left - 1))
            return lm_fail(err, LM_EDATA, "merges.txt: \"%.*s\" is not two parts",
                           n < 80 ? (int)n : 80, p);
    }
    return LM_OK;
}

int lm_tokenizer_vocab_json(struct lm_tokenizer_json *t, struct lm_hf_source *src,
                            struct lm_err *err)
{
    struct lm_json j;
    size_t len;
    int r = lm_hf_load(src, "vocab.json", &t->vocab_json, &len, err);
    if (r)
        return r;
    t->vocab = t->vocab_json;
    t->vocab_len = len;
    lm_json_init(&j, t->vocab, len, err);
    r = walk_vocab(&j, t, NULL, err);
    if (!r && lm_json_next(&j) != LM_JSON_EOF)
        r = err->code;
    lm_json_release(&j);
    return r ? lm_err_at(err, r, "vocab.json") : LM_OK;
}

/* Read a part of the text again, this time into v. */
static int again(int (*walk_part)(struct lm_json *, struct lm_tokenizer_json *,
                                  struct lm_hf_vocab *, struct lm_err *),
                 const char *text, size_t len, struct lm_tokenizer_json *t, struct lm_hf_vocab *v,
                 struct lm_err *err)
{
    struct lm_json j;
    lm_json_init(&j, text, len, err);
    const int r = walk_part(&j, t, v, err);
    lm_json_release(&j);
    return r;
}

int lm_tokenizer_json_pieces(struct lm_hf_vocab *v, struct lm_tokenizer_json *t,
                             struct lm_err *err)
{
    size_t at = 0, n;
    struct lm_err own = {0};
    err = err ? err : &own;
    int r = t->vocab ? again(walk_vocab, t->vocab, t->vocab_len, t, v, err)
                     : lm_fail(err, LM_EDATA, "has no vocab");
    if (r || strcmp(v->model, "gpt2"))
        return r;
    v->n_merges = t->n_merges;
    v->merges = lm_arena_array(&v->arena, (size_t)t->n_merges, sizeof *v->merges);
    if (!v->merges)
        return lm_fail_nomem(err);
    if (!t->merges_txt)
        return again(walk_merges, t->merges, t->merges_len, t, v, err);
    for (uint64_t i = 0; i < v->n_merges; i++) {
        const char *p = merge_line(t, &at, &n);
        if (!p || !lm_hf_copy(v, p, n, &v->merges[i]))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}
