/* SPDX-License-Identifier: MIT */
/*
 * Unigram, tokenizer model "t5".
 *
 * Of all ways to write a word as pieces the one whose scores have the greatest sum is taken
 * (Viterbi): best[0] = 0, and for each start i of a character, ascending, for each piece that
 * stands there, shortest first, ending at j: best[j] = best[i] + score if that is greater.  Where
 * no piece is exactly the character, it is unknown, 10 below the lowest score.  Unknown
 * characters beside each other are one id, or bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/charsmap.h"
#include "vocab/spm_text.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

#define UNK_PENALTY 10.0
#define USER_BONUS  0.1f                         /* SentencePiece's, of pieces of type user:
                                                    a byte that it is longer than one  */

static const char mark[] = "\xE2\x96\x81";       /* U+2581, in the place of a space  */

struct unigram {
    struct lm_trie     trie;
    double            *score;                    /* [n]                              */
    double             unk_score;
    struct lm_charsmap map;
    bool               has_map, extra_spaces;
    int32_t            fffd;                     /* the piece U+FFFD, or -1          */
    struct lm_spm_text *spm;                     /* by SentencePiece's rules         */
};

/* ---- loading ----------------------------------------------------------------- */

/* May text become this piece? */
static bool reachable(const struct lm_vocab *v, const struct lm_vocab_src *src, uint32_t i)
{
    return v->type[i] != LM_TOKEN_CONTROL && v->type[i] != LM_TOKEN_UNKNOWN &&
           v->type[i] != LM_TOKEN_BYTE && src->tokens[i].len && (int32_t)i != v->unk &&
           !(src->sentencepiece && v->type[i] == LM_TOKEN_UNUSED) &&
           !(v->attr[i] & LM_ATTR_ADDED) &&
           !(v->doubles && lm_vocab_find(v, src->tokens[i].p, src->tokens[i].len) != (int32_t)i);
}

static int load_scores(struct lm_vocab *v, struct unigram *u, const struct lm_vocab_src *src,
                       struct lm_err *err)
{
    double low = 0;
    bool any = false;
    u->score = lm_malloc_array(v->n, sizeof *u->score);
    if (!u->score)
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        u->score[i] = src->scores64 ? src->scores64[i] : (double)v->score[i];
        if (u->score[i] != u->score[i])
            return lm_fail(err, LM_EDATA, "the score of id %u is not a number", i);
        /* a tokenizer.json counts all of its pieces, GGUF files have padding among them */
        if (!(src->words || v->type[i] == LM_TOKEN_NORMAL) || !src->tokens[i].len)
            continue;
        low = !any || u->score[i] < low ? u->score[i] : low;
        any = true;
    }
    u->unk_score = low - UNK_PENALTY;
    if (!src->sentencepiece)
        return LM_OK;
    u->unk_score = (double)(float)u->unk_score;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->type[i] == LM_TOKEN_USER && src->tokens[i].len)
            u->score[i] = (double)(USER_BONUS * (float)(src->tokens[i].len - 1));
    return LM_OK;
}

