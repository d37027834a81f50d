/* SPDX-License-Identifier: MIT */
/* Operators, and what stands behind a dot or in brackets. */
#include <math.h>
#include <string.h>

#include "template/jinja.h"

static const char *const op_text[] = {
    [JO_ADD] = "+", [JO_SUB] = "-", [JO_MUL] = "*", [JO_DIV] = "/", [JO_FLOORDIV] = "//",
    [JO_MOD] = "%", [JO_POW] = "** or pow()", [JO_EQ] = "==", [JO_NE] = "!=", [JO_LT] = "<",
    [JO_LE] = "<=", [JO_GT] = ">", [JO_GE] = ">=", [JO_IN] = "in", [JO_NOT_IN] = "not in",
    [JO_POS] = "+", [JO_NEG] = "-",
};

static int64_t int_of(struct jv v)
{
    return v.kind == J_BOOL ? v.b : v.i;
}

/* x ** n by squaring; false when it does not fit. */
static bool int_power(int64_t x, int64_t n, int64_t *out)
{
    int64_t p = 1;
    while (n > 0) {
        if (n & 1 && __builtin_mul_overflow(p, x, &p))
            return false;
        n >>= 1;
        if (n && __builtin_mul_overflow(x, x, &x))
            return false;
    }
    *out = p;
    return true;
}

/* Both are whole numbers, and the result is one. */
static struct jv int_op(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    if (a.kind == J_BIG || b.kind == J_BIG)
        return lm_jbig_op(r, op, a, b);
    int64_t x = int_of(a), y = int_of(b), z = 0;
    bool fits = true;
    if ((op == JO_FLOORDIV || op == JO_MOD) && y == 0)
        lm_jfail(r, "integer division or modulo by zero");
    if ((op == JO_FLOORDIV || op == JO_MOD) && x == INT64_MIN && y == -1)
        return lm_jbig_op(r, op, a, b);
    switch (op) {
    case JO_ADD: fits = !__builtin_add_overflow(x, y, &z); break;
    case JO_SUB: fits = !__builtin_sub_overflow(x, y, &z); break;
    case JO_MUL: fits = !__builtin_mul_overflow(x, y, &z); break;
    case JO_FLOORDIV: z = x / y - (x % y != 0 && (x % y < 0) != (y < 0)); break;
    case JO_MOD: z = x % y + (x % y != 0 && (x % y < 0) != (y < 0) ? y : 0); break;
    default: fits = int_power(x, y, &z);
    }
    return fits ? lm_jint(z) : lm_jbig_op(r, op, a, b);
}

static struct jv float_op(struct jrun *r, enum jop op, double x, double y)
{
    if ((op == JO_DIV || op == JO_FLOORDIV || op == JO_MOD) && y == 0)
        lm_jfail(r, op == JO_DIV ? "division by zero" : op == JO_MOD ? "float modulo"
                                                      : "float floor division by zero");
    double m;
    switch (op) {
    case JO_ADD: return lm_jfloat(x + y);
    case JO_SUB: return lm_jfloat(x - y);
    case JO_MUL: return lm_jfloat(x * y);
    case JO_DIV: return lm_jfloat(x / y);
    case JO_POW:
        if (x == 0 && y < 0)
            lm_jfail(r, "0.0 cannot be raised to a negative power");
        if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
            lm_junsupported(r, "a complex number");
        m = pow(x, y);
        if (isinf(m) && isfinite(x) && isfinite(y))
            lm_jfail(r, "(34, 'Numerical result out of range')");
        return lm_jfloat(m);
    default:
        m = fmod(x, y);
        if (m != 0 && (m < 0) != (y < 0))
            m += y;
        else if (m == 0)
            m = copysign(0, y);
        if (op == JO_MOD)
            return lm_jfloat(m);
        double q = (x - m) / y, down = floor(q);
        return lm_jfloat(q - down > 0.5 ? down + 1 : q == 0 ? copysign(0, x / y) : down);
    }
}

static struct jv arithmetic(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    bool whole = a.kind != J_FLOAT && b.kind != J_FLOAT;
    bool inverse = op == JO_POW && whole && b.kind != J_BIG && int_of(b) < 0;
    if (whole && op != JO_DIV && !inverse)
        return int_op(r, op, a, b);
    return float_op(r, op, lm_jnumber(r, a), lm_jnumber(r, b));
}

