/* SPDX-License-Identifier: MIT */
/* Memories of every kind: random batches, kept or taken back, removals, copies, shifts and
 * divisions, against a plain list of what each sequence should hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "memory/memory.h"

enum { SEQS = 40, CTX = 300, BATCH = 90, LAYERS = 3, WINDOW = 70 };

/* Kinds: layers of keys and values, of a window, of states; of keys that begin with their value,
 * and that have none. */
static const struct lm_memory_layer kv = { .n_head_kv = 2, .head_k = 5, .head_v = 3 };
static const struct lm_memory_layer near = { .n_head_kv = 2, .head_k = 5, .head_v = 3,
                                             .window = WINDOW };
static const struct lm_memory_layer recurrent = { .conv = 3, .state = 5 };
static const struct lm_memory_layer latent = { .n_head_kv = 1, .head_k = 7, .head_v = 5,
                                               .v_in_k = true };
static const struct lm_memory_layer chooser = { .n_head_kv = 1, .head_k = 3, .v_in_k = true };

static struct lm_memory_layer layers[LAYERS];
static struct lm_memory_place place[LAYERS];
static struct lm_memory_shape shape;
static const struct lm_buft *bufts[2];
static uint32_t n_bufts = 1;            /* layers are spread over so many memories */

static struct lm_memory *new_memory(const struct lm_memory_layer *a,
                                    const struct lm_memory_layer *b,
                                    const struct lm_memory_layer *c)
{
    const struct lm_device *d = lm_device_by_name("cpu");
    const struct lm_memory_layer *all[LAYERS] = { a, b, c };
    struct lm_err err;
    bufts[0] = bufts[1] = d->ops->buft(d, LM_USE_STATE);
    shape = (struct lm_memory_shape){
        .bufts = bufts, .n_bufts = n_bufts, .n_layer = LAYERS, .layers = layers,
        .k_type = lm_type_by_id(LM_F32), .v_type = lm_type_by_id(LM_F16), .n_ctx = CTX,
        .n_batch = BATCH, .n_snapshots = 3,
    };
    for (uint32_t i = 0; i < LAYERS; i++) {
        layers[i] = *all[i];
        layers[i].where = i % n_bufts;
    }
    assert_int_equal(lm_memory_places(&shape, place, &err), LM_OK);
    struct lm_memory *m = lm_memory_new(&shape, &err);
    assert_non_null(m);
    return m;
}

/* Layers and heads do not share bytes, and stay inside the page. */
static void test_layout(void **state)
{
    struct lm_memory *m = new_memory(&kv, &kv, &kv);
    struct lm_memory_cost cost;
    struct lm_err err;
    (void)state;
    size_t end = 0;
    for (size_t i = 0; i < LAYERS; i++) {
        const struct lm_kv_layout *l = &place[i].kv;
        assert_int_equal(l->k_row, 20);
        assert_int_equal(l->v_row, 6);
        assert_true(l->k_off >= end && l->k_off % 64 == 0 && l->v_off % 64 == 0);
        assert_true(l->v_off >= l->k_off + 2 * LM_KV_PAGE * l->k_row);
        end = l->v_off + 2 * LM_KV_PAGE * l->v_row;
    }
    assert_int_equal(lm_memory_cost(&shape, &cost, &err), LM_OK);
    assert_true(end <= cost.page[0]);
    assert_int_equal(cost.page[0], 3 * 64 * 2 * (20 + 6));
    assert_int_equal(cost.kv[0], 5 * cost.page[0]);        /* 300 positions */
    assert_int_equal(cost.kv[1] + cost.state, 0);
    lm_memory_free(m);

    lm_memory_free(new_memory(&kv, &near, &recurrent));
    assert_int_equal(lm_memory_cost(&shape, &cost, &err), LM_OK);
    assert_int_equal(cost.page[1], 64 * 2 * (20 + 6));
    assert_int_equal(cost.kv[1], 2 * cost.page[1]);        /* 70 positions */
    assert_int_equal(cost.state, 128);
    assert_true(place[1].list == 1 && place[2].state_off >= 12);

    shape.k_type = lm_type_by_id(LM_I32);
    assert_int_equal(lm_memory_cost(&shape, &cost, &err), LM_ENOSUP);
    shape.k_type = shape.v_type;
    layers[0].n_head_kv = layers[0].head_k = UINT32_MAX;
    assert_int_equal(lm_memory_cost(&shape, &cost, &err), LM_ENOMEM);
    layers[0] = (struct lm_memory_layer){ .state = SIZE_MAX / 2 };
    assert_int_equal(lm_memory_cost(&shape, &cost, &err), LM_ENOMEM);
}

