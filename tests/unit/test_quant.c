/* SPDX-License-Identifier: MIT */
/* Walks the table of tensor types: layouts, decoders and encoders against reference
 * bytes, for every instruction set of this CPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "not_here.h"
#include "base/arena.h"
#include "base/cpu.h"
#include "base/json.h"
#include "quant/quant.h"

/* ---- the table -------------------------------------------------------------------- */

/* As the format specifies them. */
static const struct {
    uint32_t    id;
    const char *name;
    uint32_t    block, bytes;
} layout[] = {
    { 0, "f32", 1, 4 },         { 1, "f16", 1, 2 },         { 2, "q4_0", 32, 18 },
    { 3, "q4_1", 32, 20 },      { 6, "q5_0", 32, 22 },      { 7, "q5_1", 32, 24 },
    { 8, "q8_0", 32, 34 },      { 9, "q8_1", 32, 36 },      { 10, "q2_K", 256, 84 },
    { 11, "q3_K", 256, 110 },   { 12, "q4_K", 256, 144 },   { 13, "q5_K", 256, 176 },
    { 14, "q6_K", 256, 210 },   { 15, "q8_K", 256, 292 },   { 16, "iq2_xxs", 256, 66 },
    { 17, "iq2_xs", 256, 74 },  { 18, "iq3_xxs", 256, 98 }, { 19, "iq1_s", 256, 50 },
    { 20, "iq4_nl", 32, 18 },   { 21, "iq3_s", 256, 110 },  { 22, "iq2_s", 256, 82 },
    { 23, "iq4_xs", 256, 136 }, { 24, "i8", 1, 1 },         { 25, "i16", 1, 2 },
    { 26, "i32", 1, 4 },        { 27, "i64", 1, 8 },        { 28, "f64", 1, 8 },
    { 29, "iq1_m", 256, 56 },   { 30, "bf16", 1, 2 },       { 34, "tq1_0", 256, 54 },
    { 35, "tq2_0", 256, 66 },   { 39, "mxfp4", 32, 17 },    { 40, "nvfp4", 64, 36 },
    { 41, "q1_0", 128, 18 },    { 42, "q2_0", 64, 18 },
};

static void test_layout(void **state)
{
    (void)state;
    size_t n = sizeof layout / sizeof *layout, i = 0;
    for (; lm_types[i]; i++) {
        assert_true(i < n);
        assert_int_equal(lm_types[i]->id, layout[i].id);
        assert_string_equal(lm_types[i]->name, layout[i].name);
        assert_int_equal(lm_types[i]->block, layout[i].block);
        assert_int_equal(lm_types[i]->bytes, layout[i].bytes);
        assert_int_equal(lm_types[i]->in_files, layout[i].id != 9 && layout[i].id != 15);
        assert_non_null(lm_types[i]->source);
        assert_int_equal(lm_types[i]->decode != NULL, layout[i].id < 24 || layout[i].id > 27);
    }
    assert_int_equal(i, n);
}

static void test_lookup(void **state)
{
    (void)state;
    for (size_t i = 0; lm_types[i]; i++) {
        assert_ptr_equal(lm_type_by_id(lm_types[i]->id), lm_types[i]);
        assert_null(lm_type_foreign(lm_types[i]->id));
    }
    assert_int_equal(lm_type_by_name("q4_k")->id, 12);
    assert_int_equal(lm_type_by_name("Q4_K")->id, 12);
    assert_int_equal(lm_type_by_name("BF16")->id, 30);
    assert_null(lm_type_by_name("q4"));
    assert_null(lm_type_by_name(""));
    static const uint32_t removed[] = { 4, 5, 31, 32, 33, 36, 37, 38 };
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
        assert_null(lm_type_by_id(removed[i]));
        assert_non_null(strstr(lm_type_foreign(removed[i]), "removed"));
    }
    assert_string_equal(lm_type_foreign(137), "IQ2_K (ik_llama.cpp)");
    assert_null(lm_type_by_id(43));
    assert_null(lm_type_foreign(43));
    assert_null(lm_type_foreign(UINT32_MAX));
}

static void test_row_bytes(void **state)
{
    (void)state;
    const struct lm_type *q4_k = lm_type_by_id(12), *f64 = lm_type_by_id(28);
    uint64_t b = 0;
    assert_true(lm_type_row_bytes(q4_k, 4096, &b));
    assert_int_equal(b, 16 * 144);
    assert_true(lm_type_row_bytes(q4_k, 0, &b));
    assert_int_equal(b, 0);
    assert_false(lm_type_row_bytes(q4_k, 4100, &b));
    assert_false(lm_type_row_bytes(f64, UINT64_MAX / 4, &b));
}

