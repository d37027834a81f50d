/* SPDX-License-Identifier: MIT */
/* The CPU as a backend: its five tables. */
#define _DEFAULT_SOURCE         /* madvise */
#include "backend/cpu/cpu_exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "base/size.h"

static const struct lm_device cpu_device;
static const struct lm_buft compute_buft, matrix_buft;

/* Buffers of both types are plain memory. */
struct buffer {
    struct lm_buffer base;
    void            *mem;
};

static void buffer_free(struct lm_buffer *b)
{
    if (!b)
        return;
    free(((struct buffer *)b)->mem);
    free(b);
}

static void *buffer_base(struct lm_buffer *b)
{
    return ((struct buffer *)b)->mem;
}

static int plain_init(struct lm_buffer *b, struct lm_tensor *t, void *data, struct lm_err *err)
{
    (void)err;
    t->data = data;
    t->buffer = b;
    t->layout = NULL;
    return LM_OK;
}

static void plain_set(struct lm_buffer *b, struct lm_tensor *t, const void *src, size_t first,
                      size_t n)
{
    (void)b;
    memcpy((char *)t->data + first * t->nb[1], src, n * t->nb[1]);
}

static size_t plain_rows(struct lm_buffer *b, const struct lm_tensor *t)
{
    (void)b;
    (void)t;
    return 1;
}

/* Of either type: bytes are bytes, and writing is copying. */
static int buffer_write(struct lm_buffer *b, void *dst, const void *src, size_t n,
                        struct lm_err *err)
{
    (void)b;
    (void)err;
    memcpy(dst, src, n);
    return LM_OK;
}

static int buffer_read(struct lm_buffer *b, const void *src, void *dst, size_t n,
                       struct lm_err *err)
{
    (void)b;
    (void)err;
    memcpy(dst, src, n);
    return LM_OK;
}

static size_t plain_size(const struct lm_buft *b, const struct lm_tensor *t)
{
    (void)b;
    return lm_tensor_bytes(t);
}

/* Weights are read from end to end for every token: with pages of 2 MiB that costs far
 * fewer look-ups of addresses.  Only a wish; small buffers are not worth it. */
static int get_memory(void **mem, size_t size)
{
    const size_t huge = 2u << 20;
    if (size < 2 * huge)
        return posix_memalign(mem, 64, size ? size : 64);
    int r = posix_memalign(mem, huge, size);
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (r == 0)
        (void)madvise(*mem, size, MADV_HUGEPAGE);
#endif
    return r;
}

static struct lm_buffer *alloc(const struct lm_buft *type, const struct lm_buffer_ops *ops,
                               size_t size, struct lm_err *err)
{
    struct buffer *b = calloc(1, sizeof *b);
    if (!b || get_memory(&b->mem, size)) {
        free(b);
        lm_fail(err, LM_ENOMEM, "out of memory: %zu bytes", size);
        return NULL;
    }
    b->base = (struct lm_buffer){ .ops = ops, .type = type, .size = size };
    return &b->base;
}

static const struct lm_buffer_ops plain_ops = {
    buffer_free, buffer_base, plain_init, plain_set, plain_rows, buffer_write, buffer_read,
    buffer_write
};

static bool plain_as_in_file(const struct lm_buft *b, const struct lm_tensor *t)
{
    (void)b;
    (void)t;
    return true;
}

static struct lm_buffer *plain_alloc(const struct lm_buft *b, size_t size, struct lm_err *err)
{
    return alloc(b, &plain_ops, size, err);
}

static const char *plain_name(const struct lm_buft *b)
{
    (void)b;
    return "cpu";
}

/* Weights in the layout of the best kernel, which `layout` remembers. */
static const struct lm_cpu_mulmat *best(const struct lm_tensor *t)
{
    return t->type->decode ? lm_cpu_mulmat_find(t->type, t->ne[0], lm_isa(), 0) : NULL;
}

static size_t packed_size(const struct lm_buft *b, const struct lm_tensor *t)
{
    const struct lm_cpu_mulmat *mm = best(t);
    uint64_t bytes;
    (void)b;
    /* A stack is packed as one tall matrix, where no panel holds rows of two. */
    if (!mm || t->ne[3] != 1 || (t->ne[2] != 1 && t->ne[1] % mm->rows) ||
        !lm_mul_u64(mm->panel_bytes(t->type, t->ne[0]), (t->ne[1] + mm->rows - 1) / mm->rows,
                    &bytes) || !lm_mul_u64(bytes, t->ne[2], &bytes))
        return SIZE_MAX;
    return (size_t)bytes;
}

static int packed_init(struct lm_buffer *b, struct lm_tensor *t, void *data, struct lm_err *err)
{
    (void)err;
    t->data = data;
    t->buffer = b;
    t->layout = best(t);
    return LM_OK;
}

static void packed_set(struct lm_buffer *b, struct lm_tensor *t, const void *src, size_t first,
                       size_t n)
{
    const struct lm_cpu_mulmat *mm = t->layout;
    size_t panel = mm->panel_bytes(t->type, t->ne[0]), row = t->nb[1];
    (void)b;
    for (size_t r = 0; r < n; r += mm->rows) {
        char *dst = (char *)t->data + (first + r) / mm->rows * panel;
        const char *from = (const char *)src + r * row;
        size_t len = n - r < mm->rows ? n - r : mm->rows;
        if (mm->pack)
            mm->pack(from, row, len, t->ne[0], dst);
        else
            memcpy(dst, from, len * row);
    }
}

