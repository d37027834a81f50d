/* SPDX-License-Identifier: MIT */
/* Filters on lists and dictionaries. */
#include <string.h>

#include "template/jinja.h"

#define FILTER(name) static struct jv name(struct jrun *r, struct jv v, struct jargs *a)

static struct jv make(struct jlist *l, enum jkind kind)
{
    return (struct jv){ .kind = kind, .l = l };
}

/* "a.b.0" or a number: that member of a member. */
static struct jv member(struct jrun *r, struct jv v, const struct jv *path)
{
    if (path->kind != J_STR)
        return lm_jitem(r, v, *path);
    const struct jstr *s = path->s;
    for (size_t from = 0; from <= s->len;) {
        size_t to = from;
        int64_t index = 0;
        while (to < s->len && s->p[to] != '.')
            to++;
        bool number = to > from && to - from < 10;
        for (size_t i = from; i < to && number; i++) {
            number = s->p[i] >= '0' && s->p[i] <= '9';
            index = index * 10 + (s->p[i] - '0');
        }
        v = lm_jitem(r, v, number ? lm_jint(index) : lm_jslice(r, s, from, to));
        from = to + 1;
    }
    return v;
}

static struct jv member_or(struct jrun *r, struct jv v, const struct jv *path,
                           const struct jv *fallback)
{
    struct jv m = member(r, v, path);
    return m.kind == J_UNDEF && fallback ? *fallback : m;
}

/* What strings are compared by when case does not matter. */
static struct jv folded(struct jrun *r, struct jv v, bool sensitive)
{
    return v.kind == J_STR && !sensitive ? lm_jstr_case(r, v.s, JC_LOWER) : v;
}

static bool flag(struct jrun *r, const struct jv *v)
{
    return v && lm_jtruth(r, *v);
}

static bool given(const struct jv *v)
{
    return v && v->kind != J_NONE;
}

FILTER(f_list)
{
    lm_jtake(r, "list", a, "", NULL);
    return make(lm_jiter(r, v), J_LIST);
}

FILTER(f_first)
{
    lm_jtake(r, "first", a, "", NULL);
    if (v.kind == J_GEN && v.l->n) {
        v.l->n--;
        v.l->cap = v.l->n;
        return *v.l->v++;
    }
    struct jlist *l = lm_jiter(r, v);
    return l->n ? l->v[0] : lm_jundef;
}

FILTER(f_last)
{
    lm_jtake(r, "last", a, "", NULL);
    if (v.kind == J_GEN)
        lm_jfail(r, "'generator' object is not reversible");
    struct jlist *l = lm_jiter(r, v);
    return l->n ? l->v[l->n - 1] : lm_jundef;
}

/* Any of them: Jinja2 has it differ from run to run. */
FILTER(f_random)
{
    lm_jtake(r, "random", a, "", NULL);
    struct jlist *l = lm_jiter(r, v);
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return l->n ? l->v[(r->random >> 33) % l->n] : lm_jundef;
}

FILTER(f_reverse)
{
    lm_jtake(r, "reverse", a, "", NULL);
    if (v.kind == J_STR)
        return lm_jsubscript(r, v, lm_jnone, lm_jnone, lm_jint(-1));
    struct jlist *l = lm_jiter(r, v);
    struct jv out = lm_jlist(r, J_GEN);
    for (size_t i = l->n; i-- > 0;)
        lm_jpush(r, out.l, l->v[i]);
    return out;
}

FILTER(f_join)
{
    struct jv *arg[2];
    struct jsb b = JSB(r);
    lm_jtake(r, "join", a, "d attribute", arg);
    struct jlist *l = lm_jiter(r, v);
    for (size_t i = 0; i < l->n; i++) {
        if (i && arg[0])
            lm_jprint(&b, *arg[0]);
        lm_jprint(&b, given(arg[1]) ? member(r, l->v[i], arg[1]) : l->v[i]);
    }
    return lm_jsb_value(&b);
}

/* A copy of a list's items, with what each is compared by. */
struct keyed {
    struct jv *items, *keys;
    size_t     n;
};

