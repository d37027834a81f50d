/* SPDX-License-Identifier: MIT */
/*
 * From trees to states.
 *
 * A node is made with the state that follows it, so that what comes last is made first.  What can
 * never be completed is no state at all: an alternative that leads there is left out.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

#define NOWHERE     UINT32_MAX       /* the text can never be completed from here */
#define TOO_MANY    UINT64_MAX       /* product of counts                         */
#define COPIES      64               /* repetitions up to this count ...          */
#define COPIED_CHARACTERS LM_CLASS_LONG          /* (this one of characters of JSON) ... */
#define COPIED_OPS  4096             /* ... and size are written out              */
#define FEW_TEXTS   8                /* alternatives below which texts are not put in order */

/* ---- states ---- */

/* Is it a character of a JSON string? */
static bool is_character(const struct lm_node *node)
{
    return node->kind == LM_NODE_CHOICE && node->n && node->nodes[0]->kind == LM_NODE_TEXT;
}

/* Up to which count a repetition is written out.  Counters of characters are cheap where many may
 * follow: see lm_machine_relax. */
static uint32_t copies_of(const struct lm_node *item)
{
    return is_character(item) ? COPIED_CHARACTERS : COPIES;
}

static uint32_t measure(struct lm_node *node);

static uint64_t measure_graph(struct lm_node *node)
{
    const struct lm_graph *g = node->graph;
    uint64_t size = g->n_states;
    for (size_t i = 0; i < g->n; i++) {
        struct lm_node *label = g->edges[i].label;
        size += 1 + (label ? measure(label) : 0);
        if (label && label->rounds > node->rounds)
            node->rounds = label->rounds;
    }
    return size;
}

/* About how many states each node takes; from the leaves up, once. */
static uint32_t measure(struct lm_node *node)
{
    uint64_t size = node->kind == LM_NODE_SET ? UINT64_C(4) * node->n :
                    node->kind == LM_NODE_LITERAL ? node->n :
                    node->kind == LM_NODE_TEXT ? 1 + LM_TEXT_OPS : 1;
    if (node->size)
        return node->size;
    node->rounds = 1;
    if (node->kind == LM_NODE_GRAPH)
        size += measure_graph(node);
    for (uint32_t i = 0; lm_node_has_nodes(node) && i < node->n; i++) {
        size += measure(node->nodes[i]);
        if (node->nodes[i]->rounds > node->rounds)
            node->rounds = node->nodes[i]->rounds;
    }
    if (node->kind == LM_NODE_REPEAT) {
        const uint64_t most = node->max == LM_MANY ? node->min + UINT64_C(1) : node->max;
        const bool nested = node->rounds > 1 && most > 1;
        node->rounds = !nested ? node->rounds > most ? node->rounds : most :
                       node->rounds > TOO_MANY / most ? TOO_MANY : node->rounds * most;
        if (nested && node->rounds > LM_GRAMMAR_ROUNDS)
            node->rounds = TOO_MANY;
        size = most > copies_of(node->nodes[0]) || size * most > COPIED_OPS ? size + 1 :
                                                                              size * most + 1;
    }
    node->size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
    return node->size;
}

struct compiler {
    const struct lm_tree *t;
    struct lm_grammar  *g;
    int                 failed;      /* LM_OK, or the code of the first failure   */
    struct lm_err      *err;
    uint32_t           *marks, round;        /* of end_from: [op] the round it was met in */
    uint32_t           *todo;
    size_t              marks_cap, n_todo, todo_cap;
};

static uint32_t emit(struct compiler *c, struct lm_op op)
{
    struct lm_grammar *g = c->g;
    if (c->failed < 0)
        return NOWHERE;
    if (g->n_ops >= LM_GRAMMAR_ITEMS) {
        c->failed = lm_fail(c->err, LM_EUSE, "the grammar has more than %d items once repetitions "
                            "are written out", LM_GRAMMAR_ITEMS);
        return NOWHERE;
    }
    if (!lm_grow(&g->ops, &g->ops_cap, g->n_ops + 1, sizeof *g->ops)) {
        c->failed = lm_fail_nomem(c->err);
        return NOWHERE;
    }
    g->ops[g->n_ops] = op;
    return (uint32_t)g->n_ops++;
}

