/* SPDX-License-Identifier: MIT */
#include "vocab/regex.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "vocab/regex_parts.h"
#include "vocab/unicode.h"

#ifdef LM_HAVE_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

#define REGEX_STEPS 64u                  /* ways tried for each character, see regex.h     */
#define REGEX_AHEAD 64u                  /* characters looked at for each of the text      */
#define REGEX_LEAST ((uint64_t)1 << 28)  /* but so many in any case                        */
#define WINDOW      1024u                /* seen at once; more only where a match needs it */

enum { N_PAGES = LM_REGEX_PAGES, MAX_SORTS = LM_REGEX_SORTS };

/* An interval of code points of one sort. */
struct stretch {
    uint32_t first;
    uint8_t  sort;
};

/* A set begins or ends. */
struct bound {
    uint32_t at, set;
};

static int by_place(const void *a, const void *b)
{
    const struct bound *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Where sets begin and end, ascending, *n of them.  NULL: no memory. */
static struct bound *bounds_of(const struct lm_regex_parsed *x, size_t *n)
{
    size_t room = 1, k = 0;
    for (size_t i = 0; i < x->n_sets; i++)
        room += 2 * x->set[i].n;
    struct bound *b = lm_malloc_array(room, sizeof *b);
    for (size_t i = 0; b && i < x->n_sets; i++)
        for (size_t j = 0; j < x->set[i].n; j++) {
            b[k++] = (struct bound){ x->set[i].r[j].first, (uint32_t)i };
            b[k++] = (struct bound){ x->set[i].r[j].last + 1, (uint32_t)i };
        }
    if (b)
        qsort(b, k, sizeof *b, by_place);
    *n = k;
    return b;
}

/* Number the sorts: out[*n_out] for the stretches between the n bounds, the first from 0 on;
 * which[sort] says which sets have it, `words` words each. */
static int number_sorts(struct lm_regex *r, const struct bound *b, size_t n, struct stretch *out,
                        size_t *n_out, uint64_t *which, size_t words, struct lm_err *err)
{
    uint64_t *now = which + (MAX_SORTS + 1) * words;     /* the sets that are open */
    memset(now, 0, words * sizeof *now);
    *n_out = 0;
    for (size_t i = 0, at = 0; at <= LM_RUNE_MAX; at = i < n ? b[i].at : LM_RUNE_MAX + 1) {
        for (; i < n && b[i].at == at; i++)
            now[b[i].set / 64] ^= (uint64_t)1 << b[i].set % 64;
        unsigned k = 0;
        while (k < r->n_sorts && memcmp(which + k * words, now, words * sizeof *now) != 0)
            k++;
        if (k == r->n_sorts && ++r->n_sorts > MAX_SORTS)
            return lm_fail(err, LM_ENOSUP, "pattern: more than %d sorts of characters",
                           (int)MAX_SORTS);
        memcpy(which + k * words, now, words * sizeof *now);
        out[(*n_out)++] = (struct stretch){ (uint32_t)at, (uint8_t)k };
    }
    return LM_OK;
}

/* The number of a page, which is kept if there is none like it; -1: no memory. */
static int find_page(struct lm_regex *r, const uint8_t page[256])
{
    for (size_t i = r->n_pages; i > 0; i--)
        if (memcmp(r->sorts[i - 1], page, 256) == 0)
            return (int)i - 1;
    if (!lm_grow(&r->sorts, &r->pages_cap, r->n_pages + 1, 256))
        return -1;
    memcpy(r->sorts[r->n_pages], page, 256);
    return (int)r->n_pages++;
}

/* The table from characters to sorts; pages that are the same are there once, as are most,
 * which lie in one stretch. */
static bool fill_pages(struct lm_regex *r, const struct stretch *s, size_t n)
{
    int whole[MAX_SORTS];
    memset(whole, 0xFF, sizeof whole);
    size_t k = 0;
    for (uint32_t page = 0; page < N_PAGES; page++) {
        uint8_t now[256];
        const uint32_t first = page * 256, end = first + 256;
        while (k + 1 < n && s[k + 1].first <= first)
            k++;
        const bool one = k + 1 == n || s[k + 1].first >= end;
        int number = one ? whole[s[k].sort] : -1;
        if (number < 0) {
            for (uint32_t i = 0; i < 256; i++) {
                while (k + 1 < n && s[k + 1].first <= first + i)
                    k++;
                now[i] = s[k].sort;
            }
            if ((number = find_page(r, now)) < 0)
                return false;
        }
        if (one)
            whole[s[k].sort] = number;
        r->page[page] = (uint16_t)number;
    }
    return true;
}

/* A set as a class of sorts. */
static void write_class(struct lm_buf *b, const struct lm_regex *r, size_t set,
                        const uint64_t *which, size_t words)
{
    unsigned n = 0;
    for (unsigned k = 0; k < r->n_sorts; k++)
        n += which[k * words + set / 64] >> set % 64 & 1;
    if (!n) {
        lm_buf_str(b, "(?!)");
        return;
    }
    lm_buf_str(b, n > 1 ? "[" : "");
    for (unsigned k = 0; k < r->n_sorts; k++)
        if (which[k * words + set / 64] >> set % 64 & 1)
            lm_buf_printf(b, "\\x%02x", k);
    lm_buf_str(b, n > 1 ? "]" : "");
}

static void write_pattern(struct lm_buf *b, const struct lm_regex *r,
                          const struct lm_regex_parsed *x, const uint64_t *which, size_t words)
{
    lm_buf_str(b, "");
    for (size_t i = 0; i < x->n; i++)
        if (x->item[i].set < 0)
            lm_buf_str(b, x->item[i].text);
        else
            write_class(b, r, (size_t)x->item[i].set, which, words);
}

/* Sorts, table and PCRE2's pattern of what was parsed. */
static int translate(struct lm_regex *r, const struct lm_regex_parsed *x, struct lm_err *err)
{
    size_t n_bounds = 0, n = 0, words = x->n_sets / 64 + 1;
    struct bound *b = bounds_of(x, &n_bounds);
    struct stretch *s = b ? lm_malloc_array(n_bounds + 1, sizeof *s) : NULL;
    uint64_t *which = lm_malloc_array((MAX_SORTS + 2) * words, sizeof *which);
    struct lm_buf text = { 0 };
    int e = b && s && which ? number_sorts(r, b, n_bounds, s, &n, which, words, err)
                            : lm_fail_nomem(err);
    if (e == LM_OK && !fill_pages(r, s, n))
        e = lm_fail_nomem(err);
    if (e == LM_OK) {
        write_pattern(&text, r, x, which, words);
        e = text.failed ? lm_fail_nomem(err) : lm_regex_compile(r, x, which, words, err);
    }
    r->pattern = text.data;
    free(b);
    free(s);
    free(which);
    return e;
}

/* The text as sorts. */
static bool to_sorts(const struct lm_regex *r, const char *p, size_t len, struct lm_buf *out)
{
    lm_buf_clear(out);
    unsigned char *to = (unsigned char *)lm_buf_room(out, len);
    if (!to)
        return false;
    unsigned char *q = to;
    const uint8_t *ascii = r->sorts[r->page[0]];
    for (const char *end = p + len; p < end;) {
        if ((unsigned char)*p < 128) {
            *q++ = ascii[(unsigned char)*p++];
            continue;
        }
        int k;
        uint32_t rune = lm_uni_next(p, end, &k);
        *q++ = r->sorts[r->page[rune >> 8]][rune & 255];
        p += k;
    }
    out->len = (size_t)(q - to);
    return true;
}

/* The byte offset of a character; asked for in ascending order. */
static size_t byte_of(struct lm_regex_scan *s, size_t rune)
{
    if (s->sorts.len == s->len)
        return rune;
    while (s->rune < rune) {
        int k = 1;
        if ((unsigned char)s->p[s->byte] >= 128)
            lm_uni_next(s->p + s->byte, s->p + s->len, &k);
        s->byte += (size_t)k;
        s->rune++;
    }
    return s->byte;
}

size_t lm_regex_least(const struct lm_regex *r)
{
    return r->least;
}

bool lm_regex_walks(const struct lm_regex *r)
{
    return r->program.n > 0;
}

/* A search that needs no PCRE2. */
static int start_walk(struct lm_regex_scan *s, const struct lm_regex *r, struct lm_err *err)
{
    if (!s->walk.ways || s->r != r) {
        lm_regex_ways_free(s->walk.ways);
        s->walk.ways = lm_regex_ways_new(r);
    }
    if (!s->walk.ways)
        return lm_fail_nomem(err);
    lm_regex_walk_start(&s->walk);
    return LM_OK;
}

static int next_walk(struct lm_regex_scan *s, size_t *at, size_t *end, struct lm_err *err)
{
    int rc = lm_regex_walk_next(&s->walk, s->p, s->len, false, err);
    *at = s->walk.at;
    *end = s->walk.end;
    return rc;
}

static bool walks(const struct lm_regex_scan *s, const struct lm_regex *r)
{
    return lm_regex_walks(r) && !s->slow;
}

#ifdef LM_HAVE_PCRE2
static int compile(struct lm_regex *r, struct lm_err *err);
static void release_code(struct lm_regex *r);
#else
static int compile(struct lm_regex *r, struct lm_err *err)
{
    return lm_regex_walks(r) ? LM_OK
                             : lm_fail(err, LM_ENOSUP, "this pattern of the tokenizer's: built "
                                       "without PCRE2");
}

static void release_code(struct lm_regex *r)
{
    (void)r;
}
#endif

static struct lm_regex *finish(struct lm_regex_parsed *x, int e, struct lm_err *err)
{
    struct lm_regex *r = e == LM_OK ? calloc(1, sizeof *r) : NULL;
    if (e == LM_OK && !r)
        e = lm_fail_nomem(err);
    if (e == LM_OK && !lm_uni_ready())
        e = lm_fail(err, LM_ENOSUP, "patterns: built without utf8proc");
    if (e == LM_OK && (e = translate(r, x, err)) == LM_OK)
        e = compile(r, err);
    lm_regex_parsed_release(x);
    if (e == LM_OK)
        return r;
    lm_regex_free(r);
    return NULL;
}

struct lm_regex *lm_regex_new(const char *pattern, size_t len, struct lm_err *err)
{
    struct lm_regex_parsed x = { 0 };
    return finish(&x, lm_regex_parse(&x, pattern, len, err), err);
}

struct lm_regex *lm_regex_literal(const char *text, size_t len, struct lm_err *err)
{
    struct lm_regex_parsed x = { 0 };
    return finish(&x, lm_regex_parse_literal(&x, text, len, err), err);
}

void lm_regex_free(struct lm_regex *r)
{
    if (!r)
        return;
    release_code(r);
    free(r->program.op);
    free(r->pattern);
    free(r->sorts);
    free(r);
}

#ifdef LM_HAVE_PCRE2

static int compile(struct lm_regex *r, struct lm_err *err)
{
    int code;
    PCRE2_SIZE at;
    PCRE2_UCHAR text[120];
    r->code = pcre2_compile((PCRE2_SPTR)r->pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_USE_OFFSET_LIMIT, &code,
                            &at, NULL);
    if (!r->code) {
        pcre2_get_error_message(code, text, sizeof text);
        return lm_fail(err, LM_ENOSUP, "pattern: PCRE2 does not take it: %s", (char *)text);
    }
    pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    uint32_t least = 0;
    if (!lm_regex_walks(r) && pcre2_pattern_info(r->code, PCRE2_INFO_MINLENGTH, &least) == 0)
        r->least = least;
    return LM_OK;                                /* without JIT it is interpreted */
}

static void release_code(struct lm_regex *r)
{
    pcre2_code_free(r->code);
}

void lm_regex_scan_release(struct lm_regex_scan *s)
{
    lm_buf_release(&s->sorts);
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    lm_regex_ways_free(s->walk.ways);
    *s = (struct lm_regex_scan){ 0 };
}

int lm_regex_start(struct lm_regex_scan *s, const struct lm_regex *r, const char *p, size_t len,
                   struct lm_err *err)
{
    int e = walks(s, r) ? start_walk(s, r, err) : LM_OK;
    s->r = r;
    s->p = p;
    s->len = len;
    if (e != LM_OK || walks(s, r))
        return e;
    if (!s->match) {
        s->match = pcre2_match_data_create(1, NULL);
        s->context = pcre2_match_context_create(NULL);
        s->stack = pcre2_jit_stack_create(32 << 10, 1 << 20, NULL);
        if (!s->match || !s->context || !s->stack)
            return lm_fail_nomem(err);
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
        pcre2_set_heap_limit(s->context, 256 << 10);
    }
    s->from = s->rune = s->byte = 0;
    s->last = SIZE_MAX;
    s->ahead = 0;
    return to_sorts(r, p, len, &s->sorts) ? LM_OK : lm_fail_nomem(err);
}

static int too_much(struct lm_regex_scan *s, struct lm_err *err)
{
    return lm_fail(err, LM_ENOSUP, "the tokenizer's pattern takes more than linear time at byte "
                   "%zu of a piece of the text", byte_of(s, s->from));
}

/*
 * One call of PCRE2 on sorts[from .. end), the end of the text or not.  `first`: a match must
 * begin at from.  PCRE2's result; what needs more than the stack of compiled code is
 * interpreted, with memory from the heap.
 */
static int call(struct lm_regex_scan *s, size_t from, size_t end, bool first)
{
    bool part = end < s->sorts.len;
    uint32_t options = part ? PCRE2_PARTIAL_HARD : 0;
    size_t steps = REGEX_STEPS * (end - from) + (1 << 20);
    pcre2_set_match_limit(s->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
    pcre2_set_offset_limit(s->context, first ? from : PCRE2_UNSET);
    PCRE2_SPTR text = (PCRE2_SPTR)(s->sorts.data ? s->sorts.data : "");
    int rc = pcre2_match(s->r->code, text, end, from, options, s->match, s->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(s->r->code, text, end, from, options | PCRE2_NO_JIT, s->match,
                         s->context);
    return rc;
}

/* The first match from s->from on, in characters: 1, 0, or an error. */
static int search(struct lm_regex_scan *s, size_t *at, size_t *end, struct lm_err *err)
{
    size_t n = s->sorts.len, from = s->from, window = WINDOW;
    for (;;) {
        size_t to = n - from > window ? from + window : n;
        bool wide = to - from > WINDOW;
        if (wide && (s->ahead += to - from) > REGEX_LEAST + REGEX_AHEAD * (uint64_t)n)
            return too_much(s, err);
        int rc = call(s, from, to, wide);
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(s->match);
        if (rc >= 0 && to < n && o[1] == to) {   /* the edge may have decided it */
            window = o[0] > from ? WINDOW : window;
            from = o[0];
            window *= 2;
        } else if (rc >= 0) {
            *at = o[0];
            *end = o[1];
            return 1;
        } else if (rc == PCRE2_ERROR_PARTIAL) {
            window = o[0] > from ? WINDOW : window;
            from = o[0];
            window *= 2;
        } else if (rc == PCRE2_ERROR_NOMATCH && wide) {
            from++;
            window = WINDOW;
        } else if (rc == PCRE2_ERROR_NOMATCH && to < n) {
            from = to;
            window = WINDOW;
        } else if (rc == PCRE2_ERROR_NOMATCH) {
            return 0;
        } else if (rc == PCRE2_ERROR_NOMEMORY) {
            return lm_fail_nomem(err);
        } else {
            return too_much(s, err);
        }
    }
}

int lm_regex_next(struct lm_regex_scan *s, size_t *at, size_t *end, struct lm_err *err)
{
    if (walks(s, s->r))
        return next_walk(s, at, end, err);
    while (s->from <= s->sorts.len) {
        size_t a = 0, b = 0;
        int rc = search(s, &a, &b, err);
        if (rc <= 0)
            return rc;
        if (b < a)                               /* \K does not exist: cannot be */
            return 0;
        if (a == b && b == s->last) {
            s->from++;
            continue;
        }
        s->from = s->last = b;
        *at = byte_of(s, a);
        *end = byte_of(s, b);
        return 1;
    }
    return 0;
}

#else

void lm_regex_scan_release(struct lm_regex_scan *s)
{
    lm_buf_release(&s->sorts);
    lm_regex_ways_free(s->walk.ways);
    *s = (struct lm_regex_scan){ 0 };
}

int lm_regex_start(struct lm_regex_scan *s, const struct lm_regex *r, const char *p, size_t len,
                   struct lm_err *err)
{
    int e = start_walk(s, r, err);
    s->r = r;
    s->p = p;
    s->len = len;
    return e;
}

int lm_regex_next(struct lm_regex_scan *s, size_t *at, size_t *end, struct lm_err *err)
{
    (void)to_sorts;
    (void)byte_of;
    (void)walks;
    return next_walk(s, at, end, err);
}

#endif
