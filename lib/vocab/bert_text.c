/* SPDX-License-Identifier: MIT */
#include "vocab/bert_text.h"

#include <stdlib.h>

#include "base/size.h"
#include "vocab/pretok.h"

#include "vocab/unicode_form.h"

size_t lm_bert_settled(const char *p, size_t len)
{
    const size_t all = len;
    while ((len = lm_uni_form_settled(p, len, LM_FORM_D)) > 0) {
        int k;
        uint32_t r = lm_uni_next(p + len, p + all, &k);
        if (r == ' ' || r == '\n' || (lm_uni_class(r) & (LM_U_L | LM_U_N | LM_U_P | LM_U_S) &&
                                      r != 0xFFFD))
            break;
    }
    const size_t whole = lm_whole_chars(p, all); /* behind it, what has and takes no marks */
    for (int k; len < whole; len += (size_t)k) {
        uint32_t r = lm_uni_next(p + len, p + whole, &k);
        if (r >= 128 && r != 0xFFFD &&
            lm_uni_class(r) & (LM_U_L | LM_U_N | LM_U_P | LM_U_S | LM_U_M))
            break;
    }
    return len;
}

#ifdef LM_HAVE_UTF8PROC
#include <utf8proc.h>

/*
 * Characters whose category is another since Unicode 8.0: nonspacing marks, punctuation and
 * format characters that have none of these in the classes BERT's tokenizers were made with.
 */
static const struct lm_range new_marks[] = {
    { 0x7FD, 0x7FD }, { 0x898, 0x89F }, { 0x8CA, 0x8E1 }, { 0x9FE, 0x9FE }, { 0xAFA, 0xAFF },
    { 0xB55, 0xB55 }, { 0xC04, 0xC04 }, { 0xC3C, 0xC3C }, { 0xD00, 0xD00 }, { 0xD3B, 0xD3C },
    { 0xD81, 0xD81 }, { 0xEBA, 0xEBA }, { 0xECE, 0xECE }, { 0x180F, 0x180F }, { 0x1885, 0x1886 },
    { 0x1ABF, 0x1ACE }, { 0x1DF6, 0x1DFB }, { 0xA82C, 0xA82C }, { 0xA8C5, 0xA8C5 },
    { 0xA8FF, 0xA8FF }, { 0xA9BD, 0xA9BD }, { 0x10D24, 0x10D27 }, { 0x10EAB, 0x10EAC },
    { 0x10EFD, 0x10EFF }, { 0x10F46, 0x10F50 }, { 0x10F82, 0x10F85 }, { 0x11070, 0x11070 },
    { 0x11073, 0x11074 }, { 0x110C2, 0x110C2 }, { 0x111C9, 0x111C9 }, { 0x111CF, 0x111CF },
    { 0x1123E, 0x1123E }, { 0x11241, 0x11241 }, { 0x1133B, 0x1133B }, { 0x11438, 0x1143F },
    { 0x11442, 0x11444 }, { 0x11446, 0x11446 }, { 0x1145E, 0x1145E }, { 0x1182F, 0x11837 },
    { 0x11839, 0x1183A }, { 0x1193B, 0x1193C }, { 0x1193E, 0x1193E }, { 0x11943, 0x11943 },
    { 0x119D4, 0x119D7 }, { 0x119DA, 0x119DB }, { 0x119E0, 0x119E0 }, { 0x11A01, 0x11A0A },
    { 0x11A33, 0x11A38 }, { 0x11A3B, 0x11A3E }, { 0x11A47, 0x11A47 }, { 0x11A51, 0x11A56 },
    { 0x11A59, 0x11A5B }, { 0x11A8A, 0x11A96 }, { 0x11A98, 0x11A99 }, { 0x11C30, 0x11C36 },
    { 0x11C38, 0x11C3D }, { 0x11C3F, 0x11C3F }, { 0x11C92, 0x11CA7 }, { 0x11CAA, 0x11CB0 },
    { 0x11CB2, 0x11CB3 }, { 0x11CB5, 0x11CB6 }, { 0x11D31, 0x11D36 }, { 0x11D3A, 0x11D3A },
    { 0x11D3C, 0x11D3D }, { 0x11D3F, 0x11D45 }, { 0x11D47, 0x11D47 }, { 0x11D90, 0x11D91 },
    { 0x11D95, 0x11D95 }, { 0x11D97, 0x11D97 }, { 0x11EF3, 0x11EF4 }, { 0x11F00, 0x11F01 },
    { 0x11F36, 0x11F3A }, { 0x11F40, 0x11F40 }, { 0x11F42, 0x11F42 }, { 0x13440, 0x13440 },
    { 0x13447, 0x13455 }, { 0x16F4F, 0x16F4F }, { 0x16FE4, 0x16FE4 }, { 0x1CF00, 0x1CF2D },
    { 0x1CF30, 0x1CF46 }, { 0x1E000, 0x1E006 }, { 0x1E008, 0x1E018 }, { 0x1E01B, 0x1E021 },
    { 0x1E023, 0x1E024 }, { 0x1E026, 0x1E02A }, { 0x1E08F, 0x1E08F }, { 0x1E130, 0x1E136 },
    { 0x1E2AE, 0x1E2AE }, { 0x1E2EC, 0x1E2EF }, { 0x1E4EC, 0x1E4EF }, { 0x1E944, 0x1E94A },
};

