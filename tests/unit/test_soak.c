/* SPDX-License-Identifier: MIT */
/*
 * A long life: tokens are generated for many sequences that meanwhile are cut, copied,
 * shifted, divided, held, dropped, saved and loaded at random.  Each keeps a record of what
 * was done to it; again and again one is made anew in a fresh context from its record, and
 * both must expect the same, to the bit, and a draft head guess the same.  What a memory
 * cannot do is refused, and leaves the sequence as it was.
 *
 * LMPIPE_SOAK=N: how many tokens (4000 of the first model, 1000 of each other);
 * LMPIPE_SOAK_MODEL: of this model alone.  The seed is printed when something differs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/model.h"

enum { SEQS = 64, CTX = 200, EVENTS = 600, BATCH = 16, TEXT = 5, GUESSES = 2 };

/* What lives, and what it may be unable to do. */
static const struct life {
    const char     *model;
    uint32_t        seqs;           /* at most SEQS; fewer live longer                     */
    enum lm_type_id cache;          /* type of keys and values                             */
    bool            keep_all;
    bool            shifts, cuts, divides;      /* all that is asked for                   */
} lives[] = {
    { "tests/data/m.gguf", SEQS, LM_F16, false, true, true, true },
    { "tests/data/m.gguf", 8, LM_Q8_0, false, true, true, true },
    { "tests/data/recurrent/mamba2.gguf", 8, LM_F16, false, false, false, false },
    { "tests/data/recurrent/qwen35.gguf", 8, LM_F32, true, false, false, false },
    { "tests/data/recurrent/rwkv7.gguf", 8, LM_F16, false, false, false, false },
    { "tests/data/encoders/t5.gguf", 8, LM_BF16, false, true, true, false },
};

enum what { TOKEN, CUT, SHIFT, DIVIDE };

struct event {
    enum what what;
    uint32_t  a, b;             /* id; length; positions from .. to, by 2, 3 or 4      */
};

struct record {
    struct event e[EVENTS];
    uint32_t     n, length;
    uint32_t     text;          /* what the encoder was given, from this id on         */
    uint32_t     held;          /* length that it can be cut back to; 0: none          */
    bool         changed;
    int32_t      next;          /* what the model expects, -1: not known               */
};

static const struct life *life;
static struct record records[SEQS];
static struct lm_model *model;
static bool draft;              /* the model has a draft head                          */
static struct lm_ctx *ctx;
static uint64_t seed;
static size_t n_checks, n_saves, n_shifts, n_copies, n_cuts, n_divisions, n_refused;

static uint32_t draw(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 11) % n);
}

static uint32_t an_id(void)
{
    return draw(lm_model_n_vocab(model));
}

/* Give a sequence its text, of a model with an encoder. */
static void encode(struct lm_ctx *c, uint32_t seq, uint32_t text)
{
    struct lm_err err;
    int32_t ids[TEXT];
    if (!lm_ctx_has_encoder(c))
        return;
    for (uint32_t i = 0; i < TEXT; i++)
        ids[i] = (int32_t)((text + i * 7) % lm_model_n_vocab(model));
    assert_int_equal(lm_ctx_encode(c, seq, ids, 1 + text % TEXT, &err), LM_OK);
}

