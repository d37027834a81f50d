/* SPDX-License-Identifier: MIT */
#include "job/totals.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/size.h"

bool lm_totals_weights(const struct lm_gguf_tensor *t, uint64_t *n)
{
    *n = 1;
    for (int k = 0; k < LM_GGUF_MAX_DIMS; k++)
        if (!t->ne[k] || !lm_mul_u64(*n, t->ne[k], n))
            return false;
    return true;
}

double lm_totals_bits(uint64_t n_weights, uint64_t bytes)
{
    return n_weights ? (double)bytes * 8 / (double)n_weights : 0;
}

static void add(uint64_t *sum, uint64_t n)
{
    if (!lm_add_u64(*sum, n, sum))
        *sum = UINT64_MAX;
}

static struct lm_totals_type *row_of(struct lm_totals *t, const struct lm_type *type)
{
    for (size_t i = 0; i < t->n_types; i++)
        if (t->types[i].type == type)
            return &t->types[i];
    if (t->n_types == LM_TOTALS_TYPES)
        return NULL;
    t->types[t->n_types].type = type;
    return &t->types[t->n_types++];
}

static void add_tensor(struct lm_totals *out, const struct lm_gguf_tensor *t)
{
    uint64_t n;
    struct lm_totals_type *row = t->type ? row_of(out, t->type) : NULL;
    if (!row || !lm_totals_weights(t, &n)) {
        out->n_unknown++;
        return;
    }
    out->n_tensors++;
    add(&out->n_weights, n);
    add(&out->bytes, t->bytes);
    row->n_tensors++;
    add(&row->n_weights, n);
    add(&row->bytes, t->bytes);
    if (strstr(t->name.p, "_exps."))         /* a matrix for each expert, one behind the other */
        add(&out->n_expert_weights, n);
}

/* An architecture's number, 0 if it is not said. */
static uint32_t number(const struct lm_gguf *g, const char *name)
{
    struct lm_str arch;
    struct lm_buf key = { 0 };
    uint32_t n = 0;
    if (lm_gguf_str(g, "general.architecture", &arch, NULL) == LM_OK)
        lm_buf_printf(&key, "%s.%s", arch.p, name);
    if (key.len && !key.failed && lm_gguf_u32(g, key.data, &n, NULL) != LM_OK)
        n = 0;
    lm_buf_release(&key);
    return n;
}

static int by_bytes(const void *x, const void *y)
{
    const struct lm_totals_type *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->type->id > b->type->id) - (a->type->id < b->type->id);
}

void lm_totals_of(const struct lm_gguf *const *files, size_t n, const struct lm_gguf *meta,
                  struct lm_totals *out)
{
    *out = (struct lm_totals){ 0 };
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < files[i]->n_tensors; k++)
            add_tensor(out, &files[i]->tensors[k]);
    qsort(out->types, out->n_types, sizeof *out->types, by_bytes);
    out->n_active = out->n_weights;
    if (!out->n_expert_weights)
        return;
    out->n_experts = number(meta, "expert_count");
    out->n_used = number(meta, "expert_used_count");
    if (out->n_experts && out->n_used && out->n_used <= out->n_experts)
        out->n_active = out->n_weights - out->n_expert_weights +
                        out->n_expert_weights / out->n_experts * out->n_used;
}
