/* SPDX-License-Identifier: MIT */
/*
 * What a checkpoint of sentence-transformers has behind the model, by its modules.json: how the
 * vectors of tokens become one, and products that this goes through.
 */

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "job/convert_parts.h"

/* Does a module's type, "sentence_transformers.models.Pooling", end in `kind`, and where is it? */
static const char *folder_of(const struct lm_jval *module, const char *kind)
{
    const char *type = lm_jval_str(lm_jval_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return type && !strcmp(dot ? dot + 1 : type, kind) ? lm_jval_str(lm_jval_get(module, "path"))
                                                       : NULL;
}

/* A module's config.json. */
static int load_config(struct lm_convert *c, const char *folder, char *name, size_t size,
                       const struct lm_jval **out, struct lm_err *err)
{
    snprintf(name, size, "%.250s/config.json", folder);
    const int r = lm_convert_load_json(c, name, out, err);
    return r || *out ? r : lm_hf_missing(c->src, name, err);
}

/* How the vectors of tokens become one. */
static int read_pooling(struct lm_convert *c, const char *folder, struct lm_err *err)
{
    static const struct { const char *key, *mode; enum lm_pooling pooling; } ways[] = {
        { "pooling_mode_mean_tokens", "mean", LM_POOLING_MEAN },
        { "pooling_mode_cls_token", "cls", LM_POOLING_CLS },
        { "pooling_mode_lasttoken", "lasttoken", LM_POOLING_LAST },
    };
    const struct lm_jval *config;
    char name[300];
    const int r = load_config(c, folder, name, sizeof name, &config, err);
    if (r)
        return r;
    const char *mode = lm_jval_str(lm_jval_get(config, "pooling_mode"));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        bool yes = mode && !strcmp(mode, ways[i].mode);
        lm_jval_bool(lm_jval_get(config, ways[i].key), &yes);
        if (yes && !c->cfg.pooling)
            c->cfg.pooling = ways[i].pooling;
    }
    if (!c->cfg.pooling)
        return lm_fail(err, LM_ENOSUP, "%s: pooling other than mean, cls and lasttoken cannot be "
                       "converted", name);
    return LM_OK;
}

/* The i-th product, without a bias or anything behind it: files can say no more. */
static int read_dense(struct lm_convert *c, size_t i, const char *folder, struct lm_err *err)
{
    static const enum lm_role roles[] = { LM_DENSE_2, LM_DENSE_3 };
    const struct lm_arch_tensor *row = c->cfg.arch->tensors;
    const struct lm_jval *config;
    char name[300];
    int64_t in = 0, out = 0;
    bool bias = true;                   /* what the class has where the file is silent */
    if (i >= sizeof roles / sizeof *roles || !lm_arch_has(c->cfg.arch, roles[i]))
        return lm_fail(err, LM_ENOSUP, "modules.json: more than %zu modules of kind Dense cannot "
                       "be converted in a %s model", i, c->cfg.arch->name);
    const int r = load_config(c, folder, name, sizeof name, &config, err);
    if (r)
        return r;
    const char *act = lm_jval_str(lm_jval_get(config, "activation_function"));
    lm_jval_bool(lm_jval_get(config, "bias"), &bias);
    if (bias || !act || !lm_ends_with(act, ".Identity"))
        return lm_fail(err, LM_ENOSUP, "%s: a module with %s cannot be converted", name,
                       bias ? "a bias" : "an activation_function");
    if (!lm_jval_i64(lm_jval_get(config, "in_features"), &in) || in < 1 || in > 1 << 20 ||
        !lm_jval_i64(lm_jval_get(config, "out_features"), &out) || out < 1 || out > 1 << 20)
        return lm_fail(err, LM_EDATA, "%s: no in_features or out_features that fit", name);
    *(i ? &c->cfg.h.dense_3_in : &c->cfg.h.dense_2_in) = (uint32_t)in;
    *(i ? &c->cfg.h.dense_3_out : &c->cfg.h.dense_2_out) = (uint32_t)out;
    while (row->role != roles[i])
        row++;
    snprintf(name, sizeof name, "%.250s/model.safetensors", folder);
    c->cfg.dense[i].row = row;
    c->cfg.dense[i].file = lm_arena_copy(&c->arena, name, strlen(name));
    return c->cfg.dense[i].file ? LM_OK : lm_fail_nomem(err);
}

static bool has_pooling(const struct lm_arch *a)
{
    const struct lm_arch_key *k = a->keys;
    while (k->name && k->from != LM_FROM_POOLING)
        k++;
    return k->name;
}

int lm_convert_read_modules(struct lm_convert *c, struct lm_err *err)
{
    const struct lm_jval *modules;
    bool pools = false;
    size_t n = 0;
    if (!has_pooling(c->cfg.arch))
        return LM_OK;
    int r = lm_convert_load_json(c, "modules.json", &modules, err);
    for (const struct lm_jval *m = modules ? modules->first : NULL; m && !r; m = m->next) {
        const char *pooling = folder_of(m, "Pooling"), *dense = folder_of(m, "Dense");
        if (pooling && !pools) {
            r = read_pooling(c, pooling, err);
            pools = true;
        } else if (dense && lm_arch_has(c->cfg.arch, LM_DENSE_2)) {
            r = read_dense(c, n++, dense, err);
        } else if (dense) {
            lm_note(c->env, LM_WARN, "left out: %s: a %s file cannot have it", dense,
                    c->cfg.arch->name);
        }
    }
    if (!r && !pools && lm_ends_with(c->cfg.class, "ForSequenceClassification"))
        c->cfg.pooling = LM_POOLING_RANK;
    return r;
}
