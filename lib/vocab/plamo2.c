/* SPDX-License-Identifier: MIT */
/*
 * PLaMo-2's vocabularies, tokenizer model "plamo2".
 *
 * Of all ways to write a text as pieces the cheapest is taken; a piece costs its negative
 * score in steps of 1/10000, a character that is written as its bytes 10 million.  From the end
 * of the text on each character has its cheapest beginning, the longest among equals.
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

/* The costs of the places that pieces may reach, a ring. */
struct ring {
    int64_t *cost;
    size_t   mask;
};

/* The cheapest beginning of p[i ..), whose first character is k bytes: an id, or -k. */
static int32_t begin(const struct plamo *m, const struct ring *r, const char *p, size_t i,
                     size_t len, int k)
{
    int32_t best = -k;
    int64_t low = INT64_MAX;
    uint32_t node = 0;
    for (size_t j = i; j < len;) {
        node = lm_trie_step(&m->trie, node, (unsigned char)p[j++]);
        if (!node)
            break;
        int32_t id = m->trie.unit[node].id;
        if (id < 0)
            continue;
        int64_t cost = r->cost[j & r->mask];
        if (cost == INT64_MAX)                   /* inside a character */
            continue;
        cost += m->cost[id];
        if (cost <= low) {
            low = cost;
            best = id;
        }
    }
    int64_t unknown = r->cost[(i + (size_t)k) & r->mask] + UNKNOWN_COST;
    if (unknown < low) {
        low = unknown;
        best = -k;
    }
    r->cost[i & r->mask] = low;
    return best;
}

/* The characters of p, from the end: to[i] is what begins at i. */
static bool best_way(const struct lm_encoder *e, const char *p, size_t len, int32_t *to)
{
    struct ring r = { .mask = 8 };
    while (r.mask <= e->v->longest + 4u)
        r.mask *= 2;
    r.cost = lm_malloc_array(r.mask, sizeof *r.cost);
    if (!r.cost)
        return false;
    r.mask--;
    for (size_t i = 0; i < len;) {
        int k;
        lm_uni_next(p + i, p + len, &k);
        to[i] = k;
        for (int n = 1; n < k; n++)
            to[i + (size_t)n] = 0;
        i += (size_t)k;
    }
    r.cost[len & r.mask] = 0;
    for (size_t i = len; i-- > 0;)
        if (to[i])
            to[i] = begin(e->v->own, &r, p, i, len, to[i]);
        else
            r.cost[i & r.mask] = INT64_MAX;
    free(r.cost);
    return true;
}

static bool put(struct lm_encoder *e, const char *p, size_t len, const int32_t *to)
{
    for (size_t i = 0, n; i < len; i += n) {
        if (to[i] >= 0) {
            lm_pieces_get(&e->v->text, (uint32_t)to[i], &n);
            if (!lm_encoder_put(e, to[i], n))
                return false;
            continue;
        }
        n = (size_t)-to[i];
        for (size_t k = 0; k < n; k++)
            if (!lm_encoder_put(e, e->v->byte_id[(unsigned char)p[i + k]], 1))
                return false;
    }
    return true;
}

static int word(struct lm_encoder *e, const char *p, size_t len, const char *limit,
                struct lm_err *err)
{
    (void)limit;
    if (!lm_grow(&e->work, &e->work_cap, len, sizeof(int32_t)) ||
        !best_way(e, p, len, e->work) || !put(e, p, len, e->work))
        return lm_fail_nomem(err);
    return LM_OK;
}

static int encode(struct lm_encoder *e, const char *p, size_t len, bool first,
                  struct lm_err *err)
{
    (void)first;
    if (e->base == 0 && len >= 3 && memcmp(p, "\xEF\xBB\xBF", 3) == 0) {     /* U+FEFF */
        if (!lm_encoder_put(e, -1, 3))
            return lm_fail_nomem(err);
        p += 3;
        len -= 3;
    }
    return len ? word(e, p, len, p + len, err) : LM_OK;
}

const struct lm_tok_model lm_tok_plamo2 = {
    .name = "plamo2", .bos = 1, .eos = 2, .unk = 0, .adds_none = true, .load = load,
    .encode = encode, .word = word, .release = release,
};