/* What the sequences should hold: a mark for every position, and its key's angle. */
static uint32_t length[SEQS], marks[SEQS][CTX], angles[SEQS][CTX + 1];
static uint32_t seed = 7, next_mark = 1;

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

/* What a batch's evaluation does: marks in the key and value of every head, the angle in the key,
 * and a state made of the one before. */
static void write_row(int64_t list, uint32_t layer, uint32_t pos, uint32_t mark, int32_t angle)
{
    const struct lm_kv_layout *l = &place[layer].kv;
    uint8_t *page = ((uint8_t *const *)(uintptr_t)list)[pos / LM_KV_PAGE];
    for (uint32_t h = 0; h < l->n_head_kv; h++) {
        size_t row = h * LM_KV_PAGE + pos % LM_KV_PAGE;
        uint32_t key[3] = { mark, layer * 2 + h, (uint32_t)angle };
        memcpy(page + l->k_off + row * l->k_row, key, sizeof key);
        memcpy(page + l->v_off + row * l->v_row, &mark, sizeof mark);
    }
}

static uint32_t step(uint32_t state, uint32_t mark)
{
    return (state ^ mark) * 2654435761u + 1;
}

static void write_state(const int64_t at[2], uint32_t layer, uint32_t mark)
{
    uint32_t v = 0;
    size_t off = place[layer].state_off;
    if (at[0])
        memcpy(&v, (const char *)(uintptr_t)at[0] + off, sizeof v);
    v = step(v, mark);
    memcpy((char *)(uintptr_t)at[1] + off, &v, sizeof v);
}

/* A row, as long as its kind is. */
static void read_row(const struct lm_memory *m, uint32_t layer, uint32_t seq, uint32_t head,
                     bool value, uint32_t pos, void *dst, size_t n)
{
    uint8_t row[64];
    assert_true(n <= sizeof row);
    assert_int_equal(lm_memory_read(m, layer, seq, head, value, pos, 1, row, NULL), LM_OK);
    memcpy(dst, row, n);
}

static void check_rows(const struct lm_memory *m, uint32_t layer, uint32_t s)
{
    uint32_t window = layers[layer].window;
    for (uint32_t pos = 0; pos < length[s]; pos++)
        for (uint32_t h = 0; h < layers[layer].n_head_kv; h++) {
            uint32_t got[16], value[16];
            if (pos < lm_memory_first(m, layer, id_of(s)) && window &&
                pos + window < length[s] + 1)
                continue;
            read_row(m, layer, id_of(s), h, false, pos, got, place[layer].kv.k_row);
            read_row(m, layer, id_of(s), h, true, pos, value, place[layer].kv.v_row);
            assert_int_equal(got[0], marks[s][pos]);
            assert_int_equal(got[1], layer * 2 + h);
            assert_int_equal(got[2], angles[s][pos]);
            assert_int_equal(value[0], marks[s][pos]);
        }
}

/* Everything a sequence holds is still what was written. */
static void check(const struct lm_memory *m, uint32_t s)
{
    assert_int_equal(lm_memory_length(m, id_of(s)), length[s]);
    for (uint32_t pos = 0; pos < length[s]; pos++)
        assert_int_equal(lm_memory_angle(m, id_of(s), pos), angles[s][pos]);
    char states[512];
    assert_true(lm_memory_state_bytes(m) <= sizeof states);
    const bool any = lm_memory_has_state(m, id_of(s));
    if (any)
        assert_int_equal(lm_memory_read_state(m, id_of(s), states, NULL), LM_OK);
    for (uint32_t i = 0; i < LAYERS; i++) {
        const size_t at = place[i].whole_off + place[i].state_off - place[i].conv_off;
        uint32_t want = 0, got = 0;
        check_rows(m, i, s);
        if (!layers[i].state)
            continue;
        for (uint32_t pos = 0; pos < length[s]; pos++)
            want = step(want, marks[s][pos]);
        if (any)
            memcpy(&got, states + at, sizeof got);
        assert_int_equal(got, want);
    }
}

