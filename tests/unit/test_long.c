/* SPDX-License-Identifier: MIT */
/*
 * Long generations: after many steps the samplers with a memory leave what follows from the history
 * by their definitions, computed anew here, and take no more room than at the beginning.
 *
 * With LMPIPE_FULL, 10,000 steps on a vocabulary of 151,936; else fewer on a smaller one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "not_here.h"
#include "sample/chain.h"

#define LN2 0.6931471805599453

/* Rows of logits are one row turned round, so that its sums are known. */
static struct {
    uint32_t  n_vocab, steps;
    float    *twice;             /* [2 n_vocab] */
    uint32_t *history;           /* [steps] */
} x;

static const float *row_of(uint32_t step)
{
    return x.twice + (uint64_t)step * 7919 % x.n_vocab;
}

static int make_rows(void **state)
{
    const bool full = getenv("LMPIPE_FULL") != NULL;
    (void)state;
    x.n_vocab = full ? 151936 : 4001;
    x.steps = full ? 10000 : 500;
    x.twice = malloc(2 * x.n_vocab * sizeof *x.twice);
    x.history = malloc(x.steps * sizeof *x.history);
    assert_true(x.twice && x.history);
    for (uint32_t i = 0; i < x.n_vocab; i++)          /* 40503 has no factor of either size */
        x.twice[(uint64_t)i * 40503 % x.n_vocab] = (float)(-1.1 * log(1 + i));
    memcpy(x.twice + x.n_vocab, x.twice, x.n_vocab * sizeof *x.twice);
    return 0;
}

static int free_rows(void **state)
{
    (void)state;
    free(x.twice);
    free(x.history);
    return 0;
}

static struct lm_chain *chain_of(const char *order, const char *words)
{
    struct lm_sampling s = { .samplers = order, .seed = 5 };
    struct lm_logits_head h = { .n_vocab = x.n_vocab };
    struct lm_err err;
    char option[64];
    double v;
    for (int used; sscanf(words, " %63[^=]=%lf%n", option, &v, &used) == 2; words += used) {
        const struct lm_param *p = NULL;
        for (size_t i = 0; (p = lm_param_at(i)) && strcmp(p->option, option); )
            i++;
        assert_non_null(p);
        assert_int_equal(lm_sampling_set(&s, p, v, &err), LM_OK);
    }
    struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
    assert_non_null(c);
    return c;
}

static void apply(struct lm_chain *c, uint32_t step)
{
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = x.n_vocab };
    struct lm_err err;
    assert_int_equal(lm_chain_apply(c, &f, row_of(step), 0, step, &err), LM_OK);
}

/* Memory, where it says something: sanitizers keep what was freed. */
static long memory(void)
{
#if defined(SANITIZED)
    return 0;
#else
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_maxrss;                               /* KiB */
#endif
}

/* What comes between the draw and the next step; the sampler's state as it should be. */
typedef void after_fn(void *arg, uint32_t step, uint32_t id);

/* All steps but the last; the chain is left after the last apply. */
static void run(struct lm_chain *c, after_fn *after, void *arg)
{
    struct lm_err err;
    long used = 0;
    for (uint32_t t = 0; t < x.steps; t++) {
        apply(c, t);
        if (t + 1 == x.steps)
            break;
        x.history[t] = lm_chain_draw(c);
        if (after)
            after(arg, t, x.history[t]);
        assert_int_equal(lm_chain_accept(c, x.history[t], &err), LM_OK);
        used = t == x.steps / 10 ? memory() : used;
    }
    assert_true(memory() - used <= 1024);
}

/* The chances that are left are those of the weights exp(l - max) of l [n_vocab], for k of them or
 * more. */
static void check_chances(struct lm_chain *c, const double *l, size_t k)
{
    struct lm_err err;
    double max = -INFINITY, sum = 0;
    size_t n, left = 0;
    for (uint32_t i = 0; i < x.n_vocab; i++)
        max = fmax(max, l[i]);
    for (uint32_t i = 0; i < x.n_vocab; i++) {
        sum += exp(l[i] - max);
        left += l[i] > -INFINITY;
    }
    const struct lm_chance *p = lm_chain_chances(c, 0, &n, &err);
    assert_non_null(p);
    assert_true(n >= k && n == left);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(p[i].p - exp(l[p[i].id] - max) / sum) < 1e-6))
            fail_msg("id %u: %.9g, not %.9g", (unsigned)p[i].id, p[i].p,
                     exp(l[p[i].id] - max) / sum);
}

static double *logits_of_last(void)
{
    double *l = malloc(x.n_vocab * sizeof *l);
    assert_non_null(l);
    for (uint32_t i = 0; i < x.n_vocab; i++)
        l[i] = row_of(x.steps - 1)[i];
    return l;
}

/* ---- penalties and dry ---- */

static void punish(double *l)
{
    const uint32_t n = x.steps - 1;
    uint32_t *count = calloc(x.n_vocab, sizeof *count);
    assert_non_null(count);
    for (uint32_t t = 0; t < n; t++)
        count[x.history[t]]++;
    for (uint32_t i = 0; i < x.n_vocab; i++)
        if (count[i]) {
            l[i] = l[i] > 0 ? l[i] / 1.05 : l[i] * 1.05;
            l[i] -= 0.02 * count[i] + 0.1;
        }
    free(count);
}

