/* SPDX-License-Identifier: MIT */
/* Keys that are lists, mostly saying something of each layer. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job/convert_parts.h"

/* Has layer i attention, by one of the ways to say so? */
static bool attends(const struct lm_convert *c, int64_t i)
{
    const struct lm_jval *json = c->cfg.json, *types = lm_convert_member(json, "layer_types");
    const struct lm_jval *list = lm_convert_member(json, "full_attn_idxs");
    list = list ? list : lm_convert_member(json, "attn_layer_indices");
    const struct lm_jval *from_1 = lm_convert_member(json, "linear_attn_config.full_attn_layers");
    if (lm_convert_layer_kind(c, i))
        return lm_convert_layer_kind(c, i) == '*';
    int64_t period = 0, offset = 0, at = 0, v;
    for (const struct lm_jval *t = types ? types->first : NULL; t; t = t->next, at++) {
        const char *s = lm_jval_str(t);
        if (at == i)
            return s && (!strcmp(s, "attention") || !strcmp(s, "full_attention"));
    }
    for (const struct lm_jval *t = list ? list->first : NULL; t; t = t->next)
        if (lm_jval_i64(t, &v) && v == i)
            return true;
    for (const struct lm_jval *t = from_1 ? from_1->first : NULL; t; t = t->next)
        if (lm_jval_i64(t, &v) && v == i + 1)
            return true;
    if (lm_jval_i64(lm_jval_get(json, "attn_layer_period"), &period) && period > 0) {
        lm_jval_i64(lm_jval_get(json, "attn_layer_offset"), &offset);
        return offset >= 0 && i >= offset && (i - offset) % period == 0;
    }
    if (types || list || from_1)
        return false;
    period = 4;
    lm_jval_i64(lm_jval_get(json, "full_attention_interval"), &period);
    return period > 0 && (i + 1) % period == 0;
}

/* Heads of every layer, by which of them have a window. */
static int heads_by_window(const struct lm_convert *c, const struct lm_arch_key *k,
                           int32_t *values, size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *json = c->cfg.json;
    bool own = lm_convert_member(json, "per_layer_config");
    int64_t near = 0, far;
    const int r = lm_convert_global(&c->cfg, k, &far, err);
    if (r)
        return r;
    lm_jval_bool(lm_jval_get(json, "attention_k_eq_v"), &own);
    lm_jval_i64(lm_jval_get(json, k->config[2]), &near);
    far = own && far >= 0 ? far : near;
    if (near < 1 || far < 1 || near > 1 << 16 || far > 1 << 16)
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[2]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n)
        values[*n] = (int32_t)(lm_arch_window(c->cfg.arch, &c->cfg.h, (uint32_t)*n) ? near : far);
    return LM_OK;
}

/* Inner lengths of layers that are nothing else; dense ones and experts are not mixed. */
static int lengths_of_kinds(const struct lm_convert *c, const struct lm_arch_key *k,
                            int32_t *values, size_t max, size_t *n, struct lm_err *err)
{
    int64_t one = 0;
    const char feeds = lm_arch_has(c->cfg.arch, LM_ROUTER) ? 'E' : '-';
    if (!lm_jval_i64(lm_jval_get(c->cfg.json, k->config[0]), &one) || one < 1 || one > 1 << 24)
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[0]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n) {
        const char kind = lm_convert_layer_kind(c, (int64_t)*n);
        if (kind != 'M' && kind != '*' && kind != feeds)
            return lm_fail(err, LM_ENOSUP, "config.json: layer %zu of kind %c cannot be converted "
                           "in a %s model", *n, kind ? kind : '?', c->cfg.arch->name);
        values[*n] = kind == feeds ? (int32_t)one : 0;
    }
    return LM_OK;
}

