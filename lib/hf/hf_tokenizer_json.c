/* SPDX-License-Identifier: MIT */
/* tokenizer.json (the tokenizers library's file): what of it conversion reads. */

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "hf/hf_vocab_parts.h"
#include "hf/tokenizer_fields.h"

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

/* The bytes of the text just read, which stay: where they are, or a copy in the arena. */
static const char *keep(const struct lm_json *j, struct lm_arena *a)
{
    const bool there = j->str >= j->text && j->str < j->text + j->len;
    return there ? j->str : lm_arena_copy(a, j->str, j->str_len);
}

static int too_high(const char *id, struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "id %.20s is out of range: at most %u is supported", id,
                   LM_HF_MAX_PIECES - 1);
}

static int read_id(struct lm_json *j, uint32_t *id, struct lm_err *err)
{
    const enum lm_json_kind k = lm_json_next(j);
    const char *p = j->str;
    if (k == LM_JSON_ERROR)
        return err->code;
    if (k != LM_JSON_NUMBER || p[strspn(p, "0123456789")])
        return lm_fail(err, LM_EDATA, "vocab: an id that is no whole number from 0 on");
    for (*id = 0; *p && *id < LM_HF_MAX_PIECES; p++)
        *id = 10 * *id + (uint32_t)(*p - '0');
    return *id < LM_HF_MAX_PIECES ? LM_OK : lm_err_at(err, too_high(j->str, err), "vocab");
}

/* Room for one more piece, and for its score; NULL: no memory. */
static struct lm_hf_entry *new_entry(struct lm_tokenizer_json *t)
{
    if (!lm_grow(&t->entries, &t->entries_cap, t->n_entries + 1, sizeof *t->entries) ||
        (t->scored &&
         !lm_grow(&t->scores, &t->scores_cap, t->n_entries + 1, sizeof *t->scores)))
        return NULL;
    return &t->entries[t->n_entries++];
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
static int read_scored(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                       struct lm_err *err)
{
    if (t->n_entries == LM_HF_MAX_PIECES)
        return lm_fail(err, LM_ENOSUP, "more than %u pieces", LM_HF_MAX_PIECES);
    struct lm_hf_entry *e = new_entry(t);
    if (!e)
        return lm_fail_nomem(err);
    if (lm_json_next(j) != LM_JSON_STRING)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry without a text");
    *e = (struct lm_hf_entry){ keep(j, a), (uint32_t)j->str_len, (uint32_t)t->n_entries - 1 };
    if (!e->p)
        return lm_fail_nomem(err);
    const enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_NUMBER || !read_score(j->str, &t->scores[e->id]))
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry without a score");
    if (lm_json_next(j) != LM_JSON_ARRAY_END)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry that is no pair");
    return LM_OK;
}

/* model.vocab of Unigram: a list, whose places are the ids. */
static int read_list(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                     struct lm_err *err)
{
    enum lm_json_kind k;
    t->scored = true;
    while ((k = lm_json_next(j)) == LM_JSON_ARRAY) {
        const int r = read_scored(j, t, a, err);
        if (r)
            return r;
    }
    if (k != LM_JSON_ARRAY_END)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "vocab: an entry that is "
                                                        "no pair");
    if (t->n_entries > t->n_ids)
        t->n_ids = t->n_entries;
    return LM_OK;
}

/* model.vocab: {"TEXT": id}, or a list. */
static int read_vocab(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                      struct lm_err *err)
{
    enum lm_json_kind k = lm_json_next(j);
    t->n_entries = 0;                       /* of a member that is there twice the last counts */
    t->has_vocab = true;
    t->scored = false;
    if (k == LM_JSON_ARRAY)
        return read_list(j, t, a, err);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "vocab is neither an "
                                                        "object nor a list");
    while ((k = lm_json_next(j)) == LM_JSON_KEY) {
        struct lm_hf_entry *e = new_entry(t);
        if (!e || !(e->p = keep(j, a)))
            return lm_fail_nomem(err);
        e->len = (uint32_t)j->str_len;
        const int r = read_id(j, &e->id, err);
        if (r)
            return r;
        if (e->id >= t->n_ids)
            t->n_ids = (uint64_t)e->id + 1;
    }
    return k == LM_JSON_ERROR ? err->code : LM_OK;
}

