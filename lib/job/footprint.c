/* SPDX-License-Identifier: MIT */
#include "job/footprint.h"

#include "arch/arch.h"
#include "base/size.h"

#define KV_BYTES 2u         /* of a number: f16 */

/* Bytes of the data of n files. */
static uint64_t weights(const struct lm_gguf *const *shards, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < shards[i]->n_tensors; k++)
            if (!lm_add_u64(sum, shards[i]->tensors[k].bytes, &sum))
                return UINT64_MAX;
    return sum;
}

static int find_arch(const struct lm_gguf *g, const struct lm_arch **a, struct lm_hparams *h,
                     struct lm_err *err)
{
    struct lm_str name;
    int r = lm_gguf_str(g, "general.architecture", &name, err);
    if (r)
        return r < 0 ? r : lm_fail(err, LM_EDATA, "key general.architecture: missing");
    *a = lm_arch_by_name(name.p);
    if (!*a)
        return lm_fail(err, LM_ENOSUP, "architecture %.120s is not known", name.p);
    return lm_arch_read(*a, g, h, err);
}

int lm_footprint_of(const struct lm_gguf *const *shards, size_t n, uint64_t n_ctx,
                    struct lm_footprint *out, struct lm_err *err)
{
    const struct lm_arch *a = NULL;
    struct lm_hparams h;
    int r = find_arch(shards[0], &a, &h, err);
    if (r)
        return r;
    *out = (struct lm_footprint){ .weights = weights(shards, n),
                                  .n_ctx = n_ctx ? n_ctx : h.n_ctx_train,
                                  .n_layers = h.n_layer, .window = h.window };
    /* All three are small enough for this product: the architecture has checked them. */
    out->kv_position = (uint64_t)h.n_head_kv * ((uint64_t)h.head_k + h.head_v) * KV_BYTES;
    for (uint32_t i = 0; i < h.n_layer; i++) {
        uint32_t window = lm_arch_window(a, &h, i);
        uint64_t layer, seen = window && window < out->n_ctx ? window : out->n_ctx;
        out->n_window_layers += window != 0;
        if (!lm_mul_u64(out->kv_position, out->n_ctx, &layer) ||
            !lm_add_u64(out->kv, layer, &out->kv))
            return lm_fail(err, LM_EDATA, "the size of keys and values does not fit 64 bits");
        out->kv_window += out->kv_position * seen;
    }
    return LM_OK;
}