static const struct lm_range new_punct[] = {
    { 0x61D, 0x61D }, { 0x9FD, 0x9FD }, { 0xA76, 0xA76 }, { 0xC77, 0xC77 }, { 0xC84, 0xC84 },
    { 0x1B7D, 0x1B7E }, { 0x2E43, 0x2E4F }, { 0x2E52, 0x2E5D }, { 0x10EAD, 0x10EAD },
    { 0x10F55, 0x10F59 }, { 0x10F86, 0x10F89 }, { 0x1144B, 0x1144F }, { 0x1145A, 0x1145B },
    { 0x1145D, 0x1145D }, { 0x11660, 0x1166C }, { 0x116B9, 0x116B9 }, { 0x1183B, 0x1183B },
    { 0x11944, 0x11946 }, { 0x119E2, 0x119E2 }, { 0x11A3F, 0x11A46 }, { 0x11A9A, 0x11A9C },
    { 0x11A9E, 0x11AA2 }, { 0x11B00, 0x11B09 }, { 0x11C41, 0x11C45 }, { 0x11C70, 0x11C71 },
    { 0x11EF7, 0x11EF8 }, { 0x11F43, 0x11F4F }, { 0x11FFF, 0x11FFF }, { 0x12FF1, 0x12FF2 },
    { 0x16E97, 0x16E9A }, { 0x16FE2, 0x16FE2 }, { 0x1E95E, 0x1E95F },
};

static const struct lm_range new_format[] = {
    { 0x890, 0x891 }, { 0x8E2, 0x8E2 }, { 0x110CD, 0x110CD }, { 0x13430, 0x1343F },
};

static bool in(const struct lm_range *t, size_t n, uint32_t r)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r > t[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && r >= t[lo].first;
}

#define IN(table, r) in(table, sizeof table / sizeof *table, r)

/* The blocks of Chinese characters, as the library has them. */
static const struct lm_range chinese[] = {
    { 0x3400, 0x4DBF }, { 0x4E00, 0x9FFF }, { 0xF900, 0xFAFF }, { 0x20000, 0x2A6DF },
    { 0x2A700, 0x2B73F }, { 0x2B740, 0x2B81F }, { 0x2B920, 0x2CEAF }, { 0x2F800, 0x2FA1F },
};

/* Lower case of letters that utf8proc's Unicode has not got yet: ranges, and how far. */
static const struct {
    uint32_t first, last, to;
} new_lower[] = {
    { 0x1C89, 0x1C89, 0x1C8A }, { 0xA7CB, 0xA7CB, 0x0264 }, { 0xA7CC, 0xA7CC, 0xA7CD },
    { 0xA7CE, 0xA7CE, 0xA7CF }, { 0xA7D2, 0xA7D2, 0xA7D3 }, { 0xA7D4, 0xA7D4, 0xA7D5 },
    { 0xA7DA, 0xA7DA, 0xA7DB }, { 0xA7DC, 0xA7DC, 0x019B }, { 0x10D50, 0x10D65, 0x10D70 },
    { 0x16EA0, 0x16EB8, 0x16EBB },
};

static int category(uint32_t r)
{
    return (int)utf8proc_category((utf8proc_int32_t)r);
}

