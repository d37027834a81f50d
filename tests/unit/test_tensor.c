/* SPDX-License-Identifier: MIT */
/* The table of operations, the order of graphs, and the planner, whose plans are
 * checked by playing them through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/ops.h"

static struct lm_tensor *leaf(struct lm_graph *g, uint32_t type, size_t ne0, size_t ne1)
{
    return lm_new_tensor(g, lm_type_by_id(type), 2, (size_t[]){ ne0, ne1 });
}

static struct lm_tensor *leaf3(struct lm_graph *g, uint32_t type, size_t a, size_t b, size_t c)
{
    return lm_new_tensor(g, lm_type_by_id(type), 3, (size_t[]){ a, b, c });
}

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < LM_N_OPS; i++) {
        const struct lm_op_row *r = lm_op_row((enum lm_op)i);
        assert_non_null(r->name);
        assert_true(r->n_src <= LM_MAX_SRC && r->n_optional <= r->n_src);
        assert_true(r->shape || i == LM_OP_NONE || i == LM_OP_VIEW);
        assert_false(r->in_place && r->n_src == 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(r->name, lm_op_row((enum lm_op)k)->name);
    }
}

static void test_shapes(void **state)
{
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *a = leaf(&g, LM_F32, 64, 5), *w = leaf(&g, LM_Q8_0, 64, 100);
    struct lm_tensor *y = lm_mul_mat(&g, w, a);
    assert_int_equal(y->ne[0], 100);
    assert_int_equal(y->ne[1], 5);
    assert_int_equal(y->nb[1], 400);
    assert_int_equal(w->nb[1], 68);
    assert_int_equal(lm_tensor_bytes(w), 6800);
    struct lm_tensor *r = lm_get_rows(&g, w, leaf(&g, LM_I32, 7, 1));
    assert_int_equal(r->type->id, LM_F32);
    assert_int_equal(r->ne[0], 64);
    assert_int_equal(r->ne[1], 7);
    double flops, bytes;
    lm_op_cost(y, &flops, &bytes);
    assert_true(flops == 2.0 * 64 * 100 * 5);
    assert_true(bytes == 6800 + 64 * 5 * 4 + 100 * 5 * 4);
    lm_op_cost(r, &flops, &bytes);
    assert_true(bytes == 7 * 68 + 7 * 64 * 4);
    assert_int_equal(g.err.code, LM_OK);
    lm_graph_release(&g);
}

static void test_views(void **state)
{
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *a = leaf(&g, LM_F32, 8, 6);
    struct lm_tensor *v = lm_view(&g, a, 2, (size_t[]){ 4, 3 }, (size_t[]){ 4, 64 }, 16);
    assert_non_null(v);
    assert_false(lm_tensor_contiguous(v));
    assert_int_equal(lm_tensor_bytes(v), 2 * 64 + 16);
    struct lm_tensor *u = lm_view(&g, v, 1, (size_t[]){ 4 }, NULL, 64);
    assert_ptr_equal(u->root, a);
    assert_int_equal(u->view_offset, 80);
    struct lm_tensor *s = lm_reshape(&g, a, 3, (size_t[]){ 4, 2, 6 });
    assert_int_equal(s->nb[2], 32);
    assert_int_equal(g.err.code, LM_OK);
    assert_null(lm_reshape(&g, a, 2, (size_t[]){ 8, 5 }));
    assert_int_equal(g.err.code, LM_EUSE);
    assert_null(lm_scale(&g, a, 2));                 /* a failed graph makes nothing */
    lm_graph_release(&g);
    a = leaf(&g, LM_F32, 8, 6);
    assert_null(lm_view(&g, a, 2, (size_t[]){ 8, 6 }, NULL, 4));
    lm_graph_release(&g);
    a = leaf(&g, LM_F32, 8, 6);
    assert_null(lm_view(&g, a, 1, (size_t[]){ SIZE_MAX / 4 }, NULL, 0));
    lm_graph_release(&g);
}

