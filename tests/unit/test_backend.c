/* SPDX-License-Identifier: MIT */
/* The backend interface, and each of the CPU's operations against sums in double
 * precision, on every instruction set and any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/vec.h"
#include "base/f16.h"
#include "base/thread.h"
#include "run_graph.h"

static uint32_t seed = 1;

static float draw(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / (float)(1 << 23) - 1;
}

static void random_floats(float *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = 4 * draw();
}

static void close_to(double a, double b, double tolerance)
{
    double size = fabs(b) > 1 ? fabs(b) : 1;
    if (a != b && !(fabs(a - b) <= tolerance * size))
        fail_msg("%.9g, wanted %.9g", a, b);
}

static void test_registry(void **state)
{
    size_t n = 0;
    (void)state;
    while (lm_registries[n]) {
        assert_int_equal(lm_registries[n]->version, LM_BACKEND_VERSION);
        n++;
    }
    assert_string_equal(lm_registries[n - 1]->name, "cpu");
    const struct lm_device *d = lm_device_by_name("cpu");
    assert_non_null(d);
    assert_int_equal(d->ops->kind, LM_DEVICE_CPU);
    assert_null(lm_device_by_name("abacus"));
    char text[200];
    d->ops->describe(d, text, sizeof text);
    assert_non_null(strstr(text, lm_isa_name(lm_isa())));
    assert_true(d->ops->supports_buft(d, d->ops->buft(d, LM_USE_MATRIX)));
}

/* Two tensors in one buffer of each type; what does not fit is refused. */
static void test_buffers(void **state)
{
    const struct lm_device *d = lm_device_by_name("cpu");
    struct lm_graph g = {0};
    struct lm_err err;
    (void)state;
    for (int use = LM_USE_MATRIX; use <= LM_USE_COMPUTE; use++) {
        const struct lm_buft *type = d->ops->buft(d, (enum lm_buffer_use)use);
        struct lm_tensor *t[2];
        size_t size = 0, used = 0;
        for (int i = 0; i < 2; i++) {
            t[i] = lm_new_tensor(&g, lm_type_by_id(LM_Q4_0), 2, (size_t[]){ 64, 19 });
            assert_true(lm_buft_add(type, t[i], &size));
        }
        struct lm_buffer *b = type->ops->alloc(type, size, &err);
        assert_non_null(b);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(lm_buffer_place(b, t[i], &used, &err), LM_OK);
            assert_int_equal((uintptr_t)t[i]->data % type->ops->align, 0);
            assert_ptr_equal(t[i]->buffer, b);
        }
        assert_int_equal(used, size);
        assert_int_equal(lm_buffer_place(b, t[0], &used, &err), LM_ENOMEM);
        b->ops->free(b);
    }
    struct lm_tensor huge = { .type = lm_type_by_id(LM_F32) };
    huge.ne[0] = SIZE_MAX / 16;
    huge.ne[1] = huge.ne[2] = huge.ne[3] = 1;
    huge.nb[0] = 4;
    size_t used = SIZE_MAX / 2 - 64;
    assert_false(lm_buft_add(d->ops->buft(d, LM_USE_COMPUTE), &huge, &used));
    lm_graph_release(&g);
}

enum { COLS = 77, N = 211 };
static float fa[N][COLS], fb[N][COLS], fw[COLS];

static void check_binary(int op, const float *got, int threads)
{
    for (size_t r = 0; r < N; r++)
        for (size_t i = 0; i < COLS; i++) {
            double a = (double)fa[r][i], b = (double)fb[r][i], s = a / (1 + exp(-a));
            double want = op == 0 ? a + b : op == 1 ? a * b : op == 2 ? s * b : op == 3 ? s
                        : op == 4 ? a * 0.25 : op == 5 ? a + (double)fw[i] : a * (double)fw[i];
            close_to((double)got[r * COLS + i], want, 1e-6);
        }
    (void)threads;
}

static void test_elements(void **state)
{
    (void)state;
    random_floats(fa[0], N * COLS);
    random_floats(fb[0], N * COLS);
    random_floats(fw, COLS);
    for (int threads = 1; threads <= 3; threads += 2)
        for (int op = 0; op <= 6; op++) {
            struct lm_graph g = {0};
            struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ COLS, N }, fa);
            struct lm_tensor *b = with_data(&g, LM_F32, 2, (size_t[]){ COLS, N }, fb), *t;
            struct lm_tensor *w = with_data(&g, LM_F32, 1, (size_t[]){ COLS }, fw);
            switch (op) {
            case 0: t = lm_add(&g, a, b); break;
            case 1: t = lm_mul(&g, a, b); break;
            case 2: t = lm_swiglu(&g, a, b); break;
            case 3: t = lm_silu(&g, a); break;
            case 4: t = lm_scale(&g, a, 0.25f); break;
            case 5: t = lm_add(&g, a, w); break;
            default: t = lm_mul(&g, a, w);
            }
            run_graph(&g, t, threads);
            check_binary(op, t->data, threads);
            lm_graph_release(&g);
        }
}