/* ---- reference bytes -------------------------------------------------------------- */

/* A folder in the form that tests/golden/quant-subset describes. */
struct fixtures {
    char                   dir[400];
    struct lm_arena        arena;
    const struct lm_jval  *manifest;
    float                 *inputs, *importance;
};

static void *read_file(const char *dir, const char *name, const char *ext, size_t *size)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, ext);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *p = malloc(1 << 20);
    assert_non_null(p);
    *size = fread(p, 1, 1 << 20, f);
    assert_true(*size < 1 << 20);
    fclose(f);
    return p;
}

/* False when the folder is not there. */
static bool fixtures_open(struct fixtures *f, const char *dir)
{
    size_t n;
    struct lm_err err;
    memset(f, 0, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    char *text = read_file(dir, "manifest.json", "", &n);
    if (!text)
        return false;
    f->manifest = lm_json_tree(&f->arena, text, n, &err);
    assert_non_null(f->manifest);
    free(text);
    f->inputs = read_file(dir, "inputs.f32", "", &n);
    f->importance = read_file(dir, "importance.f32", "", &n);
    assert_non_null(f->inputs);
    assert_non_null(f->importance);
    return true;
}

static void fixtures_close(struct fixtures *f)
{
    free(f->inputs);
    free(f->importance);
    lm_arena_release(&f->arena);
}

static const struct lm_jval *at(const struct lm_jval *array, int64_t i)
{
    const struct lm_jval *v = array->first;
    while (i-- > 0 && v)
        v = v->next;
    assert_non_null(v);
    return v;
}

static int64_t number(const struct lm_jval *v)
{
    int64_t i;
    assert_true(lm_jval_i64(v, &i));
    return i;
}

/* Row i of "inputs" or "importance". */
static const float *row(const struct fixtures *f, const char *what, const float *data,
                        int64_t i, size_t *n)
{
    const struct lm_jval *r = at(lm_jval_get(lm_jval_get(f->manifest, what), "rows"), i);
    *n = (size_t)number(at(r, 1));
    return data + number(at(r, 2));
}

/* The folder's name of a type: in capitals. */
static const char *capitals(const struct lm_type *t)
{
    static char s[16];
    snprintf(s, sizeof s, "%s", t->name);
    for (char *p = s; *p; p++)
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    return s;
}

static int decode_all(const char *folder)
{
    char dir[500];
    int n_types = 0;
    snprintf(dir, sizeof dir, "%s/decode", folder);
    for (size_t i = 0; lm_types[i]; i++) {
        const struct lm_type *t = lm_types[i];
        size_t size, want_size;
        uint8_t *packed = read_file(dir, capitals(t), ".bin", &size);
        if (!packed)
            continue;
        float *want = read_file(dir, capitals(t), ".f32", &want_size);
        size_t n = size / t->bytes * t->block;
        assert_int_equal(want_size, n * 4);
        float *got = malloc(want_size);
        assert_non_null(got);
        t->decode(packed, got, n);
        if (memcmp(got, want, want_size))
            fail_msg("%s: decoded values differ", t->name);
        if (t->invalid)
            assert_int_equal(t->invalid(packed, n), -1);
        free(packed);
        free(want);
        free(got);
        n_types++;
    }
    return n_types;
}

/* Encode the cases of one type with one instruction set; returns their number. */
static int encode_type(const struct fixtures *f, const struct lm_type *t, enum lm_isa isa)
{
    const struct lm_jval *type = lm_jval_get(lm_jval_get(f->manifest, "types"), capitals(t));
    char dir[500];
    size_t size;
    snprintf(dir, sizeof dir, "%s/expected", f->dir);
    uint8_t *want = type ? read_file(dir, capitals(t), ".bin", &size) : NULL;
    if (!want)
        return 0;
    int n_cases = 0;
    for (const struct lm_jval *c = lm_jval_get(type, "cases")->first; c; c = c->next) {
        int64_t in = number(at(c, 0)), imp = number(at(c, 1));
        size_t n, n_imp, offset = (size_t)number(at(c, 2)), bytes = (size_t)number(at(c, 3));
        const float *x = row(f, "inputs", f->inputs, in, &n), *w = NULL;
        if (imp >= 0) {
            w = row(f, "importance", f->importance, imp, &n_imp);
            assert_int_equal(n_imp, n);
        }
        uint8_t *got = malloc(bytes);
        assert_non_null(got);
        assert_int_equal(n / t->block * t->bytes, bytes);
        t->encode(isa, x, got, n, w);
        if (memcmp(got, want + offset, bytes))
            fail_msg("%s, %s: row %d with importance %d differs", t->name, lm_isa_name(isa),
                     (int)in, (int)imp);
        free(got);
        n_cases++;
    }
    free(want);
    return n_cases;
}

/* Returns the number of cases, or -1 when the folder is not there. */
static int encode_all(const char *folder)
{
    struct fixtures f;
    int n = 0;
    if (!fixtures_open(&f, folder))
        return -1;
    for (size_t i = 0; lm_types[i]; i++)
        for (int isa = LM_ISA_SCALAR; lm_types[i]->encode && isa <= (int)lm_isa(); isa++)
            n += encode_type(&f, lm_types[i], (enum lm_isa)isa) * (isa == LM_ISA_SCALAR);
    fixtures_close(&f);
    return n;
}

static void test_decode(void **state)
{
    (void)state;
    assert_int_equal(decode_all("tests/data/quant"), 29);
}

static void test_encode(void **state)
{
    (void)state;
    assert_int_equal(encode_all("tests/data/quant"), 466);
}

/* All of the reference bytes, where they are. */
static void test_more(void **state)
{
    (void)state;
    const char *shared = getenv("LMPIPE_SHARED");
    char dir[400];
    snprintf(dir, sizeof dir, "%s/fixtures/quant", shared ? shared : "../shared");
    int n = encode_all(dir);
    if (n < 0)
        NOT_HERE("the reference values beside the project");
    assert_true(n >= 2000);
    assert_int_equal(decode_all(dir), 29);
}

/* ---- instruction sets agree on rows of any length --------------------------------- */

static uint32_t seed;

/* In [0, 1). */
static float uniform(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) * 0x1p-24f;
}

