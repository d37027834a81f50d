/* SPDX-License-Identifier: MIT */
#include "sample_cases.h"

#include <float.h>

#include "not_here.h"
#include "sample/chunk_ops.h"
#include "sample/fixed_math.h"
#include "sample/philox.h"
#include "sample/row_scan.h"

static double add_to(const void *arg, size_t i, double l)
{
    return l + ((const double *)arg)[i];
}

static void run_bias(struct lm_cands *c, const struct lm_jval *pairs)
{
    for (const struct lm_jval *p = pairs->first; p; p = p->next) {
        double id, add;
        struct lm_err err;
        assert_true(lm_jval_f64(p->first, &id) && lm_jval_f64(p->first->next, &add));
        uint32_t one = (uint32_t)id;
        assert_int_equal(lm_cands_edit(c, &one, 1, add_to, &add, &err), LM_OK);
    }
}

/* A sampler's values and state. */
struct one {
    const struct lm_sampler *row;
    double                   v[LM_SAMPLER_PARAMS];
    void                    *state;
};

static struct one one_of(const struct lm_jval *link, uint32_t n_vocab)
{
    const char *s = link_name(link);
    struct one o = { .row = lm_sampler_find(s, strlen(s)) };
    struct lm_breakers b = breakers_of(link->first->next);
    struct lm_setup setup = { .n_vocab = n_vocab, .breakers = &b };
    struct lm_err err;
    assert_non_null(o.row);
    for (size_t i = 0; o.row->params[i]; i++)
        o.v[i] = value_for(link, s, o.row->params[i]);
    if (o.row->new_state && !o.row->off(o.v))
        assert_non_null(o.state = o.row->new_state(o.v, &setup, &err));
    release_breakers(&b);
    return o;
}

/* One sampler by its row alone. */
static void run_link(struct lm_cands *c, const struct lm_jval *link, const struct lm_jval *history)
{
    static const struct lm_step step = { .seed = 1 };
    struct lm_err err;
    if (!strcmp(link_name(link), "logit_bias")) {
        run_bias(c, lm_jval_get(link->first->next, "pairs"));
        return;
    }
    struct one o = one_of(link, c->n_vocab);
    for (const struct lm_jval *h = history ? history->first : NULL; h && o.state; h = h->next) {
        int64_t id;
        assert_true(lm_jval_i64(h, &id));
        assert_int_equal(o.row->accept(o.state, (uint32_t)id, &err), LM_OK);
    }
    if (!o.row->off(o.v))
        assert_int_equal(o.row->apply(c, o.v, o.state, &step, &err), LM_OK);
    if (o.state)
        o.row->free_state(o.state);
}

static void check_case(struct reference *r, const struct lm_jval *v, uint32_t n_vocab)
{
    const struct lm_jval *chain = lm_jval_get(v, "chain"), *history = lm_jval_get(v, "history");
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = n_vocab };
    struct lm_cands c;
    struct lm_err err;
    const char *want = lm_jval_str(lm_jval_get(lm_jval_get(v, "expect"), "error"));
    struct lm_chain *whole = make_chain(chain, n_vocab, history);
    int s = whole ? lm_chain_apply(whole, &f, r->row, 0, 0, &err) : LM_OK;
    if (whole && want) {
        assert_int_equal(s, LM_EDATA);
        assert_non_null(strstr(err.text, strstr(want, "NaN") ? "id 11: the logit is NaN"
                                                             : "every logit is -inf"));
    } else if (whole) {
        size_t n;
        assert_int_equal(s, LM_OK);
        const struct lm_chance *left = lm_chain_chances(whole, 0, &n, &err);
        check_left(left, n, v, "chain");
    }
    lm_chain_free(whole);
    if (want)
        return;

    assert_int_equal(lm_cands_init(&c, n_vocab, &err), LM_OK);
    assert_int_equal(lm_cands_row(&c, r->row, &err), LM_OK);
    for (const struct lm_jval *k = chain->first; k; k = k->next)
        run_link(&c, k, history);
    double total = (double)lm_cands_weigh(&c);
    lm_cands_sort(&c, LM_BY_RANK);
    struct lm_chance *left = calloc(c.n, sizeof *left);
    for (size_t i = 0; i < c.n; i++)
        left[i] = (struct lm_chance){ c.list[i].id,
                                      lm_exp(c.list[i].l - c.list[0].l) * 0x1p40 / total };
    check_left(left, c.n, v, "samplers");
    free(left);
    lm_cands_release(&c);
}

/* Every case; how many there were. */
static int run_cases(struct reference *r)
{
    int n = 0;
    for (const struct lm_jval *v = lm_jval_get(r->cases, "cases")->first; v; v = v->next) {
        uint32_t n_vocab = find_row(r, lm_jval_str(lm_jval_get(v, "row")));
        if (n_vocab) {
            check_case(r, v, n_vocab);
            n++;
        }
    }
    return n;
}

