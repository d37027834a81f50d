/* SPDX-License-Identifier: MIT */
/* Values: making, comparing, iterating and sorting them, as Python does. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "template/jinja.h"

const struct jv lm_jnone = { .kind = J_NONE }, lm_jundef = { .kind = J_UNDEF };
const struct jv lm_jtrue = { .kind = J_BOOL, .b = true }, lm_jfalse = { .kind = J_BOOL };

void lm_jfail(struct jrun *r, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lm_fail(r->err, LM_EDATA, "line %u, column %u: %s", r->pos.line, r->pos.col, text);
    longjmp(r->out, 1);
}

void lm_junsupported(struct jrun *r, const char *what)
{
    lm_fail(r->err, LM_ENOSUP, "line %u, column %u: %s is not supported", r->pos.line, r->pos.col,
            what);
    longjmp(r->out, 3);
}

void lm_jstep(struct jrun *r, uint64_t n)
{
    if (n > r->limits->steps - r->steps)
        lm_jfail(r, "the template takes more than %llu steps",
                 (unsigned long long)r->limits->steps);
    r->steps += n;
}

void lm_jread(struct jrun *r, struct jv v)
{
    if (v.kind == J_STR || v.kind == J_BYTES)
        lm_jstep(r, v.s->len / 16);
}

void lm_jdeeper(struct jrun *r)
{
    if (++r->depth > r->limits->depth)
        lm_jfail(r, "expressions, blocks, calls or values nested deeper than %d%s",
                 r->limits->depth, r->calls > r->limits->depth / 10
                                       ? ": does something call itself?" : "");
}

void *lm_jalloc(struct jrun *r, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > r->limits->memory ||
        r->arena.used > r->limits->memory - bytes)
        lm_jfail(r, "the template takes more than %zu bytes of memory", r->limits->memory);
    void *p = lm_arena_alloc(&r->arena, bytes ? bytes : 1);
    if (!p) {
        lm_fail_nomem(r->err);
        longjmp(r->out, 2);
    }
    return p;
}

struct jv lm_jbool(bool b)
{
    return b ? lm_jtrue : lm_jfalse;
}

struct jv lm_jint(int64_t i)
{
    return (struct jv){ .kind = J_INT, .i = i };
}

struct jv lm_jfloat(double f)
{
    return (struct jv){ .kind = J_FLOAT, .f = f };
}

struct jv lm_jstr(struct jrun *r, const char *p, const unsigned char *mark, size_t len)
{
    struct jstr *s = lm_jalloc(r, 1, sizeof *s);
    *s = (struct jstr){ p, mark, len };
    return (struct jv){ .kind = J_STR, .s = s };
}

struct jv lm_jcstr(struct jrun *r, const char *s)
{
    size_t n = strlen(s);
    char *p = lm_jalloc(r, n + 1, 1);
    memcpy(p, s, n);
    return lm_jstr(r, p, NULL, n);
}

struct jv lm_jslice(struct jrun *r, const struct jstr *s, size_t from, size_t to)
{
    return lm_jstr(r, s->p + from, s->mark ? s->mark + from : NULL, to - from);
}

struct jv lm_jlist(struct jrun *r, enum jkind kind)
{
    return (struct jv){ .kind = kind, .l = lm_jalloc(r, 1, sizeof(struct jlist)) };
}

void lm_jpush(struct jrun *r, struct jlist *l, struct jv v)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 8;
        struct jv *to = lm_jalloc(r, cap, sizeof *to);
        if (l->n)
            memcpy(to, l->v, l->n * sizeof *to);
        l->v = to;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

struct jv lm_jpair_of(struct jrun *r, struct jv a, struct jv b)
{
    struct jv t = lm_jlist(r, J_TUPLE);
    t.l->v = lm_jalloc(r, 2, sizeof *t.l->v);
    t.l->n = t.l->cap = 2;
    t.l->v[0] = a;
    t.l->v[1] = b;
    return t;
}

struct jv lm_jundef_of(struct jrun *r, struct jv of, struct jv name)
{
    struct jundef *u = lm_jalloc(r, 1, sizeof *u);
    *u = (struct jundef){ true, false, of, name };
    return (struct jv){ .kind = J_UNDEF, .u = u };
}

const char *lm_jtype(struct jv v)
{
    static const char *const names[] = {
        [J_UNDEF] = "Undefined", [J_NONE] = "NoneType", [J_BOOL] = "bool", [J_INT] = "int",
        [J_BIG] = "int", [J_FLOAT] = "float", [J_STR] = "str", [J_BYTES] = "bytes",
        [J_LIST] = "list", [J_TUPLE] = "tuple", [J_GEN] = "generator", [J_DICT] = "dict",
        [J_RANGE] = "range", [J_NS] = "Namespace", [J_LOOP] = "LoopContext",
        [J_MACRO] = "Macro", [J_FUNC] = "function", [J_METHOD] = "builtin_function_or_method",
        [J_CYCLER] = "Cycler", [J_JOINER] = "Joiner", [J_SELF] = "TemplateReference",
    };
    static const char *const views[] = { "dict_keys", "dict_values", "dict_items" };
    return v.kind == J_VIEW ? views[v.sub] : v.kind == J_STR && v.sub ? "Markup" : names[v.kind];
}

void lm_jundef_fail(struct jrun *r, struct jv v)
{
    const struct jundef *u = v.u;
    if (!u)
        lm_jfail(r, "a value is undefined");
    struct jv name = u->name;
    struct jsb b = JSB(r);
    lm_jrepr(&b, name);
    int n = (int)(b.len < 100 ? b.len : 100);
    if (u->unsafe)
        lm_jfail(r, "access to attribute %.*s of '%s' object is unsafe.", n, b.p, lm_jtype(u->of));
    if (!u->has_of)
        lm_jfail(r, "%.*s is undefined", n, b.p);
    bool none = u->of.kind == J_NONE;
    lm_jfail(r, "'%s%s' has no %s %.*s", none ? "None" : lm_jtype(u->of), none ? "" : " object",
             name.kind == J_STR ? "attribute" : "element", n, b.p);
}

bool lm_jis_num(struct jv v)
{
    return v.kind == J_INT || v.kind == J_BIG || v.kind == J_FLOAT || v.kind == J_BOOL;
}

bool lm_jstr_is(const struct jstr *s, const char *text)
{
    size_t n = strlen(text);
    return s->len == n && memcmp(s->p, text, n) == 0;
}

double lm_jnumber(struct jrun *r, struct jv v)
{
    if (v.kind == J_INT)
        return (double)v.i;
    if (v.kind == J_BOOL)
        return v.b;
    if (v.kind == J_FLOAT)
        return v.f;
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    if (v.kind != J_BIG)
        lm_jfail(r, "must be real number, not %s", lm_jtype(v));
    double f = lm_jbig_f64(v.big);
    if (!isfinite(f))
        lm_jfail(r, "int too large to convert to float");
    return f;
}

int64_t lm_jindex(struct jrun *r, struct jv v, const char *what)
{
    if (v.kind == J_INT)
        return v.i;
    if (v.kind == J_BOOL)
        return v.b;
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    if (v.kind == J_BIG)
        lm_jfail(r, "%s: Python int too large to convert to C ssize_t", what);
    lm_jfail(r, "%s: '%s' object cannot be interpreted as an integer", what, lm_jtype(v));
}

const struct jstr *lm_jneed_str(struct jrun *r, struct jv v, const char *what)
{
    if (v.kind == J_UNDEF && v.u)
        lm_jundef_fail(r, v);
    if (v.kind != J_STR)
        lm_jfail(r, "%s: expected str, got %s", what, lm_jtype(v));
    return v.s;
}

bool lm_jtruth(struct jrun *r, struct jv v)
{
    switch (v.kind) {
    case J_UNDEF: case J_NONE: return false;
    case J_BOOL:  return v.b;
    case J_INT:   return v.i != 0;
    case J_FLOAT: return v.f != 0;
    case J_STR: case J_BYTES: return v.s->len > 0;
    case J_LIST: case J_TUPLE: return v.l->n > 0;
    case J_DICT: case J_VIEW: case J_RANGE: return lm_jlen(r, v) > 0;
    default: return true;
    }
}

int64_t lm_jlen(struct jrun *r, struct jv v)
{
    switch (v.kind) {
    case J_UNDEF:
        if (v.u && v.u->unsafe)
            lm_jundef_fail(r, v);
        return 0;
    case J_STR:
        lm_jread(r, v);
        return (int64_t)lm_jchars(v.s);
    case J_BYTES: return (int64_t)v.s->len;
    case J_LIST: case J_TUPLE: return (int64_t)v.l->n;
    case J_DICT: case J_VIEW:  return (int64_t)v.d->n;
    case J_RANGE: return v.r->n;
    case J_LOOP:  return (int64_t)v.loop->n;
    default:
        lm_jfail(r, "object of type '%s' has no len()", lm_jtype(v));
    }
}

struct jv lm_jrange_at(const struct jrange *g, int64_t i)
{
    return lm_jint(g->start + i * g->step);
}

bool lm_jiterable(struct jv v)
{
    return v.kind == J_UNDEF || v.kind == J_STR || v.kind == J_BYTES ||
           (v.kind >= J_LIST && v.kind <= J_RANGE) || v.kind == J_LOOP;
}

/* A list that holds the characters of a string. */
static void add_chars(struct jrun *r, struct jlist *l, const struct jstr *s)
{
    int k;
    for (size_t i = 0; i < s->len; i += (size_t)k) {
        lm_jrune(s, i, &k);
        lm_jpush(r, l, lm_jslice(r, s, i, i + (size_t)k));
    }
}

