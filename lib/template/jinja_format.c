/* SPDX-License-Identifier: MIT */
/* Formatting: text % values, and text.format(...). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

enum { MAX_WIDTH = 1 << 20, MAX_PRECISION = 300 };

/* What a field says about its layout. */
struct spec {
    struct jstr fill;
    char        align, sign, type, group;
    bool        alt, zero;
    int64_t     width, precision;    /* precision -1: not said */
};

static const struct jstr space = { " ", NULL, 1 };

/* Text into its field; `split` bytes of it (a sign) stay in front of '=' padding. */
static void pad(struct jsb *b, const struct spec *s, const struct jstr *t, size_t split, char align)
{
    int64_t n = s->width - (int64_t)lm_jchars(t);
    int64_t left = align == '>' ? n : align == '^' ? n / 2 : 0;
    if (n <= 0) {
        lm_jsb_str(b, t);
        return;
    }
    lm_jsb_fill(b, &s->fill, 0, s->fill.len, left);
    if (align == '=') {
        lm_jsb_add(b, t->p, t->mark, split);
        lm_jsb_fill(b, &s->fill, 0, s->fill.len, n);
        lm_jsb_add(b, t->p + split, t->mark ? t->mark + split : NULL, t->len - split);
        return;
    }
    lm_jsb_str(b, t);
    lm_jsb_fill(b, &s->fill, 0, s->fill.len, align == '>' ? 0 : n - left);
}

/* Digits with a separator between groups of three. */
static void group_digits(struct jsb *to, const char *digits, size_t n, char sep)
{
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0 && sep)
            lm_jsb_add(to, &sep, NULL, 1);
        lm_jsb_add(to, digits + i, NULL, 1);
    }
}

/* The magnitude of a whole number in a base. */
static void whole_digits(struct jsb *b, struct jv v, char type)
{
    struct jrun *r = b->r;
    char text[72];
    uint64_t m = 0;
    bool neg = v.kind == J_INT && v.i < 0;
    if (v.kind == J_BIG) {
        if (type != 'd')
            lm_junsupported(r, "a number of more than 64 bits in another form than 'd'");
        struct jsb all = JSB(r);
        lm_jbig_text(&all, v.big);
        lm_jsb_add(b, all.p + v.big->neg, NULL, all.len - v.big->neg);
        return;
    }
    m = v.kind == J_BOOL ? v.b : neg ? 0 - (uint64_t)v.i : (uint64_t)v.i;
    if (type == 'b') {
        int n = 64 - (m ? __builtin_clzll(m) : 63);
        for (int i = 0; i < n; i++)
            text[i] = (char)('0' + (m >> (n - 1 - i) & 1));
        text[n] = 0;
    } else {
        const char *fmt = type == 'x' ? "%" PRIx64 : type == 'X' ? "%" PRIX64
                        : type == 'o' ? "%" PRIo64 : "%" PRIu64;
        snprintf(text, sizeof text, fmt, m);
    }
    lm_jsb_lit(b, text);
}

static bool is_negative(struct jv v)
{
    return v.kind == J_INT ? v.i < 0 : v.kind == J_BIG ? v.big->neg
                           : v.kind == J_FLOAT && signbit(v.f) && !isnan(v.f);
}