static int run_picks(struct reference *r)
{
    int n = 0;
    for (const struct lm_jval *v = r->picks->first; v; v = v->next) {
        uint32_t n_vocab = find_row(r, lm_jval_str(lm_jval_get(v, "row")));
        struct lm_cands c;
        struct lm_err err;
        if (!n_vocab)
            continue;
        assert_int_equal(lm_cands_init(&c, n_vocab, &err), LM_OK);
        assert_int_equal(lm_cands_row(&c, r->row, &err), LM_OK);
        for (const struct lm_jval *k = lm_jval_get(v, "chain")->first; k; k = k->next)
            run_link(&c, k, NULL);
        assert_int_equal(lm_cands_pick(&c, number(v, "u", 0)), (int)number(v, "id", -1));
        lm_cands_release(&c);
        n++;
    }
    return n;
}

static void test_cases(void **state)
{
    struct reference r;
    (void)state;
    assert_true(reference_open(&r, "tests/data/sample"));
    assert_int_equal(run_cases(&r), 425);
    assert_int_equal(run_picks(&r), 53);
    reference_close(&r);
}

/* All of the reference, where it is. */
static void test_more_cases(void **state)
{
    const char *shared = getenv("LMPIPE_SHARED");
    char dir[400];
    struct reference r;
    (void)state;
    snprintf(dir, sizeof dir, "%s/fixtures/sample/samplers", shared ? shared : "../shared");
    if (!reference_open(&r, dir))
        NOT_HERE("the reference values beside the project");
    assert_true(run_cases(&r) >= 551);
    assert_true(run_picks(&r) >= 60);
    reference_close(&r);
}

/* ---- numbers ------------------------------------------------------------------------ */

static void test_philox(void **state)
{
    struct lm_arena a = { 0 };
    int n = 0;
    (void)state;
    const struct lm_jval *v = read_json(&a, "tests/data/sample", "philox4x32-10.json");
    for (v = v->first; v; v = v->next, n++) {
        uint32_t counter[4], key[2], out[4];
        const struct lm_jval *c = lm_jval_get(v, "counter")->first;
        const struct lm_jval *k = lm_jval_get(v, "key")->first;
        const struct lm_jval *o = lm_jval_get(v, "out")->first;
        int64_t x;
        for (int i = 0; i < 4; i++, c = c->next)
            counter[i] = (assert_true(lm_jval_i64(c, &x)), (uint32_t)x);
        for (int i = 0; i < 2; i++, k = k->next)
            key[i] = (assert_true(lm_jval_i64(k, &x)), (uint32_t)x);
        lm_philox(counter, key, out);
        for (int i = 0; i < 4; i++, o = o->next) {
            assert_true(lm_jval_i64(o, &x));
            assert_int_equal(out[i], x);
        }
        if (counter[2] == LM_PURPOSE_DRAW && counter[3] == 0) {
            double u = lm_uniform(key[0] | (uint64_t)key[1] << 32, counter[0], counter[1],
                                  LM_PURPOSE_DRAW);
            assert_true(u == strtod(lm_jval_str(lm_jval_get(v, "u")), NULL));
        }
    }
    assert_int_equal(n, 6);
    lm_arena_release(&a);
}

static void test_fixed_math(void **state)
{
    (void)state;
    for (double x = -700; x <= 700; x += 0.37) {
        assert_true(fabs(lm_exp(x) / exp(x) - 1) < 1e-15);
        double y = exp(x);
        assert_true(fabs(lm_ln(y) - log(y)) <= 4e-16 * fmax(1, fabs(log(y))));
    }
    for (double x = 0.5; x < 2; x += 0.0013)
        assert_true(fabs(lm_ln(x) - log(x)) < 3e-16);
    assert_true(lm_exp(0) == 1 && lm_ln(1) == 0);
    assert_true(lm_exp(-800) == 0 && lm_exp(-INFINITY) == 0 && lm_exp(800) == INFINITY);
    assert_true(lm_ln(0) == -INFINITY && lm_ln(INFINITY) == INFINITY);
    assert_true(fabs(lm_ln(0x1p-1070) + 1070 * log(2)) < 1e-12);

    assert_int_equal(lm_weight(lm_fall(0)), 1ULL << 40);
    assert_int_equal(lm_weight(-40.001f), 0);
    assert_int_equal(lm_weight(-39.999f), 1);
    assert_true(lm_weight(-INFINITY) == 0 && lm_power(-INFINITY) == 0);
    for (float f = 0; f > -40; f -= 0.0137f) {
        assert_true(fabs(lm_power(f) / ldexp(exp2((double)f), 40) - 1) < 2e-7);
        assert_true(lm_weight(f) == (uint64_t)floor(lm_power(f)));
    }
    assert_true(fabs(lm_fall(-3.7) + 3.7 / log(2)) < 1e-6);
    assert_true(lm_fall((double)3.3f - (double)17.9f) == (3.3f - 17.9f) * (float)LM_LOG2_E);
}