static struct lm_ctx *new_context(void)
{
    struct lm_err err;
    struct lm_env env = { .n_threads = 2 };
    const struct lm_type *type = lm_type_by_id(life->cache);
    struct lm_ctx_options o = {
        .n_ctx = CTX, .n_batch = 256, .n_ubatch = 1 + draw(64), .cache_k = type, .cache_v = type,
        .keep_all = life->keep_all, .draft_head = draft,
    };
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

/* Do what an event says to a sequence; false: that cannot be done, and has not been. */
static bool replay(struct lm_ctx *c, uint32_t seq, const struct event *e)
{
    struct lm_err err;
    const uint32_t length = lm_ctx_seq_len(c, seq);
    struct lm_batch_token t = { (int32_t)e->a, seq, length, true };
    int r = e->what == TOKEN ? lm_ctx_decode(c, &t, 1, &err)
            : e->what == CUT ? lm_ctx_seq_remove(c, seq, e->a, &err)
            : e->what == SHIFT
                ? lm_ctx_seq_shift(c, seq, e->a, e->b, &err)
                : lm_ctx_seq_divide(c, seq, e->a, e->b, 2 + (e->a + e->b) % 3, &err);
    const bool may = e->what == CUT     ? !life->cuts
                     : e->what == SHIFT ? !life->shifts
                                        : e->what == DIVIDE && !life->divides;
    if (r && !(r == LM_ENOSUP && may))
        fail_msg("%s: seed %llu: %s", life->model, (unsigned long long)seed, err.text);
    assert_true(r == LM_OK || lm_ctx_seq_len(c, seq) == length);
    return r == LM_OK;
}

/* Guesses at what follows the last token of two sequences that are one. */
static void compare_guesses(struct lm_ctx *fresh, uint32_t seq, uint32_t length)
{
    struct lm_guessed want[GUESSES], got[GUESSES];
    struct lm_err err;
    const uint32_t pos = 1 + draw(length);
    const int32_t id = (int32_t)an_id();
    if (pos + GUESSES > CTX)
        return;
    assert_int_equal(lm_ctx_draft(fresh, 7, pos, id, GUESSES, want, &err), LM_OK);
    assert_int_equal(lm_ctx_draft(ctx, seq, pos, id, GUESSES, got, &err), LM_OK);
    for (int i = 0; i < GUESSES; i++)
        if (want[i].id != got[i].id || want[i].logprob != got[i].logprob)
            fail_msg("%s: guess %d about sequence %u differs; seed %llu", life->model, i, seq,
                     (unsigned long long)seed);
}

/* The same sequence from its record, in a context of its own: one more token must be followed
 * by the same logits here and there. */
static void compare(uint32_t seq)
{
    struct record *r = &records[seq];
    const uint64_t at = seed;
    struct lm_ctx *fresh = new_context();
    const struct event next = { TOKEN, an_id(), 0 };
    encode(fresh, 7, r->text);
    for (uint32_t i = 0; i < r->n; i++)
        if (!replay(fresh, 7, &r->e[i])) {      /* what it had held went on longer there */
            lm_ctx_free(fresh);
            return;
        }
    assert_int_equal(lm_ctx_seq_len(fresh, 7), r->length);
    assert_int_equal(lm_ctx_seq_len(ctx, seq), r->length);
    if (draft)
        compare_guesses(fresh, seq, r->length);
    replay(fresh, 7, &next);
    replay(ctx, seq, &next);
    if (memcmp(lm_ctx_logits(fresh, 0), lm_ctx_logits(ctx, 0),
               lm_model_n_vocab(model) * sizeof(float)))
        fail_msg("%s: sequence %u of %u tokens and %u events has drifted; seed %llu", life->model,
                 seq, r->length, r->n, (unsigned long long)at);
    lm_ctx_free(fresh);
    note(r, TOKEN, next.a, 0);
    r->length++;
    r->next = -1;
    n_checks++;
}

static void drop(uint32_t seq)
{
    struct lm_err err;
    assert_int_equal(lm_ctx_seq_remove(ctx, seq, 0, &err), LM_OK);
    records[seq] = (struct record){ .next = -1, .text = draw(100) };
    encode(ctx, seq, records[seq].text);
}

static void cut(uint32_t seq, uint32_t length)
{
    struct record *r = &records[seq];
    const struct event e = { CUT, length, 0 };
    if (length == 0) {
        drop(seq);
        return;
    }
    if (!replay(ctx, seq, &e)) {
        assert_true(length != r->held);
        n_refused++;
        return;
    }
    if (r->changed)
        note(r, CUT, length, 0);
    else
        r->n = length;              /* all events are tokens */
    r->length = length;
    r->held = length < r->held ? 0 : r->held;
    r->next = -1;
    n_cuts++;
}

static void shift(uint32_t seq)
{
    struct record *r = &records[seq];
    uint32_t from = draw(r->length), to = from + 1 + draw(r->length - from);
    const struct event e = { SHIFT, from, to };
    if (to == r->length) {
        cut(seq, from);
        return;
    }
    if (!replay(ctx, seq, &e)) {
        n_refused++;
        return;
    }
    note(r, SHIFT, from, to);
    r->length -= to - from;
    r->changed = true;
    r->held = 0;
    r->next = -1;
    n_shifts++;
}

static void divide(uint32_t seq)
{
    struct record *r = &records[seq];
    uint32_t from = draw(r->length), to = from + 1 + draw(r->length - from);
    const struct event e = { DIVIDE, from, to };
    if (!replay(ctx, seq, &e)) {
        n_refused++;
        return;
    }
    note(r, DIVIDE, from, to);
    r->changed = true;
    r->next = -1;
    n_divisions++;
}

static void copy(uint32_t seq, uint32_t other)
{
    struct lm_err err;
    assert_int_equal(lm_ctx_seq_copy(ctx, seq, other, &err), LM_OK);
    if (seq != other) {
        records[seq] = records[other];
        records[seq].held = 0;
    }
    n_copies++;
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
        fail_msg("%s: %s", life->model, err.text);
    lm_in_close(in);
    close(fd);
    unlink(path);
    for (uint32_t i = 0; i < life->seqs; i++)
        records[i].held = all || i == seq ? 0 : records[i].held;
    n_saves++;
}

/* A token more for some sequences, in one batch. */
static uint32_t generate(void)
{
    struct lm_batch_token t[BATCH];
    struct lm_err err;
    uint32_t n = 0, want = 1 + draw(BATCH);
    const uint32_t first = draw(life->seqs);
    for (uint32_t i = 0; i < life->seqs && n < want; i++) {
        const uint32_t seq = (first + i) % life->seqs;
        struct record *r = &records[seq];
        if (r->length >= CTX - 1 || r->n >= EVENTS - 3 || draw(2))
            continue;
        int32_t id = r->next < 0 || draw(4) == 0 ? (int32_t)an_id() : r->next;
        t[n++] = (struct lm_batch_token){ id, seq, r->length++, true };
        note(r, TOKEN, (uint32_t)id, 0);
    }
    if (n && lm_ctx_decode(ctx, t, n, &err))
        fail_msg("%s: %s", life->model, err.text);
    for (uint32_t i = 0; i < n; i++)
        records[t[i].seq].next = best(lm_ctx_logits(ctx, i));
    return n;
}

static void disturb(void)
{
    uint32_t seq = draw(life->seqs), other = draw(life->seqs), kind = draw(100);
    struct record *r = &records[seq];
    if (r->length >= CTX - 1 || r->n >= EVENTS - 4) {
        if (draw(2) || r->n >= EVENTS - 4)
            drop(seq);
        else
            shift(seq);
    } else if (kind < 6 && r->length) {
        cut(seq, r->held && draw(2) ? r->held : draw(r->length));
    } else if (kind < 12 && r->length > 1) {
        shift(seq);
    } else if (kind < 20) {
        copy(seq, other);
    } else if (kind < 22) {
        drop(seq);
    } else if (kind < 23) {
        save_and_load(draw(2), seq);
    } else if (kind < 33 && r->length) {
        compare(seq);
    } else if (kind < 40 && r->length) {
        lm_ctx_seq_hold(ctx, seq, true);
        r->held = r->length;
    } else if (kind < 45 && r->length) {
        divide(seq);
    }
}

/* With its draft head, if it has one. */
static void load(void)
{
    struct lm_model_options o = { .draft_head = true };
    struct lm_err err;
    model = lm_model_load(life->model, &o, NULL, &err);
    draft = model != NULL;
    if (!draft && !(model = lm_model_load(life->model, NULL, NULL, &err)))
        fail_msg("%s: %s", life->model, err.text);
}

static void live(const struct life *l, uint64_t tokens)
{
    life = l;
    seed = 88172645463325252u;
    n_checks = n_saves = n_shifts = n_copies = n_cuts = n_divisions = n_refused = 0;
    load();
    ctx = new_context();
    for (uint32_t i = 0; i < life->seqs; i++)
        drop(i);
    for (uint64_t n = 0; n < tokens; ) {
        n += generate();
        for (int i = 0; i < 4; i++)
            disturb();
    }
    for (uint32_t i = 0; i < life->seqs; i++)
        if (records[i].length && records[i].length < CTX && records[i].n < EVENTS)
            compare(i);
    print_message("%s: %zu comparisons, %zu cuts, %zu copies, %zu shifts, %zu divisions, "
                  "%zu saves, %zu refused\n", l->model, n_checks, n_cuts, n_copies, n_shifts,
                  n_divisions, n_saves, n_refused);
    assert_true(n_checks > 10 && n_saves && n_copies && n_cuts);
    assert_true((n_shifts || !l->shifts) && (n_divisions || !l->divides));
    lm_ctx_seq_keep(ctx, 3);
    uint32_t id;
    assert_true(lm_ctx_seqs(ctx, &id, 1) <= 1);
    lm_ctx_free(ctx);
    lm_model_free(model);
}

static void test_soak(void **state)
{
    const char *env = getenv("LMPIPE_SOAK"), *path = getenv("LMPIPE_SOAK_MODEL");
    (void)state;
    for (size_t i = 0; i < sizeof lives / sizeof *lives && !path; i++)
        live(&lives[i], env ? strtoull(env, NULL, 10) : i ? 1000 : 4000);
    if (path) {
        const struct life mine = { .model = path, .seqs = 8, .cache = LM_F16 };
        live(&mine, env ? strtoull(env, NULL, 10) : 4000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_soak) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