static const char *sign_of(const struct spec *s, struct jv v)
{
    return is_negative(v) ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

static struct jv truncated(struct jrun *r, struct jv v)
{
    if (v.kind != J_FLOAT)
        return v;
    if (!isfinite(v.f) || fabs(v.f) >= 9e18)
        lm_jfail(r, "cannot convert this float to an integer");
    return lm_jint((int64_t)v.f);
}

static void format_whole(struct jsb *b, const struct spec *s, struct jv v, char type)
{
    struct jsb t = JSB(b->r), digits = JSB(b->r);
    lm_jsb_lit(&t, sign_of(s, v));
    if (s->alt && type != 'd') {
        char prefix[3] = { '0', type, 0 };
        lm_jsb_lit(&t, prefix);
    }
    size_t split = t.len;
    whole_digits(&digits, v, type);
    if (s->precision > 0 && (int64_t)digits.len < s->precision) {
        static const struct jstr zero = { "0", NULL, 1 };
        lm_jsb_fill(&t, &zero, 0, 1, s->precision - (int64_t)digits.len);
    }
    group_digits(&t, digits.p, digits.len, s->group);
    struct jstr all = { t.p, NULL, t.len };
    pad(b, s, &all, split, s->align ? s->align : '>');
}

static void format_real(struct jsb *b, const struct spec *s, struct jv v, char type)
{
    char text[700];
    double f = lm_jnumber(b->r, v);
    int prec = s->precision < 0 ? 6 : s->precision > MAX_PRECISION ? MAX_PRECISION
                                                                     : (int)s->precision;
    struct jsb t = JSB(b->r);
    lm_jsb_lit(&t, sign_of(s, lm_jfloat(f)));
    size_t split = t.len, whole;
    f = fabs(f);
    if (!type && s->precision < 0) {
        lm_jfloat_text(text, f);
    } else {
        char fmt[] = "%.*f";
        fmt[3] = type == '%' ? 'f' : type && type != 'n' ? type : 'g';
        snprintf(text, sizeof text, fmt, prec, type == '%' ? f * 100 : f);
    }
    whole = strspn(text, "0123456789");
    if (whole)
        group_digits(&t, text, whole, s->group);
    lm_jsb_lit(&t, text + whole);
    if (type == '%')
        lm_jsb_lit(&t, "%");
    struct jstr all = { t.p, NULL, t.len };
    pad(b, s, &all, split, s->align ? s->align : '>');
}

static void format_text(struct jsb *b, const struct spec *s, struct jv text, char align)
{
    struct jstr t = *text.s;
    if (s->precision >= 0)
        t.len = lm_jchar_at(&t, (size_t)s->precision);
    pad(b, s, &t, 0, s->align && s->align != '=' ? s->align : align);
}

/* ---- % ---------------------------------------------------------------------------------- */

struct percent {
    struct jrun       *r;
    const struct jstr *fmt;
    size_t             i;
    struct jv          args;
    size_t             used;
};

static struct jv next_arg(struct percent *p)
{
    bool many = p->args.kind == J_TUPLE;
    size_t n = many ? p->args.l->n : 1;
    if (p->used >= n)
        lm_jfail(p->r, "not enough arguments for format string");
    p->used++;
    return many ? p->args.l->v[p->used - 1] : p->args;
}

/* A number, or '*' for one from the arguments; -1 when there is none. */
static int64_t size_of(struct percent *p)
{
    int64_t n = -1;
    if (p->i < p->fmt->len && p->fmt->p[p->i] == '*') {
        p->i++;
        n = lm_jindex(p->r, next_arg(p), "%");
    }
    for (; p->i < p->fmt->len && p->fmt->p[p->i] >= '0' && p->fmt->p[p->i] <= '9'; p->i++)
        n = n > MAX_WIDTH ? n : (n < 0 ? 0 : n) * 10 + (p->fmt->p[p->i] - '0');
    if (n > MAX_WIDTH)
        lm_jfail(p->r, "a field is wider than %d", MAX_WIDTH);
    return n;
}

/* "(name)" behind the %: the value of that key. */
static bool named_arg(struct percent *p, struct jv *v)
{
    const struct jstr *f = p->fmt;
    if (p->i >= f->len || f->p[p->i] != '(')
        return false;
    const char *end = memchr(f->p + p->i, ')', f->len - p->i);
    if (!end)
        lm_jfail(p->r, "incomplete format key");
    if (p->args.kind != J_DICT)
        lm_jfail(p->r, "format requires a mapping");
    struct jv key = lm_jslice(p->r, f, p->i + 1, (size_t)(end - f->p));
    const struct jv *found = lm_jdict_get(p->r, p->args.d, key);
    if (!found)
        lm_jfail(p->r, "KeyError: '%.*s'", (int)(key.s->len < 80 ? key.s->len : 80), key.s->p);
    *v = *found;
    p->i = (size_t)(end - f->p) + 1;
    return true;
}

static void percent_value(struct percent *p, struct jsb *b, struct spec *s, struct jv v, char type)
{
    char align = s->align ? s->align : '>';
    struct jsb t = JSB(p->r);
    switch (type) {
    case 's': format_text(b, s, lm_jto_str(p->r, v), align); return;
    case 'r': case 'a':
        lm_jrepr(&t, v);
        format_text(b, s, lm_jsb_value(&t), align);
        return;
    case 'c':
        if (v.kind == J_INT && v.i >= 0 && v.i < 0x110000 && (v.i < 0xD800 || v.i > 0xDFFF))
            lm_jsb_rune(&t, (uint32_t)v.i, false);
        else
            lm_jsb_str(&t, lm_jneed_str(p->r, v, "%c"));
        format_text(b, s, lm_jsb_value(&t), align);
        return;
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
        if (v.kind == J_UNDEF)
            lm_jundef_fail(p->r, v);
        if (!lm_jis_num(v) || (v.kind == J_FLOAT && strchr("xXo", type)))
            lm_jfail(p->r, "%%%c format: a real number is required, not %s", type, lm_jtype(v));
        format_whole(b, s, truncated(p->r, v), type == 'i' || type == 'u' ? 'd' : type);
        return;
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        format_real(b, s, v, type);
        return;
    default:
        lm_jfail(p->r, "unsupported format character '%c' (0x%x) at index %zu",
                 type > 31 && type < 127 ? type : '?', (unsigned char)type, p->i - 1);
    }
}

static void percent_field(struct percent *p, struct jsb *b)
{
    struct spec s = { .fill = space, .precision = -1 };
    struct jv v = lm_jundef;
    bool named = named_arg(p, &v);
    for (; p->i < p->fmt->len && strchr("#0- +", p->fmt->p[p->i]) && p->fmt->p[p->i]; p->i++) {
        char c = p->fmt->p[p->i];
        s.alt |= c == '#';
        s.zero |= c == '0';
        if (c == '-')
            s.align = '<';
        if (c == '+' || (c == ' ' && !s.sign))
            s.sign = c;
    }
    s.width = size_of(p);
    if (p->i < p->fmt->len && p->fmt->p[p->i] == '.') {
        p->i++;
        s.precision = size_of(p);
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    while (p->i < p->fmt->len && p->fmt->p[p->i] && strchr("hlL", p->fmt->p[p->i]))
        p->i++;
    if (p->i >= p->fmt->len)
        lm_jfail(p->r, "incomplete format");
    char type = p->fmt->p[p->i++];
    if (type == '%') {
        lm_jsb_lit(b, "%");
        return;
    }
    if (s.zero && !s.align && !strchr("srac", type)) {
        static const struct jstr zero = { "0", NULL, 1 };
        s.fill = zero;
        s.align = '=';
    }
    percent_value(p, b, &s, named ? v : next_arg(p), type);
}

struct jv lm_jpercent(struct jrun *r, const struct jstr *fmt, struct jv args)
{
    struct jsb b = JSB(r);
    struct percent p = { .r = r, .fmt = fmt, .args = args };
    while (p.i < fmt->len) {
        const char *next = memchr(fmt->p + p.i, '%', fmt->len - p.i);
        size_t to = next ? (size_t)(next - fmt->p) : fmt->len;
        lm_jsb_add(&b, fmt->p + p.i, fmt->mark ? fmt->mark + p.i : NULL, to - p.i);
        p.i = to + 1;
        if (next)
            percent_field(&p, &b);
    }
    if (args.kind == J_TUPLE && p.used < args.l->n)
        lm_jfail(r, "not all arguments converted during string formatting");
    if (args.kind != J_TUPLE && args.kind != J_DICT && args.kind != J_LIST &&
        args.kind != J_RANGE && args.kind != J_UNDEF && p.used == 0)
        lm_jfail(r, "not all arguments converted during string formatting");
    return lm_jsb_value(&b);
}

/* ---- format ------------------------------------------------------------------------------ */

struct braces {
    struct jrun  *r;
    struct jargs *args;
    int64_t       next;              /* of the fields without a number; -1: they have them */
};

static struct jv field_root(struct braces *f, const struct jstr *name)
{
    struct jrun *r = f->r;
    bool digits = name->len > 0 && name->len < 10;
    int64_t i = 0;
    for (size_t k = 0; k < name->len && digits; k++) {
        digits = name->p[k] >= '0' && name->p[k] <= '9';
        i = i * 10 + (name->p[k] - '0');
    }
    if (name->len && !digits) {
        struct jv key = { .kind = J_STR, .s = name };
        const struct jv *v = lm_jdict_get(r, &f->args->kw, key);
        if (!v)
            lm_jfail(r, "KeyError: '%.*s'", (int)(name->len < 80 ? name->len : 80), name->p);
        return *v;
    }
    if (digits ? f->next > 0 : f->next < 0)
        lm_jfail(r, "cannot switch between manual field specification and automatic field "
                 "numbering");
    if (!digits)
        i = f->next++;
    else
        f->next = -1;
    if ((size_t)i >= f->args->n)
        lm_jfail(r, "Replacement index %" PRId64 " out of range for positional args tuple", i);
    return f->args->pos[i];
}

/* name(.attr | [index])* */
static struct jv field_value(struct braces *f, const struct jstr *name)
{
    struct jrun *r = f->r;
    size_t i = 0;
    while (i < name->len && name->p[i] != '.' && name->p[i] != '[')
        i++;
    struct jv v = field_root(f, lm_jslice(r, name, 0, i).s);
    while (i < name->len) {
        bool dot = name->p[i] == '.';
        size_t from = ++i;
        while (i < name->len && (dot ? name->p[i] != '.' && name->p[i] != '[' : name->p[i] != ']'))
            i++;
        struct jv key = lm_jslice(r, name, from, i);
        i += !dot;
        char *end;
        char num[24] = "";
        if (key.s->len && key.s->len < sizeof num)
            memcpy(num, key.s->p, key.s->len);
        long long index = strtoll(num, &end, 10);
        v = dot ? lm_jattr(r, v, key) : lm_jitem(r, v, *num && !*end ? lm_jint(index) : key);
    }
    return v;
}

static int64_t spec_number(struct jrun *r, const struct jstr *t, size_t *i)
{
    int64_t n = -1;
    for (; *i < t->len && t->p[*i] >= '0' && t->p[*i] <= '9'; ++*i) {
        n = (n < 0 ? 0 : n) * 10 + (t->p[*i] - '0');
        if (n > MAX_WIDTH)
            lm_jfail(r, "a field is wider than %d", MAX_WIDTH);
    }
    return n;
}

static bool take(const struct jstr *t, size_t *i, const char *set, char *out)
{
    if (*i >= t->len || !t->p[*i] || !strchr(set, t->p[*i]))
        return false;
    *out = t->p[(*i)++];
    return true;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static struct spec parse_spec(struct jrun *r, const struct jstr *t)
{
    struct spec s = { .fill = space, .precision = -1 };
    size_t i = 0;
    int k = 0;
    char flag = 0;
    if (t->len)
        lm_jrune(t, 0, &k);
    if (k && (size_t)k < t->len && t->p[k] && strchr("<>=^", t->p[k])) {
        s.fill = (struct jstr){ t->p, t->mark, (size_t)k };
        s.align = t->p[k];
        i = (size_t)k + 1;
    } else {
        take(t, &i, "<>=^", &s.align);
    }
    take(t, &i, "+- ", &s.sign);
    s.alt = take(t, &i, "#", &flag);
    if (take(t, &i, "0", &flag) && !s.align) {
        static const struct jstr zero = { "0", NULL, 1 };
        s.fill = zero;
        s.align = '=';
    }
    s.width = spec_number(r, t, &i);
    take(t, &i, ",_", &s.group);
    if (take(t, &i, ".", &flag) && (s.precision = spec_number(r, t, &i)) < 0)
        lm_jfail(r, "Format specifier missing precision");
    take(t, &i, "sdbcoxXeEfFgGn%", &s.type);
    if (i < t->len)
        lm_jfail(r, "Invalid format specifier");
    return s;
}

static void format_value(struct jsb *b, struct jv v, const struct jstr *spec_text)
{
    struct jrun *r = b->r;
    if (!spec_text->len) {
        lm_jprint(b, v);
        return;
    }
    struct spec s = parse_spec(r, spec_text);
    if (v.kind == J_STR) {
        if (s.type && s.type != 's')
            lm_jfail(r, "Unknown format code '%c' for object of type 'str'", s.type);
        format_text(b, &s, v, '<');
    } else if (lm_jis_num(v)) {
        bool whole = v.kind != J_FLOAT;
        if (s.type == 's')
            lm_jfail(r, "Unknown format code 's' for object of type '%s'", lm_jtype(v));
        if (s.type == 'c') {
            struct jv one = lm_jlist(r, J_TUPLE);
            static const struct jstr pc = { "%c", NULL, 2 };
            lm_jpush(r, one.l, v);
            format_text(b, &s, lm_jpercent(r, &pc, one), '<');
        } else if (whole && (!s.type || strchr("dbxXon", s.type))) {
            format_whole(b, &s, v, s.type && s.type != 'n' ? s.type : 'd');
        } else {
            format_real(b, &s, v, s.type);
        }
    } else {
        lm_jfail(r, "unsupported format string passed to %s.__format__", lm_jtype(v));
    }
}

static void format_into(struct braces *f, struct jsb *b, const struct jstr *fmt, int level);

/* The replacement field in fmt[from..to), without its braces. */
static void field(struct braces *f, struct jsb *b, const struct jstr *fmt, size_t from, size_t to,
                  int level)
{
    struct jrun *r = f->r;
    size_t i = from;
    int square = 0;
    for (; i < to && (square || (fmt->p[i] != '!' && fmt->p[i] != ':')); i++)
        square += fmt->p[i] == '[' ? 1 : fmt->p[i] == ']' ? -square : 0;
    struct jv v = field_value(f, lm_jslice(r, fmt, from, i).s);
    if (i < to && fmt->p[i] == '!') {
        char how = i + 1 < to ? fmt->p[i + 1] : 0;
        struct jsb t = JSB(r);
        if (how != 's' && how != 'r' && how != 'a')
            lm_jfail(r, "Unknown conversion specifier");
        if (how == 's')
            lm_jprint(&t, v);
        else
            lm_jrepr(&t, v);
        v = lm_jsb_value(&t);
        i += 2;
        if (i < to && fmt->p[i] != ':')
            lm_jfail(r, "expected ':' after conversion specifier");
    }
    struct jsb spec = JSB(r);
    if (i < to)
        format_into(f, &spec, lm_jslice(r, fmt, i + 1, to).s, level + 1);
    format_value(b, v, lm_jsb_value(&spec).s);
}

static void format_into(struct braces *f, struct jsb *b, const struct jstr *fmt, int level)
{
    struct jrun *r = f->r;
    if (level > 2)
        lm_jfail(r, "Max string recursion exceeded");
    for (size_t i = 0; i < fmt->len;) {
        char c = fmt->p[i];
        if ((c == '{' || c == '}') && i + 1 < fmt->len && fmt->p[i + 1] == c && level == 1) {
            lm_jsb_add(b, fmt->p + i, fmt->mark ? fmt->mark + i : NULL, 1);
            i += 2;
            continue;
        }
        if (c == '}')
            lm_jfail(r, "Single '}' encountered in format string");
        if (c != '{') {
            lm_jsb_add(b, fmt->p + i, fmt->mark ? fmt->mark + i : NULL, 1);
            i++;
            continue;
        }
        size_t end = i + 1;
        for (int open = 1; open; end++) {
            if (end >= fmt->len)
                lm_jfail(r, "expected '}' before end of string");
            open += fmt->p[end] == '{' ? 1 : fmt->p[end] == '}' ? -1 : 0;
        }
        field(f, b, fmt, i + 1, end - 1, level);
        i = end;
    }
}

struct jv lm_jformat(struct jrun *r, const struct jstr *fmt, struct jargs *a)
{
    struct jsb b = JSB(r);
    struct braces f = { .r = r, .args = a };
    lm_jstep(r, fmt->len);
    format_into(&f, &b, fmt, 1);
    return lm_jsb_value(&b);
}
