/* SPDX-License-Identifier: MIT */
/*
 * Model names taken apart at their hyphens.  Each part is, by its form:
 *   version   3.2, v1, iter4          size      7B, 1.5B, 8x7B, 7b1, small, xl
 *   type      Q4_K, F16, bf16         finetune  chat, instruct, vision, lora
 * The name begins with words and versions, the base name, from which versions at the end of
 * the whole name are taken off again; words after it are finetunes.
 */

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "hf/hf_card.h"

enum { MAX_PARTS = 32 };

/* Bits: a part can be several things. */
enum { BASE = 1, VERSION = 2, TYPE = 4, SIZE = 8, FINETUNE = 16 };

struct part {
    char    *text;
    unsigned is;
};

/* digits ("." digits)*, the whole of s */
static bool dotted_digits(const char *s)
{
    for (;;) {
        const size_t n = strspn(s, "0123456789");
        if (!n || (s[n] && s[n] != '.'))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

static bool is_version(const char *s)
{
    if (!strncasecmp(s, "iter", 4))
        s += 4;
    else if (tolower((unsigned char)*s) == 'v')
        s++;
    return dotted_digits(s);
}

/* Q4, IQ4_K_M: a digit, then letters each after an underscore; F16, bf16, fp32. */
static bool is_type(const char *s)
{
    const char *q = tolower((unsigned char)*s) == 'i' ? s + 1 : s;
    if (tolower((unsigned char)*q) == 'q' && isdigit((unsigned char)q[1])) {
        for (q += 2; q[0] == '_' && (isalnum((unsigned char)q[1]) || q[1] == '_'); q += 2)
            ;
        if (!*q)
            return true;
    }
    if (tolower((unsigned char)*s) == 'b')
        s++;
    if (tolower((unsigned char)*s) != 'f')
        return false;
    s += tolower((unsigned char)s[1]) == 'p' ? 2 : 1;
    return !strcmp(s, "16") || !strcmp(s, "32");
}

/* 7B, 1.5B, 1_5B, 8x7B, A3B, 7b1 (for 7.1B) */
static bool is_number_size(const char *s)
{
    const size_t lead = strspn(s, "0123456789");
    const char *p = s;
    if (tolower((unsigned char)*s) == 'a' && isdigit((unsigned char)s[1]))
        p = s + 1;
    else if (lead && tolower((unsigned char)s[lead]) == 'x' && isdigit((unsigned char)s[lead + 1]))
        p = s + lead + 1;
    size_t n = strspn(p, "0123456789");
    if (!n)
        return false;
    if (p[n] == '.' || p[n] == '_') {
        const size_t m = strspn(p + n + 1, "0123456789");
        if (!m)
            return false;
        n += 1 + m;
    }
    p += n;
    if (!*p || !strchr("kmbtKMBT", *p))
        return false;
    return !p[1] || (isdigit((unsigned char)p[1]) && !p[2]);
}

static bool one_of(const char *s, const char *const words[])
{
    for (; *words; words++)
        if (!strcasecmp(s, *words))
            return true;
    return false;
}

/* Write a size as labels do: a point, the unit last and a capital. */
static int write_size(struct part *p, struct lm_arena *a, struct lm_err *err)
{
    size_t n = strlen(p->text);
    char *s = lm_arena_alloc(a, n + 3);
    if (!s)
        return lm_fail_nomem(err);
    strcpy(s, p->text);
    for (char *c = s; *c; c++)
        if (*c == '_')
            *c = '.';
    if (isdigit((unsigned char)s[n - 1]) && n >= 2) {       /* 7b1 is 7.1B */
        const char unit = s[n - 2], digit = s[n - 1];
        s[n - 2] = '.';
        s[n - 1] = digit;
        s[n++] = unit;
    }
    if (n > 1 && isdigit((unsigned char)s[n - 2]))
        s[n - 1] = (char)toupper((unsigned char)s[n - 1]);
    p->text = s;
    return LM_OK;
}

/* A number far from the model's own size is a context length or the like. */
static void judge_size(struct part *p, uint64_t n_weights)
{
    const size_t n = strlen(p->text);
    char *end;
    const char *units = "KMBT", *u = strchr(units, p->text[n - 1]);
    const double v = strtod(p->text, &end);
    p->is = SIZE;
    if (!n_weights || end != p->text + n - 1 || n < 2 || !u || !*u)
        return;
    const double said = v * pow(1000, (double)(u - units) + 1);
    if (fabs(said - (double)n_weights) > (double)(7 * n_weights / 8)) {
        p->is = FINETUNE;
        p->text[n - 1] = (char)tolower((unsigned char)p->text[n - 1]);
    }
}

static int classify(struct part *p, bool first, struct lm_arena *a, uint64_t n_weights,
                    struct lm_err *err)
{
    static const char *const sizes[] = { "small", "mini", "medium", "large", "xl", "xxl", NULL };
    static const char *const tunes[] = { "chat", "instruct", "vision", "lora", NULL };
    if (is_version(p->text)) {
        p->is = VERSION;
    } else if (is_type(p->text)) {
        p->is = TYPE;
        for (char *c = p->text; *c; c++)
            *c = (char)toupper((unsigned char)*c);
    } else if (!first && is_number_size(p->text)) {
        const int r = write_size(p, a, err);
        if (r)
            return r;
        judge_size(p, n_weights);
    } else if (!first && one_of(p->text, sizes)) {
        p->is = SIZE;
    } else if (!first && one_of(p->text, tunes)) {
        p->is = FINETUNE;
    }
    return LM_OK;
}

/* Words are no sizes beside a number; what has no kind yet is base name or finetune. */
static void settle(struct part *p, size_t n)
{
    bool number = false, start = true;
    for (size_t i = 0; i < n; i++)
        number = number || (p[i].is & SIZE && strpbrk(p[i].text, "0123456789"));
    for (size_t i = 0; i < n; i++)
        if (number && p[i].is & SIZE && strspn(p[i].text, "abcdefghijklmnopqrstuvwxyz"
                                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(p[i].text))
            p[i].is &= ~(unsigned)SIZE;
    for (size_t i = 0; i < n; i++) {
        start = start && ((!p[i].is && isalpha((unsigned char)p[i].text[0])) || p[i].is & VERSION);
        if (start)
            p[i].is |= BASE;
        else if (!p[i].is)
            p[i].is = FINETUNE;
    }
    for (size_t i = n; i-- > 0 && p[i].is & BASE && p[i].is != BASE;)
        p[i].is &= ~(unsigned)BASE;
}

/* The parts of one kind joined by hyphens, none twice if `once`; NULL for none. */
static const char *join(const struct part *p, size_t n, unsigned is, unsigned isnt, bool once,
                        struct lm_arena *a)
{
    struct lm_buf b = {0};
    const char *s = NULL;
    for (size_t i = 0; i < n; i++) {
        bool use = p[i].is & is && !(p[i].is & isnt);
        for (size_t k = 0; once && k < i; k++)
            use = use && !(p[k].is & is && !strcmp(p[k].text, p[i].text));
        if (!use)
            continue;
        if (b.len)
            lm_buf_byte(&b, '-');
        lm_buf_str(&b, p[i].text);
    }
    if (b.len)
        s = lm_arena_copy(a, b.data, b.len);
    lm_buf_release(&b);
    return s;
}

int lm_hf_name_parse(struct lm_hf_name *out, struct lm_arena *a, const char *id,
                     uint64_t n_weights, struct lm_err *err)
{
    struct part p[MAX_PARTS];
    size_t n = 0;
    *out = (struct lm_hf_name){0};
    const char *slash = strchr(id, ' ') ? NULL : strchr(id, '/');
    out->full = lm_arena_copy(a, slash ? slash + 1 : id, strlen(slash ? slash + 1 : id));
    if (slash && id[0] != '.' && slash > id)
        out->organization = lm_arena_copy(a, id, (size_t)(slash - id));
    char *copy = lm_arena_copy(a, out->full ? out->full : "", out->full ? strlen(out->full) : 0);
    if (!out->full || !copy)
        return lm_fail_nomem(err);
    if (strchr(id, ' '))
        return LM_OK;                           /* a sentence, not a name of this kind */
    for (char *save, *s = strtok_r(copy, "-", &save); s && n < MAX_PARTS;
         s = strtok_r(NULL, "-", &save))
        p[n++] = (struct part){ s, 0 };
    for (size_t i = 0; i < n; i++) {
        const int r = classify(&p[i], i == 0, a, n_weights, err);
        if (r)
            return r;
    }
    settle(p, n);
    out->size_label = join(p, n, SIZE, 0, true, a);
    out->finetune = join(p, n, FINETUNE, 0, false, a);
    out->version = join(p, n, VERSION, BASE, false, a);
    if (out->size_label || out->finetune || out->version)
        out->basename = join(p, n, BASE, 0, false, a);
    return LM_OK;
}

/* Is the word all of small letters (at least one), and no version or number? */
static bool wants_capital(const char *s, size_t n)
{
    bool letter = false;
    for (size_t i = 0; i < n; i++) {
        if (isupper((unsigned char)s[i]))
            return false;
        letter = letter || islower((unsigned char)s[i]);
    }
    if (isdigit((unsigned char)s[0]))
        return false;
    if (s[0] == 'v' && n > 1 && isdigit((unsigned char)s[1])) {
        size_t i = 1;
        while (i < n && (isdigit((unsigned char)s[i]) ||
                         (s[i] == '.' && i + 1 < n && isdigit((unsigned char)s[i + 1]))))
            i++;
        if (i == n)
            return false;
    }
    return letter;
}

const char *lm_hf_name_title(struct lm_arena *a, const char *name)
{
    struct lm_buf b = {0};
    const char *s = name, *title = NULL;
    while (*s) {
        const size_t skip = strspn(s, "- \t\r\n\v\f"), n = strcspn(s + skip, "- \t\r\n\v\f");
        s += skip;
        if (!n)
            break;
        if (b.len)
            lm_buf_byte(&b, ' ');
        const bool capital = wants_capital(s, n);
        for (size_t i = 0; i < n; i++) {
            /* A letter after anything that is none begins a word here; bytes of characters
             * beyond ASCII count as letters. */
            const unsigned char before = i ? (unsigned char)s[i - 1] : ' ';
            const bool begins = !isalpha(before) && before < 0x80;
            lm_buf_byte(&b, capital && begins ? toupper((unsigned char)s[i])
                                              : (unsigned char)s[i]);
        }
        s += n;
    }
    if (!b.failed)
        title = lm_arena_copy(a, b.data ? b.data : "", b.len);
    lm_buf_release(&b);
    return title;
}
