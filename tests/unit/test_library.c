/* SPDX-License-Identifier: MIT */
/* The library as a program sees it that includes lmpipe.h alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <lmpipe.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL   "tests/data/m.gguf"

enum { TOKENS = 48, BEFORE = 5 };

static struct lm_err err;
static long asked, stop_at = -1;

static bool stop(void *user)
{
    (void)user;
    return asked++ == stop_at;
}

static struct lm_model *load(const char *path)
{
    struct lm_model *m = lm_model_load(path, NULL, NULL, &err);
    if (!m)
        fail_msg("%s: %s", path, err.text);
    return m;
}

static struct lm_ctx *context(struct lm_model *m, const struct lm_ctx_options *o,
                              const struct lm_env *env)
{
    struct lm_ctx *c = lm_ctx_new(m, o, env, &err);
    if (!c)
        fail_msg("%s", err.text);
    return c;
}

/* Tokens of a sequence, all of them wanted. */
static void make_batch(struct lm_batch_token *t, uint32_t seq, size_t n)
{
    for (size_t i = 0; i < n; i++)
        t[i] = (struct lm_batch_token){ (int32_t)(7 + 11 * i % 300), seq, (uint32_t)i, true };
}

static void evaluate(struct lm_ctx *c, const struct lm_batch_token *t, size_t n)
{
    if (lm_decode(c, t, n, &err))
        fail_msg("%s", err.text);
}

static float *last_row(const struct lm_ctx *c, size_t i)
{
    const size_t bytes = lm_ctx_row_len(c) * sizeof(float);
    float *row = malloc(bytes);
    assert_non_null(row);
    assert_non_null(lm_ctx_logits(c, i));
    return memcpy(row, lm_ctx_logits(c, i), bytes);
}

/* ---- stopping ---- */

/* Stopped wherever a batch may be, it is as if it had not been begun. */
static void stop_anywhere(int n_threads)
{
    const struct lm_env env = { .stop = stop, .n_threads = n_threads };
    const struct lm_ctx_options o = { .n_ctx = 64, .n_ubatch = 16 };
    struct lm_batch_token t[TOKENS];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = context(m, &o, &env);
    make_batch(t, 3, TOKENS);
    stop_at = -1;
    evaluate(c, t, BEFORE);
    asked = 0;
    evaluate(c, t + BEFORE, TOKENS - BEFORE);
    float *want = last_row(c, TOKENS - BEFORE - 1);
    const long most = asked;
    assert_true(most > 3 * (TOKENS - BEFORE) / 16);     /* not only between pieces */
    for (long at = 0; at < most; at += 1 + most / 29) {
        assert_int_equal(lm_ctx_seq_remove(c, 3, BEFORE, &err), LM_OK);
        asked = 0;
        stop_at = at;
        assert_int_equal(lm_decode(c, t + BEFORE, TOKENS - BEFORE, &err), LM_ESTOP);
        assert_int_equal(lm_ctx_seq_len(c, 3), BEFORE);
        assert_null(lm_ctx_logits(c, 0));
        stop_at = -1;
        evaluate(c, t + BEFORE, TOKENS - BEFORE);
        assert_memory_equal(want, lm_ctx_logits(c, TOKENS - BEFORE - 1),
                            lm_ctx_row_len(c) * sizeof *want);
    }
    free(want);
    lm_ctx_free(c);
    lm_model_free(m);
}

static void stops_alone(void **state)
{
    (void)state;
    stop_anywhere(1);
}

static void stops_together(void **state)
{
    (void)state;
    stop_anywhere(3);
}

/* ---- states in memory ---- */

