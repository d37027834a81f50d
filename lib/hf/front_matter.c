/* SPDX-License-Identifier: MIT */
#include "hf/front_matter.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"

struct line {
    const char *p;
    size_t      n, indent;
};

struct reader {
    const char      *p, *end;
    struct lm_arena *a;
    struct lm_yaml   y;
    size_t           cap;
    struct lm_str   *values;        /* of the member being read */
    size_t           n_values, values_cap;
};

/* The next line, or false at the end of the front matter. */
static bool next_line(struct reader *r, struct line *l)
{
    if (r->p == r->end)
        return false;
    const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
    l->p = r->p;
    l->n = (size_t)((nl ? nl : r->end) - r->p);
    r->p = nl ? nl + 1 : r->end;
    if (l->n && l->p[l->n - 1] == '\r')
        l->n--;
    if (l->n == 3 && !memcmp(l->p, "---", 3))
        return false;
    for (l->indent = 0; l->indent < l->n && (l->p[l->indent] == ' ' || l->p[l->indent] == '\t');)
        l->indent++;
    return true;
}

static int keep(struct reader *r, const char *p, size_t n, struct lm_err *err)
{
    if (!lm_grow(&r->values, &r->values_cap, r->n_values + 1, sizeof *r->values))
        return lm_fail_nomem(err);
    struct lm_str *s = &r->values[r->n_values];
    s->p = lm_arena_copy(r->a, p, n);
    s->len = n;
    if (!s->p)
        return lm_fail_nomem(err);
    r->n_values++;
    return LM_OK;
}

static size_t trim(const char **p, size_t n)
{
    while (n && (**p == ' ' || **p == '\t')) {
        ++*p;
        n--;
    }
    while (n && ((*p)[n - 1] == ' ' || (*p)[n - 1] == '\t'))
        n--;
    return n;
}

/* A quoted scalar's text: '' is a quote in single quotes, \ escapes in double ones. */
static int quoted(struct reader *r, const char *p, size_t n, struct lm_err *err)
{
    struct lm_buf b = {0};
    const char q = p[0];
    for (size_t i = 1; i < n && (p[i] != q || (q == '\'' && i + 1 < n && p[i + 1] == q)); i++) {
        if (q == '\'' && p[i] == q)
            i++;
        else if (q == '"' && p[i] == '\\' && i + 1 < n) {
            i++;
            lm_buf_byte(&b, p[i] == 'n' ? '\n' : p[i] == 't' ? '\t' : (unsigned char)p[i]);
            continue;
        }
        lm_buf_byte(&b, (unsigned char)p[i]);
    }
    const int s = b.failed ? lm_fail_nomem(err) : keep(r, b.data ? b.data : "", b.len, err);
    lm_buf_release(&b);
    return s;
}

/* One scalar; nothing is kept of an empty one or of null. */
static int scalar(struct reader *r, const char *p, size_t n, struct lm_err *err)
{
    n = trim(&p, n);
    if (n && (*p == '"' || *p == '\''))
        return quoted(r, p, n, err);
    for (size_t i = 1; i < n; i++)
        if (p[i] == '#' && p[i - 1] == ' ')
            n = i;                                  /* a comment */
    n = trim(&p, n);
    if (!n || *p == '#' || (n == 1 && *p == '~') || (n == 4 && !memcmp(p, "null", 4)))
        return LM_OK;
    return keep(r, p, n, err);
}

/* [a, "b", c] */
static int flow_list(struct reader *r, const char *p, size_t n, struct lm_err *err)
{
    size_t from = 1;
    char quote = 0;
    for (size_t i = 1; i < n; i++) {
        if (quote) {
            quote = p[i] == quote ? 0 : quote;
        } else if (p[i] == '"' || p[i] == '\'') {
            quote = p[i];
        } else if (p[i] == ',' || p[i] == ']') {
            const int s = scalar(r, p + from, i - from, err);
            if (s || p[i] == ']')
                return s;
            from = i + 1;
        }
    }
    return LM_OK;
}

