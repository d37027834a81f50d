/* SPDX-License-Identifier: MIT */
/*
 * Masks.
 *
 * A mask is put together from parts that do not depend on the stack: for the ops that are on
 * top of one node, which tokens stay above it, and after which beginnings of tokens the node
 * is returned to.  From these the walk over the vocabulary goes on with the real stack.
 *
 * Where a state takes the characters of a class alike, as in a string, the walk is spared: see
 * struct lm_token_class.
 */
#include "sample/grammar/machine_parts.h"

#include <string.h>

#include "base/size.h"

#define MANY (1u << 20)              /* states, stacks and edges after which the ones that only
                                        a mask needed are forgotten                     */

/* ---- classes of characters ---- */

/* Do the ways of a state that are no LM_OP_TEXT leave the characters of that alone? */
static bool only_text(const struct lm_machine *m, const struct state *s)
{
    bool text = false;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[s->ways + i].op];
        text |= o->kind == LM_OP_TEXT;
        for (unsigned c = o->lo; o->kind == LM_OP_BYTES && c <= o->hi; c++)
            if (lm_text_step((unsigned char)c) >= 0)
                return false;
    }
    return text;
}

static int text_next(struct lm_machine *m, lm_state s, lm_state *to, struct lm_err *err)
{
    const struct state from = m->states[s];
    *to = LM_STATE_DEAD;
    if (!only_text(m, &from))
        return LM_OK;
    lm_step_begin(m, err);
    for (uint32_t i = 0; i < from.n; i++) {
        const struct way w = m->ways[from.ways + i];
        if (m->g->ops[w.op].kind == LM_OP_TEXT)
            lm_step_add(m, m->g->ops[w.op].a, w.stack);
    }
    return lm_step_finish(m, to);
}

/* The ranges of bytes of the classes of ASCII. */
static const struct { unsigned char lo, hi; } ranges[LM_CLASSES][3] = {
    [LM_CLASS_ALNUM] = { { 'a', 'z' }, { 'A', 'Z' }, { '0', '9' } },
    [LM_CLASS_LOWER] = { { 'a', 'z' } },
    [LM_CLASS_UPPER_DIGIT] = { { 'A', 'Z' }, { '0', '9' } },
};

/* Does some way take a part of a range? */
static bool splits(const struct lm_machine *m, const struct state *s, unsigned lo, unsigned hi)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[s->ways + i].op];
        if (o->kind == LM_OP_BYTES && o->lo <= hi && o->hi >= lo && (o->lo > lo || o->hi < hi))
            return true;
    }
    return false;
}

static int ascii_next(struct lm_machine *m, lm_state s, enum lm_char_class c, lm_state *to,
                      struct lm_err *err)
{
    lm_state first = LM_STATE_DEAD;
    *to = LM_STATE_DEAD;
    for (size_t i = 0; i < 3 && ranges[c][i].lo; i++) {
        lm_state next = s;
        if (splits(m, &m->states[s], ranges[c][i].lo, ranges[c][i].hi))
            return LM_OK;
        int r = lm_step_byte(m, &next, ranges[c][i].lo, err);
        if (r < 0 || next == LM_STATE_DEAD || (i > 0 && next != first))
            return r;
        first = next;
    }
    *to = first;
    return LM_OK;
}

/* The state after any one character of a class, or LM_STATE_DEAD: it depends on which. */
static int class_next(struct lm_machine *m, lm_state s, enum lm_char_class c, lm_state *to,
                      struct lm_err *err)
{
    const uint16_t by = (uint16_t)(LM_BY_CLASS + c);
    *to = LM_STATE_DEAD;
    if (s == LM_STATE_DEAD)
        return LM_OK;
    const uint32_t known = lm_machine_find_edge(m, s, by);
    if (known != UINT32_MAX) {
        *to = m->edges[known].to;
        return LM_OK;
    }
    int r = c == LM_CLASS_TEXT ? text_next(m, s, to, err) : ascii_next(m, s, c, to, err);
    if (r < 0)
        return r;
    return lm_machine_add_edge(m, s, *to, by, err);
}