static struct jv concat(struct jrun *r, struct jv a, struct jv b)
{
    if (a.kind == J_STR) {
        struct jsb s = JSB(r);
        lm_jsb_str(&s, a.s);
        if (b.kind == J_STR && a.sub && !b.sub)
            lm_jescape(&s, b.s);
        else
            lm_jsb_str(&s, b.s);
        struct jv v = lm_jsb_value(&s);
        v.sub = a.sub || b.sub;
        return v;
    }
    struct jv l = lm_jlist(r, a.kind);
    l.l->v = lm_jalloc(r, a.l->n + b.l->n, sizeof *l.l->v);
    if (a.l->n)
        memcpy(l.l->v, a.l->v, a.l->n * sizeof *l.l->v);
    if (b.l->n)
        memcpy(l.l->v + a.l->n, b.l->v, b.l->n * sizeof *l.l->v);
    l.l->n = l.l->cap = a.l->n + b.l->n;
    lm_jstep(r, l.l->n);
    return l;
}

static struct jv repeat(struct jrun *r, struct jv a, int64_t n)
{
    if (a.kind == J_STR) {
        struct jsb s = JSB(r);
        lm_jsb_fill(&s, a.s, 0, a.s->len, n);
        struct jv v = lm_jsb_value(&s);
        v.sub = a.sub;
        return v;
    }
    struct jv l = lm_jlist(r, a.kind);
    for (int64_t i = 0; i < n && a.l->n; i++) {
        lm_jstep(r, a.l->n);
        for (size_t k = 0; k < a.l->n; k++)
            lm_jpush(r, l.l, a.l->v[k]);
    }
    return l;
}

static bool is_sequence(struct jv v)
{
    return v.kind == J_STR || v.kind == J_LIST || v.kind == J_TUPLE;
}

static bool is_count(struct jv v)
{
    return v.kind == J_INT || v.kind == J_BOOL || v.kind == J_BIG;
}

static struct jv order(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    int c = lm_jorder(r, a, b, op_text[op]);
    switch (op) {
    case JO_LT: return lm_jbool(c == -1);
    case JO_LE: return lm_jbool(c == -1 || c == 0);
    case JO_GT: return lm_jbool(c == 1);
    default:    return lm_jbool(c == 1 || c == 0);
    }
}

struct jv lm_jbinary(struct jrun *r, enum jop op, struct jv a, struct jv b)
{
    switch (op) {
    case JO_EQ: return lm_jbool(lm_jequal(r, a, b));
    case JO_NE: return lm_jbool(!lm_jequal(r, a, b));
    case JO_IN: return lm_jbool(lm_jcontains(r, b, a));
    case JO_NOT_IN: return lm_jbool(!lm_jcontains(r, b, a));
    case JO_LT: case JO_LE: case JO_GT: case JO_GE: return order(r, op, a, b);
    default: break;
    }
    if (lm_jis_num(a) && lm_jis_num(b))
        return arithmetic(r, op, a, b);
    if (op == JO_MOD && a.kind == J_STR)
        return lm_jpercent(r, a.s, b);
    if (a.kind == J_UNDEF)
        lm_jundef_fail(r, a);
    if (b.kind == J_UNDEF)
        lm_jundef_fail(r, b);
    if (op == JO_ADD && is_sequence(a)) {
        if (a.kind == b.kind)
            return concat(r, a, b);
        lm_jfail(r, "can only concatenate %s (not \"%s\") to %s", lm_jtype(a), lm_jtype(b),
                 lm_jtype(a));
    }
    if (op == JO_MUL && (is_sequence(a) ? is_count(b) : is_sequence(b) && is_count(a)))
        return is_sequence(a) ? repeat(r, a, lm_jindex(r, b, "*"))
                              : repeat(r, b, lm_jindex(r, a, "*"));
    lm_jfail(r, "unsupported operand type(s) for %s: '%s' and '%s'", op_text[op], lm_jtype(a),
             lm_jtype(b));
}

struct jv lm_junary(struct jrun *r, enum jop op, struct jv a)
{
    if (a.kind == J_UNDEF)
        lm_jundef_fail(r, a);
    if (!lm_jis_num(a))
        lm_jfail(r, "bad operand type for unary %s: '%s'", op_text[op], lm_jtype(a));
    if (a.kind == J_FLOAT)
        return lm_jfloat(op == JO_NEG ? -a.f : a.f);
    return int_op(r, op == JO_NEG ? JO_SUB : JO_ADD, lm_jint(0), a);
}

/* ---- members ---------------------------------------------------------------------- */

