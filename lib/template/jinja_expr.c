/* SPDX-License-Identifier: MIT */
/* The parser of expressions.  Operators bind as in Jinja2: or, and, not, comparison, + -, ~,
 * * / // %, ** (to the left), sign, then postfix and filters. */
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

enum { MAX_DEPTH = 200 };

void lm_jenter(struct jparse *p)
{
    if (++p->depth > MAX_DEPTH)
        lm_jparse_fail(p, p->tok.pos, "tags or expressions nested deeper than %d", MAX_DEPTH);
}

struct jnode *lm_jnode(struct jparse *p, enum jnode_kind kind, struct jpos pos)
{
    struct jnode *n = lm_jparse_alloc(p, sizeof *n);
    n->kind = kind;
    n->pos = pos;
    return n;
}

bool lm_jskip_op(struct jparse *p, const char *op)
{
    if (!lm_jtok_is(&p->tok, JT_OP, op))
        return false;
    lm_jlex_next(p);
    return true;
}

bool lm_jskip_name(struct jparse *p, const char *name)
{
    if (!lm_jtok_is(&p->tok, JT_NAME, name))
        return false;
    lm_jlex_next(p);
    return true;
}

void lm_jexpect_op(struct jparse *p, const char *op)
{
    char buf[64];
    if (!lm_jskip_op(p, op))
        lm_jparse_fail(p, p->tok.pos, "expected token '%s', got '%s'", op,
                       lm_jtok_name(&p->tok, buf));
}

static struct jnode *unary(struct jparse *p, bool with_filter);

static struct jnode *binary(struct jparse *p, enum jop op, struct jpos pos, struct jnode *a,
                            struct jnode *b)
{
    struct jnode *n = lm_jnode(p, JN_BINARY, pos);
    n->op = (int)op;
    n->a = a;
    n->b = b;
    return n;
}

/* Operators of one level that group to the left, tightest level first. */
static const struct {
    const char *text;
    enum jop    op;
    int         level;
} operators[] = {
    { "**", JO_POW, 0 }, { "*", JO_MUL, 1 }, { "/", JO_DIV, 1 }, { "//", JO_FLOORDIV, 1 },
    { "%", JO_MOD, 1 }, { "+", JO_ADD, 3 }, { "-", JO_SUB, 3 },
};

static struct jnode *parse_level(struct jparse *p, int level);

static struct jnode *parse_concat(struct jparse *p)
{
    struct jnode *first = parse_level(p, 1);
    if (!lm_jtok_is(&p->tok, JT_OP, "~"))
        return first;
    struct jnode *n = lm_jnode(p, JN_CONCAT, p->tok.pos), **tail = &first->next;
    n->list = first;
    while (lm_jskip_op(p, "~")) {
        *tail = parse_level(p, 1);
        tail = &(*tail)->next;
    }
    return n;
}

static struct jnode *operand(struct jparse *p, int level)
{
    return level == 0 ? unary(p, true) : level == 3 ? parse_concat(p) : parse_level(p, level - 1);
}

static struct jnode *parse_level(struct jparse *p, int level)
{
    struct jnode *left = operand(p, level);
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        struct jpos pos = p->tok.pos;
        if (operators[i].level != level || !lm_jskip_op(p, operators[i].text))
            continue;
        left = binary(p, operators[i].op, pos, left, operand(p, level));
        i = (size_t)-1;
    }
    return left;
}

