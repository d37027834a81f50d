/* SPDX-License-Identifier: MIT */
/* Operations of recurrent layers against their definitions in double precision: whatever the
 * order of sequences in a batch, and for every instruction set there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/recur.h"
#include "run_graph.h"

enum { TOKENS = 23, SEQS = 3, ROOM = 6000 };

static uint32_t seed = 5;
static float state[2][SEQS][ROOM];
static int64_t where[TOKENS][2];
static size_t seq_of[TOKENS];
static void fill(float *p, size_t n, double size)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(((double)(seed >> 8) / (1 << 23) - 1) * size);
    }
}

static float *numbers(size_t n, double size)
{
    float *p = malloc(n * sizeof *p);
    assert_non_null(p);
    fill(p, n, size);
    return p;
}

static void close_to(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (fabs(b) > 1 ? fabs(b) : 1)))
        fail_msg("%.9g, wanted %.9g", a, b);
}

/* Three sequences, tokens mixed: the first begins with zeros, the others go on from a state. */
static void mix_sequences(void)
{
    bool begun[SEQS] = { false };
    fill(&state[0][0][0], sizeof state / sizeof(float), 0.5);
    for (size_t i = 0; i < TOKENS; i++) {
        size_t s = seq_of[i] = i < 4 ? i % SEQS : i / 3 % SEQS;
        float *from = begun[s] ? state[1][s] : s ? state[0][s] : NULL;
        where[i][0] = (int64_t)(uintptr_t)from;
        where[i][1] = (int64_t)(uintptr_t)state[1][s];
        begun[s] = true;
    }
}

static double before(size_t s, size_t i)
{
    return s ? (double)state[0][s][i] : 0;
}

static struct lm_tensor *floats(struct lm_graph *g, size_t a, size_t b, size_t c, float *data)
{
    return with_data(g, LM_F32, 3, (size_t[]){ a, b, c }, data);
}

static struct lm_tensor *addresses(struct lm_graph *g)
{
    return with_data(g, LM_I64, 2, (size_t[]){ 2, TOKENS }, where);
}

/* --- convolution -------------------------------------------------------------------------- */

static void check_conv(size_t k, size_t channels, bool with_bias)
{
    float *x = numbers(channels * TOKENS, 1), *w = numbers(k * channels, 1);
    float *bias = numbers(channels, 1);
    struct lm_graph g = {0};
    mix_sequences();
    struct lm_tensor *t = lm_state_conv(
        &g, with_data(&g, LM_F32, 2, (size_t[]){ channels, TOKENS }, x),
        with_data(&g, LM_F32, 2, (size_t[]){ k, channels }, w),
        with_bias ? with_data(&g, LM_F32, 1, (size_t[]){ channels }, bias) : NULL, addresses(&g),
        8);
    const float *y = run_graph(&g, t, 2);
    for (size_t c = 0; c < channels; c++)
        for (size_t s = 0; s < SEQS; s++) {
            double past[64];
            for (size_t j = 0; j + 1 < k; j++)
                past[j] = before(s, 2 + j * channels + c);
            for (size_t i = 0; i < TOKENS; i++) {
                if (seq_of[i] != s)
                    continue;
                double sum = with_bias ? (double)bias[c] : 0;
                past[k - 1] = (double)x[i * channels + c];
                for (size_t j = 0; j < k; j++)
                    sum += (double)w[c * k + j] * past[j];
                memmove(past, past + 1, (k - 1) * sizeof *past);
                close_to((double)y[i * channels + c], sum, 2e-6 * (double)k);
            }
            for (size_t j = 0; j + 1 < k; j++)
                assert_true((double)state[1][s][2 + j * channels + c] == past[j]);
        }
    lm_graph_release(&g);
    free(x);
    free(w);
    free(bias);
}

static void test_conv(void **unused)
{
    (void)unused;
    check_conv(4, 300, true);
    check_conv(3, 21, false);
    check_conv(1, 16, true);
    check_conv(64, 8, false);
}

/* --- scans -------------------------------------------------------------------------------- */

struct scan {
    size_t len, heads, size, groups;
    bool   one_a, with_d;
};

