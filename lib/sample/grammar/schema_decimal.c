/* SPDX-License-Identifier: MIT */
/*
 * Numbers: decimals of any length, compared exactly, and automata over the digits of those that
 * satisfy bounds and multiples.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "sample/grammar/schema_parts.h"

/* ---- decimals ---- */

bool lm_decimal_read(struct lm_arena *a, const char *text, struct lm_decimal *d)
{
    char *digits = lm_arena_alloc(a, strlen(text) + 1);
    int64_t exponent = 0;
    int32_t n = 0;
    bool point = false;
    if (!digits)
        return false;
    *d = (struct lm_decimal){ .negative = *text == '-', .digits = digits };
    for (text += d->negative; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (n > 0 || *text != '0')
            digits[n++] = *text;
        exponent -= point;
        if (n > 4 * LM_DECIMAL_DIGITS)
            return false;
    }
    if (*text) {
        long long e = strtoll(text + 1, NULL, 10);
        exponent += e > 1000000 ? 1000000 : e < -1000000 ? -1000000 : e;
    }
    while (n > 0 && digits[n - 1] == '0') {
        n--;
        exponent++;
    }
    d->n = n;
    d->exponent = n ? (int32_t)exponent : 0;
    if (n == 0)
        d->negative = false;
    return n == 0 || (exponent >= -LM_DECIMAL_DIGITS && n + exponent <= LM_DECIMAL_DIGITS);
}

bool lm_schema_decimal(struct lm_schema *s, const struct lm_jval *v, struct lm_decimal *d)
{
    if (!lm_decimal_read(s->arena, v->str, d)) {
        lm_schema_fail(s, v, "a number with more than %d digits before or after the point",
                       LM_DECIMAL_DIGITS);
        return false;
    }
    return true;
}

static int cmp_magnitude(const struct lm_decimal *a, const struct lm_decimal *b)
{
    const int32_t x = a->n + a->exponent, y = b->n + b->exponent;
    if (a->n == 0 || b->n == 0)
        return (a->n > 0) - (b->n > 0);
    if (x != y)
        return x < y ? -1 : 1;
    const int32_t n = a->n < b->n ? a->n : b->n;
    const int c = memcmp(a->digits, b->digits, (size_t)n);
    return c ? c : (a->n > n) - (b->n > n);
}

int lm_decimal_cmp(const struct lm_decimal *a, const struct lm_decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? cmp_magnitude(b, a) : cmp_magnitude(a, b);
}

bool lm_decimal_whole(const struct lm_decimal *d)
{
    return d->exponent >= 0;
}

/* Its digits as a number, 0 if that is more than LM_SCHEMA_FACTOR. */
static uint32_t factor_of(const struct lm_decimal *d)
{
    uint32_t v = 0;
    for (int32_t i = 0; i < d->n; i++) {
        v = 10 * v + (uint32_t)(d->digits[i] - '0');
        if (v > LM_SCHEMA_FACTOR)
            return 0;
    }
    return v;
}

int lm_decimal_multiple(const struct lm_decimal *a, const struct lm_decimal *b)
{
    const uint32_t m = factor_of(b);
    uint32_t rest = 0;
    if (m == 0)
        return a->n == 0 ? 1 : lm_decimal_cmp(a, b) == 0 ? 1 : -1;
    if (a->n && a->exponent < b->exponent)        /* a has no zeros at its end */
        return 0;
    for (int32_t i = 0; i < a->n; i++)
        rest = (10 * rest + (uint32_t)(a->digits[i] - '0')) % m;
    for (int32_t i = a->exponent - b->exponent; a->n && i > 0; i--)
        rest = 10 * rest % m;
    return rest == 0;
}

/* ---- what an automaton looks at ---- */

#define DOUBLE_DIGITS 15                 /* that a double tells apart                    */

enum { LESS = 1, EQUAL = 2, GREATER = 4 };

/* Where numbers have to be, compared to a bound. */
struct bound {
    struct lm_decimal d;
    int               allowed;           /* LESS, EQUAL, GREATER                         */
    char             *whole;             /* [n_whole] digits before the point, at least 1 */
    int32_t           n_whole, n_part;   /* and after it                                 */
};

