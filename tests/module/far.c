/* SPDX-License-Identifier: MIT */
/*
 * far - a device for tests, built as a module: the CPU's kernels behind memory that nobody
 * but the device can touch (it is mapped without any rights whenever the device does
 * nothing), on a thread of its own that may be far behind.
 *
 *   LMPIPE_FAR_OPS=a,b     the operations it can compute; -a,b: all but these; default: all
 *   LMPIPE_FAR_DEVICES=N   how many devices there are (1); 0: none of its hardware is here
 *   LMPIPE_FAR_OTHER=1     is built for another version
 *   LMPIPE_FAR_OFFLOAD=N   wants products of at least N rows whose weights are the host's
 *   LMPIPE_FAR_DELAY=US    waits up to so long before everything it does
 *   LMPIPE_FAR_INEXACT=1   does not promise that neighbours do not matter
 *   LMPIPE_FAR_PLAIN=1     has neither events nor copies between devices
 */
#define _GNU_SOURCE
#include "backend/backend.h"
#include "tensor/ops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_DEVICES 4

static const struct lm_host *host;
static const struct lm_device *cpu;

/* --- memory that is closed --------------------------------------------------------------- */

struct buffer {
    struct lm_buffer  base;
    struct lm_buffer *like;         /* a buffer of the CPU that knows the layout */
    char             *mem;
    size_t            mapped;
    struct buffer    *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static int open_count;

static void protect(int rights)
{
    for (struct buffer *b = buffers; b; b = b->next)
        mprotect(b->mem, b->mapped, rights);
}

static void open_memory(void)
{
    pthread_mutex_lock(&lock);
    if (open_count++ == 0)
        protect(PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
}

static void close_memory(void)
{
    pthread_mutex_lock(&lock);
    if (--open_count == 0)
        protect(PROT_NONE);
    pthread_mutex_unlock(&lock);
}

static void buffer_free(struct lm_buffer *base)
{
    struct buffer *b = (struct buffer *)base, **p = &buffers;
    if (!b)
        return;
    pthread_mutex_lock(&lock);
    while (*p != b)
        p = &(*p)->next;
    *p = b->next;
    pthread_mutex_unlock(&lock);
    munmap(b->mem, b->mapped);
    b->like->ops->free(b->like);
    free(b);
}

static void *buffer_base(struct lm_buffer *b)
{
    return ((struct buffer *)b)->mem;
}

static int init_tensor(struct lm_buffer *b, struct lm_tensor *t, void *data, struct lm_err *err)
{
    struct lm_buffer *like = ((struct buffer *)b)->like;
    int r = like->ops->init_tensor(like, t, data, err);
    t->buffer = b;
    return r;
}

static void set(struct lm_buffer *b, struct lm_tensor *t, const void *src, size_t first, size_t n)
{
    struct lm_buffer *like = ((struct buffer *)b)->like;
    open_memory();
    like->ops->set(like, t, src, first, n);
    close_memory();
}

static size_t set_rows(struct lm_buffer *b, const struct lm_tensor *t)
{
    struct lm_buffer *like = ((struct buffer *)b)->like;
    return like->ops->set_rows(like, t);
}

static int move(void *dst, const void *src, size_t n)
{
    open_memory();
    memcpy(dst, src, n);
    close_memory();
    return LM_OK;
}

static int buffer_write(struct lm_buffer *b, void *dst, const void *src, size_t n,
                        struct lm_err *err)
{
    (void)b;
    (void)err;
    return move(dst, src, n);
}

static int buffer_read(struct lm_buffer *b, const void *src, void *dst, size_t n,
                       struct lm_err *err)
{
    (void)b;
    (void)err;
    return move(dst, src, n);
}

static const struct lm_buffer_ops buffer_ops = {
    buffer_free, buffer_base, init_tensor, set, set_rows, buffer_write, buffer_read, buffer_write
};

/* --- buffer types: one of each use for each device ---------------------------------------- */

struct device {
    struct lm_device base;
    struct lm_buft   plain, matrix;
    char             name[16];
};
static struct device devices[MAX_DEVICES];

static const struct lm_buft *like(const struct lm_buft *b)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        if (b == &devices[i].matrix)
            return cpu->ops->buft(cpu, LM_USE_MATRIX);
    return cpu->ops->buft(cpu, LM_USE_COMPUTE);
}

static const char *buft_name(const struct lm_buft *b)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        if (b == &devices[i].matrix || b == &devices[i].plain)
            return devices[i].name;
    return "far";
}