static void check_scan(const struct scan *c)
{
    const size_t n_x = c->len * c->heads, n_b = c->size * c->groups;
    const size_t a_size = c->one_a ? 1 : c->size;
    float *x = numbers(n_x * TOKENS, 1), *dt = numbers(c->heads * TOKENS, 0.4);
    float *a = numbers(a_size * c->heads, 1), *b = numbers(n_b * TOKENS, 1);
    float *cc = numbers(n_b * TOKENS, 1), *d = numbers(c->heads, 1);
    struct lm_graph g = {0};
    for (size_t i = 0; i < c->heads * TOKENS; i++)
        dt[i] = fabsf(dt[i]);
    for (size_t i = 0; i < a_size * c->heads; i++)
        a[i] = -fabsf(a[i]) * 4;
    mix_sequences();
    struct lm_tensor *t = lm_state_scan(
        &g, floats(&g, c->len, c->heads, TOKENS, x), floats(&g, c->heads, TOKENS, 1, dt),
        floats(&g, a_size, c->heads, 1, a), floats(&g, c->size, c->groups, TOKENS, b),
        floats(&g, c->size, c->groups, TOKENS, cc),
        c->with_d ? floats(&g, 1, c->heads, 1, d) : NULL, addresses(&g), 0);
    const float *y = run_graph(&g, t, 2);
    for (size_t row = 0; row < n_x; row++)
        for (size_t s = 0; s < SEQS; s++) {
            const size_t h = row / c->len, group = h / (c->heads / c->groups);
            double now[256];
            for (size_t i = 0; i < c->size; i++)
                now[i] = before(s, row * c->size + i);
            for (size_t i = 0; i < TOKENS; i++) {
                if (seq_of[i] != s)
                    continue;
                const double step = (double)dt[i * c->heads + h], in = (double)x[i * n_x + row];
                double sum = c->with_d ? (double)d[h] * in : 0;
                for (size_t k = 0; k < c->size; k++) {
                    const size_t at = i * n_b + group * c->size + k;
                    now[k] = now[k] * exp(step * (double)a[h * a_size + (c->one_a ? 0 : k)]) +
                             step * in * (double)b[at];
                    sum += now[k] * (double)cc[at];
                }
                close_to((double)y[i * n_x + row], sum, 1e-5);
            }
            for (size_t i = 0; i < c->size; i++)
                close_to((double)state[1][s][row * c->size + i], now[i], 1e-5);
        }
    lm_graph_release(&g);
    free(x);
    free(dt);
    free(a);
    free(b);
    free(cc);
    free(d);
}