struct multiple {
    struct lm_decimal d;
    uint32_t          factor;            /* of 10^-places                                */
    int32_t           places;
    bool              negated;
};

struct numbers {
    struct lm_schema     *s;
    const struct lm_jval *at;
    bool                  integers, fractions;
    int32_t               most_whole, most_part;     /* digits; -1: any number           */
    size_t                n_bounds, n_multiples, words;
    struct bound         *bounds;
    struct multiple      *multiples;
};

/* A state: the words 0 to 2, one a bound, one a multiple. */
enum { START, MINUS, ZERO, WHOLE, POINT, PART };

#define NEGATIVE 16u                     /* in word 0, with one of the above             */
#define NONZERO  32u                     /* there was a digit above 0                    */
#define BEHIND   64u                     /* there was one behind the point               */

/* A bound's word: what is known so far of the magnitudes, as LESS, EQUAL or GREATER, and how many
 * digits have been read before the point, or behind it (as far as these matter). */
#define KNOWN(w)  ((w) & 7u)
#define PLACE(w)  ((w) >> 3)
#define WORD(known, place) ((uint32_t)(known) | (uint32_t)(place) << 3)

static int digit_behind(const struct bound *b, int32_t place)
{
    const int32_t i = b->d.n + b->d.exponent + place;
    return i < 0 || i >= b->d.n ? 0 : b->d.digits[i] - '0';
}

/* The comparison when the whole part is over. */
static uint32_t at_point(const struct bound *b, uint32_t w)
{
    const int32_t n = (int32_t)PLACE(w);
    return n < b->n_whole ? LESS : n > b->n_whole ? GREATER : KNOWN(w);
}

static uint32_t bound_step(const struct bound *b, uint32_t phase, uint32_t w, int digit)
{
    if (phase != PART) {                          /* a digit of the whole part */
        const int32_t n = (int32_t)PLACE(w);
        if (n >= b->n_whole)
            return WORD(EQUAL, b->n_whole + 1);
        const int mine = b->whole[n] - '0';
        return WORD(KNOWN(w) != EQUAL ? KNOWN(w) : digit < mine ? LESS : digit > mine ? GREATER :
                    EQUAL, n + 1);
    }
    if (KNOWN(w) != EQUAL)
        return w;
    const int32_t n = (int32_t)PLACE(w);
    const int mine = digit_behind(b, n);
    return digit < mine ? WORD(LESS, 0) : digit > mine ? WORD(GREATER, 0) :
           WORD(EQUAL, n < b->n_part ? n + 1 : n);
}

/* Is a number that ends here where the bound wants it? */
static bool bound_holds(const struct bound *b, const uint32_t *key, uint32_t w)
{
    uint32_t known = (key[0] & 15) == PART ? KNOWN(w) : at_point(b, w);
    const int32_t place = (key[0] & 15) == PART ? (int32_t)PLACE(w) : 0;
    if (known == EQUAL && place < b->n_part)
        known = LESS;                             /* the bound has more digits */
    const bool negative = key[0] & NEGATIVE;
    if (negative != b->d.negative && (b->d.n || key[0] & NONZERO))
        known = negative ? LESS : GREATER;
    else if (negative)
        known = known == LESS ? GREATER : known == GREATER ? LESS : EQUAL;
    return known & (uint32_t)b->allowed;
}

static bool multiple_holds(const struct multiple *m, const uint32_t *key, uint32_t rest)
{
    if (rest == m->factor)                        /* too fine */
        return m->negated;
    for (int32_t i = (int32_t)key[2]; i < m->places; i++)
        rest = 10 * rest % m->factor;
    return (rest == 0) != m->negated;
}

static bool ends_here(const struct numbers *x, const uint32_t *key)
{
    const uint32_t phase = key[0] & 15;
    if (phase != ZERO && phase != WHOLE && phase != PART)
        return false;
    if (key[0] & NEGATIVE && !(key[0] & NONZERO))
        return false;                             /* -0 */
    if (!x->integers && !(key[0] & BEHIND))
        return false;
    for (size_t i = 0; i < x->n_bounds; i++)
        if (!bound_holds(&x->bounds[i], key, key[3 + i]))
            return false;
    for (size_t i = 0; i < x->n_multiples; i++)
        if (!multiple_holds(&x->multiples[i], key, key[3 + x->n_bounds + i]))
            return false;
    return true;
}

