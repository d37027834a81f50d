/* SPDX-License-Identifier: MIT */
/*
 * Matrix products of every tensor type against sums in double precision over decoded
 * weights, for every instruction set of this machine, on odd sizes; and that a token's
 * result does not depend on its company.
 *
 * Activations in 8-bit form are first checked themselves: each within half a step, (largest
 * of 32) / 127, of what was given.  Products are then compared with those of the rounded
 * ones, so that the tolerance is that of additions in float.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/mulmat.h"
#include "backend/cpu/mulmat_q8.h"
#include "base/f16.h"

#define MOST_TOKENS 17

static uint32_t seed = 1;

static uint32_t random_bits(void)
{
    seed = seed * 1664525 + 1013904223;
    return seed >> 8;
}

/* Uniform in -1 .. 1. */
static float random_float(void)
{
    return (float)random_bits() * 0x1p-23f - 1;
}

struct matrix {
    const struct lm_type *t;
    size_t                rows, cols, row_bytes, n;
    uint8_t              *src;        /* [rows] as in a file                     */
    float                *w;          /* [rows][cols] decoded                    */
    float                *x;          /* [n][cols]                               */
    float                *y;          /* [n][rows]                               */
};

/* Random bytes, but scales that are moderate numbers: blocks are tried until they decode to
 * such.  So every bit pattern of the integers is met, also those no quantizer makes. */
static void random_block(const struct lm_type *t, uint8_t *dst)
{
    float w[256];
    for (;;) {
        float top = 0;
        for (size_t i = 0; i < t->bytes; i++)
            dst[i] = (uint8_t)random_bits();
        if (t->invalid && t->invalid(dst, t->block) >= 0)
            continue;
        t->decode(dst, w, t->block);
        for (size_t i = 0; i < t->block; i++)
            top = fabsf(w[i]) <= top ? top : fabsf(w[i]);
        if (top <= 100 && (top >= 0x1p-7f || t->block == 1))
            return;
    }
}

static void fill(struct matrix *m, const struct lm_type *t, size_t rows, size_t cols)
{
    uint64_t bytes;
    assert_true(lm_type_row_bytes(t, cols, &bytes));
    *m = (struct matrix){ .t = t, .rows = rows, .cols = cols, .row_bytes = (size_t)bytes,
                          .n = MOST_TOKENS };
    m->src = malloc(rows * m->row_bytes);
    m->w = malloc(rows * cols * sizeof(float));
    m->x = malloc(m->n * cols * sizeof(float));
    m->y = malloc(m->n * rows * sizeof(float));
    for (size_t b = 0; b < rows * cols / t->block; b++)
        random_block(t, m->src + b * t->bytes);
    t->decode(m->src, m->w, rows * cols);
    for (size_t i = 0; i < m->n * cols; i++)
        m->x[i] = random_float() * (i / 32 % 3 ? 1.0f : 0.01f);
    for (size_t i = 0; i < 32 && i < cols; i++)
        m->x[i] = 0;                                  /* a block of nothing */
}

static void release(struct matrix *m)
{
    free(m->src);
    free(m->w);
    free(m->x);
    free(m->y);
}

/* What the tests of the kernels share: panels of all rows, activations of all tokens. */
static void multiply(const struct lm_cpu_mulmat *k, const struct matrix *m, size_t from, size_t n,
                     float *y)
{
    size_t panel_bytes = k->panel_bytes(m->t, m->cols), act_bytes = k->act_bytes(m->cols);
    uint8_t *act = aligned_alloc(64, n * act_bytes), *panel = NULL;
    assert_int_equal(act_bytes % 64, 0);
    if (k->pack)
        panel = aligned_alloc(64, (panel_bytes + 63) & ~(size_t)63);
    for (size_t i = 0; i < n; i++)
        k->act(m->x + (from + i) * m->cols, m->cols, act + i * act_bytes);
    for (size_t r = 0; r < m->rows; r += k->rows) {
        size_t n_rows = m->rows - r < k->rows ? m->rows - r : k->rows;
        const uint8_t *src = m->src + r * m->row_bytes;
        if (k->pack)
            k->pack(src, m->row_bytes, n_rows, m->cols, panel);
        k->mul(m->t, k->pack ? panel : src, n_rows, m->cols, act, n, y + r, m->rows);
    }
    free(panel);
    free(act);
}

