/* SPDX-License-Identifier: MIT */
/* Memory of intermediates: the planned peak against the least that the order of evaluation
 * allows, counted here from the graph alone; and that generating allocates nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "not_here.h"
#include "model/model.h"
#include "tensor/ops.h"

/* Models whose graphs and memories are of all kinds. */
static const char *const models[] = {
    "tests/data/m.gguf", "tests/data/recurrent/mamba2.gguf", "tests/data/recurrent/qwen35.gguf",
    "tests/data/recurrent/rwkv6.gguf", "tests/data/recurrent/rwkv7.gguf",
    "tests/data/encoders/t5.gguf",
};
enum { N_MODELS = sizeof models / sizeof *models };

static const char *path;        /* of the one that is looked at */

/* --- counting allocations ------------------------------------------------------------------ */

#if defined(SANITIZED) || !defined(__GLIBC__)
#define COUNTING 0
static size_t count;
#else
#define COUNTING 1
static size_t count;
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    *p = __libc_memalign(align, n);
    return *p ? 0 : 12;
}
#endif

/* A text of 20 tokens for each of some sequences, then one token after another for all of them. */
static void generate(struct lm_ctx *c, uint32_t n_vocab, uint32_t n_seqs)
{
    struct lm_batch_token t[20];
    struct lm_err err;
    for (uint32_t k = 0; k < n_seqs; k++) {
        if (lm_ctx_has_encoder(c))
            assert_int_equal(lm_ctx_encode(c, k, (const int32_t[]){ 3, 4 }, 2, &err), LM_OK);
        for (uint32_t i = 0; i < 20; i++)
            t[i] = (struct lm_batch_token){ (int32_t)i, k, i, i == 19 };
        assert_int_equal(lm_ctx_decode(c, t, 20, &err), LM_OK);
    }
    for (uint32_t i = 20; i < lm_ctx_n_ctx(c) && i < 500; i++) {
        for (uint32_t k = 0; k < n_seqs; k++)
            t[k] = (struct lm_batch_token){ (int32_t)(i * 7 % n_vocab), k, i, true };
        size_t before = count;
        assert_int_equal(lm_ctx_decode(c, t, n_seqs, &err), LM_OK);
        if (i > 20 && count != before)
            fail_msg("%s: step %u: %zu allocations", path, i, count - before);
    }
    lm_ctx_seq_keep(c, UINT32_MAX);
}

static void test_generating(void **state)
{
    struct lm_err err;
    struct lm_env env = { .n_threads = 2 };
    (void)state;
    if (!COUNTING)
        NOT_HERE("counting allocations under a sanitizer");
    for (size_t i = 0; i < N_MODELS; i++) {
        struct lm_model *m = lm_model_load(path = models[i], NULL, &env, &err);
        assert_non_null(m);
        struct lm_ctx *c = lm_ctx_new(m, NULL, &env, &err);
        assert_non_null(c);
        generate(c, lm_model_n_vocab(m), 1);
        generate(c, lm_model_n_vocab(m), 3);
        lm_ctx_free(c);
        lm_model_free(m);
    }
    assert_true(count > 0);
}

/* --- the least that is possible ------------------------------------------------------------ */

static const struct lm_tensor *root(const struct lm_tensor *t)
{
    return t->root ? t->root : t;
}

/* The node after which nobody reads t any more. */
static size_t last_read(const struct lm_graph *g, const struct lm_tensor *t)
{
    size_t last = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        for (size_t k = 0; k < LM_MAX_SRC && g->nodes[i]->op != LM_OP_VIEW; k++)
            if (g->nodes[i]->src[k] && root(g->nodes[i]->src[k]) == t)
                last = i;
    return last;
}

/* May node t take over the bytes of s, its first source or what that is a view of?  It reads s in
 * one piece from its first byte on, and in no other way. */
static bool replaces(const struct lm_tensor *t, const struct lm_tensor *s)
{
    for (size_t k = 1; k < LM_MAX_SRC; k++)
        if (t->src[k] && root(t->src[k]) == s)
            return false;
    return lm_op_row(t->op)->in_place && !s->data && !t->data && t->src[0]->view_offset == 0 &&
           lm_tensor_contiguous(t->src[0]) && lm_tensor_bytes(s) >= lm_tensor_bytes(t);
}

/*
 * While node i is computed there must be room for every tensor made before it, or given,
 * that it or a later node reads, and for itself, unless it may take over the bytes of a first
 * source that nobody reads afterwards.
 */
static size_t least(const struct lm_graph *g)
{
    size_t most = 0;
    size_t *last = calloc(g->n_nodes + g->n_leaves, sizeof *last);
    assert_non_null(last);
    for (size_t i = 0; i < g->n_nodes; i++)
        last[i] = last_read(g, g->nodes[i]);
    for (size_t i = 0; i < g->n_leaves; i++)
        last[g->n_nodes + i] = last_read(g, g->leaves[i]);
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW)
            continue;
        size_t live = t->data ? 0 : lm_tensor_bytes(t);
        for (size_t k = 0; k < i; k++)
            if (!g->nodes[k]->root && !g->nodes[k]->data && last[k] >= i)
                live += lm_tensor_bytes(g->nodes[k]);
        for (size_t k = 0; k < g->n_leaves; k++)
            if (g->leaves[k]->flags & LM_TENSOR_INPUT && last[g->n_nodes + k] >= i)
                live += lm_tensor_bytes(g->leaves[k]);
        const struct lm_tensor *s = t->src[0] ? root(t->src[0]) : NULL;
        for (size_t k = 0; k < i; k++)
            if (g->nodes[k] == s && last[k] == i && replaces(t, s))
                live -= lm_tensor_bytes(t);
        most = live > most ? live : most;
    }
    free(last);
    return most;
}

static void compare(void *arg, const struct lm_graph *g, const struct lm_plan *p)
{
    size_t want = least(g), got = g->planned[0];
    (void)arg;
    (void)p;
    assert_true(want > 0);
    if (got < want)
        fail_msg("%s: %zu bytes planned, and %zu are needed", path, got, want);
    /* 64: alignment, of which few tokens leave much unused. */
    if ((double)got > 1.1 * (double)want + 40 * 64)
        fail_msg("%s: %zu bytes planned, more than 1.1 of %zu", path, got, want);
}

static void test_peak(void **state)
{
    struct lm_err err;
    static const size_t sizes[][2] = { { 512, 512 }, { 512, 1 }, { 512, 0 }, { 512, 100 },
                                       { 77, 77 }, { 64, 3 }, { 1, 1 } };
    (void)state;
    for (size_t k = 0; k < N_MODELS; k++) {
        struct lm_model *m = lm_model_load(path = models[k], NULL, NULL, &err);
        assert_non_null(m);
        struct lm_ctx *c = lm_ctx_new(m, NULL, NULL, &err);
        assert_non_null(c);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            assert_int_equal(lm_ctx_plan(c, sizes[i][0], sizes[i][1], compare, NULL, &err), LM_OK);
        lm_ctx_free(c);
        lm_model_free(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_generating),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