/* Inner lengths of every layer: a list, or a number that is doubled where layers share keys. */
static int lengths(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                   size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *v = lm_convert_member(c->cfg.json, k->config[0]);
    const uint32_t n_layer = c->cfg.h.n_layer;
    const bool list = v && v->kind == LM_JSON_ARRAY;
    bool wide = false;
    int64_t one = 0;
    if (k->config[1])
        lm_jval_bool(lm_jval_get(c->cfg.json, k->config[1]), &wide);
    const struct lm_jval *m = list ? v->first : v;
    for (*n = 0; m && *n < n_layer && *n < max; ++*n) {
        if (!lm_jval_i64(m, &one) || one < 0 || one > 1 << 24)
            break;
        values[*n] = (int32_t)(wide && *n >= n_layer - c->cfg.h.n_shared_kv ? 2 * one : one);
        m = list ? m->next : m;
    }
    if (*n < n_layer || (list && m))
        return lm_fail(err, LM_EDATA, "config.json: %s: no length for each of %u layers",
                       k->config[0], n_layer);
    return LM_OK;
}

/* Heads or a flag for every layer, by which of them have attention. */
static int by_attention(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                        size_t max, size_t *n, struct lm_err *err)
{
    const bool fixed = k->config[0] && *k->config[0] == '=';
    int64_t heads = fixed ? strtoll(k->config[0] + 1, NULL, 10) : 0;
    if (k->from == LM_FROM_KV_OF_LAYERS && !fixed &&
        (!lm_jval_i64(lm_jval_get(c->cfg.json, k->config[0]), &heads) || heads < 1 ||
         heads > 1 << 16))
        return lm_fail(err, LM_EDATA, "config.json: no %s", k->config[0]);
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n)
        values[*n] = k->from == LM_FROM_KV_OF_LAYERS
                         ? (attends(c, (int64_t)*n) ? (int32_t)heads : 0)
                         : !attends(c, (int64_t)*n);
    return LM_OK;
}

/* Parts of a head for each kind of position, zeros after them. */
static int sections(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                    size_t *n, struct lm_err *err)
{
    static const int32_t usual[4] = { 11, 11, 10, 0 };
    const struct lm_jval *list = lm_convert_member(c->cfg.rope, k->config[0]);
    int64_t v;
    memcpy(values, usual, sizeof usual);
    *n = 4;
    if (!list)
        return k->from == LM_FROM_SECTIONS_SAID;
    memset(values, 0, sizeof usual);
    *n = 0;
    for (const struct lm_jval *t = list->first; t; t = t->next) {
        if (!lm_jval_i64(t, &v) || v < 0 || v > INT32_MAX || *n == 4)
            return lm_fail(err, LM_EDATA, "config.json: %s: bad entry", k->config[0]);
        values[(*n)++] = (int32_t)v;
    }
    *n = 4;
    return LM_OK;
}

/* Which layers choose the positions that they look at: a list of kinds, or a text of their letters;
 * or every so many, from the first few on.  Nothing is written of those where nothing is said and
 * readers take all for such that do. */
static int choosing_layers(const struct lm_convert *c, int32_t *values, size_t max, size_t *n,
                           struct lm_err *err)
{
    const struct lm_jval *types = lm_convert_member(c->cfg.json, "indexer_types");
    const struct lm_jval *every = lm_convert_member(c->cfg.json, "index_topk_freq");
    int64_t freq = 1, offset = 2;
    types = types ? types : lm_convert_member(c->cfg.json, "index_topk_pattern");
    const char *text = lm_jval_str(types), *kind;
    const struct lm_jval *t = types && !text ? types->first : NULL;
    if (!types && !every && c->cfg.h.n_ctx_train < 1 << 20)
        return 1;
    lm_jval_i64(every, &freq);
    lm_jval_i64(lm_jval_get(c->cfg.json, "index_skip_topk_offset"), &offset);
    freq = freq < 1 ? 1 : freq;
    if (offset < INT32_MIN || offset > INT32_MAX)
        return lm_fail(err, LM_EDATA, "config.json: index_skip_topk_offset is no number that fits");
    for (*n = 0; *n < c->cfg.h.n_layer && *n < max; ++*n) {
        const int64_t behind = (int64_t)*n - offset + 1;
        values[*n] = (behind > 0 ? behind : 0) % freq == 0;
        if (!types)
            continue;
        kind = text ? text + *n : t ? lm_jval_str(t) : NULL;
        if (!kind || (text ? *kind != 'F' && *kind != 'S'
                           : strcmp(kind, "full") != 0 && strcmp(kind, "shared") != 0))
            return lm_fail(err, LM_EDATA, "config.json: no kind of indexer for layer %zu", *n);
        values[*n] = *kind == (text ? 'F' : 'f');
        t = t ? t->next : NULL;
    }
    return LM_OK;
}

