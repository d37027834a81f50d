/* SPDX-License-Identifier: MIT */
/*
 * Rewriting, and a bound on it: the system's compiler writes out what a count repeats, so that
 * a few nested counts would take all memory.
 *
 * What differs between the two dialects, where only whether there is a match is
 * asked: groups that do not capture, lazy quantifiers (which match no other texts),
 * escapes of classes, and how brackets quote.
 */
#include "job/pattern.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum {
    MAX_COPIES = 10000,                  /* of atoms, counts written out              */
    MAX_DEPTH  = 100                     /* of groups                                 */
};

struct lm_pattern {
    regex_t re;
};

struct rewrite {
    const char    *p, *end;
    struct lm_buf  out;
    struct lm_err *err;
    uint64_t       copies[MAX_DEPTH + 1];    /* of atoms, in each group that is open  */
    uint64_t       last;                     /* in what a count would repeat          */
    size_t         depth;
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

/* A member of brackets whose members start at first.  Behind a '[' some would start a class. */
static void member(struct rewrite *r, size_t first, char c)
{
    const size_t n = r->out.len;
    const bool swap = strchr(".:=", c) && n > first && r->out.data[n - 1] == '[';
    lm_buf_byte(&r->out, swap ? '[' : c);
    if (swap)
        r->out.data[n - 1] = c;
}

/* At a '[' within brackets: itself, or the start of a class such as [:digit:], to whose last
 * character p is moved. */
static int inner_bracket(struct rewrite *r)
{
    const char *from = r->p;
    const char kind = r->end - from > 1 ? from[1] : 0;
    if (kind == '.' || kind == '=')
        return unsupported(r, (char[]){ '[', '[', kind, 0 });
    if (kind == ':') {
        for (r->p += 2; r->end - r->p > 1 && !(r->p[0] == ':' && r->p[1] == ']'); r->p++)
            ;
        if (r->end - r->p < 2)
            return lm_fail(r->err, LM_EUSE, "a '[:' without its ':]'");
        r->p++;
    }
    lm_buf_add(&r->out, from, (size_t)(r->p + 1 - from));
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
        if (c == '[') {
            const int s = inner_bracket(r);
            if (s != LM_OK)
                return s;
            continue;
        }
        if (c != '\\') {
            member(r, first, c);
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
            member(r, first, c);
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

/* Repeat what stands before. */
static void repeat(struct rewrite *r, uint64_t times)
{
    if (times < 2)
        return;
    r->copies[r->depth] += r->last * (times - 1);
    r->last *= times;
}

/* Count what c, translated already, adds. */
static int count(struct rewrite *r, char c)
{
    if (c == '(') {
        if (r->depth == MAX_DEPTH)
            return lm_fail(r->err, LM_EUSE, "more than %d groups in each other", MAX_DEPTH);
        r->copies[++r->depth] = 1;
        r->last = 0;
    } else if (c == ')') {
        if (!r->depth)
            return lm_fail(r->err, LM_EUSE, "a ')' without its '('");
        r->last = r->copies[r->depth--];
        r->copies[r->depth] += r->last;
    } else if (c == '+')
        repeat(r, 2);
    else if (c == '|')
        r->last = 0;
    else if (c != '*' && c != '?' && c != '}') {
        r->last = 1;
        r->copies[r->depth]++;
    }
    if (r->copies[r->depth] > MAX_COPIES)
        return lm_fail(r->err, LM_EUSE, "too large: more than %d characters, once what is "
                       "counted is written out", MAX_COPIES);
    return LM_OK;
}

/* After '{': M}, M,} or M,N}.  Without an end it makes one copy more than M. */
static int braces(struct rewrite *r)
{
    const char *from = r->p - 1;
    uint64_t n[2] = { 0, 0 };
    int k = 0;
    for (; r->p < r->end && *r->p != '}'; r->p++)
        if (*r->p == ',' && !k && from[1] != ',')
            k++;
        else if (*r->p < '0' || *r->p > '9')
            break;
        else if (n[k] <= MAX_COPIES)
            n[k] = n[k] * 10 + (uint64_t)(*r->p - '0');
    if (r->p == r->end || *r->p != '}' || from[1] == '}')
        return lm_fail(r->err, LM_EUSE, "a '{' without a count and its '}'");
    lm_buf_add(&r->out, from, (size_t)(++r->p - from));
    const uint64_t least = n[0] + (k && n[1] < n[0]);
    repeat(r, least > n[1] ? least : n[1]);
    return count(r, '}');
}

static int translate(struct rewrite *r)
{
    bool quantified = false;
    while (r->p < r->end) {
        char c = *r->p++;
        int s = LM_OK;
        bool was = quantified;
        quantified = c == '*' || c == '+' || c == '?' || c == '{';
        if (c == '?' && was) {                   /* lazy: the same names match */
            quantified = false;
            continue;
        }
        if (c == '{')
            s = braces(r);
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
        if (s == LM_OK && c != '{')
            s = count(r, c == '\\' || c == '[' ? 'a' : c);
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
