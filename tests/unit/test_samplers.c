/* SPDX-License-Identifier: MIT */
/* Samplers that remember: mirostat, adaptive_p, penalties and dry over a growing history; and
 * those that read texts: dry's breakers, infill. */
#include "sample_cases.h"

#include "not_here.h"
#include "sample/dry_breakers.h"
#include "sample/fixed_math.h"

/* Is what is left in c what v expects? */
static void check_cands(struct lm_cands *c, const struct lm_jval *v, const char *what)
{
    double total = (double)lm_cands_weigh(c);
    lm_cands_sort(c, LM_BY_RANK);
    struct lm_chance *left = calloc(c->n, sizeof *left);
    for (size_t i = 0; i < c->n; i++)
        left[i] = (struct lm_chance){ c->list[i].id,
                                      lm_exp(c->list[i].l - c->max) * 0x1p40 / total };
    check_left(left, c->n, v, what);
    free(left);
}

static uint32_t token_of(const struct lm_jval *step)
{
    return (uint32_t)number(step, "token", 0);
}

/* A run of a sampler that learns from what was chosen: the choices are given. */
static void run_feedback(struct reference *r, const struct lm_sampler *row, const double *v,
                         const struct lm_jval *run)
{
    static const struct lm_step at = { .seed = 1 };
    const struct lm_jval *steps = lm_jval_get(run, "steps")->first;
    struct lm_setup setup = { .n_vocab = (uint32_t)number(run, "n_vocab", 1000) };
    struct lm_err err;
    void *state = row->new_state(v, &setup, &err);
    assert_non_null(state);
    for (int twice = 0; twice < 2; twice++, row->reset(state))
        for (const struct lm_jval *s = steps; s; s = s->next) {
            uint32_t n = find_row(r, lm_jval_str(lm_jval_get(s, "row"))), id = token_of(s);
            struct lm_cands c, all;       /* some choices are not among those left */
            assert_int_equal(lm_cands_init(&c, n, &err), LM_OK);
            assert_int_equal(lm_cands_init(&all, n, &err), LM_OK);
            assert_int_equal(lm_cands_row(&c, r->row, &err), LM_OK);
            assert_int_equal(lm_cands_row(&all, r->row, &err), LM_OK);
            assert_int_equal(row->apply(&c, v, state, &at, &err), LM_OK);
            row->drawn(state, &all, (id + 1) % n);              /* drawn, and drawn again */
            row->drawn(state, &all, id);
            check_cands(&c, s, row->name);
            void *copy = row->clone(state);
            assert_non_null(copy);
            row->free_state(state);
            state = copy;
            assert_int_equal(row->accept(state, id, &err), LM_OK);
            assert_int_equal(row->accept(state, id, &err), LM_OK);      /* given, not drawn */
            lm_cands_release(&c);
            lm_cands_release(&all);
        }
    row->free_state(state);
}

static int run_mirostat(struct reference *r, const char *dir)
{
    const struct lm_jval *runs = read_json(&r->arena, dir, "mirostat.json");
    int n = 0;
    for (runs = runs->first; runs; runs = runs->next, n++) {
        const double v[] = { number(runs, "version", 0), number(runs, "tau", 0),
                             number(runs, "eta", 0) };
        run_feedback(r, &lm_mirostat, v, runs);
    }
    return n;
}

static int run_adaptive_p(struct reference *r, const char *dir)
{
    const struct lm_jval *runs = read_json(&r->arena, dir, "adaptive-p.json");
    int n = 0;
    for (runs = runs->first; runs; runs = runs->next, n++) {
        const double v[] = { number(runs, "target", 0), number(runs, "decay", 0) };
        run_feedback(r, lm_sampler_find("adaptive_p", 10), v, runs);
    }
    return n;
}

/* A history that grows by a token a step. */
static void run_growing(struct reference *r, const struct lm_jval *run)
{
    const struct lm_jval *chain = lm_jval_get(run, "chain");
    uint32_t n = find_row(r, lm_jval_str(lm_jval_get(run, "row")));
    struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = n };
    struct lm_err err;
    size_t left;
    struct lm_chain *c = make_chain(chain, n, lm_jval_get(run, "prompt"));
    assert_non_null(c);
    for (const struct lm_jval *s = lm_jval_get(run, "steps")->first; s; s = s->next) {
        struct lm_chain *copy = lm_chain_clone(c, &err);
        assert_non_null(copy);
        lm_chain_free(c);
        c = copy;
        assert_int_equal(lm_chain_apply(c, &f, r->row, 0, 0, &err), LM_OK);
        const struct lm_chance *chances = lm_chain_chances(c, 0, &left, &err);
        check_left(chances, left, s, "history");
        assert_int_equal(lm_chain_accept(c, token_of(s), &err), LM_OK);
    }
    lm_chain_free(c);
}

