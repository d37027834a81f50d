/* SPDX-License-Identifier: MIT */
/* Operations of mixtures of experts, latent attention and encoders, each against sums in double
 * precision made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run_graph.h"

static uint32_t seed = 7;

static void fill(float *p, size_t n, double size)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(((double)(seed >> 8) / (1 << 23) - 1) * size);
    }
}

static void close_to(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (fabs(b) > 1 ? fabs(b) : 1)))
        fail_msg("%.9g, wanted %.9g", a, b);
}

/* --- routing ----------------------------------------------------------------------------- */

enum { EXPERTS = 12, GROUPS = 4, SIZE = EXPERTS / GROUPS, USED = 3, TOKENS = 25 };
static float router[TOKENS][EXPERTS], preferred[EXPERTS];

static double score(const struct lm_routing *r, size_t t, size_t e)
{
    double all = 0;
    for (size_t i = 0; i < EXPERTS; i++)
        all += exp((double)router[t][i]);
    switch (r->score) {
    case LM_SCORE_SIGMOID:       return 1 / (1 + exp(-(double)router[t][e]));
    case LM_SCORE_CHOSEN:        return (double)router[t][e];
    case LM_SCORE_SQRT_SOFTPLUS: return sqrt(log1p(exp((double)router[t][e])));
    default:                     return exp((double)router[t][e]) / all;
    }
}

/* Which of n is the k-th largest? */
static size_t nth(const double *x, size_t n, size_t k)
{
    for (size_t i = 0; i < n; i++) {
        size_t larger = 0;
        for (size_t o = 0; o < n; o++)
            larger += x[o] > x[i] || (x[o] == x[i] && o < i);
        if (larger == k)
            return i;
    }
    return n;
}

static void check_routing(const struct lm_routing *r, bool bias, const int32_t *ids,
                          const float *shares)
{
    for (size_t t = 0; t < TOKENS; t++) {
        double choice[EXPERTS], group[GROUPS], sum = 0;
        bool kept[GROUPS] = { false };
        for (size_t e = 0; e < EXPERTS; e++)
            choice[e] = score(r, t, e) + (bias ? (double)preferred[e] : 0);
        for (size_t i = 0; i < GROUPS; i++) {
            const double *x = choice + i * SIZE;
            group[i] = x[nth(x, SIZE, 0)] + (r->group_best == 2 ? x[nth(x, SIZE, 1)] : 0);
        }
        for (size_t k = 0; k < r->n_group_used; k++)
            kept[nth(group, GROUPS, k)] = true;
        for (size_t e = 0; e < EXPERTS && r->n_group; e++)
            choice[e] = kept[e / SIZE] ? choice[e] : -1e9;
        double own[USED];
        const bool chosen = r->score == LM_SCORE_CHOSEN;
        for (size_t k = 0; k < USED; k++) {
            assert_int_equal(ids[t * USED + k], nth(choice, EXPERTS, k));
            own[k] = score(r, t, nth(choice, EXPERTS, k));
            sum += own[k] = chosen ? exp(own[k]) : own[k];
        }
        for (size_t k = 0; k < USED; k++)
            close_to((double)shares[t * USED + k], own[k] / (r->normalize || chosen ? sum : 1) *
                     (r->scale > 0 ? (double)r->scale : 1), 1e-6);
    }
}

