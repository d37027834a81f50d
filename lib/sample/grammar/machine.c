/* SPDX-License-Identifier: MIT */
/*
 * Running a grammar.
 *
 * A way is an op that takes a byte or a token, and the stack of rules it is in; a state is the set
 * of all ways.  Stacks are nodes with links to what is below them, and equal ones are one node; a
 * node made in a step may have several nodes below it, so that ways that differ only far down
 * stay one way (Tomita 1985).  Equal states are one state, so that what follows a byte is found
 * once.
 */
#include "sample/grammar/machine_parts.h"

#include <string.h>

#include "base/buf.h"
#include "base/size.h"

#define TEMPORARY 0x80000000u        /* a node of the step that is being made           */
#define FEW_WAYS  24                 /* up to which they are put in order one by one    */
#define FEW_BELOW 16                 /* nodes among which an equal one is looked for    */

/* ---- tables ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t hash_stack(const struct lm_machine *m, uint32_t i)
{
    const struct stack *s = &m->stacks[i];
    uint64_t h = mix(mix(1, s->op), s->count);
    for (uint32_t k = 0; k < s->n; k++)
        h = mix(h, m->links[s->below + k]);
    return h;
}

static uint64_t hash_state(const struct lm_machine *m, uint32_t i)
{
    const struct state *s = &m->states[i];
    uint64_t h = mix(2, s->complete + 2u * s->open + 4u * s->ended + 8u * s->text);
    for (uint32_t k = 0; k < s->n; k++)
        h = mix(mix(h, m->ways[s->ways + k].op), m->ways[s->ways + k].stack);
    return h;
}

static uint64_t hash_edge(const struct lm_machine *m, uint32_t i)
{
    return mix(mix(3, m->edges[i].from), m->edges[i].by);
}

static bool same_stack(const struct lm_machine *m, uint32_t a, uint32_t b)
{
    const struct stack *x = &m->stacks[a], *y = &m->stacks[b];
    return x->op == y->op && x->count == y->count && x->n == y->n &&
           !memcmp(m->links + x->below, m->links + y->below, x->n * sizeof *m->links);
}

static bool same_state(const struct lm_machine *m, uint32_t a, uint32_t b)
{
    const struct state *x = &m->states[a], *y = &m->states[b];
    return x->n == y->n && x->complete == y->complete && x->open == y->open &&
           x->ended == y->ended && x->text == y->text &&
           (x->n == 0 || !memcmp(m->ways + x->ways, m->ways + y->ways, x->n * sizeof *m->ways));
}

static bool same_edge(const struct lm_machine *m, uint32_t a, uint32_t b)
{
    return m->edges[a].from == m->edges[b].from && m->edges[a].by == m->edges[b].by;
}

static uint64_t hash_both(const struct lm_machine *m, uint32_t i)
{
    return mix(mix(4, m->both[i].plain), m->both[i].exact);
}

static bool same_both(const struct lm_machine *m, uint32_t a, uint32_t b)
{
    return m->both[a].plain == m->both[b].plain && m->both[a].exact == m->both[b].exact;
}

typedef uint64_t hash_fn(const struct lm_machine *m, uint32_t i);
typedef bool same_fn(const struct lm_machine *m, uint32_t a, uint32_t b);

static bool grow_table(const struct lm_machine *m, struct table *t, hash_fn *hash)
{
    if (4 * (t->used + 1) <= 3 * t->n)
        return true;
    const size_t n = t->n ? 2 * t->n : 256;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < t->n; i++) {
        if (!t->slots[i])
            continue;
        size_t k = hash(m, t->slots[i] - 1) & (n - 1);
        while (slots[k])
            k = (k + 1) & (n - 1);
        slots[k] = t->slots[i];
    }
    free(t->slots);
    t->slots = slots;
    t->n = n;
    return true;
}

/* The one that is the same as number i; i itself, which then is in the table, if there is none.
 * UINT32_MAX: memory is short. */
static uint32_t intern(struct lm_machine *m, struct table *t, hash_fn *hash, same_fn *same,
                       uint32_t i)
{
    if (!grow_table(m, t, hash))
        return UINT32_MAX;
    size_t k = hash(m, i) & (t->n - 1);
    for (; t->slots[k]; k = (k + 1) & (t->n - 1))
        if (same(m, t->slots[k] - 1, i))
            return t->slots[k] - 1;
    t->slots[k] = i + 1;
    t->used++;
    return i;
}

/* The number of an edge, or UINT32_MAX. */
uint32_t lm_machine_find_edge(const struct lm_machine *m, uint32_t from, uint16_t by)
{
    const struct table *t = &m->edge_table;
    if (!t->n)
        return UINT32_MAX;
    size_t k = mix(mix(3, from), by) & (t->n - 1);
    for (; t->slots[k]; k = (k + 1) & (t->n - 1)) {
        const struct edge *e = &m->edges[t->slots[k] - 1];
        if (e->from == from && e->by == by)
            return t->slots[k] - 1;
    }
    return UINT32_MAX;
}

