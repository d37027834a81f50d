/* SPDX-License-Identifier: MIT */
#include "vocab/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode_form.h"

#ifdef LM_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

#define LU (LM_U_L | LM_U_UPPER | LM_U_WORD)
#define LL (LM_U_L | LM_U_LOWER | LM_U_WORD)
#define ND (LM_U_N | LM_U_ND | LM_U_WORD)
#define SP LM_U_SPACE
#define PO LM_U_P
#define SM LM_U_S
#define PC (LM_U_P | LM_U_WORD)

/* The general categories of ASCII: Lu Ll Nd, Po and its kin, Sm Sc Sk, Pc for '_'. */
const uint16_t lm_uni_ascii[128] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  SP, SP, SP, SP, SP, 0,  0,
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
    SP, PO, PO, PO, SM, PO, PO, PO, PO, PO, PO, SM, PO, PO, PO, PO,
    ND, ND, ND, ND, ND, ND, ND, ND, ND, ND, PO, PO, SM, SM, SM, PO,
    PO, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU,
    LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, LU, PO, PO, PO, SM, PC,
    SM, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL,
    LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, LL, PO, SM, PO, SM, 0,
};

static bool wide_space(uint32_t r)
{
    return r == 0x85 || r == 0xA0 || r == 0x1680 || (r >= 0x2000 && r <= 0x200A) ||
           r == 0x2028 || r == 0x2029 || r == 0x202F || r == 0x205F || r == 0x3000;
}

bool lm_remap_add(struct lm_remap *m, size_t at, size_t from)
{
    if (!lm_grow(&m->e, &m->cap, m->n + 1, sizeof *m->e))
        return false;
    m->e[m->n++] = (struct lm_remap_at){ at, from };
    return true;
}

void lm_remap_trim(struct lm_remap *m)
{
    if (m->cursor < m->n / 2 || !m->cursor)
        return;                                  /* not worth moving the rest */
    m->n -= m->cursor;
    memmove(m->e, m->e + m->cursor, m->n * sizeof *m->e);
    m->cursor = 0;
}

size_t lm_remap_find(struct lm_remap *m, size_t at)
{
    if (!m->n)
        return at;
    if (m->cursor >= m->n)
        m->cursor = m->n - 1;
    while (m->cursor > 0 && m->e[m->cursor].at > at)
        m->cursor--;
    while (m->cursor + 1 < m->n && m->e[m->cursor + 1].at <= at)
        m->cursor++;
    const struct lm_remap_at *e = &m->e[m->cursor];
    size_t from = e->from + (at - e->at);
    if (m->cursor + 1 < m->n && from > e[1].from)
        from = e[1].from;
    return from;
}

size_t lm_remap_end(struct lm_remap *m, size_t at)
{
    size_t from = lm_remap_find(m, at), i = m->cursor;
    if (!m->n || m->e[i].at != at)
        return from;
    while (i > 0 && m->e[i - 1].at == at)
        i--;
    return m->e[i].from;
}

/* Scripts.txt, lines "Han". */
const uint32_t lm_uni_han_ranges[LM_HAN_RANGES][2] = {
    { 0x2E80, 0x2E99 },   { 0x2E9B, 0x2EF3 },   { 0x2F00, 0x2FD5 },   { 0x3005, 0x3005 },
    { 0x3007, 0x3007 },   { 0x3021, 0x3029 },   { 0x3038, 0x303B },   { 0x3400, 0x4DBF },
    { 0x4E00, 0x9FFF },   { 0xF900, 0xFA6D },   { 0xFA70, 0xFAD9 },   { 0x16FE2, 0x16FE3 },
    { 0x16FF0, 0x16FF1 }, { 0x20000, 0x2A6DF }, { 0x2A700, 0x2B739 }, { 0x2B740, 0x2B81D },
    { 0x2B820, 0x2CEA1 }, { 0x2CEB0, 0x2EBE0 }, { 0x2F800, 0x2FA1D }, { 0x30000, 0x3134A },
    { 0x31350, 0x323AF },
};

bool lm_uni_han(uint32_t r)
{
    const uint32_t (*han)[2] = lm_uni_han_ranges;
    if (r < han[0][0])
        return false;
    for (size_t i = 0; i < LM_HAN_RANGES; i++)
        if (r <= han[i][1])
            return r >= han[i][0];
    return false;
}

bool lm_uni_word(uint32_t r)
{
    /* letters in circles and squares: alphabetic symbols */
    if ((r >= 0x24B6 && r <= 0x24E9) || (r >= 0x1F130 && r <= 0x1F149) ||
        (r >= 0x1F150 && r <= 0x1F169) || (r >= 0x1F170 && r <= 0x1F189))
        return true;
    unsigned c = lm_uni_class(r);
    return c & LM_U_WORD && (!(c & LM_U_N) || lm_uni_category(r) != LM_UC_NO);
}

/*
 * Characters that NFC never changes and never joins to what stands before them; a text
 * is cut before each, and one that is followed by another needs no work.  Not all such
 * characters, but the common scripts.
 */
