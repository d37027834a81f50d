/* SPDX-License-Identifier: MIT */
/*
 * Editing metadata.  The editor holds the header as read; edits change its list of
 * entries, and writing it with the same data behind it is all that is left.
 */
#include "gguf/edit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/size.h"
#include "gguf/gguf_internal.h"
#include "gguf/kv_arg.h"

#define BLOCK (1024 * 1024)
#define ALIGNMENT_KEY "general.alignment"

struct lm_editor {
    struct lm_in          *in;
    struct lm_gguf        *g;
    size_t                 kv_cap;
    uint64_t               alignment;     /* of the output                           */
    bool                   pad;           /* the input's header has its zeros behind it */
    /* With another alignment: the tensors by place, and where each lay. */
    struct lm_gguf_tensor **order;
    uint64_t              *from;
};

struct lm_editor *lm_editor_open(struct lm_in *in, struct lm_err *err)
{
    struct lm_editor *e = calloc(1, sizeof *e);
    if (!e) {
        lm_fail_nomem(err);
        return NULL;
    }
    e->in = in;
    e->g = lm_gguf_read(in, false, err);
    if (!e->g) {
        lm_editor_free(e);
        return NULL;
    }
    e->kv_cap = (size_t)e->g->n_kv;
    e->pad = lm_in_pos(in) == e->g->data_offset;
    return e;
}

void lm_editor_free(struct lm_editor *e)
{
    if (!e)
        return;
    lm_gguf_free(e->g);
    free(e->order);
    free(e->from);
    free(e);
}

const struct lm_gguf *lm_editor_gguf(const struct lm_editor *e)
{
    return e->g;
}

/* ---- arrays from JSON ---------------------------------------------------- */

struct elements {
    void              *data;
    size_t             n, cap, size;
    enum lm_gguf_kind  kind;
    struct lm_arena   *arena;          /* for strings */
};

/* One more element; false if the value is not of the kind, or memory is short. */
static bool add_element(struct elements *a, const struct lm_json *j, enum lm_json_kind got)
{
    struct lm_gguf_kv kv = { 0 };
    union { struct lm_str s; uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64; float f;
            double d; } v = { 0 };
    bool ok = lm_grow(&a->data, &a->cap, a->n + 1, a->size);
    if (a->kind == LM_GGUF_STR) {
        ok = ok && got == LM_JSON_STRING;
        if (ok)
            v.s = (struct lm_str){ lm_arena_copy(a->arena, j->str, j->str_len), j->str_len };
        ok = ok && v.s.p;
    } else if (a->kind == LM_GGUF_BOOL) {
        v.u8 = got == LM_JSON_TRUE;
        ok = ok && (got == LM_JSON_TRUE || got == LM_JSON_FALSE);
    } else {
        /* --get and --json show floats that are no numbers as strings. */
        bool is_float = a->kind == LM_GGUF_F32 || a->kind == LM_GGUF_F64;
        ok = ok && (got == LM_JSON_NUMBER || (got == LM_JSON_STRING && is_float)) &&
             lm_kv_scalar(j->str, a->kind, &kv);
        if (a->kind == LM_GGUF_F32)
            v.f = (float)kv.f;
        else if (a->kind == LM_GGUF_F64)
            v.d = kv.f;
        else if (a->size == 1)
            v.u8 = (uint8_t)kv.u;
        else if (a->size == 2)
            v.u16 = (uint16_t)kv.u;
        else if (a->size == 4)
            v.u32 = (uint32_t)kv.u;
        else
            v.u64 = kv.u;
    }
    if (ok)
        memcpy((char *)a->data + a->n++ * a->size, &v, a->size);
    return ok;
}

/* Elements of the given kind in JSON text: one array, or values one after the other
 * with white space between, as they come out of a listing line by line. */
