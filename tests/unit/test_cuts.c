/* SPDX-License-Identifier: MIT */
/* Cuts and draws of long rows, which look at buckets and blocks, against sorting everything. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sample/candidates.h"
#include "sample/fixed_math.h"

enum { N = 20011 };

struct entry {
    double   l, key;             /* sorted by key up, then those above the center, then id up */
    bool     below;
    uint64_t w;
    uint32_t id;
};

static float row[N];
static struct entry all[N];      /* [n_all] what should be there, ids ascending */
static size_t n_all;
static uint32_t noise_state = 1;

/* A number in (0, 1). */
static double noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return ((noise_state >> 8) + 0.5) * 0x1p-24;
}

static double normal(void)
{
    const double r = sqrt(-2 * log(noise()));
    return r * cos(6.283185307179586 * noise());
}

static float level(int kind, int i)
{
    switch (kind) {
    case 0:  return (float)(2.5 * normal());
    case 1:  return (float)(-1.1 * log(1 + (i * 7919L) % N));
    case 2:  return (float)(floor(4 * normal()) / 4);                /* many are equal          */
    case 3:  return (float)(i % 501 == 3 ? 30 + noise() : normal()); /* a few have all          */
    case 4:  return (float)(1e7 * normal());                         /* floats far apart        */
    case 5:  return 1;
    case 6:  return i % 3 ? -INFINITY : (float)normal();
    case 7:  return (float)(i % 2 ? 1e-30 * noise() : normal());     /* close to 0              */
    default: return (float)(-20 * noise());
    }
}

enum { KINDS = 9 };

static double new_logit(const void *arg, size_t i, double l)
{
    (void)arg;
    return i % 3 == 0 ? -INFINITY : l - 0.5 * (double)(i % 7);
}

/* A row of that kind; with `edited` some of its logits are changed, and all divided. */
static void start(struct lm_cands *c, int kind, bool edited)
{
    struct lm_err err;
    uint32_t ids[200];
    for (int i = 0; i < N; i++)
        row[i] = level(kind, i);
    assert_int_equal(lm_cands_init(c, N, &err), LM_OK);
    assert_int_equal(lm_cands_row(c, row, &err), LM_OK);
    for (uint32_t i = 0; i < 200; i++)
        ids[i] = i * 99 + 5;
    if (edited) {
        assert_int_equal(lm_cands_edit(c, ids, 200, new_logit, NULL, &err), LM_OK);
        lm_cands_divide(c, 0.7);
    }
    n_all = 0;
    for (uint32_t i = 0; i < N; i++) {
        double l = row[i];
        if (edited && i % 99 == 5 && i / 99 < 200)
            l = new_logit(NULL, i / 99, l);
        if (l > -INFINITY)
            all[n_all++] = (struct entry){ .l = edited ? l * (1 / 0.7) : l, .id = i };
    }
}

static double weigh_all(uint64_t *total)
{
    double max = -INFINITY;
    *total = 0;
    for (size_t i = 0; i < n_all; i++)
        max = fmax(max, all[i].l);
    for (size_t i = 0; i < n_all; i++)
        *total += all[i].w = lm_weight(lm_fall(all[i].l - max));
    return max;
}

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->below != y->below)
        return y->below ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

/* Keep the first in order of keys: `most`, or those that sum to a share p, and at least `least`. */
static void keep_first(size_t most, double p, size_t least)
{
    uint64_t total, sum = 0;
    size_t n = 0;
    weigh_all(&total);
    qsort(all, n_all, sizeof *all, by_key);
    const uint64_t need = (uint64_t)ceil(p * (double)total);
    while (n < n_all && n < most && (n < least || n == 0 || sum < need))
        sum += all[n++].w;
    n_all = n;
    qsort(all, n_all, sizeof *all, by_id);
}

static void expect_best(size_t k)
{
    for (size_t i = 0; i < n_all; i++)
        all[i].key = -all[i].l;
    keep_first(k, 2, k);
}

static void expect_mass(double p)
{
    for (size_t i = 0; i < n_all; i++)
        all[i].key = -all[i].l;
    keep_first(n_all, p, 1);
}

static double entropy_of(void)
{
    uint64_t total;
    const double max = weigh_all(&total);
    long double sum = 0;
    for (size_t i = 0; i < n_all; i++)
        sum += all[i].w ? (long double)all[i].w * (all[i].l - max) : 0;
    return (double)(logl((long double)total / 0x1p40L) - sum / total);
}

/* The logit with the surprise that is expected.  Its last bits decide between logits that differ by
 * less, so they are taken from the set, whose entropy check looks at. */
static double center_of(const struct lm_cands *c)
{
    const double total = (double)lm_cands_total(c) / 0x1p40;
    return lm_cands_max(c) - (lm_cands_entropy(c) - lm_ln(total));
}

static void keep_typical(struct lm_cands *c, double p)
{
    const double center = center_of(c);
    lm_cands_keep_typical(c, p, 0);
    for (size_t i = 0; i < n_all; i++) {
        all[i].key = fabs(all[i].l - center);
        all[i].below = all[i].l < center;
    }
    keep_first(n_all, p, 1);
}

