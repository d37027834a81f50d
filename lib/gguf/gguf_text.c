/* SPDX-License-Identifier: MIT */
#include "gguf/gguf_text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "gguf/gguf_internal.h"

bool lm_gguf_is_utf8(const struct lm_str *s)
{
    size_t i = 0;
    for (int n; i < s->len; i += (size_t)n)
        if (!(n = lm_utf8_len(s->p + i, s->len - i, NULL)))
            return false;
    return true;
}

void lm_gguf_str_json(struct lm_buf *b, const struct lm_str *s)
{
    if (lm_gguf_is_utf8(s)) {
        lm_json_quote(b, s->p, s->len);
        return;
    }
    lm_buf_str(b, "{\"bytes\":\"");
    for (size_t i = 0; i < s->len; i++)
        lm_buf_printf(b, "%02x", (unsigned)(uint8_t)s->p[i]);
    lm_buf_str(b, "\"}");
}

/* Element i as an entry of its own, so that one set of functions does both. */
static struct lm_gguf_kv element(const struct lm_gguf_arr *a, uint64_t i)
{
    struct lm_gguf_kv kv = { .kind = a->kind };
    switch (a->kind) {
    case LM_GGUF_U8:
    case LM_GGUF_BOOL: kv.u = ((const uint8_t *)a->data)[i]; break;
    case LM_GGUF_I8:   kv.i = ((const int8_t *)a->data)[i]; break;
    case LM_GGUF_U16:  kv.u = ((const uint16_t *)a->data)[i]; break;
    case LM_GGUF_I16:  kv.i = ((const int16_t *)a->data)[i]; break;
    case LM_GGUF_U32:  kv.u = ((const uint32_t *)a->data)[i]; break;
    case LM_GGUF_I32:  kv.i = ((const int32_t *)a->data)[i]; break;
    case LM_GGUF_U64:  kv.u = ((const uint64_t *)a->data)[i]; break;
    case LM_GGUF_I64:  kv.i = ((const int64_t *)a->data)[i]; break;
    case LM_GGUF_F32:  kv.f = (double)((const float *)a->data)[i]; break;
    case LM_GGUF_F64:  kv.f = ((const double *)a->data)[i]; break;
    case LM_GGUF_STR:  kv.str = ((const struct lm_str *)a->data)[i]; break;
    case LM_GGUF_ARR:  kv.arr = ((const struct lm_gguf_arr *)a->data)[i]; break;
    case LM_GGUF_N_KINDS: break;
    }
    return kv;
}

static void number(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    switch (kv->kind) {
    case LM_GGUF_BOOL:
        lm_buf_str(b, kv->u ? "true" : "false");
        break;
    case LM_GGUF_I8: case LM_GGUF_I16: case LM_GGUF_I32: case LM_GGUF_I64:
        lm_buf_printf(b, "%" PRId64, kv->i);
        break;
    case LM_GGUF_F32:
        lm_json_f32(b, (float)kv->f);
        break;
    case LM_GGUF_F64:
        lm_json_f64(b, kv->f);
        break;
    default:
        lm_buf_printf(b, "%" PRIu64, kv->u);
    }
}

void lm_gguf_element_json(struct lm_buf *b, const struct lm_gguf_arr *a, uint64_t i)
{
    struct lm_gguf_kv kv = element(a, i);
    lm_gguf_value_json(b, &kv);
}

void lm_gguf_value_json(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    if (kv->kind == LM_GGUF_STR)
        lm_gguf_str_json(b, &kv->str);
    else if (kv->kind != LM_GGUF_ARR)
        number(b, kv);
    else {
        lm_buf_byte(b, '[');
        for (uint64_t i = 0; i < kv->arr.n; i++) {
            if (i)
                lm_buf_byte(b, ',');
            lm_gguf_element_json(b, &kv->arr, i);
        }
        lm_buf_byte(b, ']');
    }
}

void lm_gguf_value_raw(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    bool is_float = kv->kind == LM_GGUF_F32 || kv->kind == LM_GGUF_F64;
    if (kv->kind == LM_GGUF_STR)
        lm_buf_add(b, kv->str.p, kv->str.len);
    else if (is_float && !isfinite(kv->f))      /* JSON would put quotes around it */
        lm_buf_str(b, isnan(kv->f) ? "NaN" : kv->f > 0 ? "Infinity" : "-Infinity");
    else if (kv->kind != LM_GGUF_ARR)
        number(b, kv);
}

void lm_gguf_element_raw(struct lm_buf *b, const struct lm_gguf_arr *a, uint64_t i)
{
    struct lm_gguf_kv kv = element(a, i);
    lm_gguf_value_raw(b, &kv);
}

