/* SPDX-License-Identifier: MIT */
/* Whole numbers that do not fit 64 bits: sign and magnitude in words of 32 bits.  Slow
 * methods throughout; numbers are limited in size. */
#include <math.h>
#include <string.h>

#include "template/jinja.h"

enum { MAX_WORDS = 2048 };

static struct jbig *make(struct jrun *r, size_t n)
{
    if (n > MAX_WORDS)
        lm_jfail(r, "a whole number is larger than %d bits", MAX_WORDS * 32);
    lm_jstep(r, n);
    struct jbig *b = lm_jalloc(r, 1, sizeof *b + (n + 1) * sizeof *b->w);
    b->n = n;
    return b;
}

static void trim(struct jbig *b)
{
    while (b->n && !b->w[b->n - 1])
        b->n--;
}

/* As int64_t when it fits. */
static struct jv value(struct jbig *b)
{
    trim(b);
    uint64_t m = (b->n > 0 ? b->w[0] : 0) | (uint64_t)(b->n > 1 ? b->w[1] : 0) << 32;
    if (b->n <= 2 && m <= INT64_MAX)
        return lm_jint(b->neg ? -(int64_t)m : (int64_t)m);
    if (b->n <= 2 && b->neg && m == (uint64_t)INT64_MAX + 1)
        return lm_jint(INT64_MIN);
    return (struct jv){ .kind = J_BIG, .big = b };
}

static const struct jbig *widen(struct jrun *r, struct jv v)
{
    if (v.kind == J_BIG)
        return v.big;
    int64_t i = v.kind == J_BOOL ? v.b : v.i;
    uint64_t m = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    struct jbig *b = make(r, 2);
    b->neg = i < 0;
    b->w[0] = (uint32_t)m;
    b->w[1] = (uint32_t)(m >> 32);
    trim(b);
    return b;
}

struct jv lm_jbig_parse(struct jrun *r, const char *digits, size_t n, unsigned base)
{
    struct jbig *b = make(r, n / 8 + n / 32 + 2);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)digits[i];
        uint64_t carry = (uint64_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
        for (size_t k = 0; k < used; k++) {
            carry += (uint64_t)b->w[k] * base;
            b->w[k] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry)
            b->w[used++] = (uint32_t)carry;
        lm_jstep(r, used / 64);
    }
    return value(b);
}

static int cmp_mag(const struct jbig *a, const struct jbig *b)
{
    if (a->n != b->n)
        return a->n > b->n ? 1 : -1;
    for (size_t i = a->n; i-- > 0;)
        if (a->w[i] != b->w[i])
            return a->w[i] > b->w[i] ? 1 : -1;
    return 0;
}

int lm_jbig_cmp(struct jrun *r, struct jv va, struct jv vb)
{
    const struct jbig *a = widen(r, va), *b = widen(r, vb);
    if (a->neg != b->neg)
        return a->neg ? -1 : 1;
    return a->neg ? cmp_mag(b, a) : cmp_mag(a, b);
}

