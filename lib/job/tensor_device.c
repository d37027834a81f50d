/* SPDX-License-Identifier: MIT */
#include "job/tensor_device.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "job/pattern.h"

struct rule {
    struct lm_pattern *pattern;
    char              *device;
    const char        *text;
    bool               used;
};

struct lm_tensor_devices {
    struct rule *rules;
    size_t       n, cap;
};

int lm_tensor_devices_add(struct lm_tensor_devices **list, const char *rule, struct lm_err *err)
{
    const char *sign = strrchr(rule, '=');
    if (!sign || sign == rule || !sign[1])
        return lm_fail(err, LM_EUSE, "'%s': wanted REGEX=DEVICE", rule);
    if (!*list && !(*list = calloc(1, sizeof **list)))
        return lm_fail_nomem(err);
    struct lm_tensor_devices *l = *list;
    if (!lm_grow(&l->rules, &l->cap, l->n + 1, sizeof *l->rules))
        return lm_fail_nomem(err);
    struct rule *r = &l->rules[l->n];
    if (!(r->device = strdup(sign + 1)))
        return lm_fail_nomem(err);
    if (!(r->pattern = lm_pattern_new(rule, (size_t)(sign - rule), err))) {
        free(r->device);
        return LM_EUSE;
    }
    r->text = rule;
    r->used = false;
    l->n++;
    return LM_OK;
}

void lm_tensor_devices_free(struct lm_tensor_devices *list)
{
    for (size_t i = 0; list && i < list->n; i++) {
        lm_pattern_free(list->rules[i].pattern);
        free(list->rules[i].device);
    }
    if (list)
        free(list->rules);
    free(list);
}

const char *lm_tensor_devices_choose(void *arg, const char *tensor)
{
    const struct lm_tensor_devices *list = arg;
    for (size_t i = 0; i < list->n; i++)
        if (lm_pattern_matches(list->rules[i].pattern, tensor)) {
            list->rules[i].used = true;
            return list->rules[i].device;
        }
    return NULL;
}

const char *lm_tensor_devices_unused(const struct lm_tensor_devices *list)
{
    for (size_t i = 0; list && i < list->n; i++)
        if (!list->rules[i].used)
            return list->rules[i].text;
    return NULL;
}
