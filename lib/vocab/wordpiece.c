/* SPDX-License-Identifier: MIT */
/*
 * WordPiece, tokenizer model "bert".
 *
 * A word is cut from the left into the longest pieces; those behind the first are pieces
 * that go on a word ("##ing").  A word that cannot be cut so, or that is too long, is
 * unknown as a whole.  In a GGUF file a piece that goes on stands as it is, the others
 * have U+2581 in front.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/bert_text.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

enum { DEFAULT_MAX = 100 };                      /* characters of a word             */

static const char mark[] = "\xE2\x96\x81";       /* U+2581 */

struct wordpiece {
    struct lm_trie begin, go_on;
    uint64_t       max;
    unsigned       opts;                         /* LM_BERT_                         */
};

/* ---- loading ----------------------------------------------------------------- */

static bool begins(struct lm_str s, const char *with)
{
    size_t n = strlen(with);
    return s.len >= n && memcmp(s.p, with, n) == 0;
}

/* May text become this piece? */
static bool reachable(const struct lm_vocab *v, const struct lm_vocab_src *src, uint32_t i)
{
    return v->type[i] != LM_TOKEN_CONTROL && v->type[i] != LM_TOKEN_UNKNOWN &&
           v->type[i] != LM_TOKEN_UNUSED && src->tokens[i].len && (int32_t)i != v->unk &&
           !(v->attr[i] & LM_ATTR_ADDED);
}

/*
 * The pieces that can begin a word, or those that can go on: *text without what marks them.
 * By a prefix such as "##" those of the second kind can begin a word as well, if it has the
 * prefix itself.
 */
static bool is_kind(struct lm_str *text, const char *prefix, bool go_on)
{
    const char *with = prefix ? prefix : mark;
    bool marked = begins(*text, with);
    if (prefix && !go_on)
        return true;
    if (prefix ? !marked : marked == go_on)
        return false;
    if (marked) {
        text->p += strlen(with);
        text->len -= strlen(with);
    }
    return true;
}

static int load_trie(struct lm_vocab *v, const struct lm_vocab_src *src, bool go_on,
                     struct lm_trie *t, struct lm_err *err)
{
    struct lm_str *text = lm_malloc_array(v->n, sizeof *text);
    uint32_t *id = lm_malloc_array(v->n, sizeof *id), n = 0;
    for (uint32_t i = 0; text && id && i < v->n; i++) {
        text[n] = lm_vocab_text(v, i);
        if (reachable(v, src, i) && is_kind(&text[n], src->go_on, go_on))
            id[n++] = i;
    }
    int s = text && id ? lm_trie_build(t, text, id, n, err) : lm_fail_nomem(err);
    free(text);
    free(id);
    return s;
}

/* Pieces that the text before them takes no space in front of, as the library cleans up. */
static bool takes_no_space(const char *p, size_t len)
{
    static const char *const begin[] = { ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re" };
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (begins((struct lm_str){ p, len }, begin[i]))
            return true;
    return false;
}

/* What pieces stand for, with the space in front that parts words. */
static int load_bytes(struct lm_vocab *v, const struct lm_vocab_src *src, struct lm_err *err)
{
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n] + (size_t)v->n))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        struct lm_str s = lm_vocab_text(v, i), rest = s;
        char *to = v->bytes.data + v->bytes.at[i], *p = to;
        bool special = v->type[i] == LM_TOKEN_CONTROL || v->type[i] == LM_TOKEN_UNKNOWN ||
                       v->type[i] == LM_TOKEN_USER;
        bool go_on = !special && is_kind(&rest, src->go_on, true);
        if (!special && !go_on && !src->go_on)
            is_kind(&rest, NULL, false);         /* without the mark */
        if (!go_on && !takes_no_space(rest.p, rest.len))
            *p++ = ' ';
        memcpy(p, rest.p, rest.len);
        v->bytes.at[i + 1] = v->bytes.at[i] + (uint32_t)(p - to + (ptrdiff_t)rest.len);
    }
    return LM_OK;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    struct wordpiece *w = v->own = calloc(1, sizeof *w);
    if (!w)
        return lm_fail_nomem(err);
    if (!lm_uni_ready())
        return lm_fail(err, LM_ENOSUP, "WordPiece: built without utf8proc");
    bool lower = src->lowercase != 0;
    w->max = src->max_word ? src->max_word : DEFAULT_MAX;
    w->opts = LM_BERT_CLEAN | LM_BERT_CHINESE | (lower ? LM_BERT_LOWER : 0) |
              ((src->strip_accents == LM_UNSAID ? lower : src->strip_accents) ? LM_BERT_STRIP : 0);
    if (src->sep >= 0)
        v->eos = src->sep;
    v->join = LM_JOIN_WORDS;
    int s;
    if ((s = load_trie(v, src, false, &w->begin, err)) ||
        (s = load_trie(v, src, true, &w->go_on, err)))
        return s;
    return load_bytes(v, src, err);
}

static void release(struct lm_vocab *v)
{
    struct wordpiece *w = v->own;
    if (!w)
        return;
    lm_trie_release(&w->begin);
    lm_trie_release(&w->go_on);
    free(w);
    v->own = NULL;
}

/* ---- text to pieces ---------------------------------------------------------- */

/* The longest piece at p: its length, or 0. */
static size_t longest(const struct lm_trie *t, const char *p, const char *end, int32_t *id)
{
    size_t best = 0;
    uint32_t node = 0;
    for (const char *q = p; q < end;) {
        node = lm_trie_step(t, node, (unsigned char)*q++);
        if (!node)
            break;
        if (t->unit[node].id >= 0) {
            best = (size_t)(q - p);
            *id = t->unit[node].id;
        }
    }
    return best;
}

