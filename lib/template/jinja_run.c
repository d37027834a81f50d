/* SPDX-License-Identifier: MIT */
/* One rendering: its names, its limits, its result. */
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

const struct lm_template_limits lm_template_limits = {
    .steps = 50000000, .memory = (size_t)1 << 30, .depth = 1000,
};

void lm_marked_text_release(struct lm_marked_text *m)
{
    lm_buf_release(&m->text);
    lm_buf_release(&m->guard);
    lm_buf_release(&m->said);
}

void lm_marked_text_cut(struct lm_marked_text *m, size_t len)
{
    struct lm_buf *const parts[] = { &m->text, &m->guard, &m->said };
    for (size_t i = 0; i < 3; i++)
        if (parts[i]->len > len) {
            parts[i]->len = len;
            parts[i]->data[len] = 0;
        }
}

/* Names of roles, of which templates make control tokens. */
static bool is_plain_word(const struct lm_jval *v)
{
    for (size_t i = 0; v->kind == LM_JSON_STRING && i < v->len; i++) {
        char c = v->str[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              c == '_' || c == '-'))
            return false;
    }
    return v->kind == LM_JSON_STRING;
}

static struct jv text(struct jrun *r, const char *p, size_t len, bool guarded)
{
    char *copy = lm_jalloc(r, len + 1, 1);
    unsigned char *mark = NULL;
    if (len)
        memcpy(copy, p, len);
    if (guarded && len) {
        mark = lm_jalloc(r, len, 1);
        memset(mark, LM_JMARK_GUARD, len);
    }
    return lm_jstr(r, copy, mark, len);
}

static struct jv number(struct jrun *r, const struct lm_jval *v)
{
    int64_t i;
    if (lm_jval_i64(v, &i) && !strpbrk(v->str, ".eE"))
        return lm_jint(i);
    if (strpbrk(v->str, ".eE"))
        return lm_jfloat(strtod(v->str, NULL));
    bool neg = v->str[0] == '-';
    struct jv big = lm_jbig_parse(r, v->str + neg, strlen(v->str) - neg, 10);
    return neg ? lm_junary(r, JO_NEG, big) : big;
}

/* JSON nests no deeper than LM_JSON_DEPTH. */
static struct jv from_json(struct jrun *r, const struct lm_jval *v, bool guarded)
{
    struct jv out;
    switch (v->kind) {
    case LM_JSON_STRING: return text(r, v->str, v->len, guarded);
    case LM_JSON_NUMBER: return number(r, v);
    case LM_JSON_TRUE:   return lm_jtrue;
    case LM_JSON_FALSE:  return lm_jfalse;
    case LM_JSON_ARRAY:
        out = lm_jlist(r, J_LIST);
        for (const struct lm_jval *e = v->first; e; e = e->next)
            lm_jpush(r, out.l, from_json(r, e, guarded));
        return out;
    case LM_JSON_OBJECT:
        out = lm_jdict(r);
        for (const struct lm_jval *e = v->first; e; e = e->next) {
            bool role = e->key_len == 4 && !memcmp(e->key, "role", 4) && is_plain_word(e);
            lm_jdict_put(r, out.d, text(r, e->key, e->key_len, guarded),
                         from_json(r, e, guarded && !role));
        }
        return out;
    default: return lm_jnone;
    }
}

static void add_layers(struct jrun *r, const struct lm_template_layer *layers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct lm_jval *vars = layers[i].vars;
        for (const struct lm_jval *e = vars ? vars->first : NULL; e; e = e->next)
            lm_jdict_put(r, &r->globals.vars, text(r, e->key, e->key_len, false),
                         from_json(r, e, layers[i].guarded));
    }
}

static int run(struct jrun *r, const struct lm_template_layer *layers, size_t n, struct jsb *out)
{
    int failed = setjmp(r->out);
    if (failed)
        return failed == 2 ? LM_ENOMEM : failed == 3 ? LM_ENOSUP : LM_EDATA;
    lm_jadd_globals(r);
    add_layers(r, layers, n);
    r->sink = out;
    lm_jrun_template(r);
    return LM_OK;
}

/* Append, for each byte, whether it has that mark. */
static bool add_marks(struct lm_buf *to, const struct jsb *b, unsigned char mark)
{
    char *out = lm_buf_room(to, b->len);
    for (size_t i = 0; out && i < b->len; i++)
        out[i] = b->mark && b->mark[i] & mark;
    to->len += out ? b->len : 0;
    return out;
}

static int hand_over(const struct jsb *b, struct lm_marked_text *out, struct lm_err *err)
{
    const size_t len = out->text.len;
    lm_buf_add(&out->text, b->p ? b->p : "", b->len);
    if (!out->text.failed && add_marks(&out->guard, b, LM_JMARK_GUARD) &&
        add_marks(&out->said, b, LM_JMARK_SAID))
        return LM_OK;
    lm_marked_text_cut(out, len);
    return lm_fail_nomem(err);
}

int lm_template_render(const struct lm_template *t, const struct lm_template_layer *layers,
                       size_t n_layers, const struct tm *now,
                       const struct lm_template_limits *limits, struct lm_marked_text *out,
                       struct lm_err *err)
{
    struct jrun r = { .t = t, .limits = limits ? limits : &lm_template_limits, .now = now,
                      .err = err, .random = 1, .pos = { 1, 1 } };
    struct jsb b = { .r = &r };
    r.scope = &r.globals;
    int s = run(&r, layers, n_layers, &b);
    if (s == LM_OK)
        s = hand_over(&b, out, err);
    lm_arena_release(&r.arena);
    return s;
}
