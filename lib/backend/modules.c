/* SPDX-License-Identifier: MIT */
/* The devices there are: modules that are found and opened, then what is built in. */
#define _GNU_SOURCE             /* secure_getenv */
#include "backend/backend.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/size.h"
#include "tensor/ops.h"

extern const struct lm_registry lm_registry_cpu;

#define PREFIX "liblmpipe-"
#define SUFFIX ".so"

typedef const struct lm_registry *module_fn(const struct lm_host *host);

static const struct lm_host host = {
    LM_BACKEND_VERSION, &lm_registry_cpu, lm_fail, lm_op_row, lm_type_by_id
};

struct module {
    char *name, *path;
    void *handle;               /* NULL: not opened, or not to be used               */
};

struct lm_devices {
    struct module            *modules;
    size_t                    n_modules, cap_modules;
    const struct lm_device  **list;
    size_t                    n, cap;
};

static bool known(const struct lm_devices *d, const char *name, size_t n)
{
    for (size_t i = 0; i < d->n_modules; i++)
        if (strlen(d->modules[i].name) == n && memcmp(d->modules[i].name, name, n) == 0)
            return true;
    return false;
}

static char *copy(const char *p, size_t n)
{
    char *s = malloc(n + 1);
    if (s) {
        memcpy(s, p, n);
        s[n] = 0;
    }
    return s;
}

static int add_file(struct lm_devices *d, const char *folder, size_t len, const char *file)
{
    const size_t before = sizeof PREFIX - 1, after = sizeof SUFFIX - 1, n = strlen(file);
    if (n <= before + after || memcmp(file, PREFIX, before) ||
        memcmp(file + n - after, SUFFIX, after) || known(d, file + before, n - before - after))
        return LM_OK;
    struct lm_buf path = {0};
    lm_buf_printf(&path, "%.*s/%s", (int)len, folder, file);
    struct module m = { .name = copy(file + before, n - before - after),
                        .path = path.failed ? NULL : copy(path.data, strlen(path.data)) };
    lm_buf_release(&path);
    if (!m.name || !m.path ||
        !lm_grow(&d->modules, &d->cap_modules, d->n_modules + 1, sizeof *d->modules)) {
        free(m.name);
        free(m.path);
        return LM_ENOMEM;
    }
    d->modules[d->n_modules++] = m;
    return LM_OK;
}

/* A folder that is not there, or cannot be read, has no modules. */
static int scan(struct lm_devices *d, const char *folder, size_t len)
{
    char *path = copy(folder, len);
    DIR *dir = path && len ? opendir(path) : NULL;
    int r = path ? LM_OK : LM_ENOMEM;
    for (struct dirent *e; dir && !r && (e = readdir(dir)); )
        r = add_file(d, folder, len, e->d_name);
    if (dir)
        closedir(dir);
    free(path);
    return r;
}

/* The folder of the running program, and the one above it. */
static int scan_program(struct lm_devices *d)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    int r = LM_OK;
    for (int i = 0; i < 2 && n > 0 && n < (ssize_t)sizeof path && !r; i++) {
        while (n > 1 && path[n - 1] != '/')
            n--;
        r = n > 1 ? scan(d, path, (size_t)--n) : LM_OK;
    }
    return r;
}

static int find_modules(struct lm_devices *d)
{
    const char *list = secure_getenv("LMPIPE_MODULES");
    if (!list) {
        int r = scan_program(d);
        return r ? r : scan(d, LM_LIBDIR "/lmpipe", sizeof LM_LIBDIR "/lmpipe" - 1);
    }
    for (size_t n; *list; list += n + (list[n] == ':')) {
        n = strcspn(list, ":");
        int r = scan(d, list, n);
        if (r)
            return r;
    }
    return LM_OK;
}

static int rank(const struct module *m)
{
    return strcmp(m->name, "cuda") == 0 ? 0 : strcmp(m->name, "vulkan") == 0 ? 1 : 2;
}

static int by_preference(const void *a, const void *b)
{
    const struct module *x = a, *y = b;
    int r = rank(x) - rank(y);
    return r ? r : strcmp(x->name, y->name);
}

static int add_devices(struct lm_devices *d, const struct lm_registry *r)
{
    for (size_t i = 0; i < r->n_devices(); i++) {
        if (!lm_grow(&d->list, &d->cap, d->n + 1, sizeof *d->list))
            return LM_ENOMEM;
        d->list[d->n++] = r->device(i);
    }
    return LM_OK;
}

static int open_module(struct lm_devices *d, struct module *m, const struct lm_env *env)
{
    module_fn *enter;
    m->handle = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = m->handle ? dlsym(m->handle, "lm_backend_module") : NULL;
    if (!symbol) {
        const char *why = dlerror();
        lm_note(env, LM_INFO, "%s: cannot be used: %s", m->path, why ? why : "no module");
        return LM_OK;
    }
    memcpy(&enter, &symbol, sizeof enter);      /* ISO C has no cast from data to code */
    const struct lm_registry *r = enter(&host);
    if (!r || r->version != LM_BACKEND_VERSION) {
        lm_note(env, LM_INFO, "%s: not used: %s", m->path,
                r ? "made for another version of lmpipe" : "none of its devices is here");
        return LM_OK;
    }
    return add_devices(d, r);
}

struct lm_devices *lm_devices_open(const struct lm_env *env, struct lm_err *err)
{
    struct lm_devices *d = calloc(1, sizeof *d);
    int r = d ? find_modules(d) : LM_ENOMEM;
    if (!r && d->n_modules > 1)
        qsort(d->modules, d->n_modules, sizeof *d->modules, by_preference);
    for (size_t i = 0; !r && i < d->n_modules; i++)
        r = open_module(d, &d->modules[i], env);
    for (size_t i = 0; !r && lm_registries[i]; i++)
        r = add_devices(d, lm_registries[i]);
    if (!r)
        return d;
    lm_fail_nomem(err);
    lm_devices_close(d);
    return NULL;
}

void lm_devices_close(struct lm_devices *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_modules; i++) {
        if (d->modules[i].handle)
            dlclose(d->modules[i].handle);
        free(d->modules[i].name);
        free(d->modules[i].path);
    }
    free(d->modules);
    free(d->list);
    free(d);
}

size_t lm_devices_n(const struct lm_devices *d)
{
    return d->n;
}

const struct lm_device *lm_devices_at(const struct lm_devices *d, size_t i)
{
    return i < d->n ? d->list[i] : NULL;
}

const struct lm_device *lm_devices_find(const struct lm_devices *d, const char *name, size_t n)
{
    for (size_t i = 0; i < d->n; i++) {
        const char *s = d->list[i]->ops->name(d->list[i]);
        if (strlen(s) == n && memcmp(s, name, n) == 0)
            return d->list[i];
    }
    return NULL;
}