static struct jnode *parse_compare(struct jparse *p)
{
    static const struct { const char *text; enum jop op; } ops[] = {
        { "==", JO_EQ }, { "!=", JO_NE }, { "<", JO_LT }, { "<=", JO_LE }, { ">", JO_GT },
        { ">=", JO_GE },
    };
    struct jpos start = p->tok.pos;
    struct jnode *first = parse_level(p, 3), *n = NULL, **tail = NULL;
    for (;;) {
        struct jpos pos = p->tok.pos;
        int op = -1;
        for (size_t i = 0; i < sizeof ops / sizeof *ops && op < 0; i++)
            if (lm_jskip_op(p, ops[i].text))
                op = (int)ops[i].op;
        if (op < 0 && lm_jskip_name(p, "in")) {
            op = JO_IN;
        } else if (op < 0 && lm_jtok_is(&p->tok, JT_NAME, "not") &&
                   lm_jtok_is(lm_jlex_peek(p), JT_NAME, "in")) {
            lm_jlex_next(p);
            lm_jlex_next(p);
            op = JO_NOT_IN;
        }
        if (op < 0)
            return n ? n : first;
        if (!n) {
            n = lm_jnode(p, JN_COMPARE, start);
            n->a = first;
            tail = &n->list;
        }
        *tail = binary(p, (enum jop)op, pos, NULL, parse_level(p, 3));
        tail = &(*tail)->next;
    }
}

static struct jnode *parse_not(struct jparse *p)
{
    struct jpos pos = p->tok.pos;
    if (!lm_jskip_name(p, "not"))
        return parse_compare(p);
    lm_jenter(p);
    struct jnode *n = lm_jnode(p, JN_NOT, pos);
    n->a = parse_not(p);
    p->depth--;
    return n;
}

static struct jnode *parse_and_or(struct jparse *p, bool is_and)
{
    struct jnode *left = is_and ? parse_not(p) : parse_and_or(p, true);
    for (;;) {
        struct jpos pos = p->tok.pos;
        if (!lm_jskip_name(p, is_and ? "and" : "or"))
            return left;
        struct jnode *n = lm_jnode(p, is_and ? JN_AND : JN_OR, pos);
        n->a = left;
        n->b = is_and ? parse_not(p) : parse_and_or(p, true);
        left = n;
    }
}

/* The tree leans to the left under chains such as a + b + c + ...: how deep it got shows
 * only in the evaluator, which has its own limit.  What nests here counts. */
struct jnode *lm_jparse_expr(struct jparse *p, bool with_cond)
{
    lm_jenter(p);
    const uint32_t unknown = p->unknown.pos.line;
    struct jnode *n = parse_and_or(p, false);
    while (with_cond && lm_jtok_is(&p->tok, JT_NAME, "if")) {
        struct jnode *c = lm_jnode(p, JN_COND, p->tok.pos);
        lm_jlex_next(p);
        p->conditions++;
        c->a = n;
        c->b = parse_and_or(p, false);
        if (!unknown)                            /* what is before the "if" may not be taken */
            p->unknown.pos.line = 0;
        if (lm_jskip_name(p, "else"))
            c->c = lm_jparse_expr(p, true);
        p->conditions--;
        n = c;
    }
    p->depth--;
    return n;
}

static struct jnode *constant(struct jparse *p, struct jpos pos, struct jv v)
{
    struct jnode *n = lm_jnode(p, JN_CONST, pos);
    struct jv *copy = lm_jparse_alloc(p, sizeof *copy);
    *copy = v;
    n->value = copy;
    return n;
}

/* A number that int64_t lacks becomes one when it is evaluated: str keeps its digits. */
static struct jnode *number(struct jparse *p)
{
    struct jtoken t = p->tok;
    char *digits = lm_jparse_alloc(p, t.text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < t.text.len; i++)
        if (t.text.p[i] != '_')
            digits[n++] = t.text.p[i];
    lm_jlex_next(p);
    if (t.kind == JT_FLOAT)
        return constant(p, t.pos, lm_jfloat(strtod(digits, NULL)));
    int x = n > 1 ? digits[1] | 32 : 0;
    int base = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
    const char *from = base == 10 ? digits : digits + 2;
    int64_t v = 0;
    for (const char *d = from; *d; d++) {
        int digit = *d <= '9' ? *d - '0' : (*d | 32) - 'a' + 10;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v)) {
            struct jnode *big = lm_jnode(p, JN_CONST, t.pos);
            big->str = (struct jstr){ from, NULL, strlen(from) };
            big->op = base;
            return big;
        }
    }
    return constant(p, t.pos, lm_jint(v));
}