/* The same through chains that the planner runs in place. */
static void test_in_place(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        struct lm_graph g = {0};
        struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ COLS, N }, fa);
        struct lm_tensor *w = with_data(&g, LM_F32, 1, (size_t[]){ COLS }, fw);
        struct lm_tensor *x = lm_scale(&g, a, 2), *y = lm_silu(&g, lm_add(&g, x, w));
        struct lm_tensor *t = lm_rms_norm(&g, lm_swiglu(&g, y, x), w, 1e-5f);
        run_graph(&g, t, threads);
        assert_int_equal(g.planned[0], 2 * ((sizeof fa + 63) / 64 * 64));
        const float *got = t->data;
        for (size_t r = 0; r < N; r++) {
            double v[COLS], sum = 0;
            for (size_t i = 0; i < COLS; i++) {
                double p = 2 * (double)fa[r][i], q = p + (double)fw[i];
                q = q / (1 + exp(-q));
                v[i] = q / (1 + exp(-q)) * p;
                sum += v[i] * v[i];
            }
            for (size_t i = 0; i < COLS; i++)
                close_to((double)got[r * COLS + i],
                         v[i] * (double)fw[i] / sqrt(sum / COLS + 1e-5), 2e-6);
        }
        lm_graph_release(&g);
    }
}

/* A graph so small that one thread does all of it is still evaluated once. */
static void test_small(void **state)
{
    static float x[4], y[4] = { 1, 2, 3, 4 };
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct lm_graph g = {0};
        struct lm_tensor *a = with_data(&g, LM_F32, 1, (size_t[]){ 4 }, x);
        struct lm_tensor *t = lm_add(&g, a, with_data(&g, LM_F32, 1, (size_t[]){ 4 }, y));
        memset(x, 0, sizeof x);
        t->data = x;                     /* a sum that grows with each evaluation */
        run_graph(&g, t, 3);              /* two of them */
        for (size_t k = 0; k < 4; k++)
            assert_true(x[k] == 2 * y[k]);
        lm_graph_release(&g);
    }
}

/* Instruction sets agree with the scalar table; tails of every length. */
static void test_vectors(void **state)
{
    float a[100], b[100], c[100], d[100], e[100];
    uint16_t h[100], k[100];
    const struct lm_vec *ref = lm_vec_find(LM_ISA_SCALAR);
    (void)state;
    for (int isa = LM_ISA_SCALAR; isa <= (int)lm_isa(); isa++)
        for (size_t n = 1; n < 100; n++) {
            const struct lm_vec *v = lm_vec_find((enum lm_isa)isa);
            random_floats(a, 100);
            random_floats(b, 100);
            random_floats(c, 100);
            for (size_t i = 0; i < 100; i++)
                d[i] = e[i] = 99;
            void (*const two[][2])(float *, const float *, const float *, size_t) = {
                { ref->add, v->add }, { ref->sub, v->sub }, { ref->mul, v->mul },
                { ref->div, v->div }, { ref->swiglu, v->swiglu }, { ref->reglu, v->reglu },
                { ref->geglu, v->geglu }, { ref->geglu_erf, v->geglu_erf },
            };
            void (*const one[][2])(float *, const float *, size_t) = {
                { ref->silu, v->silu }, { ref->gelu, v->gelu }, { ref->gelu_erf, v->gelu_erf },
                { ref->relu2, v->relu2 }, { ref->gelu_quick, v->gelu_quick },
                { ref->soft_max, v->soft_max },
            };
            for (size_t f = 0; f < sizeof one / sizeof *one; f++) {
                one[f][0](d, a, n);
                one[f][1](e, a, n);
                for (size_t i = 0; i < 100; i++)
                    close_to((double)e[i], (double)d[i], 1e-6);
            }
            ref->softcap(d, a, 3, n);
            v->softcap(e, a, 3, n);
            for (size_t i = 0; i < 100; i++)
                close_to((double)e[i], (double)d[i], 3e-6);
            for (int with = 0; with < 4; with++) {
                ref->layer_norm(d, a, with & 1 ? b : NULL, with & 2 ? c : NULL, n, 1e-6f);
                v->layer_norm(e, a, with & 1 ? b : NULL, with & 2 ? c : NULL, n, 1e-6f);
                for (size_t i = 0; i < 100; i++)
                    close_to((double)e[i], (double)d[i], 2e-6);
            }
            ref->rope_halves(d, a, b, c, n & ~(size_t)1);
            v->rope_halves(e, a, b, c, n & ~(size_t)1);
            for (size_t i = 0; i < 100; i++)
                close_to((double)e[i], (double)d[i], 5e-7);
            ref->clamp(d, a, -1, 2, n);
            v->clamp(e, a, -1, 2, n);
            assert_memory_equal(d, e, n * sizeof *d);
            ref->swiglu_clamp(d, a, b, n, 2, 1.702f, 1);
            v->swiglu_clamp(e, a, b, n, 2, 1.702f, 1);
            for (size_t i = 0; i < n; i++)
                close_to((double)e[i], (double)d[i], 1e-6);
            for (size_t f = 0; f < sizeof two / sizeof *two; f++) {
                two[f][0](d, a, b, n);
                two[f][1](e, a, b, n);
                for (size_t i = 0; i < 100; i++)
                    close_to((double)e[i], (double)d[i], 5e-7);
            }
            ref->rms_norm(d, a, b, n, 1e-6f);
            v->rms_norm(e, a, b, n, 1e-6f);
            for (size_t i = 0; i < 100; i++)
                close_to((double)e[i], (double)d[i], 5e-7);
            ref->rope(d, a, b, c, n & ~(size_t)1);
            v->rope(e, a, b, c, n & ~(size_t)1);
            for (size_t i = 0; i < 100; i++)
                close_to((double)e[i], (double)d[i], 5e-7);
            memset(h, 7, sizeof h);
            memset(k, 7, sizeof k);
            ref->to_f16(h, a, n);
            v->to_f16(k, a, n);
            assert_memory_equal(h, k, sizeof h);
        }
}

