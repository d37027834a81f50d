/* SPDX-License-Identifier: MIT */
/*
 * PLaMo-2's vocabularies, tokenizer model "plamo2".
 *
 * Of all ways to write a text as pieces the cheapest is taken; a piece costs its negative
 * score in steps of 1/10000, a character that is written as its bytes 10 million.  Of equal ways
 * that one is better whose first piece that another has not is the longer one; a piece is better
 * than the bytes of the same text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"
#include "vocab/trie.h"

enum { UNKNOWN_COST = 10000000, SCALE = 10000 };

#define UNUSABLE (-2000.0f)                      /* this score and below */

struct plamo {
    struct lm_trie trie;
    int32_t       *cost;                         /* [n] */
    size_t         longest;                      /* of pieces in the trie, in bytes */
};

static int load_bytes(struct lm_vocab *v, struct lm_err *err)
{
    if (!lm_pieces_init(&v->bytes, v->n, v->text.at[v->n]))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < v->n; i++) {
        size_t len;
        const char *p = lm_pieces_get(&v->text, i, &len);
        char *to = v->bytes.data + v->bytes.at[i];
        if (v->type[i] == LM_TOKEN_BYTE)
            len = lm_marked_bytes(v, i, to);
        else
            memcpy(to, p, len);
        v->bytes.at[i + 1] = v->bytes.at[i] + (uint32_t)len;
    }
    return LM_OK;
}

static int load(struct lm_vocab *v, const struct lm_vocab_src *src, const struct lm_env *env,
                struct lm_err *err)
{
    (void)env;
    struct plamo *m = v->own = calloc(1, sizeof *m);
    if (!m)
        return lm_fail_nomem(err);
    if (!v->score)
        return lm_fail(err, LM_EDATA, "the scores of the vocabulary are missing");
    if (!lm_find_bytes(v))
        return lm_fail(err, LM_EDATA, "the vocabulary has not got pieces for all bytes");
    m->cost = lm_malloc_array(v->n, sizeof *m->cost);
    struct lm_str *text = lm_malloc_array(v->n, sizeof *text);
    uint32_t *id = lm_malloc_array(v->n, sizeof *id), n = 0;
    int s = m->cost && text && id ? load_bytes(v, err) : lm_fail_nomem(err);
    for (uint32_t i = 0; s == LM_OK && i < v->n; i++) {
        unsigned t = v->type[i];
        double cost = -round((double)v->score[i] * SCALE);
        m->cost[i] = cost > INT32_MAX ? INT32_MAX : cost < INT32_MIN ? INT32_MIN : (int32_t)cost;
        if (t == LM_TOKEN_BYTE || t == LM_TOKEN_CONTROL || t == LM_TOKEN_UNKNOWN ||
            v->score[i] <= UNUSABLE || !src->tokens[i].len)
            continue;
        text[n] = lm_vocab_text(v, i);
        m->longest = text[n].len > m->longest ? text[n].len : m->longest;
        id[n++] = i;
    }
    if (s == LM_OK)
        s = lm_trie_build(&m->trie, text, id, n, err);
    free(text);
    free(id);
    return s;
}

static void release(struct lm_vocab *v)
{
    struct plamo *m = v->own;
    if (!m)
        return;
    lm_trie_release(&m->trie);
    free(m->cost);
    free(m);
    v->own = NULL;
}

/*
 * Ways that end in places of which one piece may still reach the other are compared: rel(j)[i],
 * i < j, says how the way to j is to that to i.  A way that goes on from i by a piece to j is
 * better than all that go on from i by shorter ones.
 */
enum { ON, BETTER, WORSE, NOT_THERE };           /* ON: it goes through i               */

static unsigned char *rel(struct lm_encoder *e, size_t mask, size_t j)
{
    return (unsigned char *)e->scratch.data + (j & mask) * (mask + 1);
}

static size_t ring_mask(const struct lm_vocab *v)
{
    const struct plamo *m = v->own;
    size_t size = 16;
    while (size <= m->longest + 8u)
        size *= 2;
    return size - 1;
}

/* Room for all places that pieces reach. */
static bool ready(struct lm_encoder *e)
{
    size_t size = ring_mask(e->v) + 1;
    char *room;
    lm_buf_clear(&e->scratch);
    if (size > UINT32_MAX || !(room = lm_buf_room(&e->scratch, size * size)))
        return false;
    memset(room, NOT_THERE, size * size);
    return true;
}