/* What the kernel makes of a token's activations, as numbers; checks the 8-bit form. */
static void rounded(const struct lm_cpu_mulmat *k, const float *x, size_t cols, double *out)
{
    struct lm_q8_act *act = aligned_alloc(64, k->act_bytes(cols));
    k->act(x, cols, act);
    for (size_t c = 0; c < cols; c++)
        out[c] = (double)x[c];
    for (size_t b = 0; b < cols / 32 && k->act_bytes(cols) < cols * sizeof(float); b++) {
        double top = 0, sum[2] = {0};
        for (size_t c = 32 * b; c < 32 * b + 32; c++)
            top = fmax(top, fabs(out[c]));
        for (size_t c = 32 * b; c < 32 * b + 32; c++) {
            double q = (double)act[b].q[c % 32] * (double)act[b].d;
            sum[c % 32 / 16] += q;
            assert_true(fabs(q - out[c]) <= top * (0.5 / 127 + 1e-5));
            out[c] = q;
        }
        assert_true(fabs(sum[0] - (double)act[b].s_half[0]) <= top * 1e-5);
        assert_true(fabs(sum[1] - (double)act[b].s_half[1]) <= top * 1e-5);
        assert_true(fabs(sum[0] + sum[1] - (double)act[b].s) <= top * 1e-5);
    }
    free(act);
}

/* The largest magnitude in the block that column c of a row is in: weights with an offset
 * are rounded like it. */
static double top_of_block(const struct lm_type *t, const float *w, size_t c)
{
    double top = 0;
    for (size_t i = c / t->block * t->block; i < c / t->block * t->block + t->block; i++)
        top = fmax(top, fabs((double)w[i]));
    return top;
}

static void check(const struct lm_cpu_mulmat *k, const struct matrix *m)
{
    double *x = malloc(m->cols * sizeof(double));
    for (size_t i = 0; i < m->n; i++) {
        rounded(k, m->x + i * m->cols, m->cols, x);
        for (size_t r = 0; r < m->rows; r++) {
            const float *w = m->w + r * m->cols;
            float y = m->y[i * m->rows + r];
            double sum = 0, size = 0, top = 0;
            for (size_t c = 0; c < m->cols; c++) {
                if (c % m->t->block == 0)
                    top = top_of_block(m->t, w, c);
                sum += x[c] * (double)w[c];
                size += fabs(x[c]) * top;
            }
            if (!(fabs((double)y - sum) <= size * 0x1p-19))
                fail_msg("%s, %zu rows of %zu, %s, %s: token %zu row %zu: %.9g for %.9g, "
                         "size %g", m->t->name, m->rows, m->cols, lm_isa_name(k->isa),
                         k->pack ? "packed" : "in place", i, r, (double)y, sum, size);
        }
    }
    free(x);
}

/* Calls f for the kernels of every type, instruction set and place, on a matrix of some odd
 * size that the type can have. */
static void for_all(void (*f)(const struct lm_cpu_mulmat *k, struct matrix *m))
{
    static const size_t rows[] = { 1, 16, 37 };
    for (size_t i = 0; lm_types[i]; i++) {
        const struct lm_type *t = lm_types[i];
        for (size_t s = 0; t->decode && s < sizeof rows / sizeof *rows; s++) {
            /* one block, two, or an odd number with more columns than are unpacked at once */
            size_t blocks = s < 2 ? s + 1 : 640 / t->block | 1;
            size_t cols = t->block == 1 ? 77 + s : t->block * blocks;
            struct matrix m;
            fill(&m, t, rows[s], cols);
            for (int isa = 0; isa <= (int)lm_isa(); isa++)
                for (int in_place = 0; in_place < 2; in_place++) {
                    const struct lm_cpu_mulmat *k =
                        lm_cpu_mulmat_find(t, cols, (enum lm_isa)isa, in_place);
                    assert_non_null(k);
                    assert_true((int)k->isa <= isa);
                    assert_false(in_place && k->pack);
                    f(k, &m);
                }
            release(&m);
        }
    }
}

