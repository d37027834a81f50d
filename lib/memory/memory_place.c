/* SPDX-License-Identifier: MIT */
/* Where layers lie in pages and states, and what these cost. */
#include "memory/memory_parts.h"

#include <string.h>

#include "base/size.h"
#include "tensor/hadamard.h"

static bool align64(size_t *at, uint64_t add)
{
    uint64_t next;
    if (!lm_add_u64(*at, add, &next) || !lm_align_u64(next, 64, &next) || next > SIZE_MAX / 4)
        return false;
    *at = (size_t)next;
    return true;
}

/* Types with blocks short enough for a head, and that need nothing but the row itself. */
static int check_type(const struct lm_type *t, const struct lm_memory_shape *s, bool value,
                      struct lm_err *err)
{
    static const uint32_t ids[] = {
        LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q5_0, LM_Q5_1, LM_Q4_0, LM_Q4_1, LM_IQ4_NL
    };
    bool known = false;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        known |= t->id == ids[i];
    if (!known || !t->encode || !t->decode)
        return lm_fail(err, LM_ENOSUP, "a cache of type %s is not supported", t->name);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        const struct lm_memory_layer *l = &s->layers[i];
        uint32_t head = value ? l->head_v : l->head_k;
        if (l->n_head_kv && !l->f32 && head % t->block)
            return lm_fail(err, LM_ENOSUP, "a cache of type %s holds blocks of %u values: heads "
                           "of %u cannot be cut into them", t->name, t->block, head);
    }
    return LM_OK;
}

/* Bytes of rows of a page. */
static bool rows(const struct lm_type *t, uint32_t head, uint32_t n_head, size_t *row,
                 uint64_t *bytes)
{
    uint64_t one;
    if (!lm_type_row_bytes(t, head, &one) ||
        !lm_mul_u64(one, (uint64_t)n_head * LM_KV_PAGE, bytes))
        return false;
    *row = (size_t)one;
    return true;
}

/* Room for a layer's keys and values after *at bytes of its page. */
static bool place_kv(const struct lm_memory_shape *s, const struct lm_memory_layer *l,
                     size_t *at, struct lm_kv_layout *out)
{
    const struct lm_type *f32 = lm_type_by_id(LM_F32);
    uint64_t k, v;
    *out = (struct lm_kv_layout){
        .k_type = l->f32 ? f32 : s->k_type, .v_type = l->f32 ? f32 : s->v_type,
        .n_head_kv = l->n_head_kv, .head_k = l->head_k, .head_v = l->head_v, .k_off = *at,
    };
    if (!rows(out->k_type, l->head_k, l->n_head_kv, &out->k_row, &k) || !align64(at, k))
        return false;
    /* A value that is part of a key must be whole blocks of it. */
    if (!s->no_hadamard) {
        out->k_block = lm_hadamard_block(out->k_type, l->v_in_k ? (size_t)l->head_k | l->head_v
                                                              : l->head_k);
        out->v_block = l->v_in_k ? out->k_block : lm_hadamard_block(out->v_type, l->head_v);
    }
    if (l->v_in_k) {
        out->v_in_k = true;
        out->v_type = out->k_type;
        out->v_off = out->k_off;
        out->v_row = out->k_row;
        return l->head_v <= l->head_k;
    }
    out->v_off = *at;
    return rows(out->v_type, l->head_v, l->n_head_kv, &out->v_row, &v) && align64(at, v);
}

int lm_memory_place_all(const struct lm_memory_shape *s, struct lm_memory_place *places,
                        struct lm_memory_sizes *size, struct lm_err *err)
{
    int r = check_type(s->k_type, s, false, err);
    if (r || (r = check_type(s->v_type, s, true, err)))
        return r;
    memset(size, 0, sizeof *size);
    for (uint32_t i = 0; i < s->n_layer; i++) {
        struct lm_memory_place room, *out = places ? &places[i] : &room;
        const struct lm_memory_layer *l = &s->layers[i];
        const uint32_t list = 2 * l->where + (l->window && !s->keep_all);
        size_t *state = &size->state[l->where];
        uint64_t conv, own;
        *out = (struct lm_memory_place){
            .where = l->where, .list = list, .conv_off = *state,
            .window = l->n_head_kv ? l->window : 0, .whole_off = size->whole,
        };
        if ((l->n_head_kv && !place_kv(s, l, &size->page[list], &out->kv)) ||
            !lm_mul_u64(l->conv, sizeof(float), &conv) || !align64(state, conv))
            return lm_fail_nomem(err);
        out->state_off = *state;
        if (!lm_mul_u64(l->state, sizeof(float), &own) || !align64(state, own))
            return lm_fail_nomem(err);
        out->state_bytes = *state - out->conv_off;
        if (!align64(&size->whole, out->state_bytes))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}

int lm_memory_places(const struct lm_memory_shape *s, struct lm_memory_place *out,
                     struct lm_err *err)
{
    struct lm_memory_sizes size;
    return lm_memory_place_all(s, out, &size, err);
}

int lm_memory_cost(const struct lm_memory_shape *s, struct lm_memory_cost *out,
                   struct lm_err *err)
{
    struct lm_memory_sizes size;
    uint32_t window = 0;
    int r = lm_memory_place_all(s, NULL, &size, err);
    if (r)
        return r;
    *out = (struct lm_memory_cost){ .state = size.whole };
    for (uint32_t i = 0; i < s->n_layer; i++)
        window = s->layers[i].window > window ? s->layers[i].window : window;
    for (uint32_t i = 0; i < 2 * s->n_bufts; i++)
        if (!lm_add_u64(out->page[i % 2], size.page[i], &out->page[i % 2]))
            return lm_fail_nomem(err);
    for (int i = 0; i < 2; i++) {
        uint64_t seen = i && window < s->n_ctx ? window : s->n_ctx;
        if (!lm_mul_u64(out->page[i], seen / LM_KV_PAGE + (seen % LM_KV_PAGE != 0), &out->kv[i]))
            return lm_fail_nomem(err);
    }
    return LM_OK;
}