struct jlist *lm_jiter(struct jrun *r, struct jv v)
{
    if (!lm_jiterable(v))
        lm_jfail(r, "'%s' object is not iterable", lm_jtype(v));
    struct jlist *l = lm_jalloc(r, 1, sizeof *l);
    if (v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_GEN) {
        *l = *v.l;
        l->cap = l->n;                           /* what is added goes elsewhere */
        if (v.kind == J_GEN)
            v.l->n = v.l->cap = 0;
        lm_jstep(r, l->n);
    } else if (v.kind == J_STR) {
        lm_jstep(r, v.s->len);
        add_chars(r, l, v.s);
    } else if (v.kind == J_BYTES) {
        for (size_t i = 0; i < v.s->len; i++)
            lm_jpush(r, l, lm_jint((unsigned char)v.s->p[i]));
    } else if (v.kind == J_DICT || v.kind == J_VIEW) {
        int what = v.kind == J_DICT ? 0 : v.sub;
        lm_jstep(r, v.d->n);
        for (size_t i = 0; i < v.d->n; i++) {
            struct jpair *e = &v.d->e[i];
            lm_jpush(r, l, what == 0 ? e->key : what == 1 ? e->value
                                                          : lm_jpair_of(r, e->key, e->value));
        }
    } else if (v.kind == J_RANGE) {
        lm_jstep(r, (uint64_t)v.r->n);
        if (!v.r->items)
            v.r->items = lm_jalloc(r, (size_t)v.r->n, sizeof *v.r->items);
        for (int64_t i = 0; i < v.r->n; i++)
            v.r->items[i] = lm_jrange_at(v.r, i);
        *l = (struct jlist){ v.r->items, (size_t)v.r->n, (size_t)v.r->n };
    }
    return l;
}