/* The set holds what it should: counted, drawn from, and listed. */
static void check(struct lm_cands *c, int kind, const char *what, double p)
{
    uint64_t total, place, sum = 0;
    const double max = weigh_all(&total);
    size_t i = 0;
    if (lm_cands_count(c) != n_all)
        fail_msg("kind %d, %s %g: %zu left, not %zu", kind, what, p, lm_cands_count(c), n_all);
    assert_true(lm_cands_max(c) == max && lm_cands_total(c) == total);
    const double entropy = entropy_of();
    assert_true(fabs(lm_cands_entropy(c) - entropy) <= 3e-7 * (1 + entropy));
    for (double u = 0; u < 1; u += 0.0937) {
        const uint32_t id = lm_cands_pick(c, u);
        place = (uint64_t)(u * (double)total);
        for (i = 0, sum = 0; sum + all[i].w <= place; i++)
            sum += all[i].w;
        if (id != all[i].id)
            fail_msg("kind %d, %s %g: %g draws %u, not %u", kind, what, p, u, (unsigned)id,
                     (unsigned)all[i].id);
    }
    lm_cands_sort(c, LM_BY_ID);
    for (i = 0; i < n_all; i++)
        assert_true(c->list[i].id == all[i].id && c->list[i].l == all[i].l);
}

static void test_mass(void **state)
{
    static const double p[] = { 0, 0.01, 0.5, 0.9, 0.95, 0.999, 0.9999999, 1 };
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < 16; i++) {
            struct lm_cands c;
            start(&c, kind, i & 1);
            lm_cands_keep_mass(&c, p[i / 2], 0);
            expect_mass(p[i / 2]);
            check(&c, kind, "mass", p[i / 2]);
            lm_cands_release(&c);
        }
}

static void test_typical(void **state)
{
    static const double p[] = { 0, 0.01, 0.3, 0.9, 0.95, 0.999, 0.9999999, 1 };
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < 16; i++) {
            struct lm_cands c;
            start(&c, kind, i & 1);
            keep_typical(&c, p[i / 2]);
            check(&c, kind, "typical", p[i / 2]);
            lm_cands_release(&c);
        }
}

/* One cut after another: the border of the first one lies among equal entries. */
static void test_both(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 6; i++) {
            struct lm_cands c;
            start(&c, kind, i & 1);
            if (i / 2 == 1)
                lm_cands_keep_best(&c, 9001);
            else
                lm_cands_keep_mass(&c, 0.97, 0);
            if (i / 2 == 1)
                expect_best(9001);
            else
                expect_mass(0.97);
            if (i / 2 == 2)
                lm_cands_divide(&c, 2);
            for (size_t k = 0; i / 2 == 2 && k < n_all; k++)
                all[k].l = i & 1 ? row[all[k].id] * (1 / 0.7 * 0.5) : all[k].l * 0.5;
            if (i != 5) {                         /* changed logits have other factors */
                keep_typical(&c, 0.8);
                check(&c, kind, "both", i);
            }
            lm_cands_release(&c);
        }
}

/* After a cut on both sides some are changed, and some not allowed. */
static void test_changed_after(void **state)
{
    static uint64_t allowed[(N + 63) / 64];
    struct lm_err err;
    uint32_t ids[190];
    (void)state;
    for (uint32_t i = 0; i < 190; i++)
        ids[i] = i * 101 + 7;
    for (uint32_t i = 0; i < N; i++)
        if (i % 5)
            allowed[i / 64] |= UINT64_C(1) << i % 64;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 4; i++) {
            struct lm_cands c;
            size_t m = 0;
            start(&c, kind, i & 1);
            keep_typical(&c, 0.9);
            if (i / 2)
                lm_cands_allow(&c, allowed);
            else
                assert_int_equal(lm_cands_edit(&c, ids, 190, new_logit, NULL, &err), LM_OK);
            for (size_t k = 0; k < n_all; k++) {
                struct entry e = all[k];
                if (i / 2 ? e.id % 5 == 0 : e.id % 101 == 7 && e.id / 101 < 190)
                    e.l = i / 2 ? -INFINITY : new_logit(NULL, e.id / 101, e.l);
                if (e.l > -INFINITY)
                    all[m++] = e;
            }
            n_all = m;
            if (n_all == 0)
                assert_true(lm_cands_empty(&c));
            else
                check(&c, kind, "changed", i);
            lm_cands_release(&c);
        }
}

/* Logits that favour a probability: drawn as the formula says. */
static void test_favor(void **state)
{
    static const double want[] = { 0, 1e-4, 0.02, 0.3, 1 };
    static float p[N + LM_CHUNK];
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t k = 0; k < 10; k++) {
            struct lm_cands c;
            uint64_t before, total;
            double sum = 0, best = -INFINITY;
            start(&c, kind, k & 1);
            weigh_all(&before);
            lm_cands_favor(&c, want[k / 2], p);
            assert_int_equal(lm_cands_count(&c), n_all);
            total = lm_cands_weigh(&c);
            for (size_t i = 0; i < n_all; i++) {
                const double chance = (double)all[i].w / (double)before;
                const double d = fabs(chance - want[k / 2]) / 0.3;
                assert_true(fabs(p[all[i].id] - chance) < 1e-6);
                all[i].key = 5 - 10 * d * d / (1 + d);
                best = fmax(best, all[i].key);
            }
            for (size_t i = 0; i < n_all; i++)
                sum += exp(all[i].key - best);
            for (size_t i = 0; i < n_all; i++) {
                assert_int_equal(c.list[i].id, all[i].id);
                assert_true(fabs((double)c.list[i].w / (double)total -
                                 exp(all[i].key - best) / sum) < 1e-6);
            }
            lm_cands_release(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mass),
        cmocka_unit_test(test_typical),
        cmocka_unit_test(test_both),
        cmocka_unit_test(test_changed_after),
        cmocka_unit_test(test_favor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