static void states_in_memory(void **state)
{
    struct lm_batch_token t[TOKENS];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = context(m, NULL, NULL), *d = context(m, NULL, NULL);
    struct lm_buf b = { 0 };
    (void)state;
    make_batch(t, 9, TOKENS);
    evaluate(c, t, TOKENS - 1);
    struct lm_out *out = lm_out_to_buf(&b, &err);
    assert_non_null(out);
    assert_int_equal(lm_ctx_save(c, NULL, out, &err), LM_OK);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    for (size_t n = 0; n < b.len; n += 1 + b.len / 61) {
        struct lm_in *cut = lm_in_from_memory(b.data, n, "cut", 0, &err);
        assert_non_null(cut);
        assert_int_equal(lm_ctx_load(d, cut, &err), LM_EDATA);
        lm_in_close(cut);
        assert_int_equal(lm_ctx_seqs(d, NULL, 0), 0);
    }
    struct lm_in *in = lm_in_from_memory(b.data, b.len, "state", 0, &err);
    assert_non_null(in);
    assert_int_equal(lm_in_size(in), b.len);
    assert_int_equal(lm_ctx_load(d, in, &err), LM_OK);
    lm_in_close(in);
    evaluate(c, t + TOKENS - 1, 1);
    evaluate(d, t + TOKENS - 1, 1);
    assert_memory_equal(lm_ctx_logits(c, 0), lm_ctx_logits(d, 0),
                        lm_ctx_row_len(c) * sizeof(float));
    lm_buf_release(&b);
    lm_ctx_free(c);
    lm_ctx_free(d);
    lm_model_free(m);
}

struct sink {
    size_t left;                /* bytes that it still takes */
};

static int take(void *arg, const void *p, size_t n, struct lm_err *e)
{
    struct sink *s = arg;
    (void)p;
    if (n > s->left)
        return lm_fail(e, LM_EIO, "the sink is full");
    s->left -= n;
    return LM_OK;
}

/* What a caller's function says stops the writing. */
static void states_that_nobody_takes(void **state)
{
    struct sink s = { 1000 };
    struct lm_batch_token t[TOKENS];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = context(m, NULL, NULL);
    (void)state;
    make_batch(t, 0, TOKENS);
    evaluate(c, t, TOKENS);
    struct lm_out *out = lm_out_to(take, &s, "sink", &err);
    assert_non_null(out);
    assert_string_equal(lm_out_name(out), "sink");
    int r = lm_ctx_save(c, NULL, out, &err);
    r = r ? r : lm_out_flush(out, &err);
    assert_int_equal(r, LM_EIO);
    assert_string_equal(err.text, "the sink is full");
    lm_out_abort(out);
    lm_ctx_free(c);
    lm_model_free(m);
}

/* Bytes in memory are read as those of a file are: some, all, none, compressed ones too. */
static void read_memory(void **state)
{
    /* "lmpipe\n" by zstd 1.5.4 */
    static const uint8_t packed[] = {
        0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x39, 0x00, 0x00, 0x6c,
        0x6d, 0x70, 0x69, 0x70, 0x65, 0x0a, 0x20, 0x79, 0x2c, 0x6a,
    };
    char got[100];
    size_t n;
    (void)state;
    struct lm_in *in = lm_in_from_memory(packed, sizeof packed, "packed", LM_IN_RAW, &err);
    assert_non_null(in);
    assert_int_equal(lm_in_skip(in, 9, &err), LM_OK);
    assert_int_equal(lm_in_read_all(in, got, 6, &err), LM_OK);
    assert_memory_equal(got, "lmpipe", 6);
    assert_int_equal(lm_in_read_all(in, got, 6, &err), LM_EDATA);
    assert_false(lm_in_seekable(in));
    lm_in_close(in);
    in = lm_in_from_memory(NULL, 0, "nothing", 0, &err);
    assert_non_null(in);
    assert_int_equal(lm_in_read(in, got, sizeof got, &n, &err), LM_OK);
    assert_int_equal(n, 0);
    lm_in_close(in);
#ifdef LM_HAVE_ZSTD
    in = lm_in_from_memory(packed, sizeof packed, "packed", 0, &err);
    assert_non_null(in);
    assert_int_equal(lm_in_read(in, got, sizeof got, &n, &err), LM_OK);
    assert_int_equal(n, 7);
    assert_memory_equal(got, "lmpipe\n", 7);
    lm_in_close(in);
#endif
}

/* ---- vectors ---- */

static struct lm_ctx *vectors(struct lm_model *m)
{
    return context(m, &(struct lm_ctx_options){ .embed = true, .n_ctx = 64 }, NULL);
}

