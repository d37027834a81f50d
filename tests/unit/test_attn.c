/* SPDX-License-Identifier: MIT */
/*
 * Attention against the formula in double precision, for every instruction set of this
 * machine; and that a query's result does not depend on its company.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/attn.h"
#include "base/f16.h"
#include "quant/quant.h"
#include "tensor/hadamard.h"

#define PAGES 4

#define REACH 5             /* of biases by distance */

struct shape {
    size_t d_k, d_v, n_tok, n_head, n_kv, window;
    bool   whole;           /* all n_kv positions are seen, from position `pos` on   */
    size_t pos;
    bool   flat, bias, slopes, sinks;
};

static const struct shape shapes[] = {
    {  64,  64,  1, 1,   1,   0, .sinks = true },
    {  64,  64,  1, 3, 200,   0, .pos = 0 },
    {  64,  64,  7, 3,  60,   0, .pos = 0 },          /* tokens on both sides of a page's end  */
    {  64,  64, 17, 1,  50,   0, .pos = 0 },
    {  64,  64,  9, 4,  64,   0, .pos = 0 },
    {  80,  48,  5, 2, 129,   0, .pos = 0 },
    { 128, 128,  2, 8,  65,   0, .pos = 0 },
    {   1,   3,  3, 2,  70,   0, .pos = 0 },
    {  17,  40,  4, 5, 130,   0, .pos = 0 },
    {  64,  64,  6, 3, 100,   1, .pos = 0 },
    {  64,  64, 40, 2,  90,  16, .pos = 0 },          /* windows that begin in different pages */
    {  24,  16, 30, 1,  40, 100, .pos = 0 },
    {  32,  32, 40, 2, 100,   0, .bias = true, .sinks = true },
    {  32,  32, 20, 2,  90,   8, .sinks = true },
    {  32,  32, 20, 3, 150,   0, .slopes = true },
    {  24,  16, 30, 2, 200,  70, .whole = true, .pos = 170, .slopes = true },
    {  16,  16, 16, 2,  16,   0, .whole = true, .flat = true },
    {  24,  16, 16, 1, 150,   0, .whole = true, .pos = 60, .bias = true },
    {  24,  16, 30, 3, 200,   7, .whole = true, .pos = 110, .flat = true },
    {  24,  16, 30, 2, 200,  70, .whole = true, .pos = 170, .flat = true, .bias = true },
    {  40,   8,  1, 2,   1,   3, .whole = true, .flat = true },
};
#define N_SHAPES (sizeof shapes / sizeof *shapes)

static uint32_t seed = 1;

/* Uniform in -1 .. 1. */
static float random_float(void)
{
    seed = seed * 1664525 + 1013904223;
    return (float)(int32_t)seed * 0x1p-31f;
}

/* Inputs of one case; rows of K and V are side by side, with a gap, in each page. */
struct input {
    struct lm_attn a;
    uint8_t       *block, *page[PAGES];      /* pages of one block */
    float         *q, *out, bias[8 * (2 * REACH + 1)], sinks[8];
};

static size_t put(uint8_t *dst, uint32_t type, float x)
{
    if (type == LM_F32) {
        memcpy(dst, &x, 4);
        return 4;
    }
    uint16_t h = lm_f16_store(x);
    memcpy(dst, &h, 2);
    return 2;
}

static double get(const uint8_t *src, uint32_t type, size_t i)
{
    float x;
    uint16_t h;
    if (type == LM_F32) {
        memcpy(&x, src + 4 * i, 4);
        return x;
    }
    memcpy(&h, src + 2 * i, 2);
    return lm_f16_load(h);
}