static int parse_elements(struct lm_arena *arena, const struct lm_str *text,
                          enum lm_gguf_kind kind, struct lm_gguf_arr *out, struct lm_err *err)
{
    struct elements a = { .kind = kind, .arena = arena };
    size_t at = 0;
    int s = LM_OK;
    a.size = kind == LM_GGUF_STR ? sizeof(struct lm_str) : lm_gguf_kind_size(kind);
    at += strspn(text->p, " \t\r\n");
    const bool list = text->p[at] == '[';
    while (s == LM_OK && at < text->len) {
        struct lm_json j;
        const char *line = text->p + at, *end = list ? NULL : strchr(line, '\n');
        const size_t len = end ? (size_t)(end - line) : text->len - at;
        at += len + (end != NULL);
        if (strspn(line, " \t\r\n") >= len)
            continue;
        lm_json_init(&j, line, len, err);
        enum lm_json_kind got = lm_json_next(&j);
        if (list && got == LM_JSON_ARRAY)
            got = lm_json_next(&j);
        while (s == LM_OK && got > LM_JSON_EOF && !(list && got == LM_JSON_ARRAY_END)) {
            if (!add_element(&a, &j, got))
                s = lm_fail(err, LM_EDATA, "element %zu is no JSON value of type %s", a.n,
                            lm_gguf_kind_name(kind));
            else
                got = lm_json_next(&j);
        }
        if (s == LM_OK && (got == LM_JSON_ERROR || lm_json_next(&j) == LM_JSON_ERROR))
            s = lm_err_at(err, LM_EDATA, "element %zu", a.n);
        lm_json_release(&j);
    }
    if (s == LM_OK) {
        *out = (struct lm_gguf_arr){ kind, a.n, lm_arena_copy(arena, a.data, a.n * a.size) };
        if (!out->data)
            s = lm_fail_nomem(err);
    }
    free(a.data);
    return s;
}

/* ---- edits --------------------------------------------------------------- */

static bool is_key(const struct lm_gguf_kv *kv, const struct lm_str *key)
{
    return kv->key.len == key->len && !memcmp(kv->key.p, key->p, key->len);
}

/* The first entry of that name, or NULL. */
static struct lm_gguf_kv *find(const struct lm_gguf *g, const struct lm_str *key)
{
    for (uint64_t i = 0; i < g->n_kv; i++)
        if (is_key(&g->kv[i], key))
            return &g->kv[i];
    return NULL;
}

/* Remove the entries of that name, all or all but one of them. */
static void forget(struct lm_gguf *g, const struct lm_str *key, const struct lm_gguf_kv *keep)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < g->n_kv; i++)
        if (&g->kv[i] == keep || !is_key(&g->kv[i], key))
            g->kv[n++] = g->kv[i];
    g->n_kv = n;
}

/* Put an entry in the place of one of its name, or at the end. */
static int put(struct lm_editor *e, const struct lm_gguf_kv *kv, const struct lm_env *env,
               struct lm_err *err)
{
    struct lm_gguf *g = e->g;
    struct lm_gguf_kv *old = find(g, &kv->key);
    if (!old) {
        if (!lm_grow(&g->kv, &e->kv_cap, (size_t)g->n_kv + 1, sizeof *g->kv))
            return lm_fail_nomem(err);
        g->kv[g->n_kv++] = *kv;
        return LM_OK;
    }
    const bool arrays = old->kind == LM_GGUF_ARR && kv->kind == LM_GGUF_ARR;
    if (old->kind != kv->kind || (arrays && old->arr.kind != kv->arr.kind))
        lm_note(env, LM_WARN, "key %.*s: was of type %s%s%s, is now %s%s%s",
                LM_NAME_ARG(kv->key), lm_gguf_kind_name(old->kind), arrays ? " of " : "",
                arrays ? lm_gguf_kind_name(old->arr.kind) : "", lm_gguf_kind_name(kv->kind),
                arrays ? " of " : "", arrays ? lm_gguf_kind_name(kv->arr.kind) : "");
    *old = *kv;
    forget(g, &kv->key, old);
    return LM_OK;
}