/* Neighbouring literals are one. */
static struct jnode *string(struct jparse *p)
{
    struct jpos pos = p->tok.pos;
    struct jstr *s = lm_jparse_alloc(p, sizeof *s);
    *s = p->tok.text;
    lm_jlex_next(p);
    char *all = NULL;
    for (size_t cap = 0; p->tok.kind == JT_STRING; lm_jlex_next(p)) {
        size_t len = s->len + p->tok.text.len;
        if (!all || len > cap) {
            cap = 2 * len + 1;                   /* doubled, or n literals take n * n bytes */
            all = lm_jparse_alloc(p, cap);
            memcpy(all, s->p, s->len);
            s->p = all;
        }
        memcpy(all + s->len, p->tok.text.p, p->tok.text.len);
        s->len = len;
    }
    return constant(p, pos, (struct jv){ .kind = J_STR, .s = s });
}

static struct jnode *list(struct jparse *p)
{
    struct jnode *n = lm_jnode(p, JN_LIST, p->tok.pos), **tail = &n->list;
    lm_jexpect_op(p, "[");
    while (!lm_jtok_is(&p->tok, JT_OP, "]")) {
        if (n->list) {
            lm_jexpect_op(p, ",");
            if (lm_jtok_is(&p->tok, JT_OP, "]"))
                break;
        }
        *tail = lm_jparse_expr(p, true);
        tail = &(*tail)->next;
    }
    lm_jexpect_op(p, "]");
    return n;
}

static struct jnode *dict(struct jparse *p)
{
    struct jnode *n = lm_jnode(p, JN_DICT, p->tok.pos), **tail = &n->list;
    lm_jexpect_op(p, "{");
    while (!lm_jtok_is(&p->tok, JT_OP, "}")) {
        if (n->list) {
            lm_jexpect_op(p, ",");
            if (lm_jtok_is(&p->tok, JT_OP, "}"))
                break;
        }
        *tail = lm_jparse_expr(p, true);
        lm_jexpect_op(p, ":");
        (*tail)->next = lm_jparse_expr(p, true);
        tail = &(*tail)->next->next;
    }
    lm_jexpect_op(p, "}");
    return n;
}

static struct jnode *name(struct jparse *p)
{
    static const struct { const char *text; const struct jv *v; } words[] = {
        { "true", &lm_jtrue }, { "True", &lm_jtrue }, { "false", &lm_jfalse },
        { "False", &lm_jfalse }, { "none", &lm_jnone }, { "None", &lm_jnone },
    };
    struct jtoken t = p->tok;
    lm_jlex_next(p);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (lm_jstr_is(&t.text, words[i].text))
            return constant(p, t.pos, *words[i].v);
    p->mentions |= lm_jstr_is(&t.text, "caller") ? JM_CALLER
                 : lm_jstr_is(&t.text, "varargs") ? JM_VARARGS
                 : lm_jstr_is(&t.text, "kwargs") ? JM_KWARGS : 0;
    struct jnode *n = lm_jnode(p, JN_NAME, t.pos);
    n->str = t.text;
    return n;
}

static struct jnode *primary(struct jparse *p)
{
    char buf[64];
    switch (p->tok.kind) {
    case JT_NAME:   return name(p);
    case JT_STRING: return string(p);
    case JT_INT: case JT_FLOAT: return number(p);
    default: break;
    }
    if (lm_jtok_is(&p->tok, JT_OP, "["))
        return list(p);
    if (lm_jtok_is(&p->tok, JT_OP, "{"))
        return dict(p);
    if (lm_jskip_op(p, "(")) {
        struct jnode *n = lm_jparse_tuple(p, true, NULL, true);
        lm_jexpect_op(p, ")");
        return n;
    }
    lm_jparse_fail(p, p->tok.pos, "unexpected '%s'", lm_jtok_name(&p->tok, buf));
}