/* ---- masks ---- */

static void allow_all(const struct lm_token_trie *t, int32_t id, uint64_t *mask)
{
    for (; id >= 0; id = t->more[id])
        lm_mask_put(mask, (uint32_t)id);
}

/* All tokens at a node or below it. */
static void allow_below(const struct lm_token_trie *t, const struct lm_token_node *node,
                        uint64_t *mask)
{
    const size_t end = node->next < t->n ? t->nodes[node->next].order : t->n_ids;
    for (size_t i = node->order; i < end; i++)
        lm_mask_put(mask, t->ids[i]);
}

/* Does any character of LM_NODE_TEXT lead a state back to itself?  false also when that is not
 * known. */
static bool takes_any_text(struct lm_machine *m, lm_state s)
{
    struct lm_err err;
    lm_state next;
    return m->classes[LM_CLASS_TEXT].max && !m->states[s].open &&
           class_next(m, s, LM_CLASS_TEXT, &next, &err) == LM_OK && next == s;
}

/* Does a state take all that tokens have behind a node?  false also when that is not known. */
static bool takes_below(struct lm_machine *m, const struct lm_token_node *node, lm_state s)
{
    struct lm_err err;
    lm_state next = s;
    unsigned k = 0;
    if (m->states[s].open)
        return false;
    for (; node->alnum && k < node->deep && next != LM_STATE_DEAD; k++)
        if (class_next(m, next, LM_CLASS_ALNUM, &next, &err) < 0 ||
            (next != LM_STATE_DEAD && m->states[next].open))
            return false;
    return node->alnum && node->deep < 255 && next != LM_STATE_DEAD;
}

void lm_machine_next(const struct lm_machine *m, lm_state state, uint64_t bytes[4])
{
    const struct state *s = &m->states[state];
    memset(bytes, 0, 4 * sizeof *bytes);
    for (uint32_t i = 0; i < s->n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[s->ways + i].op];
        if (o->kind == LM_OP_TEXT)
            for (size_t k = 0; k < 4; k++)
                bytes[k] |= m->text_bytes[k];
        else if (o->kind == LM_OP_BYTES && o->lo / 64 == o->hi / 64)
            bytes[o->lo / 64] |= (UINT64_MAX >> (63 - (o->hi - o->lo))) << o->lo % 64;
        else if (o->kind == LM_OP_BYTES)
            for (unsigned c = o->lo; c <= o->hi; c++)
                bytes[c / 64] |= UINT64_C(1) << c % 64;
    }
}

/* Let a frame of a walk stand for a state, up to trie node `end`. */
static void set_frame(struct lm_machine *m, struct frame *f, size_t end, lm_state state)
{
    f->any_text = takes_any_text(m, state);
    f->end = (uint32_t)end;
    f->state = state;
    lm_machine_next(m, state, f->bytes);
}

/*
 * Walk the tokens of a trie below node `at` (or all, for `end` the number of nodes) from a state,
 * and put those into mask whose bytes it takes.  part: note where LM_STACK_UNKNOWN is returned to.
 */
