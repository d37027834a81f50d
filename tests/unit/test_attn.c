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
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/attn.h"
#include "base/f16.h"
#include "quant/quant.h"

#define PAGES 4

struct shape {
    size_t d_k, d_v, n_tok, n_head, n_kv, window;
};

static const struct shape shapes[] = {
    {  64,  64,  1, 1,   1,   0 },
    {  64,  64,  1, 3, 200,   0 },
    {  64,  64,  7, 3,  60,   0 },          /* tokens on both sides of a page's end  */
    {  64,  64, 17, 1,  50,   0 },
    {  64,  64,  9, 4,  64,   0 },
    {  80,  48,  5, 2, 129,   0 },
    { 128, 128,  2, 8,  65,   0 },
    {   1,   3,  3, 2,  70,   0 },
    {  17,  40,  4, 5, 130,   0 },
    {  64,  64,  6, 3, 100,   1 },
    {  64,  64, 40, 2,  90,  16 },          /* windows that begin in different pages */
    {  24,  16, 30, 1,  40, 100 },
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
    uint8_t       *page[PAGES];
    float         *q, *out;
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
    for (size_t p = 0; p < PAGES; p++) {
        in->page[p] = malloc(row * LM_ATTN_PAGE);
        memset(in->page[p], 0xff, row * LM_ATTN_PAGE);        /* not a number, where unused */
    }
    for (size_t p = 0; p < s->n_kv + s->n_tok - 1; p++) {
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
        .n_kv = s->n_kv, .window = s->window, .scale = 0.7f,
    };
}

static void release(struct input *in)
{
    free(in->q);
    free(in->out);
    for (size_t p = 0; p < PAGES; p++)
        free(in->page[p]);
}

static void run(enum lm_isa isa, const struct lm_attn *a)
{
    size_t size = lm_attn_scratch(a->n_tok, a->n_head, a->d_k, a->d_v);
    void *scratch = aligned_alloc(64, (size + 63) / 64 * 64);
    lm_attn_find(isa)(a, scratch);
    free(scratch);
}

/* The formula, for one element. */
static double expected(const struct input *in, size_t t, size_t h, size_t d)
{
    const struct lm_attn *a = &in->a;
    size_t end = a->n_kv + t, first = a->window && end > a->window ? end - a->window : 0;
    const float *q = a->q + t * a->q_tok + h * a->q_head;
    double s[PAGES * LM_ATTN_PAGE], top = -INFINITY, l = 0, sum = 0;
    for (size_t p = first; p < end; p++) {
        const uint8_t *k = in->page[p / LM_ATTN_PAGE] + p % LM_ATTN_PAGE * a->k_row;
        s[p] = 0;
        for (size_t i = 0; i < a->d_k; i++)
            s[p] += (double)q[i] * get(k, a->k_type, i);
        s[p] *= (double)a->scale;
        top = fmax(top, s[p]);
    }
    for (size_t p = first; p < end; p++) {
        const uint8_t *v = in->page[p / LM_ATTN_PAGE] + p % LM_ATTN_PAGE * a->v_row + a->v_off;
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
                a.n_kv += i / s->n_head;
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
    const struct shape s = { 32, 8, 3, 2, 180, 0 };
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_formula),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(large_scores_are_harmless),
    };
    return cmocka_run_group_tests_name("attn", tests, NULL, NULL);
}
