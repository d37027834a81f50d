/* SPDX-License-Identifier: MIT */
/* Which layer goes to which device. */
#include "model/model_impl.h"

#include <stdio.h>
#include <string.h>

static int twice(const struct lm_device *d, struct lm_err *err)
{
    return lm_fail(err, LM_EUSE, "device %s is named twice", d->ops->name(d));
}

static int use(struct lm_model *m, const struct lm_device *d, struct lm_err *err)
{
    for (size_t i = 0; i < m->n_devices; i++)
        if (m->device[i] == d)
            return twice(d, err);
    if (m->n_devices == LM_MAX_PLACES - 1)
        return lm_fail(err, LM_EUSE, "more than %d devices", LM_MAX_PLACES - 1);
    m->device[m->n_devices++] = d;
    return LM_OK;
}

static int unknown(const struct lm_devices *all, const char *name, size_t len,
                   struct lm_err *err)
{
    char known[200] = "";
    for (size_t i = 0, n = 0; i < lm_devices_n(all) && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "",
                              lm_devices_at(all, i)->ops->name(lm_devices_at(all, i)));
    return lm_fail(err, LM_EUSE, "there is no device '%.*s' among %s",
                   (int)(len < 64 ? len : 64), name, known);
}

/* Those that are asked for besides the CPU, which may be named but is always there. */
static int choose(struct lm_model *m, const char *list, bool exact, struct lm_err *err)
{
    const struct lm_devices *all = m->devices;
    bool cpu = false;
    int r = LM_OK;
    for (size_t i = 0; !list && i + 1 < lm_devices_n(all) && !r; i++)
        if (!exact || lm_devices_at(all, i)->ops->exact)
            r = use(m, lm_devices_at(all, i), err);
    for (size_t n; list && *list && !r; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        const struct lm_device *d = lm_devices_find(all, list, n);
        if (!d)
            return unknown(all, list, n, err);
        if (exact && !d->ops->exact)
            return lm_fail(err, LM_ENOSUP, "device %s: its results depend on batches",
                           d->ops->name(d));
        if (d->ops->kind != LM_DEVICE_CPU)
            r = use(m, d, err);
        else if (cpu)
            return twice(d, err);
        cpu |= d->ops->kind == LM_DEVICE_CPU;
    }
    return r;
}

int lm_place_layers(struct lm_model *m, const struct lm_placement *p, const struct lm_env *env,
                    struct lm_err *err)
{
    uint32_t all = m->h.n_layer + 1, n = p && p->some_layers && p->n_layers < all ? p->n_layers
                                                                                 : all;
    if (!(m->devices = lm_devices_open(env, err)))
        return LM_ENOMEM;
    int r = choose(m, p ? p->devices : NULL, p && p->exact, err);
    if (r)
        return r;
    if (!n)
        m->n_devices = 0;
    size_t others = m->n_devices;
    m->device[m->n_devices++] = lm_devices_at(m->devices, lm_devices_n(m->devices) - 1);
    if (!(m->layer_device = lm_arena_array(&m->arena, all, sizeof *m->layer_device)))
        return lm_fail_nomem(err);
    for (uint32_t i = 0; i < all; i++)
        m->layer_device[i] = others == 0 || i < all - n
                                 ? (uint8_t)lm_model_cpu_index(m)
                                 : (uint8_t)((uint64_t)(i - (all - n)) * others / n);
    return LM_OK;
}
