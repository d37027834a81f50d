/* SPDX-License-Identifier: MIT */
/* The evaluator: expressions, statements, calls of macros. */
#include <string.h>

#include "template/jinja.h"

static struct jv eval(struct jrun *r, const struct jnode *n);
static void exec(struct jrun *r, const struct jnode *n);
static struct jv call_value(struct jrun *r, struct jv f, struct jargs *a);

/* ---- names -------------------------------------------------------------------------- */

/* A name in the tree as a string: the tree outlives the rendering. */
static struct jv name_of(const struct jstr *s)
{
    return (struct jv){ .kind = J_STR, .s = s };
}

static struct jv *lookup(struct jrun *r, const struct jstr *s)
{
    struct jv key = name_of(s);
    for (struct jscope *c = r->scope; c; c = c->up) {
        struct jv *v = lm_jdict_get(r, &c->vars, key);
        if (v)
            return v;
    }
    return NULL;
}

static struct jv undefined(struct jrun *r, const struct jstr *name)
{
    struct jundef *u = lm_jalloc(r, 1, sizeof *u);
    u->name = name_of(name);
    return (struct jv){ .kind = J_UNDEF, .u = u };
}

static struct jv read_name(struct jrun *r, const struct jnode *n)
{
    const struct jv *v = lookup(r, &n->str);
    return v ? *v : undefined(r, &n->str);
}

static void bind(struct jrun *r, struct jscope *scope, const struct jstr *s, struct jv v)
{
    lm_jdict_put(r, &scope->vars, name_of(s), v);
}

static struct jscope *new_scope(struct jrun *r, struct jscope *up)
{
    struct jscope *s = lm_jalloc(r, 1, sizeof *s);
    s->up = up;
    return s;
}

/* A scope for the next round of a loop: the last one's, unless somebody still sees it. */
static struct jscope *next_scope(struct jrun *r, struct jscope *last, struct jscope *up)
{
    if (!last || last->kept)
        return new_scope(r, up);
    last->vars.n = 0;
    if (last->vars.n_slots)
        memset(last->vars.slots, 0, last->vars.n_slots * sizeof *last->vars.slots);
    return last;
}

static void assign(struct jrun *r, const struct jnode *target, struct jv v)
{
    r->pos = target->pos;
    if (target->kind == JN_NAME) {
        bind(r, r->scope, &target->str, v);
        return;
    }
    if (target->kind == JN_ATTR) {
        struct jv ns = read_name(r, target->a);
        if (ns.kind != J_NS)
            lm_jfail(r, "cannot assign attribute on non-namespace object");
        if (target->str.len && target->str.p[0] == '_')
            lm_jfail(r, "a namespace has no names that begin with '_'");
        lm_jdict_put(r, ns.d, name_of(&target->str), v);
        return;
    }
    struct jlist *l = lm_jiter(r, v);
    size_t want = 0, i = 0;
    for (const struct jnode *t = target->list; t; t = t->next)
        want++;
    if (l->n > want)
        lm_jfail(r, "too many values to unpack (expected %zu)", want);
    if (l->n < want)
        lm_jfail(r, "not enough values to unpack (expected %zu, got %zu)", want, l->n);
    for (const struct jnode *t = target->list; t; t = t->next)
        assign(r, t, l->v[i++]);
}

/* ---- expressions ---------------------------------------------------------------------- */

static void add_keyword(struct jrun *r, struct jargs *a, struct jv key, struct jv value)
{
    if (key.kind != J_STR)
        lm_jfail(r, "keywords must be strings");
    if (lm_jdict_get(r, &a->kw, key))
        lm_jfail(r, "got multiple values for keyword argument '%.*s'",
                 (int)(key.s->len < 80 ? key.s->len : 80), key.s->p);
    lm_jdict_put(r, &a->kw, key, value);
}