static void evaluate(struct lm_memory *m, const struct lm_memory_token *t, const uint32_t *who,
                     uint32_t n)
{
    int64_t lists[4][BATCH], states[2][2 * BATCH];
    int32_t turned[BATCH];
    uint32_t first = n / 3;             /* two pieces, as evaluation may cut a batch */
    for (uint32_t part = 0; part < 2; part++) {
        uint32_t from = part ? first : 0, count = part ? n - first : first;
        lm_memory_angles(m, from, count, turned + from);
        for (uint32_t i = 0; i < 2 * n_bufts; i++)
            lm_memory_pages(m, i, from, count, lists[i] + from);
        for (uint32_t i = 0; i < LAYERS; i++)
            if (layers[i].state)
                lm_memory_states(m, place[i].where, from, count,
                                 states[place[i].where] + 2 * from);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t mark = marks[who[i]][t[i].pos] = next_mark++;
        for (uint32_t k = 0; k < LAYERS; k++) {
            if (layers[k].n_head_kv)
                write_row(lists[place[k].list][i], k, t[i].pos, mark, turned[i]);
            if (layers[k].state)
                write_state(states[place[k].where] + 2 * i, k, mark);
        }
    }
}

static void append(struct lm_memory *m, bool keep)
{
    static uint32_t kept[SEQS][CTX];
    struct lm_memory_token t[BATCH];
    uint32_t n = 0, who[BATCH], want = 1 + draw(BATCH);
    uint32_t some = 1 + draw(4), base = draw(SEQS);
    memcpy(kept, marks, sizeof kept);
    while (n < want) {
        uint32_t s = (base + draw(some)) % SEQS;
        if (length[s] == CTX)
            break;
        angles[s][length[s]] = length[s] ? angles[s][length[s] - 1] + 1 : 0;
        t[n] = (struct lm_memory_token){ id_of(s), length[s]++ };
        who[n++] = s;
    }
    if (n) {
        assert_int_equal(lm_memory_begin(m, t, n, NULL), LM_OK);
        evaluate(m, t, who, n);
        lm_memory_end(m, keep);
    }
    for (uint32_t i = n; !keep && i-- > 0; )
        length[who[i]]--;
    if (!keep)
        memcpy(marks, kept, sizeof kept);
}

/* The key says what is wrong with it, if there is. */
static void turn(void *arg, uint32_t layer, void *key, int32_t by)
{
    uint32_t got[3];
    memcpy(got, key, sizeof got);
    assert_null(arg);
    assert_true(by < 0);
    assert_int_equal(got[1] / 2, layer);
    got[2] += (uint32_t)by;
    memcpy(key, got, sizeof got);
}

static bool windows(void)
{
    return layers[0].window || layers[1].window || layers[2].window;
}

static void shift(struct lm_memory *m, uint32_t s)
{
    uint32_t from = draw(length[s] + 1), to = from + draw(length[s] - from + 1);
    struct lm_err err;
    int r = lm_memory_shift(m, id_of(s), from, to, turn, NULL, &err);
    if (r) {
        assert_int_equal(r, LM_ENOSUP);
        assert_true(lm_memory_state_bytes(m) || windows());
        return;
    }
    memmove(marks[s] + from, marks[s] + to, (length[s] - to) * sizeof **marks);
    const uint32_t down = to < length[s] ? angles[s][to] - angles[s][from] : 0;
    length[s] -= to - from;
    for (uint32_t pos = from; pos < length[s]; pos++)
        angles[s][pos] = angles[s][pos + to - from] - down;
}

