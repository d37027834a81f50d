/* SPDX-License-Identifier: MIT */
/* The filter tojson as transformers has it: json.dumps of Python. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "template/jinja.h"

struct style {
    bool        ascii, sorted, indented;
    struct jstr indent, item, key;   /* separators */
};

static void dump(struct jsb *b, const struct style *s, struct jv v, int level);

static void escape_rune(struct jsb *b, uint32_t c, unsigned char mark, bool ascii)
{
    static const char from[] = "\"\\\n\r\t\b\f", to[] = "\"\\nrtbf";
    char esc[16] = "";
    const char *k = c && c < 128 ? strchr(from, (int)c) : NULL;
    if (k)
        snprintf(esc, sizeof esc, "\\%c", to[k - from]);
    else if (c < 32 || (ascii && c >= 127 && c < 0x10000))
        snprintf(esc, sizeof esc, "\\u%04x", (unsigned)c);
    else if (ascii && c >= 127)
        snprintf(esc, sizeof esc, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((c - 0x10000) >> 10)),
                 (unsigned)(0xDC00 + ((c - 0x10000) & 0x3FF)));
    if (!*esc)
        lm_jsb_rune(b, c, mark);
    for (const char *p = esc; *p; p++)
        lm_jsb_rune(b, (unsigned char)*p, mark);
}

static void dump_str(struct jsb *b, const struct style *s, const struct jstr *t)
{
    int k;
    lm_jsb_lit(b, "\"");
    for (size_t i = 0; i < t->len; i += (size_t)k) {
        uint32_t c = lm_jrune(t, i, &k);
        escape_rune(b, c, t->mark ? t->mark[i] : 0, s->ascii);
    }
    lm_jsb_lit(b, "\"");
}

static void new_line(struct jsb *b, const struct style *s, int level)
{
    if (!s->indented)
        return;
    lm_jsb_lit(b, "\n");
    lm_jsb_fill(b, &s->indent, 0, s->indent.len, level);
}

static void dump_list(struct jsb *b, const struct style *s, const struct jlist *l, int level)
{
    lm_jsb_lit(b, "[");
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            lm_jsb_str(b, &s->item);
        new_line(b, s, level + 1);
        dump(b, s, l->v[i], level + 1);
    }
    if (l->n)
        new_line(b, s, level);
    lm_jsb_lit(b, "]");
}

static void dump_key(struct jsb *b, const struct style *s, struct jv key)
{
    if (key.kind == J_STR) {
        dump_str(b, s, key.s);
    } else if (lm_jis_num(key) || key.kind == J_NONE) {
        lm_jsb_lit(b, "\"");
        dump(b, s, key, 0);
        lm_jsb_lit(b, "\"");
    } else {
        lm_jfail(b->r, "keys must be str, int, float, bool or None, not %s", lm_jtype(key));
    }
}

static void dump_dict(struct jsb *b, const struct style *s, const struct jdict *d, int level)
{
    struct jrun *r = b->r;
    struct jv *keys = lm_jalloc(r, d->n, sizeof *keys);
    struct jv *values = lm_jalloc(r, d->n, sizeof *values);
    for (size_t i = 0; i < d->n; i++) {
        keys[i] = d->e[i].key;
        values[i] = d->e[i].value;
    }
    if (s->sorted)
        lm_jsort(r, values, keys, d->n, false);
    lm_jsb_lit(b, "{");
    for (size_t i = 0; i < d->n; i++) {
        if (i)
            lm_jsb_str(b, &s->item);
        new_line(b, s, level + 1);
        dump_key(b, s, keys[i]);
        lm_jsb_str(b, &s->key);
        dump(b, s, values[i], level + 1);
    }
    if (d->n)
        new_line(b, s, level);
    lm_jsb_lit(b, "}");
}

static void dump(struct jsb *b, const struct style *s, struct jv v, int level)
{
    struct jrun *r = b->r;
    lm_jstep(r, 1);
    lm_jdeeper(r);
    switch (v.kind) {
    case J_NONE: lm_jsb_lit(b, "null"); break;
    case J_BOOL: lm_jsb_lit(b, v.b ? "true" : "false"); break;
    case J_FLOAT:
        if (isfinite(v.f))
            lm_jrepr(b, v);
        else
            lm_jsb_lit(b, isnan(v.f) ? "NaN" : v.f < 0 ? "-Infinity" : "Infinity");
        break;
    case J_INT: case J_BIG: lm_jrepr(b, v); break;
    case J_STR: dump_str(b, s, v.s); break;
    case J_LIST: case J_TUPLE: dump_list(b, s, v.l, level); break;
    case J_DICT: dump_dict(b, s, v.d, level); break;
    default: lm_jfail(r, "Object of type %s is not JSON serializable", lm_jtype(v));
    }
    r->depth--;
}

static const struct jstr *separator(struct jrun *r, struct jv pair, size_t i)
{
    if ((pair.kind != J_TUPLE && pair.kind != J_LIST) || pair.l->n != 2)
        lm_jfail(r, "tojson: separators are two strings");
    return lm_jneed_str(r, pair.l->v[i], "tojson: separators");
}

struct jv lm_jtojson(struct jrun *r, struct jv v, struct jargs *a)
{
    enum { ASCII, INDENT, SEPARATORS, SORT };
    static const struct jstr comma = { ", ", NULL, 2 }, colon = { ": ", NULL, 2 };
    struct jv *arg[4];
    struct jsb b = JSB(r), indent = JSB(r);
    lm_jtake(r, "tojson", a, "ensure_ascii indent separators sort_keys", arg);
    struct style s = { .item = comma, .key = colon };
    s.ascii = arg[ASCII] && lm_jtruth(r, *arg[ASCII]);
    s.sorted = arg[SORT] && lm_jtruth(r, *arg[SORT]);
    if (arg[INDENT] && arg[INDENT]->kind != J_NONE) {
        static const struct jstr space = { " ", NULL, 1 };
        s.indented = true;
        s.item.len = 1;
        if (arg[INDENT]->kind == J_STR)
            s.indent = *arg[INDENT]->s;
        else
            lm_jsb_fill(&indent, &space, 0, 1, lm_jindex(r, *arg[INDENT], "tojson"));
        if (indent.len)
            s.indent = (struct jstr){ indent.p, NULL, indent.len };
    }
    if (arg[SEPARATORS] && arg[SEPARATORS]->kind != J_NONE) {
        s.item = *separator(r, *arg[SEPARATORS], 0);
        s.key = *separator(r, *arg[SEPARATORS], 1);
    }
    dump(&b, &s, v, 0);
    return lm_jsb_value(&b);
}
