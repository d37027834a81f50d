/* SPDX-License-Identifier: MIT */
#include "vocab/unicode_form.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#ifdef LM_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

size_t lm_uni_trim(const char *p, size_t len)
{
    while (len > 0) {
        size_t k = len - 1;
        while (k > 0 && len - k < 4 && ((unsigned char)p[k] & 0xC0) == 0x80)
            k--;
        int n;
        uint32_t r = lm_uni_next(p + k, p + len, &n);
        if (k + (size_t)n != len || !(lm_uni_class(r) & LM_U_SPACE))
            break;
        len = k;
    }
    return len;
}

size_t lm_rune_bytes(uint32_t r, char to[4])
{
    if (r < 0x80) {
        to[0] = (char)r;
        return 1;
    }
    if (r < 0x800) {
        to[0] = (char)(0xC0 | r >> 6);
        to[1] = (char)(0x80 | (r & 63));
        return 2;
    }
    if (r < 0x10000) {
        to[0] = (char)(0xE0 | r >> 12);
        to[1] = (char)(0x80 | (r >> 6 & 63));
        to[2] = (char)(0x80 | (r & 63));
        return 3;
    }
    to[0] = (char)(0xF0 | r >> 18);
    to[1] = (char)(0x80 | (r >> 12 & 63));
    to[2] = (char)(0x80 | (r >> 6 & 63));
    to[3] = (char)(0x80 | (r & 63));
    return 4;
}

#ifdef LM_HAVE_UTF8PROC

/* A character on its way, and the bytes it was made of. */
struct part {
    uint32_t r;
    uint8_t  ccc;
    size_t   at, end;
};

struct work {
    enum lm_uni_form form;
    struct part     *part;
    size_t           n, cap;
    struct part     *copy;               /* for sorting */
    size_t           copy_cap;
};

static bool composes(enum lm_uni_form f)
{
    return f == LM_FORM_C || f == LM_FORM_KC;
}

static bool compat(enum lm_uni_form f)
{
    return f == LM_FORM_KC || f == LM_FORM_KD;
}

/* Does nothing before this character join with it or change places with it?  Not so those that
 * are second in a composition (marks, the later jamo) and, with compatibility, those that become
 * such. */
static bool begins(uint32_t r, enum lm_uni_form f)
{
    if (r < 0x300)
        return true;
    if (compat(f) && ((r >= 0x3131 && r <= 0x318E) || (r >= 0xFF9E && r <= 0xFFDC)))
        return false;
    if (composes(f) && r >= 0x1160 && r <= 0x11FF)
        return false;
    return !(lm_uni_class(r) & LM_U_M) &&
           !utf8proc_get_property((utf8proc_int32_t)r)->combining_class;
}

static bool decompose(struct work *w, uint32_t r, size_t at, size_t end)
{
    utf8proc_int32_t part[32];
    int last = 0;
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat(w->form) ? UTF8PROC_COMPAT : 0);
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)r, part, 32, options, &last);
    if (n < 0 || n > 32) {                       /* the longest has 18 */
        part[0] = (utf8proc_int32_t)r;
        n = 1;
    }
    if (!lm_grow(&w->part, &w->cap, w->n + (size_t)n, sizeof *w->part))
        return false;
    for (utf8proc_ssize_t i = 0; i < n; i++)
        w->part[w->n++] = (struct part){
            (uint32_t)part[i], (uint8_t)utf8proc_get_property(part[i])->combining_class, at, end
        };
    return true;
}

/* Runs of marks by their class, equal ones as they stood: a counting sort, as runs may be
 * long. */
