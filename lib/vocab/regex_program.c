/* SPDX-License-Identifier: MIT */
/*
 * From the items of a pattern to a program that can be followed a character at a time: first a
 * tree, then for each node its operations, those of a repeated node as often as it has to be there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "vocab/regex_parts.h"

enum { MAX_DEPTH = 128, MAX_OPS = 4000, NO_END = -1, MANY = 1 << 16 };

enum kind { EMPTY, SET, AHEAD, BEHIND, SEQUENCE, CHOICE, REPEAT };

struct node {
    enum kind            kind;
    struct lm_regex_mask mask;
    struct node         *first, *next;   /* what is in it; what stands behind it        */
    int                  min, max;
    char                 how;            /* REPEAT: 0, '?' as few as may be, '+' for good */
    bool                 nullable;
    size_t               least;          /* characters; MANY: or more                     */
};

struct compiler {
    const struct lm_regex        *r;
    const struct lm_regex_parsed *x;
    const uint64_t               *which;
    size_t                        words;
    size_t                        i;     /* item, and                                   */
    const char                   *t;     /* what is left of its text                    */
    struct lm_arena               arena;
    bool                          nomem, refused;
};

/* ---- items to a tree --------------------------------------------------------------------- */

static struct node *new_node(struct compiler *c, enum kind kind)
{
    struct node *n = lm_arena_array(&c->arena, 1, sizeof *n);
    if (!n) {
        c->nomem = true;
        return NULL;
    }
    n->kind = kind;
    n->nullable = kind != SET;
    n->least = kind == SET;
    return n;
}

static struct node *refuse(struct compiler *c)
{
    c->refused = true;
    return NULL;
}

static bool at_end(const struct compiler *c)
{
    return c->i == c->x->n;
}

static bool at_set(const struct compiler *c)
{
    return !at_end(c) && c->x->item[c->i].set >= 0;
}

/* The text of item i. */
static void load_text(struct compiler *c)
{
    c->t = at_end(c) || at_set(c) ? "" : c->x->item[c->i].text;
}

static void next_item(struct compiler *c)
{
    c->i++;
    load_text(c);
}

/* Does the text go on with this?  It is passed over then. */
static bool take(struct compiler *c, const char *want)
{
    size_t n = strlen(want);
    if (at_end(c) || at_set(c) || strncmp(c->t, want, n) != 0)
        return false;
    c->t += n;
    if (!*c->t)
        next_item(c);
    return true;
}

static void add_sort(struct lm_regex_mask *m, unsigned sort)
{
    m->bits[sort >> 6] |= (uint64_t)1 << (sort & 63);
}

static struct node *set_node(struct compiler *c)
{
    struct node *n = new_node(c, SET);
    size_t set = (size_t)c->x->item[c->i].set;
    for (unsigned k = 0; n && k < c->r->n_sorts; k++)
        if (c->which[k * c->words + set / 64] >> set % 64 & 1)
            add_sort(&n->mask, k);
    next_item(c);
    return n;
}

static struct node *edge_node(struct compiler *c, enum kind kind)
{
    struct node *n = new_node(c, kind);
    if (n)
        add_sort(&n->mask, c->r->n_sorts);
    return n;
}

/* What a look-around looks for: single characters and the edge on that side. */
static struct node *look(struct compiler *c, const struct node *in, enum kind kind, bool negate)
{
    struct node *n = new_node(c, kind);
    if (!n || !in)
        return NULL;
    for (const struct node *x = in->kind == CHOICE ? in->first : in; x;
         x = in->kind == CHOICE ? x->next : NULL) {
        if (x->kind != SET && x->kind != kind)
            return refuse(c);
        for (int i = 0; i < 4; i++)
            n->mask.bits[i] |= x->mask.bits[i];
    }
    for (unsigned k = 0; negate && k <= c->r->n_sorts; k++)
        n->mask.bits[k >> 6] ^= (uint64_t)1 << (k & 63);
    return n;
}

static struct node *choice(struct compiler *c, int depth);