/* ---- a step ---- */

static bool point_step(const struct numbers *x, uint32_t *key)
{
    const uint32_t phase = key[0] & 15;
    if ((phase != ZERO && phase != WHOLE) || !x->fractions)
        return false;
    key[0] = (key[0] & ~15u) | POINT;
    key[1] = 0;
    for (size_t i = 0; i < x->n_bounds; i++)
        key[3 + i] = WORD(at_point(&x->bounds[i], key[3 + i]), 0);
    return true;
}

static bool digit_step(const struct numbers *x, uint32_t *key, int digit)
{
    const uint32_t phase = key[0] & 15;
    const bool whole = phase == START || phase == MINUS || phase == WHOLE;
    if (phase == ZERO)
        return false;
    const uint32_t next = !whole ? PART : phase != WHOLE && digit == 0 ? ZERO : WHOLE;
    key[0] = (key[0] & ~15u) | next | (digit ? NONZERO : 0) | (digit && !whole ? BEHIND : 0);
    uint32_t *count = &key[whole ? 1 : 2];
    const int32_t most = whole ? x->most_whole : x->most_part;
    if (most >= 0 && (int32_t)++*count > most)
        return false;
    for (size_t i = 0; i < x->n_bounds; i++)
        key[3 + i] = bound_step(&x->bounds[i], next == PART ? PART : WHOLE, key[3 + i], digit);
    for (size_t i = 0; i < x->n_multiples; i++) {
        uint32_t *rest = &key[3 + x->n_bounds + i];
        const struct multiple *m = &x->multiples[i];
        if (whole || (int32_t)key[2] <= m->places)
            *rest = (10 * *rest + (uint32_t)digit) % m->factor;
        else if (digit)
            *rest = m->factor;                    /* too fine, from here on */
    }
    return true;
}

/* Change a state by a byte; false: it cannot follow. */
static bool step(const struct numbers *x, uint32_t *key, char byte)
{
    if (byte == '.')
        return point_step(x, key);
    if (byte != '-')
        return digit_step(x, key, byte - '0');
    if ((key[0] & 15) != START)
        return false;
    key[0] = MINUS | NEGATIVE;
    return true;
}

static bool search(struct numbers *x, struct lm_met *met, struct lm_dfa *d)
{
    uint32_t key[64];
    memset(key, 0, sizeof key);
    for (size_t i = 0; i < x->n_bounds; i++)
        key[3 + i] = WORD(EQUAL, 0);
    if (lm_met_add(met, key) == LM_MANY)
        return false;
    for (uint32_t from = 0; from < met->n && x->s->failed == LM_OK; from++) {
        if (!lm_grow(&d->to, &d->to_cap, (from + 1) * d->n_symbols, sizeof *d->to) ||
            !lm_grow(&d->final, &d->final_cap, from + 1, sizeof *d->final))
            return false;
        d->n = from + 1;
        d->final[from] = ends_here(x, met->keys + from * met->words);
        for (size_t c = 0; c < d->n_symbols; c++) {
            memcpy(key, met->keys + from * met->words, met->words * sizeof *key);
            uint32_t to = LM_MANY;
            if (step(x, key, (char)d->lo[c]) && (to = lm_met_add(met, key)) == LM_MANY)
                return false;
            d->to[from * d->n_symbols + c] = to;
        }
        lm_schema_spend_states(x->s, 1, x->at);
    }
    return true;
}

static void add_symbol(struct lm_dfa *d, unsigned lo, unsigned hi)
{
    d->lo[d->n_symbols] = (uint8_t)lo;
    d->hi[d->n_symbols++] = (uint8_t)hi;
}