bool lm_bert_punct(uint32_t r)
{
    if (r < 128)
        return (lm_uni_ascii[r] & (LM_U_P | LM_U_S)) != 0;
    if (r == 0x166D || r == 0x111C9)
        return true;
    return lm_uni_class(r) & LM_U_P && !IN(new_punct, r);
}

int lm_rune_lower(uint32_t r, uint32_t to[3])
{
    to[0] = r;
    if (r < 128) {
        to[0] += r >= 'A' && r <= 'Z' ? 32 : 0;
        return 1;
    }
    if (r == 0x130) {                            /* the one that becomes two */
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    for (size_t i = 0; i < sizeof new_lower / sizeof *new_lower; i++)
        if (r >= new_lower[i].first && r <= new_lower[i].last) {
            to[0] = new_lower[i].to + (r - new_lower[i].first);
            return 1;
        }
    to[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)r);
    return 1;
}

static bool is_dropped(uint32_t r)
{
    if (r == 0 || r == 0xFFFD)
        return true;
    if (r == '\t' || r == '\n' || r == '\r')
        return false;
    int c = category(r);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CO ||
           (c == UTF8PROC_CATEGORY_CF && !IN(new_format, r));
}

static bool is_accent(uint32_t r)
{
    return r == 0x1734 || (category(r) == UTF8PROC_CATEGORY_MN && !IN(new_marks, r));
}

/* A mark that stays and has its place among others, and the character that it is of. */
struct mark {
    uint32_t r;
    uint8_t  ccc;
    size_t   from, to;
};

struct work {
    struct lm_buf   *out;
    struct lm_remap *map;                        /* NULL: nobody asks              */
    unsigned         opts;
    size_t           from, to;                   /* the character that is worked on */
    size_t           at;                         /* what it became begins here      */
    struct mark     *held, *sorted;              /* marks since the last starter    */
    size_t           n_held, held_cap, sorted_cap;
    bool             unsorted;
};

static void emit(struct work *w, uint32_t r)
{
    uint32_t low[3];
    if (!(w->opts & LM_BERT_LOWER)) {
        lm_buf_rune(w->out, r);
        return;
    }
    int n = lm_rune_lower(r, low);
    for (int i = 0; i < n; i++)
        lm_buf_rune(w->out, low[i]);
}

/* What the bytes p[from .. to) became: out[at ..].  A space that was added on either side is
 * no part of it. */
static bool note(struct work *w, size_t at, size_t from, size_t to)
{
    const struct lm_buf *out = w->out;
    size_t begin = at, end = out->len;
    if (!w->map)
        return true;
    if (end - begin > 2 && out->data[begin] == ' ' && out->data[end - 1] == ' ') {
        begin++;
        end--;
    }
    if (end - begin == to - from && begin == at && end == out->len)
        return true;
    return lm_remap_add(w->map, at, from) &&
           (begin == at || lm_remap_add(w->map, begin, from)) &&
           lm_remap_add(w->map, end, to) &&
           (end == out->len || lm_remap_add(w->map, out->len, to));
}

/* The mark in canonical order that is k-th, from the place of the one that stood k-th. */
static bool put_mark(struct work *w, size_t k)
{
    const size_t at = w->out->len;
    emit(w, w->unsorted ? w->sorted[k].r : w->held[k].r);
    return !w->map || (lm_remap_add(w->map, at, w->held[k].from) &&
                       lm_remap_add(w->map, w->out->len, w->held[k].to));
}

/* The marks in canonical order: by class, equal ones as they stood. */
static bool flush(struct work *w)
{
    size_t start[257] = { 0 };
    bool ok = true;
    if (!w->n_held)
        return true;
    if (w->unsorted) {
        if (!lm_grow(&w->sorted, &w->sorted_cap, w->n_held, sizeof *w->sorted))
            return false;
        for (size_t i = 0; i < w->n_held; i++)
            start[w->held[i].ccc + 1]++;
        for (int c = 0; c < 256; c++)
            start[c + 1] += start[c];
        for (size_t i = 0; i < w->n_held; i++)
            w->sorted[start[w->held[i].ccc]++] = w->held[i];
    }
    for (size_t i = 0; ok && i < w->n_held; i++)
        ok = put_mark(w, i);
    if (ok && w->map)
        ok = lm_remap_add(w->map, w->out->len, w->from);
    w->at = w->out->len;
    w->n_held = 0;
    w->unsorted = false;
    return ok;
}