static struct node *atom(struct compiler *c, int depth)
{
    static const struct {
        const char *text;
        enum kind   kind;
        bool        negate;
    } groups[] = {
        { "(?:", SEQUENCE, false }, { "(?=", AHEAD, false },   { "(?!", AHEAD, true },
        { "(?<=", BEHIND, false },  { "(?<!", BEHIND, true },
    };
    if (at_set(c))
        return set_node(c);
    if (take(c, "\\A"))
        return edge_node(c, BEHIND);
    if (take(c, "\\z"))
        return edge_node(c, AHEAD);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (take(c, groups[i].text)) {
            struct node *n = depth < MAX_DEPTH ? choice(c, depth + 1) : refuse(c);
            if (!n || !take(c, ")"))
                return refuse(c);
            return groups[i].kind == SEQUENCE ? n : look(c, n, groups[i].kind, groups[i].negate);
        }
    return refuse(c);                            /* an atomic group */
}

/* A quantifier is an item of its own. */
static struct node *quantified(struct compiler *c, struct node *in)
{
    if (!in || at_end(c) || at_set(c) || !strchr("*+?{", *c->t))
        return in;
    struct node *n = new_node(c, REPEAT);
    if (!n)
        return NULL;
    const char *q = c->t + 1;
    n->min = *c->t == '+';
    n->max = *c->t == '?' ? 1 : NO_END;
    if (*c->t == '{') {
        char *end;
        n->min = n->max = (int)strtol(q, &end, 10);
        if (*end == ',')
            n->max = end[1] == '}' ? NO_END : (int)strtol(end + 1, &end, 10);
        q = strchr(end, '}') + 1;
    }
    n->how = *q;
    n->first = in;
    n->nullable = !n->min || in->nullable;
    n->least = (size_t)n->min * in->least;
    n->least = n->least < MANY ? n->least : MANY;
    next_item(c);
    if (n->how == '+' && in->kind != SET)
        return refuse(c);
    return n->max == NO_END && in->nullable ? refuse(c) : n;
}

/* Atoms one after the other; of one alone, itself. */
static struct node *sequence(struct compiler *c, int depth)
{
    struct node *n = new_node(c, SEQUENCE), **to = n ? &n->first : NULL;
    while (n && !at_end(c) && (at_set(c) || (*c->t != '|' && *c->t != ')'))) {
        struct node *x = quantified(c, atom(c, depth));
        if (!x)
            return NULL;
        n->nullable &= x->nullable;
        n->least += n->least < MANY ? x->least : 0;
        *to = x;
        to = &x->next;
    }
    return n && n->first && !n->first->next ? n->first : n;
}

static struct node *choice(struct compiler *c, int depth)
{
    struct node *n = new_node(c, CHOICE), **to = n ? &n->first : NULL;
    if (!n)
        return NULL;
    n->nullable = false;
    n->least = MANY;
    do {
        struct node *x = sequence(c, depth);
        if (!x)
            return NULL;
        n->nullable |= x->nullable;
        n->least = x->least < n->least ? x->least : n->least;
        *to = x;
        to = &x->next;
    } while (take(c, "|"));
    return n->first->next ? n : n->first;
}

/* ---- the tree to operations ------------------------------------------------------------------ */

static bool put(struct lm_regex_program *g, struct lm_regex_op op)
{
    if (g->n == MAX_OPS || !lm_grow(&g->op, &g->cap, g->n + 1, sizeof *g->op))
        return false;
    g->op[g->n++] = op;
    return true;
}

static bool put_mask(struct lm_regex_program *g, int kind, const struct lm_regex_mask *m)
{
    g->looks_behind |= kind == LM_RX_BEHIND;
    return put(g, (struct lm_regex_op){ .kind = kind, .mask = *m });
}

/* A fork to what comes next and to somewhere behind it, which is not known yet. */
static bool put_fork(struct lm_regex_program *g, size_t *at)
{
    *at = g->n;
    return put(g, (struct lm_regex_op){ .kind = LM_RX_FORK });
}

/* The fork at `at` goes on behind it, or here; lazy: rather here. */
static void set_fork(struct lm_regex_program *g, size_t at, bool lazy)
{
    struct lm_regex_op *op = &g->op[at];
    uint16_t on = (uint16_t)(at + 1), here = (uint16_t)g->n;
    op->to = lazy ? here : on;
    op->other = lazy ? on : here;
}

