/* SPDX-License-Identifier: MIT */
#include "vocab/runeset.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/unicode.h"
#include "vocab/unicode_runs.h"

void lm_runeset_release(struct lm_runeset *s)
{
    free(s->r);
    *s = (struct lm_runeset){ 0 };
}

static bool room(struct lm_runeset *s, size_t n)
{
    if (!s->failed && !lm_grow(&s->r, &s->cap, n, sizeof *s->r))
        s->failed = true;
    return !s->failed;
}

void lm_runeset_add(struct lm_runeset *s, uint32_t first, uint32_t last)
{
    if (first > last || !room(s, s->n + 1))
        return;
    size_t i = s->n;                             /* ranges [i .. k) touch the new one */
    while (i > 0 && s->r[i - 1].last + 1 >= first)
        i--;
    size_t k = i;
    for (; k < s->n && s->r[k].first <= last + 1; k++) {
        first = s->r[k].first < first ? s->r[k].first : first;
        last = s->r[k].last > last ? s->r[k].last : last;
    }
    memmove(s->r + i + 1, s->r + k, (s->n - k) * sizeof *s->r);
    s->r[i] = (struct lm_range){ first, last };
    s->n = s->n - (k - i) + 1;
}

void lm_runeset_union(struct lm_runeset *s, const struct lm_runeset *t)
{
    struct lm_runeset out = { .failed = s->failed || t->failed };
    size_t i = 0, k = 0;
    while (i < s->n || k < t->n) {
        bool mine = k == t->n || (i < s->n && s->r[i].first <= t->r[k].first);
        const struct lm_range *x = mine ? &s->r[i++] : &t->r[k++];
        lm_runeset_add(&out, x->first, x->last);
    }
    lm_runeset_release(s);
    *s = out;
}

void lm_runeset_intersect(struct lm_runeset *s, const struct lm_runeset *t)
{
    struct lm_runeset out = { .failed = s->failed || t->failed };
    for (size_t i = 0, k = 0; i < s->n && k < t->n;) {
        uint32_t first = s->r[i].first > t->r[k].first ? s->r[i].first : t->r[k].first;
        uint32_t last = s->r[i].last < t->r[k].last ? s->r[i].last : t->r[k].last;
        lm_runeset_add(&out, first, last);
        if (s->r[i].last < t->r[k].last)
            i++;
        else
            k++;
    }
    lm_runeset_release(s);
    *s = out;
}

void lm_runeset_negate(struct lm_runeset *s)
{
    struct lm_runeset out = { .failed = s->failed };
    uint32_t from = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->r[i].first > from)
            lm_runeset_add(&out, from, s->r[i].first - 1);
        from = s->r[i].last + 1;
    }
    lm_runeset_add(&out, from, LM_RUNE_MAX);
    lm_runeset_release(s);
    *s = out;
}

