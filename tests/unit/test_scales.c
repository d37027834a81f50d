/* SPDX-License-Identifier: MIT */
/* Scales that sequences have of their own: what they give in one batch is, to the bit, what
 * contexts give that were adapted with those scales. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "model/model.h"
#include "low_rank.h"
#include "open_model.h"
#include "state_file.h"

#define LLAMA "tests/data/m.gguf"
enum { CTX = 400, SEQS = 5, N = 2 };

static struct lm_ctx *context(struct lm_model *m)
{
    struct lm_ctx_options o = { .n_ctx = CTX, .n_batch = 64, .n_ubatch = 32 };
    return open_context(m, &o);
}

static struct lm_adapter *read_adapter(struct lm_model *m)
{
    struct lm_adapter *a = lm_adapter_load(m, path, &err);
    if (!a)
        fail_msg("%s", err.text);
    return a;
}

/* What the tests adapt with: products of all tokens and of those that are wanted, and a table; of
 * several ranks, also in one; perhaps one that waits. */
static const uint32_t invocation[] = { 300, 301 };
static struct lm_model *model;
static struct lm_adapter *adapters[N];
static const float usual[N] = { 0.7f, -0.3f };

static void start(bool waits)
{
    static const struct low_rank first[] = {
        { "blk.0.attn_q.weight", 128, 128, 3, false },
        { "blk.1.ffn_down.weight", 128, 128, 5, false },
        { "output.weight", 128, 368, 3, false }, { "token_embd.weight", 128, 368, 3, true },
    };
    static const struct low_rank second[] = {
        { "blk.0.attn_v.weight", 128, 64, 2, false },
        { "blk.1.ffn_up.weight", 128, 128, 2, false }, { "output.weight", 128, 368, 2, false },
    };
    model = open_model(LLAMA, NULL);
    write_low_rank(path, "llama", 1, 7, first, 4, NULL, 0);
    adapters[0] = read_adapter(model);
    write_low_rank(path, "llama", 2, 90, second, 3, invocation, waits ? 2 : 0);
    adapters[1] = read_adapter(model);
}

static void stop(void)
{
    for (int i = 0; i < N; i++)
        lm_adapter_free(adapters[i]);
    lm_model_free(model);
}

static void adapt(struct lm_ctx *c, const float *scales)
{
    const struct lm_adapted list[N] = { { .adapter = adapters[0], .scale = scales[0] },
                                        { .adapter = adapters[1], .scale = scales[1] } };
    must(lm_ctx_adapt(c, list, N, &err));
}

static struct lm_ctx *adapted(const float *scales)
{
    struct lm_ctx *c = context(model);
    adapt(c, scales);
    return c;
}

static int32_t id_at(uint32_t pos, uint32_t seq)
{
    return (int32_t)((pos * 37 + seq * 101 + pos * pos % 11) % 250);
}

/* Tokens of a sequence, the last `want` of them wanted. */
static size_t tokens(struct lm_batch_token *t, uint32_t seq, uint32_t from, uint32_t to,
                     uint32_t want)
{
    for (uint32_t pos = from; pos < to; pos++)
        *t++ = (struct lm_batch_token){ id_at(pos, seq), seq, pos, pos + want >= to };
    return to - from;
}

/* A sequence goes on to `to` tokens; the logits after the last. */
static const float *go_on(struct lm_ctx *c, uint32_t seq, uint32_t to)
{
    struct lm_batch_token t[64];
    const size_t n = tokens(t, seq, lm_ctx_seq_len(c, seq), to, 1);
    must(lm_ctx_decode(c, t, n, &err));
    return lm_ctx_logits(c, n - 1);
}

static void same(const float *a, const float *b)
{
    assert_true(a && b);
    assert_memory_equal(a, b, lm_model_n_vocab(model) * sizeof *a);
}

/* The sequences of a batch: those with the context's scales, others, and none at all. */
static const float own[SEQS][N] = {
    { 0.7f, -0.3f }, { 0.5f, -2 }, { 0, 0 }, { 1.25f, 0 }, { 0, 1e-3f },
};