static int load_trie(struct lm_vocab *v, struct unigram *u, const struct lm_vocab_src *src,
                     struct lm_err *err)
{
    struct lm_str *text = lm_malloc_array(v->n, sizeof *text);
    uint32_t *id = lm_malloc_array(v->n, sizeof *id), n = 0;
    int s = LM_OK;
    for (uint32_t i = 0; text && id && i < v->n; i++)
        if (reachable(v, src, i)) {
            text[n] = lm_vocab_text(v, i);
            id[n++] = i;
        }
    s = text && id ? lm_trie_build(&u->trie, text, id, n, err) : lm_fail_nomem(err);
    free(text);
    free(id);
    u->fffd = lm_vocab_find(v, "\xEF\xBF\xBD", 3);
    if (u->fffd >= 0 && !reachable(v, src, (uint32_t)u->fffd))
        u->fffd = -1;
    return s;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    struct unigram *u = v->own = calloc(1, sizeof *u);
    if (!u)
        return lm_fail_nomem(err);
    if (!v->score && !src->scores64)
        return lm_fail(err, LM_EDATA, "the scores of the vocabulary are missing");
    if (!lm_uni_ready())
        return lm_fail(err, LM_ENOSUP, "Unigram: built without utf8proc");
    v->space_prefix = src->space_prefix > 0;
    v->join = src->sentencepiece ? lm_spm_join(src) : LM_JOIN_MARKS;
    v->byte_fallback = lm_find_bytes(v) && src->byte_fallback;
    u->extra_spaces = src->extra_spaces > 0;
    u->has_map = src->charsmap.len > 0;
    int s = u->has_map ? lm_charsmap_init(&u->map, src->charsmap.p, src->charsmap.len, err)
                       : LM_OK;
    if (s || (s = load_scores(v, u, src, err)) || (s = load_trie(v, u, src, err)))
        return s;
    if (src->sentencepiece && !(u->spm = lm_spm_text_new(v, src, err)))
        return err ? (int)err->code : LM_ENOMEM;
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++)
        v->bytes.at[i + 1] = v->bytes.at[i] +
                             (uint32_t)lm_marked_bytes(v, i, v->bytes.data + v->bytes.at[i]);
    return LM_OK;
}

static void release(struct lm_vocab *v)
{
    struct unigram *u = v->own;
    if (!u)
        return;
    lm_trie_release(&u->trie);
    lm_charsmap_release(&u->map);
    lm_spm_text_free(u->spm);
    free(u->score);
    free(u);
    v->own = NULL;
}

/* ---- the best way through a word --------------------------------------------- */

/* SentencePiece keeps sums as floats, which decides between ways that are equally good. */
static inline void reach(struct lm_way_node *to, double score, uint32_t back, int32_t id,
                         bool floats)
{
    score = floats ? (double)(float)score : score;
    if (!to->back || score > to->score) {
        to->score = score;
        to->back = back;
        to->id = id;
    }
}

/* All pieces that begin at the character p, k bytes long; node is that of its place. */
static void extend(struct lm_encoder *e, struct lm_way *w, const char *p, const char *end,
                   struct lm_way_node *node, int k, uint32_t r)
{
    const struct unigram *u = e->v->own;
    (void)w;
    double from = node->score;
    bool single = false, floats = u->spm != NULL;
    uint32_t t = 0;
    for (uint32_t n = 1; p < end; n++) {
        t = lm_trie_step(&u->trie, t, (unsigned char)*p++);
        if (!t)
            break;
        int32_t id = u->trie.unit[t].id;
        if (id >= 0) {
            reach(&node[n], from + u->score[id], n, id, floats);
            single |= n == (uint32_t)k;
        }
    }
    if (single)
        return;
    if (r == 0xFFFD && k == 1 && u->fffd >= 0)   /* a byte that is not UTF-8 */
        reach(&node[1], from + u->score[u->fffd], 1, u->fffd, floats);
    else
        reach(&node[k], from + u->unk_score, (uint32_t)k, -1, floats);
}

/* The unknown stretch ends. */
static bool put_unknown(struct lm_encoder *e, struct lm_way *w)
{
    size_t n = w->unknown;
    bool was = w->in_unknown, early = w->early;
    w->in_unknown = w->early = false;
    w->unknown = 0;
    if (!was || !lm_encoder_put(e, e->v->unk, n))
        return !was;
    if (early) {
        struct lm_span *s = &e->ids->span[e->ids->n - 1];
        s->len += s->at - w->unknown_at;
        s->at = w->unknown_at;
    }
    return true;
}

/* Where a stretch began is noted, so that the origins of its text need not be kept. */
static void note_unknown(struct lm_encoder *e, struct lm_way *w)
{
    if (!e->ids->want_spans || w->unknown < 2)
        return;
    if (!w->early)
        w->unknown_at = e->base + lm_remap_find(&e->map, e->pos);
    w->early = true;
    e->pos += w->unknown - 1;
    w->unknown = 1;
    lm_remap_find(&e->map, e->pos);
}