static void test_axes(void **state)
{
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *a = leaf3(&g, LM_F16, 8, 6, 5);
    struct lm_tensor *t = lm_transpose(&g, a), *p = lm_permute(&g, t, (uint32_t[]){ 2, 0, 1, 3 });
    assert_int_equal(t->ne[0], 6);
    assert_int_equal(t->nb[0], 16);
    assert_int_equal(t->nb[1], 2);
    assert_false(lm_tensor_contiguous(t));
    assert_int_equal(lm_tensor_bytes(t), lm_tensor_bytes(a));
    assert_ptr_equal(p->root, a);
    assert_int_equal(p->ne[0], 5);
    assert_int_equal(p->ne[1], 6);
    assert_int_equal(p->ne[2], 8);
    assert_int_equal(p->nb[0], 96);
    assert_true(lm_tensor_contiguous(lm_permute(&g, p, (uint32_t[]){ 2, 1, 0, 3 })));
    struct lm_tensor *c = lm_cont(&g, p);
    assert_true(lm_tensor_contiguous(c));
    assert_int_equal(c->nb[1], 10);
    assert_int_equal(g.err.code, LM_OK);
    assert_null(lm_reshape(&g, t, 1, (size_t[]){ 240 }));       /* there are gaps */
    lm_graph_release(&g);
    assert_null(lm_permute(&g, leaf3(&g, LM_F32, 8, 6, 5), (uint32_t[]){ 0, 1, 1, 3 }));
    lm_graph_release(&g);
    assert_null(lm_transpose(&g, leaf(&g, LM_Q8_0, 64, 32)));
    assert_int_equal(g.err.code, LM_EUSE);
    lm_graph_release(&g);
    assert_non_null(lm_permute(&g, leaf3(&g, LM_Q8_0, 64, 3, 2), (uint32_t[]){ 0, 2, 1, 3 }));
    lm_graph_release(&g);
}

/* Each makes one node that its operation must refuse. */
static struct lm_tensor *bad(struct lm_graph *g, int i)
{
    struct lm_tensor *f = leaf(g, LM_F32, 64, 4), *h = leaf(g, LM_F16, 64, 4);
    struct lm_tensor *n = leaf(g, LM_I32, 4, 1), *q = leaf3(g, LM_F32, 16, 4, 4);
    struct lm_tensor *pages = leaf(g, LM_I64, 4, 1);
    struct lm_rope rope = { .n_rot = 7, .base = 10000, .factor = 1 };
    struct lm_kv_layout kv = { .n_head_kv = 3, .head_k = 16, .head_v = 16 };
    switch (i) {
    case 0: return lm_add(g, f, h);
    case 1: return lm_add(g, f, leaf(g, LM_F32, 64, 3));
    case 2: return lm_mul(g, f, leaf(g, LM_F32, 63, 1));
    case 3: return lm_swiglu(g, f, leaf(g, LM_F32, 64, 1));
    case 4: return lm_scale(g, h, 1);
    case 5: return lm_rms_norm(g, f, leaf(g, LM_F32, 32, 1), 0);
    case 6: return lm_mul_mat(g, leaf(g, LM_F16, 32, 8), f);
    case 7: return lm_mul_mat(g, leaf(g, LM_I32, 64, 8), f);
    case 8: return lm_mul_mat(g, f, h);
    case 9: return lm_get_rows(g, f, f);
    case 10: return lm_get_rows(g, n, n);
    case 11: return lm_rope_table(g, n, NULL, NULL, NULL, &rope);
    case 12: rope.n_rot = 8; return lm_rope_table(g, f, NULL, NULL, NULL, &rope);
    case 13: rope.n_rot = 8; return lm_rope_table(g, n, leaf(g, LM_F32, 8, 1), NULL, NULL, &rope);
    case 14: return lm_rope(g, q, leaf3(g, LM_F32, 32, 2, 4));
    case 15: return lm_rope(g, q, leaf3(g, LM_F32, 16, 2, 3));
    case 16: return lm_attn(g, q, pages, n, NULL, &kv, 1, 0, 0);
    case 17: kv.n_head_kv = 2; return lm_attn(g, q, n, n, NULL, &kv, 1, 0, 0);
    case 18: return lm_kv_store(g, q, q, pages, n, &kv);
    case 19: return lm_add(g, f, NULL);
    case 20: return leaf(g, LM_Q8_0, 33, 1);
    case 21: return leaf(g, LM_F32, SIZE_MAX / 8, 16);
    default: return NULL;
    }
}

static void test_refusals(void **state)
{
    (void)state;
    for (int i = 0; i <= 21; i++) {
        struct lm_graph g = {0};
        assert_null(bad(&g, i));
        assert_int_not_equal(g.err.code, LM_OK);
        assert_true(strlen(g.err.text) > 5);
        lm_graph_release(&g);
    }
}

static size_t place_of(const struct lm_graph *g, const struct lm_tensor *t)
{
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i] == t)
            return i;
    return SIZE_MAX;
}

static void test_order(void **state)
{
    struct lm_graph g = {0};
    (void)state;
    struct lm_tensor *a = leaf(&g, LM_F32, 8, 1);
    struct lm_tensor *b = lm_scale(&g, a, 2), *c = lm_silu(&g, b), *d = lm_add(&g, c, b);
    struct lm_tensor *unused = lm_scale(&g, d, 3);
    assert_int_equal(lm_graph_expand(&g, c), LM_OK);
    assert_int_equal(lm_graph_expand(&g, d), LM_OK);
    assert_int_equal(lm_graph_expand(&g, d), LM_OK);
    assert_int_equal(g.n_nodes, 3);
    assert_int_equal(g.n_leaves, 1);
    assert_int_equal(place_of(&g, b), 0);
    assert_int_equal(place_of(&g, c), 1);
    assert_int_equal(place_of(&g, d), 2);
    assert_int_equal(place_of(&g, unused), SIZE_MAX);
    assert_int_equal(a->n_uses, 1);
    assert_int_equal(b->n_uses, 2);
    assert_int_equal(d->n_uses, 0);
    lm_graph_release(&g);
}