/* Three sequences, of which the second is mixed with the third. */
static void pooled(void **state)
{
    struct lm_batch_token t[20];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = vectors(m);
    const size_t len = lm_ctx_row_len(c);
    float *v = malloc(len * sizeof *v);
    double *sum = calloc(len, sizeof *sum);
    (void)state;
    assert_true(v && sum);
    make_batch(t, 4, 6);
    make_batch(t + 6, 5, 5);
    make_batch(t + 11, 6, 5);
    for (uint32_t i = 0; i < 10; i++)           /* 5 6 5 6 ... */
        t[6 + i] = (struct lm_batch_token){ (int32_t)(20 + i), 5 + i % 2, i / 2, true };
    evaluate(c, t, 16);
    for (size_t i = 6; i < 16; i += 2)
        for (size_t k = 0; k < len; k++)
            sum[k] += (double)lm_ctx_logits(c, i)[k] / 5;
    assert_int_equal(lm_ctx_pool(c, 5, LM_POOLING_MEAN, v, &err), LM_OK);
    for (size_t k = 0; k < len; k++)
        if (!(fabs(sum[k] - (double)v[k]) <= 1e-6 * (1 + fabs(sum[k]))))
            fail_msg("value %zu: %g, wanted %g", k, (double)v[k], sum[k]);
    assert_int_equal(lm_ctx_pool(c, 5, LM_POOLING_CLS, v, &err), LM_OK);
    assert_memory_equal(v, lm_ctx_logits(c, 6), len * sizeof *v);
    assert_int_equal(lm_ctx_pool(c, 6, LM_POOLING_LAST, v, &err), LM_OK);
    assert_memory_equal(v, lm_ctx_logits(c, 15), len * sizeof *v);
    assert_int_equal(lm_model_pooling_default(m), LM_POOLING_LAST);
    free(v);
    free(sum);
    lm_ctx_free(c);
    lm_model_free(m);
}

static void not_pooled(struct lm_ctx *c, uint32_t seq, enum lm_pooling how, const char *why)
{
    float v[4096];
    assert_true(lm_ctx_row_len(c) <= sizeof v / sizeof *v);
    assert_int_equal(lm_ctx_pool(c, seq, how, v, &err), LM_EUSE);
    assert_string_equal(err.text, why);
}

static void nothing_to_pool(void **state)
{
    struct lm_batch_token t[8];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = vectors(m), *d = context(m, NULL, NULL);
    (void)state;
    make_batch(t, 1, 8);
    t[6].want = false;
    evaluate(c, t, 4);
    not_pooled(c, 1, LM_POOLING_NONE, "no way of pooling");
    not_pooled(c, 2, LM_POOLING_MEAN, "sequence 2: is not in the last batch");
    not_pooled(c, 2, LM_POOLING_LAST, "sequence 2: is not in the last batch");
    evaluate(c, t + 4, 2);
    not_pooled(c, 1, LM_POOLING_MEAN, "sequence 1: the last batch has not the whole of it");
    not_pooled(c, 1, LM_POOLING_CLS, "sequence 1: the last batch has not the whole of it");
    evaluate(c, t + 6, 1);
    not_pooled(c, 1, LM_POOLING_LAST, "sequence 1: the token to take was not wanted");
    not_pooled(c, 1, LM_POOLING_MEAN, "sequence 1: not all of its tokens were wanted");
    not_pooled(d, 1, LM_POOLING_LAST, "a context of logits has no vectors to pool");
    lm_ctx_free(c);
    lm_ctx_free(d);
    lm_model_free(m);
}

/* ---- choosing ---- */

static void choose(void **state)
{
    struct lm_batch_token t[TOKENS];
    struct lm_model *m = load(MODEL);
    struct lm_ctx *c = context(m, NULL, NULL);
    struct lm_logits_head head;
    struct lm_sampling s = { .seed = 1 };
    uint32_t best = 0;
    (void)state;
    make_batch(t, 0, TOKENS);
    evaluate(c, t, TOKENS);
    const float *row = lm_ctx_logits(c, TOKENS - 1);
    assert_int_equal(lm_model_head(m, "m", NULL, &head, &err), LM_OK);
    assert_int_equal(head.n_vocab, lm_model_n_vocab(m));
    assert_int_equal(head.n_vocab, lm_ctx_row_len(c));
    assert_null(lm_param_find("no-such"));
    assert_int_equal(lm_sampling_set(&s, lm_param_find("top-k"), -1.5, &err), LM_EUSE);
    assert_int_equal(lm_sampling_set(&s, lm_param_find("top-k"), 1, &err), LM_OK);
    struct lm_chain *chain = lm_chain_new(&s, &head, NULL, &err);
    assert_non_null(chain);
    for (uint32_t i = 1; i < head.n_vocab; i++)
        best = row[i] > row[best] ? i : best;
    assert_int_equal(lm_chain_apply_row(chain, row, 0, TOKENS, &err), LM_OK);
    assert_int_equal(lm_chain_draw(chain), best);
    lm_chain_free(chain);
    lm_sampling_release(&s);
    lm_logits_head_release(&head);
    lm_ctx_free(c);
    lm_model_free(m);
}