static bool is_int(struct jv v)
{
    return v.kind == J_INT || v.kind == J_BIG || v.kind == J_BOOL;
}

/* Numbers by value, whatever their kinds; NaN is unequal and not less: 2. */
static int compare_numbers(struct jrun *r, struct jv a, struct jv b)
{
    if (is_int(a) && is_int(b)) {
        if (a.kind == J_BIG || b.kind == J_BIG)
            return lm_jbig_cmp(r, a, b);
        int64_t x = a.kind == J_BOOL ? a.b : a.i, y = b.kind == J_BOOL ? b.b : b.i;
        return (x > y) - (x < y);
    }
    double x = a.kind == J_BIG ? lm_jbig_f64(a.big) : lm_jnumber(r, a);
    double y = b.kind == J_BIG ? lm_jbig_f64(b.big) : lm_jnumber(r, b);
    return isnan(x) || isnan(y) ? 2 : (x > y) - (x < y);
}

static int compare_text(const struct jstr *a, const struct jstr *b)
{
    int c = memcmp(a->p, b->p, a->len < b->len ? a->len : b->len);
    return c ? (c > 0) - (c < 0) : (a->len > b->len) - (a->len < b->len);
}

static bool equal_lists(struct jrun *r, const struct jlist *a, const struct jlist *b)
{
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        if (!lm_jequal(r, a->v[i], b->v[i]))
            return false;
    return a->n == b->n;
}

static bool equal_dicts(struct jrun *r, const struct jdict *a, const struct jdict *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct jv *v = lm_jdict_get(r, b, a->e[i].key);
        if (!v || !lm_jequal(r, a->e[i].value, *v))
            return false;
    }
    return true;
}

static bool equal_nested(struct jrun *r, struct jv a, struct jv b)
{
    switch (a.kind) {
    case J_LIST: case J_TUPLE: return equal_lists(r, a.l, b.l);
    case J_DICT:  return equal_dicts(r, a.d, b.d);
    case J_VIEW:  return a.sub == b.sub && (a.d == b.d || (a.sub != 1 && equal_dicts(r, a.d, b.d)));
    case J_RANGE: return a.r->n == b.r->n && (a.r->n == 0 || (a.r->start == b.r->start &&
                         (a.r->n == 1 || a.r->step == b.r->step)));
    default:      return a.l == b.l;
    }
}