static void product_is_right(const struct lm_cpu_mulmat *k, struct matrix *m)
{
    for (size_t i = 0; i < m->n * m->rows; i++)
        m->y[i] = NAN;
    multiply(k, m, 0, m->n, m->y);
    check(k, m);
}

static void every_type_is_multiplied(void **state)
{
    (void)state;
    for_all(product_is_right);
}

static void same_alone(const struct lm_cpu_mulmat *k, struct matrix *m)
{
    static const size_t n_tokens[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16 };
    float *part = malloc(m->n * m->rows * sizeof(float));
    multiply(k, m, 0, m->n, m->y);
    for (size_t i = 0; i < sizeof n_tokens / sizeof *n_tokens; i++) {
        size_t n = n_tokens[i], from = m->n - n;
        multiply(k, m, from, n, part);
        if (memcmp(part, m->y + from * m->rows, n * m->rows * sizeof(float)))
            fail_msg("%s, %s: %zu tokens differ from the same among %zu", m->t->name,
                     lm_isa_name(k->isa), n, m->n);
    }
    free(part);
}

static void company_does_not_matter(void **state)
{
    (void)state;
    for_all(same_alone);
}

/* Rows of 4096 of a type that needs no odd size, results of every kernel it has. */
enum { LONG = 4096, LONG_ROWS = 16 };