static int set(struct lm_editor *e, const struct lm_edit *edit, const struct lm_env *env,
               struct lm_err *err)
{
    struct lm_gguf_kv kv;
    struct lm_arena *arena = &e->g->arena;
    int s = lm_kv_arg(edit->text.p, arena, &kv, err);
    if (s != LM_OK)
        return s;
    const struct lm_gguf_kv *old = find(e->g, &kv.key);
    if (kv.kind == LM_GGUF_ARR && old && old->kind == LM_GGUF_ARR &&
        old->arr.kind != LM_GGUF_ARR && old->arr.kind != kv.arr.kind) {
        struct lm_err ignored;
        const char *json = strchr(strchr(edit->text.p, '='), ':') + 1;
        const struct lm_str text = { json, strlen(json) };
        parse_elements(arena, &text, old->arr.kind, &kv.arr, &ignored);
    }
    return put(e, &kv, env, err);
}

static int set_from_file(struct lm_editor *e, const struct lm_edit *edit,
                         const struct lm_env *env, struct lm_err *err)
{
    const struct lm_gguf_kv *old = find(e->g, &edit->key);
    struct lm_gguf_kv kv = { .key = edit->key, .kind = old ? old->kind : LM_GGUF_STR };
    int s = LM_OK;
    if (kv.kind == LM_GGUF_STR)
        kv.str = edit->text;
    else if (kv.kind != LM_GGUF_ARR || old->arr.kind == LM_GGUF_ARR)
        return lm_fail(err, LM_EUSE, "key %.*s: is of type %s%s: only text and arrays of numbers, "
                       "bools or text are read from files", LM_NAME_ARG(edit->key),
                       lm_gguf_kind_name(kv.kind), kv.kind == LM_GGUF_ARR ? " of arrays" : "");
    else
        s = parse_elements(&e->g->arena, &edit->text, old->arr.kind, &kv.arr, err);
    return s == LM_OK ? put(e, &kv, env, err)
                      : lm_err_at(err, s, "key %.*s", LM_NAME_ARG(edit->key));
}

static int rename_key(struct lm_editor *e, const struct lm_edit *edit, struct lm_err *err)
{
    struct lm_gguf_kv *kv = find(e->g, &edit->key);
    if (find(e->g, &edit->text))
        return lm_fail(err, LM_EUSE, "key %.*s: cannot be renamed: there is a key %.*s already",
                       LM_NAME_ARG(edit->key), LM_NAME_ARG(edit->text));
    kv->key = edit->text;
    return LM_OK;
}

/* Is the key the one meant, or one of those that begin as meant? */
static bool matches(const struct lm_str *key, const struct lm_str *meant)
{
    const bool many = meant->len && meant->p[meant->len - 1] == '*';
    const size_t n = meant->len - many;
    return (many ? key->len >= n : key->len == n) && !memcmp(key->p, meant->p, n);
}

static int copy_keys(struct lm_editor *e, const struct lm_edit *edit, const struct lm_env *env,
                     struct lm_err *err)
{
    struct lm_gguf *g = e->g;
    uint64_t n = 0, found = 0;
    for (uint64_t i = 0; i < edit->from->n_kv; i++)
        found += matches(&edit->from->kv[i].key, &edit->key);
    if (!found)
        return lm_fail(err, LM_EDATA, "key %.*s: is not in the file to copy from",
                       LM_NAME_ARG(edit->key));
    for (uint64_t i = 0; i < g->n_kv; i++)
        if (!matches(&g->kv[i].key, &edit->key) || find(edit->from, &g->kv[i].key))
            g->kv[n++] = g->kv[i];
    g->n_kv = n;
    for (uint64_t i = 0; i < edit->from->n_kv; i++)
        if (matches(&edit->from->kv[i].key, &edit->key)) {
            int s = put(e, &edit->from->kv[i], env, err);
            if (s != LM_OK)
                return s;
        }
    return LM_OK;
}