/* Functions of one number, by their definitions. */
static double unary(int op, double a)
{
    switch (op) {
    case 0: return 0.5 * a * (1 + tanh(sqrt(2 / 3.14159265358979) * (a + 0.044715 * a * a * a)));
    case 1: return 0.5 * a * (1 + erf(a / sqrt(2)));
    case 2: return a > 0 ? a * a : 0;
    case 3: return 1 / (1 + exp(-a));
    default: return 3 * tanh(a / 3);
    }
}

static void test_unary(void **state)
{
    (void)state;
    random_floats(fa[0], N * COLS);
    fa[0][0] = -30;
    fa[0][1] = 30;
    for (int op = 0; op < 5; op++) {
        struct lm_graph g = {0};
        struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ COLS, N }, fa);
        struct lm_tensor *t = op == 0 ? lm_gelu(&g, a) : op == 1 ? lm_gelu_erf(&g, a)
                            : op == 2 ? lm_relu2(&g, a) : op == 3 ? lm_sigmoid(&g, a)
                            : lm_softcap(&g, a, 3);
        run_graph(&g, t, 2);
        for (size_t r = 0; r < N; r++)
            for (size_t i = 0; i < COLS; i++)
                close_to((double)((float *)t->data)[r * COLS + i], unary(op, (double)fa[r][i]),
                         2e-6);
        lm_graph_release(&g);
    }
}

static void test_layer_norm(void **state)
{
    (void)state;
    random_floats(fa[0], N * COLS);
    random_floats(fb[0], COLS);
    random_floats(fw, COLS);
    for (int with = 0; with < 4; with++) {
        struct lm_graph g = {0};
        struct lm_tensor *w = with_data(&g, LM_F32, 1, (size_t[]){ COLS }, fw);
        struct lm_tensor *b = with_data(&g, LM_F32, 1, (size_t[]){ COLS }, fb[0]);
        struct lm_tensor *t = lm_layer_norm(
            &g, with_data(&g, LM_F32, 2, (size_t[]){ COLS, N }, fa), with & 1 ? w : NULL,
            with & 2 ? b : NULL, 1e-3f);
        run_graph(&g, t, 2);
        for (size_t r = 0; r < N; r++) {
            double mean = 0, var = 0;
            for (size_t i = 0; i < COLS; i++)
                mean += (double)fa[r][i] / COLS;
            for (size_t i = 0; i < COLS; i++)
                var += ((double)fa[r][i] - mean) * ((double)fa[r][i] - mean) / COLS;
            for (size_t i = 0; i < COLS; i++) {
                double y = ((double)fa[r][i] - mean) / sqrt(var + 1e-3);
                y = y * (with & 1 ? (double)fw[i] : 1) + (with & 2 ? (double)fb[0][i] : 0);
                close_to((double)((float *)t->data)[r * COLS + i], y, 3e-6);
            }
        }
        lm_graph_release(&g);
    }
}

