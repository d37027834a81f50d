/* SPDX-License-Identifier: MIT */
#include "backend/backend.h"

#include <string.h>

#include "base/size.h"

extern const struct lm_registry lm_registry_cpu;

const struct lm_registry *const lm_registries[] = {
    &lm_registry_cpu,
    NULL
};

const struct lm_device *lm_device_by_name(const char *name)
{
    for (size_t r = 0; lm_registries[r]; r++)
        for (size_t i = 0; i < lm_registries[r]->n_devices(); i++) {
            const struct lm_device *d = lm_registries[r]->device(i);
            if (strcmp(d->ops->name(d), name) == 0)
                return d;
        }
    return NULL;
}

bool lm_buft_add(const struct lm_buft *b, const struct lm_tensor *t, size_t *used)
{
    uint64_t at, size = b->ops->tensor_size(b, t);
    if (!lm_align_u64(*used, b->ops->align, &at) || !lm_add_u64(at, size, &at) ||
        at > SIZE_MAX / 2)
        return false;
    *used = (size_t)at;
    return true;
}

int lm_buffer_place(struct lm_buffer *b, struct lm_tensor *t, size_t *used, struct lm_err *err)
{
    size_t end = *used;
    if (!lm_buft_add(b->type, t, &end) || end > b->size)
        return lm_fail(err, LM_ENOMEM, "buffer of %zu bytes is too small", b->size);
    *used = end;
    end -= b->type->ops->tensor_size(b->type, t);
    return b->ops->init_tensor(b, t, (char *)b->ops->base(b) + end, err);
}