/* An item by key or index; false when there is none. */
static bool item(struct jrun *r, struct jv of, struct jv key, struct jv *out)
{
    const struct jv *v;
    switch (of.kind) {
    case J_DICT: case J_NS:
        if (key.kind == J_LIST || key.kind == J_DICT)
            return false;
        v = lm_jdict_get(r, of.d, key);
        if (v)
            *out = *v;
        return v != NULL;
    case J_LIST: case J_TUPLE: case J_STR: case J_RANGE: case J_BYTES: break;
    default: return false;
    }
    if (key.kind != J_INT && key.kind != J_BOOL)
        return false;
    int64_t i = int_of(key), n = lm_jlen(r, of);
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (of.kind == J_RANGE) {
        *out = lm_jrange_at(of.r, i);
    } else if (of.kind == J_BYTES) {
        *out = lm_jint((unsigned char)of.s->p[i]);
    } else if (of.kind == J_STR) {
        size_t from = lm_jchar_at(of.s, (size_t)i);
        int k;
        lm_jrune(of.s, from, &k);
        lm_jstep(r, from / 16);
        *out = lm_jslice(r, of.s, from, from + (size_t)k);
    } else {
        *out = of.l->v[i];
    }
    return true;
}

static struct jv loop_attr(struct jrun *r, const struct jloop *l, const struct jstr *name)
{
    int64_t i = (int64_t)l->i, n = (int64_t)l->n;
    if (lm_jstr_is(name, "index0"))    return lm_jint(i);
    if (lm_jstr_is(name, "index"))     return lm_jint(i + 1);
    if (lm_jstr_is(name, "length"))    return lm_jint(n);
    if (lm_jstr_is(name, "first"))     return lm_jbool(i == 0);
    if (lm_jstr_is(name, "last"))      return lm_jbool(i == n - 1);
    if (lm_jstr_is(name, "revindex"))  return lm_jint(n - i);
    if (lm_jstr_is(name, "revindex0")) return lm_jint(n - i - 1);
    if (lm_jstr_is(name, "depth"))     return lm_jint(l->depth);
    if (lm_jstr_is(name, "depth0"))    return lm_jint(l->depth - 1);
    if (lm_jstr_is(name, "previtem"))  return i > 0 ? l->items[i - 1] : lm_jundef;
    if (lm_jstr_is(name, "nextitem"))  return i + 1 < n ? l->items[i + 1] : lm_jundef;
    (void)r;
    return (struct jv){ .kind = J_NONE, .sub = -1 };     /* no such attribute */
}

static struct jv macro_attr(struct jrun *r, const struct jmacro *m, const struct jstr *name)
{
    struct jv args = lm_jlist(r, J_TUPLE);
    if (lm_jstr_is(name, "name"))
        return lm_jslice(r, &m->node->str, 0, m->node->str.len);
    for (const struct jnode *p = m->node->params; p; p = p->next)
        lm_jpush(r, args.l, lm_jslice(r, &p->str, 0, p->str.len));
    if (lm_jstr_is(name, "arguments"))
        return args;
    if (lm_jstr_is(name, "catch_kwargs"))
        return lm_jbool(m->node->op & JM_KWARGS);
    if (lm_jstr_is(name, "catch_varargs"))
        return lm_jbool(m->node->op & JM_VARARGS);
    if (lm_jstr_is(name, "caller"))
        return lm_jbool(m->node->op & JM_CALLER);
    return (struct jv){ .kind = J_NONE, .sub = -1 };
}

static struct jv unsafe(struct jrun *r, struct jv of, struct jv name)
{
    struct jv v = lm_jundef_of(r, of, name);
    struct jundef *u = lm_jalloc(r, 1, sizeof *u);
    *u = *v.u;
    u->unsafe = true;
    v.u = u;
    return v;
}

/* An attribute in Python's sense; false when there is none.  Names in two underscores are
 * taken to be there, out of reach. */
static bool attr(struct jrun *r, struct jv of, struct jv name, struct jv *out)
{
    const struct jstr *s = name.s;
    if (s->len > 4 && !memcmp(s->p, "__", 2) && !memcmp(s->p + s->len - 2, "__", 2)) {
        *out = unsafe(r, of, name);
        return true;
    }
    if (of.kind == J_NS) {
        const struct jv *v = lm_jdict_get(r, of.d, name);
        if (v)
            *out = *v;
        return v != NULL;
    }
    if (of.kind == J_LOOP || of.kind == J_MACRO) {
        *out = of.kind == J_LOOP ? loop_attr(r, of.loop, s) : macro_attr(r, of.macro, s);
        if (out->kind != J_NONE || out->sub != -1)
            return true;
    }
    if (of.kind == J_CYCLER && lm_jstr_is(s, "current")) {
        *out = of.cycler->items.v[of.cycler->i];
        return true;
    }
    const struct jmethod_row *row = lm_jmethod_find(of, s);
    if (!row)
        return false;
    if (row->unsafe) {
        *out = unsafe(r, of, name);
        return true;
    }
    struct jmethod *m = lm_jalloc(r, 1, sizeof *m);
    *m = (struct jmethod){ of, row };
    *out = (struct jv){ .kind = J_METHOD, .method = m };
    return true;
}