static int walk(struct lm_machine *m, const struct lm_token_trie *trie, size_t at, size_t end,
                lm_state from, uint64_t *mask, struct part *part, struct lm_err *err)
{
    size_t depth = 0;
    set_frame(m, &m->frames[0], end, from);
    while (at < end) {
        const struct lm_token_node *node = &trie->nodes[at];
        while (m->frames[depth].end <= at)
            depth--;
        const struct frame *f = &m->frames[depth];
        const bool same = f->any_text && lm_text_step(node->byte) == 0;
        lm_state s = f->state;
        int r = LM_OK;
        if (!(f->bytes[node->byte / 64] >> node->byte % 64 & 1))
            s = LM_STATE_DEAD;
        else if (!same)
            r = lm_step_byte(m, &s, node->byte, err);
        if (r == LM_OK && lm_machine_work(m) > m->most_work)
            r = lm_fail(err, LM_ENOSUP, "the grammar is too ambiguous here: more than %d steps for "
                        "the tokens that may come next", LM_GRAMMAR_MASK);
        if (r < 0)
            return r;
        if (s == LM_STATE_DEAD) {
            at = node->next;
            continue;
        }
        if (m->states[s].open && part) {
            if (!lm_grow(&part->returns, &part->cap, part->n + 1, sizeof *part->returns))
                return lm_fail_nomem(err);
            part->returns[part->n++] = (struct place){ trie, (uint32_t)at };
        }
        if (node->next > at + 1 && ((node->text && (same || takes_any_text(m, s))) ||
                                    takes_below(m, node, s))) {
            allow_below(trie, node, mask);
            at = node->next;
            continue;
        }
        if (m->states[s].n || m->states[s].complete)
            allow_all(trie, node->first, mask);
        if (node->next <= ++at)
            continue;
        if (same)
            m->frames[depth + 1] = *f;
        else
            set_frame(m, &m->frames[depth + 1], node->next, s);
        m->frames[++depth].end = node->next;
    }
    return LM_OK;
}

/* The ops of ways [n], all on one stack, as a state on LM_STACK_UNKNOWN. */
static int on_unknown(struct lm_machine *m, uint32_t ways, uint32_t n, lm_state *s,
                      struct lm_err *err)
{
    lm_step_begin(m, err);
    for (uint32_t i = 0; i < n; i++)
        lm_step_add(m, m->ways[ways + i].op, LM_STACK_UNKNOWN);
    return lm_step_finish(m, s);
}

/* ---- what a state allows ---- */

/* The states after 0, 1, ... characters of a class, as many as they take alike, into m->chain;
 * *n of them behind the first.  None if LM_STACK_UNKNOWN could be returned to on the way. */
static int find_chain(struct lm_machine *m, lm_state s, enum lm_char_class c, uint32_t *n,
                      struct lm_err *err)
{
    *n = 0;
    m->chain[0] = s;
    while (*n < m->classes[c].max) {
        lm_state next;
        int r = class_next(m, m->chain[*n], c, &next, err);
        if (r < 0 || next == LM_STATE_DEAD)
            return r;
        if (m->states[next].open) {
            *n = 0;
            return LM_OK;
        }
        m->chain[++*n] = next;
        while (next == m->chain[*n - 1] && *n < m->classes[c].max)
            m->chain[++*n] = next;
    }
    return LM_OK;
}

/* Do the states behind 1 to LM_CLASS_FEW characters, in m->chain, all go on alike by a byte? */
static int is_alike(struct lm_machine *m, unsigned char byte, bool *alike, struct lm_err *err)
{
    lm_state first = m->chain[1];
    int r = lm_step_byte(m, &first, byte, err);
    *alike = true;
    for (uint32_t k = 2; k <= LM_CLASS_FEW && *alike && r == LM_OK; k++) {
        lm_state next = m->chain[k];
        r = lm_step_byte(m, &next, byte, err);
        *alike = next == first;
    }
    return r;
}

/* The tokens that go on behind n or fewer characters of a class.  What a byte does not depend on
 * their number for is looked at once; done: these bytes. */
static int walk_behind(struct lm_machine *m, const struct lm_token_class *t, uint32_t n,
                       uint64_t *mask, struct part *part, struct lm_err *err)
{
    uint64_t done[4] = { 0 };
    int r = LM_OK;
    for (size_t at = 0; n >= LM_CLASS_FEW && r == LM_OK && at < t->few.n;
         at = t->few.nodes[at].next) {
        const unsigned char byte = t->few.nodes[at].byte;
        bool alike;
        r = is_alike(m, byte, &alike, err);
        if (r < 0 || !alike)
            continue;
        done[byte / 64] |= UINT64_C(1) << byte % 64;
        r = walk(m, &t->few, at, t->few.nodes[at].next, m->chain[1], mask, part, err);
    }
    for (uint32_t k = 0; k <= n; k++) {
        const struct lm_token_trie *rest = &t->rest[k];
        const bool few = k > 0 && k <= LM_CLASS_FEW && (done[0] | done[1] | done[2] | done[3]);
        for (size_t at = 0, end; r == LM_OK && at < rest->n; at = end) {
            const unsigned char byte = rest->nodes[at].byte;
            end = few ? rest->nodes[at].next : rest->n;
            if (!few || !(done[byte / 64] >> byte % 64 & 1))
                r = walk(m, rest, at, end, m->chain[k], mask, part, err);
        }
    }
    return r;
}