static double length(const float *v)
{
    double sum = 0;
    for (size_t i = 0; i < LONG; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

static void long_rows(const struct lm_type *t, void (*f)(const struct lm_cpu_mulmat *k,
                                                         struct matrix *m, float *first))
{
    struct matrix m;
    float *first = malloc(MOST_TOKENS * LONG_ROWS * sizeof(float));
    fill(&m, t, LONG_ROWS, LONG);
    for (size_t i = 0; i < m.n * LONG; i++)         /* bell-shaped */
        m.x[i] = random_float() + random_float() + random_float();
    first[0] = NAN;
    for (int isa = 0; isa <= (int)lm_isa(); isa++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const struct lm_cpu_mulmat *k = lm_cpu_mulmat_find(t, LONG, (enum lm_isa)isa, in_place);
            multiply(k, &m, 0, m.n, m.y);
            f(k, &m, first);
        }
    free(first);
    release(&m);
}

/* |error| <= 2e-3 |w| |x| against products of the decoded weights with the activations as
 * they were given, in double precision. */
static void near_the_truth(const struct lm_cpu_mulmat *k, struct matrix *m, float *first)
{
    (void)first;
    for (size_t i = 0; i < m->n * m->rows; i++) {
        const float *w = m->w + i % m->rows * LONG, *x = m->x + i / m->rows * LONG;
        double sum = 0, most = 2e-3 * length(w) * length(x);
        for (size_t c = 0; c < LONG; c++)
            sum += (double)w[c] * (double)x[c];
        if (!(fabs((double)m->y[i] - sum) <= most))
            fail_msg("%s, %s: %.9g for %.9g, at most %g off", m->t->name, lm_isa_name(k->isa),
                     (double)m->y[i], sum, most);
    }
}

static void long_products_are_near_the_truth(void **state)
{
    (void)state;
    for (size_t i = 0; lm_types[i]; i++)
        if (lm_types[i]->decode && LONG % lm_types[i]->block == 0)
            long_rows(lm_types[i], near_the_truth);
}

/* Every kernel gives what the first, the scalar one, gave: to 1e-6 |w| |x|. */
static void as_the_first(const struct lm_cpu_mulmat *k, struct matrix *m, float *first)
{
    if (isnan(first[0]))
        memcpy(first, m->y, m->n * m->rows * sizeof *first);
    for (size_t i = 0; i < m->n * m->rows; i++) {
        const float *w = m->w + i % m->rows * LONG, *x = m->x + i / m->rows * LONG;
        double most = 1e-6 * length(w) * length(x);
        if (!(fabs((double)m->y[i] - (double)first[i]) <= most))
            fail_msg("%s, %s: %.9g, and %.9g in plain C", m->t->name, lm_isa_name(k->isa),
                     (double)m->y[i], (double)first[i]);
    }
}

static void instruction_sets_agree(void **state)
{
    (void)state;
    for (size_t i = 0; lm_types[i]; i++)
        if (lm_types[i]->decode && LONG % lm_types[i]->block == 0)
            long_rows(lm_types[i], as_the_first);
}

/* Where every product and sum is an integer that a float holds, they agree to the last bit: Q8_0
 * with a scale of 1, activations whose largest is 127 in each block. */
static void integers_agree_exactly(void **state)
{
    const struct lm_type *t = lm_type_by_id(LM_Q8_0);
    struct matrix m;
    float first[MOST_TOKENS * LONG_ROWS];
    bool have = false;
    (void)state;
    fill(&m, t, LONG_ROWS, LONG);
    for (size_t b = 0; b < LONG_ROWS * LONG / 32; b++) {
        uint16_t one = lm_f16_store(1);
        memcpy(m.src + b * t->bytes, &one, sizeof one);
    }
    for (size_t i = 0; i < m.n * LONG; i++)
        m.x[i] = i % 32 ? (float)((int)(random_bits() % 255) - 127) : 127;
    for (int isa = 0; isa <= (int)lm_isa(); isa++)
        for (int in_place = 0; in_place < 2; in_place++) {
            multiply(lm_cpu_mulmat_find(t, LONG, (enum lm_isa)isa, in_place), &m, 0, m.n, m.y);
            if (!have)
                memcpy(first, m.y, sizeof first);
            have = true;
            assert_memory_equal(first, m.y, sizeof first);
        }
    release(&m);
}

/* By hand: a row of 32 ones (Q8_0: scale 1/2, value 2) times 0, 1, ... 31 is 496; as the
 * largest is 31 an 8-bit activation is off by at most 31/254. */
static void hand_computed(void **state)
{
    (void)state;
    const struct lm_type *t = lm_type_by_id(LM_Q8_0);
    uint8_t row[34];
    float x[32], y[2];
    uint16_t half = lm_f16_store(0.5f);
    memcpy(row, &half, 2);
    memset(row + 2, 2, 32);
    for (int i = 0; i < 32; i++)
        x[i] = (float)i;
    struct matrix m = { .t = t, .rows = 1, .cols = 32, .row_bytes = 34, .n = 1,
                        .src = row, .x = x };
    for (int isa = 0; isa <= (int)lm_isa(); isa++) {
        const struct lm_cpu_mulmat *k = lm_cpu_mulmat_find(t, 32, (enum lm_isa)isa, 0);
        y[1] = 7;
        multiply(k, &m, 0, 1, y);
        assert_true(fabs((double)y[0] - 496) < 32 * 31 / 254.0);
        assert_true(y[1] == 7);                       /* nothing beyond the last row */
    }
}

static void what_cannot_be_multiplied(void **state)
{
    (void)state;
    assert_null(lm_cpu_mulmat_find(lm_type_by_id(LM_I32), 64, lm_isa(), 0));
    assert_null(lm_cpu_mulmat_find(lm_type_by_id(LM_Q4_K), 288, lm_isa(), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_multiplied),
        cmocka_unit_test(company_does_not_matter),
        cmocka_unit_test(long_products_are_near_the_truth),
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(integers_agree_exactly),
        cmocka_unit_test(hand_computed),
        cmocka_unit_test(what_cannot_be_multiplied),
    };
    return cmocka_run_group_tests_name("mulmat", tests, NULL, NULL);
}
