/* SPDX-License-Identifier: MIT */
/* Grammars in GBNF; lmpipe-grammar(7) has the syntax. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"
#include "sample/grammar/grammar_parts.h"

#define TOP 0x10FFFF

struct parser {
    const char            *text, *at, *end;
    const struct lm_vocab *vocab;
    struct lm_tree         tree;
    uint32_t              *slots;            /* [n_slots] rule + 1 by its name's hash   */
    size_t                 n_slots;
    uint32_t               rule;             /* being read                              */
    int                    depth;            /* of parentheses                          */
    size_t                 n_nodes;          /* made                                    */
    struct lm_err         *err;
};

/* Fail at a place in the text. */
static int fail_at(struct parser *p, const char *at, const char *what)
{
    unsigned long line = 1, column = 1;
    for (const char *c = p->text; c < at; c++) {
        const bool newline = *c == '\n' || (*c == '\r' && (c + 1 == p->end || c[1] != '\n'));
        line += newline;
        column = newline ? 1 : column + ((*c & 0xC0) != 0x80);
    }
    return lm_fail(p->err, LM_EUSE, "line %lu, column %lu: %s", line, column, what);
}

static bool is_at(const struct parser *p, char c)
{
    return p->at < p->end && *p->at == c;
}

/* Skip blanks and comments, and newlines if they may stand here. */
static void skip(struct parser *p, bool newlines)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '#')
            while (p->at < p->end && *p->at != '\n' && *p->at != '\r')
                p->at++;
        if (p->at == p->end || !strchr(newlines ? " \t\n\r" : " \t", *p->at) || !*p->at)
            return;
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* The slot where a name is, or belongs. */
static uint32_t *find_slot(const struct parser *p, const char *name, size_t len)
{
    uint64_t h = 1469598103934665603u;            /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 1099511628211u;
    for (size_t k = h & (p->n_slots - 1);; k = (k + 1) & (p->n_slots - 1)) {
        const struct lm_rule *r = p->slots[k] ? &p->tree.rules[p->slots[k] - 1] : NULL;
        if (!r || (strlen(r->name) == len && !memcmp(r->name, name, len)))
            return &p->slots[k];
    }
}

/* Keep at least half of the slots free. */
static bool grow_slots(struct parser *p)
{
    if (2 * (p->tree.n + 1) <= p->n_slots)
        return true;
    const size_t n = p->n_slots ? 2 * p->n_slots : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return false;
    free(p->slots);
    p->slots = slots;
    p->n_slots = n;
    for (size_t i = 0; i < p->tree.n; i++)
        *find_slot(p, p->tree.rules[i].name, strlen(p->tree.rules[i].name)) = (uint32_t)i + 1;
    return true;
}

/* The number of the rule with the name here, which is read; below 0 a code. */
static int64_t read_name(struct parser *p)
{
    const char *from = p->at;
    while (p->at < p->end && is_name_char(*p->at))
        p->at++;
    const size_t len = (size_t)(p->at - from);
    if (len == 0)
        return fail_at(p, from, "a rule name is expected");
    if (!grow_slots(p))
        return lm_fail_nomem(p->err);
    uint32_t *slot = find_slot(p, from, len);
    if (*slot)
        return *slot - 1;
    char *name = lm_arena_copy(&p->tree.arena, from, len);
    if (!name || !lm_grow(&p->tree.rules, &p->tree.cap, p->tree.n + 1, sizeof *p->tree.rules))
        return lm_fail_nomem(p->err);
    p->tree.rules[p->tree.n++] = (struct lm_rule){ .name = name, .used_by = p->rule };
    *slot = (uint32_t)p->tree.n;
    return (int64_t)p->tree.n - 1;
}

static int read_hex(struct parser *p, const char *from, int digits, uint32_t *c)
{
    uint64_t v = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        const int d = p->at < p->end ? lm_hex_digit(*p->at) : -1;
        if (d < 0)
            return fail_at(p, from, digits == 2 ? "\\x needs 2 hexadecimal digits" : digits == 4 ?
                           "\\u needs 4 hexadecimal digits" : "\\U needs 8 hexadecimal digits");
        v = v << 4 | (unsigned)d;
    }
    if (v > TOP || (v >= 0xD800 && v <= 0xDFFF))
        return fail_at(p, from, "there is no such character");
    *c = (uint32_t)v;
    return LM_OK;
}