/* The digits that nothing tells apart are one symbol: 0, those of bounds, what is between them. */
static void find_symbols(const struct numbers *x, struct lm_dfa *d)
{
    bool cut[11] = { [0] = true, [1] = true, [10] = true };
    for (int c = 0; x->n_multiples && c < 10; c++)
        cut[c] = true;
    for (size_t i = 0; i < x->n_bounds; i++)
        for (int32_t k = 0; k < x->bounds[i].d.n; k++)
            cut[x->bounds[i].d.digits[k] - '0'] = cut[x->bounds[i].d.digits[k] - '0' + 1] = true;
    for (unsigned lo = 0, hi; lo < 10; lo = hi + 1) {
        for (hi = lo; !cut[hi + 1];)
            hi++;
        add_symbol(d, '0' + lo, '0' + hi);
    }
    add_symbol(d, '.', '.');
    add_symbol(d, '-', '-');
}

static struct lm_node *number_graph(struct numbers *x, uint64_t *n)
{
    struct lm_dfa d = { .n_symbols = 0 };
    struct lm_met met = { .words = 3 + x->n_bounds + x->n_multiples };
    struct lm_node *node = NULL;
    find_symbols(x, &d);
    if (x->n_bounds + x->n_multiples > 60) {
        lm_schema_fail(x->s, x->at, "more than 60 bounds at one place");
    } else if (!search(x, &met, &d)) {
        lm_schema_nomem(x->s);
    } else if (x->s->failed == LM_OK && !lm_dfa_reduce(&d)) {
        lm_schema_nomem(x->s);
    } else if (x->s->failed == LM_OK) {
        *n = lm_dfa_count(x->s, &d);
        node = d.n ? lm_dfa_node(x->s, &d, false) : lm_schema_nothing(x->s);
    }
    lm_met_release(&met);
    lm_dfa_release(&d);
    return node;
}

/* ---- from demands ---- */

static bool set_bound(struct numbers *x, const struct lm_atom *a, int allowed)
{
    struct bound *b = &x->bounds[x->n_bounds++];
    if (!lm_schema_decimal(x->s, a->value, &b->d))
        return false;
    const int32_t n = b->d.n + b->d.exponent;
    b->allowed = allowed;
    b->n_whole = n > 1 ? n : 1;
    b->n_part = b->d.exponent < 0 ? -b->d.exponent : 0;
    b->whole = lm_arena_alloc(x->s->arena, (size_t)b->n_whole + 1);
    if (!b->whole) {
        lm_schema_nomem(x->s);
        return false;
    }
    for (int32_t i = 0; i < b->n_whole; i++)
        b->whole[i] = n < 1 || i >= b->d.n ? '0' : b->d.digits[i];
    x->most_whole = b->n_whole > x->most_whole ? b->n_whole : x->most_whole;
    x->most_part = b->n_part > x->most_part ? b->n_part : x->most_part;
    return true;
}

static bool set_multiple(struct numbers *x, const struct lm_atom *a)
{
    struct multiple *m = &x->multiples[x->n_multiples++];
    if (!lm_schema_decimal(x->s, a->value, &m->d))
        return false;
    uint64_t factor = factor_of(&m->d);
    for (int32_t i = 0; i < m->d.exponent && factor; i++)
        factor = 10 * factor > LM_SCHEMA_FACTOR ? 0 : 10 * factor;
    if (!factor) {
        lm_schema_fail(x->s, a->at, "multiples of more than %d, without the point, cannot be "
                       "enforced", LM_SCHEMA_FACTOR);
        return false;
    }
    m->factor = (uint32_t)factor;
    m->places = m->d.exponent < 0 ? -m->d.exponent : 0;
    m->negated = a->negated;
    return true;
}

/* Fewer digits where the multiples allow no more, where counting them takes too much, and where a
 * reader that makes doubles of them would round to a bound that is excluded, or to a whole
 * number that is. */