/* The parts of "a b", n bytes that stay; the blank between them is the first that is not the
 * first byte. */
static int split_merge(const char *p, size_t n, struct lm_hf_merge *m, const char *file,
                       struct lm_err *err)
{
    const char *blank = n > 1 ? memchr(p + 1, ' ', n - 1) : NULL;
    const size_t left = blank ? (size_t)(blank - p) : 0;
    if (!blank || left + 1 == n || memchr(blank + 1, ' ', n - left - 1))
        return lm_fail(err, LM_EDATA, "%s: \"%.*s\" is not two parts", file,
                       n < 80 ? (int)n : 80, p);
    *m = (struct lm_hf_merge){ p, blank + 1, (uint32_t)left, (uint32_t)(n - left - 1) };
    return LM_OK;
}

/* One merge, "a b" or ["a", "b"], whose first token was k. */
static int read_merge(struct lm_json *j, enum lm_json_kind k, struct lm_arena *a,
                      struct lm_hf_merge *m, struct lm_err *err)
{
    const char *part[2];
    size_t len[2];
    if (k == LM_JSON_STRING) {
        part[0] = keep(j, a);
        return part[0] ? split_merge(part[0], j->str_len, m, "merges", err) : lm_fail_nomem(err);
    }
    for (int i = 0; k == LM_JSON_ARRAY && i < 2; i++) {
        const enum lm_json_kind p = lm_json_next(j);
        if (p != LM_JSON_STRING || j->str_len == 0)
            return p == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "merges: a part that "
                                                            "is no text");
        len[i] = j->str_len;
        if (!(part[i] = keep(j, a)))
            return lm_fail_nomem(err);
    }
    if (k != LM_JSON_ARRAY || lm_json_next(j) != LM_JSON_ARRAY_END)
        return err->code ? err->code : lm_fail(err, LM_EDATA, "merges: an entry that is not two "
                                               "parts");
    *m = (struct lm_hf_merge){ part[0], part[1], (uint32_t)len[0], (uint32_t)len[1] };
    return LM_OK;
}

/* Room for one more merge, or NULL. */
static struct lm_hf_merge *new_merge(struct lm_tokenizer_json *t)
{
    if (!lm_grow(&t->merges, &t->merges_cap, t->n_merges + 1, sizeof *t->merges))
        return NULL;
    return &t->merges[t->n_merges++];
}

static int read_merges(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                       struct lm_err *err)
{
    int r = LM_OK;
    enum lm_json_kind k = lm_json_next(j);
    t->n_merges = 0;
    if (k == LM_JSON_NULL)
        return LM_OK;
    if (k != LM_JSON_ARRAY)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "merges is no list");
    if (!lm_grow(&t->merges, &t->merges_cap, 1, sizeof *t->merges))
        return lm_fail_nomem(err);
    while (!r && (k = lm_json_next(j)) != LM_JSON_ARRAY_END) {
        if (k == LM_JSON_ERROR)
            return err->code;
        if (k == LM_JSON_STRING && strncmp(j->str, "#version", 8) == 0)
            continue;                            /* the head of a merges.txt, come along */
        struct lm_hf_merge *m = new_merge(t);
        r = m ? read_merge(j, k, a, m, err) : lm_fail_nomem(err);
    }
    return r;
}

/* A member of model that is no list, put behind those that came before; **tail is its place.  Of
 * what is not a single value only the kind is kept. */
static int read_small(struct lm_json *j, const struct lm_jval ***tail, struct lm_arena *a,
                      struct lm_err *err)
{
    struct lm_jval *x = lm_arena_array(a, 1, sizeof *x);
    const size_t len = j->str_len;
    const char *key = x ? lm_arena_copy(a, j->str, len) : NULL;
    if (!key)
        return lm_fail_nomem(err);
    *x = (struct lm_jval){ .key = key, .key_len = len, .kind = lm_json_next(j) };
    if (x->kind == LM_JSON_STRING || x->kind == LM_JSON_NUMBER) {
        x->len = j->str_len;
        if (!(x->str = lm_arena_copy(a, j->str, j->str_len)))
            return lm_fail_nomem(err);
    }
    **tail = x;
    *tail = &x->next;
    return x->kind == LM_JSON_ERROR || lm_json_skip(j, x->kind) ? err->code : LM_OK;
}

