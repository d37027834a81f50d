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

/* The place of t after *used bytes, which grow to its end. */
static bool add(const struct lm_buft *b, const struct lm_tensor *t, size_t *used, size_t *at)
{
    uint64_t start, end;
    if (!lm_align_u64(*used, b->ops->align, &start) ||
        !lm_add_u64(start, b->ops->tensor_size(b, t), &end) || end > SIZE_MAX / 2)
        return false;
    *at = (size_t)start;
    *used = (size_t)end;
    return true;
}

bool lm_buft_add(const struct lm_buft *b, const struct lm_tensor *t, size_t *used)
{
    size_t at;
    return add(b, t, used, &at);
}

int lm_buffer_place(struct lm_buffer *b, struct lm_tensor *t, size_t *used, struct lm_err *err)
{
    size_t end = *used, at;
    if (!add(b->type, t, &end, &at) || end > b->size)
        return lm_fail(err, LM_ENOMEM, "buffer of %zu bytes is too small", b->size);
    *used = end;
    return b->ops->init_tensor(b, t, (char *)b->ops->base(b) + at, err);
}

int lm_tensor_read(const struct lm_tensor *t, size_t offset, void *dst, size_t n,
                   struct lm_err *err)
{
    const char *src = (const char *)t->data + offset;
    if (t->buffer)
        return t->buffer->ops->read(t->buffer, src, dst, n, err);
    memcpy(dst, src, n);
    return LM_OK;
}