uint32_t lm_machine_intern_both(struct lm_machine *m, uint32_t i)
{
    return intern(m, &m->both_table, hash_both, same_both, i);
}

static int nomem(struct lm_machine *m)
{
    return m->failed = lm_fail_nomem(m->err);
}

/* ---- a step ---- */

void lm_step_begin(struct lm_machine *m, struct lm_err *err)
{
    for (size_t i = 0; i < m->n_temps; i++)
        *m->temps[i].slot = 0;
    m->work += m->n_steps;
    m->n_todo = m->n_found = m->n_temps = m->n_seen = m->n_steps = 0;
    m->complete = m->open = m->ended = false;
    m->failed = LM_OK;
    m->err = err;
    if (++m->step == 0) {
        memset(m->seen_step, 0, m->n_seen_slots * sizeof *m->seen_step);
        m->step = 1;
    }
}

static bool grow_seen(struct lm_machine *m)
{
    if (2 * (m->n_seen + 1) <= m->n_seen_slots)
        return true;
    const size_t n = m->n_seen_slots ? 2 * m->n_seen_slots : 64, old = m->n_seen_slots;
    struct way *seen = lm_malloc_array(n, sizeof *seen);
    uint32_t *step = calloc(n, sizeof *step);
    if (!seen || !step) {
        free(seen);
        free(step);
        return false;
    }
    for (size_t i = 0; i < old; i++) {
        if (m->seen_step[i] != m->step)
            continue;
        size_t k = mix(m->seen[i].op, m->seen[i].stack) & (n - 1);
        while (step[k] == m->step)
            k = (k + 1) & (n - 1);
        seen[k] = m->seen[i];
        step[k] = m->step;
    }
    free(m->seen);
    free(m->seen_step);
    m->seen = seen;
    m->seen_step = step;
    m->n_seen_slots = n;
    return true;
}

/* Go on from op with that stack, unless the step has been there. */
void lm_step_add(struct lm_machine *m, uint32_t op, uint32_t stack)
{
    if (m->failed < 0)
        return;
    if (++m->n_steps > LM_GRAMMAR_STEPS) {
        m->failed = lm_fail(m->err, LM_ENOSUP, "the grammar is too ambiguous here: more than %d "
                            "steps for a byte", LM_GRAMMAR_STEPS);
        return;
    }
    if (!grow_seen(m) || !lm_grow(&m->todo, &m->todo_cap, m->n_todo + 1, sizeof *m->todo)) {
        nomem(m);
        return;
    }
    size_t k = mix(op, stack) & (m->n_seen_slots - 1);
    for (; m->seen_step[k] == m->step; k = (k + 1) & (m->n_seen_slots - 1))
        if (m->seen[k].op == op && m->seen[k].stack == stack)
            return;
    m->seen[k] = (struct way){ op, stack };
    m->seen_step[k] = m->step;
    m->n_seen++;
    m->todo[m->n_todo++] = (uint64_t)stack << 32 | op;
}

/* The slot of a temporary node, or one that is free. */
static uint32_t *temp_slot(const struct lm_machine *m, uint32_t op, uint32_t count)
{
    size_t k = mix(op, count) & (m->n_temp_slots - 1);
    for (; m->temp_slots[k]; k = (k + 1) & (m->n_temp_slots - 1)) {
        const struct temp *t = &m->temps[m->temp_slots[k] - 1];
        if (t->op == op && t->count == count)
            break;
    }
    return &m->temp_slots[k];
}

/* Room for one more temporary node; false when memory is short. */
static bool grow_temps(struct lm_machine *m)
{
    const size_t old = m->temps_cap;
    if (!lm_grow(&m->temps, &m->temps_cap, m->n_temps + 1, sizeof *m->temps))
        return false;
    if (m->temps_cap == old)
        return true;
    size_t n = 64;
    while (n < 2 * m->temps_cap)
        n *= 2;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    memset(m->temps + old, 0, (m->temps_cap - old) * sizeof *m->temps);
    free(m->temp_slots);
    m->temp_slots = slots;
    m->n_temp_slots = n;
    for (uint32_t i = 0; i < m->n_temps; i++) {
        m->temps[i].slot = temp_slot(m, m->temps[i].op, m->temps[i].count);
        *m->temps[i].slot = i + 1;
    }
    return true;
}

