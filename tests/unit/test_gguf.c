/* SPDX-License-Identifier: MIT */
/* The GGUF reader on files built here byte by byte, and the writer on one that
 * another program wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "gguf/gguf.h"

/* A file in the making. */
struct file {
    struct lm_buf b;
    bool          big;       /* big-endian                        */
    bool          narrow;    /* version 1: u32 counts and lengths */
};

static void num(struct file *f, uint64_t v, int size)
{
    for (int i = 0; i < size; i++)
        lm_buf_byte(&f->b, (int)(v >> 8 * (f->big ? size - 1 - i : i) & 255));
}

static void count(struct file *f, uint64_t v)
{
    num(f, v, f->narrow ? 4 : 8);
}

static void str(struct file *f, const char *s)
{
    count(f, strlen(s));
    lm_buf_str(&f->b, s);
}

static void head(struct file *f, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
    lm_buf_str(&f->b, "GGUF");
    num(f, version, 4);
    count(f, n_tensors);
    count(f, n_kv);
}

static void key(struct file *f, const char *name, enum lm_gguf_kind kind)
{
    str(f, name);
    num(f, kind, 4);
}

static void tensor(struct file *f, const char *name, int n_dims, const uint64_t *ne,
                   uint32_t type, uint64_t offset)
{
    str(f, name);
    num(f, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++)
        count(f, ne[i]);
    num(f, type, 4);
    num(f, offset, 8);
}

static void zeros(struct file *f, size_t n)
{
    while (n--)
        lm_buf_byte(&f->b, 0);
}

static void align(struct file *f, size_t n)
{
    while (f->b.len % n)
        lm_buf_byte(&f->b, 0);
}

/* Read bytes through a temporary file, or through a pipe, where nothing is
 * known of the size.  Small files only: a pipe has to hold them. */
static struct lm_gguf *read_bytes(const void *p, size_t n, bool pipe_, bool strict,
                                  struct lm_err *err)
{
    char path[] = "/tmp/test_gguf.XXXXXX", dev[32];
    struct lm_in *in;
    int fd[2];
    if (pipe_) {
        assert_int_equal(pipe(fd), 0);
        assert_int_equal(write(fd[1], p, n), n);
        close(fd[1]);
        snprintf(dev, sizeof dev, "/dev/fd/%d", fd[0]);
        in = lm_in_open(dev, 0, err);
        close(fd[0]);
    } else {
        fd[0] = mkstemp(path);
        assert_int_equal(write(fd[0], p, n), n);
        close(fd[0]);
        in = lm_in_open(path, 0, err);
        unlink(path);
    }
    assert_non_null(in);
    struct lm_gguf *g = lm_gguf_read(in, strict, err);
    if (g && g->n_tensors)
        assert_int_equal(lm_in_pos(in), g->data_offset);
    lm_in_close(in);
    return g;
}

static struct lm_gguf *read_file(struct file *f, bool pipe_, bool strict, struct lm_err *err)
{
    assert_false(f->b.failed);
    struct lm_gguf *g = read_bytes(f->b.data, f->b.len, pipe_, strict, err);
    lm_buf_release(&f->b);
    return g;
}

static float as_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

/* One entry of every kind, arrays among them, and a tensor. */
static void build_all(struct file *f, uint32_t version)
{
    static const uint64_t ne[] = { 3, 2 };
    head(f, version, 1, 16);
    key(f, "u8", LM_GGUF_U8), num(f, 200, 1);
    key(f, "i8", LM_GGUF_I8), num(f, 0x80, 1);
    key(f, "u16", LM_GGUF_U16), num(f, 60000, 2);
    key(f, "i16", LM_GGUF_I16), num(f, 0xfffe, 2);
    key(f, "u32", LM_GGUF_U32), num(f, 0xdeadbeef, 4);
    key(f, "i32", LM_GGUF_I32), num(f, 0xfffffff6, 4);
    key(f, "f32", LM_GGUF_F32), num(f, 0x3dcccccd, 4);
    key(f, "bool", LM_GGUF_BOOL), num(f, 1, 1);
    key(f, "str", LM_GGUF_STR), str(f, "text");
    key(f, "u64", LM_GGUF_U64), num(f, UINT64_MAX, 8);
    key(f, "i64", LM_GGUF_I64), num(f, (uint64_t)INT64_MIN, 8);
    key(f, "f64", LM_GGUF_F64), num(f, UINT64_C(0xc000000000000000), 8);
    key(f, "strs", LM_GGUF_ARR), num(f, LM_GGUF_STR, 4), count(f, 2), str(f, "a"), str(f, "");
    key(f, "u16s", LM_GGUF_ARR), num(f, LM_GGUF_U16, 4), count(f, 2), num(f, 258, 2), num(f, 3, 2);
    key(f, "none", LM_GGUF_ARR), num(f, LM_GGUF_F64, 4), count(f, 0);
    key(f, "arrs", LM_GGUF_ARR), num(f, LM_GGUF_ARR, 4), count(f, 2);
    num(f, LM_GGUF_I32, 4), count(f, 1), num(f, 0xffffffff, 4);
    num(f, LM_GGUF_STR, 4), count(f, 1), str(f, "deep");
    tensor(f, "t", 2, ne, LM_F32, 0);
    align(f, 32);
    zeros(f, 24);
}