static uint32_t noise_state;

static float noise(void)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (float)(noise_state >> 8) * 0x1p-20f - 8;
}

/* What is found, kept and packed of entries. */
static void check_entries(const struct lm_chunk_ops *ops, const float *x)
{
    float y[LM_CHUNK], packed[LM_CHUNK], top[LM_CHUNK / LM_BLOCK];
    uint32_t at[LM_CHUNK], n = 0, tops = 0;
    const size_t found = ops->find(x, LM_CHUNK, -3, 8, at);
    ops->keep(x, LM_CHUNK, -3, 8, y, top);
    assert_int_equal(ops->pack(x, -3, 8, packed), ops->count(x, -3, 8));
    for (uint32_t i = 0; i < LM_CHUNK; i++) {
        const bool in = x[i] >= -3 && x[i] <= 8;
        assert_true(y[i] == (in ? x[i] : -INFINITY));
        assert_true(y[i] <= top[i / LM_BLOCK]);
        tops += y[i] == top[i / LM_BLOCK];
        if (in)
            assert_true(n < found && at[n] == i && packed[n] == x[i]);
        n += in;
    }
    assert_true(n == found && n == ops->count(x, -3, 8));
    assert_true(tops >= LM_CHUNK / LM_BLOCK);
}

/* Powers give logits that differ as those of the formula do. */
static void check_favor(const struct lm_chunk_ops *ops, const float *fall)
{
    float p[LM_CHUNK], y[LM_CHUNK], best[LM_CHUNK / LM_BLOCK];
    const double share = 0x1p-41, want = 0.26, base = 0.123;
    uint64_t sum = 0;
    struct lm_favor f;
    lm_favor_init(&f, share, want, base);
    const uint64_t got = ops->powers(fall, p);
    for (int i = 0; i < LM_CHUNK; i++) {
        assert_true(p[i] == (fall[i] > -INFINITY ? lm_power(fall[i]) : -1));
        sum += lm_weight(fall[i]);
    }
    assert_true(got == sum);
    ops->favor(&f, p, y, best);
    for (int i = 0; i < LM_CHUNK; i++) {
        const double chance = lm_power(fall[i]) * share;
        const double d = fabs(chance - want) / 0.3, b = base / 0.3;
        assert_true(y[i] <= best[i / LM_BLOCK]);
        if (fall[i] == -INFINITY)
            assert_true(y[i] == -INFINITY);
        else
            assert_true(fabs(p[i] - chance) < 1e-7 * chance + 1e-30 &&
                        fabs(y[i] - (10 * b * b / (1 + b) - 10 * d * d / (1 + d))) < 2e-6);
    }
    for (int b = 0; b < LM_CHUNK / LM_BLOCK; b++) {
        float top = -INFINITY;
        for (int i = b * LM_BLOCK; i < (b + 1) * LM_BLOCK; i++)
            top = fmaxf(top, y[i]);
        assert_true(best[b] == top);
    }
}

/* What of logits goes into sums, by place. */
static void check_spread(const struct lm_chunk_ops *ops, const float *x, double from)
{
    for (int square = 0; square < 2; square++) {
        double lane[LM_LANES] = { 0 }, want[LM_LANES] = { 0 };
        uint32_t n = 0;
        for (int i = 0; i < LM_CHUNK; i++)
            if (x[i] >= -9 && x[i] <= 8) {
                const double l = x[i] * 0.7;
                want[i % LM_LANES] += square ? (l - from) * (l - from) : l;
                n++;
            }
        assert_int_equal(ops->spread(x, -9, 8, 0.7, from, square, lane), n);
        assert_memory_equal(lane, want, sizeof lane);
    }
}

/* Weights, their sum and that of their products. */
static void check_weights(const struct lm_chunk_ops *ops, const float *fall)
{
    double lane[LM_LANES] = { 0 }, want[LM_LANES] = { 0 };
    uint64_t w[LM_CHUNK], sum = 0;
    const uint64_t got = ops->weigh(fall, w, lane);
    for (int i = 0; i < LM_CHUNK; i++) {
        assert_true(w[i] == lm_weight(fall[i]));
        sum += w[i];
        want[i % LM_LANES] += w[i] ? (double)w[i] * fall[i] : 0;
    }
    assert_true(got == sum && ops->weigh(fall, w, NULL) == sum);
    assert_memory_equal(lane, want, sizeof lane);
}