static void divide(struct lm_memory *m, uint32_t s)
{
    uint32_t from = draw(length[s] + 1), to = from + draw(length[s] - from + 1);
    uint32_t by = 1 + draw(4), first = angles[s][from], down = 0;
    struct lm_err err;
    int r = lm_memory_divide(m, id_of(s), from, to, by, turn, NULL, &err);
    if (r) {
        assert_int_equal(r, LM_ENOSUP);
        assert_true(lm_memory_state_bytes(m));
        return;
    }
    for (uint32_t pos = from; pos < length[s]; pos++) {
        if (pos < to)
            down = (angles[s][pos] - first) - (angles[s][pos] - first) / by;
        angles[s][pos] -= down;
    }
}

static void copy(struct lm_memory *m, uint32_t s)
{
    uint32_t from = draw(SEQS);
    assert_int_equal(lm_memory_copy(m, id_of(s), id_of(from), NULL), LM_OK);
    length[s] = length[from];
    memmove(marks[s], marks[from], sizeof *marks);
    memmove(angles[s], angles[from], sizeof *angles);
}

static void cut(struct lm_memory *m, uint32_t s)
{
    uint32_t pos = draw(4) ? draw(length[s] + 1) : length[s] - draw(length[s] % 9 + 1);
    bool can = lm_memory_can_cut(m, id_of(s), pos);
    assert_true(can || (pos && (windows() || lm_memory_state_bytes(m))));
    assert_int_equal(lm_memory_remove(m, id_of(s), pos, NULL), can ? LM_OK : LM_ENOSUP);
    if (can)
        length[s] = pos;
}

static void random_rounds(struct lm_memory *m, int rounds)
{
    memset(length, 0, sizeof length);
    for (int round = 0; round < rounds; round++) {
        uint32_t s = draw(SEQS);
        switch (draw(9)) {
        case 0:
            cut(m, s);
            break;
        case 1:
            append(m, false);
            break;
        case 2:
            copy(m, s);
            break;
        case 3:
            shift(m, s);
            break;
        case 4:
            divide(m, s);
            break;
        default:
            append(m, true);
        }
        check(m, s);
        check(m, draw(SEQS));
    }
    for (uint32_t s = 0; s < SEQS; s++)
        check(m, s);
    lm_memory_keep(m, id_of(3));
    for (uint32_t s = 0; s < SEQS; s++)
        length[s] = s == 3 ? length[s] : 0;
    for (uint32_t s = 0; s < SEQS; s++)
        check(m, s);
    lm_memory_free(m);
}

/* Each kind in one memory, and spread over two. */
static void random_kinds(const struct lm_memory_layer *a, const struct lm_memory_layer *b,
                         const struct lm_memory_layer *c, int rounds)
{
    for (n_bufts = 2; n_bufts > 0; n_bufts--)
        random_rounds(new_memory(a, b, c), rounds);
    n_bufts = 1;
}

static void test_kv(void **state)
{
    (void)state;
    random_kinds(&kv, &kv, &kv, 2000);
    random_kinds(&latent, &chooser, &latent, 2000);
}

static void test_windows(void **state)
{
    (void)state;
    random_kinds(&kv, &near, &near, 2000);
    random_kinds(&near, &near, &near, 1000);
}

static void test_recurrent(void **state)
{
    (void)state;
    random_kinds(&recurrent, &recurrent, &recurrent, 2000);
}

static void test_hybrid(void **state)
{
    (void)state;
    random_kinds(&recurrent, &kv, &recurrent, 2000);
    random_kinds(&kv, &near, &recurrent, 2000);
}

/* n tokens of sequence 0, in one batch. */
static void feed(struct lm_memory *m, uint32_t n)
{
    struct lm_memory_token t[BATCH];
    uint32_t who[BATCH] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        t[i] = (struct lm_memory_token){ id_of(0), length[0]++ };
    assert_int_equal(lm_memory_begin(m, t, n, NULL), LM_OK);
    evaluate(m, t, who, n);
    lm_memory_end(m, true);
}