static size_t tensor_size(const struct lm_buft *b, const struct lm_tensor *t)
{
    return like(b)->ops->tensor_size(like(b), t);
}

static bool as_in_file(const struct lm_buft *b, const struct lm_tensor *t)
{
    (void)b;
    (void)t;
    return false;                   /* a mapped file is the host's memory */
}

static struct lm_buffer *alloc(const struct lm_buft *t, size_t size, struct lm_err *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct buffer *b = calloc(1, sizeof *b);
    size_t mapped = (size + 2 * page - 1) / page * page;
    void *mem = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!b || mem == MAP_FAILED || !(b->like = like(t)->ops->alloc(like(t), 1, err))) {
        free(b);
        host->fail(err, LM_ENOMEM, "out of memory: %zu bytes", size);
        return NULL;
    }
    b->base = (struct lm_buffer){ .ops = &buffer_ops, .type = t, .size = size };
    b->mem = mem;
    b->mapped = mapped;
    pthread_mutex_lock(&lock);
    b->next = buffers;
    buffers = b;
    if (open_count)
        mprotect(mem, mapped, PROT_READ | PROT_WRITE);
    pthread_mutex_unlock(&lock);
    return &b->base;
}

static const struct lm_buft_ops buft_ops = {
    buft_name, 64, false, tensor_size, as_in_file, alloc
};

/* --- a backend: a queue and a thread ------------------------------------------------------ */

enum what { RUN, MOVE, WAIT, LEAVE };

struct command {
    enum what         what;
    struct lm_exec   *exec;
    void             *dst;
    const void       *src;
    size_t            n;
    struct backend   *of;           /* whom to wait for, and until when */
    uint64_t          until;
    struct command   *next;
};

struct backend {
    struct lm_backend  base;
    struct lm_backend *inner;       /* the CPU's                      */
    pthread_t          thread;
    pthread_mutex_t    mutex;
    pthread_cond_t     change;
    struct command    *first, **last;
    uint64_t           issued, done;
    struct lm_err      err;
    unsigned           seed, delay;
};

struct lm_event {
    uint64_t until;
};