static void set_own(struct lm_ctx *c)
{
    for (uint32_t s = 1; s < SEQS; s++)
        must(lm_ctx_seq_set_scales(c, s, own[s], N, &err));
}

static void test_neighbours(void **state)
{
    struct lm_batch_token t[64];
    struct lm_ctx *alone[SEQS], *plain;
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual);
    plain = context(model);
    set_own(c);
    for (uint32_t s = 0; s < SEQS; s++)
        alone[s] = adapted(own[s]);
    for (uint32_t from = 0, to; from < 40; from = to) {         /* 12 tokens each, then 1 */
        size_t n = 0, at[SEQS];
        to = from < 36 ? from + 12 : from + 1;
        for (uint32_t s = 0; s < SEQS; s++)
            n = at[s] = n + tokens(t + n, s, from, to, 1 + s % 2);
        must(lm_ctx_decode(c, t, n, &err));
        for (uint32_t s = 0; s < SEQS; s++)
            same(lm_ctx_logits(c, at[s] - 1), go_on(alone[s], s, to));
        same(lm_ctx_logits(c, at[2] - 1), go_on(plain, 2, to));
        assert_memory_not_equal(lm_ctx_logits(c, at[2] - 1), lm_ctx_logits(c, at[3] - 1),
                                lm_model_n_vocab(model) * sizeof(float));
    }
    lm_ctx_free(c);
    lm_ctx_free(plain);
    for (uint32_t s = 0; s < SEQS; s++)
        lm_ctx_free(alone[s]);
    stop();
}

/* From now on, as lm_ctx_adapt between batches; copies and what is cut keep what counts last. */
static void test_changes(void **state)
{
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual), *o = adapted(own[1]);
    must(lm_ctx_seq_set_scales(c, 3, own[1], N, &err));
    same(go_on(c, 3, 20), go_on(o, 3, 20));
    must(lm_ctx_seq_set_scales(c, 3, own[3], N, &err));
    must(lm_ctx_seq_copy(c, 4, 3, &err));
    must(lm_ctx_seq_set_scales(c, 3, NULL, 0, &err));
    assert_memory_equal(lm_ctx_seq_scales(c, 4), own[3], sizeof own[3]);
    assert_memory_equal(lm_ctx_seq_scales(c, 3), usual, sizeof usual);
    adapt(o, own[3]);
    must(lm_ctx_seq_copy(o, 4, 3, &err));
    same(go_on(c, 4, 30), go_on(o, 4, 30));
    adapt(o, usual);
    same(go_on(c, 3, 30), go_on(o, 3, 30));
    for (uint32_t cut = 25; cut > 0; cut -= 5) {
        must(lm_ctx_seq_remove(c, 4, cut, &err));
        must(lm_ctx_seq_remove(o, 4, cut, &err));
        adapt(o, own[3]);
        same(go_on(c, 4, cut + 3), go_on(o, 4, cut + 3));
    }
    must(lm_ctx_seq_remove(c, 4, 0, &err));
    must(lm_ctx_seq_remove(o, 4, 0, &err));
    same(go_on(c, 4, 9), go_on(o, 4, 9));

    lm_ctx_seq_keep(c, 4);
    assert_null(lm_ctx_seq_scales(c, 3));
    assert_memory_equal(lm_ctx_seq_scales(c, 4), own[3], sizeof own[3]);
    must(lm_ctx_seq_copy(c, 4, 77, &err));                      /* of nothing */
    assert_null(lm_ctx_seq_scales(c, 4));
    must(lm_ctx_seq_set_scales(c, 4, own[2], N, &err));
    must(lm_ctx_seq_set_scales(c, 4, NULL, 0, &err));
    assert_null(lm_ctx_seq_scales(c, 4));
    must(lm_ctx_seq_set_scales(c, 4, own[2], N, &err));
    adapt(c, own[1]);                                           /* they were of others */
    assert_null(lm_ctx_seq_scales(c, 4));
    lm_ctx_free(c);
    lm_ctx_free(o);
    stop();
}