static bool too_long(const char *p, size_t len, uint64_t max)
{
    uint64_t n = 0;
    if (len <= max)
        return false;
    for (const char *end = p + len; p < end; n++) {
        int k;
        lm_uni_next(p, end, &k);
        p += k;
    }
    return n > max;
}

/* Cut the word; false if it cannot be, or memory is short. */
static bool cut_word(struct lm_encoder *e, const char *p, size_t len, bool *failed)
{
    const struct wordpiece *w = e->v->own;
    const char *begin = p, *end = p + len;
    int32_t id;
    while (p < end) {
        size_t n = longest(p == begin ? &w->begin : &w->go_on, p, end, &id);
        if (!n)
            return false;
        if (!lm_encoder_put(e, id, n)) {
            *failed = true;
            return false;
        }
        p += n;
    }
    return true;
}

/* A word, of whose text `gone` bytes are not there. */
static int put_word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                    size_t gone, struct lm_err *err)
{
    const struct wordpiece *w = e->v->own;
    bool hit, failed = false;
    struct lm_memo *m = lm_encoder_memo(e, p, len, limit, &hit);
    if (hit)
        return LM_OK;
    size_t from = e->ids->n, pos = e->pos;
    if (too_long(p, len, w->max) || !cut_word(e, p, len, &failed)) {
        if (failed)
            return lm_fail_nomem(err);
        e->ids->n = from;
        e->pos = pos;
        if (!lm_encoder_put(e, e->v->unk, len + gone))
            return lm_fail_nomem(err);
    }
    if (m)
        lm_encoder_keep(e, m, from);
    return LM_OK;
}

static int word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err)
{
    return put_word(e, p, len, limit, 0, err);
}

static uint64_t most(const struct lm_vocab *v)
{
    const struct wordpiece *w = v->own;
    return w->max < UINT64_MAX / 8 ? 4 * w->max : UINT64_MAX;
}

/* The words of normalized text: blanks go, punctuation stands by itself.  If more may follow,
 * the last word is left: up to *done.  Of the first, *gone bytes are not there; that is 0 when
 * it is put. */
static int cut(struct lm_encoder *e, const char *p, size_t len, bool more, size_t *done,
               size_t *gone, struct lm_err *err)
{
    const char *begin = p, *limit = p + len, *from = p;
    int s = LM_OK, k;
    for (; p < limit && s == LM_OK; p += k) {
        uint32_t r = lm_uni_next(p, limit, &k);
        bool blank = lm_uni_class(r) & LM_U_SPACE, punct = !blank && lm_bert_punct(r);
        if (!blank && !punct)
            continue;
        if (from < p)
            s = put_word(e, from, (size_t)(p - from), limit, *gone, err);
        *gone = 0;
        if (s == LM_OK && punct)
            s = word(e, p, (size_t)k, limit, err);
        else if (s == LM_OK && !lm_encoder_put(e, -1, (size_t)k))
            s = lm_fail_nomem(err);
        from = p + k;
    }
    *done = (size_t)(from - begin);
    return s == LM_OK && from < limit && !more
               ? put_word(e, from, (size_t)(limit - from), limit, *gone, err) : s;
}

/* A word of p that is too long already goes on: it is unknown whatever follows, and so its
 * characters need not be kept. */
static void forget_word(struct lm_encoder *e, struct lm_buf *b)
{
    const struct wordpiece *w = e->v->own;
    size_t n = 0;
    if (b->len < 8 * (size_t)e->window || w->max > b->len / 8)
        return;
    for (uint64_t c = 0; c <= w->max; c++) {
        int k;
        lm_uni_next(b->data + n, b->data + b->len, &k);
        n += (size_t)k;
    }
    e->parts->model.head += b->len - n;
    b->len = n;
}

static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    const struct wordpiece *w = e->v->own;
    struct lm_parts *t = e->parts;
    struct lm_buf *text = &t->text, *b = &t->words;
    size_t done = more ? lm_bert_settled(text->data, text->len) : text->len;
    int s = lm_bert_normalize(text->data, done, w->opts, b, lm_parts_map(e), err);
    if (s == LM_OK && !lm_parts_mapped(e, &e->map, done))
        return lm_fail_nomem(err);
    lm_buf_drop(text, done);
    if (s == LM_OK)
        s = cut(e, b->data, b->len, more, &done, &t->model.head, err);
    lm_buf_drop(b, done);
    if (more)
        forget_word(e, b);
    return s == LM_OK ? lm_encoder_pass(e, err) : s;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    const struct wordpiece *w = e->v->own;
    struct lm_remap *map = e->ids->want_spans ? &e->map : NULL;
    struct lm_buf *b = &e->norm;
    size_t done, gone = 0;
    int s = LM_OK;
    (void)first;
    for (const char *end = p + len, *q; p < end && s == LM_OK; p = q) {
        q = map ? end : lm_chunk_end(p, end, 0);
        lm_buf_clear(b);
        s = lm_bert_normalize(p, (size_t)(q - p), w->opts, b, map, err);
        if (s == LM_OK && b->len)
            s = cut(e, b->data, b->len, false, &done, &gone, err);
        if (s == LM_OK)
            s = lm_encoder_pass(e, err);
    }
    return s;
}

const struct lm_tok_model lm_tok_bert = {
    .name = "bert", .bos = 101, .eos = 102, .unk = 100, .add_bos = true, .add_eos = true,
    .load = load, .encode = encode, .part = part, .word = word, .most = most, .release = release,
};