/* Every instruction set gives what plain C gives, by the definitions. */
static void test_chunks(void **state)
{
    const struct lm_chunk_ops *ops = lm_chunk_ops();
    float x[LM_CHUNK], fall[LM_CHUNK];
    uint32_t b[LM_CHUNK];
    (void)state;
    for (int round = 0; round < 120; round++) {
        for (int i = 0; i < LM_CHUNK; i++)
            x[i] = i == round ? -INFINITY : i == 5 ? 9 : i == 6 ? -3 : noise() * 4 - 23;
        for (int i = round; i < 40 && round % 3 == 0; i++)        /* whole blocks of candidates */
            x[i] = x[i] > -3 ? x[i] : 1;
        ops->fall(x, -3, 8, 0.7, 6.3, fall);
        for (int i = 0; i < LM_CHUNK; i++)
            assert_true(fall[i] ==
                        (x[i] >= -3 && x[i] <= 8 ? lm_fall((double)x[i] * 0.7 - 6.3) : -INFINITY));
        check_entries(ops, x);
        check_spread(ops, x, -3.7 + round * 0.1);
        ops->fall(x, -FLT_MAX, FLT_MAX, 1, 9, fall);
        for (int i = 0; i < LM_CHUNK; i++)
            assert_true(fall[i] == (x[i] > -INFINITY ? lm_fall((double)x[i] - 9) : -INFINITY));
        check_weights(ops, fall);
        check_favor(ops, fall);
        ops->fall(x, -FLT_MAX, FLT_MAX, 1e38, 9e38, fall);      /* far away, but candidates */
        for (int i = 0; i < LM_CHUNK; i++)
            assert_true(x[i] == -INFINITY ? fall[i] == -INFINITY : fall[i] >= -FLT_MAX);
        check_weights(ops, fall);
        check_favor(ops, fall);
        ops->buckets(fall, 36.9f, 1023, b);
        for (int i = 0; i < LM_CHUNK; i++)
            assert_int_equal(b[i], (uint32_t)fminf(-fall[i] * 36.9f, 1023));
    }
}

/* ---- rows --------------------------------------------------------------------------- */

static void test_row_scan(void **state)
{
    float row[200], best[8];
    (void)state;
    for (size_t n = 1; n <= COUNT(row); n++) {
        for (size_t i = 0; i < n; i++)
            row[i] = noise();
        assert_true(lm_row_scan(row, n, best));
        for (size_t b = 0; b < lm_row_blocks(n); b++) {
            float most = -INFINITY;
            for (size_t i = 32 * b; i < n && i < 32 * b + 32; i++)
                most = fmaxf(most, row[i]);
            assert_true(best[b] == most);
        }
        for (size_t i = 0; i < n; i++) {
            float old = row[i];
            row[i] = NAN;
            assert_false(lm_row_scan(row, n, best));
            row[i] = old;
        }
        row[n / 2] = -INFINITY;
        assert_true(lm_row_scan(row, n, best));
    }
}

/* ---- chains ------------------------------------------------------------------------- */

static const struct lm_param *param(const char *option)
{
    for (size_t i = 0; lm_param_at(i); i++)
        if (!strcmp(lm_param_at(i)->option, option))
            return lm_param_at(i);
    fail_msg("no parameter %s", option);
    return NULL;
}

/* A chain on a vocabulary of n, from "option=value" words; order NULL: the default. */
static struct lm_chain *chain_of(uint32_t n, uint64_t seed, const char *order, const char *words)
{
    struct lm_sampling s = { .samplers = order, .seed = seed };
    struct lm_logits_head h = { .n_vocab = n };
    struct lm_err err;
    char option[64];
    double v;
    for (int used; sscanf(words, " %63[^=]=%lf%n", option, &v, &used) == 2; words += used)
        assert_int_equal(lm_sampling_set(&s, param(option), v, &err), LM_OK);
    assert_int_equal(*words, 0);
    struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
    assert_non_null(c);
    return c;
}

static uint32_t draw_from(struct lm_chain *c, const float *row, uint32_t n, uint32_t pos)
{
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = n };
    struct lm_err err;
    assert_int_equal(lm_chain_apply(c, &f, row, 0, pos, &err), LM_OK);
    return lm_chain_draw(c);
}

/* Which of the three ids turn up in 200 draws. */
static int turn_up(const char *words)
{
    static const float row[3] = { 1, 3, 2 };
    int seen = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lm_chain *c = chain_of(3, seed, NULL, words);
        seen |= 1 << draw_from(c, row, 3, 0);
        lm_chain_free(c);
    }
    return seen;
}