/* Graphs are made anew by the first scales, and by no others; not by those that are refused. */
static void test_graphs(void **state)
{
    const float bad[] = { 1, NAN }, huge[] = { -INFINITY, 1 };
    struct lm_counts before, after;
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual);
    (void)go_on(c, 1, 1);
    lm_ctx_counts(c, &before);
    assert_int_equal(lm_ctx_n_scales(c), N);
    assert_int_equal(lm_ctx_seq_set_scales(c, 1, own[1], 1, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_set_scales(c, 1, own[1], 3, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_set_scales(c, 1, bad, N, &err), LM_EUSE);
    assert_int_equal(lm_ctx_seq_set_scales(c, 1, huge, N, &err), LM_EUSE);
    must(lm_ctx_seq_set_scales(c, 1, NULL, 0, &err));
    (void)go_on(c, 1, 2);
    lm_ctx_counts(c, &after);
    assert_int_equal(after.built, before.built);
    must(lm_ctx_seq_set_scales(c, 1, own[1], N, &err));
    (void)go_on(c, 1, 3);
    lm_ctx_counts(c, &before);
    assert_int_equal(before.built, after.built + 1);
    for (uint32_t i = 0; i < 20; i++) {
        must(lm_ctx_seq_set_scales(c, 1 + i % 3, own[i % SEQS], i % 4 ? N : 0, &err));
        (void)go_on(c, 1 + i % 3, lm_ctx_seq_len(c, 1 + i % 3) + 1);
    }
    lm_ctx_counts(c, &after);
    assert_int_equal(after.built, before.built);

    must(lm_ctx_adapt(c, NULL, 0, &err));
    assert_int_equal(lm_ctx_n_scales(c), 0);
    assert_int_equal(lm_ctx_seq_set_scales(c, 1, own[1], N, &err), LM_ENOSUP);
    must(lm_ctx_seq_set_scales(c, 1, NULL, 0, &err));
    lm_ctx_free(c);
    stop();
}

/* --- saved ------------------------------------------------------------------------------- */

static void test_saved(void **state)
{
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual), *d = adapted(usual), *other = adapted(own[1]);
    (void)go_on(c, 2, 10);
    save(c, false, 2);
    must(lm_ctx_seq_set_scales(d, 2, own[4], N, &err));
    must(load(d));                                              /* in the place of that */
    assert_null(lm_ctx_seq_scales(d, 2));
    must(lm_ctx_seq_set_scales(c, 2, own[3], N, &err));
    (void)go_on(c, 2, 20);
    must(lm_ctx_seq_set_scales(c, 2, own[1], N, &err));
    save(c, false, 2);
    lm_ctx_free(d);
    d = adapted(usual);
    must(load(d));
    assert_memory_equal(lm_ctx_seq_scales(d, 2), own[1], sizeof own[1]);
    same(go_on(c, 2, 30), go_on(d, 2, 30));
    assert_int_equal(load(other), LM_EDATA);                    /* its sequences have others */
    save(d, true, 2);
    must(lm_ctx_seq_set_scales(d, 2, own[4], N, &err));
    (void)go_on(d, 2, 40);
    must(load(d));                                              /* a part of a sequence */
    same(go_on(c, 2, 35), go_on(d, 2, 35));
    lm_ctx_free(c);
    lm_ctx_free(d);
    lm_ctx_free(other);
    stop();
}