/* Rows behind rows; the second source has a row a head, or one for all heads. */
static void test_concat(void **state)
{
    enum { A = 5, B = 3, HEADS_C = 4, TOK = 6 };
    static float a[TOK][HEADS_C][A], b[TOK][HEADS_C][B];
    (void)state;
    random_floats(a[0][0], sizeof a / sizeof(float));
    random_floats(b[0][0], sizeof b / sizeof(float));
    for (size_t n = 1; n <= HEADS_C; n += HEADS_C - 1) {
        struct lm_graph g = {0};
        struct lm_tensor *t = lm_concat(
            &g, with_data(&g, LM_F32, 3, (size_t[]){ A, HEADS_C, TOK }, a),
            with_data(&g, LM_F32, 3, (size_t[]){ B, n, TOK }, b));
        run_graph(&g, t, 2);
        for (size_t k = 0; k < TOK; k++)
            for (size_t h = 0; h < HEADS_C; h++) {
                const float *got = (float *)t->data + (k * HEADS_C + h) * (A + B);
                assert_memory_equal(got, a[k][h], sizeof a[k][h]);
                assert_memory_equal(got + A, b[0][0] + (k * n + (n > 1 ? h : 0)) * B,
                                    sizeof b[k][h]);
            }
        lm_graph_release(&g);
    }
}

/* A layer of experts: which, how much of each, their products, the sum. */
enum { EXPERTS = 7, USED = 3, WIDE = 64, HIGH = 37, EXPERT_TOKENS = 19 };
static float router[EXPERT_TOKENS][EXPERTS], matrices[EXPERTS][HIGH][WIDE];
static float inputs[EXPERT_TOKENS][USED][WIDE];

static void check_experts(const float *got, bool each, bool normalize)
{
    for (size_t t = 0; t < EXPERT_TOKENS; t++) {
        double share[USED], all = 0, sum = 0, want[HIGH] = {0};
        size_t ids[USED];
        for (size_t e = 0; e < EXPERTS; e++)
            all += exp((double)router[t][e]);
        for (size_t e = 0; e < EXPERTS; e++) {          /* by rank */
            size_t rank = 0;
            for (size_t o = 0; o < EXPERTS; o++)
                rank += router[t][o] > router[t][e] || (router[t][o] == router[t][e] && o < e);
            if (rank < USED)
                ids[rank] = e;
        }
        for (size_t k = 0; k < USED; k++)
            sum += share[k] = exp((double)router[t][ids[k]]);
        for (size_t k = 0; k < USED; k++)
            for (size_t r = 0; r < HIGH; r++)
                for (size_t i = 0; i < WIDE; i++)
                    want[r] += share[k] / (normalize ? sum : all) *
                               (double)matrices[ids[k]][r][i] *
                               (double)inputs[t][each ? k : 0][i];
        for (size_t r = 0; r < HIGH; r++)
            close_to((double)got[t * HIGH + r], want[r], 2e-5);
    }
}

static void test_experts(void **state)
{
    (void)state;
    random_floats(router[0], EXPERT_TOKENS * EXPERTS);
    random_floats(matrices[0][0], sizeof matrices / sizeof(float));
    random_floats(inputs[0][0], sizeof inputs / sizeof(float));
    for (size_t e = 0; e < EXPERTS; e++)
        router[2][e] = 1;                               /* the first of equal ones */
    for (int way = 0; way < 4; way++) {
        struct lm_graph g = {0};
        bool each = way & 1, normalize = way & 2;
        struct lm_tensor *logits = with_data(&g, LM_F32, 2, (size_t[]){ EXPERTS, EXPERT_TOKENS },
                                             router);
        struct lm_tensor *w = with_data(&g, LM_F32, 3, (size_t[]){ WIDE, HIGH, EXPERTS },
                                        matrices);
        struct lm_tensor *x = with_data(&g, LM_F32, 3, (size_t[]){ WIDE, USED, EXPERT_TOKENS },
                                        inputs);
        if (!each)                                      /* the first row of each token */
            x = lm_view(&g, x, 3, (size_t[]){ WIDE, 1, EXPERT_TOKENS },
                        (size_t[]){ 4, 4 * WIDE, 4 * WIDE * USED }, 0);
        const struct lm_routing route = { .k = USED, .normalize = normalize };
        struct lm_tensor *ids = lm_select(&g, logits, NULL, &route);
        struct lm_tensor *t = lm_weighted_sum(&g, lm_mul_mat_id(&g, w, x, ids),
                                              lm_gate(&g, logits, ids, &route));
        run_graph(&g, t, 1 + way);
        check_experts(t->data, each, normalize);
        lm_graph_release(&g);
    }
}

