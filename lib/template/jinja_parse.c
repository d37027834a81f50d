/* SPDX-License-Identifier: MIT */
/* The parser of statements. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "template/jinja.h"

void lm_jparse_fail(struct jparse *p, struct jpos pos, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lm_fail(p->err, LM_EDATA, "line %u, column %u: %s", pos.line, pos.col, text);
    longjmp(p->out, 1);
}

void lm_jparse_unsupported(struct jparse *p, struct jpos pos, const char *what)
{
    lm_fail(p->err, LM_ENOSUP, "line %u, column %u: %s is not supported", pos.line, pos.col, what);
    longjmp(p->out, 1);
}

static struct jnode *body(struct jparse *p, const char *const ends[], const char *what);

/* A list of names that end a body, and what the innermost block is called. */
#define ENDS(...) (const char *const[]){ __VA_ARGS__, NULL }

static void end_tag(struct jparse *p)
{
    char buf[64];
    if (p->tok.kind != JT_BLOCK_END)
        lm_jparse_fail(p, p->tok.pos, "expected token 'end of statement block', got '%s'",
                       lm_jtok_name(&p->tok, buf));
    lm_jlex_next(p);
}

/* The rest of a tag, the body behind it, and the name of the tag that ends it, which is one
 * of `ends`: the token after that. */
static struct jnode *block(struct jparse *p, const char *const ends[], const char *what)
{
    end_tag(p);
    return body(p, ends, what);
}

static struct jnode *whole_block(struct jparse *p, const char *const ends[], const char *what)
{
    struct jnode *n = block(p, ends, what);
    lm_jlex_next(p);
    return n;
}

static struct jnode *parse_if(struct jparse *p, struct jpos pos)
{
    struct jnode *first = NULL, **to = &first;
    for (;;) {
        struct jnode *n = lm_jnode(p, JN_IF, pos);
        *to = n;
        p->conditions++;
        n->a = lm_jparse_tuple(p, false, NULL, false);
        n->list = block(p, ENDS("elif", "else", "endif"), "if");
        bool elif = lm_jtok_is(&p->tok, JT_NAME, "elif");
        bool otherwise = lm_jtok_is(&p->tok, JT_NAME, "else");
        pos = p->tok.pos;
        lm_jlex_next(p);
        if (otherwise)
            n->other = whole_block(p, ENDS("endif"), "if");
        p->conditions--;
        if (!elif)
            return first;
        to = &n->other;
    }
}

static struct jnode *parse_for(struct jparse *p, struct jpos pos)
{
    char buf[64];
    struct jnode *n = lm_jnode(p, JN_FOR, pos);
    n->a = lm_jparse_target(p, true, false);
    if (!lm_jskip_name(p, "in"))
        lm_jparse_fail(p, p->tok.pos, "expected token 'in', got '%s'",
                       lm_jtok_name(&p->tok, buf));
    n->b = lm_jparse_tuple(p, false, "recursive", false);
    if (lm_jskip_name(p, "if"))
        n->c = lm_jparse_expr(p, true);
    n->op = lm_jskip_name(p, "recursive");
    p->loops++;
    n->list = block(p, ENDS("endfor", "else"), "for");
    p->loops--;
    bool otherwise = lm_jtok_is(&p->tok, JT_NAME, "else");
    lm_jlex_next(p);
    if (otherwise)
        n->other = whole_block(p, ENDS("endfor"), "for");
    return n;
}

static struct jnode *parse_set(struct jparse *p, struct jpos pos)
{
    struct jnode *target = lm_jparse_target(p, true, true);
    if (lm_jskip_op(p, "=")) {
        struct jnode *n = lm_jnode(p, JN_SET, pos);
        n->a = target;
        n->b = lm_jparse_tuple(p, true, NULL, false);
        return n;
    }
    struct jnode *n = lm_jnode(p, JN_SET_BLOCK, pos);
    n->a = target;
    n->b = lm_jparse_filters(p, NULL, false);
    n->list = whole_block(p, ENDS("endset"), "set");
    return n;
}

/* (a, b=1, ...) */
static void parameters(struct jparse *p, struct jnode *n)
{
    struct jnode **param = &n->params, **value = &n->defaults;
    lm_jexpect_op(p, "(");
    while (!lm_jtok_is(&p->tok, JT_OP, ")")) {
        if (n->params)
            lm_jexpect_op(p, ",");
        *param = lm_jparse_target(p, false, false);
        (*param)->pos = p->tok.pos;
        if (lm_jskip_op(p, "=")) {
            *value = lm_jparse_expr(p, true);
            (*param)->a = *value;
            value = &(*value)->next;
        } else if (n->defaults) {
            lm_jparse_fail(p, p->tok.pos, "non-default argument follows default argument");
        }
        param = &(*param)->next;
    }
    lm_jexpect_op(p, ")");
}