/* A window's pages are given back, and what is held is not. */
static void test_window_room(void **state)
{
    struct lm_memory *m = new_memory(&near, &kv, &near);
    (void)state;
    memset(length, 0, sizeof length);
    feed(m, 80);
    lm_memory_hold(m, 0);
    feed(m, 90);
    feed(m, 90);
    assert_int_equal(lm_memory_divide(m, 0, 100, 200, 3, turn, NULL, NULL), LM_OK);
    assert_true(lm_memory_first(m, 0, 0) <= 80 - WINDOW + 1);
    assert_int_equal(lm_memory_remove(m, 0, 80, NULL), LM_OK);
    length[0] = 80;
    check(m, 0);
    lm_memory_release(m, 0);
    feed(m, 90);
    feed(m, 90);
    uint8_t row[64];
    assert_true(lm_memory_first(m, 0, 0) >= 64);
    assert_int_equal(lm_memory_read(m, 0, 0, 1, true, 63, 1, row, NULL), LM_EUSE);
    assert_int_equal(lm_memory_first(m, 1, 0), 0);
    assert_int_equal(lm_memory_remove(m, 0, 80, NULL), LM_ENOSUP);
    assert_true(lm_memory_can_cut(m, 0, 250));
    check(m, 0);
    lm_memory_free(m);
}

/* A state can be taken back to where a batch began, longer ago where it is held. */
static void test_snapshots(void **state)
{
    struct lm_memory *m = new_memory(&recurrent, &kv, &recurrent);
    (void)state;
    memset(length, 0, sizeof length);
    feed(m, 20);
    lm_memory_hold(m, 0);
    for (int i = 0; i < 30; i++)
        feed(m, 1);
    assert_true(lm_memory_can_cut(m, 0, 49) && !lm_memory_can_cut(m, 0, 51));
    assert_int_equal(lm_memory_remove(m, 0, 20, NULL), LM_OK);
    length[0] = 20;
    check(m, 0);
    lm_memory_release(m, 0);
    for (int i = 0; i < 30; i++)
        feed(m, 2);
    size_t there = 0;
    for (uint32_t pos = 1; pos < length[0]; pos++)
        there += lm_memory_can_cut(m, 0, pos);
    assert_int_equal(there, 3);
    assert_true(lm_memory_can_cut(m, 0, length[0] - 2));
    assert_false(lm_memory_can_cut(m, 0, length[0] - 1));
    assert_int_equal(lm_memory_remove(m, 0, length[0] - 2, NULL), LM_OK);
    length[0] -= 2;
    check(m, 0);
    lm_memory_free(m);
}

/* Written again row by row, a sequence is what it was. */
static void test_restore(void **state)
{
    struct lm_memory *m = new_memory(&recurrent, &kv, &near);
    uint32_t ids[3];
    struct lm_err err;
    (void)state;
    memset(length, 0, sizeof length);
    feed(m, 90);
    feed(m, 90);
    feed(m, 20);
    assert_int_equal(lm_memory_restore(m, id_of(1), 200, &err), LM_OK);
    assert_int_equal(lm_memory_seqs(m, ids, 3), 2);
    assert_int_equal(ids[0] + ids[1], id_of(0) + id_of(1));
    for (uint32_t i = 0; i < LAYERS; i++)
        for (uint32_t h = 0; h < 4 && layers[i].n_head_kv; h++) {
            const uint32_t first = lm_memory_first(m, i, 0);
            static uint8_t rows[200 * 64];
            assert_int_equal(lm_memory_first(m, i, id_of(1)), first);
            assert_int_equal(lm_memory_read(m, i, 0, h / 2, h % 2, first, 200 - first, rows, &err),
                             LM_OK);
            assert_int_equal(lm_memory_write(m, i, id_of(1), h / 2, h % 2, first, 200 - first,
                                             rows, &err), LM_OK);
        }
    char states[512];
    assert_int_equal(lm_memory_read_state(m, 0, states, &err), LM_OK);
    assert_int_equal(lm_memory_write_state(m, id_of(1), states, &err), LM_OK);
    length[1] = 200;
    memcpy(marks[1], marks[0], sizeof *marks);
    memcpy(angles[1], angles[0], sizeof *angles);
    check(m, 1);
    check(m, 0);
    assert_int_equal(lm_memory_restore(m, 5, CTX + 1, &err), LM_EUSE);
    assert_int_equal(lm_memory_restore(m, 5, 0, &err), LM_EUSE);
    lm_memory_free(m);
}

