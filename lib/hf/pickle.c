/* SPDX-License-Identifier: MIT */
/* A stack machine for the pickles of checkpoints (pickle.h). */

#include "hf/pickle.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

enum kind { NONE, BOOL, INT, FLOAT, STR, TUPLE, LIST, DICT, GLOBAL, STORAGE, TENSOR, MARK };

/* The names that a pickle may have. */
enum global {
    ORDERED_DICT, REBUILD, REBUILD_V2, REBUILD_V3, PARAMETER, PARAMETER_WITH_STATE, SIZE,
    STORAGE_TYPE, DTYPE
};

static const struct name {
    const char *module, *name;
    enum global what;
    const char *dtype;                      /* STORAGE_TYPE, DTYPE                         */
} names[] = {
    { "collections", "OrderedDict", ORDERED_DICT, NULL },
    { "torch._utils", "_rebuild_tensor", REBUILD, NULL },
    { "torch._utils", "_rebuild_tensor_v2", REBUILD_V2, NULL },
    { "torch._utils", "_rebuild_tensor_v3", REBUILD_V3, NULL },
    { "torch._utils", "_rebuild_parameter", PARAMETER, NULL },
    { "torch._utils", "_rebuild_parameter_with_state", PARAMETER_WITH_STATE, NULL },
    { "torch", "Size", SIZE, NULL },
    { "torch", "FloatStorage", STORAGE_TYPE, "F32" },
    { "torch", "HalfStorage", STORAGE_TYPE, "F16" },
    { "torch", "BFloat16Storage", STORAGE_TYPE, "BF16" },
    { "torch", "DoubleStorage", STORAGE_TYPE, "F64" },
    { "torch", "LongStorage", STORAGE_TYPE, "I64" },
    { "torch", "IntStorage", STORAGE_TYPE, "I32" },
    { "torch", "ShortStorage", STORAGE_TYPE, "I16" },
    { "torch", "CharStorage", STORAGE_TYPE, "I8" },
    { "torch", "ByteStorage", STORAGE_TYPE, "U8" },
    { "torch", "BoolStorage", STORAGE_TYPE, "BOOL" },
    { "torch.storage", "UntypedStorage", STORAGE_TYPE, "U8" },
    { "torch", "float32", DTYPE, "F32" },
    { "torch", "float16", DTYPE, "F16" },
    { "torch", "bfloat16", DTYPE, "BF16" },
    { "torch", "float64", DTYPE, "F64" },
    { "torch", "int64", DTYPE, "I64" },
    { "torch", "int32", DTYPE, "I32" },
    { "torch", "int16", DTYPE, "I16" },
    { "torch", "int8", DTYPE, "I8" },
    { "torch", "uint8", DTYPE, "U8" },
    { "torch", "bool", DTYPE, "BOOL" },
    { "torch", "float8_e4m3fn", DTYPE, "F8_E4M3" },
    { "torch", "float8_e5m2", DTYPE, "F8_E5M2" },
};

struct value {
    enum kind     kind;
    int64_t       i;                        /* BOOL, INT                                   */
    const char   *s;                        /* STR; a NUL after it                         */
    size_t        n, cap;                   /* STR: bytes; items                           */
    struct value **items;                   /* TUPLE, LIST; DICT: keys and values in turn  */
    const struct name *name;                /* GLOBAL; STORAGE: its type                   */
    struct lm_pickle_tensor *tensor;
};

/* Bytes for objects and the stack: a hundred times what the tensors of one file take. */
#define MOST_MEMORY (48u << 20)

struct machine {
    struct lm_arena *a;
    size_t           used;                  /* of it when the pickle began                 */
    const uint8_t   *p;
    size_t           len, at;
    struct value   **stack, **memo;
    size_t           n, cap, n_memo, memo_cap;
    struct lm_err   *err;
};

/* --- pieces ----------------------------------------------------------------------------- */

static int bad(struct machine *m, const char *what)
{
    return lm_fail(m->err, LM_EDATA, "byte %zu: %s", m->at, what);
}

