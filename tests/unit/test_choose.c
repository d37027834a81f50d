/* SPDX-License-Identifier: MIT */
/*
 * Choosing the positions that tokens look at, and looking at them alone: against the formulas in
 * double precision, for every instruction set of this machine.
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
#include "backend/cpu/choose.h"
#include "tensor/hadamard.h"
#include "run_graph.h"

enum { POSITIONS = 300, PAGES = (POSITIONS + LM_KV_PAGE - 1) / LM_KV_PAGE, MOST = 128 };

static uint32_t seed = 11;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void fill(float *p, size_t n, double size)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(((double)draw(1 << 24) / (1 << 23) - 1) * size);
}

static void close_to(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (fabs(b) > 1 ? fabs(b) : 1)))
        fail_msg("%.9g, wanted %.9g", a, b);
}

/* --- scores ------------------------------------------------------------------------------ */

/* Keys of one head in pages, and what they are once they are floats. */
static uint8_t *page[PAGES];
static float key[POSITIONS][MOST];

static size_t make_keys(const struct lm_type *t, size_t d, size_t block)
{
    const size_t row = (d + t->block - 1) / t->block * t->bytes + 4, off = 64;
    float x[MOST];
    for (size_t i = 0; i < PAGES; i++) {
        free(page[i]);
        assert_non_null(page[i] = malloc(off + LM_KV_PAGE * row));
        memset(page[i], 0xff, off + LM_KV_PAGE * row);
    }
    for (size_t p = 0; p < POSITIONS; p++) {
        uint8_t *dst = page[p / LM_KV_PAGE] + off + p % LM_KV_PAGE * row;
        fill(x, d, 1);
        lm_hadamard(x, d, block);
        t->encode(LM_ISA_SCALAR, x, dst, d, NULL);
        t->decode(dst, key[p], d);
        lm_hadamard(key[p], d, block);
    }
    return row;
}

static void check_scores(enum lm_isa isa, uint32_t type, size_t heads, size_t d, size_t block)
{
    const struct lm_type *t = lm_type_by_id(type);
    float q[40][MOST], shares[40], out[POSITIONS];
    const size_t row = make_keys(t, d, block);
    fill(q[0], sizeof q / sizeof **q, 1);
    fill(shares, heads, 1);
    struct lm_scoring s = {
        .q = q[0], .q_head = MOST, .shares = shares, .n_head = heads, .d = d,
        .pages = (const uint8_t *const *)page, .k_off = 64, .k_row = row, .k_type = type,
        .k_decode = t->decode, .k_block = block, .first = 64, .end = POSITIONS - 7, .out = out,
    };
    void *scratch = NULL;
    assert_int_equal(posix_memalign(&scratch, 64, lm_scoring_scratch(heads, d)), 0);
    for (size_t i = 0; i < POSITIONS; i++)
        out[i] = 1e9f;
    lm_scoring_find(isa)(&s, scratch);
    for (size_t p = 0; p < POSITIONS; p++) {
        double all = 0;
        for (size_t h = 0; h < heads; h++) {
            double sum = 0;
            for (size_t i = 0; i < d; i++)
                sum += (double)q[h][i] * (double)key[p][i];
            all += (double)shares[h] * (sum > 0 ? sum : 0);
        }
        const bool asked = p >= s.first && p < s.end;
        close_to((double)out[p], asked ? all : 1e9, 1e-5 * (double)heads);
    }
    /* A position's score is the same whatever others are asked for. */
    float again[POSITIONS];
    s.out = again;
    s.first = 192;
    s.end = 201;
    lm_scoring_find(isa)(&s, scratch);
    assert_memory_equal(again + 192, out + 192, 9 * sizeof *out);
    free(scratch);
}

static void test_scores(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)lm_isa(); isa++) {
        check_scores((enum lm_isa)isa, LM_F32, 3, 16, 0);
        check_scores((enum lm_isa)isa, LM_F32, 1, 17, 0);
        check_scores((enum lm_isa)isa, LM_F16, 40, 128, 0);
        check_scores((enum lm_isa)isa, LM_F16, 5, 24, 0);
        check_scores((enum lm_isa)isa, LM_BF16, 7, 40, 0);
        check_scores((enum lm_isa)isa, LM_Q8_0, 8, 64, 64);
        check_scores((enum lm_isa)isa, LM_Q8_0, 8, 96, 0);
    }
    for (size_t i = 0; i < PAGES; i++) {
        free(page[i]);
        page[i] = NULL;
    }
}