static struct keyed keyed(struct jrun *r, struct jv v, const struct jv *attribute, bool sensitive)
{
    struct jlist *l = lm_jiter(r, v);
    struct keyed k = { lm_jalloc(r, l->n, sizeof(struct jv)), lm_jalloc(r, l->n, sizeof(struct jv)),
                       l->n };
    for (size_t i = 0; i < l->n; i++) {
        k.items[i] = l->v[i];
        k.keys[i] = folded(r, given(attribute) ? member(r, l->v[i], attribute) : l->v[i],
                           sensitive);
    }
    return k;
}

/* By an attribute, or several, "a,b": a tuple of them. */
static void tuple_keys(struct jrun *r, struct keyed *k, const struct jv *by, bool sensitive)
{
    static const struct jstr none = { "", NULL, 0 };
    const struct jstr *s = by->kind == J_STR ? by->s : &none;
    for (size_t i = 0; i < k->n; i++) {
        struct jv t = lm_jlist(r, J_TUPLE);
        if (by->kind != J_STR)
            lm_jpush(r, t.l, folded(r, member(r, k->items[i], by), sensitive));
        for (size_t from = 0; by->kind == J_STR && from <= s->len;) {
            const char *comma = memchr(s->p + from, ',', s->len - from);
            size_t to = comma ? (size_t)(comma - s->p) : s->len;
            struct jv path = lm_jslice(r, s, from, to);
            lm_jpush(r, t.l, folded(r, member(r, k->items[i], &path), sensitive));
            from = to + 1;
        }
        k->keys[i] = t;
    }
}

FILTER(f_sort)
{
    struct jv *arg[3];
    lm_jtake(r, "sort", a, "reverse case_sensitive attribute", arg);
    bool sensitive = flag(r, arg[1]);
    struct keyed k = keyed(r, v, NULL, sensitive);
    if (given(arg[2]))
        tuple_keys(r, &k, arg[2], sensitive);
    lm_jsort(r, k.items, k.keys, k.n, flag(r, arg[0]));
    struct jv out = lm_jlist(r, J_LIST);
    *out.l = (struct jlist){ k.items, k.n, k.n };
    return out;
}

static struct jv extreme(struct jrun *r, struct jv v, struct jargs *a, int want)
{
    struct jv *arg[2];
    lm_jtake(r, "min", a, "case_sensitive attribute", arg);
    struct keyed k = keyed(r, v, arg[1], flag(r, arg[0]));
    size_t best = 0;
    for (size_t i = 1; i < k.n; i++)
        if (lm_jorder(r, k.keys[i], k.keys[best], want < 0 ? "<" : ">") == want)
            best = i;
    return k.n ? k.items[best] : lm_jundef;
}

FILTER(f_min) { return extreme(r, v, a, -1); }
FILTER(f_max) { return extreme(r, v, a, 1); }

FILTER(f_unique)
{
    struct jv *arg[2], out = lm_jlist(r, J_GEN), seen = lm_jdict(r);
    lm_jtake(r, "unique", a, "case_sensitive attribute", arg);
    struct keyed k = keyed(r, v, arg[1], flag(r, arg[0]));
    for (size_t i = 0; i < k.n; i++) {
        if (lm_jdict_get(r, seen.d, k.keys[i]))
            continue;
        lm_jdict_put(r, seen.d, k.keys[i], lm_jtrue);
        lm_jpush(r, out.l, k.items[i]);
    }
    return out;
}

FILTER(f_sum)
{
    struct jv *arg[2];
    lm_jtake(r, "sum", a, "attribute start", arg);
    struct jlist *l = lm_jiter(r, v);
    struct jv sum = arg[1] ? *arg[1] : lm_jint(0);
    if (sum.kind == J_STR)
        lm_jfail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    for (size_t i = 0; i < l->n; i++)
        sum = lm_jbinary(r, JO_ADD, sum, given(arg[0]) ? member(r, l->v[i], arg[0]) : l->v[i]);
    return sum;
}

/* ---- filters that apply others ------------------------------------------- */