static void str_text(struct lm_buf *b, const struct lm_str *s, size_t limit)
{
    size_t n = s->len;
    if (limit && n > limit) {
        n = limit;                              /* not inside a character */
        for (int back = 0; back < 3 && n && ((uint8_t)s->p[n] & 0xc0) == 0x80; back++)
            n--;
    }
    lm_buf_escape(b, s->p, n);
    if (n < s->len)
        lm_buf_printf(b, "... (%zu bytes)", s->len);
}

static void arr_text(struct lm_buf *b, const struct lm_gguf_arr *a, size_t limit)
{
    size_t start = b->len;
    lm_buf_byte(b, '[');
    for (uint64_t i = 0; i < a->n; i++) {
        if (i)
            lm_buf_str(b, ", ");
        if (limit && b->len - start > limit) {
            lm_buf_str(b, "...");
            break;
        }
        struct lm_gguf_kv kv = element(a, i);
        if (limit && kv.kind == LM_GGUF_STR && kv.str.len > limit) {
            lm_buf_byte(b, '"');
            str_text(b, &kv.str, limit);
            lm_buf_byte(b, '"');
        } else if (kv.kind == LM_GGUF_ARR)
            arr_text(b, &kv.arr, limit);
        else
            lm_gguf_value_json(b, &kv);
    }
    lm_buf_byte(b, ']');
}

void lm_gguf_value_text(struct lm_buf *b, const struct lm_gguf_kv *kv, size_t limit)
{
    if (kv->kind == LM_GGUF_STR)
        str_text(b, &kv->str, limit);
    else if (kv->kind == LM_GGUF_ARR)
        arr_text(b, &kv->arr, limit);
    else
        lm_gguf_value_raw(b, kv);
}

void lm_gguf_kind_text(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    if (kv->kind == LM_GGUF_ARR)
        lm_buf_printf(b, "%s[%" PRIu64 "]", lm_gguf_kind_name(kv->arr.kind), kv->arr.n);
    else
        lm_buf_str(b, lm_gguf_kind_name(kv->kind));
}

void lm_gguf_entry_line(struct lm_buf *b, char side, const struct lm_gguf_kv *kv, size_t limit)
{
    lm_buf_printf(b, "%c key ", side);
    lm_buf_escape(b, kv->key.p, kv->key.len);
    lm_buf_byte(b, ' ');
    lm_gguf_kind_text(b, kv);
    lm_buf_byte(b, ' ');
    lm_gguf_value_text(b, kv, limit);
    lm_buf_byte(b, '\n');
}

void lm_gguf_entry_json(struct lm_buf *b, const struct lm_gguf_kv *kv)
{
    lm_buf_str(b, "{\"key\":");
    lm_gguf_str_json(b, &kv->key);
    lm_buf_printf(b, ",\"type\":\"%s\"", lm_gguf_kind_name(kv->kind));
    if (kv->kind == LM_GGUF_ARR)
        lm_buf_printf(b, ",\"elem\":\"%s\"", lm_gguf_kind_name(kv->arr.kind));
    lm_buf_str(b, ",\"value\":");
    lm_gguf_value_json(b, kv);
    lm_buf_byte(b, '}');
}

void lm_gguf_tensor_json(struct lm_buf *b, const struct lm_gguf_tensor *t)
{
    lm_buf_str(b, "{\"name\":");
    lm_gguf_str_json(b, &t->name);
    if (t->type)
        lm_buf_printf(b, ",\"type\":\"%s\",\"shape\":[", t->type->name);
    else
        lm_buf_printf(b, ",\"type\":%" PRIu32 ",\"shape\":[", t->type_id);
    for (uint32_t k = 0; k < t->n_dims; k++)
        lm_buf_printf(b, "%s%" PRIu64, k ? "," : "", t->ne[k]);
    lm_buf_printf(b, "],\"offset\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", t->offset, t->bytes);
}

/* Kind and text say all there is: numbers as text read back to the same number. */
bool lm_gguf_same_value(const struct lm_gguf_kv *a, const struct lm_gguf_kv *b)
{
    struct lm_buf x = { 0 }, y = { 0 };
    if (a->kind != b->kind || (a->kind == LM_GGUF_ARR && a->arr.kind != b->arr.kind))
        return false;
    lm_gguf_value_json(&x, a);
    lm_gguf_value_json(&y, b);
    bool same = !x.failed && !y.failed && x.len == y.len && !memcmp(x.data, y.data, x.len);
    lm_buf_release(&x);
    lm_buf_release(&y);
    return same;
}