/* A convolution to both sides, of two sequences: worked out by hand. */
static void test_conv_whole(void **state)
{
    static float x[5][2] = { { 1, 1 }, { 2, 10 }, { 3, 100 }, { 4, 1000 }, { 5, 10000 } };
    static float w[2][3] = { { 1, 10, 100 }, { 1, 2, 3 } }, bias[2] = { 0, 0.5f };
    static int32_t runs[5][2] = { { 0, 3 }, { 0, 3 }, { 0, 3 }, { 3, 5 }, { 3, 5 } };
    static const float want[5][2] = {
        { 210, 32.5f }, { 321, 321.5f }, { 32, 210.5f }, { 540, 32000.5f }, { 54, 21000.5f }
    };
    (void)state;
    for (int threads = 1; threads < 3; threads++) {
        struct lm_graph g = {0};
        struct lm_tensor *t = lm_conv_whole(
            &g, with_data(&g, LM_F32, 2, (size_t[]){ 2, 5 }, x),
            with_data(&g, LM_F32, 2, (size_t[]){ 3, 2 }, w),
            with_data(&g, LM_F32, 1, (size_t[]){ 2 }, bias),
            with_data(&g, LM_I32, 2, (size_t[]){ 2, 5 }, runs));
        run_graph(&g, t, threads);
        for (size_t i = 0; i < 10; i++)
            close_to((double)((float *)t->data)[i], (double)want[i / 2][i % 2], 1e-3);
        lm_graph_release(&g);
    }
}

/* Shares among those that are near: worked out by hand. */
static void test_near(void **state)
{
    static const float logits[3][4] = {
        { 4, 3.95f, 1, -5 }, { -1, -1.01f, -1.5f, -2 }, { 0.5f, 2, -2, 1.99f }
    };
    static const double want[3][2] = {
        { 0.51249740, 1 },              /* 1 / (1 + exp(-0.05)) */
        { 0.50249998, 1 },              /* 1 / (1 + exp(-0.01)) */
        { 0.50249998, 1 },
    };
    struct lm_graph g = {0};
    const struct lm_routing route = { .k = 2, .near = 0.02f };
    (void)state;
    struct lm_tensor *x = with_data(&g, LM_F32, 2, (size_t[]){ 4, 3 }, (void *)(uintptr_t)logits);
    struct lm_tensor *t = lm_gate(&g, x, lm_select(&g, x, NULL, &route), &route);
    run_graph(&g, t, 1);
    for (size_t i = 0; i < 6; i++)
        close_to((double)((float *)t->data)[i], want[i / 2][i % 2], 1e-6);
    lm_graph_release(&g);
}

/* Far from zero silu is 0 or a itself, and what is no number stays none. */
static void test_extremes(void **state)
{
    static const float in[] = { -1e30f, -200, -104, -90, 0, 90, 104, 200, 1e30f, INFINITY, NAN };
    enum { LEN = sizeof in / sizeof *in };
    (void)state;
    for (int isa = LM_ISA_SCALAR; isa <= (int)lm_isa(); isa++) {
        float out[LEN];
        lm_vec_find((enum lm_isa)isa)->silu(out, in, LEN);
        for (size_t i = 0; i < LEN - 1; i++)
            close_to((double)out[i], in[i] > 0 ? (double)in[i] : 0, 1e-6);
        assert_true(isnan(out[LEN - 1]));
    }
}

static void test_get_rows(void **state)
{
    static uint16_t half[5][64];
    static const int32_t ids[] = { 4, 0, 4, 2 };
    struct lm_graph g = {0};
    (void)state;
    for (size_t i = 0; i < 5 * 64; i++)
        half[i / 64][i % 64] = lm_f16_store((float)i / 8);
    struct lm_tensor *t = lm_get_rows(&g, with_data(&g, LM_F16, 2, (size_t[]){ 64, 5 }, half),
                                      with_data(&g, LM_I32, 1, (size_t[]){ 4 }, (void *)ids));
    run_graph(&g, t, 2);
    for (size_t r = 0; r < 4; r++)
        for (size_t i = 0; i < 64; i++)
            assert_true(((float *)t->data)[r * 64 + i] == (float)(ids[r] * 64 + (int)i) / 8);
    lm_graph_release(&g);
}