static void fill(int kind, float *x, float *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float bell = uniform() + uniform() + uniform() - 1.5f;
        static const float scale[4] = { 0.02f, 1e-20f, 3000.0f, 1e-40f };
        x[i] = bell * scale[kind % 4];
        if (kind >= 4 && i / 16 % 3 == 0)
            x[i] = 0;
        if (kind >= 8)
            x[i] = (float)(int)(bell * 8);
        if (kind >= 10 && i / 32 % 2)
            x[i] = bell < 0 ? -0.0f : 0.0f;
        w[i] = kind % 3 ? uniform() * uniform() * 4 : (float)(i % 5 == 0);
    }
}

static void test_isa(void **state)
{
    (void)state;
    enum { MAX = 7 * 256 };
    static float x[MAX], w[MAX];
    static uint8_t want[8 * MAX], got[8 * MAX];
    seed = 1;
    for (size_t i = 0; lm_types[i]; i++) {
        const struct lm_type *t = lm_types[i];
        for (int kind = 0; t->encode && kind < 12; kind++) {
            size_t blocks = MAX / t->block * ((size_t)kind + 1) / 12 + (kind < 2);
            size_t n = blocks * t->block, bytes = blocks * t->bytes;
            fill(kind, x, w, n);
            for (int isa = LM_ISA_AVX2; isa <= (int)lm_isa(); isa++)
                for (int weighted = t->needs_weights; weighted < 2; weighted++) {
                    t->encode(LM_ISA_SCALAR, x, want, n, weighted ? w : NULL);
                    memset(got, 0xa5, sizeof got);
                    t->encode((enum lm_isa)isa, x, got, n, weighted ? w : NULL);
                    if (memcmp(got, want, bytes))
                        fail_msg("%s, %s: kind %d, %zu weights, importance %d", t->name,
                                 lm_isa_name((enum lm_isa)isa), kind, n, weighted);
                    assert_int_equal(got[bytes], 0xa5);
                }
        }
    }
}

