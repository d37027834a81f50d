/* SPDX-License-Identifier: MIT */
#ifndef LM_BACKEND_H
#define LM_BACKEND_H

/*
 * What computes graphs: five small tables.
 *
 *   registry      what one kind of hardware offers: its devices
 *   device        one of them: what it can do, and where it likes its data
 *   buffer type   a kind of memory: alignment, size of a tensor in it
 *   buffer        a piece of it that holds tensors
 *   backend       a device at work: compiles graphs and runs them
 *
 * An object is a struct whose first member points to its table; the functions at
 * the foot of this file are what callers use.  All failures are codes with words.
 *
 * To add a backend: its tables, and its line in registry.c above the CPU, which comes
 * last because it can do everything.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LM_BACKEND_VERSION 1      /* of these tables; a module of another is refused     */

struct lm_device;
struct lm_buft;
struct lm_buffer;
struct lm_backend;
struct lm_exec;                   /* a compiled graph, the backend's                     */

enum lm_device_kind { LM_DEVICE_GPU, LM_DEVICE_CPU };

/* What a buffer is for. */
enum lm_buffer_use {
    LM_USE_MATRIX,                /* weights that are multiplied with, in any form       */
    LM_USE_COMPUTE                /* everything else, in the tensors' own layout         */
};

/* 1. Registry. */
struct lm_registry {
    uint32_t                version;
    const char             *name;                                   /* "cpu"             */
    size_t                (*n_devices)(void);
    const struct lm_device *(*device)(size_t i);
};

/* 2. Device. */
struct lm_device_ops {
    /* Name, kind and a line that describes it. */
    const char           *(*name)(const struct lm_device *d);
    enum lm_device_kind    kind;
    void                  (*describe)(const struct lm_device *d, char *dst, size_t size);
    /* The kind of memory to put data of that use in. */
    const struct lm_buft *(*buft)(const struct lm_device *d, enum lm_buffer_use use);
    /* Can it compute this node; can its operations read this memory? */
    bool                  (*supports_op)(const struct lm_device *d, const struct lm_tensor *t);
    /* Has it no products for a weight's type but by way of floats? */
    bool                  (*decodes_first)(const struct lm_device *d, const struct lm_tensor *w);
    bool                  (*supports_buft)(const struct lm_device *d, const struct lm_buft *b);
    /* Set it to work with env->n_threads threads where that matters. */
    struct lm_backend    *(*open)(const struct lm_device *d, const struct lm_env *env,
                                  struct lm_err *err);
};
struct lm_device {
    const struct lm_device_ops *ops;
};

/* 3. Buffer type. */
struct lm_buft_ops {
    const char        *(*name)(const struct lm_buft *b);
    size_t             align;               /* of every tensor, a power of two           */
    bool               host;                /* data can be read and written in place     */
    /* Bytes of a tensor in it, at least its own; SIZE_MAX: cannot hold it. */
    size_t            (*tensor_size)(const struct lm_buft *b, const struct lm_tensor *t);
    /* Would it hold t as a file does, so that mapped data can stand in for it? */
    bool              (*as_in_file)(const struct lm_buft *b, const struct lm_tensor *t);
    struct lm_buffer *(*alloc)(const struct lm_buft *b, size_t size, struct lm_err *err);
};
struct lm_buft {
    const struct lm_buft_ops *ops;
};

/* 4. Buffer. */
struct lm_buffer_ops {
    void  (*free)(struct lm_buffer *b);
    void *(*base)(struct lm_buffer *b);
    /* A tensor now lives at data, inside the buffer: sets ->data, ->buffer, ->layout. */
    int   (*init_tensor)(struct lm_buffer *b, struct lm_tensor *t, void *data,
                         struct lm_err *err);
    /* Write rows first .. first + n - 1 of a tensor from the form they have in a file,
     * n_rows being counted over all axes but the first.  `first` must be a multiple of
     * set_rows(t).  Safe from several threads on disjoint rows. */
    void  (*set)(struct lm_buffer *b, struct lm_tensor *t, const void *src, size_t first,
                 size_t n);
    size_t (*set_rows)(struct lm_buffer *b, const struct lm_tensor *t);
};
struct lm_buffer {
    const struct lm_buffer_ops *ops;
    const struct lm_buft       *type;
    size_t                      size;
};

/* 5. Backend. */
struct lm_backend_ops {
    void            (*free)(struct lm_backend *b);
    /* Make a placed graph ready to run; it must stay as it is, but data pointers of
     * outputs may move between runs.  Allocates what the runs need. */
    struct lm_exec *(*compile)(struct lm_backend *b, const struct lm_graph *g,
                               struct lm_err *err);
    void            (*release)(struct lm_backend *b, struct lm_exec *e);
    /* Evaluate it.  If seen is not NULL it is called, on the caller's thread, after each
     * MUL_MAT node while the node's sources are still intact. */
    int             (*run)(struct lm_backend *b, struct lm_exec *e,
                           void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
                           struct lm_err *err);
};
struct lm_backend {
    const struct lm_backend_ops *ops;
    const struct lm_device      *device;
};

/* The registries in order of preference, the CPU last; NULL-terminated. */
extern const struct lm_registry *const lm_registries[];

/* The device called `name` ("cpu"), or NULL. */
const struct lm_device *lm_device_by_name(const char *name);

/* Put t into buffer b at *used, which grows by its size there and the alignment.
 * LM_ENOMEM when the buffer is too small. */
int lm_buffer_place(struct lm_buffer *b, struct lm_tensor *t, size_t *used, struct lm_err *err);

/* Room that t takes in a buffer of that type after `used` bytes: false when it does not fit
 * a size. */
bool lm_buft_add(const struct lm_buft *b, const struct lm_tensor *t, size_t *used);

#ifdef __cplusplus
}
#endif

#endif
