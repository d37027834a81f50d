/* SPDX-License-Identifier: MIT */
/* Global functions, and the methods of everything but strings. */
#include <math.h>
#include <string.h>

#include "template/jinja.h"

enum { MAX_RANGE = 100000 };

#define METHOD(name) static struct jv name(struct jrun *r, struct jv self, struct jargs *a)
#define FUNC(name) static struct jv name(struct jrun *r, struct jargs *a)

/* ---- methods of lists, dictionaries, numbers ------------------------------------------------ */

METHOD(m_never)
{
    (void)self, (void)a;
    lm_jfail(r, "this would change its object");
}

METHOD(list_count)
{
    struct jv *arg[1];
    int64_t n = 0;
    lm_jtake(r, "count", a, "value", arg);
    const struct jlist *l = lm_jiter(r, self);
    for (size_t i = 0; i < l->n; i++)
        n += lm_jequal(r, l->v[i], arg[0] ? *arg[0] : lm_jundef);
    return lm_jint(n);
}

METHOD(list_index)
{
    struct jv *arg[1];
    lm_jtake(r, "index", a, "value", arg);
    const struct jlist *l = lm_jiter(r, self);
    for (size_t i = 0; i < l->n; i++)
        if (lm_jequal(r, l->v[i], arg[0] ? *arg[0] : lm_jundef))
            return lm_jint((int64_t)i);
    lm_jfail(r, "the value is not in the %s", lm_jtype(self));
}

METHOD(list_copy)
{
    struct jv l = lm_jlist(r, J_LIST);
    (void)a;
    *l.l = *lm_jiter(r, self);
    l.l->cap = l.l->n;
    return l;
}

METHOD(dict_get)
{
    struct jv *arg[2];
    lm_jtake(r, "get", a, "key default", arg);
    if (!arg[0])
        lm_jfail(r, "get expected at least 1 argument, got 0");
    const struct jv *v = lm_jdict_get(r, self.d, *arg[0]);
    return v ? *v : arg[1] ? *arg[1] : lm_jnone;
}

static struct jv view(struct jv self, int what)
{
    return (struct jv){ .kind = J_VIEW, .sub = what, .d = self.d };
}

METHOD(dict_keys)   { lm_jtake(r, "keys", a, "", NULL); return view(self, 0); }
METHOD(dict_values) { lm_jtake(r, "values", a, "", NULL); return view(self, 1); }
METHOD(dict_items)  { lm_jtake(r, "items", a, "", NULL); return view(self, 2); }

static void put_all(struct jrun *r, struct jdict *to, const struct jdict *from)
{
    lm_jstep(r, from->n);
    for (size_t i = 0; i < from->n; i++)
        lm_jdict_put(r, to, from->e[i].key, from->e[i].value);
}

METHOD(dict_copy)
{
    struct jv d = lm_jdict(r);
    (void)a;
    put_all(r, d.d, self.d);
    return d;
}

METHOD(dict_fromkeys)
{
    struct jv *arg[2], d = lm_jdict(r);
    (void)self;
    lm_jtake(r, "fromkeys", a, "iterable value", arg);
    struct jlist *l = lm_jiter(r, arg[0] ? *arg[0] : lm_jnone);
    for (size_t i = 0; i < l->n; i++)
        lm_jdict_put(r, d.d, l->v[i], arg[1] ? *arg[1] : lm_jnone);
    return d;
}

METHOD(int_bit_length)
{
    (void)r, (void)a;
    if (self.kind == J_BIG)
        return lm_jint((int64_t)lm_jbig_bits(self.big));
    int64_t i = self.kind == J_BOOL ? self.b : self.i;
    uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    return lm_jint(m ? 64 - __builtin_clzll(m) : 0);
}

METHOD(float_is_integer)
{
    (void)r, (void)a;
    return lm_jbool(self.kind != J_FLOAT || (isfinite(self.f) && self.f == floor(self.f)));
}

METHOD(bytes_decode)
{
    (void)a;
    return lm_jslice(r, self.s, 0, self.s->len);
}

/* ---- loops, cyclers ------------------------------------------------------ */

METHOD(loop_cycle)
{
    if (!a->n)
        lm_jfail(r, "no items for cycling given");
    return a->pos[self.loop->i % a->n];
}

METHOD(loop_changed)
{
    struct jloop *l = self.loop;
    bool same = l->changed_set && l->changed.n == a->n;
    for (size_t i = 0; i < a->n && same; i++)
        same = lm_jequal(r, l->changed.v[i], a->pos[i]);
    if (!same) {
        l->changed.v = a->pos;
        l->changed.n = l->changed.cap = a->n;
        l->changed_set = true;
    }
    return lm_jbool(!same);
}