static void arguments(struct jrun *r, const struct jnode *list, struct jargs *a)
{
    struct jlist pos = { 0 };
    for (const struct jnode *n = list; n; n = n->next) {
        if (n->kind == JN_STAR) {
            struct jlist *more = lm_jiter(r, eval(r, n->a));
            for (size_t i = 0; i < more->n; i++)
                lm_jpush(r, &pos, more->v[i]);
        } else if (n->kind == JN_STAR2) {
            struct jv d = eval(r, n->a);
            if (d.kind != J_DICT)
                lm_jfail(r, "argument after ** must be a mapping, not %s", lm_jtype(d));
            for (size_t i = 0; i < d.d->n; i++)
                add_keyword(r, a, d.d->e[i].key, d.d->e[i].value);
        } else if (n->kind == JN_KEYWORD) {
            struct jv v = eval(r, n->a);
            add_keyword(r, a, name_of(&n->str), v);
        } else {
            lm_jpush(r, &pos, eval(r, n));
        }
    }
    a->pos = pos.v;
    a->n = pos.n;
}

static struct jv items(struct jrun *r, const struct jnode *n)
{
    struct jv l = lm_jlist(r, n->kind == JN_LIST ? J_LIST : J_TUPLE);
    for (const struct jnode *e = n->list; e; e = e->next)
        lm_jpush(r, l.l, eval(r, e));
    return l;
}

static struct jv dict(struct jrun *r, const struct jnode *n)
{
    struct jv d = lm_jdict(r);
    for (const struct jnode *e = n->list; e; e = e->next->next) {
        struct jv key = eval(r, e);
        lm_jdict_put(r, d.d, key, eval(r, e->next));
    }
    return d;
}

static struct jv compare(struct jrun *r, const struct jnode *n)
{
    struct jv left = eval(r, n->a), result = lm_jtrue;
    for (const struct jnode *c = n->list; c; c = c->next) {
        struct jv right = eval(r, c->b);
        r->pos = c->pos;
        result = lm_jbinary(r, (enum jop)c->op, left, right);
        if (!lm_jtruth(r, result))
            break;
        left = right;
    }
    return result;
}

static struct jv concat(struct jrun *r, const struct jnode *n)
{
    struct jsb b = JSB(r);
    for (const struct jnode *e = n->list; e; e = e->next)
        lm_jprint(&b, eval(r, e));
    return lm_jsb_value(&b);
}

static struct jv slice(struct jrun *r, const struct jnode *n)
{
    struct jv of = eval(r, n->a);
    struct jv from = n->list ? eval(r, n->list) : lm_jnone;
    struct jv to = n->b ? eval(r, n->b) : lm_jnone;
    struct jv step = n->c ? eval(r, n->c) : lm_jnone;
    r->pos = n->pos;
    return lm_jsubscript(r, of, from, to, step);
}

/* operand: what a block rendered, for the innermost filter of a chain without one. */
static struct jv filter(struct jrun *r, const struct jnode *n, const struct jv *operand)
{
    struct jargs a = { 0 };
    struct jv v = !n->a ? *operand : operand ? filter(r, n->a, operand) : eval(r, n->a);
    arguments(r, n->list, &a);
    jfilter *f = lm_jfilter_find(&n->str);
    r->pos = n->pos;
    lm_jread(r, v);
    if (!f)
        lm_jfail(r, "No filter named '%.*s'.", (int)(n->str.len < 80 ? n->str.len : 80), n->str.p);
    return f(r, v, &a);
}

static struct jv test(struct jrun *r, const struct jnode *n)
{
    struct jargs a = { 0 };
    struct jv v = eval(r, n->a);
    arguments(r, n->list, &a);
    jtest *t = lm_jtest_find(&n->str);
    r->pos = n->pos;
    lm_jread(r, v);
    if (!t)
        lm_jfail(r, "No test named '%.*s'.", (int)(n->str.len < 80 ? n->str.len : 80), n->str.p);
    return lm_jbool(t(r, v, &a) != (n->op != 0));
}

static struct jv call(struct jrun *r, const struct jnode *n)
{
    struct jargs a = { 0 };
    struct jv f = eval(r, n->a);
    arguments(r, n->list, &a);
    r->pos = n->pos;
    return call_value(r, f, &a);
}

static struct jv constant(struct jrun *r, const struct jnode *n)
{
    return n->value ? *n->value : lm_jbig_parse(r, n->str.p, n->str.len, (unsigned)n->op);
}

static struct jv choose(struct jrun *r, const struct jnode *n)
{
    if (lm_jtruth(r, eval(r, n->b)))
        return eval(r, n->a);
    return n->c ? eval(r, n->c) : lm_jundef;
}