static bool tuple_ends(const struct jparse *p, const char *end)
{
    return p->tok.kind == JT_VAR_END || p->tok.kind == JT_BLOCK_END || p->tok.kind == JT_EOF ||
           lm_jtok_is(&p->tok, JT_OP, ")") || (end && lm_jtok_is(&p->tok, JT_NAME, end));
}

struct jnode *lm_jparse_tuple(struct jparse *p, bool with_cond, const char *end, bool parens)
{
    char buf[64];
    struct jpos pos = p->tok.pos;
    struct jnode *first = NULL, **tail = &first;
    bool comma = false;
    while (!tuple_ends(p, end)) {
        *tail = lm_jparse_expr(p, with_cond);
        tail = &(*tail)->next;
        if (!lm_jskip_op(p, ","))
            break;
        comma = true;
    }
    if (first && !comma)
        return first;
    if (!first && !parens)
        lm_jparse_fail(p, p->tok.pos, "Expected an expression, got '%s'",
                       lm_jtok_name(&p->tok, buf));
    struct jnode *n = lm_jnode(p, JN_TUPLE, pos);
    n->list = first;
    return n;
}

/* One name to assign to; NULL when the token is none. */
static struct jnode *target_name(struct jparse *p, bool with_ns)
{
    char buf[64];
    if (p->tok.kind != JT_NAME)
        lm_jparse_fail(p, p->tok.pos, "expected token 'name', got '%s'",
                       lm_jtok_name(&p->tok, buf));
    static const char *const words[] = {
        "true", "True", "false", "False", "none", "None", NULL
    };
    for (int i = 0; words[i]; i++)
        if (lm_jstr_is(&p->tok.text, words[i]))
            lm_jparse_fail(p, p->tok.pos, "can't assign to '%s'", words[i]);
    struct jnode *n = lm_jnode(p, JN_NAME, p->tok.pos);
    n->str = p->tok.text;
    lm_jlex_next(p);
    if (with_ns && lm_jtok_is(&p->tok, JT_OP, ".")) {
        struct jnode *attr = lm_jnode(p, JN_ATTR, p->tok.pos);
        lm_jlex_next(p);
        if (p->tok.kind != JT_NAME)
            lm_jparse_fail(p, p->tok.pos, "expected token 'name', got '%s'",
                           lm_jtok_name(&p->tok, buf));
        attr->a = n;
        attr->str = p->tok.text;
        lm_jlex_next(p);
        return attr;
    }
    return n;
}

struct jnode *lm_jparse_target(struct jparse *p, bool with_tuple, bool with_ns)
{
    struct jpos pos = p->tok.pos;
    struct jnode *first = NULL, **tail = &first;
    bool comma = false;
    lm_jenter(p);
    while (!first || (with_tuple && !lm_jtok_is(&p->tok, JT_NAME, "in") &&
                      (p->tok.kind == JT_NAME || lm_jtok_is(&p->tok, JT_OP, "(")))) {
        if (lm_jskip_op(p, "(")) {
            *tail = lm_jparse_target(p, true, with_ns);
            lm_jexpect_op(p, ")");
        } else {
            *tail = target_name(p, with_ns);
        }
        tail = &(*tail)->next;
        if (!with_tuple || !lm_jskip_op(p, ","))
            break;
        comma = true;
    }
    p->depth--;
    if (!comma)
        return first;
    struct jnode *n = lm_jnode(p, JN_TUPLE, pos);
    n->list = first;
    return n;
}