/* The way to j is known: compare it. */
static void compare(struct lm_encoder *e, size_t mask, size_t j, size_t back)
{
    unsigned char *row = rel(e, mask, j);
    size_t from = j - back;
    if (back)
        memcpy(row, rel(e, mask, from), mask + 1);
    else
        memset(row, NOT_THERE, mask + 1);
    for (size_t x = from + 1; x < j; x++) {
        const unsigned char *other = rel(e, mask, x);
        if (other[x & mask] != ON)               /* inside a character */
            continue;
        unsigned r = other[from & mask];
        row[x & mask] = r == ON ? BETTER : r == BETTER ? WORSE : BETTER;
    }
    row[j & mask] = ON;
}

/* A way to `to`, whose place is j, by way of i. */
static void reach(struct lm_encoder *e, size_t mask, struct lm_way_node *to, size_t i, size_t j,
                  int64_t cost, int32_t id)
{
    if (to->back && (cost > to->cost ||
                     (cost == to->cost && rel(e, mask, i)[(j - to->back) & mask] != BETTER)))
        return;
    *to = (struct lm_way_node){ .cost = cost, .back = (uint32_t)(j - i), .id = id };
}

static void extend(struct lm_encoder *e, struct lm_way *w, const char *p, const char *end,
                   struct lm_way_node *node, int k, uint32_t r)
{
    const struct plamo *m = e->v->own;
    size_t i = w->done + w->at, mask = ring_mask(e->v);
    int64_t cost = node->cost;
    uint32_t t = 0;
    (void)r;
    compare(e, mask, i, w->at ? node->back : w->into);
    for (int n = 1; n < k; n++)
        rel(e, mask, i + (size_t)n)[(i + (size_t)n) & mask] = NOT_THERE;
    for (size_t n = 1; p < end; n++) {
        t = lm_trie_step(&m->trie, t, (unsigned char)*p++);
        if (!t)
            break;
        int32_t id = m->trie.unit[t].id;
        if (id >= 0)
            reach(e, mask, &node[n], i, i + n, cost + m->cost[id], id);
    }
    reach(e, mask, &node[k], i, i + (size_t)k, cost + UNKNOWN_COST, -1);
}

static bool put(struct lm_encoder *e, struct lm_way *w, const char *p, size_t len, int32_t id)
{
    (void)w;
    if (id >= 0)
        return lm_encoder_put(e, id, len);
    for (size_t i = 0; i < len; i++)
        if (!lm_encoder_put(e, e->v->byte_id[(unsigned char)p[i]], 1))
            return false;
    return true;
}

static const struct lm_way_model model = { .extend = extend, .put = put };

static int word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err)
{
    struct lm_way way = { 0 };
    size_t done;
    (void)limit;
    return ready(e) && lm_best_way(e, &model, &way, p, len, false, &done) ? LM_OK
                                                                       : lm_fail_nomem(err);
}

static bool has_mark(const struct lm_encoder *e, const char *p, size_t len)
{
    return e->base == 0 && len >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0;    /* U+FEFF */
}

static int part(struct lm_encoder *e, bool more, struct lm_err *err)
{
    struct lm_parts *t = e->parts;
    struct lm_buf *b = &t->text;
    struct lm_way *way = &t->model.way;
    size_t done;
    if (!t->model.started && more && b->len < 3)
        return LM_OK;
    if (!t->model.started && has_mark(e, b->data, b->len)) {
        lm_buf_drop(b, 3);
        if (!lm_encoder_put(e, -1, 3))
            return lm_fail_nomem(err);
    }
    if (!t->model.started && !ready(e))
        return lm_fail_nomem(err);
    t->model.started = true;
    if (!b->len && !way->begun)
        return LM_OK;
    if (!lm_best_way(e, &model, way, b->data, b->len, more, &done))
        return lm_fail_nomem(err);
    lm_buf_drop(b, done);
    return lm_encoder_pass(e, err);
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    if (has_mark(e, p, len)) {
        if (!lm_encoder_put(e, -1, 3))
            return lm_fail_nomem(err);
        p += 3;
        len -= 3;
    }
    return len ? word(e, p, len, p + len, err) : LM_OK;
}

const struct lm_tok_model lm_tok_plamo2 = {
    .name = "plamo2", .bos = 1, .eos = 2, .unk = 0, .adds_none = true, .load = load,
    .encode = encode, .part = part, .word = word, .release = release,
};