/* What is false, such as none, has no items to these, and nothing else is looked at. */
FILTER(f_map)
{
    struct jv out = lm_jlist(r, J_GEN);
    if (!lm_jtruth(r, v))
        return out;
    const struct jv *path = lm_jdict_find(&a->kw, "attribute");
    const struct jv *fallback = lm_jdict_find(&a->kw, "default");
    struct jlist *l = lm_jiter(r, v);
    if (!a->n && path) {
        for (size_t i = 0; i < l->n; i++)
            lm_jpush(r, out.l, member_or(r, l->v[i], path, fallback));
        return out;
    }
    if (!a->n)
        lm_jfail(r, "map requires a filter argument");
    const struct jstr *name = lm_jneed_str(r, a->pos[0], "map");
    jfilter *f = lm_jfilter_find(name);
    if (!f)
        lm_jfail(r, "No filter named '%.*s'.", (int)(name->len < 80 ? name->len : 80), name->p);
    lm_jdeeper(r);
    for (size_t i = 0; i < l->n; i++) {
        struct jargs rest = { .pos = a->pos + 1, .n = a->n - 1, .kw = a->kw };
        lm_jpush(r, out.l, f(r, l->v[i], &rest));
    }
    r->depth--;
    return out;
}

/* Those for which a test holds, or does not; with `by`, the test is of a member. */
static struct jv choose(struct jrun *r, struct jv v, struct jargs *a, bool by, bool want)
{
    struct jv out = lm_jlist(r, J_GEN);
    struct jargs rest = { .kw = a->kw };
    jtest *t = NULL;
    if (!lm_jtruth(r, v))
        return out;
    if (by && !a->n)
        lm_jfail(r, "Missing parameter for attribute name");
    if (a->n > by) {
        const struct jstr *name = lm_jneed_str(r, a->pos[by], "select");
        t = lm_jtest_find(name);
        if (!t)
            lm_jfail(r, "No test named '%.*s'.", (int)(name->len < 80 ? name->len : 80), name->p);
        rest.pos = a->pos + by + 1;
        rest.n = a->n - by - 1;
    }
    struct jlist *l = lm_jiter(r, v);
    for (size_t i = 0; i < l->n; i++) {
        struct jv x = by ? member(r, l->v[i], &a->pos[0]) : l->v[i];
        if ((t ? t(r, x, &rest) : lm_jtruth(r, x)) == want)
            lm_jpush(r, out.l, l->v[i]);
    }
    return out;
}

FILTER(f_select)     { return choose(r, v, a, false, true); }
FILTER(f_reject)     { return choose(r, v, a, false, false); }
FILTER(f_selectattr) { return choose(r, v, a, true, true); }
FILTER(f_rejectattr) { return choose(r, v, a, true, false); }

FILTER(f_groupby)
{
    struct jv *arg[3], out = lm_jlist(r, J_LIST);
    lm_jtake(r, "groupby", a, "attribute default case_sensitive", arg);
    if (!arg[0])
        lm_jfail(r, "groupby: by what attribute?");
    bool sensitive = flag(r, arg[2]);
    struct keyed k = keyed(r, v, NULL, true);
    for (size_t i = 0; i < k.n; i++)
        k.keys[i] = folded(r, member_or(r, k.items[i], arg[0], arg[1]), sensitive);
    lm_jsort(r, k.items, k.keys, k.n, false);
    struct jlist *group = NULL;
    for (size_t i = 0; i < k.n; i++) {
        if (!i || !lm_jequal(r, k.keys[i], k.keys[i - 1])) {
            struct jv list = lm_jlist(r, J_LIST);
            struct jv key = member_or(r, k.items[i], arg[0], arg[1]);
            group = list.l;
            lm_jpush(r, out.l, lm_jpair_of(r, key, list));
        }
        lm_jpush(r, group, k.items[i]);
    }
    return out;
}

/* ---- dictionaries -------------------------------------------------------- */

FILTER(f_items)
{
    lm_jtake(r, "items", a, "", NULL);
    struct jv pairs = { .kind = J_VIEW, .sub = 2, .d = v.d };
    if (v.kind == J_UNDEF)
        return lm_jlist(r, J_GEN);
    if (v.kind != J_DICT)
        lm_jfail(r, "Can only get item pairs from a mapping.");
    return make(lm_jiter(r, pairs), J_GEN);
}