static void test_routing(void **state)
{
    static const struct { struct lm_routing r; bool bias; } cases[] = {
        { { .k = USED }, false },
        { { .k = USED, .scale = 2.5f }, true },
        { { .k = USED, .score = LM_SCORE_SIGMOID, .normalize = true }, true },
        { { .k = USED, .score = LM_SCORE_CHOSEN }, false },
        { { .k = USED, .score = LM_SCORE_CHOSEN, .scale = 2 }, true },
        { { .k = USED, .score = LM_SCORE_SQRT_SOFTPLUS }, false },
        { { .k = USED, .score = LM_SCORE_SQRT_SOFTPLUS, .normalize = true, .scale = 2.5f,
            .n_group = GROUPS, .n_group_used = 2, .group_best = 2 }, true },
        { { .k = USED, .n_group = GROUPS, .n_group_used = 2, .group_best = 1 }, false },
        { { .k = USED, .score = LM_SCORE_SIGMOID, .normalize = true, .scale = 1.5f,
            .n_group = GROUPS, .n_group_used = 2, .group_best = 2 }, true },
        { { .k = USED, .score = LM_SCORE_SIGMOID, .n_group = GROUPS, .n_group_used = 1,
            .group_best = 2 }, false },
    };
    (void)state;
    fill(router[0], TOKENS * EXPERTS, 3);
    fill(preferred, EXPERTS, 0.5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lm_graph g = {0};
        struct lm_tensor *logits = with_data(&g, LM_F32, 2, (size_t[]){ EXPERTS, TOKENS },
                                             router);
        struct lm_tensor *bias = with_data(&g, LM_F32, 1, (size_t[]){ EXPERTS }, preferred);
        struct lm_tensor *ids = lm_select(&g, logits, cases[i].bias ? bias : NULL, &cases[i].r);
        struct lm_tensor *t = lm_gate(&g, logits, ids, &cases[i].r);
        ids->flags |= LM_TENSOR_OUTPUT;
        run_graph(&g, t, 1 + (int)i % 3);
        check_routing(&cases[i].r, cases[i].bias, ids->data, t->data);
        lm_graph_release(&g);
    }
}

/* What transformers' router of DeepSeek-V4 chooses, with what shares: tests/golden/make-gates. */
static void test_chosen_as_deepseek_v4(void **state)
{
    enum { ALL = 8, FEW = 3, N = 4 };
    static float logits[N * ALL] = {
        30.000f, 5.053f, -0.735f, 0.602f, 0.430f, -1.112f, -10.409f, 2.498f,
        -3.473f, -30.000f, 1.590f, 2.680f, -0.215f, 0.187f, -7.068f, -8.482f,
        6.076f, -2.673f, 0.012f, -0.614f, 4.558f, -0.921f, 4.751f, 3.071f,
        -3.035f, -0.741f, -3.423f, -0.939f, -1.686f, 3.395f, -2.710f, -3.778f,
    };
    static float preference[ALL] = {
        -0.636f, 0.441f, -0.332f, 0.132f, 0.081f, 0.588f, -0.181f, 0.234f,
    };
    static const int32_t ids[N * FEW] = { 0, 1, 7, 3, 5, 2, 4, 6, 7, 5, 1, 3 };
    static const double shares[N * FEW] = {
        0.880408648, 0.361552929, 0.258038423, 0.640818908, 0.343915437, 0.515265656,
        0.526938845, 0.537851386, 0.435209769, 0.910480598, 0.307010738, 0.282508665,
    };
    const struct lm_routing r = {
        .k = FEW, .score = LM_SCORE_SQRT_SOFTPLUS, .normalize = true, .scale = 1.5f,
    };
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *x = with_data(&g, LM_F32, 2, (size_t[]){ ALL, N }, logits);
    struct lm_tensor *p = with_data(&g, LM_F32, 1, (size_t[]){ ALL }, preference);
    struct lm_tensor *chosen = lm_select(&g, x, p, &r), *t = lm_gate(&g, x, chosen, &r);
    chosen->flags |= LM_TENSOR_OUTPUT;
    run_graph(&g, t, 1);
    assert_memory_equal(chosen->data, ids, sizeof ids);
    for (size_t i = 0; i < N * FEW; i++)
        close_to((double)((float *)t->data)[i], shares[i], 1e-6);
    lm_graph_release(&g);
}

