/* SPDX-License-Identifier: MIT */
#include "gguf/kv_arg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static bool is_unsigned(enum lm_gguf_kind k)
{
    return k == LM_GGUF_U8 || k == LM_GGUF_U16 || k == LM_GGUF_U32 || k == LM_GGUF_U64;
}

/* A whole decimal number of that kind. */
static bool integer(const char *s, enum lm_gguf_kind kind, struct lm_gguf_kv *kv)
{
    const char *digits = s + (*s == '-' || *s == '+');
    int bits = 8 * (int)lm_gguf_kind_size(kind);
    char *end;
    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    if (is_unsigned(kind)) {
        kv->u = strtoull(digits, &end, 10);
        return !errno && !*end && (*s != '-' || !kv->u) && (bits == 64 || !(kv->u >> bits));
    }
    kv->i = strtoll(s, &end, 10);
    int64_t max = (int64_t)(UINT64_MAX >> (65 - bits));
    return !errno && !*end && kv->i <= max && kv->i >= -max - 1;
}

bool lm_kv_scalar(const char *s, enum lm_gguf_kind kind, struct lm_gguf_kv *kv)
{
    char *end;
    if (kind == LM_GGUF_BOOL) {
        kv->u = !strcmp(s, "true");
        return kv->u || !strcmp(s, "false");
    }
    if (kind != LM_GGUF_F32 && kind != LM_GGUF_F64)
        return integer(s, kind, kv);
    kv->f = kind == LM_GGUF_F32 ? (double)strtof(s, &end) : strtod(s, &end);
    return end != s && !*end && (isfinite(kv->f) || !strpbrk(s, "0123456789"));
}

/* llama.cpp's int: any integer, written as u32 of its absolute value. */
static bool loose_int(const char *s, struct lm_gguf_kv *kv)
{
    struct lm_gguf_kv i = { 0 };
    if (!integer(s, LM_GGUF_I64, &i))
        return false;
    uint64_t abs = i.i < 0 ? -(uint64_t)i.i : (uint64_t)i.i;
    kv->kind = LM_GGUF_U32;
    kv->u = (uint32_t)abs;
    return abs <= UINT32_MAX;
}

/* The kind of an array's elements, as its values need it; N_KINDS: they differ. */
static enum lm_gguf_kind element_kind(const struct lm_jval *arr)
{
    enum lm_gguf_kind kind = LM_GGUF_N_KINDS;
    for (const struct lm_jval *v = arr->first; v; v = v->next) {
        int64_t i;
        enum lm_gguf_kind k = LM_GGUF_N_KINDS;
        if (v->kind == LM_JSON_STRING)
            k = LM_GGUF_STR;
        else if (v->kind == LM_JSON_TRUE || v->kind == LM_JSON_FALSE)
            k = LM_GGUF_BOOL;
        else if (v->kind == LM_JSON_NUMBER)
            k = !lm_jval_i64(v, &i) ? LM_GGUF_F32
              : i < INT32_MIN || i > INT32_MAX ? LM_GGUF_I64 : LM_GGUF_I32;
        bool numbers = (kind == LM_GGUF_I32 || kind == LM_GGUF_I64 || kind == LM_GGUF_F32) &&
                       (k == LM_GGUF_I32 || k == LM_GGUF_I64 || k == LM_GGUF_F32);
        if (numbers && kind != k)
            k = kind == LM_GGUF_F32 || k == LM_GGUF_F32 ? LM_GGUF_F32 : LM_GGUF_I64;
        else if (v != arr->first && kind != k)
            return LM_GGUF_N_KINDS;
        kind = k;
    }
    return arr->first ? kind : LM_GGUF_I32;
}

static void store(void *data, size_t i, enum lm_gguf_kind kind, const struct lm_jval *v)
{
    int64_t n = 0;
    double f = 0;
    lm_jval_i64(v, &n);
    lm_jval_f64(v, &f);
    switch (kind) {
    case LM_GGUF_STR:  ((struct lm_str *)data)[i] = (struct lm_str){ v->str, v->len }; break;
    case LM_GGUF_BOOL: ((uint8_t *)data)[i] = v->kind == LM_JSON_TRUE; break;
    case LM_GGUF_I32:  ((int32_t *)data)[i] = (int32_t)n; break;
    case LM_GGUF_I64:  ((int64_t *)data)[i] = n; break;
    default:           ((float *)data)[i] = (float)f; break;
    }
}

static int json_array(const char *s, struct lm_arena *a, struct lm_gguf_kv *kv,
                      struct lm_err *err)
{
    const struct lm_jval *v = lm_json_tree(a, s, strlen(s), err);
    if (!v)
        return lm_fail(err, LM_EUSE, "key %.120s: the value is not JSON", kv->key.p);
    enum lm_gguf_kind kind = v->kind == LM_JSON_ARRAY ? element_kind(v) : LM_GGUF_N_KINDS;
    if (kind == LM_GGUF_N_KINDS)
        return lm_fail(err, LM_EUSE, "key %.120s: the value is not an array of strings, bools or "
                       "numbers", kv->key.p);
    size_t size = kind == LM_GGUF_STR ? sizeof(struct lm_str) : lm_gguf_kind_size(kind), i = 0;
    void *data = lm_arena_array(a, v->len, size);
    if (!data)
        return lm_fail_nomem(err);
    for (const struct lm_jval *x = v->first; x; x = x->next)
        store(data, i++, kind, x);
    kv->kind = LM_GGUF_ARR;
    kv->arr = (struct lm_gguf_arr){ kind, i, data };
    return LM_OK;
}

int lm_kv_arg(const char *arg, struct lm_arena *a, struct lm_gguf_kv *kv, struct lm_err *err)
{
    const char *eq = strchr(arg, '='), *colon = eq ? strchr(eq, ':') : NULL;
    char type[8] = "";
    if (!eq || eq == arg || !colon || (size_t)(colon - eq) > sizeof type)
        return lm_fail(err, LM_EUSE, "'%s' is not KEY=TYPE:VALUE", arg);
    memcpy(type, eq + 1, (size_t)(colon - eq) - 1);

    const char *s = colon + 1;
    int kind = lm_gguf_kind_by_name(type);
    *kv = (struct lm_gguf_kv){
        .key = { lm_arena_copy(a, arg, (size_t)(eq - arg)), (size_t)(eq - arg) },
    };
    if (!kv->key.p)
        return lm_fail_nomem(err);
    if (kv->key.len > LM_GGUF_MAX_NAME)
        return lm_fail(err, LM_EUSE, "a key of %zu bytes", kv->key.len);
    if (!strcmp(type, "json"))
        return json_array(s, a, kv, err);
    if (kind == LM_GGUF_STR) {
        kv->kind = kind;
        kv->str = (struct lm_str){ lm_arena_copy(a, s, strlen(s)), strlen(s) };
        return kv->str.p ? LM_OK : lm_fail_nomem(err);
    }
    bool ok;
    if (!strcmp(type, "int"))
        ok = loose_int(s, kv);
    else if (!strcmp(type, "float") || (kind >= 0 && kind != LM_GGUF_ARR)) {
        kv->kind = kind >= 0 ? kind : LM_GGUF_F32;
        ok = lm_kv_scalar(s, kv->kind, kv);
    } else
        return lm_fail(err, LM_EUSE, "'%s': type '%s' is not one of u8 i8 u16 i16 u32 i32 u64 "
                       "i64 f32 f64 bool str json int float", arg, type);
    return ok ? LM_OK : lm_fail(err, LM_EUSE, "'%s': '%s' is no value of type %s", arg, s, type);
}