/* Unknown text; as bytes, these stand each by itself. */
static bool add_unknown(struct lm_encoder *e, struct lm_way *w, const char *p, size_t n)
{
    if (!e->v->byte_fallback) {
        w->in_unknown = true;
        w->unknown += n;
        return true;
    }
    for (size_t i = 0; i < n; i++)
        if (!lm_encoder_put(e, e->v->byte_id[(unsigned char)p[i]], 1))
            return false;
    return true;
}

static bool put(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, int32_t id)
{
    if (id < 0)
        return add_unknown(e, w, p, len);
    return put_unknown(e, w) && lm_encoder_put(e, id, len);
}

static const struct lm_way_model model = { .extend = extend, .put = put };

/* See lm_best_way. */
static bool best_way(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, bool more,
                     size_t *done)
{
    return lm_best_way(e, &model, w, p, len, more, done) && (more || put_unknown(e, w));
}

static int word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err)
{
    bool hit;
    struct lm_memo *w = lm_encoder_memo(e, p, len, limit, &hit);
    if (hit)
        return LM_OK;
    size_t from = e->ids->n, done;
    struct lm_way way = { 0 };
    if (!best_way(e, &way, p, len, false, &done))
        return lm_fail_nomem(err);
    if (w)
        lm_encoder_keep(e, w, from);
    return LM_OK;
}

static int word_part(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, bool more,
                     size_t *done, struct lm_err *err)
{
    return best_way(e, w, p, len, more, done) ? lm_encoder_pass(e, err) : lm_fail_nomem(err);
}

/* ---- text to words, as in a GGUF file ---------------------------------------- */

/*
 * A fragment on its way to words: spaces become marks, each of which begins a word, as
 * Hugging Face's Metaspace has it; with extra_spaces a run of spaces is one, and blanks at
 * the end of the fragment go.
 */
struct words {
    struct lm_encoder *e;
    struct lm_err     *err;
    struct lm_model_parts *m;                    /* gap: the last was a space; way:
                                                    through a word that is long      */
    struct lm_remap   *normal;                   /* of the normalized text, or NULL  */
    size_t             normal_at;                /* where in it the chunk begins     */
    size_t             put;                      /* bytes of words so far            */
};

static bool note(struct words *w, size_t at)
{
    return !w->normal ||
           lm_remap_add(&w->e->map, w->put, lm_remap_find(w->normal, w->normal_at + at));
}

/* The same of the end of what was put. */
static bool note_end(struct words *w, size_t at)
{
    return !w->normal ||
           lm_remap_add(&w->e->map, w->put, lm_remap_end(w->normal, w->normal_at + at));
}

/* A mark that is one for several spaces stands for the last of them, which is at `at`. */
static bool move_mark(struct words *w, size_t at)
{
    struct lm_remap *m = &w->e->map;
    if (!w->normal)
        return true;
    while (m->n && m->e[m->n - 1].at + 3 >= w->put)
        m->n--;
    w->put -= 3;
    bool ok = note(w, at);
    w->put += 3;
    return ok && note_end(w, at + 1);
}

static int end_word(struct words *w)
{
    struct lm_buf *b = &w->e->norm;
    if (b->failed)
        return lm_fail_nomem(w->err);
    if (!b->len && !w->m->way.begun)
        return LM_OK;
    int s = LM_OK;
    size_t done;
    if (!w->m->way.begun)
        s = word(w->e, b->data, b->len, b->data + b->len, w->err);
    else if (!best_way(w->e, &w->m->way, b->data, b->len, false, &done))
        s = lm_fail_nomem(w->err);
    lm_buf_clear(b);
    return s;
}

/* A word goes on: of one that is long the begin is settled. */
static int long_word(struct words *w)
{
    struct lm_buf *b = &w->e->norm;
    size_t done;
    if (b->len < 2 * w->e->window)
        return LM_OK;
    if (!best_way(w->e, &w->m->way, b->data, b->len, true, &done))
        return lm_fail_nomem(w->err);
    note_unknown(w->e, &w->m->way);
    lm_remap_trim(&w->e->map);
    lm_buf_drop(b, done);
    return lm_encoder_pass(w->e, w->err);
}