static void test_routing_refusals(void **state)
{
    static const struct lm_routing wrong[] = {
        { .k = 0 }, { .k = EXPERTS + 1 },
        { .k = 1, .n_group = 5, .n_group_used = 1, .group_best = 1 },
        { .k = 1, .n_group = GROUPS, .n_group_used = 0, .group_best = 1 },
        { .k = 1, .n_group = GROUPS, .n_group_used = GROUPS + 1, .group_best = 1 },
        { .k = 1, .n_group = GROUPS, .n_group_used = 1, .group_best = 3 },
        { .k = 1, .n_group = EXPERTS, .n_group_used = 1, .group_best = 2 },
        { .k = SIZE + 1, .n_group = GROUPS, .n_group_used = 1, .group_best = 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lm_graph g = {0};
        struct lm_tensor *logits = with_data(&g, LM_F32, 2, (size_t[]){ EXPERTS, TOKENS },
                                             router);
        assert_null(lm_select(&g, logits, NULL, &wrong[i]));
        assert_int_equal(g.err.code, LM_EUSE);
        lm_graph_release(&g);
    }
}

/* --- products and rows ------------------------------------------------------------------- */

enum { COLS = 48, ROWS = 29, HEADS = 5 };
static float stack[HEADS][ROWS][COLS], wide[TOKENS][HEADS][COLS];

/* A matrix for each head, of rows that stand apart. */
static void test_heads(void **state)
{
    (void)state;
    fill(stack[0][0], sizeof stack / sizeof(float), 1);
    fill(wide[0][0], sizeof wide / sizeof(float), 1);
    for (size_t cols = 32; cols <= COLS; cols += 16)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct lm_graph g = {0};
            struct lm_tensor *w = with_data(&g, LM_F32, 3, (size_t[]){ cols, ROWS, HEADS },
                                            stack);
            struct lm_tensor *x = with_data(&g, LM_F32, 3, (size_t[]){ COLS, HEADS, TOKENS },
                                            wide);
            x = lm_view(&g, x, 3, (size_t[]){ cols, HEADS, TOKENS },
                        (size_t[]){ 4, 4 * COLS, 4 * COLS * HEADS }, 0);
            struct lm_tensor *t = lm_mul_mat_heads(&g, w, x);
            run_graph(&g, t, threads);
            for (size_t i = 0; i < TOKENS * HEADS * ROWS; i++) {
                const size_t r = i % ROWS, h = i / ROWS % HEADS, n = i / ROWS / HEADS;
                double want = 0;
                for (size_t c = 0; c < cols; c++)
                    want += (double)(&stack[0][0][0])[(h * ROWS + r) * cols + c] *
                            (double)wide[n][h][c];
                close_to((double)((float *)t->data)[i], want, 1e-5);
            }
            lm_graph_release(&g);
        }
}

/* Rows are those of the experts that are named, the same one for several included. */
static void test_add_id(void **state)
{
    static float rows[HEADS][COLS];
    static int32_t ids[TOKENS * USED];
    struct lm_graph g = {0};
    (void)state;
    fill(rows[0], HEADS * COLS, 1);
    fill(wide[0][0], sizeof wide / sizeof(float), 1);
    for (size_t i = 0; i < TOKENS * USED; i++)
        ids[i] = (int32_t)(i * i % HEADS);
    struct lm_tensor *x = with_data(&g, LM_F32, 3, (size_t[]){ COLS, USED, TOKENS }, wide);
    struct lm_tensor *added = with_data(&g, LM_F32, 2, (size_t[]){ COLS, HEADS }, rows);
    struct lm_tensor *t = lm_add_id(&g, x, added,
                                    with_data(&g, LM_I32, 2, (size_t[]){ USED, TOKENS }, ids));
    run_graph(&g, t, 2);
    for (size_t i = 0; i < TOKENS * USED; i++)
        for (size_t c = 0; c < COLS; c++)
            assert_true(((float *)t->data)[i * COLS + c] ==
                        (&wide[0][0][0])[i * COLS + c] + rows[ids[i]][c]);
    lm_graph_release(&g);
}