/* What the small members of model say. */
static int take_model(struct lm_tokenizer_json *t, const struct lm_jval *model, struct lm_err *err)
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
    const char *type = lm_tokenizer_type(model);
    const int r = lm_tokenizer_fields("model", *type ? type : "BPE", model, err);
    if (r)
        return r;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        lm_jval_bool(lm_jval_get(model, flags[i].key), flags[i].out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const struct lm_jval *x = lm_jval_get(model, words[i].key);
        if (!lm_jval_str(x))
            continue;
        if (x->len >= words[i].room)
            return lm_fail(err, LM_ENOSUP, "%s has %zu bytes where at most %zu are supported",
                           words[i].key, x->len, words[i].room - 1);
        memcpy(words[i].out, x->str, x->len + 1);
    }
    t->has_unk = lm_jval_str(lm_jval_get(model, "unk_token"));
    t->affixes = t->go_on[0] || t->last[0];
    lm_jval_f64(lm_jval_get(model, "dropout"), &t->dropout);
    lm_jval_i64(lm_jval_get(model, "unk_id"), &t->unk_id);
    lm_jval_i64(lm_jval_get(model, "max_input_chars_per_word"), &t->max_word);
    return LM_OK;
}

static int walk_model(struct lm_json *j, struct lm_tokenizer_json *t, struct lm_arena *a,
                      struct lm_err *err)
{
    int r = LM_OK;
    struct lm_jval model = { .kind = LM_JSON_OBJECT };
    const struct lm_jval **tail = &model.first;
    enum lm_json_kind k = lm_json_next(j);
    if (k != LM_JSON_OBJECT)
        return k == LM_JSON_ERROR ? err->code : lm_fail(err, LM_EDATA, "model is no object");
    while (!r && (k = lm_json_next(j)) == LM_JSON_KEY) {
        const bool vocab = lm_json_is(j, "vocab"), merges = lm_json_is(j, "merges");
        j->slices = vocab || merges;
        if (vocab)
            r = read_vocab(j, t, a, err);
        else if (merges)
            r = read_merges(j, t, a, err);
        else if (lm_tokenizer_reads("model", j->str, j->str_len))
            r = read_small(j, &tail, a, err);
        else if (lm_json_skip(j, lm_json_next(j)))
            r = err->code;
        j->slices = false;
    }
    if (r || k == LM_JSON_ERROR)
        return r ? r : err->code;
    r = take_model(t, &model, err);
    return r ? lm_err_at(err, r, "model") : LM_OK;
}

/* Added tokens are what they have to be; t->n_ids counts them, too. */
static int check_added(struct lm_tokenizer_json *t, struct lm_err *err)
{
    size_t n = 0;
    if (t->added && t->added->kind != LM_JSON_ARRAY)
        return lm_fail(err, LM_EDATA, "added_tokens is no list");
    for (const struct lm_jval *x = t->added ? t->added->first : NULL; x; x = x->next, n++) {
        int64_t id = -1;
        int r = lm_tokenizer_fields("added_tokens", "", x, err);
        const struct lm_jval *number = lm_jval_get(x, "id");
        if (!r && lm_jval_i64(number, &id) && id >= LM_HF_MAX_PIECES)
            r = too_high(number->str, err);
        if (r)
            return lm_err_at(err, r, "added_tokens[%zu]", n);
        if ((uint64_t)id >= t->n_ids)
            t->n_ids = (uint64_t)id + 1;
    }
    return LM_OK;
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
            r = walk_model(j, t, a, err);
        else if (lm_json_skip(j, lm_json_next(j)))
            r = err->code;
    }
    if (r || k == LM_JSON_ERROR || lm_json_next(j) != LM_JSON_EOF)
        return r ? r : err->code;
    return check_added(t, err);
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
    lm_tokenizer_json_release(t);
    free(t->text);
    free(t->merges_txt);
    free(t->vocab_json);
    *t = (struct lm_tokenizer_json){0};
}

void lm_tokenizer_json_release(struct lm_tokenizer_json *t)
{
    free(t->entries);
    free(t->scores);
    free(t->merges);
    t->entries = NULL;
    t->scores = NULL;
    t->merges = NULL;
}