static int set_token(struct lm_editor *e, const struct lm_edit *edit, const struct lm_env *env,
                     struct lm_err *err)
{
    static const char head[] = "tokenizer.ggml.", tail[] = "_token_id";
    const struct lm_str tokens_key = { "tokenizer.ggml.tokens", 21 };
    const struct lm_gguf_kv *tokens = find(e->g, &tokens_key);
    const size_t len = sizeof head - 1 + edit->key.len + sizeof tail - 1;
    uint64_t id = 0, n = 0;
    if (tokens && tokens->kind == LM_GGUF_ARR && tokens->arr.kind == LM_GGUF_STR)
        n = tokens->arr.n;
    while (id < n) {
        const struct lm_str *t = (const struct lm_str *)tokens->arr.data + id;
        if (t->len == edit->text.len && !memcmp(t->p, edit->text.p, t->len))
            break;
        id++;
    }
    if (id == n || id > UINT32_MAX)
        return lm_fail(err, LM_EDATA, "there is no token '%.*s' in the vocabulary",
                       LM_NAME_ARG(edit->text));
    char *key = lm_arena_alloc(&e->g->arena, len + 1);
    if (!key)
        return lm_fail_nomem(err);
    snprintf(key, len + 1, "%s%.*s%s", head, (int)edit->key.len, edit->key.p, tail);
    return put(e, &(struct lm_gguf_kv){ .key = { key, len }, .kind = LM_GGUF_U32, .u = id }, env,
               err);
}

int lm_editor_apply(struct lm_editor *e, const struct lm_edit *edit, const struct lm_env *env,
                    struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    if ((edit->what == LM_EDIT_DELETE || edit->what == LM_EDIT_RENAME) &&
        !find(e->g, &edit->key))
        return lm_fail(err, LM_EDATA, "key %.*s: is not there", LM_NAME_ARG(edit->key));
    switch (edit->what) {
    case LM_EDIT_SET:    return set(e, edit, env, err);
    case LM_EDIT_FILE:   return set_from_file(e, edit, env, err);
    case LM_EDIT_RENAME: return rename_key(e, edit, err);
    case LM_EDIT_COPY:   return copy_keys(e, edit, env, err);
    case LM_EDIT_TOKEN:  return set_token(e, edit, env, err);
    default:             forget(e->g, &edit->key, NULL); return LM_OK;
    }
}

/* ---- the pass over the data ---------------------------------------------- */

static int find_alignment(struct lm_editor *e, struct lm_err *err)
{
    const struct lm_gguf_kv *kv = lm_gguf_kv(e->g, ALIGNMENT_KEY);
    e->alignment = 32;
    if (kv && (kv->kind != LM_GGUF_U32 || !kv->u || (kv->u & (kv->u - 1))))
        return lm_fail(err, LM_EUSE, "key " ALIGNMENT_KEY ": must be a u32, a power of two");
    if (kv)
        e->alignment = kv->u;
    return LM_OK;
}

static int by_offset(const void *x, const void *y)
{
    const struct lm_gguf_tensor *a, *b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return a->offset != b->offset ? (a->offset > b->offset) - (a->offset < b->offset)
                                  : (a > b) - (a < b);
}

/* New offsets for another alignment. */
static int lay_out(struct lm_editor *e, struct lm_err *err)
{
    struct lm_gguf *g = e->g;
    uint64_t offset = 0;
    e->order = lm_malloc_array((size_t)g->n_tensors, sizeof *e->order);
    e->from = lm_malloc_array((size_t)g->n_tensors, sizeof *e->from);
    if (!e->order || !e->from)
        return lm_fail_nomem(err);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        e->order[i] = &g->tensors[i];
    if (g->n_tensors)
        qsort(e->order, (size_t)g->n_tensors, sizeof *e->order, by_offset);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct lm_gguf_tensor *t = e->order[i];
        e->from[i] = t->offset;
        t->offset = offset;
        if (!lm_add_u64(offset, t->bytes, &offset) ||
            !lm_align_u64(offset, e->alignment, &offset))
            return lm_fail(err, LM_EUSE, "the file would not fit 64 bits");
    }
    return LM_OK;
}