METHOD(cycler_next)
{
    struct jcycler *c = self.cycler;
    (void)r, (void)a;
    struct jv v = c->items.v[c->i];
    c->i = (c->i + 1) % c->items.n;
    return v;
}

METHOD(cycler_reset)
{
    (void)r, (void)a;
    self.cycler->i = 0;
    return lm_jnone;
}

/* What kinds have which methods; those that would change their object are out of reach. */
static const struct {
    unsigned           kinds;
    struct jmethod_row row;
} rows[] = {
#define LISTS (1u << J_LIST | 1u << J_TUPLE)
#define INTS (1u << J_INT | 1u << J_BIG | 1u << J_BOOL)
    { LISTS | 1u << J_RANGE, { "count", list_count, false } },
    { LISTS | 1u << J_RANGE, { "index", list_index, false } },
    { 1u << J_LIST, { "copy", list_copy, false } },
    { 1u << J_LIST, { "append", m_never, true } },
    { 1u << J_LIST, { "clear", m_never, true } },
    { 1u << J_LIST, { "extend", m_never, true } },
    { 1u << J_LIST, { "insert", m_never, true } },
    { 1u << J_LIST, { "pop", m_never, true } },
    { 1u << J_LIST, { "remove", m_never, true } },
    { 1u << J_LIST, { "reverse", m_never, true } },
    { 1u << J_LIST, { "sort", m_never, true } },
    { 1u << J_DICT, { "get", dict_get, false } },
    { 1u << J_DICT, { "keys", dict_keys, false } },
    { 1u << J_DICT, { "values", dict_values, false } },
    { 1u << J_DICT, { "items", dict_items, false } },
    { 1u << J_DICT, { "copy", dict_copy, false } },
    { 1u << J_DICT | 1u << J_FUNC, { "fromkeys", dict_fromkeys, false } },
    { 1u << J_DICT, { "clear", m_never, true } },
    { 1u << J_DICT, { "pop", m_never, true } },
    { 1u << J_DICT, { "popitem", m_never, true } },
    { 1u << J_DICT, { "setdefault", m_never, true } },
    { 1u << J_DICT, { "update", m_never, true } },
    { INTS, { "bit_length", int_bit_length, false } },
    { INTS | 1u << J_FLOAT, { "is_integer", float_is_integer, false } },
    { 1u << J_BYTES, { "decode", bytes_decode, false } },
    { 1u << J_LOOP, { "cycle", loop_cycle, false } },
    { 1u << J_LOOP, { "changed", loop_changed, false } },
    { 1u << J_CYCLER, { "next", cycler_next, false } },
    { 1u << J_CYCLER, { "reset", cycler_reset, false } },
};

static struct jv f_dict(struct jrun *r, struct jargs *a);

const struct jmethod_row *lm_jmethod_find(struct jv of, const struct jstr *name)
{
    if (of.kind == J_STR)
        return lm_jstr_method(name);
    if (of.kind == J_FUNC && of.func->call != f_dict)
        return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].kinds >> of.kind & 1 && lm_jstr_is(name, rows[i].row.name))
            return &rows[i].row;
    return NULL;
}

struct jv lm_jcall_method(struct jrun *r, struct jv self, const char *name, struct jargs *a)
{
    struct jstr s = { name, NULL, strlen(name) };
    lm_jread(r, self);
    return lm_jmethod_find(self, &s)->call(r, self, a);
}

/* ---- global functions ---------------------------------------------------- */

FUNC(f_raise_exception)
{
    struct jv *arg[1];
    struct jsb b = JSB(r);
    lm_jtake(r, "raise_exception", a, "message", arg);
    if (arg[0])
        lm_jprint(&b, *arg[0]);
    if (!b.len)
        lm_jfail(r, "raise_exception without a message");
    lm_jfail(r, "%.*s", (int)(b.len < 380 ? b.len : 380), b.p);
}

/* What time.strftime leaves to datetime: %f, and zones, of which a local time has none. */
static struct jstr time_format(struct jrun *r, const struct jstr *fmt)
{
    struct jsb b = JSB(r);
    for (size_t i = 0; i < fmt->len; i++) {
        if (!fmt->p[i])
            lm_jfail(r, "strftime_now: a NUL in the format");
        if (fmt->p[i] != '%' || i + 1 == fmt->len) {
            lm_jsb_add(&b, fmt->p + i, NULL, 1);
            continue;
        }
        char c = fmt->p[++i];
        if (c == 'f')
            lm_jsb_lit(&b, "000000");
        else if (c != 'z' && c != 'Z')
            lm_jsb_add(&b, fmt->p + i - 1, NULL, 2);
    }
    lm_jsb_add(&b, " ", NULL, 2);                /* never empty; a NUL behind it */
    return (struct jstr){ b.p, NULL, b.len };
}

