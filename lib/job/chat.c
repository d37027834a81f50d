/* SPDX-License-Identifier: MIT */
/* A conversation in JSON made ready for a template, and what is left of the result. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/input.h"
#include "job/chat_parts.h"
#include "template/chat_formats.h"

#define MAX_TEMPLATE ((size_t)1 << 24)

/* Stands behind the text of a message that is to be continued, to find where that ends. */
static const char marker[] = "THE-MESSAGE-GOES-ON-FROM-HERE ";

struct request {
    struct lm_chat               *chat;
    const struct lm_chat_options *o;
    struct lm_arena               arena;
    const struct lm_jval         *root, *messages, *tools, *documents, *kwargs;
    const struct lm_jval         *format;    /* of a built-in template, or NULL     */
    bool                          prompt, go_on;
    const char                   *final;     /* text of the message to be continued */
    size_t                        final_len;
    bool                          calls;     /* a message has tool_calls            */
    struct lm_err                *err;
};

/* ---- trees --------------------------------------------------------------- */

static struct lm_jval *node(struct request *q, enum lm_json_kind kind, const char *key)
{
    struct lm_jval *v = lm_arena_alloc(&q->arena, sizeof *v);
    if (v) {
        v->kind = kind;
        v->key = key;
        v->key_len = key ? strlen(key) : 0;
    }
    return v;
}

/* Append a copy of v under a key (NULL: its own); false when memory is short. */
static bool append(struct request *q, struct lm_jval *to, struct lm_jval **last,
                   const struct lm_jval *v, const char *key)
{
    struct lm_jval *copy = node(q, v ? v->kind : LM_JSON_NULL, key);
    if (!copy)
        return false;
    if (v) {
        *copy = *v;
        copy->next = NULL;
        if (key) {
            copy->key = key;
            copy->key_len = strlen(key);
        }
    }
    if (*last)
        (*last)->next = copy;
    else
        to->first = copy;
    *last = copy;
    to->len++;
    return true;
}

static bool present(const struct lm_jval *v)
{
    return v && v->kind != LM_JSON_NULL;
}

static bool same_key(const struct lm_jval *v, const char *key)
{
    return v->key_len == strlen(key) && !memcmp(v->key, key, v->key_len);
}

/* ---- messages ------------------------------------------------------------ */

/* content with the marker behind it. */
static struct lm_jval *marked(struct request *q, const struct lm_jval *v)
{
    struct lm_jval *copy = lm_arena_alloc(&q->arena, sizeof *copy);
    char *text = lm_arena_alloc(&q->arena, v->len + sizeof marker);
    if (!copy || !text) {
        lm_fail_nomem(q->err);
        return NULL;
    }
    memcpy(text, v->str, v->len);
    memcpy(text + v->len, marker, sizeof marker);
    *copy = *v;
    copy->str = text;
    copy->len = v->len + sizeof marker - 1;
    q->final = v->str;
    q->final_len = v->len;
    return copy;
}

/* A list of parts: the marker goes to the last that has text. */
static struct lm_jval *marked_parts(struct request *q, const struct lm_jval *parts)
{
    const struct lm_jval *last = NULL;
    struct lm_jval *list = node(q, LM_JSON_ARRAY, parts->key), *tail = NULL;
    for (const struct lm_jval *p = parts->first; p; p = p->next)
        if (lm_jval_str(lm_jval_get(p, "text")))
            last = p;
    if (!last) {
        lm_fail(q->err, LM_EDATA, "the last message has no text to continue");
        return NULL;
    }
    for (const struct lm_jval *p = parts->first; p && list; p = p->next) {
        struct lm_jval part = *p, *end = NULL;
        if (p == last) {
            part.first = NULL;
            part.len = 0;
            for (const struct lm_jval *m = p->first; m; m = m->next) {
                const struct lm_jval *v = m;
                if (same_key(m, "text") && m == lm_jval_get(p, "text") && !(v = marked(q, m)))
                    return NULL;
                if (!append(q, &part, &end, v, NULL))
                    list = NULL;
            }
        }
        if (!list || !append(q, list, &tail, &part, NULL))
            list = NULL;
    }
    if (!list)
        lm_fail_nomem(q->err);
    return list;
}