static double clip(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Each of these by its definition; c is the one number that goes with all. */
enum { N_ELEMENTS = 23 };

static struct lm_tensor *element(struct lm_graph *g, int op, struct lm_tensor *a,
                                 struct lm_tensor *b, struct lm_tensor *c)
{
    switch (op) {
    case 0:  return lm_relu(g, a);
    case 1:  return lm_swiglu_clamp(g, a, b, 7, 1.702f, 1);
    case 2:  return lm_swiglu_clamp(g, a, b, 10, 1, 0);
    case 3:  return lm_reglu(g, a, b);
    case 4:  return lm_geglu(g, a, b);
    case 5:  return lm_geglu_erf(g, a, b);
    case 6:  return lm_geglu_quick(g, a, b);
    case 7:  return lm_gelu_quick(g, a);
    case 8:  return lm_sub(g, a, b);
    case 9:  return lm_div(g, a, b);
    case 10: return lm_add(g, a, c);
    case 11: return lm_sub(g, a, c);
    case 12: return lm_div(g, a, c);
    case 13: return lm_fill(g, a, 0.375f);
    case 14: return lm_clamp(g, a, -1.5f, 2);
    case 15: return lm_neg(g, a);
    case 16: return lm_sqr(g, a);
    case 17: return lm_sqrt(g, lm_sqr(g, a));
    case 18: return lm_log(g, lm_exponential(g, a));
    case 19: return lm_softcap(g, a, 1);
    case 20: return lm_exponential(g, a);
    case 21: return lm_softplus(g, a, 0);
    default: return lm_mul(g, a, c);
    }
}

static double defined(int op, double a, double b, double c)
{
    const double tanh_gelu = sqrt(2 / 3.14159265358979) * (a + 0.044715 * a * a * a);
    double p;
    switch (op) {
    case 0:  return fmax(a, 0);
    case 1:  p = clip(a, -1e9, 7); return p / (1 + exp(-1.702 * p)) * (clip(b, -7, 7) + 1);
    case 2:  p = clip(a, -1e9, 10); return p / (1 + exp(-p)) * clip(b, -10, 10);
    case 3:  return fmax(a, 0) * b;
    case 4:  return 0.5 * a * (1 + tanh(tanh_gelu)) * b;
    case 5:  return 0.5 * a * (1 + erf(a / sqrt(2))) * b;
    case 6:  return a / (1 + exp(-1.702 * a)) * b;
    case 7:  return a / (1 + exp(-1.702 * a));
    case 8:  return a - b;
    case 9:  return a / b;
    case 10: return a + c;
    case 11: return a - c;
    case 12: return a / c;
    case 13: return 0.375;
    case 14: return clip(a, -1.5, 2);
    case 15: return -a;
    case 16: return a * a;
    case 17: return fabs(a);
    case 18: return a;
    case 19: return tanh(a);
    case 20: return exp(a);
    case 21: return log1p(exp(a));
    default: return a * c;
    }
}

static void test_elements(void **state)
{
    static float a[TOKENS * COLS], b[TOKENS * COLS], c = -2.75f;
    (void)state;
    fill(a, TOKENS * COLS, 12);
    fill(b, TOKENS * COLS, 12);
    for (int op = 0; op < N_ELEMENTS; op++) {
        struct lm_graph g = {0};
        struct lm_tensor *x = with_data(&g, LM_F32, 2, (size_t[]){ COLS, TOKENS }, a);
        struct lm_tensor *y = with_data(&g, LM_F32, 2, (size_t[]){ COLS, TOKENS }, b);
        struct lm_tensor *z = with_data(&g, LM_F32, 1, (size_t[]){ 1 }, &c);
        /* What is computed may be overwritten, as a weight may not. */
        struct lm_tensor *t = element(&g, op, lm_scale(&g, x, 1), y, z);
        run_graph(&g, t, 2);
        assert_int_equal(g.planned[0], (sizeof a + 63) / 64 * 64);
        for (size_t i = 0; i < TOKENS * COLS; i++) {
            const double want = defined(op, (double)a[i], (double)b[i], (double)c);
            close_to((double)((float *)t->data)[i], want, 3e-6);
        }
        lm_graph_release(&g);
    }
}

/* Both halves of the rows of one tensor, either first. */
static void test_halves(void **state)
{
    static float a[TOKENS * 2 * COLS];
    (void)state;
    fill(a, TOKENS * 2 * COLS, 5);
    for (size_t swap = 0; swap < 2; swap++) {
        struct lm_graph g = {0};
        struct lm_tensor *x = with_data(&g, LM_F32, 2, (size_t[]){ 2 * COLS, TOKENS }, a);
        struct lm_tensor *half[2];
        for (size_t i = 0; i < 2; i++)
            half[i] = lm_view(&g, x, 2, (size_t[]){ COLS, TOKENS }, (size_t[]){ 4, 8 * COLS },
                              4 * COLS * i);
        struct lm_tensor *t = lm_geglu(&g, half[swap], half[!swap]);
        run_graph(&g, t, 2);
        for (size_t r = 0; r < TOKENS; r++)
            for (size_t i = 0; i < COLS; i++) {
                const float *row = a + r * 2 * COLS + i;
                close_to((double)((float *)t->data)[r * COLS + i],
                         defined(4, (double)row[swap * COLS], (double)row[!swap * COLS], 0), 3e-6);
            }
        lm_graph_release(&g);
    }
}

/* Elements in the order of other axes. */
static void test_cont(void **state)
{
    enum { A = 7, B = 5, C = 3 };
    static const uint32_t orders[][4] = {
        { 0, 1, 2, 3 }, { 1, 0, 2, 3 }, { 2, 1, 0, 3 }, { 1, 2, 0, 3 }, { 0, 2, 1, 3 },
        { 3, 2, 1, 0 },
    };
    float x[A * B * C];
    const size_t ne[] = { A, B, C, 1 }, step[] = { 1, A, A * B, A * B * C };
    (void)state;
    fill(x, A * B * C, 3);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct lm_graph g = {0};
        const uint32_t *p = orders[o];
        struct lm_tensor *a = with_data(&g, LM_F32, 3, ne, x);
        struct lm_tensor *t = lm_cont(&g, lm_permute(&g, lm_scale(&g, a, 2), p));
        run_graph(&g, t, 2);
        const float *got = t->data;
        for (size_t i3 = 0; i3 < ne[p[3]]; i3++)
            for (size_t i2 = 0; i2 < ne[p[2]]; i2++)
                for (size_t i1 = 0; i1 < ne[p[1]]; i1++)
                    for (size_t i0 = 0; i0 < ne[p[0]]; i0++)
                        assert_true(*got++ == 2 * x[i0 * step[p[0]] + i1 * step[p[1]] +
                                                    i2 * step[p[2]] + i3 * step[p[3]]]);
        lm_graph_release(&g);
    }
    /* Another operation does not read across rows. */
    struct lm_graph g = {0};
    const struct lm_device *d = lm_device_by_name("cpu");
    struct lm_tensor *t = lm_transpose(&g, with_data(&g, LM_F32, 3, ne, x));
    assert_false(d->ops->supports_op(d, lm_scale(&g, t, 2)));
    assert_true(d->ops->supports_op(d, lm_cont(&g, t)));
    lm_graph_release(&g);
}