static int run_histories(struct reference *r, const char *dir)
{
    const struct lm_jval *runs = read_json(&r->arena, dir, "history.json");
    int n = 0;
    for (runs = runs->first; runs; runs = runs->next, n++)
        run_growing(r, runs);
    return n;
}

static void test_memories(void **state)
{
    struct reference r;
    (void)state;
    assert_true(reference_open(&r, "tests/data/sample"));
    assert_int_equal(run_mirostat(&r, "tests/data/sample"), 4);
    assert_int_equal(run_adaptive_p(&r, "tests/data/sample"), 4);
    assert_int_equal(run_histories(&r, "tests/data/sample"), 3);
    reference_close(&r);
}

/* All of the reference, where it is. */
static void test_more_memories(void **state)
{
    const char *shared = getenv("LMPIPE_SHARED");
    char dir[400];
    struct reference r;
    (void)state;
    snprintf(dir, sizeof dir, "%s/fixtures/sample/samplers", shared ? shared : "../shared");
    if (!reference_open(&r, dir))
        NOT_HERE("the reference values beside the project");
    assert_true(run_mirostat(&r, dir) >= 8);
    assert_true(run_adaptive_p(&r, dir) >= 8);
    reference_close(&r);
}

/* ---- dry, by its definition ---------------------------------------------------------- */

static uint32_t noise_state = 7;

static uint32_t noise(uint32_t below)
{
    noise_state = noise_state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)noise_state * below >> 32);
}

/* Tokens after the latest breaker of w [n]: the definition, step by step. */
static int limit_of(const uint32_t *w, int n, const struct lm_breakers *b)
{
    for (int i = 0; i < n; i++) {
        int best = -1;
        for (size_t k = 0; k < b->n; k++) {
            const size_t at = k ? b->ends[k - 1] : 0;
            const int len = (int)(b->ends[k] - at);
            if (len - 1 <= i && !memcmp(w + n - 1 - i, b->ids + at, (size_t)len * sizeof *w) &&
                len - 1 > best)
                best = len - 1;
        }
        if (best >= 0)
            return i - best;
    }
    return n;
}

/* What dry subtracts from each of v ids, by comparing everything with everything. */
static void slow_dry(const uint32_t *w, int n, int allowed, const struct lm_breakers *b,
                     double *off, uint32_t v)
{
    const int limit = limit_of(w, n, b);
    int longest[16] = { 0 };
    for (int i = 1; i < n; i++) {
        int m = 0;
        while (m < i && m < limit && w[i - 1 - m] == w[n - 1 - m])
            m++;
        if (m >= allowed && m > longest[w[i]])
            longest[w[i]] = m;
    }
    for (size_t k = 0; k < b->n; k++)
        if (b->ends[k] - (k ? b->ends[k - 1] : 0) == 1)
            longest[b->ids[b->ends[k] - 1]] = 0;
    for (uint32_t id = 0; id < v; id++)
        off[id] = longest[id] && limit >= allowed ? 0.5 * pow(1.25, longest[id] - allowed) : 0;
}