/* Windows that remember everything may begin later when they were not saved whole: such a sequence
 * cannot be cut back to where they would see what is not there. */
static void test_lacking(void **state)
{
    struct lm_memory *m = new_memory(&kv, &near, &near);
    struct lm_err err;
    (void)state;
    lm_memory_free(m);
    shape.keep_all = true;
    assert_int_equal(lm_memory_places(&shape, place, &err), LM_OK);
    assert_non_null(m = lm_memory_new(&shape, &err));
    assert_int_equal(lm_memory_restore(m, 1, 200, &err), LM_OK);
    assert_int_equal(lm_memory_lack(m, 1, 0, 1, &err), LM_EDATA);
    assert_int_equal(lm_memory_lack(m, 1, 1, 200 - WINDOW + 2, &err), LM_EDATA);
    assert_true(lm_memory_can_cut(m, 1, 20));
    assert_int_equal(lm_memory_lack(m, 1, 1, 100, &err), LM_OK);
    assert_int_equal(lm_memory_lack(m, 1, 2, 64, &err), LM_OK);
    assert_int_equal(lm_memory_first(m, 0, 1), 0);
    assert_int_equal(lm_memory_first(m, 1, 1), 100);
    assert_int_equal(lm_memory_copy(m, 2, 1, &err), LM_OK);
    assert_false(lm_memory_can_cut(m, 2, 100 + WINDOW - 2));
    assert_true(lm_memory_can_cut(m, 2, 100 + WINDOW - 1));
    assert_int_equal(lm_memory_shift(m, 2, 10, 20, NULL, NULL, &err), LM_OK);
    assert_int_equal(lm_memory_first(m, 1, 2), 90);
    assert_int_equal(lm_memory_shift(m, 2, 95, 180, NULL, NULL, &err), LM_ENOSUP);
    assert_int_equal(lm_memory_remove(m, 2, 90 + WINDOW - 1, &err), LM_OK);
    assert_int_equal(lm_memory_remove(m, 2, 0, &err), LM_OK);
    assert_int_equal(lm_memory_first(m, 1, 2), 0);
    lm_memory_free(m);
}

/* A batch with one token that cannot be leaves nothing behind. */
static void test_refused(void **state)
{
    struct lm_memory *m = new_memory(&kv, &near, &recurrent);
    struct lm_err err;
    struct lm_memory_token t[3] = { { 1, 0 }, { 2, 0 }, { 1, 2 } };
    (void)state;
    assert_int_equal(lm_memory_begin(m, t, 3, &err), LM_EUSE);
    assert_int_equal(lm_memory_length(m, 1), 0);
    t[2].pos = 1;
    assert_int_equal(lm_memory_begin(m, t, 3, &err), LM_OK);
    lm_memory_end(m, true);
    assert_int_equal(lm_memory_length(m, 1), 2);
    assert_int_equal(lm_memory_length(m, 2), 1);
    assert_int_equal(lm_memory_remove(m, 2, 2, &err), LM_EUSE);
    assert_int_equal(lm_memory_remove(m, 3, 0, &err), LM_OK);
    assert_int_equal(lm_memory_room(m, 1, 1, t, 3, &err), LM_ENOSUP);
    assert_int_equal(lm_memory_room(m, 1, 2, t, 3, &err), LM_OK);
    assert_int_equal(lm_memory_begin(m, t, BATCH + 1, &err), LM_EUSE);
    lm_memory_free(m);
}

/* Layers that remember nothing: every batch is a beginning. */
static void test_nothing(void **state)
{
    static const struct lm_memory_layer none;
    struct lm_memory *m = new_memory(&none, &none, &none);
    struct lm_memory_token t[4] = { { 1, 0 }, { 2, 0 }, { 1, 1 }, { 2, 1 } };
    struct lm_err err;
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lm_memory_begin(m, t, 4, &err), LM_OK);
        lm_memory_end(m, i != 1);
        assert_int_equal(lm_memory_length(m, 1), 0);
    }
    assert_int_equal(lm_memory_seqs(m, NULL, 0), 0);
    lm_memory_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_kv),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_recurrent),
        cmocka_unit_test(test_hybrid),
        cmocka_unit_test(test_window_room),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_lacking),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