static void test_scan(void **unused)
{
    static const struct scan cases[] = {
        { 1, 300, 16, 1, false, true },         /* of the first kind of Mamba */
        { 1, 20, 7, 1, false, false },
        { 1, 20, 7, 2, true, true },
        { 32, 4, 32, 2, true, true },           /* of the second */
        { 5, 6, 24, 3, true, false },
        { 5, 6, 24, 3, false, true },
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_scan(&cases[i]);
}

/* --- delta rule --------------------------------------------------------------------------- */

/* each: every channel of a key decays by itself. */
static void check_delta(size_t len, size_t heads, size_t size, size_t keys, bool tiled, bool each)
{
    const size_t n_v = len * heads, n_k = size * keys;
    float *q = numbers(n_k * TOKENS, 0.3), *k = numbers(n_k * TOKENS, 0.3);
    const size_t n_decay = each ? n_k : heads;
    float *v = numbers(n_v * TOKENS, 1), *decay = numbers(n_decay * TOKENS, 1);
    float *beta = numbers(heads * TOKENS, 1), *rate = numbers(heads, 1);
    struct lm_graph g = {0};
    for (size_t i = 0; i < n_decay * TOKENS; i++)
        decay[i] = each ? fabsf(decay[i]) : -fabsf(decay[i]);
    for (size_t i = 0; i < heads * TOKENS; i++)
        beta[i] = fabsf(beta[i]);
    for (size_t i = 0; i < heads; i++)
        rate[i] = each ? -fabsf(rate[i]) : 1;
    mix_sequences();
    struct lm_tensor *tq = floats(&g, size, keys, TOKENS, q);
    struct lm_tensor *tk = floats(&g, size, keys, TOKENS, k);
    struct lm_tensor *tv = floats(&g, len, heads, TOKENS, v);
    struct lm_tensor *tb = floats(&g, heads, TOKENS, 1, beta);
    struct lm_tensor *t =
        each ? lm_state_delta_each(&g, tq, tk, tv, floats(&g, size, keys, TOKENS, decay),
                                   floats(&g, 1, heads, 1, rate), tb, addresses(&g), 0)
             : lm_state_delta(&g, tq, tk, tv, floats(&g, heads, TOKENS, 1, decay), tb,
                              addresses(&g), 0, tiled);
    const float *y = run_graph(&g, t, 2);
    for (size_t row = 0; row < n_v; row++)
        for (size_t s = 0; s < SEQS; s++) {
            const size_t h = row / len, kh = tiled ? h % keys : h / (heads / keys);
            double now[256];
            for (size_t i = 0; i < size; i++)
                now[i] = before(s, row * size + i);
            for (size_t i = 0; i < TOKENS; i++) {
                if (seq_of[i] != s)
                    continue;
                const float *vk = k + i * n_k + kh * size, *vq = q + i * n_k + kh * size;
                double seen = 0, sum = 0;
                for (size_t e = 0; e < size; e++) {
                    const size_t at = each ? i * n_k + h * size + e : i * heads + h;
                    now[e] *= exp((double)rate[h] * (double)decay[at]);
                    seen += now[e] * (double)vk[e];
                }
                for (size_t e = 0; e < size; e++) {
                    now[e] += (double)beta[i * heads + h] *
                              ((double)v[i * n_v + row] - seen) * (double)vk[e];
                    sum += now[e] * (double)vq[e];
                }
                close_to((double)y[i * n_v + row], sum, 1e-5);
            }
            for (size_t i = 0; i < size; i++)
                close_to((double)state[1][s][row * size + i], now[i], 1e-5);
        }
    lm_graph_release(&g);
    free(q);
    free(k);
    free(v);
    free(decay);
    free(beta);
    free(rate);
}

static void test_delta(void **unused)
{
    (void)unused;
    check_delta(32, 4, 32, 2, false, false);
    check_delta(32, 4, 32, 2, true, false);
    check_delta(7, 6, 19, 3, true, false);
    check_delta(3, 2, 40, 2, false, false);
    check_delta(32, 4, 32, 4, false, true);
    check_delta(7, 3, 19, 3, false, true);
}

/* --- token shift and wkv ------------------------------------------------------------------ */

static void test_shift(void **unused)
{
    enum { CHANNELS = 300, OFF = 3 };
    float *x = numbers((size_t)CHANNELS * TOKENS, 1);
    struct lm_graph g = {0};
    (void)unused;
    mix_sequences();
    const float *y = run_graph(&g, lm_state_shift(&g, floats(&g, CHANNELS, TOKENS, 1, x),
                                                  addresses(&g), OFF * sizeof(float)), 2);
    for (size_t c = 0; c < CHANNELS; c++)
        for (size_t s = 0; s < SEQS; s++) {
            double last = before(s, OFF + c);
            for (size_t i = 0; i < TOKENS; i++) {
                if (seq_of[i] != s)
                    continue;
                const double now = (double)x[i * CHANNELS + c];
                close_to((double)y[i * CHANNELS + c], last - now, 1e-7);
                last = now;
            }
            assert_true((double)state[1][s][OFF + c] == last);
        }
    lm_graph_release(&g);
    free(x);
}

/* The published recurrences, version 6 or 7 or (0) gated linear attention, a row of a head's
 * memory at a time. */
static double wkv_step(int version, double *now, const float *p[5], size_t at, size_t h,
                       size_t size, double v)
{
    const float *r = p[0] + at, *k = p[1] + at, *decay = p[2] + at, *b = p[4] + at;
    const float *a = p[3] + (version == 6 ? h * size : at);          /* 6: the bonus */
    double seen = 0, sum = 0;
    for (size_t j = 0; j < size; j++) {
        seen += now[j] * (double)a[j];
        if (version == 6)
            sum += (double)r[j] * (now[j] + (double)a[j] * (double)k[j] * v);
    }
    for (size_t j = 0; j < size; j++) {
        now[j] = now[j] * (double)decay[j] + v * (double)k[j];
        now[j] += version == 7 ? seen * (double)b[j] : 0;
        sum += version == 6 ? 0 : now[j] * (double)r[j];
    }
    return sum;
}

static void check_wkv(int version, size_t len, size_t heads, size_t size)
{
    const size_t n_v = len * heads, n_k = size * heads;
    float *p[5], *v = numbers(n_v * TOKENS, 1);
    struct lm_tensor *t[5];
    struct lm_graph g = {0};
    for (size_t i = 0; i < 5; i++) {
        p[i] = numbers(n_k * TOKENS, 0.3);
        t[i] = floats(&g, size, heads, i == 3 && version == 6 ? 1 : TOKENS, p[i]);
    }
    for (size_t i = 0; i < n_k * TOKENS; i++)
        p[2][i] = 0.5f + p[2][i];
    mix_sequences();
    struct lm_tensor *tv = floats(&g, len, heads, TOKENS, v), *at = addresses(&g);
    const float *y = run_graph(
        &g, version == 6   ? lm_state_wkv6(&g, t[0], t[1], tv, t[2], t[3], at, 0)
            : version == 0 ? lm_state_gla(&g, t[0], t[1], tv, t[2], at, 0)
                           : lm_state_wkv7(&g, t[0], t[1], tv, t[2], t[3], t[4], at, 0), 2);
    for (size_t row = 0; row < n_v; row++)
        for (size_t s = 0; s < SEQS; s++) {
            const size_t h = row / len;
            double now[256];
            for (size_t j = 0; j < size; j++)
                now[j] = before(s, row * size + j);
            for (size_t i = 0; i < TOKENS; i++)
                if (seq_of[i] == s)
                    close_to((double)y[i * n_v + row],
                             wkv_step(version, now, (const float *[]){ p[0], p[1], p[2], p[3],
                                                                       p[4] },
                                      i * n_k + h * size, h, size, (double)v[i * n_v + row]),
                             1e-5);
            for (size_t j = 0; j < size; j++)
                close_to((double)state[1][s][row * size + j], now[j], 1e-5);
        }
    lm_graph_release(&g);
    for (size_t i = 0; i < 5; i++)
        free(p[i]);
    free(v);
}

static void test_wkv(void **unused)
{
    (void)unused;
    static const int versions[] = { 6, 7, 0 };
    for (size_t i = 0; i < 3; i++) {
        const int version = versions[i];
        check_wkv(version, 32, 4, 32);
        check_wkv(version, 64, 1, 64);
        check_wkv(version, 7, 3, 19);
        check_wkv(version, 1, 5, 40);
    }
}

/* --- instruction sets, norms, what is refused --------------------------------------------- */

static void test_kernels(void **unused)
{
    enum { ROWS = 7, SIZE = 37 };
    float b[SIZE], c[SIZE], x[ROWS], dt[ROWS], a[ROWS * SIZE], begin[ROWS * SIZE];
    const struct lm_recur *scalar = lm_recur_find(LM_ISA_SCALAR);
    (void)unused;
    fill(b, SIZE, 1);
    fill(c, SIZE, 1);
    fill(x, ROWS, 1);
    fill(dt, ROWS, 0.5);
    fill(a, ROWS * SIZE, 1);
    fill(begin, ROWS * SIZE, 1);
    for (int isa = LM_ISA_AVX2; isa <= (int)lm_isa(); isa++) {
        const struct lm_recur *f = lm_recur_find((enum lm_isa)isa);
        for (int which = 0; which < 7; which++) {
            float s[2][ROWS * SIZE], y[2][ROWS];
            for (int i = 0; i < 2; i++) {
                const struct lm_recur *use = i ? f : scalar;
                memcpy(s[i], begin, sizeof begin);
                if (which == 0)
                    use->scan(s[i], ROWS, SIZE, 0.9f, 0.2f, x, b, c, y[i]);
                else if (which == 1)
                    use->scan_each(s[i], ROWS, SIZE, dt, a, x, b, c, y[i]);
                else if (which == 2)
                    use->delta(s[i], ROWS, SIZE, 0.9f, 0.3f, x, b, c, y[i]);
                else if (which == 3)
                    use->delta_each(s[i], ROWS, SIZE, -0.9f, a, 0.3f, x, b, c, y[i]);
                else if (which == 4)
                    use->wkv6(s[i], ROWS, SIZE, a, 0.7f, x, b, c, y[i]);
                else if (which == 5)
                    use->gla(s[i], ROWS, SIZE, a, x, b, c, y[i]);
                else
                    use->wkv7(s[i], ROWS, SIZE, a, a + SIZE, a + 2 * SIZE, x, b, c, y[i]);
            }
            for (size_t i = 0; i < ROWS * SIZE; i++)
                close_to((double)s[1][i], (double)s[0][i], 2e-6);
            for (size_t i = 0; i < ROWS; i++)
                close_to((double)y[1][i], (double)y[0][i], 1e-5);
        }
    }
}

static void test_rows(void **unused)
{
    float x[2][3][5], w[3][5];
    struct lm_graph g = {0};
    (void)unused;
    fill(&x[0][0][0], 30, 30);
    fill(&w[0][0], 15, 1);
    const float *y = run_graph(&g, lm_softplus(&g, floats(&g, 5, 3, 2, &x[0][0][0]), 0), 1);
    for (size_t i = 0; i < 30; i++)
        close_to((double)y[i], log1p(exp((double)(&x[0][0][0])[i])), 1e-6);
    lm_graph_release(&g);
    y = run_graph(&g, lm_softplus(&g, floats(&g, 5, 3, 2, &x[0][0][0]), 0.5f), 1);
    for (size_t i = 0; i < 30; i++)
        close_to((double)y[i], fmax(0.5, log1p(exp((double)(&x[0][0][0])[i]))), 1e-6);
    lm_graph_release(&g);
    y = run_graph(&g, lm_exponential(&g, floats(&g, 5, 3, 2, &x[0][0][0])), 1);
    for (size_t i = 0; i < 30; i++)
        assert_true(fabs((double)y[i] / exp((double)(&x[0][0][0])[i]) - 1) < 1e-6);
    lm_graph_release(&g);
    y = run_graph(&g, lm_l2_norm(&g, floats(&g, 5, 3, 2, &x[0][0][0]), 0.5f), 1);
    for (size_t r = 0; r < 6; r++) {
        double sum = 0.5;
        for (size_t i = 0; i < 5; i++)
            sum += pow((double)(&x[0][0][0])[r * 5 + i], 2);
        for (size_t i = 0; i < 5; i++)
            close_to((double)y[r * 5 + i], (double)(&x[0][0][0])[r * 5 + i] / sqrt(sum), 1e-6);
    }
    lm_graph_release(&g);
    /* A row of weights for each row of a token. */
    y = run_graph(&g, lm_rms_norm(&g, floats(&g, 5, 3, 2, &x[0][0][0]),
                                  floats(&g, 5, 3, 1, &w[0][0]), 0.5f), 1);
    for (size_t r = 0; r < 6; r++) {
        double sum = 0;
        for (size_t i = 0; i < 5; i++)
            sum += pow((double)(&x[0][0][0])[r * 5 + i], 2);
        for (size_t i = 0; i < 5; i++)
            close_to((double)y[r * 5 + i], (double)(&x[0][0][0])[r * 5 + i] *
                     (double)w[r % 3][i] / sqrt(sum / 5 + 0.5), 1e-6);
    }
    lm_graph_release(&g);
}

static void test_refused(void **unused)
{
    float x[TOKENS * 8];
    (void)unused;
    fill(x, TOKENS * 8, 1);
    for (int i = 0; i < 8; i++) {
        struct lm_graph g = {0};
        struct lm_tensor *at = addresses(&g), *v = floats(&g, 2, 4, TOKENS, x);
        struct lm_tensor *h = floats(&g, 4, TOKENS, 1, x), *k = floats(&g, 2, 3, TOKENS, x);
        struct lm_tensor *w = floats(&g, 65, 8, 1, x), *t = NULL;
        switch (i) {
        case 0: t = lm_state_delta(&g, k, k, v, h, h, at, 0, false); break;
        case 1: t = lm_state_delta(&g, v, v, v, h, h, h, 0, false); break;
        case 2: t = lm_state_scan(&g, v, h, floats(&g, 3, 4, 1, x), k, k, NULL, at, 0); break;
        case 3: t = lm_state_wkv6(&g, v, v, v, v, k, at, 0); break;
        case 4: t = lm_state_wkv7(&g, v, v, v, v, v, k, at, 0); break;
        case 5: t = lm_state_gla(&g, v, v, v, k, at, 0); break;
        case 6: t = lm_state_shift(&g, v, at, 0); break;
        default: t = lm_state_conv(&g, floats(&g, 8, TOKENS, 1, x), w, NULL, at, 0); break;
        }
        assert_null(t);
        assert_int_equal(g.err.code, LM_EUSE);
        lm_graph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),    cmocka_unit_test(test_scan),
        cmocka_unit_test(test_delta),   cmocka_unit_test(test_shift),
        cmocka_unit_test(test_wkv),     cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_rows),    cmocka_unit_test(test_refused),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    free(graph_memory);
    return r;
}