static void test_soft_max(void **state)
{
    static float a[TOKENS * COLS];
    (void)state;
    fill(a, TOKENS * COLS, 12);
    a[1] = 3e38f;                       /* all of its row */
    for (size_t cols = 1; cols <= COLS; cols += 3) {
        struct lm_graph g = {0};
        struct lm_tensor *x = with_data(&g, LM_F32, 2, (size_t[]){ cols, TOKENS }, a);
        struct lm_tensor *t = lm_soft_max(&g, x);
        run_graph(&g, t, 2);
        for (size_t r = 0; r < TOKENS; r++) {
            const float *row = a + r * cols;
            double top = (double)row[0], sum = 0;
            for (size_t i = 0; i < cols; i++)
                top = fmax(top, (double)row[i]);
            for (size_t i = 0; i < cols; i++)
                sum += exp((double)row[i] - top);
            for (size_t i = 0; i < cols; i++)
                close_to((double)((float *)t->data)[r * cols + i],
                         exp((double)row[i] - top) / sum, 1e-6);
        }
        lm_graph_release(&g);
    }
}

/* A clamp leaves NaN, and wants a range with something in it. */
static void test_clamp(void **state)
{
    float a[5] = { NAN, -INFINITY, INFINITY, 0.5f, NAN };
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *x = with_data(&g, LM_F32, 1, (size_t[]){ 5 }, a);
    struct lm_tensor *t = lm_clamp(&g, x, -1, 1);
    run_graph(&g, t, 1);
    const float *got = t->data;
    assert_true(isnan(got[0]) && got[1] == -1 && got[2] == 1 && got[3] == 0.5f && isnan(got[4]));
    assert_null(lm_clamp(&g, x, 1, -1));
    assert_int_equal(g.err.code, LM_EUSE);
    lm_graph_release(&g);
}

static void test_xielu(void **state)
{
    static const float at[] = { -40, -3, -0.25f, -1e-6f, -1e-7f, 0, 1e-7f, 0.5f, 7 };
    enum { N = sizeof at / sizeof *at };
    const struct lm_xielu p = { .alpha_n = 1.25f, .alpha_p = 0.75f, .beta = 0.5f, .eps = -1e-6f };
    float x[N];
    (void)state;
    memcpy(x, at, sizeof x);
    struct lm_graph g = {0};
    struct lm_tensor *y = lm_xielu(&g, with_data(&g, LM_F32, 1, (size_t[]){ N }, x), &p);
    run_graph(&g, y, 1);
    for (int i = 0; i < N; i++) {
        const double v = (double)at[i];
        close_to((double)((float *)y->data)[i],
                 v > 0 ? 0.75 * v * v + 0.5 * v
                       : (expm1(fmin(v, -1e-6)) - v) * 1.25 + 0.5 * v, 1e-6);
    }
    lm_graph_release(&g);
}