/* What a state allows, if it takes the characters of a class alike: those that have nothing else by
 * their number, those that begin with some by the rest, and the others.  *done: it does. */
static int walk_class(struct lm_machine *m, lm_state s, enum lm_char_class c, uint64_t *mask,
                      struct part *part, bool *done, struct lm_err *err)
{
    const struct lm_token_class *t = &m->classes[c];
    uint32_t n;
    int r = find_chain(m, s, c, &n, err);
    *done = r == LM_OK && n > 0;
    if (!*done)
        return r;
    for (size_t i = 0; i < m->words; i++)
        mask[i] |= t->whole[n][i];
    r = walk_behind(m, t, n, mask, part, err);
    for (size_t at = 0; r == LM_OK && at < m->trie.n; at = m->trie.nodes[at].next)
        if (!lm_class_begins(c, m->trie.nodes[at].byte))
            r = walk(m, &m->trie, at, m->trie.nodes[at].next, s, mask, part, err);
    return r;
}

/* What a state allows: by the first class that it takes alike, or token by token. */
static int walk_all(struct lm_machine *m, lm_state s, uint64_t *mask, struct part *part,
                    struct lm_err *err)
{
    bool done = false;
    int r = LM_OK;
    for (int c = 0; c < LM_CLASSES && r == LM_OK && !done; c++)
        if (m->classes[c].max)
            r = walk_class(m, s, (enum lm_char_class)c, mask, part, &done, err);
    return done || r < 0 ? r : walk(m, &m->trie, 0, m->trie.n, s, mask, part, err);
}

/* What a state on LM_STACK_UNKNOWN allows; *out stays where it is until a part is added. */
static int part_of(struct lm_machine *m, lm_state s, uint32_t *out, struct lm_err *err)
{
    *out = m->states[s].part;
    if (*out != UINT32_MAX)
        return LM_OK;
    struct part p = { .mask = lm_mask_new(m) };
    int r = p.mask ? walk_all(m, s, p.mask, &p, err) : lm_fail_nomem(err);
    const struct state from = m->states[s];
    for (uint32_t i = 0; r == LM_OK && i < from.n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[from.ways + i].op];
        for (uint32_t id = 0; o->kind == LM_OP_OTHER_TOKEN && id < m->n_vocab; id++)
            if (lm_op_takes(m, o, id))
                lm_mask_put(p.mask, id);
        if (o->kind == LM_OP_TOKEN && o->a < m->n_vocab)
            lm_mask_put(p.mask, o->a);
    }
    if (r == LM_OK && !lm_grow(&m->parts, &m->parts_cap, m->n_parts + 1, sizeof *m->parts))
        r = lm_fail_nomem(err);
    if (r < 0) {
        free(p.mask);
        free(p.returns);
        return r;
    }
    m->parts[m->n_parts] = p;
    *out = m->states[s].part = (uint32_t)m->n_parts++;
    return LM_OK;
}

/* The state after a stack's rule has ended. */
static int after(struct lm_machine *m, uint32_t stack, lm_state *s, struct lm_err *err)
{
    *s = m->stacks[stack].returned;
    if (*s != UINT32_MAX)
        return LM_OK;
    lm_step_begin(m, err);
    lm_step_leave(m, stack);
    int r = lm_step_finish(m, s);
    if (r == LM_OK)
        m->stacks[stack].returned = *s;
    return r;
}

/* A group of a state's ways, those on one stack, and what they allow above it. */
struct group {
    uint32_t stack, part;
};