static uint32_t split(struct compiler *c, uint32_t a, uint32_t b)
{
    if (a == NOWHERE || b == NOWHERE)
        return a == NOWHERE ? b : a;
    return emit(c, (struct lm_op){ .kind = LM_OP_SPLIT, .a = a, .b = b });
}

/* A byte lo..hi, then next; or else what `other` says. */
static uint32_t bytes(struct compiler *c, unsigned lo, unsigned hi, uint32_t next)
{
    if (next == NOWHERE)
        return NOWHERE;
    return emit(c, (struct lm_op){ .kind = LM_OP_BYTES, .lo = (uint8_t)lo, .hi = (uint8_t)hi,
                                   .a = next });
}

/* The continuation bytes of code points lo..hi, `rest` of them to come, all with the same bytes
 * before these. */
static uint32_t tail(struct compiler *c, uint32_t lo, uint32_t hi, int rest, uint32_t next)
{
    if (rest == 0)
        return next;
    const int shift = 6 * (rest - 1);
    const uint32_t low = (UINT32_C(1) << shift) - 1;
    uint32_t out = NOWHERE, from = lo >> shift, to = hi >> shift;
    if ((lo & low) != 0 && from < to) {           /* a first byte that begins in the middle */
        out = split(c, out, bytes(c, 0x80 | (from & 0x3F), 0x80 | (from & 0x3F),
                                  tail(c, lo & low, low, rest - 1, next)));
        from++;
    }
    if ((hi & low) != low && from < to) {         /* and a last one that ends there */
        out = split(c, out, bytes(c, 0x80 | (to & 0x3F), 0x80 | (to & 0x3F),
                                  tail(c, 0, hi & low, rest - 1, next)));
        to--;
    }
    const bool one = from == to;
    const uint32_t first = one && from == lo >> shift ? lo & low : 0;
    const uint32_t last = one && to == hi >> shift ? hi & low : low;
    return split(c, out, bytes(c, 0x80 | (from & 0x3F), 0x80 | (to & 0x3F),
                               tail(c, first, last, rest - 1, next)));
}