/* As deep as a C stack could not follow. */
static void test_deep(void **state)
{
    struct lm_graph g = {0};
    struct lm_tensor *t = leaf(&g, LM_F32, 8, 1);
    (void)state;
    for (int i = 0; i < 300000; i++)
        t = lm_scale(&g, t, 1);
    assert_int_equal(lm_graph_expand(&g, t), LM_OK);
    assert_int_equal(g.n_nodes, 300000);
    t->flags |= LM_TENSOR_OUTPUT;
    assert_int_equal(lm_graph_plan(&g, 64), LM_OK);
    assert_int_equal(g.planned[0], 64);
    lm_graph_release(&g);
}

/* Who wrote each 64 bytes of the buffer last. */
#define UNIT 64
static const struct lm_tensor *owner[1 << 16];

static const struct lm_tensor *root(const struct lm_tensor *t)
{
    return t->root ? t->root : t;
}

static void write_to(const struct lm_graph *g, const struct lm_tensor *t)
{
    size_t n = (lm_tensor_bytes(t) + UNIT - 1) / UNIT;
    assert_int_equal(t->offset % UNIT, 0);
    assert_true(t->offset + n * UNIT <= g->planned[0]);
    for (size_t i = 0; i < n; i++)
        owner[t->offset / UNIT + i] = t;
}

static void must_own(const struct lm_tensor *t)
{
    const struct lm_tensor *r = root(t);
    if (r->data)
        return;
    for (size_t i = 0; i < (lm_tensor_bytes(r) + UNIT - 1) / UNIT; i++)
        assert_ptr_equal(owner[r->offset / UNIT + i], r);
}

static bool touch(const struct lm_tensor *a, const struct lm_tensor *b)
{
    return !a->data && !b->data && lm_tensor_bytes(a) && lm_tensor_bytes(b) &&
           a->offset < b->offset + lm_tensor_bytes(b) &&
           b->offset < a->offset + lm_tensor_bytes(a);
}

/* Go through the nodes in order: every source must still be there, and a result may only
 * lie where its first source does, if the operation allows it. */
static size_t play(struct lm_graph *g)
{
    size_t in_place = 0;
    memset(owner, 0, sizeof owner);
    for (size_t i = 0; i < g->n_leaves; i++)
        if (!g->leaves[i]->data)
            write_to(g, g->leaves[i]);
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lm_tensor *t = g->nodes[i];
        if (t->op == LM_OP_VIEW)
            continue;
        for (size_t k = 0; k < LM_MAX_SRC && t->src[k]; k++) {
            must_own(t->src[k]);
            if (!touch(t, root(t->src[k])))
                continue;
            assert_int_equal(k, 0);
            assert_true(lm_op_row(t->op)->in_place);
            assert_int_equal(t->offset, root(t->src[k])->offset);
            assert_int_equal(t->src[k]->view_offset, 0);
            in_place++;
        }
        write_to(g, t);
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->flags & (LM_TENSOR_OUTPUT | LM_TENSOR_LOSS | LM_TENSOR_KEEP))
            must_own(g->nodes[i]);
    return in_place;
}

static uint32_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static struct lm_tensor *random_node(struct lm_graph *g, struct lm_tensor **all, size_t n)
{
    struct lm_tensor *a = all[draw((uint32_t)n)], *b = all[draw((uint32_t)n)], *c;
    size_t rows = lm_tensor_rows(a);
    switch (draw(7)) {
    case 0: return lm_scale(g, a, 2);
    case 1: return lm_silu(g, a);
    case 2: return memcmp(a->ne, b->ne, sizeof a->ne) ? lm_silu(g, b) : lm_add(g, a, b);
    case 3: return memcmp(a->ne, b->ne, sizeof a->ne) ? lm_scale(g, b, 1) : lm_swiglu(g, a, b);
    case 4: return lm_mul_mat(g, leaf(g, LM_F32, a->ne[0], 1 + draw(90)),
                              lm_reshape(g, a, 2, (size_t[]){ a->ne[0], rows }));
    case 5: return lm_scale(g, lm_reshape(g, a, 1, (size_t[]){ lm_tensor_len(a) }), 3);
    default:
        c = lm_view(g, a, 1, (size_t[]){ a->ne[0] }, NULL, (rows - 1) * a->nb[1]);
        return draw(2) ? lm_add(g, a, c) : lm_silu(g, c);
    }
}