/* Of the last 300 ids: those that went on after what is at the end now. */
static void dry(double *l)
{
    const uint32_t n = x.steps - 1 < 300 ? x.steps - 1 : 300;
    const uint32_t *w = x.history + x.steps - 1 - n;
    uint32_t *longest = calloc(x.n_vocab, sizeof *longest);
    assert_non_null(longest);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t m = 0;
        while (m < i && w[i - 1 - m] == w[n - 1 - m])
            m++;
        if (m >= 1 && m > longest[w[i]])
            longest[w[i]] = m;
    }
    for (uint32_t i = 0; i < x.n_vocab; i++)
        if (longest[i])
            l[i] -= 0.5 * pow(1.5, longest[i] - 1);
    free(longest);
}

static void test_penalties(void **state)
{
    static const char order[] = "penalties;dry;temperature";
    static const char words[] = "repeat-penalty=1.05 frequency-penalty=0.02 presence-penalty=0.1 "
        "repeat-last-n=-1 dry-multiplier=0.5 dry-base=1.5 dry-allowed-length=1 "
        "dry-penalty-last-n=300 temp=0.6";
    struct lm_err err;
    (void)state;
    struct lm_chain *c = chain_of(order, words), *fresh = chain_of(order, words);
    double *l = logits_of_last();
    run(c, NULL, NULL);
    punish(l);
    dry(l);
    for (uint32_t i = 0; i < x.n_vocab; i++)
        l[i] /= 0.6;
    check_chances(c, l, x.n_vocab);
    for (uint32_t t = 0; t + 1 < x.steps; t++)        /* and to the bit with a chain of its own */
        assert_int_equal(lm_chain_accept(fresh, x.history[t], &err), LM_OK);
    apply(fresh, x.steps - 1);
    assert_int_equal(lm_chain_draw(fresh), lm_chain_draw(c));
    free(l);
    lm_chain_free(c);
    lm_chain_free(fresh);
}

/* ---- what learns from its choices ---- */

struct learned {
    double t, sum;               /* temperature; of exp(l / t - max / t) */
    double mu;                   /* mirostat                             */
    double a, b;                 /* adaptive_p                           */
};

/* The chance of an entry of a row, all rows having the same entries. */
static double chance(const struct learned *s, float l)
{
    return exp(l / s->t) / s->sum;
}

static struct learned learned_of(double t)
{
    struct learned s = { .t = t };
    for (uint32_t i = 0; i < x.n_vocab; i++)          /* the largest is 0 */
        s.sum += exp(x.twice[i] / t);
    return s;
}

static void learn_mu(void *arg, uint32_t step, uint32_t id)
{
    struct learned *s = arg;
    s->mu -= 0.1 * (-log(chance(s, row_of(step)[id])) / LN2 - 5);
}

static void learn_average(void *arg, uint32_t step, uint32_t id)
{
    struct learned *s = arg;
    s->a = chance(s, row_of(step)[id]) + 0.9 * s->a;
    s->b = 1 + 0.9 * s->b;
}

static void test_mirostat_2(void **state)
{
    struct learned s = learned_of(0.9);
    (void)state;
    struct lm_chain *c = chain_of(NULL, "mirostat=2 mirostat-ent=5 mirostat-lr=0.1 temp=0.9");
    double *l = logits_of_last();
    s.mu = 10;
    run(c, learn_mu, &s);
    for (uint32_t i = 0; i < x.n_vocab; i++)
        l[i] = -log(chance(&s, (float)l[i])) / LN2 <= s.mu ? l[i] / s.t : -INFINITY;
    check_chances(c, l, 2);
    free(l);
    lm_chain_free(c);
}

static void test_mirostat_1(void **state)
{
    struct learned s = learned_of(0.9);
    double num = 0, den = 0;
    (void)state;
    struct lm_chain *c = chain_of(NULL, "mirostat=1 mirostat-ent=5 mirostat-lr=0.1 temp=0.9");
    double *l = logits_of_last();
    s.mu = 10;
    run(c, learn_mu, &s);
    for (int i = 0; i < 99; i++) {                    /* the i-th best is -1.1 ln (1 + i) */
        const double t = log((i + 2.0) / (i + 1.0));
        num += t * ((float)(-1.1 * log(1 + i)) - (float)(-1.1 * log(2 + i))) / s.t;
        den += t * t;
    }
    const double slope = num / den, e = slope - 1;
    const double k = pow(e * exp2(s.mu) / (1 - pow(x.n_vocab, -e)), 1 / slope);
    for (uint32_t i = 0; i < x.n_vocab; i++)
        l[i] = exp(-l[i] / 1.1) <= fmax(1, floor(k)) + 0.5 ? l[i] / s.t : -INFINITY;
    check_chances(c, l, 1);
    free(l);
    lm_chain_free(c);
}

static void test_adaptive(void **state)
{
    struct learned s = learned_of(1);
    (void)state;
    struct lm_chain *c = chain_of("adaptive_p", "adaptive-p-target=0.05 adaptive-p-decay=0.9");
    double *l = logits_of_last();
    s.a = 0.05 / 0.1;
    s.b = 1 / 0.1;
    run(c, learn_average, &s);
    const double want = fmin(fmax(2 * 0.05 - s.a / s.b, 0), 1);
    for (uint32_t i = 0; i < x.n_vocab; i++) {
        const double d = fabs(chance(&s, (float)l[i]) - want) / 0.3;
        l[i] = 5 - 10 * d * d / (1 + d);
    }
    check_chances(c, l, x.n_vocab);
    free(l);
    lm_chain_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_mirostat_1),
        cmocka_unit_test(test_mirostat_2),
        cmocka_unit_test(test_adaptive),
    };
    return cmocka_run_group_tests(tests, make_rows, free_rows);
}