/* The body of a macro: nothing of the loops outside reaches into it. */
static void macro_body(struct jparse *p, struct jnode *n, const char *const ends[],
                       const char *what)
{
    int loops = p->loops, mentions = p->mentions;
    p->loops = p->mentions = 0;
    n->list = whole_block(p, ends, what);
    n->op = p->mentions;
    p->loops = loops;
    p->mentions |= mentions;
}

static struct jnode *parse_macro(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_MACRO, pos);
    struct jnode *name = lm_jparse_target(p, false, false);
    n->str = name->str;
    parameters(p, n);
    macro_body(p, n, ENDS("endmacro"), "macro");
    return n;
}

static struct jnode *parse_call(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_CALL_BLOCK, pos);
    if (lm_jtok_is(&p->tok, JT_OP, "("))
        parameters(p, n);
    n->a = lm_jparse_expr(p, true);
    if (n->a->kind != JN_CALL)
        lm_jparse_fail(p, pos, "expected call");
    macro_body(p, n, ENDS("endcall"), "call");
    return n;
}

static struct jnode *parse_filter(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_FILTER_BLOCK, pos);
    n->a = lm_jparse_filters(p, NULL, true);
    n->list = whole_block(p, ENDS("endfilter"), "filter");
    return n;
}

static struct jnode *parse_with(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_WITH, pos), **param = &n->params, **value = &n->defaults;
    while (p->tok.kind != JT_BLOCK_END) {
        if (n->params)
            lm_jexpect_op(p, ",");
        *param = lm_jparse_target(p, false, false);
        param = &(*param)->next;
        lm_jexpect_op(p, "=");
        *value = lm_jparse_expr(p, true);
        value = &(*value)->next;
    }
    n->list = whole_block(p, ENDS("endwith"), "with");
    return n;
}

/* Its body, in a scope of its own. */
static struct jnode *parse_generation(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_GENERATION, pos);
    p->generation = true;
    n->list = whole_block(p, ENDS("endgeneration"), "generation");
    return n;
}

static struct jnode *parse_print(struct jparse *p, struct jpos pos)
{
    struct jnode *n = lm_jnode(p, JN_PRINT, pos);
    n->a = lm_jparse_tuple(p, true, NULL, false);
    return n;
}

static struct jnode *parse_break(struct jparse *p, struct jpos pos)
{
    if (!p->loops)
        lm_jparse_fail(p, pos, "'break' outside loop");
    return lm_jnode(p, JN_BREAK, pos);
}

static struct jnode *parse_continue(struct jparse *p, struct jpos pos)
{
    if (!p->loops)
        lm_jparse_fail(p, pos, "'continue' outside loop");
    return lm_jnode(p, JN_CONTINUE, pos);
}

/* There are no other templates: a tag that needs one fails when it is reached. */
static struct jnode *parse_no_loader(struct jparse *p, struct jpos pos)
{
    while (p->tok.kind != JT_BLOCK_END && p->tok.kind != JT_EOF)
        lm_jlex_next(p);
    return lm_jnode(p, JN_NO_LOADER, pos);
}

static const struct {
    const char   *name;
    struct jnode *(*parse)(struct jparse *p, struct jpos pos);
} statements[] = {
    { "if", parse_if }, { "for", parse_for }, { "set", parse_set },
    { "macro", parse_macro }, { "call", parse_call },
    { "filter", parse_filter }, { "with", parse_with },
    { "generation", parse_generation }, { "print", parse_print },
    { "break", parse_break }, { "continue", parse_continue },
    { "include", parse_no_loader }, { "import", parse_no_loader },
    { "from", parse_no_loader }, { "extends", parse_no_loader },
};

static bool is_one_of(const struct jtoken *t, const char *const names[])
{
    for (; names && *names; names++)
        if (lm_jtok_is(t, JT_NAME, *names))
            return true;
    return false;
}

