/* SPDX-License-Identifier: MIT */
/*
 * A long life: tokens are generated for 64 sequences that meanwhile are cut, copied, shifted,
 * dropped, saved and loaded at random.  Each keeps a record of what was done to it; again and
 * again one is made anew in a fresh context from its record, and both must expect the same, to
 * the bit.
 *
 * LMPIPE_SOAK=N: how many tokens (4000); LMPIPE_SOAK_MODEL: of which model.  The seed is printed
 * when something differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"

#define MODEL "tests/data/m.gguf"
enum { SEQS = 64, CTX = 200, EVENTS = 600, BATCH = 16, VOCAB = 260 };

enum what { TOKEN, CUT, SHIFT };

struct event {
    enum what what;
    uint32_t  a, b;             /* id; length; positions from .. to                    */
};

struct record {
    struct event e[EVENTS];
    uint32_t     n, length;
    bool         shifted;
    int32_t      next;          /* what the model expects, -1: not known               */
};

static struct record records[SEQS];
static struct lm_model *model;
static struct lm_ctx *ctx;
static uint64_t seed = 88172645463325252u;
static size_t n_checks, n_saves, n_shifts, n_copies, n_cuts;

static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 11) % n);
}

static struct lm_ctx *new_context(void)
{
    struct lm_err err;
    struct lm_env env = { .n_threads = 2 };
    struct lm_ctx_options o = { .n_ctx = CTX, .n_batch = 256, .n_ubatch = 1 + draw(64) };
    struct lm_ctx *c = lm_ctx_new(model, &o, &env, &err);
    if (!c)
        fail_msg("%s", err.text);
    return c;
}

static int32_t best(const float *x)
{
    int32_t top = 0;
    for (int32_t i = 1; i < (int32_t)lm_model_n_vocab(model); i++)
        if (x[i] > x[top])
            top = i;
    return top;
}

static void note(struct record *r, enum what what, uint32_t a, uint32_t b)
{
    assert_true(r->n < EVENTS);
    r->e[r->n++] = (struct event){ what, a, b };
}

/* Do what an event says to a sequence; the logits after a token. */
static const float *replay(struct lm_ctx *c, uint32_t seq, const struct event *e)
{
    struct lm_err err;
    struct lm_batch_token t = { (int32_t)e->a, seq, lm_ctx_seq_len(c, seq), true };
    int r = e->what == TOKEN ? lm_ctx_decode(c, &t, 1, &err)
            : e->what == CUT ? lm_ctx_seq_remove(c, seq, e->a, &err)
                             : lm_ctx_seq_shift(c, seq, e->a, e->b, &err);
    if (r)
        fail_msg("%s", err.text);
    return e->what == TOKEN ? lm_ctx_logits(c, 0) : NULL;
}

/* The same sequence from its record, in a context of its own: one more token must be followed
 * by the same logits here and there. */
static void compare(uint32_t seq)
{
    const struct record *r = &records[seq];
    const uint64_t at = seed;
    struct lm_ctx *fresh = new_context();
    const struct event next = { TOKEN, draw(VOCAB), 0 };
    for (uint32_t i = 0; i < r->n; i++)
        replay(fresh, 7, &r->e[i]);
    assert_int_equal(lm_ctx_seq_len(fresh, 7), r->length);
    assert_int_equal(lm_ctx_seq_len(ctx, seq), r->length);
    const float *want = replay(fresh, 7, &next), *got = replay(ctx, seq, &next);
    if (memcmp(want, got, lm_model_n_vocab(model) * sizeof *got))
        fail_msg("sequence %u of %u tokens and %u events has drifted; seed %llu", seq, r->length,
                 r->n, (unsigned long long)at);
    struct lm_err err;
    assert_int_equal(lm_ctx_seq_remove(ctx, seq, r->length, &err), LM_OK);
    lm_ctx_free(fresh);
    n_checks++;
}

static void drop(uint32_t seq)
{
    struct lm_err err;
    assert_int_equal(lm_ctx_seq_remove(ctx, seq, 0, &err), LM_OK);
    records[seq] = (struct record){ .next = -1 };
}

static void cut(uint32_t seq, uint32_t length)
{
    struct record *r = &records[seq];
    const struct event e = { CUT, length, 0 };
    if (length == 0) {
        drop(seq);
        return;
    }
    replay(ctx, seq, &e);
    if (r->shifted)
        note(r, CUT, length, 0);
    else
        r->n = length;              /* all events are tokens */
    r->length = length;
    r->next = -1;
    n_cuts++;
}