/* Settings at their ends (reports of other programs freezing or drawing nonsense). */
static void test_ends(void **state)
{
    (void)state;
    assert_int_equal(turn_up("temp=0"), 2);
    assert_int_equal(turn_up("temp=-1"), 2);
    assert_int_equal(turn_up("temp=1 top-p=1 min-p=0 top-k=0"), 7);
    assert_int_equal(turn_up("temp=1 top-p=1 min-p=0 top-k=-1"), 7);
    assert_int_equal(turn_up("temp=1 top-p=1 min-p=0 top-k=5"), 7);
    assert_int_equal(turn_up("temp=1 top-p=1 min-p=0 top-k=1"), 2);
    assert_int_equal(turn_up("temp=1 top-p=0 min-p=0 top-k=0"), 2);
    assert_int_equal(turn_up("temp=1 top-p=1 min-p=1 top-k=0"), 2);
    assert_int_equal(turn_up("temp=inf top-p=1 min-p=0 top-k=0"), 7);
    assert_int_equal(turn_up("temp=1e-300 top-p=1 min-p=0 top-k=0"), 2);
    assert_int_equal(turn_up("temp=1e-309 top-p=1 min-p=0 top-k=0"), 2);    /* 3 / t overflows */
}

static struct lm_cands cands_of(const float *row, uint32_t n)
{
    struct lm_cands c;
    struct lm_err err;
    assert_int_equal(lm_cands_init(&c, n, &err), LM_OK);
    assert_int_equal(lm_cands_row(&c, row, &err), LM_OK);
    return c;
}

/* Borders are on the side that the definitions say. */
static void test_borders(void **state)
{
    static const float four[4] = { 2, 2, 2, 2 }, two[2] = { 0, 0 }, far[2] = { -100, 0 };
    static const float near[2] = { 0.7f, 0.8f };                /* 0.7f is below 0.7 */
    static const struct { double p; size_t left; } mass[] = {
        { 0, 1 }, { 0.25, 1 }, { 0.5, 2 }, { 0.5 + 1e-9, 3 }, { 0.999, 4 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(mass); i++)
        for (int list = 0; list < 2; list++) {
            struct lm_cands c = cands_of(four, 4);
            if (list)
                lm_cands_sort(&c, LM_BY_RANK);
            lm_cands_keep_mass(&c, mass[i].p, 0);
            assert_int_equal(c.n, mass[i].left);
            assert_int_equal(c.list[c.n - 1].id, c.n - 1);
            lm_cands_release(&c);
        }
    struct lm_cands c = cands_of(two, 2);
    assert_int_equal(lm_cands_pick(&c, 0.5), 1);                /* sum > u total */
    assert_int_equal(lm_cands_pick(&c, nextafter(0.5, 0)), 0);
    assert_int_equal(lm_cands_pick(&c, nextafter(1, 0)), 1);
    lm_cands_release(&c);
    c = cands_of(far, 2);
    assert_int_equal(lm_cands_pick(&c, 0), 1);                  /* weight 0 is never drawn */
    lm_cands_release(&c);
    c = cands_of(near, 2);
    lm_cands_keep_above(&c, 0.7, 0);
    assert_int_equal(c.n, 1);
    lm_cands_release(&c);
    c = cands_of(near, 2);
    lm_cands_keep_above(&c, 0.7f, 0);
    assert_int_equal(c.n, 2);
    lm_cands_release(&c);
}

/* The draw follows the probabilities, and depends on seed, sequence and position alone. */
static void test_draws(void **state)
{
    float flat[100] = { 0 };
    static const float row[3] = { 0, 0.6931472f, 1.0986123f };     /* 1 : 2 : 3 */
    static const uint64_t seeds[] = { 0, 1, UINT32_MAX, UINT64_MAX };
    int count[3] = { 0 };
    (void)state;
    struct lm_chain *c = chain_of(3, 7, "", "");
    for (uint32_t pos = 0; pos < 6000; pos++)
        count[draw_from(c, row, 3, pos)]++;
    assert_true(abs(count[0] - 1000) < 100 && abs(count[1] - 2000) < 130);
    lm_chain_free(c);

    uint32_t first[COUNT(seeds)][8];
    for (size_t i = 0; i < COUNT(seeds); i++) {
        c = chain_of(100, seeds[i], "", "");
        for (uint32_t pos = 0; pos < 8; pos++)
            first[i][pos] = draw_from(c, flat, 100, pos);
        for (uint32_t pos = 8; pos-- > 0;)                 /* backwards: the same ids */
            assert_int_equal(draw_from(c, flat, 100, pos), first[i][pos]);
        lm_chain_free(c);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(first[i], first[k], sizeof first[i]);
    }
    uint64_t a = lm_new_seed();
    assert_true(a != lm_new_seed() || a != lm_new_seed());
}

/* Ids whose weights add up in any order, a dense row and its top-k frame: one answer. */
static void test_top_frame(void **state)
{
    enum { N = 1000 };
    float row[N];
    struct lm_top top[N];
    struct lm_err err;
    (void)state;
    for (int i = 0; i < N; i++)
        row[i] = top[N - 1 - i].logit = floorf(noise() * 4) / 4;
    for (int i = 0; i < N; i++)
        top[N - 1 - i].id = (uint32_t)i;
    static const char *const words[] = {
        "", "top-k=0", "top-k=0 min-p=0", "top-k=0 min-p=0 top-p=1", "temp=0",
        "top-k=0 top-p=0.3 min-keep=200", "top-k=700 temp=3",
        "top-k=0 min-p=0 top-p=1 repeat-penalty=1.2 presence-penalty=-0.5",
        "top-k=30 frequency-penalty=-2",
    };
    for (size_t w = 0; w < COUNT(words); w++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct lm_chain *c = chain_of(N, seed, NULL, words[w]);
            for (uint32_t k = 0; k < 20; k++)
                lm_chain_accept(c, (k * k * 37 + (uint32_t)seed) % N, &err);
            uint32_t dense = draw_from(c, row, N, 1);
            struct lm_frame f = { .kind = LM_FRAME_TOP, .n = N };
            assert_int_equal(lm_chain_apply(c, &f, top, 0, 1, &err), LM_OK);
            assert_int_equal(lm_chain_draw(c), dense);
            lm_chain_free(c);
        }
}

static int apply_row(struct lm_chain *c, const float *row, uint32_t n, struct lm_err *err)
{
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = n };
    return lm_chain_apply(c, &f, row, 0, 0, err);
}