static struct jnode *statement(struct jparse *p)
{
    char buf[64];
    struct jtoken t = p->tok;
    if (t.kind != JT_NAME)
        lm_jparse_fail(p, t.pos, "tag name expected");
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!lm_jstr_is(&t.text, statements[i].name))
            continue;
        lm_jlex_next(p);
        lm_jenter(p);
        struct jnode *n = statements[i].parse(p, t.pos);
        p->depth--;
        end_tag(p);
        return n;
    }
    lm_jparse_fail(p, t.pos, "Encountered unknown tag '%s'.", lm_jtok_name(&t, buf));
}

_Noreturn static void unfinished(struct jparse *p, const char *const ends[], const char *what)
{
    char list[100] = "";
    for (size_t i = 0; ends[i]; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s'%s'", i ? " or " : "", ends[i]);
    }
    lm_jparse_fail(p, p->tok.pos, "Unexpected end of template. Jinja was looking for the following "
                   "tags: %s. The innermost block that needs to be closed is '%s'.", list, what);
}

static struct jnode *print_tag(struct jparse *p)
{
    char buf[64];
    struct jnode *n = parse_print(p, p->tok.pos);
    if (p->tok.kind == JT_EOF)
        lm_jparse_fail(p, p->tok.pos,
                       "unexpected end of template, expected 'end of print statement'.");
    if (p->tok.kind != JT_VAR_END)
        lm_jparse_fail(p, p->tok.pos, "expected token 'end of print statement', got '%s'",
                       lm_jtok_name(&p->tok, buf));
    lm_jlex_next(p);
    return n;
}

/* Statements and text up to a tag whose name is in ends, which stays the current token. */
static struct jnode *body(struct jparse *p, const char *const ends[], const char *what)
{
    struct jnode *first = NULL, **tail = &first;
    for (;;) {
        struct jnode *n;
        if (p->tok.kind == JT_EOF) {
            if (ends)
                unfinished(p, ends, what);
            return first;
        }
        if (p->tok.kind == JT_DATA) {
            n = lm_jnode(p, JN_TEXT, p->tok.pos);
            n->str = p->tok.text;
            lm_jlex_next(p);
        } else if (p->tok.kind == JT_VAR_BEGIN) {
            lm_jlex_next(p);
            n = print_tag(p);
        } else {
            lm_jlex_next(p);
            if (is_one_of(&p->tok, ends))
                return first;
            n = statement(p);
        }
        *tail = n;
        tail = &n->next;
    }
}

/* A copy with every kind of newline \n, without the last one; LM_EDATA if it is not UTF-8. */
static int normalize(struct jparse *p, const char *src, size_t len)
{
    char *to = lm_arena_alloc(p->arena, len + 1);
    if (!to)
        return lm_fail_nomem(p->err);
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        int k = lm_utf8_len(src + i, len - i, NULL);
        if (!k)
            return lm_fail(p->err, LM_EDATA, "the template is not UTF-8 at byte %zu", i);
        if (src[i] == '\r') {
            to[n++] = '\n';
            i += i + 1 < len && src[i + 1] == '\n' ? 2 : 1;
            continue;
        }
        memcpy(to + n, src + i, (size_t)k);
        n += (size_t)k;
        i += (size_t)k;
    }
    p->src = to;
    p->len = n - (n > 0 && to[n - 1] == '\n');
    return LM_OK;
}

static int parse(struct jparse *p, struct lm_template *t)
{
    if (setjmp(p->out))
        return LM_EDATA;
    lm_jlex_next(p);
    t->body = body(p, NULL, NULL);
    const struct jstr *s = &p->unknown.name;
    if (p->unknown.pos.line)
        lm_jparse_fail(p, p->unknown.pos, "No %s named '%.*s'.", p->unknown.what,
                       (int)(s->len < 80 ? s->len : 80), s->p);
    return LM_OK;
}

struct lm_template *lm_template_parse(const char *src, size_t len, struct lm_err *err)
{
    struct lm_template *t = calloc(1, sizeof *t);
    if (!t) {
        lm_fail_nomem(err);
        return NULL;
    }
    struct jparse p = { .arena = &t->arena, .err = err, .pos = { 1, 1 }, .after_newline = true };
    if (normalize(&p, src, len) != LM_OK || parse(&p, t) != LM_OK) {
        lm_template_free(t);
        return NULL;
    }
    t->generation = p.generation;
    return t;
}

bool lm_template_tells_said(const struct lm_template *t)
{
    return t->generation;
}

void lm_template_free(struct lm_template *t)
{
    if (!t)
        return;
    lm_arena_release(&t->arena);
    free(t);
}