/* Queries grow with whole lengths before them, the same for all heads. */
static void test_pos_scale(void **state)
{
    (void)state;
    enum { LEN = 5, TWO = 2, N = 6 };
    static const int32_t at[N] = { 0, 6, 7, 15, 16, 1000 };
    float x[N * TWO * LEN];
    int32_t pos[N];
    fill(x, N * TWO * LEN, 2);
    memcpy(pos, at, sizeof pos);
    for (uint32_t off = 0; off < 2; off++) {
        struct lm_graph g = {0};
        struct lm_tensor *in = with_data(&g, LM_F32, 3, (size_t[]){ LEN, TWO, N }, x);
        struct lm_tensor *p = with_data(&g, LM_I32, 1, (size_t[]){ N }, pos);
        struct lm_tensor *y = lm_pos_scale(&g, in, p, 0.25f, 8, off);
        run_graph(&g, y, 2);
        for (int t = 0; t < N; t++)
            for (int i = t * TWO * LEN; i < (t + 1) * TWO * LEN; i++)
                close_to((double)((float *)y->data)[i], (double)x[i] *
                         (1 + 0.25 * log(1 + floor((at[t] + (double)off) / 8))), 1e-6);
        lm_graph_release(&g);
    }
    struct lm_graph g = {0};
    struct lm_tensor *in = with_data(&g, LM_F32, 3, (size_t[]){ LEN, TWO, N }, x);
    assert_null(lm_pos_scale(&g, in, with_data(&g, LM_I32, 1, (size_t[]){ N - 1 }, pos), 1, 8, 0));
    lm_graph_release(&g);
}

/* What is above the mean of a row, and rows as long as others. */
static void test_rows(void **state)
{
    enum { LEN = 37, MANY = 4 };
    float x[MANY * LEN], y[MANY * LEN];
    (void)state;
    fill(x, MANY * LEN, 2);
    fill(y, MANY * LEN, 0.5);
    for (size_t i = 0; i < LEN; i++)
        y[i] *= 1e-3f;                  /* a row that is hardly there */
    for (int op = 0; op < 2; op++) {
        struct lm_graph g = {0};
        struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ LEN, MANY }, x);
        struct lm_tensor *b = with_data(&g, LM_F32, 2, (size_t[]){ LEN, MANY }, y);
        struct lm_tensor *t = op ? lm_above(&g, a, 0.75f) : lm_as_long(&g, b, a);
        run_graph(&g, t, 2);
        for (size_t r = 0; r < MANY; r++) {
            double sum = 0, squares = 0, other = 0;
            for (size_t i = r * LEN; i < (r + 1) * LEN; i++) {
                sum += (double)x[i];
                squares += (double)x[i] * (double)x[i];
                other += (double)y[i] * (double)y[i];
            }
            const double mean = sum / LEN, deviation = sqrt(squares / LEN - mean * mean);
            const double times = sqrt(squares / LEN / fmax(other / LEN, 1e-5));
            for (size_t i = r * LEN; i < (r + 1) * LEN; i++)
                close_to((double)((float *)t->data)[i],
                         op ? fmax((double)x[i] - mean - 0.75 * deviation, 0)
                            : (double)y[i] * times, 2e-6);
        }
        lm_graph_release(&g);
    }
}

/* --- attention --------------------------------------------------------------------------- */

enum { Q_HEADS = 4, KV_HEADS = 2, DK = 16, DV = 8, BATCH = 170, REACH = 12 };
static float q[BATCH][Q_HEADS][DK], k[BATCH][KV_HEADS][DK], v[BATCH][KV_HEADS][DV];
static float sinks[Q_HEADS], bias[Q_HEADS][2 * REACH + 1];
static int32_t runs[BATCH][2];

static double exact(size_t t, size_t h, size_t d, long window, bool more)
{
    double sum = more ? exp((double)sinks[h]) : 0, out = 0;
    const size_t g = h / (Q_HEADS / KV_HEADS);
    for (long p = runs[t][0]; p < runs[t][1]; p++) {
        const long way = p - (long)t, at = way < -REACH ? -REACH : way > REACH ? REACH : way;
        double s = 0;
        if (window && labs(way) > window)
            continue;
        for (size_t c = 0; c < DK; c++)
            s += (double)q[t][h][c] * (double)k[p][g][c];
        s = exp(s * 0.25 + (more ? (double)bias[h][at + REACH] : 0));
        sum += s;
        out += s * (double)v[p][g][d];
    }
    return out / sum;
}