static void test_bias(void **state)
{
    struct lm_logits_head h = { .n_vocab = 4, .eog = (int32_t[]){ 1, 3 }, .n_eog = 2 };
    struct lm_sampling s = { .samplers = "", .ignore_eos = true };
    static const float row[4] = { 0, 9, 1, 9 };
    struct lm_err err;
    size_t n;
    (void)state;
    assert_int_equal(lm_sampling_bias(&s, 0, 0.75, &err), LM_OK);
    assert_int_equal(lm_sampling_bias(&s, 1, 1000, &err), LM_OK);       /* -inf wins */
    assert_int_equal(lm_sampling_bias(&s, 0, 1.25, &err), LM_OK);       /* both count */
    struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
    assert_int_equal(apply_row(c, row, 4, &err), LM_OK);
    const struct lm_chance *left = lm_chain_chances(c, 0, &n, &err);
    assert_int_equal(n, 2);
    assert_int_equal(left[0].id, 0);
    assert_true(fabs(left[0].p - 1 / (1 + exp(-1))) < 1e-9);
    lm_chain_free(c);

    assert_int_equal(lm_sampling_bias(&s, 2, -INFINITY, &err), LM_OK);
    assert_int_equal(lm_sampling_bias(&s, 0, -INFINITY, &err), LM_OK);
    c = lm_chain_new(&s, &h, NULL, &err);
    assert_int_equal(apply_row(c, row, 4, &err), LM_EDATA);
    assert_string_equal(err.text, "no token can be chosen: the logit bias leaves none");
    lm_chain_free(c);

    assert_int_equal(lm_sampling_bias(&s, 4, 1, &err), LM_OK);
    assert_null(lm_chain_new(&s, &h, NULL, &err));
    assert_int_equal(err.code, LM_EUSE);
    lm_sampling_release(&s);
}

/* A penalty lowers negative logits too; the window slides; cloning copies it. */
static void test_penalties(void **state)
{
    static const float row[2] = { -1.0f, -1.5f };
    struct lm_err err;
    (void)state;
    static const struct { const char *words; uint32_t best; } one[] = {
        { "temp=0 repeat-penalty=2 repeat-last-n=1", 1 },
        { "temp=0 repeat-penalty=2 repeat-last-n=-1", 1 },
        { "temp=0 repeat-penalty=2 repeat-last-n=0", 0 },
        { "temp=0 repeat-penalty=1.4", 0 },                  /* once, not three times */
        { "temp=0 frequency-penalty=0.2", 1 },               /* three times           */
        { "temp=0 presence-penalty=0.2", 0 },
    };
    for (size_t i = 0; i < COUNT(one); i++) {
        struct lm_chain *c = chain_of(2, 0, NULL, one[i].words);
        for (int k = 0; k < 3; k++)
            assert_int_equal(lm_chain_accept(c, 0, &err), LM_OK);
        assert_int_equal(draw_from(c, row, 2, 0), one[i].best);
        lm_chain_free(c);
    }
    struct lm_chain *c = chain_of(2, 0, NULL, "temp=0 repeat-penalty=2 repeat-last-n=2");
    for (int k = 0; k < 5; k++)
        lm_chain_accept(c, 0, &err);
    lm_chain_accept(c, 1, &err);
    struct lm_chain *copy = lm_chain_clone(c, &err);
    assert_non_null(copy);
    lm_chain_accept(c, 1, &err);                             /* id 0 leaves the window */
    assert_int_equal(draw_from(c, row, 2, 0), 0);
    assert_int_equal(draw_from(copy, row, 2, 0), 0);         /* -2 against -3          */
    lm_chain_accept(copy, 0, &err);
    lm_chain_accept(copy, 0, &err);
    assert_int_equal(draw_from(copy, row, 2, 0), 1);
    lm_chain_reset(copy);
    assert_int_equal(draw_from(copy, row, 2, 0), 0);
    lm_chain_free(copy);
    lm_chain_free(c);
}