/* --- the best ---------------------------------------------------------------------------- */

/* One by one: the largest left, of equal ones the first. */
static void best_slowly(const float *x, size_t n, size_t k, bool *taken)
{
    memset(taken, 0, n * sizeof *taken);
    for (; k > 0; k--) {
        size_t best = n;
        for (size_t i = 0; i < n; i++)
            if (!taken[i] && (best == n || x[i] > x[best]))
                best = i;
        taken[best] = true;
    }
}

static void test_best(void **state)
{
    float x[POSITIONS];
    bool taken[POSITIONS];
    int32_t got[POSITIONS];
    (void)state;
    for (int round = 0; round < 3000; round++) {
        const size_t n = 1 + draw(POSITIONS), k = draw((uint32_t)n + 1);
        const uint32_t kind = draw(4);
        fill(x, n, kind == 0 ? 1e-30 : 10);
        for (size_t i = 0; i < n; i++) {
            x[i] = kind == 1 ? roundf(x[i]) : x[i];         /* many alike, zeros of both signs */
            x[i] = kind == 2 && draw(3) ? 0.0f : x[i];
            x[i] = kind == 3 && !draw(9) ? draw(2) ? INFINITY : -INFINITY : x[i];
        }
        best_slowly(x, n, k, taken);
        lm_choose_best(x, n, k, got);
        size_t at = 0;
        for (size_t i = 0; i < n; i++)
            if (taken[i])
                assert_int_equal(got[at++], i);
        assert_int_equal(at, k);
    }
    /* What is not a number does not make it choose more, or less. */
    for (size_t i = 0; i < POSITIONS; i++)
        x[i] = i % 3 ? (float)i : i % 2 ? NAN : -NAN;
    for (size_t k = 1; k <= POSITIONS; k++) {
        got[k - 1] = -1;
        lm_choose_best(x, POSITIONS, k, got);
        for (size_t i = 1; i < k; i++)
            assert_true(got[i] > got[i - 1]);
        assert_true(got[k - 1] >= (int32_t)k - 1 && got[k - 1] < POSITIONS);
    }
}

/* --- attention to some -------------------------------------------------------------------- */

enum { HEADS = 3, LEN = 40, VALUE = 24 };

static void attend(enum lm_isa isa, const struct lm_attn *a)
{
    void *scratch = NULL;
    assert_int_equal(posix_memalign(&scratch, 64, lm_attn_scratch(1, HEADS, LEN, VALUE)), 0);
    lm_attn_find(isa)(a, scratch);
    free(scratch);
}

static double weighted(const float *q, const int32_t *chosen, size_t n, size_t d)
{
    double top = -INFINITY, all = 0, out = 0, s[POSITIONS];
    for (size_t i = 0; i < n; i++) {
        s[i] = 0;
        for (size_t k = 0; k < LEN; k++)
            s[i] += 0.3 * (double)q[k] * (double)key[chosen[i]][k];
        top = s[i] > top ? s[i] : top;
    }
    for (size_t i = 0; i < n; i++) {
        all += exp(s[i] - top);
        out += exp(s[i] - top) * (double)key[chosen[i]][d];
    }
    return out / all;
}

/* Values are the beginnings of keys. */
static void check_attention(enum lm_isa isa, uint32_t type, size_t n)
{
    const struct lm_type *t = lm_type_by_id(type);
    float q[HEADS][LEN], out[HEADS][VALUE], whole[HEADS][VALUE];
    int32_t chosen[POSITIONS];
    const size_t row = make_keys(t, LEN, 0);
    fill(q[0], sizeof q / sizeof **q, 2);
    for (size_t i = 0, left = n; i < POSITIONS && left; i++)
        if (draw((uint32_t)(POSITIONS - i)) < left)
            chosen[n - left--] = (int32_t)i;
    struct lm_attn a = {
        .q = q[0], .q_head = LEN, .out = out[0], .out_head = VALUE, .n_tok = 1, .n_head = HEADS,
        .d_k = LEN, .d_v = VALUE, .pages = (const uint8_t *const *)page, .k_off = 64,
        .v_off = 64, .k_row = row, .v_row = row, .k_type = type, .v_type = type,
        .k_decode = t->decode, .v_decode = t->decode, .n_kv = POSITIONS, .scale = 0.3f,
        .chosen = chosen, .n_chosen = n,
    };
    attend(isa, &a);
    for (size_t h = 0; h < HEADS; h++)
        for (size_t d = 0; d < VALUE; d++)
            close_to((double)out[h][d], weighted(q[h], chosen, n, d), 1e-5);
    if (n < POSITIONS)
        return;
    a.chosen = NULL;                    /* all of them: the same bits */
    a.out = whole[0];
    attend(isa, &a);
    assert_memory_equal(whole, out, sizeof out);
}