/* Three matrices times the same activations, one of another form between them. */
static void test_products(void **state)
{
    enum { ROWS = 50, TOKENS = 37, LEN = 96 };
    static float w[3][ROWS][LEN], x[TOKENS][LEN], first[ROWS + ROWS + ROWS][TOKENS];
    static uint16_t half[ROWS][LEN];
    (void)state;
    random_floats(w[0][0], 3 * ROWS * LEN);
    random_floats(x[0], TOKENS * LEN);
    for (size_t i = 0; i < ROWS * LEN; i++) {
        half[i / LEN][i % LEN] = lm_f16_store(w[1][i / LEN][i % LEN]);
        w[1][i / LEN][i % LEN] = lm_f16_load(half[i / LEN][i % LEN]);
    }
    for (int threads = 1; threads <= 4; threads++) {
        struct lm_graph g = {0};
        struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ LEN, TOKENS }, x), *y[3];
        for (int i = 0; i < 3; i++) {
            struct lm_tensor *m = with_data(&g, i == 1 ? LM_F16 : LM_F32, 2,
                                            (size_t[]){ LEN, ROWS },
                                            i == 1 ? (void *)half : (void *)w[i]);
            y[i] = lm_mul_mat(&g, m, a);
            y[i]->flags |= LM_TENSOR_OUTPUT;
            assert_int_equal(lm_graph_expand(&g, y[i]), LM_OK);
        }
        run_graph(&g, y[2], threads);
        for (size_t i = 0; i < 3; i++)
            for (size_t r = 0; r < ROWS; r++)
                for (size_t t = 0; t < TOKENS; t++) {
                    float got = ((float *)y[i]->data)[t * ROWS + r];
                    double sum = 0;
                    for (size_t c = 0; c < LEN; c++)
                        sum += (double)w[i][r][c] * (double)x[t][c];
                    close_to((double)got, sum, 1e-4);
                    if (threads == 1)
                        first[i * ROWS + r][t] = got;
                    else
                        assert_true(first[i * ROWS + r][t] == got);
                }
        lm_graph_release(&g);
    }
}

/* Angles worked out with another program from the formulas of the paper. */
static void test_rope_table(void **state)
{
    static const struct { int pair; double c, s, yarn_c, yarn_s; } want[] = {
        { 0, 0.7654140519453434, -0.6435381333569995, 0.8715229703587191, -0.7327514619008424 },
        { 1, -0.37674215145277873, 0.9263181695933269, 0.9107297123833037,
          -0.6834093822614168 },
        { 3, 0.9563799991264061, 0.29212548206374495, -0.6430292813185448,
          -0.9396756547594824 },
        { 5, -0.4880607978321319, 0.8728096342384535, 0.8092679923721408, 0.800975848139425 },
        { 15, 0.999978354287506, 0.006579586343454866, 1.138627895703941,
          0.0018729403411493657 },
    };
    static const int32_t pos[] = { 0, 37 };
    static float twice[16];
    (void)state;
    for (int i = 0; i < 16; i++)
        twice[i] = 2;
    for (int kind = 0; kind < 3; kind++) {
        struct lm_rope r = { .n_rot = 32, .base = 10000, .factor = kind == 1 ? 4 : 1 };
        if (kind == 1) {
            r.yarn = true;
            r.orig_ctx = 128;
            r.ext = 1;
            r.attn = 1.138629436111989f;
            r.beta_fast = 32;
            r.beta_slow = 1;
        }
        /* kind 2: frequencies halved by factors and doubled by linear scaling. */
        r.factor = kind == 2 ? 0.5f : r.factor;
        struct lm_graph g = {0};
        struct lm_tensor *f = kind == 2 ? with_data(&g, LM_F32, 1, (size_t[]){ 16 }, twice) : NULL;
        struct lm_tensor *t = lm_rope_table(
            &g, with_data(&g, LM_I32, 1, (size_t[]){ 2 }, (void *)pos), f, NULL, NULL, &r);
        run_graph(&g, t, 1);
        const float *c = (const float *)t->data + 64, *s = c + 32;
        for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
            int p = 2 * want[i].pair;
            close_to((double)c[p], kind == 1 ? want[i].yarn_c : want[i].c, 1e-5);
            close_to((double)s[p + 1], kind == 1 ? want[i].yarn_s : want[i].s, 1e-5);
            assert_true(c[p] == c[p + 1] && s[p] == -s[p + 1]);
        }
        assert_true(((float *)t->data)[5] == (kind == 1 ? r.attn : 1));
        lm_graph_release(&g);
    }
}

static void check_rope(bool halves)
{
    enum { HEAD = 40, HEADS = 3, TOKENS = 5, ROT = 16 };
    static float x[TOKENS][HEADS][HEAD];
    static const int32_t pos[TOKENS] = { 3, 9, 0, 1000, 2 };
    struct lm_rope r = { .n_rot = ROT, .base = 100, .factor = 1, .halves = halves };
    struct lm_graph g = {0};
    random_floats(x[0][0], TOKENS * HEADS * HEAD);
    struct lm_tensor *table = lm_rope_table(
        &g, with_data(&g, LM_I32, 1, (size_t[]){ TOKENS }, (void *)pos), NULL, NULL, NULL,
        &r);
    struct lm_tensor *t = lm_rope(
        &g, with_data(&g, LM_F32, 3, (size_t[]){ HEAD, HEADS, TOKENS }, x), table);
    run_graph(&g, t, 2);
    for (size_t k = 0; k < TOKENS; k++)
        for (size_t h = 0; h < HEADS; h++) {
            const float *got = (float *)t->data + (k * HEADS + h) * HEAD, *in = x[k][h];
            for (size_t i = 0; i < HEAD; i++) {
                size_t pair = halves ? i % (ROT / 2) : i / 2;
                size_t other = halves ? (i + ROT / 2) % ROT : i ^ 1;
                bool second = halves ? i >= ROT / 2 : i % 2;
                double angle = pos[k] * pow(100, -2.0 * (double)pair / ROT);
                double want = (double)in[i];
                if (i < ROT)
                    want = want * cos(angle) + (double)in[other] * sin(angle) * (second ? 1 : -1);
                close_to((double)got[i], want, 2e-4);
            }
        }
    lm_graph_release(&g);
}