/* Every pattern of 16 bits, and where the first that is no number stands. */
static void test_halves(void **state)
{
    (void)state;
    static uint16_t all[65536];
    static float scalar[65536], wide[65536];
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (int k = 0; k < 2; k++) {
        const struct lm_type *t = lm_type_by_id(k ? LM_BF16 : LM_F16);
        const uint16_t ones = k ? 0x7f80 : 0x7c00;
        setenv("LMPIPE_ISA", "scalar", 1);
        t->decode(all, scalar, 65536);
        unsetenv("LMPIPE_ISA");
        t->decode(all, wide, 65536);
        assert_memory_equal(scalar, wide, sizeof scalar);
        t->encode(LM_ISA_SCALAR, scalar, all, 65536, NULL);
        uint16_t *again = (uint16_t *)(void *)wide;
        t->encode(lm_isa(), scalar, again, 65536, NULL);
        assert_memory_equal(all, again, sizeof all);
        for (uint32_t i = 0; i < 65536; i++)
            all[i] = 1;
        for (size_t n = 0; n < 300; n += 7)
            for (size_t at = 0; at <= n; at++) {
                all[at] = (uint16_t)(ones | (at & 2) << 14);
                assert_int_equal(t->invalid(all, n), at < n ? (int64_t)at : -1);
                all[at] = 1;
            }
        for (uint32_t i = 0; i < 65536; i++)
            all[i] = (uint16_t)i;
    }
}

/* ---- what is refused -------------------------------------------------------------- */

/* Offsets of f16 scales and minima in a block. */
static const struct {
    const char *name;
    int         at[2];
} halves[] = {
    { "f16", { 0, -1 } },      { "q4_0", { 0, -1 } },     { "q4_1", { 0, 2 } },
    { "q5_0", { 0, -1 } },     { "q5_1", { 0, 2 } },      { "q8_0", { 0, -1 } },
    { "q8_1", { 0, -1 } },     { "q2_K", { 80, 82 } },    { "q3_K", { 108, -1 } },
    { "q4_K", { 0, 2 } },      { "q5_K", { 0, 2 } },      { "q6_K", { 208, -1 } },
    { "iq2_xxs", { 0, -1 } },  { "iq2_xs", { 0, -1 } },   { "iq3_xxs", { 0, -1 } },
    { "iq1_s", { 0, -1 } },    { "iq4_nl", { 0, -1 } },   { "iq3_s", { 0, -1 } },
    { "iq2_s", { 0, -1 } },    { "iq4_xs", { 0, -1 } },   { "tq1_0", { 52, -1 } },
    { "tq2_0", { 64, -1 } },   { "q1_0", { 0, -1 } },     { "q2_0", { 0, -1 } },
};

static void test_invalid(void **state)
{
    (void)state;
    uint8_t b[4 * 292];
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        const struct lm_type *t = lm_type_by_name(halves[i].name);
        for (int k = 0; k < 2 && halves[i].at[k] >= 0; k++) {
            memset(b, 0, sizeof b);
            assert_int_equal(t->invalid(b, 4 * t->block), -1);
            uint8_t *p = b + 2 * t->bytes + halves[i].at[k];
            p[1] = 0x7b, p[0] = 0xff;              /* the largest finite number */
            assert_int_equal(t->invalid(b, 4 * t->block), -1);
            p[1] = 0x7c, p[0] = 0;                 /* infinity */
            assert_int_equal(t->invalid(b, 4 * t->block), 2);
            p[1] = 0xfe, p[0] = 1;                 /* NaN */
            assert_int_equal(t->invalid(b, 4 * t->block), 2);
            assert_int_equal(t->invalid(b, 2 * t->block), -1);
        }
    }
}

static void test_invalid_other(void **state)
{
    (void)state;
    const struct lm_type *mxfp4 = lm_type_by_name("mxfp4"), *iq1_m = lm_type_by_name("iq1_m");
    uint8_t b[600] = { 0 };
    b[17] = 254;
    assert_int_equal(mxfp4->invalid(b, 64), -1);
    b[17] = 255;
    assert_int_equal(mxfp4->invalid(b, 64), 1);
    memset(b, 0, sizeof b);
    b[56 + 55] = 0x70;                             /* bits 12 to 14 of d */
    b[56 + 53] = 0xb0;
    assert_int_equal(iq1_m->invalid(b, 512), -1);
    b[56 + 53] = 0xc0;                             /* and bits 10 and 11 */
    assert_int_equal(iq1_m->invalid(b, 512), 1);
    static const struct {
        const char *name;
        uint8_t     infinity[8];
    } wide[] = {
        { "f32",  { 0, 0, 0x80, 0x7f } },
        { "q8_K", { 0, 0, 0x80, 0xff } },
        { "bf16", { 0x80, 0x7f } },
        { "f64",  { 0, 0, 0, 0, 0, 0, 0xf0, 0x7f } },
    };
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const struct lm_type *t = lm_type_by_name(wide[i].name);
        memset(b, 0, sizeof b);
        assert_int_equal(t->invalid(b, 2 * t->block), -1);
        memcpy(b + t->bytes, wide[i].infinity, 8);
        assert_int_equal(t->invalid(b, 2 * t->block), 1);
    }
}