static struct jv missing(struct jrun *r, struct jv of, struct jv name)
{
    if (of.kind == J_UNDEF)
        lm_jundef_fail(r, of);
    return lm_jundef_of(r, of, name);
}

struct jv lm_jattr(struct jrun *r, struct jv of, struct jv name)
{
    struct jv v;
    if (of.kind != J_UNDEF && (attr(r, of, name, &v) || item(r, of, name, &v)))
        return v;
    return missing(r, of, name);
}

struct jv lm_jitem(struct jrun *r, struct jv of, struct jv key)
{
    struct jv v;
    if (of.kind != J_UNDEF && (item(r, of, key, &v) ||
                               (key.kind == J_STR && attr(r, of, key, &v))))
        return v;
    return missing(r, of, key);
}

/* A bound of a slice, as Python's slice.indices. */
static int64_t bound(struct jrun *r, struct jv v, int64_t n, bool back, bool first)
{
    if (v.kind == J_NONE)
        return back == first ? (back ? n - 1 : n) : back ? -1 : 0;
    if (v.kind != J_INT && v.kind != J_BOOL)
        lm_jfail(r, "slice indices must be integers or None or have an __index__ method");
    int64_t i = int_of(v), low = back ? -1 : 0, high = back ? n - 1 : n;
    if (i < 0)
        i += n;
    return i < low ? low : i > high ? high : i;
}

/* A slice of a range is one; a range has at most 100,000 items, but its numbers may be large. */
static struct jv slice_range(struct jrun *r, const struct jrange *g, int64_t i, int64_t end,
                             int64_t by)
{
    struct jrange *s = lm_jalloc(r, 1, sizeof *s);
    if (__builtin_mul_overflow(g->step, by, &s->step) ||
        __builtin_mul_overflow(i, g->step, &s->start) ||
        __builtin_add_overflow(s->start, g->start, &s->start) ||
        __builtin_mul_overflow(end, g->step, &s->stop) ||
        __builtin_add_overflow(s->stop, g->start, &s->stop))
        lm_jfail(r, "the bounds of a slice of a range are too large");
    s->n = by > 0 ? end > i ? (end - i - 1) / by + 1 : 0
                  : i > end ? (end + 1 - i) / by + 1 : 0;
    return (struct jv){ .kind = J_RANGE, .r = s };
}

struct jv lm_jsubscript(struct jrun *r, struct jv of, struct jv from, struct jv to, struct jv step)
{
    if (of.kind == J_UNDEF)
        lm_jundef_fail(r, of);
    if (!is_sequence(of) && of.kind != J_RANGE)
        lm_jfail(r, of.kind == J_DICT ? "unhashable type: 'slice'"
                                      : "'%s' object is not subscriptable", lm_jtype(of));
    int64_t by = step.kind == J_NONE ? 1 : lm_jindex(r, step, "slice"), n = lm_jlen(r, of);
    if (by == 0)
        lm_jfail(r, "slice step cannot be zero");
    int64_t i = bound(r, from, n, by < 0, true), end = bound(r, to, n, by < 0, false);
    if (of.kind == J_STR && by == 1) {
        size_t a = lm_jchar_at(of.s, (size_t)i);
        lm_jstep(r, of.s->len / 16);
        if (end <= i)
            return lm_jslice(r, of.s, a, a);
        struct jstr rest = { of.s->p + a, NULL, of.s->len - a };
        return lm_jslice(r, of.s, a, a + lm_jchar_at(&rest, (size_t)(end - i)));
    }
    if (of.kind == J_RANGE)
        return slice_range(r, of.r, i, end, by);
    struct jlist *all = lm_jiter(r, of);
    struct jv l = lm_jlist(r, of.kind == J_TUPLE ? J_TUPLE : J_LIST);
    struct jsb s = JSB(r);
    while (by > 0 ? i < end : i > end) {
        if (of.kind == J_STR)
            lm_jsb_str(&s, all->v[i].s);
        else
            lm_jpush(r, l.l, all->v[i]);
        if (__builtin_add_overflow(i, by, &i))
            break;
    }
    return of.kind == J_STR ? lm_jsb_value(&s) : l;
}