static void test_rope(void **state)
{
    (void)state;
    check_rope(false);
    check_rope(true);
}

/* Tokens of sequences longer than the original context turn by the far factors, and grow. */
static void test_far_factors(void **state)
{
    static float near[4] = { 1, 1, 2, 2 }, far[4] = { 1, 3, 3, 4 };
    static const int32_t pos[] = { 5, 5, 9 }, lengths[] = { 16, 17, 16 };
    struct lm_rope r = { .n_rot = 8, .base = 10, .factor = 1, .attn = 1.5f, .orig_ctx = 16 };
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *t = lm_rope_table(
        &g, with_data(&g, LM_I32, 1, (size_t[]){ 3 }, (void *)pos),
        with_data(&g, LM_F32, 1, (size_t[]){ 4 }, near),
        with_data(&g, LM_F32, 1, (size_t[]){ 4 }, far),
        with_data(&g, LM_I32, 1, (size_t[]){ 3 }, (void *)lengths), &r);
    run_graph(&g, t, 1);
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < 4; i++) {
            double f = (double)(lengths[p] > 16 ? far[i] : near[i]);
            const float *c = (float *)t->data + 16 * p + 2 * i;
            close_to((double)c[0], 1.5 * cos(pos[p] * pow(10, -i / 4.0) / f), 1e-5);
            close_to((double)c[9], 1.5 * sin(pos[p] * pow(10, -i / 4.0) / f), 1e-5);
        }
    lm_graph_release(&g);
}

/* Two sequences in one batch, over several pages, stored and attended to. */
enum { KV_HEADS = 2, HEADS = 6, DK = 24, DV = 20, BATCH = 150 };
static float q[BATCH][HEADS][DK], k[BATCH][KV_HEADS][DK], v[BATCH][KV_HEADS][DV];
static int32_t pos[BATCH];
static int64_t lists[BATCH];

/* Does token t not see i, of which it sees `window` or, if chunked, the neighbours? */
static bool hidden(size_t t, size_t i, uint32_t window, bool chunked)
{
    return lists[i] != lists[t] ||
           (window && (chunked ? pos[i] / (int32_t)window != pos[t] / (int32_t)window
                               : pos[i] + (int32_t)window <= pos[t]));
}

static double exact(size_t t, size_t h, size_t d, uint32_t window, bool chunked, double cap)
{
    double s[BATCH], max = -1e300, sum = 0, out = 0;
    size_t g = h / (HEADS / KV_HEADS);
    for (size_t i = 0; i <= t; i++) {
        s[i] = 0;
        if (hidden(t, i, window, chunked))
            continue;
        for (size_t c = 0; c < DK; c++)
            s[i] += (double)q[t][h][c] * (double)k[i][g][c];
        s[i] *= 0.2;
        if (cap > 0)
            s[i] = cap * tanh(s[i] / cap);
        max = s[i] > max ? s[i] : max;
    }
    for (size_t i = 0; i <= t; i++) {
        if (hidden(t, i, window, chunked))
            continue;
        double e = exp(s[i] - max);
        sum += e;
        out += e * (double)v[i][g][d];
    }
    return out / sum;
}

static struct lm_kv_layout cache_layout(uint32_t type, size_t *page)
{
    const struct lm_type *t = lm_type_by_id(type);
    struct lm_kv_layout kv = {
        .k_type = t, .v_type = t, .n_head_kv = KV_HEADS, .head_k = DK, .head_v = DV,
        .k_off = 128, .k_row = DK * t->bytes, .v_row = DV * t->bytes
    };
    kv.v_off = kv.k_off + KV_HEADS * LM_KV_PAGE * kv.k_row;
    *page = kv.v_off + KV_HEADS * LM_KV_PAGE * kv.v_row;
    return kv;
}

