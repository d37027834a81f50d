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
 * A backend does what it is asked to in the order in which it is asked, but may be behind:
 * run, write, read and copy return before they are done.  Events say how far it has come;
 * synchronize waits for all.  Memory that is not `host` is only touched by its backend.
 *
 * To add a backend: a module, liblmpipe-NAME.so, that has the function
 *
 *   const struct lm_registry *lm_backend_module(const struct lm_host *host);
 *
 * It returns its registry, or NULL when there is none of its hardware.  When host->version is
 * not what it was built for it returns the registry at once, whose version then says so, and
 * uses nothing else of host.  A module uses nothing of the program that opens it but what host
 * points to, which stays.  No line of the library names a module: lm_devices_open finds it.
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

/*
 * The version of what the library and a module share; a module of another one is refused.  The
 * first number is raised by hand when something comes to mean something else.  Another number
 * of operations, or another size of a tensor, a graph, a type or one of the tables below, is
 * another version by itself.
 */
#define LM_BACKEND_VERSION \
    ((uint32_t)(7 + ((uint32_t)LM_N_OPS << 8) + (LM_BACKEND_SIZES << 16)))
#define LM_BACKEND_SIZES \
    (sizeof(struct lm_tensor) + sizeof(struct lm_graph) + sizeof(struct lm_type) + \
     sizeof(struct lm_env) + sizeof(struct lm_host) + sizeof(struct lm_registry) + \
     sizeof(struct lm_device_ops) + sizeof(struct lm_buft_ops) + \
     sizeof(struct lm_buffer_ops) + sizeof(struct lm_buffer) + sizeof(struct lm_backend_ops))

struct lm_registry;
struct lm_op_row;
struct lm_device;
struct lm_buft;
struct lm_buffer;
struct lm_backend;
struct lm_exec;                   /* a compiled graph, the backend's                     */

/* What a module is lent. */
struct lm_host {
    uint32_t                  version;      /* LM_BACKEND_VERSION                        */
    const struct lm_registry *cpu;          /* the last resort                           */
    int                     (*fail)(struct lm_err *err, enum lm_code code, const char *fmt, ...);
    const struct lm_op_row *(*op)(enum lm_op op);               /* ops.h                 */
    const struct lm_type   *(*type)(uint32_t id);               /* quant.h               */
};

enum lm_device_kind { LM_DEVICE_GPU, LM_DEVICE_CPU };

/* What a buffer is for. */
enum lm_buffer_use {
    LM_USE_MATRIX,                /* weights that are multiplied with, in any form       */
    LM_USE_WEIGHT,                /* other weights: in the tensors' own layout, as below */
    LM_USE_COMPUTE,               /* intermediates: no reason to compute here or there   */
    LM_USE_STATE                  /* what sequences remember: computed with where it is  */
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
    /* Does what it computes for a row of activations not depend, to the bit, on which other
     * rows there are? */
    bool                   exact;
    void                  (*describe)(const struct lm_device *d, char *dst, size_t size);
    /* The kind of memory to put data of that use in. */
    const struct lm_buft *(*buft)(const struct lm_device *d, enum lm_buffer_use use);
    /* Host memory that it exchanges data with fastest (pinned), or NULL: any will do.  */
    const struct lm_buft *(*host_buft)(const struct lm_device *d);
    /* Bytes of its memory: free, and in all; 0: not known. */
    void                  (*memory)(const struct lm_device *d, uint64_t *left, uint64_t *all);
    /* Can it compute this node, whose sources may not have data yet?  The CPU can compute
     * every one. */
    bool                  (*supports_op)(const struct lm_device *d, const struct lm_tensor *t);
    /* Is this node, whose weights are in host memory as in a file, worth bringing them
     * here? */
    bool                  (*offload)(const struct lm_device *d, const struct lm_tensor *t);
    /* Can its operations read this memory where it is? */
    bool                  (*supports_buft)(const struct lm_device *d, const struct lm_buft *b);
    /* Has it no products for a weight's type but by way of floats? */
    bool                  (*decodes_first)(const struct lm_device *d, const struct lm_tensor *w);
    /* Set it to work with env->n_threads threads where that matters; the caller frees the
     * backend.  NULL with *err filled. */
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
    /* A buffer of size bytes (0 is one too) for the caller to free; NULL, LM_ENOMEM. */
    struct lm_buffer *(*alloc)(const struct lm_buft *b, size_t size, struct lm_err *err);
};
struct lm_buft {
    const struct lm_buft_ops *ops;
};