static void test_plans(void **state)
{
    size_t in_place = 0, saved = 0;
    (void)state;
    for (seed = 1; seed < 400; ) {
        uint32_t start = seed;
        struct lm_graph g = {0};
        struct lm_tensor *all[64];
        size_t n = 0, sum = 0;
        while (n < 3)
            all[n++] = leaf(&g, LM_F32, 1 + draw(70), 1 + draw(6));
        all[0]->data = all;                  /* placed elsewhere, such as a weight */
        for (; n < 40; n++)
            all[n] = random_node(&g, all, n);
        for (int i = 0; i < 4; i++) {
            struct lm_tensor *t = all[20 + draw(20)];
            static const unsigned flags[] = { LM_TENSOR_OUTPUT, LM_TENSOR_KEEP, LM_TENSOR_LOSS };
            t->flags |= flags[draw(3)];
            assert_int_equal(lm_graph_expand(&g, t), LM_OK);
        }
        assert_int_equal(lm_graph_expand(&g, all[39]), LM_OK);
        assert_int_equal(lm_graph_plan(&g, UNIT), LM_OK);
        for (size_t i = 0; i < g.n_nodes; i++)
            sum += g.nodes[i]->root ? 0 : (lm_tensor_bytes(g.nodes[i]) + UNIT - 1) / UNIT * UNIT;
        for (size_t i = 0; i < g.n_leaves; i++)
            sum += g.leaves[i]->data ? 0 : (lm_tensor_bytes(g.leaves[i]) + UNIT - 1) / UNIT * UNIT;
        assert_true(g.planned[0] <= sum && g.planned[0] / UNIT <= sizeof owner / sizeof *owner);
        in_place += play(&g);
        saved += g.planned[0] < sum;
        lm_graph_release(&g);
        seed = start + 1;
    }
    assert_true(in_place > 500);
    assert_true(saved > 300);
}

/* A chain of layers needs room for about two of them, not for all. */
static void test_reuse(void **state)
{
    struct lm_graph g = {0};
    struct lm_tensor *x = leaf(&g, LM_F32, 1024, 1), *w = leaf(&g, LM_F32, 1024, 1024);
    (void)state;
    w->data = &g;
    for (int i = 0; i < 20; i++)
        x = lm_add(&g, x, lm_silu(&g, lm_mul_mat(&g, w, x)));
    x->flags |= LM_TENSOR_OUTPUT;
    lm_graph_expand(&g, x);
    assert_int_equal(lm_graph_plan(&g, 64), LM_OK);
    assert_int_equal(g.planned[0], 2 * 4096);
    play(&g);
    lm_graph_release(&g);
}

/* Of widths 1, 4, 2 and 1 beside a sum of width 1 that stays: 7 are in use at once, though in the
 * order of evaluation the first leaves a hole that the third does not fit in. */
static void test_holes(void **state)
{
    static const size_t widths[] = { 1, 4, 2, 1 };
    enum { N = 256 };
    struct lm_graph g = {0};
    struct lm_tensor *x = leaf(&g, LM_F32, N, 1);
    (void)state;
    for (int layer = 0; layer < 5; layer++) {
        struct lm_tensor *y = x;
        for (size_t i = 0; i < 4; i++) {
            struct lm_tensor *w = leaf(&g, LM_F32, y->ne[0], widths[i] * N);
            w->data = &g;
            y = lm_mul_mat(&g, w, y);
        }
        x = lm_add(&g, x, y);
    }
    x->flags |= LM_TENSOR_OUTPUT;
    lm_graph_expand(&g, x);
    assert_int_equal(lm_graph_plan(&g, 64), LM_OK);
    assert_int_equal(g.planned[0], 7 * N * sizeof(float));
    play(&g);
    lm_graph_release(&g);
}

/* An output keeps its bytes although it has one reader that could take them over. */
static void test_output_is_kept(void **state)
{
    struct lm_graph g = {0};
    struct lm_tensor *a = leaf(&g, LM_F32, 16, 1), *b = lm_scale(&g, a, 2);
    struct lm_tensor *v = lm_reshape(&g, b, 2, (size_t[]){ 4, 4 }), *c = lm_silu(&g, v);
    (void)state;
    v->flags |= LM_TENSOR_OUTPUT;            /* a view's flag counts for what it shows */
    c->flags |= LM_TENSOR_OUTPUT;
    lm_graph_expand(&g, c);
    assert_int_equal(lm_graph_plan(&g, 64), LM_OK);
    assert_int_not_equal(b->offset, c->offset);
    char base[256];
    lm_graph_place(&g, 0, base, NULL);
    assert_ptr_equal(v->data, b->data);
    assert_ptr_equal(b->data, base + b->offset);
    lm_graph_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_axes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_output_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
