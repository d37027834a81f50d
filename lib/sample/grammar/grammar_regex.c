/* SPDX-License-Identifier: MIT */
/* Regular expressions: ECMAScript's with flag u, as far as they are regular. */
#include <string.h>

#include "base/buf.h"
#include "sample/grammar/grammar_parts.h"

#define TOP     0x10FFFF
#define NO_CHAR UINT32_MAX           /* a class escape, not a character */

struct parser {
    const char     *text, *at, *end;
    struct lm_tree *tree;
    int             depth;           /* of groups                        */
    bool            anchored;        /* there is a ^ or $                */
    struct { const char *p; size_t len; } names[100];
    size_t          n_names;
    size_t          n_nodes;         /* made, or read once more for a ^  */
    struct lm_err  *err;
};

static int fail_at(struct parser *p, const char *at, const char *what)
{
    size_t column = 1;
    for (const char *c = p->text; c < at; c++)
        column += (*c & 0xC0) != 0x80;
    return lm_fail(p->err, LM_EUSE, "character %zu: %s", column, what);
}

static bool too_many(const struct parser *p)
{
    return p->n_nodes > LM_GRAMMAR_ITEMS;
}

/* Why there is no node. */
static int nomem(struct parser *p)
{
    return too_many(p) ? lm_fail(p->err, LM_EUSE, "the expression has more than %d items",
                                 LM_GRAMMAR_ITEMS) : lm_fail_nomem(p->err);
}

static bool is_at(const struct parser *p, char c)
{
    return p->at < p->end && *p->at == c;
}

static bool starts(const struct parser *p, const char *with)
{
    const size_t n = strlen(with);
    return (size_t)(p->end - p->at) >= n && !memcmp(p->at, with, n);
}

static struct lm_node *new_node(struct parser *p, enum lm_node_kind kind)
{
    p->n_nodes++;
    return too_many(p) ? NULL : lm_node_new(p->tree, kind);
}

/* ---- characters and classes ---- */

static const struct lm_range digits[] = { { '0', '9' } };
static const struct lm_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
static const struct lm_range blanks[] = {
    { 0x09, 0x0D }, { 0x20, 0x20 }, { 0xA0, 0xA0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200A },
    { 0x2028, 0x2029 }, { 0x202F, 0x202F }, { 0x205F, 0x205F }, { 0x3000, 0x3000 },
    { 0xFEFF, 0xFEFF },
};
static const struct lm_range newlines[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };

static const struct class {
    char                   lower;
    const struct lm_range *ranges;
    size_t                 n;
} classes[] = {
    { 'd', digits, 1 }, { 'w', words, 4 }, { 's', blanks, sizeof blanks / sizeof *blanks },
};

/* Add ranges, or all but these, to a set. */
static bool add_ranges(struct parser *p, struct lm_node *set, const struct lm_range *r, size_t n,
                       bool others)
{
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (!others && !lm_node_add_range(p->tree, set, r[i].lo, r[i].hi))
            return false;
        if (others && r[i].lo > from && !lm_node_add_range(p->tree, set, from, r[i].lo - 1))
            return false;
        from = r[i].hi + 1;
    }
    return !others || lm_node_add_range(p->tree, set, from, TOP);
}

/* So many hexadecimal digits; false where they are not. */
static bool read_digits(struct parser *p, int n, uint32_t *c)
{
    *c = 0;
    for (int i = 0; i < n; i++) {
        const int d = p->at < p->end ? lm_hex_digit(*p->at) : -1;
        if (d < 0)
            return false;
        *c = *c << 4 | (uint32_t)d;
        p->at++;
    }
    return true;
}