/* The saved bytes, changed at `at` and with a sum that is right, are refused. */
static void refuses(struct lm_ctx *c, const uint8_t *bytes, size_t size, size_t at, uint32_t is)
{
    uint8_t *copy = malloc(size);
    struct lm_xxh64 x;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    for (size_t i = 0; i < 4; i++)
        copy[at + i] = (uint8_t)(is >> 8 * i);
    lm_xxh64_init(&x);
    lm_xxh64_add(&x, copy, size - 8);
    for (size_t i = 0; i < 8; i++)
        copy[size - 8 + i] = (uint8_t)(lm_xxh64_digest(&x) >> 8 * i);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(copy, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(load(c), LM_EDATA);
    assert_int_equal(lm_ctx_seq_len(c, 2), 0);
    assert_null(lm_ctx_seq_scales(c, 2));
    free(copy);
}

static void test_damaged(void **state)
{
    /* Of lmpipe-state(5): a head of 48 bytes, 16 a layer, 12 of the sequence; then the number of
     * scales, and with each the position. */
    enum { COUNT = 48 + 2 * 16 + 12, FIRST = COUNT + 4, SECOND = FIRST + 4 + 4 * N };
    static uint8_t bytes[1 << 16];
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual), *d = adapted(usual);
    must(lm_ctx_seq_set_scales(c, 2, own[3], N, &err));
    (void)go_on(c, 2, 10);
    must(lm_ctx_seq_set_scales(c, 2, own[1], N, &err));
    save(c, false, 2);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fclose(f), 0);
    assert_true(size > SECOND && size < sizeof bytes);
    assert_int_equal(bytes[COUNT], 2);
    assert_int_equal(bytes[SECOND], 10);
    refuses(d, bytes, size, COUNT, 0);
    refuses(d, bytes, size, COUNT, 3);
    refuses(d, bytes, size, COUNT, UINT32_MAX);
    refuses(d, bytes, size, FIRST, 10);                         /* not before the second */
    refuses(d, bytes, size, SECOND, 11);
    refuses(d, bytes, size, SECOND, UINT32_MAX);
    refuses(d, bytes, size, FIRST + 4, 0x7fc00000);             /* no number */
    refuses(d, bytes, size, SECOND + 8, 0xff800000);            /* -infinity */
    refuses(d, bytes, size, COUNT - 4, 64);                     /* a flag of later versions */
    lm_ctx_free(c);
    lm_ctx_free(d);
    stop();
}

/* --- what is evaluated again --------------------------------------------------------------- */

enum { LONGEST = 40 };

/* A sequence as the test knows it. */
struct known {
    int32_t  ids[LONGEST];
    uint32_t scales[LONGEST];           /* a row of own: of each token */
    uint32_t n, now;
};

/* All of a sequence's tokens, one by one, in a context that knows what will come. */
static void replay(struct lm_ctx *c, const struct known *k)
{
    must(lm_ctx_expect(c, 7, k->ids, k->n, &err));
    for (uint32_t i = 0; i < k->n; i++) {
        struct lm_batch_token t = { k->ids[i], 7, i, i + 1 == k->n };
        must(lm_ctx_seq_set_scales(c, 7, own[k->scales[i]], N, &err));
        must(lm_ctx_decode(c, &t, 1, &err));
    }
}

/* A token keeps the scales that it came with, however often an adapter that waits has it evaluated
 * again. */
static void test_again(void **state)
{
    enum { KNOWN = 3, TURNS = 300 };
    static const int32_t few[] = { 300, 301, 300, 301, 9, 44 };
    static struct known known[KNOWN];
    struct lm_batch_token t[4];
    (void)state;
    start(true);
    struct lm_ctx *c = adapted(usual), *fresh = adapted(usual);
    for (int turn = 0; turn < TURNS; turn++) {
        const uint32_t s = draw(KNOWN), other = draw(KNOWN), more = 1 + draw(3);
        struct known *k = &known[s];
        if (draw(4) == 0 || k->n + more > LONGEST)
            must(lm_ctx_seq_remove(c, s, k->n = draw(k->n / 2 + 1), &err));
        if (draw(8) == 0) {
            must(lm_ctx_seq_copy(c, s, other, &err));
            *k = known[other];
        }
        if (k->n + more > LONGEST)
            must(lm_ctx_seq_remove(c, s, k->n = 0, &err));
        if (draw(3) == 0) {
            k->now = draw(SEQS);
            must(lm_ctx_seq_set_scales(c, s, own[k->now], k->now ? N : 0, &err));
        }
        for (uint32_t i = 0; i < more; i++, k->n++) {
            k->ids[k->n] = few[draw(6)];
            k->scales[k->n] = k->now;
            t[i] = (struct lm_batch_token){ k->ids[k->n], s, k->n, i + 1 == more };
        }
        must(lm_ctx_decode(c, t, more, &err));
        const float *row = lm_ctx_logits(c, more - 1);
        replay(fresh, k);
        same(row, lm_ctx_logits(fresh, 0));
        must(lm_ctx_seq_remove(fresh, 7, 0, &err));
    }
    lm_ctx_free(c);
    lm_ctx_free(fresh);
    stop();
}

