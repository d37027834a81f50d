/* SPDX-License-Identifier: MIT */
/* Layers behind the last, which predict further tokens (arch/draft_head.h). */
#include <stdio.h>
#include <string.h>

#include "job/convert_parts.h"

const char *lm_convert_draft_name(const struct lm_convert *c, const char *name, char *dst,
                                  size_t size)
{
    const char *const *p = c->cfg.arch->draft_names;
    while (p && *p && strncmp(name, *p, strlen(*p)))
        p += 2;
    if (!p || !*p)
        return name;
    snprintf(dst, size, "model.layers.%u.%s%s", c->cfg.h.n_layer, p[1], name + strlen(*p));
    return dst;
}

/* The row that only such layers have, and all of them; NULL: the family's are left out. */
static const struct lm_arch_tensor *row_of(const struct lm_arch *a)
{
    const struct lm_arch_tensor *t = a->tensors;
    while (t->name && t->role != LM_DRAFT_JOIN)
        t++;
    return t->name ? t : NULL;
}

static void count(struct lm_convert *c, const char *name)
{
    struct lm_hparams *h = &c->cfg.h;
    char own[LM_ARCH_NAME], draft[LM_ARCH_NAME];
    uint32_t layer;
    name = lm_convert_text_name(c, name, own, sizeof own);
    if (!name)
        return;
    name = lm_convert_draft_name(c, name, draft, sizeof draft);
    if (lm_arch_match(row_of(c->cfg.arch)->source, name, &layer, NULL) &&
        layer >= h->n_layer + h->n_further && layer < LM_MAX_LAYERS)
        h->n_further = layer - h->n_layer + 1;
}

void lm_convert_count_further(struct lm_convert *c)
{
    for (size_t i = 0; row_of(c->cfg.arch) && i < c->n_shards; i++)
        for (size_t k = 0; c->shards[i].read && k < c->shards[i].st.n_tensors; k++)
            count(c, c->shards[i].st.tensors[k].name);
    for (size_t i = 0; row_of(c->cfg.arch) && i < c->n_index; i++)
        count(c, c->index[i].tensor);
}

bool lm_convert_is_further(const struct lm_convert *c, const char *name)
{
    uint32_t layer;
    return c->cfg.arch->more_layers && lm_arch_match("model.layers.{i}.*", name, &layer, NULL) &&
           layer >= c->cfg.h.n_layer + c->cfg.h.n_further;
}