int lm_convert_layers(const struct lm_convert *c, const struct lm_arch_key *k, int32_t *values,
                      size_t max, size_t *n, struct lm_err *err)
{
    const struct lm_jval *types = lm_convert_member(c->cfg.json, "layer_types");
    *n = 0;
    if (k->from == LM_FROM_KV_OF_LAYERS || k->from == LM_FROM_RECURRENT_LAYERS)
        return by_attention(c, k, values, max, n, err);
    if (k->from == LM_FROM_INDEXED_LAYERS)
        return choosing_layers(c, values, max, n, err);
    if (k->from == LM_FROM_SECTIONS || k->from == LM_FROM_SECTIONS_SAID)
        return sections(c, k, values, n, err);
    if (k->from == LM_FROM_KV_BY_WINDOW)
        return heads_by_window(c, k, values, max, n, err);
    if (k->from == LM_FROM_FF_OF_KINDS)
        return lengths_of_kinds(c, k, values, max, n, err);
    if (k->from == LM_FROM_FF_OF_LAYERS)
        return lengths(c, k, values, max, n, err);
    if (k->from != LM_FROM_LOCAL_LAYERS || !types || !c->cfg.h.window)
        return 1;
    for (const struct lm_jval *t = types->first; t; t = t->next) {
        const char *s = lm_jval_str(t);
        if (!s || *n == max)
            return lm_fail(err, LM_EDATA, "config.json: layer_types: bad entry");
        values[(*n)++] = !strcmp(s, "sliding_attention");
    }
    return LM_OK;
}

/* The quantile of the normal distribution at p, as the family's code has it: in float32, from the
 * inverse of the error function, which is found by Newton's way. */
static float quantile(double p)
{
    const float y = 2 * (float)p - 1;
    double x = 0;
    if (!(y > -1 && y < 1))
        return y < 0 ? -INFINITY : INFINITY;
    for (int i = 0; i < 100; i++)
        x -= (erf(x) - (double)y) * 0.886226925452758 * exp(x * x);
    return (float)x * 1.41421356f;
}

int lm_convert_sparse(const struct lm_convert *c, const struct lm_arch_key *k, float *values,
                      size_t *n, struct lm_err *err)
{
    const struct lm_jval *v = lm_convert_member(c->cfg.json, k->config[0]);
    double share = 0;
    const bool list = v && v->kind == LM_JSON_ARRAY;
    const struct lm_jval *m = list ? v->first : v;
    for (*n = 0; m && *n < c->cfg.h.n_layer && *n < LM_MAX_LAYERS; ++*n) {
        if (!lm_jval_f64(m, &share) || !(share >= 0 && share < 1))
            return lm_fail(err, LM_EDATA, "config.json: %s: bad entry", k->config[0]);
        values[*n] = quantile(share);
        m = list ? m->next : m;
    }
    if (*n < c->cfg.h.n_layer || (list && m))
        return lm_fail(err, LM_EDATA, "config.json: %s: not a number for each of %u layers",
                       k->config[0], c->cfg.h.n_layer);
    return LM_OK;
}