/* The arguments of a call, with their brackets. */
static struct jnode *arguments(struct jparse *p)
{
    struct jnode *first = NULL, **tail = &first;
    lm_jexpect_op(p, "(");
    bool named = false;
    while (!lm_jtok_is(&p->tok, JT_OP, ")")) {
        if (first) {
            lm_jexpect_op(p, ",");
            if (lm_jtok_is(&p->tok, JT_OP, ")"))
                break;
        }
        struct jpos pos = p->tok.pos;
        struct jnode *n;
        if (lm_jskip_op(p, "**")) {
            n = lm_jnode(p, JN_STAR2, pos);
            named = true;
        } else if (lm_jskip_op(p, "*")) {
            n = lm_jnode(p, JN_STAR, pos);
        } else if (p->tok.kind == JT_NAME && lm_jtok_is(lm_jlex_peek(p), JT_OP, "=")) {
            n = lm_jnode(p, JN_KEYWORD, pos);
            n->str = p->tok.text;
            lm_jlex_next(p);
            lm_jlex_next(p);
            named = true;
        } else if (named) {
            lm_jparse_fail(p, pos, "invalid syntax for function call expression");
        } else {
            *tail = lm_jparse_expr(p, true);
            tail = &(*tail)->next;
            continue;
        }
        n->a = lm_jparse_expr(p, true);
        *tail = n;
        tail = &n->next;
    }
    lm_jexpect_op(p, ")");
    return first;
}

/* What stands between brackets: an index or a slice. */
static struct jnode *subscript(struct jparse *p, struct jnode *of, struct jpos pos)
{
    struct jnode *part[3] = { NULL, NULL, NULL };
    int n = 0;
    for (;;) {
        if (!lm_jtok_is(&p->tok, JT_OP, ":") && !lm_jtok_is(&p->tok, JT_OP, "]") &&
            !lm_jtok_is(&p->tok, JT_OP, ","))
            part[n] = lm_jparse_expr(p, true);
        if (n == 2 || !lm_jskip_op(p, ":"))
            break;
        n++;
    }
    if (n == 0 && !part[0])
        lm_jparse_fail(p, p->tok.pos, "expected an index");
    struct jnode *node = lm_jnode(p, n ? JN_SLICE : JN_ITEM, pos);
    node->a = of;
    if (!n && lm_jtok_is(&p->tok, JT_OP, ",")) {
        struct jnode *t = lm_jnode(p, JN_TUPLE, pos), **tail = &part[0]->next;
        t->list = part[0];
        while (lm_jskip_op(p, ",") && !lm_jtok_is(&p->tok, JT_OP, "]")) {
            *tail = lm_jparse_expr(p, true);
            tail = &(*tail)->next;
        }
        part[0] = t;
    }
    lm_jexpect_op(p, "]");
    if (!n) {
        node->b = part[0];
        return node;
    }
    node->list = part[0];
    node->b = part[1];
    node->c = part[2];
    return node;
}

static struct jnode *attribute(struct jparse *p, struct jnode *of, struct jpos pos)
{
    char buf[64];
    struct jnode *n;
    if (p->tok.kind == JT_INT) {
        n = lm_jnode(p, JN_ITEM, pos);
        n->b = number(p);
    } else if (p->tok.kind == JT_NAME) {
        n = lm_jnode(p, JN_ATTR, pos);
        n->str = p->tok.text;
        lm_jlex_next(p);
    } else {
        lm_jparse_fail(p, p->tok.pos, "expected name or number, got '%s'",
                       lm_jtok_name(&p->tok, buf));
    }
    n->a = of;
    return n;
}

static struct jnode *call(struct jparse *p, struct jnode *of)
{
    struct jnode *n = lm_jnode(p, JN_CALL, p->tok.pos);
    n->a = of;
    n->list = arguments(p);
    return n;
}

static struct jnode *postfix(struct jparse *p, struct jnode *n)
{
    for (;;) {
        struct jpos pos = p->tok.pos;
        if (lm_jtok_is(&p->tok, JT_OP, "("))
            n = call(p, n);
        else if (lm_jskip_op(p, "."))
            n = attribute(p, n, pos);
        else if (lm_jskip_op(p, "["))
            n = subscript(p, n, pos);
        else
            return n;
    }
}