static struct jv operate(struct jrun *r, const struct jnode *n)
{
    struct jv a = eval(r, n->a), b;
    switch (n->kind) {
    case JN_ATTR:
        r->pos = n->pos;
        return lm_jattr(r, a, name_of(&n->str));
    case JN_UNARY:
        r->pos = n->pos;
        return lm_junary(r, (enum jop)n->op, a);
    case JN_NOT: return lm_jbool(!lm_jtruth(r, a));
    case JN_AND: return lm_jtruth(r, a) ? eval(r, n->b) : a;
    case JN_OR:  return lm_jtruth(r, a) ? a : eval(r, n->b);
    default:
        b = eval(r, n->b);
        r->pos = n->pos;
        return n->kind == JN_ITEM ? lm_jitem(r, a, b) : lm_jbinary(r, (enum jop)n->op, a, b);
    }
}

static struct jv eval(struct jrun *r, const struct jnode *n)
{
    struct jv v;
    lm_jstep(r, 1);
    r->pos = n->pos;
    lm_jdeeper(r);
    switch (n->kind) {
    case JN_CONST:   v = constant(r, n); break;
    case JN_NAME:    v = read_name(r, n); break;
    case JN_SLICE:   v = slice(r, n); break;
    case JN_CALL:    v = call(r, n); break;
    case JN_FILTER:  v = filter(r, n, NULL); break;
    case JN_TEST:    v = test(r, n); break;
    case JN_LIST: case JN_TUPLE: v = items(r, n); break;
    case JN_DICT:    v = dict(r, n); break;
    case JN_COMPARE: v = compare(r, n); break;
    case JN_COND:    v = choose(r, n); break;
    case JN_CONCAT:  v = concat(r, n); break;
    default:         v = operate(r, n); break;
    }
    r->depth--;
    return v;
}

/* ---- calls --------------------------------------------------------------------------- */

static struct jv make_macro(struct jrun *r, const struct jnode *n)
{
    struct jmacro *m = lm_jalloc(r, 1, sizeof *m);
    m->node = n;
    m->scope = r->scope;
    for (struct jscope *s = r->scope; s && !s->kept; s = s->up)
        s->kept = true;
    return (struct jv){ .kind = J_MACRO, .macro = m };
}

/* What a body renders, as a string. */
static struct jv capture(struct jrun *r, const struct jnode *list, struct jscope *scope)
{
    struct jsb b = JSB(r), *sink = r->sink;
    struct jscope *old = r->scope;
    r->sink = &b;
    r->scope = scope;
    exec(r, list);
    r->scope = old;
    r->sink = sink;
    return lm_jsb_value(&b);
}

/* Arguments left over when the parameters have theirs. */
static void leftovers(struct jrun *r, struct jmacro *m, struct jargs *a, size_t taken,
                      struct jdict *kw, struct jscope *scope)
{
    const struct jstr *s = &m->node->str;
    int n = (int)(s->len < 80 ? s->len : 80);
    struct jv *given = lm_jdict_find(&a->kw, "caller");
    static const struct jstr caller = { "caller", NULL, 6 }, var = { "varargs", NULL, 7 };
    static const struct jstr kwargs = { "kwargs", NULL, 6 };
    if (m->node->op & JM_CALLER)
        bind(r, scope, &caller, given ? *given : lm_jundef);
    if (kw->n && !(m->node->op & JM_KWARGS))
        lm_jfail(r, given && !(m->node->op & JM_CALLER) && kw->n == 1
                 ? "macro '%.*s' was invoked with two values for the special caller argument"
                 : "macro '%.*s' takes no such keyword argument", n, s->p);
    if (m->node->op & JM_KWARGS)
        bind(r, scope, &kwargs, (struct jv){ .kind = J_DICT, .d = kw });
    if (taken < a->n && !(m->node->op & JM_VARARGS))
        lm_jfail(r, "macro '%.*s' takes not more than %zu argument(s)", n, s->p, taken);
    if (m->node->op & JM_VARARGS) {
        struct jv rest = lm_jlist(r, J_TUPLE);
        for (size_t i = taken; i < a->n; i++)
            lm_jpush(r, rest.l, a->pos[i]);
        bind(r, scope, &var, rest);
    }
}