int lm_tokenizer_merges_txt(struct lm_tokenizer_json *t, struct lm_hf_source *src,
                            struct lm_err *err)
{
    size_t len;
    int r = lm_hf_load(src, "merges.txt", &t->merges_txt, &len, err);
    if (r)
        return r;
    const char *p = t->merges_txt, *const end = p + len;
    for (const char *next; p < end && !r; p = next) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);
        next = p + n + (nl != NULL);
        n -= n && p[n - 1] == '\r';
        if (!n || (p == t->merges_txt && *p == '#'))     /* a comment on the first line */
            continue;
        struct lm_hf_merge *m = new_merge(t);
        r = m ? split_merge(p, n, m, "merges.txt", err) : lm_fail_nomem(err);
    }
    return r;
}

int lm_tokenizer_vocab_json(struct lm_tokenizer_json *t, struct lm_arena *a,
                            struct lm_hf_source *src, struct lm_err *err)
{
    struct lm_json j;
    size_t len;
    int r = lm_hf_load(src, "vocab.json", &t->vocab_json, &len, err);
    if (r)
        return r;
    lm_json_init(&j, t->vocab_json, len, err);
    j.slices = true;
    r = read_vocab(&j, t, a, err);
    if (!r && lm_json_next(&j) != LM_JSON_EOF)
        r = err->code;
    lm_json_release(&j);
    return r ? lm_err_at(err, r, "vocab.json") : LM_OK;
}

int lm_tokenizer_json_lay(struct lm_hf_vocab *v, const struct lm_tokenizer_json *t,
                          struct lm_err *err)
{
    if (!t->has_vocab)
        return lm_fail(err, LM_EDATA, "has no vocab");
    if (t->scored && !(v->scores64 = lm_arena_array(&v->arena, v->n, sizeof *v->scores64)))
        return lm_fail_nomem(err);
    if (t->scored && t->n_entries)
        memcpy(v->scores64, t->scores, t->n_entries * sizeof *t->scores);
    for (size_t i = 0; i < t->n_entries; i++) {
        const struct lm_hf_entry *e = &t->entries[i];
        if (v->types[e->id])
            return lm_fail(err, LM_EDATA, "vocab: id %u is there twice", e->id);
        v->pieces[e->id] = (struct lm_str){ e->p, e->len };
        v->types[e->id] = LM_PIECE_NORMAL;
    }
    return LM_OK;
}

/* Append one part of a merge; a blank inside it is written as the byte alphabet has it where
 * blanks stand between parts. */
static void add_part(struct lm_buf *b, const char *p, size_t n)
{
    for (const char *blank; n && (blank = memchr(p, ' ', n)); p = blank + 1) {
        lm_buf_add(b, p, (size_t)(blank - p));
        lm_buf_str(b, "\u0120");
        n -= (size_t)(blank - p) + 1;
    }
    lm_buf_add(b, p, n);
}

int lm_tokenizer_json_pieces(struct lm_hf_vocab *v, const struct lm_tokenizer_json *t,
                             struct lm_err *err)
{
    struct lm_buf b = {0};
    bool there = true;
    const int r = lm_tokenizer_json_lay(v, t, err);
    for (uint32_t i = 0; !r && there && i < v->n; i++)
        there = !v->types[i] || lm_hf_copy(v, v->pieces[i].p, v->pieces[i].len, &v->pieces[i]);
    if (r || !there || strcmp(v->model, "gpt2"))
        return r ? r : there ? LM_OK : lm_fail_nomem(err);
    v->n_merges = t->n_merges;
    v->merges = lm_arena_array(&v->arena, t->n_merges, sizeof *v->merges);
    there = v->merges != NULL;
    for (size_t i = 0; there && i < t->n_merges; i++) {
        lm_buf_clear(&b);
        add_part(&b, t->merges[i].left, t->merges[i].left_len);
        lm_buf_byte(&b, ' ');
        add_part(&b, t->merges[i].right, t->merges[i].right_len);
        there = !b.failed && lm_hf_copy(v, b.data, b.len, &v->merges[i]);
    }
    lm_buf_release(&b);
    return there ? LM_OK : lm_fail_nomem(err);
}