/* The name of a filter or test, which may have dots in it. */
static struct jstr dotted(struct jparse *p)
{
    char buf[64];
    struct jstr s = p->tok.text;
    for (;;) {
        if (p->tok.kind != JT_NAME)
            lm_jparse_fail(p, p->tok.pos, "expected token 'name', got '%s'",
                           lm_jtok_name(&p->tok, buf));
        s.len = (size_t)(p->tok.text.p + p->tok.text.len - s.p);
        lm_jlex_next(p);
        if (!lm_jskip_op(p, "."))
            return s;
    }
}

/* In a branch that may not be taken, an unknown name is an error only when it is. */
static void check_name(struct jparse *p, struct jpos pos, bool known, const char *what,
                       const struct jstr *s)
{
    if (!known && !p->conditions && !p->unknown.pos.line) {
        p->unknown.pos = pos;
        p->unknown.what = what;
        p->unknown.name = *s;
    }
}

static struct jnode *test(struct jparse *p, struct jnode *operand_)
{
    struct jnode *n = lm_jnode(p, JN_TEST, p->tok.pos);
    n->op = lm_jskip_name(p, "not");
    struct jpos pos = p->tok.pos;
    n->a = operand_;
    n->str = dotted(p);
    check_name(p, pos, lm_jtest_find(&n->str), "test", &n->str);
    const struct jtoken *t = &p->tok;
    if (lm_jtok_is(t, JT_OP, "(")) {
        n->list = arguments(p);
    } else if (t->kind == JT_STRING || t->kind == JT_INT || t->kind == JT_FLOAT ||
               lm_jtok_is(t, JT_OP, "[") || lm_jtok_is(t, JT_OP, "{") ||
               (t->kind == JT_NAME && !lm_jtok_is(t, JT_NAME, "else") &&
                !lm_jtok_is(t, JT_NAME, "or") && !lm_jtok_is(t, JT_NAME, "and"))) {
        if (lm_jtok_is(t, JT_NAME, "is"))
            lm_jparse_fail(p, t->pos, "You cannot chain multiple tests with is");
        n->list = postfix(p, primary(p));
    }
    return n;
}

struct jnode *lm_jparse_filters(struct jparse *p, struct jnode *n, bool start_inline)
{
    for (;;) {
        struct jpos pos = p->tok.pos;
        if (start_inline || lm_jskip_op(p, "|")) {
            struct jnode *f = lm_jnode(p, JN_FILTER, pos);
            pos = p->tok.pos;
            f->a = n;
            f->str = dotted(p);
            check_name(p, pos, lm_jfilter_find(&f->str), "filter", &f->str);
            if (lm_jtok_is(&p->tok, JT_OP, "("))
                f->list = arguments(p);
            n = f;
            start_inline = false;
        } else if (n && lm_jskip_name(p, "is")) {
            n = test(p, n);
        } else if (n && lm_jtok_is(&p->tok, JT_OP, "(")) {
            n = call(p, n);
        } else {
            return n;
        }
    }
}

static struct jnode *unary(struct jparse *p, bool with_filter)
{
    struct jpos pos = p->tok.pos;
    struct jnode *n;
    bool neg = lm_jtok_is(&p->tok, JT_OP, "-");
    lm_jenter(p);
    if (neg || lm_jtok_is(&p->tok, JT_OP, "+")) {
        lm_jlex_next(p);
        n = lm_jnode(p, JN_UNARY, pos);
        n->op = neg ? JO_NEG : JO_POS;
        n->a = unary(p, false);
    } else {
        n = primary(p);
    }
    n = postfix(p, n);
    p->depth--;
    return with_filter ? lm_jparse_filters(p, n, false) : n;
}