static void shift(uint32_t seq)
{
    struct record *r = &records[seq];
    uint32_t from = draw(r->length), to = from + 1 + draw(r->length - from);
    const struct event e = { SHIFT, from, to };
    if (to - from == r->length) {
        drop(seq);
        return;
    }
    replay(ctx, seq, &e);
    note(r, SHIFT, from, to);
    r->length -= to - from;
    r->shifted = true;
    r->next = -1;
    n_shifts++;
}

/* To a file and back, into a context of another shape; all of them, or one. */
static void save_and_load(bool all, uint32_t seq)
{
    char path[] = "/tmp/lmpipe-soak-XXXXXX";
    struct lm_err err;
    int fd = mkstemp(path);
    struct lm_out *out = lm_out_open(path, &err);
    assert_true(fd >= 0 && out);
    assert_int_equal(lm_ctx_save(ctx, all ? NULL : &seq, out, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    if (all) {
        lm_ctx_free(ctx);
        ctx = new_context();
    } else {
        assert_int_equal(lm_ctx_seq_remove(ctx, seq, 0, &err), LM_OK);
    }
    struct lm_in *in = lm_in_open(path, 0, &err);
    if (!in || lm_ctx_load(ctx, in, &err))
        fail_msg("%s", err.text);
    lm_in_close(in);
    close(fd);
    unlink(path);
    n_saves++;
}

/* A token more for some sequences, in one batch. */
static uint32_t generate(void)
{
    struct lm_batch_token t[BATCH];
    struct lm_err err;
    uint32_t n = 0, want = 1 + draw(BATCH);
    for (uint32_t i = 0, seq = draw(SEQS); i < SEQS && n < want; i++, seq = (seq + 1) % SEQS) {
        struct record *r = &records[seq];
        if (r->length >= CTX - 1 || r->n >= EVENTS - 2 || draw(2))
            continue;
        int32_t id = r->next < 0 || draw(4) == 0 ? (int32_t)draw(VOCAB) : r->next;
        t[n++] = (struct lm_batch_token){ id, seq, r->length++, true };
        note(r, TOKEN, (uint32_t)id, 0);
    }
    if (n && lm_ctx_decode(ctx, t, n, &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < n; i++)
        records[t[i].seq].next = best(lm_ctx_logits(ctx, i));
    return n;
}

static void disturb(void)
{
    struct lm_err err;
    uint32_t seq = draw(SEQS), other = draw(SEQS), kind = draw(100);
    struct record *r = &records[seq];
    if (r->length >= CTX - 1 || r->n >= EVENTS - 3) {
        if (draw(2) || r->n >= EVENTS - 3)
            drop(seq);
        else
            shift(seq);
    } else if (kind < 6 && r->length) {
        cut(seq, draw(r->length));
    } else if (kind < 12 && r->length > 1) {
        shift(seq);
    } else if (kind < 20) {
        assert_int_equal(lm_ctx_seq_copy(ctx, seq, other, &err), LM_OK);
        records[seq] = records[other];
        n_copies++;
    } else if (kind < 22) {
        drop(seq);
    } else if (kind < 23) {
        save_and_load(draw(2), seq);
    } else if (kind < 33 && r->length) {
        compare(seq);
    }
}

static void test_soak(void **state)
{
    const char *env = getenv("LMPIPE_SOAK");
    const char *path = getenv("LMPIPE_SOAK_MODEL");
    const uint64_t want = env ? strtoull(env, NULL, 10) : 4000;
    struct lm_err err;
    (void)state;
    if (!(model = lm_model_load(path ? path : MODEL, NULL, NULL, &err)))
        fail_msg("%s", err.text);
    for (int i = 0; i < SEQS; i++)
        records[i].next = -1;
    ctx = new_context();
    for (uint64_t n = 0; n < want; ) {
        n += generate();
        disturb();
    }
    for (uint32_t i = 0; i < SEQS; i++)
        if (records[i].length && records[i].length < CTX && records[i].n < EVENTS)
            compare(i);
    print_message("%zu comparisons, %zu cuts, %zu copies, %zu shifts, %zu saves\n",
                  n_checks, n_cuts, n_copies, n_shifts, n_saves);
    assert_true(n_checks > 10 && n_shifts && n_saves && n_copies && n_cuts);
    lm_ctx_seq_keep(ctx, 3);
    uint32_t id;
    assert_true(lm_ctx_seqs(ctx, &id, 1) <= 1);
    lm_ctx_free(ctx);
    lm_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_soak) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