static struct value *make(struct machine *m, enum kind kind)
{
    struct value *v = lm_arena_array(m->a, 1, sizeof *v);
    if (!v)
        lm_fail_nomem(m->err);
    else
        *v = (struct value){ .kind = kind };
    return v;
}

static int push(struct machine *m, struct value *v)
{
    if (!v)
        return m->err->code;
    if (!lm_grow(&m->stack, &m->cap, m->n + 1, sizeof *m->stack))
        return lm_fail_nomem(m->err);
    m->stack[m->n++] = v;
    return LM_OK;
}

static int push_int(struct machine *m, enum kind kind, int64_t i)
{
    struct value *v = make(m, kind);
    if (v)
        v->i = i;
    return push(m, v);
}

static struct value *pop(struct machine *m)
{
    if (m->n && m->stack[m->n - 1]->kind != MARK)
        return m->stack[--m->n];
    bad(m, "takes from an empty stack");
    return NULL;
}

static bool has(const struct machine *m, size_t n)
{
    return m->len - m->at >= n;
}

static uint64_t le(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

/* An argument of n bytes, as a number. */
static int argument(struct machine *m, size_t n, uint64_t *out)
{
    if (!has(m, n))
        return bad(m, "ends too early");
    *out = le(m->p + m->at, n);
    m->at += n;
    return LM_OK;
}

static int push_text(struct machine *m, size_t width)
{
    uint64_t n;
    const int r = argument(m, width, &n);
    if (r)
        return r;
    if (n > m->len - m->at)
        return bad(m, "a text ends too early");
    struct value *v = make(m, STR);
    if (!v)
        return m->err->code;
    v->s = lm_arena_copy(m->a, m->p + m->at, (size_t)n);
    v->n = (size_t)n;
    m->at += (size_t)n;
    return v->s ? push(m, v) : lm_fail_nomem(m->err);
}

/* Little-endian two's complement of any length up to 8 bytes. */
static int push_long(struct machine *m, size_t width)
{
    uint64_t n, u;
    int r = argument(m, width, &n);
    if (!r && n > 8)
        return bad(m, "a number of more than 64 bits");
    r = r ? r : argument(m, (size_t)n, &u);
    if (r)
        return r;
    if (n && n < 8 && u >> (8 * n - 1))
        u |= UINT64_MAX << 8 * n;
    return push_int(m, INT, n ? (int64_t)u : 0);
}

static int add_item(struct machine *m, struct value *to, struct value *v)
{
    if (to->n == to->cap) {
        const size_t cap = to->cap ? 2 * to->cap : 8;
        struct value **items = lm_arena_array(m->a, cap, sizeof *items);
        if (!items)
            return lm_fail_nomem(m->err);
        if (to->n)
            memcpy(items, to->items, to->n * sizeof *items);
        to->items = items;
        to->cap = cap;
    }
    to->items[to->n++] = v;
    return LM_OK;
}

/* Where the items behind the last mark begin; the mark itself goes. */
static int mark(struct machine *m, size_t *first)
{
    size_t i = m->n;
    while (i && m->stack[i - 1]->kind != MARK)
        i--;
    if (!i)
        return bad(m, "no mark on the stack");
    *first = i;
    return LM_OK;
}

static int push_tuple(struct machine *m, size_t first)
{
    struct value *v = make(m, TUPLE);
    int r = v ? LM_OK : m->err->code;
    for (size_t i = first; !r && i < m->n; i++)
        r = m->stack[i]->kind == MARK ? bad(m, "takes from an empty stack")
                                      : add_item(m, v, m->stack[i]);
    if (r)
        return r;
    m->n = first;
    return push(m, v);
}

static int tuple_of_mark(struct machine *m)
{
    size_t first = 0;
    const int r = mark(m, &first);
    if (r)
        return r;
    memmove(m->stack + first - 1, m->stack + first, (m->n - first) * sizeof *m->stack);
    m->n--;
    return push_tuple(m, first - 1);
}

/* What stands behind the mark, or the top `count`, is added to the object below it. */
static int add_to(struct machine *m, enum kind kind, bool marked, size_t count)
{
    size_t first = m->n - count;
    int r = marked ? mark(m, &first) : m->n < count ? bad(m, "takes from an empty stack") : LM_OK;
    if (r)
        return r;
    const size_t below = first - (marked ? 1 : 0);
    if (below == 0 || below > m->n || m->stack[below - 1]->kind != kind ||
        (kind == DICT && (m->n - first) % 2))
        return bad(m, "adds to what is no list or dictionary");
    for (size_t i = first; !r && i < m->n; i++)
        r = add_item(m, m->stack[below - 1], m->stack[i]);
    m->n = below;
    return r;
}

static int put_memo(struct machine *m, uint64_t i)
{
    if (!m->n || m->stack[m->n - 1]->kind == MARK)
        return bad(m, "remembers nothing");
    if (i > m->n_memo)
        return bad(m, "remembers out of order");
    if (!lm_grow(&m->memo, &m->memo_cap, m->n_memo + 1, sizeof *m->memo))
        return lm_fail_nomem(m->err);
    m->memo[i] = m->stack[m->n - 1];
    m->n_memo += i == m->n_memo;
    return LM_OK;
}

static int get_memo(struct machine *m, uint64_t i)
{
    return i < m->n_memo ? push(m, m->memo[i]) : bad(m, "remembers what was never there");
}

/* --- names and tensors ------------------------------------------------------------------ */

static int push_global(struct machine *m, const char *module, size_t module_len,
                       const char *name, size_t name_len)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].module) == module_len && strlen(names[i].name) == name_len &&
            !memcmp(names[i].module, module, module_len) &&
            !memcmp(names[i].name, name, name_len)) {
            struct value *v = make(m, GLOBAL);
            if (v)
                v->name = &names[i];
            return push(m, v);
        }
    return lm_fail(m->err, LM_EDATA, "names %.*s.%.*s, which weights do not need: refused",
                   module_len < 100 ? (int)module_len : 100, module,
                   name_len < 100 ? (int)name_len : 100, name);
}