static struct jv call_macro(struct jrun *r, struct jmacro *m, struct jargs *a)
{
    struct jscope *scope = new_scope(r, m->scope), *old = r->scope;
    struct jdict *kw = lm_jalloc(r, 1, sizeof *kw);
    size_t taken = 0;
    for (size_t i = 0; i < a->kw.n; i++) {
        struct jv key = a->kw.e[i].key;
        bool used = m->node->op & JM_CALLER && lm_jstr_is(key.s, "caller");
        for (const struct jnode *p = m->node->params; p && !used; p = p->next)
            used = p->str.len == key.s->len && !memcmp(p->str.p, key.s->p, key.s->len);
        if (!used)
            lm_jdict_put(r, kw, key, a->kw.e[i].value);
    }
    r->scope = scope;
    for (const struct jnode *p = m->node->params; p; p = p->next)
        bind(r, scope, &p->str, undefined(r, &p->str));  /* not an outer name, in defaults */
    for (const struct jnode *p = m->node->params; p; p = p->next) {
        struct jv key = { .kind = J_STR, .s = &p->str }, *v = lm_jdict_get(r, &a->kw, key);
        if (v && taken < a->n)
            lm_jfail(r, "macro got multiple values for argument '%.*s'",
                     (int)(p->str.len < 80 ? p->str.len : 80), p->str.p);
        if (taken < a->n || v || p->a)
            bind(r, scope, &p->str, taken < a->n ? a->pos[taken] : v ? *v : eval(r, p->a));
        taken += taken < a->n;
    }
    r->scope = old;
    leftovers(r, m, a, taken, kw, scope);
    return capture(r, m->node->list, scope);
}

static void loop_over(struct jrun *r, const struct jnode *n, struct jv over, int depth);

/* loop(items) in a recursive loop. */
static struct jv call_loop(struct jrun *r, struct jloop *l, struct jargs *a)
{
    if (!l->node)
        lm_jfail(r, "The loop must have the 'recursive' marker to be called recursively.");
    if (a->n != 1)
        lm_jfail(r, "loop() takes 1 argument");
    struct jsb b = JSB(r), *sink = r->sink;
    struct jscope *old = r->scope;
    r->sink = &b;
    r->scope = l->scope;
    loop_over(r, l->node, a->pos[0], l->depth + 1);
    r->scope = old;
    r->sink = sink;
    return lm_jsb_value(&b);
}

static struct jv call_value(struct jrun *r, struct jv f, struct jargs *a)
{
    struct jv v = lm_jundef;
    lm_jdeeper(r);
    r->calls++;
    switch (f.kind) {
    case J_MACRO:  v = call_macro(r, f.macro, a); break;
    case J_LOOP:   v = call_loop(r, f.loop, a); break;
    case J_FUNC:   v = f.func->call(r, a); break;
    case J_METHOD:
        lm_jread(r, f.method->self);
        v = f.method->row->call(r, f.method->self, a);
        break;
    case J_JOINER:
        v = f.cycler->i++ ? f.cycler->items.v[0] : lm_jcstr(r, "");
        break;
    case J_UNDEF:  lm_jundef_fail(r, f);
    default:       lm_jfail(r, "'%s' object is not callable", lm_jtype(f));
    }
    r->calls--;
    r->depth--;
    return v;
}

/* ---- statements ------------------------------------------------------------------------ */

/* The items that the loop's condition lets through. */
static struct jlist *wanted_items(struct jrun *r, const struct jnode *n, struct jlist *all)
{
    if (!n->c)
        return all;
    struct jlist *l = lm_jalloc(r, 1, sizeof *l);
    struct jscope *old = r->scope, *round = NULL;
    for (size_t i = 0; i < all->n; i++) {
        r->scope = round = next_scope(r, round, old);
        assign(r, n->a, all->v[i]);
        if (lm_jtruth(r, eval(r, n->c)))
            lm_jpush(r, l, all->v[i]);
    }
    r->scope = old;
    return l;
}