static void check_all(const struct lm_gguf *g)
{
    static const uint16_t u16s[] = { 258, 3 };
    assert_int_equal(g->n_kv, 16);
    assert_int_equal(lm_gguf_kv(g, "u8")->u, 200);
    assert_int_equal(lm_gguf_kv(g, "i8")->i, -128);
    assert_int_equal(lm_gguf_kv(g, "u16")->u, 60000);
    assert_int_equal(lm_gguf_kv(g, "i16")->i, -2);
    assert_int_equal(lm_gguf_kv(g, "u32")->u, 0xdeadbeef);
    assert_int_equal(lm_gguf_kv(g, "i32")->i, -10);
    assert_true(lm_gguf_kv(g, "f32")->f == as_float(0x3dcccccd));
    assert_int_equal(lm_gguf_kv(g, "bool")->u, 1);
    assert_string_equal(lm_gguf_kv(g, "str")->str.p, "text");
    assert_int_equal(lm_gguf_kv(g, "str")->str.len, 4);
    assert_true(lm_gguf_kv(g, "u64")->u == UINT64_MAX);
    assert_true(lm_gguf_kv(g, "i64")->i == INT64_MIN);
    assert_true(lm_gguf_kv(g, "f64")->f == -2.0);
    assert_null(lm_gguf_kv(g, "u"));
    assert_null(lm_gguf_kv(g, "zz"));

    const struct lm_gguf_arr *a = &lm_gguf_kv(g, "strs")->arr;
    const struct lm_str *s = a->data;
    assert_int_equal(a->kind, LM_GGUF_STR);
    assert_int_equal(a->n, 2);
    assert_string_equal(s[0].p, "a");
    assert_int_equal(s[1].len, 0);
    a = &lm_gguf_kv(g, "u16s")->arr;
    assert_int_equal(a->n, 2);
    assert_memory_equal(a->data, u16s, sizeof u16s);
    assert_int_equal(lm_gguf_kv(g, "none")->arr.n, 0);
    a = lm_gguf_kv(g, "arrs")->arr.data;
    assert_int_equal(a[0].kind, LM_GGUF_I32);
    assert_int_equal(*(const int32_t *)a[0].data, -1);
    assert_string_equal(((const struct lm_str *)a[1].data)->p, "deep");

    const struct lm_gguf_tensor *t = lm_gguf_tensor(g, "t");
    assert_non_null(t);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->ne[0], 3);
    assert_int_equal(t->ne[1], 2);
    assert_int_equal(t->ne[2], 1);
    assert_int_equal(t->bytes, 24);
    assert_int_equal(g->alignment, 32);
    assert_int_equal(g->data_offset % 32, 0);
}