static size_t packed_rows(struct lm_buffer *b, const struct lm_tensor *t)
{
    const struct lm_cpu_mulmat *mm = t->layout;
    (void)b;
    return mm->rows;
}

static const struct lm_buffer_ops packed_ops = {
    buffer_free, buffer_base, packed_init, packed_set, packed_rows, buffer_write, buffer_read,
    buffer_write
};

static bool packed_as_in_file(const struct lm_buft *b, const struct lm_tensor *t)
{
    const struct lm_cpu_mulmat *mm = best(t);
    (void)b;
    return mm && !mm->pack;
}

static struct lm_buffer *packed_alloc(const struct lm_buft *b, size_t size, struct lm_err *err)
{
    return alloc(b, &packed_ops, size, err);
}

static const char *packed_name(const struct lm_buft *b)
{
    (void)b;
    return "cpu-packed";
}

static const struct lm_buft_ops compute_ops = {
    plain_name, 64, true, plain_size, plain_as_in_file, plain_alloc
};
static const struct lm_buft_ops matrix_ops = {
    packed_name, 64, false, packed_size, packed_as_in_file, packed_alloc
};
static const struct lm_buft compute_buft = { &compute_ops };
static const struct lm_buft matrix_buft = { &matrix_ops };

static const char *device_name(const struct lm_device *d)
{
    (void)d;
    return "cpu";
}

static void describe(const struct lm_device *d, char *dst, size_t size)
{
    (void)d;
    snprintf(dst, size, "CPU, %d usable, instruction set %s", lm_cpu_count(),
             lm_isa_name(lm_isa()));
}

static const struct lm_buft *device_buft(const struct lm_device *d, enum lm_buffer_use use)
{
    (void)d;
    return use == LM_USE_MATRIX ? &matrix_buft : &compute_buft;
}

static const struct lm_buft *no_buft(const struct lm_device *d)
{
    (void)d;
    return NULL;
}

static void memory(const struct lm_device *d, uint64_t *left, uint64_t *all)
{
    (void)d;
    lm_cpu_memory(left, all);
}

static bool offload(const struct lm_device *d, const struct lm_tensor *t)
{
    (void)d;
    (void)t;
    return false;
}

static bool supports_op(const struct lm_device *d, const struct lm_tensor *t)
{
    (void)d;
    return lm_cpu_supports(t);
}

static bool decodes_first(const struct lm_device *d, const struct lm_tensor *w)
{
    const struct lm_cpu_mulmat *mm = best(w);
    (void)d;
    return mm && mm->isa == LM_ISA_SCALAR;
}

static bool supports_buft(const struct lm_device *d, const struct lm_buft *b)
{
    (void)d;
    return b->ops->host || b == &matrix_buft;
}

static void backend_free(struct lm_backend *b)
{
    struct lm_cpu *c = (struct lm_cpu *)b;
    if (!c)
        return;
    lm_pool_free(c->pool);
    free(c->work);
    free(c);
}

/* It is never behind, and its memory is the host's. */
static int synchronize(struct lm_backend *b, struct lm_err *err)
{
    (void)b;
    (void)err;
    return LM_OK;
}

static const struct lm_backend_ops backend_ops = {
    .free = backend_free, .compile = lm_cpu_compile, .release = lm_cpu_release,
    .run = lm_cpu_run, .synchronize = synchronize,
};

static struct lm_backend *device_open(const struct lm_device *d, const struct lm_env *env,
                                      struct lm_err *err)
{
    struct lm_cpu *c = calloc(1, sizeof *c);
    if (!c) {
        lm_fail_nomem(err);
        return NULL;
    }
    c->base = (struct lm_backend){ &backend_ops, d };
    if (env)
        c->env = *env;
    c->n_threads = lm_env_threads(env);
    c->n_batch = env && env->n_threads_batch > 0 ? env->n_threads_batch : c->n_threads;
    const int most = c->n_batch > c->n_threads ? c->n_batch : c->n_threads;
    c->isa = lm_isa();
    c->vec = lm_vec_find(c->isa);
    c->recur = lm_recur_find(c->isa);
    c->attn = lm_attn_find(c->isa);
    c->scoring = lm_scoring_find(c->isa);
    if (most > 1 && !(c->pool = lm_pool_new(most, err))) {
        free(c);
        return NULL;
    }
    return &c->base;
}

static const struct lm_device_ops device_ops = {
    .name = device_name, .kind = LM_DEVICE_CPU, .exact = true, .describe = describe,
    .buft = device_buft, .host_buft = no_buft, .memory = memory, .offload = offload,
    .supports_op = supports_op, .decodes_first = decodes_first, .supports_buft = supports_buft,
    .open = device_open,
};
static const struct lm_device cpu_device = { &device_ops };

static size_t n_devices(void)
{
    return 1;
}

static const struct lm_device *device_at(size_t i)
{
    return i == 0 ? &cpu_device : NULL;
}

extern const struct lm_registry lm_registry_cpu;
const struct lm_registry lm_registry_cpu = {
    LM_BACKEND_VERSION, "cpu", n_devices, device_at
};