FUNC(f_strftime_now)
{
    struct jv *arg[1];
    lm_jtake(r, "strftime_now", a, "format", arg);
    if (!r->now)
        lm_jfail(r, "the time is not known here");
    const struct jstr *asked = lm_jneed_str(r, arg[0] ? *arg[0] : lm_jnone, "strftime_now");
    struct jstr fmt = time_format(r, asked);
    size_t room = 64 * fmt.len + 64;
    char *text = lm_jalloc(r, room, 1);
    size_t n = strftime(text, room, fmt.p, r->now);
    if (!n)
        lm_jfail(r, "strftime_now: the text is too long");
    return lm_jmade_of(r, asked, text, n - 1);
}

FUNC(f_range)
{
    if (a->n < 1 || a->n > 3 || a->kw.n)
        lm_jfail(r, "range expected 1 to 3 arguments, got %zu", a->n);
    struct jrange *g = lm_jalloc(r, 1, sizeof *g);
    g->start = a->n > 1 ? lm_jindex(r, a->pos[0], "range") : 0;
    g->stop = lm_jindex(r, a->pos[a->n > 1], "range");
    g->step = a->n > 2 ? lm_jindex(r, a->pos[2], "range") : 1;
    if (g->step == 0)
        lm_jfail(r, "range() arg 3 must not be zero");
    double span = ((double)g->stop - (double)g->start) / (double)g->step;
    if (span > MAX_RANGE)
        lm_jfail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                 MAX_RANGE);
    if (span <= 0)
        return (struct jv){ .kind = J_RANGE, .r = g };
    /* The span is small, so this difference fits. */
    uint64_t width = g->step > 0 ? (uint64_t)g->stop - (uint64_t)g->start
                                 : (uint64_t)g->start - (uint64_t)g->stop;
    uint64_t by = g->step > 0 ? (uint64_t)g->step : 0 - (uint64_t)g->step;
    g->n = (int64_t)((width - 1) / by + 1);
    return (struct jv){ .kind = J_RANGE, .r = g };
}

/* The arguments of dict() and namespace(): a mapping or pairs, then names. */
static void fill(struct jrun *r, struct jdict *d, struct jargs *a)
{
    if (a->n > 1)
        lm_jfail(r, "dict expected at most 1 argument, got %zu", a->n);
    if (a->n && a->pos[0].kind == J_DICT) {
        put_all(r, d, a->pos[0].d);
    } else if (a->n) {
        struct jlist *l = lm_jiter(r, a->pos[0]);
        for (size_t i = 0; i < l->n; i++) {
            struct jlist *pair = lm_jiter(r, l->v[i]);
            if (pair->n != 2)
                lm_jfail(r, "dictionary update sequence element #%zu has length %zu; 2 is required",
                         i, pair->n);
            lm_jdict_put(r, d, pair->v[0], pair->v[1]);
        }
    }
    put_all(r, d, &a->kw);
}

FUNC(f_dict)
{
    struct jv d = lm_jdict(r);
    fill(r, d.d, a);
    return d;
}

FUNC(f_namespace)
{
    struct jv d = lm_jdict(r);
    fill(r, d.d, a);
    d.kind = J_NS;
    for (size_t i = 0; i < d.d->n; i++) {
        struct jv key = d.d->e[i].key;
        if (key.kind == J_STR && key.s->len && key.s->p[0] == '_')
            lm_jfail(r, "a namespace has no names that begin with '_'");
    }
    return d;
}

FUNC(f_cycler)
{
    struct jcycler *c = lm_jalloc(r, 1, sizeof *c);
    if (!a->n)
        lm_jfail(r, "at least one item has to be provided");
    c->items = (struct jlist){ a->pos, a->n, a->n };
    return (struct jv){ .kind = J_CYCLER, .cycler = c };
}

FUNC(f_joiner)
{
    struct jv *arg[1];
    struct jcycler *c = lm_jalloc(r, 1, sizeof *c);
    lm_jtake(r, "joiner", a, "sep", arg);
    lm_jpush(r, &c->items, arg[0] ? *arg[0] : lm_jcstr(r, ", "));
    return (struct jv){ .kind = J_JOINER, .cycler = c };
}

void lm_jadd_globals(struct jrun *r)
{
    static const struct jfunc functions[] = {
        { "cycler", f_cycler }, { "dict", f_dict }, { "joiner", f_joiner },
        { "namespace", f_namespace }, { "raise_exception", f_raise_exception },
        { "range", f_range }, { "strftime_now", f_strftime_now },
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        lm_jdict_put(r, &r->globals.vars, lm_jcstr(r, functions[i].name),
                     (struct jv){ .kind = J_FUNC, .func = &functions[i] });
    lm_jdict_put(r, &r->globals.vars, lm_jcstr(r, "self"), (struct jv){ .kind = J_SELF });
}