static bool inert(uint32_t r)
{
    return r < 0x300 || (r >= 0x400 && r <= 0x482) || (r >= 0x2010 && r <= 0x2029) ||
           (r >= 0x3000 && r <= 0x3029) || (r >= 0x3041 && r <= 0x3096) ||
           (r >= 0x30A1 && r <= 0x30FA) || (r >= 0x3400 && r <= 0x9FFF) ||
           (r >= 0xAC00 && r <= 0xD7A3) || (r >= 0xFF01 && r <= 0xFFEF) || r == 0xFFFD;
}

/* A byte that no UTF-8 has. */
static bool never(char c)
{
    unsigned char b = (unsigned char)c;
    return b == 0xC0 || b == 0xC1 || b >= 0xF5;
}

bool lm_norm_needed(const char *p, size_t len, unsigned flags)
{
    const char *end = p + len;
    while (flags && p < end) {
        int k;
        if ((unsigned char)*p < 128) {
            p++;
            continue;
        }
        if (flags & LM_NORM_FFFD && never(*p))
            return true;
        if (!inert(lm_uni_next(p, end, &k)) && flags & LM_NORM_NFC)
            return true;
        p += k;
    }
    return false;
}

size_t lm_whole_chars(const char *p, size_t len)
{
    for (size_t k = 1; k <= 3 && k <= len; k++) {
        unsigned char c = (unsigned char)p[len - k];
        if ((c & 0xC0) != 0x80)
            return c >= 0xC2 && c <= 0xF4 && k < (c < 0xE0 ? 2u : c < 0xF0 ? 3u : 4u) ? len - k
                                                                                    : len;
    }
    return len;
}

size_t lm_norm_settled(const char *p, size_t len, unsigned flags)
{
    return flags & LM_NORM_NFC ? lm_uni_form_settled(p, len, LM_FORM_C) : lm_whole_chars(p, len);
}

#ifdef LM_HAVE_UTF8PROC

bool lm_uni_ready(void)
{
    return true;
}

unsigned lm_uni_class_wide(uint32_t rune)
{
    static const uint16_t of[] = {
        [UTF8PROC_CATEGORY_LU] = LU,
        [UTF8PROC_CATEGORY_LL] = LL,
        [UTF8PROC_CATEGORY_LT] = LU,
        [UTF8PROC_CATEGORY_LM] = LU | LL,
        [UTF8PROC_CATEGORY_LO] = LU | LL,
        [UTF8PROC_CATEGORY_MN] = LM_U_M | LM_U_UPPER | LM_U_LOWER | LM_U_WORD,
        [UTF8PROC_CATEGORY_MC] = LM_U_M | LM_U_UPPER | LM_U_LOWER | LM_U_WORD,
        [UTF8PROC_CATEGORY_ME] = LM_U_M | LM_U_UPPER | LM_U_LOWER | LM_U_WORD,
        [UTF8PROC_CATEGORY_ND] = ND,
        [UTF8PROC_CATEGORY_NL] = LM_U_N | LM_U_WORD,
        [UTF8PROC_CATEGORY_NO] = LM_U_N | LM_U_WORD,
        [UTF8PROC_CATEGORY_PC] = PC,
        [UTF8PROC_CATEGORY_PD] = PO,
        [UTF8PROC_CATEGORY_PS] = PO,
        [UTF8PROC_CATEGORY_PE] = PO,
        [UTF8PROC_CATEGORY_PI] = PO,
        [UTF8PROC_CATEGORY_PF] = PO,
        [UTF8PROC_CATEGORY_PO] = PO,
        [UTF8PROC_CATEGORY_SM] = SM,
        [UTF8PROC_CATEGORY_SC] = SM,
        [UTF8PROC_CATEGORY_SK] = SM,
        [UTF8PROC_CATEGORY_SO] = SM,
    };
    if (wide_space(rune))
        return SP;
    if (rune > 0x10FFFF)
        return 0;
    size_t cat = (size_t)utf8proc_category((utf8proc_int32_t)rune);
    return cat < sizeof of / sizeof *of ? of[cat] : 0;
}

_Static_assert((int)LM_UC_CO == (int)UTF8PROC_CATEGORY_CO, "categories have the same order");

enum lm_uni_category lm_uni_category(uint32_t rune)
{
    return rune > 0x10FFFF ? LM_UC_CN
                           : (enum lm_uni_category)utf8proc_category((utf8proc_int32_t)rune);
}

uint32_t lm_uni_fold(uint32_t rune)
{
    if (rune == 0x130 || rune == 0x131)          /* i with and without a dot are no i but in
                                                    Turkish                          */
        return rune;
    return (uint32_t)utf8proc_tolower(utf8proc_toupper((utf8proc_int32_t)rune));
}