static void test_dry(void **state)
{
    enum { V = 6, N = 120 };
    static const char *const last_n[] = { "-1", "17" };
    uint32_t breaker_ids[] = { 5, 4, 0, 4, 1, 1 };
    size_t ends[] = { 1, 3, 6 };
    struct lm_breakers b = { breaker_ids, ends, 3, 6, 3 };
    float row[V] = { 0 };
    double off[V];
    struct lm_err err;
    size_t left;
    (void)state;
    for (int run = 0; run < 12; run++) {
        struct lm_sampling s = { .samplers = "dry", .breakers = &b };
        struct lm_logits_head h = { .n_vocab = V };
        const struct lm_sampler *dry = lm_sampler_find("dry", 3);
        const int allowed = 1 + run % 3, window = atoi(last_n[run % 2]);
        const double v[] = { 0.5, 1.25, allowed, window };
        uint32_t w[N];
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(lm_sampling_set(&s, dry->params[i], v[i], &err), LM_OK);
        struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
        struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = V };
        assert_non_null(c);
        for (int n = 0; n < N; n++) {
            w[n] = noise(8) < 7 && n > 6 ? w[n - 5] : noise(V);
            assert_int_equal(lm_chain_accept(c, w[n], &err), LM_OK);
            assert_int_equal(lm_chain_apply(c, &f, row, 0, 0, &err), LM_OK);
            const struct lm_chance *p = lm_chain_chances(c, 0, &left, &err);
            const int from = window > 0 && n + 1 > window ? n + 1 - window : 0;
            double sum = 0;
            slow_dry(w + from, n + 1 - from, allowed, &b, off, V);
            for (int i = 0; i < V; i++)
                sum += exp(-off[i]);
            for (size_t i = 0; i < left; i++)
                assert_true(fabs(p[i].p - exp(-off[p[i].id]) / sum) < 1e-9);
        }
        lm_chain_free(c);
    }
}

/* ---- texts --------------------------------------------------------------------------- */

/* A whole number of an array. */
static uint32_t whole(const struct lm_jval *v)
{
    int64_t x;
    assert_true(lm_jval_i64(v, &x));
    return (uint32_t)x;
}

/* Breakers of a small vocabulary, found by looking at every token anew. */
static void test_breakers(void **state)
{
    static const char *const texts[] = { "e", " the", "th", ".\n", "ing and" };
    struct lm_err err;
    (void)state;
    struct lm_vocab *v = lm_vocab_open("tests/data/m.gguf", NULL, &err);
    assert_non_null(v);
    for (size_t t = 0; t < COUNT(texts); t++) {
        const size_t len = strlen(texts[t]);
        struct lm_breakers b = { 0 };
        size_t n = 0, at = 0;
        assert_int_equal(lm_breakers_add(&b, v, texts[t], len, &err), LM_OK);
        for (uint32_t id = 0; id < lm_vocab_n(v); id++) {
            char piece[200];
            const struct lm_str p = lm_vocab_piece(v, id);
            snprintf(piece, sizeof piece, "%.*s", (int)p.len, p.p);
            if (strstr(piece, texts[t])) {
                assert_true(b.ids[at] == id && b.ends[n] == at + 1);
                at = b.ends[n++];
                continue;
            }
            for (size_t k = len; k-- > 1;) {
                struct lm_ids tail = { 0 };
                if (p.len < k || strncmp(piece + p.len - k, texts[t], k))
                    continue;
                assert_int_equal(lm_vocab_encode(v, texts[t] + k, len - k, 0, &tail, &err), LM_OK);
                assert_true(b.ids[at] == id && b.ends[n] == at + 1 + tail.n);
                for (size_t i = 0; i < tail.n; i++)
                    assert_int_equal(b.ids[at + 1 + i], tail.id[i]);
                at = b.ends[n++];
                lm_ids_release(&tail);
            }
        }
        assert_true(n > 0 && b.n == n);
        lm_breakers_release(&b);
    }
    lm_vocab_free(v);
}

/* SmolLM2's vocabulary and the reference, where they are. */
static struct lm_vocab *smollm2(const struct lm_jval **cases, const char *file, struct lm_arena *a)
{
    const char *shared = getenv("LMPIPE_SHARED"), *model = getenv("LMPIPE_MODEL");
    char dir[400], path[400];
    struct lm_err err;
    snprintf(dir, sizeof dir, "%s/fixtures/sample/samplers", shared ? shared : "../shared");
    snprintf(path, sizeof path, "%s/.cache/lmpipe/SmolLM2-135M-Instruct.Q4_1.gguf",
             getenv("HOME") ? getenv("HOME") : "");
    *cases = read_json(a, dir, file);
    return *cases ? lm_vocab_open(model ? model : path, NULL, &err) : NULL;
}

/* Is sequence i among those before it? */
static bool repeated(const struct lm_breakers *b, size_t i)
{
    const uint32_t *x = b->ids + (i ? b->ends[i - 1] : 0);
    const size_t len = (size_t)(b->ids + b->ends[i] - x);
    for (size_t k = 0; k < i; k++) {
        const uint32_t *y = b->ids + (k ? b->ends[k - 1] : 0);
        if ((size_t)(b->ids + b->ends[k] - y) == len && !memcmp(x, y, len * sizeof *x))
            return true;
    }
    return false;
}