/* The counts of a long window equal those of counting anew at each step. */
static void test_window(void **state)
{
    enum { V = 64, STEPS = 500, WINDOW = 37 };
    float row[V] = { 0 };
    uint32_t history[STEPS];
    struct lm_err err;
    size_t n;
    (void)state;
    struct lm_chain *c = chain_of(V, 0, "penalties",
                                  "frequency-penalty=0.5 repeat-last-n=37");
    for (int t = 0; t < STEPS; t++) {
        history[t] = (uint32_t)(fabsf(noise()) * 5) % V;
        assert_int_equal(lm_chain_accept(c, history[t], &err), LM_OK);
        assert_int_equal(apply_row(c, row, V, &err), LM_OK);
        double l[V] = { 0 }, sum = 0;
        for (int k = t >= WINDOW ? t - WINDOW + 1 : 0; k <= t; k++)
            l[history[k]] -= 0.5;
        for (int i = 0; i < V; i++)
            sum += exp(l[i]);
        const struct lm_chance *left = lm_chain_chances(c, 0, &n, &err);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs(left[i].p - exp(l[left[i].id]) / sum) < 1e-9);
    }
    lm_chain_free(c);
}

/* ---- what the model and the user ask for --------------------------------------------- */

struct notes {
    char text[1000];
};

static void take_note(void *user, enum lm_level level, const char *text)
{
    struct notes *n = user;
    size_t at = strlen(n->text);
    snprintf(n->text + at, sizeof n->text - at, "%c %s\n", level == LM_WARN ? 'W' : 'I', text);
}

/* What lm_chain_new notes, or its error, for a model's defaults and a user's order. */
static const char *notes_of(const char *model, const char *order, const char *option, double v)
{
    static struct notes n;
    struct lm_env env = { .user = &n, .note = take_note };
    struct lm_sampling s = { .samplers = order };
    struct lm_logits_head h = { .n_vocab = 10, .sampling = (char *)model };
    struct lm_err err;
    n.text[0] = 0;
    if (option)
        assert_int_equal(lm_sampling_set(&s, param(option), v, &err), LM_OK);
    struct lm_chain *c = lm_chain_new(&s, &h, &env, &err);
    if (!c)
        snprintf(n.text, sizeof n.text, "%d %s", err.code, err.text);
    lm_chain_free(c);
    return n.text;
}

static void test_defaults(void **state)
{
    (void)state;
    assert_string_equal(notes_of("{}", NULL, NULL, 0), "I samplers: top_k top-k=40, top_p "
        "top-p=0.95 min-keep=0, min_p min-p=0.05 min-keep=0, temperature temp=0.8 dynatemp-range=0 "
        "dynatemp-exp=1\n");
    assert_string_equal(notes_of("{\"temp\":0.5,\"top_p\":1,\"top_k\":7}", NULL, NULL, 0),
        "I samplers: top_k top-k=7, min_p min-p=0.05 min-keep=0, temperature temp=0.5 "
        "dynatemp-range=0 dynatemp-exp=1\n");
    assert_string_equal(notes_of("{\"temp\":0.5,\"min_p\":0,\"top_p\":1}", NULL, "temp", 0.25),
        "I samplers: top_k top-k=40, temperature temp=0.25 dynatemp-range=0 dynatemp-exp=1\n");
    assert_string_equal(notes_of("{\"sequence\":\"temperature;dream;top_k\",\"penalty_repeat\":2}",
                                 NULL, NULL, 0),
        "I the model's order of samplers names 'dream', which this version lacks\n"
        "I samplers: temperature temp=0.8 dynatemp-range=0 dynatemp-exp=1, top_k top-k=40\n");
    assert_string_equal(notes_of("{\"mirostat\":2,\"xtc_probability\":0,\"mirostat_tau\":7}",
                                 "", NULL, 0),
        "W --samplers has no effect: mirostat runs in their place\n"
        "I samplers: temperature temp=0.8 dynatemp-range=0 dynatemp-exp=1, "
        "mirostat mirostat=2 mirostat-ent=7 mirostat-lr=0.1\n");
    assert_string_equal(notes_of("{\"cooling\":2}", "", NULL, 0),
        "W the model asks for cooling, which this version lacks\nI samplers: none\n");
    assert_string_equal(notes_of("{}", "t;K,Top-P nucleus", "min-p", 0.1),
        "W --min-p has no effect: its sampler does not run\n"
        "I samplers: temperature temp=0.8 dynatemp-range=0 dynatemp-exp=1, top_k top-k=40, "
        "top_p top-p=0.95 min-keep=0, "
        "top_p top-p=0.95 min-keep=0\n");
    assert_string_equal(notes_of("{\"top_p\":1.5}", NULL, NULL, 0), "-1 the model's "
                        "sampling.top_p: 1.5 is out of range: not a number from 0 to 1");
    assert_string_equal(notes_of("{\"temp\":\"hot\"}", NULL, NULL, 0),
                        "-1 the model's sampling.temp is not a number");
}