/* A mark that begins a word; at: where its space is in the chunk. */
static int begin_word(struct words *w, size_t at)
{
    int s = end_word(w);
    if (s != LM_OK || !note(w, at))
        return s ? s : lm_fail_nomem(w->err);
    lm_buf_add(&w->e->norm, mark, 3);
    w->put += 3;
    w->m->begun = true;
    return LM_OK;
}

static bool is_mark(const char *p, size_t len)
{
    return len >= 3 && memcmp(p, mark, 3) == 0;
}

/* Text without spaces from p[i]: up to the next space or mark, at most to p[n]. */
static int put_run(struct words *w, const char *p, size_t *i, size_t n)
{
    size_t j = *i, k;
    while (j < n && p[j] != ' ' && !(p[j] == mark[0] && is_mark(p + j, n - j)))
        j++;
    for (k = *i; w->normal && k < j; k++, w->put++)
        if (((unsigned char)p[k] & 0xC0) != 0x80 && !(note_end(w, k) && note(w, k)))
            return lm_fail_nomem(w->err);
    if (!note_end(w, j))
        return lm_fail_nomem(w->err);
    if (!w->normal)
        w->put += j - *i;
    lm_buf_add(&w->e->norm, p + *i, j - *i);
    *i = j;
    return LM_OK;
}

/* The chunk p[0 .. n). */
static int cut(struct words *w, const char *p, size_t n)
{
    const struct unigram *u = w->e->v->own;
    int s = LM_OK;
    for (size_t i = 0; i < n && s == LM_OK;) {
        bool is_space = p[i] == ' ', marked = !is_space && is_mark(p + i, n - i);
        if (!w->m->begun && w->e->v->space_prefix && !is_space && !marked)
            s = begin_word(w, i);
        w->m->begun = true;
        if (s == LM_OK && (marked || (is_space && !(u->extra_spaces && w->m->gap))))
            s = begin_word(w, i);
        else if (s == LM_OK && is_space && !move_mark(w, i))
            s = lm_fail_nomem(w->err);
        w->m->gap = is_space;
        if (is_space || marked)
            i += is_space ? 1 : 3;
        else if (s == LM_OK && (s = put_run(w, p, &i, n)) == LM_OK)
            s = long_word(w);
        if (s == LM_OK && (is_space || marked) && !note_end(w, i))
            s = lm_fail_nomem(w->err);
    }
    return s;
}

/* Where the blanks at the end of p[0 .. n) begin. */
static size_t trim(const char *p, size_t n)
{
    while (n > 0) {
        size_t k = n - 1;
        int len;
        while (k > 0 && n - k < 4 && ((unsigned char)p[k] & 0xC0) == 0x80)
            k--;
        uint32_t r = lm_uni_next(p + k, p + n, &len);
        if (k + (size_t)len != n || !(lm_uni_class(r) & LM_U_SPACE))
            break;
        n = k;
    }
    return n;
}

/* What is in the buffer becomes words; unless it is the last of the fragment, blanks at its
 * end wait for what follows, of spaces alone one is enough. */
static int cut_chunk(struct words *w, struct lm_buf *b, bool last)
{
    const struct unigram *u = w->e->v->own;
    size_t n = u->extra_spaces ? trim(b->data, b->len) : b->len;
    int s = cut(w, b->data, n);
    size_t left = last ? 0 : b->len - n;
    while (left > 1 && b->data[n] == ' ' && b->data[n + 1] == ' ') {
        n++;
        left--;
    }
    memmove(b->data, b->data + n, left);
    b->len = left;
    w->normal_at += n;
    return s;
}

/* All of a fragment is one word to SentencePiece. */
static int encode_spm(struct lm_encoder *e, const char *p, size_t len, struct lm_err *err)
{
    const struct unigram *u = e->v->own;
    struct lm_way way = { 0 };
    size_t done;
    lm_buf_clear(&e->norm);
    int s = lm_spm_text_apply(u->spm, p, len, true, &e->norm,
                              e->ids->want_spans ? &e->map : NULL, err);
    if (s != LM_OK || !e->norm.len)
        return s;
    return best_way(e, &way, e->norm.data, e->norm.len, false, &done) ? lm_encoder_pass(e, err)
                                                                      : lm_fail_nomem(err);
}