FILTER(f_dictsort)
{
    struct jv *arg[3];
    lm_jtake(r, "dictsort", a, "case_sensitive by reverse", arg);
    const struct jstr *by = arg[1] ? lm_jneed_str(r, *arg[1], "dictsort") : NULL;
    bool value = by && lm_jstr_is(by, "value");
    if (by && !value && !lm_jstr_is(by, "key"))
        lm_jfail(r, "You can only sort by either \"key\" or \"value\"");
    if (v.kind == J_UNDEF)
        lm_jundef_fail(r, v);
    if (v.kind != J_DICT)
        lm_jfail(r, "'%s object' has no attribute 'items'", lm_jtype(v));
    struct jv pairs = { .kind = J_VIEW, .sub = 2, .d = v.d };
    struct keyed k = keyed(r, pairs, NULL, true);
    for (size_t i = 0; i < k.n; i++)
        k.keys[i] = folded(r, k.items[i].l->v[value], flag(r, arg[0]));
    lm_jsort(r, k.items, k.keys, k.n, flag(r, arg[2]));
    struct jv out = lm_jlist(r, J_LIST);
    *out.l = (struct jlist){ k.items, k.n, k.n };
    return out;
}

/* ---- cutting ------------------------------------------------------------- */

FILTER(f_batch)
{
    struct jv *arg[2], out = lm_jlist(r, J_GEN), part = lm_jlist(r, J_LIST);
    lm_jtake(r, "batch", a, "linecount fill_with", arg);
    int64_t n = lm_jindex(r, arg[0] ? *arg[0] : lm_jnone, "batch");
    struct jlist *l = lm_jiter(r, v);
    if (n < 1 || n > (int64_t)1 << 20)
        lm_jfail(r, "batch: %lld is no number of items", (long long)n);
    for (size_t i = 0; i < l->n; i++) {
        if (i && part.l->n == (size_t)n) {
            lm_jpush(r, out.l, part);
            part = lm_jlist(r, J_LIST);
        }
        lm_jpush(r, part.l, l->v[i]);
    }
    while (given(arg[1]) && part.l->n && part.l->n < (size_t)n)
        lm_jpush(r, part.l, *arg[1]);
    if (part.l->n)
        lm_jpush(r, out.l, part);
    return out;
}

FILTER(f_slice)
{
    struct jv *arg[2], out = lm_jlist(r, J_GEN);
    lm_jtake(r, "slice", a, "slices fill_with", arg);
    int64_t n = lm_jindex(r, arg[0] ? *arg[0] : lm_jnone, "slice");
    struct jlist *l = lm_jiter(r, v);
    if (n < 1 || n > (int64_t)1 << 20)
        lm_jfail(r, "slice: %lld is no number of slices", (long long)n);
    size_t each = l->n / (size_t)n, more = l->n % (size_t)n, at = 0;
    for (size_t i = 0; i < (size_t)n; i++) {
        struct jv part = lm_jlist(r, J_LIST);
        for (size_t end = at + each + (i < more); at < end; at++)
            lm_jpush(r, part.l, l->v[at]);
        if (given(arg[1]) && i >= more)
            lm_jpush(r, part.l, *arg[1]);
        lm_jpush(r, out.l, part);
    }
    return out;
}

static const struct jfilter_row list_filters[] = {
    { "batch", f_batch }, { "dictsort", f_dictsort }, { "first", f_first },
    { "groupby", f_groupby }, { "items", f_items }, { "join", f_join }, { "last", f_last },
    { "list", f_list }, { "map", f_map }, { "max", f_max }, { "min", f_min },
    { "random", f_random }, { "reject", f_reject }, { "rejectattr", f_rejectattr },
    { "reverse", f_reverse }, { "select", f_select }, { "selectattr", f_selectattr },
    { "slice", f_slice }, { "sort", f_sort }, { "sum", f_sum }, { "unique", f_unique },
    { NULL, NULL },
};

jfilter *lm_jfilter_find(const struct jstr *name)
{
    static const struct jfilter_row *const tables[] = { lm_jfilters_text, list_filters };
    for (size_t t = 0; t < 2; t++)
        for (const struct jfilter_row *f = tables[t]; f->name; f++)
            if (lm_jstr_is(name, f->name))
                return f->call;
    return NULL;
}
