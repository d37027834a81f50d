/* SPDX-License-Identifier: MIT */
/* safetensors headers: what is accepted must be safe to read by. */
#include <stdlib.h>
#include <string.h>

#include "hf/safetensors.h"
#include "io/input.h"

static void check(const struct lm_safetensors *st, uint64_t data)
{
    for (size_t i = 0; i < st->n_tensors; i++) {
        const struct lm_st_tensor *t = &st->tensors[i];
        uint64_t n = t->dtype->bytes;
        for (uint32_t d = 0; d < t->n_dims; d++)
            n *= t->shape[d];
        if (n != t->bytes || t->begin > data || t->bytes > data - t->begin)
            abort();
        if (i && strcmp(t[-1].name, t->name) >= 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lm_safetensors st;
    struct lm_arena a = {0};
    struct lm_err err = {0};
    uint64_t len;
    if (size < 8 || lm_safetensors_length(data, size, &len, &err))
        return 0;
    const char *header = (const char *)data + 8;
    if (lm_safetensors_parse(&st, &a, header, (size_t)len, size, &err) == LM_OK)
        check(&st, size - st.data_offset);
    else if (err.code >= 0 || !err.text[0])
        abort();                              /* failed without saying why */
    lm_safetensors_parse(&st, &a, header, (size_t)len, LM_SIZE_UNKNOWN, &err);
    lm_arena_release(&a);
    return 0;
}
