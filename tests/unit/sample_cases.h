/* SPDX-License-Identifier: MIT */
#ifndef SAMPLE_CASES_H
#define SAMPLE_CASES_H

/* Reference cases of samplers (tests/data/sample), for the unit tests that run them. */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/f16.h"
#include "base/json.h"
#include "io/input.h"
#include "sample/chain.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TOLERANCE 1e-6

/* ---- files ---- */

struct reference {
    struct lm_arena       arena;
    const struct lm_jval *cases, *picks;       /* cases.json, pick.json */
    char                 *rows;
    size_t                rows_size;
    float                 row[32000];
};

static const struct lm_jval *read_json(struct lm_arena *a, const char *dir, const char *file)
{
    char path[500], *text;
    size_t len;
    struct lm_err err;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (lm_read_file(path, 1 << 24, &text, &len, &err) < 0)
        return NULL;
    const struct lm_jval *v = lm_json_tree(a, text, len, &err);
    free(text);
    assert_non_null(v);
    return v;
}

static bool reference_open(struct reference *r, const char *dir)
{
    char path[500];
    struct lm_err err;
    *r = (struct reference){ 0 };
    r->cases = read_json(&r->arena, dir, "cases.json");
    if (!r->cases)
        return false;
    r->picks = read_json(&r->arena, dir, "pick.json");
    snprintf(path, sizeof path, "%s/rows.bin", dir);
    assert_int_equal(lm_read_file(path, 1 << 24, &r->rows, &r->rows_size, &err), LM_OK);
    assert_non_null(r->picks);
    return true;
}

static void reference_close(struct reference *r)
{
    free(r->rows);
    lm_arena_release(&r->arena);
}

static double number(const struct lm_jval *v, const char *key, double otherwise)
{
    lm_jval_f64(lm_jval_get(v, key), &otherwise);
    return otherwise;
}

/* Unpack the row of that name into r->row; returns its length, 0 if it is not there. */
static uint32_t find_row(struct reference *r, const char *name)
{
    const struct lm_jval *v = lm_jval_get(r->cases, "rows")->first;
    while (v && strcmp(lm_jval_str(lm_jval_get(v, "name")), name))
        v = v->next;
    if (!v)
        return 0;
    size_t n = (size_t)number(v, "n", 0), at = (size_t)number(v, "offset", 0);
    bool half = !strcmp(lm_jval_str(lm_jval_get(v, "type")), "f16");
    assert_true(n <= COUNT(r->row) && at + n * (half ? 2 : 4) <= r->rows_size);
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        if (half) {
            memcpy(&h, r->rows + at + 2 * i, 2);
            r->row[i] = lm_f16_load(h);
        } else {
            memcpy(&r->row[i], r->rows + at + 4 * i, 4);
        }
    }
    return (uint32_t)n;
}

/* The reference's names of our parameters. */
static const struct {
    const char *sampler, *theirs, *option;
} names[] = {
    { "penalties", "last_n", "repeat-last-n" },  { "penalties", "repeat", "repeat-penalty" },
    { "penalties", "presence", "presence-penalty" },
    { "penalties", "frequency", "frequency-penalty" },
    { "top_k", "k", "top-k" },       { "top_p", "p", "top-p" },  { "min_p", "p", "min-p" },
    { "top_p", "min_keep", "min-keep" },  { "min_p", "min_keep", "min-keep" },
    { "temperature", "t", "temp" },  { "temperature", "range", "dynatemp-range" },
    { "temperature", "exponent", "dynatemp-exp" },
    { "top_n_sigma", "n", "top-n-sigma" },
    { "typ_p", "p", "typical" },     { "typ_p", "min_keep", "min-keep" },
    { "xtc", "probability", "xtc-probability" },
    { "xtc", "threshold", "xtc-threshold" },   { "xtc", "min_keep", "min-keep" },
    { "dry", "multiplier", "dry-multiplier" }, { "dry", "base", "dry-base" },
    { "dry", "allowed_length", "dry-allowed-length" },
    { "dry", "last_n", "dry-penalty-last-n" },
};

static double value_for(const struct lm_jval *link, const char *sampler, const struct lm_param *p)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (!strcmp(names[i].sampler, sampler) && !strcmp(names[i].option, p->option))
            return number(link->first->next, names[i].theirs, p->value);
    fail_msg("%s: no name for --%s", sampler, p->option);
    return 0;
}

static const char *link_name(const struct lm_jval *link)
{
    return lm_jval_str(link->first);
}