static int part_spm(struct lm_encoder *e, bool more, struct lm_err *err)
{
    const struct unigram *u = e->v->own;
    struct lm_parts *t = e->parts;
    struct lm_buf *b = &t->words;
    size_t done;
    int s = lm_spm_text_part(u->spm, &t->model.spm, t->text.data, t->text.len, more, true, &done,
                             b, lm_parts_map(e), err);
    if (s == LM_OK && !lm_parts_mapped(e, &e->map, done))
        return lm_fail_nomem(err);
    lm_buf_drop(&t->text, done);
    size_t len = more ? lm_spm_text_trim(u->spm, b, true) : b->len;
    if (s != LM_OK || (!len && !t->model.way.begun))
        return s;
    if (!best_way(e, &t->model.way, b->data, len, more, &done))
        return lm_fail_nomem(err);
    note_unknown(e, &t->model.way);
    lm_buf_drop(b, done);
    return lm_encoder_pass(e, err);
}

static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    const struct unigram *u = e->v->own;
    struct lm_parts *t = e->parts;
    struct words w = { .e = e, .err = err, .m = &t->model,
                       .normal = e->ids->want_spans ? &t->normal : NULL,
                       .normal_at = t->model.normal_at, .put = t->model.put };
    struct lm_buf *b = &t->words, *text = &t->text;
    size_t done = text->len;
    int s = LM_OK;
    if (u->spm)
        return part_spm(e, more, err);
    if (!t->model.started)
        lm_buf_clear(&e->norm);
    t->model.started = true;
    struct lm_remap *map = lm_parts_map(e);
    lm_remap_trim(&e->map);
    if (u->has_map)
        s = lm_charsmap_part(&u->map, text->data, text->len, more, &done, b, map, err);
    else
        lm_buf_add(b, text->data, done = more ? lm_whole_chars(text->data, done) : done);
    if (s != LM_OK || b->failed || !lm_parts_mapped(e, &t->normal, done))
        return s ? s : lm_fail_nomem(err);
    lm_buf_drop(text, done);
    size_t was = b->len;
    if (!more || was >= t->words_wait)
        s = was ? cut_chunk(&w, b, !more) : LM_OK;
    if (s == LM_OK && !more)
        s = end_word(&w);
    t->model.normal_at = w.normal_at;
    t->model.put = w.put;
    if (s == LM_OK && lm_parts_wait(e, b, was, &t->words_wait))
        s = lm_fail_nomem(err);
    return s == LM_OK ? lm_encoder_pass(e, err) : s;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    const struct unigram *u = e->v->own;
    struct lm_remap normal = { 0 };
    struct lm_model_parts m = { 0 };
    struct words w = { .e = e, .err = err, .m = &m, .normal = e->ids->want_spans ? &normal : NULL };
    struct lm_buf *b = &e->scratch;
    int s = LM_OK;
    (void)first;
    if (u->spm)
        return encode_spm(e, p, len, err);
    lm_buf_clear(b);
    lm_buf_clear(&e->norm);
    for (const char *end = p + len, *q; p < end && s == LM_OK; p = q) {
        q = w.normal ? end : lm_chunk_end(p, end, b->len);
        if (u->has_map)
            s = lm_charsmap_apply(&u->map, p, (size_t)(q - p), b, w.normal, err);
        else
            lm_buf_add(b, p, (size_t)(q - p));
        if (s == LM_OK && b->failed)
            s = lm_fail_nomem(err);
        if (s == LM_OK && b->len)
            s = cut_chunk(&w, b, q == end);
        if (s == LM_OK)
            s = lm_encoder_pass(e, err);
    }
    if (s == LM_OK)
        s = end_word(&w);
    free(normal.e);
    return s;
}

const struct lm_tok_model lm_tok_t5 = {
    .name = "t5", .bos = -1, .eos = 1, .unk = 2, .add_eos = true, .load = load,
    .encode = encode, .part = part, .word = word, .word_part = word_part, .release = release,
};