/* Two lines of text. */
static int global_lines(struct machine *m)
{
    const char *p = (const char *)m->p + m->at;
    const char *end = memchr(p, '\n', m->len - m->at);
    const size_t n = end ? (size_t)(end - p) : 0;
    const char *q = end ? end + 1 : p;
    const char *end2 = end ? memchr(q, '\n', m->len - m->at - n - 1) : NULL;
    if (!end2)
        return bad(m, "ends too early");
    m->at += n + 1 + (size_t)(end2 - q) + 1;
    return push_global(m, p, n, q, (size_t)(end2 - q));
}

static int global_of_stack(struct machine *m)
{
    const struct value *name = pop(m), *module = name ? pop(m) : NULL;
    if (!module)
        return m->err->code;
    if (name->kind != STR || module->kind != STR)
        return bad(m, "a name that is no text");
    return push_global(m, module->s, module->n, name->s, name->n);
}

/* ("storage", TYPE, "0", "cpu", ELEMENTS) */
static int storage(struct machine *m)
{
    const struct value *id = pop(m);
    if (!id)
        return m->err->code;
    if (id->kind != TUPLE || id->n < 5 || id->items[0]->kind != STR ||
        strcmp(id->items[0]->s, "storage") || id->items[1]->kind != GLOBAL ||
        id->items[1]->name->what != STORAGE_TYPE || id->items[2]->kind != STR ||
        id->items[4]->kind != INT || id->items[4]->i < 0)
        return bad(m, "refers to what is no storage of a tensor");
    struct value *v = make(m, STORAGE);
    if (v) {
        v->name = id->items[1]->name;
        v->s = id->items[2]->s;
        v->i = id->items[4]->i;
    }
    return push(m, v);
}

static bool numbers(const struct value *t, uint64_t *out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (t->items[i]->kind != INT || t->items[i]->i < 0)
            return false;
        out[i] = (uint64_t)t->items[i]->i;
    }
    return true;
}

