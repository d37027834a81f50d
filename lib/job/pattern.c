/* SPDX-License-Identifier: MIT */
/*
 * What differs between the two dialects, where only whether there is a match is
 * asked: groups that do not capture, lazy quantifiers (which match no other texts),
 * escapes of classes, and how brackets quote.
 */
#include "job/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct lm_pattern {
    regex_t re;
};

struct rewrite {
    const char    *p, *end;
    struct lm_buf  out;
    struct lm_err *err;
};

static int unsupported(struct rewrite *r, const char *what)
{
    return lm_fail(r->err, LM_EUSE, "%s: not supported in patterns", what);
}

/* The members of \d, \w or \s, or NULL. */
static const char *members(char c)
{
    switch (c) {
    case 'd': case 'D': return "0-9";
    case 'w': case 'W': return "0-9A-Za-z_";
    case 's': case 'S': return " \t\n\r\f\v";
    default:            return NULL;
    }
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* After a backslash outside brackets. */
static int escape(struct rewrite *r)
{
    if (r->p == r->end)
        return lm_fail(r->err, LM_EUSE, "a backslash at the end");
    char c = *r->p++;
    if (members(c))
        lm_buf_printf(&r->out, "[%s%s]", c < 'a' ? "^" : "", members(c));
    else if (is_letter(c) || (c >= '0' && c <= '9'))
        return unsupported(r, (char[]){ '\\', c, 0 });
    else if (strchr(".[]{}()*+?^$|\\/", c) && c != '/' && c != ']' && c != '}') {
        lm_buf_byte(&r->out, '\\');
        lm_buf_byte(&r->out, c);
    } else
        lm_buf_byte(&r->out, c);
    return LM_OK;
}

/* After '['.  In POSIX brackets a backslash stands for itself, ']' can only be first
 * and '-' last. */
static int brackets(struct rewrite *r)
{
    bool close = false, minus = false, empty = true;
    lm_buf_byte(&r->out, '[');
    if (r->p < r->end && *r->p == '^')
        lm_buf_byte(&r->out, *r->p++);
    size_t first = r->out.len;
    for (; r->p < r->end && *r->p != ']'; r->p++, empty = false) {
        char c = *r->p;
        if (c != '\\') {
            lm_buf_byte(&r->out, c);
            continue;
        }
        if (++r->p == r->end)
            break;
        c = *r->p;
        if (c == ']')
            close = true;
        else if (c == '-')
            minus = true;
        else if (members(c) && c >= 'a')
            lm_buf_str(&r->out, members(c));
        else if (is_letter(c) || (c >= '0' && c <= '9'))
            return unsupported(r, (char[]){ '[', '\\', c, ']', 0 });
        else
            lm_buf_byte(&r->out, c);
    }
    if (r->p == r->end)
        return lm_fail(r->err, LM_EUSE, "a '[' without its ']'");
    if (empty)
        return unsupported(r, "[]");
    r->p++;
    if (close && lm_buf_room(&r->out, 1)) {
        memmove(r->out.data + first + 1, r->out.data + first, r->out.len - first);
        r->out.data[first] = ']';
        r->out.len++;
    }
    lm_buf_str(&r->out, minus ? "-]" : "]");
    return LM_OK;
}

static int translate(struct rewrite *r)
{
    bool quantified = false;
    while (r->p < r->end) {
        char c = *r->p++;
        int s = LM_OK;
        bool was = quantified;
        quantified = c == '*' || c == '+' || c == '?' || c == '}';
        if (c == '?' && was)                     /* lazy: the same names match */
            quantified = false;
        else if (c == '\\')
            s = escape(r);
        else if (c == '[')
            s = brackets(r);
        else if (c == '(' && r->p < r->end && *r->p == '?') {
            if (r->end - r->p < 2 || r->p[1] != ':')
                return unsupported(r, "(? other than (?:");
            r->p += 2;
            lm_buf_byte(&r->out, '(');
        } else
            lm_buf_byte(&r->out, c);
        if (s != LM_OK)
            return s;
    }
    return r->out.failed ? lm_fail_nomem(r->err) : LM_OK;
}

struct lm_pattern *lm_pattern_new(const char *text, size_t len, struct lm_err *err)
{
    struct rewrite r = { .p = text, .end = text + len, .err = err };
    struct lm_pattern *p = NULL;
    if (len && translate(&r) == LM_OK && !(p = calloc(1, sizeof *p)))
        lm_fail_nomem(err);
    if (!len)
        lm_fail(err, LM_EUSE, "an empty pattern");
    if (p) {
        int code = regcomp(&p->re, r.out.data, REG_EXTENDED | REG_ICASE | REG_NOSUB);
        if (code) {
            char why[128];
            regerror(code, &p->re, why, sizeof why);
            lm_fail(err, LM_EUSE, "%s", why);
            free(p);
            p = NULL;
        }
    }
    lm_buf_release(&r.out);
    return p;
}

void lm_pattern_free(struct lm_pattern *p)
{
    if (!p)
        return;
    regfree(&p->re);
    free(p);
}

bool lm_pattern_matches(const struct lm_pattern *p, const char *name)
{
    return regexec(&p->re, name, 0, NULL, 0) == 0;
}