static const struct lm_jval *content_to_continue(struct request *q, const struct lm_jval *v)
{
    if (lm_jval_str(v))
        return marked(q, v);
    if (v->kind == LM_JSON_ARRAY)
        return marked_parts(q, v);
    lm_fail(q->err, LM_EDATA, "the last message has no text to continue");
    return NULL;
}

/* A message as templates get it: without members that are null, with its reasoning under
 * both names, in the order that transformers gives them: it shows where a message is printed. */
static int add_message(struct request *q, struct lm_jval *to, struct lm_jval **last,
                       const struct lm_jval *m, bool go_on)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    struct lm_jval *out = node(q, LM_JSON_OBJECT, NULL), *tail = NULL;
    const struct lm_jval *reasoning = NULL, *content = lm_jval_get(m, "content");
    bool ok = out;
    for (size_t i = 0; i < 3 && !present(reasoning); i++)
        reasoning = lm_jval_get(m, names[i]);
    if (present(reasoning)) {
        const struct lm_jval *thinking = lm_jval_get(m, names[1]);
        ok = ok && append(q, out, &tail, present(thinking) ? thinking : reasoning, names[1]);
    }
    if (go_on && !present(content))
        return lm_fail(q->err, LM_EDATA, "the last message has no text to continue");
    for (const struct lm_jval *e = m->first; e && ok; e = e->next) {
        const struct lm_jval *v = e;
        if (e->kind == LM_JSON_NULL || same_key(e, names[1]))
            continue;
        q->calls |= same_key(e, "tool_calls");
        if (go_on && e == content && !(v = content_to_continue(q, e)))
            return LM_EDATA;
        ok = append(q, out, &tail, v, NULL);
    }
    if (ok && present(reasoning) && !present(lm_jval_get(m, names[0])))
        ok = append(q, out, &tail, reasoning, names[0]);
    if (!ok || !append(q, to, last, out, NULL))
        return lm_fail_nomem(q->err);
    return LM_OK;
}

static int take_messages(struct request *q, const struct lm_jval *messages)
{
    struct lm_jval *list = node(q, LM_JSON_ARRAY, NULL), *tail = NULL;
    size_t i = 0;
    int s = list ? LM_OK : lm_fail_nomem(q->err);
    if (!messages)
        return lm_fail(q->err, LM_EDATA, "messages is missing");
    if (messages->kind != LM_JSON_ARRAY)
        return lm_fail(q->err, LM_EDATA, "messages is not a list");
    if (!messages->first && q->go_on)
        return lm_fail(q->err, LM_EDATA, "there is no message to continue");
    for (const struct lm_jval *m = messages->first; m && s == LM_OK; m = m->next, i++) {
        if (m->kind != LM_JSON_OBJECT)
            return lm_fail(q->err, LM_EDATA, "messages[%zu] is not an object", i);
        s = add_message(q, list, &tail, m, q->go_on && !m->next);
    }
    q->messages = list;
    return s;
}

/* ---- the request --------------------------------------------------------- */

/* A list, or null; NULL when it is neither. */
static int take_list(struct request *q, const char *key, const struct lm_jval **out)
{
    const struct lm_jval *v = lm_jval_get(q->root, key);
    if (present(v) && v->kind != LM_JSON_ARRAY)
        return lm_fail(q->err, LM_EDATA, "%s is not a list", key);
    *out = present(v) ? v : NULL;
    return LM_OK;
}

static int take_flag(struct request *q, const char *key, bool *out, bool *said)
{
    const struct lm_jval *v = lm_jval_get(q->root, key);
    *said = present(v);
    if (*said && !lm_jval_bool(v, out))
        return lm_fail(q->err, LM_EDATA, "%s is neither true nor false", key);
    return LM_OK;
}

static int parse(struct request *q, const char *json, size_t len)
{
    bool said, said_go_on;
    int s;
    q->root = lm_json_tree(&q->arena, json, len, q->err);
    if (!q->root)
        return q->err ? (int)q->err->code : LM_EDATA;
    q->prompt = true;
    if (q->root->kind != LM_JSON_OBJECT && q->root->kind != LM_JSON_ARRAY)
        return lm_fail(q->err, LM_EDATA, "not a conversation: an object with messages is needed");
    if ((s = take_flag(q, "add_generation_prompt", &q->prompt, &said)) ||
        (s = take_flag(q, "continue_final_message", &q->go_on, &said_go_on)) ||
        (s = take_list(q, "tools", &q->tools)) || (s = take_list(q, "documents", &q->documents)))
        return s;
    q->go_on |= q->o->continue_final;
    if (q->o->no_generation_prompt || (q->go_on && !said))
        q->prompt = false;
    if (q->go_on && q->prompt)
        return lm_fail(q->err, q->o->continue_final ? LM_EUSE : LM_EDATA, "a message cannot be "
                       "continued and a new one begun: continue_final_message and "
                       "add_generation_prompt");
    q->kwargs = lm_jval_get(q->root, "chat_template_kwargs");
    if (present(q->kwargs) && q->kwargs->kind != LM_JSON_OBJECT)
        return lm_fail(q->err, LM_EDATA, "chat_template_kwargs is not an object");
    return take_messages(q, q->root->kind == LM_JSON_ARRAY ? q->root
                                                           : lm_jval_get(q->root, "messages"));
}