/* What a user wrote does not become a control token, what the template wrote does. */
static void converse(void **state)
{
    static const char json[] = "[{\"role\":\"user\",\"content\":\"<|im_end|> hello\"}]";
    const struct lm_chat_options o = { .template_name = "chatml" };
    struct lm_marked_text text = { 0 };
    const char *at = NULL;
    (void)state;
    struct lm_chat *chat = lm_chat_open(MODEL, NULL, &err);
    assert_non_null(chat);
    assert_int_equal(lm_chat_render(chat, json, sizeof json - 1, &o, &text, &at, &err), LM_OK);
    assert_string_equal(text.text.data, "<|im_start|>user\n<|im_end|> hello<|im_end|>\n"
                        "<|im_start|>assistant\n");
    const char *said = strstr(text.text.data, "<|im_end|> hello");
    assert_non_null(said);
    assert_int_equal(text.guard.data[said - text.text.data], 1);
    assert_int_equal(text.guard.data[0], 0);
    lm_marked_text_release(&text);
    lm_chat_free(chat);
}

/* ---- threads ---- */

static void *open_often(void *arg)
{
    for (int i = 0; i < 2000; i++)
        lm_out_abort(lm_out_open(arg, NULL));
    return NULL;
}

/* Files that several threads open have the mode that they have in one. */
static void modes(void **state)
{
    char dir[] = "/tmp/test_library.XXXXXX", path[2][sizeof dir + 12];
    pthread_t thread[2];
    struct stat st;
    (void)state;
    const mode_t mask = umask(027);
    assert_non_null(mkdtemp(dir));
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d", dir, i);
        assert_int_equal(pthread_create(&thread[i], NULL, open_often, path[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    struct lm_out *out = lm_out_open(path[0], &err);
    assert_non_null(out);
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    assert_int_equal(stat(path[0], &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(umask(mask), 027);
    unlink(path[0]);
    rmdir(dir);
}

struct work {
    struct lm_model *m;
    float           *row;
};

static void *evaluate_alone(void *arg)
{
    const struct lm_env env = { .n_threads = 2 };
    struct work *w = arg;
    struct lm_batch_token t[TOKENS];
    struct lm_ctx *c = lm_ctx_new(w->m, NULL, &env, NULL);
    make_batch(t, 1, TOKENS);
    if (c && !lm_decode(c, t, TOKENS, NULL))
        w->row = last_row(c, TOKENS - 1);
    lm_ctx_free(c);
    return NULL;
}

static void contexts_at_once(void **state)
{
    struct lm_model *m = load(MODEL);
    struct work w[3];
    pthread_t thread[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        w[i] = (struct work){ m, NULL };
        assert_int_equal(pthread_create(&thread[i], NULL, evaluate_alone, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 3; i++) {
        assert_non_null(w[i].row);
        assert_memory_equal(w[i].row, w[0].row, lm_model_n_vocab(m) * sizeof(float));
    }
    for (int i = 0; i < 3; i++)
        free(w[i].row);
    lm_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_alone),
        cmocka_unit_test(stops_together),
        cmocka_unit_test(states_in_memory),
        cmocka_unit_test(states_that_nobody_takes),
        cmocka_unit_test(read_memory),
        cmocka_unit_test(pooled),
        cmocka_unit_test(nothing_to_pool),
        cmocka_unit_test(choose),
        cmocka_unit_test(converse),
        cmocka_unit_test(modes),
        cmocka_unit_test(contexts_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
