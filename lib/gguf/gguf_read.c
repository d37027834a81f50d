/* SPDX-License-Identifier: MIT */
/*
 * Reading a GGUF's header, metadata and tensor infos (layout in gguf.h).
 *
 * Nothing that the file claims is believed before it is compared with what the
 * file has left; where that is unknown, or where a sparse file makes it worth
 * nothing, memory grows with the bytes that have arrived.
 */
#include "gguf/gguf_foreign.h"
#include "gguf/gguf_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"

#define CHUNK (64 * 1024)       /* read, and allocated, before more is believed */
#define TRUST 64                /* times as much is allocated, once that has arrived */
#define BLOCK (256 * 1024)      /* strings of an array that are read at once    */
#define FEW   (CHUNK / 2)       /* bytes that are not worth a block of their own */
#define POOL  (64 * 1024)       /* short strings share blocks of this size      */
#define SHORT (POOL / 8)
#define MOST  (UINT64_C(1) << 30) /* bytes before the data: many times any model's */
#define PIECE (UINT64_C(1) << 26) /* bytes of a text or an array: the same */

struct reader {
    struct lm_in   *in;
    struct lm_gguf *g;
    struct lm_err  *err;
    bool            wide;       /* u64 counts and lengths: all but version 1    */
    char           *pool;
    size_t          pool_left, kv_cap, tensor_cap;
    size_t          held;       /* bytes of a string that were read before its claim is judged */
};

static uint64_t left(const struct reader *r)
{
    uint64_t pos = lm_in_pos(r->in) - r->held;
    if (r->g->file_size == LM_SIZE_UNKNOWN)
        return LM_SIZE_UNKNOWN;
    return r->g->file_size > pos ? r->g->file_size - pos : 0;
}

/* Can n things of at least `each` bytes still come?  what is plural.  The size of a
 * sparse file says little, so there is a limit beside it: `most` bytes. */
static int claim(const struct reader *r, const char *what, uint64_t n, uint64_t each,
                 uint64_t most)
{
    uint64_t have = left(r);
    if (have != LM_SIZE_UNKNOWN && n > have / each)
        return lm_fail(r->err, LM_EDATA, "claims %llu %s, but %llu bytes remain",
                       (unsigned long long)n, what, (unsigned long long)have);
    if (n > most / each)
        return lm_fail(r->err, LM_EDATA, "claims %llu %s, more than make sense",
                       (unsigned long long)n, what);
    return LM_OK;
}

/* Exactly n bytes, or a failure that says how many of `what` were due. */
static int get(const struct reader *r, void *dst, size_t n)
{
    return lm_in_read_all(r->in, dst, n, r->err);
}