static void loop_over(struct jrun *r, const struct jnode *n, struct jv over, int depth)
{
    static const struct jstr loop_name = { "loop", NULL, 4 };
    struct jscope *outer = r->scope, *round = NULL;
    r->pos = n->b->pos;
    struct jlist *all = wanted_items(r, n, lm_jiter(r, over));
    struct jloop *l = lm_jalloc(r, 1, sizeof *l);
    *l = (struct jloop){ .n = all->n, .items = all->v, .depth = depth, .scope = outer,
                         .node = n->op ? n : NULL };
    bool whole = false;                          /* did a round get to its end? else: `else` */
    for (l->i = 0; l->i < l->n; l->i++) {
        r->scope = round = next_scope(r, round, outer);
        bind(r, r->scope, &loop_name, (struct jv){ .kind = J_LOOP, .loop = l });
        assign(r, n->a, all->v[l->i]);
        exec(r, n->list);
        bool stop = r->flow == JR_BREAK;
        whole |= r->flow == JR_GO;
        r->flow = JR_GO;
        if (stop)
            break;
    }
    r->scope = outer;
    if (!whole && n->other) {
        r->scope = new_scope(r, outer);
        exec(r, n->other);
        r->scope = outer;
    }
}

static void exec_if(struct jrun *r, const struct jnode *n)
{
    while (n && n->kind == JN_IF) {
        if (lm_jtruth(r, eval(r, n->a))) {
            exec(r, n->list);
            return;
        }
        bool elif = n->other && n->other->kind == JN_IF && !n->other->next;
        if (!elif) {
            exec(r, n->other);
            return;
        }
        n = n->other;
    }
}

static void exec_with(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope, *inner = new_scope(r, outer);
    const struct jnode *value = n->defaults;
    for (const struct jnode *p = n->params; p; p = p->next, value = value->next) {
        struct jv v = eval(r, value);
        bind(r, inner, &p->str, v);
    }
    r->scope = inner;
    exec(r, n->list);
    r->scope = outer;
}

static void exec_call_block(struct jrun *r, const struct jnode *n)
{
    struct jargs a = { 0 };
    struct jv f = eval(r, n->a->a);
    arguments(r, n->a->list, &a);
    lm_jdict_put(r, &a.kw, lm_jcstr(r, "caller"), make_macro(r, n));
    r->pos = n->pos;
    lm_jprint(r->sink, call_value(r, f, &a));
}

static void exec_generation(struct jrun *r, const struct jnode *n)
{
    struct jscope *outer = r->scope;
    struct jsb *sink = r->sink;
    const size_t from = sink->len;
    r->scope = new_scope(r, outer);
    exec(r, n->list);
    r->scope = outer;
    lm_jsb_mark(sink, from, LM_JMARK_SAID);
}

/* A block whose text is caught: what `set` and `filter` have in common. */
static void exec_block(struct jrun *r, const struct jnode *n)
{
    struct jv v = capture(r, n->list, new_scope(r, r->scope));
    const struct jnode *f = n->kind == JN_SET_BLOCK ? n->b : n->a;
    if (f)
        v = filter(r, f, &v);
    if (n->kind == JN_SET_BLOCK)
        assign(r, n->a, v);
    else if (v.kind != J_STR)
        lm_jfail(r, "sequence item: expected str instance, %s found", lm_jtype(v));
    else
        lm_jprint(r->sink, v);
}

static void exec_one(struct jrun *r, const struct jnode *n)
{
    switch (n->kind) {
    case JN_TEXT:  lm_jsb_str(r->sink, &n->str); break;
    case JN_PRINT: lm_jprint(r->sink, eval(r, n->a)); break;
    case JN_IF:    exec_if(r, n); break;
    case JN_FOR:   loop_over(r, n, eval(r, n->b), 1); break;
    case JN_SET:   assign(r, n->a, eval(r, n->b)); break;
    case JN_MACRO: bind(r, r->scope, &n->str, make_macro(r, n)); break;
    case JN_CALL_BLOCK: exec_call_block(r, n); break;
    case JN_WITH:  exec_with(r, n); break;
    case JN_SET_BLOCK: case JN_FILTER_BLOCK: exec_block(r, n); break;
    case JN_GENERATION: exec_generation(r, n); break;
    case JN_BREAK:    r->flow = JR_BREAK; break;
    case JN_CONTINUE: r->flow = JR_CONTINUE; break;
    default: lm_jfail(r, "no loader for this environment specified");
    }
}

static void exec(struct jrun *r, const struct jnode *n)
{
    lm_jdeeper(r);
    for (; n && r->flow == JR_GO; n = n->next) {
        lm_jstep(r, 1);
        r->pos = n->pos;
        exec_one(r, n);
    }
    r->depth--;
}

void lm_jrun_template(struct jrun *r)
{
    exec(r, r->t->body);
}