int lm_editor_check(struct lm_editor *e, const struct lm_env *env, struct lm_err *err)
{
    struct lm_gguf *g = e->g;
    struct lm_err own;
    err = err ? err : &own;
    free(g->kv_by_name);
    free(g->tensors_by_name);
    g->kv_by_name = g->tensors_by_name = NULL;
    if (!lm_gguf_index(g))
        return lm_fail_nomem(err);
    int s = find_alignment(e, err);
    if (s == LM_OK)
        s = lm_gguf_strict(g, err);
    if (s == LM_ENOSUP && e->alignment == g->alignment) {
        lm_note(env, LM_INFO, "%s: %s: copied as it is", lm_in_name(e->in), err->text);
        s = LM_OK;
    }
    if (s == LM_OK && e->alignment != g->alignment)
        s = lay_out(e, err);
    return s;
}

/* What the next failure is about. */
static int of_input(const struct lm_editor *e, int s, struct lm_err *err)
{
    return lm_err_at(err, s, "%s", lm_in_name(e->in));
}

static int of_output(const struct lm_out *out, int s, struct lm_err *err)
{
    return lm_err_at(err, s, "%s", lm_out_name(out));
}

/* Everything behind the header, as it is. */
static int copy_rest(struct lm_editor *e, uint8_t *block, struct lm_out *out,
                     const struct lm_env *env, struct lm_err *err)
{
    const uint64_t total = e->g->file_size == LM_SIZE_UNKNOWN ? 0 : e->g->file_size;
    size_t got = 1;
    while (got) {
        int s = lm_in_read(e->in, block, BLOCK, &got, err);
        if (s != LM_OK)
            return of_input(e, s, err);
        s = lm_out_write(out, block, got, err);
        if (s != LM_OK)
            return of_output(out, s, err);
        if (lm_stopped(env))
            return lm_fail(err, LM_ESTOP, "stopped");
        lm_progress(env, "copying", lm_in_pos(e->in), total);
    }
    return LM_OK;
}

/* Was all data there?  Only the end of a pipe tells. */
static int check_end(const struct lm_editor *e, struct lm_err *err)
{
    const uint64_t have = lm_in_pos(e->in);
    for (uint64_t i = 0; i < e->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = &e->g->tensors[i];
        uint64_t end;
        if (!lm_add_u64(e->g->data_offset, t->offset, &end) || !lm_add_u64(end, t->bytes, &end))
            end = UINT64_MAX;
        if ((t->bytes || !t->type) && have < end)
            return of_input(e, lm_fail(err, LM_EDATA, "tensor %.*s: data ends at byte %llu, but "
                            "the input has %llu bytes", LM_NAME_ARG(t->name),
                            (unsigned long long)end, (unsigned long long)have), err);
    }
    return LM_OK;
}

/* Tensor by tensor, to another alignment. */
static int copy_tensors(struct lm_editor *e, uint8_t *block, struct lm_out *out,
                        const struct lm_env *env, struct lm_err *err)
{
    const uint64_t base = e->g->data_offset;
    for (uint64_t i = 0; i < e->g->n_tensors; i++) {
        const struct lm_gguf_tensor *t = e->order[i];
        int s = lm_gguf_copy_data(e->in, base + e->from[i], t, block, BLOCK, out, env, err);
        if (s != LM_OK)
            return s;
        s = lm_out_zeros(out, -t->bytes & (e->alignment - 1), err);
        if (s != LM_OK)
            return of_output(out, s, err);
    }
    int s = lm_gguf_drain(e->in, err);
    return s == LM_OK ? s : of_input(e, s, err);
}

int lm_editor_write(struct lm_editor *e, struct lm_out *out, const struct lm_env *env,
                    struct lm_err *err)
{
    struct lm_err own;
    err = err ? err : &own;
    uint8_t *block = malloc(BLOCK);
    if (!block)
        return lm_fail_nomem(err);
    int s = lm_gguf_write_same(e->g, out, err);
    if (s == LM_OK && e->pad)
        s = lm_out_zeros(out, -lm_gguf_head_size(e->g) & (e->alignment - 1), err);
    if (s != LM_OK)
        of_output(out, s, err);
    else if (e->order)
        s = copy_tensors(e, block, out, env, err);
    else if (e->pad)
        s = copy_rest(e, block, out, env, err);
    if (s == LM_OK && !e->order)
        s = check_end(e, err);
    free(block);
    return s;
}