static void check_breakers(const struct lm_vocab *v, const struct lm_jval *want)
{
    struct lm_breakers b = { 0 };
    struct lm_err err;
    size_t single = 0, n = 0;
    for (const struct lm_jval *t = lm_jval_get(want, "breakers")->first; t; t = t->next) {
        const char *text = lm_jval_str(t);
        assert_int_equal(lm_breakers_add(&b, v, text, strlen(text), &err), LM_OK);
    }
    const struct lm_jval *longer = lm_jval_get(want, "longer")->first;
    for (size_t i = 0; i < b.n; i++) {
        size_t at = i ? b.ends[i - 1] : 0;
        if (repeated(&b, i))
            continue;
        n++;
        single += b.ends[i] - at == 1;
        if (b.ends[i] - at == 1 || !longer)
            continue;
        for (const struct lm_jval *id = longer->first; id; id = id->next, at++)
            assert_int_equal(b.ids[at], whole(id));
        longer = longer->next;
    }
    assert_null(longer);
    assert_int_equal(n, (size_t)number(want, "n_sequences", 0));
    assert_int_equal(single, (size_t)number(want, "n_single", 0));
    lm_breakers_release(&b);
}

/* From text to penalty: breakers, history and what a token loses. */
static void check_dry_text(const struct lm_vocab *v, const struct lm_jval *want)
{
    const struct lm_sampler *dry = lm_sampler_find("dry", 3);
    const double values[] = { number(want, "multiplier", 0), number(want, "base", 0),
                              number(want, "allowed_length", 0), number(want, "last_n", 0) };
    struct lm_breakers b = { 0 };
    struct lm_err err;
    float *row = calloc(lm_vocab_n(v), sizeof *row);
    for (const struct lm_jval *t = lm_jval_get(want, "breakers")->first; t; t = t->next) {
        const char *text = lm_jval_str(t);
        assert_int_equal(lm_breakers_add(&b, v, text, strlen(text), &err), LM_OK);
    }
    const struct lm_setup setup = { .n_vocab = lm_vocab_n(v), .breakers = &b };
    void *s = dry->new_state(values, &setup, &err);
    for (const struct lm_jval *h = lm_jval_get(want, "history")->first; h; h = h->next)
        assert_int_equal(dry->accept(s, whole(h), &err), LM_OK);
    struct lm_cands c;
    assert_int_equal(lm_cands_init(&c, setup.n_vocab, &err), LM_OK);
    assert_int_equal(lm_cands_row(&c, row, &err), LM_OK);
    assert_int_equal(dry->apply(&c, values, s, &(struct lm_step){ 0 }, &err), LM_OK);
    for (uint32_t id = 0; id < setup.n_vocab; id++) {
        char key[20];
        snprintf(key, sizeof key, "%u", (unsigned)id);
        const double penalty = number(lm_jval_get(want, "penalty"), key, 0);
        assert_true(fabs(lm_cands_logit(&c, id) + penalty) < 1e-9);
    }
    lm_cands_release(&c);
    dry->free_state(s);
    lm_breakers_release(&b);
    free(row);
}

/* The second element of a pair. */
static double second(const struct lm_jval *pair)
{
    double x;
    assert_true(lm_jval_f64(pair->first->next, &x));
    return x;
}

static void check_infill(const struct lm_vocab *v, const struct lm_jval *want)
{
    const struct lm_sampler *infill = lm_sampler_find("infill", 6);
    const uint32_t n = lm_vocab_n(v);
    struct lm_setup setup = { .n_vocab = n, .vocab = v };
    float *row = malloc(n * sizeof *row);
    struct lm_cands c;
    struct lm_err err;
    setup.eog = lm_vocab_eog(v, &setup.n_eog);
    for (uint32_t i = 0; i < n; i++)
        row[i] = -INFINITY;
    for (const struct lm_jval *k = lm_jval_get(want, "candidates")->first; k; k = k->next)
        row[whole(k->first)] = (float)second(k);
    void *s = infill->new_state(NULL, &setup, &err), *copy = infill->clone(s);
    infill->free_state(s);
    assert_int_equal(lm_cands_init(&c, n, &err), LM_OK);
    assert_int_equal(lm_cands_row(&c, row, &err), LM_OK);
    assert_int_equal(infill->apply(&c, NULL, copy, &(struct lm_step){ 0 }, &err), LM_OK);
    double total = (double)lm_cands_weigh(&c);
    size_t count = 0;
    for (const struct lm_jval *k = lm_jval_get(want, "expect")->first; k; k = k->next, count++) {
        int64_t id;
        const uint32_t expected = lm_jval_i64(k->first, &id) ? (uint32_t)id
                                                             : (uint32_t)lm_vocab_eos(v);
        double p = lm_exp(lm_cands_logit(&c, expected) - c.max) * 0x1p40 / total;
        assert_true(fabs(p - second(k)) < TOLERANCE);
    }
    assert_int_equal(c.n, count);
    lm_cands_release(&c);
    infill->free_state(copy);
    free(row);
}