static void limit_digits(struct numbers *x)
{
    int32_t most = x->integers ? x->most_part : DOUBLE_DIGITS / 2, least = 0;
    for (size_t i = 0; i < x->n_bounds; i++) {
        const struct bound *b = &x->bounds[i];
        least = b->n_part > least ? b->n_part : least;
        if (!(b->allowed & EQUAL) && DOUBLE_DIGITS - b->n_whole < most)
            most = DOUBLE_DIGITS - b->n_whole;
    }
    x->most_part = most > least ? most : least;
    if (!x->integers)
        x->most_whole = DOUBLE_DIGITS - DOUBLE_DIGITS / 2;
    for (size_t i = 0; i < x->n_multiples; i++) {
        const struct multiple *m = &x->multiples[i];
        if (!m->negated && m->places < x->most_part)
            x->most_part = m->places;
        if (m->factor > 1000 && !x->n_bounds)
            x->most_whole = -1;
        x->fractions &= m->negated || m->places > 0;
    }
}

static struct lm_node *make_numbers(struct lm_schema *s, const struct lm_way *w, uint64_t *n)
{
    struct numbers x = { .s = s, .integers = w->types & LM_TYPE_INTEGER,
                         .fractions = w->types & LM_TYPE_FRACTION,
                         .most_whole = LM_SCHEMA_DIGITS, .most_part = LM_SCHEMA_DIGITS };
    x.bounds = lm_arena_array(s->arena, w->n + 1, sizeof *x.bounds);
    x.multiples = lm_arena_array(s->arena, w->n + 1, sizeof *x.multiples);
    if (!x.bounds || !x.multiples)
        lm_schema_nomem(s);
    for (size_t i = 0; i < w->n && s->failed == LM_OK; i++) {
        const struct lm_atom *a = &w->atoms[i];
        x.at = a->types & LM_TYPE_NUMBER ? a->at : x.at;
        if (a->kind == LM_ATOM_MIN)
            set_bound(&x, a, GREATER | (a->strict ? 0 : EQUAL));
        else if (a->kind == LM_ATOM_MAX)
            set_bound(&x, a, LESS | (a->strict ? 0 : EQUAL));
        else if (a->kind == LM_ATOM_NOT_VALUE && a->types & LM_TYPE_NUMBER)
            set_bound(&x, a, LESS | GREATER);
        else if (a->kind == LM_ATOM_MULTIPLE)
            set_multiple(&x, a);
    }
    limit_digits(&x);
    return s->failed == LM_OK ? number_graph(&x, n) : NULL;
}

/* The rule for what is asked of numbers, by the text of it. */
struct asked {
    struct lm_name  text;
    struct lm_node *node;
    uint64_t        n;                   /* numbers, LM_MANY: as many or more            */
};

static void describe(struct lm_buf *b, const struct lm_way *w)
{
    lm_buf_printf(b, "%u", w->types & LM_TYPE_NUMBER);
    for (size_t i = 0; i < w->n; i++) {
        const struct lm_atom *a = &w->atoms[i];
        if (a->types & LM_TYPE_NUMBER && a->value)
            lm_buf_printf(b, " %d%d%d%s", (int)a->kind, a->strict, a->negated, a->value->str);
    }
}

struct lm_node *lm_number_node(struct lm_schema *s, const struct lm_way *w, uint64_t *n)
{
    struct lm_buf b = { 0 };
    uint64_t count = 0;
    const struct asked *known;
    describe(&b, w);
    const struct lm_name text = { lm_arena_copy(s->arena, b.data, b.len), b.len };
    struct asked *fresh = lm_arena_alloc(s->arena, sizeof *fresh);
    const bool good = text.p && fresh && !b.failed;
    lm_buf_release(&b);
    if (!good) {
        lm_schema_nomem(s);
        return NULL;
    }
    const uint64_t hash = lm_lookup_hash(NULL, text);
    for (size_t at = SIZE_MAX; (known = lm_lookup_next(&s->numbers, hash, &at)) != NULL;)
        if (lm_same_name(known->text, text)) {
            if (n)
                *n = known->n;
            return known->node;
        }
    struct lm_node *node = make_numbers(s, w, &count);
    if (n)
        *n = count;
    if (node && s->failed == LM_OK)
        node = lm_schema_rule(s, node);
    *fresh = (struct asked){ text, node, count };
    if (!lm_lookup_add(&s->numbers, hash, fresh))
        lm_schema_nomem(s);
    return s->failed == LM_OK ? node : NULL;
}