/* Only where none of the set is next: a repeat that gives nothing back ends nowhere else. */
static bool put_not_next(struct lm_regex_program *g, struct lm_regex_mask m)
{
    for (int i = 0; i < 4; i++)
        m.bits[i] = ~m.bits[i];
    return put_mask(g, LM_RX_AHEAD, &m);
}

static bool gen(struct lm_regex_program *g, const struct node *n);

static bool gen_repeat(struct lm_regex_program *g, const struct node *n)
{
    const struct node *in = n->first;
    bool lazy = n->how == '?';
    size_t fork;
    for (int i = 0; i < n->min; i++) {
        size_t was = g->n;
        if (!gen(g, in))
            return false;
        if (g->n == was)                         /* nothing, however often */
            break;
    }
    if (n->max == NO_END) {
        size_t loop = g->n;
        if (!put_fork(g, &fork) || !gen(g, in) ||
            !put(g, (struct lm_regex_op){ .kind = LM_RX_JUMP, .to = (uint16_t)loop }))
            return false;
        set_fork(g, fork, lazy);
        return n->how != '+' || put_not_next(g, in->mask);
    }
    if (n->how == '+' && n->min < n->max) {      /* S?+: without it only if it is not there */
        if (!put_fork(g, &fork) || !gen(g, in) ||
            !put(g, (struct lm_regex_op){ .kind = LM_RX_JUMP, .to = (uint16_t)(g->n + 2) }))
            return false;
        set_fork(g, fork, false);
        return put_not_next(g, in->mask);
    }
    size_t forks = g->n;
    for (int i = n->min; i < n->max; i++)
        if (!put_fork(g, &fork) || !gen(g, in))
            return false;
    for (size_t i = forks, each = n->max > n->min ? (g->n - forks) / (size_t)(n->max - n->min) : 1;
         i < g->n; i += each)
        set_fork(g, i, lazy);
    return true;
}

static bool gen_choice(struct lm_regex_program *g, const struct node *n)
{
    size_t fork = 0, last_jump = SIZE_MAX;
    for (const struct node *x = n->first; x; x = x->next) {
        if (x->next && !put_fork(g, &fork))
            return false;
        if (!gen(g, x))
            return false;
        if (!x->next)
            break;
        struct lm_regex_op jump = { .kind = LM_RX_JUMP };
        jump.to = (uint16_t)last_jump;           /* a chain, until the end is known */
        last_jump = g->n;
        if (!put(g, jump))
            return false;
        set_fork(g, fork, false);
    }
    while (last_jump != SIZE_MAX) {
        size_t before = g->op[last_jump].to;
        g->op[last_jump].to = (uint16_t)g->n;
        last_jump = before == UINT16_MAX ? SIZE_MAX : before;
    }
    return true;
}

/* False: too many operations, or memory is short. */
static bool gen(struct lm_regex_program *g, const struct node *n)
{
    switch (n->kind) {
    case SET:    return put_mask(g, LM_RX_CHAR, &n->mask);
    case AHEAD:  return put_mask(g, LM_RX_AHEAD, &n->mask);
    case BEHIND: return put_mask(g, LM_RX_BEHIND, &n->mask);
    case CHOICE: return gen_choice(g, n);
    case REPEAT: return gen_repeat(g, n);
    default:     break;
    }
    for (const struct node *x = n->first; x; x = x->next)
        if (!gen(g, x))
            return false;
    return true;
}

int lm_regex_compile(struct lm_regex *r, const struct lm_regex_parsed *x, const uint64_t *which,
                     size_t words, struct lm_err *err)
{
    struct compiler c = { .r = r, .x = x, .which = which, .words = words };
    struct lm_regex_program *g = &r->program;
    load_text(&c);
    struct node *n = choice(&c, 0);
    bool ok = n && at_end(&c) && gen(g, n) &&
              put(g, (struct lm_regex_op){ .kind = LM_RX_MATCH });
    r->least = ok ? n->least : 0;
    lm_arena_release(&c.arena);
    if (!ok) {
        free(g->op);
        *g = (struct lm_regex_program){ 0 };
    }
    return c.nomem ? lm_fail_nomem(err) : LM_OK;
}