static void test_texts(void **state)
{
    struct lm_arena a = { 0 };
    const struct lm_jval *cases;
    (void)state;
    struct lm_vocab *v = smollm2(&cases, "dry-text.json", &a);
    if (!v)
        NOT_HERE("the reference values beside the project, or SmolLM2");
    for (const struct lm_jval *c = cases->first; c; c = c->next) {
        check_breakers(v, c);
        check_dry_text(v, c);
    }
    lm_vocab_free(v);
    v = smollm2(&cases, "infill.json", &a);
    for (const struct lm_jval *c = cases->first; c; c = c->next)
        check_infill(v, c);
    lm_vocab_free(v);
    lm_arena_release(&a);
}

/* ---- chances ------------------------------------------------------------------------- */

/* xtc fires with its chance, and its random numbers are not those of the draw. */
static void test_xtc_chance(void **state)
{
    static const float row[4] = { 2, 1.9f, 1.8f, -3 };
    const struct lm_sampler *xtc = lm_sampler_find("xtc", 3);
    struct lm_err err;
    (void)state;
    for (int quarter = 0; quarter <= 4; quarter++) {
        const double v[] = { quarter * 0.25, 0.1, 0 };
        int fired = 0;
        for (uint32_t pos = 0; pos < 4000; pos++) {
            const struct lm_step at = { .seed = 3, .seq = 1, .pos = pos };
            struct lm_cands c;
            assert_int_equal(lm_cands_init(&c, 4, &err), LM_OK);
            assert_int_equal(lm_cands_row(&c, row, &err), LM_OK);
            assert_int_equal(xtc->apply(&c, v, NULL, &at, &err), LM_OK);
            lm_cands_list(&c);
            assert_true(c.n == 4 || (c.n == 2 && c.list[0].id == 2 && c.list[1].id == 3));
            fired += c.n == 2;
            lm_cands_release(&c);
        }
        assert_true(abs(fired - 1000 * quarter) <= (quarter % 4 ? 110 : 0));
    }
    assert_true(lm_uniform(3, 5, 1, LM_PURPOSE_XTC) != lm_uniform(3, 5, 1, LM_PURPOSE_DRAW));
}

/* Every sampler: the same candidates from a row and from its top-k frame, and after a cut that
 * makes a list. */