/* Half of the weights are of magnitude m, which every format can show. */
static void spread(float *x, size_t n, float m)
{
    uint32_t random = 1;
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525 + 1013904223;
        x[i] = random >> 31 ? m : -m;
    }
}

/* What a weight's magnitude is, it comes out near that, or is refused: nothing vanishes. */
static void test_range(void **state)
{
    (void)state;
    enum { N = 512 };
    float x[N], y[N], w[N];
    uint8_t b[4 * N];
    for (size_t i = 0; i < N; i++)
        w[i] = (float)(1 + i % 5);
    for (size_t k = 0; lm_types[k]; k++) {
        const struct lm_type *t = lm_types[k];
        if (!t->in_files || !t->encode || t->block == 1)
            continue;
        assert_true(t->end > 0);
        for (float m = 1000; m < 3.4e38f; m *= 1.25f)
            for (int weighted = t->needs_weights; weighted < 2; weighted++) {
                spread(x, N, m);
                if (lm_type_beyond(t, x, N) >= 0)
                    continue;
                assert_int_equal(lm_type_encode(t, x, b, 1, N, weighted ? w : NULL, NULL), LM_OK);
                if (t->invalid && t->invalid(b, N) >= 0)
                    continue;
                t->decode(b, y, N);
                double error = 0;
                for (size_t i = 0; i < N; i++)
                    error += pow((double)y[i] / m - (double)x[i] / m, 2) / N;
                if (!(error < 0.5))
                    fail_msg("%s: of %g the mean square error is %g", t->name, (double)m, error);
            }
    }
}

static void test_beyond(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        float       most;                          /* of which a block is made */
    } ends[] = { { "q4_0", 524032 }, { "q8_0", 8319008 }, { "q6_K", 268304384 }, { "nvfp4", 2688 },
                 { "mxfp4", 3.4e38f }, { "tq2_0", 65504 } };
    static const float never[] = { INFINITY, -INFINITY, NAN };
    float x[300] = { 0 };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const struct lm_type *t = lm_type_by_name(ends[i].type);
        x[255] = -ends[i].most;
        x[299] = 1e-40f;
        assert_int_equal(lm_type_beyond(t, x, 300), -1);
        x[299] = isinf(t->end) ? INFINITY : 1.04f * ends[i].most;
        assert_int_equal(lm_type_beyond(t, x, 300), 299);
        for (size_t k = 0; k < sizeof never / sizeof *never; k++) {
            x[255] = never[k];
            assert_int_equal(lm_type_beyond(t, x, 300), 255);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    float x[320] = { 0 };
    uint8_t out[1280];
    struct lm_err err = { LM_OK, "" };
    memset(out, 0xa5, sizeof out);
    assert_int_equal(lm_type_encode(lm_type_by_name("q4_K"), x, out, 1, 320, NULL, &err),
                     LM_EUSE);
    assert_string_equal(err.text, "320 columns: q4_K needs a multiple of 256");
    assert_int_equal(lm_type_encode(lm_type_by_name("i32"), x, out, 1, 32, NULL, &err),
                     LM_ENOSUP);
    assert_int_equal(out[0], 0xa5);
    assert_int_equal(lm_type_encode(lm_type_by_name("q8_0"), x, out, 2, 160, NULL, &err), LM_OK);
    assert_int_equal(out[2 * 5 * 34 - 1], 0);
    assert_int_equal(out[2 * 5 * 34], 0xa5);
}

/* ---- the compiler ----------------------------------------------------------------- */

/* Bytes of quantized files come out the same only if a * b + c is rounded twice. */
#if defined(__x86_64__)
__attribute__((target("fma"), noinline))
#else
__attribute__((noinline))
#endif
static float product_sum(float a, float b, float c)
{
    return a * b + c;
}

static void test_contraction(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("fma"))
        NOT_HERE("fused multiply-add");
#endif
    volatile float a = 1 + 0x1p-12f;               /* a * a lies half way between floats */
    volatile float c = -(1 + 0x1p-11f);
    assert_true(product_sum(a, a, c) == 0);
}

/* Subnormal numbers are kept. */
static void test_subnormal(void **state)
{
    (void)state;
    volatile float small = 0x1p-140f, half = 0.5f;
    assert_true(small * half == 0x1p-141f);
    assert_true(small * half != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_row_bytes),
        cmocka_unit_test(test_decode),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_isa),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_invalid_other),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_beyond),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_contraction),
        cmocka_unit_test(test_subnormal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