/* (storage, offset, shape, strides, ..) */
static int rebuild(struct machine *m, const struct value *args, const char *dtype)
{
    if (args->n < 4 || args->items[0]->kind != STORAGE || args->items[1]->kind != INT ||
        args->items[1]->i < 0 || args->items[2]->kind != TUPLE || args->items[3]->kind != TUPLE ||
        args->items[2]->n != args->items[3]->n || args->items[2]->n > LM_PICKLE_AXES)
        return bad(m, "puts no tensor together");
    struct lm_pickle_tensor *t = lm_arena_array(m->a, 1, sizeof *t);
    struct value *v = make(m, TENSOR);
    if (!t || !v)
        return lm_fail_nomem(m->err);
    const struct value *s = args->items[0];
    *t = (struct lm_pickle_tensor){
        .storage = s->s, .dtype = dtype ? dtype : s->name->dtype,
        .storage_len = dtype ? UINT64_MAX : (uint64_t)s->i, .offset = (uint64_t)args->items[1]->i,
        .n_dims = (uint32_t)args->items[2]->n,
    };
    if (!numbers(args->items[2], t->shape, t->n_dims) ||
        !numbers(args->items[3], t->stride, t->n_dims))
        return bad(m, "a tensor with a shape that is none");
    v->tensor = t;
    return push(m, v);
}

static int call(struct machine *m)
{
    struct value *args = pop(m), *f = args ? pop(m) : NULL;
    if (!f)
        return m->err->code;
    if (f->kind != GLOBAL || args->kind != TUPLE)
        return bad(m, "calls what is no function");
    switch (f->name->what) {
    case ORDERED_DICT:
        return args->n ? bad(m, "a dictionary made of something") : push(m, make(m, DICT));
    case REBUILD:
    case REBUILD_V2:
        return rebuild(m, args, NULL);
    case REBUILD_V3:
        if (args->n < 7 || args->items[6]->kind != GLOBAL || args->items[6]->name->what != DTYPE)
            return bad(m, "puts no tensor together");
        return rebuild(m, args, args->items[6]->name->dtype);
    case PARAMETER:
    case PARAMETER_WITH_STATE:
        return args->n && args->items[0]->kind == TENSOR ? push(m, args->items[0])
                                                         : bad(m, "a parameter of no tensor");
    case SIZE:
        return args->n == 1 && args->items[0]->kind == TUPLE ? push(m, args->items[0])
                                                             : bad(m, "a size of no numbers");
    default:
        return bad(m, "calls what is no function");
    }
}

/* Attributes of a dictionary or a tensor say nothing about weights. */
static int build(struct machine *m)
{
    if (!pop(m))
        return m->err->code;
    if (!m->n || (m->stack[m->n - 1]->kind != DICT && m->stack[m->n - 1]->kind != TENSOR))
        return bad(m, "sets attributes of what may not have any");
    return LM_OK;
}

/* --- the program ------------------------------------------------------------------------ */

/* Opcodes with an argument, or about the stack. */
static int step_more(struct machine *m, uint8_t op)
{
    uint64_t u = 0;
    int r = LM_OK;
    switch (op) {
    case 0x80: return argument(m, 1, &u);                               /* PROTO */
    case 0x95: return argument(m, 8, &u);                               /* FRAME */
    case 'X':  return push_text(m, 4);                                  /* BINUNICODE */
    case 0x8c: return push_text(m, 1);                                  /* SHORT_BINUNICODE */
    case 0x8d: return push_text(m, 8);                                  /* BINUNICODE8 */
    case 'U':  return push_text(m, 1);                                  /* SHORT_BINSTRING */
    case 0x8a: return push_long(m, 1);                                  /* LONG1 */
    case 0x8b: return push_long(m, 4);                                  /* LONG4 */
    case 'J':  r = argument(m, 4, &u); return r ? r : push_int(m, INT, (int32_t)u);
    case 'K':  r = argument(m, 1, &u); return r ? r : push_int(m, INT, (int64_t)u);
    case 'M':  r = argument(m, 2, &u); return r ? r : push_int(m, INT, (int64_t)u);
    case 'G':  r = argument(m, 8, &u); return r ? r : push_int(m, FLOAT, 0);
    case 'q':  r = argument(m, 1, &u); return r ? r : put_memo(m, u);   /* BINPUT */
    case 'r':  r = argument(m, 4, &u); return r ? r : put_memo(m, u);   /* LONG_BINPUT */
    case 'h':  r = argument(m, 1, &u); return r ? r : get_memo(m, u);   /* BINGET */
    case 'j':  r = argument(m, 4, &u); return r ? r : get_memo(m, u);   /* LONG_BINGET */
    case 'c':  return global_lines(m);                                  /* GLOBAL */
    case 0x93: return global_of_stack(m);                               /* STACK_GLOBAL */
    default:   break;
    }
    return lm_fail(m->err, LM_EDATA, "byte %zu: opcode 0x%02x, which pickles of weights do not "
                   "have: refused", m->at - 1, op);
}