/* A character of a literal or a set. */
static int read_char(struct parser *p, uint32_t *c)
{
    static const char plain[] = "\\\"[]-^", named[] = "nrt", values[] = "\n\r\t";
    const char *from = p->at;
    if (*p->at != '\\') {
        p->at += lm_utf8_len(p->at, (size_t)(p->end - p->at), c);      /* checked before */
        return LM_OK;
    }
    if (++p->at == p->end)
        return fail_at(p, from, "the text ends in an escape");
    const char e = *p->at++;
    if (e == 'x' || e == 'u' || e == 'U')
        return read_hex(p, from, e == 'x' ? 2 : e == 'u' ? 4 : 8, c);
    const char *known = e ? strchr(named, e) : NULL;
    if (known)
        *c = (unsigned char)values[known - named];
    else if (e && strchr(plain, e))
        *c = (unsigned char)e;
    else
        return fail_at(p, from, "unknown escape");
    return LM_OK;
}

/* Why there is no node. */
static int nomem(struct parser *p)
{
    return p->n_nodes > LM_GRAMMAR_ITEMS ?
           lm_fail(p->err, LM_EUSE, "the grammar has more than %d items", LM_GRAMMAR_ITEMS) :
           lm_fail_nomem(p->err);
}

/* NULL also when there are so many that the grammar has too many items. */
static struct lm_node *new_node(struct parser *p, enum lm_node_kind kind)
{
    return ++p->n_nodes > LM_GRAMMAR_ITEMS ? NULL : lm_node_new(&p->tree, kind);
}

static int read_literal(struct parser *p, struct lm_node **out)
{
    const char *from = p->at++;
    struct lm_buf text = { 0 };
    int s = LM_OK;
    while (s == LM_OK && !is_at(p, '"')) {
        uint32_t c;
        s = p->at == p->end ? fail_at(p, from, "the quote is not closed") : read_char(p, &c);
        if (s == LM_OK)
            lm_buf_rune(&text, c);
    }
    p->at++;
    if (s == LM_OK) {
        const char *copy = lm_arena_copy(&p->tree.arena, text.data, text.len);
        const bool room = copy && !text.failed && ++p->n_nodes <= LM_GRAMMAR_ITEMS;
        *out = room ? lm_node_literal(&p->tree, copy, text.len) : NULL;
        s = *out ? LM_OK : nomem(p);
    }
    lm_buf_release(&text);
    return s;
}