/* Is "- name: x" or the like a member of something nested? */
static bool nested(const char *p, size_t n)
{
    if (n && (*p == '"' || *p == '\'' || *p == '{' || *p == '['))
        return *p == '{' || *p == '[';
    const char *colon = memchr(p, ':', n);
    return colon && (colon + 1 == p + n || colon[1] == ' ');
}

/* Lines that go on with a member: a list, something nested, or with style '>' or '|' a text,
 * whose lines are joined with a blank or a newline. */
static int block(struct reader *r, bool *list, char style, bool strip, struct lm_err *err)
{
    struct lm_buf text = {0};
    struct line l;
    int s = LM_OK;
    for (const char *mark = r->p; !s && next_line(r, &l); mark = r->p) {
        const char *p = l.p + l.indent;
        const size_t n = l.n - l.indent;
        const bool dash = n >= 2 && p[0] == '-' && p[1] == ' ';
        if (n && *p != '#' && l.indent == 0 && !dash) {
            r->p = mark;                            /* the next member */
            break;
        }
        if (dash && !style) {
            *list = true;
            if (!nested(p + 2, n - 2))
                s = scalar(r, p + 2, n - 2, err);
        } else if (n && style) {
            if (text.len)
                lm_buf_byte(&text, style == '|' ? '\n' : ' ');
            lm_buf_add(&text, p, n);
        }
    }
    if (text.len && !strip)
        lm_buf_byte(&text, '\n');
    if (!s && text.len)
        s = keep(r, text.data, text.len, err);
    lm_buf_release(&text);
    return s;
}

/* "key: value" at the top level. */
static int member(struct reader *r, const struct line *l, struct lm_err *err)
{
    const char *colon = memchr(l->p, ':', l->n);
    if (!l->n || l->indent || *l->p == '#' || !colon || colon == l->p)
        return LM_OK;
    const char *p = colon + 1;
    size_t n = trim(&p, l->n - (size_t)(colon + 1 - l->p));
    bool list = false;
    int s = LM_OK;
    r->n_values = 0;
    if (n && *p == '[') {
        list = true;
        s = flow_list(r, p, n, err);
    } else if (n && (*p == '|' || *p == '>')) {
        s = block(r, &list, *p, n > 1 && p[1] == '-', err);
    } else if (n && *p != '#') {
        s = *p == '{' ? LM_OK : scalar(r, p, n, err);
    } else {
        s = block(r, &list, 0, false, err);
    }
    if (s || !r->n_values)
        return s;
    if (!lm_grow(&r->y.items, &r->cap, r->y.n + 1, sizeof *r->y.items))
        return lm_fail_nomem(err);
    struct lm_yaml_item *it = &r->y.items[r->y.n];
    it->key = lm_arena_copy(r->a, l->p, (size_t)(colon - l->p));
    it->values = lm_arena_array(r->a, r->n_values, sizeof *it->values);
    it->list = list;
    it->n = r->n_values;
    if (!it->key || !it->values)
        return lm_fail_nomem(err);
    memcpy(it->values, r->values, r->n_values * sizeof *it->values);
    r->y.n++;
    return LM_OK;
}

int lm_front_matter(struct lm_yaml *y, struct lm_arena *a, const char *text, size_t len,
                    struct lm_err *err)
{
    struct reader r = { .p = text, .end = text + len, .a = a };
    struct line l;
    int s = LM_OK;
    *y = (struct lm_yaml){0};
    if (len < 4 || memcmp(text, "---", 3) || next_line(&r, &l) || l.n != 3)
        return LM_OK;
    while (!s && next_line(&r, &l))
        s = member(&r, &l, err);
    if (!s && r.y.n) {
        y->items = lm_arena_array(a, r.y.n, sizeof *y->items);
        if (y->items)
            memcpy(y->items, r.y.items, r.y.n * sizeof *y->items);
        y->n = y->items ? r.y.n : 0;
        s = y->items ? LM_OK : lm_fail_nomem(err);
    }
    free(r.y.items);
    free(r.values);
    return s;
}

const struct lm_yaml_item *lm_yaml_get(const struct lm_yaml *y, const char *key)
{
    for (size_t i = 0; i < y->n; i++)
        if (!strcmp(y->items[i].key, key))
            return &y->items[i];
    return NULL;
}