static int step(struct machine *m, uint8_t op)
{
    switch (op) {
    case '(':  return push(m, make(m, MARK));
    case ')':  return push(m, make(m, TUPLE));
    case ']':  return push(m, make(m, LIST));
    case '}':  return push(m, make(m, DICT));
    case 'N':  return push(m, make(m, NONE));
    case 0x88: return push_int(m, BOOL, 1);
    case 0x89: return push_int(m, BOOL, 0);
    case 't':  return tuple_of_mark(m);
    case 0x85: return m->n < 1 ? bad(m, "takes from an empty stack") : push_tuple(m, m->n - 1);
    case 0x86: return m->n < 2 ? bad(m, "takes from an empty stack") : push_tuple(m, m->n - 2);
    case 0x87: return m->n < 3 ? bad(m, "takes from an empty stack") : push_tuple(m, m->n - 3);
    case 'a':  return add_to(m, LIST, false, 1);                        /* APPEND */
    case 'e':  return add_to(m, LIST, true, 0);                         /* APPENDS */
    case 's':  return add_to(m, DICT, false, 2);                        /* SETITEM */
    case 'u':  return add_to(m, DICT, true, 0);                         /* SETITEMS */
    case 0x94: return put_memo(m, m->n_memo);                           /* MEMOIZE */
    case 'Q':  return storage(m);                                       /* BINPERSID */
    case 'R':  return call(m);                                          /* REDUCE */
    case 'b':  return build(m);                                         /* BUILD */
    default:   return step_more(m, op);
    }
}

/* The dictionary's tensors. */
static int list_tensors(struct machine *m, struct lm_pickle_tensor **list, size_t *n)
{
    const struct value *top = m->n == 1 ? m->stack[0] : NULL;
    if (!top || top->kind != DICT)
        return lm_fail(m->err, LM_ENOSUP, "is no dictionary of tensors");
    *list = lm_arena_array(m->a, top->n / 2 + 1, sizeof **list);
    if (!*list)
        return lm_fail_nomem(m->err);
    for (size_t i = 0; i + 1 < top->n; i += 2) {
        const struct value *key = top->items[i], *v = top->items[i + 1];
        if (key->kind != STR || strlen(key->s) != key->n)
            return lm_fail(m->err, LM_EDATA, "a key that is no name");
        if (v->kind != TENSOR)
            return lm_fail(m->err, LM_ENOSUP, "%.200s: is no tensor: save the dictionary of "
                           "tensors alone", key->s);
        (*list)[*n] = *v->tensor;
        (*list)[(*n)++].name = key->s;
    }
    return LM_OK;
}

int lm_pickle_read(struct lm_arena *a, const uint8_t *data, size_t len,
                   struct lm_pickle_tensor **list, size_t *n, struct lm_err *err)
{
    struct lm_err own = {0};
    struct machine m = { .a = a, .used = a->used, .p = data, .len = len, .err = err ? err : &own };
    int r = LM_OK;
    bool stopped = false;
    *n = 0;
    while (!r && !stopped) {
        if (!has(&m, 1)) {
            r = bad(&m, "ends too early");
            break;
        }
        if (a->used - m.used + (m.n + m.n_memo) * sizeof *m.stack > MOST_MEMORY) {
            r = bad(&m, "makes more objects than the tensors of a file take");
            break;
        }
        const uint8_t op = data[m.at++];
        stopped = op == '.';
        r = stopped ? LM_OK : step(&m, op);
    }
    if (!r)
        r = list_tensors(&m, list, n);
    free(m.stack);
    free(m.memo);
    return r;
}