/* The next group from way number *i of a state on; *i moves behind it. */
static int next_group(struct lm_machine *m, const struct state *s, uint32_t *i, struct group *g,
                      struct lm_err *err)
{
    const uint32_t first = s->ways + *i;
    uint32_t n = 1;
    lm_state local = LM_STATE_DEAD;
    g->stack = m->ways[first].stack;
    g->part = 0;
    while (*i + n < s->n && m->ways[first + n].stack == g->stack)
        n++;
    *i += n;
    int r = on_unknown(m, first, n, &local, err);
    return r == LM_OK ? part_of(m, local, &g->part, err) : r;
}

/* Add what a group allows: its part, and what follows where its stack is returned to. */
static int add_group(struct lm_machine *m, const struct group *g, uint64_t *mask,
                     struct lm_err *err)
{
    lm_state returned = LM_STATE_DEAD;
    int r = after(m, g->stack, &returned, err);
    for (size_t i = 0; i < m->words; i++)
        mask[i] |= m->parts[g->part].mask[i];
    for (size_t i = 0; r == LM_OK && i < m->parts[g->part].n; i++) {
        const struct place p = m->parts[g->part].returns[i];
        const struct lm_token_node *node = &p.trie->nodes[p.at];
        allow_all(p.trie, node->first, mask);
        if (returned != LM_STATE_DEAD && m->states[returned].n)
            r = walk(m, p.trie, (size_t)p.at + 1, node->next, returned, mask, NULL, err);
    }
    return r;
}
/* Is a character of LM_OP_TEXT a round of a loop, so that the stack tells how many may follow?
 * What the state allows then has no part that stays the same. */
static int is_counted(struct lm_machine *m, const struct state *s, bool *counted,
                      struct lm_err *err)
{
    uint32_t n = 0;
    lm_state local, next = LM_STATE_DEAD;
    while (n < s->n && m->g->ops[m->ways[s->ways + n].op].kind != LM_OP_TEXT)
        n++;
    if (n == s->n || m->g->has_tokens)
        return LM_OK;
    int r = on_unknown(m, s->ways + n, 1, &local, err);
    if (r == LM_OK)
        r = class_next(m, local, LM_CLASS_TEXT, &next, err);
    *counted = next != LM_STATE_DEAD && m->states[next].open;
    return r;
}

static bool is_full(const struct lm_machine *m)
{
    return m->n_states + m->n_stacks + m->n_edges + m->n_ways / 4 > MANY && m->stack_table.n;
}

static int fill_counted(struct lm_machine *m, lm_state s, uint64_t *mask, struct lm_err *err)
{
    const struct mark before = lm_machine_mark(m);
    int r = walk_all(m, s, mask, NULL, err);
    for (size_t i = 0; m->states[s].complete && i < m->words; i++)
        mask[i] |= m->eog[i];
    if (is_full(m))
        lm_machine_forget(m, &before);
    return r;
}

static int fill_mask(struct lm_machine *m, lm_state s, uint64_t *mask, struct lm_err *err)
{
    const struct state from = m->states[s];
    struct group g;
    bool counted = false;
    int r = is_counted(m, &from, &counted, err);
    if (counted && r == LM_OK)
        return fill_counted(m, s, mask, err);
    for (uint32_t i = 0; r == LM_OK && i < from.n;)         /* parts are kept */
        r = next_group(m, &from, &i, &g, err);
    const struct mark before = lm_machine_mark(m);
    for (uint32_t i = 0; r == LM_OK && i < from.n;) {
        r = next_group(m, &from, &i, &g, err);
        if (r == LM_OK)
            r = add_group(m, &g, mask, err);
    }
    for (size_t i = 0; from.complete && i < m->words; i++)
        mask[i] |= m->eog[i];
    if (is_full(m))
        lm_machine_forget(m, &before);
    return r;
}