/* The temporary node of a call, which is new if there was none; NULL when memory is short. */
static struct temp *temp_of(struct lm_machine *m, uint32_t op, uint32_t count)
{
    if (!grow_temps(m))
        return NULL;
    uint32_t *slot = temp_slot(m, op, count);
    if (*slot)
        return &m->temps[*slot - 1];
    struct temp *t = &m->temps[m->n_temps];
    *t = (struct temp){ .op = op, .count = count, .below = t->below, .cap = t->cap, .slot = slot };
    *slot = (uint32_t)++m->n_temps;
    return t;
}

/* A rule was called from `below` by op: enter it, and note where it returns to. */
static void call(struct lm_machine *m, uint32_t op, uint32_t count, uint32_t below)
{
    struct temp *t = temp_of(m, op, count);
    if (!t) {
        nomem(m);
        return;
    }
    for (size_t k = 0; k < t->n && k < FEW_BELOW; k++)      /* the others are sorted out later */
        if (t->below[k] == below)
            return;
    if (!lm_grow(&t->below, &t->cap, t->n + 1, sizeof *t->below)) {
        nomem(m);
        return;
    }
    t->below[t->n++] = below;
    if (t->left && m->g->ops[op].kind == LM_OP_CALL)        /* by an empty text */
        lm_step_add(m, m->g->ops[op].b, below);
    const struct lm_op *o = &m->g->ops[op];
    const bool later = o->distinct && count != (m->keys ? 0 : 1);
    lm_step_add(m, m->g->entry[o->a + later], TEMPORARY | (uint32_t)(t - m->temps));
}

/* Round number count of a loop begins; rounds that do not matter any more count as one. */
static void enter_round(struct lm_machine *m, uint32_t op, uint32_t count, uint32_t below)
{
    const struct lm_op *o = &m->g->ops[op];
    if (o->max == LM_MANY && count > o->min)
        count = o->min + 1;
    call(m, op, count, below);
}

/* The rule that op called has ended. */
static void give_back(struct lm_machine *m, uint32_t op, uint32_t count, uint32_t below)
{
    const struct lm_op *o = &m->g->ops[op];
    if (m->keys && o->distinct) {                 /* count is the set of keys so far */
        const uint32_t n = lm_keys_size(m->keys, count);
        if (n >= o->min)
            lm_step_add(m, o->b, below);
        if (o->max == LM_MANY || n < o->max)
            call(m, op, count, below);
        return;
    }
    if (o->kind != LM_OP_LOOP || count >= o->min || o->may_be_empty)
        lm_step_add(m, o->b, below);
    if (o->kind == LM_OP_LOOP && count == LM_COUNT_FREE)
        call(m, op, count, below);
    else if (o->kind == LM_OP_LOOP && (o->max == LM_MANY || count < o->max))
        enter_round(m, op, count + 1, below);
}

/* A stack that is another one but for its count; UINT32_MAX: memory is short. */
static uint32_t recount(struct lm_machine *m, uint32_t stack, uint32_t count)
{
    struct stack s = m->stacks[stack];
    if (!lm_grow(&m->links, &m->links_cap, m->n_links + s.n, sizeof *m->links) ||
        !lm_grow(&m->stacks, &m->stacks_cap, m->n_stacks + 1, sizeof *m->stacks))
        return UINT32_MAX;
    memcpy(m->links + m->n_links, m->links + s.below, s.n * sizeof *m->links);
    s.count = count;
    s.below = (uint32_t)m->n_links;
    s.returned = UINT32_MAX;
    m->stacks[m->n_stacks] = s;
    const uint32_t out = intern(m, &m->stack_table, hash_stack, same_stack, (uint32_t)m->n_stacks);
    if (out == m->n_stacks) {
        m->n_stacks++;
        m->n_links += s.n;
    }
    return out;
}

/* A key has ended, which the loops below have not met. */
static void leave_key(struct lm_machine *m, struct stack key)
{
    for (uint32_t k = 0; k < key.n && m->failed == LM_OK; k++) {
        const uint32_t below = m->links[key.below + k];
        uint32_t set = m->stacks[below].count;
        if (!lm_keys_add(m->keys, m->text, key.count, &set)) {
            nomem(m);
        } else if (set != LM_KEYS_TWICE) {
            const uint32_t stack = recount(m, below, set);
            if (stack == UINT32_MAX)
                nomem(m);
            else
                lm_step_add(m, m->g->ops[key.op].b, stack);
            m->ended = true;
        }
    }
}