static void fill(struct input *in, const struct shape *s, uint32_t type)
{
    size_t size = type == LM_F32 ? 4 : 2, row = (s->d_k + s->d_v + 1) * size;
    size_t nq = s->n_tok * s->n_head;
    in->q = malloc(nq * s->d_k * sizeof(float));
    in->out = malloc(nq * s->d_v * sizeof(float));
    for (size_t i = 0; i < nq * s->d_k; i++)
        in->q[i] = 4 * random_float();
    in->block = malloc(PAGES * row * LM_ATTN_PAGE);
    memset(in->block, 0xff, PAGES * row * LM_ATTN_PAGE);      /* not a number, where unused */
    for (size_t p = 0; p < PAGES; p++)
        in->page[p] = in->block + p * row * LM_ATTN_PAGE;
    for (size_t i = 0; i < sizeof in->bias / sizeof *in->bias; i++)
        in->bias[i] = 2 * random_float();
    for (size_t i = 0; i < sizeof in->sinks / sizeof *in->sinks; i++)
        in->sinks[i] = 3 * random_float();
    for (size_t p = 0; p < (s->whole ? s->n_kv : s->n_kv + s->n_tok - 1); p++) {
        uint8_t *dst = in->page[p / LM_ATTN_PAGE] + p % LM_ATTN_PAGE * row;
        for (size_t i = 0; i < s->d_k + s->d_v; i++)
            dst += put(dst, type, random_float());
    }
    in->a = (struct lm_attn){
        .q = in->q, .q_tok = s->n_head * s->d_k, .q_head = s->d_k,
        .out = in->out, .out_tok = s->n_head * s->d_v, .out_head = s->d_v,
        .n_tok = s->n_tok, .n_head = s->n_head, .d_k = s->d_k, .d_v = s->d_v,
        .pages = (const uint8_t *const *)in->page, .k_off = 0, .v_off = s->d_k * size,
        .k_row = row, .v_row = row, .k_type = type, .v_type = type,
        .n_kv = s->n_kv, .window = s->window, .scale = 0.7f, .whole = s->whole, .pos = s->pos,
    };
    if (s->flat) {
        in->a.pages = NULL;
        in->a.k = in->block;
        in->a.v = in->block + s->d_k * size;
    }
    if (s->bias) {
        in->a.bias = in->bias;
        in->a.bias_head = 2 * REACH + 1;
        in->a.reach = REACH;
    }
    if (s->slopes) {
        for (size_t i = 0; i < s->n_head; i++)
            in->bias[i] /= 16;                      /* scores of the others' size */
        in->a.bias = in->bias;
        in->a.bias_head = 1;
    }
    in->a.sinks = s->sinks ? in->sinks : NULL;
}

static void release(struct input *in)
{
    free(in->q);
    free(in->out);
    free(in->block);
}

static void run(enum lm_isa isa, const struct lm_attn *a)
{
    size_t size = lm_attn_scratch(a->n_tok, a->n_head, a->d_k, a->d_v);
    void *scratch = aligned_alloc(64, (size + 63) / 64 * 64);
    lm_attn_find(isa)(a, scratch);
    free(scratch);
}

/* Does the token at `own` see position p? */
static bool sees(const struct lm_attn *a, long own, long p)
{
    const long window = (long)a->window;
    if (a->whole)
        return p < (long)a->n_kv && (!window || labs(p - own) <= window);
    return p <= own && (!window || p > own - window);
}

/* The formula, for one element. */
static double expected(const struct input *in, size_t t, size_t h, size_t d)
{
    const struct lm_attn *a = &in->a;
    const long own = (long)(a->whole ? a->pos + t : a->n_kv + t - 1);
    const float *q = a->q + t * a->q_tok + h * a->q_head;
    double s[PAGES * LM_ATTN_PAGE], top = -INFINITY, l = 0, sum = 0;
    for (size_t p = 0; p < PAGES * LM_ATTN_PAGE; p++) {
        const uint8_t *k = in->block + p * a->k_row;
        long way = (long)p - own;
        if (!sees(a, own, (long)p))
            continue;
        s[p] = 0;
        for (size_t i = 0; i < a->d_k; i++)
            s[p] += (double)q[i] * get(k, a->k_type, i);
        s[p] *= (double)a->scale;
        if (a->bias && !a->reach)
            s[p] -= (double)in->bias[h] * (double)labs(way);
        else if (a->bias)
            s[p] += (double)in->bias[h * a->bias_head + REACH +
                                     (size_t)(way < -REACH ? -REACH : way > REACH ? REACH : way)];
        top = fmax(top, s[p]);
    }
    if (a->sinks) {
        top = fmax(top, (double)a->sinks[h]);
        l = exp((double)a->sinks[h] - top);
    }
    for (size_t p = 0; p < PAGES * LM_ATTN_PAGE; p++) {
        if (!sees(a, own, (long)p))
            continue;
        const size_t size = a->k_type == LM_F32 ? 4 : 2;
        const uint8_t *v = in->block + p * a->v_row + a->d_k * size;
        l += exp(s[p] - top);
        sum += exp(s[p] - top) * get(v, a->v_type, d);
    }
    return sum / l;
}