static int read_set(struct parser *p, struct lm_node **out)
{
    const char *from = p->at++;
    struct lm_node *node = *out = new_node(p, LM_NODE_SET);
    if (!node)
        return nomem(p);
    if (is_at(p, '^')) {
        node->negated = true;
        p->at++;
    }
    while (!is_at(p, ']')) {
        uint32_t lo, hi;
        if (p->at == p->end)
            return fail_at(p, from, "the set is not closed");
        const char *first = p->at;
        int s = read_char(p, &lo);
        hi = lo;
        if (s == LM_OK && is_at(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            s = read_char(p, &hi);
        }
        if (s < 0)
            return s;
        if (hi < lo)
            return fail_at(p, first, "the range ends before it begins");
        if (!lm_node_add_range(&p->tree, node, lo, hi))
            return nomem(p);
    }
    if (node->n == 0)
        return fail_at(p, from, "the set is empty");
    p->at++;
    return lm_node_finish_set(&p->tree, node) ? LM_OK : nomem(p);
}

/* The id of the token whose text is <text>, angle brackets included. */
static int find_token(struct parser *p, const char *from, uint32_t *id)
{
    const size_t len = (size_t)(p->at - from);
    int32_t found = -1;
    if (!p->vocab)
        return fail_at(p, from, "a token by its text needs the vocabulary");
    for (uint32_t i = 0; i < lm_vocab_n(p->vocab); i++) {
        const struct lm_str piece = lm_vocab_piece(p->vocab, i);
        if (piece.len != len || memcmp(piece.p, from, len))
            continue;
        if (found >= 0)
            return fail_at(p, from, "more than one token has this text");
        found = (int32_t)i;
    }
    *id = (uint32_t)found;
    return found >= 0 ? LM_OK : fail_at(p, from, "no token has this text");
}

static int read_token(struct parser *p, struct lm_node **out)
{
    const char *from = p->at;
    struct lm_node *node = *out = new_node(p, LM_NODE_TOKEN);
    if (!node)
        return nomem(p);
    if (is_at(p, '!')) {
        node->negated = true;
        from = ++p->at;
    }
    if (!is_at(p, '<'))
        return fail_at(p, from, "a token is expected after !");
    const bool number = p->at + 1 < p->end && p->at[1] == '[';
    while (p->at < p->end && *p->at != '>' && *p->at != '\n' && *p->at != '\r')
        p->at++;
    if (!is_at(p, '>'))
        return fail_at(p, from, "the token is not closed");
    p->at++;
    if (!number)
        return find_token(p, from, &node->rule);
    uint64_t id = 0;
    const char *c = from + 2;
    while (*c >= '0' && *c <= '9' && id <= INT32_MAX)
        id = id * 10 + (uint64_t)(*c++ - '0');
    if (c == from + 2 || *c != ']' || c + 2 != p->at)
        return fail_at(p, from, "<[id]> is expected");
    if (id > INT32_MAX || (p->vocab && id >= lm_vocab_n(p->vocab)))
        return fail_at(p, from, "the id is outside the vocabulary");
    node->rule = (uint32_t)id;
    return LM_OK;
}

static int read_choices(struct parser *p, struct lm_node **out);

static int read_group(struct parser *p, struct lm_node **out)
{
    const char *from = p->at++;
    if (++p->depth > LM_GRAMMAR_DEPTH)
        return fail_at(p, from, "more than 1000 parentheses in one another");
    skip(p, true);
    int s = read_choices(p, out);
    if (s < 0)
        return s;
    skip(p, true);
    if (!is_at(p, ')'))
        return fail_at(p, p->at < p->end ? p->at : from, p->at < p->end ? ") is expected"
                                                                         : "the ( is not closed");
    p->at++;
    p->depth--;
    return LM_OK;
}

static int read_reference(struct parser *p, struct lm_node **out)
{
    int64_t rule = read_name(p);
    if (rule < 0)
        return (int)rule;
    *out = new_node(p, LM_NODE_RULE);
    if (!*out)
        return nomem(p);
    (*out)->rule = (uint32_t)rule;
    return LM_OK;
}

static int read_any(struct parser *p, struct lm_node **out)
{
    p->at++;
    *out = new_node(p, LM_NODE_SET);
    if (!*out)
        return nomem(p);
    (*out)->negated = true;
    return lm_node_finish_set(&p->tree, *out) ? LM_OK : nomem(p);
}

/* A number of a repetition. */
static int read_count(struct parser *p, uint32_t *n)
{
    const char *from = p->at;
    uint64_t v = 0;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9' && v <= INT32_MAX)
        v = v * 10 + (uint64_t)(*p->at++ - '0');
    if (p->at == from)
        return fail_at(p, from, "a number is expected");
    if (v > INT32_MAX)
        return fail_at(p, from, "a repetition counts to 2147483647 at most");
    *n = (uint32_t)v;
    return LM_OK;
}

/* What is between braces: m, m, or m,n. */
static int read_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
    const char *from = p->at++;
    skip(p, false);
    int s = read_count(p, min);
    if (s < 0)
        return s;
    *max = *min;
    skip(p, false);
    if (is_at(p, ',')) {
        p->at++;
        skip(p, false);
        *max = LM_MANY;
        if (!is_at(p, '}') && (s = read_count(p, max)) < 0)
            return s;
        skip(p, false);
    }
    if (!is_at(p, '}'))
        return fail_at(p, p->at, "} is expected");
    p->at++;
    return *max < *min ? fail_at(p, from, "the second number is smaller than the first") : LM_OK;
}

/* Repetitions that follow an item. */
static int read_repeats(struct parser *p, struct lm_node **node)
{
    for (int n = 0;; n++) {
        skip(p, false);
        if (n > LM_GRAMMAR_DEPTH)
            return fail_at(p, p->at, "more than 1000 repetitions of one another");
        const char c = p->at < p->end ? *p->at : 0;
        uint32_t min = c == '+', max = c == '?' ? 1 : LM_MANY;
        if (c == '{') {
            int s = read_braces(p, &min, &max);
            if (s < 0)
                return s;
        } else if (c == '*' || c == '+' || c == '?') {
            p->at++;
        } else {
            return LM_OK;
        }
        struct lm_node *repeat = new_node(p, LM_NODE_REPEAT);
        if (!repeat || !lm_node_add(&p->tree, repeat, *node))
            return nomem(p);
        repeat->min = min;
        repeat->max = max;
        *node = repeat;
    }
}