static void check_attention(uint32_t type, uint32_t window, bool chunked, float cap, int threads,
                            double tolerance)
{
    size_t page, ids[] = { BATCH };
    struct lm_kv_layout kv = cache_layout(type, &page);
    uint8_t *pages[2][3];
    struct lm_graph g = {0};
    for (size_t i = 0; i < 6; i++) {
        assert_non_null(pages[i / 3][i % 3] = malloc(page));
        memset(pages[i / 3][i % 3], 0xff, page);        /* NaN where nothing was stored */
    }
    for (size_t i = 0; i < BATCH; i++) {                /* the second takes every fourth */
        lists[i] = (int64_t)(uintptr_t)pages[i % 4 == 3];
        pos[i] = (int32_t)(i % 4 == 3 ? i / 4 : i - i / 4);
    }
    struct lm_tensor *at = with_data(&g, LM_I32, 1, ids, pos);
    struct lm_tensor *list = with_data(&g, LM_I64, 1, ids, lists);
    struct lm_tensor *stored = lm_kv_store(
        &g, with_data(&g, LM_F32, 3, (size_t[]){ DK, KV_HEADS, BATCH }, k),
        with_data(&g, LM_F32, 3, (size_t[]){ DV, KV_HEADS, BATCH }, v), list, at, &kv);
    struct lm_tensor *t = lm_attn(
        &g, with_data(&g, LM_F32, 3, (size_t[]){ DK, HEADS, BATCH }, q), list, at, stored, &kv,
        0.2f, window, cap);
    if (chunked)
        t = lm_attn_chunk(t, window);
    run_graph(&g, t, threads);
    for (size_t i = 0; i < BATCH; i++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t d = 0; d < DV; d++)
                close_to((double)((float *)t->data)[(i * HEADS + h) * DV + d],
                         exact(i, h, d, window, chunked, (double)cap), tolerance);
    for (size_t i = 0; i < 6; i++)
        free(pages[i / 3][i % 3]);
    lm_graph_release(&g);
}

static void test_attention(void **state)
{
    (void)state;
    random_floats(q[0][0], sizeof q / sizeof(float));
    random_floats(k[0][0], sizeof k / sizeof(float));
    random_floats(v[0][0], sizeof v / sizeof(float));
    check_attention(LM_F32, 0, false, 0, 1, 1e-5);
    check_attention(LM_F32, 0, false, 0, 3, 1e-5);
    check_attention(LM_F32, 70, false, 0, 2, 1e-5);
    check_attention(LM_F32, 0, false, 5, 2, 1e-5);
    check_attention(LM_F32, 70, false, 2, 1, 1e-5);
    check_attention(LM_F32, 20, true, 0, 2, 1e-5);
    check_attention(LM_F32, 64, true, 5, 1, 1e-5);      /* whole pages */
    check_attention(LM_F32, 1, true, 0, 2, 1e-5);
    check_attention(LM_F16, 0, false, 0, 1, 2e-2);
    check_attention(LM_F16, 1, false, 0, 1, 2e-2);
}

static void test_refusals(void **state)
{
    static float data[64];
    struct lm_graph g = {0};
    struct lm_err err;
    (void)state;
    /* Columns apart: no kernel reads that. */
    struct lm_tensor *a = with_data(&g, LM_F32, 2, (size_t[]){ 4, 4 }, data);
    struct lm_tensor *t = lm_scale(&g, a, 2);
    a->nb[0] = 16;
    a->nb[1] = 4;
    lm_graph_expand(&g, t);
    lm_graph_plan(&g, 64);
    const struct lm_device *d = lm_device_by_name("cpu");
    assert_false(d->ops->supports_op(d, t));
    struct lm_backend *b = d->ops->open(d, NULL, &err);
    assert_null(b->ops->compile(b, &g, &err));
    assert_int_equal(err.code, LM_ENOSUP);
    b->ops->free(b);
    lm_graph_release(&g);
}

struct race {
    struct lm_barrier barrier;
    int               count[4];
    int               bad;
};

static void meet(void *arg, size_t i, int thread)
{
    struct race *r = arg;
    (void)i;
    for (int round = 1; round <= 2000; round++) {
        r->count[thread] = round;
        lm_barrier_wait(&r->barrier);
        for (int other = 0; other < 4; other++)
            if (r->count[other] != round)
                __atomic_store_n(&r->bad, 1, __ATOMIC_RELAXED);
        lm_barrier_wait(&r->barrier);
    }
}

static void test_barrier(void **state)
{
    struct lm_err err;
    struct race r = {0};
    struct lm_pool *p = lm_pool_new(4, &err);
    (void)state;
    assert_non_null(p);
    lm_barrier_init(&r.barrier, 4);
    lm_pool_run(p, meet, &r, 4);
    assert_false(r.bad);
    lm_pool_free(p);
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
        cmocka_unit_test(test_registry),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_concat),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_conv_whole),
        cmocka_unit_test(test_get_rows),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_rope_table),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_far_factors),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_barrier),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
