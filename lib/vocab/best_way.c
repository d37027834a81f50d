/* SPDX-License-Identifier: MIT */
/*
 * The best of all ways to write a word as pieces.  From each place on, in their order, the model
 * extends the best way to it by all pieces that stand there, so that the ways to places further
 * on are known as soon as all before them are.
 *
 * A long word is settled in parts: where all ways that are still open go through one place, what
 * lies before it is put out, so that memory does not grow with the word.
 */
#include <string.h>

#include "base/size.h"
#include "vocab/tokenizer.h"

#define MARKED 0x80000000u                       /* in back, while a place is sought */

/* Put out the way to node[n], through p[0 .. n). */
static bool put_way(struct lm_encoder *e, const struct lm_way_model *m, struct lm_way *w,
                    const char *p, size_t n)
{
    struct lm_way_node *node = e->work;
    for (size_t i = n; i > 0;) {
        uint32_t back = node[i].back;
        i -= back;
        node[i].forth = back;
    }
    for (size_t i = 0, len; i < n; i += len) {
        len = node[i].forth;
        if (!m->put(e, w, p + i, len, node[i + len].id))
            return false;
    }
    return true;
}

/* The last place that all ways to places from `at` on go through: marks wander back along
 * them until there is only one. */
static size_t common(struct lm_way_node *node, size_t at, size_t last)
{
    size_t n = 0, i;
    for (i = at; i <= last; i++)
        if (node[i].back) {
            node[i].back |= MARKED;
            n++;
        }
    for (i = last; n > 1; i--) {
        if (!(node[i].back & MARKED))
            continue;
        node[i].back &= ~MARKED;
        struct lm_way_node *to = &node[i - node[i].back];
        if (to == node)                          /* the begin of all */
            n = 0;
        else if (to->back & MARKED)
            n--;
        else
            to->back |= MARKED;
    }
    for (size_t k = 0; k <= i; k++)
        if (node[k].back & MARKED) {
            node[k].back &= ~MARKED;
            if (n == 1)
                return k;
        }
    return 0;
}

/* Settle what can be settled of the way through p, which has nodes up to `last`: *n bytes. */
static bool settle(struct lm_encoder *e, const struct lm_way_model *m, struct lm_way *w,
                   const char *p, size_t last, size_t *n)
{
    struct lm_way_node *node = e->work;
    *n = common(node, w->at, last);
    if (!*n) {
        w->wait *= 2;
        return true;
    }
    if (!put_way(e, m, w, p, *n))
        return false;
    w->into = node[*n].back;
    memmove(node, node + *n, (last + 1 - *n) * sizeof *node);
    node[0].back = 0;
    w->at -= *n;
    w->upto -= *n;
    w->done += *n;
    w->wait = e->window;
    return true;
}

/* Room for nodes up to place `to`, which have no way yet from upto on. */
static struct lm_way_node *ready(struct lm_encoder *e, struct lm_way *w, size_t to)
{
    if (!lm_grow(&e->work, &e->work_cap, to + 1, sizeof(struct lm_way_node)))
        return NULL;
    struct lm_way_node *node = e->work;
    if (w->upto == 0)
        memset(node, 0, sizeof *node);
    for (; w->upto <= to; w->upto++)
        node[w->upto].back = 0;
    return node;
}

bool lm_best_way(struct lm_encoder *e, const struct lm_way_model *m, struct lm_way *w,
                 const char *p, size_t len, bool more, size_t *done)
{
    size_t longest = e->v->longest > 4 ? e->v->longest : 4, n;
    const char *begin = p, *end = p + len;
    if (!w->begun)
        *w = (struct lm_way){ .wait = e->window, .begun = true };
    for (;;) {
        size_t left = (size_t)(end - p), stop = more ? left > longest ? left - longest : 0 : left;
        if (w->at >= stop)
            break;
        stop = stop - w->at < e->window ? stop : w->at + e->window;
        size_t last = left - stop < longest ? left : stop + longest;
        struct lm_way_node *node = ready(e, w, last);
        if (!node)
            return false;
        while (w->at < stop) {
            int k;
            uint32_t r = lm_uni_next(p + w->at, end, &k);
            m->extend(e, w, p + w->at, end, &node[w->at], k, r);
            w->at += (size_t)k;
        }
        if (w->at < w->wait || w->at == left)
            continue;
        if (!settle(e, m, w, p, last, &n))
            return false;
        p += n;
    }
    *done = (size_t)(p - begin);
    if (more)
        return true;
    w->begun = false;
    return put_way(e, m, w, p, (size_t)(end - p));
}