/* ---- the template -------------------------------------------------------- */

static int no_template(const struct lm_chat *c, const char *name, struct lm_err *err)
{
    char names[200] = "";
    for (size_t i = 0; i < c->n && strlen(names) < 150; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%.*s", i ? ", " : "",
                 (int)(c->templates[i].name.len < 40 ? c->templates[i].name.len : 40),
                 c->templates[i].name.p);
    }
    if (!name && !c->n)
        return lm_fail(err, LM_EUSE, "the model has no chat template: name one with --template, "
                       "'chatml' for example");
    if (!name)
        return lm_fail(err, LM_EUSE, "the model has no default chat template; it has: %s", names);
    return lm_fail(err, LM_EUSE, "--template %.100s: no file, not built in, and no template of the "
                   "model%s%s", name, c->n ? ", which has: " : "", names);
}

/* One of the model's; t stays as it is when there is none. */
static void choose_own(const struct request *q, struct lm_chat_template *t)
{
    const char *want = q->o->template_name;
    const struct lm_chat_template *found = NULL;
    if (!want && q->tools)
        found = lm_chat_find(q->chat, "tool_use");
    if (!found)
        found = lm_chat_find(q->chat, want ? want : "default");
    if (found)
        *t = *found;
}

bool lm_chat_built_in(const struct lm_chat *c, const char *name)
{
    size_t i = 0;
    while (lm_chat_format_name(i) && strcmp(lm_chat_format_name(i), name) != 0)
        i++;
    return lm_chat_format_name(i) && !lm_chat_find(c, name);
}

/* The template; *data is malloc'ed when it was read from a file. */
static int choose(struct request *q, struct lm_chat_template *t, char **data)
{
    const char *want = q->o->template_name;
    struct lm_err why = { 0 };
    size_t len;
    *data = NULL;
    *t = (struct lm_chat_template){ .key = "" };
    choose_own(q, t);
    if (t->text.p)
        return LM_OK;
    if (!want)
        return no_template(q->chat, NULL, q->err);
    if (lm_chat_built_in(q->chat, want)) {
        q->format = lm_chat_format(want, &q->arena);
        t->text = (struct lm_str){ lm_chat_frame, strlen(lm_chat_frame) };
        t->file = want;
        t->key = "built-in template";
        return q->format ? LM_OK : lm_fail_nomem(q->err);
    }
    if (lm_read_file(want, MAX_TEMPLATE, data, &len, &why) != LM_OK && !strpbrk(want, "/."))
        return no_template(q->chat, want, q->err);
    t->text = (struct lm_str){ *data, len };
    t->file = want;
    return *data ? LM_OK : lm_fail(q->err, why.code, "%s", why.text);
}

static bool build_layer(struct request *q, struct lm_jval *vars)
{
    struct lm_jval *last = NULL, *prompt = node(q, q->prompt ? LM_JSON_TRUE : LM_JSON_FALSE, NULL);
    *vars = (struct lm_jval){ .kind = LM_JSON_OBJECT };
    return prompt && append(q, vars, &last, q->messages, "messages") &&
           append(q, vars, &last, q->tools, "tools") &&
           append(q, vars, &last, q->documents, "documents") &&
           append(q, vars, &last, prompt, "add_generation_prompt");
}

/* What the built-in template takes besides the conversation. */
static const struct lm_jval *format_layer(struct request *q)
{
    struct lm_jval *layer = node(q, LM_JSON_OBJECT, NULL), *last = NULL;
    struct lm_jval *start = node(q, LM_JSON_STRING, "bos_token");
    if (!layer || !start)
        return NULL;
    start->str = q->o->start.len ? q->o->start.p : "";
    start->len = q->o->start.len;
    for (const struct lm_jval *m = q->format->first; m; m = m->next)
        if (!append(q, layer, &last, m, NULL))
            return NULL;
    return append(q, layer, &last, start, NULL) ? layer : NULL;
}