/* 4. Buffer. */
struct lm_buffer_ops {
    void  (*free)(struct lm_buffer *b);
    void *(*base)(struct lm_buffer *b);     /* its first byte, aligned as its type says  */
    /* A tensor now lives at data, inside the buffer: sets ->data, ->buffer, ->layout. */
    int   (*init_tensor)(struct lm_buffer *b, struct lm_tensor *t, void *data,
                         struct lm_err *err);
    /* Write rows first .. first + n - 1 of a tensor from the form they have in a file,
     * n_rows being counted over all axes but the first.  `first` must be a multiple of
     * set_rows(t).  Safe from several threads on disjoint rows. */
    void  (*set)(struct lm_buffer *b, struct lm_tensor *t, const void *src, size_t first,
                 size_t n);
    size_t (*set_rows)(struct lm_buffer *b, const struct lm_tensor *t);
    /* Copy n bytes to and from the buffer's memory, at an address in it; done on return. */
    int   (*write)(struct lm_buffer *b, void *dst, const void *src, size_t n,
                   struct lm_err *err);
    int   (*read)(struct lm_buffer *b, const void *src, void *dst, size_t n,
                  struct lm_err *err);
    /* The same from src, in this buffer or another of its type, to dst in this one. */
    int   (*copy)(struct lm_buffer *b, void *dst, const void *src, size_t n,
                  struct lm_err *err);
};
struct lm_buffer {
    const struct lm_buffer_ops *ops;
    const struct lm_buft       *type;
    size_t                      size;
    enum lm_buffer_use          use;        /* set by who made it                        */
};

/* 5. Backend. */
struct lm_event;                  /* the backend's                                       */

struct lm_backend_ops {
    void            (*free)(struct lm_backend *b);
    /* Make the nodes of a placed graph ready to run; they must stay as they are, but the
     * data of inputs and outputs in host memory may move between runs.  Allocates what the
     * runs need; release frees it.  NULL with *err filled. */
    struct lm_exec *(*compile)(struct lm_backend *b, const struct lm_graph *g,
                               struct lm_err *err);
    void            (*release)(struct lm_backend *b, struct lm_exec *e);
    /* Evaluate it.  If seen is not NULL it is called after each node while what the node
     * read and made is intact, and done on return; reading it is for lm_tensor_read. */
    int             (*run)(struct lm_backend *b, struct lm_exec *e,
                           void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
                           struct lm_err *err);
    /* Wait until everything is done; a failure since the last call. */
    int             (*synchronize)(struct lm_backend *b, struct lm_err *err);
    /* Between host memory and tensors of its memory, n bytes at an offset: the host's bytes
     * must stay until it is done.  NULL: write and read of the buffer will do. */
    int             (*write)(struct lm_backend *b, struct lm_tensor *dst, size_t offset,
                             const void *src, size_t n, struct lm_err *err);
    int             (*read)(struct lm_backend *b, const struct lm_tensor *src, size_t offset,
                            void *dst, size_t n, struct lm_err *err);
    /* All of src, in its own memory, to dst in that of `to`, another backend's; false: it
     * cannot.  NULL: never. */
    bool            (*copy)(struct lm_backend *b, const struct lm_tensor *src,
                            struct lm_backend *to, struct lm_tensor *dst);
    /* Events: a point in what the backend was asked for, the caller's to free; NULL with *err
     * filled.  record sets it to now; wait lets this backend go on only when an event of
     * another one is reached, false when it knows no such event; reach waits for it here.  All
     * NULL: it is never behind. */
    struct lm_event *(*event_new)(struct lm_backend *b, struct lm_err *err);
    void            (*event_free)(struct lm_backend *b, struct lm_event *e);
    void            (*event_record)(struct lm_backend *b, struct lm_event *e);
    bool            (*event_wait)(struct lm_backend *b, struct lm_backend *of,
                                  struct lm_event *e);
    void            (*event_reach)(struct lm_backend *b, struct lm_event *e);
};
struct lm_backend {
    const struct lm_backend_ops *ops;
    const struct lm_device      *device;
};

/* The registries that are built in, in order of preference, the CPU last; NULL-terminated. */
extern const struct lm_registry *const lm_registries[];

/* The device of a built-in registry called `name` ("cpu"), or NULL. */
const struct lm_device *lm_device_by_name(const char *name);

/*
 * struct lm_devices - the devices there are, in order of preference, the CPU last.
 *
 * Modules are files called liblmpipe-NAME.so in the folders of $LMPIPE_MODULES, separated
 * by colons (none, if it is empty; it is not looked at in a program with more rights than
 * its user); without it in the folder of the running program, then in the folder above that,
 * then in $(LIBDIR)/lmpipe as built.  Of files of the same NAME the first counts.  cuda comes
 * first, then vulkan, then others by name.  A module that cannot be opened, or is of another
 * version, is a note of level LM_INFO.
 */
struct lm_devices;

/* Find them.  env, which may be NULL, gets the notes.  NULL with *err filled when memory is
 * short.  Closing closes the modules: everything of their devices must be freed by then. */
struct lm_devices *lm_devices_open(const struct lm_env *env, struct lm_err *err);
void lm_devices_close(struct lm_devices *d);

/* How many there are, and device i of them, NULL behind the last. */
size_t lm_devices_n(const struct lm_devices *d);
const struct lm_device *lm_devices_at(const struct lm_devices *d, size_t i);

/* By name (n characters of it), or NULL. */
const struct lm_device *lm_devices_find(const struct lm_devices *d, const char *name, size_t n);

/* n bytes of t's data at an offset, wherever it is; t->buffer NULL counts as host memory. */
int lm_tensor_read(const struct lm_tensor *t, size_t offset, void *dst, size_t n,
                   struct lm_err *err);

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