static void test_attention(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)lm_isa(); isa++)
        for (size_t n = 1; n <= POSITIONS; n += n < 70 ? 23 : n == 208 ? 92 : 46) {
            check_attention((enum lm_isa)isa, LM_F32, n);
            check_attention((enum lm_isa)isa, LM_F16, n);
            check_attention((enum lm_isa)isa, LM_BF16, n);
        }
    for (size_t i = 0; i < PAGES; i++) {
        free(page[i]);
        page[i] = NULL;
    }
}

/* --- as nodes of a graph ------------------------------------------------------------------ */

enum { TOKENS = 150, BEST = 20, LONGEST = 140 };

/* Tokens of two sequences: the queries, shares and keys that choose, and those of attention. */
static float iq[TOKENS][HEADS][LEN], ik[TOKENS][LEN], shares[TOKENS][HEADS];
static float q[TOKENS][HEADS][LEN], k[TOKENS][LEN];
static int32_t pos[TOKENS];
static int64_t list[TOKENS];

/* Evaluate tokens from .. to - 1: what they choose, and what they get. */
static void evaluate(size_t from, size_t to, int threads, const struct lm_kv_layout kv[2],
                     int32_t (*chosen)[BEST], float (*out)[HEADS * VALUE])
{
    const size_t n = to - from, one[] = { n };
    struct lm_graph g = {0};
    struct lm_tensor *at = with_data(&g, LM_I32, 1, one, pos + from);
    struct lm_tensor *pages = with_data(&g, LM_I64, 1, one, list + from);
    const size_t keys[] = { LEN, 1, n }, queries[] = { LEN, HEADS, n }, few[] = { HEADS, n };
    struct lm_tensor *stored = lm_kv_store(&g, with_data(&g, LM_F32, 3, keys, ik[from]), NULL,
                                           pages, at, &kv[1]);
    struct lm_tensor *choice = lm_choose(
        &g, with_data(&g, LM_F32, 3, queries, iq[from]),
        with_data(&g, LM_F32, 2, few, shares[from]), pages, at, stored, &kv[1], BEST, LONGEST);
    stored = lm_kv_store(&g, with_data(&g, LM_F32, 3, keys, k[from]), NULL, pages, at, &kv[0]);
    struct lm_tensor *y = lm_attn_chosen(
        lm_attn(&g, with_data(&g, LM_F32, 3, queries, q[from]), pages, at, stored, &kv[0], 0.3f,
                0, 0), choice);
    if (!y)
        fail_msg("%s", g.err.text);
    choice->flags |= LM_TENSOR_OUTPUT;
    run_graph(&g, y, threads);
    memcpy(chosen + from, choice->data, n * sizeof *chosen);
    memcpy(out + from, y->data, n * sizeof *out);
    lm_graph_release(&g);
}

/* The tokens of token t's sequence up to itself, by their positions. */
static size_t sequence_of(size_t t, size_t *tokens)
{
    size_t n = 0;
    for (size_t i = 0; i <= t; i++)
        if (list[i] == list[t])
            tokens[n++] = i;
    return n;
}

static void check_token(size_t t, const int32_t *chosen, const float *out)
{
    size_t tokens[TOKENS], n = sequence_of(t, tokens), taken = 0;
    double score[TOKENS], least = INFINITY;
    int32_t all[TOKENS];
    for (size_t p = 0; p < n; p++) {
        score[p] = 0;
        for (size_t h = 0; h < HEADS; h++) {
            double sum = 0;
            for (size_t i = 0; i < LEN; i++)
                sum += (double)iq[t][h][i] * (double)ik[tokens[p]][i];
            score[p] += (double)shares[t][h] * (sum > 0 ? sum : 0);
        }
    }
    for (; taken < BEST && chosen[taken] >= 0; taken++) {
        assert_true(chosen[taken] < (int32_t)n && (!taken || chosen[taken] > chosen[taken - 1]));
        least = fmin(least, score[chosen[taken]]);
    }
    assert_int_equal(taken, n < BEST ? n : BEST);
    for (size_t p = 0, i = 0; p < n; p++)
        if (i < taken && chosen[i] == (int32_t)p)
            i++;
        else
            assert_true(score[p] < least + 1e-5);
    for (size_t i = 0; i < taken; i++) {
        all[i] = (int32_t)tokens[chosen[i]];
        memcpy(key[all[i]], k[all[i]], sizeof k[0]);
    }
    for (size_t h = 0; h < HEADS; h++)
        for (size_t d = 0; d < VALUE; d++)
            close_to((double)out[h * VALUE + d], weighted(q[t][h], all, taken, d), 1e-5);
}