static void wait_until(struct backend *b, uint64_t until)
{
    pthread_mutex_lock(&b->mutex);
    while (b->done < until)
        pthread_cond_wait(&b->change, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

static void do_one(struct backend *b, const struct command *c)
{
    struct lm_err err = {0};
    if (b->delay)
        usleep((unsigned)rand_r(&b->seed) % b->delay);
    if (c->what == WAIT) {
        wait_until(c->of, c->until);
        return;
    }
    open_memory();
    if (c->what == MOVE)
        memcpy(c->dst, c->src, c->n);
    else if (b->inner->ops->run(b->inner, c->exec, NULL, NULL, &err))
        b->err = err;
    close_memory();
}

static void *work(void *arg)
{
    struct backend *b = arg;
    for (bool leave = false; !leave; ) {
        pthread_mutex_lock(&b->mutex);
        while (!b->first)
            pthread_cond_wait(&b->change, &b->mutex);
        struct command *c = b->first;
        if (!(b->first = c->next))
            b->last = &b->first;
        pthread_mutex_unlock(&b->mutex);
        leave = c->what == LEAVE;
        if (!leave)
            do_one(b, c);
        free(c);
        pthread_mutex_lock(&b->mutex);
        b->done++;
        pthread_cond_broadcast(&b->change);
        pthread_mutex_unlock(&b->mutex);
    }
    return NULL;
}

static int issue(struct backend *b, struct command c, struct lm_err *err)
{
    struct command *p = malloc(sizeof *p);
    if (!p)
        return host->fail(err, LM_ENOMEM, "out of memory");
    *p = c;
    p->next = NULL;
    pthread_mutex_lock(&b->mutex);
    *b->last = p;
    b->last = &p->next;
    b->issued++;
    pthread_cond_broadcast(&b->change);
    pthread_mutex_unlock(&b->mutex);
    return LM_OK;
}

static int synchronize(struct lm_backend *base, struct lm_err *err)
{
    struct backend *b = (struct backend *)base;
    wait_until(b, b->issued);
    struct lm_err e = b->err;
    b->err = (struct lm_err){0};
    return e.code ? host->fail(err, e.code, "%s", e.text) : LM_OK;
}

static void backend_free(struct lm_backend *base)
{
    struct backend *b = (struct backend *)base;
    if (!b)
        return;
    if (issue(b, (struct command){ .what = LEAVE }, NULL) == LM_OK)
        pthread_join(b->thread, NULL);
    b->inner->ops->free(b->inner);
    free(b);
}

static struct lm_exec *compile(struct lm_backend *base, const struct lm_graph *g,
                               struct lm_err *err)
{
    struct backend *b = (struct backend *)base;
    (void)synchronize(base, NULL);          /* it may need larger scratch than what runs */
    return b->inner->ops->compile(b->inner, g, err);
}

static void release(struct lm_backend *base, struct lm_exec *e)
{
    struct backend *b = (struct backend *)base;
    (void)synchronize(base, NULL);
    b->inner->ops->release(b->inner, e);
}

static int run(struct lm_backend *base, struct lm_exec *e,
               void (*seen)(void *arg, const struct lm_tensor *node), void *arg,
               struct lm_err *err)
{
    struct backend *b = (struct backend *)base;
    if (!seen)
        return issue(b, (struct command){ .what = RUN, .exec = e }, err);
    int r = synchronize(base, err);
    if (r)
        return r;
    open_memory();
    r = b->inner->ops->run(b->inner, e, seen, arg, err);
    close_memory();
    return r;
}

static int write_to(struct lm_backend *b, struct lm_tensor *dst, size_t offset, const void *src,
                    size_t n, struct lm_err *err)
{
    return issue((struct backend *)b, (struct command){ .what = MOVE,
                 .dst = (char *)dst->data + offset, .src = src, .n = n }, err);
}

static int read_from(struct lm_backend *b, const struct lm_tensor *src, size_t offset, void *dst,
                     size_t n, struct lm_err *err)
{
    return issue((struct backend *)b, (struct command){ .what = MOVE, .dst = dst,
                 .src = (const char *)src->data + offset, .n = n }, err);
}

static const struct lm_backend_ops backend_ops;

static bool copy(struct lm_backend *b, const struct lm_tensor *src, struct lm_backend *to,
                 struct lm_tensor *dst)
{
    size_t n = src->nb[LM_MAX_DIMS - 1] * src->ne[LM_MAX_DIMS - 1];
    return to->ops == &backend_ops &&
           issue((struct backend *)b, (struct command){ .what = MOVE, .dst = dst->data,
                 .src = src->data, .n = n }, NULL) == LM_OK;
}

static struct lm_event *event_new(struct lm_backend *b, struct lm_err *err)
{
    struct lm_event *e = calloc(1, sizeof *e);
    (void)b;
    if (!e)
        host->fail(err, LM_ENOMEM, "out of memory");
    return e;
}

static void event_free(struct lm_backend *b, struct lm_event *e)
{
    (void)b;
    free(e);
}

static void event_record(struct lm_backend *b, struct lm_event *e)
{
    e->until = ((struct backend *)b)->issued;
}

static bool event_wait(struct lm_backend *b, struct lm_backend *of, struct lm_event *e)
{
    return of->ops == &backend_ops &&
           issue((struct backend *)b, (struct command){ .what = WAIT,
                 .of = (struct backend *)of, .until = e->until }, NULL) == LM_OK;
}

static void event_reach(struct lm_backend *b, struct lm_event *e)
{
    wait_until((struct backend *)b, e->until);
}

static const struct lm_backend_ops backend_ops = {
    .free = backend_free, .compile = compile, .release = release, .run = run,
    .synchronize = synchronize, .write = write_to, .read = read_from, .copy = copy,
    .event_new = event_new, .event_free = event_free, .event_record = event_record,
    .event_wait = event_wait, .event_reach = event_reach,
};

static const struct lm_backend_ops plain_ops = {
    .free = backend_free, .compile = compile, .release = release, .run = run,
    .synchronize = synchronize, .write = write_to, .read = read_from,
};

/* --- devices ----------------------------------------------------------------------------- */

static const char *setting(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static const char *name(const struct lm_device *d)
{
    return ((const struct device *)d)->name;
}

static void describe(const struct lm_device *d, char *dst, size_t size)
{
    (void)d;
    snprintf(dst, size, "the CPU behind closed memory, for tests");
}

static const struct lm_buft *buft(const struct lm_device *d, enum lm_buffer_use use)
{
    const struct device *f = (const struct device *)d;
    return use == LM_USE_MATRIX ? &f->matrix : &f->plain;
}

static const struct lm_buft *host_buft(const struct lm_device *d)
{
    (void)d;
    return cpu->ops->buft(cpu, LM_USE_COMPUTE);
}

static void memory(const struct lm_device *d, uint64_t *left, uint64_t *all)
{
    (void)d;
    *left = *all = 0;
}

static bool supports_op(const struct lm_device *d, const struct lm_tensor *t)
{
    const char *list = setting("LMPIPE_FAR_OPS"), *op = host->op(t->op)->name;
    bool but = list && *list == '-', found = !list;
    list = list ? list + but : NULL;
    for (size_t n; list && *list && !found; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        found = strlen(op) == n && memcmp(op, list, n) == 0;
    }
    (void)d;
    return found != but && cpu->ops->supports_op(cpu, t);
}

static bool offload(const struct lm_device *d, const struct lm_tensor *t)
{
    const char *rows = setting("LMPIPE_FAR_OFFLOAD");
    (void)d;
    return rows && (t->op == LM_OP_MUL_MAT || t->op == LM_OP_MUL_MAT_ID) &&
           t->ne[1] * t->ne[2] * t->ne[3] >= (size_t)atol(rows);
}

static bool supports_buft(const struct lm_device *d, const struct lm_buft *b)
{
    const struct device *f = (const struct device *)d;
    return b == &f->matrix || b == &f->plain;
}

static bool decodes_first(const struct lm_device *d, const struct lm_tensor *w)
{
    (void)d;
    return cpu->ops->decodes_first(cpu, w);
}

static struct lm_backend *device_open(const struct lm_device *d, const struct lm_env *env,
                                      struct lm_err *err)
{
    struct backend *b = calloc(1, sizeof *b);
    const char *delay = setting("LMPIPE_FAR_DELAY");
    if (!b || !(b->inner = cpu->ops->open(cpu, env, err))) {
        free(b);
        return NULL;
    }
    b->base = (struct lm_backend){ setting("LMPIPE_FAR_PLAIN") ? &plain_ops : &backend_ops, d };
    b->last = &b->first;
    b->delay = delay ? (unsigned)atoi(delay) : 0;
    b->seed = 1;
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->change, NULL);
    if (pthread_create(&b->thread, NULL, work, b)) {
        host->fail(err, LM_ENOMEM, "no thread");
        b->inner->ops->free(b->inner);
        free(b);
        return NULL;
    }
    return &b->base;
}

static struct lm_device_ops device_ops = {
    .name = name, .kind = LM_DEVICE_GPU, .describe = describe, .buft = buft,
    .host_buft = host_buft, .memory = memory, .supports_op = supports_op, .offload = offload,
    .supports_buft = supports_buft, .decodes_first = decodes_first, .open = device_open,
};

static size_t n_devices(void)
{
    const char *n = setting("LMPIPE_FAR_DEVICES");
    size_t k = n ? (size_t)atol(n) : 1;
    return k < MAX_DEVICES ? k : MAX_DEVICES;
}

static const struct lm_device *device(size_t i)
{
    return i < n_devices() ? &devices[i].base : NULL;
}

static const struct lm_registry
    registry = { LM_BACKEND_VERSION, "far", n_devices, device },
    other = { LM_BACKEND_VERSION + (8 << 16), "far", NULL, NULL };  /* a pointer more somewhere */

__attribute__((visibility("default")))
const struct lm_registry *lm_backend_module(const struct lm_host *h);

const struct lm_registry *lm_backend_module(const struct lm_host *h)
{
    if (setting("LMPIPE_FAR_OTHER"))
        return &other;
    if (h->version != registry.version)
        return &registry;
    if (n_devices() == 0)
        return NULL;
    host = h;
    device_ops.exact = !setting("LMPIPE_FAR_INEXACT");
    cpu = h->cpu->device(0);
    for (int i = 0; i < MAX_DEVICES; i++) {
        devices[i].base.ops = &device_ops;
        devices[i].plain.ops = devices[i].matrix.ops = &buft_ops;
        snprintf(devices[i].name, sizeof devices[i].name, "far%d", i);
    }
    return &registry;
}