/* What follows \u: four digits, a pair of surrogates, or any number in braces. */
static int read_unicode(struct parser *p, const char *from, uint32_t *c)
{
    if (is_at(p, '{')) {
        uint64_t v = 0;
        const char *first = ++p->at;
        while (p->at < p->end && lm_hex_digit(*p->at) >= 0 && v <= TOP)
            v = v << 4 | (unsigned)lm_hex_digit(*p->at++);
        if (p->at == first || v > TOP || !is_at(p, '}'))
            return fail_at(p, from, "\\u{...} is no character");
        p->at++;
        *c = (uint32_t)v;
        return LM_OK;
    }
    if (!read_digits(p, 4, c))
        return fail_at(p, from, "\\u needs 4 hexadecimal digits or braces");
    if (*c >= 0xD800 && *c <= 0xDBFF && starts(p, "\\u")) {
        const char *back = p->at;
        uint32_t low;
        p->at += 2;
        if (read_digits(p, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
            *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        else
            p->at = back;
    }
    return LM_OK;
}

/*
 * What follows a backslash: a character into *c, or a class that is added to set (*c NO_CHAR).
 * What only sets may escape, and what only stands outside, is the caller's.
 */
static int read_escape(struct parser *p, bool in_set, struct lm_node *set, uint32_t *c)
{
    static const char named[] = "tnvfr", values[] = "\t\n\v\f\r";
    const char *from = p->at - 1;
    if (p->at == p->end)
        return fail_at(p, from, "the expression ends in a backslash");
    const char e = *p->at++;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (e == classes[i].lower || e == classes[i].lower - 32) {
            *c = NO_CHAR;
            return add_ranges(p, set, classes[i].ranges, classes[i].n, e != classes[i].lower) ?
                   LM_OK : nomem(p);
        }
    const char *known = e ? strchr(named, e) : NULL;
    if (known) {
        *c = (unsigned char)values[known - named];
    } else if (e == '0' && !(p->at < p->end && *p->at >= '0' && *p->at <= '9')) {
        *c = 0;
    } else if (e == 'c' && p->at < p->end &&
               ((*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z'))) {
        *c = (unsigned char)*p->at++ % 32;
    } else if (e == 'x') {
        return read_digits(p, 2, c) ? LM_OK : fail_at(p, from, "\\x needs 2 hexadecimal digits");
    } else if (e == 'u') {
        return read_unicode(p, from, c);
    } else if (e && strchr("^$\\.*+?()[]{}|/", e)) {
        *c = (unsigned char)e;
    } else if (in_set && e == '-') {
        *c = '-';
    } else if (in_set && e == 'b') {
        *c = '\b';
    } else if (e == 'p' || e == 'P') {
        return fail_at(p, from, "\\p and \\P are not supported");
    } else if (!in_set && (e == 'b' || e == 'B')) {
        return fail_at(p, from, "\\b and \\B are not supported");
    } else if (e == 'k' || (e >= '1' && e <= '9')) {
        return fail_at(p, from, "references to groups are not regular");
    } else {
        return fail_at(p, from, "unknown escape");
    }
    return LM_OK;
}

/* One character as it stands. */
static int read_plain(struct parser *p, uint32_t *c)
{
    const int n = lm_utf8_len(p->at, (size_t)(p->end - p->at), c);
    if (n <= 0)
        return fail_at(p, p->at, "not UTF-8");
    p->at += n;
    return LM_OK;
}

/* A character or class of a set. */
static int read_member(struct parser *p, struct lm_node *set, uint32_t *c)
{
    if (!is_at(p, '\\'))
        return read_plain(p, c);
    p->at++;
    return read_escape(p, true, set, c);
}

static int read_set(struct parser *p, struct lm_node **out)
{
    const char *from = p->at++;
    struct lm_node *set = *out = new_node(p, LM_NODE_SET);
    if (!set)
        return nomem(p);
    if (is_at(p, '^')) {
        set->negated = true;
        p->at++;
    }
    while (!is_at(p, ']')) {
        uint32_t lo, hi;
        if (p->at == p->end)
            return fail_at(p, from, "the set is not closed");
        const char *first = p->at;
        int s = read_member(p, set, &lo);
        if (s < 0)
            return s;
        hi = lo;
        if (is_at(p, '-') && p->at + 1 < p->end && p->at[1] != ']') {
            p->at++;
            if ((s = read_member(p, set, &hi)) < 0)
                return s;
            if (lo == NO_CHAR || hi == NO_CHAR)
                return fail_at(p, first, "a class is no end of a range");
        }
        if (lo != NO_CHAR && hi < lo)
            return fail_at(p, first, "the range ends before it begins");
        if (lo != NO_CHAR && !lm_node_add_range(p->tree, set, lo, hi))
            return nomem(p);
    }
    p->at++;
    return lm_node_finish_set(p->tree, set) ? LM_OK : nomem(p);
}

/* ---- structure ---- */

static int read_choices(struct parser *p, struct lm_node **out);

/* The name of a group, after (?< */
static int read_group_name(struct parser *p)
{
    const char *from = p->at;
    while (p->at < p->end && *p->at != '>' && *p->at != ')')
        p->at++;
    const size_t len = (size_t)(p->at - from);
    if (len == 0 || !is_at(p, '>'))
        return fail_at(p, from, "the group's name is not closed");
    for (size_t i = 0; i < p->n_names; i++)
        if (p->names[i].len == len && !memcmp(p->names[i].p, from, len))
            return fail_at(p, from, "two groups have this name");
    if (p->n_names == sizeof p->names / sizeof *p->names)
        return fail_at(p, from, "more than 100 named groups");
    p->names[p->n_names].p = from;
    p->names[p->n_names++].len = len;
    p->at++;
    return LM_OK;
}

static int read_group(struct parser *p, struct lm_node **out)
{
    const char *from = p->at++;
    int s = LM_OK;
    if (++p->depth > LM_GRAMMAR_DEPTH)
        return fail_at(p, from, "more than 1000 groups in one another");
    if (starts(p, "?:"))
        p->at += 2;
    else if (starts(p, "?=") || starts(p, "?!") || starts(p, "?<=") || starts(p, "?<!"))
        return fail_at(p, from, "looking ahead or behind is not supported");
    else if (starts(p, "?<")) {
        p->at += 2;
        s = read_group_name(p);
    } else if (is_at(p, '?'))
        return fail_at(p, from, "unknown kind of group");
    if (s == LM_OK)
        s = read_choices(p, out);
    if (s < 0)
        return s;
    if (!is_at(p, ')'))
        return fail_at(p, from, "the group is not closed");
    p->at++;
    p->depth--;
    return LM_OK;
}

static int one_range(struct parser *p, struct lm_node **out, const struct lm_range *r, size_t n,
                     bool others)
{
    struct lm_node *set = *out = new_node(p, LM_NODE_SET);
    return set && add_ranges(p, set, r, n, others) && lm_node_finish_set(p->tree, set) ? LM_OK
                                                                                      : nomem(p);
}

/* A single thing that may be repeated, or an anchor, which may not. */
static int read_atom(struct parser *p, struct lm_node **out)
{
    uint32_t c;
    int s;
    switch (*p->at) {
    case '(': return read_group(p, out);
    case '[': return read_set(p, out);
    case '.':
        p->at++;
        return one_range(p, out, newlines, 3, true);
    case '^':
    case '$':
        p->anchored = true;
        *out = new_node(p, *p->at == '^' ? LM_NODE_START : LM_NODE_END);
        p->at++;
        return *out ? LM_OK : nomem(p);
    case '*': case '+': case '?':
        return fail_at(p, p->at, "there is nothing to repeat");
    case '{': case '}': case ']':
        return fail_at(p, p->at, "this character needs a backslash");
    case '\\': {
        struct lm_node *set = *out = new_node(p, LM_NODE_SET);
        if (!set)
            return nomem(p);
        p->at++;
        if ((s = read_escape(p, false, set, &c)) < 0)
            return s;
        if (c != NO_CHAR && !lm_node_add_range(p->tree, set, c, c))
            return nomem(p);
        return lm_node_finish_set(p->tree, set) ? LM_OK : nomem(p);
    }
    default:
        if ((s = read_plain(p, &c)) < 0)
            return s;
        return one_range(p, out, &(struct lm_range){ c, c }, 1, false);
    }
}

static int read_count(struct parser *p, uint32_t *n)
{
    const char *from = p->at;
    uint64_t v = 0;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9' && v <= INT32_MAX)
        v = v * 10 + (uint64_t)(*p->at++ - '0');
    if (p->at == from || v > INT32_MAX)
        return fail_at(p, from, p->at == from ? "a number is expected" :
                       "a repetition counts to 2147483647 at most");
    *n = (uint32_t)v;
    return LM_OK;
}

/* A repetition, if one follows: *found says so. */
static int read_repeat(struct parser *p, bool *found, uint32_t *min, uint32_t *max)
{
    const char *from = p->at, c = p->at < p->end ? *p->at : 0;
    int s = LM_OK;
    *found = c == '*' || c == '+' || c == '?' || c == '{';
    if (!*found)
        return LM_OK;
    p->at++;
    *min = c == '+';
    *max = c == '?' ? 1 : LM_MANY;
    if (c == '{') {
        s = read_count(p, min);
        *max = *min;
        if (s == LM_OK && is_at(p, ',')) {
            p->at++;
            *max = LM_MANY;
            if (!is_at(p, '}'))
                s = read_count(p, max);
        }
        if (s == LM_OK && !is_at(p, '}'))
            return fail_at(p, p->at, "} is expected");
        if (s < 0)
            return s;
        p->at++;
        if (*max < *min)
            return fail_at(p, from, "the second number is smaller than the first");
    }
    if (is_at(p, '?'))                            /* lazy: the same texts */
        p->at++;
    return LM_OK;
}

/* Characters that stand for themselves, but for one that a repetition follows, as a literal; NULL
 * with LM_OK: the next one is another thing. */
static int read_run(struct parser *p, struct lm_node **out)
{
    static const char special[] = "^$\\.*+?()[]{}|", repeats[] = "*+?{";
    const char *from = p->at, *at = from;
    uint32_t c;
    int n;
    *out = NULL;
    while (at < p->end && !memchr(special, *at, sizeof special - 1) &&
           (n = lm_utf8_len(at, (size_t)(p->end - at), &c)) > 0 &&
           !(at + n < p->end && memchr(repeats, at[n], sizeof repeats - 1)))
        at += n;
    if (at == from)
        return LM_OK;
    p->at = at;
    p->n_nodes++;
    *out = too_many(p) ? NULL : lm_node_literal(p->tree, from, (size_t)(at - from));
    return *out ? LM_OK : nomem(p);
}

static int read_sequence(struct parser *p, struct lm_node **out)
{
    struct lm_node *sequence = *out = new_node(p, LM_NODE_SEQUENCE);
    if (!sequence)
        return nomem(p);
    while (p->at < p->end && *p->at != '|' && *p->at != ')') {
        struct lm_node *atom;
        uint32_t min, max;
        bool repeated = false;
        const char *from = p->at;
        int s = read_run(p, &atom);
        if (s == LM_OK && !atom)
            s = read_atom(p, &atom);
        if (s == LM_OK)
            s = read_repeat(p, &repeated, &min, &max);
        if (s < 0)
            return s;
        if (repeated) {
            struct lm_node *repeat = new_node(p, LM_NODE_REPEAT);
            if (atom->kind == LM_NODE_START || atom->kind == LM_NODE_END)
                return fail_at(p, from, "an anchor cannot be repeated");
            if (!repeat || !lm_node_add(p->tree, repeat, atom))
                return nomem(p);
            repeat->min = min;
            repeat->max = max;
            atom = repeat;
        }
        if (!lm_node_add(p->tree, sequence, atom))
            return nomem(p);
    }
    return LM_OK;
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
        if (!lm_node_add(p->tree, *out, sequence))
            return nomem(p);
        if (!is_at(p, '|'))
            return LM_OK;
        p->at++;
    }
}

/* ---- the start anchor ---- */

/*
 * A ^ holds where nothing has been read yet.  Three readings of a node tell this without memory:
 * at the start; not there, where ^ matches nothing; and at the start by the empty text.
 */
enum reading { AT_START, LATER, EMPTY_AT_START };

static struct lm_node *reading_of(struct parser *p, struct lm_node *node, enum reading how);

/* Is it some characters, that is, none below it and never the empty text? */
static bool is_text(const struct lm_node *node)
{
    return node->kind == LM_NODE_SET || node->kind == LM_NODE_LITERAL;
}

/* Of a sequence at the start, the first `empty` nodes are empty and the next one begins the text,
 * for every number of these. */
static struct lm_node *sequence_at_start(struct parser *p, const struct lm_node *node)
{
    struct lm_node *choice = new_node(p, LM_NODE_CHOICE);
    for (size_t first = 0; choice && (first < node->n || first == 0); first++) {
        struct lm_node *way = new_node(p, LM_NODE_SEQUENCE);
        for (size_t i = 0; way && i < node->n; i++) {
            const enum reading how = i < first ? EMPTY_AT_START : i == first ? AT_START : LATER;
            if (!lm_node_add(p->tree, way, reading_of(p, node->nodes[i], how)))
                return NULL;
        }
        if (!lm_node_add(p->tree, choice, way))
            return NULL;
        if (node->n && is_text(node->nodes[first]))   /* which is never empty */
            break;
    }
    return choice;
}

/* The first round begins the text, the others come later. */
static struct lm_node *repeat_at_start(struct parser *p, struct lm_node *node)
{
    struct lm_node *choice = new_node(p, LM_NODE_CHOICE), *way = new_node(p, LM_NODE_SEQUENCE);
    struct lm_node *rest = new_node(p, LM_NODE_REPEAT);
    if (!choice || !way || !rest)
        return NULL;
    rest->min = node->min > 1 ? node->min - 1 : 0;
    rest->max = node->max == LM_MANY ? LM_MANY : node->max ? node->max - 1 : 0;
    struct lm_node *none = reading_of(p, node, EMPTY_AT_START);
    if (!lm_node_add(p->tree, choice, none))
        return NULL;
    if (node->max == 0)
        return choice;
    return lm_node_add(p->tree, rest, reading_of(p, node->nodes[0], LATER)) &&
           lm_node_add(p->tree, way, reading_of(p, node->nodes[0], AT_START)) &&
           lm_node_add(p->tree, way, rest) && lm_node_add(p->tree, choice, way) ? choice : NULL;
}

static struct lm_node *reading_of(struct parser *p, struct lm_node *node, enum reading how)
{
    if (node->kind == LM_NODE_START)              /* the empty text, or nothing */
        return new_node(p, how == LATER ? LM_NODE_CHOICE : LM_NODE_SEQUENCE);
    if (is_text(node) && how == EMPTY_AT_START)
        return new_node(p, LM_NODE_CHOICE);
    if (is_text(node)) {
        p->n_nodes++;
        return too_many(p) ? NULL : node;
    }
    if (node->kind == LM_NODE_SEQUENCE && how == AT_START && node->n)
        return sequence_at_start(p, node);
    if (node->kind == LM_NODE_REPEAT && how == AT_START)
        return repeat_at_start(p, node);
    if (node->kind == LM_NODE_REPEAT && how == EMPTY_AT_START && node->min == 0)
        return new_node(p, LM_NODE_SEQUENCE);
    if (node->kind == LM_NODE_REPEAT && how == EMPTY_AT_START)
        return reading_of(p, node->nodes[0], how);
    struct lm_node *copy = new_node(p, node->kind);
    if (!copy)
        return NULL;
    *copy = *node;
    if (!lm_node_has_nodes(node))
        return copy;
    copy->nodes = NULL;
    copy->n = copy->cap = 0;
    for (size_t i = 0; i < node->n; i++)
        if (!lm_node_add(p->tree, copy, reading_of(p, node->nodes[i], how)))
            return NULL;
    return copy;
}

/* The node with any text before and behind it. */
static struct lm_node *anywhere(struct parser *p, struct lm_node *node)
{
    struct lm_node *around = new_node(p, LM_NODE_SEQUENCE);
    for (int i = 0; around && i < 3; i++) {
        struct lm_node *any = new_node(p, LM_NODE_REPEAT), *one;
        if (i != 1 && (!any || one_range(p, &one, NULL, 0, true) < 0 ||
                       !lm_node_add(p->tree, any, one)))
            return NULL;
        if (i != 1)
            any->max = LM_MANY;
        if (!lm_node_add(p->tree, around, i == 1 ? node : any))
            return NULL;
    }
    return around;
}

int lm_regex_read(const char *text, size_t len, bool search, struct lm_tree *t,
                  struct lm_node **out, struct lm_err *err)
{
    struct parser p = { .text = text, .at = text, .end = text + len, .tree = t, .err = err };
    if (len > LM_GRAMMAR_TEXT)
        return lm_fail(err, LM_EUSE, "the expression is larger than %d bytes", LM_GRAMMAR_TEXT);
    int s = read_choices(&p, out);
    if (s == LM_OK && p.at < p.end)
        s = fail_at(&p, p.at, "a ) that closes nothing");
    if (s == LM_OK && search && !(*out = anywhere(&p, *out)))
        return nomem(&p);
    if (s == LM_OK && p.anchored && !(*out = reading_of(&p, *out, AT_START)))
        s = nomem(&p);
    return s;
}

struct lm_grammar *lm_grammar_regex(const char *text, size_t len, struct lm_err *err)
{
    struct lm_tree t = { 0 };
    struct lm_node *node;
    struct lm_grammar *g = NULL;
    if (lm_regex_read(text, len, false, &t, &node, err) == LM_OK &&
        lm_tree_add_rule(&t, "the expression", node, err) == LM_OK)
        g = lm_grammar_compile(&t, err);
    lm_tree_release(&t);
    return g;
}