bool lm_jequal(struct jrun *r, struct jv a, struct jv b)
{
    lm_jstep(r, 1);
    if (lm_jis_num(a) && lm_jis_num(b))
        return compare_numbers(r, a, b) == 0;
    if (a.kind != b.kind)
        return false;
    if (a.kind == J_UNDEF || a.kind == J_NONE || a.kind == J_SELF)
        return true;
    if (a.kind == J_STR || a.kind == J_BYTES) {
        if (a.s->len != b.s->len)
            return false;
        lm_jstep(r, a.s->len / 64);
        return memcmp(a.s->p, b.s->p, a.s->len) == 0;
    }
    lm_jdeeper(r);
    bool same = equal_nested(r, a, b);
    r->depth--;
    return same;
}

int lm_jorder(struct jrun *r, struct jv a, struct jv b, const char *op)
{
    lm_jstep(r, 1);
    if (lm_jis_num(a) && lm_jis_num(b))
        return compare_numbers(r, a, b);
    if (a.kind == b.kind && (a.kind == J_STR || a.kind == J_BYTES)) {
        lm_jstep(r, (a.s->len < b.s->len ? a.s->len : b.s->len) / 64);
        return compare_text(a.s, b.s);
    }
    if (a.kind == b.kind && (a.kind == J_LIST || a.kind == J_TUPLE)) {
        lm_jdeeper(r);
        size_t n = a.l->n < b.l->n ? a.l->n : b.l->n, i = 0;
        while (i < n && lm_jequal(r, a.l->v[i], b.l->v[i]))
            i++;
        int c = i < n ? lm_jorder(r, a.l->v[i], b.l->v[i], op)
                      : (a.l->n > b.l->n) - (a.l->n < b.l->n);
        r->depth--;
        return c;
    }
    if (a.kind == J_UNDEF)
        lm_jundef_fail(r, a);
    if (b.kind == J_UNDEF)
        lm_jundef_fail(r, b);
    lm_jfail(r, "'%s' not supported between instances of '%s' and '%s'", op, lm_jtype(a),
             lm_jtype(b));
}

bool lm_jcontains(struct jrun *r, struct jv in, struct jv x)
{
    if (in.kind == J_STR) {
        if (x.kind == J_UNDEF)
            lm_jfail(r, "'in <string>' requires string as left operand, not Undefined");
        if (x.kind != J_STR)
            lm_jfail(r, "'in <string>' requires string as left operand, not %s", lm_jtype(x));
        lm_jstep(r, in.s->len / 64);
        return lm_jsearch(r, in.s, x.s, 0, in.s->len, false) >= 0;
    }
    if (in.kind == J_DICT || (in.kind == J_VIEW && in.sub == 0))
        return lm_jdict_get(r, in.d, x) != NULL;
    if (!lm_jiterable(in))
        lm_jfail(r, "argument of type '%s' is not iterable", lm_jtype(in));
    if (in.kind == J_GEN) {
        while (in.l->n) {
            struct jv v = in.l->v[0];
            in.l->v++;
            in.l->n--;
            in.l->cap = in.l->n;
            if (lm_jequal(r, v, x))
                return true;
        }
        return false;
    }
    struct jlist *l = lm_jiter(r, in);
    for (size_t i = 0; i < l->n; i++)
        if (lm_jequal(r, l->v[i], x))
            return true;
    return false;
}

/* Merge sort: stable, and it holds nothing when a comparison fails. */
void lm_jsort(struct jrun *r, struct jv *items, struct jv *keys, size_t n, bool reverse)
{
    struct jv *from[2] = { items, keys };
    struct jv *to[2] = { lm_jalloc(r, n, sizeof **to), lm_jalloc(r, n, sizeof **to) };
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n, hi = mid + width < n ? mid + width : n;
            size_t i = lo, j = mid;
            for (size_t k = lo; k < hi; k++) {
                bool right = i == mid || (j < hi && (reverse
                    ? lm_jorder(r, from[1][i], from[1][j], "<") == -1
                    : lm_jorder(r, from[1][j], from[1][i], "<") == -1));
                size_t pick = right ? j++ : i++;
                to[0][k] = from[0][pick];
                to[1][k] = from[1][pick];
            }
        }
        struct jv *t0 = from[0], *t1 = from[1];
        from[0] = to[0], from[1] = to[1];
        to[0] = t0, to[1] = t1;
    }
    if (from[0] != items && n) {
        memcpy(items, from[0], n * sizeof *items);
        memcpy(keys, from[1], n * sizeof *keys);
    }
}