static void test_ranges(void **state)
{
    static const struct { const char *option; double v; const char *why; } bad[] = {
        { "temp", NAN, "nan is out of range: not a number" },
        { "top-k", 1.5, "1.5 is out of range: not a whole number" },
        { "top-p", -0.1, "-0.1 is out of range: not a number from 0 to 1" },
        { "min-p", -0.1, "-0.1 is out of range: not a number not below 0" },
        { "repeat-penalty", 0, "0 is out of range: not a number above 0" },
        { "repeat-penalty", INFINITY, "inf is out of range: not a number above 0" },
        { "repeat-last-n", -2, "-2 is out of range: not a whole number not below -1" },
        { "repeat-last-n", 1e11,
          "1e+11 is out of range: not a whole number from -1 to 2147483647" },
        { "presence-penalty", INFINITY, "inf is out of range: not a finite number" },
    };
    struct lm_sampling s = { 0 };
    struct lm_err err;
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(lm_sampling_set(&s, param(bad[i].option), bad[i].v, &err), LM_EUSE);
        const size_t at = strlen("--") + strlen(bad[i].option) + strlen(": ");
        if (strlen(err.text) < at || strcmp(err.text + at, bad[i].why))
            fail_msg("%s", err.text);
    }
    assert_int_equal(s.n_values, 0);
    assert_int_equal(lm_sampling_check_order("top_k;xyz", &err), LM_EUSE);
    assert_string_equal(err.text,
                        "'xyz' is not one of penalties, dry, top_n_sigma, top_k, typ_p, top_p, "
                        "min_p, xtc, temperature, adaptive_p, infill");
    for (size_t i = 0; lm_param_at(i); i++)                     /* defaults are in range */
        assert_int_equal(lm_param_check(lm_param_at(i), lm_param_at(i)->value, &err), LM_OK);
}

/* Frames that are no logits of this vocabulary. */
static void test_odd_frames(void **state)
{
    static const float row[3] = { 0, 1, 2 };
    struct lm_chain *c = chain_of(3, 0, NULL, "");
    struct lm_frame f = { .kind = LM_FRAME_VECTOR, .n = 3 };
    struct lm_err err;
    (void)state;
    assert_int_equal(lm_chain_apply(c, &f, row, 0, 0, &err), LM_EDATA);
    f = (struct lm_frame){ .kind = LM_FRAME_DENSE, .n = 2 };
    assert_int_equal(lm_chain_apply(c, &f, row, 0, 0, &err), LM_EDATA);
    static const struct lm_top top[] = { { 2, 1 }, { 3, 0 } }, nan[] = { { 1, NAN } };
    f = (struct lm_frame){ .kind = LM_FRAME_TOP, .n = 2 };
    assert_int_equal(lm_chain_apply(c, &f, top, 0, 1, &err), LM_EDATA);
    f.n = 1;
    assert_int_equal(lm_chain_apply(c, &f, nan, 0, 0, &err), LM_EDATA);
    f.n = 0;
    assert_int_equal(lm_chain_apply(c, &f, top, 0, 1, &err), LM_EDATA);
    lm_chain_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),       cmocka_unit_test(test_more_cases),
        cmocka_unit_test(test_philox),      cmocka_unit_test(test_fixed_math),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_row_scan),    cmocka_unit_test(test_ends),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_draws),       cmocka_unit_test(test_top_frame),
        cmocka_unit_test(test_bias),        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_window),      cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_ranges),      cmocka_unit_test(test_odd_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