static void every_kind(void **state)
{
    static const struct { uint32_t version; bool big, pipe; } cases[] = {
        { 3, false, false }, { 3, false, true }, { 3, true, false }, { 3, true, true },
        { 2, false, false }, { 2, true, true }, { 1, false, false }, { 1, true, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f = { .big = cases[i].big, .narrow = cases[i].version == 1 };
        struct lm_err err = { 0 };
        build_all(&f, cases[i].version);
        struct lm_gguf *g = read_file(&f, cases[i].pipe, true, &err);
        if (!g)
            fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(g->version, cases[i].version);
        assert_int_equal(g->big_endian, cases[i].big);
        check_all(g);
        lm_gguf_free(g);
    }
}

/* A file cut anywhere fails, and says that it ends. */
static void cut(void **state)
{
    struct file f = { 0 };
    (void)state;
    build_all(&f, 3);
    for (size_t n = 0; n < f.b.len; n++)
        for (int pipe_ = 0; pipe_ < 2; pipe_++) {
            struct lm_err err = { 0 };
            struct lm_gguf *g = read_bytes(f.b.data, n, pipe_, true, &err);
            if (pipe_ && n >= f.b.len - 24) {   /* only the data is missing */
                assert_non_null(g);
                lm_gguf_free(g);
                continue;
            }
            assert_null(g);
            assert_int_equal(err.code, LM_EDATA);
        }
    lm_buf_release(&f.b);
}

static void getters(void **state)
{
    struct file f = { 0 };
    struct lm_err err = { 0 };
    uint32_t u = 7;
    int64_t i = 7;
    float x = 7;
    bool b = false;
    struct lm_str s;
    struct lm_gguf_arr a;
    (void)state;
    build_all(&f, 3);
    struct lm_gguf *g = read_file(&f, false, true, &err);
    assert_non_null(g);

    assert_int_equal(lm_gguf_u32(g, "absent", &u, &err), 1);
    assert_int_equal(u, 7);
    assert_int_equal(lm_gguf_u32(g, "u8", &u, &err), LM_OK);
    assert_int_equal(u, 200);
    assert_int_equal(lm_gguf_u32(g, "i32", &u, &err), LM_EDATA);
    assert_int_equal(lm_gguf_u32(g, "u64", &u, &err), LM_EDATA);
    assert_int_equal(lm_gguf_u32(g, "str", &u, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "str: wanted an unsigned integer, found str"));
    assert_int_equal(u, 200);
    assert_int_equal(lm_gguf_i64(g, "i64", &i, &err), LM_OK);
    assert_true(i == INT64_MIN);
    assert_int_equal(lm_gguf_i64(g, "u64", &i, &err), LM_EDATA);
    assert_int_equal(lm_gguf_i64(g, "f32", &i, &err), LM_EDATA);
    assert_int_equal(lm_gguf_f32(g, "f64", &x, &err), LM_OK);
    assert_true(x == -2);
    assert_int_equal(lm_gguf_f32(g, "u8", &x, &err), LM_EDATA);
    assert_int_equal(lm_gguf_bool(g, "bool", &b, &err), LM_OK);
    assert_true(b);
    assert_int_equal(lm_gguf_bool(g, "u8", &b, &err), LM_EDATA);
    assert_int_equal(lm_gguf_str(g, "str", &s, &err), LM_OK);
    assert_int_equal(s.len, 4);
    assert_int_equal(lm_gguf_str(g, "strs", &s, &err), LM_EDATA);
    assert_int_equal(lm_gguf_arr(g, "u16s", LM_GGUF_U16, &a, &err), LM_OK);
    assert_int_equal(a.n, 2);
    assert_int_equal(lm_gguf_arr(g, "u16s", LM_GGUF_STR, &a, &err), LM_EDATA);
    assert_non_null(strstr(err.text, "u16s: wanted arr of str, found arr of u16"));
    assert_int_equal(lm_gguf_arr(g, "str", LM_GGUF_STR, &a, &err), LM_EDATA);
    lm_gguf_free(g);
}

/* Zeros that never end, as a sparse file or a compressed one may hold, are no entries. */
static void endless(void **state)
{
    (void)state;
    for (int tensors = 0; tensors < 2; tensors++) {
        char path[] = "/tmp/test_gguf.XXXXXX";
        struct file f = { 0 };
        struct lm_err err = { 0 };
        int fd = mkstemp(path);
        head(&f, 3, tensors ? UINT64_C(1) << 28 : 0, tensors ? 0 : UINT64_C(1) << 28);
        assert_int_equal(write(fd, f.b.data, f.b.len), f.b.len);
        assert_int_equal(ftruncate(fd, (off_t)1 << 36), 0);
        close(fd);
        struct lm_in *in = lm_in_open(path, 0, &err);
        unlink(path);
        assert_non_null(in);
        assert_null(lm_gguf_read(in, false, &err));
        assert_int_equal(err.code, LM_EDATA);
        assert_non_null(strstr(err.text, "an empty name"));
        lm_in_close(in);
        lm_buf_release(&f.b);
    }
}

/* What a hostile file claims is said, with what remains. */
static void claims(void **state)
{
    static const struct {
        uint64_t    n_tensors, n_kv, number;    /* number: put where `where` says    */
        char        where;                      /* s: string length, b: u8 array,
                                                   a: str array, n: tensor name      */
        const char *says;
    } cases[] = {
        { 0, 1, UINT64_C(1) << 62, 's', "4611686018427387904" },
        { 0, 1, UINT64_C(1) << 60, 'b', "1152921504606846976" },
        { 0, 1, UINT64_C(1) << 40, 'a', "1099511627776" },
        { UINT64_C(1) << 58, 0, 0, 0, "288230376151711744" },
        { 0, UINT64_C(1) << 63, 0, 0, "9223372036854775808" },
        { 1, 0, UINT64_C(1) << 63, 'n', "9223372036854775808" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int pipe_ = 0; pipe_ < 2; pipe_++) {
            struct file f = { 0 };
            struct lm_err err = { 0 };
            head(&f, 3, cases[i].n_tensors, cases[i].n_kv);
            if (cases[i].where == 's')
                key(&f, "k", LM_GGUF_STR);
            else if (cases[i].where && cases[i].where != 'n') {
                key(&f, "k", LM_GGUF_ARR);
                num(&f, cases[i].where == 'b' ? LM_GGUF_U8 : LM_GGUF_STR, 4);
            }
            if (cases[i].where)
                num(&f, cases[i].number, 8);
            zeros(&f, 24);
            assert_null(read_file(&f, pipe_, false, &err));
            assert_int_equal(err.code, LM_EDATA);
            if (!strstr(err.text, cases[i].says))
                fail_msg("case %zu: '%s' does not say %s", i, err.text, cases[i].says);
            if (!pipe_)
                assert_non_null(strstr(err.text, " bytes remain"));
        }
}

static void alignment(void **state)
{
    static const struct { enum lm_gguf_kind kind; uint64_t v; bool ok; } cases[] = {
        { LM_GGUF_U32, 0, false }, { LM_GGUF_U32, 3, false },
        { LM_GGUF_U32, UINT64_C(0x80000000), true }, { LM_GGUF_I32, 32, false },
        { LM_GGUF_STR, 0, false }, { LM_GGUF_U32, 1, true }, { LM_GGUF_U32, 4096, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct file f = { 0 };
        struct lm_err err = { 0 };
        head(&f, 3, 0, 1);
        key(&f, "general.alignment", cases[i].kind);
        num(&f, cases[i].v, cases[i].kind == LM_GGUF_STR ? 8 : 4);
        struct lm_gguf *g = read_file(&f, i & 1, false, &err);
        if (cases[i].ok) {
            assert_non_null(g);
            assert_int_equal(g->alignment, cases[i].v);
        } else {
            assert_null(g);
            assert_int_equal(err.code, LM_EDATA);
            assert_non_null(strstr(err.text, "power of two"));
        }
        lm_gguf_free(g);
    }
}

static void nested(void **state)
{
    (void)state;
    for (int depth = LM_GGUF_MAX_DEPTH; depth <= 100000; depth += 100000 - LM_GGUF_MAX_DEPTH) {
        struct file f = { 0 };
        struct lm_err err = { 0 };
        head(&f, 3, 0, 1);
        key(&f, "k", LM_GGUF_ARR);
        for (int i = 1; i < depth; i++)
            num(&f, LM_GGUF_ARR, 4), num(&f, 1, 8);
        num(&f, LM_GGUF_U8, 4), num(&f, 1, 8), num(&f, 9, 1);
        struct lm_gguf *g = read_file(&f, false, true, &err);
        if (depth == LM_GGUF_MAX_DEPTH)
            assert_non_null(g);
        else
            assert_null(g);
        lm_gguf_free(g);
    }
}

static void note_fault(void *arg, uint64_t offset, const char *what)
{
    lm_buf_printf(arg, "%llu: %s\n", (unsigned long long)offset, what);
}

/* One file with many faults: all are told, and a strict reader refuses it. */
static void faults(void **state)
{
    static const struct {
        const char *name;
        int         n_dims;
        uint64_t    ne[4];
        uint32_t    type;
        uint64_t    offset;
        const char *says;
    } t[] = {
        { "zero", 2, { 1, 0 }, LM_F32, 0, "tensor zero: dimension 1 is 0" },
        { "big", 3, { UINT64_C(1) << 40, UINT64_C(1) << 40, 2 }, LM_F32, 0,
          "tensor big: number of elements does not fit 63 bits" },
        { "row", 1, { 33 }, LM_Q8_0, 0,
          "tensor row: rows of 33 elements: q8_0 needs a multiple of 32" },
        { "odd", 1, { 2 }, LM_F32, 8, "tensor odd: offset 8 is not a multiple of 32" },
        { "far", 1, { 2 }, LM_F32, UINT64_MAX - 31, "tensor far: end of its data does not fit" },
        { "long", 1, { 1000 }, LM_F32, 64, "tensor long: data ends at byte" },
        { "over", 1, { 8 }, LM_F32, 96, "tensor over: data overlaps that of long" },
        { "type", 1, { 8 }, 4, 0, "tensor type: type 4 is not known here (removed Q4_2)" },
        { "odd", 1, { 8 }, LM_F32, 32, "tensor odd is there twice" },
        { "mid", 1, { 32 }, LM_Q8_1, 4096, "tensor mid: type q8_1 is not one for files" },
    };
    const size_t n = sizeof t / sizeof *t;
    struct file f = { 0 };
    struct lm_err err = { 0 };
    struct lm_buf told = { 0 };
    (void)state;
    head(&f, 3, n, 5);
    key(&f, "a", LM_GGUF_U8), num(&f, 1, 1);
    key(&f, "a", LM_GGUF_U8), num(&f, 2, 1);
    key(&f, "b", LM_GGUF_BOOL), num(&f, 2, 1);
    key(&f, "s", LM_GGUF_STR), str(&f, "\xff");
    key(&f, "bs", LM_GGUF_ARR), num(&f, LM_GGUF_BOOL, 4), num(&f, 2, 8), num(&f, 0x501, 2);
    for (size_t i = 0; i < n; i++)
        tensor(&f, t[i].name, t[i].n_dims, t[i].ne, t[i].type, t[i].offset);
    align(&f, 32);
    zeros(&f, 128);
    struct lm_gguf *g = read_bytes(f.b.data, f.b.len, false, false, &err);
    if (!g)
        fail_msg("%s", err.text);
    assert_int_equal(lm_gguf_kv(g, "a")->u, 1);
    assert_true(lm_gguf_check(g, note_fault, &told) >= n + 5);
    for (size_t i = 0; i < n; i++)
        if (!strstr(told.data, t[i].says))
            fail_msg("not told: %s; but:\n%s", t[i].says, told.data);
    assert_non_null(strstr(told.data, "key a is there twice"));
    assert_non_null(strstr(told.data, "key b: a bool is 0 or 1, this is 2"));
    assert_non_null(strstr(told.data, "key s: the text is not UTF-8"));
    assert_non_null(strstr(told.data, "key bs: element 1 is not 0 or 1"));
    lm_gguf_free(g);
    assert_null(read_file(&f, false, true, &err));
    assert_int_equal(err.code, LM_EDATA);
    lm_buf_release(&told);
}

/* Faults of form alone do not stop a strict reader; an unknown type is not the
 * file's fault. */
static void strictness(void **state)
{
    static const uint64_t ne[] = { 1 };
    struct file f = { 0 };
    struct lm_err err = { 0 };
    (void)state;
    head(&f, 3, 0, 2);
    key(&f, "s", LM_GGUF_STR), str(&f, "\xff");
    key(&f, "b", LM_GGUF_BOOL), num(&f, 9, 1);
    struct lm_gguf *g = read_file(&f, false, true, &err);
    assert_non_null(g);
    lm_gguf_free(g);

    head(&f, 3, 1, 0);
    tensor(&f, "t", 1, ne, 200, 0);
    align(&f, 32);
    assert_null(read_file(&f, false, true, &err));
    assert_int_equal(err.code, LM_ENOSUP);
}

static void others(void **state)
{
    static const struct { const char *p; size_t n; const char *says; } cases[] = {
        { "", 0, "empty" },
        { "GG", 2, "does not begin" },
        { "PK\3\4....", 8, "zip archive" },
        { "\x10\0\0\0\0\0\0\0{\"a\":{}}", 16, "safetensors" },
        { "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 64, "Git LFS" },
        { "\n<!DOCTYPE HTML>", 16, "web page" },
        { "<html>", 6, "web page" },
        { "GGUF\0\0\0\0", 8, "version 0" },
        { "GGUF\4\0\0\0", 8, "version 4" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_err err = { 0 };
        assert_null(read_bytes(cases[i].p, cases[i].n, i & 1, false, &err));
        if (!strstr(err.text, cases[i].says))
            fail_msg("case %zu: '%s' does not say %s", i, err.text, cases[i].says);
    }
}

static char *written(struct lm_gguf_writer *w, size_t *n)
{
    char path[] = "/tmp/test_gguf_out.XXXXXX", *data;
    struct lm_err err;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct lm_out *out = lm_out_open(path, &err);
    assert_non_null(out);
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    assert_int_equal(lm_read_file(path, SIZE_MAX / 2, &data, n, &err), LM_OK);
    unlink(path);
    return data;
}

/* What another program wrote, read and written again, is the same. */
static void rewrite(void **state)
{
    const char *dir = getenv("LMPIPE_TEST_DATA");
    char path[512], *want, *got;
    size_t n_want, n_got;
    struct lm_err err;
    uint64_t total;
    (void)state;
    snprintf(path, sizeof path, "%s/m.gguf", dir ? dir : "tests/data");
    assert_int_equal(lm_read_file(path, SIZE_MAX / 2, &want, &n_want, &err), LM_OK);
    struct lm_in *in = lm_in_open(path, 0, &err);
    struct lm_gguf *g = lm_gguf_read(in, true, &err);
    assert_non_null(g);
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    for (uint64_t i = 0; i < g->n_kv; i++)
        lm_gguf_set_kv(w, &g->kv[i]);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        lm_gguf_add_tensor(w, g->tensors[i].name.p, g->tensors[i].name.len, g->tensors[i].n_dims,
                           g->tensors[i].ne, g->tensors[i].type);
    assert_true(lm_gguf_total_size(w, &total));
    assert_int_equal(total, n_want);
    got = written(w, &n_got);
    assert_int_equal(n_got, g->data_offset);
    assert_memory_equal(got, want, n_got);
    free(got);
    free(want);
    lm_gguf_writer_free(w);
    lm_gguf_free(g);
    lm_in_close(in);
}

/* Values of every kind come back from our writer as they were. */
static void round_trip(void **state)
{
    static const uint64_t ne[] = { 3, 2 };
    struct file f = { 0 };
    struct lm_err err = { 0 };
    size_t n;
    (void)state;
    build_all(&f, 3);
    struct lm_gguf *g = read_bytes(f.b.data, f.b.len, false, true, &err);
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    for (uint64_t i = 0; i < g->n_kv; i++)
        lm_gguf_set_kv(w, &g->kv[i]);
    lm_gguf_add_tensor(w, "t", 1, 2, ne, lm_type_by_id(LM_F32));
    char *out = written(w, &n);
    assert_int_equal(n, f.b.len - 24);
    assert_memory_equal(out, f.b.data, n);
    free(out);
    lm_buf_release(&f.b);
    lm_gguf_writer_free(w);
    lm_gguf_free(g);
}

/* Setting again keeps the place, unsetting gives it up; many keys stay quick. */
static void places(void **state)
{
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_err err;
    char name[16];
    size_t n;
    (void)state;
    lm_gguf_set_u32(w, "general.alignment", 64);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "k%d", i);
        lm_gguf_set_i32(w, name, -i);
    }
    lm_gguf_set_str(w, "k1", "one", 3);
    lm_gguf_unset(w, "k0");
    lm_gguf_unset(w, "absent");
    lm_gguf_set_bool(w, "k0", true);
    lm_gguf_set_f32(w, "k2", 0.5f);
    char *p = written(w, &n);
    assert_int_equal(n % 64, 0);
    struct lm_gguf *g = read_bytes(p, n, false, true, &err);
    assert_non_null(g);
    assert_int_equal(g->alignment, 64);
    assert_int_equal(g->n_kv, 1001);
    assert_string_equal(g->kv[1].key.p, "k1");
    assert_string_equal(g->kv[1].str.p, "one");
    assert_string_equal(g->kv[1000].key.p, "k0");
    assert_int_equal(g->kv[1000].kind, LM_GGUF_BOOL);
    assert_true(g->kv[2].f == 0.5);
    assert_int_equal(lm_gguf_kv(g, "k999")->i, -999);
    lm_gguf_free(g);
    free(p);
    lm_gguf_writer_free(w);
}

static void writer_refuses(void **state)
{
    static const uint64_t ne[] = { 33 };
    struct lm_err err;
    uint64_t size;
    (void)state;
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open("/dev/null", &err);
    lm_gguf_set_u32(w, "general.alignment", 3);
    assert_false(lm_gguf_total_size(w, &size));
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_EUSE);
    lm_gguf_set_u32(w, "general.alignment", 32);
    lm_gguf_add_tensor(w, "t", 1, 1, ne, lm_type_by_id(LM_Q8_0));
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_EUSE);
    lm_out_abort(out);
    lm_gguf_writer_free(w);
}

/* The text number i of an array: mostly short, some longer than what is read at once. */
static size_t text_of(uint32_t i, char *to)
{
    const size_t n = i % 3001 == 77 ? 70000 + i : i % 501 == 9 ? 9000 : i % 14;
    for (size_t k = 0; k < n; k++)
        to[k] = (char)('a' + (i + k) % 26);
    return n;
}

/* The same as read_bytes of a pipe, for more than that holds. */
static struct lm_gguf *read_piped(const void *p, size_t n, struct lm_err *err)
{
    char path[] = "/tmp/test_gguf.XXXXXX", text[64];
    int fd = mkstemp(path);
    assert_int_equal(write(fd, p, n), n);
    close(fd);
    snprintf(text, sizeof text, "cat %s", path);
    FILE *cat = popen(text, "r");
    assert_non_null(cat);
    snprintf(text, sizeof text, "/dev/fd/%d", fileno(cat));
    struct lm_in *in = lm_in_open(text, 0, err);
    assert_non_null(in);
    struct lm_gguf *g = lm_gguf_read(in, false, err);
    lm_in_close(in);
    pclose(cat);
    unlink(path);
    return g;
}

/* Arrays of texts that are read in blocks, in both widths and byte orders, from files and pipes;
 * cut short anywhere they are refused, and never read from beyond. */
static void many_texts(void **state)
{
    enum { N = 12000 };
    char *text = malloc(1 << 18);
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct file f = { .narrow = k == 1, .big = k == 2 };
        struct lm_err err;
        head(&f, k == 1 ? 1 : 3, 0, 2);
        key(&f, "a", LM_GGUF_ARR);
        num(&f, LM_GGUF_STR, 4);
        count(&f, N);
        for (uint32_t i = 0; i < N; i++) {
            size_t n = text_of(i, text);
            count(&f, n);
            lm_buf_add(&f.b, text, n);
        }
        size_t end = f.b.len;
        key(&f, "b", LM_GGUF_STR);
        str(&f, "behind");
        struct lm_gguf *g = k == 3 ? read_piped(f.b.data, f.b.len, &err)
                                   : read_bytes(f.b.data, f.b.len, false, false, &err);
        assert_non_null(g);
        const struct lm_gguf_arr *a = &lm_gguf_kv(g, "a")->arr;
        const struct lm_str *s = a->data;
        assert_int_equal(a->n, N);
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(s[i].len, text_of(i, text));
            assert_memory_equal(s[i].p, text, s[i].len);
            assert_int_equal(s[i].p[s[i].len], 0);
        }
        assert_string_equal(lm_gguf_kv(g, "b")->str.p, "behind");
        lm_gguf_free(g);
        for (size_t cut_at = 30; cut_at < end; cut_at += 1 + end / 40) {
            assert_null(k == 3 ? read_piped(f.b.data, cut_at, &err)
                               : read_bytes(f.b.data, cut_at, false, false, &err));
            assert_int_equal(err.code, LM_EDATA);
        }
        lm_buf_release(&f.b);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind), cmocka_unit_test(cut), cmocka_unit_test(getters),
        cmocka_unit_test(claims), cmocka_unit_test(endless),
        cmocka_unit_test(alignment), cmocka_unit_test(nested),
        cmocka_unit_test(faults), cmocka_unit_test(strictness), cmocka_unit_test(others),
        cmocka_unit_test(rewrite), cmocka_unit_test(round_trip), cmocka_unit_test(places),
        cmocka_unit_test(writer_refuses), cmocka_unit_test(many_texts),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
