/* SPDX-License-Identifier: MIT */
/* Tensors of one number that become metadata: they are read before anything is written. */

#include <stdlib.h>
#include <string.h>

#include "job/convert_parts.h"

static int by_name(const void *key, const void *st)
{
    return strcmp(key, ((const struct lm_st_tensor *)st)->name);
}

/* The one value of tensor `name`. */
static int number(struct lm_convert *c, const char *name, float *out, struct lm_err *err)
{
    uint8_t bytes[sizeof(double)];
    for (size_t i = 0; i < c->n_shards; i++) {
        const struct lm_safetensors *f = &c->shards[i].st;
        const struct lm_st_tensor *st =
            f->n_tensors ? bsearch(name, f->tensors, f->n_tensors, sizeof *f->tensors, by_name)
                         : NULL;
        const struct lm_type *type = st ? lm_convert_value_type(st) : NULL;
        if (!st)
            continue;
        if (!lm_hf_random(c->src))
            return lm_hf_need_spool(c->src, "numbers that become metadata:", err);
        if (!type || type->block != 1 || type->bytes > sizeof bytes || st->bytes != type->bytes)
            return lm_fail(err, LM_EDATA, "%s: %s: is not one number", c->shards[i].name, name);
        const int r = lm_convert_read_plain(c, i, st, 0, bytes, type->bytes, err);
        if (!r)
            type->decode(bytes, out, 1);
        return r;
    }
    return lm_fail(err, LM_EDATA, "no tensor %s", name);
}

int lm_convert_each_layer(struct lm_convert *c, const struct lm_arch_key *k, float *values,
                          struct lm_err *err)
{
    char name[LM_ARCH_NAME];
    int r = LM_OK;
    for (uint32_t i = 0; !r && i < c->cfg.h.n_layer; i++) {
        lm_arch_expand(k->config[0], i, name);
        r = number(c, name, &values[i], err);
    }
    return r;
}