static void test_graph(void **state)
{
    static int32_t chosen[2][TOKENS][BEST];
    static float out[2][TOKENS][HEADS * VALUE];
    const struct lm_type *f32 = lm_type_by_id(LM_F32);
    const size_t row = LEN * sizeof(float);
    const struct lm_kv_layout kv[2] = {
        { .k_type = f32, .v_type = f32, .n_head_kv = 1, .head_k = LEN, .head_v = VALUE,
          .v_in_k = true, .k_row = row, .v_row = row },
        { .k_type = f32, .v_type = f32, .n_head_kv = 1, .head_k = LEN, .v_in_k = true,
          .k_off = LM_KV_PAGE * row, .v_off = LM_KV_PAGE * row, .k_row = row, .v_row = row },
    };
    uint8_t *pages[2][(LONGEST + LM_KV_PAGE - 1) / LM_KV_PAGE];
    int32_t length[2] = { 0 };
    (void)state;
    for (size_t i = 0; i < 6; i++)
        assert_non_null(pages[i / 3][i % 3] = malloc(2 * LM_KV_PAGE * row));
    for (size_t i = 0; i < TOKENS; i++) {
        const size_t s = i > 20 && draw(6) == 0;
        list[i] = (int64_t)(uintptr_t)pages[s];
        pos[i] = length[s]++;
    }
    assert_true(length[0] <= LONGEST && length[1] > BEST / 2);
    fill(iq[0][0], sizeof iq / sizeof(float), 1);
    fill(ik[0], sizeof ik / sizeof(float), 1);
    fill(shares[0], sizeof shares / sizeof(float), 1);
    fill(q[0][0], sizeof q / sizeof(float), 1);
    fill(k[0], sizeof k / sizeof(float), 1);
    evaluate(0, TOKENS, 2, kv, chosen[0], out[0]);
    for (size_t i = 0; i < TOKENS; i++)
        check_token(i, chosen[0][i], out[0][i]);
    for (size_t from = 0, n; from < TOKENS; from += n) {     /* pieces of all sizes */
        n = from < 30 ? 1 : 2 + draw(12);
        n = n < TOKENS - from ? n : TOKENS - from;
        evaluate(from, from + n, 1 + (int)draw(3), kv, chosen[1], out[1]);
    }
    assert_memory_equal(chosen[0], chosen[1], sizeof chosen[0]);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    for (size_t i = 0; i < 6; i++)
        free(pages[i / 3][i % 3]);
}

static void test_refused(void **state)
{
    static float data[64];
    static int64_t where[2];
    static int32_t at[2];
    const struct lm_kv_layout kv = { .n_head_kv = 1, .head_k = 8, .v_in_k = true };
    const struct lm_kv_layout two = { .n_head_kv = 2, .head_k = 8, .v_in_k = true };
    const size_t n[] = { 2 };
    (void)state;
    for (int i = 0; i < 7; i++) {
        struct lm_graph g = {0};
        const size_t len = i == 1 ? 4 : 8, heads = i == 2 ? 1 : 2, tokens = i == 3 ? 1 : 2;
        struct lm_tensor *x = with_data(&g, LM_F32, 3, (size_t[]){ len, 2, 2 }, data);
        struct lm_tensor *w = with_data(&g, LM_F32, 2, (size_t[]){ heads, tokens }, data);
        struct lm_tensor *t = lm_choose(&g, x, w, with_data(&g, LM_I64, 1, n, where),
                                        with_data(&g, LM_I32, 1, n, at), x,
                                        i == 4 ? &two : &kv, i == 5 ? 0 : 3, i == 6 ? 0 : 9);
        if (i)
            assert_true(!t && g.err.code == LM_EUSE);
        else
            assert_true(t && t->ne[0] == 3 && t->ne[1] == 2 && t->type->id == LM_I32);
        lm_graph_release(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores), cmocka_unit_test(test_best),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_graph),
        cmocka_unit_test(test_refused),
    };
    const int r = cmocka_run_group_tests(tests, NULL, NULL);
    free(graph_memory);
    return r;
}