static void test_whole(void **state)
{
    static const int32_t ends[] = { 1, 20, 110, 112, BATCH };
    (void)state;
    fill(q[0][0], sizeof q / sizeof(float), 1);
    fill(k[0][0], sizeof k / sizeof(float), 1);
    fill(v[0][0], sizeof v / sizeof(float), 1);
    fill(sinks, Q_HEADS, 2);
    fill(bias[0], sizeof bias / sizeof(float), 2);
    for (int32_t i = 0, n = 0, from = 0; i < BATCH; i++) {
        if (i == ends[n])
            from = ends[n++];
        runs[i][0] = from;
        runs[i][1] = ends[n];
    }
    for (int way = 0; way < 4; way++) {
        struct lm_graph g = {0};
        const uint32_t window = way & 1 ? 9 : 0;
        struct lm_tensor *t = lm_attn_whole(
            &g, with_data(&g, LM_F32, 3, (size_t[]){ DK, Q_HEADS, BATCH }, q),
            with_data(&g, LM_F32, 3, (size_t[]){ DK, KV_HEADS, BATCH }, k),
            with_data(&g, LM_F32, 3, (size_t[]){ DV, KV_HEADS, BATCH }, v),
            with_data(&g, LM_I32, 2, (size_t[]){ 2, BATCH }, runs), 0.25f, window);
        if (way & 2)
            lm_attn_adjust(t, with_data(&g, LM_F32, 1, (size_t[]){ Q_HEADS }, sinks),
                           with_data(&g, LM_F32, 2, (size_t[]){ 2 * REACH + 1, Q_HEADS }, bias));
        run_graph(&g, t, 1 + way % 3);
        for (size_t i = 0; i < BATCH * Q_HEADS * DV; i++)
            close_to((double)((float *)t->data)[i],
                     exact(i / DV / Q_HEADS, i / DV % Q_HEADS, i % DV, (long)window, way & 2),
                     1e-5);
        lm_graph_release(&g);
    }
}

/*
 * Buckets of distances -20 .. 20 for 32 of them and distances up to 128, computed in Python by
 * the formula of the paper's authors: bucket d up to 7 (15 on one side alone), then
 * 8 + floor(ln(d / 8) / ln(128 / 8) * 8), at most 15.
 */
static const int both_sides[41] = {
    10, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    17, 18, 19, 20, 21, 22, 23, 24, 24, 24, 24, 25, 25, 25, 25, 26, 26, 26, 26, 26,
};
static const int one_side[41] = {
    17, 17, 16, 16, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
};

static void test_distance_bias(void **state)
{
    static float w[32][3];
    (void)state;
    for (size_t i = 0; i < 32; i++)
        for (size_t h = 0; h < 3; h++)
            w[i][h] = (float)(100 * h + i);
    for (int both = 0; both < 2; both++) {
        struct lm_graph g = {0};
        struct lm_tensor *t = lm_distance_bias(
            &g, with_data(&g, LM_F32, 2, (size_t[]){ 3, 32 }, w), 128, both);
        run_graph(&g, t, 1);
        assert_int_equal(t->ne[0], 257);
        for (size_t h = 0; h < 3; h++) {
            const float *x = (const float *)t->data + h * 257 + 128;
            for (int d = -20; d <= 20; d++)
                assert_int_equal((int)x[d], 100 * (int)h + (both ? both_sides : one_side)[d + 20]);
            assert_int_equal((int)x[-128], 100 * (int)h + (both ? 15 : 31));
            assert_int_equal((int)x[128], 100 * (int)h + (both ? 31 : 0));
        }
        lm_graph_release(&g);
    }
}

static int teardown(void **state)
{
    (void)state;
    free(graph_memory);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routing),
        cmocka_unit_test(test_chosen_as_deepseek_v4),
        cmocka_unit_test(test_routing_refusals),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_add_id),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_cont),
        cmocka_unit_test(test_soft_max),
        cmocka_unit_test(test_clamp),
        cmocka_unit_test(test_pos_scale),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_xielu), cmocka_unit_test(test_distance_bias),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