/* One item, or none (*out NULL) where something else begins. */
static int read_item(struct parser *p, struct lm_node **out)
{
    const char c = p->at < p->end ? *p->at : 0;
    *out = NULL;
    switch (c) {
    case '"': return read_literal(p, out);
    case '[': return read_set(p, out);
    case '(': return read_group(p, out);
    case '.': return read_any(p, out);
    case '<':
    case '!': return read_token(p, out);
    case '*': case '+': case '?': case '{':
        return fail_at(p, p->at, "there is nothing to repeat");
    default:
        return is_name_char(c) ? read_reference(p, out) : LM_OK;
    }
}

static int read_sequence(struct parser *p, struct lm_node **out)
{
    *out = new_node(p, LM_NODE_SEQUENCE);
    if (!*out)
        return nomem(p);
    for (;;) {
        struct lm_node *item;
        skip(p, p->depth > 0);
        int s = read_item(p, &item);
        if (s < 0 || !item)
            return s;
        if ((s = read_repeats(p, &item)) < 0)
            return s;
        if (!lm_node_add(&p->tree, *out, item))
            return nomem(p);
    }
}

static int read_choices(struct parser *p, struct lm_node **out)
{
    *out = new_node(p, LM_NODE_CHOICE);
    if (!*out)
        return nomem(p);
    for (;;) {
        struct lm_node *sequence;
        int s = read_sequence(p, &sequence);
        if (s < 0)
            return s;
        if (!lm_node_add(&p->tree, *out, sequence))
            return nomem(p);
        const char *here = p->at;
        skip(p, true);                            /* a line may begin with | */
        if (!is_at(p, '|')) {
            p->at = here;
            return LM_OK;
        }
        p->at++;
        skip(p, true);
    }
}

static int read_rule(struct parser *p)
{
    const char *from = p->at;
    const int64_t rule = read_name(p);
    if (rule < 0)
        return (int)rule;
    skip(p, false);
    if (p->end - p->at < 3 || memcmp(p->at, "::=", 3))
        return fail_at(p, p->at, "::= is expected");
    p->at += 3;
    skip(p, true);
    if (p->tree.rules[rule].node)
        return fail_at(p, from, "the rule is defined twice");
    p->rule = (uint32_t)rule;
    struct lm_node *node;
    int s = read_choices(p, &node);
    if (s < 0)
        return s;
    p->tree.rules[rule].node = node;
    skip(p, false);
    if (p->at < p->end && *p->at != '\n' && *p->at != '\r')
        return fail_at(p, p->at, "neither an item nor the end of the rule");
    return LM_OK;
}

static int read_grammar(struct parser *p)
{
    const size_t len = (size_t)(p->end - p->text);
    if (len > LM_GRAMMAR_TEXT)
        return lm_fail(p->err, LM_EUSE, "the grammar is larger than %d bytes", LM_GRAMMAR_TEXT);
    for (size_t at = 0; at < len;) {
        uint32_t c;
        const int n = lm_utf8_len(p->text + at, len - at, &c);
        if (n <= 0)
            return lm_fail(p->err, LM_EUSE, "byte %zu: not UTF-8", at);
        at += (size_t)n;
    }
    p->at = "root";
    p->end = p->at + 4;
    int64_t root = read_name(p);                  /* number 0, wherever it is defined */
    p->at = p->text;
    p->end = p->text + len;
    if (root < 0)
        return (int)root;
    if (len >= 3 && !memcmp(p->text, LM_GRAMMAR_MARK, 3))
        p->at += 3;
    skip(p, true);
    while (p->at < p->end) {
        int s = read_rule(p);
        if (s < 0)
            return s;
        skip(p, true);
    }
    return p->tree.rules[0].node ? LM_OK : lm_fail(p->err, LM_EUSE, "there is no rule root");
}

struct lm_grammar *lm_grammar_gbnf(const char *text, size_t len, const struct lm_vocab *v,
                                   struct lm_err *err)
{
    struct parser p = { .text = text, .end = text + len, .vocab = v, .err = err };
    struct lm_grammar *g = read_grammar(&p) == LM_OK ? lm_grammar_compile(&p.tree, err) : NULL;
    lm_tree_release(&p.tree);
    free(p.slots);
    return g;
}
