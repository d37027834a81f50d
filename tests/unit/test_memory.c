/* SPDX-License-Identifier: MIT */
/* The memory of keys and values: random batches, kept or taken back, and removals,
 * against a plain list of what each sequence should hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "memory/memory.h"

enum { SEQS = 40, CTX = 300, BATCH = 90, LAYERS = 3 };

static struct lm_kv_layout layout[LAYERS];
static size_t page_size;

static struct lm_memory *new_memory(void)
{
    const struct lm_device *d = lm_device_by_name("cpu");
    struct lm_kv_shape s = {
        .buft = d->ops->buft(d, LM_USE_COMPUTE), .n_layer = LAYERS, .n_head_kv = 2, .head_k = 5,
        .head_v = 3, .k_type = lm_type_by_id(LM_F32), .v_type = lm_type_by_id(LM_F16)
    };
    struct lm_err err;
    for (uint32_t i = 0; i < LAYERS; i++)
        assert_int_equal(lm_kv_place(&s, i, &layout[i], &page_size, &err), LM_OK);
    struct lm_memory *m = lm_kv_new(&s, CTX, BATCH, &err);
    assert_non_null(m);
    return m;
}

/* Layers and heads do not share bytes, and stay inside the page. */
static void test_layout(void **state)
{
    struct lm_memory *m = new_memory();
    (void)state;
    size_t end = 0;
    for (size_t i = 0; i < LAYERS; i++) {
        const struct lm_kv_layout *l = &layout[i];
        assert_int_equal(l->k_row, 20);
        assert_int_equal(l->v_row, 6);
        assert_true(l->k_off >= end && l->k_off % 64 == 0 && l->v_off % 64 == 0);
        assert_true(l->v_off >= l->k_off + 2 * LM_KV_PAGE * l->k_row);
        end = l->v_off + 2 * LM_KV_PAGE * l->v_row;
    }
    assert_true(end <= page_size);
    m->ops->free(m);

    struct lm_kv_shape s = { .n_layer = 1, .n_head_kv = 1, .head_k = 4, .head_v = 4,
                             .k_type = lm_type_by_id(LM_Q8_0), .v_type = lm_type_by_id(LM_F16) };
    struct lm_kv_layout l;
    struct lm_err err;
    size_t size;
    assert_int_equal(lm_kv_place(&s, 0, &l, &size, &err), LM_ENOSUP);
    s.k_type = s.v_type;
    s.n_layer = s.n_head_kv = s.head_k = UINT32_MAX;
    assert_int_equal(lm_kv_place(&s, 0, &l, &size, &err), LM_ENOMEM);
}

static uint32_t length[SEQS];
static uint32_t seed = 7;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* Ids far apart and near each other, as they come. */
static uint32_t id_of(uint32_t s)
{
    return s % 2 ? s * 2654435761u : s;
}

/* The mark of a position, in every layer's first and last byte of its key. */
static uint8_t *cell(int64_t list, size_t layer, uint32_t pos)
{
    uint8_t *page = ((uint8_t *const *)(uintptr_t)list)[pos / LM_KV_PAGE];
    return page + layout[layer].k_off + (LM_KV_PAGE + pos % LM_KV_PAGE) * layout[layer].k_row;
}

static void write_mark(int64_t list, uint32_t s, uint32_t pos)
{
    for (size_t i = 0; i < LAYERS; i++) {
        uint32_t mark[2] = { s * 1000 + pos, (uint32_t)i };
        memcpy(cell(list, i, pos), mark, sizeof mark);
    }
}

/* Everything a sequence holds is still what was written.  A token more shows its pages. */
static void check(struct lm_memory *m, uint32_t s)
{
    struct lm_memory_token t = { id_of(s), length[s] };
    int64_t list;
    assert_int_equal(m->ops->length(m, id_of(s)), length[s]);
    if (length[s] == 0 || length[s] == CTX)
        return;
    assert_int_equal(m->ops->begin(m, &t, 1, NULL), LM_OK);
    m->ops->pages(m, 0, 1, &list);
    for (uint32_t pos = 0; pos < length[s]; pos++)
        for (size_t i = 0; i < LAYERS; i++) {
            uint32_t mark[2];
            memcpy(mark, cell(list, i, pos), sizeof mark);
            assert_int_equal(mark[0], s * 1000 + pos);
            assert_int_equal(mark[1], i);
        }
    m->ops->end(m, false);
}

static void append(struct lm_memory *m, uint32_t *next, bool keep)
{
    struct lm_memory_token t[BATCH];
    int64_t lists[BATCH];
    uint32_t n = 0, who[BATCH], want = 1 + draw(BATCH);
    uint32_t some = 1 + draw(4);
    while (n < want) {
        uint32_t s = (*next + draw(some)) % SEQS;
        if (length[s] == CTX)
            break;
        t[n] = (struct lm_memory_token){ id_of(s), length[s]++ };
        who[n++] = s;
    }
    if (n && m->ops->begin(m, t, n, NULL) == LM_OK) {
        m->ops->pages(m, 0, n, lists);
        for (uint32_t i = 0; i < n; i++)
            write_mark(lists[i], who[i], t[i].pos);
        m->ops->end(m, keep);
    } else {
        assert_int_equal(n, 0);
    }
    for (uint32_t i = n; !keep && i-- > 0; )
        length[who[i]]--;
    *next = draw(SEQS);
}

static void test_random(void **state)
{
    struct lm_memory *m = new_memory();
    uint32_t next = 0;
    (void)state;
    for (int round = 0; round < 3000; round++) {
        uint32_t s = draw(SEQS), pos;
        switch (draw(6)) {
        case 0:
            pos = draw(length[s] + 1);
            assert_int_equal(m->ops->remove(m, id_of(s), pos, NULL), LM_OK);
            length[s] = pos;
            break;
        case 1:
            append(m, &next, false);
            break;
        default:
            append(m, &next, true);
        }
        check(m, draw(SEQS));
    }
    for (uint32_t s = 0; s < SEQS; s++)
        check(m, s);
    m->ops->free(m);
}

/* A batch with one token that cannot be leaves nothing behind. */
static void test_refused(void **state)
{
    struct lm_memory *m = new_memory();
    struct lm_err err;
    struct lm_memory_token t[3] = { { 1, 0 }, { 2, 0 }, { 1, 2 } };
    (void)state;
    assert_int_equal(m->ops->begin(m, t, 3, &err), LM_EUSE);
    assert_int_equal(m->ops->length(m, 1), 0);
    t[2].pos = 1;
    assert_int_equal(m->ops->begin(m, t, 3, &err), LM_OK);
    m->ops->end(m, true);
    assert_int_equal(m->ops->length(m, 1), 2);
    assert_int_equal(m->ops->length(m, 2), 1);
    assert_int_equal(m->ops->remove(m, 2, 2, &err), LM_EUSE);
    assert_int_equal(m->ops->remove(m, 3, 0, &err), LM_OK);
    assert_int_equal(m->ops->begin(m, t, BATCH + 1, &err), LM_EUSE);
    m->ops->free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