bool lm_runeset_has(const struct lm_runeset *s, uint32_t rune)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (rune > s->r[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n && s->r[lo].first <= rune;
}

/* Add what differs in case and has this key: entries from i on. */
static void add_cased(struct lm_runeset *s, const struct lm_uni_runs *u, size_t i, uint32_t key)
{
    for (; i < u->n_cased && u->cased[i].key == key; i++)
        lm_runeset_add(s, u->cased[i].rune, u->cased[i].rune);
}

/* The first entry of a key, or where it would be. */
static size_t find_cased(const struct lm_uni_runs *u, uint32_t key)
{
    size_t lo = 0, hi = u->n_cased;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (u->cased[mid].key < key)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Of few characters each is looked up, of many all that have case are gone through. */
void lm_runeset_fold(struct lm_runeset *s)
{
    enum { FEW = 64 };
    const struct lm_uni_runs *u = lm_uni_runs();
    struct lm_runeset others = { .failed = !u };
    size_t n = 0;
    for (size_t i = 0; i < s->n && n <= FEW; i++)
        n += s->r[i].last - s->r[i].first + 1;
    for (size_t i = 0; u && n <= FEW && i < s->n; i++)
        for (uint32_t r = s->r[i].first; r <= s->r[i].last; r++) {
            const uint32_t key = lm_uni_fold(r);
            add_cased(&others, u, find_cased(u, key), key);
        }
    for (size_t i = 0, end; u && n > FEW && i < u->n_cased; i = end) {
        const uint32_t key = u->cased[i].key;
        bool has = false;
        for (end = i; end < u->n_cased && u->cased[end].key == key; end++)
            has = has || lm_runeset_has(s, u->cased[end].rune);
        if (has)
            add_cased(&others, u, i, key);
    }
    lm_runeset_union(s, &others);
    lm_runeset_release(&others);
}

/* General categories in the order of enum lm_uni_category. */
static const struct {
    const char *names;           /* separated by blanks, lower case                      */
    uint32_t    set;             /* a bit for each category                              */
} categories[] = {
#define C(x) (1u << LM_UC_##x)
    { "cn unassigned",            C(CN) },
    { "lu uppercaseletter",       C(LU) },
    { "ll lowercaseletter",       C(LL) },
    { "lt titlecaseletter",       C(LT) },
    { "lm modifierletter",        C(LM) },
    { "lo otherletter",           C(LO) },
    { "mn nonspacingmark",        C(MN) },
    { "mc spacingmark",           C(MC) },
    { "me enclosingmark",         C(ME) },
    { "nd decimalnumber digit",   C(ND) },
    { "nl letternumber",          C(NL) },
    { "no othernumber",           C(NO) },
    { "pc connectorpunctuation",  C(PC) },
    { "pd dashpunctuation",       C(PD) },
    { "ps openpunctuation",       C(PS) },
    { "pe closepunctuation",      C(PE) },
    { "pi initialpunctuation",    C(PI) },
    { "pf finalpunctuation",      C(PF) },
    { "po otherpunctuation",      C(PO) },
    { "sm mathsymbol",            C(SM) },
    { "sc currencysymbol",        C(SC) },
    { "sk modifiersymbol",        C(SK) },
    { "so othersymbol",           C(SO) },
    { "zs spaceseparator",        C(ZS) },
    { "zl lineseparator",         C(ZL) },
    { "zp paragraphseparator",    C(ZP) },
    { "cc control cntrl",         C(CC) },
    { "cf format",                C(CF) },
    { "cs surrogate",             C(CS) },
    { "co privateuse",            C(CO) },
    { "l letter",                 C(LU) | C(LL) | C(LT) | C(LM) | C(LO) },
    { "lc casedletter",           C(LU) | C(LL) | C(LT) },
    { "m mark combiningmark",     C(MN) | C(MC) | C(ME) },
    { "n number",                 C(ND) | C(NL) | C(NO) },
    { "p punctuation punct",      C(PC) | C(PD) | C(PS) | C(PE) | C(PI) | C(PF) | C(PO) },
    { "s symbol",                 C(SM) | C(SC) | C(SK) | C(SO) },
    { "z separator",              C(ZS) | C(ZL) | C(ZP) },
    { "c other",                  C(CC) | C(CF) | C(CS) | C(CO) | C(CN) },
    { "any",                      ~0u },
    { "graph", ~(C(CC) | C(CN) | C(CS) | C(ZS) | C(ZL) | C(ZP)) },
    { "print", ~(C(CC) | C(CN) | C(CS) | C(ZL) | C(ZP)) },
    { ":punct", C(PC) | C(PD) | C(PS) | C(PE) | C(PI) | C(PF) | C(PO) |
                C(SM) | C(SC) | C(SK) | C(SO) },
    { "word", C(LU) | C(LL) | C(LT) | C(LM) | C(LO) | C(MN) | C(MC) | C(ME) | C(ND) | C(NL) |
              C(PC) },                           /* and what `tables` adds              */
#undef C
};

/* Scripts.txt of Unicode 15, and classes. */
static const struct lm_range
    hiragana[] = { { 0x3041, 0x3096 }, { 0x309D, 0x309F }, { 0x1B001, 0x1B11F },
                   { 0x1B132, 0x1B132 }, { 0x1B150, 0x1B152 }, { 0x1F200, 0x1F200 }, { 0, 0 } },
    katakana[] = { { 0x30A1, 0x30FA }, { 0x30FD, 0x30FF }, { 0x31F0, 0x31FF }, { 0x32D0, 0x32FE },
                   { 0x3300, 0x3357 }, { 0xFF66, 0xFF6F }, { 0xFF71, 0xFF9D }, { 0x1AFF0, 0x1AFF3 },
                   { 0x1AFF5, 0x1AFFB }, { 0x1AFFD, 0x1AFFE }, { 0x1B000, 0x1B000 },
                   { 0x1B120, 0x1B122 }, { 0x1B155, 0x1B155 }, { 0x1B164, 0x1B167 }, { 0, 0 } },
    hangul[] = { { 0x1100, 0x11FF }, { 0x302E, 0x302F }, { 0x3131, 0x318E }, { 0x3200, 0x321E },
                 { 0x3260, 0x327E }, { 0xA960, 0xA97C }, { 0xAC00, 0xD7A3 }, { 0xD7B0, 0xD7C6 },
                 { 0xD7CB, 0xD7FB }, { 0xFFA0, 0xFFBE }, { 0xFFC2, 0xFFC7 }, { 0xFFCA, 0xFFCF },
                 { 0xFFD2, 0xFFD7 }, { 0xFFDA, 0xFFDC }, { 0, 0 } },
    latin[] = { { 0x41, 0x5A }, { 0x61, 0x7A }, { 0xAA, 0xAA }, { 0xBA, 0xBA }, { 0xC0, 0xD6 },
        { 0xD8, 0xF6 }, { 0xF8, 0x2B8 }, { 0x2E0, 0x2E4 }, { 0x1D00, 0x1D25 },
        { 0x1D2C, 0x1D5C }, { 0x1D62, 0x1D65 }, { 0x1D6B, 0x1D77 }, { 0x1D79, 0x1DBE },
        { 0x1E00, 0x1EFF }, { 0x2071, 0x2071 }, { 0x207F, 0x207F }, { 0x2090, 0x209C },
        { 0x212A, 0x212B }, { 0x2132, 0x2132 }, { 0x214E, 0x214E }, { 0x2160, 0x2188 },
        { 0x2C60, 0x2C7F }, { 0xA722, 0xA787 }, { 0xA78B, 0xA7CA }, { 0xA7D0, 0xA7D1 },
        { 0xA7D3, 0xA7D3 }, { 0xA7D5, 0xA7D9 }, { 0xA7F2, 0xA7FF }, { 0xAB30, 0xAB5A },
        { 0xAB5C, 0xAB64 }, { 0xAB66, 0xAB69 }, { 0xFB00, 0xFB06 }, { 0xFF21, 0xFF3A },
        { 0xFF41, 0xFF5A }, { 0x10780, 0x10785 }, { 0x10787, 0x107B0 }, { 0x107B2, 0x107BA },
        { 0x1DF00, 0x1DF1E }, { 0x1DF25, 0x1DF2A }, { 0, 0 } },
    cyrillic[] = { { 0x400, 0x484 }, { 0x487, 0x52F }, { 0x1C80, 0x1C88 }, { 0x1D2B, 0x1D2B },
        { 0x1D78, 0x1D78 }, { 0x2DE0, 0x2DFF }, { 0xA640, 0xA69F }, { 0xFE2E, 0xFE2F },
        { 0x1E030, 0x1E06D }, { 0x1E08F, 0x1E08F }, { 0, 0 } },
    hebrew[] = { { 0x591, 0x5C7 }, { 0x5D0, 0x5EA }, { 0x5EF, 0x5F4 }, { 0xFB1D, 0xFB36 },
        { 0xFB38, 0xFB3C }, { 0xFB3E, 0xFB3E }, { 0xFB40, 0xFB41 }, { 0xFB43, 0xFB44 },
        { 0xFB46, 0xFB4F }, { 0, 0 } },
    devanagari[] = { { 0x900, 0x950 }, { 0x955, 0x963 }, { 0x966, 0x97F }, { 0xA8E0, 0xA8FF },
        { 0x11B00, 0x11B09 }, { 0, 0 } },
    thai[] = { { 0xE01, 0xE3A }, { 0xE40, 0xE5B }, { 0, 0 } },
    xdigit[] = { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' }, { 0, 0 } },
    blank[] = { { '\t', '\t' }, { ' ', ' ' }, { 0xA0, 0xA0 }, { 0x1680, 0x1680 },
                { 0x2000, 0x200A }, { 0x202F, 0x202F }, { 0x205F, 0x205F }, { 0x3000, 0x3000 },
                { 0, 0 } },
    space[] = { { '\t', '\r' }, { ' ', ' ' }, { 0x85, 0x85 }, { 0xA0, 0xA0 }, { 0x1680, 0x1680 },
                { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F }, { 0x205F, 0x205F },
                { 0x3000, 0x3000 }, { 0, 0 } },
    circled[] = { { 0x24B6, 0x24E9 }, { 0x1F130, 0x1F149 }, { 0x1F150, 0x1F169 },
                  { 0x1F170, 0x1F189 }, { 0, 0 } },
    ascii[] = { { 0, 127 }, { 0, 0 } };

static const struct {
    const char            *name;
    const struct lm_range *set;
} tables[] = {
    { "hiragana", hiragana }, { "katakana", katakana }, { "hangul", hangul }, { "thai", thai },
    { "latin", latin },       { "cyrillic", cyrillic }, { "hebrew", hebrew },
    { "devanagari", devanagari },
    { "xdigit", xdigit },     { "blank", blank },       { "ascii", ascii },
    { "space", space },       { "whitespace", space },  { "word", circled },
};

static bool listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strncmp(p, name, n) == 0 && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

/* Add every character that has one of the categories. */
static void add_categories(struct lm_runeset *s, uint32_t set)
{
    const struct lm_uni_runs *u = lm_uni_runs();
    struct lm_runeset t = { .failed = !u };
    for (size_t i = 0; u && i < u->n; i++)
        if (set >> u->run[i].category & 1)
            lm_runeset_add(&t, u->run[i].first, u->run[i + 1].first - 1);
    lm_runeset_union(s, &t);
    lm_runeset_release(&t);
}

bool lm_runeset_property(struct lm_runeset *s, const char *name, size_t len)
{
    char low[32];
    size_t n = 0;
    bool known = false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (c == ' ' || c == '_' || c == '-')
            continue;
        if (n == sizeof low - 1 || !c)
            return false;
        low[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    low[n] = 0;
    if (!n)
        return false;
    for (size_t i = 0; !known && i < sizeof categories / sizeof *categories; i++)
        if ((known = listed(categories[i].names, low)))
            add_categories(s, categories[i].set);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].name, low) == 0) {
            for (const struct lm_range *r = tables[i].set; r->last; r++)
                lm_runeset_add(s, r->first, r->last);
            known = true;
        }
    for (size_t i = 0; i < LM_HAN_RANGES && strcmp(low, "han") == 0; i++) {
        lm_runeset_add(s, lm_uni_han_ranges[i][0], lm_uni_han_ranges[i][1]);
        known = true;
    }
    return known;
}
