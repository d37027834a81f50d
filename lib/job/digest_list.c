/* SPDX-License-Identifier: MIT */
#include "job/digest_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

int lm_digest_list_add(struct lm_buf *list, struct lm_in *in, const struct lm_gguf *g,
                       enum lm_digest_kind kind, const struct lm_env *env, struct lm_err *err)
{
    char (*hex)[LM_DIGEST_HEX] = lm_malloc_array(g->n_tensors + 1, sizeof *hex);
    if (!hex)
        return lm_fail_nomem(err);
    int r = lm_digest_tensors(in, g, kind, hex, env, err);
    for (uint64_t i = 0; r == LM_OK && i < g->n_tensors; i++) {
        const struct lm_str *name = &g->tensors[i].name;
        size_t skip = name->len && name->p[0] == '(';
        lm_buf_printf(list, "%s  %s", hex[i], skip ? "\\x28" : "");
        lm_buf_escape(list, name->p + skip, name->len - skip);
        lm_buf_byte(list, '\n');
    }
    free(hex);
    return r == LM_OK && list->failed ? lm_fail_nomem(err) : r;
}

void lm_digest_list_end(struct lm_buf *list, enum lm_digest_kind kind)
{
    char hex[LM_DIGEST_HEX];
    lm_digest_bytes(list->data, list->len, kind, hex);
    lm_buf_printf(list, "%s  (all)\n", hex);
}

struct line {
    const char *hex, *name;      /* in the text, each with a NUL after it */
    bool        seen;
};

struct lines {
    struct line *at;
    size_t       n, cap;
};

/* Digits of the digest that a line begins with, 0 if it is no line of a list. */
static size_t digits(const char *line)
{
    size_t n = strspn(line, "0123456789abcdef");
    bool one = (n == 16 || n == 64) && !strncmp(line + n, "  ", 2) && line[n + 2] &&
               line[n + 2] != '\n';
    return one ? n : 0;
}

int lm_digest_list_kind(const char *text, size_t len, enum lm_digest_kind *kind,
                        struct lm_err *err)
{
    size_t n = digits(text);
    if (!n || strlen(text) != len)
        return lm_fail(err, LM_EDATA, "line 1: not a digest, two spaces and a name");
    *kind = n == 16 ? LM_DIGEST_XXH64 : LM_DIGEST_SHA256;
    return LM_OK;
}

static int by_name(const void *x, const void *y)
{
    const struct line *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static int cut(char *text, struct lines *l, struct lm_err *err)
{
    size_t wanted = digits(text);
    for (char *line = text, *end; *line; line = end) {
        size_t n = digits(line);
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        if (!n || n != wanted)
            return lm_fail(err, LM_EDATA, "line %zu: not a digest, two spaces and a name",
                           l->n + 1);
        line[n] = '\0';
        if (!lm_grow(&l->at, &l->cap, l->n + 1, sizeof *l->at))
            return lm_fail_nomem(err);
        l->at[l->n++] = (struct line){ line, line + n + 2, false };
    }
    if (l->n)
        qsort(l->at, l->n, sizeof *l->at, by_name);
    return LM_OK;
}

int lm_digest_list_compare(char *want, char *have,
                           void (*differs)(void *arg, const char *name, const char *how),
                           void *arg, struct lm_err *err)
{
    struct lines w = { 0 }, h = { 0 };
    int r = cut(want, &w, err), other = 0;
    if (r == LM_OK)
        r = cut(have, &h, err);
    for (size_t i = 0; r == LM_OK && i < h.n; i++) {
        struct line *x = w.n ? bsearch(&h.at[i], w.at, w.n, sizeof *w.at, by_name) : NULL;
        if (x)
            x->seen = true;
        if (x && !strcmp(x->hex, h.at[i].hex))
            continue;
        differs(arg, h.at[i].name, x ? "differs" : "not in the list");
        other = 1;
    }
    for (size_t i = 0; r == LM_OK && i < w.n; i++)
        if (!w.at[i].seen) {
            differs(arg, w.at[i].name, "missing");
            other = 1;
        }
    free(w.at);
    free(h.at);
    return r == LM_OK ? other : r;
}