static int render(struct request *q, const struct lm_template *t, struct lm_marked_text *out)
{
    struct lm_jval vars;
    const struct lm_jval *format = q->format ? format_layer(q) : NULL;
    if (!build_layer(q, &vars) || (q->format && !format))
        return lm_fail_nomem(q->err);
    const struct lm_template_layer layers[] = {
        { &q->chat->special, false }, { &vars, true },
        { present(q->kwargs) ? q->kwargs : NULL, true }, { q->o->kwargs, false }, { format, false },
    };
    return lm_template_render(t, layers, 5, q->o->now, NULL, out, q->err);
}

/* ---- what a template does without ------------------------------------------ */

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Does a name stand in a text, as a whole? */
static bool mentions(struct lm_str text, const char *name, size_t len)
{
    for (size_t i = 0; i + len <= text.len; i++)
        if (memcmp(text.p + i, name, len) == 0 && !(i && in_name(text.p[i - 1])) &&
            !(i + len < text.len && in_name(text.p[i + len])))
            return true;
    return false;
}

/* What is there for a template that does not speak of it is lost, or misspelled. */
static void note_unused(struct request *q, struct lm_str text)
{
    enum { MOST_NAMES = 100 };               /* looked for, however many there are */
    struct lm_buf names = { 0 };
    const struct { bool there; const char *name; } own[] = {
        { q->tools && q->tools->first, "tools" }, { q->calls, "tool_calls" },
        { q->documents && q->documents->first, "documents" },
    };
    const struct lm_jval *kwargs[] = { present(q->kwargs) ? q->kwargs : NULL, q->o->kwargs };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].there && !mentions(text, own[i].name, strlen(own[i].name)))
            lm_buf_printf(&names, "%s%s", names.len ? ", " : "", own[i].name);
    for (size_t i = 0, n = 0; i < 2; i++)
        for (const struct lm_jval *e = kwargs[i] ? kwargs[i]->first : NULL; e && n < MOST_NAMES;
             e = e->next, n++)
            if (!mentions(text, e->key, e->key_len))
                lm_buf_printf(&names, "%s%.60s", names.len ? ", " : "", e->key);
    if (names.len && !names.failed && !q->chat->noted) {
        lm_note(q->chat->env, LM_WARN, "the template does not speak of: %s", names.data);
        q->chat->noted = true;
    }
    lm_buf_release(&names);
}

/* Which message has this member as null?  -1: none. */
static int64_t null_in(const struct request *q, const char *name, size_t len)
{
    const struct lm_jval *list = lm_jval_get(q->root, "messages");
    int64_t i = 0;
    for (const struct lm_jval *m = (list ? list : q->root)->first; m; m = m->next, i++)
        for (const struct lm_jval *e = m->kind == LM_JSON_OBJECT ? m->first : NULL; e; e = e->next)
            if (e->kind == LM_JSON_NULL && e->key_len == len && !memcmp(e->key, name, len))
                return i;
    return -1;
}

/* A member that was there, but null, looks as if it were not. */
static void tell_of_null(const struct request *q)
{
    static const char lacks[] = "has no attribute '";
    const char *name = q->err ? strstr(q->err->text, lacks) : NULL;
    if (!name)
        return;
    name += sizeof lacks - 1;
    const size_t n = strlen(q->err->text);
    const int64_t at = null_in(q, name, strcspn(name, "'"));
    if (at >= 0)
        snprintf(q->err->text + n, sizeof q->err->text - n, ": in messages[%lld] it is null, which "
                 "counts as not there", (long long)at);
}