/* The sequences a chain's dry link has; to be released. */
static struct lm_breakers breakers_of(const struct lm_jval *parameters)
{
    const struct lm_jval *list = lm_jval_get(parameters, "breakers");
    struct lm_breakers b = { .ids = calloc(64, sizeof *b.ids), .ends = calloc(16, sizeof *b.ends) };
    size_t used = 0;
    for (list = list ? list->first : NULL; list; list = list->next) {
        for (const struct lm_jval *id = list->first; id; id = id->next) {
            int64_t x;
            assert_true(lm_jval_i64(id, &x) && used < 64 && b.n < 16);
            b.ids[used++] = (uint32_t)x;
        }
        b.ends[b.n++] = used;
    }
    return b;
}

static void release_breakers(struct lm_breakers *b)
{
    free(b->ids);
    free(b->ends);
}

/* The whole chain by lm_chain, if a command line can ask for it; else NULL. */
static struct lm_chain *make_chain(const struct lm_jval *chain, uint32_t n_vocab,
                                   const struct lm_jval *history)
{
    struct lm_sampling s = { 0 };
    struct lm_logits_head h = { .n_vocab = n_vocab };
    struct lm_buf order = { 0 };
    struct lm_breakers b = { 0 };
    struct lm_err err;
    bool good = true;
    lm_buf_str(&order, "");
    for (const struct lm_jval *k = chain->first; k; k = k->next) {
        const char *name = link_name(k);
        const struct lm_sampler *row = lm_sampler_find(name, strlen(name));
        good &= row && !strstr(order.data, name);
        for (size_t i = 0; row && row->params[i]; i++)
            good &= lm_sampling_set(&s, row->params[i], value_for(k, name, row->params[i]),
                                    &err) == LM_OK;
        lm_buf_printf(&order, "%s;", name);
        if (!strcmp(name, "dry")) {
            release_breakers(&b);
            b = breakers_of(k->first->next);
            s.breakers = &b;
        }
    }
    s.samplers = order.data;
    struct lm_chain *c = good ? lm_chain_new(&s, &h, NULL, &err) : NULL;
    for (const struct lm_jval *t = c && history ? history->first : NULL; t; t = t->next) {
        int64_t id;
        assert_true(lm_jval_i64(t, &id));
        assert_int_equal(lm_chain_accept(c, (uint32_t)id, &err), LM_OK);
    }
    lm_buf_release(&order);
    release_breakers(&b);
    return c;
}

static void check_chance(const struct lm_chance *c, size_t n, const struct lm_jval *id,
                         const struct lm_jval *p, const char *what, int64_t number_of_case)
{
    int64_t want_id;
    double want;
    assert_true(lm_jval_i64(id, &want_id) && lm_jval_f64(p, &want));
    for (size_t i = 0; i < n; i++)
        if (c[i].id == want_id) {
            if (fabs(c[i].p - want) > TOLERANCE)
                fail_msg("case %d, %s: id %d has p %.9g, not %.9g", (int)number_of_case, what,
                         (int)want_id, c[i].p, want);
            return;
        }
    if (want > TOLERANCE)
        fail_msg("case %d, %s: id %d is gone", (int)number_of_case, what, (int)want_id);
}

/* Is what is left what the reference leaves? */
static void check_left(const struct lm_chance *c, size_t n, const struct lm_jval *v,
                       const char *what)
{
    const struct lm_jval *want = lm_jval_get(v, "expect");
    int64_t id = (int64_t)number(v, "id", -1);
    bool edge = false;
    size_t want_n = (size_t)number(want, "n", 0), off = n > want_n ? n - want_n : want_n - n;
    lm_jval_bool(lm_jval_get(v, "edge"), &edge);
    if (off > (edge ? 1 : 0))
        fail_msg("case %d, %s: %zu are left, not %zu", (int)id, what, n, want_n);
    const struct lm_jval *ids = lm_jval_get(want, "ids"), *p = lm_jval_get(want, "p");
    if (ids && !edge) {
        size_t k = 0;
        p = p->first;
        for (ids = ids->first; ids; ids = ids->next, p = p->next, k++) {
            int64_t want_id;
            assert_true(lm_jval_i64(ids, &want_id));
            if (c[k].id != want_id)
                fail_msg("case %d, %s: rank %zu is id %u, not %d", (int)id, what, k, c[k].id,
                         (int)want_id);
            check_chance(c, n, ids, p, what, id);
        }
    }
    for (int list = 0; list < 2 && !edge; list++) {
        const struct lm_jval *t = lm_jval_get(want, list ? "probe" : "top");
        for (t = t ? t->first : NULL; t; t = t->next)
            check_chance(c, n, t->first, t->first->next, what, id);
    }
    double sum = 0, entropy = 0;
    for (size_t i = 0; i < n; i++) {
        sum += c[i].p;
        entropy -= c[i].p > 0 ? c[i].p * log(c[i].p) : 0;
    }
    assert_true(fabs(sum - 1) < 1e-6);
    if (lm_jval_get(want, "entropy") && !edge)
        assert_true(fabs(entropy - number(want, "entropy", 0)) < 2e-5);
}

#endif