static struct jbig *add_mag(struct jrun *r, const struct jbig *a, const struct jbig *b)
{
    size_t n = a->n > b->n ? a->n : b->n;
    struct jbig *s = make(r, n + 1);
    uint64_t carry = 0;
    for (size_t i = 0; i <= n; i++) {
        carry += (uint64_t)(i < a->n ? a->w[i] : 0) + (i < b->n ? b->w[i] : 0);
        s->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    trim(s);
    return s;
}

/* a - b, a not less than b. */
static struct jbig *sub_mag(struct jrun *r, const struct jbig *a, const struct jbig *b)
{
    struct jbig *s = make(r, a->n);
    int64_t carry = 0;
    for (size_t i = 0; i < a->n; i++) {
        carry += (int64_t)a->w[i] - (i < b->n ? b->w[i] : 0);
        s->w[i] = (uint32_t)carry;
        carry >>= 32;
    }
    trim(s);
    return s;
}

static struct jbig *add(struct jrun *r, const struct jbig *a, const struct jbig *b, bool negate)
{
    bool b_neg = b->neg != negate;
    struct jbig *s;
    if (a->neg == b_neg) {
        s = add_mag(r, a, b);
        s->neg = a->neg;
    } else if (cmp_mag(a, b) >= 0) {
        s = sub_mag(r, a, b);
        s->neg = a->neg;
    } else {
        s = sub_mag(r, b, a);
        s->neg = b_neg;
    }
    s->neg = s->neg && s->n;
    return s;
}

static struct jbig *mul(struct jrun *r, const struct jbig *a, const struct jbig *b)
{
    struct jbig *p = make(r, a->n + b->n);
    lm_jstep(r, a->n * b->n / 16);
    for (size_t i = 0; i < a->n; i++) {
        uint64_t carry = 0;
        for (size_t k = 0; k < b->n || carry; k++) {
            carry += p->w[i + k] + (k < b->n ? (uint64_t)a->w[i] * b->w[k] : 0);
            p->w[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
    }
    trim(p);
    p->neg = a->neg != b->neg && p->n;
    return p;
}

/* Quotient and remainder of the magnitudes, bit by bit. */
static struct jbig *div_mag(struct jrun *r, const struct jbig *a, const struct jbig *b,
                            struct jbig **rest)
{
    struct jbig *q = make(r, a->n), *m = make(r, b->n + 1);
    lm_jstep(r, a->n * b->n);
    m->n = 0;
    for (size_t bit = a->n * 32; bit-- > 0;) {
        uint32_t carry = a->w[bit / 32] >> bit % 32 & 1;
        for (size_t i = 0; i < m->n; i++) {
            uint32_t top = m->w[i] >> 31;
            m->w[i] = m->w[i] << 1 | carry;
            carry = top;
        }
        if (carry)
            m->w[m->n++] = carry;
        if (cmp_mag(m, b) < 0)
            continue;
        int64_t borrow = 0;
        for (size_t i = 0; i < m->n; i++) {
            borrow += (int64_t)m->w[i] - (i < b->n ? b->w[i] : 0);
            m->w[i] = (uint32_t)borrow;
            borrow >>= 32;
        }
        trim(m);
        q->w[bit / 32] |= 1u << bit % 32;
    }
    trim(q);
    *rest = m;
    return q;
}

/* Rounding down, as Python's // and %. */
static struct jbig *floor_div(struct jrun *r, const struct jbig *a, const struct jbig *b,
                              struct jbig **rest)
{
    if (!b->n)
        lm_jfail(r, "integer division or modulo by zero");
    struct jbig *q = div_mag(r, a, b, rest);
    q->neg = a->neg != b->neg && q->n;
    (*rest)->neg = a->neg && (*rest)->n;
    if ((*rest)->n && a->neg != b->neg) {
        struct jbig *one = make(r, 1);
        one->w[0] = 1;
        q = add(r, q, one, true);
        *rest = add(r, *rest, b, false);
    }
    return q;
}

static struct jbig *power(struct jrun *r, const struct jbig *a, int64_t e)
{
    struct jbig *p = make(r, 1), *base = mul(r, a, p);
    p->w[0] = 1;
    base = add(r, a, base, false);
    while (e > 0) {
        if (e & 1)
            p = mul(r, p, base);
        e >>= 1;
        if (e)
            base = mul(r, base, base);
    }
    return p;
}

struct jv lm_jbig_op(struct jrun *r, enum jop op, struct jv va, struct jv vb)
{
    const struct jbig *a = widen(r, va), *b = widen(r, vb);
    struct jbig *rest, *q;
    switch (op) {
    case JO_ADD: return value(add(r, a, b, false));
    case JO_SUB: return value(add(r, a, b, true));
    case JO_MUL: return value(mul(r, a, b));
    case JO_FLOORDIV: return value(floor_div(r, a, b, &rest));
    case JO_MOD:
        q = floor_div(r, a, b, &rest);
        (void)q;
        return value(rest);
    default:
        if (vb.kind == J_BIG)
            lm_jfail(r, "the exponent is too large");
        return value(power(r, a, vb.kind == J_BOOL ? vb.b : vb.i));
    }
}

double lm_jbig_f64(const struct jbig *b)
{
    /* The upper 64 bits, the last of them standing for all that is lower: rounds right. */
    double f = 0;
    size_t bits = lm_jbig_bits(b), low = bits > 64 ? bits - 64 : 0;
    uint64_t top = 0;
    bool sticky = false;
    for (size_t i = bits; i-- > 0;) {
        unsigned bit = b->w[i / 32] >> i % 32 & 1;
        if (i >= low)
            top = top << 1 | bit;
        else
            sticky |= bit;
    }
    f = ldexp((double)(top | sticky), (int)low);
    return b->neg ? -f : f;
}

size_t lm_jbig_bits(const struct jbig *b)
{
    return b->n ? 32 * b->n - (size_t)__builtin_clz(b->w[b->n - 1]) : 0;
}

void lm_jbig_text(struct jsb *out, const struct jbig *b)
{
    struct jrun *r = out->r;
    size_t cap = b->n * 10 + 2, at = cap;
    char *text = lm_jalloc(r, cap, 1);
    struct jbig *m = make(r, b->n);
    memcpy(m->w, b->w, b->n * sizeof *b->w);
    lm_jstep(r, b->n * b->n / 8);
    while (m->n) {
        uint64_t rest = 0;
        for (size_t i = m->n; i-- > 0;) {
            rest = rest << 32 | m->w[i];
            m->w[i] = (uint32_t)(rest / 1000000000);
            rest %= 1000000000;
        }
        trim(m);
        for (int k = 0; k < 9 && (m->n || rest); k++, rest /= 10)
            text[--at] = (char)('0' + rest % 10);
    }
    if (b->neg)
        text[--at] = '-';
    lm_jsb_add(out, text + at, NULL, cap - at);
}