/* A template that is none is its file's fault; what goes wrong with it may be either's. */
static int fill_in(struct request *q, struct lm_marked_text *out, const char **at)
{
    struct lm_chat_template from;
    char *data;
    int s = choose(q, &from, &data);
    if (s != LM_OK) {
        *at = from.file ? from.file : q->chat->path;
        return s;
    }
    struct lm_template *t = lm_template_parse(from.text.p, from.text.len, q->err);
    if (t)
        note_unused(q, from.text);
    free(data);
    if (!t) {
        *at = from.file;
        s = q->err ? (int)q->err->code : LM_EDATA;
        return *from.key ? lm_err_at(q->err, s, "%s", from.key) : s;
    }
    if (q->o->want_said && !lm_template_tells_said(t))
        s = lm_fail(q->err, LM_EDATA, "the template does not mark what the assistant says: it has "
                    "no {%% generation %%}");
    else
        s = render(q, t, out);
    if (s != LM_OK)
        tell_of_null(q);
    if (s != LM_OK && *from.key)
        lm_err_at(q->err, s, "%s", from.key);
    if (s != LM_OK)
        lm_err_at(q->err, s, "%s", from.file);
    lm_template_free(t);
    return s;
}

/* ---- continuing ---------------------------------------------------------- */

/* The bytes of the white space that the text begins with, or ends with. */
static size_t space_before(const char *p, size_t n)
{
    size_t i = 0;
    uint32_t r;
    for (int k; i < n && (k = lm_utf8_len(p + i, n - i, &r)) && lm_jspace(r); )
        i += (size_t)k;
    return i;
}

static size_t space_behind(const char *p, size_t n)
{
    size_t end = n;
    uint32_t r;
    while (end) {
        size_t i = end - 1;
        while (i && end - i < 4 && ((unsigned char)p[i] & 0xC0) == 0x80)
            i--;
        if (lm_utf8_len(p + i, end - i, &r) != (int)(end - i) || !lm_jspace(r))
            break;
        end = i;
    }
    return n - end;
}

static bool has(const char *hay, size_t n, const char *needle, size_t len, size_t *last)
{
    for (size_t i = n; i + 1 > len; i--)
        if (memcmp(hay + i - len, needle, len) == 0) {
            *last = i - len;
            return true;
        }
    return len == 0;
}

/* Cut the text at the marker; a template that trims messages trims there, too. */
static int cut(const struct request *q, struct lm_marked_text *out)
{
    const size_t len = sizeof marker - 1;
    const char *final = q->final, *p = out->text.data;
    size_t n = q->final_len, at = 0, ignored = 0;
    n -= space_behind(final, n);
    size_t before = space_before(final, n);
    final += before;
    n -= before;
    if (!has(p, out->text.len, final, n, &ignored) ||
        !has(p, out->text.len, marker, len - 1, &at))
        return lm_fail(q->err, LM_EDATA, "the text of the last message does not appear in what the "
                       "template makes of it: it cannot be continued");
    bool whole = at + len <= out->text.len && p[at + len - 1] == ' ';
    if (!whole)
        at -= space_behind(p, at);
    lm_marked_text_cut(out, at);
    return LM_OK;
}

int lm_chat_render(struct lm_chat *c, const char *json, size_t len,
                   const struct lm_chat_options *o, struct lm_marked_text *out, const char **at,
                   struct lm_err *err)
{
    struct request q = { .chat = c, .o = o, .err = err };
    struct lm_marked_text text = { 0 };
    int s = parse(&q, json, len);
    if (s == LM_OK)
        s = fill_in(&q, &text, at);
    if (s == LM_OK && q.go_on)
        s = cut(&q, &text);
    if (s == LM_OK) {
        lm_buf_add(&out->text, text.text.data, text.text.len);
        lm_buf_add(&out->guard, text.guard.data, text.guard.len);
        lm_buf_add(&out->said, text.said.data, text.said.len);
        if (out->text.failed || out->guard.failed || out->said.failed)
            s = lm_fail_nomem(err);
    }
    lm_marked_text_release(&text);
    lm_arena_release(&q.arena);
    return s;
}

bool lm_chat_time(const char *text, struct tm *out)
{
    static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S" };
    static const size_t lengths[] = { 10, 16, 19 };
    for (size_t i = 0; i < 3; i++) {
        struct tm t = { .tm_isdst = -1 };
        const char *end = strlen(text) == lengths[i] ? strptime(text, forms[i], &t) : NULL;
        if (!end || *end)
            continue;
        struct tm check = t;
        check.tm_isdst = 0;
        check.tm_hour = 12;                      /* no hour is skipped for daylight then */
        if (mktime(&check) == (time_t)-1 || check.tm_mday != t.tm_mday)
            return false;
        t.tm_wday = check.tm_wday;
        t.tm_yday = check.tm_yday;
        *out = t;
        return true;
    }
    return false;
}
