/* SPDX-License-Identifier: MIT */
/* Tests: what stands behind `is`. */

#include "template/jinja.h"

#define TEST(name) static bool name(struct jrun *r, struct jv v, struct jargs *a)
#define KIND(name, condition) TEST(name) { no_arguments(r, a); return condition; }

static void no_arguments(struct jrun *r, const struct jargs *a)
{
    if (a->n || a->kw.n)
        lm_jfail(r, "this test takes no argument: 1 was given");
}

KIND(t_defined, v.kind != J_UNDEF)
KIND(t_undefined, v.kind == J_UNDEF)
KIND(t_none, v.kind == J_NONE)
KIND(t_string, v.kind == J_STR)
KIND(t_boolean, v.kind == J_BOOL)
KIND(t_true, v.kind == J_BOOL && v.b)
KIND(t_false, v.kind == J_BOOL && !v.b)
KIND(t_number, lm_jis_num(v))
KIND(t_integer, v.kind == J_INT || v.kind == J_BIG)
KIND(t_float, v.kind == J_FLOAT)
KIND(t_mapping, v.kind == J_DICT)
KIND(t_iterable, lm_jiterable(v))
KIND(t_sequence, v.kind == J_UNDEF || (v.kind >= J_STR && v.kind <= J_TUPLE) || v.kind == J_DICT ||
                 v.kind == J_RANGE)
KIND(t_callable, v.kind == J_MACRO || v.kind == J_FUNC || v.kind == J_METHOD || v.kind == J_LOOP ||
                 v.kind == J_JOINER || v.kind == J_UNDEF)
KIND(t_escaped, v.kind == J_STR && v.sub)

static struct jv only(struct jrun *r, struct jargs *a)
{
    struct jv *arg[1];
    lm_jtake(r, "test", a, "other", arg);
    if (!arg[0])
        lm_jfail(r, "the test lacks its argument");
    return *arg[0];
}

#define COMPARE(name, op) TEST(name) { return lm_jtruth(r, lm_jbinary(r, op, v, only(r, a))); }
COMPARE(t_eq, JO_EQ)
COMPARE(t_ne, JO_NE)
COMPARE(t_lt, JO_LT)
COMPARE(t_le, JO_LE)
COMPARE(t_gt, JO_GT)
COMPARE(t_ge, JO_GE)
COMPARE(t_in, JO_IN)

static bool rest_is(struct jrun *r, struct jv v, int64_t by, int64_t want)
{
    return lm_jequal(r, lm_jbinary(r, JO_MOD, v, lm_jint(by)), lm_jint(want));
}

TEST(t_odd)  { (void)a; return rest_is(r, v, 2, 1); }
TEST(t_even) { (void)a; return rest_is(r, v, 2, 0); }

TEST(t_divisibleby)
{
    return lm_jequal(r, lm_jbinary(r, JO_MOD, v, only(r, a)), lm_jint(0));
}

TEST(t_sameas)
{
    struct jv o = only(r, a);
    if (v.kind != o.kind)
        return false;
    bool simple = v.kind == J_NONE || v.kind == J_BOOL || v.kind == J_INT || v.kind == J_STR;
    return simple ? lm_jequal(r, v, o) : v.l == o.l;
}

static bool string_is(struct jrun *r, struct jv v, const char *method)
{
    struct jargs none = { 0 };
    return lm_jtruth(r, lm_jcall_method(r, lm_jto_str(r, v), method, &none));
}

TEST(t_lower) { (void)a; return string_is(r, v, "islower"); }
TEST(t_upper) { (void)a; return string_is(r, v, "isupper"); }

/* Names are looked up in a dict of Python's. */
static void need_hashable(struct jrun *r, struct jv v)
{
    if (v.kind == J_LIST || v.kind == J_DICT)
        lm_jfail(r, "unhashable type: '%s'", lm_jtype(v));
}

TEST(t_filter)
{
    (void)a;
    need_hashable(r, v);
    return v.kind == J_STR && lm_jfilter_find(v.s);
}

TEST(t_test)
{
    (void)a;
    need_hashable(r, v);
    return v.kind == J_STR && lm_jtest_find(v.s);
}

static const struct {
    const char *name;
    jtest      *test;
} tests[] = {
    { "!=", t_ne }, { "<", t_lt }, { "<=", t_le }, { "==", t_eq }, { ">", t_gt }, { ">=", t_ge },
    { "boolean", t_boolean }, { "callable", t_callable }, { "defined", t_defined },
    { "divisibleby", t_divisibleby }, { "eq", t_eq }, { "equalto", t_eq }, { "escaped", t_escaped },
    { "even", t_even }, { "false", t_false }, { "filter", t_filter }, { "float", t_float },
    { "ge", t_ge }, { "greaterthan", t_gt }, { "gt", t_gt }, { "in", t_in },
    { "integer", t_integer }, { "iterable", t_iterable }, { "le", t_le }, { "lessthan", t_lt },
    { "lower", t_lower }, { "lt", t_lt }, { "mapping", t_mapping }, { "ne", t_ne },
    { "none", t_none }, { "number", t_number }, { "odd", t_odd }, { "sameas", t_sameas },
    { "sequence", t_sequence }, { "string", t_string }, { "test", t_test }, { "true", t_true },
    { "undefined", t_undefined }, { "upper", t_upper },
};

jtest *lm_jtest_find(const struct jstr *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (lm_jstr_is(name, tests[i].name))
            return tests[i].test;
    return NULL;
}