static void is_the_formula(void **state)
{
    (void)state;
    for (size_t c = 0; c < 2 * N_SHAPES; c++) {
        const struct shape *s = &shapes[c / 2];
        struct input in;
        fill(&in, s, c % 2 ? LM_F32 : LM_F16);
        for (int isa = 0; isa <= (int)lm_isa(); isa++) {
            run((enum lm_isa)isa, &in.a);
            double worst = 0;
            for (size_t i = 0; i < s->n_tok * s->n_head * s->d_v; i++) {
                size_t t = i / (s->n_head * s->d_v), h = i / s->d_v % s->n_head, d = i % s->d_v;
                double off = fabs(in.out[i] - expected(&in, t, h, d));
                worst = off <= worst ? worst : off;           /* also not a number */
            }
            if (!(worst < 1e-5))
                fail_msg("shape %zu, %s, %s: off by %g", c / 2, c % 2 ? "f32" : "f16",
                         lm_isa_name((enum lm_isa)isa), worst);
        }
        release(&in);
    }
}

static void company_does_not_matter(void **state)
{
    (void)state;
    for (size_t c = 0; c < N_SHAPES; c++) {
        const struct shape *s = &shapes[c];
        struct input in;
        fill(&in, s, LM_F16);
        float *alone = malloc(s->d_v * sizeof(float));
        for (int isa = 0; isa <= (int)lm_isa(); isa++) {
            run((enum lm_isa)isa, &in.a);
            for (size_t i = 0; i < s->n_tok * s->n_head; i++) {
                struct lm_attn a = in.a;
                a.q += i * s->d_k;
                a.out = alone;
                a.n_kv += s->whole ? 0 : i / s->n_head;
                a.pos += i / s->n_head;
                a.bias = a.bias ? a.bias + i % s->n_head * a.bias_head : NULL;
                a.sinks = a.sinks ? a.sinks + i % s->n_head : NULL;
                a.n_tok = a.n_head = 1;
                run((enum lm_isa)isa, &a);
                assert_memory_equal(alone, in.out + i * s->d_v, s->d_v * sizeof(float));
            }
        }
        free(alone);
        release(&in);
    }
}

/* Scores so far apart that exponentials vanish, growing and falling along the way. */
static void large_scores_are_harmless(void **state)
{
    (void)state;
    static const float scales[] = { 30, -30, 1000 };
    const struct shape s = { 32, 8, 3, 2, 180, 0, .flat = false };
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
        struct input in;
        fill(&in, &s, LM_F32);
        in.a.scale = scales[k];
        for (int isa = 0; isa <= (int)lm_isa(); isa++) {
            run((enum lm_isa)isa, &in.a);
            for (size_t i = 0; i < s.n_tok * s.n_head * s.d_v; i++) {
                size_t t = i / (s.n_head * s.d_v), h = i / s.d_v % s.n_head, d = i % s.d_v;
                /* scores up to about 1e4 (30) or 4e4 are rounded to 1e-3 or 4e-3 */
                assert_true(fabs(in.out[i] - expected(&in, t, h, d)) < 2e-2);
            }
        }
        release(&in);
    }
}

/* Other types give what their values as floats give, to the bit; the keys' and the values' may
 * differ. */
