/* SPDX-License-Identifier: MIT */
#ifndef LM_TEST_LOW_RANK_H
#define LM_TEST_LOW_RANK_H

/* Adapters of low rank with made-up numbers, for tests that include cmocka.h and model/model.h. */

#include <string.h>

/* The pair for a weight of so many rows, which may be a table. */
struct low_rank {
    const char *weight;
    uint32_t    cols, rows, rank;
    bool        table;
};

enum { LOW_RANK_MOST = 4096 };          /* values of a matrix */

static void low_rank_tensor(struct lm_gguf_writer *w, const struct low_rank *p, char side)
{
    const bool a = side == 'a';
    const uint64_t product[2] = { a ? p->cols : p->rank, a ? p->rank : p->rows };
    const uint64_t table[2] = { p->rank, a ? p->rows : p->cols };
    char name[64];
    assert_true(snprintf(name, sizeof name, "%s.lora_%c", p->weight, side) < (int)sizeof name);
    lm_gguf_add_tensor(w, name, strlen(name), 2, p->table ? table : product,
                       lm_type_by_id(LM_F32));
}

/*
 * Write one of so many pairs for a model of an architecture; `alpha` as the file has it; `kind`
 * chooses the numbers; what it waits for [n_ids], if that is not 0.
 */
static void write_low_rank(const char *path, const char *arch, float alpha, uint32_t kind,
                           const struct low_rank *pairs, size_t n_pairs, const uint32_t *ids,
                           size_t n_ids)
{
    static float data[LOW_RANK_MOST];
    struct lm_err err;
    struct lm_gguf_writer *w = lm_gguf_writer_new();
    struct lm_out *out = lm_out_open(path, &err);
    assert_true(w && out);
    lm_gguf_set_str(w, "general.architecture", arch, strlen(arch));
    lm_gguf_set_str(w, "general.type", "adapter", 7);
    lm_gguf_set_str(w, "adapter.type", "lora", 4);
    lm_gguf_set_f32(w, "adapter.lora.alpha", alpha);
    if (n_ids)
        lm_gguf_set_arr(w, "adapter.alora.invocation_tokens", LM_GGUF_U32, ids, n_ids);
    for (size_t i = 0; i < 2 * n_pairs; i++)
        low_rank_tensor(w, &pairs[i / 2], i % 2 ? 'b' : 'a');
    assert_int_equal(lm_gguf_write_head(w, out, &err), LM_OK);
    for (size_t i = 0; i < 2 * n_pairs; i++) {
        const struct low_rank *p = &pairs[i / 2];
        const uint32_t n = p->rank * (i % 2 == p->table ? p->cols : p->rows);
        assert_true(n <= LOW_RANK_MOST);
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t x = kind + (uint32_t)i;
            data[k] = (float)((k * 37 + x * 101 + k * k % 11) % 250) / 250 - 0.5f;
        }
        assert_int_equal(lm_out_write(out, data, (n * sizeof *data + 31) / 32 * 32, &err), LM_OK);
    }
    assert_int_equal(lm_out_commit(out, &err), LM_OK);
    lm_gguf_writer_free(w);
}

#endif