void lm_step_leave(struct lm_machine *m, uint32_t stack)
{
    if (stack == LM_STACK_BOTTOM) {
        m->complete = true;
    } else if (stack == LM_STACK_UNKNOWN) {
        m->open = true;
    } else if (stack & TEMPORARY) {
        struct temp *t = &m->temps[stack & ~TEMPORARY];
        const uint32_t op = t->op;
        t->left = true;
        if (m->g->ops[op].kind == LM_OP_LOOP)
            return;                               /* an empty round: as good as none */
        for (size_t k = 0; k < m->temps[stack & ~TEMPORARY].n && m->failed == LM_OK; k++)
            lm_step_add(m, m->g->ops[op].b, m->temps[stack & ~TEMPORARY].below[k]);
    } else if (m->keys && m->g->ops[m->stacks[stack].op].kind == LM_OP_KEY) {
        leave_key(m, m->stacks[stack]);
    } else {
        const struct stack s = m->stacks[stack];
        for (uint32_t k = 0; k < s.n && m->failed == LM_OK; k++)
            give_back(m, s.op, s.count, m->links[s.below + k]);
    }
}

/* Follow all that takes no byte. */
static void close(struct lm_machine *m)
{
    while (m->n_todo && m->failed == LM_OK) {
        const uint64_t last = m->todo[--m->n_todo];
        const struct way w = { (uint32_t)last, (uint32_t)(last >> 32) };
        const struct lm_op *o = &m->g->ops[w.op];
        switch ((enum lm_op_kind)o->kind) {
        case LM_OP_SPLIT:
            lm_step_add(m, o->a, w.stack);
            lm_step_add(m, o->b, w.stack);
            break;
        case LM_OP_CALL:
            if (m->g->ops[o->b].kind == LM_OP_END)          /* nothing to come back for */
                lm_step_add(m, m->g->entry[o->a], w.stack);
            else
                call(m, w.op, 0, w.stack);
            break;
        case LM_OP_LOOP:
            if (o->min == 0 || o->may_be_empty)
                lm_step_add(m, o->b, w.stack);
            if (m->keys && o->distinct)
                call(m, w.op, 0, w.stack);
            else
                enter_round(m, w.op, 1, w.stack);
            break;
        case LM_OP_KEY:
            call(m, w.op, m->keys ? lm_keys_size(m->keys, m->text) : 0, w.stack);
            break;
        case LM_OP_END:
            lm_step_leave(m, w.stack);
            break;
        default:
            if (m->n_found >= LM_GRAMMAR_WAYS)
                m->failed = lm_fail(m->err, LM_ENOSUP, "the grammar can be read in more than %d "
                                    "ways here", LM_GRAMMAR_WAYS);
            else if (!lm_grow(&m->found, &m->found_cap, m->n_found + 1, sizeof *m->found))
                nomem(m);
            else
                m->found[m->n_found++] = w;
        }
    }
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_numbers(uint32_t *list, size_t n)
{
    if (n == 2 && list[0] > list[1]) {            /* as most have one or two */
        const uint32_t first = list[0];
        list[0] = list[1];
        list[1] = first;
    } else if (n > 2) {
        qsort(list, n, sizeof *list, by_number);
    }
}

static uint32_t resolved(const struct lm_machine *m, uint32_t stack)
{
    return stack & TEMPORARY ? m->temps[stack & ~TEMPORARY].final : stack;
}

/* Make a temporary node a real one, once all below it are; false: not yet. */
static bool settle_temp(struct lm_machine *m, struct temp *t)
{
    uint32_t depth = 0;
    bool keyed = m->g->ops[t->op].kind == LM_OP_KEY;
    for (size_t k = 0; k < t->n; k++)
        if (t->below[k] & TEMPORARY && !m->temps[t->below[k] & ~TEMPORARY].final)
            return false;
    if (!lm_grow(&m->links, &m->links_cap, m->n_links + t->n, sizeof *m->links) ||
        !lm_grow(&m->stacks, &m->stacks_cap, m->n_stacks + 1, sizeof *m->stacks)) {
        nomem(m);
        return false;
    }
    uint32_t *to = m->links + m->n_links;
    size_t n = 0;
    for (size_t k = 0; k < t->n; k++)
        to[k] = resolved(m, t->below[k]);
    sort_numbers(to, t->n);
    for (size_t k = 0; k < t->n; k++) {
        const uint32_t d = m->stacks[to[k]].depth;
        depth = d > depth ? d : depth;
        keyed |= m->stacks[to[k]].keyed;
        if (n == 0 || to[n - 1] != to[k])
            to[n++] = to[k];
    }
    if (depth >= LM_GRAMMAR_STACK) {
        m->failed = lm_fail(m->err, LM_ENOSUP, "more than %d rules in one another",
                            LM_GRAMMAR_STACK);
        return false;
    }
    m->stacks[m->n_stacks] = (struct stack){ t->op, t->count, depth + 1, (uint32_t)m->n_links,
                                             (uint32_t)n, UINT32_MAX, keyed };
    t->final = intern(m, &m->stack_table, hash_stack, same_stack, (uint32_t)m->n_stacks);
    if (t->final == UINT32_MAX) {
        nomem(m);
        return false;
    }
    if (t->final == m->n_stacks) {
        m->n_stacks++;
        m->n_links += n;
    }
    return true;
}

static void settle_temps(struct lm_machine *m)
{
    for (size_t i = 0; i < m->n_temps; i++)
        m->temps[i].final = LM_STACK_BOTTOM;
    for (size_t left = m->n_temps; left && m->failed == LM_OK;)
        for (size_t i = 0; i < m->n_temps && m->failed == LM_OK; i++)
            if (!m->temps[i].final && settle_temp(m, &m->temps[i]))
                left--;
}

static int by_stack(const void *a, const void *b)
{
    const struct way *x = a, *y = b;
    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void sort_ways(struct way *list, size_t n)
{
    if (n > FEW_WAYS) {
        qsort(list, n, sizeof *list, by_stack);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        const struct way w = list[i];
        size_t k = i;
        for (; k > 0 && by_stack(&list[k - 1], &w) > 0; k--)
            list[k] = list[k - 1];
        list[k] = w;
    }
}

/* Make a state of what the step has found. */
int lm_step_finish(struct lm_machine *m, lm_state *s)
{
    close(m);
    if (m->failed == LM_OK)
        settle_temps(m);
    if (m->failed < 0)
        return m->failed;
    *s = LM_STATE_DEAD;
    if (m->n_found == 0 && !m->complete && !m->open)
        return LM_OK;
    if (m->n_ways + m->n_found + m->n_links > LM_GRAMMAR_ROOM)
        return m->failed = lm_fail(m->err, LM_ENOSUP, "the grammar is too ambiguous here: more "
                                   "than %d ways in all states", LM_GRAMMAR_ROOM);
    if (!lm_grow(&m->ways, &m->ways_cap, m->n_ways + m->n_found + 1, sizeof *m->ways) ||
        !lm_grow(&m->states, &m->states_cap, m->n_states + 1, sizeof *m->states))
        return nomem(m);
    struct way *to = m->ways + m->n_ways;
    for (size_t i = 0; i < m->n_found; i++)
        to[i] = (struct way){ m->found[i].op, resolved(m, m->found[i].stack) };
    sort_ways(to, m->n_found);
    size_t n = 0;
    for (size_t i = 0; i < m->n_found; i++)
        if (n == 0 || by_stack(&to[n - 1], &to[i]))
            to[n++] = to[i];
    bool keyed = false;
    for (size_t i = 0; m->keys && i < n; i++)
        keyed |= m->stacks[to[i].stack].keyed;
    m->states[m->n_states] = (struct state){ (uint32_t)m->n_ways, (uint32_t)n, UINT32_MAX,
                                             m->complete, m->open, m->ended,
                                             keyed ? m->text : 0 };
    *s = intern(m, &m->state_table, hash_state, same_state, (uint32_t)m->n_states);
    if (*s == UINT32_MAX)
        return nomem(m);
    if (*s == m->n_states) {
        m->n_states++;
        m->n_ways += n;
    }
    return LM_OK;
}

int lm_machine_add_edge(struct lm_machine *m, lm_state from, lm_state to, uint16_t by,
                    struct lm_err *err)
{
    if (!lm_grow(&m->edges, &m->edges_cap, m->n_edges + 1, sizeof *m->edges))
        return lm_fail_nomem(err);
    m->edges[m->n_edges] = (struct edge){ from, to, by };
    if (intern(m, &m->edge_table, hash_edge, same_edge, (uint32_t)m->n_edges) == UINT32_MAX)
        return lm_fail_nomem(err);
    m->n_edges++;
    return LM_OK;
}

int lm_step_start(struct lm_machine *m, lm_state *s, struct lm_err *err)
{
    lm_step_begin(m, err);
    m->text = 0;
    lm_step_add(m, m->g->entry[0], LM_STACK_BOTTOM);
    return lm_step_finish(m, s);
}

bool lm_step_is_keyed(const struct lm_machine *m, lm_state state)
{
    const struct state *s = &m->states[state];
    bool keyed = false;
    for (uint32_t i = 0; i < s->n && !keyed; i++)
        keyed = m->stacks[m->ways[s->ways + i].stack].keyed;
    return keyed;
}

/* Does a way that is in a key take the byte? */
static bool goes_on_with_key(const struct lm_machine *m, const struct state *s, unsigned char byte)
{
    for (uint32_t i = 0; i < s->n; i++) {
        const struct way w = m->ways[s->ways + i];
        const struct lm_op *o = &m->g->ops[w.op];
        if (m->stacks[w.stack].keyed &&
            (o->kind == LM_OP_TEXT ? lm_text_step(byte) >= 0 : byte >= o->lo && byte <= o->hi))
            return true;
    }
    return false;
}

int lm_step_byte(struct lm_machine *m, lm_state *s, unsigned char byte, struct lm_err *err)
{
    if (*s == LM_STATE_DEAD)
        return LM_OK;
    const uint32_t known = lm_machine_find_edge(m, *s, byte);
    if (known != UINT32_MAX) {
        *s = m->edges[known].to;
        return LM_OK;
    }
    const struct state from = m->states[*s];
    const lm_state before = *s;
    lm_step_begin(m, err);
    m->text = 0;
    if (m->keys && goes_on_with_key(m, &from, byte))
        m->text = lm_keys_push(m->keys, from.text, byte);
    if (m->text == UINT32_MAX)
        return nomem(m);
    for (uint32_t i = 0; i < from.n; i++) {
        const struct way w = m->ways[from.ways + i];
        const struct lm_op *o = &m->g->ops[w.op];
        const int step = o->kind == LM_OP_TEXT ? lm_text_step(byte) : -1;
        if (o->kind == LM_OP_BYTES && byte >= o->lo && byte <= o->hi)
            lm_step_add(m, o->a, w.stack);
        else if (step >= 0)
            lm_step_add(m, step ? w.op + (uint32_t)step : o->a, w.stack);
    }
    int r = lm_step_finish(m, s);
    return r == LM_OK ? lm_machine_add_edge(m, before, *s, byte, err) : r;
}

bool lm_machine_alike(const struct lm_machine *m, lm_state s, unsigned char a, unsigned char b)
{
    const struct state *from = &m->states[s];
    for (uint32_t i = 0; s != LM_STATE_DEAD && i < from->n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[from->ways + i].op];
        if (o->kind == LM_OP_BYTES && (a >= o->lo && a <= o->hi) != (b >= o->lo && b <= o->hi))
            return false;
        if (o->kind == LM_OP_TEXT && lm_text_step(a) != lm_text_step(b))
            return false;
    }
    return true;
}

uint64_t lm_machine_work(const struct lm_machine *m)
{
    return m->work + m->n_steps;
}

/* ---- counters ---- */

/* How many more rounds may follow, if the loop is one of characters and need not go on; else 0. */
static uint32_t room_of(const struct lm_machine *m, uint32_t stack)
{
    const struct stack *s = &m->stacks[stack];
    const struct lm_op *o = &m->g->ops[s->op];
    const bool counts = s->n && o->kind == LM_OP_LOOP && o->character && o->max != LM_MANY &&
                        s->count >= o->min && s->count < o->max;
    return counts ? o->max - s->count + 1 : 0;
}

int lm_machine_relax(struct lm_machine *m, lm_state s, lm_state *to, uint32_t *room,
                     struct lm_err *err)
{
    const struct state from = m->states[s];
    *to = s;
    *room = UINT32_MAX;
    for (uint32_t i = 0; i < from.n; i++) {
        const uint32_t own = room_of(m, m->ways[from.ways + i].stack);
        *room = own >= LM_CLASS_LONG && own < *room ? own : *room;
    }
    if (*room == UINT32_MAX)
        return LM_OK;
    lm_step_begin(m, err);
    m->complete = from.complete;
    for (uint32_t i = 0; i < from.n; i++) {
        const struct way w = m->ways[from.ways + i];
        const bool counts = room_of(m, w.stack) >= LM_CLASS_LONG;
        const uint32_t stack = counts ? recount(m, w.stack, LM_COUNT_FREE) : w.stack;
        if (stack == UINT32_MAX)
            return nomem(m);
        lm_step_add(m, w.op, stack);
    }
    return lm_step_finish(m, to);
}

/* ---- tokens ---- */

/* Does the op take the token whole? */
bool lm_op_takes(const struct lm_machine *m, const struct lm_op *o, uint32_t id)
{
    return o->kind == LM_OP_TOKEN ? o->a == id :
           o->kind == LM_OP_OTHER_TOKEN && o->a != id && !lm_mask_has(m->eog, id);
}

int lm_step_take(struct lm_machine *m, lm_state *s, uint32_t id, struct lm_err *err)
{
    lm_state read = LM_STATE_DEAD;
    if (*s == LM_STATE_DEAD)
        return LM_OK;
    const struct lm_str piece = lm_vocab_piece(m->v, id);
    if (piece.len && lm_mask_has(m->plain, id)) {
        read = *s;
        for (size_t i = 0; i < piece.len; i++) {
            int r = lm_step_byte(m, &read, (unsigned char)piece.p[i], err);
            if (r < 0)
                return r;
        }
    }
    if (!m->g->has_tokens) {
        *s = read;
        return LM_OK;
    }
    const struct state from = m->states[*s];
    lm_step_begin(m, err);
    for (uint32_t i = 0; i < from.n; i++) {
        const struct way w = m->ways[from.ways + i];
        if (lm_op_takes(m, &m->g->ops[w.op], id))
            lm_step_add(m, m->g->ops[w.op].b, w.stack);
    }
    if (read != LM_STATE_DEAD) {                  /* both readings go on */
        const struct state r = m->states[read];
        m->complete |= r.complete;
        for (uint32_t i = 0; i < r.n; i++)
            lm_step_add(m, m->ways[r.ways + i].op, m->ways[r.ways + i].stack);
    }
    return lm_step_finish(m, s);
}

/* ---- forgetting ---- */

struct mark lm_machine_mark(const struct lm_machine *m)
{
    return (struct mark){ m->n_stacks, m->n_states, m->n_ways, m->n_links, m->n_edges,
                          lm_keys_mark(m->keys),
                          { m->stack_table.n, m->state_table.n, m->edge_table.n } };
}

/* Keep only numbers below n, of all below `all`, in a table that had so many slots then: as long as
 * it has not grown, the last one that came in can go as if it had never been there. */
static void cut_table(struct lm_machine *m, struct table *t, hash_fn *hash, size_t n, size_t all,
                      size_t slots)
{
    for (size_t i = all; t->n && t->n == slots && i > n; i--) {
        size_t k = hash(m, (uint32_t)i - 1) & (t->n - 1);
        while (t->slots[k] && t->slots[k] != i)
            k = (k + 1) & (t->n - 1);
        t->used -= t->slots[k] != 0;
        t->slots[k] = 0;
    }
    if (t->n == slots)
        return;
    if (t->n)
        memset(t->slots, 0, t->n * sizeof *t->slots);
    t->used = n;
    for (uint32_t i = 0; i < n; i++) {
        size_t k = hash(m, i) & (t->n - 1);
        while (t->slots[k])
            k = (k + 1) & (t->n - 1);
        t->slots[k] = i + 1;
    }
}

/* Forget what was made after the mark, which nothing older than it needs. */
void lm_machine_forget(struct lm_machine *m, const struct mark *to)
{
    cut_table(m, &m->edge_table, hash_edge, to->edges, m->n_edges, to->slots[2]);
    cut_table(m, &m->state_table, hash_state, to->states, m->n_states, to->slots[1]);
    if (m->stack_table.n == to->slots[0]) {
        cut_table(m, &m->stack_table, hash_stack, to->stacks, m->n_stacks, to->slots[0]);
    } else {                                      /* LM_STACK_BOTTOM and ..._UNKNOWN are in none */
        memset(m->stack_table.slots, 0, m->stack_table.n * sizeof *m->stack_table.slots);
        m->stack_table.used = 0;
        for (uint32_t i = 2; i < to->stacks; i++)
            intern(m, &m->stack_table, hash_stack, same_stack, i);
    }
    m->n_stacks = to->stacks;
    m->n_states = to->states;
    m->n_ways = to->ways;
    m->n_links = to->links;
    m->n_edges = to->edges;
    lm_keys_forget(m->keys, to->keys);
    for (size_t i = 0; !m->keys && i < m->n_stacks; i++)     /* none of a machine with keys has */
        if (m->stacks[i].returned >= m->n_states)
            m->stacks[i].returned = UINT32_MAX;
}

/* ---- messages ---- */

static void say_byte(struct lm_buf *b, unsigned byte)
{
    if (byte > ' ' && byte < 0x7F)
        lm_buf_printf(b, "'%c'", (int)byte);
    else
        lm_buf_printf(b, byte == '\n' ? "newline" : byte == ' ' ? "space" : "\\x%02X", byte);
}

char *lm_step_expected(struct lm_machine *m, lm_state s, struct lm_err *err)
{
    struct lm_buf b = { 0 };
    int kinds = 0;
    bool taken[256] = { false };
    const struct state from = m->states[s];
    for (uint32_t i = 0; i < from.n; i++) {
        const struct lm_op *o = &m->g->ops[m->ways[from.ways + i].op];
        for (unsigned c = o->lo; o->kind == LM_OP_BYTES && c <= o->hi; c++)
            taken[c] = true;
        for (unsigned c = 0; o->kind == LM_OP_TEXT && c < 256; c++)
            taken[c] |= lm_text_step((unsigned char)c) >= 0;
        if (o->kind != LM_OP_BYTES && o->kind != LM_OP_TEXT && kinds++ < 10)
            lm_buf_printf(&b, "%s%s<[%u]>", b.len ? ", " : "",
                          o->kind == LM_OP_OTHER_TOKEN ? "!" : "", (unsigned)o->a);
    }
    for (unsigned lo = 0, hi; lo < 256; lo = hi + 1) {
        for (hi = lo; taken[lo] && hi < 255 && taken[hi + 1];)
            hi++;
        if (!taken[lo] || kinds++ >= 10)
            continue;
        lm_buf_str(&b, b.len ? ", " : "");
        say_byte(&b, lo);
        if (hi > lo) {
            lm_buf_str(&b, hi > lo + 1 ? " to " : ", ");
            say_byte(&b, hi);
        }
    }
    if (kinds > 10)
        lm_buf_str(&b, ", ...");
    if (from.complete)
        lm_buf_str(&b, b.len ? " or the end" : "the end");
    lm_buf_byte(&b, 0);
    if (b.failed) {
        lm_buf_release(&b);
        lm_fail_nomem(err);
        return NULL;
    }
    return b.data;
}

/* ---- making one ---- */

static int count_tokens(struct lm_machine *m, const int32_t *eog, size_t n_eog)
{
    size_t longest = 0;
    for (uint32_t id = 0; m->v && id < m->n_vocab; id++) {
        const size_t len = lm_vocab_piece(m->v, id).len;
        longest = len > longest ? len : longest;
        if (lm_vocab_type(m->v, id) != LM_TOKEN_CONTROL &&
            lm_vocab_type(m->v, id) != LM_TOKEN_UNKNOWN)
            lm_mask_put(m->plain, id);
    }
    for (size_t i = 0; i < n_eog; i++)
        if (eog[i] >= 0 && (size_t)eog[i] / 64 < m->words)
            lm_mask_put(m->eog, (uint32_t)eog[i]);
    m->frames = lm_malloc_array(longest + 2, sizeof *m->frames);
    return m->frames ? LM_OK : LM_ENOMEM;
}

/* The tokens by classes of characters. */
static bool make_classes(struct lm_machine *m)
{
    uint32_t max = 0;
    for (unsigned b = 0; b < 256; b++)
        if (lm_text_step((unsigned char)b) >= 0)
            m->text_bytes[b / 64] |= UINT64_C(1) << b % 64;
    for (int c = 0; m->v && c < LM_CLASSES; c++) {
        if (c == LM_CLASS_TEXT && !m->g->has_text)
            continue;
        if (lm_token_class_init(&m->classes[c], (enum lm_char_class)c, m->v, m->n_vocab, m->words,
                                NULL) < 0)
            return false;
        max = m->classes[c].max > max ? m->classes[c].max : max;
    }
    m->chain = lm_malloc_array((size_t)max + 1, sizeof *m->chain);
    return m->chain != NULL;
}

struct lm_machine *lm_machine_new(const struct lm_grammar *g, const struct lm_vocab *v,
                                  uint32_t n_vocab, const int32_t *eog, size_t n_eog,
                                  struct lm_err *err)
{
    struct lm_machine *m = calloc(1, sizeof *m);
    if (!m) {
        lm_fail_nomem(err);
        return NULL;
    }
    *m = (struct lm_machine){ .g = g, .v = v, .words = ((size_t)n_vocab + 63) / 64,
                              .n_vocab = v ? lm_vocab_n(v) : 0 };
    if (m->n_vocab > n_vocab)
        m->n_vocab = n_vocab;
    m->eog = lm_mask_new(m);
    m->plain = lm_mask_new(m);
    bool good = m->eog && m->plain && count_tokens(m, eog, n_eog) == LM_OK && make_classes(m) &&
                lm_grow(&m->stacks, &m->stacks_cap, 2, sizeof *m->stacks) &&
                lm_token_trie_init(&m->trie, v, m->n_vocab, err) == LM_OK;
    if (!good) {
        lm_machine_free(m);
        lm_fail_nomem(err);
        return NULL;
    }
    m->stacks[LM_STACK_BOTTOM] = (struct stack){ .returned = UINT32_MAX };
    m->stacks[LM_STACK_UNKNOWN] = m->stacks[LM_STACK_BOTTOM];
    m->n_stacks = 2;
    if (g->has_keys && !lm_machine_watch_keys(m)) {
        lm_machine_free(m);
        lm_fail_nomem(err);
        return NULL;
    }
    return m;
}

void lm_machine_free(struct lm_machine *m)
{
    if (!m)
        return;
    lm_machine_release_keys(m);
    for (size_t i = 0; i < m->n_parts; i++) {
        free(m->parts[i].mask);
        free(m->parts[i].returns);
    }
    for (size_t i = 0; i < m->temps_cap; i++)
        free(m->temps[i].below);
    for (size_t i = 0; i < LM_MACHINE_MASKS; i++)
        free(m->masks[i].mask);
    void *const all[] = {
        m->eog, m->plain, m->stacks, m->states, m->ways, m->links, m->edges, m->parts,
        m->stack_table.slots, m->state_table.slots, m->edge_table.slots, m->todo, m->found,
        m->seen, m->seen_step, m->temps, m->temp_slots, m->frames, m->chain,
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int c = 0; c < LM_CLASSES; c++)
        lm_token_class_release(&m->classes[c]);
    lm_token_trie_release(&m->trie);
    free(m);
}