static bool order(struct work *w)
{
    for (size_t i = 0, j; i < w->n; i = j) {
        bool sorted = true;
        for (j = i; j < w->n && w->part[j].ccc; j++)
            sorted &= j == i || w->part[j - 1].ccc <= w->part[j].ccc;
        if (j == i)
            j++;
        if (sorted)
            continue;
        size_t start[257] = { 0 };
        if (!lm_grow(&w->copy, &w->copy_cap, j - i, sizeof *w->copy))
            return false;
        for (size_t k = i; k < j; k++)
            start[w->part[k].ccc + 1]++;
        for (int c = 0; c < 256; c++)
            start[c + 1] += start[c];
        for (size_t k = i; k < j; k++)
            w->copy[start[w->part[k].ccc]++] = w->part[k];
        memcpy(w->part + i, w->copy, (j - i) * sizeof *w->copy);
    }
    return true;
}

/* What two characters compose to, or 0. */
static uint32_t pair(uint32_t a, uint32_t b)
{
    utf8proc_int32_t r[2] = { (utf8proc_int32_t)a, (utf8proc_int32_t)b };
    return utf8proc_normalize_utf32(r, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1
               ? (uint32_t)r[0] : 0;
}

/* Canonical composition: a character joins the last starter unless one between them has no
 * lower class.  It comes from where that starter does, as in the library. */
static void compose(struct work *w)
{
    size_t n = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < w->n; i++) {
        struct part x = w->part[i];
        bool near = starter != SIZE_MAX &&
                    (n == starter + 1 || (w->part[n - 1].ccc && w->part[n - 1].ccc < x.ccc));
        uint32_t r = near ? pair(w->part[starter].r, x.r) : 0;
        if (r) {
            w->part[starter].r = r;
            continue;
        }
        if (!x.ccc)
            starter = n;
        w->part[n++] = x;
    }
    w->n = n;
}

bool lm_uni_form(const char *p, size_t len, enum lm_uni_form form,
                 void (*put)(void *to, const char *text, size_t n, size_t at, size_t end),
                 void *to)
{
    struct work w = { .form = form };
    bool ok = true;
    for (size_t i = 0; ok && i < len;) {
        size_t at = i;
        w.n = 0;
        while (i < len && (unsigned char)p[i] < 128 &&
               (i + 1 == len || (unsigned char)p[i + 1] < 128))
            i++;
        if (i > at) {                            /* plain text */
            put(to, p + at, i - at, at, i);
            continue;
        }
        for (int k; ok && i < len; i += (size_t)k) {
            uint32_t r = lm_uni_next(p + i, p + len, &k);
            bool broken = r == 0xFFFD && k == 1;
            if (i > at && (broken || begins(r, form)))
                break;
            if (broken) {
                put(to, p + i++, 1, at, at + 1);
                break;
            }
            ok = decompose(&w, r, i, i + (size_t)k);
        }
        ok = ok && order(&w);
        if (composes(form))
            compose(&w);
        for (size_t k = 0; ok && k < w.n; k++) {
            char c[4];
            put(to, c, lm_rune_bytes(w.part[k].r, c), w.part[k].at, w.part[k].end);
        }
    }
    free(w.part);
    free(w.copy);
    return ok;
}

#else

bool lm_uni_form(const char *p, size_t len, enum lm_uni_form form,
                 void (*put)(void *to, const char *text, size_t n, size_t at, size_t end),
                 void *to)
{
    (void)form;
    put(to, p, len, 0, len);
    return true;
}

static bool begins(uint32_t rune, enum lm_uni_form form)
{
    (void)rune, (void)form;
    return true;
}

#endif

size_t lm_uni_form_settled(const char *p, size_t len, enum lm_uni_form form)
{
    size_t at = lm_whole_chars(p, len);
    for (size_t end = at; at > 0; end = at) {
        int k;
        for (at--; at > 0 && end - at < 4 && ((unsigned char)p[at] & 0xC0) == 0x80;)
            at--;
        uint32_t r = lm_uni_next(p + at, p + end, &k);
        if (at + (size_t)k != end)               /* not UTF-8 */
            return end - 1;
        if ((r == 0xFFFD && k == 1) || begins(r, form))
            return at;
    }
    return 0;
}