/* Code points lo..hi, whose UTF-8 has n bytes. */
static uint32_t characters(struct compiler *c, uint32_t lo, uint32_t hi, int n, uint32_t next)
{
    static const unsigned marks[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    const int shift = 6 * (n - 1);
    uint32_t out = NOWHERE;
    if (n == 1)
        return bytes(c, lo, hi, next);
    for (uint32_t lead = lo >> shift; lead <= hi >> shift; lead++) {
        const uint32_t base = lead << shift, top = base | ((UINT32_C(1) << shift) - 1);
        uint32_t last = lead;
        const uint32_t from = lo > base ? lo - base : 0;
        const uint32_t to = hi < top ? hi - base : top - base;
        while (from == 0 && to == top - base && last < hi >> shift &&
               ((last + 2) << shift) - 1 <= hi)
            last++;                               /* lead bytes with the same tail together */
        out = split(c, out, bytes(c, marks[n] | lead, marks[n] | last,
                                  tail(c, from, to, n - 1, next)));
        lead = last;
    }
    return out;
}

static uint32_t set(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    static const uint32_t last[] = { 0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF };
    uint32_t out = NOWHERE;
    for (size_t i = node->n; i-- > 0;)
        for (int n = 4; n > 0; n--) {
            const uint32_t lo = node->ranges[i].lo > last[n - 1] || n == 1 ? node->ranges[i].lo
                                                                           : last[n - 1] + 1;
            const uint32_t hi = node->ranges[i].hi < last[n] ? node->ranges[i].hi : last[n];
            if (lo <= hi)
                out = split(c, characters(c, lo, hi, n, next), out);
        }
    return out;
}

/* ---- choices ---- */

struct text {
    const char *p;
    size_t      at, len;             /* p: once all are there, at their place            */
};

/* The alternatives that are one text each, so that what they begin with alike is one way. */
struct texts {
    struct lm_buf bytes;
    struct text  *list;              /* [n]                                              */
    size_t        n;
};

/* Append the one text that a node stands for; false if it is none, or not only one. */
static bool add_bytes(const struct lm_node *node, struct lm_buf *b)
{
    bool good = true;
    switch (node->kind) {
    case LM_NODE_LITERAL:
        lm_buf_add(b, node->text, node->n);
        return true;
    case LM_NODE_BYTES:
        lm_buf_byte(b, (int)node->min);
        return node->min == node->max;
    case LM_NODE_SET:
        if (node->n != 1 || node->ranges[0].lo != node->ranges[0].hi)
            return false;
        lm_buf_rune(b, node->ranges[0].lo);
        return true;
    case LM_NODE_CHOICE:
        return node->n == 1 && add_bytes(node->nodes[0], b);
    case LM_NODE_SEQUENCE:
        for (size_t i = 0; good && i < node->n; i++)
            good = add_bytes(node->nodes[i], b);
        return good;
    default:
        return false;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    const size_t n = x->len < y->len ? x->len : y->len;
    const int c = n ? memcmp(x->p, y->p, n) : 0;
    return c ? c : x->len < y->len ? -1 : x->len > y->len;
}

/* Find the texts among a choice's alternatives, in order; false when memory is short.  other
 * [node->n]: it is none. */
static bool find_texts(const struct lm_node *node, struct texts *t, bool *other)
{
    t->list = lm_malloc_array(node->n, sizeof *t->list);
    for (size_t i = 0; t->list && i < node->n; i++) {
        const size_t at = t->bytes.len;
        other[i] = !add_bytes(node->nodes[i], &t->bytes);
        if (other[i])
            t->bytes.len = at;
        else
            t->list[t->n++] = (struct text){ NULL, at, t->bytes.len - at };
    }
    for (size_t i = 0; t->list && i < t->n; i++)
        t->list[i].p = t->bytes.len ? t->bytes.data + t->list[i].at : "";
    if (t->n > 1)
        qsort(t->list, t->n, sizeof *t->list, by_bytes);
    return t->list && !t->bytes.failed;
}

/* One of texts [n], which are in order and share the first `depth` bytes, without these. */
static uint32_t branch(struct compiler *c, const struct text *t, size_t n, size_t depth,
                       uint32_t next)
{
    const struct text *last = &t[n - 1];
    size_t same = depth, ended = 0;
    uint32_t out = NOWHERE;
    while (same < t->len && same < last->len && t->p[same] == last->p[same])
        same++;
    for (; ended < n && t[ended].len == same; ended++)
        out = next;
    for (size_t from = n, end = n; end > ended && c->failed == LM_OK; end = from) {
        const unsigned char byte = (unsigned char)t[end - 1].p[same];
        while (from > ended && (unsigned char)t[from - 1].p[same] == byte)
            from--;
        out = split(c, bytes(c, byte, byte, branch(c, t + from, end - from, same + 1, next)), out);
    }
    for (; same > depth && c->failed == LM_OK; same--)
        out = bytes(c, (unsigned char)t->p[same - 1], (unsigned char)t->p[same - 1], out);
    return out;
}

static uint32_t compile(struct compiler *c, const struct lm_node *node, uint32_t next);

static uint32_t choice(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    struct texts t = { .n = 0 };
    uint32_t out = NOWHERE;
    bool *other;
    if (node->n < FEW_TEXTS) {
        for (size_t i = node->n; i-- > 0;)
            out = split(c, compile(c, node->nodes[i], next), out);
        return out;
    }
    other = calloc(node->n, sizeof *other);
    if (!other || !find_texts(node, &t, other))
        c->failed = lm_fail_nomem(c->err);
    for (size_t i = node->n; c->failed == LM_OK && i-- > 0;)
        if (other[i])
            out = split(c, compile(c, node->nodes[i], next), out);
    if (t.n && c->failed == LM_OK)
        out = split(c, branch(c, t.list, t.n, 0, next), out);
    free(other);
    free(t.list);
    lm_buf_release(&t.bytes);
    return out;
}

static uint32_t literal(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    for (size_t i = node->n; c->failed == LM_OK && i-- > 0;)
        next = bytes(c, (unsigned char)node->text[i], (unsigned char)node->text[i], next);
    return next;
}

/* ---- repetitions ---- */

static uint32_t copies(struct compiler *c, const struct lm_node *item, uint32_t n, uint32_t next)
{
    while (n-- > 0 && next != NOWHERE && c->failed == LM_OK)
        next = compile(c, item, next);
    return next;
}

/* As often as wanted, then next. */
static uint32_t star(struct compiler *c, const struct lm_node *item, uint32_t next)
{
    const uint32_t loop = emit(c, (struct lm_op){ .kind = LM_OP_SPLIT, .a = next, .b = next });
    const uint32_t body = compile(c, item, loop);
    if (c->failed == LM_OK && body != NOWHERE)
        c->g->ops[loop].a = body;
    return body == NOWHERE ? next : loop;
}

/* A node as a rule of its own; its number, or NOWHERE. */
static uint32_t own_rule(struct compiler *c, const struct lm_node *node)
{
    struct lm_grammar *g = c->g;
    const uint32_t end = emit(c, (struct lm_op){ .kind = LM_OP_END });
    const uint32_t body = compile(c, node, end);
    if (body == NOWHERE)
        return NOWHERE;
    if (!lm_grow(&g->entry, &g->entry_cap, g->n_rules + 1, sizeof *g->entry)) {
        c->failed = lm_fail_nomem(c->err);
        return NOWHERE;
    }
    g->entry[g->n_rules] = body;
    return (uint32_t)g->n_rules++;
}

/* A counter. */
static uint32_t loop(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    const uint32_t rule = own_rule(c, node->nodes[0]);
    if (rule == NOWHERE)
        return node->min == 0 ? next : NOWHERE;
    return emit(c, (struct lm_op){ .kind = LM_OP_LOOP, .a = rule, .b = next,
                                   .min = node->min, .max = node->max,
                                   .may_be_empty = node->nodes[0]->may_be_empty,
                                   .character = is_character(node->nodes[0]) });
}

/* Rounds that each hold a key; the rules of the first and of the later ones are neighbours, so
 * both are made before either has a number. */
static uint32_t distinct_loop(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    uint32_t body[2];
    struct lm_grammar *g = c->g;
    for (int k = 0; k < 2; k++) {
        const uint32_t end = emit(c, (struct lm_op){ .kind = LM_OP_END });
        body[k] = compile(c, node->nodes[k], end);
    }
    if (body[0] == NOWHERE || body[1] == NOWHERE)
        return node->min == 0 ? next : NOWHERE;
    if (!lm_grow(&g->entry, &g->entry_cap, g->n_rules + 2, sizeof *g->entry)) {
        c->failed = lm_fail_nomem(c->err);
        return NOWHERE;
    }
    for (int k = 0; k < 2; k++)
        g->entry[g->n_rules++] = body[k];
    return emit(c, (struct lm_op){ .kind = LM_OP_LOOP, .a = (uint32_t)g->n_rules - 2, .b = next,
                                   .min = node->min, .max = node->max, .distinct = true });
}

static uint32_t key(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    const uint32_t rule = own_rule(c, node->nodes[0]);
    c->g->has_keys = true;
    c->g->has_few_keys |= !node->endless;
    if (rule == NOWHERE)
        return NOWHERE;
    return emit(c, (struct lm_op){ .kind = LM_OP_KEY, .a = rule, .b = next,
                                   .endless = node->endless });
}

static uint32_t repeat(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    const struct lm_node *item = node->nodes[0];
    const uint32_t most = node->max == LM_MANY ? node->min : node->max;
    if (node->distinct)
        return distinct_loop(c, node, next);
    if (next == NOWHERE || most == 0)
        return node->max == LM_MANY && next != NOWHERE ? star(c, item, next) : next;
    if (most > copies_of(item) || (uint64_t)item->size * most > COPIED_OPS)
        return loop(c, node, next);
    if (node->max == LM_MANY)
        return copies(c, item, node->min, star(c, item, next));
    uint32_t from = next;
    for (uint32_t i = node->min; i < node->max && c->failed == LM_OK; i++)
        from = split(c, compile(c, item, from), next);
    return copies(c, item, node->min, from);
}

/* Note an op to look at, once. */
static bool visit(struct compiler *c, uint32_t op)
{
    const size_t old = c->marks_cap;
    if (!lm_grow(&c->marks, &c->marks_cap, (size_t)op + 1, sizeof *c->marks))
        return false;
    memset(c->marks + old, 0, (c->marks_cap - old) * sizeof *c->marks);
    if (c->marks[op] == c->round)
        return true;
    c->marks[op] = c->round;
    if (!lm_grow(&c->todo, &c->todo_cap, c->n_todo + 1, sizeof *c->todo))
        return false;
    c->todo[c->n_todo++] = op;
    return true;
}

/* The end of the rule, if it can be reached from next by the empty text. */
static uint32_t end_from(struct compiler *c, uint32_t next)
{
    uint32_t out = NOWHERE;
    bool good;
    c->round++;
    c->n_todo = 0;
    for (good = visit(c, next); good && c->n_todo;) {
        const uint32_t at = c->todo[--c->n_todo];
        const struct lm_op *o = &c->g->ops[at];
        if (o->kind == LM_OP_END)
            out = at;
        else if (o->kind == LM_OP_SPLIT)
            good = visit(c, o->a) && visit(c, o->b);
    }
    if (!good)
        c->failed = lm_fail_nomem(c->err);
    return out;
}

int lm_text_step(unsigned char byte)
{
    if (byte < 0x80)
        return byte < 0x20 || byte == '"' || byte == '\\' ? -1 : 0;
    if (byte < 0xC2 || byte > 0xF4)
        return -1;
    return byte < 0xE0 ? 1 : byte == 0xE0 ? 4 : byte == 0xED ? 5 : byte < 0xF0 ? 2 :
           byte == 0xF0 ? 6 : byte < 0xF4 ? 3 : 7;
}

/* A character of a JSON text; see lm_text_step for the order of its ops. */
static uint32_t text(struct compiler *c, uint32_t next)
{
    static const struct { uint8_t lo, hi, to; } rest[LM_TEXT_OPS] = {
        { 0x80, 0xBF, 0 }, { 0x80, 0xBF, 1 }, { 0x80, 0xBF, 2 }, { 0xA0, 0xBF, 1 },
        { 0x80, 0x9F, 1 }, { 0x90, 0xBF, 2 }, { 0x80, 0x8F, 2 },
    };
    const uint32_t first = emit(c, (struct lm_op){ .kind = LM_OP_TEXT, .a = next });
    for (size_t i = 0; i < LM_TEXT_OPS; i++)
        bytes(c, rest[i].lo, rest[i].hi, rest[i].to ? first + rest[i].to : next);
    return first;
}

/* Make an op for each state that leads to a final one, then what leaves it. */
static uint32_t graph(struct compiler *c, const struct lm_graph *g, uint32_t next)
{
    const bool *live = g->live;
    uint32_t *ops = lm_malloc_array(g->n_states, sizeof *ops), *out = NULL, start = NOWHERE;
    if (ops)
        out = lm_malloc_array(g->n_states, sizeof *out);
    if (!ops || !out)
        c->failed = lm_fail_nomem(c->err);
    for (uint32_t s = 0; c->failed == LM_OK && s < g->n_states; s++) {
        ops[s] = live[s] ? emit(c, (struct lm_op){ .kind = LM_OP_SPLIT }) : NOWHERE;
        out[s] = g->final[s] ? next : NOWHERE;
    }
    for (size_t i = g->n; c->failed == LM_OK && i-- > 0;) {
        const struct lm_graph_edge *e = &g->edges[i];
        if (!live[e->from] || !live[e->to])
            continue;
        const uint32_t by = e->label ? compile(c, e->label, ops[e->to]) : ops[e->to];
        out[e->from] = split(c, by, out[e->from]);
    }
    for (uint32_t s = 0; c->failed == LM_OK && s < g->n_states; s++)
        if (ops[s] != NOWHERE)
            c->g->ops[ops[s]].a = c->g->ops[ops[s]].b = out[s];
    if (c->failed == LM_OK)
        start = ops[0];
    free(ops);
    free(out);
    return start;
}

static uint32_t compile(struct compiler *c, const struct lm_node *node, uint32_t next)
{
    if (next == NOWHERE || c->failed < 0 || !node->productive)
        return NOWHERE;
    switch (node->kind) {
    case LM_NODE_SET:
        return set(c, node, next);
    case LM_NODE_SEQUENCE:
        for (size_t i = node->n; i-- > 0 && next != NOWHERE;)
            next = compile(c, node->nodes[i], next);
        return next;
    case LM_NODE_CHOICE:
        return choice(c, node, next);
    case LM_NODE_LITERAL:
        return literal(c, node, next);
    case LM_NODE_REPEAT:
        return repeat(c, node, next);
    case LM_NODE_KEY:
        return key(c, node, next);
    case LM_NODE_RULE:
        return emit(c, (struct lm_op){ .kind = LM_OP_CALL, .a = node->rule, .b = next });
    case LM_NODE_TOKEN:
        c->g->has_tokens = true;
        return emit(c, (struct lm_op){ .kind = node->negated ? LM_OP_OTHER_TOKEN : LM_OP_TOKEN,
                                       .a = node->rule, .b = next });
    case LM_NODE_END:
        return end_from(c, next);
    case LM_NODE_BYTES:
        return bytes(c, node->min, node->max, next);
    case LM_NODE_TEXT:
        c->g->has_text = true;
        return text(c, next);
    case LM_NODE_GRAPH:
        return graph(c, node->graph, next);
    case LM_NODE_START:
        break;
    }
    return NOWHERE;
}

/* A rule that is nothing but another one begins where that does. */
static void shorten_chains(struct lm_grammar *g)
{
    for (size_t i = 0; i < g->n_rules; i++) {
        uint32_t end = g->entry[i], at = end, next;
        while (g->ops[end].kind == LM_OP_CALL && g->ops[g->ops[end].b].kind == LM_OP_END)
            end = g->entry[g->ops[end].a];
        for (g->entry[i] = end; at != end; at = next) {
            next = g->entry[g->ops[at].a];
            g->entry[g->ops[at].a] = end;
        }
    }
}

static int compile_rules(const struct lm_tree *t, struct lm_grammar *g, struct lm_err *err)
{
    struct compiler c = { .t = t, .g = g, .err = err };
    g->entry = lm_malloc_array(t->n, sizeof *g->entry);
    if (!g->entry)
        return lm_fail_nomem(err);
    g->n_rules = g->entry_cap = t->n;
    for (size_t i = 0; c.failed == LM_OK && i < t->n; i++) {
        const uint32_t end = emit(&c, (struct lm_op){ .kind = LM_OP_END });
        const uint32_t entry = compile(&c, t->rules[i].node, end);
        g->entry[i] = entry == NOWHERE ? end : entry;     /* never called if it is nowhere */
        if (i == 0 && entry == NOWHERE && c.failed == LM_OK)      /* anchors contradict */
            c.failed = lm_fail(err, LM_EUSE, "%.60s can never be completed", t->rules[0].name);
    }
    if (c.failed == LM_OK)
        shorten_chains(g);
    free(c.marks);
    free(c.todo);
    return c.failed;
}

struct lm_grammar *lm_grammar_compile(struct lm_tree *t, struct lm_err *err)
{
    struct lm_grammar *g = calloc(1, sizeof *g);
    int s = g ? lm_tree_check(t, err) : lm_fail_nomem(err);
    for (size_t i = 0; s == LM_OK && i < t->n; i++) {
        measure(t->rules[i].node);
        if (t->rules[i].node->rounds == TOO_MANY)
            s = lm_fail(err, LM_EUSE, "rule %.60s: the counts of repetitions in one another "
                        "multiply to more than %d", t->rules[i].name, LM_GRAMMAR_ROUNDS);
    }
    if (s == LM_OK)
        s = compile_rules(t, g, err);
    if (s == LM_OK)
        return g;
    lm_grammar_free(g);
    return NULL;
}

void lm_grammar_free(struct lm_grammar *g)
{
    if (!g)
        return;
    free(g->ops);
    free(g->entry);
    free(g);
}