const char *lm_uni_cluster(const char *p, const char *end)
{
    int k;
    utf8proc_int32_t state = 0;
    uint32_t r = lm_uni_next(p, end, &k);
    bool broken = r == 0xFFFD && k == 1;
    for (p += k; p < end && !broken; p += k) {
        uint32_t next = lm_uni_next(p, end, &k);
        if ((next == 0xFFFD && k == 1) ||
            utf8proc_grapheme_break_stateful((utf8proc_int32_t)r, (utf8proc_int32_t)next, &state))
            break;
        r = next;
    }
    return p;
}

/* Where composed text goes, and what is kept of where it came from. */
struct composed {
    struct lm_buf   *out;
    struct lm_remap *map;                        /* NULL: nobody asks               */
    size_t           from;                       /* where the stretch begins        */
    bool             ok;
};

/* Two entries a character: where it begins and where it ends. */
static void put_composed(void *to, const char *text, size_t n, size_t at, size_t end)
{
    struct composed *c = to;
    const size_t put = c->out->len;
    lm_buf_add(c->out, text, n);
    if (c->map && c->ok)
        c->ok = lm_remap_add(c->map, put, c->from + at) &&
                lm_remap_add(c->map, put + n, c->from + end);
}

struct stretch {
    size_t from, to;
};

static int by_place(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Marks that changed places: each stands for the one that was in its place, as in the library.
 * put_composed's entries from n on. */
static bool in_order(struct lm_remap *m, size_t n)
{
    struct lm_remap_at *e = m->e + n;
    const size_t n_chars = (m->n - n) / 2;
    size_t i = 1;
    while (i < n_chars && e[2 * i - 2].from <= e[2 * i].from)
        i++;
    if (i >= n_chars)
        return true;
    struct stretch *s = lm_malloc_array(n_chars, sizeof *s);
    if (!s)
        return false;
    for (i = 0; i < n_chars; i++)
        s[i] = (struct stretch){ e[2 * i].from, e[2 * i + 1].from };
    qsort(s, n_chars, sizeof *s, by_place);
    for (i = 0; i < n_chars; i++) {
        e[2 * i].from = s[i].from;
        e[2 * i + 1].from = s[i].to;
    }
    free(s);
    return true;
}

enum work { COPY, COMPOSE, REPLACE };

/* From p: one character, or for NFC one and all that may join with it. */
static const char *stretch_end(const char *p, const char *end, unsigned flags, enum work *work)
{
    int k;
    uint32_t r = lm_uni_next(p, end, &k);
    *work = COPY;
    if (r == 0xFFFD && k == 1) {
        if (flags & LM_NORM_FFFD && never(*p))
            *work = REPLACE;
        return p + 1;
    }
    if (!(flags & LM_NORM_NFC))
        return p + k;
    if (!inert(r))
        *work = COMPOSE;
    for (p += k; p < end; p += k) {
        if (inert(lm_uni_next(p, end, &k)))
            break;
        *work = COMPOSE;
    }
    return p;
}

int lm_norm(const char *p, size_t len, unsigned flags, struct lm_buf *out, struct lm_remap *map,
            struct lm_err *err)
{
    const char *begin = p, *end = p + len;
    bool ok = true;

    while (ok && p < end) {
        enum work work;
        const char *q = p, *from;                /* all before `from` is copied at once */
        do {
            from = q;
            q = stretch_end(q, end, flags, &work);
        } while (work == COPY && q < end);
        if (work == COPY)
            from = q;
        lm_buf_add(out, p, (size_t)(from - p));
        size_t at = out->len;
        if (map && work == REPLACE)
            ok = lm_remap_add(map, at, (size_t)(from - begin));
        if (work == REPLACE)
            lm_buf_rune(out, 0xFFFD);
        if (work == COMPOSE) {
            struct composed c = { out, map, (size_t)(from - begin), ok };
            size_t n = map ? map->n : 0;
            ok = lm_uni_form(from, (size_t)(q - from), LM_FORM_C, put_composed, &c) && c.ok &&
                 (!map || in_order(map, n));
        }
        if (map && from < q)
            ok = ok && lm_remap_add(map, out->len, (size_t)(q - begin));
        p = q;
    }
    return ok && !out->failed ? LM_OK : lm_fail_nomem(err);
}

#else

bool lm_uni_ready(void)
{
    return false;
}

unsigned lm_uni_class_wide(uint32_t rune)
{
    return wide_space(rune) ? SP : 0;
}

enum lm_uni_category lm_uni_category(uint32_t rune)
{
    (void)rune;
    return LM_UC_CN;
}

uint32_t lm_uni_fold(uint32_t rune)
{
    return rune;
}

const char *lm_uni_cluster(const char *p, const char *end)
{
    int k;
    lm_uni_next(p, end, &k);
    return p + k;
}

int lm_norm(const char *p, size_t len, unsigned flags, struct lm_buf *out, struct lm_remap *map,
            struct lm_err *err)
{
    (void)p, (void)len, (void)flags, (void)out, (void)map;
    return lm_fail(err, LM_ENOSUP, "normalization: built without utf8proc");
}

#endif