static void other_types_are_decoded(void **state)
{
    static const uint32_t types[] = { LM_BF16, LM_Q8_0, LM_Q5_0, LM_Q5_1, LM_Q4_0, LM_Q4_1,
                                      LM_IQ4_NL, LM_F16 };
    enum { N = sizeof types / sizeof *types, D = 96, POS = 2 * LM_ATTN_PAGE };
    static float values[POS][2][D], row[D];
    static uint8_t packed[POS][2][4 * D];
    (void)state;
    for (size_t c = 0; c < N; c++) {
        const struct lm_type *type[2] = { lm_type_by_id(types[c]),
                                          lm_type_by_id(types[(c + 1) % N]) };
        for (size_t p = 0; p < POS; p++)
            for (int kv = 0; kv < 2; kv++) {
                for (size_t i = 0; i < D; i++)
                    row[i] = random_float();
                type[kv]->encode(LM_ISA_SCALAR, row, packed[p][kv], D, NULL);
                type[kv]->decode(packed[p][kv], values[p][kv], D);
            }
        float q[3][2][D], out[2][3][2][D];
        for (size_t i = 0; i < 3 * 2 * D; i++)
            (&q[0][0][0])[i] = random_float();
        for (int isa = 0; isa <= (int)lm_isa(); isa++) {
            for (int k = 0; k < 2; k++) {
                const uint8_t *base = k ? &packed[0][0][0] : (const uint8_t *)values;
                const size_t size = k ? sizeof packed[0] : sizeof values[0];
                const uint8_t *pages[2] = { base, base + LM_ATTN_PAGE * size };
                struct lm_attn a = {
                    .q = &q[0][0][0], .q_tok = 2 * D, .q_head = D, .out = &out[k][0][0][0],
                    .out_tok = 2 * D, .out_head = D, .n_tok = 3, .n_head = 2, .d_k = D, .d_v = D,
                    .pages = pages, .v_off = size / 2, .k_row = size, .v_row = size,
                    .k_type = k ? type[0]->id : LM_F32, .v_type = k ? type[1]->id : LM_F32,
                    .k_decode = type[0]->decode, .v_decode = type[1]->decode,
                    .n_kv = POS - 3, .scale = 0.3f,
                };
                run((enum lm_isa)isa, &a);
            }
            assert_memory_equal(out[0], out[1], sizeof out[0]);
        }
    }
}

/* The entry of a Hadamard matrix of 64 rows, by its definition. */
static double entry(size_t i, size_t k)
{
    return (__builtin_popcount((unsigned)(i & k)) % 2 ? -1 : 1) / 8.0;
}

static void multiply_row(float *x)
{
    double y[64] = {0};
    for (size_t i = 0; i < 64; i++)
        for (size_t k = 0; k < 64; k++)
            y[i] += entry(i, k) * (double)x[k];
    for (size_t i = 0; i < 64; i++)
        x[i] = (float)y[i];
}

/* Keys and values that were multiplied by the matrix give what they gave before. */
static void transformed_rows_count_as_they_were(void **state)
{
    const struct shape s = { 128, 64, 3, 2, 130, 0, .sinks = true };
    struct input in;
    (void)state;
    fill(&in, &s, LM_F32);
    const size_t n = s.n_tok * s.n_head * s.d_v, row = 128 + 64 + 1;
    double *want = malloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++)
        want[i] = expected(&in, i / (s.n_head * s.d_v), i / s.d_v % s.n_head, i % s.d_v);
    for (size_t p = 0; p < s.n_kv + s.n_tok - 1; p++)
        for (size_t b = 0; b < 3; b++)              /* a key is two blocks, a value one */
            multiply_row((float *)(void *)in.block + p * row + 64 * b);
    in.a.k_block = in.a.v_block = 64;
    for (int isa = 0; isa <= (int)lm_isa(); isa++) {
        run((enum lm_isa)isa, &in.a);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(in.out[i] - want[i]) < 1e-5);
    }
    free(want);
    release(&in);
}

static void blocks_are_powers_of_two(void **state)
{
    const struct lm_type *q8 = lm_type_by_id(LM_Q8_0);
    float x[96];
    (void)state;
    assert_int_equal(lm_hadamard_block(q8, 64), 64);
    assert_int_equal(lm_hadamard_block(q8, 576), 64);
    assert_int_equal(lm_hadamard_block(q8, 256), 256);
    assert_int_equal(lm_hadamard_block(q8, 96), 0);
    assert_int_equal(lm_hadamard_block(lm_type_by_id(LM_F16), 64), 0);
    for (size_t i = 0; i < 96; i++)
        x[i] = (float)i;
    lm_hadamard(x, 96, 0);
    assert_true(x[95] == 95);
    lm_hadamard(x, 96, 32);
    assert_true(fabs((double)x[32] - (32 + 63) * 16 / sqrt(32)) < 1e-4);
    lm_hadamard(x, 96, 32);
    for (size_t i = 0; i < 96; i++)
        assert_true(fabs((double)x[i] - (double)i) < 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_formula),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(large_scores_are_harmless),
        cmocka_unit_test(other_types_are_decoded),
        cmocka_unit_test(transformed_rows_count_as_they_were),
        cmocka_unit_test(blocks_are_powers_of_two),
    };
    return cmocka_run_group_tests_name("attn", tests, NULL, NULL);
}