/* The number in the first n of 8 bytes; zeros are behind them. */
static inline uint64_t number(const uint8_t b[8], size_t n, bool big_endian)
{
    uint64_t x = (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 |
                 (uint64_t)b[3] << 24 | (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 |
                 (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
    return big_endian ? __builtin_bswap64(x) >> (64 - 8 * n) : x;
}

static int get_number(const struct reader *r, size_t n, uint64_t *v)
{
    uint8_t b[8] = { 0 };
    int s = get(r, b, n);
    if (s == LM_OK)
        *v = number(b, n, r->g->big_endian);
    return s;
}

static int get_u32(const struct reader *r, uint32_t *v)
{
    uint64_t u = 0;
    int s = get_number(r, 4, &u);
    *v = (uint32_t)u;
    return s;
}

/* A count, length or size of a dimension. */
static size_t count_size(const struct reader *r)
{
    return r->wide ? 8 : 4;
}

static inline uint64_t count_at(const struct reader *r, const uint8_t *p)
{
    uint8_t b[8] = { 0 };
    memcpy(b, p, 4);
    if (r->wide)
        memcpy(b + 4, p + 4, 4);
    return number(b, count_size(r), r->g->big_endian);
}

static int get_count(const struct reader *r, uint64_t *v)
{
    return get_number(r, count_size(r), v);
}

/* Room for more than `have` of n items, of which `few` are believed before any arrived: memory
 * that is not used costs nothing, so once some are there the claim is believed much further. */
static size_t believed(uint64_t n, size_t have, size_t few)
{
    const size_t most = have > few / TRUST ? have * TRUST : few;
    return n < most ? (size_t)n : most;
}

/*
 * n bytes whose number the file chose, into the arena, a NUL after them; the first `have` of
 * them, at head, have been read.
 */
static int get_bytes(struct reader *r, const uint8_t *head, size_t have, uint64_t n,
                     const char *what, char **out)
{
    size_t room = 0;
    char *p = NULL;
    const char *old = (const char *)head;
    do {
        if (!p || have == room) {
            room = believed(n, have, CHUNK);
            p = lm_arena_alloc(&r->g->arena, room + LM_GGUF_SLACK);
            if (!p)
                return lm_fail_nomem(r->err);
            if (have)
                memcpy(p, old, have);
            old = p;
        }
        size_t got;
        int s = lm_in_read(r->in, p + have, room - have, &got, r->err);
        have += got;
        if (s == LM_OK && have < room)
            s = lm_fail(r->err, LM_EDATA, "claims %llu bytes of %s, but the input ends after "
                        "%llu of them", (unsigned long long)n, what, (unsigned long long)have);
        if (s != LM_OK)
            return s;
    } while (have < n);
    *out = p;
    return LM_OK;
}

/* n + 1 bytes for a short string, packed. */
static char *pool_room(struct reader *r, size_t n)
{
    if (n + 1 > r->pool_left) {
        r->pool = lm_arena_alloc(&r->g->arena, POOL + LM_GGUF_SLACK);
        r->pool_left = r->pool ? POOL : 0;
        if (!r->pool)
            return NULL;
    }
    char *p = r->pool;
    r->pool += n + 1;
    r->pool_left -= n + 1;
    return p;
}

/* The text of a string of n bytes, of which those at head have been read. */
static int get_text(struct reader *r, uint64_t n, const uint8_t *head, size_t have,
                    struct lm_str *out)
{
    char *p = NULL;
    r->held = have;
    int s = claim(r, "bytes of text", n, 1, PIECE);
    r->held = 0;
    if (s != LM_OK)
        return s;
    if (n >= SHORT) {
        s = get_bytes(r, head, have, n, "text", &p);
    } else if (!(p = pool_room(r, (size_t)n))) {
        s = lm_fail_nomem(r->err);
    } else {
        if (have)
            memcpy(p, head, have);
        s = get(r, p + have, (size_t)n - have);
        p[n] = '\0';
    }
    if (s == LM_OK)
        *out = (struct lm_str){ p, (size_t)n };
    return s;
}

static int get_str(struct reader *r, struct lm_str *out)
{
    uint64_t n;
    int s = get_count(r, &n);
    return s == LM_OK ? get_text(r, n, NULL, 0, out) : s;
}

/* A string whose first bytes were read, fewer than all. */
static int get_rest(struct reader *r, const uint8_t *head, size_t have, struct lm_str *out)
{
    const size_t size = count_size(r);
    uint8_t count[8] = { 0 };
    if (have >= size)
        return get_text(r, count_at(r, head), head + size, have - size, out);
    memcpy(count, head, have);
    int s = get(r, count + have, size - have);
    return s == LM_OK ? get_text(r, count_at(r, count), NULL, 0, out) : s;
}

/*
 * Of n strings, *done of those that are read in one block, which they stay in: a vocabulary has
 * hundreds of thousands.  Each has at least its length, so that many bytes can be read without
 * reading past the last.  The NUL after a string takes the place of the next one's length.
 */
static int get_block(struct reader *r, struct lm_str *out, uint64_t n, uint64_t *done)
{
    const size_t head = count_size(r), want = n < BLOCK / head ? (size_t)n * head : BLOCK;
    uint8_t *p = lm_arena_alloc(&r->g->arena, want + LM_GGUF_SLACK);
    size_t have, at = 0;
    uint64_t i = 0;
    int s = p ? lm_in_read(r->in, p, want, &have, r->err) : lm_fail_nomem(r->err);
    if (s != LM_OK)
        return s;
    while (have - at >= head) {
        const uint64_t len = count_at(r, p + at);
        if (len > have - at - head)
            break;
        p[at] = '\0';
        out[i++] = (struct lm_str){ (char *)p + at + head, (size_t)len };
        at += head + (size_t)len;
    }
    *done = i;
    if (at < have || have < want) {              /* if that was all, it says what is missing */
        s = get_rest(r, p + at, have - at, &out[i]);
        *done += s == LM_OK;
    }
    p[at] = '\0';
    return s;
}

/* A key or a tensor's name. */
static int get_name(struct reader *r, struct lm_str *out)
{
    int s = get_str(r, out);
    if (s == LM_OK && !out->len)             /* what zeros without end look like */
        s = lm_fail(r->err, LM_EDATA, "an empty name");
    if (s == LM_OK && lm_in_pos(r->in) > MOST)
        s = lm_fail(r->err, LM_EDATA, "a header of more than %llu bytes makes no "
                    "sense", (unsigned long long)MOST);
    if (s == LM_OK && out->len > LM_GGUF_MAX_NAME)
        s = lm_fail(r->err, LM_EDATA, "%llu bytes long: at most %d are allowed",
                    (unsigned long long)out->len, LM_GGUF_MAX_NAME);
    return s;
}

/* Numbers in the file's byte order become numbers in ours. */
static void to_native(const struct reader *r, void *data, uint64_t n, size_t size)
{
    const uint16_t probe = 1;
    uint8_t low, *p = data;
    memcpy(&low, &probe, 1);
    if (r->g->big_endian == (low == 0) || size == 1)
        return;
    for (uint64_t i = 0; i < n; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            uint8_t t = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = t;
        }
}

static int get_numbers(struct reader *r, struct lm_gguf_arr *a)
{
    size_t size = lm_gguf_kind_size(a->kind);
    uint64_t bytes = a->n * size;               /* claim has seen that it fits */
    char *p;
    int s = get_bytes(r, NULL, 0, bytes, "an array", &p);
    if (s != LM_OK)
        return s;
    to_native(r, p, a->n, size);
    a->data = p;
    return LM_OK;
}

static int get_arr(struct reader *r, struct lm_gguf_arr *a, int depth);

/* At least one item at *i of n, `size` bytes each; *i counts on. */
static int get_some(struct reader *r, enum lm_gguf_kind kind, char *items, size_t size,
                    uint64_t *i, uint64_t n, int depth)
{
    void *item = items + *i * size;
    uint64_t done = 0;
    int s;
    if (kind == LM_GGUF_STR && (n - *i) * count_size(r) > FEW) {
        s = get_block(r, item, n - *i, &done);
    } else {
        s = kind == LM_GGUF_STR ? get_str(r, item) : get_arr(r, item, depth + 1);
        done = s == LM_OK;
    }
    *i += done;
    return s;
}

/* Strings, or arrays: `size` bytes each in memory. */
static int get_items(struct reader *r, struct lm_gguf_arr *a, size_t size, int depth)
{
    char *items = NULL;
    size_t room = 0;
    int s = LM_OK;
    for (uint64_t i = 0; (i < a->n || !items) && s == LM_OK;) {
        if (i == room) {
            const char *old = items;
            room = believed(a->n, (size_t)i, FEW / 8);
            items = lm_arena_array(&r->g->arena, room, size);
            if (!items)
                return lm_fail_nomem(r->err);
            if (i)
                memcpy(items, old, (size_t)i * size);
        }
        if (i < a->n && (s = get_some(r, a->kind, items, size, &i, room, depth)) != LM_OK)
            lm_err_at(r->err, s, "element %llu of %llu", (unsigned long long)i,
                      (unsigned long long)a->n);
    }
    a->data = items;
    return s;
}

static int get_arr(struct reader *r, struct lm_gguf_arr *a, int depth)
{
    uint32_t kind;
    uint64_t n;
    int s = get_u32(r, &kind);
    if (s == LM_OK)
        s = get_count(r, &n);
    if (s != LM_OK)
        return s;
    if (kind >= LM_GGUF_N_KINDS)
        return lm_fail(r->err, LM_EDATA, "array of values of unknown type %u", kind);
    if (depth >= LM_GGUF_MAX_DEPTH)
        return lm_fail(r->err, LM_EDATA, "arrays nested more than %d deep", LM_GGUF_MAX_DEPTH);

    *a = (struct lm_gguf_arr){ .kind = kind, .n = n };
    char what[48];
    snprintf(what, sizeof what, "array elements (%s)", lm_gguf_kind_name(a->kind));
    size_t each = kind == LM_GGUF_STR ? count_size(r)
                : kind == LM_GGUF_ARR ? 4 + count_size(r) : lm_gguf_kind_size(a->kind);
    const bool in_file = kind != LM_GGUF_STR && kind != LM_GGUF_ARR;  /* the others grow */
    s = claim(r, what, n, each, in_file ? PIECE : PIECE / 2);
    if (s != LM_OK)
        return s;
    if (kind == LM_GGUF_STR)
        return get_items(r, a, sizeof(struct lm_str), depth);
    if (kind == LM_GGUF_ARR)
        return get_items(r, a, sizeof(struct lm_gguf_arr), depth);
    return get_numbers(r, a);
}

static int64_t sign_extend(uint64_t v, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    v <<= shift;
    int64_t i;
    memcpy(&i, &v, sizeof i);
    return shift ? i / (int64_t)(UINT64_C(1) << shift) : i;
}

static int get_scalar(const struct reader *r, struct lm_gguf_kv *kv)
{
    size_t size = lm_gguf_kind_size(kv->kind);
    uint64_t v;
    int s = get_number(r, size, &v);
    if (s != LM_OK)
        return s;
    if (kv->kind == LM_GGUF_F32) {
        uint32_t u = (uint32_t)v;
        float f;
        memcpy(&f, &u, sizeof f);
        kv->f = f;
    } else if (kv->kind == LM_GGUF_F64)
        memcpy(&kv->f, &v, sizeof kv->f);
    else if (kv->kind == LM_GGUF_I8 || kv->kind == LM_GGUF_I16 || kv->kind == LM_GGUF_I32 ||
             kv->kind == LM_GGUF_I64)
        kv->i = sign_extend(v, size);
    else
        kv->u = v;
    return LM_OK;
}

static int get_value(struct reader *r, struct lm_gguf_kv *kv)
{
    uint32_t kind;
    int s = get_u32(r, &kind);
    if (s != LM_OK)
        return s;
    if (kind >= LM_GGUF_N_KINDS)
        return lm_fail(r->err, LM_EDATA, "value of unknown type %u", kind);
    kv->kind = kind;
    if (kind == LM_GGUF_STR)
        return get_str(r, &kv->str);
    if (kind == LM_GGUF_ARR)
        return get_arr(r, &kv->arr, 0);
    return get_scalar(r, kv);
}

/* Put where we are in front of what went wrong: the name, or the number if there
 * is none yet. */
static int at(const struct reader *r, int s, const char *what, uint64_t i, uint64_t n,
              const struct lm_str *name)
{
    if (name->len)
        return lm_err_at(r->err, s, "%s %.*s", what, LM_NAME_ARG(*name));
    return lm_err_at(r->err, s, "%s %llu of %llu", what, (unsigned long long)i + 1,
                     (unsigned long long)n);
}

static int get_entries(struct reader *r, uint64_t n)
{
    struct lm_gguf *g = r->g;
    for (uint64_t i = 0; i < n; i++) {
        if (!lm_grow(&g->kv, &r->kv_cap, (size_t)i + 1, sizeof *g->kv))
            return lm_fail_nomem(r->err);
        struct lm_gguf_kv *kv = &g->kv[i];
        memset(kv, 0, sizeof *kv);
        kv->offset = lm_in_pos(r->in);
        struct lm_str key = { 0 };
        int s = get_name(r, &key);
        if (s != LM_OK)
            return at(r, s, "key", i, n, &(struct lm_str){ 0 });
        kv->key = key;
        s = get_value(r, kv);
        if (s != LM_OK)
            return at(r, s, "key", i, n, &kv->key);
        g->n_kv = i + 1;
    }
    return LM_OK;
}

bool lm_gguf_tensor_bytes(const struct lm_gguf_tensor *t, uint64_t *bytes)
{
    uint64_t b;
    if (!t->type || !t->ne[0] || !lm_type_row_bytes(t->type, t->ne[0], &b))
        return false;
    for (int k = 1; k < LM_GGUF_MAX_DIMS; k++)
        if (!t->ne[k] || !lm_mul_u64(b, t->ne[k], &b))
            return false;
    *bytes = b;
    return true;
}

static int get_info(const struct reader *r, struct lm_gguf_tensor *t)
{
    int s = get_u32(r, &t->n_dims);
    if (s != LM_OK)
        return s;
    if (t->n_dims > LM_GGUF_MAX_DIMS)
        return lm_fail(r->err, LM_EDATA, "%u dimensions: at most %d are allowed", t->n_dims,
                       LM_GGUF_MAX_DIMS);
    for (uint32_t k = 0; k < LM_GGUF_MAX_DIMS; k++)
        t->ne[k] = 1;
    for (uint32_t k = 0; k < t->n_dims && s == LM_OK; k++)
        s = get_count(r, &t->ne[k]);
    if (s == LM_OK)
        s = get_u32(r, &t->type_id);
    if (s == LM_OK)
        s = get_number(r, 8, &t->offset);
    if (s != LM_OK)
        return s;
    t->type = lm_type_by_id(t->type_id);
    if (!lm_gguf_tensor_bytes(t, &t->bytes))
        t->bytes = 0;
    return LM_OK;
}

static int get_infos(struct reader *r, uint64_t n)
{
    struct lm_gguf *g = r->g;
    for (uint64_t i = 0; i < n; i++) {
        if (!lm_grow(&g->tensors, &r->tensor_cap, (size_t)i + 1, sizeof *g->tensors))
            return lm_fail_nomem(r->err);
        struct lm_gguf_tensor *t = &g->tensors[i];
        memset(t, 0, sizeof *t);
        t->info_offset = lm_in_pos(r->in);
        struct lm_str name = { 0 };
        int s = get_name(r, &name);
        if (s != LM_OK)
            return at(r, s, "tensor", i, n, &(struct lm_str){ 0 });
        t->name = name;
        s = get_info(r, t);
        if (s != LM_OK)
            return at(r, s, "tensor", i, n, &t->name);
        g->n_tensors = i + 1;
    }
    return LM_OK;
}

/* Magic and version; says what the file is when it is something else. */
static int get_magic(struct reader *r)
{
    uint8_t b[LM_FOREIGN_SIZE] = { 0 };
    size_t n, more = 0;
    int s = lm_in_read(r->in, b, 4, &n, r->err);
    if (s != LM_OK)
        return s;
    if (n == 0)
        return lm_fail(r->err, LM_EDATA, "empty");
    if (n < 4 || memcmp(b, "GGUF", 4)) {
        if (n == 4 && lm_in_read(r->in, b + n, sizeof b - n, &more, r->err) != LM_OK)
            more = 0;
        const char *what = lm_gguf_foreign(b, n + more);
        return lm_fail(r->err, LM_EDATA, what ? "not a GGUF file: it is %s"
                       : "not a GGUF file: it does not begin with \"GGUF\"", what);
    }
    s = get(r, b, 4);
    if (s != LM_OK)
        return s;
    /* A version is a small number, so the zeros say which byte order it is in. */
    r->g->big_endian = b[0] == 0 && b[1] == 0;
    r->g->version = (uint32_t)number(b, 4, r->g->big_endian);
    if (r->g->version == 0)
        return lm_fail(r->err, LM_EDATA, "GGUF version 0 does not exist");
    if (r->g->version > 3)
        return lm_fail(r->err, LM_ENOSUP, "GGUF version %u: versions 1 to 3 are known",
                       r->g->version);
    r->wide = r->g->version > 1;
    return LM_OK;
}

/* A byte each is little to ask, but what comes next says better what is missing. */
static int get_counts(const struct reader *r, uint64_t *n_tensors, uint64_t *n_kv)
{
    int s = get_count(r, n_tensors);
    if (s == LM_OK)
        s = get_count(r, n_kv);
    if (s == LM_OK)
        s = claim(r, "metadata entries", *n_kv, 1, MOST);
    if (s == LM_OK)
        s = claim(r, "tensors", *n_tensors, 1, MOST);
    return s;
}

static int find_alignment(const struct reader *r)
{
    static const char key[] = "general.alignment";
    struct lm_gguf *g = r->g;
    const struct lm_gguf_kv *kv = lm_gguf_kv(g, key);
    g->alignment = 32;
    if (!kv)
        return LM_OK;
    if (kv->kind != LM_GGUF_U32)
        return lm_fail(r->err, LM_EDATA, "key %s is of type %s: must be a u32, a power of two",
                       key, lm_gguf_kind_name(kv->kind));
    if (!kv->u || (kv->u & (kv->u - 1)))
        return lm_fail(r->err, LM_EDATA, "key %s is %llu: must be a power of two", key,
                       (unsigned long long)kv->u);
    g->alignment = kv->u;
    return LM_OK;
}

/* Past the padding to the data; a file without data may end without it. */
static int go_to_data(const struct reader *r)
{
    struct lm_gguf *g = r->g;
    uint64_t pos = lm_in_pos(r->in);
    if (!lm_align_u64(pos, g->alignment, &g->data_offset))
        return lm_fail(r->err, LM_EDATA, "data offset does not fit 64 bits");
    bool has_data = false;
    for (uint64_t i = 0; i < g->n_tensors; i++)
        has_data |= g->tensors[i].bytes > 0;
    if (!has_data && g->data_offset - pos > left(r))
        return LM_OK;
    struct lm_err ignored;
    int s = lm_in_skip(r->in, g->data_offset - pos, has_data ? r->err : &ignored);
    if (s == LM_EDATA && !has_data)
        return LM_OK;
    if (s != LM_OK)
        lm_err_at(r->err, s, "before the data, which begins at byte %llu",
                  (unsigned long long)g->data_offset);
    return s;
}

static int read_all(struct reader *r, bool strict)
{
    uint64_t n_tensors, n_kv;
    int s = get_magic(r);
    if (s == LM_OK)
        s = get_counts(r, &n_tensors, &n_kv);
    if (s == LM_OK)
        s = get_entries(r, n_kv);
    if (s == LM_OK)
        s = get_infos(r, n_tensors);
    if (s == LM_OK && !lm_gguf_index(r->g))
        s = lm_fail_nomem(r->err);
    if (s == LM_OK)
        s = find_alignment(r);
    if (s == LM_OK)
        s = go_to_data(r);
    if (s == LM_OK && strict)
        s = lm_gguf_strict(r->g, r->err);
    return s;
}

struct lm_gguf *lm_gguf_read(struct lm_in *in, bool strict, struct lm_err *err)
{
    struct lm_gguf *g = calloc(1, sizeof *g);
    if (!g) {
        lm_fail_nomem(err);
        return NULL;
    }
    g->file_size = lm_in_size(in);
    struct reader r = { .in = in, .g = g, .err = err };
    if (read_all(&r, strict) != LM_OK) {
        lm_gguf_free(g);
        return NULL;
    }
    return g;
}

void lm_gguf_free(struct lm_gguf *g)
{
    if (!g)
        return;
    lm_arena_release(&g->arena);
    free(g->kv);
    free(g->tensors);
    free(g->kv_by_name);
    free(g->tensors_by_name);
    free(g);
}