/* The mask kept of a state, or room for it, which is not `but`: *fresh. */
static uint64_t *kept_mask(struct lm_machine *m, lm_state s, const uint64_t *but, size_t *slot,
                           bool *fresh)
{
    *fresh = false;
    for (*slot = 0; *slot < LM_MACHINE_MASKS; ++*slot)
        if (m->masks[*slot].mask && m->masks[*slot].state == s)
            return m->masks[*slot].mask;
    *slot = m->next_mask++ % LM_MACHINE_MASKS;
    if (but && m->masks[*slot].mask == but)
        *slot = m->next_mask++ % LM_MACHINE_MASKS;
    if (!m->masks[*slot].mask)
        m->masks[*slot].mask = lm_mask_new(m);
    m->masks[*slot].state = LM_STATE_DEAD - 1;    /* until it is whole */
    *fresh = true;
    return m->masks[*slot].mask;
}

static int own_mask(struct lm_machine *m, lm_state s, const uint64_t **out, struct lm_err *err)
{
    size_t slot;
    bool fresh;
    uint64_t *mask = kept_mask(m, s, NULL, &slot, &fresh);
    int r = LM_OK;
    if (!mask)
        return lm_fail_nomem(err);
    *out = mask;
    if (!fresh)
        return LM_OK;
    memset(mask, 0, m->words * sizeof *mask);
    m->most_work = lm_machine_work(m) + LM_GRAMMAR_MASK;
    if (s != LM_STATE_DEAD)
        r = fill_mask(m, s, mask, err);
    if (r == LM_OK && s != LM_STATE_DEAD)
        m->masks[slot].state = s;
    return r;
}

/* Are characters of LM_OP_TEXT taken in one way only, so that none beyond a counter's are? */
static bool is_plain_text(const struct lm_machine *m, const struct state *s)
{
    int n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += m->g->ops[m->ways[s->ways + i].op].kind == LM_OP_TEXT;
    return n == 1 && only_text(m, s);
}

/* Take long tokens out of a mask that was made without a counter, if that has no room for them. */
static int drop_long(struct lm_machine *m, lm_state s, uint32_t room, uint64_t *mask,
                     struct lm_err *err)
{
    const struct lm_token_class *t = &m->classes[LM_CLASS_TEXT];
    const bool plain = is_plain_text(m, &m->states[s]);
    for (size_t i = 0; i < t->n_longs && t->longs[i].size > room; i++) {
        const struct lm_long_token *x = &t->longs[i];
        lm_state next = s;
        if (!lm_mask_has(mask, x->id) || (x->chars && x->chars <= room))
            continue;
        int r = plain && x->chars ? LM_OK : lm_step_take(m, &next, x->id, err);
        if (r < 0)
            return r;
        if (next == LM_STATE_DEAD || (plain && x->chars))
            mask[x->id / 64] &= ~(UINT64_C(1) << x->id % 64);
    }
    return LM_OK;
}

int lm_step_mask(struct lm_machine *m, lm_state s, const uint64_t **out, struct lm_err *err)
{
    const struct lm_token_class *t = &m->classes[LM_CLASS_TEXT];
    lm_state relaxed = s;
    const uint64_t *whole;
    uint32_t room = UINT32_MAX;
    size_t slot;
    bool fresh;
    int r = LM_OK;
    if (s != LM_STATE_DEAD && m->g->has_text)
        r = lm_machine_relax(m, s, &relaxed, &room, err);
    if (relaxed == s || r < 0)
        return r < 0 ? r : own_mask(m, s, out, err);
    r = own_mask(m, relaxed, &whole, err);
    *out = whole;
    if (r < 0 || t->n_longs == 0 || t->longs[0].size <= room)
        return r;
    uint64_t *mask = kept_mask(m, s, whole, &slot, &fresh);
    if (!mask)
        return lm_fail_nomem(err);
    *out = mask;
    if (!fresh)
        return LM_OK;
    memcpy(mask, whole, m->words * sizeof *mask);
    r = drop_long(m, s, room, mask, err);
    if (r == LM_OK)
        m->masks[slot].state = s;
    return r;
}