static void test_row_and_list(void **state)
{
    enum { N = 3000 };
    static const struct { const char *name; double v[4]; } each[] = {
        { "top_n_sigma", { 0.7 } },  { "typ_p", { 0.6, 0 } },  { "typ_p", { 0.4, 1500 } },
        { "xtc", { 1, 0.001, 0 } },  { "temperature", { 0.8, 0.5, 1.5 } }, { "top_p", { 0.7, 0 } },
        { "adaptive_p", { 0.3, 0.9 } }, { "temperature", { 1.7, 0, 1 } }, { "min_p", { 0.01, 0 } },
        { "top_k", { 77 } },
    };
    static float row[N];
    static struct lm_top top[N];
    const struct lm_step at = { .seed = 1 };
    struct lm_cands c[2];
    struct lm_err err;
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        row[i] = (float)noise(4096) / 256 - 9;
        top[(i * 7) % N] = (struct lm_top){ i, row[i] };
    }
    for (int k = 0; k < 2; k++)
        assert_int_equal(lm_cands_init(&c[k], N, &err), LM_OK);
    for (size_t e = 0; e < COUNT(each); e++) {
        const struct lm_sampler *row_of = lm_sampler_find(each[e].name, strlen(each[e].name));
        for (int k = 0; k < 2; k++) {
            const struct lm_setup setup = { .n_vocab = N };
            void *s = row_of->new_state ? row_of->new_state(each[e].v, &setup, &err) : NULL;
            assert_int_equal(k ? lm_cands_top(&c[k], top, N, &err) : lm_cands_row(&c[k], row, &err),
                             LM_OK);
            assert_int_equal(row_of->apply(&c[k], each[e].v, s, &at, &err), LM_OK);
            if (s)
                row_of->free_state(s);
        }
        assert_int_equal(lm_cands_count(&c[0]), lm_cands_count(&c[1]));
        for (double u = 0; u < 1; u += 0.037)
            assert_int_equal(lm_cands_pick(&c[0], u), lm_cands_pick(&c[1], u));
        for (int k = 0; k < 2; k++)
            lm_cands_sort(&c[k], LM_BY_ID);
        for (size_t i = 0; i < c[0].n; i++)
            assert_true(c[0].list[i].id == c[1].list[i].id &&
                        fabs(c[0].list[i].l - c[1].list[i].l) < 1e-12);
    }
    for (int k = 0; k < 2; k++)
        lm_cands_release(&c[k]);
}

/* Logits as small as floats get, beside ordinary ones: their distances to what is typical are all
 * the same number, and so are those of every float between them. */
static void test_tiny_logits(void **state)
{
    static float row[300];
    const struct lm_sampler *typ_p = lm_sampler_find("typ_p", 5);
    struct lm_err err;
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2)
        for (double p = 0.05; p < 1; p += 0.1) {
            const double v[] = { p, 0 };
            struct lm_cands c;
            for (uint32_t i = 0; i < COUNT(row); i++)
                row[i] = i % 3 ? (float)sign * 1e-40f * (float)i : (float)(i % 7);
            assert_int_equal(lm_cands_init(&c, COUNT(row), &err), LM_OK);
            assert_int_equal(lm_cands_row(&c, row, &err), LM_OK);
            assert_int_equal(typ_p->apply(&c, v, NULL, &(struct lm_step){ 0 }, &err), LM_OK);
            assert_false(lm_cands_empty(&c));
            lm_cands_release(&c);
        }
}

/* mirostat runs with temperature alone, adaptive_p last, whatever the list. */
static void test_choosers(void **state)
{
    static const float row[4] = { 3, 2, 1, 0 };
    const struct lm_frame f = { .kind = LM_FRAME_DENSE, .n = 4 };
    struct lm_logits_head h = { .n_vocab = 4 };
    struct lm_err err;
    size_t n;
    (void)state;
    struct lm_sampling s = { .samplers = "top_k" };
    lm_sampling_set(&s, lm_sampler_find("top_k", 5)->params[0], 1, &err);
    lm_sampling_set(&s, lm_mirostat.params[0], 2, &err);
    struct lm_chain *c = lm_chain_new(&s, &h, NULL, &err);
    assert_int_equal(lm_chain_apply(c, &f, row, 0, 0, &err), LM_OK);
    assert_true(lm_chain_chances(c, 0, &n, &err) && n == 4);           /* top_k did not run */
    lm_chain_free(c);

    struct lm_sampling t = { .samplers = "adaptive_p;top_k" };
    lm_sampling_set(&t, lm_sampler_find("top_k", 5)->params[0], 2, &err);
    lm_sampling_set(&t, lm_sampler_find("a", 1)->params[0], 0.2, &err);
    c = lm_chain_new(&t, &h, NULL, &err);
    assert_int_equal(lm_chain_apply(c, &f, row, 0, 0, &err), LM_OK);
    const struct lm_chance *p = lm_chain_chances(c, 0, &n, &err);
    assert_true(n == 2 && p[0].id == 1);      /* of 0.73 and 0.27, the nearer to 0.2 is first */
    lm_chain_free(c);
    assert_null(lm_sampler_find("mirostat", 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memories),   cmocka_unit_test(test_more_memories),
        cmocka_unit_test(test_dry),        cmocka_unit_test(test_breakers),
        cmocka_unit_test(test_texts),      cmocka_unit_test(test_xtc_chance),
        cmocka_unit_test(test_row_and_list), cmocka_unit_test(test_choosers),
        cmocka_unit_test(test_tiny_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