/* One that waits for how a sequence begins is one that does not wait. */
static void test_from_the_start(void **state)
{
    static const int32_t ids[] = { 300, 301, 5, 6 };
    float *row[2];
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        struct lm_batch_token t[4];
        start(waits);
        struct lm_ctx *c = adapted(usual);
        must(lm_ctx_seq_set_scales(c, 1, own[1], N, &err));
        for (uint32_t i = 0; i < 4; i++)
            t[i] = (struct lm_batch_token){ ids[i], 1, i, i == 3 };
        must(lm_ctx_decode(c, t, 4, &err));
        row[waits] = malloc(lm_ctx_row_len(c) * sizeof(float));
        assert_non_null(row[waits]);
        memcpy(row[waits], lm_ctx_logits(c, 3), lm_ctx_row_len(c) * sizeof(float));
        lm_ctx_free(c);
        if (waits)
            same(row[0], row[1]);
        stop();
    }
    free(row[0]);
    free(row[1]);
}

/* Where positions move down, scales go with their tokens. */
static void test_shift(void **state)
{
    (void)state;
    start(false);
    struct lm_ctx *c = adapted(usual), *d = adapted(usual);
    for (uint32_t i = 0; i < 4; i++) {
        must(lm_ctx_seq_set_scales(c, 1, own[1 + i], N, &err));
        (void)go_on(c, 1, 5 * i + 5);
    }
    must(lm_ctx_seq_shift(c, 1, 2, 11, &err));  /* the first 2; of the third 4, of the fourth 5 */
    assert_memory_equal(lm_ctx_seq_scales(c, 1), own[4], sizeof own[4]);
    save(c, false, 1);
    static uint8_t bytes[48 + 2 * 16 + 12 + 4 + 3 * (4 + 4 * N)];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(bytes, 1, sizeof bytes, f), sizeof bytes);
    assert_int_equal(fclose(f), 0);
    const uint8_t *at = bytes + 48 + 2 * 16 + 12;
    assert_int_equal(at[0], 3);
    for (int i = 0; i < 3; i++) {
        const uint8_t *one = at + 4 + i * (4 + 4 * N);
        assert_int_equal(one[0], ((int[]){ 0, 2, 6 })[i]);
        assert_memory_equal(one + 4, own[((int[]){ 1, 3, 4 })[i]], sizeof own[0]);
    }
    must(load(d));
    same(go_on(c, 1, 15), go_on(d, 1, 15));
    lm_ctx_free(c);
    lm_ctx_free(d);
    stop();
}

/* --- other graphs -------------------------------------------------------------------------- */

/* A model with an adapter, two contexts: one adapted with a scale, one whose sequence has it. */
static void two_ways(struct lm_model *m, const struct lm_ctx_options *o, struct lm_adapter *a,
                     struct lm_ctx *c[2])
{
    static const float scale = 2.5f;
    for (int i = 0; i < 2; i++) {
        const struct lm_adapted list = { .adapter = a, .scale = i ? 1 : scale };
        if (!(c[i] = lm_ctx_new(m, o, NULL, &err)))
            fail_msg("%s", err.text);
        must(lm_ctx_adapt(c[i], &list, 1, &err));
    }
    must(lm_ctx_seq_set_scales(c[1], 6, &scale, 1, &err));
}