/* A character of form D. */
static bool put_part(struct work *w, uint32_t r)
{
    uint8_t ccc = 0;
    if (r >= 0x300)
        ccc = (uint8_t)utf8proc_get_property((utf8proc_int32_t)r)->combining_class;
    if (!ccc && !flush(w))
        return false;
    if (is_accent(r))
        return true;
    if (!ccc) {
        emit(w, r);
        return true;
    }
    if (!lm_grow(&w->held, &w->held_cap, w->n_held + 1, sizeof *w->held))
        return false;
    w->unsorted |= w->n_held && w->held[w->n_held - 1].ccc > ccc;
    w->held[w->n_held++] = (struct mark){ r, ccc, w->from, w->to };
    return true;
}

static bool put_rune(struct work *w, uint32_t r)
{
    utf8proc_int32_t part[8];
    int last = 0;
    if (!(w->opts & LM_BERT_STRIP)) {
        emit(w, r);
        return true;
    }
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)r, part, 8,
                                                 UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last);
    if (n < 0 || n > 8)                          /* canonical ones have at most four */
        return put_part(w, r);
    for (utf8proc_ssize_t i = 0; i < n; i++)
        if (!put_part(w, (uint32_t)part[i]))
            return false;
    return true;
}

/* One character, the k bytes at p. */
static bool put_wide(struct work *w, const char *p, int k, uint32_t r)
{
    if (r == 0xFFFD && k == 1) {                 /* no UTF-8 */
        if (w->opts & LM_BERT_CLEAN)
            return true;
        if (!flush(w))
            return false;
        lm_buf_add(w->out, p, 1);
        return true;
    }
    if (w->opts & LM_BERT_CLEAN) {
        if (is_dropped(r))
            return true;
        if (lm_uni_class(r) & LM_U_SPACE)
            r = ' ';
    }
    if (!(w->opts & LM_BERT_CHINESE && IN(chinese, r)))
        return put_rune(w, r);
    if (!flush(w))
        return false;
    lm_buf_byte(w->out, ' ');
    bool ok = put_rune(w, r) && flush(w);
    lm_buf_byte(w->out, ' ');
    return ok;
}

/* ASCII without controls: only its case changes. */
static size_t put_ascii(struct work *w, const char *p, size_t len)
{
    size_t n = 0;
    while (n < len && p[n] >= 0x20 && p[n] < 0x7F)
        n++;
    lm_buf_add(w->out, p, n);
    if (!(w->opts & LM_BERT_LOWER) || w->out->failed || !n)
        return n;
    char *to = w->out->data + w->out->len - n;
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(to[i] + (to[i] >= 'A' && to[i] <= 'Z' ? 32 : 0));
    return n;
}

int lm_bert_normalize(const char *p, size_t len, unsigned opts, struct lm_buf *out,
                      struct lm_remap *map, struct lm_err *err)
{
    struct work w = { .out = out, .map = map, .opts = opts };
    bool ok = true;
    for (size_t i = 0; ok && i < len; i = w.to) {
        int k;
        if (!w.n_held && (i += put_ascii(&w, p + i, len - i)) == len)
            break;
        uint32_t r = lm_uni_next(p + i, p + len, &k);
        w.from = i;
        w.to = i + (size_t)k;
        w.at = out->len;
        ok = put_wide(&w, p + i, k, r);
        if (ok && (!w.n_held || out->len > w.at))    /* held ones are noted when they are put */
            ok = note(&w, w.at, w.from, w.to);
    }
    w.from = len;
    ok = ok && flush(&w);
    free(w.held);
    free(w.sorted);
    return ok && !out->failed ? LM_OK : lm_fail_nomem(err);
}

#else

bool lm_bert_punct(uint32_t r)
{
    return (lm_uni_class(r) & (LM_U_P | LM_U_S)) != 0;
}

int lm_rune_lower(uint32_t r, uint32_t to[3])
{
    to[0] = r + (r >= 'A' && r <= 'Z' ? 32 : 0);
    return 1;
}

int lm_bert_normalize(const char *p, size_t len, unsigned opts, struct lm_buf *out,
                      struct lm_remap *map, struct lm_err *err)
{
    (void)p, (void)len, (void)opts, (void)out, (void)map;
    return lm_fail(err, LM_ENOSUP, "normalization: built without utf8proc");
}

#endif