static void test_draft_head(void **state)
{
    static const struct low_rank pairs[] = { { "token_embd.weight", 4, 4, 2, false },
                                             { "blk.0.ffn_down.weight", 4, 4, 2, false } };
    const struct lm_model_options mo = { .draft_head = true };
    const struct lm_ctx_options o = { .n_ctx = 16, .draft_head = true };
    struct lm_guessed g[2][3];
    struct lm_ctx *c[2];
    (void)state;
    struct lm_model *m = open_model("tests/fuzz/corpus/model/qwen35-draft", &mo);
    write_low_rank(path, "qwen35", 2, 5, pairs, 2, NULL, 0);
    struct lm_adapter *a = read_adapter(m);
    two_ways(m, &o, a, c);
    for (int i = 0; i < 2; i++) {
        static const int32_t ids[] = { 1, 3, 2, 1, 0 };
        for (uint32_t k = 0; k < 5; k++) {
            struct lm_batch_token t = { ids[k], 6, k, true };
            must(lm_ctx_decode(c[i], &t, 1, &err));
        }
        must(lm_ctx_draft(c[i], 6, 5, 2, 3, g[i], &err));
    }
    assert_memory_equal(g[0], g[1], sizeof *g);
    /* With others the guesses are others, wherever; what is guessed of is what it was. */
    must(lm_ctx_seq_set_scales(c[1], 6, NULL, 0, &err));
    must(lm_ctx_draft(c[1], 6, 5, 2, 3, g[1], &err));
    assert_memory_not_equal(g[0], g[1], sizeof *g);
    must(lm_ctx_adapt(c[0], &(struct lm_adapted){ .adapter = a, .scale = 1 }, 1, &err));
    for (uint32_t pos = 5; pos > 2; pos--) {
        must(lm_ctx_draft(c[0], 6, pos, 2, 3, g[0], &err));
        must(lm_ctx_draft(c[1], 6, pos, 2, 3, g[1], &err));
        assert_memory_equal(g[0], g[1], sizeof *g);
    }
    lm_ctx_free(c[0]);
    lm_ctx_free(c[1]);
    lm_adapter_free(a);
    lm_model_free(m);
}

static void test_encoder(void **state)
{
    static const struct low_rank pair = { "token_embd.weight", 16, 0, 2, true };
    static const int32_t text[] = { 5, 6, 7, 1 };
    const struct lm_ctx_options o = { .n_ctx = 16 };
    struct lm_ctx *c[2];
    float *row[2];
    (void)state;
    struct lm_model *m = open_model("tests/data/encoders/t5.gguf", NULL);
    struct low_rank table = pair;
    table.rows = lm_model_n_vocab(m);
    write_low_rank(path, "t5", 2, 5, &table, 1, NULL, 0);
    struct lm_adapter *a = read_adapter(m);
    two_ways(m, &o, a, c);
    for (int i = 0; i < 2; i++) {
        struct lm_batch_token t = { 0, 6, 0, true };
        must(lm_ctx_encode(c[i], 6, text, 4, &err));
        must(lm_ctx_decode(c[i], &t, 1, &err));
        row[i] = malloc(lm_ctx_row_len(c[i]) * sizeof(float));
        assert_non_null(row[i]);
        memcpy(row[i], lm_ctx_logits(c[i], 0), lm_ctx_row_len(c[i]) * sizeof(float));
    }
    assert_memory_equal(row[0], row[1], lm_ctx_row_len(c[0]) * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(row[i]);
        lm_ctx_free(c[i]);
    }
    lm_adapter_free(a);
    lm_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_saved),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_from_the_start),
        cmocka_unit_test(test_shift),
        cmocka_unit_test(test_draft_head),
        cmocka_unit_test(test_encoder),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
